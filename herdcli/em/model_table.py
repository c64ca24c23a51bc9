"""The table of models that `herd em` learns.  A new one of rows is a file of `models`, with a class, and one line here."""

from __future__ import annotations

from herdcli.records import dataclass


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the table.

    kind       the artifact that it becomes.
    part       what --components counts, in the singular.
    path       the class, a RowModel, made of its name; "" for models of sequences, whose problems differ (`hmm_fitting`, `lds_fitting`).
    starts     how its first parameters can be chosen, as --init has it.
    density    whether it gives rows a density, so that a covariance of all rows is kept to hold it against.
    """

    kind: str
    part: str
    path: str = ""
    starts: tuple[str, ...] = ("kmeans++", "random")
    density: bool = True

    @property
    def sequences(self) -> bool:
        """Whether it is learned from rows in sequences."""
        return not self.path


FACTORS = "herdcli.em.models.factors.FactorModels"
TABLE: dict[str, Entry] = {  # in the order of --help
    "gmm": Entry(kind="mixture", part="component", path="herdcli.em.models.mixtures.MixtureModels"),
    "kmeans": Entry(kind="kmeans", part="cluster", path="herdcli.em.models.clusters.ClusterModels", density=False),
    "fa": Entry(kind="factors", part="factor", path=FACTORS, starts=("newton", "pca", "random")),
    "ppca": Entry(kind="factors", part="factor", path=FACTORS, starts=("pca", "random")),
    "pca": Entry(kind="factors", part="factor", path=FACTORS, starts=("pca", "random"), density=False),
    "hmm": Entry(kind="hmm", part="state"),
    "lds": Entry(kind="lds", part="state", starts=("pca", "random")),
}


def named(what: str, value: object) -> tuple[str, ...]:
    """The models whose line has this value."""
    return tuple(name for name, entry in TABLE.items() if getattr(entry, what) == value)
