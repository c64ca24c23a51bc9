"""The fit of `herd regress` and its output: the artifact, or the table of its coefficients."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts.recoding import one_hot_column_names
from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.run import block_placement
from herdcli.cli.regress.error_covariance import parse_error_covariance, whiten_errors
from herdcli.cli.regress.inputs import MOST_CLASSES
from herdcli.cli.regress.training_rows import heldout_linear_predictors, select_rows, training_rows
from herdcli.errors import BadUsage, DataError, NotConverged
from herdcli.regression import count_detection
from herdcli.schema import is_sparse

if TYPE_CHECKING:
    from herdcli.cli.frame.output.outputs import HistorySource
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.regress.inputs import RegressionInputs
    from herdcli.cli.regress.request import Request
    from herdcli.numerics.class_baselines import ClassBaselines
    from herdcli.regression.families import Family
    from herdcli.regression.model import GeneralisedLinear
    from herdcli.schema import Array

OF_FORM = {"successes": "bernoulli", "shares": "bernoulli", "counts": "poisson", "rates": "poisson"}
FIRTH = ("bernoulli", "poisson")
MOST_NAMES = 8  # maximum number of names in a message
TABLES = {".csv": "csv", ".tsv": "tsv", ".md": "markdown", ".json": "json", ".tex": "latex"}


def check_output(session: Session, request: Request) -> None:
    """Raise an error for an output that cannot be written, before any work is done."""
    if request.hidden:
        if _table_format(session) is not None:
            raise BadUsage(
                f"{session.output}: a perceptron (--hidden) has no table of coefficients to write", hint="write HDF5: -o FILE.h5"
            )
        if session.cluster is not None:
            raise BadUsage("--hidden and --cluster exclude each other", hint="leave out --cluster")
        outputs.check_artifact_output(session, "perceptron")
    elif _table_format(session) is None or session.shard is not None:
        outputs.check_artifact_output(session, "regression")
    else:
        outputs.check_text_output(session)


def _table_format(session: Session) -> str | None:
    return next((name for suffix, name in TABLES.items() if session.output.lower().endswith(suffix)), None)


def fit_regression(session: Session, inputs: RegressionInputs, request: Request) -> None:
    """Fit a regression to the training rows, add predictions of the held-out rows, and save it."""
    from herdcli.regression import centring, weight_meaning
    from herdcli.regression.fit import RegressionProblem
    from herdcli.regression.model import assemble_regression, initial_coefficients
    from herdcli.regression.newton_cg import TrustRegion, make_large_problem_descent
    from herdcli.regression.sparse_rows import regression_blocks

    training = inputs.split == 0
    if not training.any():
        raise DataError("there are no training rows", where=inputs.history.name, hint="make a new split: --split .8,.1,.1")
    distribution = choose_family(session, inputs, request)
    weight_meaning.require_targets(distribution, choose_weight_kind(session, inputs, request.weight_kind), inputs.y)
    require_varying_target(session, inputs, distribution)
    outputs_of = getattr(distribution, "free", 1)
    errors, whitened, variance = parse_error_covariance(request.gls), None, None
    centre = None if is_sparse(inputs.X) else centring.find_centre(inputs.X, training)
    if errors is not None:
        near = inputs if centre is None else replace(inputs, X=inputs.X - centre)
        found, variance = whiten_errors(session, near, errors)
        whitened, problem = (errors.name, found), found.columns.problem()
    else:
        problem = RegressionProblem(
            training_rows(inputs, centre),
            distribution,
            outputs_of,
            inputs.X.shape[1],
            request.l1,
            request.ridge,
            firth=request.penalty == "firth",
            weights=choose_weight_kind(session, inputs, request.weight_kind),
        )
    source = block_placement.place_blocks_on_workers(session, regression_blocks(problem.rows))
    algorithm = make_large_problem_descent(problem, initial_coefficients(problem, session.map), request.iterations, session.map, source)
    curvature = f"the curvature of {outputs_of} × {inputs.X.shape[1] + 1} coefficients"
    if isinstance(algorithm, TrustRegion) and not problem.l2:
        session.require_memory(
            algorithm.memory(), curvature, "use --l2 0.001, which needs no curvature matrix and gives no standard errors"
        )
    fit = session.run(
        algorithm,
        label="fitting",
        memory=curvature,
        after=algorithm.estimate_error_costs if isinstance(algorithm, TrustRegion) else None,
    )
    value = assemble_regression(
        problem,
        fit,
        names=inputs.names,
        classes=inputs.classes,
        target=inputs.target,
        seed=request.seed,
        whitened=whitened,
        centre=centre,
        pearson=request.dispersion == "pearson",
        map=session.map,
    )
    image = inputs.image_shape if inputs.image_shape is not None and int(np.prod(inputs.image_shape)) == inputs.X.shape[1] else None
    value = replace(value, response=inputs.form, baselines=fit_baselines(distribution, inputs), image_shape=image)
    value = _add_heldout_rows(value, inputs, variance)
    write_result(session, value, inputs.history)
    warn_of_result(session, value, request.on_nonconvergence, request.iterations)


def choose_weight_kind(session: Session, inputs: RegressionInputs, weight_kind: str | None) -> str:
    """Return the meaning of the weights: trials or exposure if the target is counted in them, else --weight-kind."""
    kind = {"successes": "trials", "shares": "trials", "rates": "exposure"}.get(inputs.form)
    if kind is None and inputs.weight is None:
        session.warn_of_ignored_option("weight_kind", "without weights")
    return kind or weight_kind or "precision"


def _add_heldout_rows(value: GeneralisedLinear, inputs: RegressionInputs, variance: Array | None) -> GeneralisedLinear:
    """Return the model with the rows of split 1 and 2.  variance  (n,) of all rows under --gls, weights included."""
    from herdcli.regression.model import HeldoutRows

    held = np.isin(inputs.split, (1, 2))
    if not held.any():
        return value
    before = gap = None
    if inputs.steps is not None and variance is not None:
        before, gap = (item[held] for item in value.last_known_errors(inputs.steps, inputs.X, inputs.offset, inputs.y, variance))
    rows = HeldoutRows(
        predictor=heldout_linear_predictors(value, inputs, held),
        offset=inputs.offset[held],
        y=inputs.y[held],
        split=inputs.split[held],
        weight=None if inputs.weight is None or variance is not None else inputs.weight[held],
        variance=None if variance is None else variance[held],
        before=before,
        gap=gap,
        baselines=None if value.baselines is None else value.baselines.predictions(select_rows(inputs.X, held)),
    )
    return replace(value, holdout=rows)


def fit_baselines(distribution: Family, inputs: RegressionInputs) -> ClassBaselines | None:
    """Return simple classifiers fitted to the training rows, if each row has one class, else None."""
    from herdcli.numerics import class_baselines
    from herdcli.numerics.block_units import select_evenly_spaced

    if distribution.name not in ("bernoulli", "softmax") or not np.isin(inputs.y, np.arange(max(2, len(inputs.classes or [])))).all():
        return None
    chosen = select_evenly_spaced(inputs.split == 0, class_baselines.MOST_ROWS)
    weight = None if inputs.weight is None else inputs.weight[chosen]
    X = inputs.X if len(chosen) == len(inputs.y) and isinstance(inputs.X, np.ndarray) else inputs.X[chosen]
    return class_baselines.fit_baselines(X, inputs.y[chosen].astype(np.int64), max(2, len(inputs.classes or [])), weight)


def choose_family(session: Session, inputs: RegressionInputs, request: Request) -> Family:
    """Return the family of --family, or the one that fits the target's values."""
    from herdcli.regression.families import family_by_name

    count = len(inputs.classes or [])
    chosen = "gaussian" if request.gls else request.family or OF_FORM.get(inputs.form)
    if count == 1:
        only = f"every row has the target '{(inputs.classes or [''])[0]}', so there is nothing to predict"
        raise DataError(only, where=inputs.history.name, hint="name another column: --target COLUMN")
    if chosen is None:
        two = inputs.classes is None and bool(np.isin(inputs.y, (0, 1)).all())
        counted = not (two or count) and len(np.unique(inputs.y)) <= MOST_CLASSES and count_detection.look_like_counts(inputs.y)
        chosen = "bernoulli" if two or count == 2 else "softmax" if count else "poisson" if counted else "gaussian"
        what = f"{count} classes" if count else "0 and 1" if two else f"counts up to {inputs.y.max():g}" if counted else "numbers"
        session.console.note(f"the target '{inputs.title}' holds {what}: --family {chosen}{_alternative_family(inputs, chosen)}")
        _note_possible_counts(session, inputs, request.weight_kind, request.weights)
    if chosen == "softmax" and count < 2:
        raise DataError(f"the target '{inputs.title}' holds numbers, but --family softmax needs classes", where=inputs.history.name)
    if chosen != "gamma-shape":
        session.warn_of_ignored_option("gamma_scale", f"with --family {chosen}")
    if request.penalty == "firth" and chosen not in FIRTH:
        raise BadUsage(f"--penalty firth works only with --family {' and '.join(FIRTH)}, not {chosen}", hint="use --l2 0.001")
    if chosen in ("gaussian", "gamma"):
        session.warn_of_ignored_option("dispersion", f"with --family {chosen}, whose dispersion is always estimated")
    elif request.dispersion == "pearson" and chosen == "softmax":
        raise BadUsage("--dispersion pearson works only with --family bernoulli, poisson and gamma-shape, not softmax", hint="leave it out")
    if chosen == "bernoulli" and count > 2:
        raise DataError(
            f"the target has {count} classes, but --family bernoulli needs two", where=inputs.history.name, hint="use --family softmax"
        )
    if chosen == "bernoulli" and inputs.classes and inputs.classes != ["0", "1"]:
        session.console.note(f"coefficients are for the probability of '{inputs.classes[1]}', not of '{inputs.classes[0]}'")
    return family_by_name(
        chosen, classes=count, symmetric=request.l1 > 0 or request.ridge > 0 or request.has_hidden_layers, scale=request.gamma_scale
    )


