"""`herd convert` for data sets: reads, transforms and writes the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdcli.artifacts.dataset import take_rows
from herdcli.artifacts.load_save import SHARD, output_format
from herdcli.artifacts.rows import incremental_dataset, row_ranges
from herdcli.cli.convert.artifact_tables import write_main_table
from herdcli.cli.convert.images import normalize_images
from herdcli.cli.convert.row_transforms import binarize_at_median, transform_rows
from herdcli.cli.convert.splits import assign_splits
from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.rows import network_files, streamed_rows
from herdcli.errors import BadUsage
from herdcli.kinds import KINDS, kinds_exporting

if TYPE_CHECKING:
    from collections.abc import Callable

    from herdcli.artifacts import Artifact
    from herdcli.artifacts.dataset import Dataset
    from herdcli.artifacts.rows.row_ranges import RowRanges
    from herdcli.cli.convert.request import Request
    from herdcli.cli.frame.run.session import Session

TABLES = ("csv", "parquet")  # formats of tables of artifacts that are no data sets
STRETCH = 1 << 24  # bytes of rows, in double precision, that are in memory at one time
IN_PARTS = "only HDF5 and Parquet files with unchanged rows are converted in parts, to HDF5, Parquet or CSV"
SHARDS_HINT = "make the other changes in a first run, then divide its output with --shard"


def convert_dataset(session: Session, request: Request) -> None:
    """Read a data set, normalise its images, cut its rows, split it and save it."""
    with (
        streamed_rows.suggest_streaming(IN_PARTS, lambda: True, request.source),
        streamed_rows.suggest_streaming(
            streamed_rows.FEWER_COLUMNS, lambda: streamed_rows.can_read_columns_separately(request.source), request.source
        ),
    ):
        _convert_dataset(session, request)


def _convert_dataset(session: Session, request: Request) -> None:
    outputs.check_artifact_output(session, "dataset", request.format)
    if copies_rows_unchanged(session, request):
        if _convert_in_parts(session, request.source, request.input_format):
            return
    elif session.shard is not None:
        raise BadUsage("--shard works only if rows are written unchanged to HDF5, Parquet or CSV", hint=SHARDS_HINT)
    if (network := _load_network_for_table(session, request.input_format, request.source, request.format)) is not None:
        write_main_table(session, request, network, output_format(session.output, request.format, "dataset"))
        return
    form, label, target = request.input_format, request.label, output_format(session.output, request.format, "dataset")
    kinds = kinds_exporting("netcdf") if target == "netcdf" else ["dataset"]
    if target in TABLES:
        kinds += [name for name in KINDS if not name.endswith(SHARD) and name != "dataset"]
    data = session.load(request.source, "data", kinds=kinds, input_format=form, label=label, keep=request.columns, as_stored=True)
    if data.kind != "dataset" and target in TABLES:
        write_main_table(session, request, data, target)
        return
    if data.kind != "dataset":
        outputs.write_artifact(session, data.value, f"{data.kind} as draws", history=data, format=target)
        return
    value = transform_rows(session, normalize_images(session, data, request.subsample, request.mask, request.equalize), data.name, request)
    value = assign_splits(value, request)
    if request.binarize == "median":
        value = binarize_at_median(session, value, data.name)
    if session.shard is not None:
        value = take_rows(value, slice(*session.place.row_range(value.X.shape[0])))
    rows, columns = value.X.shape
    if value.is_sparse and target in ("csv", "netcdf"):
        session.require_memory(
            2 * rows * columns, f"{rows} × {columns} values as {'CSV' if target == 'csv' else target}, two bytes each at least,"
        )
    outputs.write_artifact(session, value, f"{rows} rows × {columns} columns", history=data, format=request.format)


def _load_network_for_table(session: Session, input_format: str | None, source: str, format: str | None) -> Artifact | None:
    """Return the network of a text file if its table is wanted; None for other inputs and outputs."""
    if source == "-" or input_format or row_ranges.is_file_pattern(source):
        return None
    if output_format(session.output, format, "dataset") not in TABLES:
        return None
    return network_files.load_network_text(session, source)


def copies_rows_unchanged(session: Session, request: Request) -> bool:
    """Whether the rows are copied unchanged into a file that can be written in parts."""
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
    return (
        as_it_is
        and form in incremental_dataset.FORMS
        and form == output_format(session.output, None, "dataset")
        and not any(changes + others)
    )


def _convert_in_parts(session: Session, source: str, input_format: str | None) -> bool:
    """Write the rows of a large HDF5 or Parquet file, or a shard's range of them, in parts; return False for other inputs."""
    if row_ranges.is_file_pattern(source) or not streamed_rows.is_large_input(source):
        return False
    note, verified = session.console.note, session.shard is None
    roles = session.column_roles()
    with row_ranges.open_ranges(source, input_format=input_format, note=note, verified=verified, roles=roles) as found:
        if found is None or found.artifact.recoding or (told := _make_metadata_adder(found)) is None:
            return False
        found.as_stored, session.inputs["data"] = True, found.artifact
        read, columns = streamed_rows.row_reader(found), found.artifact.value.X.shape[1]
        if read is None:
            return False
        session.report_range_use(found)
        first, end = session.place.row_range(found.count)
        size = max(1, STRETCH // (8 * columns))
        parts = (read(start, min(start + size, end)) for start in range(first, end, size))
        said = (streamed_rows.match_split_type(told(part), found) for part in parts)
        outputs.write_dataset_in_parts(session, said, end - first, f"{end - first} rows × {columns} columns", history=found.artifact)
    return True


def _make_metadata_adder(ranges: RowRanges) -> Callable[[Dataset], Dataset] | None:
    """Return a function that adds the properties of the whole file to a range of rows; None if the file has more than can be added."""
    reader, declared = ranges.parts[0][1], ranges.declared
    if isinstance(reader, row_ranges.Hdf5Reader):
        if reader.others or "sample_rate" in reader.X.file.attrs:
            return None
    elif not hasattr(reader, "declares_images") or "named" in declared:  # text, where all lines determine the types, and sealed tables
        return None
    said = row_ranges.declared_fields(declared, ranges.artifact.name) | {
        name: declared[name] for name in ("source", "licence") if name in declared
    }
    return lambda part: replace(part, **said)
