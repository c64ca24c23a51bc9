"""A check of arrays of indices that is not repeated while the same arrays are passed in consecutive calls."""

from __future__ import annotations

import weakref
from collections.abc import Callable

from herdcli.schema import Array


def once(check: Callable[..., None]) -> Callable[[tuple[Array, ...]], None]:
    """Return a function that calls `check(*arrays)` unless the arrays are the same objects that passed last.

    The caller must not change the arrays in between.  They are held by weak references, so their memory can be freed, and a new array is
    never mistaken for a freed one.
    """
    passed: list[weakref.ref[Array]] = []

    def checked(arrays: tuple[Array, ...]) -> None:
        nonlocal passed
        if len(passed) == len(arrays) and all(found() is array for found, array in zip(passed, arrays, strict=True)):
            return
        check(*arrays)
        passed = [weakref.ref(array) for array in arrays]

    return checked
