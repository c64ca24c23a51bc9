"""Parameters of log-linear models, their exact expectations by a junction tree, and generalised and improved iterative scaling.

A cluster with a marginal has one parameter for each of its states, a cluster with features one for each feature.
Source: Teh (2003), sec. 2.5.1 (2.54, 2.55); Darroch & Ratcliff (1972); Della Pietra, Della Pietra & Lafferty (1997).
"""

from __future__ import annotations

import numpy as np

from herdcli.errors import NegativeResult
from herdcli.markov.exact import cliques, junction_tree
from herdcli.markov.learning.learners import LearnedFactors, LearningSettings, SizedLearner, empty_residual
from herdcli.markov.method import ToTolerance
from herdcli.markov.model.constraints import LearningProblem
from herdcli.records import dataclass
from herdcli.schema import Array

NODES = np.array([-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0])  # tilts between which IIS interpolates


class LogLinearParameters:
    """The layout of the parameters θ, flat over all clusters, and maps between θ and log tables of clusters."""

    def __init__(self, problem: LearningProblem) -> None:
        self.problem = problem
        self.features = [None if c.features is None else c.features.reshape(len(c.features), -1) for c in problem.clusters]
        self.target = np.concatenate([np.ravel(c.target) for c in problem.clusters])
        self.ends = np.cumsum([np.size(c.target) for c in problem.clusters])[:-1]

    def log_tables(self, theta: Array) -> list[Array]:
        """Return log f_a, flat."""
        return [
            part if f is None else _weighted_features(part, f) for part, f in zip(np.split(theta, self.ends), self.features, strict=True)
        ]

    def compute_expectations(self, tables: list[Array]) -> Array:
        """Map marginals to expectations: the adjoint of `log_tables`."""
        return np.concatenate([p if f is None else f @ p for p, f in zip(tables, self.features, strict=True)])

    def factors(self, theta: Array) -> list[Array]:
        """Return f_a, scaled to maximum 1."""
        made = []
        for cluster, logs in zip(self.problem.clusters, self.log_tables(theta), strict=True):
            made.append(np.exp(logs - logs.max()).reshape(self.problem.scope_shape(cluster.scope)))
        return made


def _weighted_features(theta: Array, f: Array) -> Array:
    """Compute θ·f (cells,) for features f (d, cells); a θ of −∞ leaves only the states with the smallest value of its feature."""
    # θ f and θ (f − min f) differ by a constant, which the normaliser absorbs; in the second, −∞ · 0 counts as 0.
    never = np.isneginf(theta)
    logs: Array = np.where(never, 0.0, theta) @ f
    logs[(f[never] > f[never].min(axis=1, keepdims=True)).any(axis=0)] = -np.inf
    return logs


class ExactExpectations:
    """Marginals of clusters and log Z of any factors on the problem's scopes, by its junction tree."""

    def __init__(self, problem: LearningProblem, settings: LearningSettings) -> None:
        self.problem, self.width = problem, 0
        network = problem.structure_network()
        found = cliques.search_elimination_orders(network, settings.seed, settings.orders)
        self.width, self.tree = found.width, None
        if found.complete:
            self.tree = junction_tree.build_clique_tree(network, found.order)
            self.size = self.tree.bytes_needed(network)

    def bytes_needed(self) -> tuple[int, str]:
        """Return the bytes that the tables need, and a description."""
        if self.tree is None:
            return 1 << 60, f"the junction tree, treewidth at least {self.width},"
        return self.size, f"the junction tree, treewidth {self.width},"

    def __call__(self, log_tables: list[Array]) -> tuple[list[Array], float]:
        """Compute the marginal of each cluster, flat, and log Z."""
        assert self.tree is not None
        # Each factor is scaled to maximum 1, e^{−top}, and the sum of the tops is added to log Z: e^θ overflows for large θ.
        tops = [float(logs.max()) for logs in log_tables]
        made = self.problem.network([np.exp(logs - top) for logs, top in zip(log_tables, tops, strict=True)])
        found = junction_tree.calibrate(made, self.tree)
        marginals = junction_tree.factor_marginals(made, found)[len(self.problem.base_factors) :]
        return [p.ravel() for _, p in marginals], found.log_z + sum(tops)


@dataclass
class FeatureScalingState:
    """θ, one residual per iteration, and the number of computed expectations."""

    theta: Array
    residual: Array
    expectations: int
    step: int


