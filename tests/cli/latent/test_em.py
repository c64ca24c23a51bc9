"""`herd em` as a process: what it writes, what it reads, that nothing but rows and options decides the bytes, and what it refuses."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from herdcli.artifacts import load


def table(path, rows, names):
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(names)
        out.writerows(rows)
    return path


@pytest.fixture
def rows(tmp_path):
    """Three clusters of 60 rows in three columns, named by their class."""
    draws = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 60)
    X = np.array([[0, 0, 0], [8, 0, 1], [0, 9, 2]])[y] + draws.normal(size=(180, 3))
    made = [[*(f"{value:.6f}" for value in row), "abc"[label]] for row, label in zip(X, y, strict=True)]
    table(tmp_path / "rows.csv", made, ["u", "v", "w", "class"])
    return made


def figures(herd, *paths):
    ended = herd("eval", *paths, "--format", "json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def test_without_options_the_number_of_components_is_found(herd, rows):
    made = herd("em", "rows.csv", "--label", "class", "-o", "a.h5")
    assert made.code == 0, made.err
    assert "3 components (best of 5 tried)" in made.err
    row = figures(herd, "a.h5")[0]
    assert (row["components"], row["floors"], row["rise"] < 1e-9) == (3, 0, True)
    assert row["adjusted_rand"] > 0.9
    assert row["log_likelihood"] > row["log_likelihood_baseline"]
    assert row["verdict"] == "ok"
    assert row["log_likelihood"] > row["log_likelihood_baseline"]
    assert herd("eval", "a.h5", "--require", "rise<1e-9").code == 0
    assert herd("eval", "a.h5", "--require", "components<3").code == 1


@pytest.mark.parametrize("criterion", ["aic", "icl", "valid"])
def test_a_range_is_judged_by_a_criterion(herd, rows, criterion):
    made = herd("em", "rows.csv", "--components", "1-4", "--covariance", "tied", "--criterion", criterion, "-o", "a.h5")
    assert made.code == 0, made.err
    assert "best of 4 tried" in made.err
    assert figures(herd, "a.h5")[0]["components"] >= 3


OPTIONS = {
    "range": ("--components", "1-3"),
    "restarts": ("--components", "3", "--starts", "3", "--init", "random"),
    "kmeans": ("--model", "kmeans", "--components", "3"),
    "fa": ("--model", "fa", "--components", "1-2", "--rotation", "varimax"),
}


@pytest.mark.parametrize("line", OPTIONS.values(), ids=OPTIONS)
def test_threads_and_kernels_and_pipes_leave_the_bytes_alone(herd, rows, tmp_path, line):
    plain = herd("em", "rows.csv", *line).out
    assert plain
    assert herd("em", "rows.csv", *line, "-j", 2).out == plain
    assert herd("em", *line, stdin=(tmp_path / "rows.csv").read_bytes()).out == plain


@pytest.mark.parametrize("line", [OPTIONS["range"], OPTIONS["kmeans"]], ids=["range", "kmeans"])
def test_a_run_that_is_cut_short_goes_on_to_the_same_bytes(herd, rows, tmp_path, line):
    line = ("--label", "class", *line)
    whole = herd("em", "rows.csv", *line).out
    state = stopped(rows, line, tmp_path)
    made = herd("em", "rows.csv", *line, "--checkpoint", state, "--resume")
    assert "resuming from step 4" in made.err
    assert made.out == whole


def stopped(rows, line, tmp_path):
    """The checkpoint of a run after four steps."""
    from herdcli.artifacts import save_checkpoint
    from herdcli.artifacts.sealed import provenance
    from herdcli.artifacts.tables import dataset_preparation
    from herdcli.cli.em import inputs
    from herdcli.cli.em.command import command
    from herdcli.cli.em.request import Request
    from herdcli.cli.frame.history.request import settings_from_request
    from herdcli.cli.frame.run.console import Console
    from herdcli.cli.frame.run.session import Session
    from herdcli.em.driver import EMSettings
    from herdcli.em.fitting import prepare_fit

    context = command.make_context("em", [str(tmp_path / "rows.csv"), *line])
    names = Request.__dataclass_fields__
    asked = Request(**{name: context.params[name] for name in names}).resolve_options(frozenset())
    session = Session("em", Console("em", -1), asked, set(), "-", True, 1, None, None, None, False, False)
    with dataset_preparation.use_split_rule(session.rule):
        read = inputs.read_inputs(session, asked)
    search = prepare_fit(read.rows, read.asked, settings_from_request(EMSettings, asked)).search
    state = search.init()
    for _ in range(4):
        state = search.step(state)
    path = tmp_path / "state.h5"
    save_checkpoint(str(path), state, provenance.record_digest(session.record()))
    return path


def test_a_component_for_each_class_learns_from_rows_without_labels_too(herd, rows, tmp_path):
    some = [[*row[:3], row[3] if index % 4 == 0 else ""] for index, row in enumerate(rows)]
    table(tmp_path / "half.csv", some, ["u", "v", "w", "class"])
    assert herd("em", "half.csv", "--per-class", "-q", "-o", "half.h5").code == 0
    assert herd("em", "rows.csv", "--per-class", "-q", "-o", "all.h5").code == 0
    half, every = figures(herd, "half.h5", "all.h5")
    assert half["error"] <= 0.1
    assert every["error"] <= 0.05
    assert every["iterations"] == 3  # one M step says all, and the next ones gain nothing
    ended = herd("apply", "half.h5", "half.csv", "--want", "clusters", "-o", "found.csv")
    assert ended.code == 0, ended.err
    with open(tmp_path / "found.csv") as file:
        found = [row["y"] for row in csv.DictReader(file)]
    assert np.mean([name == row[3] for name, row in zip(found, rows, strict=True)]) > 0.95


def test_missing_values_are_conditioned_on_and_filled_in(herd, rows, tmp_path):
    holes = [
        [("" if (index + column) % 9 == 0 and column < 3 else cell) for column, cell in enumerate(row)] for index, row in enumerate(rows)
    ]
    table(tmp_path / "holes.csv", holes, ["u", "v", "w", "class"])
    for model, options in (("mixture", ("--components", 3)), ("factors", ("--model", "ppca", "--components", 2))):
        assert herd("em", "holes.csv", *options, "-q", "-o", f"{model}.h5").code == 0
        assert figures(herd, f"{model}.h5")[0]["rise"] < 1e-9
        ended = herd("apply", f"{model}.h5", "holes.csv", "--want", "completed", "-o", "whole.csv")
        assert ended.code == 0, ended.err
        with open(tmp_path / "whole.csv") as file:
            whole = list(csv.DictReader(file))
        truth = np.array([[float(cell) for cell in row[:3]] for row in rows])
        found = np.array([[float(row[name]) for name in "uvw"] for row in whole])
        gaps = np.array([[cell == "" for cell in row[:3]] for row in holes])
        assert (np.abs(found - truth)[~gaps] == 0).all()
        mean = np.array([truth[~gaps[:, column], column].mean() for column in range(3)])
        assert np.square(found - truth)[gaps].mean() < np.square(mean - truth)[gaps].mean()
    refused = herd("em", "holes.csv", "--model", "kmeans", "--components", "3")
    assert refused.code == 65
    assert (
        "values are missing, which k-means cannot use\nhint: use --model gmm --covariance spherical, which handles missing values\n"
        in refused.err
    )
    assert herd("ica", "holes.csv").code == 65  # other commands read no gaps


def test_weights_are_counts(herd, rows, tmp_path):
    weights = np.random.default_rng(1).integers(1, 4, len(rows))
    heavy = [[*row[:3], weight] for row, weight in zip(rows, weights, strict=True)]
    many = [row[:3] for row, weight in zip(rows, weights, strict=True) for _ in range(weight)]
    table(tmp_path / "heavy.csv", heavy, ["u", "v", "w", "count"])
    table(tmp_path / "many.csv", many, ["u", "v", "w"])
    for name, more in (("heavy", ("--weights", "count")), ("many", ())):
        line = ("em", f"{name}.csv", "--components", 1, "--split", "1,0,0", *more, "-q", "-o", f"{name}.h5")
        assert herd(*line).code == 0
    heavy, many = figures(herd, "heavy.h5", "many.h5")
    assert heavy["log_likelihood_train"] == pytest.approx(many["log_likelihood_train"], abs=1e-10)
    assert heavy["bic"] == pytest.approx(many["bic"], rel=1e-10)


def test_a_run_goes_on_from_a_model_or_begins_at_rows(herd, rows, tmp_path):
    line = ("--model", "kmeans", "--components", 3)
    assert herd("em", "rows.csv", "--label", "class", *line, "-q", "-o", "a.h5").code == 0
    assert herd("em", "rows.csv", "--label", "class", "--model", "kmeans", "--init", "a.h5", "-q", "-o", "b.h5").code == 0
    first, second = figures(herd, "a.h5", "b.h5")
    assert first["squared_error"] == pytest.approx(second["squared_error"], rel=1e-12)
    table(tmp_path / "centres.csv", [[0, 0, 0], [5, 0, 1], [0, 6, 2]], ["u", "v", "w"])
    assert herd("em", "rows.csv", "--label", "class", "--init", "centres.csv", "-q", "-o", "c.h5").code == 0
    assert figures(herd, "c.h5")[0]["components"] == 3


def test_minibatches_come_near_whole_passes(herd, rows):
    line = ("em", "rows.csv", "--model", "kmeans", "--components", 3, "-o")
    assert herd(*line, "a.h5").code == 0
    assert "em: 3 clusters, 20 minibatches, squared error " in herd(*line, "b.h5", "--minibatch", 20).err
    whole, batches = figures(herd, "a.h5", "b.h5")
    assert whole["squared_error_train"] <= batches["squared_error_train"] < 1.05 * whole["squared_error_train"]


def test_columns_are_matched_by_name(herd, rows, tmp_path):
    assert herd("em", "rows.csv", "--label", "class", "--components", 3, "-q", "-o", "a.h5").code == 0
    table(tmp_path / "turned.csv", [[row[2], row[0], row[1]] for row in rows], ["w", "u", "v"])
    assert herd("apply", "a.h5", "rows.csv", "--want", "responsibilities", "-q", "-o", "a.csv").code == 0
    assert herd("apply", "a.h5", "turned.csv", "--want", "responsibilities", "-q", "-o", "b.csv").code == 0
    first, second = (np.loadtxt(tmp_path / name, delimiter=",", skiprows=1, usecols=(0, 1, 2)) for name in ("a.csv", "b.csv"))
    assert (first == second).all()


@pytest.mark.parametrize(
    ("line", "kind"),
    [(("--components", "3"), "clusters"), (("--model", "fa", "--components", "2"), "loadings"), (("--components", "3"), "ledger")],
)
def test_pictures_are_drawn_and_equal_runs_draw_equal_ones(herd, rows, tmp_path, line, kind):
    pytest.importorskip("matplotlib")
    assert herd("em", "rows.csv", *line, "-q", "-o", "a.h5").code == 0
    for name in ("a.png", "b.png"):
        ended = herd("eval", "a.h5", "--plot", kind, name)
        assert ended.code == 0, ended.err
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


REFUSED = {
    "few rows": (
        ("few.csv", "--components", "9", "--split", "1,0,0"),
        65,
        "few.csv: 3 rows are too few for 9 components\nhint: use --components 3 or fewer\n",
    ),
    "no number": (("rows.csv", "--model", "kmeans"), 2, "--model kmeans needs a number of clusters\nhint: use --components 8\n"),
    "a range of clusters": (
        ("few.csv", "--model", "kmeans", "--components", "1-2"),
        2,
        "k-means has no likelihood, so it cannot choose the number of clusters\nhint: use --components N, or --model gmm\n",
    ),
    "too many factors": (
        ("few.csv", "--model", "fa", "--components", "2"),
        2,
        "fa cannot learn 2 factors from 2 columns\nhint: use --components from 1 to 1\n",
    ),
    "no labels": (
        ("few.csv", "--per-class"),
        65,
        "few.csv: there are no labels, which --per-class needs\nhint: name the column of labels: --label COLUMN\n",
    ),
    "a number and classes": (
        ("few.csv", "--per-class", "--components", "2", "--model", "hmm"),
        2,
        "--per-class makes one state for each class\nhint: leave out --components\n",
    ),
    "no range": (
        ("few.csv", "--components", "3-1"),
        2,
        "Invalid value for '--components': '3-1' is neither a number from 1 nor a range such as 1-10\nhint: try 'herd em --help'\n",
    ),
    "another start": (("few.csv", "--init", "pca"), 2, "--init pca cannot start --model gmm\nhint: use --init random\n"),
    "icl of factors": (
        ("few.csv", "--model", "fa", "--components", "1", "--criterion", "icl"),
        2,
        "--criterion icl is for mixtures\nhint: use --criterion bic, aic or valid\n",
    ),
    "a singular covariance": (
        ("same.csv", "--floor", "0", "--components", "1"),
        1,
        "the covariance of component 0 is singular\nhint: use a --floor above 0, or fewer --components\n",
    ),
    "not Parquet": (
        ("few.csv", "--on-disk"),
        65,
        "few.csv: --on-disk needs a Parquet or HDF5 file\nhint: make one: herd convert INPUT -o FILE.parquet\n",
    ),
}


@pytest.mark.parametrize(("line", "code", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused_in_one_line(herd, rows, tmp_path, line, code, message):
    table(tmp_path / "few.csv", [[1, 2], [3, 4], [5, 7]], ["a", "b"])
    table(tmp_path / "same.csv", [[1, 2]] * 20, ["a", "b"])
    ended = herd("em", *line, "-q", "-o", "x.h5")
    assert (ended.code, ended.err) == (code, f"herd em: {message}")
    assert not (tmp_path / "x.h5").exists()


def test_constant_columns_and_repeated_rows_are_floored_and_told(herd, tmp_path):
    draws = np.random.default_rng(0).normal(size=60)
    table(tmp_path / "constant.csv", [[value, 7] for value in draws], ["a", "b"])
    ended = herd("em", "constant.csv", "--components", "1", "-o", "x.h5")
    assert ended.code == 0
    assert "em: column 'b' is constant and not used by the fit; its variance is set to 8.63e-07\n" in ended.err
    assert "raised" not in ended.err
    ended = herd("em", "constant.csv", "--components", "2", "--bayes", "-o", "x.h5")
    assert "em: warning: column 'b' is constant, but --bayes still spends parameters on it in every component; leave it out\n" in ended.err
    ended = herd("em", "constant.csv", "--components", "1", "--floor", "0.5", "-o", "x.h5")
    assert "its variance is set to 0.5\n" in ended.err
    table(tmp_path / "double.csv", [[value, 1e6 * value, 7, 8] for value in draws], ["a", "b", "c", "d"])
    ended = herd("em", "double.csv", "--components", "1", "-o", "x.h5")
    assert "em: 2 columns are constant ('c', 'd') and not used by the fit; their variances are set to " in ended.err
    line = "1 variance was raised to the floor of its column: columns 'a' and 'b' depend on each other\n"
    assert f"em: warning: {line}" in ended.err
    table(tmp_path / "repeated.csv", [[index % 3, (index % 3) ** 2] for index in range(60)], ["a", "b"])
    ended = herd("em", "repeated.csv", "--components", "3", "-o", "x.h5")
    assert ended.code == 0
    assert "em: warning: 6 variances were raised to the floor of their columns: " in ended.err
    assert ended.err.endswith(
        ": columns 'a' and 'b' hardly vary, or depend on each other, within a component; try fewer --components, or --covariance diagonal\n"
    )
    assert figures(herd, "x.h5")[0]["floors"] == 6


def test_one_hot_columns_at_their_floors_are_named(herd, tmp_path):
    """Neither fewer components nor diagonal covariances help against columns of 0 and 1; leaving the text out does."""
    random = np.random.default_rng(0)
    cells = [f"{6 * (i % 3) + random.normal():.3f},{random.normal():.3f},{'abc'[i % 3]}" for i in range(90)]
    (tmp_path / "t.csv").write_text("\n".join(["u,v,kind", *cells]) + "\n")
    for count, whose, why in (("3", "their columns", "hardly vary within a component"), ("1", "its column", "depend on each other")):
        ended = herd("em", "t.csv", "--components", count, "-o", "x.h5")
        assert ended.code == 0
        assert f" of {whose}: the one-hot columns of 'kind' {why}; leave text columns out: --categorical none\n" in ended.err
    ended = herd("em", "t.csv", "--components", "3", "--categorical", "none", "-o", "x.h5")
    assert (ended.code, "raised to the floor" in ended.err) == (0, False)


def test_more_factors_than_the_columns_determine_are_told(herd, rows, tmp_path):
    made = herd("em", "rows.csv", "--label", "class", "--model", "fa", "--components", 1, "-o", "a.h5")
    assert "not unique" not in made.err  # three columns determine one, (3 − 1)² = 3 + 1
    made = herd("em", "rows.csv", "--label", "class", "--model", "fa", "--components", 2, "-o", "b.h5")
    assert "em: warning: 3 columns determine at most 1 factor, so the 2 factors of this model are not unique" in made.err
    table(tmp_path / "two.csv", [list(row) for row in np.random.default_rng(1).normal(size=(60, 2)).tolist()], ["a", "b"])
    made = herd("em", "two.csv", "--model", "fa", "--components", "1", "-o", "x.h5")
    assert "em: warning: 2 columns determine no factor, so the 1 factor of this model is not unique" in made.err
    assert herd("eval", "a.h5", "b.h5", "--require", "rise<1e-9", "--require", "iterations<10", "-q").code == 0


def test_variational_bayes_tells_its_bound_and_empties_components(herd, rows):
    made = herd("em", "rows.csv", "--label", "class", "--bayes", "-o", "a.h5")
    assert made.code == 0, made.err
    assert "bound -" in made.err
    assert "em: 3 of 10 components hold rows; the others are empty" in made.err
    row = figures(herd, "a.h5")[0]
    assert (row["components"], row["occupied"], row["bic"], row["log_likelihood_train"]) == (10, 3, None, None)
    assert row["rise"] < 1e-9
    assert row["bound"] < row["log_likelihood"] + 1.0
    assert row["adjusted_rand"] > 0.9
    made = herd("em", "rows.csv", "--label", "class", "--bayes", "--components", "1-4", "-o", "b.h5")
    assert "3 components (best of 4 tried)" in made.err
    ended = herd("em", "rows.csv", "--label", "class", "--bayes", "--covariance", "tied")
    assert (ended.code, ended.err) == (2, "herd em: --bayes uses full covariances, not tied\nhint: leave out --covariance\n")
    assert herd("apply", "a.h5", "rows.csv", "--want", "responsibilities", "-o", "r.csv").code == 0
    assert herd("em", "rows.csv", "--label", "class", "--init", "a.h5", "-q", "-o", "c.h5").code == 0


def test_other_rows_judge_a_model_by_names_and_labels(herd, rows, tmp_path):
    """The rows of split 2 handed over as a file give the figures that the model has of them; columns in another order too."""
    assert herd("em", "rows.csv", "--per-class", "-q", "-o", "a.h5").code == 0
    inside = figures(herd, "a.h5")[0]
    from herdcli.artifacts import load

    held = load(str(tmp_path / "a.h5")).value
    names = held.known.class_names
    made = [[names[y], *(repr(float(x)) for x in row[::-1])] for row, y in zip(held.holdout, held.known.holdout_y, strict=True)]
    table(tmp_path / "test.csv", made, ["class", "w", "v", "u"])
    ended = herd("eval", "a.h5", "--data", "test.csv", "--format", "json")
    assert ended.code == 0, ended.err
    row = json.loads(ended.out)[0]
    for name in ("log_likelihood", "log_likelihood_baseline", "adjusted_rand", "mutual_information", "error"):
        assert row[name] == pytest.approx(inside[name], rel=1e-12), name
    table(tmp_path / "other.csv", [["z", *row[1:]] for row in made], ["class", "w", "v", "u"])
    ended = herd("eval", "a.h5", "--data", "other.csv")
    assert ended.code == 65
    assert ended.err.endswith("\nherd eval: other.csv: has class 'z', but the model knows only a, b, c\n")
    table(tmp_path / "few.csv", [row[:3] for row in made], ["class", "w", "v"])
    assert herd("eval", "a.h5", "--data", "few.csv").code == 65
    for line in (("--model", "kmeans", "--components", 3), ("--model", "fa", "--components", 1)):
        assert herd("em", "rows.csv", "--label", "class", *line, "-q", "-o", "b.h5").code == 0
        inside, row = figures(herd, "b.h5")[0], json.loads(herd("eval", "b.h5", "--data", "test.csv", "--format", "json").out)[0]
        numbers = [name for name, item in inside.items() if isinstance(item, float)]
        assert numbers
        assert [row[name] for name in numbers] == pytest.approx([inside[name] for name in numbers], rel=1e-9)
        assert row["verdict"] == inside["verdict"]


def test_axes_of_wide_rows_need_no_covariance(herd, tmp_path):
    """By the inner products of few rows, by a randomised range and by EM from random loadings: the same plane."""
    X = np.random.default_rng(3).normal(size=(50, 60)) * 0.7 ** np.arange(60)
    names = [f"c{j}" for j in range(60)]
    table(tmp_path / "wide.csv", X.tolist(), names)
    found = {}
    for how in ("auto", "randomised", "random"):
        option = ("--init", "random", "--tolerance", "1e-12") if how == "random" else ("--solver", how)
        ended = herd("em", "wide.csv", "--model", "pca", "--components", "3", *option, "--split", "1,0,0", "-o", f"{how}.h5")
        assert ended.code == 0, ended.err
        found[how] = -load(str(tmp_path / f"{how}.h5")).value.ledger.log_likelihood[-1]
    values = np.linalg.eigvalsh(np.cov(X.T, bias=True))
    assert found == pytest.approx(dict.fromkeys(found, values[:-3].sum()), rel=1e-6)
    assert herd("em", "wide.csv", "--model", "pca", "--solver", "randomised", "-j", "2", "--components", "3", "-o", "2.h5").code == 0
    assert herd("em", "wide.csv", "--model", "pca", "--solver", "randomised", "-j", "1", "--components", "3", "-o", "1.h5").code == 0
    assert (tmp_path / "1.h5").read_bytes() == (tmp_path / "2.h5").read_bytes()
    ended = herd("em", "wide.csv", "--model", "pca", "--split", "1,0,0", "-o", "all.h5")
    assert "49 factors, squared error " in ended.err


def test_a_randomised_range_is_of_complete_rows_and_its_own_start(herd, rows, tmp_path):
    table(tmp_path / "gaps.csv", [[1, 2, 3], ["", 3, 4], [2, 5, 1], [4, 4, 4]], ["a", "b", "c"])
    line = ("em", "gaps.csv", "--model", "pca", "--components", "1", "--split", "1,0,0", "-o", "a.h5")
    ended = herd(*line, "--solver", "randomised")
    assert ended.code == 65
    assert ended.err.endswith("gaps.csv: 1 value is missing, which --solver randomised cannot use\nhint: use --solver lapack\n")
    assert herd(*line).code == 0
    ended = herd(*line, "--solver", "randomised", "--init", "random")
    assert ended.code == 2
    assert ended.err.endswith("--solver randomised starts from random directions, not from --init\nhint: leave out one of them\n")
    ended = herd("em", "rows.csv", "--components", "2", "--solver", "lapack", "-o", "b.h5")
    assert ended.err.startswith("em: warning: --solver has no effect with --model gmm\n")


def test_several_components_for_each_class(herd, tmp_path):
    """Two classes of two far clusters each, crosswise: one component a class cannot tell them, two can, and apply says classes."""
    random = np.random.default_rng(1)
    corner = np.tile([[0, 0], [9, 9], [0, 9], [9, 0]], (60, 1))
    X = corner + random.normal(size=corner.shape)
    names = np.tile(["same", "same", "other", "other"], 60)
    names[::7] = ""
    table(tmp_path / "x.csv", [[*map(repr, row.tolist()), name] for row, name in zip(X, names, strict=True)], ["a", "b", "class"])
    line = ("em", "x.csv", "--per-class", "--label", "class", "--split", ".6,.2,.2")
    told = herd(*line, "--covariance", "spherical", "--components", "1-3", "-o", "a.h5")
    assert told.code == 0, told.err
    assert "em: 2 components for each of 2 classes (best of 3 tried), " in told.err
    (row,) = figures(herd, "a.h5", "--require", "rise<1e-9")
    assert (row["error"], row["components"]) == (0.0, 4)
    assert row["adjusted_rand"] == 1.0
    assert herd(*line, "--covariance", "spherical", "-o", "b.h5").code == 0
    assert figures(herd, "b.h5")[0]["error"] > 0.2
    assert herd("apply", "a.h5", "x.csv", "--label", "class", "--want", "responsibilities", "-o", "r.csv").code == 0
    with open(tmp_path / "r.csv", newline="") as file:
        head, *made = csv.reader(file)
    assert head[:4] == ["other.1", "other.2", "same.1", "same.2"]
    assert np.array([row[:4] for row in made], dtype=float).sum(axis=1) == pytest.approx(1.0)
    assert herd("apply", "a.h5", "x.csv", "--label", "class", "-o", "c.h5").code == 0
    clusters = load(str(tmp_path / "c.h5")).value
    truth = np.tile([1, 1, 0, 0], 60)
    assert clusters.class_names == ["other", "same"]
    assert (clusters.y == truth).mean() > 0.99


@pytest.mark.parametrize("model", ["gmm", "kmeans", "ppca", "pca", "minibatch"])
@pytest.mark.parametrize("suffix", ["parquet", "h5"])
def test_rows_on_disk_give_the_model_that_rows_in_memory_give(herd, tmp_path, model, suffix):
    """9,000 weighted rows with the splits of their file: training rows are scattered over it, and over three blocks."""
    random = np.random.default_rng(2)
    X = random.normal(size=(9000, 3)) + 5 * random.integers(0, 2, size=(9000, 1))
    split = random.choice(["train", "valid", "test"], p=[0.6, 0.2, 0.2], size=9000)
    made = [[*map(repr, row), w, part] for row, w, part in zip(X.tolist(), random.random(9000), split, strict=True)]
    table(tmp_path / "rows.csv", made, ["a", "b", "c", "weight", "split"])
    assert herd("convert", "rows.csv", "-o", f"rows.{suffix}").code == 0
    options = {"minibatch": ("kmeans", "--minibatch", "20"), "pca": ("pca", "--solver", "randomised")}.get(model, (model,))
    line = ("em", f"rows.{suffix}", "--model", *options, "--components", "2", "--iterations", "5", "-q")
    for name, more in (("memory", ()), ("disk", ("--on-disk",)), ("two", ("--on-disk", "-j", "2"))):
        ended = herd(*line, *more, "-o", f"{name}.h5")
        assert ended.code == 0, ended.err
    assert (tmp_path / "disk.h5").read_bytes() == (tmp_path / "memory.h5").read_bytes()
    assert (tmp_path / "disk.h5").read_bytes() == (tmp_path / "two.h5").read_bytes()


def test_foreign_files_with_gaps_and_labels_go_on_disk_too(herd, tmp_path):
    import h5py
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(6)
    X, split = random.normal(size=(300, 2)), np.tile([0, 0, 1], 100)
    X[::7, 1] = np.nan
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["X"], file["split"], file["y"] = X, split, np.tile([0, 1], 150)
    values = {"a": X[:, 0], "b": pa.array(X[:, 1], from_pandas=True), "split": split, "y": np.tile(["p", "q"], 150)}
    pq.write_table(pa.table(values), tmp_path / "rows.parquet", row_group_size=70)
    for name in ("rows.h5", "rows.parquet"):
        models = []
        roles = () if name == "rows.h5" else ("--label", "y", "--split-column", "split")
        for more in ((), ("--on-disk",)):
            ended = herd("em", name, "--components", "2", *roles, *more, "-o", "a.h5")
            assert ended.code == 0, ended.err
            assert f"{name}: split has only 0 and 1, read as train and test\n" in ended.err
            models.append(load(str(tmp_path / "a.h5")).value)
        assert f"{name}: labels are ignored\n" in ended.err
        np.testing.assert_array_equal(models[0].covariance, models[1].covariance)
        np.testing.assert_array_equal(models[0].holdout, models[1].holdout)
        assert models[1].known.missing == models[0].known.missing > 0


def test_rows_on_disk_are_divided_as_asked_and_else_all_learned_from(herd, tmp_path):
    table(tmp_path / "rows.csv", np.random.default_rng(0).normal(size=(500, 2)).tolist(), ["a", "b"])
    assert herd("convert", "rows.csv", "-o", "rows.parquet").code == 0
    for name, source in (("memory", "rows.csv"), ("disk", "rows.parquet")):
        on_disk = ("--on-disk",) if name == "disk" else ()
        assert herd("em", source, *on_disk, "--components", "2", "--split", ".5,.2,.3", "--seed", "4", "-o", f"{name}.h5").code == 0
    one, other = (load(str(tmp_path / f"{name}.h5")).value for name in ("memory", "disk"))
    assert other.known.rows == 250
    np.testing.assert_array_equal(other.mean, one.mean)
    np.testing.assert_array_equal(other.holdout, one.holdout)
    assert herd("em", "rows.parquet", "--on-disk", "--components", "2", "-o", "all.h5").code == 0
    whole = load(str(tmp_path / "all.h5")).value
    assert (whole.known.rows, whole.holdout) == (500, None)


def test_what_cannot_be_put_on_disk_is_told(herd, rows, tmp_path):
    import h5py

    with h5py.File(tmp_path / "bad.h5", "w") as file:
        file["X"] = np.array([[1.0, 2.0], [np.inf, 1.0]])
    with h5py.File(tmp_path / "flat.h5", "w") as file:
        file["X"] = np.arange(5.0)
    with h5py.File(tmp_path / "short.h5", "w") as file:
        file["X"], file["split"] = np.ones((4, 2)), np.zeros(3, dtype=int)
    expected = {
        "bad.h5": (65, "bad.h5: row 1 has an infinite value\nhint: write NaN for missing values\n"),
        "flat.h5": (65, "flat.h5: --on-disk needs dense numbers in /X (n, d), but the file has none\nhint: leave out --on-disk\n"),
        "short.h5": (65, "short.h5: /split has 3 rows, but /X has 4\nhint: give one entry for each row of /X\n"),
        "absent.h5": (66, "absent.h5: there is no such file\n"),
    }
    for name, (code, message) in expected.items():
        ended = herd("em", name, "--on-disk", "--components", "1", "-o", "a.h5")
        assert (ended.code, ended.err.endswith(message)) == (code, True), ended.err
    ended = herd("em", "short.h5", "--on-disk", "--weights", "w", "-o", "a.h5")
    assert ended.err == (
        "herd em: --on-disk takes weights only from the column 'weight'\nhint: leave out --weights, or rename the column\n"
    )
    assert ended.code == 2


def test_full_covariances_of_few_rows_are_shrunk_and_said_to_be(herd, tmp_path):
    """Correlated columns with 2 rows for each column and component: by maximum likelihood far worse than one Gaussian."""
    random = np.random.default_rng(3)
    root, centre = random.normal(size=(12, 12)), random.normal(size=(4, 12)) * 2
    X = centre[random.integers(0, 4, 200)] + random.normal(size=(200, 12)) @ root
    names = ",".join(f"c{k}" for k in range(12))
    np.savetxt(tmp_path / "t.csv", X, delimiter=",", header=names, comments="")
    line = ("em", "t.csv", "--components", "4", "--split", ".5,0,.5")
    ended = herd(*line, "-o", "default.h5")
    assert ended.code == 0
    assert "100 rows are few for 4 full covariances of 12 columns" in ended.err
    assert "(--shrinkage 0 turns this off)" in ended.err
    assert load(str(tmp_path / "default.h5")).value.shrinkage == pytest.approx(2.5 * 12 / (100 / 48))
    plain = herd(*line, "--shrinkage", "0", "-o", "plain.h5")
    assert "rows are few" not in plain.err
    assert "worse than baseline" in plain.err
    good, bad = (json.loads(herd("eval", name, "--format", "json").out)[0] for name in ("default.h5", "plain.h5"))
    assert good["log_likelihood"] > bad["log_likelihood"] + 5
    assert good["rise"] < 1e-9
    assert load(str(tmp_path / "plain.h5")).value.shrinkage == 0
    refused = herd(*line, "--shrinkage", "3", "--bayes", "-o", "b.h5")
    assert (refused.code, refused.err) == (
        2,
        "herd em: --bayes has its own prior, so it does not work with --shrinkage\nhint: leave out --shrinkage\n",
    )
    tied = herd(*line, "--shrinkage", "3", "--covariance", "tied", "-o", "b.h5")
    assert (tied.code, tied.err.splitlines()[0]) == (0, "em: warning: --shrinkage has no effect with --covariance tied")
