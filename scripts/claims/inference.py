"""What Teh (2003) says in words of approximate inference, ch. 2 and 5, as numbers.

    python scripts claims/inference FOLDER [--quick] [--only CLAIM …]           (makes claims-inference.csv)

order       errors of the marginals of mean field, TAP, belief optimisation and belief propagation, network by network, where all that
            are compared converged: grids, full machines, sparse ones, and models learned from pictures.
two-nodes   sec. 5.5: iterative scaling of two nodes (weight 5, biases −2.5, means .3) with marginals of mean field, TAP and propagation.
speed       sec. 5.7.1: does the order of the algorithms' speeds depend on σ_w, σ_b, σ_α?
uniform     sec. 5.7.2: marginals of UPS where propagation converges and where it does not: their distance to ½, and the exact ones'.
minima      sec. 5.5: Bethe free energies of loopy IS beside the least of many starts of UPS.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from claims.claim_rows import bits, told, write
from scipy.special import expit, logit
from shared.figure_pipeline import Row

from herdcli.algorithm import run_algorithm
from herdcli.markov import algorithms
from herdcli.markov.method import InferenceResult, InferenceSettings
from herdcli.markov.model import random_networks
from herdcli.markov.model.network import Network
from herdcli.schema import Array


def inferred(network: Network, algorithm: str, **settings: Any) -> InferenceResult:
    """The result of one algorithm, as `herd ups-infer --algorithm …` has it."""
    found: InferenceResult = run_algorithm(algorithms.make_inference_method(network, InferenceSettings(algorithm, **settings)))
    return found


def converged(result: InferenceResult) -> bool:
    return bool(result.attributes["converged"])


def means(result: InferenceResult) -> Array:
    """P(x = 1) of each variable."""
    return np.array([p[1] for p in result.nodes])


FAMILIES = ("grid", "full", "sparse", "eights")
WEIGHTS = (0.5, 1.0, 2.0, 4.0)
METHODS = {
    "mean-field": {"iterations": 5000},
    "tap": {"iterations": 5000},
    "belief-optimization": {"iterations": 5000},
    "bp": {"iterations": 2000, "damping_schedule": (0.0, 0.5, 0.9)},
}


def machine(family: str, sigma: float, seed: int) -> Network:
    """A Boltzmann machine: 25 units on a grid, 10 that are all joined (smaller weights), 15 with four neighbours each, or one of eights."""
    random = np.random.default_rng((seed, round(10 * sigma)))
    if family == "full":
        edges = np.array([(i, j) for i in range(10) for j in range(i + 1, 10)])
        return random_networks.network_from_weights(edges, *random_networks.draw_weights(10, edges, sigma * (4 / 9) ** 0.5, 1.0, random))
    if family == "eights":
        return learned(sigma, seed)
    kind = {"grid": {}, "sparse": {"nodes": 15}}[family]
    return random_networks.generate_random_network("random" if family == "sparse" else "grid", sigma_w=sigma, seed=seed, **kind)


def learned(share: float, seed: int) -> Network:
    """Weights that fit the pairs of 8 pixels of eights, those of the likeliest model with all pairs times `share` (.25 to 2)."""
    from claims.herding import PIXELS, fields, likeliest

    x = bits("eights8x8.h5", PIXELS, 300, seed).astype(np.int8)
    first, second = np.triu_indices(PIXELS, 1)
    wanted = np.concatenate([x.sum(axis=0), (x[:, first] * x[:, second]).sum(axis=0)]) / (len(x) + 10)  # ten rows of nothing beside them
    b, J = fields(likeliest(wanted) * share / 2)
    # Spins s = 2x − 1: b·s + ½ s'Js has weights 4 J_ij and biases 2 b_i − 2 Σ_j J_ij in x.
    edges = np.stack([first, second], axis=1)
    return random_networks.network_from_weights(edges, 4 * J[first, second], 2 * b - 2 * J.sum(axis=1))


def order(quick: bool) -> Iterator[Row]:
    """Mean absolute error of P(x = 1); gains in pairs of algorithms over the networks on which both converged."""
    pairs = (("mean-field", "tap"), ("tap", "belief-optimization"), ("mean-field", "bp"), ("tap", "bp"))
    for family in FAMILIES:
        for sigma in WEIGHTS[1:3] if quick else WEIGHTS:
            errors: dict[str, list[float]] = {name: [] for name in METHODS}
            for seed in range(3 if quick else 20):
                network = machine(family, sigma, seed)
                exact = means(inferred(network, "junction-tree"))
                for name, settings in METHODS.items():
                    found = inferred(network, name, tolerance=1e-8, **settings)
                    errors[name].append(float(np.abs(means(found) - exact).mean()) if converged(found) else np.nan)
            place = f"{family}, σ_w {sigma:g}"
            table = {name: np.array(values) for name, values in errors.items()}
            for name, values in table.items():
                yield told("order", place, f"converged: {name}", np.isfinite(values).mean())
                if np.isfinite(values).any():
                    yield told("order", place, f"error: {name}", values[np.isfinite(values)])
            for worse, better in pairs:
                gain = (table[worse] - table[better])[np.isfinite(table[worse] - table[better])]
                if len(gain) > 2:
                    yield told("order", place, f"gain: {worse} to {better}", gain)


def two_nodes(quick: bool) -> Iterator[Row]:
    """How far the means are from .3 after so many sweeps of scaling, and where the multipliers stay; undamped and damped inner loops."""
    sweeps = 200 if quick else 2000
    for name, sign in (("mean field", 0.0), ("TAP as printed", -1.0), ("TAP", 1.0), ("exact", np.nan)):
        for keep in (0.0, 0.5, 0.9):
            gap, swing = scaling(sign, keep, sweeps)
            yield told("two nodes", f"{name}, damping {keep:g}", "distance of the means", gap)
            yield told("two nodes", f"{name}, damping {keep:g}", "swing of the multipliers", swing)


def scaling(sign: float, keep: float, sweeps: int, weight: float = 5.0, bias: float = -2.5, wanted: float = 0.3) -> tuple[float, float]:
    """Largest distance of the means from those wanted over the last fifty sweeps, and the range of the first multiplier over them."""
    extra, m, gaps, path = np.zeros(2), np.full(2, 0.5), [], []
    for _ in range(sweeps):
        for i in range(2):
            m = inner(m, bias + extra, weight, sign, keep)
            extra[i] += logit(wanted) - logit(np.clip(m[i], 1e-12, 1 - 1e-12))  # 5.16 with these marginals
        m = inner(m, bias + extra, weight, sign, keep)
        gaps.append(float(np.abs(m - wanted).max()))
        path.append(extra[0])
    return max(gaps[-50:]), float(np.ptp(path[-50:]))


def inner(m: Array, b: Array, weight: float, sign: float, keep: float) -> Array:
    """Means of two nodes by 2.38, or by 2.44 with the Onsager term's sign; NaN: exact ones."""
    if np.isnan(sign):
        p = np.exp(np.array([[0.0, b[1]], [b[0], b[0] + b[1] + weight]]))
        p /= p.sum()
        return np.array([p[1].sum(), p[:, 1].sum()])
    m = m.copy()
    for _ in range(500):
        for i in range(2):
            j = 1 - i
            field = b[i] + weight * m[j] + sign * 0.5 * (1 - 2 * m[i]) * weight**2 * m[j] * (1 - m[j])
            m[i] = keep * m[i] + (1 - keep) * expit(field)
    return m


