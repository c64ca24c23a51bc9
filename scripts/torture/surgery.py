"""Changes of the structure of an open HDF5 file: links, storage, types, shapes, filters, attributes.

Each change is a function of (file, place, random numbers) and says what it did; it raises where a place has nothing to change in that way.
Paths that a change writes into a file lead into the folder `victims`, beside the file, which nobody may open.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np

VICTIMS = "victims"
SECRET, RAW = f"{VICTIMS}/secret.h5", f"{VICTIMS}/raw.bin"
UNKNOWN_FILTERS = (305, 307, 32001, 32004, 32013, 32015, 65535)  # LZO, bzip2, Blosc, LZ4, ZFP, Zstandard, none
LIMIT = 2**62
MOST = 1 << 24  # entries that are held in memory, of what an earlier change has made

Change = Callable[[Any, str, np.random.Generator], str]


def _array(file: Any, place: str) -> Any:
    """The values of a dataset, in memory; it is removed from the file."""
    item = file[place]
    if not isinstance(item, h5py.Dataset):
        raise TypeError("no dataset")
    if item.shape is not None and item.size > MOST:
        raise ValueError("too large")
    values = item.asstr()[()] if h5py.check_string_dtype(item.dtype) else item[()]
    del file[place]
    return np.asarray(values)


def _numbers(file: Any, place: str) -> Any:
    values = _array(file, place)
    if values.dtype.kind not in "fiub":
        raise TypeError("no numbers")
    return values


def _another(file: Any, place: str, random: np.random.Generator) -> str:
    """The name of another dataset or group."""
    names: list[str] = []
    file.visit(names.append)
    names = [name for name in names if name != place and not place.startswith(f"{name}/")]
    return names[int(random.integers(len(names)))]


def soft_link(file: Any, place: str, random: np.random.Generator) -> str:
    """A soft link in its place: to itself elsewhere, to another object, to nothing, round about."""
    file.move(place, "elsewhere")
    targets = ("/elsewhere", "/nowhere", f"/{place}", "/", "elsewhere/../elsewhere", "\udcff", "x" * 5000)
    target = targets[int(random.integers(len(targets)))]
    file[place] = h5py.SoftLink(target)
    return f"a soft link to {target[:20]!r}"


def external_link(file: Any, place: str, random: np.random.Generator) -> str:
    """A link to an object of another file: a secret, a device, the file itself."""
    del file[place]
    names = (SECRET, "/dev/zero", "/proc/self/mem", file.filename, f"{VICTIMS}/none.h5", "")
    name = names[int(random.integers(len(names)))]
    file[place] = h5py.ExternalLink(name, f"/{place}" if random.random() < 0.5 else "/X")
    return f"a link to the file {name}"


def hard_link(file: Any, place: str, random: np.random.Generator) -> str:
    """A second hard link to another object, or a group that holds itself."""
    target = ("/", _another(file, place, random))[int(random.integers(2))]
    item = file[target]
    del file[place]
    file[place] = item
    return f"a hard link to {target}"


def external_data(file: Any, place: str, random: np.random.Generator) -> str:
    """Data in another file."""
    values = _numbers(file, place)
    name = (RAW, "/dev/zero", "/etc/hostname", f"{VICTIMS}/none")[int(random.integers(4))]
    file.create_dataset(place, values.shape or (1,), values.dtype, external=[(name, 0, h5py.h5f.UNLIMITED)])
    return f"data in {name}"


def virtual(file: Any, place: str, random: np.random.Generator) -> str:
    """A virtual dataset, of another file or of this one."""
    values = _numbers(file, place)
    file["elsewhere"] = values
    shape = values.shape or (1,)
    source = (SECRET, ".", f"{VICTIMS}/none.h5")[int(random.integers(3))]
    layout = h5py.VirtualLayout(shape, values.dtype)
    if values.ndim:
        layout[...] = h5py.VirtualSource(source, "elsewhere", shape)
    file.create_virtual_dataset(place, layout)
    return f"a virtual dataset of {source}"


def references(file: Any, place: str, random: np.random.Generator) -> str:
    """References to objects or regions."""
    values = _array(file, place)
    file["elsewhere"] = np.zeros(3)
    if random.random() < 0.5:
        made = np.full(values.shape or (1,), file["elsewhere"].ref, dtype=h5py.ref_dtype)
        file.create_dataset(place, data=made, dtype=h5py.ref_dtype)
        return "object references"
    item = file.create_dataset(place, values.shape or (1,), dtype=h5py.regionref_dtype)
    item[(0,) * item.ndim] = file["elsewhere"].regionref[0:2]
    return "region references"


TYPES: tuple[Any, ...] = (
    "<f2", ">f8", ">f4", ">i2", ">i8", "<g", "<c8", "<c16", "<u8", "<i1", "S1", "S0", "S300", "V8", [("a", "<f8"), ("b", "<i4")],
    [("r", "<f8"), ("i", "<f8")], ("<f8", (3,)), h5py.vlen_dtype("<i4"), h5py.vlen_dtype(h5py.string_dtype()), h5py.string_dtype("ascii"),
    h5py.string_dtype("utf-8", 3), h5py.enum_dtype({"no": 0, "yes": 1}), h5py.enum_dtype({"FALSE": 0, "TRUE": 1}, "i1"),
    h5py.opaque_dtype(np.dtype("M8[s]")), h5py.opaque_dtype(np.dtype("m8[ns]")),
)  # fmt: skip


def other_type(file: Any, place: str, random: np.random.Generator) -> str:
    """The same shape of another type."""
    values = _array(file, place)
    dtype = TYPES[int(random.integers(len(TYPES)))]
    item = file.create_dataset(place, values.shape, dtype=dtype)
    if values.dtype.kind in "fiub":
        with np.errstate(all="ignore"):
            try:
                item[...] = values if item.dtype.kind in "fiub" else values.astype(item.dtype)
            except (TypeError, ValueError, OSError):
                item[...] = np.zeros(values.shape, item.dtype)
    elif item.dtype.kind in "OS" and h5py.check_string_dtype(item.dtype):
        item[...] = np.array([b"\xff\xfe"] * values.size, dtype=object).reshape(values.shape)
    return f"of type {item.dtype}"


def built_type(file: Any, place: str, random: np.random.Generator) -> str:
    """A number type that no program has: 17 bits of 24, a bias of its own, 16 bytes of integers, bit fields, times."""
    values = _numbers(file, place)
    choice = int(random.integers(6))
    if choice < 2:
        dtype = h5py.h5t.IEEE_F64LE.copy()
        if choice:
            dtype.set_ebias(3)
        else:
            dtype.set_fields(31, 25, 6, 0, 20)
    elif choice == 2:
        dtype = h5py.h5t.STD_I32LE.copy()
        dtype.set_precision(17)
        dtype.set_offset(3)
    elif choice == 3:
        dtype = h5py.h5t.STD_U64LE.copy()
        dtype.set_size(16)
        dtype.set_precision(128)
    elif choice == 4:
        dtype = h5py.h5t.STD_B64LE.copy()
    else:
        dtype = h5py.h5t.UNIX_D64LE.copy()
    parent, _, name = place.rpartition("/")
    space = h5py.h5s.create_simple(values.shape) if values.ndim else h5py.h5s.create(h5py.h5s.SCALAR)
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    h5py.h5d.create(file[parent or "/"].id, name.encode(), dtype, space, dcpl=plist)
    return f"of a built type ({choice})"


def null(file: Any, place: str, random: np.random.Generator) -> str:
    """A null dataspace."""
    values = _array(file, place)
    file[place] = h5py.Empty(values.dtype if values.dtype.kind in "fiub" else h5py.string_dtype())
    return "null"


SHAPES: tuple[tuple[int, ...], ...] = (
    (LIMIT,), (2**40, 2**20), (2**31,), (2**32 + 1,), (2**63 - 1,), (0, 2**60), (2**60, 0), (0,), (1,) * 32, (2,) * 32, (2**21,) * 3,
    (3, 0, 5),
)  # fmt: skip


def enormous(file: Any, place: str, random: np.random.Generator) -> str:
    """A shape that no memory holds, or one without entries, in chunks, as a whole or sparse."""
    dtype = _numbers(file, place).dtype
    shape = SHAPES[int(random.integers(len(SHAPES)))]
    chunked = random.random() < 0.6
    chunks = tuple(min(max(1, length), 1 if len(shape) > 3 else 64) for length in shape) if chunked else None
    item = file.create_dataset(place, shape, dtype, chunks=chunks)
    if chunked and random.random() < 0.5 and all(shape):
        item[(0,) * len(shape)] = 1
    return f"of shape {shape}{' in chunks' if chunked else ''}"


def unfolding(file: Any, place: str, random: np.random.Generator) -> str:
    """Millions of equal entries in a few bytes, or one chunk larger than its data."""
    values = _numbers(file, place)
    if random.random() < 0.5:
        shape = (1 << 20, *values.shape[1:])
        if np.prod(shape) > 1 << 22:
            raise ValueError("too many")
        chunks = (1 << 20, *(max(1, n) for n in values.shape[1:]))
        file.create_dataset(place, shape, values.dtype, chunks=chunks, compression=1)[...] = 0
        return f"of shape {shape}, compressed"
    shape = values.shape or (1,)
    file.create_dataset(place, shape, values.dtype, maxshape=(None,) * len(shape), chunks=(1 << (26 // len(shape)),) * len(shape))
    return "in a chunk of 2^26 entries"


def unknown_filter(file: Any, place: str, random: np.random.Generator) -> str:
    """A filter that HDF5 would look for among its plug-ins."""
    values = _numbers(file, place)
    code = UNKNOWN_FILTERS[int(random.integers(len(UNKNOWN_FILTERS)))]
    values = values.reshape(values.shape or (1,))
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk(tuple(max(1, n) for n in values.shape))
    plist.set_filter(code, h5py.h5z.FLAG_OPTIONAL, (1, 2, 3))
    parent, _, name = place.rpartition("/")
    made = h5py.h5d.create(
        file[parent or "/"].id, name.encode(), h5py.h5t.py_create(values.dtype), h5py.h5s.create_simple(values.shape), plist
    )
    made.write_direct_chunk((0,) * values.ndim, values.tobytes())
    return f"with filter {code}"


@functools.cache
def _bomb() -> bytes:
    """Compressed bytes that unfold to 10 MB."""
    return zlib.compress(b"\0" * 10_000_000)


def bad_chunk(file: Any, place: str, random: np.random.Generator) -> str:
    """A chunk whose compressed bytes are no such bytes, are too few, or unfold to more than the chunk."""
    values = _numbers(file, place)
    values = values.reshape(values.shape or (1,))
    if not values.size:
        raise ValueError("empty")
    how = ("gzip", "lzf", "szip", "fletcher", "scale")[int(random.integers(5))]
    options: dict[str, Any] = {
        "gzip": {"compression": "gzip", "shuffle": True},
        "lzf": {"compression": "lzf"},
        "szip": {"compression": "szip"},
        "fletcher": {"fletcher32": True},
        "scale": {"scaleoffset": 3},
    }[how]
    item = file.create_dataset(place, values.shape, values.dtype, chunks=values.shape, **options)
    contents = (
        b"",
        b"x",
        bytes(random.bytes(200)),
        _bomb(),
        zlib.compress(values.tobytes())[:-3],
        b"\xff" * 5000,
    )
    content = contents[int(random.integers(len(contents)))]
    item.id.write_direct_chunk((0,) * values.ndim, content)
    return f"{how}: a chunk of {len(content)} other bytes"


def layout(file: Any, place: str, random: np.random.Generator) -> str:
    """The same values stored in another way: in chunks, compact, compressed, of unlimited shape, in part."""
    values = _array(file, place)
    texts = values.dtype.kind not in "fiub"
    values = values.reshape(values.shape or (1,))
    if not values.size or texts:
        raise ValueError("nothing to store")
    choice, shape = int(random.integers(5)), values.shape
    if choice == 0:
        file.create_dataset(place, data=values, maxshape=(None,) * values.ndim, chunks=True)
    elif choice == 1:
        file.create_dataset(place, data=values, compression="gzip", shuffle=True, fletcher32=True)
    elif choice == 2:
        file.create_dataset(place, shape, values.dtype, chunks=(1, *shape[1:]), fillvalue=1)[: len(values) // 2] = values[
            : len(values) // 2
        ]
    elif choice == 3:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        parent, _, name = place.rpartition("/")
        made = h5py.h5d.create(
            file[parent or "/"].id, name.encode(), h5py.h5t.py_create(values.dtype), h5py.h5s.create_simple(shape), plist
        )
        h5py.Dataset(made)[...] = values
    else:
        file.create_dataset(place, shape, values.dtype, fillvalue=7)
    return f"stored otherwise ({choice})"


def exchanged(file: Any, place: str, random: np.random.Generator) -> str:
    """Two objects in each other's place."""
    other = _another(file, place, random)
    if other.startswith(f"{place}/"):
        raise ValueError("within")
    file.move(place, "elsewhere")
    file.move(other, place)
    file.move("elsewhere", other)
    return f"exchanged with {other}"


