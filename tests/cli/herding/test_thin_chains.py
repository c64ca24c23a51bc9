"""`herd kernel-herd` of samplers' draws: a file for each chain, columns that are no coordinates, and what thinning costs."""

from __future__ import annotations

import csv
import re

import numpy as np
import pytest

from herdcli.artifacts import load
from herdcli.evaluation.metrics.thinning_error import compare_statistics

OWN = ["lp__", "accept_stat__", "stepsize__", "treedepth__", "n_leapfrog__", "divergent__", "energy__"]


def chain(number: int, draws: int = 60, warmup: int = 0, divergent: int = 0) -> str:
    """CmdStan's output of one chain; draws of the warm-up lie at 100."""
    random = np.random.default_rng(number)
    lines = ["# stan_version_major = 2", "# model = m", f"#     num_samples = {draws}", f"#   id = {number} (Default)"]
    lines.append(",".join([*OWN, "mu", "theta.1"]))
    lines += ["-1.5,0.9,0.8,2,3,0,2.2,100,100"] * warmup + ["# Adaptation terminated", "# Step size = 0.8"]
    for k in range(draws):
        mu, theta = random.normal(size=2) + number
        lines.append(f"-1.5,0.9,0.8,2,3,{int(k < divergent)},2.2,{mu:.5f},{theta:.5f}")
    return "\n".join([*lines, "# ", "#  Elapsed Time: 0.1 seconds (Warm-up)"]) + "\n"


@pytest.fixture
def chains(tmp_path):
    """chain-2.csv, chain-10.csv and chain-3.csv, in which draws of the warm-up and divergent ones."""
    for number in (2, 3, 10):
        (tmp_path / f"chain-{number}.csv").write_text(chain(number, warmup=20 * (number == 3), divergent=4 * (number == 2)))
    return tmp_path


def test_each_file_of_cmdstan_is_a_chain(herd, chains):
    done = herd("kernel-herd", "chain-*.csv", "--thin-by-chain", "-m", "4", "-o", "s.h5")
    assert done.code == 0, done.err
    made = load(str(chains / "s.h5")).value
    assert (made.feature_names, made.group_names) == (["mu", "theta.1"], ["2", "3", "10"])
    for group, number in enumerate((2, 3, 10)):
        assert abs(made.x[made.group == group].mean() - number) < 0.5
    assert "chain-3.csv: left out the 20 draws of the warm-up" in done.err
    assert "chain-*.csv: 180 draws from 3 chains in 3 files" in done.err
    assert "warning: 4 of 180 draws are divergent" in done.err
    assert "all 3 groups use one length scale, from the distances of all rows: gaussian:" in done.err
    last = done.err.splitlines()[-1]
    assert "12 atoms" in last
    assert re.search(r"MMD 0\.\d+ in group (2|3|10), the largest of 3 \(4 random rows: ", last)
    assert f"not coordinates: {', '.join(sorted(OWN))}" in last


def test_one_file_of_cmdstan_is_one_chain(herd, chains):
    done = herd("kernel-herd", "chain-3.csv", "--thin-by-chain", "-m", "4", "-o", "s.h5")
    assert done.code == 0, done.err
    made = load(str(chains / "s.h5")).value
    assert (made.feature_names, made.group_names, len(made.x)) == (["mu", "theta.1"], ["3"], 4)
    assert done.err.count("left out the 20 draws of the warm-up") == 1
    assert "chain-3.csv: 60 draws from 1 chain in 1 file" in done.err


def test_without_thinning_by_chain_the_files_are_one_sample(herd, chains):
    assert herd("kernel-herd", "chain-*.csv", "-m", "6", "-o", "s.h5").code == 0
    made = load(str(chains / "s.h5")).value
    assert made.group_names is None
    assert made.feature_names == ["mu", "theta.1"]


def test_chains_of_other_models_are_refused(herd, chains):
    (chains / "chain-4.csv").write_text(chain(4).replace("theta.1", "theta.2"))
    refused = herd("kernel-herd", "chain-*.csv", "--thin-by-chain", "-m", "4", "-o", "s.h5")
    assert (refused.code, refused.err.splitlines()[-2:]) == (
        65,
        ["herd kernel-herd: chain-4.csv: has other columns than chain-10.csv", "hint: give files of chains from the same model"],
    )


def test_files_of_any_table_are_chains_where_they_do_not_say(herd, tmp_path):
    for number in range(2):
        X = np.random.default_rng(number).normal(size=(30, 2)) + 5 * number
        np.savetxt(tmp_path / f"run-{number}.csv", X, delimiter=",", header="a,b", comments="")
    assert herd("kernel-herd", "run-*.csv", "--thin-by-chain", "-m", "3", "-o", "s.h5").code == 0
    made = load(str(tmp_path / "s.h5")).value
    assert made.group_names == ["1", "2"]
    assert [made.x[made.group == g].mean() > 2 for g in range(2)] == [False, True]


