"""What a user asks of `herd fit-rbm`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Literal

from herdcli.cli.frame.request import as_file, derived, input_file, topic_settings, unrecorded, where_changed, where_given
from herdcli.errors import BadUsage
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cli.frame.session import Session
    from herdcli.rbm.model import RBM
    from herdcli.rbm.recurrent.settings import RecurrentSettings as RecurrentSettings
    from herdcli.rbm.settings import Settings

# options that only some algorithms have: option -> those algorithms
FOR_SOME = {
    "steps": ("cd", "pcd", "rpcd", "fpcd", "pt", "tap"),
    "final_steps": ("cd", "pcd", "rpcd", "fpcd", "pt", "tap"),
    "chains": ("pcd", "rpcd", "fpcd", "pt", "tap"),
    "replicas": ("pt",),
    "mean_field": ("cd",),
    "fast_rate": ("fpcd",),
    "fast_decay": ("fpcd",),
}
OF_ONE_MODEL = (
    "per_class",
    "folds",
    "average_scores",
    "layers",
    "below",
    "standardize",
    "optimizer",
    "final_steps",
    "replicas",
    "labels",
    "learn_variances",
)
IN_MEMORY = ("per_class", "folds", "labels", "layers", "below", "pairs", "recurrent", "learn_variances")  # what reads all rows at once
WATCHED = (
    "validate_every",
    "patience",
    "average",
    "keep_state",
    "track_likelihood",
    "draw_missing",
    "model",
)  # what layers and pairs know nothing of
SHAPING = (
    "hidden",
    "visible_units",
    "hidden_units",
    "units",
    "standardize",
    "per_class",
    "labels",
)  # what a model that is gone on with decides


def _option_text(name: str) -> str:
    """An option as it is typed."""
    return "--continue" if name == "model" else f"--{name.replace('_', '-')}"


def _are_options(value: object) -> bool:
    """Whether a recorded value is a list of names of options."""
    known = {each.name for each in fields(Request)}
    return isinstance(value, (list, tuple)) and all(isinstance(name, str) and name in known for name in value)


NOT_ASKED = (  # which settings have as 0 where they are not asked for
    *("average", "average_scores", "bias_rate", "chains", "fast_rate", "final_steps", "patience", "replicas", "sparsity_target"),
    *("units", "validate_every"),
)
FEW = 32  # hidden units of which auto learns by rpcd


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd fit-rbm`; names and meanings are those of its --help.  The record holds the rate, the centring and the
    weight decay as chosen."""

    source: str = input_file()
    input_format: str | None = unrecorded()
    hidden: int | Literal["auto"]
    algorithm: str
    steps: int
    chains: int | None
    epochs: int
    batch_size: int
    learning_rate: float | None
    rate_decay: str
    momentum: float
    weight_decay: float | None
    per_class: bool
    folds: int | None
    average_scores: int | None
    layers: tuple[int, ...] | None
    below: str | None = as_file()
    pairs: bool
    recurrent: bool = where_changed(False)
    links: str = where_changed("both")
    window: int | None = where_given()
    sequence: str | None = where_given()
    units: str | None
    visible_units: str | None
    hidden_units: str | None
    standardize: bool
    bias_rate: float | None
    l1_decay: float
    initial_scale: float
    mean_field: str
    centering: bool | None
    non_negative: bool
    sparsity_target: float | None
    sparsity_cost: float
    fast_rate: float | None
    fast_decay: float
    final_steps: int | None = where_given()
    replicas: int | None = where_given()
    optimizer: str | None = where_given()
    labels: str | None = where_given()
    generative_share: float | None = where_given()
    learn_variances: bool | None = where_given()
    validate_every: int | None = where_given()
    patience: int | None = where_given()
    average: int | None = where_given()
    keep_state: bool | None = where_given()
    draw_missing: bool | None = where_given()
    track_likelihood: bool | None = where_given()
    model: str | None = input_file()
    on_disk: bool | None = where_given()
    typed: tuple[str, ...] | None = where_given(
        lambda value: _are_options(value)
    )  # with --continue: the options in place of the model's own settings
    split: str | None
    threshold: float | None
    value_range: tuple[float, float] | None
    label: str | None
    seed: int
    exact: bool = where_changed(False)
    suited: bool = derived(False)  # whether the algorithm is auto's choice

    @property
    def default_roles(self) -> frozenset[str]:
        """The roles of columns that are recognised by their usual names."""
        from herdcli.artifacts.column_roles import ROLES

        return ROLES if self.per_class or self.labels or self.pairs else frozenset()

    def resolved(self, given: frozenset[str]) -> Request:
        """The request as it is run: one for layers or sequences is recorded otherwise; of pairs, epochs 0 are for the data to say."""
        if self.algorithm == "auto":
            return replace(self, algorithm=self._suitable_algorithm(), suited=True).resolved(given)
        if self.on_disk and (other := self.in_memory_option()):
            raise BadUsage(f"--on-disk and {_option_text(other)} exclude each other", hint="--on-disk is of a single rbm")
        if self.hidden == "auto":
            self._refuse_for_sizes()
        for name in ("recurrent", "pairs", "layers", "below"):
            if getattr(self, name) and "words" in (self.visible_units, self.units):
                raise BadUsage(
                    f"{_option_text(name)} knows no words", hint="--visible-units words is of a single rbm, or of one for each class"
                )
        if self.recurrent:
            return SequencesRequest(**vars(self)).settled(given)
        if self.pairs:
            units = self.units if "units" in given else None
            return replace(
                self.with_chosen_settings(self.resolve_pairs(given)), units=units, epochs=self.epochs if "epochs" in given else 0
            )
        if self.layers or self.below:
            return LayersRequest(**vars(self))
        return self if self.model is None else replace(self, typed=tuple(sorted(given & vars(self).keys())))

    @staticmethod
    def unset_options(parameters: Mapping[str, object]) -> Collection[str]:
        """The options for which 0 or null in a record stands for none: settings of pairs, of sequences and of a model that is continued are
        recorded as they are."""
        typed = parameters.get("typed")
        settled = parameters.get("pairs") is True or parameters.get("recurrent") is True or isinstance(typed, list)
        return [name for name in NOT_ASKED if not (isinstance(typed, list) and name in typed)] if settled else ()

    def _suitable_algorithm(self) -> str:
        """The algorithm for what is asked for: rpcd, or pt of words, where it was found to be the best and nothing asks for another."""
        from herdcli.rbm.units import unit_family

        other = (self.recurrent, self.pairs, self.labels not in (None, "generative"), self.mean_field != "none")
        units = [self.hidden_units or self.units or "binary"]
        units += [] if self.below else [self.visible_units or self.units or "binary"]
        if "words" in units:
            return "cd" if self.mean_field != "none" else "pt"
        return "rpcd" if not any(other) and all(unit_family(name).two_state for name in units) else "cd"

    def resolve_for_columns(self, columns: int, visible: str) -> Request:
        """The request for rows of so many columns of a family: auto is cd of more than FEW hidden units, whose spurious states chains from
        rows can miss, and of many weights, whose updates by it can cost what is on."""
        from herdcli.rbm.hidden_size_search import LADDER
        from herdcli.rbm.learning_problem import WIDE
        from herdcli.rbm.units import unit_family

        most = LADDER[-1] if self.hidden == "auto" else max(self.layers or (self.hidden,))
        if self.algorithm == "pt":
            return self
        other = most > FEW or columns * most >= WIDE or not unit_family(visible).two_state
        return replace(self, algorithm="cd") if self.suited and other else self

    def _refuse_for_sizes(self) -> None:
        """Raise BadUsage for what has no one number of hidden units, or no likelihood to choose it by."""
        for name in ("recurrent", "pairs", "layers", "below", "model"):
            if getattr(self, name):
                hint = (
                    "the model decides: leave out --hidden"
                    if name == "model"
                    else "--hidden auto is of a single rbm, or of one for each class"
                )
                raise BadUsage(f"--hidden auto and {_option_text(name)} exclude each other", hint=hint)

    def in_memory_option(self) -> str | None:
        """The option that needs all rows in memory, if there is one."""
        return next((name for name in IN_MEMORY if getattr(self, name)), None)

    def settings(self) -> Settings:
        """The settings of the learning, with Settings' own rate, centring and weight decay where none were typed."""
        from herdcli.rbm.hidden_size_search import LADDER
        from herdcli.rbm.settings import Settings

        layers: dict[str, object] = {name: getattr(self, name) or self.units for name in ("visible_units", "hidden_units")}
        if self.hidden == "auto":
            layers["hidden"] = LADDER[-1]  # what may come
        return topic_settings(Settings, self, **layers, average_scores=(self.average_scores or 0) if self.per_class else 0)

    def continued(self, session: Session, model: RBM) -> Settings:
        """The settings of a model that is gone on with, those that were typed in their place; epochs are those still to do."""
        from herdcli.rbm.settings import Settings

        for name in SHAPING:
            session.ignored(name, "with --continue: the model decides")
        own = {each.name: getattr(model, each.name) for each in fields(Settings) if each.name not in ("hidden", "average_scores")}
        typed = {n: getattr(self, n) for n in (*own, "average_scores") if n in (self.typed or ()) and n not in SHAPING}
        watched = {name: getattr(self, name) or 0 for name in ("validate_every", "patience", "average")}
        watched |= {"track_likelihood": bool(self.track_likelihood)}
        before = 0 if model.kept is None else model.epochs
        return Settings(**own | typed | watched | {"hidden": model.W.shape[2], "epochs": before + self.epochs})

    def fitted(self, chosen: Settings, rows: int, moment: Callable[[], float] | None = None) -> Settings:
        """Those settings with the rate, the centring and the weight decay that suit models of so many rows, where none were typed.

        moment  gives the largest moment of the rows.
        """
        from herdcli.rbm.settings import fill_defaults

        lacking = {"rate": self.learning_rate is None, "centering": self.centering is None, "decay": self.weight_decay is None}
        return fill_defaults(chosen, rows, **lacking, moment=moment)

    def resolve_pairs(self, given: Collection[str]) -> Settings:
        """What was typed, and for the rest the settings for pairs.  Raises BadUsage for options of other models."""
        from herdcli.rbm.pairs import DEFAULTS

        for name in OF_ONE_MODEL:
            if getattr(self, name) and getattr(self, name) != getattr(DEFAULTS, name, None):
                raise BadUsage(
                    f"--pairs and --{name.replace('_', '-')} exclude each other", hint="a model of pairs is one model of all labels"
                )
        if self.algorithm in ("rpcd", "pt", "tap"):
            raise BadUsage(f"--pairs and --algorithm {self.algorithm} exclude each other", hint="--algorithm pcd")
        self.refuse_watched("--pairs")
        typed = {one.name: getattr(self, one.name) for one in fields(DEFAULTS) if one.name in given}
        if "units" in given:
            typed = {"visible_units": self.units, "hidden_units": self.units} | typed
        return replace(DEFAULTS, **typed)

    def pair_settings(self) -> Settings:
        """The settings of the learning of pairs, as `resolved` has left them."""
        from herdcli.rbm.pairs import DEFAULTS

        own = {each.name for each in fields(self)}
        asked = {each.name: value for each in fields(DEFAULTS) if each.name in own and (value := getattr(self, each.name)) is not None}
        return replace(DEFAULTS, **asked | {"epochs": self.epochs or DEFAULTS.epochs})

    def refuse_watched(self, option: str) -> None:
        """Raise BadUsage for what is of one layer of rows alone."""
        for name in WATCHED:
            if getattr(self, name):
                raise BadUsage(f"{option} and {_option_text(name)} exclude each other")

    def with_chosen_settings(self, chosen: Settings) -> Request:
        """The request with settings as they were chosen, for the record."""
        own = {each.name for each in fields(self)}
        return replace(self, **{each.name: getattr(chosen, each.name) for each in fields(chosen) if each.name in own})

    def warn_of_ignored(self, session: Session) -> None:
        """Warnings for options that do nothing here.  Raises BadUsage for contradictions."""
        self.warn_of_ignored_options(session)
        for name in ("links", "window", "sequence"):
            session.ignored(name, "without --recurrent")
        if not self.per_class:
            session.ignored("folds", "without --per-class")
            session.ignored("average_scores", "without --per-class")
        if self.keep_state and (self.patience or self.average):
            other = "--patience" if self.patience else "--average"
            raise BadUsage(f"--keep-state and {other} exclude each other", hint="momentum and chains are those of the last update")
        if self.patience and self.average:
            raise BadUsage("--patience and --average exclude each other", hint="the best model is kept, or the mean of the last ones")
        if self.labels != "hybrid":
            session.ignored("generative_share", "without --labels hybrid")
        for name in ("labels", "learn_variances"):
            for other in ("per_class", "layers", "below"):
                if getattr(self, name) and getattr(self, other):
                    raise BadUsage(
                        f"{_option_text(name)} and {_option_text(other)} exclude each other",
                        hint=f"{_option_text(name)} is of a single rbm",
                    )
        if self.model and self.folds:
            raise BadUsage("--continue and --folds exclude each other", hint="the models of folds are not kept")
        if self.per_class and self.folds and self.average_scores:
            raise BadUsage("--folds and --average-scores exclude each other", hint="averaged energies have no models that left rows out")

    def warn_of_ignored_options(self, session: Session) -> None:
        """Warnings for options of other algorithms."""
        for name, algorithms in FOR_SOME.items():
            if self.algorithm not in algorithms:
                session.ignored(name, f"with --algorithm {self.algorithm}")
        if self.sparsity_target is None:
            session.ignored("sparsity_cost", "without --sparsity-target")


