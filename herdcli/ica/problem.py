"""The rows, settings and state of stochastic gradient learning; the updates are in herdcli.ica.stochastic_learning."""

from __future__ import annotations

from dataclasses import field

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.ica.experts import AUTO, EXPERTS, density_names, require_integrable
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array

TRACED = 250  # largest number of entries of a trace
SUPER = {"infomax": "laplace", "equil": "logistic"}  # the super-Gaussian density of "auto", besides the bimodal one


@dataclass(frozen=True)
class LearningSettings:
    """The settings that determine a fit, together with its rows."""

    algorithm: str = "infomax"  # infomax, ebm or equil
    filters: int = 0  # M; 0: the number of dimensions
    expert: str = "logistic"  # a name of EXPERTS, or infomax: the energy of eq. 4.27; for equil also auto
    density: str = "logistic"  # density of the energy of eq. 4.27; for square infomax also auto
    natural: bool = True  # use the natural gradient, for infomax
    rates: tuple[tuple[float, int], ...] = ((0.05, 2000), (0.025, 2000), (0.005, 2000), (0.0025, 2000), (0.0005, 2000))
    batch_size: int = 100
    momentum: float = 0.9
    weight_decay: float = 0.0
    gamma: float = 1.0  # initial γ of every expert
    gamma_rate: float = 0.0  # rate of γ relative to that of J
    initial_scale: float = 0.1  # standard deviation of the initial filters' entries; 0: filters of length 1
    proposals: int = 1  # the n of CD-n
    leapfrog: int = 30
    acceptance: float = 0.9
    step_size: float = 0.1  # initial leapfrog step size
    step_gain: float = 0.005
    average: int = 0  # number of last updates over which the result is averaged; 0: the last parameters
    grid: tuple[int, int] | None = None  # height and width of a topographic map
    neighbourhood: int = 3  # side of the pooled squares of the map
    seed: int = 0

    def __post_init__(self) -> None:
        if self.algorithm not in ("infomax", "ebm", "equil"):
            raise BadUsage(f"unknown algorithm '{self.algorithm}', expected infomax, ebm or equil")
        if self.expert not in (*EXPERTS, "infomax", AUTO) or self.density not in (*EXPERTS, AUTO):
            raise BadUsage(f"unknown expert '{self.expert}' or density '{self.density}'")
        if self.density == AUTO and self.algorithm != "infomax":
            raise BadUsage(f"the density auto is for infomax, not for {self.algorithm}")
        if not self.rates or any(rate <= 0 or updates < 1 for rate, updates in self.rates):
            raise BadUsage("learning rates must be above 0, and each must hold for at least one update")
        if self.average > self.updates:
            raise BadUsage(f"cannot average the last {self.average} of {self.updates} updates")
        if self.grid is not None and (self.grid[0] * self.grid[1] != self.filters or self.expert != "student" or self.algorithm != "ebm"):
            raise BadUsage("a topographic map needs the algorithm ebm, the expert student, and as many cells as filters")

    @property
    def density_name(self) -> str:
        """The density of the outputs: `density` for infomax, `expert` for the others."""
        return self.density if self.algorithm == "infomax" else self.expert

    @property
    def learns_gamma(self) -> bool:
        """Whether γ of its experts can be learned."""
        return self.expert in EXPERTS and EXPERTS[self.expert].learns_gamma

    @property
    def updates(self) -> int:
        """The total number of updates of the schedule."""
        return sum(updates for _, updates in self.rates)

    def rate(self, update: int) -> float:
        """Return the rate of an update, counted from 0."""
        for rate, updates in self.rates:
            if update < updates:
                return rate
            update -= updates
        raise IndexError("the schedule is over")