@pytest.mark.parametrize("name", ["chain", ".chain"])
@pytest.mark.parametrize("by", [("--thin-by-chain",), ()])
def test_columns_of_samplers_are_no_coordinates(herd, tmp_path, name, by):
    random = np.random.default_rng(1)
    rows = [f"{1 + k % 2},{k},{k},{-random.random():.3f},{random.random():.2f},{random.normal():.4f}" for k in range(40)]
    (tmp_path / "d.csv").write_text("\n".join([f"{name},.iteration,.draw,lp__,accept_stat__,mu", *rows]) + "\n")
    done = herd("kernel-herd", "d.csv", "-m", "3", *by, "-o", "s.h5")
    assert done.code == 0, done.err
    made = load(str(tmp_path / "s.h5")).value
    assert made.feature_names == ["mu"]
    assert made.group_names == (["1", "2"] if by else None)
    for own in (".iteration", ".draw", "lp__", "accept_stat__"):
        assert own in done.err.splitlines()[-1].partition("not coordinates: ")[2]
    blocks = herd("kernel-herd", "d.csv", "-m", "3", "--block-rows", "20", "-o", "b.h5")
    assert f"not coordinates: {name}, .iteration, .draw, lp__, accept_stat__" in blocks.err
    assert load(str(tmp_path / "b.h5")).value.feature_names == ["mu"]


def test_a_table_of_nothing_but_such_columns_has_them_as_coordinates(herd, tmp_path):
    X = np.random.default_rng(1).normal(size=(20, 2))
    np.savetxt(tmp_path / "d.csv", X, delimiter=",", header=".draw,.iteration", comments="")
    done = herd("kernel-herd", "d.csv", "-m", "3", "-o", "s.h5")
    assert "not coordinates" not in done.err
    assert load(str(tmp_path / "s.h5")).value.feature_names == [".draw", ".iteration"]


def test_the_report_has_statistics_of_all_draws_and_of_the_chosen(herd, chains):
    done = herd("kernel-herd", "chain-2.csv", "-m", "8", "--thinning-report", "r.csv", "-o", "s.h5")
    assert done.code == 0, done.err
    with open(chains / "r.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["parameter"], row["statistic"]) for row in rows] == [
        (name, figure) for name in ("mu", "theta.1") for figure in ("mean", "sd", "q05", "q50", "q95")
    ]
    random = np.random.default_rng(2)
    draws = np.array([random.normal(size=2) + 2 for _ in range(60)]).round(5)
    made = load(str(chains / "s.h5")).value
    for j in range(2):
        own = {row["statistic"]: row for row in rows[5 * j : 5 * j + 5]}
        assert float(own["mean"]["all"]) == pytest.approx(draws[:, j].mean(), rel=1e-6)
        assert float(own["sd"]["all"]) == pytest.approx(draws[:, j].std(), rel=1e-6)
        assert float(own["q50"]["all"]) == pytest.approx(np.median(draws[:, j]), rel=1e-6)
        assert float(own["mean"]["chosen"]) == pytest.approx(made.weight @ made.x[:, j], rel=1e-6)
        assert float(own["mean"]["random_error"]) == pytest.approx(draws[:, j].std() / 8**0.5, rel=0.2)


def test_random_errors_are_those_of_the_theory():
    """Of m normal draws: 1/√m of the mean, 1/√(2m) of the deviation, √(π/2m) of the median."""
    X = np.random.default_rng(0).normal(size=(20_000, 2))
    even = np.full(len(X), 1 / len(X))
    found = compare_statistics(X, even, X[:200], np.full(200, 1 / 200), 3)
    for parameter in found:
        error = {name: figure for name, _, _, figure in parameter}
        assert error["mean"] == pytest.approx(200**-0.5, rel=0.15)
        assert error["sd"] == pytest.approx(400**-0.5, rel=0.15)
        assert error["q50"] == pytest.approx((np.pi / 400) ** 0.5, rel=0.15)


def test_quantiles_of_weighted_rows_are_those_of_repeated_ones():
    X = np.array([[3.0], [1.0], [2.0], [5.0]])
    (weighted,) = compare_statistics(X, np.array([1, 2, 3, 4]) / 10, X, np.full(4, 0.25), 0)
    repeated = np.repeat(X[:, 0], [1, 2, 3, 4])
    values = {name: value for name, value, _, _ in weighted}
    assert values["mean"] == pytest.approx(repeated.mean())
    assert values["sd"] == pytest.approx(repeated.std())
    assert (values["q05"], values["q50"], values["q95"]) == (1.0, np.median(repeated), 5.0)


def test_a_report_of_what_is_not_in_memory_is_refused(herd, chains):
    refused = herd("kernel-herd", "chain-2.csv", "-m", "4", "--block-rows", "10", "--thinning-report", "r.csv", "-o", "s.h5")
    assert (refused.code, refused.err.splitlines()[0]) == (2, "herd kernel-herd: --thinning-report needs all rows in memory, in one run")
    closed = herd(
        "kernel-herd", "-m", "4", "--distribution", "uniform", "--candidates", "grid:64", "--thinning-report", "r.csv", "-o", "s.h5"
    )
    assert (closed.code, closed.err.splitlines()[0]) == (
        2,
        "herd kernel-herd: --thinning-report compares atoms with rows, but the target has no rows",
    )
