"""The options of `herd herd`."""

from __future__ import annotations

from herdcli.cli.frame.history.request import field_recorded_as_file, input_file_field, output_file_field
from herdcli.cli.frame.options import shared_options
from herdcli.cli.frame.options.declaration import (
    INPUT,
    LEARNING,
    OUTPUT,
    Condition,
    Excludes,
    Needs,
    choice_kind,
    custom_syntax_kind,
    flag,
    integer_kind,
    option,
    repeated_option,
    text_kind,
)
from herdcli.herding import MODELS
from herdcli.records import dataclass


def _parse_step_sizes(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if len(parts) != 3 or not all(part.isdecimal() and int(part) for part in parts):
        raise ValueError("is not three whole numbers from 1: of pair, visible and hidden features")
    return tuple(int(part) for part in parts)


STEP_SIZES = custom_syntax_kind("w,b,c", _parse_step_sizes, lambda sizes: ",".join(map(str, sizes)))
WITH_HIDDEN_UNITS = Condition("has_hidden_units", why="with --model mrf")
FULLY_VISIBLE = Condition("is_fully_visible", why="with --model rbm")
PER_CLASS = Condition("per_class", why="without --per-class")
ONE_MODEL = Condition(
    "agrees_with_model_option",
    refusal="--features rows, --from-moments and --maximiser are for fully visible models",
    hint="use --model mrf",
)
LABELLED = Needs(
    Condition("has_labelled_rows"), "{option} needs labelled two-state rows", hint="leave out --rates, --from-moments and --features rows"
)


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd herd`; names and meanings are those of its --help."""

    source: str = input_file_field()
    model: str = option(
        choice_kind(*MODELS), default=MODELS[0], only=ONE_MODEL, help="Model: rbm with hidden units, or mrf, fully visible."
    )
    features: str | None = option(
        choice_kind("x", "x,xx", "rows"),
        only=Condition("is_fully_visible", refusal="--features is for fully visible models", hint="use --model mrf"),
        help="Features of --model mrf: the units (x), also their products (x,xx), or INPUT's rows as feature vectors (rows).  [default: x]",
    )
    maximiser: str | None = option(
        choice_kind("exact", "enumerate", "rows", "coordinates"),
        only=FULLY_VISIBLE,
        help="How --model mrf finds its next state: by sign (exact, for --features x), among all states (enumerate) or all rows, or by "
        "single flips (coordinates).  [default: an exact way, if there is one at this size]",
    )
    hidden: int = option(integer_kind(1), default=100, only=WITH_HIDDEN_UNITS, help="Number of hidden units.")
    variant: str = option(
        choice_kind("local", "safe"),
        default="local",
        only=WITH_HIDDEN_UNITS,
        help="Start of each ascent: local, the last state, classifies better; safe, the training row of lowest energy, bounds the weights.",
    )
    flip: bool = flag(
        default=True,
        negative="--no-flip",
        only=(WITH_HIDDEN_UNITS, Condition("can_flip_spins", why="with --variant safe or binary units")),
        help="Flip all spins where an ascent ends, if that raises the score.",
    )
    hidden_bias: str = option(
        choice_kind("growthless", "none", "full"),
        default="none",
        only=WITH_HIDDEN_UNITS,
        help="Update of the hidden biases: none, without its growing part (growthless), or full.  Change it only to compare with "
        "the paper.",
    )
    sweeps: int = option(
        integer_kind(0), default=0, group=LEARNING, only=WITH_HIDDEN_UNITS, help="Sweeps of each ascent; 0: until nothing changes."
    )
    step_sizes: tuple[int, ...] = option(
        STEP_SIZES,
        default=(1, 1, 1),
        group=LEARNING,
        only=WITH_HIDDEN_UNITS,
        help="Whole-number step sizes of the weights (w), visible biases (b) and hidden biases (c).",
    )
    iterations: int = option(integer_kind(1), default=2000, group=LEARNING, help="Number of herding iterations.")
    burn_in: int | None = option(
        integer_kind(0),
        group=LEARNING,
        help="Iterations before energies are averaged and states are kept.  [default: half of --iterations]",
    )
    energy_every: int = option(
        integer_kind(1),
        default=1,
        only=PER_CLASS,
        help="With --per-class: use every N-th iteration for the average energies; larger is faster.",
    )
    keep: int | None = option(
        integer_kind(0), "--keep-last", group=INPUT, help="Keep the last N pseudo-samples.  [default: all after burn-in]"
    )
    per_class: bool = flag(only=LABELLED, help="Run once for each label, and score rows by class, so that herd eval can report the error.")
    score_training: bool = flag(only=PER_CLASS, help="With --per-class: score the training rows too, not only validation and test rows.")
    representation: str = option(
        choice_kind("spin", "binary"), default="spin", help="States of a unit: −1 and +1 (spin), or 0 and 1 (binary)."
    )
    moments: bool = flag("--from-moments", group=INPUT, help="With --model mrf: INPUT is one row, with the average of each feature.")
    rates: str | None = option(
        text_kind(),
        metavar="ARTIFACT",
        group=LEARNING,
        record=field_recorded_as_file(),
        only=Condition(
            "has_hidden_units",
            refusal="--rates needs hidden units, but --model mrf has none",
            hint="use --from-moments, which need no data",
        ),
        help="Herd without data: drive the weights by the average rates of change that this earlier result stores.",
    )
    on_nonconvergence: str = option(
        choice_kind("warn", "error"), default="warn", group=LEARNING, help="What to do if the weights keep growing."
    )
    plots: tuple[tuple[str, str], ...] = repeated_option(
        shared_options.PLOT,
        "--plot",
        metavar="NAME FILE",
        group=OUTPUT,
        record=output_file_field(),
        only=Excludes("rates", "moments", hint="herd rows that are images"),
        help="animation: draw the first 40 pseudo-samples as they pass, beside the weights, into FILE.gif.",
    )
    input_format: str | None = shared_options.input_format_option()
    label: str | None = shared_options.label_option()
    value_range: tuple[float, float] | None = shared_options.value_range_option()
    threshold: float | None = shared_options.threshold_option()
    split: str | None = shared_options.split_option()
    seed: int = shared_options.seed_option()

    @property
    def roles_recognised_by_name(self) -> frozenset[str]:
        """The column roles that are recognised by their usual names."""
        from herdcli.artifacts.tables.column_roles import ROLES

        return ROLES if self.per_class else frozenset()

    @property
    def first_kept_iteration(self) -> int:
        """The number of iterations before energies are averaged and states kept: --burn-in, else half of --iterations."""
        return self.iterations // 2 if self.burn_in is None else self.burn_in

    @property
    def is_fully_visible(self) -> bool:
        """Whether the model has no hidden units, by --model mrf or by an option that only such models have."""
        return self.model == "mrf" or self.features == "rows" or self.moments or self.maximiser is not None

    @property
    def has_hidden_units(self) -> bool:
        """Whether the model has hidden units."""
        return not self.is_fully_visible

    @property
    def can_flip_spins(self) -> bool:
        """Whether flipping all spins can help: for spin units with the variant `local`."""
        return self.variant != "safe" and self.representation != "binary"

    @property
    def agrees_with_model_option(self) -> bool:
        """Whether --model and the other options agree about hidden units."""
        return self.has_hidden_units or self.model != MODELS[0]

    @property
    def has_labelled_rows(self) -> bool:
        """Whether the input consists of rows of units, which can have labels."""
        return not (self.rates or self.moments or self.features == "rows")
