"""`herd eval --plot NAME FILE`: the option, what is refused before work, and the file; the pictures are in evaluation.plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from herdcli.cli.frame.session import Session
from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact

Wanted = Sequence[tuple[str, str]]


def plot_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--plot NAME FILE, as often as wanted."""
    return click.option(
        "--plot",
        "plots",
        type=(str, click.Path(dir_okay=False)),
        multiple=True,
        metavar="NAME FILE",
        help="Draw this of the artifact into FILE (.png, .pdf, .svg).  rbm, dbn: filters, reconstructions, samples, trace.  "
        "ica: filters, spectra, gabors, tiling.",
    )(command)


def check(session: Session, plots: Wanted, sources: Sequence[str], options: dict[str, Any]) -> None:
    """Refuse pictures that cannot be drawn or written, before any work is done."""
    from herdcli.artifacts.streams import check_destination
    from herdcli.evaluation.plots import SUFFIXES, require_matplotlib

    if plots and len(sources) > 1:
        raise BadUsage(f"--plot draws one artifact, {len(sources)} are given", hint="one herd eval for each")
    for name, path in plots:
        if Path(path).suffix.lower() not in SUFFIXES:
            raise BadUsage(f"the picture of {name} has none of the suffixes {' '.join(SUFFIXES)}", where=path)
        check_destination(path, clobber=session.clobber)
    if plots:
        require_matplotlib()
        for table in ("confusion", "mcnemar", "tournament"):
            if options[table]:
                session.console.warn(f"--plot has no effect with --{table}")


def draw(session: Session, artifact: Artifact, plots: Wanted, settings: Any) -> None:
    """Draw and write each picture of an artifact."""
    from herdcli.artifacts import publish
    from herdcli.evaluation import plots as pictures

    for name, path in plots:
        figure = pictures.plot_of(artifact.kind, name)(artifact.value, settings, map=session.map)
        with publish(path, clobber=session.clobber) as target:
            pictures.write(figure, target, Path(path).suffix.lower())
