"""`herd ica --one-pass`: whitening by moments of blocks of rows, which are units; a shard makes those of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.wording import grouped
from herdcli.cli.frame import shards, streamed
from herdcli.cli.frame.options import ITERATED, WORKERS
from herdcli.errors import BadUsage, DataError
from herdcli.ica import summing
from herdcli.ica.summing import Block
from herdcli.numerics.blocks import BLOCK, InMemory
from herdcli.numerics.units import Layout
from herdcli.records import dataclass
from herdcli.splits import TEST

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.artifacts.ranges import Ranges
    from herdcli.cli.frame.outputs import History
    from herdcli.cli.frame.session import Session
    from herdcli.cli.ica.request import Request
    from herdcli.ica.summing import ICAShard
    from herdcli.schema import Array

ROUNDS = f"{WORKERS}; with --one-pass shards make moments"


def check(session: Session, request: Request) -> None:
    """Refuse what moments and some of the rows do not give."""
    if not request.one_pass:
        if session.shard is not None:
            raise BadUsage(f"--shard: {ITERATED}", hint=ROUNDS)
        return
    if request.algorithm == "sobi":
        raise BadUsage("--one-pass keeps rows that are apart in time, and --algorithm sobi goes by neighbours", hint="--algorithm ml")
    if request.mix:
        raise BadUsage("--one-pass takes rows as they are, and --mix mixes them", hint="leave one of them out")


@dataclass(frozen=True)
class Stretches:
    """Rows of files, which are read when their blocks are.  use  (n,)."""

    found: Ranges
    use: Array

    def take(self, first: int, last: int) -> Iterator[Block]:
        """Blocks first … last − 1, read together."""
        begin = first * BLOCK
        X = self.found.read(begin, min(last * BLOCK, self.found.count)).X
        for at in range(0, len(X), BLOCK):
            yield Block(begin + at, X[at : at + BLOCK], self.use[begin + at : begin + at + BLOCK])


@dataclass(frozen=True)
class Rows:
    """Rows that are to be summed up, and what is known of them before.  split  (n,)."""

    source: InMemory | Stretches
    split: Array
    columns: int
    names: list[str] | None
    image_shape: Array | None
    history: Artifact


def run(session: Session, request: Request) -> None:
    """Sum up this run's blocks, and save an `ica` or a shard of the moments."""
    with streamed.by_parts(session, request.source, input_format=request.input_format, label=request.label) as found:
        rows = None if found is None else _in_stretches(session, request, found)
        try:
            _summed(session, request, rows or _in_memory(session, request))
        except DataError as error:
            error.where = error.where or session.inputs["data"].name
            raise


def _in_stretches(session: Session, request: Request, found: Ranges) -> Rows | None:
    """Rows that stay in their files; None where all of them must be seen to read one."""
    from herdcli.cli.frame.columns import warn_of_weights
    from herdcli.cli.ica import inputs

    head, artifact = found.read(0, 1), found.artifact
    others = any(getattr(reader, "others", False) for _, reader, _ in found.parts)
    numbered = (request.split is not None or found.split() is None) and head.class_names and not hasattr(found.parts[0][1], "further")
    if artifact.recoding or others or numbered:
        return None
    session.inputs["data"] = artifact
    session.account_for(found)
    session.console.detail(f"{artifact.name}: {found.count} rows, sha256 {artifact.sha256[:12]}")
    warn_of_weights(session, head)
    whole = inputs.all_rows(request, found.split() is not None)
    split = np.zeros(found.count, dtype=np.uint8) if whole else streamed.parts_of(found, request.split, request.seed)
    shape, names = found.declared.get("image_shape"), found.names if found.declared.get("named", True) else None
    source = Stretches(found, summing.uses(split))
    return Rows(source, split, head.X.shape[1], names, None if shape is None else np.asarray(shape), artifact)


def _in_memory(session: Session, request: Request) -> Rows:
    """All rows."""
    from herdcli.cli.ica import inputs

    artifact, data = inputs.loaded(session, request)
    split = inputs.split_of(data, request)
    use = summing.uses(split)
    source = InMemory(len(use), lambda own: Block(own.start, data.X[own], use[own]))
    return Rows(source, split, data.X.shape[1], data.feature_names, data.image_shape, replace(artifact, value=None))


def _summed(session: Session, request: Request, rows: Rows) -> None:
    from herdcli.cli.ica import inputs

    layout = Layout(len(rows.split), rows.columns, streamed.at_once(rows.columns))
    _, mixing = inputs.mixed(session, np.broadcast_to(np.uint8(0), (layout.rows, layout.columns)), request)
    inputs.tell_of_held(session, int((rows.split == TEST).sum()))
    units = shards.units(session, layout.units, "blocks of rows")
    about, parts = summing.About(np.zeros(rows.columns), request.log), list[summing.Part]()
    if units or session.dealt is not None:
        about = summing.about(next(iter(rows.source.take(0, 1))), log=request.log)
    if units:
        run = session.run if session.shard else session.aside
        kept = -(-min(layout.rows, summing.LEARNED + summing.HELD) // session.place.count)
        parts = run(summing.Summing(layout, units, rows.source, about, kept, session.map), label="summing up")
    made = summing.ICAShard(
        place=session.place,
        units=layout.units,
        parts=parts,
        centre=about.centre,
        mixing=mixing,
        image_shape=None if mixing is not None else rows.image_shape,
        names=rows.names,
    )
    shards.close(session, made, "blocks of rows", finish, rows.history, request)


def finish(session: Session, whole: ICAShard, history: History, request: Request) -> None:
    """Whiten by the moments of all blocks, learn from the rows that were kept, and save the filters."""
    from herdcli.cli.ica import inputs, runs

    total = summing.added(whole.parts)
    inputs.require_enough(total.rows, len(whole.centre), request)
    all_kept = total.rows < len(whole.centre)
    fitted = inputs.fitted_to(total.X if all_kept else total.moments(whole.centre), request)
    inputs.tell(session, fitted, total.constant if fitted.dropped else np.empty(0), request)
    if len(total.X) < total.rows:
        session.console.note(f"whitened by {grouped(total.rows)} rows; filters are learned from {grouped(len(total.X))}, evenly spread")
    session.require_memory(8 * 2 * len(total.X) * len(fitted.forward), f"{len(total.X)} × {len(fitted.forward)} whitened numbers")
    Z, holdout = fitted.apply(total.X), inputs.taken_along(total.held, fitted)
    runs.run(session, inputs.Rows(Z, holdout, fitted, whole.mixing, whole.image_shape, whole.names, history), request)
