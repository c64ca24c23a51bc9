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
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

import herdcli
from herdcli.algorithm import RunProgress
from herdcli.cli.frame.history.request import INPUT, OUTPUT
from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.output.text_tables import terminal_width, text_table
from herdcli.cli.frame.run import file_registry
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
    inner, reads_stdin = _check_and_detect_stdin(session, request.fitted, request.words)
    validated = request.folds > 2 and getattr(inner, "uses_validation_rows", True)
    outputs.check_text_output(session)
    with scratch_folder() as name, session.console.progress("folds") as progress:
        folder = Path(name)
        spooled = _spool_stdin(folder) if reads_stdin else None
        rows: list[Row] = []
        fits = FoldRuns(request, folder, spooled, max(1, session.threads // request.folds), validated)
        with fits, ThreadPoolExecutor(min(session.threads, request.folds)) as pool:
            futures = [pool.submit(fits.evaluate_fold, number) for number in range(1, request.folds + 1)]
            try:
                for future in futures:
                    rows.append(future.result())
                    progress.show(RunProgress(len(rows), request.folds))
            except BaseException:  # raised again
                fits.stop()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    mean, error = fold_summary.fold_means_and_errors(rows)
    outputs.write_text_result(session, escape_text(_table_text(session, request.format, rows, mean, error), keep="\n\t"))
    bad = Counter(str(row["verdict"]) for row in rows if row.get("verdict") not in (None, "ok"))
    for verdict, count in bad.items():
        session.console.warn(f"{count} of {len(rows)} folds: {verdict}")
    trained = request.folds - 1 - validated
    parts = f"{request.folds} folds (each fit trains on {trained} of them{', 1 is for validation' if validated else ''})"
    session.console.note(f"{request.fitted}, {parts}, {_main_metric_text(rows, mean, error)}, {session.console.elapsed_seconds():.1f} s")
    missed = [message for bar in bars for message in bar.failure_messages([mean])]
    if missed:
        raise NegativeResult("; ".join(missed))


def _main_metric_text(rows: list[Row], mean: Row, error: Row) -> str:
    """Return the main figure and the error with their standard errors, each compared with its first baseline."""
    figures = fold_summary.main_metric_names(rows, mean)
    if not figures:
        return "every fold has the same figures"
    name = next((each for each in figures if any(other in mean for other in relations.BASELINES.get(each, ()))), figures[0])
    shown = [name, *(each for each in fold_summary.ERROR_FIGURES if each in mean and each != name)]
    return ", ".join(_compared_figure(each, rows, mean, error) for each in shown)


def _compared_figure(name: str, rows: list[Row], mean: Row, error: Row) -> str:
    baseline = next((other for other in relations.BASELINES.get(name, ()) if other in mean), None)
    text = f"{metric_title(name)} {table.value_with_error(mean[name], error[name])}"
    if baseline is None:
        return text
    judged = fold_summary.comparison(rows, name, baseline)
    label = f"{relations.baseline_label(baseline, str(rows[0]['kind']))} {mean[baseline]:.4g}"
    return f"{text} ({f'{judged} ' if judged else ''}{label})"


def _check_and_detect_stdin(session: Session, fitted: str, words: tuple[str, ...]) -> tuple[object, bool]:
    """Return the request of the fitting command, and whether it reads stdin.

    Raises BadUsage for a command without folds, for options that a fold cannot have, and if the table or the lock would replace an input.
    """
    name = fitted
    if name not in TABLE or not _has_folds(name):
        hint = f"use one of {', '.join(each for each in TABLE if _has_folds(each))}"
        raise BadUsage(f"herd cv cannot cross-validate the command '{name}'", hint=hint)
    own = next((word for word in ("--folds", "--require", "--format") if word in words), None)
    if own:
        raise BadUsage(f"{own} is an option of herd cv, so it comes before {name}", hint=f"herd cv {own} … {name} …")
    command = _import_command(name)
    context = command.make_context(name, list(words), resilient_parsing=True)
    kind = vars(command.callback)["request"]
    inner = kind(**{each.name: context.params[each.name] for each in fields(kind) if each.name in context.params})
    files = file_registry.register_files(command, inner, {"options_file": context.params.get("options_file")})
    written = {each.label for each in files if each.use != INPUT}
    for param in command.params:
        typed = context.get_parameter_source(str(param.name)) == click.core.ParameterSource.COMMANDLINE
        if typed and (param.name in NOT_IN_FOLDS or written & {*param.opts}):
            hint = f"herd cv -o FILE {name} …" if param.name == "output" else "leave it out"
            raise BadUsage(f"{max(param.opts, key=len)} is not allowed in herd cv {name}", hint=hint)
    inputs = [each for each in files if each.use == INPUT]
    written_here = {"-o": session.output, "--lock": session.lock}
    outs = [file_registry.NamedFile(label, path, OUTPUT) for label, path in written_here.items() if path is not None]
    file_registry.refuse_conflicts([*inputs, *outs])
    sources = context.params.get("source") or context.params.get("sources") or "-"
    return inner, sources in ("-", ("-",))


def _has_folds(name: str) -> bool:
    """Return whether a command fits a model to rows that --split divides."""
    return name not in ("apply", "convert") and any(param.name == "split" for param in _import_command(name).params)


def _import_command(name: str) -> click.Command:
    found: click.Command = import_module(TABLE[name].module).command
    return found


def _spool_stdin(folder: Path) -> Path:
    if sys.stdin is None or sys.stdin.isatty():
        raise BadUsage("no DATA: name a file, or pipe rows in")
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return Path(file.name)


class FoldRuns:
    """The fits and evaluations of the folds, in processes that end with this one."""

    def __init__(self, request: Request, folder: Path, spooled: Path | None, threads: int, validated: bool) -> None:
        package = str(Path(herdcli.__file__).parent.parent)
        path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
        self.request, self.folder, self.spooled, self.validated = request, folder, spooled, validated
        self.environment = os.environ | {"HERD_THREADS": str(threads), "PYTHONPATH": path}
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def __enter__(self) -> FoldRuns:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the processes that are running, and start no further one."""
        self._stopped = True
        for process in list(self._running):
            process.terminate()

    def evaluate_fold(self, number: int) -> Row:
        """Return the figures of one fold, evaluated as by `herd eval`.  Raises the error of a command that fails."""
        model = str(self.folder / f"fold-{number}.h5")
        fold = f"{number}/{self.request.folds}{'' if self.validated or self.request.folds == 2 else ',no-valid'}"
        split = ["--split", fold, "-q", "-o", model]
        self._run_herd([self.request.fitted, *split, *self.request.words], self.spooled, number)
        (row,) = json.loads(self._run_herd(["eval", model, "--format", "json", "-q"], None, number))
        return {"fold": number, **{name: value for name, value in row.items() if name not in ("file", "verdict_code")}}

    def _run_herd(self, words: list[str], stdin: Path | None, number: int) -> bytes:
        """Return the stdout of `herd WORDS`.  Raises its error with its exit code."""
        if self._stopped:
            raise HerdError("another fold failed")
        line = [sys.executable, "-P", "-m", "herdcli", *words]
        with open(stdin or os.devnull, "rb") as source:
            process = subprocess.Popen(line, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment)
        self._running.add(process)
        try:
            printed, messages = process.communicate()
        finally:
            self._running.discard(process)
        if process.returncode:
            lines = messages.decode("utf-8", "replace").strip().splitlines() or [f"herd {words[0]} ended with {process.returncode}"]
            hint = next((line.removeprefix("hint: ") for line in lines[1:] if line.startswith("hint: ")), None)
            error = HerdError(f"fold {number}: {lines[0].removeprefix('herd ')}", hint=hint)
            error.exit_code = process.returncode if process.returncode > 0 else 128 - process.returncode
            raise error
        return printed


def _table_text(session: Session, format: str | None, rows: list[Row], mean: Row, error: Row) -> str:
    """Return the table: for people the main figures of each fold and their mean, for programs all figures with full precision."""
    form = format or ("aligned" if session.output == "-" and sys.stdout is not None and sys.stdout.isatty() else "tsv")
    if form != "aligned":
        return table.FORMATS[form](table.drop_empty_columns([*rows, {"fold": "mean", **mean}, {"fold": "standard error", **error}]))
    figures = fold_summary.main_metric_names(rows, mean)
    lines = [[str(row["fold"]), *(table.display_text(row[name], table.SHOWN_DIGITS) for name in figures)] for row in rows]
    lines.append(["mean", *(table.value_with_error(mean[name], error[name]) for name in figures)])
    return text_table(["fold", *figures], lines, width=terminal_width(), left=1)
