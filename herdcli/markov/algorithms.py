"""The one table of inference algorithms, and what each of them is to the loop that runs it."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any, Protocol

from herdcli.errors import BadUsage
from herdcli.markov.network import Factor, Network
from herdcli.schema import Array

# name -> module.class: a Method made of (network, settings)
ALGORITHMS: dict[str, str] = {
    "junction-tree": "herdcli.markov.exact.JunctionTree",
    "enumerate": "herdcli.markov.exact.Enumerate",
}
TAKES_OBSERVED = {"enumerate"}


@dataclass(frozen=True)
class Settings:
    """Options of inference.  orders: runs of the elimination search; damping: share of the old message that is kept."""

    algorithm: str = "junction-tree"
    tolerance: float = 1e-9
    iterations: int = 1000
    orders: int = 8
    schedule: str = "sequential"
    damping: float = 0.0
    damping_kind: str = "geometric"
    clamp: str = "auto"
    seed: int = 0


@dataclass(frozen=True)
class Result:
    """Marginals over the conditioned network, and the attributes of a `Beliefs`."""

    nodes: list[Array]
    cliques: list[Factor]
    attributes: dict[str, Any] = field(default_factory=dict)


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


def method(network: Network, settings: Settings) -> Method:
    """The algorithm that the settings name.  Raises BadUsage if it cannot use what is observed."""
    if network.observations() and settings.algorithm not in TAKES_OBSERVED:
        able = ", ".join(sorted(TAKES_OBSERVED))
        raise BadUsage(f"--algorithm {settings.algorithm} takes no observed marginals", hint=f"those that do: {able}; or --ignore-observed")
    module, _, name = ALGORITHMS[settings.algorithm].rpartition(".")
    made: Method = getattr(importlib.import_module(module), name)(network, settings)
    return made
