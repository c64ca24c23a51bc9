"""Every command as a Python function: it takes arrays, tables, artifacts or paths, and returns the dataclass that the command writes.

    import herdcli as herd
    rbm = herd.fit_rbm(X, hidden=100, epochs=20)
    herd.eval(rbm)[0]["log_likelihood"]

A call runs the command in this process, on files in a temporary folder: same options, same checks, same arrays.  Options are keywords
(`learning_rate=0.1` is --learning-rate 0.1), warnings are Python warnings, and errors are those of `herdcli.errors`.  The history of
a shard names its run, so shards must be files: `herd.fit_rbm(…)` has no `shard`, and `herd.merge` takes paths of shards, or classifiers.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from difflib import get_close_matches
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import Any

import click
import numpy as np

from herdcli import LEARNING, artifacts, notebook, python_inputs
from herdcli.artifacts.formats import format_detection
from herdcli.cli.frame.options.former_names import FORMER_NAMES
from herdcli.cli.frame.rows.network_files import PACKED, TEXT_FORMATS
from herdcli.cli.main import COMMANDS, OTHER_NAMES, cli
from herdcli.errors import BadUsage, HerdError, Interrupted, NoInput, nearest_name
from herdcli.markov.model.network import Network
from herdcli.python_inputs import KNOWN, MADE
from herdcli.records import set_notebook_view
from herdcli.scratch import scratch_folder
from herdcli.spreadsheet_text import use_safe_csv

NOT_HERE = ("output", "help", "quiet", "verbose", "debug", "no_clobber", "shard", "dry_run")  # options that only the command line has
INPUT_NAMES = {"ups_infer": {"source": "network"}, "apply": {"source": "X"}, "eval": {"sources": "artifacts"}}  # argument -> its name here
WITHOUT_ROWS = {"distribution", "moment_file", "from_moments", "rates", "continue_", "continue", "resume"}  # options that replace the rows
HEAD = 1 << 16  # bytes at the beginning of a file that show its format
PACKAGE = str(Path(__file__).parent)  # its frames are not those of a caller


set_notebook_view(notebook.artifact_html)


def load(path: str | os.PathLike[str], **how: Any) -> Any:
    """Return the contents of a file: the frozen dataclass of an artifact, a data set in any format, or a network or model in a format that
    herd can write.

    `how` are the keywords of herdcli.artifacts.load.
    """
    name = os.fspath(path)
    with python_errors():
        return _load_foreign_model(name) if not how and _foreign_model_kind(name) else _with_history(artifacts.load(name, **how))


def _foreign_model_kind(path: str) -> str | None:
    """Return "network" for the text of a network, the kind of a model whose weights `herd convert --to` reads, else None."""
    if not Path(path).is_file():
        return None
    with Path(path).open("rb") as file:
        head = file.read(HEAD)
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    form = format_detection.detect_network_format(head)
    if suffixes[-1:] and suffixes[-1] in PACKED:
        form = _network_format(path[: -len(suffixes[-1])])
    if form in TEXT_FORMATS and (form != "fg" or ".fg" in suffixes):
        return "network"
    if suffixes[-1:] == [".safetensors"]:
        found = re.search(rb'"kind": *"(rbm|dbn)"', head)
        return found[1].decode() if found else None
    return "classifier" if suffixes[-1:] == [".vw"] else None


def _network_format(path: str) -> str | None:
    """Return the format of networks as text that the suffix of a file means, else None."""
    suffix = Path(path).suffix.lower().removeprefix(".")
    form = format_detection.NETWORK_SUFFIXES.get(suffix, suffix)
    return form if form in TEXT_FORMATS else None


def _load_foreign_model(path: str) -> Any:
    kind = _foreign_model_kind(path)
    name, inputs, options = ("network", ["convert", path], {}) if kind == "network" else ("convert", [path], {"to": kind})
    return _run_for_artifact(name, _find_command(name), inputs, options)


def save(path: str | os.PathLike[str], value: Any, *, safe_csv: bool = False) -> None:
    """Write an artifact, or rows of any form as a data set; the suffix of `path` chooses the format.

    With `safe_csv`, CSV and TSV have an apostrophe before names and texts that spreadsheets take for formulas.
    The history is that of the value if it was made or read in this process, else it says `python`.
    """
    name = os.fspath(path)
    if not is_dataclass(value) or isinstance(value, type):
        value = _run_for_artifact("convert", _find_command("convert"), [value], {})
    with python_errors():
        if _network_format(name) and isinstance(value, Network):
            with _temporary_folder() as folder:
                _run_command("network", _find_command("network"), folder, ["convert", value], {}, ["--output", name])
        else:
            with use_safe_csv(safe_csv):
                python_inputs.save_value(name, value)


def _with_history(artifact: artifacts.Artifact) -> Any:
    """Return the value, with its history attached; `dataclasses.replace` drops the history."""
    object.__setattr__(artifact.value, MADE, (artifact.history, artifact.recoding))
    return artifact.value


def check(*paths: str | os.PathLike[str]) -> None:
    """Raise DataError unless the seals and the contents of all files are valid."""
    for path in paths:
        artifacts.load(os.fspath(path))


def command_function(name: str) -> Callable[..., Any]:
    """Return the function of one command; its docstring is the command's help."""
    command, makes = _find_command(name), _run_for_metrics if name == "eval" else _run_for_artifact
    label_option = next((option for option in ("target", "label") if option in _options_by_keyword(command)), None)

    def run(*inputs: object, **options: object) -> Any:
        return makes(name, command, _bind_inputs(name, inputs, options), options)

    def learn(X: Any = None, y: Any = None, **options: object) -> Any:
        if X is None and not options.keys() & WITHOUT_ROWS:
            raise TypeError(f"{name}() needs rows X: {python_inputs.FORMS}")
        with python_errors():
            rows = [] if X is None else [python_inputs.join_rows_and_labels(X, y, options, label_option)]
        return makes(name, command, rows, options)

    chosen = learn if name in LEARNING else run
    chosen.__name__ = chosen.__qualname__ = name
    chosen.__doc__ = f"{_python_words(command.help or '')}\n\nOptions, as keywords:\n\n{_option_lines(command)}"
    vars(chosen)["__signature__"] = command_signature(name)
    return chosen


