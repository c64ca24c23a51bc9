"""Pictures of linear dynamical systems: states filtered and smoothed, with bands of two standard deviations."""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import Map
from herdcli.em.lds_artifacts import LinearDynamics, one_step_predictions, standard_deviations
from herdcli.em.sequence.kalman import filter_sequences, smooth_sequences
from herdcli.errors import DataError
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.plots import plot_list, plot_style

MOST_STEPS = 200
MOST_PANELS = 4
BAND = 2.0  # standard deviations


def states(value: LinearDynamics, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The first held-out sequence: its first columns beside predictions from the rows before, and below them the states, filtered and
    smoothed, with bands of two standard deviations."""
    held = next(iter(value.heldout_sequences()), None)
    if held is None:
        raise DataError("there are no test rows to draw", hint="fit the model with test rows: herd em --split .6,.2,.2")
    p, Y, U = held
    Y, U = Y[:MOST_STEPS], None if U is None else U[:MOST_STEPS]
    offsets = np.array([0, len(Y)])
    found = filter_sequences(p, Y, offsets, U)
    after = smooth_sequences(p, found, offsets)
    outputs, count = min(2, value.columns), min(MOST_PANELS, value.states)
    figure = plot_list.new_figure(1.0 + 1.35 * (outputs + count))
    panels = figure.subplots(outputs + count, 1, sharex=True, squeeze=False)[:, 0]
    names = value.known.feature_names if value.known is not None else None
    expected, t = one_step_predictions(p, found), np.arange(1, len(Y) + 1)
    spread = standard_deviations(p["loading"] @ found.predicted_covariance @ p["loading"].T + p["noise"])
    for d in range(outputs):
        panel = panels[d]
        panel.fill_between(
            t, expected[:, d] - BAND * spread[:, d], expected[:, d] + BAND * spread[:, d], color=plot_style.GREY, alpha=0.25, lw=0
        )
        panel.plot(t, expected[:, d], "-", lw=1, color=plot_style.GREY, label="one step ahead")
        panel.plot(t, Y[:, d], ".", ms=3, color=plot_style.INK, label="observed")
        panel.set_ylabel(names[d] if names else f"x{d}")
    kinds = (
        ("filtered", plot_style.COLOURS[1], "--", found.mean, found.covariance),
        ("smoothed", plot_style.COLOURS[0], "-", after.mean, after.covariance),
    )
    for k in range(count):
        panel = panels[outputs + k]
        for name, colour, line, mean, covariance in kinds:
            deviation = BAND * standard_deviations(covariance)[:, k]
            panel.fill_between(t, mean[:, k] - deviation, mean[:, k] + deviation, color=colour, alpha=0.2, lw=0)
            panel.plot(t, mean[:, k], line, lw=1.1, color=colour, label=name)
        panel.set_ylabel(f"state {k + 1}")
    lines = [line for panel in (panels[0], panels[outputs]) for line in panel.get_lines()]
    figure.legend(handles=lines, loc="outside lower center", ncols=len(lines))
    panels[-1].set_xlabel("step")
    plot_list.use_integer_ticks(panels[-1])
    columns = "" if outputs == value.columns else f", {plot_list.count_text(outputs, 'column')} of {value.columns}"
    hidden = plot_list.count_text(value.states, "hidden state") if count == value.states else f"{count} of {value.states} hidden states"
    panels[0].set_title(f"a held-out sequence{columns}, and {hidden}; bands ±2 standard deviations")
    return figure
