"""What rows are split into where they are read a stretch at a time: the word of all rows, whichever of them a stretch has."""

from __future__ import annotations

import h5py
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from herdcli.artifacts.load_options import ignore_note
from herdcli.artifacts.rows import lazy_matrix, row_ranges

X = np.arange(12.0).reshape(6, 2)


def written(folder, form, split):
    """Files of six rows, and in `form` "several" two of them."""
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "split": split})
    if form == "several":
        for number in (0, 1):
            parquet.write_table(table.slice(3 * number, 3), folder / f"part-{number}.parquet")
        return str(folder / "part-*.parquet")
    path = folder / f"rows.{form}"
    if form == "parquet":
        parquet.write_table(table, path, row_group_size=2)
    elif form == "csv":
        path.write_text("a,b,split\n" + "".join(f"{a:g},{b:g},{part}\n" for (a, b), part in zip(X.tolist(), split, strict=True)))
    else:
        with h5py.File(path, "w") as file:
            file["X"], file["split"] = X, split
    return str(path)


SPLITS = {
    "0 and 1, train and test": ([0, 0, 0, 1, 1, 1], [0, 0, 0, 2, 2, 2]),
    "0, 1 and 2": ([0, 1, 0, 1, 1, 2], [0, 1, 0, 1, 1, 2]),
    "names": (["train", "valid", "train", "train", "valid", "train"], [0, 1, 0, 0, 1, 0]),
}


@pytest.mark.parametrize("form", ["csv", "h5", "parquet", "several"])
@pytest.mark.parametrize("name", SPLITS)
def test_a_stretch_has_the_parts_that_all_rows_say(tmp_path, form, name):
    split, expected = SPLITS[name]
    with row_ranges.open_ranges(written(tmp_path, form, split), input_format=None, note=ignore_note, verified=False) as found:
        assert found.read(0, 2).split is None
        found.splits = True
        for start in range(0, 6, 2):
            assert found.read(start, start + 2).split.tolist() == expected[start : start + 2]
        assert found.read_split_column().tolist() == expected
        kept = lazy_matrix.file_backed_dataset(found)
        assert form == "several" or kept.split.tolist() == expected


def test_labels_of_text_are_numbered_by_all_rows(tmp_path):
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"a": X[:, 0], "y": ["b", "b", "c", "a", "a", "a"]}), path, row_group_size=2)
    with row_ranges.open_ranges(str(path), input_format=None, note=ignore_note, verified=False) as found:
        assert lazy_matrix.file_backed_dataset(found) is None
