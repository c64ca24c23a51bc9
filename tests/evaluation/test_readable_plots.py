"""Plots that people can read: lines numbered as in tables, columns in one unit, legends beside many curves."""

from __future__ import annotations

import numpy as np
import pytest

import herdcli as herd
from herdcli.errors import DataError
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.plots import appearance, classifier_plots, em_plots, hmm_plots, ica_plots, plot_list, rbm_plots, tiles

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.filterwarnings("ignore:herd ")
SETTINGS = EvaluationSettings()
RNG = np.random.default_rng(3)


def test_lines_of_a_matrix_are_numbered_from_1_and_columns_from_0():
    image = tiles.matrix_plot(np.arange(12.0).reshape(3, 4), row_label="hidden unit").axes[0].images[0]
    assert image.get_extent() == [-0.5, 3.5, 3.5, 0.5]


@pytest.mark.parametrize(("columns", "named"), [(60, True), (61, False)])
def test_up_to_60_columns_are_named(columns, named):
    names = [f"word_{j}" for j in range(columns)]
    axes = tiles.matrix_plot(np.ones((2, columns)), row_label="unit", column_names=names).axes[0]
    assert ([label.get_text() for label in axes.get_xticklabels()] == names) is named
    assert (axes.get_xlabel() == "column") is not named


def test_a_value_far_away_does_not_take_the_colours_of_the_others():
    values = np.array([[1.0, -2.0], [0.5, 600.0]])
    figure = tiles.matrix_plot(values, row_label="row", signed=True, most=4.0)
    assert figure.axes[0].images[0].get_clim() == (-4.0, 4.0)
    assert figure.axes[0].images[0].colorbar.extend == "both"
    assert tiles.matrix_plot(values[:, :1], row_label="row", signed=True, most=4.0).axes[0].images[0].get_clim() == (-1.0, 1.0)


def test_rows_of_a_table_are_beside_their_reconstructions_in_standard_deviations():
    X = RNG.normal(size=(50, 3)) * [1.0, 1000.0, 0.01] + [5.0, 0.0, 0.0]
    model = herd.fit_rbm(X, hidden=2, epochs=1, visible_units="gaussian", standardize=True)
    rows, found, bar = rbm_plots.reconstructions(model, SETTINGS).axes
    assert (rows.get_title(), found.get_title()) == ("test rows", "reconstructions")
    test = model.holdout.X[model.holdout.split == 2]
    np.testing.assert_allclose(rows.images[0].get_array(), test, rtol=1e-5)
    assert rows.images[0].get_clim() == found.images[0].get_clim()
    assert bar.get_ylabel() == "standard deviations from the column's mean"


def test_filters_of_models_by_class_are_a_line_for_each_class():
    X = RNG.integers(0, 2, size=(40, 4))
    model = herd.fit_rbm(X, RNG.integers(0, 3, size=40), per_class=True, hidden=5, epochs=1, image_shape=(2, 2))
    axes = rbm_plots.filters(model, SETTINGS).axes[0]
    assert axes.get_title(loc="left") == "weights of 15 hidden units, a line for each of 3 classes"
    height, width = axes.images[0].get_array().shape
    assert (height, width) == (3 * 3 - 1, 5 * 3 - 1)


def test_the_legend_of_many_curves_is_beside_them():
    lines = {str(k): (np.arange(3), np.arange(3) + k) for k in range(5)}
    assert plot_list.curve_plot(lines, x="epoch", y="y").legends
    few = plot_list.curve_plot(dict(list(lines.items())[:4]), x="epoch", y="y")
    assert (few.legends, few.axes[0].get_legend() is not None) == ([], True)


def test_columns_of_a_sequence_have_axes_of_their_own():
    X = np.concatenate([RNG.normal(60, 3, size=(40, 1)), RNG.normal(1, 0.1, size=(40, 1))], axis=1)
    model = herd.em(X, model="hmm", components=2, split=".5,0,.5", feature_names=["pulse", "movement"])
    figure = hmm_plots.transitions(model, SETTINGS)
    assert [axes.get_ylabel() for axes in figure.axes] == ["state now", "p(state | all)", "pulse", "movement"]
    steps = figure.axes[3].get_lines()[0].get_xdata()
    assert (steps[0], figure.axes[1].get_xlim()) == (1, (0.5, len(steps) + 0.5))


def test_a_closed_form_has_no_ledger():
    with pytest.raises(DataError, match=r"^there are no iterations: this model has a closed form$"):
        em_plots.ledger(herd.em(RNG.normal(size=(10, 50)), model="pca"), SETTINGS)


def test_columns_of_a_table_are_no_signal():
    model = herd.ica(RNG.laplace(size=(300, 40)), feature_names=[f"word_{chr(97 + j % 26)}{j}" for j in range(40)], components=3)
    axes = ica_plots.filters(model, SETTINGS).axes[0]
    assert axes.get_xticklabels()[1].get_text() == "word_b1"
    for plot in (ica_plots.spectra, ica_plots.tiling):
        with pytest.raises(
            DataError, match=r"^the plot needs columns in order of time, but the model was fitted to the columns of a table$"
        ):
            plot(model, SETTINGS)
    signal = herd.ica(RNG.laplace(size=(300, 40)), components=3)
    assert len(ica_plots.filters(signal, SETTINGS).axes) == 3


def test_weights_stay_in_sight_beside_large_deviations():
    X = RNG.normal(size=(40, 2))
    model = herd.nherd_train(X, (X[:, 0] > 0).astype(int), algorithm="arow", C=1e-3, multiclass="top-1")
    mean, spread = classifier_plots.weight_moments(model)
    axes = classifier_plots.weights(model, SETTINGS).axes[0]
    largest = float(np.abs(mean).max())
    assert 2 * float(spread.max()) > 4 * largest
    assert axes.get_xlim() == pytest.approx((-4 * largest, 4 * largest))


def test_labels_of_colours_are_as_long_as_the_axes_allow():
    names = [f"a_long_name_{j}" for j in range(50)]
    figure = tiles.matrix_plot(
        np.ones((3, 50)), row_label="unit", column_names=names, scale="standard deviations from the mean of all rows"
    )
    appearance.fit_texts(figure)
    figure.draw_without_rendering()
    label = figure.axes[1].yaxis.label.get_window_extent()
    assert label.y0 >= -1
    assert label.y1 <= figure.bbox.height + 1


def test_the_trace_of_a_classifier_has_a_doubling_axis():
    X = RNG.normal(size=(80, 2))
    axes = classifier_plots.trace(herd.nherd_train(X, (X[:, 0] > 0).astype(int)), SETTINGS).axes[0]
    axes.figure.draw_without_rendering()
    assert axes.get_xscale() == "log"
    assert {"1", "2", "4", "8"} <= {label.get_text() for label in axes.get_xticklabels()}
