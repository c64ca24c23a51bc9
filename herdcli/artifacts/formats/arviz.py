"""ArviZ's netCDF (.nc): the draws of a sampler, chain × draw × shape of each variable, as rows of all chains in sequence.

Columns are named as ArviZ prints them, `theta[0]`, `b[1, 2]`; the elements of a variable x that herd
wrote have the names of its columns.  --label chain (or draw) makes the chain of each row its label; --layer
names another group than the posterior, such as unconstrained_posterior.
Source: the InferenceData schema of ArviZ; netCDF-4 marks coordinates as HDF5 dimension scales.
"""

from __future__ import annotations

import numpy as np

from herdcli.artifacts import hdf5_guard
from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.h5py_import import h5py
from herdcli.artifacts.load_options import LoadOptions
from herdcli.artifacts.sealed import codec
from herdcli.artifacts.tables.dataset_assembly import assemble_dataset
from herdcli.errors import BadUsage, DataError
from herdcli.schema import Array

AXES = ("chain", "draw")
DIVERGING = "/sample_stats/diverging"  # whether the sampler left the trajectory of a draw; not a coordinate


def is_inference_data(file: h5py.File) -> bool:
    """Return whether an HDF5 file has a group of draws."""
    return any(_has_draws(file[name]) for name in file if isinstance(file.get(name), h5py.Group))


def _has_draws(group: h5py.Group) -> bool:
    return all(isinstance(group.get(axis), h5py.Dataset) for axis in AXES)


def read(file: h5py.File, name: str, options: LoadOptions) -> Dataset:
    """Read the data set of a guarded file."""
    datasets = hdf5_guard.walk_datasets(file, where=name, include_soft_links=True)
    groups = sorted(group for group in file if isinstance(file.get(group), h5py.Group) and _has_draws(file[group]))
    chosen = options.layer or ("posterior" if "posterior" in groups else groups[0])
    if chosen not in groups:
        raise BadUsage(f"has no group '{chosen}' with draws", where=name, hint=f"--layer takes {', '.join(groups[:12])}")
    if len(groups) > 1 and options.layer is None:
        options.note(f"{name}: read {chosen}; --layer takes {', '.join(groups[:12])}")
    axes = {axis: datasets[f"/{chosen}/{axis}"] for axis in AXES}
    shape = tuple(int(item.size) for item in axes.values())
    found = {path.split("/")[2]: item for path, item in datasets.items() if path.startswith(f"/{chosen}/") and path.count("/") == 2}
    variables = {title: item for title, item in found.items() if item.shape[:2] == shape and item.dtype.kind in "fiu"}
    if not variables or 0 in shape:
        raise DataError(
            f"group '{chosen}' has no variable that holds draws", where=name, hint="give each variable the dimensions chain and draw first"
        )
    hdf5_guard.check_readable({f"/{chosen}/{title}": item for title, item in (variables | axes).items()}, limit=options.limit, where=name)
    ignored = sorted(title for title in found if title not in variables and title not in AXES and not _is_dimension_scale(found[title]))
    if ignored:
        options.note(f"{name}: these parts of the file are not used: {', '.join(ignored[:12])}{' …' if len(ignored) > 12 else ''}")
    diverging = datasets.get(DIVERGING) if chosen == "posterior" else None
    if diverging is not None and diverging.shape == shape:
        hdf5_guard.check_readable({DIVERGING: diverging}, limit=options.limit, where=name)
    else:
        diverging = None
    titles = {title: _element_names(title, item.shape[2:]) for title, item in variables.items()}
    if hdf5_guard.text_attribute(file[chosen], "inference_library") == "herd" and "x" in variables:
        titles["x"] = _herd_column_names(datasets.get(f"/{chosen}/x_dim"), options.limit, name) or titles["x"]
    return _assemble_dataset(variables, titles, axes, diverging, name, options)


def _element_names(title: str, shape: tuple[int, ...]) -> list[str]:
    """Return the names of the elements of a variable, in C order."""
    return [f"{title}[{', '.join(map(str, place))}]" for place in np.ndindex(shape)] if shape else [title]


def _herd_column_names(scale: h5py.Dataset | None, limit: int, where: str) -> list[str]:
    """Return the names of columns that herd wrote as one variable x; an empty list if there are none."""
    if scale is None or scale.dtype.kind != "O":
        return []
    hdf5_guard.check_readable({scale.name: scale}, limit=limit, where=where)
    return [str(each) for each in codec.read_array(scale).tolist()]


def _is_dimension_scale(item: h5py.Dataset) -> bool:
    return item.attrs.get("CLASS") in (b"DIMENSION_SCALE", "DIMENSION_SCALE")


def _assemble_dataset(
    variables: dict[str, h5py.Dataset],
    titles: dict[str, list[str]],
    axes: dict[str, h5py.Dataset],
    diverging: h5py.Dataset | None,
    where: str,
    options: LoadOptions,
) -> Dataset:
    names: list[str] = []
    columns = []
    for title, item in sorted(variables.items()):
        values = codec.read_array(item)
        columns.append(values.reshape(values.shape[0] * values.shape[1], -1).astype(np.float64))
        names += titles[title]
    parts: dict[str, Array] = {"feature_names": np.array(names, dtype=str)}
    if options.label is not None:
        if options.label not in AXES:
            raise BadUsage(f"--label {options.label} does not exist in MCMC draws", where=where, hint="use --label chain or --label draw")
        numbers = [codec.read_array(axes[axis]) for axis in AXES]
        both = np.repeat(numbers[0], len(numbers[1])), np.tile(numbers[1], len(numbers[0]))
        parts["y"] = both[AXES.index(options.label)]
    further = {} if diverging is None else {"diverging": codec.read_array(diverging).reshape(-1).astype(np.uint8)}
    return assemble_dataset(np.concatenate(columns, axis=1), parts, {}, where=where, note=options.note, columns=further)
