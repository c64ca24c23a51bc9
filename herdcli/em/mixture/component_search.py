"""Several numbers of components one after another as one algorithm: the one whose criterion is smallest is kept."""

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
    """The run of the candidate at work, and what came of those before it."""

    step: int
    now: EMState
    best: EMState
    scores: list[float] = field(default_factory=list)
    refining: bool = False  # the one that was kept is at work again


@dataclass(frozen=True)
class SearchResult:
    """The fit that was kept, its number of components, and the criterion of every number tried."""

    fit: EMFit
    size: int
    scores: tuple[float, ...]


@dataclass(frozen=True)
class ComponentSearch(HasStateShapes[SearchState]):
    """Runs of EM for each of `sizes` components.

    score     the criterion of a fit, None where there is one candidate.
    patience  candidates in a row that may be worse than the best before the search ends; None: all are tried.
    finer     the same runs with the tolerance of the result, where `runs` have a larger one to choose by: the best goes on with it.
    """

    sizes: tuple[int, ...]
    runs: tuple[EM, ...]
    score: Score | None = None
    patience: int | None = None
    finer: tuple[EM, ...] = ()
    state = SearchState  # the type of its states

    def like(self) -> SearchState:
        """The first candidate, without its start."""
        now = self.runs[0].like()
        return SearchState(0, now, now)

    def init(self) -> SearchState:
        """The first candidate before its first E step."""
        now = self.runs[0].init()
        return SearchState(0, now, now)

    def step(self, state: SearchState) -> SearchState:
        """A step of the candidate at work; after its last one the next begins."""
        if state.refining:
            return self._refine_step(state)
        at = len(state.scores)
        run = self.runs[at]
        state.now = run.step(state.now)
        state.step += 1
        if run.done(state.now):
            score = self._score(at, run.result(state.now))
            if score < min(state.scores, default=math.inf) or not state.scores:
                state.best = state.now
            state.scores.append(score)
            if not self._all_candidates_ended(state):
                state.now = self.runs[at + 1].init()
            elif self.finer:
                state.refining, state.now = True, self.finer[self._best(state)].resumed(state.best)
        return state

    def _refine_step(self, state: SearchState) -> SearchState:
        """A step of the candidate that was kept, with the tolerance of the result."""
        at = self._best(state)
        run = self.finer[at]
        state.now = run.step(state.now)
        state.step += 1
        if run.done(state.now):
            state.best, state.refining = state.now, False
            state.scores[at] = min(state.scores[at], self._score(at, run.result(state.now)))
        return state

    def _score(self, at: int, fit: EMFit) -> float:
        return 0.0 if self.score is None else self.score(self.sizes[at], fit)

    def _best(self, state: SearchState) -> int:
        """The place of the candidate with the smallest criterion, the first of equals."""
        return state.scores.index(min(state.scores))

    def _all_candidates_ended(self, state: SearchState) -> bool:
        """Whether every candidate that is to be tried has ended."""
        tried = len(state.scores)
        if tried >= len(self.runs) or not tried or self.patience is None:
            return tried >= len(self.runs)
        return tried - 1 - self._best(state) >= self.patience

    def done(self, state: SearchState) -> bool:
        """Whether a candidate was chosen, and has ended."""
        return self._all_candidates_ended(state) and not state.refining

    def memory(self) -> int:
        """Bytes of the largest candidate."""
        return max(run.memory() for run in self.runs)

    def progress(self, state: SearchState) -> RunProgress:
        """Steps, the number of components at work and its log-likelihood."""
        at = self._best(state) if state.refining else min(len(state.scores), len(self.runs) - 1)
        several = f"{self.sizes[at]} components, " if len(self.sizes) > 1 else ""
        most = [run.progress(state.now).bound or 0 for run in self.runs]
        return RunProgress(state.step, sum(most) + max(most) * bool(self.finer), several + self.runs[at].progress(state.now).figure)

    def result(self, state: SearchState) -> SearchResult:
        """The candidate with the smallest criterion, the first of equals."""
        at = self._best(state)
        return SearchResult((self.finer or self.runs)[at].result(state.best), self.sizes[at], tuple(state.scores))
