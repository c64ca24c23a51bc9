"""`herd sample` for networks: rows of states; the sampling is in herdcli.markov."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame.rows.network_files import state_encoding
from herdcli.errors import BadUsage, DataError

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.artifacts.dataset import Dataset
    from herdcli.artifacts.recoding import Recoding
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.small.sample import Request
    from herdcli.markov.model.network import Network
    from herdcli.schema import Array


def sample_network(session: Session, fitted: Artifact, request: Request) -> tuple[Dataset, str]:
    """Return sampled rows of states and a summary; with --given, the known states of each of its rows are kept."""
    from herdcli.artifacts.dataset import Dataset
    from herdcli.markov.model.network import with_observed_marginals

    network: Network = with_observed_marginals(fitted.value, {})
    if fitted.value.stored_marginals():
        raise BadUsage("a network with observed marginals cannot be sampled", hint="compute its marginals: herd ups-infer")
    if request.means:
        session.warn_of_ignored_option("means", "with a network, whose rows are states")
    names = [network.name(i) for i in range(network.listed_count)]
    session.recoding = state_encoding(network)
    _note_lost_state_names(session, session.recoding)
    held = [] if request.given is None else _known_states_by_row(session, network, names, request.mask, request.given)
    parts = [
        _sample_rows(session, network, request.burn_in, request.thin, request.chains, request.seed, request.count, known, k)
        for k, known in enumerate(held or [{}])
    ]
    X = np.concatenate(parts)[:, : network.listed_count]
    shape = None if network.shape is None or int(np.prod(network.shape)) != network.count else network.shape
    small = X.astype(np.int8 if X.max(initial=0) < 128 else np.int64)
    two = int(network.cardinality[: network.listed_count].max()) <= 2
    made = Dataset(small, feature_names=names, units="binary" if two else "real", image_shape=shape)
    return made, f"{len(X)} rows × {X.shape[1]} variables"


def _note_lost_state_names(session: Session, recoding: Recoding) -> None:
    """Note if a format cannot hold the names of states.

    Raises BadUsage if a state's number would be read as the name of another state.
    """
    from herdcli.artifacts.formats import format_detection

    form = format_detection.output_format_from_suffix(session.output) or "hdf5"
    if not recoding.levels or form in ("hdf5", "parquet", "csv"):
        return
    for name, levels in recoding.levels.items():
        for place, level in enumerate(levels):
            if str(place) in levels and str(place) != level:
                message = (
                    f"{form} cannot hold state names, and the index {place} of state '{level}' of '{name}' is the name of another state"
                )
                raise BadUsage(message, hint="use --format csv, hdf5 or parquet, which keep names")
    session.console.note(f"{form} has no names of states, so their indices are written; csv, hdf5 and parquet keep the names")


def _sample_rows(
    session: Session,
    network: Network,
    burn_in: int,
    thin: int,
    chains: int | None,
    seed: int,
    count: int,
    evidence: dict[int, int],
    number: int,
) -> Array:
    """Return rows (count, N) sampled with the known variables fixed."""
    from herdcli.markov.model.network import condition_network
    from herdcli.markov.query.chains.network_samples import NetworkSampling

    asked = {"burn_in": burn_in, "thin": thin, "chains": chains or 0, "seed": seed + number}
    method = NetworkSampling(condition_network(network, evidence), count, **asked)
    if number == 0:
        told = "independent rows" if method.exact else f"{method.chains} chains of blocked Gibbs sampling, {len(method.blocks)} blocks"
        session.console.note(told)
    found = session.run(method, label="sampling", memory="the rows and the tables of a batch")
    if found.unmoved and count > 1:
        few = "all chains started from the only possible state that was found, and"
        session.console.warn(
            f"{few} {found.unmoved} variables never changed: the samples may cover only part of the distribution (raise --thin)"
        )
    rows: Array = found.rows
    for i, state in evidence.items():
        rows[:, i] = state
    return rows


def _state_index(value: float, name: str, where: str) -> int:
    if value % 1 != 0:
        raise DataError(f"column '{name}' has {value:g}, but a state is a whole number or a name", where=where)
    return int(value)


def _known_states_by_row(session: Session, network: Network, names: list[str], mask: str | None, given: str | None) -> list[dict[int, int]]:
    """Return the known states of each row of --given; NaN and −1 are unknown.  Raises BadUsage for --mask."""
    from herdcli.markov.model.network import require_state

    if mask is not None:
        raise BadUsage(
            "--mask is for models with real or binary rows", hint="leave out --mask, and leave the cells to draw empty in --given"
        )
    data = session.load(str(given), "given", kinds={"dataset"}, missing=True)
    X = data.value.X.toarray() if data.value.is_sparse else np.asarray(data.value.X)
    titles = data.value.feature_names or [f"x{i}" for i in range(X.shape[1])]
    if strange := [title for title in titles if title not in names]:
        raise DataError(f"column '{strange[0]}' is not a variable of the network", where=data.name)
    columns = [names.index(title) for title in titles]
    found = []
    for row in X:
        known = {
            i: _state_index(value, names[i], data.name)
            for i, value in zip(columns, row.tolist(), strict=True)
            if value == value and value != -1
        }
        for i, state in known.items():
            require_state(network, i, state)
        found.append(known)
    return found
