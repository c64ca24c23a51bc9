"""fit-rbm with other units and variants, deep belief networks, sampling and import, in this process: results, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from herdcli import artifacts
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units import unit_family


def write(path: Path, X: np.ndarray, **others: object) -> None:
    """A plain HDF5 data set; text and pairs become attributes of X."""
    with h5py.File(path, "w") as file:
        file["X"] = X
        for name, item in others.items():
            if isinstance(item, np.ndarray):
                file[name] = item
            else:
                file["X"].attrs[name] = item


RANDOM = np.random.default_rng(0)
CAUSE = RANDOM.integers(0, 2, (60, 1))
ON = np.where(RANDOM.random((60, 6)) < 0.15, 1 - CAUSE, CAUSE)
SPLIT = np.repeat([0, 1, 2], [40, 10, 10]).astype(np.uint8)
GREY = (ON * 12 + RANDOM.integers(0, 4, ON.shape)).astype(np.uint8)
QUICK = ("--hidden", "4", "--epochs", "4", "--learning-rate", "0.02")


@pytest.fixture
def grey(tmp_path: Path) -> Path:
    """grey.h5: 60 rows of 6 grey values 0 … 16 with a split."""
    write(tmp_path / "grey.h5", GREY, split=SPLIT, value_range=[0, 16], image_shape=[2, 3])
    return tmp_path / "grey.h5"


@pytest.mark.parametrize(
    ("visible", "hidden"),
    [
        ("rate:16", "rate:4"),
        ("gaussian", "binary"),
        ("gaussian", "gaussian"),
        ("poisson", "spin"),
        ("poisson", "poisson"),
        ("spin", "poisson"),
    ],
)
def test_any_units_are_learned_judged_sampled_and_applied(run: Callable, grey: Path, visible: str, hidden: str) -> None:
    fitted = run("fit-rbm", "-q", "grey.h5", *QUICK, "--visible-units", visible, "--hidden-units", hidden, "-o", "m.h5")
    assert (fitted.code, fitted.err) == (0, "")
    model = artifacts.load("m.h5").value
    assert (model.visible_units, model.hidden_units) == (visible, hidden)
    judged = run("eval", "m.h5", "--format", "json", "--chains", "20", "--temperatures", "50")
    (row,) = json.loads(judged.out)
    assert judged.code == 0
    assert np.isfinite([row[name] for name in ("log_likelihood", "reconstruction", "free_energy_gap")]).all()
    assert (row["pseudo_likelihood"] is None) == (visible in ("gaussian", "poisson"))
    assert run("sample", "-q", "m.h5", "-m", "5", "--burn-in", "3", "-o", "s.h5").code == 0
    drawn = artifacts.load("s.h5").value
    assert drawn.X.shape == (5, 6)
    if visible == "rate:16":
        assert set(np.unique(drawn.X * 16 % 1)) == {0}
        assert drawn.value_range.tolist() == [0, 1]
    assert run("apply", "-q", "m.h5", "grey.h5", "-o", "f.h5").code == 0
    h = model.harmonium()
    rows = {"rate:16": GREY, "spin": np.where(GREY >= 6.4, 1, -1)}.get(visible, GREY)
    np.testing.assert_allclose(artifacts.load("f.h5").value.X, h.hidden_means(rows) / h.hidden.scale, rtol=1e-4, atol=1e-5)


def test_range_maps_pixels_to_proportions(run: Callable, tmp_path: Path) -> None:
    write(tmp_path / "wide.h5", GREY.astype(np.float64) * 10 - 20, split=SPLIT)
    ended = run("fit-rbm", "-q", "wide.h5", *QUICK, "--visible-units", "rate:8", "--range", "-20,140", "-o", "m.h5")
    assert ended.code == 0
    model = artifacts.load("m.h5").value
    np.testing.assert_allclose(model.holdout.X, GREY[SPLIT > 0] / 2, atol=1e-5)  # counts of 8, between them too
    assert model.value_range.tolist() == [-20, 140]


def test_standardised_columns_are_those_of_the_training_rows_and_come_back(run: Callable, grey: Path) -> None:
    training = GREY[SPLIT == 0].astype(np.float64)
    mean, scale = training.mean(axis=0), training.std(axis=0)
    write(grey.parent / "own.h5", ((GREY - mean) / scale).astype(np.float32), split=SPLIT)
    options = (*QUICK, "--visible-units", "gaussian")
    assert run("fit-rbm", "-q", "grey.h5", *options, "--standardize", "-o", "m.h5").code == 0
    assert run("fit-rbm", "-q", "own.h5", *options, "-o", "o.h5").code == 0
    np.testing.assert_allclose(artifacts.load("m.h5").value.W, artifacts.load("o.h5").value.W, atol=1e-4)
    (ours,), (theirs,), (again,) = (
        json.loads(run("eval", *names, "--format", "json").out) for names in (["m.h5"], ["o.h5"], ["m.h5", "--data", "grey.h5"])
    )
    assert ours["log_likelihood"] == pytest.approx(theirs["log_likelihood"] - np.log(scale).sum(), abs=1e-3)
    assert again["log_likelihood"] == pytest.approx(ours["log_likelihood"], abs=1e-9)
    for name in "mo":
        assert run("sample", "-q", f"{name}.h5", "-m", "7", "--burn-in", "2", "-o", f"{name}.npz").code == 0
    with np.load("m.npz") as shown, np.load("o.npz") as bare:
        np.testing.assert_allclose(shown["X"], bare["X"] * scale + mean, atol=1e-2)
    ended = run("fit-rbm", "grey.h5", *QUICK, "--standardize", "-o", "b.h5")
    assert "--standardize has no effect with visible units binary\n" in ended.err


def test_weights_that_were_held_at_the_edge_are_said(run: Callable, grey: Path) -> None:
    options = ("--units", "gaussian", "--hidden", "4", "--epochs", "3", "--momentum", "0", "--rate-decay", "none")
    calm, wild = (run("fit-rbm", "grey.h5", *options, "--learning-rate", rate, "-o", "m.h5") for rate in ("1e-5", "0.01"))
    assert (calm.code, wild.code) == (0, 0)
    says = (
        "the weights were capped at the largest singular value that gaussian layers allow; use --standardize or a lower --learning-rate\n"
    )
    assert f"fit-rbm: warning: {says}" in wild.err
    assert "singular" not in calm.err


BAD = {
    "a value outside the range": (
        ["grey.h5", "--visible-units", "rate:4", "--range", "0,10"],
        65,
        "grey.h5: /X has values from 0 to 15, outside the value range 0 to 10\nhint: declare another one: --range 0,15\n",
    ),
    "no range": (
        ["plain.h5", "--visible-units", "rate:4"],
        2,
        "plain.h5: /X has no value_range, so its values are not proportions\nhint: declare the lowest and highest possible value; "
        "those seen are --range 0.5,15.5\n",
    ),
    "fractions for poisson units": (
        ["plain.h5", "--visible-units", "poisson"],
        65,
        f"plain.h5: /X: there is a value {GREY[0, 0]}.5 in row 0, column 0, but poisson units need whole numbers from 0 upwards\n",
    ),
    "softmax groups that do not sum to one": (
        ["grey.h5", "--visible-units", "softmax:2"],
        65,
        f"grey.h5: /X: columns 0 to 1 of row 0 sum to {GREY[0, :2].sum()}: "
        "the 2 columns of each softmax:2 unit must be at least 0 and sum to 1\n",
    ),
    "columns that are no whole number of units": (
        ["grey.h5", "--visible-units", "softmax:4"],
        65,
        "grey.h5: /X: there are 6 columns, but softmax:4 units need a multiple of 4\n",
    ),
    "hidden columns that are no whole number of units": (
        ["grey.h5", "--hidden-units", "softmax:3"],
        2,
        "--hidden 4 must be a multiple of 3, the number of columns of one softmax:3 unit\n",
    ),
    "a pair without a distribution": (
        ["grey.h5", "--visible-units", "gaussian", "--hidden-units", "poisson"],
        2,
        "gaussian visible with poisson hidden units have no normalisable distribution, whatever the weights\n"
        "hint: use binary, spin, rate:N or softmax:K units in one layer\n",
    ),
    "pseudo-likelihood of reals": (
        ["grey.h5", "--visible-units", "gaussian", "--algorithm", "pseudo-likelihood"],
        2,
        "pseudo-likelihood needs visible units with finitely many values, but these are gaussian\n",
    ),
    "too many states for the exact gradient": (
        ["many.h5", "--algorithm", "exact", "--hidden", "30"],
        2,
        "--algorithm exact needs a layer with at most 2^20 states, but this model has 30 visible and 30 hidden units\nhint: use "
        "--algorithm pcd, which samples instead\n",
    ),
    "layers and classes": (
        ["grey.h5", "--layers", "4,4", "--per-class"],
        2,
        "--layers and --below learn one model, --per-class several\nhint: leave one of them out\n",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_learned_is_refused(run: Callable, grey: Path, case: str) -> None:
    arguments, code, says = BAD[case]
    write(grey.parent / "plain.h5", GREY + 0.5, split=SPLIT)
    write(grey.parent / "many.h5", np.tile(ON, (1, 5)).astype(np.uint8), split=SPLIT)
    ended = run("fit-rbm", "-q", *QUICK, *arguments, "-o", "m.h5")
    assert (ended.code, ended.err) == (code, f"herd fit-rbm: {says}")
    assert not (grey.parent / "m.h5").exists()


@pytest.mark.parametrize("text", ["ternary", "rate:0", "softmax:1", "rate:99999"])
def test_units_that_are_none_are_a_usage_error(run: Callable, grey: Path, text: str) -> None:
    ended = run("fit-rbm", "grey.h5", "--units", text)
    assert ended.code == 2
    assert f"Invalid value for '--units': '{text}' " in ended.err


def test_idle_options_columns_of_one_value_and_small_sets_are_said(run: Callable, tmp_path: Path) -> None:
    X = GREY.copy()
    X[:, 2] = 7
    write(tmp_path / "grey.h5", X, split=SPLIT, value_range=[0, 16])
    options = ("--algorithm", "exact", "--steps", "3", "--mean-field", "visible", "--sparsity-cost", "1", "--threshold", "0.3")
    ended = run("fit-rbm", "grey.h5", *QUICK, "--visible-units", "rate:16", "--batch-size", "100", *options, "-o", "m.h5")
    assert ended.code == 0
    for says in (
        "--gibbs-steps has no effect with --algorithm exact",
        "--mean-field has no effect with --algorithm exact",
        "--sparsity-cost has no effect without --sparsity-target",
        "--threshold has no effect with visible units rate:16",
        "1 of 6 columns are constant in all training rows: their weights stay 0",
        "there are 40 training rows, fewer than the 100 of --batch-size",
    ):
        assert f"fit-rbm: warning: {says}\n" in ended.err
    assert (artifacts.load("m.h5").value.W[0, 2] == 0).all()


def test_divergence_ends_with_1_and_leaves_the_last_good_checkpoint(run: Callable, grey: Path) -> None:
    arguments = (
        "fit-rbm",
        "grey.h5",
        "--hidden",
        "4",
        "--epochs",
        "50",
        "--visible-units",
        "gaussian",
        "--learning-rate",
        "3",
        "-o",
        "m.h5",
    )
    ended = run(*arguments, "--checkpoint", "run.state", "--every", "1")
    assert ended.code == 1
    assert "diverged in epoch" in ended.err
    assert ended.err.endswith("hint: lower --learning-rate (it is 3)\n")
    assert not (grey.parent / "m.h5").exists()
    with h5py.File(grey.parent / "run.state") as file:
        assert np.isfinite(file["W"][()]).all()
        assert np.abs(file["W"][()]).max() <= 1000


# deep belief networks -----------------------------------------------------------------------------


def test_a_network_of_layers_is_learned_by_option_and_by_command(run: Callable, grey: Path) -> None:
    options = ("--epochs", "3", "--seed", "3")
    assert run("fit-rbm", "-q", "grey.h5", "--layers", "5,6", *options, "-o", "deep.h5").code == 0
    assert run("fit-rbm", "-q", "grey.h5", "--hidden", "5", *options, "-o", "one.h5").code == 0
    assert run("fit-rbm", "-q", "grey.h5", "--below", "one.h5", "--hidden", "6", *options, "-o", "two.h5").code == 0
    deep, two = artifacts.load("deep.h5"), artifacts.load("two.h5")
    for ours, theirs in zip(deep.value.layers, two.value.layers, strict=True):
        np.testing.assert_array_equal(ours.W, theirs.W)
    assert "below" not in two.history[-1]["parameters"]
    assert [item["role"] for item in two.history[-1]["inputs"]] == ["below", "data"]
    (row,) = json.loads(run("eval", "deep.h5", "--format", "json").out)
    assert row["log_likelihood_bound"] < 0
    assert row["log_likelihood_first_se"] == 0
    (other,) = json.loads(run("eval", "deep.h5", "--data", "grey.h5", "--format", "json").out)
    assert other == row
    annealed = ("--likelihood", "ais", "--temperatures", "100", "--reverse", "--format", "json")
    (both,) = json.loads(run("eval", "deep.h5", *annealed).out)
    for way in ("", "_reverse"):
        assert both[f"log_likelihood_bound{way}"] == pytest.approx(row["log_likelihood_bound"], abs=0.2)
    assert both["log_likelihood_bound_reverse"] != both["log_likelihood_bound"]
    assert run("apply", "-q", "deep.h5", "grey.h5", "-o", "f.h5").code == 0
    assert artifacts.load("f.h5").value.X.shape == (60, 6)
    assert run("apply", "deep.h5", "grey.h5", "--want", "energies").err.startswith(
        "herd apply: a deep belief network (dbn) has no energies"
    )
    assert run("sample", "-q", "deep.h5", "-m", "4", "--burn-in", "2", "-o", "s.h5").code == 0
    assert set(np.unique(artifacts.load("s.h5").value.X)) <= {0, 1}


@pytest.mark.parametrize("steps", [3, 8])
def test_a_network_of_layers_goes_on_from_its_checkpoint(run: Callable, grey: Path, monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    """Stopped in the first layer (6 steps) or in the second, and resumed: the bytes of a run without a stop."""
    from herdcli.errors import Interrupted
    from herdcli.rbm.learning import layerwise_learning

    arguments = ("fit-rbm", "-q", "grey.h5", "--layers", "5,6", "--epochs", "3", "--algorithm", "fpcd", "--centering")
    assert run(*arguments, "-o", "whole.h5").code == 0
    taken, step = [0], layerwise_learning.LayerwiseLearning.step

    def stopping(*given: object, **named: object) -> object:
        if taken[0] == steps:
            raise Interrupted(15)
        taken[0] += 1
        return step(*given, **named)  # type: ignore[arg-type]

    checkpoint = ("--checkpoint", "run.state", "--every", "1", "-o", "cut.h5")
    monkeypatch.setattr(layerwise_learning.LayerwiseLearning, "step", stopping)
    assert run(*arguments, *checkpoint).code == 75
    monkeypatch.setattr(layerwise_learning.LayerwiseLearning, "step", step)
    assert run(*arguments, *checkpoint, "--resume").code == 0
    assert (grey.parent / "cut.h5").read_bytes() == (grey.parent / "whole.h5").read_bytes()


def test_the_bound_of_an_unlearned_layer_is_the_likelihood_below(run: Callable, grey: Path) -> None:
    assert run("fit-rbm", "-q", "grey.h5", "--hidden", "5", "--epochs", "20", "-o", "one.h5").code == 0
    still = ("--hidden", "8", "--epochs", "1", "--learning-rate", "1e-9")
    assert run("fit-rbm", "-q", "grey.h5", "--below", "one.h5", *still, "-o", "two.h5").code == 0
    (one,), (two,) = (json.loads(run("eval", name, "--format", "json").out) for name in ("one.h5", "two.h5"))
    assert two["log_likelihood_first"] == pytest.approx(one["log_likelihood"], abs=1e-9)
    assert two["log_likelihood_bound"] == pytest.approx(one["log_likelihood"], abs=1e-4)


def test_states_of_a_model_are_rows_for_the_next(run: Callable, grey: Path) -> None:
    assert run("fit-rbm", "-q", "grey.h5", *QUICK, "-o", "one.h5").code == 0
    assert run("apply", "-q", "one.h5", "grey.h5", "--want", "states", "-o", "h.h5").code == 0
    assert set(np.unique(artifacts.load("h.h5").value.X)) == {0, 1}
    ended = run("fit-rbm", "h.h5", *QUICK, "-o", "two.h5")
    assert ended.code == 0
    assert "threshold" not in ended.err  # states need none


def test_more_rows_than_fit_are_refused_before_they_are_drawn(run: Callable, grey: Path) -> None:
    assert run("fit-rbm", "-q", "grey.h5", *QUICK, "-o", "m.h5").code == 0
    ended = run("sample", "m.h5", "-m", "10000000", "--burn-in", "9", "--max-memory", "100M", "-o", "s.h5")
    says = "1 × 10000000 rows of 6 units would take 960 MB, more than the 100 MB allowed\nhint: raise --max-memory if the machine has it\n"
    assert (ended.code, ended.err) == (65, f"herd sample: m.h5: {says}")


def test_pictures_of_a_network(run: Callable, grey: Path) -> None:
    pytest.importorskip("matplotlib")
    assert run("fit-rbm", "-q", "grey.h5", "--layers", "4,4", "--epochs", "1", "-o", "deep.h5").code == 0
    names = ("filters", "reconstructions", "samples", "trace")
    assert run("eval", "-q", "deep.h5", *(word for name in names for word in ("--plot", name, f"{name}.png"))).code == 0
    assert all((grey.parent / f"{name}.png").read_bytes()[:4] == b"\x89PNG" for name in names)


# judging ------------------------------------------------------------------------------------------


def test_annealing_back_adds_a_second_estimate(run: Callable, grey: Path) -> None:
    run("fit-rbm", "-q", "grey.h5", *QUICK, "-o", "m.h5")
    annealed = ("--likelihood", "ais", "--temperatures", "100", "--format", "json")
    (row,), (both,) = (json.loads(run("eval", "m.h5", *annealed, *more).out) for more in ((), ("--reverse",)))
    assert {name: both[name] for name in row} == row
    assert both["log_likelihood_reverse"] == pytest.approx(row["log_likelihood"], abs=4 * both["log_likelihood_reverse_se"] + 0.05)


def test_pseudo_likelihood_that_ranks_otherwise_is_said() -> None:
    from herdcli.evaluation.figures.rbm import ranking_messages

    rows = [
        {"file": "a", "log_likelihood": -18.0, "pseudo_likelihood": -15.0},
        {"file": "b", "log_likelihood": -19.0, "pseudo_likelihood": -14.0},
        {"file": "c", "log_likelihood": -20.0, "pseudo_likelihood": None},
        {"file": "d", "log_likelihood": -21.0, "pseudo_likelihood": -16.0},
    ]
    assert ranking_messages(rows) == ["pseudo-likelihood ranks b above a, the log-likelihood below"]


def test_other_rows_of_unknown_classes_are_refused(run: Callable, tmp_path: Path) -> None:
    y = CAUSE.ravel().astype(np.int64)
    write(tmp_path / "two.h5", ON.astype(np.uint8), y=y, split=SPLIT)
    write(tmp_path / "three.h5", ON.astype(np.uint8), y=y + 1, split=SPLIT)
    run("fit-rbm", "-q", "two.h5", *QUICK, "--per-class", "-o", "m.h5")
    (row,), (again,) = (json.loads(run("eval", "m.h5", *more, "--format", "json").out) for more in ((), ("--data", "two.h5")))
    assert again["log_likelihood"] == row["log_likelihood"]
    assert again["free_energy_gap"] == row["free_energy_gap"]
    ended = run("eval", "m.h5", "--data", "three.h5")
    assert (ended.code, ended.err) == (65, "herd eval: three.h5: has class '2', but the model knows only 0, 1\n")


# import -------------------------------------------------------------------------------------------


def save(path: str, **arrays: np.ndarray) -> None:
    if path.endswith(".npz"):
        np.savez(path, **arrays)
        return
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = values


W = RANDOM.normal(0, 1, (6, 3))
B, C = RANDOM.normal(0, 1, 6), RANDOM.normal(0, 1, 3)


@pytest.mark.parametrize(
    ("path", "arrays"),
    [
        ("w.npz", {"W": W, "b": B, "c": C}),
        ("w.npz", {"W": W.T, "b": B[None], "c": C[:, None]}),
        ("w.npz", {"components_": W.T, "intercept_visible_": B, "intercept_hidden_": C}),
        ("w.h5", {"weight_matrix": W, "vbias": B, "hbias": C}),
        ("w.h5", {"model/weights": W.T, "model/vbias": B, "model/hbias": C, "model/steps": np.arange(3)}),
    ],
)
def test_weights_of_other_programs_are_judged(run: Callable, tmp_path: Path, path: str, arrays: dict[str, np.ndarray]) -> None:
    save(str(tmp_path / path), **arrays)
    write(tmp_path / "rows.h5", ON.astype(np.uint8))
    assert run("convert", "-q", path, "--to", "rbm", "-o", "m.h5").code == 0
    h = artifacts.load("m.h5").value.harmonium()
    np.testing.assert_array_equal(h.W, W)
    (row,) = json.loads(run("eval", "m.h5", "--data", "rows.h5", "--format", "json").out)  # without a split all rows are test rows
    v = np.array(np.meshgrid(*[[0, 1]] * 6)).reshape(6, -1).T
    log_z = np.logaddexp.reduce(-h.free_energy(v))
    assert row["log_likelihood"] == pytest.approx((-h.free_energy(ON) - log_z).mean(), abs=1e-9)


def test_scikit_learns_own_model_is_judged(run: Callable, tmp_path: Path) -> None:
    network = pytest.importorskip("sklearn.neural_network")
    theirs = network.BernoulliRBM(4, n_iter=5, random_state=0).fit(ON)
    save(
        str(tmp_path / "w.npz"),
        components_=theirs.components_,
        intercept_visible_=theirs.intercept_visible_,
        intercept_hidden_=theirs.intercept_hidden_,
    )
    assert run("convert", "-q", "w.npz", "--to", "rbm", "-o", "m.h5").code == 0
    h = artifacts.load("m.h5").value.harmonium()
    np.testing.assert_allclose(h.hidden_means(ON), theirs.transform(ON), atol=1e-12)
    np.testing.assert_allclose(h.free_energy(ON), theirs._free_energy(ON), atol=1e-9)


def test_imported_weights_see_grey_rows_as_they_are_told_to(run: Callable, grey: Path) -> None:
    save(str(grey.parent / "w.npz"), W=W, b=B, c=C)
    assert run("convert", "-q", "w.npz", "--to", "rbm", "--threshold", "0.1", "--range", "0,20", "-o", "m.h5").code == 0
    assert run("apply", "-q", "m.h5", "grey.h5", "-o", "f.h5").code == 0
    expected = artifacts.load("m.h5").value.harmonium().hidden_means(GREY >= 2)
    np.testing.assert_allclose(artifacts.load("f.h5").value.X, expected, atol=1e-6)


def test_square_weights_are_read_by_their_name(run: Callable, tmp_path: Path) -> None:
    square = RANDOM.normal(size=(3, 3))
    for name, expected in (("components_", square.T), ("W", square)):
        save(str(tmp_path / "w.npz"), **{name: square}, b=C, c=C)
        ended = run("convert", "w.npz", "--to", "rbm", "-o", "m.h5")
        np.testing.assert_array_equal(artifacts.load("m.h5").value.W[0], expected)
        rows = "hidden" if name == "components_" else "visible"
        assert f"w.npz: the array {name} is square, so its orientation is a guess: its rows are read as the {rows} units\n" in ended.err


@pytest.mark.parametrize(
    ("path", "arrays", "says"),
    [
        (
            "w.npz",
            {"W": W, "b": B},
            "has no array for the hidden biases (it has W, b)\nhint: give the arrays one of these sets of names: W, b, c; "
            "weight_matrix, vbias, hbias; "
            "components_, intercept_visible_, intercept_hidden_",
        ),
        ("w.h5", {"W": W, "vbias": C, "hbias": C}, "array W has the shape 6 × 3, but there are 3 visible and 3 hidden biases"),
        (
            "w.npz",
            {"W": W, "weights": W, "b": B, "c": C},
            "has two arrays that could be the weights, W and weights\nhint: keep one of them",
        ),
        ("w.h5", {"W": W * np.nan, "b": B, "c": C}, "/W has values that are not finite"),
        ("w.npz", {"W": np.full((6, 3), "x"), "b": B, "c": C}, "array W has the type <U1, but must have numbers"),
    ],
)
def test_weights_that_are_none_are_refused(run: Callable, tmp_path: Path, path: str, arrays: dict[str, np.ndarray], says: str) -> None:
    save(str(tmp_path / path), **arrays)
    ended = run("convert", path, "--to", "rbm", "-o", "m.h5")
    assert (ended.code, ended.err) == (65, f"herd convert: {path}: {says}\n")


def test_options_of_the_other_purpose_are_said_to_do_nothing(run: Callable, grey: Path) -> None:
    save(str(grey.parent / "w.npz"), W=W, b=B, c=C)
    ended = run("convert", "w.npz", "--to", "rbm", "--equalize", "-m", "3", "-o", "m.h5")
    assert ended.code == 0
    for option in ("--equalize", "--count"):
        assert f"convert: warning: {option} has no effect with --to rbm\n" in ended.err
    ended = run("convert", "grey.h5", "--units", "spin", "--range", "0,1", "-o", "g.npz")
    assert ended.code == 0
    for option in ("--units", "--range"):
        assert f"convert: warning: {option} has no effect without --to rbm or dbn\n" in ended.err


def test_weights_without_a_distribution_are_refused(run: Callable, tmp_path: Path) -> None:
    save(str(tmp_path / "w.npz"), W=2 * np.eye(3), b=C, c=C)
    ended = run("convert", "-q", "w.npz", "--to", "rbm", "--units", "gaussian", "-o", "m.h5")
    says = "the model is not normalisable: the largest singular value of the weights is 2, but gaussian layers need a value below 1"
    assert (ended.code, ended.err) == (65, f"herd convert: w.npz: {says}\n")


def test_the_archived_model_of_version_1_is_judged(run: Callable) -> None:
    archived = Path(__file__).resolve().parents[2] / "data" / "rbm-1.h5"
    (row,) = json.loads(run("eval", archived, "--format", "json").out)
    assert row["free_energy_gap"] is None
    assert row["log_likelihood"] < 0


def test_a_model_without_a_distribution_is_not_judged(run: Callable, tmp_path: Path) -> None:
    from dataclasses import replace

    from herdcli.rbm.model import StoredHeldoutRows, rbm_from_weights

    model = replace(
        rbm_from_weights(0.5 * np.eye(3), C, C, "poisson", "poisson"), holdout=StoredHeldoutRows(np.ones((2, 3)), np.array([2, 2]))
    )
    artifacts.save(str(tmp_path / "m.h5"), model, [])
    ended = run("eval", "m.h5")
    says = "the model is not normalisable: a weight is 0.5, but poisson layers need weights of at most 0"
    assert (ended.code, ended.err) == (65, f"herd eval: m.h5: {says}\n")
    assert isinstance(model.harmonium(), Harmonium)
    assert model.harmonium().visible is unit_family("poisson")
