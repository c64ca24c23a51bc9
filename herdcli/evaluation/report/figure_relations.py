"""Relations between the metrics of `herd eval`: the standard error, interval and baselines of each, and its section."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from herdcli.evaluation.report.column_descriptions import metric_title

# metric -> its baselines; gain_se belongs to the first
BASELINES: dict[str, tuple[str, ...]] = {
    "log_likelihood": (
        "independent",
        "log_likelihood_baseline",
        "log_likelihood_whitening",
        "gaussian",
        "log_likelihood_gaussian",
        "log_likelihood_independent",
        "log_likelihood_mixture",
        "log_likelihood_one_state",
        "log_likelihood_persistence",
        "log_likelihood_unlinked",
        "log_likelihood_alone",
        "log_likelihood_linear",
    ),
    "log_likelihood_bound": ("independent", "log_likelihood_first"),
    "log_z": ("log_z_mean_field",),
    "squared_error": ("squared_error_baseline",),
    "error": ("error_majority", "error_1nn", "error_independent", "error_centroid", "error_linear"),
    "rmse": ("rmse_mean", "rmse_linear", "rmse_alone"),
    "hamming": ("hamming_none",),
    "perplexity": ("perplexity_independent",),
    "mmd": ("mmd_random", "sampling_floor"),
    "moment_gap": ("moment_gap_random",),
    "reconstruction": ("reconstruction_mean",),
    "prediction_error": ("persistence", "mean_error"),
    "kurtosis_heldout": ("kurtosis_whitening",),
}
# metric -> its standard error
ERRORS: dict[str, str] = {
    "log_likelihood": "log_likelihood_se",
    "log_likelihood_bound": "log_likelihood_bound_se",
    "log_likelihood_first": "log_likelihood_first_se",
    "log_likelihood_reverse": "log_likelihood_reverse_se",
    "log_likelihood_tracked": "log_likelihood_tracked_se",
    "log_likelihood_bound_reverse": "log_likelihood_bound_reverse_se",
    "mmd": "mmd_error",
    "gain": "gain_se",
}
# metric -> lower and upper end of its 95 % interval
INTERVALS: dict[str, tuple[str, str]] = {
    "log_likelihood": ("log_likelihood_low", "log_likelihood_high"),
    "log_z": ("log_z_lower", "log_z_upper"),
}
LABELS: dict[str, str] = {
    "independent": "independent columns",
    "log_likelihood_baseline": "baseline",
    "log_likelihood_whitening": "whitening",
    "gaussian": "one Gaussian",
    "log_likelihood_gaussian": "one Gaussian",
    "log_likelihood_independent": "independent columns",
    "log_likelihood_mixture": "states without order",
    "log_likelihood_one_state": "one state",
    "log_likelihood_persistence": "persistence",
    "log_likelihood_unlinked": "without the rows before",
    "log_likelihood_alone": "row by itself",
    "log_likelihood_first": "first layer",
    "log_likelihood_linear": "linear model",
    "rmse_linear": "linear model",
    "log_z_mean_field": "mean field",
    "squared_error_baseline": "mean",
    "error_majority": "majority",
    "error_1nn": "nearest neighbour",
    "error_independent": "naive Bayes",
    "error_centroid": "nearest centroid",
    "error_linear": "linear model",
    "rmse_mean": "mean",
    "rmse_alone": "row by itself",
    "hamming_none": "no labels",
    "perplexity_independent": "independent words",
    "mmd_random": "random rows",
    "sampling_floor": "independent draws",
    "moment_gap_random": "independent draws",
    "reconstruction_mean": "mean image",
    "persistence": "persistence",
    "mean_error": "mean",
    "kurtosis_whitening": "whitening",
}  # names of baselines in a line with their metric
SECTIONS: dict[str, tuple[str, ...]] = {
    "likelihood": (
        "log_likelihood", "log_likelihood_bound", "log_likelihood_first", "gain", "perplexity", "label_log_likelihood",
        "log_likelihood_valid", "log_likelihood_train", "train_log_likelihood", "free_energy_gap", "pseudo_likelihood",
        "bound", "bic", "aic", "icl",
        "code_length", "bits_back", "code_length_hard", "explained", "train_explained", "pearson_ratio", "score_matching",
    ),
    "log Z": ("log_z", "log_z_method", "effective_chains", "temperatures", "log_value", "log_value_upper", "log_z_error"),
    "prediction": (
        "error", "rmse", "mae", "r2", "auc", "log_loss", "brier", "calibration_error", "coverage", "set_size", "width", "coverage_95",
        "hamming", "micro_f1", "macro_f1", "subset_accuracy", "prediction_error", "reconstruction", "squared_error",
        "squared_error_valid", "squared_error_train", "error_train", "adjusted_rand", "mutual_information",
    ),
    "distance from the target": (
        "mmd", "target_mmd", "moment_gap", "mean_error", "second_error", "kl", "marginal_l1", "marginal_error", "marginal_error_max",
        "reference_l1", "joint_l1", "law_distance", "max_entropy_distance", "amari", "amari_squared", "sir", "sir_least",
        "estimated_error", "consistency_gap",
    ),
    "while learning": (
        "progressive_error", "progressive_loss", "progressive_coverage", "progressive_set_size", "progressive_rmse", "progressive_mae",
        "progressive_width", "progressive_hamming",
    ),
    "run": (
        "converged", "iterations", "residual", "rise", "free_energy_rise", "floors", "objective", "acceptance", "best_epoch",
        "scaling_updates", "propagation_updates", "fixed_points", "weight_norm", "weight_growth", "moment_gap_times_t", "exact_cells",
    ),
    "size": (
        "rows", "judged_on", "variables", "factors", "components", "states", "hidden", "filters", "dimensions", "atoms", "groups", "pairs",
        "family", "sequences_train",
    ),
}  # fmt: skip
OTHER = "other figures"  # the section of metrics without a section
NOT_OF_ROWS = frozenset({"moment_gap", "reconstruction"})  # metrics that need no held-out rows
FIRST = ("file", "verdict")  # first columns in a table of several artifacts


def baseline_label(baseline: str, kind: str = "") -> str:
    """Return a description of a baseline in a few words."""
    return "mean response" if kind in ("regression", "perceptron") and baseline == "independent" else LABELS[baseline]


def heldout_metric_text(kind: str, row: Mapping[str, object], baseline: str | None) -> str:
    """Return the main metric of a row with its baseline, for the last line of a fit; an empty text if it has none."""
    own = next((name for name, others in BASELINES.items() if baseline in others and row.get(name) is not None), None)
    if own is None or baseline is None:
        return ""
    value, base = row[own], row.get(baseline)
    if not isinstance(value, (int, float)) or not isinstance(base, (int, float)) or not math.isfinite(value):
        return ""
    # The verdict raises metrics from short annealing by their error, so the value is the end of an interval.
    limit = "up to " if row.get("log_z_method") == "annealed" else ""
    same = next(
        (name for name in BASELINES[own] if name != baseline and row.get(name) == base), baseline
    )  # the name of the better of two baselines
    where = "" if own in NOT_OF_ROWS else "held-out "
    return f"{where}{metric_title(own)} {limit}{value:.4g} ({baseline_label(same, kind)} {base:.4g})"


def metric_with_gain(row: Mapping[str, object]) -> str | None:
    """Return the metric to which `state_gap` and `gain_se` of a row belong, or None."""
    return next((name for name in ("log_likelihood", "squared_error") if row.get(name) is not None), None)


def metric_section(metric: str) -> str:
    """Return the section of a metric; a baseline, error or interval is in the section of its metric."""
    for title, members in SECTIONS.items():
        if metric in members:
            return title
    for table in (BASELINES, INTERVALS):
        for own, others in table.items():
            if metric in others:
                return metric_section(own)
    for own, error in ERRORS.items():
        if metric == error and own != metric:
            return metric_section(own)
    return OTHER


def sort_by_interest(columns: Iterable[str]) -> list[str]:
    """Return columns in order of interest: file, verdict, then the metrics of each section, each followed by its error and baselines."""
    present = list(columns)
    ordered: list[str] = [name for name in FIRST if name in present]
    for members in SECTIONS.values():
        for name in members:
            low_high = INTERVALS.get(name, ())
            beside = ([ERRORS[name]] if name in ERRORS else []) + [*BASELINES.get(name, ()), *low_high]
            ordered += [column for column in (name, *beside) if column in present]
    return list(dict.fromkeys([*ordered, *present]))
