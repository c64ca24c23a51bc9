"""What `herd ups-infer` is asked: options of the algorithms, evidence and observed marginals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import click

from herdcli.cli.frame.options import Parsed
from herdcli.cli.frame.session import Session
from herdcli.cli.network.files import load_text
from herdcli.errors import BadUsage, DataError

if TYPE_CHECKING:
    from herdcli.markov.model.network import Network

ALGORITHMS = [
    "junction-tree", "frontier", "enumerate", "bp", "ups", "ups-t", "double-loop", "gbp", "loopy-is", "is-bp", "gis-bp",
    "mean-field", "structured-mean-field", "tap", "belief-optimization", "gibbs",
]  # fmt: skip
AUTO = "auto"


def _parse_shares(text: str) -> tuple[float, ...]:
    try:
        shares = tuple(float(word) for word in text.split(","))
    except ValueError:
        shares = ()
    if not shares or not all(0 <= share < 1 for share in shares):
        raise ValueError("is no list of shares from 0 to below 1, such as 0,0.5,0.9")
    return shares


def iteration_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--iterations, and what is done at the last one."""
    for option in (
        click.option(
            "--on-nonconvergence",
            type=click.Choice(["warn", "error"]),
            default="warn",
            show_default=True,
            help="What to do at the last iteration.",
        ),
        click.option("--iterations", type=click.IntRange(1), default=1000, show_default=True, help="Most iterations."),
    ):
        command = option(command)
    return command


def evidence_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What is known of the variables."""
    for option in (
        click.option("--ignore-observed", is_flag=True, help="Leave out the observed marginals stored with the network."),
        click.option("--likelihood", multiple=True, metavar="X=L,L…", help="Weigh the states of a variable (soft evidence), as x3=1,4."),
        click.option("--observe", multiple=True, metavar="X=P,P…", help="Fix a marginal, as x3=0.2,0.8.  May be repeated."),
        click.option(
            "--evidence", metavar="FILE", default=None, help="States of some variables: UAI evidence, or one `name=state` a line."
        ),
        click.option(
            "--evidence-rows",
            metavar="FILE",
            default=None,
            help="A table of evidence, a column a variable (a state, −1 for none): the result is a table of marginals, row by row.",
        ),
    ):
        command = option(command)
    return command


def gibbs_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """How many sweeps of how many chains."""
    for option in (
        click.option("--chains", type=click.IntRange(2), default=8, show_default=True, help="Chains of gibbs."),
        click.option(
            "--annealing",
            type=click.IntRange(0),
            default=0,
            show_default=True,
            help="Sweeps of the burn-in over which gibbs cools to the network's own temperature.",
        ),
        click.option("--burn-in", type=click.IntRange(0), default=1000, show_default=True, help="Sweeps of gibbs that are not counted."),
        click.option("--sweeps", type=click.IntRange(2), default=10_000, show_default=True, help="Sweeps of gibbs that are averaged."),
    ):
        command = option(command)
    return command


def algorithm_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--algorithm, and the settings of each algorithm."""
    for option in (
        click.option(
            "--regions",
            type=click.Choice(["edges", "plaquettes"]),
            default="edges",
            show_default=True,
            help="Largest regions of double-loop and gbp: the factors, or also loops of three and four variables.",
        ),
        click.option(
            "--linear-response", is_flag=True, help="Covariances too, by linear response (bp, ups, belief-optimization, mean-field, tap)."
        ),
        click.option(
            "--restarts",
            type=click.IntRange(0),
            default=0,
            show_default=True,
            help="Further runs from random first states; the lowest free energy is the answer, all fixed points are told.",
        ),
        click.option(
            "--clamp",
            metavar="auto|rows|columns|rows-columns|FILE",
            default="auto",
            show_default=True,
            help="Which variables ups holds in turn.  auto: so that the others are a forest, with Newton steps between; "
            "FILE: a set a line.  Other than auto is the plain algorithm.",
        ),
        click.option(
            "--damping-kind",
            type=click.Choice(["geometric", "linear"]),
            default="geometric",
            show_default=True,
            help="Mean of old and new.",
        ),
        click.option(
            "--damping-schedule",
            type=Parsed("shares", _parse_shares),
            default=None,
            metavar="D,D…",
            help="Damping of bp and loopy-is that changes as long as they have not converged: each of these for an equal part of "
            "--iterations.",
        ),
        click.option(
            "--damping",
            type=click.FloatRange(0, 1, max_open=True),
            default=0.0,
            show_default=True,
            help="Share of the old message that is kept.",
        ),
        click.option(
            "--schedule",
            type=click.Choice(["auto", "residual", "sequential", "parallel", "checkerboard"]),
            default="auto",
            show_default=True,
            help="Order of updates of bp and loopy-is; auto: what would change most comes first (residual), on large grids checkerboard.",
        ),
        click.option(
            "--message-passing",
            type=click.Choice(["hugin", "shafer-shenoy"]),
            default="hugin",
            show_default=True,
            help="How junction-tree propagates: dividing messages out of clique tables, or with none in them.",
        ),
        click.option("--orders", type=click.IntRange(1), default=8, show_default=True, help="Elimination orders tried by junction-tree."),
        click.option("--tolerance", type=click.FloatRange(0, min_open=True), default=1e-9, show_default=True, help="Residual to reach."),
        click.option(
            "--algorithm",
            type=click.Choice([AUTO, *ALGORITHMS]),
            default=AUTO,
            show_default=True,
            help="How marginals are had; auto: exactly if a junction tree (or the frontier of a lattice) fits, else bp, else ups.",
        ),
    ):
        command = option(command)
    return command


