"""Sparse coding, the generative alternative: z = A s + noise, sources s with independent heavy-tailed priors, columns of A of length 1.

Inference of s given z, per row:

| posterior   | mean                                        | covariance                                     |
|-------------|---------------------------------------------|------------------------------------------------|
| map         | argmin |z − As|²/2σ² + Σ E(s_i)             | none                                           |
| laplace     | the same                                    | (A'A/σ² + diag E''(s))⁻¹                       |
| variational | of the Gaussian below                       | of the Gaussian below                          |

E(√v) is concave in v for these experts, so that E(s) ≤ E(ξ) + κ(ξ) (s² − ξ²)/2 with κ(ξ) = E'(ξ)/ξ.  This is a Gaussian bound on the
prior, and gives a Gaussian posterior with precision A'A/σ² + diag κ(ξ).  ξ² = E s² tightens the bound (variational), ξ = |s| descends
to the MAP.  The MAP of the Laplacian is a lasso, and without noise a linear programme (eq. 4.12).

Dictionaries follow A ← A + ε E[λ s'], λ = (z − As)/σ², and columns are rescaled to length 1.  Without noise λ is the dual of
the linear programme, to which (z − As)/σ² tends.
Source: Teh (2003), eq. 4.12 to 4.14; Olshausen & Field (1996); Lewicki & Sejnowski (2000); Girolami (2001).
"""

from __future__ import annotations

from dataclasses import field

import numpy as np

from herdcli.algorithm import FixedLengthAlgorithm, Map, RunProgress
from herdcli.errors import BadUsage, DataError, Diverged, NotConverged
from herdcli.ica.expert_table import TABLE
from herdcli.ica.experts import EXPERTS, require_integrable
from herdcli.ica.model import ICATrace
from herdcli.ica.problem import LearningProblem
from herdcli.ica.problem import LearningSettings as Learning
from herdcli.ica.results import ICAFit
from herdcli.numerics import symmetric_matrices
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array

SPARSE = tuple(name for name, entry in TABLE.items() if entry.tails == "heavy")
ROWS = 50  # rows that one worker infers at a time
INFERENCE, ALTERNATIONS = 500, 2000  # largest numbers of iterations
LEARNING, STEP = 60, 0.1  # alternations per update of the dictionary, and the threshold step of one, relative to the rows' deviation
SCALED = 1 << 14  # the deviation is computed from at most this many rows
RELAXED = 1.7
SETTLED = 1e-5  # inference ends when no source changes by more than this share of the row's largest source
SMALLEST = 1e-9  # variance of the noise where the model has none
LEAST = 1e-6  # least curvature in a divisor


@dataclass(frozen=True)
class InferredSources:
    """Means (n, M) of the sources, pull = Σ_n E[λ s'] (D, M) on the dictionary, and the objective (n,).

    The objective is log p(z, s) at the mean; for the variational posterior it is the bound on log p(z).
    """

    mean: Array
    pull: Array
    objective: Array


