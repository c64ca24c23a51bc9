"""--trace FILE.jsonl: the progress metrics as one JSON object per step, for plots and dashboards.

    {"run": "learning", "step": 12, "of": 500, "reconstruction": 0.083}

The metrics are those next to the progress bar, under their names.  Lines hold no times, so that the same run writes the same bytes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, TextIO

from herdcli.artifacts.atomic_output import check_destination
from herdcli.errors import CannotCreate, WriteFailed

if TYPE_CHECKING:
    from herdcli.algorithm import RunProgress

_FIGURE = re.compile(r"([A-Za-z][A-Za-z0-9 _()-]*?)[ =]+([-+]?(?:\d[\d_]*\.?\d*(?:e[-+]?\d+)?|nan|inf))(?![\w.])", re.IGNORECASE)


@contextmanager
def trace_writer(path: str | None, label: str, *, append: bool, clobber: bool) -> Iterator[Callable[[RunProgress], None]]:
    """Yield a function that writes the progress of a run, or without a path one that does nothing.

    append   keep the lines that the file has: of the loops before in the same run, or of the run that is resumed.
    clobber  whether to replace an existing file.
    Raises CannotCreate (73) before the run and WriteFailed (74).
    """
    if path is None:
        yield _ignore_progress
        return
    check_destination(path, clobber=clobber or append, binary=False)
    try:
        out = open(path, "a" if append else "w", encoding="utf-8", buffering=1)  # noqa: SIM115  (closed below)
    except OSError as error:
        raise CannotCreate(f"cannot be written ({error.strerror})", where=path) from error
    with out:
        yield lambda progress: _write_record(partial(_write_line, out, path), label, progress)


def _write_line(out: TextIO, path: str, line: str) -> None:
    try:
        out.write(line)
    except OSError as error:
        with suppress(OSError):  # what is still buffered cannot be written either
            out.close()
        raise WriteFailed(f"writing failed ({error.strerror})", where=path) from error


def _ignore_progress(progress: RunProgress) -> None:
    return None


def _write_record(write: Callable[[str], object], label: str, progress: RunProgress) -> None:
    line: dict[str, object] = {"run": label, "step": progress.step, "of": progress.bound}
    line |= {name: number for name, number in parse_progress_numbers(progress.figure).items() if name not in line}
    write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")


def parse_progress_numbers(text: str) -> dict[str, object]:
    """Return the numbers in a progress text by their names; a text without a number is `figure`, a number that is not finite is null."""
    found = {name.strip().replace(" ", "_"): float(number) for name, number in _FIGURE.findall(text)}
    if not found:
        return {"figure": text} if text else {}
    return {name: number if math.isfinite(number) else None for name, number in found.items()}
