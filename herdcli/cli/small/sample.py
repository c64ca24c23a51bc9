"""herd sample: rows drawn from a model by Gibbs sampling; the sampling is in herdcli.rbm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from herdcli.cli.frame.options import checkpoint_options, output_options, seed_option, stage, threads_option
from herdcli.cli.frame.session import Session

if TYPE_CHECKING:
    from herdcli.rbm.model import RBM
    from herdcli.schema import Array


@click.command("sample")
@click.argument("model", metavar="[MODEL]", default="-", required=False)
@click.option("-m", "--count", type=click.IntRange(1), default=100, show_default=True, help="Rows, of each class if there are several.")
@click.option("--burn-in", type=click.IntRange(1), default=1000, show_default=True, help="Gibbs sweeps before a chain's first row.")
@click.option("--chains", type=click.IntRange(1), default=None, help="Chains that share the rows.  [default: one for each row]")
@click.option("--thin", type=click.IntRange(1), default=100, show_default=True, help="Sweeps between two rows of a chain.")
@click.option("--means", is_flag=True, help="Write the means of the visible units in place of their states.")
@stage(seed_option, threads_option, checkpoint_options, output_options)
def command(session: Session, model: str, **options: Any) -> None:
    """Draw rows from a model and write them as a data set.

    \b
      herd data digits | herd fit-rbm --hidden 50 | herd sample -m 20 --burn-in 500 -o samples.csv
      herd data digits | herd fit-rbm --per-class | herd sample -m 5 --means -o digits.npz

    MODEL is an rbm or dbn.  Chains start at hidden states drawn at natural parameter 0.  Rows of models of classes carry
    their class as y.
    """
    from herdcli.rbm import sampling
    from herdcli.rbm.proper import require_proper

    session.check_output("dataset")
    if options["chains"] is None:
        session.ignored("thin", "with one chain for each row")
    fitted = session.load(model, "model", kinds={"rbm", "dbn"})
    below = [] if fitted.kind == "rbm" else fitted.value.layers[:-1]
    top = fitted.value if fitted.kind == "rbm" else fitted.value.layers[-1]
    for h in top.harmoniums():
        require_proper(h)
    problem = sampling.Problem(
        tuple(top.harmoniums()),
        count=options["count"],
        chains=options["chains"] or 0,
        burn_in=options["burn_in"],
        thin=options["thin"],
        means=options["means"] and not below,
        seed=options["seed"],
        below=tuple(layer.harmonium() for layer in reversed(below)),
    )
    D, K = problem.models[0].W.shape
    size = 4 * len(problem.models) * (problem.rounds * problem.width * D + problem.width * (D + 3 * K))
    session.require_memory(size, f"{len(problem.models)} × {problem.count} rows of {D} units")
    state = session.iterate(
        lambda now: sampling.step(problem, now, map=session.map),
        lambda: sampling.init(problem),
        steps=sampling.total_steps(problem),
        label="sampling",
    )
    rows = sampling.rows(problem, state, means=options["means"])
    result = _dataset(fitted.value if fitted.kind == "rbm" else fitted.value.layers[0], rows, means=options["means"])
    session.save(result, f"{len(result.X)} rows × {result.X.shape[1]} columns", history=fitted)


def _dataset(model: RBM, rows: list[Array], *, means: bool) -> Any:
    """The rows (count, D) of each model as a data set, with what is known of the columns."""
    import numpy as np

    from herdcli.artifacts import Dataset
    from herdcli.rbm.units import family

    units = family(model.visible_units)
    X = model.restored(np.concatenate(rows))
    two_state = units.name in ("binary", "spin") and not means
    y = np.repeat(np.arange(len(rows)), len(rows[0])) if model.classes else None
    return Dataset(
        X.astype(np.int8) if two_state else X,
        y=y,
        class_names=model.classes,
        units=units.name if two_state else "real",
        value_range=None if units.range is None else np.array(units.range) / units.scale,
        image_shape=model.image_shape,
        feature_names=model.feature_names,
    )
