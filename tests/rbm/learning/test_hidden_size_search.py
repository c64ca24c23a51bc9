"""--hidden auto: what sizes are judged by, which is chosen, when the climb ends, and that it is the fit of that size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from herdcli.algorithm import run_algorithm, state_shapes
from herdcli.artifacts.sealed.checkpoints import load_checkpoint, save_checkpoint
from herdcli.errors import BadUsage, Diverged
from herdcli.rbm.classification_rbm import append_one_hot_labels, label_log_posterior
from herdcli.rbm.learning import hidden_size_search, parallel_fits
from herdcli.rbm.learning.learning_problem import LearningProblem
from herdcli.rbm.likelihood import enumeration, word_counts
from herdcli.rbm.likelihood.log_z_estimates import LogZEstimate
from herdcli.rbm.likelihood.row_likelihood import row_log_likelihood
from herdcli.rbm.model import Harmonium

RANDOM = np.random.default_rng(3)
ROWS = (RANDOM.random((120, 8)) < np.repeat([[0.9, 0.1] * 4, [0.2, 0.8] * 4], 60, axis=0)).astype(np.int8)
TRAIN, HELD = ROWS[::2], ROWS[1::2]
SETTINGS = parallel_fits.Settings(epochs=4, learning_rate=0.1, seed=2)


def climb(
    settings: parallel_fits.Settings = SETTINGS, sizes: tuple[int, ...] = (1, 2, 3), rows=TRAIN, held=HELD
) -> hidden_size_search.HiddenSizeSearch:
    return hidden_size_search.HiddenSizeSearch(LearningProblem([rows], settings, valid=[held]), sizes=sizes)


def size(judged: float, training: float, hidden: int = 1) -> hidden_size_search.HiddenSizeResult:
    return hidden_size_search.HiddenSizeResult(hidden, judged, judged, training, "exact")


def test_the_model_is_that_of_its_size_alone_and_its_figures_are_exact() -> None:
    found = run_algorithm(climb())
    assert found.sizes.hidden == [1, 2, 3]
    assert found.sizes.log_z == ["exact"] * 3
    assert found.settings.hidden == found.sizes.hidden[int(np.argmax(found.sizes.judged))] == found.sizes.hidden[found.sizes.best]
    for number, hidden in enumerate(found.sizes.hidden):
        alone = run_algorithm(parallel_fits.RBMLearning(LearningProblem([TRAIN], replace(SETTINGS, hidden=hidden))))
        problem = LearningProblem([TRAIN], replace(SETTINGS, hidden=hidden))
        h = Harmonium(*(part[0].astype(np.float64) for part in (alone.W, alone.b, alone.c)), problem.visible, problem.hidden)
        log_z = enumeration.exact_log_partition(h)
        for name, rows in (("judged", HELD), ("log_likelihood", HELD), ("training", TRAIN)):
            assert getattr(found.sizes, name)[number] == pytest.approx(row_log_likelihood(h, rows, log_z).mean(), abs=6e-4)
        if hidden == found.settings.hidden:
            for name in ("W", "b", "c", "trace"):
                np.testing.assert_array_equal(getattr(found.state, name), getattr(alone, name))


@pytest.mark.parametrize(
    ("figures", "done"),
    [
        ([(-3, -3), (-2, -2), (-1, -1)], False),
        ([(-2, -2), (-2.1, -1.9), (-2.2, -1.8)], True),  # two have learned by heart
        ([(-2, -2), (-9, -8.9), (-2.2, -1.8)], False),  # one of them has learned badly: below the best on its own rows too
        ([(-2, -2), (-2.1, -2.0), (-2.2, -2.0)], True),
        ([(-2, -2), (-2.1, -1.9), (-1.9, -1.8), (-2.2, -1.7)], False),
        ([(-np.inf, -np.inf), (-np.inf, -np.inf), (-np.inf, -np.inf)], False),
        ([(-5, -5), (-4, -4), (-3, -3), (-2, -2), (-1, -1)], True),  # the top
    ],
)
def test_the_climb_ends_where_larger_sizes_learn_by_heart(figures: list[tuple[float, float]], done: bool) -> None:
    run = climb(sizes=(1, 2, 3, 4, 5))
    state = replace(run.init(), tried=[size(*pair) for pair in figures])
    assert run.done(state) == done


def test_of_equal_sizes_the_smallest_is_chosen() -> None:
    assert hidden_size_search._best_size_index([size(-3, -3), size(-2, -2), size(-2, -1)]) == 1
    assert hidden_size_search._best_size_index([]) == -1


def test_a_size_is_judged_by_what_its_estimate_of_log_z_can_vouch_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes that cannot be summed: the lower end of the interval, and where chains do not agree rows that are annealed back."""
    run = climb(replace(SETTINGS, hidden=3))
    state = run_algorithm(run._algorithm_of_size(2))
    exact = hidden_size_search.evaluate_hidden_size(run._algorithm_of_size(2).problem, state, 1).judged
    monkeypatch.setattr(hidden_size_search, "SUMMED", 0)
    annealed = hidden_size_search.evaluate_hidden_size(run._algorithm_of_size(2).problem, state, 1)
    assert annealed.log_z == "annealed"
    assert annealed.judged < annealed.log_likelihood
    assert annealed.judged - 0.05 < exact < annealed.judged + 0.5
    log_z = -2.0 - float(np.log(1.5))  # far too little mass: the model looks better than it can be
    monkeypatch.setattr(hidden_size_search, "estimate_log_partitions", lambda *given: [LogZEstimate(log_z, 0.01, 3.0, 100, reliable=False)])
    blind = hidden_size_search.evaluate_hidden_size(run._algorithm_of_size(2).problem, state, 1)
    assert (blind.log_z, blind.log_likelihood > exact + 2) == ("not reliable", True)
    assert blind.judged == pytest.approx(exact, abs=0.3)


