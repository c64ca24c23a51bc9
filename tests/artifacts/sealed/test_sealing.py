"""A sealed file that was cut, lengthened or changed anywhere is refused before HDF5 sees it."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from herdcli.artifacts import Dataset, load, save, save_checkpoint
from herdcli.artifacts.sealed import sealing
from herdcli.errors import DataError, HerdError


@pytest.fixture
def sealed(tmp_path: Path, dataset: Dataset) -> Path:
    path = tmp_path / "small.h5"
    save(str(path), dataset, [{"command": "test"}])
    return path


def test_the_first_line_says_kind_length_and_digest(sealed: Path) -> None:
    data = sealed.read_bytes()
    line = data[:512].rstrip(b"\0")
    prefix = f"herd-artifact 1 kind=dataset bytes={len(data)}"
    digest = hashlib.sha256(f"{prefix}\n".encode() + data[512:]).hexdigest()
    assert line == f"{prefix} sha256={digest}\n".encode()
    assert sealing.check_file(str(sealed)) == sealing.SealVerdict(str(sealed), "dataset", True, 0)


def test_other_programs_open_a_sealed_file_unchanged(sealed: Path) -> None:
    with h5py.File(sealed) as file:
        assert file.userblock_size == 512
        assert file["X"].shape == (6, 4)
        assert file.attrs["kind"] == "dataset"


def test_every_truncation_is_refused(sealed: Path) -> None:
    for length in reversed(range(sealed.stat().st_size)):
        os.truncate(sealed, length)
        with pytest.raises(DataError):
            load(str(sealed), max_memory=1 << 30)
        if length % 64 == 0:
            assert sealing.check_file(str(sealed)).code == 65, length


def test_added_bytes_are_refused(sealed: Path) -> None:
    with open(sealed, "ab") as file:
        file.write(b"\0")
    with pytest.raises(DataError, match="too long"):
        load(str(sealed))


def test_every_flipped_bit_is_refused(sealed: Path) -> None:
    data = sealed.read_bytes()
    rng = np.random.default_rng(3)
    in_block = [(byte, bit) for byte in range(130) for bit in range(8)]
    elsewhere = zip(rng.integers(0, len(data), 1500).tolist(), rng.integers(0, 8, 1500).tolist(), strict=True)
    with open(sealed, "r+b", buffering=0) as file:
        for byte, bit in [*in_block, *elsewhere]:
            os.pwrite(file.fileno(), bytes([data[byte] ^ 1 << bit]), byte)
            with pytest.raises(HerdError) as caught:
                load(str(sealed), max_memory=1 << 30)
            assert caught.value.exit_code == 65, (byte, bit)
            os.pwrite(file.fileno(), data[byte : byte + 1], byte)
    assert sealing.check_file(str(sealed)).code == 0


def test_a_damaged_seal_is_not_taken_for_no_seal(sealed: Path) -> None:
    data = bytearray(sealed.read_bytes())
    data[:512] = bytes(512)
    sealed.write_bytes(data)
    with pytest.raises(DataError, match=r"the checksum header \(seal\) before its HDF5 contents") as caught:
        load(str(sealed))
    assert "herd seal" in (caught.value.hint or "")


def test_an_edited_file_is_read_again_once_it_is_sealed(sealed: Path) -> None:
    with h5py.File(sealed, "r+") as file:
        file["X"][0, 0] = 7
    with pytest.raises(DataError, match="do not match the seal"):
        load(str(sealed))
    sealing.write_new_seal(str(sealed))
    assert load(str(sealed)).value.X[0, 0] == 7
    assert sorted(path.name for path in sealed.parent.iterdir()) == ["small.h5"]


def test_a_lost_seal_line_can_be_written_again(sealed: Path) -> None:
    data = sealed.read_bytes()
    sealed.write_bytes(bytes(512) + data[512:])
    sealing.write_new_seal(str(sealed))
    assert sealed.read_bytes() == data


def test_what_is_no_artifact_is_not_sealed(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        file["X"] = np.zeros((2, 2))
    (tmp_path / "text.csv").write_text("1,2\n")
    for name in ("plain.h5", "text.csv"):
        with pytest.raises(DataError):
            sealing.write_new_seal(str(tmp_path / name))


def test_an_unsealed_data_set_is_named_and_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "plain.h5"
    with h5py.File(path, "w") as file:
        file["X"] = np.zeros((2, 2))
    found = sealing.check_file(str(path))
    assert (found.code, found.sealed, found.message) == (0, False, f"{path}: unsealed data set, nothing to verify")
    assert sealing.check_file(str(tmp_path / "absent.h5")).code == 66


def test_equal_values_give_equal_bytes(tmp_path: Path, dataset: Dataset) -> None:
    for name in ("a.h5", "a.parquet", "a.npz", "a.csv", "a.svmlight"):
        save(str(tmp_path / name), dataset, [{"command": "test"}])
    save_checkpoint(str(tmp_path / "a.ck"), dataset, "digest")
    time.sleep(1.1)  # a time stamp in seconds would now differ
    for name in ("a.h5", "a.parquet", "a.npz", "a.csv", "a.svmlight"):
        save(str(tmp_path / f"again-{name}"), dataset, [{"command": "test"}])
        assert (tmp_path / f"again-{name}").read_bytes() == (tmp_path / name).read_bytes()
    save_checkpoint(str(tmp_path / "b.ck"), dataset, "digest")
    assert (tmp_path / "b.ck").read_bytes() == (tmp_path / "a.ck").read_bytes()