@dataclass(frozen=True, kw_only=True)
class LayersRequest(Request):
    """A request for layers: the model below is among the inputs of the record, and not among its options."""

    below: str | None = input_file()


@dataclass(frozen=True, kw_only=True)
class SequencesRequest(Request):
    """A request for a model of sequences: options of rows that do not depend on each other are refused, and not in the record."""

    per_class: bool = unrecorded()
    folds: int | None = unrecorded()
    average_scores: int | None = unrecorded()
    layers: tuple[int, ...] | None = unrecorded()
    below: str | None = input_file()
    pairs: bool = unrecorded()
    chains: int | None = unrecorded()
    bias_rate: float | None = unrecorded()
    l1_decay: float = unrecorded()
    mean_field: str = unrecorded()
    centering: bool | None = unrecorded()
    non_negative: bool = unrecorded()
    sparsity_target: float | None = unrecorded()
    sparsity_cost: float = unrecorded()
    fast_rate: float | None = unrecorded()
    fast_decay: float = unrecorded()
    final_steps: int | None = unrecorded()
    replicas: int | None = unrecorded()
    optimizer: str | None = unrecorded()
    labels: str | None = unrecorded()
    generative_share: float | None = unrecorded()
    learn_variances: bool | None = unrecorded()
    average: int | None = unrecorded()
    keep_state: bool | None = unrecorded()
    draw_missing: bool | None = unrecorded()
    track_likelihood: bool | None = unrecorded()
    model: str | None = input_file()

    def settled(self, given: Collection[str]) -> SequencesRequest:
        """With the settings for sequences where none were typed.  Raises BadUsage for options of other models."""
        from herdcli.rbm.recurrent.settings import ALGORITHMS, RecurrentSettings, fill_defaults

        for name in (name for name in vars(SequencesRequest)["__annotations__"] if name in given):
            raise BadUsage(
                f"--recurrent and {_option_text(name)} exclude each other", hint="--recurrent learns one model of whole sequences"
            )
        if self.algorithm not in ALGORITHMS:
            raise BadUsage(f"--recurrent learns by --algorithm {' or '.join(ALGORITHMS)}, not {self.algorithm}", hint="--algorithm cd")
        if self.algorithm == "exact" and "steps" in given:
            raise BadUsage("--steps has no meaning with --algorithm exact", hint="leave it out")
        typed = {each.name: getattr(self, each.name) for each in fields(RecurrentSettings) if each.name in given}
        layers = {name: units for name in ("visible_units", "hidden_units") if (units := getattr(self, name) or self.units)}
        settings = fill_defaults(RecurrentSettings(**typed | layers | {"seed": self.seed}), given)
        return replace(self, **vars(settings))

    def asked(self) -> RecurrentSettings:
        """The settings of the learning."""
        from herdcli.rbm.recurrent.settings import RecurrentSettings

        return topic_settings(RecurrentSettings, self)
