"""Random Boltzmann machines generated from a seed, for tests and experiments: lattices, trees, random graphs.

P(x) ∝ exp(Σ W_ij x_i x_j + Σ b_i x_i), x ∈ {0,1}^N, W_ij ~ N(0, σ_w²), b_i ~ N(−½ Σ_j W_ij, σ_b²): with σ_b = 0 every mean is ½.
Source: Teh (2003), sec. 5.7.
"""

from __future__ import annotations

import numpy as np

from herdcli.errors import BadUsage
from herdcli.markov.model.network import Network, with_observed_marginals
from herdcli.rng import Stream, generator
from herdcli.schema import Array

LARGEST_WEIGHT = 700.0  # exp of more overflows float64


def grid_edges(rows: int, columns: int) -> Array:
    """Return the edges (E, 2) of a lattice whose variables are numbered row by row: first those to the right, then those down."""
    at = np.arange(rows * columns).reshape(rows, columns)
    right = np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], axis=1)
    down = np.stack([at[:-1].ravel(), at[1:].ravel()], axis=1)
    return np.concatenate([right, down])


def draw_tree_edges(nodes: int, random: np.random.Generator) -> Array:
    """Return the edges (N−1, 2) of a random recursive tree: the parent of node i is one of the nodes before it."""
    parents = [int(random.integers(i)) for i in range(1, nodes)]
    return np.array([(parent, i) for i, parent in enumerate(parents, 1)], dtype=np.int64).reshape(-1, 2)


def draw_random_edges(nodes: int, degree: float, random: np.random.Generator) -> Array:
    """Return random edges (E, 2): each pair is joined with probability degree/(N−1)."""
    if degree > nodes - 1:
        raise BadUsage(f"--mean-degree {degree:g} is too large: with {nodes} nodes it is at most {nodes - 1}")
    count = int(random.binomial(nodes * (nodes - 1) // 2, degree / max(1, nodes - 1)))
    found: set[tuple[int, int]] = set()
    while len(found) < count:
        i, j = sorted(random.integers(nodes, size=2).tolist())
        if i < j:
            found.add((i, j))
    return np.array(sorted(found), dtype=np.int64).reshape(-1, 2)


def draw_weights(nodes: int, edges: Array, sigma_w: float, sigma_b: float, random: np.random.Generator) -> tuple[Array, Array]:
    """Draw weights (E,) and biases (N,)."""
    W = sigma_w * random.standard_normal(len(edges))
    incoming = np.bincount(edges[:, 0], W, nodes) + np.bincount(edges[:, 1], W, nodes)
    # With x = (1 + s)/2 the field on spin s_i is ½ b_i + ¼ Σ_j W_ij, which this makes ½ σ_b times a normal:
    # at σ_b = 0 a state and its reverse are equally likely, and every mean is ½ (Teh 2003, sec. 5.7).
    b = -0.5 * incoming + sigma_b * random.standard_normal(nodes)
    return W, b


def network_from_weights(edges: Array, W: Array, b: Array, *, shape: Array | None = None) -> Network:
    """Return the network of a Boltzmann machine: a factor (1, e^b) for each unit, then (1, 1, 1, e^W) for each edge."""
    largest = float(max(np.abs(W).max(initial=0), np.abs(b).max(initial=0)))
    if largest > LARGEST_WEIGHT:
        raise BadUsage(
            f"a random weight is {largest:.4g}, but weights above {LARGEST_WEIGHT:g} overflow in a table", hint="use a smaller --sigma-w"
        )
    n, m = len(b), len(edges)
    units = np.stack([np.ones(n), np.exp(b)], axis=1)
    pairs = np.ones((m, 4))
    pairs[:, 3] = np.exp(W)
    return Network(
        np.full(n, 2, dtype=np.int64),
        np.concatenate([np.arange(n), edges.ravel()]),
        np.concatenate([np.arange(n), n + 2 * np.arange(m + 1)]),
        np.concatenate([units.ravel(), pairs.ravel()]),
        np.concatenate([2 * np.arange(n), 2 * n + 4 * np.arange(m + 1)]),
        shape=shape,
    )


def border_variables(rows: int, columns: int) -> Array:
    """Return the variables on the border of a lattice."""
    at = np.arange(rows * columns).reshape(rows, columns)
    inner = at[1:-1, 1:-1].ravel()
    return np.setdiff1d(at.ravel(), inner)


def observe_random_marginals(network: Network, nodes: Array, sigma_alpha: float, random: np.random.Generator) -> Network:
    """Return the network with observed marginals P(x_i = 1) = 1/(1+e^α), α ~ N(0, σ_α²), at `nodes`."""
    alpha = sigma_alpha * random.standard_normal(len(nodes))
    on = 1 / (1 + np.exp(alpha))
    return with_observed_marginals(network, {int(i): np.array([1 - p, p]) for i, p in zip(nodes, on, strict=True)})


def generation_bytes(structure: str, *, rows: int, columns: int, nodes: int, degree: float) -> int:
    """Return the bytes that `generate_random_network` needs: edges, tables and offsets in arrays.

    The edges of trees and random graphs are Python objects first.
    """
    if structure == "grid":
        return 450 * rows * columns
    return 450 * nodes if structure == "tree" else nodes * (150 + int(150 * degree))


def generate_random_network(
    structure: str, *, rows: int = 5, columns: int = 5, nodes: int = 25, degree: float = 4.0,
    sigma_w: float = 1.0, sigma_b: float = 1.0, observe: str | None = None, sigma_alpha: float = 1.0, seed: int = 0,
) -> Network:  # fmt: skip
    """Generate a `grid` of rows × columns, or a `tree` or `random` graph on `nodes`.

    observe  `border_variables` (grids only), `leaves` or None.
    """
    random = generator(seed, Stream.NETWORK)
    shape = None
    if structure == "grid":
        nodes, edges, shape = rows * columns, grid_edges(rows, columns), np.array([rows, columns])
    elif structure == "tree":
        edges = draw_tree_edges(nodes, random)
    else:
        edges = draw_random_edges(nodes, degree, random)
    network = network_from_weights(edges, *draw_weights(nodes, edges, sigma_w, sigma_b, random), shape=shape)
    if observe is None:
        return network
    if observe == "border":
        if structure != "grid":
            raise BadUsage("--draw-observed border needs a grid", hint="use --draw-observed leaves, which works for trees")
        chosen = border_variables(rows, columns)
    else:
        chosen = np.flatnonzero(np.bincount(edges.ravel(), minlength=nodes) == 1)
    return observe_random_marginals(network, chosen, sigma_alpha, random)
