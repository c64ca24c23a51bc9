"""Kernels as text: `gaussian:0.5`, `bernoulli:1`, `gaussian*hamming+0.1*linear`; and the choice of length scales."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.quadrature import joint, stein
from herdcli.quadrature import kernels as k
from herdcli.quadrature.stein import Stein
from herdcli.rng import Stream, generator
from herdcli.schema import Array

MEDIAN_ROWS = 2000

NAMES = (
    "gaussian[:ℓ], laplace[:ℓ], matern12[:ℓ], matern32[:ℓ], matern52[:ℓ], inverse-multiquadric[:c], rational-quadratic[:ℓ[,α]], energy, "
    "linear, polynomial:p[,c], hamming[:λ], bernoulli:1|2|3, features:x, features:x+xx; alone stein:imq|gaussian[,ℓ|smpcov]"
)


def parse(text: str) -> k.Kernel:
    """The kernel of a text: terms joined by +, factors by *, numbers are weights.  Raises BadUsage."""
    if text.strip().lower().startswith("stein"):
        return _stein(text)
    if joint.MARK in text:
        return _joint(text)
    terms = [_product(term, text) for term in _split(text, "+")]
    return terms[0] if len(terms) == 1 else k.Composite(tuple(terms))


def _joint(text: str) -> joint.Joint:
    rows, _, label = text.partition(joint.MARK)
    if joint.MARK in label or any(part.strip().lower().startswith("stein") for part in (rows, label)):
        raise BadUsage(f"--kernel '{text}' is not a kernel: one & stands between a kernel on rows and one on labels, neither Stein's")
    return joint.Joint(parse(rows), parse(label))


def _stein(text: str) -> Stein:
    name, _, rest = text.strip().lower().partition(":")
    try:
        return stein.parse(rest if name == "stein" else "")
    except ValueError as error:
        raise BadUsage(f"--kernel '{text}' is not a kernel: {error}", hint="stein:imq, stein:gaussian,2.5, stein:imq,smpcov") from None


def _split(text: str, mark: str) -> list[str]:
    """Parts between marks; the + of `features:x+xx` and of exponents such as 1e+3 is none."""
    if mark == "+":
        text = re.sub(r"(?<=[\d.])e\+", "e\1", text.replace("x+xx", "x\0xx"), flags=re.IGNORECASE)
    return [part.strip().replace("x\0xx", "x+xx").replace("e\1", "e+") for part in text.split(mark)]


def _product(term: str, whole: str) -> k.Kernel:
    factors = [_leaf(factor, whole) for factor in _split(term, "*")]
    return factors[0] if len(factors) == 1 else k.Composite(tuple(factors), product=True)


def _leaf(text: str, whole: str) -> k.Kernel:
    name, _, rest = text.partition(":")
    name = name.strip().lower()
    try:
        if name and (name[0].isdigit() or name[0] in ".-"):
            return k.Constant(_finite(text))
        if name == "features":
            return k.Features(pairs={"x": False, "x+xx": True}[rest.strip()])
        numbers = [_finite(number) for number in rest.split(",")] if rest else []
        return FACTORIES[name](*numbers)
    except (KeyError, TypeError, ValueError) as error:
        detail = str(error) if isinstance(error, ValueError) else ""
        raise BadUsage(f"--kernel '{whole}': '{text}' is not a kernel{': ' + detail if detail else ''}", hint=f"kernels: {NAMES}") from None


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("parameters are finite numbers")
    return number


def _positive(number: float | None) -> float | None:
    if number is not None and number <= 0:
        raise ValueError("a length scale is above 0")
    return number


def _whole(number: float, allowed: range, name: str) -> int:
    if number not in allowed:
        raise ValueError(f"{name} is one of {allowed.start} … {allowed.stop - 1}")
    return int(number)


FACTORIES: dict[str, Callable[..., k.Kernel]] = {
    "gaussian": lambda scale=None: k.Gaussian(_positive(scale)),
    "laplace": lambda scale=None: k.Laplace(_positive(scale)),
    "matern12": lambda scale=None: k.Matern(1, _positive(scale)),
    "matern32": lambda scale=None: k.Matern(3, _positive(scale)),
    "matern52": lambda scale=None: k.Matern(5, _positive(scale)),
    "inverse-multiquadric": lambda scale=None: k.InverseMultiquadric(_positive(scale)),
    "rational-quadratic": lambda scale=None, alpha=1.0: k.RationalQuadratic(_positive(scale), _positive(alpha) or 1.0),
    "energy": lambda: k.Energy(),
    "linear": lambda: k.Polynomial(),
    "polynomial": lambda degree, offset=1.0: k.Polynomial(_whole(degree, range(1, 33), "the degree"), offset),
    "hamming": lambda scale=None: k.Hamming(_positive(scale)),
    "bernoulli": lambda order=1: k.Bernoulli(_whole(order, range(1, 4), "ν")),
}


def inexact(kernel: k.Kernel) -> k.Kernel | None:
    """The kernel, or the part of a sum or product, whose values `numerics.real` does not make the same on all machines; None if all are.

    These take powers that are no whole numbers from the C library, or factors of matrices from LAPACK.
    """
    if isinstance(kernel, k.Composite):
        return next((found for part in kernel.parts if (found := inexact(part)) is not None), None)
    if isinstance(kernel, joint.Joint):
        return inexact(kernel.rows) or inexact(kernel.label)
    powers = isinstance(kernel, k.RationalQuadratic) and kernel.alpha != 1
    return kernel if powers or isinstance(kernel, Stein) else None


def choose(kernel: k.Kernel, X: Array, rule: float | Literal["median"], seed: int) -> k.Kernel:
    """The kernel with every open length scale chosen, and the centre of `energy` at the mean of X (n, d).

    rule  a length, or "median": the median distance between rows (between ≤ 2000 rows drawn from the seed), in the
          kernel's own metric.
    Raises DataError where all rows are equal, so that there is no distance to go by.
    """
    if isinstance(kernel, k.Composite):
        return replace(kernel, parts=tuple(choose(part, X, rule, seed) for part in kernel.parts))
    if isinstance(kernel, joint.Joint):
        return joint.Joint(choose(kernel.rows, X[:, :-1], rule, seed), choose(kernel.label, X[:, -1:], "median", seed))
    if isinstance(kernel, Stein) and kernel.smpcov:
        return stein.with_covariance(kernel, X)
    if isinstance(kernel, k.Energy):
        return k.Energy(tuple(float(value) for value in X.mean(axis=0)))
    if not hasattr(kernel, "bandwidth") or kernel.bandwidth is not None:
        return kernel
    scale = median_distance(X, "cityblock" if isinstance(kernel, k.Laplace) else "euclidean", seed) if rule == "median" else float(rule)
    return replace(kernel, bandwidth=scale)  # type: ignore[type-var]


def median_distance(X: Array, metric: str, seed: int) -> float:
    """The median distance between two rows of X (n, d); between unequal rows where more than half of the pairs are equal."""
    from scipy.spatial.distance import pdist

    if len(X) > MEDIAN_ROWS:
        X = X[generator(seed, Stream.BANDWIDTH).choice(len(X), MEDIAN_ROWS, replace=False)]
    distances = pdist(X, metric)
    median = float(np.median(distances)) if distances.size else 0.0
    if median == 0.0 and distances.any():
        median = float(np.median(distances[distances > 0]))
    if median == 0.0:
        raise DataError("all rows are equal: the bandwidth is 0", hint="give one with --bandwidth, or check the columns")
    return median