def named_type(file: Any, place: str, random: np.random.Generator) -> str:
    """A committed type in its place, or as its type."""
    values = _array(file, place)
    if random.random() < 0.5 or values.dtype.kind not in "fiub":
        file[place] = np.dtype("f8")
        return "a committed type"
    file["elsewhere"] = values.dtype
    file.create_dataset(place, data=values, dtype=file["elsewhere"])
    return "of a committed type"


NAMES = ("\x1b[31m", "\u202ex", "x" * 4000, "a b", "..", "é", "%2F", "%", "-o", "$(touch x)", "X\n/Y", "y", "0", "length", "format")


def crowd(file: Any, place: str, random: np.random.Generator) -> str:
    """Further members of a group: odd names, thousands, hundreds of groups in each other, unlinked names."""
    item = file[place] if isinstance(file[place], h5py.Group) else file[place].parent
    choice = int(random.integers(4))
    if choice == 0:
        name = NAMES[int(random.integers(len(NAMES)))]
        item[name] = np.zeros(3)
        return f"beside it {name[:20]!r}"
    if choice == 1:
        for number in range(3000):
            item.create_group(f"more{number}")
        return "beside it 3,000 groups"
    if choice == 2:
        for _ in range(400):
            item = item.create_group("g")
        return "beside it 400 groups in each other"
    h5py.h5g.create(item.id, b"\xff\xfe\x80")
    return "beside it a name that is no Unicode"


