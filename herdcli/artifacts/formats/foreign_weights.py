"""Weights of harmoniums from other programs: named arrays in NPZ, HDF5 or safetensors.

weights                       biases of the visible, of the hidden units     layout of the weights
W, weights, weight_matrix     b, vbias, … and c, hbias, …                    visible × hidden, or as the biases determine
components_                   intercept_visible_, intercept_hidden_          hidden × visible (scikit-learn)

In safetensors only the last part of a dotted name counts, as in rbm.W; layers.0.W, layers.1.W … belong to a deep belief network.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import field, replace
from typing import Any

import numpy as np

from herdcli.artifacts import hdf5_guard, memory_budget
from herdcli.artifacts.byte_sources import ByteSource, open_source
from herdcli.artifacts.formats import format_detection, npz
from herdcli.artifacts.library_errors import error_reason
from herdcli.artifacts.sealed import codec, seal_header
from herdcli.errors import BadUsage, DataError
from herdcli.records import dataclass
from herdcli.schema import Array

WEIGHTS = ("W", "weights", "weight_matrix", "components_", "components", "w")
VISIBLE = ("b", "vbias", "visible_bias", "visible_biases", "v_bias", "bv", "intercept_visible_", "intercept_visible")
HIDDEN = ("c", "hbias", "hidden_bias", "hidden_biases", "h_bias", "bh", "intercept_hidden_", "intercept_hidden")
BY_HIDDEN = ("components_", "components")  # arrays whose rows are hidden units
LAYER = re.compile(r"layers\.(\d{1,3})\.(\w+)")
HINT = (
    "give the arrays one of these sets of names: W, b, c; weight_matrix, vbias, hbias; components_, intercept_visible_, intercept_hidden_"
)


@dataclass(frozen=True)
class ForeignWeights:
    """W (D, K), b (D,), c (K,) as floats, the digest and size of the file, and its metadata."""

    W: Array
    b: Array
    c: Array
    sha256: str
    name: str
    size: int
    about: dict[str, str] = field(default_factory=dict)


def read_weights(path: str, *, limit: int, note: Callable[[str], None]) -> ForeignWeights:
    """Read weights and biases from an NPZ, HDF5 or safetensors file; "-" is stdin.  Raises DataError if one is missing or does not fit."""
    with open_source(path, limit=limit) as source:
        arrays, about = _read_arrays(source, limit)
        if any(LAYER.fullmatch(name) for name in arrays):
            raise DataError("has several layers, so it is a deep belief network", where=source.name, hint="use --to dbn")
        return replace(_assemble_weights({name.rpartition(".")[2]: item for name, item in arrays.items()}, source, note), about=about)


def read_layers(path: str, *, limit: int, note: Callable[[str], None]) -> list[ForeignWeights]:
    """Read the layers of a deep belief network, the lowest first, from arrays layers.0.W, layers.0.b …"""
    with open_source(path, limit=limit) as source:
        arrays, about = _read_arrays(source, limit)
        layers: dict[int, dict[str, Array]] = {}
        for name, item in arrays.items():
            if found := LAYER.fullmatch(name):
                layers.setdefault(int(found[1]), {})[found[2]] = item
        if sorted(layers) != list(range(len(layers))) or not layers:
            held = ", ".join(sorted(arrays)[:12]) or "nothing"
            raise DataError(
                f"has no layers 0, 1, … (it has {held})",
                where=source.name,
                hint="name the arrays layers.0.W, layers.0.b, layers.0.c, layers.1.W, …",
            )
        return [replace(_assemble_weights(layers[index], source, note), about=about) for index in range(len(layers))]


def _read_arrays(source: ByteSource, limit: int) -> tuple[dict[str, Array], dict[str, str]]:
    """Return the arrays by name, and the file's metadata."""
    if format_detection.is_safetensors(source.head):
        return _read_safetensors(source, limit)
    form = format_detection.detect_format(source.head, source.name)
    if form not in ("npz", "hdf5"):
        raise DataError(f"has the format {form}, but weights can be read only from NPZ, HDF5 and safetensors", where=source.name)
    with source.file_path() as opened:
        return (npz.load_arrays(opened, where=source.name, limit=limit) if form == "npz" else _read_hdf5(opened, source, limit)), {}


