"""What a user asks of `herd fit-rbm`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from herdcli.cli.frame.request import settings, unrecorded
from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from herdcli.cli.frame.session import Session
    from herdcli.rbm.settings import Settings

# options that only some algorithms have: option -> those algorithms
FOR_SOME = {
    "steps": ("cd", "pcd", "fpcd"),
    "chains": ("pcd", "fpcd"),
    "mean_field": ("cd",),
    "fast_rate": ("fpcd",),
    "fast_decay": ("fpcd",),
}
OF_ONE_MODEL = ("per_class", "folds", "average_scores", "layers", "below", "standardize")


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd fit-rbm`; names and meanings are those of its --help.  The record holds the rate and the centring as chosen."""

    source: str = unrecorded()
    input_format: str | None = unrecorded()
    hidden: int
    algorithm: str
    steps: int
    chains: int | None
    epochs: int
    batch_size: int
    learning_rate: float | None
    rate_decay: str
    momentum: float
    weight_decay: float
    per_class: bool
    folds: int | None
    average_scores: int | None
    layers: tuple[int, ...] | None
    below: str | None
    pairs: bool
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
    split: str | None
    threshold: float | None
    value_range: tuple[float, float] | None
    label: str | None
    seed: int

    def resolved(self, given: frozenset[str]) -> Request:
        """The request as it is run: one for layers is recorded otherwise."""
        return Layered(**vars(self)) if (self.layers or self.below) and not self.pairs else self

    def settings(self) -> Settings:
        """The settings of the learning, with Settings' own rate and centring where none were typed."""
        from herdcli.rbm.settings import Settings

        layers = {name: getattr(self, name) or self.units for name in ("visible_units", "hidden_units")}
        return settings(Settings, self, **layers, average_scores=(self.average_scores or 0) if self.per_class else 0)

    def fitted(self, chosen: Settings, rows: int) -> Settings:
        """Those settings with the rate and the centring that suit models of so many rows, where none were typed."""
        from herdcli.rbm.settings import fitted

        return fitted(chosen, rows, rate=self.learning_rate is None, centering=self.centering is None)

    def of_pairs(self, given: Collection[str]) -> Settings:
        """What was typed, and for the rest the settings for pairs.  Raises BadUsage for options of other models."""
        from herdcli.rbm.pairs import DEFAULTS

        for name in OF_ONE_MODEL:
            if getattr(self, name):
                raise BadUsage(
                    f"--pairs and --{name.replace('_', '-')} exclude each other", hint="a model of pairs is one model of all labels"
                )
        typed = {one.name: getattr(self, one.name) for one in fields(DEFAULTS) if one.name in given}
        if "units" in given:
            typed = {"visible_units": self.units, "hidden_units": self.units} | typed
        return replace(DEFAULTS, **typed)

    def learned_by(self, chosen: Settings) -> Request:
        """The request with settings as they were chosen, for the record."""
        own = {each.name for each in fields(self)}
        return replace(self, **{each.name: getattr(chosen, each.name) for each in fields(chosen) if each.name in own})

    def warn_of_ignored(self, session: Session) -> None:
        """Warnings for options that do nothing here.  Raises BadUsage for contradictions."""
        self.warn_of_idle(session)
        if not self.per_class:
            session.ignored("folds", "without --per-class")
            session.ignored("average_scores", "without --per-class")
        elif self.folds and self.average_scores:
            raise BadUsage("--folds and --average-scores exclude each other", hint="averaged energies have no models that left rows out")

    def warn_of_idle(self, session: Session) -> None:
        """Warnings for options of other algorithms."""
        for name, algorithms in FOR_SOME.items():
            if self.algorithm not in algorithms:
                session.ignored(name, f"with --algorithm {self.algorithm}")
        if self.sparsity_target is None:
            session.ignored("sparsity_cost", "without --sparsity-target")


@dataclass(frozen=True, kw_only=True)
class Layered(Request):
    """A request for layers: the model below is among the inputs of the record, and not among its options."""

    below: str | None = unrecorded()
