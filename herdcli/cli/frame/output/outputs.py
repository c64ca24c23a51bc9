"""The one door out: whatever a command makes leaves through `_deliver`, whole or not at all, and with -n over nothing that exists.

    artifact(…)   the result, sealed, to -o           text(…)   the result as text, to -o
    beside(…)     a picture or page beside the result

What goes to -o is the end of a run: the closing line is printed and the checkpoint goes away.
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
from herdcli.kinds import KINDS, kind_of
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.artifacts.dataset import Dataset
    from herdcli.artifacts.recoding import Recoding
    from herdcli.cli.frame.run.session import Session


@dataclass(frozen=True)
class RestoredHistory:
    """The history of an artifact as it stands: what is written is what that run would have written, no stage of its own."""

    artifact: Artifact


# commands whose results are judged when they are done
TRAINING = ("fit-rbm", "herd", "nherd-train", "kernel-herd", "ups-infer", "fit-mrf", "ica", "em", "regress", "merge")
History = Artifact | RestoredHistory | None


SAID = frozenset({"samples", "beliefs"})  # kinds whose closing lines have such a figure, or no held-out one
SHOWN = frozenset({"apply", "sample", "kernel-herd", "ups-infer"})  # whose results a person at a terminal reads as tables


def shows_tables(session: Session, format: str | None = None) -> bool:
    """Whether the result goes to a terminal and is printed as tables there, not refused as a binary file."""
    plain = session.output == "-" and format is None and session.shard is None
    return plain and session.command in SHOWN and text_tables.stdout_is_terminal()


def check_artifact(session: Session, kind: str, format: str | None = None) -> None:
    """Refuse an artifact at -o that cannot be written, before any work is done."""
    if shows_tables(session, format):
        return
    if session.shard is not None and session.command != "convert":  # whose shards are data sets themselves
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


def check_text(session: Session) -> None:
    """Refuse a text at -o that cannot be written, before any work is done."""
    if not session.dry_run:
        atomic_output.check_destination(session.output, clobber=session.clobber, binary=False)


def check_side_file(session: Session, path: str, *, binary: bool = True) -> None:
    """Refuse a picture or page that cannot be written, before any work is done."""
    atomic_output.check_destination(path, clobber=session.clobber, binary=binary)


def write_artifact(
    session: Session,
    value: object,
    summary: str,
    *,
    history: History = None,
    format: str | None = None,
    missing: bool = False,
    leading: Sequence[str] = (),
    recoding: Recoding | None = None,
) -> None:
    """Write the one artifact of a run to -o.  history: of the input that this stage follows; missing: rows may have gaps.

    leading: the further columns that stand first in a table.  recoding: of the columns that are written, where it is not the session's.
    """
    records = (
        list(history.artifact.history)
        if isinstance(history, RestoredHistory)
        else [*(history.history if history else ()), session.record()]
    )
    _report_format_losses(session, value, format)
    if recoding is None and session.command not in ("apply", "eval", "sample"):  # whose columns are others
        recoding = session.recoding
    if shows_tables(session, format):
        from herdcli.cli.frame.output.summary_text import result_text

        write_text_result(session, escape_text(result_text(value, recoding), keep="\n\t"), summary, "table")
        kind = kind_of(value).name
        session.on_success(partial(_warn_of_findings, session, kind, _judge(session, kind, value)))
        return
    written = artifacts.save(
        session.output, value, records, format=format, clobber=session.clobber, recoding=recoding, missing=missing, leading=leading
    )
    judged = _judge(session, written.kind, value)
    _report_finished(session, summary + _held_out_figure(written.kind, judged), f"{written.kind} {format_size(written.size)}")
    session.on_success(partial(_warn_of_findings, session, written.kind, judged))


def _report_format_losses(session: Session, value: object, format: str | None) -> None:
    """What becomes of rows that are written as sound, and of labels in svmlight."""
    form = format or format_detection.output_format_from_suffix(session.output)
    if form in ("wav", "svmlight"):
        from herdcli.artifacts.formats import audio
        from herdcli.artifacts.text import svmlight

        for line in audio.write_warnings(value) if form == "wav" else svmlight.write_warnings(value):
            session.console.note(line)


def _judge(session: Session, kind: str, value: object) -> tuple[str | None, Mapping[str, object]]:
    """The verdict on what training made, and the figures it needs; nothing of other commands, and of what is not judged."""
    if session.command not in TRAINING or session.console.verbosity < 0:
        return None, {}
    from herdcli.errors import HerdError
    from herdcli.evaluation import verdicts

    try:
        return verdicts.quick_verdict(kind, value, map=session.map)
    except HerdError:  # what cannot be judged without options, as classes without validation rows
        return None, {}


def _held_out_figure(kind: str, judged: tuple[str | None, Mapping[str, object]]) -> str:
    """`, held-out …` for the closing line, where a fit has a figure that its summary does not have."""
    if not judged[1] or kind in SAID:
        return ""
    from herdcli.evaluation.report.figure_relations import held_out_figure

    figure = held_out_figure(kind, judged[1], KINDS[kind].baseline)
    return f", {figure}" if figure else ""


def _warn_of_findings(session: Session, kind: str, judged: tuple[str | None, Mapping[str, object]]) -> None:
    """Warn at the end of training where `eval` would find something wrong."""
    if judged[0] is None:
        return
    from herdcli.evaluation import verdicts

    remark = verdicts.training_remark(kind, judged, session.console.warned)
    if remark is not None:
        session.console.warn(remark)


def write_text_result(session: Session, content: str, summary: str | None = None, what: str = "") -> None:
    """Write a result that is text to -o.  what: its format, for the closing line; no summary: the text says it all, without such a line."""
    _deliver(session, session.output, lambda target: write_text(target, content), binary=False)
    if summary is None:
        session.forget_checkpoint()
    else:
        _report_finished(session, summary, f"{what} {format_size(len(content.encode()))}")


def write_in_parts(session: Session, parts: Iterable[Dataset], rows: int, summary: str, *, history: Artifact) -> None:
    """Write a data set of so many rows, which come in parts, to -o: what `write_artifact` makes of them together."""
    written = incremental_dataset.save_in_parts(session.output, parts, rows, [*history.history, session.record()], clobber=session.clobber)
    _report_finished(session, summary, f"{written.kind} {format_size(written.size)}")


def write_side_file(session: Session, path: str, write: Callable[[Path], None], *, binary: bool = True) -> None:
    """Write a file beside the result."""
    _deliver(session, path, write, binary=binary)


def _deliver(session: Session, path: str, write: Callable[[Path], None], *, binary: bool) -> None:
    with artifacts.atomic_file(path, clobber=session.clobber, binary=binary) as target:
        write(target)


def write_text(target: Path, content: str) -> None:
    """Text in UTF-8, to a file that is being delivered."""
    target.write_text(content, encoding="utf-8")


def _report_finished(session: Session, summary: str, what: str) -> None:
    session.console.note(f"{session.with_columns(summary)}, {session.console.elapsed():.1f} s → {what}")
    session.forget_checkpoint()
