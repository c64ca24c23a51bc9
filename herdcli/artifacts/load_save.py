"""The functions `load` and `save`, by which every command reads and writes files."""

from __future__ import annotations

import importlib.util
import io
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, BinaryIO

from herdcli.artifacts import hdf5_guard, library_errors, process_limits
from herdcli.artifacts.atomic_output import atomic_file, check_destination, compress_file
from herdcli.artifacts.byte_sources import ByteSource, MemoryLimitedText, decode_text_source, open_source
from herdcli.artifacts.dataset import Dataset, validate
from herdcli.artifacts.formats import format_detection
from herdcli.artifacts.load_options import LoadOptions
from herdcli.artifacts.recoding import Recoding
from herdcli.artifacts.sealed import seal_header, sealed_hdf5
from herdcli.artifacts.tables.column_alignment import select_columns
from herdcli.artifacts.tables.column_roles import BY_NAME_ROLES, NONE, ColumnRoles
from herdcli.errors import BadUsage, DataError
from herdcli.kind_entry import Kind
from herdcli.kinds import CHECKPOINT, KINDS, kind_for_value, kinds_exporting
from herdcli.parts import import_by_path
from herdcli.records import HistoryRecord, dataclass

if TYPE_CHECKING:
    import h5py

    from herdcli.artifacts.tables.dataset_columns import TableReport

TEXT = ("csv", "svmlight", "vw")
SHARD = "-shard"  # the ending of kinds that hold one shard


@dataclass(frozen=True)
class Artifact:
    """A value that was read, with the records of the commands that made it and the identity of its bytes.

    sha256  the seal's digest, or that of the (uncompressed) bytes of an unsealed file.
    truth_columns  features of a table whose values true and false were converted to 1 and 0.
    report  the report on the columns of a table, if their profiles were asked for.
    """

    kind: str
    value: Any
    history: list[HistoryRecord]
    sha256: str
    name: str
    size: int
    sealed: bool
    recoding: Recoding = field(default_factory=Recoding)  # the encoding of text and missing values in the columns of its training data
    truth_columns: tuple[str, ...] = ()
    report: TableReport | None = None


@dataclass(frozen=True)
class SavedArtifact:
    """The result of saving: the artifact's kind and its size in bytes."""

    kind: str
    size: int


PrepareColumns = Callable[[Dataset, list[str], str, Recoding], tuple[Dataset, Recoding]]


def load(
    path: str,
    *,
    kinds: Collection[str] | None = None,
    input_format: str | None = None,
    max_memory: int | None = None,
    note: Callable[[str], None] | None = None,
    label: str | None = None,
    keep: Collection[str] = (),
    also: Collection[str] = (),
    missing: bool = False,
    gaps: Collection[str] = (),
    fills: bool = False,
    profiles: bool = False,
    as_text: Collection[str] = (),
    columns: tuple[str, ...] = (),
    layer: str | None = None,
    labels: bool = True,
    roles: ColumnRoles = BY_NAME_ROLES,
    prepare: PrepareColumns | None = None,
    texts: bool = True,
    account: Callable[[str, bool], None] | None = None,
) -> Artifact:
    """Read an artifact or a data set of any known format; "-" is stdin.

    kinds         the kinds the caller can use; others are refused.
    input_format  one of format_detection.FORMATS, instead of the detected format.
    max_memory    the most bytes that the input may declare; default half of the available memory.
    note          called with one line for anything ignored or assumed.
    label         column or dataset that holds the labels.
    keep          further columns that the data set must have; a sealed data set keeps its other ones too.
    also          further columns that are read if they exist.
    missing       empty cells and NaN are missing values, which the caller can use; a row without a label has −1.
    gaps          further columns of numbers in which missing values become NaN.
    fills         missing values are accepted because `prepare` removes them.
    profiles      columns without numbers are summarised in the artifact's report instead of left out with a note.
    as_text       columns that are read as text, even if they look like numbers.
    columns       names of the columns of a table of texts without names, if it has as many.
    layer         for an AnnData file: the layer that holds the rows.
    labels        False: the caller needs no labels; they are left out, whatever their column contains.
    roles         the columns of a table with labels, splits and weights, and the choice of the other columns to read.
    prepare       (data set, names of its columns of text, name, its own recoding) -> the data set in numbers, and the recoding used for it.
    texts         `prepare` gets the columns of text; else they are not used.
    account       called with a line about the lines, rows and columns of a table and those not used, and with whether all were used.
    Raises NoInput (66), DataError (65), BadUsage (2).
    """
    options = LoadOptions.with_defaults(
        max_memory,
        note,
        label=label,
        keep=(*keep, *also),
        required=keep,
        missing=missing or fills,
        gaps=gaps,
        texts=texts and prepare is not None,
        summarised=account is not None,
        profiles=profiles,
        as_text=as_text,
        columns=columns,
        layer=layer,
        labels=labels,
        roles=roles,
    )
    artifact = _read_folder(path, options) if os.path.isdir(path) else None
    if artifact is None:
        artifact = _load_path(path, input_format, options)
    if kinds is not None:
        _require_kind(artifact, kinds)
    if isinstance(artifact.value, Dataset):
        if prepare is not None:
            artifact = _prepare_columns(artifact, prepare, options.keep)
        report = _table_report(options) if profiles else None
        validate(artifact.value, where=artifact.name, missing=missing, gaps=gaps, no_features=report is not None and bool(report.profiles))
        _require_columns(artifact.value, keep, artifact.name)
        truths = tuple(name for each in options.account for name in getattr(each, "truths", ()))
        artifact = replace(artifact, truth_columns=truths, report=report)
        if account is not None and options.account:
            told = [(each, True) if isinstance(each, str) else each.summary(artifact.value) for each in options.account]
            account(f"{artifact.name}: {', '.join(line for line, _ in told)}", all(complete for _, complete in told))
    return artifact


