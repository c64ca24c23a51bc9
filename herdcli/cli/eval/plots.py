"""`herd eval --plot NAME FILE`: the checks before any work, and the writing of files; the plots are in evaluation.plots."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from herdcli.cli.frame.output import outputs
from herdcli.errors import BadUsage, HerdError
from herdcli.evaluation.plots import plot_list as pictures
from herdcli.evaluation.plots.appearance import Appearance, find_colour_mapped_artists

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.eval.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.evaluation.evaluation_settings import EvaluationSettings


def check_plots(session: Session, request: Request) -> None:
    """Raise an error before any work is done if a plot cannot be drawn or written."""
    for name, path in request.plots:
        if Path(path).suffix.lower() not in pictures.SUFFIXES:
            raise BadUsage(f"the picture of {name} needs one of the suffixes {' '.join(pictures.SUFFIXES)}", where=path)
        outputs.check_side_file(session, _plot_path(Path(path), "PLOT") if name == pictures.ALL else path)
    if request.plots:
        pictures.require_matplotlib()
        _plot_appearance(request).check()


def _plot_appearance(request: Request) -> Appearance:
    """Return the appearance that the options ask for."""
    sides = [float(side) for side in (request.size or "").split("x") if side]
    size = None if not sides else (sides[0], sides[1] if len(sides) > 1 else None)
    return Appearance(cmap=request.cmap, size=size, dpi=request.dpi, title=request.title)


def draw_plots(session: Session, artifact: Artifact, request: Request, settings: EvaluationSettings) -> None:
    """Draw and write each plot of an artifact; `all` draws every plot that the artifact has data for, in files with the plots' names."""
    appearance = _plot_appearance(request)
    for name, path in request.plots:
        plot = partial(_draw_plot, session, artifact, settings, appearance)
        if name == pictures.ALL:
            _draw_all_plots(session, artifact, Path(path), plot)
        else:
            figure = plot(name)
            _write_figure(session, figure, path)
            if appearance.cmap is not None and not find_colour_mapped_artists(figure):
                session.console.warn(f"--cmap has no effect on the plot {name}")


def _draw_plot(session: Session, artifact: Artifact, settings: EvaluationSettings, appearance: Appearance, name: str) -> pictures.Figure:
    return pictures.import_plot_function(artifact.kind, name)(artifact.value, settings, map=session.map, appearance=appearance)


def _draw_all_plots(session: Session, artifact: Artifact, path: Path, plot: Callable[[str], pictures.Figure]) -> None:
    """Draw every possible plot: name.svg becomes name-PLOT.svg.

    Plots without data are left out, which -v reports.  Raises BadUsage if there is none.
    """
    drawn = 0
    for name in pictures.plot_names(artifact.kind):
        target = _plot_path(path, name)
        outputs.check_side_file(session, target)
        try:
            figure = plot(name)
        except HerdError as error:
            session.console.detail(f"no picture of {name}: {error}" + (f" ({error.hint})" if error.hint else ""))
            continue
        _write_figure(session, figure, target)
        drawn += 1
    if not drawn:
        raise BadUsage(
            f"there is no plot for this {artifact.kind}", where=artifact.name, hint="see the plots of each kind in: herd eval --help"
        )


def _plot_path(path: Path, name: str) -> str:
    """Return the file of one of all plots."""
    return str(path.with_name(f"{path.stem}-{name}{path.suffix}"))


def _write_figure(session: Session, figure: pictures.Figure, path: str) -> None:
    outputs.write_side_file(session, path, partial(pictures.write_figure, figure, suffix=Path(path).suffix.lower()))
