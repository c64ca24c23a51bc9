"""`herd fit-rbm --layers` and `--below`: harmoniums learned one on the other; the learning is in herdcli.rbm.stack."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from herdcli.cli.fit_rbm.options import fitted_to, warn_of_rows
from herdcli.cli.frame.options import Parsed
from herdcli.cli.frame.session import Session
from herdcli.errors import BadUsage, DataError

if TYPE_CHECKING:
    from herdcli.rbm.model import RBM
    from herdcli.rbm.settings import Settings


def _parse_sizes(text: str) -> tuple[int, ...]:
    sizes = text.split(",")
    if not all(size.isdecimal() and int(size) for size in sizes):
        raise ValueError("is not a list of numbers of hidden units, as 500,250")
    return tuple(map(int, sizes))


def layer_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--layers and --below."""
    for option in (
        click.option("--below", metavar="MODEL", default=None, help="Learn upon this rbm or dbn, from its hidden states given the rows."),
        click.option(
            "--layers",
            type=Parsed("n,n,…", _parse_sizes),
            default=None,
            metavar="N,N,…",
            help="Learn a deep belief network: hidden units of each layer, the lowest first.",
        ),
    ):
        command = option(command)
    return command


def fit_dbn(session: Session, source: str, options: dict[str, Any], settings: Settings, *, default: float) -> None:
    """Learn the layers and save them as a `dbn`."""
    from herdcli.cli.frame.rows import Reading, in_units, rows_of
    from herdcli.rbm import learning, stack
    from herdcli.rbm.classes import judged_on
    from herdcli.rbm.units import family

    if options["per_class"]:
        raise BadUsage("--layers and --below learn one model, --per-class several", hint="leave one of them out")
    sizes = options["layers"] or (settings.hidden,)
    if options["layers"]:
        session.ignored("hidden", "with --layers")
    session.check_output("dbn")
    below = _below(session, options["below"])
    data = session.load(source, "data", kinds={"dataset"}, input_format=options["input_format"], label=options["label"])
    if below:
        for name in ("visible_units", "units"):
            session.ignored(name, "with --below: the model decides")
        rows = rows_of(session, below[0], data, options, default=default)
        settings = replace(settings, visible_units=below[-1].hidden_units, hidden_units=options["hidden_units"] or below[-1].hidden_units)
    else:
        rows = in_units(session, data, family(settings.visible_units), Reading.asked(options, default=default))
    data = replace(data, value=None)
    training = rows.split == 0
    if not training.any():
        raise DataError("the split has no training rows", where=data.name)
    settings = fitted_to(session, settings, int(training.sum()))
    problem = stack.Problem(rows.X[training], sizes, settings, tuple(part.harmonium() for part in below))
    session.require_memory(learning.memory(problem.layer([])), f"learning {rows.X.shape[1]} × {' × '.join(map(str, sizes))} weights")
    warn_of_rows(session, problem.layer([]))
    state = session.iterate(
        lambda now: stack.step(problem, now, map=session.map),
        lambda: stack.init(problem),
        steps=stack.total_steps(problem),
        label="learning",
    )
    first, *others = [*below, *stack.assemble(problem, state)]
    first = judged_on(first, rows.X, rows.split, None, map=session.map)
    if not below:
        first = replace(first, **rows.as_seen())
    made = stack.DBN([first, *others])
    session.save(made, f"layers of {', '.join(str(part.W.shape[2]) for part in made.layers)} hidden units", history=data)


def _below(session: Session, path: str | None) -> list[RBM]:
    """The layers that are there already."""
    session.parameters.pop("below", None)  # recorded as an input, not as a path
    if path is None:
        return []
    found = session.load(path, "below", kinds={"rbm", "dbn"})
    layers: list[RBM] = [found.value] if found.kind == "rbm" else list(found.value.layers)
    if layers[0].count > 1:
        raise DataError("has one model for each class, a layer is one model", where=found.name)
    return [replace(part, holdout=None, scores=None) for part in layers]
