"""The verdict on a model: `ok`, or all its problems in a few words each, found by comparing its metrics with simple baselines.

`herd eval` and the end of training use the same functions.  A verdict names problems that make a model useless or misleading; a model
that could be better is `ok`.  It lists every finding, the loss against the baseline first, separated by semicolons.

The table of kinds names the baseline of each kind (`baseline`), and its possible verdicts (`verdicts`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from herdcli.algorithm import Map
from herdcli.evaluation.verdict_advice import ADVICE, DIVERGED, TOLD, join_advice
from herdcli.evaluation.verdict_codes import SEPARATOR
from herdcli.kinds import KINDS
from herdcli.parts import import_by_path
from herdcli.schema import Array

OK, NO_ROWS = "ok", "no test rows"  # the second one: there are no rows for an evaluation
LITTLE = 0.01  # least share of the baseline's own loss that a model must gain
ALIKE = 0.001  # losses that differ by less than this share of the baseline are equal
SHARE = 1 / 3  # share of the gain on training rows that other rows must gain too
ERRORS = 2.0  # standard errors that make a significant difference
MOST_ROWS = 1000
EXCESS = 0.1  # nats by which log Z may exceed its bound: Z is then a tenth too large
INACCURATE = 0.05  # estimated error of a marginal that makes an answer unreliable
UNCHECKED = "nothing"  # `estimated_by` for a network too large for a second method
RIGHT = 0.01  # error of a marginal, by exact inference, with which missing convergence does not matter
SLACK = 1e-6  # nats by which log Z may be below its bound because of rounding
STILL = 0.5  # share of hidden units that may be dead
MOST_SHARE = 1 / 3  # largest ratio of components to rows
SHRINKAGE = 0.05  # nats per column that the shrinkage of a Gaussian's covariance may gain
FEW_ERRORS = 0.005  # share of rows that a classifier may get wrong in excess of a simple one
LEAST_AREA = 0.05  # an area under the curve less than this above ½ is chance, however many rows there are
LEAST_ROWS = 5  # rows per dimension for independent components
BY_KURTOSIS = ("ml", "infomax", "fastica", "picard")  # algorithms that identify sources by their non-Gaussianity
NO_KURTOSIS = 4.0  # standard errors √(24/n) by which a kurtosis must differ from 0, as in `ica.filters.filter_convention`

Row = Mapping[str, Any]

KNOWN = frozenset(verdict for kind in KINDS.values() for verdict in kind.verdicts) | {OK, DIVERGED, NO_ROWS}


def verdict_text(kind: str, row: Row, value: Any) -> str | None:
    """Return the verdict on a row of metrics of an artifact; None for kinds without verdicts."""
    path, known = KINDS[kind].findings if kind in KINDS else None, row.get("verdict")
    if path is None or known == NO_ROWS:
        return known
    if kind != "network" and any(isinstance(row.get(name), float) and math.isinf(row[name]) for name in FINITE):
        return DIVERGED
    found = import_by_path(path)(row, value)
    findings = [*split_findings(known), *([] if known is not None and found == [NO_ROWS] else found)]
    return join_findings(sorted(findings, key=lambda finding: finding not in LOSSES))


def join_findings(findings: Iterable[str | None]) -> str:
    """Join all findings, each once, in order; return `ok` if there are none."""
    return SEPARATOR.join(dict.fromkeys(finding for finding in findings if finding)) or OK


def split_findings(verdict: str | None) -> list[str]:
    """Return the findings of a verdict; an empty list for `ok`."""
    return [] if verdict in (None, OK) else verdict.split(SEPARATOR)


LOSSES = frozenset(
    {
        "worse than independent", "worse than one Gaussian", "worse than baseline", "worse than the mean", "worse than majority",
        "worse than random", "worse than whitening", "worse than correlation", "worse than nearest centroid", "worse than a linear model",
        "worse than naive Bayes", "no better than chance", "impossible rows", "learned nothing",
    }
)  # fmt: skip
FINITE = ("log_likelihood", "objective", "moment_gap", "weight_norm", "reconstruction", "log_loss", "mmd")


def loss_finding(
    log_likelihood: float | None,
    baseline: float | None,
    *,
    worse: str,
    error: float = 0.0,
    scale: float | None = None,
    spread: float | None = None,
) -> str | None:
    """Compare two mean log-likelihoods: return `worse`, `learned nothing`, or None if the first is better by more than errors and LITTLE.

    scale   the reference for the shares LITTLE and ALIKE; by default the baseline itself.
    spread  standard error of the gain over rows, if known: then a gain beyond ERRORS of it and ALIKE counts, however small its
            share of the baseline is.
    """
    if log_likelihood is None or baseline is None:
        return None
    unit = abs(scale if scale is not None else baseline)
    gain = log_likelihood - baseline
    if gain + ERRORS * (error if scale is None else math.hypot(error, spread or 0.0)) < -ALIKE * unit:
        return worse
    if spread is not None:
        return "learned nothing" if gain < max(ERRORS * math.hypot(error, spread), ALIKE * unit) else None
    return "learned nothing" if gain < max(ERRORS * error, LITTLE * unit) else None


def is_overfitted(heldout: float | None, training: float | None, baseline: float | None, scale: float | None = None) -> bool:
    """Return whether other rows gain less than SHARE of the gain on training rows.  All three arguments are mean log-likelihoods.

    scale  as in `loss_finding`.
    """
    if heldout is None or training is None or baseline is None:
        return False
    unit = abs(baseline if scale is None else scale)
    return heldout - baseline < SHARE * (training - baseline) and training - heldout > LITTLE * unit


def rbm_findings(row: Row, value: Any) -> list[str]:
    """Return the findings for RBMs: likelihood compared with independent columns, its estimate, hidden units, classification."""
    if not all(np.isfinite(getattr(value, name)).all() for name in ("W", "b", "c")):
        return [DIVERGED]
    own, base, gap = (row.get(name) for name in ("log_likelihood", "independent", "free_energy_gap"))
    classes, findings = row.get("error") is not None, list[str | None]()
    unreliable = row.get("log_z_method") == "not reliable"
    if not unreliable:
        findings.append(_rbm_loss_finding(row, value, classes=classes))
    findings.append("not reliable" if unreliable else None)
    if not unreliable and own is not None and gap is not None and is_overfitted(own, own + gap, base):
        findings.append("overfits")
    share = dead_unit_share(value)
    findings += ["dead units" if share is not None and share > STILL else None, _majority_finding(row), _naive_bayes_finding(row)]
    return _all_findings(findings, is_evaluated=own is not None or classes)


def _naive_bayes_finding(row: Row) -> str | None:
    """Compare errors with those of independent columns for each class; a difference within ERRORS standard errors is none."""
    error, alone, spread = row.get("error"), row.get("error_independent"), row.get("error_independent_gain_se")
    if error is None or alone is None or spread is None:
        return None
    return "worse than naive Bayes" if error - alone > max(ERRORS * spread, FEW_ERRORS) else None


def _rbm_loss_finding(row: Row, value: Any, *, classes: bool) -> str | None:
    """Return the finding of an RBM's likelihood against its baselines; for a classifier, learning nothing about rows is no finding."""
    own, base, high = (row.get(name) for name in ("log_likelihood", "independent", "log_likelihood_high"))
    if base is not None and high is not None and high < base - ALIKE * abs(base):
        return "worse than independent"
    error = row.get("log_likelihood_se") or 0.0
    found = loss_finding(own, base, worse="worse than independent", error=error, spread=row.get("gain_se"))
    one = row.get("gaussian")
    if own is not None and one is not None and found != "worse than independent":
        spread = math.hypot(error, row.get("gaussian_gain_se") or 0.0)
        if own + ERRORS * spread < one - LITTLE:
            return "worse than one Gaussian"
    if own is not None and not np.any(value.W):
        return "learned nothing"
    return None if found == "learned nothing" and classes else found


