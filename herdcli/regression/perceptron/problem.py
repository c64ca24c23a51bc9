"""The loss of a perceptron over rows, its gradient and products with its Hessian, as sums over blocks.

f(θ) = Σ_n w_n ℓ(y_n, η_n) / Σ w + ½ λ₂ Σ_l ‖W^l‖²,     η = net(x) + offset,    the biases free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace

import numpy as np

from herdcli.algorithm import Map
from herdcli.numerics.block_statistics import BLOCK, BlockStatistics, RowBlock, RowBlocks, RowReader, Sums, sum_statistics
from herdcli.records import dataclass
from herdcli.regression.families import Family
from herdcli.regression.fit import RegressionProblem
from herdcli.regression.newton_cg import response_columns
from herdcli.regression.perceptron import backpropagation
from herdcli.regression.perceptron.architecture import Architecture
from herdcli.regression.perceptron.scaling import FitScaling, ScaledRows
from herdcli.regression.sparse_rows import SparseBlock
from herdcli.schema import Array, is_sparse


@dataclass(frozen=True)
class PerceptronProblem(RegressionProblem):
    """A perceptron on rows as in `RegressionProblem`; θ (1, q) has the parameters of the architecture.

    scaling  of the columns of `SparseRows`, which are stored without it; other rows are scaled already.
    """

    architecture: Architecture = field(kw_only=True)
    scaling: FitScaling | None = field(kw_only=True, default=None)

    @property
    def penalty_mask(self) -> Array:
        """A mask with 1 for weights and 0 for biases, (q,)."""
        return self.architecture.penalty_mask

    def penalty(self, theta: Array) -> float:
        """Return ½ λ₂ ‖W‖²."""
        return 0.5 * self.l2 * float((self.penalty_mask * np.square(theta.ravel())).sum())

    def layers(self, block: RowBlock | SparseBlock, theta: Array) -> list[tuple[Array, Array]]:
        """Return the layers of θ for the columns of a block; the ones of a sparse block's rows carry the first biases."""
        layers = self.architecture.layers(theta.ravel())
        if isinstance(block, SparseBlock):
            assert self.scaling is not None
            V, c = self.scaling.fold_into_layer(layers[0])
            layers[0] = (np.column_stack([V, c]), np.zeros(len(c)))
        return layers

    def forward(self, block: RowBlock | SparseBlock, theta: Array) -> backpropagation.ForwardPass:
        """Return the forward pass through all layers, without offsets."""
        rows = block.Z if isinstance(block, SparseBlock) else np.ascontiguousarray(block.X[:, : self.features])
        return backpropagation.forward(self.layers(block, theta), self.architecture.activation_function, rows)

    def gradient(self, block: RowBlock | SparseBlock, write: Callable[[backpropagation.Layers], None]) -> Array:
        """Return the gradient (q,) whose layers, those for the columns of the block, `write` writes."""
        found = np.zeros(self.architecture.parameters)
        layers = self.architecture.layers(found)
        if not isinstance(block, SparseBlock):
            write(layers)
            return found
        assert self.scaling is not None
        W, b = layers[0]
        both = np.empty((len(b), W.shape[1] + 1))
        write([(both, np.empty(len(b))), *layers[1:]])
        W[:], b[:] = both[:, :-1], both[:, -1]
        self.scaling.unfold_gradient((W, b))
        return found


@dataclass(frozen=True)
class LossSums(BlockStatistics):
    """A function from a block to Σw and the loss at θ."""

    problem: PerceptronProblem
    theta: Array

    def __call__(self, block: RowBlock | SparseBlock) -> Sums:
        """Return the sums of a block."""
        y, offset, weight = response_columns(block)
        with np.errstate(over="ignore", invalid="ignore"):
            loss = self.problem.family.loss_and_derivatives(self.problem.forward(block, self.theta).eta + offset, y)[0]
            return {"mass": np.array([weight.sum()]), "loss": np.array([weight[:, 0] @ loss])}


