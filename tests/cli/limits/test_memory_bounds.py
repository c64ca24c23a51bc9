"""--max-memory bounds the peak resident size, the program itself included: never more than the larger of the option and
`process_limits.SHARE`."""

from __future__ import annotations

import gzip
import io
import json
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from herdcli.artifacts import process_limits
from herdcli.artifacts.sealed import seal_header
from herdcli.cli.main import COMMANDS

HERD = Path(sys.executable).with_name("herd")
LIMIT = process_limits.SHARE
REFUSED = ("more than the", "needs more memory than", "2000000000 values as CSV")
SMALL = """import os, resource, sys
child = os.spawnv(os.P_WAIT, sys.argv[1], sys.argv[1:])
print(child, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"""


def plain(folder: Path) -> str:
    (folder / "in.csv").write_text("a,b,c,y\n" + "1.25,2.5,3,0\n" * 2_600_000)
    return "in.csv"


def gzipped(folder: Path) -> str:
    with gzip.open(folder / "in.csv.gz", "wb", 1) as file:
        file.write(b"a,b,y\n")
        for _ in range(60):
            file.write(b"0,0,0\n1,1,1\n" * 131_072)
    return "in.csv.gz"


def zstandard(folder: Path) -> str:
    with open(folder / "in.csv.zst", "wb") as out, pa.CompressedOutputStream(pa.PythonFile(out, mode="w"), "zstd") as file:
        file.write(b"a,b,y\n")
        for _ in range(60):
            file.write(b"0,0,0\n1,1,1\n" * 131_072)
    return "in.csv.zst"


def long_line(folder: Path) -> str:
    (folder / "in.svm").write_bytes(b"1 " + b" ".join(b"%d:1.5" % i for i in range(1, 1_200_000)) + b"\n")
    return "in.svm"


def huge_index(folder: Path) -> str:
    (folder / "in.svm").write_text("1 1:1 2000000000:2\n-1 2:1\n" * 20)
    return "in.svm"


def dictionary(folder: Path) -> str:
    """20 million equal numbers, of which a dictionary and run lengths make a few kB."""
    zeros = pa.array(np.zeros(20_000_000))
    pq.write_table(pa.table({"a": zeros, "b": zeros}), folder / "in.parquet", compression="zstd", use_dictionary=True)
    return "in.parquet"


def run_lengths(folder: Path) -> str:
    """250 million booleans in groups of 10, run-length coded."""
    group = pa.table({"a": pa.array(np.zeros(10_000_000, dtype=bool))})
    with pq.ParquetWriter(folder / "in.parquet", group.schema, use_dictionary=False) as writer:
        for _ in range(25):
            writer.write_table(group)
    return "in.parquet"


def texts(folder: Path) -> str:
    """One long text, named by every row of a dictionary."""
    long = pa.DictionaryArray.from_arrays(pa.array(np.zeros(20_000, dtype=np.int32)), pa.array(["x" * 100_000]))
    pq.write_table(pa.table({"a": pa.array(np.zeros(20_000)), "label": long}), folder / "in.parquet")
    return "in.parquet"


def arrow(folder: Path) -> str:
    """Buffers that a few kB unfold to; the file says it nowhere before they are read."""
    table = pa.table({"a": pa.array(np.zeros(40_000_000))})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.OSFile(str(folder / "in.arrow"), "wb") as out, pa.ipc.new_file(out, table.schema, options=options) as writer:
        writer.write_table(table)
    return "in.arrow"


def chunk(folder: Path) -> str:
    with h5py.File(folder / "in.h5", "w") as file:
        file.create_dataset("X", data=np.zeros((8_000_000, 8), dtype=np.float32), compression="gzip", chunks=(8_000_000, 8))
    return "in.h5"


def archive(folder: Path) -> str:
    with zipfile.ZipFile(folder / "in.npz", "w", zipfile.ZIP_DEFLATED) as file, file.open("X.npy", "w", force_zip64=True) as member:
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (13_000_000, 2)})
        member.write(head.getvalue())
        for _ in range(208):
            member.write(bytes(1_000_000))
    return "in.npz"


