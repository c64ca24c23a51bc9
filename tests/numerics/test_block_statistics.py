"""Sums over fixed blocks: the same bytes whatever reads, holds or shares out the rows."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from herdcli.artifacts.sealed import artifact_comparison
from herdcli.em import driver
from herdcli.em.mixture import gmm, kmeans
from herdcli.errors import DataError
from herdcli.numerics import block_statistics
from herdcli.records import dataclass


def rows(n: int = 20_000, columns: int = 3) -> block_statistics.ArrayRows:
    random = np.random.default_rng(1)
    X = random.normal(size=(n, columns)) + 4.0 * random.integers(3, size=(n, 1))
    return block_statistics.ArrayRows(X, random.integers(-1, 2, n), random.random(n))


class Forgetful:
    """Rows as a file gives them: a fresh array for each read, and no more than it was asked for at a time."""

    def __init__(self, table: block_statistics.ArrayRows) -> None:
        self.table, self.count, self.columns, self.most = table, table.count, table.columns, 0

    def read(self, start: int, stop: int) -> block_statistics.RowBlock:
        assert 0 <= start < stop <= self.count
        self.most = max(self.most, stop - start)
        part = self.table.read(start, stop)
        return block_statistics.RowBlock(start, part.X.copy(), part.labels, part.weight)


@pytest.mark.parametrize("at_once", [1000, 4096, 5000, 100_000])
def test_blocks_are_the_same_however_many_rows_are_read_at_once(at_once: int) -> None:
    table = rows()
    source = Forgetful(table)
    found = [*block_statistics.RowBlocks(source, at_once).take(0, 2), *block_statistics.RowBlocks(source, at_once).take(2, 5)]
    assert [block.first for block in found] == [0, 4096, 8192, 12288, 16384]
    assert np.array_equal(np.concatenate([block.X for block in found]), table.X)
    assert np.array_equal(np.concatenate([block.labels for block in found]), table.labels)
    assert np.array_equal(np.concatenate([block.weight for block in found]), table.weight)
    assert source.most <= at_once


@pytest.mark.parametrize("model", ["gmm", "kmeans"])
def test_threads_and_storage_never_change_a_byte(model: str) -> None:
    table = rows()
    settings = driver.EMSettings(iterations=4, tolerance=0, restarts=2)

    def parameters(source: block_statistics.BlockSource, map=map) -> dict:
        made = gmm.prepare_gmm(source, 3, map=map) if model == "gmm" else kmeans.prepare_kmeans(source, 3, map=map)
        return driver.run_em(driver.EM(made, source, settings, map)).parameters

    plain = parameters(block_statistics.RowBlocks(table))
    with ThreadPoolExecutor(2) as pool:
        threads = parameters(block_statistics.RowBlocks(table), pool.map)
    streamed = parameters(block_statistics.RowBlocks(Forgetful(table), 999))
    for name, values in plain.items():
        assert values.tobytes() == threads[name].tobytes() == streamed[name].tobytes()


def test_tree_of_parts_is_the_tree_of_all() -> None:
    values = np.random.default_rng(0).normal(size=(11, 1)) * 10.0 ** np.arange(11)[:, None]

    def of(first: int, last: int) -> dict:
        tree = block_statistics.SumTree()
        for value in values[first:last]:
            tree.add_block_sums({"x": value.copy()})
        return tree.total_sums()

    whole, parts = of(0, 11), block_statistics.SumTree()
    for first, last in ((0, 4), (4, 8), (8, 10), (10, 11)):
        parts.add_block_sums(of(first, last), last - first)
    assert parts.total_sums()["x"].tobytes() == whole["x"].tobytes()
    assert parts.sizes == [8, 2, 1]
    with pytest.raises(ValueError, match="2 blocks after 11 are not a node"):
        parts.add_block_sums({"x": values[0]}, 2)


def test_moments_are_the_sample_s() -> None:
    table = rows()
    far = block_statistics.ArrayRows(table.X + 1e6, None, table.weight)
    found = block_statistics.row_moments(block_statistics.RowBlocks(far))
    assert found.mean == pytest.approx(np.average(far.X, axis=0, weights=table.weight), rel=1e-14)
    assert found.covariance == pytest.approx(np.cov(table.X.T, aweights=table.weight, ddof=0), rel=1e-8)
    assert (found.rows, found.mass, found.missing) == (20_000, pytest.approx(table.weight.sum()), 0)


def test_moments_of_a_constant_column_are_exactly_nothing() -> None:
    X = np.column_stack([np.full(9000, 0.1), np.arange(9000.0)])
    covariance = block_statistics.row_moments(block_statistics.RowBlocks(block_statistics.ArrayRows(X))).covariance
    assert covariance[0].tolist() == [0.0, 0.0]
    assert covariance[1, 1] == pytest.approx(np.var(X[:, 1]))


def test_rows_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(DataError, match="there are no rows"):
        block_statistics.ArrayRows(np.empty((0, 3)))
    with pytest.raises(DataError, match="infinite values"):
        block_statistics.ArrayRows(np.array([[np.inf]]))
    with pytest.raises(DataError, match="weights of rows must be finite"):
        block_statistics.ArrayRows(np.ones((2, 1)), weight=np.array([1.0, -1.0]))
    with pytest.raises(DataError, match="all values of column 1 are missing"):
        block_statistics.row_moments(block_statistics.RowBlocks(block_statistics.ArrayRows(np.array([[1.0, np.nan]]))))


def test_a_run_resumed_in_the_middle_of_a_pass_ends_with_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_statistics, "PASS_BLOCKS", 2)
    source = block_statistics.RowBlocks(rows())
    settings = driver.EMSettings(iterations=3, tolerance=0, restarts=2)
    whole = driver.run_em(driver.EM(kmeans.prepare_kmeans(source, 4), source, settings))
    first = driver.EM(kmeans.prepare_kmeans(source, 4), source, settings)
    state = first.init()
    for _ in range(7):
        state = first.step(state)
    assert state.sizes == [2]
    again = driver.EM(kmeans.prepare_kmeans(source, 4), source, settings)
    state = copy.deepcopy(state)
    while not again.done(state):
        state = again.step(state)
    resumed = again.result(state)
    assert resumed.parameters["centre"].tobytes() == whole.parameters["centre"].tobytes()
    assert resumed.ledger.free_energy.tobytes() == whole.ledger.free_energy.tobytes()


@pytest.mark.parametrize("sizes", [[-(2**63)], [0], [3], [1, 2], [2, 2], [4, 1, 1], [4]])
def test_a_tree_of_a_changed_checkpoint_is_refused(sizes):
    with pytest.raises(ValueError, match="are not those of any number of blocks"):
        block_statistics.SumTree(sizes, [{"mass": np.zeros(1)}] * (len(sizes) - (sizes == [4])))


def test_states_with_sums_of_blocks_are_compared():
    ours = kmeans.BatchState(5, np.zeros((2, 1)), np.ones(2), [1], [{"count": np.ones(2)}])
    theirs = kmeans.BatchState(5, np.zeros((2, 1)), np.ones(2), [1], [{"count": np.array([1.0, 2.0])}])
    assert artifact_comparison.largest_difference(ours, ours) == (0.0, "")
    assert artifact_comparison.largest_difference(ours, theirs) == (0.5, "sums/0/count")


@dataclass(frozen=True)
class LabelledBlock:
    """Rows with a mark for each and a name for all."""

    first: int
    X: np.ndarray
    mark: np.ndarray
    name: str
    weight: np.ndarray | None = None


@pytest.mark.parametrize("at_once", [1000, 4096, 5000, 3 * 4096, 100_000])
def test_computed_rows_are_cut_into_the_same_blocks_however_many_are_read_together(at_once):
    """Rows that a function returns, read in any ranges, give the blocks of the same rows in memory, each with its first row."""
    whole = LabelledBlock(0, np.arange(20_000.0).reshape(10_000, 2), np.arange(10_000), "all")
    held = block_statistics.BlockRows(whole, 10_000, 2)
    read = block_statistics.ComputedRows(10_000, 2, held.read)
    found = list(block_statistics.RowBlocks(read, at_once).take(0, 3))
    assert [block.first for block in found] == [0, 4096, 8192]
    assert [len(block.X) for block in found] == [4096, 4096, 10_000 - 8192]
    assert all(block.name == "all" and block.weight is None for block in found)
    assert np.concatenate([block.mark for block in found]).tolist() == list(range(10_000))
    (second,) = block_statistics.RowBlocks(read, at_once).take(1, 2)
    assert second.X.tobytes() == whole.X[4096:8192].tobytes()


def test_a_step_takes_no_more_blocks_than_the_source_holds_in_memory():
    """Rows with a memory limit of two blocks are given to `map` two blocks at a time, not all sixteen."""
    rows = block_statistics.ComputedRows(
        10 * 4096, 2, lambda start, stop: block_statistics.RowBlock(start, np.ones((stop - start, 2))), 2 * 8 * 4096 * 2
    )
    source, tree, sizes = block_statistics.RowBlocks(rows), block_statistics.SumTree(), []

    def mapped(function, blocks):
        held = list(blocks)
        sizes.append(len(held))
        return list(map(function, held))

    while tree.blocks < source.count:
        block_statistics.add_next_blocks(tree, source, lambda block: {"sum": block.X.sum(axis=0)}, mapped)
    assert sizes == [2] * 5
    assert tree.total_sums()["sum"].tolist() == [40960.0, 40960.0]
