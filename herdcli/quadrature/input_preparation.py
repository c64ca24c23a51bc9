"""The conversion of user input to targets, candidates and column scales."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.quadrature import sobol_sequence
from herdcli.quadrature.rules.local_search import SearchBox
from herdcli.quadrature.targets import MixtureTarget, MomentTarget, Target, TrigonometricTarget, UniformTarget, make_sign_target
from herdcli.rng import Stream, generator
from herdcli.schema import Array

DOMINANT = 0.99  # a column with more than this share of the variance is dominant
LARGEST_CUBE = 20
BLOCK = 1 << 14  # rows whose deviations are computed at a time
MOST_CANDIDATES = 1 << 26
DRAW = 1 << 40  # step of the random stream for candidates, larger than that of any atom


def choose_column_scales(X: Array, rule: str | Sequence[float]) -> tuple[Array, list[int]]:
    """Compute divisors (d,) of the columns, and the indices of constant columns, whose divisor is 1.

    rule  `none`, `std` (standard deviation), `range` (largest minus smallest), or a number for each column.
    """
    d = X.shape[1]
    if rule == "none":
        return np.ones(d), []
    if not isinstance(rule, str):
        if len(rule) != d:
            raise BadUsage(f"--scale has {len(rule)} numbers, but there are {d} columns")
        return np.asarray(rule, dtype=np.float64), []
    width = X.max(axis=0) - X.min(axis=0)
    found = _standard_deviations(X) if rule == "std" else width.copy()
    constant = np.flatnonzero(width == 0)
    found[constant] = 1.0
    return found, [int(j) for j in constant]


def scale_in_place(X: Array, scale: Array) -> Array | None:
    """Divide X (n, d) by scale (d,), and return what `restore_rows` needs, (n, d); None if scale is 1.

    A quotient times its divisor may differ from the dividend by rounding.  The result is this difference in units of the last place.
    """
    if (scale == 1).all():
        return None
    kept = np.zeros(X.shape, dtype=np.int8)
    for start in range(0, len(X), BLOCK):
        part = X[start : start + BLOCK]
        original = part.copy()
        np.divide(original, scale, out=part)
        lost = original.view(np.int64) - (part * scale).view(np.int64)
        if np.abs(lost).max(initial=0) > np.iinfo(kept.dtype).max:
            kept = kept.astype(np.int64)  # only if a quotient is close to the smallest number
        kept[start : start + BLOCK] = lost
    return kept


def restore_rows(X: Array, scale: Array, kept: Array) -> Array:
    """Return rows (m, d) as they were before `scale_in_place`, bit for bit, from the scaled rows and their part of its result."""
    return (np.ascontiguousarray(X * scale).view(np.int64) + kept).view(np.float64)


def find_dominant_column(X: Array) -> tuple[int, float] | None:
    """Return the column with nearly all of the variance, and its share; None if there is no such column or fewer than three columns.

    Squared distances between rows then depend on this column alone, so that the others do not matter.
    """
    variance = np.square(_standard_deviations(X)) if X.shape[1] > 2 and len(X) else np.zeros(1)
    share = float(variance.max() / variance.sum()) if variance.sum() > 0 and np.isfinite(variance).all() else 0.0
    return (int(variance.argmax()), share) if share > DOMINANT else None


def _standard_deviations(X: Array) -> Array:
    """Compute standard deviations (d,) without a copy of X."""
    mean = X.mean(axis=0)
    total = sum(np.square(X[start : start + BLOCK] - mean).sum(axis=0) for start in range(0, len(X), BLOCK))
    return np.asarray(np.sqrt(total / len(X)))


def all_hypercube_states(dimension: int) -> Array:
    """Return all ±1 states (2^D, D); bit i of a state's number is unit i."""
    if not 1 <= dimension <= LARGEST_CUBE:
        raise BadUsage(f"cube:{dimension} is out of range: D must be from 1 to {LARGEST_CUBE}")
    numbers = np.arange(1 << dimension)[:, None]
    return np.where(numbers >> np.arange(dimension) & 1, 1.0, -1.0)


def make_candidates(kind: str, count: int, target: Target, seed: int) -> Array:
    """Make candidates (N, d) of a kind.

    `grid`: N points low + i·width/N in each column (all combinations).  `sobol` and `sample`: N points.  `cube`: all ±1 states.
    grid and sobol fill the target's box.
    """
    if kind == "cube":
        return all_hypercube_states(count)
    if kind == "sample":
        return target.sample(generator(seed, Stream.ATOMS, step=DRAW), count)
    low, high = target.bounding_box()
    if kind == "sobol":
        return np.asarray(low + sobol_sequence.sobol_points(count, len(low)) * (high - low))
    if count ** len(low) > MOST_CANDIDATES:
        raise BadUsage(
            f"grid:{count} has {count ** len(low):.3g} points in {len(low)} columns, which is too many", hint="use sobol:N or sample:N"
        )
    axes = np.meshgrid(*(a + np.arange(count) * ((b - a) / count) for a, b in zip(low, high, strict=True)), indexing="ij")
    return np.stack([axis.ravel() for axis in axes], axis=1)


