"""What is written comes back equal, in equal bytes, whatever the dataclass holds."""

from __future__ import annotations

import io
from dataclasses import dataclass, field, fields
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import csr_matrix

from herdcli.artifacts.sealed import codec
from herdcli.errors import DataError
from herdcli.schema import Array, array

DTYPES = [np.dtype(name) for name in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", ">f8", ">i2")]
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
arrays = st.sampled_from(DTYPES).flatmap(lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)))
integers = st.integers(-(1 << 63), (1 << 64) - 1)


@dataclass
class Part:
    """A nested dataclass."""

    name: str
    values: Array
    level: float | None = None


@dataclass
class Everything:
    """One field of each sort the codec knows."""

    flag: bool
    count: int
    rate: float
    title: str
    free: Array
    names: list[str]
    trace: list[float]
    pair: tuple[int, ...]
    mixed: tuple[int, str]
    part: Part
    parts: list[Part]
    rows: list[Array]
    table: dict[str, Array]
    scores: dict[str, float | None]
    either: int | str
    maybe: Part | None = None
    absent: str | None = None
    words: Array | None = array("n", "strings", kind="U", optional=True)


parts = st.builds(Part, texts, arrays, st.none() | st.floats())
values = st.builds(
    Everything,
    st.booleans(),
    integers,
    st.floats(),
    texts,
    arrays,
    st.lists(texts, max_size=4),
    st.lists(st.floats(), max_size=4),
    st.lists(integers, max_size=3).map(tuple),
    st.tuples(integers, texts),
    parts,
    st.lists(parts, max_size=2),
    st.lists(arrays, max_size=2),
    st.dictionaries(texts, arrays, max_size=3),
    st.dictionaries(texts, st.none() | st.floats(), max_size=3),
    integers | texts,
    st.none() | parts,
    st.none() | texts,
    st.none() | st.lists(texts, min_size=1, max_size=3).map(lambda words: np.array(words, dtype=str)),
)


def encoded(value: Any) -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w", libver=("v110", "v110"), track_times=False) as file:
        codec.write_fields(file, value)
    return buffer.getvalue()


def decoded(data: bytes, cls: type[Any]) -> Any:
    with h5py.File(io.BytesIO(data), "r") as file:
        return codec.read_fields(file, cls, where="test")


def same(left: Any, right: Any) -> bool:
    """Equal in type and bit pattern of values; NaN equals NaN; byte order does not count."""
    if isinstance(left, np.ndarray):
        if left.dtype.kind == "U":
            return left.tolist() == right.tolist()
        kind = left.dtype.newbyteorder("=")
        return right.dtype == kind and left.shape == right.shape and left.astype(kind).tobytes() == right.tobytes()
    if hasattr(left, "__dataclass_fields__"):
        return type(left) is type(right) and all(same(getattr(left, f.name), getattr(right, f.name)) for f in fields(left))
    if isinstance(left, (list, tuple)):
        return type(left) is type(right) and len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, float):
        return type(right) is float and (left == right or (left != left and right != right))
    return type(left) is type(right) and bool(left == right)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(values)
def test_what_is_written_comes_back_equal(value: Everything) -> None:
    data = encoded(value)
    assert same(value, decoded(data, Everything))
    assert encoded(value) == data


@dataclass
class Sparse:
    """A field that takes a CSR matrix."""

    X: Any = array("n d", "rows", sparse=True)


@pytest.mark.parametrize("dtype", ["u1", "i4", "f4", "f8"])
def test_csr_matrices_come_back_with_their_types(dtype: str) -> None:
    X = csr_matrix(np.random.default_rng(1).integers(0, 3, (7, 5)) * 4).astype(dtype)
    back = decoded(encoded(Sparse(X)), Sparse).X
    assert back.dtype == X.dtype
    assert back.shape == X.shape
    assert (back != X).nnz == 0
    assert back.indices.dtype == X.indices.dtype


@pytest.mark.parametrize(("part", "wrong"), [("indices", 99), ("indices", -1), ("indptr", 99)])
def test_csr_indices_outside_the_matrix_are_refused(part: str, wrong: int) -> None:
    X = csr_matrix(np.eye(3))
    getattr(X, part)[1] = wrong
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        codec.write_fields(file, Sparse(X))
    with pytest.raises(DataError, match="/X cannot be read"):
        decoded(buffer.getvalue(), Sparse)


def test_arrays_in_any_memory_order_come_back_equal() -> None:
    grid = np.arange(24.0).reshape(4, 6)
    for view in (grid.T, grid[::2, ::-1], np.asfortranarray(grid)):
        assert np.array_equal(decoded(encoded(Part("p", view)), Part).values, view)


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_text_that_would_come_back_different_is_refused(text: str) -> None:
    with pytest.raises(DataError):
        encoded(Part(text, np.zeros(1)))


@pytest.mark.parametrize("value", [np.zeros(2, dtype=complex), np.zeros(2, dtype="M8[s]"), object()])
def test_what_cannot_be_carried_is_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError, match="cannot carry"):
        encoded(Part("p", value))


def test_missing_and_mistyped_fields_are_named() -> None:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file.attrs["name"] = 3
        file["values"] = np.zeros(1)
    with pytest.raises(DataError, match=r"/name cannot be read.*expected str"):
        decoded(buffer.getvalue(), Part)
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file.attrs["name"] = "p"
    with pytest.raises(DataError, match="/values is missing"):
        decoded(buffer.getvalue(), Part)


@dataclass
class WithDefaults:
    """Fields that a file may lack, by a value and by a factory."""

    count: int = 3
    part: Part = field(default_factory=lambda: Part("made", np.zeros(2)))
    parts: list[Part] = field(default_factory=list)


def test_what_is_absent_is_the_default_also_where_a_factory_makes_it():
    with h5py.File(io.BytesIO(), "w") as file:
        found = codec.read_fields(file, WithDefaults, where="x")
    assert (found.count, found.part.name, found.parts) == (3, "made", [])


def test_numbers_of_another_size_are_read_as_what_the_program_reckons_in(tmp_path):
    from dataclasses import replace

    from herdcli.artifacts import load, save
    from herdcli.markov.model.network import build_network

    network = build_network([2, 2], [((0, 1), np.array([[1.0, 2.0], [3.0, 4.0]]))])
    small = replace(network, table=network.table.astype(np.float32), cardinality=network.cardinality.astype(np.uint8))
    save(str(tmp_path / "n.h5"), small, [])
    found = load(str(tmp_path / "n.h5")).value
    assert (found.table.dtype, found.cardinality.dtype) == (np.float64, np.int64)
    np.testing.assert_array_equal(found.table, network.table)


def test_long_doubles_of_a_file_are_read_as_what_the_program_reckons_in() -> None:
    with h5py.File("x", "w", driver="core", backing_store=False) as file:
        file["values"] = np.array([1.5, np.finfo(np.longdouble).max], dtype=np.longdouble)
        file.attrs["name"] = "a"
        found = codec.read_fields(file, Part, where="x")
    assert found.values.dtype == np.float64
    assert found.values.tolist() == [1.5, np.inf]


@dataclass(frozen=True)
class Columns:
    table: dict[str, Array]


def test_an_array_in_the_place_of_a_table_is_refused() -> None:
    raw = io.BytesIO(encoded(Columns({"a": np.ones(2)})))
    with h5py.File(raw, "r+") as file:
        del file["table"]
        file["table"] = np.ones(2)
    with pytest.raises(DataError, match=r"/table cannot be read.*is a dataset, expected a group"):
        decoded(raw.getvalue(), Columns)
