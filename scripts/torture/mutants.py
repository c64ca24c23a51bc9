"""(a) Artifacts and checkpoints with one or two things changed and a new seal: every command that reads them refuses, or works.

What can be changed is found twice: in the file, dataset by dataset and attribute by attribute, and in the dataclass of its kind,
whose optional fields a file may lack.  Mutant number i of a file is a function of (seed, file, i).
"""

from __future__ import annotations

import shlex
import shutil
import zlib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from herdcli import kinds
from herdcli.artifacts import header
from herdcli.schema import spec_of

from . import corpus
from .lanes import Outcome, herd, judged

INTEGERS = (0, 1, -1, 2, 7, 1000, 2**31, -(2**31), 2**31 - 1, 2**63 - 1, -(2**63))
REALS = (np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, -5.0, 7.0, 1e300, -1e300, 1e-320, 2.0**31)
TEXTS = ("", "x", "nan", "é" * 300, "\x1b[31mred", "a\nb", "[" * 5000, "{}", '[{"a":1e999}]')


def places(file: Any) -> list[str]:
    """Datasets, groups and attributes of a file, attributes as GROUP@NAME, and optional arrays of its kind that it lacks."""
    found: list[str] = [f"@{name}" for name in file.attrs]
    file.visititems(lambda name, item: found.append(name) or found.extend(f"{name}@{key}" for key in item.attrs) or None)
    kind = str(file.attrs["kind"])
    if kind in kinds.KINDS:
        cls = kinds.KINDS[kind].type_of(int(file.attrs["kind-version"]))
        found += [field.name for field in fields(cls) if spec_of(field) and field.name not in file]
    return sorted(found)


def array(values: Any, random: np.random.Generator) -> tuple[str, Any]:
    """An array in the place of another: its name and itself."""
    kind, axis = values.dtype.kind, int(random.integers(max(1, values.ndim)))
    choice = str(random.choice(SHAPES if random.random() < 0.45 or kind not in "fiub" or not values.size else VALUES))
    if choice in ("one", "all", "row"):
        pool = REALS if kind == "f" else INTEGERS if kind in "iu" else (0, 1)
        value = pool[random.integers(len(pool))]
        made = values.copy()
        at: Any = tuple(int(random.integers(length)) for length in made.shape)
        with np.errstate(all="ignore"):
            made[at if choice == "one" else at[:1] if choice == "row" else ...] = _held(value, made.dtype)
        return f"{choice}={value}", made
    if choice == "noise":
        made = values.copy().ravel()
        random.shuffle(made)
        return choice, made.reshape(values.shape)
    return choice, _shaped(choice, values, axis, random)


SHAPES = (
    "longer",
    "shorter",
    "empty",
    "transposed",
    "flat",
    "deeper",
    "scalar",
    "float",
    "int",
    "int8",
    "uint",
    "bool",
    "text",
    "single",
    "half",
)
VALUES = ("one", "one", "one", "all", "all", "row", "noise")


