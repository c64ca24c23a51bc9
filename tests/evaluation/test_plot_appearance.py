"""Grids of images, colours around 0, texts inside the figure, planes with names, and layers of directed networks."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.em.artifacts import FitFacts
from herdcli.errors import BadUsage
from herdcli.evaluation.plots import appearance, em_plots, layered_layout, network_plots, planes, plot_list, plot_style, tiles
from herdcli.markov.model.network import build_network


@pytest.mark.parametrize("count", range(1, 401))
def test_grids_have_no_orphans_and_are_not_long(count):
    columns = tiles.grid_columns(count, 8, 8)
    lines = -(-count // columns)
    last = count - (lines - 1) * columns
    assert 1 <= columns <= count
    assert last >= 0.6 * columns
    assert count < 4 or 0.5 <= columns / lines <= 3.0


@pytest.mark.parametrize(("count", "columns"), [(1, 1), (9, 3), (10, 5), (12, 4), (20, 5), (60, 10), (64, 8), (100, 10), (400, 20)])
def test_common_numbers_of_filters_fill_their_grids(count, columns):
    assert tiles.grid_columns(count, 8, 8) == columns


def test_pictures_of_a_group_stay_in_one_line():
    whole = tiles.tile_into_mosaic(np.arange(1.0, 7.0)[:, None, None] * np.ones((6, 2, 2)), 4, group=2)
    nan = np.nan
    top = [1, 1, nan, 2, 2, nan, nan, nan, 3, 3, nan, 4, 4]
    np.testing.assert_array_equal(whole[0], top)
    np.testing.assert_array_equal(whole[3], [5, 5, nan, 6, 6, *[nan] * 8])


def test_signed_images_diverge_around_zero_and_others_are_grey():
    pytest.importorskip("matplotlib")
    pictures = np.array([[[-1.0, 3.0]], [[0.5, 2.0]]])
    signed, grey = (tiles.tile_images(pictures, signed=each).axes[0].images[0] for each in (True, False))
    assert (signed.get_clim(), signed.cmap.name) == ((-3.0, 3.0), plot_style.DIVERGING)
    assert (grey.get_clim(), grey.cmap.name) == ((-1.0, 3.0), "gray")


def test_rows_that_are_no_images_are_a_matrix_with_the_names_of_its_columns():
    pytest.importorskip("matplotlib")
    axes = tiles.rows_plot(np.eye(3), None, row_label="hidden unit", column_names=["a", "b", "long"], signed=True).axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["a", "b", "long"]
    assert axes.get_ylabel() == "hidden unit"


def test_loadings_and_means_of_images_are_images():
    pytest.importorskip("matplotlib")
    facts = FitFacts(rows=4, base_mean=np.zeros(6), base_variance=np.ones(6), image_shape=np.array([2, 3]))
    factors = type("Factors", (), {"loading": np.arange(24.0).reshape(6, 4) - 9, "known": facts, "model": "pca"})()
    figure = em_plots.loadings(factors, None)
    image = figure.axes[0].images[0]
    assert image.get_array().shape == (2 * 3 + 1, 2 * 4 - 1)  # two lines of two, each with a line for its number
    assert image.get_clim() == (-14.0, 14.0)
    np.testing.assert_array_equal(image.get_array()[1:3, :3], factors.loading[:, 0].reshape(2, 3))
    assert [text.get_text() for text in figure.axes[0].texts] == ["1", "2", "3", "4"]


def test_slopes_are_measured():
    t = np.arange(1.0, 2001.0)
    assert plot_list.log_log_slope(t, 3 * t**-0.7) == pytest.approx(-0.7)
    assert plot_list.slope_text(-0.7) == "; slope −0.70"
    assert plot_list.log_log_slope(t[:2], t[:2]) is None
    assert plot_list.slope_text(None) == ""


def test_axes_are_named_by_columns():
    assert planes.axis_label(np.array([0.0, 1.0]), ["a", "b"], 1) == "b"
    label = planes.axis_label(np.array([0.8, -0.6, 0.0, 0.01]), ["a", "b", "c", "d"], 0, share=0.5)
    assert label == "first principal axis, 50 % of the variance: 0.80 a − 0.60 b"
    assert planes.axis_label(np.array([0.8, -0.6, 0.0]), None, 1, image=True) == "second principal axis"
    np.testing.assert_array_equal(planes.plane_of_columns(np.array([[0.6, 0.8], [0.8, -0.6]])), np.eye(2))


def test_every_text_is_inside_the_figure():
    pytest.importorskip("matplotlib")
    long = "a title of very many words " * 3
    figure = plot_list.curve_plot(
        {"name " * 30: (np.arange(3), np.arange(3)), "b": (np.arange(3), np.ones(3))}, x=long, y=long[:60], title=long
    )
    figure.axes[0].set_yticks([0, 1], ["a very long name of a class " * 3, "b"])
    appearance.finish_figure(figure, appearance.Appearance(size=(5.0, 4.0)))
    figure.draw_without_rendering()
    axes = figure.axes[0]
    for text in [axes._left_title, axes.title, axes.xaxis.label, axes.yaxis.label, *axes.get_yticklabels(), *axes.get_legend().get_texts()]:
        if text.get_text():
            box = text.get_window_extent()
            outside = max(-box.x0, -box.y0, box.x1 - figure.bbox.x1, box.y1 - figure.bbox.y1)
            assert outside <= 3, text.get_text()


def test_long_names_lose_their_middle():
    assert appearance.shorten_name("x" * 32) == "x" * 32
    assert appearance.shorten_name("begin" + "-" * 60 + "end", 12) == "begin---…end"


def test_an_appearance_replaces_colours_size_and_title():
    pytest.importorskip("matplotlib")
    figure = tiles.tile_images(np.eye(4)[None], title="own", scale="value")
    width, height = figure.get_size_inches()
    appearance.finish_figure(figure, appearance.Appearance(cmap="magma", size=(3.0, None), dpi=40, title="$5"))
    assert figure.axes[0].images[0].cmap.name == "magma"
    assert figure.axes[0].get_title(loc="left") == "$5"
    np.testing.assert_allclose(figure.get_size_inches(), [3.0, 3.0 * height / width])
    assert figure.get_dpi() == 40
    with pytest.raises(BadUsage, match="there is no colour map 'nosuch'"):
        appearance.Appearance(cmap="nosuch").check()


def test_arcs_point_downwards_and_nodes_of_a_layer_are_apart():
    arcs = [(0, 2), (1, 2), (2, 3), (0, 3), (4, 3), (5, 6)]
    found = layered_layout.layout_layers(7, arcs)
    assert found is not None
    assert all(found.place[parent, 1] > found.place[child, 1] for parent, child in arcs)
    assert found.place[:, 1].tolist() == [0, 0, -1, -2, -1, 0, -1]  # 4 stands just above its only child
    for i in range(7):
        for j in range(i):
            assert found.place[i, 1] != found.place[j, 1] or abs(found.place[i, 0] - found.place[j, 0]) >= 1 - 1e-9
    assert [len(line) for line in found.lines] == [2, 2, 2, 3, 2, 2]
    assert layered_layout.layout_layers(2, [(0, 1), (1, 0)]) is None


def test_a_directed_network_has_arrows_and_states_by_name():
    pytest.importorskip("matplotlib")
    network = build_network(
        [2, 3],
        [((0,), np.array([0.25, 0.75])), ((0, 1), np.array([[1.0, 0, 0], [0, 0.2, 0.8]]))],
        names=["rain", "grass"],
        states=["no", "yes", "dry", "damp", "wet"],
        directed=True,
    )
    figure = appearance.finish_figure(network_plots.graph(network, None), appearance.Appearance())
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.texts] == ["rain\nyes 0.75", "grass\nwet 0.60"]
    (arrow,) = (artist for artist in axes.get_children() if type(artist).__name__ == "ConnectionPatch")
    assert (arrow.xy1[1], arrow.xy2[1]) == (0.0, -1.0)
    (dots,) = (part for part in axes.collections if part.get_array() is not None)
    np.testing.assert_allclose(dots.get_array(), [0.75, 0.6])
    assert figure.axes[1].get_ylabel().replace("\n", " ") == "probability of the most probable state"
    np.testing.assert_allclose(axes.texts[0].get_bbox_patch().get_facecolor(), dots.to_rgba(0.75))


def test_boxes_are_pushed_apart_and_no_further():
    places = np.array([[0.0, 0.0], [0.1, 0.0], [5.0, 5.0]])
    apart = tiles.separate_boxes(places, np.array([1.0, 1.0]))
    assert max(abs(apart[0] - apart[1])) >= 1 - 1e-3
    np.testing.assert_allclose(apart[2], [5.0, 5.0], atol=1e-4)
