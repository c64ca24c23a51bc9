"""What Python gets from a command: the frozen dataclass of its artifact, with methods that run further commands on it.

    fit = herd.regress(table, target="price")
    fit.summary()             # the tables of `herd info`
    fit.to_pandas()           # the coefficients
    fit.predict(new_rows)     # `herd apply`
    fit.score()               # one figure of `herd eval`, larger is better; fit.evaluate() returns all
    fit.plot("residuals")     # a figure of matplotlib

The class of a result is a subclass of the artifact's dataclass: fields, `isinstance` and `replace` of `dataclasses` are those of the
dataclass.  It has the methods that its kind can use: `hasattr(result, "sample")` says whether rows can be sampled.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from dataclasses import replace as replace_fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from herdcli import LEARNING, engine, notebook, python_inputs
from herdcli.errors import BadUsage, HerdError, escape_text
from herdcli.kinds import KINDS, kind_for_value
from herdcli.python_inputs import MADE
from herdcli.records import HistoryRecord

Array = np.ndarray[Any, Any]

MOST_LINES = 40  # lines of a repr
MOST_TEXT = 90  # characters of a field in a repr
MOST_JUDGED = 1 << 19  # numbers of an artifact for which a repr computes a verdict
LABELS = ("classifier", "regression", "perceptron", "mixture", "kmeans", "hmm")  # kinds whose predictions are labels, if there are classes


def _split_score(score: str) -> tuple[str, str]:
    """Return the sign and the column of a score: `1 - error` is 1 − the column error."""
    sign = next((sign for sign in ("1 - ", "-") if score.startswith(sign)), "")
    return sign, score.removeprefix(sign)


class SummaryText(str):
    """A text that notebooks and the prompt show as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Result:
    """The methods that the result of every command has."""

    @property
    def history(self) -> list[HistoryRecord]:
        """The records of the commands that made this result, the first one first."""
        return list(vars(self).get(MADE, ([], None))[0])

    @property
    def kind(self) -> str:
        """The kind of artifact, such as rbm or regression."""
        return kind_for_value(type(self)).name

    def save(self, path: str | os.PathLike[str], *, safe_csv: bool = False) -> None:
        """Write the result; the suffix of `path` chooses the format.

        With `safe_csv`, CSV and TSV have an apostrophe before names and texts that spreadsheets take for formulas.
        """
        engine.save(path, self, safe_csv=safe_csv)

    def summary(self) -> SummaryText:
        """Return the tables that `herd info` shows: coefficients, components, marginals, columns; without tables, the fields."""
        return SummaryText(_heading_line(self) + (_tables_text(self) or _fields_text(self)))

    def to_arrow(self) -> Any:
        """Return the main table as a pyarrow.Table: rows of data, coefficients, probabilities of states, atoms with weights, components.

        Raises BadUsage for kinds without tables.
        """
        from herdcli.evaluation.summaries.whole_tables import arrow_table, main_table_columns

        with engine.python_errors():
            columns = main_table_columns(self.kind, self, _level_names(self))
        return arrow_table(columns)

    def to_pandas(self) -> Any:
        """Return the main table as a DataFrame, see `to_arrow`.  Raises BadUsage for kinds without tables, and without pandas."""
        table = self.to_arrow()
        try:
            return table.to_pandas()
        except ImportError as error:
            raise _with_hint(BadUsage("pandas is not installed", hint="pip install pandas, or use to_arrow()")) from error

    def replace(self, **changes: object) -> Any:
        """Return the result with other values of these fields; its history says no more how it was made."""
        return replace_fields(self, **changes)  # type: ignore[type-var]

    def __repr__(self) -> str:
        lines = f"{_heading_line(self)}{_tables_text(self, first_rows=True) or _fields_text(self)}".rstrip("\n").split("\n")
        kept = lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], f"  … {len(lines) - MOST_LINES + 1} more lines: summary()"]
        return "\n".join(kept)

    def __eq__(self, other: object) -> bool:
        base = _artifact_class(type(self))
        if not isinstance(other, base) or _artifact_class(type(other)) is not base:
            return NotImplemented
        return bool(_unwrap_result(self) == _unwrap_result(other))

    def __hash__(self) -> int:
        return hash(_unwrap_result(self))

    def __reduce__(self) -> tuple[Any, ...]:
        state = {name: _plain_field(item) for name, item in vars(self).items()}
        return _restore, (_artifact_class(type(self)), state)


