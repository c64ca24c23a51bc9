"""The table of families of generalised linear models.  To add one, write a class in `families` or its own file, and add one line here."""

from __future__ import annotations

from herdcli.records import dataclass


@dataclass(frozen=True, kw_only=True)
class FamilyEntry:
    """One line of the table.

    path     the class, a Family.
    classes  whether the response is a class, so that predictions are probabilities.
    recedes  whether the likelihood may have no maximum, so that coefficients that separate rows are searched for.
    firth    whether Firth's penalty is available.
    """

    path: str
    classes: bool = False
    recedes: bool = False
    firth: bool = False


TABLE: dict[str, FamilyEntry] = {  # in the order of --help
    "gaussian": FamilyEntry(path="herdcli.regression.families.Gaussian"),
    "bernoulli": FamilyEntry(path="herdcli.regression.families.Bernoulli", classes=True, recedes=True, firth=True),
    "poisson": FamilyEntry(path="herdcli.regression.families.Poisson", recedes=True, firth=True),
    "gamma": FamilyEntry(path="herdcli.regression.families.Gamma"),
    "gamma-shape": FamilyEntry(path="herdcli.regression.families.GammaShape"),
    "softmax": FamilyEntry(path="herdcli.regression.families.Softmax", classes=True, recedes=True),
}