def _all_findings(findings: Iterable[str | None], *, is_evaluated: bool) -> list[str]:
    """Return the findings; `no test rows` if there are none and nothing was evaluated."""
    found = [finding for finding in findings if finding]
    return found or ([] if is_evaluated else [NO_ROWS])


def dead_unit_share(value: Any) -> float | None:
    """Return the share of hidden units that do not change over held-out rows; None without such rows."""
    rows = value.holdout
    if rows is None or not rows.X.shape[0]:
        return None
    X = rows.X[:MOST_ROWS]
    X = X.toarray() if hasattr(X, "toarray") else X
    still = [np.ptp(value.harmonium(m).hidden_means(X), axis=0) < 1e-3 for m in range(value.count)]
    return float(np.mean(still))


def dbn_findings(row: Row, value: Any) -> list[str]:
    """Return the findings for DBNs: the bound or the first layer's likelihood, whichever is higher, compared with independent columns."""
    if not all(np.isfinite(getattr(part, name)).all() for part in value.layers for name in ("W", "b", "c")):
        return [DIVERGED]
    known = [each for each in (row.get("log_likelihood_bound"), row.get("log_likelihood_first")) if each is not None]
    if not known:
        return [NO_ROWS]
    share = dead_unit_share(value.layers[0])
    loss = loss_finding(max(known), row.get("independent"), worse="worse than independent")
    return _all_findings([loss, "dead units" if share is not None and share > STILL else None], is_evaluated=True)


