"""--max-memory bounds the peak resident size: what the program is itself (SHARE), and as much again as the option says."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

SHARE = 220 << 20  # interpreter, NumPy, SciPy, h5py and pyarrow, which differs between machines
LIMIT = 60 << 20
SMALL = """import os, resource, sys
child = os.spawnv(os.P_WAIT, sys.argv[1], sys.argv[1:])
print(child, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"""


def plain(folder: Path) -> str:
    (folder / "in.csv").write_text("a,b,c\n" + "1.25,2.5,3\n" * 1_200_000)
    return "in.csv"


def folded(folder: Path) -> str:
    with gzip.open(folder / "in.csv.gz", "wb", 6) as file:
        file.write(b"a,b\n")
        for _ in range(100):
            file.write(b"0,0\n" * 262_144)
    return "in.csv.gz"


def long_line(folder: Path) -> str:
    (folder / "in.svm").write_bytes(b"1 " + b" ".join(b"%d:1.5" % i for i in range(1, 1_200_000)) + b"\n")
    return "in.svm"


def dictionary(folder: Path) -> str:
    """20 million equal numbers, which run-length coding makes of a few kB."""
    table = pa.table({"a": pa.array(np.zeros(20_000_000)), "b": pa.array(np.zeros(20_000_000))})
    pq.write_table(table, folder / "in.parquet", compression="zstd", use_dictionary=True)
    return "in.parquet"


def texts(folder: Path) -> str:
    """One long text, named by every row of a dictionary."""
    long = pa.DictionaryArray.from_arrays(pa.array(np.zeros(20_000, dtype=np.int32)), pa.array(["x" * 100_000]))
    pq.write_table(pa.table({"a": pa.array(np.zeros(20_000)), "label": long}), folder / "in.parquet")
    return "in.parquet"


def chunks(folder: Path) -> str:
    with h5py.File(folder / "in.h5", "w") as file:
        file.create_dataset("X", data=np.zeros((4_000_000, 8), dtype=np.float32), compression="gzip", chunks=(1_000_000, 8))
    return "in.h5"


def archive(folder: Path) -> str:
    with zipfile.ZipFile(folder / "in.npz", "w", zipfile.ZIP_DEFLATED) as file, file.open("X.npy", "w", force_zip64=True) as member:
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (10_000_000, 2)})
        member.write(head.getvalue())
        for _ in range(160):
            member.write(bytes(1_000_000))
    return "in.npz"


def largest_index(folder: Path) -> str:
    (folder / "in.svm").write_text("1 1:1 2000000000:2\n-1 2:1\n" * 20)
    return "in.svm"


BOMBS = (plain, folded, long_line, dictionary, texts, chunks, archive)


@pytest.mark.parametrize(
    ("bomb", "command"),
    [*((bomb, "convert") for bomb in BOMBS), (long_line, "nherd-train")],
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
def test_what_would_take_more_is_refused_before_it_does(
    tmp_path: Path, herd_command: Path, herd_environment: Callable[..., dict[str, str]], bomb: Callable[[Path], str], command: str
) -> None:
    name = bomb(tmp_path)
    line = [str(herd_command), command, name, "--max-memory", str(LIMIT), "-o", "out.h5"]
    small = [sys.executable, "-Sc", SMALL, *line]  # a child's peak is never told as less than its parent's size
    ended = subprocess.run(small, cwd=tmp_path, env=herd_environment(), capture_output=True, text=True, check=True)
    code, peak = map(int, ended.stdout.split())
    assert code == 65, ended.stderr
    assert name in ended.stderr
    assert peak * 1024 < SHARE + LIMIT, ended.stderr
    assert not (tmp_path / "out.h5").exists()


def test_a_table_of_mostly_zeros_is_refused_by_its_size(herd: Callable[..., object], tmp_path: Path) -> None:
    name = largest_index(tmp_path)
    ended = herd("convert", name, "-o", "out.csv")
    assert (ended.code, "40 × 2000000000 values as CSV" in ended.err) == (65, True), ended.err
