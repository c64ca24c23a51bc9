"""Random initial states, and the distinct fixed points of runs from several of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from herdcli.markov.bethe import free_energy as bethe
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model.beliefs import Beliefs
from herdcli.markov.model.pairwise import PairwiseNetwork
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array
from herdcli.shards import Shard

SAME = 1e-4  # largest difference of marginals within one fixed point


def make_start_generator(seed: int, start: int) -> np.random.Generator:
    """Return the random generator for the start that the settings name."""
    return generator(seed, Stream.INITIAL, unit=start)


def make_initial_messages(settings: InferenceSettings, graph: PairwiseNetwork) -> Array:
    """Return uniform messages, or messages whose beliefs are random marginals."""
    if settings.start == 0:
        return graph.uniform_messages()
    owner = np.repeat(np.arange(graph.nodes), graph.cardinality)
    with np.errstate(divide="ignore"):
        logs = np.log(make_initial_marginals(settings, graph.cardinality)) - np.log(graph.potential)
    # 5.5 with n equal messages, b = ψ M^n: each is (b/ψ)^{1/n}.
    share = np.where(np.isfinite(logs), logs, 0.0) / np.maximum(graph.degree(), 1)[owner]
    made = share[bethe.message_state_positions(graph)]
    top = np.maximum.reduceat(made, graph.message_offset[:-1]) if len(made) else made
    result: Array = np.exp(made - np.repeat(top, np.diff(graph.message_offset)))
    return result


def make_initial_marginals(settings: InferenceSettings, cardinality: Array, tilt: float = 0.0) -> Array:
    """Return marginals of all nodes, flat: uniform except for a relative deviation `tilt`, or drawn uniformly from the simplex."""
    owner = np.repeat(np.arange(len(cardinality)), cardinality)
    if settings.start == 0:
        weight = (
            np.exp(tilt * make_start_generator(settings.seed, settings.start).standard_normal(len(owner))) if tilt else np.ones(len(owner))
        )
    else:
        # Exponentials divided by their sum are uniform on the simplex; the constant keeps every state's probability positive.
        weight = make_start_generator(settings.seed, settings.start).standard_exponential(len(owner)) + 1e-3
    result: Array = weight / np.bincount(owner, weight, len(cardinality))[owner]
    return result


@dataclass(frozen=True, kw_only=True)
class BeliefsShard(Shard):
    """The results from some of the initial states, each an artifact of its own."""

    parts: list[Beliefs]


def select_best_start(results: Sequence[Beliefs]) -> Beliefs:
    """Return the converged result of lowest free energy; the first result if none converged.

    It also has the free energies of all distinct fixed points, lowest first, and the number of runs that ended in each.
    """
    found: list[tuple[Beliefs, int]] = []
    for each in results:
        if not each.converged:
            continue
        at = next((k for k, (other, _) in enumerate(found) if np.abs(each.node - other.node).max() <= SAME), len(found))
        if at == len(found):
            found.append((each, 0))
        found[at] = (found[at][0], found[at][1] + 1)
    found.sort(key=lambda entry: entry[0].free_energy)
    return replace(
        found[0][0] if found else results[0],
        fixed_point_energy=np.array([result.free_energy for result, _ in found], dtype=np.float64),
        fixed_point_runs=np.array([runs for _, runs in found], dtype=np.int64),
    )
