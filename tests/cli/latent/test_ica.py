"""`herd ica`: what it writes, what it refuses and in which words, and that reruns, threads and resuming end at the same bytes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import h5py
import numpy as np
import pytest
from scipy.signal import lfilter

from herdcli.artifacts import load
from herdcli.errors import Interrupted
from herdcli.ica import stochastic_learning
from herdcli.ica.filters.amari_distance import amari_distance

RANDOM = np.random.default_rng(0)
NO_CLASSES = "--want classes needs a model of classes, but an ica model has none"
SOURCES = RANDOM.laplace(size=(1200, 4))
MIXING = RANDOM.standard_normal((4, 4))


def write(path: Path, X: np.ndarray, **others: np.ndarray) -> None:
    with h5py.File(path, "w") as file:
        file["X"] = X
        for name, item in others.items():
            file[name] = item


@pytest.fixture
def data(tmp_path: Path) -> None:
    """sources.h5, mixed.h5 and mixing.h5: four Laplacian sources, what was mixed of them, and how."""
    write(tmp_path / "sources.h5", SOURCES)
    write(tmp_path / "short.h5", SOURCES[:60] @ MIXING.T)
    write(tmp_path / "mixed.h5", SOURCES @ MIXING.T, split=np.repeat([0, 2], [1000, 200]).astype(np.uint8))
    write(tmp_path / "mixing.h5", MIXING)


SHORT = ("--rate-schedule", "0.02x20,0.005x10", "--leapfrog", 3, "--batch-size", 50)
ALL = [
    ("ml",),
    ("infomax", "--rate-schedule", "0.02x30"),
    ("infomax", "--rate-schedule", "0.02x10", "--filters", 6, "--density", "laplace"),
    ("ebm", *SHORT, "--filters", 6, "--gamma-rate", 0.1),
    ("ebm", *SHORT, "--topography", "2x3", "--neighbourhood", 1),
    ("ebm", *SHORT, "--expert", "infomax", "--filters", 5),
    ("equil", "--rate-schedule", "0.02x30"),
    ("sparse-coding", "--filters", 6, "--rate-schedule", "0.1x5"),
    ("sparse-coding", "--filters", 5, "--rate-schedule", "0.1x2", "--batch-size", 10, "--noise", 0),
    ("sparse-coding", "--filters", 5, "--rate-schedule", "0.1x2", "--expert", "student", "--posterior", "variational"),
    ("sparse-coding", "--filters", 5, "--posterior", "gaussian", "--noise", 0.5, "--iterations", 3),
    ("sparse-coding", "--posterior", "gaussian", "--noise", 0.5, "--iterations", 2, "--e-step", "book"),
]


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize("line", ALL, ids=lambda line: "-".join(map(str, line[:1] + line[-2:])))
def test_every_algorithm_makes_a_model_that_applies_and_evaluates(run, line):
    made = run("ica", "mixed.h5", "--algorithm", *line, "-o", "a.h5")
    assert made.code == 0, made.err
    value = load("a.h5").value
    assert value.rows == 1000
    assert value.holdout.shape == (200, 4)
    assert (np.diff(value.power) <= 0).all() or value.topography is not None
    assert run("apply", "a.h5", "short.h5", "-o", "u.h5").code == 0
    assert load("u.h5").value.X.shape == (60, len(value.J))
    assert run("apply", "a.h5", "u.h5", "--want", "rows", "-o", "x.h5").code == 0
    restored, rows = load("x.h5").value.X, SOURCES[:60] @ MIXING.T
    if value.dictionary is None:
        np.testing.assert_allclose(restored, rows, atol=1e-9)
    else:
        assert np.corrcoef(restored.ravel(), rows.ravel())[0, 1] > 0.9
    assert run("apply", "a.h5", "short.h5", "--want", "energies", "-o", "e.h5").code == 0
    assert load("e.h5").value.X.shape == (60, 1)
    told = run("eval", "a.h5", "--format", "json")
    assert told.code == 0, told.err
    assert json.loads(told.out)[0]["filters"] == len(value.J)


@pytest.mark.usefixtures("data")
def test_sources_are_found_and_the_distance_to_a_known_mixing_is_traced(run):
    assert run("ica", "mixed.h5", "--mixing", "mixing.h5", "-o", "a.h5").code == 0
    assert run("ica", "sources.h5", "--mix", "random", "--algorithm", "infomax", "--average", 200, "-o", "b.h5").code == 0
    assert run("ica", "sources.h5", "--mix", "instamix:0.5", "--algorithm", "ebm", *SHORT, "-o", "c.h5").code == 0
    known = load("a.h5").value
    assert amari_distance(known.unmixing_matrix @ MIXING) < 1
    mixed = load("b.h5").value
    assert amari_distance(mixed.unmixing_matrix @ mixed.mixing) < 1
    assert mixed.trace.amari[-1] < 2 < mixed.trace.amari[0]
    c = load("c.h5").value
    assert c.mixing[0].tolist() == pytest.approx([1, 1 / 9, 1 / 9, 1 / 9])
    assert c.trace.iteration[-1] == 30
    assert len(c.trace.acceptance) == len(c.trace.step_size) == len(c.trace.amari) == len(c.trace.objective)
    figures = json.loads(run("eval", "a.h5", "--format", "json").out)[0]
    assert figures["amari"] == pytest.approx(amari_distance(known.unmixing_matrix @ MIXING))


@pytest.mark.usefixtures("data")
def test_preprocessing_is_kept_and_undone(run, tmp_path):
    intensities = np.round(np.exp(SOURCES @ MIXING.T / 4) * 10)
    write(tmp_path / "counts.h5", intensities)
    assert run("ica", "counts.h5", "--log", "--whiten", "pca", "-o", "a.h5").code == 0
    model = load("a.h5").value
    np.testing.assert_allclose(model.reconstruct_rows(model.features(intensities)), intensities, rtol=1e-8, atol=1e-8)
    assert run("ica", "counts.h5", "--components", 2, "-o", "b.h5").code == 0
    assert load("b.h5").value.J.shape == (2, 2)


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize(
    "line",
    [
        ("ebm", *SHORT, "--filters", 90),
        ("sparse-coding", "--rate-schedule", "0.1x3", "--filters", 6),
        ("sparse-coding", "--posterior", "gaussian", "--noise", 0.5, "--iterations", 2),
    ],
    ids=["ebm", "sparse-coding", "gaussian"],
)
def test_threads_and_reruns_leave_the_bytes_alone(run, tmp_path, line):
    write(tmp_path / "wide.h5", RANDOM.laplace(size=(300, 50)) if line[0] == "ebm" else SOURCES)
    files = []
    for name, threads in (("a", 1), ("b", 2), ("c", 1)):
        assert run("ica", "wide.h5", "--algorithm", *line, "-j", threads, "-o", f"{name}.h5").code == 0
        files.append(Path(f"{name}.h5").read_bytes())
    assert files[0] == files[1] == files[2]


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize(
    "line",
    [
        ("ebm", *SHORT),
        ("infomax", "--rate-schedule", "0.02x30"),
        ("ml",),
        ("sparse-coding", "--rate-schedule", "0.1x30"),
        ("sparse-coding", "--posterior", "gaussian", "--noise", 0.5, "--iterations", 30),
    ],
)
def test_an_interrupted_run_goes_on_to_the_same_bytes(run, monkeypatch, line):
    import herdcli.cli.frame.run.session as session

    assert run("ica", "mixed.h5", "--algorithm", *line, "-o", "plain.h5").code == 0
    real = session.iterate.run_steps

    def interrupted(step, state, **options):
        count = 0

        def once(now):
            nonlocal count
            count += 1
            now = step(now)
            if count == 5:
                options["checkpoint"](now)
                raise Interrupted(15, step=now.step)
            return now

        return real(once, state, **options)

    monkeypatch.setattr(session.iterate, "run_steps", interrupted)
    ended = run("ica", "mixed.h5", "--algorithm", *line, "--checkpoint", "c", "-o", "resumed.h5")
    assert (ended.code, ended.err) == (75, "herd ica: interrupted after step 4\nhint: the checkpoint is saved: continue with --resume\n")
    monkeypatch.setattr(session.iterate, "run_steps", real)
    assert run("ica", "mixed.h5", "--algorithm", *line, "--checkpoint", "c", "--resume", "-o", "resumed.h5").code == 0
    assert Path("plain.h5").read_bytes() == Path("resumed.h5").read_bytes()
    assert not Path("c").exists()


@pytest.mark.usefixtures("data")
def test_the_name_of_the_mixing_is_no_part_of_the_result(run):
    """The record says `file`: where a mixing lies varies between machines, and its content is among the inputs."""
    Path("other.h5").write_bytes(Path("mixing.h5").read_bytes())
    for name in ("mixing", "other"):
        assert run("ica", "mixed.h5", "--mixing", f"{name}.h5", "-o", f"by-{name}.h5").code == 0
    assert load("by-mixing.h5").history[-1]["parameters"]["mixing"] == "file"
    assert Path("by-mixing.h5").read_bytes() == Path("by-other.h5").read_bytes()


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize("algorithm", ["ml", "sobi", "ebm", "sparse-coding"])
def test_what_a_run_would_take_is_refused_before_it_starts(run, algorithm, monkeypatch):
    from herdcli.ica import maximum_likelihood, sobi, sparse_coding, stochastic_learning

    kinds = {
        "ml": maximum_likelihood.MaximumLikelihood,
        "sobi": sobi.JointDiagonalisation,
        "ebm": stochastic_learning.StochasticGradient,
        "sparse-coding": sparse_coding.DictionaryLearning,
    }
    monkeypatch.setattr(kinds[algorithm], "memory", lambda self: 3_000_000_000)
    ended = run("ica", "mixed.h5", "--algorithm", algorithm, "--max-memory", "2G", "-o", "a.h5")
    assert ended.code == 65
    assert "would take 3 GB, more than the 2 GB allowed" in ended.err


def test_libraries_that_are_not_installed_are_replaced_and_told(run, data, monkeypatch):
    from herdcli.ica import external_libraries

    monkeypatch.setattr(external_libraries, "is_library_installed", lambda name: False)
    for name in ("fastica", "picard"):
        ended = run("ica", "mixed.h5", "--algorithm", name, "-o", f"{name}.h5")
        assert ended.code == 0
        assert f"ica: {name} is not installed: herd's own maximum likelihood is used instead (pip install 'herdcli[ica]')\n" in ended.err
    assert np.array_equal(load("picard.h5").value.J, load("fastica.h5").value.J)


def test_fastica_of_scikit_learn(run, data):
    pytest.importorskip("sklearn", reason="the extra ica is not installed")
    assert run("ica", "mixed.h5", "--algorithm", "fastica", "-o", "a.h5").code == 0
    assert amari_distance(load("a.h5").value.unmixing_matrix @ MIXING) < 1
    refused = run("ica", "mixed.h5", "--algorithm", "fastica", "--whiten", "centre")
    assert (refused.code, refused.err) == (2, "herd ica: fastica needs whitened rows\nhint: use --whiten zca or pca\n")


# What is refused, and in which words.

MORE = "\nhint: use --components 2, or more rows\n"
EBM = ("mixed.h5", "--algorithm", "ebm")
BAD = [
    (("few.h5", "--split", "1,0,0"), 65, f"few.h5: /X has only 4 training rows, too few for 4 columns{MORE}"),
    (("few.h5", "--components", 4, "--split", "1,0,0"), 65, f"few.h5: /X has only 4 training rows, too few for 4 components{MORE}"),
    (
        ("nan.h5",),
        65,
        "nan.h5: /X has 1 NaN row (first: row 3)\nhint: --missing drop leaves such rows out, --missing mean fills in the column's mean\n",
    ),
    (
        ("flat.h5", "--whiten", "centre"),
        65,
        "flat.h5: rows vary only in 3 of 5 directions, but --whiten centre needs all\nhint: use --whiten pca, which drops the others\n",
    ),
    (
        ("mixed.h5", "--filters", 6),
        2,
        "ml needs as many filters as dimensions (4), not 6\nhint: use --algorithm ebm, infomax or sparse-coding\n",
    ),
    (
        ("mixed.h5", "--algorithm", "equil", "--filters", 6),
        2,
        "--algorithm equil needs as many filters as dimensions, but there are 6 filters for 4 dimensions\nhint: use --algorithm ebm\n",
    ),
    (
        (*EBM, "--filters", 3),
        2,
        "3 filters are fewer than the 4 dimensions of the whitened rows\nhint: keep fewer dimensions: --components N\n",
    ),
    ((*EBM, "--gamma", 0.4), 2, "gamma 0.4 is not above ½: the Student density has no finite integral\n"),
    (
        (*EBM, "--topography", "2x2", "--expert", "logistic"),
        2,
        "a topographic map needs the algorithm ebm, the expert student, and as many cells as filters\n",
    ),
    (
        (*EBM, "--topography", "2x2"),
        2,
        "a neighbourhood of 3 does not fit a grid of 2×2: its side must be odd and at most 2\n",
    ),
    (("mixed.h5", "--density", "student", "--gamma", 0.5), 2, "gamma 0.5 is not above ½: the Student density has no finite integral\n"),
    (("mixed.h5", "--algorithm", "sobi", "--lags", 1000), 2, "1000 lags are too many for 1000 rows\nhint: use --lags 250\n"),
    (("mixed.h5", "--algorithm", "sobi", "--whiten", "centre"), 2, "sobi needs whitened rows\nhint: use --whiten zca or pca\n"),
    (
        ("mixed.h5", "--whiten", "zca", "--components", "90%"),
        2,
        "--whiten zca keeps all 4 components, so it cannot keep a share of the variance\nhint: use --whiten pca\n",
    ),
    (("mixed.h5", "--whiten", "fa"), 2, "--whiten fa needs a number of components\nhint: use --components N\n"),
    (("mixed.h5", "--whiten", "fa", "--components", 2), 2, "4 columns determine at most 1 factors, not 2\nhint: use --components 1\n"),
    (("mixed.h5", "--components", 9), 2, "cannot keep 9 components of 4 columns\nhint: use --components from 1 to 4\n"),
    (
        ("mixed.h5", "--mix", "random", "--mixing", "mixing.h5"),
        2,
        "--mix creates a mixing matrix, --mixing names an existing one\nhint: leave one of them out\n",
    ),
    (("mixed.h5", "--mixing", "sources.h5"), 65, "sources.h5: the mixing matrix A has 1200 rows, but /X has 4 columns (x = A s)\n"),
    (
        ("mixed.h5", "--density", "laplace"),
        2,
        "density 'laplace' does not work with maximum likelihood\n"
        "hint: use one of auto, logistic, student, laplace-smooth, bimodal, or infomax\n",
    ),
    (
        ("mixed.h5", "--log"),
        65,
        "mixed.h5: /X has negative values, first in row 0, but log(1 + x) needs values of 0 or more\n",
    ),
    (
        ("mixed.h5", "--iterations", 1, "--on-nonconvergence", "error"),
        1,
        "not converged after 1 iteration: the largest entry of the gradient is 0.24\nhint: raise --iterations\n",
    ),
    (
        ("mixed.h5", "--algorithm", "infomax", "--rate-schedule", "1e200x30"),
        1,
        "filters left the finite range at update 18, at 1/256 of the rate\nhint: use lower rates in --rate-schedule, or a larger "
        "--batch-size\n",
    ),
    (
        ("mixed.h5", "--algorithm", "sparse-coding", "--noise", 0, "--posterior", "laplace"),
        2,
        "without noise there is no laplace posterior\nhint: use --posterior map, or --noise above 0\n",
    ),
    (
        ("mixed.h5", "--algorithm", "sparse-coding", "--noise", 0, "--posterior", "gaussian"),
        2,
        "without noise there is no gaussian posterior\nhint: use --posterior map, or --noise above 0\n",
    ),
    (
        ("mixed.h5", "--algorithm", "sparse-coding", "--expert", "student", "--posterior", "gaussian"),
        2,
        "--posterior gaussian works only with --expert laplace, not student\nhint: use --posterior variational\n",
    ),
]


@pytest.mark.usefixtures("data")
def test_the_free_energy_of_the_exact_e_step_never_rises_and_options_without_effect_are_told(run):
    line = ("ica", "mixed.h5", "--algorithm", "sparse-coding", "--posterior", "gaussian", "--noise", 0.5, "--iterations", 4)
    made = run(*line, "--filters", 5, "--batch-size", 10, "-o", "a.h5")
    assert made.code == 0
    assert "warning: --batch-size has no effect with --posterior gaussian\n" in made.err
    assert "warning: not converged after 4 iterations: the last one changed the bound by " in made.err
    assert run("eval", "a.h5", "--require", "rise<1e-9").code == 0
    assert np.diff(load("a.h5").value.trace.objective).min() > -1e-10
    assert run(*line, "--on-nonconvergence", "error", "-o", "b.h5").code == 1
    told = run("ica", "mixed.h5", "--algorithm", "sparse-coding", "--rate-schedule", "0.1x2", "--e-step", "book", "-o", "c.h5")
    assert "warning: --e-step has no effect with --posterior map\n" in told.err


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize(("line", "code", "words"), BAD, ids=lambda item: None if isinstance(item, int) else "")
def test_what_is_refused(run, tmp_path, line, code, words):
    write(tmp_path / "few.h5", SOURCES[:4])
    hole = SOURCES.copy()
    hole[3, 1] = np.nan
    write(tmp_path / "nan.h5", hole)
    write(tmp_path / "flat.h5", np.column_stack([SOURCES[:, :3], np.full(1200, 7.0), SOURCES[:, 0]]))
    with np.errstate(all="ignore"):
        ended = run("ica", *line, "-o", "out.h5")
    assert ended.code == code, ended.err
    assert not Path("out.h5").exists()
    assert ended.err.endswith(f"herd ica: {words}")


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--rate-schedule", "0.05"),
            "Invalid value for '--rate-schedule': '0.05' is not of the form 0.05x2000,0.025x2000: rates above 0, each for some updates",
        ),
        (
            ("--rate-schedule", "0x5"),
            "Invalid value for '--rate-schedule': '0x5' is not of the form 0.05x2000,0.025x2000: rates above 0, each for some updates",
        ),
        (
            ("--components", "0"),
            "Invalid value for '--components': '0' is neither a number from 1 upwards nor a share such as 95%",
        ),
        (
            ("--components", "101%"),
            "Invalid value for '--components': '101%' is neither a number from 1 upwards nor a share such as 95%",
        ),
        (("--topography", "20"), "Invalid value for '--topography': '20' is not of the form 20x20: height and width of the map"),
        (
            ("--mix", "random:2"),
            "Invalid value for '--mix': 'random:2' is neither 'random' nor 'instamix' nor instamix:b with b from 0 to 1",
        ),
        (("--initial-scale", "big"), "Invalid value for '--initial-scale': 'big' is neither 'unit' nor a number above 0"),
    ],
)
def test_options_that_mean_nothing_are_refused(run, options, message):
    ended = run("ica", "mixed.h5", *options)
    assert (ended.code, ended.err) == (2, f"herd ica: {message}\nhint: try 'herd ica --help'\n")


def test_dropped_directions_and_constant_channels_are_told(run, tmp_path):
    write(tmp_path / "flat.h5", np.column_stack([SOURCES[:, :3], np.full(1200, 7.0), SOURCES[:, 0]]))
    ended = run("ica", "flat.h5", "-o", "a.h5")
    assert ended.code == 0
    assert "ica: 1 of 5 columns are constant (first: column 3)\n" in ended.err
    assert "ica: rows vary in 3 of 5 directions: 2 components were dropped\n" in ended.err
    assert "ica: --whiten zca needs rows that vary in all directions, so pca is used instead\n" in ended.err
    assert load("a.h5").value.J.shape == (3, 3)


def test_weights_that_are_not_used_are_told(run, tmp_path):
    write(tmp_path / "weighted.h5", SOURCES, weight=np.arange(1200.0) + 1.0)
    told = run("ica", "weighted.h5", "-o", "a.h5")
    assert told.code == 0
    assert told.err.startswith(
        "ica: warning: the column 'weight' is left out because every row counts once here (rename it to use it as a feature)\n"
    )
    write(tmp_path / "plain.h5", SOURCES)
    assert "weights" not in run("ica", "plain.h5", "-o", "b.h5").err
    assert (load("a.h5").value.J == load("b.h5").value.J).all()


def test_gaussian_sources_are_told(run, tmp_path):
    random = np.random.default_rng(1)
    write(tmp_path / "g.h5", np.column_stack([random.standard_normal((4000, 2)), random.laplace(size=4000)]))
    ended = run("ica", "g.h5", "--split", "1,0,0", "-o", "a.h5")
    assert ended.code == 0
    told = r"ica: warning: 2 of 3 outputs look Gaussian \(excess kurtosis from -?0\.\d\d to -?0\.\d\d, standard error 0\.077\): "
    assert re.search(told + "their rotation is not identifiable\n", ended.err)
    write(tmp_path / "l.h5", SOURCES)
    assert "Gaussian" not in run("ica", "l.h5", "-o", "a.h5").err


def test_components_are_chosen_by_the_variance_they_have_together(run, tmp_path):
    X = np.random.default_rng(5).laplace(size=(900, 5)) * [10, 5, 3, 0.1, 0.1]
    write(tmp_path / "x.h5", X)
    ended = run("ica", "x.h5", "--components", "95%", "-o", "a.h5")
    assert ended.code == 0
    variances = np.sort(np.linalg.eigvalsh(np.cov(X.T, bias=True)))[::-1]
    count = int((np.cumsum(variances) / variances.sum() < 0.95).sum()) + 1
    assert load("a.h5").value.J.shape == (count, count)
    shown = f"{100 * variances[:count].sum() / variances.sum():.3g}"
    assert f"ica: {count} of 5 components are kept; they have {shown} % of the variance\n" in ended.err
    assert run("ica", "x.h5", "--components", "100%", "-o", "a.h5").code == 0
    assert load("a.h5").value.J.shape == (5, 5)


def test_factor_analysis_leaves_loud_columns_without_signal_out(run, tmp_path):
    random = np.random.default_rng(8)
    S, A = random.laplace(size=(3000, 2)), random.standard_normal((2, 9))
    noise = random.standard_normal((3000, 9)) * [0.1, 0.1, 0.1, 20, 30, 0.1, 0.1, 25, 0.1]
    write(tmp_path / "noisy.h5", S @ A + noise)
    found = {}
    for method in ("fa", "pca"):
        assert run("ica", "noisy.h5", "--whiten", method, "--components", 2, "-o", "a.h5").code == 0
        u = load("a.h5").value.features(S @ A + noise)
        found[method] = np.abs(np.corrcoef(u.T, S.T)[:2, 2:]).max(axis=0).min()
        assert run("eval", "a.h5").code == 0
    assert found["fa"] > 0.98
    assert found["pca"] < 0.3


def test_time_structure_tells_gaussian_sources_apart(run, tmp_path):
    random = np.random.default_rng(7)
    S = np.column_stack([lfilter([1.0], [1.0, -a], random.standard_normal(4000)) for a in (0.95, 0.3, -0.7)])
    write(tmp_path / "series.h5", S)
    ended = run("ica", "series.h5", "--mix", "random", "--algorithm", "sobi", "--lags", 20, "-o", "a.h5")
    assert (ended.code, "warning" in ended.err) == (0, False)
    value = load("a.h5").value
    assert amari_distance(value.unmixing_matrix @ value.mixing) < 1
    assert run("eval", "a.h5").code == 0
    write(tmp_path / "alike.h5", S[random.permutation(4000)])
    ended = run("ica", "alike.h5", "--algorithm", "sobi", "-o", "a.h5")
    assert "ica: warning: 3 pairs of outputs have the same autocorrelations: their rotation is not identifiable\n" in ended.err


def test_a_density_that_does_not_suit_the_sources_is_told(run, tmp_path):
    """The faults: uniform sources were left mixed by ml without a word but "look Gaussian"."""
    random = np.random.default_rng(2)
    sources = np.column_stack([random.uniform(-1, 1, (4000, 2)), random.laplace(size=(4000, 2))])
    write(tmp_path / "both.h5", sources)
    assert "warning" not in run("ica", "both.h5", "--mix", "random", "-o", "a.h5").err
    value = load("a.h5").value
    assert sorted(value.experts) == ["bimodal", "bimodal", "laplace-smooth", "laplace-smooth"]
    assert all((kurtosis < 0) == (name == "bimodal") for kurtosis, name in zip(value.kurtosis, value.experts, strict=True))
    assert amari_distance(value.unmixing_matrix @ value.mixing) < 1
    write(tmp_path / "uniform.h5", sources[:, :2])
    ended = run("ica", "both.h5", "--density", "bimodal", "--algorithm", "ml", "-o", "b.h5")
    assert re.search(
        r"warning: \d of 4 outputs are super-Gaussian \(excess kurtosis from .*\), bimodal is a sub-Gaussian density", ended.err
    )
    ended = run("ica", "uniform.h5", "--density", "laplace-smooth", "-o", "c.h5")
    assert re.search(
        r"warning: 2 of 2 outputs are sub-Gaussian \(excess kurtosis from .*\), laplace-smooth is a super-Gaussian density and cannot "
        "separate them: auto chooses one for each\n",
        ended.err,
    )


def test_infomax_takes_more_rows_in_more_dimensions_and_halves_rates_that_break_its_filters_down(run, tmp_path):
    random = np.random.default_rng(0)
    write(tmp_path / "wide.h5", random.standard_t(1.8, (3000, 120)) @ random.standard_normal((120, 120)))
    line = ("ica", "wide.h5", "--algorithm", "infomax", "--density", "logistic", "--rate-schedule", "0.02x300")
    usual, few = run(*line, "-o", "a.h5"), run(*line, "--batch-size", 100, "-o", "b.h5")
    assert (usual.code, few.code) == (0, 0)
    told = r"ica: warning: rates were halved [1-8]×: each time filters had broken down, and the last good ones were taken\n"
    assert re.search(told, few.err)
    assert "halved" not in usual.err
    trace = load("b.h5").value.trace.objective
    assert trace[-1] > trace[0]


@pytest.mark.usefixtures("data")
def test_a_collapse_writes_the_last_good_filters_and_ends_with_1(run):
    ended = run("ica", "mixed.h5", "--algorithm", "ebm", "--step-size", 1e6, "--rate-schedule", "0.01x500", "--leapfrog", 2, "-o", "a.h5")
    assert ended.code == 1
    assert "ica: warning: the acceptance collapsed once: the last good filters and a small leapfrog step were taken instead\n" in ended.err
    assert "ica: warning: the last good filters are written\n" in ended.err
    assert ended.err.endswith(
        "herd ica: acceptance collapsed again at update 200, after the leapfrog step had been reset\n"
        "hint: use lower rates in --rate-schedule, or shorter trajectories (--leapfrog)\n"
    )
    value = load("a.h5").value
    assert np.isfinite(value.J).all()
    assert value.iterations == 200


@pytest.mark.usefixtures("data")
def test_weights_outside_of_the_normalisable_region_are_told(run, monkeypatch):
    real = stochastic_learning.StochasticGradient.init

    def falling(algorithm):
        state = real(algorithm)
        state.gamma_velocity[...] = -0.6
        return state

    monkeypatch.setattr(stochastic_learning.StochasticGradient, "init", falling)
    ended = run("ica", "mixed.h5", "--algorithm", "ebm", "--gamma-rate", 0.1, "--rate-schedule", "0.01x1", "--leapfrog", 2, "-o", "a.h5")
    assert ended.code == 0
    assert "ica: warning: γ left the normalisable region 4 times and was set back to its border\n" in ended.err
    assert load("a.h5").value.gamma.min() > 0.5


@pytest.mark.usefixtures("data")
def test_a_gaussian_density_is_told_to_decorrelate_only(run):
    ended = run("ica", "mixed.h5", "--algorithm", "infomax", "--density", "gaussian-cdf", "--rate-schedule", "0.02x300", "-o", "a.h5")
    assert ended.code == 0
    assert "ica: warning: a Gaussian density decorrelates and no more: which rotation is found means nothing\n" in ended.err
    assert amari_distance(load("a.h5").value.unmixing_matrix @ MIXING) > 3


@pytest.mark.usefixtures("data")
@pytest.mark.parametrize("algorithm", ["ml", "ebm", "fastica"])
def test_a_dry_run_writes_nothing(run, algorithm):
    if algorithm == "fastica":
        pytest.importorskip("sklearn", reason="the extra ica is not installed")
    ended = run("ica", "mixed.h5", "--algorithm", algorithm, "--dry-run", "-o", "a.h5")
    assert ended.code == 0
    assert re.match(r"\w+: (at most )?(1 step|\d+ steps), about \S+ s and ", ended.out)
    assert not Path("a.h5").exists()


@pytest.mark.usefixtures("data")
def test_options_of_other_algorithms_are_told(run):
    ended = run("ica", "mixed.h5", "--leapfrog", 3, "--posterior", "map", "--gradient", "exact", "-o", "a.h5")
    assert [line for line in ended.err.splitlines() if "no effect" in line] == [
        "ica: warning: --gradient has no effect with --algorithm ml",
        "ica: warning: --leapfrog has no effect with --algorithm ml",
        "ica: warning: --posterior has no effect with --algorithm ml",
    ]


def test_threads_have_no_effect_on_algorithms_of_one_thread(run):
    ended = run("ica", "none.h5", "--algorithm", "sobi", "-j", 2)
    assert ended.err.startswith("ica: warning: --threads has no effect with --algorithm sobi\n")


@pytest.mark.usefixtures("data")
def test_apply_refuses_what_does_not_fit(run, tmp_path):
    write(tmp_path / "wide.h5", RANDOM.standard_normal((5, 7)))
    assert run("ica", "mixed.h5", "-o", "a.h5").code == 0
    lines = {
        ("wide.h5",): (65, "wide.h5: /X has 7 columns, but the model has 4 columns\n"),
        ("wide.h5", "--want", "rows"): (65, "wide.h5: /X has 7 columns, but the model has 4 filters\n"),
        ("mixed.h5", "--want", "classes"): (2, f"{NO_CLASSES}\nhint: use --want features, energies or rows\n"),
    }
    for line, (code, words) in lines.items():
        ended = run("apply", "a.h5", *line)
        assert (ended.code, ended.err) == (code, f"herd apply: {words}")


def test_defaults_and_choices_are_those_of_the_topic():
    from dataclasses import fields

    from herdcli.cli.ica.command import command
    from herdcli.ica.experts import EXPERTS
    from herdcli.ica.model import ALGORITHMS

    options = {param.name: param for param in command.params}
    shared = {
        field.name: field.default
        for field in fields(stochastic_learning.LearningSettings)
        if field.name in options and field.name != "algorithm"
    }
    told = {name: options[name].default for name in shared if options[name].default is not None}
    assert set(told) >= {"momentum", "weight_decay", "leapfrog", "acceptance", "step_size", "neighbourhood"}
    for name, default in told.items():
        assert options[name].type.convert(default, None, None) == shared[name], name
    assert options["steps"].default == stochastic_learning.LearningSettings.proposals
    assert set(options["algorithm"].type.choices) == set(ALGORITHMS)
    assert set(options["density"].type.choices) == {"auto", *EXPERTS}
