"""herd regress of successes in trials and of events in an exposure: how targets are given, judged and predicted."""

from __future__ import annotations

import json

import numpy as np
import pytest

from herdcli import artifacts


@pytest.fixture
def tables(tmp_path):
    """The same rows with successes and failures, shares, counts, rates."""
    random = np.random.default_rng(0)
    x, n = random.normal(size=(200, 2)).round(3), random.integers(1, 20, 200)
    won = random.binomial(n, 1 / (1 + np.exp(-x @ [1.0, -0.5])))
    time = random.uniform(0.2, 3.0, 200).round(2)
    events = random.poisson(time * np.exp(x @ [0.5, 0.3]))
    columns = {
        "a": x[:, 0],
        "b": x[:, 1],
        "won": won,
        "lost": n - won,
        "n": n,
        "share": won / n,
        "time": time,
        "events": events,
        "rate": events / time,
    }

    def write(name, *chosen):
        rows = zip(*(columns[each].tolist() for each in chosen), strict=True)
        (tmp_path / name).write_text(",".join(chosen) + "\n" + "".join(",".join(map(repr, row)) + "\n" for row in rows))

    write("failures.csv", "a", "b", "won", "lost")
    write("successes.csv", "a", "b", "won", "n")
    write("shares.csv", "a", "b", "share", "n")
    write("counts.csv", "a", "b", "events", "time")
    write("rates.csv", "a", "b", "rate", "time")
    return columns


def coefficients(herd, tmp_path, *arguments):
    ended = herd("regress", *arguments, "--split", "1,0,0", "-o", "c.json")
    assert ended.code == 0, ended.err
    return ended.err, [
        (row["estimate"], row["standard_error"], row["robust_error"]) for row in json.loads((tmp_path / "c.json").read_text())
    ]


def test_successes_shares_and_failures_say_the_same(herd, tables, tmp_path):
    ways = [
        (("failures.csv", "--target", "won", "--failures", "lost"), ""),
        (
            ("successes.csv", "--target", "won", "--trials", "n"),
            "the target is read as numbers of successes among the trials in column 'n'\n",
        ),
        (
            ("shares.csv", "--target", "share", "--trials", "n"),
            "the target is read as shares of successes among the trials in column 'n'\n",
        ),
        (("shares.csv", "--target", "share", "--weights", "n", "--weight-kind", "trials"), "shares of successes"),
    ]
    found = []
    for arguments, note in ways:
        said, rows = coefficients(herd, tmp_path, *arguments)
        assert note in said
        assert "bernoulli, 200 training rows × 2 features" in said
        found.append(rows)
    np.testing.assert_allclose(found[1:], [found[0]] * 3, rtol=1e-9)


def test_counts_and_rates_say_the_same_and_equal_an_offset(herd, tables, tmp_path):
    said, counts = coefficients(herd, tmp_path, "counts.csv", "--target", "events", "--exposure", "time")
    assert "the target is read as counts for the exposure in column 'time'\n" in said
    said, rates = coefficients(herd, tmp_path, "rates.csv", "--target", "rate", "--exposure", "time")
    assert "the target is read as rates for the exposure in column 'time'\n" in said
    lines = (tmp_path / "counts.csv").read_text().splitlines()
    logs = [
        lines[0].replace("time", "log"),
        *(f"{line.rpartition(',')[0]},{np.log(float(line.rpartition(',')[2]))!r}" for line in lines[1:]),
    ]
    (tmp_path / "logs.csv").write_text("\n".join(logs).replace("np.float64(", "").replace(")", "") + "\n")
    _, offset = coefficients(herd, tmp_path, "logs.csv", "--target", "events", "--offset", "log", "--family", "poisson")
    np.testing.assert_allclose(rates, counts, rtol=1e-6)
    np.testing.assert_allclose(offset, counts, rtol=1e-6)
    _, quasi = coefficients(herd, tmp_path, "counts.csv", "--target", "events", "--exposure", "time", "--dispersion", "pearson")
    ratio = np.array(quasi)[:, 1] / np.array(counts)[:, 1]
    np.testing.assert_allclose(ratio, ratio[0])
    assert abs(ratio[0] - 1) > 1e-3


