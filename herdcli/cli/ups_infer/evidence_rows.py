"""`herd ups-infer --evidence-rows`: a table of evidence in, a table of marginals out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from herdcli.cli.frame import shards
from herdcli.cli.frame.session import Session
from herdcli.cli.ups_infer.options import AUTO
from herdcli.errors import BadUsage, DataError

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.markov.exact.batch import RowsShard
    from herdcli.markov.model.network import Network


def infer_rows(session: Session, loaded: Artifact, network: Network, options: dict[str, Any]) -> None:
    """Write the marginals of all variables, and log Z, under the evidence of each row."""
    from herdcli.markov.exact.batch import Batch, Columns, RowsShard
    from herdcli.markov.formats import results

    if options["algorithm"] not in (AUTO, "junction-tree"):
        raise BadUsage(f"--evidence-rows is answered by a junction tree, not by --algorithm {options['algorithm']}")
    if network.observations():
        raise BadUsage("--evidence-rows takes no observed marginals", hint="--ignore-observed")
    found = session.load(options["evidence_rows"], "evidence", kinds={"dataset"})
    data = found.value
    dense = data.X.toarray() if data.is_sparse else np.asarray(data.X)
    names = data.feature_names or [f"x{i}" for i in range(dense.shape[1])]
    if (dense % 1 != 0).any():
        raise DataError("evidence is whole numbers: a state, or −1 for none", where=found.name)
    variables = [results.variable(network, name) for name in names]
    if len(set(variables)) < len(variables):
        raise DataError("two columns are of one variable", where=found.name)
    batch = Batch(network, variables, dense.astype(np.int64), orders=options["orders"], seed=options["seed"])
    size, what = batch.bytes_needed()
    session.require_memory(size, what)
    session.console.note(what.rstrip(","))
    batch.own = shards.units(session, batch.count, "blocks of rows")
    state = session.iterate(batch.step, batch.init, steps=batch.steps, label="rows") if batch.own else None
    columns = [f"{network.name(i)}={x}" for i, states in enumerate(network.cardinality.tolist()) for x in range(states)]
    made = RowsShard(
        place=session.place,
        units=batch.count,
        parts=[] if state is None else batch.answers(state),
        rest=Columns([*columns, "log_z"], network.count) if session.place.first else None,
    )
    shards.close(session, made, "blocks of rows", finish, replace(loaded, value=None), options)


def finish(session: Session, whole: RowsShard, history: Artifact, options: Mapping[str, Any]) -> None:
    """Save the rows of all blocks as one table."""
    from herdcli.artifacts.dataset import Dataset
    from herdcli.schema import joined

    assert whole.rest is not None
    rows = joined(whole.parts, "n")
    made = Dataset(np.column_stack([rows.marginals, rows.log_z]), feature_names=whole.rest.names)
    session.save(made, f"{len(rows.log_z)} rows × {whole.rest.variables} variables", history=history)
