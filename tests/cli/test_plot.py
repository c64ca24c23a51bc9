"""`herd eval --plot`: pictures appear whole beside the table, and what cannot be drawn is refused before work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


def test_pictures_of_an_rbm(herd: Callable, model: Path) -> None:
    pytest.importorskip("matplotlib")
    wanted = [word for name in ("filters", "reconstructions", "samples", "trace") for word in ("--plot", name, f"{name}.png")]
    ended = herd("eval", "model.h5", *wanted)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == herd("eval", "model.h5").out
    for name in wanted[2::3]:
        assert (model.parent / name).read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["model.h5", "--plot", "filters", "f.gif"], 2, "f.gif: the picture of filters needs one of the suffixes .png .pdf .svg\n"),
        (["model.h5", "--plot", "filters", "no/f.png"], 73, "no/f.png: the folder no does not exist\nhint: mkdir -p no\n"),
        (["model.h5", "-n", "--plot", "filters", "there.png"], 73, "there.png: exists already, and --no-clobber is set\n"),
        (
            ["model.h5", "copy.h5", "--plot", "filters", "f.png"],
            2,
            "--plot draws one artifact, but 2 are given\nhint: run herd eval for each\n",
        ),
        (["model.h5", "--plot", "film", "f.png"], 2, "there is no plot 'film' of kind 'rbm'\nhint: plots of rbm: "),
    ],
)
def test_what_cannot_be_drawn_is_refused(herd: Callable, model: Path, arguments: list[str], code: int, says: str) -> None:
    pytest.importorskip("matplotlib")
    (model.parent / "there.png").write_bytes(b"kept")
    ended = herd("eval", *arguments)
    assert (ended.code, ended.out) == (code, b"")
    assert ended.err.startswith(f"herd eval: {says}")
    assert (model.parent / "there.png").read_bytes() == b"kept"
    assert not (model.parent / "f.png").exists()