@dataclass(frozen=True)
class PerceptronGradient(BlockStatistics):
    """A function from a block to the sums of `newton_cg.GradientSums`, with the metric of θ itself and no separated rows."""

    problem: PerceptronProblem
    theta: Array

    def __call__(self, block: RowBlock | SparseBlock) -> Sums:
        """Return the sums of a block."""
        problem, function = self.problem, self.problem.architecture.activation_function
        y, offset, weight = response_columns(block)
        with np.errstate(over="ignore", invalid="ignore"):
            passed = problem.forward(block, self.theta)
            loss, slope, _ = problem.family.loss_and_derivatives(passed.eta + offset, y)
            layers, delta = problem.layers(block, self.theta), slope * weight
            gradient = problem.gradient(block, lambda into: backpropagation.backward(layers, function, passed, delta, into))
        mass = float(weight.sum())
        return {
            "mass": np.array([mass]),
            "loss": np.array([weight[:, 0] @ loss]),
            "gradient": gradient[None],
            "diagonal": np.full((1, self.theta.size), mass),
            "doubtful": np.array([np.inf]),
        }


@dataclass(frozen=True)
class PerceptronHessianProduct(BlockStatistics):
    """A function from a block to the Hessian at θ times v, both (1, q), with the family's expected curvature in η."""

    problem: PerceptronProblem
    theta: Array
    v: Array

    def __call__(self, block: RowBlock | SparseBlock) -> Sums:
        """Return the sums of a block."""
        problem, function = self.problem, self.problem.architecture.activation_function
        y, offset, weight = response_columns(block)
        passed = problem.forward(block, self.theta)
        _, slope, curve = problem.family.loss_and_derivatives(passed.eta + offset, y)

        def curvature(change: Array) -> Array:
            along = curve * change
            if curve.shape[1] > 1:  # (diag π − ππ') u
                along -= curve * along.sum(axis=1, keepdims=True)
            return along * weight

        layers, change, delta = problem.layers(block, self.theta), problem.layers(block, self.v), slope * weight

        def write(into: backpropagation.Layers) -> None:
            backpropagation.hessian_product(layers, change, function, passed, delta, curvature, into)

        return {"product": problem.gradient(block, write)[None]}


def sparse_loss(problem: PerceptronProblem, theta: Array, rows: ScaledRows) -> float:
    """Return the mean loss of rows in CSR, which stay so, at θ (q,), without penalty."""
    first, *others = problem.architecture.layers(theta)
    layers = [rows.scaling.fold_into_layer(first), *others]
    targets, total = rows.targets, 0.0
    weight = np.ones(rows.count) if rows.rows.weight is None else rows.rows.weight
    for start in range(0, rows.count, BLOCK):
        part = slice(start, start + BLOCK)
        with np.errstate(over="ignore", invalid="ignore"):
            eta = backpropagation.forward(layers, problem.architecture.activation_function, rows.rows.X[part]).eta
            total += float(weight[part] @ problem.family.loss_and_derivatives(eta + targets[part, 1:], targets[part, 0])[0])
    return total / float(weight.sum())


@dataclass(frozen=True)
class ValidationRows:
    """The validation rows, whose mean loss decides early stopping; None: there are none."""

    rows: RowReader | None
    family: Family

    def loss(self, problem: PerceptronProblem, theta: Array, map: Map = map) -> float:
        """Return the mean loss at θ without penalty; NaN without rows."""
        if self.rows is None:
            return float("nan")
        if isinstance(self.rows, ScaledRows) and is_sparse(self.rows.rows.X):
            return sparse_loss(problem, theta.ravel(), self.rows)
        sums = sum_statistics(RowBlocks(self.rows), LossSums(replace(problem, rows=self.rows), theta), map)
        return float(sums["loss"][0] / sums["mass"][0])
