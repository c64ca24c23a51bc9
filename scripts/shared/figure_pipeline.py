"""What the scripts of figures share: running `herd`, tables as CSV, and pictures.

A script is given one folder, for what it keeps of an interrupted run and for what it makes; results.mk moves the tables and
pictures from there to their place when it has ended.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from shared import forked_commands

with contextlib.suppress(ImportError):  # where nothing is computed, as in papers/check_results.py, it need not be installed
    import threadpoolctl

    threadpoolctl.threadpool_limits(1)  # BLAS in this process, as `herd` does in its own

HERD = [sys.executable, "-m", "herdcli"]
Row = dict[str, Any]


def herd(*arguments: object, folder: Path | None = None, stdin: str | None = None) -> str:
    """The stdout of one command; ends the program where it fails.  Its messages go to stderr as they come."""
    words = [str(argument) for argument in arguments]
    code, text, _ = forked_commands.run(words, folder, stdin)
    if code:
        sys.exit(f"failed with exit code {code}: herd {shlex.join(words)}")
    return text


def timed(*arguments: object) -> float:
    """Processor seconds of one command in a process that starts from nothing; ends the program where it fails."""
    before, words = os.multiply(), [str(argument) for argument in arguments]
    if code := subprocess.run([*HERD, *words], check=False).returncode:
        sys.exit(f"failed with exit code {code}: herd {shlex.join(words)}")
    after = os.multiply()
    return after.children_user + after.children_system - before.children_user - before.children_system


def told(*arguments: object, answers: Sequence[int] = (0,)) -> tuple[int, str]:
    """The exit code of one command and what it says on stderr; ends the program where the code is none of `answers`."""
    words = [str(argument) for argument in arguments]
    code, _, messages = forked_commands.run(words, errors=True)
    if code not in answers:
        sys.exit(f"{messages}failed with exit code {code}: herd {shlex.join(words)}")
    return code, messages


def side_by_side(work: Callable[[Row], list[Row]], units: Iterable[Row]) -> Iterator[list[Row]]:
    """What `work`, which runs commands, makes of each unit, in their order; two at a time."""
    with ThreadPoolExecutor(2) as pool:
        yield from pool.map(work, units)


def judged(maker: str, data: Path, judge: str, target: Path) -> Row:
    """The one row of `herd MAKER DATA | herd eval JUDGE`, kept in `target` with the line itself, and taken from there if it is the same."""
    pipe = f"herd {maker} {data.name} | herd eval {judge}"
    if target.exists() and (kept := json.loads(target.read_text(encoding="utf-8")))["pipe"] == pipe:
        return dict(kept["row"])
    making = subprocess.Popen([*HERD, *shlex.split(maker), str(data)], stdout=subprocess.PIPE)
    judging = subprocess.Popen([*HERD, "eval", *shlex.split(judge), "--format", "json"], stdin=making.stdout, stdout=subprocess.PIPE)
    assert making.stdout is not None
    making.stdout.close()  # the reader's alone: if it ends, so does the maker
    text = judging.communicate()[0]
    if making.wait() or judging.returncode:
        sys.exit(f"failed: {pipe}")
    (row,) = json.loads(text)
    replace(target, json.dumps({"pipe": pipe, "row": row}, indent=1) + "\n")
    return dict(row)


def replace(target: Path, text: str) -> None:
    """Write a file whole or not at all; its folder is made if need be."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(target)


def read_csv(source: Path | str) -> list[Row]:
    """The rows of a CSV file that is there, or of CSV text; all values are text."""
    if isinstance(source, Path):
        source = source.read_text(encoding="utf-8") if source.exists() else ""
    return list(csv.DictReader(io.StringIO(source)))


def write_csv(target: Path, rows: Sequence[Row]) -> None:
    """Rows of the same columns, floats with six digits, None as an empty field."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: f"{value:.6g}" if isinstance(value, float) else value for name, value in row.items()} for row in rows)
    replace(target, text.getvalue())


def pyplot() -> Any:
    """matplotlib's interface, drawing to files alone."""
    try:
        import matplotlib as mpl
    except ImportError:
        sys.exit("pictures need matplotlib: pip install 'herdcli[plot]'")
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt
