"""Other programs on one task of leagues/uai.py; prints the answer as one line of JSON.

    python scripts leagues/uai_peers PROGRAM TASK NETWORK.uai EVIDENCE|- ASKED

PR is log10 Z, MAR a list of marginals, MAP an object from variable to state.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np


def read_uai(path: str) -> tuple[list[int], list[tuple[list[int], np.ndarray]]]:
    """Cardinalities, and scope and table of each factor."""
    words = iter(Path(path).read_text(encoding="utf-8").split())
    next(words)
    cardinality = [int(next(words)) for _ in range(int(next(words)))]
    scopes = [[int(next(words)) for _ in range(int(next(words)))] for _ in range(int(next(words)))]
    factors = []
    for scope in scopes:
        values = np.array([float(next(words)) for _ in range(int(next(words)))])
        factors.append((scope, values.reshape([cardinality[i] for i in scope])))
    return cardinality, factors


def read_evidence(path: str) -> dict[int, int]:
    """Variable to state of UAI evidence, with or without the number of cases before it; `-` and a first line of 0 have none."""
    lines = [] if path == "-" else [line.split() for line in Path(path).read_text(encoding="utf-8").splitlines() if line.split()]
    words = [word for line in lines for word in line]
    if len(words) < 3 or lines[0] == ["0"]:
        return {}
    pairs = words[1:] if len(words) % 2 else words[2:]
    return {int(i): int(x) for i, x in zip(pairs[::2], pairs[1::2], strict=True)}


def conditioned(path: str, evidence: dict[int, int]) -> tuple[list[int], list[tuple[list[int], np.ndarray]], float]:
    """The network without what evidence holds, and log of the constants that this leaves."""
    cardinality, factors = read_uai(path)
    constant, left = 0.0, []
    for scope, table in factors:
        part = table[tuple(evidence.get(i, slice(None)) for i in scope)]
        free = [i for i in scope if i not in evidence]
        if free:
            left.append((free, np.asarray(part)))
        else:
            constant += math.log(float(part)) if float(part) > 0 else -math.inf
    return cardinality, left, constant


def pyagrum(task: str, path: str, evidence: dict[int, int], asked: list[int]) -> Any:
    """Shafer–Shenoy on a Markov random field."""
    import pyagrum as gum

    cardinality, factors, _ = conditioned(path, evidence)
    model = gum.MarkovRandomField()
    for i, states in enumerate(cardinality):
        model.add(gum.RangeVariable(str(i), "", 0, states - 1))
    merged: dict[frozenset[int], tuple[list[int], np.ndarray]] = {}
    for scope, table in factors:  # one factor a set of variables
        key = frozenset(scope)
        if key in merged:
            first, values = merged[key]
            merged[key] = (first, values * table.transpose([scope.index(i) for i in first]))
        else:
            merged[key] = (scope, table)
    for scope, table in merged.values():
        top = float(table.max())
        made = model.addFactor({str(i) for i in scope})
        order = [int(name) for name in made.names]
        # fillWith takes values with the first variable fastest.
        made.fillWith((table / top).transpose([scope.index(i) for i in reversed(order)]).ravel().tolist())
    engine = gum.ShaferShenoyMRFInference(model)
    engine.makeInference()
    return [
        [float(x == evidence[i]) for x in range(states)] if i in evidence else engine.posterior(str(i)).toarray().tolist()
        for i, states in enumerate(cardinality)
    ]


def pgmpy(task: str, path: str, evidence: dict[int, int], asked: list[int]) -> Any:
    """Junction tree for log Z and marginals, elimination for MAP.  Tables of ones join parts, as it takes connected networks alone."""
    import networkx as nx
    from pgmpy.factors.discrete import DiscreteFactor
    from pgmpy.inference import BeliefPropagation
    from pgmpy.models import DiscreteMarkovNetwork

    cardinality, factors, constant = conditioned(path, evidence)
    model = DiscreteMarkovNetwork()
    model.add_nodes_from({str(i) for scope, _ in factors for i in scope})
    for scope, table in factors:
        model.add_edges_from((str(i), str(j)) for i in scope for j in scope if i < j)
        model.add_factors(DiscreteFactor([str(i) for i in scope], [cardinality[i] for i in scope], table.ravel()))
    ends = [min(part) for part in nx.connected_components(model)]
    for a, b in pairwise(ends):
        model.add_edge(a, b)
        model.add_factors(
            DiscreteFactor([a, b], [cardinality[int(a)], cardinality[int(b)]], np.ones(cardinality[int(a)] * cardinality[int(b)]))
        )
    engine = BeliefPropagation(model)
    if task == "MAP":
        found = engine.map_query(variables=sorted(model.nodes()), show_progress=False)
        return {**evidence, **{int(name): int(x) for name, x in found.items()}}
    engine.calibrate()
    beliefs = engine.get_clique_beliefs()
    if task == "PR":
        return (math.log(float(next(iter(beliefs.values())).values.sum())) + constant) / math.log(10)
    marginals = []
    for i, states in enumerate(cardinality):
        if i in evidence:
            marginals.append([float(x == evidence[i]) for x in range(states)])
            continue
        clique = min((each for each in beliefs if str(i) in each), key=len)
        p = beliefs[clique].marginalize([name for name in clique if name != str(i)], inplace=False).values
        marginals.append((p / p.sum()).tolist())
    return marginals


def toulbar2(task: str, path: str, evidence: dict[int, int], asked: list[int]) -> Any:
    """The weighted constraint solver, which reads UAI: of pytoulbar2, else the program."""
    if importlib.util.find_spec("pytoulbar2") is None:
        return toulbar2_program(path, evidence)
    import pytoulbar2

    cardinality, factors, _ = conditioned(path, evidence)
    problem = pytoulbar2.CFN(verbose=-1)
    with tempfile.TemporaryDirectory() as folder:
        problem.Read(write_uai(Path(folder, "model.uai"), cardinality, factors))
        found = problem.Solve()
    return {i: evidence.get(i, int(x)) for i, x in enumerate(found[0])}


def toulbar2_program(path: str, evidence: dict[int, int]) -> Any:
    """The likeliest states that the program toulbar2 writes."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "states.sol")
        given = Path(folder, "given.evid")
        given.write_text(f"1 {len(evidence)} " + " ".join(f"{i} {x}" for i, x in evidence.items()) + "\n", encoding="utf-8")
        model = Path(folder, "model.uai")
        model.write_bytes(Path(path).read_bytes())
        subprocess.run(["toulbar2", str(model), str(given), f"-w={target}"], stdout=subprocess.DEVNULL, check=True)
        return dict(enumerate(map(int, target.read_text(encoding="utf-8").split())))


