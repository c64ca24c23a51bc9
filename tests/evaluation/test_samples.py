"""What eval says of samples, against the definitions."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.evaluation.figures import samples
from herdcli.evaluation.plots import samples_plots
from herdcli.quadrature import input_preparation, result_assembly, selection, selection_problem
from herdcli.quadrature.kernels.kernel_functions import FeatureKernel, GaussianKernel
from herdcli.quadrature.rules import sequential_rules
from herdcli.quadrature.targets import MomentTarget, RowTarget


def made(kernel, group, rule="herding", **more):
    problem = selection_problem.SelectionProblem(kernel, (group,), selection_problem.SelectionSettings(sequential_rules.RuleSettings(rule)))
    state = run_algorithm(selection.AtomSelection(problem))
    return result_assembly.assemble_samples(
        problem, state, [None], kind="rule", projected=True, scale=np.ones(group.target.dimension), **more
    )


@pytest.fixture
def rows():
    return np.random.default_rng(0).standard_normal((120, 2))


def test_comparison_with_other_rows(rows):
    kernel = GaussianKernel(1.0)
    value = made(kernel, selection_problem.SelectionGroup(RowTarget(rows, np.full(120, 1 / 120)), None, 30), "line-search")
    held = np.random.default_rng(1).standard_normal((90, 2)) + 0.3
    found = samples.target_comparison_columns(
        kernel, value.x, value.weight, samples.target_reference(kernel, RowTarget(held, np.full(90, 1 / 90)))
    )
    w, v = value.weight, np.full(90, 1 / 90)
    K = kernel.matrix
    exact = w @ K(value.x, value.x) @ w - 2 * w @ K(value.x, held) @ v + v @ K(held, held) @ v
    assert found["target_mmd"] == pytest.approx(np.sqrt(exact), abs=1e-12)
    spread = np.sqrt(np.trace(np.cov(held.T, bias=True)))
    assert found["mean_error"] == pytest.approx(np.linalg.norm(w @ value.x - held.mean(axis=0)) / spread)
    second = held.T @ held / 90
    assert found["second_error"] == pytest.approx(np.linalg.norm((value.x.T * w) @ value.x - second) / np.linalg.norm(second))


@pytest.mark.parametrize("rule", ["herding", "line-search", "open-loop"])
def test_trace_against_a_target_uses_the_weights_of_each_t(rows, rule):
    kernel = GaussianKernel(1.0)
    target = RowTarget(rows, np.full(120, 1 / 120))
    value = made(kernel, selection_problem.SelectionGroup(target, None, 40), rule)
    found = samples.trace_rows(value, samples.target_reference(kernel, target), kernel)
    assert [row["t"] for row in found][-1] == 40
    for row in found:
        assert row["target_mmd"] == pytest.approx(row["mmd"], abs=1e-10)
    assert found[-1]["projected_mmd"] <= found[-1]["mmd"]


def test_laws_of_states():
    mean = np.array([0.25, -0.5, 0.75])
    group = selection_problem.SelectionGroup(MomentTarget(mean, None), input_preparation.all_hypercube_states(3), 400)
    value = made(FeatureKernel(), group)
    law = np.bincount((value.x > 0) @ [1, 2, 4], minlength=8) / 400
    independent = [
        np.prod([(1 + m * s) / 2 for m, s in zip(mean, state, strict=True)]) for state in input_preparation.all_hypercube_states(3)
    ]
    last = samples.trace_rows(value, None, None)[-1]
    assert last["law_distance"] == pytest.approx(np.linalg.norm(law - independent), abs=1e-12)
    assert last["law_entropy"] == pytest.approx(-np.sum(law[law > 0] * np.log2(law[law > 0])), abs=1e-12)
    assert samples.metrics(value, None)["law_distance"] == pytest.approx(last["law_distance"], abs=1e-12)


def test_figures_of_the_artifact(rows):
    value = made(GaussianKernel(1.0), selection_problem.SelectionGroup(RowTarget(rows, np.full(120, 1 / 120)), None, 20))
    found = samples.metrics(value, None)
    assert found["atoms"] == 20
    assert found["mmd"] == pytest.approx(value.mmd[-1], abs=1e-12)
    assert found["effective_size"] == pytest.approx(20.0)
    assert found["projected_mmd"] < found["mmd"]


def test_images_of_the_heaviest_atoms_are_shared_among_groups():
    weight, groups = np.array([5.0, 4.0, 3.0, 1.0, 2.0]), np.array([0, 0, 0, 1, 1])
    assert samples_plots._heaviest_of_each_group(weight, groups).tolist() == [0, 4, 1, 3, 2]
