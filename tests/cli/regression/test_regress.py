"""herd regress from the shell: files, tables, messages."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from herdcli import artifacts


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = 1 + X @ [2.0, -1.0] + rng.normal(size=300)
    count = rng.poisson(np.exp(0.5 * X[:, 0]))
    lines = ["a,b,count,y", *(f"{a:.5f},{b:.5f},{c},{v:.5f}" for (a, b), c, v in zip(X, count, y, strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    swapped = ["b,extra,a", *(f"{b:.5f},0,{a:.5f}" for a, b in X)]
    (tmp_path / "swapped.csv").write_text("\n".join(swapped) + "\n")


def test_coefficients_as_a_table(herd, table, tmp_path):
    ended = herd("regress", "t.csv", "-o", "c.json", "-q")
    assert (ended.code, ended.err) == (0, "")
    rows = json.loads((tmp_path / "c.json").read_text())
    assert [row["term"] for row in rows] == ["a", "b", "count", "intercept"]
    found = {row["term"]: row for row in rows}
    assert found["a"]["low"] < 2 < found["a"]["high"]
    assert found["a"]["p"] < 1e-20
    assert found["count"]["p"] > 1e-4


def test_counts_by_name_offset_and_weights(herd, table):
    ended = herd("regress", "t.csv", "--target", "count", "--family", "poisson", "--split", "1,0,0", "-o", "m.h5")
    assert ended.code == 0
    assert "poisson, 300 training rows × 3 features" in ended.err
    ended = herd("regress", "t.csv", "--target", "count", "--family", "poisson", "--weights", "b", "-o", "m.h5")
    assert ended.code == 65
    assert "weights of rows must be finite, not negative" in ended.err


def test_predictions_are_matched_by_name(herd, table, tmp_path):
    assert herd("regress", "t.csv", "--target", "count", "--family", "poisson", "-o", "m.h5").code == 0
    ended = herd("apply", "m.h5", "swapped.csv", "-o", "p.csv")
    assert ended.code == 65
    assert "lacks column y that the model needs" in ended.err


def test_eval_has_a_baseline_and_a_verdict(herd, table):
    assert herd("regress", "t.csv", "-o", "m.h5", "-q").code == 0
    ended = herd("eval", "m.h5", "--format", "json", "--require", "explained>0.5")
    assert ended.code == 0
    (row,) = json.loads(ended.out)
    assert row["verdict"] == "ok"
    assert row["log_likelihood"] > row["independent"]


def test_same_bytes_from_one_thread_and_two(herd, table, tmp_path):
    for threads in (1, 2):
        assert herd("regress", "t.csv", "-j", threads, "-o", f"{threads}.h5", "-q").code == 0
    assert (tmp_path / "1.h5").read_bytes() == (tmp_path / "2.h5").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--family", "poisson"], 65, "herd regress: t.csv: the target has "),
        (["--target", "q"], 2, "herd regress: t.csv: --target q: there is no such column\nhint: columns: "),
        (["--family", "softmax"], 65, "herd regress: t.csv: the target 'y' holds numbers, but --family softmax needs classes"),
        (["--offset", "q"], 2, "--offset q: there is no such column"),
        (
            ["--iterations", "1", "--on-nonconvergence", "error", "--target", "count", "--family", "poisson"],
            1,
            "not converged after 1 step",
        ),
    ],
)
def test_what_is_refused(herd, table, arguments, code, message):
    ended = herd("regress", "t.csv", *arguments, "-o", "x.h5")
    assert ended.code == code, ended.err
    assert message in ended.err


def test_classes_that_are_told_apart_are_told(herd, tmp_path):
    (tmp_path / "s.csv").write_text("a,y\n" + "".join(f"{i / 10},{'no' if i < 30 else 'yes'}\n" for i in range(60)))
    ended = herd("regress", "s.csv", "-o", "m.h5")
    assert ended.code == 0
    assert "warning: the classes can be separated without error" in ended.err
    assert b"separated" in herd("eval", "m.h5").out


def test_many_coefficients_have_the_same_bytes_from_one_thread_and_two_and_are_told_when_classes_are_apart(herd, tmp_path):
    """51 × 41 of them and two blocks of rows; of as many columns as rows any classes can be told apart."""
    random = np.random.default_rng(1)
    X, y = random.normal(size=(4200, 40)), random.integers(0, 52, 4200)
    np.savez(tmp_path / "many.npz", X=X + 0.3 * random.normal(size=(52, 40))[y], y=y)
    for threads in (1, 2):
        ended = herd("regress", "many.npz", "--l2", "0.01", "--split", "1,0,0", "-j", threads, "-o", f"{threads}.h5")
        assert ended.code == 0, ended.err
        assert "warning" not in ended.err
    assert (tmp_path / "1.h5").read_bytes() == (tmp_path / "2.h5").read_bytes()
    assert artifacts.load(str(tmp_path / "1.h5")).value.converged
    np.savez(tmp_path / "wide.npz", X=random.normal(size=(300, 1000)), y=np.arange(300) % 3)
    ended = herd("regress", "wide.npz", "--max-memory", "2GB", "-o", "w.h5")
    assert ended.code == 0, ended.err
    assert "warning: the classes can be separated without error" in ended.err


def test_other_rows_judge_a_regression_by_the_columns_it_was_fitted_with(herd, table, tmp_path):
    """The training file handed over with its rows in another order of columns: the offset too is found by its name."""
    line = ("regress", "t.csv", "--target", "count", "--family", "poisson", "--offset", "a", "--split", "1,0,0", "-q", "-o", "m.h5")
    assert herd(*line).code == 0
    ended = herd("eval", "m.h5", "--data", "t.csv", "--format", "json")
    assert ended.code == 0, ended.err
    (row,) = json.loads(ended.out)
    assert row["rows"] == 300
    assert row["explained"] == pytest.approx(row["train_explained"], rel=1e-9)
    (tmp_path / "short.csv").write_text("b,count\n1,2\n")
    ended = herd("eval", "m.h5", "--data", "short.csv")
    assert ended.code == 2
    assert "--offset a: there is no such column" in ended.err


def test_predictions_have_the_offset_of_the_fit(herd, table, tmp_path):
    """Means of a Poisson model are counts at each row's exposure: e^(b·x + α + offset)."""
    lines = (tmp_path / "t.csv").read_text().splitlines()
    (tmp_path / "t.csv").write_text("\n".join(line.rpartition(",")[0] for line in lines) + "\n")  # without y
    line = ("regress", "t.csv", "--target", "count", "--family", "poisson", "--offset", "a", "--split", "1,0,0", "-q")
    for suffix in ("csv", "h5"):
        assert herd(*line, "-o", "m.h5").code == 0
        assert herd("convert", "t.csv", "-o", "t.h5", "-q").code == 0
        ended = herd("apply", "m.h5", f"t.{suffix}", "-o", "p.h5")
        assert ended.code == 0, ended.err
        model, made = (artifacts.load(str(tmp_path / name)).value for name in ("m.h5", "p.h5"))
        rows = list(csv.DictReader((tmp_path / "t.csv").open()))
        X = np.array([[float(row[name]) for name in model.feature_names] for row in rows])
        expected = np.exp(X @ model.coefficients[0] + model.intercept[0] + [float(row["a"]) for row in rows])
        np.testing.assert_allclose(made.X[:, 0], expected, rtol=1e-12)
    (tmp_path / "short.csv").write_text("b,c,count\n1,2,0\n")
    ended = herd("apply", "m.h5", "short.csv")
    assert (ended.code, ended.err.splitlines()[0]) == (2, "herd apply: short.csv: --offset a: there is no such column")


