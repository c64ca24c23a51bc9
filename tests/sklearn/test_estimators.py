"""Estimators learn what their commands learn, and go where scikit-learn's go."""

from __future__ import annotations

import pickle
import subprocess
import sys
from itertools import pairwise, product

import numpy as np
import pytest

pytest.importorskip("sklearn")

from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import herdcli
from herdcli.artifacts.sealed.artifact_comparison import largest_difference
from herdcli.errors import DataError
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

pytestmark = pytest.mark.filterwarnings("ignore:herd ", "ignore:python: ")


@pytest.fixture(scope="module")
def digits():
    data = herdcli.data("digits")
    few = np.flatnonzero(data.y < 3)[:240]
    return data.X[few] / 16.0, data.y[few].astype(int)


def bits(n=60, d=5, seed=0):
    return (np.random.default_rng(seed).random((n, d)) > 0.5).astype(float)


def same(ours, theirs):
    return largest_difference(ours, theirs)[0] == 0.0


def test_they_learn_what_their_functions_learn():
    X, rng = bits(), np.random.default_rng(1)
    real, train, y = rng.normal(size=(60, 3)), np.zeros(60, dtype=int), np.arange(60) % 2
    for estimator, made in (
        (RBM(3, epochs=2, random_state=7).fit(X), herdcli.fit_rbm(X, hidden=3, epochs=2, seed=7, row_split=train)),
        (DBN((3, 2), epochs=2).fit(X), herdcli.fit_rbm(X, layers=(3, 2), epochs=2, row_split=train)),
        (ICA("infomax", options={"rates": "0.01x3"}).fit(real), herdcli.ica(real, algorithm="infomax", rates="0.01x3", row_split=train)),
        (KernelHerder(4, rule="line-search").fit(real), herdcli.kernel_herd(real, count=4, rule="line-search", row_split=train)),
        (NHERDClassifier(C=1.0).fit(real, y), herdcli.nherd_train(real, y, C=1.0, row_split=train)),
        (MarkovNetwork().fit(X), herdcli.fit_mrf(X.astype(int), smoothing=1.0, row_split=train)),
        (EMImputer(components=2).fit(real), herdcli.em(real, components=2, row_split=train)),
        (HMM(2).fit(real), herdcli.em(real, model="hmm", components=2, row_split=train)),
        (LDS(1).fit(real), herdcli.em(real, model="lds", components=1, row_split=train)),
        (GLMRegressor(l2=0.1).fit(real, X[:, 0]), herdcli.regress(real, X[:, 0], family="gaussian", l2=0.1, row_split=train)),
        (
            PerceptronRegressor((3,), validation_fraction=0.0).fit(real, X[:, 0]),
            herdcli.regress(real, X[:, 0], family="gaussian", hidden="3", row_split=train),
        ),
        (
            PerceptronClassifier((3, 2), validation_fraction=0.0, l2=0.1, options={"iterations": 9}).fit(real, y),
            herdcli.regress(real, y.astype(str), hidden="3,2", l2=0.1, iterations=9, row_split=train),
        ),
    ):
        assert same(estimator.artifact_, made), estimator


def test_perceptrons_stop_on_a_share_of_their_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    model = PerceptronClassifier((8,), validation_fraction=0.25).fit(X, y)
    assert (model.artifact_.rows, len(model.artifact_.holdout.y)) == (150, 50)
    assert model.classes_.tolist() == ["other", "same"]
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert model.score(X, y) > 0.9
    sparse = PerceptronClassifier((8,), optimizer="adam", epochs=3).fit(csr_array(X), y)
    np.testing.assert_allclose(sparse.predict_proba(csr_array(X)), sparse.predict_proba(X), atol=1e-9)
    with pytest.raises(ValueError, match=r"^validation_fraction is 1\.0, expected a number from 0 to below 1$"):
        PerceptronRegressor(validation_fraction=1.0).fit(X, X[:, 0])


