"""The verdict on a model: `ok`, or what is wrong with it in a few words, by figures that stand beside a cheap baseline.

`herd eval` and the end of training judge by the same functions.  A verdict is about what makes a model useless or misleading; a model
that could be better is `ok`.

What it is held against stands in the table of kinds (`baseline`), what it can be in VERDICTS.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from herdcli.kinds import KINDS, named
from herdcli.schema import Array

OK, DIVERGED, NO_ROWS = "ok", "diverged", "no test rows"  # the last: nothing to judge by
LITTLE = 0.01  # share of a baseline's own loss that a model has to gain, at least
ALIKE = 0.001  # share of a baseline within which a loss is the same
SHARE = 1 / 3  # of what is gained on training rows that has to be gained on others too
ERRORS = 2.0  # standard errors that count as a difference
MOST_ROWS = 1000
FLAT = 1e-30  # of its mean squared: the variance of a column of one value by rounding, which any model raises
SLACK = 1e-6  # nats that a log Z may be below its bound by rounding
STILL = 0.5  # of the hidden units may be dead
MOST_SHARE = 1 / 3  # components a row
LEAST_ROWS = 5  # a dimension, that independent components are found in
BY_KURTOSIS = ("ml", "infomax", "fastica", "picard")  # which tell sources by their not being Gaussian
NO_KURTOSIS = 4.0  # standard errors √(24/n) that a kurtosis has to be from 0, as `ica.convention` has it

Row = Mapping[str, Any]

# verdicts on each kind beside `ok`, `diverged` and `no test rows`
VERDICTS: dict[str, tuple[str, ...]] = {
    "rbm": ("worse than independent", "learned nothing", "overfits", "dead units", "not reliable", "worse than majority"),
    "dbn": ("worse than independent", "learned nothing", "dead units"),
    "rbm-pairs": ("learned nothing", "worse than correlation"),
    "rtrbm": ("worse than independent", "learned nothing", "worse than persistence", "worse than the mean"),
    "classifier": ("worse than majority", "no better than chance", "one class", "misleading probabilities"),
    "predictor": ("worse than the mean", "learned nothing"),
    "tagger": ("no better than chance",),
    "regression": ("worse than the mean", "learned nothing", "overfits", "separated", "not converged"),
    "mixture": ("worse than baseline", "learned nothing", "overfits", "variance at floor", "not converged"),
    "kmeans": ("worse than baseline", "learned nothing", "overfits", "variance at floor", "not converged"),
    "factors": ("worse than baseline", "learned nothing", "overfits", "variance at floor", "not converged"),
    "hmm": ("worse than baseline", "learned nothing", "variance at floor"),
    "lds": ("worse than baseline", "learned nothing", "worse than persistence", "unstable"),
    "herding": ("not converged", "worse than random", "worse than majority"),
    "samples": ("worse than random", "kernel too narrow", "kernel too wide", "one point", "embedding too coarse"),
    "network": ("worse than independent", "impossible rows", "learned nothing", "overfits", "not converged"),
    "beliefs": ("not converged", "chains disagree", "below mean field", "inconsistent marginals", "sampling error"),
    "ica": ("worse than whitening", "overfits", "dead filters", "too few rows", "gaussian outputs", "not converged"),
}
KNOWN = frozenset(verdict for each in VERDICTS.values() for verdict in each) | {OK, DIVERGED, NO_ROWS}


def verdict(kind: str, row: Row, value: Any) -> str | None:
    """The verdict on a row of figures of an artifact; None for kinds that nothing is wrong with."""
    judge, known = JUDGES.get(kind), row.get("verdict")
    if judge is None:
        return known
    if known not in (None, OK):
        return str(known)
    if kind != "network" and any(isinstance(row.get(name), float) and math.isinf(row[name]) for name in FINITE):
        return DIVERGED
    return judge(row, value)


FINITE = ("log_likelihood", "objective", "moment_gap", "weight_norm", "reconstruction", "log_loss", "mmd")

ADVICE = {
    "worse than independent": "lower --learning-rate, take more --steps or --algorithm pt, or --standardize the columns",
    "learned nothing": "it needs columns that depend on each other",
    "overfits": "fewer units or components, a penalty, or more rows",
    "dead units": "a lower --learning-rate, or fewer --hidden",
    "worse than majority": "check that the labels belong to the rows; another --learning-rate, --C or --epochs",
    "no better than chance": "check that the labels belong to the rows; scale the columns",
    "one class": "scale the columns, shuffle the rows, or change --C",
    "misleading probabilities": "the errors may be few, the probabilities are not to be used",
    "worse than baseline": "fewer --components, more --restarts, or other columns",
    "variance at floor": "a component sits on few rows: fewer --components or another --covariance",
    "not converged": "more --iterations",
    "impossible rows": "some test rows have probability 0: --smoothing 1",
    "below mean field": "log Z is less than a bound that it has: --restarts 10, --algorithm ups, or an exact one",
    "inconsistent marginals": "more --iterations, or --algorithm ups",
    "chains disagree": "more --sweeps, --algorithm tempered-gibbs, or under auto more --effort",
    "sampling error": "more --sweeps, or under auto more --effort",
    "worse than whitening": "another --density, more rows, or more --iterations",
    "worse than random": "another --rule or --kernel, or more atoms",
    "kernel too narrow": "a larger --bandwidth, or scale the columns: --scale std",
    "kernel too wide": "a smaller --bandwidth, or scale the columns: --scale std",
    "one point": "more atoms, or --unique",
    "embedding too coarse": "its error may hide the MMD of random rows: a larger number in --embedding, or --embedding exact",
    "too few rows": "more rows, or fewer --components",
    "dead filters": "fewer --filters or --components",
    "unstable": "forecasts grow without bound: fewer --components, more rows, or differences of the rows",
    DIVERGED: "a lower --learning-rate, or scale the columns",
}

ADVICE_OF = {
    ("herding", "worse than random"): "more --iterations, or --variant safe",
    ("network", "worse than independent"): "more rows, --smoothing 1, or a simpler --structure",
    ("network", "overfits"): "more rows, --smoothing 1, or a simpler --structure",
    ("regression", "overfits"): "a penalty (--l2 0.01), fewer columns, or more rows",
    ("regression", "learned nothing"): "a smaller penalty, or columns that the target depends on",
    ("ica", "overfits"): "fewer --components, or more rows",
    ("ica", "gaussian outputs"): "their rotation is not identifiable: more rows, or --algorithm sobi for rows in order of time",
    ("mixture", "worse than baseline"): "fewer --components, --covariance diagonal, or more rows",
    ("rbm", "learned nothing"): "more --epochs, another --learning-rate, or --standardize for gaussian units; columns may be independent",
    ("dbn", "learned nothing"): "more --epochs, another --learning-rate, or --standardize for gaussian units; columns may be independent",
    ("mixture", "learned nothing"): "it says no more than one Gaussian does",
    ("kmeans", "learned nothing"): "it says no more than one centre does",
    ("factors", "learned nothing"): "it says no more than independent columns do",
    ("rtrbm", "worse than independent"): "more --epochs, a lower --learning-rate, or --standardize the columns",
    ("rtrbm", "learned nothing"): "more --epochs or another --learning-rate; rows may not depend on those before them",
    ("rtrbm", "worse than persistence"): "more --epochs, more --hidden, or another --learning-rate",
    ("rtrbm", "worse than the mean"): "more --epochs, more --hidden, or another --learning-rate",
    ("hmm", "variance at floor"): "some directions hardly vary within a state: fewer --components or another --covariance",
    ("hmm", "learned nothing"): "the order of the rows says no more than how often each state comes",
    ("lds", "learned nothing"): "it says no more than a Gaussian for each column does",
    ("lds", "worse than persistence"): "more --components: a column that no state follows is expected at its mean",
    ("rbm-pairs", "learned nothing"): "another --learning-rate, or more --epochs",
}


def of_loss(
    own: float | None, baseline: float | None, *, worse: str, error: float = 0.0, scale: float | None = None, spread: float | None = None
) -> str | None:
    """`worse`, or `learned nothing`, of two mean log-likelihoods; None where the first is the better by more than errors and LITTLE.

    spread  standard error over rows of what is gained, where it is known: more than that and ALIKE is then a gain, however many nats
            rows have besides.
    """
    if own is None or baseline is None:
        return None
    if own + ERRORS * error < baseline - ALIKE * abs(baseline):
        return worse
    if spread is not None:
        return "learned nothing" if own - baseline < max(ERRORS * math.hypot(error, spread), ALIKE * abs(baseline)) else None
    return "learned nothing" if own - baseline < max(ERRORS * error, LITTLE * abs(scale if scale is not None else baseline)) else None


def overfits(own: float | None, trained: float | None, baseline: float | None) -> bool:
    """Is less than a share of what is gained on training rows gained on others?  All three are mean log-likelihoods."""
    if own is None or trained is None or baseline is None:
        return False
    return own - baseline < SHARE * (trained - baseline) and trained - own > LITTLE * abs(baseline)


def of_rbm(row: Row, value: Any) -> str:
    """Of RBMs: their likelihood beside that of independent columns, its estimate, their units, their classes."""
    if not all(np.isfinite(getattr(value, name)).all() for name in ("W", "b", "c")):
        return DIVERGED
    own, base, gap, high = (row.get(name) for name in ("log_likelihood", "independent", "free_energy_gap", "log_likelihood_high"))
    if row.get("log_z") == "not reliable":
        return "not reliable"
    if base is not None and high is not None and high < base - ALIKE * abs(base):
        return "worse than independent"
    error, spread = row.get("log_likelihood_se") or 0.0, row.get("gain_se")
    found = of_loss(own, base, worse="worse than independent", error=error, spread=spread)
    if found == "worse than independent" or (found and row.get("error") is None):
        return found
    if own is not None and not np.any(value.W):
        return "learned nothing"
    if own is not None and gap is not None and overfits(own, own + gap, base):
        return "overfits"
    if (share := dead(value)) is not None and share > STILL:
        return "dead units"
    if own is None and row.get("error") is None:
        return NO_ROWS
    return _majority(row) or OK


def dead(value: Any) -> float | None:
    """The share of hidden units that do not change over held-out rows; None without such rows."""
    rows = value.holdout
    if rows is None or not rows.X.shape[0]:
        return None
    X = rows.X[:MOST_ROWS]
    X = X.toarray() if hasattr(X, "toarray") else X
    still = [np.ptp(value.harmonium(m).hidden_means(X), axis=0) < 1e-3 for m in range(value.count)]
    return float(np.mean(still))


def of_dbn(row: Row, value: Any) -> str:
    """Of networks of layers: the bound or the first layer's likelihood, whichever is higher, beside independent columns."""
    if not all(np.isfinite(getattr(part, name)).all() for part in value.layers for name in ("W", "b", "c")):
        return DIVERGED
    known = [each for each in (row.get("log_likelihood_bound"), row.get("log_likelihood_first")) if each is not None]
    if not known:
        return NO_ROWS
    found = of_loss(max(known), row.get("independent"), worse="worse than independent")
    if found is not None:
        return found
    share = dead(value.layers[0])
    return "dead units" if share is not None and share > STILL else OK


