"""The base of the estimators: scikit-learn's checks of rows, seeds, and calls of the functions of `herdcli.engine`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from herdcli.artifacts import Dataset
from herdcli.engine import command_function
from herdcli.schema import Array, is_sparse

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from scipy.sparse import csr_matrix

Options = Mapping[str, object] | None  # keywords of a function of the engine
RowsLike: TypeAlias = "ArrayLike | csr_matrix"  # rows (n, d): an array, lists, CSR, or a frame
TargetsLike: TypeAlias = "ArrayLike"  # labels or targets (n,) or (n, k): an array, a list, or a series
RandomState: TypeAlias = "int | np.random.RandomState | None"
LARGEST_SEED = 2**31 - 1


class Estimator(BaseEstimator):
    """A command of herd as an estimator.

    Parameters are the command's options under their own names; `options` is a dictionary of any other options of the command.
    `random_state` is the command's --seed; None draws a seed from NumPy's global state, as scikit-learn's estimators do.

    Attributes after `fit`: `artifact_`, the frozen dataclass that the command writes, and `seed_`.
    """

    options: Options
    random_state: RandomState
    artifact_: Any
    seed_: int

    def _fit_command(self, command: str, *rows: object, **options: object) -> None:
        """Run a command on rows and store its result."""
        self.seed_ = self._seed()
        self.artifact_ = self._run(command, *rows, seed=self.seed_, **options)

    def _run(self, command: str, *rows: object, **options: object) -> Any:
        return command_function(command)(*rows, **options, **(self.options or {}))

    def _seed(self) -> int:
        state = self.random_state
        return int(state) if isinstance(state, int | np.integer) else int(check_random_state(state).randint(LARGEST_SEED))

    def _validate_training_rows(self, X: RowsLike, y: TargetsLike = "no_validation", **checks: object) -> Any:
        """Return training rows as an array or CSR; with y, return both."""
        return validate_data(self, X, y, **checks)

    def _validate_new_rows(self, X: RowsLike, **checks: object) -> Any:
        """Return new rows, after checking that they have the columns of the training rows."""
        check_is_fitted(self, "artifact_")
        return validate_data(self, X, reset=False, **checks)

    def _training_dataset(self, X: Any, **parts: Any) -> Dataset:
        """Return rows as a data set for training only, with the names of their columns if they have any."""
        names = getattr(self, "feature_names_in_", None)
        split = parts.pop("split", np.zeros(X.shape[0], dtype=np.uint8))
        return Dataset(X, split=split, feature_names=None if names is None else [str(name) for name in names], **parts)

    def _apply_model(self, X: Any, **options: object) -> Dataset:
        """Return the result of `herd apply` with the fitted model on new rows."""
        made: Dataset = command_function("apply")(self.artifact_, self._training_dataset(X), **options)
        return made


class BinaryUnitEstimator(Estimator):
    """An estimator of binary units: values from `threshold` of their range upwards are on.

    The range is `value_range`, or that of the training rows if it is None; new rows are clipped to it.
    """

    threshold: float | None
    value_range: tuple[float, float] | None
    value_range_: tuple[float, float] | None

    def _are_units_binary(self) -> bool:
        return True

    def _unit_options(self, X: Any) -> dict[str, Any]:
        """Return the options that convert training rows to units: none for rows with two values, or for counts in CSR."""
        self.value_range_ = None
        if not self._are_units_binary():
            return {}
        if self.value_range is not None:
            self.value_range_ = self.value_range
        elif not _has_binary_units(X):
            low, high = float(X.min()), float(X.max())
            self.value_range_ = (low, high if high > low else low + 1.0)
        given = {"range": self.value_range_, "threshold": self.threshold}
        return {name: value for name, value in given.items() if value is not None}

    def _clip_to_range(self, X: Any) -> Any:
        if self.value_range_ is None:
            return X
        if not is_sparse(X):
            return np.clip(X, *self.value_range_)
        clipped = X.copy()
        clipped.data = np.clip(X.data, *self.value_range_)  # the range contains the zeros
        return clipped


def _has_binary_units(X: Any) -> bool:
    """Return whether rows are binary units already: 0 and 1, −1 and 1, or counts in CSR."""
    if is_sparse(X):
        return bool((X.data % 1 == 0).all())
    return any(np.isin(X, pair).all() for pair in ((0, 1), (-1, 1)))


def writable_copy(array: Array) -> Array:
    """Return a writable copy of an array, for an attribute of an estimator."""
    return np.array(array)
