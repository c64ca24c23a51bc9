"""Pictures of hidden Markov models: transitions with a sequence and its states, the ledger."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from herdcli.em.hmm_artifacts import HiddenMarkovModel
from herdcli.em.sequence.sequences import select_sequences
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.plots import em_plots, plot_list, plot_style
from herdcli.schema import Array

STEPS = 400  # number of steps of a sequence that are shown
COLUMNS = 4  # number of columns of a row that are shown
CELLS = 8  # states up to which probabilities are written into the matrix
LEGIBLE = 0.005  # a probability below it is not written


def transitions(value: HiddenMarkovModel, settings: EvaluationSettings, *, map: Callable[..., Any] = map) -> plot_list.Figure:
    """The matrix of transitions; the first held-out sequence under it, its most probable states as colours and their probabilities."""
    shown = _longest_heldout_sequence(value)
    figure = plot_list.new_figure(3.4 if shown is None else 6.4)
    if shown is None:
        _draw_transitions(figure, figure.add_subplot(), value)
        return figure
    grid = figure.add_gridspec(3, 1, height_ratios=(2.4, 1.6, 1.0))
    _draw_transitions(figure, figure.add_subplot(grid[0]), value)
    rows = figure.add_subplot(grid[1])
    states = figure.add_subplot(grid[2], sharex=rows)
    X, path, p, name = shown
    _draw_columns(rows, X, path, value)
    steps = np.arange(len(p))
    states.stackplot(steps, p.T, colors=[_state_colour(k, value) for k in range(value.states)], linewidth=0)
    states.set_ylim(0, 1)
    plot_list.use_integer_ticks(states)
    states.set_ylabel("p(state | all)")
    states.set_xlabel(f"step of sequence {name}" if name else "step")
    states.set_xlim(0, max(1, len(p) - 1))
    return figure


def _state_colour(k: int, value: HiddenMarkovModel) -> Any:
    """Return the colour of a state."""
    if value.states <= len(plot_style.COLOURS):
        return plot_style.cycle_colour(k)
    from matplotlib import colormaps

    return colormaps[plot_style.SHADES]((k + 0.5) / value.states)


def _draw_transitions(figure: plot_list.Figure, panel: Any, value: HiddenMarkovModel) -> None:
    image = panel.imshow(value.transition, cmap="Greys", vmin=0.0, vmax=1.0)
    names = _state_names(value)
    panel.set_xticks(range(value.states), names)
    panel.set_yticks(range(value.states), names)
    for k, tick in enumerate(panel.get_yticklabels()):
        tick.set_color(_state_colour(k, value))
    panel.set_xlabel("next state")
    panel.set_ylabel("state now")
    panel.set_title(f"how {value.states} states follow one another, {value.emission} rows")
    if value.states <= CELLS:
        for i, row in enumerate(value.transition):
            for j, p in enumerate(row):
                if p >= LEGIBLE:
                    panel.text(j, i, f"{p:.2f}", ha="center", va="center", color=plot_style.ON_DARK if p > 0.5 else plot_style.ON_LIGHT)
        return
    figure.colorbar(image, ax=panel, label="probability")


def _state_names(value: HiddenMarkovModel) -> list[str]:
    known = value.known
    if known is not None and known.supervised and known.class_names:
        return known.class_names
    return [str(k + 1) for k in range(value.states)]


def _longest_heldout_sequence(value: HiddenMarkovModel) -> tuple[Array, Array, Array, str] | None:
    """Rows, likeliest path and probabilities of the longest held-out sequence, its beginning alone."""
    if value.held is None:
        return None
    sequences = value.held.sequences
    s = int(sequences.lengths.argmax())
    own = select_sequences(sequences, np.array([s]))
    path, p = value.told(own, "viterbi"), value.told(own, "smoothed")
    name = sequences.names[s] if sequences.names else ""
    return own.whole().X[:STEPS], path[:STEPS], p[:STEPS], name


def _draw_columns(panel: Any, X: Array, path: Array, value: HiddenMarkovModel) -> None:
    """Columns as curves on the colours of the likeliest states."""
    names = value.known.feature_names if value.known is not None else None
    steps = np.arange(len(X))
    ends = np.flatnonzero(np.diff(path)) + 1
    for begin, end in zip([0, *ends], [*ends, len(path)], strict=True):
        panel.axvspan(begin - 0.5, end - 0.5, color=_state_colour(int(path[begin]), value), alpha=0.18, linewidth=0)
    whole = value.emission in ("categorical", "poisson", "bernoulli")
    spread = np.nanstd(X, axis=0)
    order = np.argsort(-spread, kind="stable")[:COLUMNS]
    for number, j in enumerate(np.sort(order)):
        steps_or_not = {"drawstyle": "steps-mid"} if whole else {}
        panel.plot(
            steps,
            X[:, j],
            lw=0.9,
            ls=plot_style.line_style(number),
            color=plot_style.INK,
            label=plot_list.legend_label(names[j]) if names else f"x{j}",
            **steps_or_not,
        )
    if X.shape[1] > 1:
        panel.legend(ncols=COLUMNS, loc="upper right")
    panel.set_ylabel("rows, likeliest states")
    panel.tick_params(labelbottom=False)


def ledger(value: HiddenMarkovModel, settings: EvaluationSettings, *, map: Callable[..., Any] = map) -> plot_list.Figure:
    """The free energy at each half-step, and the divergence that the next E step closes."""
    return em_plots.ledger(value, settings, map=map)  # type: ignore[arg-type]  # all of these models keep one
