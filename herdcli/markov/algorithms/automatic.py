"""The strategy of `auto` if no exact answer fits: several approximations of different kinds, and the one that the others confirm best.

Generalised propagation over plaquettes comes first, damped; then propagation.  They minimise free energies of different orders, so that
at least one is wrong if their marginals differ.  If the regions cover every loop once, as on lattices, the wrong one is
propagation, and the regions are used.  Otherwise tree EP is run too, and two of the three that agree are accepted.  If no two
agree, or if on lattices regions and propagation are far apart, Gibbs chains decide: an approximation within their standard
errors is confirmed, otherwise the chains are the answer.  A short run at one temperature comes first: if its R̂ is good, no other
temperatures are needed.  UPS comes last, if nothing has converged and no chains were run.
Cost is counted in visited table cells (for chains, couplings), so that the speed of a machine never changes an answer.
Source: Yedidia, Freeman & Weiss (2005) for the hierarchy of region graphs; Gelman et al. (2013), sec. 11.4, for R̂.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from typing import Any

import numpy as np

from herdcli.errors import DataError, Diverged, HerdError, MemoryLimitExceeded, NegativeResult
from herdcli.markov.method import Delegate, InferenceMethod, InferenceResult, InferenceSettings, MethodState
from herdcli.markov.model.network import Network
from herdcli.records import dataclass
from herdcli.schema import Array

MILLION = 1_000_000
DAMPING = 0.5  # damping of gbp, which diverges on most networks with loops if it is not damped
HEAVIER = 0.75  # damping of gbp in a second run, if the first one has not converged
LEAST = 50  # minimum number of iterations of generalised propagation, and of sweeps of chains
LARGEST = 1 << 19  # for a network with more table cells the search for regions takes longer than everything else
CLOSE = 1e-3  # two approximations agree if the mean difference of their marginals is at most this
THIRD = 40  # number of iterations of tree EP, which is run only if their cost is at most MOST_THIRD
MOST_THIRD = 125 * MILLION
SOON = 8  # after this many iterations the residual must fall fast enough to reach the tolerance within THIRD
FAR = 1e-2  # regions that cover every loop once are doubtful if their mean difference from propagation is larger than this
PILOT = 224  # number of steps of the short chains that decide whether other temperatures are needed
MIXED = 1.1  # other temperatures are not needed if the largest R̂ of the short chains is below this
HOPELESS, HIGH = 200, 0.1  # propagation is abandoned if its residual is above HIGH after HOPELESS steps, if the regions are trusted
BORNE = 1.0  # an approximation is confirmed if its mean difference from the chains is at most this many of their standard errors
CHAINS = "tempered-gibbs"
OPINIONS = ("gbp", "tree-ep", "bp")  # if several agree equally well, the first is the answer


@dataclass(frozen=True)
class MethodAttempt:
    """One algorithm to run.

    why       the reason, in words.
    settings  its settings.
    method    the method, if it has been constructed.
    work      cost of one step (0: not counted).
    whole     total cost that is charged even if it ends early, so that the remaining budget does not depend on that.
    """

    name: str
    why: str
    settings: InferenceSettings
    method: InferenceMethod | None = None
    work: float = 0.0
    whole: float = 0.0

    def cost(self, steps: int) -> float:
        """Return the cost that is charged for some steps."""
        return self.whole or self.work * steps

    def is_tolerated(self, error: HerdError) -> bool:
        """Return True if other algorithms can be tried after this error.

        bp needs the least memory; chains may fail because they find no initial state.
        """
        if isinstance(error, DataError):
            return isinstance(error, MemoryLimitExceeded) and self.name != "bp"
        return isinstance(error, Diverged) or self.name == CHAINS


@dataclass
class AutomaticChoice:
    """The results of all attempts, and the remaining budget.

    left      remaining cost.
    sampled   True if the caller can use chains.
    allowed   returns how many steps of a method there is time for, if time is limited.
    unbegun   algorithms that failed before their first step.
    unsure    True for a plan, whose approximations have not run to their ends.
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

    def attempts(self) -> Iterator[MethodAttempt]:
        """Yield the algorithms to run; `add` must be called with the result of each before the next one is requested."""
        from herdcli.markov import algorithms

        why = self.why
        if (first := self._plan_gbp_attempt(why)) is not None:
            yield first
            again = None
            if not self._has_converged("gbp") and "gbp" not in self.unbegun and not self.settings.damping:
                again = self._plan_gbp_attempt("again with more damping, because it did not converge", HEAVIER)
            if again is not None:
                yield again
            why = "to check the result of gbp" if self._has_converged("gbp") else "because gbp did not converge"
            why = why if "gbp" in self.found else "because gbp gave no answer"
            if self._is_gbp_trusted(first):
                why = "to check the result of gbp, whose regions cover every loop once"
        asked = replace(self.settings, algorithm="bp")
        made: InferenceMethod | None = None
        if first is not None and self._is_gbp_trusted(first):
            with suppress(Diverged):  # tables that span more than float64; the attempt itself reports it
                made = EarlyStopping(algorithms.make_inference_method(self.network, asked), _is_far_from_convergence)
        yield MethodAttempt("bp", why, asked, made)
        if first is not None:
            doubt = FAR if self._is_gbp_trusted(first) else CLOSE
            if (
                self.mean_marginal_difference() > doubt
                and not self._is_gbp_trusted(first)
                and (third := self._plan_tree_ep_attempt()) is not None
            ):
                yield third
            if self.mean_marginal_difference() > doubt and (pilot := self._plan_short_chains()) is not None:
                yield pilot
                if CHAINS in self.found and (chains := self._plan_long_chains(pilot.method)) is not None:
                    yield chains
        if CHAINS not in self.found and not any(map(self._has_converged, self.found)):
            why = "because bp did not converge" if first is None else "because no other algorithm converged"
            yield MethodAttempt("ups", why, replace(self.settings, algorithm="ups"))

    def _plan_gbp_attempt(self, why: str, damping: float = DAMPING) -> MethodAttempt | None:
        """Return generalised propagation, if the budget allows some iterations."""
        from herdcli.markov import algorithms

        if len(self.network.table) > LARGEST:
            return None
        kind = "plaquettes" if self.settings.regions == "auto" else self.settings.regions
        asked = replace(self.settings, algorithm="gbp", regions=kind, damping=self.settings.damping or damping)
        try:
            made: Any = algorithms.make_inference_method(self.network, asked)
        except DataError:
            return None
        work = max(1.0, made.regions.work_per_iteration(self.network.cardinality))
        if LEAST * work > self.left or (damping != DAMPING and self._exceeds_time(made, LEAST)):
            return None
        made.steps = int(min(made.steps, self.left // work))
        return MethodAttempt("gbp", why, asked, made, work)

    def _exceeds_time(self, method: InferenceMethod, steps: int) -> bool:
        """Return True if there is no time for this number of steps.

        The cost of an algorithm that is not begun is not charged, so the reported effort does not contain it either.
        """
        return self.allowed is not None and self.allowed(method) < steps

    def _is_gbp_trusted(self, first: MethodAttempt) -> bool:
        """Return True if gbp converged over regions that cover every loop once."""
        made: Any = first.method
        return self._has_converged("gbp") and bool(made.regions.is_balanced())

    def _plan_tree_ep_attempt(self) -> MethodAttempt | None:
        """Return tree EP, if some iterations are cheap and within the budget.

        The cost of all these iterations is charged, even if a time limit ends them early, so that the reported effort reproduces the run.
        """
        from herdcli.markov import algorithms

        asked = replace(self.settings, algorithm="tree-ep", iterations=min(self.settings.iterations, THIRD))
        made: Any = algorithms.make_inference_method(self.network, asked)
        whole = THIRD * max(1.0, made.work_per_step())
        if whole > min(self.left, MOST_THIRD) or self._exceeds_time(made, THIRD):
            return None
        return MethodAttempt("tree-ep", self._reason_for_doubt(), asked, EarlyStopping(made, partial(_is_tree_ep_slow, made)), whole=whole)

    def _plan_short_chains(self) -> MethodAttempt | None:
        """Return a short run of chains at the network's own temperature, if the budget also allows longer ones at the same cost."""
        if not self.sampled:
            return None
        from herdcli.markov import algorithms

        asked = replace(self.settings, algorithm=CHAINS, temperatures=1, sweeps=PILOT // 4 * 3, burn_in=PILOT // 4 - 1)
        try:
            made: Any = algorithms.make_inference_method(self.network, asked)
        except NegativeResult:
            return None
        if made.steps * made.work_per_step() > self.left or self._exceeds_time(made, 2 * made.steps):
            return None
        return MethodAttempt(CHAINS, self._reason_for_doubt(), asked, made, max(1.0, float(made.work_per_step())))

    def _plan_long_chains(self, short: Any) -> MethodAttempt | None:
        """Return chains with as many sweeps as the budget allows, at several temperatures if the short run has not mixed."""
        mixed = CHAINS in self.found and self.found[CHAINS].attributes["residual"] < MIXED - 1
        made = short.with_settings(replace(short.settings, temperatures=1 if mixed else 0))
        work, count = max(1.0, float(made.work_per_step())), len(made.powers)
        steps = self.allowed(made) if self.allowed else int(self.left // work)
        # The number of sweeps is a multiple of 24, with a third more for burn-in, so that the reported effort gives the same numbers.
        sweeps = min(self.settings.sweeps // 24 * 24, (steps - count) // 32 * 24)
        if sweeps < LEAST:
            return None
        asked = replace(made.settings, sweeps=sweeps, burn_in=sweeps // 3)
        why = "again with more sweeps" if mixed or count == 1 else "again at several temperatures, because the chains did not mix"
        return MethodAttempt(CHAINS, why, asked, made.with_settings(asked), work)

    def add(self, attempt: MethodAttempt, result: InferenceResult | None, steps: int) -> None:
        """Record the result of an attempt (None: it failed) after some steps."""
        self.left = max(0.0, self.left - attempt.cost(steps))
        if result is not None and not self._has_better_attempt(attempt.name, result):
            self.found[attempt.name] = result
        if result is None and not steps:
            self.unbegun.add(attempt.name)

    def _has_better_attempt(self, name: str, result: InferenceResult) -> bool:
        """Return True if an earlier attempt of the same name came closer to its fixed point."""
        if name == CHAINS or name not in self.found or result.attributes["converged"]:
            return False
        return bool(self.found[name].attributes["residual"] < result.attributes["residual"])

    def _has_converged(self, name: str) -> bool:
        return name in self.found and bool(self.found[name].attributes.get("converged", True))

    def _reason_for_doubt(self) -> str:
        """The reason, in words, why the results without chains are not accepted yet."""
        names = [name for name in ("gbp", "bp", "tree-ep") if name in self.found]
        if len(names) < 2:
            return f"because no other algorithm confirms {names[0]}" if names else "because no algorithm has given an answer"
        return f"because {', '.join(names[:-1])} and {names[-1]} disagree"

    def mean_marginal_difference(self) -> float:
        """Return the mean difference of the marginals of the two closest approximations; infinite if there is only one."""
        if self.unsure:
            return float("inf")
        return min((self._distance_from_others(name) for name in OPINIONS if self._has_converged(name)), default=float("inf"))

    def _distance_from_others(self, name: str, among: tuple[str, ...] = OPINIONS) -> float:
        """Return the mean difference from the closest of the others; infinite if there is none."""
        mine = _flatten_marginals(self.found[name])
        others = [_flatten_marginals(found) for other, found in self.found.items() if other != name and other in among]
        return min((float(np.abs(mine - other).mean()) for other in others), default=float("inf"))

    def select_best_result(self) -> tuple[InferenceResult, str, str]:
        """Return the answer that the others confirm, its name, and a note for the user."""
        scores: dict[str, float] = {name: self._score_result(name) for name in (CHAINS, *OPINIONS, "ups") if name in self.found}
        converged = [name for name in scores if self._has_converged(name)] or list(scores)
        if CHAINS in scores:
            near = {name: self._distance_from_others(name, (CHAINS,)) for name in converged if name in OPINIONS}
            borne = [name for name, apart in near.items() if apart <= BORNE * scores[CHAINS]]
            converged = borne or [CHAINS]
            scores |= near
        name = min(converged, key=lambda name: (scores[name], list(scores).index(name)))
        told = ", ".join(
            f"{name} {score:.2g}" + ("" if self._has_converged(name) else " (not converged)") for name, score in scores.items()
        )
        return self._result_with_log_z(name), name, f"the answer is that of {name}; disagreement with the other answers: {told}"

    def _score_result(self, name: str) -> float:
        """Return the score of a result: the mean standard error of chains, otherwise the distance from the closest other result.

        The score of a result that has not converged is its residual.
        """
        found = self.found[name]
        if name == CHAINS:
            errors: list[Array] = [p for p in found.attributes["standard_error"] if len(p) > 1]
            return float(np.concatenate(errors).mean()) if errors else 0.0
        if not self._has_converged(name):
            return float(found.attributes["residual"])
        apart = self._distance_from_others(name)
        return apart if np.isfinite(apart) else 0.0

    def _result_with_log_z(self, name: str) -> InferenceResult:
        """Return the result of algorithm `name`.

        Gibbs chains do not estimate log Z; theirs is taken from generalised or else ordinary belief propagation, if one has converged.
        """
        found = self.found[name]
        if name != CHAINS:
            return found
        other = next((self.found[like].attributes for like in ("gbp", "bp") if self._has_converged(like)), None)
        return (
            found if other is None else replace(found, attributes=found.attributes | {key: other[key] for key in ("log_z", "free_energy")})
        )


@dataclass(frozen=True)
class EarlyStopping(Delegate):
    """A method that also ends early if it is hopeless, for results that are only used if they converge."""

    lost: Callable[[MethodState], bool]

    def done(self, state: MethodState) -> bool:
        """Return True if the method is done, or hopeless."""
        return self.method.done(state) or self.lost(state)


def _is_far_from_convergence(state: MethodState) -> bool:
    """Return True if propagation, which runs in addition to regions that are trusted, is far from any fixed point."""
    return is_propagation_hopeless(state.residual)


def _is_tree_ep_slow(method: Any, state: MethodState) -> bool:
    """Return True if the residual of tree EP, after the first iterations, falls too slowly to reach the tolerance in time."""
    if state.step != SOON:
        return False
    expected = method.estimate_total_steps(state)
    return expected is None or expected >= method.steps


def is_propagation_hopeless(residual: Array) -> bool:
    """Return True if the residual of propagation is still high, and has not halved since the first steps."""
    if len(residual) < HOPELESS or not residual[-1] > HIGH:
        return False
    half = HOPELESS // 2
    return bool(residual[-half:].min() > 0.5 * residual[:half].min())


def _flatten_marginals(result: InferenceResult) -> Array:
    """Return the marginals of all variables with more than one state, concatenated."""
    made: Array = np.concatenate([p for p in result.nodes if len(p) > 1])
    return made
