"""Pictures of networks and beliefs: the graph or lattice coloured by marginals, residuals, and marginals beside others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.figures.beliefs import BeliefsWithReference
from herdcli.evaluation.figures.network import QUICK, NetworkWithReference
from herdcli.evaluation.plots import plot_list, plot_style
from herdcli.evaluation.plots.graph_layout import detect_lattice, layout_nodes
from herdcli.markov.exact.junction_tree import node_marginals
from herdcli.markov.learning import fit_summary
from herdcli.markov.model.beliefs import Beliefs
from herdcli.markov.model.network import Network
from herdcli.schema import Array

MOST_NODES = 400  # variables whose graph is drawn; of more, marginals alone in order
NAMED = 40  # variables whose names are written
Map = Callable[..., Any]
Marginals = Sequence[Array]


def graph(value: Network | NetworkWithReference, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The variables of a network and its factors as a graph, or a lattice, coloured by exact marginals where these are to be had."""
    network = value.network if isinstance(value, NetworkWithReference) else value
    found = fit_summary.calibrate_network(network, QUICK)
    shape = None if network.shape is None else (int(network.shape[0]), int(network.shape[1]))
    scopes = [scope for scope, _ in network.factors()]
    names = [network.name(i) for i in range(network.count)] if network.names else None
    if found is None:
        degree = np.zeros(network.count)
        for i, j in factor_edges(scopes):
            degree[[i, j]] += 1
        return _draw_levels(
            degree, "neighbours (marginals are too large a task)", scopes, shape, names, (0.0, max(1.0, float(degree.max())))
        )
    return _draw_marginals(node_marginals(network, found), scopes, shape, names, "exact marginals")


