"""(a) Artifacts and checkpoints with one or two things changed and a new seal: every command that reads them refuses, or works.

What can be changed is found twice: in the file, dataset by dataset and attribute by attribute, and in the dataclass of its kind,
whose optional fields a file may lack.  Mutant number i is a function of (seed, file, i).
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
from herdcli.artifacts.sealed import seal_header
from herdcli.schema import array_spec_of_field

from . import corpus
from .forked_trials import Outcome, herd, judged, linked

INTEGERS = (0, 1, -1, 2, 7, 1000, 2**31, -(2**31), 2**31 - 1, 2**63 - 1, -(2**63))
REALS = (np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, -5.0, 7.0, 1e300, -1e300, 1e-320, 2.0**31)
TEXTS = ("", "x", "nan", "é" * 300, "\x1b[31mred", "a\nb", "[" * 5000, "{}", '[{"a":1e999}]')


def places(file: Any) -> list[str]:
    """Datasets, groups and attributes of a file, attributes as GROUP@NAME, and optional arrays of its kind that it lacks."""
    found: list[str] = [f"@{name}" for name in file.attrs]
    file.visititems(lambda name, item: found.append(name) or found.extend(f"{name}@{key}" for key in item.attrs) or None)
    kind = str(file.attrs["kind"])
    if kind in kinds.KINDS:
        cls = kinds.KINDS[kind].dataclass_of_version(int(file.attrs["kind-version"]))
        found += [field.name for field in fields(cls) if array_spec_of_field(field) and field.name not in file]
    return sorted(found)


SHAPES = (
    "longer",
    "shorter",
    "empty",
    "half",
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
)
SPREAD = 1_000_003  # a prime
PLACED = ("one", "all", "row")  # where a value is put
TURNS = len(SHAPES) + 3 + len(PLACED) * len(REALS)  # single changes of one place, the most there are


def array(values: Any, turn: int, random: np.random.Generator) -> tuple[str, Any]:
    """An array in the place of another: its name and itself."""
    kind, axis = values.dtype.kind, int(random.integers(max(1, values.ndim)))
    pool: tuple[Any, ...] = REALS if kind == "f" else INTEGERS if kind in "iu" else (0, 1)
    placed = [(where, value) for value in pool for where in PLACED] if kind in "fiub" and values.size else []
    choice = turn % (len(SHAPES) + 1 + len(placed))
    if choice < len(SHAPES):
        return SHAPES[choice], _shaped(SHAPES[choice], values, axis)
    made = values.copy()
    if choice == len(SHAPES) or not placed:
        flat = made.ravel()
        random.shuffle(flat)
        return "mixed", flat.reshape(values.shape)
    where, value = placed[choice - len(SHAPES) - 1]
    at: Any = tuple(int(random.integers(length)) for length in made.shape)
    with np.errstate(all="ignore"):
        made[at if where == "one" else at[:1] if where == "row" else ...] = _held(value, made.dtype)
    return f"{where}={value}", made


def _held(value: Any, dtype: Any) -> Any:
    """A value as the dtype can hold it."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return min(max(int(value), limits.min), limits.max)
    return value


def _shaped(choice: str, values: Any, axis: int) -> Any:
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


def attribute(value: Any, turn: int) -> tuple[str, Any]:
    """A scalar, text or array in the place of an attribute: of its own type first."""
    odd = (True, False, np.zeros(3), np.array(["a", "b"], dtype=h5py.string_dtype()))
    same = TEXTS if isinstance(value, (str, bytes)) else INTEGERS if isinstance(value, (np.integer, int)) else REALS
    pool = [*same, *(made for other in (INTEGERS, REALS, TEXTS) if other is not same for made in other), *odd]
    made = pool[turn % len(pool)]
    return f"={str(made)[:20]!r}", made


