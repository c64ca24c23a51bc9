"""Structures of Bayesian networks learned from rows: distance from the true network and time, beside pyAgrum and pgmpy.

    python scripts bench/networks/network_structures FOLDER --peers VENV/bin/python --results STRUCTURES.csv -o STRUCTURES.md

FOLDER holds alarm.bif.gz, insurance.bif.gz and hailfinder.bif.gz.  Rows are drawn from each network.  The distance is the structural
Hamming distance (SHD): pairs whose edge is missing, added or turned.  Times are seconds of the processor without start-up and reading.
Peers run in their own Python with one thread.  A run that takes longer than --seconds is ended and has no result; the same method is
then not tried on more rows of this network.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import itertools
import json
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NETWORKS, ROWS, SEEDS = ("alarm", "insurance", "hailfinder"), (1000, 5000, 20000), (0, 1)
MOST_PARENTS = 4
Edges = set[tuple[str, str]]
Case = tuple[str, int, int]  # network, rows, seed
Row = tuple[str, ...]  # network, rows, seed, method, SHD, seconds
HEADER: Row = ("network", "rows", "seed", "method", "shd", "seconds")
PAGE = """<!-- made by scripts/bench/networks/network_structures.py -->

# Structures learned from rows

Mean structural Hamming distance from the true network, over {draws} draws of rows, at most {parents} parents. In brackets: mean CPU
seconds of the search, without start-up and reading. *More than {seconds} s*: ended at this limit, on these or on fewer rows.

{table}
"""


def shd(found: Edges, true: Edges) -> int:
    """Pairs of variables whose edge differs."""
    pairs = {frozenset(edge) for edge in found | true}
    return sum({edge for edge in found if set(edge) == pair} != {edge for edge in true if set(edge) == pair} for pair in pairs)


def herd(method: str, text: str, path: str) -> tuple[Edges, float]:
    """One score and length of the tabu list of this package."""
    import numpy as np

    from herdcli.algorithm import run_algorithm
    from herdcli.markov.formats import network_formats
    from herdcli.markov.learning.bayesian_networks import WeightedCases
    from herdcli.markov.learning.family_scores import FamilyScore
    from herdcli.markov.learning.hill_climbing import HillClimbing

    network = network_formats.read_network(text, "bif")
    assert network.names is not None
    with open(path, newline="") as stream:
        head, *rows = csv.reader(stream)
    states = [{name: k for k, name in enumerate(network.states_of(network.names.index(title)))} for title in head]
    x = np.array([[own[cell] for own, cell in zip(states, row, strict=True)] for row in rows])
    cardinality = np.array([len(own) for own in states])
    _, kind, _, tabu = method.replace(",", "").split()
    start = time.process_time()
    cases = WeightedCases(x, np.ones(len(x)), cardinality)
    found = run_algorithm(HillClimbing(cases, ((),) * len(head), MOST_PARENTS, score=FamilyScore(kind), tabu=int(tabu)))
    seconds = time.process_time() - start
    return {(head[i], head[j]) for j, of in enumerate(found) for i in of}, seconds


def pyagrum(method: str, bif: str, path: str) -> tuple[Edges, float]:
    """One score and search of pyAgrum."""
    import pyagrum as gum

    score, search = method.split()
    learner = gum.BNLearner(path, gum.loadBN(bif))
    learner.setNumberOfThreads(1)
    learner.setMaxIndegree(MOST_PARENTS)
    getattr(learner, f"useScore{score}")()
    learner.useGreedyHillClimbing() if search == "greedy" else learner.useLocalSearchWithTabuList(100, 50)
    start = time.process_time()
    dag = learner.learnDAG()
    seconds = time.process_time() - start
    names = {node: learner.nameFromId(node) for node in dag.nodes()}
    return {(names[i], names[j]) for i, j in dag.arcs()}, seconds


def pgmpy(method: str, bif: str, path: str) -> tuple[Edges, float]:
    """Hill climbing of pgmpy with one score; its tabu list is of 100 changes."""
    import pandas
    from pgmpy.estimators import HillClimbSearch

    frame = pandas.read_csv(path, dtype=str, keep_default_na=False).astype("category")  # a state may be called None
    start = time.process_time()
    found = HillClimbSearch(frame).estimate(scoring_method=method, max_indegree=MOST_PARENTS, show_progress=False)
    return set(found.edges()), time.process_time() - start


PEERS = {"pyAgrum": pyagrum, "pgmpy": pgmpy}
METHODS = {
    "herd": ("herd bic, tabu 10", "herd bdeu, tabu 0", "herd bdeu, tabu 10", "herd k2, tabu 10"),
    "pyAgrum": tuple(f"pyAgrum {score} {search}" for score in ("BIC", "BDeu", "K2") for search in ("greedy", "tabu")),
    "pgmpy": ("pgmpy bic-d", "pgmpy bdeu", "pgmpy k2"),
}
ORDER = list(itertools.chain(*METHODS.values()))


def run_as_peer(name: str, method: str, bif: str, path: str, seconds: str) -> None:
    """Print as JSON what a peer finds; the system ends the process after this many seconds of the processor."""
    __import__({"pgmpy": "pgmpy.estimators"}.get(name, "pyagrum"))
    limit = int(time.process_time()) + int(seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    edges, took = PEERS[name](method, bif, path)
    print("\n" + json.dumps([sorted(edges), took]))


def run_peer(python: str, name: str, method: str, bif: str, path: str, seconds: int) -> tuple[Edges, float] | None:
    """Return a peer's edges and its time, or None if it takes longer than the limit."""
    line = [python, __file__, "--as", name, method, bif, path, str(seconds)]
    ended = subprocess.run(line, capture_output=True, text=True, check=False)
    if ended.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return None
    if ended.returncode:
        sys.exit(f"{name} {method} on {path}: {ended.stderr[-500:]}")
    edges, took = json.loads(ended.stdout.strip().splitlines()[-1])
    return {(a, b) for a, b in edges}, took


