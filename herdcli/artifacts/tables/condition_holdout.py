"""Test rows chosen by a condition on each person, so that the test conditions differ from those in training.

The test sets of Teh (2003), sec. 3.5.1: some persons are tested with glasses, for example, and trained only without.  Others have
both in the training set, from which a model can learn the effect of glasses.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from herdcli.artifacts.dataset import Dataset, take_rows
from herdcli.artifacts.tables.dataset_preparation import UNUSED, assign_splits
from herdcli.errors import BadUsage, DataError
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array
from herdcli.splits import TEST, TRAIN

PROBE_SET = "probe_set"  # the column with the hold-out of each test row
RANDOM = "random"
LEFT = 2  # rows of a person that must stay, so that they form a pair
OTHER_VALUES = "choose other values for --hold-out, or leave it out"


@dataclass(frozen=True)
class ConditionHoldout:
    """A test set: rows whose column has one of these values; without values, one random value for each person."""

    name: str
    column: str
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the text on the command line and in the record."""
        return f"{self.name}:{self.column}" + (f"={','.join(self.values)}" if self.values else "")


def parse_holdout(text: str) -> ConditionHoldout:
    """Parse [NAME:]COLUMN[=VALUE,…]; the default name is that of the column.  Raises ValueError for anything else."""
    name, colon, rest = text.rpartition(":")
    column, equals, values = rest.partition("=")
    chosen = tuple(filter(None, values.split(",")))
    if not column or (colon and not name) or bool(equals) != bool(chosen):
        raise ValueError("is not of the form [NAME:]COLUMN[=VALUE,…]")
    return ConditionHoldout(name or column, column, chosen)


def apply_holdouts(data: Dataset, hold_outs: list[ConditionHoldout], spec: str | None, seed: int) -> Dataset:
    """Return the data set with a new split, and the column `probe_set` with the hold-out of each test row.

    Persons are the labels y.  Persons with rows inside and at least two outside of some hold-out are assigned, in a random order from
    the seed, to the hold-outs and to the training set in turn.  Rows inside the hold-out become test rows, all others of these
    persons training rows.  All other persons are split by `spec`; without one they are in the training set.
    Raises DataError without labels and for a hold-out that no person fits.
    """
    if data.y is None:
        raise DataError("--hold-out needs labels, but the data have none", hint="name the column of labels: --label COLUMN")
    unknown = next((one.column for one in hold_outs if one.column not in (data.columns or {})), None)
    if unknown:
        raise BadUsage(f"--hold-out needs the column '{unknown}', which was not read", hint=f"use --keep-column {unknown}")
    split = np.full(len(data.y), TRAIN, dtype=np.uint8) if spec is None else assign_splits(data, spec, seed)
    names = np.where(split == TEST, RANDOM, "").astype(object)
    for rows, inside, name in _assign_holdouts(data, hold_outs, seed):
        split[rows], names[rows] = TRAIN, ""
        split[inside], names[inside] = TEST, name
    return drop_rows_without_split(replace(data, split=split, columns=(data.columns or {}) | {PROBE_SET: names.astype(np.str_)}))


def drop_rows_without_split(data: Dataset) -> Dataset:
    """Return the data set without the rows that are in none of the three splits."""
    kept = np.flatnonzero(np.asarray(data.split) != UNUSED)
    if len(kept) == data.X.shape[0]:
        return data
    return take_rows(data, kept)


def _assign_holdouts(data: Dataset, hold_outs: list[ConditionHoldout], seed: int) -> list[tuple[Array, Array, str]]:
    """Return, for each person who fits a hold-out, their rows, the test rows and the name of the hold-out (none for training)."""
    assert data.y is not None
    random = generator(seed, Stream.HOLD_OUT)
    persons = random.permutation(np.unique(data.y))
    dealt: list[tuple[Array, Array, str]] = []
    hands = dict.fromkeys([*(one.name for one in hold_outs), ""], 0)
    fitted: set[str] = set()
    for person in persons:
        rows = np.flatnonzero(data.y == person)
        choices = {one.name: inside for one in hold_outs if len(inside := _holdout_rows(data, one, rows, random))}
        if not choices:
            continue
        fitted |= set(choices)
        name = min([*choices, ""], key=lambda hand: hands[hand])
        hands[name] += 1
        dealt.append((rows, choices.get(name, rows[:0]), name))
    for one in hold_outs:
        if one.name not in fitted:
            raise DataError(
                f"--hold-out {one.name} leaves nothing to test: no label has both a held-out row and at least {LEFT} other rows",
                hint=OTHER_VALUES,
            )
    return dealt


def _holdout_rows(data: Dataset, holdout: ConditionHoldout, rows: Array, random: np.random.Generator) -> Array:
    """Return the rows of a person in a hold-out; none if too few would stay."""
    assert data.columns is not None
    values = data.columns[holdout.column][rows].astype(np.str_)
    wanted = np.isin(values, holdout.values)
    if not holdout.values:
        own, counts = np.unique(values, return_counts=True)
        fits = own[len(values) - counts >= LEFT]
        wanted = values == random.choice(fits) if len(fits) else wanted
    return rows[wanted] if len(rows) - np.count_nonzero(wanted) >= LEFT else rows[:0]


def sample_rows_per_person(persons: Array, rows: Array, count: int, seed: int) -> Array:
    """Return at most `count` random rows of each person, from the seed, in increasing order.  persons  (n,) the person of every row."""
    order = generator(seed, Stream.HOLD_OUT, unit=1).permutation(rows)
    kept = [order[persons[order] == person][:count] for person in np.unique(persons[rows])]
    return np.sort(np.concatenate(kept))