def array(folder: Path) -> str:
    with open(folder / "in.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (100_000_000, 2)})
        file.truncate(file.tell() + 1_600_000_000)  # a hole
    return "in.npy"


def idx(folder: Path) -> str:
    with gzip.open(folder / "in-idx3-ubyte.gz", "wb", 1) as file:
        file.write(struct.pack(">BBBBIII", 0, 0, 8, 3, 300_000, 28, 28))
        for _ in range(240):
            file.write(bytes(1_000_000))
    return "in-idx3-ubyte.gz"


def lines_of_json(folder: Path) -> str:
    with gzip.open(folder / "in.jsonl.gz", "wb", 1) as file:
        for _ in range(40):
            file.write((json.dumps({"a": 0, "b": 1}) + "\n").encode() * 150_000)
    return "in.jsonl.gz"


def sound(folder: Path) -> str:
    with gzip.open(folder / "in.wav.gz", "wb", 1) as file:
        size = 240_000_000
        file.write(b"RIFF" + struct.pack("<I", 36 + size) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16))
        file.write(b"data" + struct.pack("<I", size))
        for _ in range(240):
            file.write(bytes(1_000_000))
    return "in.wav.gz"


READERS = {
    "convert": "convert BOMB -o out.h5",
    "convert to CSV": "convert BOMB -o out.csv",
    "fit-rbm": "fit-rbm BOMB --hidden 3 --epochs 1 -o out.h5",
    "herd": "herd BOMB --hidden 3 --iterations 2 -o out.h5",
    "kernel-herd": "kernel-herd BOMB -m 3 -o out.h5",
    "fit-mrf": "fit-mrf BOMB --structure chow-liu --values states -o out.h5",
    "ica": "ica BOMB --iterations 2 -o out.h5",
    "em": "em BOMB --components 2 --iterations 2 -o out.h5",
    "em hmm": "em BOMB --model hmm --components 2 --iterations 2 -o out.h5",
    "em lds": "em BOMB --model lds --components 1 --iterations 2 -o out.h5",
    "fit-rbm recurrent": "fit-rbm BOMB --recurrent --hidden 3 --epochs 1 -o out.h5",
    "sample given": "sample rbm.h5 --given BOMB --count 1 --burn-in 1 -o out.h5",
    "regress": "regress BOMB -o out.h5",
    "nherd-train": "nherd-train BOMB -o out.h5",
    "nherd-train full": "nherd-train BOMB --covariance full -o out.h5",
    "apply": "apply model.h5 BOMB -o out.h5",
    "eval": "eval model.h5 --data BOMB",
    "ups-infer": "ups-infer tree.h5 --evidence-rows BOMB -o out.h5",
}
BOMBS: tuple[Callable[[Path], str], ...] = (
    *(plain, gzipped, zstandard, long_line, dictionary, run_lengths, texts, arrow),
    *(chunk, archive, array, idx, lines_of_json, sound),
)
LATER = ("em hmm", "em lds", "fit-rbm recurrent", "sample given")  # read by the doors of the others: all of it is slow
QUICK = (
    [("convert", bomb) for bomb in BOMBS] + [(command, chunk) for command in READERS if command not in LATER] + [("nherd-train", long_line)]
)
NAMELESS = [("regress", array), *((command, idx) for command in ("regress", "em hmm", "em lds", "fit-rbm recurrent"))]
# one array has no column to predict, and no sequences, which is told first
REST = [(command, bomb) for command in READERS for bomb in BOMBS if (command, bomb) not in (*QUICK, *NAMELESS)]
DENSE = ("em", "fit-rbm", "herd", "kernel-herd", "nherd-train full", "convert to CSV")


@pytest.fixture(scope="session")
def bombs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[Path], str]], Path]:
    """The file of a bomb, made once."""
    made: dict[str, Path] = {}

    def of(bomb: Callable[[Path], str]) -> Path:
        if bomb.__name__ not in made:
            folder = tmp_path_factory.mktemp(bomb.__name__)
            made[bomb.__name__] = folder / bomb(folder)
        return made[bomb.__name__]

    return of


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a mixture (model.h5), a network (tree.h5) and a machine (rbm.h5) to run rows through."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "rows.csv").write_text("a,b\n" + "".join(f"{i % 3},{i % 2}\n" for i in range(40)))
    lines = (
        "em rows.csv --components 1 -q -o model.h5",
        "network grid --grid-rows 2 --grid-columns 2 -q -o tree.h5",
        "fit-rbm rows.csv --visible-units gaussian --hidden 2 --epochs 1 -q -o rbm.h5",
        "nherd-train rows.csv --label b -q -o classifier.h5",
    )
    for line in lines:
        subprocess.run([HERD, *line.split()], cwd=folder, check=True, capture_output=True)
    return folder