SETTINGS = ((2.0, 1.0, 1.0), (2.0, 1.0, 4.0), (5.0, 1.0, 1.0), (5.0, 1.0, 4.0), (5.0, 4.0, 4.0))
SPEED = {
    "loopy IS": ("loopy-is", {"iterations": 20000}),
    "UPS-HV": ("ups", {"clamp": "rows-columns", "iterations": 20000}),
    "UPS-V": ("ups", {"clamp": "columns", "iterations": 20000}),
    "IS+BP": ("is-bp", {"iterations": 5000}),
    "GIS+BP": ("gis-bp", {"iterations": 5000}),
}


def speed(quick: bool) -> Iterator[Row]:
    """Updates to a residual of 1e-8 over the networks on which all converged, as ratios of each algorithm to the one before it."""
    for sigma_w, sigma_b, sigma_alpha in SETTINGS[:1] if quick else SETTINGS:
        place, found = f"σ_w {sigma_w:g}, σ_b {sigma_b:g}, σ_α {sigma_alpha:g}", []
        for seed in range(3 if quick else 48):
            network = random_networks.generate_random_network(
                "grid", sigma_w=sigma_w, sigma_b=sigma_b, sigma_alpha=sigma_alpha, observe="border", seed=seed
            )
            runs = [inferred(network, name, tolerance=1e-8, **settings) for name, settings in SPEED.values()]
            if all(converged(run) for run in runs):
                found.append([float(run.attributes["propagation_updates"] + run.attributes["scaling_updates"]) for run in runs])
        yield told("speed", place, "networks on which all converged", len(found))
        if len(found) > 1:
            logs = np.log(np.array(found))
            for k, name in enumerate(SPEED):
                yield told("speed", place, f"updates, log: {name}", logs[:, k])
            for k, (first, second) in enumerate(zip(SPEED, list(SPEED)[1:], strict=False)):
                yield told("speed", place, f"log ratio: {second} to {first}", logs[:, k + 1] - logs[:, k])


