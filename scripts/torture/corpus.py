"""The small files that are tortured, how they are made, and every command that reads them."""

from __future__ import annotations

import os
import shlex
from importlib import import_module
from pathlib import Path

import h5py
import numpy as np

from herdcli.cli.main import COMMANDS

from . import forked_trials
from .long_runs import FURTHER_RUNS

ROOT = Path(__file__).resolve().parents[2]

# file -> the command that makes it, in this order; the texts it begins with are written by `texts`
MADE: dict[str, str] = {
    "bin.h5": "convert rows.csv",
    "real.h5": "convert points.csv --label label",
    "rbm.h5": "fit-rbm bin.h5 --hidden 3 --epochs 1",
    "classes.h5": "fit-rbm bin.h5 --hidden 3 --epochs 1 --per-class --split 3,1,1",
    "dbn.h5": "fit-rbm bin.h5 --layers 4,3 --epochs 1",
    "herding.h5": "herd bin.h5 --hidden 3 --iterations 30 --burn-in 10",
    "visible.h5": "herd bin.h5 --model mrf --iterations 30 --burn-in 10",
    "linear.h5": "nherd-train real.h5 --covariance full",
    "kernel.h5": "nherd-train real.h5 --kernel gaussian",
    "stream.h5": "nherd-train stream.svm",
    "predictor.h5": "nherd-train numbers.svm --task regression",
    "tagger.h5": "nherd-train labels.svm --task multilabel",
    "joint.h5": "fit-rbm bin.h5 --hidden 3 --epochs 1 --labels hybrid",
    "samples.h5": "kernel-herd points.csv -m 4",
    "network.h5": "network grid --grid-rows 3 --grid-columns 3 --draw-observed border",
    "free.h5": "network grid --grid-rows 2 --grid-columns 3",
    "beliefs.h5": "ups-infer network.h5 --algorithm ups",
    "sources.h5": "ica sources.csv --algorithm ml",
    "filters.h5": "ica sources.csv --algorithm ebm --filters 4 --gamma-rate 0.1 --leapfrog 3 --rate-schedule 0.01x5",
    "mixture.h5": "em points.csv --components 2",
    "kmeans.h5": "em points.csv --model kmeans --components 3",
    "factors.h5": "em sources.csv --model fa --components 1",
    "regression.h5": "regress points.csv --target b",
    "perceptron.h5": "regress points.csv --target b --hidden 3 --iterations 5",
    "report.h5": "eval rbm.h5",
    "kept.h5": "fit-rbm bin.h5 --hidden 3 --epochs 1 --keep-state --batch-size 5",
    "dense.h5": "network random --nodes 24 --mean-degree 12",
    "loopy.h5": "network random --nodes 60 --mean-degree 9",
    "herding1.h5": "herd bin.h5 --hidden 3 --iterations 30 --burn-in 10 --per-class --shard 1/2",
    "herding2.h5": "herd bin.h5 --hidden 3 --iterations 30 --burn-in 10 --per-class --shard 2/2",
    "rbm1.h5": "fit-rbm bin.h5 --hidden 3 --epochs 1 --per-class --shard 1/2",
    "rbm2.h5": "fit-rbm bin.h5 --hidden 3 --epochs 1 --per-class --shard 2/2",
    "pairs.h5": "fit-rbm --pairs faces.csv --visible-units gaussian --label label --hidden 3 --epochs 1 --batch-size 5",
    "recurrent.h5": "fit-rbm moves.csv --recurrent --hidden 3 --epochs 2",
    "chain.h5": "em steps.csv --model hmm --components 2 --iterations 3",
    "dynamics.h5": "em steps.csv --model lds --components 1 --iterations 2",
    "samples1.h5": "kernel-herd real.h5 --by y -m 2 --shard 1/2",
    "samples2.h5": "kernel-herd real.h5 --by y -m 2 --shard 2/2",
    "blocks1.h5": "kernel-herd real.h5 -m 3 --block-rows 8 --block-atoms 4 --shard 1/2",
    "blocks2.h5": "kernel-herd real.h5 -m 3 --block-rows 8 --block-atoms 4 --shard 2/2",
    "sketch1.h5": "kernel-herd real.h5 -m 3 --block-rows 8 --embedding nystrom:4 --shard 1/2",
    "sketch2.h5": "kernel-herd real.h5 -m 3 --block-rows 8 --embedding nystrom:4 --shard 2/2",
    "parts1.h5": "nherd-train real.h5 --parts 2 --shuffle --shard 1/2",
    "parts2.h5": "nherd-train real.h5 --parts 2 --shuffle --shard 2/2",
    "counts1.h5": "fit-mrf rows.csv --smoothing 1 --label label --shard 1/2",
    "counts2.h5": "fit-mrf rows.csv --smoothing 1 --label label --shard 2/2",
    "sums1.h5": "regress points.csv --target b --one-pass --shard 1/2",
    "sums2.h5": "regress points.csv --target b --one-pass --shard 2/2",
    "moments1.h5": "ica points.csv --one-pass --iterations 5 --shard 1/2",
    "moments2.h5": "ica points.csv --one-pass --iterations 5 --shard 2/2",
    "beliefs1.h5": "ups-infer network.h5 --ignore-observed --algorithm bp --restarts 1 --iterations 20 --shard 1/2",
    "beliefs2.h5": "ups-infer network.h5 --ignore-observed --algorithm bp --restarts 1 --iterations 20 --shard 2/2",
    "evidence1.h5": "ups-infer network.h5 --ignore-observed --evidence-rows evidence.csv --shard 1/2",
    "evidence2.h5": "ups-infer network.h5 --ignore-observed --evidence-rows evidence.csv --shard 2/2",
    "bin.parquet": "convert rows.csv",
    "samples.parquet": "kernel-herd points.csv -m 4",
    "report.parquet": "eval rbm.h5",
}

