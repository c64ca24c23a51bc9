"""`herd fit-rbm --recurrent` as a process: what it learns, says, expects and draws, and what it refuses."""

from __future__ import annotations

import csv
import json
import signal
import time

import numpy as np
import pytest

LEARN = ("fit-rbm", "bits.csv", "--recurrent", "--hidden", "6", "--epochs", "40", "--learning-rate", "1")


def bouncing(random, steps, columns=6):
    """Rows of one unit that is on, and moves on by one a step, back where the row ends."""
    place, move, X = int(random.integers(columns)), int(random.choice([-1, 1])), np.zeros((steps, columns), dtype=int)
    for row in X:
        row[place] = 1
        move = move if 0 <= place + move < columns else -move
        place += move
    return X


@pytest.fixture
def bits(tmp_path):
    """Thirty sequences of 12 to 21 rows, and one long one without a column that says so."""
    random, rows = np.random.default_rng(0), []
    for s in range(30):
        rows += [[f"s{s}", *row] for row in bouncing(random, 12 + s % 10)]
    names = [f"u{k}" for k in range(6)]
    write(tmp_path / "bits.csv", ["sequence", *names], rows)
    write(tmp_path / "long.csv", names, bouncing(random, 400).tolist())
    wave = np.sin(np.arange(300)[:, None] * [0.3, 0.5]) + 0.1 * random.standard_normal((300, 2))
    write(tmp_path / "wave.csv", ["a", "b"], (5 + 3 * wave).tolist())
    return tmp_path


