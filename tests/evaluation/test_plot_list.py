"""The plotter: mosaics by hand, bytes that repeat, what is refused, and every entry of the table drawn."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from herdcli.errors import BadUsage
from herdcli.evaluation.plots import plot_list, tiles
from herdcli.kinds import KINDS


def test_a_mosaic_keeps_the_pictures_apart() -> None:
    pictures = np.arange(12.0).reshape(3, 2, 2)
    nan = np.nan
    expected = [[0, 1, nan, 4, 5], [2, 3, nan, 6, 7], [nan] * 5, [8, 9, nan, nan, nan], [10, 11, nan, nan, nan]]
    np.testing.assert_array_equal(tiles.tile_into_mosaic(pictures, 2), expected)


def test_rows_become_pictures_of_the_stored_shape() -> None:
    rows = np.arange(12).reshape(2, 6)
    assert tiles.rows_as_images(rows, np.array([2, 3])).shape == (2, 2, 3)
    np.testing.assert_array_equal(tiles.rows_as_images(rows, None), rows[None])


@pytest.mark.parametrize("suffix", plot_list.SUFFIXES)
def test_equal_figures_are_equal_bytes(suffix: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in "ab":
        plot_list.write_figure(tiles.tile_images(np.eye(4)[None], title="one"), tmp_path / name, suffix)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_vector_pictures_are_written_in_few_bytes() -> None:
    long = "M 1.23456 2 " + "L 1.23456 2.5\n" * 40
    small = plot_list.compact_svg(f'<g>\n   <path d="M 1.23456 7.5\nL 2.0 3.999 " x="1.005"/>\n  <path d="{long}"/>\n</g>\n')
    assert small.startswith('<g>\n<path d="M 1.23 7.5 L 2 4" x="1"/>\n<path d="M 1.2 2 L 1.2 2.5 L 1.2')
    assert small.endswith('L 1.2 2.5"/>\n</g>\n')


def test_marks_of_one_look_say_it_once() -> None:
    marks = '<use x="1" style="fill: red"/>\n<use x="2" style="fill: red"/>\n<use x="3" style="fill: blue"/>'
    assert plot_list.compact_svg(marks) == '<g style="fill: red">\n<use x="1"/>\n<use x="2"/>\n</g>\n<use x="3" style="fill: blue"/>'


def test_only_so_many_tiles_are_drawn_and_the_title_says_so() -> None:
    pytest.importorskip("matplotlib")
    figure = tiles.tile_images(np.random.default_rng(0).random((500, 2, 2)), columns=20, title="many")
    (axes,) = figure.axes
    assert axes.get_title(loc="left") == "many (the first 400 of 500)"
    assert axes.images[0].get_array().shape == (20 * 3 - 1, 20 * 3 - 1)


def test_signed_tiles_have_zero_in_the_middle_and_blank_stays_blank() -> None:
    pytest.importorskip("matplotlib")
    (axes,) = tiles.tile_images(np.array([[[-1.0, np.nan], [0.0, 4.0]]]), signed=True).axes
    assert axes.images[0].get_clim() == (-4.0, 4.0)
    assert np.ma.getmaskarray(axes.images[0].get_array())[0, 1]


def test_curves_carry_their_names() -> None:
    pytest.importorskip("matplotlib")
    x = np.arange(3.0)
    (axes,) = plot_list.curve_plot({"a": (x, x), "b": (x, x**2)}, x="epoch", y="error").axes
    assert [line.get_label() for line in axes.lines] == ["a", "b"]
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), x**2)


@pytest.mark.parametrize("draw", [lambda: tiles.tile_images(np.empty((0, 2, 2))), lambda: plot_list.curve_plot({}, x="", y="")])
def test_nothing_is_not_drawn(draw: object) -> None:
    with pytest.raises(BadUsage, match="there is nothing to draw"):
        draw()  # type: ignore[operator]


def test_every_plot_of_the_table_is_there() -> None:
    found = [(kind, name) for kind in KINDS for name in plot_list.plot_names(kind)]
    assert len(found) >= 16
    assert all(callable(plot_list.import_plot_function(kind, name)) for kind, name in found)


def test_an_unknown_plot_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadUsage, match="there is no plot 'filter' for artifacts of kind 'rbm'") as caught:
        plot_list.import_plot_function("rbm", "filter")
    assert caught.value.hint == f"did you mean filters?  plots of rbm: {', '.join(plot_list.plot_names('rbm'))}"
    with pytest.raises(BadUsage, match="of kind 'report'") as caught:
        plot_list.import_plot_function("report", "filters")
    assert caught.value.hint.startswith("kinds with plots: dataset, rbm")


def test_every_kind_that_has_figures_has_plots() -> None:
    assert [kind for kind, page in KINDS.items() if page.metrics and not page.plots] == []


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(BadUsage, match="plots need matplotlib, which is not installed") as caught:
        plot_list.new_figure(1.0)
    assert caught.value.hint == "pip install 'herdcli[plot]'"


def test_a_picture_shows_characters_that_steer_and_does_not_obey_them():
    svg = plot_list.compact_svg("<text>a\x1b[31m\u202eb</text>\n<!-- c\u2066 -->\n")
    assert svg == "<text>a\\u001b[31m\\u202eb</text>\n<!-- c\\u2066 -->\n"