def pair_findings(row: Row, value: Any) -> list[str]:
    """Return the findings for models of pairs: reconstructions compared with the mean image, and with the first epoch."""
    trace, own, mean = getattr(value, "trace", None), row.get("reconstruction"), row.get("reconstruction_mean")
    if own is not None and mean is not None and own > (1.0 - LITTLE) * mean:
        return ["learned nothing"]
    if trace is not None and len(trace) > 1 and not trace[-1] < trace[0]:
        return ["learned nothing"]
    return []


def _majority_finding(row: Row) -> str | None:
    """Compare errors with those of the most frequent class; a difference within ERRORS standard errors, if known, is chance."""
    error, majority, spread = row.get("error"), row.get("error_majority"), row.get("error_gain_se")
    if error is None or majority is None:
        return None
    if spread is None:
        return "worse than majority" if error >= majority else None
    if error - majority > ERRORS * spread:
        return "worse than majority"
    return "no better than chance" if error >= majority or majority - error < ERRORS * spread else None


def classifier_findings(row: Row, value: Any) -> list[str]:
    """Return the findings for classifiers: errors compared with the most frequent class, ranks with chance, log-loss with class shares."""
    if row.get("error") is None:
        return [NO_ROWS]
    from herdcli.evaluation.figures.classifier import evaluate_heldout_examples

    found = evaluate_heldout_examples(value)
    assert found is not None
    if not found.finite:
        return [DIVERGED]
    shares, count = found.confusion.sum(axis=1) / found.rows, found.rows
    several = np.count_nonzero(shares) > 1
    gain, spread = _error_gain(found.confusion)
    auc, findings = row.get("auc"), list[str | None]()
    if gain < -ERRORS * spread:
        findings.append("worse than majority")
    elif several and gain < ERRORS * spread and (auc is None or auc - 0.5 < max(LEAST_AREA, _auc_margin(shares, count))):
        findings.append("no better than chance")
    findings += baseline_loss_findings(found.discordant, count)
    findings.append("one class" if several and np.count_nonzero(found.confusion.any(axis=0)) == 1 else None)
    entropy = float(-(shares[shares > 0] * np.log(shares[shares > 0])).sum())
    findings.append("misleading probabilities" if several and row["log_loss"] > entropy else None)
    return _all_findings(findings, is_evaluated=True)


