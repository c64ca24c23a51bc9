"""Groups of two-state units of which exactly one is high: a text column with a unit for each of its levels.

The state of highest score is sought among the states in which each group has one high unit.  As every row is such a state, the
propositions on the dynamics hold for this maximum as for that over all states (Welling 2009, sec. 4 and 7).
"""

from __future__ import annotations

from dataclasses import field

import numpy as np

from herdcli.records import dataclass
from herdcli.schema import Array

UNTOUCHED = np.iinfo(np.int64).max


@dataclass(frozen=True)
class CategoricalVariables:
    """The units of all variables, variable by variable.

    units   (G,) indices of the units that belong to a variable.  starts  (V,) where each variable begins among `units`.
    """

    units: Array
    starts: Array
    _valid: dict[int, Array] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def variable_of_unit(self) -> Array:
        """The number of the variable (G,) of each of `units`."""
        return np.repeat(np.arange(len(self.starts)), np.diff([*self.starts.tolist(), len(self.units)]))

    def choose_states(self, fields: Array, x: Array, low: int) -> Array:
        """Return the state (D,) int8 of highest fields·x: units by sign, and of each variable the unit with the largest value.

        fields  (D,) derivative of the score.  x  (D,) the present state: of units with equal values, a unit that is high in x is chosen,
        else the first.
        """
        found = np.where(fields >= 0, 1, low).astype(np.int8)
        own, positions = fields[self.units], np.arange(len(self.units))
        largest = own == np.maximum.reduceat(own, self.starts)[self.variable_of_unit]
        first = np.minimum.reduceat(np.where(largest, positions, UNTOUCHED), self.starts)
        present = np.minimum.reduceat(np.where(largest & (x[self.units] > 0), positions, UNTOUCHED), self.starts)
        found[self.units] = low
        found[self.units[np.where(present < UNTOUCHED, present, first)]] = 1
        return found

    def valid_states(self, units: int) -> Array:
        """Return the numbers of the states of D units with exactly one high unit of every variable; bit i of a number is unit i."""
        if units not in self._valid:
            high = np.arange(1 << units)[:, None] >> self.units & 1
            self._valid[units] = np.flatnonzero((np.add.reduceat(high, self.starts, axis=1) == 1).all(axis=1))
        return self._valid[units]


def ascend(weights: Array, b: Array, c: Array, x: Array, z: Array, low: int, limit: int, variables: CategoricalVariables) -> int:
    """Maximise b·x + c·z + x'Mz by block coordinate ascent in place, as `fast.ascend`, with one high unit of each variable.

    weights  (D, K) integers.  b, c  (D,), (K,) int64.  x, z  (D,), (K,) int8.  limit  number of sweeps after which to stop; 0: none.
    Returns the number of sweeps done.
    """
    # Sums are integers below 2^53 (`dynamics._check_overflow`), so that they are exact in float64 in any order.
    factor = weights.astype(np.float64)
    sweeps = 0
    while True:
        z[...] = np.where(x @ factor + c >= 0, 1, low)
        found = variables.choose_states(factor @ z + b, x, low)
        stays = np.array_equal(found, x)
        x[...] = found
        sweeps += 1
        if stays or sweeps == limit:
            return sweeps


def find_variables(names: list[str], columns: list[list[str]], units: Array) -> CategoricalVariables | None:
    """Return the variables whose one-hot columns are in a table; None if there are none.

    names    of all columns of the table.  columns  for each text column the names of its one-hot columns.
    units    (D,) indices of the columns that are units; constant columns are not.
    """
    position = {name: index for index, name in enumerate(names)}
    unit_of_column = {int(column): unit for unit, column in enumerate(units)}
    groups = []
    for own in columns:
        if all(name in position for name in own):
            present = [unit_of_column[position[name]] for name in own if position[name] in unit_of_column]
            groups += [present] if len(present) > 1 else []
    if not groups:
        return None
    starts = np.cumsum([0, *map(len, groups[:-1])])
    return CategoricalVariables(np.array([unit for group in groups for unit in group]), starts)