class Applicable:
    """The methods of models that `herd apply` runs new rows through."""

    def apply(self, X: Any, **options: object) -> Any:
        """Return the data set that `herd apply` makes of new rows; options are its keywords, such as `want`."""
        return command_function("apply")(self, X, **options)


class Predictive(Applicable):
    """Models that predict labels, targets or clusters."""

    def predict(self, X: Any, **options: object) -> Array:
        """Return the prediction (n,) for each new row: the name or number of a class, a cluster, a state, or the expected target.

        A model of several labels for each row returns an array (n, labels) of 0 and 1.
        """
        made = self.apply(X, **options)
        if kind_for_value(type(self)).name not in LABELS or made.y is None:
            return np.asarray(made.X if kind_for_value(type(self)).name == "tagger" else made.X[:, 0])
        names = made.class_names
        return np.asarray(made.y) if names is None else np.array(names, dtype=object)[made.y]


class Probabilistic(Applicable):
    """Models that can give the probability of each class, cluster or state."""

    def predict_proba(self, X: Any, **options: object) -> Array:
        """Return probabilities (n, classes) of the classes, clusters or states of each new row.

        Raises BadUsage for a model without classes.
        """
        name = kind_for_value(type(self)).name
        want = {"mixture": "responsibilities", "hmm": "smoothed"}.get(name)
        made = self.apply(X, **({"want": want} if want else {}), **options)
        if want is None and made.class_names is None and made.y is None:
            raise _with_hint(BadUsage(f"this {name} predicts a number, not classes", hint="call predict(X)"))
        return np.asarray(made.X)


class Transforming(Applicable):
    """Models that represent rows by features."""

    def transform(self, X: Any, **options: object) -> Array:
        """Return the features (n, k) of new rows: hidden means, outputs of filters, factor scores, or states."""
        return np.asarray(self.apply(X, **options).X)


class Generative:
    """Models from which rows can be sampled."""

    def sample(self, count: int = 1, **options: object) -> Any:
        """Return a data set of `count` sampled rows; options are those of `herd sample`."""
        return command_function("sample")(self, count=count, **options)


class Evaluated:
    """Kinds that `herd eval` has figures for."""

    def evaluate(self, data: Any = None, y: Any = None, **options: object) -> dict[str, Any]:
        """Return the figures of `herd eval`, with the verdict, for the held-out rows that the model keeps, or for other rows."""
        if y is not None:
            data = python_inputs.join_rows_and_labels(data, y, {})
        figures: dict[str, Any] = command_function("eval")(self, **({} if data is None else {"data": data}), **options)[0]
        return {name: item for name, item in figures.items() if name != "file"}


class Scored(Evaluated):
    """Kinds with one figure that says how good they are."""

    def score(self, data: Any = None, y: Any = None, **options: object) -> float:
        """Return one figure of `evaluate`, larger is better.

        Accuracy of classifiers, explained share of the variance or deviance of regressions, mean log-likelihood in nats of densities, minus
        the squared error of k-means, minus the MMD of atoms.  Raises BadUsage if there are no rows to compute it from.
        """
        figures = self.evaluate(data, y, **options)
        name = kind_for_value(type(self)).name
        columns = [(sign, column) for sign, column in map(_split_score, KINDS[name].score) if figures.get(column) is not None]
        if columns:
            sign, column = columns[0]
            value = float(figures[column])
            return {"": value, "-": -value, "1 - ": 1.0 - value}[sign]
        why = f"herd eval has no {' or '.join(_split_score(score)[1] for score in KINDS[name].score)} for it"
        raise _with_hint(BadUsage(f"this {name} has no score: {why}", hint="pass rows: score(data)"))


