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
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from difflib import get_close_matches
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import Any, cast

import click
import numpy as np

from herdcli import LEARNING, artifacts, notebook
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.formats.arrow import to_arrow as as_arrow
from herdcli.artifacts.sealed import provenance
from herdcli.artifacts.tables import native_arrays
from herdcli.cli.frame.options.former_names import FORMER_NAMES
from herdcli.cli.main import COMMANDS, cli
from herdcli.errors import BadUsage, HerdError, Interrupted
from herdcli.records import set_notebook_view
from herdcli.scratch import scratch_folder

NOT_HERE = ("output", "help", "quiet", "verbose", "debug", "no_clobber", "shard", "dry_run")  # options that only the command line has
PYTHON = provenance.stage_record("python", {}, {})  # the stage that is recorded as the history of values of unknown origin
MADE = "_made"  # attribute of a returned value: its history, and the levels and missing values of its columns


set_notebook_view(notebook.artifact_html)


def load(path: str | os.PathLike[str], **how: Any) -> Any:
    """Return the contents of a file: the frozen dataclass of an artifact, or a data set in any format.

    `how` are the keywords of herdcli.artifacts.load.
    """
    return _with_history(artifacts.load(os.fspath(path), **how))


def save(path: str | os.PathLike[str], value: Any) -> None:
    """Write an artifact; the suffix of `path` chooses the format.

    The history is that of the value if it was made or read in this process, else it says `python`.
    """
    _save_value(os.fspath(path), value)


def _with_history(artifact: artifacts.Artifact) -> Any:
    """Return the value, with its history attached; `dataclasses.replace` drops the history."""
    object.__setattr__(artifact.value, MADE, (artifact.history, artifact.recoding))
    return artifact.value


def _save_value(path: str, value: Any, format: str | None = None, *, missing: bool = False) -> None:
    history, recoding = vars(value).get(MADE, ([], None))
    artifacts.save(path, value, history or [PYTHON], format=format, recoding=recoding, missing=missing)


def check(*paths: str | os.PathLike[str]) -> None:
    """Raise DataError unless the seals and the contents of all files are valid."""
    for path in paths:
        artifacts.load(os.fspath(path))


def function(name: str) -> Callable[..., Any]:
    """Return the function of one command; its docstring is the command's help."""
    command, makes = _find_command(name), _run_for_metrics if name == "eval" else _run_for_artifact

    def run(*inputs: Any, **options: Any) -> Any:
        return makes(name, command, inputs, options)

    def learn(X: Any = None, y: Any = None, **options: Any) -> Any:
        return makes(name, command, [] if X is None else [_join_rows_and_labels(X, y, options)], options)

    chosen = learn if name in LEARNING else run
    chosen.__name__ = chosen.__qualname__ = name
    chosen.__doc__ = f"{command.help}\n\nOptions, as keywords:\n\n{_option_lines(command)}"
    vars(chosen)["__signature__"] = signature(name)
    return chosen


def signature(name: str) -> inspect.Signature:
    """Return the signature of one command's function: its inputs, and its options with types and defaults."""
    inputs = (
        [
            _signature_parameter("X", "Any", None),
            _signature_parameter("y", "Any", None),
            *(_signature_parameter(each, "Any", None, keyword=True) for each in KNOWN),
        ]
        if name in LEARNING
        else [inspect.Parameter("inputs", inspect.Parameter.VAR_POSITIONAL, annotation="Any")]
    )
    options = [
        _signature_parameter(
            f"{keyword}_" if iskeyword(keyword) else keyword, _option_annotation(option), _option_default(option), keyword=True
        )
        for keyword, option in _options_by_keyword(_find_command(name)).items()
        if keyword not in KNOWN
    ]
    returned = "list[dict[str, Any]]" if name == "eval" else "Any"
    return inspect.Signature([*inputs, *options], return_annotation=returned)


def _signature_parameter(name: str, annotation: str, default: object, *, keyword: bool = False) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY if keyword else inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


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
    """Return the keyword and the help of each option."""
    return "\n".join(f"  {keyword}: {' '.join((option.help or '').split())}" for keyword, option in _options_by_keyword(command).items())


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


