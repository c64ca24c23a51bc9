"""Settings of the evaluation that several kinds of artifacts share."""

from __future__ import annotations

from typing import Literal

from herdcli.errors import BadUsage
from herdcli.records import dataclass


@dataclass(frozen=True)
class EvaluationSettings:
    """The settings for computing metrics.

    calibrate    rows that calibrate the classifier; `auto`: cross-fit if the artifact has cross-fitted energies, else valid.
    mlr_penalty  L2 penalty of the multinomial logistic regression, `auto`: 5-fold cross-validation.
    likelihood   `auto`: exact if the smaller layer has at most 25 units, else annealed populations;
                 `ais`: plain annealed importance sampling; `none`: no likelihood, for models that classify.
    temperatures  their number for `ais`, and the largest number for annealed populations; None: 1000 and 5000.
    unit         the unit of log-likelihoods and code lengths.
    reverse      also anneal from the model to the base, for a second estimate with the opposite bias.
    """

    calibrate: Literal["auto", "valid", "cross-fit"] = "auto"
    mlr_penalty: Literal["auto"] | float = "auto"
    likelihood: Literal["auto", "exact", "ais", "none"] = "auto"
    chains: int = 100
    temperatures: int | None = None
    reverse: bool = False
    seed: int = 0
    unit: Literal["nats", "bits"] = "nats"

    def require_likelihood(self) -> None:
        """Raise BadUsage if no likelihood is wanted, for a model that has no other metric."""
        if self.likelihood == "none":
            raise BadUsage("--likelihood none works only for models that predict labels", hint="leave out --likelihood")
