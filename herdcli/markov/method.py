"""What every algorithm of inference is: made of a network and settings, run step by step, ended with marginals and log Z."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from herdcli.markov.model.network import Factor
from herdcli.schema import Array


@dataclass(frozen=True)
class Settings:
    """Options of inference.  orders: runs of the elimination search; damping: share of the old message that is kept;

    damping_schedule: in its place, each for an equal part of the iterations; clamp_sets: in place of `clamp`;
    start: 0 for the usual first state, k for the k-th random one.
    """

    algorithm: str = "junction-tree"
    tolerance: float = 1e-9
    iterations: int = 1000
    orders: int = 8
    schedule: str = "auto"
    damping: float = 0.0
    damping_kind: str = "geometric"
    damping_schedule: tuple[float, ...] = ()
    clamp: str = "auto"
    clamp_sets: list[list[int]] | None = None
    regions: str = "edges"
    start: int = 0
    linear_response: bool = False
    sweeps: int = 10_000
    burn_in: int = 1000
    chains: int = 8
    annealing: int = 0
    message_passing: str = "hugin"
    seed: int = 0


@dataclass(frozen=True)
class Result:
    """Marginals over the conditioned network, the attributes of a `Beliefs`, and what the user is warned of."""

    nodes: list[Array]
    cliques: list[Factor]
    attributes: dict[str, Any] = field(default_factory=dict)
    warning: str = ""


class Method(Protocol):
    """One algorithm on one network: a State, its step, when it is done, and what it says."""

    steps: int
    note: str  # a line for the user before the work begins, "" for none

    def init(self) -> Any: ...

    def step(self, state: Any) -> Any: ...

    def done(self, state: Any) -> bool: ...

    def bytes_needed(self, state: Any) -> tuple[int, str]:
        """What `result` will need beyond the state, and for what; known once the steps are done."""
        ...

    def result(self, state: Any) -> Result: ...
