"""The run of `herd fit-mrf`: it adds pairs, learns, and saves the network with its record; the algorithms are in herdcli.markov."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdcli.cli.frame.history.request import settings_from_request
from herdcli.cli.frame.rows.network_files import write_network
from herdcli.cli.frame.run import block_placement
from herdcli.errors import DataError, NotConverged

if TYPE_CHECKING:
    from herdcli.cli.fit_mrf.inputs import LearningInputs
    from herdcli.cli.fit_mrf.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.markov.learning.learners import LearnedFactors, Learner, LearningSettings
    from herdcli.markov.model.fit import FitRecord


def learn_network(session: Session, inputs: LearningInputs, request: Request, form: str) -> None:
    """Learn the factors of the problem, and save the network."""
    from herdcli.markov.learning import learners

    asked = settings_from_request(learners.LearningSettings, request, regions=inputs.regions)
    if request.induce:
        inputs = _induce_pairs(session, inputs, asked, request.induce, request.smoothing)
    _note_zero_probabilities(session, inputs)
    learner = _distribute_rows(session, learners.make_learner(inputs.problem, asked))
    _require_memory(session, learner)
    run = session.run if session.dealt is None else session.run_preparation  # a checkpoint of units is not a checkpoint of a learner
    _save_network(
        session,
        inputs,
        asked.algorithm,
        asked.double_loop,
        run(learner, label=asked.algorithm),
        request.smoothing,
        request.on_nonconvergence,
        form,
    )


def _distribute_rows(session: Session, learner: Learner) -> Learner:
    """Return the learner; if it makes passes over the rows, place them on the workers of --cluster."""
    from herdcli.markov.learning.gradient_learning import PseudoLikelihood

    if isinstance(learner, PseudoLikelihood):
        learner.source = block_placement.place_blocks_on_workers(session, learner.source)
    return learner


def _require_memory(session: Session, learner: Learner) -> None:
    """Raise DataError if the learner needs more memory than allowed, else print notes about its size."""
    size, what = learner.bytes_needed()
    try:
        session.require_memory(size, what)
    except DataError as error:
        error.hint = (
            "use --algorithm loopy-is, cvm or pseudo-likelihood, which need no junction tree" if "treewidth" in what else error.hint
        )
        raise
    for line in (learner.note, what.rstrip(",") if "treewidth" in what else ""):
        if line:
            session.console.note(line)


def _induce_pairs(session: Session, inputs: LearningInputs, settings: LearningSettings, induce: int, smoothing: float) -> LearningInputs:
    """Return the problem with up to --induce additional pairs, and report the pairs."""
    from herdcli.artifacts import memory_budget
    from herdcli.markov.learning import induction

    assert inputs.pairs is not None
    limit = session.max_memory or memory_budget.default_memory_limit()
    asked_pairs = induction.Induction(inputs.problem, inputs.pairs, induce, settings, smoothing, limit)
    problem, added = session.run_preparation(asked_pairs, label="inducing")
    if added:
        (i, j, first), (*_, last) = added[0], added[-1]
        a, b = (problem.names[k] if problem.names else f"x{k}" for k in (i, j))
        session.console.note(f"{len(added)} pairs added, the first {a} and {b}; gains from {first:.3g} to {last:.3g} nats per row")
    if len(added) < induce:
        session.console.warn(f"only {len(added)} pairs could be added: no other pair improves the likelihood and fits into memory")
    return replace(inputs, problem=problem)


def _note_zero_probabilities(session: Session, inputs: LearningInputs) -> None:
    given = [cluster.target for cluster in inputs.problem.clusters if cluster.features is None]
    zeros = sum(int((target == 0).sum()) for target in given)
    if zeros and inputs.problem.rows is not None:
        cells = sum(target.size for target in given)
        session.console.note(
            f"{zeros} of {cells} joint states of the clusters occur in no training row and get probability 0 (--smoothing 1 avoids this)"
        )


def _note_heldout_rows(session: Session, fit: FitRecord) -> None:
    """Print the number of rows held out from learning, if there are any."""
    kept = 0 if fit.holdout is None else len(fit.holdout)
    if kept:
        session.console.note(f"learned from {fit.rows} rows; {kept} are held out for herd eval (--split 1,0,0 learns from all)")


def _save_network(
    session: Session,
    inputs: LearningInputs,
    algorithm: str,
    double_loop: bool,
    learned: LearnedFactors,
    smoothing: float,
    on_nonconvergence: str,
    form: str,
) -> None:
    from herdcli.artifacts import memory_budget
    from herdcli.markov.learning import fit_summary

    problem = inputs.problem
    made = replace(problem.network(learned.factors), states=inputs.states)
    likelihood = float("nan") if problem.rows is None else fit_summary.mean_log_likelihood(
        made, problem.rows, session.max_memory or memory_budget.default_memory_limit()
    )  # fmt: skip
    fit = fit_summary.make_fit_record(
        problem, learned, algorithm, log_likelihood=likelihood, smoothing=smoothing,
        holdout=inputs.holdout, holdout_split=inputs.holdout_split,
    )  # fmt: skip
    if not learned.converged:
        message = f"{algorithm} did not converge in {learned.iterations} iterations: the residual is {fit.residual:.3g}"
        single = algorithm == "loopy-is" and not double_loop
        hint = (
            "use --damping 0.7, or --double-loop, which always converges"
            if single
            else "use --smoothing 1 if some marginals are zero, else raise --iterations"
        )
        if on_nonconvergence == "error":
            raise NotConverged(message, hint=hint)
        session.console.warn(f"{message}; {hint}")
    _note_heldout_rows(session, fit)
    told = "" if likelihood != likelihood else f", log-likelihood {likelihood:.6g} nats per row"
    summary = f"{made.count} variables, {len(learned.factors)} clusters, {algorithm}, {learned.iterations} iterations{told}"
    write_network(session, replace(made, fit=fit if form == "hdf5" else None), summary, form, inputs.history)
