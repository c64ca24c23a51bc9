"""The splits of a data set, training, validation and test rows, and folds of cross-validation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from herdcli.errors import BadUsage, DataError

if TYPE_CHECKING:
    from herdcli.schema import Array

TRAIN, VALID, TEST = 0, 1, 2  # rows of any other split are not used
SPLIT_NAMES = {
    "train": TRAIN,
    "training": TRAIN,
    "valid": VALID,
    "validation": VALID,
    "val": VALID,
    "dev": VALID,
    "test": TEST,
    "testing": TEST,
}
_FOLD = re.compile(r"(\d{1,6})/(\d{1,6})(,no-valid)?")


def parse_split_name(text: str) -> int | None:
    """Return the split that a name in upper or lower case stands for; None for any other text."""
    return SPLIT_NAMES.get(text.strip().lower())


class Fold(NamedTuple):
    """The fold `number`, from 1, of `folds` folds.  validated  whether the next fold is for validation instead of training."""

    number: int
    folds: int
    validated: bool = True


def parse_fold(spec: str) -> Fold | None:
    """Return the fold that `--split 2/5` or `2/5,no-valid` stands for; None for any other split.  Raises BadUsage."""
    match = _FOLD.fullmatch(spec.strip())
    if match is None:
        return None
    fold = Fold(int(match[1]), int(match[2]), match[3] is None)
    if fold.folds < 2 or not 1 <= fold.number <= fold.folds:
        raise BadUsage(f"'{spec}' is not a fold", where="--split", hint="write K/N for fold K of N, such as 1/5 to 5/5")
    return fold


def fold_parts(order: Array, fold: Fold, unit: str = "rows") -> Iterator[tuple[int, Array]]:
    """Yield the parts TRAIN, VALID and TEST of one fold: (m,) members of a shuffled `order` (n,).

    The test rows are the fold's own.  Those of the next fold are for validation, unless there are two folds only or the fold has no
    validation rows; all others are for training.  `unit` names the members in the DataError for fewer members than folds.
    """
    number, folds, validated = fold
    if len(order) < folds:
        raise DataError(f"asks for {folds} folds, but there are only {len(order)} {unit}", where="--split", hint="use fewer folds")
    ends = [len(order) * number // folds for number in range(folds + 1)]
    for place in range(folds):
        part = TEST if place == number - 1 else VALID if validated and folds > 2 and place == number % folds else TRAIN
        yield part, order[ends[place] : ends[place + 1]]
