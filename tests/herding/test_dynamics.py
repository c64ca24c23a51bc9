"""Herding with hidden variables: against a second implementation, and the propositions of Welling (2009)."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from herdcli import fast
from herdcli.errors import BadUsage, Diverged
from herdcli.herding import dynamics
from herdcli.herding.binary_features import pack_bits, pack_rows, to_unit_values
from herdcli.herding.driving_rates import compute_driving_sums, largest_moment_gaps


def sign(field, low):
    return np.where(field >= 0, 1, low)


def settle(M, b, c, x, low, flip):
    """Block ascent to a fixpoint, written plainly."""
    while True:
        z = sign(c + x @ M, low)
        new = sign(b + M @ z, low)
        if (new == x).all():
            if flip and b @ x + c @ z < 0:
                x = -x
                continue
            return x, z
        x = new


def plain_herding(X, M, x, iterations, *, variant="local", flip=True, hidden_bias="none", eta=1, gamma=1, offset=0):
    """Herding a second time: dense matrices of Python integers, nothing packed or reused.

    X (N, D) unit values, M (D, K) first weights times N.  The maximisations see gamma (w + offset), updates have
    step size eta, as in Prop. 4.  Yields (M, b, c, x, z, energies before the update) of each iteration.
    """
    N, D = X.shape
    low = int(X.min())
    M, b, c = M.astype(object), np.zeros(D, dtype=object), np.zeros(M.shape[1], dtype=object)
    x = x.astype(int)
    for _ in range(iterations):
        seen = [gamma * (part + offset) for part in (M, b, c)]
        a = X @ seen[0] + seen[2]
        Z = sign(a, low)
        energies = -(X @ seen[1] + (np.abs(a) if low < 0 else np.maximum(a, 0)).sum(axis=1))
        start = x if variant == "local" else X[int(np.argmin(energies))]
        x, z = settle(*seen, start, low, flip and low < 0 and variant == "local")
        M = M + eta * (X.T @ Z - N * np.outer(x, z))
        b = b + eta * (X.sum(axis=0) - N * x)
        if hidden_bias != "none":
            c = c + eta * ((Z.sum(axis=0) if hidden_bias == "full" else 0) - N * z)
        yield M, b, c, x, z, energies


def random_bits(rows, units, seed=0, share=0.5):
    return np.random.default_rng(seed).random((rows, units)) < share


def problem_of(on, queries=None, **options):
    settings = dynamics.HiddenHerdingSettings(**{"hidden": 5, "iterations": 60, "burn_in": 20, **options})
    return dynamics.HiddenHerdingProblem(
        (pack_rows(on, settings.representation),), settings, None if queries is None else pack_bits(queries)
    )


def finish(problem, state=None, map=map):
    state = dynamics.HiddenHerding(problem).init() if state is None else state
    while state.iteration < problem.settings.iterations:
        state = dynamics.HiddenHerding(problem, map).step(state)
    return state


def assert_same(first, second):
    """Every array and number of two states agrees exactly."""
    for a, b in zip(first.runs, second.runs, strict=True):
        for name, item in vars(a).items():
            np.testing.assert_array_equal(item, getattr(b, name), err_msg=name)


@pytest.mark.parametrize("representation", ["spin", "binary"])
@pytest.mark.parametrize("variant", ["local", "safe"])
@pytest.mark.parametrize("hidden_bias", ["none", "full", "growthless"])
@pytest.mark.parametrize("flip", [True, False])
def test_trajectory_equals_a_plain_second_implementation(representation, variant, hidden_bias, flip):
    on = random_bits(70, 9, share=0.4)
    problem = problem_of(on, representation=representation, variant=variant, hidden_bias=hidden_bias, flip=flip, burn_in=0)
    M, _, _, x, _ = dynamics.initial_weights(problem, 0)
    run = finish(problem).runs[0]
    steps = list(
        plain_herding(to_unit_values(on, representation).astype(int), M, x, 60, variant=variant, hidden_bias=hidden_bias, flip=flip)
    )
    for name, expected in zip(("M", "b", "c", "x", "z"), steps[-1], strict=False):
        np.testing.assert_array_equal(getattr(run, name), expected.astype(np.int64), err_msg=name)
    norms = [np.sqrt(float((M**2).sum() + (b**2).sum() + (c**2).sum())) / 70 for M, b, c, *_ in steps]
    np.testing.assert_allclose(run.weight_norm, norms, rtol=1e-14)
    bits = np.unpackbits(run.states[:, :2], axis=1, count=9, bitorder="little").astype(bool)
    np.testing.assert_array_equal(to_unit_values(bits, representation), [x for _, _, _, x, _, _ in steps])
    np.testing.assert_array_equal(run.pair_sum, sum(np.outer(x, z) for _, _, _, x, z, _ in steps).astype(int))


@pytest.mark.parametrize("representation", ["spin", "binary"])
def test_averaged_energies_are_those_of_the_definition(representation):
    on, queries = random_bits(40, 70, share=0.3), random_bits(25, 70, seed=1)
    problem = problem_of(on, queries, representation=representation, burn_in=31, energy_every=4)
    M, _, _, x, _ = dynamics.initial_weights(problem, 0)
    run = finish(problem).runs[0]
    Q, low = to_unit_values(queries, representation).astype(int), -1 if representation == "spin" else 0
    b, c, total, count = np.zeros(70), np.zeros(5), np.zeros(25), 0
    for t, (*after, _, _, energies) in enumerate(plain_herding(to_unit_values(on, representation).astype(int), M, x, 60), 1):
        if t > 31 and (t - 32) % 4 == 0:
            a = (Q @ M + c).astype(float)
            energy = -(Q @ b + (np.abs(a) if low < 0 else np.maximum(a, 0)).sum(axis=1)).astype(float)
            training = energies.astype(float)
            total += (energy - training.mean()) / training.std()
            count += 1
        M, b, c = after
    assert run.averaged == count == 8
    np.testing.assert_allclose(run.energy, total, rtol=1e-10)


@pytest.mark.parametrize(("variant", "hidden_bias"), [("local", "full"), ("safe", "full"), ("local", "none"), ("safe", "growthless")])
def test_identity_of_proposition_1_is_exact(variant, hidden_bias):
    """N Σ_t g(s_t) + (N w_T − N w_0) = Σ_t Σ_n g(x_n, z_nt), with the right side summed independently."""
    on = random_bits(50, 12)
    problem = problem_of(on, variant=variant, hidden_bias=hidden_bias, iterations=200)
    M, _, _, x, _ = dynamics.initial_weights(problem, 0)
    X, first = to_unit_values(on, "spin").astype(int), M.astype(np.int64)
    pair, hidden, c, start = 0, 0, np.zeros(5, dtype=int), M
    for *after, _, _, _ in plain_herding(X, M, x, 200, variant=variant, hidden_bias=hidden_bias):
        Z = sign((X @ start + c).astype(float), -1)
        pair, hidden = pair + X.T @ Z, hidden + Z.sum(axis=0)
        start, _, c = after
    run = finish(problem).runs[0]
    np.testing.assert_array_equal(50 * run.pair_sum.astype(np.int64) + run.M - first, pair)
    np.testing.assert_array_equal(50 * run.visible_sum + run.b, 200 * X.sum(axis=0))
    np.testing.assert_array_equal(run.hidden_data, hidden)
    driving = compute_driving_sums(problem, run, 0, 200)
    np.testing.assert_array_equal(driving.pair, pair)
    gap = largest_moment_gaps(driving, run, 200)
    np.testing.assert_allclose(gap[0], np.abs(run.M - first).max() / (50 * 200), rtol=1e-12)
    np.testing.assert_allclose(gap[1], np.abs(run.b).max() / (50 * 200), rtol=1e-12)
    if hidden_bias == "full":
        np.testing.assert_array_equal(50 * run.hidden_sum + run.c, hidden)
    if hidden_bias == "growthless":  # only −g(s) is left of the update
        np.testing.assert_array_equal(50 * run.hidden_sum + run.c, 0)


def test_safe_pseudo_sample_has_no_more_energy_than_any_row_and_the_tipi_function_is_not_positive():
    on = random_bits(30, 8)
    problem = problem_of(on, variant="safe", hidden_bias="full", iterations=300)
    M, _, _, x, _ = dynamics.initial_weights(problem, 0)
    X = to_unit_values(on, "spin").astype(int)
    b, c = np.zeros(8, dtype=int), np.zeros(5, dtype=int)
    for after_M, after_b, after_c, x_now, z, energies in plain_herding(X, M, x, 300, variant="safe", hidden_bias="full"):
        energy = -(b @ x_now + c @ z + x_now @ M @ z)
        assert energy <= min(energies)
        height = -sum(energies) + 30 * energy  # N ℓ_0(N w)
        slope = (M * (after_M - M)).sum() + b @ (after_b - b) + c @ (after_c - c)  # N w·∇ℓ_0, from the update itself
        assert height == slope
        assert height <= 0
        M, b, c = after_M, after_b, after_c
    np.testing.assert_array_equal(finish(problem).runs[0].M, M.astype(np.int64))


def test_step_size_scale_and_offset_leave_the_states_alone():
    """Prop. 4: updates of size η on weights seen as γ(w + a) give the states of plain herding from η⁻¹(w_0 + a)."""
    on = random_bits(40, 10)
    problem = problem_of(on, hidden_bias="full", iterations=150)
    M, _, _, x, _ = dynamics.initial_weights(problem, 0)
    X = to_unit_values(on, "spin").astype(int)
    plain = [(step[3], step[4]) for step in plain_herding(X, M, x, 150, hidden_bias="full")]
    scaled = [(step[3], step[4]) for step in plain_herding(X, 3 * M, x, 150, hidden_bias="full", eta=3, gamma=7)]
    offset = [(step[3], step[4]) for step in plain_herding(X, M - 40, x, 150, hidden_bias="full", offset=np.array(40))]
    np.testing.assert_array_equal([np.concatenate(s) for s in scaled], [np.concatenate(s) for s in plain])
    assert not np.array_equal([np.concatenate(s) for s in offset], [np.concatenate(s) for s in plain])  # b, c start at 40
    tripled = problem_of(on, hidden_bias="full", iterations=150, step_sizes=(3, 3, 3))
    state = dynamics.HiddenHerding(tripled).init()
    state.runs[0].M *= 3
    run, same = finish(tripled, state).runs[0], finish(problem).runs[0]
    np.testing.assert_array_equal(run.states, same.states)
    np.testing.assert_array_equal(run.M, 3 * same.M)
    unequal = finish(problem_of(on, hidden_bias="full", iterations=150, step_sizes=(1, 3, 1))).runs[0]
    assert not np.array_equal(unequal.states, same.states)  # relative step sizes do change the attractor


@pytest.mark.parametrize("representation", ["spin", "binary"])
def test_wider_types_take_over_before_a_sum_could_lose_a_bit_and_change_nothing(monkeypatch, representation):
    options = {"hidden_bias": "full", "iterations": 400, "representation": representation}
    on = random_bits(60, 20)
    narrow = finish(problem_of(on, on, **options))
    assert narrow.runs[0].wide_from == 0
    assert narrow.runs[0].M.dtype == np.int32
    largest = int(max(np.abs(narrow.runs[0].M).sum(axis=0).max(), np.abs(narrow.runs[0].M).sum(axis=1).max()))
    monkeypatch.setattr(dynamics, "FLOAT32", largest // 3)
    monkeypatch.setattr(dynamics, "INT32", largest // 2)
    wide = finish(problem_of(on, on, **options))
    assert 1 < wide.runs[0].wide_from < 400
    assert wide.runs[0].M.dtype == np.int64
    wide.runs[0].wide_from = 0
    assert_same(narrow, wide)


@pytest.mark.parametrize(("factor", "dtype"), [(1, np.int32), (2**15, np.int32), (2**24, np.int64), (2**38, np.int64)])
def test_large_weights_give_the_same_states(factor, dtype):
    """Prop. 4 with weights and step sizes that need 32, 64 bits and float64: the states do not see the scale."""
    on = random_bits(60, 20)
    plain = finish(problem_of(on, hidden_bias="full", iterations=200))
    large = problem_of(on, hidden_bias="full", iterations=200, step_sizes=(factor,) * 3)
    state = dynamics.HiddenHerding(large).init()
    state.runs[0].M = state.runs[0].M * dtype(factor)
    assert state.runs[0].M.dtype == dtype
    run = finish(large, state).runs[0]
    np.testing.assert_array_equal(run.states, plain.runs[0].states)
    np.testing.assert_array_equal(run.M, plain.runs[0].M.astype(np.int64) * factor)
    assert (run.wide_from > 0) == (factor > 1)


def test_weights_beyond_exact_arithmetic_are_an_error(monkeypatch):
    monkeypatch.setattr(dynamics, "EXACT", 100)
    with pytest.raises(Diverged, match="exact arithmetic"):
        dynamics.HiddenHerding(problem_of(random_bits(60, 20))).init()


def test_one_thread_and_two_give_the_same_bits():
    groups = [random_bits(40 + 5 * seed, 18, seed) for seed in range(4)]
    settings = dynamics.HiddenHerdingSettings(hidden=7, iterations=300, burn_in=100)
    problem = dynamics.HiddenHerdingProblem(tuple(pack_rows(on, "spin") for on in groups), settings, pack_bits(random_bits(33, 18, 9)))
    with ThreadPoolExecutor(2) as pool:
        assert_same(finish(problem), finish(problem, map=pool.map))


def test_resumed_run_equals_an_uninterrupted_one(monkeypatch):
    monkeypatch.setattr("herdcli.herding.problem.BLOCK_WORK", 1e5)
    problem = problem_of(random_bits(40, 18), random_bits(9, 18, 3), iterations=100)
    assert problem.block < 20
    state, saved = dynamics.HiddenHerding(problem).init(), None
    while state.iteration < 100:
        state = dynamics.HiddenHerding(problem).step(state)
        if state.step == 4:
            saved = copy.deepcopy(state)
    assert saved is not None
    assert saved.iteration == 4 * problem.block
    assert_same(finish(problem, saved), state)
    assert state.step == dynamics.HiddenHerding(problem).steps


@pytest.mark.parametrize("block_work", [1.0, 1e9])
def test_block_size_changes_nothing(monkeypatch, block_work):
    problem = problem_of(random_bits(40, 18), iterations=100)
    expected = finish(problem)
    monkeypatch.setattr("herdcli.herding.problem.BLOCK_WORK", block_work)
    assert_same(finish(problem_of(random_bits(40, 18), iterations=100)), expected)


@pytest.mark.parametrize("variant", ["local", "safe"])
def test_kernels_agree_over_ten_thousand_steps(variant):
    if not _compiled():
        pytest.skip("the compiled loops are not built")
    problem = problem_of(random_bits(30, 12), variant=variant, hidden_bias="full", iterations=10_000, keep=10_000)
    before, states = fast.loops_in_use(), {}
    try:
        for kernels in ("cython", "python"):
            fast.use_loops(kernels)
            states[kernels] = finish(problem)
    finally:
        fast.use_loops(before)
    assert_same(states["cython"], states["python"])
    assert len(np.unique(states["cython"].runs[0].states, axis=0)) > 50  # the orbit wanders


def _compiled():
    try:
        import herdcli.fast._herding  # noqa: F401
    except ImportError:
        return False
    return True


def growth_over(problem, iterations, part=10):
    norm = finish(problem).runs[0].weight_norm
    assert len(norm) == iterations
    return norm[iterations // part :].max() / norm[: iterations // part].max()


def test_safe_herding_stays_bounded_where_local_search_runs_away():
    """Prop. 3 on unstructured bits: few hidden units, random rows.  The full length is in the slow test."""
    on = random_bits(20, 10, seed=0)
    safe = problem_of(on, variant="safe", hidden_bias="full", iterations=5000, keep=0)
    local = problem_of(on, flip=False, hidden_bias="growthless", iterations=5000, keep=0)
    assert growth_over(safe, 5000, 2) < 1.05
    assert growth_over(local, 5000, 2) > 1.5


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_safe_herding_stays_bounded_over_a_hundred_thousand_steps(seed):
    on = random_bits(20, 10, seed=seed)
    safe = problem_of(on, variant="safe", hidden_bias="full", iterations=100_000, keep=0, seed=seed)
    local = problem_of(on, flip=False, hidden_bias="growthless", iterations=100_000, keep=0, seed=seed)
    assert growth_over(safe, 100_000) < 1.05
    assert growth_over(local, 100_000) > 5


def test_hidden_units_are_on_half_the_time_without_their_growth():
    on = random_bits(80, 16, share=0.2)
    run = finish(problem_of(on, variant="safe", hidden_bias="growthless", iterations=4000)).runs[0]
    assert np.abs(run.hidden_sum / 4000).max() < 0.1


def test_moments_of_the_visible_units_approach_those_of_the_data():
    on = random_bits(80, 16, share=0.2)
    run = finish(problem_of(on, variant="safe", hidden_bias="full", iterations=4000)).runs[0]
    assert np.abs(run.visible_sum / 4000 - to_unit_values(on, "spin").mean(axis=0)).max() < 0.01


@pytest.mark.parametrize(
    "options",
    [{"burn_in": 60}, {"burn_in": -1}, {"hidden": 0}, {"iterations": 0, "burn_in": 0}, {"energy_every": 0}, {"step_sizes": (1, 0, 1)}],
)
def test_settings_that_cannot_be_run_are_refused(options):
    with pytest.raises(BadUsage):
        problem_of(random_bits(10, 4), **options)
