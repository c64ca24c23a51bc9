"""A folder for files in between is gone at the end, whatever fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from herdcli.scratch import scratch_folder


def test_it_is_gone_after_an_error_and_after_a_failed_removal(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="as it was"), scratch_folder() as folder:
        assert Path(folder).stat().st_mode & 0o777 == 0o700
        (Path(folder) / "file").write_bytes(b"x")
        raise ValueError("as it was")
    assert not Path(folder).exists()
    remove, failed = os.rmdir, []

    def once(*given: object, **options: object) -> None:
        if not failed:
            failed.append(given)
            raise OSError(5, "Input/output error")
        remove(*given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rmdir", once)
    with scratch_folder() as folder:
        (Path(folder) / "file").write_bytes(b"x")
    assert failed
    assert not Path(folder).exists()
