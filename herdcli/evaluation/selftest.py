"""Known answers, computed again on the user's machine: closed forms, enumerations, comparisons of methods.

Each function yields the answers of one topic.  The problems are small, so all of them take only seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from herdcli import fast
from herdcli.algorithm import run_algorithm
from herdcli.evaluation.table import Row
from herdcli.records import dataclass
from herdcli.rng import Stream, generator

SEED = 0


@dataclass(frozen=True)
class KnownAnswer:
    """A computed value, its known value, and the allowed difference."""

    claim: str
    source: str
    found: float
    expected: float
    tolerance: float

    @property
    def is_correct(self) -> bool:
        return bool(abs(self.found - self.expected) <= self.tolerance)


def _generator(step: int) -> np.random.Generator:
    return generator(SEED, Stream.SAMPLE, step=step)


def check_compiled_loops() -> Iterator[KnownAnswer]:
    """Yield comparisons of the compiled loops with their NumPy versions, if they were compiled."""
    from herdcli.herding import dynamics
    from herdcli.herding.binary_features import pack_rows

    used = fast.loops_in_use()
    if used == "python":
        return
    on = _generator(0).random((60, 40)) < 0.4
    problem = dynamics.HiddenHerdingProblem(
        (pack_rows(on, "spin"),), dynamics.HiddenHerdingSettings(hidden=30, iterations=300, burn_in=100)
    )
    weights = {}
    try:
        for kernels in ("cython", "python"):
            fast.use_loops(kernels)
            state = run_algorithm(dynamics.HiddenHerding(problem))
            weights[kernels] = np.concatenate([part.ravel() for part in (state.runs[0].M, state.runs[0].b, state.runs[0].c)])
    finally:
        fast.use_loops(used)
    differing = float((weights["cython"] != weights["python"]).sum())
    yield KnownAnswer("weights after 300 iterations of herding that differ between compiled and NumPy loops", "-", differing, 0, 0)


def check_boltzmann_machines() -> Iterator[KnownAnswer]:
    """Yield partition functions from enumerating one layer, from enumerating the other, and from annealing."""
    from herdcli.rbm.likelihood import annealed_importance, enumeration
    from herdcli.rbm.model import Harmonium
    from herdcli.rbm.units import unit_family

    random = _generator(1)
    W, b, c = random.standard_normal((12, 8)), 0.5 * random.standard_normal(12), 0.5 * random.standard_normal(8)
    model = Harmonium(W, b, c, unit_family("binary"), unit_family("binary"))
    exact = enumeration.exact_log_partition(model)
    states = (np.arange(1 << 12)[:, np.newaxis] >> np.arange(12)) & 1
    free = -model.free_energy(states)
    summed = float(free.max() + np.log(np.exp(free - free.max()).sum()))
    yield KnownAnswer("log Z of an RBM, over hidden against over visible states", "Teh (2003), 2.5", exact, summed, 1e-9)
    # With v = (1 + s)/2 and h = (1 + t)/2, v'Wh = ¼ (s'Wt + s·W1 + t·W'1 + 1'W1) and b·v = ½ (b·s + b·1); the number of states is the same.
    spins = Harmonium(W / 4, b / 2 + W.sum(1) / 4, c / 2 + W.sum(0) / 4, unit_family("spin"), unit_family("spin"))
    shift = W.sum() / 4 + b.sum() / 2 + c.sum() / 2
    yield KnownAnswer("log Z of the same machine in spins", "gauge map", enumeration.exact_log_partition(spins) + shift, exact, 1e-9)
    problem = annealed_importance.AnnealingProblem((model,), (np.zeros(12),), chains=200, temperatures=1000, seed=SEED)
    (annealed,) = run_algorithm(annealed_importance.AnnealedImportanceSampling(problem))
    yield KnownAnswer("log Z by annealed importance sampling, 200 chains", "Neal (2001)", annealed.log_partition, exact, 0.15)


def check_herding() -> Iterator[KnownAnswer]:
    """Yield checks of Welling's first proposition, and of a bit with a rational mean."""
    from herdcli.herding import dynamics, visible_herding
    from herdcli.herding.binary_features import pack_rows

    on, T = _generator(2).random((50, 20)) < 0.3, 1000
    problem = dynamics.HiddenHerdingProblem((pack_rows(on, "spin"),), dynamics.HiddenHerdingSettings(hidden=10, iterations=T, burn_in=0))
    before = dynamics.HiddenHerding(problem).init().runs[0].b
    state = run_algorithm(dynamics.HiddenHerding(problem))
    run, total = state.runs[0], np.where(on, 1, -1).sum(axis=0)
    off = float(np.abs(run.b - before - (T * total - len(on) * run.visible_sum)).max())
    yield KnownAnswer(
        "w_T − w_0 against T (moments of the data − of the pseudo-samples), in integers", "Welling (2009), prop. 1", off, 0, 0
    )
    bit = visible_herding.source_from_moments(np.array([0.2]), 1, "x", "binary")
    one = visible_herding.VisibleHerdingProblem(
        (bit,), visible_herding.VisibleHerdingSettings(iterations=200, burn_in=0, representation="binary")
    )
    counts = run_algorithm(visible_herding.VisibleHerding(one)).runs[0].counts
    yield KnownAnswer("how often a herded bit of mean 1/5 is on in 200 iterations", "Welling (2009), 4", float(counts[0]), 40, 0)