def _require_kind(artifact: Artifact, kinds: Collection[str]) -> None:
    """Raise DataError for an artifact of another kind, or for a shard that was not joined with the others."""
    if artifact.kind in kinds:
        return
    if artifact.kind.endswith(SHARD):
        what = f"is only {artifact.value.place.name} of a result of kind {artifact.kind.removesuffix(SHARD)}"
        raise DataError(what, where=artifact.name, hint="join the shards first: herd merge")
    raise DataError(f"is of kind {artifact.kind}, but must be of kind {' or '.join(sorted(kinds))}", where=artifact.name)


def _table_report(options: LoadOptions) -> TableReport | None:
    return next((each for each in options.account if not isinstance(each, str)), None)


def _load_path(path: str, input_format: str | None, options: LoadOptions) -> Artifact:
    with open_source(path, limit=options.limit) as source:
        try:
            return _read_source(source, input_format, options)
        except MemoryError as error:
            raise process_limits.out_of_memory_error(where=source.name) from error


def _prepare_columns(artifact: Artifact, prepare: PrepareColumns, keep: Collection[str]) -> Artifact:
    """Convert columns of text and missing values to numbers.

    A sealed data set has no such text, but may have the recoding of its numbers.
    """
    data: Dataset = artifact.value
    asked_for = set(keep)
    texts = (
        []
        if artifact.sealed
        else [name for name, values in (data.columns or {}).items() if values.dtype.kind == "U" and name not in asked_for]
    )
    value, recoding = prepare(data, texts, artifact.name, artifact.recoding)
    return replace(artifact, value=value, recoding=artifact.recoding.merge_with(recoding))


def _require_columns(data: Dataset, keep: Collection[str], where: str) -> None:
    for name in keep:
        if name not in (data.columns or {}) and name != "y":  # a sealed data set may have it as labels, and other data sets may lack it
            hint = "keep a column of an unsealed file: herd convert --keep-column NAME"
            raise BadUsage(f"has no extra column '{name}'", where=where, hint=hint)


def _read_source(source: ByteSource, input_format: str | None, options: LoadOptions) -> Artifact:
    if source.encoding is not None:
        options.note(f"{source.name}: read as {source.encoding}, since it is not UTF-8 (--encoding declares another)")
    form = format_detection.check_format_name(input_format) if input_format else format_detection.detect_format(source.head, source.name)
    if form == "npz" and (kept := _read_archive(source, input_format, options)) is not None:
        return kept
    if source.member is not None and form not in ("hdf5", "npz", "matlab"):
        hint = "leave out the part; it works in FILE.h5:/PATH, FILE.npz:ARRAY, FILE.mat:VARIABLE, FILE.xlsx:SHEET and FILE.zip:NAME"
        raise BadUsage(f"has the format {form}, in which no part can be named after a colon", where=source.name, hint=hint)
    if form == "hdf5":
        return _select_columns(_read_hdf5(source, options), options)
    if form == "parquet":
        found = _read_parquet(source, options)
        return _select_columns(found, options) if found.sealed else found
    if form == "idx":
        return _select_columns(_read_idx(source, options), options)
    value = _read_unsealed_format(source, form, options)
    found = Artifact("dataset", value, [], source.sha256, source.name, source.size, False)
    return found if form in TABLES else _select_columns(found, options)


