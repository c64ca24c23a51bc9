"""Gaps filled in by the expectations of a density learned with them."""

from __future__ import annotations

from typing import Any

from sklearn.base import OneToOneFeatureMixin, TransformerMixin

from herdcli.schema import Array
from herdcli.sklearn.base import Estimator, Options


class EMImputer(OneToOneFeatureMixin, TransformerMixin, Estimator):
    """NaN entries at their expectations given the others, under a density that EM fits to rows with gaps, as `herd em`.

    model       gmm, fa or ppca.  components: a number, or a range "1-5" of which BIC chooses; None: 1-10 until two are worse.
    covariance  of gmm: full, tied, diagonal or spherical.
    """

    def __init__(
        self,
        model: str = "gmm",
        *,
        components: int | str | None = None,
        covariance: str = "full",
        iterations: int = 500,
        options: Options = None,
        random_state: Any = 0,
    ) -> None:
        self.model = model
        self.components = components
        self.covariance = covariance
        self.iterations = iterations
        self.options = options
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> EMImputer:
        """Learn from all rows (n, d), with NaN where values are missing; y is not looked at."""
        X = self._fitting(X, ensure_all_finite="allow-nan", ensure_min_samples=2)
        asked = {name: getattr(self, name) for name in ("components", "iterations")}
        asked |= {"covariance": self.covariance} if self.model == "gmm" else {}
        self._learned("em", self._dataset(X), model=self.model, **{name: value for name, value in asked.items() if value is not None})
        return self

    def transform(self, X: Any) -> Array:
        """The rows (n, d) without gaps."""
        made: Array = self._applied(self._new(X, ensure_all_finite="allow-nan"), want="completed").X
        return made

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
