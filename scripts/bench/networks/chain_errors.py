"""Whether chains tell their own error honestly: python scripts bench/networks/chain_errors [--algorithms tempered-gibbs,gibbs] [--kinds
grid,glass]

Networks with exact answers (junction trees), and short and long runs of chains on each: mean and largest error of the marginals beside what
the run tells of them (the mean of the standard errors; three times the largest).  At the end of each algorithm and effort, in how many
runs the error was below what was told, and which runs told "converged" while an error was more than five times that.  Kinds:

    grid      12×12 Boltzmann machines, σ_w .5 to 5, σ_b 1 and .1
    glass     10×10 with spin couplings ±J, and uniform to ±10; weak fields or none
    random    sparse graphs of 40 variables, complete ones of 16
    colour    colourings by three colours, Potts models of 3 states
    bif       networks of $HERD_DATA/networks under the least likely evidence of its variables without children
    uai       networks of $HERD_DATA/networks under their evidence

Effort counts millions of table cells as `--effort` does; CPU seconds are of this process.
"""

from __future__ import annotations

import argparse
import gzip
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1"))

import numpy as np
from shared.real_data import FOLDER

from herdcli.algorithm import run_algorithm
from herdcli.errors import HerdError
from herdcli.markov import algorithms
from herdcli.markov.formats import evidence as evidence_files
from herdcli.markov.formats import network_formats as formats
from herdcli.markov.formats.bif import read_bif
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import network, random_networks

MILLION = 1_000_000
KINDS = ("grid", "glass", "random", "colour", "bif", "uai")
BIF = ("alarm", "child", "hailfinder", "insurance", "win95pts")
UAI = ("Grids_11", "Grids_12", "Grids_13", "Pedigree_11", "Promedus_24", "Promedus_30", "Segmentation_11", "Segmentation_12")
LARGEST = 3.0  # standard errors of the variable with the largest that the largest error is compared with
Instance = tuple[str, str, network.Network]


def spins(count: int, pairs: np.ndarray, J: np.ndarray, fields: np.ndarray) -> network.Network:
    """P(s) ∝ exp(Σ J s s' + Σ h s), s = ±1."""
    sign = np.array([[1.0, -1.0], [-1.0, 1.0]])
    factors: list[Any] = [((i,), np.exp(h * np.array([-1.0, 1.0]))) for i, h in enumerate(fields) if h]
    factors += [((int(i), int(j)), np.exp(w * sign)) for (i, j), w in zip(pairs, J, strict=True)]
    return network.build_network([2] * count, factors)


def glasses() -> Iterator[Instance]:
    """Lattices of spins."""
    for side, J, field, seed in ((10, 1.0, 0.1, 0), (10, 2.0, 0.0, 1), (10, 5.0, 0.1, 2), (12, 1.0, 0.0, 3), (12, 10.0, 0.5, 4)):
        random = np.random.default_rng(seed)
        pairs = random_networks.grid_edges(side, side)
        couplings = J * random.choice([-1.0, 1.0], len(pairs))
        yield "glass", f"{side}×{side} ±{J:g} h {field:g}", spins(side * side, pairs, couplings, random.uniform(-field, field, side * side))
    for side, J, field, seed in ((10, 3.0, 0.1, 5), (10, 10.0, 1.0, 6), (14, 10.0, 0.1, 7), (14, 5.0, 1.0, 8)):
        random = np.random.default_rng(seed)
        pairs = random_networks.grid_edges(side, side)
        couplings = random.uniform(-J, J, len(pairs))
        yield (
            "glass",
            f"{side}×{side} to ±{J:g} h {field:g}",
            spins(side * side, pairs, couplings, random.uniform(-field, field, side * side)),
        )


def potts(count: int, pairs: np.ndarray, coupling: float, colours: int, field: float, seed: int) -> network.Network:
    """e^coupling where two neighbours are alike, 0 there if it is −∞; and weights e^(field · a normal) of the states of each variable."""
    random = np.random.default_rng(seed)
    same = np.where(np.eye(colours) > 0, np.exp(coupling), 1.0)
    factors: list[Any] = [((i,), np.exp(field * random.standard_normal(colours))) for i in range(count)] if field else []
    return network.build_network([colours] * count, factors + [((int(i), int(j)), same) for i, j in pairs])