def _run_for_artifact(name: str, command: click.Command, inputs: Sequence[Any], options: Mapping[str, object]) -> Any:
    with _temporary_folder() as folder:
        _run_command(name, command, folder, inputs, options, ["--output", str(folder / "made")])
        return _with_history(artifacts.load(str(folder / "made"), missing=True))


def _run_for_metrics(name: str, command: click.Command, inputs: Sequence[Any], options: Mapping[str, object]) -> list[dict[str, Any]]:
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
    name: str, command: click.Command, folder: Path, inputs: Sequence[Any], options: Mapping[str, object], ends: Sequence[str]
) -> None:
    """Run the command in this process; its warnings become Python warnings."""
    from threadpoolctl import threadpool_limits

    typed = [
        *_command_line_words(name, command, options, folder),
        *ends,
        "--quiet",
        "--",
        *(_path_or_written_file(each, folder) for each in inputs),
    ]
    warned: list[str] = []
    try:
        with threadpool_limits(1, user_api="blas"):  # sums must not depend on the machine's cores; `threads` counts herd's own threads
            cli.main([name.replace("_", "-"), *typed], prog_name="herd", standalone_mode=False, obj=warned)
    except click.ClickException as error:
        raise BadUsage(error.format_message()) from error
    except Interrupted as error:  # raised by Ctrl-C; an `except Exception` of the caller does not catch it
        raise KeyboardInterrupt(str(error)) from error
    except HerdError as error:
        error.where = None if error.where is None else _hide_temporary_folder(error.where, folder)
        raise
    for message in warned:
        warnings.warn(f"herd {name.replace('_', '-')}: {_hide_temporary_folder(message, folder)}", stacklevel=4)


def _hide_temporary_folder(text: str, folder: Path) -> str:
    """Return a message without the temporary folder in the names of this call's files."""
    return re.sub(rf"{re.escape(str(folder))}/(\d+/)?", "", text)


def _short_option_keywords(command: click.Command, keyword: str) -> list[str]:
    """Return the keyword of a short option, for instance count for m."""
    return [name for name, option in _options_by_keyword(command).items() if f"-{keyword}" in option.opts]


def _command_line_words(name: str, command: click.Command, options: Mapping[str, object], folder: Path) -> Iterator[str]:
    """Yield keywords as words of a command line.  Raises TypeError for unknown keywords."""
    known = _options_by_keyword(command)
    former = FORMER_NAMES.get(str(command.name), {})
    for keyword, value in options.items():
        old = f"--{keyword.rstrip('_').replace('_', '-')}"
        option = known.get(former.get(old, old).lstrip("-").replace("-", "_"))
        if option is None:
            close = _short_option_keywords(command, keyword) or get_close_matches(keyword, known, n=1)
            raise TypeError(f"{name}() has no option {keyword!r}{f'; did you mean {close[0]!r}?' if close else ''}")
        text = old if old in former else next(text for text in option.opts if text.startswith("--"))
        if isinstance(value, bool | np.bool_):
            yield from [text] if value else option.secondary_opts[:1]
        elif value is not None:
            for each in value if option.multiple and isinstance(value, list | tuple) else [value]:
                yield from (
                    text,
                    *(map(_value_text, cast(Sequence[object], each)) if option.nargs > 1 else [_option_value_text(each, folder)]),
                )


def _option_value_text(value: Any, folder: Path) -> str:
    """Return one option value as text: lists of numbers are joined by commas; arrays, tables and artifacts become files."""
    if isinstance(value, list | tuple):
        return ",".join(map(_value_text, value))
    return _value_text(value) if isinstance(value, str | os.PathLike | int | float | np.number) else _path_or_written_file(value, folder)


def _value_text(value: Any) -> str:
    return os.fspath(value) if isinstance(value, str | os.PathLike) else repr(value.item() if isinstance(value, np.number) else value)


