"""(h) Files of formats that other programs write, with one or two fields changed: lengths, shapes, offsets, names, types, nesting.

A file is built from its fields, so that the rest of it is sound and its checksums are right: what a reader believes is what was changed.
Trial i builds format i mod F; a tenth of the files have a damaged byte as well.  ONNX is only written by herd:
`convert` refuses it.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from .forked_trials import Outcome
from .parsers import MOMENTS
from .structures import Watched

Random = np.random.Generator
DAMAGED = 0.1  # of the files
WHOLE: tuple[int, ...] = (0, 1, -1, 2, 3, 7, 40, 255, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**62, 2**63 - 1, -(2**63), 10**30)
NAMES = (
    "X", "y", "W", "b", "c", "", ".", "..", "../victims/text.txt", "/etc/hostname", "victims/secret.h5", "a/../../b", "a\0b", "a\nb",
    "\x1b[31mred", "\u202ename", "é" * 300, "x" * 5000, "layers.0.W", "layers.999.W", "layers.0.0.W", "__metadata__", "-o", "=1+1", "%s",
    "data", "indices", "indptr", "shape", "format", "units", "image_shape", "value_range", "class_names", "split", "weight", "\ud800",
    "C:\\x", "con", "$(touch victims/text.txt)",
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 7, 2**31, 2**63, 10**400, 0.5, 1e308, float("nan"), float("inf"), "", "x", "a\nb", "\x1b[31m", "\u202e",
    "\ud800", "victims/text.txt", [], [[]], [0], [1, 2, 3], [-1], {}, {"a": 1}, [None], ["a", 1], [1e308, -1e308],
)  # fmt: skip


def pick(random: Random, pool: Any) -> Any:
    """One of a pool."""
    return pool[int(random.integers(len(pool)))]


def deep(value: Any, levels: int = 300) -> Any:
    """A value within many lists."""
    for _ in range(levels):
        value = [value]
    return value


def changed_tree(value: Any, random: Random) -> Any:
    """A JSON value with one of its parts replaced, removed, doubled, renamed or nested deeply."""
    if isinstance(value, dict) and value and random.random() < 0.85:
        name = pick(random, list(value))
        choice = random.random()
        rest = {key: item for key, item in value.items() if key != name}
        if choice < 0.1:
            return rest
        if choice < 0.25:
            return rest | {pick(random, NAMES): value[name]}
        return value | {name: changed_tree(value[name], random)}
    if isinstance(value, list) and value and random.random() < 0.7:
        at, made = int(random.integers(len(value))), list(value)
        choice = random.random()
        if choice < 0.15:
            del made[at]
        elif choice < 0.3:
            made.insert(at, value[at])
        else:
            made[at] = changed_tree(value[at], random)
        return made
    choice = random.random()
    return (
        pick(random, WHOLE)
        if choice < 0.3
        else deep(value)
        if choice < 0.36
        else pick(random, NAMES)
        if choice < 0.5
        else pick(random, ODD)
    )


def json_text(value: Any) -> bytes:
    """JSON as bytes; lone surrogates stay escaped."""
    return json.dumps(value).encode()


def safetensors(random: Random) -> bytes:
    """A restricted Boltzmann machine, or the layers of a deep belief network, with another header."""
    arrays = {"W": (6, 3), "b": (6,), "c": (3,)}
    if random.random() < 0.3:
        arrays = {f"layers.{k}.{name}": shape for k in (0, 1) for name, shape in {"W": (3, 3), "b": (3,), "c": (3,)}.items()}
    header, at = {}, 0
    for name, shape in arrays.items():
        size = 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    tree: Any = header | {"__metadata__": {"format": "pt", "visible_units": "bernoulli", "hidden_units": "bernoulli"}}
    if random.random() < 0.2:
        pick(random, list(header.values()))["dtype"] = pick(
            random, ("F16", "BF16", "F64", "I64", "U8", "BOOL", "F8_E4M3", "I4", "C64", "x", "")
        )
    for _ in range(int(random.integers(1, 3))):
        tree = changed_tree(tree, random)
    text = json_text(tree)
    if random.random() < 0.1:
        text = pick(
            random,
            (
                b"{" * 3000,
                b'{"a":' * 2000,
                text.replace(b'"W"', b'"b"'),
                text.decode("unicode_escape", "replace").encode("utf-8", "replace"),
            ),
        )
    length = len(text) if random.random() < 0.85 else int(pick(random, WHOLE)) % 2**64
    return (
        struct.pack("<Q", length) + text + random.normal(size=at // 4).astype("<f4").tobytes()[: at if random.random() < 0.9 else at // 2]
    )


HEADERS = (
    "{'descr': '<f8', 'fortran_order': False, 'shape': SHAPE, }",
    "{'descr': 'DTYPE', 'fortran_order': True, 'shape': (40, 6), }",
    "{'descr': '<f8', 'fortran_order': 7, 'shape': (40, 6), }",
    "{'descr': [('a', '<f8'), ('b', '<i4')], 'fortran_order': False, 'shape': (20,), }",
    "{'descr': [('NAME', '<f8'), ('NAME', '<f8')], 'fortran_order': False, 'shape': (20,), }",
    "{'descr': '<f8', 'shape': (40, 6), }",
    "{'descr': __import__('os').system('touch victims/text.txt'), 'fortran_order': False, 'shape': (40, 6), }",
    "{'descr': '<f8', 'fortran_order': False, 'shape': (40, 6), 'NAME': 1}",
    "(" * 300 + ")" * 300,
    "[" * 60 + "1" + "]" * 60,
    "",
    "\x00" * 64,
)
SHAPES = (
    "()", "(0,)", "(40,)", "(6, 40)", "(40, 6, 1)", "(1,) * 9", "(-1, 6)", "(-40, -6)", "(0, 2**60)", "(40L, 6L)",
    "(4611686018427387904, 4)",
    "(9223372036854775808,)", "(True, 6)", "(40.0, 6)", "('40', 6)", "[40, 6]", "40", "None", "(2147483648, 2147483648)",
    str((1,) * 33), str((1,) * 65), "(0, 6)", "(40, 0)", "(99999999999999999999999999, 0)",
)  # fmt: skip
DTYPES = (
    "|O", "<f2", ">f8", "<f16", "<c16", "<U4", "|S6", "<M8[s]", "<m8[ns]", "|V8", "|b1", "<u8", "<i1", "f8", "<f8,<i4", "|S0", "<U0",
    "|S2147483647", "<U536870912", "(3,)<f8", "x", "", "O8", "<f8" * 50,
)  # fmt: skip


def array_bytes(random: Random, shape: tuple[int, ...] = (40, 6), changed: bool = True) -> bytes:
    """An array in NumPy's format, with a changed header or a changed length of it."""
    stream = io.BytesIO()
    npy.write_array(stream, random.normal(size=shape))
    if not changed:
        return stream.getvalue()
    data = stream.getvalue()[-8 * int(np.prod(shape)) :]
    text = str(pick(random, HEADERS)).replace("SHAPE", pick(random, SHAPES)).replace("DTYPE", pick(random, DTYPES))
    header = (text.replace("NAME", pick(random, NAMES)) + "\n").encode("latin-1", "replace")
    version = pick(random, ((1, 0),) * 6 + ((2, 0), (3, 0), (0, 0), (9, 9)))
    length = len(header) if random.random() < 0.85 else int(pick(random, (0, 1, len(header) - 3, len(header) + 9, 65535)))
    size = struct.pack("<H", length % 65536) if version[0] < 2 else struct.pack("<I", length % 2**32)
    return b"\x93NUMPY" + bytes(version) + size + header + data


