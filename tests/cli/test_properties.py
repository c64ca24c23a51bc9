"""What no fitting command's result depends on: units, origins, constant columns, orders of rows and columns, how weights are written.

MODELS says which properties hold for which outputs of which models, and why others do not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

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
    """

    line: str
    likelihoods: tuple[str, ...] = ("log_likelihood", "log_likelihood_baseline")
    same: tuple[str, ...] = ("gain", "gain_se", "verdict")
    but: dict[str, str] = field(default_factory=dict)
    makes: str = "clusters"
    near: float = 1e-4


TIME = {
    "rows": "the order of the rows is the model",
    "copies": "weights are of whole sequences",
    "absent": "a row left out makes its neighbours follow each other",
}
LENGTH = "distances add up all columns in their units"
UNWEIGHTED = {"copies": "every row counts once", "absent": "every row counts once"}
MODELS = {
    "gmm": Model("em --components 2"),
    "gmm-diagonal": Model("em --components 2 --covariance diagonal"),
    "spherical": Model(
        "em --components 2 --covariance spherical",
        but={"scale": "one variance for all columns", "constant": "one variance for all columns"},
        near=2e-2,
    ),
    "fa": Model("em --model fa --components 1"),
    "ppca": Model("em --model ppca --components 1", but={"scale": "one noise for all columns", "constant": "one noise for all columns"}),
    "pca": Model("em --model pca --components 1", ("squared_error",), ("verdict",), {"scale": LENGTH}),
    "kmeans": Model("em --model kmeans --components 2", ("squared_error",), ("verdict",), {"scale": LENGTH}),
    "hmm": Model("em --model hmm --components 2", but=TIME, makes="series"),
    "lds": Model("em --model lds --components 1", but=TIME, makes="series", near=2e-2),
    "ica": Model("ica", ("log_likelihood",), ("kurtosis_heldout", "verdict"), UNWEIGHTED, "sources", near=5e-3),
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


def write(path, X: np.ndarray, names: str = "abc", **more: np.ndarray) -> None:
    head = ",".join([*names, *more])
    np.savetxt(path, np.column_stack([X, *more.values()]), delimiter=",", header=head, comments="", fmt="%.17g")


@pytest.fixture
def judged(herd, tmp_path):
    """judged(model, rows to learn from, rows to judge by, …) -> the row of `eval`."""

    def run(model: Model, train, test, names: str = "abc", **more) -> dict[str, object]:
        parts = {"train": (train, more), "test": (test, {})}
        for name, (X, beside) in parts.items():
            time = {"sequence": np.arange(len(X)) // 15} if model.makes == "series" else {}
            write(tmp_path / f"{name}.csv", X, names, **beside, **time)
        command, *options = model.line.split()
        weights = ["--weights", "w"] if more else []
        ended = herd(command, "train.csv", *options, *weights, "--split", "1,0,0", "-q", "-o", "m.h5")
        assert ended.code == 0, ended.err
        found = herd("eval", "m.h5", "--data", "test.csv", "--format", "json")
        assert found.code == 0, found.err
        return json.loads(found.out)[0]

    return run


def alike(model: Model, found, expected, units: float = 0.0) -> None:
    """Figures as expected; those in nats a row are lower by the logarithms of units."""
    for name in (*model.likelihoods, *model.same):
        if name == "verdict":
            assert found[name] == expected[name]
            continue
        value = expected[name] - (units if name in model.likelihoods else 0.0)
        assert found[name] == pytest.approx(value, rel=model.near, abs=model.near), name


@pytest.mark.parametrize("name", MODELS)
def test_figures_depend_on_nothing_that_says_nothing(judged, name):
    model = MODELS[name]
    random = np.random.default_rng(5)
    make = {"clusters": clusters, "series": series, "sources": sources}[model.makes]
    both = make(random, 180 if model.makes != "sources" else 600)
    cut = len(both) * 2 // 3
    once, test = both[:cut], both[cut:]
    train = once if "copies" in model.but else np.concatenate([once, once[:COPIES]])
    plain = judged(model, train, test)
    # units, origins and orders, as far as they do not matter, all at once
    units = np.ones(3) if "scale" in model.but else UNITS
    origin = np.zeros(3) if "shift" in model.but else ORIGIN * units
    order = np.arange(len(train)) if "rows" in model.but else random.permutation(len(train))
    place = [2, 0, 1]
    moved = judged(model, (train * units + origin)[order][:, place], (test * units + origin)[:, place], "cab")
    alike(model, moved, plain, float(np.log(units).sum()))
    flat = judged(model, np.insert(train, 1, 3.0, axis=1), np.insert(test, 1, 3.0, axis=1), "axbc")
    if "constant" not in model.but:
        assert flat["verdict"] == plain["verdict"]
    if "gain" in model.same and "constant" not in model.but:
        assert flat["gain"] == pytest.approx(plain["gain"], rel=model.near, abs=model.near)
    if "copies" not in model.but:
        alike(model, judged(model, once, test, w=1.0 + (np.arange(cut) < COPIES)), plain)
    if "absent" not in model.but:
        spoiled, weight = np.insert(train, 7, 1e3, axis=0), np.insert(np.ones(len(train)), 7, 0.0)
        alike(model, judged(model, spoiled, test, w=weight), plain)


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
