"""The output of a command: everything passes through `_write_atomically`, which writes a file completely or not at all; -n never replaces
one.

    write_artifact(…)    the result, sealed, to -o           write_text_result(…)   the result as text, to -o
    write_side_file(…)   a picture or page next to the result

Writing to -o ends a run: the closing line is printed and the checkpoint is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from herdcli import artifacts
from herdcli.artifacts import Artifact, atomic_output
from herdcli.artifacts.formats import format_detection
from herdcli.artifacts.message_numbers import format_size
from herdcli.artifacts.rows import incremental_dataset
from herdcli.cli.frame.output import text_tables
from herdcli.errors import BadUsage, escape_text
from herdcli.kinds import KINDS, kind_for_value
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.artifacts.dataset import Dataset
    from herdcli.artifacts.recoding import Recoding
    from herdcli.cli.frame.run.session import Session


@dataclass(frozen=True)
class RestoredHistory:
    """An artifact whose history is written unchanged: the output equals that of the run in the history, without another stage."""

    artifact: Artifact


# commands whose results are evaluated at the end
TRAINING = ("fit-rbm", "herd", "nherd-train", "kernel-herd", "ups-infer", "fit-mrf", "ica", "em", "regress", "merge")
HistorySource = Artifact | RestoredHistory | None


SAID = frozenset({"samples", "beliefs"})  # kinds whose closing line already has such a metric, or which have no held-out one
# commands whose results are printed as tables on a terminal
SHOWN = frozenset({"apply", "sample", "kernel-herd", "ups-infer", "regress", "em", "nherd-train"})


def prints_tables(session: Session, format: str | None = None) -> bool:
    """Whether the result goes to a terminal and is printed there as tables, instead of being refused as a binary file."""
    plain = session.output == "-" and format is None and session.shard is None
    return plain and session.command in SHOWN and text_tables.stdout_is_terminal()


def check_artifact_output(session: Session, kind: str, format: str | None = None) -> None:
    """Raise an error before any work is done if an artifact cannot be written to -o."""
    if prints_tables(session, format):
        return
    if session.shard is not None and session.command != "convert":  # the shards of convert are data sets
        kind = f"{kind}-shard"
    if (
        session.command != "convert"
        and format is None
        and (form := format_detection.output_format_from_suffix(session.output)) in format_detection.OF_MODELS
    ):
        hint = f"write -o FILE.h5, then: herd convert FILE.h5 -o FILE.{form}"
        raise BadUsage(f"only herd convert writes {form}", where=session.output, hint=hint)
    if not session.dry_run:
        artifacts.check_output(session.output, kind, format=format, clobber=session.clobber)


def check_text_output(session: Session) -> None:
    """Raise an error before any work is done if a text cannot be written to -o."""
    if not session.dry_run:
        atomic_output.check_destination(session.output, clobber=session.clobber, binary=False)


def check_side_file(session: Session, path: str, *, binary: bool = True) -> None:
    """Raise an error before any work is done if a picture or page cannot be written."""
    atomic_output.check_destination(path, clobber=session.clobber, binary=binary)


def write_artifact(
    session: Session,
    value: object,
    summary: str,
    *,
    history: HistorySource = None,
    format: str | None = None,
    missing: bool = False,
    leading: Sequence[str] = (),
    recoding: Recoding | None = None,
) -> None:
    """Write the one artifact of a run to -o.

    history   the history of the input that this stage follows.
    missing   whether rows may have missing values.
    leading   the further columns that come first in a table.
    recoding  the encoding of the columns that are written, if it is not the session's.
    """
    records = (
        list(history.artifact.history)
        if isinstance(history, RestoredHistory)
        else [*(history.history if history else ()), session.record()]
    )
    _report_format_losses(session, value, format)
    if recoding is None and session.command not in ("apply", "eval", "sample"):  # the output of these has other columns
        recoding = session.recoding
    if prints_tables(session, format):
        from herdcli.cli.frame.output.summary_text import result_text

        kind = kind_for_value(value).name
        judged = _quick_verdict_and_metrics(session, kind, value)
        text = escape_text(result_text(value, recoding), keep="\n\t")
        write_text_result(session, text, summary + _heldout_metric_text(kind, judged), "table")
        if session.command in TRAINING and kind not in SAID:
            session.console.note("the model is not saved: -o FILE.h5 saves it")
        session.on_success(partial(_warn_of_verdict, session, kind, judged))
        return
    written = artifacts.save(
        session.output, value, records, format=format, clobber=session.clobber, recoding=recoding, missing=missing, leading=leading
    )
    judged = _quick_verdict_and_metrics(session, written.kind, value)
    _report_written_output(session, summary + _heldout_metric_text(written.kind, judged), f"{written.kind} {format_size(written.size)}")
    session.on_success(partial(_warn_of_verdict, session, written.kind, judged))


def _report_format_losses(session: Session, value: object, format: str | None) -> None:
    """Print notes on the changes that a format makes: to rows that are written as sound, and to labels in svmlight."""
    form = format or format_detection.output_format_from_suffix(session.output)
    if form in ("wav", "svmlight"):
        from herdcli.artifacts.formats import audio
        from herdcli.artifacts.text import svmlight

        for line in audio.export_warnings(value) if form == "wav" else svmlight.export_warnings(value):
            session.console.note(line)


def _quick_verdict_and_metrics(session: Session, kind: str, value: object) -> tuple[str | None, Mapping[str, object]]:
    """Return the verdict on a trained model and the metrics it needs; nothing for other commands and for kinds without a verdict."""
    if session.command not in TRAINING or session.console.verbosity < 0:
        return None, {}
    from herdcli.errors import HerdError
    from herdcli.evaluation import verdicts

    try:
        return verdicts.quick_verdict(kind, value, map=session.map)
    except HerdError:  # such results need options to be evaluated, for example classes without validation rows
        return None, {}


def _heldout_metric_text(kind: str, verdict_and_metrics: tuple[str | None, Mapping[str, object]]) -> str:
    """Return `, held-out …` for the closing line if a fit has a held-out metric that its summary lacks."""
    if not verdict_and_metrics[1] or kind in SAID:
        return ""
    from herdcli.evaluation.report.figure_relations import heldout_metric_text

    figure = heldout_metric_text(kind, verdict_and_metrics[1], KINDS[kind].baseline)
    return f", {figure}" if figure else ""


def _warn_of_verdict(session: Session, kind: str, verdict_and_metrics: tuple[str | None, Mapping[str, object]]) -> None:
    """Warn at the end of training if `eval` would report a problem."""
    if verdict_and_metrics[0] is None:
        return
    from herdcli.evaluation import verdicts

    remark = verdicts.training_message(kind, verdict_and_metrics, session.console.warned)
    if remark is not None:
        session.console.warn(remark)


def write_text_result(session: Session, content: str, summary: str | None = None, what: str = "") -> None:
    """Write a result that is text to -o.

    what     the format of the text, for the closing line.
    summary  the closing line; None: there is none, since the text says everything.
    """
    _write_atomically(session, session.output, lambda target: write_text(target, content), binary=False)
    if summary is None:
        session.forget_checkpoint()
    else:
        _report_written_output(session, summary, f"{what} {format_size(len(content.encode()))}")


def write_parquet_table(session: Session, table: object, summary: str) -> None:
    """Write a pyarrow.Table that is no data set to -o as Parquet, without a seal."""
    from herdcli.artifacts.formats.parquet_files import write_plain_table

    _write_atomically(session, session.output, lambda target: write_plain_table(table, str(target)), binary=True)
    _report_written_output(session, summary, "parquet")


def write_dataset_in_parts(session: Session, parts: Iterable[Dataset], rows: int, summary: str, *, history: Artifact) -> None:
    """Write a data set of `rows` rows that arrives in parts to -o; the file equals that of `write_artifact` for the whole."""
    written = incremental_dataset.save_in_parts(session.output, parts, rows, [*history.history, session.record()], clobber=session.clobber)
    _report_written_output(session, summary, f"{written.kind} {format_size(written.size)}")


def write_side_file(session: Session, path: str, write: Callable[[Path], None], *, binary: bool = True) -> None:
    """Write a further file next to the result."""
    _write_atomically(session, path, write, binary=binary)


def _write_atomically(session: Session, path: str, write: Callable[[Path], None], *, binary: bool) -> None:
    with artifacts.atomic_file(path, clobber=session.clobber, binary=binary) as target:
        write(target)


def write_text(target: Path, content: str) -> None:
    """Write text in UTF-8 to a file that is being delivered."""
    target.write_text(content, encoding="utf-8")


def _report_written_output(session: Session, summary: str, what: str) -> None:
    session.console.note(f"{session.summary_with_column_use(summary)}, {session.console.elapsed_seconds():.1f} s → {what}")
    session.forget_checkpoint()
