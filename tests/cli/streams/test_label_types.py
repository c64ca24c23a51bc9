"""The labels that `apply` gives have the type that the labels of the training rows had; older models of True and False as 1 and 0 work."""

from __future__ import annotations

import json
from dataclasses import replace

import h5py
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from herdcli.artifacts import load
from herdcli.artifacts.load_save import save

ROWS = np.random.default_rng(0).normal(size=(120, 2))
POSITIVE = ROWS[:, 0] > 0


def write(folder, form: str, labels: np.ndarray) -> str:
    """Rows with labels as a file; its name."""
    path = folder / f"d.{form}"
    if form == "parquet":
        parquet.write_table(pa.table({"a": ROWS[:, 0], "b": ROWS[:, 1], "y": pa.array(labels)}), path)
    elif form == "csv":
        lines = [f"{a!r},{b!r},{label}" for (a, b), label in zip(ROWS.tolist(), labels.tolist(), strict=True)]
        path.write_text("\n".join(["a,b,y", *lines]) + "\n")
    elif form == "npz":
        np.savez(path, X=ROWS, y=labels)
    else:
        with h5py.File(path, "w") as file:
            file["X"], file["y"] = ROWS, labels
    return path.name


def learned(herd, name: str) -> None:
    done = herd("nherd-train", "-q", name, "--passes", 1, "--C", 1, "--split", "1,0,0", "-o", "m.h5")
    assert done.code == 0, done.err


@pytest.mark.parametrize("form", ["parquet", "csv", "npz", "h5"])
def test_booleans_stay_booleans(herd, tmp_path, form):
    name = write(tmp_path, form, POSITIVE)
    learned(herd, name)
    assert load(str(tmp_path / "m.h5")).value.classes == ["False", "True"]
    for output in ("p.parquet", "p.npz", "p.csv", "p.h5"):
        assert herd("apply", "-q", "m.h5", name, "-o", output).code == 0
    column = parquet.read_table(tmp_path / "p.parquet")["y"]
    assert column.type == pa.bool_()
    y = np.load(tmp_path / "p.npz")["y"]
    assert y.dtype == bool
    assert np.array_equal(y, column.to_numpy())
    assert np.mean(y == POSITIVE) > 0.9
    texts = [line.split(b",")[-1].strip(b'"\r') for line in (tmp_path / "p.csv").read_bytes().split(b"\n")[1:-1]]
    assert texts == [str(label).encode() for label in y]
    for output in ("p.parquet", "p.npz", "p.csv", "p.h5"):
        found = load(str(tmp_path / output)).value if output != "p.csv" else None
        if found is not None:
            assert found.class_names == ["False", "True"]
            assert np.array_equal(found.y.astype(bool), y)


def test_models_whose_classes_are_0_and_1_are_judged_by_booleans(herd, tmp_path):
    name = write(tmp_path, "parquet", POSITIVE)
    learned(herd, name)
    model = load(str(tmp_path / "m.h5"))
    save(str(tmp_path / "old.h5"), replace(model.value, classes=["0", "1"]), [])
    errors = []
    for number, own in enumerate(("m.h5", "old.h5")):
        judged = herd("eval", own, "--data", name, "--format", "json")
        assert judged.code == 0, judged.err
        errors.append(json.loads(judged.out)[0]["error"])
        assert herd("nherd-train", "-q", "--continue", own, name, "-o", f"c{number}.h5").code == 0
    assert errors[0] == errors[1] < 0.1
    assert np.array_equal(*(load(str(tmp_path / f"c{k}.h5")).value.mean for k in (0, 1)))
    numbered = write(tmp_path, "csv", POSITIVE.astype(int))
    assert json.loads(herd("eval", "m.h5", "--data", numbered, "--format", "json").out)[0]["error"] == errors[0]
    swapped = herd("nherd-train", "-q", name, "--positive", "1", "--passes", 1, "--C", 1, "-o", "s.h5")
    assert swapped.code == 0, swapped.err
    assert load(str(tmp_path / "s.h5")).value.classes == ["rest", "1"]


@pytest.mark.parametrize(
    ("labels", "kind"),
    [((-1, 1), pa.int64()), ((-5, 3), pa.int64()), ((-3, -1), pa.int64()), ((7, 2**53 + 1), pa.int64()), (("007", "042"), pa.string())],
)
def test_numbers_stay_numbers_and_leading_zeros_stay(herd, tmp_path, labels, kind):
    name = write(tmp_path, "parquet", np.where(POSITIVE, *labels))
    learned(herd, name)
    assert herd("apply", "-q", "m.h5", name, "-o", "p.parquet").code == 0
    column = parquet.read_table(tmp_path / "p.parquet")["y"]
    assert (column.type.value_type if pa.types.is_dictionary(column.type) else column.type) == kind
    assert set(column.to_pylist()) == set(labels)


def test_labels_that_would_mean_none_stay_names(herd, tmp_path):
    name = write(tmp_path, "parquet", np.where(POSITIVE, -1, np.where(ROWS[:, 1] > 0, 0, 1)))
    learned(herd, name)
    assert herd("apply", "-q", "m.h5", name, "-o", "p.parquet").code == 0
    assert set(parquet.read_table(tmp_path / "p.parquet")["y"].to_pylist()) == {"-1", "0", "1"}
