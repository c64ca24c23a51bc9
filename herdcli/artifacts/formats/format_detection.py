"""Detection of the format of a file: binary formats by their magic numbers, text by its first informative line."""

from __future__ import annotations

import os
import re
import struct

from herdcli.artifacts.sealed import seal_header
from herdcli.errors import BadUsage, DataError

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
MATLAB = b"MATLAB 7.3"
FORMATS = ("hdf5", "parquet", "npz", "npy", "csv", "svmlight")  # formats that are read and written
WRITES = (*FORMATS, "wav", "netcdf", "safetensors", "onnx", "vw")
READ = (*FORMATS, "arrow", "excel", "idx", "json", "matlab", "wav")
PACKED = {".gz": "gzip", ".zst": "zstd"}
SUFFIXES = {
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".hdf": "hdf5",
    ".mat": "hdf5",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npz": "npz",
    ".npy": "npy",
    ".csv": "csv",
    ".tsv": "csv",
    ".svmlight": "svmlight",
    ".svm": "svmlight",
    ".libsvm": "svmlight",
    ".nc": "netcdf",
    ".wav": "wav",
    ".safetensors": "safetensors",
    ".onnx": "onnx",
    ".vw": "vw",
}
OF_MODELS = ("safetensors", "onnx", "vw")  # model formats that herd convert writes
SOUND = (b"fLaC", b"OggS")
LIBRARIES = ("onnx",)  # libraries that a format needs for writing, and the extras that install them
UNREAD = {
    b"\x80\x04": ("a Python pickle", "write HDF5, NPZ or CSV instead: pickles can run code and are never loaded"),
    b"\x80\x05": ("a Python pickle", "write HDF5, NPZ or CSV instead: pickles can run code and are never loaded"),
    b"\x80\x02": ("a Python pickle", "write HDF5, NPZ or CSV instead: pickles can run code and are never loaded"),
    b"\x80\x03": ("a Python pickle", "write HDF5, NPZ or CSV instead: pickles can run code and are never loaded"),
    b"\xd0\xcf\x11\xe0": ("an old Excel or SPSS file", "save it as .xlsx or CSV"),
    b"\x89PNG": ("a picture", "give the folder of images instead, in which each image is a row"),
    b"\xff\xd8\xff": ("a picture", "give the folder of images instead, in which each image is a row"),
    b"%PDF": ("a PDF document", "export the table as CSV"),
    b"RDX3": ("an R workspace", "in R: write.csv(table, 'table.csv', row.names = FALSE)"),
    b"RDX2": ("an R workspace", "in R: write.csv(table, 'table.csv', row.names = FALSE)"),
    b"FEA1": ("a Feather file of version 1", "write version 2: pyarrow.feather.write_feather(table, FILE)"),
    b"$FL2": ("an SPSS file", "export the table as CSV"),
    b"<stata_dta>": ("a Stata file", "export the table as CSV"),
    b"CDF\x01": ("netCDF of version 3", "write version 4, which is HDF5: idata.to_netcdf(FILE)"),
    b"CDF\x02": ("netCDF of version 3", "write version 4, which is HDF5: idata.to_netcdf(FILE)"),
    b"SQLite format 3": ("an SQLite database", "export the table as CSV"),
}
BAR_LINES = 20  # the number of lines that are searched for bars
FOREIGN_TEXT = {
    "uai": "a UAI network",
    "bif": "a BIF network",
    "xmlbif": "an XMLBIF network",
    "xdsl": "a network of GeNIe (XDSL)",
    "vw": "Vowpal Wabbit text",
}
NETWORK_SUFFIXES = {"xml": "xmlbif", "bifxml": "xmlbif"}  # in addition to the names of the formats
WRITTEN = (".h5", ".parquet", ".csv", ".csv.gz", ".csv.zst", ".tsv", ".npz", ".npy", ".svm", ".wav", ".nc")
OTHER_TEXT = (  # how the text begins, what it is, what to do
    (("@relation",), "an ARFF file, which herd does not read", "export the table as CSV"),
    (("<!doctype html", "<html"), "an HTML page, not a data set", "download the file itself: the link may lead to a page about it"),
    (("<?xml",), "XML, which herd does not read as a data set", "export the table as CSV"),
    (("version https://git-lfs",), "a pointer of Git LFS, not the file itself", "fetch the file: git lfs pull"),
)
_SUFFIX = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,9}")  # run-0.05 has no suffix
_PAIR = re.compile(r"(?:\d+|qid):[-+.\deEinfaINFA]+")


