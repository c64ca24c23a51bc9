"""Imputation of missing values by their expectations under a density fitted to the incomplete rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sklearn.base import OneToOneFeatureMixin, TransformerMixin

from herdcli.schema import Array
from herdcli.sklearn.base import Estimator, Options, RandomState, RowsLike, TargetsLike

if TYPE_CHECKING:
    from sklearn.utils import Tags


class EMImputer(OneToOneFeatureMixin, TransformerMixin, Estimator):
    """Imputation of NaN entries by their expectations given the others, under a density that EM fits to incomplete rows, as in `herd em`.

    model       gmm, fa or ppca.  components: a number, or a range "1-5" from which BIC chooses; None: 1-10, ended after two worse ones.
    covariance  for gmm: full, tied, diagonal or spherical.
    """

    def __init__(
        self,
        model: str = "gmm",
        *,
        components: int | str | None = None,
        covariance: str = "full",
        iterations: int = 500,
        options: Options = None,
        random_state: RandomState = 0,
    ) -> None:
        self.model = model
        self.components = components
        self.covariance = covariance
        self.iterations = iterations
        self.options = options
        self.random_state = random_state

    def fit(self, X: RowsLike, y: TargetsLike | None = None) -> EMImputer:
        """Fit to all rows (n, d), with NaN for missing values; y is ignored."""
        X = self._validate_training_rows(X, ensure_all_finite="allow-nan", ensure_min_samples=2)
        asked = {name: getattr(self, name) for name in ("components", "iterations")}
        asked |= {"covariance": self.covariance} if self.model == "gmm" else {}
        self._fit_command(
            "em", self._training_dataset(X), model=self.model, **{name: value for name, value in asked.items() if value is not None}
        )
        return self

    def transform(self, X: RowsLike) -> Array:
        """Return the rows (n, d) with missing values filled in."""
        made: Array = self._apply_model(self._validate_new_rows(X, ensure_all_finite="allow-nan"), want="completed").X
        return made

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
