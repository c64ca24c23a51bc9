"""What a user asks of `herd herd`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.cli.frame.request import as_file, input_file, unrecorded
from herdcli.errors import BadUsage
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cli.frame.session import Session

HIDDEN_ONLY = ("hidden", "variant", "flip", "hidden_bias", "sweeps", "step_sizes", "rates")


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd herd`; names and meanings are those of its --help."""

    source: str = input_file()
    input_format: str | None = unrecorded()
    model: str
    features: str | None
    maximiser: str | None
    hidden: int
    variant: str
    flip: bool
    hidden_bias: str
    sweeps: int
    step_sizes: tuple[int, ...]
    iterations: int
    burn_in: int | None
    energy_every: int
    keep: int | None
    per_class: bool
    score_training: bool
    representation: str
    moments: bool
    rates: str | None = as_file()
    on_nonconvergence: str
    split: str | None
    threshold: float | None
    value_range: tuple[float, float] | None
    label: str | None
    seed: int

    @property
    def default_roles(self) -> frozenset[str]:
        """The roles of columns that are recognised by their usual names."""
        from herdcli.artifacts.roles import ROLES

        return ROLES if self.per_class else frozenset()

    @property
    def kept_from(self) -> int:
        """Iterations before energies are averaged and states kept: --burn-in, else half of them."""
        return self.iterations // 2 if self.burn_in is None else self.burn_in

    @property
    def visible(self) -> bool:
        """Whether the model has no hidden units: asked for, or said by an option that only such a model has."""
        return self.model == "mrf" or self.features == "rows" or self.moments or self.maximiser is not None

    def warn_of_ignored(self, session: Session) -> None:
        """Warnings for options without effect for this model.  Raises BadUsage for contradictions."""
        if self.visible and self.model == "rbm" and "model" in session.given:
            raise BadUsage("--features rows, --moments and --maximiser are for fully visible models", hint="use --model mrf")
        if self.features and not self.visible:
            raise BadUsage("--features is for fully visible models", hint="use --model mrf")
        if self.rates and self.visible:
            raise BadUsage("--rates drive hidden features, and mrf has none", hint="use --moments, which need no data")
        for name in HIDDEN_ONLY if self.visible else ("maximiser",):
            session.ignored(name, f"with --model {'mrf' if self.visible else 'rbm'}")
        if not self.visible and (self.variant == "safe" or self.representation == "binary"):
            session.ignored("flip", "with --variant safe or binary units")
        if self.per_class and (self.rates or self.moments or self.features == "rows"):
            raise BadUsage("--per-class needs labelled two-state rows", hint="leave out --rates, --moments and --features rows")
        if not self.per_class:
            session.ignored("score_training", "without --per-class")
            session.ignored("energy_every", "without --per-class")
