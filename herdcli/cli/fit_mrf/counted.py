"""`herd fit-mrf` of rows that learning needs as counts alone: blocks of them are units, of which a shard counts its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.fit_mrf import codes, inputs, learn, reading
from herdcli.cli.frame import shards
from herdcli.cli.frame.networks import output_format
from herdcli.cli.frame.options import NETWORK_FORMATS
from herdcli.errors import DataError

if TYPE_CHECKING:
    from herdcli.cli.fit_mrf.reading import Counted
    from herdcli.cli.fit_mrf.request import Request
    from herdcli.cli.frame.outputs import History
    from herdcli.cli.frame.session import Session
    from herdcli.markov.model.counts import CountsShard, Scope
    from herdcli.markov.model.network import Network
    from herdcli.schema import Array

BY_ROWS = ("bayes", "pseudo-likelihood")
REGRESSED = ("l1", "stability")


def wanted(request: Request) -> bool:
    """Whether learning needs counts of rows, and no row by itself."""
    chains = request.algorithm == "gradient" and request.expectations != "exact"
    regressed = request.structure is not None and request.structure[0] in REGRESSED
    return not (request.moments or request.features or request.algorithm in BY_ROWS or chains or regressed)


def refuse(session: Session, request: Request) -> None:
    """Refuse shards, and workers, of what is not learned from counts."""
    if request.algorithm == "pseudo-likelihood" and session.shard is None:
        return
    hint = "shards and workers count rows, which --moments, --features, --structure l1, bayes and chains of gradient do not learn from"
    if request.algorithm == "pseudo-likelihood":
        hint = "--cluster WHERE keeps the rows of pseudo-likelihood with workers"
    shards.refuse(session, hint)


def run(session: Session, request: Request) -> None:
    """Count this run's blocks, and save a `network` or a shard of the counts."""
    inputs.require_one_structure(session)
    with reading.opened(session, request) as found:
        rows = None if found is None else reading.in_stretches(session, request, found)
        if rows is not None:
            try:
                _counted(session, request, rows)
                return
            except reading.Unclear:
                if session.shard is not None or session.cluster is not None:
                    raise
    _counted(session, request, reading.in_memory(session, request))


def _counted(session: Session, request: Request, rows: Counted) -> None:
    from herdcli.markov.model.counts import Counting, CountsShard

    nodes = rows.layout.columns
    scopes = inputs.named_scopes(session, rows.names, nodes, request)
    base = inputs.base_of(session, request, rows.names, nodes, rows.states)
    regions = inputs.regions(session, rows.names, nodes, request)
    units = shards.units(session, rows.layout.units, "blocks of rows")
    counting = Counting(rows.layout, units, rows.source, larger(scopes, base), session.map)
    parts = (session.run if session.shard else session.aside)(counting, label="counting") if units else []
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
        shape=rows.shape,
        base=base,
        cardinality=rows.cardinality,
    )
    shards.close(session, made, "blocks of rows", finish, rows.history, request)


def larger(scopes: list[Scope] | None, base: Network | None) -> tuple[Scope, ...]:
    """The clusters whose marginals those of pairs do not give."""
    found = [*(scopes or ()), *(scope for scope, _ in (base.factors() if base is not None else ()))]
    unique = {frozenset(scope): tuple(scope) for scope in found if len(set(scope)) == len(scope) > 2}
    return tuple(unique.values())


def finish(session: Session, whole: CountsShard, history: History, request: Request) -> None:
    """Learn from the counts of all blocks, and save the network."""
    from herdcli.markov.model import constraints, counts

    named, asked = whole.named_scopes, whole.named_regions
    scopes_counted = larger(named, whole.base)
    if whole.states is None and np.isnan(whole.cut):
        rows, total, kept = counts.counts_of_codes(whole.parts, scopes_counted)
        states = None if kept is None else _names_of(session, kept, whole)
    else:
        least = 2 if whole.cardinality is None else whole.cardinality
        rows, total = counts.counts(whole.parts, scopes_counted, least=least)
        states = whole.states
    nodes = len(rows.cardinality)
    reading.require_read_alike(_values(whole), total.values, request)
    pairs = constraints.pairs(rows, rows.cardinality, request.smoothing)
    scopes = named if named is not None else inputs.found_scopes(inputs.structure_of(request, False), nodes, pairs, whole.shape, request)
    clusters = constraints.from_scopes(rows, rows.cardinality, scopes, request.smoothing, pairs)
    problem = constraints.check(constraints.Problem(rows.cardinality, clusters, whole.base, whole.names, whole.shape, rows))
    x, split = (item if len(item) else None for item in (total.holdout, total.holdout_split))
    made = inputs.Inputs(problem, pairs, x, split, history, states, tuple(asked))
    learn.learn(session, made, request, output_format(session, getattr(request, "format", None), NETWORK_FORMATS))


def _names_of(session: Session, kept: list[Array], whole: CountsShard) -> list[str]:
    """The names of states that are codes, told; DataError for those that --base does not have."""
    levels = {k: found for k, own in enumerate(kept) if (found := codes.named(own))}
    session.console.note(codes.notice(levels, whole.names))
    states = [str(int(code)) for own in kept for code in own.tolist()]
    if whole.base is not None and whole.base.states != states:
        raise DataError(inputs.OTHER_STATES, where=session.inputs["data"].name, hint="BIF names states")
    return states


def _values(whole: CountsShard) -> reading.Values:
    limits = None if whole.limits is None else (float(whole.limits[0]), float(whole.limits[1]))
    return reading.Values(None if np.isnan(whole.cut) else whole.cut, limits, (0, 1) if whole.given else None)
