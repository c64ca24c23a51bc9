"""`herd kernel-herd --kernel stein:…` and `herd eval --scores` on the draws of a sampler."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

PRECISION = np.linalg.inv([[2.0, 0.8], [0.8, 1.0]])


@pytest.fixture
def chain(tmp_path):
    """chain.csv and scores.csv (its columns the other way round), both.csv with the two chains: 400 draws of a random walk."""
    random = np.random.default_rng(0)
    x, draws = np.array([6.0, -5.0]), []
    for _ in range(400):
        y = x + random.normal(size=2)
        if np.log(random.random()) < 0.5 * (x @ PRECISION @ x - y @ PRECISION @ y):
            x = y
        draws.append(x)
    X = np.array(draws)
    S = -X @ PRECISION
    write = {"delimiter": ",", "comments": "", "fmt": "%.17g"}
    np.savetxt(tmp_path / "chain.csv", X, header="a,b", **write)
    np.savetxt(tmp_path / "scores.csv", S[:, ::-1], header="b,a", **write)
    np.savetxt(tmp_path / "both.csv", np.column_stack([X, S, np.arange(400) // 200]), header="a,b,g_a,g_b,chain", **write)
    return tmp_path, X, S


def _rows(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def test_scores_from_a_file_by_name_and_from_columns(herd, chain):
    folder, X, S = chain
    assert herd("kernel-herd", "chain.csv", "-m", 20, "--kernel", "stein:imq,2", "--scores", "scores.csv", "-o", "file.csv").code == 0
    np.savetxt(folder / "four.csv", np.column_stack([S[:, 1], X, S[:, 0]]), delimiter=",", header="g_b,a,b,g_a", comments="", fmt="%.17g")
    assert herd("kernel-herd", "four.csv", "-m", 20, "--kernel", "stein:imq,2", "--scores", "g_", "-o", "columns.csv").code == 0
    assert (folder / "file.csv").read_text() == (folder / "columns.csv").read_text()
    found = _rows(folder / "file.csv")
    assert len({row["row"] for row in found}) > 15  # rejected moves repeat rows, chosen ones hardly do
    index = [int(row["row"]) for row in found]
    np.testing.assert_array_equal([[float(row["a"]), float(row["b"])] for row in found], X[index])
    ksd = json.loads(herd("eval", "chain.csv", "--kernel", "stein:imq,2", "--scores", "scores.csv", "--format", "json").out)[0]
    assert float(found[-1]["mmd"]) < 0.7 * ksd["target_mmd"]  # twenty points stand for the law better than all draws do


def test_the_discrepancy_of_the_atoms_is_what_eval_finds_anew(herd, chain):
    folder, _, S = chain
    options = ("--kernel", "stein:gaussian", "--scores", "scores.csv", "--scale", "std")
    assert herd("kernel-herd", "chain.csv", "-m", 15, *options, "-o", "atoms.h5").code == 0
    assert herd("kernel-herd", "chain.csv", "-m", 15, *options, "-o", "atoms.csv").code == 0
    index = [int(row["row"]) for row in _rows(folder / "atoms.csv")]
    np.savetxt(folder / "theirs.csv", S[index], delimiter=",", header="a,b", comments="", fmt="%.17g")
    figures = json.loads(herd("eval", "atoms.h5", "--scores", "theirs.csv", "--format", "json").out)[0]
    assert figures["target_mmd"] == pytest.approx(figures["mmd"], rel=1e-9)
    assert figures["verdict"] == "ok"


def test_each_chain_by_itself_and_a_run_that_goes_on(herd, chain):
    folder, _, _ = chain
    options = ("--kernel", "stein:imq,smpcov", "--scores", "g_")
    assert herd("kernel-herd", "both.csv", "-m", 6, *options, "--by", "chain", "-o", "chains.csv").code == 0
    rows = [int(row["row"]) for row in _rows(folder / "chains.csv")]
    assert max(rows[:6]) < 200 <= min(rows[6:])
    assert herd("kernel-herd", "both.csv", "-m", 6, *options, "--by", "chain", "-o", "six.h5").code == 0
    assert herd("kernel-herd", "both.csv", "-m", 9, *options, "--by", "chain", "--extend", "six.h5", "-o", "on.csv").code == 0
    assert herd("kernel-herd", "both.csv", "-m", 9, *options, "--by", "chain", "-o", "nine.csv").code == 0
    assert (folder / "on.csv").read_text() == (folder / "nine.csv").read_text()


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--kernel", "stein:imq"), 2, "a Stein kernel needs the score ∇ log p at each row"),
        (("--kernel", "stein:imq", "--scores", "short.csv"), 65, "short.csv: has 3 rows × 2 columns, but chain.csv has 400 × 2"),
        (("--kernel", "stein:imq", "--scores", "none.csv"), 66, "none.csv: is not a file, and no column name begins with it"),
        (("--kernel", "stein:imq", "--scores", "scores.csv", "--rule", "sobol"), 2, "--rule sobol samples from the target"),
        (
            ("--kernel", "stein:imq", "--scores", "scores.csv", "--distribution", "uniform"),
            2,
            "--distribution does not work with a Stein kernel",
        ),
        (("--kernel", "stein:imq", "--scores", "scores.csv", "--block-rows", "9"), 2, "--block-rows does not work with a Stein kernel"),
        (("--kernel", "stein:imq", "--scores", "nan.csv"), 65, "nan.csv: column 'b' has 1 missing value (first: line 9)"),
    ],
)
def test_what_is_refused(herd, chain, options, code, message):
    folder, _, S = chain
    np.savetxt(folder / "short.csv", S[:3], delimiter=",", header="a,b", comments="")
    S[7, 1] = np.nan
    np.savetxt(folder / "nan.csv", S, delimiter=",", header="a,b", comments="")
    ended = herd("kernel-herd", "chain.csv", "-m", 3, *options, "-o", "x.h5")
    assert ended.code == code
    assert message in ended.err
    assert ended.err.count("\n") <= 3
    assert not (folder / "x.h5").exists()


def test_columns_without_scores_are_named(herd, chain):
    folder = chain[0]
    titles, rows = (folder / "both.csv").read_text().split("\n", 1)
    (folder / "site.csv").write_text(titles.replace("chain", "site") + "\n" + rows)
    ended = herd("kernel-herd", "site.csv", "-m", 3, "--kernel", "stein:imq", "--scores", "g_", "-o", "x.h5")
    assert (ended.code, "lacks the scores g_site" in ended.err) == (65, True), ended.err
    assert "name one with --by" in ended.err
    ended = herd("kernel-herd", "both.csv", "-m", 3, "--kernel", "stein:imq", "--scores", "g_", "-o", "x.h5")
    assert (ended.code, "chain" in ended.err) == (0, True), ended.err  # the number of a chain is no coordinate and needs no scores


def test_eval_refuses_scores_with_another_kernel_or_target(herd, chain):
    assert "need a Stein kernel, not gaussian" in herd("eval", "chain.csv", "--scores", "scores.csv", "--kernel", "gaussian").err
    assert "already describe the target" in herd("eval", "chain.csv", "--scores", "scores.csv", "--distribution", "uniform").err


def test_scores_say_nothing_to_other_kernels(herd, chain):
    ended = herd("kernel-herd", "chain.csv", "-m", 3, "--scores", "scores.csv", "-o", "x.h5")
    assert ended.code == 0
    assert "warning: --scores has no effect with --kernel gaussian" in ended.err


@pytest.mark.parametrize("options", [(), ("--drop", "chain"), ("--columns", "a,b,g_*")])
def test_the_number_of_the_chain_is_no_coordinate_of_eval_either(herd, chain, options):
    done = herd("eval", "both.csv", "--scores", "g_", *options, "--format", "json")
    assert done.code == 0, done.err
    assert ("both.csv: not coordinates: chain" in done.err) is (not options)
    alone = herd("eval", "chain.csv", "--scores", "scores.csv", "--format", "json")
    assert json.loads(done.out)[0]["target_mmd"] == pytest.approx(json.loads(alone.out)[0]["target_mmd"], rel=1e-12)


def test_eval_compares_draws_without_the_number_of_their_chain(herd, chain):
    whole = herd("eval", "both.csv", "--data", "both.csv", "--format", "json")
    named = herd("eval", "both.csv", "--columns", "a,b,g_a,g_b", "--data", "both.csv", "--format", "json")
    assert (whole.code, named.code) == (0, 0), whole.err + named.err
    first, second = json.loads(whole.out)[0], json.loads(named.out)[0]
    assert first["target_mmd"] == pytest.approx(second["target_mmd"], abs=1e-12)


def test_eval_names_the_option_for_a_column_without_a_score(herd, chain):
    folder, X, S = chain
    np.savetxt(folder / "odd.csv", np.column_stack([X, S, S[:, 0]]), delimiter=",", header="a,b,g_a,g_b,time", comments="")
    done = herd("eval", "odd.csv", "--scores", "g_")
    message = "herd eval: odd.csv: lacks the scores g_time\nhint: leave out columns that are not coordinates with --drop NAME,…\n"
    assert (done.code, done.err) == (65, message)
    assert herd("eval", "odd.csv", "--scores", "g_", "--drop", "time").code == 0


def test_the_sampling_floor_of_scores_is_that_of_as_many_draws_as_atoms_and_says_so(herd, chain):
    assert herd("kernel-herd", "chain.csv", "-m", 15, "--kernel", "stein:imq", "--scores", "scores.csv", "-o", "atoms.h5").code == 0
    found = json.loads(herd("eval", "atoms.h5", "--format", "json").out)[0]
    assert found["sampling_floor"] == pytest.approx(found["mmd_random"], rel=1e-12)
    told = herd("eval", "atoms.h5", "--explain", "sampling_floor")
    assert "as many independent draws as the target has rows (if it has none: atoms)" in " ".join(told.out.decode().split()), told.out
