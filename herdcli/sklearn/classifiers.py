"""Classifiers: a Gaussian over weights, learned online, and herding with one run for each class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from herdcli.engine import command_function
from herdcli.evaluation.baselines.energy_classification import class_probabilities
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.schema import Array
from herdcli.sklearn.base import BinaryUnitEstimator, Estimator, Options, RandomState, RowsLike, TargetsLike

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from sklearn.utils import Tags


def number_classes(y: TargetsLike, classes: ArrayLike | None = None) -> tuple[Array, Array]:
    """Return the classes, and the class number of each label.

    Raises ValueError for invalid labels, for one class, and for unknown labels.
    """
    check_classification_targets(y)
    found = np.unique(y if classes is None else classes)
    if len(found) < 2:
        raise ValueError(f"a classifier needs two classes or more, and there is one class: {found.tolist()}")
    unknown = np.setdiff1d(y, found)
    if unknown.size:
        raise ValueError(f"labels {unknown.tolist()} are none of the classes {found.tolist()}")
    return found, np.searchsorted(found, y)


class NHERDClassifier(ClassifierMixin, Estimator):
    """Normal herding and related methods: one Gaussian over the weights, learned in epochs over the rows, as by `herd nherd-train`.

    algorithm   auto (nherd or arow), nherd, arow, cw, scw1, scw2, pa, pa1, pa2, perceptron, sop.
    C           weight of an example; "auto" chooses among eight values on the first rows.
    covariance  diagonal or full.  normalize: "l2" scales rows to length 1.  kernel: none, linear, polynomial or gaussian.

    Attributes: `classes_`, `artifact_`.
    """

    def __init__(
        self,
        algorithm: str = "auto",
        *,
        C: float | str = "auto",
        covariance: str = "diagonal",
        passes: int = 1,
        shuffle: bool = False,
        normalize: str | None = None,
        kernel: str = "none",
        options: Options = None,
        random_state: RandomState = 0,
    ) -> None:
        self.algorithm = algorithm
        self.C = C
        self.covariance = covariance
        self.passes = passes
        self.shuffle = shuffle
        self.normalize = normalize
        self.kernel = kernel
        self.options = options
        self.random_state = random_state

    def fit(self, X: RowsLike, y: TargetsLike) -> NHERDClassifier:
        """Fit to rows (n, d), in their order, and labels (n,)."""
        X, y = self._validate_training_rows(X, y, accept_sparse="csr")
        self.classes_, codes = number_classes(y)
        self._begin(X, codes)
        return self

    def partial_fit(self, X: RowsLike, y: TargetsLike, classes: ArrayLike | None = None) -> NHERDClassifier:
        """Continue with more rows.  classes: all labels that will occur, required in the first call.

        If algorithm and C are given and the first call has 100 rows, the result is that of `fit` with one epoch over all rows: features
        are centred at the mean of the first 100 rows.
        """
        first = not hasattr(self, "artifact_")
        X, y = self._validate_training_rows(X, y, accept_sparse="csr", reset=first)
        if first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit")
        if not first and classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes {np.unique(classes).tolist()} are not those of the first call, {self.classes_.tolist()}")
        self.classes_, codes = number_classes(y, classes if first else self.classes_)
        if first:
            self._begin(X, codes)
        else:
            self.artifact_ = command_function("nherd_train")(self._training_dataset(X, y=codes), continue_=self.artifact_)
        return self

    def _begin(self, X: RowsLike, codes: Array) -> None:
        asked = {name: getattr(self, name) for name in ("algorithm", "C", "covariance", "passes", "shuffle", "kernel")}
        names = ",".join(str(code) for code in range(len(self.classes_)))
        self._fit_command("nherd_train", self._training_dataset(X, y=codes), classes=names, normalize=self.normalize, **asked)

    def predict_proba(self, X: RowsLike) -> Array:
        """Return probabilities (n, classes) of the classes of each row, in the order of `classes_`."""
        made: Array = self._apply_model(self._validate_new_rows(X, accept_sparse="csr")).X
        return made

    def predict(self, X: RowsLike) -> Array:
        """Return the most probable class (n,) of each row."""
        check_is_fitted(self, "artifact_")
        winners = self._apply_model(self._validate_new_rows(X, accept_sparse="csr")).y
        found: Array = self.classes_[winners]
        return found

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class HerdingClassifier(ClassifierMixin, BinaryUnitEstimator):
    """Herding with one run for each class; energies averaged along the runs give the class, as in `herd herd --per-class`.

    The weights of a run do not converge, so there is no final model for new rows.  Therefore `predict` repeats the run with the same rows
    and seed, and so with the same weights, and adds the energies of the new rows.  It takes as long as `fit`.

    hidden, iterations, burn_in  settings of each run.  validation: the share of each class's rows that calibrates the energies.
    threshold, value_range       the conversion of grey rows to binary ones, see RBM.

    Attributes: `classes_`, `artifact_`, `training_`: the rows, labels and split of the runs.
    Source: Welling (2009), sec. 10.
    """

    def __init__(
        self,
        hidden: int = 100,
        *,
        iterations: int = 2000,
        burn_in: int | None = None,
        validation: float = 0.25,
        threshold: float | None = None,
        value_range: tuple[float, float] | None = None,
        options: Options = None,
        random_state: RandomState = 0,
    ) -> None:
        self.hidden = hidden
        self.iterations = iterations
        self.burn_in = burn_in
        self.validation = validation
        self.threshold = threshold
        self.value_range = value_range
        self.options = options
        self.random_state = random_state

    def fit(self, X: RowsLike, y: TargetsLike) -> HerdingClassifier:
        """Fit to rows (n, d) and labels (n,)."""
        X, y = self._validate_training_rows(X, y)
        self.classes_, codes = number_classes(y)
        names = [str(code) for code in range(len(self.classes_))]
        rows = self._training_dataset(X, y=codes, class_names=names, split=None)
        self.grey_ = self._unit_options(X)
        self.training_ = command_function("convert")(rows, split=(1.0 - self.validation, self.validation, 0), seed=self._seed())
        self._fit_command("herd", self.training_, **self._asked())
        return self

    def _asked(self) -> dict[str, Any]:
        own = {"hidden": self.hidden, "iterations": self.iterations, "burn_in": self.burn_in, "per_class": True}
        return {name: value for name, value in (own | self.grey_).items() if value is not None}

    def predict_proba(self, X: RowsLike) -> Array:
        """Return probabilities (n, classes) of the classes of each row, in the order of `classes_`."""
        X = self._clip_to_range(self._validate_new_rows(X))
        known = self.training_
        rows = np.concatenate([known.X, X])
        y = np.concatenate([known.y, np.zeros(len(X), dtype=known.y.dtype)])
        split = np.concatenate([known.split, np.full(len(X), 2, dtype=known.split.dtype)])
        beside = self._training_dataset(rows, y=y, split=split, class_names=known.class_names)
        scores = self._run("herd", beside, seed=self.seed_, **self._asked()).scores
        new = scores.energy[scores.split == 2]
        return class_probabilities(scores, new, EvaluationSettings(seed=self.seed_))

    def predict(self, X: RowsLike) -> Array:
        """Return the most probable class (n,) of each row."""
        check_is_fitted(self, "artifact_")
        found: Array = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return found
