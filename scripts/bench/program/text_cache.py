"""The cache of parsed text as its own file of arrays and as an Arrow IPC file: seconds to write and to read, as ratios in one run.

    python scripts bench/program/text_cache

Pieces of sparse rows, as `herd nherd-train --cache` keeps them.  Reading maps the file and sums every value, so that each page is touched;
the cache's own check of its sums is measured apart, for which Arrow has nothing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from herdcli.artifacts.text.parsed_text_cache import ParsedCache, ParsedPiece, Rows, write_cache

NAMES = ("pointer", "value", "label", "weight", "index")
KEY = b"bench"


def pieces(count: int, rows: int, entries: int) -> list[Rows]:
    """Rows of so many entries each."""
    rng = np.random.default_rng(0)
    total = rows * entries
    pointer = np.arange(0, total + 1, entries, dtype=np.int64)
    return [
        (pointer, rng.normal(size=total), rng.choice([-1.0, 1.0], rows), None, rng.integers(0, 1 << 18, total, dtype=np.int32))
        for _ in range(count)
    ]


def write_own(path: Path, made: list[Rows]) -> None:
    with write_cache(str(path), KEY) as writer:
        for rows in made:
            writer.add(ParsedPiece([rows], b"", {}))
        writer.finish()


def read_own(path: Path, count: int, *, check: bool) -> float:
    store = ParsedCache(str(path), KEY)
    found = (store.piece(number, check=check) for number in range(count))
    return sum(float(rows[1].sum()) + int(rows[4].sum()) for piece in found if piece is not None for rows in piece.blocks)


def write_arrow(path: Path, made: list[Rows]) -> None:
    """A record batch for each piece: lists of one row, since the arrays of a piece have different lengths."""
    types = (pa.int64(), pa.float64(), pa.float64(), pa.float64(), pa.int32())
    schema = pa.schema([(name, pa.large_list(kind)) for name, kind in zip(NAMES, types, strict=True)])
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        for rows in made:
            columns = [
                pa.nulls(1, pa.large_list(kind))
                if array is None
                else pa.LargeListArray.from_arrays(pa.array([0, len(array)], pa.int64()), pa.array(array, kind))
                for array, kind in zip(rows, types, strict=True)
            ]
            writer.write_batch(pa.record_batch(columns, schema=schema))


def read_arrow(path: Path) -> float:
    def values() -> Iterator[float]:
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                yield float(batch.column(1).values.to_numpy().sum()) + int(batch.column(4).values.to_numpy().sum())

    return sum(values())


def least(action: Callable[[], object], runs: int) -> float:
    """Seconds of processor time, the least of several runs."""
    times = []
    for _ in range(runs):
        began = time.process_time()
        action()
        times.append(time.process_time() - began)
    return min(times)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pieces", type=int, default=16)
    parser.add_argument("--rows", type=int, default=8_000)
    parser.add_argument("--entries", type=int, default=30)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    made = pieces(options.pieces, options.rows, options.entries)
    with tempfile.TemporaryDirectory() as folder:
        own, arrow = Path(folder) / "own", Path(folder) / "arrow"
        wrote = [least(lambda: write_own(own, made), options.runs), least(lambda: write_arrow(arrow, made), options.runs)]
        if read_own(own, len(made), check=True) != read_arrow(arrow):
            raise SystemExit("the two caches hold different values")
        read = [least(lambda: read_own(own, len(made), check=False), options.runs), least(lambda: read_arrow(arrow), options.runs)]
        checked = least(lambda: read_own(own, len(made), check=True), options.runs)
        sizes = [path.stat().st_size for path in (own, arrow)]
    print(f"write: own {wrote[0]:.3f} s, Arrow {wrote[1]:.3f} s, ratio {wrote[1] / wrote[0]:.2f}")
    print(f"read:  own {read[0]:.4f} s, Arrow {read[1]:.4f} s, ratio {read[1] / read[0]:.2f}; own with its check {checked:.3f} s")
    print(f"size:  own {sizes[0] / 1e6:.1f} MB, Arrow {sizes[1] / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
