"""Named pipes in the place of files: read once, or refused with their name; nothing waits for a second writer."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

ROWS = "a,b,c\n" + "".join(f"{i % 2},{i % 3},{i}\n" for i in range(12))


@pytest.fixture
def pipe(tmp_path: Path) -> Callable[[str], Path]:
    """pipe(TEXT) is a named pipe that gives the text to its first reader, and to no other."""

    def make(text: str) -> Path:
        path = tmp_path / "pipe"
        os.mkfifo(path)
        threading.Thread(target=path.write_text, args=(text,), daemon=True).start()
        return path

    return make


@pytest.mark.parametrize(
    "line", ["convert pipe", "regress pipe --target c", "em pipe --model kmeans --components 2", "kernel-herd pipe -m 3"]
)
def test_rows_are_read_once(herd: Callable, pipe: Callable, tmp_path: Path, line: str) -> None:
    (tmp_path / "rows.csv").write_text(ROWS)
    assert herd(*line.replace("pipe", "rows.csv").split(), "-q", "-o", "whole.h5").code == 0
    pipe(ROWS)
    ended = herd(*line.split(), "-q", "-o", "out.h5")
    assert ended.code == 0, ended.err
    assert (tmp_path / "out.h5").read_bytes() == (tmp_path / "whole.h5").read_bytes()


def test_what_is_made_again_is_read_more_than_once(herd: Callable, pipe: Callable, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(ROWS)
    assert herd("convert", "rows.csv", "-q", "-o", "out.h5").code == 0
    pipe(ROWS)
    ended = herd("check", "--rerun", "out.h5", "--input", "pipe")
    says = "herd check: pipe: --rerun reads --input more than once, and a pipe can be read only once\nhint: name a file\n"
    assert (ended.code, ended.err) == (2, says)
