"""A whole run as one state: the embedding, the rule, swap passes, for one group of rows after the other.

Merge-and-reduce is the same run with a last group: the blocks' weighted atoms are its rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from herdcli.algorithm import Progress
from herdcli.errors import BadUsage
from herdcli.quadrature import active_set, closed_form, embedding, min_norm_point, rules, swap
from herdcli.quadrature.points import by_moments, evaluator, moment_embedding
from herdcli.quadrature.problems import (
    PHASES,
    Group,
    Map,
    Problem,
    Result,
    Settings,
    State,
    drawn_rows,
    group_of,
    is_estimated,
    lengths,
    norm_pairs,
    norm_sizes,
)
from herdcli.quadrature.samples import Continuation
from herdcli.quadrature.space import Space, prefix_distances
from herdcli.quadrature.targets import Moments, Rows
from herdcli.quadrature.weights import MOST_CONDITION
from herdcli.schema import Array


@dataclass
class _Made:
    """What is a function of problem and state alone, such as packed rows, and is kept between steps: for group number `at`."""

    at: int = -1
    group: Group | None = None
    sums: list[embedding.Problem] = field(default_factory=list)
    space: Space | None = None


@dataclass(frozen=True)
class Selection:
    """Choosing atoms, as an algorithm.  map: goes over tiles; it may use threads."""

    problem: Problem
    map: Map = map
    _made: _Made = field(default_factory=_Made, init=False, repr=False, compare=False)

    @property
    def state(self) -> type[State]:
        """The type of its states."""
        return State

    @property
    def steps(self) -> int:
        """Steps of the whole run; phases that end early leave their rest out."""
        return sum(steps for steps, _ in self._phases)

    @cached_property
    def _phases(self) -> list[tuple[int, int]]:
        """(steps, values of k) of the phases of all groups in their order."""
        problem, groups = self.problem, list(self.problem.groups)
        if problem.reduce:
            atoms = sum(group.count for group in groups)
            groups.append(Group(Rows(np.zeros((atoms, groups[0].target.dimension)), np.ones(atoms)), None, problem.reduce))
        phases = []
        for group in groups:
            sums, rule, swaps = lengths(problem, group)
            pairs, column = sum(points * rows for points, rows in norm_sizes(problem, group)), max(1, len(group.points))
            phases += [(sums, pairs), (rule, rule * column), (swaps, swaps * column)]
        return phases

    def memory(self) -> int:
        """Bytes of working memory, inputs not counted: copies of rows for tiles, running sums, and the atoms' Gram matrix."""
        return max(_bytes(self.problem.settings, group) for group in self.problem.groups)

    def done(self, state: State) -> bool:
        """Whether every group is behind it."""
        return state.step >= self.steps

    def progress(self, state: State) -> Progress:
        """With the MMD of the atoms so far, once there are atoms."""
        mmd = _latest(state)
        bounded = "≤ " if mmd is not None and not self.done(state) and self._estimated(state) else ""
        return Progress(state.step, self.steps, "" if mmd is None else f"MMD {bounded}{mmd:.3g}", self._share(state.step))

    def _share(self, step: int) -> float:
        """Of the values of k, which are the work: all pairs in the sums, then a column of the candidates for each atom or swap."""
        steps, work = np.array(self._phases).cumsum(axis=0).T
        return float(np.interp(step, [0, *steps], [0.0, *(work / work[-1])]))

    def result(self, state: State) -> State:
        """The last state, whose groups are all done."""
        return state

    def _estimated(self, state: State) -> bool:
        """Whether the figures of the group it is at are bounds until ‖μ‖² is estimated."""
        groups, norm = self.problem.groups, self.problem.settings.norm
        return state.group < len(groups) and is_estimated(groups[state.group], norm) and not by_moments(self.problem.kernel)

    def init(self) -> State:
        """Nothing done."""
        return State(0, 0, PHASES[0], 0, [], None, None, None, None, [])

    def step(self, state: State) -> State:
        """One step of the phase the state is in, and passage to the next phase that has work."""
        self._pass_idle(state)
        group = self._enter(state)
        ended = getattr(self, f"_{state.phase}")(group, state)
        state.step += 1
        if ended:
            self._leave(group, state)
            self._pass_idle(state)
        return state

    def _pass_idle(self, state: State) -> None:
        """Leave phases without steps."""
        while state.group < self.problem.runs:
            group = self._enter(state)
            if lengths(self.problem, group)[PHASES.index(state.phase)]:
                return
            self._leave(group, state)

    def _leave(self, group: Group, state: State) -> None:
        """The next phase or group, at the step at which it is due."""
        place = PHASES.index(state.phase)
        state.step = state.begun = state.begun + lengths(self.problem, group)[place]
        if place + 1 < len(PHASES):
            state.phase = PHASES[place + 1]
        else:
            self._finish(group, state)

    def _enter(self, state: State) -> Group:
        """The group of the state, with its caches."""
        made = self._made
        if made.group is None or made.at != state.group:
            made.group, made.sums, made.space, made.at = group_of(self.problem, state), [], None, state.group
        return made.group

    def _embedding(self, group: Group, state: State) -> bool:
        """Sums of k over the target's rows."""
        sizes, target = norm_sizes(self.problem, group), group.target
        if not isinstance(target, Rows):
            raise TypeError(target.name)
        which = next((i for i, sums in enumerate(state.sums) if sums.step < self._length(sizes[i])), len(state.sums))
        if not self._made.sums:
            precision = self.problem.settings.precision
            pairs = norm_pairs(self.problem, group, self.problem.number(state.group))
            self._made.sums = [embedding.problem(self.problem.kernel, *pair, target.weights, precision=precision) for pair in pairs]
        if which == len(state.sums):
            state.sums.append(embedding.init(self._made.sums[which]))
        state.sums[which] = embedding.step(self._made.sums[which], state.sums[which], map=self.map)
        ended = which == len(sizes) - 1 and state.sums[which].step == self._length(sizes[which])
        if ended:
            self._made.sums = []
        return ended

    def _length(self, pair: tuple[int, int]) -> int:
        return embedding.count_steps(self.problem.kernel, *pair)

    def space(self, group: Group, state: State) -> Space:
        """The space the rule chooses from, with the embedding that the state has come to."""
        if self._made.space is None:
            kernel, points = self.problem.kernel, group.points
            mean, norm, function = _embedded(self.problem, group, state)
            self._made.space = Space(kernel, points, mean, norm, kernel.diagonal(points), evaluator(kernel, points), function)
        return self._made.space

    def _rule(self, group: Group, state: State) -> bool:
        """One atom, or one iteration, more."""
        space, rule = self.space(group, state), self.problem.settings.rule
        if rule.rule == "min-norm-point":
            problem = min_norm_point.Problem(space, group.count)
            state.hull = state.hull or _begin(min_norm_point, problem, group.start and group.start.hull)
            state.hull = min_norm_point.step(problem, state.hull)
            return bool(state.hull.ended)
        if rule.rule in active_set.RULES:
            active = active_set.Problem(space, rule.rule, group.count)
            state.active = state.active or _begin(active_set, active, group.start and group.start.active)
            state.active = active_set.step(active, state.active)
            return bool(state.active.ended)
        sequence = rules.Problem(space, group.target, replace(rule, unit=self.problem.number(state.group)), group.polish)
        if state.sequence is None:
            saved = group.start.sequence if group.start else None
            state.sequence = rules.extended(sequence, saved, group.count) if saved else rules.init(sequence, group.count)
        if state.sequence.step < group.count:
            state.sequence = rules.step(sequence, state.sequence)
        return state.sequence.step == group.count

    def _swap(self, group: Group, state: State) -> bool:
        """One position visited."""
        space = self.space(group, state)
        if state.sequence is None:
            raise BadUsage("--refine needs a rule of equal weights", hint="one of herding, random, sobol")
        problem = swap.Problem(space, self.problem.settings.refine, self.problem.settings.rule.unique)
        if state.swap is None:
            state.swap = swap.init(problem, state.sequence.index, state.sequence.atoms, state.sequence.embedding)
        state.swap = swap.step(problem, state.swap)
        return state.swap.step == swap.total_steps(problem, state.swap)

    def _finish(self, group: Group, state: State) -> None:
        """The result of a group, and the way to the next one."""
        space = self.space(group, state)
        result = _result(space, group, state, self.problem.settings.rule.rule)
        if is_estimated(group, self.problem.settings.norm) and not by_moments(self.problem.kernel):
            _estimate_norm(self.problem, group, state, result)
        state.done.append(result)
        state.group, state.phase = state.group + 1, PHASES[0]
        state.sums, state.sequence, state.active, state.hull, state.swap = [], None, None, None, None


