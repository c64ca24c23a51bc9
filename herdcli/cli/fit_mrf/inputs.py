"""The inputs of `herd fit-mrf`: rows or moments and the structure, combined into a learning problem."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.fit_mrf import state_codes
from herdcli.cli.frame.rows.column_order import drop_zero_weights
from herdcli.cli.frame.rows.network_files import load_matching_network, load_parsed_text
from herdcli.errors import BadUsage, DataError, HerdError
from herdcli.records import dataclass
from herdcli.schema import TRUTHS

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.artifacts.dataset import Dataset
    from herdcli.cli.fit_mrf.request import Request
    from herdcli.cli.frame.output.outputs import HistorySource
    from herdcli.cli.frame.run.session import Session
    from herdcli.markov.model.constraints import Cluster, LearningProblem, PairTables, StateRows
    from herdcli.markov.model.network import Network
    from herdcli.schema import Array

DEFAULT_THRESHOLD = 0.4
OTHER_STATES = "the columns have different states from those that the network of --base names"


@dataclass(frozen=True)
class LearningInputs:
    """The learning problem, all pair marginals, the held-out rows with their split, the history, and the names of states.

    regions  the cliques of loopy-is and cvm, if a file names them.
    """

    problem: LearningProblem
    pairs: PairTables | None
    holdout: Array | None
    holdout_split: Array | None
    history: HistorySource
    states: list[str] | None = None
    regions: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class EncodedStates:
    """Rows as states (n, N), their split and weights, and the names and numbers of states of the columns.

    levels  names of the states of columns whose numbers are not the indices of their states.
    """

    x: Array
    cardinality: Array
    split: Array
    weight: Array | None
    names: list[str] | None
    shape: Array | None
    levels: dict[int, tuple[str, ...]] = field(default_factory=dict)


def read_inputs(session: Session, request: Request) -> LearningInputs:
    """Return the learning problem that the options describe, from individual rows or from moments."""
    from herdcli.markov.model import constraints

    if request.moments:
        return _read_moments(session, request.base, request.regions, request.moments)
    data = load_dataset(session, request.source, request.input_format, request.label)
    states = read_states(session, data, request)
    rows, held = _split_rows(states, data.name)
    pairs = constraints.compute_pair_tables(rows, states.cardinality, request.smoothing)
    clusters = _build_clusters(session, states, rows, pairs, request)
    named = all_state_names(data, states)
    base = read_base_network(session, request.base, states.names, len(states.cardinality), named)
    problem = constraints.LearningProblem(states.cardinality, clusters, base, states.names, states.shape, rows)
    kept = held.any()
    split = states.split[held].astype(np.uint8) if kept else None
    asked = read_regions(session, states.names, len(states.cardinality), request.regions)
    return LearningInputs(
        constraints.validate_problem(problem), pairs, states.x[held] if kept else None, split, replace(data, value=None), named, asked
    )


def load_dataset(session: Session, source: str, input_format: str | None, label: str | None) -> Artifact:
    """Load the data set without rows of weight 0."""
    try:
        data = session.load(source, "data", kinds={"dataset"}, input_format=input_format, label=label)
        return drop_zero_weights(session, data)
    except DataError as error:
        if "missing" in error.message or "NaN" in error.message:
            error.hint = f"{error.hint}, or use --algorithm bayes, which handles missing values by EM"
        raise


def all_state_names(data: Artifact, states: EncodedStates) -> list[str] | None:
    """Return the state names of all variables, concatenated, or None if no variable has named states.

    The names are levels of text, codes, False and True; other states are named by their numbers.
    """
    levels = {k: TRUTHS for k, name in enumerate(states.names or ()) if name in data.truth_columns} | states.levels
    levels |= {k: data.recoding.levels[name] for k, name in enumerate(states.names or ()) if name in data.recoding.levels}
    if not levels:
        return None
    return [state for k, count in enumerate(states.cardinality.tolist()) for state in levels.get(k, tuple(map(str, range(count))))[:count]]


def read_regions(session: Session, names: list[str] | None, nodes: int, regions: str | None) -> tuple[tuple[int, ...], ...]:
    """Return the cliques for loopy-is and cvm if --regions names a file, else an empty tuple."""
    from herdcli.markov.model.graphs import structure_selection

    if not regions:
        return ()
    return tuple(load_parsed_text(session, regions, "regions", lambda text: structure_selection.read_scopes(text, names, nodes)))


def _read_moments(session: Session, base: str | None, regions: str | None, path: str) -> LearningInputs:
    from herdcli.markov.learning import given_moments
    from herdcli.markov.model import constraints

    problem = load_parsed_text(session, path, "moments", given_moments.read_moments)
    nodes = len(problem.cardinality)
    base_network, asked = (
        read_base_network(session, base, problem.names, nodes),
        read_regions(session, problem.names, nodes, regions),
    )
    return LearningInputs(constraints.validate_problem(replace(problem, base=base_network)), None, None, None, None, None, asked)


def read_base_network(
    session: Session, base: str | None, names: list[str] | None, nodes: int, states: list[str] | None = None
) -> Network | None:
    """Return the network of --base, which the learned model should be close to.  states  names of states, if columns are text.

    Raises DataError if the network's states differ.
    """
    if not base:
        return None
    found = load_matching_network(session, base, names, nodes)
    if states is not None and found.states != states:
        data = session.inputs["data"].name
        raise DataError(OTHER_STATES, where=data, hint="give --base in a format that names states, such as BIF")
    return replace(found, observed=None, observed_marginal=None, fit=None)


def read_states(session: Session, data: Artifact, request: Request, *, by_place: bool = False) -> EncodedStates:
    """Return rows as states: binary columns if the data are binary or grey, else whole numbers as states.

    by_place  numbers are already indices of named states.
    """
    from herdcli.artifacts.tables import dataset_preparation
    from herdcli.cli.frame.rows.dataset_rows import RowReading, binary_rows

    value, levels = data.value, dict[int, tuple[str, ...]]()
    if _is_binary(value, request, text=bool(data.recoding.levels)):
        made = binary_rows(session, data, (0, 1), RowReading.from_request(request, default=DEFAULT_THRESHOLD))
        x, split, cardinality = made.X, made.split, np.full(made.X.shape[1], 2, dtype=np.int64)
    else:
        for name in ("threshold", "value_range"):
            session.warn_of_ignored_option(name, "with --values states")
        dense = value.X.toarray() if value.is_sparse else value.X
        if by_place:
            require_state_indices(dense, data.name)
        found = state_codes.encode_state_codes(dense, data.name, range(dense.shape[1]) if by_place else text_columns(data))
        x, cardinality, levels = found.x.astype(np.uint8), found.cardinality, found.levels
        note_state_codes(session, data, levels)
        try:
            split = dataset_preparation.assign_splits(value, request.split, request.seed)
        except HerdError as error:
            error.where = error.where or data.name
            raise
    return EncodedStates(x, cardinality, split, value.weight, value.feature_names, value.image_shape, levels)


def require_state_indices(X: Array, where: str) -> None:
    """Raise DataError for values (n, N) that are not state indices; NaN is accepted."""
    wrong = (X < 0) | (X % 1 > 0) | (X >= state_codes.MOST_STATES)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        message = f"column {column} has {X[row, column]:g} in row {row}; states are 0 to {state_codes.MOST_STATES - 1}"
        raise DataError(message, where=where, hint=state_codes.HINT)


def text_columns(data: Artifact) -> list[int]:
    """Return the columns that hold the indices of text levels."""
    return [k for k, name in enumerate(data.value.feature_names or ()) if name in data.recoding.levels]


def note_state_codes(session: Session, data: Artifact, levels: dict[int, tuple[str, ...]]) -> None:
    """Print a note if numbers are names of states."""
    if levels:
        session.console.note(f"{data.name}: {state_codes.state_codes_message(levels, data.value.feature_names)}")


def _is_binary(value: Dataset, request: Request, *, text: bool) -> bool:
    if text:
        asked = next((name for name in ("threshold", "value_range") if getattr(request, name) is not None), None)
        if asked or request.values == "two":
            option = {"threshold": "--threshold", "value_range": "--range", None: "--values two"}[asked]
            raise BadUsage(
                f"{option} is for columns of numbers, but text columns are states already",
                hint="leave text columns out: --categorical none",
            )
        return False
    if request.values != "auto":
        return bool(request.values == "two")
    if request.threshold is not None or request.value_range is not None or value.value_range is not None:
        return True
    entries = value.X.data if value.is_sparse else value.X
    if entries.dtype.kind == "b" or value.units != "real":
        return True
    return not state_codes.are_state_codes(value.X.toarray() if value.is_sparse else value.X)


def _split_rows(states: EncodedStates, name: str) -> tuple[StateRows, Array]:
    """Return the training rows, and a mask (n,) of the rows held out for evaluation."""
    from herdcli.markov.model.constraints import StateRows

    train = states.split == 0
    if not train.any():
        raise DataError("there are no training rows", where=name, hint="make a new split: --split .8,.1,.1")
    weight = np.ones(int(train.sum())) if states.weight is None else states.weight[train].astype(np.float64)
    if not weight.any():
        raise DataError("all training rows have weight 0", where=name)
    return StateRows(states.x[train], weight / weight.sum()), (states.split == 1) | (states.split == 2)


def _build_clusters(session: Session, states: EncodedStates, rows: StateRows, pairs: PairTables, request: Request) -> list[Cluster]:
    """Return the clusters of the structure with the marginals of the rows, and the clusters with features."""
    from herdcli.markov.learning import given_moments
    from herdcli.markov.model import constraints

    nodes, names, featured = len(states.cardinality), states.names, []
    if request.features:
        featured = load_parsed_text(
            session, request.features, "features", lambda text: given_moments.read_features(text, states.cardinality, names, rows)
        )
    scopes = scopes_from_file(session, names, nodes, request.edges, request.clusters)
    if scopes is None:
        if featured and request.structure is None:
            return list(featured)
        kind, probability, reach = structure_options(request.algorithm, request.structure, bool(featured))
        if kind in ("l1", "stability"):
            from herdcli.cli.fit_mrf import l1_structure

            scopes = list(
                l1_structure.select_pairs(
                    session, (kind, probability, reach), (states.cardinality, names), rows, request.seed, request.path
                )
            )
        else:
            scopes = scopes_from_structure((kind, probability, reach), nodes, pairs, states.shape, request.seed)
    return [*constraints.make_clusters(rows, states.cardinality, scopes, request.smoothing, pairs), *featured]


def scopes_from_file(
    session: Session, names: list[str] | None, nodes: int, edges: str | None, clusters: str | None
) -> list[tuple[int, ...]] | None:
    """Return the clusters that the file of --edges or --clusters lists; None without these options."""
    from herdcli.markov.model.graphs import structure_selection

    if not (edges or clusters):
        return None
    size, path = 2 if edges else None, edges or clusters or ""
    found: list[tuple[int, ...]] = load_parsed_text(
        session, path, "structure", lambda text: structure_selection.read_scopes(text, names, nodes, size)
    )
    return found


def scopes_from_structure(
    structure: tuple[str, float, int], nodes: int, pairs: PairTables, shape: Array | None, seed: int
) -> list[tuple[int, ...]]:
    """Return the pairs of a structure that needs no individual rows, only pair marginals or nothing."""
    from herdcli.markov.model.graphs import structure_selection

    kind, probability, reach = structure
    information = pairs.mutual_informations() if kind.startswith("chow-liu") else None
    return [*structure_selection.structure_pairs(kind, probability, reach, nodes, information, shape, seed)]


def structure_options(algorithm: str, structure: tuple[str, float, int] | None, has_features: bool) -> tuple[str, float, int]:
    """Return the options of --structure; by default all pairs for linear-response, no pairs if there are features, and else a tree."""
    if algorithm == "linear-response":
        return "full", 0.0, 0
    found: tuple[str, float, int] = structure or ("independent" if has_features else "chow-liu", 0.0, 0)
    return found
