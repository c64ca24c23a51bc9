"""`herd eval --plot`: pictures appear whole beside the table, and what cannot be drawn is refused before work."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest


def test_pictures_of_an_rbm(herd: Callable, model: Path) -> None:
    pytest.importorskip("matplotlib")
    wanted = [word for name in ("filters", "reconstructions", "samples", "trace") for word in ("--plot", name, f"{name}.png")]
    ended = herd("eval", "model.h5", *wanted)
    assert ended.code == 0, ended.err
    assert ended.out == herd("eval", "model.h5").out
    for name in wanted[2::3]:
        assert (model.parent / name).read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


MADE = {  # kind: what makes it of small.h5, and its plots that it has data for
    "herding": ("herd small.h5 --hidden 2 --iterations 20", "rates gap samples"),
    "classifier": ("nherd-train small.h5 --label y", "confusion calibration weights trace precision-recall"),
    "samples": ("kernel-herd small.h5 -m 6 --by y", "atoms mmd"),
    "network": ("fit-mrf small.h5 --smoothing 1", "graph given trace"),
    "beliefs": ("ups-infer net.uai --algorithm bp", "marginals trace"),
}
NETWORK = "MARKOV\n2\n2 2\n1\n2 0 1\n4 1 2 2 1\n"


@pytest.mark.parametrize("kind", MADE)
def test_all_pictures_of_a_kind_in_files_of_their_names(herd: Callable, small: Path, kind: str) -> None:
    pytest.importorskip("matplotlib")
    (small.parent / "net.uai").write_text(NETWORK)
    line, names = MADE[kind]
    assert herd(*line.split(), "-q", "-o", "made.h5").code == 0
    ended = herd("eval", "made.h5", "--plot", "all", "out.svg")
    assert ended.code == 0, ended.err
    drawn = {path.name: path.read_bytes() for path in small.parent.glob("out-*.svg")}
    assert set(drawn) == {f"out-{name}.svg" for name in names.split()}
    if kind in ("network", "beliefs"):
        assert "no picture" not in ended.err
        told = (
            "eval: no picture of reference: --plot reference needs a network or beliefs to compare with (give them with --reference FILE)\n"
        )
        assert told in herd("eval", "-v", "made.h5", "--plot", "all", "out.svg").err
    if kind == "classifier":
        again = herd("eval", "made.h5", "--plot", "weights", "again.svg")
        assert again.code == 0
        assert (small.parent / "again.svg").read_bytes() == drawn["out-weights.svg"]
        refused = herd("eval", "-n", "made.h5", "--plot", "all", "out.svg")
        assert refused.code == 73
        assert refused.err.startswith("herd eval: out-confusion.svg: exists already, and --no-clobber is set\nhint: remove it")


HOSTILE = ("$a$^", "日本", "<b>&", "_under", "c\x01d")  # names of columns and classes


def test_names_are_drawn_as_they_are(herd: Callable, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [[f"{(i % 3) + 0.1 * j * (i % 7)}" for j in range(5)] + [("$x^{$", "<i>y", "_z")[i % 3]] for i in range(60)]
    (tmp_path / "h.csv").write_text("".join(",".join(row) + "\n" for row in [[*HOSTILE, "y"], *rows]), encoding="utf-8")
    assert herd("nherd-train", "h.csv", "--label", "y", "--shuffle", "-q", "-o", "m.h5").code == 0
    ended = herd("eval", "m.h5", "--plot", "all", "out.svg", "--report", "page.html", "-q")
    assert (ended.code, ended.err) == (0, "")
    drawn = {path.stem: ElementTree.parse(path) for path in tmp_path.glob("out-*.svg")}  # each is XML
    assert len(drawn) == 5
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(f">{name}<" in page for name in ("$a$^", "日本", "&lt;b&gt;&amp;", "_under", r"c\u0001d", "$x^{$", "&lt;i&gt;y"))
    assert re.search(r"> ?_z: [01]\.\d+<", page)  # in a legend too


def test_atoms_are_drawn_on_the_rows_they_stand_for(herd: Callable, small: Path) -> None:
    pytest.importorskip("matplotlib")
    assert herd("kernel-herd", "small.h5", "-m", "4", "-q", "-o", "made.h5").code == 0
    for name in ("made.h5", "small.h5"):
        ended = herd("eval", name, "--data", "small.h5", "--plot", "all", f"{name[:-3]}.svg")
        assert ended.code == 0, ended.err
    assert {path.name for path in small.parent.glob("*-*.svg")} == {"made-atoms.svg", "made-mmd.svg", "small-atoms.svg"}


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
        (["model.h5", "--plot", "film", "f.png"], 2, "there is no plot 'film' for artifacts of kind 'rbm'\nhint: plots of rbm: "),
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


def test_plots_of_a_table_of_classifiers_have_no_effect(herd: Callable, model: Path) -> None:
    ended = herd("eval", "model.h5", "--confusion", "--plot", "filters", "f.png")
    assert ended.err.startswith("eval: warning: --plot has no effect with --confusion\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--mcnemar --confusion", "--confusion and --mcnemar make different tables\nhint: ask for one at a time\n"),
        ("--tournament --mcnemar", "--mcnemar and --tournament make different tables\nhint: ask for one at a time\n"),
        ("--mcnemar", "--mcnemar compares two classifiers or more\nhint: give at least two: herd eval A.h5 B.h5 --mcnemar\n"),
        ("--exact --tournament", "--exact does not work with --tournament\n"),
    ],
)
def test_contradictions_are_refused_before_artifacts_are_read(herd: Callable, arguments: str, says: str) -> None:
    ended = herd("eval", "none.h5", *arguments.split())
    assert (ended.code, ended.out) == (2, b"")
    assert ended.err.startswith(f"herd eval: {says}")


def png_size(path: Path) -> tuple[int, int]:
    head = path.read_bytes()[16:24]
    return int.from_bytes(head[:4], "big"), int.from_bytes(head[4:], "big")


def test_size_dots_and_title_are_as_asked(herd: Callable, small: Path) -> None:
    pytest.importorskip("matplotlib")
    assert herd("nherd-train", "small.h5", "--label", "y", "-q", "-o", "made.h5").code == 0
    look = ("--size", "4x3", "--dpi", "50", "--title", "$ours^{$", "--cmap", "magma")
    ended = herd("eval", "made.h5", *look, "--plot", "confusion", "c.png", "--plot", "confusion", "c.svg")
    assert (ended.code, ended.err) == (0, "")
    assert png_size(small.parent / "c.png") == (200, 150)
    assert 'viewBox="0 0 288 216"' in (small.parent / "c.svg").read_text()
    assert (
        herd("eval", "made.h5", "--plot", "trace", "t.png", "--cmap", "magma").err
        == "eval: warning: --cmap has no effect on the plot trace\n"
    )


@pytest.mark.parametrize(
    ("look", "says"),
    [
        (("--cmap", "magmaa"), "there is no colour map 'magmaa'\nhint: did you mean --cmap magma?\n"),
        (("--cmap", "?"), "there is no colour map '?'\nhint: such as viridis, magma, gray, RdBu_r, PuOr\n"),
        (("--size", "4x"), "Invalid value for '--size': '4x' is not a width, or WIDTHxHEIGHT, in inches from 1 to 100\n"),
        (("--size", "nan"), "Invalid value for '--size': 'nan' is not a width, or WIDTHxHEIGHT, in inches from 1 to 100\n"),
    ],
)
def test_an_impossible_appearance_is_refused_before_work(herd: Callable, look: tuple[str, str], says: str) -> None:
    pytest.importorskip("matplotlib")
    ended = herd("eval", "none.h5", "--plot", "filters", "f.png", *look)
    assert (ended.code, ended.out) == (2, b"")
    assert ended.err.startswith(f"herd eval: {says}")


def test_an_appearance_without_a_plot_has_no_effect(herd: Callable, model: Path) -> None:
    assert "eval: warning: --cmap has no effect without --plot\n" in herd("eval", "model.h5", "--cmap", "magma").err
