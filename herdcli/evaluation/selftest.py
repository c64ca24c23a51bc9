"""Known answers, found anew on the user's machine: closed forms, enumerations, one method against another.

Each function yields answers of one topic.  They are small enough for the whole to take seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from herdcli import fast
from herdcli.algorithm import solve
from herdcli.evaluation.table import Row
from herdcli.records import dataclass
from herdcli.rng import Stream, generator

SEED = 0


@dataclass(frozen=True)
class Answer:
    """What was computed, what it must be, and how far apart the two may be."""

    claim: str
    source: str
    found: float
    expected: float
    tolerance: float

    @property
    def right(self) -> bool:
        return bool(abs(self.found - self.expected) <= self.tolerance)


def _random(step: int) -> np.random.Generator:
    return generator(SEED, Stream.SAMPLE, step=step)


def loops() -> Iterator[Answer]:
    """The compiled loops against their NumPy twins, where they were compiled."""
    from herdcli.herding import dynamics
    from herdcli.herding.features import packed

    used = fast.kernels()
    if used == "python":
        return
    on = _random(0).random((60, 40)) < 0.4
    problem = dynamics.Problem((packed(on, "spin"),), dynamics.Settings(hidden=30, iterations=300, burn_in=100))
    weights = {}
    try:
        for kernels in ("cython", "python"):
            fast.use(kernels)
            state = solve(dynamics.HiddenHerding(problem))
            weights[kernels] = np.concatenate([part.ravel() for part in (state.runs[0].M, state.runs[0].b, state.runs[0].c)])
    finally:
        fast.use(used)
    differing = float((weights["cython"] != weights["python"]).sum())
    yield Answer("weights after 300 iterations of herding that differ between compiled and NumPy loops", "-", differing, 0, 0)


def boltzmann_machines() -> Iterator[Answer]:
    """Partition functions by enumerating one layer, the other, and by annealing."""
    from herdcli.rbm import annealing, enumeration
    from herdcli.rbm.model import Harmonium
    from herdcli.rbm.units import family

    random = _random(1)
    W, b, c = random.standard_normal((12, 8)), 0.5 * random.standard_normal(12), 0.5 * random.standard_normal(8)
    model = Harmonium(W, b, c, family("binary"), family("binary"))
    exact = enumeration.log_partition_exact(model)
    states = (np.arange(1 << 12)[:, np.newaxis] >> np.arange(12)) & 1
    free = -model.free_energy(states)
    summed = float(free.max() + np.log(np.exp(free - free.max()).sum()))
    yield Answer("log Z of an RBM, over hidden against over visible states", "Teh (2003), 2.5", exact, summed, 1e-9)
    # v = (1 + s)/2 and h = (1 + t)/2: v'Wh = ¼ (s'Wt + s·W1 + t·W'1 + 1'W1), b·v = ½ (b·s + b·1), and the states are as many.
    spins = Harmonium(W / 4, b / 2 + W.sum(1) / 4, c / 2 + W.sum(0) / 4, family("spin"), family("spin"))
    shift = W.sum() / 4 + b.sum() / 2 + c.sum() / 2
    yield Answer("log Z of the same machine in spins", "gauge map", enumeration.log_partition_exact(spins) + shift, exact, 1e-9)
    problem = annealing.Problem((model,), (np.zeros(12),), chains=200, temperatures=1000, seed=SEED)
    (annealed,) = solve(annealing.Annealing(problem))
    yield Answer("log Z by annealed importance sampling, 200 chains", "Neal (2001)", annealed.log_partition, exact, 0.15)


def herding() -> Iterator[Answer]:
    """Welling's first proposition, and a bit with a rational mean."""
    from herdcli.herding import dynamics, visible
    from herdcli.herding.features import packed

    on, T = _random(2).random((50, 20)) < 0.3, 1000
    problem = dynamics.Problem((packed(on, "spin"),), dynamics.Settings(hidden=10, iterations=T, burn_in=0))
    before = dynamics.HiddenHerding(problem).init().runs[0].b
    state = solve(dynamics.HiddenHerding(problem))
    run, total = state.runs[0], np.where(on, 1, -1).sum(axis=0)
    off = float(np.abs(run.b - before - (T * total - len(on) * run.visible_sum)).max())
    yield Answer("w_T − w_0 against T (moments of the data − of the pseudo-samples), in integers", "Welling (2009), prop. 1", off, 0, 0)
    bit = visible.from_moments(np.array([0.2]), 1, "x", "binary")
    one = visible.Problem((bit,), visible.Settings(iterations=200, burn_in=0, representation="binary"))
    counts = solve(visible.VisibleHerding(one)).runs[0].counts
    yield Answer("how often a herded bit of mean 1/5 is on in 200 iterations", "Welling (2009), 4", float(counts[0]), 40, 0)