def test_other_rows_have_the_classes_of_the_model(herd, tmp_path):
    draws = np.random.default_rng(1)
    lines = [f"{value:.4f},{'no' if value + draws.normal() < 0 else 'yes'}" for value in draws.normal(size=200)]
    (tmp_path / "c.csv").write_text("x,answer\n" + "\n".join(lines) + "\n")
    (tmp_path / "yes.csv").write_text("x,answer\n" + "\n".join(line for line in lines if line.endswith("yes")) + "\n")
    (tmp_path / "maybe.csv").write_text("x,answer\n0,maybe\n1,maybe\n")
    assert herd("regress", "c.csv", "--target", "answer", "-q", "-o", "m.h5").code == 0
    (row,) = json.loads(herd("eval", "m.h5", "--data", "yes.csv", "--format", "json").out)
    assert row["rows"] == sum(line.endswith("yes") for line in lines)
    assert 0 < row["error"] < 0.5
    assert row["error_majority"] == 0
    ended = herd("eval", "m.h5", "--data", "maybe.csv")
    assert ended.code == 65
    assert ended.err.endswith("herd eval: maybe.csv: has class 'maybe', but the model knows only no, yes\n")


@pytest.fixture
def series(tmp_path):
    """Two sequences of 60 rows, mixed, whose errors are correlated in time; and one file whose errors grow with a."""
    rng = np.random.default_rng(1)
    X, noise = rng.normal(size=(120, 2)), rng.normal(size=120)
    for t in range(2, 120):
        noise[t] += 0.7 * noise[t - 2]
    y = 1 + X @ [2.0, -1.0]
    spread = y + rng.normal(size=120) * np.exp(X[:, 0])
    for name, target in (("t.csv", y + noise), ("v.csv", spread)):
        lines = [f"{a!r},{b!r},{'ox'[t % 2]},{v!r}" for t, ((a, b), v) in enumerate(zip(X.tolist(), target.tolist(), strict=True))]
        (tmp_path / name).write_text("a,b,sequence,y\n" + "\n".join(lines) + "\n")
    return X, y + noise