def colours() -> Iterator[Instance]:
    """Colourings of random graphs, and Potts models on lattices."""
    for nodes, degree, field, seed in ((30, 3.5, 0.3, 0), (40, 3.5, 0.2, 1), (60, 3.0, 0.2, 2), (60, 4.0, 0.1, 3), (60, 4.0, 0.0, 3)):
        pairs = random_networks.draw_random_edges(nodes, degree, np.random.default_rng(seed))
        yield "colour", f"{nodes} of 3 colours, degree {degree:g}, h {field:g}", potts(nodes, pairs, -np.inf, 3, field, seed)
    for side, coupling, field, seed in ((8, 1.0, 0.1, 4), (8, 2.0, 0.05, 5), (8, -2.0, 0.2, 6), (9, 1.005, 0.02, 7)):
        pairs = random_networks.grid_edges(side, side)
        yield "colour", f"{side}×{side} Potts {coupling:g} h {field:g}", potts(side * side, pairs, coupling, 3, field, seed)


def bif(name: str) -> Instance:
    """A network under the state of each of its last variables that is least likely given those before."""
    given = read_bif(gzip.decompress((FOLDER / "networks" / f"{name}.bif.gz").read_bytes()).decode())
    parents = {i for scope, _ in given.factors() for i in scope[1:]} if name else set()
    leaves = [i for i in range(given.count) if sum(i in scope for scope, _ in given.factors()) == 1 and i not in parents][:8]
    leaves = leaves or list(range(given.count - 4, given.count))
    evidence: dict[int, int] = {}
    for i in leaves:
        p = exact(network.condition_network(given, evidence))[i]
        p = np.where(p > 0.01, p, np.inf)
        if np.isfinite(p).sum() > 1:
            evidence[i] = int(p.argmin())
    return "bif", f"{name} given {len(evidence)}", network.condition_network(given, evidence)


def uai(name: str) -> Instance:
    """A network under its evidence."""
    path = FOLDER / "networks" / f"{name}.uai"
    given = formats.read_uai(path.read_text())
    return "uai", name, network.condition_network(given, evidence_files.read_evidence(Path(f"{path}.evid").read_text(), given))


def instances(kinds: list[str]) -> Iterator[Instance]:
    """All networks of some kinds."""
    if "grid" in kinds:
        for sigma_w in (0.5, 1.0, 2.0, 3.0, 4.0, 5.0):
            for sigma_b, seed in ((1.0, 0), (0.1, 1)):
                made = random_networks.generate_random_network("grid", rows=12, columns=12, sigma_w=sigma_w, sigma_b=sigma_b, seed=seed)
                yield "grid", f"12×12 σ_w {sigma_w:g} σ_b {sigma_b:g}", made
    if "glass" in kinds:
        yield from glasses()
    if "random" in kinds:
        for sigma_w in (1.0, 3.0, 5.0):
            for nodes, degree in ((40, 4.0), (16, 15.0)):
                made = random_networks.generate_random_network("random", nodes=nodes, degree=degree, sigma_w=sigma_w, sigma_b=0.5, seed=2)
                yield "random", f"{nodes} degree {degree:g} σ_w {sigma_w:g}", made
    if "colour" in kinds:
        yield from colours()
    if "bif" in kinds:
        yield from (bif(name) for name in BIF if (FOLDER / "networks" / f"{name}.bif.gz").exists())
    if "uai" in kinds:
        yield from (uai(name) for name in UAI if (FOLDER / "networks" / f"{name}.uai").exists())


def exact(given: network.Network) -> list[np.ndarray]:
    """All marginals by the junction tree."""
    return list(run_algorithm(algorithms.make_inference_method(given, InferenceSettings())).nodes)


