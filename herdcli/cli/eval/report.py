"""`herd eval --report FILE.html`: collects the content of the page artifact by artifact; the page is in evaluation.report."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.output.summary_text import summary_tables
from herdcli.cli.frame.rows.network_files import load_model
from herdcli.errors import BadUsage, HerdError
from herdcli.evaluation.plots import plot_list
from herdcli.kinds import kinds_with

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.eval.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.evaluation.evaluation_settings import EvaluationSettings
    from herdcli.evaluation.report.report_page import ReportPart, ReportPicture
    from herdcli.evaluation.table import Row


class ReportBuilder:
    """A reader of the artifacts of `herd eval` that, with --report, collects the parts of a page."""

    def __init__(self, session: Session, request: Request) -> None:
        """Raise an error before any work is done if the page cannot be written."""
        path = request.report
        self._session, self._path, self._keep_going = session, path, request.keep_going
        self._parts: list[ReportPart] = []
        if path == "-":
            raise BadUsage("--report needs the name of a file", hint="use --report report.html")
        if path and not path.lower().endswith((".html", ".htm")):
            raise BadUsage("--report writes HTML", where=path, hint="--report report.html; a browser prints it as PDF")
        if path:
            outputs.check_side_file(session, path, binary=False)

    def load_artifacts(self, paths: Sequence[str]) -> Iterator[Artifact]:
        """Yield each artifact; with --keep-going, kinds without metrics are skipped with a warning."""
        evaluable = kinds_with("metrics")
        for number, path in enumerate(paths):
            artifact = load_model(self._session, path, f"artifact {number + 1}", None if self._keep_going else evaluable)
            if artifact.kind in evaluable:
                yield artifact
            else:
                self._session.console.warn(f"{artifact.name} skipped: artifacts of kind '{artifact.kind}' cannot be evaluated")

    def add(self, artifact: Artifact, rows: Sequence[Row], settings: EvaluationSettings) -> None:
        """Add one artifact, with every plot of its kind that can be drawn here."""
        if self._path:
            from herdcli.cli.frame.history import command_lines
            from herdcli.evaluation.report.report_page import ReportPart

            pictures = _draw_pictures(self._session, artifact, settings)
            lines = command_lines.with_file_names(command_lines.command_lines(artifact), self._session.inputs.values())
            tables = summary_tables(artifact.kind, artifact.value, artifact.recoding) if artifact.kind == "regression" else []
            self._parts.append(
                ReportPart(artifact.name, artifact.kind, artifact.sha256, list(rows), artifact.history, pictures, lines, tables)
            )

    def write(self) -> None:
        """Write the page.  Raises BadUsage if there is no artifact to show."""
        if not self._path:
            return
        from herdcli.evaluation.report.report_page import report_page

        if not self._parts:
            raise BadUsage(
                "--report needs an artifact that can be evaluated",
                where=self._path,
                hint="give at least one, and leave out --confusion, --mcnemar and --tournament",
            )
        outputs.write_side_file(
            self._session, self._path, lambda target: outputs.write_text(target, report_page(self._parts)), binary=False
        )


def _draw_pictures(session: Session, artifact: Artifact, settings: EvaluationSettings) -> dict[str, ReportPicture]:
    """Return plots by their names; a plot without data for this artifact is left out, which -v reports."""
    from herdcli.evaluation.report.report_page import ReportPicture

    found: dict[str, ReportPicture] = {}
    for name in plot_list.plot_names(artifact.kind):
        target = io.BytesIO()
        try:
            plot_list.write_figure(
                plot_list.import_plot_function(artifact.kind, name)(artifact.value, settings, map=session.map), target, ".svg", page=True
            )
        except HerdError as error:
            session.console.detail(f"no picture of {name}: {error}")
            continue
        found[name] = ReportPicture(target.getvalue().decode(), plot_list.plot_caption(artifact.kind, name))
    return found
