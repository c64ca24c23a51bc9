"""The `perceptron` artifact: layers, facts about the fit, and predictions of held-out rows by the perceptron and a linear model."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from herdcli.errors import DataError
from herdcli.numerics.block_statistics import BLOCK
from herdcli.numerics.class_baselines import ClassBaselines
from herdcli.records import dataclass
from herdcli.regression import weight_meaning
from herdcli.regression.families import Family, family_by_name
from herdcli.regression.model import HeldoutRows
from herdcli.regression.perceptron import backpropagation
from herdcli.regression.perceptron.activations import BY_NAME
from herdcli.regression.perceptron.choices import ACTIVATIONS, OPTIMIZERS
from herdcli.regression.perceptron.scaling import FitScaling
from herdcli.schema import Array, Matrix, array, is_sparse


@dataclass(frozen=True, kw_only=True)
class PerceptronLayer:
    """One layer, a = W x + b."""

    W: Array = array("m n", "weights, a row for each unit", kind="f", finite=True)
    b: Array = array("m", "biases", kind="f", finite=True)


@dataclass(frozen=True, kw_only=True)
class PerceptronHeldoutRows(HeldoutRows):
    """Held-out rows with their predictions by the perceptron and the linear model."""

    linear: Array = array("h K", "linear predictor of the linear model, offset included", kind="f", finite=True)


@dataclass(frozen=True, kw_only=True)
class Perceptron:
    """A multilayer perceptron, η = net(x) + offset, with K predictors: one per class for softmax, else one.

    `column_mean` is subtracted from columns, and the result is multiplied by `column_factor`.  Hidden layers are followed by the
    activation, the last one is not.  `linear` is a baseline: a generalised linear model of the same scaled columns with a small ridge.
    Dispersions are those of the validation rows if there are any, else of the training rows.
    """

    layers: list[PerceptronLayer]
    column_mean: Array = array("D", "what columns are less", kind="f", finite=True)
    column_factor: Array = array("D", "one over their deviation; 0 of constant columns", kind="f", finite=True)
    linear: Array = array("K p", "coefficients of the linear model, the intercept last", kind="f", finite=True)
    null_intercept: Array = array("K", "α of the model of intercepts alone", kind="f", finite=True)
    trace: Array = array("T", "penalised mean loss of the training rows, step by step or epoch by epoch", kind="f")
    validation_trace: Array = array("V", "mean loss of the validation rows at the same times, where there are any", kind="f")
    activation: str
    optimizer: str
    family: str
    l2: float
    scale: float  # known scale of gamma-shape
    dispersion: float
    linear_dispersion: float
    null_dispersion: float
    deviance: float
    linear_deviance: float
    null_deviance: float  # deviance of the model of intercepts alone
    rows: int  # number of rows of positive weight
    mass: float  # Σ w
    converged: bool
    restart: int  # index of the best start
    seed: int
    target: str
    feature_names: list[str] | None = None
    classes: list[str] | None = None
    weight_kind: str = "precision"  # meaning of the weights
    response: str = ""  # form of the target, as in `regression`
    image_shape: Array | None = array("2", "height and width of a row seen as a picture", kind="iu", optional=True)
    baselines: ClassBaselines | None = None  # fitted to the same training rows
    holdout: PerceptronHeldoutRows | None = None

    gls = ""  # errors are independent
    separated = False

    def validate(self) -> None:
        """Raise DataError unless layers, family and columns are consistent."""
        self.distribution()
        if self.activation not in ACTIVATIONS or self.optimizer not in OPTIMIZERS:
            raise DataError(f"the activation '{self.activation}' or the optimizer '{self.optimizer}' is unknown to this version of herd")
        if self.weight_kind not in weight_meaning.KINDS:
            raise DataError(f"'{self.weight_kind}' is not a kind of weights")
        if not self.layers:
            raise DataError("/layers is empty")
        width = self.columns
        for number, layer in enumerate(self.layers):
            if layer.W.shape[1] != width:
                raise DataError(f"/layers/{number}/W has {layer.W.shape[1]} columns, expected {width}")
            width = len(layer.W)
        wanted = len(self.classes or []) if self.family == "softmax" else 1
        if width != wanted or len(self.linear) != wanted:
            raise DataError(f"the last layer has {width} outputs, but {self.family} needs {wanted}")
        if self.linear.shape[1] != self.columns + 1:
            raise DataError(f"/linear has {self.linear.shape[1]} columns, expected {self.columns + 1}")
        if self.feature_names is not None and len(self.feature_names) != self.columns:
            raise DataError(f"/feature_names has {len(self.feature_names)} names for {self.columns} columns")
        if self.baselines is not None:
            self.baselines.require_shape(len(self.classes or []) or 2, self.columns)
        if self.holdout is not None and self.holdout.predictor.shape[1] != width:
            raise DataError(f"/holdout/predictor has {self.holdout.predictor.shape[1]} columns, but the model has {width} predictors")

    @property
    def columns(self) -> int:
        """The number of columns of a row."""
        return len(self.column_mean)

    @property
    def hidden(self) -> list[int]:
        """The number of units of each hidden layer."""
        return [len(layer.b) for layer in self.layers[:-1]]

    @property
    def parameters(self) -> int:
        """The total number of weights and biases."""
        return sum(layer.W.size + layer.b.size for layer in self.layers)

    @property
    def size(self) -> float:
        """The number of observations n: rows, or Σ w under frequency weights."""
        return weight_meaning.observation_count(self.weight_kind, self.rows, self.mass)

    def distribution(self) -> Family:
        """Return the family."""
        return family_by_name(self.family, classes=len(self.classes or []), symmetric=True, scale=self.scale)

    @property
    def scaling(self) -> FitScaling:
        """The scaling of the columns."""
        return FitScaling(self.column_mean, self.column_factor, 0.0, 1.0)

    def predictor(self, X: Matrix, offset: Array | None = None) -> Array:
        """Return η (m, K) of rows X (m, D), dense or CSR."""
        eta = np.concatenate([self._forward_pass(part).eta for part in _blocks(X)])
        return eta if offset is None else eta + offset[:, None]

    def both_predictors(self, X: Matrix, offset: Array) -> tuple[Array, Array]:
        """Return η (m, K) of rows X (m, D), dense or CSR, by the perceptron and by the linear model."""
        linear, found = [(self.linear[:, :-1], self.linear[:, -1])], list[tuple[Array, Array]]()
        for part in _blocks(X):
            scaled = part if is_sparse(X) else self.scaling.scale_columns(part)
            found.append((self._forward_pass(part, scaled).eta, self._pass_through_layers(linear, part, scaled).eta))
        own, other = (np.concatenate(each) + offset[:, None] for each in zip(*found, strict=True))
        return own, other

    def features(self, X: Matrix) -> Array:
        """Return the outputs (m, Σ hidden) of all hidden layers, the first layer's first, of rows (m, D), dense or CSR."""
        return np.concatenate([np.concatenate(self._forward_pass(part).outputs[1:], axis=1) for part in _blocks(X)])

    def feature_titles(self) -> list[str]:
        """Return the names of `features`: h2_5 is the fifth unit of the second layer."""
        return [f"h{layer + 1}_{unit + 1}" for layer, count in enumerate(self.hidden) for unit in range(count)]

    def _forward_pass(self, X: Matrix, scaled: Array | None = None) -> backpropagation.ForwardPass:
        return self._pass_through_layers([(layer.W, layer.b) for layer in self.layers], X, scaled)

    def _pass_through_layers(
        self, layers: list[tuple[Array, Array]], X: Matrix, scaled: Array | None = None
    ) -> backpropagation.ForwardPass:
        """Return the forward pass of rows through layers for scaled columns; rows in CSR stay so.  scaled  the same rows, if known."""
        function = BY_NAME[self.activation]
        if is_sparse(X):
            return backpropagation.forward([self.scaling.fold_into_layer(layers[0]), *layers[1:]], function, X)
        return backpropagation.forward(layers, function, self.scaling.scale_columns(X) if scaled is None else scaled)


def _blocks(X: Matrix) -> Iterator[Matrix]:
    """Yield rows a block at a time, at least one block."""
    return (X[start : start + BLOCK] for start in range(0, max(X.shape[0], 1), BLOCK))