def test_errors_in_time_have_their_correlation_and_sequences_are_cut(herd, series, tmp_path):
    ended = herd("regress", "t.csv", "--target", "y", "--gls", "ar1", "-o", "m.h5")
    assert ended.code == 0, ended.err
    assert "2 sequences of 60 steps, one for each value of the column 'sequence'; the last part of each is held out\n" in ended.err
    assert "regress: errors of rows next to each other have a correlation of 0." in ended.err
    assert "gaussian, 72 training rows × 2 features" in ended.err
    (row,) = json.loads(herd("eval", "m.h5", "--format", "json").out)
    assert (row["gls"], row["verdict"]) == ("ar1", "ok")
    assert 0.4 < row["correlation"] < 0.9
    assert row["log_likelihood"] > row["independent"]
    assert row["log_likelihood"] > row["log_likelihood_alone"]
    assert row["rmse"] < row["rmse_alone"]


def test_rows_in_time_are_judged_and_forecast_by_the_row_before(herd, series, tmp_path):
    """Against the regression's own coefficients and correlation, row by row."""
    y = series[1]
    assert herd("regress", "t.csv", "--target", "y", "--gls", "ar1", "-q", "-o", "m.h5").code == 0
    (row,) = json.loads(herd("eval", "m.h5", "--format", "json").out)
    assert herd("apply", "m.h5", "t.csv", "--want", "forecasts", "-o", "f.csv").code == 0
    assert herd("apply", "m.h5", "t.csv", "-o", "means.csv").code == 0
    found = np.loadtxt(tmp_path / "f.csv", delimiter=",", skiprows=1, usecols=(0, 1))
    mean, rho = np.loadtxt(tmp_path / "means.csv", delimiter=",", skiprows=1, usecols=0), row["correlation"]
    expected = mean.copy()
    expected[2:] += rho * (y - mean)[:-2]
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-9)
    np.testing.assert_allclose(found[2:, 1], found[0, 1] * np.sqrt(1 - rho**2), rtol=1e-9)
    test = np.arange(120) >= 96  # the last fifth of both sequences, each of which follows rows of another split
    errors = (y - expected)[test]
    assert row["rows"] == 24
    assert row["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)))
    deviation = found[2, 1]
    assert row["log_likelihood"] == pytest.approx(np.mean(-0.5 * (errors / deviation) ** 2 - np.log(deviation * np.sqrt(2 * np.pi))))
    (same,) = json.loads(herd("eval", "m.h5", "--data", "t.csv", "--format", "json").out)
    errors = y - expected
    assert same["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)))

    lines = (tmp_path / "t.csv").read_text().splitlines()
    gaps = [",".join([*line.split(",")[:3], ""]) if number in (118, 119, 120) else line for number, line in enumerate(lines)]
    (tmp_path / "g.csv").write_text("\n".join(gaps) + "\n")
    ended = herd("apply", "m.h5", "g.csv", "--want", "forecasts", "-o", "g2.csv")
    assert ended.code == 0, ended.err
    ahead = np.loadtxt(tmp_path / "g2.csv", delimiter=",", skiprows=1, usecols=(0, 1))
    np.testing.assert_allclose(ahead[119, 0], mean[119] + rho**2 * (y - mean)[115], rtol=1e-9)
    np.testing.assert_allclose(ahead[119, 1], found[0, 1] * np.sqrt(1 - rho**4), rtol=1e-9)


def test_forecasts_are_of_rows_in_time(herd, series):
    assert herd("regress", "t.csv", "--target", "y", "--categorical", "none", "-q", "-o", "m.h5").code == 0
    ended = herd("apply", "m.h5", "t.csv", "--want", "forecasts", "-o", "f.csv")
    assert (ended.code, ended.err.splitlines()[-2:]) == (
        2,
        ["herd apply: --want forecasts needs a model that was fitted with --gls ar1", "hint: use --want means"],
    )


@pytest.mark.parametrize("form", ["ar1:0.6", "variance", "variance:a"])
def test_other_rows_judge_generalised_least_squares(herd, series, form):
    """The rows that judged the fit, handed over again: variances of theirs are found by the columns."""
    assert herd("regress", "v.csv", "--target", "y", "--gls", form, "--split", "1,0,0", "-q", "-o", "m.h5").code == 0
    ended = herd("eval", "m.h5", "--data", "v.csv", "--format", "json")
    assert ended.code == 0, ended.err
    (row,) = json.loads(ended.out)
    assert row["rows"] == 120
    assert row["log_likelihood"] > row["independent"]
    plain = herd("regress", "v.csv", "--target", "y", "--split", "1,0,0", "-q", "-o", "p.h5", "--categorical", "none")
    assert plain.code == 0
    if form.startswith("variance"):
        (base,) = json.loads(herd("eval", "p.h5", "--data", "v.csv", "--format", "json").out)
        assert row["log_likelihood"] > base["log_likelihood"] + 0.1


def test_a_file_has_the_covariance_of_the_errors(herd, series, tmp_path):
    X, y = series
    step = np.arange(120) // 2
    omega = np.where(np.arange(120)[:, None] % 2 == np.arange(120) % 2, 0.7 ** np.abs(np.subtract.outer(step, step)), 0.0)
    np.savetxt(tmp_path / "c.csv", omega, delimiter=",", fmt="%.17g")
    found = {}
    for form in ("c.csv", "ar1:0.7"):
        line = ("regress", "t.csv", "--target", "y", "--gls", form, "--split", "1,0,0", "--categorical", "none", "-q", "-o", "c.json")
        assert herd(*line).code == 0
        found[form] = {row["term"]: row for row in json.loads((tmp_path / "c.json").read_text())}
    Z = np.column_stack([X, np.ones(120)])
    theta = np.linalg.solve(Z.T @ np.linalg.solve(omega, Z), Z.T @ np.linalg.solve(omega, y))
    for rows in found.values():
        np.testing.assert_allclose([rows[name]["estimate"] for name in ("a", "b", "intercept")], theta, rtol=1e-5)
    assert found["c.csv"]["a"]["standard_error"] == pytest.approx(found["ar1:0.7"]["a"]["standard_error"], rel=1e-5)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--gls", "ar1:1.5"], 2, "--gls ar1:1.5: the correlation has to be above −1 and below 1\n"),
        (["--gls", "ar1:q"], 2, "--gls ar1:q: the correlation has to be above −1 and below 1\n"),
        (["--gls", "variance:q"], 2, "--gls variance: there is no column q\nhint: columns: a, b"),
        (["--gls", "ar1", "--l2", "1"], 2, "--gls does not work with a penalty\nhint: leave out --l1 and --l2, or --gls\n"),
        (["--gls", "ar1", "--family", "poisson"], 2, "--gls works only with --family gaussian, not poisson\n"),
        (["--gls", "ar1", "--sequence", "q"], 2, "--sequence q: there is no such column\nhint: columns: y, a, b"),
        (["--gls", "absent.csv"], 66, "absent.csv: there is no such file\n"),
        (["--gls", "small.csv"], 65, "small.csv: has 2 × 2 values, expected 120 × 120, a row and a column for each row\n"),
    ],
)
def test_what_is_no_covariance_of_errors_is_refused(herd, series, tmp_path, arguments, code, message):
    (tmp_path / "small.csv").write_text("1,0\n0,1\n")
    ended = herd("regress", "t.csv", "--target", "y", *arguments, "-o", "x.h5")
    assert ended.code == code, ended.err
    assert message in ended.err