def baseline_loss_findings(discordant: Array, rows: float) -> list[str]:
    """Return one finding for each simple classifier that makes significantly fewer errors than the model on the same rows.

    The test is McNemar's, with continuity correction.

    discordant  (2, 3) as in `class_baselines.count_discordant_rows`; NaN for a classifier that does not exist.
    """
    found = []
    for name, (_, theirs, ours) in zip(("worse than nearest centroid", "worse than a linear model"), discordant.tolist(), strict=True):
        if theirs - ours - 1.0 > ERRORS * math.sqrt(theirs + ours) and theirs - ours > FEW_ERRORS * rows:
            found.append(name)
    return found


def _error_gain(confusion: Array) -> tuple[float, float]:
    """Return how far the error rate is below that of the most frequent class, and its standard error over the same rows."""
    count, right = confusion.sum(), np.diagonal(confusion)
    commonest = int(confusion.sum(axis=1).argmax())
    better = (right.sum() - right[commonest]) / count  # rows that only the model gets right
    worse = (confusion[commonest].sum() - right[commonest]) / count
    gain = float(better - worse)
    return gain, math.sqrt(max(float(better + worse) - gain * gain, 0.0) / float(count))


def predictor_findings(row: Row, value: Any) -> list[str]:
    """Return the findings for predictors: errors compared with those of the mean."""
    if row.get("rmse") is None:
        return [NO_ROWS]
    error, mean = float(row["rmse"]), float(row["rmse_mean"])
    if not math.isfinite(error):
        return [DIVERGED]
    if error > mean * (1.0 + ERRORS / math.sqrt(row["rows"])):
        return ["worse than the mean"]
    return [] if error < mean * (1.0 - LITTLE) else ["learned nothing"]


def tagger_findings(row: Row, value: Any) -> list[str]:
    """Return the findings for taggers: the label with the highest score compared with the most frequent label."""
    if row.get("rows") is None:
        return [NO_ROWS]
    from herdcli.evaluation.figures.tagger import evaluate_heldout_tags

    found = evaluate_heldout_tags(value)
    assert found is not None
    if found.sums["infinite"][0]:
        return [DIVERGED]
    commonest = float(found.sums["own"].max()) / row["rows"]
    spread = math.sqrt(max(commonest * (1.0 - commonest), 1e-12) / row["rows"])
    return [] if row["precision_at_1"] > commonest + ERRORS * spread or row["micro_f1"] > 0.9 else ["no better than chance"]


def _auc_margin(shares: Array, count: int) -> float:
    """Return ERRORS standard errors of the area under a chance curve; for several classes, of the mean of each against the rest.

    For a class with n₁ of n rows it is √((n + 1)/(12 n₁ (n − n₁))); the areas of two classes correlate by at most 1/(C − 1).
    """
    own = np.maximum(1.0, shares[shares > 0] * count)
    errors = np.sqrt((count + 1) / (12.0 * own * np.maximum(1.0, count - own)))
    C = len(errors)
    if C <= 2:
        return ERRORS * float(errors.max())
    squares = float(np.square(errors).sum())
    return ERRORS * math.sqrt(squares + (float(errors.sum()) ** 2 - squares) / (C - 1)) / C


def em_findings(row: Row, value: Any) -> list[str]:
    """Return the findings for mixtures, k-means and factors: log-likelihood, or minus squared error, compared with simple models."""
    from herdcli.evaluation.figures.em import EvaluatedRows

    value = value.model if isinstance(value, EvaluatedRows) else value
    density = "log_likelihood" in row
    name, sign = ("log_likelihood", 1.0) if density else ("squared_error", -1.0)
    own, base, trained = (None if row.get(key) is None else sign * row[key] for key in (name, f"{name}_baseline", f"{name}_train"))
    known = getattr(value, "known", None)
    flat = 0 if known is None else int(known.constant_columns.sum())
    scale, findings = 1.0 if density else base, list[str | None]()
    if own is not None and base is not None:
        gain = row.get("gain")
        reached = own if gain is None else base + gain
        loss, one = _em_loss_finding(reached, base, row, value, scale)
        inside = None if trained is None else trained + reached - own  # constant columns are left out here too
        findings += [loss, "overfits" if not one and is_overfitted(reached, inside, base, scale) else None]
    if known is not None and int(row.get("components") or 1) > MOST_SHARE * known.rows:
        findings.append("overfits")
    findings.append("variance at floor" if (row.get("floors") or 0) > flat * getattr(value, "floors_per_constant_column", 0) else None)
    return _all_findings([*findings, _convergence_finding(value)], is_evaluated=own is not None)


