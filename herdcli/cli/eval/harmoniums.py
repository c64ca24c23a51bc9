"""`herd eval --data` for RBMs and deep belief networks: other rows instead of those stored with the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from herdcli.artifacts.tables import dataset_preparation
from herdcli.cli.frame.rows.dataset_rows import model_class_indices, rows_for_model
from herdcli.errors import DataError
from herdcli.evaluation.figures.rbm import ranking_messages, unreliable_log_z_message
from herdcli.evaluation.verdicts import split_findings
from herdcli.kinds import KINDS
from herdcli.parts import import_by_path
from herdcli.rbm.class_models import replace_evaluation_rows
from herdcli.rbm.layers import model_layers, replace_lowest_layer
from herdcli.rbm.likelihood.enumeration import is_enumerable
from herdcli.splits import TEST

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.eval.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.evaluation.table import Row
    from herdcli.rbm.model import RBM

WORSE = "worse than independent"  # the verdict in evaluation.rbm


def suggest_skipping_annealing(session: Session, value: RBM, request: Request) -> None:
    """Print a note, before annealing begins, that models of classes can be evaluated without it."""
    if value.scores is None or request.likelihood != "auto" or value.holdout is None or value.joint == "discriminative":
        return
    many = sum(not is_enumerable(value.harmonium(m)) for m in range(value.count))
    if many:
        of = f"log Z of {many} model{'s' * (many > 1)} is estimated by annealing"
        session.console.note(f"{of} to compute the log-likelihood; --likelihood none skips this and reports the errors only")


def warn_of_unreliable_likelihoods(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """Warn of likelihoods that are not reliable, and of models that are worse than no model."""
    for row in rows:
        if row.get("log_z_method") == "not reliable":
            session.console.warn(
                f"{row['file']}: the log-likelihood is not reliable: at {row['temperatures']} temperatures, annealing "
                f"had {row['effective_chains']:.3g} effective chains, but 20 are needed; more --chains or --temperatures may help"
            )
        if lost := unreliable_log_z_message(row):
            session.console.warn(f"{row['file']}: {lost}")
        worse = WORSE in split_findings(row.get("verdict")) and row.get("independent") is not None
        if worse and (compare := KINDS[row["kind"]].comparison):
            session.console.warn(f"{row['file']}: {import_by_path(compare)(row)}")


def warn_of_rank_disagreement(session: Session, rows: Sequence[Row]) -> None:
    """Warn if pseudo-likelihood ranks the models of a table differently from the log-likelihood."""
    if sum("pseudo_likelihood" in row for row in rows) > 1:
        for remark in ranking_messages(rows):
            session.console.warn(remark)


def with_evaluation_rows(session: Session, artifact: Artifact, request: Request) -> Artifact:
    """Return an rbm or dbn with the rows of --data; unchanged without the option.

    If the data have no split, all rows are test rows.
    """
    layers = model_layers(artifact.value)
    model = layers[0]
    if request.data is None:
        if model.elsewhere is not None:
            session.console.warn(f"{artifact.name} stores only a hash of its held-out rows: pass the rows with --data FILE")
        return artifact
    known = model.elsewhere
    data = _load_evaluation_rows(session, model, request.data)
    if known is None and data.value.split is None:
        data = replace(data, value=replace(data.value, split=np.full(data.value.X.shape[0], TEST, dtype=np.uint8)))
    asked = {} if known is None else {"split": known.parts, "seed": known.seed}
    with dataset_preparation.use_split_rule(dataset_preparation.SplitRule(by_class=known is not None and known.by_class)):
        rows = rows_for_model(session, model, data, asked, sparse=len(layers) == 1)
    try:
        found = replace_evaluation_rows(model, rows.X, rows.split, model_class_indices(model, rows, request.data), map=session.map)
    except DataError as error:
        error.where = error.where or data.name
        raise
    return replace(artifact, value=replace_lowest_layer(artifact.value, found))


def _load_evaluation_rows(session: Session, model: RBM, path: str) -> Artifact:
    """Return the rows of --data, read as for the fit if the model's held-out rows are to be found among them."""
    from herdcli.cli.frame.rows import streamed_rows
    from herdcli.rbm.units import unit_family

    if model.elsewhere is None:
        return session.load(path, "data", kinds={"dataset"})
    label, unit_bytes = model.elsewhere.label, 1 if unit_family(model.visible_units).two_state else 4
    asked = model.elsewhere.on_disk and path != "-"
    found = streamed_rows.open_streamed_dataset(session, path, label=label, input_format=None, is_requested=asked, unit_bytes=unit_bytes)
    return found or session.load(path, "data", kinds={"dataset"}, label=label)
