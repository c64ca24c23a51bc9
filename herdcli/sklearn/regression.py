"""Generalised linear models with penalties and families that scikit-learn lacks, and with correlated or heteroscedastic errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import _check_sample_weight

from herdcli.schema import Array
from herdcli.sklearn.base import Estimator, Options, RandomState, RowsLike, TargetsLike, writable_copy

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class GLMRegressor(RegressorMixin, Estimator):
    """A generalised linear model of a real target with standard errors, fitted as by `herd regress`.

    family  gaussian, poisson, gamma, gamma-shape or bernoulli (targets in 0 … 1).
    l2, l1  ½ l2 ‖β‖² and l1 ‖β‖₁ are added to the mean loss, of every family.
    gls     gaussian: "ar1" for errors correlated from row to row, "variance" for a variance that depends on the columns.

    Attributes: `coef_` (d,), `intercept_`, `standard_error_` (d + 1,), that of the intercept last, `artifact_`.
    """

    def __init__(
        self,
        family: str = "gaussian",
        *,
        l2: float = 0.0,
        l1: float = 0.0,
        gls: str | None = None,
        iterations: int = 100,
        options: Options = None,
        random_state: RandomState = 0,
    ) -> None:
        self.family = family
        self.l2 = l2
        self.l1 = l1
        self.gls = gls
        self.iterations = iterations
        self.options = options
        self.random_state = random_state

    def fit(self, X: RowsLike, y: TargetsLike, sample_weight: ArrayLike | None = None) -> GLMRegressor:
        """Fit to rows (n, d) and targets (n,) with weights (n,)."""
        X, y = self._validate_training_rows(X, y, y_numeric=True)
        asked = {name: getattr(self, name) for name in ("family", "l2", "l1", "gls", "iterations")}
        given = {name: value for name, value in asked.items() if value is not None}
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        names = [str(name) for name in getattr(self, "feature_names_in_", [f"x{column}" for column in range(X.shape[1])])]
        self._fit_command(
            "regress",
            X,
            np.asarray(y, dtype=np.float64),
            feature_names=names,
            row_split=np.zeros(len(X), dtype=np.int64),
            row_weight=weight,
            **given,
        )
        self.coef_, self.intercept_ = writable_copy(self.artifact_.coefficients[0]), float(self.artifact_.intercept[0])
        self.standard_error_ = writable_copy(self.artifact_.standard_error[0])
        return self

    def predict(self, X: RowsLike) -> Array:
        """Return the expected target (n,) of each row."""
        found: Array = self._apply_model(self._validate_new_rows(X), want="means").X[:, 0]
        return found
