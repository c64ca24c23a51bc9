"""How figures are made: the settings that kinds of artifacts share."""

from __future__ import annotations

from typing import Literal

from herdcli.errors import BadUsage
from herdcli.records import dataclass


@dataclass(frozen=True)
class EvaluationSettings:
    """How figures are made.

    calibrate    rows that the classifier is fitted on; `auto`: cross-fit if the artifact has cross-fitted energies, else valid.
    mlr_penalty  L2 penalty of the multinomial logistic regression, `auto`: 5-fold cross-validation.
    likelihood   `auto`: exact if the smaller layer has at most 25 units, else annealed populations;
                 `ais`: plain annealed importance sampling; `none`: no likelihood, of models that tell classes.
    temperatures  of `ais`, the most of annealed populations; None: 1000 and 5000.
    unit         of log-likelihoods and lengths of codes.
    reverse      anneal back as well, for a second estimate that errs to the other side.
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
        """Raise BadUsage where none is wanted of a model that is judged by nothing else."""
        if self.likelihood == "none":
            raise BadUsage("--likelihood none is for models of classes, and of rows with labels", hint="leave it out")
