"""Safety checks of an HDF5 file before it is read: only plain data in hard-linked groups are allowed.

HDF5 can refer to other files, to sources that read as zeros when missing, and to plug-ins, and it can
declare more data than fit into memory.  Before a dataset is read, all links of the file are visited, without following
those that lead elsewhere.  The datasets to be read are then checked again.
"""

from __future__ import annotations

import math
import posixpath
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from herdcli.artifacts import library_errors, memory_budget
from herdcli.artifacts.h5py_import import h5py
from herdcli.errors import DataError

FILTERS = {
    h5py.h5z.FILTER_DEFLATE,
    h5py.h5z.FILTER_SHUFFLE,
    h5py.h5z.FILTER_FLETCHER32,
    h5py.h5z.FILTER_LZF,
    h5py.h5z.FILTER_SCALEOFFSET,
    h5py.h5z.FILTER_NBIT,
}
LEAST = {  # the least bytes of a chunk for filters whose decoder reads that many without a length check
    h5py.h5z.FILTER_FLETCHER32: 4,  # its checksum
    h5py.h5z.FILTER_SCALEOFFSET: 21,  # its header
}
CONVERT = "copy the data into a plain file, for instance with h5repack or h5py"
UNWRITTEN = "make the file again: the program that wrote it did not finish"
MAX_OBJECTS = 1_000_000
LONGEST_REASON = 1000  # characters of HDF5's reason, which names the step that failed at its end


@contextmanager
def open_guarded(path: str, *, where: str, include_soft_links: bool = False) -> Iterator[h5py.File]:
    """Open the file for reading and visit all its links; errors of h5py while it is open become one DataError.

    include_soft_links  links to another name in the same file are followed, as they occur in files of users.
    """

    def describe(error: Exception) -> DataError:
        if isinstance(error, BlockingIOError):
            return DataError("another program is writing this file", where=where, hint="wait until it is closed")
        reason = library_errors.error_reason(error, LONGEST_REASON)
        return DataError(f"HDF5 cannot read the file ({reason})", where=where, hint="it may be cut short or damaged: download it again")

    with (
        library_errors.convert_library_errors(("h5py",), describe),
        h5py.File(path, "r", locking="best-effort") as file,
    ):
        walk_datasets(file, where=where, include_soft_links=include_soft_links)
        yield file


def walk_datasets(file: h5py.File, *, where: str, include_soft_links: bool = False) -> dict[str, h5py.Dataset]:
    """Return every dataset of the file, or of a group, by its name there, reached over hard links, each object once.

    include_soft_links  include names reached over soft links, whose targets hard links reach as well.
    """
    datasets: dict[str, h5py.Dataset] = {}
    links: dict[str, str] = {}
    groups = {""}
    seen = {_object_address(file.id)}
    waiting = [("", file.id)]
    while waiting:
        prefix, group = waiting.pop()
        for raw in group:
            name = f"{prefix}/{raw.decode('utf-8', 'replace')}"
            if include_soft_links and group.links.get_info(raw).type == h5py.h5l.TYPE_SOFT:
                links[name] = posixpath.normpath(posixpath.join(prefix or "/", group.links.get_val(raw).decode("utf-8", "replace")))
                continue
            _check_link(group, raw, name, where)
            item = h5py.h5o.open(group, raw)
            identity = _object_address(item)
            if identity in seen:
                raise DataError(
                    f"{name} is a hard link to another object of the file; herd does not read linked data", where=where, hint=CONVERT
                )
            seen.add(identity)
            if len(seen) > MAX_OBJECTS:
                raise DataError(
                    f"has more than {MAX_OBJECTS} HDF5 objects, which is too many", where=where, hint="write the data as fewer datasets"
                )
            if isinstance(item, h5py.h5g.GroupID):
                groups.add(name)
                waiting.append((name, item))
            elif isinstance(item, h5py.h5d.DatasetID):
                _refuse_external_storage(item, name, where)
                datasets[name] = h5py.Dataset(item)
    return datasets | _resolve_soft_links(links, datasets, groups, where)


def text_attribute(holder: h5py.Group | h5py.Dataset, *names: str) -> str:
    """Return the first of these attributes of a file, group or dataset that is a single text; an empty text if there is none."""
    for name in names:
        value = holder.attrs.get(name)
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if isinstance(value, str):
            return value
    return ""


def integer_attribute(holder: h5py.Group | h5py.Dataset, name: str) -> int | None:
    """Return an attribute that is a single whole number; None if there is none."""
    value = holder.attrs.get(name)
    return int(value) if isinstance(value, (int, np.integer)) and not isinstance(value, bool) else None


def shape_attribute(holder: h5py.Group | h5py.Dataset, *names: str) -> tuple[int, int] | None:
    """Return the first of these attributes that is two whole numbers from 0; None if there is none."""
    for name in names:
        value = holder.attrs.get(name)
        if (
            isinstance(value, np.ndarray)
            and value.shape == (2,)
            and value.dtype.kind in "iuf"
            and bool(((value >= 0) & (value % 1 == 0)).all())
        ):
            return int(value[0]), int(value[1])
    return None


def _resolve_soft_links(links: dict[str, str], datasets: dict[str, h5py.Dataset], groups: set[str], where: str) -> dict[str, h5py.Dataset]:
    """Return the datasets that soft links reach, by the names of the links.  Raises DataError for broken links."""
    found: dict[str, h5py.Dataset] = {}
    for name, target in links.items():
        for _ in links:  # a link may lead to a link
            target = links.get(target, target)
        if target in datasets:
            found[name] = datasets[target]
        elif target in groups:
            found |= {f"{name}{path[len(target) :]}": item for path, item in datasets.items() if path.startswith(f"{target}/")}
        else:
            raise DataError(f"{name} is a soft link to {target}, which does not exist", where=where, hint=CONVERT)
        if len(found) > MAX_OBJECTS:
            raise DataError(
                f"has more than {MAX_OBJECTS} HDF5 objects, which is too many", where=where, hint="write the data as fewer datasets"
            )
    return found


