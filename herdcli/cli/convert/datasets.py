"""The data set that `herd convert` reads, and what it makes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdcli.artifacts import grown, ranges
from herdcli.artifacts.dataset import taken
from herdcli.artifacts.files import output_format
from herdcli.cli.convert.images import normalized
from herdcli.cli.convert.rows import changed, halved
from herdcli.cli.convert.splits import partitioned
from herdcli.cli.frame import outputs, streamed
from herdcli.errors import BadUsage
from herdcli.kinds import exporting

if TYPE_CHECKING:
    from collections.abc import Callable

    from herdcli.artifacts.dataset import Dataset
    from herdcli.artifacts.ranges import Ranges
    from herdcli.cli.convert.request import Request
    from herdcli.cli.frame.session import Session

STRETCH = 1 << 24  # bytes of rows, in double precision, that are in memory at one time
SHARDS_HINT = "make the other changes first, and then the shards of what that run wrote"


def convert(session: Session, request: Request) -> None:
    """Read, normalise images, cut rows, split, and save."""
    outputs.check(session, "dataset", request.format)
    if plain(session, request):
        if _in_pieces(session, request):
            return
    elif session.shard is not None:
        raise BadUsage("--shard divides rows that go as they are into HDF5, Parquet or CSV", hint=SHARDS_HINT)
    form, label, target = request.input_format, request.label, output_format(session.output, request.format, "dataset")
    kinds = exporting("netcdf") if target == "netcdf" else ["dataset"]
    data = session.load(request.source, "data", kinds=kinds, input_format=form, label=label, keep=request.columns, as_stored=True)
    if data.kind != "dataset":
        outputs.artifact(session, data.value, f"{data.kind} as draws", history=data, format=target)
        return
    value = changed(session, normalized(session, data, request), data.name, request)
    value = partitioned(value, request)
    if request.binarize == "median":
        value = halved(session, value, data.name)
    if session.shard is not None:
        value = taken(value, slice(*session.place.stretch(value.X.shape[0])))
    rows, columns = value.X.shape
    if value.is_sparse and target in ("csv", "netcdf"):
        session.require_memory(
            2 * rows * columns, f"{rows} × {columns} values as {'CSV' if target == 'csv' else target}, two bytes each at least,"
        )
    outputs.artifact(session, value, f"{rows} rows × {columns} columns", history=data, format=request.format)


def plain(session: Session, request: Request) -> bool:
    """Whether rows go as they are into a file that takes some of them at a time."""
    changes = (
        request.subsample,
        request.mask,
        request.equalize,
        request.transpose,
        request.patches,
        request.segments,
        request.log,
        request.binarize,
    )
    others = (request.keep, request.hold_outs, request.split, session.missing, "categorical" in session.given, session.layer)
    as_it_is = request.label in (None, "y") and request.input_format in (None, "hdf5", "parquet") and request.source != "-"
    form = output_format(session.output, request.format, "dataset")
    return as_it_is and form in grown.FORMS and form == output_format(session.output, None, "dataset") and not any(changes + others)


def _in_pieces(session: Session, request: Request) -> bool:
    """Write the rows of a large HDF5 or Parquet file, which stay in it, or a shard's stretch of them; False for other inputs."""
    if not streamed.large(request.source) or ranges.several(request.source):
        return False
    note, verified = session.console.note, session.shard is None
    roles = session.column_roles()
    with ranges.opened(request.source, input_format=request.input_format, note=note, verified=verified, roles=roles) as found:
        if found is None or found.artifact.recoding or (told := _all_that_is_said(found)) is None:
            return False
        found.as_stored, session.inputs["data"] = True, found.artifact
        read, columns = streamed.taken(found), found.artifact.value.X.shape[1]
        if read is None:
            return False
        session.account_for(found)
        first, end = session.place.stretch(found.count)
        size = max(1, STRETCH // (8 * columns))
        parts = (read(start, min(start + size, end)) for start in range(first, end, size))
        said = (streamed.as_whole(told(part), found) for part in parts)
        outputs.stretches(session, said, end - first, f"{end - first} rows × {columns} columns", history=found.artifact)
    return True


def _all_that_is_said(found: Ranges) -> Callable[[Dataset], Dataset] | None:
    """What adds to some rows all that their file says of all of them; None where it has more beside them than can be told."""
    reader, declared = found.parts[0][1], found.declared
    if isinstance(reader, ranges.Hdf5):
        if reader.others or "sample_rate" in reader.X.file.attrs:
            return None
    elif not hasattr(reader, "pictured") or "named" in declared:  # text, whose types all lines decide; a sealed table
        return None
    said = ranges.known(declared, found.artifact.name) | {name: declared[name] for name in ("source", "licence") if name in declared}
    return lambda part: replace(part, **said)
