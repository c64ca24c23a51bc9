"""What `herd eval` does with `ica`: other rows held out, and a mixing that is known from elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from herdcli.artifacts import Artifact
from herdcli.cli.frame.columns import by_name
from herdcli.cli.frame.session import Session
from herdcli.errors import BadUsage, DataError
from herdcli.splits import TEST

if TYPE_CHECKING:
    from herdcli.schema import Array

FILTERS = ("mixing", "true_sources")  # the options of `filter_options`


def judged(session: Session, artifact: Artifact, options: dict[str, Any]) -> Artifact:
    """An `ica` with the rows of --data held out, and the mixing of --mixing or of --true-sources; other kinds as they are.

    The sources are scaled to unit variance; the mixing that makes --data of them is told by least squares.
    """
    if artifact.kind != "ica":
        for name in FILTERS:
            session.ignored(name, f"on kind '{artifact.kind}'")
        return artifact
    if options["true_sources"] and (options["mixing"] or not options["data"]):
        why = "and --mixing both say what the mixing is" if options["mixing"] else "needs the mixtures that were made of them"
        raise BadUsage(f"--true-sources {why}", hint="herd eval MODEL --data MIXTURES --true-sources SOURCES")
    from herdcli.rows.mixing import estimate

    value, changes = artifact.value, {}
    if options["data"]:
        data = session.load(options["data"], "data", kinds={"dataset"})
        data = by_name(session, data, value.feature_names, value.whitening.mean.size)
        X = _dense(data)
        test = np.ones(len(X), dtype=bool) if data.value.split is None else data.value.split == TEST
        if not test.any():
            raise DataError("has no rows of split 2 to judge by", where=data.name)
        try:
            changes["holdout"] = value.whitening.apply(X[test])
            if options["true_sources"]:
                S = _dense(session.load(options["true_sources"], "sources", kinds={"dataset"}))
                changes["mixing"] = estimate(S / np.maximum(S.std(axis=0), 1e-300), X)
        except DataError as error:
            error.where = error.where or data.name
            raise
    if options["mixing"]:
        given = session.load(options["mixing"], "mixing", kinds={"dataset"})
        changes["mixing"] = _dense(given)
        if len(changes["mixing"]) != value.whitening.mean.size:
            message = f"/X has {len(changes['mixing'])} rows, the model's rows have {value.whitening.mean.size} columns"
            raise DataError(message, where=given.name, hint="the mixing A of x = A s has a row for each column of x")
    return replace(artifact, value=replace(value, **changes))


def _dense(artifact: Artifact) -> Array:
    X = artifact.value.X
    if hasattr(X, "indptr"):
        raise DataError("/X is sparse, filters act on dense rows", where=artifact.name)
    return np.asarray(X, dtype=np.float64)


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--mixing and --true-sources of `herd eval`."""
    for option in (
        click.option("--true-sources", metavar="FILE", default=None, help="ica: the sources that --data was mixed of, row by row."),
        click.option("--mixing", metavar="FILE", default=None, help="ica: the known mixing A of x = A s, as rows of a data set."),
    ):
        command = option(command)
    return command
