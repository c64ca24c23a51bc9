"""The data set that `herd convert` reads, and what it makes of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from herdcli.artifacts import delimited, lazy, ranges, sniff
from herdcli.artifacts.blocks import UNBOUNDED
from herdcli.artifacts.files import output_format
from herdcli.artifacts.inputs import open_source
from herdcli.cli.convert.images import normalized
from herdcli.cli.convert.rows import changed, halved
from herdcli.cli.convert.splits import partitioned
from herdcli.cli.frame import outputs
from herdcli.kinds import exporting

if TYPE_CHECKING:
    from herdcli.cli.convert.request import Request
    from herdcli.cli.frame.session import Session


def convert(session: Session, request: Request) -> None:
    """Read, normalise images, cut rows, split, and save."""
    outputs.check(session, "dataset", request.format)
    if plain(session, request) and _in_pieces(session, request):
        return
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
    rows, columns = value.X.shape
    if value.is_sparse and target in ("csv", "netcdf"):
        session.require_memory(
            2 * rows * columns, f"{rows} × {columns} values as {'CSV' if target == 'csv' else target}, two bytes each at least,"
        )
    outputs.artifact(session, value, f"{rows} rows × {columns} columns", history=data, format=request.format)


def plain(session: Session, request: Request) -> bool:
    """Whether rows go as they are into text, which is written in pieces."""
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
    others = (request.keep, request.hold_outs, request.split, session.missing, "categorical" in session.given)
    as_it_is = request.label in (None, "y") and request.input_format in (None, "hdf5") and request.source != "-"
    text = output_format(session.output, request.format, "dataset") == "csv" and not sniff.packing(session.output)
    return as_it_is and text and not any(changes + others)


def _in_pieces(session: Session, request: Request) -> bool:
    """Write the rows of a large HDF5 file, which stay in it; False for other inputs."""
    if ranges.several(request.source):
        return False
    with open_source(request.source, limit=UNBOUNDED) as source:
        if not lazy.stays(source):
            return False
    with ranges.opened(request.source, input_format=request.input_format, note=session.console.note, verified=True) as found:
        data = None if found is None else lazy.dataset(found)
        if found is None or data is None:
            return False
        session.inputs["data"], found.as_stored = found.artifact, True
        rows, columns = data.X.shape
        outputs.pieces(session, partial(delimited.write, data=data), f"{rows} rows × {columns} columns", "dataset")
    return True
