"""Forgetting for streams that drift: evidence fades, so that variances grow again and new examples move the weights.

The covariance represents the evidence of examples about the weights: Σ⁻¹ = I + E, with prior N(0, I) and evidence E, to which an example
adds γ xx'.  With half-life N the weight of an example falls by ρ = 2^(−1/N) with each further example: E ← ρE.  The mean stays, so that
after k examples without evidence N(μ, Σ) has returned to the width of the prior about μ.  For the diagonal

    s ← 1/(1 + ρᵏ(1/s − 1)) = s/(ρᵏ + (1 − ρᵏ)s),        and full        Σ ← (ρᵏ I + (1 − ρᵏ)Σ)⁻¹ Σ.

Evidence fades every N/64 examples, by about 1 % each time, whatever the blocks.  For N → ∞ it never fades, and the weights are bit for bit
those of a stream without forgetting.  Source: exponential forgetting of recursive least squares, bounded by the prior as in Kulhavý
& Zarrop, "On a general concept of forgetting" (1993).
"""

from __future__ import annotations

import numpy as np

from herdcli.online.learner_state import LearnerState
from herdcli.online.learners.full_covariance import complete_both_triangles
from herdcli.schema import Array

STEPS = 64  # steps per half-life


def fading_interval(half_life: float) -> int:
    """Return the number of examples between two times that evidence fades."""
    return max(1, int(half_life // STEPS))


def fading_row_ends(weight: Array | None, rows: int, examples_before: int, step: int) -> list[int]:
    """Return the rows of a block after which evidence fades, and its end; rows of weight 0 are evaluated and do not count."""
    learned = np.arange(1, rows + 1) if weight is None else np.cumsum(weight != 0)
    at = np.flatnonzero(((examples_before + learned) // step) > ((examples_before + np.concatenate([[0], learned[:-1]])) // step)) + 1
    return at.tolist() if len(at) and at[-1] == rows else [*at.tolist(), rows]


def fade_evidence(state: LearnerState, share: float) -> None:
    """Let evidence fade by `share` of a half-life."""
    left = 0.5**share
    if state.table is not None:
        s = state.table[:, 1]
        s /= left + (1.0 - left) * s
    elif state.stack is not None:
        s = state.stack[:, :, 1]
        s /= left + (1.0 - left) * s
    elif state.sigma is not None:
        for part in complete_both_triangles(state.sigma):
            part[...] = np.linalg.solve(left * np.eye(len(part)) + (1.0 - left) * part, part)
