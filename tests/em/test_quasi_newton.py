"""Quasi-Newton steps between those of EM: coordinates, slopes, directions, refused steps, and runs that are stopped and gone on with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from linear_dynamics import draw, system

from herdcli.artifacts import load_checkpoint, save_checkpoint
from herdcli.em import quasi_newton
from herdcli.em.driver import EM, EMSettings, EMState, run_em
from herdcli.em.sequence.kalman import filter_sequences
from herdcli.em.sequence.lds import LDS, variance_floor_and_scale
from herdcli.em.sequence.lds_initialization import window_moments
from herdcli.em.sequence.sequences import SequenceBlocks, group_rows_into_sequences
from herdcli.errors import Diverged
from herdcli.numerics.block_statistics import sum_statistics


def problem(count=6, steps=12, columns=3, controls=0, missing=0.0, diagonal=False, floor=None, kind=LDS):
    """A model of two states, its source, its controls, and the rows."""
    p, random = system(2, columns, controls, 0), np.random.default_rng(0)
    U = random.standard_normal((count * steps, controls)) if controls else None
    Y = np.concatenate([draw(p, steps, random, None if U is None else U[s * steps : (s + 1) * steps]) for s in range(count)])
    Y[random.random(Y.shape) < missing] = np.nan
    source = SequenceBlocks(group_rows_into_sequences(Y, np.repeat(np.arange(count), steps)))
    found = window_moments(source, 2, U)
    return kind(2, diagonal, *variance_floor_and_scale(found.variance, floor), found, U, 0, count > 1), source, U, Y


@pytest.mark.parametrize("floor", [None, 0.0, 0.05])
@pytest.mark.parametrize(("missing", "controls", "diagonal"), [(0.0, 0, False), (0.3, 1, False), (0.2, 0, True)])
def test_slopes_in_coordinates_are_those_of_the_likelihood(missing, controls, diagonal, floor):
    model, source, U, Y = problem(controls=controls, missing=missing, diagonal=diagonal, floor=floor)
    p, random, offsets = model.start(0), np.random.default_rng(1), np.arange(7) * 12
    chart = model.make_coordinates(p, sum_statistics(source, model.expect(p)))
    x, way = random.standard_normal(chart.size), random.standard_normal(chart.size)
    ours = way @ chart.gradient(x, sum_statistics(source, model.expect(chart.parameters(x))))
    theirs = [filter_sequences(chart.parameters(x + h * way), Y, offsets, U).log_likelihood.sum() for h in (1e-5, -1e-5)]
    assert abs(ours) > 0.1
    assert ours == pytest.approx(np.subtract(*theirs) / 2e-5, rel=1e-6)


def test_the_origin_is_where_the_chart_was_made_and_no_point_is_under_the_floor():
    model, source, *_ = problem(controls=2)
    p = model.start(0)
    chart = model.make_coordinates(p, sum_statistics(source, model.expect(p)))
    here = chart.parameters(np.zeros(chart.size))
    assert here.keys() == p.keys()
    for name, value in p.items():
        np.testing.assert_allclose(here[name], value, rtol=1e-9, atol=1e-9, err_msg=name)
    far = chart.parameters(100.0 * np.random.default_rng(0).standard_normal(chart.size))
    assert np.linalg.eigvalsh(far["noise"] / np.outer(model.scale, model.scale)).min() >= 0.999 * model.floor
    at_floor = model.make_coordinates(p | {"process": 1e-6 * np.eye(2)}, sum_statistics(source, model.expect(p)))
    assert np.linalg.eigvalsh(at_floor.parameters(np.zeros(chart.size))["process"]).max() < 1.02e-6


def test_there_one_m_step_is_about_a_step_along_the_slope():
    """Regressions and means: θ' − θ = I⁻¹ d/dθ with the complete rows' information I, to first order in the noise alone."""
    model, source, *_ = problem()
    p = run_em(EM(model, source, EMSettings(40, 0.0, 41))).parameters
    sums = sum_statistics(source, model.expect(p))
    chart = model.make_coordinates(p, sums)
    slope, after = chart.gradient(np.zeros(chart.size), sums), model.maximise(p, sums)[0]
    stepped = chart.parameters(slope)
    for name in ("transition", "drift", "loading", "mean", "start_mean"):
        np.testing.assert_allclose(stepped[name], after[name], rtol=1e-5, atol=1e-7, err_msg=name)


def test_directions_are_those_of_bfgs_written_out():
    random = np.random.default_rng(0)
    steps, turns = random.standard_normal((2, 4, 6))
    turns += 3.0 * steps
    H = np.eye(6)
    for s, y in zip(steps, turns, strict=True):  # H ← (I − ρ s y')H(I − ρ y s') + ρ s s'
        V = np.eye(6) - np.outer(y, s) / (s @ y)
        H = V.T @ H @ V + np.outer(s, s) / (s @ y)
    g = random.standard_normal(6)
    np.testing.assert_allclose(quasi_newton.ascent_direction(steps, turns, g), H @ g, rtol=1e-10)
    np.testing.assert_allclose(quasi_newton.ascent_direction(steps[:0], turns[:0], g), g)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_it_ends_higher_after_fewer_passes_and_the_likelihood_never_falls(missing):
    model, source, *_ = problem(count=1, steps=80, missing=missing)
    slow, quick = (run_em(EM(model, source, EMSettings(400, 1e-6, 3, 1, accelerate))) for accelerate in (False, True))
    assert quick.log_likelihood > slow.log_likelihood
    assert quick.converged[0]
    assert quick.iterations[0] < 0.5 * slow.iterations[0]
    reached = int(np.argmax(quick.ledger.log_likelihood > slow.log_likelihood))
    assert reached < 0.3 * len(slow.ledger.log_likelihood)
    ledger = quick.ledger
    assert ledger.largest_rise < 1e-9
    assert np.diff(ledger.log_likelihood).min() >= 0.0
    np.testing.assert_allclose(ledger.free_energy, ledger.kl - ledger.log_likelihood, rtol=0, atol=1e-12)
    assert (ledger.kl[1 : 2 * quasi_newton.LEAD : 2] > 0).all()  # those of EM
    assert (ledger.kl[2 * quasi_newton.LEAD + 1 :: 2] == 0).sum() > 10


class Fragile(LDS):
    """Whose likelihood is lost wherever a state's noise is not what an M step made it."""

    def expect(self, parameters):
        inner = super().expect(parameters)

        def statistics(block):
            if not any((parameters["process"] == known).all() for known in self.opening.known):
                raise Diverged("the states overflow")
            return inner(block)

        return statistics

    def start(self, restart):
        return self._known(super().start(restart))

    def maximise(self, parameters, sums):
        after, floors = super().maximise(parameters, sums)
        return self._known(after), floors

    def _known(self, parameters):
        self.opening.known.append(parameters["process"])
        return parameters


