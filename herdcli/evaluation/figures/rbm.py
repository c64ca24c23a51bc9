"""The metrics of `herd eval` for an `rbm`: likelihoods of the test rows, reconstruction, classification.

With one model per class, each test row is evaluated under the model of its own class, and metrics are means over all test
rows; so `row_log_likelihood` is that of the rows given their labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np

from herdcli.algorithm import Map, ProgressCallback
from herdcli.em.variance_floors import FLOOR
from herdcli.errors import DataError
from herdcli.evaluation.baselines.energy_classification import classification_errors, compare_with_majority_class, naive_bayes_errors
from herdcli.evaluation.baselines.gaussian_baseline import log_densities, predictive_covariance, predictive_variances
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.metrics.partition_functions import log_partitions
from herdcli.evaluation.table import Value
from herdcli.numerics import exact_arithmetic
from herdcli.numerics.row_selection import iterate_row_slices
from herdcli.numerics.scores import Scores
from herdcli.numerics.streamed_rows import StreamedRows
from herdcli.rbm.classification_rbm import label_log_posterior
from herdcli.rbm.feature_transform import free_energies_by_model
from herdcli.rbm.likelihood import word_counts
from herdcli.rbm.likelihood.annealed_importance import BACK_TEMPERATURES, conservative_likelihood_correction
from herdcli.rbm.likelihood.gaussian_moments import GaussianMoments
from herdcli.rbm.likelihood.length_annealing import anneal_log_partitions, log_partitions_by_length
from herdcli.rbm.likelihood.log_z_estimates import AGREED, STUDENT, LogZEstimate
from herdcli.rbm.likelihood.repeated_annealing import MOST_TEMPERATURES
from herdcli.rbm.likelihood.row_likelihood import log_pseudo_likelihood, reconstruction_error, row_log_likelihood
from herdcli.rbm.model import RBM, Harmonium, StoredHeldoutRows
from herdcli.rbm.units import unit_family
from herdcli.schema import Array, Matrix
from herdcli.splits import TEST, VALID

COLUMNS = (
    "log_likelihood",
    "log_likelihood_se",
    "log_likelihood_low",
    "log_likelihood_high",
    "log_z_method",
    "effective_chains",
    "temperatures",
    "independent",
    "gain_se",
    "gaussian",
    "gaussian_gain_se",
    "pseudo_likelihood",
    "reconstruction",
    "free_energy_gap",
    "error",
    "error_1nn",
    "error_majority",
    "error_gain_se",
    "error_independent",
    "error_independent_gain_se",
)
TRACKED = 0.5  # nats: a tracked log-likelihood with a larger standard error is not reliable
MOST_OPERATIONS, LEAST_ROWS = 2 * 10**10, 200  # limits of a pseudo-likelihood: rows × D × K


def metrics(value: RBM, settings: EvaluationSettings, *, map: Map = map, progress: ProgressCallback | None = None) -> dict[str, Value]:
    """Return every column of `COLUMNS`; None if the artifact lacks the rows or scores, or the units have no such metric.

    perplexity         for word counts: e^{−log p per word}, with that of the words' shares in the training rows.
    label_log_likelihood  for models of rows with labels: mean log p(y | v); `error` is that of the most probable label.
    log_likelihood_se  standard error of the mean due to the estimate of log Z: 0 if log Z is exact.  It does not
                       include the variation of the test rows.
    log_likelihood_low, log_likelihood_high  its 95 % interval, also only for the error of log Z.
    log_z_method       `exact`, `anneal_log_partitions`, or `not reliable`: too few effective chains, successive runs disagree, a bound is
                       violated, or reverse annealing from the rows indicates a larger Z.
    log_likelihood_conservative  if log Z is not reliable: a mean with a downward bias, by reverse annealing of rows (RAISE); never
                       above the estimate itself.
    effective_chains, temperatures  those of annealing; None if exact.
    independent        log-likelihood of the test rows under independent columns with the training rows' means.
    gain_se            standard error over the test rows of log_likelihood − independent, without that of log Z.
    gaussian, gaussian_gain_se  for real columns, the same for one Gaussian of the training rows, full or per column.
    log_likelihood_reverse  with its standard error: the same from reverse annealing, if requested.
    log_likelihood_tracked  with its standard error: the same with log Z tracked along the updates by fit-rbm --track-likelihood.
    error_independent, error_independent_gain_se  of models of classes: the error of independent columns for each class, calibrated in the
                       same way, and the standard error over the test rows of what error is below it.
    free_energy_gap    mean free energy of test rows minus that of training rows: the advantage of the training rows.
    With the likelihood `none` only reconstruction, free_energy_gap and errors are computed.
    progress           called with the progress of the annealing.
    """
    result: dict[str, Value] = dict.fromkeys(COLUMNS)
    groups = _test_rows(value)
    if settings.likelihood == "none":
        if value.scores is None and value.labels is None:
            settings.require_likelihood()
        result |= _cheap_row_metrics(value, groups, map)
    elif groups and unit_family(value.visible_units).multinomial:
        result |= word_count_columns(value, groups, settings, map, progress)
    elif groups and value.joint != "discriminative":
        result |= _likelihood_columns(value, groups, settings, map, progress)
    if groups and value.labels is not None:
        result |= _label_columns(value, groups[0], map)
    if value.scores is not None:
        result |= classification_errors(value.scores, settings) | _naive_bayes_columns(value, value.scores, settings)
    return result


def _naive_bayes_columns(value: RBM, scores: Scores, settings: EvaluationSettings) -> dict[str, Value]:
    """Return the error of independent columns for each class; nothing if the rows are not in the artifact or not all classes are known."""
    rows, count = value.holdout, value.count
    if (
        rows is None
        or rows.y is None
        or isinstance(rows.X, StreamedRows)
        or len(independent_natural_parameters(value, range(count))) < count
    ):
        return {}
    alone = _independent_row_log_likelihoods(value, dict.fromkeys(range(count), rows.X))
    if alone is None:
        return {}
    found = np.stack([np.concatenate(alone[m]) for m in range(count)], axis=1)
    return dict(naive_bayes_errors(scores, found, rows.y, rows.split, settings))


def _label_columns(value: RBM, rows: Array, map: Map) -> dict[str, Value]:
    """Return metrics for a model of rows with labels (n, D + C): log p(y | v), and the error of the most probable label."""
    shown = np.asarray(rows[:, value.columns :]).argmax(axis=1)
    found = label_log_posterior(value.harmonium(), np.asarray(rows[:, : value.columns]), map=map)
    result: dict[str, Value] = {"label_log_likelihood": float(found[np.arange(len(shown)), shown].mean())}
    wrong = found.argmax(axis=1) != shown
    if value.base_rates is None:
        return result | {"error": float(wrong.mean())}
    return result | compare_with_majority_class(wrong, shown != value.base_rates[0, value.columns :].argmax())


def word_count_columns(
    value: RBM, groups: dict[int, Matrix], settings: EvaluationSettings, map: Map, progress: ProgressCallback | None = None
) -> dict[str, Value]:
    """Return likelihoods of word counts, each row given its length; perplexities are per word and independent of the word order."""
    total, own, alone, orders, ways, gains = 0, 0.0, 0.0, 0.0, {}, list[Array]()
    for m, rows in groups.items():
        h, (lengths, counts) = value.harmonium(m), np.unique(word_counts.count_words_per_row(rows), return_counts=True)
        base = h.b if value.base_rates is None else value.base_rates[m]
        log_z, ways[m] = _log_z_by_length(h, lengths, counts, m, settings, map, progress)
        each, order = word_counts.row_log_likelihoods(h, rows, lengths, log_z, map=map), h.visible.row_log_base_measure(rows)
        shares = np.asarray(exact_arithmetic.matrix_product(rows, base - exact_arithmetic.log_sum_exp(base)))
        own, orders, alone = own + float(each.sum()), orders + float(np.sum(order)), alone + float(np.sum(shares))
        gains.append(each - order - shares)
        total += int(word_counts.count_words_per_row(rows).sum())
    sizes = {m: int(rows.shape[0]) for m, rows in groups.items()}
    count = sum(sizes.values())
    error = float(np.sqrt(sum(exact_arithmetic.integer_power(sizes[m] * ways[m].standard_error, 2) for m in groups))) / count
    return {
        "log_likelihood": own / count,
        "log_likelihood_se": error,
        "independent": (alone + orders) / count,
        "gain_se": standard_error_of_mean(gains),
        "perplexity": float(exact_arithmetic.exp((orders - own) / total)),
        "perplexity_independent": float(exact_arithmetic.exp(-alone / total)),
    } | _interval_columns(ways, own / count, error)


def _log_z_by_length(
    h: Harmonium, lengths: Array, counts: Array, unit: int, settings: EvaluationSettings, map: Map, progress: ProgressCallback | None
) -> tuple[Array, LogZEstimate]:
    """Return log Z (L,) for row lengths (L,) with `counts` rows each, and the reliability of its mean over these rows."""
    if settings.likelihood == "exact":
        return word_counts.exact_log_partitions(h, lengths), LogZEstimate(0.0, 0.0)
    most, chains, seed = settings.temperatures or MOST_TEMPERATURES, settings.chains, settings.seed
    if settings.likelihood == "ais":
        found = anneal_log_partitions(
            h, lengths, counts, chains=chains, max_sweeps=most, seed=seed, unit=unit, single_run=True, map=map, progress=progress
        )
    else:
        found = log_partitions_by_length(
            h, lengths, counts, chains=chains, max_sweeps=most, seed=seed, unit=unit, map=map, progress=progress
        )
    return found.log_z, found.mean


def _test_rows(value: RBM) -> dict[int, Array]:
    """Return test rows (n_m, D) for each model m that has any."""
    if value.holdout is None:
        return {}
    return rows_by_model(value.holdout, value.holdout.split == TEST, value.count)


def rows_by_model(rows: StoredHeldoutRows, chosen: Array, count: int, max_rows: int | None = None) -> dict[int, Matrix]:
    """Return the chosen rows (n_m, D) of each model that has any, at most the first `max_rows`, as they are stored."""
    if count > 1 and rows.y is None:
        raise DataError("/holdout/y is missing: a file with several models needs the labels of its held-out rows")
    groups = {m: np.flatnonzero(chosen if count == 1 else chosen & (rows.y == m))[:max_rows] for m in range(count)}
    if isinstance(rows.X, StreamedRows) and max_rows is None:
        return {m: rows.X.select_among(np.isin(np.arange(len(chosen)), index)) for m, index in groups.items() if len(index)}
    return {m: rows.X[index] for m, index in groups.items() if len(index)}


def _cheap_row_metrics(value: RBM, groups: dict[int, Matrix], map: Map) -> dict[str, Value]:
    """Return the metrics of test rows that need neither log Z nor all conditionals."""
    models, total = {m: value.harmonium(m) for m in groups}, sum(rows.shape[0] for rows in groups.values())
    if not groups or value.joint == "discriminative" or unit_family(value.visible_units).multinomial:
        return {}
    found: dict[str, Value] = {}
    found["reconstruction"] = float(sum(reconstruction_error(models[m], rows, map=map).sum() for m, rows in groups.items()) / total)
    if value.training_energy is not None:
        gaps = ((free_energies_by_model([models[m]], rows, map) - value.training_energy[m]).sum() for m, rows in groups.items())
        found["free_energy_gap"] = float(sum(gaps) / total)
    return found


def _likelihood_columns(
    value: RBM, groups: dict[int, Matrix], settings: EvaluationSettings, map: Map, progress: ProgressCallback | None
) -> dict[str, Value]:
    models = {m: value.harmonium(m) for m in groups}
    # Annealing is unbiased from any start: if base rates are unknown, those of the evaluated rows can be used.
    bases = {m: h.visible.base_rate_parameters(groups[m]) for m, h in models.items()} | independent_natural_parameters(value, groups)
    ways = log_partitions(models, bases, groups | _validation_rows(value), settings, map, progress)
    if value.tracked_log_z is not None and value.tracked_se is not None:
        ways["_tracked"] = {m: LogZEstimate(float(value.tracked_log_z[m]), float(value.tracked_se[m])) for m in groups}
    total = sum(rows.shape[0] for rows in groups.values())
    sums = dict.fromkeys(["log_likelihood", "reconstruction"], 0.0)
    finite = unit_family(value.visible_units).has_finite_values
    if finite:
        sums["pseudo_likelihood"] = 0.0
    if value.training_energy is not None:
        sums["free_energy_gap"] = 0.0
    own: dict[int, Array] = {}
    for m, rows in groups.items():
        values = models[m].visible.round_rows_to_states(rows)
        own[m] = row_log_likelihood(models[m], values, ways[""][m].log_partition, map=map)
        sums["log_likelihood"] += own[m].sum()
        sums["reconstruction"] += reconstruction_error(models[m], rows, map=map).sum()
        if finite:
            sums["pseudo_likelihood"] += _pseudo_likelihood(models[m], values, map)
        if value.training_energy is not None:
            sums["free_energy_gap"] += (free_energies_by_model([models[m]], rows, map) - value.training_energy[m]).sum()
    sums["log_likelihood"] -= total * _standardisation_log_scale(value)
    result: dict[str, Value] = {name: float(figure / total) for name, figure in sums.items()}
    result["independent"], result["gain_se"] = compare_with_independent(value, groups, own)
    result |= gaussian_baseline_columns(value, groups, own)
    for suffix, found in ways.items():
        shift = sum(rows.shape[0] * (ways[""][m].log_partition - found[m].log_partition) for m, rows in groups.items()) / total
        # The models' log Z are estimated separately; each enters the mean over all rows in proportion to its rows.
        error = (
            np.sqrt(sum(exact_arithmetic.integer_power(rows.shape[0] * found[m].standard_error, 2) for m, rows in groups.items())) / total
        )
        result[f"log_likelihood{suffix}"] = sums["log_likelihood"] / total + float(shift)
        result[f"log_likelihood{suffix}_se"] = float(error)
    if not all(one.reliable for one in ways[""].values()):
        lower = _likelihood_correction(models, bases, groups, ways[""], settings, map)
        least = sums["log_likelihood"] / total + lower
        if result["independent"] is None or least > float(result["independent"]):  # a lower value carries no information
            result["log_likelihood_conservative"] = least
    return result | _interval_columns(ways[""], float(sums["log_likelihood"] / total), float(result["log_likelihood_se"] or 0.0))


def _likelihood_correction(
    models: Mapping[int, Harmonium],
    bases: Mapping[int, Array],
    groups: dict[int, Matrix],
    estimates: Mapping[int, LogZEstimate],
    settings: EvaluationSettings,
    map: Map,
) -> float:
    """Return the amount to subtract from the mean log-likelihood for a downward bias, by reverse annealing of some rows of each model."""
    total, temperatures = sum(int(rows.shape[0]) for rows in groups.values()), settings.temperatures or BACK_TEMPERATURES
    return sum(
        conservative_likelihood_correction(h, groups[m], estimates[m].log_partition, bases[m], temperatures, settings.seed, m, map=map)
        * int(groups[m].shape[0])
        / total
        for m, h in models.items()
    )


def _pseudo_likelihood(h: Harmonium, rows: Matrix, map: Map) -> float:
    """Return the sum over rows (n, D); if it would need too many operations, it is extrapolated from evenly spaced rows."""
    count = int(rows.shape[0])
    every = -(-count // max(LEAST_ROWS, MOST_OPERATIONS // h.W.size))
    chosen = rows[::every]
    return float(log_pseudo_likelihood(h, chosen, map=map).sum()) * count / int(chosen.shape[0])


def _interval_columns(estimates: Mapping[int, LogZEstimate], likelihood: float, error: float) -> dict[str, Value]:
    """Return the 95 % interval of the log-likelihood, and the method for log Z: for several models, the worst of them."""
    reach = STUDENT * error
    effective = [one.effective for one in estimates.values() if one.effective is not None]
    temperatures = [one.temperatures for one in estimates.values() if one.temperatures is not None]
    reliable = all(one.reliable for one in estimates.values())
    return {
        "log_likelihood_low": likelihood - reach,
        "log_likelihood_high": likelihood + reach,
        "log_z_method": ("annealed" if effective else "exact") if reliable else "not reliable",
        "effective_chains": min(effective, default=None),
        "temperatures": max(temperatures, default=None),
    }


def _validation_rows(value: RBM) -> dict[int, Array]:
    """Return the validation rows of each model, whose means are the start of annealing."""
    return rows_by_model(value.holdout, value.holdout.split == VALID, value.count) if value.holdout is not None else {}


def independent_log_likelihood(value: RBM, groups: dict[int, Array], *, standardised: bool = False) -> float | None:
    """Return the mean log-likelihood of rows under independent columns with the training rows' means; None if those are unknown.

    standardised  whether the rows are standardised as for the model; else the original rows.
    """
    each = _independent_row_log_likelihoods(value, groups)
    return None if each is None else _mean_over_models(each) - (0.0 if standardised else _standardisation_log_scale(value))


def _mean_over_models(values_by_model: Mapping[int, list[Array]]) -> float:
    parts, total = [part for found in values_by_model.values() for part in found], 0.0
    for part in parts:
        total += float(part.sum())
    return total / sum(len(part) for part in parts)


def _independent_row_log_likelihoods(value: RBM, groups: dict[int, Array]) -> dict[int, list[Array]] | None:
    """Return the log-likelihood of each standardised row, in blocks; None if the training rows' means are unknown."""
    bases, units = independent_natural_parameters(value, groups), unit_family(value.visible_units)
    if any(m not in bases for m in groups):
        return None
    found: dict[int, list[Array]] = {}
    if value.learn_variances and value.gaussian is not None and value.labels is None:
        return {m: [_independent_gaussian_log_densities(value.gaussian, m, rows)] for m, rows in groups.items()}
    for m, rows in groups.items():
        fixed = units.log_partition(bases[m]).sum()
        values = (units.round_rows_to_states(rows[block].astype(np.float64)) for block in iterate_row_slices(rows))
        found[m] = [exact_arithmetic.matrix_product(each, bases[m]) - fixed + units.row_log_base_measure(each) for each in values]
    return found