def _em_loss_finding(model_score: float, baseline_score: float, row: Row, value: Any, scale: float | None) -> tuple[str | None, bool]:
    """Return the finding of a loss, and whether the model is its own baseline, except for the baseline's shrinkage.

    This is the case for one component that a criterion chose among several.
    """
    found = loss_finding(model_score, baseline_score, worse="worse than baseline", scale=scale, spread=row.get("gain_se"))
    known = getattr(value, "known", None)
    if known is None or known.sizes is None or row.get("components") != 1:
        return found, False
    if model_score > baseline_score - SHRINKAGE * len(known.base_mean):
        return None, True
    return found, False


def _convergence_finding(value: Any) -> str | None:
    ended = getattr(value, "restarts", None)
    return "not converged" if ended is not None and not ended.converged[ended.best] else None


def herding_findings(row: Row, value: Any) -> list[str]:
    """Return the findings for herding: the moment gap, which falls as 1/T with bounded weights, compared with random draws; and classes."""
    growth, gap, random = row.get("weight_growth"), row.get("moment_gap"), row.get("moment_gap_random")
    apart = (growth is not None and growth > 1.5) or (gap is not None and gap > 0.1)
    worse = gap is not None and random is not None and gap > random
    return _all_findings(
        [_majority_finding(row), "worse than random" if worse else None, "not converged" if apart else None], is_evaluated=True
    )


def samples_findings(row: Row, value: Any) -> list[str]:
    """Return the findings for samples: MMD compared with that of random rows, √((E k(x,x) − ‖μ‖²)/m), and the kernel's resolution.

    If ‖μ‖² is E k(x,x)/n, no row resembles another; if it is E k(x,x), all rows are alike.  If the error of an approximate embedding may
    exceed the MMD of random rows, the MMD is not informative.
    """
    from herdcli.evaluation.figures.samples import expected_random_mmd

    atoms = getattr(value, "samples", value)
    summary = getattr(atoms, "summary", None)
    if summary is None:
        return []
    sizes = np.array([len(atoms.group_positions(g)) for g in range(atoms.groups)], dtype=float)
    rows = np.where(summary.rows > 0, summary.rows, sizes).astype(float)
    spread = summary.floor**2 * rows  # E k(x,x) − ‖μ‖²
    known = np.isfinite(spread)
    if not known.any():
        return []
    alike = (summary.norm / np.maximum(spread + summary.norm, np.finfo(float).tiny))[known]
    random = expected_random_mmd(atoms, summary)[known]
    coarse = summary.embedding_error is not None and bool((summary.embedding_error[known] > random).any())
    narrow = bool((summary.rows[known] > 2).all() and (alike * rows[known] < 3.0).all())
    wide = not narrow and bool((1.0 - alike < 1e-3).all())
    one = not wide and bool((summary.effective[known] < 1.5).all() and (sizes[known] > 2).all())
    told = {"kernel too narrow": narrow, "kernel too wide": wide, "one point": one, "embedding too coarse": coarse}
    judged = not (narrow or wide or coarse)  # otherwise the MMD is no measure of the quality of the atoms
    worse = judged and bool((summary.mmd[known] > random).any())
    return _all_findings(["worse than random" if worse else None, *(what for what, true in told.items() if true)], is_evaluated=True)


