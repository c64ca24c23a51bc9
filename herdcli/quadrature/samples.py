"""The `samples` artifact: weighted atoms that represent a target, their traces, and the state from which a longer run continues."""

from __future__ import annotations

import numpy as np

from herdcli.errors import DataError
from herdcli.quadrature.embeddings.approximation import EmbeddingErrorBounds
from herdcli.quadrature.rules import active_set, min_norm_point, sequential_rules
from herdcli.records import dataclass, former_class_getattr
from herdcli.schema import Array, array, require_image_shape, require_valid_indices


@dataclass(frozen=True)
class GroupSummaries:
    """The figures of each group of atoms, G of them (1 without --by)."""

    mmd: Array = array("G", "MMD of the stored weights", kind="f")
    floor: Array = array("G", "sqrt((E k(x,x) − ‖μ‖²)/n), n the rows, of closed forms the atoms: the MMD of n draws", kind="f")
    norm: Array = array("G", "‖μ‖²", kind="f")
    rows: Array = array("G", "rows of the target, 0 for closed forms", kind="i")
    condition: Array = array("G", "condition number of the atoms' Gram matrix", kind="f")
    smallest: Array = array("G", "smallest weight", kind="f")
    effective: Array = array("G", "effective sample size (Σw)²/Σw²", kind="f")
    extra: Array | None = array("G", "merge-and-reduce: bound of the MMD between the union of blocks and all rows", kind="f", optional=True)
    norm_error: Array | None = array("G", "standard error of an estimated ‖μ‖², and so of mmd²", kind="f", optional=True)
    embedding_error: Array | None = array("G", "approximate embeddings: bound of what they add to mmd", kind="f", optional=True)


@dataclass(frozen=True)
class SimplexMMDTraces:
    """The MMD of the first `count` atoms of a group under their simplex weights."""

    group: Array = array("p", "group", kind="i")
    count: Array = array("p", "atoms", kind="i")
    mmd: Array = array("p", "their projected MMD", kind="f")


@dataclass(frozen=True)
class Continuation:
    """The state that a longer run of one group continues from: that of its rule, and the embedding."""

    embedding: Array = array("N", "μ at the candidates", kind="f", finite=True)
    norm: float = 0.0
    sequence: sequential_rules.SequenceState | None = None
    active: active_set.ActiveSetState | None = None
    hull: min_norm_point.MinNormPointState | None = None
    added: EmbeddingErrorBounds | None = None  # error bounds of an approximate embedding

    def validate(self) -> None:
        """Raise DataError unless the state matches the embedding's candidates."""
        for state in (self.sequence, self.active, self.hull):
            if state is not None and len(state.running) != len(self.embedding):
                raise DataError(f"/state has {len(state.running)} candidates, but the embedding has {len(self.embedding)}")


@dataclass(frozen=True)
class Samples:
    """The `samples` artifact: m atoms in d columns.  Entry t of a trace belongs to the first t atoms of its group."""

    x: Array = array("m d", "the atoms, in the units of the input", kind="f", finite=True)
    index: Array = array("m", "row of the input (or candidate), −1 for a point that is none", kind="i", low=-1)
    weight: Array = array("m", "weights, of sum 1 in each group unless they are free", kind="f", finite=True)
    mmd: Array = array("m", "MMD of t atoms under the rule's own weights", kind="f")
    gap: Array = array("m", "duality gap of t atoms, NaN where there is none", kind="f")
    rate: Array | None = array("m", "step size with which each atom came in", kind="f", optional=True)
    group: Array | None = array("m", "group of each atom, an index into group_names", kind="i", optional=True)
    summary: GroupSummaries | None = None
    projected: SimplexMMDTraces | None = None
    moment: Array | None = array("F", "E Φ under the target, of feature kernels on few ±1 units", kind="f", optional=True, finite=True)
    passes: Array | None = array("q", "MMD at the start and after each swap pass of the first group", kind="f", optional=True)
    rule: str = "herding"
    weights: str = "rule"
    kernel: str = ""
    scale: Array | None = array("d", "what the columns were divided by", kind="f", optional=True, finite=True)
    target: str = "rows"
    ended: str = ""  # the reason for fewer atoms than requested
    embedding: str | None = None  # the approximation of μ of the rows
    group_names: list[str] | None = None
    feature_names: list[str] | None = None
    state: list[Continuation] | None = None
    image_shape: Array | None = array("2", "height and width of a row seen as a picture", kind="iu", optional=True, low=1)

    def validate(self) -> None:
        """Raise DataError unless groups, figures and continuation states match these atoms."""
        require_valid_indices("/group", self.group, self.groups, "a group")
        if not self.x.size:
            raise DataError("the file has no atoms: /x is empty")
        empty = next((g for g in range(self.groups) if not self.group_positions(g).size), None)
        if empty is not None:
            raise DataError(f"group {empty} has no atoms in /group")
        if self.scale is not None and not (self.scale != 0).all():
            raise DataError("/scale has a value 0, but scales must not be 0")
        if self.feature_names is not None and len(self.feature_names) != self.x.shape[1]:
            raise DataError(f"/feature_names has {len(self.feature_names)} names, but /x has {self.x.shape[1]} columns")
        require_image_shape(self.image_shape, self.x.shape[1])
        for name, count in (("summary", self.summary and len(self.summary.mmd)), ("state", self.state and len(self.state))):
            if count and count != self.groups:
                raise DataError(f"/{name} has {count} groups, but the file has {self.groups}")
        if self.projected is not None:
            require_valid_indices("/projected/group", self.projected.group, self.groups, "a group")

    @property
    def groups(self) -> int:
        """The number of groups."""
        return 1 if self.group_names is None else len(self.group_names)

    def group_positions(self, group: int) -> Array:
        """Return the positions (m_g,) of a group's atoms."""
        return np.arange(len(self.index)) if self.group is None else np.flatnonzero(self.group == group)


__getattr__ = former_class_getattr(__name__, Summary="GroupSummaries")  # names in pickles of version 0.1