def _independent_gaussian_log_densities(moments: GaussianMoments, m: int, rows: Matrix) -> Array:
    """Return log densities (n,) of rows (n, D) under independent columns with the variances of the training rows.

    The variances that a model learned cannot be used: they are residual, after its hidden units, and too small for single columns.
    """
    variance = _column_variances(moments, m)
    return log_densities(
        np.asarray(rows, dtype=np.float64), moments.mean[m], predictive_variances(variance, int(moments.rows[m]), FLOOR * variance)
    )


def _column_variances(moments: GaussianMoments, m: int) -> Array:
    """Return the variances (D,) of the columns of model m; a constant column gets the variance 1 of the model's units."""
    variance = np.diagonal(moments.covariance[m])
    return np.asarray(np.where(variance > 0, variance, 1.0))


def compare_with_independent(
    value: RBM, groups: dict[int, Array], model_log_likelihoods: Mapping[int, Array]
) -> tuple[float | None, float | None]:
    """Return `independent_log_likelihood`, and the standard error over rows of the gain of the model's log-likelihoods (n_m,) over it."""
    alone = _independent_row_log_likelihoods(value, groups)
    if alone is None:
        return None, None
    return _mean_over_models(alone) - _standardisation_log_scale(value), standard_error_of_mean(
        [model_log_likelihoods[m] - np.concatenate(alone[m]) for m in groups]
    )


