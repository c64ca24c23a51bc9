"""Pictures of recurrent temporal RBMs: a held-out sequence beside its predictions, weights, links, and the trace of learning."""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import DataError
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.plots import plot_list, plot_style, tiles
from herdcli.rbm.recurrent.artifacts import RecurrentRBM
from herdcli.rbm.recurrent.likelihood import EvaluationSequences, expected_next_rows, select_steps
from herdcli.rbm.recurrent.model import SequenceHistory

MOST_STEPS, MOST_COLUMNS = 200, 4


def filters(value: RecurrentRBM, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The weights of every hidden unit as a picture."""
    W = value.parameters.W.T
    return tiles.rows_plot(
        W,
        value.image_shape,
        row_label="hidden unit",
        column_names=value.feature_names,
        signed=True,
        title=f"weights of {len(W)} hidden units",
        scale="weight",
    )


def trace(value: RecurrentRBM, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The figure of held-out sequences along the epochs; without it the reconstruction error."""
    found = value.trace
    if found is None:
        raise DataError("there is no trace, because the model was not fitted by herd fit-rbm")
    if found.validated is None or found.valid is None:
        epochs = np.arange(1, len(found.reconstruction) + 1)
        return plot_list.curve_plot(
            {"": (epochs, found.reconstruction)},
            x="epoch",
            y="mean squared reconstruction error",
            title=f"reconstruction error over {plot_list.count_text(len(found.reconstruction), 'epoch')}",
        )
    return plot_list.curve_plot(
        {"validation rows": (found.validated, found.valid)},
        x="epoch",
        y="nats per validation row",
        title="likelihood of validation rows by epoch",
    )


def predicted(value: RecurrentRBM, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The first held-out sequence, what each row was expected to be by those before it, and the hidden means, all over time."""
    held = value.heldout_sequences()
    if held is None:
        raise DataError(
            "there are no test sequences to draw", hint="fit the model with test sequences: herd fit-rbm --recurrent --split .6,.2,.2"
        )
    length = int(min(held.offsets[1], MOST_STEPS))
    before = None if held.before is None else SequenceHistory(held.before.state[:1], held.before.begins[:1])
    first = EvaluationSequences(held.v[:length], np.array([0, length]), held.counted[:length], before)
    driven = first.step_harmoniums(value.model)
    expected = expected_next_rows(value.model, first, select_steps(driven, np.arange(length)), np.arange(length), settings.seed, map=map)
    return (
        _draw_as_lines(value, first.v, expected, driven.r)
        if value.model.visible.range is None
        else _draw_as_image(value, first.v, expected, driven.r)
    )


def _draw_as_image(value: RecurrentRBM, v: np.ndarray, expected: np.ndarray, r: np.ndarray) -> plot_list.Figure:
    """Rows as columns of grey, of units with a range."""
    shown = {"observed": value.to_original(v), "expected one step ahead": value.to_original(expected), "hidden means": r}
    figure = plot_list.new_figure(6.0)
    panels = figure.subplots(3, 1, sharex=True)
    for panel, (name, rows) in zip(panels, shown.items(), strict=True):
        shades = np.asarray(rows, dtype=np.float64).T
        first = 0.5 if rows is r else -0.5  # units are numbered from 1, columns from 0
        extent = (0.5, shades.shape[1] + 0.5, len(shades) + first, first)
        panel.imshow(shades, aspect="auto", cmap="gray_r", interpolation="none", extent=extent)
        panel.set_title(name)
        panel.set_ylabel("unit" if rows is r else "column")
        panel.locator_params(integer=True)
    panels[-1].set_xlabel("step")
    plot_list.use_integer_ticks(panels[-1])
    return figure


def _draw_as_lines(value: RecurrentRBM, v: np.ndarray, expected: np.ndarray, r: np.ndarray) -> plot_list.Figure:
    """The columns that vary most as lines, of units without a range."""
    chosen = np.sort(np.argsort(-value.base_variance, kind="stable")[:MOST_COLUMNS]).tolist()
    columns = len(chosen)
    figure = plot_list.new_figure(1.0 + 1.5 * (columns + 1))
    panels = figure.subplots(columns + 1, 1, sharex=True, squeeze=False)[:, 0]
    seen, ahead, t = value.to_original(v), value.to_original(expected), np.arange(1, len(v) + 1)
    for d, panel in zip(chosen, panels[:-1], strict=True):
        panel.plot(t, seen[:, d], ".-", ms=3, lw=0.6, color=plot_style.INK, label="observed")
        panel.plot(t, ahead[:, d], "-", lw=1.2, color=plot_style.COLOURS[1], label="expected one step ahead")
        panel.set_ylabel(value.feature_names[d] if value.feature_names else f"x{d}")
    extent = (0.5, len(r) + 0.5, r.shape[1] + 0.5, 0.5)
    panels[-1].imshow(r.T, aspect="auto", cmap="gray_r", interpolation="none", extent=extent)
    panels[-1].set_ylabel("hidden unit\n(darker: higher mean)")
    panels[-1].locator_params(integer=True)
    figure.legend(handles=panels[0].get_lines(), loc="outside lower center", ncols=2)
    part = "" if columns == seen.shape[1] else f", the {columns} columns of {seen.shape[1]} that vary most"
    panels[0].set_title(f"a held-out sequence{part}, with predictions and hidden means")
    panels[-1].set_xlabel("step")
    plot_list.use_integer_ticks(panels[-1])
    return figure
