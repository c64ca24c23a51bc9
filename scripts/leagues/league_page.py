"""results/league.md: each command beside its rivals, where it loses first; from the tables of other stages and from benchmarks.

    python scripts leagues/league_page FOLDER --tables RESULTS [--bench NAME …]

Makes league.md in FOLDER, in a second, of the tables that are in RESULTS: qualities of methods that one run judged on the same rows.
Figures of time and memory beside other programs are those that scripts/bench/NAME.py print: --bench runs them, each in its own
process on one thread, and keeps what they print in FOLDER/league-bench-NAME.txt; those that are there, here or in RESULTS, are on the page.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from statistics import fmean

from leagues import pairs_page
from shared.figure_pipeline import Row, read_csv, replace
from shared.script_paths import script

PEERS = ("numpy", "scipy", "scikit-learn", "hmmlearn", "glum", "statsmodels", "picard", "pgmpy", "pyagrum", "vowpalwabbit", "torch")
BENCHES = {  # command: the benchmarks that put other programs beside it
    "herd": ("herding/herd",),
    "kernel-herd": ("herding/kernel_herd", "herding/stein"),
    "fit-rbm": ("rbm/fit_rbm", "rbm/likelihood"),
    "ica": ("tables/ica", "tables/ica_quality"),
    "ups-infer": ("networks/markov",),
    "nherd-train": ("nherd/online_learning", "nherd/defaults", "nherd/classes"),
    "em": ("tables/em", "tables/hmm", "tables/lds"),
    "regress": ("tables/em",),
}

SIDES = "league-sides.csv"
ABOUT = (
    f"[{SIDES}]({SIDES}), of `scripts/leagues/pairs.py`: every contender is a process of its own on one thread and reads the same file.",
    "Seconds are those of the processor from its start to the end of learning, MB the most that it held. herd's commands have no options",
    "but those that name the model, its size or its data; the others are as they come or as their documentation recommends.",
)
MORE = (
    "They put other programs beside each command in one process, for the time of the algorithm alone; what they print is on the commands'",
    "own pages, and here where a run was kept (`python scripts leagues/league_page FOLDER --tables results --bench NAME`).",
)


def versions() -> str:
    """Of herd's own libraries and of those rivals that are installed."""
    found = []
    for name in PEERS:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return f"Python {sys.version.split()[0]}, {', '.join(found)}"


def bench(name: str, target: Path) -> None:
    """What one benchmark prints, with the versions before it."""
    one = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
    done = subprocess.run([sys.executable, *script(f"bench/{name}")], env=os.environ | one, stdout=subprocess.PIPE, text=True, check=False)
    replace(target, f"{versions()}\n{done.stdout}" + (f"exit code {done.returncode}\n" if done.returncode else ""))


def standing(title: str, ours: dict[str, float], theirs: dict[str, float], form: str = "{:.2%}") -> tuple[int, str]:
    """A line on one set, and 0 if the best rival is ahead, 1 if ours is; lower is better."""
    own, rival = min(ours, key=ours.__getitem__), min(theirs, key=theirs.__getitem__)
    place = int(ours[own] <= theirs[rival])
    listed = ", ".join(f"{name} {form.format(value)}" for name, value in sorted((ours | theirs).items(), key=lambda item: item[1]))
    return place, f"- {'ahead' if place else '**behind**'}, {title}: {listed}"


def herding(rows: list[Row]) -> Iterator[tuple[int, str]]:
    """Error on USPS digits, by hidden units."""
    error = {row["column"]: float(row["error"]) for row in rows}
    rivals = {"logistic regression of the pixels": error["MLR"], "nearest neighbour": error["1NN"]}
    for k, units in enumerate((50, 100, 250), 1):
        if not {f"H{k}", f"SH{k}", f"CD{k}"} <= error.keys():  # of `make quick`
            continue
        ours = {"herding": error[f"H{k}"], "safe herding": error[f"SH{k}"]}
        yield standing(f"USPS, {units} hidden units, 4 splits", ours, rivals | {"CD-1 (`herd fit-rbm`)": error[f"CD{k}"]})


def faces(rows: list[Row]) -> Iterator[tuple[int, str]]:
    """Rank-1 errors."""
    for title in dict.fromkeys(row["set"] for row in rows):
        error = {row["method"]: float(row["rank_1"]) for row in rows if row["set"] == title}
        ours = {name: value for name, value in error.items() if name == "rbm-pairs"}
        rivals = {name: value for name, value in error.items() if not name.startswith("rbm-pairs")}
        yield standing(f"{title}, {rows[0]['partitions']} partitions", ours, rivals, "{:.1%}")


def kernel(rows: list[Row]) -> Iterator[tuple[int, str]]:
    """MMD² of the best of weights that are not negative."""
    for row in rows:
        ours, rivals = {row["champion"]: float(row["mmd2"])}, {row["other"]: float(row["other_mmd2"])}
        yield standing(f"{row['set']}, {row['atoms']} atoms, MMD²", ours, rivals, "{:.3g}")


