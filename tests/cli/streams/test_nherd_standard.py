"""`herd nherd-train` on features that lie far from 0, on rows that fit into memory, and what becomes of such models elsewhere."""

from __future__ import annotations

import json

import numpy as np
import pytest

from herdcli.artifacts import load

FAR = (3.0, 30.0, 1e3, 1e6)


def rows(offset: float, count: int = 1500):
    random = np.random.default_rng(7)
    X = random.normal(size=(count, 10))
    return X + offset, (X[:, 0] - X[:, 1] + 0.3 * random.normal(size=count) > 0).astype(int)


def svmlight(X, y) -> bytes:
    return "".join(
        f"{label} " + " ".join(f"{k + 1}:{x!r}" for k, x in enumerate(row)) + "\n" for label, row in zip(y, X.tolist(), strict=True)
    ).encode()


def error(herd, model: str, *data: str, figure: str = "error") -> float:
    judged = herd("eval", model, *data, "--format", "json")
    assert judged.code == 0, judged.err
    return float(json.loads(judged.out)[0][figure])


@pytest.mark.parametrize("options", [(), ("--passes", "1"), ("--passes", "1", "--covariance", "full"), ("--parts", "3")])
def test_the_error_is_the_same_wherever_the_columns_lie(herd, tmp_path, options):
    found = []
    for offset in (0.0, *FAR):
        X, y = rows(offset)
        np.savez(tmp_path / "d.npz", X=X, y=y)
        assert herd("nherd-train", "-q", "d.npz", *options, "-o", "m.h5").code == 0
        found.append(error(herd, "m.h5"))
    assert found[0] < 0.12
    assert max(found) <= 1.1 * found[0]


def test_text_is_learned_alike_wherever_its_features_lie(herd, tmp_path):
    found = []
    for offset in (0.0, *FAR):
        X, y = rows(offset, 2500)
        (tmp_path / "test.svm").write_bytes(svmlight(X[1500:], y[1500:]))
        assert herd("nherd-train", "-q", "-o", "m.h5", stdin=svmlight(X[:1500], y[:1500])).code == 0
        found.append(error(herd, "m.h5", "--data", "test.svm"))
    assert found[0] < 0.12
    assert max(found) <= 1.1 * found[0]


@pytest.mark.parametrize(("offset", "level"), [(1e3, 0.0), (1e6, 0.0), (0.0, 1e6)])
@pytest.mark.parametrize("options", [(), ("--covariance", "diagonal")])
def test_numbers_are_predicted_alike_wherever_columns_and_numbers_lie(herd, tmp_path, offset, level, options):
    random = np.random.default_rng(3)
    X = random.normal(size=(800, 6))
    y = X @ random.normal(size=6) * 10 + 5 * random.normal(size=800)
    found = []
    for shift, lift in ((0.0, 0.0), (offset, level)):
        np.savez(tmp_path / "d.npz", X=X + shift, y=y + lift)
        assert herd("nherd-train", "-q", "d.npz", "--task", "regression", *options, "-o", "m.h5").code == 0
        found.append(error(herd, "m.h5", figure="rmse"))
    assert found[0] < 6.5
    assert found[1] <= 1.1 * found[0]


def test_sparse_rows_stay_sparse(herd, tmp_path):
    """One feature in every row, far from 0, among many that few rows have: these keep no mean, and rows get no entries."""
    random = np.random.default_rng(5)
    lines = []
    for _ in range(600):
        y, words = int(random.integers(0, 2)), sorted(random.choice(np.arange(2, 400), 6, replace=False).tolist())
        lines.append(f"{y} 1:{1000 + y + random.normal():.4f} " + " ".join(f"{word}:1" for word in words))
    assert herd("nherd-train", "-q", "--C", "1", "-o", "m.h5", stdin=("\n".join(lines) + "\n").encode()).code == 0
    model = load(str(tmp_path / "m.h5")).value
    assert np.flatnonzero(model.centred).tolist() == [1]
    assert model.location[1] == pytest.approx(1000.5, abs=0.2)
    assert (model.location[2:] == model.size[2:]).all()  # sums of ones


@pytest.mark.parametrize("options", [(), ("--task", "regression")])
def test_models_of_shards_are_merged_about_one_mean(herd, tmp_path, options):
    """Shards whose columns lie apart: the merged model of each is about the mean of all, and scores as its parts do."""
    for name, offset in (("a", 1000.0), ("b", 1002.0)):
        X, y = rows(offset)
        (tmp_path / f"{name}.svm").write_bytes(svmlight(X, y))
        assert herd("nherd-train", "-q", f"{name}.svm", "--C", "0.01", "--algorithm", "arow", *options, "-o", f"{name}.h5").code == 0
    for name in ("m.h5", "n.h5"):
        assert herd("merge", "a.h5", "b.h5", "-o", name).code == 0
    assert (tmp_path / "n.h5").read_bytes() == (tmp_path / "m.h5").read_bytes()
    a, b, m = (load(str(tmp_path / f"{name}.h5")).value for name in "abm")
    assert m.location[1:] == pytest.approx((a.location[1:] + b.location[1:]) / 2)
    assert (m.centred, m.deviation) == (pytest.approx(a.centred + b.centred), pytest.approx(a.deviation + b.deviation))
    figure = "error" if not options else "rmse"
    X, y = rows(1001.0, 600)
    (tmp_path / "test.svm").write_bytes(svmlight(X, y))
    assert error(herd, "m.h5", "--data", "test.svm", figure=figure) < (0.12 if not options else 0.4)


