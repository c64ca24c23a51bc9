"""Weights of given atoms for which Σ_u w_u Φ(x_u) is nearest to μ, and a report on such weights.

    uniform  1/m      simplex  w ≥ 0, Σw = 1      affine  Σw = 1      free  none (Bayes–Hermite quadrature)

Equal atoms share their weight equally.  Source: Bach, Lacoste-Julien & Obozinski (2012), sec. 3.1 and 5.1 ("-proj").
"""

from __future__ import annotations

import numpy as np

from herdcli.numerics import exact_arithmetic
from herdcli.numerics.symmetric_matrices import symmetric_eigendecomposition, symmetric_eigenvalues
from herdcli.quadrature import simplex
from herdcli.quadrature.rules.candidate_space import CandidateSpace
from herdcli.records import dataclass
from herdcli.schema import Array

MOST_CONDITION = 3000  # the condition number is computed for at most this many distinct atoms
MOST_EXACT = 300  # the same with exact arithmetic, whose eigenvalues take longer
CUT = 1e-14  # smaller eigenvalues, relative to the largest, count as 0


@dataclass(frozen=True)
class AtomWeightReport:
    """A report on weights: condition number of the distinct atoms' Gram matrix, smallest weight, effective size (Σw)²/Σw², and MMD.

    The condition number is NaN beyond MOST_….
    """

    condition: float
    smallest: float
    effective: float
    mmd: float


def compute_atom_weights(kind: str, space: CandidateSpace, atoms: Array, embedding: Array, *, likely_support: Array | None = None) -> Array:
    """Compute the weights (m,) of atoms (m, d) with μ (m,) at them; start is a likely support of the simplex weights.

    affine and free weights come from an eigendecomposition without the directions smaller than rounding.
    """
    if kind == "uniform":
        return np.full(len(atoms), 1.0 / len(atoms))
    first, place, counts = _group_equal_atoms(atoms)
    gram, linear = space.kernel.matrix(atoms[first], atoms[first]), embedding[first]
    if kind == "simplex":
        support = None if likely_support is None else np.unique(place[likely_support])
        found = simplex.simplex_weights(gram, linear, start=support)
    else:
        found = _minimise_quadratic(gram, linear, affine=kind == "affine")
    return np.asarray(found[place] / counts[place])


def _group_equal_atoms(atoms: Array) -> tuple[Array, Array, Array]:
    """Find groups of equal atoms, in order of appearance.

    Returns the position of the first atom of each group, the group of each atom, and the group sizes.
    """
    _, first, place, counts = np.unique(atoms, axis=0, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[place.ravel()], counts[order]


def _minimise_quadratic(gram: Array, embedding: Array, *, affine: bool) -> Array:
    """Compute argmin ½ w'Kw − w'z, with Σw = 1 if `affine`."""
    if not affine:
        return _pseudo_inverse_solve(gram, embedding)
    # K + c 11' is definite if the atoms are affinely independent, and equivalent to K on Σw = 1
    shift = float(np.abs(np.diag(gram)).max()) or 1.0
    both = _pseudo_inverse_solve(gram + shift, np.column_stack([embedding, np.ones(len(gram))]))
    return np.asarray(both[:, 0] + (1.0 - both[:, 0].sum()) / both[:, 1].sum() * both[:, 1])


def _pseudo_inverse_solve(gram: Array, right: Array) -> Array:
    values, vectors = symmetric_eigendecomposition(gram)
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > CUT * values[-1])
    return np.asarray(exact_arithmetic.matrix_product(vectors * inverse, exact_arithmetic.matrix_product(vectors.T, right)))


def make_weight_report(space: CandidateSpace, atoms: Array, embedding: Array, weight: Array) -> AtomWeightReport:
    """Compute the report on weights (m,), including their MMD."""
    first, place, _ = _group_equal_atoms(atoms)
    shared = np.bincount(place, weights=weight, minlength=len(first))
    most = MOST_EXACT if exact_arithmetic.is_exact() else MOST_CONDITION
    quadratic = float(exact_arithmetic.matrix_product(shared, embedding_at_atoms(space, atoms[first], shared)))
    return AtomWeightReport(
        condition=_condition_number(space.kernel.matrix(atoms[first], atoms[first])) if len(first) <= most else float("nan"),
        smallest=float(weight.min()),
        effective=float(exact_arithmetic.integer_power(weight.sum(), 2) / np.square(weight).sum()),
        mmd=space.mmd_from_terms(quadratic, float(exact_arithmetic.matrix_product(shared, embedding[first]))),
    )


def embedding_at_atoms(space: CandidateSpace, atoms: Array, weight: Array) -> Array:
    """Compute Σ_u w_u k(x_u, ·) at the atoms themselves (m,), without the whole Gram matrix."""
    block = max(1, (1 << 20) // len(atoms))
    parts = [exact_arithmetic.matrix_product(space.kernel.matrix(atoms[i : i + block], atoms), weight) for i in range(0, len(atoms), block)]
    return np.concatenate(parts)


def _condition_number(gram: Array) -> float:
    values = np.abs(symmetric_eigenvalues(gram))
    return float(values.max() / values.min()) if values.min() > 0 else float("inf")


def simplex_mmd_trace(space: CandidateSpace, atoms: Array, embedding: Array, *, per_decade: int = 8) -> tuple[Array, Array]:
    """Compute the MMD (p,) of the first t atoms under their simplex weights, for numbers t (p,).

    The numbers are spaced evenly in the logarithm, and the last is m.  Returns the numbers and the MMD.
    """
    m = len(atoms)
    points = int(np.ceil(per_decade * np.log10(max(m, 2)))) + 1
    counts = np.unique(np.append(np.round(np.logspace(0, np.log10(m), points)).astype(np.int64), [1, m]))
    found, support = np.empty(len(counts)), None
    for i, t in enumerate(counts):
        w = compute_atom_weights("simplex", space, atoms[:t], embedding[:t], likely_support=support)
        support = np.flatnonzero(w)
        gram = space.kernel.matrix(atoms[support], atoms[support])
        quadratic = float(exact_arithmetic.matrix_product(exact_arithmetic.matrix_product(w[support], gram), w[support]))
        found[i] = space.mmd_from_terms(quadratic, float(exact_arithmetic.matrix_product(w[support], embedding[support])))
    return counts, found
