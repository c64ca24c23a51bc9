"""Pictures of networks and beliefs: the graph or lattice coloured by marginals, residuals, and marginals beside others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import BadUsage, DataError
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.figures.beliefs import BeliefsWithReference
from herdcli.evaluation.figures.network import QUICK, NetworkWithReference
from herdcli.evaluation.plots import plot_list, plot_style
from herdcli.evaluation.plots.appearance import shorten_name
from herdcli.evaluation.plots.graph_layout import detect_lattice, layout_nodes
from herdcli.evaluation.plots.layered_layout import layout_layers
from herdcli.markov.exact.junction_tree import node_marginals
from herdcli.markov.learning import fit_summary
from herdcli.markov.model.beliefs import Beliefs
from herdcli.markov.model.network import Network
from herdcli.markov.query.graph_description import network_parents_or_none
from herdcli.records import dataclass
from herdcli.schema import Array

MOST_NODES = 400  # variables whose graph is drawn; of more, marginals alone in order
NAMED = 60  # variables whose names are written
MOST_LETTERS = 18  # of a name
BOX = 20.0  # points, the height of a box with a name and a state
Marginals = Sequence[Array]


def graph(value: Network | NetworkWithReference, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The variables of a network as a graph, a lattice, or with arrows in layers if it is directed; coloured by exact marginals where
    these are to be had."""
    network = value.network if isinstance(value, NetworkWithReference) else value
    found = fit_summary.calibrate_network(network, QUICK)
    shape = None if network.shape is None else (int(network.shape[0]), int(network.shape[1]))
    scopes, count = _scopes_as_written(network), network.listed_count
    drawn = _DrawnGraph(
        scopes=scopes,
        names=[network.name(i) for i in range(count)] if network.names else None,
        states=[network.states_of(i) for i in range(count)] if network.states else None,
        shape=shape,
        arcs=[(parent, scope[-1]) for scope in scopes for parent in scope[:-1]] if network.directed else None,
    )
    if found is None:
        degree = np.zeros(count)
        for i, j in drawn.edges:
            degree[[i, j]] += 1
        what = "neighbours (marginals would take too long)"
        return _draw_levels(drawn, _ColourLevels(degree, (0.0, max(1.0, float(degree.max()))), "neighbours"), what)
    return _draw_levels(drawn, _marginal_levels(drawn, node_marginals(network, found)[:count]), "exact marginals")