def _select_columns(artifact: Artifact, options: LoadOptions) -> Artifact:
    """Return the artifact; for a data set that is not from a table, only with the columns that --columns and --drop leave."""
    if not isinstance(artifact.value, Dataset) or not options.roles.selects_columns:
        return artifact
    return replace(artifact, value=select_columns(artifact.value, options.roles, artifact.name))


def _read_archive(source: ByteSource, input_format: str | None, options: LoadOptions) -> Artifact | None:
    """Read the one file in a zip archive; return None for archives that are formats of their own: NumPy arrays and workbooks."""
    from herdcli.artifacts.formats import zip_archives

    with source.file_path() as path:
        if _is_workbook(path) or not zip_archives.has_no_numpy_arrays(path):
            return None
        with zip_archives.open_member(path, source.member, where=source.name, limit=options.limit) as inner:
            text = decode_text_source(inner, options.limit)
            found = _read_source(text, None if input_format == "npz" else input_format, options)
    return replace(found, sha256=source.sha256, size=source.size)


def _read_hdf5(source: ByteSource, options: LoadOptions) -> Artifact:
    name, stated = source.name, seal_header.parse_seal(source.head, where=source.name)
    with source.file_path() as path:
        if stated is None:
            format_detection.refuse_damaged_seal(source.head, name)
            with hdf5_guard.open_guarded(path, where=name, include_soft_links=True) as file:
                source.unlink_temporary_copy()
                group, options = _resolve_member(file, source.member, name, options)
                value: Any = _read_unsealed(group, name, options)
            return Artifact("dataset", value, [], source.sha256, name, source.size, False)
        seal_header.verify_seal(stated, source.size, source.sha256, where=name)
        if stated.kind == CHECKPOINT:
            hint = "resume it with --checkpoint FILE --resume and the command that wrote it"
            raise DataError("is a checkpoint, not a result", where=name, hint=hint)
        with hdf5_guard.open_guarded(path, where=name) as file:
            source.unlink_temporary_copy()
            value, history, recoding = sealed_hdf5.read_sealed(file, stated.kind, limit=options.limit, where=name)
    known = Recoding() if recoding is None else Recoding.from_json(str(recoding), where=name)
    return _without_unwanted_labels(Artifact(stated.kind, value, history, stated.sha256, name, source.size, True, known), options)


def _read_unsealed(group: h5py.Group, where: str, options: LoadOptions) -> Any:
    """Return the data set of an HDF5 file, or of a group of one, that herd did not write."""
    reader = _choose_hdf5_reader(group, options)
    try:
        return reader.read(group, where, options)
    except (
        TypeError,
        ValueError,
        IndexError,
        ArithmeticError,
    ) as error:  # arrays of any shape and type may have the names of rows and labels
        if library_errors.is_raised_by(error, ("h5py",)) or process_limits.is_memory_error(error):
            raise  # `open_guarded` words it
        hint = "it may be damaged; if you trust it, run again with --debug and report the traceback"
        message = f"its contents cannot be read ({type(error).__name__}: {library_errors.error_reason(error)})"
        raise DataError(message, where=where, hint=hint) from error


def _resolve_member(file: h5py.File, member: str | None, where: str, options: LoadOptions) -> tuple[Any, LoadOptions]:
    """Return the group at FILE:/PATH, with options that name the rows among its datasets; the whole file if no path is given.

    Raises BadUsage for an invalid path, with a list of the contents.
    """
    if member is None:
        return file, options
    from herdcli.artifacts.formats import hdf5_contents

    group, rows = hdf5_contents.resolve_member(file, member, where=where)
    return group, replace(options, rows=rows)


def _choose_hdf5_reader(file: h5py.File, options: LoadOptions) -> Any:
    """Return the module that reads an HDF5 file without herd's seal."""
    from herdcli.artifacts.formats import anndata, arviz, foreign_hdf5, tenx_genomics, unsealed_hdf5

    if options.rows is not None:
        return foreign_hdf5
    if tenx_genomics.is_tenx(file):
        return tenx_genomics
    if arviz.is_inference_data(file):
        return arviz
    if anndata.is_anndata(file):
        return anndata
    return foreign_hdf5 if foreign_hdf5.has_foreign_arrays(file) else unsealed_hdf5


