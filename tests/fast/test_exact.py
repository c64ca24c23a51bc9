"""Exact products against rational sums, exponentials and logarithms against long doubles; every instruction set has the twins' bits."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from herdcli import fast
from herdcli.fast import numpy_exact
from herdcli.schema import Array

EACH = ("exact_exp", "exact_expm1", "exact_log", "exact_log1p")
TRUE = {"exact_exp": np.exp, "exact_expm1": np.expm1, "exact_log": np.log, "exact_log1p": np.log1p}
BOUNDS = {"exact_exp": 0.85, "exact_expm1": 2.0, "exact_log": 0.9, "exact_log1p": 0.9}  # units in the last place
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, -2.0, 709.78, 709.79, -745.1, -745.2, 5e-324, 2.0**-1022, 1.7e308])
LONG = np.finfo(np.longdouble).nmant > 60


def sets() -> list[str]:
    """Instruction sets of the compiled loops; none of NumPy's."""
    if fast.loops_in_use() != "cython":
        return []
    from herdcli.fast import _exact

    return [str(name) for name in _exact.instruction_sets()]


def arguments(name: str, count: int = 20000) -> Array:
    random = np.random.default_rng(3)
    if name.startswith("exact_exp"):
        return np.concatenate([random.uniform(-750, 720, count), random.normal(size=count), 10.0 ** random.uniform(-20, 0, count), SPECIAL])
    near = 1.0 + random.normal(size=count) * 1e-3 if name == "exact_log" else random.uniform(-0.99, 1.0, count)
    return np.concatenate([10.0 ** random.uniform(-320, 308, count), near, SPECIAL])


@pytest.mark.parametrize("name", EACH)
def test_the_twins_give_the_same_bits(name: str) -> None:
    here, twin = arguments(name), arguments(name)
    getattr(fast, name)(here)
    getattr(numpy_exact, name)(twin)
    assert np.isnan(here).tobytes() == np.isnan(twin).tobytes()
    assert here[~np.isnan(here)].tobytes() == twin[~np.isnan(twin)].tobytes()


@pytest.mark.skipif(not LONG, reason="a long double has no more digits than float64 here")
@pytest.mark.parametrize("name", EACH)
def test_errors_in_units_of_the_last_place(name: str) -> None:
    x = arguments(name)
    found = x.copy()
    getattr(fast, name)(found)
    with np.errstate(all="ignore"):
        true = TRUE[name](x.astype(np.longdouble))
        normal = np.isfinite(true) & (np.abs(true) < 1.7e308) & (np.abs(true) > 2.0**-1022)
    error = np.abs(found[normal].astype(np.longdouble) - true[normal]) / np.spacing(np.abs(true[normal]).astype(np.float64))
    assert len(error) > 20000
    assert float(error.max()) < BOUNDS[name]


def test_ends_of_the_range() -> None:
    x = np.array([np.inf, -np.inf, 800.0, -800.0, 0.0, -745.0])
    for name, expected in (
        ("exact_exp", [np.inf, 0.0, np.inf, 0.0, 1.0, 5e-324]),
        ("exact_expm1", [np.inf, -1.0, np.inf, -1.0, 0.0, -1.0]),
    ):
        found = x.copy()
        getattr(fast, name)(found)
        assert found.tolist() == expected
    below = np.array([0.0, -0.0, -1.0, -np.inf, np.nan, np.inf, 5e-324])
    fast.exact_log(below)
    assert below[:2].tolist() == [-np.inf, -np.inf]
    assert np.isnan(below[2:5]).all()
    assert below[5] == np.inf
    assert below[6] == pytest.approx(-1074 * math.log(2), rel=1e-15)


def operands(rows: int, depth: int, columns: int, kind: type, turned: tuple[bool, bool], seed: int = 0) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    a = random.normal(size=(depth, rows) if turned[0] else (rows, depth)).astype(kind)
    b = random.normal(size=(columns, depth) if turned[1] else (depth, columns)).astype(kind)
    return a.T if turned[0] else a, b.T if turned[1] else b