def test_models_of_classes_count_by_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = LearningProblem([TRAIN[:30], TRAIN[30:]], replace(SETTINGS, hidden=2), valid=[HELD[:10], HELD[10:]])
    state = run_algorithm(parallel_fits.RBMLearning(problem))
    both = hidden_size_search.evaluate_hidden_size(problem, state, 2)
    first = hidden_size_search.evaluate_hidden_size(
        problem.select_models([0]), run_algorithm(parallel_fits.RBMLearning(problem.select_models([0]))), 1
    )
    second = hidden_size_search.evaluate_hidden_size(
        problem.select_models([1]), run_algorithm(parallel_fits.RBMLearning(problem.select_models([1]))), 1
    )
    assert both.judged == pytest.approx((10 * first.judged + 50 * second.judged) / 60, abs=2e-3)
    assert hidden_size_search.evaluate_hidden_size(problem, state, 1).judged == first.judged


def test_models_that_tell_labels_are_judged_by_them() -> None:
    y = np.arange(60) // 30
    rows, held = append_one_hot_labels(TRAIN, y, 2), append_one_hot_labels(HELD, y, 2)
    settings = replace(SETTINGS, hidden=2, visible_units="binary+softmax:2", joint="discriminative")
    problem = LearningProblem([rows], settings, valid=[held])
    state = run_algorithm(parallel_fits.RBMLearning(problem))
    found = hidden_size_search.evaluate_hidden_size(problem, state, 1)
    h = Harmonium(*(part[0].astype(np.float64) for part in (state.W, state.b, state.c)), problem.visible, problem.hidden)
    assert found.log_z == "labels"
    assert found.judged == pytest.approx(label_log_posterior(h, HELD)[np.arange(60), y].mean(), abs=6e-4)


def test_learned_variances_enter_the_density_of_the_rows() -> None:
    """Of rows ten times as large the density is e^{−D log 10} times it, whatever deviations have been learned."""
    rows = RANDOM.normal(0, 1, (80, 3)).astype(np.float32)
    settings = parallel_fits.Settings(
        2, "exact", epochs=30, learning_rate=0.1, visible_units="gaussian", hidden_units="binary", learn_variances=True
    )
    problem = LearningProblem([rows[:40] * 2], settings, valid=[rows[40:] * 2])
    state = run_algorithm(parallel_fits.RBMLearning(problem))
    found, deviation = hidden_size_search.evaluate_hidden_size(problem, state, 1).judged, np.exp(state.log_scale[0])
    assert (deviation > 1.3).all()
    # Near to independent normal columns with these deviations:
    z = rows[40:] * 2
    plain = (-0.5 * np.square((z - z.mean(axis=0)) / z.std(axis=0)) - np.log(z.std(axis=0)) - 0.5 * np.log(2 * np.pi)).sum(axis=1).mean()
    assert found == pytest.approx(plain, abs=0.4)


