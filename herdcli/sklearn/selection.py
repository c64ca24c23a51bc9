"""Selection of rows: kernel herding as a sample selector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from herdcli.schema import Array
from herdcli.sklearn.base import Estimator, Options, RandomState, RowsLike, TargetsLike, writable_copy

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class KernelHerder(Estimator):
    """A selector of a few weighted rows that represent all rows, as chosen by `herd kernel-herd`.

    count      number of rows to choose; all rows if there are fewer.
    rule       herding, line-search, … ; kernel and bandwidth: those of the mean embedding; weights: rule, uniform, simplex, affine, free.
    unique     choose no row twice.

    Attributes: `sample_indices_` (count,), `sample_weight_` (count,) with sum 1, `atoms_` (count, d), `artifact_`.
    """

    def __init__(
        self,
        count: int = 10,
        *,
        rule: str = "herding",
        kernel: str = "gaussian",
        bandwidth: float | str = "median",
        weights: str = "rule",
        unique: bool = False,
        options: Options = None,
        random_state: RandomState = 0,
    ) -> None:
        self.count = count
        self.rule = rule
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.weights = weights
        self.unique = unique
        self.options = options
        self.random_state = random_state

    def fit(self, X: RowsLike, y: TargetsLike | None = None, sample_weight: ArrayLike | None = None) -> KernelHerder:
        """Choose from rows (n, d) with weights (n,); y is ignored."""
        X = self._validate_training_rows(X, ensure_min_samples=2)
        asked = {name: getattr(self, name) for name in ("rule", "kernel", "bandwidth", "weights", "unique")}
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        count = min(self.count, len(X)) if self.unique else self.count
        self._fit_command("kernel_herd", self._training_dataset(X, weight=weight), count=count, **asked)
        made = self.artifact_
        self.sample_indices_, self.sample_weight_, self.atoms_ = (writable_copy(part) for part in (made.index, made.weight, made.x))
        return self

    def fit_resample(self, X: RowsLike, y: TargetsLike | None = None, sample_weight: ArrayLike | None = None) -> Any:
        """Return the chosen rows of X, and of y if it is given, with the types of the input."""
        self.fit(X, y, sample_weight)
        return self.resampled(X) if y is None else (self.resampled(X), self.resampled(y))

    def resampled(self, values: Any) -> Any:
        """Return the chosen entries of a sequence with one entry per row."""
        check_is_fitted(self, "sample_indices_")
        places: Array = self.sample_indices_
        return (
            values.iloc[places]
            if hasattr(values, "iloc")
            else values[places]
            if hasattr(values, "__array__")
            else np.asarray(values)[places]
        )
