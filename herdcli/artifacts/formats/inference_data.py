"""ArviZ's InferenceData as netCDF-4: chain × draw × dimension in the group `posterior`, weights in `sample_stats`.

netCDF-4 is HDF5 whose coordinates are dimension scales, so that h5py writes it.
Source: the InferenceData schema of ArviZ; the netCDF-4 file format's appendix on dimension scales.
"""

from __future__ import annotations

import io
import os
from typing import Any

import numpy as np

from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.h5py_import import h5py
from herdcli.errors import BadUsage
from herdcli.schema import Array


def write_dataset(path: str | os.PathLike[str], data: Dataset) -> None:
    """Write rows as draws: each value of a column `chain` is a chain, else there is one chain; labels are a variable y."""
    X = data.X.toarray() if hasattr(data.X, "toarray") else np.asarray(data.X)
    chain = (data.columns or {}).get("chain")
    order = np.arange(len(X))[None] if chain is None else _chain_rows(np.asarray(chain))
    more = {} if data.y is None else {"y": np.asarray(data.y)[order]}
    _write_inference_data(path, X[order], data.feature_names, more)


def write_samples(path: str | os.PathLike[str], samples: Any) -> None:
    """Write atoms as draws with their weights; each group is a chain if all groups have the same size."""
    places = [samples.group_positions(group) for group in range(samples.groups)]
    alike = len({len(members) for members in places}) == 1
    order = np.array(places if alike else [np.concatenate(places)])
    group = {} if samples.group is None or alike else {"group": samples.group[order]}
    _write_inference_data(path, samples.x[order], samples.feature_names, group, {"weight": samples.weight[order]})


def write_herding(path: str | os.PathLike[str], herding: Any) -> None:
    """Write kept pseudo-samples as draws, with one chain for each run; hidden units are a variable z."""
    kept = [herding.kept(run) for run in range(herding.count)]
    names = herding.feature_names
    if names is not None and herding.units is not None:
        names = [names[unit] for unit in herding.units]
    hidden = {} if kept[0][1] is None else {"z": np.array([z for _, z in kept])}
    _write_inference_data(path, np.array([x for x, _ in kept]), names, hidden)


def _chain_rows(chain: Array) -> Array:
    """Return the indices (chains, draws) of the rows of each chain, in order."""
    names, of = np.unique(chain, return_inverse=True)
    counts = np.bincount(of)
    if (counts != counts[0]).any():
        raise BadUsage(
            f"the chains have {counts.min()} to {counts.max()} rows, but InferenceData needs the same number of draws in each chain"
        )
    return np.argsort(of, kind="stable").reshape(len(names), counts[0])


def _write_inference_data(
    path: str | os.PathLike[str], x: Array, names: list[str] | None, further_arrays: dict[str, Array], stats: dict[str, Array] | None = None
) -> None:
    """Write x (chains, draws, d) and further arrays (chains, draws, …)."""
    held = io.BytesIO()
    with h5py.File(held, "w", libver=("v110", "v110"), track_order=True) as file:
        posterior = _create_dimensions(file, "posterior", x.shape[:2])
        columns = np.array(names if names is not None else [f"x{column}" for column in range(x.shape[2])], dtype=object)
        _write_variable(posterior, "x", x, _write_coordinate(posterior, "x_dim", columns, 2))
        for name, values in further_arrays.items():
            extent = [_write_coordinate(posterior, f"{name}_dim", np.arange(values.shape[2]), 3)] if values.ndim > 2 else []
            _write_variable(posterior, name, values, *extent)
        for name, values in (stats or {}).items():
            group = file["sample_stats"] if "sample_stats" in file else _create_dimensions(file, "sample_stats", x.shape[:2])
            _write_variable(group, name, values)
    with open(path, "wb") as out:
        out.write(held.getbuffer())


def _create_dimensions(file: h5py.File, name: str, shape: tuple[int, ...]) -> h5py.Dataset:
    group = file.create_group(name, track_order=True)
    group.attrs["inference_library"] = "herd"
    for number, (axis, count) in enumerate(zip(("chain", "draw"), shape, strict=True)):
        _write_coordinate(group, axis, np.arange(count), number)
    return group


def _write_coordinate(group: h5py.Group, name: str, values: Array, number: int) -> h5py.Dataset:
    """Write and return a coordinate."""
    text = values.dtype.kind == "O"
    made = group.create_dataset(name, data=values, dtype=h5py.string_dtype() if text else None, track_times=False)
    made.make_scale(name)
    made.attrs["_Netcdf4Dimid"] = np.int32(number)
    return made


def _write_variable(group: h5py.Group, name: str, values: Array, *further: h5py.Dataset) -> None:
    made = group.create_dataset(name, data=values, track_times=False)
    for axis, scale in enumerate((group["chain"], group["draw"], *further)):
        made.dims[axis].attach_scale(scale)
