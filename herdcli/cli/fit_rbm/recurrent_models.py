"""`herd apply`, `herd sample` and `herd eval --data` with a recurrent temporal RBM."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.sealed import provenance
from herdcli.cli.frame.rows import sequence_rows, sequences
from herdcli.cli.frame.rows.dataset_rows import rows_for_model
from herdcli.errors import DataError, HerdError
from herdcli.records import dataclass
from herdcli.splits import TEST

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.apply.request import Request as ApplyRequest
    from herdcli.cli.eval.request import Request as EvalRequest
    from herdcli.cli.frame.rows.sequence_rows import SequenceRows
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.small.sample import Request as SampleRequest
    from herdcli.em.sequence.sequences import Sequences
    from herdcli.rbm.recurrent.artifacts import RecurrentRBM
    from herdcli.rbm.recurrent.likelihood import EvaluationSequences
    from herdcli.schema import Array

WANTS = ("features", "predicted")
SWEEPS = 50  # Gibbs sweeps for each sampled future row
FUTURES = 100  # number of sampled sequences that a forecast averages
SPREAD = "_sd"  # suffix of the names of columns of standard deviations


@dataclass(frozen=True)
class RecurrentRows:
    """New rows, and their unit values v (n, D) in the order of their sequences."""

    rows: SequenceRows
    v: Array

    @property
    def evaluation_sequences(self) -> EvaluationSequences:
        """All sequences, for evaluation."""
        from herdcli.rbm.recurrent.likelihood import EvaluationSequences

        return EvaluationSequences(self.v, self.rows.found.offsets, np.ones(len(self.v), dtype=bool))


def load_rows(session: Session, model: RecurrentRBM, request: ApplyRequest) -> RecurrentRows:
    """Read the new rows of a request."""
    data, key = sequence_rows.load_sequences(session, request, missing=False)
    given = sequence_rows.arrange_sequences(session, data, key, model.feature_names, model.columns, request.sequence)
    prepared = rows_for_model(session, model, replace(data, value=given.data), request)
    return RecurrentRows(given, np.asarray(prepared.X)[given.found.chosen])


def sequences_with_history(whole: Sequences, part: Sequences, X: Array) -> EvaluationSequences:
    """Return the sequences of a part, each preceded by its earlier rows in the whole sequence, which are not evaluated.

    X  (n, D) the rows of the table in unit values.
    """
    from herdcli.rbm.recurrent.likelihood import EvaluationSequences

    own = np.zeros(len(X), dtype=bool)
    own[part.chosen] = True
    counted = own[whole.chosen]
    kept, offsets = [], [0]
    for start, end in pairwise(whole.offsets.tolist()):
        found = np.flatnonzero(counted[start:end])
        if len(found):
            # Keep the rows of the sequence up to the last evaluated one; they are the context of the evaluated rows.
            kept.append(np.arange(start, start + found[-1] + 1))
            offsets.append(offsets[-1] + len(kept[-1]))
    rows = np.concatenate(kept)
    return EvaluationSequences(X[whole.chosen[rows]], np.array(offsets), counted[rows])


def apply_recurrent(session: Session, fitted: Artifact, request: ApplyRequest) -> tuple[Dataset, str]:
    """Return the hidden means of each row, its expectation given the rows before it, or forecasts, and a description for the summary."""
    from herdcli.rbm.recurrent.likelihood import expected_next_rows, uses_exact_expectations

    model: RecurrentRBM = fitted.value
    want, steps = sequence_rows.parse_want_option(request.want or WANTS[0], "rtrbm", WANTS, "forecast", 12)
    session.warn_of_ignored_option("particles", "with a model of kind rtrbm")
    given = load_rows(session, model, request)
    if steps:
        return _forecast_rows(session, model, given, steps, request.seed)
    held = given.evaluation_sequences
    driven = held.step_harmoniums(model.model)
    if want == "features":
        names = [f"hidden{k + 1}" for k in range(model.hidden)]
        return given.rows.results_in_row_order(driven.r, names), f"{len(held.v)} rows × {model.hidden} hidden means"
    X = model.to_original(expected_next_rows(model.model, held, driven, np.arange(len(held.v)), request.seed, map=session.map))
    how = "summed over all states" if uses_exact_expectations(model.model, len(X)) else "means of Gibbs chains"
    made = given.rows.results_in_row_order(X, _output_names(model, given))
    return made, f"{len(X)} rows × {model.columns} columns expected by the rows before them, {how}"


def _output_names(model: RecurrentRBM, rows: RecurrentRows) -> list[str] | None:
    return model.feature_names or rows.rows.data.feature_names


def _forecast_rows(session: Session, model: RecurrentRBM, rows: RecurrentRows, steps: int, seed: int) -> tuple[Dataset, str]:
    """Return forecasts of each sequence: means and standard deviations over sequences sampled from its end on."""
    from herdcli.algorithm import run_algorithm
    from herdcli.rbm.recurrent.artifacts import final_recurrent_states
    from herdcli.rbm.recurrent.gibbs_chains import SequenceSampling

    found, key = rows.rows.found, rows.rows.key
    state, last = final_recurrent_states(model.model, rows.v, found.offsets)
    drawing = SequenceSampling(
        model.model,
        FUTURES * found.count,
        steps,
        SWEEPS,
        seed,
        state_before=np.repeat(state, FUTURES, axis=0),
        row_before=np.repeat(last, FUTURES, axis=0),
    )
    session.require_memory(drawing.memory(), f"{FUTURES} futures of {found.count} sequences")
    futures = model.to_original(run_algorithm(drawing).reshape(-1, model.columns)).reshape(found.count, FUTURES, steps, model.columns)
    X = np.concatenate([futures.mean(axis=1), futures.std(axis=1)], axis=2).reshape(found.count * steps, -1)
    names = _output_names(model, rows) or [f"x{d + 1}" for d in range(model.columns)]
    columns = None if key is None else {rows.rows.column: np.repeat(key[found.chosen[found.offsets[:-1]]], steps)}
    of = f" of {found.count} sequences" if found.count > 1 else ""
    made = Dataset(X, feature_names=[*names, *(name + SPREAD for name in names)], columns=columns)
    return made, f"{len(X)} forecast rows{of} × {model.columns} columns with their standard deviations, {FUTURES} futures"


def sample_recurrent(session: Session, fitted: Artifact, request: SampleRequest) -> tuple[Dataset, str]:
    """Return new sequences and a short description for the summary."""
    from herdcli.cli.small.state_names import decode_softmax_columns
    from herdcli.rbm.recurrent.gibbs_chains import SequenceSampling
    from herdcli.rbm.units import unit_family

    model: RecurrentRBM = fitted.value
    steps = sequence_rows.sequence_length(session, request, "rtrbm", model.columns, ("burn_in", "means"))
    drawing = SequenceSampling(model.model, request.count, steps, request.burn_in, request.seed, request.means)
    found = session.run(drawing, label="sampling", memory=f"{request.count} sequences of {steps} rows")
    made, what = sequence_rows.dataset_of_sequences(
        model.to_original(found.reshape(-1, model.columns)), model.feature_names, request, steps
    )
    units = unit_family(model.visible_units)
    if units.two_state and not request.means:
        made = replace(made, X=made.X.astype(np.int8), units=units.name)
    limits = None if units.range is None else np.array(units.range) / units.scale
    made = replace(made, value_range=limits, image_shape=model.image_shape)
    if not request.means:
        made, states = decode_softmax_columns(made, model.visible_units, session.recoding)
        session.recoding = states or session.recoding
    return made, what


def with_evaluation_sequences(session: Session, artifact: Artifact, request: EvalRequest) -> Artifact:
    """Return the model with the sequences of --data, only those of split 2 if there is a split; without --data, the model unchanged."""
    from herdcli.em.sequence.sequences import split_sequences
    from herdcli.rbm.recurrent.artifacts import make_stored_sequences

    if request.data is None:
        return artifact
    model: RecurrentRBM = artifact.value
    column = provenance.recorded_text_option(artifact.history, "fit-rbm", "sequence")
    data, key = sequences.load_sequences(session, request.data, input_format=None, label=None, column=column, missing=False)
    try:
        given = sequence_rows.arrange_sequences(session, data, key, model.feature_names, model.columns, column)
        prepared = rows_for_model(session, model, replace(data, value=given.data), {})
        whole = given.found
        parts = {TEST: whole} if data.value.split is None else split_sequences(whole, data.value.split, None, 0)
        if TEST not in parts:
            raise DataError("has no test rows to evaluate on")
    except HerdError as error:
        error.where = error.where or data.name
        raise
    return replace(
        artifact,
        value=replace(
            model, holdout=make_stored_sequences(model.model, sequences_with_history(whole, parts[TEST], np.asarray(prepared.X)))
        ),
    )
