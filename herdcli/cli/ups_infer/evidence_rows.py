"""`herd ups-infer --evidence-rows`: from a table of evidence to a table of marginals."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.rows.network_files import state_encoding
from herdcli.cli.frame.run import shards
from herdcli.errors import BadUsage, DataError

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.output.outputs import HistorySource
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.ups_infer.request import Request
    from herdcli.markov.exact.evidence_batch import BlockResults, EvidenceRowsShard
    from herdcli.markov.model.network import Network
    from herdcli.schema import Array


def infer_rows(session: Session, loaded: Artifact, network_and_evidence: tuple[Network, dict[int, int]], request: Request) -> None:
    """Write the marginals of all variables, and log Z, given each row's evidence and the evidence of --evidence."""
    from herdcli.markov.exact.evidence_batch import EvidenceBatch, EvidenceRowsShard, MarginalColumns

    full: Network = loaded.value
    network, evidence = network_and_evidence
    if network.stored_marginals():
        raise BadUsage("--evidence-rows does not work with observed marginals", hint="use --ignore-observed")
    variables, dense, where = read_evidence_rows(session, request.evidence_rows, full)
    dense = _remove_common_evidence(dense, variables, full, evidence, where)
    batch = EvidenceBatch(network, variables, dense, orders=request.orders, seed=request.seed, map=session.map)
    size, what = batch.bytes_needed()
    session.require_memory(size, what)
    session.console.note(what.rstrip(","))
    units = shards.unit_numbers_of_run(session, batch.count, "blocks of rows")
    made = EvidenceRowsShard(
        place=session.place,
        units=batch.count,
        parts=_drop_auxiliary_columns(_expand_states(session.run(batch.part(units), label="rows"), full, evidence), full) if units else [],
        rest=MarginalColumns(marginal_columns(full), full.listed_count) if session.place.is_first else None,
    )
    shards.save_units_or_shard(session, made, "blocks of rows", save_all_units, replace(loaded, value=None), request)


def read_evidence_rows(session: Session, evidence_rows: str | None, network: Network) -> tuple[list[int], Array, str]:
    """Return the variables of the columns of --evidence-rows, their states (rows, columns), −1 for none, and the file's name."""
    from herdcli.markov.formats.evidence import find_variable

    assert evidence_rows is not None
    session.recoding = state_encoding(network)
    found = session.load(evidence_rows, "evidence", kinds={"dataset"}, missing=True)
    data = found.value
    dense = data.X.toarray() if data.is_sparse else np.asarray(data.X)
    dense = np.where(np.isnan(dense), -1, dense)
    if data.feature_names is None and session.recoding and dense.shape[1] != network.listed_count:
        raise DataError(
            f"has {dense.shape[1]} columns without names, but the network has {network.listed_count} variables", where=found.name
        )
    names = data.feature_names or [str(i) for i in range(dense.shape[1])]
    if (dense % 1 != 0).any():
        raise DataError("evidence must be whole numbers: states, or −1 for no evidence", where=found.name)
    variables = [find_variable(network, name) for name in names]
    if len(set(variables)) < len(variables):
        raise DataError("two columns stand for the same variable", where=found.name)
    return variables, dense.astype(np.int64), found.name


def marginal_columns(network: Network) -> list[str]:
    """Return the columns of a table of marginals: NAME=STATE for every state, and log_z."""
    cardinality = network.cardinality[: network.listed_count]
    of_column = np.repeat(np.arange(len(cardinality)), cardinality).tolist()
    states = network.states or [str(x) for count in cardinality.tolist() for x in range(count)]
    return [*(f"{network.name(i)}={x}" for i, x in zip(of_column, states, strict=False)), "log_z"]


def _remove_common_evidence(rows: Array, variables: list[int], full: Network, evidence: dict[int, int], where: str) -> Array:
    """Return rows of states (n, columns) without the states that the common evidence also fixes.  Raises DataError if the two differ."""
    made = rows.copy()
    for column, i in enumerate(variables):
        if i in evidence:
            differing = np.flatnonzero((rows[:, column] != -1) & (rows[:, column] != evidence[i]))
            if differing.size:
                row, state = int(differing[0]), int(rows[differing[0], column])
                message = f"row {row} gives {full.name(i)} the state {state}, --evidence the state {evidence[i]}"
                raise DataError(message, where=where, hint="leave the variable out of one of the two")
            made[:, column] = -1
    return made


def _drop_auxiliary_columns(parts: list[BlockResults], full: Network) -> list[BlockResults]:
    """Return marginals without the auxiliary variables, which come last."""
    if not full.auxiliary:
        return parts
    width = int(full.cardinality[: full.listed_count].sum())
    return [replace(part, marginals=part.marginals[:, :width]) for part in parts]


def _expand_states(parts: list[BlockResults], full: Network, evidence: dict[int, int]) -> list[BlockResults]:
    """Return marginals over all states of the network, with 0 for states that the evidence excludes."""
    if not evidence:
        return parts
    first = np.concatenate(([0], np.cumsum(full.cardinality)))
    kept = np.ones(int(first[-1]), dtype=bool)
    for i, state in evidence.items():
        kept[first[i] : first[i + 1]] = False
        kept[first[i] + state] = True
    made = [np.zeros((len(part.marginals), len(kept))) for part in parts]
    for whole, part in zip(made, parts, strict=True):
        whole[:, kept] = part.marginals
        whole[part.log_z == -np.inf] = np.nan
    return [replace(part, marginals=whole) for part, whole in zip(parts, made, strict=True)]


def save_all_units(session: Session, whole: EvidenceRowsShard, history: HistorySource, request: Request) -> None:
    """Save the rows of all blocks as one table."""
    from herdcli.artifacts import line_numbers
    from herdcli.artifacts.dataset import Dataset
    from herdcli.schema import join_records

    assert whole.rest is not None
    rows = join_records(whole.parts, "n")
    made = Dataset(np.column_stack([rows.marginals, rows.log_z]), feature_names=whole.rest.names)
    summary = f"{len(rows.log_z)} rows × {whole.rest.variables} variables"
    if (impossible := np.flatnonzero(rows.log_z == -np.inf)).size:
        first = ", ".join(map(str, impossible[:5].tolist())) + (" …" if impossible.size > 5 else "")
        noun = "row has" if impossible.size == 1 else "rows have"
        message = f"{impossible.size} {noun} probability 0 (row {first}): log_z is −inf there and the marginals are NaN"
        session.console.warn(line_numbers.with_line_numbers(message, request.evidence_rows or "", session.features))
        summary += f", {impossible.size} impossible"
    outputs.write_artifact(session, made, summary, history=history, format=request.format, missing=True)
