"""Small spaces that tests of the rules share."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli import iterate
from herdcli.algorithm import run_algorithm
from herdcli.quadrature import selection, selection_problem
from herdcli.quadrature.embeddings import closed_form_embeddings
from herdcli.quadrature.kernels.kernel_functions import GaussianKernel
from herdcli.quadrature.kernels.point_sums import make_point_evaluator
from herdcli.quadrature.rules import sequential_rules
from herdcli.quadrature.rules.candidate_space import CandidateSpace
from herdcli.quadrature.targets import RowTarget, UniformTarget


def _space_of(kernel, target, candidates):
    """A space with a closed-form target, or rows by the kernel matrix itself."""
    if isinstance(target, RowTarget):

        def mean(x):
            return kernel.matrix(x, target.X) @ target.weights

        norm = float(target.weights @ kernel.matrix(target.X, target.X) @ target.weights)
    else:
        mean, norm = closed_form_embeddings.closed_form_embedding(kernel, target)
    points = make_point_evaluator(kernel, candidates)
    return CandidateSpace(kernel, candidates, mean(candidates), norm, kernel.diagonal(candidates), points, mean)


def _run_rule(space, target, count, **settings):
    """The state of a rule of `sequential_rules` after `count` atoms."""
    problem = sequential_rules.SequenceProblem(space, target, sequential_rules.RuleSettings(**settings))
    return iterate.run_steps(
        lambda now: sequential_rules.greedy_step(problem, now), sequential_rules.initial_state(problem, count), steps=count
    )


def _select(X, count, *, rule="herding", refine=0, kernel=None, weights=None, map=map, **more):
    """The result of a whole run over rows."""
    weights = np.full(len(X), 1.0 / len(X)) if weights is None else weights
    settings = selection_problem.SelectionSettings(sequential_rules.RuleSettings(rule, **more), refine)
    group = selection_problem.SelectionGroup(RowTarget(X, weights), None, count)
    problem = selection_problem.SelectionProblem(kernel or GaussianKernel(1.5), (group,), settings)
    return run_algorithm(selection.AtomSelection(problem, map)).done[0]


def _interval(count):
    """i/count, i = 0 … count − 1, as rows, and the uniform law on [0, 1]."""
    return (np.arange(count) / count)[:, None], UniformTarget(np.zeros(1), np.ones(1))


def _mmd(kernel, target_X, target_w, atoms, w):
    """‖Σ w Φ − μ‖ by the kernel matrices themselves."""
    value = w @ kernel.matrix(atoms, atoms) @ w - 2 * w @ kernel.matrix(atoms, target_X) @ target_w
    return float(np.sqrt(max(0.0, value + target_w @ kernel.matrix(target_X, target_X) @ target_w)))


@pytest.fixture
def space_of():
    """See `_space_of`."""
    return _space_of


@pytest.fixture
def run_rule():
    """See `_run_rule`."""
    return _run_rule


@pytest.fixture
def select():
    """See `_select`."""
    return _select


@pytest.fixture
def interval():
    """See `_interval`."""
    return _interval


@pytest.fixture
def mmd():
    """See `_mmd`."""
    return _mmd


@pytest.fixture
def rows():
    """200 rows of three columns."""
    return np.random.default_rng(0).standard_normal((200, 3))
