"""Pictures of hidden Markov models: transitions with a sequence and its states, the ledger."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from herdcli.em.hmm_artifacts import MarkovChain
from herdcli.em.sequences import chosen
from herdcli.evaluation import em_plots, plots
from herdcli.evaluation.settings import EvaluationSettings
from herdcli.schema import Array

STEPS = 400  # of a sequence that are shown
COLUMNS = 4  # of a row that are shown
COLOURS = 10  # of the cycle; more states take shades of a map
CELLS = 8  # states up to which probabilities are written into the matrix
LEGIBLE = 0.005  # a probability below it is not written


def transitions(value: MarkovChain, settings: EvaluationSettings, *, map: Callable[..., Any] = map) -> plots.Figure:
    """The matrix of transitions; the first held-out sequence under it, its likeliest states as colours and their probabilities."""
    shown = _sequence(value)
    figure = plots.begin(3.4 if shown is None else 6.4)
    if shown is None:
        _matrix(figure, figure.add_subplot(), value)
        return figure
    grid = figure.add_gridspec(3, 1, height_ratios=(2.4, 1.6, 1.0))
    _matrix(figure, figure.add_subplot(grid[0]), value)
    rows = figure.add_subplot(grid[1])
    states = figure.add_subplot(grid[2], sharex=rows)
    X, path, p, name = shown
    _rows(rows, X, path, value)
    steps = np.arange(len(p))
    states.stackplot(steps, p.T, colors=[_colour(k, value) for k in range(value.states)], linewidth=0)
    states.set_ylim(0, 1)
    states.set_ylabel("p(state | all)", fontsize=8)
    states.set_xlabel(f"step of sequence {name}" if name else "step")
    states.set_xlim(0, max(1, len(p) - 1))
    return figure


def _colour(k: int, value: MarkovChain) -> Any:
    """Of a state."""
    if value.states <= COLOURS:
        return f"C{k}"
    from matplotlib import colormaps

    return colormaps["turbo"]((k + 0.5) / value.states)


def _matrix(figure: plots.Figure, panel: Any, value: MarkovChain) -> None:
    image = panel.imshow(value.transition, cmap="Greys", vmin=0.0, vmax=1.0)
    names = _names(value)
    panel.set_xticks(range(value.states), names, fontsize=7)
    panel.set_yticks(range(value.states), names, fontsize=7)
    for k, tick in enumerate(panel.get_yticklabels()):
        tick.set_color(_colour(k, value))
    panel.set_xlabel("next state", fontsize=8)
    panel.set_ylabel("state now", fontsize=8)
    panel.set_title(f"transitions of {value.states} states, {value.emission}", fontsize=9)
    if value.states <= CELLS:
        for i, row in enumerate(value.transition):
            for j, p in enumerate(row):
                if p >= LEGIBLE:
                    panel.text(j, i, f"{p:.2f}", ha="center", va="center", fontsize=7, color="white" if p > 0.5 else "black")
        return
    figure.colorbar(image, ax=panel)


def _names(value: MarkovChain) -> list[str]:
    known = value.known
    if known is not None and known.supervised and known.class_names:
        return known.class_names
    return [str(k + 1) for k in range(value.states)]


def _sequence(value: MarkovChain) -> tuple[Array, Array, Array, str] | None:
    """Rows, likeliest path and probabilities of the longest held-out sequence, its beginning alone."""
    if value.held is None:
        return None
    sequences = value.held.sequences
    s = int(sequences.lengths.argmax())
    own = chosen(sequences, np.array([s]))
    path, p = value.told(own, "viterbi"), value.told(own, "smoothed")
    name = sequences.names[s] if sequences.names else ""
    return own.whole().X[:STEPS], path[:STEPS], p[:STEPS], name


def _rows(panel: Any, X: Array, path: Array, value: MarkovChain) -> None:
    """Columns as curves on the colours of the likeliest states."""
    names = value.known.feature_names if value.known is not None else None
    steps = np.arange(len(X))
    ends = np.flatnonzero(np.diff(path)) + 1
    for begin, end in zip([0, *ends], [*ends, len(path)], strict=True):
        panel.axvspan(begin - 0.5, end - 0.5, color=_colour(int(path[begin]), value), alpha=0.18, linewidth=0)
    whole = value.emission in ("categorical", "poisson", "bernoulli")
    spread = np.nanstd(X, axis=0)
    order = np.argsort(-spread, kind="stable")[:COLUMNS]
    for number, j in enumerate(np.sort(order)):
        style = {"drawstyle": "steps-mid"} if whole else {}
        panel.plot(steps, X[:, j], lw=0.9, color=str(0.15 + 0.18 * number), label=names[j] if names else f"x{j}", **style)
    if X.shape[1] > 1:
        panel.legend(fontsize=6, ncols=COLUMNS, loc="upper right")
    panel.set_ylabel("rows, likeliest states", fontsize=8)
    panel.tick_params(labelbottom=False)


def ledger(value: MarkovChain, settings: EvaluationSettings, *, map: Callable[..., Any] = map) -> plots.Figure:
    """The free energy at each half-step, and the divergence that the next E step closes."""
    return em_plots.ledger(value, settings, map=map)  # type: ignore[arg-type]  # all of these models keep one