def npz(random: Random) -> bytes:
    """Arrays in a zip file: other names, one array twice, other sizes and checksums in the entries, arrays that lie over each other."""
    names = ["X", "y", "class_names"] if random.random() < 0.5 else ["data", "indices", "indptr", "shape", "format"]
    if random.random() < 0.3:
        names = ["W", "b", "c"]
    shapes = {"X": (40, 6), "y": (40,), "W": (6, 3), "b": (6,), "c": (3,), "data": (40,), "indices": (40,), "indptr": (41,), "shape": (2,)}
    stream = io.BytesIO()
    hit = int(random.integers(len(names)))
    with zipfile.ZipFile(
        stream, "w", pick(random, (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    ) as archive:
        for number, name in enumerate(names):
            inner = io.BytesIO()
            special: dict[str, Any] = {
                "y": np.arange(40) % 2, "class_names": np.array(["a", "b"]), "format": np.array("csr"), "shape": np.array([40, 6]),
                "indices": np.arange(40) % 6, "indptr": np.arange(41),
            }  # fmt: skip
            if number == hit and random.random() < 0.5:
                content = array_bytes(random, shapes.get(name, (2,)))
            else:
                value = special.get(name, random.normal(size=shapes.get(name, (2,))))
                if number == hit and random.random() < 0.5:
                    value = np.array(pick(random, (-1, 2**40, np.nan, 10**18)))[None] if value.ndim == 0 else np.where(
                        random.random(value.shape) < 0.2, value, pick(random, (-1, 7, 2**31))
                    ) if value.dtype.kind in "if" else value[:0]  # fmt: skip
                npy.write_array(inner, value)
                content = inner.getvalue()
            entry = name if number != hit or random.random() < 0.6 else str(pick(random, NAMES))
            entry = entry.replace("\ud800", "\ufffd")
            archive.writestr(zipfile.ZipInfo(f"{entry}.npy" if random.random() < 0.95 else entry), content)
            if random.random() < 0.04:
                archive.writestr(zipfile.ZipInfo(f"{entry}.npy"), content)
    return _changed_entry(bytearray(stream.getvalue()), random) if random.random() < 0.5 else stream.getvalue()


def _changed_entry(data: bytearray, random: Random) -> bytes:
    """A zip file with another number in one field of a header: method, flags, checksum, sizes, lengths, offset."""
    magic, places = pick(random, ((b"PK\x01\x02", ((8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (28, 2), (30, 2), (32, 2), (42, 4))),
                                  (b"PK\x03\x04", ((6, 2), (8, 2), (14, 4), (18, 4), (22, 4), (26, 2), (28, 2))),
                                  (b"PK\x05\x06", ((8, 2), (10, 2), (12, 4), (16, 4), (20, 2)))))  # fmt: skip
    found = [at for at in range(len(data) - 3) if data[at : at + 4] == magic]
    if found:
        at, (offset, size) = pick(random, found), pick(random, places)
        value = int(pick(random, WHOLE)) % (1 << 8 * size)
        data[at + offset : at + offset + size] = value.to_bytes(size, "little")
    return bytes(data)


def idx(random: Random) -> bytes:
    """Images in the format of MNIST with another type, number of dimensions, or length."""
    lengths = [40, 2, 3]
    if random.random() < 0.7:
        lengths[int(random.integers(3))] = int(pick(random, WHOLE)) % 2**32
    kind = pick(random, (8, 8, 9, 11, 12, 13, 14, 0, 10, 255))
    count = pick(random, (3, 3, 3, 1, 2, 0, 4, 255))
    return bytes([0, 0, kind, count]) + b"".join(struct.pack(">I", n) for n in lengths[:count]) + bytes(240)


def wave(random: Random) -> bytes:
    """Sound with other sizes of its parts, channels, rates, widths."""
    fields = [1, 2, 8000, 32000, 4, 16]
    if random.random() < 0.7:
        fields[int(random.integers(6))] = int(pick(random, WHOLE))
    form = struct.pack("<HHIIHH", *(value % 2 ** (32 if number in (2, 3) else 16) for number, value in enumerate(fields)))
    sound = random.integers(-99, 99, 400).astype("<i2").tobytes()

    def part(name: bytes, content: bytes) -> bytes:
        size = len(content) if random.random() < 0.8 else int(pick(random, WHOLE)) % 2**32
        return name + struct.pack("<I", size) + content

    parts = [part(b"fmt ", form), part(pick(random, (b"data", b"data", b"data", b"LIST", b"fmt ")), sound)]
    if random.random() < 0.2:
        parts.reverse()
    return part(b"RIFF", b"WAVE" + b"".join(parts))


def matlab(random: Random) -> bytes:
    """A MATLAB 5 file with another number in one of its tags."""
    from scipy.io import savemat
    from scipy.sparse import csc_array

    stream = io.BytesIO()
    rows = random.normal(size=(40, 6)) if random.random() < 0.7 else csc_array(random.integers(0, 2, (40, 6)).astype(float))
    cells = np.array([["a"], ["b"]] * 20, dtype=object)
    savemat(stream, {"X": rows, "y": cells if random.random() < 0.3 else np.arange(40) % 2, "names": cells}, do_compression=False)
    data = bytearray(b"MATLAB 5.0".ljust(116) + stream.getvalue()[116:])  # without the date
    for _ in range(int(random.integers(1, 3))):
        at = 128 + 4 * int(random.integers(24)) if random.random() < 0.7 else 4 * int(random.integers(len(data) // 4))
        data[at : at + 4] = struct.pack("<I", int(pick(random, WHOLE)) % 2**32)
    if random.random() < 0.3:
        content = zlib.compress(bytes(data[128:]) if random.random() < 0.8 else bytes(10_000_000))
        return bytes(data[:128]) + struct.pack("<II", 15, len(content)) + content
    return bytes(data)


def vowpal(random: Random) -> bytes:
    """A readable model of Vowpal Wabbit with other bits, indices, weights or options."""
    lines = ["Version 9.10.0", "Id ", "Min label:-1", "Max label:1", "bits:4", "lda:0", "0 ngram:", "0 skip:", "options: --hash all",
        "Checksum: 1",
             ":0", "0:0.5", "3:-1.25", "11:2"]  # fmt: skip
    for _ in range(int(random.integers(1, 4))):
        at = int(random.integers(2, len(lines)))
        key, colon, _ = lines[at].partition(":")
        value = str(pick(random, (*WHOLE, "nan", "inf", "1e999", "", "x", " ", "²", "٣", "1_0", "--oaa 3", "-q ab", "-q \x1b[31m", "a\0b")))
        lines[at] = pick(random, (f"{key}{colon}{value}", f"{value}{colon}1", value, f"{lines[at]} {value}", ""))
    return "\n".join(lines).encode() + b"\n"


def parquet(random: Random) -> bytes:
    """A table of odd types and names, with odd metadata; sealed ones have the metadata of herd."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    pq.write_table(
        _table(pa, random), stream, compression=pick(random, ("none", "snappy", "zstd", "gzip")), store_schema=bool(random.integers(2))
    )
    data = bytearray(stream.getvalue())
    if random.random() < 0.4:  # the footer, in Thrift
        size = int.from_bytes(data[-8:-4], "little")
        at = len(data) - 8 - size + int(random.integers(size)) if random.random() < 0.85 else len(data) - 8 + int(random.integers(4))
        data[at] = int(pick(random, (0, 1, 127, 128, 255, int(random.integers(256)))))
    return bytes(data)


def arrow(random: Random) -> bytes:
    """A table as Arrow's file or stream."""
    import pyarrow as pa

    stream, table = io.BytesIO(), _table(pa, random)
    make = pa.ipc.new_file if random.random() < 0.5 else pa.ipc.new_stream
    with make(stream, table.schema) as writer:
        writer.write_table(table)
    data = bytearray(stream.getvalue())
    if random.random() < 0.5:
        at = 4 * int(random.integers(len(data) // 4))
        data[at : at + 4] = struct.pack("<I", int(pick(random, WHOLE)) % 2**32)
    return bytes(data)


def _table(pa: Any, random: Random) -> Any:
    """Four columns; one has another type or name."""
    values = [float(value) for value in random.integers(0, 2, 12)]
    pool: tuple[Callable[[], Any], ...] = (
        lambda: pa.array([None] * 12), lambda: pa.array([[1, 2]] * 12), lambda: pa.array([[1]] * 11 + [[1, 2, 3]]),
        lambda: pa.array([{"a": 1, "b": {"c": "x"}}] * 12), lambda: pa.array(["\x1b[31m", "a\nb", "=1+1", "\u202e"] * 3),
        lambda: pa.array([b"\xff\xfe"] * 12), lambda: pa.array([True, None, False] * 4), lambda: pa.array([2**63 - 1, -(2**63)] * 6),
        lambda: pa.array([2**64 - 1] * 12, pa.uint64()), lambda: pa.array([float("nan"), float("inf"), 1e308] * 4),
        lambda: pa.array([0] * 12, pa.timestamp("ns", "Mars/Crater" if random.random() < 0.3 else "UTC")),
        lambda: pa.array([2**62] * 12, pa.date64()), lambda: pa.array([1] * 12, pa.duration("us")),
        lambda: pa.DictionaryArray.from_arrays([0] * 12, ["\x1b[31m"]),
        lambda: pa.array([[("a", 1)]] * 12, pa.map_(pa.string(), pa.int64())),
        lambda: pa.array([10**30] * 12, pa.decimal128(38, 2)), lambda: pa.array([np.float16(1)] * 12, pa.float16()),
        lambda: pa.array([[0.0, 1.0]] * 12, pa.list_(pa.float64(), 2)), lambda: pa.array(["x" * 70_000] * 12),
        lambda: pa.array([[]] * 12, pa.list_(pa.float64())),
    )  # fmt: skip
    columns, names = [pa.array(values) for _ in range(4)], ["a", "b", "label", "split"]
    columns[3] = pa.array(["train", "test"] * 6)
    hit = int(random.integers(4))
    if random.random() < 0.7:
        columns[hit] = pick(random, pool)()
    if random.random() < 0.5:
        names[hit] = str(pick(random, NAMES)).replace("\ud800", "\ufffd")
    table = pa.table(columns, names=names)
    if random.random() < 0.4:
        fields = {"format": 1, "kind": "dataset", "kind-version": 1, "fields": {"units": "x", "image_shape": [1, 2]}, "provenance": []}
        key = pick(random, ("herd", "units", "image_shape", "value_range", "pandas", "ARROW:schema", "source"))
        table = table.replace_schema_metadata({key: json.dumps(changed_tree(fields, random))})
    return table


LINES = [{"a": 0.5, "b": 1, "label": "x", "tags": ["p", "q"]}, {"a": 1.5, "b": 0, "label": "y", "tags": []}] * 3
STAN = {"N": 3, "D": 2, "X": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "y": [0, 1, 0]}


def json_lines(random: Random) -> bytes:
    """Records, one a line."""
    lines = list(LINES)
    at = int(random.integers(len(lines)))
    lines[at] = changed_tree(lines[at], random)
    return b"\n".join(map(json_text, lines)) + b"\n"


def json_array(random: Random) -> bytes:
    """Records in one array, or the data of a Stan program."""
    return json_text(changed_tree(LINES if random.random() < 0.5 else STAN, random))


def moments(random: Random) -> bytes:
    """Marginal tables for `fit-mrf --moments`."""
    tree: Any = json.loads(MOMENTS)
    for _ in range(int(random.integers(1, 3))):
        tree = changed_tree(tree, random)
    return json_text(tree)


SHEET = "xl/worksheets/sheet1.xml"
SCHEMAS = "http://schemas.openxmlformats.org"
WORKBOOK = {
    "[Content_Types].xml": f'<?xml version="1.0"?><Types xmlns="{SCHEMAS}/package/2006/content-types"/>',
    "xl/workbook.xml": f'<?xml version="1.0"?>DOCTYPE<workbook xmlns="{SCHEMAS}/spreadsheetml/2006/main" '
    f'xmlns:r="{SCHEMAS}/officeDocument/2006/relationships"><sheets><sheet name="NAME" sheetId="1" r:id="rId1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": f'<?xml version="1.0"?><Relationships xmlns="{SCHEMAS}/package/2006/relationships">'
    f'<Relationship Id="rId1" Type="{SCHEMAS}/officeDocument/2006/relationships/worksheet" Target="TARGET"/></Relationships>',
    SHEET: f'<?xml version="1.0"?>DOCTYPE<worksheet xmlns="{SCHEMAS}/spreadsheetml/2006/main"><sheetData>'
    '<row r="1"><c r="A1" t="inlineStr"><is><t>a</t></is></c><c r="B1" t="inlineStr"><is><t>ENTITYb</t></is></c></row>'
    '<row r="ROW"><c r="CELL" t="TYPE"><v>VALUE</v></c><c r="B2"><v>1</v></c></row></sheetData></worksheet>',
}
DOCTYPES = (
    "", "", "", '<!DOCTYPE x [<!ENTITY e SYSTEM "victims/text.txt">]>', '<!DOCTYPE x SYSTEM "victims/text.txt">',
    '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY e "&b;&b;&b;&b;&b;&b;&b;&b;">]>',
)  # fmt: skip


def workbook(random: Random) -> bytes:
    """A spreadsheet with other cells, targets, entities, and entries of its archive."""
    doctype = str(pick(random, DOCTYPES))
    fields = {
        "DOCTYPE": doctype, "ENTITY": "&e;" if "ENTITY e" in doctype else "", "NAME": "data", "TARGET": "worksheets/sheet1.xml", "ROW": "2",
        "CELL": "A2", "TYPE": "n", "VALUE": "2.5",
    }  # fmt: skip
    pools: dict[str, tuple[Any, ...]] = {
        "NAME": ("\u202e", "a&#10;b", "x" * 500),
        "TARGET": ("../../victims/text.txt", "/etc/hostname", "worksheets/none.xml", "", "workbook.xml"),
        "ROW": WHOLE, "CELL": ("XFD1048576", "ZZZZZZZ9", "A0", "A-1", "1A", "", "A99999999999", "é1"),
        "TYPE": ("s", "b", "e", "str", "d", "x", ""),
        "VALUE": (*WHOLE, "nan", "1e999", "", "x", "TRUE", "#REF!", "=1+1"),
    }  # fmt: skip
    name = pick(random, list(pools))
    fields[name] = str(pick(random, pools[name]))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for entry, text in WORKBOOK.items():
            for key, value in fields.items():
                text = text.replace(key, value)
            archive.writestr(zipfile.ZipInfo(entry), text)
    return _changed_entry(bytearray(stream.getvalue()), random) if random.random() < 0.2 else stream.getvalue()


def onnx(random: Random) -> bytes:
    """A graph whose weights lie in a file outside."""
    return b'\x08\x07\x12\x04herd:\x30\n\x0a\x01x"location\x12\x13victims/text.txt' + bytes(random.integers(0, 256, 40, dtype=np.uint8))


# suffix of the file -> what builds it, and the commands that read it
ROWS = ("convert EVIL -o out.h5", "fit-rbm EVIL --hidden 2 --epochs 1 -o out.h5")
WEIGHTS = ("convert EVIL --to rbm -o out.h5", "convert EVIL --to dbn -o out.h5")
FORMATS: dict[str, tuple[Callable[[Random], bytes], tuple[str, ...]]] = {
    ".safetensors": (safetensors, WEIGHTS),
    ".npz": (npz, (*ROWS, WEIGHTS[0])),
    ".npy": (array_bytes, ROWS),
    ".vw": (vowpal, ("convert EVIL --to classifier -o out.h5",)),
    ".parquet": (parquet, (*ROWS, "check EVIL", "info EVIL", "em EVIL --components 2 -o out.h5")),
    ".arrow": (arrow, ROWS),
    ".json": (json_array, (*ROWS, "convert EVIL -o out.csv")),
    ".jsonl": (json_lines, ("convert EVIL -o out.h5", "nherd-train EVIL --label label -o out.h5")),
    ".moments": (moments, ("fit-mrf --moments EVIL -o out.h5",)),
    ".idx": (idx, ROWS),
    ".wav": (wave, ROWS),
    ".mat": (matlab, ROWS),
    ".xlsx": (workbook, ROWS),
    ".onnx": (onnx, (*ROWS, *WEIGHTS)),
}


class ForeignFiles:
    """Trial i builds a file of format i mod F, and one of the commands that read it reads it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed

    def __call__(self, number: int, own: Path) -> Iterator[Outcome]:
        watched = Watched(self.folder, own)
        suffix = list(FORMATS)[number % len(FORMATS)]
        build, lines = FORMATS[suffix]
        random = np.random.default_rng([self.seed, number])
        content = bytearray(build(random))
        if content and random.random() < DAMAGED:
            content[int(random.integers(len(content)))] = int(random.integers(256))
        evil = own / f"evil{suffix}"
        evil.write_bytes(content)
        yield watched.tried(number, suffix, lines[number // len(FORMATS) % len(lines)].replace("EVIL", evil.name))
        watched.close()
