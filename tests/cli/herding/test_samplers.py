"""Draws as samplers write them: ArviZ's netCDF and CmdStan's CSV with its diagnostic file, into `herd kernel-herd`."""

from __future__ import annotations

import csv

import h5py
import numpy as np
import pytest

from herdcli import artifacts
from herdcli.errors import BadUsage, DataError

CHAINS, DRAWS = 2, 30
RANDOM = np.random.default_rng(0)
THETA, MU = RANDOM.standard_normal((CHAINS, DRAWS, 3)), RANDOM.standard_normal((CHAINS, DRAWS))


@pytest.fixture
def nc(tmp_path):
    """idata.nc as netCDF-4 lays it out: two groups of draws with their dimension scales, and one of data."""
    with h5py.File(tmp_path / "idata.nc", "w") as file:
        for name, scale in (("posterior", 1.0), ("unconstrained_posterior", 2.0)):
            group = file.create_group(name)
            for axis, numbers in (("chain", np.arange(CHAINS) + 4), ("draw", np.arange(DRAWS)), ("theta_dim_0", np.arange(3))):
                group[axis] = numbers
                group[axis].make_scale(axis)
            group["theta"], group["mu"] = scale * THETA, scale * MU
            for place, axis in enumerate(("chain", "draw", "theta_dim_0")):
                group["theta"].dims[place].attach_scale(group[axis])
            group["words"] = np.array([b"a", b"b"])
        file.create_group("observed_data")["y"] = np.arange(5.0)
    return tmp_path / "idata.nc"


def test_draws_of_all_chains_are_rows(nc):
    notes = []
    data = artifacts.load(str(nc), note=notes.append, label="chain").value
    assert data.feature_names == ["mu", "theta[0]", "theta[1]", "theta[2]"]
    np.testing.assert_array_equal(data.X[:, 0], MU.ravel())
    np.testing.assert_array_equal(data.X[:, 1:], THETA.reshape(-1, 3))
    np.testing.assert_array_equal(data.y, np.repeat([4, 5], DRAWS))
    assert [note.split(": ", 1)[1] for note in notes] == [
        "read posterior; --layer takes posterior, unconstrained_posterior",
        "these parts of the file are not used: words",
    ]
    np.testing.assert_array_equal(artifacts.load(str(nc), layer="unconstrained_posterior").value.X[:, 0], 2 * MU.ravel())


def test_divergent_draws_are_reported_and_no_coordinates(herd, nc, tmp_path):
    diverging = np.zeros((CHAINS, DRAWS), dtype=bool)
    diverging[1, :7] = True
    with h5py.File(nc, "a") as file:
        for name, size in (("sample_stats", DRAWS), ("prior", 5)):  # a group of draws has its own number of them
            for axis, numbers in (("chain", np.arange(CHAINS)), ("draw", np.arange(size))):
                file[f"{name}/{axis}"] = numbers
        file["sample_stats/diverging"] = diverging
    done = herd("kernel-herd", nc, "-m", 3, "-o", "s.h5")
    assert done.code == 0, done.err
    assert "warning: 7 of 60 draws are divergent" in done.err
    assert artifacts.load(str(tmp_path / "s.h5")).value.feature_names == ["mu", "theta[0]", "theta[1]", "theta[2]"]
    data = artifacts.load(str(nc)).value
    np.testing.assert_array_equal(data.columns["diverging"], diverging.ravel())
    assert artifacts.load(str(nc), layer="unconstrained_posterior").value.columns is None


