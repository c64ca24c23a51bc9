"""What each algorithm learns by where nothing is said of it, as docs and help state it."""

from __future__ import annotations

import pytest

from herdcli.ica import defaults

NONE = dict.fromkeys(("expert", "density", "batch_size", "rates", "average"))


@pytest.mark.parametrize(
    ("algorithm", "square", "expected"),
    [
        ("ml", True, {"expert": "logistic", "density": "logistic"}),
        ("ebm", False, {"expert": "student", "density": "logistic"}),
        ("equil", True, {"expert": "auto", "density": "logistic"}),
        (
            "infomax",
            True,
            {"expert": "logistic", "density": "auto", "batch_size": 900, "rates": defaults.SQUARE_INFOMAX, "average": 900},
        ),
        ("infomax", False, {"expert": "logistic", "density": "logistic", "rates": defaults.WIDE_INFOMAX}),
        ("sparse-coding", False, {"expert": "laplace", "density": "logistic", "rates": defaults.SPARSE_CODING}),
    ],
)
def test_what_is_not_given_is_the_algorithms_own(algorithm, square, expected):
    assert defaults.default_learning_options(algorithm, 20, square, NONE) == expected


def test_what_is_given_stays_and_batches_grow_with_the_dimensions():
    found = defaults.default_learning_options("infomax", 300, True, NONE | {"rates": ((0.1, 5),), "expert": "laplace"})
    assert found == {"density": "auto", "batch_size": 1200}
