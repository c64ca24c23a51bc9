"""Multilayer perceptrons: a classifier and a regressor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin

from herdcli.schema import Array
from herdcli.sklearn.base import Estimator, Options, RandomState, RowsLike, TargetsLike
from herdcli.sklearn.classifiers import number_classes

if TYPE_CHECKING:
    from sklearn.utils import Tags

FITTED = ("activation", "optimizer", "l2", "epochs", "batch_size", "learning_rate", "patience", "restarts", "dtype")  # options as they are


class Layered(Estimator):
    """The parameters that both perceptrons have, and their fit."""

    hidden: tuple[int, ...]
    validation_fraction: float

    def _fit_layers(self, *rows: object, **options: object) -> None:
        """Run `regress` on rows, a share of which decides when the fit stops."""
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(f"validation_fraction is {self.validation_fraction!r}, expected a number from 0 to below 1")
        sizes = [self.hidden] if isinstance(self.hidden, int | np.integer) else self.hidden
        split = f"{1 - self.validation_fraction:.12g},{self.validation_fraction:.12g},0"
        asked = {name: getattr(self, name) for name in FITTED}
        given = {name: value for name, value in asked.items() if value is not None}
        self._fit_command("regress", *rows, hidden=",".join(str(size) for size in sizes), split=split, **given, **options)


class PerceptronClassifier(ClassifierMixin, Layered):
    """A multilayer perceptron of classes, fitted as by `herd regress --hidden`.

    hidden               number of units of each hidden layer, the lowest first.
    activation           tanh, relu, logistic or softplus.
    optimizer            trust-region, adam or sgd; None chooses by the size of the problem.
    l2                   ½ l2 ‖W‖² is added to the mean loss; None: 1 / training rows.
    validation_fraction  share of the rows that decides when the fit stops; 0: none.
    patience             steps or epochs without a lower loss on these rows after which it stops.
    dtype                float32 or float64, of minibatches.

    Attributes: `classes_`, `artifact_`.
    """

    def __init__(
        self,
        hidden: tuple[int, ...] = (64,),
        *,
        activation: str = "tanh",
        optimizer: str | None = None,
        l2: float | None = None,
        validation_fraction: float = 0.2,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        patience: int = 10,
        restarts: int = 1,
        dtype: str | None = None,
        options: Options = None,
        random_state: RandomState = 0,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.optimizer = optimizer
        self.l2 = l2
        self.validation_fraction = validation_fraction
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.patience = patience
        self.restarts = restarts
        self.dtype = dtype
        self.options = options
        self.random_state = random_state

    def fit(self, X: RowsLike, y: TargetsLike) -> PerceptronClassifier:
        """Fit to rows (n, d), dense or CSR, and labels (n,)."""
        X, y = self._validate_training_rows(X, y, accept_sparse="csr")
        self.classes_, codes = number_classes(y)
        names = [str(code) for code in range(len(self.classes_))]
        self._fit_layers(self._training_dataset(X, y=codes, class_names=names, split=None))
        return self

    def predict_proba(self, X: RowsLike) -> Array:
        """Return probabilities (n, classes) of the classes of each row, in the order of `classes_`."""
        found: Array = self._apply_model(self._validate_new_rows(X, accept_sparse="csr"), want="classes").X
        return found

    def predict(self, X: RowsLike) -> Array:
        """Return the most probable class (n,) of each row."""
        winners = self.predict_proba(X).argmax(axis=1)
        found: Array = self.classes_[winners]
        return found

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class PerceptronRegressor(RegressorMixin, Layered):
    """A multilayer perceptron of a real target, fitted as by `herd regress --hidden`.

    family  gaussian, poisson, gamma, gamma-shape or bernoulli.  The other parameters are those of `PerceptronClassifier`.

    Attributes: `artifact_`.
    """

    def __init__(
        self,
        hidden: tuple[int, ...] = (64,),
        *,
        family: str = "gaussian",
        activation: str = "tanh",
        optimizer: str | None = None,
        l2: float | None = None,
        validation_fraction: float = 0.2,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        patience: int = 10,
        restarts: int = 1,
        dtype: str | None = None,
        options: Options = None,
        random_state: RandomState = 0,
    ) -> None:
        self.hidden = hidden
        self.family = family
        self.activation = activation
        self.optimizer = optimizer
        self.l2 = l2
        self.validation_fraction = validation_fraction
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.patience = patience
        self.restarts = restarts
        self.dtype = dtype
        self.options = options
        self.random_state = random_state

    def fit(self, X: RowsLike, y: TargetsLike) -> PerceptronRegressor:
        """Fit to rows (n, d) and targets (n,)."""
        X, y = self._validate_training_rows(X, y, y_numeric=True, ensure_min_samples=2)
        names = [str(name) for name in getattr(self, "feature_names_in_", [f"x{column}" for column in range(X.shape[1])])]
        self._fit_layers(X, np.asarray(y, dtype=np.float64), feature_names=names, family=self.family)
        return self

    def predict(self, X: RowsLike) -> Array:
        """Return the expected target (n,) of each row."""
        found: Array = self._apply_model(self._validate_new_rows(X), want="means").X[:, 0]
        return found
