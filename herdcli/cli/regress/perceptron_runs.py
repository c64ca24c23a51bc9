"""`herd regress --hidden`: the fit of a perceptron and its artifact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from herdcli.cli.frame.output import outputs
from herdcli.cli.regress import runs
from herdcli.errors import BadUsage, DataError, NotConverged
from herdcli.numerics.block_statistics import ArrayRows
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.regress.inputs import RegressionInputs
    from herdcli.cli.regress.request import Request
    from herdcli.regression.families import Family
    from herdcli.regression.perceptron.early_stopping import PerceptronFit
    from herdcli.regression.perceptron.model import Perceptron, PerceptronHeldoutRows
    from herdcli.regression.perceptron.problem import PerceptronProblem, ValidationRows
    from herdcli.regression.perceptron.restarts import RestartedFit
    from herdcli.regression.perceptron.scaling import FittedRows, ScaledRows
    from herdcli.schema import Array

DTYPE = "float32"  # type of minibatches; the noise of their gradients is far above the rounding of float32
MOST_EXACT = 10**7  # largest rows × parameters for which every step uses all rows
SMALLEST_BATCH, LARGEST_BATCH = 16, 200
RATES = {"adam": 1e-3, "sgd": 1e-2}


@dataclass(frozen=True)
class PerceptronRun:
    """The inputs, problem and settings of a fit.

    start    (K,) initial intercepts of the output layer.
    columns  the rows of minibatches, made when they are first needed.
    linear   coefficients (K, D + 1) of the linear model of scaled rows, fitted when they are first needed.
    """

    inputs: RegressionInputs
    problem: PerceptronProblem
    validation: ValidationRows
    rows: ScaledRows
    start: Array
    optimizer: str
    columns: Callable[[], Any]
    linear: Callable[[], Array]


def fit_perceptron(session: Session, inputs: RegressionInputs, request: Request) -> None:
    """Fit a perceptron to the training rows, add predictions of the held-out rows, and save it."""
    from herdcli.regression import weight_meaning

    if not (inputs.split == 0).any():
        raise DataError("there are no training rows", where=inputs.history.name, hint="make a new split: --split .8,.1,.1")
    family = runs.choose_family(session, inputs, request)
    kind = runs.choose_weight_kind(session, inputs, request.weight_kind)
    weight_meaning.require_targets(family, kind, inputs.y)
    runs.require_varying_target(session, inputs, family)
    run = _prepare_run(session, inputs, request, family, kind)
    algorithm = _make_algorithm(session, run, request)
    fit = session.run(algorithm, label="fitting", memory=f"a perceptron of {run.problem.architecture.parameters} parameters")
    if not np.isfinite(fit.theta).all() or not (np.isfinite(fit.loss) or np.isfinite(fit.losses).any()):
        raise NotConverged("the loss is not finite", hint="use a lower --learning-rate, or --optimizer trust-region")
    value = _assemble_perceptron(session, run, fit, request.activation, request.seed)
    explained = 1 - value.deviance / value.null_deviance if value.null_deviance > 0 else float("nan")
    layers = ",".join(map(str, request.hidden or ()))
    summary = (
        f"{value.family}, {value.rows} training rows × {value.columns} features, {layers} hidden units, deviance explained {explained:.4g}"
    )
    outputs.write_artifact(session, value, summary, history=inputs.history)
    if len(fit.trace) and not np.isfinite(fit.trace[-1]):
        kept = "the parameters with the lowest validation loss are kept; use a lower --learning-rate"
        session.console.warn(f"the loss is not finite after epoch {len(fit.trace)}: {kept}")
    elif not fit.converged:
        _warn_of_nonconvergence(session, run.optimizer, request)


def _warn_of_nonconvergence(session: Session, optimizer: str, request: Request) -> None:
    """Warn that the fit reached its last step before it converged, or raise NotConverged."""
    done, option = (request.iterations, "iterations") if optimizer == "trust-region" else (request.epochs, "epochs")
    unit = {"iterations": "step", "epochs": "epoch"}[option]
    message, hint = f"not converged after {done} {unit}{'' if done == 1 else 's'}", f"--{option} allows more"
    if request.on_nonconvergence == "error":
        raise NotConverged(message, hint=hint)
    session.console.warn(f"{message}; {hint}")


def _prepare_run(session: Session, inputs: RegressionInputs, request: Request, family: Family, kind: str) -> PerceptronRun:
    """Return the problem in standardised units, its validation rows, and the settings of its solution."""
    from herdcli.regression.fit import RegressionProblem
    from herdcli.regression.model import initial_coefficients
    from herdcli.regression.perceptron.architecture import Architecture
    from herdcli.regression.perceptron.linear_model import fit_linear_model
    from herdcli.regression.perceptron.minibatches import batch_columns
    from herdcli.regression.perceptron.problem import PerceptronProblem, ValidationRows
    from herdcli.regression.perceptron.scaling import ScaledRows, fit_scaling

    rows = _rows_of_split(inputs, 0)
    scaling = fit_scaling(rows.X, rows.y, rows.offset, rows.weight, family)
    if not (np.isfinite(scaling.mean).all() and np.isfinite(scaling.factor).all()):
        raise DataError("there are infinite values", where=inputs.history.name, hint="write NaN for missing values")
    outputs_of, columns = getattr(family, "free", 1), rows.X.shape[1]
    shape = Architecture((columns, *(request.hidden or ()), outputs_of), request.activation)
    scaled = ScaledRows(rows, scaling)
    optimizer = _choose_optimizer(session, request.optimizer, request.dtype, len(rows.y), shape.parameters)
    table = scaled.read_all() if optimizer == "trust-region" else scaled
    l2 = 1.0 / len(rows.y) if request.l2 is None else request.l2
    problem = PerceptronProblem(table, family, outputs_of, columns, l2=l2, weights=kind, architecture=shape, scaling=scaling)
    valid = _rows_of_split(inputs, 1)
    if request.patience and not len(valid.y):
        session.console.note(f"{inputs.history.name}: there are no validation rows, so early stopping is off")
    stopping = request.patience > 0 and len(valid.y) > 0
    validation = ValidationRows(ScaledRows(valid, scaling) if stopping else None, family)
    null = RegressionProblem(ArrayRows(scaled.targets, weight=rows.weight), family, outputs_of, 0)
    start = initial_coefficients(null, session.map)[:, -1]
    columns = cache(lambda: None if isinstance(table, ArrayRows) else batch_columns(scaled, request.dtype or DTYPE))
    linear = cache(lambda: fit_linear_model(problem, scaled, start, session.map, columns(), request.dtype or DTYPE))
    return PerceptronRun(inputs, problem, validation, scaled, start, optimizer, columns, linear)


def _rows_of_split(inputs: RegressionInputs, split: int) -> FittedRows:
    from herdcli.regression.perceptron.scaling import FittedRows

    return FittedRows(inputs.X, inputs.y, inputs.offset, inputs.weight).take(inputs.split == split)


def _choose_optimizer(session: Session, optimizer: str | None, dtype: str | None, rows: int, parameters: int) -> str:
    """Return the requested optimizer, or the default for problems of this size, and warn about options that it does not use."""
    small = rows * parameters <= MOST_EXACT and dtype != "float32"
    chosen = optimizer or ("trust-region" if small else "adam")
    if optimizer is None:
        session.console.note(f"{rows} rows × {parameters} parameters: --optimizer {chosen}")
    exact = chosen == "trust-region"
    if exact and dtype == "float32":
        raise BadUsage(f"--dtype {dtype} works only with minibatches, not with --optimizer trust-region", hint="use --optimizer adam")
    for name in ("epochs", "batch_size", "learning_rate") if exact else ("iterations",):
        session.warn_of_ignored_option(name, f"with --optimizer {chosen}")
    if chosen != "sgd":
        session.warn_of_ignored_option("momentum", f"with --optimizer {chosen}")
    return chosen


def _make_algorithm(session: Session, run: PerceptronRun, request: Request) -> RestartedFit:
    """Return an algorithm that runs all starts."""
    from herdcli.regression.perceptron.architecture import Architecture
    from herdcli.regression.perceptron.linear_model import can_represent_linear_model, initialise_from_linear_model
    from herdcli.regression.perceptron.minibatches import BatchSettings, MinibatchDescent, batch_bytes
    from herdcli.regression.perceptron.restarts import RestartedFit
    from herdcli.regression.perceptron.trust_region import PerceptronDescent, PerceptronRegion, descent_bytes

    problem = run.problem

    @cache
    def floor() -> float:
        linear = replace(problem, architecture=Architecture((problem.features, problem.outputs), request.activation))
        coefficients = run.linear()
        return run.validation.loss(linear, np.append(coefficients[:, :-1], coefficients[:, -1])[None], session.map)

    def descent(restart: int) -> PerceptronDescent:
        start = problem.architecture.initial_parameters(request.seed, restart, run.start)[None]
        if restart == request.restarts:
            start = initialise_from_linear_model(problem.architecture, start[0], run.linear())[None]
        region = PerceptronRegion(problem, start, request.iterations, session.map)
        return PerceptronDescent(region, run.validation, request.patience, restart)

    if run.optimizer == "trust-region":
        guarded = run.validation.rows is not None and can_represent_linear_model(problem.architecture)
        needed = descent_bytes(problem, session.threads)
        return RestartedFit(descent, request.restarts, batches=False, needed=needed, floor=floor if guarded else None)
    settings = BatchSettings(
        run.optimizer,
        request.epochs,
        request.batch_size or min(LARGEST_BATCH, max(SMALLEST_BATCH, problem.rows.count // 50)),
        request.learning_rate or RATES[run.optimizer],
        request.momentum,
        request.patience if run.validation.rows is not None else 0,
        request.seed,
        request.dtype or DTYPE,
    )
    needed = batch_bytes(problem, run.rows.rows.X, settings.batch_size, settings.dtype)
    make = partial(MinibatchDescent, problem, run.rows, settings=settings, validation=run.validation, map=session.map)

    def batches(restart: int) -> MinibatchDescent:
        return make(run.columns(), start=problem.architecture.initial_parameters(request.seed, restart, run.start), restart=restart)

    return RestartedFit(batches, request.restarts, batches=True, needed=needed)


def _assemble_perceptron(session: Session, run: PerceptronRun, fit: PerceptronFit, activation: str, seed: int) -> Perceptron:
    """Return the artifact, with the linear model for comparison and the metrics of both."""
    from herdcli.regression.perceptron import assembly
    from herdcli.regression.perceptron.model import Perceptron

    inputs, problem, rows, family = run.inputs, run.problem, run.rows.rows, run.problem.family
    weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
    scaling, image = run.rows.scaling, inputs.image_shape
    linear = run.linear() * scaling.spread
    linear[:, -1] += scaling.middle
    value = Perceptron(
        layers=assembly.fitted_layers(problem.architecture, fit.theta, scaling),
        column_mean=scaling.mean,
        column_factor=scaling.factor,
        linear=linear,
        null_intercept=assembly.fit_intercepts(rows, family, problem.outputs, session.map),
        trace=fit.trace,
        validation_trace=fit.losses,
        activation=activation,
        optimizer=run.optimizer,
        family=family.name,
        l2=problem.l2,
        scale=float(getattr(family, "scale", 1.0)),
        dispersion=1.0,
        linear_dispersion=1.0,
        null_dispersion=1.0,
        deviance=0.0,
        linear_deviance=0.0,
        null_deviance=0.0,
        rows=int(np.count_nonzero(weight)),
        mass=float(weight.sum()),
        converged=fit.converged,
        restart=fit.restart,
        seed=seed,
        target=inputs.target,
        feature_names=None if inputs.names is None else list(inputs.names),
        classes=inputs.classes,
        weight_kind=problem.weights,
        response=inputs.form,
        image_shape=image if image is not None and int(np.prod(image)) == rows.X.shape[1] else None,
        baselines=runs.fit_baselines(family, inputs),
    )
    deviances = assembly.prediction_statistics(value, rows)
    valid = _rows_of_split(inputs, 1)  # which the fit did not see
    dispersions = assembly.prediction_statistics(value, valid) if len(valid.y) else deviances
    return replace(
        value,
        deviance=deviances[0].deviance,
        linear_deviance=deviances[1].deviance,
        null_deviance=deviances[2].deviance,
        dispersion=dispersions[0].dispersion,
        linear_dispersion=dispersions[1].dispersion,
        null_dispersion=dispersions[2].dispersion,
        holdout=_heldout_rows(value, inputs),
    )


def _heldout_rows(value: Perceptron, inputs: RegressionInputs) -> PerceptronHeldoutRows | None:
    held = np.isin(inputs.split, (1, 2))
    if not held.any():
        return None
    weight = None if inputs.weight is None else inputs.weight[held]
    return predict_heldout(value, inputs.X[held], inputs.y[held], inputs.offset[held], weight, inputs.split[held])


def predict_heldout(value: Perceptron, X: Array, y: Array, offset: Array, weight: Array | None, split: Array) -> PerceptronHeldoutRows:
    """Return the predictions of the perceptron, the linear model and simple classifiers for rows X (h, D)."""
    from herdcli.regression.perceptron.model import PerceptronHeldoutRows

    own, linear = value.both_predictors(X, offset)
    return PerceptronHeldoutRows(
        predictor=own,
        linear=linear,
        offset=offset,
        y=y,
        split=split,
        weight=weight,
        baselines=None if value.baselines is None else value.baselines.predictions(X),
    )