# kind -> a file of it; the files of one kind that are made in other ways stand in READ as well
OF_KIND: dict[str, str] = {
    "dataset": "bin.h5",
    "rbm": "rbm.h5",
    "rbm-pairs": "pairs.h5",
    "dbn": "dbn.h5",
    "rtrbm": "recurrent.h5",
    "herding": "herding.h5",
    "classifier": "linear.h5",
    "predictor": "predictor.h5",
    "tagger": "tagger.h5",
    "samples": "samples.h5",
    "network": "network.h5",
    "beliefs": "beliefs.h5",
    "ica": "sources.h5",
    "mixture": "mixture.h5",
    "kmeans": "kmeans.h5",
    "factors": "factors.h5",
    "hmm": "chain.h5",
    "lds": "dynamics.h5",
    "regression": "regression.h5",
    "perceptron": "perceptron.h5",
    "report": "report.h5",
    "rbm-shard": "rbm1.h5",
    "herding-shard": "herding1.h5",
    "samples-shard": "samples1.h5",
    "blocks-shard": "blocks1.h5",
    "sketch-shard": "sketch1.h5",
    "classifier-shard": "parts1.h5",
    "network-shard": "counts1.h5",
    "regression-shard": "sums1.h5",
    "ica-shard": "moments1.h5",
    "beliefs-shard": "beliefs1.h5",
    "dataset-shard": "evidence1.h5",
}

