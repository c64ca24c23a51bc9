"""The artifact of `herd em --model lds`, with its states, forecasts, imputed values and new sequences."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from herdcli.em.artifacts import RestartOutcomes, _require_finite
from herdcli.em.driver import ObjectiveHistory, Parameters
from herdcli.em.sequence.kalman import FilteredStates, filter_sequences, find_missing_patterns, smooth_sequences
from herdcli.em.sequence.lds import impute_rows, parameter_count
from herdcli.em.variance_floors import are_positive_definite, require_consistent_moments
from herdcli.errors import BadUsage, DataError
from herdcli.records import dataclass, former_class_getattr
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array, require_offsets

WANTS = ("smoothed", "filtered", "predicted", "completed")


@dataclass(frozen=True, kw_only=True)
class DynamicsFitFacts:
    """Facts about a fit besides its parameters.  Log-likelihoods are in nats per row.

    holdout_start_mean and holdout_start_covariance describe the first state of each held-out sequence given the rows before it.
    They are present for pieces of a sequence that was split in time, and absent where whole sequences are held out.
    """

    rows: int  # number of rows in split 0
    sequences: int  # number of sequences in split 0
    base_mean: Array = array("D", "mean of the training rows", kind="f", dtype="f8")
    base_variance: Array = array("D", "their variances", kind="f", dtype="f8")
    base_full: Array | None = array("D D", "their covariance", kind="f", dtype="f8", optional=True)
    base_step: Array | None = array("D", "mean squared differences of neighbouring values", kind="f", dtype="f8", optional=True)
    valid: float | None = None  # log-likelihood of split 1
    missing: int = 0  # number of missing values
    feature_names: list[str] | None = None
    control_names: list[str] | None = None
    control_mean: Array | None = array("m", "mean of each control", kind="f", dtype="f8", optional=True)
    holdout_controls: Array | None = array("h m", "controls of the held-out rows", kind="f", dtype="f8", optional=True)
    holdout_start_mean: Array | None = array("s K", "what was known of each first state", kind="f", dtype="f8", optional=True)
    holdout_start_covariance: Array | None = array("s K K", "its covariance", kind="f", dtype="f8", optional=True)
    sizes: Array | None = array("S", "numbers of states that were tried", kind="i", dtype="i8", optional=True)
    scores: Array | None = array("S", "the criterion of each, the smallest was kept", kind="f", dtype="f8", optional=True)
    criterion: str | None = None


@dataclass(frozen=True, kw_only=True)
class LinearDynamics:
    """A linear dynamical system: x' = transition x + control u + drift + N(0, process), y = loading x + mean + N(0, noise).

    Matrices multiply column vectors: transition[i, j] is the effect of state j on the next state i.  In the files that `herd apply` makes,
    rows are times and columns are states.
    """

    transition: Array = array("K K", "A", kind="f", dtype="f8")
    drift: Array = array("K", "a", kind="f", dtype="f8")
    process: Array = array("K K", "Q, covariance of the noise of the states", kind="f", dtype="f8")
    loading: Array = array("D K", "C", kind="f", dtype="f8")
    mean: Array = array("D", "c", kind="f", dtype="f8")
    noise: Array = array("D D", "R, covariance of the noise of the rows", kind="f", dtype="f8")
    start_mean: Array = array("K", "mean of the first state", kind="f", dtype="f8")
    start_covariance: Array = array("K K", "its covariance; next to nothing where there was one sequence", kind="f", dtype="f8")
    diagonal: bool  # whether `noise` is diagonal
    floor: float  # least noise, as a share of a column's variance unless --floor was given
    ledger: ObjectiveHistory
    restarts: RestartOutcomes
    mass: float  # Σ of the weights of the training rows
    seed: int
    control: Array | None = array("K m", "B", kind="f", dtype="f8", optional=True)
    holdout: Array | None = array(
        "h D", "rows of split 2, sequence by sequence, NaN where a value is missing", kind="f", dtype="f8", optional=True
    )
    holdout_offsets: Array | None = array(
        "o", "where each held-out sequence begins, and the number of rows", kind="i", dtype="i8", optional=True
    )
    known: DynamicsFitFacts | None = None

    def validate(self) -> None:
        """Raise DataError unless the parameters are finite and the covariances are positive definite."""
        _require_finite(self, "transition", "drift", "process", "loading", "mean", "noise", "start_mean", "start_covariance")
        for name in ("process", "noise", "start_covariance"):
            S = getattr(self, name)
            if S.shape[0] != S.shape[1] or not are_positive_definite(S):
                raise DataError(f"/{name} is not positive definite")
        if self.transition.shape[0] != self.transition.shape[1]:
            raise DataError("/transition is not square")
        self._require_controls()
        if self.known is not None:
            require_consistent_moments(self.known, len(self.mean))
        if self.holdout is not None:
            require_offsets("holdout_offsets", np.asarray(self.holdout_offsets), len(self.holdout), "holdout")

    def _require_controls(self) -> None:
        """Raise DataError unless names, means and held-out values of the controls match the model and the held-out rows."""
        known = self.known
        names, mean, held = (None,) * 3 if known is None else (known.control_names, known.control_mean, known.holdout_controls)
        widths = {"control_names": names and len(names), "control_mean": None if mean is None else len(mean)}
        if self.holdout is not None or held is not None:
            widths["holdout_controls"] = 0 if held is None else held.shape[1]
        for name, width in widths.items():
            if width is not None and width != self.controls:
                raise DataError(f"/known/{name} has {width} controls, but /control has {self.controls}")
        if held is not None and (self.holdout is None or len(held) != len(self.holdout)):
            raise DataError("/known/holdout_controls needs one row for each row of /holdout")

    @property
    def states(self) -> int:
        """The number of states."""
        return len(self.transition)

    @property
    def controls(self) -> int:
        """The number of controls."""
        return 0 if self.control is None else int(self.control.shape[1])

    @property
    def columns(self) -> int:
        """The number of outputs of a row."""
        return len(self.mean)

    @property
    def spectral_radius(self) -> float:
        """The largest modulus of the eigenvalues of the transition; above 1 the states grow without bound."""
        return float(np.abs(np.linalg.eigvals(self.transition)).max())

    @property
    def parameters(self) -> Parameters:
        """The parameters that EM fitted."""
        names = ("transition", "drift", "process", "loading", "mean", "noise", "start_mean", "start_covariance")
        control = np.zeros((self.states, 0)) if self.control is None else self.control
        return {name: getattr(self, name) for name in names} | {"control": control}

    @property
    def free_parameters(self) -> int:
        """The number of fitted parameters."""
        several = self.known is None or self.known.sequences > 1
        return parameter_count(self.states, self.columns, self.controls, diagonal=self.diagonal, several=several)

    def heldout_sequence_parameters(self, number: int) -> Parameters:
        """Return the parameters with the distribution of the first state of one held-out sequence."""
        known = self.known
        if known is None or known.holdout_start_mean is None or known.holdout_start_covariance is None:
            return self.parameters
        return self.parameters | {
            "start_mean": known.holdout_start_mean[number],
            "start_covariance": known.holdout_start_covariance[number],
        }

    def heldout_sequences(self) -> Iterator[tuple[Parameters, Array, Array | None]]:
        """Yield parameters, rows and controls of each held-out sequence."""
        if self.holdout is None or self.holdout_offsets is None:
            return
        U = None if self.known is None else self.known.holdout_controls
        for s, (begin, end) in enumerate(zip(self.holdout_offsets[:-1], self.holdout_offsets[1:], strict=True)):
            yield self.heldout_sequence_parameters(s), self.holdout[begin:end], None if U is None else U[begin:end]

    def infer_states(self, Y: Array, offsets: Array, U: Array | None, want: str) -> tuple[Array, Array]:
        """Return means (n, K) and standard deviations (n, K) of the states.

        want  smoothed: given all rows of the sequence; filtered: given the rows up to each; predicted: given the rows before each.
        """
        found = filter_sequences(self.parameters, Y, offsets, U)
        if want == "filtered":
            return found.mean, standard_deviations(found.covariance)
        if want == "predicted":
            return found.predicted, standard_deviations(found.predicted_covariance)
        after = smooth_sequences(self.parameters, found, offsets)
        return after.mean, standard_deviations(after.covariance)

    def impute_missing_values(self, Y: Array, offsets: Array, U: Array | None) -> Array:
        """Return rows with missing values replaced by their expectations given all observed values of their sequence."""
        p, missing = self.parameters, find_missing_patterns(Y)
        after = smooth_sequences(p, filter_sequences(p, Y, offsets, U, missing), offsets)
        return impute_rows(p, Y, missing, after, None)[0]

    def forecast(self, Y: Array, offsets: Array, U: Array | None, steps: int) -> tuple[Array, Array]:
        """Return means (s · steps, D) and standard deviations of the rows that follow each sequence.

        Raises BadUsage if this would need controls of future rows.
        """
        if steps > 1 and self.controls:
            hint = "append rows with these controls and empty outputs, and use --want completed"
            raise BadUsage(f"a forecast of {steps} steps needs the controls of as many future rows", hint=hint)
        p = self.parameters
        found = filter_sequences(p, Y, offsets, U)
        last = offsets[1:] - 1
        mean, covariance = _predict_step(p, found.mean[last], found.covariance[last], found.drift[last])
        means, spreads = [], []
        for _ in range(steps):
            means.append(mean @ p["loading"].T + p["mean"])
            # Var y = C P C' + R, where P, the state's covariance, becomes A P A' + Q each step; for a stable A it converges.
            spreads.append(standard_deviations(p["loading"] @ covariance @ p["loading"].T + p["noise"]))
            mean, covariance = _predict_step(p, mean, covariance, p["drift"])
        return tuple(np.stack(part, axis=1).reshape(-1, self.columns) for part in (means, spreads))  # type: ignore[return-value]

    def sample_sequences(self, count: int, steps: int, seed: int) -> Array:
        """Return rows of new sequences (count · steps, D), one sequence after another, with controls at their means."""
        p, K = self.parameters, self.states
        roots = {name: np.linalg.cholesky(p[name]) for name in ("start_covariance", "process", "noise")}
        drift = p["drift"]
        if self.known is not None and self.known.control_mean is not None:
            drift = drift + p["control"] @ self.known.control_mean
        found = np.empty((count, steps, self.columns))
        x = np.empty((count, K))
        for s in range(count):
            random = generator(seed, Stream.SEQUENCES, unit=s)
            x[s] = p["start_mean"] + roots["start_covariance"] @ random.standard_normal(K)
            noise, moves = random.standard_normal((steps, self.columns)), random.standard_normal((steps, K))
            for t in range(steps):
                found[s, t] = p["loading"] @ x[s] + p["mean"] + roots["noise"] @ noise[t]
                x[s] = p["transition"] @ x[s] + drift + roots["process"] @ moves[t]
        return found.reshape(-1, self.columns)


def _predict_step(p: Parameters, mean: Array, covariance: Array, drift: Array) -> tuple[Array, Array]:
    A = p["transition"]
    return mean @ A.T + drift, A @ covariance @ A.T + p["process"]


def standard_deviations(covariance: Array) -> Array:
    """Return the square roots (n, K) of the diagonals of covariances (n, K, K)."""
    return np.asarray(np.sqrt(np.diagonal(covariance, axis1=1, axis2=2)))


def one_step_predictions(p: Parameters, filtered: FilteredStates) -> Array:
    """Return the expectation of each row (n, D) given the rows before it."""
    return np.asarray(filtered.predicted @ p["loading"].T + p["mean"])


__getattr__ = former_class_getattr(__name__, KnownDynamics="DynamicsFitFacts")  # names in pickles of version 0.1
