"""Documents with labels: in a column of CSV, Parquet or JSON lines, or as .txt files in a folder for each class."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from herdcli.artifacts.byte_sources import open_source
from herdcli.artifacts.text.text_encodings import guess_encoding
from herdcli.dialect import current_dialect
from herdcli.errors import DataError, missing_column_error
from herdcli.records import dataclass
from herdcli.schema import Array
from herdcli.splits import TEST, TRAIN, VALID, parse_split_name

LABELS = ("y", "label", "labels", "class", "target", "topic", "category")
SPLITS = ("split", "part")  # columns with the split of each document
DELIMITERS = ",;\t|"


@dataclass(frozen=True)
class Corpus:
    """A corpus of n documents, with their labels and splits if they have them, and their source.

    notes  on what was converted or is not used.
    """

    texts: list[str]
    labels: list[str] | None
    split: Array | None
    name: str
    sha256: str
    size: int
    notes: tuple[str, ...] = ()


def read(path: str, column: str, label: str | None, *, labelled: bool, usual_label: str | None = None) -> Corpus:
    """Read the documents of a file or folder.  Raises DataError and BadUsage for inputs that are not tables of documents.

    label  the column of labels; None: `usual_label`, the one of the training rows, if the table has it, else one of LABELS.
    """
    if os.path.isdir(path):
        return _read_folder(path, labelled=labelled)
    with open_source(path, limit=1 << 62) as source:
        with source.reader() as stream:
            raw = stream.read()
        table = _read_columns(raw, source.name)
        usual = None if usual_label == column else usual_label
        corpus = _corpus_from_table(table, column, label, source.name, source.sha256, len(raw), labelled=labelled, usual_label=usual)
        if source.encoding is None:
            return corpus
        decoded = f"read as {source.encoding}, since it is not UTF-8 (--encoding declares another)"
        return replace(corpus, notes=(decoded, *corpus.notes))


def _corpus_from_table(
    table: dict[str, list[Any]],
    column: str,
    label: str | None,
    name: str,
    sha256: str,
    size: int,
    *,
    labelled: bool,
    usual_label: str | None,
) -> Corpus:
    if column not in table:
        raise missing_column_error("--text", column, table, name)
    texts = ["" if cell is None else str(cell) for cell in table[column]]
    if not texts:
        raise DataError("has no documents", where=name)
    if label is not None and label not in table:
        raise missing_column_error("--label", label, table, name)
    own = label or next((each for each in (usual_label, *LABELS) if each in table and each != column), None)
    labels = None if own is None else [_cell_text(cell) for cell in table[own]]
    if labels is not None and labelled and "" in labels:
        raise DataError(f"document {labels.index('') + 1} has no label", where=name, hint="give it a label, or remove the document")
    if labels is None and labelled:
        hint = f"name that column {usual_label}, as in the training data" if usual_label else "name it with --label COLUMN"
        raise DataError("has no column of labels", where=name, hint=hint)
    parts = next((each for part in SPLITS for each in table if each.lower() == part and each not in (column, own)), None)
    split = None if parts is None else _parse_splits(table[parts])
    notes = []
    if empty := sum(not text.strip() for text in texts):
        notes.append(f"no text in {empty} of {len(texts)} documents")
    if parts is not None and split is None:
        notes.append(f"column '{parts}' is not used as split: it has values other than train, valid, test or 0, 1, 2")
    used = {column, own, parts if split is not None else None}
    if others := [each for each in table if each not in used]:
        notes.append(f"{len(texts)} documents, {len(table)} columns; not used: {', '.join(others[:12])}{' …' if len(others) > 12 else ''}")
    return Corpus(texts, labels, split, name, sha256, size, tuple(notes))


def _cell_text(cell: Any) -> str:
    if cell is None:
        return ""
    return str(int(cell)) if isinstance(cell, float) and cell == int(cell) else str(cell)


def _parse_splits(cells: list[Any]) -> Array | None:
    """Return 0 train, 1 valid, 2 test from numbers or names; None if a cell is neither."""
    numbers = [parse_split_name(str(cell)) for cell in cells]
    found = [cell if number is None else number for cell, number in zip(cells, numbers, strict=True)]
    return np.array(found, dtype=np.uint8) if all(part in (TRAIN, VALID, TEST) for part in found) else None


def _read_columns(raw: bytes, name: str) -> dict[str, list[Any]]:
    """Return columns by name."""
    if raw.startswith(b"PAR1"):
        import pyarrow.parquet as pq

        # Not read_table, which imports pandas.
        with pq.ParquetFile(io.BytesIO(raw)) as file:
            found: dict[str, list[Any]] = file.read().to_pydict()
        return found
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"is not UTF-8 (byte {error.start})", where=name, hint="convert it: iconv -f LATIN1 -t UTF-8 FILE") from None
    if text.lstrip().startswith(("{", "[")):
        rows = list(_json_objects(text, name))
        names = list(dict.fromkeys(key for row in rows for key in row))
        return {key: [row.get(key) for row in rows] for key in names}
    return _csv_columns(text, name)


def _json_objects(text: str, name: str) -> Iterator[dict[str, Any]]:
    try:
        rows = json.loads(text) if text.lstrip().startswith("[") else [json.loads(line) for line in text.split("\n") if line.strip()]
        if "\\u" in text:
            json.dumps(rows, ensure_ascii=False).encode()  # fails for lone surrogates
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"is not valid JSON lines ({' '.join(str(error).split())})", where=name, hint='write each line as {"text": "…", "label": "…"}'
        ) from None
    if not all(isinstance(row, dict) for row in rows):
        raise DataError("has lines that are not JSON objects", where=name, hint='write each line as {"text": "…", "label": "…"}')
    yield from rows


def _csv_columns(text: str, name: str) -> dict[str, list[Any]]:
    csv.field_size_limit(sys.maxsize)
    first = text[: text.find("\n")] if "\n" in text else text
    mark = max(DELIMITERS, key=first.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True)
    try:
        titles = next(rows, [])
        columns: list[list[Any]] = [[] for _ in titles]
        for row in rows:
            if row and len(row) != len(titles):
                what = f"line {rows.line_num} has {len(row)} fields, but the header has {len(titles)}"
                raise DataError(what, where=name, hint="put texts with commas or line breaks into quotes")
            for cells, cell in zip(columns, row, strict=bool(row)) if row else ():
                cells.append(cell)
    except csv.Error as error:
        raise DataError(f"line {rows.line_num}: {error}", where=name, hint="close every quote") from None
    if len(set(titles)) < len(titles):
        raise DataError("has two columns with the same name", where=name, hint="rename one of them")
    return dict(zip(titles, columns, strict=True))


def _read_folder(path: str, *, labelled: bool) -> Corpus:
    """Read .txt files from a folder for each class, possibly in folders train and test; without class folders they have no labels."""
    root = Path(path)
    files = sorted(each for each in root.rglob("*.txt") if each.is_file() and not each.name.startswith("."))
    if not files:
        raise DataError("has no .txt files", where=path, hint="make one folder for each class, with a file for each document")
    above = {each: each.relative_to(root).parts[:-1] for each in files}
    parted = any(len(folders) > 1 and parse_split_name(folders[0]) is not None for folders in above.values())
    parts = {each: parse_split_name(folders[0]) if parted and folders else None for each, folders in above.items()}
    classes = {each: "/".join(folders if parts[each] is None else folders[1:]) for each, folders in above.items()}
    outside = [each for each in files if not classes[each]]
    notes = []
    if outside and len(outside) < len(files):
        listed = ", ".join(str(each.relative_to(root)) for each in outside[:3]) + (" …" if len(outside) > 3 else "")
        notes.append(f"left out {_format_count(len(outside), '.txt file')} outside the folders of classes: {listed}")
        files = [each for each in files if classes[each]]
    elif outside and labelled:
        raise DataError(f"{outside[0].name} is not in the folder of a class", where=path, hint="make one folder for each class")
    if parted and (apart := [each for each in files if parts[each] is None]):
        what = f"{apart[0].relative_to(root)} is outside the folders of the splits, such as train and test"
        raise DataError(what, where=path, hint="move it into one of them, or remove it")
    running, texts, size, encodings = hashlib.sha256(), [], 0, Counter[str]()
    for each in files:
        raw = each.read_bytes()
        running.update(f"{each.relative_to(root)} {len(raw)}\n".encode("utf-8", "surrogateescape"))
        running.update(raw)
        size += len(raw)
        text, encoding = _decode_text(raw)
        texts.append(text)
        encodings[encoding] += 1
    notes += filter(None, (_encoding_note(encoding, count) for encoding, count in sorted(encodings.items())))
    if empty := sum(not text.strip() for text in texts):
        notes.append(f"no text in {empty} of {len(texts)} documents")
    split = np.array([parts[each] for each in files], dtype=np.uint8) if parted else None
    labels = [classes[each] for each in files]
    return Corpus(texts, labels if any(labels) else None, split, path, running.hexdigest(), size, tuple(notes))


def _decode_text(raw: bytes) -> tuple[str, str]:
    """Return the text of a file and its encoding: the declared one, UTF-8, a guessed one, or "damaged" for UTF-8 with faults."""
    declared = current_dialect().encoding
    for encoding in (declared,) if declared else ("utf-8-sig", guess_encoding(raw)):
        with suppress(UnicodeError):
            if encoding is not None:
                return raw.decode(encoding).removeprefix("\ufeff"), encoding
    return raw.decode(declared or "utf-8-sig", "replace"), "damaged"


def _encoding_note(encoding: str, count: int) -> str:
    """Return the note on a number of files in an encoding; empty for UTF-8 and for a declared one."""
    if encoding == "damaged":
        return f"lost characters of {_format_count(count, 'file')} in another encoding (--encoding declares one)"
    if encoding in ("utf-8-sig", current_dialect().encoding):
        return ""
    return f"read {_format_count(count, 'file')} as {encoding}, not UTF-8 (--encoding declares another)"


def _format_count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
