"""What earlier versions wrote is read, resumed, merged and made again: what scripts/checks/archive_outputs.py wrote into tests/data.

Arrays that were written on another machine are equal within rounding.
"""

from __future__ import annotations

import json
import pickle
import shlex
import zipfile
from pathlib import Path

import numpy as np
import pytest

from herdcli import artifacts
from herdcli.artifacts.sealed.artifact_comparison import largest_difference

ARCHIVES = sorted((Path(__file__).parents[2] / "data").glob("herd-*"))
ROUNDING = 1e-9
FLOAT32_ROUNDING = 1e-6  # weights of `fit-rbm` are float32, and later versions round their gradients in another order


def entries(name: str) -> list:
    """(archive, entry, what its index says) of every version's archive of that name."""
    found = []
    for folder in ARCHIVES:
        with zipfile.ZipFile(folder / name) as archive:
            index = json.loads(archive.read("index.json"))
        found += [pytest.param(folder / name, entry, said, id=f"{folder.name} {entry}") for entry, said in index.items()]
    return found


def unpacked(path: Path, folder: Path) -> list[str]:
    """Everything in an archive, put into a folder; the names of the inputs of its runs."""
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder)
        index = json.loads(archive.read("index.json"))
        stems = {Path(entry).stem for entry in index}
        return [name for name in archive.namelist() if name != "index.json" and name.split(".")[0] not in stems]


def difference(one: Path, other: Path) -> tuple[float, str]:
    """The largest relative difference of two artifacts' values, and where it is."""
    return largest_difference(artifacts.load(str(one)).value, artifacts.load(str(other)).value)


@pytest.mark.parametrize(("archive", "entry", "line"), entries("histories.zip"))
def test_an_archived_artifact_is_made_again_from_its_history(run, tmp_path, archive, entry, line):
    inputs = unpacked(archive, tmp_path)
    ended = run("check", "--rerun", entry, *(word for name in inputs for word in ("--input", name)))
    assert ended.code == 0, (line, ended.err)
    assert "reproduced" in ended.out


@pytest.mark.parametrize(("archive", "entry", "line"), entries("checkpoints.zip"))
def test_an_archived_checkpoint_is_resumed(run, tmp_path, archive, entry, line):
    unpacked(archive, tmp_path)
    ended = run(*shlex.split(line)[1:], "-q", "--checkpoint", entry, "--every", "1", "--resume", "-o", "resumed.h5")
    assert ended.code == 0, (line, ended.err)
    assert "starting from the beginning" not in ended.err
    found, where = difference(tmp_path / "resumed.h5", (tmp_path / entry).with_suffix(".h5"))
    assert found <= (FLOAT32_ROUNDING if shlex.split(line)[1] == "fit-rbm" else ROUNDING), (line, where)


@pytest.mark.parametrize(("archive", "entry", "line"), entries("shards.zip"))
def test_archived_shards_are_merged(run, tmp_path, archive, entry, line):
    unpacked(archive, tmp_path)
    ended = run("merge", *(entry.replace(".h5", f".{shard}.h5") for shard in (1, 2)), "-q", "-o", "merged.h5")
    assert ended.code == 0, (line, ended.err)
    found, where = difference(tmp_path / "merged.h5", tmp_path / entry)
    assert found <= ROUNDING, (line, where)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")
@pytest.mark.parametrize(("archive", "entry", "said"), entries("estimators.zip"))
def test_an_archived_estimator_is_unpickled_and_predicts(tmp_path, archive, entry, said):
    """Pickles of herd's own, whose bytes are in this repository: those of others are nowhere read."""
    pytest.importorskip("sklearn")
    unpacked(archive, tmp_path)
    with (tmp_path / entry).open("rb") as file:
        estimator = pickle.load(file)  # noqa: S301
    assert estimator.artifact_ is not None
    if said["method"]:
        name, _, columns = said["rows"].partition(":")
        rows = np.load(tmp_path / "rows.npz")[name][:, : int(columns) if columns else None]
        predicted = getattr(estimator, said["method"])(rows)
        np.testing.assert_allclose(predicted, np.load((tmp_path / entry).with_suffix(".npy")), rtol=1e-9, atol=1e-12)


def test_every_command_that_writes_an_artifact_has_archived_histories():
    from herdcli import COMPUTING, LEARNING

    archived = {param.values[2].split()[1] for param in entries("histories.zip")}
    assert {name.replace("_", "-") for name in (*LEARNING, *COMPUTING)} - archived == {"data"}  # which writes what ships with herd
