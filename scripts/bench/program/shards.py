"""Work dealt out and rows read by parts: time, error bounds, peaks of memory, the cost of a shard that has nothing to do.

    python scripts bench/program/shards --herding 1e7        # two shards at a time, and their merge
    python scripts bench/program/shards --parts data         # nherd-train --parts beside one pass; the folder holds data sets
    python scripts bench/program/shards --memory 1e6,1e7     # peaks of commands that read rows by blocks
    python scripts bench/program/shards --memory 250000,2500000 --columns 500 --only "kernel-herd,nherd-train,apply,em"   # 1 and 10 GB
    python scripts bench/program/shards --memory 250000,2500000 --columns 500 --only "fit-rbm,rbm"
    python scripts bench/program/shards --sums 1e7           # regress --one-pass beside regress
    python scripts bench/program/shards --empty
    python scripts bench/program/shards --units 10 --rounds 1e7   # --cluster local:2 beside one process of one thread: some six minutes
    python scripts bench/program/shards --kills 30

--herding  kernel-herd -m 1000 --block-rows 50000 of N rows in ten columns: seconds, CPU seconds and peak of two shards side by side and of
           the merge, and the bound of what is added to the MMD.  Bars: 60 s in all on two free cores (told as CPU s ÷ 2 too), a bound
           below the MMD.
--parts    share of test rows that are misjudged after one pass, after one pass in 2, 8 and 32 parts that are merged, and after 2 and 4
           rounds of 8 parts.
--memory   peak of resident memory of each command (those whose names begin with a word of --only) on HDF5 files of N rows in so many
           columns and a label, which repeat 2.6·10⁵ rows; bar: what the largest takes more than the smallest is at most 30 bytes a row
           (labels and their split stay in memory) and 20 MB.
--sums     regress of N rows in ten columns: CPU seconds and peak of all passes, of one pass, of its two shards and of their merge; the
           label is predicted.  Bars: the bytes of one run from the shards, a pass in at most the CPU seconds of all.
--empty    CPU seconds of a shard beyond the last unit, beside `import numpy, h5py`; least of five.  Bar: .15 above.
--units    --cluster local:2 beside one process: seconds until a run of nothing begins, seconds added to each of many small units by a
           worker that lives, and ten units of so many seconds each, the least of two, beside what two processes of five units each
           reach without a cluster.  Bars: 3 s, 50 ms, 1.8 times as fast.
--rounds   an em round of ten components on N rows in ten columns, of the difference between runs of 3 and of 9.  Bar: 1.7 times as fast.
--kills    workers of --cluster local:2 killed at so many random times, seconds apart: bar: the bytes of one process every time.

Each section is a function of the namespace of options; another one is a function more.  Exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

HERD = [sys.executable, "-m", "herdcli.cli.main"]
COLUMNS, PIECE = 10, 1 << 18
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # under it every process compiles its sources again


def rows_in(path: Path, rows: int, columns: int = COLUMNS, *, repeated: bool = False) -> None:
    """A mixture of 8 Gaussians with the component as label, in HDF5.  repeated: the same rows again and again, which takes less time."""
    random, made = np.random.default_rng(0), None
    centres = 2.0 * random.standard_normal((8, columns))
    with h5py.File(path, "w") as file:
        X = file.create_dataset("X", (rows, columns), dtype="f8", chunks=(min(rows, max(1, 81_920 // columns)), columns))
        y = file.create_dataset("y", (rows,), dtype="u1")
        piece = min(PIECE, max(1, 40_000_000 // columns))
        for start in range(0, rows, piece):
            if made is None or not repeated:
                which = random.integers(8, size=piece)
                made = centres[which] + random.standard_normal((piece, columns)), which
            count = min(piece, rows - start)
            X[start : start + count], y[start : start + count] = (item[:count] for item in made)


def apart(work: Callable[..., None], *arguments: object, **options: object) -> None:
    """Do it in a process of its own: what this one takes counts as the least peak of every child that it starts (getrusage(2))."""
    child = os.fork()
    if not child:
        work(*arguments, **options)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise SystemExit("the rows cannot be written")


def table_in(path: Path, made: Path) -> None:
    """The rows of an HDF5 file as Parquet, in groups."""
    import pyarrow as pa
    from pyarrow import parquet

    with h5py.File(path) as file:
        X, groups = file["X"], None
        for start in range(0, len(X), PIECE // 8):
            part = X[start : start + PIECE // 8]
            labels = {"y": file["y"][start : start + len(part)]}
            table = pa.table({f"x{column}": part[:, column] for column in range(part.shape[1])} | labels)
            groups = groups or parquet.ParquetWriter(made, table.schema, compression="none")
            groups.write_table(table)
        if groups is not None:
            groups.close()


def started(folder: Path, *words: object) -> subprocess.Popen[bytes]:
    line = [*HERD, *map(str, words)]
    return subprocess.Popen(line, cwd=folder, env=os.environ | ONE_THREAD, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def ended(child: subprocess.Popen[bytes]) -> tuple[float, float]:
    """CPU seconds and peak in MB of a child, which must have succeeded."""
    said = child.stderr.read() if child.stderr else b""
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(said.decode())
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def run(folder: Path, *words: object) -> tuple[float, float]:
    return ended(started(folder, *words))


def figures(folder: Path, *words: object) -> dict[str, float]:
    made = subprocess.run([*HERD, "eval", *map(str, words), "--format", "json"], cwd=folder, capture_output=True, check=True)
    found: dict[str, float] = json.loads(made.stdout)[0]
    return found


def herding(asked: argparse.Namespace, folder: Path) -> bool:
    rows = int(float(asked.herding))
    rows_in(folder / "rows.h5", rows)
    options = ("kernel-herd", "rows.h5", "-m", 1000, "--block-rows", 50_000, "-j", 1, "-q")
    begun = time.monotonic()
    children = [started(folder, *options, "--shard", f"{i}/2", "-o", f"{i}.h5") for i in (1, 2)]
    used = [ended(child) for child in children]
    middle = time.monotonic()
    merged = run(folder, "merge", "1.h5", "2.h5", "-o", "merged.h5", "-q")
    whole, bound = time.monotonic() - begun, None
    with h5py.File(folder / "merged.h5") as file:
        mmd, bound = float(file["summary/mmd"][0]), float(file["summary/embedding_error"][0])
    cpu = [round(seconds, 1) for seconds, _ in used]
    print(f"{rows} x {COLUMNS} -> 1000 by 2 shards: {whole:.1f} s, merge {whole - middle + begun:.1f} s of them")
    print(f"  CPU s {cpu[0]} and {cpu[1]}, merge {merged[0]:.1f}; peaks {used[0][1]:.0f}, {used[1][1]:.0f} and {merged[1]:.0f} MB")
    print(f"  MMD {mmd:.4g}, to all rows within {bound:.2g} of it; in all {max(cpu) + merged[0]:.1f} s of two free cores (bar 60)")
    return min(whole, max(cpu) + merged[0]) <= 60 and bound < mmd


def sums(asked: argparse.Namespace, folder: Path) -> bool:
    apart(rows_in, folder / "rows.h5", int(float(asked.sums)))
    line = ("regress", "rows.h5", "-j", 1, "-q")
    found = {"all passes": run(folder, *line, "--family", "gaussian", "--max-memory", "32G", "-o", "many.h5")}
    found["one pass"] = run(folder, *line, "--one-pass", "-o", "one.h5")
    for index in (1, 2):
        found[f"shard {index} of 2"] = run(folder, *line, "--one-pass", "--shard", f"{index}/2", "-o", f"{index}.h5")
    found["their merge"] = run(folder, "merge", "1.h5", "2.h5", "-q", "-o", "merged.h5")
    for name, (seconds, peak) in found.items():
        print(f"regress, {name}: {seconds:.1f} CPU s, {peak:.0f} MB")
    same = (folder / "merged.h5").read_bytes() == (folder / "one.h5").read_bytes()
    return same and found["one pass"][0] <= found["all passes"][0]


def parts(asked: argparse.Namespace, folder: Path) -> bool:
    for path in sorted(Path(asked.parts).glob("*.h5")):
        with contextlib.suppress(SystemExit, subprocess.CalledProcessError, KeyError):
            line = []
            for count, times in ((1, 1), (2, 1), (8, 1), (32, 1), (8, 2), (8, 4)):
                options = ("--split", ".6,.2,.2", "--shuffle", "-q", "-o", "model.h5") + (("--parts", count) if count > 1 else ())
                run(folder, "nherd-train", path.resolve(), *options, *(("--rounds", times) if times > 1 else ()))
                line.append(f"{100 * figures(folder, 'model.h5')['error']:.2f}")
            print(f"{path.stem}: error in % of one pass {line[0]}, in 2, 8 and 32 parts {', '.join(line[1:4])}", end="")
            print(f", in 2 and 4 rounds of 8 parts {' and '.join(line[4:])}")
    return True


OF_RBM = ("--batch-size", 1000, "--learning-rate", 0.001, "-j", 1, "-o", "rbm-ROWS")
OUT = ("-j", 1, "-o", "out.h5")
OF_COUNTS = ("--range", "-40,40", "--threshold", ".5", "--structure", "independent", "--split", "1,0,0", "-o", "out.h5")
STREAMED = {  # commands whose peaks do not grow with the rows
    "kernel-herd --block-rows": ("kernel-herd", "ROWS", "-m", 100, "--block-rows", 50_000, "-j", 1, "-o", "out.h5"),
    "nherd-train": ("nherd-train", "ROWS", "--C", 1, "-o", "out.h5"),
    "convert to CSV": ("convert", "ROWS", "-o", "out.csv"),
    "convert to Parquet": ("convert", "ROWS", "-o", "out.parquet"),
    "apply to CSV": ("apply", "model.h5", "ROWS", "-j", 1, "-o", "out.csv"),
    "classifier: apply to CSV": ("apply", "learned.h5", "ROWS", "-j", 1, "-o", "out.csv"),
    "classifier: apply to HDF5": ("apply", "learned.h5", "ROWS", "-j", 1, "-o", "out.h5"),
    "classifier: apply to Parquet": ("apply", "learned.h5", "ROWS", "-j", 1, "-o", "out.parquet"),
    "classifier: eval --data": ("eval", "learned.h5", "--data", "ROWS", "-o", "out.json"),
    "regression: eval --data": ("eval", "fitted.h5", "--data", "ROWS", "-j", 1, "-o", "out.json"),
    "factors: eval --data": ("eval", "model.h5", "--data", "ROWS", "-j", 1, "-o", "out.json"),
    "filters: eval --data": ("eval", "filters.h5", "--data", "ROWS", "-j", 1, "-o", "out.json"),
    "regression: apply to HDF5": ("apply", "fitted.h5", "ROWS", "-j", 1, "-o", "out.h5"),
    "harmonium: apply to HDF5": ("apply", "binary.h5", "ROWS", "--threshold", ".5", "--range", "-40,40", "-j", 1, "-o", "out.h5"),
    "harmonium: states to HDF5": (*("apply", "binary.h5", "ROWS", "--threshold", ".5", "--range", "-40,40"), "--want", "states", *OUT),
    "gaussian: energies to CSV": ("apply", "gaussian.h5", "ROWS", "--want", "energies", "-j", 1, "-o", "out.csv"),
    "fit-rbm --on-disk": (*("fit-rbm", "ROWS", "--on-disk", "--visible-units", "gaussian", "--hidden", 8, "--epochs", 1), *OF_RBM),
    "rbm: eval --data": ("eval", "rbm-ROWS", "--data", "ROWS", "-j", 1, "-o", "out.json"),
    "fit-mrf": ("fit-mrf", "ROWS", *OF_COUNTS),
    "regress --one-pass": ("regress", "ROWS", "--one-pass", "-j", 1, "-o", "out.h5"),
    "ica --one-pass": ("ica", "ROWS", "--one-pass", "--components", 8, "--iterations", 20, "-j", 1, "-o", "out.h5"),
    "Parquet: apply to CSV": ("apply", "learned.h5", "TABLE", "-j", 1, "-o", "out.csv"),
    "Parquet: eval --data": ("eval", "learned.h5", "--data", "TABLE", "-o", "out.json"),
    "em --on-disk": ("em", "ROWS", "--on-disk", "--model", "kmeans", "--components", 4, "--iterations", 2, "-j", 1, "-o", "out.h5"),
}
MODELS = {  # made of few rows, for those commands that need one
    "model.h5": ("em", "few.h5", "--model", "ppca", "--components", 2, "--iterations", 2),
    "learned.h5": ("nherd-train", "few.h5", "--C", 1),
    "filters.h5": ("ica", "few.h5", "--components", 8, "--algorithm", "fastica", "--iterations", 20),
    "fitted.h5": ("regress", "few.h5", "--target", "y", "--family", "gaussian", "--l2", 1),
    "binary.h5": ("fit-rbm", "few.h5", "--threshold", ".5", "--range", "-40,40", "--hidden", 16, "--epochs", 1, "--batch-size", 100),
    "gaussian.h5": ("fit-rbm", "few.h5", "--visible-units", "gaussian", "--hidden", 8, "--epochs", 1, *OF_RBM[:4]),
}


def memory(asked: argparse.Namespace, folder: Path) -> bool:
    sizes, good = [int(float(text)) for text in asked.memory.split(",")], True
    for rows in sizes:
        apart(rows_in, folder / f"{rows}.h5", rows, asked.columns, repeated=True)
        if any(name.startswith(tuple(asked.only.split(","))) for name in STREAMED if name.startswith("Parquet")):
            apart(table_in, folder / f"{rows}.h5", folder / f"{rows}.parquet")
    apart(rows_in, folder / "few.h5", 5000, asked.columns)
    for name, words in STREAMED.items():
        if not name.startswith(tuple(asked.only.split(","))):
            continue
        for word in set(words) & set(MODELS):
            run(folder, *MODELS[str(word)], "-q", "-o", word)
        lines = [[str(word).replace("ROWS", f"{rows}.h5").replace("TABLE", f"{rows}.parquet") for word in words] for rows in sizes]
        used = [run(folder, *line, "-q") for line in lines]
        peaks = [peak for _, peak in used]
        each = zip(sizes, used, strict=True)
        told = ", ".join(f"{rows * asked.columns * 8 / 1e9:g} GB {peak:.0f} MB ({spent:.0f} CPU s)" for rows, (spent, peak) in each)
        print(f"{name}: {told}", flush=True)
        good &= max(peaks) - min(peaks) <= 20 + 30 * (max(sizes) - min(sizes)) / 1e6
    return good


EMPTY = {
    "fit-rbm --per-class": ("fit-rbm", "digits.h5", "--per-class", "--epochs", 1),
    "herd --per-class": ("herd", "digits.h5", "--per-class", "--iterations", 5),
    "kernel-herd --by": ("kernel-herd", "digits.h5", "--by", "y", "-m", 3),
    "kernel-herd --block-rows": ("kernel-herd", "digits.h5", "-m", 3, "--block-rows", 500),
    "nherd-train --parts": ("nherd-train", "digits.h5", "--parts", 4),
    "regress --one-pass": ("regress", "numbers.csv", "--one-pass"),
    "ica --one-pass": ("ica", "numbers.csv", "--one-pass"),
}


def empty(asked: argparse.Namespace, folder: Path) -> bool:
    def least(line: list[str]) -> float:
        found = []
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(line, cwd=folder, check=True, capture_output=True, env=os.environ | ONE_THREAD)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(found)

    run(folder, "data", "digits", "-o", "digits.h5")
    (folder / "numbers.csv").write_text("a,b,y\n" + "".join(f"{n % 17},{n % 5},{n % 7}\n" for n in range(1000)))
    alone, good = least([sys.executable, "-c", "import numpy, h5py"]), True
    print(f"numpy and h5py: {alone:.2f} CPU s")
    for name, words in EMPTY.items():
        used = least([*HERD, *map(str, words), "--shard", "40/40", "-o", "out.h5", "-q"])
        print(f"{name}: {used:.2f} CPU s, {used - alone:.2f} above")
        good &= used <= alone + 0.15
    return good


def seconds(folder: Path, *words: object) -> float:
    """Wall time of a command, which must succeed."""
    return together(folder, words)


def together(folder: Path, *commands: tuple[object, ...]) -> float:
    """Wall time of commands that run side by side; each must succeed."""
    begun = time.monotonic()
    for child in [started(folder, *words) for words in commands]:
        ended(child)
    return time.monotonic() - begun


def units(asked: argparse.Namespace, folder: Path) -> bool:
    random = np.random.default_rng(0)
    dealt, quiet = ("--cluster", "local:2"), ("-j", 1, "-q", "-o", "made.h5")
    with h5py.File(folder / "rows.h5", "w") as file:
        file["X"] = random.standard_normal((2000, 4))
        file["few"], file["many"] = np.arange(2000) % 10, np.arange(2000) % 250
    small = {
        (name, how): min(
            seconds(folder, "kernel-herd", "rows.h5", "--by", name, "-m", 4, *(() if how == "one" else dealt), *quiet) for _ in range(3)
        )
        for name in ("few", "many")
        for how in ("one", "dealt")
    }
    start = small["few", "dealt"] - small["few", "one"]
    added = 2 * ((small["many", "dealt"] - small["few", "dealt"]) - (small["many", "one"] - small["few", "one"]) / 2) / 240
    print(f"a run on a cluster of its own begins after {start:.2f} s (bar 3); {1000 * added:.0f} ms a unit of a worker's time (bar 50)")
    digits = Path(__file__).resolve().parents[3] / "data" / "digits.h5"
    learn = ("fit-rbm", digits, "--per-class", "--hidden", 200, *quiet, "--epochs")
    epochs = max(1, round(100 * 10 * float(asked.units) / (seconds(folder, *learn, 110) - seconds(folder, *learn, 10))))
    taken: dict[str, list[float]] = {"one": [], "two": [], "apart": []}
    for _ in range(2):  # in turn: the machine's pace changes
        taken["one"].append(seconds(folder, *learn, epochs))
        taken["two"].append(seconds(folder, *learn, epochs, *dealt))
        taken["apart"].append(together(folder, *((*learn, epochs, "--shard", f"{n}/2", "-o", f"{n}.h5") for n in (1, 2))))
    one, two, apart = (min(taken[how]) for how in taken)
    print(
        f"ten units of {one / 10:.1f} s: {one:.1f} s in one process, {two:.1f} s with two workers, {one / two:.2f} times as fast (bar 1.8);"
        f" two processes of five units each, side by side and without a cluster, {one / apart:.2f} times"
    )
    return start <= 3.0 and added <= 0.05 and one / two >= 1.8


def rounds(asked: argparse.Namespace, folder: Path) -> bool:
    rows_in(folder / "rows.h5", int(float(asked.rounds)))
    learn = ("em", "rows.h5", "--components", 10, "--tolerance", 0, "--split", "1,0,0", "-j", 1, "-q", "-o", "made.h5", "--iterations")
    each = {}
    for how in ((), ("--cluster", "local:1"), ("--cluster", "local:2")):
        each[how] = (seconds(folder, *learn, 9, *how) - seconds(folder, *learn, 3, *how)) / 6
        print(f"em {' '.join(how) or 'in one process'}: {each[how]:.2f} s a round")
    faster = each[()] / each["--cluster", "local:2"]
    print(f"two workers: {faster:.2f} times as fast (bar 1.7)")
    return faster >= 1.7


def workers_of(pid: int) -> list[int]:
    """The worker processes that a run has begun."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found if b"herdcli.cluster.worker_process" in Path(f"/proc/{child}/cmdline").read_bytes()]


