"""`herd nherd-train --half-life`: streams that drift, how evidence fades, and where nothing is forgotten."""

from __future__ import annotations

import json

import numpy as np
import pytest

from herdcli.artifacts import load
from herdcli.online.block_sources import MemorySource
from herdcli.online.learner import OnlineLearner
from herdcli.online.learners import forgetting
from herdcli.online.model import Settings


def turning(count: int = 5000, turn: bool = True):
    """Rows of ten columns whose weights turn over; labels −1 and 1."""
    random = np.random.default_rng(4)
    X, first, last = random.normal(size=(count, 10)), random.normal(size=10), random.normal(size=10)
    t = np.linspace(0, 1, count)[:, None] if turn else np.zeros((count, 1))
    return X, ((X * (first * (1 - t) - last * t)).sum(1) > 0).astype(int)


def svmlight(X, y) -> bytes:
    rows = zip(y.tolist(), X.tolist(), strict=True)
    return "".join(f"{2 * label - 1} " + " ".join(f"{k + 1}:{x:.5f}" for k, x in enumerate(row)) + "\n" for label, row in rows).encode()


def error(herd, *data: str) -> float:
    judged = herd("eval", "m.h5", *data, "--format", "json")
    assert judged.code == 0, judged.err
    return float(json.loads(judged.out)[0]["error"])


@pytest.mark.parametrize("form", ["text", "rows"])
def test_a_stream_that_drifts_is_learned_with_fading_evidence(herd, tmp_path, form):
    X, y = turning()
    (tmp_path / "test.svm").write_bytes(svmlight(X[4000:], y[4000:]))
    (tmp_path / "d.svm").write_bytes(svmlight(X[:4000], y[:4000]))
    np.savez(tmp_path / "d.npz", X=X, y=y, split=np.repeat([0, 2], [4000, 1000]).astype(np.uint8))
    found = []
    for option in ((), ("--half-life", "none")):
        done = herd("nherd-train", "d.svm" if form == "text" else "d.npz", *option, "-o", "m.h5")
        assert ("the stream drifts: with --half-life" in done.err) == (not option)
        found.append(error(herd, *(("--data", "test.svm") if form == "text" else ())))
        model = load(str(tmp_path / "m.h5")).value
        assert (model.settings.half_life > 0) == (model.forgetting is not None) == (not option)
    assert found[0] < 0.5 * found[1]
    assert herd("nherd-train", "-q", "d.svm", "-o", "m.h5").code == 0
    drawn = herd("eval", "m.h5", "--plot", "trace", "t.svg")
    assert drawn.code == 0, drawn.err
    assert "nothing is forgotten" in (tmp_path / "t.svg").read_text()


def test_a_stream_that_stays_is_not_forgotten(herd, tmp_path):
    X, y = turning(turn=False)
    done = herd("nherd-train", "-o", "m.h5", stdin=svmlight(X, y))
    assert "drifts" not in done.err
    model = load(str(tmp_path / "m.h5")).value
    assert (model.settings.half_life, model.forgetting) == (0.0, None)
    assert herd("eval", "m.h5", "--plot", "trace", "t.svg").code == 0


@pytest.mark.parametrize("options", [(), ("--covariance", "full"), ("--task", "regression"), ("--algorithm", "arow", "--passes", "2")])
def test_what_is_forgotten_after_longer_than_the_stream_changes_nothing(herd, tmp_path, options):
    X, y = turning(700)
    for name, half_life in (("a.h5", "none"), ("b.h5", "1e15")):
        assert herd("nherd-train", "-q", "--C", "0.3", *options, "--half-life", half_life, "-o", name, stdin=svmlight(X, y)).code == 0
    one, other = (load(str(tmp_path / name)).value for name in ("a.h5", "b.h5"))
    for name in ("mean", "variance", "covariance", "seen", "location"):
        ours, theirs = getattr(one, name), getattr(other, name)
        assert (ours is None and theirs is None) or ours.tobytes() == theirs.tobytes()


def test_evidence_fades_to_half_in_a_half_life():
    """Of the diagonal and of the full covariance, 1/s − 1 and Σ⁻¹ − I; the mean stays."""
    for covariance in ("diagonal", "full"):
        settings = Settings(algorithm="arow", C=1.0, half_life=640.0, covariance=covariance)
        X, y = turning(9)
        learner = OnlineLearner(settings, MemorySource(X, y), 2, 11)
        state = learner.step(learner.init())
        mean = state.mean.copy() if covariance == "full" else state.table[:, 0].copy()

        def evidence(state=state):
            if state.table is not None:
                return 1.0 / state.table[:, 1] - 1.0
            return np.linalg.inv(forgetting.complete_both_triangles(state.sigma)) - np.eye(11)

        before = evidence()
        for _ in range(64):
            forgetting.fade_evidence(state, forgetting.fading_interval(640.0) / 640.0)
        assert evidence() == pytest.approx(before / 2, abs=1e-12)
        assert np.array_equal(mean, state.mean if covariance == "full" else state.table[:, 0])


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_blocks_do_not_change_what_is_forgotten(covariance):
    X, y = turning(500)
    weight = np.where(np.arange(500) % 7 == 3, 0.0, 1.0)
    settings, found = Settings(C=0.2, half_life=200.0, covariance=covariance, bias=True, scaling="standard"), []
    for rows in (500, 250, 131):
        learner = OnlineLearner(settings, MemorySource(X, y, weight=weight, rows=rows), 2, 11)
        state = learner.init()
        while not learner.done(state):
            state = learner.step(state)
        found.append(learner.result(state).mean.tobytes())
    assert len(set(found)) == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--algorithm", "pa"), "--half-life needs variances that can grow again, but --algorithm pa has none"),
        (("--kernel", "linear"), "--half-life needs variances that can grow again, but --kernel linear has none"),
    ],
)
def test_what_keeps_no_evidence_cannot_forget_it(herd, tmp_path, options, says):
    refused = herd("nherd-train", "--half-life", "100", *options, "-o", "m.h5", stdin=svmlight(*turning(20)))
    assert (refused.code, refused.err.splitlines()) == (
        2,
        [f"herd nherd-train: {says}", "hint: use --algorithm nherd or arow, without --kernel"],
    )
    wrong = herd("nherd-train", "--half-life", "0.5", "-o", "m.h5", stdin=svmlight(*turning(20)))
    assert (wrong.code, "0.5 is not 1 or more" in wrong.err) == (2, True)