def test_softmax_layers_have_whole_units() -> None:
    run = climb(replace(SETTINGS, hidden=3, hidden_units="softmax:3"), sizes=(1, 4))
    assert run_algorithm(run).sizes.hidden == [3, 6]


def test_a_size_that_diverges_is_passed_over_and_none_is_told() -> None:
    wild = replace(SETTINGS, learning_rate=4e3, momentum=0.0)
    with pytest.raises(Diverged, match="diverged in epoch"):
        run_algorithm(climb(wild))
    run = climb(wild)
    state = run.init()
    state.tried, state.best, state.current = [size(-3, -3)], state.current, run._algorithm_of_size(1).init()
    while not run.done(state):
        state = run.step(state)
    found = run.result(state)
    assert found.sizes.log_z == ["exact", "diverged", "diverged"]
    assert found.settings.hidden == 1
    assert hidden_size_search.size_search_messages(found.sizes)[1][1] == "2 hidden: diverged"


def test_a_climb_goes_on_from_a_checkpoint_in_the_middle_of_a_size(tmp_path: Path) -> None:
    run, path = climb(replace(SETTINGS, patience=2)), str(tmp_path / "c.state")
    state = run.init()
    while len(state.tried) < 2 or state.current.step < 5:
        state = run.step(state)
    save_checkpoint(path, state, "d")
    again = climb(replace(SETTINGS, patience=2))
    read = load_checkpoint(path, again.state, "d", template=lambda: state_shapes(again))
    assert read is not None
    whole, resumed = run_algorithm(run, run.init()), run_algorithm(again, read)
    assert whole.sizes == resumed.sizes
    for name in ("W", "b", "c", "trace", "chain", "c_velocity"):
        np.testing.assert_array_equal(getattr(whole.state, name), getattr(resumed.state, name))


def test_rows_to_choose_by_are_needed() -> None:
    with pytest.raises(BadUsage, match="--hidden auto needs validation rows, but there are none"):
        hidden_size_search.HiddenSizeSearch(LearningProblem([TRAIN], SETTINGS)).init()


def test_sizes_of_words_are_judged_by_rows_given_their_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact at every length, else the lower end of what is annealed, also of lengths that training rows alone have."""
    rows = np.random.default_rng(0).poisson(np.repeat([[3, 0.2] * 4, [0.2, 3] * 4], 40, axis=0)).astype(np.float32)
    rows[:, 0] += 1
    settings = parallel_fits.Settings(epochs=10, visible_units="words", algorithm="pt", learning_rate=0.02, seed=2)
    found = run_algorithm(climb(settings, rows=rows[::2], held=rows[1:41:2]))
    assert found.sizes.log_z == ["exact"] * 3
    problem = LearningProblem([rows[::2]], found.settings)
    h = Harmonium(*(part[0].astype(np.float64) for part in (found.state.W, found.state.b, found.state.c)), problem.visible, problem.hidden)
    for name, part in (("judged", rows[1:41:2]), ("training", rows[::2])):
        lengths = np.unique(word_counts.count_words_per_row(part))
        exact = word_counts.row_log_likelihoods(h, part, lengths, word_counts.exact_log_partitions(h, lengths)).mean()
        assert getattr(found.sizes, name)[found.sizes.best] == pytest.approx(exact, abs=6e-4)
    monkeypatch.setattr(word_counts, "ENUMERABLE", 0)
    run = replace(problem, valid=[rows[1:41:2]])
    annealed = hidden_size_search.evaluate_hidden_size(run, found.state, 1)
    assert annealed.log_z == "annealed"
    assert annealed.judged < annealed.log_likelihood == pytest.approx(found.sizes.judged[found.sizes.best], abs=0.2)
