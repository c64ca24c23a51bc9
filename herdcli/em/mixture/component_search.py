"""A search over numbers of components as one algorithm, which keeps the fit with the smallest criterion."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field

from herdcli.algorithm import HasStateShapes, RunProgress
from herdcli.em.driver import EM, EMFit, EMState
from herdcli.records import dataclass

Score = Callable[[int, EMFit], float]


@dataclass
class SearchState:
    """The run of the current candidate, and the results of those before it."""

    step: int
    now: EMState
    best: EMState
    scores: list[float] = field(default_factory=list)
    refining: bool = False  # whether the chosen candidate is being refined


@dataclass(frozen=True)
class SearchResult:
    """The chosen fit, its number of components, and the criterion of every number tried."""

    fit: EMFit
    size: int
    scores: tuple[float, ...]


@dataclass(frozen=True)
class ComponentSearch(HasStateShapes[SearchState]):
    """A search that runs EM for each number of components in `sizes`.

    score     the criterion of a fit, None if there is one candidate.
    patience  consecutive candidates that may be worse than the best before the search ends; None: all are tried.
    finer     the same runs with the final tolerance, if `runs` have a larger one for the search: the best candidate continues with it.
    """

    sizes: tuple[int, ...]
    runs: tuple[EM, ...]
    score: Score | None = None
    patience: int | None = None
    finer: tuple[EM, ...] = ()
    state = SearchState  # the type of its states

    def state_template(self) -> SearchState:
        """Return the first candidate without its initial parameters."""
        now = self.runs[0].state_template()
        return SearchState(0, now, now)

    def init(self) -> SearchState:
        """Return the first candidate before its first E step."""
        now = self.runs[0].init()
        return SearchState(0, now, now)

    def step(self, state: SearchState) -> SearchState:
        """Take a step of the current candidate; after its last step begin the next candidate."""
        if state.refining:
            return self._refine_step(state)
        at = len(state.scores)
        run = self.runs[at]
        state.now = run.step(state.now)
        state.step += 1
        if run.done(state.now):
            score = self._candidate_criterion(at, run.result(state.now))
            if score < min(state.scores, default=math.inf) or not state.scores:
                state.best = state.now
            state.scores.append(score)
            if not self._all_candidates_ended(state):
                state.now = self.runs[at + 1].init()
            elif self.finer:
                state.refining, state.now = True, self.finer[self._best_candidate_index(state)].resume_best_restart(state.best)
        return state

    def _refine_step(self, state: SearchState) -> SearchState:
        """Take a step of the chosen candidate with the final tolerance."""
        at = self._best_candidate_index(state)
        run = self.finer[at]
        state.now = run.step(state.now)
        state.step += 1
        if run.done(state.now):
            state.best, state.refining = state.now, False
            state.scores[at] = min(state.scores[at], self._candidate_criterion(at, run.result(state.now)))
        return state

    def _candidate_criterion(self, at: int, fit: EMFit) -> float:
        return 0.0 if self.score is None else self.score(self.sizes[at], fit)

    def _best_candidate_index(self, state: SearchState) -> int:
        """Return the index of the candidate with the smallest criterion, the first of equals."""
        return state.scores.index(min(state.scores))

    def _all_candidates_ended(self, state: SearchState) -> bool:
        """Return whether the search over candidates has ended."""
        tried = len(state.scores)
        if tried >= len(self.runs) or not tried or self.patience is None:
            return tried >= len(self.runs)
        return tried - 1 - self._best_candidate_index(state) >= self.patience

    def done(self, state: SearchState) -> bool:
        """Return whether a candidate is chosen and its run has ended."""
        return self._all_candidates_ended(state) and not state.refining

    def memory(self) -> int:
        """Return the bytes of the largest candidate."""
        return max(run.memory() for run in self.runs)

    def progress(self, state: SearchState) -> RunProgress:
        """Return the steps, the current number of components and its log-likelihood."""
        at = self._best_candidate_index(state) if state.refining else min(len(state.scores), len(self.runs) - 1)
        several = f"{self.sizes[at]} components, " if len(self.sizes) > 1 else ""
        most = [run.progress(state.now).bound or 0 for run in self.runs]
        return RunProgress(state.step, sum(most) + max(most) * bool(self.finer), several + self.runs[at].progress(state.now).figure)

    def result(self, state: SearchState) -> SearchResult:
        """Return the candidate with the smallest criterion, the first of equals."""
        at = self._best_candidate_index(state)
        return SearchResult((self.finer or self.runs)[at].result(state.best), self.sizes[at], tuple(state.scores))
