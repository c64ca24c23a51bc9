"""Who is tested under which condition: no person in two hands, and training rows left for everyone."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.artifacts.dataset import Dataset
from herdcli.artifacts.tables.condition_holdout import ConditionHoldout, apply_holdouts, parse_holdout
from herdcli.errors import BadUsage, DataError


@pytest.fixture
def faces():
    """12 persons × 5 rows; of the first eight, two rows with glasses; mood 0 … 4 once each."""
    y = np.repeat(np.arange(12), 5)
    glasses = ((np.arange(60) % 5 < 2) & (y < 8)).astype(np.uint8)
    mood = np.array(["calm", "glad", "sad", "wink", "side"])[np.arange(60) % 5]
    return Dataset(np.zeros((60, 2)), y=y, columns={"glasses": glasses, "mood": mood})


def test_half_of_those_who_fit_are_held_out_and_the_others_train_with_both(faces):
    made = apply_holdouts(faces, [parse_holdout("glasses=1")], None, 3)
    tested = np.unique(made.y[made.split == 2])
    assert len(tested) == 4
    assert (tested < 8).all()
    np.testing.assert_array_equal(made.split == 2, np.isin(made.y, tested) & (faces.columns["glasses"] == 1))
    np.testing.assert_array_equal(made.columns["probe_set"] == "glasses", made.split == 2)


def test_a_column_alone_holds_out_one_value_of_each_person(faces):
    found = {seed: apply_holdouts(faces, [ConditionHoldout("g", "glasses")], None, seed) for seed in range(6)}
    for made in found.values():
        for person in np.unique(made.y[made.split == 2]):
            rows = made.y == person
            values = faces.columns["glasses"]
            assert len(np.unique(values[rows & (made.split == 2)])) == 1
            assert not set(values[rows & (made.split == 2)]) & set(values[rows & (made.split == 0)])
    held = np.concatenate([faces.columns["glasses"][made.split == 2] for made in found.values()])
    assert set(held) == {0, 1}  # some are tested with, some without


def test_persons_are_dealt_evenly_to_several_hold_outs_and_training(faces):
    made = apply_holdouts(
        faces, [parse_holdout("look:mood=glad,sad"), parse_holdout("light:mood=side"), parse_holdout("glasses=1")], None, 0
    )
    hands = {name: set(made.y[made.columns["probe_set"] == name]) for name in ("look", "light", "glasses")}
    assert sum(map(len, hands.values())) == len(set.union(*hands.values()))
    assert {name: len(persons) for name, persons in hands.items()} == {"look": 3, "light": 3, "glasses": 3}
    assert (np.bincount(made.y[made.split == 0], minlength=12) >= 2).all()


def test_everyone_else_is_split_as_asked(faces):
    made = apply_holdouts(faces, [parse_holdout("glasses=1")], "3,0,2", 1)
    rest = made.y >= 8
    assert np.bincount(made.split[rest], minlength=3).tolist() == [12, 0, 8]
    assert set(made.columns["probe_set"][rest & (made.split == 2)]) == {"random"}
    fitting = ~rest & (made.split == 2)
    assert set(made.columns["probe_set"][fitting]) == {"glasses"}


def test_the_seed_decides(faces):
    splits = [apply_holdouts(faces, [parse_holdout("glasses=1")], None, seed).split for seed in (0, 0, 1)]
    np.testing.assert_array_equal(splits[0], splits[1])
    assert (splits[0] != splits[2]).any()


@pytest.mark.parametrize("text", ["", "=1", ":x", "name:", "glasses=", "a:b=,"])
def test_other_forms_are_refused(text):
    with pytest.raises(ValueError, match="is not of the form"):
        parse_holdout(text)


def test_hold_outs_read_as_they_are_written():
    for text in ("glasses:glasses", "light:condition=leftlight,rightlight"):
        assert str(parse_holdout(text)) == text
    assert parse_holdout("glasses") == ConditionHoldout("glasses", "glasses")


def test_a_hold_out_nobody_fits_is_refused(faces):
    with pytest.raises(
        DataError, match=r"^--hold-out mood leaves nothing to test: no label has both a held-out row and at least 2 other rows$"
    ):
        apply_holdouts(faces, [parse_holdout("mood=calm,glad,sad,wink")], None, 0)


def test_a_column_that_is_not_there_is_refused(faces):
    with pytest.raises(BadUsage, match=r"^--hold-out needs the column 'hat', which was not read$"):
        apply_holdouts(faces, [parse_holdout("hat=1")], None, 0)
    with pytest.raises(DataError, match=r"^--hold-out needs labels, but the data have none$"):
        apply_holdouts(Dataset(np.zeros((2, 2))), [parse_holdout("hat=1")], None, 0)