def make_search_box(target: Target, points: Array) -> SearchBox:
    """Return the region to search around points (N, d): the target's box, within their spacing (N^(−1/d) of the width)."""
    low, high = target.bounding_box()
    return SearchBox(low, high, (high - low) * max(len(points), 1) ** (-1.0 / len(low)))


def parse_mixture_table(X: Array, names: Sequence[str] | None) -> MixtureTarget:
    """Make a Gaussian mixture from the rows of X (c, columns).

    The columns are weight, then d means, then d sd or d² cov, identified by their names.

    Without names: weight, d means, d standard deviations.
    """
    if names is None:
        d = (X.shape[1] - 1) // 2
        if d < 1 or X.shape[1] != 2 * d + 1:
            raise DataError(
                "a mixture without column names needs an odd number of columns: the weight, the means, the standard deviations",
                hint="name the columns weight, mean1…, and sd1… or cov11…",
            )
        weight, means, spread, full = X[:, 0], X[:, 1 : 1 + d], X[:, 1 + d :], False
    else:
        kinds = [re.match(r"weight|mean|sd|cov|", name.lower()) for name in names]
        part = {kind: [j for j, match in enumerate(kinds) if match and match[0] == kind] for kind in ("weight", "mean", "sd", "cov")}
        d, full = len(part["mean"]), bool(part["cov"])
        if not d or len(part["cov"] if full else part["sd"]) != (d * d if full else d) or len(part["weight"]) > 1:
            raise DataError(f"a mixture needs the columns weight, mean…, and sd… or cov…, but the columns are {', '.join(names)}")
        weight = X[:, part["weight"][0]] if part["weight"] else np.ones(len(X))
        means, spread = X[:, part["mean"]], X[:, part["cov" if full else "sd"]]
    if (weight < 0).any() or not weight.any() or (not full and (spread <= 0).any()):
        raise DataError("a mixture needs weights that are not negative, and standard deviations above 0")
    covariances = spread.reshape(-1, d, d) if full else np.stack([np.diag(row**2) for row in spread])
    return MixtureTarget(weight / weight.sum(), means, covariances)


def make_independent_gaussian(mean: float, deviation: float, dimension: int) -> MixtureTarget:
    """Make the target of independent columns with the same mean and standard deviation."""
    if deviation <= 0:
        raise BadUsage("the standard deviation of a gaussian target must be above 0")
    return MixtureTarget(np.ones(1), np.full((1, dimension), mean), np.eye(dimension)[None] * deviation**2, name="gaussian")


def make_uniform_box(low: float, high: float, dimension: int) -> UniformTarget:
    """Make the uniform distribution on the box [low, high]^d."""
    if not low < high:
        raise BadUsage("a uniform target needs a lower bound below the upper bound in each column")
    return UniformTarget(np.full(dimension, low), np.full(dimension, high))


def parse_target_table(kind: str, X: Array, names: Sequence[str] | None) -> Target:
    """Make the target of a file X (rows, d).

    kind  gaussian or mixture (see `parse_mixture_table`), trigonometric (columns a, b; row i is frequency i), signs (a covariance matrix)
          or moments (one row E x, or E x followed by the matrix E xx').
    """
    if kind in ("gaussian", "mixture"):
        found = parse_mixture_table(X, names)
        if kind == "gaussian" and len(X) != 1:
            raise DataError(f"the file of a gaussian target needs one row, not {len(X)}", hint="use --distribution mixture:FILE")
        return found
    if kind == "trigonometric":
        if X.shape[1] != 2:
            raise DataError(f"the file of a trigonometric density needs two columns, a and b, not {X.shape[1]}")
        return TrigonometricTarget(X[:, 0], X[:, 1])
    if kind == "signs":
        if X.shape[0] != X.shape[1]:
            raise DataError(f"--distribution signs needs a square covariance matrix, not {X.shape[0]}×{X.shape[1]} numbers")
        return make_sign_target(X)
    if len(X) not in (1, 1 + X.shape[1]):
        raise DataError(
            f"a file of moments needs one row of means, or this row and a square covariance matrix below it, not "
            f"{X.shape[0]}×{X.shape[1]} numbers"
        )
    return MomentTarget(X[0], X[1:] if len(X) > 1 else None)
