"""A model that was edited on purpose and sealed again is refused when its parts do not belong together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from herdcli.errors import DataError
from herdcli.numerics.scores import Scores
from herdcli.rbm.model import RBM, StoredHeldoutRows
from herdcli.schema import check_arrays

FIT: dict[str, Any] = {"algorithm": "cd", "steps": 1, "epochs": 1, "batch_size": 1, "learning_rate": 0.1, "momentum": 0.0}
MODEL = RBM(
    W=np.zeros((2, 3, 4), np.float32),
    b=np.zeros((2, 3), np.float32),
    c=np.zeros((2, 4), np.float32),
    visible_units="spin",
    hidden_units="binary",
    weight_decay=0.0,
    chains=0,
    seed=0,
    holdout=StoredHeldoutRows(np.array([[-1, 1, 1]], np.int8), np.array([2]), np.array([1])),
    scores=Scores(np.zeros((1, 2)), np.array([1]), np.array([2]), np.array([0])),
    classes=["a", "b"],
    **FIT,
)


def test_a_model_whose_parts_belong_together_is_accepted() -> None:
    check_arrays(MODEL)
    check_arrays(replace(MODEL, holdout=StoredHeldoutRows(np.zeros((0, 3), np.int8), np.zeros(0, np.uint8)), scores=None))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"W": np.full((2, 3, 4), np.nan, np.float32)}, "/W has values that are not finite"),
        ({"c": np.full((2, 4), np.inf, np.float32)}, "/c has values that are not finite"),
        (
            {"hidden_units": "ternary"},
            "hidden_units are 'ternary', expected one of binary, spin, rate:N, gaussian, poisson, softmax:K, words",
        ),
        ({"classes": ["a"]}, "/classes has 1 names, but there are 2 models"),
        ({"holdout": replace(MODEL.holdout, X=np.ones((1, 2), np.int8))}, "/holdout/X has 2 columns, but the models have 3 visible units"),
        (
            {"holdout": replace(MODEL.holdout, X=np.zeros((1, 3), np.int8))},
            "/holdout/X: there are values other than -1 and 1, but spin units need one of these",
        ),
        ({"holdout": replace(MODEL.holdout, y=np.array([2]))}, "/holdout/y must hold 0 … 1, one of the models"),
        ({"scores": replace(MODEL.scores, energy=np.zeros((1, 3)))}, "/scores/energy has 3 columns, but there are 2 models"),
        ({"scores": replace(MODEL.scores, energy=np.full((1, 2), np.nan))}, "/scores/energy has values that are not finite"),
        ({"scores": replace(MODEL.scores, nearest=np.array([-2]))}, "/scores/nearest must hold -1 … 1, one of the models"),
        ({"scores": replace(MODEL.scores, nearest=np.array([2]))}, "/scores/nearest must hold -1 … 1, one of the models"),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(DataError) as found:
        check_arrays(replace(MODEL, **changes), where="model.h5")
    assert (found.value.where, found.value.message) == ("model.h5", says)


def test_a_model_of_one_weight_is_sound_and_one_of_none_is_refused() -> None:
    parts = {"W": np.ones((1, 1, 1)), "b": np.zeros((1, 1)), "c": np.zeros((1, 1))}
    one = replace(MODEL, **parts, holdout=None, scores=None, classes=None)
    one.validate()
    with pytest.raises(DataError, match="/W is empty"):
        replace(one, W=np.ones((1, 0, 1))).validate()
