"""What `herd fit-mrf` reads: rows or moments, and the structure, as one problem."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from herdcli.cli.frame.session import Session
from herdcli.cli.network.files import load_like, load_text
from herdcli.errors import BadUsage, DataError, HerdError

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.markov.model.constraints import Cluster, Pairs, Problem, Rows
    from herdcli.schema import Array

DEFAULT_THRESHOLD = 0.4
MOST_STATES = 64
STRUCTURES = ("structure", "edges", "clusters")


@dataclass(frozen=True)
class Inputs:
    """The problem, all pair marginals, the rows kept for evaluation with their split, and whose history goes on."""

    problem: Problem
    pairs: Pairs | None
    holdout: Array | None
    holdout_split: Array | None
    history: Artifact | None


@dataclass(frozen=True)
class States:
    """Rows as states, (n, N), what they are split into, and what is known of the columns."""

    x: Array
    cardinality: Array
    split: Array
    weight: Array | None
    names: list[str] | None
    shape: Array | None


def read(session: Session, source: str, options: dict[str, Any]) -> Inputs:
    """The problem that the options state."""
    from herdcli.markov.model import constraints

    given = [name for name in STRUCTURES if name in session.given]
    if len(given) > 1:
        raise BadUsage(f"--{given[0]} and --{given[1]} exclude each other")
    if options["moments"]:
        return _moments(session, source, options, given)
    data = session.load(source, "data", kinds={"dataset"}, input_format=options["input_format"], label=options["label"])
    states = _states(session, data, options)
    rows, held = _parts(states, data.name)
    pairs = constraints.pairs(rows, states.cardinality, options["smoothing"])
    clusters = _clusters(session, states, rows, pairs, options)
    base = _base(session, options, states.names, len(states.cardinality))
    problem = constraints.Problem(states.cardinality, clusters, base, states.names, states.shape, rows)
    kept = held.any()
    split = states.split[held].astype(np.uint8) if kept else None
    return Inputs(constraints.check(problem), pairs, states.x[held] if kept else None, split, replace(data, value=None))


def regions(session: Session, problem: Problem, options: dict[str, Any]) -> tuple[tuple[int, ...], ...]:
    """The cliques of loopy-is and cvm, where a file names them."""
    from herdcli.markov.model import structure

    if not options["regions"]:
        return ()
    if options["max_clique"]:
        raise BadUsage("--regions and --max-clique exclude each other")
    nodes = len(problem.cardinality)
    return tuple(load_text(session, options["regions"], "regions", lambda text: structure.read_scopes(text, problem.names, nodes)))


def _moments(session: Session, source: str, options: dict[str, Any], given: list[str]) -> Inputs:
    from herdcli.markov.learning import moments
    from herdcli.markov.model import constraints

    if source != "-":
        raise BadUsage("--moments takes the place of DATA", hint=f"leave out {source}")
    for name in given:
        raise BadUsage(f"--moments states the clusters: --{name} cannot")
    if options["features"] or options["induce"]:
        raise BadUsage(f"--{'features' if options['features'] else 'induce'} needs rows, --moments has none")
    for name in ("smoothing", "split", "threshold", "range", "values", "label"):
        session.ignored(name, "with --moments")
    problem = load_text(session, options["moments"], "moments", moments.read)
    base = _base(session, options, problem.names, len(problem.cardinality))
    return Inputs(constraints.check(replace(problem, base=base)), None, None, None, None)


def _base(session: Session, options: dict[str, Any], names: list[str] | None, count: int) -> Any:
    """The network that the model is to be near."""
    if not options["base"]:
        return None
    found = load_like(session, options["base"], names, count)
    return replace(found, observed=None, observed_marginal=None, fit=None)


def _states(session: Session, data: Artifact, options: dict[str, Any]) -> States:
    """Two-state columns where the data are that or grey, else whole numbers as states."""
    from herdcli.artifacts import preparation
    from herdcli.cli.frame.rows import Reading, two_state

    value = data.value
    if _two_valued(value, options):
        made = two_state(session, data, (0, 1), Reading.asked(options, default=DEFAULT_THRESHOLD))
        x, split, cardinality = made.X, made.split, np.full(made.X.shape[1], 2, dtype=np.int64)
    else:
        for name in ("threshold", "range"):
            session.ignored(name, "with --values states")
        dense = value.X.toarray() if value.is_sparse else value.X
        _check_states(dense, data.name)
        x, cardinality = dense.astype(np.uint8), np.maximum(dense.max(axis=0).astype(np.int64) + 1, 2)
        try:
            split = preparation.split_rows(value, options["split"], options["seed"])
        except HerdError as error:
            error.where = error.where or data.name
            raise
    return States(x, cardinality, split, value.weight, value.feature_names, value.image_shape)


def _two_valued(value: Any, options: dict[str, Any]) -> bool:
    if options["values"] != "auto":
        return bool(options["values"] == "two")
    if options["threshold"] is not None or options["value_range"] is not None or value.value_range is not None:
        return True
    entries = value.X.data if value.is_sparse else value.X
    if entries.dtype.kind == "b" or value.units != "real":
        return True
    low, high = (0, 0) if not entries.size else (entries.min(), entries.max())
    return bool(low < 0 or high <= 1 or high >= MOST_STATES or (entries != np.floor(entries)).any())


def _check_states(X: Any, name: str) -> None:
    wrong = (X < 0) | (X % 1 != 0) | (X >= MOST_STATES)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        hint = "--values two, with --range LO,HI and --threshold F, reads grey columns as on or off"
        raise DataError(f"column {column} has {X[row, column]:g} in row {row}; states are 0 to {MOST_STATES - 1}", where=name, hint=hint)


def _parts(states: States, name: str) -> tuple[Rows, Array]:
    """The training rows, and which rows are kept for evaluation."""
    from herdcli.markov.model.constraints import Rows

    train = states.split == 0
    if not train.any():
        raise DataError("no row is in the training part", where=name, hint="--split .8,.1,.1 draws parts anew")
    weight = np.ones(int(train.sum())) if states.weight is None else states.weight[train].astype(np.float64)
    if not weight.any():
        raise DataError("the training rows have no weight", where=name)
    return Rows(states.x[train], weight / weight.sum()), (states.split == 1) | (states.split == 2)


def _clusters(session: Session, states: States, rows: Rows, pairs: Pairs, options: dict[str, Any]) -> list[Cluster]:
    """The clusters of the structure, with the marginals of the rows; and those with features."""
    from herdcli.markov.learning import moments
    from herdcli.markov.model import constraints, structure

    nodes, names, featured = len(states.cardinality), states.names, []
    if options["features"]:
        featured = load_text(
            session, options["features"], "features", lambda text: moments.read_features(text, states.cardinality, names, rows)
        )
    if options["edges"] or options["clusters"]:
        path, size = (options["edges"], 2) if options["edges"] else (options["clusters"], None)
        scopes = load_text(session, path, "structure", lambda text: structure.read_scopes(text, names, nodes, size))
    else:
        kind, probability, reach = _structure(options, bool(featured))
        information = pairs.information() if kind.startswith("chow-liu") else None
        scopes = structure.edges(kind, probability, reach, nodes, information, states.shape, options["seed"])
    if featured and options["structure"] is None and not (options["edges"] or options["clusters"]):
        return list(featured)
    return [*constraints.from_scopes(rows, states.cardinality, scopes, options["smoothing"], pairs), *featured]


def _structure(options: dict[str, Any], featured: bool) -> tuple[str, float, int]:
    """As asked, else all pairs for linear-response, no pairs beside features, and the tree for the others."""
    if options["algorithm"] == "linear-response":
        if options["structure"] not in (None, ("full", 0.0, 0)):
            raise BadUsage("--algorithm linear-response joins all pairs", hint="--structure full, or another algorithm")
        return "full", 0.0, 0
    found: tuple[str, float, int] = options["structure"] or ("independent" if featured else "chow-liu", 0.0, 0)
    return found
