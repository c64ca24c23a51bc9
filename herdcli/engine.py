"""Every command as a function of Python: arrays, tables, artifacts or paths go in, the frozen dataclass that the command writes comes out.

    import herdcli as herd
    rbm = herd.fit_rbm(X, hidden=100, epochs=20)
    herd.eval(rbm)[0]["log_likelihood"]

A call is its command, run in this process on files in a folder of its own: same options, same checks, same arrays.  Options are keywords
(`learning_rate=0.1` is --learning-rate 0.1); warnings are Python's; errors are those of `herdcli.errors`.  Shards say in their history
which run they are of, so that they are files: `herd.fit_rbm(…)` has no `shard`, and `herd.merge` takes their paths, or classifiers.
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
from herdcli.cli.main import COMMANDS, cli
from herdcli.errors import BadUsage, HerdError, Interrupted
from herdcli.records import set_notebook_view
from herdcli.scratch import scratch_folder

NOT_HERE = ("output", "help", "quiet", "verbose", "debug", "no_clobber", "shard", "dry_run")  # options of commands alone
PYTHON = provenance.stage_record("python", {}, {})  # the history of what nobody knows the making of
MADE = "_made"  # attribute of a value that a function returned: its history, and what it learned of text and gaps in its columns


set_notebook_view(notebook.artifact_html)


def load(path: str | os.PathLike[str], **how: Any) -> Any:
    """What a file holds: the frozen dataclass of an artifact, or a data set of any format.  `how` is that of herdcli.artifacts.load."""
    return _known(artifacts.load(os.fspath(path), **how))


def save(path: str | os.PathLike[str], value: Any) -> None:
    """Write an artifact with the history of what was made here or read, else saying `python`; the suffix says the format."""
    _saved(os.fspath(path), value)


def _known(artifact: artifacts.Artifact) -> Any:
    """The value, remembering where it comes from until it is changed: `dataclasses.replace` forgets."""
    object.__setattr__(artifact.value, MADE, (artifact.history, artifact.recoding))
    return artifact.value


def _saved(path: str, value: Any, format: str | None = None, *, missing: bool = False) -> None:
    history, recoding = vars(value).get(MADE, ([], None))
    artifacts.save(path, value, history or [PYTHON], format=format, recoding=recoding, missing=missing)


def check(*paths: str | os.PathLike[str]) -> None:
    """Raise DataError unless every file's seal and contents are good."""
    for path in paths:
        artifacts.load(os.fspath(path))


def function(name: str) -> Callable[..., Any]:
    """The function of one command, with the command's help as its documentation."""
    command, makes = _command(name), _evaluated if name == "eval" else _made

    def run(*inputs: Any, **options: Any) -> Any:
        return makes(name, command, inputs, options)

    def learn(X: Any = None, y: Any = None, **options: Any) -> Any:
        return makes(name, command, [] if X is None else [_rows(X, y, options)], options)

    chosen = learn if name in LEARNING else run
    chosen.__name__ = chosen.__qualname__ = name
    chosen.__doc__ = f"{command.help}\n\nOptions, as keywords:\n\n{_option_lines(command)}"
    vars(chosen)["__signature__"] = signature(name)
    return chosen


def signature(name: str) -> inspect.Signature:
    """The parameters of the function of one command: what it takes as inputs, and its options with their types and defaults."""
    inputs = (
        [_parameter("X", "Any", None), _parameter("y", "Any", None), *(_parameter(each, "Any", None, keyword=True) for each in KNOWN)]
        if name in LEARNING
        else [inspect.Parameter("inputs", inspect.Parameter.VAR_POSITIONAL, annotation="Any")]
    )
    options = [
        _parameter(f"{keyword}_" if iskeyword(keyword) else keyword, _annotation(option), _default(option), keyword=True)
        for keyword, option in _options(_command(name)).items()
        if keyword not in KNOWN
    ]
    returned = "list[dict[str, Any]]" if name == "eval" else "Any"
    return inspect.Signature([*inputs, *options], return_annotation=returned)


def _parameter(name: str, annotation: str, default: object, *, keyword: bool = False) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY if keyword else inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _annotation(option: click.Option) -> str:
    """The type of an option's values: numbers, texts, names out of a list; of forms of their own and of files whatever makes them."""
    kind: object = option.type
    if option.is_flag:
        return "bool" if _default(option) is not None else "bool | None"
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
    return found if _default(option) is not None else f"{found} | None"