def uniform(quick: bool) -> Iterator[Row]:
    """5×5 grids without evidence, σ_b = 1: 2,000 iterations of propagation with damping that rises to .99."""
    damped = {"schedule": "sequential", "damping_kind": "linear", "damping_schedule": (0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99)}
    for sigma in (5.0, 10.0):
        spread: dict[bool, list[list[float]]] = {True: [], False: []}
        for seed in range(6 if quick else 40):
            network = random_networks.generate_random_network("grid", sigma_w=sigma, seed=seed)
            exact, ups = means(inferred(network, "junction-tree")), inferred(network, "ups", tolerance=1e-8)
            bp = inferred(network, "bp", tolerance=1e-8, iterations=2000, **damped)
            near = [float(np.abs(p - 0.5).mean()) for p in (means(ups), exact)]
            error = [float(np.abs(means(run) - exact).mean()) for run in (ups, bp)]
            spread[converged(bp)].append(near + error)
        for ended, rows in spread.items():
            place = f"σ_w {sigma:g}, propagation {'converged' if ended else 'did not converge'}"
            yield told("uniform", place, "networks", len(rows))
            if len(rows) > 1:
                table = np.array(rows)
                for k, name in enumerate(("UPS's distance to ½", "exact distance to ½", "error of UPS", "error of propagation")):
                    yield told("uniform", place, name, table[:, k])
                yield told("uniform", place, "error of propagation less UPS's", table[:, 3] - table[:, 2])


def minima(quick: bool) -> Iterator[Row]:
    """log Z of Bethe of loopy IS less the largest of UPS from the usual start and nine others (the least free energy)."""
    for sigma_w in (2.0, 5.0, 7.5):
        below, ended = [], 0
        for seed in range(4 if quick else 30):
            network = random_networks.generate_random_network("grid", sigma_w=sigma_w, sigma_alpha=1.0, observe="border", seed=seed)
            run = inferred(network, "loopy-is", tolerance=1e-8, iterations=5000)
            ended += converged(run)
            if converged(run):
                others = [inferred(network, "ups", tolerance=1e-8, start=start, seed=seed) for start in range(3 if quick else 10)]
                below.append(max(float(other.attributes["log_z"]) for other in others) - float(run.attributes["log_z"]))
        place = f"σ_w {sigma_w:g}, σ_α 1"
        yield told("minima", place, "converged", ended / (4 if quick else 30))
        if below:
            yield told("minima", place, "in the lowest minimum found", np.mean(np.array(below) < 1e-5))
            yield told("minima", place, "free energy above the lowest", below)


CLAIMS = {"order": order, "two-nodes": two_nodes, "speed": speed, "uniform": uniform, "minima": minima}

if __name__ == "__main__":
    write("claims-inference", CLAIMS)
