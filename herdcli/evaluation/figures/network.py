"""The metrics of `herd eval` for a `network`: the likelihood of held-out rows, and its distance from other networks."""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import Map, ProgressCallback
from herdcli.errors import DataError
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.metrics import network_rows
from herdcli.evaluation.report.figure_formulas import TEH
from herdcli.markov.exact import enumeration
from herdcli.markov.exact.junction_tree import CalibratedTree
from herdcli.markov.learning import fit_summary
from herdcli.markov.mean.mean_field_bound import compute_mean_field_bound
from herdcli.markov.model.network import Network
from herdcli.records import dataclass
from herdcli.schema import Array
from herdcli.splits import TEST

COLUMNS = (
    "variables", "factors", "log_z", "log_z_mean_field", "log_likelihood", "independent", "train_log_likelihood", "marginal_l1",
    "marginal_error_max", "converged", "residual", "iterations", "scaling_updates", "propagation_updates", "kl", "reference_l1", "joint_l1",
)  # fmt: skip
EXPLAINED = {  # meaning, formula and source of columns, for `herd eval --explain` and reports
    "joint_l1": ("sum over all states of |P − reference|", "Σ_x |P(x) − R(x)| up to 2²⁰ states", TEH),
}
LIMIT, QUICK = 4e9, 1e8  # bytes of a junction tree, for eval and at the end of training
MOST_JOINT = 1 << 20  # most states for which joint tables are compared


@dataclass(frozen=True)
class NetworkWithReference:
    """A network with another one over the same variables, or with rows of states (n, N), −1 for missing values."""

    network: Network
    reference: Network | None
    rows: Array | None = None


def metrics(
    value: Network | NetworkWithReference, settings: EvaluationSettings, *, map: Map = map, progress: ProgressCallback | None = None
) -> dict[str, float | None]:
    """Return every column of `COLUMNS`; None if it does not apply, or if the junction tree would need more than 4 GB.

    log_likelihood   mean of log P over the test rows, or over the given rows, in nats; train_log_likelihood that of the training rows.
    independent      the same mean under independent variables with the given marginals, or with those of the network.
    log_z_mean_field lower bound of log Z by naive mean field, for small networks.
    marginal_l1      mean over clusters of Σ |P(x_a) − given marginal|; marginal_error_max the largest difference.
    kl               Σ_x R log(R/P) against the reference R, nats; reference_l1 the mean over factors of Σ |P(x_a) − R(x_a)|;
    joint_l1         Σ_x |P − R| up to 2^20 states.
    """
    network = value.network if isinstance(value, NetworkWithReference) else value
    result: dict[str, float | None] = dict.fromkeys(COLUMNS)
    result |= {"variables": network.listed_count, "factors": network.factor_count - network.auxiliary}
    fit = network.fit
    scopes = [scope for scope, _ in network.factors() if scope]
    if fit is not None:
        scopes += [scope for scope, _ in fit.targets(network.cardinality)]
    found = fit_summary.calibrate_network(network, LIMIT, scopes)
    if found is not None:
        result["log_z"] = found.log_z
    result["log_z_mean_field"] = compute_mean_field_bound(network)
    if fit is not None:
        result |= learned_network_columns(network, found)
    if isinstance(value, NetworkWithReference):
        if value.rows is not None:
            result |= network_rows.mean_log_likelihoods(network, found, value.rows)
        if value.reference is not None:
            result |= _comparison_columns(network, value.reference, found, scopes)
    return result


def independent_log_likelihood(network: Network) -> float | None:
    """Return the mean log-likelihood of the test rows under independent variables with the given marginals; None if either is missing."""
    fit = network.fit
    if fit is None or fit.holdout is None or fit.holdout_split is None or not (fit.holdout_split == TEST).any():
        return None
    single: dict[int, Array] = {}
    for scope, table in fit.targets(network.cardinality):
        for place, variable in enumerate(scope):
            others = tuple(axis for axis in range(len(scope)) if axis != place)
            single.setdefault(variable, table.sum(axis=others))
    rows = fit.holdout[fit.holdout_split == TEST]
    if set(single) != set(range(network.count)):
        return None
    with np.errstate(divide="ignore"):
        logs = sum(np.log(np.maximum(single[i] / single[i].sum(), 1e-12))[rows[:, i]] for i in range(network.count))
    return float(np.mean(logs))


