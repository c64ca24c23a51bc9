"""The run of `herd eval`: each artifact is read, prepared by the options, evaluated, plotted and reported."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdcli.cli.eval import plots, shared_test_rows, table
from herdcli.cli.eval.report import ReportBuilder
from herdcli.cli.frame.history.request import settings_from_request
from herdcli.cli.frame.run import exact_mode
from herdcli.cli.frame.run.console import printable_name
from herdcli.errors import NegativeResult
from herdcli.evaluation import table as tables
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.metrics.bit_units import convert_unit
from herdcli.kinds import KINDS
from herdcli.parts import import_by_path

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.eval.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.evaluation.table import Row


def evaluate(session: Session, request: Request) -> None:
    """Print or save the table.  Raises NegativeResult if a row does not meet a requirement."""
    bars = [tables.parse_requirement(text) for text in request.requirements]
    form = table.table_format(session, request.format)
    table.check_output(session, form)
    plots.check_plots(session, request)
    reporter = ReportBuilder(session, request)
    rows, history = (
        _comparison_rows(session, request.tournament, request.confusion, request.data, request.paths, reporter)
        if request.comparison_table
        else _evaluate_artifacts(session, request, reporter)
    )
    table.write_table(session, rows, form, history)
    if any("log_likelihood" in row or "pseudo_likelihood" in row for row in rows):  # code for harmoniums is imported only for them
        from herdcli.cli.eval.harmoniums import warn_of_rank_disagreement, warn_of_unreliable_likelihoods

        warn_of_unreliable_likelihoods(session, rows)
        warn_of_rank_disagreement(session, rows)
    missed = [message for bar in bars for message in bar.failure_messages(rows)]
    if missed:
        raise NegativeResult("; ".join(missed))


def _comparison_rows(
    session: Session, tournament: bool, confusion: bool, data: str | None, paths: tuple[str, ...], reporter: ReportBuilder
) -> tuple[list[Row], None]:
    """Return the rows of a table of classifiers, which has no page."""
    from herdcli.cli.eval.classifiers import comparison_rows

    rows = comparison_rows(session, tournament, confusion, data, paths)
    reporter.write()
    return rows, None


def _evaluate_artifacts(session: Session, request: Request, reporter: ReportBuilder) -> tuple[list[Row], Artifact | None]:
    """Return the rows of every artifact; for a table of one row also the artifact, whose history the table continues."""
    asked = settings_from_request(EvaluationSettings, request)
    rows: list[Row] = []
    told: set[str] = set()
    last, compared = None, []
    for loaded in reporter.load_artifacts(request.paths):
        _refuse_unsupported_exact(session, loaded)
        if loaded.kind not in told:
            _warn_of_ignored_options(session, loaded.kind)
            told.add(loaded.kind)
        compared.append(replace(loaded, value=None))
        judge = KINDS[loaded.kind].judge
        last = import_by_path(judge)(session, loaded, request) if judge else loaded
        plots.draw_plots(session, last, request, asked)
        if announce := KINDS[last.kind].announce:
            import_by_path(announce)(session, last.value, request)
        with session.console.progress(f"evaluating {last.name}") as progress:
            found = tables.compute_metric_rows(last.kind, last.value, asked, map=session.map, progress=progress.show)
        found = [convert_unit(row, request.unit) for row in found]
        rows += [{"file": printable_name(last.name), "kind": last.kind, **row} for row in found]
        reporter.add(last, found, asked)
    reporter.write()
    if request.data is None:
        shared_test_rows.warn_of_different_test_rows(session, compared)
    return rows, last if len(rows) == 1 else None


def _refuse_unsupported_exact(session: Session, loaded: Artifact) -> None:
    """Raise BadUsage for an artifact that --exact does not support."""
    exact_mode.refuse_kind_when_exact(session, loaded.kind, loaded.name)
    if session.exact:
        exact_mode.refuse_units_when_exact(session, loaded.value.visible_units, loaded.value.hidden_units)


def _warn_of_ignored_options(session: Session, kind: str) -> None:
    """Warn of options for evaluating artifacts of other kinds."""
    for option in dict.fromkeys(name for each in KINDS.values() for name in each.judged_by):
        if option not in KINDS[kind].judged_by:
            session.warn_of_ignored_option(option, f"on kind '{kind}'")