def _held(value: Any, dtype: Any) -> Any:
    """A value as the dtype can hold it."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return min(max(int(value), limits.min), limits.max)
    return value


def _shaped(choice: str, values: Any, axis: int, random: np.random.Generator) -> Any:
    if choice == "longer" and values.ndim:
        return np.concatenate([values, values.take(range(min(1, values.shape[axis])), axis)], axis)
    if choice == "shorter" and values.ndim and values.shape[axis]:
        return values.take(range(values.shape[axis] - 1), axis)
    if choice == "half" and values.ndim:
        return values.take(range(values.shape[axis] // 2), axis)
    if choice == "empty" and values.ndim:
        return values.take(range(0), axis)
    if choice == "transposed":
        return values.T.copy()
    if choice == "flat":
        return values.ravel()
    if choice == "deeper":
        return values[None]
    if choice == "scalar" and values.size:
        return values.ravel()[0]
    if choice == "text" or values.dtype.kind not in "fiub":
        return np.array(["x"] * max(1, len(np.atleast_1d(values))), dtype=h5py.string_dtype())
    dtype = {"float": "f8", "int": "i8", "int8": "i1", "uint": "u4", "bool": "?", "single": "f4"}.get(choice, "f8")
    with np.errstate(all="ignore"):
        return values.astype(dtype)


def attribute(value: Any, random: np.random.Generator) -> tuple[str, Any]:
    """A scalar, text or array in the place of an attribute."""
    pools: tuple[tuple[Any, ...], ...] = (
        INTEGERS,
        REALS,
        TEXTS,
        (True, False, np.zeros(3), np.array(["a", "b"], dtype=h5py.string_dtype())),
    )
    same = TEXTS if isinstance(value, (str, bytes)) else INTEGERS if isinstance(value, (np.integer, int)) else REALS
    pool = same if random.random() < 0.6 else pools[random.integers(len(pools))]
    made = pool[random.integers(len(pool))]
    return f"={str(made)[:20]!r}", made


def change(file: Any, place: str, random: np.random.Generator) -> str:
    """Change one place of an open file; what was done."""
    group, at, name = place.partition("@")
    if at:
        parent = file[group or "/"]
        if random.random() < 0.1:
            del parent.attrs[name]
            return f"{place} missing"
        what, made = attribute(parent.attrs[name], random)
        del parent.attrs[name]
        parent.attrs[name] = made
        return f"{place} {what}"
    if place not in file:
        made = np.zeros([int(n) for n in random.integers(0, 4, int(random.integers(1, 4)))], dtype=random.choice(["f8", "i8", "u1"]))
        file[place] = made
        return f"{place} there, {made.dtype} {made.shape}"
    item, draw = file[place], random.random()
    if draw < 0.06:
        del file[place]
        return f"{place} missing"
    if isinstance(item, h5py.Group):
        if draw < 0.5:
            item["extra"] = np.zeros(2)
            return f"{place}/extra"
        del file[place]
        file[place] = np.zeros(3)
        return f"{place} is an array"
    if draw < 0.1:
        del file[place]
        file.create_group(place)
        return f"{place} is a group"
    what, made = array(item[()] if item.dtype.kind != "O" else item.asstr()[()], random)
    del file[place]
    if getattr(made, "dtype", None) is not None and made.dtype.kind in "UO":
        made = np.array(made, dtype=h5py.string_dtype())
    file[place] = made
    return f"{place} {what}"


def mutate(source: Path, target: Path, random: np.random.Generator) -> str:
    """A changed copy with a seal of its own; what was changed."""
    shutil.copyfile(source, target)
    done = []
    with h5py.File(target, "r+") as file:
        kind = str(file.attrs["kind"])
        for _ in range(1 if random.random() < 0.8 else 2):
            choices = [place for place in places(file) if place not in ("@format", "@kind")]
            try:
                done.append(change(file, choices[int(random.integers(len(choices)))], random))
            except (ValueError, TypeError, OSError, RuntimeError, KeyError, OverflowError) as error:
                done.append(f"(not {type(error).__name__})")
    header.seal_file(target, kind)
    return "; ".join(done)


class Mutants:
    """Trial i changes file i mod F and runs every command that reads it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.files = sorted(path for path in folder.iterdir() if path.suffix in (".h5", ".ck"))

    def __call__(self, number: int, own: Path) -> Iterator[Outcome]:
        source = self.files[number % len(self.files)]
        for path in self.folder.iterdir():
            if path.suffix not in (".ck", ".png"):
                (own / path.name).symlink_to(path)
        random = np.random.default_rng([self.seed, zlib.crc32(source.name.encode()), number])
        evil = f"evil{source.suffix}"
        done = mutate(source, own / evil, random)
        lines: tuple[str, ...]
        if source.suffix == ".ck":
            lines = (f"{corpus.LONG[source.stem]} --checkpoint EVIL --every 1 --resume -o out.h5",)
        else:
            lines = (*corpus.EVERYWHERE, *corpus.READ.get(source.name, ()))
        for line in lines:
            code, text = herd(shlex.split(line.replace("EVIL", evil)))
            what = f"{source.name}: {done}: {line}"
            yield Outcome(number, what, judged(code, text), text[:1500])
