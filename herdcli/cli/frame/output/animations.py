"""`--plot NAME FILE.gif` of commands that fit: the checks before any work, and the writing of moving pictures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from herdcli.cli.frame.output import outputs
from herdcli.errors import BadUsage
from herdcli.evaluation.plots.plot_list import require_matplotlib

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session
    from herdcli.evaluation.plots.animations import Panel

SUFFIX = ".gif"


def check_animations(session: Session, plots: Sequence[tuple[str, str]], known: str) -> None:
    """Raise an error before any work is done if a moving picture cannot be made or written.  known  the name of the one there is."""
    for name, path in plots:
        if name != known:
            raise BadUsage(
                f"there is no plot '{name}' of herd {session.command}", hint=f"use --plot {known} FILE{SUFFIX}; herd eval has the others"
            )
        if not path.lower().endswith(SUFFIX):
            raise BadUsage(f"the moving picture needs the suffix {SUFFIX}", where=path, hint=f"use --plot {known} {known}{SUFFIX}")
        outputs.check_side_file(session, path)
    if plots:
        if session.shard is not None:
            raise BadUsage(f"--plot {known} draws one run, so it does not work with --shard", hint="leave out --plot, or --shard")
        require_matplotlib()


def refuse_cluster(session: Session, plots: Sequence[tuple[str, str]]) -> None:
    """Raise BadUsage for a moving picture of runs that only the workers of a cluster see."""
    if plots and session.cluster is not None:
        raise BadUsage(f"--plot {plots[0][0]} draws one run, so it does not work with --cluster", hint="leave out --plot, or --cluster")


def write_animations(session: Session, plots: Sequence[tuple[str, str]], panels: Sequence[Panel], captions: Sequence[str]) -> None:
    """Write the same moving picture into each of the files."""
    from herdcli.evaluation.plots.animations import write_animation

    for _, path in plots:
        outputs.write_side_file(session, path, partial(write_animation, panels, captions))
