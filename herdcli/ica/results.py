"""Construction of the `ica` artifact from learned filters: order and signs by convention, and statistics of the outputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from herdcli.algorithm import Map
from herdcli.errors import HerdError
from herdcli.ica.expert_table import SEPARATING, TABLE
from herdcli.ica.filters import filter_convention
from herdcli.ica.model import ICA, ICATrace
from herdcli.ica.whitening import Whitening
from herdcli.numerics import symmetric_matrices
from herdcli.numerics.block_statistics import RowReader
from herdcli.records import dataclass
from herdcli.schema import Array

SIGMAS = 4.0  # a kurtosis differs from 0 if it is more than this many standard errors away


@dataclass(frozen=True)
class ICAFit:
    """The result of an algorithm.

    more         further fields of ICA.      notes  sentences for the user.      chosen  whether each output's density was chosen.
    unconverged  the reason, if an algorithm that converges was stopped before convergence.
    failure      the error after which these are the last good filters: they are written, and the command fails with it.
    """

    J: Array
    gamma: Array
    trace: ICATrace
    iterations: int
    objective: str
    more: dict[str, Any]
    notes: tuple[str, ...] = ()
    chosen: bool = False
    unconverged: str = ""
    failure: HerdError | None = None


def build_ica_artifact(fit: ICAFit, Z: Array | RowReader, whitening: Whitening, *, map: Map = map, **known: Any) -> tuple[ICA, list[str]]:
    """Return the artifact, and warnings about the outputs' kurtoses.

    Z  (n, D) whitened training rows, in memory or read block by block.      known  fields of ICA that the caller knows.
    """
    found = filter_convention.compute_output_moments(Z, fit.J, map)
    dictionary = fit.more.get("dictionary")
    basis = whitening.backward @ (symmetric_matrices.pseudoinverse(fit.J) if dictionary is None else dictionary)
    power = filter_convention.raw_variance_by_output(found.variance, basis)
    topographic = fit.more.get("topography") is not None
    order, signs = filter_convention.order_and_signs(fit.J @ whitening.forward, power, keep_order=topographic)
    more = dict(fit.more)
    if dictionary is not None:
        more["dictionary"] = dictionary[:, order] * signs
    more["experts"] = [fit.more["experts"][i] for i in order.tolist()]
    value = ICA(
        J=fit.J[order] * signs[:, np.newaxis],
        gamma=fit.gamma[order],
        power=power[order],
        kurtosis=found.kurtosis[order],
        whitening=whitening,
        trace=fit.trace,
        objective=fit.objective,
        rows=len(Z) if isinstance(Z, np.ndarray) else Z.count,
        iterations=fit.iterations,
        **more,
        **known,
    )
    return value, [] if topographic else kurtosis_warnings(value, found, fit.chosen)


def kurtosis_warnings(value: ICA, moments: filter_convention.OutputMoments, densities_chosen: bool) -> list[str]:
    """Return warnings from the kurtoses of a square model's outputs.

    densities_chosen  whether each output's density was chosen.
    """
    M, D = value.J.shape
    if M != D or value.dictionary is not None or value.algorithm == "sobi":
        return []
    error, said = filter_convention.kurtosis_standard_error(value.rows), []
    gaussian = filter_convention.looks_gaussian(moments, value.rows)
    if gaussian.sum() > 1:
        why = "their rotation is not identifiable"
        if not densities_chosen:
            why += f", or {value.expert} does not fit them: auto chooses one for each"
        said.append(f"{gaussian.sum()} of {M} outputs look Gaussian ({_format_kurtosis(moments.kurtosis[gaussian], error)}): {why}")
    unlike = np.zeros(M, dtype=bool)
    if not densities_chosen and value.expert in SEPARATING:
        side = -1.0 if TABLE[value.expert].tails == "light" else 1.0
        unlike = side * moments.kurtosis < -SIGMAS * error
    if unlike.any():
        is_, are = ("sub", "super") if TABLE[value.expert].tails == "light" else ("super", "sub")
        told = f"{unlike.sum()} of {M} outputs are {are}-Gaussian ({_format_kurtosis(moments.kurtosis[unlike], error)})"
        said.append(f"{told}, {value.expert} is a {is_}-Gaussian density and cannot separate them: auto chooses one for each")
    return said


def _format_kurtosis(kurtosis: Array, error: float) -> str:
    return f"excess kurtosis from {kurtosis.min():.2f} to {kurtosis.max():.2f}, standard error {error:.2g}"
