"""A whole run as one state: the embedding, the rule and swap passes, for one group of rows after the other."""

from __future__ import annotations

from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np

from herdcli.algorithm import Map, RunProgress
from herdcli.errors import BadUsage
from herdcli.quadrature import group_outcome
from herdcli.quadrature.embeddings import embedding_sums
from herdcli.quadrature.embeddings.approximation import EmbeddingErrorBounds
from herdcli.quadrature.kernels.point_sums import depends_on_moments, make_point_evaluator
from herdcli.quadrature.rules import sequential_rules, swap_refinement
from herdcli.quadrature.rules.candidate_space import CandidateSpace
from herdcli.quadrature.rules.rule import Rule, SelectionTask, load_rule
from herdcli.quadrature.rules.rule_table import rules_reading_option
from herdcli.quadrature.selection_problem import (
    PHASES,
    SelectionGroup,
    SelectionProblem,
    SelectionState,
    embedding_step_costs,
    group_approximation,
    is_norm_estimated,
    phase_lengths,
)
from herdcli.quadrature.targets import RowTarget
from herdcli.records import dataclass


@dataclass
class _CachedData:
    """Data derived from problem and state alone, such as packed rows, and cached between steps: for group number `at`."""

    at: int = -1
    group: SelectionGroup | None = None
    plan: embedding_sums.EmbeddingPlan | None = None
    sums: tuple[int, embedding_sums.EmbeddingSums] | None = None  # number and problem of the current sums
    space: CandidateSpace | None = None
    problem: Any = None  # the rule's problem


