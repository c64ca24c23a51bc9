"""Kernels of rows and labels: values, sums by every way they are computed, and what atoms make of them."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.errors import BadUsage, DataError
from herdcli.quadrature.kernels import kernel_parsing, kernel_sums
from herdcli.quadrature.kernels.joint_kernels import JointKernel, default_label_kernel_text
from herdcli.quadrature.kernels.kernel_blocks import kernel_matrix
from herdcli.quadrature.kernels.kernel_functions import CompositeKernel, GaussianKernel, HammingKernel, LaplaceKernel
from herdcli.quadrature.kernels.point_sums import make_point_evaluator

RANDOM = np.random.default_rng(11)
CLASSES = np.column_stack([RANDOM.standard_normal((90, 3)), RANDOM.integers(3, size=90)])
NUMBERS = np.column_stack([RANDOM.standard_normal((90, 40)), RANDOM.standard_normal(90)])


def by_hand(kernel, X):
    return kernel.rows.matrix(X[:, :-1], X[:, :-1]) * kernel.label.matrix(X[:, -1:], X[:, -1:])


@pytest.mark.parametrize("label", [HammingKernel(), GaussianKernel(0.7), LaplaceKernel(1.3)])
@pytest.mark.parametrize("X", [CLASSES, NUMBERS], ids=["classes", "numbers"])
def test_every_way_of_summing_gives_the_products(label, X):
    kernel = JointKernel(GaussianKernel(2.0), label)
    gram = by_hand(kernel, X)
    np.testing.assert_allclose(kernel.matrix(X, X), gram, atol=1e-14)
    np.testing.assert_allclose(kernel.diagonal(X), np.diag(gram))
    np.testing.assert_allclose(kernel_matrix(kernel, X[:5], X), gram[:5], atol=1e-13)
    points, w = make_point_evaluator(kernel, X), RANDOM.random(90)
    np.testing.assert_allclose(points.values(X[7]), gram[7], atol=1e-13)
    np.testing.assert_allclose(points.weighted_kernel_sums(X[:80], w[:80]), gram[:80].T @ w[:80], atol=1e-12)
    for rows, expected in ((X, gram @ w), (X[:30].copy(), gram[:, :30] @ w[:30])):
        made = kernel_sums.make_embedding_problem(kernel, X, rows, w[: len(rows)])
        state = kernel_sums.initial_state(made)
        for _ in range(kernel_sums.count_steps(kernel, 90, len(rows))):
            state = kernel_sums.embedding_step(made, state)
        np.testing.assert_allclose(state.sums, expected, atol=1e-12)
    assert (kernel.as_gaussian_kernel(X.shape[1]) is None) == (not isinstance(label, GaussianKernel))


def test_labels_that_differ_are_orthogonal():
    gram = JointKernel(GaussianKernel(2.0), HammingKernel()).matrix(CLASSES, CLASSES)
    assert ((gram == 0) == (CLASSES[:, -1:] != CLASSES[:, -1])).all()


def test_texts_come_back_and_lengths_are_chosen_of_each_part():
    kernel = kernel_parsing.choose_length_scales(kernel_parsing.parse_kernel("gaussian*0.5 & gaussian"), NUMBERS, "median", 0)
    assert isinstance(kernel, JointKernel)
    assert kernel_parsing.parse_kernel(kernel.text()) == kernel
    assert isinstance(kernel.rows, CompositeKernel)
    assert kernel.label.bandwidth == pytest.approx(kernel_parsing.median_distance(NUMBERS[:, -1:], "euclidean", 0))
    with pytest.raises(BadUsage, match="write KERNEL&KERNEL, the first for rows"):
        kernel_parsing.parse_kernel("gaussian&hamming&linear")
    with pytest.raises(BadUsage, match="write KERNEL&KERNEL, the first for rows"):
        kernel_parsing.parse_kernel("gaussian&stein:imq")
    with pytest.raises(DataError, match="needs at least one column besides the label"):
        kernel.check(NUMBERS[:, :1])
    assert (
        kernel_parsing.machine_dependent_part(kernel_parsing.parse_kernel("gaussian&rational-quadratic:1,0.5")).text()
        == "rational-quadratic:1,0.5"
    )


def test_whole_numbers_are_classes():
    assert default_label_kernel_text(np.array([0.0, 1.0, 7.0])) == "hamming"
    assert default_label_kernel_text(np.array([0.0, 1.5])) == "gaussian"


def test_atoms_have_the_shares_of_the_labels(select):
    result = select(CLASSES, 30, kernel=JointKernel(GaussianKernel(2.0), HammingKernel()))
    shares = np.bincount(CLASSES[:, -1].astype(int)) / 90
    np.testing.assert_allclose(np.bincount(result.atoms[:, -1].astype(int)) / 30, shares, atol=0.04)