SECOND = {"network": "free.h5"}  # another file of a kind, for the commands that refuse the first

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
    "pairs.h5": ("eval EVIL --gallery faces.csv", "eval EVIL --plot filters out.png"),
    "recurrent.h5": (
        "apply EVIL moves.csv -o out.h5",
        "apply EVIL moves.csv --want predicted -o out.h5",
        "sample EVIL --count 3 --length 4 --burn-in 3 -o out.h5",
        "eval EVIL --data moves.csv",
        "eval EVIL --plot predicted out.png",
    ),
    "herding.h5": ("herd --rates EVIL --iterations 9 -o out.h5", "sample EVIL -o out.h5"),
    "chain.h5": (
        "apply EVIL steps.csv -o out.h5",
        "sample EVIL --count 3 --length 4 -o out.h5",
        "network from-hmm EVIL --observations steps.csv -o out.h5",
        "em steps.csv --model hmm --components 2 --iterations 2 --init EVIL -o out.h5",
    ),
    "dynamics.h5": (
        "apply EVIL steps.csv -o out.h5",
        "sample EVIL --count 3 --length 4 -o out.h5",
        "em steps.csv --model lds --components 1 --iterations 2 --init EVIL -o out.h5",
    ),
    "samples1.h5": ("merge EVIL samples2.h5 -o out.h5",),
    "blocks1.h5": ("merge EVIL blocks2.h5 -o out.h5",),
    "sketch1.h5": ("merge EVIL sketch2.h5 -o out.h5",),
    "parts1.h5": ("merge EVIL parts2.h5 -o out.h5",),
    "counts1.h5": ("merge EVIL counts2.h5 -o out.h5",),
    "sums1.h5": ("merge EVIL sums2.h5 -o out.h5",),
    "moments1.h5": ("merge EVIL moments2.h5 -o out.h5",),
    "beliefs1.h5": ("merge EVIL beliefs2.h5 -o out.h5",),
    "evidence1.h5": ("merge EVIL evidence2.h5 -o out.h5",),
    "rbm.h5": (
        "apply EVIL bin.h5 -o out.h5",
        "sample EVIL --count 3 --burn-in 3 --thin 1 -o out.h5",
        "fit-rbm bin.h5 --below EVIL --hidden 2 --epochs 1 -o out.h5",
        "eval EVIL --plot filters out.png",
    ),
    "classes.h5": ("apply EVIL bin.h5 -o out.h5", "sample EVIL --count 3 --burn-in 3 --thin 1 -o out.h5"),
    "dbn.h5": (
        "apply EVIL bin.h5 -o out.h5",
        "sample EVIL --count 3 --burn-in 3 --thin 1 -o out.h5",
        "fit-rbm bin.h5 --below EVIL --hidden 2 --epochs 1 -o out.h5",
    ),
    "linear.h5": (
        "apply EVIL real.h5 -o out.h5",
        "eval EVIL --data real.h5",
        "nherd-train real.h5 --covariance full --continue EVIL -o out.h5",
        "merge EVIL linear.h5 -o out.h5",
    ),
    "tagger.h5": (
        "apply EVIL labels.svm -o out.h5",
        "eval EVIL --data labels.svm",
        "nherd-train labels.svm --task multilabel --continue EVIL -o out.h5",
        "merge EVIL tagger.h5 -o out.h5",
    ),
    "predictor.h5": (
        "apply EVIL numbers.svm -o out.h5",
        "eval EVIL --data numbers.svm",
        "nherd-train numbers.svm --task regression --continue EVIL -o out.h5",
    ),
    "joint.h5": ("apply EVIL bin.h5 -o out.h5", "sample EVIL --count 3 --burn-in 3 --thin 1 -o out.h5"),
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
        "ups-infer EVIL --ignore-observed --algorithm junction-tree -o out.h5",
        "ups-infer EVIL --ignore-observed --query mpe -o out.h5",
        "network convert EVIL -o out.uai",
    ),
    "free.h5": ("sample EVIL --count 3 --burn-in 3 --thin 1 -o out.h5",),
    "beliefs.h5": ("eval EVIL --reference beliefs.h5", "eval beliefs.h5 --reference EVIL"),
    "sources.h5": ("apply EVIL sources.csv -o out.h5", "eval EVIL --data sources.csv"),
    "filters.h5": ("apply EVIL sources.csv -o out.h5",),
    "mixture.h5": (
        "apply EVIL points.csv -o out.h5",
        "sample EVIL --count 3 -o out.h5",
        "em points.csv --components 2 --init EVIL -o out.h5",
        "kernel-herd --distribution mixture:EVIL --candidates points.csv -m 2 -o out.h5",
    ),
    "kmeans.h5": ("apply EVIL points.csv -o out.h5", "em points.csv --model kmeans --components 3 --init EVIL -o out.h5"),
    "factors.h5": (
        "apply EVIL sources.csv -o out.h5",
        "sample EVIL --count 3 -o out.h5",
        "em sources.csv --model fa --components 1 --init EVIL -o out.h5",
    ),
    "regression.h5": ("apply EVIL points.csv -o out.h5",),
    "perceptron.h5": ("apply EVIL points.csv -o out.h5",),
    "herding1.h5": ("merge EVIL herding2.h5 -o out.h5",),
    "rbm1.h5": ("merge EVIL rbm2.h5 -o out.h5",),
    "bin.parquet": ("convert EVIL -o out.csv", "fit-rbm EVIL --hidden 2 --epochs 1 -o out.h5"),
}
EVERYWHERE = ("check EVIL", "info EVIL", "eval EVIL")

FULL = 74  # exit code where an output has no room

# name -> a command with checkpoints that takes several steps; `-o` and the checkpoint are added
LONG: dict[str, str] = {
    "fit-rbm layers": "fit-rbm bin.h5 --layers 4,3 --epochs 2 --batch-size 10",
    "fit-rbm per-class": "fit-rbm bin.h5 --hidden 3 --epochs 2 --per-class --batch-size 5",
    "fit-rbm recurrent": "fit-rbm moves.csv --recurrent --hidden 3 --epochs 4 --validate-every 1",
    "sample recurrent": "sample recurrent.h5 --count 3 --length 5 --burn-in 3",
    "fit-rbm pairs": "fit-rbm --pairs faces.csv --visible-units gaussian --label label --hidden 3 --epochs 2 --batch-size 3",
    "herd safe": "herd bin.h5 --hidden 3 --iterations 8 --burn-in 2 --variant safe",
    "nherd-train stream": "nherd-train stream.svm --passes 2",
    "nherd-train kernel": "nherd-train real.h5 --kernel gaussian --passes 2",
    "ups-infer observed": "ups-infer network.h5 --algorithm ups",
    "nherd-train rows": "nherd-train real.h5 --passes 2",
    "ups-infer rows": "ups-infer network.h5 --ignore-observed --evidence-rows evidence.csv",
    "ups-infer tempered": "ups-infer free.h5 --algorithm tempered-gibbs --burn-in 5 --sweeps 30",
    "ups-infer gibbs chains": "ups-infer free.h5 --algorithm gibbs --burn-in 5 --sweeps 30 --chains 3",
    "sample": "sample rbm.h5 --count 6 --burn-in 4 --thin 2",
}