def _input_names(name: str) -> tuple[list[str], bool]:
    """Return the names of a function's inputs, and whether the last one may be repeated."""
    arguments = [each for each in _find_command(name).params if isinstance(each, click.Argument)]
    names = INPUT_NAMES.get(name, {})
    return [names.get(str(each.name), str(each.name)) for each in arguments], arguments[-1].nargs == -1


def _bind_inputs(name: str, inputs: Sequence[object], options: dict[str, object]) -> list[Any]:
    """Return a function's inputs, also those that are given by keyword, which are removed from `options`."""
    names, repeated = _input_names(name)
    if not repeated and len(inputs) > len(names):
        raise TypeError(f"{name}() takes {', '.join(names)}; {len(inputs)} inputs are given, options are keywords")
    bound = list(inputs)
    for place, own in enumerate(names if not repeated else []):
        if own in options:
            if place != len(bound):
                raise TypeError(f"{name}() has {own} twice" if place < len(bound) else f"{name}() needs {names[len(bound)]} too")
            bound.append(options.pop(own))
    if not bound and name in ("eval", "merge", "apply", "sample", "ups_infer", "network"):
        raise TypeError(f"{name}() needs {names[0]}")
    return bound


def command_signature(name: str) -> inspect.Signature:
    """Return the signature of one command's function: its inputs, and its options with types and defaults."""
    if name in LEARNING:
        inputs = [
            _signature_parameter("X", "Any", None),
            _signature_parameter("y", "Any", None),
            *(_signature_parameter(each, "Any", None, keyword=True) for each in KNOWN),
        ]
    else:
        names, repeated = _input_names(name)
        kind = inspect.Parameter.VAR_POSITIONAL if repeated else inspect.Parameter.POSITIONAL_OR_KEYWORD
        required = {"apply": 2, "sample": 1, "ups_infer": 1, "network": 1}.get(name, 0)
        inputs = [
            inspect.Parameter(own, kind, annotation=Annotation("Any"))
            if repeated or place < required
            else _signature_parameter(own, "Any", None)
            for place, own in enumerate(names)
        ]
    options = [
        _signature_parameter(
            f"{keyword}_" if iskeyword(keyword) else keyword, _option_annotation(option), _option_default(option), keyword=True
        )
        for keyword, option in _options_by_keyword(_find_command(name)).items()
        if keyword not in KNOWN and keyword not in {each.name for each in inputs}
    ]
    returned = "list[dict[str, Any]]" if name == "eval" else "Result"
    return inspect.Signature([*inputs, *options], return_annotation=Annotation(returned))


