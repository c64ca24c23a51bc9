"""Dealing units to shards and joining them; dataclasses laid end to end along named dimensions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from herdcli import schema, shards
from herdcli.errors import DataError
from herdcli.schema import Array, array


@dataclass(frozen=True, kw_only=True)
class Numbers(shards.Shard):
    """Units that are their own numbers."""

    parts: list[int]
    rest: str | None = None


def dealt(units: int, count: int) -> list[Numbers]:
    places = [shards.ShardPlace(index, count) for index in range(1, count + 1)]
    return [
        Numbers(place=place, units=units, parts=list(place.unit_numbers(units)), rest="rest" if place.is_first else None)
        for place in places
    ]


@pytest.mark.parametrize("units", [1, 2, 7, 30])
def test_every_unit_is_dealt_once_and_comes_back_in_order(units):
    for count in range(1, units + 3):
        made = dealt(units, count)
        for each in made:
            schema.check_arrays(each)
        sizes = [len(each.parts) for each in made]
        assert max(sizes) - min(sizes) <= 1
        assert shards.join_shards(made) == Numbers(place=shards.ShardPlace(1, 1), units=units, parts=list(range(units)), rest="rest")


def test_a_place_is_read_as_it_is_written():
    assert shards.parse_shard("2/4") == shards.ShardPlace(2, 4)
    assert str(shards.ShardPlace(2, 4)) == "2/4"
    for text in ("", "x", "2", "2/", "/4", "0/4", "5/4", "-1/4", "1/0", "1.0/4", " 1/4", "1/4/4", "²/4", "1/" + "9" * 10):
        with pytest.raises(ValueError, match="is not of the form I/N with 1 ≤ I ≤ N"):
            shards.parse_shard(text)


def test_shards_without_their_parts_or_the_rest_are_refused():
    first, second = dealt(5, 2)
    for wrong, says in (
        (Numbers(place=first.place, units=7, parts=first.parts, rest="rest"), "shard 1 of 2 cannot have 3 of the 7 parts of the run"),
        (
            Numbers(place=shards.ShardPlace(3, 2), units=5, parts=second.parts),
            "shard 3 of 2 cannot have 2 of the 5 parts of the run",
        ),
        (Numbers(place=first.place, units=5, parts=first.parts), "shard 1 of 2 lacks the HDF5 group 'rest', which the first shard needs"),
    ):
        with pytest.raises(DataError, match=says):
            schema.check_arrays(wrong)


@dataclass(frozen=True)
class Inner:
    trace: Array = array("T C", "along the second axis", kind="f")


@dataclass(frozen=True)
class Outer:
    weights: Array = array("C D", "along the first", kind="i")
    shared: Array = array("D", "of none", kind="i")
    inner: Inner
    name: str
    some: Array | None = array("C", "not of every part", kind="f", optional=True)


def test_arrays_are_laid_end_to_end_along_the_named_dimension():
    whole = Outer(np.arange(6).reshape(3, 2), np.array([7, 8]), Inner(np.arange(12.0).reshape(4, 3)), "a", np.arange(3.0))
    parts = [
        Outer(whole.weights[c : c + 1], whole.shared, Inner(whole.inner.trace[:, c : c + 1]), "ab"[c > 0], whole.some[c : c + 1])
        for c in range(3)
    ]
    made = schema.join_records(parts, "C")
    schema.check_arrays(made)
    for name in ("weights", "shared", "some"):
        np.testing.assert_array_equal(getattr(made, name), getattr(whole, name))
    np.testing.assert_array_equal(made.inner.trace, whole.inner.trace)
    assert made.name == "a"
    without = [*parts[:2], Outer(parts[2].weights, whole.shared, parts[2].inner, "b")]
    assert schema.join_records(without, "C").some is None
