"""The row models of linear factors: factor analysis, and principal components with and without noise."""

from __future__ import annotations

from dataclasses import replace

from herdcli.algorithm import Map
from herdcli.em import artifacts
from herdcli.em.driver import EM, EMFit, EMSettings
from herdcli.em.factor import factor_analysis
from herdcli.em.factor.principal_axes import PrincipalAxes, choose_solver
from herdcli.em.fitting import FitOptions, FitRows, PreparedFit, RowModel, add_size_criterion
from herdcli.em.mixture.component_search import ComponentSearch
from herdcli.em.variance_floors import floor_and_column_scales
from herdcli.errors import BadUsage, DataError
from herdcli.numerics.block_statistics import BlockSource, marginal_moments


class FactorModels(RowModel):
    """Factor models of several sizes, with noise per column (fa), shared noise (ppca), or no noise (pca)."""

    def prepare(self, rows: FitRows, options: FitOptions, settings: EMSettings, source: BlockSource, map: Map) -> PreparedFit:
        if len(options.sizes) > 1 and options.model == "pca":
            raise BadUsage("pca has no likelihood, so it cannot choose the number of factors", hint="use --components N, or --model ppca")
        if options.criterion == "icl":
            raise BadUsage("--criterion icl is for mixtures", hint="use --criterion bic, aic or valid")
        wide = (
            _prepare_axes_fit(rows, options, source, map)
            if options.model == "pca" and options.given is None and options.init in (None, "pca")
            else None
        )
        if wide is not None:
            return wide
        given = options.given if isinstance(options.given, dict) else None
        init, size = options.init or ("newton" if options.model == "fa" else "pca"), options.sizes[0]
        first, short = factor_analysis.prepare_factors(
            options.model, source, size, floor=options.floor, init=init, seed=options.seed, start=given, map=map
        )
        top = replace(first, factors=options.sizes[-1])
        if top.factors > (most := len(first.found.mean) - (options.model != "pca")):
            message = f"{options.model} cannot learn {top.factors} factors from {len(first.found.mean)} columns"
            raise BadUsage(message, hint=f"use --components from 1 to {most}")
        models = [replace(first, factors=size) for size in options.sizes]
        search = ComponentSearch(options.sizes, tuple(EM(model, short, settings, map) for model in models))
        return add_size_criterion(PreparedFit(options, rows, first.found, first.floor, None, search), map)

    def assemble(self, prepared: PreparedFit, fit: EMFit) -> artifacts.FactorModel:
        return artifacts.factor_artifact(fit, self.name, prepared.floor, prepared.asked.seed, prepared.rows.holdout)


def _prepare_axes_fit(rows: FitRows, options: FitOptions, source: BlockSource, map: Map) -> PreparedFit | None:
    """Return a fit of pca without the D × D covariance if that is faster or requested; None means by the covariance.

    Raises DataError for rows with missing values, which a randomised range cannot use.
    """
    n, D, K = rows.training.count, rows.training.columns, options.sizes[0]
    if K > D or choose_solver(options.solver, n, D, K, complete=True) == "columns":
        return None
    found = marginal_moments(source, map)
    if found.missing and options.solver == "randomised":
        many = "1 value is" if found.missing == 1 else f"{found.missing} values are"
        raise DataError(f"{many} missing, which --solver randomised cannot use", hint="use --solver lapack")
    how = choose_solver(options.solver, n, D, K, complete=not found.missing)
    if how == "columns":
        return None
    floor = floor_and_column_scales(found.variance, found.mean, None)[0]
    axes = PrincipalAxes(source, found, K, how == "rows", floor, options.seed, map)
    return PreparedFit(options, rows, found, floor, None, ComponentSearch(options.sizes, ()), axes)