def _bytes(settings: Settings, group: Group) -> int:
    """Working memory of one group."""
    n, d = group.points.shape
    rows = group.target.X if isinstance(group.target, Rows) else group.points
    size = 4 if settings.precision == "float32" else 8
    copies = 8 * n * d + size * (n * d + (0 if rows is group.points else len(rows) * d))
    distinct = min(group.count, n) if n else group.count
    square = 32 * distinct**2 if settings.rule.rule == "min-norm-point" else 16 * min(distinct, MOST_CONDITION) ** 2
    return int(copies + 8 * 8 * n + 8 * 3 * len(rows) + square + (32 << 20))


def _latest(state: State) -> float | None:
    """The MMD of the atoms that the group a state is at has come to, or of the last group done; None before any atom."""
    if state.swap is not None:
        return float(state.swap.mmd[-1])
    if state.sequence is not None and state.sequence.step:
        return float(state.sequence.mmd[state.sequence.step - 1])
    if state.hull is not None:
        return float(state.hull.mmd[state.hull.hull.size - 1])
    if state.active is not None:
        return float(state.active.mmd[state.active.size - 1])
    return float(state.done[-1].mmd[-1]) if state.done else None


def _begin(module: Any, problem: Any, saved: Any) -> Any:
    return module.init(problem) if saved is None else module.extended(problem, saved)


