"""Sparse coding by EM with a Gaussian posterior for each row: z = C s + noise, s_k with density ½γ e^{−γ|s_k|}, q = N(ν, P⁻¹).

With λ = 1/σ² the free energy of a row, whose minimum over all q is −log p(z), is

    F = ½λ (|z − Cν|² + tr C P⁻¹C') + γ Σ_k E|s_k| + ½ log |P| − ½M log 2πe − M log ½γ + ½D log 2πσ²,

where |s_k| is folded normal: E|s| = v^½ (2/π)^½ e^{−ν²/2v} + ν erf(ν/(2v)^½), v = (P⁻¹)_kk.  Its derivatives are the averages of those
of the energy, ∂E|s|/∂ν = erf(ν/(2v)^½) and ∂²E|s|/∂ν² = 2N(0; ν, v) = 2 ∂E|s|/∂v.

    E, exact   P = λC'C + diag d.  d moves towards 2γN(0; ν, v) and ν by Newton's step, both halved together until F falls.
               A posterior continues from the last iteration's; the E step ends when it gains little relative to an iteration.
               F falls along either: ∂F/∂d = −½ (P⁻¹∘P⁻¹)(2γN − d), and P⁻¹∘P⁻¹ is positive definite.
    E, book    ν the maximum of the posterior, d = γ b sech²(bν): not the minimum of F for its C, so that F can rise from step to step.
    M          C = (Σ z ν') (Σ νν' + P⁻¹)⁻¹.  P⁻¹ bounds the columns; without it they would grow without limit.

Source: Opper & Archambeau (2009); Makin, sec. 6.5.1, eq. 6.12 to 6.22, whose E step is `maximise_posterior`.  The exact one is added.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import erf

from herdcli.algorithm import Map, RunProgress
from herdcli.errors import BadUsage, Diverged
from herdcli.ica.cholesky_inverse import inverse_root_and_logdet
from herdcli.ica.experts import require_integrable
from herdcli.ica.model import ICATrace
from herdcli.ica.results import ICAFit
from herdcli.ica.sparse_coding import SparseCodingModel
from herdcli.numerics import symmetric_matrices
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array

E_STEPS = ("exact", "book")
ROWS = 50  # rows that one worker infers at a time
INNER = 60  # largest number of steps of an E step
HALVINGS = 30
SETTLED = 1e-9  # an E step ends when one of its steps gains less than this, in nats per row
SHARE = 1e-3  # the same tolerance as a fraction of the last iteration's gain; an E step may end early because the next one continues it
SHARPNESS = 20.0  # b, of the book's log cosh in place of |s|
PATIENCE = 3
CACHED = 1 << 17  # numbers of all matrices that are processed together
LEAST = 1e-12  # least d, relative to the mean curvature of the likelihood


@dataclass(frozen=True)
class SparseCoder:
    """A dictionary C (D, M), weight γ of the prior's energy and standard deviation σ of the noise."""

    C: Array
    gamma: float
    noise: float

    @property
    def gram(self) -> Array:
        """The matrix λC'C (M, M)."""
        return np.asarray(self.C.T @ self.C / self.noise**2)

    def precision_root_and_logdet(self, d: Array) -> tuple[Array, Array]:
        """Return W (n, M, M) with W'W = P⁻¹, and log |P| (n,) of P = λC'C + diag d, d (n, M)."""
        return inverse_root_and_logdet(self.gram + d[:, :, None] * np.eye(d.shape[1]))

    def energy(self, Z: Array, mean: Array, d: Array) -> tuple[Array, Array]:
        """Return F (n,) of the posteriors N(ν, P⁻¹) of rows Z (n, D), and the variances (n, M) of the sources."""
        W, logs = self.precision_root_and_logdet(d)
        v = posterior_variances(W)
        return self._free_energy(Z, mean, d, v, logs), v

    def _free_energy(self, Z: Array, mean: Array, d: Array, v: Array, logs: Array) -> Array:
        D, M = self.C.shape
        # λ tr C P⁻¹C' = tr (P − diag d) P⁻¹ = M − Σ d v
        squares = np.square(Z - mean @ self.C.T).sum(axis=1) / self.noise**2 + (M - (d * v).sum(axis=1))
        prior = self.gamma * folded_normal_mean(mean, v).sum(axis=1) - M * np.log(0.5 * self.gamma)
        constant = 0.5 * (D * np.log(2 * np.pi * self.noise**2) - M * np.log(2 * np.pi * np.e))
        return np.asarray(0.5 * squares + prior + 0.5 * logs + constant)

    def second_moment_sum(self, mean: Array, d: Array) -> Array:
        """Return Σ νν' + P⁻¹ (M, M) of posteriors."""
        found: Array = mean.T @ mean
        for rows in self._cache_sized_slices(len(d)):
            W = self.precision_root_and_logdet(d[rows])[0].reshape(-1, d.shape[1])
            found += W.T @ W
        return found

    def _cache_sized_slices(self, n: int) -> list[slice]:
        """Return parts of n rows whose matrices fit together in the processor's cache."""
        many = max(1, CACHED // self.C.shape[1] ** 2)
        return [slice(start, start + many) for start in range(0, n, many)]

    def minimise_to_convergence(self, Z: Array, mean: Array, d: Array) -> tuple[Array, Array]:
        """Return ν and d (n, M) that minimise F of each row, from the given ones; no step raises F."""
        return self.minimise_energy(Z, mean, d, SETTLED)[:2]

    def minimise_energy(self, Z: Array, mean: Array, d: Array, tolerance: float) -> tuple[Array, Array, Array]:
        """Return ν, d and F (n,) after steps until none gains more than `tolerance` nats for any row."""
        mean, d = mean.copy(), d.copy()
        return (
            mean,
            d,
            np.concatenate([self._minimise_in_place(Z[rows], mean[rows], d[rows], tolerance) for rows in self._cache_sized_slices(len(Z))]),
        )

    def _minimise_in_place(self, Z: Array, mean: Array, d: Array, tolerance: float) -> Array:
        """Return F of rows that are processed together, after their steps; changes mean and d in place."""
        least = LEAST * float(np.trace(self.gram)) / len(self.gram)
        reached, v = self.energy(Z, mean, d)
        at = np.arange(len(Z))
        for _ in range(INNER):
            slope = self.gamma * erf(mean[at] / np.sqrt(2 * v[at])) - (Z[at] - mean[at] @ self.C.T) @ self.C / self.noise**2
            towards = np.maximum(2 * self.gamma * normal_density_at_zero(mean[at], v[at]), least)
            # P at the new d is also the matrix of Newton's step of ν: one factor serves both.
            W, logs = self.precision_root_and_logdet(towards)
            step = -(W.transpose(0, 2, 1) @ (W @ slope[:, :, None]))[:, :, 0]
            spread = posterior_variances(W)
            energy = self._free_energy(Z[at], mean[at] + step, towards, spread, logs)
            gained = reached[at] - energy
            better = gained > 0
            worse, turn = np.flatnonzero(~better), towards - d[at]
            taken = at[better]
            mean[taken] += step[better]
            d[taken], v[taken], reached[taken] = towards[better], spread[better], energy[better]
            if len(worse):
                gained[worse] = self._shorten_steps(Z, mean, d, reached, v, at[worse], step[worse], turn[worse])
            at = at[gained > tolerance]
            if not len(at):
                break
        return reached

    def infer_posteriors(self, Z: Array) -> tuple[Array, Array]:
        """Return means (n, M) of the best posteriors of rows (n, D), and −F (n,), a bound on log p(z)."""
        n, M = len(Z), self.C.shape[1]
        mean, _, energy = self.minimise_energy(Z, np.zeros((n, M)), np.full((n, M), 0.5 * self.gamma**2), SETTLED)
        return mean, -energy

    def _shorten_steps(self, Z: Array, mean: Array, d: Array, reached: Array, v: Array, rows: Array, step: Array, turn: Array) -> Array:
        """Halve steps of these rows that were too long until F falls, and return the gains.

        Changes mean, d, reached and v in place.
        """
        gained, left, rate = np.zeros(len(rows)), np.arange(len(rows)), 0.5
        for _ in range(HALVINGS):
            at = rows[left]
            new_mean, new_d = mean[at] + rate * step[left], d[at] + rate * turn[left]
            energy, spread = self.energy(Z[at], new_mean, new_d)
            better = energy < reached[at]
            taken = at[better]
            gained[left[better]] = reached[taken] - energy[better]
            mean[taken], d[taken], reached[taken], v[taken] = new_mean[better], new_d[better], energy[better], spread[better]
            left, rate = left[~better], rate / 2
            if not len(left):
                break
        return gained

    def maximise_posterior(self, Z: Array) -> tuple[Array, Array]:
        """Return ν at the maximum of the posterior, and d, the curvature of log cosh there."""
        mean = SparseCodingModel(self.C, "laplace", self.gamma, self.noise, "map").infer_sources(Z).mean
        least = LEAST * float(np.trace(self.gram)) / len(self.gram)
        return mean, np.maximum(self.gamma * SHARPNESS / np.cosh(np.minimum(SHARPNESS * np.abs(mean), 300.0)) ** 2, least)


def posterior_variances(W: Array) -> Array:
    """Return the diagonals (n, M) of P⁻¹ = W'W."""
    return np.asarray(np.einsum("nij,nij->nj", W, W))


def normal_density_at_zero(mean: Array, variance: Array) -> Array:
    """Return N(0; ν, v)."""
    found: Array = np.exp(-0.5 * mean**2 / variance) / np.sqrt(2 * np.pi * variance)
    return found


def folded_normal_mean(mean: Array, variance: Array) -> Array:
    """Return E|s| of N(ν, v) = 2v N(0; ν, v) + ν erf(ν/(2v)^½)."""
    found: Array = 2 * variance * normal_density_at_zero(mean, variance) + mean * erf(mean / np.sqrt(2 * variance))
    return found


@dataclass(frozen=True)
class VariationalCodingProblem:
    """The rows Z (n, D), the number of sources M, and the options of the fit."""

    Z: Array
    filters: int
    gamma: float = 1.0
    noise: float = 0.1
    e_step: str = "exact"
    iterations: int = 100
    tolerance: float = 1e-6  # least gain of an iteration, in nats per row, that counts as progress
    seed: int = 0

    def __post_init__(self) -> None:
        if self.e_step not in E_STEPS:
            raise BadUsage(f"unknown E step '{self.e_step}', expected exact or book (as Makin's book has it)")
        if not self.noise > 0:
            raise BadUsage("without noise there is no gaussian posterior", hint="use --posterior map, or --noise above 0")
        require_integrable("laplace", self.gamma)


@dataclass
class VariationalCodingState:
    """The dictionary, the posterior of every row, and F after each half-step."""

    step: int
    C: Array = array("D M", "dictionary", kind="f", finite=True)
    mean: Array = array("n M", "ν", kind="f", finite=True)
    curvature: Array = array("n M", "d, what the prior adds to the precision", kind="f", finite=True)
    energy: Array = array("T", "mean F: after the E step, after the M step, …", kind="f", finite=True)
    quiet: int = 0  # consecutive iterations that gained less than the tolerance


@dataclass(frozen=True)
class VariationalCoding:
    """Variational sparse coding as an algorithm, with an E step and an M step over all rows at a time.

    map: a map over parts of the rows, which may use threads.
    """

    task: VariationalCodingProblem
    map: Map = map
    state = VariationalCodingState  # the type of its states

    def init(self) -> VariationalCodingState:
        """Return columns of length 1 in random directions, and posteriors as broad as the prior."""
        task, (n, D) = self.task, self.task.Z.shape
        C = generator(task.seed, Stream.INITIAL).standard_normal((D, task.filters))
        C /= np.sqrt((C**2).sum(axis=0))
        return VariationalCodingState(0, C, np.zeros((n, task.filters)), np.full((n, task.filters), 0.5 * task.gamma**2), np.zeros(0))

    def step(self, state: VariationalCodingState) -> VariationalCodingState:
        """Update the posteriors, then the dictionary.  Raises Diverged if it is not finite."""
        task, n = self.task, len(self.task.Z)
        coder = SparseCoder(state.C, task.gamma, task.noise)
        parts = [slice(start, start + ROWS) for start in range(0, n, ROWS)]
        found = list(self.map(self._make_e_step(coder, state), parts))
        state.mean, state.curvature = (np.concatenate([item[index] for item in found]) for index in (0, 1))
        energy, crossed, moments = (sum(item[index] for item in found) for index in (2, 3, 4))
        state.C = np.ascontiguousarray(np.linalg.solve(moments, crossed.T).T)  # in the memory order that a checkpoint restores
        # ½λ Σ (|z − Cν|² + tr CP⁻¹C') = ½λ (Σ|z|² − 2 tr C (Σ νz') + tr C (Σ νν' + P⁻¹) C') is the only term of F with C
        change = np.trace((state.C - coder.C) @ (-2 * crossed.T)) + np.trace(state.C @ moments @ state.C.T - coder.C @ moments @ coder.C.T)
        after = energy + 0.5 * change / task.noise**2
        gained = state.energy[-1] - after / n if len(state.energy) else np.inf
        state.quiet = state.quiet + 1 if abs(gained) <= task.tolerance else 0
        state.energy = np.append(state.energy, [energy / n, after / n])
        state.step += 1
        if not np.isfinite(state.C).all():
            raise Diverged(f"the dictionary left the finite range at iteration {state.step}", hint="a larger --noise")
        return state

    def _make_e_step(self, coder: SparseCoder, state: VariationalCodingState) -> Callable[[slice], tuple[Array, ...]]:
        """Return a function from a part of the rows to ν, d, Σ F, Σ z ν' (D, M) and Σ νν' + P⁻¹ (M, M)."""

        settled = max(SETTLED, SHARE * float(state.energy[-3] - state.energy[-1])) if len(state.energy) > 2 else SETTLED

        def part(rows: slice) -> tuple[Array, ...]:
            Z = self.task.Z[rows]
            if self.task.e_step == "book":
                mean, d = coder.maximise_posterior(Z)
                energy = coder.energy(Z, mean, d)[0]
            else:
                mean, d, energy = coder.minimise_energy(Z, state.mean[rows], state.curvature[rows], settled)
            return mean, d, energy.sum(), Z.T @ mean, coder.second_moment_sum(mean, d)

        return part

    def done(self, state: VariationalCodingState) -> bool:
        """Return whether iterations no longer gain, or all iterations are used."""
        return state.step >= self.task.iterations or state.quiet >= PATIENCE

    def memory(self) -> int:
        """Return the bytes of the posteriors, and of the covariances of a part's rows."""
        n, D, M = len(self.task.Z), int(self.task.Z.shape[1]), self.task.filters
        return 8 * (4 * n * M + 6 * ROWS * M * M + 3 * M * (D + M))

    def progress(self, state: VariationalCodingState) -> RunProgress:
        """Return the number of iterations and the bound."""
        return RunProgress(state.step, self.task.iterations, f"bound {-state.energy[-1]:.4f}" if state.step else "")

    def result(self, state: VariationalCodingState) -> ICAFit:
        """Return the dictionary, its pseudo-inverse as filters, and −F after each half-step."""
        task, M = self.task, state.C.shape[1]
        more = {"experts": ["laplace"] * M, "dictionary": state.C, "noise": task.noise, "posterior": "gaussian"}
        trace = ICATrace(np.repeat(np.arange(1, state.step + 1), 2), -state.energy)
        gain = np.diff(state.energy[1::2])
        last = (
            f"the last one changed the bound by {abs(gain[-1]):.3g} nats per row"
            if len(gain)
            else "one iteration is too few to measure a change"
        )
        why = "" if state.quiet >= PATIENCE else last
        return ICAFit(symmetric_matrices.pseudoinverse(state.C), np.full(M, task.gamma), trace, state.step, "bound", more, unconverged=why)
