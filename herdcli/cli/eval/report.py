"""`herd eval --report FILE.html`: what the page is made of, collected artifact by artifact; the page is in evaluation.report."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from herdcli.cli.frame.session import Session
from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.evaluation.report import Part
    from herdcli.evaluation.table import Row


def report_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--report and --keep-going."""
    for option in (
        click.option("--keep-going", is_flag=True, help="Name and pass over artifacts of kinds that cannot be evaluated."),
        click.option(
            "--report",
            type=click.Path(dir_okay=False),
            default=None,
            metavar="FILE.html",
            help="Write one self-contained page too: figures, pictures, and how each artifact was made.",
        ),
    ):
        command = option(command)
    return command


class Reporter:
    """Opens the artifacts of `herd eval` one by one, and with --report collects the parts of a page."""

    def __init__(self, session: Session, path: str | None, *, keep_going: bool) -> None:
        """Refuses a page that cannot be written, before any work is done."""
        from herdcli.artifacts.streams import check_destination

        self._session, self._path, self._keep_going = session, path, keep_going
        self._parts: list[Part] = []
        if path == "-":
            raise BadUsage("--report needs the name of a file", hint="--report report.html")
        if path and not path.lower().endswith((".html", ".htm")):
            raise BadUsage("--report writes HTML", where=path, hint="--report report.html; a browser prints it as PDF")
        if path:
            check_destination(path, clobber=session.clobber, binary=False)

    def loaded(self, paths: Sequence[str]) -> Iterator[Artifact]:
        """Each artifact; with --keep-going without those of kinds that have no figures, which are named."""
        from herdcli.evaluation import table

        evaluable = {*table.evaluable(), "dataset"}
        for number, path in enumerate(paths):
            artifact = self._session.load(path, f"artifact {number + 1}", kinds=None if self._keep_going else evaluable)
            if artifact.kind in evaluable:
                yield artifact
            else:
                self._session.console.warn(f"{artifact.name} passed over: there is nothing to evaluate in kind '{artifact.kind}'")

    def add(self, artifact: Artifact, rows: Sequence[Row], settings: Any) -> None:
        """One artifact, with every picture of its kind that can be drawn here."""
        if self._path:
            from herdcli.evaluation.report import Part

            pictures = _pictures(self._session, artifact, settings)
            self._parts.append(Part(artifact.name, artifact.kind, artifact.sha256, list(rows), artifact.history, pictures))

    def write(self) -> None:
        """The page.  Raises BadUsage when there is nothing to report."""
        if not self._path:
            return
        from herdcli.artifacts import publish
        from herdcli.evaluation.report import page

        if not self._parts:
            raise BadUsage("there is nothing to report", where=self._path, hint="name artifacts; --confusion and the like have no page")
        with publish(self._path, clobber=self._session.clobber, binary=False) as target:
            target.write_text(page(self._parts), encoding="utf-8")


def _pictures(session: Session, artifact: Artifact, settings: Any) -> dict[str, bytes]:
    """PNG by the plot's name; a plot that this artifact has no data for is told under -v and left out."""
    from herdcli.errors import HerdError
    from herdcli.evaluation import plots

    found: dict[str, bytes] = {}
    for name in plots.names(artifact.kind):
        target = io.BytesIO()
        try:
            plots.write(plots.plot_of(artifact.kind, name)(artifact.value, settings, map=session.map), target, ".png")
        except HerdError as error:
            session.console.detail(f"no picture of {name}: {error}")
            continue
        found[name] = target.getvalue()
    return found