def change(file: Any, place: str, turn: int, random: np.random.Generator) -> str:
    """Change one place of an open file in one of its ways; what was done."""
    group, at, name = place.partition("@")
    if at:
        parent = file[group or "/"]
        what, made = attribute(parent.attrs[name], turn - 1)
        del parent.attrs[name]
        if not turn % TURNS:
            return f"{place} missing"
        parent.attrs[name] = made
        return f"{place} {what}"
    if place not in file:
        made = np.zeros([int(n) for n in random.integers(0, 4, int(random.integers(1, 4)))], dtype=random.choice(["f8", "i8", "u1"]))
        file[place] = made
        return f"{place} there, {made.dtype} {made.shape}"
    item, turn = file[place], turn % TURNS
    if isinstance(item, h5py.Group) and turn % 3 == 2:
        item["extra"] = np.zeros(2)
        return f"{place}/extra"
    held = None if isinstance(item, h5py.Group) else item[()] if item.dtype.kind != "O" else item.asstr()[()]
    del file[place]
    if not turn or (held is None and not turn % 3):
        return f"{place} missing"
    if turn == 1 and held is not None:
        file.create_group(place)
        return f"{place} is a group"
    if held is None:
        file[place] = np.zeros(3)
        return f"{place} is an array"
    what, made = array(np.asarray(held), turn - 2, random)
    if getattr(made, "dtype", None) is not None and made.dtype.kind in "UO":
        made = np.array(made, dtype=h5py.string_dtype())
    file[place] = made
    return f"{place} {what}"


def mutate(source: Path, target: Path, chosen: list[tuple[str, int]], random: np.random.Generator) -> str:
    """A copy with some places changed, each in the way of its number, and a seal of its own; what was changed."""
    shutil.copyfile(source, target)
    done = []
    with h5py.File(target, "r+") as file:
        kind = str(file.attrs["kind"])
        for place, turn in chosen:
            try:
                done.append(change(file, place, turn, random))
            except (ValueError, TypeError, OSError, RuntimeError, KeyError, OverflowError) as error:
                done.append(f"(not {type(error).__name__})")
    seal_header.write_seal(target, kind)
    return "; ".join(done)


class Mutants:
    """Trial i changes file i mod F: each of its places in every way first, then two of them at once.

    `check` and the commands read a file through one door.  What it lets in is given to two of the others in turn, a quarter of what it
    refuses to one.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.files: list[Path] = []
        self.places: dict[str, list[str]] = {}
        for path in sorted(path for path in folder.iterdir() if path.suffix in (".h5", ".ck")):
            with h5py.File(path) as file:
                known = [place for place in places(file) if place not in ("@format", "@kind")]
            if path.suffix == ".h5" or known not in self.places.values():  # a state that other algorithms have too counts once
                self.files.append(path)
                self.places[path.name] = known

    def __call__(self, number: int, own: Path) -> Iterator[Outcome]:
        linked(self.folder, own)
        source, turn = self.files[number % len(self.files)], number // len(self.files)
        known = self.places[source.name]
        random = np.random.default_rng([self.seed, zlib.crc32(source.name.encode()), number])
        ways = len(known) * TURNS
        first = turn * SPREAD % ways  # each way once in the first `storage_plans` turns, and a short run has some of all
        chosen = [(known[first % len(known)], first // len(known))]
        if turn >= ways:
            chosen = [(known[place], int(random.integers(10 * TURNS))) for place in random.integers(len(known), size=2)]
        evil = f"evil{source.suffix}"
        done = mutate(source, own / evil, chosen, random)
        for line, code, text in _tried(source, evil, turn):
            yield Outcome(number, f"{source.name}: {done}: {line}", judged(code, text), text[:1500])


def _tried(source: Path, evil: str, turn: int) -> Iterator[tuple[str, int, str]]:
    """Command lines that read the changed file, with exit code and stderr."""
    if source.suffix == ".ck":
        line = f"{corpus.LONG[source.stem]} --checkpoint EVIL --every 100000 --resume -o out.h5"
        yield line, *herd(shlex.split(line.replace("EVIL", evil)))
        return
    first, *others = (*corpus.EVERYWHERE, *corpus.READ.get(source.name, ()))
    code, text = herd(shlex.split(first.replace("EVIL", evil)))
    yield first, code, text
    for k in range(2) if code == 0 else range(turn % 4 == 0):
        line = others[(turn // 4 + k * (len(others) // 2)) % len(others)]
        yield line, *herd(shlex.split(line.replace("EVIL", evil)))
