"""Samples of a model against its enumeration, and annealing back from it."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace

import numpy as np
import pytest

from herdcli import iterate
from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage
from herdcli.rbm.likelihood import annealed_importance, enumeration, row_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.rbm.sampling import gibbs_samples
from herdcli.rbm.units import unit_family


def model(visible: str, hidden: str, shape: tuple[int, int] = (3, 2), scale: float = 0.8) -> Harmonium:
    random = np.random.default_rng(4)
    D, K = shape
    return Harmonium(
        random.normal(0, scale, shape), random.normal(0, 0.5, D), random.normal(0, 0.5, K), unit_family(visible), unit_family(hidden)
    )


def run(
    problem: gibbs_samples.SamplingProblem, state: gibbs_samples.SamplingState | None = None, until: int | None = None
) -> gibbs_samples.SamplingState:
    algorithm = gibbs_samples.BlockGibbsSampling(problem)
    return iterate.run_steps(
        algorithm.step, algorithm.init() if state is None else state, steps=algorithm.steps if until is None else until
    )


@pytest.mark.parametrize(("chains", "thin"), [(0, 1), (2000, 10)])
def test_samples_have_the_models_distribution(chains: int, thin: int) -> None:
    h, count = model("spin", "rate:3"), 20_000
    problem = gibbs_samples.SamplingProblem((h,), count, chains=chains, burn_in=50, thin=thin)
    (rows,) = run_algorithm(gibbs_samples.BlockGibbsSampling(problem)).rows
    assert rows.shape == (count, 3)
    v = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    p = np.exp(row_likelihood.row_log_likelihood(h, v, enumeration.exact_log_partition(h)))
    seen = np.array([(rows == state).all(axis=1).mean() for state in v])
    assert (np.abs(seen - p) < 6 * np.sqrt(p * (1 - p) / count)).all()


def test_rounds_of_few_chains_resume_where_they_stood() -> None:
    problem = gibbs_samples.SamplingProblem(
        (model("binary", "binary"), model("binary", "binary", scale=0.2)), 7, chains=3, burn_in=5, thin=4
    )
    assert (problem.rounds, gibbs_samples.BlockGibbsSampling(problem).steps) == (3, 13)
    whole, half = run(problem), run(problem, until=6)
    resumed = run(problem, copy.deepcopy(half))
    for ours, theirs in zip(
        gibbs_samples.BlockGibbsSampling(problem).result(whole).rows,
        gibbs_samples.BlockGibbsSampling(problem).result(resumed).rows,
        strict=True,
    ):
        assert ours.shape == (7, 3)
        np.testing.assert_array_equal(ours, theirs)


def test_means_are_what_states_are_drawn_from() -> None:
    h = model("binary", "binary")
    drawn, means = (
        run_algorithm(gibbs_samples.BlockGibbsSampling(problem)).rows[0]
        for problem in (
            gibbs_samples.SamplingProblem((h,), 4000, burn_in=3),
            gibbs_samples.SamplingProblem((h,), 4000, burn_in=3, means=True),
        )
    )
    assert set(np.unique(drawn)) == {0, 1}
    assert 0 < means.min() < means.max() < 1
    np.testing.assert_allclose(drawn.mean(axis=0), means.mean(axis=0), atol=0.04)


def test_rows_of_upper_layers_are_carried_down() -> None:
    top, below = model("rate:2", "binary", (3, 2)), model("binary", "rate:2", (5, 3))
    problem = gibbs_samples.SamplingProblem((top,), 30, burn_in=5, below=(below,))
    state = run(problem)
    (rows,), (means,) = (gibbs_samples.BlockGibbsSampling(each).result(state).rows for each in (problem, replace(problem, means=True)))
    np.testing.assert_allclose(means, below.visible_means(state.rows.reshape(-1, 3)[:30]), atol=1e-5)
    assert rows.shape == (30, 5)
    assert set(np.unique(rows)) == {0, 1}


def test_chains_can_begin_at_rows() -> None:
    h = model("binary", "binary", scale=30.0)
    start = np.tile([1.0, 0.0, 1.0], (50, 1))
    problem = gibbs_samples.SamplingProblem((h,), 50, burn_in=1, start=start)
    expected = h.hidden_means(start).round()
    np.testing.assert_allclose(gibbs_samples.BlockGibbsSampling(problem).init().hidden[0], expected, atol=0)


@pytest.mark.parametrize(("name", "least"), [("count", 1), ("burn_in", 1), ("thin", 1), ("chains", 0)])
def test_numbers_below_the_least_are_refused(name: str, least: int) -> None:
    with pytest.raises(BadUsage, match=f"{name} must be at least {least}, not {least - 1}"):
        gibbs_samples.SamplingProblem((model("binary", "binary"),), **{name: least - 1})


# annealing back -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("visible", "hidden"), [("binary", "binary"), ("spin", "rate:2"), ("rate:3", "gaussian"), ("softmax:3", "binary")])
def test_annealing_back_agrees_with_enumeration(visible: str, hidden: str) -> None:
    h = model(visible, hidden, (6, 5), scale=0.5 if hidden != "gaussian" else 0.2)
    exact = enumeration.exact_log_partition(h)
    problem = annealed_importance.AnnealingProblem((h,), (np.zeros(6),), chains=300, temperatures=150)
    (there,) = run_algorithm(annealed_importance.AnnealedImportanceSampling(problem))
    (returned,) = run_algorithm(annealed_importance.AnnealedImportanceSampling(replace(problem, known=(np.zeros((0, 6)),))))
    for found in (there, returned):
        assert found.log_partition == pytest.approx(exact, abs=4 * found.standard_error)
        assert 0 < found.standard_error < 0.1


def test_with_few_temperatures_the_two_ways_err_to_opposite_sides() -> None:
    h = model("binary", "binary", (30, 15), scale=1.2)
    exact, sides = enumeration.exact_log_partition(h), []
    for seed in range(20):
        problem = annealed_importance.AnnealingProblem((h,), (np.zeros(30),), chains=10, temperatures=4, seed=seed)
        longer = annealed_importance.AnnealedImportanceSampling(replace(problem, temperatures=100))
        reached = iterate.run_steps(longer.step, longer.init(), until=longer.done)
        back = replace(problem, known=tuple(reached.values))  # begins at better samples than 4 temperatures give
        (there,), (returned,) = (
            run_algorithm(annealed_importance.AnnealedImportanceSampling(problem)),
            run_algorithm(annealed_importance.AnnealedImportanceSampling(back)),
        )
        sides.append((there.log_partition, returned.log_partition))
    below, above = np.mean(sides, axis=0)
    assert below < exact - 0.3
    assert above > exact + 0.3


def test_thinned_rows_are_every_so_many_of_all() -> None:
    h = model("binary", "binary")
    every = run(gibbs_samples.SamplingProblem((h,), 10, chains=2, burn_in=4, thin=1)).rows
    thinned = gibbs_samples.SamplingProblem((h,), 5, chains=2, burn_in=4, thin=2)
    np.testing.assert_array_equal(run(thinned).rows, every[:, ::2])
    algorithm = gibbs_samples.BlockGibbsSampling(thinned)
    told = [algorithm.progress(run(thinned, until=step)) for step in range(9)]
    assert [(now.step, now.bound) for now in told] == [(step, 8) for step in range(9)]
    assert [int(now.figure.split()[0]) for now in told] == [0, 0, 0, 0, 2, 2, 4, 4, 5]


def test_the_rows_of_a_stack_are_drawn_through_its_lower_layers() -> None:
    top, low = model("binary", "binary", (3, 2)), model("binary", "binary", (4, 3))
    given = {"burn_in": 3, "means": True, "seed": 5}
    (upper,) = run_algorithm(gibbs_samples.BlockGibbsSampling(gibbs_samples.SamplingProblem((top,), 6, **{**given, "means": False}))).rows
    (rows,) = run_algorithm(gibbs_samples.BlockGibbsSampling(gibbs_samples.SamplingProblem((top,), 6, below=(low,), **given))).rows
    np.testing.assert_allclose(rows, low.visible_means(upper), atol=1e-6)
