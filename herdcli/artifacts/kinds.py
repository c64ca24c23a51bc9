"""The one table of artifact kinds: a name, and the dataclass of each version by dotted path.

Modules are imported when an artifact of their kind is read.  When a kind changes, the old
dataclass stays and gains a method `upgrade()` that returns the next version's; the new path is
appended.  The version written is the number of paths.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from herdcli.errors import DataError


@dataclass(frozen=True)
class Kind:
    """One kind of artifact.  `versions[v - 1]` is the dotted path of version v's dataclass."""

    name: str
    versions: tuple[str, ...]

    @property
    def version(self) -> int:
        """The version this program writes."""
        return len(self.versions)

    def type_of(self, version: int, *, where: str | None = None) -> type[Any]:
        """The dataclass of one version; DataError for a version newer than this program."""
        if not 1 <= version <= self.version:
            hint = "update with: pip install --upgrade herdcli"
            raise DataError(f"is a {self.name} of version {version}, this herd reads versions up to {self.version}", where=where, hint=hint)
        module, _, name = self.versions[version - 1].rpartition(".")
        found: type[Any] = getattr(importlib.import_module(module), name)
        return found


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("dataset", ("herdcli.artifacts.dataset.Dataset",)),
        Kind("rbm", ("herdcli.rbm.model.RBM1", "herdcli.rbm.model.RBM")),
        Kind("rbm-pairs", ("herdcli.rbm.pairs.PairRBM",)),
        Kind("dbn", ("herdcli.rbm.stack.DBN",)),
        Kind("herding", ("herdcli.herding.model.Herding",)),
        Kind("classifier", ("herdcli.online.model.Classifier1", "herdcli.online.model.Classifier")),
        Kind("samples", ("herdcli.quadrature.samples.Samples",)),
        Kind("network", ("herdcli.markov.model.network.Network",)),
        Kind("beliefs", ("herdcli.markov.model.beliefs.Beliefs",)),
        Kind("ica", ("herdcli.ica.model.ICA1", "herdcli.ica.model.ICA")),
        Kind("mixture", ("herdcli.em.artifacts.Mixture",)),
        Kind("kmeans", ("herdcli.em.artifacts.Clusters",)),
        Kind("factors", ("herdcli.em.artifacts.FactorModel",)),
        Kind("report", ("herdcli.evaluation.table.Report",)),
        Kind("rbm-shard", ("herdcli.rbm.classes.RBMShard",)),
        Kind("herding-shard", ("herdcli.herding.classes.HerdingShard",)),
        Kind("samples-shard", ("herdcli.quadrature.assemble.SamplesShard",)),
        Kind("beliefs-shard", ("herdcli.markov.bethe.starts.BeliefsShard",)),
        Kind("dataset-shard", ("herdcli.markov.exact.batch.RowsShard",)),
    )
}
CHECKPOINT = "checkpoint"


def kind_of(value: Any) -> Kind:
    """The kind whose newest dataclass `value` is."""
    path = f"{type(value).__module__}.{type(value).__qualname__}"
    for kind in KINDS.values():
        if kind.versions[-1] == path:
            return kind
    raise TypeError(f"{path} is the dataclass of no artifact kind")


def lookup(name: str, *, where: str | None = None) -> Kind:
    """The kind of a name read from a file."""
    if name not in KINDS:
        hint = "a newer herd may: pip install --upgrade herdcli"
        raise DataError(f"is of kind '{name}', which this herd does not know", where=where, hint=hint)
    return KINDS[name]


def upgrade(value: Any, kind: Kind, version: int) -> Any:
    """Bring a value read in an older version up to the newest."""
    for _ in range(version, kind.version):
        value = value.upgrade()
    return value
