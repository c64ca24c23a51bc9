"""`herd em --model lds` as a process: what it learns, says, fills in and foretells, and what it refuses."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from linear_dynamics import draw, system

from herdcli.artifacts.load_save import load


@pytest.fixture
def nights(tmp_path):
    """Eight sequences of 15 rows with a control, two gaps in each, one name missing a row."""
    random, p = np.random.default_rng(0), system(2, 3, 1, seed=1, radius=0.9)
    rows = []
    for s in range(8):
        U = random.standard_normal((15, 1))
        Y = draw(p, 15, random, U)
        Y[4, 1], Y[9] = np.nan, np.nan
        rows += [[f"n{s}", u[0], *("" if np.isnan(v) else v for v in y)] for u, y in zip(U, Y, strict=True)]
    write(tmp_path / "nights.csv", ["sequence", "push", "a", "b", "c"], rows)
    return tmp_path


def write(path, names, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([names, *rows])


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def figures(herd, *options):
    ended = herd("eval", *options, "--format", "json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)[0]


def test_states_forecasts_gaps_and_new_sequences(herd, nights):
    made = herd("em", "nights.csv", "--model", "lds", "--components", "2", "--controls", "push", "--iterations", "40", "-o", "a.h5")
    assert made.code == 0, made.err
    assert "8 sequences of 15 steps, one for each value of the column 'sequence'" in made.err
    row = figures(herd, "a.h5", "--require", "rise<1e-9")
    assert row["states"] == 2
    assert row["log_likelihood"] > row["log_likelihood_baseline"]
    assert row["prediction_error"] < row["persistence"]
    assert row["verdict"] == "ok"

    for want in ("smoothed", "filtered", "predicted"):
        assert herd("apply", "a.h5", "nights.csv", "--want", want, "-o", f"{want}.csv").code == 0
    found = {want: read(nights / f"{want}.csv") for want in ("smoothed", "filtered", "predicted")}
    assert list(found["smoothed"][0]) == ["state1", "state2", "state1_sd", "state2_sd", "sequence"]
    spread = {want: np.array([float(row["state1_sd"]) for row in rows]) for want, rows in found.items()}
    assert (spread["smoothed"] <= spread["filtered"] + 1e-9).all()
    assert (spread["filtered"] <= spread["predicted"] + 1e-9).all()
    assert found["smoothed"][14]["state1"] == found["filtered"][14]["state1"]  # the last row of a sequence

    assert herd("apply", "a.h5", "nights.csv", "--want", "completed", "-o", "whole.csv").code == 0
    given, whole = read(nights / "nights.csv"), read(nights / "whole.csv")
    assert all(row["b"] for row in whole)
    assert all(float(old["a"]) == pytest.approx(float(new["a"])) for old, new in zip(given, whole, strict=True) if old["a"])

    assert herd("apply", "a.h5", "nights.csv", "--want", "forecast:1", "-o", "next.csv").code == 0
    assert [row["sequence"] for row in read(nights / "next.csv")] == [f"n{s}" for s in range(8)]
    refused = herd("apply", "a.h5", "nights.csv", "--want", "forecast:2")
    assert refused.code == 2
    assert refused.err.splitlines()[-2:] == [
        "herd apply: a forecast of 2 steps needs the controls of as many future rows",
        "hint: append rows with these controls and empty outputs, and use --want completed",
    ]
    drawn = herd("sample", "a.h5", "-m", "3", "--length", "4", "-o", "new.csv")
    assert "future controls are not known, so their means are used" in drawn.err
    assert [row["sequence"] for row in read(nights / "new.csv")] == [str(s) for s in (0, 1, 2) for _ in range(4)]


def test_particles_are_near_the_exact_states(herd, nights):
    assert herd("em", "nights.csv", "--model", "lds", "--components", "1", "--iterations", "5", "-o", "a.h5").code == 0
    for want in ("filtered", "smoothed"):
        assert herd("apply", "a.h5", "nights.csv", "--want", want, "-o", "exact.csv").code == 0
        made = herd("apply", "a.h5", "nights.csv", "--want", want, "--particles", "400", "-o", "drawn.csv")
        assert "effective sample size from" in made.err
        exact, drawn = read(nights / "exact.csv"), read(nights / "drawn.csv")
        gap = [(float(a["state1"]) - float(b["state1"])) / float(a["state1_sd"]) for a, b in zip(exact, drawn, strict=True)]
        assert np.sqrt(np.mean(np.square(gap))) < 0.3
        assert all(1 <= float(row["effective_particles"]) <= 400.001 for row in drawn)
        (nights / "exact.csv").unlink()
        (nights / "drawn.csv").unlink()
    assert herd("em", "nights.csv", "--model", "hmm", "--components", "2", "--iterations", "5", "-o", "b.h5").code == 0
    for want in ("filtered", "smoothed"):
        assert herd("apply", "b.h5", "nights.csv", "--want", want, "-o", "exact.csv").code == 0
        assert herd("apply", "b.h5", "nights.csv", "--want", want, "--particles", "400", "-o", "drawn.csv").code == 0
        exact, drawn = read(nights / "exact.csv"), read(nights / "drawn.csv")
        assert np.mean([abs(float(a["state1"]) - float(b["state1"])) for a, b in zip(exact, drawn, strict=True)]) < 0.05
        (nights / "exact.csv").unlink()
        (nights / "drawn.csv").unlink()
    refused = herd("apply", "a.h5", "nights.csv", "--want", "completed", "--particles", "9")
    assert (refused.code, "--particles does not work with --want completed" in refused.err) == (2, True)


def test_one_series_is_cut_in_time_and_judged_given_its_past(herd, tmp_path):
    t = np.arange(300)
    rows = np.sin(t / 7)[:, None] * [1.0, 2.0] + 0.1 * np.random.default_rng(0).standard_normal((300, 2))
    write(tmp_path / "wave.csv", ["u", "v"], rows)
    made = herd("em", "wave.csv", "--model", "lds", "--components", "1-3", "--iterations", "60", "-o", "a.h5")
    assert "the rows are one sequence of 300 steps" in made.err
    assert "there is only one sequence, so the mean μ and covariance P of the first state come from this sequence alone" in made.err
    assert "2 states (best of 3 tried)" in made.err
    row = figures(herd, "a.h5")
    assert row["prediction_error"] < 0.6 * row["persistence"]
    ended = herd("apply", "a.h5", "wave.csv", "--want", "forecast:22", "-o", "next.csv")
    assert ended.code == 0
    found = np.array([[float(row["u"]), float(row["u_sd"])] for row in read(tmp_path / "next.csv")])
    assert np.abs(found[:, 0] - np.sin(np.arange(300, 322) / 7)).max() < 0.5
    assert (np.diff(found[:, 1]) > 0).all()
    pytest.importorskip("matplotlib")
    drawn = herd("eval", "a.h5", "--plot", "states", "s.png")
    assert drawn.code == 0, drawn.err
    assert (tmp_path / "s.png").read_bytes()[:4] == b"\x89PNG"


def test_neither_threads_nor_resuming_change_a_byte(herd, nights):
    common = ("em", "nights.csv", "--model", "lds", "--components", "2", "--diagonal", "--iterations", "6", "--starts", "2")
    assert herd(*common, "--threads", "1", "-o", "a.h5").code == 0
    assert herd(*common, "--threads", "2", "-o", "b.h5").code == 0
    assert (nights / "a.h5").read_bytes() == (nights / "b.h5").read_bytes()


def test_quasi_newton_steps_are_of_lds_are_recorded_and_can_be_left_out(herd, nights):
    common = ("em", "nights.csv", "--components", "2", "--iterations", "30", "-o")
    assert herd(*common, "a.h5", "--model", "lds").code == 0
    assert herd(*common, "c.h5", "--model", "lds", "--no-accelerate").code == 0
    told = herd(*common, "d.h5", "--model", "fa", "--components", "1", "--accelerate")
    assert "--accelerate has no effect with --model fa" in told.err
    said = json.loads(herd("info", "a.h5", "c.h5", "d.h5", "--format", "json").out)
    assert [one["history"][-1]["parameters"].get("accelerate") for one in said] == [True, None, None]
    ended = herd("eval", "a.h5", "c.h5", "--require", "rise<1e-9", "--format", "json")
    quick, plain = json.loads(ended.out)
    assert ended.code == 0
    assert quick["log_likelihood_train"] > plain["log_likelihood_train"]
    assert herd("check", "--rerun", "a.h5", "c.h5", "--input", "nights.csv").code == 0


def test_what_cannot_be_learned_is_refused(herd, nights):
    def refused(*options):
        ended = herd(*options)
        return ended.code, ended.err.splitlines()[-2:]

    common = ("em", "nights.csv", "--model", "lds")
    code, lines = refused(*common, "--controls", "pull")
    assert code == 2
    assert any("pull" in line for line in lines)
    assert refused(*common, "--controls", "a,a")[0] == 2
    assert refused(*common, "--criterion", "icl") == (
        2,
        ["herd em: nights.csv: --criterion icl is for mixtures", "hint: use --criterion bic, aic or valid"],
    )
    code, lines = refused(*common, "--controls", "b")
    assert (code, lines[0]) == (65, "herd em: nights.csv: column 'b' has 16 missing values (first: line 6)")
    assert refused("em", "nights.csv", "--model", "lds", "--on-disk")[0] == 2
    told = herd("em", "nights.csv", "--components", "1", "--diagonal", "-o", "g.h5")
    assert "--diagonal has no effect with --model gmm" in told.err


def test_an_unstable_system_and_rows_that_do_not_move_are_told(herd, tmp_path):
    grown = np.exp(np.arange(40) / 8)[:, None] + 0.01 * np.random.default_rng(0).standard_normal((40, 2))
    write(tmp_path / "grown.csv", ["u", "v"], grown)
    made = herd("em", "grown.csv", "--model", "lds", "--components", "1", "--split", "1,0,0", "-o", "a.h5")
    assert "the system is unstable: the largest eigenvalue of A is 1.1" in made.err
    assert figures(herd, "a.h5")["verdict"] == "unstable"
    write(tmp_path / "alone.csv", ["sequence", "u", "v"], [[s, *row] for s, row in enumerate(np.random.default_rng(1).random((30, 2)))])
    made = herd("em", "alone.csv", "--model", "lds", "--components", "1", "-o", "b.h5")
    assert "no sequence has a second row, so the dynamics cannot be learned" in made.err


def test_other_sequences_judge_with_their_controls(herd, nights):
    """Held-out sequences handed over again, and a single series whose end is judged given the rows before it."""
    made = herd("em", "nights.csv", "--model", "lds", "--components", "2", "--controls", "push", "--iterations", "30", "-o", "a.h5")
    assert made.code == 0, made.err
    rows = read(nights / "nights.csv")
    figure = {name: figures(herd, "a.h5", "--data", f"{name}.csv") for name in ("nights",)}["nights"]
    total = 0.0
    for s in range(8):
        own = [list(row.values()) for row in rows if row["sequence"] == f"n{s}"]
        write(nights / "one.csv", list(rows[0]), own)
        total += figures(herd, "a.h5", "--data", "one.csv")["log_likelihood"] * len(own)
    assert figure["log_likelihood"] == pytest.approx(total / 120, rel=1e-9)
    assert figure["log_likelihood"] > figure["log_likelihood_baseline"]
    series = [[*list(row.values())[1:], part] for row, part in zip(rows[:15], ["train"] * 9 + ["valid"] * 3 + ["test"] * 3, strict=True)]
    write(nights / "series.csv", ["push", "a", "b", "c", "split"], series)
    write(nights / "whole.csv", ["push", "a", "b", "c"], [row[:-1] for row in series])
    write(nights / "head.csv", ["push", "a", "b", "c"], [row[:-1] for row in series[:12]])
    whole, head, tail = (figures(herd, "a.h5", "--data", f"{name}.csv")["log_likelihood"] for name in ("whole", "head", "series"))
    assert tail * 3 == pytest.approx(whole * 15 - head * 12, rel=1e-9)


def test_other_rows_without_controls_are_refused(herd, nights):
    line = ("em", "nights.csv", "--model", "lds", "--components", "1", "--controls", "push", "--iterations", "2", "-o", "a.h5")
    assert herd(*line).code == 0
    write(nights / "bare.csv", ["a", "b", "c"], [[1, 2, 3], [2, 3, 4]])
    ended = herd("eval", "a.h5", "--data", "bare.csv")
    assert ended.code == 2
    assert "has no extra column 'push'" in ended.err
    write(nights / "gap.csv", ["push", "a", "b", "c"], [[1, 2, 3, 4], ["", 3, 4, 5]])
    ended = herd("eval", "a.h5", "--data", "gap.csv")
    assert ended.code == 65
    assert ended.err.endswith(
        "herd eval: gap.csv: column 'push' has 1 missing value (first: line 3)\nhint: remove the rows or fill them in\n"
    )


def _walks(rows: int, seed: int = 0) -> np.ndarray:
    """Three channels that follow one slow state."""
    random = np.random.default_rng(seed)
    state = np.zeros(rows)
    for t in range(1, rows):
        state[t] = 0.97 * state[t - 1] + 0.3 * random.normal()
    return state[:, None] * [1.0, -0.5, 2.0] + 0.2 * random.normal(size=(rows, 3))


@pytest.mark.parametrize("model", ["lds", "hmm"])
@pytest.mark.parametrize("kind", ["constant", "silent"])
def test_a_channel_that_says_nothing_in_the_training_rows_is_left_out_and_named(herd, tmp_path, model, kind):
    """The channel begins to vary after the training rows, which no model and no baseline can know."""
    X = _walks(300)
    last = np.full(300, 10.0 if kind == "constant" else np.nan)
    last[200:] = np.random.default_rng(1).normal(size=100)
    text = "a,b,c,d\n" + "".join(",".join("" if np.isnan(v) else f"{v:.6f}" for v in row) + "\n" for row in np.column_stack([X, last]))
    (tmp_path / "four.csv").write_text(text)
    np.savetxt(tmp_path / "three.csv", X, delimiter=",", header="a,b,c", comments="", fmt="%.6f")
    figures = {}
    for name in ("three", "four"):
        ended = herd("em", f"{name}.csv", "--model", model, "--components", "2", "-o", f"{name}.h5")
        assert ended.code == 0, ended.err
        what = {"constant": "one value", "silent": "no value"}[kind]
        told = f"em: warning: column 'd' has {what} in the training rows and is left out\n"
        assert (told in ended.err) == (name == "four"), ended.err
        figures[name] = json.loads(herd("eval", f"{name}.h5", "--format", "json").out)[0]
    assert figures["four"]["log_likelihood"] == pytest.approx(figures["three"]["log_likelihood"], rel=1e-6)
    assert figures["four"]["verdict"] == figures["three"]["verdict"]
    for line in (
        ("apply", "four.h5", "four.csv"),
        ("eval", "four.h5", "--data", "four.csv"),
        ("sample", "four.h5", "-m", "1", "--length", "3"),
    ):
        ended = herd(*line)
        assert ended.code == 0, ended.err


def test_a_table_of_constants_is_refused(herd, tmp_path):
    (tmp_path / "flat.csv").write_text("a,b\n" + "1,2\n" * 50)
    ended = herd("em", "flat.csv", "--model", "lds", "-o", "m.h5")
    assert ended.code == 65
    assert "herd em: flat.csv: all columns are constant in the training rows\n" in ended.err


def test_noise_beside_a_constant_column_buys_no_verdict(herd, tmp_path):
    noise = np.random.default_rng(3).normal(size=(200, 2))
    for name, X in (("two", noise), ("three", np.column_stack([noise, np.zeros(200)]))):
        np.savetxt(tmp_path / f"{name}.csv", X, delimiter=",", header="a,b,c"[: 2 * X.shape[1] - 1], comments="")
        assert herd("em", f"{name}.csv", "--model", "lds", "-o", f"{name}.h5").code == 0
    two, three = (json.loads(herd("eval", f"{name}.h5", "--format", "json").out)[0] for name in ("two", "three"))
    assert two["verdict"] == three["verdict"] != "ok"
    assert two["log_likelihood_baseline"] == pytest.approx(three["log_likelihood_baseline"])


def test_a_search_for_the_number_of_states_refines_what_it_kept(herd, tmp_path):
    """Candidates end early; the one that is kept goes on to the tolerance of the result, where a run of its own ends too."""
    np.savetxt(tmp_path / "walk.csv", _walks(200), delimiter=",", header="a,b,c", comments="")
    searched = herd("em", "walk.csv", "--model", "lds", "-o", "s.h5")
    value = load(str(tmp_path / "s.h5")).value
    assert searched.code == 0
    assert value.restarts.converged.all()
    alone = herd("em", "walk.csv", "--model", "lds", "--components", str(value.states), "-o", "a.h5")
    assert alone.code == 0
    own = load(str(tmp_path / "a.h5")).value
    assert value.ledger.log_likelihood[-1] == pytest.approx(own.ledger.log_likelihood[-1], abs=2e-3)
    assert value.known.scores.min() == pytest.approx(json.loads(herd("eval", "s.h5", "--format", "json").out)[0]["bic"])
