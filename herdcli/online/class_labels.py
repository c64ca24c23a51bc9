"""Labels of a stream as classes: the class of each number, if the classes are not known beforehand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from herdcli.errors import DataError
from herdcli.schema import LARGEST, Array

PAIRS = ((-1.0, 1.0), (0.0, 1.0), (1.0, 2.0))
MOST = 1000  # largest number of classes without --max-classes
SEVERAL = 6  # fewest numbers that are a quantity if most of them occur once
MANY, LEAST_ROWS = 20, 10  # number of classes that numbers may always have; rows per class, on average, required for more
PAIR_HINT = "use -1/+1, 0/1 or 1/2 for two classes, or declare other labels with --classes"


def format_label(label: float) -> str:
    """Return a label as text: 1.0 → '1'; a class that is not known yet → '?'."""
    if np.isnan(label):
        return "?"
    return str(int(label)) if label == int(label) else repr(float(label))


def format_labels(names: Sequence[str], max_names: int = 10) -> str:
    """Return names as text for one line: all if they are few, else the first ones and their number."""
    shown = ", ".join(names[:max_names])
    return shown if len(names) <= max_names else f"{shown}, … ({len(names)} in all)"


def check_classes(labels: Sequence[float], where: str, max_classes: int) -> None:
    """Raise DataError unless distinct numbers can be class numbers: whole, and no more than `max_classes`."""
    fraction = next((label for label in labels if label != int(label)), None)
    if fraction is not None:
        hint = "use whole numbers or names as classes, or declare them: --classes A,B,…; to learn numbers: --task regression"
        raise DataError(f"label {format_label(fraction)} is not a whole number, so it cannot be a class", where=where, hint=hint)
    if len(labels) > max_classes:
        hint = "to learn numbers, use --task regression; to allow more classes, --max-classes N"
        raise DataError(f"{len(labels)} different labels exceed the {max_classes} allowed", where=where, hint=hint)


def look_like_quantities(labels: Sequence[int], rows: int) -> bool:
    """Return whether there are so many numeric labels, in relation to the rows, that they are a quantity rather than classes."""
    return (len(labels) > MANY and rows < LEAST_ROWS * len(labels)) or (len(labels) >= SEVERAL and rows < 2 * len(labels))


class LabelEncoder:
    """An encoder from label numbers to class indices.

    Declared classes (names that are numbers) are used unchanged.  Otherwise the first block decides: one or two
    labels of a usual pair mean two classes, more labels mean as many classes; later blocks may contain no others.
    """

    def __init__(self, classes: Sequence[str] | None = None, most: int = MOST) -> None:
        self.numbers: list[float] | None = None
        self.most = most
        self.given = classes is not None
        if classes is not None:
            self.numbers = [_parse_number(name) for name in classes]

    @property
    def names(self) -> list[str]:
        """The class names in the order of their indices."""
        return [format_label(number) for number in self.numbers or []]

    def encode_labels(self, labels: Array, where: str) -> Array:
        """Return class indices (n,) int32.  Raises DataError for a label that is not one of the classes."""
        if self.numbers is None:
            self.numbers = _infer_classes(sorted(set(labels.tolist())), where, self.most)
        if len(self.numbers) == 2 and not self.given:
            self._infer_other_class(labels)
        if len(self.numbers) == 2:
            positive = labels == self.numbers[1]
            if not (positive | (labels == self.numbers[0])).all():
                raise self._unknown_label_error(labels, where)
            return np.asarray(positive, dtype=np.int32)
        known = np.array(self.numbers)
        order = np.argsort(known)
        at = order[np.searchsorted(known, labels, sorter=order).clip(max=len(known) - 1)]
        if not (known[at] == labels).all():
            raise self._unknown_label_error(labels, where)
        return np.asarray(at, dtype=np.int32)

    def _infer_other_class(self, labels: Array) -> None:
        """Decide from the first other label whether the other class of a stream that began with only 1 is −1, 0 or 2."""
        assert self.numbers is not None
        if np.isnan(self.numbers[0]):
            others = labels[labels != self.numbers[1]]
            if len(others):
                pair = next((pair for pair in PAIRS if set(pair) == {1.0, float(others[0])}), None)
                self.numbers = list(pair) if pair and pair[1] == 1.0 else self.numbers

    def _unknown_label_error(self, labels: Array, where: str) -> DataError:
        assert self.numbers is not None
        strange = labels[~np.isin(labels, self.numbers)][0]
        if self.given:
            return DataError(
                f"label {format_label(strange)} is not one of the classes {format_labels(self.names)}",
                where=where,
                hint="declare all of them with --classes",
            )
        return DataError(
            f"label {format_label(strange)} did not occur among the first examples "
            f"({format_labels([name for name in self.names if name != '?'])})",
            where=where,
            hint="declare the classes: --classes A,B,…",
        )


def _infer_classes(labels: list[float], where: str, max_classes: int) -> list[float]:
    check_classes(labels, where, max_classes)
    for pair in PAIRS:
        if set(labels) == set(pair):
            return list(pair)
    if labels == [1.0]:
        return [float("nan"), 1.0]
    for pair in PAIRS[:2]:
        if labels == [pair[0]]:
            return list(pair)
    if len(labels) < 3:
        text = " and ".join(map(format_label, labels))
        raise DataError(f"the labels of the first examples are {text}, not a known pair of classes", where=where, hint=PAIR_HINT)
    return sorted(labels)


def _parse_number(name: str) -> float:
    try:
        number = float(name)
    except ValueError:
        number = float("nan")
    if not np.isfinite(number):
        raise DataError(f"class '{name}' is not a number, but labels in text files are numbers", where="--classes")
    return number


class NumericTargets:
    """The encoder for a stream of numbers, which are learned unchanged."""

    given, names = True, ()

    def encode_labels(self, labels: Array, where: str) -> Array:
        """Return the numbers (n,) themselves.  Raises DataError for numbers too large to be squared and summed."""
        if len(labels) and not np.abs(labels).max() <= LARGEST:
            raise DataError(
                f"the target {np.abs(labels).max():g} is too large to be squared and summed", where=where, hint="rescale the target"
            )
        return labels.astype(np.float64)
