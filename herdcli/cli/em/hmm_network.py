"""A hidden Markov model and its observed rows as a Markov network: one variable per step, whose marginals are the smoothed states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame.rows import sequences
from herdcli.cli.frame.rows.column_order import align_dataset
from herdcli.errors import BadUsage, DataError

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.run.session import Session
    from herdcli.em.hmm_artifacts import HiddenMarkovModel
    from herdcli.em.sequence.sequences import Sequences
    from herdcli.markov.model.network import Factor, Network
    from herdcli.schema import Array

LOWEST, HIGHEST = -600.0, 600.0  # range of a row's log-likelihood whose exponential fits into a table


def hmm_network_from_files(session: Session, evidence: str | None, source: str) -> tuple[Network, Artifact]:
    """Return the network of a model's states given the rows of --evidence, and the artifact of the model."""
    from herdcli.em.sequence.sequences import group_rows_into_sequences

    if evidence is None:
        raise BadUsage("from-hmm needs an observed sequence", hint="name it: --evidence FILE")
    fitted = session.load(source, "model", kinds={"hmm"})
    model: HiddenMarkovModel = fitted.value
    data, key = sequences.load_sequences(session, evidence, input_format=None, label=None)
    data = align_dataset(session, data, model.known.feature_names if model.known is not None else None, model.columns)
    if data.value.X.shape[1] != model.columns:
        raise DataError(f"/X has {data.value.X.shape[1]} columns, but the model has {model.columns}", where=data.name)
    found = group_rows_into_sequences(data.value.X, key)
    return build_hmm_network(session, model, found), fitted


def build_hmm_network(session: Session, model: HiddenMarkovModel, rows: Sequences) -> Network:
    """Return p(states, rows) as a network with factors for the first states, the transitions and the likelihood of each row."""
    from herdcli.markov.model.network import build_network

    block = rows.as_one_block()
    tables = _likelihood_tables(session, model.prepare_emission().log_likelihoods(block.X))
    factors: list[Factor] = [((t,), table) for t, table in enumerate(tables)]
    names = []
    for s in range(rows.count):
        begin, end = int(rows.offsets[s]), int(rows.offsets[s + 1])
        factors.append(((begin,), model.initial))
        factors += [((t - 1, t), model.transition) for t in range(begin + 1, end)]
        names += [f"{rows.names[s]}.{t}" if rows.names else f"step{t}" for t in range(end - begin)]
    return build_network(np.full(len(tables), model.states), factors, names=names)


def _likelihood_tables(session: Session, logs: Array) -> Array:
    """Return likelihoods (m, K); those of rows outside the range of float64 are rescaled, and a note reports this."""
    top = logs.max(axis=1)
    if np.isneginf(top).any():
        raise DataError(f"row {int(np.isneginf(top).argmax())} of the evidence is impossible in every state")
    far = (top < LOWEST) | (top > HIGHEST)
    if far.any():
        shift = np.where(far, top, 0.0)
        session.console.note(
            f"likelihoods of {int(far.sum())} rows are rescaled to fit into float64, so log Z is too low by {shift.sum():.12g} nats"
        )
        logs = logs - shift[:, None]
    return np.exp(logs)