def test_where_every_step_fails_em_is_left():
    model, source, *_ = problem()
    object.__setattr__(model.opening, "known", [])
    fragile = Fragile(**vars(model))
    plain = run_em(EM(model, source, EMSettings(12, 0.0, 13)))
    found = run_em(EM(fragile, source, EMSettings(12 + 2 * 9, 0.0, 99, 1, True)))
    assert found.iterations[0] == 12
    assert all(found.parameters[name].tobytes() == plain.parameters[name].tobytes() for name in plain.parameters)


@pytest.mark.parametrize("iterations", range(8))
def test_no_more_passes_are_taken_than_were_asked_for(iterations):
    model, source, *_ = problem(count=2, steps=6)
    algorithm = EM(model, source, EMSettings(iterations, 0.0, 99, 1, True))
    state, passes = algorithm.init(), 0
    while not algorithm.done(state):
        state, passes = algorithm.step(state), passes + 1
    found = algorithm.result(state)
    assert passes == iterations + 1
    assert found.iterations[0] <= iterations
    total_now = float(sum_statistics(source, model.expect(found.parameters))["log_likelihood"][0]) / found.mass
    assert total_now == found.log_likelihood


def test_a_run_that_is_stopped_at_every_step_ends_with_the_same_bytes(tmp_path):
    model, source, *_ = problem(count=2, steps=8, columns=2)
    algorithm = EM(model, source, EMSettings(12, 0.0, 99, 2, True))
    whole = run_em(algorithm)
    state, path, leapt = algorithm.init(), str(tmp_path / "run.state"), 0
    while not algorithm.done(state):
        state = algorithm.step(state)
        save_checkpoint(path, state, "d")
        state = load_checkpoint(path, EMState, "d", template=algorithm.state_template)
        leapt += state.now.leap is not None and len(state.now.leap.steps) > 1
    found = algorithm.result(state)
    assert leapt > 5
    assert all(found.parameters[name].tobytes() == whole.parameters[name].tobytes() for name in whole.parameters)
    assert found.ledger.free_energy.tobytes() == whole.ledger.free_energy.tobytes()
    assert replace(found).log_likelihood == whole.log_likelihood
