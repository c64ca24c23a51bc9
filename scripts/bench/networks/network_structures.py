"""Structures of Bayesian networks learned from rows: distance from the true network and time, beside pyAgrum and pgmpy.

    python scripts bench/networks/network_structures FOLDER --rivals VENV/bin/python -o results/structures.md

FOLDER holds alarm.bif.gz, insurance.bif.gz and hailfinder.bif.gz.  Rows are drawn from each network.  The distance is the structural
Hamming distance (SHD): pairs whose edge is missing, added or turned.  Times are seconds of the processor without start-up and reading.
Rivals run in their own Python, one thread; pgmpy's hill climbing only up to --most-pgmpy rows, as it takes minutes.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NETWORKS, ROWS, SEEDS = ("alarm", "insurance", "hailfinder"), (1000, 5000, 20000), (0, 1)
MOST_PARENTS = 4
Edges = set[tuple[str, str]]


def shd(found: Edges, true: Edges) -> int:
    """Pairs of variables whose edge differs."""
    pairs = {frozenset(edge) for edge in found | true}
    return sum({edge for edge in found if set(edge) == pair} != {edge for edge in true if set(edge) == pair} for pair in pairs)


def herd(text: str, path: str) -> list[tuple[str, Edges, float]]:
    """Each score of this package."""
    import numpy as np

    from herdcli.algorithm import run_algorithm
    from herdcli.markov.formats import network_formats
    from herdcli.markov.learning.bayesian_networks import WeightedCases
    from herdcli.markov.learning.family_scores import FamilyScore
    from herdcli.markov.learning.hill_climbing import HillClimbing

    network = network_formats.read_network(text, "bif")
    with open(path, newline="") as stream:
        head, *rows = csv.reader(stream)
    states = [{name: k for k, name in enumerate(network.states_of(network.names.index(title)))} for title in head]
    x = np.array([[own[cell] for own, cell in zip(states, row, strict=True)] for row in rows])
    cardinality = np.array([len(own) for own in states])
    made = []
    for kind, tabu in (("bic", 10), ("bdeu", 0), ("bdeu", 10), ("k2", 10)):
        start = time.process_time()
        cases = WeightedCases(x, np.ones(len(x)), cardinality)
        found = run_algorithm(HillClimbing(cases, ((),) * len(head), MOST_PARENTS, score=FamilyScore(kind), tabu=tabu))
        seconds = time.process_time() - start
        made.append((f"herd {kind}, tabu {tabu}", {(head[i], head[j]) for j, of in enumerate(found) for i in of}, seconds))
    return made


def pyagrum(bif: str, path: str) -> list[tuple[str, Edges, float]]:
    """Greedy search and search with a tabu list of pyAgrum."""
    import pyagrum as gum

    true, made = gum.loadBN(bif), []
    for score in ("BIC", "BDeu", "K2"):
        for search in ("greedy", "tabu"):
            learner = gum.BNLearner(path, true)
            learner.setNumberOfThreads(1)
            learner.setMaxIndegree(MOST_PARENTS)
            getattr(learner, f"useScore{score}")()
            learner.useGreedyHillClimbing() if search == "greedy" else learner.useLocalSearchWithTabuList(100, 50)
            start = time.process_time()
            dag = learner.learnDAG()
            seconds = time.process_time() - start
            names = {node: learner.nameFromId(node) for node in dag.nodes()}
            made.append((f"pyAgrum {score}, {search}", {(names[i], names[j]) for i, j in dag.arcs()}, seconds))
    return made


def pgmpy(path: str) -> list[tuple[str, Edges, float]]:
    """Hill climbing of pgmpy, whose tabu list is of 100 changes."""
    import pandas
    from pgmpy.estimators import HillClimbSearch

    frame, made = pandas.read_csv(path, dtype=str).astype("category"), []
    for score in ("bic-d", "bdeu", "k2"):
        start = time.process_time()
        found = HillClimbSearch(frame).estimate(scoring_method=score, max_indegree=MOST_PARENTS, show_progress=False)
        made.append((f"pgmpy {score}", set(found.edges()), time.process_time() - start))
    return made


def as_rival(name: str, bif: str, path: str) -> None:
    """Print what a rival finds, as JSON."""
    found = pyagrum(bif, path) if name == "pyagrum" else pgmpy(path)
    print("\n" + json.dumps([(method, sorted(edges), seconds) for method, edges, seconds in found]))


def run_rival(python: str, name: str, bif: str, path: str, seconds: int) -> list[tuple[str, Edges, float]]:
    """A rival's answers; none where it is not there or takes too long."""
    line = [python, __file__, "--as", name, bif, path]
    try:
        ended = subprocess.run(line, capture_output=True, text=True, timeout=seconds, check=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"{name} on {path}: {str(error)[-200:]}", file=sys.stderr)
        return []
    return [(method, {(a, b) for a, b in edges}, took) for method, edges, took in json.loads(ended.stdout.strip().splitlines()[-1])]


