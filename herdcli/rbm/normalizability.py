"""Which pairs of layers have a finite partition function, and the nearest weights that have one.

A layer with a bounded range makes any pair proper.  Of the others:
    gaussian × gaussian   the joint precision (I, −W; −W', I) must be positive definite: the largest singular value below 1.
    poisson × poisson     Σ_v e^{v w + e^{c + …}}/v! diverges for any positive weight: W ≤ 0.
    gaussian × poisson    e^{x²/2} outgrows 1/x!, and e^{e^x} outgrows e^{−x²/2}: proper for W = 0 only.
"""

from __future__ import annotations

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.numerics import symmetric_matrices
from herdcli.rbm.model import Harmonium
from herdcli.rbm.units.base import UnitFamily
from herdcli.schema import Array

LARGEST_SINGULAR = 0.999  # of the weights between two Gaussian layers while they are learned


def unbounded_families(visible: UnitFamily, hidden: UnitFamily) -> tuple[str, ...]:
    """The names of the two families in order, if neither has a bounded range; else nothing."""
    return tuple(sorted((visible.name, hidden.name))) if visible.range is None and hidden.range is None else ()


def require_pair(visible: UnitFamily, hidden: UnitFamily) -> None:
    """Raise BadUsage for a pair of families that no weights but 0 make a distribution."""
    if unbounded_families(visible, hidden) == ("gaussian", "poisson"):
        raise BadUsage(
            f"{visible.name} visible and {hidden.name} hidden units have no normalisable distribution, whatever the weights",
            hint="make one layer binary, spin, rate:N or softmax:K",
        )


def divergence_reason(visible: UnitFamily, hidden: UnitFamily, W: Array) -> str | None:
    """Why weights W (D, K) have no finite partition function; None if they have one."""
    pair = unbounded_families(visible, hidden)
    if pair == ("gaussian", "gaussian"):
        largest = symmetric_matrices.spectral_norm(W)
        return None if largest < 1 else f"the largest singular value of the weights is {largest:.6g}, gaussian layers need one below 1"
    if pair == ("poisson", "poisson"):
        return None if W.max() <= 0 else f"a weight is {W.max():.6g}, poisson layers need weights of at most 0"
    if pair and W.any():
        return f"{visible.name} and {hidden.name} layers need weights of 0"
    return None


def require_proper(h: Harmonium) -> None:
    """Raise DataError with the reason unless the model is a probability distribution."""
    reason = divergence_reason(h.visible, h.hidden, h.W)
    if reason:
        raise DataError(f"the model is not normalisable: {reason}")


def project_weights(visible: UnitFamily, hidden: UnitFamily, W: Array) -> None:
    """Move weights W (D, K), in place, to the nearest that have a finite partition function."""
    pair = unbounded_families(visible, hidden)
    if pair == ("poisson", "poisson"):
        np.minimum(W, 0.0, out=W)
    elif pair == ("gaussian", "gaussian") and symmetric_matrices.frobenius_norm(W) > LARGEST_SINGULAR and np.isfinite(W).all():
        # (I −W; −W' I) has the eigenvalues 1 ± σ_i: positive definite where σ_1 < 1.  Cutting singular values off is the nearest such W in
        # the Frobenius norm, whose own value bounds σ_1 from above and spares most decompositions.
        nearest = symmetric_matrices.bound_singular_values(W, LARGEST_SINGULAR)
        if nearest is not None:
            W[...] = nearest


def is_at_boundary(h: Harmonium) -> bool:
    """Whether `project_weights` was what kept a model of Gaussian layers normalisable, to float32."""
    return unbounded_families(h.visible, h.hidden) == ("gaussian", "gaussian") and bool(
        symmetric_matrices.spectral_norm(h.W) > LARGEST_SINGULAR - 1e-5
    )