def online(rows: list[Row]) -> Iterator[tuple[int, str]]:
    """Mean errors over the tasks, each with its own C and passes chosen on a part of the rows."""
    for noise in dict.fromkeys(float(row["noise"]) for row in rows):
        algorithms = dict.fromkeys(row["algorithm"] for row in rows)
        error = {
            name: fmean(float(row["error"]) for row in rows if row["algorithm"] == name and float(row["noise"]) == noise)
            for name in algorithms
        }
        ours = {name: value for name, value in error.items() if name.startswith("NHERD")}
        tasks = len({row["task"] for row in rows})
        yield standing(f"{tasks} tasks, label noise {noise:.0%}", ours, {name: error[name] for name in error if name not in ours})


def inference(rows: list[Row]) -> Iterator[tuple[int, str]]:
    """Mean absolute errors of P(x = 1), where each converged."""
    for place in dict.fromkeys(row["set"] for row in rows if row["claim"] == "order"):
        error = {
            row["quantity"].removeprefix("error: "): float(row["mean"])
            for row in rows
            if row["set"] == place and row["quantity"].startswith("error: ")
        }
        ours = {name: value for name, value in error.items() if name in ("bp", "belief-optimization")}
        rivals = {name: value for name, value in error.items() if name not in ours}
        if ours and rivals:
            yield standing(f"{place}, 20 networks", ours, rivals, "{:.2g}")


def models(rows: list[Row]) -> Iterator[tuple[int, str]]:
    """Held-out figures beside the simplest model of the same rows."""
    for model in dict.fromkeys(row["model"] for row in rows):
        mine = [row for row in rows if row["model"] == model]
        sign = -1.0 if mine[0]["figure"] == "log_likelihood" else 1.0
        ours, simple = (sign * fmean(float(row[name]) for row in mine) for name in ("held_out", "baseline"))
        verdicts = ", ".join(dict.fromkeys(row["verdict"] for row in mine))
        title = f"{mine[0]['data']}, {model}, {'minus nats a row' if sign < 0 else 'squared error'} (`herd eval`: {verdicts})"
        yield standing(title, {"`herd`": ours}, {"simplest model": simple}, "{:.5g}")


TABLES = {  # command: table, what is compared, the lines
    "herd": ("herding-fig3.csv", "error on rows held out; every method at the paper's settings", herding),
    "kernel-herd": ("league-kernel-first.csv", "MMD² of equal numbers of atoms; more in [league-kernel.md](league-kernel.md)", kernel),
    "fit-rbm --pairs": ("faces/summary.csv", "rank-1 error of recognition; rivals at the thesis' sizes", faces),
    "ups-infer": ("claims-inference.csv", "error of the marginals, Bethe's minimum against mean field and TAP", inference),
    "nherd-train": ("nherd-tuned.csv", "error on rows held out; C and passes of each tuned on one run", online),
    "em, regress": ("em.csv", "rows held out, means over five draws, beside one Gaussian, one centre, independent columns", models),
}


def page(tables: Path, folder: Path) -> str:
    """The page."""
    lines = [
        "<!-- made by scripts/leagues/league_page.py from the tables beside it; edit that -->",
        "",
        "# The league",
        "",
        "Each command beside its rivals on the same rows; where the best rival is ahead comes first. Numbers are from the tables named.",
    ]
    sides = read_csv(tables / SIDES)
    if sides:
        draws = max(int(row["draw"]) for row in sides) + 1
        lines += [
            "",
            "## Where herd is behind other programs",
            "",
            *ABOUT,
            f"Means over {draws} draws of the rows; standard errors are those of differences draw by draw.",
            *pairs_page.first(sides),
        ]
    for command, (name, told, work) in TABLES.items():
        rows = read_csv(tables / name)
        if rows:
            found = list(work(rows))
            behind = sum(not place for place, _ in found)
            lines += ["", f"## `herd {command}`", "", f"[{name}]({name}): {told}. Behind in {behind} of {len(found)}.", ""]
            lines += [line for _, line in sorted(found, key=lambda item: item[0])]
    if sides:
        lines += ["", "## Beside other programs: every number", "", f"[{SIDES}]({SIDES}), lowest first.", *pairs_page.whole(sides)]
    lines += ["", "## Benchmarks of speed", "", *MORE, "", "| command | benchmark | kept here |", "|---|---|---|"]
    kept: list[str] = []
    for command, names in BENCHES.items():
        for name in names:
            there = next((place for place in (folder, tables) if (place / f"league-bench-{Path(name).name}.txt").exists()), None)
            lines.append(f"| `herd {command}` | `scripts/bench/{name}.py` | {'below' if there else 'no'} |")
            if there and name not in kept:
                kept.append(name)
    for name in kept:
        place = folder if (folder / f"league-bench-{Path(name).name}.txt").exists() else tables
        text = (place / f"league-bench-{Path(name).name}.txt").read_text(encoding="utf-8").rstrip()
        lines += ["", f"`scripts/bench/{name}.py`:", "", "```text", text, "```"]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tables", type=Path, required=True)
    parser.add_argument("--bench", action="append", default=[], choices=sorted({name for names in BENCHES.values() for name in names}))
    asked = parser.parse_args()
    for name in asked.bench:
        bench(name, asked.folder / f"league-bench-{Path(name).name}.txt")
    replace(asked.folder / "league.md", page(asked.tables, asked.folder))


if __name__ == "__main__":
    main()
