"""`herd fit-mrf` when learning needs only counts of rows: blocks of rows are the units, and each shard counts its own blocks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.fit_mrf import inputs, learn, row_readers, state_codes
from herdcli.cli.frame.options.common_options import NETWORK_FORMATS
from herdcli.cli.frame.rows.network_files import output_format
from herdcli.cli.frame.run import shards
from herdcli.errors import DataError

if TYPE_CHECKING:
    from herdcli.cli.fit_mrf.request import Request
    from herdcli.cli.fit_mrf.row_readers import CountableRows
    from herdcli.cli.frame.output.outputs import HistorySource
    from herdcli.cli.frame.run.session import Session
    from herdcli.markov.model.network import Network
    from herdcli.markov.model.row_counts import CountsShard, Scope
    from herdcli.schema import Array

BY_ROWS = ("bayes", "pseudo-likelihood")


def learns_from_counts(algorithm: str, expectations: str, moments: str | None, features: str | None, has_penalty_path: bool) -> bool:
    """Return whether learning needs only counts of the rows, not the rows themselves."""
    chains = algorithm == "gradient" and expectations != "exact"
    return not (moments or features or algorithm in BY_ROWS or chains or has_penalty_path)


def refuse_shards(session: Session, algorithm: str) -> None:
    """Raise BadUsage for --shard or --cluster if the learning does not work from counts."""
    if algorithm == "pseudo-likelihood" and session.shard is None:
        return
    hint = (
        "shards and workers exchange only counts of rows, which do not suffice for --moments, --feature-clusters, --structure l1, "
        "--algorithm bayes and sampled gradients"
    )
    if algorithm == "pseudo-likelihood":
        hint = "use --cluster WHERE, which works with pseudo-likelihood"
    shards.refuse_shards(session, hint)


def count_and_learn(session: Session, request: Request) -> None:
    """Count this run's blocks of rows, and save a `network` or a shard of the counts."""
    with row_readers.open_row_ranges(session, request.source, request.input_format, request.label) as found:
        rows = (
            None
            if found is None
            else row_readers.rows_in_files(
                session, request.value_range, request.values, request.threshold, request.split, request.seed, found
            )
        )
        if rows is not None:
            try:
                _count_blocks(session, request, rows)
                return
            except row_readers.AmbiguousValues:
                if session.shard is not None or session.cluster is not None:
                    raise
    _count_blocks(session, request, row_readers.rows_in_memory(session, request))


def _count_blocks(session: Session, request: Request, rows: CountableRows) -> None:
    from herdcli.markov.model.row_counts import Counting, CountsShard

    nodes = rows.layout.columns
    scopes = inputs.scopes_from_file(session, rows.names, nodes, request.edges, request.clusters)
    base = inputs.read_base_network(session, request.base, rows.names, nodes, rows.states)
    regions = inputs.read_regions(session, rows.names, nodes, request.regions)
    units = shards.unit_numbers_of_run(session, rows.layout.units, "blocks of rows")
    counting = Counting(rows.layout, units, rows.source, clusters_larger_than_pairs(scopes, base), session.map)
    parts = (session.run if session.shard else session.run_preparation)(counting, label="counting") if units else []
    made = CountsShard(
        place=session.place,
        units=rows.layout.units,
        parts=parts,
        scopes=json.dumps(scopes),
        regions=json.dumps(regions),
        cut=float("nan") if rows.values.cut is None else rows.values.cut,
        given=rows.values.kinds is not None,
        names=rows.names,
        states=rows.states,
        limits=None if rows.values.limits is None else np.asarray(rows.values.limits),
        shape=rows.image_shape,
        base=base,
        cardinality=rows.cardinality,
    )
    shards.save_units_or_shard(session, made, "blocks of rows", save_all_units, rows.history, request)


def clusters_larger_than_pairs(scopes: list[Scope] | None, base: Network | None) -> tuple[Scope, ...]:
    """Return the clusters of three or more variables, whose marginals do not follow from those of pairs."""
    found = [*(scopes or ()), *(scope for scope, _ in (base.factors() if base is not None else ()))]
    unique = {frozenset(scope): tuple(scope) for scope in found if len(set(scope)) == len(scope) > 2}
    return tuple(unique.values())


def save_all_units(session: Session, whole: CountsShard, history: HistorySource, request: Request) -> None:
    """Learn from the counts of all blocks, and save the network."""
    from herdcli.markov.model import constraints, row_counts

    named, asked = whole.named_scopes, whole.named_regions
    scopes_counted = clusters_larger_than_pairs(named, whole.base)
    if whole.states is None and np.isnan(whole.cut):
        rows, total, kept = row_counts.join_seen_code_counts(whole.parts, scopes_counted)
        states = None if kept is None else _state_code_names(session, kept, whole)
    else:
        least = 2 if whole.cardinality is None else whole.cardinality
        rows, total = row_counts.join_counts(whole.parts, scopes_counted, min_states=least)
        states = whole.states
    nodes = len(rows.cardinality)
    row_readers.require_same_reading(_value_reading_of_shard(whole), total.values, request.threshold)
    pairs = constraints.compute_pair_tables(rows, rows.cardinality, request.smoothing)
    scopes = (
        named
        if named is not None
        else inputs.scopes_from_structure(
            inputs.structure_options(request.algorithm, request.structure, False), nodes, pairs, whole.shape, request.seed
        )
    )
    clusters = constraints.make_clusters(rows, rows.cardinality, scopes, request.smoothing, pairs)
    problem = constraints.validate_problem(
        constraints.LearningProblem(rows.cardinality, clusters, whole.base, whole.names, whole.shape, rows)
    )
    x, split = (item if len(item) else None for item in (total.holdout, total.holdout_split))
    made = inputs.LearningInputs(problem, pairs, x, split, history, states, tuple(asked))
    learn.learn_network(session, made, request, output_format(session, getattr(request, "format", None), NETWORK_FORMATS))


def _state_code_names(session: Session, codes_by_column: list[Array], whole: CountsShard) -> list[str]:
    """Return the names of states that are codes, and print a note.  Raises DataError if --base has other states."""
    levels = {k: found for k, own in enumerate(codes_by_column) if (found := state_codes.state_code_names(own))}
    session.console.note(state_codes.state_codes_message(levels, whole.names))
    states = [str(int(code)) for own in codes_by_column for code in own.tolist()]
    if whole.base is not None and whole.base.states != states:
        raise DataError(
            inputs.OTHER_STATES, where=session.inputs["data"].name, hint="give --base in a format that names states, such as BIF"
        )
    return states


def _value_reading_of_shard(whole: CountsShard) -> row_readers.ValueReading:
    limits = None if whole.limits is None else (float(whole.limits[0]), float(whole.limits[1]))
    return row_readers.ValueReading(None if np.isnan(whole.cut) else whole.cut, limits, (0, 1) if whole.given else None)