def of_pairs(row: Row, value: Any) -> str:
    """Of models of pairs: whether they reconstruct images better than the mean image does, and better than they began."""
    trace, own, mean = getattr(value, "trace", None), row.get("reconstruction"), row.get("reconstruction_mean")
    if own is not None and mean is not None and own > (1.0 - LITTLE) * mean:
        return "learned nothing"
    if trace is not None and len(trace) > 1 and not trace[-1] < trace[0]:
        return "learned nothing"
    return OK


def _majority(row: Row) -> str | None:
    error, majority = row.get("error"), row.get("error_majority")
    return "worse than majority" if error is not None and majority is not None and error >= majority else None


def of_classifier(row: Row, value: Any) -> str:
    """Of classifiers: errors beside the commonest class's, ranks beside chance, log-loss beside that of the shares."""
    if row.get("error") is None:
        return NO_ROWS
    from herdcli.evaluation.classifier import examined

    found = examined(value)
    assert found is not None
    if not found.finite:
        return DIVERGED
    shares, count = found.confusion.sum(axis=1) / found.rows, found.rows
    majority, error = 1.0 - float(shares.max()), float(row["error"])
    spread = math.sqrt(max(majority * (1.0 - majority), 1e-12) / count)
    if np.count_nonzero(found.confusion.any(axis=0)) == 1 and np.count_nonzero(shares) > 1:
        return "one class"
    if error > majority + ERRORS * spread:
        return "worse than majority"
    auc = row.get("auc")
    if error > majority - ERRORS * spread and (auc is None or abs(auc - 0.5) < max(0.1, _auc_error(shares, count))):
        return "no better than chance"
    entropy = float(-(shares[shares > 0] * np.log(shares[shares > 0])).sum())
    if row["log_loss"] > entropy:
        return "misleading probabilities"
    return OK


