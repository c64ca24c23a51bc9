"""`herd regress --gls`: the covariance of the errors, and training rows whitened by it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.regress.inputs import RegressionInputs
    from herdcli.regression.covariance import LeastSquaresColumns, WhitenedRows
    from herdcli.regression.model import GeneralisedLinear
    from herdcli.schema import Array

RANDOM_WALK = 0.98  # correlation above which a model of differences is better than one of levels


@dataclass(frozen=True)
class ErrorCovariance:
    """The value of --gls.

    name         ar1, variance or given.
    correlation  the given correlation of ar1, if any.
    columns      the given columns of variance, if any.
    path         the file of a covariance matrix.
    """

    name: str
    correlation: float | None = None
    columns: tuple[str, ...] = ()
    path: str = ""


def parse_error_covariance(gls: str | None) -> ErrorCovariance | None:
    """Parse --gls.  Raises BadUsage for a correlation outside (−1, 1)."""
    if gls is None:
        return None
    name, _, rest = gls.partition(":")
    if name == "variance":
        return ErrorCovariance("variance", columns=tuple(text.strip() for text in rest.split(",") if text.strip()))
    if name != "ar1":
        return ErrorCovariance("given", path=gls)
    if not rest:
        return ErrorCovariance("ar1")
    try:
        value = float(rest)
    except ValueError:
        value = float("nan")
    if not -1 < value < 1:
        raise BadUsage(f"--gls ar1:{rest}: the correlation has to be above −1 and below 1")
    return ErrorCovariance("ar1", value)


def whiten_errors(session: Session, inputs: RegressionInputs, errors: ErrorCovariance) -> tuple[WhitenedRows, Array]:
    """Return the training rows whitened to independent errors of equal variance, and the variance (n,) of every row in that unit."""
    from herdcli.regression import covariance

    training = inputs.split == 0
    y = inputs.y - inputs.offset
    columns = covariance.LeastSquaresColumns(inputs.X[training], np.ones(int(training.sum())), y[training])
    weight = np.ones(len(y)) if inputs.weight is None else inputs.weight
    if not (weight[training] > 0).all():
        raise DataError("--gls needs weights above 0, because they are precisions", where=inputs.history.name)
    columns, variance = columns.scale_rows(np.sqrt(weight[training])), 1 / np.maximum(weight, 1e-300)
    if errors.name == "ar1":
        found = _whiten_in_time(session, columns, inputs, training, errors.correlation)
    elif errors.name == "variance":
        found = _whiten_by_columns(session, columns, inputs, training, errors.columns)
        gamma = found.gamma
        assert gamma is not None
        variance = variance * np.exp(inputs.X @ gamma[:-1] + gamma[-1])
    else:
        matrix = _read_covariance(session, errors.path, len(y))
        found = covariance.whiten_by_covariance(columns, matrix[np.ix_(training, training)])
        variance = variance * np.diag(matrix)
    return replace(found, log_determinant=found.log_determinant - float(np.log(weight[training]).sum())), variance


def relative_error_variances(model: GeneralisedLinear, X: Array, weight: Array | None) -> Array | None:
    """Return the error variances (n,) of other rows in units of the dispersion; None if they are unknown or all equal."""
    if not model.gls or model.gls == "given":
        return None
    gamma = model.log_variance
    found = np.ones(len(X)) if gamma is None else np.exp(X @ gamma[:-1] + gamma[-1])
    return found if weight is None else np.asarray(found / np.maximum(weight, 1e-300))


def _whiten_in_time(
    session: Session, columns: LeastSquaresColumns, inputs: RegressionInputs, training: Array, correlation: float | None
) -> WhitenedRows:
    from herdcli.regression import covariance

    assert inputs.steps is not None
    steps = inputs.steps.select_rows(training)
    if correlation is not None:
        return covariance.whiten_ar1(columns, steps, correlation)
    found = covariance.fit_ar1(columns, steps, session.map)
    assert found.correlation is not None
    session.console.note(f"errors of rows next to each other have a correlation of {found.correlation:.4g}")
    if found.correlation > RANDOM_WALK:
        session.console.warn(
            "the errors are almost a random walk, so the relation may be spurious; regress the differences of the columns instead"
        )
    return found


def _whiten_by_columns(
    session: Session, columns: LeastSquaresColumns, inputs: RegressionInputs, training: Array, names: tuple[str, ...]
) -> WhitenedRows:
    from herdcli.regression import covariance

    known = inputs.names or [f"x{j}" for j in range(inputs.X.shape[1])]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise BadUsage(f"--gls variance: there is no column {unknown[0]}", hint=f"columns: {', '.join(known[:12])}")
    chosen = [known.index(name) for name in names] or list(range(len(known)))
    found = covariance.fit_variance_model(columns, inputs.X[training][:, chosen], session.map)
    assert found.gamma is not None
    gamma = np.zeros(len(known) + 1)
    gamma[[*chosen, -1]] = found.gamma
    return replace(found, gamma=gamma)


def _read_covariance(session: Session, path: str, rows: int) -> Array:
    """Read the covariance (n, n) from a file."""
    session.require_memory(24 * rows * rows, f"the covariance of {rows} rows")
    found = session.load(path, "covariance", kinds={"dataset"})
    X = found.value.X
    matrix = np.asarray(X.toarray() if hasattr(X, "indptr") else X, dtype=np.float64)
    if matrix.shape != (rows, rows):
        raise DataError(
            f"has {matrix.shape[0]} × {matrix.shape[1]} values, expected {rows} × {rows}, a row and a column for each row", where=path
        )
    return matrix
