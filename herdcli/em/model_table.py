"""The table of models that `herd em` learns: what each is saved as, and which options it reads."""

from __future__ import annotations

from herdcli.records import dataclass


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the table.

    kind     of artifact.
    part     what there are --components of.
    reads    options of em that it reads and some others do not.
    starts   what --init takes, beside a file.
    in_time  whether its rows are in sequences.
    squared  whether its figure is a squared error and no log-likelihood.
    """

    kind: str
    part: str = ""
    reads: frozenset[str]
    starts: tuple[str, ...] = ("kmeans++", "random")
    in_time: bool = False
    squared: bool = False


def _reads(*names: str) -> frozenset[str]:
    return frozenset(names)


OPTIONS = (  # that some models do not read, in the order of warnings
    *("covariance", "criterion", "floor", "per_class", "bayes", "rotation", "minibatch", "solver", "emission", "mixtures", "transitions"),
    *("sequence", "controls", "diagonal", "accelerate"),
)
DENSITY = _reads("criterion", "floor")
STATES = _reads("emission", "mixtures", "transitions", "sequence")
AXES = ("pca", "random")
TABLE: dict[str, Entry] = {  # in the order of --help
    "gmm": Entry(kind="mixture", part="component", reads=DENSITY | _reads("covariance", "per_class", "bayes")),
    "kmeans": Entry(kind="kmeans", part="cluster", reads=_reads("minibatch"), squared=True),
    "fa": Entry(kind="factors", part="factor", reads=DENSITY | _reads("rotation"), starts=("newton", *AXES)),
    "ppca": Entry(kind="factors", part="factor", reads=DENSITY | _reads("rotation"), starts=AXES),
    "pca": Entry(kind="factors", part="factor", reads=_reads("rotation", "solver"), starts=AXES, squared=True),
    "hmm": Entry(kind="hmm", reads=DENSITY | STATES | _reads("covariance", "per_class"), in_time=True),
    "lds": Entry(kind="lds", reads=DENSITY | _reads("sequence", "controls", "diagonal", "accelerate"), starts=AXES, in_time=True),
}


def reading(option: str) -> tuple[str, ...]:
    """The models that read an option."""
    return tuple(name for name, entry in TABLE.items() if option in entry.reads)
