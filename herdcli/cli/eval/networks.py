"""`herd eval --reference` for networks and beliefs: comparison with another network, or with known marginals."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.tables.column_alignment import format_names
from herdcli.cli.frame.rows.column_order import match_variables, warn_of_unused_weights
from herdcli.cli.frame.rows.network_files import load_matching_network, parse_text_source, state_encoding
from herdcli.errors import DataError

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.eval.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.markov.model.beliefs import Beliefs
    from herdcli.markov.model.network import Network
    from herdcli.schema import Array


def with_reference(session: Session, artifact: Artifact, request: Request) -> Artifact:
    """Return a network or beliefs with --reference for comparison, and a network with the rows of --data."""
    found = compare_with_reference(session, artifact, request.reference)
    if artifact.kind != "network" or request.data is None:
        return found
    from herdcli.evaluation.figures.network import NetworkWithReference

    network: Network = artifact.value
    reference = found.value.reference if isinstance(found.value, NetworkWithReference) else None
    return replace(found, value=NetworkWithReference(network, reference, _state_rows(session, network, request.data)))


def _state_rows(session: Session, network: Network, path: str) -> Array:
    """Return rows of states (n, N), matched by the names of variables and states, with −1 for missing values."""
    session.recoding = state_encoding(network)
    data = session.load(path, "data", kinds={"dataset"}, missing=True)
    value = data.value
    X = value.X.toarray() if value.is_sparse else np.asarray(value.X)
    X = np.where(np.isnan(X), -1, X) if X.dtype.kind == "f" else X
    names = [network.name(i) for i in range(network.listed_count)]
    have = value.feature_names if network.names or value.feature_names else None
    if have is None and X.shape[1] != network.listed_count:
        raise DataError(f"has {X.shape[1]} columns without names, but the network has {network.listed_count} variables", where=data.name)
    place = {name: k for k, name in enumerate(have or names)}
    if not (there := [name for name in names if name in place]):
        raise DataError(
            "none of the columns is a variable of the network", where=data.name, hint=f"its variables are {format_names(names)}"
        )
    for kind, left in (
        ("left out columns", sorted(place.keys() - set(names))),
        ("there is no column for", [name for name in names if name not in place]),
    ):
        if left:
            session.console.note(f"{data.name}: {kind} {format_names(left)}")
    rows = np.full((len(X), network.count), -1.0)
    for name in there:
        rows[:, names.index(name)] = X[:, place[name]]
    wrong = (rows < -1) | (rows % 1 != 0) | (rows >= network.cardinality)
    if wrong.any():
        row, i = np.argwhere(wrong)[0]
        message = f"row {row} has {rows[row, i]:g} for {names[i]}, whose states are 0 to {network.cardinality[i] - 1}"
        raise DataError(message, where=data.name)
    warn_of_unused_weights(session, value)
    found: Array = rows.astype(np.int64)
    return found


def compare_with_reference(session: Session, artifact: Artifact, reference: str | None) -> Artifact:
    """Return an artifact with its reference; artifacts of other kinds are returned unchanged.

    The reference of beliefs is .MAR text or beliefs; that of a network is a network.
    """
    if reference is None or artifact.kind not in ("beliefs", "network"):
        return artifact
    from herdcli.evaluation.figures.beliefs import BeliefsWithReference
    from herdcli.evaluation.figures.network import NetworkWithReference

    if artifact.kind == "network":
        return replace(
            artifact,
            value=NetworkWithReference(
                artifact.value, load_matching_network(session, reference, artifact.value.names, artifact.value.count)
            ),
        )

    marginals, log_z = _read_reference(session, reference, artifact.value)
    return replace(artifact, value=BeliefsWithReference(artifact.value, marginals, log_z))


def _read_reference(session: Session, path: str, beliefs: Beliefs) -> tuple[list[Array], float | None]:
    from herdcli.markov.formats import results

    with session.open_text_input(path) as source:
        if source.head.lstrip().startswith(b"MAR"):
            return parse_text_source(session, source, "reference", results.read_mar, "text").value, None
        if not source.regular:
            raise DataError(
                "the pipe has no marginals in UAI format (text that begins with MAR)",
                where=source.name,
                hint="name a file with marginals, or pipe such text in",
            )
    found = session.load(path, "reference", kinds={"beliefs"})
    known, marginals = found.value, found.value.marginals()
    order = match_variables(found, known.names, len(marginals), beliefs.names, len(beliefs.node_offset) - 1)
    return marginals if order is None else [marginals[i] for i in order], known.log_z
