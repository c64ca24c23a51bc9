"""What a user asks of `herd em`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdcli.cli.frame.request import as_recorded, input_file, unrecorded, where_changed, where_given
from herdcli.errors import BadUsage
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cli.frame.session import Session

SIZES = (1, 10)  # components that are tried where none are given,
WORSE = 2  # until so many in a row were worse than the best
OF = {
    "covariance": ("gmm", "hmm"),
    "criterion": ("gmm", "fa", "ppca", "hmm", "lds"),
    "floor": ("gmm", "fa", "ppca", "hmm", "lds"),
    "per_class": ("gmm", "hmm"),
    "bayes": ("gmm",),
    "rotation": ("fa", "ppca", "pca"),
    "minibatch": ("kmeans",),
    "solver": ("pca",),
    "emission": ("hmm",),
    "mixtures": ("hmm",),
    "transitions": ("hmm",),
    "sequence": ("hmm", "lds"),
    "controls": ("lds",),
    "diagonal": ("lds",),
    "accelerate": ("lds",),
}
IN_TIME = ("hmm", "lds")  # whose rows are in sequences
STRUCTURES = ("full", "left-to-right", "banded")  # of transitions; anything else names a file
METHODS = ("random", "kmeans++", "pca", "newton")
STARTS = {"fa": ("newton", "pca", "random")} | dict.fromkeys(("ppca", "pca", "lds"), ("pca", "random"))  # others: kmeans++, random


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd em`; names and meanings are those of its --help."""

    source: str = input_file()
    input_format: str | None = unrecorded()
    model: str
    components: tuple[int, int] | None
    criterion: str
    covariance: str
    iterations: int
    restarts: int
    patience: int
    tolerance: float
    init: str | None = as_recorded(lambda value: value if value in (None, *METHODS) else "file")
    floor: float | None
    per_class: bool
    weights: str | None
    rotation: str
    minibatch: int | None
    emission: str = where_changed("gaussian")
    mixtures: int = where_changed(2)
    transitions: str = where_changed("full", lambda value: value if value.partition(":")[0] in STRUCTURES else "file")
    solver: str = where_changed("auto")
    sequence: str | None = where_given()
    controls: tuple[str, ...] | None = where_given()
    diagonal: bool = where_changed(False)
    accelerate: bool | None = where_changed(False)
    bayes: bool = where_changed(False)
    concentration: float | None = where_given()
    on_disk: bool = unrecorded()
    split: str | None
    label: str | None
    seed: int

    def resolved(self, given: frozenset[str]) -> Request:
        """With quasi-Newton steps where the model has them, unless they were forbidden; records of before there were any have none."""
        able = self.model in OF["accelerate"]
        return replace(self, accelerate=able if self.accelerate is None else self.accelerate and able)

    @property
    def default_roles(self) -> frozenset[str]:
        """The roles of columns that are recognised by their usual names."""
        from herdcli.artifacts.column_roles import ROLES

        return ROLES if self.per_class else frozenset({"weight"} if self.weights == "weight" else ())

    @property
    def levels_are_states(self) -> bool:
        """Whether a column of text is one variable whose states are its levels, rather than one-hot columns."""
        return self.model == "hmm" and self.emission in ("categorical", "bernoulli")

    @property
    def levels_of_all_rows(self) -> bool:
        """Whether these are the levels of all rows, as symbols that are whole numbers are."""
        return self.levels_are_states

    @property
    def start(self) -> str | None:
        """The file to start from, if --init names one."""
        return None if self.init in (None, *METHODS) else self.init

    @property
    def method(self) -> str | None:
        """How a start is drawn, where --init says so."""
        return self.init if self.init in METHODS else None

    def warn_of_ignored(self, session: Session) -> None:
        """Warnings for options without effect for this model.  Raises BadUsage for contradictions."""
        for name, models in OF.items():
            if self.model not in models:
                session.ignored(name, f"with --model {self.model}")
        if not self.bayes:
            session.ignored("concentration", "without --bayes")
        elif self.covariance != "full":
            raise BadUsage(f"--bayes uses full covariances, not {self.covariance}", hint="leave out --covariance")
        elif self.criterion in ("aic", "icl"):
            raise BadUsage(f"--bayes is judged by its bound or --criterion valid, not {self.criterion}", hint="leave out --criterion")
        if self.per_class and self.components and self.model == "hmm":
            raise BadUsage("--per-class has a state for each class", hint="leave out --components")
        if self.per_class and self.model not in ("gmm", "hmm"):
            raise BadUsage("--per-class is for mixtures and hidden Markov models", hint="--model gmm or hmm")
        if self.on_disk and self.model in IN_TIME:
            raise BadUsage("--on-disk reads rows, not sequences", hint="leave out --on-disk")
        if self.model == "hmm":
            self._of_chains(session)
        if self.on_disk and self.per_class:
            raise BadUsage("--on-disk reads no labels, which --per-class needs", hint="leave out --on-disk")
        if self.model == "kmeans" and not self.components and not self.start:
            raise BadUsage("--model kmeans needs a number of clusters", hint="--components 8")
        self._of_starts()
        if self.minibatch and self.restarts > 1 and self.model == "kmeans":
            raise BadUsage("--minibatch runs once, not with --restarts", hint="leave out one of them")

    def _of_starts(self) -> None:
        if self.init in METHODS and self.init not in STARTS.get(self.model, ("kmeans++", "random")):
            raise BadUsage(f"--init {self.init} cannot start --model {self.model}", hint="--init random")
        if self.start and self.components and self.components[0] != self.components[1]:
            raise BadUsage("--init FILE starts from as many components as the file has", hint="leave out the range of --components")
        if self.solver == "randomised" and self.init not in (None, "pca"):
            raise BadUsage("--solver randomised starts from random directions, not from --init", hint="leave out one of them")

    def _of_chains(self, session: Session) -> None:
        if self.emission not in ("gaussian", "gmm"):
            session.ignored("covariance", f"with --emission {self.emission}")
        if self.emission != "gmm":
            session.ignored("mixtures", f"with --emission {self.emission}")
