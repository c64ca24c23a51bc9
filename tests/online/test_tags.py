"""Thresholds of labels, and models that meet new ones."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.online.tags import best_f1_threshold, grow_weights
from herdcli.online.text.multilabel_text import LabelSetEncoder, LabelSetReader, parse_labels
from herdcli.online.text.text_parser import BlockReader


@pytest.mark.parametrize("seed", range(6))
def test_the_threshold_has_the_highest_f1_of_all(seed):
    random = np.random.default_rng(seed)
    score = np.round(random.standard_normal(60), 1)  # with equal ones
    y = (score + random.standard_normal(60) > 0.5).astype(int)

    def f1(t: float) -> float:
        told = score > t
        return 2 * (told & (y == 1)).sum() / (told.sum() + y.sum())

    assert f1(best_f1_threshold(score, y)) == pytest.approx(max(f1(t) for t in (*score.tolist(), -9.0)))


def test_few_examples_say_nothing_of_a_threshold():
    assert best_f1_threshold(np.array([-3.0, -2.0, 1.0, 2.0, 3.0]), np.array([1, 1, 0, 1, 1])) == 0.0


def test_new_labels_and_features_begin_with_mean_0_and_variance_1():
    wide = grow_weights(np.full((1, 2, 2), 5.0), 2, 3)
    assert np.array_equal(wide[0], [[5, 5], [5, 5], [0, 1]])
    assert np.array_equal(wide[1], [[0, 1]] * 3)


@pytest.mark.parametrize(
    ("vw", "text", "sets"),
    [
        (True, b"1,3 | a b\n| a\n 'tag |b\n7 2 'x| a\n2|a\n", [{"1", "3"}, set(), set(), {"7"}, {"2"}]),
        (False, b"1,3 4:1\n4:1\n 5:1 # c\n\n# 9 1:1\n7 \n", [{"1", "3"}, set(), set(), {"7"}]),
        (False, b"sport,1.0 1:1\r\n01 2:1\r\n", [{"sport", "1"}, {"1"}]),
    ],
)
def test_lines_begin_with_any_number_of_labels(vw, text, sets):
    labels = LabelSetEncoder()
    (block,) = LabelSetReader.from_reader(BlockReader("t", vw, bits=8 if vw else 0), labels).blocks([text])
    assert [{labels.names[k] for k in np.flatnonzero(row)} for row in block.label] == sets


def test_names_of_numbers_are_one_name():
    assert parse_labels("1.0,01,a b") == ["1", "1", "a b"]
    with pytest.raises(ValueError, match=",1"):
        parse_labels(",1")
