"""Merging of several models that were learned separately, on shards of a stream.

precision  Σ⁻¹ = I + Σ_k (Σ_k⁻¹ − I), μ = Σ Σ_k Σ_k⁻¹ μ_k: evidence adds up and the prior N(0, I) counts once.
evidence   μ = (Σ_k E_k)⁻¹ Σ_k E_k μ_k with E_k = Σ_k⁻¹ − I, the evidence of shard k; same Σ.  No shrinkage to 0.
mean       plain means of μ_k and Σ_k.  Models without variances (pa, perceptron) are averaged for every rule.

For shards with different learners see `mixed_merging`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.numerics import symmetric_matrices
from herdcli.numerics.class_baselines import average_baselines
from herdcli.online import mixed_merging
from herdcli.online.learners.algorithm_table import TABLE
from herdcli.online.model import Classifier, Progress, RunningTotals
from herdcli.online.numbers import Predictor
from herdcli.online.predictions.coverage import Coverage
from herdcli.online.tags import Tagger, label_sort_key, reorder_labels
from herdcli.schema import Array, array_spec_of_field

RULES = ("precision", "evidence", "mean")


def merge_models(models: Sequence[Classifier], rule: str) -> Classifier:
    """Return one model merged from several.

    Raises DataError if classes or hashing differ, BadUsage for kernel models.
    """
    models = _add_missing_labels(models)
    if any(model.documents is not None for model in models):
        hint = "learn from all of them: herd nherd-train --continue MODEL FURTHER"
        raise BadUsage("models learned with --text cannot be merged, because each model weights words by its own documents", hint=hint)
    models = _align_columns(models)
    mixed = mixed_merging.learners_differ(models)
    models = mixed_merging.with_calibrated_scores(models) if mixed else mixed_merging.with_common_covariances(models)
    _require_compatible(models)
    if mixed or not TABLE[models[0].settings.algorithm].second_order:
        rule = "mean"
    wide = [add_unseen_columns(model, max(other.columns for other in models)) for model in models]
    scales = _merge_scales(wide)
    wide = _recentre_features(wide, scales)
    first = wide[0].with_scales(scales)
    means = [m.mean for m in wide if m.mean is not None]
    variance = covariance = None
    if first.variance is not None:
        mean, variance = _merge_diagonal(means, [m.variance for m in wide if m.variance is not None], rule)
    else:
        mean, covariance = _merge_full(means, [m.covariance for m in wide if m.covariance is not None], rule)
    return replace(
        first,
        mean=mean,
        variance=variance,
        covariance=covariance,
        race=None,
        passes=None,
        coverage=_merge_coverage(wide),
        running=_merge_running(wide),
        progress=empty_progress(),
        holdout=None,
        baselines=average_baselines([model.baselines for model in models], max(model.features for model in models)),
        scale=_merge_confidence_scales(wide),
        **_kind_specific_fields(wide),  # type: ignore[arg-type]
    )


def _align_columns(models: Sequence[Classifier]) -> Sequence[Classifier]:
    """Return the models with columns in the order of the first, matched by name; those with other names are unchanged."""
    names = models[0].feature_names
    if names is None or len(set(names)) < len(names):
        return models
    return [model if model.feature_names in (None, names) else reorder_features(model, names) for model in models]


def reorder_features(model: Classifier, names: list[str]) -> Classifier:
    """Return a model with its features in the order of names; unchanged if it has others, or joint covariances of all classes.

    Every array whose declaration has a dimension of features is reordered; the column of the bias stays first.
    """
    own = model.feature_names or []
    if sorted(own) != sorted(names) or model.machines:
        return model
    place = {name: column for column, name in enumerate(own)}
    bias = model.columns - len(own)
    order = np.concatenate([np.arange(bias), bias + np.array([place[name] for name in names])]).astype(np.int64)
    changed: dict[str, object] = {"feature_names": list(names)}
    if model.baselines is not None:
        changed["baselines"] = model.baselines.reorder_columns(order[bias:] - bias)
    for declared in fields(model):
        spec, values = array_spec_of_field(declared), getattr(model, declared.name)
        for axis, dim in enumerate(spec.dims if spec is not None and values is not None else ()):
            if dim in ("d", "D"):
                if values.shape[axis] != len(order):
                    return model
                values = np.take(values, order, axis=axis)
                changed[declared.name] = values
    return replace(model, **changed)  # type: ignore[arg-type]


def _add_missing_labels(models: Sequence[Classifier]) -> Sequence[Classifier]:
    """Return taggers with the union of their labels; a label that a shard never saw has mean 0, variance 1 and so no evidence."""
    if not all(isinstance(model, Tagger) for model in models):
        return models
    names = sorted({name for model in models for name in model.classes}, key=label_sort_key)
    return [reorder_labels(model, names) for model in models if isinstance(model, Tagger)]


def _kind_specific_fields(models: Sequence[Classifier]) -> dict[str, object]:
    """Return the additional fields of predictors and taggers.

    Thresholds of a tagger are the means over the shards that saw the label, until they are fitted again.
    """
    if isinstance(models[0], Predictor):
        return {"absolute": sum(model.absolute for model in models if isinstance(model, Predictor))}
    found = [model for model in models if isinstance(model, Tagger)]
    if not found:
        return {}
    own = np.array([model.threshold for model in found])
    met = np.isfinite(own)
    total = np.where(met, own, 0.0).sum(axis=0)
    return {"threshold": total / np.maximum(met.sum(axis=0), 1), "missed": sum(model.missed for model in found)}


def _merge_coverage(models: Sequence[Classifier]) -> Coverage | None:
    """Return how well the shards' prediction sets covered their streams.

    The threshold of the merged model's sets needs examples that no shard has learned.
    """
    found = [model.coverage for model in models if model.coverage is not None]
    if not found:
        return None
    level = found[0].level
    counts = {name: sum(getattr(each, name) for each in found) for name in ("examples", "covered", "size", "unbounded")}
    return Coverage(level=level, alpha=1.0 - level, rate=found[0].rate, **counts)


def _require_compatible(models: Sequence[Classifier]) -> None:
    first = models[0]
    for number, other in enumerate(models[1:], start=2):
        if other.settings.task != first.settings.task:
            tasks = [model.settings.task for model in (other, first)]
            raise DataError(
                f"model {number} was learned for {tasks[0]}, but model 1 for {tasks[1]}", hint="merge models with the same --task"
            )
        if TABLE[other.settings.algorithm].second_order != TABLE[first.settings.algorithm].second_order:
            learned, other_learned = first.settings.algorithm, other.settings.algorithm
            hint = "train all shards with the same --algorithm, since weights are merged by their variances"
            raise DataError(f"model {number} was learned by {other_learned}, but model 1 by {learned}", hint=hint)
        levels = [model.coverage.level if model.coverage else None for model in (other, first)]
        if levels[0] != levels[1]:
            own, others = ("without --coverage" if level is None else f"with --coverage {level:g}" for level in (levels[1], levels[0]))
            raise DataError(f"model {number} was learned {others}, but model 1 {own}", hint="train all shards with the same option")
        if other.zero_based != first.zero_based:
            starts = [0 if model.zero_based else 1 for model in (other, first)]
            raise DataError(
                f"model {number} counts features from {starts[0]}, but model 1 from {starts[1]}",
                hint="train either all models or none with --zero-based",
            )
        if other.classes != first.classes:
            raise DataError(f"model {number} has classes {', '.join(other.classes)}, but model 1 has {', '.join(first.classes)}")
        if (other.bits, other.text == "vw") != (first.bits, first.text == "vw"):
            raise DataError(
                f"model {number} hashes into 2^{other.bits} columns, but model 1 into 2^{first.bits}",
                hint="train all shards with the same --bits (2^0 means no hashing)",
            )
        if other.interactions != first.interactions:
            own, others = (",".join(model.interactions or ["none"]) for model in (first, other))
            raise DataError(
                f"model {number} differs from model 1 in --interactions: {others}, not {own}", hint="train all shards with the same option"
            )
        if other.settings.bias != first.settings.bias:
            raise DataError(f"model {number} differs from model 1 in --bias", hint="train all shards with the same options")
        if other.settings.normalize != first.settings.normalize:
            raise DataError(f"model {number} differs from model 1 in --normalize", hint="train all shards with the same options")
        if other.settings.scaling != first.settings.scaling:
            raise DataError(f"model {number} differs from model 1 in --scale", hint="train all shards with the same options")
        if not first.bits and first.text == "" and other.columns != first.columns:
            raise DataError(f"model {number} has {other.columns} features, but model 1 has {first.columns}")
        if not first.bits and _have_different_names(first, other):
            hint = "train both on the same columns"
            raise DataError(f"model {number} has different column names from model 1", hint=hint)
    if any(model.machines for model in models):
        raise BadUsage("kernel models cannot be merged", hint="train one model on all data: kernel models share no weights")


def _have_different_names(first: Classifier, other: Classifier) -> bool:
    names, others = first.feature_names, other.feature_names
    return names is not None and others is not None and names != others


def add_unseen_columns(model: Classifier, columns: int) -> Classifier:
    """Return the model with further columns that it never saw: mean 0, variance 1."""
    more = columns - model.columns
    if not more:
        return model
    assert model.mean is not None
    mean = np.pad(model.mean, ((0, 0), (0, more)))
    if (scales := model.scales) is not None:
        model = model.with_scales(np.pad(scales, ((0, more), (0, 0))))
    if model.variance is not None:
        return replace(model, mean=mean, variance=np.pad(model.variance, ((0, 0), (0, more)), constant_values=1.0))
    from herdcli.online.learners.full_covariance import widen_covariances

    assert model.covariance is not None
    return replace(model, mean=mean, covariance=widen_covariances(model.covariance, len(mean), model.columns, columns))


def _merge_diagonal(means: list[Array], variances: list[Array], rule: str) -> tuple[Array, Array]:
    if rule == "mean":
        return np.mean(means, axis=0), np.mean(variances, axis=0)
    # Evidence E_k = Σ_k⁻¹ − 1 of each shard beyond the prior N(0, 1), which counts once in Σ⁻¹ = 1 + Σ_k E_k.
    smallest = np.finfo(float).tiny
    precisions = [1.0 / np.maximum(s, smallest) for s in variances]
    evidence = [p - 1.0 for p in precisions]
    total = np.sum(evidence, axis=0)
    if rule == "precision":
        pulled = np.sum([p * mu for p, mu in zip(precisions, means, strict=True)], axis=0)
        return pulled / (1.0 + total), 1.0 / (1.0 + total)
    weighted = np.sum([e * mu for e, mu in zip(evidence, means, strict=True)], axis=0)
    # If no shard has evidence for a weight, 0/0, the plain mean is used.
    known = total > 0
    plain = np.mean(means, axis=0)
    return np.where(known, weighted / np.where(known, total, 1.0), plain), 1.0 / (1.0 + total)


def precision_matrix(covariance: Array) -> Array:
    """Return the inverse of a covariance.  Raises DataError if it is singular: then nothing is left to learn in some direction."""
    try:
        found: Array = np.linalg.inv(covariance)
    except np.linalg.LinAlgError:
        raise DataError("/covariance of a model has no inverse, so the model cannot be merged") from None
    return found


def _merge_full(means: list[Array], covariances: list[Array], rule: str) -> tuple[Array, Array]:
    if rule == "mean":
        return np.mean(means, axis=0), np.mean(covariances, axis=0)
    groups, width = covariances[0].shape[:2]
    shape = means[0].shape
    # The same with matrices: E_k = Σ_k⁻¹ − I.
    eye = np.eye(width)
    precisions = [precision_matrix(part) for part in covariances]
    total = np.sum([p - eye for p in precisions], axis=0)
    flat = [mu.reshape(groups, width) for mu in means]
    if rule == "precision":
        # The product of the shards' N(μ_k, Σ_k), divided by N(0, I) for all but one of them: precisions I + Σ (Σ_k⁻¹ − I), and Σ⁻¹μ = Σ
        # Σ_k⁻¹μ_k.
        pulled = np.sum([np.einsum("gij,gj->gi", p, mu) for p, mu in zip(precisions, flat, strict=True)], axis=0)
        merged = np.linalg.solve(eye + total, pulled[:, :, None])[:, :, 0]
    else:
        weighted = np.sum([np.einsum("gij,gj->gi", p - eye, mu) for p, mu in zip(precisions, flat, strict=True)], axis=0)
        # E = Σ_k E_k is singular if no shard has learned a direction; the shortest solution leaves that direction's mean at 0.
        merged = np.stack([symmetric_matrices.least_squares(t, w, rcond=1e-12)[0] for t, w in zip(total, weighted, strict=True)])
    # E_k ≥ 0, as learning only shrinks covariances, so I + Σ_k E_k has an inverse.
    covariance = np.linalg.inv(eye + total)
    return merged.reshape(shape), (covariance + covariance.transpose(0, 2, 1)) / 2


def _merge_running(models: Sequence[Classifier]) -> RunningTotals:
    parts = [model.running for model in models]
    return RunningTotals(
        examples=sum(p.examples for p in parts),
        squares=sum(p.squares for p in parts),
        seen=sum(p.seen for p in parts),
        wrong=sum(p.wrong for p in parts),
        loss=sum(p.loss for p in parts),
        updates=sum(p.updates for p in parts),
        refused=sum(p.refused for p in parts),
        skipped=sum(p.skipped for p in parts),
    )


def _merge_scales(models: Sequence[Classifier]) -> Array | None:
    """Return the feature sizes that a single run over the values of all shards would have; None if no model has any."""
    found = [scales_to_sums(scales) for model in models if (scales := model.scales) is not None]
    return scales_from_sums(np.sum(found, axis=0)) if found else None


def scales_to_sums(scales: Array) -> Array:
    """Return scales (d, 2) or (d, 5) as sums over examples: the sum of all values in place of a mean."""
    if scales.shape[1] == 2:
        return scales
    found = scales.copy()
    found[:, 2] *= np.where(scales[:, 4] > 0, scales[0, 0], 1.0)  # the bias, which every example has, counts them
    return found


def scales_from_sums(scales: Array) -> Array:
    """Return scales (d, 2) or (d, 5), given sums as `scales_to_sums` returns them.

    A centred feature stays centred, unless fewer than ⅝ of all examples have it; see `fast.standardize`.
    """
    if scales.shape[1] == 2:
        return scales
    found, examples = scales.copy(), float(scales[0, 0])
    centred = (scales[:, 4] > 0) & (8.0 * scales[:, 0] >= 5.0 * examples)
    found[:, 2] /= np.where(centred, examples, 1.0)
    found[:, 3:] = np.where(centred[:, None], scales[:, 3:], 0.0)
    return found


def _recentre_features(models: Sequence[Classifier], scales: Array | None) -> list[Classifier]:
    """Return the models with features centred at common means; the change of scores, w·(mean − own mean) factor, goes to the bias."""
    if scales is None or scales.shape[1] == 2:
        return list(models)
    location, found = np.where(scales[:, 4] > 0, scales[:, 2], 0.0), []
    for model in models:
        own = model.factors
        assert own is not None
        assert model.mean is not None
        mean = model.mean.copy()
        mean[:, 0] += mean @ ((location - own[0]) * own[1])
        found.append(replace(model, mean=mean))
    return found


def empty_progress() -> Progress:
    """Return an empty progress, since the progress of shards does not add up."""
    return Progress(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0))


def _merge_confidence_scales(models: Sequence[Classifier]) -> float:
    """Return the geometric mean of the shards' scales, to be used until the next calibration."""
    return float(np.exp(np.mean([np.log(model.scale) for model in models])))
