"""Text whose labels are class names: `sport | ball goal` of Vowpal Wabbit, `sport 3:1 7:2` of svmlight.

`multilabel_text.LabelSetReader` finds the label of each line; here each line has one label, its class.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from herdcli.errors import DataError
from herdcli.online.class_labels import MOST, format_labels
from herdcli.online.text.multilabel_text import HEADS
from herdcli.schema import Array

_COST = re.compile(r"\d+:[-+.\deE]+(?::[-+.\deE]+)?")  # action:cost:probability, or class:cost
_NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def has_named_labels(head: bytes, *, vw: bool) -> bool:
    """Return whether the first line of text has a name instead of a number as its label."""
    line = next((line for line in head.split(b"\n") if line.strip() and not line.lstrip().startswith(b"#")), b"")
    found = HEADS[vw].match(line)
    return bool(found and found[1] and not _NUMBER.fullmatch(found[1]))


class ClassNameEncoder:
    """An encoder from class names to indices, in the order of the names unless they are declared.

    names  declared, or those of a model; else the first block decides, and later blocks may contain no others.
    ignored  labels are not needed: a missing or unknown one is class 0.
    """

    def __init__(self, names: Sequence[str] | None = None, *, most: int = MOST, ignored: bool = False) -> None:
        self.given, self.most, self.ignored = names is not None, most, ignored
        self.names: list[str] = list(names or ())
        self._met: dict[str, int] = {}  # numbers by which names are passed on, in order of occurrence
        self._settled = self.given

    def name_indices(self, texts: Iterable[str], where: str) -> list[int]:
        """Return the number of a line's name."""
        name = ",".join(texts)
        return [self._met.setdefault(name, len(self._met))]

    def labels_from_indices(self, sets: Sequence[Sequence[int]]) -> Array:
        """Return the numbers (n,) of the lines' names, −1 where there is none."""
        return np.array([places[0] if places else -1 for places in sets], dtype=np.float64)

    def encode_labels(self, labels: Array, where: str) -> Array:
        """Return the classes (n,) int32 of these numbers.  Raises DataError for a line without a label, or an unknown class name."""
        if not self._settled:
            self._fix_class_names(where)
        place = {name: k for k, name in enumerate(self.names)}
        known = np.array([place.get(name, -1) for name in self._met] or [-1])
        numbers = labels.astype(np.int64)
        found = np.where(numbers >= 0, known[np.maximum(numbers, 0)], -1)
        if self.ignored:
            return np.maximum(found, 0).astype(np.int32)
        if (numbers < 0).any():
            raise DataError("a line has no label", where=where, hint="each line begins with the name of its class")
        if (found < 0).any():
            name = list(self._met)[int(numbers[found < 0][0])]
            why = "is not one of the classes" if self.given else "did not occur among the first examples"
            raise DataError(f"label {name} {why} ({format_labels(self.names)})", where=where, hint="declare all classes: --classes A,B,…")
        return found.astype(np.int32)

    def _fix_class_names(self, where: str) -> None:
        self.names, self._settled = sorted(self._met), True
        if self.names and all(map(_COST.fullmatch, self.names)):
            what = f"label {self.names[0]} has a cost, as in contextual bandits, but herd learns only classes"
            raise DataError(what, where=where, hint="begin each line with the class alone, or declare such names: --classes A,B,…")
        if len(self.names) > self.most:
            what = f"{len(self.names)} different labels exceed the {self.most} allowed"
            raise DataError(what, where=where, hint="allow more: --max-classes N")
        if len(self.names) < 2:
            what = f"all of the first examples have the label {self.names[0]}" if self.names else "the first examples have no label"
            raise DataError(what, where=where, hint="declare all classes: --classes A,B,…")
