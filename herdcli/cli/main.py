"""The one boundary: finds the command, runs it, turns what went wrong into a line and an exit code.

Nothing numerical is imported here, so that `herd --help` stays instant.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import io
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from types import FrameType
from typing import NoReturn, TextIO

import click

from herdcli import __version__, iterate
from herdcli.cli.frame.run.console import Console
from herdcli.command_table import TABLE
from herdcli.errors import HerdError, Interrupted, WriteFailed, escape_text

COMMANDS: dict[str, tuple[str, str]] = {name: (entry.module, entry.summary) for name, entry in TABLE.items()}

# what other programs call an option -> its names here
OTHER_NAMES: dict[str, tuple[str, ...]] = {
    "--lr": ("--learning-rate",),
    "--eta": ("--learning-rate",),
    "--n-hidden": ("--hidden",),
    "--n-components": ("--components", "--hidden"),
    "--k": ("--components", "--count"),
    "--n-samples": ("--count",),
    "--max-iter": ("--iterations", "--epochs"),
    "--n-iter": ("--iterations", "--epochs"),
    "--random-state": ("--seed",),
    "--n-jobs": ("--threads",),
}

BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

BEFORE = ("-q", "--quiet", "-v", "--verbose")  # options that may stand before a command

POOL = "herd-worker"  # beginning of the names of a session's worker threads
CYCLES = 100_000  # objects made before cycles are looked for: with Python's 700 that takes 3 % of a short command, in its imports


class LazyGroup(click.Group):
    """A group that imports a command's module when that command runs, and none to list them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = import_module(COMMANDS[cmd_name][0]).command
        return found if not ctx.resilient_parsing else with_completion_values(found)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args[:1] == ["help"]:  # `herd help eval` is `herd eval --help`
            if len(args) == 1:
                click.echo(ctx.get_help())
                ctx.exit()
            args = [args[1], "--help"]
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            close = get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean 'herd {close[0]}'?" if close else "'herd --help' lists the commands"
            raise click.UsageError(f"no command '{args[0]}'; {hint}", ctx)
        return super().resolve_command(ctx, args)


def _unknown_option_message(error: click.NoSuchOption) -> str:
    """Return the message for an unknown option, with similar options of the command; it does not depend on the version of click."""
    ours = {option for param in (error.ctx.command.params if error.ctx else ()) for option in param.opts}
    names = [option for option in OTHER_NAMES.get(error.option_name, ()) if option in ours] or sorted(error.possibilities or ())
    question = f" Did you mean {' or '.join(map(repr, names))}?" if names else ""
    return f"No such option '{error.option_name}'.{question}"


def _missing_option_hint(error: click.MissingParameter) -> str | None:
    """Return how a missing option is written and what it is for; None for an argument or an option without help."""
    param = error.param
    if not isinstance(param, click.Option) or not param.help:
        return None
    metavar = "N" if isinstance(param.type, click.IntRange) else (param.metavar or param.type.name.upper())
    return f"{param.opts[0]} {metavar}: {param.help[0].lower()}{param.help[1:].rstrip('.')}"


def _nearest_choice_hint(error: click.UsageError) -> str | None:
    """Return the option with the choice that is nearest to a misspelt one; None if there is none."""
    from herdcli.cli.frame.options.misspelt_choices import nearest_choice

    found = nearest_choice(error)
    return None if found is None else f"did you mean {max(found[0].opts, key=len)} {found[1]}?"


def with_completion_values(command: click.Command) -> click.Command:
    """Return the command in the form that shell completion uses."""
    from herdcli.cli.frame.options.completion import with_completion

    return with_completion(command)


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from herdcli import fast

        instructions = fast.instruction_set() if ctx.params.get("more") else ""
        click.echo(f"herd {__version__} ({fast.loops_in_use()} kernels{', ' if instructions else ''}{instructions})")
        ctx.exit()


START = """\
herd fits, evaluates and applies probabilistic models.  Try:

  herd data digits | herd fit-rbm | herd eval    learn a model of digits, and see how good it is
  herd info FILE                                 look at any file: a table, a network, a model
  herd regress FILE --target COLUMN -o FILE.h5   explain a column by the others
  herd --help                                    all commands
  herd COMMAND --help                            one command, with examples
"""


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    subcommand_metavar="[COMMAND] [ARGS]...",
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option("-v", "--verbose", "more", is_flag=True, is_eager=True, help="Print more messages; with --version: also the instruction set.")
@click.option("-q", "--quiet", "less", is_flag=True, help="Print only errors.")
@click.option("-V", "--version", is_flag=True, expose_value=False, callback=_print_version, help="Show the version and the kernels in use.")
@click.pass_context
def cli(ctx: click.Context, more: bool, less: bool) -> None:
    """Learning and inference by herding, contrastive divergence and Bethe free energies.

    \b
      herd data digits | herd fit-rbm | herd eval

    Each command reads a data set or an artifact (a result of herd) from a file or stdin, and writes one artifact to -o FILE
    or stdout.  Progress and messages go to stderr.
    """
    if ctx.invoked_subcommand is None:
        click.echo(START, nl=False)


def _print_error(label: str, message: str, hint: str | None, code: int) -> int:
    with contextlib.suppress(OSError, AttributeError):  # stderr may be gone too: the exit code still tells
        told = escape_text(f"{label}: {message}\n", keep="\n")
        sys.stderr.write(told + (f"hint: {escape_text(hint)}\n" if hint else ""))  # which may list names of columns
        sys.stderr.flush()
    return code