def write_uai(target: Path, cardinality: list[int], factors: list[tuple[list[int], np.ndarray]]) -> str:
    """A Markov random field as UAI text; the path of the file."""
    lines = ["MARKOV", str(len(cardinality)), " ".join(map(str, cardinality)), str(len(factors))]
    lines += [f"{len(scope)} {' '.join(map(str, scope))}" for scope, _ in factors]
    lines += [f"{table.size}\n{' '.join(map(repr, map(float, table.ravel())))}" for _, table in factors]
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(target)


def libdai(task: str, path: str, evidence: dict[int, int], asked: list[int]) -> Any:
    """A program of libDAI that takes `NETWORK EVIDENCE TASK` as in the UAI competitions and prints the result file."""
    done = subprocess.run([os.environ["LIBDAI"], path, path + ".evid", task], capture_output=True, text=True, check=True)
    words = done.stdout.split()
    words = words[words.index(task) + 1 :]
    if task == "PR":
        return float(words[0])
    at, made = 1, []
    for _ in range(int(words[0])):
        made.append([float(word) for word in words[at + 1 : at + 1 + int(words[at])]])
        at += 1 + int(words[at])
    return made


if __name__ == "__main__":
    program, task, path, evidence, asked = sys.argv[1:6]
    variables = [int(word) for word in asked.split(",") if word]
    programs = {"pyagrum": pyagrum, "pgmpy": pgmpy, "toulbar2": toulbar2, "libdai": libdai}
    answer = programs[program](task, path, read_evidence(evidence), variables)
    print(json.dumps(answer))