def _alternative_family(inputs: RegressionInputs, chosen: str) -> str:
    """Return text about the family for another reading of whole numbers, if there is one."""
    if chosen == "poisson":
        return " (--family softmax reads them as classes, --family gaussian as numbers)"
    numbers = inputs.y if inputs.classes is None else _class_names_as_numbers(inputs.classes)[inputs.y.astype(np.int64)]
    whole = chosen in ("gaussian", "softmax") and not np.isnan(numbers).any() and count_detection.may_be_counts(numbers)
    return " (--family poisson reads them as counts)" if whole else ""


def _class_names_as_numbers(classes: list[str]) -> Array:
    """Return the numbers (C,) that are the class names; NaN if they are text."""
    try:
        return np.array([float(name) for name in classes])
    except ValueError:
        return np.full(len(classes), np.nan)


def _note_possible_counts(session: Session, inputs: RegressionInputs, weight_kind: str | None, weights: str | None) -> None:
    """Print a note with the option for weights that look like the trials or exposures of a target in shares or rates."""
    from herdcli.regression import weight_meaning

    y, weight, name = inputs.y, inputs.weight, weights or "weight"
    if inputs.classes or weight is None or weight_kind or (y == np.floor(y)).all() or not (y >= 0).all():
        return
    if weight_meaning.are_whole_counts(y, weight):
        what, option = ("shares", "trials") if (y <= 1).all() and (weight == np.floor(weight)).all() else ("rates", "exposure")
        session.console.note(f"the target times '{name}' is a whole number in every row; if the target holds {what}, use --{option} {name}")