def sampled(given: network.Network, algorithm: str, effort: float, seed: int) -> Any:
    """The result of chains of so much work; None where there is not enough for 48 sweeps."""
    made: Any = algorithms.make_inference_method(given, InferenceSettings(algorithm=algorithm, seed=seed))
    before = made.steps - made.settings.sweeps - made.settings.burn_in
    sweeps = min(10_000, int(effort * MILLION / max(1.0, made.work_per_step()) - before) // 8 * 6)
    if sweeps < 48:
        return None
    asked = replace(made.settings, sweeps=sweeps, burn_in=sweeps // 3)
    return run_algorithm(made.with_settings(asked) if hasattr(made, "with_settings") else algorithms.make_inference_method(given, asked))


def line(name: str, found: Any, truth: list[np.ndarray], seconds: float) -> tuple[str, dict[str, float]]:
    """Errors beside what is told, as text and as numbers."""
    free = [i for i, p in enumerate(truth) if len(p) > 1]
    error = np.concatenate([np.abs(found.nodes[i] - truth[i]) for i in free])
    told = np.concatenate([found.attributes["standard_error"][i] for i in free])
    figures = {
        "mean": float(error.mean()), "told_mean": float(told.mean()),
        "largest": float(error.max()), "told_largest": LARGEST * float(told.max()),
        "converged": float(found.attributes["converged"]), "seconds": seconds,
    }  # fmt: skip
    words = f"mean {figures['mean']:.5f} ({figures['told_mean']:.5f})  largest {figures['largest']:.4f} ({figures['told_largest']:.4f})"
    ended = "converged" if figures["converged"] else "         "
    more = "".join(
        f"  {key} {found.attributes[key]:.4g}" for key in ("effective_draws", "round_trips") if found.attributes.get(key) is not None
    )
    text = f"{name:36} {words}  {ended} {found.attributes['iterations']:6} steps {1 + found.attributes['residual']:7.3f}  {seconds:5.2f} s"
    return text + more, figures


def verdict(rows: list[tuple[str, dict[str, float]]]) -> str:
    """In how many runs the errors were below what was told."""
    under = {key: sum(row[key] <= row[f"told_{key}"] + 1e-9 for _, row in rows) for key in ("mean", "largest")}
    settled = [(name, row) for name, row in rows if row["converged"]]
    sure = {key: sum(row[key] <= row[f"told_{key}"] + 1e-9 for _, row in settled) for key in ("mean", "largest")}
    wrong = [name for name, row in settled if any(row[key] > 1e-9 + 5 * row[f"told_{key}"] for key in ("mean", "largest"))]
    ratio = np.array([row["mean"] / max(row["told_mean"], 1e-12) for _, row in rows])
    return (
        f"{len(rows)} runs: mean error below the told one in {under['mean']}, largest in {under['largest']}; "
        f"of {len(settled)} that converged in {sure['mean']} and {sure['largest']}; "
        f"mean error over the told one: median {np.median(ratio):.2f}, largest {ratio.max():.2f}; "
        f"converged with an error above five times the told one: {', '.join(wrong) or 'none'}; "
        f"{sum(row['seconds'] for _, row in rows):.0f} CPU s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--algorithms", default="tempered-gibbs,gibbs")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--efforts", default="12,50")
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    rows: dict[tuple[str, str], list[tuple[str, dict[str, float]]]] = {}
    for _, name, given in instances(options.kinds.split(",")):
        truth = exact(given)
        for algorithm in options.algorithms.split(","):
            for effort in options.efforts.split(","):
                for seed in range(options.seeds):
                    before = time.process_time()
                    try:
                        found = sampled(given, algorithm, float(effort), seed)
                    except HerdError as error:
                        print(f"{name:36} {algorithm}: {error.message}")
                        continue
                    if found is None:
                        continue
                    text, figures = line(name, found, truth, time.process_time() - before)
                    rows.setdefault((algorithm, effort), []).append((name, figures))
                    print(f"{algorithm:14} {effort:>4} {text}", flush=True)
    for (algorithm, effort), made in rows.items():
        print(f"\n{algorithm} at effort {effort}: {verdict(made)}")


if __name__ == "__main__":
    main()