class Annotation(str):
    """The text of a type, which `help` shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _signature_parameter(name: str, annotation: str, default: object, *, keyword: bool = False) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY if keyword else inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, kind, default=default, annotation=Annotation(annotation))


def _option_annotation(option: click.Option) -> str:
    """Return the type annotation of an option: numbers, texts or names out of a list; for special forms and files the types they accept."""
    kind: object = option.type
    if option.is_flag:
        return "bool" if _option_default(option) is not None else "bool | None"
    if option.multiple or option.nargs != 1:
        return "Any"
    if isinstance(kind, click.types.IntParamType):
        found = "int"
    elif isinstance(kind, click.types.FloatParamType):
        found = "float"
    elif isinstance(kind, click.Choice) and not any(":" in str(choice) for choice in kind.choices):
        found = f"Literal[{', '.join(repr(str(choice)) for choice in kind.choices)}]"
    else:
        return "Any"
    return found if _option_default(option) is not None else f"{found} | None"


def _option_default(option: click.Option) -> object:
    """Return the default value of an option, or None if it depends on other options."""
    value = option.default
    if option.is_flag and not option.secondary_opts:
        return bool(value is True)
    return value if isinstance(value, (bool, int, float, str)) else None


def _option_lines(command: click.Command) -> str:
    """Return a line for each option: its keyword, and the first sentence of its help with the default."""
    lines = []
    for keyword, option in _options_by_keyword(command).items():
        text = " ".join((option.help or "").split())
        default = re.search(r" \[default: .*\]$", text)
        sentence = re.split(r"(?<=[a-z)\]’'0-9])\. (?=[A-Z])", text[: default.start()] if default else text, maxsplit=1)[0]
        lines.append(f"  {keyword}: {_python_words(sentence.rstrip('.'))}.{default[0] if default else ''}")
    return "\n".join(lines)


def _python_words(text: str) -> str:
    """Return a help text with keywords for options (`learning_rate` for --learning-rate); examples of the shell are left out."""
    kept, example = [], False
    for paragraph in text.split("\n\n"):
        example = paragraph.lstrip().startswith("\b")
        if not example and not re.match(r"\s*herd [a-z]", paragraph):
            kept.append(re.sub(r"--([a-zA-Z][a-zA-Z0-9-]*[a-zA-Z0-9]|[a-zA-Z])", lambda found: found[1].replace("-", "_"), paragraph))
    return "\n\n".join(kept)


def _find_command(name: str) -> click.Command:
    found: click.Command = import_module(COMMANDS[name.replace("_", "-")][0]).command
    return found


def _options_by_keyword(command: click.Command) -> dict[str, click.Option]:
    """Return the options by keyword: the long option name with _ for -."""
    return {
        text.lstrip("-").replace("-", "_"): option
        for option in command.params
        if isinstance(option, click.Option) and option.name not in NOT_HERE
        for text in option.opts
        if text.startswith("--")
    }


def _run_for_artifact(name: str, command: click.Command, inputs: Sequence[object], options: Mapping[str, object]) -> Any:
    with _temporary_folder() as folder:
        _run_command(name, command, folder, inputs, options, ["--output", str(folder / "made")])
        return _with_history(artifacts.load(str(folder / "made"), missing=True))


def _run_for_metrics(name: str, command: click.Command, inputs: Sequence[object], options: Mapping[str, object]) -> list[dict[str, Any]]:
    with _temporary_folder() as folder:
        _run_command(name, command, folder, inputs, options, ["--format", "json", "--output", str(folder / "figures.json")])
        rows: list[dict[str, Any]] = json.loads((folder / "figures.json").read_text(encoding="utf-8"))
        return [
            {name: _hide_temporary_folder(item, folder) if isinstance(item, str) else item for name, item in row.items()} for row in rows
        ]


@contextlib.contextmanager
def _temporary_folder() -> Iterator[Path]:
    with scratch_folder() as name:
        yield Path(name)


def _run_command(
    name: str, command: click.Command, folder: Path, inputs: Sequence[object], options: Mapping[str, object], ends: Sequence[str]
) -> None:
    """Run the command in this process; its warnings become Python warnings."""
    from threadpoolctl import threadpool_limits

    warned: list[str] = []
    # sums must not depend on the machine's cores; `threads` counts herd's own threads
    with python_errors(folder), threadpool_limits(1, user_api="blas"), contextlib.nullcontext() if inputs else _refuse_stdin():
        options_and_inputs = [
            *_command_line_words(name, command, options, folder),
            *ends,
            "--quiet",
            "--",
            *(_input_path(name, each, place, folder) for place, each in enumerate(inputs)),
        ]
        cli.main([name.replace("_", "-"), *options_and_inputs], prog_name="herd", standalone_mode=False, obj=warned)
    for message in warned:
        warnings.warn(f"herd {name.replace('_', '-')}: {_hide_temporary_folder(message, folder)}", stacklevel=_frames_to_caller())


@contextlib.contextmanager
def _refuse_stdin() -> Iterator[None]:
    """Keep a command without inputs from waiting for the caller's stdin."""
    stdin, sys.stdin = sys.stdin, None
    try:
        yield
    except NoInput as error:
        if error.where != "stdin":
            raise
        raise TypeError("this call needs an input: rows, a result, or a path") from None
    finally:
        sys.stdin = stdin


