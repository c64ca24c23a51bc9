"""Templates of two slices: unrolled networks, and filtering, prediction and smoothing beside sums over all states of all slices."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm
from herdcli.errors import DataError, NegativeResult
from herdcli.markov import algorithms
from herdcli.markov.exact import interface_algorithm
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import network, slice_tasks, slice_templates


def conditional(rng, *shape):
    """A table of distributions over its last axis."""
    return rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])


def umbrella(seed=0, ends=("_0", "_t")):
    """Weather (three states) and season (two) go on, a sensor (two) sees the weather: of these only the sensor is no interface."""
    rng = np.random.default_rng(seed)
    zero, now = ends
    names = [f"{base}{end}" for end in (zero, now) for base in ("weather", "sensor", "season")]
    see = conditional(rng, 3, 2)
    factors = [
        ((2,), conditional(rng, 2)), ((2, 0), conditional(rng, 2, 3)), ((0, 1), see),
        ((2, 5), conditional(rng, 2, 2)), ((0, 5, 3), conditional(rng, 3, 2, 3)), ((3, 4), see),
    ]  # fmt: skip
    return network.build_network([3, 2, 2] * 2, factors, names=names, directed=True)


def summed(template, rows, upto, wanted):
    """P(slice `wanted` | rows 0 … upto), by a loop over all states of all slices; log P of the rows too."""
    T = max(upto, wanted) + 1
    whole = slice_templates.unroll_template(template, T)
    p, n = [np.zeros(int(k)) for k in template.cardinality], template.count
    total = 0.0
    for x in itertools.product(*map(range, whole.cardinality.tolist())):
        if any(rows[t, i] not in (-1, x[t * n + i]) for t in range(upto + 1) for i in range(n)):
            continue
        weight = float(np.prod([table[tuple(x[i] for i in scope)] for scope, table in whole.factors()]))
        total += weight
        for i in range(n):
            p[i][x[wanted * n + i]] += weight
    return np.concatenate(p) / total, np.log(total)


ROWS = np.array([[-1, 1, -1], [-1, 0, -1], [2, -1, -1], [-1, 1, 0]])


@pytest.mark.parametrize("ends", slice_templates.ENDINGS)
def test_names_of_slices_are_known_by_their_endings(ends):
    found = slice_templates.parse_two_slice_network(umbrella(ends=ends))
    assert found.names == ["weather", "sensor", "season"]
    assert found.interface_variables() == [0, 2]
    assert [scope for scope, _ in found.first] == [(2,), (2, 0), (0, 1)]
    assert [scope for scope, _ in found.transition] == [(2, 5), (0, 5, 3), (3, 4)]


@pytest.mark.parametrize("kind", ["filtering", "prediction:1", "prediction:2", "lag:1", "lag:2", "lag:9", "smoothing"])
def test_every_slice_has_its_marginals(kind):
    template, task = slice_templates.parse_two_slice_network(umbrella()), slice_tasks.parse_task(kind)
    answers, log_z = run_algorithm(interface_algorithm.SliceInference(template, ROWS, task))
    last = len(ROWS) - 1
    for t in range(len(ROWS)):
        upto = {"filtering": t, "prediction": t, "lag": min(last, t + task.steps), "smoothing": last}[task.kind]
        if kind == "prediction:2" and t > 1:
            continue  # five slices or more take long to enumerate
        expected, _ = summed(template, ROWS, upto, t + task.steps if task.kind == "prediction" else t)
        np.testing.assert_allclose(answers[t], expected, atol=1e-12)
    assert log_z.sum() == pytest.approx(summed(template, ROWS, last, 0)[1], rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_long_sequences_are_those_of_the_unrolled_network(seed):
    template = slice_templates.parse_two_slice_network(umbrella(seed))
    rng = np.random.default_rng(seed)
    rows = np.where(rng.random((40, 3)) < 0.3, np.column_stack([rng.integers(k, size=40) for k in (3, 2, 2)]), -1)
    evidence = {3 * t + i: int(rows[t, i]) for t, i in zip(*np.nonzero(rows >= 0), strict=True)}
    whole = slice_templates.unroll_template(template, 40)
    assert (whole.names[0], whole.names[-1], whole.directed) == ("weather_0", "season_39", True)
    exact = run_algorithm(algorithms.make_inference_method(network.condition_network(whole, evidence), InferenceSettings()))
    answers, log_z = run_algorithm(interface_algorithm.SliceInference(template, rows, slice_tasks.parse_task("smoothing")))
    assert log_z.sum() == pytest.approx(exact.attributes["log_z"], rel=1e-12)
    for t in range(40):
        parts = np.split(answers[t], [3, 5])
        for i, p in enumerate(parts):
            q = exact.nodes[3 * t + i]
            held = evidence.get(3 * t + i)
            np.testing.assert_allclose(p, q if held is None else np.eye(len(p))[held], atol=1e-10)
    lagged, _ = run_algorithm(interface_algorithm.SliceInference(template, rows, slice_tasks.parse_task("lag:39")))
    np.testing.assert_allclose(lagged, answers, atol=1e-10)


def test_smoothing_keeps_the_interfaces_of_every_root_of_the_slices():
    template = slice_templates.parse_two_slice_network(umbrella())
    for T in (1, 2, 9, 10, 101):
        made = interface_algorithm.SliceInference(template, np.full((T, 3), -1), slice_tasks.parse_task("smoothing"))
        assert made.block * made.blocks >= T
        assert max(made.block, made.blocks) <= np.sqrt(T) + 1
        assert made.init().kept.shape == (made.blocks, 3, 2)


def test_states_far_below_float64_are_kept():
    """A chain that leaves its state with 1e-200 a step, seen to have left it after three: log Z = 3 log 1e-200."""
    stay = np.array([[1.0, 1e-200, 0, 0], [0, 1, 1e-200, 0], [0, 0, 1, 1e-200], [0, 0, 0, 1]])
    given = network.build_network([4, 4], [((0,), np.array([1.0, 0, 0, 0])), ((0, 1), stay)], names=["x_0", "x_t"])
    rows = np.array([[-1], [-1], [-1], [3]])
    answers, log_z = run_algorithm(
        interface_algorithm.SliceInference(slice_templates.parse_two_slice_network(given), rows, slice_tasks.parse_task("smoothing"))
    )
    assert log_z.sum() == pytest.approx(3 * np.log(1e-200), rel=1e-12)
    np.testing.assert_allclose(answers, np.eye(4), atol=1e-12)


def test_slices_without_an_interface_are_independent():
    given = network.build_network([2, 2], [((0,), np.array([0.2, 0.8])), ((1,), np.array([0.6, 0.4]))], names=["x_0", "x_t"])
    answers, _ = run_algorithm(
        interface_algorithm.SliceInference(
            slice_templates.parse_two_slice_network(given), np.full((3, 1), -1), slice_tasks.parse_task("smoothing")
        )
    )
    np.testing.assert_allclose(answers, [[0.2, 0.8], [0.6, 0.4], [0.6, 0.4]])


def test_impossible_rows_are_named():
    given = network.build_network([2, 2], [((0,), np.array([1.0, 1.0])), ((0, 1), np.eye(2))], names=["x_0", "x_t"])
    with pytest.raises(NegativeResult, match="row 2 of the evidence has probability 0 given the rows before it"):
        run_algorithm(
            interface_algorithm.SliceInference(
                slice_templates.parse_two_slice_network(given), np.array([[0], [-1], [1]]), slice_tasks.parse_task("filtering")
            )
        )


@pytest.mark.parametrize("text", ["filter", "filtering:1", "prediction", "prediction:0", "lag:x", "smoothing:2"])
def test_what_is_no_task_is_refused(text):
    with pytest.raises(ValueError, match="is none of filtering, prediction:K, lag:L, smoothing"):
        slice_tasks.parse_task(text)


@pytest.mark.parametrize(
    ("names", "states", "told"),
    [
        (None, [2, 2], "a template of two time slices needs named variables, but this network has no names"),
        (["a_0", "b"], [2, 2], "is not a template of two time slices: b belongs to no slice"),
        (["a_0", "b_t"], [2, 2], "is not a template of two time slices: not every variable is in both slices"),
        (["a_0", "a_t"], [2, 3], "variable a has 2 states in the first slice, but 3 in the next one"),
    ],
)
def test_what_is_no_template_is_refused(names, states, told):
    given = network.build_network(states, [((i,), np.ones(k)) for i, k in enumerate(states)], names=names)
    with pytest.raises(DataError) as caught:
        slice_templates.parse_two_slice_network(given)
    assert caught.value.message == told


def test_the_first_slice_depends_on_no_later_one():
    given = network.build_network([2, 2], [((1,), np.full(2, 0.5)), ((1, 0), np.full((2, 2), 0.5))], names=["a_0", "a_t"], directed=True)
    with pytest.raises(
        DataError, match="variable a_0 of the first slice depends on a_t of the next slice, but edges must go forward in time"
    ):
        slice_templates.parse_two_slice_network(given)
