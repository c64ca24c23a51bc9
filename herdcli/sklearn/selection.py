"""Choosing rows: kernel herding as a selector of samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from herdcli.schema import Array
from herdcli.sklearn.base import Estimator, Options, components


class KernelHerder(Estimator):
    """A few weighted rows that stand for all of them, as `herd kernel-herd` chooses them.

    count      rows to choose; of fewer rows all.
    rule       herding, line-search, … ; kernel and bandwidth: of the mean embedding; weights: rule, uniform, simplex, affine, free.
    unique     choose no row twice.

    Attributes: `sample_indices_` (count,), `sample_weight_` (count,) of sum 1, `atoms_` (count, d), `artifact_`.
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
        random_state: Any = 0,
    ) -> None:
        self.count = count
        self.rule = rule
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.weights = weights
        self.unique = unique
        self.options = options
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelHerder:
        """Choose from rows (n, d) of these weights (n,); y is not looked at."""
        X = self._fitting(X, ensure_min_samples=2)
        asked = {name: getattr(self, name) for name in ("rule", "kernel", "bandwidth", "weights", "unique")}
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        count = min(self.count, len(X)) if self.unique else self.count
        self._learned("kernel_herd", self._dataset(X, weight=weight), count=count, **asked)
        made = self.artifact_
        self.sample_indices_, self.sample_weight_, self.atoms_ = (components(part) for part in (made.index, made.weight, made.x))
        return self

    def fit_resample(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """The chosen rows of X, and of y where it is given, of the types that came in."""
        self.fit(X, y, sample_weight)
        return self.resampled(X) if y is None else (self.resampled(X), self.resampled(y))

    def resampled(self, values: Any) -> Any:
        """The chosen entries of a sequence as long as the rows were."""
        check_is_fitted(self, "sample_indices_")
        places: Array = self.sample_indices_
        return (
            values.iloc[places]
            if hasattr(values, "iloc")
            else values[places]
            if hasattr(values, "__array__")
            else np.asarray(values)[places]
        )
