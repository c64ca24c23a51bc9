"""Sequence models: hidden Markov models and linear dynamical systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from herdcli.artifacts import Dataset
from herdcli.engine import command_function
from herdcli.schema import Array
from herdcli.sklearn.base import Estimator, Options, RandomState, RowsLike, TargetsLike

if TYPE_CHECKING:
    from sklearn.utils import Tags


class SequenceEstimator(Estimator):
    """The base of the sequence models.  Rows are in time order; `lengths` are the lengths of consecutive sequences."""

    components: Any
    iterations: int
    restarts: int

    def _fit_sequences(self, X: RowsLike, lengths: Sequence[int] | None, model: str, **asked: object) -> None:
        X = self._validate_training_rows(X, ensure_all_finite="allow-nan", ensure_min_samples=2)
        own = {name: getattr(self, name) for name in ("components", "iterations", "restarts")}
        given = {name: value for name, value in (own | asked).items() if value is not None}
        self._fit_command("em", self._sequence_dataset(X, lengths), model=model, **given)

    def _sequence_dataset(self, X: Array, lengths: Sequence[int] | None, part: int = 0) -> Dataset:
        counts = [len(X)] if lengths is None else list(lengths)
        if sum(counts) != len(X) or min(counts) < 1:
            raise ValueError(f"lengths {counts} are not those of {len(X)} rows")
        split = np.full(len(X), part, dtype=np.uint8)
        return self._training_dataset(X, columns={"sequence": np.repeat(np.arange(len(counts)), counts)}, split=split)

    def _apply_to_sequences(self, X: RowsLike, lengths: Sequence[int] | None, want: str) -> Dataset:
        X = self._validate_new_rows(X, ensure_all_finite="allow-nan")
        made: Dataset = command_function("apply")(self.artifact_, self._sequence_dataset(X, lengths), want=want)
        return made

    def score(self, X: RowsLike, y: TargetsLike | None = None, *, lengths: Sequence[int] | None = None) -> float:
        """Return the mean log-likelihood in nats per row."""
        X = self._validate_new_rows(X, ensure_all_finite="allow-nan")
        return float(command_function("eval")(self.artifact_, data=self._sequence_dataset(X, lengths, part=2))[0]["log_likelihood"])

    def sample(self, n_samples: int = 1) -> Array:
        """Return rows (n_samples, d) of a new sequence."""
        check_is_fitted(self, "artifact_")
        made: Array = command_function("sample")(self.artifact_, count=1, steps=n_samples, seed=self.seed_).X
        return made

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class HMM(SequenceEstimator):
    """A hidden Markov model, fitted as by `herd em --model hmm`; NaN are missing values.

    components  number of states, or a range "1-5" from which BIC chooses.
    emission    gaussian, categorical, poisson, bernoulli or gmm.  covariance: full, tied, diagonal or spherical.
    transitions full, left-to-right, banded:W.
    """

    def __init__(
        self,
        components: int | str = 2,
        *,
        emission: str = "gaussian",
        covariance: str = "full",
        transitions: str = "full",
        iterations: int = 500,
        restarts: int = 1,
        options: Options = None,
        random_state: RandomState = 0,
    ) -> None:
        self.components = components
        self.emission = emission
        self.covariance = covariance
        self.transitions = transitions
        self.iterations = iterations
        self.restarts = restarts
        self.options = options
        self.random_state = random_state

    def fit(self, X: RowsLike, y: TargetsLike | None = None, *, lengths: Sequence[int] | None = None) -> HMM:
        """Fit to rows (n, d) of sequences of these lengths (None: one sequence); y is ignored."""
        asked = {"emission": self.emission, "transitions": self.transitions}
        self._fit_sequences(X, lengths, "hmm", **asked, covariance=self.covariance if self.emission in ("gaussian", "gmm") else None)
        return self

    def predict(self, X: RowsLike, *, lengths: Sequence[int] | None = None) -> Array:
        """Return the states (n,) of the most probable paths (Viterbi)."""
        states: Array = np.asarray(self._apply_to_sequences(X, lengths, "viterbi").y)
        return states

    def predict_proba(self, X: RowsLike, *, lengths: Sequence[int] | None = None) -> Array:
        """Return probabilities (n, states) of the states of each row given all rows of its sequence."""
        found: Array = self._apply_to_sequences(X, lengths, "smoothed").X
        return found


class LDS(TransformerMixin, SequenceEstimator):
    """A linear dynamical system fitted by EM, as by `herd em --model lds`; NaN are missing values, which `completed` fills in.

    components  dimension of the state.  diagonal: the noise is independent in every column.
    """

    def __init__(
        self,
        components: int | str = 2,
        *,
        diagonal: bool = False,
        iterations: int = 500,
        restarts: int = 1,
        options: Options = None,
        random_state: RandomState = 0,
    ) -> None:
        self.components = components
        self.diagonal = diagonal
        self.iterations = iterations
        self.restarts = restarts
        self.options = options
        self.random_state = random_state

    def fit(self, X: RowsLike, y: TargetsLike | None = None, *, lengths: Sequence[int] | None = None) -> LDS:
        """Fit to rows (n, d) of sequences of these lengths (None: one sequence); y is ignored."""
        self._fit_sequences(X, lengths, "lds", diagonal=self.diagonal)
        return self

    def transform(self, X: RowsLike, *, lengths: Sequence[int] | None = None) -> Array:
        """Return means (n, states) of the state at each row given all rows of its sequence (Kalman smoother)."""
        found: Array = self._apply_to_sequences(X, lengths, "smoothed").X[:, : self.artifact_.states]
        return found

    def completed(self, X: RowsLike, *, lengths: Sequence[int] | None = None) -> Array:
        """Return the rows (n, d) with NaN replaced by their expectations."""
        found: Array = self._apply_to_sequences(X, lengths, "completed").X
        return found

    def forecast(self, X: RowsLike, steps: int = 12) -> Array:
        """Return the expected rows (steps, d) after the given ones."""
        made: Array = self._apply_to_sequences(X, None, f"forecast:{steps}").X[:, : self.n_features_in_]
        return made

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names lds0, lds1, …"""
        check_is_fitted(self, "artifact_")
        return np.array([f"lds{k}" for k in range(self.artifact_.states)], dtype=object)