class FeatureScaling(SizedLearner, ToTolerance[FeatureScalingState, LearningSettings]):
    """The algorithms `gis` and `iis`: all parameters are updated together, by exact expectations."""

    state = FeatureScalingState

    def __init__(self, problem: LearningProblem, settings: LearningSettings) -> None:
        self.problem, self.settings, self.steps = problem, settings, settings.iterations
        self.parameters, self.expect = LogLinearParameters(problem), ExactExpectations(problem, settings)
        # Features are shifted so that all are ≥ 0.  t(x) is their sum; each cluster with a marginal contributes 1 to it in every state.
        self.low = np.concatenate([np.zeros(c.target.size) if f is None else f.min(axis=1)
                                   for c, f in zip(problem.clusters, self.parameters.features, strict=True)])  # fmt: skip
        self.total = [np.ones(c.target.size) if f is None else (f - f.min(axis=1, keepdims=True)).sum(axis=0)
                      for c, f in zip(problem.clusters, self.parameters.features, strict=True)]  # fmt: skip
        self.largest = float(sum(total.max() for total in self.total)) or 1.0  # if no feature varies, no parameter changes
        self.constant = all(np.ptp(total) == 0 for total in self.total)

    def bytes_needed(self) -> tuple[int, str]:
        """Return the bytes that the junction tree needs, and a description."""
        return self.expect.bytes_needed()

    def init(self) -> FeatureScalingState:
        """Return the state at θ = 0."""
        return FeatureScalingState(np.zeros(len(self.low)), empty_residual(), 0, 0)

    def step(self, state: FeatureScalingState) -> FeatureScalingState:
        """Update every parameter once."""
        logs = self.parameters.log_tables(state.theta)
        marginals, log_z = self.expect(logs)
        state.expectations += 1
        present = self.parameters.compute_expectations(marginals)
        residual = float(np.abs(present - self.parameters.target).max())
        above, below = self.parameters.target - self.low, present - self.low
        if ((below <= 0) & (above > 0)).any():
            raise NegativeResult("no distribution has these expectations: they need states to which the model gives probability 0")
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(below > 0, np.log(above / below), 0.0)
        if self.settings.algorithm == "gis" or self.constant:
            # With s = f − min f ≥ 0 and Σ_i s_i = T for every x, E[s_i e^{δ T}] = S_i has the root δ = log(S_i/E s_i)/T (2.55).  If Σ s_i <
            # T for some x, this step is shorter than that of 2.54, in the same direction, and still increases the likelihood.
            change = ratio / self.largest
        else:
            change = self._improved_scaling_step(state, logs, log_z, above, ratio)
        theta = state.theta + change
        return FeatureScalingState(theta, np.append(state.residual, residual), state.expectations, state.step + 1)

    def _improved_scaling_step(self, state: FeatureScalingState, logs: list[Array], log_z: float, above: Array, ratio: Array) -> Array:
        """Return δ from E[s_i e^{δ t(x)}] = S_i (2.54), by log interpolation between tilts of the whole model by e^{u t(x)}."""
        finite = np.abs(ratio[np.isfinite(ratio)])
        reach = 4 * float(finite.max(initial=1e-12)) / self.largest
        curves = []
        for u in NODES * reach:
            tilted, tilted_z = self.expect([part + u * total for part, total in zip(logs, self.total, strict=True)])
            moment = self.parameters.compute_expectations(tilted) - self.low
            with np.errstate(divide="ignore"):
                # E_P[s_i e^{u t}] = E_u[s_i] Z_u/Z, with E_u and Z_u of P tilted by e^{u t}: one propagation gives the left side of 2.54
                # for every i.
                curves.append(np.log(np.maximum(moment, 0.0)) + tilted_z - log_z)
        state.expectations += len(NODES)
        grid = np.array(curves)
        with np.errstate(divide="ignore"):
            wanted = np.log(np.maximum(above, 0.0))
        found = [np.interp(wanted[i], grid[:, i], NODES * reach) if np.isfinite(grid[:, i]).all() else 0.0 for i in range(len(wanted))]
        change: Array = np.where(np.isneginf(wanted), -np.inf, np.array(found))
        return change

    def result(self, state: FeatureScalingState) -> LearnedFactors:
        """Return the factors."""
        counts = (state.step * len(self.problem.clusters), 0)
        return LearnedFactors(self.parameters.factors(state.theta), self.meets_criterion(state), state.step, state.residual, counts)