def multiplied(loops, a: Array, b: Array, **out) -> Array:
    found = np.full((a.shape[0], b.shape[1]), np.nan, a.dtype) if not out else out["out"]
    loops.exact_product(a, b, found)
    return found


SHAPES = [(1, 1, 1), (3, 256, 2), (2, 257, 33), (9, 40, 17), (8, 600, 32), (20, 5, 70), (1, 300, 65), (65, 300, 1), (0, 4, 3), (2, 0, 3)]


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_have_the_twins_bits_on_every_instruction_set(shape: tuple[int, int, int], kind: type) -> None:
    for turned in ((False, False), (True, False), (False, True), (True, True)):
        a, b = operands(*shape, kind, turned)
        twin = multiplied(numpy_exact, a, b)
        assert multiplied(fast, a, b).tobytes() == twin.tobytes()
        for name in sets():
            from herdcli.fast import _exact

            before = _exact.instruction_set()
            _exact.use_instruction_set(name)
            try:
                assert multiplied(_exact, a, b).tobytes() == twin.tobytes(), name
            finally:
                _exact.use_instruction_set(before)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_an_entry_is_the_sum_in_blocks_of_its_products(kind: type) -> None:
    a, b = operands(3, 600, 5, kind, (False, False), seed=1)
    found = multiplied(fast, a, b)
    for i in range(3):
        for j in range(5):
            total = kind(0)
            for start in range(0, 600, 256):
                part = kind(0)
                for k in range(start, min(start + 256, 600)):
                    part = kind(part + kind(a[i, k] * b[k, j]))
                total = kind(total + part) if start else part
            assert found[i, j] == total


@pytest.mark.parametrize(("kind", "unit"), [(np.float64, 2.0**-53), (np.float32, 2.0**-24)])
def test_products_against_rational_sums(kind: type, unit: float) -> None:
    a, b = operands(4, 700, 3, kind, (False, True), seed=2)
    found = multiplied(fast, a, b)
    for i in range(4):
        for j in range(3):
            terms = [Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a[i], b[:, j], strict=True)]
            bound = (256 + 3) * unit * float(sum(map(abs, terms)))
            assert abs(float(Fraction(float(found[i, j])) - sum(terms))) <= bound


def test_parts_of_a_product_are_products_of_parts() -> None:
    """Whoever gets which rows or columns: blocks and threads cannot change an entry."""
    a, b = operands(37, 300, 41, np.float32, (False, True), seed=4)
    whole = multiplied(fast, a, b)
    for rows in (slice(0, 1), slice(5, 19), slice(36, 37)):
        for columns in (slice(0, 41), slice(3, 4), slice(40, 41)):
            assert multiplied(fast, a[rows], b[:, columns]).tobytes() == np.ascontiguousarray(whole[rows, columns]).tobytes()
    assert (whole == multiplied(fast, b.T, a.T).T).all()


def test_products_into_strided_arrays_and_with_special_numbers() -> None:
    a, b = operands(6, 30, 7, np.float64, (False, False), seed=5)
    room = np.zeros((12, 21))
    multiplied(fast, a, b, out=room[::2, 1::3])
    assert (room[::2, 1::3] == multiplied(fast, a, b)).all()
    assert not room[1::2].any()
    a[0, 0], a[1, 3], b[3, 2] = np.inf, np.nan, 0.0
    found = multiplied(fast, a, b)
    assert np.isinf(found[0]).all()
    assert np.isnan(found[1]).all()


def test_shapes_that_do_not_fit_are_refused() -> None:
    if fast.loops_in_use() != "cython":
        pytest.skip("the NumPy loops check no shapes")
    for a, b, out in (((2, 3), (4, 5), (2, 5)), ((2, 3), (3, 5), (2, 4)), ((2, 3), (3, 5), (1, 5))):
        with pytest.raises(ValueError, match="expected"):
            fast.exact_product(np.zeros(a), np.zeros(b), np.zeros(out))
