"""`herd eval` of filters: known mixings, other rows, pictures, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from herdcli import artifacts
from herdcli.cli.main import main
from herdcli.ica import whitening
from herdcli.ica.model import ICA, ICATrace

S = np.random.default_rng(0).laplace(size=(300, 3))
A = np.array([[1.0, 0.5, 0.1], [0.2, 1.0, 0.3], [0.4, 0.1, 1.0]])
X = S @ A.T


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """model.h5, a perfect unmixing of x.npz, sources s.npz, the mixing a.npz, all where the test runs."""
    monkeypatch.chdir(tmp_path)
    fitted = whitening.fit_whitening(X)
    J = np.linalg.inv(fitted.forward @ A)
    settings = {"algorithm": "infomax", "experts": ["logistic"] * 3, "objective": "entropy", "rows": 300, "iterations": 1, "seed": 0}
    trace = ICATrace(np.arange(1), np.zeros(1))
    value = ICA(J=J, gamma=np.ones(3), power=np.ones(3), kurtosis=np.ones(3), whitening=fitted, trace=trace, **settings)
    artifacts.save("model.h5", value, [])
    split = np.repeat([0, 2], [250, 50])
    for name, rows in {
        "x": {"X": X},
        "s": {"X": S},
        "a": {"X": A},
        "split": {"X": X, "split": split},
        "early": {"X": X, "split": 0 * split},
    }.items():
        np.savez(f"{name}.npz", **rows)
    np.savez("short.npz", X=S[:9])
    np.savez("wide.npz", X=np.ones((4, 4)))
    return tmp_path


def ended(capsys, *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as exit_of:
        main(["eval", *arguments])
    streams = capsys.readouterr()
    return exit_of.value.code or 0, streams.out, streams.err


@pytest.mark.parametrize("known", [["--mixing", "a.npz"], ["--data", "x.npz", "--true-sources", "s.npz"]])
def test_a_perfect_unmixing_is_told_by_mixing_and_by_sources(folder, capsys, known):
    code, out, _ = ended(capsys, "model.h5", *known, "--format", "json", "--require", "amari<1e-6", "--require", "sir_least>100")
    assert code == 0
    assert json.loads(out)[0]["amari_squared"] == pytest.approx(0, abs=1e-9)


def test_held_out_rows_are_those_of_split_2(folder, capsys):
    every, held, nothing = (
        json.loads(ended(capsys, "model.h5", *data, "--format", "json")[1])[0]
        for data in (["--data", "x.npz"], ["--data", "split.npz"], [])
    )
    assert nothing["score_matching"] is None
    assert every["score_matching"] != held["score_matching"]


def test_pictures_are_written(folder, capsys):
    pytest.importorskip("matplotlib")
    code, _, _ = ended(capsys, "model.h5", "--plot", "filters", "filters.png")
    assert code == 0
    assert (folder / "filters.png").read_bytes()[:4] == b"\x89PNG"


HINT = "hint: herd eval MODEL --data MIXTURES --true-sources SOURCES\n"


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--true-sources", "s.npz"], 2, f"--true-sources needs the mixtures that were made from them\n{HINT}"),
        (
            ["--true-sources", "s.npz", "--mixing", "a.npz"],
            2,
            f"--true-sources and --mixing exclude each other: both define the mixing\n{HINT}",
        ),
        (["--data", "wide.npz"], 65, "wide.npz: /X has 4 columns, but the whitening was fitted to 3\n"),
        (["--data", "early.npz"], 65, "early.npz: has no test rows to evaluate on\n"),
        (["--data", "x.npz", "--true-sources", "short.npz"], 65, "x.npz: the sources have 9 rows, but the mixtures have 300\n"),
        (
            ["--mixing", "wide.npz"],
            65,
            "wide.npz: /X has 4 rows, the model's rows have 3 columns\nhint: the mixing A of x = A s has a row for each column of x\n",
        ),
        (
            ["--plot", "trace", "t.png"],
            2,
            "there is no plot 'trace' for artifacts of kind 'ica'\nhint: plots of ica: filters, spectra, gabors, tiling\n",
        ),
        (
            ["--plot", "gabors", "t.png"],
            65,
            "model.h5: has no image_shape, so its filters are not images and Gabor functions cannot be fitted\n",
        ),
    ],
)
def test_what_cannot_be_judged_is_refused(folder, capsys, options, code, message):
    if "--plot" in options:
        pytest.importorskip("matplotlib")
    assert ended(capsys, "model.h5", *options) == (code, "", f"herd eval: {message}")
    assert not (folder / "t.png").exists()


def test_filters_whose_outputs_look_gaussian_are_no_ok(herd, tmp_path):
    random = np.random.default_rng(1)
    np.savez(tmp_path / "noise.npz", X=random.normal(size=(1000, 3)))
    np.savez(tmp_path / "speech.npz", X=random.laplace(size=(1000, 3)) @ A.T)
    for name, verdict in (("noise", "worse than whitening; gaussian outputs"), ("speech", "ok")):
        made = herd("ica", f"{name}.npz", "-o", "m.h5")
        assert made.err.count("their rotation is not identifiable") == (name == "noise")
        head, row = (line.split("\t") for line in herd("eval", "m.h5").out.decode().splitlines())
        assert dict(zip(head, row, strict=True))["verdict"] == verdict


@pytest.mark.parametrize("more", [(), ("--one-pass", "--density", "auto"), ("--whiten", "pca")])
def test_sources_in_columns_of_unlike_units_are_found(herd, tmp_path, more):
    """Four Laplace sources; two columns are a million times as small, and as many sources are found."""
    random = np.random.default_rng(0)
    S = random.laplace(size=(2000, 4))
    X = S @ random.normal(size=(4, 4)) * [1.0, 1.0, 1e-6, 1e-6]
    np.savetxt(tmp_path / "unlike.csv", X, delimiter=",", header="a,b,c,d", comments="", fmt="%.17g")
    ended = herd("ica", "unlike.csv", *more, "-o", "m.h5")
    assert ended.code == 0, ended.err
    assert "ica: the columns have very different variances, so each is divided by its standard deviation before whitening\n" in ended.err
    assert "dropped" not in ended.err
    assert herd("apply", "m.h5", "unlike.csv", "-o", "out.csv").code == 0
    found = np.loadtxt(tmp_path / "out.csv", delimiter=",", skiprows=1)[:, :4]
    apart = np.abs(np.corrcoef(S.T, found.T)[:4, 4:])
    assert apart.max(axis=1).min() > 0.99