@dataclass(frozen=True)
class AtomSelection:
    """The selection of atoms as an algorithm.  map: runs over tiles; it may use threads."""

    problem: SelectionProblem
    map: Map = map
    _made: _CachedData = field(default_factory=_CachedData, init=False, repr=False, compare=False)
    state = SelectionState  # the type of its states

    @property
    def rule(self) -> Rule:
        """The rule that chooses the atoms."""
        return load_rule(self.problem.settings.rule.rule)

    @property
    def steps(self) -> int:
        """The number of steps of the whole run; phases that end early skip their remaining steps."""
        return sum(steps for steps, _ in self._phase_costs)

    @cached_property
    def _phase_costs(self) -> list[tuple[int, int]]:
        """The (steps, kernel values) of the phases of all groups in their order."""
        problem, phases = self.problem, []
        for group in problem.groups:
            sums, steps, swaps = phase_lengths(problem, group)
            pairs, column = sum(work for _, work in embedding_step_costs(problem, group)), max(1, len(group.points))
            work = self.rule.count_kernel_values(len(group.points), group.count)
            phases += [(sums, pairs), (steps, work), (swaps, swaps * column)]
        return phases

    def memory(self) -> int:
        """The working memory in bytes without the inputs: copies of rows for tiles, running sums, and the atoms' Gram matrix."""
        return max(_group_memory(self.problem, group) for group in self.problem.groups)

    def done(self, state: SelectionState) -> bool:
        """Whether all groups are finished."""
        return state.step >= self.steps

    def progress(self, state: SelectionState) -> RunProgress:
        """Return the progress with the MMD of the atoms so far, once there are atoms."""
        mmd = _latest_mmd(state, self.rule)
        bounded = "≤ " if mmd is not None and not self.done(state) and self._is_norm_estimated(state) else ""
        return RunProgress(state.step, self.steps, "" if mmd is None else f"MMD {bounded}{mmd:.3g}", self._completed_fraction(state.step))

    def _completed_fraction(self, step: int) -> float:
        """Return the finished share of the work in kernel values: all pairs in the sums, then a column of candidates per atom or swap."""
        steps, work = np.array(self._phase_costs).cumsum(axis=0).T
        return float(np.interp(step, [0, *steps], [0.0, *(work / work[-1])]))

    def result(self, state: SelectionState) -> SelectionState:
        """Return the last state, in which all groups are finished."""
        return state

    def _is_norm_estimated(self, state: SelectionState) -> bool:
        """Whether the figures of the current group are bounds until ‖μ‖² is estimated."""
        groups, norm = self.problem.groups, self.problem.settings.norm
        return state.group < len(groups) and is_norm_estimated(groups[state.group], norm) and not depends_on_moments(self.problem.kernel)

    def init(self) -> SelectionState:
        """Return the state before the first step."""
        return SelectionState(0, 0, PHASES[0], 0, [], None, None, None, None, [])

    def step(self, state: SelectionState) -> SelectionState:
        """Run one step of the current phase, and change to the next phase with work if the phase has ended."""
        self._skip_empty_phases(state)
        group = self._prepare_group(state)
        ended = getattr(self, f"_{state.phase}")(group, state)
        state.step += 1
        if ended:
            self._start_next_phase(group, state)
            self._skip_empty_phases(state)
        return state

    def _skip_empty_phases(self, state: SelectionState) -> None:
        """Skip phases without steps."""
        while state.group < self.problem.group_count:
            group = self._prepare_group(state)
            if phase_lengths(self.problem, group)[PHASES.index(state.phase)]:
                return
            self._start_next_phase(group, state)

    def _start_next_phase(self, group: SelectionGroup, state: SelectionState) -> None:
        """Change to the next phase or group, which starts at its scheduled step."""
        place = PHASES.index(state.phase)
        state.step = state.begun = state.begun + phase_lengths(self.problem, group)[place]
        if place + 1 < len(PHASES):
            state.phase = PHASES[place + 1]
        else:
            self._finish_group(group, state)

    def _prepare_group(self, state: SelectionState) -> SelectionGroup:
        """Return the group of the state, with its caches set up."""
        made = self._made
        if made.group is None or made.at != state.group:
            made.group, made.at = self.problem.groups[state.group], state.group
            made.plan = made.sums = made.space = made.problem = None
        return made.group

    def _embedding_plan(self, group: SelectionGroup, state: SelectionState) -> embedding_sums.EmbeddingPlan:
        """Return the plan of the embedding of the state's group."""
        self._made.plan = self._made.plan or embedding_sums.make_embedding_plan(
            self.problem, group, self.problem.global_number(state.group)
        )
        return self._made.plan

    def _embedding(self, group: SelectionGroup, state: SelectionState) -> bool:
        """Run one step of the sums of k over the target's rows; returns whether all sums are complete."""
        steps, made = [size for size, _ in embedding_step_costs(self.problem, group)], self._made
        which = next((i for i, done in enumerate(state.sums) if done.step < steps[i]), len(state.sums))
        if made.sums is None or made.sums[0] != which:
            made.sums = which, self._embedding_plan(group, state).make_sums(which, state.sums)
        if which == len(state.sums):
            state.sums.append(made.sums[1].init())
        state.sums[which] = made.sums[1].step(state.sums[which], map=self.map)
        ended = which == len(steps) - 1 and state.sums[which].step == steps[which]
        if ended:
            made.sums = None
        return ended

    def space(self, group: SelectionGroup, state: SelectionState) -> CandidateSpace:
        """Return the space that the rule chooses from, with the embedding of the state."""
        if self._made.space is None:
            kernel, points = self.problem.kernel, group.points
            found = self._embedding_plan(group, state).approximate_embedding(state.sums)
            mean, norm, function = (
                (found.mean, found.norm, found.function) if found else group_outcome.group_embedding(self.problem, group, state)
            )
            self._made.space = CandidateSpace(
                kernel, points, mean, norm, kernel.diagonal(points), make_point_evaluator(kernel, points), function
            )
        return self._made.space

    def _embedding_error_bounds(self, group: SelectionGroup, state: SelectionState) -> EmbeddingErrorBounds | None:
        """Return the error bounds of the embedding of the state's group; None if it is exact.

        They come from the computed embedding, or from the state that the run continues from.
        """
        if group.start is not None:
            return group.start.added
        found = self._embedding_plan(group, state).approximate_embedding(state.sums)
        return None if found is None else found.added

    def _rule(self, group: SelectionGroup, state: SelectionState) -> bool:
        """Run one step of the rule; returns whether it has ended."""
        rule, space = self.rule, self.space(group, state)
        if self._made.problem is None:
            self._made.problem = rule.make_problem(self._selection_task(group, state))
        own = getattr(state, rule.field) or rule.begin(self._made.problem, getattr(group.start, rule.field, None))
        own = rule.step(self._made.problem, own)
        setattr(state, rule.field, own)
        ended = rule.is_finished(self._made.problem, own)
        index = rule.atoms(own) if ended else None
        if index is not None:
            state.sequence = sequential_rules.state_from_atoms(space, index)
        return ended

    def _selection_task(self, group: SelectionGroup, state: SelectionState) -> SelectionTask:
        """Return the choice that the rule makes for the state's group."""
        asked, unit = self.problem.settings.rule, self.problem.global_number(state.group)
        return SelectionTask(
            space=self.space(group, state),
            target=group.target,
            count=group.count,
            seed=asked.seed,
            unit=unit,
            init=asked.init,
            rates=asked.rates,
            unique=asked.unique,
            polish=group.polish,
            map=self.map,
        )

    def _swap(self, group: SelectionGroup, state: SelectionState) -> bool:
        """Visit one position of a swap pass; returns whether the passes have ended."""
        space = self.space(group, state)
        if state.sequence is None:
            raise BadUsage(
                "--refine works only with rules that give all atoms the same weight",
                hint=f"use --rule with one of {', '.join(rules_reading_option('refine'))}",
            )
        settings = self.problem.settings
        problem = swap_refinement.SwapProblem(space, self.rule.count_swap_passes(settings.refine), settings.rule.unique)
        if state.swap is None:
            state.swap = swap_refinement.initial_state(problem, state.sequence.index, state.sequence.atoms, state.sequence.embedding)
        state.swap = swap_refinement.swap_step(problem, state.swap)
        return state.swap.step == swap_refinement.total_steps(problem, state.swap)

    def _finish_group(self, group: SelectionGroup, state: SelectionState) -> None:
        """Add the result of a group, and change to the next group."""
        space = self.space(group, state)
        result = group_outcome.group_result(space, group, state, self.rule)
        result.added = self._embedding_error_bounds(group, state)
        if result.added is not None and result.state is not None:
            result.state = replace(result.state, added=result.added)
        if is_norm_estimated(group, self.problem.settings.norm) and not depends_on_moments(self.problem.kernel):
            group_outcome.estimate_embedding_norm(self.problem, group, state, result)
        state.done.append(result)
        state.group, state.phase = state.group + 1, PHASES[0]
        state.sums, state.sequence, state.swap = [], None, None
        setattr(state, self.rule.field, None)


