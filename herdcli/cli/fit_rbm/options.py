"""The options of `herd fit-rbm` that choose units and the variant of learning."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from herdcli.cli.frame.options import Parsed
from herdcli.cli.frame.session import Session

if TYPE_CHECKING:
    from herdcli.rbm.learning import Problem
    from herdcli.rbm.model import RBM
    from herdcli.rbm.settings import Settings

ALGORITHMS = ["cd", "pcd", "fpcd", "pseudo-likelihood", "exact"]
# options that only some algorithms have: option -> those algorithms
FOR_SOME = {
    "steps": ("cd", "pcd", "fpcd"),
    "chains": ("pcd", "fpcd"),
    "mean_field": ("cd",),
    "fast_rate": ("fpcd",),
    "fast_decay": ("fpcd",),
}


def _parse_batch_size(text: str) -> int:
    """A number of rows, or `all`, which is 0."""
    if text == "all":
        return 0
    if not text.isdecimal() or int(text) == 0:
        raise ValueError("is neither a number of rows nor 'all'")
    return int(text)


BATCH_SIZE = Parsed("n|all", _parse_batch_size)


def standardize_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--standardize."""
    return click.option(
        "--standardize", is_flag=True, help="gaussian visible units: free columns of the mean and deviation of the training rows."
    )(command)


def variant_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What changes the gradient or the weights after a step."""
    rate = click.FloatRange(0, min_open=True)
    for option in (
        click.option("--fast-decay", type=click.FloatRange(0, 1, max_open=True), default=0.95, show_default=True, help="fpcd: share kept."),
        click.option("--fast-rate", type=rate, default=None, help="fpcd: rate of the fast weights.  [default: --learning-rate]"),
        click.option("--sparsity-cost", type=click.FloatRange(0), default=0.1, show_default=True, help="Weight of --sparsity-target."),
        click.option(
            "--sparsity-target",
            type=click.FloatRange(0, 1, min_open=True, max_open=True),
            default=None,
            help="Mean that hidden units are drawn to, as a share of their range.",
        ),
        click.option("--non-negative", is_flag=True, help="Set negative weights to 0 after each update."),
        click.option(
            "--centering/--no-centering", default=None, help="Learn with units centred at their means.  [default: two-state units are]"
        ),
        click.option(
            "--mean-field",
            type=click.Choice(["none", "visible", "both"]),
            default="none",
            show_default=True,
            help="cd: units of the chain that are means, not samples.",
        ),
        click.option(
            "--initial-scale", type=click.FloatRange(0), default=0.01, show_default=True, help="Standard deviation of the first weights."
        ),
        click.option("--l1-decay", type=click.FloatRange(0), default=0.0, show_default=True, help="L1 penalty on the weights."),
        click.option("--bias-rate", type=rate, default=None, help="Rate of the biases.  [default: --learning-rate]"),
    ):
        command = option(command)
    return command


def warn_of_idle_options(session: Session, algorithm: str, *, sparse: bool) -> None:
    """Say which options that were typed do nothing."""
    for name, algorithms in FOR_SOME.items():
        if algorithm not in algorithms:
            session.ignored(name, f"with --algorithm {algorithm}")
    if not sparse:
        session.ignored("sparsity_cost", "without --sparsity-target")


def warn_of_rows(session: Session, problem: Problem) -> None:
    """Say what of the rows is not as it is usually meant."""
    constant = max(int(problem.constant(m).sum()) for m in range(len(problem.rows)))
    if constant:
        where = "all training rows" + (" of a class" if len(problem.rows) > 1 else "")
        session.console.warn(f"{constant} of {problem.rows[0].shape[1]} columns have one value in {where}: their weights stay 0")
    fewest = min(map(len, problem.rows))
    if "batch_size" in session.given and fewest < problem.settings.batch_size:
        session.console.warn(f"there are {fewest} training rows, fewer than the batch of {problem.settings.batch_size}")


def fitted_to(session: Session, settings: Settings, rows: int) -> Settings:
    """The settings with what was not typed chosen for models of so many rows; both go into the record."""
    from herdcli.rbm.settings import fitted

    settings = fitted(settings, rows, rate="learning_rate" not in session.given, centering="centering" not in session.given)
    session.parameters |= {"learning_rate": settings.learning_rate, "centering": settings.centering}
    return settings


def warn_of_worse(session: Session, model: RBM) -> None:
    """Say when held-out rows are explained worse than by independent columns."""
    from herdcli.evaluation.rbm import quick_verdict, worse_than_independent

    found = quick_verdict(model, map=session.map)
    if found is not None:
        session.console.warn(worse_than_independent(*found))


def warn_of_edge(session: Session, model: RBM) -> None:
    """Say when weights between Gaussian layers were held where the model is hardly a distribution any more."""
    from herdcli.rbm.proper import held_at_edge

    if any(held_at_edge(h) for h in model.harmoniums()):
        session.console.warn(
            "the weights were held at the largest singular value that gaussian layers may have: --standardize, or a lower learning rate"
        )
