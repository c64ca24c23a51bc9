"""The text notation of kernels, as in `gaussian:0.5`, `bernoulli:1`, `gaussian*hamming+0.1*linear`; and the choice of length scales."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np

from herdcli.errors import BadUsage, DataError, nearest_name
from herdcli.quadrature.kernels import joint_kernels, stein_kernels
from herdcli.quadrature.kernels import kernel_functions as k
from herdcli.quadrature.kernels.stein_kernels import SteinKernel
from herdcli.rng import Stream, generator
from herdcli.schema import Array

MEDIAN_ROWS = 2000

NAMES = (
    "gaussian[:ℓ], laplace[:ℓ], matern12[:ℓ], matern32[:ℓ], matern52[:ℓ], inverse-multiquadric[:c], rational-quadratic[:ℓ[,α]], energy, "
    "linear, polynomial:p[,c], hamming[:λ], bernoulli:1|2|3, features:x, features:x+xx; alone stein:imq|gaussian[,ℓ|smpcov]"
)


def parse_kernel(text: str) -> k.Kernel:
    """Parse a kernel: terms are joined by +, factors by *, numbers are weights.  Raises BadUsage."""
    if text.strip().lower().startswith("stein"):
        return _parse_stein(text)
    if joint_kernels.MARK in text:
        return _parse_joint(text)
    terms = [_parse_product(term, text) for term in _split_outside_tokens(text, "+")]
    return terms[0] if len(terms) == 1 else k.CompositeKernel(tuple(terms))


def _parse_joint(text: str) -> joint_kernels.JointKernel:
    rows, _, label = text.partition(joint_kernels.MARK)
    if joint_kernels.MARK in label or any(part.strip().lower().startswith("stein") for part in (rows, label)):
        raise BadUsage(
            f"--kernel '{text}' is not a kernel for rows and labels: write KERNEL&KERNEL, the first for rows, the second for labels, "
            "neither a Stein kernel"
        )
    return joint_kernels.JointKernel(parse_kernel(rows), parse_kernel(label))


def _parse_stein(text: str) -> SteinKernel:
    name, _, rest = text.strip().lower().partition(":")
    try:
        return stein_kernels.parse_stein(rest if name == "stein" else "")
    except ValueError as error:
        raise BadUsage(
            f"--kernel '{text}' is not a kernel: {error}", hint="write it as in stein:imq, stein:gaussian,2.5 or stein:imq,smpcov"
        ) from None


def _split_outside_tokens(text: str, separator: str) -> list[str]:
    """Split a text at marks, except at the + of `features:x+xx` and of exponents such as 1e+3."""
    if separator == "+":
        text = re.sub(r"(?<=[\d.])e\+", "e\1", text.replace("x+xx", "x\0xx"), flags=re.IGNORECASE)
    return [part.strip().replace("x\0xx", "x+xx").replace("e\1", "e+") for part in text.split(separator)]


def _parse_product(term: str, full_text: str) -> k.Kernel:
    factors = [_parse_simple_kernel(factor, full_text) for factor in _split_outside_tokens(term, "*")]
    return factors[0] if len(factors) == 1 else k.CompositeKernel(tuple(factors), product=True)


def _parse_simple_kernel(text: str, full_text: str) -> k.Kernel:
    name, _, rest = text.partition(":")
    name = name.strip().lower()
    try:
        if name and (name[0].isdigit() or name[0] in ".-"):
            return k.ConstantKernel(_parse_finite(text))
        if name == "features":
            return k.FeatureKernel(pairs={"x": False, "x+xx": True}[rest.strip()])
        numbers = [_parse_finite(number) for number in rest.split(",")] if rest else []
        return FACTORIES[name](*numbers)
    except (KeyError, TypeError, ValueError) as error:
        detail = str(error) if isinstance(error, ValueError) else ""
        close = None if name in FACTORIES else nearest_name(name, [*FACTORIES, "features"])
        raise BadUsage(
            f"--kernel '{full_text}': '{text}' is not a kernel{': ' + detail if detail else ''}",
            hint=f"did you mean {close}?  kernels: {NAMES}" if close is not None else f"kernels: {NAMES}",
        ) from None


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("parameters must be finite numbers")
    return number


def _require_positive_or_none(number: float | None) -> float | None:
    if number is not None and number <= 0:
        raise ValueError("a length scale is above 0")
    return number


def _require_integer(number: float, allowed: range, name: str) -> int:
    if number not in allowed:
        raise ValueError(f"{name} is one of {allowed.start} … {allowed.stop - 1}")
    return int(number)


FACTORIES: dict[str, Callable[..., k.Kernel]] = {
    "gaussian": lambda scale=None: k.GaussianKernel(_require_positive_or_none(scale)),
    "laplace": lambda scale=None: k.LaplaceKernel(_require_positive_or_none(scale)),
    "matern12": lambda scale=None: k.MaternKernel(1, _require_positive_or_none(scale)),
    "matern32": lambda scale=None: k.MaternKernel(3, _require_positive_or_none(scale)),
    "matern52": lambda scale=None: k.MaternKernel(5, _require_positive_or_none(scale)),
    "inverse-multiquadric": lambda scale=None: k.InverseMultiquadricKernel(_require_positive_or_none(scale)),
    "rational-quadratic": lambda scale=None, alpha=1.0: k.RationalQuadraticKernel(
        _require_positive_or_none(scale), _require_positive_or_none(alpha) or 1.0
    ),
    "energy": lambda: k.EnergyKernel(),
    "linear": lambda: k.PolynomialKernel(),
    "polynomial": lambda degree, offset=1.0: k.PolynomialKernel(_require_integer(degree, range(1, 33), "the degree"), offset),
    "hamming": lambda scale=None: k.HammingKernel(_require_positive_or_none(scale)),
    "bernoulli": lambda order=1: k.BernoulliKernel(_require_integer(order, range(1, 4), "ν")),
}


def machine_dependent_part(kernel: k.Kernel) -> k.Kernel | None:
    """Return the kernel, or the part of a sum or product, whose values may differ between machines; None if there is none.

    `numerics.exact_arithmetic` does not cover kernels with powers that are not integers, which come from the C library, or with matrix
    factorisations, which come from LAPACK.
    """
    if isinstance(kernel, k.CompositeKernel):
        return next((found for part in kernel.parts if (found := machine_dependent_part(part)) is not None), None)
    if isinstance(kernel, joint_kernels.JointKernel):
        return machine_dependent_part(kernel.rows) or machine_dependent_part(kernel.label)
    powers = isinstance(kernel, k.RationalQuadraticKernel) and kernel.alpha != 1
    return kernel if powers or isinstance(kernel, SteinKernel) else None


def choose_length_scales(kernel: k.Kernel, X: Array, rule: float | Literal["median"], seed: int) -> k.Kernel:
    """Choose every open length scale of a kernel, and set the centre of `energy` to the mean of X (n, d).

    rule  a length, or "median": the median distance between rows (between ≤ 2000 rows drawn from the seed), in the
          kernel's own metric.
    Raises DataError if all rows are equal, so that there is no positive distance.
    """
    if isinstance(kernel, k.CompositeKernel):
        return replace(kernel, parts=tuple(choose_length_scales(part, X, rule, seed) for part in kernel.parts))
    if isinstance(kernel, joint_kernels.JointKernel):
        return joint_kernels.JointKernel(
            choose_length_scales(kernel.rows, X[:, :-1], rule, seed), choose_length_scales(kernel.label, X[:, -1:], "median", seed)
        )
    if isinstance(kernel, SteinKernel) and kernel.smpcov:
        return stein_kernels.with_covariance_metric(kernel, X)
    if isinstance(kernel, k.EnergyKernel):
        return k.EnergyKernel(tuple(float(value) for value in X.mean(axis=0)))
    if not hasattr(kernel, "bandwidth") or kernel.bandwidth is not None:
        return kernel
    scale = (
        median_distance(X, "cityblock" if isinstance(kernel, k.LaplaceKernel) else "euclidean", seed) if rule == "median" else float(rule)
    )
    return replace(kernel, bandwidth=scale)  # type: ignore[type-var]


def median_distance(X: Array, metric: str, seed: int) -> float:
    """Compute the median distance between two rows of X (n, d).

    If more than half of the pairs are equal, it is the median between unequal rows.
    """
    from scipy.spatial.distance import pdist

    if len(X) > MEDIAN_ROWS:
        X = X[generator(seed, Stream.BANDWIDTH).choice(len(X), MEDIAN_ROWS, replace=False)]
    distances = pdist(X, metric)
    median = float(np.median(distances)) if distances.size else 0.0
    if median == 0.0 and distances.any():
        median = float(np.median(distances[distances > 0]))
    if median == 0.0:
        raise DataError("all rows are equal, so the bandwidth would be 0", hint="choose a bandwidth with --bandwidth, or check the columns")
    return median
