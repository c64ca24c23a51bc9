"""The race of --C auto against learners taken through the examples one by one by the closed form, and the sources it is fed from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from herdcli.errors import DataError
from herdcli.online import learner
from herdcli.online.block_sources import LARGEST, MemorySource, TextSource, gather_blocks, split_by_rows
from herdcli.online.class_labels import LabelEncoder
from herdcli.online.example_blocks import BlockBuilder, block_from_rows, prepare_block, rescale_and_update_sizes
from herdcli.online.learners import hyperparameter_race
from herdcli.online.learners.reference_updates import diagonal_update
from herdcli.online.model import Settings
from herdcli.online.text.text_parser import BlockReader

ROUNDS = ((20, 5), (40, 2), (60, 1))


def rows(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Noisy examples of six features, of which three stand far apart in a wide table."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 2, count)
    X = np.zeros((count, 41))
    X[:, [0, 17, 40]] = random.standard_normal((count, 3)) + np.where(y > 0, 0.8, -0.8)[:, None]
    return X, y


def by_hand(settings: Settings, X: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Share of mistakes and mean loss of examples before they are learned."""
    mu, s, margins = np.zeros(X.shape[1]), np.ones(X.shape[1]), []
    for x, label in zip(X, np.where(y > 0, 1.0, -1.0), strict=True):
        margins.append(label * (mu @ x))
        mu, s = diagonal_update(mu, s, x, label, settings)
    margin = np.array(margins)
    return float(np.mean(margin <= 0)), float(np.mean(0.5 * np.maximum(0.0, 1.0 - margin) ** 2))


def as_learned(X: np.ndarray, settings: Settings) -> np.ndarray:
    """Examples of length 1, with a bias, over the mean sizes of their features so far."""
    if settings.normalize:
        X = X / np.linalg.norm(X, axis=1, keepdims=True)
    if settings.bias:
        X = np.column_stack([np.ones(len(X)), X])
    if settings.scaling == "online":
        sizes, seen = np.cumsum(np.abs(X), axis=0), np.cumsum(X != 0, axis=0)
        X = X * np.divide(seen, sizes, out=np.zeros_like(X), where=sizes > 0)
    return X


