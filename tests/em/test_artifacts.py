"""Kinds of this topic: written, read, checked, and the archived files of each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from herdcli.artifacts.load_save import load, save
from herdcli.em import artifacts, driver
from herdcli.em.factor import factor_analysis
from herdcli.em.mixture import gmm, kmeans
from herdcli.errors import DataError
from herdcli.numerics import block_statistics
from herdcli.schema import check_arrays

ARCHIVE = Path(__file__).resolve().parents[1] / "data"


def fitted(kind: str):
    X = np.random.default_rng(0).normal(size=(60, 3))
    source, settings = block_statistics.RowBlocks(block_statistics.ArrayRows(X)), driver.EMSettings(4, 0.0, restarts=2)
    if kind == "mixture":
        model = gmm.prepare_gmm(source, 2)
        return artifacts.mixture_artifact(driver.run_em(driver.EM(model, source, settings)), "full", model.floor, 0, X[:5])
    if kind == "kmeans":
        return artifacts.kmeans_artifact(driver.run_em(driver.EM(kmeans.prepare_kmeans(source, 2), source, settings)), 0, X[:5])
    model, short = factor_analysis.prepare_factors("fa", source, 1)
    return artifacts.factor_artifact(driver.run_em(driver.EM(model, short, settings)), "fa", model.floor, 0)


@pytest.mark.parametrize("kind", ["mixture", "kmeans", "factors"])
def test_what_is_written_is_read(kind: str, tmp_path: Path) -> None:
    value, path = fitted(kind), str(tmp_path / "x.h5")
    save(path, value, [])
    found = load(path)
    assert found.kind == kind
    assert found.value.ledger.free_energy.tobytes() == value.ledger.free_energy.tobytes()
    assert found.value.restarts.objective.tolist() == value.restarts.objective.tolist()
    check_arrays(found.value)


@pytest.mark.parametrize("kind", ["mixture", "kmeans", "factors"])
def test_archived_files_load(kind: str) -> None:
    found = load(str(ARCHIVE / f"{kind}-1.h5"))
    assert found.kind == kind
    assert found.value.ledger.largest_rise < 1e-9
    assert len(found.value.restarts.objective) == 2


def test_values_that_make_no_model_are_refused() -> None:
    mixture, clusters, model = fitted("mixture"), fitted("kmeans"), fitted("factors")
    for value, message in (
        (replace(mixture, weight=np.array([0.5, 0.6])), "/weight does not hold probabilities, which are at least 0 and sum to 1"),
        (replace(mixture, covariance=-mixture.covariance), "/covariance is not positive definite"),
        (replace(mixture, family="round"), "family is 'round'"),
        (replace(mixture, mean=mixture.mean[:1]), "dataset 'mean' has 1 entries along K but 'weight' has 2"),
        (replace(clusters, centre=clusters.centre * np.nan), "/centre has values that are not finite"),
        (replace(clusters, restarts=replace(clusters.restarts, best=2)), "/restarts/best is 2, but there are only 2 restarts"),
        (replace(model, model="pca"), "/noise must be 0 for pca and above 0 for the other models"),
        (replace(model, model="nmf"), "model is 'nmf'"),
    ):
        with pytest.raises(DataError, match=message):
            check_arrays(value)


def test_a_checkpoint_keeps_a_run_in_the_middle_of_a_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from herdcli.artifacts.h5py_import import h5py
    from herdcli.artifacts.sealed import codec

    monkeypatch.setattr(block_statistics, "PASS_BLOCKS", 1)
    X = np.random.default_rng(0).normal(size=(3 * block_statistics.BLOCK, 2))
    source = block_statistics.RowBlocks(block_statistics.ArrayRows(X))
    run = driver.EM(gmm.prepare_gmm(source, 2), source, driver.EMSettings(2, 0.0))
    state = run.init()
    for _ in range(4):
        state = run.step(state)
    with h5py.File(tmp_path / "state.h5", "w") as file:
        codec.write_fields(file, state)
    with h5py.File(tmp_path / "state.h5") as file:
        again = codec.read_fields(file, run.state, where="state.h5")
    while not run.done(state):
        state = run.step(state)
    while not run.done(again):
        again = run.step(again)
    assert run.result(again).parameters["mean"].tobytes() == run.result(state).parameters["mean"].tobytes()
