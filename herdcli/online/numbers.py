"""The `predictor` artifact: a Gaussian over linear functions of features, learned online from numbers in place of classes.

With squared loss and a full covariance the update of AROW is that of recursive least squares: ridge regression of the examples so far with
penalty |w|²/C.  A new y is then N(m, τ² (v + 1/C)) with m = μ·x and v = x'Σx.  τ² is the mean of (y − m)²/(v + 1/C) over examples
that were evaluated before being learned.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from herdcli.errors import DataError
from herdcli.online.model import Classifier, require_features, require_finite_above, require_settings, require_weights
from herdcli.online.text.quadratic_features import require_valid_pairs
from herdcli.records import dataclass
from herdcli.schema import Array, array


@dataclass(frozen=True)
class HeldoutOutcomes:
    """Predictions of examples before (or without) being learned."""

    score: Array = array("n C", "μ·x", kind="f")
    variance: Array = array("n C", "x'Σx", kind="f")
    y: Array = array("n", "what it was", kind="f")
    split: Array = array("n", "1 calibration, 2 test", kind="u")


@dataclass(frozen=True)
class Predictor(Classifier):
    """A linear predictor over d features (d + 1 with a bias, which is then column 0).

    It has the fields of a classifier of two classes, but no classes.  The error of its progress is the mean of |y − μ·x|, the loss that of
    squares; scale is τ.
    """

    holdout: HeldoutOutcomes | None = None  # type: ignore[assignment]
    absolute: float = 0.0  # sum of |y − μ·x| over the examples evaluated progressively

    @property
    def count(self) -> int:
        """The number of scores, 1."""
        return 1

    def validate(self) -> None:
        """Raise DataError unless the arrays are consistent and all numbers are valid."""
        if self.classes or self.machines:
            raise DataError("has classes or support vectors, but a regression model has none")
        require_settings(self.settings, "regression")
        require_weights(self)
        require_features(self)
        require_valid_pairs(self.interactions, self.text == "vw", self.bits)
        if not 0 < self.scale < np.inf or not 0 <= self.absolute < np.inf:
            raise DataError(
                f"scale is {self.scale:g} and absolute {self.absolute:g}, but both must be finite, scale above 0, absolute at least 0"
            )
        if self.holdout is not None:
            for name in ("score", "variance", "y"):
                require_finite_above(getattr(self.holdout, name), f"holdout/{name}")


def noise_variance(model: Classifier) -> float:
    """Return 1/C: the variance of an example's noise, in the unit of the variances."""
    settings, running = model.settings, model.running
    return 1.0 / settings.C if settings.C else 4.0 * running.squares / max(running.examples, 1)


def predictive_deviations(model: Classifier, variance: Array) -> Array:
    """Return the standard deviations (n,) of new outcomes from the variances (n, 1) of their predictions."""
    return np.asarray(model.scale * np.sqrt(variance[:, 0] + noise_variance(model)))


def with_fitted_noise(model: Predictor) -> Predictor:
    """Return the predictor with τ from its held-out outcomes, if it has any."""
    held = model.holdout
    if held is None or not (chosen := held.split == 1).any():
        return model
    residual = held.y[chosen] - held.score[chosen, 0]
    # Residuals over their standard deviations have mean square 1 at τ; without any error τ is the smallest positive number.
    scale = float(np.sqrt(np.mean(residual**2 / (held.variance[chosen, 0] + noise_variance(model)))))
    return replace(model, scale=max(scale, float(np.finfo(float).tiny)))
