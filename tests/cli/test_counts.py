"""herd regress chooses between counts, classes and numbers by the target's whole numbers, and says so."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.regression import counts

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=400)
TARGETS = {
    "poisson": RANDOM.poisson(np.exp(0.8 + 0.8 * X)),
    "negative binomial": RANDOM.negative_binomial(2, 0.4, 400),
    "ten even classes": np.arange(400) % 10,
    "three classes": np.arange(400) % 3,
    "grades": RANDOM.choice([3, 4, 5, 6, 7, 8], 400, p=[0.02, 0.05, 0.43, 0.35, 0.12, 0.03]),
    "years": RANDOM.integers(1950, 2020, 400),
    "many counts": RANDOM.negative_binomial(1, 0.05, 400),
}


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("poisson", ": --family poisson (--family softmax takes them for classes, --family gaussian for numbers)"),
        ("negative binomial", ": --family poisson (--family softmax takes them for classes, --family gaussian for numbers)"),
        ("ten even classes", "10 classes: --family softmax\n"),
        ("three classes", "3 classes: --family softmax\n"),
        ("grades", "6 classes: --family softmax\n"),
        ("years", "numbers: --family gaussian\n"),
        ("many counts", "numbers: --family gaussian (--family poisson takes them for counts)\n"),
    ],
)
def test_the_family_follows_the_numbers(herd, tmp_path, target, said):
    y = TARGETS[target]
    (tmp_path / "t.csv").write_text("x,y\n" + "".join(f"{a:.4f},{b}\n" for a, b in zip(X, y, strict=True)))
    ended = herd("regress", "t.csv", "-o", "m.h5")
    assert ended.code == 0, ended.err
    assert said in ended.err
    (tmp_path / "c.csv").write_text("x,class\n" + "".join(f"{a:.4f},{b}\n" for a, b in zip(X, y, strict=True)))
    ended = herd("regress", "c.csv", "--target", "class", "-o", "m.h5")
    assert "poisson (" not in ended.err  # the column's name says that numbers are names


def test_counts_have_a_tail_and_begin_at_0():
    poisson = TARGETS["poisson"].astype(float)
    assert counts.are_counts(poisson)
    assert not counts.are_counts(poisson + 1)
    assert counts.may_be_counts(poisson + 1)
    for bad in (poisson + 0.5, -poisson, np.minimum(poisson, 2), TARGETS["years"].astype(float)):
        assert not counts.are_counts(bad)
        assert not counts.may_be_counts(bad)
