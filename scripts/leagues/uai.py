"""The league of inference: every instance of some folders, `herd ups-infer` beside pyAgrum, pgmpy, toulbar2 and libDAI, at a time limit.

    python scripts leagues/uai FOLDER                                  # networks of $HERD_DATA; what is there already is not run again
    python scripts leagues/uai FOLDER --networks DIR --seconds 1200
    LIBDAI=…/example_inference python scripts leagues/uai FOLDER
    python scripts leagues/uai FOLDER --without pgmpy --keep results/league-uai.csv      # what takes hours is not run again

Tasks are those of the UAI competitions: PR (log10 Z), MAR (marginals), MAP (likeliest state), MMAP (likeliest state of a tenth of the
variables, every tenth one, the others summed out).  Scores are differences from the best that is known, as the competition has them:
of PR |log10 Z − exact|, of MAR the mean over variables of the Hellinger distance, of MAP and MMAP log10 of the value less the best value
of all contenders; smaller is better for PR and MAR, 0 the best for MAP and MMAP.  Exact answers come from references.json where it
has them, marginals else from pyAgrum, which is exact where it ends; other instances have no PR and MAR scores.  A run that does not end
within the limit, or in 10 GB, has no score.  Times are seconds of one processor of whole processes, reading included, so that a busy
machine changes no score.
MAP values of all contenders are worked out by herd from their states.  Packages that are missing are left out, and the table says so.
With --keep, the rows of contenders that are left out come from an earlier table, and the page says from which day.  Their MAP and MMAP
scores are differences from the best value of that table.
Files are named league-uai, and league-uai-1200 for a limit of 1,200 s.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from leagues.uai_peers import read_evidence
from shared.figure_pipeline import HERD, pyplot, read_csv, replace, write_csv
from shared.real_data import FOLDER

TASKS = ("PR", "MAR", "MAP", "MMAP")
ENDINGS = (".bif.gz", ".bif", ".uai", ".fg")
MEMORY = 10 << 30
USUAL = 20.0  # seconds of the shorter limit of the competitions
RIVALS = Path(__file__).with_name("uai_peers.py")
Row = dict[str, Any]
Ended = tuple[Any, float, float]  # what came out, seconds of the processor, MB


# Instances


def instances(folders: list[Path]) -> list[tuple[str, Path, Path | None]]:
    """Name, network and evidence of every network of some folders, small files first; of one in several formats the first of ENDINGS."""
    found: dict[str, tuple[str, Path, Path | None]] = {}
    for folder in folders:
        for ending in ENDINGS:
            for path in sorted(folder.glob(f"*{ending}")):
                name = path.name.removesuffix(ending)
                evidence = next((each for each in (Path(f"{path}.evid"), folder / f"{name}.evid") if each.exists()), None)
                found.setdefault(name, (name, path, evidence))
    return sorted(found.values(), key=lambda each: (each[1].stat().st_size, each[0]))


def as_uai(path: Path, folder: Path) -> Path:
    """The same network in UAI text, for programs that read nothing else."""
    if path.suffix == ".uai":
        return path
    target = folder / f"{path.name.partition('.')[0]}.uai"
    if not target.exists():
        subprocess.run([*HERD, "network", "convert", str(path), "-o", str(target)], check=True, stderr=subprocess.DEVNULL)
        target.with_suffix(".names.json").unlink(missing_ok=True)  # all programs are asked by position
    return target


def asked_of(path: Path) -> list[int]:
    """Every tenth variable: what MMAP maximises over."""
    lines = [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    return list(range(0, int(lines[1]), 10))


# Contenders: each gives what came out, or None


def spent() -> float:
    """Processor seconds of the commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(words: list[str], seconds: float) -> Ended | None:
    """The stdout of a command that ends well within the limit of processor time and memory, its processor time and its peak of memory."""
    limits = {resource.RLIMIT_CPU: math.ceil(seconds), resource.RLIMIT_AS: MEMORY}

    def bound() -> None:
        for what, most in limits.items():
            resource.setrlimit(what, (most, most))

    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=bound) as process:
        assert process.stdout is not None
        text = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return None if process.returncode else (text, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def herd(task: str, path: Path, evidence: Path | None, asked: list[int], seconds: float) -> Ended | None:
    """`herd ups-infer` as it is."""
    given = ["--evidence", str(evidence)] if evidence else []
    names = ",".join(map(str, asked))
    words = {
        "PR": ["--format", "pr"],
        "MAR": ["--format", "mar"],
        "MAP": ["--query", "mpe", "--format", "map"],
        "MMAP": ["--query", f"mmap:{names}", "--format", "map"],
    }[task]
    if (ended := timed([*HERD, "ups-infer", str(path), *given, *words], seconds)) is None:
        return None
    return read_answer(task, ended[0]), *ended[1:]


def read_answer(task: str, text: str) -> Any:
    """A result file: log10 Z, marginals, or states by variable."""
    words = text.split()[1:]
    if task == "PR":
        return float(words[0])
    if task == "MAR":
        made, at = [], 1
        for _ in range(int(words[0])):
            count = int(words[at])
            made.append([float(word) for word in words[at + 1 : at + 1 + count]])
            at += 1 + count
        return made
    numbers = list(map(int, words[1:]))
    return dict(enumerate(numbers)) if task == "MAP" else dict(zip(numbers[::2], numbers[1::2], strict=True))


def other(program: str) -> Callable[..., Ended | None]:
    """Another program, through leagues/uai_peers.py."""

    def run(task: str, path: Path, evidence: Path | None, asked: list[int], seconds: float) -> Ended | None:
        words = [sys.executable, str(RIVALS), program, task, str(path), str(evidence or "-"), ",".join(map(str, asked))]
        if (ended := timed(words, seconds)) is None or not ended[0].strip():
            return None
        answer = json.loads(ended[0].strip().splitlines()[-1])
        return ({int(i): x for i, x in answer.items()} if isinstance(answer, dict) else answer), *ended[1:]

    return run


def contenders() -> dict[str, tuple[tuple[str, ...], Callable[..., Ended | None]]]:
    """Tasks and runner of whatever is installed."""
    found: dict[str, tuple[tuple[str, ...], Callable[..., Ended | None]]] = {"herd": (TASKS, herd)}
    if importlib.util.find_spec("pyagrum"):
        found["pyagrum"] = (("MAR",), other("pyagrum"))  # it has no log Z of a Markov random field
    if importlib.util.find_spec("pgmpy"):
        found["pgmpy"] = (("PR", "MAR", "MAP"), other("pgmpy"))
    if importlib.util.find_spec("pytoulbar2") or shutil.which("toulbar2"):
        found["toulbar2"] = (("MAP",), other("toulbar2"))
    if os.environ.get("LIBDAI"):
        found["libdai"] = (("PR", "MAR"), other("libdai"))
    return found


# Scores


def value_of(path: Path, evidence: Path | None, states: dict[int, int], folder: Path) -> float | None:
    """log10 Σ Π f over all that agrees with some states, by herd; None where it is not known."""
    given = folder / "states.evid"
    known = dict(states)
    if evidence:
        known |= read_evidence(str(evidence))
    given.write_text(f"{len(known)} " + " ".join(f"{i} {x}" for i, x in known.items()) + "\n", encoding="utf-8")
    ended = timed([*HERD, "ups-infer", str(path), "--evidence", str(given), "--query", "log-z", "--format", "pr"], 60)
    return None if ended is None else float(ended[0].split()[1])


def hellinger(ours: list[list[float]], theirs: list[list[float]]) -> float:
    """Mean over the variables of √(½ Σ (√p − √q)²), 1, the most that it can be, of a variable without a distribution."""
    apart = [
        math.sqrt(0.5 * float(np.square(np.sqrt(np.maximum(p, 0)) - np.sqrt(np.maximum(q, 0))).sum()))
        for p, q in zip(ours, theirs, strict=True)
        if len(p) == len(q) > 1
    ]
    return float(np.mean(np.nan_to_num(apart, nan=1.0))) if apart else 0.0


def exact(name: str, path: Path, references: Row) -> tuple[float | None, list[list[float]] | None]:
    """log10 Z and marginals, where references.json has them."""
    found = references.get(path.name) or references.get(f"{name}.uai")
    if not found:
        return None, None
    log_z = found.get("logZ")
    return (None if log_z is None else log_z / math.log(10)), found.get("marg")


def run(name: str, path: Path, evidence: Path | None, folder: Path, references: Row, seconds: float, without: set[str]) -> list[Row]:
    """A row for each task and contender."""
    text = as_uai(path, folder)
    asked = asked_of(text)
    if evidence:
        held = read_evidence(str(evidence))
        asked = [i for i in asked if i not in held]
    log_z, marginals = exact(name, path, references)
    rows: list[Row] = []
    for task in TASKS:
        answers = {}
        for who, (tasks, runner) in contenders().items():
            if who not in without and task in tasks and (task != "MMAP" or asked):
                answers[who] = runner(task, text, evidence, asked, seconds)
        if task == "MAR" and marginals is None and answers.get("pyagrum"):
            marginals = answers["pyagrum"][0]
        values = {}
        if task in ("MAP", "MMAP"):
            values = {who: value_of(text, evidence, each[0], folder) for who, each in answers.items() if each}
        best = max((value for value in values.values() if value is not None), default=None)
        for who, each in answers.items():
            score: float | str = ""
            if each and task == "PR" and log_z is not None:
                score = abs(each[0] - log_z)
            elif each and task == "MAR" and marginals is not None:
                score = hellinger(each[0], marginals)
            elif best is not None and values.get(who) is not None:
                score = values[who] - best
            shown = score if score == "" else f"{score:.3g}"
            spent_on_it = {"seconds": f"{each[1]:.2f}", "mb": f"{each[2]:.0f}"} if each else {"seconds": "", "mb": ""}
            rows.append({"instance": name, "task": task, "contender": who, "score": shown, **spent_on_it})
    return rows


# The table and the picture


def counted(rows: list[Row]) -> list[Row]:
    """For each task and contender: instances answered, scored, exact to 1e-6 (or the best), mean score and median seconds."""
    made: list[Row] = []
    for task in TASKS:
        for who in dict.fromkeys(row["contender"] for row in rows):
            mine = [row for row in rows if row["task"] == task and row["contender"] == who]
            if not mine:
                continue
            times = [float(row["seconds"]) for row in mine if row["seconds"]]
            sizes = [float(row["mb"]) for row in mine if row.get("mb")]
            scored = [float(row["score"]) for row in mine if row["score"] != ""]
            made.append(
                {
                    "task": task,
                    "contender": who,
                    "instances": len(mine),
                    "answered": len(times),
                    "scored": len(scored),
                    "exact": sum(abs(score) < 1e-6 for score in scored),
                    "mean_score": float(np.mean(scored)) if scored else None,
                    "seconds": float(np.median(times)) if times else None,
                    "mb": float(np.median(sizes)) if sizes else None,
                }
            )
    return made


def earlier_rows(table: Path, instance: str, contenders_now: set[str]) -> list[Row]:
    """The rows of an instance in an earlier table, of contenders that are not run now."""
    return [row for row in read_csv(table) if row["instance"] == instance and row["contender"] not in contenders_now]


def earlier_note(table: Path, kept: list[str]) -> str:
    """The sentence on the contenders whose rows come from an earlier table: its day and its versions."""
    line = ["git", "log", "-1", "--format=%as", "--", table.name]
    day = subprocess.run(line, cwd=table.parent, capture_output=True, text=True, check=False).stdout.strip()
    pages = table.with_suffix(".md")
    lines = pages.read_text(encoding="utf-8").splitlines() if pages.exists() else []
    said = next((each.partition(", each with")[0] for each in lines if each.startswith("Python ")), "versions not recorded")
    return f"Not run again: {', '.join(kept)}; these rows are of {day or 'an earlier day'} ({said})."


def summary(rows: list[Row], seconds: float, note: str = "") -> str:
    """The table as a page; `note` is about rows of an earlier table."""
    told = f"limit {seconds:g} s of one processor each, start-up and reading included"
    head = "| task | contender | answered | scored | exact or best | mean score | median seconds | median MB |"
    lines = ["<!-- made by scripts/leagues/uai.py -->", "", "# The league of inference", ""]
    lines += [
        f"Instances: {len({row['instance'] for row in rows})}, the smaller files first; {told}.",
        "",
        head,
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in counted(rows):
        mean, middle, size = ("" if row[name] is None else f"{row[name]:.3g}" for name in ("mean_score", "seconds", "mb"))
        share = f"{row['answered']} of {row['instances']}"
        lines.append(f"| {row['task']} | {row['contender']} | {share} | {row['scored']} | {row['exact']} | {mean} | {middle} | {size} |")
    lines += ["", f"{versions()}, each with its own defaults; pgmpy is given one connected network, as it takes no other."]
    if note:
        lines += ["", note]
    missing = [name for name in ("pyagrum", "pgmpy", "toulbar2", "libdai") if name not in {row["contender"] for row in rows}]
    if missing:
        lines += ["", f"Not installed, or left out, where this was run: {', '.join(missing)}."]
    return "\n".join(lines) + "\n"


def versions() -> str:
    """Of Python and of the contenders that are installed."""
    found = [f"Python {sys.version.split()[0]}"]
    for name in ("pyagrum", "pgmpy", "pytoulbar2"):
        if importlib.util.find_spec(name):
            found.append(f"{name} {metadata.version(name)}")
    if shutil.which("toulbar2") and not importlib.util.find_spec("pytoulbar2"):
        said = subprocess.run(["toulbar2", "--version"], capture_output=True, text=True, check=False).stdout
        found.append(f"toulbar2 {next((word for word in said.split() if word[:1].isdigit()), '')}")
    return ", ".join(found)


def picture(rows: list[Row], target: Path) -> None:
    """How many instances each contender answers within a time."""
    plt = pyplot()
    figure, axes = plt.subplots(1, len(TASKS), figsize=(12, 3), sharey=True)
    colours = {who: f"C{index}" for index, who in enumerate(dict.fromkeys(row["contender"] for row in rows))}
    for task, ax in zip(TASKS, axes, strict=True):
        for who, colour in colours.items():
            times = sorted(float(row["seconds"]) for row in rows if row["task"] == task and row["contender"] == who and row["seconds"])
            if times:
                ax.step(times, range(1, len(times) + 1), where="post", color=colour, label=who)
        ax.set(title=task, xlabel="processor seconds", xscale="log")
        ax.legend(frameon=False, fontsize=8, loc="lower right")  # each panel has contenders of its own
    axes[0].set_ylabel("instances answered")
    figure.tight_layout()
    figure.savefig(target, dpi=120)


def main() -> None:
    """Run what is missing, then write the table and the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--networks", type=Path, action="append", default=[], help="folders of UAI, BIF or .fg files")
    parser.add_argument("--seconds", type=float, default=USUAL)
    parser.add_argument("--only", default="", help="instances, by name, with commas")
    parser.add_argument("--without", default="", help="contenders to leave out, with commas")
    parser.add_argument("--keep", type=Path, default=None, help="an earlier CSV with the rows of contenders that are left out")
    parser.add_argument("--work", type=float, default=math.inf, help="processor seconds after which no further instance is begun")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    folders = options.networks or [FOLDER / "networks", *bundled(options.folder)]
    references_at = next((each / "references.json" for each in folders if (each / "references.json").exists()), None)
    references = json.loads(references_at.read_text(encoding="utf-8")) if references_at else {}
    without = set(options.without.split(","))
    wanted = set(filter(None, options.only.split(",")))
    rows: list[Row] = []
    started = spent()
    for name, path, evidence in instances(folders):
        if wanted and name not in wanted:
            continue
        kept = options.folder / "rows" / f"{name}-{options.seconds:g}.csv"
        if not kept.exists():
            if spent() - started > options.work:
                continue
            kept.parent.mkdir(exist_ok=True)
            write_csv(kept, run(name, path, evidence, options.folder, references, options.seconds, without))
        rows += read_csv(kept)
        if options.keep:
            rows += earlier_rows(options.keep, name, set(contenders()) - without)
    name = "league-uai" if options.seconds == USUAL else f"league-uai-{options.seconds:g}"
    write_csv(options.folder / f"{name}.csv", rows)
    write_csv(options.folder / f"{name}-counts.csv", counted(rows))
    kept_names = sorted({row["contender"] for row in rows} - (set(contenders()) - without)) if options.keep else []
    page = summary(rows, options.seconds, earlier_note(options.keep, kept_names) if kept_names else "")
    replace(options.folder / f"{name}.md", page)
    picture(rows, options.folder / f"{name}.png")
    print(page)


def bundled(folder: Path) -> list[Path]:
    """The BIF networks in pgmpy's wheel, unpacked by nobody: they are read as they are."""
    found = importlib.util.find_spec("pgmpy")
    if found is None or found.origin is None:
        return []
    return [path for path in (Path(found.origin).parent / "utils" / "example_models",) if path.is_dir()]


if __name__ == "__main__":
    main()
