"""What `auto` does where no exact answer fits: several approximations of different kinds, and the one that the others bear out best.

Generalised propagation over plaquettes comes first, damped; then propagation.  They minimise free energies of different orders, so
where their marginals differ, one of them at least is wrong.  Where the regions cover every loop once, as on lattices, it is
propagation, and the regions are asked.  Elsewhere tree EP is asked too, and two of the three that agree are believed.  Where no two
do, or where on lattices regions and propagation are far apart, Gibbs chains decide: an approximation that is within their standard
errors is borne out, else the chains are the answer.  A short run without other temperatures comes first: where its R̂ is good, none
are needed.  UPS comes last, where nothing has converged and no chains were run.

Work is counted in table cells (for chains, couplings) that are visited, so that the speed of a machine never changes an answer.
Source: Yedidia, Freeman & Weiss (2005) for the hierarchy of region graphs; Gelman et al. (2013), sec. 11.4, for R̂.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from typing import Any

import numpy as np

from herdcli.errors import DataError, Diverged, HerdError, NegativeResult, NoRoom
from herdcli.markov.method import Delegate, InferenceMethod, InferenceResult, InferenceSettings
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
SOON = 8  # after which it is seen whether its residual falls fast enough to be at the tolerance within those
FAR = 1e-2  # mean difference from propagation that makes regions which cover every loop once doubtful
PILOT = 224  # steps of the chains that tell whether other temperatures are needed
MIXED = 1.1  # their largest R̂ where not
HOPELESS, HIGH = 200, 0.1  # steps after which propagation with this residual is given up, beside regions that are trusted
BORNE = 1.0  # standard errors of the chains, in the mean: what is nearer to them is as good
CHAINS = "tempered-gibbs"
OPINIONS = ("gbp", "tree-ep", "bp")  # of several that agree as well the first is the answer


@dataclass(frozen=True)
class Attempt:
    """One algorithm to run: why, with which settings, made already or not, and the work of one of its steps (0: not counted).

    whole  what it is charged however early it ends, so that what is left does not depend on that.
    """

    name: str
    why: str
    settings: InferenceSettings
    method: InferenceMethod | None = None
    work: float = 0.0
    whole: float = 0.0

    def cost(self, steps: int) -> float:
        """What so many steps are charged."""
        return self.whole or self.work * steps

    def is_tolerated(self, error: HerdError) -> bool:
        """Are there others to try after this error?  bp needs the least memory; chains may only not know where to begin."""
        if isinstance(error, DataError):
            return isinstance(error, NoRoom) and self.name != "bp"
        return isinstance(error, Diverged) or self.name == CHAINS


@dataclass
class AutomaticChoice:
    """What was tried, and what may still be spent.

    left  work.  sampled  whether chains are of use to who asked.  allowed  how many steps of a method there is time for, if time counts.
    unbegun  what failed before its first step.  unsure  is it a plan, whose approximations have not come to their ends?
    """

    network: Network
    settings: InferenceSettings
    why: str
    left: float
    sampled: bool = True
    allowed: Callable[[InferenceMethod], int] | None = None
    found: dict[str, InferenceResult] = field(default_factory=dict)
    unbegun: set[str] = field(default_factory=set)
    unsure: bool = False

    def attempts(self) -> Iterator[Attempt]:
        """The algorithms in turn; `add` tells what came of each before the next one is asked for."""
        from herdcli.markov import algorithms

        why = self.why
        if (first := self._regions(why)) is not None:
            yield first
            again = None
            if not self._converged("gbp") and "gbp" not in self.unbegun and not self.settings.damping:
                again = self._regions("again with more damping, as it did not converge", HEAVIER)
            if again is not None:
                yield again
            why = "beside gbp, which is as good as they agree" if self._converged("gbp") else "as gbp did not converge"
            why = why if "gbp" in self.found else "as gbp gave no answer"
            if self._is_trusted(first):
                why = "beside gbp, whose regions cover every loop once"
        asked = replace(self.settings, algorithm="bp")
        made: InferenceMethod | None = None
        if first is not None and self._is_trusted(first):
            with suppress(Diverged):  # tables that span more than a float64, which is told where the attempt is made
                made = EarlyStopping(algorithms.make_method(self.network, asked), _is_far_from_convergence)
        yield Attempt("bp", why, asked, made)
        if first is not None:
            doubt = FAR if self._is_trusted(first) else CLOSE
            if self.disagreement() > doubt and not self._is_trusted(first) and (third := self._tree_ep()) is not None:
                yield third
            if self.disagreement() > doubt and (pilot := self._pilot()) is not None:
                yield pilot
                if CHAINS in self.found and (chains := self._run_chains(pilot.method)) is not None:
                    yield chains
        if CHAINS not in self.found and not any(map(self._converged, self.found)):
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
            made: Any = algorithms.make_method(self.network, asked)
        except DataError:
            return None
        work = max(1.0, made.regions.work(self.network.cardinality))
        if LEAST * work > self.left or (damping != DAMPING and self._is_too_late(made, LEAST)):
            return None
        made.steps = int(min(made.steps, self.left // work))
        return Attempt("gbp", why, asked, made, work)

    def _is_too_late(self, method: InferenceMethod, steps: int) -> bool:
        """Is there no time for so many steps?  What is not begun is not counted, and the effort that is told leaves it out again."""
        return self.allowed is not None and self.allowed(method) < steps

    def _is_trusted(self, first: Attempt) -> bool:
        """Did gbp converge over regions that cover every loop once?"""
        made: Any = first.method
        return self._converged("gbp") and bool(made.regions.is_balanced())

    def _tree_ep(self) -> Attempt | None:
        """Tree EP, where some iterations of it are cheap and may be spent.

        They are counted in full, under a limit of time too: so the effort that is told repeats the run.
        """
        from herdcli.markov import algorithms

        asked = replace(self.settings, algorithm="tree-ep", iterations=min(self.settings.iterations, THIRD))
        made: Any = algorithms.make_method(self.network, asked)
        whole = THIRD * max(1.0, made.work())
        if whole > min(self.left, MOST_THIRD) or self._is_too_late(made, THIRD):
            return None
        return Attempt("tree-ep", self._reason_for_doubt(), asked, EarlyStopping(made, partial(_is_slow, made)), whole=whole)

    def _pilot(self) -> Attempt | None:
        """A short run of chains at the network's own temperature, where as much again may be spent on longer ones."""
        if not self.sampled:
            return None
        from herdcli.markov import algorithms

        asked = replace(self.settings, algorithm=CHAINS, temperatures=1, sweeps=PILOT // 4 * 3, burn_in=PILOT // 4 - 1)
        try:
            made: Any = algorithms.make_method(self.network, asked)
        except NegativeResult:
            return None
        if made.steps * made.work() > self.left or self._is_too_late(made, 2 * made.steps):
            return None
        return Attempt(CHAINS, self._reason_for_doubt(), asked, made, max(1.0, float(made.work())))

    def _run_chains(self, short: Any) -> Attempt | None:
        """Chains with as many sweeps as may be spent, at other temperatures too where the short run has not mixed."""
        mixed = CHAINS in self.found and self.found[CHAINS].attributes["residual"] < MIXED - 1
        made = short.again(replace(short.settings, temperatures=1 if mixed else 0))
        work, count = max(1.0, float(made.work())), len(made.powers)
        steps = self.allowed(made) if self.allowed else int(self.left // work)
        # A multiple of 24, of which a third more is burn-in: the effort that is told gives the same numbers again.
        sweeps = min(self.settings.sweeps // 24 * 24, (steps - count) // 32 * 24)
        if sweeps < LEAST:
            return None
        asked = replace(made.settings, sweeps=sweeps, burn_in=sweeps // 3)
        why = "again for longer" if mixed or count == 1 else "again at several temperatures, as the chains did not mix"
        return Attempt(CHAINS, why, asked, made.again(asked), work)

    def add(self, attempt: Attempt, result: InferenceResult | None, steps: int) -> None:
        """What came of an attempt (None: it failed) after so many steps."""
        self.left = max(0.0, self.left - attempt.cost(steps))
        if result is not None and not self._has_better_attempt(attempt.name, result):
            self.found[attempt.name] = result
        if result is None and not steps:
            self.unbegun.add(attempt.name)

    def _has_better_attempt(self, name: str, result: InferenceResult) -> bool:
        """Was there one of the same name that came nearer to its fixed point?"""
        if name == CHAINS or name not in self.found or result.attributes["converged"]:
            return False
        return bool(self.found[name].attributes["residual"] < result.attributes["residual"])

    def _converged(self, name: str) -> bool:
        return name in self.found and bool(self.found[name].attributes.get("converged", True))

    def _reason_for_doubt(self) -> str:
        """Why what there is beside chains is not believed yet."""
        names = [name for name in ("gbp", "bp", "tree-ep") if name in self.found]
        if len(names) < 2:
            return f"as no other algorithm confirms {names[0]}" if names else "as nothing gave an answer"
        return f"as {', '.join(names[:-1])} and {names[-1]} disagree"

    def disagreement(self) -> float:
        """Mean difference of the marginals of the two approximations that are nearest to each other; infinite where one is alone."""
        if self.unsure:
            return float("inf")
        return min((self._distance_from_others(name) for name in OPINIONS if self._converged(name)), default=float("inf"))

    def _distance_from_others(self, name: str, among: tuple[str, ...] = OPINIONS) -> float:
        """Mean difference from the nearest of the others; infinite where there is none."""
        mine = _flatten_marginals(self.found[name])
        others = [_flatten_marginals(found) for other, found in self.found.items() if other != name and other in among]
        return min((float(np.abs(mine - other).mean()) for other in others), default=float("inf"))

    def best(self) -> tuple[InferenceResult, str, str]:
        """The answer that the others bear out, its name, and what to tell of it."""
        scores: dict[str, float] = {name: self._score(name) for name in (CHAINS, *OPINIONS, "ups") if name in self.found}
        converged = [name for name in scores if self._converged(name)] or list(scores)
        if CHAINS in scores:
            near = {name: self._distance_from_others(name, (CHAINS,)) for name in converged if name in OPINIONS}
            borne = [name for name, apart in near.items() if apart <= BORNE * scores[CHAINS]]
            converged = borne or [CHAINS]
            scores |= near
        name = min(converged, key=lambda name: (scores[name], list(scores).index(name)))
        told = ", ".join(f"{name} {score:.2g}" + ("" if self._converged(name) else " (not converged)") for name, score in scores.items())
        return self._with_log_z(name), name, f"disagreement of {told}: {name} is the answer"

    def _score(self, name: str) -> float:
        """For chains their mean standard error, else how far the nearest other is; of what has not converged its residual."""
        found = self.found[name]
        if name == CHAINS:
            errors: list[Array] = [p for p in found.attributes["standard_error"] if len(p) > 1]
            return float(np.concatenate(errors).mean()) if errors else 0.0
        if not self._converged(name):
            return float(found.attributes["residual"])
        apart = self._distance_from_others(name)
        return apart if np.isfinite(apart) else 0.0

    def _with_log_z(self, name: str) -> InferenceResult:
        """A result; chains give no log Z, so theirs is that of regions or propagation, if they have converged."""
        found = self.found[name]
        if name != CHAINS:
            return found
        other = next((self.found[like].attributes for like in ("gbp", "bp") if self._converged(like)), None)
        return (
            found if other is None else replace(found, attributes=found.attributes | {key: other[key] for key in ("log_z", "free_energy")})
        )


@dataclass(frozen=True)
class EarlyStopping(Delegate):
    """A method that is done too where it is lost: what is asked for only where it has converged ends once it is known that it will not."""

    lost: Callable[[Any], bool]

    def done(self, state: Any) -> bool:
        """Whether it is done, or hopeless."""
        return self.method.done(state) or self.lost(state)


def _is_far_from_convergence(state: Any) -> bool:
    """Is propagation, beside regions that are trusted, far from any fixed point?"""
    return is_hopeless(state.residual)


def _is_slow(method: Any, state: Any) -> bool:
    """Does the residual of tree EP, after the first iterations, not fall fast enough to be at the tolerance after the last one?"""
    if state.step != SOON:
        return False
    expected = method.expected(state)
    return expected is None or expected >= method.steps


def is_hopeless(residual: Array) -> bool:
    """Has the residual of propagation stayed high, and not fallen by half since the first steps?"""
    if len(residual) < HOPELESS or not residual[-1] > HIGH:
        return False
    half = HOPELESS // 2
    return bool(residual[-half:].min() > 0.5 * residual[:half].min())


def _flatten_marginals(result: InferenceResult) -> Array:
    """The marginals of all variables that have more than one state, one after the other."""
    made: Array = np.concatenate([p for p in result.nodes if len(p) > 1])
    return made