def test_the_first_level_of_text_is_in_the_intercept(herd, tmp_path):
    """Base levels make the other coefficients differences of group means; a penalty keeps all levels, and apply matches either."""
    rng = np.random.default_rng(2)
    colours = np.array(["red", "blue", "green"])[rng.integers(0, 3, 60)]
    value = np.round(rng.normal(size=60) + (colours == "red") * 3, 6)
    (tmp_path / "t.csv").write_text("colour,v\n" + "".join(f"{c},{v}\n" for c, v in zip(colours, value, strict=True)))
    line = ("regress", "t.csv", "--target", "v", "--split", "1,0,0")
    ended = herd(*line, "-o", "c.json")
    assert ended.code == 0
    assert "t.csv: base levels, which the intercept represents: colour=blue\n" in ended.err
    assert "training rows × 3 features (1 base level), deviance explained" in ended.err
    assert "combinations of others" not in ended.err
    means = {name: value[colours == name].mean() for name in ("blue", "green", "red")}
    found = {row["term"]: row["estimate"] for row in json.loads((tmp_path / "c.json").read_text())}
    expected = {"intercept": means["blue"], "colour=green": means["green"] - means["blue"], "colour=red": means["red"] - means["blue"]}
    assert found == pytest.approx(expected, abs=1e-5)
    assert herd(*line, "-q", "-o", "m.h5").code == 0
    (tmp_path / "new.csv").write_text("colour\nred\nblue\npink\ngreen\n")
    ended = herd("apply", "m.h5", "new.csv", "-o", "p.csv")
    assert ended.code == 0, ended.err
    assert (
        "column 'colour' has 'pink' in 1 row, but in no training row: all its one-hot columns there are 0, as those of 'blue'\n"
        in ended.err
    )
    got = [float(text.split(",")[-1]) for text in (tmp_path / "p.csv").read_text().split()[1:]]
    assert got == pytest.approx([means["red"], means["blue"], means["blue"], means["green"]], abs=1e-4)
    for penalty in ("--l1", "--l2"):
        ended = herd(*line, penalty, "0.1", "-o", "c.json")
        assert "base levels" not in ended.err
        assert "combinations of others" not in ended.err
    assert len(json.loads((tmp_path / "c.json").read_text())) == 4