def _show_warnings(label: str) -> Callable[..., None]:
    """Return a function that shows Python's warnings, of libraries too, as lines in herd's form; of arithmetic warnings only the first."""
    arithmetic = list[Warning | str]()

    def show(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None, line: str | None = None
    ) -> None:
        hint = None
        if issubclass(category, RuntimeWarning):
            arithmetic.append(message)
            if len(arithmetic) > 1:
                return
            hint = "some values are too large, too small or not finite: results that depend on them may be nan or inf"
        place = f"{os.path.basename(filename)}:{lineno}"
        _print_error(label, f"warning: {' '.join(str(message).split())} ({place})", hint, 0)

    return show


def _report_bug(label: str, error: BaseException) -> int:
    with tempfile.NamedTemporaryFile("w", prefix="herd-traceback-", suffix=".txt", delete=False) as log:
        traceback.print_exception(error, file=log)
    return _print_error(label, f"internal error: {type(error).__name__}: {error}", f"the traceback is in {log.name}; please report it", 70)


def _report_error(label: str, error: BaseException) -> int:
    """Print the one line for an exception and return its exit code."""
    if isinstance(error, HerdError):
        return _print_error(label, str(error), error.hint, error.exit_code)
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, SystemExit):  # click's way out: 0 after completion, 1 when the reader of a pipe is gone
        return 128 + signal.SIGPIPE if error.code else 0
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else label
        message = _unknown_option_message(error) if isinstance(error, click.NoSuchOption) else error.format_message()
        if not isinstance(error, click.MissingParameter):  # whose message lists choices in lines of their own
            message = escape_text(message)
        hint = _missing_option_hint(error) if isinstance(error, click.MissingParameter) else _nearest_choice_hint(error)
        return _print_error(command, message, hint or (None if "--help" in message else f"try '{command} --help'"), 2)
    if isinstance(error, click.ClickException):
        return _print_error(label, error.format_message(), None, 2)
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return _print_error(label, "interrupted", None, 128 + signal.SIGINT)
    if isinstance(error, BrokenPipeError):
        return 128 + signal.SIGPIPE
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        sys.stdout = None  # what is still buffered cannot be written either
        return _print_error(label, f"stdout: cannot write: {error.strerror}", None, WriteFailed.exit_code)
    if isinstance(error, OSError) and error.errno is not None:  # a call of the system that seldom fails: closing, locking, listing a folder
        return _print_error(label, ": ".join(map(str, filter(None, (error.filename, error.strerror)))), None, WriteFailed.exit_code)
    if isinstance(error, MemoryError):
        return _print_error(label, "not enough memory", "see --max-memory, or use fewer rows", 65)
    return _report_bug(label, error)


def _limit_blas_threads() -> None:
    """One BLAS thread, so that sums do not depend on the machine's cores; `--threads` runs our own workers."""
    if "numpy" not in sys.modules:
        os.environ.update(dict.fromkeys(BLAS_VARIABLES, "1"))
        return
    from threadpoolctl import threadpool_limits

    threadpool_limits(1, user_api="blas")


def _move_verbosity_behind_command(args: Sequence[str]) -> list[str]:
    """Return the arguments with -q and -v moved from before a command's name to after it, where they have the same meaning."""
    first = next((place for place, arg in enumerate(args) if arg not in BEFORE), len(args))
    if not first or first == len(args) or args[first] not in COMMANDS:
        return list(args)
    return [args[first], *args[:first], *args[first + 1 :]]


def _run_command_line(args: Sequence[str]) -> int:
    result: object = cli.main(args=_move_verbosity_behind_command(args), prog_name="herd", standalone_mode=False)
    return result if isinstance(result, int) else 0


def _exit_at_once(code: int) -> NoReturn:
    """End the process without waiting for worker threads, which Python would join; nobody uses their results any more."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    os._exit(code)


def _end_on_signal(number: int, frame: FrameType | None) -> NoReturn:
    """End at once on a signal that arrives while the process ends anyway, with the code of the signal and no traceback."""
    os._exit(128 + number)


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run `herd` with these arguments (default: the process's own); always ends by SystemExit(code)."""
    args = list(sys.argv[1:] if argv is None else argv)
    Console.startup = time.process_time() if argv is None else 0.0
    if sys.stderr is None:  # closed by the caller; libraries write to it unasked
        sys.stderr = io.StringIO()
    _limit_blas_threads()
    name = next((arg for arg in args if not arg.startswith("-")), "")
    label = f"herd {name}" if name in COMMANDS else "herd"
    shown, warnings.showwarning = warnings.showwarning, _show_warnings(label)
    often, stopped = gc.get_threshold(), False
    gc.set_threshold(CYCLES)
    try:
        with iterate.allow_interrupts(afterwards=_end_on_signal if argv is None else None):
            code = _run_command_line(args)
    except BaseException as error:  # every end of the process has its own exit code; unknown exceptions are internal errors
        if "--debug" in args and not isinstance(error, click.exceptions.Exit):
            traceback.print_exc()
        code, stopped = _report_error(label, error), isinstance(error, Interrupted)
    finally:
        warnings.showwarning = shown
        gc.set_threshold(*often)
    if argv is None and stopped and any(thread.name.startswith(POOL) for thread in threading.enumerate()):
        _exit_at_once(code)
    if argv is None:
        gc.freeze()  # the process ends here: what it leaves is not searched for cycles
    raise SystemExit(code)


if __name__ == "__main__":
    main()
