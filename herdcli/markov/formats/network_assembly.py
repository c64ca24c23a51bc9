"""Assembly of a Bayesian network from the contents of a file: named variables, and a table of each variable given its parents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from herdcli.errors import DataError
from herdcli.markov.formats.tokens import ROUNDED
from herdcli.markov.model.graphs.dag import find_cycle
from herdcli.markov.model.network import Factor, Network, build_network
from herdcli.markov.model.noisy_max import MOST_CELLS, NoisyMax, divorce_parents, noisy_max_table
from herdcli.schema import Array


class NetworkAssembly:
    """Variables with their states and tables, in the order of the file.

    titles        names of variables that differ from the file's identifiers.
    state_titles  names of states, likewise.
    auxiliary     variables that divide the table of a noisy-max; they come last in the network.
    notes         sentences for the user about changes that the reader made.
    """

    def __init__(self) -> None:
        self.states: dict[str, list[str]] = {}
        self.tables: dict[str, tuple[list[str], Array]] = {}
        self.noisy: dict[str, NoisyMax] = {}
        self.titles: dict[str, str] = {}
        self.state_titles: dict[str, list[str]] = {}
        self.auxiliary: set[str] = set()
        self.notes: list[str] = []

    def declare_variable(self, name: str, states: Sequence[str]) -> None:
        """Declare a variable.  Raises DataError for a repeated name, for no states, and for repeated names of states."""
        if not name:
            raise DataError("a variable has no name")
        if name in self.states:
            raise DataError(f"variable {name} is declared twice")
        if not states:
            raise DataError(f"variable {name} has no states")
        if len(set(states)) < len(states):
            raise DataError(
                f"variable {name} has two states with the name '{next(state for state in states if list(states).count(state) > 1)}'"
            )
        self.states[name] = list(states)

    def table_shape(self, child: str, parents: Sequence[str]) -> list[int]:
        """Return the numbers of states of the parents, then of the child.  Raises DataError for undeclared and repeated variables."""
        scope = [*parents, child]
        for name in scope:
            if name not in self.states:
                raise DataError(f"variable {name} is not declared")
        if len(set(scope)) < len(scope):
            raise DataError(f"the table of {child} contains variable {next(name for name in scope if scope.count(name) > 1)} twice")
        return [len(self.states[name]) for name in scope]

    def add_table(self, child: str, parents: Sequence[str], values: Sequence[float] | Array, *, normalise: bool = False) -> None:
        """Add P(child | parents) from values in which the child varies fastest, then the last parent.

        normalise  rows may have any positive sum.  Raises DataError for a wrong number of values, and for rows with a wrong sum.
        """
        shape = self.table_shape(child, parents)
        if child in self.tables or child in self.noisy:
            raise DataError(f"variable {child} has two tables")
        size, table = math.prod(shape), np.asarray(values, dtype=np.float64).ravel()
        if not table.size:
            raise DataError(f"variable {child} has no table", hint="learn the parameters from rows: herd fit-mrf")
        if table.size != size:
            raise DataError(f"the table of {child} has {table.size} values, but its states and those of its parents need {size}")
        table = table.reshape(shape)
        sums = table.sum(axis=-1, keepdims=True)
        wrong = np.abs(sums - 1) > ROUNDED
        if normalise:
            table = np.divide(table, sums, out=table.copy(), where=wrong & (sums > 0))
            wrong &= sums <= 0
        if wrong.any():
            raise DataError(f"a row of the table of {child} sums to {float(sums[wrong][0]):.6g}, not to 1")
        self.tables[child] = (list(parents), table)

    def add_noisy_max(self, child: str, parents: Sequence[str], model: NoisyMax) -> None:
        """Add P(child | parents) as a noisy-max.  Raises DataError for tables of other shapes."""
        shape = self.table_shape(child, parents)
        if child in self.tables or child in self.noisy:
            raise DataError(f"variable {child} has two tables")
        given = [*(cause.shape for cause in model.causes), model.leak.shape]
        if given != [*((states, shape[-1]) for states in shape[:-1]), (shape[-1],)]:
            raise DataError(f"the noisy-max of {child} must have one row for each state of each parent, and one for the leak")
        for row in np.concatenate([*model.causes, model.leak[None]]):
            if abs(row.sum() - 1) > ROUNDED or (row < 0).any():
                told = f"sums to {float(row.sum()):.6g}, not to 1" if (row >= 0).all() else "has a negative value"
                raise DataError(f"a row of the noisy-max of {child} {told}")
        self.noisy[child] = model
        self.tables[child] = (list(parents), np.empty(0))

    def assemble_network(self, description: str = "table") -> Network:
        """Return the network.  Raises DataError for variables without a table, and for a cycle of parents.

        description  the name of a table in the format.
        """
        if not self.states:
            raise DataError("the network has no variables")
        if missing := [name for name in self.states if name not in self.tables]:
            raise DataError(f"variable {missing[0]} has no {description}")
        require_acyclic({child: parents for child, (parents, _) in self.tables.items()})
        found: dict[str, tuple[list[str], Array]] = {}
        for child, (parents, table) in self.tables.items():
            if child in self.noisy:
                found |= self._noisy_max_tables(child, parents)
            else:
                found[child] = (parents, table)
        names = sorted(self.states, key=lambda name: name in self.auxiliary)
        if len(self.auxiliary) == len(names):
            raise DataError("all variables are marked as auxiliary")
        place = {name: i for i, name in enumerate(names)}
        factors: list[Factor] = [((*(place[parent] for parent in found[name][0]), place[name]), found[name][1]) for name in names]
        every = [state for name in names for state in self._state_display_names(name)]
        titles = [self.titles.get(name, name) for name in names]
        shown = titles if len(set(titles)) == len(names) else names
        cardinality = [len(self.states[name]) for name in names]
        return build_network(cardinality, factors, names=shown, states=every, directed=True, auxiliary=len(self.auxiliary))

    def _state_display_names(self, name: str) -> list[str]:
        found, own = self.state_titles.get(name, []), self.states[name]
        return found if len(set(found)) == len(own) == len(found) else own

    def _noisy_max_tables(self, child: str, parents: list[str]) -> dict[str, tuple[list[str], Array]]:
        """Return the tables of a noisy-max: one if it is small, otherwise one for each parent, joined by auxiliary variables."""
        model, shape = self.noisy[child], self.table_shape(child, parents)
        if math.prod(shape) <= MOST_CELLS or len(parents) < 3:
            return {child: (parents, noisy_max_table(model))}
        names: list[str] = []
        found: dict[str, tuple[list[str], Array]] = {}
        for table, number in zip(divorce_parents(model), range(2, len(parents) + 1), strict=True):
            name = child if number == len(parents) else self._unused_name(f"{child}~{number}")
            above = [parents[0]] if number == 2 else [names[-1]]
            found[name] = ([*above, parents[number - 1]], table)
            names.append(name)
            if name != child:
                self.states[name] = list(self.states[child])
                self.auxiliary.add(name)
        self.notes.append(
            f"{self.titles.get(child, child)} is a noisy-max of {len(parents)} parents, so its table is divided into smaller ones"
        )
        return found

    def _unused_name(self, name: str) -> str:
        while name in self.states:
            name += "~"
        return name


def require_acyclic(parents: Mapping[str, Sequence[str]]) -> None:
    """Raise DataError, with the cycle, if a variable is its own ancestor."""
    if circle := find_cycle(parents):
        raise DataError(
            f"the parents form a cycle: {' ← '.join(circle)}", hint="remove or reverse one of these edges: a Bayesian network has no cycle"
        )
