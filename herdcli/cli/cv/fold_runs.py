"""The fits of `herd cv`, each a process of its own, and the table of their figures."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

import herdcli
from herdcli.algorithm import RunProgress
from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.output.text_tables import terminal_width, text_table
from herdcli.command_table import TABLE
from herdcli.errors import BadUsage, HerdError, NegativeResult, escape_text
from herdcli.evaluation import fold_summary, table
from herdcli.evaluation.report import figure_relations as relations
from herdcli.evaluation.report.column_descriptions import metric_title
from herdcli.scratch import scratch_folder

if TYPE_CHECKING:
    from herdcli.cli.cv.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.evaluation.table import Row

NOT_IN_FOLDS = ("split", "output", "shard", "cluster", "checkpoint", "resume", "dry_run", "lock", "trace_file")


def cross_validate(session: Session, request: Request) -> None:
    """Fit and evaluate every fold, and write the table.  Raises NegativeResult if the mean does not meet a requirement."""
    bars = [table.parse_requirement(text) for text in request.requirements]
    reads_stdin = _check_command_line(request)
    with scratch_folder() as name, session.console.progress("folds") as progress:
        folder = Path(name)
        spooled = _spool_stdin(folder) if reads_stdin else None
        rows: list[Row] = []
        with ThreadPoolExecutor(min(session.threads, request.folds)) as pool:
            fit = partial(_fold_row, request, folder, spooled, max(1, session.threads // request.folds))
            for row in pool.map(fit, range(1, request.folds + 1)):
                rows.append(row)
                progress.show(RunProgress(len(rows), request.folds))
    mean, error = fold_summary.mean_and_error(rows)
    outputs.write_text_result(session, escape_text(_table_text(session, request, rows, mean, error), keep="\n\t"))
    bad = Counter(str(row["verdict"]) for row in rows if row.get("verdict") not in (None, "ok"))
    for verdict, count in bad.items():
        session.console.warn(f"{count} of {len(rows)} folds: {verdict}")
    session.console.note(f"{request.fitted}, {len(rows)} folds, {_main_result(rows, mean, error)}, {session.console.elapsed():.1f} s")
    missed = [message for bar in bars for message in bar.missed([mean])]
    if missed:
        raise NegativeResult("; ".join(missed))


def _main_result(rows: list[Row], mean: Row, error: Row) -> str:
    """Return the main figure with its standard error, and its first baseline."""
    figures = fold_summary.main_figures(rows, mean)
    if not figures:
        return "every fold has the same figures"
    name = next((each for each in figures if any(other in mean for other in relations.BASELINES.get(each, ()))), figures[0])
    baseline = next((other for other in relations.BASELINES.get(name, ()) if other in mean), None)
    beside = "" if baseline is None else f" ({relations.baseline_label(baseline, str(rows[0]['kind']))} {mean[baseline]:.4g})"
    return f"{metric_title(name)} {table.value_with_error(mean[name], error[name])}{beside}"


def _check_command_line(request: Request) -> bool:
    """Return whether the command reads stdin.  Raises BadUsage for a command without --split, and for options that a fold cannot have."""
    name = request.fitted
    fitting = [each for each in TABLE if any(param.name == "split" for param in _command(each).params) and each not in ("apply", "convert")]
    if name not in fitting:
        raise BadUsage(f"'{name}' is not a command that can be cross-validated", hint=f"one of {', '.join(fitting)}")
    command = _command(name)
    own = [word for word in ("--folds", "--require", "--format") if word in request.words]
    if own:
        raise BadUsage(f"{own[0]} stands behind the name of the command", hint=f"herd cv {own[0]} … {name} …")
    context = command.make_context(name, list(request.words), resilient_parsing=True)
    for param in command.params:
        typed = context.get_parameter_source(str(param.name)) == click.core.ParameterSource.COMMANDLINE
        if typed and param.name in NOT_IN_FOLDS:
            hint = f"herd cv -o FILE {name} …" if param.name == "output" else "leave it out"
            raise BadUsage(f"{max(param.opts, key=len)} does not work in the fits of herd cv", hint=hint)
    sources = context.params.get("source") or context.params.get("sources") or "-"
    return sources in ("-", ("-",))


def _command(name: str) -> click.Command:
    found: click.Command = import_module(TABLE[name].module).command
    return found


def _spool_stdin(folder: Path) -> Path:
    if sys.stdin is None or sys.stdin.isatty():
        raise BadUsage("no DATA: name a file, or pipe rows in")
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return Path(file.name)


def _fold_row(request: Request, folder: Path, spooled: Path | None, threads: int, number: int) -> Row:
    """Return the figures of one fold, evaluated as by `herd eval`.  Raises the error of a command that fails."""
    model = str(folder / f"fold-{number}.h5")
    split = ["--split", f"{number}/{request.folds}", "-q", "-o", model]
    _run([request.fitted, *split, *request.words], threads, spooled, f"fold {number}")
    (row,) = json.loads(_run(["eval", model, "--format", "json", "-q"], threads, None, f"fold {number}"))
    return {"fold": number, **{name: value for name, value in row.items() if name not in ("file", "verdict_code")}}


def _run(words: list[str], threads: int, stdin: Path | None, what: str) -> bytes:
    """Return the stdout of `herd WORDS`.  Raises its error with its exit code."""
    package = str(Path(herdcli.__file__).parent.parent)
    path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"HERD_THREADS": str(threads), "PYTHONPATH": path}
    with open(stdin or os.devnull, "rb") as source:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "herdcli", *words], stdin=source, capture_output=True, env=environment, check=False
        )
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"herd {words[0]} ended with {done.returncode}"]
        error = HerdError(
            f"{what}: {lines[0].removeprefix('herd ')}", hint=next((x[6:] for x in lines[1:] if x.startswith("hint: ")), None)
        )
        error.exit_code = done.returncode if done.returncode > 0 else 128 - done.returncode
        raise error
    return done.stdout


def _table_text(session: Session, request: Request, rows: list[Row], mean: Row, error: Row) -> str:
    """Return the table: for people the main figures of each fold and their mean, for programs all figures with full precision."""
    form = request.format or ("aligned" if session.output == "-" and sys.stdout is not None and sys.stdout.isatty() else "tsv")
    if form != "aligned":
        return table.FORMATS[form](table.drop_empty_columns([*rows, {"fold": "mean", **mean}, {"fold": "standard error", **error}]))
    figures = fold_summary.main_figures(rows, mean)
    lines = [[str(row["fold"]), *(table.display_text(row[name], table.SHOWN_DIGITS) for name in figures)] for row in rows]
    lines.append(["mean", *(table.value_with_error(mean[name], error[name]) for name in figures)])
    return text_table(["fold", *figures], lines, width=terminal_width(), left=1)