def test_rows_without_a_level_are_not_taken_for_the_base_level(herd, tmp_path):
    """The intercept is the mean of the rows without a colour, and the coefficients are differences from it."""
    rng = np.random.default_rng(2)
    colours = np.array(["red", "blue", ""])[rng.integers(0, 3, 90)]
    value = np.round(rng.normal(size=90) + (colours == "red") * 3 - (colours == "") * 5, 6)
    (tmp_path / "t.csv").write_text("colour,v\n" + "".join(f"{c},{v}\n" for c, v in zip(colours, value, strict=True)))
    ended = herd("regress", "t.csv", "--target", "v", "--split", "1,0,0", "--missing", "mean", "-o", "c.json")
    assert ended.code == 0
    assert "t.csv: a missing value of 'colour' is the base level, which the intercept represents\n" in ended.err
    assert "combinations of others" not in ended.err
    means = {name: value[colours == name].mean() for name in ("blue", "red", "")}
    found = {row["term"]: row["estimate"] for row in json.loads((tmp_path / "c.json").read_text())}
    assert found == pytest.approx(
        {"intercept": means[""], "colour=blue": means["blue"] - means[""], "colour=red": means["red"] - means[""]}, abs=1e-5
    )


@pytest.mark.parametrize(("values", "told"), [(("no", "yes"), ("yes", "no")), (("2", "1"), ("2", "1")), (("0", "1"), None)])
def test_the_class_whose_probability_is_modelled_is_named(herd, tmp_path, values, told):
    """The intercept of a model without other terms of effect is the log odds of that class."""
    (tmp_path / "t.csv").write_text("a,bought\n" + "".join(f"{i % 2},{values[i % 8 > 1]}\n" for i in range(80)))
    ended = herd("regress", "t.csv", "--target", "bought", "--split", "1,0,0", "-o", "c.json")
    assert ended.code == 0, ended.err
    assert ("coefficients are for" in ended.err) == (told is not None)
    if told:
        assert f"regress: coefficients are for the probability of '{told[0]}', not of '{told[1]}'\n" in ended.err
    intercept = json.loads((tmp_path / "c.json").read_text())[-1]["estimate"]
    assert intercept == pytest.approx(np.log(3) if told is None or told[0] == values[1] else -np.log(3), abs=1e-6)