def quadrature() -> Iterator[Answer]:
    """Kernel herding under Bernoulli kernels, whose answers are known."""
    from herdcli.quadrature import problems, rules, selection
    from herdcli.quadrature.kernel_names import parse
    from herdcli.quadrature.preparation import uniform

    kernel, grid = parse("bernoulli:1"), np.arange(16)[:, np.newaxis] / 16
    target = uniform(0.0, 1.0, 1)
    chosen = selection.Selection(
        problems.Problem(kernel, (problems.Group(target, grid, 16),), problems.Settings(rules.Settings("herding")))
    )
    result = solve(chosen).done[0]
    # μ = 0, so that MMD² is the mean of k over pairs; Σ_m B_2(m/n) = B_2/n makes that of n equispaced points k(0, 0)/n².
    own = float(kernel.matrix(grid[:1], grid[:1])[0, 0])
    yield Answer("MMD of 16 equispaced points, ν = 1", "Bach et al. (2012), 5.1", float(result.mmd[-1]), np.sqrt(own) / 16, 1e-12)
    wrong = float(np.abs(np.sort(result.index[:4]) - [0, 4, 8, 12]).sum() + abs(int(result.index[1]) - 8))
    yield Answer("herding's first four points against the van der Corput sequence", "Bach et al. (2012), 5.1", wrong, 0, 0)


def networks() -> Iterator[Answer]:
    """Exact inference two ways, belief propagation on a tree, and two minimisers of one Bethe free energy."""
    from herdcli.markov import algorithms
    from herdcli.markov.method import Settings
    from herdcli.markov.model import generate
    from herdcli.markov.model.network import Network

    def log_z(network: Network, algorithm: str, **more: object) -> float:
        settings = replace(Settings(algorithm=algorithm, tolerance=1e-12, iterations=5000), **more)  # type: ignore[arg-type]
        method = algorithms.method(network, settings)
        return float(solve(method).attributes["log_z"])

    grid = generate.make("grid", rows=4, columns=4, sigma_w=2.0, seed=SEED)
    tree = generate.make("tree", nodes=14, sigma_w=2.0, seed=SEED)
    enumerated = log_z(grid, "enumerate")
    yield Answer(
        "log Z of a 4×4 lattice, junction tree against enumeration", "Teh (2003), 2.2", log_z(grid, "junction-tree"), enumerated, 1e-9
    )
    yield Answer(
        "log Z of a tree, belief propagation against enumeration", "Teh (2003), 2.4", log_z(tree, "bp"), log_z(tree, "enumerate"), 1e-9
    )
    yield Answer("Bethe log Z, UPS against a double loop", "Teh (2003), 5.6", log_z(grid, "ups"), log_z(grid, "double-loop"), 1e-6)


def online() -> Iterator[Answer]:
    """Closed forms of Gaussian herding against numerical minimisers."""
    from herdcli.online.verify import check

    for row in check(4, 4, SEED):
        gap = max(float(row["mean_gap"] or 0.0), float(row["covariance_gap"] or 0.0))
        claim = f"closed form against the minimiser of the objective, {row['covariance']}, {row['loss']}"
        yield Answer(claim, "Crammer & Lee (2010), (7)+(8)", gap, 0, 1e-5)


def components() -> Iterator[Answer]:
    """Leapfrog steps run back, and sources found up to order and scale."""
    from herdcli.ica.amari import amari_distance
    from herdcli.ica.energy import energy_of

    random = _random(3)
    energy = energy_of(random.standard_normal((6, 4)), np.ones(6), "student")
    z, momentum = random.standard_normal((5, 4)), random.standard_normal((5, 4))
    there, last = energy.trajectory(z, momentum, 0.05, 30)
    back, _ = energy.trajectory(there, -last, 0.05, 30)
    yield Answer("30 leapfrog steps there and back", "Teh (2003), alg. 4.2", float(np.abs(back - z).max()), 0, 1e-10)
    permuted = np.diag(random.standard_normal(5))[random.permutation(5)]
    yield Answer("Amari distance of a permuted and scaled unmixing", "Teh (2003), 4.6", amari_distance(permuted), 0, 1e-12)


TOPICS: dict[str, Callable[[], Iterator[Answer]]] = {
    "loops": loops,
    "rbm": boltzmann_machines,
    "herding": herding,
    "quadrature": quadrature,
    "markov": networks,
    "online": online,
    "ica": components,
}


def rows(answers: dict[str, list[Answer]]) -> list[Row]:
    """One row of a table per answer."""
    return [
        {"topic": topic, "claim": each.claim, "source": each.source, "found": each.found, "expected": each.expected,
         "tolerance": each.tolerance, "verdict": "ok" if each.right else "WRONG"}
        for topic, found in answers.items() for each in found
    ]  # fmt: skip