def constant_target_error(value: str, where: str) -> DataError:
    """Return the error for a target that is equal in all training rows."""
    only = f"every training row has the target '{value}', so there is nothing to predict"
    return DataError(only, where=where, hint="name another column: --target COLUMN")


def require_varying_target(session: Session, inputs: RegressionInputs, distribution: Family) -> None:
    """Raise DataError for a constant target, unless an offset differs between rows; warn of classes without training rows.

    For targets that are all 0 or all 1, and for counts that are all 0, no finite intercept maximises the likelihood, whatever the offset.
    """
    training = (inputs.split == 0) & (True if inputs.weight is None else inputs.weight > 0)
    y, offset = inputs.y[training], inputs.offset[training]
    if len(y) and (y == y[0]).all():
        at_end = distribution.name in ("bernoulli", "softmax") or (distribution.name == "poisson" and y[0] == 0)
        if at_end or (offset == offset[0]).all():
            shown = inputs.classes[int(y[0])] if inputs.classes else f"{y[0]:g}"
            raise constant_target_error(shown, inputs.history.name)
    absent = [name for k, name in enumerate(inputs.classes or []) if not (y == k).any()]
    if absent:
        listed = ", ".join(f"'{name}'" for name in absent[:8]) + (", …" if len(absent) > 8 else "")
        session.console.warn(
            f"no training row has the target {listed}, so its predicted probability goes to 0; give more training rows with --split"
        )