def _without_unwanted_labels(artifact: Artifact, options: LoadOptions) -> Artifact:
    """Return a sealed artifact with unchanged labels, or without labels for --label none."""
    if options.label == NONE and isinstance(artifact.value, Dataset):
        return replace(artifact, value=replace(artifact.value, y=None, class_names=None))
    if options.label is not None:
        options.note(f"{artifact.name}: --label is ignored because a sealed file keeps its own labels")
    return artifact


def verify_hdf5(source: ByteSource, stated: seal_header.Seal, *, limit: int) -> str:
    """Return the kind of a sealed HDF5 file, after verifying its bytes against the seal and its contents against the kind.

    limit  largest number of bytes that the datasets of the file may have together.

    The state in a checkpoint is not verified, since only the command that resumes the run can read this state.  Raises DataError.
    """
    if stated.kind == CHECKPOINT:
        with source.file_path() as path:
            seal_header.verify_seal(stated, source.size, source.sha256, where=source.name)
            with hdf5_guard.open_guarded(path, where=source.name) as file:
                sealed_hdf5.read_root_attributes(file, CHECKPOINT, where=source.name)
                hdf5_guard.check_readable(hdf5_guard.walk_datasets(file, where=source.name), limit=limit, where=source.name)
        return CHECKPOINT
    found = _read_hdf5(source, LoadOptions(limit, missing=True))
    if isinstance(found.value, Dataset):
        validate(found.value, where=found.name, missing=True)
    return found.kind


def _read_parquet(source: ByteSource, options: LoadOptions) -> Artifact:
    from herdcli.artifacts.formats import parquet_files

    with source.file_path() as path:
        digest = parquet_files.verify_seal(path, where=source.name)
        kind, value, history, known = parquet_files.read_table(path, digest is not None, where=source.name, options=options)
        found = Artifact(kind, value, history, digest or source.sha256, source.name, source.size, digest is not None, known)
        return found if digest is None else _without_unwanted_labels(found, options)


BY_NAME = {  # format -> module, function: readers of files that can be opened by name
    "npz": ("npz", "read"),
    "npy": ("npz", "read_array"),
    "arrow": ("parquet_files", "read_arrow"),
    "matlab": ("matlab", "read"),
    "excel": ("spreadsheets", "read"),
}
TABLES = ("csv", "json", "arrow", "excel")  # formats whose reader selects columns
STREAMED = {"json": "text.jsonlines", "wav": "formats.audio"}  # format -> module with a reader of streams


def _read_folder(path: str, options: LoadOptions) -> Artifact | None:
    """Read the data set of a folder of images or of Parquet files; return None for other paths."""
    from herdcli.artifacts.formats import image_folder, parquet_folder

    if parts := parquet_folder.list_parquet_files(path):
        value, digest, size = parquet_folder.read_folder(path, parts, options)
        return Artifact("dataset", value, [], digest, path, size, False)
    paths = image_folder.list_image_files(path)
    if not paths:
        return None
    value, digest, size = image_folder.read_folder(path, paths, options)
    return Artifact("dataset", value, [], digest, path, size, False)


def _read_idx(source: ByteSource, options: LoadOptions) -> Artifact:
    from herdcli.artifacts.formats import idx

    with source.reader() as stream:
        value, beside = idx.read_dataset(stream, where=source.name, options=options)
    digest = source.sha256 if beside is None else idx.joint_digest(source.sha256, beside)
    return Artifact("dataset", value, [], digest, source.name, source.size, False)


def _is_workbook(path: str) -> bool:
    from herdcli.artifacts.formats.spreadsheets import is_workbook

    return is_workbook(path)


def _read_unsealed_format(source: ByteSource, form: str, options: LoadOptions) -> Dataset:
    """Read a data set in a format without seals."""
    if form in BY_NAME:
        with source.file_path() as path:
            module, function = BY_NAME["excel" if form == "npz" and _is_workbook(path) else form]
            found: Dataset = getattr(import_module(f"herdcli.artifacts.formats.{module}"), function)(
                path, where=source.name, options=replace(options, member=source.member)
            )
            return found
    if form in STREAMED:
        with source.reader() as opened:
            return import_module(f"herdcli.artifacts.{STREAMED[form]}").read(opened, where=source.name, options=options)  # type: ignore[no-any-return]
    with source.reader() as whole:
        marks = b":\n" if form == "svmlight" else b",;\t \n"
        stream: BinaryIO = io.BufferedReader(MemoryLimitedText(whole, marks, limit=options.limit, where=source.name), 1 << 18)
        if form == "svmlight":
            from herdcli.artifacts.text import svmlight

            return svmlight.read_dataset(stream, where=source.name, note=options.note, limit=options.limit)
        from herdcli.artifacts.text import delimited_text, stan

        if stan.is_stan(source.head):
            return stan.read(stream, source.head, where=source.name, options=options)
        return delimited_text.read(stream, source.head, where=source.name, options=options)


