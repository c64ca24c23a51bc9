"""From learned filters to the `ica` artifact: the order and signs of the convention, and what the outputs look like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from herdcli.ica import convention
from herdcli.ica.model import ICA, Trace
from herdcli.numerics.whitening import Whitening
from herdcli.schema import Array


@dataclass(frozen=True)
class Fit:
    """What an algorithm hands over.  `more` are further fields of ICA, `notes` sentences for the user."""

    J: Array
    gamma: Array
    trace: Trace
    iterations: int
    objective: str
    more: dict[str, Any]
    notes: tuple[str, ...] = ()


def finish(fit: Fit, Z: Array, whitening: Whitening, **known: Any) -> tuple[ICA, Array]:
    """The artifact, and which outputs look Gaussian, (M,) booleans.

    Z  (n, D) whitened training rows.      known  fields of ICA that the caller knows.
    """
    found = convention.moments(Z, fit.J)
    dictionary = fit.more.get("dictionary")
    basis = whitening.backward @ (np.linalg.pinv(fit.J) if dictionary is None else dictionary)
    power = convention.power(found.variance, basis)
    topographic = fit.more.get("topography") is not None
    order, signs = convention.arrangement(fit.J @ whitening.forward, power, keep_order=topographic)
    more = dict(fit.more)
    if dictionary is not None:
        more["dictionary"] = dictionary[:, order] * signs
    value = ICA(
        J=fit.J[order] * signs[:, np.newaxis],
        gamma=fit.gamma[order],
        power=power[order],
        kurtosis=found.kurtosis[order],
        whitening=whitening,
        trace=fit.trace,
        objective=fit.objective,
        rows=len(Z),
        iterations=fit.iterations,
        **more,
        **known,
    )
    return value, convention.looks_gaussian(found, len(Z))[order]
