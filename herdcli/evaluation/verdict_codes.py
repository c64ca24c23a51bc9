"""Stable codes of verdicts for scripts: the text of a finding may change, but not its code.

`herd eval --format json` writes them in `verdict_code`, next to the text in `verdict`.
"""

from __future__ import annotations

SEPARATOR = "; "  # separates the findings of a verdict, and their codes

CODES = {
    "ok": "ok",
    "no test rows": "no_test_rows",
    "diverged": "diverged",
    "not converged": "not_converged",
    "not reliable": "not_reliable",
    "learned nothing": "learned_nothing",
    "overfits": "overfits",
    "worse than independent": "worse_than_independent",
    "worse than one Gaussian": "worse_than_one_gaussian",
    "worse than baseline": "worse_than_baseline",
    "worse than the mean": "worse_than_the_mean",
    "worse than majority": "worse_than_majority",
    "worse than naive Bayes": "worse_than_naive_bayes",
    "worse than nearest centroid": "worse_than_nearest_centroid",
    "worse than a linear model": "worse_than_a_linear_model",
    "worse than persistence": "worse_than_persistence",
    "worse than random": "worse_than_random",
    "worse than whitening": "worse_than_whitening",
    "worse than correlation": "worse_than_correlation",
    "no better than chance": "no_better_than_chance",
    "one class": "one_class",
    "misleading probabilities": "misleading_probabilities",
    "separated": "separated",
    "dead units": "dead_units",
    "dead filters": "dead_filters",
    "gaussian outputs": "gaussian_outputs",
    "too few rows": "too_few_rows",
    "variance at floor": "variance_at_floor",
    "unstable": "unstable",
    "impossible rows": "impossible_rows",
    "kernel too narrow": "kernel_too_narrow",
    "kernel too wide": "kernel_too_wide",
    "one point": "one_point",
    "embedding too coarse": "embedding_too_coarse",
    "below mean field": "below_mean_field",
    "log Z above its bound": "log_z_above_bound",
    "inaccurate marginals": "inaccurate_marginals",
    "inconsistent marginals": "inconsistent_marginals",
    "marginals not checked": "marginals_not_checked",
    "chains disagree": "chains_disagree",
    "sampling error": "sampling_error",
    "WRONG": "wrong",  # an answer of `herd selftest`
}


def verdict_code(verdict: str | None) -> str | None:
    """Return the codes of all findings of a verdict, in their order and with the same separator.

    Returns None without a verdict, and for findings that are not in CODES, which reports of other versions of herd may have.
    """
    codes = [CODES.get(finding) for finding in (verdict or "").split(SEPARATOR)]
    known = [code for code in codes if code is not None]
    return SEPARATOR.join(known) if len(known) == len(codes) else None