def _group_memory(problem: SelectionProblem, group: SelectionGroup) -> int:
    """Return the working memory of one group."""
    settings, chosen = problem.settings, group_approximation(problem, group)
    n, d = group.points.shape
    rows = group.target.X if isinstance(group.target, RowTarget) else group.points
    size = 4 if settings.precision == "float32" else 8
    copies = 8 * n * d + size * (n * d + (0 if rows is group.points else len(rows) * d))
    square = load_rule(settings.rule.rule).working_bytes(n, d, group.count)
    if chosen is not None:  # the landmarks' Gram matrix and its factor, or angles with their cosines and sines
        square += 24 * chosen.size**2 if chosen.kind == "nystrom" else 8 * chosen.size * (d + 4) + (24 << 19)
    return int(copies + 8 * 8 * n + 8 * 3 * len(rows) + square + (32 << 20))


def _latest_mmd(state: SelectionState, rule: Rule) -> float | None:
    """Return the MMD of the atoms so far in the current group, or of the last finished group; None before any atom."""
    if state.swap is not None:
        return float(state.swap.mmd[-1])
    if state.sequence is not None and state.sequence.step:
        return float(state.sequence.mmd[state.sequence.step - 1])
    own = getattr(state, rule.field)
    found = None if own is None or state.sequence is not None else rule.latest_mmd(own)
    if found is not None:
        return found
    return float(state.done[-1].mmd[-1]) if state.done else None
