"""The one door out: whatever a command makes leaves through `_deliver`, whole or not at all, and with -n over nothing that exists.

    artifact(…)   the result, sealed, to -o           text(…)   the result as text, to -o
    beside(…)     a picture or page beside the result

What goes to -o is the end of a run: the closing line is printed and the checkpoint goes away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from herdcli import artifacts
from herdcli.artifacts import Artifact, grown, sniff, streams
from herdcli.artifacts.wording import readable
from herdcli.errors import BadUsage
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.artifacts.dataset import Dataset
    from herdcli.artifacts.recoding import Recoding
    from herdcli.cli.frame.session import Session


@dataclass(frozen=True)
class Restored:
    """The history of an artifact as it stands: what is written is what that run would have written, no stage of its own."""

    artifact: Artifact


# commands whose results are judged when they are done
TRAINING = ("fit-rbm", "herd", "nherd-train", "kernel-herd", "ups-infer", "fit-mrf", "ica", "em", "regress", "merge")
History = Artifact | Restored | None


def check(session: Session, kind: str, format: str | None = None) -> None:
    """Refuse an artifact at -o that cannot be written, before any work is done."""
    if session.shard is not None and session.command != "convert":  # whose shards are data sets themselves
        kind = f"{kind}-shard"
    if session.command != "convert" and format is None and (form := sniff.to_write(session.output)) in sniff.OF_MODELS:
        hint = f"write -o FILE.h5, then: herd convert FILE.h5 -o FILE.{form}"
        raise BadUsage(f"only herd convert writes {form}", where=session.output, hint=hint)
    if not session.dry_run:
        artifacts.check_output(session.output, kind, format=format, clobber=session.clobber)


def check_text(session: Session) -> None:
    """Refuse a text at -o that cannot be written, before any work is done."""
    if not session.dry_run:
        streams.check_destination(session.output, clobber=session.clobber, binary=False)


def check_beside(session: Session, path: str, *, binary: bool = True) -> None:
    """Refuse a picture or page that cannot be written, before any work is done."""
    streams.check_destination(path, clobber=session.clobber, binary=binary)


def artifact(
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
    records = list(history.artifact.history) if isinstance(history, Restored) else [*(history.history if history else ()), session.record()]
    _tell(session, value, format)
    if recoding is None and session.command not in ("apply", "eval", "sample"):  # whose columns are others
        recoding = session.recoding
    written = artifacts.save(
        session.output, value, records, format=format, clobber=session.clobber, recoding=recoding, missing=missing, leading=leading
    )
    _finished(session, summary, f"{written.kind} {readable(written.size)}")
    session.at_end(partial(_judge, session, written.kind, value))


def _tell(session: Session, value: object, format: str | None) -> None:
    """What becomes of rows that are written as sound, and of labels in svmlight."""
    form = format or sniff.to_write(session.output)
    if form in ("wav", "svmlight"):
        from herdcli.artifacts import sound, svmlight

        for line in sound.told(value) if form == "wav" else svmlight.told(value):
            session.console.note(line)


def _judge(session: Session, kind: str, value: object) -> None:
    """Warn at the end of training where `eval` would find something wrong."""
    if session.command not in TRAINING:
        return
    from herdcli.errors import HerdError

    if session.command not in TRAINING or session.console.verbosity < 0:
        return
    from herdcli.evaluation import verdicts

    try:
        remark = verdicts.remark(kind, value, session.console.warned, map=session.map)
    except HerdError:  # what cannot be judged without options, as classes without validation rows
        return
    if remark is not None:
        session.console.warn(remark)


def text(session: Session, content: str, summary: str | None = None, what: str = "") -> None:
    """Write a result that is text to -o.  what: its format, for the closing line; no summary: the text says it all, without such a line."""
    _deliver(session, session.output, lambda target: write_text(target, content), binary=False)
    if summary is None:
        session.forget_checkpoint()
    else:
        _finished(session, summary, f"{what} {readable(len(content.encode()))}")


def stretches(session: Session, parts: Iterable[Dataset], rows: int, summary: str, *, history: Artifact) -> None:
    """Write a data set of so many rows, which come in parts, to -o: what `artifact` makes of them together."""
    written = grown.save(session.output, parts, rows, [*history.history, session.record()], clobber=session.clobber)
    _finished(session, summary, f"{written.kind} {readable(written.size)}")


def beside(session: Session, path: str, write: Callable[[Path], None], *, binary: bool = True) -> None:
    """Write a file beside the result."""
    _deliver(session, path, write, binary=binary)


def _deliver(session: Session, path: str, write: Callable[[Path], None], *, binary: bool) -> None:
    with artifacts.publish(path, clobber=session.clobber, binary=binary) as target:
        write(target)


def write_text(target: Path, content: str) -> None:
    """Text in UTF-8, to a file that is being delivered."""
    target.write_text(content, encoding="utf-8")


def _finished(session: Session, summary: str, what: str) -> None:
    session.console.note(f"{session.with_columns(summary)}, {session.console.elapsed():.1f} s → {what}")
    session.forget_checkpoint()