def test_a_scale_about_means_needs_a_bias(herd, tmp_path):
    np.savez(tmp_path / "d.npz", X=rows(0.0)[0], y=rows(0.0)[1])
    ended = herd("nherd-train", "d.npz", "--scale", "standard", "--no-bias", "-o", "m.h5")
    assert (ended.code, ended.err.splitlines()) == (
        2,
        [
            "herd nherd-train: --scale standard centres the features, so it does not work without a bias",
            "hint: use --scale online, which only divides",
        ],
    )
    assert herd("nherd-train", "-q", "d.npz", "--no-bias", "-o", "m.h5").code == 0
    assert load(str(tmp_path / "m.h5")).value.settings.scaling == "online"


@pytest.mark.parametrize("seed", range(5))
def test_few_rows_are_passed_over_until_held_out_error_stops_falling(herd, tmp_path, seed):
    """Three classes in a row, of 150 rows: no class is apart from the rest, which one pass of diagonal forms does not learn."""
    random = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2], 50)
    X = random.normal(size=(150, 4)) * [0.3, 0.3, 0.4, 0.2] + np.outer(y, [0.6, -0.3, 1.7, 0.9])
    np.savez(tmp_path / "d.npz", X=X, y=y)
    ended = herd("nherd-train", "d.npz", "--seed", seed, "-o", "m.h5")
    assert "rows in memory: " in ended.err
    assert "held-out error" in ended.err
    assert error(herd, "m.h5") <= 0.1
    model = load(str(tmp_path / "m.h5")).value
    assert model.settings.shuffle
    assert model.running.examples == 90 * model.settings.passes


def test_the_majority_of_bits_is_learned_without_mistakes(herd, tmp_path):
    X = np.random.default_rng(7).integers(0, 2, (3000, 20)).astype(float)
    np.savez(tmp_path / "d.npz", X=X, y=(X[:, :7].sum(1) > 3).astype(int))
    assert herd("nherd-train", "-q", "d.npz", "-o", "m.h5").code == 0
    assert error(herd, "m.h5") == 0


@pytest.mark.parametrize("option", [("--passes", "1"), ("--in-order",), ("--C", "1"), ("--algorithm", "pa2"), ("--coverage", ".9")])
def test_whoever_asks_for_another_way_gets_one_pass(herd, tmp_path, option):
    np.savez(tmp_path / "d.npz", X=rows(0.0, 300)[0], y=rows(0.0, 300)[1])
    ended = herd("nherd-train", "d.npz", *option, "-o", "m.h5")
    assert "rows in memory" not in ended.err
    model = load(str(tmp_path / "m.h5")).value
    assert (model.settings.passes, model.settings.dual, model.running.examples) == (1, False, 180)


def test_a_run_that_is_resumed_ends_in_the_same_bytes(herd, tmp_path):
    """In passes over rows in memory, which keep a multiplier for each row."""
    X, y = rows(50.0, 600)
    np.savez(tmp_path / "d.npz", X=X, y=y)
    assert herd("nherd-train", "-q", "d.npz", "-o", "a.h5").code == 0
    assert herd("nherd-train", "-q", "d.npz", "-o", "/dev/full", "--checkpoint", "c.h5").code == 74
    assert herd("nherd-train", "-q", "d.npz", "-o", "b.h5", "--checkpoint", "c.h5", "--resume").code == 0
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_learning_goes_on_from_a_model_of_rows_in_memory(herd, tmp_path):
    X, y = rows(1000.0)
    np.savez(tmp_path / "d.npz", X=X[:800], y=y[:800])
    np.savez(tmp_path / "e.npz", X=X[800:], y=y[800:])
    assert herd("nherd-train", "-q", "d.npz", "-o", "a.h5").code == 0
    assert herd("nherd-train", "-q", "--continue", "a.h5", "e.npz", "-o", "b.h5").code == 0
    assert not load(str(tmp_path / "b.h5")).value.settings.dual
    assert error(herd, "b.h5") < 0.15


def test_a_stream_of_few_columns_gets_a_full_covariance_where_that_is_better(herd, tmp_path):
    """The majority of seven of twenty bits, one pass: a diagonal covariance forgets what it knew, a full one makes no mistake."""
    X = np.random.default_rng(7).integers(0, 2, (2600, 20)).astype(float)
    y = (X[:, :7].sum(1) > 3).astype(int)
    sparse = svmlight(X, y).splitlines(keepends=True)
    sparse = [b" ".join(pair for pair in line.split() if not pair.endswith(b":0.0")) + b"\n" for line in sparse]
    (tmp_path / "test.svm").write_bytes(b"".join(sparse[1800:]))
    text, found = b"".join(sparse[:1800]), []
    for options in ((), ("--covariance", "diagonal")):
        done = herd("nherd-train", *options, "-o", "m.h5", stdin=text)
        assert ("arow with a full covariance is used" in done.err) == (not options)
        found.append(error(herd, "m.h5", "--data", "test.svm"))
    assert found[0] <= 0.005
    assert found[1] > 0.05


def test_a_full_covariance_is_not_taken_where_it_is_no_better(herd):
    X, y = rows(0.0)
    done = herd("nherd-train", "-o", "m.h5", stdin=svmlight(X, y))
    assert "full covariance" not in done.err