def _join_rows_and_labels(X: Any, y: Any, options: dict[str, object]) -> object:
    """Return rows with their labels and options as one input.

    Removes `feature_names`, `row_split`, `row_weight` and `image_shape` from `options`.
    """
    X = _masked_to_nan(X)
    X = X[:, np.newaxis] if isinstance(X, np.ndarray) and X.ndim == 1 else X  # one column, as for a file that holds a vector
    known: dict[str, Any] = {field: options.pop(name, None) for name, field in KNOWN.items()}
    if y is None and not any(item is not None for item in known.values()):
        return X
    if not isinstance(X, np.ndarray) and not hasattr(X, "indptr"):
        raise TypeError("labels, splits and weights come beside arrays; of tables, files and data sets they are columns or fields")
    classes, codes = (None, None) if y is None else _encode_labels(np.asarray(y))
    if codes is not None and codes.dtype.kind == "f":
        return _table_with_target(np.asarray(X), codes, known)
    fields: dict[str, Any] = {name: None if item is None else np.asarray(item) for name, item in known.items() if name != "feature_names"}
    names = known["feature_names"]
    return Dataset(X, codes, **fields, feature_names=None if names is None else [str(name) for name in names], class_names=classes)


def _masked_to_nan(value: Any) -> Any:
    """Return a masked array with NaN at its masked entries; return anything else unchanged."""
    return np.where(np.ma.getmaskarray(value), np.nan, np.ma.getdata(value)) if np.ma.is_masked(value) else value


KNOWN = {"row_split": "split", "row_weight": "weight", "feature_names": "feature_names", "image_shape": "image_shape"}


def _encode_labels(y: np.ndarray[Any, Any]) -> tuple[list[str] | None, np.ndarray[Any, Any]]:
    """Return the names of the classes and the class numbers, −1 for a missing label; whole numbers and real targets are unchanged."""
    if y.dtype.kind in "iuf":
        return None, y
    if y.dtype.kind == "b":
        return None, y.astype(np.int64)
    there = np.array([not _is_missing(label) for label in y.tolist()], dtype=bool)
    names, codes = np.unique(y[there].astype(str), return_inverse=True)
    whole = np.full(len(y), -1, dtype=np.int64)
    whole[there] = codes
    return [str(name) for name in names], whole


def _is_missing(label: Any) -> bool:
    """Return whether a label is missing: None, NaN, or NA or NaT of pandas."""
    return label is None or type(label).__name__ in ("NAType", "NaTType") or bool(label != label)


def _table_with_target(X: np.ndarray[Any, Any], y: np.ndarray[Any, Any], fields: Mapping[str, Any]) -> Any:
    """Return a table of rows with a real target."""
    import pyarrow as pa

    names = [*(fields["feature_names"] or (f"x{column}" for column in range(X.shape[1]))), "y"]
    columns = [*X.T, y]
    for name in ("split", "weight"):
        if fields[name] is not None:
            names, columns = [*names, name], [*columns, np.asarray(fields[name])]
    return pa.Table.from_arrays([as_arrow(np.ascontiguousarray(column)) for column in columns], names=[str(name) for name in names])


def _path_or_written_file(value: Any, folder: Path) -> str:
    """Return the path of a value: the path itself, or that of a file written in `folder`."""
    if isinstance(value, str | os.PathLike):
        return os.fspath(value)
    value = _masked_to_nan(value)
    path = folder / f"{len(list(folder.iterdir()))}" / "python"
    path.parent.mkdir()
    table = _to_arrow_table(value)
    if table is not None:
        import pyarrow.parquet as pq

        pq.write_table(table, path)
    elif isinstance(value, np.ndarray) or hasattr(value, "indptr"):
        rows = value.tocsr() if hasattr(value, "tocsr") else np.atleast_2d(value)
        _save_value(str(path), Dataset(native_arrays.native_matrix(rows, name="X", where="the array")), "hdf5", missing=True)
    elif is_dataclass(value):
        _save_value(str(path), value, "hdf5", missing=True)
    else:
        raise TypeError(f"{type(value).__name__} is neither a path, an array, a table nor what herd makes")
    return str(path)


def _to_arrow_table(value: Any) -> Any:
    """Return a table of pandas, polars or pyarrow as a pyarrow table, else None."""
    if type(value).__module__.startswith("pyarrow"):
        return value
    if hasattr(value, "to_arrow"):  # polars
        return value.to_arrow()
    if type(value).__module__.startswith("pandas"):
        import pyarrow as pa

        return pa.Table.from_pandas(value, preserve_index=False)
    return None