def kills(asked: argparse.Namespace, folder: Path) -> bool:
    draw, killed, same, runs = np.random.default_rng(), 0, 0, 0
    digits = Path(__file__).resolve().parents[3] / "data" / "digits.h5"
    learn = ("fit-rbm", digits, "--per-class", "--epochs", 900, "-j", 1, "-q", "-o")
    run(folder, *learn, "one.h5")
    while killed < int(asked.kills):
        child, runs = started(folder, *learn, "dealt.h5", "--cluster", "local:2", "--retries", 50), runs + 1
        while child.poll() is None and killed < int(asked.kills):
            time.sleep(draw.uniform(0.2, 3.0))
            with contextlib.suppress(OSError):  # of a worker, or a run, that has ended meanwhile
                os.kill(int(draw.choice(workers_of(child.pid) or [1 << 30])), signal.SIGKILL)
                killed += 1
        child.wait()
        same += child.returncode == 0 and (folder / "dealt.h5").read_bytes() == (folder / "one.h5").read_bytes()
    print(f"{killed} workers killed in {runs} runs: {same} of them have the bytes of one process (bar: all)")
    return same == runs


SECTIONS = {
    "herding": herding,
    "parts": parts,
    "memory": memory,
    "sums": sums,
    "empty": empty,
    "units": units,
    "rounds": rounds,
    "kills": kills,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--herding", metavar="ROWS")
    parser.add_argument("--parts", metavar="FOLDER")
    parser.add_argument("--memory", metavar="ROWS,…")
    parser.add_argument("--columns", type=int, default=COLUMNS)
    parser.add_argument("--only", metavar="NAME,…", default="")
    parser.add_argument("--sums", metavar="ROWS")
    parser.add_argument("--empty", action="store_true")
    parser.add_argument("--units", metavar="SECONDS")
    parser.add_argument("--rounds", metavar="ROWS")
    parser.add_argument("--kills", metavar="N")
    asked, good = parser.parse_args(), True
    for name, section in SECTIONS.items():
        if getattr(asked, name):
            with tempfile.TemporaryDirectory() as folder:
                good &= section(asked, Path(folder))
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
