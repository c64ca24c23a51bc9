"""nherd-train of data sets whose rows are sorted by class: mixed, unless they are wanted in order."""

from __future__ import annotations

import json

import numpy as np
import pytest

from herdcli.artifacts import load


def test_rows_class_by_class_are_mixed(herd, tmp_path, write):
    y = np.repeat([0, 1], 50)
    write(tmp_path / "sorted.h5", {"X": np.random.default_rng(0).standard_normal((100, 3)) + y[:, None], "y": y})
    told = herd("nherd-train", "sorted.h5", "-o", "m.h5").err
    assert "the rows are sorted by class, so they are shuffled by --seed (--in-order keeps their order)" in told
    assert herd("nherd-train", "sorted.h5", "--shuffle", "-o", "s.h5").err.count("sorted") == 0
    assert herd("nherd-train", "sorted.h5", "-q", "-o", "again.h5").code == 0
    mixed, asked, again = (load(str(tmp_path / name)).value for name in ("m.h5", "s.h5", "again.h5"))
    assert mixed.settings.shuffle
    assert np.array_equal(mixed.mean, asked.mean)
    assert (tmp_path / "m.h5").read_bytes() == (tmp_path / "again.h5").read_bytes()
    assert np.array_equal(mixed.mean, again.mean)
    kept = herd("nherd-train", "sorted.h5", "--in-order", "-o", "k.h5")
    assert "warning: the rows are sorted by class, so learning in their order gives a bad model" in kept.err
    assert not load(str(tmp_path / "k.h5")).value.settings.shuffle
    both = herd("nherd-train", "sorted.h5", "--in-order", "--shuffle", "-o", "b.h5")
    assert (both.code, both.err.splitlines()[0]) == (2, "herd nherd-train: --shuffle and --in-order contradict each other")


def test_rows_in_no_order_stay_as_they_are(herd, tmp_path, write):
    y = np.random.default_rng(1).integers(0, 2, 100)
    write(tmp_path / "any.h5", {"X": np.random.default_rng(0).standard_normal((100, 3)) + y[:, None], "y": y})
    for args, name in ((("--passes", "1"), "a.h5"), (("--in-order",), "b.h5")):
        assert "sorted by" not in herd("nherd-train", "any.h5", *args, "-o", name).err
    one, other = (load(str(tmp_path / name)).value for name in ("a.h5", "b.h5"))
    assert not one.settings.shuffle
    assert np.array_equal(one.mean, other.mean)


@pytest.mark.parametrize(
    ("y", "found"),
    [
        (np.repeat([0, 1, 2], 40), True),
        (np.tile([0, 1, 2], 40), False),
        (np.sort(np.random.default_rng(0).standard_normal(100)), True),
        (np.random.default_rng(0).standard_normal(100), False),
        (np.repeat(np.eye(3, dtype=np.uint8), 40, axis=0), True),
        (np.tile(np.eye(3, dtype=np.uint8), (40, 1)), False),
        (np.zeros(1), False),
    ],
)
def test_an_order_that_spoils_learning_is_found(y, found):
    from herdcli.online.order_check import is_sorted_by_label

    assert is_sorted_by_label(y) == found


def test_sorted_rows_learn_as_well_as_mixed_ones(herd, tmp_path, digits):
    rows = load(str(tmp_path / "digits.h5")).value
    order = np.argsort(rows.y, kind="stable")
    import h5py

    with h5py.File(tmp_path / "s.h5", "w") as file:
        file["X"], file["y"] = rows.X[order], rows.y[order]
    errors = {}
    for args in ((), ("--in-order",), ("--parts", "2"), ("--parts", "2", "--rounds", "2")):
        assert herd("nherd-train", "s.h5", "-q", *args, "-o", "m.h5").code == 0
        errors[args] = float(json.loads(herd("eval", "m.h5", "--format", "json").out)[0]["error"])
    assert max(errors[()], errors["--parts", "2"], errors["--parts", "2", "--rounds", "2"]) < 0.12
    assert errors["--in-order",] > 2 * errors[()]
