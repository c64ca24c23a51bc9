"""ArviZ's InferenceData as netCDF-4: a variable for each parameter in the group `posterior`, weights in `sample_stats`.

Columns b[0, 0], b[0, 1], … are one variable b with two dimensions.  Columns without names are one variable x.

netCDF-4 is HDF5 whose coordinates are dimension scales, so that h5py writes it.
Source: the InferenceData schema of ArviZ; the netCDF-4 file format's appendix on dimension scales.
"""

from __future__ import annotations

import io
import itertools
import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.h5py_import import h5py
from herdcli.artifacts.tables.column_roles import LABELS
from herdcli.errors import BadUsage
from herdcli.schema import Array

MOST_VARIABLES = 1000  # with more named columns, they are one variable x
_ELEMENT = re.compile(r"(.+)\[((?:0|[1-9]\d{0,8})(?:, ?(?:0|[1-9]\d{0,8}))*)\]")


def array_variables(names: Sequence[str]) -> dict[str, tuple[tuple[int, ...], list[int]]]:
    """Return name of a variable -> its shape beyond chain and draw, and the columns of its elements in C order.

    Columns whose names are not all elements of an array, each once, are variables of their own.
    """
    elements: dict[str, dict[tuple[int, ...], int]] = {}
    for column, name in enumerate(names):
        if found := _ELEMENT.fullmatch(name):
            elements.setdefault(found[1], {})[tuple(int(number) for number in found[2].split(","))] = column
    whole = {}
    for name, places in elements.items():
        if len({len(place) for place in places}) == 1 and name not in names:
            shape = tuple(max(axis) + 1 for axis in zip(*places, strict=True))
            if len(places) == np.prod(shape, dtype=float):  # no index occurs twice, because names of columns differ
                whole[name] = shape, [places[place] for place in np.ndindex(shape)]
    made: dict[str, tuple[tuple[int, ...], list[int]]] = {}
    for column, name in enumerate(names):
        found = _ELEMENT.fullmatch(name)
        if found and found[1] in whole:
            made[found[1]] = whole[found[1]]
        else:
            made[name] = (), [column]
    return made


def write_dataset(path: str | os.PathLike[str], data: Dataset) -> None:
    """Write rows as draws: each value of a column `chain` is a chain, else there is one chain.

    Labels are a variable y, or label if a column has this name.
    """
    X = data.X.toarray() if hasattr(data.X, "toarray") else np.asarray(data.X)
    chain = (data.columns or {}).get("chain")
    order = np.arange(len(X))[None] if chain is None else _chain_rows(np.asarray(chain))
    title = next(name for name in (*LABELS, "class_label") if name not in (data.feature_names or ()))
    more = {} if data.y is None else {title: np.asarray(data.y)[order]}
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
        numbers = itertools.count(2)
        for name, (values, coordinates) in _posterior_variables(x, names, further_arrays).items():
            extent = [
                _write_coordinate(posterior, f"{name}_dim_{axis}" if len(coordinates) > 1 else f"{name}_dim", each, next(numbers))
                for axis, each in enumerate(coordinates)
            ]
            _write_variable(posterior, name, values, *extent)
        for name, values in (stats or {}).items():
            group = file["sample_stats"] if "sample_stats" in file else _create_dimensions(file, "sample_stats", x.shape[:2])
            _write_variable(group, name, values)
    with open(path, "wb") as out:
        out.write(held.getbuffer())


def _posterior_variables(x: Array, names: list[str] | None, further_arrays: dict[str, Array]) -> dict[str, tuple[Array, list[Array]]]:
    """Return name -> values and the coordinates of the dimensions after chain and draw.

    names  of the columns of x; without names, and with names that cannot be variables, x is one variable.
    """
    further: dict[str, tuple[Array, list[Array]]] = {
        name: (values, [np.arange(size) for size in values.shape[2:]]) for name, values in further_arrays.items()
    }
    found = {} if names is None else array_variables(names)
    if (
        not found
        or len(found) > MOST_VARIABLES
        or not all(map(_is_variable_name, found))
        or found.keys() & (further.keys() | {"chain", "draw"})
    ):
        columns = np.array(names if names is not None else [f"x{column}" for column in range(x.shape[2])], dtype=object)
        return {"x": (x, [columns])} | further
    parameters = {
        name: (x[:, :, columns].reshape(*x.shape[:2], *shape), [np.arange(size) for size in shape])
        for name, (shape, columns) in found.items()
    }
    return parameters | further


def _is_variable_name(name: str) -> bool:
    """Return whether netCDF-4 accepts a name, and it cannot be mistaken for a dimension that herd makes."""
    return bool(name) and name == name.strip() and name.isprintable() and "/" not in name and name != "." and "_dim" not in name


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
