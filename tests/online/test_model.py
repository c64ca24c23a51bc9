"""What makes a classifier and what does not: every limit of the artifact, at it and one step beyond."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from herdcli.errors import DataError
from herdcli.online.model import Classifier, HeldoutScores, KernelMachine, Progress, RunningTotals, Settings

EMPTY = Progress(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))
SCORED = {"settings": Settings(scaling="online"), "seen": np.zeros(3), "size": np.zeros(3)}


def made(classes: int = 2, columns: int = 3, **changes) -> Classifier:
    """A classifier with nothing wrong."""
    count = 1 if classes == 2 else classes
    values = {
        "settings": Settings(),
        "running": RunningTotals(),
        "mean": np.zeros((count, columns)),
        "variance": np.zeros((count, columns)),
    }
    return Classifier([str(k) for k in range(classes)], progress=EMPTY, **values | changes)


def full(groups: int, width: int, classes: int = 3) -> Classifier:
    return made(classes, covariance=np.zeros((groups, width, width)), variance=None)


def kernel(**changes) -> Classifier:
    machine = KernelMachine(np.zeros(1), np.zeros((1, 1)), np.zeros((1, 3)))
    return made(**{"machines": [machine], "mean": None, "variance": None, "settings": Settings(kernel="linear")} | changes)


def held(classes: int = 2, **changes) -> Classifier:
    count = 1 if classes == 2 else classes
    values = {"score": np.zeros((2, count)), "variance": np.zeros((2, count)), "y": np.array([0, classes - 1]), "split": np.array([1, 2])}
    return made(classes, holdout=HeldoutScores(**values | changes))


@pytest.mark.parametrize(
    "value",
    [
        made(),
        made(columns=1),
        made(3),
        made(settings=Settings(C=0.0, confidence=0.75, passes=1, degree=1, budget=0, label_noise=0.0)),
        made(settings=Settings(label_noise=1.0, width=1e-9, bias=True)),
        made(running=RunningTotals(0, 0.0, 0, 0, 0.0, 0, 0, 0)),
        full(3, 3),
        full(1, 9),
        kernel(),
        kernel(feature_names=["a"]),
        kernel(bits=30),
        made(columns=8, bits=3),
        made(columns=9, bits=3, settings=Settings(bias=True)),
        made(feature_names=["a", "b", "c"]),
        made(columns=4, feature_names=["a", "b", "c"], settings=Settings(bias=True)),
        made(text="vw", hash_index=np.array([0, 2]), hash_names=["a", "b"]),
        made(**SCORED),
        held(),
        held(3),
        held(y=np.zeros(0, dtype=int)),
    ],
    ids=lambda value: "",
)
def test_what_is_at_its_limits_is_a_classifier(value):
    value.validate()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (replace(made(), classes=["0"]), "has 1 classes; a classifier needs two or more"),
        (replace(made(), classes=["0", "0"]), "has two classes with the same name"),
        (replace(made(), scale=0.0), "the scale of its probabilities is 0.0"),
        (replace(made(), scale=np.inf), "the scale of its probabilities is inf"),
        (made(running=RunningTotals(wrong=-1)), "the stored running error and loss must be finite and not negative"),
        (made(running=RunningTotals(squares=np.inf)), "the stored running error and loss must be finite and not negative"),
        (replace(made(), progress=replace(EMPTY, loss=np.array([np.nan]))), "dataset 'progress/loss' has values that are not finite"),
        (made(settings=Settings(loss="hinge")), "settings/loss is 'hinge', expected squared-hinge, log, squared"),
        (made(settings=Settings(task="regression")), "settings/task is 'regression', expected classification"),
        (made(settings=Settings(C=-0.1)), "settings: C, confidence or width is outside its range"),
        (made(settings=Settings(C=np.inf)), "settings: C, confidence or width is outside its range"),
        (made(settings=Settings(confidence=0.5)), "settings: C, confidence or width is outside its range"),
        (made(settings=Settings(confidence=1.0)), "settings: C, confidence or width is outside its range"),
        (made(settings=Settings(width=0.0)), "settings: C, confidence or width is outside its range"),
        (made(settings=Settings(width=np.inf)), "settings: C, confidence or width is outside its range"),
        (made(settings=Settings(width=1e300)), "settings: C, confidence or width is outside its range"),
        (made(settings=Settings(passes=0)), "settings: passes, degree, budget or label_noise is outside its range"),
        (made(settings=Settings(degree=0)), "settings: passes, degree, budget or label_noise is outside its range"),
        (made(settings=Settings(budget=-1)), "settings: passes, degree, budget or label_noise is outside its range"),
        (made(settings=Settings(label_noise=-0.1)), "settings: passes, degree, budget or label_noise is outside its range"),
        (made(settings=Settings(label_noise=1.5)), "settings: passes, degree, budget or label_noise is outside its range"),
        (made(mean=None), "needs 'mean' and either 'variance' or 'covariance'"),
        (made(variance=None), "needs 'mean' and either 'variance' or 'covariance'"),
        (made(mean=np.zeros((2, 3))), "has weights for 2 scores, but its 2 classes need 1"),
        (made(columns=0), "has no features"),
        (made(variance=np.full((1, 3), -1e-9)), "dataset 'variance' has values below 0"),
        (full(3, 9), r"dataset 'covariance' is 3 × 9 × 9, weights are 3 × 3"),
        (full(1, 3), r"dataset 'covariance' is 1 × 3 × 3, weights are 3 × 3"),
        (made(3, covariance=-np.ones((3, 3, 3)), variance=None), "dataset 'diagonal of covariance' has values below 0"),
        (
            made(3, covariance=np.stack([[[1, 3e100, 0], [0, 1, 0], [0, 0, 1]]] * 3), variance=None),
            "dataset 'covariance' is not a covariance matrix: some covariances are too large for the variances on the diagonal",
        ),
        (kernel(settings=Settings()), "has both support vectors and weights of features"),
        (kernel(mean=np.zeros((1, 3))), "has both support vectors and weights of features"),
        (kernel(machines=2 * kernel().machines), "has support vectors for 2 scores, but its 2 classes need 1"),
        (made(bits=-1), "'bits' is -1, but must be 0 to 30"),
        (kernel(bits=31), "'bits' is 31, but must be 0 to 30"),
        (made(columns=9, bits=3), "has 9 features, but hashing with 'bits' 3 gives 8"),
        (made(columns=8, bits=3, settings=Settings(bias=True)), "has 7 features, but hashing with 'bits' 3 gives 8"),
        (made(text="csv"), "text is 'csv', expected svmlight or vw"),
        (made(feature_names=["a"]), "has 1 feature names for 3 features"),
        (made(hash_index=np.array([0, 2])), "datasets 'hash_index' and 'hash_names' must both exist and have the same length"),
        (
            made(hash_index=np.array([0, 2]), hash_names=["a"]),
            "datasets 'hash_index' and 'hash_names' must both exist and have the same length",
        ),
        (made(hash_index=np.array([-1]), hash_names=["a"]), "dataset 'hash_index' names columns that do not exist"),
        (made(hash_index=np.array([3]), hash_names=["a"]), "dataset 'hash_index' names columns that do not exist"),
        (made(settings=Settings(scaling="online")), "dataset 'seen' is missing, but is needed if settings/scaling is 'online'"),
        (
            made(settings=Settings(scaling="standard"), seen=np.zeros(3), size=np.zeros(3)),
            "dataset 'location' is missing, but is needed if settings/scaling is 'standard'",
        ),
        (made(seen=np.zeros(3)), "dataset 'seen' must not exist if settings/scaling is 'none'"),
        (made(centred=np.zeros(3)), "dataset 'centred' must not exist if settings/scaling is 'none'"),
        (made(**SCORED | {"seen": np.zeros(2)}), "dataset 'seen' has 2 entries, but there are 3 features"),
        (made(**SCORED | {"size": np.full(3, -0.5)}), "dataset 'size' has values below 0"),
        (made(**SCORED | {"seen": np.full(3, -1.0)}), "dataset 'seen' has values below 0"),
        (held(score=np.zeros((2, 2))), "holdout has 2 scores for each example, but 2 classes need 1"),
        (held(variance=np.full((2, 1), -1.0)), "dataset 'holdout/variance' has values below 0"),
        (held(y=np.array([0, 2])), "dataset 'holdout/y' has labels outside 0…1"),
        (held(y=np.array([-1, 1])), "dataset 'holdout/y' has labels outside 0…1"),
        (held(split=np.array([0, 1])), "dataset 'holdout/split' has parts other than 1 and 2"),
        (held(split=np.array([2, 3])), "dataset 'holdout/split' has parts other than 1 and 2"),
    ],
    ids=lambda value: "" if isinstance(value, Classifier) else None,
)
def test_what_is_beyond_its_limits_is_none(value, message):
    with pytest.raises(DataError, match=message):
        value.validate()


def test_features_are_counted_without_the_bias_and_a_kernel_keeps_a_column_for_it():
    assert (made().features, made(settings=Settings(bias=True)).features, kernel().features) == (3, 2, 2)
    assert (made(2).count, made(5).count) == (1, 5)
    assert kernel(machines=[]).columns == 0