class Drawable:
    """Kinds with plots."""

    def plot(self, name: str | None = None, path: str | os.PathLike[str] | None = None) -> Any:
        """Return a figure of matplotlib, one of `plots()`, the first by default; with `path`, also write it as .png, .pdf or .svg.

        Raises BadUsage for unknown names, for a plot that this result has no data for, and without matplotlib.
        """
        from herdcli.evaluation.evaluation_settings import EvaluationSettings
        from herdcli.evaluation.plots import plot_list

        kind = kind_for_value(type(self)).name
        with engine.python_errors():
            figure = plot_list.import_plot_function(kind, name or plot_list.plot_names(kind)[0])(self, EvaluationSettings(), map=map)
            if path is not None:
                suffix = Path(path).suffix.lower()
                if suffix not in plot_list.SUFFIXES:
                    raise BadUsage(
                        f"{os.fspath(path)}: a plot needs the suffix .png, .pdf or .svg", hint="give the file one of these suffixes"
                    )
                plot_list.write_figure(figure, path, suffix)
        return figure

    def plots(self) -> list[str]:
        """Return the names of the plots of this kind."""
        return list(kind_for_value(type(self)).plots)


PREDICTIVE = (*LABELS, "predictor", "tagger")
PROBABILISTIC = ("classifier", "regression", "perceptron", "mixture", "hmm")
METHODS: tuple[tuple[type, Callable[[str], bool]], ...] = (  # class of methods -> whether a kind has them
    (Predictive, lambda kind: kind in PREDICTIVE),
    (Probabilistic, lambda kind: kind in PROBABILISTIC),
    (Transforming, lambda kind: KINDS[kind].apply is not None and kind not in PREDICTIVE),
    (Generative, lambda kind: KINDS[kind].sample is not None),
    (Scored, lambda kind: bool(KINDS[kind].score)),
    (Evaluated, lambda kind: KINDS[kind].metrics is not None and not KINDS[kind].score),
    (Drawable, lambda kind: bool(KINDS[kind].plots)),
)


_classes: dict[type, type] = {}  # dataclass -> its subclass with methods


def result_class(artifact_class: type) -> type:
    """Return the class of results with the fields of one artifact's dataclass and the methods of its kind."""
    kind = kind_for_value(artifact_class).name
    return _subclass(artifact_class, Result, *(part for part, applies in METHODS if applies(kind)))


def _subclass(artifact_class: type, *parts: type) -> type:
    """Return a class with the methods of `parts` and the fields, the name and the docstring of a dataclass."""
    if artifact_class not in _classes:
        names = {"__module__": artifact_class.__module__, "__qualname__": artifact_class.__qualname__, "__doc__": artifact_class.__doc__}
        _classes[artifact_class] = type(artifact_class.__name__, (*parts, artifact_class), names)
    return _classes[artifact_class]


class _CallableField:
    """A field of a result that has the name of a method, `summary` of samples, and is called as one."""

    def __call__(self, *arguments: object, **options: object) -> Any:
        return vars(self)["_method"](*arguments, **options)

    def __reduce__(self) -> tuple[Any, ...]:
        state = {name: item for name, item in vars(self).items() if name != "_method"}
        return _copy_of_state, (state, _artifact_class(type(self)))


def wrap_as_result(value: Any) -> Any:
    """Return an artifact as a result.  Other values, such as figures, are unchanged."""
    if not is_dataclass(value) or isinstance(value, (type, Result)):
        return value
    made: Any = value
    object.__setattr__(made, "__class__", result_class(type(value)))
    for name in [field.name for field in fields(made) if hasattr(Result, field.name)]:
        item = vars(made)[name]
        if item is not None:
            item = _copy_of_state(vars(item), _subclass(type(item), _CallableField))
            vars(item)["_method"] = partial(getattr(Result, name), made)
            vars(made)[name] = item
    return made


def _artifact_class(part: type) -> type:
    """Return the dataclass of a result's class."""
    return next(each for each in part.__mro__ if not issubclass(each, (Result, _CallableField)) and is_dataclass(each))