@pytest.mark.parametrize("count", [30, 100])
@pytest.mark.parametrize(
    "settings", [Settings(), Settings(normalize=True, bias=True, label_noise=0.2, seed=3, covariance="full"), Settings(scaling="online")]
)
def test_the_learner_of_the_lowest_progressive_error_wins(settings, count, monkeypatch):
    monkeypatch.setattr(hyperparameter_race, "ROUNDS", ROUNDS)
    monkeypatch.setattr(hyperparameter_race, "EXAMPLES", 60)
    X, y = rows(count)
    source = hyperparameter_race.ReplaySource(MemorySource(csr_matrix(X), y, rows=16))
    chosen, table = hyperparameter_race.run_race(settings, source.read_first_batches(60), 2, ["nherd", "arow"])
    label = y
    if settings.label_noise:
        label = np.concatenate([learner.add_label_noise(y[k : k + 16], 2, settings, k // 16) for k in range(0, count, 16)])
    seen, label = as_learned(X, settings)[:60], label[:60]
    unit = 1 / np.mean(np.sum(seen**2, axis=1))
    entries = [(name, unit * 4.0**power) for name in ("nherd", "arow") for power in range(-2, 6)]
    figures, running = {}, list(range(16))
    for examples, stay in ROUNDS:
        n = min(examples, len(seen))
        for k in running:
            figures[k] = (*by_hand(replace(settings, algorithm=entries[k][0], C=entries[k][1]), seen[:n], label[:n]), n)
        running = sorted(running, key=lambda k: figures[k][:2])[:stay]
        if len(seen) <= examples:
            break
    assert table.algorithm == [name for name, _ in entries]
    np.testing.assert_allclose(table.C, [C for _, C in entries])
    np.testing.assert_allclose(table.error, [figures[k][0] for k in range(16)])
    np.testing.assert_allclose(table.loss, [figures[k][1] for k in range(16)])
    assert table.examples.tolist() == [figures[k][2] for k in range(16)]
    assert (chosen.algorithm, chosen.C) == (table.algorithm[running[0]], table.C[running[0]])
    assert replace(chosen, algorithm=settings.algorithm, C=settings.C) == settings
    assert hyperparameter_race.winner_index(chosen, table) == running[0]
    assert hyperparameter_race.race_messages(chosen, table)[0] == (
        f"--C auto: {chosen.algorithm} with C = {chosen.C:.4g}, progressive error {figures[running[0]][0]:.4f} "
        f"over {figures[running[0]][2]} examples, the lowest of 16 learners"
    )


def test_examples_of_zeros_alone_have_c_without_a_unit():
    X, y = np.zeros((4, 2)), np.array([0, 1, 1, 0])
    _, table = hyperparameter_race.run_race(
        Settings(), hyperparameter_race.ReplaySource(MemorySource(X, y)).read_first_batches(4), 2, ["nherd"]
    )
    assert table.C.tolist() == [4.0**power for power in range(-2, 6)]
    assert (table.error.tolist(), table.loss.tolist()) == ([1.0] * 8, [0.5] * 8)
    with pytest.raises(DataError, match="the file has no lines of data"):
        hyperparameter_race.run_race(Settings(), [], 2, ["nherd"])


class Counted(MemorySource):
    """Rows whose batches are counted as they are asked for."""

    asked: tuple[int, ...] = ()

    def block(self, step, proof=b""):
        self.asked += (step,)
        return super().block(step, proof)


def test_batches_that_were_raced_on_are_learned_without_being_read_again():
    X, y = rows(50)
    source = Counted(X, y, rows=10, passes=2, proof=b"p")
    replay = hyperparameter_race.ReplaySource(source, "x.svm")
    assert [batch.number for batch in replay.read_first_batches(20)] == [0, 1]
    assert [batch.number for batch in replay.read_first_batches(21)] == [0, 1, 2]
    assert len(replay.read_first_batches(1000)) == 5  # of the first pass alone
    assert source.asked == (0, 1, 2, 3, 4, 5)
    assert replay.steps == 10
    assert [replay.block(step, b"p" if step else b"").number for step in range(5)] == [0, 1, 2, 3, 4]
    assert source.asked == (0, 1, 2, 3, 4, 5)
    with pytest.raises(DataError, match="differs from the text that the run of the checkpoint has read"):
        replay.block(2, b"other")
    assert (replay.block(5, b"p").number, source.asked[-1]) == (0, 5)


def test_batches_are_let_go_once_they_are_learned_and_read_again_where_they_are_asked_for():
    X, y = rows(50)
    X[0, 0] = 1 / 3  # which single precision does not have; the other batches hold counts
    X[10:] = np.round(X[10:])
    source = Counted(X, y, rows=10)
    replay = hyperparameter_race.ReplaySource(source)
    replay.read_first_batches(50)
    plain = MemorySource(X, y, rows=10)
    for step in (0, 1, 2, 4):
        block = replay.block(step).block
        assert block.value.dtype == np.float64
        assert np.array_equal(block.to_dense(42), plain.block(step).block.to_dense(42))
    assert source.asked == (0, 1, 2, 3, 4)
    assert np.array_equal(replay.block(1).block.to_dense(42), plain.block(1).block.to_dense(42))
    assert source.asked[-1] == 1


@pytest.mark.parametrize(
    "settings", [Settings(bias=True, scaling="standard"), Settings(bias=True, scaling="online", label_noise=0.1), Settings()]
)
@pytest.mark.parametrize("step", [7, 64, 1000])
def test_the_examples_of_a_race_are_those_of_the_whole_block(settings, step):
    """Whatever the batches: rescaled as one block, with features numbered by the round that they first come in."""
    random = np.random.default_rng(3)
    X = csr_matrix(np.where(random.random((300, 90)) < 0.1, random.integers(1, 4, (300, 90)), 0).astype(float))
    y = random.integers(0, 3, 300)
    batches = hyperparameter_race.ReplaySource(MemorySource(X, y, rows=step)).read_first_batches(300)
    made = hyperparameter_race.first_examples(settings, batches, 3)
    whole = prepare_block(block_from_rows(X, made.label, slice(None)), normalize=False, bias=settings.bias)
    assert hyperparameter_race.count_features(settings, batches) == made.width == len(np.unique(whole.index))
    whole = (
        rescale_and_update_sizes(whole, np.zeros((whole.width, 5 if settings.scaling == "standard" else 2)))
        if settings.scaling != "none"
        else whole
    )
    assert np.array_equal(made.pointer, whole.pointer)
    assert np.array_equal(made.value, whole.value)
    names = dict(zip(made.index.tolist(), whole.index.tolist(), strict=True))
    assert [names[k] for k in made.index.tolist()] == whole.index.tolist()
    assert settings.label_noise or np.array_equal(made.label, y)


def test_features_are_numbered_by_the_round_that_they_come_in(monkeypatch):
    monkeypatch.setattr(hyperparameter_race, "ROUNDS", ((2, 5), (3, 1)))
    X = np.zeros((4, 6))
    X[0, 4] = X[1, 2] = X[2, 0] = X[2, 2] = X[3, 5] = 1.0
    made = hyperparameter_race.first_examples(
        Settings(), hyperparameter_race.ReplaySource(MemorySource(X, np.array([0, 1, 0, 1]))).read_first_batches(4), 2
    )
    assert made.index[:4].tolist() == [1, 0, 2, 0]


@pytest.mark.parametrize("classes", [2, 3])
def test_learners_whose_weights_were_let_go_come_to_the_same_figures(classes, monkeypatch):
    monkeypatch.setattr(hyperparameter_race, "ROUNDS", ROUNDS)
    random = np.random.default_rng(4)
    X, y = random.standard_normal((60, 8)), random.integers(0, classes, 60)
    found = []
    for most in (0, 2000, 1 << 40):
        monkeypatch.setattr(hyperparameter_race, "WAITING", most)
        batches = hyperparameter_race.ReplaySource(MemorySource(X, y, rows=16)).read_first_batches(60)
        found.append(
            hyperparameter_race.run_race(
                Settings(bias=True, scaling="standard"), batches, classes, ["nherd", "arow"], ("top-1", "one-vs-rest")
            )
        )
    for settings, table in found[:2]:
        assert settings == found[-1][0]
        for name in ("C", "examples", "error", "loss"):
            assert np.array_equal(getattr(table, name), getattr(found[-1][1], name))


@pytest.mark.parametrize("room", [0, 7, 1000])
def test_blocks_are_laid_end_to_end_whatever_room_there_is(room):
    X, y = rows(20)
    X[3] = 0.0
    builder = BlockBuilder(room)
    for begin, end in ((0, 3), (3, 4), (4, 11), (11, 20)):
        builder.add(block_from_rows(X, y, slice(begin, end), np.arange(20.0) if begin == 4 else None))
    made, whole = builder.build_block(), block_from_rows(X, y, slice(None))
    assert all(np.array_equal(getattr(made, name), getattr(whole, name)) for name in ("pointer", "index", "value", "label"))
    assert made.weight.tolist() == [1.0] * 4 + [float(k) for k in range(4, 11)] + [1.0] * 9


def majority(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Whether most of the first seven of twelve bits are set, which no diagonal covariance learns in one pass."""
    X = np.random.default_rng(2).integers(0, 2, (count, 12)).astype(float)
    return X, (X[:, :7].sum(axis=1) > 3).astype(int)


def test_a_learner_of_first_order_is_taken_where_it_makes_significantly_fewer_mistakes():
    X, y = majority(1500)
    settings, batches = (
        Settings(bias=True, scaling="standard"),
        hyperparameter_race.ReplaySource(MemorySource(X, y)).read_first_batches(1500),
    )
    chosen, _ = hyperparameter_race.run_race(settings, batches, 2, ["nherd", "arow"])
    rival = hyperparameter_race.better_first_order_learner(chosen, batches, 2)
    whole = hyperparameter_race.first_examples(chosen, batches, 2)
    unit = 1 / np.mean(np.bincount(np.repeat(np.arange(1000), np.diff(whole.pointer[:1001])), whole.value[: whole.pointer[1000]] ** 2))
    assert (rival.settings.algorithm, len(rival.errors)) in {("pa1", 750), ("perceptron", 750)}
    assert np.isclose(np.log(rival.settings.C / unit) / np.log(4), [-3, -1, 0, 1]).any()
    late = [hyperparameter_race._progressive_mistakes(each, whole, 2)[750:] for each in (chosen, rival.settings)]
    assert np.array_equal(rival.errors, late[1])
    assert rival.error_of_winner == late[0].mean() > late[1].mean() + 0.05


def test_no_learner_of_first_order_is_taken_where_none_is_significantly_better():
    X, y = rows(600)
    settings, batches = (
        Settings(bias=True, scaling="standard"),
        hyperparameter_race.ReplaySource(MemorySource(X, y)).read_first_batches(600),
    )
    chosen, _ = hyperparameter_race.run_race(settings, batches, 2, ["nherd", "arow"])
    assert hyperparameter_race.better_first_order_learner(chosen, batches, 2) is None


def test_passes_over_rows_are_shuffled_anew_and_end():
    X, y = np.arange(1.0, 8.0)[:, None], np.arange(7) % 2
    source = MemorySource(X, y, weight=np.arange(7.0), passes=2, shuffle=True, seed=1, rows=3)
    batches = [source.block(step) for step in range(6)]
    assert source.block(6) is None
    assert [(batch.number, batch.first_pass, batch.block.rows) for batch in batches] == [
        *((number, True, size) for number, size in ((0, 3), (1, 3), (2, 1))),
        *((number, False, size) for number, size in ((0, 3), (1, 3), (2, 1))),
    ]
    orders = [np.concatenate([batch.block.value for batch in batches[k : k + 3]]) for k in (0, 3)]
    assert all(sorted(order) == X[:, 0].tolist() for order in orders)
    assert orders[0].tolist() != orders[1].tolist() != X[:, 0].tolist() != orders[0].tolist()
    weights = np.concatenate([batch.block.weight for batch in batches[:3]])
    assert (weights == orders[0] - 1).all()
    assert source.block(1).block.value.tolist() == batches[1].block.value.tolist()


def stream(lines: list[bytes], **options) -> TextSource:
    read: list[int] = []

    def proof() -> bytes:
        return b"%d" % len(read)

    def pieces():
        read.clear()
        for line in lines:
            read.append(1)
            yield line

    return TextSource(pieces, BlockReader("x.svm", False), LabelEncoder(), proof=proof, **options)


def test_a_resumed_stream_must_be_the_text_that_it_was():
    lines = [b"1 1:1\n-1 2:1\n", b"1 3:1\n-1 4:1\n"]
    source = stream(lines, rows=1)
    batches = [source.block(step) for step in range(4)]
    assert [batch.proof for batch in batches] == [b"1", b"1", b"2", b"2"]
    assert stream(lines, rows=1).block(2, b"1").block.index.tolist() == [3]
    with pytest.raises(DataError, match="differs from the text that the run of the checkpoint has read"):
        stream(lines, rows=1).block(2, b"7")
    with pytest.raises(DataError, match="ends before the position that the run of the checkpoint had reached"):
        stream(lines, rows=1).block(5)
    assert stream(lines, rows=1).block(4) is None
    again = stream(lines, rows=1, passes=2)
    again.buffer_first_block()
    assert [again.block(step).number for step in (0, 1, 5)] == [0, 1, 1]
    assert again.block(1).block.index.tolist() == [2]  # read from the beginning once more
    with pytest.raises(DataError, match="the file has no lines of data"):
        stream([]).block(0)


def test_values_up_to_the_largest_are_taken():
    text = b"1 1:%.17g\n-1 2:-%.17g\n" % (LARGEST, LARGEST)
    assert stream([text]).block(0).block.value.tolist() == [LARGEST, -LARGEST]
    for sign in (b"", b"-"):
        with pytest.raises(DataError, match=f"has the value {sign.decode()}1.001e.100, but absolute values above 1e.100 are too large"):
            stream([b"1 1:2 3:" + sign + b"1.001e100\n-1 1:3\n"]).block(0)


def test_blocks_are_cut_and_gathered_with_their_weights():
    X, y = rows(7)
    block = MemorySource(X, y, weight=np.arange(7.0)).block(0).block
    parts = list(split_by_rows(block, 3))
    assert [part.rows for part in parts] == [3, 3, 1]
    parts[1] = replace(parts[1], weight=None)
    whole, label, weight = gather_blocks(parts)
    np.testing.assert_array_equal(whole.toarray(), X)
    assert (label.tolist(), weight.tolist()) == (y.tolist(), [0, 1, 2, 1, 1, 1, 6])
    assert gather_blocks([replace(part, weight=None) for part in parts])[2] is None
    none = replace(parts[2], index=np.zeros(0, np.int32), value=np.zeros(0), pointer=np.zeros(2, np.int64))
    assert gather_blocks([none])[0].shape == (1, 1)


def test_short_examples_are_tried_with_as_much_larger_c():
    """x → kx with C → C/k² gives the same predictions."""
    X, y = rows(60)
    tables = [
        hyperparameter_race.run_race(
            Settings(), hyperparameter_race.ReplaySource(MemorySource(k * X, y)).read_first_batches(4), 2, ["nherd"]
        )[1]
        for k in (1.0, 2.0**-6)
    ]
    np.testing.assert_allclose(tables[1].C, 4096 * tables[0].C)
    np.testing.assert_array_equal(tables[1].error, tables[0].error)


@pytest.mark.parametrize(
    ("numbers", "precision"),
    [([1, 3, 2048], np.float16), ([2049, 70_000], np.float32), ([0.1, 2.0], np.float64), ([1e-8, 1.0], np.float64)],
)
def test_first_examples_are_kept_in_the_smallest_exact_precision(numbers, precision):
    X = np.array(numbers, dtype=float)[:, None]
    source = hyperparameter_race.ReplaySource(MemorySource(X, np.arange(len(X)) % 2))
    [kept] = source.read_first_batches(len(X))
    assert kept.block.value.dtype == precision
    again = source.block(0)
    assert again.block.value.dtype == np.float64
    assert again.block.value.tolist() == X[:, 0].tolist()


def test_tables_of_a_race_have_no_spare_rows():
    X, y = rows(50)
    whole = hyperparameter_race.first_examples(Settings(), [MemorySource(X, y).block(0)], 2)
    racer = hyperparameter_race.RacingLearner.from_settings(Settings(C=1.0), whole, 2)
    for begin, end in ((0, 10), (10, 50)):
        part = whole.part(begin, end)
        racer.learn_more(part)
        assert len(racer.state.table) == whole.part(0, end).width