@dataclass(frozen=True)
class SparseCodingModel:
    """A dictionary A (D, M), the prior's expert and γ, and the noise's standard deviation σ; 0: none.

    scale  deviation of the rows while a dictionary is learned: the lasso then stops early, which moves the dictionary equally well.
    """

    A: Array
    expert: str
    gamma: float
    noise: float
    posterior: str
    scale: float = 0.0

    def __post_init__(self) -> None:
        if self.posterior not in ("map", "laplace", "variational"):
            raise BadUsage(f"unknown posterior '{self.posterior}', expected map, laplace or variational")
        if self.noise == 0 and self.posterior != "map":
            raise BadUsage(f"without noise there is no {self.posterior} posterior", hint="use --posterior map, or --noise above 0")
        if self.posterior == "laplace" and self.expert == "laplace":
            raise BadUsage("Laplace's approximation needs a smooth prior", hint="use --expert laplace-smooth, student or logistic")
        require_integrable(self.expert, self.gamma)
        if self.expert not in SPARSE:
            raise BadUsage(f"{self.expert} is not a sparse prior", hint="use --expert laplace, laplace-smooth, student or logistic")

    def infer_sources(self, Z: Array) -> InferredSources:
        """Return the inferred sources of rows (n, D)."""
        if self.expert == "laplace" and self.posterior == "map":
            mean, dual = self._solve_lasso(Z) if self.noise else self._solve_basis_pursuit(Z)
            return InferredSources(mean, dual.T @ mean, self.log_joint(Z, mean))
        xi = self._tightest_bound_points(Z)
        mean, _, spread = self._gaussian_posterior(Z, self._bounding_prior_variances(xi))
        if self.posterior == "laplace":
            curvature = self.gamma * EXPERTS[self.expert].curvature(mean)
            spread = self._gaussian_posterior(Z, 1.0 / np.maximum(curvature, LEAST))[2]
        pull = (Z - mean @ self.A.T).T @ mean
        if self.posterior != "map":
            # E[(z − As) s'] = (z − Am) m' − A Cov(s).  A mode has less power than the sources, so without the last term columns would
            # grow, were they not rescaled to length 1.
            pull -= self.A @ spread
        objective = self.bound(Z, xi) if self.posterior == "variational" else self.log_joint(Z, mean)
        return InferredSources(mean, pull / max(self.noise**2, SMALLEST), objective)

    def log_joint(self, Z: Array, S: Array) -> Array:
        """Return log p(z, s) (n,), or log p(s) without noise."""
        expert, D = EXPERTS[self.expert], Z.shape[1]
        result: Array = -(self.gamma * expert.energy(S) + expert.log_z(np.full(S.shape[1], self.gamma))).sum(axis=1)
        if self.noise:
            result -= np.square(Z - S @ self.A.T).sum(axis=1) / (2.0 * self.noise**2) + 0.5 * D * np.log(2.0 * np.pi * self.noise**2)
        return result

    def _solve_basis_pursuit(self, Z: Array) -> tuple[Array, Array]:
        """Return argmin γ Σ|s_i| with A s = z, s = s⁺ − s⁻ ≥ 0, and the duals (n, D).

        Raises NotConverged if a row is not in the span of A.
        """
        from scipy.optimize import linprog

        M = self.A.shape[1]
        both = np.hstack([self.A, -self.A])
        found, dual = np.empty((len(Z), M)), np.empty(Z.shape)
        for row, z in enumerate(Z):
            solved = linprog(np.full(2 * M, self.gamma), A_eq=both, b_eq=z, bounds=(0, None), method="highs")
            if solved.x is None:
                raise NotConverged(f"the linear programme of row {row} has no solution: {solved.message}", hint="use --noise above 0")
            found[row] = solved.x[:M] - solved.x[M:]
            dual[row] = solved.eqlin.marginals
        return found, dual

    def _solve_lasso(self, Z: Array) -> tuple[Array, Array]:
        """Return argmin |z − As|²/2σ² + γ Σ|s_i|, and λ = (z − As)/σ² (n, D), by alternating directions.

        s is smooth and w sparse; v pulls them together.  Unlike in a proximal gradient, convergence is not slowed down by a small σ.
        Source: Boyd et al. (2011), sec. 6.4, over-relaxed as in their sec. 3.4.3.
        """
        # Minimise |z − As|²/2σ² + γ|w|₁ where s = w, with the penalty ½ρ|s − w + v|².  s then solves (A'A/σ² + ρI) s = A'z/σ² + ρ(w − v),
        # w is s + v soft-thresholded by γ/ρ, the step; v accumulates s − w, and is the clipped part of s + v.  Any ρ ends at the same s;
        # small steps find the largest sources first, as needed with few alternations.
        step = STEP * self.scale or 1.0
        precision = self.A.T @ self.A / self.noise**2
        inverse = np.linalg.inv(precision + self.gamma / step * np.eye(len(precision)))
        begin, turned = (Z @ self.A / self.noise**2) @ inverse, inverse * (self.gamma / step)
        w = v = np.zeros(begin.shape)
        for _ in range(LEARNING if self.scale else ALTERNATIONS):
            s = (w - v) @ turned
            s += begin
            reached = RELAXED * s
            reached += (1.0 - RELAXED) * w
            reached += v
            v = np.clip(reached, -step, step)
            new = reached - v
            if not self.scale and _has_settled(w, new, s):
                w = new
                break
            w = new
        return w, (Z - s @ self.A.T) / self.noise**2

    def bound(self, Z: Array, xi: Array) -> Array:
        """Return the bound on log p(z) (n,) from the priors' bounds, integrated over s.      xi  (n, M) where they touch."""
        prior = self._bounding_prior_variances(xi)
        _, logs = np.linalg.slogdet(systems := self._row_covariances(prior))
        solved = np.linalg.solve(systems, Z[:, :, np.newaxis])[:, :, 0]
        # e^{−γE(s)}/z ≥ e^{−γE(ξ)}/z · e^{ξ²/2v} · e^{−s²/2v} with v = 1/κ(ξ), and the last factor is √(2πv) N(s; 0, v).  Integrating N(z;
        # As, σ²I) over these Gaussians leaves N(z; 0, A diag(v) A' + σ²I).
        touched = -(self.gamma * EXPERTS[self.expert].energy(xi) + EXPERTS[self.expert].log_z(np.full(xi.shape[1], self.gamma)))
        touched += 0.5 * (np.log(2.0 * np.pi * prior) + xi**2 / prior)
        result: Array = touched.sum(axis=1) - 0.5 * (logs + (Z * solved).sum(axis=1) + Z.shape[1] * np.log(2.0 * np.pi))
        return result

    def _bounding_prior_variances(self, xi: Array) -> Array:
        """Return 1/κ(ξ) = ξ / γE'(ξ), the variances of the Gaussians that touch the prior at ξ (n, M)."""
        expert = EXPERTS[self.expert]
        slope = self.gamma * expert.slope(xi)
        curvature = float(expert.curvature(np.zeros(1))[0])
        flat = 1.0 / (self.gamma * curvature) if curvature else 0.0  # at 0; the Laplacian has a peak there
        result: Array = np.where(slope > 0, xi / np.where(slope > 0, slope, 1.0), flat)
        return result

    def _tightest_bound_points(self, Z: Array) -> Array:
        """Return ξ (n, M) of the tightest bound, or |s| at the mode for the MAP and the Laplace approximation."""
        xi = np.ones((len(Z), self.A.shape[1]))
        for _ in range(INFERENCE):
            mean, variance, _ = self._gaussian_posterior(Z, self._bounding_prior_variances(xi))
            before, xi = xi, np.sqrt(mean**2 + variance) if self.posterior == "variational" else np.abs(mean)
            if (np.abs(xi - before).max(axis=1) <= SETTLED * np.maximum(xi.max(axis=1), LEAST)).all():
                break
        return xi

    def _gaussian_posterior(self, Z: Array, prior: Array) -> tuple[Array, Array, Array]:
        """Return mean, variance and summed covariance of s given z under N(0, diag prior), by D × D systems.

        prior  (n, M).
        """
        A = self.A
        # (A'A/σ² + Π⁻¹)⁻¹ = Π − ΠA'S⁻¹AΠ with S = AΠA' + σ²I, and the mean is ΠA'S⁻¹z (Makin, eq. 2.23 to 2.28): D × D systems for M ≥ D
        # sources, and no division by a prior variance of 0.
        solved = np.linalg.solve(self._row_covariances(prior), np.broadcast_to(A, (len(Z), *A.shape)))  # S⁻¹A (n, D, M)
        mean = prior * np.einsum("nd,ndm->nm", Z, solved)
        reduced = np.einsum("dm,ndm->nm", A, solved)
        variance = np.maximum(prior - prior**2 * reduced, 0.0)
        spread = np.diag(prior.sum(axis=0)) - np.einsum("nm,ndm,nk,dk->mk", prior, solved, prior, A, optimize=True)
        return mean, variance, spread

    def _row_covariances(self, prior: Array) -> Array:
        """Return the covariances A diag(prior) A' + σ² I of z, (n, D, D)."""
        D = len(self.A)
        outer = (self.A[:, np.newaxis] * self.A).reshape(D * D, -1)
        result: Array = (prior @ outer.T).reshape(-1, D, D) + max(self.noise**2, SMALLEST) * np.eye(D)
        return result


