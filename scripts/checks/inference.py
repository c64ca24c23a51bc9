"""Whether verdicts on approximate inference tell wrong answers from right ones: random networks, every algorithm, beside enumeration.

    python scripts checks/inference --seeds 1000:1065 -o results/inference-verdicts.tsv
    python scripts checks/inference --networks large --seeds 0:24 --algorithms bp,ups,gbp,mean-field,tree-reweighted \
        --second-answer chains -o results/inference-verdicts-large.tsv
    python scripts checks/inference --seeds 73100:73140 -o results/inference-verdicts-unseen.tsv
    python scripts checks/inference --summary results/inference-verdicts*.tsv -o results/inference-verdicts.md

Networks have three to nine variables of one to four states, factors of up to four variables, zeros in some and evidence on up to two.  A
row of the table is an algorithm: how many answers are within .01 of the exact marginals, between, and off by more than .1, and how many
of these are called ok; and CPU seconds of runs and of their checks.  `--second-answer chains` leaves exact inference out of the checks, as
on networks that it does not fit.  Large networks are lattices of 12 × 12, 30 and 75 variables and random graphs of 150, 200 and 250
with weights of .5, 1, 2 and 4, whose answers are those of a junction tree.  Exits 1 if an answer that is off by more than .1 is called
ok, if fewer than nine of ten answers within .01 are, or if the checks take more than .3 times the runs (with exact inference).
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from herdcli.algorithm import run_algorithm
from herdcli.errors import HerdError
from herdcli.evaluation.figures import beliefs as figures
from herdcli.evaluation.verdicts import OK, verdict_text
from herdcli.markov import algorithms
from herdcli.markov.algorithms.table import EXACT, NO_LOG_Z, TABLE, algorithms_using_marginals
from herdcli.markov.mean.mean_field_bound import compute_mean_field_bound
from herdcli.markov.method import InferenceResult, InferenceSettings
from herdcli.markov.model import beliefs, network, random_networks
from herdcli.markov.query import reliability

NEAR, FAR = 0.01, 0.1
RIGHT, COST = 0.9, 0.3
HEADER = (
    "algorithm", "second_answer", "answers", "refused", "near", "near_ok", "between", "between_ok", "far", "far_ok", "run_seconds",
    "check_seconds",
)  # fmt: skip
PAGE = """<!-- made by scripts/checks/inference.py --summary -->

# Verdicts on approximate inference

How many answers are off by more than .1 from the exact marginals, by .01 to .1, or less, and how many of each are called `ok`. The last
columns have the CPU time of a check, and that of all checks over that of all runs, start-up not included.

| table | algorithms | second answer by | answers | above .1 | `ok` | between | `ok` | within .01 | `ok` | a check | share |
|---|---|---|---|---|---|---|---|---|---|---|---|
{lines}

Seeds 1000 to 1064 were used to develop the checks; those of `inference-verdicts-unseen` were not.
"""


def random_network(seed: int) -> tuple[network.Network, dict[int, int]]:
    """A network and its evidence."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(3, 10))
    states = [int(rng.choice([1, 2, 2, 2, 3, 4])) for _ in range(count)]
    while np.prod(states) > 20000:
        states[int(rng.integers(count))] = 2
    many = int(rng.integers(count, 2 * count + 1))
    scale, zeros = float(rng.choice([0.5, 1, 2, 4])), float(rng.choice([0, 0, 0.1, 0.3]))
    factors: list[network.Factor] = []
    for _ in range(many):
        size = int(min(count, rng.choice([1, 2, 2, 2, 3, 3, 4])))
        scope = [int(i) for i in rng.permutation(count)[:size]]
        table = np.exp(scale * rng.normal(size=[states[i] for i in scope]))
        if zeros:
            table = table * (rng.random(table.shape) > zeros)
        factors.append((tuple(scope), table if table.any() else table + 1))
    evidence = {int(i): int(rng.integers(states[i])) for i in rng.permutation(count)[: int(rng.integers(0, 3))]}
    return network.build_network(states, factors), evidence