def of_predictor(row: Row, value: Any) -> str:
    """Of predictors: errors beside those of the mean."""
    if row.get("rmse") is None:
        return NO_ROWS
    error, mean = float(row["rmse"]), float(row["rmse_mean"])
    if not math.isfinite(error):
        return DIVERGED
    if error > mean * (1.0 + ERRORS / math.sqrt(row["rows"])):
        return "worse than the mean"
    return OK if error < mean * (1.0 - LITTLE) else "learned nothing"


def of_tagger(row: Row, value: Any) -> str:
    """Of taggers: the label of the highest score beside the commonest label."""
    if row.get("rows") is None:
        return NO_ROWS
    from herdcli.evaluation.tagger import examined

    found = examined(value)
    assert found is not None
    if found.sums["infinite"][0]:
        return DIVERGED
    commonest = float(found.sums["own"].max()) / row["rows"]
    spread = math.sqrt(max(commonest * (1.0 - commonest), 1e-12) / row["rows"])
    return OK if row["precision_at_1"] > commonest + ERRORS * spread or row["micro_f1"] > 0.9 else "no better than chance"


def _auc_error(shares: Array, count: int) -> float:
    """ERRORS standard errors of an area under the curve of chance: √((n₁ + n₀ + 1)/(12 n₁ n₀)), of the rarest class against the rest."""
    rarest = max(1.0, float(shares[shares > 0].min()) * count)
    return ERRORS * math.sqrt((count + 1) / (12.0 * rarest * max(1.0, count - rarest)))