def gaussian_baseline_columns(value: RBM, groups: dict[int, Array], model_log_likelihoods: Mapping[int, Array]) -> dict[str, Value]:
    """Return `gaussian`, the log-likelihood under one Gaussian for each model's training rows, full or per column (the better one).

    Also return the standard error over rows of the gain of the model's own log-likelihoods (n_m,) over it.  The result is empty
    if the rows' moments are unknown.
    """
    known = value.gaussian
    if known is None:
        return {}
    ways: list[dict[int, Array]] = [{}, {}, {}]
    for m, rows in groups.items():
        X, n, mean, S = np.asarray(rows, dtype=np.float64), int(known.rows[m]), known.mean[m], known.covariance[m]
        variance = _column_variances(known, m)
        S = S + np.diag(variance - np.diagonal(S))
        scale = np.sqrt(variance)
        spreads = [predictive_variances(variance, n, FLOOR * np.square(scale))]
        spreads += [predictive_covariance(S, n, FLOOR, scale, shrunk=shrunk) for shrunk in (True, False)]
        for way, spread in zip(ways, spreads, strict=True):
            way[m] = log_densities(X, mean, spread)
    best = max(ways, key=lambda way: sum(float(each.sum()) for each in way.values()))
    mean_of = _mean_over_models({m: [each] for m, each in best.items()})
    return {
        "gaussian": mean_of - _standardisation_log_scale(value),
        "gaussian_gain_se": standard_error_of_mean([model_log_likelihoods[m] - best[m] for m in groups]),
    }


