"""The runs of `herd em` for rows: a search over numbers of components, and warnings about the chosen model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.em import floored_variances
from herdcli.cli.frame.history.request import settings_from_request
from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.run import block_placement
from herdcli.em.model_table import TABLE

if TYPE_CHECKING:
    from herdcli.cli.em.inputs import EMInputs
    from herdcli.cli.em.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.em.artifacts import FactorModel, Mixture
    from herdcli.em.fitting import FittedArtifact
    from herdcli.em.mixture.component_search import SearchResult


def fit_model(session: Session, inputs: EMInputs, request: Request) -> None:
    """Fit a model and save it as an artifact of kind `mixture`, `kmeans` or `factors`."""
    from herdcli.em.driver import EMSettings
    from herdcli.em.fitting import prepare_fit
    from herdcli.em.mixture.component_search import SearchResult
    from herdcli.numerics.block_statistics import RowBlocks

    source = block_placement.place_blocks_on_workers(session, RowBlocks(inputs.rows.training))
    fit = prepare_fit(inputs.rows, inputs.asked, settings_from_request(EMSettings, request), session.map, source)
    batches = fit.minibatch(session.map) if request.model == "kmeans" else None
    if fit.axes is not None:
        found = session.run(fit.axes, label=request.model, memory="the principal axes")
    elif batches is not None:
        found = SearchResult(session.run(batches, label="minibatches", memory="a minibatch"), fit.search.sizes[0], (0.0,))
    else:
        found = session.run(fit.search, label=request.model, memory="the statistics")
    value = fit.artifact_from_search(found, session.map)
    outputs.write_artifact(
        session,
        value,
        _summarize(value, found, request.model, request.bayes, request.minibatch, request.per_class, request.components),
        history=inputs.history,
    )
    _warn_of_result(session, value, found, request)


def _summarize(
    value: FittedArtifact,
    search: SearchResult,
    model: str,
    bayes: bool,
    minibatch: int | None,
    per_class: bool,
    components: tuple[int, int] | None,
) -> str:
    from herdcli.em.artifacts import Clusters

    part = TABLE[model].part
    of = f" (best of {len(search.scores)} tried)" if len(search.scores) > 1 else ""
    last = float(value.ledger.log_likelihood[-1])
    figure = f"squared error {abs(last):.6g} per row" if model in ("kmeans", "pca") else f"log-likelihood {last:.6g} nats per row"
    if bayes:
        figure = f"bound {-float(value.ledger.free_energy[-1]):.6g} nats per row"
    count = int(value.restarts.iterations[value.restarts.best])
    steps = f"{minibatch} minibatches" if minibatch and model == "kmeans" else f"{count} iteration{'s' * (count != 1)}"
    if len(value.ledger.log_likelihood) == 1 and model == "pca":
        return f"{search.size} {part}{'s' if search.size != 1 else ''}, {figure}"
    size = len(value.centre) if isinstance(value, Clusters) else search.size
    each = f" for each of {len(value.known.class_names or ())} classes" if per_class and components and value.known else ""
    return f"{size} {part}{'s' if size != 1 else ''}{each}{of}, {steps}, {figure}"


def _warn_of_result(session: Session, value: FittedArtifact, search: SearchResult, request: Request) -> None:
    """Warn about variances at their floors, an end before convergence, and a best size at the end of the range."""
    from herdcli.em.artifacts import Clusters, FactorModel, Mixture
    from herdcli.em.correlation_shrinkage import find_perfectly_correlated_columns
    from herdcli.numerics.factor_model import max_identifiable_factors

    if isinstance(value, Clusters) and len(value.centre) < search.size:
        few = f"{len(value.centre)} different centre{'s' * (len(value.centre) != 1)}"
        why = (
            "the training rows have no more different values"
            if not value.ledger.log_likelihood[-1]
            else "the other centres ended at the same points"
        )
        session.console.warn(f"{search.size} clusters were requested, but only {few} found: {why}")

    many = int(value.ledger.floors[-2:].max(initial=0))
    if isinstance(value, (Mixture, FactorModel)) and request.model != "pca":
        known = value.known
        assert known is not None
        flat = floored_variances.warn_of_constant_columns(
            session.console, known.base_variance, known.feature_names, value.floor, bayes=request.bayes
        )
        if known.base_full is not None:
            floored_variances.warn_of_copied_columns(
                session.console, find_perfectly_correlated_columns(known.base_full), known.feature_names
            )
        _warn_of_floored_variances(
            session, value, many - flat * value.floors_per_constant_column, search.size, request.floor, request.model, request.covariance
        )
    if isinstance(value, Mixture) and request.bayes and value.occupied_components < search.size:
        session.console.note(f"{value.occupied_components} of {search.size} components hold rows; the others are empty")
    if isinstance(value, Mixture) and value.shrinkage and request.shrinkage is None:
        K, D = value.mean.shape
        few = f"{value.mass:g} rows are few for {K} full covariances of {D} columns, so each is shrunk towards their average"
        session.console.note(f"{few}, weighted as {value.shrinkage:.3g} rows (--shrinkage 0 turns this off)")
    if not value.restarts.converged[value.restarts.best] and request.minibatch is None and request.iterations:
        session.console.warn(f"not converged after {request.iterations} iterations; raise --iterations or --tolerance")
    if isinstance(value, FactorModel) and value.model == "fa" and search.size > (most := max_identifiable_factors(len(value.mean))):
        determined = f"at most {most} factor{'s' if most != 1 else ''}" if most else "no factor"
        own = "1 factor of this model is" if search.size == 1 else f"{search.size} factors of this model are"
        session.console.warn(f"{len(value.mean)} columns determine {determined}, so the {own} not unique")
    if search.size == 1 and len(search.scores) > 1 and request.model == "gmm" and request.covariance in ("full", "tied"):
        session.console.note(
            "--criterion chose a single component; --covariance diagonal has fewer parameters and may find more components"
        )
    if request.components is not None and len(search.scores) > 1 and search.size == request.components[1]:
        session.console.warn(f"the best number of components is the largest one tried, {search.size}; try a wider range of --components")


def _warn_of_floored_variances(
    session: Session, value: Mixture | FactorModel, floored_count: int, size: int, floor: float | None, model: str, covariance: str
) -> None:
    """Warn about variances at their floor; `floored_count` does not count those of constant columns."""
    from herdcli.em.artifacts import Mixture
    from herdcli.em.variance_floors import columns_at_floor, floor_scale

    if floored_count <= 0:
        return
    diagonal = ", or --covariance diagonal" if model == "gmm" and covariance in ("full", "tied") else ""
    part, remedy = "component" if size > 1 else "", f"try fewer --components{diagonal}"
    known, names = value.known, None
    columns: list[int] = []
    if isinstance(value, Mixture):
        covariances = value.covariance
    else:
        part, covariances = "factors", np.diag(value.noise)
    if known is not None and model != "ppca":  # whose only noise variance is that of all columns
        scale = floor_scale(known.base_variance, known.base_mean, value.floor)
        names, columns = known.feature_names, columns_at_floor(covariances, known.base_variance, scale, value.floor)
    why = floored_variances.explain_variance_floors(session.recoding, names, columns, part, remedy)
    own = floor is None and value.floors_per_constant_column > 0
    floored_variances.warn_of_variance_floors(session.console, floored_count, "variance", None if own else value.floor, why)
