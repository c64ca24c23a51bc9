"""What a rule is that chooses atoms: how long it runs, its problem in a space, its steps, and the atoms and weights that come of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from typing import Any

import numpy as np

from herdcli.errors import BadUsage
from herdcli.parts import resolve
from herdcli.quadrature.atom_weights import MOST_CONDITION
from herdcli.quadrature.kernels.kernel_sums import Map
from herdcli.quadrature.rules.candidate_space import CandidateSpace
from herdcli.quadrature.rules.local_search import SearchBox
from herdcli.quadrature.rules.rule_table import TABLE
from herdcli.quadrature.targets import RowTarget, Target
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class Choice:
    """What a rule chooses for one group: `count` atoms of a space for a target, and the settings of all rules.

    seed, unit  of random numbers; unit is the group's number.  init, rates, unique, polish  as of `sequential_rules.RuleSettings` and
    `sequential_rules.SequenceProblem`.
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
        """(N,) weights of sum 1 of the candidates: the target's where these are its rows, else equal ones."""
        if isinstance(self.target, RowTarget) and self.target.X is self.space.candidates:
            return np.asarray(self.target.weights / self.target.weights.sum())
        n = len(self.space.candidates)
        return np.full(n, 1.0 / n)


@dataclass(frozen=True)
class Chosen:
    """Candidates (m,), their weights (m,), and traces (m,) of MMD and duality gap; ended  why it ended."""

    ended: str
    index: Array
    weight: Array
    mmd: Array
    gap: Array


class Rule(ABC):
    """One way of choosing atoms.

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
        """Steps of `count` atoms of n candidates at most."""

    def values(self, n: int, count: int) -> int:
        """Kernel values of all steps, about: a column of the candidates for each."""
        return self.steps(n, count) * max(1, n)

    def working_bytes(self, n: int, d: int, count: int) -> int:
        """Working memory beside that of the embedding, for candidates (n, d): the condition number of the atoms' Gram matrix."""
        return int(16 * min(distinct(n, count), MOST_CONDITION) ** 2)

    def passes(self, refine: int) -> int:
        """Swap passes that follow, of so many that are asked for."""
        return refine

    @abstractmethod
    def problem(self, choice: Choice) -> Any:
        """The rule's own problem."""

    @abstractmethod
    def begin(self, problem: Any, saved: Any) -> Any:
        """The state before the first step; saved  that of an earlier run to go on from, else None."""

    @abstractmethod
    def step(self, problem: Any, state: Any) -> Any:
        """The state after one step."""

    def ended(self, problem: Any, state: Any) -> bool:
        """Whether no step is left."""
        return bool(state.ended)

    def latest_mmd(self, state: Any) -> float | None:
        """The MMD of the atoms so far, None where none are known yet."""
        return None

    def atoms(self, state: Any) -> Array | None:
        """(m,) candidates of equal weight, of a rule whose atoms are known only once it has ended; None of others."""
        return None

    @abstractmethod
    def chosen(self, state: Any) -> Chosen:
        """What has come of it, but for rules whose state is a sequence."""


def distinct(n: int, count: int) -> int:
    """Atoms that can differ."""
    return min(count, n) if n else count


@cache
def load_rule(name: str) -> Rule:
    """The rule of a name.  Raises BadUsage for names that are not in the table."""
    if name not in TABLE:
        raise BadUsage(f"unknown rule '{name}'", hint=f"one of {', '.join(TABLE)}")
    found: Rule = resolve(TABLE[name].path, Rule, name)
    return found
