"""What `auto` does where no exact answer fits: several approximations of different kinds, and the one that the others bear out best.

Generalised propagation over plaquettes comes first, damped; then propagation.  They minimise free energies of different orders, so
where their marginals differ, one of them at least is wrong.  Where the regions cover every loop once, as on lattices, it is
propagation, and the regions are the answer.  Elsewhere tree EP is asked too, and two of the three that agree are believed.  Where no
two do, Gibbs chains decide, if they can be had and have mixed (R̂): their standard error is then the smaller disagreement.  UPS comes
last, where nothing has converged.

Work is counted in table cells (for chains, couplings) that are visited, so that the speed of a machine never changes an answer.
Source: Yedidia, Freeman & Weiss (2005) for the hierarchy of region graphs; Gelman et al. (2013), sec. 11.4, for R̂.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from typing import Any

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.markov.method import Method, Result, Settings
from herdcli.markov.model.network import Network
from herdcli.records import dataclass
from herdcli.schema import Array

MILLION = 1_000_000
DAMPING = 0.5  # of gbp, which without any diverges on most loops
HEAVIER = 0.75  # where it has not converged with that
LEAST = 50  # iterations below which generalised propagation is not begun, sweeps below which chains are not
LARGEST = 1 << 19  # table cells of a network beyond which regions take longer to find than all else
CLOSE = 1e-3  # mean difference of marginals at which two approximations agree
THIRD = 40  # iterations of tree EP, which is asked where they cost at most so much:
MOST_THIRD = 125 * MILLION
OPINIONS = ("gbp", "tree-ep", "bp")  # of several that agree as well the first is the answer


@dataclass(frozen=True)
class Attempt:
    """One algorithm to run: why, with which settings, made already or not, and the work of one of its steps (0: not counted).

    whole  what it is charged however early it ends, so that what is left does not depend on that.
    """

    name: str
    why: str
    settings: Settings
    method: Method | None = None
    work: float = 0.0
    whole: float = 0.0

    def cost(self, steps: int) -> float:
        """What so many steps are charged."""
        return self.whole or self.work * steps


@dataclass
class Choice:
    """What was tried, and what may still be spent.

    left  work.  sampled  whether chains are of use to who asked.  allowed  how many steps of a method there is time for, if time counts.
    """

    network: Network
    settings: Settings
    why: str
    left: float
    sampled: bool = True
    allowed: Callable[[Method], int] | None = None
    found: dict[str, Result] = field(default_factory=dict)

    def attempts(self) -> Iterator[Attempt]:
        """The algorithms in turn; `add` tells what came of each before the next one is asked for."""
        why = self.why
        if (first := self._regions(why)) is not None:
            yield first
            again = None
            if not self._converged("gbp") and not self.settings.damping:
                again = self._regions("again with more damping, as it did not converge", HEAVIER)
            if again is not None:
                yield again
            why = "beside gbp, which is as good as they agree" if self._converged("gbp") else "as gbp did not converge"
            if self._trusted(first):
                why = "beside gbp, whose regions cover every loop once"
        yield Attempt("bp", why, replace(self.settings, algorithm="bp"))
        if first is not None and not self._trusted(first):
            if self.disagreement() > CLOSE and (third := self._tree_ep()) is not None:
                yield third
            if self.disagreement() > CLOSE and (chains := self._chains()) is not None:
                yield chains
        if not any(map(self._converged, self.found)):
            why = "as bp did not converge" if first is None else "as nothing else converged"
            yield Attempt("ups", why, replace(self.settings, algorithm="ups"))

    def _regions(self, why: str, damping: float = DAMPING) -> Attempt | None:
        """Generalised propagation, if what may be spent is enough for some iterations of it."""
        from herdcli.markov import algorithms

        if len(self.network.table) > LARGEST:
            return None
        kind = "plaquettes" if self.settings.regions == "auto" else self.settings.regions
        asked = replace(self.settings, algorithm="gbp", regions=kind, damping=self.settings.damping or damping)
        try:
            made: Any = algorithms.method(self.network, asked)
        except DataError:
            return None
        work = max(1.0, made.regions.work(self.network.cardinality))
        if LEAST * work > self.left or (damping != DAMPING and self._late(made, LEAST)):
            return None
        made.steps = int(min(made.steps, self.left // work))
        return Attempt("gbp", why, asked, made, work)

    def _late(self, method: Method, steps: int) -> bool:
        """Is there no time for so many steps?  What is not begun is not counted, and the effort that is told leaves it out again."""
        return self.allowed is not None and self.allowed(method) < steps

    def _trusted(self, first: Attempt) -> bool:
        """Did gbp converge over regions that cover every loop once?"""
        made: Any = first.method
        return self._converged("gbp") and bool(made.regions.balanced())

    def _tree_ep(self) -> Attempt | None:
        """Tree EP, where some iterations of it are cheap and may be spent.

        They are counted in full, under a limit of time too: so the effort that is told repeats the run.
        """
        from herdcli.markov import algorithms

        asked = replace(self.settings, algorithm="tree-ep")
        made: Any = algorithms.method(self.network, asked)
        whole = THIRD * max(1.0, made.work())
        if whole > min(self.left, MOST_THIRD) or self._late(made, THIRD):
            return None
        made.steps = min(made.steps, THIRD)
        return Attempt("tree-ep", "as gbp and bp disagree", asked, made, whole=whole)

    def _chains(self) -> Attempt | None:
        """Gibbs chains with as many sweeps as may be spent, where they work on this network."""
        from herdcli.markov import algorithms

        if not self.sampled:
            return None
        asked = replace(self.settings, algorithm="gibbs")
        try:
            made: Any = algorithms.method(self.network, asked)
        except BadUsage:
            return None
        work = max(1.0, float(made.work()))
        steps = self.allowed(made) if self.allowed else int(self.left // work)
        sweeps = (min(asked.sweeps, steps - asked.burn_in) // 2) * 2  # halves of a run are compared
        if sweeps < LEAST:
            return None
        asked = replace(asked, sweeps=sweeps)
        return Attempt("gibbs", f"as {self._named()} disagree", asked, algorithms.method(self.network, asked), work)

    def add(self, attempt: Attempt, found: Result | None, steps: int) -> None:
        """What came of an attempt (None: it failed) after so many steps."""
        self.left = max(0.0, self.left - attempt.cost(steps))
        if found is not None and not self._worse(attempt.name, found):
            self.found[attempt.name] = found

    def _worse(self, name: str, found: Result) -> bool:
        """Was there one of the same name that came nearer to its fixed point?"""
        if name not in self.found or found.attributes["converged"]:
            return False
        return bool(self.found[name].attributes["residual"] < found.attributes["residual"])

    def _converged(self, name: str) -> bool:
        return name in self.found and bool(self.found[name].attributes.get("converged", True))

    def _named(self) -> str:
        """What there is beside chains, as words."""
        names = [name for name in ("gbp", "bp", "tree-ep") if name in self.found]
        return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)

    def disagreement(self) -> float:
        """Mean difference of the marginals of the two approximations that are nearest to each other; infinite where one is alone."""
        return min((self._apart(name) for name in OPINIONS if self._converged(name)), default=float("inf"))

    def _apart(self, name: str) -> float:
        """Mean difference from the nearest of the others; infinite where there is none."""
        mine = _flat(self.found[name])
        others = [_flat(found) for other, found in self.found.items() if other != name and other in OPINIONS]
        return min((float(np.abs(mine - other).mean()) for other in others), default=float("inf"))

    def best(self) -> tuple[Result, str, str]:
        """The answer with the smallest disagreement, its name, and what to tell of it."""
        scores: dict[str, float] = {name: self._score(name) for name in ("gibbs", *OPINIONS, "ups") if name in self.found}
        converged = [name for name in scores if self._converged(name)] or list(scores)
        name = min(converged, key=lambda name: (scores[name], list(scores).index(name)))
        told = ", ".join(f"{name} {score:.2g}" + ("" if self._converged(name) else " (not converged)") for name, score in scores.items())
        return self._with_log_z(name), name, f"disagreement of {told}: {name} is the answer"

    def _score(self, name: str) -> float:
        """For chains their mean standard error, else how far the nearest other is; of what has not converged its residual."""
        found = self.found[name]
        if not self._converged(name):
            return float(found.attributes["residual"])
        if name == "gibbs":
            errors: list[Array] = [p for p in found.attributes["standard_error"] if len(p) > 1]
            return float(np.concatenate(errors).mean()) if errors else 0.0
        apart = self._apart(name)
        return apart if np.isfinite(apart) else 0.0

    def _with_log_z(self, name: str) -> Result:
        """A result; chains give no log Z, so theirs is that of gbp."""
        found = self.found[name]
        if name != "gibbs":
            return found
        other = next(self.found[like].attributes for like in ("gbp", "bp") if like in self.found)
        return replace(found, attributes=found.attributes | {key: other[key] for key in ("log_z", "free_energy")})


def _flat(found: Result) -> Array:
    """The marginals of all variables that have more than one state, one after the other."""
    made: Array = np.concatenate([p for p in found.nodes if len(p) > 1])
    return made