def _default(option: click.Option) -> object:
    """The value without the option; None where it depends on others."""
    value = option.default
    if option.is_flag and not option.secondary_opts:
        return bool(value is True)
    return value if isinstance(value, (bool, int, float, str)) else None


def _option_lines(command: click.Command) -> str:
    """Keyword and help of each option."""
    return "\n".join(f"  {keyword}: {' '.join((option.help or '').split())}" for keyword, option in _options(command).items())


def _command(name: str) -> click.Command:
    found: click.Command = import_module(COMMANDS[name.replace("_", "-")][0]).command
    return found


def _options(command: click.Command) -> dict[str, click.Option]:
    """Keyword -> option: the long names that are typed, with _ for -."""
    return {
        text.lstrip("-").replace("-", "_"): option
        for option in command.params
        if isinstance(option, click.Option) and option.name not in NOT_HERE
        for text in option.opts
        if text.startswith("--")
    }


def _made(name: str, command: click.Command, inputs: Sequence[Any], options: Mapping[str, object]) -> Any:
    with _folder() as folder:
        _run(name, command, folder, inputs, options, ["--output", str(folder / "made")])
        return _known(artifacts.load(str(folder / "made"), missing=True))


def _evaluated(name: str, command: click.Command, inputs: Sequence[Any], options: Mapping[str, object]) -> list[dict[str, Any]]:
    with _folder() as folder:
        _run(name, command, folder, inputs, options, ["--format", "json", "--output", str(folder / "figures.json")])
        rows: list[dict[str, Any]] = json.loads((folder / "figures.json").read_text(encoding="utf-8"))
        return [{name: _unplaced(item, folder) if isinstance(item, str) else item for name, item in row.items()} for row in rows]


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with scratch_folder() as name:
        yield Path(name)


def _run(
    name: str, command: click.Command, folder: Path, inputs: Sequence[Any], options: Mapping[str, object], ends: Sequence[str]
) -> None:
    """The command in this process; what it warns of becomes Python's warnings."""
    from threadpoolctl import threadpool_limits

    typed = [*_typed(name, command, options, folder), *ends, "--quiet", "--", *(_file(each, folder) for each in inputs)]
    warned: list[str] = []
    try:
        with threadpool_limits(1, user_api="blas"):  # sums must not depend on the machine's cores; `threads` are herd's own
            cli.main([name.replace("_", "-"), *typed], prog_name="herd", standalone_mode=False, obj=warned)
    except click.ClickException as error:
        raise BadUsage(error.format_message()) from error
    except Interrupted as error:  # by Ctrl-C, which no `except Exception` of the caller's stops
        raise KeyboardInterrupt(str(error)) from error
    except HerdError as error:
        error.where = None if error.where is None else _unplaced(error.where, folder)
        raise
    for message in warned:
        warnings.warn(f"herd {name.replace('_', '-')}: {_unplaced(message, folder)}", stacklevel=4)


def _unplaced(text: str, folder: Path) -> str:
    """A message whose files of this call have no folder."""
    return re.sub(rf"{re.escape(str(folder))}/(\d+/)?", "", text)


def _short(command: click.Command, keyword: str) -> list[str]:
    """The keyword of a short option: count of m."""
    return [name for name, option in _options(command).items() if f"-{keyword}" in option.opts]


def _typed(name: str, command: click.Command, options: Mapping[str, object], folder: Path) -> Iterator[str]:
    """Keywords as a command line.  Raises TypeError for those that the command has not."""
    known = _options(command)
    for keyword, value in options.items():
        option = known.get(keyword.rstrip("_"))
        if option is None:
            close = _short(command, keyword) or get_close_matches(keyword, known, n=1)
            raise TypeError(f"{name}() has no option {keyword!r}{f'; did you mean {close[0]!r}?' if close else ''}")
        text = next(text for text in option.opts if text.startswith("--"))
        if isinstance(value, bool | np.bool_):
            yield from [text] if value else option.secondary_opts[:1]
        elif value is not None:
            for each in value if option.multiple and isinstance(value, list | tuple) else [value]:
                yield from (text, *(map(_word, cast(Sequence[object], each)) if option.nargs > 1 else [_argument(each, folder)]))


