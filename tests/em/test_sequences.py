"""Rows in time: how they become sequences, parts and blocks, and what cannot."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.em.sequence import sequences
from herdcli.errors import BadUsage, DataError
from herdcli.numerics import block_statistics


def test_rows_of_a_key_are_a_sequence_in_their_order_however_mixed() -> None:
    X = np.arange(12.0).reshape(6, 2)
    found = sequences.group_rows_into_sequences(X, np.array(["b", "a", "b", "c", "a", "b"]))
    assert found.names == ["b", "a", "c"]
    assert found.lengths.tolist() == [3, 2, 1]
    assert [part[:, 0].tolist() for part in found] == [[0, 4, 10], [2, 8], [6]]
    assert found.take(1, 3).chosen.tolist() == [1, 4, 3]
    assert sequences.group_rows_into_sequences(X, np.array([7.0, 7, 7, 2, 2, 2])).names == ["7", "2"]


def test_without_a_key_there_is_one_sequence() -> None:
    found = sequences.group_rows_into_sequences(np.zeros((5, 1)))
    assert (found.count, found.rows, found.names) == (1, 5, None)


def test_weights_are_of_whole_sequences() -> None:
    key, X = np.array([0, 0, 1]), np.zeros((3, 1))
    found = sequences.group_rows_into_sequences(X, key, np.array([2.0, 2.0, 0.5]))
    assert found.weight is not None
    assert found.weight.tolist() == [2.0, 0.5]
    assert found.mass == 4.5 == found.as_one_block().mass
    with pytest.raises(DataError, match="row 1 has a different weight from the first row of its sequence"):
        sequences.group_rows_into_sequences(X, key, np.array([2.0, 1.0, 0.5]))


def test_blocks_are_of_whole_sequences_and_fixed() -> None:
    lengths = np.array([3000, 2000, 5000, 1, 4095, 1, 1])
    assert sequences.block_bounds(lengths).tolist() == [0, 2, 3, 5, 7]
    key = np.repeat(np.arange(7), lengths)
    source = sequences.SequenceBlocks(sequences.group_rows_into_sequences(np.arange(len(key))[:, None], key))
    assert source.count == 4
    found = list(source.take(0, 4))
    assert [block.first for block in found] == [0, 2, 3, 5]
    assert np.concatenate([block.X[:, 0] for block in found]).tolist() == list(range(len(key)))
    assert block_statistics.sum_statistics(source, lambda block: {"rows": np.array([block.mass])})["rows"][0] == lengths.sum()


def test_many_sequences_are_drawn_whole() -> None:
    found = sequences.group_rows_into_sequences(np.zeros((40, 1)), np.repeat(np.arange(10), 4))
    parts = sequences.split_sequences(found, None, None, 3)
    assert {part: item.count for part, item in parts.items()} == {0: 6, 1: 2, 2: 2}
    assert sorted(name for item in parts.values() for name in item.names or []) == [str(n) for n in range(10)]
    again = sequences.split_sequences(found, None, (0.6, 0.2, 0.2), 3)
    assert all(again[part].names == parts[part].names for part in parts)
    assert {part: item.count for part, item in sequences.split_sequences(found, None, (3.0, 0.0, 2.0), 0).items()} == {0: 3, 2: 2}


def test_few_sequences_are_cut_in_time() -> None:
    found = sequences.group_rows_into_sequences(np.arange(15)[:, None], np.repeat([0, 1], [10, 5]))
    parts = sequences.split_sequences(found, None, None, 0)
    assert [part[:, 0].tolist() for part in parts[0]] == [list(range(6)), [10, 11, 12]]
    assert [part[:, 0].tolist() for part in parts[2]] == [[8, 9], [14]]
    assert sum(item.rows for item in parts.values()) == 15


def test_splits_given_are_of_whole_sequences() -> None:
    X, key = np.zeros((4, 1)), np.array(["a", "a", "b", "b"])
    parts = sequences.split_sequences(sequences.group_rows_into_sequences(X, key), np.array([0, 0, 2, 2]), None, 0)
    assert {part: item.names for part, item in parts.items()} == {0: ["a"], 2: ["b"]}
    with pytest.raises(DataError, match="sequence b has rows of splits 0 and 2"):
        sequences.split_sequences(sequences.group_rows_into_sequences(X, key), np.array([0, 0, 0, 2]), None, 0)
    one = sequences.split_sequences(sequences.group_rows_into_sequences(np.arange(4)[:, None]), np.array([0, 0, 1, 2]), None, 0)
    assert {part: item.rows for part, item in one.items()} == {0: 2, 1: 1, 2: 1}
    with pytest.raises(DataError, match="must follow each other in time"):
        sequences.split_sequences(sequences.group_rows_into_sequences(X), np.array([0, 2, 0, 2]), None, 0)


@pytest.mark.parametrize("text", ["1,2", "a,b,c", "0,1,1", "1.5,1,1", "-1,0,0", ".9,.9,.9"])
def test_what_is_no_split_is_refused(text: str) -> None:
    with pytest.raises(BadUsage, match="does not describe a split"):
        sequences.parse_split_parts(text)


def test_more_sequences_than_there_are_and_infinite_values_are_refused() -> None:
    found = sequences.group_rows_into_sequences(np.zeros((9, 1)), np.arange(9))
    with pytest.raises(DataError, match="asks for 12 sequences, but there are only 9"):
        sequences.split_sequences(found, None, (10.0, 1.0, 1.0), 0)
    with pytest.raises(DataError, match="infinite"):
        sequences.group_rows_into_sequences(np.array([[1.0], [np.inf]]))