def refused(command: str, bomb: Path, folder: Path, models: Path, program: Path, environment: dict[str, str], limit: int = LIMIT) -> str:
    """What the command says of the file; fails unless it ends with 65 and has kept to the limit."""
    words = {"BOMB": str(bomb)} | {name: str(models / name) for name in ("model.h5", "tree.h5", "rbm.h5")}
    line = [str(program), *(words.get(word, word) for word in READERS[command].split()), "--max-memory", str(limit)]
    small = [sys.executable, "-Sc", SMALL, *line]  # a child's peak is never told as less than its parent's size
    ended = subprocess.run(small, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    code, peak = map(int, ended.stdout.split())
    assert code == 65, ended.stderr
    assert any(words in ended.stderr for words in REFUSED), ended.stderr
    assert peak * 1024 <= max(limit, process_limits.SHARE), ended.stderr
    assert not list(folder.iterdir())
    return ended.stderr


@pytest.mark.parametrize(("command", "bomb"), [*QUICK, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in REST)])
def test_what_would_take_more_is_refused_before_it_does(tmp_path, herd_command, herd_environment, bombs, models, command, bomb) -> None:
    refused(command, bombs(bomb), tmp_path, models, herd_command, herd_environment())


@pytest.mark.parametrize("command", [DENSE[0], *(pytest.param(name, marks=pytest.mark.slow) for name in DENSE[1:])])
def test_a_huge_index_is_refused_where_columns_are_counted(tmp_path, herd_command, herd_environment, bombs, models, command) -> None:
    refused(command, bombs(huge_index), tmp_path, models, herd_command, herd_environment())


def test_a_table_of_mostly_zeros_is_refused_by_its_size(herd: Callable[..., object], tmp_path: Path) -> None:
    name = huge_index(tmp_path)
    ended = herd("convert", name, "-o", "out.csv")
    assert (ended.code, "40 × 2000000000 values as CSV" in ended.err) == (65, True), ended.err


ARTIFACTS = {  # command -> its line, and a dataset of the file that it reads
    "check": ("check rbm.h5", "W"),
    "info": ("info rbm.h5", "W"),
    "sample": ("sample rbm.h5 --count 2 -o out.h5", "W"),
    "merge": ("merge classifier.h5 classifier.h5 -o out.h5", "mean"),
    "network": ("network convert tree.h5 -o out.uai", "table"),
}


@pytest.mark.parametrize("command", ["check", *(pytest.param(name, marks=pytest.mark.slow) for name in ARTIFACTS if name != "check")])
def test_a_sealed_artifact_that_unfolds_is_refused(tmp_path, herd_command, herd_environment, models, command) -> None:
    line, name = ARTIFACTS[command]
    source = next(word for word in line.split() if word.endswith(".h5"))
    evil = tmp_path / "evil.h5"
    evil.write_bytes((models / source).read_bytes())
    with h5py.File(evil, "r+") as file:
        shape = (100_000_000, *file[name].shape[1:])
        del file[name]
        file.create_dataset(name, shape, "f8", chunks=(1_000_000, *shape[1:]), compression="gzip")
        kind = str(file.attrs["kind"])
    seal_header.write_seal(evil, kind)
    asked = [sys.executable, "-Sc", SMALL, str(herd_command), *line.replace(source, "evil.h5").split(), "--max-memory", str(LIMIT)]
    ended = subprocess.run(asked, cwd=tmp_path, env=herd_environment(), capture_output=True, text=True, check=True)
    code, peak = map(int, ended.stdout.split())
    assert (code, f"evil.h5: /{name}: needs" in ended.stderr) == (65, True), ended.stderr
    assert peak * 1024 <= LIMIT
    assert [path.name for path in tmp_path.iterdir()] == ["evil.h5"]


def test_every_command_with_a_limit_is_held_to_it() -> None:
    limited = {name for name, (module, _) in COMMANDS.items() if "max_memory" in {p.name for p in import_module(module).command.params}}
    tried = {line.split()[0] for line in READERS.values()} | set(ARTIFACTS)
    assert limited - tried == {"cv", "data", "seal", "selftest"}  # which read no values, or in other processes
