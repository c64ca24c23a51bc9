"""Linear factor models: factor analysis, and principal components with noise and without."""

from __future__ import annotations

from dataclasses import replace

from herdcli.em import artifacts
from herdcli.em.driver import EM, EMFit, EMSettings
from herdcli.em.factor import factor_analysis
from herdcli.em.factor.principal_axes import PrincipalAxes, choose_solver
from herdcli.em.fitting import FitOptions, FitRows, PreparedFit, RowModel, add_criterion
from herdcli.em.mixture.component_search import ComponentSearch
from herdcli.em.variance_floors import column_floors
from herdcli.errors import BadUsage, DataError
from herdcli.numerics.block_statistics import BlockSource, Map, marginal_moments


class FactorModels(RowModel):
    """Factor models of several sizes that differ in their noise: of each column (fa), of all columns (ppca), or none (pca)."""

    def prepare(self, rows: FitRows, asked: FitOptions, settings: EMSettings, source: BlockSource, map: Map) -> PreparedFit:
        if len(asked.sizes) > 1 and asked.model == "pca":
            raise BadUsage("pca has no likelihood to choose a number of factors by", hint="--components N, or --model ppca")
        if asked.criterion == "icl":
            raise BadUsage("--criterion icl is for mixtures", hint="--criterion bic, aic or valid")
        wide = (
            _prepare_axes(rows, asked, source, map)
            if asked.model == "pca" and asked.given is None and asked.init in (None, "pca")
            else None
        )
        if wide is not None:
            return wide
        given = asked.given if isinstance(asked.given, dict) else None
        init, size = asked.init or ("newton" if asked.model == "fa" else "pca"), asked.sizes[0]
        first, short = factor_analysis.prepare_factors(
            asked.model, source, size, floor=asked.floor, init=init, seed=asked.seed, given=given, map=map
        )
        top = replace(first, factors=asked.sizes[-1])
        if top.factors > (most := len(first.found.mean) - (asked.model != "pca")):
            message = f"{top.factors} factors of {len(first.found.mean)} columns cannot be learned by {asked.model}"
            raise BadUsage(message, hint=f"--components from 1 to {most}")
        models = [replace(first, factors=size) for size in asked.sizes]
        search = ComponentSearch(asked.sizes, tuple(EM(model, short, settings, map) for model in models))
        return add_criterion(PreparedFit(asked, rows, first.found, first.floor, None, search), map)

    def assemble(self, made: PreparedFit, fit: EMFit) -> artifacts.FactorModel:
        return artifacts.factor_artifact(fit, self.name, made.floor, made.asked.seed, made.rows.holdout)


def _prepare_axes(rows: FitRows, asked: FitOptions, source: BlockSource, map: Map) -> PreparedFit | None:
    """Pca without the D × D covariance, where that pays or is asked for; None: by the covariance.

    Raises DataError for rows with gaps, of which a randomised range knows nothing.
    """
    n, D, K = rows.training.count, rows.training.columns, asked.sizes[0]
    if K > D or choose_solver(asked.solver, n, D, K, complete=True) == "columns":
        return None
    found = marginal_moments(source, map)
    if found.missing and asked.solver == "randomised":
        many = "1 value is" if found.missing == 1 else f"{found.missing} values are"
        raise DataError(f"{many} missing, which --solver randomised cannot use", hint="--solver lapack")
    how = choose_solver(asked.solver, n, D, K, complete=not found.missing)
    if how == "columns":
        return None
    floor = column_floors(found.variance, found.mean, None)[0]
    axes = PrincipalAxes(source, found, K, how == "rows", floor, asked.seed, map)
    return PreparedFit(asked, rows, found, floor, None, ComponentSearch(asked.sizes, ()), axes)