def test_an_unseen_level_of_a_test_row_keeps_the_base_level(herd, tmp_path):
    """Only training rows decide on the base level: the coefficients are those of the table without the test rows."""
    lines = [f"{'rgb'[i % 3]},{'train' if i < 60 else 'test'},{i % 3 + (i % 7) / 10}" for i in range(90)]
    for name, rows in (("train", lines[:60]), ("all", [*lines[:75], "pink,test,1.5", *lines[76:]])):
        (tmp_path / f"{name}.csv").write_text("\n".join(["colour,split,v", *rows]) + "\n")
        ended = herd("regress", f"{name}.csv", "--target", "v", "-o", f"{name}.json")
        assert ended.code == 0, ended.err
        assert f"{name}.csv: base levels, which the intercept represents: colour=b\n" in ended.err
        assert "combinations of others" not in ended.err
    assert "column 'colour' has 'pink' in 1 row, but in no training row: all its one-hot columns there are 0\n" in ended.err
    assert json.loads((tmp_path / "all.json").read_text()) == json.loads((tmp_path / "train.json").read_text())


def test_a_sealed_data_set_with_all_levels_loses_them_too(herd, tmp_path):
    (tmp_path / "t.csv").write_text("colour,v\n" + "".join(f"{'rgb'[i % 3]},{i % 3 + (i % 7) / 10}\n" for i in range(60)))
    assert herd("convert", "t.csv", "-o", "t.h5").code == 0
    ended = herd("regress", "t.h5", "--target", "v", "-o", "m.h5")
    assert "t.h5: base levels, which the intercept represents: colour=b\n" in ended.err
    for name in ("t.csv", "t.h5"):
        assert herd("apply", "m.h5", name, "-o", f"{name}.p.csv").code == 0
    assert (tmp_path / "t.csv.p.csv").read_text() == (tmp_path / "t.h5.p.csv").read_text()