def _argument(value: Any, folder: Path) -> str:
    """One value of an option: numbers in a list are joined by commas; arrays, tables and artifacts become files."""
    if isinstance(value, list | tuple):
        return ",".join(map(_word, value))
    return _word(value) if isinstance(value, str | os.PathLike | int | float | np.number) else _file(value, folder)


def _word(value: Any) -> str:
    return os.fspath(value) if isinstance(value, str | os.PathLike) else repr(value.item() if isinstance(value, np.number) else value)


def _rows(X: Any, y: Any, options: dict[str, object]) -> object:
    """Rows and what is known of them as one input; takes `feature_names`, `row_split`, `row_weight` and `image_shape` from the options."""
    X = _unmasked(X)
    X = X[:, np.newaxis] if isinstance(X, np.ndarray) and X.ndim == 1 else X  # one column, as of a file with a vector
    known: dict[str, Any] = {field: options.pop(name, None) for name, field in KNOWN.items()}
    if y is None and not any(item is not None for item in known.values()):
        return X
    if not isinstance(X, np.ndarray) and not hasattr(X, "indptr"):
        raise TypeError("labels, splits and weights come beside arrays; of tables, files and data sets they are columns or fields")
    classes, codes = (None, None) if y is None else _labels(np.asarray(y))
    if codes is not None and codes.dtype.kind == "f":
        return _table(np.asarray(X), codes, known)
    fields: dict[str, Any] = {name: None if item is None else np.asarray(item) for name, item in known.items() if name != "feature_names"}
    names = known["feature_names"]
    return Dataset(X, codes, **fields, feature_names=None if names is None else [str(name) for name in names], class_names=classes)


def _unmasked(value: Any) -> Any:
    """A masked array with NaN where it is masked; anything else as it is."""
    return np.where(np.ma.getmaskarray(value), np.nan, np.ma.getdata(value)) if np.ma.is_masked(value) else value


KNOWN = {"row_split": "split", "row_weight": "weight", "feature_names": "feature_names", "image_shape": "image_shape"}


def _labels(y: np.ndarray[Any, Any]) -> tuple[list[str] | None, np.ndarray[Any, Any]]:
    """Names of classes and their numbers, −1 where there is no label; whole numbers and real targets are what they are."""
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
    """Is a label none: None, pandas' NA and NaT, or NaN?"""
    return label is None or type(label).__name__ in ("NAType", "NaTType") or bool(label != label)


def _table(X: np.ndarray[Any, Any], y: np.ndarray[Any, Any], known: Mapping[str, Any]) -> Any:
    """A table of rows whose target is real."""
    import pyarrow as pa

    names = [*(known["feature_names"] or (f"x{column}" for column in range(X.shape[1]))), "y"]
    columns = [*X.T, y]
    for name in ("split", "weight"):
        if known[name] is not None:
            names, columns = [*names, name], [*columns, np.asarray(known[name])]
    return pa.Table.from_arrays([as_arrow(np.ascontiguousarray(column)) for column in columns], names=[str(name) for name in names])


def _file(value: Any, folder: Path) -> str:
    """The path of a value: its own, or that of a file made of it here."""
    if isinstance(value, str | os.PathLike):
        return os.fspath(value)
    value = _unmasked(value)
    path = folder / f"{len(list(folder.iterdir()))}" / "python"
    path.parent.mkdir()
    table = _arrow(value)
    if table is not None:
        import pyarrow.parquet as pq

        pq.write_table(table, path)
    elif isinstance(value, np.ndarray) or hasattr(value, "indptr"):
        rows = value.tocsr() if hasattr(value, "tocsr") else np.atleast_2d(value)
        _saved(str(path), Dataset(native_arrays.native_matrix(rows, name="X", where="the array")), "hdf5", missing=True)
    elif is_dataclass(value):
        _saved(str(path), value, "hdf5", missing=True)
    else:
        raise TypeError(f"{type(value).__name__} is neither a path, an array, a table nor what herd makes")
    return str(path)


def _arrow(value: Any) -> Any:
    """A table of pandas, polars or pyarrow as pyarrow's, else None."""
    if type(value).__module__.startswith("pyarrow"):
        return value
    if hasattr(value, "to_arrow"):  # polars
        return value.to_arrow()
    if type(value).__module__.startswith("pandas"):
        import pyarrow as pa

        return pa.Table.from_pandas(value, preserve_index=False)
    return None
