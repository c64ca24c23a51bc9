"""The likelihood of square filters as sums over blocks of whitened rows, wherever the blocks are.

    L(J) = −log|det J| + E Σ_i (γ E_i(u_i) + log z_i),  u = J z
    relative gradient   G_ij = γ E ψ_i(u_i) u_j − δ_ij,  ψ = E'
    curvature           h_ij = γ E ψ'_i u_j²

Blocks are those of `numerics.block_statistics`: 4,096 rows counted from row 0, whose sums are added in a fixed tree.
"""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import Map
from herdcli.ica.densities.base import Expert
from herdcli.ica.experts import EXPERTS, combine_experts, density_names
from herdcli.numerics.block_statistics import BlockSource, BlockStatistics, RowBlock, Sums, sum_statistics
from herdcli.records import dataclass
from herdcli.schema import Array

SUPER = "laplace-smooth"  # the density that outputs choose as alternative to the bimodal one
BLOCK_ELEMENTS = 1 << 15  # outputs that fit in the cache


@dataclass(frozen=True)
class LikelihoodEvaluation:
    """The loss L at J, its relative gradient G and the curvature h."""

    loss: float
    G: Array
    h: Array


@dataclass(frozen=True)
class LikelihoodSums(BlockStatistics):
    """The sums Σ E, Σ ψ(u) u' and Σ ψ'(u) (u²)' of a block's rows, for filters J (D, D).

    density  of all outputs, or `signs` (D,): 1 for sech, −1 for the bimodal density.
    """

    J: Array
    density: str
    signs: Array | None = None

    @property
    def expert(self) -> Expert:
        """The densities of the outputs combined as one expert."""
        return EXPERTS[self.density] if self.signs is None else combine_experts(density_names(self.signs, SUPER))

    def __call__(self, block: RowBlock) -> Sums:
        """Return the sums of one block of whitened rows."""
        expert, M = self.expert, len(self.J)
        below = None if self.signs is None or (self.signs > 0).all() else self.signs < 0
        columns, size = block.X.T, max(1, BLOCK_ELEMENTS // M)
        energy, slopes, curvature = np.zeros(1), np.zeros((M, M)), np.zeros((M, M))
        for start in range(0, len(block.X), size):
            u = self.J @ columns[:, start : start + size]
            found, slope, curved = expert.energy_and_derivatives(u) if below is None else mixed_density_derivatives(below, u)
            energy += found
            slopes += slope @ u.T
            curvature += curved @ (u * u).T
        return {"energy": energy, "slopes": slopes, "curvature": curvature}


def evaluate_likelihood(
    source: BlockSource, rows: int, statistics: LikelihoodSums, gamma: float = 1.0, map: Map = map
) -> LikelihoodEvaluation:
    """Return L, G and h at `statistics` over all `rows` of a source of whitened blocks."""
    sums, M = sum_statistics(source, statistics, map), len(statistics.J)
    log_z = float(statistics.expert.log_z(np.full(M, gamma)).sum())
    # At (I + P) J, u becomes u + Pu.  −log det (I + P) = −tr P + ½ tr P² − …, and E Σ E_i(u_i + (Pu)_i) = … + Σ_ij P_ij E ψ_i u_j + ½ Σ_i E
    # ψ'_i ((Pu)_i)²: the slope is G = E ψu' − I, the curvature ½ Σ h_ij P_ij² + ½ Σ P_ij P_ji.
    loss = gamma * float(sums["energy"][0]) / rows + log_z - float(np.linalg.slogdet(statistics.J)[1])
    return LikelihoodEvaluation(loss, gamma * sums["slopes"] / rows - np.eye(M), gamma * sums["curvature"] / rows)


def mixed_density_derivatives(bimodal: Array, u: Array) -> tuple[float, Array, Array]:
    """Return energies, slopes and curvatures of outputs u (M, b), bimodal in the rows `bimodal` and sech in the others.

    E = u²/2 − log cosh u of the bimodal density is computed from the terms of sech.
    """
    _, slope, curved = EXPERTS[SUPER].energy_and_derivatives(u)
    size = np.abs(u)
    energies = (size + np.log1p(np.exp(-2.0 * size))).sum(axis=1) - u.shape[1] * np.log(2.0)
    energies[bimodal] = 0.5 * np.square(u[bimodal]).sum(axis=1) - energies[bimodal]
    slope[bimodal] = u[bimodal] - slope[bimodal]
    curved[bimodal] = 1.0 - curved[bimodal]
    return float(energies.sum()), slope, curved


def read_every_nth_row(source: BlockSource, step: int) -> Array:
    """Return rows 0, step, 2 step … of a source, (m, D), in one pass."""
    return np.concatenate([block.X[-block.first % step :: step].copy() for block in source.take(0, source.count)])
