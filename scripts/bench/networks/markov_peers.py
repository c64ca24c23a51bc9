"""Other programs on the problems of bench/networks/markov.py, in an interpreter that has them; prints one line of JSON.

    python scripts bench/networks/markov_peers pgmpy NETWORK.bif [REPEATS]     all marginals by its junction tree: CPU seconds, marginals
    python scripts bench/networks/markov_peers mbi PROBLEM.json ITERATIONS ENGINE     pairs fitted: CPU seconds, largest error of a marginal
    python scripts bench/networks/markov_peers triangulate GRAPH.json          pyAgrum's junction tree: CPU seconds, cliques
    python scripts/bench/networks/markov_peers.py pyagrum NETWORK.bif [ROWS.csv]  lazy propagation, of each row of evidence (−1: none)

GRAPH.json holds `cardinality` and `scopes`.  PROBLEM.json holds `nodes` and `pairs`, a list of [i, j, [p00, p01, p10, p11]] of
two-state variables.  mbi is private-pgm, or its fork tmlt-private-pgm.
"""

from __future__ import annotations

import json
import sys
import time


def pgmpy(path: str, repeats: int) -> dict[str, object]:
    """Every marginal of a Bayesian network from one calibrated junction tree."""
    from pgmpy.inference import BeliefPropagation
    from pgmpy.readwrite import BIFReader

    model = BIFReader(path).get_model()
    best, marginals = float("inf"), {}
    for _ in range(repeats):
        started = time.process_time()
        engine = BeliefPropagation(model)
        engine.calibrate()
        beliefs = {tuple(clique): factor for clique, factor in engine.get_clique_beliefs().items()}
        for node in model.nodes():
            clique = min((c for c in beliefs if node in c), key=len)
            found = beliefs[clique].marginalize([other for other in clique if other != node], inplace=False)
            values = found.values / found.values.sum()
            names = found.state_names[node]
            marginals[node] = dict(zip(map(str, names), map(float, values), strict=True))
        best = min(best, time.process_time() - started)
    return {"seconds": best, "marginals": marginals}


def triangulate(path: str) -> dict[str, object]:
    """The cliques of the junction tree that pyAgrum makes for a Markov random field with such factors."""
    import pyagrum as gum

    with open(path) as file:
        graph = json.load(file)
    model = gum.MarkovRandomField()
    for i, states in enumerate(graph["cardinality"]):
        model.add(gum.RangeVariable(str(i), "", 0, states - 1))
    for scope in graph["scopes"]:
        model.addFactor({str(i) for i in scope})
    started = time.process_time()
    tree = gum.ShaferShenoyMRFInference(model).junctionTree()
    seconds = time.process_time() - started
    return {"seconds": seconds, "cliques": [sorted(tree.clique(node)) for node in tree.nodes()]}


def pyagrum(path: str, rows: str | None) -> dict[str, object]:
    """Every marginal of a Bayesian network, under each row of evidence where there are rows: how many, and their sum."""
    import csv

    import pyagrum as gum

    model = gum.loadBN(path)
    engine = gum.LazyPropagation(model)
    given: list[dict[str, int]] = [{}]
    if rows is not None:
        with open(rows, newline="") as file:
            given = [{name: int(x) for name, x in row.items() if int(x) >= 0} for row in csv.DictReader(file)]
    count, total = 0, 0.0
    for evidence in given:
        engine.setEvidence(evidence)
        engine.makeInference()
        for name in model.names():
            count, total = count + 1, total + float(engine.posterior(name).toarray()[0])
    return {"marginals": count, "sum": total}


def mbi(path: str, iterations: int, engine: str) -> dict[str, object]:
    """Pair marginals fitted exactly."""
    import numpy as np

    try:
        from mbi import Domain, FactoredInference
    except ImportError:
        from tmlt.private_pgm.domain import Domain
        from tmlt.private_pgm.inference import FactoredInference
    with open(path) as file:
        problem = json.load(file)
    names = [f"x{i}" for i in range(problem["nodes"])]
    domain = Domain(names, [2] * len(names))
    measured = [(np.eye(4), np.array(p), 1.0, (names[i], names[j])) for i, j, p in problem["pairs"]]
    started = time.process_time()
    solver = FactoredInference(domain, backend="numpy", iters=iterations, log=False)
    model = solver.estimate(measured, total=1.0, engine=engine)
    seconds = time.process_time() - started
    errors = [np.abs(model.project((names[i], names[j])).datavector() - np.array(p)).max() for i, j, p in problem["pairs"]]
    return {"seconds": seconds, "error": float(max(errors))}


if __name__ == "__main__":
    if sys.argv[1] == "pgmpy":
        result = pgmpy(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 3)
    elif sys.argv[1] == "triangulate":
        result = triangulate(sys.argv[2])
    elif sys.argv[1] == "pyagrum":
        result = pyagrum(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None)
    else:
        result = mbi(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    json.dump(result, sys.stdout)
