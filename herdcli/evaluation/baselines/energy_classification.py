"""Classification by the energies of one model per class, calibrated by multinomial logistic regression.

Test rows are never used for fitting.  Class energies are calibrated on validation rows (`valid`), or on these together with
the energies of training rows under models that were not fitted to them (`cross-fit`).
Source: Welling (2009), sec. 10.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from herdcli.errors import BadUsage
from herdcli.evaluation.baselines import logistic
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.numerics.scores import Scores, standardise_energies
from herdcli.records import dataclass
from herdcli.schema import Array
from herdcli.splits import TEST, TRAIN, VALID


@dataclass(frozen=True)
class EnergyCalibration:
    """A regression of the class on energies, standardised by the rows it was fitted on."""

    fit: logistic.LogisticFit
    reference: Array  # (n, C) energies of the fitted rows

    def probabilities(self, energy: Array) -> Array:
        """Return P(class | energies) (n, C) for energies (n, C) under the models of the classes."""
        return self.fit.probabilities(standardise_energies(energy, self.reference))


def calibrate_energies(scores: Scores, settings: EvaluationSettings) -> EnergyCalibration:
    """Fit the regression on the rows that `settings.calibrate` names.  Raises BadUsage if there are none."""
    crossed, valid = scores.split == TRAIN, scores.split == VALID
    if settings.calibrate == "cross-fit" and not crossed.any():
        hint = "fit the models with `herd fit-rbm --per-class --folds 5`, or use --calibrate valid"
        raise BadUsage("--calibrate cross-fit needs energies of training rows, but the model stores none", hint=hint)
    fitted = valid if settings.calibrate == "valid" else valid | crossed
    if not fitted.any():
        hint = "hold out validation rows: `herd fit-rbm --split .6,.2,.2`"
        raise BadUsage("the calibration of class energies needs validation rows, but there are none", hint=hint)
    energy = scores.energy[fitted]
    X, y = standardise_energies(energy, energy), scores.y[fitted]
    penalty = None if settings.mlr_penalty == "auto" else float(settings.mlr_penalty)
    return EnergyCalibration(logistic.fit_penalised_logistic(X, y, energy.shape[1], penalty=penalty, seed=settings.seed), energy)


def class_probabilities(scores: Scores, energy: Array, settings: EvaluationSettings) -> Array:
    """Return P(class | row) (n, C) of rows with energies (n, C) under the class models, calibrated on the artifact's scores."""
    return calibrate_energies(scores, settings).probabilities(energy)


def classification_errors(scores: Scores, settings: EvaluationSettings) -> dict[str, float | None]:
    """Return the error of the calibrated energies on test rows, and those of the two baselines.

    error_gain_se  standard error over these rows of error_majority − error; None for fewer than two rows.
    """
    test = scores.split == TEST
    if not test.any():
        return {}
    y = scores.y[test]
    predicted = class_probabilities(scores, scores.energy[test], settings).argmax(axis=1)
    return compare_with_majority_class(predicted != y, y != scores.majority) | {"error_1nn": float(np.mean(scores.nearest[test] != y))}


def naive_bayes_errors(
    scores: Scores, log_likelihood: Array, y: Array, split: Array, settings: EvaluationSettings
) -> dict[str, float | None]:
    """Return the error on test rows of independent columns for each class, and the standard error of the gain over it.

    log_likelihood (h, C)  of the held-out rows under the independent columns of each class; y and split (h,) of these rows, with which
    the scores begin.  They are calibrated on validation rows as the models' energies are; without any, the largest is predicted.
    error_independent_gain_se  standard error over the test rows of error_independent − error; None for fewer than two rows.
    """
    test, alone = split == TEST, replace(scores, energy=-log_likelihood, y=y, split=split)
    if not test.any():
        return {}
    known = (split == VALID).any()
    found = class_probabilities(alone, alone.energy[test], settings) if known else log_likelihood[test]
    wrong = found.argmax(axis=1) != y[test]
    own = class_probabilities(scores, scores.energy[: len(y)][test], settings).argmax(axis=1) != y[test]
    gain = wrong.astype(np.float64) - own
    spread = float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else None
    return {"error_independent": float(wrong.mean()), "error_independent_gain_se": spread}


def compare_with_majority_class(wrong: Array, majority: Array) -> dict[str, float | None]:
    """Return the error of a classifier, that of the commonest class, and the standard error of their difference.

    wrong, majority (n,) bool: rows that the classifier and the commonest class get wrong.
    """
    gain = majority.astype(np.float64) - wrong
    return {
        "error": float(wrong.mean()),
        "error_majority": float(majority.mean()),
        "error_gain_se": float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else None,
    }