def test_means_are_of_the_target_as_it_was_given(herd, tables, tmp_path):
    for name, target, option, column in (
        ("successes.csv", "won", "--trials", "n"),
        ("counts.csv", "events", "--exposure", "time"),
        ("rates.csv", "rate", "--exposure", "time"),
    ):
        assert herd("regress", name, "--target", target, option, column, "--split", "1,0,0", "-q", "-o", "m.h5").code == 0
        ended = herd("apply", "m.h5", name, "-o", "p.h5")
        assert ended.code == 0, ended.err
        mean = artifacts.load(str(tmp_path / "p.h5")).value.X[:, 0]
        expected = {
            "won": tables["won"].sum() / tables["n"].sum(),
            "events": tables["events"].mean(),
            "rate": tables["events"].sum() / tables["time"].sum(),
        }
        weight = {"won": tables["n"], "events": np.ones(200), "rate": tables["time"]}[target]
        # with an intercept the fitted total is the observed one
        assert weight @ mean / weight.sum() == pytest.approx(expected[target], rel=1e-6)
    lines = (tmp_path / "counts.csv").read_text().splitlines()
    (tmp_path / "bare.csv").write_text("\n".join(",".join(line.split(",")[:2]) for line in lines) + "\n")
    assert herd("regress", "counts.csv", "--target", "events", "--exposure", "time", "-q", "-o", "m.h5").code == 0
    ended = herd("apply", "m.h5", "bare.csv", "-o", "p.h5")
    assert ended.code == 0, ended.err
    assert "there is no column 'time', so means are for one unit of exposure" in ended.err


def test_other_rows_are_judged_in_the_same_terms(herd, tables, tmp_path):
    """Half the rows judge, those that travel with the model and the same in a file."""
    for name, target, option, column in (("successes.csv", "won", "--trials", "n"), ("rates.csv", "rate", "--exposure", "time")):
        lines = (tmp_path / name).read_text().splitlines()
        (tmp_path / "s.csv").write_text(
            "\n".join([lines[0] + ",split", *(f"{line},{2 * (i % 2)}" for i, line in enumerate(lines[1:]))]) + "\n"
        )
        (tmp_path / "t.csv").write_text("\n".join([lines[0], *lines[2::2]]) + "\n")
        assert herd("regress", "s.csv", "--target", target, option, column, "-q", "-o", "m.h5").code == 0
        (own,) = json.loads(herd("eval", "m.h5", "--format", "json").out)
        ended = herd("eval", "m.h5", "--data", "t.csv", "--format", "json")
        assert ended.code == 0, ended.err
        (other,) = json.loads(ended.out)
        for figure in ("log_likelihood", "independent", "gain_se", "explained", "rows"):
            assert other[figure] == pytest.approx(own[figure]), figure
        assert own["verdict"] == "ok"
        if target == "won":
            hits, n = tables["won"][1::2], tables["n"][1::2]
            share = hits.sum() / n.sum()
            assert own["error_majority"] == pytest.approx(min(share, 1 - share))
            assert own["error"] < own["error_majority"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("successes.csv", "--target", "n", "--trials", "won"), 65, "successes.csv: line 2 has "),
        (
            ("successes.csv", "--target", "won", "--trials", "n", "--exposure", "a"),
            2,
            "--trials and --exposure exclude each other\nhint: leave out --exposure\n",
        ),
        (
            ("successes.csv", "--target", "won", "--trials", "n", "--weights", "b"),
            2,
            "--trials sets the weights of the rows, so --weights is not possible\n",
        ),
        (
            ("successes.csv", "--target", "won", "--trials", "n", "--family", "poisson"),
            2,
            "--trials works only with --family bernoulli, not poisson\n",
        ),
        (
            ("successes.csv", "--target", "won", "--weight-kind", "trials"),
            65,
            "has no weights for --weight-kind trials\nhint: name their column: --trials COLUMN, or --weights COLUMN\n",
        ),
        (("successes.csv", "--target", "won", "--trials", "q"), 2, "--trials q: there is no such column\n"),
        (("successes.csv", "--target", "won", "--trials", "a"), 65, "--trials needs finite values of at least 0"),
        (
            ("counts.csv", "--target", "events", "--exposure", "time", "--weight-kind", "frequency"),
            2,
            "--weight-kind frequency does not work with --exposure\n",
        ),
        (
            ("counts.csv", "--target", "events", "--exposure", "time", "--gls", "ar1"),
            2,
            "--gls reads weights as precisions, so it does not work with --exposure\n",
        ),
    ],
)
def test_what_does_not_go_together(herd, tables, arguments, code, message):
    ended = herd("regress", *arguments, "-o", "m.h5")
    assert ended.code == code, ended.err
    assert message in ended.err