def of_em(row: Row, value: Any) -> str:
    """Of mixtures, k-means and factors: log-likelihood, or minus the squared error, beside the simplest model of the same rows."""
    from herdcli.evaluation.em import Judged

    value = value.model if isinstance(value, Judged) else value
    name, sign = ("log_likelihood", 1.0) if "log_likelihood" in row else ("squared_error", -1.0)
    own, base, trained = (None if row.get(key) is None else sign * row[key] for key in (name, f"{name}_baseline", f"{name}_train"))
    known = getattr(value, "known", None)
    flat = 0 if known is None else int((known.base_variance <= FLAT * np.square(known.base_mean)).sum())
    if (row.get("floors") or 0) > flat * getattr(value, "floors_of_a_column", 0):
        return "variance at floor"
    if known is not None and int(row.get("components") or 1) > MOST_SHARE * known.rows:
        return "overfits"
    if own is None:
        return _ended(value) or NO_ROWS
    scale = 1.0 if sign > 0 else base
    found = of_loss(own, base, worse="worse than baseline", scale=scale)
    if found is not None and row.get("components") == 1 and known is not None and known.sizes is not None:
        return OK  # one component is the baseline itself, and the criterion chose it among several
    if found is not None:
        return found
    if overfits(own, trained, base):
        return "overfits"
    return _ended(value) or OK


def _ended(value: Any) -> str | None:
    ended = getattr(value, "restarts", None)
    return "not converged" if ended is not None and not ended.converged[ended.best] else None


