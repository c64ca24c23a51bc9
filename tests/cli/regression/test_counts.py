"""herd regress chooses between counts, classes and numbers by the target's whole numbers, and says so."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.regression import count_detection

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
        ("poisson", ": --family poisson (--family softmax reads them as classes, --family gaussian as numbers)"),
        ("negative binomial", ": --family poisson (--family softmax reads them as classes, --family gaussian as numbers)"),
        ("ten even classes", "10 classes: --family softmax\n"),
        ("three classes", "3 classes: --family softmax\n"),
        ("grades", "6 classes: --family softmax\n"),
        ("years", "numbers: --family gaussian\n"),
        ("many counts", "numbers: --family gaussian (--family poisson reads them as counts)\n"),
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
    assert count_detection.look_like_counts(poisson)
    assert not count_detection.look_like_counts(poisson + 1)
    assert count_detection.may_be_counts(poisson + 1)
    for bad in (poisson + 0.5, -poisson, np.minimum(poisson, 2), TARGETS["years"].astype(float)):
        assert not count_detection.look_like_counts(bad)
        assert not count_detection.may_be_counts(bad)


def test_counts_with_an_excess_of_zeros_have_a_peak_above_0():
    """Doctor's visits: a third of the rows have none for another reason; their codes in another order are no counts."""
    random = np.random.default_rng(5)
    visits = random.poisson(4.0, 500) * (random.random(500) > 0.35)
    zero = float(np.mean(visits == 0))
    assert zero > 3 * np.exp(-visits.mean())
    assert count_detection.look_like_counts(visits.astype(float))
    for seed in range(5):
        codes = np.random.default_rng(seed).permutation(int(visits.max()) + 1)
        assert not count_detection.look_like_counts(codes[visits].astype(float))


def test_the_criterion_of_an_excess_of_zeros_is_that_of_a_hurdle_model():
    """For Poisson's distribution above 0: the maximum over a fine grid of means, and 2 parameters."""
    random = np.random.default_rng(6)
    y = random.poisson(3.0, 400) * (random.random(400) > 0.4)
    there = np.bincount(y)
    k, n, zeros = np.arange(1.0, len(there)), 400, int(there[0])
    means = np.linspace(1.0, 5.0, 40001)
    factorials = np.cumsum(np.log(k))
    above = float(there[1:].sum())
    fits = np.log(means) * (there[1:] @ k) - above * (means + np.log1p(-np.exp(-means))) - there[1:] @ factorials
    best = -2 * (fits.max() + zeros * np.log(zeros / n) + above * np.log(above / n)) + 2 * np.log(n)
    found = count_detection._zero_inflated_bic(k, there[1:], zeros)
    assert best - 5.0 < found <= best + 1e-6


def codes(random: np.random.Generator, rows: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Six classes, the commonest called 0, and two features with a centroid for each class."""
    y = random.choice(6, rows, p=[0.35, 0.3, 0.2, 0.1, 0.03, 0.02])
    centre = np.array([[0.0, 0.0], [2.0, 0.0], [0.5, 2.0], [-1.0, 1.0], [1.0, -1.0], [0.0, 2.0]])
    return centre[y] + random.normal(size=(rows, 2)), y


def test_codes_of_classes_in_the_order_of_frequencies_are_no_counts(herd, tmp_path):
    """Their distribution is that of counts, and columns go up and down with them."""
    Z, y = codes(np.random.default_rng(1))
    assert count_detection.look_like_counts(y.astype(float))
    assert count_detection.contradicts_count_order(Z, y.astype(float))
    (tmp_path / "t.csv").write_text("a,b,y\n" + "".join(f"{a:.4f},{b:.4f},{c}\n" for (a, b), c in zip(Z, y, strict=True)))
    ended = herd("regress", "t.csv", "-o", "m.h5")
    assert ended.code == 0, ended.err
    assert ": --family softmax (--family poisson reads them as counts)" in ended.err


@pytest.mark.parametrize("features", ["normal", "levels", "noise"])
def test_columns_follow_the_order_of_counts(features):
    """At a level of .05; 40 targets of each."""
    wrong = 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        Z = random.normal(size=(300, 3))
        Z = (Z > 0).astype(float) if features == "levels" else Z
        y = random.poisson(np.exp(0.5 + 0.5 * (Z @ [1.0, -1.0, 0.0]) * (features != "noise")))
        wrong += count_detection.contradicts_count_order(Z, y.astype(float))
    assert wrong <= 2


def test_units_and_origins_of_columns_do_not_matter():
    Z, y = codes(np.random.default_rng(2), 60)
    for moved in (Z * [1e9, 1e-9], Z + np.array([1e6, -1e3]), np.column_stack([Z, np.full(60, 3.0)])):
        assert count_detection.contradicts_count_order(moved, y.astype(float)) == count_detection.contradicts_count_order(
            Z, y.astype(float)
        )
    assert not count_detection.contradicts_count_order(np.full((60, 1), 0.1), y.astype(float))


def test_what_the_best_rising_means_leave():
    """Against every way to pool neighbours."""
    random = np.random.default_rng(3)
    for _ in range(50):
        mean, weight = random.normal(size=5), random.integers(1, 20, 5)
        best = np.inf
        for cuts in range(16):
            label = np.cumsum([0, *((cuts >> k) & 1 for k in range(4))])
            pooled = np.bincount(label, weights=weight * mean) / np.bincount(label, weights=weight)
            if (np.diff(pooled) >= 0).all():
                best = min(best, weight @ np.square(mean - pooled[label]))
        assert count_detection._isotonic_residual_squares(mean, weight) == pytest.approx(best, abs=1e-12)
