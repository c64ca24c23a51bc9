"""`herd apply` and `herd sample` with a hidden Markov model: the states at each row, and new sequences."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame.rows import sequence_rows

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact, Dataset
    from herdcli.artifacts.recoding import Recoding
    from herdcli.cli.apply.request import Request
    from herdcli.cli.frame.rows.sequence_rows import SequenceRows
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.small.sample import Request as SampleRequest
    from herdcli.em.hmm_artifacts import HiddenMarkovModel

WANTS = ("viterbi", "smoothed", "filtered", "predicted")


def load_rows(session: Session, model: HiddenMarkovModel, request: Request) -> SequenceRows:
    """Read new rows and return them as sequences in the order of the model's columns."""
    return sequence_rows.arrange_sequences(
        session, *sequence_rows.load_sequences(session, request), _column_names(model), model.columns, request.sequence
    )


def _column_names(model: HiddenMarkovModel) -> list[str] | None:
    return None if model.known is None else model.known.feature_names


def apply_hmm(session: Session, fitted: Artifact, request: Request) -> tuple[Dataset, str]:
    """Return the states of all rows, or their probabilities, in the order of the rows, and a short description for the summary."""
    model: HiddenMarkovModel = fitted.value
    want, count = sequence_rows.parse_want_option(request.want or WANTS[0], "hmm", WANTS, "paths", 100)
    given = load_rows(session, model, request)
    if request.particles is not None:
        return _filter_with_particles(session, model, given, want, request.particles, request.seed)
    found = given.found
    made = model.sample_state_paths(found, count, request.seed, session.map) if count else model.infer_states(found, want, session.map)
    if want == "viterbi":
        path, width = given.results_in_row_order(made, None).X, given.data.X.shape[1]
        states = replace(given.data, y=path, class_names=_class_state_names(model), columns=given.grouping_column)
        return states, f"{len(path)} rows × {width} columns with the states of the most probable paths"
    names = [f"path{n + 1}" for n in range(count)] if count else _state_names(model)
    return given.results_in_row_order(made, names), f"{len(made)} rows × {made.shape[1]} {'paths' if count else want}"


def _filter_with_particles(
    session: Session, model: HiddenMarkovModel, sequences: SequenceRows, want: str, count: int, seed: int
) -> tuple[Dataset, str]:
    """Return the state probabilities that a particle filter estimates, with the effective sample size at every row."""
    from herdcli.em.sequence.particle_filter import particle_filter_hmm

    sequence_rows.check_particles(session, sequences, want, model.states, count)
    told, effective = particle_filter_hmm(
        model.chain_for_sequences(sequences.found),
        model.prepare_emission().log_likelihoods,
        sequences.found,
        count,
        seed,
        want == "smoothed",
        session.map,
    )
    made = sequences.results_in_row_order(np.column_stack([told, effective]), [*_state_names(model), sequence_rows.EFFECTIVE])
    return made, f"{len(told)} rows × {model.states} {want} by {count} particles, effective sample size from {effective.min():.3g}"


def _class_state_names(model: HiddenMarkovModel) -> list[str] | None:
    """Return the class names if the model has one state for each class, else None."""
    return model.known.class_names if model.known is not None and model.known.supervised else None


def _state_names(model: HiddenMarkovModel) -> list[str]:
    return _class_state_names(model) or [f"state{k + 1}" for k in range(model.states)]


def sample_hmm(session: Session, fitted: Artifact, request: SampleRequest) -> tuple[Dataset, str]:
    """Return new sequences, with the states that emitted their rows as y, and a short description for the summary."""
    model: HiddenMarkovModel = fitted.value
    steps = sequence_rows.sequence_length(session, request, "hmm", model.columns)
    X, path = _restrict_to_levels(model, fitted.recoding).sample_sequences(np.full(request.count, steps), request.seed)
    whole = model.emission in ("categorical", "poisson", "bernoulli")
    made, what = sequence_rows.dataset_of_sequences(X.astype(np.int64) if whole else X, _column_names(model), request, steps)
    return replace(made, y=path, class_names=_class_state_names(model)), what


def _restrict_to_levels(model: HiddenMarkovModel, recoding: Recoding) -> HiddenMarkovModel:
    """Return the model with probability 0 for symbols that are not levels of a text column.

    Each column of the table has as many symbols as the column with the most levels.
    """
    table, names = model.emissions.table, _column_names(model)
    if not recoding.codes or table is None or names is None:
        return model
    table = table.copy()
    for d, name in enumerate(names):
        if name in recoding.levels:
            table[:, d, len(recoding.levels[name]) :] = 0.0
    return replace(model, emissions=replace(model.emissions, table=table / table.sum(axis=-1, keepdims=True)))
