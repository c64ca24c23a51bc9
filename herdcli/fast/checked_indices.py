"""A check of many arrays' indices, made once for arrays that come again call after call."""

from __future__ import annotations

import weakref
from collections.abc import Callable

from herdcli.schema import Array


def once(check: Callable[..., None]) -> Callable[[tuple[Array, ...]], None]:
    """`check(*arrays)`, skipped where the arrays are the very ones it passed last; nobody changes them in between.

    They are remembered weakly: their memory is not held, and no other array can be taken for one that is gone.
    """
    passed: list[weakref.ref[Array]] = []

    def checked(arrays: tuple[Array, ...]) -> None:
        nonlocal passed
        if len(passed) == len(arrays) and all(found() is array for found, array in zip(passed, arrays, strict=True)):
            return
        check(*arrays)
        passed = [weakref.ref(array) for array in arrays]

    return checked