def test_rbms_transform_score_and_draw():
    X = bits()
    rbm = RBM(3, epochs=3).fit(X)
    h = rbm.artifact_.harmonium(0)
    np.testing.assert_allclose(rbm.transform(X), h.hidden_means(X), atol=1e-6)
    np.testing.assert_allclose(rbm.score_samples(X), -h.free_energy(X), atol=1e-6)
    np.testing.assert_allclose(rbm.components_, h.W.T, atol=1e-7)
    every = np.array(list(product([0.0, 1.0], repeat=5)))
    log_z = np.logaddexp.reduce(-h.free_energy(every))  # by enumeration
    assert rbm.score(X) == pytest.approx(float(np.mean(-h.free_energy(X) - log_z)), abs=1e-6)
    assert rbm.sample(7, burn_in=5).shape == (7, 5)
    assert list(rbm.get_feature_names_out()) == ["rbm0", "rbm1", "rbm2"]
    deep = DBN((4, 2), epochs=2).fit(X)
    assert deep.transform(X).shape == (60, 2)
    assert deep.score(X) < 0


def test_weights_go_to_scikit_learn_s_own_rbm_and_come_back(tmp_path):
    from sklearn.neural_network import BernoulliRBM

    X = bits()
    ours = RBM(3, epochs=3).fit(X)
    np.testing.assert_allclose(ours.as_bernoulli_rbm().transform(X), ours.transform(X), atol=1e-6)
    theirs = BernoulliRBM(4, n_iter=3, random_state=0).fit(X)
    np.savez(tmp_path / "w.npz", **{name: getattr(theirs, name) for name in ("components_", "intercept_visible_", "intercept_hidden_")})
    read = RBM.from_artifact(herdcli.convert(tmp_path / "w.npz", to="rbm"))
    np.testing.assert_allclose(read.transform(X), theirs.transform(X), atol=1e-6)
    np.testing.assert_allclose(clone(read).set_params(epochs=1).fit(X).transform(X).shape, (60, 4))
    with pytest.raises(ValueError, match=r"^a BernoulliRBM has binary units, this model spin ones$"):
        RBM(2, units="spin", epochs=1).fit(2 * X - 1).as_bernoulli_rbm()


def test_a_model_of_a_command_goes_into_a_pipeline():
    grey = herdcli.data("digits")
    model = herdcli.fit_rbm(grey, hidden=5, epochs=1, threshold=0.3)
    line = make_pipeline(RBM.from_artifact(model), StandardScaler())
    made = line[0].transform(grey.X[:50])
    np.testing.assert_allclose(made, herdcli.apply(model, grey).X[:50], atol=1e-6)
    two = herdcli.fit_rbm(bits(), np.arange(60) % 2, hidden=2, epochs=1, per_class=True)
    with pytest.raises(ValueError, match=r"^there are 2 models, one for each class, and an RBM is one$"):
        RBM.from_artifact(two)


def test_grey_rows_have_the_range_of_the_training_rows():
    X = np.random.default_rng(4).uniform(2.0, 6.0, (40, 4))
    rbm = RBM(2, epochs=1).fit(X)
    assert rbm.value_range_ == (X.min(), X.max())
    cut = 0.6 * X.min() + 0.4 * X.max()  # from 0.4 of the range upwards, as of the command
    on = (cut <= X).astype(float)
    np.testing.assert_allclose(rbm.transform(X), rbm.artifact_.harmonium(0).hidden_means(on), atol=1e-6)
    np.testing.assert_array_equal(rbm.transform(np.full((1, 4), 99.0)), rbm.transform(np.full((1, 4), 6.0)))  # clipped


def test_herding_tells_classes(digits):
    X, y = digits
    train, test = slice(0, 160), slice(160, None)
    model = HerdingClassifier(20, iterations=200).fit(X[train], np.array(["a", "b", "c"])[y[train]])
    p = model.predict_proba(X[test])
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert np.mean(model.predict(X[test]) == np.array(["a", "b", "c"])[y[test]]) > 0.9
    np.testing.assert_allclose(p[:5], model.predict_proba(X[test][:5]))  # a row's energies do not depend on those beside it


def test_herding_says_that_rows_must_differ():
    X = np.array([[0.0, 1.0]] * 8 + [[1.0, 1.0], [1.0, 0.0]] * 4)
    with pytest.raises(DataError, match="class '0' has fewer than two distinct training rows"):
        HerdingClassifier(2, iterations=5).fit(X, np.repeat([0, 1], 8))