def check_quadrature() -> Iterator[KnownAnswer]:
    """Yield checks of kernel herding under Bernoulli kernels, whose answers are known."""
    from herdcli.quadrature import selection, selection_problem
    from herdcli.quadrature.input_preparation import make_uniform_box
    from herdcli.quadrature.kernels.kernel_parsing import parse_kernel
    from herdcli.quadrature.rules import sequential_rules

    kernel, grid = parse_kernel("bernoulli:1"), np.arange(16)[:, np.newaxis] / 16
    target = make_uniform_box(0.0, 1.0, 1)
    chosen = selection.AtomSelection(
        selection_problem.SelectionProblem(
            kernel,
            (selection_problem.SelectionGroup(target, grid, 16),),
            selection_problem.SelectionSettings(sequential_rules.RuleSettings("herding")),
        )
    )
    result = run_algorithm(chosen).done[0]
    # μ = 0, so MMD² is the mean of k over pairs; Σ_m B_2(m/n) = B_2/n makes it k(0, 0)/n² for n equispaced points.
    own = float(kernel.matrix(grid[:1], grid[:1])[0, 0])
    yield KnownAnswer("MMD of 16 equispaced points, ν = 1", "Bach et al. (2012), 5.1", float(result.mmd[-1]), np.sqrt(own) / 16, 1e-12)
    wrong = float(np.abs(np.sort(result.index[:4]) - [0, 4, 8, 12]).sum() + abs(int(result.index[1]) - 8))
    yield KnownAnswer("herding's first four points against the van der Corput sequence", "Bach et al. (2012), 5.1", wrong, 0, 0)


def check_networks() -> Iterator[KnownAnswer]:
    """Yield checks of two methods of exact inference, belief propagation on a tree, and two minimisers of one Bethe free energy."""
    from herdcli.markov import algorithms
    from herdcli.markov.method import InferenceSettings
    from herdcli.markov.model import random_networks
    from herdcli.markov.model.network import Network

    def log_z(network: Network, algorithm: str, **more: object) -> float:
        settings = replace(InferenceSettings(algorithm=algorithm, tolerance=1e-12, iterations=5000), **more)  # type: ignore[arg-type]
        method = algorithms.make_inference_method(network, settings)
        return float(run_algorithm(method).attributes["log_z"])

    grid = random_networks.generate_random_network("grid", rows=4, columns=4, sigma_w=2.0, seed=SEED)
    tree = random_networks.generate_random_network("tree", nodes=14, sigma_w=2.0, seed=SEED)
    enumerated = log_z(grid, "enumerate")
    yield KnownAnswer(
        "log Z of a 4×4 lattice, junction tree against enumeration", "Teh (2003), 2.2", log_z(grid, "junction-tree"), enumerated, 1e-9
    )
    yield KnownAnswer(
        "log Z of a tree, belief propagation against enumeration", "Teh (2003), 2.4", log_z(tree, "bp"), log_z(tree, "enumerate"), 1e-9
    )
    yield KnownAnswer("Bethe log Z, UPS against a double loop", "Teh (2003), 5.6", log_z(grid, "ups"), log_z(grid, "double-loop"), 1e-6)


def check_online() -> Iterator[KnownAnswer]:
    """Yield comparisons of closed forms of Gaussian herding with numerical minimisers."""
    from herdcli.online.learners.update_verification import verification_rows

    for row in verification_rows(4, 4, SEED):
        gap = max(float(row["mean_gap"] or 0.0), float(row["covariance_gap"] or 0.0))
        claim = f"closed form against the minimiser of the objective, {row['covariance']}, {row['loss']}"
        yield KnownAnswer(claim, "Crammer & Lee (2010), (7)+(8)", gap, 0, 1e-5)


def check_components() -> Iterator[KnownAnswer]:
    """Yield checks of reversed leapfrog steps, and of sources recovered up to order and scale."""
    from herdcli.ica.energy import make_energy
    from herdcli.ica.filters.amari_distance import amari_distance

    random = _generator(3)
    energy = make_energy(random.standard_normal((6, 4)), np.ones(6), "student")
    z, momentum = random.standard_normal((5, 4)), random.standard_normal((5, 4))
    there, last = energy.leapfrog_trajectory(z, momentum, 0.05, 30)
    back, _ = energy.leapfrog_trajectory(there, -last, 0.05, 30)
    yield KnownAnswer("30 leapfrog steps there and back", "Teh (2003), alg. 4.2", float(np.abs(back - z).max()), 0, 1e-10)
    permuted = np.diag(random.standard_normal(5))[random.permutation(5)]
    yield KnownAnswer("Amari distance of a permuted and scaled unmixing", "Teh (2003), 4.6", amari_distance(permuted), 0, 1e-12)


TOPICS: dict[str, Callable[[], Iterator[KnownAnswer]]] = {
    "loops": check_compiled_loops,
    "rbm": check_boltzmann_machines,
    "herding": check_herding,
    "quadrature": check_quadrature,
    "markov": check_networks,
    "online": check_online,
    "ica": check_components,
}


def answer_rows(answers: dict[str, list[KnownAnswer]]) -> list[Row]:
    """Return one row of a table per answer."""
    return [
        {"topic": topic, "claim": each.claim, "source": each.source, "found": each.found, "expected": each.expected,
         "tolerance": each.tolerance, "verdict": "ok" if each.is_correct else "WRONG"}
        for topic, found in answers.items() for each in found
    ]  # fmt: skip
