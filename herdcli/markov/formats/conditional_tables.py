"""Helpers for writers of Bayesian networks: the table of each variable given its parents, and names that a format allows."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from herdcli.errors import DataError
from herdcli.markov.model.graphs.dag import find_cycle
from herdcli.markov.model.network import Network
from herdcli.schema import Array

AUXILIARY = "herd_auxiliary"  # the property of auxiliary variables in files
AUXILIARY_MARK = f"{AUXILIARY} = true"
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def extract_conditional_tables(network: Network, form: str) -> list[tuple[tuple[int, ...], Array]]:
    """Return the parents of each variable, and its conditional table with the variable last.

    Raises DataError if the factors are not conditional tables.
    """
    factors = {scope[-1]: (scope[:-1], table) for scope, table in network.factors() if scope}
    message, hint = f"is not a Bayesian network, the only kind that {form} can hold", "write UAI or HDF5: -o FILE.uai"
    proper = all(np.allclose(table.sum(axis=-1), 1, rtol=0, atol=1e-4) for _, table in factors.values())
    if len(factors) != network.count or network.factor_count != network.count or not proper:
        raise DataError(message, hint=hint)
    if find_cycle({i: parents for i, (parents, _) in factors.items()}):
        raise DataError(f"{message}: its factors form a cycle", hint=hint)
    return [factors[i] for i in range(network.count)]


def state_names_or_numbers(network: Network) -> list[list[str]]:
    """Return the names of the states of each variable, or their numbers from 0 if they have no names."""
    counts = network.cardinality.tolist()
    if network.states is None:
        return [list(map(str, range(count))) for count in counts]
    ends = list(itertools.accumulate(counts, initial=0))
    return [network.states[low:high] for low, high in itertools.pairwise(ends)]


def make_unique_identifiers(names: Sequence[str], letter: str) -> list[str]:
    """Return unique identifiers of ASCII letters, digits and underscores that resemble the names; valid names are kept."""
    taken = {name for name in names if _IDENTIFIER.fullmatch(name)}
    made = []
    for name in names:
        if name not in taken or not _IDENTIFIER.fullmatch(name):
            stem = re.sub(r"[^A-Za-z0-9_]", "_", name)
            stem = stem if _IDENTIFIER.fullmatch(stem) else f"{letter}{stem}"
            name = next(tried for k in itertools.count() if (tried := stem if k == 0 else f"{stem}_{k}") not in taken)
            taken.add(name)
        made.append(name)
    return made


def fill_missing_rows(network: Network, missing_rows: str | None, notes: list[str]) -> Network:
    """Fill rows of NaN in a Bayesian network with uniform distributions, if the user requests it.  Raises DataError for NaN otherwise.

    bnlearn writes such rows for states of the parents that do not occur in its data.
    """
    if not network.directed or not np.isnan(network.table).any():
        return network
    flat, tables, rows = network.table.copy(), 0, 0
    for a, (scope, table) in enumerate(network.factors()):
        missing = np.asarray(np.isnan(table).any(axis=-1))
        if not missing.any():
            continue
        child = network.name(scope[-1])
        if not np.isnan(table[missing]).all():
            raise DataError(f"a row of the table of {child} mixes NaN and numbers")
        if missing_rows != "uniform":
            raise _missing_row_error(network, scope, missing)
        tables, rows = tables + 1, rows + int(missing.sum())
        own = flat[network.table_offset[a] : network.table_offset[a + 1]]
        own[np.isnan(own)] = 1.0 / table.shape[-1]
    noun = "row" if rows == 1 else "rows"
    notes.append(f"{rows} {noun} of NaN in {tables} {'table' if tables == 1 else 'tables'} replaced by uniform distributions")
    return replace(network, table=flat)


def _missing_row_error(network: Network, scope: tuple[int, ...], missing: Array) -> DataError:
    first = np.argwhere(missing)[0].tolist()
    where = ", ".join(f"{network.name(i)}={network.state_name(i, k)}" for i, k in zip(scope, first, strict=False))
    count = f"{int(missing.sum())} of its {missing.size} rows, the first for {where}" if where else "its only row"
    hint = "use --missing-rows uniform: bnlearn writes NaN for states of the parents that its data lack"
    return DataError(f"the table of {network.name(scope[-1])} has NaN in {count}", hint=hint)