ATTRIBUTES: tuple[Any, ...] = (
    0, -1, 1, 7, 2**31, -(2**63), 2**63 - 1, np.uint64(2**64 - 1), np.nan, np.inf, -np.inf, 1e300, "", "x", "1", "nan",
    "\x1b[31mred", "a\nb", "é" * 3000,
    "csr", "csc", "$(touch x)", "../../x", True, False, np.zeros(3), np.zeros((2, 0)), np.array(["a", "b"], dtype=h5py.string_dtype()),
    h5py.Empty("f8"), h5py.Empty(h5py.string_dtype()), np.complex128(1j), np.array([(1, 2)], dtype=[("a", "i4"), ("b", "f8")]),
    b"\xff\xfe",
    np.bytes_(b"herd"), np.float16(1), np.longdouble(1), np.zeros(100_000), np.array([[1, 2], [3, 4]]),
)  # fmt: skip


def attribute(file: Any, place: str, random: np.random.Generator) -> str:
    """An attribute of another type, shape or value, or one that is missing."""
    group, _, name = place.rpartition("@")
    parent = file[group or "/"]
    number = int(random.integers(len(ATTRIBUTES) + 2))
    if number == len(ATTRIBUTES):
        del parent.attrs[name]
        return "missing"
    if number > len(ATTRIBUTES):
        del parent.attrs[name]
        file["elsewhere"] = np.zeros(3)
        parent.attrs.create(name, file["elsewhere"].ref, dtype=h5py.ref_dtype)
        return "a reference"
    del parent.attrs[name]
    parent.attrs[name] = ATTRIBUTES[number]
    return f"={str(ATTRIBUTES[number])[:30]!r}"


