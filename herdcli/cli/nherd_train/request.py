"""What a user asks of `herd nherd-train`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from herdcli.cli.frame.history.request import as_file, input_file, output_file, topic_settings, unrecorded, where_changed, where_given
from herdcli.errors import BadUsage, DataError
from herdcli.online.learners.algorithm_table import TABLE, reading
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session
    from herdcli.online.model import Classifier, Settings

TAKEN_FROM_MODEL = (
    "task algorithm covariance form loss C confidence multiclass normalize scaling bias "
    "always_update kernel width degree budget bits interactions zero_based classes coverage half_life"
)
HELD, STOPS = 20, 10  # every so many-th example is held out: of several passes without validation rows, and to stop early by
FEW = 300  # columns up to which numbers of data sets are learned with a full covariance
STANDARDIZED = "standardized"  # the defaults that a record was made by
VW_BITS = 18  # features of named columns are hashed into 2^18 where --bits says nothing else


def _are_pairs(value: object) -> bool:
    """Whether a history's pairs of namespaces are written as this command writes them."""
    from herdcli.online.text.quadratic_features import parse_pairs

    try:
        return isinstance(value, str) and value == (",".join(parse_pairs(value)) if value else "")
    except ValueError:
        return False


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd nherd-train`; names and meanings are those of its --help."""

    source: str = input_file()
    input_format: str | None = unrecorded()
    cache: str | None = output_file()
    algorithm: str
    covariance: str
    form: str
    loss: str
    C: float | Literal["auto", "running"]
    confidence: float
    multiclass: str
    passes: int | None
    shuffle: bool
    normalize: str | None
    scaling: str | None
    bias: bool | None
    always_update: bool
    label_noise: float
    kernel: str
    width: float
    degree: int
    budget: int | None
    bits: int | None
    inverse_map: bool
    zero_based: bool
    skip_bad: int
    classes: str | None
    max_classes: int
    only: str | None
    positive: str | None
    split: str | None
    label: str | None
    model: str | None = as_file(updated=True)
    interactions: str = where_changed("", allowed=_are_pairs)
    task: str = where_changed("classification")
    holdout: int | None = where_given()
    early_stop: int | None = where_given()
    coverage: float | None = where_given()
    verify: bool
    seed: int
    parts: int = where_changed(1)
    rounds: int = where_changed(1)
    in_order: bool = where_changed(False)
    half_life: float | Literal["auto"] = where_changed("auto")
    text: str | None = where_given()
    ngrams: int = where_changed(1)
    weighting: str = where_changed("tf-idf")
    keep_case: bool = where_changed(False)
    defaults: str | None = where_given(lambda value: value == STANDARDIZED)  # None: a record of before features were standardized

    def resolved(self, given: frozenset[str]) -> Request:
        """With the defaults of today; records from before features were standardized have those of then."""
        return replace(self, defaults=STANDARDIZED)

    @property
    def first_algorithm(self) -> str:
        """The algorithm that is learned by, as long as no race has chosen another."""
        return "nherd" if self.algorithm == "auto" else self.algorithm

    @property
    def with_bias(self) -> bool:
        """Whether a feature that is always 1 is added."""
        return self.linear if self.bias is None else self.bias

    @property
    def _default_scaling(self) -> str:
        if self.defaults and self.with_bias:
            return "standard"
        return "online" if self.linear else "none"

    @property
    def in_memory(self) -> bool:
        """Whether rows that fit into memory are passed over until held-out error stops falling: nothing asks for another way."""
        free = (
            self.passes is None
            and self.with_bias
            and self.C == "auto"
            and self.algorithm == "auto"
            and self.multiclass == "auto"
            and self.linear
        )
        plain = self.covariance == "diagonal" and self.form == "project" and self.loss == "squared-hinge" and not self.always_update
        stream = (
            self.model
            or self.half_life != "auto"
            or self.parts > 1
            or self.in_order
            or self.coverage is not None
            or self.holdout
            or self.early_stop
        )
        return (
            free and plain and not stream and self.task == "classification" and not self.label_noise and self.scaling in (None, "standard")
        )

    def races_full_covariance(self, given: frozenset[str]) -> bool:
        """Whether a full covariance races with the winner: where classes are learned in one stream, and nothing asks for another form."""
        free = "covariance" not in given and self.algorithm == "auto" and self.multiclass == "auto" and self.form == "project"
        plain = self.loss == "squared-hinge" and not self.always_update and self.half_life in ("auto", 0.0) and self.parts == 1
        return bool(free and plain and self.racers and self.task == "classification" and self.defaults)

    @property
    def compares_half_lives(self) -> bool:
        """Whether learners that forget are tried beside the winner of the race."""
        return bool(
            self.half_life == "auto"
            and self.racers
            and self.task != "multilabel"
            and self.parts == 1
            and not self.shuffle
            and self.defaults
        )

    @property
    def pairs(self) -> list[str] | None:
        """The namespaces whose features are multiplied, as a model has them."""
        return self.interactions.split(",") if self.interactions else None

    @property
    def linear(self) -> bool:
        """Whether weights of features are learned, and not functions of a kernel."""
        return self.kernel == "none"

    @property
    def racers(self) -> tuple[str, ...]:
        """The algorithms that race for the best C; none where C is given, or has no meaning, or the model decides."""
        if self.model or self.C != "auto" or not self.linear or self.first_algorithm not in reading("C"):
            return ()
        return ("nherd", "arow") if self.algorithm == "auto" else (self.algorithm,)

    @property
    def forms(self) -> tuple[str, ...]:
        """The forms of several classes that race too; () where one is asked for, or decides about the memory."""
        return (
            ("top-1", "one-vs-rest")
            if self.multiclass == "auto" and self.covariance == "diagonal" and self.task == "classification"
            else ()
        )

    def held(self, settings: Settings, *, validated: bool) -> Settings:
        """The settings with what is judged and not learned: as asked for, else of several passes where no validation rows calibrate."""
        if self.holdout is not None or self.early_stop:
            every = STOPS if self.holdout is None else self.holdout
            return replace(settings, holdout=every, until_last=False, early_stop=self.early_stop or 0)
        several = settings.passes > 1 and not validated and self.parts == 1
        return replace(settings, holdout=HELD if several else 0, until_last=several, early_stop=0)

    def settings_for_columns(self, settings: Settings, columns: int, session: Session) -> Settings:
        """The settings for rows with so many columns: of numbers of few columns a full covariance, which is recursive least squares."""
        if settings.task != "regression" or columns > FEW or "covariance" in session.given:
            return settings
        session.console.detail(f"{columns} columns: with a full covariance")
        return replace(settings, covariance="full", algorithm="arow" if self.algorithm == "auto" else settings.algorithm)

    def target_coverage(self, model: Classifier | None) -> float:
        """The coverage of prediction sets: as asked for, or of the model that is gone on with; 0: there are none."""
        if model is not None:
            return 0.0 if model.coverage is None else model.coverage.level
        return self.coverage or 0.0

    def declared(self, model: Classifier | None) -> list[str] | None:
        """The names of all classes there can be, where they are known beforehand."""
        if model is not None:
            return model.classes
        return self.classes.split(",") if self.classes else None

    def hash_bits(self, text: str, model: Classifier | None) -> int:
        """Features of text are hashed into 2^bits columns; 0: they are not."""
        return model.bits if model is not None else self.bits or (VW_BITS if text == "vw" else 0)

    def settings(self) -> Settings:
        """The settings of a new classifier."""
        from herdcli.online.model import Settings

        in_kernel = {} if self.linear else {"covariance": "full"}
        return topic_settings(
            Settings,
            self,
            **in_kernel,
            algorithm=self.first_algorithm,
            multiclass="one-vs-rest" if not self.linear else "top-1" if self.multiclass == "auto" else self.multiclass,
            holdout=0,
            early_stop=0,
            loss="squared" if self.task == "regression" else self.loss,
            normalize=self.normalize == "l2",
            C=0.0 if isinstance(self.C, str) else self.C,
            passes=self.passes or 1,
            half_life=0.0 if self.half_life == "auto" else self.half_life,
            bias=self.with_bias,
            scaling=self.scaling or self._default_scaling,
        )

    def continued(self, model: Classifier) -> Settings:
        """The settings of the model that is gone on with, and of this run what no model decides.  Raises DataError for other --bits."""
        if self.bits not in (None, model.bits):
            raise DataError(f"hashes into 2^{model.bits} columns, --bits asks for 2^{self.bits}", where=self.model)
        return replace(
            model.settings, dual=False, passes=self.passes or 1, shuffle=self.shuffle, label_noise=self.label_noise, seed=self.seed
        )

    def refuse(self, session: Session) -> None:
        """Raise BadUsage for options that contradict each other."""
        if self.form == "exact" and self.first_algorithm not in reading("exact"):
            raise BadUsage(
                f"--form exact has no closed form with --algorithm {self.algorithm}", hint="its diagonal forms are project and drop"
            )
        if self.task == "regression":
            self._refuse_for_numbers(session)
        if self.task == "multilabel":
            self._refuse_for_sets(session)
        if self.half_life not in ("auto", 0.0) and not (self.linear and self.first_algorithm in reading("half_life")):
            what = f"--algorithm {self.algorithm}" if self.linear else f"--kernel {self.kernel}"
            raise BadUsage(
                f"--half-life needs variances that can grow again, but {what} has none",
                hint="use --algorithm nherd or arow, without --kernel",
            )
        if self.scaling == "standard" and not (self.linear and self.with_bias):
            raise BadUsage("--scale standard centres the features, which needs a bias", hint="--scale online divides alone")
        if self.shuffle and self.in_order:
            raise BadUsage("--shuffle and --in-order contradict each other", hint="leave one of them out")
        if self.holdout == 1:
            raise BadUsage("--holdout 1 leaves no example to learn", hint="--holdout 10 holds out every tenth example")
        if self.parts > 1 and (self.holdout or self.early_stop):
            raise BadUsage("--parts learns all examples of each part", hint="drop --holdout and --early-stop, or --parts")
        if self.early_stop and self.holdout == 0:
            raise BadUsage("--early-stop needs held-out examples", hint="--holdout 10, or leave it out")
        if self.early_stop and not self.linear:
            raise BadUsage("--early-stop keeps weights, but a kernel model has none", hint="drop --early-stop")
        if self.parts > 1 and not self.linear:
            raise BadUsage("--parts merges weights, but kernel models share none", hint="drop --parts or --kernel")
        if not self.linear and self.covariance == "diagonal" and "covariance" in session.given:
            raise BadUsage("--kernel needs the full form", hint="drop --covariance diagonal")
        if not self.linear and self.multiclass == "top-1" and "multiclass" in session.given:
            raise BadUsage("--kernel learns each class against the rest", hint="drop --multiclass top-1")

    def _refuse_for_numbers(self, session: Session) -> None:
        """Raise BadUsage for what makes sense of classes alone."""
        if self.first_algorithm not in reading("task") or ("loss" in session.given and self.loss != "squared"):
            raise BadUsage("--task regression learns by squared loss, with --algorithm nherd or arow", hint="leave --loss out")
        if not self.linear:
            raise BadUsage("--task regression learns weights of features", hint="drop --kernel")
        if self.parts > 1:
            raise BadUsage(
                "--parts learns classes, not --task regression", hint="herd merge joins models of numbers that were learned apart"
            )
        for name in ("classes", "max_classes", "multiclass", "label_noise", "only", "positive"):
            if name in session.given:
                raise BadUsage(f"--{name.replace('_', '-')} is for classes, but --task regression has none", hint="leave it out")

    def _refuse_for_sets(self, session: Session) -> None:
        """Raise BadUsage for what makes sense of one class a row alone, or is not done for sets of labels."""
        if not self.linear or self.covariance == "full":
            raise BadUsage("--task multilabel learns a diagonal covariance for each label", hint="drop --kernel and --covariance full")
        if self.parts > 1 or self.coverage is not None:
            name = "parts" if self.parts > 1 else "coverage"
            raise BadUsage(f"--{name} is not for --task multilabel", hint="leave it out")
        for name in ("multiclass", "label_noise", "only", "positive"):
            if name in session.given:
                raise BadUsage(
                    f"--{name.replace('_', '-')} is for one class in each row, but --task multilabel has sets of labels",
                    hint="leave it out",
                )

    def warn_of_inherited_options(self, session: Session) -> None:
        """Warnings for options that the model decides."""
        for name in TAKEN_FROM_MODEL.split():
            session.ignored(name, "with --continue: the model decides")

    def warn_of_ignored(self, session: Session) -> None:
        """Warnings for options that do nothing here."""
        algorithm = self.first_algorithm
        why = f"with --algorithm {algorithm}"
        if self.parts == 1:
            session.ignored("rounds", "without --parts")
        for setting in ("loss", "always_update", "confidence", "C"):
            if algorithm not in reading(setting):
                session.ignored(setting, why)
        if not TABLE[algorithm].second_order:
            session.ignored("form", f"{why}, which has no covariance")
        elif self.covariance == "full" or not self.linear:
            session.ignored("form", "with a full covariance")
        if self.linear:
            session.ignored("budget", "without --kernel")
        if self.kernel != "gaussian":
            session.ignored("width", "without --kernel gaussian")
        if self.kernel != "polynomial":
            session.ignored("degree", "without --kernel polynomial")
