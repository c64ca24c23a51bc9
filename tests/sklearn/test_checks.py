"""scikit-learn's own checks of estimators; what is expected to fail is listed with its reason."""

from __future__ import annotations

import pytest

pytest.importorskip("sklearn")

from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer
from sklearn.utils.estimator_checks import check_estimator

from herdcli.sklearn import (
    DBN,
    HMM,
    ICA,
    LDS,
    RBM,
    EMImputer,
    GLMRegressor,
    HerdingClassifier,
    KernelHerder,
    MarkovNetwork,
    NHERDClassifier,
    PerceptronClassifier,
    PerceptronRegressor,
)

IN_TIME = "a row's state depends on the rows before and after it"
STEPS = "a Pipeline keeps fitted steps in its parameter"
OF_ROWS = {"check_methods_sample_order_invariance": IN_TIME, "check_methods_subset_invariance": IN_TIME}
OF_PIPELINES = {"check_estimators_overwrite_params": STEPS, "check_dont_overwrite_parameters": STEPS}


def in_states(estimator, encode, bins):
    """Real columns cut into states, for estimators of two-valued rows and of states."""
    return make_pipeline(KBinsDiscretizer(bins, encode=encode, strategy="uniform"), estimator)


CASES = {
    "kernel-herder": (KernelHerder(3), {}),
    "em-imputer": (EMImputer(components=1), {}),
    "rbm of real columns": (RBM(2, visible_units="gaussian", standardize=True, epochs=2), {}),
    "rbm of grey columns": (RBM(2, epochs=2), {}),
    "dbn": (DBN((2, 2), epochs=2), {}),
    "ica": (ICA(), {}),
    "nherd": (NHERDClassifier(C=1.0), {}),
    "glm": (GLMRegressor(), {}),
    "perceptron of classes": (PerceptronClassifier((3,)), {}),
    "perceptron of numbers": (PerceptronRegressor((3,)), {}),
    "hmm": (HMM(1, iterations=5), {}),
    "lds": (LDS(1, iterations=5), OF_ROWS),
    "herding": (in_states(HerdingClassifier(5, iterations=50), "onehot-dense", 6), OF_PIPELINES),
    "network": (in_states(MarkovNetwork(), "ordinal", 3), OF_PIPELINES),
}
QUICK = ("kernel-herder",)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES])
def test_estimators_are_what_scikit_learn_expects(name):
    estimator, expected = CASES[name]
    found = check_estimator(estimator, on_fail=None, on_skip=None, expected_failed_checks=expected)
    assert len(found) >= 40
    assert [(each["check_name"], str(each["exception"])[:200]) for each in found if each["status"] == "failed"] == []
    assert {each["check_name"] for each in found if each["status"] == "xfail"} == set(expected)
