"""Several numbers of components one after another as one algorithm: the one whose criterion is smallest is kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field

from herdcli.algorithm import Progress
from herdcli.em.driver import EM, Fit, State
from herdcli.records import dataclass

Score = Callable[[int, Fit], float]


@dataclass
class SearchState:
    """The run of the candidate at work, and what came of those before it."""

    step: int
    now: State
    best: State
    scores: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Found:
    """The fit that was kept, its number of components, and the criterion of every number tried."""

    fit: Fit
    size: int
    scores: tuple[float, ...]


@dataclass(frozen=True)
class Search:
    """Runs of EM for each of `sizes` components.

    score     the criterion of a fit, None where there is one candidate.
    patience  candidates in a row that may be worse than the best before the search ends; None: all are tried.
    """

    sizes: tuple[int, ...]
    runs: tuple[EM, ...]
    score: Score | None = None
    patience: int | None = None

    @property
    def state(self) -> type[SearchState]:
        """The type of its states."""
        return SearchState

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
        at = len(state.scores)
        run = self.runs[at]
        state.now = run.step(state.now)
        state.step += 1
        if run.done(state.now):
            score = 0.0 if self.score is None else self.score(self.sizes[at], run.result(state.now))
            if score < min(state.scores, default=math.inf) or not state.scores:
                state.best = state.now
            state.scores.append(score)
            if not self.done(state):
                state.now = self.runs[at + 1].init()
        return state

    def done(self, state: SearchState) -> bool:
        """Whether every candidate has ended."""
        tried = len(state.scores)
        if tried >= len(self.runs) or not tried or self.patience is None:
            return tried >= len(self.runs)
        return tried - 1 - state.scores.index(min(state.scores)) >= self.patience

    def memory(self) -> int:
        """Bytes of the largest candidate."""
        return max(run.memory() for run in self.runs)

    def progress(self, state: SearchState) -> Progress:
        """Steps, the number of components at work and its log-likelihood."""
        at = min(len(state.scores), len(self.runs) - 1)
        most = [run.progress(state.now).bound or 0 for run in self.runs]
        several = f"{self.sizes[at]} components, " if len(self.sizes) > 1 else ""
        return Progress(state.step, sum(most), several + self.runs[at].progress(state.now).figure)

    def result(self, state: SearchState) -> Found:
        """The candidate with the smallest criterion, the first of equals."""
        at = state.scores.index(min(state.scores))
        return Found(self.runs[at].result(state.best), self.sizes[at], tuple(state.scores))
