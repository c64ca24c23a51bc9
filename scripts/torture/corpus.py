"""The small files that are tortured, how they are made, and every command that reads them."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import numpy as np

from . import lanes

ROOT = Path(__file__).resolve().parents[2]

# file -> the command that makes it, in this order; the texts it begins with are written by `texts`
MADE: dict[str, str] = {
    "bin.h5": "convert rows.csv",
    "real.h5": "convert points.csv --label label",
    "rbm.h5": "fit-rbm bin.h5 --hidden 3 --epochs 1",
    "classes.h5": "fit-rbm bin.h5 --hidden 3 --epochs 1 --per-class",
    "dbn.h5": "fit-rbm bin.h5 --layers 4,3 --epochs 1",
    "herding.h5": "herd bin.h5 --hidden 3 --iterations 30 --burn-in 10",
    "visible.h5": "herd bin.h5 --model mrf --iterations 30 --burn-in 10",
    "linear.h5": "nherd-train real.h5 --covariance full",
    "kernel.h5": "nherd-train real.h5 --kernel gaussian",
    "stream.h5": "nherd-train stream.svm",
    "samples.h5": "kernel-herd points.csv -m 4",
    "network.h5": "network grid --rows 3 --columns 3 --observe border",
    "beliefs.h5": "ups-infer network.h5 --algorithm ups",
    "sources.h5": "ica sources.csv --algorithm ml",
    "filters.h5": "ica sources.csv --algorithm ebm --filters 4 --gamma-rate 0.1 --leapfrog 3 --rates 0.01x5",
    "mixture.h5": "em points.csv --components 2",
    "kmeans.h5": "em points.csv --model kmeans --components 3",
    "factors.h5": "em sources.csv --model fa --components 1",
    "regression.h5": "regress points.csv --target b",
    "report.h5": "eval rbm.h5",
    "herding1.h5": "herd bin.h5 --hidden 3 --iterations 30 --burn-in 10 --per-class --shard 1/2",
    "herding2.h5": "herd bin.h5 --hidden 3 --iterations 30 --burn-in 10 --per-class --shard 2/2",
    "rbm1.h5": "fit-rbm bin.h5 --hidden 3 --epochs 1 --per-class --shard 1/2",
    "rbm2.h5": "fit-rbm bin.h5 --hidden 3 --epochs 1 --per-class --shard 2/2",
    "bin.parquet": "convert rows.csv",
    "samples.parquet": "kernel-herd points.csv -m 4",
    "report.parquet": "eval rbm.h5",
}

# file -> the commands that read it, EVIL in its place; `info`, `check` and `eval` read every one
READ: dict[str, tuple[str, ...]] = {
    "bin.h5": (
        "convert EVIL -o out.csv",
        "fit-rbm EVIL --hidden 2 --epochs 1 -o out.h5",
        "herd EVIL --hidden 2 --iterations 12 --burn-in 5 -o out.h5",
        "fit-mrf EVIL --smoothing 1 -o out.h5",
        "em EVIL --components 2 -o out.h5",
        "apply rbm.h5 EVIL -o out.h5",
    ),
    "real.h5": (
        "convert EVIL -o out.parquet",
        "nherd-train EVIL -o out.h5",
        "kernel-herd EVIL -m 3 -o out.h5",
        "ica EVIL --algorithm ml -o out.h5",
        "regress EVIL --target y -o out.h5",
        "em EVIL --model kmeans --components 2 -o out.h5",
        "apply linear.h5 EVIL -o out.h5",
        "eval linear.h5 --data EVIL",
    ),
    "rbm.h5": (
        "apply EVIL bin.h5 -o out.h5",
        "sample EVIL --count 3 -o out.h5",
        "fit-rbm bin.h5 --below EVIL --hidden 2 --epochs 1 -o out.h5",
        "eval EVIL --plot filters out.png",
    ),
    "classes.h5": ("apply EVIL bin.h5 -o out.h5", "sample EVIL --count 3 -o out.h5"),
    "dbn.h5": (
        "apply EVIL bin.h5 -o out.h5",
        "sample EVIL --count 3 -o out.h5",
        "fit-rbm bin.h5 --below EVIL --hidden 2 --epochs 1 -o out.h5",
    ),
    "linear.h5": (
        "apply EVIL real.h5 -o out.h5",
        "eval EVIL --data real.h5",
        "nherd-train real.h5 --covariance full --continue EVIL -o out.h5",
        "merge EVIL linear.h5 -o out.h5",
    ),
    "kernel.h5": (
        "apply EVIL real.h5 -o out.h5",
        "eval EVIL --data real.h5",
        "nherd-train real.h5 --kernel gaussian --continue EVIL -o out.h5",
    ),
    "stream.h5": ("apply EVIL stream.svm -o out.h5", "nherd-train stream.svm --continue EVIL -o out.h5", "merge EVIL stream.h5 -o out.h5"),
    "samples.h5": ("eval EVIL --data points.csv",),
    "network.h5": (
        "ups-infer EVIL -o out.h5",
        "ups-infer EVIL --ignore-observed --algorithm bp --iterations 20 -o out.h5",
        "ups-infer EVIL --ignore-observed --algorithm double-loop --iterations 5 -o out.h5",
        "ups-infer EVIL --algorithm junction-tree -o out.h5",
        "eval beliefs.h5 --reference EVIL",
    ),
    "beliefs.h5": ("eval EVIL --reference beliefs.h5", "eval beliefs.h5 --reference EVIL"),
    "sources.h5": ("apply EVIL sources.csv -o out.h5", "eval EVIL --data sources.csv"),
    "filters.h5": ("apply EVIL sources.csv -o out.h5",),
    "mixture.h5": ("apply EVIL points.csv -o out.h5", "em points.csv --components 2 --init EVIL -o out.h5"),
    "kmeans.h5": ("apply EVIL points.csv -o out.h5", "em points.csv --model kmeans --components 3 --init EVIL -o out.h5"),
    "factors.h5": ("apply EVIL sources.csv -o out.h5", "em sources.csv --model fa --components 1 --init EVIL -o out.h5"),
    "regression.h5": ("apply EVIL points.csv -o out.h5",),
    "herding1.h5": ("merge EVIL herding2.h5 -o out.h5",),
    "rbm1.h5": ("merge EVIL rbm2.h5 -o out.h5",),
    "bin.parquet": ("convert EVIL -o out.csv", "fit-rbm EVIL --hidden 2 --epochs 1 -o out.h5"),
}
EVERYWHERE = ("check EVIL", "info EVIL", "eval EVIL")

# name -> a command with checkpoints that takes several steps; `-o` and the checkpoint are added
LONG: dict[str, str] = {
    "fit-rbm": "fit-rbm bin.h5 --hidden 3 --epochs 3 --batch-size 5",
    "fit-rbm layers": "fit-rbm bin.h5 --layers 4,3 --epochs 2 --batch-size 10",
    "fit-rbm per-class": "fit-rbm bin.h5 --hidden 3 --epochs 2 --per-class --batch-size 5",
    "herd": "herd bin.h5 --hidden 3 --iterations 2000 --burn-in 10",
    "herd mrf": "herd bin.h5 --model mrf --iterations 2000 --burn-in 10",
    "nherd-train": "nherd-train real.h5 --passes 3",
    "nherd-train stream": "nherd-train stream.svm --passes 2",
    "kernel-herd": "kernel-herd points.csv -m 8",
    "kernel-herd away": "kernel-herd points.csv -m 8 --rule away",
    "ups-infer": "ups-infer network.h5 --algorithm ups",
    "ups-infer bp": "ups-infer network.h5 --ignore-observed --algorithm bp",
    "ups-infer double-loop": "ups-infer network.h5 --ignore-observed --algorithm double-loop",
    "ups-infer gibbs": "ups-infer network.h5 --ignore-observed --algorithm gibbs --burn-in 10 --sweeps 40",
    "fit-mrf": "fit-mrf rows.csv --smoothing 1 --label label --algorithm gradient",
    "fit-mrf ipf": "fit-mrf rows.csv --smoothing 1 --label label",
    "ica": "ica sources.csv --algorithm ml",
    "ica ebm": "ica sources.csv --algorithm ebm --filters 4 --gamma-rate 0.1 --leapfrog 3 --rates 0.01x8",
    "ica sparse": "ica sources.csv --algorithm sparse-coding --filters 4 --rates 0.1x3",
    "em": "em points.csv --components 2",
    "em kmeans": "em points.csv --model kmeans --components 3",
    "em factors": "em sources.csv --model fa --components 1",
    "regress": "regress points.csv --target b --family bernoulli",
}


def texts(folder: Path) -> None:
    """rows.csv (binary, two classes), points.csv, sources.csv (real), stream.svm."""
    random = np.random.default_rng(0)
    rows = random.integers(0, 2, (40, 6))
    lines = [",".join(map(str, row)) + f",{i % 2},{'train' if i < 30 else 'test'}" for i, row in enumerate(rows)]
    (folder / "rows.csv").write_text("\n".join(["a,b,c,d,e,f,label,split", *lines]) + "\n")
    points = random.normal(size=(30, 3)) + 2 * (np.arange(30) % 3)[:, None]
    lines = [f"{x:.4f},{int(y > 1)},{z:.4f},{i % 3}" for i, (x, y, z) in enumerate(points)]
    (folder / "points.csv").write_text("\n".join(["a,b,c,label", *lines]) + "\n")
    sources = random.laplace(size=(200, 3)) @ random.normal(size=(3, 3))
    (folder / "sources.csv").write_text("\n".join(["a,b,c", *(",".join(f"{v:.4f}" for v in row) for row in sources)]) + "\n")
    weights, X = random.normal(size=5), random.normal(size=(60, 5))
    lines = [f"{1 if x @ weights > 0 else -1} " + " ".join(f"{j + 1}:{v:.4f}" for j, v in enumerate(x)) for x in X]
    (folder / "stream.svm").write_text("\n".join(lines) + "\n")


def run(line: str, folder: Path, *more: str) -> tuple[int, str]:
    """Exit code and stderr of a command in a child of this process, which has imported herd."""
    told = os.memfd_create("told")
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        lanes.silent_streams()
        code, text = lanes.herd([*shlex.split(line), *more])
        os.write(told, text.encode())
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    text = os.pread(told, 1 << 16, 0).decode()
    os.close(told)
    return code, text


def make(folder: Path) -> list[str]:
    """Make every file of the corpus; the lines that could not be run are told and left out."""
    texts(folder)
    skipped = []
    for name, line in MADE.items():
        code, text = run(line, folder, "-q", "-o", name)
        if code or not (folder / name).exists():
            skipped.append(f"{line}: {text.strip()[:200]}")
    for archived in sorted((ROOT / "tests" / "data").glob("*.h5")):
        (folder / f"archived-{archived.name}").write_bytes(archived.read_bytes())
    return skipped


def make_checkpoints(folder: Path) -> list[str]:
    """A checkpoint of every long command, NAME.ck, left by an output that is full."""
    skipped = []
    for name, line in LONG.items():
        code, text = run(line, folder, "-q", "--checkpoint", f"{name}.ck", "--every", "1", "-o", "/dev/full")
        if not (folder / f"{name}.ck").exists():
            skipped.append(f"{line}: no checkpoint ({code}) {text.strip()[:200]}")
    return skipped