def _embedded(problem: Problem, group: Group, state: State) -> tuple[Array, float, Callable[[Array], Array]]:
    """μ at the candidates, ‖μ‖² (E k(x, x), which is no less, where it will be estimated), and μ as a function."""
    kernel, target, points = problem.kernel, group.target, group.points
    if not isinstance(target, Rows):
        function, norm = closed_form.embedding(kernel, target)
        return function(points) if len(points) else np.zeros(0), norm, function
    total = target.weights.sum()
    X, weights = target.X, target.weights / total
    if by_moments(kernel):
        first, second = Rows(X, weights).moments()
        mean, norm = moment_embedding(kernel, points, first, second)
        return mean, norm, lambda x: moment_embedding(kernel, x, first, second)[0]
    if group.start is not None:
        mean, norm = group.start.embedding, group.start.norm
    elif is_estimated(group, problem.settings.norm):
        mean, norm = state.sums[0].sums / total, float(weights @ kernel.diagonal(X))
    else:
        mean, norm = state.sums[0].sums / total, float(weights @ state.sums[-1].sums) / float(total)
    return mean, norm, lambda x: kernel.matrix(x, X) @ weights


def _result(space: Space, group: Group, state: State, rule: str) -> Result:
    """Atoms, weights and traces of whatever rule ran."""
    if state.sequence is not None:
        return _sequence_result(space, group, state, state.sequence, rule)
    if state.hull is not None:
        n, end = state.hull.hull.size, state.hull.ended
        index, weight = state.hull.hull.ids[:n].copy(), state.hull.hull.weight[:n].copy()
        traces = state.hull.mmd[:n], state.hull.gap[:n]
    elif state.active is not None:
        n, end = state.active.size, state.active.ended
        index, weight = state.active.index[:n].copy(), state.active.weight[:n].copy()
        traces = state.active.mmd[:n], state.active.gap[:n]
    else:
        raise ValueError("no rule ran")
    return Result(
        ended=end if n < group.count else "",
        norm=space.norm,
        spread=_spread(space, group),
        index=index,
        atoms=space.candidates[index],
        weight=weight,
        embedding=space.embedding[index],
        mmd=traces[0],
        gap=traces[1],
        state=Continuation(space.embedding, space.norm, active=state.active, hull=state.hull),
    )


def _estimate_norm(problem: Problem, group: Group, state: State, result: Result) -> None:
    """‖μ‖² from draws x_s, and the figures with it.

    With g = Σ_u w_u k(x_u, ·) of the atoms, ‖μ‖² = E μ(x) = E (μ − g)(x) + Σ_u w_u μ(x_u), of which the last sum is known.
    μ − g is small where the atoms are good, and so is the error of its mean over draws (a control variate; Owen 2013, sec. 8.9).
    """
    target = group.target
    if not isinstance(target, Rows):
        raise TypeError(target.name)
    drawn = target.X[drawn_rows(problem, target, problem.number(state.group))]
    left = state.sums[-1].sums / target.weights.sum()
    left -= evaluator(problem.kernel, drawn).combine(result.atoms, result.weight)
    norm, bound = float(left.mean() + result.weight @ result.embedding), result.norm
    result.norm, result.spread, result.norm_error = norm, result.spread + bound - norm, float(left.std(ddof=1) / math.sqrt(len(left)))
    # MMD² = ⟨g, g⟩ − 2⟨g, μ⟩ + ‖μ‖², in which the bound stood for the last term.
    result.mmd = np.sqrt(np.maximum(0.0, np.square(result.mmd) - bound + norm))
    if result.passes is not None:
        result.passes = np.sqrt(np.maximum(0.0, np.square(result.passes) - bound + norm))


def _sequence_result(space: Space, group: Group, state: State, run: rules.State, rule: str) -> Result:
    kept = Continuation(space.embedding, space.norm, sequence=run)
    equal = np.full(run.step, 1.0 / run.step) if rule in rules.EQUAL else None
    weight, spread = rules.weights(run) if equal is None else equal, _spread(space, group)
    if state.swap is None:
        return Result(
            "", space.norm, _spread(space, group), run.index, run.atoms, weight, run.embedding, run.mmd, run.gap, run.rate, None, kept
        )
    found = state.swap
    mmd = prefix_distances(space, found.atoms, found.embedding)
    gap = np.full(len(mmd), np.nan)
    return Result("", space.norm, spread, found.index, found.atoms, weight, found.embedding, mmd, gap, None, found.mmd, kept)


def _spread(space: Space, group: Group) -> float:
    """E k(x, x) − ‖μ‖² under the target, NaN for a closed form under which k(x, x) varies."""
    target = group.target
    if isinstance(target, Rows):
        own = space.diagonal if group.candidates is None else space.kernel.diagonal(target.X)
        return float(target.weights @ own / target.weights.sum()) - space.norm
    low, high = target.box()
    if isinstance(target, Moments):  # of ±1 units, on which feature kernels have one k(x, x)
        return float(space.kernel.diagonal(high[None])[0]) - space.norm
    ends = space.kernel.diagonal(np.stack([low, high, 0.3 * low + 0.7 * high]))
    return float(ends[0]) - space.norm if np.ptp(ends) <= 1e-12 * np.abs(ends).max() else math.nan