def test_chains_are_thinned_apart(herd, nc, tmp_path):
    assert herd("kernel-herd", nc, "-m", 3, "--thin-by-chain", "-o", "chains.h5").code == 0
    assert herd("kernel-herd", nc, "-m", 3, "--by", "chain", "-o", "by.h5").code == 0
    assert (tmp_path / "chains.h5").read_bytes() == (tmp_path / "by.h5").read_bytes()
    value = artifacts.load(str(tmp_path / "chains.h5")).value
    assert value.group_names == ["4", "5"]
    np.testing.assert_array_equal(value.index // DRAWS, value.group)
    ended = herd("kernel-herd", nc, "-m", 3, "--thin-by-chain", "--by", "draw", "-o", "x.h5")
    assert (ended.code, ended.err.splitlines()[0]) == (
        2,
        "herd kernel-herd: --thin-by-chain means --by chain, so --by draw is not possible",
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [({"layer": "prior"}, "has no group 'prior' with draws"), ({"label": "y"}, "--label y does not exist in MCMC draws")],
)
def test_what_is_not_there_is_refused(nc, options, message):
    with pytest.raises(BadUsage, match=message):
        artifacts.load(str(nc), **options)


def stan(path, names, rows, *, warmup=0):
    """A file as CmdStan writes it: comments at the head, after the warm-up, and at the end."""
    own = ["lp__", "accept_stat__", "stepsize__", "treedepth__", "n_leapfrog__", "divergent__", "energy__"]
    lines = ["# stan_version_major = 2", "# model = m", f"#     save_warmup = {int(warmup > 0)}", ",".join(own + names)]
    body = [",".join(f"{number:.17g}" for number in (*np.zeros(len(own)), *row)) for row in rows]
    lines += [*body[:warmup], "# Adaptation terminated", "# Step size = 0.9", "# Diagonal elements of inverse mass matrix:", "# 1.5, 0.7"]
    lines += [*body[warmup:], "# ", "#  Elapsed Time: 0.01 seconds (Warm-up)", "# "]
    path.write_text("\n".join(lines) + "\n")


def test_a_diagnostic_file_has_its_scores(herd, tmp_path):
    """Of a normal law: g_ is the gradient of −log p, and the scores are those of the same draws in plain files."""
    X, precision = np.random.default_rng(1).standard_normal((60, 2)), np.array([1.0, 4.0])
    momenta, gradients = np.random.default_rng(2).standard_normal((60, 2)), X * precision
    names = ["a", "b.1", "p_a", "p_b.1", "g_a", "g_b.1"]
    stan(tmp_path / "diagnostic.csv", names, np.column_stack([X, momenta, gradients]))
    np.savetxt(tmp_path / "rows.csv", X, delimiter=",", header="a,b.1", comments="", fmt="%.17g")
    np.savetxt(tmp_path / "scores.csv", -gradients, delimiter=",", header="a,b.1", comments="", fmt="%.17g")
    options = ("-m", 9, "--kernel", "stein:imq")
    ended = herd("kernel-herd", "diagnostic.csv", *options, "--scores", "g_", "-o", "stan.csv")
    assert ended.code == 0
    assert "diagnostic.csv: the columns g_… hold the gradients of log p: --scores g_ uses them" in ended.err
    assert herd("kernel-herd", "rows.csv", *options, "--scores", "scores.csv", "-o", "plain.csv").code == 0
    assert (tmp_path / "stan.csv").read_text() == (tmp_path / "plain.csv").read_text()
    assert next(row["row"] for row in csv.DictReader((tmp_path / "stan.csv").read_text().splitlines())).isdigit()


def test_draws_of_the_warm_up_and_of_the_sampler_are_left_out(tmp_path):
    rows, notes = np.arange(20.0).reshape(10, 2), []
    stan(tmp_path / "draws.csv", ["mu", "theta.1"], rows, warmup=4)
    data = artifacts.load(str(tmp_path / "draws.csv"), note=notes.append).value
    np.testing.assert_array_equal(data.X, rows[4:])
    assert data.feature_names == ["mu", "theta.1"]
    assert notes == [f"{tmp_path / 'draws.csv'}: left out the 4 draws of the warm-up"]
    stan(tmp_path / "none.csv", ["mu"], rows[:3, :1], warmup=3)
    with pytest.raises(DataError, match="has no draws"):
        artifacts.load(str(tmp_path / "none.csv"))
