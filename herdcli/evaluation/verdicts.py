"""The verdict on a model: `ok`, or everything that is wrong with it in a few words each, by figures that stand beside a cheap baseline.

`herd eval` and the end of training judge by the same functions.  A verdict is about what makes a model useless or misleading; a model
that could be better is `ok`.  It lists every finding, the loss against the baseline first, separated by semicolons.

What it is held against stands in the table of kinds (`baseline`), as what it can be (`verdicts`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from herdcli.evaluation.verdict_advice import ADVICE, DIVERGED, TOLD
from herdcli.evaluation.verdict_codes import SEPARATOR
from herdcli.kinds import KINDS
from herdcli.parts import import_named
from herdcli.schema import Array

OK, NO_ROWS = "ok", "no test rows"  # the last: nothing to judge by
LITTLE = 0.01  # share of a baseline's own loss that a model has to gain, at least
ALIKE = 0.001  # share of a baseline within which a loss is the same
SHARE = 1 / 3  # of what is gained on training rows that has to be gained on others too
ERRORS = 2.0  # standard errors that count as a difference
MOST_ROWS = 1000
EXCESS = 0.1  # nats that a log Z may be above its bound: Z is then a tenth too large
INACCURATE = 0.05  # of a marginal: an estimated error that makes an answer unreliable
UNCHECKED = "nothing"  # `estimated_by` of a network too large for a second answer
RIGHT = 0.01  # of a marginal: an error by exact inference with which it does not matter that a run has not converged
SLACK = 1e-6  # nats that a log Z may be below its bound by rounding
STILL = 0.5  # of the hidden units may be dead
MOST_SHARE = 1 / 3  # components a row
SHRINKAGE = 0.05  # nats a column that shrinking one Gaussian's covariance may gain
FEW_ERRORS = 0.005  # share of rows that a classifier may get wrong beyond a simple one
LEAST_AREA = 0.05  # above ½: less is chance, however many rows there are
LEAST_ROWS = 5  # a dimension, that independent components are found in
BY_KURTOSIS = ("ml", "infomax", "fastica", "picard")  # which tell sources by their not being Gaussian
NO_KURTOSIS = 4.0  # standard errors √(24/n) that a kurtosis has to be from 0, as `ica.filter_convention` has it

Row = Mapping[str, Any]

KNOWN = frozenset(verdict for kind in KINDS.values() for verdict in kind.verdicts) | {OK, DIVERGED, NO_ROWS}


def verdict_text(kind: str, row: Row, value: Any) -> str | None:
    """The verdict on a row of figures of an artifact; None for kinds that nothing is wrong with."""
    path, known = KINDS[kind].findings if kind in KINDS else None, row.get("verdict")
    if path is None or known == NO_ROWS:
        return known
    if kind != "network" and any(isinstance(row.get(name), float) and math.isinf(row[name]) for name in FINITE):
        return DIVERGED
    found = import_named(path)(row, value)
    findings = [*split_findings(known), *([] if known is not None and found == [NO_ROWS] else found)]
    return join_findings(sorted(findings, key=lambda finding: finding not in LOSSES))


def join_findings(findings: Iterable[str | None]) -> str:
    """Every finding once, in their order; `ok` where there is none."""
    return SEPARATOR.join(dict.fromkeys(finding for finding in findings if finding)) or OK


def split_findings(verdict: str | None) -> list[str]:
    """The findings of a verdict, none of `ok`."""
    return [] if verdict in (None, OK) else verdict.split(SEPARATOR)


LOSSES = frozenset(
    {
        "worse than independent", "worse than one Gaussian", "worse than baseline", "worse than the mean", "worse than majority",
        "worse than random", "worse than whitening", "worse than correlation", "worse than nearest centroid", "worse than a linear model",
        "no better than chance", "impossible rows", "learned nothing",
    }
)  # fmt: skip
FINITE = ("log_likelihood", "objective", "moment_gap", "weight_norm", "reconstruction", "log_loss", "mmd")


def loss_finding(
    own: float | None, baseline: float | None, *, worse: str, error: float = 0.0, scale: float | None = None, spread: float | None = None
) -> str | None:
    """`worse`, or `learned nothing`, of two mean log-likelihoods; None where the first is the better by more than errors and LITTLE.

    scale   what LITTLE and ALIKE are shares of; by default the baseline itself.
    spread  standard error over rows of what is gained, where it is known: more than that and ALIKE is then a gain, however many nats
            rows have besides.
    """
    if own is None or baseline is None:
        return None
    unit = abs(scale if scale is not None else baseline)
    gain = own - baseline
    if gain + ERRORS * (error if scale is None else math.hypot(error, spread or 0.0)) < -ALIKE * unit:
        return worse
    if spread is not None:
        return "learned nothing" if gain < max(ERRORS * math.hypot(error, spread), ALIKE * unit) else None
    return "learned nothing" if gain < max(ERRORS * error, LITTLE * unit) else None


def is_overfitted(own: float | None, trained: float | None, baseline: float | None, scale: float | None = None) -> bool:
    """Is less than a share of what is gained on training rows gained on others?  All three are mean log-likelihoods.

    scale  as of `loss_finding`.
    """
    if own is None or trained is None or baseline is None:
        return False
    unit = abs(baseline if scale is None else scale)
    return own - baseline < SHARE * (trained - baseline) and trained - own > LITTLE * unit


def rbm_findings(row: Row, value: Any) -> list[str]:
    """Of RBMs: their likelihood beside that of independent columns, its estimate, their units, their classes."""
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
    findings += ["dead units" if share is not None and share > STILL else None, _majority_finding(row)]
    return _all_findings(findings, judged=own is not None or classes)


def _rbm_loss_finding(row: Row, value: Any, *, classes: bool) -> str | None:
    """What an RBM's likelihood is below; learning nothing about the rows is no fault of one that tells classes."""
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