def _object_address(item: h5py.Dataset) -> tuple[int, int]:
    info = h5py.h5o.get_info(item)
    return info.fileno, info.addr


def _check_link(group: h5py.Group, raw: bytes, name: str, where: str) -> None:
    kind = group.links.get_info(raw).type
    if kind != h5py.h5l.TYPE_HARD:
        word = {h5py.h5l.TYPE_SOFT: "a soft link", h5py.h5l.TYPE_EXTERNAL: "a link to another file"}.get(kind, "a link of an unknown type")
        raise DataError(f"{name} is {word}; herd does not read linked data", where=where, hint=CONVERT)


def _refuse_external_storage(dataset: h5py.Dataset, name: str, where: str) -> None:
    properties = dataset.get_create_plist()
    if properties.get_external_count():
        raise DataError(f"{name} keeps its data in another file, which herd does not open", where=where, hint=CONVERT)
    if properties.get_layout() == h5py.h5d.VIRTUAL:
        raise DataError(f"{name} is a virtual dataset, a view of other files; herd does not read linked data", where=where, hint=CONVERT)


def check_readable(datasets: dict[str, h5py.Dataset], *, limit: int, where: str) -> None:
    """Raise DataError unless these datasets have plain types, known filters and data, and together fit into `limit` bytes."""
    total = 0
    for name, dataset in datasets.items():
        _check_type(dataset, name, where)
        _check_filters(dataset, name, where)
        total += _declared_bytes(dataset)
        if total > limit:
            memory_budget.require_memory(total, limit, where=f"{where}: {name}")
        _check_fully_written(dataset, name, where)
        _check_texts(dataset, limit, f"{where}: {name}")


def _check_type(dataset: h5py.Dataset, name: str, where: str) -> None:
    dtype = dataset.dtype
    text = h5py.check_string_dtype(dtype)
    if not (text or (dtype.kind in "fiub" and (dtype.itemsize <= 8 or dtype.kind == "f"))):
        named = {"c": "complex numbers", "V": "compound values", "O": "references or ragged arrays"}.get(dtype.kind, f"type {dtype}")
        raise DataError(
            f"{name} holds {named}; herd reads numbers, booleans and strings", where=where, hint="write the data as one of these types"
        )


def _check_filters(dataset: h5py.Dataset, name: str, where: str) -> None:
    properties, least = dataset.id.get_create_plist(), 0
    for index in range(properties.get_nfilters()):
        code, _, _, label = properties.get_filter(index)
        if code not in FILTERS:
            shown = label.decode("utf-8", "replace") or str(code)
            raise DataError(
                f"{name} is compressed with the filter {shown}, which herd does not load",
                where=where,
                hint="compress it with gzip instead: h5repack -f GZIP=4 FILE NEW",
            )
        least = max(least, LEAST.get(code, 0))
    if least:
        _check_chunks(dataset, least, name, where)


def _check_chunks(dataset: h5py.Dataset, least_bytes: int, name: str, where: str) -> None:
    """Raise DataError for chunks shorter than their decoder assumes: libhdf5 would read and write beyond their ends."""

    def short(chunk: h5py.h5d.StoreInfo) -> int | None:
        return int(chunk.size) if chunk.size < least_bytes else None

    found = dataset.id.chunk_iter(short)
    if found is not None:
        raise DataError(
            f"{name} has a chunk of {found} bytes, but its filters need at least {least_bytes} bytes",
            where=where,
            hint="download or make the file again",
        )


def _declared_bytes(dataset: h5py.Dataset) -> int:
    """Return the bytes needed for reading: all elements, or one chunk if that is larger; a text counts at least 64 bytes."""
    item: int = max(dataset.dtype.itemsize, 64) if dataset.dtype.kind in "OS" else dataset.dtype.itemsize
    return item * max(math.prod(dataset.shape or ()), math.prod(dataset.chunks or ()))


def _check_fully_written(dataset: h5py.Dataset, name: str, where: str) -> None:
    if dataset.shape is None:
        raise DataError(f"{name} is empty (a null dataspace)", where=where, hint="write the data again")
    if not dataset.size:
        return
    if dataset.chunks:
        expected = math.prod(-(-length // chunk) for length, chunk in zip(dataset.shape, dataset.chunks, strict=True))
        missing = expected - dataset.id.get_num_chunks()
        if missing:
            raise DataError(
                f"{name} is incomplete: the file declares it, but not all of it was written ({missing} of {expected} chunks are missing)",
                where=where,
                hint=UNWRITTEN,
            )
    elif dataset.id.get_space_status() == h5py.h5d.SPACE_STATUS_NOT_ALLOCATED:
        raise DataError(f"{name} has no data: the file declares it, but it was never written", where=where, hint=UNWRITTEN)


def _check_texts(dataset: h5py.Dataset, limit: int, where: str) -> None:
    """Raise DataError for strings that expand to more than `limit`: many entries may refer to one long text.

    No text is longer than its file, so blocks of limit / file size entries can be read safely.
    """
    if dataset.dtype.kind != "O" or not dataset.size:
        return
    longest = dataset.file.id.get_filesize()
    if dataset.size * longest <= limit:
        return
    step, total = max(1, limit // longest), 0
    if dataset.ndim != 1:
        raise DataError("holds text in more than one dimension", where=where, hint="write one string for each row")
    for start in range(0, len(dataset), step):
        total += sum(len(text) for text in dataset[start : start + step].ravel())
        memory_budget.require_memory(total, limit, where=where)
