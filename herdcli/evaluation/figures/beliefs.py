"""The metrics of `herd eval` for `beliefs`: the convergence of the run, and its error against a reference."""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import Map, ProgressCallback
from herdcli.errors import DataError
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.markov.model.beliefs import Beliefs
from herdcli.records import dataclass
from herdcli.schema import Array

COLUMNS = (
    "variables", "log_z", "log_z_mean_field", "converged", "residual", "iterations", "consistency_gap", "scaling_updates",
    "propagation_updates", "free_energy_rise", "fixed_points", "marginal_error", "marginal_error_max", "marginal_l1", "log_z_error",
    "log_z_lower", "log_z_upper", "log_value", "log_value_upper", "estimated_error", "exact_cells",
)  # fmt: skip


@dataclass(frozen=True)
class BeliefsWithReference:
    """Beliefs with the marginals of a reference, and its log Z if that is known."""

    beliefs: Beliefs
    marginals: list[Array]
    log_z: float | None


def metrics(
    value: Beliefs | BeliefsWithReference, settings: EvaluationSettings, *, map: Map = map, progress: ProgressCallback | None = None
) -> dict[str, float | None]:
    """Return every column of `COLUMNS`; None for those that need a missing reference.

    marginal_error      mean over all states of |b_i(x_i) − reference|; marginal_error_max the largest.
    marginal_l1         mean over variables of Σ_x |b_i(x) − reference|.
    log_z_mean_field    lower bound of log Z by naive mean field; a correct answer is not below it.
    free_energy_rise    largest rise of the free energy from one iteration to the next, 0 if it never rose.
    fixed_points        number of distinct fixed points that --restarts found.
    log_z_error         |log Z − reference|, natural logarithms.
    log_z_lower         and log_z_upper, bounds that were computed together with the answer, or those of --query bounds.
    estimated_error     largest error of a marginal, estimated by exact inference or by short chains in the same run.
    exact_cells         table cells of a junction tree, if exact inference is affordable.
    log_value           log Σ Π f over the states that agree with --query mpe or mmap, instead of log_z, which sums over all states;
                        log_value_upper, an upper bound for all assignments.
    """
    found = value.beliefs if isinstance(value, BeliefsWithReference) else value
    energies = found.trace.free_energy[np.isfinite(found.trace.free_energy)]
    result: dict[str, float | None] = dict.fromkeys(COLUMNS)
    result |= {
        "variables": len(found.node_offset) - 1,
        "log_z": found.log_z if found.assignment is None else None,
        "log_z_lower": found.log_z_lower,
        "log_z_upper": found.log_z_upper,
        "estimated_error": found.estimated_error,
        "exact_cells": found.exact_cells,
        "log_value": None if found.assignment is None else found.log_z,
        "log_value_upper": found.log_value_upper,
        "log_z_mean_field": found.log_z_mean_field,
        "converged": int(found.converged),
        "residual": found.residual,
        "iterations": found.iterations,
        "consistency_gap": found.consistency_gap,
        "scaling_updates": found.scaling_updates,
        "propagation_updates": found.propagation_updates,
        "free_energy_rise": max(0.0, float(np.diff(energies).max())) if len(energies) > 1 else None,
        "fixed_points": None if found.fixed_point_energy is None else len(found.fixed_point_energy),
    }
    return result | _reference_errors(value) if isinstance(value, BeliefsWithReference) else result


def _reference_errors(value: BeliefsWithReference) -> dict[str, float | None]:
    ours = value.beliefs.marginals()
    if len(ours) != len(value.marginals):
        raise DataError(f"has {len(ours)} variables, but the --reference has {len(value.marginals)}")
    for i, (p, q) in enumerate(zip(ours, value.marginals, strict=True)):
        if len(p) != len(q):
            raise DataError(f"variable {i} has {len(p)} states, but {len(q)} in the --reference")
    differences = [np.abs(p - q) for p, q in zip(ours, value.marginals, strict=True)]
    every = np.concatenate(differences)
    return {
        "marginal_error": float(every.mean()),
        "marginal_error_max": float(every.max()),
        "marginal_l1": float(np.mean([part.sum() for part in differences])),
        "log_z_error": None if value.log_z is None or value.beliefs.assignment is not None else abs(value.beliefs.log_z - value.log_z),
    }