def _read_safetensors(source: ByteSource, limit: int) -> tuple[dict[str, Array], dict[str, str]]:
    try:
        from safetensors import safe_open
    except ImportError:
        raise BadUsage(
            "safetensors files need the package safetensors", where=source.name, hint="pip install 'herdcli[safetensors]'"
        ) from None
    with source.file_path() as path:
        memory_budget.require_memory(os.path.getsize(path), limit, where=source.name)
        try:
            with safe_open(path, framework="np") as file:
                return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118 (it is no mapping)
        except MemoryError:
            raise
        except Exception as error:  # only the library runs here: it has its own exceptions, and types of numbers that NumPy lacks
            hint = "download it again: it may be cut short"
            raise DataError(f"safetensors cannot be read ({error_reason(error)})", where=source.name, hint=hint) from error


def _read_hdf5(path: str, source: ByteSource, limit: int) -> dict[str, Array]:
    stated = seal_header.parse_seal(source.head, where=source.name)
    if stated is not None:
        raise DataError(
            f"is already an artifact of herd, of kind {stated.kind}", where=source.name, hint="use the file as it is, or leave out --to"
        )
    format_detection.refuse_damaged_seal(source.head, source.name)
    with hdf5_guard.open_guarded(path, where=source.name) as file:
        source.unlink_temporary_copy()
        datasets = hdf5_guard.walk_datasets(file, where=source.name)
        wanted = {full: item for full, item in datasets.items() if _array_role(full.rpartition("/")[2])}
        hdf5_guard.check_readable(wanted, limit=limit, where=source.name)
        found = {full.rpartition("/")[2]: codec.read_array(item) for full, item in wanted.items()}
        if len(found) < len(wanted):
            raise DataError(
                "has weights of several models, in different HDF5 groups", where=source.name, hint="write each model into its own file"
            )
        return found or dict.fromkeys(sorted(datasets), np.empty(0))


def _array_role(name: str) -> str | None:
    roles = {"weights": WEIGHTS, "visible biases": VISIBLE, "hidden biases": HIDDEN}
    return next((role for role, names in roles.items() if name in names), None)


def _assemble_weights(arrays: dict[str, Array], source: ByteSource, note: Callable[[str], None]) -> ForeignWeights:
    named: dict[str, tuple[str, Array]] = {}
    for name, values in arrays.items():
        role = _array_role(name)
        if role and role in named:
            raise DataError(
                f"has two arrays that could be the {role}, {named[role][0]} and {name}", where=source.name, hint="keep one of them"
            )
        if role:
            named[role] = (name, values)
    for role in ("weights", "visible biases", "hidden biases"):
        if role not in named:
            held = ", ".join(sorted(arrays)) or "nothing"
            raise DataError(f"has no array for the {role} (it has {held})", where=source.name, hint=HINT)
    for name, values in named.values():
        if values.dtype.kind not in "fiu":
            raise DataError(f"array {name} has the type {values.dtype}, but must have numbers", where=source.name)
    name, W = named["weights"]
    b, c = (_as_floats(named[role][1]).ravel() for role in ("visible biases", "hidden biases"))
    W = _as_floats(W)
    if W.shape not in ((len(b), len(c)), (len(c), len(b))):
        shape = " × ".join(map(str, W.shape))
        raise DataError(f"array {name} has the shape {shape}, but there are {len(b)} visible and {len(c)} hidden biases", where=source.name)
    if len(b) == len(c):
        rows = "hidden" if name in BY_HIDDEN else "visible"
        note(f"{source.name}: the array {name} is square, so its orientation is a guess: its rows are read as the {rows} units")
        W = W.T if rows == "hidden" else W
    elif W.shape != (len(b), len(c)):
        W = W.T
    return ForeignWeights(np.ascontiguousarray(W), b, c, source.sha256, source.name, source.size)


def _as_floats(values: Any) -> Array:
    floats: Array = values if values.dtype.kind == "f" and values.dtype.itemsize in (4, 8) else values.astype(np.float64)
    return floats
