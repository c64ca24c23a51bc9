"""`herd herd` as a process: what it writes, that nothing but the data and options decides the bytes, and what it refuses."""

from __future__ import annotations

import json
import tracemalloc

import click
import h5py
import numpy as np
import pytest

from herdcli.artifacts.load_save import load
from herdcli.cli.main import cli
from herdcli.herding import dynamics, visible_herding


def write(path, X, **more):
    with h5py.File(path, "w") as file:
        file["X"] = X
        for name, item in more.items():
            if name == "value_range":
                file.attrs[name] = item
            else:
                file[name] = item
    return path


@pytest.fixture
def patterns(tmp_path):
    """Three classes of noisy 40-bit patterns, 50 rows each, with a split and a constant unit."""
    draws = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 50)
    on = (draws.random((3, 40)) < 0.5)[y] ^ (draws.random((150, 40)) < 0.15)
    on[:, 3] = False
    return write(tmp_path / "patterns.h5", on.astype(np.uint8), y=y, split=np.tile(np.repeat([0, 1, 2], [30, 10, 10]), 3).astype(np.uint8))


OPTIONS = ("--hidden", 12, "--iterations", 200, "--burn-in", 100)


def figures(herd, path):
    ended = herd("eval", path, "--format", "json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)[0]


def test_pipe_from_data_to_figures(herd, patterns):
    made = herd("herd", patterns, "--per-class", *OPTIONS, "-o", "a.herd.h5")
    assert made.code == 0, made.err
    assert "1 of 40 units are constant in all training rows and were left out" in made.err
    assert "3 runs × 200 iterations" in made.err
    row = figures(herd, "a.herd.h5")
    assert row["error"] <= 0.1
    assert row["moment_gap"] < 0.3
    assert herd("check", "a.herd.h5").code == 0
    assert b"herding" in herd("info", "a.herd.h5").out


def test_threads_kernels_and_resuming_leave_the_bytes_alone(herd, patterns, tmp_path):
    plain = herd("herd", patterns, "--per-class", *OPTIONS).out
    assert plain
    assert herd("herd", patterns, "--per-class", *OPTIONS, "-j", 2).out == plain
    assert herd("herd", patterns, "--per-class", *OPTIONS, kernels="python").out == plain
    kept = herd("herd", patterns, "--per-class", *OPTIONS, "--checkpoint", "state.h5", "--every", 1)
    assert kept.out == plain
    assert not (tmp_path / "state.h5").exists()
    other = herd("herd", patterns, "--per-class", *OPTIONS, "--seed", 1).out
    assert other != plain


def test_rates_drive_herding_without_data(herd, patterns):
    assert herd("herd", patterns, *OPTIONS, "--hidden-bias", "full", "-o", "a.h5").code == 0
    ended = herd("herd", "--rates", "a.h5", "--iterations", 300, "-o", "b.h5")
    assert ended.code == 0, ended.err
    assert "rates only approximate the data" in ended.err
    assert figures(herd, "b.h5")["moment_gap"] < 0.3
    wrong = herd("herd", "--rates", "a.h5", "--hidden", 13)
    assert (wrong.code, wrong.out) == (65, b"")
    assert "--hidden 12, not 13" in wrong.err


def test_fully_visible_models(herd, patterns, tmp_path):
    small = write(tmp_path / "small.h5", (np.random.default_rng(1).random((40, 5)) < 0.4).astype(np.uint8))
    for arguments in (("--features", "x"), ("--features", "x,xx"), ("--features", "x,xx", "--maximiser", "rows")):
        ended = herd("herd", small, "--model", "mrf", *arguments, "--iterations", 2000, "-o", "v.h5", "-q")
        assert ended.code == 0, ended.err
        assert figures(herd, "v.h5")["moment_gap"] < 0.2
    means = write(tmp_path / "means.h5", np.array([[0.25, 0.5, 0.75]]))
    ended = herd("herd", means, "--from-moments", "--representation", "binary", "--iterations", 400, "--burn-in", 0, "-o", "m.h5")
    assert ended.code == 0, ended.err
    assert figures(herd, "m.h5")["moment_gap"] == 0
    points = -np.pi + np.arange(7)
    circle = write(tmp_path / "circle.h5", np.column_stack([np.sin(points), np.cos(points)]))
    ended = herd("herd", circle, "--features", "rows", "--iterations", 700, "-o", "c.h5")
    assert ended.code == 0, ended.err
    assert figures(herd, "c.h5")["moment_gap"] < 0.01


def test_runaway_weights_are_said_and_can_be_an_error(herd, tmp_path):
    bits = write(
        tmp_path / "bits.h5", (np.random.default_rng(0).random((20, 10)) < 0.5).astype(np.uint8), split=np.zeros(20, dtype=np.uint8)
    )
    options = (bits, "--hidden", 5, "--hidden-bias", "growthless", "--no-flip", "--iterations", 4000)
    warned = herd("herd", *options, "-o", "a.h5")
    assert warned.code == 0
    assert "the weights grow without bound" in warned.err
    refused = herd("herd", *options, "-o", "b.h5", "--on-nonconvergence", "error")
    assert refused.code == 1
    assert (tmp_path / "b.h5").exists()  # the run is stored either way
    assert (
        "grow without bound"
        not in herd("herd", bits, "--hidden", 5, "--variant", "safe", "--hidden-bias", "full", "--iterations", 4000, "-o", "c.h5").err
    )


GREY = np.linspace(0, 1, 60).reshape(20, 3)
BITS = (np.random.default_rng(2).random((20, 6)) < 0.5).astype(np.uint8)


@pytest.mark.parametrize(
    ("X", "y", "options", "code", "words"),
    [
        (GREY, None, (), 2, "more than two values"),
        (np.ones((9, 4), dtype=np.uint8), None, (), 65, "fewer than two distinct"),
        (BITS, None, ("--per-class",), 65, "no labels"),
        (BITS, np.zeros(20, dtype=int), ("--per-class",), 65, "all rows have the same label"),
        (BITS, None, ("--iterations", 10, "--burn-in", 10), 2, "burn-in"),
        (BITS, None, ("--model", "mrf", "--from-moments"), 65, "one row of means"),
        (np.array([[0.5, 1.5]]), None, ("--from-moments",), 65, "moment 1 is 1.5, but must be from -1 to 1"),
        (np.array([[0.5, 0.5]]), None, ("--from-moments", "--features", "x,xx"), 65, "the number of moments is 2"),
        (BITS, None, ("--model", "mrf", "--features", "x,xx", "--maximiser", "exact"), 2, "--maximiser exact works only with"),
        (BITS, None, ("--features", "x"), 2, "--model mrf"),
        (BITS, None, ("--model", "rbm", "--maximiser", "rows"), 2, "--model mrf"),
        (BITS, None, ("--step-sizes", "1,0,1"), 2, "three whole numbers"),
        (np.zeros((3, 2)), None, ("--features", "rows"), 65, "two distinct"),
    ],
)
def test_what_cannot_be_herded_is_refused_in_one_line(herd, tmp_path, X, y, options, code, words):
    data = write(tmp_path / "data.h5", X, **({} if y is None else {"y": y}))
    ended = herd("herd", data, *options, "-o", "out.h5")
    assert ended.code == code, ended.err
    assert words in ended.err
    assert len([line for line in ended.err.splitlines() if not line.startswith(("hint:", "herd: warning"))]) == 1
    assert not (tmp_path / "out.h5").exists()


def test_rates_of_another_kind_are_refused(herd, tmp_path):
    data = write(tmp_path / "data.h5", BITS)
    assert herd("herd", data, "--model", "mrf", "-o", "v.h5").code == 0
    ended = herd("herd", "--rates", "v.h5", "-o", "w.h5")
    assert ended.code == 65
    assert "no moments of hidden features" in ended.err


def test_options_are_those_of_the_topic():
    command = cli.get_command(click.Context(cli), "herd")
    options = {param.name: param for param in command.params}
    for settings, names in (
        (dynamics.HiddenHerdingSettings(), ("hidden", "variant", "flip", "hidden_bias", "sweeps", "step_sizes")),
        (visible_herding.VisibleHerdingSettings(), ()),
    ):
        for name in (*names, "iterations", "energy_every", "representation", "seed"):
            default = options[name].default
            assert options[name].type.convert(default, None, None) == getattr(settings, name), name
    for bias in options["hidden_bias"].type.choices:
        assert dynamics.HiddenHerdingSettings(hidden_bias=bias).hidden_bias == bias
    for maximiser in options["maximiser"].type.choices:
        features = {"exact": "x", "rows": "rows"}.get(maximiser, "x,xx")
        assert visible_herding.VisibleHerdingSettings(features=features, maximiser=maximiser).maximiser == maximiser


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "--model rbm --from-moments",
            "--features rows, --from-moments and --maximiser are for fully visible models\nhint: use --model mrf\n",
        ),
        (
            "--per-class --from-moments",
            "--per-class needs labelled two-state rows\nhint: leave out --rates, --from-moments and --features rows\n",
        ),
        (
            "--per-class --rates r.h5",
            "--per-class needs labelled two-state rows\nhint: leave out --rates, --from-moments and --features rows\n",
        ),
        (
            "--model mrf --rates r.h5",
            "--rates needs hidden units, but --model mrf has none\nhint: use --from-moments, which need no data\n",
        ),
    ],
)
def test_contradictions_are_refused_before_rows_are_read(herd, arguments, message):
    ended = herd("herd", "none.h5", *arguments.split())
    assert (ended.code, ended.err) == (2, f"herd herd: {message}")


