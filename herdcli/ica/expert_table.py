"""The table of experts of one filter output.  To add one, write a class in a file of `densities` and add one line here."""

from __future__ import annotations

from typing import Literal

from herdcli.records import dataclass


@dataclass(frozen=True, kw_only=True)
class ExpertEntry:
    """One line of the table.

    path    the class, an Expert.
    tails   relative to a Gaussian of the same variance: heavy (super-Gaussian), light (sub-Gaussian), or gaussian, which only decorrelates.
    smooth  whether its curvature can be used for Newton steps, as in maximum likelihood.
    """

    path: str
    tails: Literal["heavy", "light", "gaussian"]
    smooth: bool = True


TABLE: dict[str, ExpertEntry] = {  # in the order of --help
    "logistic": ExpertEntry(path="herdcli.ica.densities.logistic.LogisticExpert", tails="heavy"),
    "student": ExpertEntry(path="herdcli.ica.densities.student.StudentExpert", tails="heavy"),
    "laplace": ExpertEntry(path="herdcli.ica.densities.laplace.LaplaceExpert", tails="heavy", smooth=False),
    "laplace-smooth": ExpertEntry(path="herdcli.ica.densities.secant.SecantExpert", tails="heavy"),
    "gaussian-cdf": ExpertEntry(path="herdcli.ica.densities.gaussian.GaussianExpert", tails="gaussian"),
    "bimodal": ExpertEntry(path="herdcli.ica.densities.bimodal.BimodalExpert", tails="light"),
}
SEPARATING = tuple(name for name, entry in TABLE.items() if entry.tails != "gaussian")
