"""Models of pairs: which pairs there are, that they are learned as the rows they stand for, and what goes with constant pixels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from herdcli import schema
from herdcli.algorithm import run_algorithm
from herdcli.errors import BadUsage, DataError
from herdcli.rbm import pair_similarity, pairs
from herdcli.rbm.learning import parallel_fits
from herdcli.rbm.settings import Settings

QUICK = replace(pairs.DEFAULTS, hidden=5, epochs=3, batch_size=4, learning_rate=0.01, bias_rate=0.02, hidden_units="rate:20")
NAMES = ["ann", "bob", "cyd"]


@pytest.fixture
def faces():
    """(images (9, 12) in counts of rate:10, persons (9,)): three images each of three persons."""
    random = np.random.default_rng(2)
    persons = np.repeat(np.arange(3), 3)
    images = np.clip(random.random((3, 12))[persons] + 0.1 * random.normal(size=(9, 12)), 0, 1) * 10
    return images.astype(np.float32), persons


def learned(problem):
    return run_algorithm(parallel_fits.RBMLearning(problem))


def test_every_two_images_of_a_person_are_a_pair_in_both_orders(faces):
    _, persons = faces
    found = pairs.same_person_pairs(persons, np.array([0, 1, 2, 4, 5]), NAMES)
    expected = {(i, j) for own in ((0, 1, 2), (4, 5)) for i in own for j in own if i != j}
    assert set(map(tuple, found.tolist())) == expected
    assert len(found) == len(expected)


def test_a_person_with_one_image_is_refused(faces):
    with pytest.raises(DataError, match=r"^person 'bob' has one training image, but pairs need two$"):
        pairs.same_person_pairs(faces[1], np.array([0, 1, 3]), NAMES)


def test_pairs_are_learned_as_the_rows_they_stand_for(faces):
    images, persons = faces
    index = pairs.same_person_pairs(persons, np.arange(9), NAMES)
    problem, varies = pairs.make_pair_problem(images, index, QUICK)
    assert varies.all()
    rows = np.hstack([images[index[:, 0]], images[index[:, 1]]])
    np.testing.assert_array_equal(problem.rows[0][:], rows)
    one, two = learned(problem), learned(parallel_fits.LearningProblem([rows], QUICK))
    for name in ("W", "b", "c", "trace"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    model = pairs.assemble_pair_rbm(problem, one, varies, images, index, np.zeros(9, dtype=np.uint8))
    np.testing.assert_array_equal(np.vstack([model.W1, model.W2]), one.W[0])
    np.testing.assert_array_equal(model.harmonium().b, one.b[0])


@pytest.mark.parametrize("units", ["rate:10", "binary"])
def test_pixels_that_never_vary_have_no_weights_and_change_nothing(faces, units):
    images, persons = faces
    images = (images > 5).astype(np.float32) if units == "binary" else images
    settings = replace(QUICK, visible_units=units)
    index = pairs.same_person_pairs(persons, np.arange(6), NAMES)
    wide = np.insert(images, [0, 5, 12], [0.0, 1.0, 0.0], axis=1)
    wide[7:, 0] = 1.0  # nobody who is trained on
    fixed = np.isin(np.arange(15), (0, 6, 14))
    made = []
    for X in (wide, images):
        problem, varies = pairs.make_pair_problem(X, index, settings)
        made.append(pairs.assemble_pair_rbm(problem, learned(problem), varies, X, index, np.zeros(9, dtype=np.uint8)))
    constant = fixed.copy()
    constant[~fixed] = np.ptp(images[:6], axis=0) == 0
    for name in ("W1", "W2"):
        assert not getattr(made[0], name)[constant].any()
        assert getattr(made[0], name)[~constant].all()
        np.testing.assert_array_equal(getattr(made[0], name)[~fixed], getattr(made[1], name))
    assert np.isfinite(made[0].b1).all()
    scores = [
        pair_similarity.pair_similarity(model, *(pair_similarity.compute_hidden_input_totals(model, X) for _ in "pg"))
        for model, X in zip(made, (wide, images), strict=True)
    ]
    np.testing.assert_allclose(*scores, atol=1e-9)


def test_a_step_is_that_of_centred_units(faces):
    images, persons = faces
    index = pairs.same_person_pairs(persons, np.arange(9), NAMES)
    problem, _ = pairs.make_pair_problem(images, index, replace(QUICK, momentum=0.0))
    state, plain, before = (parallel_fits.RBMLearning(problem).init() for _ in range(3))
    state, plain = pairs.PairLearning(problem).step(state), parallel_fits.RBMLearning(problem).step(plain)
    mean, half = images[index].mean(axis=0).ravel(), np.full(5, 10.0)  # rate:20 units half on
    G_b, G_c = (plain.b[0] - before.b[0]) * 10 / 0.02, (plain.c[0] - before.c[0]) * 20 / 0.02
    centred = plain.W[0] - 0.01 / 200 * (np.outer(G_b, half) + np.outer(mean, G_c))
    np.testing.assert_allclose(state.W[0], centred, atol=1e-6)
    assert np.abs(centred - plain.W[0]).max() > 5e-4
    change = state.W[0] - before.W[0]
    np.testing.assert_allclose(state.b[0], plain.b[0] - change @ half, atol=1e-5)
    np.testing.assert_allclose(state.c[0], plain.c[0] - mean @ change, atol=1e-5)


def test_mean_inputs_move_with_the_biases_own_gradients_alone_whatever_the_momentum(faces):
    images, persons = faces
    index = pairs.same_person_pairs(persons, np.arange(9), NAMES)
    problem, _ = pairs.make_pair_problem(images, index, replace(QUICK, non_negative=True, rate_decay="linear"))
    mean, state = images[index].mean(axis=0).ravel(), parallel_fits.RBMLearning(problem).init()
    for _ in range(5):
        W, c = state.W[0].copy(), state.c[0].copy()
        state = pairs.PairLearning(problem).step(state)
        moved = mean @ state.W[0] + state.c[0] - mean @ W - c
        np.testing.assert_allclose(moved, state.c_velocity[0], atol=1e-5)
    assert state.W.min() == 0
    assert state.W.max() > 0.001


def test_epochs_are_as_many_as_have_two_thousand_batches():
    assert pairs.default_epochs(1000, 100) == 200
    assert pairs.default_epochs(1001, 100) == 182
    assert pairs.default_epochs(30, 0) == 2000


def test_what_pairs_cannot_be_made_of_is_refused(faces):
    images, persons = faces
    index = pairs.same_person_pairs(persons, np.arange(9), NAMES)
    with pytest.raises(DataError, match=r"^all training images are the same: no pixel varies$"):
        pairs.make_pair_problem(np.ones_like(images), index, QUICK)
    with pytest.raises(BadUsage, match=r"^--pairs needs visible units with one column for each pixel, but softmax:3 units have more$"):
        pairs.make_pair_problem(images, index, replace(QUICK, visible_units="softmax:3"))


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [("W2", np.nan, "/W2 has values that are not finite"), ("split", 4, "/split has 4, but the allowed values are 0 … 3")],
)
def test_an_edited_model_that_makes_no_sense_is_refused(faces, field, value, says):
    images, persons = faces
    index = pairs.same_person_pairs(persons, np.arange(9), NAMES)
    problem, varies = pairs.make_pair_problem(images, index, QUICK)
    model = pairs.assemble_pair_rbm(problem, parallel_fits.RBMLearning(problem).init(), varies, images, index, np.zeros(9, dtype=np.uint8))
    schema.check_arrays(model)
    edited = getattr(model, field).copy()
    edited[0] = value
    with pytest.raises(DataError, match=f"^{says}"):
        schema.check_arrays(replace(model, **{field: edited}))


def test_the_defaults_are_those_of_the_thesis():
    assert Settings(**vars(pairs.DEFAULTS)) == pairs.DEFAULTS
    assert (pairs.DEFAULTS.hidden, pairs.DEFAULTS.batch_size, pairs.DEFAULTS.momentum) == (100, 100, 0.95)
    assert (pairs.DEFAULTS.learning_rate, pairs.DEFAULTS.bias_rate) == (0.0025, 0.005)
    assert (pairs.DEFAULTS.visible_units, pairs.DEFAULTS.hidden_units, pairs.DEFAULTS.mean_field) == ("rate:10", "rate:100", "visible")


def test_the_spread_is_that_of_the_pixels_of_all_pairs():
    """Rows count as often as they stand in a pair; of rate units in proportions."""
    X = np.random.default_rng(0).integers(0, 5, (6, 4)).astype(np.float32)
    chosen = np.array([[0, 1], [1, 0], [1, 4], [4, 1]])
    given = pairs.LearningProblem([pairs.PairRows(X, chosen)], pairs.Settings(visible_units="rate:4"))
    seen = X[chosen.ravel()]
    assert pairs._mean_pixel_variance(given) == pytest.approx(((seen - seen.mean(axis=0)) ** 2).mean() / 16)