def network_findings(row: Row, value: Any) -> list[str]:
    """Return the findings for fitted networks: convergence, and the likelihood of test rows compared with independent variables."""
    network = getattr(value, "network", value)
    fit = network.fit
    if fit is None:
        own, worse = row.get("log_likelihood"), "worse than independent"
        if own is None:
            return []
        loss = loss_finding(own, row.get("independent"), worse=worse, spread=row.get("gain_se"))
        return _all_findings(["impossible rows" if own == -math.inf else worse if loss == worse else None], is_evaluated=True)
    if not np.isfinite(network.table).all():
        return [DIVERGED]
    ended = None if fit.converged else "not converged"
    own, trained, base = (row.get(name) for name in ("log_likelihood", "train_log_likelihood", "independent"))
    if trained is not None and own is None:
        return _all_findings([ended], is_evaluated=False)
    if own == -math.inf:
        return _all_findings(["impossible rows", ended], is_evaluated=True)
    loss = loss_finding(own, base, worse="worse than independent", spread=row.get("gain_se"))
    return _all_findings([loss, "overfits" if is_overfitted(own, trained, base) else None, ended], is_evaluated=True)


def beliefs_findings(row: Row, value: Any) -> list[str]:
    """Return the findings for beliefs: bounds of log Z, agreement of marginals with a second method and with cliques, convergence.

    Missing convergence is no finding if exact inference confirms the marginals.  Warnings of the run are a finding, and so is a network
    too large for a second method.  Chains have no fixed point: their results are samples, possibly too few.
    """
    found = getattr(value, "beliefs", value)
    sampled, findings = found.algorithm.endswith("gibbs"), list[str | None]()
    least, most, own = row.get("log_z_mean_field"), row.get("log_z_upper"), row.get("log_z")
    if least is not None and own is not None and own < least - max(SLACK, LITTLE * abs(least) * 1e-3):
        findings.append("below mean field")
    if most is not None and own is not None and found.algorithm != "tree-reweighted" and own > most + max(EXCESS, SLACK * abs(most)):
        findings.append("log Z above its bound")
    error = row.get("estimated_error")
    if error is not None and error > INACCURATE:
        findings.append("inaccurate marginals")
    right = error is not None and error <= RIGHT and getattr(found, "estimated_by", None) == "exact inference"
    if not row.get("converged", True) and not right:
        findings.append("chains disagree" if sampled else "not converged")
    gap = row.get("consistency_gap")
    if gap is not None and gap > 1e-2:
        findings.append("sampling error" if sampled else "inconsistent marginals")
    if error is None and found.warnings and not findings:
        findings.append("not reliable")
    if error is None and getattr(found, "estimated_by", None) == UNCHECKED and not any(findings):
        findings.append("marginals not checked")
    return _all_findings(findings, is_evaluated=True)


def _is_rotation_only(value: Any) -> bool:
    """Return whether all outputs of a square model have the kurtosis of a Gaussian, so that any rotation would be as good."""
    M, D = value.J.shape
    if M != D or M < 2 or value.dictionary is not None or value.algorithm not in BY_KURTOSIS:
        return False
    return bool((np.abs(value.kurtosis) < NO_KURTOSIS * math.sqrt(24.0 / value.rows)).all())


def ica_findings(row: Row, value: Any) -> list[str]:
    """Return the findings for filters: likelihood of whitened rows compared with a Gaussian, else kurtosis of outputs and inputs."""
    from herdcli.evaluation.figures.ica import EvaluatedFilters, evaluate_heldout_filters

    held = evaluate_heldout_filters(value)
    value = value.model if isinstance(value, EvaluatedFilters) else value
    power, findings = np.linalg.norm(value.J, axis=1), list[str | None]()
    if held is not None:
        own, base = row.get("log_likelihood"), row.get("log_likelihood_whitening")
        worse = own is not None and base is not None and own < base
        before = float(row.get("kurtosis_whitening") or 0.0)
        worse = worse or (own is None and float(np.median(np.abs(held.kurtosis("outputs")))) < before)
        trained, outside = row.get("kurtosis"), row.get("kurtosis_heldout")
        narrow = trained is not None and outside is not None and trained > 3.0 * max(outside, 1.0)
        findings += ["worse than whitening" if worse else None, "overfits" if narrow else None]
    findings.append("dead filters" if (power < 1e-6 * power.max()).any() else None)
    findings.append("too few rows" if value.rows < LEAST_ROWS * value.J.shape[1] else None)
    ended = value.iterations < 3 and value.algorithm in ("ml", "fastica", "picard")
    findings += ["not converged" if ended else None, "gaussian outputs" if not ended and _is_rotation_only(value) else None]
    return _all_findings(findings, is_evaluated=True)


