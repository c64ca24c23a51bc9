"""The label of rows as their last column, as needed by a product of kernels on rows and on labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli.errors import DataError, missing_column_error

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.schema import Array


def append_labels(
    artifact: Artifact, X: Array, names: list[str] | None, column: str | None, option: str = "--label"
) -> tuple[Array, list[str]]:
    """Return the rows (n, d) of a data set or samples with the label as last column (n, d + 1), and the names of all columns.

    column  one of the columns, or the data set's own label, which None means too.
    Raises BadUsage if there is no such column.
    """
    y = getattr(artifact.value, "y", None)
    if names and column in names:
        j = names.index(column)
        if X.shape[1] == 1:
            raise DataError(f"has no column other than '{column}'", where=artifact.name)
        X, y, names = np.delete(X, j, axis=1), X[:, j], [name for name in names if name != column]
    elif y is None or column not in (None, "y"):
        raise missing_column_error(option, column or "y", [*(names or []), *([] if y is None else ["y"])], artifact.name)
    named = names or [f"x{j}" for j in range(X.shape[1])]
    return np.column_stack([X, np.asarray(y, dtype=np.float64)]), [*named, column or "y"]