def true_edges(text: str) -> Edges:
    """Those of a network."""
    from herdcli.markov.formats import network_formats
    from herdcli.markov.model.graphs.dag import network_parents

    network = network_formats.read_network(text, "bif")
    return {(network.name(i), network.name(j)) for j, of in enumerate(network_parents(network) or ()) for i in of}


def draw_rows(name: str, text: str, rows: int, seed: int, folder: str) -> tuple[str, str]:
    """Write a network as BIF and rows drawn from it as CSV; return both paths."""
    bif, path = f"{folder}/{name}.bif", f"{folder}/{name}.csv"
    Path(bif).write_text(text)
    line = [sys.executable, "-m", "herdcli", "sample", bif, "-m", str(rows), "--seed", str(seed), "-q", "-o", path]
    subprocess.run(line, check=True)
    return bif, path


def measure(program: str, case: Case, text: str, options: argparse.Namespace, known: list[Row]) -> list[Row]:
    """Return the results of one program on rows drawn from a network that are not among the known ones.

    A method that took too long on this network is not run again on as many rows or more; it has an empty result.
    """
    name, rows, seed = case
    ended = {(row[0], row[3]): int(row[1]) for row in reversed(known) if not row[4]}
    done = {row[3] for row in known if row[:3] == (name, str(rows), str(seed))}
    wanted = [method for method in METHODS[program] if method not in done]
    true = true_edges(text)
    found: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        bif, path = draw_rows(name, text, rows, seed, folder) if wanted else ("", "")
        for method in wanted:
            if ended.get((name, method), rows + 1) <= rows:
                answer = None
            elif program == "herd":
                answer = herd(method, text, path)
            else:
                answer = run_peer(options.peers, program, method.partition(" ")[2], bif, path, options.seconds)
            if answer is None:
                ended[name, method] = rows
            found.append(
                (name, str(rows), str(seed), method, *(("", "") if answer is None else (str(shd(answer[0], true)), f"{answer[1]:.3f}")))
            )
    return found


def table(results: list[Row], seconds: int) -> str:
    """Markdown: one row per method, with the mean SHD and seconds for each network and number of rows, and the best of each program."""
    columns = list(dict.fromkeys((name, rows) for name, rows, *_ in results))
    cells: dict[str, dict[tuple[str, str], str]] = {}
    best: dict[str, dict[tuple[str, str], tuple[float, float]]] = {}
    for method in dict.fromkeys(row[3] for row in results):
        for column in columns:
            own = [row[4:] for row in results if row[:2] == column and row[3] == method]
            if not own:
                continue
            if any(not shd_text for shd_text, _ in own):
                cells.setdefault(method, {})[column] = f"more than {seconds} s"
                continue
            distance, took = (sum(float(row[k]) for row in own) / len(own) for k in (0, 1))
            cells.setdefault(method, {})[column] = f"{distance:.1f} ({took:.2f} s)"
            lowest = best.setdefault(f"best of {method.split()[0]}", {})
            lowest[column] = min(lowest.get(column, (distance, took)), (distance, took))
    for label, found in best.items():
        cells[f"**{label}**"] = {column: f"{distance:.1f} ({took:.2f} s)" for column, (distance, took) in found.items()}
    text = ["| method | " + " | ".join(f"{name} {rows}" for name, rows in columns) + " |", "|---" * (len(columns) + 1) + "|"]
    text += [f"| {method} | " + " | ".join(own.get(column, "–") for column in columns) + " |" for method, own in cells.items()]
    return "\n".join(text)


def main() -> None:
    """Draw rows, learn, and write the table."""
    if sys.argv[1:2] == ["--as"]:
        run_as_peer(*sys.argv[2:7])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--peers", default=None, help="a Python with pyAgrum and pgmpy")
    parser.add_argument("--seconds", type=int, default=120, help="time limit of a peer's run")
    parser.add_argument("--draws", type=int, default=2, help="sets of rows for each network and number of rows")
    parser.add_argument("--programs", default="herd,pyAgrum,pgmpy", help="those to run, with commas; results of others are kept")
    parser.add_argument("--results", type=Path, required=True, help="CSV of all runs; those that it has are not run again")
    parser.add_argument("-o", "--output", type=Path, default=None)
    options = parser.parse_args()
    known: list[Row] = []
    if options.results.exists():
        with options.results.open(newline="") as stream:
            known = [tuple(row) for row in csv.reader(stream)][1:]
    for program, rows, name, seed in itertools.product(options.programs.split(","), ROWS, NETWORKS, range(options.draws)):
        text = gzip.decompress((options.folder / f"{name}.bif.gz").read_bytes()).decode()
        known += measure(program, (name, rows, seed), text, options, known)
        known.sort(key=lambda row: (NETWORKS.index(row[0]), int(row[1]), ORDER.index(row[3]), int(row[2])))
        with options.results.open("w", newline="") as stream:
            csv.writer(stream, lineterminator="\n").writerows([HEADER, *known])
    page = table(known, options.seconds)
    print(page)
    if options.output:
        options.output.write_text(PAGE.format(draws=options.draws, parents=MOST_PARENTS, seconds=options.seconds, table=page))


if __name__ == "__main__":
    main()