def _all_findings(findings: Iterable[str | None], *, judged: bool) -> list[str]:
    """The findings; `no test rows` where there are none and nothing was judged."""
    found = [finding for finding in findings if finding]
    return found or ([] if judged else [NO_ROWS])


def dead_unit_share(value: Any) -> float | None:
    """The share of hidden units that do not change over held-out rows; None without such rows."""
    rows = value.holdout
    if rows is None or not rows.X.shape[0]:
        return None
    X = rows.X[:MOST_ROWS]
    X = X.toarray() if hasattr(X, "toarray") else X
    still = [np.ptp(value.harmonium(m).hidden_means(X), axis=0) < 1e-3 for m in range(value.count)]
    return float(np.mean(still))


def dbn_findings(row: Row, value: Any) -> list[str]:
    """Of networks of layers: the bound or the first layer's likelihood, whichever is higher, beside independent columns."""
    if not all(np.isfinite(getattr(part, name)).all() for part in value.layers for name in ("W", "b", "c")):
        return [DIVERGED]
    known = [each for each in (row.get("log_likelihood_bound"), row.get("log_likelihood_first")) if each is not None]
    if not known:
        return [NO_ROWS]
    share = dead_unit_share(value.layers[0])
    loss = loss_finding(max(known), row.get("independent"), worse="worse than independent")
    return _all_findings([loss, "dead units" if share is not None and share > STILL else None], judged=True)


def pair_findings(row: Row, value: Any) -> list[str]:
    """Of models of pairs: whether they reconstruct images better than the mean image does, and better than they began."""
    trace, own, mean = getattr(value, "trace", None), row.get("reconstruction"), row.get("reconstruction_mean")
    if own is not None and mean is not None and own > (1.0 - LITTLE) * mean:
        return ["learned nothing"]
    if trace is not None and len(trace) > 1 and not trace[-1] < trace[0]:
        return ["learned nothing"]
    return []


def _majority_finding(row: Row) -> str | None:
    """Errors beside the commonest class's; where their standard error is known, a difference within ERRORS of it is chance."""
    error, majority, spread = row.get("error"), row.get("error_majority"), row.get("error_gain_se")
    if error is None or majority is None:
        return None
    if spread is None:
        return "worse than majority" if error >= majority else None
    if error - majority > ERRORS * spread:
        return "worse than majority"
    return "no better than chance" if error >= majority or majority - error < ERRORS * spread else None


def classifier_findings(row: Row, value: Any) -> list[str]:
    """Of classifiers: errors beside the commonest class's, ranks beside chance, log-loss beside that of the shares."""
    if row.get("error") is None:
        return [NO_ROWS]
    from herdcli.evaluation.figures.classifier import evaluated_examples

    found = evaluated_examples(value)
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
    findings += lost_to_baselines(found.discordant, count)
    findings.append("one class" if several and np.count_nonzero(found.confusion.any(axis=0)) == 1 else None)
    entropy = float(-(shares[shares > 0] * np.log(shares[shares > 0])).sum())
    findings.append("misleading probabilities" if several and row["log_loss"] > entropy else None)
    return _all_findings(findings, judged=True)


