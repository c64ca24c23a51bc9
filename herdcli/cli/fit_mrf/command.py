"""herd fit-mrf: options of learning Markov networks; the learning is in herdcli.markov."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import click

from herdcli.cli.fit_mrf.options import learning_options, structure_options, warn_of_ignored
from herdcli.cli.frame.options import checkpoint_options, data_options, output_options, seed_option, stage
from herdcli.cli.frame.session import Session
from herdcli.cli.network.files import FORMATS, check_text_output, output_format, write_network
from herdcli.cli.ups_infer.options import iteration_options
from herdcli.errors import DataError, NotConverged

if TYPE_CHECKING:
    from herdcli.cli.fit_mrf.inputs import Inputs
    from herdcli.markov.learning.learners import Learned, Settings


@click.command("fit-mrf")
@click.argument("source", metavar="[DATA]", default="-", required=False)
@click.option("--format", type=click.Choice(FORMATS), default=None, help="Write this.  [default: by the suffix of -o, else hdf5]")
@stage(structure_options, learning_options, iteration_options, data_options, seed_option, checkpoint_options, output_options)
def command(session: Session, source: str, format: str | None, **options: Any) -> None:
    """Learn a Markov network: the likeliest one, or that of largest entropy, that has the marginals of the data.

    \b
      herd data digits | herd fit-mrf --smoothing 1 | herd eval
      herd data digits | herd fit-mrf --structure chow-liu+random:0.05,6 --smoothing 1 -o near.h5
      herd data digits | herd fit-mrf --structure grid --algorithm loopy-is --max-clique 4 --smoothing 1 --tolerance 1e-5 -o grid.h5

    DATA is a data set whose columns are discrete: two-valued, grey (--threshold), or whole numbers as states.
    Which columns are joined is given by --structure, --edges or --clusters; without them it is the tree of largest
    mutual information (Chow & Liu).  The model has one factor a cluster.  Exact learning (ups-jt, the default) takes
    milliseconds where the clusters' junction tree is small; loopy-is and cvm are for those where it is not.
    --moments FILE learns from marginals and expectations (JSON) instead of rows, and --base NETWORK finds the
    distribution nearest to a network instead of the one of largest entropy.  herd eval gives test log-likelihoods.
    """
    from herdcli.cli.fit_mrf import inputs as fit_mrf_input
    from herdcli.markov.learning import learners as learning

    form = output_format(session, format, FORMATS)
    check_text_output(session, "network", form)
    warn_of_ignored(session, options)
    known = {each.name for each in fields(learning.Settings)} - {"regions"}
    settings = learning.Settings(**{name: options[name] for name in known if options.get(name) is not None})
    inputs = fit_mrf_input.read(session, source, options)
    settings = replace(settings, regions=fit_mrf_input.regions(session, inputs.problem, options))
    if options["induce"]:
        inputs = _induced(session, inputs, settings, options)
    _say_zeros(session, inputs, options)
    method = learning.learner(inputs.problem, settings)
    size, what = method.bytes_needed()
    try:
        session.require_memory(size, what)
    except DataError as error:
        error.hint = "--algorithm loopy-is, cvm and pseudo-likelihood need no junction tree" if "treewidth" in what else error.hint
        raise
    for line in (method.note, what.rstrip(",") if "treewidth" in what else ""):
        if line:
            session.console.note(line)
    state = session.iterate(method.step, method.init, steps=method.steps, until=method.done, label=settings.algorithm)
    _save(session, inputs, settings, method.result(state), options, form)


def _induced(session: Session, inputs: Inputs, settings: Settings, options: dict[str, Any]) -> Inputs:
    """The problem with --induce pairs more."""
    from herdcli.artifacts import memory
    from herdcli.markov.learning import induction

    assert inputs.pairs is not None
    limit = session.max_memory or memory.default_limit()
    with session.console.progress("inducing") as progress:
        problem, added = induction.induced(
            inputs.problem, inputs.pairs, options["induce"], settings, options["smoothing"], limit, progress=progress
        )
    if added:
        (i, j, first), (*_, last) = added[0], added[-1]
        a, b = (problem.names[k] if problem.names else f"x{k}" for k in (i, j))
        session.console.note(f"{len(added)} pairs added, the first {a} and {b}; gains from {first:.3g} to {last:.3g} nats a row")
    if len(added) < options["induce"]:
        session.console.warn(f"only {len(added)} pairs could be added: no other gains, or none fits into memory")
    return replace(inputs, problem=problem)


def _say_zeros(session: Session, inputs: Inputs, options: dict[str, Any]) -> None:
    given = [cluster.target for cluster in inputs.problem.clusters if cluster.features is None]
    zeros = sum(int((target == 0).sum()) for target in given)
    if zeros and inputs.problem.rows is not None:
        cells = sum(target.size for target in given)
        session.console.note(
            f"{zeros} of {cells} states of clusters are in no training row and get probability 0 (--smoothing 1 avoids it)"
        )


def _save(session: Session, inputs: Inputs, settings: Settings, learned: Learned, options: dict[str, Any], form: str) -> None:
    from herdcli.artifacts import memory
    from herdcli.markov.learning import fitted

    problem = inputs.problem
    made = problem.network(learned.factors)
    likelihood = float("nan") if problem.rows is None else fitted.log_likelihood(
        made, problem.rows.x, problem.rows.weight, session.max_memory or memory.default_limit()
    )  # fmt: skip
    fit = fitted.record(
        problem, learned, settings.algorithm, log_likelihood=likelihood, smoothing=options["smoothing"],
        holdout=inputs.holdout, holdout_split=inputs.holdout_split,
    )  # fmt: skip
    if not learned.converged:
        message = f"{settings.algorithm} did not converge in {learned.iterations} iterations: the residual is {fit.residual:.3g}"
        single = settings.algorithm == "loopy-is" and not settings.double_loop
        hint = "--double-loop always converges" if single else "--smoothing 1 helps where marginals are zero; else raise --iterations"
        if options["on_nonconvergence"] == "error":
            raise NotConverged(message, hint=hint)
        session.console.warn(f"{message}; {hint}")
    told = "" if likelihood != likelihood else f", log-likelihood {likelihood:.6g} nats a row"
    summary = f"{made.count} variables, {len(learned.factors)} clusters, {settings.algorithm}, {learned.iterations} iterations{told}"
    write_network(session, replace(made, fit=fit if form == "hdf5" else None), summary, form, inputs.history)
