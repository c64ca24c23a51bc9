"""A checkpoint is resumed by the run it belongs to and by no other; kinds grow without losing old files."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from herdcli import kinds
from herdcli.artifacts import Artifact, Dataset, load, load_checkpoint, remove_checkpoint, save, save_checkpoint
from herdcli.artifacts.sealed import provenance, sealed_hdf5
from herdcli.errors import BadUsage, CannotCreate, DataError
from herdcli.schema import Array, array


@dataclass
class State:
    """A state as algorithms have it."""

    step: int
    W: Array
    trace: list[float]


STATE = State(3, np.arange(6, dtype=np.float32).reshape(2, 3), [0.5, 0.25])


def test_a_state_comes_back_bit_for_bit(tmp_path: Path) -> None:
    path = str(tmp_path / "run.ck")
    assert load_checkpoint(path, State, "d") is None
    save_checkpoint(path, STATE, "d")
    save_checkpoint(path, replace(STATE, step=4), "d")
    state = load_checkpoint(path, State, "d")
    assert state is not None
    assert (state.step, state.trace) == (4, STATE.trace)
    assert state.W.dtype == STATE.W.dtype
    assert np.array_equal(state.W, STATE.W)
    state.W += 1  # a step may update it in place
    remove_checkpoint(path)
    remove_checkpoint(path)
    assert list(tmp_path.iterdir()) == []


def test_other_options_or_inputs_do_not_resume_it(tmp_path: Path) -> None:
    path = str(tmp_path / "run.ck")
    save_checkpoint(path, STATE, "d")
    with pytest.raises(BadUsage, match="other options or inputs") as caught:
        load_checkpoint(path, State, "e")
    assert "--resume" in (caught.value.hint or "")


def test_damage_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "run.ck"
    save_checkpoint(str(path), STATE, "d")
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(DataError, match="do not match the seal"):
        load_checkpoint(str(path), State, "d")


def test_a_checkpoint_is_no_artifact_and_an_artifact_no_checkpoint(tmp_path: Path, dataset: Dataset) -> None:
    checkpoint, artifact = str(tmp_path / "run.ck"), str(tmp_path / "data.h5")
    save_checkpoint(checkpoint, STATE, "d")
    save(artifact, dataset, [])
    with pytest.raises(DataError, match="is a checkpoint"):
        load(checkpoint)
    with pytest.raises(DataError, match="is a dataset artifact, not a checkpoint"):
        load_checkpoint(artifact, State, "d")
    before = Path(artifact).read_bytes()
    for destructive in (lambda: save_checkpoint(artifact, STATE, "d"), lambda: remove_checkpoint(artifact)):
        with pytest.raises(CannotCreate, match="is an existing file that is not a checkpoint"):
            destructive()
    assert Path(artifact).read_bytes() == before


def test_the_wrong_kind_is_refused_by_name(tmp_path: Path, dataset: Dataset) -> None:
    path = str(tmp_path / "data.h5")
    save(path, dataset, [])
    with pytest.raises(DataError, match="is of kind dataset, but must be of kind herding or rbm"):
        load(path, kinds={"rbm", "herding"})


@dataclass(frozen=True)
class Old:
    """A kind as it was."""

    grams: Array = array("n", "weights in grams")

    def upgrade(self) -> New:
        return New(self.grams / 1000)


@dataclass(frozen=True)
class New:
    """The kind as it is."""

    kilograms: Array = array("n", "weights in kilograms")


def test_older_versions_are_upgraded_and_newer_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scales = kinds.Kind(name="scales", versions=(f"{__name__}.Old", f"{__name__}.New"))
    monkeypatch.setitem(kinds.KINDS, "scales", scales)
    monkeypatch.setattr(
        kinds.Kind, "dataclass_of_version", lambda self, version, where=None: original(self, version, where=where, here=(Old, New))
    )
    path = tmp_path / "scales.h5"
    sealed_hdf5.write_sealed(path, "scales", 1, Old(np.array([500.0])), [])
    assert load(str(path)).value.kilograms.tolist() == [0.5]
    sealed_hdf5.write_sealed(path, "scales", 3, New(np.array([0.5])), [])
    with pytest.raises(DataError, match="is a scales of version 3, but this version of herd reads only versions up to 2") as caught:
        load(str(path))
    assert "pip install --upgrade" in (caught.value.hint or "")


_type_of = kinds.Kind.dataclass_of_version


def original(kind: kinds.Kind, version: int, *, where: str | None, here: tuple[type[Any], ...]) -> type[Any]:
    """`dataclass_of_version` for dataclasses that live in this file, which has no importable path."""
    return here[version - 1] if 1 <= version <= len(here) else _type_of(kind, version, where=where)


def test_an_unknown_kind_and_format_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    sealed_hdf5.write_sealed(path, "oracle", 1, New(np.array([0.5])), [])
    with pytest.raises(DataError, match="kind 'oracle', which this version of herd does not know"):
        load(str(path))


def test_every_kind_s_dataclass_can_be_imported() -> None:
    for name, kind in kinds.KINDS.items():
        assert kind.name == name
        assert all(kind.dataclass_of_version(version) for version in range(1, kind.version + 1))


def test_the_archived_file_of_every_version_loads() -> None:
    archive = Path(__file__).resolve().parents[2] / "data"
    files = sorted(archive.glob("*-*.h5"))
    assert files
    for file in files:
        assert load(str(file)).kind == file.stem.rpartition("-")[0]


def test_root_attributes_say_what_it_is(tmp_path: Path, dataset: Dataset) -> None:
    path = str(tmp_path / "data.h5")
    save(path, dataset, [{"command": "test"}])
    with h5py.File(path) as file:
        stated = dict(file.attrs)
    assert (stated["format"], stated["format-version"], stated["kind"], stated["kind-version"]) == ("herd", 1, "dataset", 1)
    assert stated["generated-by"].startswith("herdcli ")
    assert json.loads(stated["provenance"]) == [{"command": "test"}]


def test_records_hold_what_can_change_the_result_and_nothing_else() -> None:
    data = Artifact("dataset", None, [], "ab" * 32, "digits.h5", 10, True)
    parameters = {"seed": np.int64(3), "rates": (0.1, float("inf")), "output": "x.h5", "threads": 2, "every": 5, "chains": None}
    record = provenance.make_history_record("fit-rbm", parameters, {"data": data})
    assert record["parameters"] == {"chains": None, "rates": [0.1, "inf"], "seed": 3}
    assert record["inputs"] == [{"role": "data", "kind": "dataset", "sha256": "ab" * 32}]
    assert "digits" not in json.dumps(record)
    other = provenance.make_history_record("fit-rbm", parameters | {"threads": 8, "output": "y.h5"}, {"data": data})
    assert provenance.record_digest(other) == provenance.record_digest(record)
    assert provenance.record_digest(
        provenance.make_history_record("fit-rbm", parameters | {"seed": 4}, {"data": data})
    ) != provenance.record_digest(record)