def detect_format(head: bytes, name: str) -> str:
    """Return the format, one of FORMATS, for the first bytes of a file.  Raises DataError for other bytes."""
    if head.startswith((seal_header.MAGIC, HDF5_MAGIC, MATLAB)) or find_hdf5_signature(head):
        return "hdf5"
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    _refuse_foreign_models(head, name)
    if head.startswith(b"PK\x03\x04"):
        return "npz"
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    if head.startswith(b"MATLAB 5.0") or _is_matlab_4(head, name):
        return "matlab"
    if head[8:12] == b"WAVE" or head[8:12] in (b"AIFF", b"AIFC") or head.startswith(SOUND):
        return "wav"
    if head[:2] == b"\0\0" and _is_idx(head):
        return "idx"
    for magic, (what, hint) in UNREAD.items():
        if head.startswith(magic):
            raise DataError(f"is {what}, which herd does not read", where=name, hint=hint)
    if seal_header.MAGIC.startswith(head):
        seal_header.parse_seal(head, where=name)
    return _detect_text_format(_decode_head(head, name), name)


def _is_matlab_4(head: bytes, name: str) -> bool:
    """Return whether the first twenty bytes of a file named .mat are the header of a MATLAB 4 matrix."""
    if not name.lower().endswith(".mat") or len(head) < 21:
        return False
    for order in ("<", ">"):
        kind, rows, columns, imaginary, length = struct.unpack(f"{order}5i", head[:20])
        plain = 0 <= kind < 5000 and kind // 10 % 10 < 6 and kind // 100 % 10 == 0 and kind % 10 < 3
        if plain and rows >= 0 and columns >= 0 and imaginary in (0, 1) and 1 < length < 256 and head[19 + length : 20 + length] == b"\0":
            return True
    return False


def is_safetensors(head: bytes) -> bool:
    """Return whether the bytes begin with the length of a JSON text and the text."""
    return len(head) > 8 and int.from_bytes(head[:8], "little") < 1 << 27 and head[8:].lstrip()[:1] == b"{"


def is_vowpal_text_model(head: bytes) -> bool:
    """Return whether the bytes begin a Vowpal Wabbit model as text."""
    return re.match(rb"Version \d+\.\d+\.\d+\r?\nId ", head) is not None


def _refuse_foreign_models(head: bytes, name: str) -> None:
    """Raise DataError for models of other programs, with a hint on how to use each of them."""
    found = None
    if head.startswith(b"PK\x03\x04") and b"/data.pkl" in head[:200]:
        found = (
            "a PyTorch file, a pickle that can run code and is never loaded",
            "convert it in Python: safetensors.torch.save_file(model.state_dict(), FILE)",
        )
    elif is_safetensors(head):
        found = ("weights in safetensors, not a data set", "convert it: herd convert FILE --to rbm (or --to dbn)")
    elif is_vowpal_text_model(head):
        found = ("a model of Vowpal Wabbit, not a data set", "convert it: herd convert FILE --to classifier")
    elif format_from_suffix(name) == "onnx":
        found = ("an ONNX model, which herd writes but does not read", "run it with onnxruntime")
    if found is not None:
        raise DataError(f"is {found[0]}", where=name, hint=found[1])


def _is_idx(head: bytes) -> bool:
    from herdcli.artifacts.formats.idx import is_idx

    return is_idx(head)


def find_hdf5_signature(head: bytes) -> int | None:
    """Return the position of the HDF5 signature: 0, 512, 1024, 2048 …; None if these bytes do not contain it."""
    offset = 0
    while offset < len(head):
        if head.startswith(HDF5_MAGIC, offset):
            return offset
        offset = max(seal_header.BLOCK, 2 * offset)
    return None


def refuse_damaged_seal(head: bytes, name: str) -> None:
    """Raise DataError for HDF5 after a block that is not a valid seal, so that a damaged seal is never taken for "no seal"."""
    offset = find_hdf5_signature(head)
    if offset is None:
        raise DataError("is not an HDF5 file", where=name)
    if offset and not head.startswith(MATLAB):
        raise DataError(
            f"the file is damaged: the checksum header (seal) before its HDF5 contents, which begin at byte {offset}, is not valid",
            where=name,
            hint=seal_header.RESEAL_HINT,
        )


def detect_network_format(head: bytes) -> str | None:
    """Return the format of a network as text, for inputs that must be networks; None for other text."""
    if head.startswith((seal_header.MAGIC, HDF5_MAGIC, b"PAR1", b"PK\x03\x04")) or find_hdf5_signature(head):
        return None
    text = head.decode("latin-1").lstrip("ï»¿\ufeff")
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL) if text.lstrip().startswith("/*") else text
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("#", "//", "%"))]
    words = " ".join(lines[:40]).split() or [""]
    if words[0].startswith("<"):
        found = re.search(r"<(?:\w+:)?(bif|network|smile)\b", text, re.IGNORECASE)
        return None if found is None else "xdsl" if found[1].lower() == "smile" else "xmlbif"
    first = words[0].partition("{")[0].lower()
    if first in ("markov", "bayes"):
        return "uai"
    if first == "net":
        return "net" if words[0] != first or (len(words) > 1 and words[1].startswith("{")) else "dsl"
    if first in ("node", "class", "potential") or (first == "discrete" and words[1:2] == ["node"]):
        return "net"
    if first in ("network", "variable", "probability"):
        return "bif"
    alone = lines[0].partition("#")[0].split() if lines else []
    return "fg" if _is_text(head) and len(alone) == 1 and alone[0].isdigit() else None


