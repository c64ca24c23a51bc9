"""Rows sampled from harmoniums, as a data set."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from herdcli.artifacts import Dataset
from herdcli.rbm.units import unit_family

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session
    from herdcli.rbm.model import RBM
    from herdcli.rbm.sampling.gibbs_samples import SamplingProblem
    from herdcli.schema import Array


DISAGREE = 1.1  # R̂ of the chains above which there is a warning


def sample_models(session: Session, problem: SamplingProblem, *, chains: bool) -> tuple[list[Array], str]:
    """Return rows (count, D) of each model, and a description of the sampling.

    Rows are independent if a layer has few enough states to compute all probabilities and chains were not requested.
    """
    from herdcli.rbm.sampling.gibbs_samples import BlockGibbsSampling
    from herdcli.rbm.sampling.independent_sampling import IndependentSampling, plan_enumerations

    what = f"{len(problem.models)} × {problem.count} rows of {len(problem.models[0].b)} units"
    parts = plan_enumerations(problem)
    if parts is not None and not chains:
        found = session.run(IndependentSampling(problem, parts, session.map), label="sampling", memory=what)
        return found.rows, "independent"
    session.request = replace(session.request, burn_in=problem.burn_in)
    found = session.run(BlockGibbsSampling(problem, session.map), label="sampling", memory=what)
    if found.disagreement is not None and found.disagreement > DISAGREE:
        size = f"R̂ {found.disagreement:.2f}" if found.disagreement < 100 else "R̂ above 100"
        instead = "a longer --burn-in may help" if parts is None else "without --burn-in and --chains, rows are independent"
        session.console.warn(f"the chains disagree ({size}), so shares of modes may be wrong; {instead}")
    return found.rows, f"chains of {problem.burn_in} sweeps"


def dataset_of_samples(model: RBM, rows: list[Array], *, means: bool) -> Dataset:
    """Return the rows (count, D) of each model as a data set with the model's column properties."""
    units, X = unit_family(model.visible_units), model.to_original(np.concatenate(rows))
    y = np.repeat(np.arange(len(rows)), len(rows[0])) if model.classes else None
    if units.labels is not None:
        y, units = np.concatenate(rows)[:, model.columns :].argmax(axis=1), units.columns
    two_state = units.two_state and not means
    return Dataset(
        X.astype(np.int8) if two_state else X,
        y=y,
        class_names=model.classes or model.labels,
        units=units.name if two_state else "real",
        value_range=None if units.range is None else np.array(units.range) / units.scale,
        image_shape=model.image_shape,
        feature_names=model.feature_names,
    )