@pytest.mark.parametrize("family", ["gaussian", "poisson", "bernoulli", "softmax"])
def test_residuals_are_drawn(herd, table, tmp_path, family):
    pytest.importorskip("matplotlib")
    target = {"gaussian": "y", "poisson": "count"}.get(family, "answer")
    if target == "answer":
        names = ["no", "yes", "why"][: 2 if family == "bernoulli" else 3]
        rows = (tmp_path / "t.csv").read_text().split()
        (tmp_path / "t.csv").write_text(
            "\n".join([f"{rows[0]},answer", *(f"{row},{names[i % len(names)]}" for i, row in enumerate(rows[1:]))])
        )
    assert herd("regress", "t.csv", "--target", target, "--family", family, "-q", "-o", "m.h5").code == 0
    for plot in ("residuals", "calibration"):
        assert herd("eval", "m.h5", "--plot", plot, f"{plot}.svg", "-q").code == 0
        assert (tmp_path / f"{plot}.svg").stat().st_size > 2000
    assert herd("regress", "t.csv", "--target", target, "--family", family, "-q", "--split", "1,0,0", "-o", "n.h5").code == 0
    ended = herd("eval", "n.h5", "--plot", "residuals", "none.svg")
    assert ended.code == 65
    assert ended.err.endswith("there are no held-out rows to draw\nhint: fit with held-out rows: herd regress --split .6,.2,.2\n")


FAR = {
    "numbers": ["--target", "y"],
    "errors in time": ["--target", "y", "--gls", "ar1"],
    "errors of several variances": ["--target", "y", "--gls", "variance:t"],
    "classes": ["--target", "kind"],
    "classes with a penalty": ["--target", "kind", "--l2", "0.01"],
    "one pass": ["--target", "y", "--one-pass"],
}


@pytest.mark.parametrize("name", FAR)
def test_columns_far_from_zero_have_coefficients(run, tmp_path, name):
    """A column two million times further from 0 than it varies, as times in seconds are: they were taken for constants."""
    random, found = np.random.default_rng(8), []
    X = random.normal(size=(400, 2))
    y = X @ [1.0, -2.0] + 0.5 * random.normal(size=400)
    target = y if "y" in FAR[name] else np.where(y > 1, "up", np.where(y < -1, "down", "level"))
    for away in (0.0, 2.0**21):
        rows = [f"{a!r},{b!r},{c}" for a, b, c in zip((X[:, 0] + away).tolist(), X[:, 1].tolist(), target.tolist(), strict=True)]
        (tmp_path / "rows.csv").write_text("\n".join([f"t,b,{FAR[name][1]}", *rows]) + "\n")
        ended = run("regress", "rows.csv", *FAR[name], "-q", "-o", "out.h5")
        assert (ended.code, ended.err) == (0, "")
        found.append(artifacts.load("out.h5").value)
    near, far = found
    assert not far.aliased.any()
    np.testing.assert_allclose(far.intercept, near.intercept - 2.0**21 * near.coefficients[:, 0], rtol=1e-6)
    for one in ("coefficients", "deviance", "log_likelihood"):
        np.testing.assert_allclose(getattr(far, one), getattr(near, one), rtol=2e-5, err_msg=one)
    for one in ("standard_error", "robust_error"):  # at the intercept they are those of rows far away
        np.testing.assert_allclose(getattr(far, one)[:, :-1], getattr(near, one)[:, :-1], rtol=2e-5, err_msg=one)
    if near.log_variance is not None:
        np.testing.assert_allclose(far.log_variance[:-1], near.log_variance[:-1], rtol=2e-5)
        np.testing.assert_allclose(far.log_variance[-1], near.log_variance[-1] - 2.0**21 * near.log_variance[0], rtol=1e-5)
    a, b = (value.distribution().mean(value.holdout.predictor) for value in (near, far))
    np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("family", ["gamma", "gaussian"])
