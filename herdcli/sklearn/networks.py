"""Markov networks of discrete columns."""

from __future__ import annotations

import numpy as np
from sklearn.base import DensityMixin

from herdcli.engine import command_function
from herdcli.schema import Array
from herdcli.sklearn.base import Estimator, Options, RandomState, RowsLike, TargetsLike, writable_copy


class MarkovNetwork(DensityMixin, Estimator):
    """The maximum-likelihood Markov network of a structure, fitted as by `herd fit-mrf`, for columns of whole numbers (states 0, 1, …).

    structure  chow-liu, grid, full, independent …; algorithm: ups-jt, ipf, gradient, loopy-is, …
    smoothing  number of pseudo-rows of the uniform distribution; with 0, states that occur in no row are impossible.

    Attributes: `cardinality_` (d,), `artifact_`.
    """

    def __init__(
        self,
        structure: str = "chow-liu",
        *,
        algorithm: str = "ups-jt",
        smoothing: float = 1.0,
        options: Options = None,
        random_state: RandomState = 0,
    ) -> None:
        self.structure = structure
        self.algorithm = algorithm
        self.smoothing = smoothing
        self.options = options
        self.random_state = random_state

    def fit(self, X: RowsLike, y: TargetsLike | None = None) -> MarkovNetwork:
        """Fit to all rows (n, d) of states; y is ignored."""
        X = self._as_whole_numbers(self._validate_training_rows(X))
        asked = {"structure": self.structure, "algorithm": self.algorithm, "smoothing": self.smoothing}
        self._fit_command("fit_mrf", self._training_dataset(X), **asked)
        self.cardinality_ = writable_copy(self.artifact_.cardinality)
        return self

    def marginals(self, X: RowsLike) -> Array:
        """Return probabilities (n, Σ states) of all states of all columns, given the entries of each row that are not NaN."""
        return self._infer_marginals(X)[:, :-1]

    def score_samples(self, X: RowsLike) -> Array:
        """Return log p (n,) of rows in nats; NaN entries are summed out."""
        nothing = command_function("ups_infer")(self.artifact_, algorithm="junction-tree").log_z
        found: Array = self._infer_marginals(X)[:, -1] - nothing
        return found

    def score(self, X: RowsLike, y: TargetsLike | None = None) -> float:
        """Return the mean log-likelihood of rows in nats."""
        return float(self.score_samples(X).mean())

    def predict(self, X: RowsLike) -> Array:
        """Return rows (n, d) with each NaN entry replaced by its most probable state given the known entries, one entry at a time."""
        filled = self._validate_new_rows(X, ensure_all_finite="allow-nan", dtype=np.float64)
        ends = np.cumsum(self.cardinality_)
        parts = np.split(self.marginals(X), ends[:-1], axis=1)
        likeliest = np.column_stack([part.argmax(axis=1) for part in parts])
        return np.where(np.isnan(filled), likeliest, filled).astype(np.int64)

    def _infer_marginals(self, X: RowsLike) -> Array:
        X = self._validate_new_rows(X, ensure_all_finite="allow-nan", dtype=np.float64)
        evidence = self._as_whole_numbers(np.where(np.isnan(X), -1, X))
        made: Array = command_function("ups_infer")(self.artifact_, evidence_rows=self._training_dataset(evidence)).X
        return made

    @staticmethod
    def _as_whole_numbers(X: Array) -> Array:
        """Return states as whole numbers.  Raises ValueError for other values."""
        if (X % 1 != 0).any() or (X.size and X.min() < -1):
            raise ValueError("a MarkovNetwork takes whole numbers from 0, the states of its columns: KBinsDiscretizer makes them")
        return X.astype(np.int64)
