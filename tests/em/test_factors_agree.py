"""Factor analysis by EM ends where the alternation of `numerics/factor_model.py` does: two methods, one likelihood."""

from __future__ import annotations

import numpy as np

from herdcli.em.factor.factor_analysis import FactorEM, MomentsBlock
from herdcli.numerics import factor_model
from herdcli.numerics.block_statistics import RowMoments

NOISE = np.sqrt([0.1, 0.3, 0.2, 8.0, 0.4, 20.0, 0.5, 0.2])


def test_one_step_of_em_stays_at_the_optimum_of_the_other_method():
    random = np.random.default_rng(0)
    X = random.standard_normal((3000, 2)) @ random.standard_normal((2, 8)) + NOISE * random.standard_normal((3000, 8))
    S = np.cov(X.T, bias=True)
    best = factor_model.fit_factors(S, 2)
    found = RowMoments(3000, 3000.0, X.mean(axis=0), S, 0)
    model = FactorEM("fa", 2, 1e-9, np.ones(len(found.mean)), found, 0)
    at = {"loading": best.loadings, "mean": X.mean(axis=0), "noise": best.noise}

    def stepped(parameters):
        (block,) = MomentsBlock(found).take(0, 1)
        sums = model.expect(parameters)(block)
        return model.maximise(parameters, model.complete_statistics(parameters, sums))[0]

    np.testing.assert_allclose(stepped(at)["loading"], at["loading"], atol=1e-6)
    np.testing.assert_allclose(stepped(at)["noise"], at["noise"], rtol=1e-6)
    away = at | {"noise": 1.2 * at["noise"]}
    assert np.abs(stepped(away)["noise"] / away["noise"] - 1).max() > 1e-2
