"""The guard of AnnData files: what points elsewhere, unfolds past the limit or contradicts itself is refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from herdcli.artifacts import load
from herdcli.errors import HerdError

ROWS, COLUMNS = 30, 4


def good(file: Any) -> None:
    """What scanpy writes of a dense matrix."""
    file.attrs["encoding-type"], file.attrs["encoding-version"] = "anndata", "0.1.0"
    file["X"] = np.arange(ROWS * COLUMNS, dtype="f4").reshape(ROWS, COLUMNS)
    for name, count in (("obs", ROWS), ("var", COLUMNS)):
        group = file.create_group(name)
        group.attrs["_index"] = "_index"
        group.attrs["column-order"] = np.array([], dtype="S1")
        group["_index"] = np.array([f"{name}{k}" for k in range(count)], dtype=h5py.string_dtype())


def linked_away(file: Any) -> None:
    del file["X"]
    file["X"] = h5py.ExternalLink("other.h5", "/X")


def linked_within(file: Any) -> None:
    del file["var/_index"]
    file["var/_index"] = h5py.ExternalLink("other.h5", "/names")


def stored_elsewhere(file: Any) -> None:
    del file["X"]
    file.create_dataset("X", (ROWS, COLUMNS), dtype="f4", external=[("away.bin", 0, h5py.h5f.UNLIMITED)])


def unfolding(file: Any) -> None:
    del file["X"]
    file.create_dataset("X", (1 << 22, 1 << 12), dtype="f4", chunks=(1, 1 << 12), compression="gzip")


def beyond(file: Any) -> None:
    del file["X"]
    group = file.create_group("X")
    group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", [ROWS, COLUMNS]
    group["data"], group["indices"] = np.ones(3, "f4"), np.array([0, 1, 99], "i4")
    group["indptr"] = np.concatenate([[0], np.full(ROWS, 3)])


def test_a_plain_one_is_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        good(file)
    value = load(str(tmp_path / "a.h5ad")).value
    assert value.X.shape == (ROWS, COLUMNS)
    assert value.feature_names == ["var0", "var1", "var2", "var3"]


@pytest.mark.parametrize("spoil", [linked_away, linked_within, stored_elsewhere, unfolding, beyond], ids=lambda spoil: spoil.__name__)
def test_what_is_no_plain_data_is_refused(tmp_path: Path, spoil: Callable[[Any], None]) -> None:
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        good(file)
        spoil(file)
    with pytest.raises(HerdError) as refused:
        load(str(tmp_path / "a.h5ad"), max_memory=1 << 30)
    assert "\n" not in refused.value.message
    assert refused.value.exit_code in (65, 70)