def format_from_suffix(path: str) -> str | None:
    """Return the format that the suffix of a file name means, or None."""
    return SUFFIXES.get(os.path.splitext(path)[1].lower())


def output_format_from_suffix(path: str) -> str | None:
    """Return the format that the suffix of an output file means, or None without a suffix.  Raises BadUsage for an unsupported suffix."""
    inner, packed = os.path.splitext(path)
    suffix = os.path.splitext(inner if packed.lower() in PACKED else path)[1]
    found = format_from_suffix(suffix.join(("name", "")))
    if packed.lower() in PACKED and found != "csv":
        raise BadUsage(
            f"cannot write '{packed}': only CSV files are written compressed", where=path, hint="use the suffix .csv.gz, .csv.zst or .h5"
        )
    if (found is None and _SUFFIX.fullmatch(suffix)) or suffix.lower() == ".mat":
        raise BadUsage(f"'{suffix}' is not a format that herd writes", where=path, hint=f"known formats: {', '.join(WRITTEN)}")
    return found


def compression_from_suffix(path: str) -> str | None:
    """Return gzip or zstd for a name with such a suffix, else None."""
    return PACKED.get(os.path.splitext(path)[1].lower())


def check_format_name(name: str, known: tuple[str, ...] = READ) -> str:
    """Check the format name that the user gave, and return it."""
    if name not in known:
        raise BadUsage(f"unknown format '{name}'", hint=f"use one of {', '.join(known)}")
    return name


def _is_text(head: bytes) -> bool:
    """Whether nearly all of the first characters are printable."""
    text = head.decode("utf-8", "replace")[:4096]
    strange = sum(character == "\ufffd" or (character < " " and character not in "\t\r\n\f") for character in text)
    return strange <= 1 + len(text) // 100


def _decode_head(head: bytes, name: str) -> str:
    if not _is_text(head):
        hint = f"known formats: {', '.join(READ)}, also in gzip, bzip2, xz or zstd; text must be UTF-8"
        raise DataError("the format of the file is not recognised", where=name, hint=hint)
    return head.decode("utf-8", "replace").removeprefix("\ufeff")


def _detect_text_format(text: str, name: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if not lines:
        raise DataError("the file has no lines of data", where=name, hint="check whether the program that wrote the text was interrupted")
    first = lines[0]
    if first.startswith('"'):  # a quoted column title, which may begin like another format and span several lines
        return "csv"
    foreign = "uai" if first.upper() in ("MARKOV", "BAYES") else "bif" if first.startswith("network ") else None
    if first.startswith("<"):
        foreign = detect_network_format(text.encode())
    if foreign:
        raise DataError(f"is {FOREIGN_TEXT[foreign]}, not a data set", where=name)
    if any(_is_svmlight(line) for line in lines[:2]) or (_is_number(first) and any(_is_svmlight(line) for line in lines)):
        return "svmlight"
    if first.startswith(("{", "[")):
        return "json"
    _refuse_other_text(first.lower(), name)
    if is_bar_separated(lines):
        return "csv"
    if "|" in first and not any(separator in first for separator in ",;\t"):
        hint = "use herd nherd-train; if it is a table with bars, remove the outer ones: a|b|c"
        raise DataError(f"is {FOREIGN_TEXT['vw']}, which this command does not read", where=name, hint=hint)
    if _is_number(first) and format_from_suffix(name) not in FORMATS and len(lines) > 1 and all(map(_is_number, lines)):
        hint = "choose one: --input-format csv or --input-format svmlight"
        raise DataError("every line has one number, so herd cannot tell whether it is a value or a label", where=name, hint=hint)
    return format_from_suffix(name) if format_from_suffix(name) in ("csv", "svmlight") else "csv"  # type: ignore[return-value]


def _refuse_other_text(first: str, name: str) -> None:
    """Raise DataError for text that is no table, by its first line in lower case."""
    for beginnings, what, hint in OTHER_TEXT:
        if first.startswith(beginnings):
            raise DataError(f"is {what}", where=name, hint=hint)


def is_bar_separated(lines: list[str]) -> bool:
    """Return whether bars separate the cells of a table.

    Every line must have equally many bars, and none may be first or after a blank, as they are in Vowpal Wabbit's text.
    """
    first = lines[: 1 + BAR_LINES]
    count = first[0].count("|") if first else 0
    if not count or len(first) < 2 or any(separator in first[0] for separator in ",;\t"):
        return False
    if any(line.count("|") != count for line in first[:-1]) or any(re.search(r"(?:^|\s)\|", line) for line in first):
        return False
    return not any(re.match(r"[-+.\deE]*\|\S*\s", line) for line in first[:1])


def _is_svmlight(line: str) -> bool:
    """Return whether the line has a label, then index:value pairs, and perhaps a comment."""
    label, *pairs = line.partition("#")[0].split() or [""]
    return bool(pairs) and _is_number(label) and all(_PAIR.fullmatch(pair) for pair in pairs)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
