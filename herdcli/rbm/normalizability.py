"""The pairs of layers that have a finite partition function, and the nearest weights for which it is finite.

If one layer has a bounded range, any pair is normalisable.  Of the others:
    gaussian × gaussian   the joint precision (I, −W; −W', I) must be positive definite: the largest singular value is below 1.
    poisson × poisson     Σ_v e^{v w + e^{c + …}}/v! diverges for any positive weight: W ≤ 0.
gaussian × poisson    e^{x²/2} outgrows 1/x!, and e^{e^x} outgrows e^{−x²/2}: normalisable for W = 0 only.
"""

from __future__ import annotations

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.numerics import symmetric_matrices
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units.base import UnitFamily
from herdcli.schema import Array

LARGEST_SINGULAR = 0.999  # largest singular value of the weights between two Gaussian layers during learning


def unbounded_families(visible: UnitFamily, hidden: UnitFamily) -> tuple[str, ...]:
    """Return the names of the two families in order if neither has a bounded range, else an empty tuple."""
    return tuple(sorted((visible.name, hidden.name))) if visible.range is None and hidden.range is None else ()


def require_normalisable_families(visible: UnitFamily, hidden: UnitFamily) -> None:
    """Raise BadUsage for a pair of families whose partition function is infinite for all weights except 0, and for no hidden units."""
    if hidden.visible_only:
        raise BadUsage(
            f"{hidden.name} units are possible only in the visible layer", hint="give the number of states of a hidden unit: softmax:3"
        )
    if unbounded_families(visible, hidden) == ("gaussian", "poisson"):
        raise BadUsage(
            f"{visible.name} visible with {hidden.name} hidden units have no normalisable distribution, whatever the weights",
            hint="use binary, spin, rate:N or softmax:K units in one layer",
        )


def divergence_reason(visible: UnitFamily, hidden: UnitFamily, W: Array) -> str | None:
    """Return why weights W (D, K) have no finite partition function; None if they have one."""
    pair = unbounded_families(visible, hidden)
    if pair == ("gaussian", "gaussian"):
        largest = symmetric_matrices.spectral_norm(W)
        return (
            None if largest < 1 else f"the largest singular value of the weights is {largest:.6g}, but gaussian layers need a value below 1"
        )
    if pair == ("poisson", "poisson"):
        return None if W.max() <= 0 else f"a weight is {W.max():.6g}, but poisson layers need weights of at most 0"
    if pair and W.any():
        return f"{visible.name} and {hidden.name} layers need weights of 0"
    return None


def require_normalisable(h: Harmonium) -> None:
    """Raise DataError with the reason unless the model is a probability distribution."""
    reason = divergence_reason(h.visible, h.hidden, h.W)
    if reason:
        raise DataError(f"the model is not normalisable: {reason}")


def project_to_normalisable(visible: UnitFamily, hidden: UnitFamily, W: Array) -> None:
    """Move weights W (D, K), in place, to the nearest weights with a finite partition function."""
    pair = unbounded_families(visible, hidden)
    if pair == ("poisson", "poisson"):
        np.minimum(W, 0.0, out=W)
    elif pair == ("gaussian", "gaussian") and symmetric_matrices.frobenius_norm(W) > LARGEST_SINGULAR and np.isfinite(W).all():
        # (I −W; −W' I) has the eigenvalues 1 ± σ_i: positive definite if σ_1 < 1.  Clipping the singular values gives the nearest such W in
        # the Frobenius norm.  This norm bounds σ_1 from above, which avoids most decompositions.
        nearest = symmetric_matrices.clip_singular_values(W, LARGEST_SINGULAR)
        if nearest is not None:
            W[...] = nearest


def is_barely_normalisable(h: Harmonium) -> bool:
    """Whether a model of Gaussian layers is normalisable only because of `project_to_normalisable`, to float32 precision."""
    return unbounded_families(h.visible, h.hidden) == ("gaussian", "gaussian") and bool(
        symmetric_matrices.spectral_norm(h.W) > LARGEST_SINGULAR - 1e-5
    )
