"""What a user asks of `herd herd`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.cli.frame.history.request import as_file, input_file
from herdcli.cli.frame.options import shared_options
from herdcli.cli.frame.options.declaration import INPUT, LEARNING, Condition, choice, flag, option, parsed, text, whole
from herdcli.errors import BadUsage
from herdcli.herding import MODELS
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


def _parse_step_sizes(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if len(parts) != 3 or not all(part.isdigit() and int(part) for part in parts):
        raise ValueError("is not three whole numbers from 1: of pair, visible and hidden features")
    return tuple(int(part) for part in parts)


STEP_SIZES = parsed("w,b,c", _parse_step_sizes, lambda sizes: ",".join(map(str, sizes)))
WITH_HIDDEN_UNITS = Condition("has_hidden_units", why="with --model mrf")
FULLY_VISIBLE = Condition("visible", why="with --model rbm")
PER_CLASS = Condition("per_class", why="without --per-class")


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd herd`; names and meanings are those of its --help."""

    source: str = input_file()
    model: str = option(choice(*MODELS), default=MODELS[0], help="With hidden units, or fully visible.")
    features: str | None = option(
        choice("x", "x,xx", "rows"),
        only=Condition("visible", refusal="--features is for fully visible models", hint="use --model mrf"),
        help="mrf: which features; rows: INPUT's rows are feature vectors.  [default: x]",
    )
    maximiser: str | None = option(
        choice("exact", "enumerate", "rows", "coordinates"),
        only=FULLY_VISIBLE,
        help="mrf: by sign (x alone), over all states, over all rows, or by single flips.  [default: exact, or what is exact at this size]",
    )
    hidden: int = option(whole(1), default=100, only=WITH_HIDDEN_UNITS, help="Hidden units.")
    variant: str = option(
        choice("local", "safe"), default="local", only=WITH_HIDDEN_UNITS, help="Ascent from the last state, or the best row."
    )
    flip: bool = flag(
        default=True,
        negative="--no-flip",
        only=(WITH_HIDDEN_UNITS, Condition("can_flip", why="with --variant safe or binary units")),
        help="Flip all spins at a fixed point where that helps.",
    )
    hidden_bias: str = option(
        choice("growthless", "none", "full"),
        default="none",
        only=WITH_HIDDEN_UNITS,
        help="Which part of the hidden features' update is kept.",
    )
    sweeps: int = option(
        whole(0), default=0, group=LEARNING, only=WITH_HIDDEN_UNITS, help="Sweeps of block ascent; 0: until a fixed point."
    )
    step_sizes: tuple[int, ...] = option(
        STEP_SIZES,
        default=(1, 1, 1),
        group=LEARNING,
        only=WITH_HIDDEN_UNITS,
        help="Step sizes of pair, visible and hidden features.",
    )
    iterations: int = option(whole(1), default=2000, group=LEARNING, help="Herding iterations.")
    burn_in: int | None = option(whole(0), group=LEARNING, help="Iterations before energies are averaged and states kept.  [default: half]")
    energy_every: int = option(whole(1), default=1, only=PER_CLASS, help="Average energies every N iterations.")
    keep: int | None = option(whole(0), group=INPUT, help="Keep the last N pseudo-samples.  [default: all after burn-in]")
    per_class: bool = flag(help="One run per label, and class scores for eval.")
    score_training: bool = flag(only=PER_CLASS, help="With --per-class: average the training rows' energies too.")
    representation: str = option(choice("spin", "binary"), default="spin", help="Units in {−1,+1} or {0,1}.")
    moments: bool = flag(group=INPUT, help="INPUT's one row holds the moments of mrf's features.")
    rates: str | None = option(
        text(),
        metavar="ARTIFACT",
        group=LEARNING,
        record=as_file(),
        only=Condition(
            "has_hidden_units", refusal="--rates drive hidden features, and mrf has none", hint="use --moments, which need no data"
        ),
        help="Continue this herding by its rates, without data.",
    )
    on_nonconvergence: str = option(choice("warn", "error"), default="warn", group=LEARNING, help="What to do if weights run away.")
    input_format: str | None = shared_options.input_format()
    label: str | None = shared_options.label()
    value_range: tuple[float, float] | None = shared_options.value_range()
    threshold: float | None = shared_options.threshold()
    split: str | None = shared_options.split()
    seed: int = shared_options.seed()

    @property
    def default_roles(self) -> frozenset[str]:
        """The roles of columns that are recognised by their usual names."""
        from herdcli.artifacts.tables.column_roles import ROLES

        return ROLES if self.per_class else frozenset()

    @property
    def first_kept_iteration(self) -> int:
        """Iterations before energies are averaged and states kept: --burn-in, else half of them."""
        return self.iterations // 2 if self.burn_in is None else self.burn_in

    @property
    def visible(self) -> bool:
        """Whether the model has no hidden units: asked for, or said by an option that only such a model has."""
        return self.model == "mrf" or self.features == "rows" or self.moments or self.maximiser is not None

    @property
    def has_hidden_units(self) -> bool:
        """Whether the model has hidden units."""
        return not self.visible

    @property
    def can_flip(self) -> bool:
        """Whether flipping all spins can help: of spins, in the last state."""
        return self.variant != "safe" and self.representation != "binary"

    def refuse_contradictions(self, session: Session) -> None:
        """Raise BadUsage for options that contradict each other."""
        if self.visible and self.model == MODELS[0] and "model" in session.given:
            raise BadUsage("--features rows, --moments and --maximiser are for fully visible models", hint="use --model mrf")
        if self.per_class and (self.rates or self.moments or self.features == "rows"):
            raise BadUsage("--per-class needs labelled two-state rows", hint="leave out --rates, --moments and --features rows")