def standard_error_of_mean(parts: Sequence[Array]) -> float | None:
    """Return the standard error of the mean of all numbers of the parts (n,); None for fewer than two."""
    each = np.concatenate([np.empty(0), *parts])
    return float(each.std(ddof=1) / np.sqrt(len(each))) if len(each) > 1 else None


def independent_natural_parameters(value: RBM, models: Iterable[int]) -> dict[int, Array]:
    """Return natural parameters (D,) of independent columns for each model: the stored ones, else from its validation rows, else none."""
    if value.base_rates is not None:
        return {m: value.base_rates[m] for m in models}
    units, known = unit_family(value.visible_units), _validation_rows(value)
    return {m: units.base_rate_parameters(known[m]) for m in models if m in known}


def _standardisation_log_scale(value: RBM) -> float:
    """Return the difference of log-likelihoods between a standardised row and the original row."""
    # The model has x/s: the density of x is that of x/s divided by Π s.
    return 0.0 if value.column_scale is None else float(exact_arithmetic.log(np.asarray(value.column_scale, dtype=np.float64)).sum())


def unreliable_log_z_message(row: Mapping[str, Any]) -> str | None:
    """Return a message about a tracked log Z that is not reliable; None if it is reliable or there is none.

    It is not reliable if its populations differ by too much, or if it differs from the reliable log Z computed here by more
    than both errors allow.
    """
    error = row.get("log_likelihood_tracked_se")
    if error is None:
        return None
    if not error <= TRACKED:
        return (
            f"the tracked log-likelihood is not reliable: its standard error is {error:.3g} nats, beyond {TRACKED:g}; lower --learning-rate"
        )
    found, tracked = row["log_likelihood"], row["log_likelihood_tracked"]
    reach = STUDENT * float(exact_arithmetic.hypot(error, row["log_likelihood_se"])) + AGREED
    if row["log_z_method"] == "not reliable" or abs(tracked - found) <= reach:
        return None
    how = "summed over all states" if row["log_z_method"] == "exact" else "annealed"
    return f"the tracked log-likelihood is not reliable: it is {tracked:.2f} nats, with log Z {how} {found:.2f}"


def worse_than_independent_message(row: Mapping[str, Any]) -> str:
    """Return a message about a model that explains held-out rows worse than independent columns, with both in nats per row."""
    against = f"{row['log_likelihood']:.2f} against {row['independent']:.2f} nats per row"
    more = "or take more --gibbs-steps" if "perplexity" in row else "take more --gibbs-steps, or --algorithm pt"
    return f"the model explains held-out rows worse than independent columns do ({against}): lower --learning-rate, {more}"


def ranking_messages(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each pair of models whose order by pseudo-likelihood differs from that by log-likelihood."""
    known = [row for row in rows if row.get("pseudo_likelihood") is not None and row.get("log_likelihood") is not None]
    return [
        f"pseudo-likelihood ranks {a['file']} above {b['file']}, the log-likelihood below"
        for a, b in permutations(known, 2)
        if a["pseudo_likelihood"] > b["pseudo_likelihood"] and a["log_likelihood"] < b["log_likelihood"]
    ]
