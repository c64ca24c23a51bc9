"""Products with CSR rows: both loops against dense products, and against each other."""

from __future__ import annotations

import platform

import numpy as np
import pytest
from scipy.sparse import random_array

from herdcli import fast
from herdcli.fast import numpy_csr
from herdcli.schema import Array

FUSED = platform.machine() not in ("x86_64", "AMD64")  # SciPy's loops may round products and sums together
SHAPES = [(0, 3, 1), (1, 1, 1), (40, 30, 1), (40, 30, 4), (40, 30, 8), (40, 30, 12), (40, 30, 16), (40, 30, 20), (40, 30, 36)]


def csr_rows(rows: int, columns: int) -> tuple[tuple[Array, Array, Array], Array]:
    """Random rows with empty ones among them: starts, columns and values, and the dense matrix."""
    Z = random_array((rows, columns), density=0.3, format="csr", rng=np.random.default_rng(rows))
    return (Z.indptr.astype(np.int32), Z.indices.astype(np.int32), Z.data), Z.toarray()


def assert_twins(here: Array, twin: Array, expected: Array) -> None:
    """Assert that both loops have found what is expected, and the same bits where SciPy rounds each product."""
    np.testing.assert_allclose(here, expected, rtol=1e-12, atol=1e-14)
    if FUSED:
        np.testing.assert_allclose(here, twin, rtol=1e-12, atol=1e-14)
    else:
        assert here.tobytes() == twin.tobytes()


@pytest.mark.parametrize(("rows", "columns", "count"), SHAPES)
def test_products_and_transposed_products(rows: int, columns: int, count: int) -> None:
    random = np.random.default_rng(count)
    sparse, dense = csr_rows(rows, columns)
    v, u = random.normal(size=(columns, count)), random.normal(size=(rows, count))
    found, back = np.full((2, rows, count), np.nan), np.zeros((2, columns, count))
    for k, loops in enumerate((fast, numpy_csr)):
        loops.csr_products(*sparse, v, found[k])
        loops.add_transposed_products(*sparse, u, back[k])
    assert_twins(found[0], found[1], dense @ v)
    assert_twins(back[0], back[1], dense.T @ u)


@pytest.mark.parametrize(("rows", "columns", "count"), SHAPES)
def test_curvature_products(rows: int, columns: int, count: int) -> None:
    random = np.random.default_rng(count)
    sparse, dense = csr_rows(rows, columns)
    curve, weight, v = random.dirichlet(np.ones(count), size=rows), random.random(rows), random.normal(size=(columns, count))
    curve *= 0.5 + 0.5 * (count > 1)
    found = np.zeros((2, columns, count))
    for k, loops in enumerate((fast, numpy_csr)):
        loops.add_curvature_products(*sparse, curve, weight, v, np.empty((rows, count)), found[k])
    along = curve * (dense @ v)
    if count > 1:
        along -= curve * along.sum(axis=1, keepdims=True)
    assert_twins(found[0], found[1], dense.T @ (weight[:, None] * along))


def test_invalid_arrays_are_refused() -> None:
    compiled = pytest.importorskip("herdcli.fast._csr", reason="the compiled loops are not built")
    (starts, columns, values), _ = csr_rows(5, 6)
    v, out = np.zeros((6, 4)), np.zeros((5, 4))
    with pytest.raises(ValueError, match="2 vectors, expected 1 or a multiple of 4"):
        compiled.csr_products(starts, columns, values, np.zeros((6, 2)), np.zeros((5, 2)))
    with pytest.raises(ValueError, match="arrays of different shapes"):
        compiled.csr_products(starts, columns, values, v, np.zeros((4, 4)))
    with pytest.raises(ValueError, match="arrays of different shapes"):
        compiled.add_transposed_products(starts, columns, values, np.zeros((4, 4)), np.zeros((6, 4)))
    with pytest.raises(ValueError, match="arrays of different shapes"):
        compiled.add_curvature_products(starts, columns, values, out, np.zeros(4), v, np.zeros((5, 4)), np.zeros((6, 4)))
    with pytest.raises(IndexError, match="column 5 of 5"):
        compiled.csr_products(starts, np.where(columns == columns.max(), 5, columns).astype(np.int32), values, np.zeros((5, 4)), out)
    with pytest.raises(IndexError, match="column -1 of 6"):
        compiled.csr_products(starts, np.full_like(columns, -1), values, v, out)
    with pytest.raises(IndexError, match="the rows are not parts of the entries"):
        compiled.csr_products(starts[::-1].copy(), columns, values, v, out)
