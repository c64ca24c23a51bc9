"""`herd nherd-train` and Vowpal Wabbit on the same lines: whole processes in turn, on the clock and in CPU time.

    python scripts bench/nherd/vw --vw PYTHON [--data FOLDER] [--copies 8] [--rounds 5] [--only text,cache,pairs]

FOLDER holds newsgroups20_bow.h5 (default $HERD_DATA, else ../shared/data); PYTHON is an interpreter with the package vowpalwabbit.
Lines are the posts of 20 newsgroups in a random order, `--copies` times (39 MB each), written to TMPDIR as svmlight text and as that of
Vowpal Wabbit.  Times are the least of several rounds.  What it takes to start Python and import vowpalwabbit is taken off Vowpal
Wabbit's times, and nothing off ours.  Ours also digests its input (SHA-256) and keeps progressive scores; both store a model.

text    one pass over text of either format, with C given and without options
cache   one pass and five with parsed text in a file, made beforehand
pairs   a product of the features of two namespaces: what a run takes longer with `--interactions ab` (`-q ab`), by the number of products
classes the twenty groups as classes: CPU time and memory of 18,846 posts with the race, with one learner, and of `--oaa 20`
start   twenty lines of text, over `python -c 'import numpy'`
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # modules are compiled once, as they are where herd is installed

import h5py
import numpy as np
from bench.nherd.online_learning import PLAIN, as_text, children_seconds, newsgroups, tell
from shared.real_data import FOLDER

HERD = [str(Path(sys.executable).with_name("herd")), "nherd-train", "-q"]
Times = dict[str, tuple[float, float]]
# A process begins with the size of the one that starts it: a small one in between
MEASURE = """
import os, sys
_, status, used = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ), 0)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(status != 0)
"""


def vowpal_wabbit(python: str, folder: Path, data: str, *more: str) -> list[str]:
    """A pass over a file into a table of 2^18."""
    run = [python, "-m", "vowpalwabbit", "--quiet", "-b", "18", "--loss_function", "hinge", "-d", str(folder / data)]
    return [*run, "-f", str(folder / "m.vw"), *more]


def herd(folder: Path, data: str, *more: str) -> list[str]:
    """A pass over a file."""
    return [*HERD, str(folder / data), "-o", str(folder / "m.h5"), *more]


def compared(times: Times, ours: str, theirs: str) -> str:
    """How many times as long Vowpal Wabbit took, on the clock and in CPU time, its import taken off."""
    clock, cpu = ((times[theirs][k] - times["import"][k]) / times[ours][k] for k in (0, 1))
    return f"clock {times[ours][0]:.2f} s, CPU {times[ours][1]:.2f} s; Vowpal Wabbit over ours {clock:.2f}, {cpu:.2f}"


def text(folder: Path, vw: str, rounds: int) -> None:
    """One pass over text of either format."""
    commands = {"import": [vw, "-c", "import vowpalwabbit"], "vw": vowpal_wabbit(vw, folder, "x.vw")}
    kinds = {"svmlight": "x.svm", "Vowpal Wabbit": "x.vw"}
    for kind, file in kinds.items():
        commands[kind] = herd(folder, file, *PLAIN)
        commands[f"{kind}, without options"] = herd(folder, file)
    times = children_seconds(commands, rounds)
    tell("Vowpal Wabbit", f"clock {times['vw'][0]:.2f} s, CPU {times['vw'][1]:.2f} s", f"import {times['import'][1]:.2f} s")
    for kind in kinds:
        tell(f"{kind} text", compared(times, kind, "vw"), "≥ 2")
        tell(f"{kind} text, without options", compared(times, f"{kind}, without options", "vw"))


def cache(folder: Path, vw: str, rounds: int) -> None:
    """Passes with parsed text in a file."""
    theirs = vowpal_wabbit(vw, folder, "x.vw", "--cache_file", str(folder / "x.cache"), "--holdout_off")
    kinds = {"svmlight": "x.svm", "Vowpal Wabbit": "x.vw"}
    runs = {kind: herd(folder, file, *PLAIN, "--holdout", "0", "--cache", str(folder / f"{file}.herd")) for kind, file in kinds.items()}
    children_seconds({"vw": [*theirs, "-k"], **runs}, 1)
    commands = {"import": [vw, "-c", "import vowpalwabbit"]}
    for passes in ("1", "5"):
        commands[f"vw {passes}"] = [*theirs, "--passes", passes]
        commands |= {f"{kind} {passes}": [*run, "--passes", passes] for kind, run in runs.items()}
    times = children_seconds(commands, rounds)
    times["import"] = min(times["import"]), min(times["import"])
    for passes in ("1", "5"):
        for kind in kinds:
            tell(f"{kind} text in a file, {passes} passes", compared(times, f"{kind} {passes}", f"vw {passes}"), "≥ 1.5" * (passes == "5"))


def pairs(folder: Path, vw: str, rounds: int) -> None:
    """What a product costs."""
    random, count = np.random.default_rng(2), 0
    with open(folder / "q.vw", "w") as file:
        for _ in range(3000):
            left, right = (sorted(set(random.integers(3000, size=size).tolist())) for size in (40, 50))
            count += len(left) * len(right)
            told = " ".join(f"w{k}:{random.random():.3f}" for k in left), " ".join(f"w{k}" for k in right)
            file.write(f"{random.choice([-1, 1])} |a {told[0]} |b {told[1]}\n")
    commands = {"ours": herd(folder, "q.vw", *PLAIN), "theirs": vowpal_wabbit(vw, folder, "q.vw")}
    more = {"ours": ["--interactions", "ab"], "theirs": ["-q", "ab"]}
    times = children_seconds(commands | {f"{name}, products": [*commands[name], *more[name]] for name in commands}, rounds)
    cost = {name: (times[f"{name}, products"][1] - times[name][1]) / count * 1e9 for name in commands}
    tell("a product of two features, learned", f"{cost['ours']:.1f} ns", f"{cost['theirs']:.1f} ns in Vowpal Wabbit (CPU time)")


def classes(folder: Path, data: Path, vw: str, rounds: int) -> None:
    """Twenty classes: CPU time and the largest resident size of whole processes, in turns."""
    with h5py.File(data / "newsgroups20_bow.h5") as file:
        values, words, pointer, y = (file[name][:] for name in ("X/data", "X/indices", "X/indptr", "y"))
    with open(folder / "c.vw", "w") as out:
        for row in np.random.default_rng(0).permutation(len(y)).tolist():
            part = slice(pointer[row], pointer[row + 1])
            out.write(f"{y[row] + 1} | " + " ".join(f"w{k}:{x:g}" for k, x in zip(words[part], values[part], strict=True)) + "\n")
    one = ["--algorithm", "arow", "--multiclass", "one-vs-rest", "--C", ".2"]
    commands = {
        "race": herd(folder, "c.vw"),
        "one": herd(folder, "c.vw", *one),
        "vw": vowpal_wabbit(vw, folder, "c.vw", "--oaa", "20"),
        "import": [vw, "-c", "import vowpalwabbit"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    size = dict.fromkeys(commands, 0.0)
    for _ in range(rounds):
        for name, command in commands.items():
            done = subprocess.run([sys.executable, "-c", MEASURE, *command], check=True, capture_output=True, text=True)
            seconds, kilobytes = map(float, done.stdout.splitlines()[-1].split())
            times[name].append(seconds)
            size[name] = max(size[name], kilobytes / 1e3)
    base = min(times["vw"]) - min(times["import"])
    for name, told in (("race", "20 classes, without options"), ("one", "20 classes, one learner"), ("vw", "20 classes, Vowpal Wabbit")):
        own = min(times[name]) - (min(times["import"]) if name == "vw" else 0.0)
        tell(told, f"CPU {own:.2f} s, {own / base:.2f} × Vowpal Wabbit", f"{size[name]:.0f} MB")


def start(folder: Path, rounds: int) -> None:
    """What it takes before and after the examples."""
    times = children_seconds({"numpy": [sys.executable, "-c", "import numpy"], "few": herd(folder, "few.svm", *PLAIN)}, 3 * rounds)
    ratio = times["few"][1] / times["numpy"][1]
    tell(
        "20 lines of text, CPU time over that of import numpy", f"{ratio:.2f} ×", f"{times['few'][1]:.3f} s over {times['numpy'][1]:.3f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=FOLDER)
    parser.add_argument("--vw", required=True, metavar="PYTHON")
    parser.add_argument("--copies", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="text,cache,pairs,classes,start")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        X, y, _ = newsgroups(asked.data)
        lines = as_text(X, y)
        (folder / "few.svm").write_text("".join(f"{label} {told}\n" for label, told in lines[:20]))
        for file, form in (("x.svm", "{} {}\n"), ("x.vw", "{} | {}\n")):
            once = "".join(form.format(*line) for line in lines)
            with open(folder / file, "w") as out:
                for _ in range(asked.copies):
                    out.write(once)
        print(f"{(folder / 'x.svm').stat().st_size / 1e6:.0f} MB, load {os.getloadavg()[0]:.1f}", flush=True)
        for part in asked.only.split(","):
            if part == "start":
                start(folder, asked.rounds)
            elif part == "classes":
                classes(folder, asked.data, asked.vw, asked.rounds)
            else:
                {"text": text, "cache": cache, "pairs": pairs}[part](folder, asked.vw, asked.rounds)


if __name__ == "__main__":
    main()
