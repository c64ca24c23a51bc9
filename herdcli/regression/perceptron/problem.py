"""The loss of a perceptron over rows, its gradient and products with its Hessian, as sums over blocks.

f(θ) = Σ_n w_n ℓ(y_n, η_n) / Σ w + ½ λ₂ Σ_l ‖W^l‖²,     η = net(x) + offset,    the biases free.
"""

from __future__ import annotations

from dataclasses import field, replace

import numpy as np

from herdcli.numerics.block_statistics import BLOCK, BlockStatistics, Map, RowBlock, RowBlocks, RowReader, Sums, sum_statistics
from herdcli.numerics.row_selection import is_sparse
from herdcli.records import dataclass
from herdcli.regression.families import Family
from herdcli.regression.fit import RegressionProblem
from herdcli.regression.perceptron import backpropagation
from herdcli.regression.perceptron.architecture import Architecture
from herdcli.regression.perceptron.scaling import ScaledRows
from herdcli.schema import Array


@dataclass(frozen=True)
class PerceptronProblem(RegressionProblem):
    """A perceptron on rows as in `RegressionProblem`; θ (1, q) has the parameters of the architecture."""

    architecture: Architecture = field(kw_only=True)

    @property
    def penalised(self) -> Array:
        """A mask with 1 for weights and 0 for biases, (q,)."""
        return self.architecture.penalised

    def penalty(self, theta: Array) -> float:
        """Return ½ λ₂ ‖W‖²."""
        return 0.5 * self.l2 * float((self.penalised * np.square(theta.ravel())).sum())

    def forward(self, block: RowBlock, theta: Array) -> backpropagation.ForwardPass:
        """Return the forward pass through all layers, without offsets."""
        rows = np.ascontiguousarray(block.X[:, : self.features])
        return backpropagation.forward(self.architecture.layers(theta.ravel()), self.architecture.function, rows)


def block_weights(block: RowBlock) -> Array:
    """Return the weights (m,), 1 by default."""
    return np.ones(len(block.X)) if block.weight is None else block.weight


@dataclass(frozen=True)
class LossSums(BlockStatistics):
    """A function from a block to Σw and the loss at θ."""

    problem: PerceptronProblem
    theta: Array

    def __call__(self, block: RowBlock) -> Sums:
        """Return the sums of a block."""
        weight = block_weights(block)
        with np.errstate(over="ignore", invalid="ignore"):
            eta = self.problem.forward(block, self.theta).eta + block.X[:, -1:]
            loss = self.problem.family.terms(eta, block.X[:, -2])[0]
            return {"mass": np.array([weight.sum()]), "loss": np.array([weight @ loss])}


@dataclass(frozen=True)
class PerceptronGradient(BlockStatistics):
    """A function from a block to the sums of `newton_cg.GradientSums`, with the metric of θ itself and no separated rows."""

    problem: PerceptronProblem
    theta: Array

    def __call__(self, block: RowBlock) -> Sums:
        """Return the sums of a block."""
        problem, weight = self.problem, block_weights(block)
        shape, gradient = problem.architecture, np.zeros(self.theta.size)
        with np.errstate(over="ignore", invalid="ignore"):
            passed = problem.forward(block, self.theta)
            loss, slope, _ = problem.family.terms(passed.eta + block.X[:, -1:], block.X[:, -2])
            delta = slope * weight[:, None]
            backpropagation.backward(shape.layers(self.theta.ravel()), shape.function, passed, delta, shape.layers(gradient))
        mass = float(weight.sum())
        return {
            "mass": np.array([mass]),
            "loss": np.array([weight @ loss]),
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

    def __call__(self, block: RowBlock) -> Sums:
        """Return the sums of a block."""
        problem, weight = self.problem, block_weights(block)[:, None]
        shape, product = problem.architecture, np.zeros(self.theta.size)
        passed = problem.forward(block, self.theta)
        _, slope, curve = problem.family.terms(passed.eta + block.X[:, -1:], block.X[:, -2])

        def curvature(change: Array) -> Array:
            along = curve * change
            if curve.shape[1] > 1:  # (diag π − ππ') u
                along -= curve * along.sum(axis=1, keepdims=True)
            return along * weight

        backpropagation.hessian_product(
            shape.layers(self.theta.ravel()),
            shape.layers(self.v.ravel()),
            shape.function,
            passed,
            slope * weight,
            curvature,
            shape.layers(product),
        )
        return {"product": product[None]}


def sparse_loss(problem: PerceptronProblem, theta: Array, rows: ScaledRows) -> float:
    """Return the mean loss of rows in CSR, which stay so, at θ (q,), without penalty."""
    first, *others = problem.architecture.layers(theta)
    layers = [rows.scaling.folded(first), *others]
    targets, total = rows.targets, 0.0
    weight = np.ones(rows.count) if rows.rows.weight is None else rows.rows.weight
    for start in range(0, rows.count, BLOCK):
        part = slice(start, start + BLOCK)
        with np.errstate(over="ignore", invalid="ignore"):
            eta = backpropagation.forward(layers, problem.architecture.function, rows.rows.X[part]).eta
            total += float(weight[part] @ problem.family.terms(eta + targets[part, 1:], targets[part, 0])[0])
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