def attributes(file: Any, place: str, random: np.random.Generator) -> str:
    """Further attributes: of odd names, many, and those that mean something elsewhere."""
    item = file[place]
    names = (
        *NAMES,
        "shape",
        "image_shape",
        "sample_rate",
        "CLASS",
        "DIMENSION_LIST",
        "REFERENCE_LIST",
        "encoding-type",
        "recoding",
        "provenance",
    )
    name = names[int(random.integers(len(names)))]
    if random.random() < 0.1:
        for number in range(300):
            item.attrs[f"more{number}"] = number
        return "with 300 attributes"
    value = ATTRIBUTES[int(random.integers(len(ATTRIBUTES)))]
    item.attrs[name] = value
    return f"with {name[:20]!r}={str(value)[:20]!r}"


def array_as_group(file: Any, place: str, random: np.random.Generator) -> str:
    """A CSR matrix, a list or a dictionary in the place of an array, whole or not."""
    values = _array(file, place)
    group, choice = file.create_group(place), int(random.integers(3))
    if choice == 0 and values.dtype.kind in "fiub":
        values = np.atleast_2d(values)
        rows, columns = values.shape[0], int(np.prod(values.shape[1:]))
        group.attrs["format"], group.attrs["shape"] = "csr", np.array([rows, columns][: int(random.integers(1, 3))])
        ends = np.arange(rows + 1) * columns
        ends[-1] += int(random.integers(-1, 2))
        group["data"], group["indices"], group["indptr"] = values.ravel(), np.tile(np.arange(columns), rows), ends
        return "as a CSR matrix"
    group.attrs["length"] = (len(np.atleast_1d(values)), -1, 2**62, "2", 1.5)[int(random.integers(5))]
    for number, value in enumerate(np.atleast_1d(values)[:50]):
        group[str(number)] = value
    return "as a list"


OF_DATASETS: tuple[Change, ...] = (
    soft_link, external_link, hard_link, external_data, virtual, references, other_type, built_type, null, enormous, unfolding,
    unknown_filter,
    bad_chunk, layout, exchanged, named_type, crowd, attributes, array_as_group, other_type, enormous, bad_chunk, exchanged,
)  # fmt: skip
OF_GROUPS: tuple[Change, ...] = (soft_link, external_link, hard_link, exchanged, crowd, attributes)


def changes(file: Any, place: str) -> tuple[Change, ...]:
    """The changes that a place can have; places of attributes have the form GROUP@NAME."""
    if "@" in place:
        return (attribute,)
    return OF_DATASETS if isinstance(file[place], h5py.Dataset) else OF_GROUPS