def of_herding(row: Row, value: Any) -> str:
    """Of herding: its gap to the moments, which falls as 1/T where the weights stay bounded, beside random draws; and its classes."""
    growth, gap, random = row.get("weight_growth"), row.get("moment_gap"), row.get("moment_gap_random")
    if (growth is not None and growth > 1.5) or (gap is not None and gap > 0.1):
        return "not converged"
    if gap is not None and random is not None and gap > random:
        return "worse than random"
    return _majority(row) or OK


def of_samples(row: Row, value: Any) -> str:
    """Of samples: their MMD beside that of as many random rows, √((E k(x,x) − ‖μ‖²)/m); and whether the kernel tells rows apart.

    Where ‖μ‖² is E k(x,x)/n, no row is like another; where it is E k(x,x), all are alike.  An approximate embedding whose error may be more
    than the MMD of random rows says nothing.
    """
    atoms = getattr(value, "samples", value)
    summary = getattr(atoms, "summary", None)
    if summary is None:
        return OK
    sizes = np.array([len(atoms.members(g)) for g in range(atoms.groups)], dtype=float)
    rows = np.where(summary.rows > 0, summary.rows, sizes).astype(float)
    spread = summary.floor**2 * rows  # E k(x,x) − ‖μ‖²
    known = np.isfinite(spread)
    if not known.any():
        return OK
    alike = (summary.norm / np.maximum(spread + summary.norm, np.finfo(float).tiny))[known]
    if (summary.rows[known] > 2).all() and (alike * rows[known] < 3.0).all():
        return "kernel too narrow"
    if (1.0 - alike < 1e-3).all():
        return "kernel too wide"
    if (summary.effective[known] < 1.5).all() and (sizes[known] > 2).all():
        return "one point"
    from herdcli.evaluation.samples import random_mmd

    random = random_mmd(atoms, summary)[known]
    if summary.embedding_error is not None and (summary.embedding_error[known] > random).any():
        return "embedding too coarse"
    return "worse than random" if (summary.mmd[known] > random).any() else OK


def of_network(row: Row, value: Any) -> str:
    """Of learned networks: convergence, and the likelihood of test rows beside that of independent variables."""
    network = getattr(value, "network", value)
    fit = network.fit
    if fit is None:
        return OK
    if not np.isfinite(network.table).all():
        return DIVERGED
    if not fit.converged:
        return "not converged"
    if row.get("train_log_likelihood") is not None and row.get("log_likelihood") is None:
        return NO_ROWS
    if row.get("log_likelihood") == -math.inf:
        return "impossible rows"
    base = row.get("independent")
    found = of_loss(row.get("log_likelihood"), base, worse="worse than independent")
    if found is not None:
        return found
    return "overfits" if overfits(row.get("log_likelihood"), row.get("train_log_likelihood"), base) else OK


def of_beliefs(row: Row, value: Any) -> str:
    """Of beliefs: whether the fixed point was reached, log Z is above a bound that it has, and variables agree with their cliques.

    Chains reach no fixed point: theirs are draws, of which there may be too few.
    """
    sampled = getattr(value, "beliefs", value).algorithm.endswith("gibbs")
    if not row.get("converged", True):
        return "chains disagree" if sampled else "not converged"
    least, own = row.get("log_z_mean_field"), row.get("log_z")
    if least is not None and own is not None and own < least - max(SLACK, LITTLE * abs(least) * 1e-3):
        return "below mean field"
    gap = row.get("consistency_gap")
    if gap is None or gap <= 1e-2:
        return OK
    return "sampling error" if sampled else "inconsistent marginals"


def _rotated(value: Any) -> bool:
    """Whether no output of a square model is told from a Gaussian by its kurtosis, so that any rotation would do as well."""
    M, D = value.J.shape
    if M != D or M < 2 or value.dictionary is not None or value.algorithm not in BY_KURTOSIS:
        return False
    return bool((np.abs(value.kurtosis) < NO_KURTOSIS * math.sqrt(24.0 / value.rows)).all())


