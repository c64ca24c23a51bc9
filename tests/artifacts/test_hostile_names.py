"""What herd writes is what herd reads, in every format, whatever the names of columns and labels."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from herdcli.artifacts import load, save
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.text.csv_header import is_value
from herdcli.artifacts.text.number_formats import MARKS

# Every character but surrogates, which are no text, and controls, by which text is told from other bytes.
CHARACTERS = st.characters(exclude_categories=("Cs", "Cc"))
ODD = st.sampled_from(
    [
        *list(";,\t|\"'# \n\r=+-@:$%\xa0\u202e\ufeff"),
        "a",
        "b",
        "1",
        "0.5",
        "sep=;",
        '""',
        "x\ny",
        "a;b;c",
        "[",
        "{",
        "<a>",
        "MARKOV",
        "bayes",
        "network a",
        "@relation",
        "é",
        "\u2028",
    ]
)
TEXT = st.lists(st.one_of(ODD, CHARACTERS), min_size=1, max_size=6).map("".join)
ROLES = {"y", "label", "class", "target", "split", "weight", "Unnamed: 0", "x", "columns"}


def _is_name(text: str) -> bool:
    """A name that a column can have: it has none but visible ends, since readers leave out blanks there, and no other meaning."""
    return bool(text.strip()) and text == text.strip() and text.lower() not in ROLES and not text.startswith("__index_level_")


def _is_label(text: str) -> bool:
    """A label that is no number, truth value or mark of nothing, which CSV does not tell from text."""
    return _is_name(text) and not is_value(text) and text not in MARKS and text.lower() not in ("true", "false")


NAMES = st.lists(TEXT.filter(_is_name), min_size=1, max_size=4, unique=True)
LABELS = st.lists(TEXT.filter(_is_label), min_size=2, max_size=3, unique=True)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "tsv", "parquet", "npz", "h5"])
@given(names=NAMES, labels=LABELS, seed=st.integers(0, 9))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_names_and_labels_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, names: list[str], labels: list[str], seed: int
) -> None:
    """With separators, quotes, line ends, comments and other characters in them."""
    path = tmp_path_factory.getbasetemp() / f"names.{suffix}"
    X = np.random.default_rng(seed).normal(size=(5, len(names))).round(3)
    y = np.arange(5, dtype=np.int32) % len(labels)
    classes = sorted(labels)
    save(str(path), Dataset(X, y=y, feature_names=names, class_names=classes), [])
    found = load(str(path)).value
    np.testing.assert_array_equal(found.X, X)
    assert found.feature_names == names
    assert [found.class_names[label] for label in found.y.tolist()] == [classes[label] for label in y.tolist()]


@given(names=NAMES, labels=LABELS)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_other_programs_read_the_same_csv(tmp_path_factory: pytest.TempPathFactory, names: list[str], labels: list[str]) -> None:
    """Python's own module, of RFC 4180."""
    path = tmp_path_factory.getbasetemp() / "names.csv"
    y = np.arange(4, dtype=np.int32) % len(labels)
    save(str(path), Dataset(np.ones((4, len(names))), y=y, feature_names=names, class_names=labels), [])
    with open(path, encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    assert lines[0] == [*names, "y"]
    assert [line[-1] for line in lines[1:]] == [labels[label] for label in y.tolist()]


@pytest.mark.parametrize(
    "names",
    [
        ["0.5", "1.5"],
        ["1", "2"],
        ["0", "1", "2", "3"],
        ["a b"],
        ["#a", "b"],
        ["a;b;c", "d;e"],
        ["u", "a\nb", "x;y"],
        ["nan", "inf"],
        ["a\rb", "c"],
    ],
)
@pytest.mark.parametrize("labelled", [False, True])
def test_titles_that_look_like_rows_or_other_separators(tmp_path: Path, names: list[str], labelled: bool) -> None:
    """Numbers, comments, blanks and line ends."""
    data = Dataset(np.arange(2.0 * len(names)).reshape(2, -1) + 0.5, feature_names=names, y=np.array([0, 1]) if labelled else None)
    save(str(tmp_path / "a.csv"), data, [])
    found = load(str(tmp_path / "a.csv")).value
    np.testing.assert_array_equal(found.X, data.X)
    assert found.feature_names == names


def test_a_label_that_is_its_own_title_is_no_second_row_of_titles(tmp_path: Path) -> None:
    """The column y has the label y."""
    data = Dataset(np.array([[1.0], [2.0]]), feature_names=["1"], y=np.array([0, 1], dtype=np.int32), class_names=["x", "y"])
    save(str(tmp_path / "a.csv"), data, [])
    found = load(str(tmp_path / "a.csv")).value
    np.testing.assert_array_equal(found.X, data.X)
    assert found.class_names == ["x", "y"]