@dataclass
class LearningState:
    """The parameters and the complete state of a fit."""

    step: int
    epsilon: float  # leapfrog step size
    J: Array = array("M D", "filters", kind="f", finite=True)
    gamma: Array = array("M", "weights of the experts", kind="f", finite=True)
    J_velocity: Array = array("M D", "last update of J", kind="f", finite=True)
    gamma_velocity: Array = array("M", "last update of γ", kind="f", finite=True)
    good_J: Array = array("M D", "filters when the acceptance was last as wanted", kind="f", finite=True)
    good_gamma: Array = array("M", "γ at that time", kind="f", finite=True)
    J_sum: Array = array("M D", "of the last updates, where they are averaged", kind="f", finite=True)
    gamma_sum: Array = array("M", "likewise", kind="f", finite=True)
    objective: Array = array("T", "trace", kind="f")
    acceptance: Array = array("T", "trace", kind="f")
    step_sizes: Array = array("T", "trace", kind="f")
    amari: Array = array("T", "trace", kind="f")
    accepted: float = 0.0  # sum of acceptances since the last entry of the trace
    low: int = 0  # consecutive updates with collapsed acceptance
    resets: int = 0  # number of resets of the leapfrog step; without chains, number of halvings of the rates
    good_objective: float = -np.inf  # objective at good_J, without chains
    raised: int = 0  # number of γ that were raised into the normalisable region
    signs: Array | None = array(
        "M", "for the density auto, 1 for a super-Gaussian density and -1 for the bimodal one", kind="i", optional=True
    )


@dataclass(frozen=True)
class LearningProblem:
    """Whitened rows Z (n, D) float32 or float64, and the settings.

    product  (C', S): forward @ mixing, so that J @ product is a scaled permutation if the mixing is undone.
    """

    Z: Array
    settings: LearningSettings
    product: Array | None = None
    _orders: dict[int, Array] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        n, D = self.Z.shape
        if n < 2:
            raise DataError("there must be at least two rows")
        if self.filters < D:
            raise BadUsage(
                f"{self.filters} filters are fewer than the {D} dimensions of the whitened rows",
                hint="keep fewer dimensions: --components N",
            )
        if self.settings.algorithm == "equil" and self.filters != D:
            raise BadUsage(
                f"--algorithm equil needs as many filters as dimensions, but there are {self.filters} filters for {D} dimensions",
                hint="use --algorithm ebm",
            )
        if self.settings.density_name == AUTO and (self.settings.algorithm not in SUPER or self.filters != D):
            raise BadUsage(
                f"with {self.filters} filters for {D} dimensions, {self.settings.algorithm} needs one density for all outputs, not auto"
            )
        if self.filters == D:
            require_integrable(self.settings.density_name, self.settings.gamma)

    @property
    def filters(self) -> int:
        """The number of filters, M."""
        return self.settings.filters or self.Z.shape[1]

    @property
    def updates_per_trace_entry(self) -> int:
        """The number of updates between entries of a trace."""
        return -(-self.settings.updates // TRACED)

    def experts(self, state: LearningState) -> list[str]:
        """Return the name of each output's expert."""
        if state.signs is not None:
            return density_names(state.signs, SUPER[self.settings.algorithm])
        overcomplete = self.settings.algorithm == "infomax" and self.filters > self.Z.shape[1]
        return ["infomax" if overcomplete else self.settings.density_name] * self.filters

    def batch(self, update: int) -> Array:
        """Return the rows of one update; each epoch has its own row order and drops an incomplete batch."""
        size = min(self.settings.batch_size, len(self.Z))
        epoch, place = divmod(update, len(self.Z) // size)
        if epoch not in self._orders:
            self._orders.clear()
            self._orders[epoch] = generator(self.settings.seed, Stream.SHUFFLE, step=epoch).permutation(len(self.Z))
        rows: Array = self.Z[self._orders[epoch][place * size : (place + 1) * size]]
        return rows


def pooling_weights(grid: tuple[int, int], side: int) -> Array:
    """Return weights (K, K) of 1/side² over the square around each position of a periodic grid: a mean of squared outputs."""
    height, width = grid
    if side > min(grid) or side % 2 == 0:
        raise BadUsage(f"a neighbourhood of {side} does not fit a grid of {height}×{width}: its side must be odd and at most {min(grid)}")
    rows, columns = np.divmod(np.arange(height * width), width)
    down = np.abs(rows[:, np.newaxis] - rows)
    across = np.abs(columns[:, np.newaxis] - columns)
    near: Array = (np.minimum(down, height - down) <= side // 2) & (np.minimum(across, width - across) <= side // 2)
    weights: Array = near / float(side**2)
    return weights
