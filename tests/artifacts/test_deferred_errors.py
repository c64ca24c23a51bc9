"""What libhdf5 reads of a file that a full disk has ended is what it wrote, or it would take stray bytes for its own and crash."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from herdcli.artifacts.deferred_errors import SHORT, DeferredErrorFile, create_hdf5


def _full_from(monkeypatch: pytest.MonkeyPatch, nth: int) -> None:
    """The `nth` write of the process and all that follow find the disk full; the one before it writes half."""
    real, done = os.pwrite, [0]

    def pwrite(descriptor: int, data: Any, position: int) -> int:
        done[0] += 1
        if done[0] >= nth:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data[: len(data) // 2 or 1] if done[0] == nth - 1 else data, position)

    monkeypatch.setattr(os, "pwrite", pwrite)


@pytest.mark.parametrize("nth", [1, 2, 7, 30])
def test_what_was_written_is_read_whether_or_not_there_was_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int) -> None:
    rng = np.random.default_rng(nth)
    _full_from(monkeypatch, nth)
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    ours, model = DeferredErrorFile(descriptor), io.BytesIO()
    for step in range(60):
        begin, length = rng.integers(0, 3000), rng.integers(1, 400)
        piece = rng.bytes(length)
        for file in (ours, model):
            file.seek(begin)
            assert file.write(piece) == length
            assert file.tell() == begin + length
        assert ours.seek(0, os.SEEK_END) == model.seek(0, os.SEEK_END)
        begin, whole = rng.integers(0, 3500), bytearray(b"\xff" * 700)
        ours.seek(begin)
        assert ours.readinto(whole) == 700
        assert whole == model.getvalue()[begin : begin + 700].ljust(700, b"\0"), step
        assert ours.tell() == begin + 700
    assert ours.error is not None
    assert ours.error.errno == errno.ENOSPC
    os.close(descriptor)


def test_long_pieces_that_were_not_written_are_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _full_from(monkeypatch, 1)
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    file = DeferredErrorFile(descriptor)
    for length, kept in ((SHORT, 1), (SHORT + 1, 1)):
        file.write(bytes(length))
        assert len(file._unwritten) == kept
    assert file.seek(0, os.SEEK_END) == 2 * SHORT + 1
    file.truncate(10)
    assert file.seek(0, os.SEEK_END) == 10 == os.fstat(descriptor).st_size
    os.close(descriptor)


@pytest.mark.parametrize("nth", range(1, 12))
def test_no_write_of_many_fails_with_anything_but_the_disks_own_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int) -> None:
    _full_from(monkeypatch, nth)
    with pytest.raises(OSError, match="No space left"), create_hdf5(tmp_path / "file", libver=("v110", "v110"), userblock_size=512) as file:
        for number in range(40):
            group = file.create_group(f"group{number}")
            group.attrs["text"] = "x" * 500 * number
            group.create_dataset(
                "values", data=np.arange(1000 * number), chunks=(100,) if number else None, compression="gzip" if number else None
            )
            file.flush()