def regression_findings(row: Row, value: Any) -> list[str]:
    """Return no further findings: the metrics of a regression include its verdict."""
    return []


def training_message(kind: str, verdict_and_metrics: tuple[str | None, Row], printed_warnings: Iterable[str] = ()) -> str | None:
    """Return the message at the end of training: the verdict and advice; None if it is ok or unknown.

    verdict_and_metrics  as from `quick_verdict`.  printed_warnings  warnings that the command has printed already; findings that they
    report are left out.
    """
    wrong, row = verdict_and_metrics
    before = list(printed_warnings)
    new = [each for each in split_findings(wrong) if each != NO_ROWS and not any(TOLD.get(each, each) in text for text in before)]
    return verdict_sentence(join_findings(new), row, kind) if new else None


def quick_verdict(kind: str, value: Any, *, map: Map = map) -> tuple[str | None, Row]:
    """Return the verdict at the end of training, and the metrics that it needs; None for kinds without a baseline."""
    page = KINDS[kind]
    if page.baseline is None or page.metrics is None:
        return None, {}
    from herdcli.evaluation.evaluation_settings import EvaluationSettings

    row = import_by_path(page.quick)(value, map=map) if page.quick else import_by_path(page.metrics)(value, EvaluationSettings(), map=map)
    return verdict_text(kind, row, value), row


BESIDE = {"regression": "the mean response"}  # the meaning of a kind's `independent`, if it is not independent columns


def verdict_sentence(wrong: str, row: Row, kind: str = "") -> str:
    """Return a verdict as a sentence, with advice."""
    own, base, spread = row.get("log_likelihood"), row.get("independent"), row.get("gain_se")
    compare = KINDS[kind].comparison if kind in KINDS else None
    if wrong == "worse than independent" and compare and own is not None and base is not None:
        return str(import_by_path(compare)(row))
    told = f"verdict: {wrong}"
    if wrong.split(SEPARATOR)[0] == "learned nothing" and own is not None and base is not None and spread is not None:
        told += f": {own - base:.2g} ± {spread:.2g} nats per held-out row more than {BESIDE.get(kind, 'independent columns')}"
    elif wrong.startswith("worse than one Gaussian") and own is not None and row.get("gaussian") is not None:
        told += f": {own:.4g} against {row['gaussian']:.4g} nats per held-out row"
    elif (found := _loss_in_nats(wrong, row)) is not None:
        told += f": {found}"
    helps = finding_advice(wrong, kind)
    return told + (f" ({helps})" if helps else "")


def finding_advice(wrong: str, kind: str = "") -> str:
    """Return advice for the findings of a verdict, each suggestion once; an empty text if there is none."""
    own = KINDS[kind].advice if kind in KINDS else {}
    found = (own.get(part, ADVICE.get(part)) for part in split_findings(wrong))
    return join_advice(part for part in found if part)


def _loss_in_nats(wrong: str, row: Row) -> str | None:
    """Return the loss of a density against its baseline, in nats per held-out row."""
    own, base, spread = (row.get(name) for name in ("log_likelihood", "log_likelihood_baseline", "gain_se"))
    first = wrong.split(SEPARATOR)[0]
    if own is None or base is None or first not in ("worse than baseline", "learned nothing"):
        return None
    which = "the rows before" if base == row.get("log_likelihood_persistence") else None
    which = "one Gaussian" if base == row.get("log_likelihood_gaussian") else which
    which = "independent columns" if base == row.get("log_likelihood_independent") else which
    if first == "learned nothing" and spread is not None:
        return f"{row.get('gain', own - base):.2g} ± {spread:.2g} nats per held-out row more than {which or 'the baseline'}"
    return f"{own:.4g} against {base:.4g} nats per held-out row" + (f" of {which}" if which else "")
