"""An index of the rows of a text: one pass counts its lines and computes its digest; then any range of rows can be read.

For large files, the index and the digests of unsealed files are cached in $XDG_CACHE_HOME/herd (~/.cache/herd),
under the file's name, size and modification time, so that the shards of a run need only one pass.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from herdcli.artifacts.byte_sources import HEAD, ByteSource
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.load_options import LoadOptions
from herdcli.artifacts.text import delimited_text
from herdcli.errors import DataError
from herdcli.records import dataclass

EVERY = 4096  # rows between two indexed positions
CHUNK = 1 << 23
LEAST = 1 << 26  # the index of a file of at least this many bytes is cached


@dataclass(frozen=True)
class LineIndex:
    """The index of a text.

    begin  bytes of the head, which is read before every range; places  positions of rows 0, 4096, …, and the end.
    """

    count: int
    begin: int
    places: list[int]
    sha256: str


def build_index(path: str, head: bytes, names: Collection[str] = ()) -> LineIndex | None:
    """Return the index of a text of numbers; None if a line may not be a row: quotes, empty lines, `#` below the head, no lines.

    names  those of a model's columns.
    """
    begin = _header_length(head, names)
    if begin is None:
        return None
    own = _cache_path(path)
    found = _load_cached_index(own)
    if found is None or found.begin != begin:
        found = _index_lines(path, begin)
        if found is not None and own is not None:
            _save_cache(own, {"count": found.count, "begin": found.begin, "places": found.places, "sha256": found.sha256})
    return found


def file_digest(source: ByteSource, path: str, *, fresh: bool) -> str:
    """Return the digest of a file's bytes; unless `fresh`, a cached digest of a large file is used."""
    own = None if fresh else _cache_path(path)
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        if own is not None and len(found := str(json.loads(own.read_text())["sha256"])) == 64:
            return found
    found = source.sha256
    if own is not None:
        _save_cache(own, {"sha256": found})
    return found


def _header_length(head: bytes, names: Collection[str]) -> int | None:
    """Return the bytes of comments and titles; None if they are longer than the head."""
    at = 0
    while head.startswith(b"#", at):
        end = head.find(b"\n", at)
        if end < 0:
            return None
        at = end + 1
    end = head.find(b"\n", at)
    if end < 0 or head[:end].count(b'"') % 2 or not head[at:end].strip():
        return None
    return end + 1 if delimited_text.has_titles(head, names) else at


def _index_lines(path: str, begin: int) -> LineIndex | None:
    digest, count, size, places, last = hashlib.sha256(), 0, 0, [begin], b"\n"
    with open(path, "rb") as file:
        while piece := file.read(CHUNK):
            digest.update(piece)
            own = piece[max(0, begin - size) :]
            if b'"' in own or _has_empty_line(last, own):
                return None
            if own:
                offset, last = size + len(piece) - len(own), own[-1:]
                ends = np.flatnonzero(np.frombuffer(own, dtype=np.uint8) == 10)
                wanted = np.arange((EVERY - 1 - count) % EVERY, len(ends), EVERY)
                places += (offset + ends[wanted] + 1).tolist()
                count += len(ends)
            size += len(piece)
    count += last != b"\n"
    if places[-1] != size:
        places.append(size)
    return LineIndex(count, begin, places, digest.hexdigest())


def _has_empty_line(last: bytes, piece: bytes) -> bool:
    """Return whether some line of a piece is empty or a comment.  last  the byte before the piece."""
    joined = last + piece[:2]
    starts = any(joined.startswith(mark) for mark in (b"\n\n", b"\n\r", b"\n#"))
    return (
        starts
        or b"\n\n" in piece
        or b"\n\r" in piece
        or b"\n#" in piece
        or (b"\r" in piece and b"\r\n" not in piece and not piece.endswith(b"\r"))
    )


def read_rows(path: str, index: LineIndex, start: int, stop: int, *, where: str, options: LoadOptions) -> Dataset:
    """Read rows [start, stop) as the data set that these lines alone would give."""
    with open(path, "rb") as file:
        head = file.read(max(HEAD, index.begin))
        low, high = start // EVERY, min(-(-stop // EVERY), len(index.places) - 1)
        file.seek(index.places[low])
        piece = file.read(index.places[high] - index.places[low])
    ends = np.flatnonzero(np.frombuffer(piece, dtype=np.uint8) == 10) + 1
    edges = np.concatenate([[0], ends, [len(piece)] if not piece.endswith(b"\n") else []]).astype(np.int64)
    if len(edges) <= stop - low * EVERY:
        raise DataError(
            "has fewer rows than at the start of the run", where=where, hint="the file changed during the run: start the run again"
        )
    own = head[: index.begin] + piece[edges[start - low * EVERY] : edges[stop - low * EVERY]].removesuffix(b"\n") + b"\n"
    return delimited_text.read(io.BytesIO(own), head, where=where, options=options)


def _cache_path(path: str) -> Path | None:
    """Return the path of a file's cached index; None for small files."""
    state = os.stat(path)
    if state.st_size < LEAST:
        return None
    key = f"1 {os.path.realpath(path)} {state.st_size} {state.st_mtime_ns} {state.st_ino}"
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(home) / "herd" / f"lines-{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


def _load_cached_index(cache_path: Path | None) -> LineIndex | None:
    """Return the index that an earlier run cached, if it can be read."""
    if cache_path is None:
        return None
    with contextlib.suppress(OSError, ValueError, TypeError):
        found = LineIndex(**json.loads(cache_path.read_text()))
        if len(found.places) == -(-found.count // EVERY) + 1:
            return found
    return None


def _save_cache(cache_path: Path, results: dict[str, Any]) -> None:
    """Cache the results of a pass; a folder that cannot be written is ignored."""
    with contextlib.suppress(OSError):
        cache_path.parent.mkdir(parents=True, exist_ok=True)
        fresh = cache_path.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(results))
        os.replace(fresh, cache_path)
