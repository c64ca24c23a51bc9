"""`herd ups-infer --evidence-rows`: a table of evidence in, a table of marginals out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame import outputs, shards
from herdcli.cli.frame.networks import states_named
from herdcli.cli.ups_infer.request import AUTO
from herdcli.errors import BadUsage, DataError

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.outputs import History
    from herdcli.cli.frame.session import Session
    from herdcli.cli.ups_infer.request import Request
    from herdcli.markov.exact.batch import RowsShard
    from herdcli.markov.model.network import Network


def infer_rows(session: Session, loaded: Artifact, network: Network, request: Request) -> None:
    """Write the marginals of all variables, and log Z, under the evidence of each row."""
    from herdcli.markov.exact.batch import Batch, Columns, RowsShard
    from herdcli.markov.formats import results

    if request.algorithm not in (AUTO, "junction-tree"):
        raise BadUsage(f"--evidence-rows is answered by a junction tree, not by --algorithm {request.algorithm}")
    if network.observations():
        raise BadUsage("--evidence-rows takes no observed marginals", hint="--ignore-observed")
    assert request.evidence_rows is not None
    session.recoding = states_named(network)
    found = session.load(request.evidence_rows, "evidence", kinds={"dataset"}, missing=True)
    data = found.value
    dense = data.X.toarray() if data.is_sparse else np.asarray(data.X)
    dense = np.where(np.isnan(dense), -1, dense)
    names = data.feature_names or [f"x{i}" for i in range(dense.shape[1])]
    if (dense % 1 != 0).any():
        raise DataError("evidence must be whole numbers: a state, or −1 for none", where=found.name)
    variables = [results.variable(network, name) for name in names]
    if len(set(variables)) < len(variables):
        raise DataError("two columns stand for the same variable", where=found.name)
    batch = Batch(network, variables, dense.astype(np.int64), orders=request.orders, seed=request.seed, map=session.map)
    size, what = batch.bytes_needed()
    session.require_memory(size, what)
    session.console.note(what.rstrip(","))
    units = shards.units(session, batch.count, "blocks of rows")
    states = network.states or [str(x) for count in network.cardinality.tolist() for x in range(count)]
    columns = [
        f"{network.name(i)}={x}" for i, x in zip(np.repeat(np.arange(network.count), network.cardinality).tolist(), states, strict=True)
    ]
    made = RowsShard(
        place=session.place,
        units=batch.count,
        parts=session.run(batch.part(units), label="rows") if units else [],
        rest=Columns([*columns, "log_z"], network.count) if session.place.first else None,
    )
    shards.close(session, made, "blocks of rows", finish, replace(loaded, value=None), request)


def finish(session: Session, whole: RowsShard, history: History, request: Request) -> None:
    """Save the rows of all blocks as one table."""
    from herdcli.artifacts.dataset import Dataset
    from herdcli.schema import joined

    assert whole.rest is not None
    rows = joined(whole.parts, "n")
    made = Dataset(np.column_stack([rows.marginals, rows.log_z]), feature_names=whole.rest.names)
    outputs.artifact(session, made, f"{len(rows.log_z)} rows × {whole.rest.variables} variables", history=history)
