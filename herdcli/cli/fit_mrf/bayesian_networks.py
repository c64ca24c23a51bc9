"""`herd fit-mrf --algorithm bayes`: the tables of a Bayesian network, and its parents if they are not given."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.fit_mrf import state_codes, structure_search
from herdcli.cli.fit_mrf.inputs import EncodedStates, all_state_names, note_state_codes, read_states, require_state_indices, text_columns
from herdcli.cli.frame.rows import streamed_rows
from herdcli.cli.frame.rows.network_files import load_network, state_encoding, write_network
from herdcli.errors import DataError, NotConverged
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.fit_mrf.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.markov.learning.bayesian_network_em import BayesianNetworkEMState as Tables
    from herdcli.markov.learning.bayesian_network_em import ExpectationMaximisation
    from herdcli.markov.learning.bayesian_networks import WeightedCases
    from herdcli.markov.model.fit import FitRecord
    from herdcli.markov.model.graphs.dag import Parents
    from herdcli.markov.model.network import Network
    from herdcli.schema import Array


@dataclass(frozen=True)
class BayesianNetworkRows:
    """Training rows as weighted cases, held-out rows with their split, names of variables and states, and the network of --network."""

    cases: WeightedCases
    holdout: Array
    holdout_split: Array
    names: list[str] | None
    states: list[str] | None
    model: Network | None
    history: Artifact


SMALLER_TABLES = "use --structure chow-liu or a smaller --max-parents, which need smaller tables"


def learn_bayesian_network(session: Session, request: Request, form: str) -> None:
    """Learn the parents and tables of a Bayesian network from data and save it."""
    from herdcli.markov.learning import bayesian_networks

    with streamed_rows.suggest_streaming(streamed_rows.FEWER_COLUMNS, lambda: True):
        given = _read_rows(session, request)
        parents = _choose_parents(session, given, request)
        with streamed_rows.suggest_streaming(SMALLER_TABLES, lambda: not given.cases.complete and given.model is None):
            learned = _learn_tables(
                session,
                given.cases,
                parents,
                request.smoothing,
                request.tolerance,
                request.iterations,
                request.orders,
                request.seed,
                request.on_nonconvergence,
            )
    tables = learned.method.split_into_tables(learned.state.tables)
    if len(given.holdout):
        rows, kept = len(given.cases.x), len(given.holdout)
        session.console.note(f"learned from {rows} rows; {kept} are held out for herd eval (--split 1,0,0 learns from all)")
    made = bayesian_networks.make_bayesian_network(parents, tables, given.cases.cardinality, given.names, given.states)
    edges = sum(map(len, parents))
    mean = learned.state.log_likelihood / float(given.cases.weight.sum())
    how = f"EM in {learned.state.step} steps" if learned.state.step > 1 else "counts"
    summary = f"{made.count} variables, {edges} edges, {how}, log-likelihood {mean:.6g} nats per row"
    fit = _fit_record(given, learned, request.smoothing) if form == "hdf5" else None
    write_network(session, replace(made, fit=fit), summary, form, given.history)


@dataclass(frozen=True)
class LearnedTables:
    """The EM algorithm and its final state."""

    method: ExpectationMaximisation
    state: Tables


def _learn_tables(
    session: Session,
    cases: WeightedCases,
    parents: Parents,
    smoothing: float,
    tolerance: float,
    iterations: int,
    orders: int,
    seed: int,
    on_nonconvergence: str,
) -> LearnedTables:
    """Learn the tables by EM.  Without missing values one step gives the counts, whatever the initial tables, and suffices."""
    from herdcli.markov.learning.bayesian_network_em import ExpectationMaximisation

    method = ExpectationMaximisation(
        cases, parents, smoothing=smoothing, tolerance=tolerance,
        iterations=1 if cases.complete else iterations, orders=orders, seed=seed,
    )  # fmt: skip
    state = session.run(method, label="bayes", memory="the junction tree over the rows")
    if cases.complete or method.meets_criterion(state):
        return LearnedTables(
            method, replace(state, log_likelihood=method.compute_expected_counts(method.split_into_tables(state.tables))[1])
        )
    gain = float(np.diff(state.objective[-2:])[0]) if len(state.objective) > 1 else np.inf
    message = f"bayes did not converge in {state.step} steps: the last gained {gain / cases.weight.sum():.3g} nats per row"
    if on_nonconvergence == "error":
        raise NotConverged(message, hint="raise --iterations or --tolerance")
    session.console.warn(f"{message}; raise --iterations or --tolerance")
    return LearnedTables(method, state)


def _read_rows(session: Session, request: Request) -> BayesianNetworkRows:
    """Read rows whose columns are variables; variables of --network that have no column are hidden."""
    from herdcli.markov.learning.bayesian_networks import WeightedCases

    model = _load_given_network(session, request.network)
    data = session.load(request.source, "data", kinds={"dataset"}, input_format=request.input_format, label=request.label, missing=True)
    rows = _encode_states(session, data, request, by_place=model is not None)
    x, cardinality, split, weight, names = rows.x.astype(np.int64), rows.cardinality, rows.split, rows.weight, rows.names
    if model is not None:
        session.inputs["network"] = session.inputs.pop("network")  # inserted again after the data, which is the order in records
        session.recoding = data.recoding or None
    elif data.recoding.levels:
        known = [len(data.recoding.levels.get(name, ())) for name in names or []]
        cardinality = np.maximum(cardinality, np.array(known, dtype=np.int64))  # includes states that occur in no row
    states = all_state_names(data, replace(rows, cardinality=cardinality))
    if model is not None:
        x, cardinality = _match_states(x, cardinality, names, data, model)
        x, cardinality, names = _match_variables(x, cardinality, names, model, data.name)
        states = model.states
    train = split == 0
    if not train.any():
        raise DataError("there are no training rows", where=data.name, hint="make a new split: --split .8,.1,.1")
    scale = np.ones(len(x)) if weight is None else weight.astype(np.float64)
    if not scale[train].any():
        raise DataError("all training rows have weight 0", where=data.name)
    scale = scale * train.sum() / scale[train].sum()
    kept = ((split == 1) | (split == 2)) & (x >= 0).all(axis=1)
    missing = int((x[train] < 0).any(axis=1).sum())
    if missing:
        hidden = int((x < 0).all(axis=0).sum())
        session.console.note(
            f"{missing} of {int(train.sum())} rows lack values"
            + (f", {hidden} variable{' is' if hidden == 1 else 's are'} hidden" if hidden else "")
            + ": the tables are fitted by EM"
        )
    cases = WeightedCases(x[train], scale[train], cardinality)
    return BayesianNetworkRows(cases, x[kept], split[kept], names, states, model, replace(data, value=None))


def _load_given_network(session: Session, network: str | None) -> Network | None:
    """Return the network of --network; its state names become the encoding of the rows."""
    if not network:
        return None
    found: Network = load_network(session, network, None).value
    named = state_encoding(found)
    session.recoding = named if named.levels and session.categorical != "none" and session.missing != "mean" else None
    return found


def _match_states(x: Array, cardinality: Array, names: list[str] | None, data: Artifact, model: Network) -> tuple[Array, Array]:
    """Replace the indices of text levels by a network's indices of the states with the same names, and return them with the state counts.

    Raises DataError for a level that is not a state of the network's variable.
    """
    places, numbers = x.copy(), cardinality.copy()
    ends = np.concatenate([[0], np.cumsum(model.cardinality)])
    titles = {model.name(i): i for i in range(model.count)}
    for k, name in enumerate(names or []):
        levels, i = data.recoding.levels.get(name), titles.get(name)
        if levels is None or i is None:
            continue
        known = (model.states or [])[ends[i] : ends[i + 1]]
        if strange := [level for level in levels if level not in known]:
            hint = f"its states are {', '.join(known)}" if known else "use a format that names states, such as BIF"
            raise DataError(f"'{strange[0]}' is not a state of the network's variable '{name}'", where=data.name, hint=hint)
        place = np.array([*(known.index(level) for level in levels), -1])
        places[:, k], numbers[k] = place[x[:, k]], len(known)
    return places, numbers


def _encode_states(session: Session, data: Artifact, request: Request, *, by_place: bool) -> EncodedStates:
    """Return rows of states, with −1 for missing values.  by_place  numbers are indices of states, not state names."""
    from herdcli.artifacts.tables import dataset_preparation

    value = data.value
    dense = value.X.toarray() if value.is_sparse else np.asarray(value.X)
    gaps = bool(np.isnan(dense).any()) if dense.dtype.kind == "f" else False
    if not gaps:
        return read_states(session, data, request, by_place=by_place)
    every = range(dense.shape[1])
    if by_place:
        require_state_indices(dense, data.name)
    found = state_codes.encode_state_codes(dense, data.name, every if by_place else text_columns(data))
    note_state_codes(session, data, found.levels)
    split = dataset_preparation.assign_splits(value, request.split, request.seed)
    return EncodedStates(found.x, found.cardinality, split, value.weight, value.feature_names, value.image_shape, found.levels)


def _match_variables(
    x: Array, cardinality: Array, names: list[str] | None, model: Network, where: str
) -> tuple[Array, Array, list[str] | None]:
    """Return the columns in the order of a network's variables, matched by name, with −1 for variables without a column.

    Raises DataError for a column that is not a variable of the network or has more states.
    """
    titles = [model.name(i) for i in range(model.count)]
    own = names or [f"x{i}" for i in range(x.shape[1])]
    by_name = {name: k for k, name in enumerate(own)}
    if strange := [name for name in own if name not in titles]:
        raise DataError(
            f"column '{strange[0]}' is not a variable of the network", where=where, hint="its variables are " + ", ".join(titles[:6])
        )
    made = np.full((len(x), model.count), -1, dtype=np.int64)
    for i, name in enumerate(titles):
        if name in by_name:
            made[:, i] = x[:, by_name[name]]
            if cardinality[by_name[name]] > max(2, model.cardinality[i]) or made[:, i].max() >= model.cardinality[i]:
                top, states = int(made[:, i].max()), int(model.cardinality[i])
                raise DataError(
                    f"column '{name}' has state {top}, but the network's variable has {states} states (0 to {states - 1})", where=where
                )
    return made, model.cardinality, model.names


def _choose_parents(session: Session, rows: BayesianNetworkRows, request: Request) -> Parents:
    """Return the parents from the given network, from a Chow-Liu tree or from hill climbing, or no parents for `independent`."""
    from herdcli.markov.learning import bayesian_networks
    from herdcli.markov.model.graphs.dag import network_parents

    if rows.model is not None:
        found = network_parents(rows.model)
        if found is None:
            what = "is not a Bayesian network: that needs one table per variable, for the variable given its parents"
            raise DataError(what, where=session.inputs["network"].name)
        return found
    count = len(rows.cases.cardinality)
    if request.structure_kind == "independent":
        return tuple(() for _ in range(count))
    if request.structure_kind == "chow-liu":
        return bayesian_networks.fit_chow_liu_tree(rows.cases)
    return structure_search.search_parents(session, rows.cases, rows.names, request)


def _fit_record(rows: BayesianNetworkRows, learned: LearnedTables, smoothing: float) -> FitRecord:
    """Return the record of the fit; its log-likelihood uses only training rows without missing values, to be comparable with other rows."""
    from herdcli.markov.learning import bayesian_networks

    method, cases = learned.method, rows.cases
    tables = method.split_into_tables(learned.state.tables)
    return bayesian_networks.make_fit_record(
        cases,
        method.scopes,
        method.compute_expected_counts(tables)[0],
        steps=learned.state.step,
        converged=cases.complete or method.meets_criterion(learned.state),
        trace=np.diff(learned.state.objective) / float(cases.weight.sum()),
        log_likelihood=bayesian_networks.mean_complete_log_likelihood(cases, method.scopes, tables),
        smoothing=smoothing,
        holdout=(rows.holdout, rows.holdout_split),
    )
