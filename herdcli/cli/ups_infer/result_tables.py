"""Results of `herd ups-infer` as tables, CSV or Parquet: one row per variable, or one row per state of the queried variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame.output import outputs

if TYPE_CHECKING:
    from herdcli.artifacts.dataset import Dataset
    from herdcli.cli.frame.output.outputs import HistorySource
    from herdcli.cli.frame.run.session import Session
    from herdcli.markov.model.beliefs import Beliefs
    from herdcli.markov.model.network import Network
    from herdcli.schema import Array

TABLES = ("csv", "parquet")
VARIABLE = "variable"


def save_table(
    session: Session, dataset: Dataset, summary: str, form: str, history: HistorySource, leading: Sequence[str] = (VARIABLE,)
) -> None:
    """Write a table to -o, with the columns that identify a row first; cells without a value are empty."""
    leading = [name for name in leading if name in (dataset.columns or {})]
    outputs.write_artifact(session, dataset, summary, history=history, format=form, missing=True, leading=leading)


def marginal_table(beliefs: Beliefs) -> Dataset:
    """Return one row per variable: its name, its most probable state if that was queried, and p0, p1, … for its states.

    If states have names, a last column `states` lists those of each variable in the order of p0, p1, ….
    """
    rows = beliefs.marginals()
    p = np.full((len(rows), max(map(len, rows))), np.nan)
    for row, values in zip(p, rows, strict=True):
        row[: len(values)] = values
    columns = {f"p{k}": p[:, k] for k in range(p.shape[1])}
    if beliefs.assignment is not None:
        columns = {"state": np.where(beliefs.assignment < 0, np.nan, beliefs.assignment)} | columns
    words = {VARIABLE: variable_names(beliefs)}
    if beliefs.states is not None:
        words["states"] = ["; ".join(beliefs.states[low:high]) for low, high in pairwise(beliefs.node_offset.tolist())]
    return dataset_from_columns(columns, words)


def dataset_from_columns(numbers: Mapping[str, Array], words: Mapping[str, Sequence[str]] | None = None) -> Dataset:
    """Return a data set with numeric columns and text columns."""
    from herdcli.artifacts.dataset import Dataset

    X = np.column_stack(list(numbers.values()))
    texts = {name: np.array(list(column), dtype=str) for name, column in (words or {}).items()}
    return Dataset(X, feature_names=list(numbers), columns=texts or None)


def describe_factor_cells(named: Network, network: Network) -> dict[str, list[str]]:
    """Return text columns that describe every cell of every factor: the child, its state, its parents and their states.

    In a network without directions they name all variables of the factor.

    named    the network with the names of states.
    network  the same network with all its factors, those of likelihoods last.
    """
    children, own, parents, states = list[str](), list[str](), list[str](), list[str]()
    for a, (scope, table) in enumerate(network.factors()):
        directed = named.directed and a < named.factor_count and bool(scope)
        above = scope[:-1] if directed else scope
        title = named.name(scope[-1]) if directed else ""
        over = ", ".join(map(named.name, above))
        for cell in np.ndindex(table.shape):
            children.append(title)
            own.append(named.state_name(scope[-1], cell[-1]) if directed else "")
            parents.append(over)
            states.append(", ".join(named.state_name(i, k) for i, k in zip(above, cell, strict=False)))
    if any(children):
        return {"child": children, "child_state": own, "parents": parents, "parent_states": states}
    return {"variables": parents, "states": states}


def factor_cell_label(words: Mapping[str, Sequence[str]], cell: int) -> str:
    """Return a description of one cell."""
    if "child" not in words or not words["child"][cell]:
        own = (words[name][cell] for name in (("parents", "parent_states") if "child" in words else ("variables", "states")))
        return "the factor over {} at {}".format(*own)
    given = f" given {words['parents'][cell]} = {words['parent_states'][cell]}" if words["parents"][cell] else ""
    return f"the table of {words['child'][cell]} = {words['child_state'][cell]}{given}"


def variable_names(beliefs: Beliefs) -> list[str]:
    """Return the names of all variables; an unnamed one is called x and its number."""
    return beliefs.names or [f"x{i}" for i in range(len(beliefs.node_offset) - 1)]
