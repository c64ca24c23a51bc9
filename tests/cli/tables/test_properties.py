"""What no fitting command's result depends on: units, origins, constant columns, orders of rows and columns, how weights are written.

MODELS says which properties hold for which outputs of which models, and why others do not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import h5py
import numpy as np
import pytest

UNITS = np.array([1e9, 1.0, 1e-9])
ORIGIN = np.array([50.0, -200.0, 7.0])
COPIES = 30  # of the training rows occur twice


@dataclass(frozen=True)
class Model:
    """A command line, its figures that are compared, and the properties that hold.

    likelihoods  figures in nats a row, from which a column's unit takes its logarithm.  same  figures that units leave as they are.
    but          property -> why it does not hold.        makes  the rows, of those below.      near  relative tolerance.
    weights      options that weights of rows need beside --weights.    own  `eval` judges by the model's own rows, not by others.
    """

    line: str
    likelihoods: tuple[str, ...] = ("log_likelihood", "log_likelihood_baseline")
    same: tuple[str, ...] = ("gain", "gain_se", "verdict")
    but: dict[str, str] = field(default_factory=dict)
    makes: str = "clusters"
    near: float = 1e-4
    weights: str = ""
    own: bool = False


TIME = {
    "rows": "the order of the rows is the model",
    "copies": "weights are of whole sequences",
    "absent": "a row left out makes its neighbours follow each other",
}
LENGTH = "distances add up all columns in their units"
UNWEIGHTED = {"copies": "every row counts once", "absent": "every row counts once"}
OF_ROWS = ("log_likelihood", "independent")  # of targets or states, in which units of columns have no part
FITTED = ("explained", "verdict", *OF_ROWS)
FREQUENCY = "--weight-kind frequency"
ONE_BY_ONE = {
    "rows": "rows are learned one after the other",
    "columns": "figures of the first rows decide, to the last bit of their sums",
    "copies": "a weight is a step of another size, not two steps",
}
BATCHES = {"rows": "rows come in batches", "columns": "first weights are drawn by the column's place"} | UNWEIGHTED
TWO_VALUES = {"scale": "values are 0 and 1", "shift": "values are 0 and 1"}
MODELS = {
    "gmm": Model("em --components 2"),
    "gmm-diagonal": Model("em --components 2 --covariance diagonal"),
    "gmm, on disk": Model("em --components 2 --on-disk"),
    "spherical": Model(
        "em --components 2 --covariance spherical",
        but={"scale": "one variance for all columns", "constant": "one variance for all columns"},
        near=2e-2,
    ),
    "fa": Model("em --model fa --components 1"),
    "ppca": Model("em --model ppca --components 1", but={"scale": "one noise for all columns"}),
    "pca": Model("em --model pca --components 1", ("squared_error",), ("verdict",), {"scale": LENGTH}),
    "kmeans": Model("em --model kmeans --components 2", ("squared_error",), ("verdict",), {"scale": LENGTH}),
    "hmm": Model("em --model hmm --components 2", but=TIME, makes="series"),
    "lds": Model("em --model lds --components 1", but=TIME, makes="series", near=2e-2),
    "ica": Model("ica", ("log_likelihood",), ("kurtosis_heldout", "verdict"), UNWEIGHTED, "sources", near=5e-3),
    "gaussian": Model("regress --family gaussian", (), (*FITTED, "rmse", "aic"), makes="numbers", weights=FREQUENCY),
    "gaussian, one pass": Model("regress --family gaussian --one-pass", (), (*FITTED, "rmse"), makes="numbers", weights=FREQUENCY),
    "poisson": Model("regress --family poisson", (), (*FITTED, "aic"), makes="counts", weights=FREQUENCY),
    "bernoulli": Model("regress", (), (*FITTED, "error", "aic"), makes="two classes", weights=FREQUENCY),
    "softmax": Model("regress", (), (*FITTED, "error", "aic"), makes="classes", weights=FREQUENCY),
    "nherd": Model("nherd-train", (), ("error", "error_centroid", "error_linear", "verdict"), ONE_BY_ONE, "classes"),
    "rbm": Model(
        "fit-rbm --visible-units gaussian --standardize --hidden 2 --epochs 5",
        ("log_likelihood", "independent", "gaussian"),
        (),
        BATCHES | {"constant": "first weights are drawn by the column's place"},
    ),
    "bits": Model("fit-rbm --hidden 2 --epochs 20", (), ("independent", "verdict"), BATCHES | TWO_VALUES, "bits"),
    "tree": Model("fit-mrf --structure chow-liu", (), (*OF_ROWS, "verdict"), makes="states"),
    "table": Model("fit-mrf --structure full", (), (*OF_ROWS, "verdict"), makes="states"),
    "herd": Model(
        "herd --model mrf --iterations 200",
        (),
        ("moment_gap", "moment_gap_random", "verdict"),
        UNWEIGHTED | TWO_VALUES,
        "bits",
        own=True,
    ),
    "kernel": Model("kernel-herd -m 10 --bandwidth 2", (), ("mmd", "verdict"), {"scale": LENGTH} | UNWEIGHTED, own=True),
    "kernel, scaled": Model("kernel-herd -m 10 --bandwidth 2 --scale std", (), ("mmd", "verdict"), UNWEIGHTED, own=True),
}


def clusters(random: np.random.Generator, rows: int) -> np.ndarray:
    which = random.random(rows) < 0.4
    return np.where(which[:, None], 6.0, 0.0) * [1.0, -0.5, 0.3] + random.normal(size=(rows, 3)) @ [[1, 0.4, 0], [0, 1, 0.3], [0, 0, 1]]


def series(random: np.random.Generator, rows: int) -> np.ndarray:
    found = np.zeros(rows)
    for t in range(1, rows):
        found[t] = 0.9 * found[t - 1] + random.normal()
    return found[:, None] * [1.0, 2.0, -1.0] + 0.5 * random.normal(size=(rows, 3))


def sources(random: np.random.Generator, rows: int) -> np.ndarray:
    return random.laplace(size=(rows, 3)) @ np.array([[1.0, 0.5, 0.2], [-0.3, 1.0, 0.4], [0.2, -0.5, 1.0]])


def targets(random: np.random.Generator, rows: int, kind: str) -> np.ndarray:
    """Three columns and a target that depends on them."""
    X = random.normal(size=(rows, 3))
    eta = X @ [1.0, -0.7, 0.2]
    if kind == "numbers":
        y = eta + random.normal(size=rows)
    elif kind == "counts":
        y = random.poisson(np.exp(0.5 * eta + 0.8))
    else:
        cuts = [0.0] if kind == "two classes" else [-1.0, 1.0]
        y = np.digitize(eta + random.normal(size=rows), cuts)
    return np.column_stack([X, y])


def bits(random: np.random.Generator, rows: int) -> np.ndarray:
    both = random.integers(0, 2, (rows, 1))
    return np.where(random.random((rows, 3)) < 0.85, both, 1 - both).astype(float)


def states(random: np.random.Generator, rows: int) -> np.ndarray:
    found = random.integers(0, 3, (rows, 3))
    found[:, 1] = np.where(random.random(rows) < 0.7, found[:, 0], found[:, 1])
    return found.astype(float)


MAKERS = {"clusters": clusters, "series": series, "sources": sources, "bits": bits, "states": states}
ROWS = {"sources": 600}
OF_STATES = (np.array([10.0, 1.0, 100.0]), np.array([5.0, -2.0, 700.0]))  # whole numbers are names


def write(path, X: np.ndarray, names: str = "abc", **more: np.ndarray) -> None:
    head = ",".join([*names, *more])
    np.savetxt(path, np.column_stack([X, *more.values()]), delimiter=",", header=head, comments="", fmt="%.17g")


@pytest.fixture
def judged(herd, tmp_path):
    """judged(model, rows to learn from, rows to judge by, …) -> the row of `eval`.  Rows end with the target, if there is one."""

    def run(model: Model, train, test, names: str = "abc", **more) -> dict[str, object]:
        parts = {"train": (train, more), "test": (test, {})}
        for name, (X, beside) in parts.items():
            time = {"sequence": np.arange(len(X)) // 15} if model.makes == "series" else {}
            target = {"y": X[:, -1]} if X.shape[1] > len(names) else {}
            write(tmp_path / f"{name}.csv", X[:, : len(names)], names, **beside, **time, **target)
        command, *options = model.line.split()
        weights = ["--weights", "w", *model.weights.split()] if more else []
        split = [] if command == "kernel-herd" else ["--split", "1,0,0"]
        source = "train.csv"
        if "--on-disk" in options:  # reads HDF5, where weights are a data set of that name
            source, weights = "train.h5", []
            with h5py.File(tmp_path / source, "w") as file:
                file["X"], file["feature_names"] = train, list(names)
                if more:
                    file["weight"] = more["w"]
        ended = herd(command, source, *options, *weights, *split, "-q", "-o", "m.h5")
        assert ended.code == 0, ended.err
        found = herd("eval", "m.h5", *([] if model.own else ["--data", "test.csv"]), "--format", "json")
        assert found.code == 0, found.err
        return json.loads(found.out)[0]

    return run


def alike(model: Model, found, expected, units: float = 0.0) -> None:
    """Figures as expected; those in nats a row are lower by the logarithms of units."""
    for name in (*model.likelihoods, *model.same):
        if isinstance(expected[name], str):
            assert found[name] == expected[name]
            continue
        value = expected[name] - (units if name in model.likelihoods else 0.0)
        assert found[name] == pytest.approx(value, rel=model.near, abs=model.near), name


def rows_of(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Rows to learn from and to judge by."""
    random, count = np.random.default_rng(5), ROWS.get(model.makes, 180)
    both = MAKERS[model.makes](random, count) if model.makes in MAKERS else targets(random, count, model.makes)
    return both[: count * 2 // 3], both[count * 2 // 3 :]


def with_features(X: np.ndarray, change) -> np.ndarray:
    """The rows with their first three columns changed."""
    return np.column_stack([change(X[:, :3]), X[:, 3:]])


@pytest.mark.parametrize("name", MODELS)
def test_figures_depend_on_nothing_that_says_nothing(judged, name):
    model, random = MODELS[name], np.random.default_rng(6)
    once, test = rows_of(model)
    cut = len(once)
    train = once if "copies" in model.but else np.concatenate([once, once[:COPIES]])
    plain = judged(model, train, test)
    # units, origins and orders, as far as they do not matter, all at once
    units, origin = OF_STATES if model.makes == "states" else (UNITS, ORIGIN * UNITS)
    units = np.ones(3) if "scale" in model.but else units
    origin = np.zeros(3) if "shift" in model.but else origin if model.makes == "states" else ORIGIN * units
    order = np.arange(len(train)) if "rows" in model.but else random.permutation(len(train))
    place = [0, 1, 2] if "columns" in model.but else [2, 0, 1]
    there = [with_features(X, lambda part: (part * units + origin)[:, place]) for X in (train[order], test)]
    moved = judged(model, *there, "".join("abc"[j] for j in place))
    alike(model, moved, plain, float(np.log(units).sum()))
    if "constant" not in model.but:
        value = 1.0 if model.makes == "bits" else 3.0
        flat = judged(model, *(with_features(X, lambda part: np.insert(part, 1, value, axis=1)) for X in (train, test)), "axbc")
        assert flat["verdict"] == plain["verdict"]
        if "gain" in model.same:
            assert flat["gain"] == pytest.approx(plain["gain"], rel=model.near, abs=model.near)
    if "copies" not in model.but:
        alike(model, judged(model, once, test, w=1.0 + (np.arange(cut) < COPIES)), plain)
    if "absent" not in model.but:
        strange = np.full((1, train.shape[1]), 1.0 if model.makes == "states" else 1e3)
        strange[:, 3:] = train[0, 3:]
        spoiled, weight = np.insert(train, 7, strange, axis=0), np.insert(np.ones(len(train)), 7, 0.0)
        alike(model, judged(model, spoiled, test, w=weight), plain)


def test_baselines_of_an_rbm_have_the_same_variance_for_a_column_of_one_value(judged):
    """That of the model's units: with less, every model would be worse than one Gaussian."""
    model = MODELS["rbm"]
    train, test = rows_of(model)
    plain = judged(model, train, test)
    flat = judged(model, np.insert(train, 1, 3.0, axis=1), np.insert(test, 1, 3.0, axis=1), "axbc")
    for name in ("gaussian", "independent"):
        assert flat[name] == pytest.approx(plain[name] - 0.5 * np.log(2 * np.pi), abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_copy_of_a_column_changes_no_verdict_or_is_reported(herd, tmp_path, name):
    """Reported: a warning or note that the run without the copy does not have, besides the verdict."""
    model = MODELS[name]
    if "--on-disk" in model.line or "--one-pass" in model.line:
        pytest.skip("the model is tested from a table")
    train, _ = rows_of(model)
    target = {"y": train[:, 3]} if train.shape[1] > 3 else {}
    time = {"sequence": np.arange(len(train)) // 15} if model.makes == "series" else {}
    command, *options = model.line.split()
    verdicts, lines = [], []
    for names, X in (("abc", train[:, :3]), ("abcd", train[:, [0, 1, 2, 0]])):
        write(tmp_path / "t.csv", X, names, **target, **time)
        split = [] if command == "kernel-herd" else ["--split", ".6,0,.4"]
        ended = herd(command, "t.csv", *options, *split, "-o", "m.h5")
        assert ended.code == 0, ended.err
        verdicts.append(json.loads(herd("eval", "m.h5", "--format", "json").out)[0]["verdict"])
        lines.append({line for line in ended.err.splitlines() if ": warning: " in line and ": verdict: " not in line})
    findings = [set(verdict.split("; ")) - {"ok"} for verdict in verdicts]
    assert findings[0] == findings[1] or lines[1] - lines[0], (verdicts, lines)


@pytest.mark.parametrize("model", ["em --components 2", "em --model fa --components 1"])
def test_a_copy_of_a_column_is_reported(herd, tmp_path, model):
    X = clusters(np.random.default_rng(0), 200)
    write(tmp_path / "twice.csv", np.column_stack([X, X[:, 0]]), "abcd")
    command, *options = model.split()
    ended = herd(command, "twice.csv", *options, "-o", "m.h5")
    assert ended.code == 0
    assert "raised to the floor of their columns" in ended.err


@pytest.mark.parametrize(
    "line",
    ["em --components 2", "em --model hmm --components 2", "em --model fa --components 1", "em --model kmeans --components 2"],
)
def test_rows_of_weight_0_are_not_counted(herd, tmp_path, line):
    """Neither in splits nor in what criteria and shares are made of: the file with such rows gives the bytes of the one without them."""
    X = clusters(np.random.default_rng(1), 90)
    weight = np.ones(90)
    places = np.arange(0, 90, 9)
    command, *options = line.split()
    write(tmp_path / "whole.csv", np.delete(X, places, axis=0), w=np.delete(weight, places))
    X[places], weight[places] = 99.0, 0.0
    write(tmp_path / "more.csv", X, w=weight)
    figures = []
    for name in ("whole", "more"):
        ended = herd(command, f"{name}.csv", *options, "--weights", "w", "-o", "m.h5")
        assert ended.code == 0, ended.err
        assert ("left out 10 rows of weight 0" in ended.err) == (name == "more")
        row = json.loads(herd("eval", "m.h5", "--format", "json").out)[0]
        figures.append({key: value for key, value in row.items() if key != "file"})
    assert figures[0] == figures[1]
