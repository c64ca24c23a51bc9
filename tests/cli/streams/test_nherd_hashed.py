"""Models of hashed text: files have the columns alone that were met, and whoever reads them has them all."""

from __future__ import annotations

from dataclasses import replace

import h5py
import numpy as np
import pytest

from herdcli.artifacts import load, save

LABELS, WORDS = 4, 60


def lines(count: int, first: int = 0) -> bytes:
    """Posts of a few words each, one of which gives the label away."""
    random = np.random.default_rng(6)
    made = []
    for _ in range(first + count):
        label = int(random.integers(LABELS))
        words = {f"own{label}_{random.integers(3)}:1", *(f"w{k}:{random.integers(1, 4)}" for k in random.integers(0, WORDS, 8))}
        made.append(f"{label + 1} | {' '.join(sorted(words))}\n")
    return "".join(made[first:]).encode()


@pytest.fixture
def text(tmp_path):
    (tmp_path / "train.vw").write_bytes(lines(300))
    (tmp_path / "test.vw").write_bytes(lines(100, first=300))
    return tmp_path


@pytest.mark.parametrize(
    "options", [(), ("--no-bias",), ("--scale", "none"), ("--scale", "online"), ("--algorithm", "pa1"), ("--algorithm", "arow", "--C", "1")]
)
def test_files_have_the_columns_that_were_met_and_readers_have_all(herd, text, options):
    assert herd("nherd-train", "-q", "train.vw", *options, "-o", "m.h5").code == 0
    assert (text / "m.h5").stat().st_size < 200_000  # 2^18 columns of four classes are 16.8 MB
    model = load(str(text / "m.h5")).value
    columns = (1 << 18) + ("--no-bias" not in options)
    assert model.column is None
    assert model.mean.shape == model.variance.shape == (LABELS, columns)
    met = (model.mean != 0).any(axis=0) | (model.variance != 1).any(axis=0)
    assert 60 < met.sum() <= WORDS + 3 * LABELS + 1
    with h5py.File(text / "m.h5") as file:
        column, mean = file["column"][:], file["mean"][:]
    assert np.isin(np.flatnonzero(met), column).all()
    assert np.array_equal(model.mean[:, column], mean)
    assert herd("eval", "-q", "m.h5", "--data", "test.vw", "--require", "error<0.1").code == 0


def test_a_stream_goes_on_from_such_a_file_with_the_bits_of_the_whole_one(herd, text):
    named = ("--algorithm", "arow", "--C", ".2", "--multiclass", "one-vs-rest", "--half-life", "none")
    assert herd("nherd-train", "-q", *named, "-o", "a.h5", stdin=lines(180)).code == 0
    assert herd("nherd-train", "-q", "--continue", "a.h5", "-o", "b.h5", stdin=lines(120, first=180)).code == 0
    assert herd("nherd-train", "-q", *named, "train.vw", "-o", "m.h5").code == 0
    ours, theirs = (load(str(text / name)).value for name in ("b.h5", "m.h5"))
    for name in ("mean", "variance", "seen", "size", "location", "deviation", "centred"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name
    with h5py.File(text / "b.h5") as one, h5py.File(text / "m.h5") as other:
        assert np.array_equal(one["column"][:], other["column"][:])


def test_tables_that_are_mostly_met_are_stored_whole(herd, text):
    assert herd("nherd-train", "-q", "train.vw", "--bits", "6", "-o", "m.h5").code == 0
    with h5py.File(text / "m.h5") as file:
        assert "column" not in file
        assert file["mean"].shape == (LABELS, 65)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: {"column": m.column[::-1].copy()}, "dataset 'column' must be increasing numbers below 262145"),
        (lambda m: {"column": m.column + (1 << 18)}, "dataset 'column' must be increasing numbers below 262145"),
        (lambda m: {"column": m.column - 1}, "dataset 'column' must be increasing numbers below 262145"),
        (lambda m: {"column": m.column[1:]}, "dataset 'column' has"),
        (lambda m: {"bits": 0, "hash_index": None}, "has the dataset 'column', but only hashed features with variances need it"),
        (lambda m: {"bits": 30, "classes": [str(k) for k in range(100)], "mean": np.zeros((100, m.mean.shape[1])),
                    "variance": np.ones((100, m.mean.shape[1])), "holdout": None, "baselines": None},
         "needs 1."),
    ],
)  # fmt: skip
def test_crafted_columns_are_refused(herd, text, monkeypatch, change, message):
    assert herd("nherd-train", "-q", "train.vw", "-o", "m.h5").code == 0
    model = load(str(text / "m.h5")).value.condense()
    with monkeypatch.context() as patched:
        patched.setattr("herdcli.artifacts.sealed.sealed_hdf5.check_arrays", lambda value, **more: None)
        patched.setattr(type(model), "condense", lambda self: self)
        save(str(text / "bad.h5"), replace(model, **change(model)), [])
    for line in (("check", "bad.h5"), ("eval", "bad.h5"), ("apply", "bad.h5", "test.vw", "-o", "p.csv")):
        ended = herd(*line)
        assert ended.code == 65, line
        assert ended.err.startswith(f"herd {line[0]}: bad.h5: {message}"), ended.err


@pytest.fixture
def bits(tmp_path):
    """The majority of seven of nine bits: a full covariance wins, and one of 2^18 hashed columns would take 550 GB."""
    X = np.random.default_rng(0).integers(0, 2, (1200, 9))
    made = [f"{1 if x[:7].sum() > 3 else -1} | {' '.join(f'f{k}' for k in np.flatnonzero(x))}\n" for x in X]
    (tmp_path / "bits.vw").write_text("".join(made[:800]))
    (tmp_path / "test.vw").write_text("".join(made[800:]))
    return tmp_path


def test_few_hashed_features_are_learned_by_first_order_where_a_full_covariance_does_not_fit(herd, bits):
    ended = herd("nherd-train", "bits.vw", "-o", "m.h5")
    assert ended.code == 0, ended.err
    settings = load(str(bits / "m.h5")).value.settings
    assert (settings.covariance, settings.algorithm in {"pa1", "perceptron"}, settings.half_life) == ("diagonal", True, 0)
    assert f"nherd-train: {settings.algorithm}" in ended.err
    assert "is used: in the second half of the first examples, its error is" in ended.err
    assert herd("eval", "-q", "m.h5", "--data", "test.vw", "--require", "error<=0.01").code == 0
    assert herd("check", "--rerun", "m.h5", "--input", "bits.vw").code == 0


@pytest.mark.parametrize("options", [("--algorithm", "arow"), ("--covariance", "diagonal"), ("--half-life", "200"), ("--loss", "log")])
def test_options_that_ask_for_a_form_leave_first_order_out(herd, bits, options):
    assert herd("nherd-train", "-q", "bits.vw", *options, "-o", "m.h5").code == 0
    assert load(str(bits / "m.h5")).value.settings.algorithm in {"nherd", "arow"}