def write(path, names, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([names, *rows])


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def numbers(path, names):
    return np.array([[float(row[name]) for name in names] for row in read(path)])


def figures(herd, *options):
    ended = herd("eval", *options, "--format", "json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)[0]


def test_sequences_are_learned_expected_and_drawn(herd, bits):
    made = herd(*LEARN, "-o", "a.h5")
    assert made.code == 0, made.err
    assert "30 sequences of 12 to 21 steps, one for each value of the column 'sequence'" in made.err
    assert "6 hidden, 18 sequences of " in made.err
    row = figures(herd, "a.h5")
    assert row["log_likelihood"] > row["independent"] + 0.5
    assert row["prediction_error"] < min(row["persistence"], row["mean_error"])
    assert (row["log_z_method"], row["log_likelihood_se"], row["verdict"], row["hidden"]) == ("exact", 0.0, "ok", 6)

    assert herd("apply", "a.h5", "bits.csv", "-o", "means.csv").code == 0
    assert herd("apply", "a.h5", "bits.csv", "--want", "predicted", "-o", "expected.csv").code == 0
    names = [f"u{k}" for k in range(6)]
    assert list(read(bits / "means.csv")[0]) == [*(f"hidden{k + 1}" for k in range(6)), "sequence"]
    seen, expected = numbers(bits / "bits.csv", names), numbers(bits / "expected.csv", names)
    before = np.array([row["sequence"] for row in read(bits / "bits.csv")])
    inside = np.concatenate([[False], before[1:] == before[:-1]])
    assert np.square(seen - expected)[inside].mean() < 0.9 * np.square(seen - seen.mean(axis=0))[inside].mean()

    ahead = herd("apply", "a.h5", "bits.csv", "--want", "forecast:3", "-o", "ahead.csv")
    assert ahead.code == 0, ahead.err
    assert "90 forecast rows of 30 sequences × 6 columns with their standard deviations" in ahead.err
    assert list(read(bits / "ahead.csv")[0]) == [*names, *(f"{name}_sd" for name in names), "sequence"]
    drawn = herd("sample", "a.h5", "-m", "4", "--length", "7", "--burn-in", "5", "-o", "drawn.csv")
    assert drawn.code == 0, drawn.err
    assert "4 sequences of 7 steps × 6 columns" in drawn.err
    assert set(numbers(bits / "drawn.csv", names).ravel()) == {0.0, 1.0}
    assert [row["sequence"] for row in read(bits / "drawn.csv")] == [str(s) for s in range(4) for _ in range(7)]
    means = herd("sample", "a.h5", "-m", "2", "--length", "3", "--means", "-o", "means.h5")
    assert means.code == 0, means.err


def test_links_are_what_makes_the_difference(herd, bits):
    assert herd(*LEARN, "-q", "-o", "both.h5").code == 0
    assert herd(*LEARN, "--links", "none", "-q", "-o", "none.h5").code == 0
    both, none = figures(herd, "both.h5"), figures(herd, "none.h5")
    assert both["independent"] == none["independent"]
    assert none["log_likelihood"] < -np.log(6) < both["log_likelihood"] - 0.3


def test_the_rows_of_other_sequences_judge_as_those_that_travel_with_the_model(herd, bits):
    assert herd(*LEARN, "--split", "20,5,5", "-q", "-o", "a.h5").code == 0
    own = figures(herd, "a.h5")
    other = figures(herd, "a.h5", "--data", "bits.csv")
    assert other["rows"] == sum(12 + s % 10 for s in range(30))
    assert own["rows"] < other["rows"]
    assert abs(other["log_likelihood"] - own["log_likelihood"]) < 0.5


def test_a_split_of_the_data_is_taken_and_their_weights_are_not(herd, bits):
    with open(bits / "bits.csv", newline="") as file:
        names, *rows = csv.reader(file)
    parts = {name: k % 5 % 3 for k, name in enumerate(dict.fromkeys(row[0] for row in rows))}
    write(bits / "split.csv", [*names, "split", "weight"], [[*row, parts[row[0]], 1 + t % 3] for t, row in enumerate(rows)])
    made = herd(
        "fit-rbm", "split.csv", "--split-column", "split", "--drop", "weight", "--recurrent", "--hidden", "3", "--epochs", "1", "-o", "s.h5"
    )
    assert made.code == 0, made.err
    held = [name for name, part in parts.items() if part == 2]
    assert figures(herd, "s.h5")["rows"] == sum(row[0] in held for row in rows)
    assert f"{sum(part == 0 for part in parts.values())} sequences of " in made.err


def test_rows_in_no_part_are_left_out(herd, bits):
    made = herd("fit-rbm", "bits.csv", "--recurrent", "--hidden", "3", "--epochs", "1", "--split", "10,0,5", "-o", "s.h5")
    assert made.code == 0, made.err
    assert "3 hidden, 10 sequences of " in made.err
    assert made.err.count("1 epoch,") == 1
    assert "there are no validation sequences, so the model of the last epoch is kept" in made.err


def test_one_sequence_is_cut_in_time_and_learned_in_pieces(herd, bits):
    made = herd(
        "fit-rbm", "long.csv", "--recurrent", "--hidden", "6", "--epochs", "60", "--learning-rate", ".5", "--window", "30", "-o", "l.h5"
    )
    assert made.code == 0, made.err
    assert "the rows are one sequence of 400 steps" in made.err
    assert "1 of 1 training sequences is longer than 30 steps (--window), so they are learned in windows" in made.err
    row = figures(herd, "l.h5")
    assert (row["rows"], row["verdict"]) == (80, "ok")
    assert row["log_likelihood"] > row["independent"] + 0.5


def test_real_columns_are_expected_in_their_own_scale(herd, bits):
    line = ("fit-rbm", "wave.csv", "--recurrent", "--visible-units", "gaussian", "--standardize", "--window", "20", "--hidden", "8")
    made = herd(*line, "-o", "w.h5")
    assert made.code == 0, made.err
    row = figures(herd, "w.h5")
    assert row["prediction_error"] < 0.8 * row["mean_error"]
    assert row["log_likelihood"] > row["independent"]
    assert herd("apply", "w.h5", "wave.csv", "--want", "predicted", "-o", "e.csv").code == 0
    seen, expected = numbers(bits / "wave.csv", ["a", "b"]), numbers(bits / "e.csv", ["a", "b"])
    assert np.sqrt(np.square(seen - expected)[1:].mean()) < 0.8 * seen.std()
    for plot in ("predicted", "filters", "trace"):
        assert herd("eval", "w.h5", "--plot", plot, f"{plot}.png").code == 0
        assert (bits / f"{plot}.png").stat().st_size > 5000


@pytest.mark.parametrize("line", [(*LEARN, "--epochs", "5"), ("sample", "a.h5", "-m", "3", "--length", "6")])
def test_neither_threads_nor_resuming_change_a_byte(herd, bits, line):
    assert herd(*LEARN, "--epochs", "1", "-q", "-o", "a.h5").code == 0
    whole = herd(*line, "-q", "-o", "whole.h5")
    assert whole.code == 0, whole.err
    assert herd(*line, "-q", "--threads", "2", "-o", "two.h5").code == 0
    kept = (*line, "--checkpoint", "c.state", "--every", "1")
    assert herd(*kept, "-q", "-o", "/dev/full").code == 74
    resumed = herd(*kept, "--resume", "-o", "resumed.h5")
    assert resumed.code == 0, resumed.err
    assert "resuming from step" in resumed.err
    assert (bits / "whole.h5").read_bytes() == (bits / "two.h5").read_bytes() == (bits / "resumed.h5").read_bytes()


def test_an_interrupted_run_goes_on_to_the_same_bytes(herd, start_process, bits):
    line = ("fit-rbm", "long.csv", "--recurrent", "--hidden", "4", "--epochs", "150", "--window", "20", "--validate-every", "100")
    assert herd(*line, "-q", "-o", "whole.h5").code == 0
    running = start_process(*line, "--checkpoint", "c.state", "--every", "40", "-o", "out.h5")
    until = time.monotonic() + 60.0
    while not (bits / "c.state").exists():
        assert running.poll() is None, "the run ended before it saved a checkpoint"
        assert time.monotonic() < until
        time.sleep(0.002)
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=60.0)
    assert running.returncode == 75
    resumed = herd(*line, "--checkpoint", "c.state", "--resume", "-o", "out.h5")
    assert resumed.code == 0, resumed.err
    assert "resuming from step" in resumed.err
    assert (bits / "out.h5").read_bytes() == (bits / "whole.h5").read_bytes()


def test_a_dry_run_tells_what_it_would_take(herd, bits):
    told = herd(*LEARN, "--dry-run")
    assert told.code == 0, told.err
    assert b"learning: 160 steps, about " in told.out


REFUSED = [
    (("--per-class",), "--recurrent and --per-class exclude each other"),
    (("--layers", "3,2"), "--recurrent and --layers exclude each other"),
    (("--pairs",), "--recurrent and --pairs exclude each other"),
    (("--continue", "a.h5"), "--recurrent and --continue exclude each other"),
    (("--centering",), "--recurrent and --centering exclude each other"),
    (("--keep-state",), "--recurrent and --keep-state exclude each other"),
    (("--algorithm", "pcd"), "--recurrent works with --algorithm cd or exact, not pcd"),
    (("--algorithm", "exact", "--steps", "2"), "--gibbs-steps does not work with --algorithm exact, which draws no samples"),
    (("--hidden-units", "gaussian"), "recurrent hidden units need a bounded range, but gaussian units have none"),
    (("--exact",), "--exact does not work with --recurrent"),
    (("--shard", "1/2"), "--shard divides a run into its parts, but this run has only one part"),
]


@pytest.mark.parametrize(("options", "said"), REFUSED)
def test_options_of_other_models_are_refused_by_name(herd, bits, options, said):
    ended = herd("fit-rbm", "bits.csv", "--recurrent", *options, "-o", "no.h5")
    assert ended.code == 2, ended.err
    assert said in ended.err
    assert not (bits / "no.h5").exists()


def test_bad_sequences_get_one_clear_line(herd, bits):
    write(bits / "single.csv", ["sequence", "a", "b"], [[s, s % 2, 1 - s % 2] for s in range(9)])
    ended = herd("fit-rbm", "single.csv", "--recurrent", "-o", "no.h5")
    assert (ended.code, ended.err.splitlines()[-2]) == (
        65,
        "herd fit-rbm: single.csv: no training sequence has a second row, so there are no transitions to learn",
    )
    ended = herd("fit-rbm", "wave.csv", "--recurrent", "-o", "no.h5")
    assert ended.code == 2
    assert "for real numbers use --visible-units gaussian --standardize" in ended.err
    ended = herd("fit-rbm", "bits.csv", "--recurrent", "--sequence", "night", "-o", "no.h5")
    assert ended.code in (2, 65)
    assert "night" in ended.err
    (bits / "gap.csv").write_text("sequence,a,b\n1,0,1\n1,,1\n2,0,1\n2,1,0\n")
    ended = herd("fit-rbm", "gap.csv", "--recurrent", "-o", "no.h5")
    assert ended.code == 65
    assert "--missing" in ended.err
    assert herd(*LEARN, "--epochs", "1", "-q", "-o", "a.h5").code == 0
    ended = herd("apply", "a.h5", "bits.csv", "--want", "smoothed", "-o", "no.h5")
    assert ended.code == 2
    assert "--want smoothed is not available for kind rtrbm" in ended.err
    ended = herd("apply", "a.h5", "wave.csv", "-o", "no.h5")
    assert ended.code == 65


def test_without_recurrent_its_options_are_told_to_do_nothing(herd, bits):
    ended = herd(
        "fit-rbm", "long.csv", "--hidden", "2", "--epochs", "1", "--window", "9", "--links", "none", "--sequence", "u0", "-o", "a.h5"
    )
    assert ended.code == 0, ended.err
    for option in ("window", "links", "sequence"):
        assert f"--{option} has no effect without --recurrent" in ended.err


def test_large_models_are_annealed_at_some_of_the_rows(herd, bits):
    random = np.random.default_rng(1)
    write(bits / "wide.csv", ["sequence", *(f"w{k}" for k in range(28))], [[s // 6, *random.integers(0, 2, 28)] for s in range(120)])
    assert (
        herd("fit-rbm", "wide.csv", "--recurrent", "--hidden", "27", "--epochs", "2", "--learning-rate", ".01", "-q", "-o", "w.h5").code
        == 0
    )
    row = figures(herd, "w.h5", "--chains", "10", "--temperatures", "50")
    assert row["log_z_method"] == "annealed"
    assert 0 < row["log_likelihood_se"] < 1
    assert -28 < row["log_likelihood"] < -0.9 * 28 * np.log(2)
    assert herd("eval", "w.h5", "--likelihood", "exact").code == 2