def _has_settled(before: Array, now: Array, smooth: Array) -> bool:
    """Return whether no source of a row changes by more than a share of the largest."""
    apart = np.maximum(np.abs(now - before), np.abs(now - smooth)).max(axis=1)
    return bool((apart <= SETTLED * np.maximum(np.abs(now).max(axis=1), LEAST)).all())


@dataclass
class SparseCodingState:
    """The dictionary and the trace."""

    step: int
    A: Array = array("D M", "dictionary, columns of length 1", kind="f", finite=True)
    objective: Array = array("U", "mean of each update's rows", kind="f")


@dataclass(frozen=True)
class SparseCodingProblem:
    """The rows and the schedule as a `LearningProblem`, and the options of sparse coding."""

    rows: LearningProblem
    noise: float = 0.1
    posterior: str = "map"
    _kept: list[float] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.noise < 0:
            raise DataError("the noise's standard deviation is below 0")
        self._kept.append(float(np.sqrt(np.square(self.rows.Z[:SCALED]).mean())))
        self.model(np.zeros((1, 1)))

    @property
    def settings(self) -> Learning:
        """The settings of the schedule."""
        return self.rows.settings

    def model(self, A: Array) -> SparseCodingModel:
        """Return the model with this dictionary, as used in learning."""
        return SparseCodingModel(A, self.settings.expert, self.settings.gamma, self.noise, self.posterior, self._kept[0])


