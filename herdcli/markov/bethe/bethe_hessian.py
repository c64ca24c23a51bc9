"""Second derivatives of the Bethe free energy as a function of the variables' marginals only.

Given marginals b_i, each factor takes the closest belief that has them; the minimum is a function

    F(b) = Σ_a G_a(b_a) + Σ_i (1 − n_i) Σ b_i log b_i − Σ b_i log ψ_i,      ∇²G_a = Cov_a⁻¹,

where Cov_a is the covariance of the indicators of the states of a's variables under its belief (G_a is the convex conjugate of a
log partition function).  One state of each variable, the most probable, is not a coordinate, because marginals sum to one; states
without probability are not coordinates either.  The inverse of ∇²F contains the linear-response covariances ∂b_i/∂ log ψ_j.
Source: Teh (2003), 2.48 for the free energy 2.50; Welling & Teh (2001) for binary variables.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix, diags

from herdcli.errors import DataError
from herdcli.markov.bethe.binary_edges import edge_second_derivatives
from herdcli.markov.bethe.free_energy import PairBeliefs
from herdcli.markov.model.pairwise import PairwiseNetwork
from herdcli.records import dataclass
from herdcli.schema import Array


@dataclass(frozen=True)
class BetheHessian:
    """∇²F = factors + diag(weight) metric over M coordinates.

    index      (states of all nodes,) the coordinate of a state, −1 for none.
    reference  (N,) the flat index of the state left out.
    """

    index: Array
    reference: Array
    factors: csr_matrix
    metric: csr_matrix
    weight: Array

    def matrix(self, shift: float = 0.0) -> csr_matrix:
        """Return ∇²F + shift · metric, where the metric is the Fisher information."""
        return (self.factors + diags(self.weight + shift) @ self.metric).tocsr()


def compute_bethe_hessian(graph: PairwiseNetwork, beliefs: PairBeliefs, fixed: Array) -> BetheHessian:
    """Compute ∇²F at consistent beliefs, in the marginals of the variables that are not `fixed`.

    Raises numpy.linalg.LinAlgError if a factor makes two variables dependent deterministically, so that the domain of F has no interior.
    """
    owner = np.repeat(np.arange(graph.nodes), graph.cardinality)
    top = np.zeros(graph.nodes)
    np.maximum.at(top, owner, beliefs.node)
    at_top = np.flatnonzero(beliefs.node == top[owner])[::-1]
    # Marginals sum to one, so one state of each variable is not a coordinate.  The most probable has the best conditioned inverse, because
    # 1/b(reference) is in every entry of its Fisher information.  Among equal ones the first is used: it is written last, because at_top
    # runs backward.
    reference = np.zeros(graph.nodes, dtype=np.int64)
    reference[owner[at_top]] = at_top
    live = beliefs.node > 0
    live[reference] = False
    chosen = live & (fixed[owner] == 0) & (owner < graph.variables)
    index = np.where(chosen, np.cumsum(chosen) - 1, -1)
    size = int(chosen.sum())
    blocks = [_pair_blocks(graph, beliefs, index, live, shape) for shape in _pair_state_counts(graph)]
    blocks += [_factor_block(graph, beliefs, index, live, node) for node in graph.auxiliary]
    metric = [_node_blocks(graph, beliefs.node, index, reference, int(k)) for k in np.unique(graph.cardinality[: graph.variables])]
    return BetheHessian(
        index,
        reference,
        _assemble_sparse_matrix(blocks, size),
        _assemble_sparse_matrix(metric, size),
        (1.0 - graph.degree())[owner[chosen]],
    )


def linear_response_covariance(graph: PairwiseNetwork, beliefs: PairBeliefs, fixed: Array, variable_count: int) -> Array:
    """Compute the (N, N) linear-response covariances of the variables' states as numbers 0, 1, …; 0 for fixed variables.

    Raises DataError if the free energy has no second derivatives.
    """
    try:
        second = compute_bethe_hessian(graph, beliefs, fixed)
        # At a minimum ∇F = 0; adding θ to log ψ subtracts θ·b from F, so ∇²F
        # ∂b/∂θ = 1 and ∂b_i/∂ log ψ_j = (∇²F)⁻¹_ij (Teh 2003, 2.47 and 2.48).
        inverse = np.linalg.inv(second.matrix().toarray())
    except np.linalg.LinAlgError:
        inverse = np.full(1, np.nan)
    if not np.isfinite(inverse).all():
        raise DataError(
            "the linear response does not exist, because zeros of the factors make some variables determine others",
            hint="leave out --linear-response",
        )
    owner = np.repeat(np.arange(graph.nodes), graph.cardinality)
    number = np.arange(len(owner)) - graph.node_offset[owner]
    inside = second.index >= 0
    # moving probability from the reference to state x moves the mean by x − reference
    slope = (number - number[second.reference[owner]])[inside].astype(np.float64)
    means = csr_matrix((slope, (owner[inside], np.arange(len(slope)))), shape=(graph.nodes, len(slope)))
    whole = (means @ (means @ inverse).T)[:variable_count, :variable_count]
    symmetric: Array = 0.5 * (whole + whole.T)
    return symmetric


def _pair_state_counts(graph: PairwiseNetwork) -> list[tuple[int, int]]:
    plain = graph.head[::2] < graph.variables
    return sorted(
        set(zip(graph.cardinality[graph.tail[::2][plain]].tolist(), graph.cardinality[graph.head[::2][plain]].tolist(), strict=True))
    )


Blocks = tuple[Array, Array]  # (B, k) coordinates or −1, and (B, k, k) matrices to add there


def _pair_blocks(graph: PairwiseNetwork, beliefs: PairBeliefs, index: Array, live: Array, shape: tuple[int, int]) -> Blocks:
    """Compute the inverse covariances of all pairs of variables with these numbers of states."""
    rows, columns = shape
    tail, head = graph.tail[::2], graph.head[::2]
    chosen = np.flatnonzero((graph.cardinality[tail] == rows) & (graph.cardinality[head] == columns) & (head < graph.variables))
    first = graph.node_offset[tail[chosen]][:, None] + np.arange(rows)
    second = graph.node_offset[head[chosen]][:, None] + np.arange(columns)
    p = beliefs.pair[graph.table_offset[chosen][:, None] + np.arange(rows * columns)].reshape(-1, rows, columns)
    states = np.concatenate([first, second], axis=1)
    if shape == (2, 2) and (beliefs.node[states] > 0).all():
        return _binary_pair_blocks(p, states, index, live)
    mean = np.concatenate([p.sum(axis=2), p.sum(axis=1)], axis=1)
    moment = np.zeros((len(chosen), rows + columns, rows + columns))
    moment[:, :rows, rows:] = p
    moment[:, rows:, :rows] = p.transpose(0, 2, 1)
    return index[states], _invert_covariances(moment, mean, live[states])


def _binary_pair_blocks(p: Array, states: Array, index: Array, live: Array) -> Blocks:
    """Compute the inverse covariances of pairs of binary variables."""
    # Either of two states can be the coordinate.  As b(0) = 1 − b(1), a derivative in b(0) has the other sign, and a mixed one changes sign
    # if one of the two variables is flipped.
    row, column = live[states[:, 1]].astype(np.int64), live[states[:, 3]].astype(np.int64)  # the state that is the coordinate
    of_first, of_second, mixed = edge_second_derivatives(p.reshape(-1, 4))
    made = np.empty((len(p), 2, 2))
    made[:, 0, 0], made[:, 1, 1] = of_first, of_second
    made[:, 0, 1] = made[:, 1, 0] = np.where(row == column, mixed, -mixed)
    every = np.arange(len(p))
    return index[np.stack([states[every, row], states[every, 2 + column]], axis=1)], made


def _factor_block(graph: PairwiseNetwork, beliefs: PairBeliefs, index: Array, live: Array, node: int) -> Blocks:
    """Compute the inverse covariance of the variables of a larger factor, which is an auxiliary node."""
    edges = np.sort(graph.incoming_edges(node) >> 1)
    # Row x of ψ between variable i and the auxiliary node is the indicator of x_i = x over the factor's cells,
    # so E[indicator] and E[products] under the node's belief are the marginals and pair marginals of the factor.
    indicator = np.concatenate([graph.edge_table(int(e)) for e in edges])
    states = np.concatenate([np.arange(graph.node_offset[i], graph.node_offset[i + 1]) for i in graph.tail[2 * edges]])
    p = beliefs.node[graph.node_offset[node] : graph.node_offset[node + 1]]
    moment = (indicator * p) @ indicator.T
    return index[states][None], _invert_covariances(moment[None], (indicator @ p)[None], live[states][None])


def _invert_covariances(moment: Array, mean: Array, live: Array) -> Array:
    """Invert covariances over the live states.

    moment  second moments off the diagonal; those of two states of one variable are 0.
    """
    every = np.arange(mean.shape[1])
    # Cov of indicators: E[1_x 1_y] − b(x) b(y), where E[1_x 1_x] = b(x).  States that are not coordinates get a row and column of the
    # identity, so that they do not affect the inverse of the rest.
    moment = moment - mean[:, :, None] * mean[:, None]
    moment[:, every, every] = mean * (1 - mean)
    moment = np.where(live[:, :, None] & live[:, None], moment, 0.0)
    moment[:, every, every] += ~live
    result: Array = np.linalg.inv(moment)
    return result


def _node_blocks(graph: PairwiseNetwork, node: Array, index: Array, reference: Array, states: int) -> Blocks:
    """Compute the Fisher information of a marginal: δ_xy/b(x) + 1/b(reference)."""
    chosen = np.flatnonzero(graph.cardinality[: graph.variables] == states)
    own = graph.node_offset[chosen][:, None] + np.arange(states)
    # Σ b log b with b(reference) = 1 − Σ of the others has second derivatives δ_xy/b(x) + 1/b(reference).
    made = np.repeat(1 / node[reference[chosen]], states * states).reshape(-1, states, states)
    with np.errstate(divide="ignore", over="ignore"):
        made[:, np.arange(states), np.arange(states)] += 1 / node[own]
    return index[own], made


def _assemble_sparse_matrix(blocks: list[Blocks], size: int) -> csr_matrix:
    rows, columns, values = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)], [np.empty(0)]
    for coordinates, block in blocks:
        both = (coordinates[:, :, None] >= 0) & (coordinates[:, None] >= 0)
        rows.append(np.broadcast_to(coordinates[:, :, None], block.shape)[both])
        columns.append(np.broadcast_to(coordinates[:, None], block.shape)[both])
        values.append(block[both])
    return coo_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(size, size)).tocsr()