def test_likelihoods_do_not_depend_on_the_unit_of_weights(herd, tmp_path, family):
    """Weights of precision ten times as large make a dispersion ten times as large, and the variances of rows what they were."""
    rng = np.random.default_rng(2)
    x, w = rng.normal(size=200), rng.integers(1, 4, 200)
    y = rng.gamma(2.0, np.exp(0.4 * x) / 2.0)
    found = []
    for unit in (1, 10):
        lines = ["x,y,weight", *(f"{a:.6f},{b:.6f},{unit * c}" for a, b, c in zip(x, y, w, strict=True))]
        (tmp_path / "w.csv").write_text("\n".join(lines) + "\n")
        assert herd("regress", "w.csv", "--family", family, "--split", ".7,0,.3", "-q", "-o", "m.h5").code == 0
        value = artifacts.load(str(tmp_path / "m.h5")).value
        head, row = (line.split("\t") for line in herd("eval", "m.h5").out.decode().splitlines())
        judged = dict(zip(head, row, strict=True))
        found.append([value.log_likelihood, float(judged["log_likelihood"]), float(judged["independent"]), value.dispersion / unit])
    assert found[1] == pytest.approx(found[0], rel=1e-6)


@pytest.mark.parametrize(
    ("value", "options"),
    [
        ("0", ()),
        ("1", ("--family", "bernoulli", "--l2", "1")),
        ("0", ("--family", "poisson", "--offset", "c")),
        ("2.5", ("--family", "gaussian")),
        ("2.5", ("--family", "gamma")),
        ("5", ("--family", "gaussian", "--one-pass")),
    ],
)
def test_a_target_of_one_value_is_refused(herd, tmp_path, value, options):
    random = np.random.default_rng(0)
    (tmp_path / "all.csv").write_text("a,c,y\n" + "".join(f"{a:.4f},{c:.4f},{value}\n" for a, c in random.normal(size=(80, 2))))
    ended = herd("regress", "all.csv", "--target", "y", *options, "-o", "m.h5")
    says = f"herd regress: all.csv: every training row has the target '{value}', so there is nothing to predict\n"
    assert (ended.code, ended.err.endswith(says + "hint: name another column: --target COLUMN\n")) == (65, True), ended.err
    assert not (tmp_path / "m.h5").exists()


def test_a_target_of_one_value_beside_an_offset_that_varies_is_fitted(herd, tmp_path):
    random = np.random.default_rng(0)
    (tmp_path / "rates.csv").write_text("a,c,y\n" + "".join(f"{a:.4f},{c:.4f},3\n" for a, c in random.normal(size=(80, 2))))
    assert herd("regress", "rates.csv", "--target", "y", "--family", "poisson", "--offset", "c", "-o", "m.h5").code == 0


def test_a_class_that_no_training_row_has_is_named(herd, tmp_path):
    names = ["left"] * 30 + ["right"] * 30 + ["up"] * 20
    cut = [0] * 60 + [2] * 20
    lines = [f"{i % 7},{(i * i) % 11},{name},{part}\n" for i, (name, part) in enumerate(zip(names, cut, strict=True))]
    (tmp_path / "classes.csv").write_text("a,b,y,split\n" + "".join(lines))
    ended = herd("regress", "classes.csv", "--target", "y", "--l2", "0.1", "-o", "m.h5")
    assert ended.code == 0, ended.err
    said = "warning: no training row has the target 'up', so its predicted probability goes to 0; give more training rows with --split"
    assert said in ended.err