def marginals(value: Beliefs | BeliefsWithReference, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """Variables and cliques of beliefs as a graph, or a lattice, coloured by the marginals."""
    found = value.beliefs if isinstance(value, BeliefsWithReference) else value
    scopes = [tuple(part.tolist()) for part in np.split(found.clique_scope, found.clique_scope_offset[1:-1])]
    own = found.marginals()
    states = None
    if found.states is not None:
        ends = np.cumsum([len(p) for p in own])
        states = [found.states[end - len(p) : end] for p, end in zip(own, ends.tolist(), strict=True)]
    drawn = _DrawnGraph(scopes=scopes, names=found.names, states=states)
    return _draw_levels(drawn, _marginal_levels(drawn, own), f"marginals by {found.algorithm}")


@dataclass(frozen=True, kw_only=True)
class _DrawnGraph:
    """The variables that are drawn: their factors, names and states, their lattice, and the arcs (parent, child) of a directed network."""

    scopes: Sequence[tuple[int, ...]]
    names: Sequence[str] | None
    states: Sequence[Sequence[str]] | None
    shape: tuple[int, int] | None = None
    arcs: list[tuple[int, int]] | None = None

    @property
    def edges(self) -> list[tuple[int, int]]:
        """The pairs of variables that share a factor."""
        return factor_edges(self.scopes)


@dataclass(frozen=True)
class _ColourLevels:
    """The number (N,) that colours each variable, the ends of the colours, what the number is, and a line below the names."""

    level: Array
    limits: tuple[float, float]
    scale: str
    notes: list[str] | None = None


def _scopes_as_written(network: Network) -> list[tuple[int, ...]]:
    """The scopes of all factors, with the tables of large noisy-max variables as the user wrote them."""
    parents = network_parents_or_none(network) if network.auxiliary else None
    return [scope for scope, _ in network.factors()] if parents is None else [(*above, i) for i, above in enumerate(parents)]


def factor_edges(scopes: Sequence[tuple[int, ...]]) -> list[tuple[int, int]]:
    """The pairs of variables that share a factor, each once."""
    return sorted({(min(i, j), max(i, j)) for scope in scopes for a, i in enumerate(scope) for j in scope[a + 1 :]})


def _marginal_levels(drawn: _DrawnGraph, marginals: Marginals) -> _ColourLevels:
    """Return the colours of marginals: the probability of the second of two states, or of the most probable of named ones.

    The level of other variables is the mean of their states' numbers divided by the last number.
    """
    two, states = all(len(p) <= 2 for p in marginals), drawn.states
    best = [int(np.argmax(p)) for p in marginals]
    notes = [f"{own[k]} {p[k]:.2f}" for p, own, k in zip(marginals, states, best, strict=True)] if states else None
    if states and not (two and len({tuple(own) for own in states}) == 1):
        return _ColourLevels(np.array([p.max() for p in marginals]), (0.0, 1.0), "probability of the most probable state", notes)
    level = np.array([p @ np.arange(len(p)) / max(1, len(p) - 1) for p in marginals])
    limits = (0.0, 1.0 if level.max() > 0.5 else float(level.max()) or 1.0)
    second = states[0][1] if states and len(states[0]) == 2 else "second state"
    return _ColourLevels(level, limits, f"P({second})" if two else "mean state, 0 first, 1 last", notes)


def _draw_levels(drawn: _DrawnGraph, levels: _ColourLevels, what: str) -> plot_list.Figure:
    """One number a variable: on a lattice as a picture, in a graph as colours, of very many as a picture of lines in order."""
    edges, shape, level = drawn.edges, drawn.shape, levels.level
    found = detect_lattice(len(level), edges)
    if found is not None:
        shape = found
    if shape is not None and (found is not None or len(level) > MOST_NODES):
        return _draw_lattice(level.reshape(shape), f"{what} on a lattice of {shape[0]} × {shape[1]}", levels, "column", "row")
    if len(level) > MOST_NODES:
        width = int(np.ceil(np.sqrt(len(level) * 1.6)))
        padded = np.full(-(-len(level) // width) * width, np.nan)
        padded[: len(level)] = level
        title = f"{what} of {len(level)} variables in order, {width} a line"
        return _draw_lattice(padded.reshape(-1, width), title, levels, "variable", "line")
    layered = layout_layers(len(level), drawn.arcs) if drawn.arcs is not None and shape is None else None
    if layered is not None:
        place, lines = layered.place, layered.lines
    else:
        place = layout_nodes(len(level), edges) if shape is None else _lattice_places(len(level), shape)
        lines = [place[[i, j]] for i, j in edges]
    across, down = _graph_size(place, layered is not None)
    figure = plot_list.new_figure(down, across)
    axes = figure.add_subplot()
    boxes = layered is not None and len(level) <= NAMED
    size = float(np.clip(3000 / len(level), 12, 160))
    _draw_edges(axes, lines, None if layered is None else 0.5 * BOX if boxes else 0.5 * np.sqrt(size) + 1.0)
    dots = axes.scatter(
        place[:, 0], place[:, 1], c=level, cmap=plot_style.SHADES, vmin=levels.limits[0], vmax=levels.limits[1], s=size,
        edgecolors=plot_style.INK, linewidths=0.5, zorder=2,
    )  # fmt: skip
    names = drawn.names or [str(i) for i in range(len(level))]
    if boxes:
        _write_boxes(axes, place, names, levels.notes or [f"{each:.2f}" for each in level])
    elif len(level) <= NAMED:
        _write_names(axes, place, size, names, levels.notes)
    axes.set_axis_off()
    axes.margins(0.1)
    if boxes:
        axes.set_xlim(place[:, 0].min() - 0.6, place[:, 0].max() + 0.6)
        axes.set_ylim(place[:, 1].min() - 0.5, place[:, 1].max() + 0.5)
    if shape is not None:
        axes.set_aspect("equal")
    many = f"{len(lines)} arc" if layered is not None else f"{len(edges)} edge"
    axes.set_title(f"{what}: {len(level)} variables, {many}{'s' * (many.split()[0] != '1')}")
    figure.colorbar(dots, ax=axes, label=levels.scale, shrink=0.7, aspect=25)
    return figure


def _lattice_places(count: int, shape: tuple[int, int]) -> Array:
    return np.stack([np.arange(count) % shape[1], -(np.arange(count) // shape[1])], axis=1)


def _graph_size(place: Array, layered: bool) -> tuple[float, float]:
    """Return width and height in inches: of layers with room for the names."""
    if not layered:
        return (plot_style.INCHES, 4.8) if len(place) <= 12 else (plot_style.INCHES * 1.25, 6.4)
    across, down = np.ptp(place, axis=0)
    return float(np.clip(2.0 + 1.0 * across, 4.6, 14.0)), float(np.clip(1.2 + 0.62 * down, 2.6, 11.0))


def _draw_edges(axes: Any, lines: Sequence[Array], border: float | None) -> None:
    """Draw the lines between variables; with a border in points as arrows from so far below the parent to so far above the child."""
    from matplotlib.collections import LineCollection
    from matplotlib.patches import ConnectionPatch
    from matplotlib.transforms import ScaledTranslation

    if not lines:
        return
    look: dict[str, Any] = {"colors": plot_style.GREY, "linewidths": 0.7, "alpha": 0.8, "zorder": 1}
    if border is None:
        axes.add_collection(LineCollection(list(lines), **look))
        return
    inner = [line[1:-1] for line in lines if len(line) > 3]
    if inner:
        axes.add_collection(LineCollection(inner, **look))
    scale = axes.figure.dpi_scale_trans
    below, above = (axes.transData + ScaledTranslation(0, sign * border / 72, scale) for sign in (-1, 1))
    for line in lines:
        pieces = [(line[0], below, line[-1], above, "-|>")]
        if len(line) > 2:
            pieces = [(line[0], below, line[1], axes.transData, "-"), (line[-2], axes.transData, line[-1], above, "-|>")]
        for start, from_coordinates, end, to_coordinates, style in pieces:
            axes.add_artist(
                ConnectionPatch(
                    tuple(start), tuple(end), from_coordinates, to_coordinates, axesA=axes, axesB=axes, arrowstyle=style, mutation_scale=7,
                    shrinkA=0, shrinkB=0, lw=0.7, color=plot_style.GREY, zorder=1,
                )
            )  # fmt: skip


def _write_boxes(axes: Any, place: Array, names: Sequence[str], notes: Sequence[str]) -> None:
    """Write the name of each variable and its note into a box, which gets the colour of the mark below it."""
    for at, name, note in zip(place, names, notes, strict=True):
        text = f"{shorten_name(name, MOST_LETTERS)}\n{shorten_name(note, MOST_LETTERS)}"
        box = {"boxstyle": "round,pad=0.35", "linewidth": 0.6, "edgecolor": plot_style.INK}
        axes.text(*at, text, ha="center", va="center", size=6, bbox=box, zorder=4)


def _write_names(axes: Any, place: Array, size: float, names: Sequence[str], notes: Sequence[str] | None) -> None:
    """Write the name of each variable above its mark, and below it the note, on the ground of the page so that lines do not cross them."""
    away = 0.55 * np.sqrt(size) + 1
    ground = {"facecolor": plot_style.PAPER, "edgecolor": "none", "alpha": 0.75, "pad": 0.6}
    for i, (x, y) in enumerate(place):
        common = {"textcoords": "offset points", "ha": "center", "size": 6, "bbox": ground, "zorder": 3}
        axes.annotate(shorten_name(names[i], MOST_LETTERS), (x, y), (0, away), va="bottom", **common)
        if notes is not None:
            note = shorten_name(notes[i], MOST_LETTERS)
            axes.annotate(note, (x, y), (0, -away), va="top", color=plot_style.GREY, **common)


def _draw_lattice(level: Array, title: str, levels: _ColourLevels, x: str, y: str) -> plot_list.Figure:
    figure = plot_list.new_figure(float(np.clip(0.9 + 4.8 * level.shape[0] / level.shape[1], 2.2, 6.0)))
    axes = figure.add_subplot()
    image = axes.imshow(level, cmap=plot_style.SHADES, vmin=levels.limits[0], vmax=levels.limits[1])
    axes.set(xlabel=x, ylabel=y)
    axes.locator_params(integer=True)
    axes.set_title(title)
    figure.colorbar(image, ax=axes, label=levels.scale, shrink=0.8)
    return figure


def trace(value: Beliefs | BeliefsWithReference, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The residual of each iteration, and the free energy where it was computed."""
    found = value.beliefs if isinstance(value, BeliefsWithReference) else value
    residual, energy = found.trace.residual, found.trace.free_energy
    if not len(residual):
        raise DataError(f"there is no trace, because --algorithm {found.algorithm} does not iterate")
    with_energy = np.isfinite(energy).any()
    ended = "converged" if found.converged else "did not converge"
    return _residual_plot(residual, energy if with_energy else None, f"{found.algorithm} {ended} in {found.iterations} iterations")


def learning(value: Network | NetworkWithReference, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The residual of each iteration of a learned network."""
    fit = _require_learning_record(value)
    if not len(fit.residual_trace):
        raise DataError("there is no trace, because the fit has a closed form")
    ended = "converged" if fit.converged else "did not converge"
    return _residual_plot(fit.residual_trace, None, f"{fit.algorithm} {ended} in {fit.iterations} iterations")


def _residual_plot(residual: Array, energy: Array | None, title: str) -> plot_list.Figure:
    figure = plot_list.new_figure(3.2 if energy is None else 4.6)
    axes: Any = figure.subplots(1 if energy is None else 2, 1, sharex=True)
    panels = np.ravel(axes)
    steps = np.arange(1, len(residual) + 1)
    shown = np.where(residual > 0, residual, np.nan)
    plot_list.draw_curve(panels[0], 0, steps, shown)
    panels[0].set_yscale("log" if np.isfinite(shown).any() else "linear")
    panels[0].set_ylabel("residual")
    panels[0].set_title(title)
    if energy is not None:
        plot_list.draw_curve(panels[1], 1, np.arange(1, len(energy) + 1), energy)
        panels[1].set_ylabel("free energy, nats")
    for panel in panels:
        panel.grid()
    panels[-1].set_xlabel("iteration")
    plot_list.use_integer_ticks(panels[-1])
    return figure


def _require_learning_record(value: Network | NetworkWithReference) -> Any:
    network = value.network if isinstance(value, NetworkWithReference) else value
    if network.fit is None:
        raise DataError(
            "this network was not fitted to data, so there are no target moments to compare",
            hint="compare it with another network: --plot reference FILE.png --reference FILE",
        )
    return network.fit


def given(value: Network | NetworkWithReference, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The marginals of a learned network against those that it was given."""
    network, fit = value.network if isinstance(value, NetworkWithReference) else value, _require_learning_record(value)
    targets = fit.targets(network.cardinality)
    found = fit_summary.calibrate_network(network, QUICK, [scope for scope, _ in targets])
    if found is None or not targets:
        raise DataError(
            "the plot needs exact marginals, which would take too long to compute" if targets else "it was fitted without target marginals"
        )
    present = fit_summary.scope_marginals(network, found, [scope for scope, _ in targets])
    return _scatter_marginals([p for _, p in targets], present, "given", f"marginals of {len(targets)} clusters beside those given")


def reference(
    value: Beliefs | BeliefsWithReference | Network | NetworkWithReference, settings: EvaluationSettings, *, map: Map = map
) -> plot_list.Figure:
    """Marginals against those of --reference."""
    if isinstance(value, BeliefsWithReference):
        own = value.beliefs.marginals()
        return _scatter_marginals(value.marginals, own, "reference", f"marginals by {value.beliefs.algorithm} beside the reference")
    if not isinstance(value, NetworkWithReference) or value.reference is None:
        raise BadUsage("--plot reference needs a network or beliefs to compare with", hint="give them with --reference FILE")
    both = [fit_summary.calibrate_network(each, QUICK) for each in (value.network, value.reference)]
    if both[0] is None or both[1] is None:
        raise DataError("the plot needs exact marginals, which would take too long to compute")
    own, theirs = node_marginals(value.network, both[0]), node_marginals(value.reference, both[1])
    return _scatter_marginals(theirs, own, "reference", "marginals of the network beside the reference's")


def _scatter_marginals(reference: Sequence[Array], marginals: Sequence[Array], name: str, title: str) -> plot_list.Figure:
    if [p.size for p in reference] != [p.size for p in marginals]:
        raise DataError("the network and the --reference have different variables or numbers of states")
    across, up = (np.concatenate([np.ravel(p) for p in each]) for each in (reference, marginals))
    largest = float(np.abs(across - up).max())
    return plot_list.scatter_plot(
        {"a probability": (across, up)}, x=name, y="found", title=f"{title}: at most {largest:.2g} apart", diagonal_label="the same"
    )
