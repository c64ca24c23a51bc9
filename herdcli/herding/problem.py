"""The problem of herding with hidden variables: its settings, the driving terms of each run, and the size of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.herding.binary_features import EXACT, PackedRows
from herdcli.herding.categorical_variables import CategoricalVariables
from herdcli.records import dataclass
from herdcli.schema import Array

BLOCK_WORK = 4e10  # elementary products in one step of `iterate.run_steps`, about 100 ms
MOST_ROWS = (1 << 24) - 1  # largest number of rows whose sums of ±1 are exact in float32


@dataclass(frozen=True)
class HiddenHerdingSettings:
    """The settings of herding with hidden variables.

    variant      `local`: ascent starts from the last state; `safe`: from the row of lowest energy (sec. 7).
    flip         flip all spins at a fixpoint of local ascent with b·x + c·z < 0, which raises the score.
    hidden_bias  the update of c: `full`; `growthless`, −g(s) alone; `none`, c = 0.  On USPS, 4 splits, at 50, 100 and 250 hidden
                 units the test error is 2.9, 3.0, 3.0 % with growthless and 3.1, 2.7, 2.7 % with none.  Over the second half of
                 2,000 iterations ‖w‖ grows by 1.45 and by 1.2.
    sweeps       number of sweeps of block ascent; 0: to a fixpoint.
    burn_in      iterations before energies are averaged and pseudo-samples kept.
    energy_every number of iterations between two energies after burn-in.
    keep         number of last pseudo-samples kept; None: all after burn-in.
    step_sizes   integer step sizes of pair, visible and hidden features (sec. 8).
    """

    hidden: int = 100
    variant: Literal["local", "safe"] = "local"
    flip: bool = True
    hidden_bias: Literal["growthless", "none", "full"] = "none"
    sweeps: int = 0
    iterations: int = 2000
    burn_in: int = 1000
    energy_every: int = 1
    keep: int | None = None
    representation: Literal["spin", "binary"] = "spin"
    step_sizes: tuple[int, int, int] = (1, 1, 1)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.hidden < 1 or self.iterations < 1 or self.energy_every < 1 or self.sweeps < 0 or min(self.step_sizes) < 1:
            raise BadUsage("hidden units, iterations, step sizes and --energy-every must be at least 1")
        if not 0 <= self.burn_in < self.iterations:
            raise BadUsage(
                f"--burn-in {self.burn_in} must be less than --iterations {self.iterations}", hint="lower --burn-in, or raise --iterations"
            )

    @property
    def uses_spins(self) -> bool:
        """Whether units are −1 and +1; otherwise 0 and 1."""
        return self.representation == "spin"

    @property
    def can_flip_spins(self) -> bool:
        """Whether all spins may be flipped at a fixpoint.  Units of 0 and 1 have no such symmetry; the safe variant needs no flip."""
        return self.flip and self.uses_spins and self.variant == "local"

    @property
    def kept_state_count(self) -> int:
        """The number of states in the artifact: the last ones, without those of the burn-in."""
        after = self.iterations - self.burn_in
        return after if self.keep is None else min(self.keep, after)


@dataclass(frozen=True)
class DrivingTerms:
    """Constant driving terms in place of data, in units of 1/n, with the weights and the state to start from.

    Source: Welling (2009), sec. 9, the rates of eq. 22.
    """

    M: Array  # (D, K) int64, n times the rate of x z'
    b: Array  # (D,) int64
    c: Array  # (K,) int64
    n: int
    start: tuple[Array, Array, Array, Array, Array]  # M, b, c (int64, n times the weights), x, z (int8)


@dataclass(frozen=True)
class HiddenHerdingProblem:
    """The source of driving terms of each run, and the rows (q, ceil(D/64)) whose energies all runs average.

    numbers  the numbers of these runs among all runs; they determine the random numbers of each run.  None: 0, 1, ….
    variables  the units of which one is high in every state; None: there are none.
    """

    units: tuple[PackedRows | DrivingTerms, ...]
    settings: HiddenHerdingSettings
    queries: Array | None = None
    numbers: Sequence[int] | None = None
    variables: CategoricalVariables | None = None

    def __post_init__(self) -> None:
        for unit in self.units:
            if isinstance(unit, DrivingTerms) and self.settings.variant == "safe":
                raise BadUsage("--variant safe starts from rows of data, but only moments are given", hint="use --variant local")
            if isinstance(unit, PackedRows) and unit.count > MOST_ROWS:
                raise DataError(f"there are {unit.count} rows in one run, but herding handles at most {MOST_ROWS}")
            if self.largest_update(unit) >= EXACT:
                kind, hint = (
                    (BadUsage, "use smaller --step-sizes")
                    if isinstance(unit, PackedRows)
                    else (DataError, "make the driving rates with fewer --iterations")
                )
                raise kind(
                    f"an update changes the weights by up to {self.largest_update(unit):.2g}, too much for exact sums, which need less "
                    "than 9e15",
                    hint=hint,
                )

    @property
    def count(self) -> int:
        """The number of runs."""
        return len(self.units)

    def largest_update(self, unit: PackedRows | DrivingTerms) -> int:
        """Return the largest change of a sum of n times the weights of a unit in one update."""
        # x z' and its mean over rows both lie within ±1: an entry of n·w changes by 2nη at most, and a sum of K or D entries by K or D
        # times that.
        n = unit.count if isinstance(unit, PackedRows) else unit.n
        return 2 * max(self.settings.step_sizes) * max(self.visible, self.settings.hidden) * n

    def global_number(self, u: int) -> int:
        """Return the number of run u among all runs, including those of other shards."""
        return u if self.numbers is None else self.numbers[u]

    def part(self, runs: Sequence[int]) -> HiddenHerdingProblem:
        """Return the problem of some of the runs, which evolve exactly as among all."""
        return replace(self, units=tuple(self.units[u] for u in runs), numbers=[self.global_number(u) for u in runs])

    @property
    def visible(self) -> int:
        """The number of visible units, D."""
        first = self.units[0]
        return len(first.columns) if isinstance(first, PackedRows) else len(first.b)

    @property
    def block(self) -> int:
        """The number of iterations in one step, which depends on sizes alone."""
        rows = max(unit.count if isinstance(unit, PackedRows) else 0 for unit in self.units)
        queried = 0 if self.queries is None else len(self.queries)
        work = (rows + queried + 200) * self.visible * self.settings.hidden * len(self.units)
        return int(np.clip(BLOCK_WORK // work, 1, 200))
