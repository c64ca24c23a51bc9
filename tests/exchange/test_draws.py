"""netCDF for ArviZ: what it opens are the draws; what is older than HDF5 is refused."""

from __future__ import annotations

import numpy as np
import pytest

import herdcli
from herdcli.artifacts import Dataset

pytestmark = pytest.mark.filterwarnings("ignore:herd ", "ignore::FutureWarning")
RNG = np.random.default_rng(13)
BITS = (RNG.random((60, 5)) > 0.5).astype(float)


@pytest.fixture
def arviz():
    pytest.importorskip("h5netcdf")
    return pytest.importorskip("arviz")


def opened(arviz, path):
    return arviz.from_netcdf(str(path), engine="h5netcdf")


def test_rows_of_a_model_are_draws(tmp_path, run, arviz):
    herdcli.save(tmp_path / "rbm.h5", herdcli.fit_rbm(Dataset(BITS, feature_names=list("abcde")), hidden=2, epochs=1))
    for name in ("x.nc", "x.csv"):
        assert run("sample", "rbm.h5", "-m", 12, "--burn-in", 5, "--means", "-q", "-o", name) == (0, "")
    data = opened(arviz, tmp_path / "x.nc")
    assert dict(data.posterior.sizes) == {"chain": 1, "draw": 12}
    rows = herdcli.load(tmp_path / "x.csv").X
    for column, name in enumerate("abcde"):
        np.testing.assert_allclose(data.posterior[name].values[0], rows[:, column], rtol=1e-6)
    assert list(arviz.summary(data).index) == list("abcde")
    assert run("convert", "x.nc", "-q", "-o", "again.csv")[0] == 0  # herd reads what it wrote
    np.testing.assert_allclose(herdcli.load(tmp_path / "again.csv").X, rows, rtol=1e-6)


def test_chains_of_a_sampler_stay_apart(tmp_path, run, arviz):
    chain = np.array([0, 1] * 10)
    herdcli.save(tmp_path / "d.h5", Dataset(np.arange(40.0).reshape(20, 2), columns={"chain": chain}, y=chain))
    assert run("convert", "d.h5", "-q", "-o", "d.nc") == (0, "")
    found = opened(arviz, tmp_path / "d.nc").posterior
    assert dict(found.sizes) == {"chain": 2, "draw": 10, "x_dim": 2}
    np.testing.assert_array_equal(found["x"].values[1, :, 0], np.arange(2.0, 40.0, 4.0))
    np.testing.assert_array_equal(found["y"].values, [[0] * 10, [1] * 10])
    herdcli.save(tmp_path / "e.h5", Dataset(np.zeros((3, 1)), columns={"chain": np.array([0, 0, 1])}))
    message = "the chains have 1 to 2 rows, but InferenceData needs the same number of draws in each chain"
    assert run("convert", "e.h5", "-q", "-o", "e.nc") == (2, f"herd convert: {message}\n")


def test_atoms_have_weights_and_runs_are_chains(tmp_path, run, arviz):
    samples = herdcli.kernel_herd(RNG.normal(size=(50, 3)), count=6, weights="simplex")
    herdcli.save(tmp_path / "s.nc", samples)
    data = opened(arviz, tmp_path / "s.nc")
    np.testing.assert_array_equal(data.posterior["x"].values[0], samples.x)
    np.testing.assert_array_equal(data.sample_stats["weight"].values[0], samples.weight)
    herding = herdcli.herd(BITS, np.arange(60) % 2, hidden=3, iterations=20, per_class=True, row_split=np.arange(60) % 3)
    herdcli.save(tmp_path / "h.h5", herding)
    assert run("convert", "h.h5", "-q", "-o", "h.nc") == (0, "")
    found = opened(arviz, tmp_path / "h.nc").posterior
    for number in range(2):
        x, z = herding.kept_samples(number)
        np.testing.assert_array_equal(found["x"].values[number], x)
        np.testing.assert_array_equal(found["z"].values[number], z)


def test_elements_of_an_array_are_one_variable(tmp_path, arviz):
    X = RNG.normal(size=(8, 5))
    herdcli.save(tmp_path / "d.nc", Dataset(X, feature_names=["b[0, 1]", "b[0, 0]", "mu", "theta[0]", "theta[1]"]))
    found = opened(arviz, tmp_path / "d.nc").posterior
    assert {name: found[name].dims for name in found} == {
        "b": ("chain", "draw", "b_dim_0", "b_dim_1"),
        "mu": ("chain", "draw"),
        "theta": ("chain", "draw", "theta_dim"),
    }
    np.testing.assert_array_equal(found["b"].values[0, :, 0], X[:, [1, 0]])


def test_equal_draws_make_equal_bytes(tmp_path):
    samples = herdcli.kernel_herd(RNG.normal(size=(30, 2)), count=4)
    for name in ("a.nc", "b.nc"):
        herdcli.save(tmp_path / name, samples)
    assert (tmp_path / "a.nc").read_bytes() == (tmp_path / "b.nc").read_bytes()


@pytest.mark.parametrize("version", [b"\x01", b"\x02"])
def test_netcdf_of_version_3_is_refused(tmp_path, run, version):
    (tmp_path / "old.nc").write_bytes(b"CDF" + version + b"\0" * 60)
    message = "is netCDF of version 3, which herd does not read\nhint: write version 4, which is HDF5: idata.to_netcdf(FILE)\n"
    assert run("convert", "old.nc", "-o", "x.h5") == (65, f"herd convert: old.nc: {message}")


def test_what_has_no_draws_is_refused(tmp_path, run):
    herdcli.save(tmp_path / "rbm.h5", herdcli.fit_rbm(BITS, hidden=2, epochs=1))
    assert run("convert", "rbm.h5", "-o", "x.nc") == (
        65,
        "herd convert: rbm.h5: is of kind rbm, but must be of kind dataset or herding or samples\n",
    )
    code, err = run("fit-rbm", "rbm.h5", "-o", "x.nc")
    hint = "hint: write HDF5: -o FILE.h5 (netcdf works for dataset, herding, samples)\n"
    assert (code, err) == (2, f"herd fit-rbm: x.nc: an artifact of kind rbm cannot be written as netcdf\n{hint}")
