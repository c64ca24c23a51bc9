"""What a user asks of `herd fit-mrf`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdcli.cli.frame.request import as_file, input_file, output_file, unrecorded, where_changed
from herdcli.errors import BadUsage
from herdcli.markov.learning.table import ALGORITHMS, DIRECTED
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cli.frame.session import Session

USERS = {
    **dict.fromkeys(("sweeps", "chains", "learning_rate", "expectations"), ("gradient",)),
    "penalty": ("gradient", "pseudo-likelihood"),
    "damping": ("loopy-is",),
    **dict.fromkeys(("max_clique", "regions"), ("loopy-is", "cvm")),
    "double_loop": ("loopy-is",),
    "orders": ("ups-jt", "effective-ipf", "loopy-is", "cvm", "gis", "iis", "gradient", "bayes"),
    **dict.fromkeys(
        ("tolerance", "iterations", "on_nonconvergence"), tuple(name for name in (*ALGORITHMS, *DIRECTED) if name != "linear-response")
    ),
}

OF_SEARCH = ("max_parents", "score", "equivalent_rows", "tabu", "required_edges", "forbidden_edges", "bootstrap", "support")


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd fit-mrf`; names and meanings are those of its --help."""

    source: str = input_file()
    format: str | None = unrecorded()
    input_format: str | None = unrecorded()
    values: str
    structure: tuple[str, float, int] | None
    edges: str | None = as_file()
    clusters: str | None = as_file()
    induce: int
    smoothing: float
    moments: str | None = as_file()
    features: str | None = as_file()
    base: str | None = as_file()
    network: str | None = where_changed(None, lambda value: "file")
    max_parents: int = where_changed(3)
    score: str = where_changed("bic")
    equivalent_rows: float = where_changed(1.0)
    tabu: int = where_changed(10)
    required_edges: str | None = where_changed(None, lambda value: "file")
    forbidden_edges: str | None = where_changed(None, lambda value: "file")
    bootstrap: int = where_changed(0)
    support: str | None = output_file()
    path: str | None = output_file()
    algorithm: str
    tolerance: float
    orders: int
    max_clique: int | None
    regions: str | None = as_file()
    double_loop: bool
    damping: float
    penalty: float
    expectations: str
    learning_rate: float
    chains: int
    sweeps: int
    iterations: int
    on_nonconvergence: str
    split: str | None
    threshold: float | None
    value_range: tuple[float, float] | None
    label: str | None
    seed: int
    levels_are_states = True  # of columns of text, which are no one-hot columns here
    default_roles = frozenset[str]()  # every column is a variable

    def resolved(self, given: frozenset[str]) -> Request:
        """With one pseudo-row where nothing was said of smoothing: else rows with states that no training row has are impossible."""
        return self if "smoothing" in given else replace(self, smoothing=0.0 if self.moments else 1.0)

    def warn_of_ignored(self, session: Session) -> None:
        """Warnings for options that do nothing with the algorithm chosen.  Raises BadUsage for what only another one can do."""
        self._refuse_strange()
        if self.algorithm != "bayes" or self.structure is None or self.structure[0] != "hill-climb":
            for option in OF_SEARCH:
                session.ignored(option, "without --structure hill-climb")
        elif self.score != "bdeu":
            session.ignored("equivalent_rows", f"with --score {self.score}")
        if self.support is not None and not self.bootstrap:
            raise BadUsage("--support writes how often bootstrap samples have each edge", hint="--bootstrap 100")
        for option, users in USERS.items():
            if self.algorithm not in users:
                session.ignored(option, f"with --algorithm {self.algorithm}")
        if self.algorithm == "gradient" and self.expectations == "exact":
            for option in ("sweeps", "chains", "learning_rate"):
                session.ignored(option, "with --expectations exact")

    def _refuse_strange(self) -> None:
        """Raise BadUsage for a structure that the algorithm cannot have."""
        kind = None if self.structure is None else self.structure[0]
        if self.algorithm != "bayes" and self.network is not None:
            raise BadUsage("--network gives the parents of a Bayesian network", hint="--algorithm bayes, or --edges for pairs")
        if self.algorithm != "bayes" and kind == "hill-climb":
            raise BadUsage("--structure hill-climb finds the parents of a Bayesian network", hint="--algorithm bayes")
        if self.path is not None and kind not in ("l1", "stability"):
            raise BadUsage("--path writes the path of --structure l1 or stability", hint="--structure l1")