def output_format(path: str, format: str | None, kind: str) -> str:
    """Return the format that `save` would write.  Raises BadUsage for a format that is not possible for the kind."""
    if kind.endswith(SHARD) and (format or format_detection.output_format_from_suffix(path) or "hdf5") != "hdf5":
        raise BadUsage("a shard can only be written as HDF5", where=path, hint="write HDF5, and let herd merge write the other format")
    form = (
        format_detection.check_format_name(format, format_detection.WRITES)
        if format
        else format_detection.output_format_from_suffix(path) or "hdf5"
    )
    if form in ("netcdf", *format_detection.OF_MODELS):
        _check_export(path, form, kind)
    elif form not in ("hdf5", "parquet") and kind != "dataset":
        table = form == "csv" and KINDS[kind].summary is not None
        hint = f"write HDF5: -o FILE.h5{', and its table: herd convert FILE.h5 -o TABLE.csv' if table else ''}"
        raise BadUsage(f"an artifact of kind {kind} cannot be written as {form}; only a data set can", where=path, hint=hint)
    return form


def _check_export(path: str, form: str, kind: str) -> None:
    """Raise BadUsage unless the kind can be written in this form, and the library for it is installed."""
    if form not in KINDS[kind].exports:
        able = ", ".join(kinds_exporting(form))
        raise BadUsage(
            f"an artifact of kind {kind} cannot be written as {form}", where=path, hint=f"write HDF5: -o FILE.h5 ({form} works for {able})"
        )
    if form in format_detection.LIBRARIES and importlib.util.find_spec(form) is None:
        raise BadUsage(f"{form} files need the package {form}", where=path, hint=f"pip install 'herdcli[{form}]'")


def check_output(path: str, kind: str, *, format: str | None = None, clobber: bool = True) -> None:
    """Raise the errors that `save` would raise about its destination and format: for use before the work."""
    check_destination(path, clobber=clobber, binary=output_format(path, format, kind) not in TEXT)


def save(
    path: str,
    value: Any,
    history: list[HistoryRecord],
    *,
    format: str | None = None,
    clobber: bool = True,
    recoding: Recoding | None = None,
    missing: bool = False,
    leading: Sequence[str] = (),
) -> SavedArtifact:
    """Write a value as an artifact; "-" is stdout.

    format  hdf5 or parquet (sealed), csv, npz, npy or svmlight (exports of data sets); by default the suffix of
    `path` decides, else hdf5.  recoding: stored with the value in HDF5 and Parquet; CSV has the names of states instead.
    missing: a data set may have NaN.  leading: further columns that come first in a table; the others follow the features.
    Raises BadUsage (2), CannotCreate (73), WriteFailed (74).
    """
    kind = kind_for_value(value)
    form = output_format(path, format, kind.name)
    if isinstance(value, Dataset):
        validate(value, missing=missing)
    packed = format_detection.compression_from_suffix(path) if form == "csv" else None
    with atomic_file(path, clobber=clobber, binary=form not in TEXT) as temporary:
        _write_format(temporary, form, kind, value, history, recoding or Recoding(), leading)
        if packed:
            compress_file(temporary, packed)
        size = os.stat(temporary).st_size
    return SavedArtifact(kind.name, size)


def _write_format(
    path: os.PathLike[str], form: str, kind: Kind, value: Any, history: list[HistoryRecord], recoding: Recoding, leading: Sequence[str]
) -> None:
    more: dict[str, Any] = {"recoding": recoding.to_json()} if recoding else {}
    if form == "hdf5":
        sealed_hdf5.write_sealed(path, kind.name, kind.version, value, history, **more)
    elif form == "parquet":
        from herdcli.artifacts.formats import parquet_files

        parquet_files.write_table(path, kind, value, history, leading, **more)
    elif form == "csv":
        from herdcli.artifacts.text import delimited_text

        delimited_text.write(path, value, leading, recoding.levels if recoding.codes else {})
    elif form in kind.exports:
        import_by_path(kind.exports[form])(path, value)
    elif form == "wav":
        from herdcli.artifacts.formats import audio

        audio.write(path, value)
    elif form in ("npz", "npy"):
        from herdcli.artifacts.formats import npz

        (npz.write if form == "npz" else npz.write_array)(path, value)
    else:
        from herdcli.artifacts.text import svmlight

        svmlight.write(path, value)