def marginals(value: Beliefs | BeliefsWithReference, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """Variables and cliques of beliefs as a graph, or a lattice, coloured by the marginals."""
    found = value.beliefs if isinstance(value, BeliefsWithReference) else value
    scopes = [tuple(part.tolist()) for part in np.split(found.clique_scope, found.clique_scope_offset[1:-1])]
    return _draw_marginals(found.marginals(), scopes, None, found.names, f"marginals by {found.algorithm}")


def factor_edges(scopes: Sequence[tuple[int, ...]]) -> list[tuple[int, int]]:
    """The pairs of variables that share a factor, each once."""
    return sorted({(min(i, j), max(i, j)) for scope in scopes for a, i in enumerate(scope) for j in scope[a + 1 :]})


def _draw_marginals(
    marginals: Marginals, scopes: list[tuple[int, ...]], shape: Any, names: list[str] | None, what: str
) -> plot_list.Figure:
    # The level of a variable is the mean of its states' numbers divided by the last number: with two states, the second's probability.
    level = np.array([p @ np.arange(len(p)) / max(1, len(p) - 1) for p in marginals])
    two = all(len(p) <= 2 for p in marginals)
    return _draw_levels(
        level,
        what,
        scopes,
        shape,
        names,
        (0.0, 1.0 if level.max() > 0.5 else float(level.max()) or 1.0),
        "P(second state)" if two else "mean state, 0 first, 1 last",
    )


def _draw_levels(
    level: Array, what: str, scopes: list[tuple[int, ...]], shape: tuple[int, int] | None, names: list[str] | None,
    limits: tuple[float, float], scale: str = "neighbours",
) -> plot_list.Figure:  # fmt: skip
    """One number a variable: on a lattice as a picture, in a graph as colours, of very many as a picture of lines in order."""
    edges = factor_edges(scopes)
    found = detect_lattice(len(level), edges)
    if found is not None:
        shape = found
    if shape is not None and (found is not None or len(level) > MOST_NODES):
        return _draw_lattice(level.reshape(shape), f"{what} on a lattice of {shape[0]} × {shape[1]}", limits, scale, "column", "row")
    if len(level) > MOST_NODES:
        width = int(np.ceil(np.sqrt(len(level) * 1.6)))
        padded = np.full(-(-len(level) // width) * width, np.nan)
        padded[: len(level)] = level
        title = f"{what} of {len(level)} variables in order, {width} a line"
        return _draw_lattice(padded.reshape(-1, width), title, limits, scale, "variable", "line")
    place = (
        layout_nodes(len(level), edges)
        if shape is None
        else np.stack([np.arange(len(level)) % shape[1], -(np.arange(len(level)) // shape[1])], axis=1)
    )
    figure = plot_list.new_figure(4.8)
    axes = figure.add_subplot()
    from matplotlib.collections import LineCollection

    if edges:
        lines = list(place[np.array(edges)])
        axes.add_collection(LineCollection(lines, colors=plot_style.GREY, linewidths=0.6, alpha=0.7, zorder=1))
    size = float(np.clip(3000 / len(level), 12, 260))
    dots = axes.scatter(
        place[:, 0], place[:, 1], c=level, cmap=plot_style.SHADES, vmin=limits[0], vmax=limits[1], s=size, edgecolors=plot_style.INK,
        linewidths=0.5, zorder=2,
    )  # fmt: skip
    if len(level) <= NAMED:
        for i, (x, y) in enumerate(place):
            axes.annotate(names[i] if names else str(i), (x, y), (0, 0.55 * np.sqrt(size)), textcoords="offset points", ha="center", size=6)
    axes.set_axis_off()
    axes.margins(0.08)
    if shape is not None:
        axes.set_aspect("equal")
    axes.set_title(f"{what}: {len(level)} variables, {len(edges)} pairs share a factor")
    figure.colorbar(dots, ax=axes, label=scale, shrink=0.7)
    return figure


def _draw_lattice(level: Array, title: str, limits: tuple[float, float], scale: str, x: str, y: str) -> plot_list.Figure:
    figure = plot_list.new_figure(float(np.clip(0.9 + 4.8 * level.shape[0] / level.shape[1], 2.2, 6.0)))
    axes = figure.add_subplot()
    image = axes.imshow(level, cmap=plot_style.SHADES, vmin=limits[0], vmax=limits[1])
    axes.set(xlabel=x, ylabel=y)
    axes.locator_params(integer=True)
    axes.set_title(title)
    figure.colorbar(image, ax=axes, label=scale, shrink=0.8)
    return figure


def trace(value: Beliefs | BeliefsWithReference, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The residual of each iteration, and the free energy where it was computed."""
    found = value.beliefs if isinstance(value, BeliefsWithReference) else value
    residual, energy = found.trace.residual, found.trace.free_energy
    if not len(residual):
        raise DataError(f"there is no trace: '{found.algorithm}' does not iterate")
    with_energy = np.isfinite(energy).any()
    ended = "settled" if found.converged else "did not settle"
    return _residual_plot(residual, energy if with_energy else None, f"{found.algorithm} {ended} in {found.iterations} iterations")


def learning(value: Network | NetworkWithReference, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The residual of each iteration of a learned network."""
    fit = _require_learning_record(value)
    if not len(fit.residual_trace):
        raise DataError("there is no trace: the fit has a closed form")
    ended = "settled" if fit.converged else "did not settle"
    return _residual_plot(fit.residual_trace, None, f"{fit.algorithm} {ended} in {fit.iterations} iterations")


def _residual_plot(residual: Array, energy: Array | None, title: str) -> plot_list.Figure:
    figure = plot_list.new_figure(3.2 if energy is None else 4.6)
    panels = np.ravel(figure.subplots(1 if energy is None else 2, 1, sharex=True))
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
            hint="compare it with another network: --plot reference PNG --reference FILE",
        )
    return network.fit


def given(value: Network | NetworkWithReference, settings: EvaluationSettings, *, map: Map = map) -> plot_list.Figure:
    """The marginals of a learned network against those that it was given."""
    network, fit = value.network if isinstance(value, NetworkWithReference) else value, _require_learning_record(value)
    targets = fit.targets(network.cardinality)
    found = fit_summary.calibrate_network(network, QUICK, [scope for scope, _ in targets])
    if found is None or not targets:
        raise DataError("its marginals would take too long to compute for a plot" if targets else "it was fitted without target marginals")
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
        raise BadUsage("--plot reference needs something to compare with", hint="--reference FILE")
    both = [fit_summary.calibrate_network(each, QUICK) for each in (value.network, value.reference)]
    if both[0] is None or both[1] is None:
        raise DataError("its marginals would take too long to compute for a plot")
    own, theirs = node_marginals(value.network, both[0]), node_marginals(value.reference, both[1])
    return _scatter_marginals(theirs, own, "reference", "marginals of the network beside the reference's")


def _scatter_marginals(reference: Sequence[Array], marginals: Sequence[Array], name: str, title: str) -> plot_list.Figure:
    if [p.size for p in reference] != [p.size for p in marginals]:
        raise DataError("the reference has different variables, or different numbers of states")
    across, up = (np.concatenate([np.ravel(p) for p in each]) for each in (reference, marginals))
    largest = float(np.abs(across - up).max())
    return plot_list.scatter_plot(
        {"a probability": (across, up)}, x=name, y="found", title=f"{title}: at most {largest:.2g} apart", diagonal_label="the same"
    )
