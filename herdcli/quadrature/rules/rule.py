"""The interface of a rule that chooses atoms: its length, its problem in a space, its steps, and the resulting atoms and weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import BadUsage
from herdcli.parts import instantiate_class
from herdcli.quadrature.atom_weights import MOST_CONDITION
from herdcli.quadrature.rules.candidate_space import CandidateSpace
from herdcli.quadrature.rules.local_search import SearchBox
from herdcli.quadrature.rules.rule_table import TABLE
from herdcli.quadrature.targets import RowTarget, Target
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class SelectionTask:
    """The choice that a rule makes for one group: `count` atoms of a space for a target, and the settings of all rules.

    seed, unit  determine the random numbers; unit is the group's number.

    init, rates, unique and polish are as in `sequential_rules.RuleSettings` and `sequential_rules.SequenceProblem`.
    """

    space: CandidateSpace
    target: Target
    count: int
    seed: int
    unit: int
    init: Any
    rates: tuple[float, ...]
    unique: bool
    polish: SearchBox | None
    map: Map

    @property
    def weights(self) -> Array:
        """The weights (N,) of sum 1 of the candidates: the target's if these are its rows, otherwise equal ones."""
        if isinstance(self.target, RowTarget) and self.target.X is self.space.candidates:
            return np.asarray(self.target.weights / self.target.weights.sum())
        n = len(self.space.candidates)
        return np.full(n, 1.0 / n)


@dataclass(frozen=True)
class SelectedAtoms:
    """The chosen candidates (m,), their weights (m,), and traces (m,) of MMD and duality gap; ended  the reason for the end."""

    ended: str
    index: Array
    weight: Array
    mmd: Array
    gap: Array


RuleProblem: TypeAlias = Any  # the problem of some rule, which only that rule reads
RuleState: TypeAlias = Any  # likewise, its state


class Rule(ABC):
    """A rule by which atoms are chosen.

    field  the entry of `selection_problem.SelectionState`, and of `samples.Continuation` where the state is kept, that holds a rule's own
    state.
    """

    field: str

    def __init__(self, name: str) -> None:
        self.name = name
        self.equal = "refine" in TABLE[name].reads
        self.kept = "extend" in TABLE[name].reads

    @abstractmethod
    def steps(self, n: int, count: int) -> int:
        """Return the largest number of steps for `count` atoms of n candidates."""

    def count_kernel_values(self, n: int, count: int) -> int:
        """Estimate the number of kernel values of all steps: by default a column of the candidates for each step."""
        return self.steps(n, count) * max(1, n)

    def working_bytes(self, n: int, d: int, count: int) -> int:
        """Return the working memory in addition to the embedding's, for candidates (n, d).

        By default it is that of the condition number of the atoms' Gram matrix.
        """
        return int(16 * min(max_distinct_atoms(n, count), MOST_CONDITION) ** 2)

    def count_swap_passes(self, refine: int) -> int:
        """Return the number of swap passes that follow if `refine` are requested."""
        return refine

    @abstractmethod
    def make_problem(self, task: SelectionTask) -> RuleProblem:
        """Return the rule's own problem."""

    @abstractmethod
    def begin(self, problem: RuleProblem, saved: RuleState | None) -> RuleState:
        """Return the state before the first step; saved  the state of an earlier run to continue from, else None."""

    @abstractmethod
    def step(self, problem: RuleProblem, state: RuleState) -> RuleState:
        """Return the state after one more step."""

    def is_finished(self, problem: RuleProblem, state: RuleState) -> bool:
        """Whether no step is left."""
        return bool(state.ended)

    def latest_mmd(self, state: RuleState) -> float | None:
        """Return the MMD of the atoms so far, None if it is not known yet."""
        return None

    def atoms(self, state: RuleState) -> Array | None:
        """Return candidates (m,) of equal weight for rules whose atoms are known only at the end; None for others."""
        return None

    @abstractmethod
    def selected_atoms(self, state: RuleState) -> SelectedAtoms:
        """Return the result, for rules whose state is not a sequence."""


def max_distinct_atoms(n: int, count: int) -> int:
    """Return the largest number of different atoms."""
    return min(count, n) if n else count


@cache
def load_rule(name: str) -> Rule:
    """Return the rule of a name.  Raises BadUsage for names that are not in the table."""
    if name not in TABLE:
        raise BadUsage(f"unknown rule '{name}'", hint=f"use one of {', '.join(TABLE)}")
    found: Rule = instantiate_class(TABLE[name].path, Rule, name)
    return found
