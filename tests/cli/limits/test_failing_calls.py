"""Calls of the system that hardly ever fail: no bug of the program's is reported, and a run that is done stays done."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from herdcli.artifacts import byte_sources

FIT = ("fit-rbm", "small.h5", "--hidden", 3, "--epochs", 1, "--checkpoint", "run.state", "--every", 1, "-o", "out.h5")


def test_an_input_that_cannot_be_closed_is_an_error_of_the_system(run: Callable, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(io.FileIO):
        def close(self) -> None:
            if not self.closed:
                super().close()
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(byte_sources, "open", lambda path, *_, **__: Failing(path), raising=False)
    done = run("info", "small.h5")
    assert (done.code, done.err) == (74, "herd info: Input/output error\n")


@pytest.mark.parametrize("name", ["run.state", ".run.state.herd-lock"])
def test_what_cannot_be_removed_does_not_undo_a_finished_run(
    run: Callable, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    real = os.unlink

    def unlink(path: str | Path, **options: int) -> None:
        if os.path.basename(path) == name:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        real(path, **options)

    monkeypatch.setattr(os, "unlink", unlink)
    done = run(*FIT)
    told = "fit-rbm: warning: run.state: the run has ended, but its checkpoint cannot be removed (Permission denied)"
    assert done.code == 0
    assert (told in done.err) == (name == "run.state")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "out.h5", "small.h5"])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("passes", [1, 2])
def test_a_stream_that_was_read_and_cannot_be_closed_was_read(
    run: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passes: int
) -> None:
    """Two passes go on from a generator that the first has left, whose end nobody hears of."""

    class Failing(io.FileIO):
        def close(self) -> None:
            if not self.closed:
                super().close()
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "rows.svm").write_text("1 1:.5\n-1 2:1\n" * 20)
    begun = []

    def opened(path: str | int, *how: object, **more: object) -> object:
        if not isinstance(path, int):
            return open(path, *how, **more)  # type: ignore[call-overload]
        begun.append(path)
        return Failing(path)

    monkeypatch.setattr(byte_sources, "open", opened, raising=False)
    done = run("nherd-train", "rows.svm", "--passes", passes, "--C", 1, "-o", "out.h5", "-q")
    assert (done.code, done.err) == (0, "")
    assert len(begun) == passes
