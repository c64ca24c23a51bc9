"""Files and texts that stand for matrices and for targets of herding."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.run.session import Session
    from herdcli.quadrature.targets import Target
    from herdcli.schema import Array

FORMS = "uniform[:LO,HI], gaussian[:MEAN,SD|FILE], mixture:FILE, trigonometric:FILE, signs:FILE, moments:FILE"
OF_FILES = ("gaussian", "mixture", "trigonometric", "signs", "moments")


def rows_and_names(artifact: Artifact) -> tuple[Array, list[str] | None]:
    """The rows of a data set or of samples as float64, and the columns' names."""
    import numpy as np

    value = artifact.value
    X = value.x if artifact.kind == "samples" else value.X
    dense = X.toarray() if hasattr(X, "indptr") else X
    return np.ascontiguousarray(dense, dtype=np.float64), value.feature_names


def read_table(session: Session, path: str, role: str) -> tuple[Array, list[str] | None]:
    """The same of a file."""
    return rows_and_names(session.load(path, role, kinds={"dataset", "samples"}))


def parse_target(session: Session, text: str, dimension: int) -> Target:
    """The target of a text such as `uniform:0,1` or `mixture:FILE`.  Raises BadUsage for a text that is none."""
    from herdcli.quadrature import input_preparation

    name, _, rest = text.partition(":")
    numbers = _two_numbers(rest) if rest else (0.0, 1.0)
    if name == "uniform" and numbers:
        return input_preparation.uniform_box(*numbers, dimension)
    if name == "gaussian" and numbers:
        return input_preparation.independent_gaussian(*numbers, dimension)
    if name not in OF_FILES or not rest:
        raise BadUsage(f"--target '{text}' is not a target", hint=f"targets: {FORMS}")
    artifact = session.load(rest, "target", kinds={"dataset", "samples"} | ({"mixture"} if name == "mixture" else set()))
    return (
        _mixture_target(artifact)
        if artifact.kind == "mixture"
        else input_preparation.target_from_table(name, *_rows_with_weights(artifact))
    )


def _rows_with_weights(artifact: Artifact) -> tuple[Array, list[str] | None]:
    """The rows of `rows_and_names`, before them the column `weight`, which a data set takes for the weights of its rows."""
    import numpy as np

    X, names = rows_and_names(artifact)
    weight = artifact.value.weight if artifact.kind == "dataset" else None
    return (X, names) if weight is None else (np.column_stack([weight, X]), ["weight", *names] if names else None)


def _mixture_target(artifact: Artifact) -> Target:
    """The mixture that `herd em` has learned."""
    from herdcli.quadrature.targets import MixtureTarget

    model = artifact.value
    if model.freedom is not None:
        why = "is by variational Bayes, which predicts a mixture of Student distributions: their means of kernels have no closed form"
        raise BadUsage(f"{artifact.name} {why}", hint="herd em without --bayes")
    return MixtureTarget(model.weight / model.weight.sum(), model.mean, model.covariance)


def recorded_target(text: str) -> str:
    """The record of a text of --target: of one that names a file its kind alone, since the content is among the inputs."""
    name, _, rest = text.partition(":")
    return name if rest and name in OF_FILES and not (name == "gaussian" and _two_numbers(rest)) else text


def recorded_scores(text: str | None) -> str | None:
    """The record of --scores: of a file that, of columns their prefix."""
    return "file" if text is not None and ("/" in text or Path(text).is_file()) else text


def _two_numbers(text: str) -> tuple[float, float] | None:
    try:
        first, second = (float(part) for part in text.split(","))
    except ValueError:
        return None
    return first, second