def true_edges(text: str) -> Edges:
    """Those of a network."""
    from herdcli.markov.formats import network_formats
    from herdcli.markov.model.graphs.dag import network_parents

    network = network_formats.read_network(text, "bif")
    return {(network.name(i), network.name(j)) for j, of in enumerate(network_parents(network) or ()) for i in of}


def table(lines: dict[tuple[str, int], dict[str, list[tuple[int, float]]]]) -> str:
    """Markdown: a row a method, mean SHD and seconds for each network and number of rows."""
    columns = list(lines)
    methods = list(dict.fromkeys(method for found in lines.values() for method in found))
    text = ["| method | " + " | ".join(f"{name} {rows}" for name, rows in columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for method in methods:
        cells = []
        for column in columns:
            own = lines[column].get(method, [])
            mean = [sum(values) / len(own) for values in zip(*own, strict=True)]
            cells.append(f"{mean[0]:.1f} ({mean[1]:.2f} s)" if own else "–")
        text.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(text)


def main() -> None:
    """Draw rows, learn, and write the table."""
    if sys.argv[1:2] == ["--as"]:
        as_rival(*sys.argv[2:5])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rivals", default=None, help="a Python with pyAgrum and pgmpy")
    parser.add_argument("--most-pgmpy", type=int, default=0, help="rows up to which pgmpy is tried")
    parser.add_argument("-o", "--output", type=Path, default=None)
    options = parser.parse_args()
    lines: dict[tuple[str, int], dict[str, list[tuple[int, float]]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in NETWORKS:
            text = gzip.decompress((options.folder / f"{name}.bif.gz").read_bytes()).decode()
            bif, path = f"{folder}/{name}.bif", f"{folder}/{name}.csv"
            Path(bif).write_text(text)
            true = true_edges(text)
            for rows in ROWS:
                own = lines.setdefault((name, rows), {})
                for seed in SEEDS:
                    line = [sys.executable, "-m", "herdcli", "sample", bif, "-m", str(rows), "--seed", str(seed), "-q", "-o", path]
                    subprocess.run(line, check=True)
                    found = herd(text, path)
                    if options.rivals:
                        found += run_rival(options.rivals, "pyagrum", bif, path, 300)
                        found += run_rival(options.rivals, "pgmpy", bif, path, 900) if rows <= options.most_pgmpy else []
                    for method, edges, seconds in found:
                        own.setdefault(method, []).append((shd(edges, true), seconds))
    made = table(lines)
    print(made)
    if options.output:
        versions = (
            f"Mean SHD (and seconds) over {len(SEEDS)} draws of rows, at most {MOST_PARENTS} parents; "
            f"`scripts/bench/networks/network_structures.py`."
        )
        options.output.write_text(f"# Structures learned from rows\n\n{versions}\n\n{made}\n")


if __name__ == "__main__":
    main()
