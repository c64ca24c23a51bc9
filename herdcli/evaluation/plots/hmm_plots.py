"""Pictures of hidden Markov models: transitions with a sequence and its states, the ledger."""

from __future__ import annotations

from typing import Any

import numpy as np

from herdcli.algorithm import Map
from herdcli.em.hmm_artifacts import HiddenMarkovModel
from herdcli.em.sequence.sequences import select_sequences
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.plots import em_plots, plot_list, plot_style
from herdcli.schema import Array

STEPS = 400  # number of steps of a sequence that are shown
COLUMNS = 4  # number of columns of a row that are shown
CELLS = 8  # states up to which probabilities are written into the matrix
LEGIBLE = 0.005  # a probability below it is not written


def transitions(value: HiddenMarkovModel, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The matrix of transitions; the first held-out sequence under it, its most probable states as colours and their probabilities."""
    shown = _longest_heldout_sequence(value)
    if shown is None:
        figure = plot_list.new_figure(3.4)
        _draw_transitions(figure, figure.add_subplot(), value)
        return figure
    X, path, p, name = shown
    columns = np.sort(np.argsort(-np.nanstd(X, axis=0), kind="stable")[:COLUMNS]).tolist()
    figure = plot_list.new_figure(3.6 + 0.85 * len(columns))
    grid = figure.add_gridspec(len(columns) + 2, 1, height_ratios=(2.4, *(0.8 for _ in columns), 1.0))
    _draw_transitions(figure, figure.add_subplot(grid[0]), value)
    states = figure.add_subplot(grid[-1])
    for number, j in enumerate(columns):
        _draw_column(figure.add_subplot(grid[1 + number], sharex=states), X[:, j], path, value, j)
    edges = np.arange(len(p) + 1) + 0.5  # each step fills its own place
    colours = [_state_colour(k, value) for k in range(value.states)]
    states.stackplot(edges, np.concatenate([p, p[-1:]]).T, colors=colours, linewidth=0, step="post")
    states.set(
        ylim=(0, 1),
        yticks=(0, 0.5, 1),
        xlim=(edges[0], edges[-1]),
        ylabel="p(state | all)",
        xlabel=f"step of sequence {name}" if name else "step",
    )
    plot_list.use_integer_ticks(states)
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
    panel.set_title(f"transitions of {value.states} states, {value.emission} emissions")
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
    path, p = value.infer_states(own, "viterbi"), value.infer_states(own, "smoothed")
    name = sequences.names[s] if sequences.names else ""
    return own.as_one_block().X[:STEPS], path[:STEPS], p[:STEPS], name


def _draw_column(panel: Any, x: Array, path: Array, value: HiddenMarkovModel, j: int) -> None:
    """Draw a column (T,) as a curve on the colours of the likeliest states."""
    names = value.known.feature_names if value.known is not None else None
    ends = np.flatnonzero(np.diff(path)) + 1
    for begin, end in zip([0, *ends], [*ends, len(path)], strict=True):
        panel.axvspan(begin + 0.5, end + 0.5, color=_state_colour(int(path[begin]), value), alpha=0.18, linewidth=0)
    whole = {"drawstyle": "steps-mid"} if value.emission in ("categorical", "poisson", "bernoulli") else {}
    panel.plot(np.arange(1, len(x) + 1), x, lw=0.9, color=plot_style.INK, **whole)
    panel.set_ylabel(names[j] if names else f"x{j}")
    panel.tick_params(labelbottom=False)


def ledger(value: HiddenMarkovModel, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The free energy at each half-step, and the divergence that the next E step closes."""
    return em_plots.ledger(value, settings, map=map)  # type: ignore[arg-type]  # all of these models keep one
