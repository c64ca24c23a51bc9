"""`herd eval --plot NAME FILE`: what is refused before work, and the file; the pictures are in evaluation.plots."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from herdcli.cli.frame import outputs
from herdcli.errors import BadUsage
from herdcli.evaluation import plots as pictures

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.eval.request import Request
    from herdcli.cli.frame.session import Session
    from herdcli.evaluation.settings import EvaluationSettings


def check(session: Session, request: Request) -> None:
    """Refuse pictures that cannot be drawn or written, before any work is done."""
    if request.plots and len(request.sources) > 1:
        raise BadUsage(f"--plot draws one artifact, but {len(request.sources)} are given", hint="run herd eval for each")
    for name, path in request.plots:
        if Path(path).suffix.lower() not in pictures.SUFFIXES:
            raise BadUsage(f"the picture of {name} needs one of the suffixes {' '.join(pictures.SUFFIXES)}", where=path)
        outputs.check_beside(session, path)
    if request.plots:
        pictures.require_matplotlib()
        if request.table:
            session.console.warn(f"--plot has no effect with --{request.table}")


def draw(session: Session, artifact: Artifact, request: Request, settings: EvaluationSettings) -> None:
    """Draw and write each picture of an artifact."""
    for name, path in request.plots:
        figure = pictures.plot_of(artifact.kind, name)(artifact.value, settings, map=session.map)
        outputs.beside(session, path, partial(pictures.write, figure, suffix=Path(path).suffix.lower()))
