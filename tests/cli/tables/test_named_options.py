"""Rows that another option is for: the message names it."""

from __future__ import annotations

import numpy as np


def test_whole_numbers_name_poisson_units(run, tmp_path):
    rows = np.random.default_rng(0).poisson(3.0, (80, 3))
    (tmp_path / "t.csv").write_text("a,b,c\n" + "\n".join(",".join(map(str, row)) for row in rows.tolist()) + "\n")
    ended = run("fit-rbm", "t.csv", "-o", "m.h5")
    assert ended.code == 2
    assert (
        "hint: for whole numbers use --visible-units poisson; or declare the lowest and highest possible value; those seen are --range 0,"
        in ended.err
    )


def test_a_quantity_as_labels_names_regression(run, tmp_path):
    x = np.random.default_rng(1).normal(size=300).round(3)
    for name, y in (("many", (100 + 60 * x).round().astype(int)), ("few", (x > 0).astype(int)), ("parts", x)):
        (tmp_path / f"{name}.csv").write_text("x,y\n" + "\n".join(f"{a},{b}" for a, b in zip(x.tolist(), y.tolist(), strict=True)) + "\n")
    ended = run("nherd-train", "many.csv", "-o", "m.h5")
    count = len(np.unique((100 + 60 * x).round()))
    assert (
        f"warning: the labels are {count} different numbers in 300 rows, each learned as a class; --task regression predicts numbers\n"
        in ended.err
    )
    assert "--task regression" not in run("nherd-train", "few.csv", "-o", "m.h5").err
    assert "labels must be whole numbers or text" in run("nherd-train", "parts.csv", "-o", "m.h5").err


def test_columns_in_messages_have_their_names(run, tmp_path):
    (tmp_path / "t.csv").write_text("first,second\n1,0.5\n0,1\n1,2\n")
    ended = run("fit-mrf", "t.csv", "--values", "states", "-o", "m.h5")
    assert ended.code == 65
    assert "column 'second' has 0.5 in line 2" in ended.err


def test_numbers_that_mostly_occur_once_name_regression_in_small_tables(run, tmp_path):
    """14 different numbers in 21 rows are no classes; 5 classes of 9 rows may be."""
    random = np.random.default_rng(2)
    quantity = [42, 37, 37, 28, 18, 18, 19, 20, 15, 14, 14, 13, 11, 12, 8, 7, 8, 8, 9, 15, 15]
    for name, y in (("quantity", quantity), ("classes", [1, 1, 2, 2, 3, 3, 4, 4, 5])):
        rows = [f"{random.normal():.3f},{value}" for value in y]
        (tmp_path / f"{name}.csv").write_text("\n".join(["x,y", *rows]) + "\n")
    told = run("nherd-train", "quantity.csv", "-o", "m.h5").err
    assert "the labels are 14 different numbers in 21 rows, each learned as a class; --task regression predicts numbers\n" in told
    assert "--task regression" not in run("nherd-train", "classes.csv", "-o", "m.h5").err
