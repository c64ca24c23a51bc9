"""herd info: the contents of an artifact and its history."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from herdcli.cli.frame.history.request import input_file_field, unrecorded_field
from herdcli.cli.frame.options import shared_options
from herdcli.cli.frame.options.common_options import command_with_request
from herdcli.cli.frame.options.declaration import OUTPUT, choice_kind, integer_kind, option
from herdcli.cli.frame.options.help_pages import Command
from herdcli.cli.frame.output import summary_text
from herdcli.cli.frame.run.console import printable_name, write_stdout
from herdcli.cli.small.info_text import Contents, description_text, summarize_fields
from herdcli.errors import DataError, HerdError
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.run.session import Session
    from herdcli.evaluation.metrics.feature_importance import FeatureWeight
    from herdcli.evaluation.table import Row


MOST_JUDGED = 1 << 22  # maximum bytes of an artifact for which a verdict is computed


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments and options of `herd info`."""

    sources: tuple[str, ...] = input_file_field()
    top: int | None = option(
        integer_kind(1),
        metavar="N",
        record=unrecorded_field(),
        help="Also show the N most important features of each class, ± two standard deviations.",
    )
    format: str = option(
        choice_kind("text", "json"), default="text", group=OUTPUT, record=unrecorded_field(), help="Output format; json is for programs."
    )
    missing_rows: str = shared_options.missing_rows_option()


@dataclass(frozen=True, kw_only=True)
class _RequestIgnoringRoles(Request):
    """The same request for tables in which a column's name does not determine its role."""

    roles_recognised_by_name = frozenset[str]()


@click.command("info", cls=Command)
@click.argument("sources", metavar="[FILE]...", nargs=-1)
@command_with_request(Request)
def command(session: Session, request: Request) -> None:
    """Show the contents of artifacts and data files: kind, arrays, settings and history.

    \b
      herd data digits | herd fit-rbm --epochs 5 | herd info
      herd data digits | herd nherd-train | herd info --top 5
    """
    described = [_file_description(session, path, request.top) for path in request.sources or ("-",)]
    if request.format == "json":
        write_stdout(json.dumps(described, indent=2, ensure_ascii=False, default=asdict) + "\n")
    else:
        write_stdout("\n".join(description_text(item, session.console.verbosity > 0) for item in described))


def _load_any_file(session: Session, path: str) -> Artifact:
    """Return the artifact of any file that herd reads, including rows with missing values.

    If columns with the names of labels, weights or splits do not hold them, they become features.
    """
    from herdcli.cli.frame.rows.network_files import load_model

    try:
        return load_model(session, path, path, None, raw=True)
    except DataError:
        if path == "-" or session.request is None:
            raise
        asked = session.request
        session.request = _RequestIgnoringRoles(sources=(path,), top=None, format="text")
        try:
            return load_model(session, path, path, None, raw=True)
        except DataError:
            pass
        finally:
            session.request = asked
        raise


def _rows_for_json(rows: list[Row]) -> list[Row]:
    """Return rows for JSON, with None for nan and infinite numbers."""
    return [{name: None if isinstance(item, float) and not math.isfinite(item) else item for name, item in row.items()} for row in rows]


def _training_verdict(artifact: Artifact) -> str | None:
    """Return the verdict that training gives on a small artifact; None if there is no verdict for its kind."""
    from herdcli.evaluation import verdicts

    if artifact.size > MOST_JUDGED or artifact.kind == "dataset":
        return None
    try:
        return verdicts.quick_verdict(artifact.kind, artifact.value)[0]
    except HerdError:  # such results need options to be evaluated, for example classes without validation rows
        return None


def _file_description(session: Session, path: str, top: int | None) -> Contents:
    session.forget_features()
    artifact = _load_any_file(session, path)
    tables = summary_text.summary_tables(artifact.kind, artifact.value, artifact.recoding)
    if artifact.report is not None:
        from herdcli.cli.small.column_tables import add_column_profiles

        tables = add_column_profiles(tables, artifact.report)
    found = {
        "file": printable_name(artifact.name),
        "kind": artifact.kind,
        "bytes": artifact.size,
        "sealed": artifact.sealed,
        "sha256": artifact.sha256,
        "verdict": _training_verdict(artifact),
        "tables": [{"title": each.title, "rows": _rows_for_json(each.rows), "note": each.note} for each in tables],
        "content": summarize_fields(artifact.value),
        "history": artifact.history,
    }
    return found if top is None else {**found, "strongest": _most_important_weights(artifact, top)}


def _most_important_weights(artifact: Artifact, count: int) -> list[FeatureWeight]:
    from herdcli.evaluation.metrics.feature_importance import most_important_weights

    try:
        return most_important_weights(artifact.kind, artifact.value, count)
    except HerdError as error:
        error.where = error.where or printable_name(artifact.name)
        raise
