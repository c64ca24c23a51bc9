"""Files and texts that specify matrices and the targets of herding."""

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
    """Return the rows of a data set or samples as float64, and the column names."""
    import numpy as np

    value = artifact.value
    X = value.x if artifact.kind == "samples" else value.X
    dense = X.toarray() if hasattr(X, "indptr") else X
    return np.ascontiguousarray(dense, dtype=np.float64), value.feature_names


def read_rows_and_names(session: Session, path: str, role: str) -> tuple[Array, list[str] | None]:
    """Return the rows of a file as float64, and the column names."""
    return rows_and_names(session.load(path, role, kinds={"dataset", "samples"}))


def parse_target(session: Session, text: str, dimension: int) -> Target:
    """Return the target for a text such as `uniform:0,1` or `mixture:FILE`.  Raises BadUsage for a text that is not a target."""
    from herdcli.quadrature import input_preparation

    name, _, rest = text.partition(":")
    numbers = _parse_two_numbers(rest) if rest else (0.0, 1.0)
    if name == "uniform" and numbers:
        return input_preparation.make_uniform_box(*numbers, dimension)
    if name == "gaussian" and numbers:
        return input_preparation.make_independent_gaussian(*numbers, dimension)
    if name not in OF_FILES or not rest:
        raise BadUsage(f"--distribution '{text}' is not a target", hint=f"targets: {FORMS}")
    artifact = session.load(rest, "target", kinds={"dataset", "samples"} | ({"mixture"} if name == "mixture" else set()))
    return (
        _mixture_target(artifact)
        if artifact.kind == "mixture"
        else input_preparation.parse_target_table(name, *_rows_with_weights(artifact))
    )


def _rows_with_weights(artifact: Artifact) -> tuple[Array, list[str] | None]:
    """Return rows and names as `rows_and_names` does, with a data set's row weights as the first column `weight`."""
    import numpy as np

    X, names = rows_and_names(artifact)
    weight = artifact.value.weight if artifact.kind == "dataset" else None
    return (X, names) if weight is None else (np.column_stack([weight, X]), ["weight", *names] if names else None)


def _mixture_target(artifact: Artifact) -> Target:
    """Return a mixture fitted by `herd em` as a target."""
    from herdcli.quadrature.targets import MixtureTarget

    model = artifact.value
    if model.freedom is not None:
        why = "is a variational Bayes model, a mixture of Student distributions, for which kernel means have no closed form"
        raise BadUsage(f"{artifact.name} {why}", hint="fit the mixture again: herd em without --bayes")
    return MixtureTarget(model.weight / model.weight.sum(), model.mean, model.covariance)


def target_for_record(text: str) -> str:
    """Return the record of a --distribution text; if it names a file, only the kind, since the file's content is among the inputs."""
    name, _, rest = text.partition(":")
    return name if rest and name in OF_FILES and not (name == "gaussian" and _parse_two_numbers(rest)) else text


def scores_for_record(text: str | None) -> str | None:
    """Return the record of --scores: `file` for a file, or the prefix of columns."""
    return "file" if text is not None and ("/" in text or Path(text).is_file()) else text


def _parse_two_numbers(text: str) -> tuple[float, float] | None:
    try:
        first, second = (float(part) for part in text.split(","))
    except ValueError:
        return None
    return first, second