def write_result(session: Session, value: GeneralisedLinear, history: HistorySource) -> None:
    """Save the regression, or the table of its coefficients."""
    explained = 1 - value.deviance / value.null_deviance if value.null_deviance > 0 else float("nan")
    bases = len(session.recoding.bases) if session.recoding else 0
    count = value.coefficients.shape[1] + bases
    features = f"{count} feature{'s' * (count != 1)}" + (f" ({bases} base level{'s' * (bases > 1)})" if bases else "")
    summary = f"{value.family}, {value.rows} training rows × {features}, deviance explained {explained:.4g}"
    form = _table_format(session)
    if form is None:
        outputs.write_artifact(session, value, summary, history=history)
        return
    from herdcli.evaluation import table

    outputs.write_text_result(session, table.FORMATS[form](value.table()), summary, "table")


def warn_of_result(session: Session, value: GeneralisedLinear, on_nonconvergence: str, iterations: int) -> None:
    """Warn about aliased columns, coefficients without finite estimates, and a fit that did not converge."""
    names = _combined_column_names(session, value)
    if names:
        listed = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
        session.console.warn(f"{len(names)} columns are constant or linear combinations of others and get no standard errors: {listed}")
    names = value.unbounded_coefficient_names()
    if value.separated and (not names or len(names) == value.standard_error.size):
        message = "the classes can be separated without error: coefficients grow without bound and have no standard errors"
        hint = _finite_estimate_hint(value)
    elif value.separated:
        listed = ", ".join(names[:MOST_NAMES]) + (f", … ({len(names)} coefficients)" if len(names) > MOST_NAMES else "")
        message = (
            f"there is no finite estimate for {listed}: the likelihood rises without bound, so standard errors and intervals are left out"
        )
        message += _separated_base_levels(session, value)
        hint = _finite_estimate_hint(value)
    elif not value.converged:
        steps = "1 step" if iterations == 1 else f"{iterations} steps"
        message, hint = f"not converged after {steps}", "raise --iterations, or add --l2 0.01"
    else:
        return
    if on_nonconvergence == "error":
        raise NotConverged(message, hint=hint)
    session.console.warn(f"{message}; {hint}")


def _combined_column_names(session: Session, value: GeneralisedLinear) -> list[str]:
    """Return the columns that are constant or combinations of others, without the levels of text that a lasso penalty keeps."""
    if value.l2:  # with a ridge penalty the coefficients of all columns are unique
        return []
    recoding = session.recoding if value.l1 else None
    levels = {column for name in recoding.levels for column in one_hot_column_names(name, recoding)} if recoding else set()
    return [name for name, hit in zip(value.names(), value.aliased, strict=False) if hit and name not in levels]


def _finite_estimate_hint(value: GeneralisedLinear) -> str:
    """Return the hint that names the options that give finite estimates."""
    firth = "--penalty firth or " if value.family in FIRTH else ""
    return f"use {firth}--l2 1e-3, which gives finite estimates"


def _separated_base_levels(session: Session, value: GeneralisedLinear) -> str:
    """Return text that names the base levels whose rows separate the classes.

    Then the intercept and all other levels of the column have no finite estimate.
    """
    assert value.unbounded is not None
    endless = {name: bool(value.unbounded[:, j].any()) for j, name in enumerate(value.names())}
    found = []
    for column, base in (session.recoding.bases if session.recoding else {}).items():
        levels = [hit for name, hit in endless.items() if name.startswith(f"{column}=")]
        if endless["intercept"] and levels and all(levels):
            found.append(f"{column}={base}")
    return f" (the rows of the base level {', '.join(found)} show this)" if found else ""