@dataclass(frozen=True)
class DictionaryLearning(FixedLengthAlgorithm[SparseCodingState]):
    """Sparse coding as an algorithm.  map: a map over parts of a minibatch, which may use threads."""

    task: SparseCodingProblem
    map: Map = map

    @property
    def state(self) -> type[SparseCodingState]:
        return SparseCodingState

    def init(self) -> SparseCodingState:
        """Return columns in random directions."""
        settings, D, M = self.task.settings, self.task.rows.Z.shape[1], self.task.rows.filters
        A = generator(settings.seed, Stream.INITIAL).standard_normal((D, M))
        A /= np.sqrt((A**2).sum(axis=0))
        return SparseCodingState(0, A, np.full(settings.updates, np.nan))

    def step(self, state: SparseCodingState) -> SparseCodingState:
        """Infer the sources of one minibatch, then move the dictionary.  Raises Diverged if it is not finite."""
        task = self.task
        Z, model = task.rows.batch(state.step), task.model(state.A)
        parts = list(self.map(model.infer_sources, [Z[start : start + ROWS] for start in range(0, len(Z), ROWS)]))
        state.objective[state.step] = sum(part.objective.sum() for part in parts) / len(Z)
        state.A += task.settings.rate(state.step) / len(Z) * sum(part.pull for part in parts)
        state.A /= np.sqrt((state.A**2).sum(axis=0))
        state.step += 1
        if not np.isfinite(state.A).all():
            raise Diverged(f"the dictionary left the finite range at update {state.step}", hint="lower --rate-schedule")
        return state

    @property
    def steps(self) -> int:
        """The number of updates of the schedule."""
        return self.task.settings.updates

    def memory(self) -> int:
        """Return the bytes of a part's linear systems, of sizes D × D and D × M per row, and of an update's sources."""
        D, M = int(self.task.rows.Z.shape[1]), self.task.rows.filters
        return 8 * (ROWS * (2 * D * D + 2 * D * M) + 6 * self.task.settings.batch_size * (D + M) + 3 * D * M)

    def progress(self, state: SparseCodingState) -> RunProgress:
        """Return the last minibatch's objective."""
        figure = f"{self.objective.replace('_', ' ')} {state.objective[state.step - 1]:.3f}" if state.step else ""
        return RunProgress(state.step, self.task.settings.updates, figure)

    @property
    def objective(self) -> str:
        """The name of the trace's objective."""
        return "bound" if self.task.posterior == "variational" else "log_joint"

    def result(self, state: SparseCodingState) -> ICAFit:
        """Return the dictionary, and its pseudo-inverse as filters."""
        task, M = self.task, state.A.shape[1]
        more = {"experts": [task.settings.expert] * M, "dictionary": state.A, "noise": task.noise, "posterior": task.posterior}
        trace = ICATrace(np.arange(1, state.step + 1), state.objective)
        return ICAFit(symmetric_matrices.pseudoinverse(state.A), np.full(M, task.settings.gamma), trace, state.step, self.objective, more)