def lost_to_baselines(discordant: Array, rows: float) -> list[str]:
    """Findings of simple classifiers that make fewer errors on the same rows, by McNemar's statistic with continuity correction.

    discordant  (2, 3) as of `class_baselines.discordant`; NaN where there is no such baseline.
    """
    found = []
    for name, (_, theirs, ours) in zip(("worse than nearest centroid", "worse than a linear model"), discordant.tolist(), strict=True):
        if theirs - ours - 1.0 > ERRORS * math.sqrt(theirs + ours) and theirs - ours > FEW_ERRORS * rows:
            found.append(name)
    return found


def _error_gain(confusion: Array) -> tuple[float, float]:
    """By how much the share of errors is below that of the commonest class, and the standard error of this over the same rows."""
    count, right = confusion.sum(), np.diagonal(confusion)
    commonest = int(confusion.sum(axis=1).argmax())
    better = (right.sum() - right[commonest]) / count  # rows that the model alone gets right
    worse = (confusion[commonest].sum() - right[commonest]) / count
    gain = float(better - worse)
    return gain, math.sqrt(max(float(better + worse) - gain * gain, 0.0) / float(count))


def predictor_findings(row: Row, value: Any) -> list[str]:
    """Of predictors: errors beside those of the mean."""
    if row.get("rmse") is None:
        return [NO_ROWS]
    error, mean = float(row["rmse"]), float(row["rmse_mean"])
    if not math.isfinite(error):
        return [DIVERGED]
    if error > mean * (1.0 + ERRORS / math.sqrt(row["rows"])):
        return ["worse than the mean"]
    return [] if error < mean * (1.0 - LITTLE) else ["learned nothing"]


def tagger_findings(row: Row, value: Any) -> list[str]:
    """Of taggers: the label of the highest score beside the commonest label."""
    if row.get("rows") is None:
        return [NO_ROWS]
    from herdcli.evaluation.figures.tagger import evaluated_tags

    found = evaluated_tags(value)
    assert found is not None
    if found.sums["infinite"][0]:
        return [DIVERGED]
    commonest = float(found.sums["own"].max()) / row["rows"]
    spread = math.sqrt(max(commonest * (1.0 - commonest), 1e-12) / row["rows"])
    return [] if row["precision_at_1"] > commonest + ERRORS * spread or row["micro_f1"] > 0.9 else ["no better than chance"]


def _auc_margin(shares: Array, count: int) -> float:
    """ERRORS standard errors of an area under the curve of chance, of several classes the mean of each against the rest.

    That of a class with n₁ of n rows is √((n + 1)/(12 n₁ (n − n₁))); two classes' areas correlate by at most 1/(C − 1).
    """
    own = np.maximum(1.0, shares[shares > 0] * count)
    errors = np.sqrt((count + 1) / (12.0 * own * np.maximum(1.0, count - own)))
    C = len(errors)
    if C <= 2:
        return ERRORS * float(errors.max())
    squares = float(np.square(errors).sum())
    return ERRORS * math.sqrt(squares + (float(errors.sum()) ** 2 - squares) / (C - 1)) / C


def em_findings(row: Row, value: Any) -> list[str]:
    """Of mixtures, k-means and factors: log-likelihood, or minus the squared error, beside the simplest models of the same rows."""
    from herdcli.evaluation.figures.em import EvaluatedRows

    value = value.model if isinstance(value, EvaluatedRows) else value
    density = "log_likelihood" in row
    name, sign = ("log_likelihood", 1.0) if density else ("squared_error", -1.0)
    own, base, trained = (None if row.get(key) is None else sign * row[key] for key in (name, f"{name}_baseline", f"{name}_train"))
    known = getattr(value, "known", None)
    flat = 0 if known is None else int(known.constant.sum())
    scale, findings = 1.0 if density else base, list[str | None]()
    if own is not None and base is not None:
        gain = row.get("gain")
        reached = own if gain is None else base + gain
        loss, one = _em_loss_finding(reached, base, row, value, scale)
        inside = None if trained is None else trained + reached - own  # columns of one value left out there too
        findings += [loss, "overfits" if not one and is_overfitted(reached, inside, base, scale) else None]
    if known is not None and int(row.get("components") or 1) > MOST_SHARE * known.rows:
        findings.append("overfits")
    findings.append("variance at floor" if (row.get("floors") or 0) > flat * getattr(value, "floors_of_a_column", 0) else None)
    return _all_findings([*findings, _convergence_finding(value)], judged=own is not None)