def large_network(seed: int) -> tuple[network.Network, dict[int, int]]:
    """A Boltzmann machine on a lattice or a random graph; 24 seeds in turn have every kind, size and weight."""
    sigma, size = (0.5, 1.0, 2.0, 4.0)[seed // 2 % 4], seed // 8 % 3
    if seed % 2:
        return random_networks.generate_random_network("random", nodes=(150, 200, 250)[size], degree=2.5, sigma_w=sigma, seed=seed), {}
    return random_networks.generate_random_network("grid", rows=12, columns=(12, 30, 75)[size], sigma_w=sigma, seed=seed), {}


def by_elimination(given: network.Network) -> list[Any]:
    """The exact marginals by a junction tree."""
    return list(run_algorithm(algorithms.make_inference_method(given, InferenceSettings(algorithm="junction-tree"))).nodes)


def enumerated(given: network.Network) -> list[Any] | None:
    """The exact marginals, state by state; None where no state is possible."""
    states = np.indices(given.cardinality).reshape(given.count, -1)
    p = np.ones(states.shape[1])
    for scope, table in given.factors():
        p = p * table[tuple(states[i] for i in scope)]
    return [np.bincount(states[i], p, int(given.cardinality[i])) / p.sum() for i in range(given.count)] if p.any() else None


def judge(given: network.Network, found: InferenceResult, algorithm: str, exactly: bool) -> tuple[str, float]:
    """The verdict on a result, and the CPU seconds of what it was checked by."""
    begun = time.process_time()
    bound = compute_mean_field_bound(given)
    known = reliability.compute_reference(given, int(found.attributes.get("iterations", 1)), bound, answer=found, allow_exact=exactly)
    told = reliability.assess_answer(found, algorithm, known).attributes()
    seconds = time.process_time() - begun
    told["log_z_mean_field"] = None if algorithm in NO_LOG_Z else bound
    made = beliefs.assemble_beliefs(given, {}, found.nodes, found.cliques, algorithm=algorithm, **found.attributes | told)
    return str(verdict_text("beliefs", figures.metrics(made, None), made)), seconds


@functools.cache
def problem(large: bool, seed: int) -> tuple[network.Network, list[Any] | None]:
    """The network with its evidence taken in, and the exact marginals."""
    whole, evidence = large_network(seed) if large else random_network(seed)
    given = network.condition_network(network.validate_network(whole), evidence)
    return given, by_elimination(given) if large else enumerated(given)


def measured(algorithm: str, seeds: Sequence[int], exactly: bool, large: bool) -> dict[str, Any]:
    """A row of the table."""
    counts: Counter[str] = Counter()
    runs = checks = 0.0
    for seed in seeds:
        try:
            given, exact = problem(large, seed)
            if exact is None:
                continue
            begun = time.process_time()
            found = run_algorithm(algorithms.make_inference_method(given, InferenceSettings(algorithm=algorithm, sweeps=1000, burn_in=100)))
            runs += time.process_time() - begun
        except HerdError:
            counts["refused"] += 1
            continue
        found_verdict, seconds = judge(given, found, algorithm, exactly)
        checks += seconds
        error = max(float(np.abs(p - q).max()) for p, q in zip(found.nodes, exact, strict=True))
        place = "near" if error < NEAR else "far" if not error <= FAR else "between"
        counts.update(["answers", place, *([f"{place}_ok"] if found_verdict == OK else [])])
    row: dict[str, Any] = {name: counts[name] for name in HEADER}
    return row | {
        "algorithm": algorithm, "second_answer": "exact inference" if exactly else "chains",
        "run_seconds": f"{runs:.2f}", "check_seconds": f"{checks:.2f}",
    }  # fmt: skip


def summary(tables: Sequence[Path]) -> str:
    """The page on some tables: a row for each table and kind of second answer."""
    lines = []
    for path in tables:
        rows = [dict(zip(HEADER, line.split("\t"), strict=True)) for line in path.read_text().splitlines()[1:]]
        for way in dict.fromkeys(row["second_answer"] for row in rows):
            own = [row for row in rows if row["second_answer"] == way]
            total = {name: math.fsum(float(row[name]) for row in own) for name in HEADER[2:]}
            cells = [f"[{path.stem}]({path.name})", f"{len(own)}", way]
            cells += [f"{total[name]:.0f}" for name in ("answers", "far", "far_ok", "between", "between_ok", "near", "near_ok")]
            cells += [f"{1e3 * total['check_seconds'] / total['answers']:.1f} ms", f"{total['check_seconds'] / total['run_seconds']:.2f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return PAGE.format(lines="\n".join(lines))


def main() -> int:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", choices=["small", "large"], default="small")
    parser.add_argument("--seeds", default="1000:1065")
    parser.add_argument("--second-answer", choices=["exact", "chains", "both"], default="both")
    parser.add_argument("--algorithms", default="")
    parser.add_argument("--summary", type=Path, nargs="+", default=[], help="tables to write a page about, instead of measuring")
    parser.add_argument("-o", "--output", default="-")
    asked = parser.parse_args()
    if asked.summary:
        Path(asked.output).write_text(summary(asked.summary))
        return 0
    first, last = map(int, asked.seeds.split(":"))
    names = (
        asked.algorithms.split(",") if asked.algorithms else [a for a in TABLE if a not in {*EXACT, *algorithms_using_marginals("needed")}]
    )
    ways = {"exact": (True,), "chains": (False,), "both": (True, False)}[asked.second_answer]
    lines, missed = ["\t".join(HEADER)], []
    with np.errstate(all="ignore"):
        for exactly in ways:
            rows = [measured(name, range(first, last), exactly, asked.networks == "large") for name in names]
            lines += ["\t".join(str(row[name]) for name in HEADER) for row in rows]
            total = {name: math.fsum(float(row[name]) for row in rows) for name in HEADER[2:]}
            missed += [f"{row['algorithm']}: {row['far_ok']} wrong answers are called ok" for row in rows if row["far_ok"]]
            if total["near_ok"] < RIGHT * total["near"]:
                missed.append(f"{total['near_ok']:.0f} of {total['near']:.0f} right answers are called ok")
            if exactly and total["check_seconds"] > COST * total["run_seconds"]:
                missed.append(f"checks take {total['check_seconds']:.2f} s, runs {total['run_seconds']:.2f} s")
    text = "\n".join(lines) + "\n"
    if asked.output == "-":
        sys.stdout.write(text)
    else:
        Path(asked.output).write_text(text)
    for line in missed:
        print(line, file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