@pytest.mark.parametrize("model", ["rbm", "mrf"])
def test_rows_are_held_once_while_they_are_read_and_freed_before_the_run(run, tmp_path, model):
    X = np.random.default_rng(0).standard_normal((40_000, 50), dtype=np.float32)
    few, many = (write(tmp_path / f"{len(rows)}.h5", rows) for rows in (X[:100], X))
    options = ["--model", "mrf", "--features", "x,xx"] if model == "mrf" else ["--hidden", 4]
    options += ["--threshold", 0.5, "--range=-20,20", "--iterations", 2, "-q", "-o", "out.h5"]
    assert run("herd", few, *options).code == 0  # imports the modules
    tracemalloc.start()
    ended = run("herd", many, *options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert ended.code == 0
    assert peak < 1.2 * 5 * X.size + 3e6  # 4 bytes a value as stored, and one as truth values; blocks and the program


def text_and_bits(path, rows=200):
    random = np.random.default_rng(0)
    colour = random.choice(["red", "green", "blue"], rows, p=[0.5, 0.3, 0.2])
    answer = np.where(random.random(rows) < 0.9, np.where(colour == "red", "yes", "no"), random.choice(["yes", "no"], rows))
    bit = random.integers(2, size=rows)
    path.write_text("colour,bit,answer\n" + "".join(f"{a},{b},{c}\n" for a, b, c in zip(colour, bit, answer, strict=True)))
    return colour, bit, answer


@pytest.mark.parametrize("options", [("--hidden", "8"), ("--model", "mrf", "--features", "x,xx")])
def test_pseudo_samples_of_text_columns_have_one_named_state_each(herd, tmp_path, options):
    colour, bit, answer = text_and_bits(tmp_path / "t.csv")
    ended = herd("herd", "t.csv", *options, "--iterations", "1000", "--split", "1,0,0", "-o", "h.h5")
    assert ended.code == 0, ended.err
    drawn = herd("sample", "h.h5", "-m", "500", "-o", "drawn.csv")
    assert drawn.code == 0, drawn.err
    head, *rows = (tmp_path / "drawn.csv").read_text().replace('"', "").splitlines()
    assert head == "bit,colour,answer"
    cells = [row.split(",") for row in rows]
    assert len(cells) == 500
    for position, given in ((0, bit.astype(str)), (1, colour), (2, answer)):
        found = np.array([row[position] for row in cells])
        assert set(found) == set(given)
        for level in set(given):
            assert np.mean(found == level) == pytest.approx(np.mean(given == level), abs=0.06)
    if "mrf" in options:
        share = np.mean([row[1:] == ["red", "yes"] for row in cells])
        assert share == pytest.approx(np.mean((colour == "red") & (answer == "yes")), abs=0.02)


def test_pseudo_samples_are_rows_of_the_last_iterations(herd, tmp_path):
    (tmp_path / "b.csv").write_text("a,b,c\n" + "".join(f"{k % 2},{k % 3 > 0:d},1\n" for k in range(60)))
    assert herd("herd", "b.csv", "--hidden", "4", "--iterations", "100", "--keep-last", "20", "--split", "1,0,0", "-o", "h.h5").code == 0
    drawn = herd("sample", "h.h5", "-o", "drawn.csv")
    assert drawn.code == 0
    assert "left out 1 column that is the same in all training rows" in drawn.err
    kept = load(str(tmp_path / "h.h5")).value.kept_samples(0)[0]
    found = np.loadtxt(tmp_path / "drawn.csv", delimiter=",", skiprows=1)
    np.testing.assert_array_equal(found, kept > 0)
    ended = herd("sample", "h.h5", "-m", "30", "-o", "x.csv")
    assert ended.code == 2
    assert ended.err.endswith(
        "h.h5: the file keeps 20 pseudo-samples of each run, fewer than the 30 requested\nhint: keep more of them: herd herd "
        "--keep-last N\n"
    )
