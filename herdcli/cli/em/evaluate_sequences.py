"""`herd eval --data` for sequence models: evaluation on other sequences than those of split 2 stored in the model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.sealed import provenance
from herdcli.cli.em.evaluate_rows import labels_in_model_order
from herdcli.cli.em.lds_fit import split_controls
from herdcli.cli.frame.rows import sequences
from herdcli.cli.frame.rows.column_order import align_dataset
from herdcli.errors import DataError, HerdError
from herdcli.records import dataclass
from herdcli.splits import TEST

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.artifacts.dataset import Dataset
    from herdcli.cli.eval.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.em.hmm_artifacts import HiddenMarkovModel
    from herdcli.em.lds_artifacts import LinearDynamics
    from herdcli.em.sequence.sequences import Sequences
    from herdcli.schema import Array


@dataclass(frozen=True)
class EvaluationSequences:
    """The sequences for evaluation (those of split 2 if the data have a split, else all) and the controls (n, m) of all rows."""

    data: Dataset
    whole: Sequences
    part: Sequences
    controls: Array | None
    name: str


def evaluate_hmm(session: Session, artifact: Artifact, request: Request) -> Artifact:
    """Return a hidden Markov model with the sequences of --data; without --data, the model unchanged."""
    from herdcli.em.hmm_artifacts import HeldoutSequences

    if request.data is None:
        return artifact
    model: HiddenMarkovModel = artifact.value
    given = _load_sequences(session, artifact, request.data, None)
    y = None if model.known is None else labels_in_model_order(given.data, model.known, given.name)
    part = given.part
    held = HeldoutSequences(
        X=part.as_one_block().X,
        offsets=part.offsets.astype(np.int64),
        y=None if y is None else y[part.chosen],
        names=part.names,
        later=part.later,
    )
    return replace(artifact, value=replace(model, held=held))


def evaluate_lds(session: Session, artifact: Artifact, request: Request) -> Artifact:
    """Return a linear dynamical system with the sequences of --data; without --data, the model unchanged.

    A piece of a sequence begins in the state in which the rows before it end.
    """
    from herdcli.em.sequence.lds_fitting import first_state_distributions

    if request.data is None:
        return artifact
    model: LinearDynamics = artifact.value
    names = None if model.known is None else model.known.control_names
    given = _load_sequences(session, artifact, request.data, tuple(names) if names else None)
    part, known = given.part, model.known
    if known is not None:
        begun = first_state_distributions(model, given.whole, part, given.controls) or (None, None)
        known = replace(
            known,
            holdout_controls=None if given.controls is None else given.controls[part.chosen],
            holdout_start_mean=begun[0],
            holdout_start_covariance=begun[1],
        )
    value = replace(model, holdout=part.as_one_block().X, holdout_offsets=part.offsets.astype(np.int64), known=known)
    return replace(artifact, value=value)


def _load_sequences(session: Session, artifact: Artifact, source: str, controls: tuple[str, ...] | None) -> EvaluationSequences:
    """Read the sequences of a file, grouped by the same column as the sequences that the model was fitted to."""
    from herdcli.em.sequence.sequences import group_rows_into_sequences, split_sequences

    model: HiddenMarkovModel | LinearDynamics = artifact.value
    column = provenance.recorded_text_option(artifact.history, "em", "sequence")
    data, key = sequences.load_sequences(session, source, input_format=None, label=None, column=column, keep=controls or ())
    try:
        value, U = split_controls(data.value, controls)
        if U is not None and not np.isfinite(U).all():
            raise DataError("controls have missing values", hint="fill them in: a control must be known in every row")
        names = None if model.known is None else model.known.feature_names
        value = align_dataset(session, replace(data, value=value), names, model.columns).value
        if value.X.shape[1] != model.columns:
            raise DataError(f"/X has {value.X.shape[1]} columns, but the model has {model.columns}")
        whole = group_rows_into_sequences(value.X, key)
        parts = {TEST: whole} if value.split is None else split_sequences(whole, value.split, None, 0)
        if TEST not in parts:
            raise DataError("has no test rows to evaluate on")
    except HerdError as error:
        error.where = error.where or data.name
        raise
    sequences.report_sequences(session, parts[TEST], column or sequences.COLUMN, grouped=key is not None, cut=False)
    return EvaluationSequences(value, whole, parts[TEST], U, data.name)