RESTED = "--ignore-observed"
AT_ONCE = None  # done in one step, without a checkpoint
# command -> its option, a line, and what the line needs for some of the option's values; every other value is asked for alone
VARIED: dict[str, tuple[str, str, dict[str, str | None]]] = {
    "fit-rbm": ("algorithm", "fit-rbm bin.h5 --hidden 3 --epochs 3 --batch-size 5", {}),
    "herd": ("model", "herd bin.h5 --iterations 12 --burn-in 4", {"rbm": "--hidden 3"}),
    "nherd-train": ("algorithm", "nherd-train stream.svm --passes 3", {}),
    "kernel-herd": ("rule", "kernel-herd points.csv -m 8", {"step": "--step constant:0.3", "sobol": AT_ONCE}),
    "ups-infer": (
        "algorithm",
        "ups-infer network.h5",
        {
            **dict.fromkeys(("bp", "frontier", "junction-tree", "mean-field", "structured-mean-field", "tap", "tree-reweighted"), RESTED),
            "double-loop": RESTED,
            "tree-ep": RESTED,
            "loop-corrected": RESTED,
            "auto": AT_ONCE,
            "enumerate": AT_ONCE,
            "ups-t": AT_ONCE,
            "max-product": AT_ONCE,  # proved likeliest after its first sweep
            **dict.fromkeys(("gibbs", "tempered-gibbs"), f"{RESTED} --burn-in 10 --sweeps 40"),
            "gbp": f"{RESTED} --iterations 20",
            "belief-optimization": f"{RESTED} --iterations 20",
        },
    ),
    "fit-mrf": ("algorithm", "fit-mrf rows.csv --smoothing 1 --label label", {}),
    "ica": (
        "algorithm",
        "ica sources.csv",
        {
            "infomax": "--rate-schedule 0.01x6",
            "fastica": "--iterations 9",
            "picard": "--iterations 9",
            "ebm": "--filters 4 --gamma-rate 0.1 --leapfrog 3 --rate-schedule 0.01x8",
            "equil": "--leapfrog 3 --rate-schedule 0.01x8",
            "sparse-coding": "--filters 4 --rates 0.1x5",
        },
    ),
    "em": ("model", "em steps.csv --components 2 --iterations 6", {"lds": "--starts 1"}),
    "regress": ("family", "regress counts.csv --target y", {"bernoulli": "--target b", "softmax": "--target label"}),
}


def choices(command: str, option: str) -> list[str]:
    """The values that an option of a command can have, as the program declares them."""
    (found,) = (param for param in import_module(COMMANDS[command][0]).command.params if param.name == option)
    return [str(choice) for choice in found.type.choices]


for _command, (_option, _line, _special) in VARIED.items():
    for _choice in choices(_command, _option):
        _more = _special.get(_choice, "")
        if _more is not AT_ONCE:
            LONG[f"{_command} {_choice}"] = f"{_line} --{_option} {_choice} {_more}".strip()
LONG |= FURTHER_RUNS


