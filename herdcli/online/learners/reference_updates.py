"""Reference updates: the closed forms of the family for one example, against which the loops are tested.

With m = y μ·x, v = x'Σx and the half squared hinge ½ max(0, 1 − m)²: μ += α y Σx, and the covariance shrinks by
γ xx' added to its inverse (full, and `project` on the diagonal), by its diagonal (`drop`), or to the diagonal
minimiser (`exact`).  Source: Crammer & Lee (2010), eqs. 9–14, with the corrections of docs/nherd.md.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from herdcli import fast
from herdcli.errors import IncompletePart
from herdcli.fast.numpy_online import SOP, Rule, Step
from herdcli.online.learners.algorithm_table import TABLE
from herdcli.online.model import FORMS, LOSSES, Settings
from herdcli.online.normal_distribution import normal_quantile
from herdcli.schema import Array

KNOWN = range(SOP + 1)  # codes of the updates in the loops


def settings_as_codes(settings: Settings) -> Rule:
    """Return the codes of the settings for the loops."""
    entry = TABLE[settings.algorithm]
    if entry.code not in KNOWN:
        hint = "add it to fast.solve_step and its twin"
        raise IncompletePart(f"the loops have no update {entry.code}, for {settings.algorithm}", hint=hint)
    loss = LOSSES.index(settings.loss) if "loss" in entry.reads else 0
    phi = normal_quantile(settings.confidence) if "confidence" in entry.reads else 0.0
    return (entry.code, FORMS.index(settings.form), loss, int(settings.always_update), settings.C, phi)


def update_step(settings: Settings, m: float, v: float) -> Step:
    """Return (α, γ, shrink, curvature) of an example with margin m and variance v; C must be given."""
    return fast.solve_step(settings_as_codes(settings), m, v, settings.C)


def full_update(mu: Array, sigma: Array, x: Array, y: float, settings: Settings) -> tuple[Array, Array]:
    """Return mean (d,) and full covariance (d, d) after an example."""
    g = sigma @ x
    alpha, _, shrink, _ = update_step(settings, float(y * (mu @ x)), float(x @ g))
    # Eq. 9 and 13: Woodbury turns γ xx' added to Σ⁻¹ into Σ less γ/(1 + γv) gg', g = Σx; with γ = 2C + C²v, 1 + γv = (1 + Cv)².
    return mu + alpha * y * g, sigma - shrink * np.outer(g, g)


def diagonal_update(mu: Array, s: Array, x: Array, y: float, settings: Settings) -> tuple[Array, Array]:
    """Return mean (d,) and variances (d,) after an example."""
    alpha, gamma, shrink, curvature = update_step(settings, float(y * (mu @ x)), float(s @ x**2))
    # Eq. 14, Σ and A diagonal.  drop: the diagonal of eq. 13.  project: the diagonal of eq. 12, inverted; s/(1 + γx²s) takes one
    # division and cannot overflow.  exact: A_r = 1/(1 + C x_r² s_r) minimises (8) coordinate by coordinate, and s takes A_r² (eq. 10).
    moved = mu + alpha * y * s * x
    if settings.form == "drop":
        return moved, s - shrink * (s * x) ** 2
    if settings.form == "exact" and settings.algorithm == "nherd":
        return moved, s / (1 + curvature * x**2 * s) ** 2
    return moved, s / (1 + gamma * x**2 * s)


def five_diagonal_variances(x: Array, C: float) -> dict[str, Array]:
    """Return variances (d,) after one example x at μ = 0, Σ = I under the five diagonal forms of Fig. 2."""
    base = Settings(C=C)
    forms = {"AROW_P": ("arow", "project"), "AROW_D": ("arow", "drop")}
    forms |= {f"NHERD_{form[0].upper()}": ("nherd", form) for form in ("project", "drop", "exact")}
    start = (np.zeros(len(x)), np.ones(len(x)))
    return {
        name: diagonal_update(*start, x, 1.0, replace(base, algorithm=algorithm, form=form))[1] for name, (algorithm, form) in forms.items()
    }
