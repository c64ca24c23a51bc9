"""`herd fit-rbm --pairs`: one model of all ordered pairs of images of one person; the pairs are in herdcli.rbm.pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from herdcli.cli.frame.session import Session
from herdcli.errors import BadUsage, DataError
from herdcli.splits import TRAIN

if TYPE_CHECKING:
    from herdcli.rbm.settings import Settings


def pairs_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--pairs."""
    return click.option(
        "--pairs",
        is_flag=True,
        help="Learn all ordered pairs of rows of one label, as faces of one person.  Other defaults: rate:10 and 100 rate:100 units, "
        "2000 batches of 100, rates .0025 and .005 (biases) without decay, momentum .95, visible mean field.",
    )(command)


def fit_pairs(session: Session, source: str, options: dict[str, Any], *, default: float) -> None:
    """Learn and save an `rbm-pairs`.  default  the threshold of two-state units."""
    from herdcli.cli.frame.rows import Reading, in_units
    from herdcli.rbm import learning, pairs
    from herdcli.rbm.units import family

    settings = _settings(session, options)
    session.check_output("rbm-pairs")
    data = session.load(source, "data", kinds={"dataset"}, input_format=options["input_format"], label=options["label"])
    rows = in_units(session, data, family(settings.visible_units), Reading.asked(options, default=default))
    persons, names = rows.labelled(data.name, "--pairs")
    found = pairs.ordered_pairs(persons, np.flatnonzero(rows.split == TRAIN), names)
    if not len(found):
        raise DataError("no row is in the training part", where=data.name, hint="--split .8,.1,.1 draws parts anew")
    if "epochs" not in session.given:
        settings = replace(settings, epochs=pairs.epochs(len(found), settings.batch_size))
        session.parameters["epochs"] = settings.epochs
    size = f"{len(found)} pairs of {rows.X.shape[1]} pixels"
    session.require_memory(len(found) * rows.X.shape[1] * 2 * rows.X.dtype.itemsize, size)
    problem, varies = pairs.problem(rows.X, found, settings)
    session.require_memory(learning.memory(problem), f"learning {2 * int(varies.sum())} × {settings.hidden} weights")
    _warn(session, settings, varies, len(found))
    state = session.iterate(
        lambda now: pairs.step(problem, now), lambda: learning.init(problem), steps=learning.total_steps(problem), label="learning pairs"
    )
    model = pairs.assemble(problem, state, varies, rows.X, found, rows.split)
    model = replace(model, **{name: getattr(rows, name) for name in ("image_shape", "threshold", "value_range", "feature_names")})
    session.save(model, f"{size}, {settings.hidden} hidden, {settings.epochs} epochs", history=data)


def _settings(session: Session, options: dict[str, Any]) -> Settings:
    """What was typed, and for the rest the settings for pairs; both go into the record."""
    from herdcli.cli.fit_rbm.options import warn_of_idle_options
    from herdcli.rbm.pairs import DEFAULTS

    for name in ("per_class", "folds", "average_scores", "layers", "below", "standardize"):
        if options[name]:
            raise BadUsage(f"--pairs and --{name.replace('_', '-')} exclude each other", hint="a model of pairs is one model of all labels")
    warn_of_idle_options(session, options["algorithm"], sparse=options["sparsity_target"] is not None)
    typed = {one.name: options[one.name] for one in fields(DEFAULTS) if one.name in session.given and options.get(one.name) is not None}
    if "units" in session.given:
        typed = {"visible_units": options["units"], "hidden_units": options["units"]} | typed
    settings = replace(DEFAULTS, **typed)
    session.parameters["units"] = options["units"] if "units" in session.given else None
    session.parameters.update({one.name: getattr(settings, one.name) for one in fields(settings) if one.name in session.parameters})
    return settings


def _warn(session: Session, settings: Settings, varies: Any, pairs: int) -> None:
    """Say what of the images is not as it is usually meant."""
    if not varies.all():
        constant = int((~varies).sum())
        session.console.warn(f"{constant} of {len(varies)} pixels have one value in all training images: their weights stay 0")
    if settings.hidden > 2 * int(varies.sum()):
        session.console.warn(f"{settings.hidden} hidden units are more than the {2 * int(varies.sum())} pixels of a pair that vary")
    if "batch_size" in session.given and pairs < settings.batch_size:
        session.console.warn(f"there are {pairs} pairs, fewer than the batch of {settings.batch_size}")
