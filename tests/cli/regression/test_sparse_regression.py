"""herd regress on sparse rows with many columns: no dense copy, and the answer of the dense file."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from scipy import sparse

from herdcli import artifacts
from herdcli.artifacts.tables import dataset_preparation

N, D = 300, 2100


@pytest.fixture
def words(tmp_path):
    """words.npz and dense.h5 have the same rows, and `two.npz` has two classes."""
    random = np.random.default_rng(3)
    X = sparse.random_array((N, D), density=0.01, format="csr", random_state=random)
    y = (X @ random.normal(size=(D, 3))).argmax(axis=1)
    split = np.repeat([0, 2], [240, 60])
    fields = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape, "split": split}
    np.savez(tmp_path / "words.npz", y=y, **fields)
    np.savez(tmp_path / "two.npz", y=(y > 0).astype(int), **fields)
    with h5py.File(tmp_path / "dense.h5", "w") as file:
        file.update({"X": X.toarray(), "y": y, "split": split})
    return tmp_path


def test_sparse_rows_are_fitted_without_a_dense_copy(herd, words, monkeypatch):
    assert herd("regress", "dense.h5", "--l2", "0.001", "-o", "d.h5").code == 0
    with monkeypatch.context() as patched:
        patched.setattr(dataset_preparation, "dense_copy", None)
        ended = herd("regress", "words.npz", "--l2", "0.001", "-o", "w.h5")
        assert ended.code == 0, ended.err
    found, dense = (artifacts.load(str(words / name)).value for name in ("w.h5", "d.h5"))
    np.testing.assert_allclose(found.coefficients, dense.coefficients, atol=1e-5)
    np.testing.assert_allclose(found.holdout.predictor, dense.holdout.predictor, atol=1e-5)
    np.testing.assert_array_equal(found.holdout.baselines, dense.holdout.baselines)
    assert not found.aliased.any()
    applied = herd("apply", "w.h5", "words.npz", "-o", "p.csv")
    assert applied.code == 0, applied.err
    evaluated = herd("eval", "w.h5", "--data", "words.npz", "--format", "json")
    assert evaluated.code == 0, evaluated.err


def test_without_a_penalty_the_hint_names_it(herd, words):
    ended = herd("regress", "words.npz", "--max-memory", "400M", "-o", "w.h5")
    assert ended.code == 65
    assert ended.err.splitlines()[-2:] == [
        "herd regress: words.npz: the curvature of 2 × 2101 coefficients would take 1.27 GB, more than the 400 MB allowed",
        "hint: use --l2 0.001, which needs no curvature matrix and gives no standard errors",
    ]


def test_a_checkpoint_of_a_sparse_fit_goes_on_to_the_same_bytes(herd, words):
    assert herd("regress", "two.npz", "--l2", "1e-5", "-o", "whole.h5").code == 0
    assert (
        herd("regress", "two.npz", "--l2", "1e-5", "--iterations", "3", "--checkpoint", "ck.h5", "--every", "1", "-o", "short.h5").code == 0
    )
    ended = herd("regress", "two.npz", "--l2", "1e-5", "--checkpoint", "ck.h5", "--resume", "-o", "resumed.h5")
    assert ended.code == 0, ended.err
    whole, resumed = (artifacts.load(str(words / name)).value for name in ("whole.h5", "resumed.h5"))
    np.testing.assert_array_equal(whole.coefficients, resumed.coefficients)
