"""Labels of a CSV whose leading zeros come after the lines that are looked at first, and all that they may be besides."""

from __future__ import annotations

import io

import numpy as np
import pytest

from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.load_options import LoadOptions
from herdcli.artifacts.text import delimited_text
from herdcli.errors import DataError

FIRST = 300  # rows with labels 1 and 2, more than are looked at


def text(*more: str) -> bytes:
    rows = [f"{i},{1 + i % 2}" for i in range(FIRST)] + [f"9,{each}" for each in more]
    return ("a,y\n" + "\n".join(rows) + "\n").encode()


def read(data: bytes, **asked: object) -> tuple[Dataset, list[str]]:
    notes: list[str] = []
    found = delimited_text.read(
        io.BytesIO(data), data[:1000], where="t.csv", options=LoadOptions(limit=1 << 30, note=notes.append, **asked)
    )
    return found, notes


@pytest.mark.parametrize("cell", ["01", " 01 ", "007"])
def test_labels_with_zeros_deep_in_a_file_are_texts(cell: str) -> None:
    data, notes = read(text(cell, "2"))
    bare = cell.strip()
    assert data.class_names == sorted({"1", "2", bare})
    assert [data.class_names[k] for k in data.y[-2:]] == [bare, "2"]
    assert notes == [f"t.csv: labels such as {bare} are read as text, so {bare} and {bare.lstrip('0')} are different labels"]


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("title", [" y", '"y"', '" y"'])
def test_blanks_and_quotes_of_titles_are_no_matter(title: str, deep: bool) -> None:
    rows = text("01").replace(b"a,y", f"a,{title}".encode())
    data, notes = read(rows if deep else rows.replace(b"0,1\n", b"0,01\n", 1))
    assert data.class_names == ["01", "1", "2"]
    assert notes[0] == "t.csv: labels such as 01 are read as text, so 01 and 1 are different labels"


def test_rows_with_names() -> None:
    data = b"a,y\n" + b"".join(f"r{i},{i},{1 + i % 2}\n".encode() for i in range(FIRST)) + b"last,5,01\n"
    found, notes = read(data)
    assert found.class_names == ["01", "1", "2"]
    assert len(notes) == 2


@pytest.mark.parametrize(
    ("cells", "kind"),
    [(("3", " 4 ", "+5", "0"), "i"), (("-3", "4.0"), "f"), (("1e3",), "f"), (("3", "left"), "names")],
)
def test_other_labels_are_what_they_were(cells: tuple[str, ...], kind: str) -> None:
    own, notes = read(text(*cells))
    # pyarrow's own types, which it finds where the first lines do not say whole numbers
    table = delimited_text.read(io.BytesIO(text(*cells)), b"a,y\n1,x\n", where="t.csv", options=LoadOptions(limit=1 << 30))
    assert own.class_names == table.class_names
    np.testing.assert_array_equal(own.y, table.y)
    assert own.y.dtype == table.y.dtype
    assert (own.class_names is not None) == (kind == "names")
    assert not notes


@pytest.mark.parametrize(
    ("cell", "says"), [("4.5", "has the value 4.5 in row 300, but labels must be whole numbers or text"), ("inf", "1 infinite row")]
)
def test_what_no_label_can_be_is_refused_as_ever(cell: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        read(text(cell))


@pytest.mark.parametrize("gap", ["", "NA", "nan", "null"])
def test_labels_that_are_missing_are_missing(gap: str) -> None:
    data, _ = read(text(gap, "2"), missing=True)
    assert data.y[-2:].tolist() == [-1, 2]
    with pytest.raises(DataError, match="column 'y' has 1 missing value"):
        read(text(gap, "2"))


def test_truth_values_and_bytes_that_are_no_text() -> None:
    assert np.unique(read(("a,y\n" + "1,1\n" * 150 + "2,0\n3,true\n").encode())[0].y).tolist() == [0, 1]
    with pytest.raises(DataError, match="column 'y' has text that is not UTF-8"):
        read(text() + b"3,\xff\xfe\n")


def test_rows_that_are_a_part_of_all_cannot_become_texts() -> None:
    says = "labels such as 01 are read as text, so 01 and 1 are different labels, but rows at the beginning have whole numbers"
    with pytest.raises(DataError, match=says):
        read(text("01"), stretch=True)
    with pytest.raises(DataError, match=says):
        list(delimited_text.read_batches(io.BytesIO(text("01")), text()[:1000], where="t.csv", options=LoadOptions()))


def test_batches_keep_the_type_of_the_first() -> None:
    wide = b"a,y\n" + (b"1" * 70_000 + b",1\n") * 200  # several blocks
    found = list(delimited_text.read_batches(io.BytesIO(wide + b"2,3\n"), wide[:200_000], where="t.csv", options=LoadOptions()))
    assert len(found) > 1
    assert {str(batch.schema.field("y").type) for batch in found} == {"int64"}
    with pytest.raises(DataError, match="column 'y' has values of another type than its first rows"):
        list(delimited_text.read_batches(io.BytesIO(wide + b"2,left\n"), wide[:200_000], where="t.csv", options=LoadOptions()))
