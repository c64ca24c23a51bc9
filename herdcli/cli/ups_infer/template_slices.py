"""`herd ups-infer --slices`: rows of evidence are the time slices of a template, and each slice gets its marginals."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame.output import outputs
from herdcli.cli.ups_infer import evidence_rows
from herdcli.errors import DataError

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.ups_infer.request import Request


def infer_slices(session: Session, loaded: Artifact, request: Request) -> None:
    """Write the marginals of every slice, and the log probability of its row given the rows before it."""
    from herdcli.artifacts.dataset import Dataset
    from herdcli.markov.exact import interface_algorithm
    from herdcli.markov.model.slice_tasks import parse_task
    from herdcli.markov.model.slice_templates import parse_two_slice_network

    try:
        given = parse_two_slice_network(loaded.value)
    except DataError as error:
        error.where = error.where or loaded.name
        raise
    one = given.slice_network()
    session.remember_features(replace(loaded, value=one))  # the names without the endings of slices
    variables, dense, _ = evidence_rows.read_evidence_rows(session, request.evidence_rows, one)
    if dense.shape[1] == 1:
        session.console.note("empty lines are skipped in a table of one column: write -1 for a slice without evidence")
    rows = np.full((len(dense), given.count), interface_algorithm.NONE, dtype=np.int64)
    rows[:, variables] = dense
    assert request.slices is not None
    work = interface_algorithm.SliceInference(given, rows, parse_task(request.slices))
    session.require_memory(work.memory(), work.words)
    marginals, log_z = session.run_preparation(work, label="slices")
    marginals = marginals[:, : int(given.cardinality[: one.listed_count].sum())]
    made = Dataset(np.column_stack([marginals, log_z]), feature_names=evidence_rows.marginal_columns(one))
    total = float(log_z.sum())
    summary = f"{len(rows)} slices × {one.listed_count} variables, {request.slices}, log Z {total:.10g}"
    outputs.write_artifact(session, made, summary, history=loaded, format=request.format, missing=True)