def _em_loss_finding(own: float, base: float, row: Row, value: Any, scale: float | None) -> tuple[str | None, bool]:
    """The loss, and whether there is none because the model is its baseline but for the shrinkage of that: one component that a criterion
    chose among several."""
    found = loss_finding(own, base, worse="worse than baseline", scale=scale, spread=row.get("gain_se"))
    known = getattr(value, "known", None)
    if known is None or known.sizes is None or row.get("components") != 1:
        return found, False
    if own > base - SHRINKAGE * len(known.base_mean):
        return None, True
    return found, False


def _convergence_finding(value: Any) -> str | None:
    ended = getattr(value, "restarts", None)
    return "not converged" if ended is not None and not ended.converged[ended.best] else None


def herding_findings(row: Row, value: Any) -> list[str]:
    """Of herding: its gap to the moments, which falls as 1/T where the weights stay bounded, beside random draws; and its classes."""
    growth, gap, random = row.get("weight_growth"), row.get("moment_gap"), row.get("moment_gap_random")
    apart = (growth is not None and growth > 1.5) or (gap is not None and gap > 0.1)
    worse = gap is not None and random is not None and gap > random
    return _all_findings([_majority_finding(row), "worse than random" if worse else None, "not converged" if apart else None], judged=True)


def samples_findings(row: Row, value: Any) -> list[str]:
    """Of samples: their MMD beside that of as many random rows, √((E k(x,x) − ‖μ‖²)/m); and whether the kernel tells rows apart.

    Where ‖μ‖² is E k(x,x)/n, no row is like another; where it is E k(x,x), all are alike.  An approximate embedding whose error may be more
    than the MMD of random rows says nothing.
    """
    from herdcli.evaluation.figures.samples import expected_random_mmd

    atoms = getattr(value, "samples", value)
    summary = getattr(atoms, "summary", None)
    if summary is None:
        return []
    sizes = np.array([len(atoms.members(g)) for g in range(atoms.groups)], dtype=float)
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
    judged = not (narrow or wide or coarse)  # else MMDs say little of how good the atoms are
    worse = judged and bool((summary.mmd[known] > random).any())
    return _all_findings(["worse than random" if worse else None, *(what for what, true in told.items() if true)], judged=True)


def network_findings(row: Row, value: Any) -> list[str]:
    """Of learned networks: convergence, and the likelihood of test rows beside that of independent variables."""
    network = getattr(value, "network", value)
    fit = network.fit
    if fit is None:
        own, worse = row.get("log_likelihood"), "worse than independent"
        if own is None:
            return []
        loss = loss_finding(own, row.get("independent"), worse=worse, spread=row.get("gain_se"))
        return _all_findings(["impossible rows" if own == -math.inf else worse if loss == worse else None], judged=True)
    if not np.isfinite(network.table).all():
        return [DIVERGED]
    ended = None if fit.converged else "not converged"
    own, trained, base = (row.get(name) for name in ("log_likelihood", "train_log_likelihood", "independent"))
    if trained is not None and own is None:
        return _all_findings([ended], judged=False)
    if own == -math.inf:
        return _all_findings(["impossible rows", ended], judged=True)
    loss = loss_finding(own, base, worse="worse than independent", spread=row.get("gain_se"))
    return _all_findings([loss, "overfits" if is_overfitted(own, trained, base) else None, ended], judged=True)


