"""An artifact as one table with all its rows, for DataFrames: rows of data, coefficients, marginals, atoms, components."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from herdcli.errors import BadUsage
from herdcli.evaluation.summaries.summary_table import Levels, column_names, show_all_rows, state_names
from herdcli.evaluation.table import all_columns
from herdcli.kinds import KINDS
from herdcli.parts import import_by_path

if TYPE_CHECKING:
    from herdcli.herding.model import Herding
    from herdcli.ica.model import ICA
    from herdcli.markov.model.beliefs import Beliefs
    from herdcli.markov.model.network import Network
    from herdcli.online.model import Classifier
    from herdcli.quadrature.samples import Samples
    from herdcli.rbm.layers import DBN
    from herdcli.rbm.model import RBM
    from herdcli.rbm.pairs import PairRBM
    from herdcli.rbm.recurrent.artifacts import RecurrentRBM
    from herdcli.regression.model import GeneralisedLinear

Columns = dict[str, Any]  # name -> an array or a list with one entry per row


def main_table_columns(kind: str, value: Any, levels: Levels) -> Columns:
    """Return the columns of the main table of an artifact: of a data set its rows, of other kinds their largest table in `herd info`.

    Raises BadUsage for kinds without tables.
    """
    own = KINDS[kind].table
    if own is not None:
        found: Columns = import_by_path(own)(value, levels)
        return found
    if kind in ("classifier", "predictor", "tagger") and value.mean is not None:
        return _weight_columns(kind, value)
    path = KINDS[kind].summary
    if path is None:
        raise BadUsage(
            f"artifacts of kind {kind} have no table of rows", hint="use herd info -v, which lists their arrays (attributes in Python)"
        )
    with show_all_rows():
        tables = import_by_path(path)(value, levels)
    rows = max((table.rows for table in tables), key=len)
    return {name: [row.get(name) for row in rows] for name in all_columns(rows)}


def arrow_table(columns: Columns) -> Any:
    """Return the columns as a pyarrow.Table."""
    import pyarrow as pa

    return pa.table({name: np.ascontiguousarray(item) if isinstance(item, np.ndarray) else item for name, item in columns.items()})


def dataset_columns(value: Any, levels: Levels) -> Columns:
    X = value.X.toarray() if value.is_sparse else np.asarray(value.X)
    columns: Columns = {}
    for name, column in zip(column_names(value.feature_names, X.shape[1]), X.T, strict=True):
        known = levels.get(name, ())
        columns[name] = [known[int(each)] if 0 <= each < len(known) else None for each in column] if known else column
    columns |= {_free_name(name, columns): column for name, column in (value.columns or {}).items()}
    if value.y is not None:
        names = value.class_names
        label = [names[each] if each >= 0 else None for each in value.y.tolist()] if names is not None else value.y
        columns[_free_name(value.label_name or "y", columns)] = label
    if value.split is not None:
        columns[_free_name("split", columns)] = value.split
    if value.weight is not None:
        columns[_free_name("weight", columns)] = value.weight
    return columns


def _free_name(name: str, columns: Columns) -> str:
    """Return the name, in brackets if a column has it already."""
    return name if name not in columns else f"({name})"


def marginal_columns(value: Beliefs, levels: Levels) -> Columns:
    """Return the probability of each state of each variable, one row each."""
    marginals = value.marginals()
    columns: dict[str, list[Any]] = {"variable": [], "state": [], "probability": []}
    for i, (name, p) in enumerate(zip(column_names(value.names, len(marginals)), marginals, strict=True)):
        first = int(value.node_offset[i])
        columns["variable"] += [name] * len(p)
        columns["state"] += value.states[first : first + len(p)] if value.states else state_names(levels, name, len(p))
        columns["probability"] += p.tolist()
    return dict(columns)


def factor_columns(value: Network, levels: Levels) -> Columns:
    """Return the factors, one row for each value: of a Bayesian network P(state of a variable | states of its parents).

    Bayesian networks have columns variable, parents, state and probability, with parents such as `smoke=yes, xray=no`; other networks
    have columns factor, states and value, with states such as `x0=1, x4=0`.
    """
    names = [value.name(i) for i in range(value.count)]
    states = [
        value.states_of(i) or state_names(levels, name, int(c))
        for i, (name, c) in enumerate(zip(names, value.cardinality.tolist(), strict=True))
    ]
    keys = ("variable", "parents", "state", "probability") if value.directed else ("factor", "states", "value")
    columns: dict[str, list[Any]] = {key: [] for key in keys}
    for number, (scope, table) in enumerate(value.factors(), 1):
        others, child = (scope[:-1], scope[-1:]) if value.directed else (scope, ())
        settings = [
            ", ".join(f"{names[i]}={states[i][k]}" for i, k in zip(others, each, strict=True))
            for each in itertools.product(*(range(len(states[i])) for i in others))
        ]
        own = states[child[0]] if child else [""]
        if value.directed:
            columns["variable"] += [names[child[0]] if child else ""] * table.size
            columns["parents"] += [each for each in settings for _ in own]
            columns["state"] += own * len(settings)
            columns["probability"] += table.ravel().tolist()
        else:
            columns["factor"] += [number] * table.size
            columns["states"] += settings
            columns["value"] += table.ravel().tolist()
    return dict(columns)


def atom_columns(value: Samples, levels: Levels) -> Columns:
    """Return the atoms with their rows in the input, their weights, and the MMD of the atoms up to each."""
    columns: Columns = {"row": value.index, "weight": value.weight, "mmd": value.mmd}
    if value.group is not None and value.group_names is not None:
        columns = {"group": [value.group_names[each] for each in value.group.tolist()], **columns}
    atoms = zip(column_names(value.feature_names, value.x.shape[1]), value.x.T, strict=True)
    return columns | {_free_name(name, columns): column for name, column in atoms}


def _weight_columns(kind: str, value: Classifier) -> Columns:
    """Return all weights that are not 0 with their standard deviations, by class and feature, the largest first."""
    from herdcli.evaluation.metrics.feature_importance import most_important_weights

    found = most_important_weights(kind, value, sys.maxsize)
    return {
        "for": [each.towards for each in found],
        "feature": [each.feature for each in found],
        "weight": [each.weight for each in found],
        "deviation": [each.deviation for each in found],
    }


def hidden_unit_columns(value: RBM, levels: Levels) -> Columns:
    """Return the bias of each hidden unit and its weights to the columns, with the class of its model if there are several."""
    models, visible, hidden = value.W.shape
    columns: Columns = {} if models == 1 else {"model": np.repeat(value.classes or list(map(str, range(models))), hidden)}
    columns |= {"unit": np.tile(np.arange(1, hidden + 1), models), "bias": value.c.ravel()}
    names = column_names(value.feature_names, value.columns) + list(value.labels or ())
    weights = value.W.transpose(1, 0, 2).reshape(visible, -1)
    names = names if len(names) == visible else column_names(None, visible)
    return columns | {_free_name(name, columns): row for name, row in zip(names, weights, strict=True)}


def layer_columns(value: DBN, levels: Levels) -> Columns:
    """Return every weight of every layer, one row each: layer, hidden unit, input and weight; the bias of a unit has the input `(bias)`."""
    from herdcli.evaluation.summaries.filters import layer_input_names

    parts: dict[str, list[Any]] = {"layer": [], "unit": [], "input": [], "weight": []}
    for number, (layer, names) in enumerate(zip(value.layers, layer_input_names(value), strict=True), 1):
        hidden, inputs = layer.W.shape[2], ["(bias)", *names]
        parts["layer"] += [number] * (hidden * len(inputs))
        parts["unit"] += [unit for unit in range(1, hidden + 1) for _ in inputs]
        parts["input"] += inputs * hidden
        parts["weight"] += np.vstack([layer.c[0][None], layer.W[0]]).T.ravel().tolist()
    return dict(parts)


def pair_columns(value: PairRBM, levels: Levels) -> Columns:
    """Return the bias of each hidden unit and its weights to the pixels of each image of a pair, two rows for each unit."""
    hidden = len(value.c)
    columns: Columns = {"unit": np.repeat(np.arange(1, hidden + 1), 2), "image": np.tile([1, 2], hidden), "bias": np.repeat(value.c, 2)}
    weights = np.stack([value.W1, value.W2], axis=2).reshape(len(value.b1), 2 * hidden)
    names = column_names(value.feature_names, len(value.b1))
    return columns | {_free_name(name, columns): row for name, row in zip(names, weights, strict=True)}


def recurrent_columns(value: RecurrentRBM, levels: Levels) -> Columns:
    """Return the bias of each hidden unit, its weights to the columns, and those from the units of the step before."""
    columns: Columns = {"unit": np.arange(1, value.hidden + 1), "bias": value.parameters.c}
    for name, row in zip(column_names(value.feature_names, value.columns), value.parameters.W, strict=True):
        columns[_free_name(name, columns)] = row
    for k, row in enumerate(value.parameters.U, 1):
        columns[_free_name(f"from unit {k}", columns)] = row
    return columns


def run_columns(value: Herding, levels: Levels) -> Columns:
    """Return the gaps of the moments and the norm of the weights of each run."""
    from herdcli.evaluation.summaries.filters import herding_tables

    with show_all_rows():
        rows = herding_tables(value, levels)[-1].rows
    return {name: [row[name] for row in rows] for name in all_columns(rows)}


def filter_columns(value: ICA, levels: Levels) -> Columns:
    """Return the density, power and kurtosis of each filter, and its coefficients for centred columns."""
    columns: Columns = {"filter": np.arange(1, len(value.J) + 1), "density": list(value.experts), "power": value.power}
    columns |= {"kurtosis": value.kurtosis}
    W = value.unmixing_matrix
    return columns | {
        _free_name(name, columns): each for name, each in zip(column_names(value.feature_names, W.shape[1]), W.T, strict=True)
    }


def coefficient_columns(value: GeneralisedLinear, levels: Levels) -> Columns:
    """Return the coefficients with their errors, tests and intervals, as numbers."""
    rows = value.table()
    return {name: [row.get(name) for row in rows] for name in all_columns(rows)}