def texts(folder: Path) -> None:
    """rows.csv (binary, two classes), points.csv, sources.csv (real), stream.svm, numbers.svm, labels.svm, …"""
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
    lines = [f"{x @ weights:.3f} " + " ".join(f"{j + 1}:{v:.4f}" for j, v in enumerate(x)) for x in X]
    (folder / "numbers.svm").write_text("\n".join(lines) + "\n")
    sets = [f"{'1,3' if row % 2 else '3' if row % 3 else ''} {line.partition(' ')[2]}" for row, line in enumerate(lines)]
    (folder / "labels.svm").write_text("\n".join(sets) + "\n")
    counts = [f"{x:.4f},{int(y > 1)},{z:.4f},{1 + int(abs(4 * y)) % 3},{i % 3}" for i, (x, y, z) in enumerate(points)]
    (folder / "counts.csv").write_text("\n".join(["a,b,c,y,label", *counts]) + "\n")
    steps = np.cumsum(random.normal(size=(40, 2)), axis=0) * 0.3
    lines = [f"{i // 10},{u:.4f},{v:.4f}" for i, (u, v) in enumerate(steps)]
    (folder / "steps.csv").write_text("\n".join(["sequence,u,v", *lines]) + "\n")
    moves = [f"{s},{','.join(str(int((s + t * (1 - s % 2 * 2)) % 4 == k)) for k in range(4))}" for s in range(10) for t in range(6)]
    (folder / "moves.csv").write_text("\n".join(["sequence,p,q,r,s", *moves]) + "\n")
    faces = random.normal(size=(5, 6))[np.arange(30) % 5] + 0.2 * random.normal(size=(30, 6))
    lines = [
        ",".join(f"{v:.4f}" for v in row) + f",{i % 5},{('train', 'train', 'train', 'test')[i // 5 % 4]}" for i, row in enumerate(faces)
    ]
    (folder / "faces.csv").write_text("\n".join(["a,b,c,d,e,f,label,split", *lines]) + "\n")
    gaps = [",".join("" if (7 * i + 3 * j) % 11 == 0 else str(rows[i, j]) for j in range(6)) for i in range(40)]
    (folder / "gaps.csv").write_text("\n".join(["a,b,c,d,e,f", *gaps]) + "\n")
    scores = [",".join(f"{-value:.4f}" for value in row) for row in points]
    (folder / "scores.csv").write_text("\n".join(["sa,sb,sc", *scores]) + "\n")
    words = [f"{('bad poor', 'good fine')[i % 2]} w{i % 5} w{i % 3}" for i in range(40)]
    (folder / "documents.csv").write_text("\n".join(["words,label", *(f"{text},{i % 2}" for i, text in enumerate(words))]) + "\n")
    (folder / "documents.vw").write_text("\n".join(f"{i % 2 * 2 - 1} | {text}:{1 + i % 3}" for i, text in enumerate(words)) + "\n")
    evidence = "\n".join(",".join(map(str, row)) for row in random.integers(-1, 2, (5, 3)))
    (folder / "evidence.csv").write_text(f"x0,x4,x8\n{evidence}\n")
    (folder / "given.csv").write_text("a,b,c,d,e,f\n1,,0,,,1\n,1,,,0,\n")


def run(line: str, folder: Path, *more: str) -> tuple[int, str]:
    """Exit code and stderr of a command in a child of this process, which has imported herd."""
    told = os.memfd_create("told")
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        forked_trials.silent_streams()
        code, text = forked_trials.herd([*shlex.split(line), *more])
        os.write(told, text.encode())
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    text = os.pread(told, 1 << 16, 0).decode()
    os.close(told)
    return code, text


def make(folder: Path) -> list[str]:
    """Make every file of the corpus; what could not be made, or is of another kind than OF_KIND says, is told and left out.

    Done in this process, whose children find loaded what a command loads when it first needs it; but for Parquet's threads.
    """
    texts(folder)
    skipped = []
    with forked_trials.inside(folder):
        for name, line in MADE.items():
            asked = f"{line} -q -o {name}"
            code, text = run(asked, folder) if "parquet" in name else forked_trials.herd(shlex.split(asked))
            if code or not (folder / name).exists():
                skipped.append(f"{line}: {text.strip()[:200]}")
        for lines in READ.values():
            forked_trials.herd(shlex.split(lines[-1].replace("EVIL", "bin.h5")))
        for name in ("rbm.h5", "network.h5", "linear.h5"):
            forked_trials.herd(["eval", name])
    for path in folder.glob("out.*"):
        path.unlink()
    for kind, name in OF_KIND.items():
        with h5py.File(folder / name) as file:
            if file.attrs["kind"] != kind:
                skipped.append(f"{name} is of kind {file.attrs['kind']}, not {kind}")
    for archived in sorted((ROOT / "tests" / "data").glob("*.h5")):
        (folder / f"archived-{archived.name}").write_bytes(archived.read_bytes())
    return skipped


def make_checkpoints(folder: Path) -> list[str]:
    """A checkpoint of every long command, NAME.ck, left by an output that is full; the commands that leave none are told."""
    skipped = []
    for name, line in LONG.items():
        code, text = run(line, folder, "-q", "--checkpoint", f"{name}.ck", "--every", "1", "-o", "/dev/full")
        if code != FULL or not (folder / f"{name}.ck").exists():
            skipped.append(f"{line}: no checkpoint ({code}) {text.strip()[:200]}")
    return skipped