def _copy_of_state(state: Mapping[str, Any], part: type) -> Any:
    """Return an instance of a dataclass with these fields."""
    made: Any = object.__new__(part)
    vars(made).update(state)
    return made


def _plain_field(value: Any) -> Any:
    """Return a field without the method that it is called as."""
    if not isinstance(value, _CallableField):
        return value
    return _copy_of_state({name: item for name, item in vars(value).items() if name != "_method"}, _artifact_class(type(value)))


def _unwrap_result(value: Any) -> Any:
    """Return a result as its dataclass, with its history."""
    return _copy_of_state({name: _plain_field(item) for name, item in vars(value).items()}, _artifact_class(type(value)))


def _restore(artifact_class: type, state: dict[str, Any]) -> Any:
    """Return the result that was pickled or copied."""
    return wrap_as_result(_copy_of_state(state, artifact_class))


def _with_hint(error: HerdError) -> HerdError:
    """Return an error whose text has the hint too."""
    error.shows_hint = True
    return error


def _level_names(value: Any) -> Mapping[str, Any]:
    from herdcli.cli.frame.output.summary_text import state_names_by_column

    return state_names_by_column(vars(value).get(MADE, ([], None))[1])


def _heading_line(value: Any) -> str:
    """Return the first line: class, kind, verdict."""
    name, kind = type(value).__qualname__, kind_for_value(type(value)).name
    verdict = _verdict(kind, value)
    return f"{name}{f' ({kind})' if kind != name.lower() else ''}{f', verdict: {verdict}' if verdict else ''}\n"


def _verdict(kind: str, value: Any) -> str | None:
    """Return the verdict at the end of training, of results that are small; None for kinds without one."""
    if kind == "dataset" or sum(getattr(item, "size", 0) for item in vars(value).values()) > MOST_JUDGED:
        return None
    from herdcli.evaluation import verdicts

    try:
        return verdicts.quick_verdict(kind, value)[0]
    except HerdError:  # no verdict without options, for instance classes without validation rows
        return None


def _tables_text(value: Any, *, first_rows: bool = False) -> str:
    """Return the tables of `herd info`; for a data set and `first_rows`, its first rows."""
    from herdcli.cli.frame.output import summary_text

    recoding = vars(value).get(MADE, ([], None))[1]
    if first_rows:
        text = summary_text.result_text(value, recoding)
    else:
        text = summary_text.tables_text(summary_text.summary_tables(kind_for_value(type(value)).name, value, recoding))
    return re.sub(r": (-o FILE|herd info --format json) has all", ": to_pandas() has all", text)


def _fields_text(value: Any) -> str:
    """Return a line for each field that is not empty."""
    items = ((field.name, getattr(value, field.name)) for field in fields(value) if field.repr)
    shown = ((name, notebook.describe_value(item)) for name, item in items if item is not None and not _is_empty_list(item))
    return "".join(f"  {name}={escape_text(text if len(text) <= MOST_TEXT else f'{text[:MOST_TEXT]}…')}\n" for name, text in shown)


def _is_empty_list(item: Any) -> bool:
    return isinstance(item, list | tuple | dict) and not item


def command_function(name: str) -> Callable[..., Any]:
    """Return the function of one command: that of the engine, whose artifact is returned as a result."""
    run = engine.command_function(name)

    def learn(X: Any = None, y: Any = None, **options: object) -> Any:
        return wrap_as_result(run(X, y, **options))

    def compute(*inputs: object, **options: object) -> Any:
        return wrap_as_result(run(*inputs, **options))

    chosen = learn if name in LEARNING else compute
    chosen.__name__ = chosen.__qualname__ = name
    chosen.__doc__, chosen.__module__ = run.__doc__, "herdcli"
    vars(chosen)["__signature__"] = engine.command_signature(name)
    return chosen


def load(path: str | os.PathLike[str], **how: object) -> Any:
    """Return the contents of a file as a result: an artifact, a data set in any format, or a network or model that herd wrote as text or
    weights.

    `how` are the keywords of herdcli.artifacts.load.  ONNX files and tables of results are written only.
    """
    return wrap_as_result(engine.load(path, **how))


save, check = engine.save, engine.check
