"""The similarity of two images under a harmonium of pairs, from the contribution of each image to the hidden units' input.

With the totals I^k(v) = v'W^k of image v in position k, the goodness (negative free energy) of a pair is, up to terms of a single
image, Σ_j A(c_j + I¹_j(v¹) + I²_j(v²)), and the balanced similarity

    F(v, w) = G(v, w) + G(w, v) − G(v, v) − G(w, w)

has no other terms.  So 2K numbers per image are sufficient.
Source: Teh (2003), eq. 3.7, 3.8 and 3.10.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from herdcli.algorithm import Map
from herdcli.rbm.pairs import PairRBM
from herdcli.rbm.units import unit_family
from herdcli.rbm.units.base import UnitFamily
from herdcli.records import dataclass
from herdcli.schema import Array

ROWS, COLUMNS = 32, 512  # pairs of one block, whose work arrays stay in cache
FACTORS = 8  # terms 1 + e^a that are multiplied before a logarithm is computed
LARGEST = 80.0  # e^{8·80} is still a float64


@dataclass(frozen=True)
class HiddenInputTotals:
    """Contributions of images to the hidden units' input, in the first position (biases included) and the second: (n, K) float64."""

    first: Array
    second: Array

    def __len__(self) -> int:
        return len(self.first)


def compute_hidden_input_totals(model: PairRBM, X: Array) -> HiddenInputTotals:
    """Compute the totals of images X (n, D) in unit values."""
    X = np.asarray(X, dtype=np.float64)
    return HiddenInputTotals(X @ model.W1.astype(np.float64) + model.c, X @ model.W2.astype(np.float64))


def pair_goodness(model: PairRBM, first: Array, second: Array) -> Array:
    """Compute G(v¹, v²) = −F(v) of pairs of images (n, D), (n, D) in nats, (n,).  Source: Teh (2003), eq. 3.7."""
    return -model.harmonium().free_energy(np.concatenate([first, second], axis=1))


def pair_similarity(model: PairRBM, probes: HiddenInputTotals, gallery: HiddenInputTotals, map: Map = map) -> Array:
    """Compute F (P, G) of every probe with every gallery image, in nats.

    map  runs blocks of probes; it may use threads.
    """
    units = unit_family(model.settings.hidden_units)
    result = np.empty((len(probes), len(gallery)))
    own = [units.summed_log_partition(part.first + part.second) for part in (probes, gallery)]
    score = _make_pair_scorer(units, probes, gallery)

    def fill(start: int) -> None:
        rows = slice(start, start + ROWS)
        for left in range(0, len(gallery), COLUMNS):
            columns = slice(left, left + COLUMNS)
            # F = G(p, g) + G(g, p) − G(p, p) − G(g, g) (Teh 2003, eq. 3.8), G = Σ_j A(I_j¹ + I_j²) + b·v (eq. 3.10): each image's visible
            # terms occur once in each position with either sign, and cancel.
            result[rows, columns] = score(rows, columns) - own[0][rows, None] - own[1][columns]

    list(map(fill, range(0, len(probes), ROWS)))
    return result


def _make_pair_scorer(units: UnitFamily, probes: HiddenInputTotals, gallery: HiddenInputTotals) -> Callable[[slice, slice], Array]:
    """Return a function that computes Σ_j A(a_j) of both orders of pairs, for a slice of the probes and one of the gallery."""
    if units.states == (0, 1):
        reach = [np.abs(part).max(initial=0.0) for part in (probes.first, probes.second, gallery.first, gallery.second)]
        if max(reach[0] + reach[3], reach[1] + reach[2]) <= LARGEST:
            return _make_product_scorer(units.scale, probes, gallery)

    def score(rows: slice, columns: slice) -> Array:
        orders = ((probes.first, gallery.second), (probes.second, gallery.first))
        parts = [units.summed_log_partition(mine[rows, None] + other[columns]) for mine, other in orders]
        total: Array = parts[0] + parts[1]
        return total

    return score


def _make_product_scorer(replicas: int, probes: HiddenInputTotals, gallery: HiddenInputTotals) -> Callable[[slice, slice], Array]:
    """Return the same function for n Σ_j log(1 + e^{x_j + y_j}) = n log Π_j (1 + e^{x_j} e^{y_j}).

    The loop then needs no exponential and few logarithms.
    """
    mine = [np.ascontiguousarray(np.exp(part).T) for part in (probes.first, probes.second)]
    others = [np.ascontiguousarray(np.exp(part).T) for part in (gallery.second, gallery.first)]

    def score(rows: slice, columns: slice) -> Array:
        blocks = [(x[:, rows], y[:, columns]) for x, y in zip(mine, others, strict=True)]
        total = np.zeros([part.shape[1] for part in blocks[0]])
        product, term = np.empty_like(total), np.empty_like(total)
        for x, y in blocks:
            for start in range(0, len(x), FACTORS):
                product.fill(1.0)
                for j in range(start, min(start + FACTORS, len(x))):
                    np.multiply(x[j][:, None], y[j], out=term)
                    term += 1.0
                    product *= term
                total += np.log(product, out=product)
        total *= replicas
        return total

    return score
