"""The terms of one prediction: they add up to the score, and their deviations are those of the weights."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.online.block_sources import MemorySource
from herdcli.online.example_blocks import block_from_rows
from herdcli.online.learner import OnlineLearner
from herdcli.online.model import Settings
from herdcli.online.predictions.explanation import explain_score
from herdcli.online.predictions.prediction import make_scorer


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
@pytest.mark.parametrize(("classes", "multiclass"), [(2, "top-1"), (3, "top-1"), (3, "one-vs-rest")])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("scaling", ["online", "none"])
def test_terms_add_up_to_the_score(covariance, classes, multiclass, bias, scaling):
    random = np.random.default_rng(0)
    X, y = random.standard_normal((80, 5)) * (1, 10, 1, 1, 3), random.integers(classes, size=80)
    X[:, 4] *= random.random(80) < 0.5
    settings = Settings(algorithm="arow", C=1.0, bias=bias, covariance=covariance, multiclass=multiclass, scaling=scaling, normalize=True)
    learner = OnlineLearner(settings, MemorySource(X, y), classes, 6)
    state = learner.init()
    while not learner.done(state):
        state = learner.step(state)
    model = learner.result(state)
    score, _ = make_scorer(model)(block_from_rows(X, y, slice(None)))
    for row in range(8):
        found = explain_score(model, block_from_rows(X, y, slice(row, row + 1)))
        order = np.sort(score[row])
        assert found.score == pytest.approx(abs(score[row, 0]) if classes == 2 else order[-1] - order[-2], rel=1e-12)
        assert np.sum(found.contributions) == pytest.approx(found.score, rel=1e-12, abs=1e-14)
        # by hand: rows of length 1, then each feature over the mean size that its values had
        x = np.where(X[row] != 0, X[row] / np.linalg.norm(X[row]), 0.0)
        own = np.concatenate([[1.0], x]) if bias else x
        if scaling == "online":
            own = own * model.seen / np.where(model.size > 0, model.size, 1.0)
        assert np.allclose(found.value, own[found.index + int(bias)], rtol=1e-12)
        ones = [0] if classes == 2 else [found.towards, found.against]
        if covariance == "diagonal":
            variances = model.variance
        else:
            variances = np.concatenate([np.diag(part) for part in model.covariance]).reshape(model.count, -1)
        spread = np.abs(own) * np.sqrt(sum(variances[k] for k in ones))
        assert np.allclose(found.deviation, spread[found.index + int(bias)], rtol=1e-12)
        if covariance == "diagonal":
            assert found.spread == pytest.approx(np.linalg.norm(found.deviation), rel=1e-12)
