"""`herd regress` beside frozen figures of statsmodels 0.15.0, each with the call that gave it.

The table, the options and the calls are those of scripts/checks/statsmodels_glm.py, which computes the figures anew.
"""

from __future__ import annotations

import numpy as np
import pytest
from checks.statsmodels_glm import CASES, command_options, figures_of, write_table

from herdcli.artifacts.load_save import load

# Case: the call (Z: x, z and ones), coefficients, standard errors, log-likelihood, dispersion.
FROZEN = {
    "gaussian": (
        "GLM(number, Z)",
        [2.22397895286, -0.960366002782, 0.953578784982],
        [0.172012932212, 0.163394090922, 0.115590772324],
        -41.8491178215,
        0.513010157474,
    ),
    "gaussian precision": (
        "WLS(number, Z, weights=w)",
        [2.30876587612, -0.802116220676, 0.892233382187],
        [0.17115935556, 0.159342682589, 0.113686464912],
        -43.235571103,
        1.2169849991,
    ),
    "gaussian frequency": (
        "GLM(number, Z, freq_weights=w)",
        [2.30876587612, -0.802116220676, 0.892233382187],
        [0.105709894047, 0.0984117872993, 0.0702140068308],
        -102.000064043,
        0.464210772852,
    ),
    "gaussian offset": (
        "GLM(number, Z, offset=offset)",
        [2.18840776096, -1.05343781604, 0.958899572611],
        [0.179199049413, 0.170220142151, 0.120419762951],
        -43.4862192073,
        0.556769157135,
    ),
    "bernoulli": (
        "GLM(binary, Z, family=Binomial())",
        [2.44984411424, 0.572933996495, -0.268695652383],
        [0.776260855835, 0.625104908212, 0.411512776421],
        -19.3880635706,
        1.0,
    ),
    "bernoulli precision": (
        "GLM(binary, Z, family=Binomial(), var_weights=w)",
        [3.09873891086, 1.37776058107, -0.384864967112],
        [0.606360781341, 0.483220184136, 0.27081616861],
        -44.2327682397,
        1.0,
    ),
    "bernoulli frequency": (
        "GLM(binary, Z, family=Binomial(), freq_weights=w)",
        [3.09873891086, 1.37776058107, -0.384864967112],
        [0.606360781341, 0.483220184136, 0.27081616861],
        -44.2327682397,
        1.0,
    ),
    "successes of trials": (
        "GLM(column_stack([hits, misses]), Z, family=Binomial())",
        [1.7687158257, 0.205831484611, -0.0344935251975],
        [0.400401155722, 0.346175016672, 0.238550616294],
        -40.6844077099,
        1.0,
    ),
    "shares of trials": (
        "GLM(column_stack([hits, misses]), Z, family=Binomial())",
        [1.7687158257, 0.205831484611, -0.0344935251975],
        [0.400401155722, 0.346175016672, 0.238550616294],
        -40.6844077099,
        1.0,
    ),
    "successes and failures": (
        "GLM(column_stack([hits, misses]), Z, family=Binomial())",
        [1.7687158257, 0.205831484611, -0.0344935251975],
        [0.400401155722, 0.346175016672, 0.238550616294],
        -40.6844077099,
        1.0,
    ),
    "quasi-binomial": (
        "GLM(share, Z, family=Binomial(), var_weights=w).fit(scale='X2')",
        [1.7687158257, 0.205831484611, -0.0344935251975],
        [0.459198918858, 0.397009826569, 0.273581091187],
        None,
        1.3152583543,
    ),
    "poisson": (
        "GLM(events, Z, family=Poisson())",
        [0.701981160982, -0.112953792873, 0.709969708889],
        [0.174494791323, 0.142414219739, 0.119651498673],
        -82.9768511435,
        1.0,
    ),
    "poisson precision": (
        "GLM(events, Z, family=Poisson(), var_weights=w)",
        [0.627674185648, -0.18314462202, 0.920514603099],
        [0.10159171993, 0.0805358052002, 0.0690739139378],
        -223.538277222,
        1.0,
    ),
    "poisson frequency": (
        "GLM(events, Z, family=Poisson(), freq_weights=w)",
        [0.627674185648, -0.18314462202, 0.920514603099],
        [0.10159171993, 0.0805358052002, 0.0690739139378],
        -223.538277222,
        1.0,
    ),
    "poisson offset": (
        "GLM(events, Z, family=Poisson(), offset=offset)",
        [0.671670313357, -0.217393107805, 0.693675659828],
        [0.173760255574, 0.140704011004, 0.119617388316],
        -87.9029052459,
        1.0,
    ),
    "poisson exposure": (
        "GLM(events, Z, family=Poisson(), exposure=w)",
        [0.590329456749, -0.123028838253, -0.199511591998],
        [0.176252967272, 0.142018867467, 0.119858729409],
        -71.6540016776,
        1.0,
    ),
    "quasi-poisson": (
        "GLM(events, Z, family=Poisson(), exposure=w).fit(scale='X2')",
        [0.590329456749, -0.123028838253, -0.199511591998],
        [0.208522389708, 0.168020511033, 0.141803165447],
        -71.6540016776,
        1.39969210156,
    ),
    "gamma precision": (
        "GLM(positive, Z, family=Gamma(Log()), var_weights=w)",
        [0.567010541763, 0.276495601136, 0.107991913958],
        [0.151707588756, 0.141233846566, 0.100766326267],
        -43.1592673285,
        0.956089505514,
    ),
    "gamma frequency": (
        "GLM(positive, Z, family=Gamma(Log()), freq_weights=w)",
        [0.567010541763, 0.276495601136, 0.107991913958],
        [0.0936962696608, 0.087227571683, 0.0622343875877],
        -104.324845724,
        0.364693935093,
    ),
    "covariance of a file": (
        "GLS(number, Z, sigma=omega)",
        [2.20281294437, -1.07624567796, 0.892839352065],
        [0.163022479096, 0.15036712908, 0.151597141993],
        -42.8099008143,
        0.514717645227,
    ),
    "autoregressive errors": (
        "GLS(number, Z, sigma=0.6 ** abs(i - j))",
        [2.20377658775, -0.965760759042, 0.925629994867],
        [0.15796896215, 0.128937107573, 0.258443473377],
        -39.7708590722,
        0.714449726223,
    ),
}


def test_every_case_is_frozen():
    assert {case: figures[0] for case, figures in FROZEN.items()} == {case: call for case, (_, call) in CASES.items()}


@pytest.mark.parametrize("case", FROZEN)
def test_figures_are_those_of_statsmodels(herd, tmp_path, case):
    write_table(tmp_path)
    ended = herd("regress", "t.csv", *command_options(case), "-o", "m.h5")
    assert ended.code == 0, ended.err
    ours = figures_of(load(str(tmp_path / "m.h5")).value)
    _, coefficients, errors, log_likelihood, dispersion = FROZEN[case]
    np.testing.assert_allclose(ours["coefficients"], coefficients, rtol=1e-7)
    np.testing.assert_allclose(ours["standard errors"], errors, rtol=1e-7)
    assert ours["dispersion"] == pytest.approx(dispersion, rel=1e-7)
    if log_likelihood is not None:
        assert ours["log-likelihood"] == pytest.approx(log_likelihood, rel=1e-9)