def test_online_learning_goes_on(digits):
    X, y = digits
    order = np.random.default_rng(0).permutation(len(X))
    X, names = X[order], np.array([30, 10, 20])[y[order]]
    model = NHERDClassifier(C=1.0)
    for start, end in pairwise([0, 100, 150, 200]):  # the first 100 examples are taken about the mean of all of them
        model.partial_fit(X[start:end], names[start:end], classes=[10, 20, 30])
    assert model.artifact_.running.examples == 200
    assert np.mean(model.predict(X[200:]) == names[200:]) > 0.85
    whole = NHERDClassifier(C=1.0).fit(X[:200], names[:200])
    np.testing.assert_allclose(model.artifact_.mean, whole.artifact_.mean, atol=1e-12)  # examples are learned one by one
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        NHERDClassifier().partial_fit(X, names)
    with pytest.raises(ValueError, match=r"labels \[40\] are none of the classes"):
        model.partial_fit(X[:2], [10, 40])


def test_kernel_herding_selects_rows_of_any_type(digits):
    X, y = digits
    chosen = KernelHerder(12, unique=True, weights="simplex").fit(X, sample_weight=np.ones(len(X)))
    assert len(set(chosen.sample_indices_)) == 12
    assert chosen.sample_weight_.sum() == pytest.approx(1.0)
    np.testing.assert_array_equal(X[chosen.sample_indices_], chosen.atoms_)
    rows, labels = chosen.fit_resample(X, y.tolist())
    np.testing.assert_array_equal(labels, y[chosen.sample_indices_])
    assert rows.shape == (12, 64)
    weight = np.where(y == 1, 5.0, 1.0)
    assert same(KernelHerder(5).fit(X, sample_weight=weight).artifact_, herdcli.kernel_herd(X, count=5, row_weight=weight))
    pandas = pytest.importorskip("pandas")
    frame, _ = chosen.fit_resample(pandas.DataFrame(X).add_prefix("c"), pandas.Series(y))
    assert list(frame.index) == list(chosen.sample_indices_)


def test_a_network_s_probabilities_are_those_of_enumeration():
    X = bits(80, 4, 2).astype(int)
    X[:, 1] = np.where(np.arange(80) % 5 == 0, 1 - X[:, 0], X[:, 0])
    network = MarkovNetwork().fit(X)
    every = np.array(list(product([0, 1], repeat=4)))
    p = np.exp(network.score_samples(every))
    assert p.sum() == pytest.approx(1.0)
    gaps = every[:1].astype(float)
    gaps[0, 1:3] = np.nan
    fits = (every[:, [0, 3]] == 0).all(axis=1)
    assert np.exp(network.score_samples(gaps))[0] == pytest.approx(p[fits].sum())
    on = p[fits & (every[:, 1] == 1)].sum() / p[fits].sum()
    assert network.marginals(gaps)[0, 3] == pytest.approx(on)
    assert network.predict(gaps)[0, 1] == int(on > 0.5)
    with pytest.raises(ValueError, match=r"^a MarkovNetwork takes whole numbers from 0, the states of its columns: KBinsDiscretizer"):
        network.fit(X + 0.5)


def test_models_in_time():
    rng = np.random.default_rng(5)
    states = np.repeat(np.arange(12) % 2, 10)
    X = rng.normal(size=(120, 2)) + 4.0 * states[:, None]
    X[7, 1] = np.nan
    hmm = HMM(2).fit(X, lengths=[60, 60])
    path = hmm.predict(X, lengths=[60, 60])
    assert max(np.mean(path == states), np.mean(path != states)) > 0.97
    assert (hmm.predict_proba(X, lengths=[60, 60]).argmax(axis=1) == path).mean() > 0.97
    assert hmm.score(X) > HMM(1).fit(X).score(X)
    assert hmm.sample(5).shape == (5, 2)
    lds = LDS(1).fit(X)
    assert lds.transform(X).shape == (120, 1)
    assert np.isfinite(lds.completed(X)).all()
    assert lds.forecast(X, 3).shape == (3, 2)
    with pytest.raises(ValueError, match=r"^lengths \[60, 59\] are not those of 120 rows$"):
        hmm.predict(X, lengths=[60, 59])


