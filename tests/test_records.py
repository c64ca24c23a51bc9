"""Our dataclasses are Python's in all that they do, and none is made in another way."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

import herdcli
from herdcli import records

DECORATORS = (dataclasses.dataclass, records.dataclass)


def family(decorate: Any, **options: bool) -> tuple[type, type]:
    """A class and one that inherits from it, with a default, a field left out of comparisons and one left out of the text."""

    @decorate(**options)
    class Point:
        """Two numbers."""

        x: float
        y: float = 2.0

    @decorate(**options)
    class Labelled(Point):
        """With more."""

        seen: list[int] = dataclasses.field(default_factory=list, compare=False)
        secret: str = dataclasses.field(default="", repr=False)

    return Point, Labelled


@pytest.mark.parametrize("options", [{}, {"frozen": True}, {"frozen": True, "kw_only": True}, {"kw_only": True}])
def test_they_compare_hash_and_print_as_pythons_own(options: dict[str, bool]) -> None:
    told = []
    for decorate in DECORATORS:
        Point, Labelled = family(decorate, **options)
        one, same, other = (Labelled(x=x, seen=[n], secret=s) for x, n, s in ((1.0, 1, "a"), (1.0, 2, "a"), (1.0, 1, "b")))
        told.append(
            [
                one == same,
                one == other,
                Point(x=1.0) == Labelled(x=1.0),
                Point(x=1.0) == Point(x=1.0, y=2),
                Point(x=1.0) != (1.0, 2.0),
                repr(one).rpartition(".")[2],
                repr(Point(x=3)).rpartition(".")[2],
                dataclasses.replace(one, x=4.0) == one,
                dataclasses.asdict(other),
                (hash(one) == hash(same), hash(one) == hash(other)) if options.get("frozen") else Point.__hash__,
            ]
        )
        if options.get("frozen"):
            with pytest.raises(dataclasses.FrozenInstanceError):
                one.x = 5.0
    assert told[0] == told[1]
    assert told[0][:5] == [True, False, False, True, True]


def test_methods_of_the_class_itself_stay() -> None:
    @records.dataclass(frozen=True)
    class Odd:
        x: int

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return "odd"

    assert Odd(1) == Odd(2)
    assert (hash(Odd(1)), repr(Odd(1))) == (7, "odd")


def test_no_module_makes_its_classes_with_pythons_own() -> None:
    root = Path(herdcli.__file__).parent
    own = re.compile(r"^from dataclasses import .*\bdataclass\b|dataclasses\.dataclass|^import dataclasses", re.MULTILINE)
    assert [str(path.relative_to(root)) for path in sorted(root.rglob("*.py")) if own.search(path.read_text(encoding="utf-8"))] == [
        "records.py"
    ]


def test_arrays_are_compared_entry_by_entry_and_printed_by_what_they_are() -> None:
    import numpy as np
    from scipy.sparse import csr_array

    @records.dataclass(frozen=True)
    class Held:
        rows: Any
        more: list[int] = dataclasses.field(default_factory=list)

    a, b = np.eye(2), np.zeros((2, 2))
    for rows in (a, csr_array(a)):
        assert Held(rows) == Held(rows.copy())
        assert Held(rows) != Held(type(rows)(b) if rows is not a else b)
        assert Held(rows) != Held(np.eye(3))
        assert Held(rows) != Held(None)
    assert Held(None) != Held(a)
    assert Held(a, [1]) != Held(a, [2])
    assert repr(Held(a, list(range(99)))).endswith("Held(rows=<2×2 float64>, more=<list of 99>)")