def test_weights_that_make_whole_numbers_of_the_target_are_told(herd, tables, tmp_path):
    (tmp_path / "w.csv").write_text((tmp_path / "shares.csv").read_text().replace(",n\n", ",weight\n"))
    ended = herd("regress", "w.csv", "--target", "share", "-o", "m.h5")
    assert "the target times 'weight' is a whole number in every row; if the target holds shares, use --trials weight\n" in ended.err
    assert herd("regress", "w.csv", "--target", "share", "--trials", "weight", "-o", "m.h5").code == 0


@pytest.mark.parametrize(
    ("option", "rows", "told"),
    [
        ("--trials", 1, "1 of 30 rows has no trials and is left out"),
        ("--exposure", 2, "2 of 30 rows have no exposure and are left out"),
        ("--weights", 1, "1 of 30 rows has weight 0 and is left out"),
    ],
)
def test_rows_that_are_left_out_are_told_in_words_of_the_option(herd, tmp_path, option, rows, told):
    cells = [f"{i % 3},{0 if i < rows else i % 2},{0 if i < rows else 1 + i % 4}" for i in range(30)]
    (tmp_path / "t.csv").write_text("\n".join(["a,hits,n", *cells]) + "\n")
    ended = herd("regress", "t.csv", "--target", "hits", option, "n", "--split", "1,0,0", "-o", "m.h5")
    assert (ended.code, f"regress: t.csv: {told}\n" in ended.err) == (0, True), ended.err


def test_rows_of_weight_0_are_left_out_before_the_rows_are_divided(herd, tmp_path):
    """The bytes of the coefficients are those of the file without these rows, in one pass too."""
    random = np.random.default_rng(0)
    lines = [f"{a:.4f},{a + b:.4f},{w}" for a, b, w in zip(*random.normal(size=(2, 200)), np.arange(200) % 3, strict=True)]
    (tmp_path / "all.csv").write_text("a,y,weight\n" + "\n".join(lines) + "\n")
    (tmp_path / "some.csv").write_text("a,y,weight\n" + "\n".join(line for line in lines if not line.endswith(",0")) + "\n")
    for options in ((), ("--weight-kind", "frequency"), ("--one-pass",), ("--one-pass", "--weight-kind", "frequency")):
        found = []
        for name in ("all.csv", "some.csv"):
            assert herd("regress", name, *options, "-q", "-o", "m.h5").code == 0
            value = artifacts.load(str(tmp_path / "m.h5")).value
            (row,) = json.loads(herd("eval", "m.h5", "--format", "json").out)
            found.append(
                [*value.coefficients[0], *value.standard_error[0], *value.robust_error[0], value.rows, row["bic"], row["rows"], row["rmse"]]
            )
        np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


def test_two_columns_as_the_target_are_successes_and_failures(herd, tmp_path):
    (tmp_path / "t.csv").write_text("x,won,lost\n" + "".join(f"{k % 7},{k % 5},{k % 3}\n" for k in range(60)))
    ended = herd("regress", "t.csv", "--target", "won,lost", "-o", "m.h5")
    assert (ended.code, ended.err) == (
        2,
        "herd regress: t.csv: --target won,lost: there is no such column\n"
        "hint: for numbers of successes and failures use --target won --failures lost\n",
    )
    assert herd("regress", "t.csv", "--target", "won", "--failures", "lost", "-o", "m.h5").code == 0
