"""The table of models that `herd em` fits.  To add a model of rows, write a class in a file of `models` and add one line here."""

from __future__ import annotations

from herdcli.records import dataclass


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """One line of the table.

    kind       kind of the artifact.
    part       name of the parts that --components counts, in the singular.
    path       the class, a RowModel, constructed from its name; "" for sequence models, which have `hmm_fitting` and `lds_fitting`.
    starts     initialisations that --init offers.
    density    whether the model has a density of rows, so that a covariance of all rows is kept for the baseline.
    """

    kind: str
    part: str
    path: str = ""
    starts: tuple[str, ...] = ("kmeans++", "random")
    density: bool = True

    @property
    def sequences(self) -> bool:
        """Whether the model is fitted to sequences of rows."""
        return not self.path


FACTORS = "herdcli.em.models.factors.FactorModels"
TABLE: dict[str, ModelEntry] = {  # in the order of --help
    "gmm": ModelEntry(kind="mixture", part="component", path="herdcli.em.models.mixtures.MixtureModels"),
    "kmeans": ModelEntry(kind="kmeans", part="cluster", path="herdcli.em.models.clusters.ClusterModels", density=False),
    "fa": ModelEntry(kind="factors", part="factor", path=FACTORS, starts=("newton", "pca", "random")),
    "ppca": ModelEntry(kind="factors", part="factor", path=FACTORS, starts=("pca", "random")),
    "pca": ModelEntry(kind="factors", part="factor", path=FACTORS, starts=("pca", "random"), density=False),
    "hmm": ModelEntry(kind="hmm", part="state"),
    "lds": ModelEntry(kind="lds", part="state", starts=("pca", "random")),
}


def models_with_value(field: str, value: object) -> tuple[str, ...]:
    """Return the names of the models whose entry has this value in the field `field`."""
    return tuple(name for name, entry in TABLE.items() if getattr(entry, field) == value)
