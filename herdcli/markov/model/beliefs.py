"""The `beliefs` artifact: marginals of variables and of cliques, log Z, and how they were computed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from herdcli.errors import DataError
from herdcli.markov.model.flat_marginals import FlatCliques, FlatMarginals, GridPairs
from herdcli.markov.model.network import Factor, Network
from herdcli.records import dataclass
from herdcli.schema import Array, array, require_offsets, require_valid_indices


@dataclass(frozen=True)
class ConvergenceTrace:
    """The residual of the fixed-point equations and the free energy of each iteration."""

    residual: Array = array("t", "largest change that one more update would make", kind="f")
    free_energy: Array = array("t", "free energy of the algorithm, NaN where it was not computed", kind="f")


def empty_trace() -> ConvergenceTrace:
    """The trace of an algorithm that does not iterate."""
    return ConvergenceTrace(np.empty(0), np.empty(0))


@dataclass(frozen=True)
class Beliefs:
    """Marginals of N variables, concatenated, and of cliques (the factors of the network, or pairs).

    log_z            log Σ_x Π f_a(x) over the states that agree with the evidence, natural logarithm; with observed
                     marginals minus the least divergence.
    free_energy      −log_z of the approximation.
    consistency_gap  largest difference between a variable's marginal and that of a clique.
    assignment       states found by --query mpe and mmap.  log_z is then log Σ Π f over the states that agree with it, and the
                     marginals are conditional on it.
    multiplier       with observed marginals λ_i(x), Q ∝ P exp Σ λ_i(x_i), if inference is exact.
    covariance       (N, N) of the variables' states as numbers 0, 1, …, by linear response; 0 where evidence or a marginal is given.
    """

    node: Array = array("P", "marginals of all variables", kind="f", low=0, high=1 + 1e-9)
    node_offset: Array = array("N", "where each variable's marginal begins, and the end", kind="iu")
    clique_scope: Array = array("S", "variables of all cliques", kind="iu")
    clique_scope_offset: Array = array("C", "where each clique's variables begin, and the end", kind="iu")
    clique: Array = array("Q", "marginals of all cliques, last variable fastest", kind="f", low=0, high=1 + 1e-9)
    clique_offset: Array = array("C", "where each clique's marginal begins, and the end", kind="iu")
    algorithm: str = ""
    converged: bool = True
    iterations: int = 0
    residual: float = 0.0
    log_z: float = 0.0
    free_energy: float = 0.0
    consistency_gap: float = 0.0
    scaling_updates: int = 0
    propagation_updates: int = 0
    fixed_point_energy: Array | None = array("K", "free energies of the fixed points found by restarts", kind="f", optional=True)
    fixed_point_runs: Array | None = array("K", "how many runs ended in each", kind="iu", optional=True)
    trace: ConvergenceTrace = field(default_factory=empty_trace)
    covariance: Array | None = array("M M", "covariances of variables by linear response", kind="f", optional=True, finite=True)
    standard_error: Array | None = array("P", "Monte Carlo standard error of each marginal", kind="f", optional=True)
    effective_draws: float | None = None  # number of independent draws that the chains are worth, by their largest R̂
    round_trips: int | None = None  # how often a state moved from the hottest temperature to that of the network
    names: list[str] | None = None
    divergence: float | None = None  # with observed marginals, KL(Q‖P) from the network, if it is exact
    multiplier: Array | None = array("P", "log of what observed marginals multiply each state by, 0 elsewhere", kind="f", optional=True)
    log_z_mean_field: float | None = None  # lower bound of log Z by naive mean field, if it is cheap to compute
    log_z_lower: float | None = None  # the highest known lower bound of log Z
    log_z_upper: float | None = None  # the lowest known upper bound of log Z
    estimated_error: float | None = None  # the largest error of a marginal, estimated by a second algorithm
    estimated_by: str | None = None  # the second algorithm
    exact_cells: float | None = None  # table cells of a junction tree, if exact inference is affordable
    warnings: list[str] | None = None  # warnings of the run and of the checks after it
    assignment: Array | None = array("W", "most probable state of each variable, -1 where it was summed out", kind="i", optional=True)
    states: list[str] | None = None  # names of all states, variable by variable
    log_value_upper: float | None = None  # upper bound of the log values of all assignments; log_z if the assignment is optimal

    def validate(self) -> None:
        """Raise DataError unless offsets, names and states agree with the lengths of the arrays."""
        require_offsets("node_offset", self.node_offset, len(self.node), "node")
        require_offsets("clique_scope_offset", self.clique_scope_offset, len(self.clique_scope), "clique_scope")
        require_offsets("clique_offset", self.clique_offset, len(self.clique), "clique")
        require_valid_indices("/clique_scope", self.clique_scope, len(self.node_offset) - 1, "a variable")
        if self.assignment is not None and len(self.assignment) != len(self.node_offset) - 1:
            raise DataError(
                f"/assignment must have a state for each of the {len(self.node_offset) - 1} variables, but has {len(self.assignment)}"
            )
        if self.assignment is not None and ((self.assignment < -1) | (self.assignment >= np.diff(self.node_offset))).any():
            raise DataError("/assignment gives a variable a state number that is out of range")
        if self.names is not None and len(self.names) != len(self.node_offset) - 1:
            raise DataError(f"/names has {len(self.names)} names, but there are {len(self.node_offset) - 1} variables")
        if self.states is not None and len(self.states) != len(self.node):
            raise DataError(f"/states has {len(self.states)} names, but there are {len(self.node)} states")

    def marginals(self) -> list[Array]:
        """The marginal of each variable."""
        return np.split(self.node, self.node_offset[1:-1])


def assemble_beliefs(
    network: Network, evidence: Mapping[int, int], nodes: Sequence[Array], cliques: Sequence[Factor], **more: Any
) -> Beliefs:
    """Return beliefs over all variables of `network`, given those of the conditioned network, whose observed variables have one state."""
    full = [_expand_evidence((i,), p, network, evidence) for i, p in enumerate(nodes)] if evidence else nodes
    if (errors := more.get("standard_error")) is not None:
        more["standard_error"] = np.concatenate([_expand_evidence((i,), p, network, evidence) for i, p in enumerate(errors)])
    if (multiplier := more.get("multiplier")) is not None:
        more["multiplier"] = np.concatenate([_expand_evidence((i,), p, network, evidence) for i, p in enumerate(multiplier)])
    tables = [(scope, _expand_evidence(scope, p, network, evidence)) for scope, p in cliques] if evidence else cliques
    if network.auxiliary:
        full, tables, more = _drop_auxiliary_variables(network, full, tables, more)
    made = Beliefs(*_concatenate_marginals(full), *_concatenate_cliques(tables), names=network.listed_names, **more)
    if network.states is not None and len(network.states) >= len(made.node):
        made = replace(made, states=network.states[: len(made.node)])
    return made if "consistency_gap" in more else replace(made, consistency_gap=largest_inconsistency(made))


def _drop_auxiliary_variables(
    network: Network, nodes: Sequence[Array], cliques: Sequence[Factor], attributes: Mapping[str, Any]
) -> tuple[list[Array], list[Factor], dict[str, Any]]:
    """Return marginals, cliques and attributes without the auxiliary variables, which are summed out of the cliques."""
    n, states, kept = network.listed_count, int(network.cardinality[: network.listed_count].sum()), dict(attributes)
    lengths = {"standard_error": states, "multiplier": states, "assignment": n}
    kept |= {name: kept[name][:length] for name, length in lengths.items() if kept.get(name) is not None}
    if kept.get("covariance") is not None:
        kept["covariance"] = kept["covariance"][:n, :n]
    tables: dict[tuple[int, ...], Array] = {}
    for scope, p in cliques:
        listed = tuple(i for i in scope if i < n)
        if listed and (len(listed) > 1 or len(scope) == 1):
            tables[listed] = p.sum(axis=tuple(axis for axis, i in enumerate(scope) if i >= n))
    return list(nodes[:n]), list(tables.items()), kept


def _concatenate_marginals(nodes: Sequence[Array]) -> tuple[Array, Array]:
    """Concatenate marginals; return them and their offsets."""
    if isinstance(nodes, FlatMarginals):
        return nodes.values, nodes.offset
    return np.concatenate(list(nodes)), _cumulative_offsets(len(p) for p in nodes)


def _concatenate_cliques(cliques: Sequence[Factor]) -> tuple[Array, Array, Array, Array]:
    """Concatenate scopes and tables; return both with their offsets."""
    if isinstance(cliques, GridPairs):
        cliques = cliques.flatten()
    if isinstance(cliques, FlatCliques):
        return cliques.scope, cliques.scope_offset, cliques.table, cliques.table_offset
    scope = np.array([i for scope, _ in cliques for i in scope], dtype=np.int64)
    table = np.concatenate([p.ravel() for _, p in cliques]) if cliques else np.empty(0)
    return scope, _cumulative_offsets(len(scope) for scope, _ in cliques), table, _cumulative_offsets(p.size for _, p in cliques)


def make_convergence_attributes(
    energy: float, converged: bool, iterations: int, residual: Array, free_energy: Array, **more: Any
) -> dict[str, Any]:
    """Return the attributes of `Beliefs` for an iterative algorithm, given its final free energy and its two traces."""
    told = {
        "log_z": -energy,
        "free_energy": energy,
        "converged": converged,
        "iterations": iterations,
        "residual": float(residual[-1]) if len(residual) else 0.0,
        "trace": ConvergenceTrace(residual, free_energy),
    }
    return told | more


def require_same_variables(beliefs: Beliefs, count: int | None = None) -> None:
    """Raise DataError unless the beliefs have marginals of `count` variables."""
    if count is not None and len(beliefs.node_offset) - 1 != count:
        raise DataError(f"has marginals of {len(beliefs.node_offset) - 1} variables, expected {count}")


def _cumulative_offsets(lengths: Iterable[int]) -> Array:
    return np.concatenate(([0], np.cumsum(list(lengths)))).astype(np.int64)


def _expand_evidence(scope: tuple[int, ...], p: Array, network: Network, evidence: Mapping[int, int]) -> Array:
    if evidence.keys().isdisjoint(scope):
        return p
    made = np.zeros([int(network.cardinality[i]) for i in scope])
    made[tuple(slice(evidence[i], evidence[i] + 1) if i in evidence else slice(None) for i in scope)] = p
    return made


def largest_inconsistency(beliefs: Beliefs) -> float:
    """Return the largest difference between a variable's marginal and that of a clique.

    Cliques of the same shape are compared together.
    """
    states, scopes = np.diff(beliefs.node_offset), np.diff(beliefs.clique_scope_offset)
    largest = 0.0
    for width in sorted(set(scopes[scopes > 0].tolist())):  # np.unique would import numpy.ma
        wide = np.flatnonzero(scopes == width)
        variables = beliefs.clique_scope[beliefs.clique_scope_offset[wide][:, None] + np.arange(width)]
        shapes, kind = np.unique(states[variables], axis=0, return_inverse=True)
        for number, shape in enumerate(shapes.tolist()):
            mine = kind.ravel() == number
            first = beliefs.clique_offset[wide[mine]]
            tables = beliefs.clique[first[:, None] + np.arange(math.prod(shape))].reshape(-1, *shape)
            for axis, count in enumerate(shape):
                others = tuple(k for k in range(1, width + 1) if k != axis + 1)
                own = beliefs.node[beliefs.node_offset[variables[mine, axis]][:, None] + np.arange(count)]
                largest = max(largest, float(np.abs(tables.sum(axis=others) - own).max()))
    return largest