def beliefs_findings(row: Row, value: Any) -> list[str]:
    """Of beliefs: whether log Z is between bounds that it has, marginals agree with those of a second answer and variables with their
    cliques, the fixed point was reached (or exact inference has borne the answer out), and nothing was warned of; and whether a network too
    large for a second answer has none.

    Chains reach no fixed point: theirs are draws, of which there may be too few.
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
    return _all_findings(findings, judged=True)


def _is_rotation_only(value: Any) -> bool:
    """Whether no output of a square model is told from a Gaussian by its kurtosis, so that any rotation would do as well."""
    M, D = value.J.shape
    if M != D or M < 2 or value.dictionary is not None or value.algorithm not in BY_KURTOSIS:
        return False
    return bool((np.abs(value.kurtosis) < NO_KURTOSIS * math.sqrt(24.0 / value.rows)).all())


def ica_findings(row: Row, value: Any) -> list[str]:
    """Of filters: the likelihood of whitened rows beside a Gaussian's, else how far from Gaussian the outputs are beside the inputs."""
    from herdcli.evaluation.figures.ica import EvaluatedFilters, evaluated_filters

    held = evaluated_filters(value)
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
    return _all_findings(findings, judged=True)


def of_regression(row: Row, value: Any) -> list[str]:
    """None: its figures say all that is wrong."""
    return []


def training_remark(kind: str, judged: tuple[str | None, Row], told: Iterable[str] = ()) -> str | None:
    """What is said at the end of training: the verdict and what helps; None where it is ok, or not known.

    judged  as of `quick_verdict`.  told  warnings that the command has given already; findings that one of them has told are left out.
    """
    wrong, row = judged
    before = list(told)
    new = [each for each in split_findings(wrong) if each != NO_ROWS and not any(TOLD.get(each, each) in text for text in before)]
    return verdict_sentence(join_findings(new), row, kind) if new else None


def quick_verdict(kind: str, value: Any, *, map: Callable[..., Any] = map) -> tuple[str | None, Row]:
    """The verdict, and the figures it needs, as the end of training finds them; None for kinds that nothing is held against."""
    page = KINDS[kind]
    if page.baseline is None or page.metrics is None:
        return None, {}
    from herdcli.evaluation.evaluation_settings import EvaluationSettings

    row = import_named(page.quick)(value, map=map) if page.quick else import_named(page.metrics)(value, EvaluationSettings(), map=map)
    return verdict_text(kind, row, value), row


BESIDE = {"regression": "the mean response"}  # what a kind's `independent` is, where it is not columns for themselves


def verdict_sentence(wrong: str, row: Row, kind: str = "") -> str:
    """A verdict in a sentence, with what helps."""
    own, base, spread = row.get("log_likelihood"), row.get("independent"), row.get("gain_se")
    compare = KINDS[kind].comparison if kind in KINDS else None
    if wrong == "worse than independent" and compare and own is not None and base is not None:
        return str(import_named(compare)(row))
    told = f"verdict: {wrong}"
    if wrong.split(SEPARATOR)[0] == "learned nothing" and own is not None and base is not None and spread is not None:
        told += f": {own - base:.2g} ± {spread:.2g} nats a held-out row more than {BESIDE.get(kind, 'independent columns')}"
    elif wrong.startswith("worse than one Gaussian") and own is not None and row.get("gaussian") is not None:
        told += f": {own:.4g} against {row['gaussian']:.4g} nats a held-out row"
    elif (found := _loss_in_nats(wrong, row)) is not None:
        told += f": {found}"
    helps = finding_advice(wrong, kind)
    return told + (f" ({helps})" if helps else "")


def finding_advice(wrong: str, kind: str = "") -> str:
    """What helps against each finding of a verdict; empty where nothing is known to."""
    own = KINDS[kind].advice if kind in KINDS else {}
    found = (own.get(part, ADVICE.get(part)) for part in wrong.split(SEPARATOR))
    return "; ".join(dict.fromkeys(part for part in found if part))


def _loss_in_nats(wrong: str, row: Row) -> str | None:
    """The loss of a density beside its baseline in nats a held-out row."""
    own, base, spread = (row.get(name) for name in ("log_likelihood", "log_likelihood_baseline", "gain_se"))
    first = wrong.split(SEPARATOR)[0]
    if own is None or base is None or first not in ("worse than baseline", "learned nothing"):
        return None
    which = "the rows before" if base == row.get("log_likelihood_persistence") else None
    which = "one Gaussian" if base == row.get("log_likelihood_gaussian") else which
    which = "independent columns" if base == row.get("log_likelihood_independent") else which
    if first == "learned nothing" and spread is not None:
        return f"{row.get('gain', own - base):.2g} ± {spread:.2g} nats a held-out row more than {which or 'the baseline'}"
    return f"{own:.4g} against {base:.4g} nats a held-out row" + (f" of {which}" if which else "")