def test_gaps_are_filled_by_what_the_others_say():
    rng = np.random.default_rng(6)
    x = rng.normal(size=300)
    X = np.column_stack([x, 2 * x + 0.1 * rng.normal(size=300)])
    torn = np.where(np.arange(600).reshape(300, 2) % 7 == 0, np.nan, X)
    filled = EMImputer("ppca", components=1).fit_transform(torn)
    gaps = np.isnan(torn)
    np.testing.assert_array_equal(filled[~gaps], X[~gaps])
    assert np.abs(filled - X)[gaps].max() < 0.7


def test_regression_agrees_with_scikit_learn():
    from sklearn.linear_model import PoissonRegressor

    rng = np.random.default_rng(7)
    X = rng.normal(size=(150, 3))
    y = rng.poisson(np.exp(X @ [0.5, -0.3, 0.0] + 0.2)).astype(float)
    weight = rng.uniform(0.5, 2.0, 150)
    ours = GLMRegressor("poisson", l2=0.3, iterations=1000).fit(X, y, sample_weight=weight)
    theirs = PoissonRegressor(alpha=0.3, tol=1e-10, max_iter=1000).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-4)
    assert (GLMRegressor("poisson", l1=0.3).fit(X, y).coef_ == 0).any()  # which scikit-learn's has not
    assert ours.standard_error_.shape == (4,)


def test_pipelines_and_searches(digits):
    X, y = digits
    line = make_pipeline(MinMaxScaler(), RBM(8, epochs=10), NHERDClassifier(C=1.0))
    search = GridSearchCV(line, {"rbm__hidden": [1, 12]}, cv=2).fit(X[:120], y[:120])
    assert search.best_params_ == {"rbm__hidden": 12}
    assert search.score(X[120:], y[120:]) > 0.8
    again = clone(search.best_estimator_).fit(X[:120], y[:120])
    np.testing.assert_array_equal(again.predict_proba(X), search.best_estimator_.predict_proba(X))
    kept = pickle.loads(pickle.dumps(again))  # noqa: S301
    np.testing.assert_array_equal(kept.predict(X), again.predict(X))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_and_their_names(library):
    frames = pytest.importorskip(library)
    X = bits(40, 3)
    frame = frames.DataFrame({name: X[:, column] for column, name in enumerate("abc")})
    ica = make_pipeline(StandardScaler(), ICA("ml")).set_output(transform=library)
    made = ica.fit_transform(frame)
    assert list(made.columns) == ["ica0", "ica1", "ica2"]
    assert isinstance(made, frames.DataFrame)
    np.testing.assert_allclose(ica[-1].inverse_transform(made), StandardScaler().fit_transform(X), atol=1e-10)
    rbm = RBM(2, epochs=1).fit(frame)
    assert rbm.artifact_.feature_names == ["a", "b", "c"]
    assert list(rbm.feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names should match"):
        rbm.transform(frame[["b", "a", "c"]])


def test_sparse_rows_give_what_dense_ones_give():
    X = bits()
    for estimator in (RBM(2, epochs=2), DBN((2, 2), epochs=1)):
        dense, sparse = (clone(estimator).fit(rows).transform(rows) for rows in (X, csr_array(X)))
        np.testing.assert_allclose(dense, sparse, atol=1e-6)
    y = np.arange(60) % 2
    ours, theirs = (NHERDClassifier(C=1.0).fit(rows, y).predict_proba(rows) for rows in (X, csr_array(X)))
    np.testing.assert_allclose(ours, theirs)


def test_seeds():
    X = bits()
    assert not same(RBM(2, epochs=1, random_state=1).fit(X).artifact_, RBM(2, epochs=1, random_state=2).fit(X).artifact_)
    state = np.random.RandomState(3)
    first, second = (RBM(2, epochs=1, random_state=state).fit(X) for _ in range(2))
    assert first.seed_ != second.seed_
    assert same(first.artifact_, RBM(2, epochs=1, random_state=first.seed_).fit(X).artifact_)


def test_nothing_of_scikit_learn_is_imported_without_asking():
    script = "import sys, herdcli.engine; assert 'sklearn' not in sys.modules; import herdcli.sklearn; assert 'sklearn' in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, cwd="/")
    without = "import sys; sys.modules['sklearn'] = None\nimport herdcli.sklearn"
    done = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, check=False, timeout=60, cwd="/")
    assert done.stderr.splitlines()[-1] == "ImportError: herdcli.sklearn needs scikit-learn: pip install 'herdcli[sklearn]'"
