"""Recurrent temporal RBMs, rows of every family, and sequences that need memory, for the tests."""

from __future__ import annotations

import numpy as np

from herdcli.rbm.recurrent import likelihood
from herdcli.rbm.recurrent.likelihood import EvaluationSequences
from herdcli.rbm.recurrent.model import Parameters, RecurrentModel
from herdcli.rbm.units import unit_family

OFFSETS = np.array([0, 3, 4, 9])
PAIRS = [  # families of the layers, and their columns
    ("binary", "binary", 3, 4),
    ("gaussian", "binary", 3, 4),
    ("spin", "spin", 4, 3),
    ("binary", "softmax:2", 5, 4),
    ("rate:3", "rate:2", 2, 3),
    ("softmax:2", "binary", 4, 3),
    ("poisson", "binary", 2, 3),
]


def model(visible: str, hidden: str, D: int, K: int, seed: int = 0, links: float = 0.7) -> RecurrentModel:
    random = np.random.default_rng(seed)
    shapes = {"W": (D, K), "U": (K, K), "V": (K, D), "b": (D,), "c": (K,), "b_first": (D,), "c_first": (K,)}
    scale = dict.fromkeys(shapes, 0.7) | dict.fromkeys(("U", "V", "b_first", "c_first"), links)
    p = Parameters(**{name: scale[name] * random.standard_normal(shape) for name, shape in shapes.items()})
    return RecurrentModel(p, unit_family(visible), unit_family(hidden))


def rows(units: str, n: int, D: int, seed: int = 1) -> np.ndarray:
    random, kind = np.random.default_rng(seed), unit_family(units)
    if kind.support is None:
        return random.standard_normal((n, D)) if units == "gaussian" else random.integers(0, 4, (n, D)).astype(float)
    return kind.support[random.integers(0, len(kind.support), (n, D // kind.group))].reshape(n, D)


def held(v: np.ndarray, offsets: np.ndarray) -> EvaluationSequences:
    return EvaluationSequences(v, offsets, np.ones(len(v), dtype=bool))


def exact_likelihoods(m: RecurrentModel, v: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    return likelihood.row_log_likelihoods(m, v, held(v, offsets).step_harmoniums(m))


def bouncing(count: int, steps: int, columns: int, seed: int = 0) -> list[np.ndarray]:
    """Sequences of one unit that is on and moves on by one a step, back where the row ends: its direction is in no single row."""
    random, found = np.random.default_rng(seed), []
    for _ in range(count):
        place, move = int(random.integers(columns)), int(random.choice([-1, 1]))
        X = np.zeros((steps, columns), dtype=np.int8)
        for row in X:
            row[place] = 1
            move = move if 0 <= place + move < columns else -move
            place += move
        found.append(X)
    return found


def laid(sequences: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate(sequences), np.concatenate([[0], np.cumsum([len(X) for X in sequences])])