def _input_path(name: str, value: Any, place: int, folder: Path) -> str:
    """Return the path of an input; a value becomes a file whose name is that of the argument."""
    names, repeated = (["X"], False) if name in LEARNING else _input_names(name)
    own = f"{names[-1]}[{place}]" if repeated else names[min(place, len(names) - 1)]
    return python_inputs.path_or_written_file(value, folder, own)


def _frames_to_caller() -> int:
    """Return the stack level, for a warning by the caller of this function, of the first frame outside of herd."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE + os.sep):
        frame, level = frame.f_back, level + 1
    return level


@contextlib.contextmanager
def python_errors(folder: Path | None = None) -> Iterator[None]:
    """Turn errors into those that a caller in Python expects: with hints, and with names of arguments for those of temporary files."""
    try:
        yield
    except click.ClickException as error:
        raise _usage_error(error) from error
    except Interrupted as error:  # raised by Ctrl-C; an `except Exception` of the caller does not catch it
        raise KeyboardInterrupt(str(error)) from error
    except HerdError as error:
        if folder is not None:
            error.message = _hide_temporary_folder(error.message, folder)
            error.hint = None if error.hint is None else _hide_temporary_folder(error.hint, folder)
            _name_argument(error, folder)
        error.shows_hint = True
        raise


def _usage_error(error: click.ClickException) -> BadUsage:
    """Return the error for options that the command line refuses, with the nearest choice as a keyword argument."""
    from herdcli.cli.frame.options.misspelt_choices import nearest_choice

    close = nearest_choice(error)
    found = BadUsage(error.format_message(), hint=None if close is None else f"did you mean {_keyword(close[0])}={close[1]!r}?")
    found.shows_hint = True
    return found


def _keyword(option: click.Option) -> str:
    """Return the name of an option as an argument of a function."""
    return max(option.opts, key=len).lstrip("-").replace("-", "_")


def _name_argument(error: HerdError, folder: Path) -> None:
    """Say which argument of the function an error is about; an array of the data set `X` is called X, not /X."""
    if error.where is None:
        return
    error.where = _hide_temporary_folder(error.where, folder)
    if error.where != "X":
        return
    if found := re.match(r"/columns/(\S+)", error.message):
        error.message = f"column {found[1]}{error.message[found.end() :]}"
    elif found := re.match(r"/(X|y|weight|split)\b", error.message):
        argument = {"weight": "row_weight", "split": "row_split"}.get(found[1], found[1])
        error.where, error.message = None, argument + error.message[found.end() :]


def _hide_temporary_folder(text: str, folder: Path) -> str:
    """Return a message without the temporary folder in the names of this call's files."""
    return re.sub(rf"{re.escape(str(folder))}/(\d+/)?", "", text)


def _short_option_keywords(command: click.Command, keyword: str) -> list[str]:
    """Return the keyword of a short option, for instance count for m."""
    return [name for name, option in _options_by_keyword(command).items() if f"-{keyword}" in option.opts]


def _similar_keywords(command: click.Command, keyword: str) -> list[str]:
    """Return the options that an unknown keyword may mean: a short option, the word of another library, or the nearest name."""
    known = _options_by_keyword(command)
    other = [name.lstrip("-").replace("-", "_") for name in OTHER_NAMES.get(f"--{keyword.replace('_', '-')}", ())]
    close = nearest_name(keyword, known) or next(iter(get_close_matches(keyword, known, n=1)), None)
    return [*_short_option_keywords(command, keyword), *(name for name in other if name in known), *([close] if close else [])]


def _command_line_words(name: str, command: click.Command, options: Mapping[str, object], folder: Path) -> Iterator[str]:
    """Yield keywords as words of a command line.  Raises TypeError for unknown keywords."""
    known = _options_by_keyword(command)
    former = FORMER_NAMES.get(str(command.name), {})
    for keyword, value in options.items():
        old = f"--{keyword.rstrip('_').replace('_', '-')}"
        option = known.get(former.get(old, old).lstrip("-").replace("-", "_"))
        if option is None:
            close = _similar_keywords(command, keyword)
            raise TypeError(f"{name}() has no option {keyword!r}{f'; did you mean {close[0]!r}?' if close else ''}")
        text = old if old in former else next(text for text in option.opts if text.startswith("--"))
        if isinstance(value, bool | np.bool_):
            if not option.is_flag:
                raise TypeError(f"{name}() option {keyword!r} needs a value, not {value}")
            yield from [text] if value else option.secondary_opts[:1]
        elif value is not None:
            if option.is_flag:
                raise TypeError(f"{name}() option {keyword!r} is True or False, not {value!r}")
            for typed in python_inputs.option_words(value, folder, keyword, repeated=option.multiple, count=option.nargs):
                yield from (text, *typed)
