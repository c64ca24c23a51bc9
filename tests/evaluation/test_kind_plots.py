"""What the pictures of each kind show, by hand or against another way to the same numbers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import herdcli
from herdcli.artifacts import Dataset
from herdcli.errors import BadUsage, DataError
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.metrics import feature_importance
from herdcli.evaluation.plots import (
    classifier_plots,
    graph_layout,
    herding_plots,
    network_plots,
    planes,
    plot_list,
    plot_style,
    samples_plots,
)
from herdcli.markov.model.network import build_network


def test_precision_and_recall_by_hand():
    score, positive = np.array([0.9, 0.8, 0.8, 0.3, 0.1]), np.array([True, False, True, True, False])
    precision, recall, average = classifier_plots.precision_recall_points(score, positive)
    np.testing.assert_allclose(precision, [1, 2 / 3, 3 / 4, 3 / 5])  # equal scores come in together
    np.testing.assert_allclose(recall, [1 / 3, 2 / 3, 1, 1])
    assert average == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)


def test_average_precision_as_scikit_learn_has_it():
    metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(0)
    score, positive = random.integers(0, 20, 200) / 20.0, random.random(200) < 0.3
    assert classifier_plots.precision_recall_points(score, positive)[2] == pytest.approx(metrics.average_precision_score(positive, score))


@pytest.mark.parametrize(("closed", "shape"), [(False, (3, 4)), (True, (5, 4))])
def test_lattices_are_known_by_their_edges(closed, shape):
    rows, width = shape
    edges = sorted(graph_layout._grid_edges(rows, width, closed))
    assert len(edges) == (2 * rows * width if closed else 2 * rows * width - rows - width)
    assert graph_layout.detect_lattice(rows * width, edges) == shape
    assert graph_layout.detect_lattice(rows * width, edges[1:]) is None


def test_neighbours_are_drawn_nearer_than_strangers_and_always_in_the_same_places():
    edges = [(i, i + 1) for i in range(11)] + [(0, 11)]
    place = graph_layout.layout_nodes(12, edges)
    np.testing.assert_array_equal(place, graph_layout.layout_nodes(12, edges))
    apart = np.linalg.norm(place[:, None] - place[None], axis=2)
    joined = np.array([apart[i, j] for i, j in edges])
    assert joined.max() < 0.6 * apart[0, 6]
    assert apart[~np.eye(12, dtype=bool)].min() > 0.02
    assert graph_layout.layout_nodes(1, []).tolist() == [[0.0, 0.0]]


def test_principal_axes_are_those_of_the_covariance_from_either_gram_matrix():
    random = np.random.default_rng(1)
    X = random.normal(size=(7, 20)) * np.linspace(3, 0.1, 20)
    axes, mean, share = planes.principal_axes(X)
    values, vectors = np.linalg.eigh(np.cov(X.T, bias=True))
    np.testing.assert_allclose(np.abs(axes.T @ vectors[:, :-3:-1]), np.eye(2), atol=1e-8)
    np.testing.assert_allclose(share, values[:-3:-1] / values.sum())
    np.testing.assert_allclose(mean, X.mean(axis=0))
    assert planes.principal_axes(X[:, :1])[0].tolist() == [[1.0, 0.0]]


def test_a_network_is_coloured_by_its_exact_marginals():
    pytest.importorskip("matplotlib")
    network = build_network(
        [2, 2, 3], [((0,), np.array([1.0, 3.0])), ((0, 1), np.array([[2.0, 1.0], [1.0, 2.0]])), ((2,), np.array([1.0, 0.0, 1.0]))]
    )
    axes = network_plots.graph(network, None).axes[0]
    assert axes.get_title() == "exact marginals: 3 variables, 1 edge"
    (dots,) = (part for part in axes.collections if part.get_array() is not None)
    second = (1 * 1 + 3 * 2) / 12  # Σ over x_0 of f(x_0) g(x_0, 1), over all
    np.testing.assert_allclose(dots.get_array(), [0.75, second, 0.5])


def test_weights_are_named_and_the_strongest_come_first():
    pytest.importorskip("matplotlib")
    value = SimpleNamespace(
        mean=np.array([[9.0, 0.1, -2.0, 1.0]]),
        variance=None,
        settings=SimpleNamespace(bias=True),
        feature_names=["a", "b", "c"],
        classes=["no", "yes"],
        image_shape=None,
    )
    (axes,) = classifier_plots.weights(value, None).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b", "a", "c"]  # from the most negative upwards; the bias is none
    with pytest.raises(DataError, match="kernel classifier"):
        classifier_plots.weights(SimpleNamespace(mean=None), None)


def test_names_of_hashed_columns_are_theirs():
    settings = SimpleNamespace(bias=True)
    hashed = SimpleNamespace(
        feature_names=None, hash_index=np.array([1, 3]), hash_names=["x", "y"], settings=settings, text="vw", zero_based=False
    )
    assert [feature_importance.column_namer(hashed)(index) for index in (0, 1, 2)] == ["x", "column 1", "y"]
    text = SimpleNamespace(feature_names=None, hash_index=None, hash_names=None, settings=settings, text="svmlight", zero_based=False)
    assert feature_importance.column_namer(text)(0) == "feature 1"


def test_pruned_units_are_put_back_where_they_were():
    value = SimpleNamespace(units=np.array([0, 2]), all_units=4, representation="spin")
    assert herding_plots.restore_pruned_units(value, np.array([[1, 1]], dtype=np.int8)).tolist() == [[1, -1, 1, -1]]


def test_kernels_are_named_in_short():
    assert samples_plots._shorten_kernel("gaussian:72.14133360282247+rq:2") == "gaussian:72.14+rq:2"


def test_pictures_that_need_a_reference_say_so():
    with pytest.raises(BadUsage, match="needs a network or beliefs to compare with") as caught:
        network_plots.reference(object(), None)
    assert caught.value.hint == "give them with --reference FILE"


def test_things_differ_by_more_than_colour():
    looks = {(plot_style.marker_style(i), plot_style.cycle_colour(i)) for i in range(56)}
    assert len(looks) == 56  # no two alike, though colours come again
    assert len({plot_style.marker_style(i) for i in range(8)}) == len({str(plot_style.line_style(i)) for i in range(8)}) == 8


def test_axes_that_count_have_whole_ticks():
    pytest.importorskip("matplotlib")
    (axes,) = plot_list.curve_plot({"a": (np.arange(1, 4), np.arange(3.0))}, x="epoch", y="error", title="three epochs").axes
    ticks = axes.xaxis.get_major_locator().tick_values(1, 3)
    assert np.array_equal(ticks, np.round(ticks))
    (one,) = plot_list.curve_plot({"a": (np.array([1]), np.array([0.5]))}, x="epoch", y="error").axes
    assert [tick for tick in one.get_xticks() if one.get_xlim()[0] < tick < one.get_xlim()[1]] == [1.0]
    assert axes.get_title() == "three epochs"


def test_groups_with_numbers_as_names_are_called_groups():
    rows = Dataset(np.random.default_rng(3).normal(size=(40, 2)), columns={"side": np.array([1, 2] * 20)})
    samples = herdcli.kernel_herd(rows, count=4, by="side")
    for draw in (samples_plots.atoms, samples_plots.mmd):
        figure = draw(samples, EvaluationSettings())
        legend = figure.axes[0].get_legend() or figure.legends[0]
        shown = [text.get_text() for text in legend.get_texts()]
        assert shown[:2] == ["group 1", "group 2"]
