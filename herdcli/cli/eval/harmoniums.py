"""What `herd eval --data` does with RBMs and deep belief networks: other rows in the place of those that travel with the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from herdcli.cli.frame.session import Session
from herdcli.errors import DataError
from herdcli.splits import TEST

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.rows import Prepared
    from herdcli.rbm.model import RBM

WORSE = "worse than independent"  # the verdict of evaluation.rbm


def likelihood_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--likelihood, --chains, --temperatures, --reverse."""
    for option in (
        click.option("--reverse", is_flag=True, help="Anneal from the model back too: a second estimate, which errs to the other side."),
        click.option(
            "--temperatures",
            type=click.IntRange(1),
            default=None,
            help="Temperatures of ais; otherwise the most that annealing may take.  [default: 1000; 5000]",
        ),
        click.option("--chains", type=click.IntRange(2), default=100, show_default=True, help="Annealed chains."),
        click.option(
            "--likelihood",
            type=click.Choice(["auto", "exact", "ais"]),
            default="auto",
            show_default=True,
            help="How log Z is computed; auto: exact up to 25 two-state units in the smaller layer, else annealed "
            "until successive runs agree; ais: annealed once.",
        ),
    ):
        command = option(command)
    return command


def warn_of_likelihoods(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """Say which likelihoods are not to be relied on, and which models are worse than no model."""
    for row in rows:
        if row.get("log_z") == "not reliable":
            session.console.warn(
                f"{row['file']}: the log-likelihood is not reliable: {row['effective_chains']:.3g} effective chains at "
                f"{row['temperatures']} temperatures, 20 that agree are needed; more --chains or --temperatures may help"
            )
        if row.get("verdict") == WORSE:
            from herdcli.evaluation.rbm import worse_than_independent

            session.console.warn(f"{row['file']}: {worse_than_independent(row['log_likelihood'], row['independent'])}")


def warn_of_ranks(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """Say where pseudo-likelihood ranks the models of a table otherwise than the log-likelihood does."""
    if sum("pseudo_likelihood" in row for row in rows) > 1:
        from herdcli.evaluation.rbm import ranked_apart

        for remark in ranked_apart(rows):
            session.console.warn(remark)


def rejudged(session: Session, artifact: Artifact, path: str | None) -> Artifact:
    """An rbm or dbn with the rows of another file, all of them test rows if it has no split; other kinds as they are."""
    if path is None or artifact.kind not in ("rbm", "dbn"):
        return artifact
    from herdcli.cli.frame.rows import rows_of
    from herdcli.rbm.classes import judged_on

    model: RBM = artifact.value if artifact.kind == "rbm" else artifact.value.layers[0]
    data = session.load(path, "data", kinds={"dataset"})
    if data.value.split is None:
        data = replace(data, value=replace(data.value, split=np.full(data.value.X.shape[0], TEST, dtype=np.uint8)))
    rows = rows_of(session, model, data, {})
    judged = judged_on(model, rows.X, rows.split, _classes(model, rows, path), map=session.map)
    if artifact.kind == "rbm":
        return replace(artifact, value=judged)
    return replace(artifact, value=replace(artifact.value, layers=[judged, *artifact.value.layers[1:]]))


def _classes(model: RBM, rows: Prepared, path: str) -> Any:
    """The index of each row's class among the model's (n,); None for a single model."""
    if model.count == 1 or model.classes is None:
        return None
    y, names = rows.labelled(path, "a model of classes")
    unknown = [name for name in names if name not in model.classes]
    if unknown:
        raise DataError(f"has class '{unknown[0]}', the model has {', '.join(model.classes)}", where=path)
    return np.array([model.classes.index(name) for name in names])[y]
