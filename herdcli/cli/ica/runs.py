"""The run of `herd ica`: it runs the chosen algorithm and saves the result; the learning is in herdcli.ica."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.run import block_placement
from herdcli.cli.ica.request import CONVERGING
from herdcli.errors import BadUsage, NotConverged

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.ica.inputs import WhitenedRows
    from herdcli.cli.ica.request import Request
    from herdcli.ica.results import ICAFit

ITERATIONS, TOLERANCE, FASTICA_TOLERANCE, NOISE = 1000, 1e-7, 1e-4, 0.1  # defaults
PASSES, GAIN = 100, 1e-6  # defaults of --posterior gaussian


def learn_filters(session: Session, rows: WhitenedRows, request: Request) -> None:
    """Learn filters and save an artifact of kind `ica`.

    If learning breaks down, the last good filters are saved, and the command ends with the error.
    """
    from herdcli.ica.results import build_ica_artifact

    found = (_fit_square_model if request.algorithm in CONVERGING else _fit_by_schedule)(session, rows, request)
    notes = [*([_convergence_warning(found, request.on_nonconvergence)] if found.unconverged else []), *found.notes]
    known = {name: getattr(rows, name) for name in ("mixing", "holdout", "image_shape", "feature_names")}
    value, remarks = build_ica_artifact(
        found, rows.Z, rows.whitening, map=session.map, **known, algorithm=request.algorithm, seed=request.seed
    )
    for note in (*notes, *remarks, *(["the last good filters are written"] if found.failure else [])):
        session.console.warn(note)
    summary = f"{len(value.J)} filters of {value.J.shape[1]} dimensions, {value.iterations} updates"
    outputs.write_artifact(session, value, summary, history=rows.data)
    if found.failure:
        raise found.failure


def _convergence_warning(fit: ICAFit, on_nonconvergence: str) -> str:
    message = f"not converged after {fit.iterations} iteration{'' if fit.iterations == 1 else 's'}: {fit.unconverged}"
    if on_nonconvergence == "error":
        raise NotConverged(message, hint="raise --iterations")
    return message


def _fit_square_model(session: Session, rows: WhitenedRows, request: Request) -> ICAFit:
    """Fit a square model by ml, fastica, picard or sobi."""
    D, M, algorithm = len(rows.whitening.forward), request.filters, request.algorithm
    if M not in (None, D):
        hint = "use --algorithm ebm, infomax or sparse-coding"
        raise BadUsage(f"{algorithm} needs as many filters as dimensions ({D}), not {M}", hint=hint)
    if algorithm == "sobi":
        return _fit_sobi(session, rows, request.lags, request.tolerance, request.iterations)
    if algorithm != "ml" and _has_library(session, algorithm):
        return _fit_with_library(session, rows, request)
    return _fit_maximum_likelihood(session, rows, request.density, request.gamma, request.tolerance, request.iterations, request.one_pass)


def _fit_maximum_likelihood(
    session: Session,
    rows: WhitenedRows,
    density: str | None,
    gamma: float | None,
    tolerance: float | None,
    iterations: int | None,
    one_pass: bool,
) -> ICAFit:
    from herdcli.ica import maximum_likelihood as ml
    from herdcli.ica.whitening import make_row_blocks

    problem = ml.MaximumLikelihoodProblem(
        rows.Z,
        density or "auto",
        gamma or 1.0,
        tolerance or TOLERANCE,
        iterations or ITERATIONS,
        elsewhere=None if one_pass else block_placement.place_blocks_on_workers(session, make_row_blocks(rows.Z)),
    )
    return session.run(ml.MaximumLikelihood(problem, session.map), label="learning", memory="learning")


def _fit_sobi(session: Session, rows: WhitenedRows, lags: int, tolerance: float | None, iterations: int | None) -> ICAFit:
    from herdcli.ica import sobi

    problem = sobi.SOBIProblem(rows.whitened_array, lags, tolerance or TOLERANCE, iterations or ITERATIONS)
    return session.run(sobi.JointDiagonalisation(problem), label="sweeps", memory=f"covariances of {lags} lags")


def _has_library(session: Session, algorithm: str) -> bool:
    from herdcli.ica import external_libraries

    if external_libraries.is_library_installed(algorithm):
        return True
    session.console.note(f"{algorithm} is not installed: herd's own maximum likelihood is used instead (pip install 'herdcli[ica]')")
    return False


def _fit_with_library(session: Session, rows: WhitenedRows, request: Request) -> ICAFit:
    from herdcli.ica.external_libraries import LibraryRun

    algorithm = request.algorithm
    if algorithm == "fastica" and request.whiten == "centre":
        raise BadUsage("fastica needs whitened rows", hint="use --whiten zca or pca")
    tolerance = request.tolerance or (FASTICA_TOLERANCE if algorithm == "fastica" else TOLERANCE)
    asked = LibraryRun(algorithm, rows.whitened_array, tolerance, request.iterations or ITERATIONS, request.seed)
    return session.run(asked, label=algorithm, memory=algorithm)


def _fit_gaussian_posterior(session: Session, rows: WhitenedRows, request: Request) -> ICAFit:
    """Fit sparse-coding by EM with a Gaussian posterior for each row."""
    from herdcli.ica.variational_sparse_coding import VariationalCoding, VariationalCodingProblem

    task = VariationalCodingProblem(
        rows.whitened_array,
        request.filters or rows.whitened_array.shape[1],
        gamma=request.gamma or 1.0,
        noise=NOISE if request.noise is None else request.noise,
        e_step=request.e_step or "exact",
        iterations=request.iterations or PASSES,
        tolerance=request.tolerance or GAIN,
        seed=request.seed,
    )
    return session.run(VariationalCoding(task, session.map), label="learning", memory="the posteriors")


def _fit_by_schedule(session: Session, rows: WhitenedRows, request: Request) -> ICAFit:
    """Fit infomax, ebm, equil or sparse-coding by minibatches with a schedule of learning rates."""
    from herdcli.ica import stochastic_learning
    from herdcli.ica.problem import LearningProblem
    from herdcli.ica.sparse_coding import DictionaryLearning, SparseCodingProblem

    settings = request.learning_settings(rows.whitened_array.shape[1])
    if not settings.learns_gamma:
        session.warn_of_ignored_option("gamma_rate", f"with --expert {settings.expert}")
    if request.posterior == "gaussian" and request.algorithm == "sparse-coding":
        return _fit_gaussian_posterior(session, rows, request)
    if request.algorithm == "sparse-coding":
        noise = NOISE if request.noise is None else request.noise
        task = SparseCodingProblem(LearningProblem(rows.whitened_array, settings), noise, request.posterior or "map")
        return session.run(DictionaryLearning(task, session.map), label="learning", memory="learning")
    kind = "float32" if settings.algorithm == "ebm" else "float64"
    problem = LearningProblem(rows.whitened_array.astype(kind, copy=False), settings, rows.whitened_mixing)
    algorithm = stochastic_learning.StochasticGradient(problem, session.map)
    try:
        return session.run(algorithm, label="learning", memory="learning")
    except stochastic_learning.ChainsCollapsed as error:
        return replace(algorithm.result(error.state), failure=error)