def of_ica(row: Row, value: Any) -> str:
    """Of filters: the likelihood of whitened rows beside a Gaussian's, else how far from Gaussian the outputs are beside the inputs."""
    from herdcli.evaluation.ica import Judged, judged

    held = judged(value)
    value = value.model if isinstance(value, Judged) else value
    power = np.linalg.norm(value.J, axis=1)
    if (power < 1e-6 * power.max()).any():
        return "dead filters"
    if value.rows < LEAST_ROWS * value.J.shape[1]:
        return "too few rows"
    if value.iterations < 3 and value.algorithm in ("ml", "fastica", "picard"):
        return "not converged"
    if _rotated(value):
        return "gaussian outputs"
    if held is None:
        return OK
    own, base = row.get("log_likelihood"), row.get("log_likelihood_whitening")
    if own is not None and base is not None and own < base:
        return "worse than whitening"
    trained, outside = row.get("kurtosis"), row.get("kurtosis_heldout")
    if trained is not None and outside is not None and trained > 3.0 * max(outside, 1.0):
        return "overfits"
    before = float(row.get("kurtosis_whitening") or 0.0)
    return "worse than whitening" if own is None and float(np.median(np.abs(held.kurtosis("outputs")))) < before else OK


JUDGES: dict[str, Callable[[Row, Any], str | None]] = {
    "rbm": of_rbm,
    "dbn": of_dbn,
    "rbm-pairs": of_pairs,
    "classifier": of_classifier,
    "predictor": of_predictor,
    "tagger": of_tagger,
    "regression": lambda row, value: OK,  # its figures say all that is wrong
    "mixture": of_em,
    "kmeans": of_em,
    "factors": of_em,
    "herding": of_herding,
    "samples": of_samples,
    "network": of_network,
    "beliefs": of_beliefs,
    "ica": of_ica,
}
# what a command says itself where it ends with this verdict
TOLD = {
    "not converged": "converge",
    "chains disagree": "the chains of",
    "separated": "without bound",
    "variance at floor": "to the floor",
    "diverged": "ran away",
    "gaussian outputs": "look Gaussian",
}


def remark(kind: str, value: Any, told: Iterable[str] = (), *, map: Callable[..., Any] = map) -> str | None:
    """What is said at the end of training: the verdict and what helps; None where it is ok, or not known.

    told  warnings that the command has given already, one of which may say the same.
    """
    wrong, row = quickly(kind, value, map=map)
    said_before = list(told)
    left = [
        part
        for part in (wrong or OK).split("; ")
        if part not in (OK, NO_ROWS) and not any(TOLD.get(part, part) in text for text in said_before)
    ]
    return said("; ".join(left), row, kind) if left else None


def quickly(kind: str, value: Any, *, map: Callable[..., Any] = map) -> tuple[str | None, Row]:
    """The verdict, and the figures it needs, as the end of training finds them; None for kinds that nothing is held against."""
    page = KINDS[kind]
    if page.baseline is None or page.metrics is None:
        return None, {}
    from herdcli.evaluation.settings import EvaluationSettings

    row = named(page.quick)(value, map=map) if page.quick else named(page.metrics)(value, EvaluationSettings(), map=map)
    return verdict(kind, row, value), row


BESIDE = {"regression": "the mean response"}  # what a kind's `independent` is, where it is not columns for themselves


def said(wrong: str, row: Row, kind: str = "") -> str:
    """A verdict in a sentence, with what helps."""
    own, base = row.get("log_likelihood"), row.get("independent")
    if wrong == "worse than independent" and kind == "rbm" and own is not None and base is not None:
        from herdcli.evaluation.rbm import worse_than_independent

        return worse_than_independent(row)
    told, spread = f"verdict: {wrong}", row.get("gain_se")
    if wrong == "learned nothing" and own is not None and base is not None and spread is not None:
        told += f": {own - base:.2g} ± {spread:.2g} nats a held-out row more than {BESIDE.get(kind, 'independent columns')}"
    found = (ADVICE_OF.get((kind, part), ADVICE.get(part)) for part in wrong.split("; "))
    advice = "; ".join(part for part in found if part)
    return told + (f" ({advice})" if advice else "")