def quick_metrics(value: Network, *, map: Map = map) -> dict[str, float | None]:
    """Return the columns for the verdict at the end of training: likelihoods only if the junction tree needs at most QUICK bytes."""
    if value.fit is None:
        return {}
    scopes = [scope for scope, _ in value.factors() if scope] + [scope for scope, _ in value.fit.targets(value.cardinality)]
    return learned_network_columns(value, fit_summary.calibrate_network(value, QUICK, scopes))


def learned_network_columns(network: Network, tree: CalibratedTree | None) -> dict[str, float | None]:
    """Return the columns of a fitted network; its likelihoods need its junction tree, unless that is too large."""
    fit = network.fit
    assert fit is not None
    result: dict[str, float | None] = {
        "train_log_likelihood": fit.log_likelihood if np.isfinite(fit.log_likelihood) or fit.rows else None,
        "independent": independent_log_likelihood(network),
        "converged": int(fit.converged),
        "residual": fit.residual,
        "iterations": fit.iterations,
        "scaling_updates": fit.scaling_updates,
        "propagation_updates": fit.propagation_updates,
    }
    if tree is None:
        return result
    targets = fit.targets(network.cardinality)
    present = fit_summary.scope_marginals(network, tree, [scope for scope, _ in targets])
    apart = [np.abs(p - q) for p, (_, q) in zip(present, targets, strict=True)]
    if apart:
        result["marginal_l1"] = float(np.mean([part.sum() for part in apart]))
        result["marginal_error_max"] = max(float(part.max()) for part in apart)
    if fit.holdout is not None and fit.holdout_split is not None and (test := fit.holdout_split == TEST).any():
        result["log_likelihood"] = float(fit_summary.row_log_potentials(network, fit.holdout[test]).mean()) - tree.log_z
    return result


def _comparison_columns(
    network: Network, reference: Network, tree: CalibratedTree | None, scopes: list[tuple[int, ...]]
) -> dict[str, float | None]:
    if not np.array_equal(network.cardinality, reference.cardinality):
        raise DataError(f"has {network.count} variables, but the --reference has {reference.count} or other numbers of states")
    wider = fit_summary.calibrate_network(reference, LIMIT, [*scopes, *(scope for scope, _ in reference.factors() if scope)])
    if wider is None or tree is None:
        return {}
    factors = [(scope, table) for scope, table in network.factors() if scope]
    own = fit_summary.scope_marginals(reference, wider, [scope for scope, _ in factors])
    known = [(scope, table) for scope, table in reference.factors() if scope]
    theirs = fit_summary.scope_marginals(reference, wider, [scope for scope, _ in known])
    # KL(R ‖ P) = Σ_factors of R E_R log f − log Z_R − Σ_factors of P E_R log f + log Z_P: the marginals of R over both networks'
    # scopes are sufficient.
    constant = _log_constant_factors(reference) - _log_constant_factors(network)
    energy = sum(_expected_log_factor(p, table) for p, (_, table) in zip(theirs, known, strict=True))
    energy -= sum(_expected_log_factor(p, table) for p, (_, table) in zip(own, factors, strict=True))
    present = fit_summary.scope_marginals(network, tree, [scope for scope, _ in factors])
    result: dict[str, float | None] = {
        "kl": max(0.0, energy + constant - wider.log_z + tree.log_z),
        "reference_l1": float(np.mean([np.abs(p - q).sum() for p, q in zip(present, own, strict=True)])),
    }
    if float(np.log2(network.cardinality.astype(np.float64)).sum()) <= np.log2(MOST_JOINT):
        joint = enumeration.initial_joint(network).joint
        result["joint_l1"] = float(np.abs(joint - enumeration.initial_joint(reference).joint).sum())
    return result


def _expected_log_factor(p: Array, table: Array) -> float:
    """Return Σ p log f, −∞ if f is 0 where p is positive."""
    on = p > 0
    with np.errstate(divide="ignore"):
        return float(p[on] @ np.log(table[on]))


def _log_constant_factors(network: Network) -> float:
    """Return the sum of log f over factors without variables."""
    return sum(float(np.log(table)) for scope, table in network.factors() if not scope)
