"""Exact log Z of a harmonium with one gaussian layer: a sum over all states of the other layer, with one multiplication each.

With gaussian visible units Σ_v e^{−E} is e^{c·h + ½ |b + W h|²} times the base measure of h: a quadratic form q(h) = h·(c + W'b) + ½ h'G h
with G = W'W, however many visible units there are.  A hidden state is two near parts n and m and a far part f.  For one far part

    Σ_{n,m} e^{q} = e^{q(f)} Σ_{n,m} e^{q(n) + n·u} M_{nm} e^{q(m) + m·w},      M_{nm} = e^{n'G m},

with the fields u and w of the far part.  M is computed once, so that many far parts together are one matrix product.
If the sum is so small that exponentials may have underflowed in it, it is computed from logarithms.
"""

from __future__ import annotations

import numpy as np

from herdcli.numerics import exact_arithmetic
from herdcli.rbm.likelihood.unit_states import count_enumerable_units, count_states, decode_state_indices
from herdcli.rbm.model import Harmonium
from herdcli.records import dataclass
from herdcli.schema import Array

NEAR = 256  # states of a near part
TOGETHER = 256  # far parts of a block
SMALL = 1e-200  # in a sum below this share of the largest possible sum, terms may have underflowed


@dataclass(frozen=True)
class GaussianVisibleSums:
    """The sums of a model, in blocks of far parts.

    first, second  (n, ·) and (m, ·), the states of the near parts.  cross  (n, m) the terms of q with both near parts, at most 0 in any row
    and column, M  their exponentials.  own  (n,) and (m,), all other terms of the near parts.
    """

    h: Harmonium
    first: Array
    second: Array
    cross: Array
    M: Array
    own: tuple[Array, Array]
    field: Array  # (K,) c + W'b
    G: Array  # (K, K)

    @classmethod
    def from_harmonium(cls, h: Harmonium) -> GaussianVisibleSums:
        """Make the sums for a model with gaussian visible units, and hidden units with finitely many states."""
        units = h.hidden.count_units(h.W.shape[1])
        one = count_enumerable_units(h.hidden, units // 2, NEAR)
        two = min(one, units - one)
        while count_states(h.hidden, two, first=one) > max(NEAR, count_states(h.hidden, one)):
            two -= 1
        first, second = (
            decode_state_indices(h.hidden, count, np.arange(count_states(h.hidden, count, first=start)), first=start)
            for start, count in ((0, one), (one, two))
        )
        G, field = exact_arithmetic.matrix_product(h.W.T, h.W), h.c + exact_arithmetic.matrix_product(h.W.T, h.b)
        a, b = first.shape[1], first.shape[1] + second.shape[1]
        cross = np.asarray(exact_arithmetic.matrix_product(exact_arithmetic.matrix_product(first, G[:a, a:b]), second.T))
        own = [np.zeros(len(first)), np.zeros(len(second))]
        for side, (rows, place) in enumerate(((first, slice(0, a)), (second, slice(a, b)))):
            quadratic = 0.5 * (exact_arithmetic.matrix_product(rows, G[place, place]) * rows).sum(axis=1)
            own[side] = np.asarray(exact_arithmetic.matrix_product(rows, field[place]) + quadratic + h.hidden.log_base_measure(rows))
        for side in (0, 1):  # the largest entries of rows and columns are moved from M to the near parts' own terms
            largest = cross.max(axis=1 - side)
            cross = cross - (largest[:, None] if side == 0 else largest)
            own[side] = own[side] + largest
        return cls(h, first, second, cross, np.asarray(exact_arithmetic.exp(cross)), (own[0], own[1]), field, G)

    @property
    def near(self) -> int:
        """The number of columns of both near parts."""
        return int(self.first.shape[1] + self.second.shape[1])

    @property
    def parts(self) -> int:
        """The number of far parts."""
        near = self.h.hidden.count_units(self.near)
        return count_states(self.h.hidden, self.h.hidden.count_units(self.h.W.shape[1]) - near, first=near)

    @property
    def blocks(self) -> int:
        """The number of blocks of far parts."""
        return -(-self.parts // TOGETHER)

    def log_sum(self, block: int) -> float:
        """Compute the log of the sum of e^{−E} over all visible states and the near parts, for the far parts of a block."""
        h, near, cut = self.h, self.near, self.first.shape[1]
        numbers = np.arange(block * TOGETHER, min((block + 1) * TOGETHER, self.parts))
        first = h.hidden.count_units(near)
        far = decode_state_indices(h.hidden, h.hidden.count_units(h.W.shape[1]) - first, numbers, first=first)
        fixed = exact_arithmetic.matrix_product(far, self.field[near:]) + 0.5 * (
            exact_arithmetic.matrix_product(far, self.G[near:, near:]) * far
        ).sum(axis=1)
        fixed = fixed + h.hidden.log_base_measure(far) + 0.5 * exact_arithmetic.matrix_product(h.b, h.b)
        fields = exact_arithmetic.matrix_product(far, self.G[near:, :near])
        left = exact_arithmetic.matrix_product(fields[:, :cut], self.first.T) + self.own[0]
        right = exact_arithmetic.matrix_product(fields[:, cut:], self.second.T) + self.own[1]
        tops = left.max(axis=1), right.max(axis=1)
        shares = (
            exact_arithmetic.matrix_product(exact_arithmetic.exp(left - tops[0][:, None]), self.M)
            * exact_arithmetic.exp(right - tops[1][:, None])
        ).sum(axis=1)
        found = fixed + tops[0] + tops[1] + np.asarray(exact_arithmetic.log(np.maximum(shares, SMALL)))
        for part in np.flatnonzero(shares <= SMALL):
            found[part] = fixed[part] + self._sum_by_logarithms(left[part], right[part])
        return float(exact_arithmetic.log_sum_exp(found))

    def _sum_by_logarithms(self, left: Array, right: Array) -> float:
        return float(exact_arithmetic.log_sum_exp((self.cross + left[:, None] + right).ravel()))
