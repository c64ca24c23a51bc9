"""The data set that `herd convert` reads, and what it makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.artifacts.files import output_format
from herdcli.cli.convert.images import normalized
from herdcli.cli.convert.rows import changed
from herdcli.cli.convert.splits import partitioned
from herdcli.cli.frame import outputs
from herdcli.kinds import exporting

if TYPE_CHECKING:
    from herdcli.cli.convert.request import Request
    from herdcli.cli.frame.session import Session


def convert(session: Session, request: Request) -> None:
    """Read, normalise images, cut rows, split, and save."""
    outputs.check(session, "dataset", request.format)
    form, label, target = request.input_format, request.label, output_format(session.output, request.format, "dataset")
    kinds = exporting("netcdf") if target == "netcdf" else ["dataset"]
    data = session.load(request.source, "data", kinds=kinds, input_format=form, label=label, keep=request.columns, as_stored=True)
    if data.kind != "dataset":
        outputs.artifact(session, data.value, f"{data.kind} as draws", history=data, format=target)
        return
    value = changed(session, normalized(session, data, request), data.name, request)
    value = partitioned(value, request)
    rows, columns = value.X.shape
    if value.is_sparse and target in ("csv", "netcdf"):
        session.require_memory(2 * rows * columns, f"{rows} × {columns} values as {target}, two bytes each at least,")
    outputs.artifact(session, value, f"{rows} rows × {columns} columns", history=data, format=request.format)