def observed(session: Session, full: Network, options: dict[str, Any]) -> tuple[Network, dict[int, int]]:
    """The network under evidence, observed marginals and likelihoods, and the evidence."""
    from herdcli.markov.formats import results
    from herdcli.markov.model import network

    evidence: dict[int, int] = {}
    if options["evidence"]:
        session.parameters["evidence"] = "file"  # its content is among the inputs
        evidence = load_text(session, options["evidence"], "evidence", lambda text: results.read_evidence(text, full))
    stored = {} if options["ignore_observed"] else full.observations()
    given = dict(_assignments(full, options["observe"], "--observe"))
    for i, p in given.items():
        network.check_marginal(full, i, p)
    if both := sorted(evidence.keys() & (stored | given).keys()):
        raise BadUsage(f"{full.name(both[0])} has evidence and an observed marginal", hint="--ignore-observed leaves the stored ones out")
    weighed = network.weigh(full, dict(_assignments(full, options["likelihood"], "--likelihood")))
    return network.condition(network.observe(weighed, stored | given), evidence), evidence


def clamp_sets(session: Session, full: Network, clamp: str) -> list[list[int]] | None:
    """The sets of variables in the file that --clamp names, if it names one."""
    from herdcli.markov.formats import results

    if clamp in ("auto", "rows", "columns", "rows-columns"):
        return None
    session.parameters["clamp"] = "file"  # its content is among the inputs
    return cast("list[list[int]]", load_text(session, clamp, "clamp", lambda text: results.read_clamp_sets(text, full)))


def _assignments(network: Network, texts: tuple[str, ...], option: str) -> Any:
    """(variable, values) of texts like x3=0.2,0.8."""
    import numpy as np

    from herdcli.markov.formats import results

    for text in texts:
        name, equals, values = text.partition("=")
        try:
            numbers = np.array([float(value) for value in values.split(",")])
        except ValueError:
            raise BadUsage(f"{option} '{text}' is not of the form NAME=NUMBER,NUMBER…") from None
        i = results.variable(network, name.strip())
        if len(numbers) != network.cardinality[i] or not equals:
            raise DataError(f"{option} '{text}' has {len(numbers)} values, {network.name(i)} has {network.cardinality[i]} states")
        yield i, numbers


FIXED_POINT = tuple(name for name in ALGORITHMS if name not in ("junction-tree", "enumerate", "gibbs"))
RESTARTED = ("bp", "ups", "double-loop", "mean-field", "structured-mean-field", "tap", "belief-optimization")
USERS = {
    **dict.fromkeys(("orders", "message_passing"), (AUTO, "junction-tree")),
    "schedule": (AUTO, "bp", "loopy-is"),
    "damping": (AUTO, "bp", "loopy-is", "gbp", "mean-field", "tap"),
    **dict.fromkeys(("damping_kind", "damping_schedule"), (AUTO, "bp", "loopy-is")),
    "clamp": (AUTO, "ups"),
    "restarts": RESTARTED,
    "linear_response": ("bp", "loopy-is", "ups", "ups-t", "belief-optimization", "mean-field", "tap"),
    "regions": ("double-loop", "gbp"),
    **dict.fromkeys(("sweeps", "burn_in", "annealing", "chains"), ("gibbs",)),
    **dict.fromkeys(("tolerance", "iterations"), (AUTO, "enumerate", *FIXED_POINT)),
    "on_nonconvergence": (AUTO, "enumerate", "gibbs", *FIXED_POINT),
}


def warn_of_ignored(session: Session, options: dict[str, Any]) -> None:
    for option, users in USERS.items():
        if options["algorithm"] not in users:
            session.ignored(option, f"with --algorithm {options['algorithm']}")
    if options["algorithm"] == "loopy-is" and options["schedule"] == "checkerboard":
        raise BadUsage("--schedule checkerboard is for --algorithm bp", hint="--schedule residual")
    if options["restarts"] and options["schedule"] == "checkerboard":
        raise BadUsage("--schedule checkerboard takes no restarts", hint="--schedule residual")
    if options["damping"] and options["damping_schedule"]:
        raise BadUsage("--damping and --damping-schedule exclude each other")
    if options["damping"] == 0 and not options["damping_schedule"]:
        session.ignored("damping_kind", "without --damping")
    elif options["algorithm"] in USERS["schedule"] and options["schedule"] in ("residual", "checkerboard"):
        raise BadUsage(f"--schedule {options['schedule']} takes no damping", hint="--schedule sequential or parallel")
