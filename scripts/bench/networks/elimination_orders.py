"""How small junction trees are, here and by pyAgrum: python scripts bench/networks/elimination_orders [--orders N] [--seconds] [FOLDER …]

One line a network: log2 of the table cells of all maximal cliques by the best of herd's orders, by pyAgrum's triangulation (in an
interpreter that has it, --pyagrum; by default this one), and their difference; then the same without the states that zeros forbid,
which are in no table of herd's.  Networks are those of BIF that pgmpy ships, where it is installed, and all of $HERD_DATA/networks,
under the evidence that lies beside them.  --only NAME for one.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from leagues.uai import instances
from shared.real_data import FOLDER

from herdcli.algorithm import run_algorithm
from herdcli.markov.exact import cliques, junction_tree
from herdcli.markov.exact.exact_algorithms import EliminationOrderAlgorithm, JunctionTree
from herdcli.markov.formats import evidence as evidence_files
from herdcli.markov.formats import network_formats as formats
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import network, possible_states
from herdcli.markov.model.possible_states import TrimmedNetwork


def shipped() -> list[Path]:
    """The folder of networks in pgmpy's wheel, where it is installed."""
    found = importlib.util.find_spec("pgmpy")
    return [] if found is None or not found.origin else [Path(found.origin).parent / "utils" / "example_models"]


def opened(path: Path, evidence: Path | None) -> network.Network:
    """A network under its evidence."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    given = formats.read_network(text, {".gz": "bif"}.get(path.suffix, path.suffix[1:]))
    return given if evidence is None else network.condition_network(given, evidence_files.read_evidence(evidence.read_text(), given))


def cells(given: network.Network, order: np.ndarray) -> float:
    """log2 of the cells of the maximal cliques of an order."""
    graph = cliques.junction_tree_from_order(junction_tree.build_clique_tree(given, order))[0]
    return float(np.log2(float(graph.cells(given.cardinality))))


def ours(given: network.Network, orders: int) -> tuple[float, float, int]:
    """log2 of the cells, seconds of the processor, and orders that were tried, of a network as it is."""
    started = time.process_time()
    method = JunctionTree(given, InferenceSettings(algorithm="junction-tree", orders=orders), trimmed=TrimmedNetwork(given, None))
    found = run_algorithm(EliminationOrderAlgorithm(method))
    seconds = time.process_time() - started
    if not found.complete:
        return float("inf"), seconds, found.step
    return cells(given, np.argsort(np.array(method.tree(found).position))), seconds, found.step


def theirs(python: str, given: network.Network) -> tuple[float, float]:
    """log2 of the cells of pyAgrum's junction tree, and seconds of the processor."""
    free = given.cardinality > 1
    scopes = sorted({tuple(sorted(scope)) for scope in junction_tree.restrict_scopes(given, free)} - {()})
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"cardinality": given.cardinality.tolist(), "scopes": scopes}, file)
        file.flush()
        command = [python, str(Path(__file__).with_name("markov_peers.py")), "triangulate", file.name]
        ran = subprocess.run(command, capture_output=True, check=False, text=True)
    if ran.returncode:
        return float("nan"), float("nan")
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    made = sum(float(np.prod([float(given.cardinality[i]) for i in clique])) for clique in found["cliques"])
    return float(np.log2(made + float((~free).sum()))), found["seconds"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--orders", type=int, default=8)
    parser.add_argument("--pyagrum", default=sys.executable, metavar="PYTHON", help="an interpreter that has pyAgrum")
    parser.add_argument("--only", default=None)
    options = parser.parse_args()
    worse = []
    print(f"{'network':24} {'herd':>7} {'pyAgrum':>7} {'':>6}   without zeros: herd pyAgrum   seconds (orders)")
    for name, path, evidence in instances(options.folders or [*shipped(), FOLDER / "networks"]):
        if options.only not in (None, name):
            continue
        given = opened(path, evidence)
        mine, seconds, tried = ours(given, options.orders)
        other, took = theirs(options.pyagrum, given)
        line = f"{name:24} {mine:7.2f} {other:7.2f} {mine - other:+6.2f}"
        trimmed = possible_states.remove_impossible_states(given)
        if trimmed.kept is not None:
            less, _, _ = ours(trimmed.network, options.orders)
            line += f"   {less:19.2f} {theirs(options.pyagrum, trimmed.network)[0]:7.2f}"
        else:
            line += " " * 30
        print(f"{line}   {seconds:.2f} ({tried}), {took:.2f}", flush=True)
        if mine > other + 0.005:
            worse.append(f"{name} {mine - other:+.2f}")
    print(f"larger than pyAgrum's: {', '.join(worse) or 'none'}")


if __name__ == "__main__":
    main()
