"""The options of `herd fit-rbm`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Literal

from herdcli.cli.fit_rbm.conditions import (
    ALGORITHM_OF_PAIRS,
    ALGORITHMS,
    ANIMATED,
    AUTO,
    CHAINS,
    HYBRID,
    IN_MEMORY,
    LIKELY,
    LOWEST,
    NEW,
    OF_ONE_MODEL,
    ONE_LAYER,
    ONE_MODEL,
    OPTIMIZER_OF_PAIRS,
    PAIRS,
    PER_CLASS,
    PERSISTENT,
    RECURRENT,
    SINGLE,
    SIZE_OF_MODEL,
    SIZES_SEARCHED,
    SPARSE,
    WATCHED,
    WORDLESS,
)
from herdcli.cli.fit_rbm.values import BATCH_SIZE, HIDDEN
from herdcli.cli.frame.history.request import (
    derived_field,
    field_recorded_as_file,
    field_recorded_if_changed,
    field_recorded_if_given,
    input_file_field,
    output_file_field,
    settings_from_request,
    unrecorded_field,
)
from herdcli.cli.frame.options import shared_options, unit_options
from herdcli.cli.frame.options.declaration import (
    INPUT,
    LEARNING,
    OUTPUT,
    Excludes,
    OneOf,
    When,
    choice_kind,
    declarations,
    flag,
    integer_kind,
    number_kind,
    option,
    refuse_contradicting_typed_options,
    repeated_option,
    text_kind,
)
from herdcli.errors import BadUsage
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.rbm.model import RBM
    from herdcli.rbm.recurrent.settings import RecurrentSettings as RecurrentSettings
    from herdcli.rbm.settings import Settings


def _option_as_typed(name: str) -> str:
    """Return an option in the form in which it is typed."""
    return "--continue" if name == "model" else f"--{name.replace('_', '-')}"


def _is_list_of_options(value: object) -> bool:
    """Return whether a recorded value is a list of option names."""
    known = {each.name for each in fields(Request)}
    return isinstance(value, (list, tuple)) and all(isinstance(name, str) and name in known for name in value)


NOT_ASKED = (  # options whose value in Settings is 0 when they are not set
    *("average", "average_scores", "bias_rate", "chains", "fast_rate", "final_steps", "patience", "replicas", "sparsity_target"),
    *("units", "validate_every"),
)
FEW = 32  # largest number of hidden units for which auto chooses rpcd
ENUMERATED = 12  # most hidden units whose states are summed while variances are learned


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd fit-rbm`; names and meanings are those of its --help.  The record holds the rate, the centring and the
    weight decay as chosen."""

    source: str = input_file_field()
    input_format: str | None = shared_options.input_format_option()
    hidden: int | Literal["auto"] = option(
        HIDDEN,
        default=100,
        only=(NEW, ONE_LAYER, When(AUTO, SIZES_SEARCHED), When(AUTO, SIZE_OF_MODEL)),
        help="Number of hidden units; auto: try 4 to 500, keep the best on validation rows.",
    )
    algorithm: str = option(
        choice_kind(*ALGORITHMS),
        default="auto",
        group=LEARNING,
        only=When(PAIRS, ALGORITHM_OF_PAIRS),
        help="Gradient by cd (contrastive divergence), pcd (persistent chains), rpcd (restarted), fpcd (fast weights), pt (parallel "
        "tempering), tap (mean field), pseudo-likelihood, exact. auto: pt for word counts, rpcd for up to 32 binary hidden units "
        "and for --learn-variances (exact for few units), else cd.",
    )
    steps: int = option(
        integer_kind(1),
        "--gibbs-steps",
        default=1,
        group=LEARNING,
        only=CHAINS,
        help="Gibbs sweeps per update (the k of CD-k): more are slower and more exact; tap: iterations.",
    )
    chains: int | None = option(
        integer_kind(1),
        group=LEARNING,
        only=PERSISTENT,
        help="Number of persistent Gibbs chains.  [default: --batch-size; rpcd: at least 100; word counts: --replicas more]",
    )
    epochs: int = option(integer_kind(1), default=100, group=LEARNING, help="Passes over training rows.")
    batch_size: int = option(BATCH_SIZE, default=20, group=LEARNING, help="Rows per update.")
    learning_rate: float | None = option(
        number_kind(0, open_low=True),
        group=LEARNING,
        help="Initial learning rate.  [default: computed from units, batch size and update count]",
    )
    rate_decay: str = option(
        choice_kind("linear", "cosine", "inverse", "none"),
        default="linear",
        group=LEARNING,
        help="Learning rate schedule: linear and cosine fall to 0 at the end, inverse falls to a tenth, none is constant.",
    )
    momentum: float = option(
        number_kind(0, 1, open_high=True), default=0.9, group=LEARNING, help="Fraction of the last update that is added to the next one."
    )
    weight_decay: float | None = option(
        number_kind(0),
        group=LEARNING,
        help="L2 penalty on the weights.  [default: 2 / number of training rows, from .0001 to .0005; units that are not binary or spin: "
        ".0001]",
    )
    per_class: bool = flag(only=(NEW, ONE_MODEL), help="Fit one RBM per class, to classify rows.")
    folds: int | None = option(
        integer_kind(2),
        group=LEARNING,
        only=(
            PER_CLASS,
            Excludes(
                "model",
                refusal="--continue and --folds exclude each other",
                hint="leave out one of them: the models of folds are not stored",
            ),
            When(PER_CLASS, Excludes("average_scores", hint="leave out one of them: averaged energies come from models that saw all rows")),
        ),
        help="With --per-class: compute the class scores of training rows too, by N-fold cross-validation.",
    )
    average_scores: int | None = option(
        integer_kind(1),
        metavar="N",
        group=LEARNING,
        only=PER_CLASS,
        help="With --per-class: average the class scores (free energies) of rows over the last N updates.  [default: final scores]",
    )
    layers: tuple[int, ...] | None = option(
        shared_options.SIZES,
        metavar="N,N,…",
        only=(WORDLESS, Excludes(*WATCHED)),
        help="Fit a deep belief network with these numbers of hidden units, from the lowest layer up.",
    )
    below: str | None = option(
        text_kind(),
        metavar="MODEL",
        group=INPUT,
        record=field_recorded_as_file(),
        only=(WORDLESS, Excludes(*WATCHED)),
        help="Train the next layer of a deep belief network on the hidden states of this model.",
    )
    pairs: bool = flag(
        only=(WORDLESS, Excludes(*OF_ONE_MODEL, hint="a model of pairs is one model of all labels"), Excludes(*WATCHED)),
        help="Model pairs of rows with the same label, such as photos of one person.  Other defaults: 100 hidden units rate:100, visible "
        "units rate:10, 2000 updates of 100 pairs, constant learning rates .0025 and .005 (biases), momentum .95, no weight decay, "
        "--mean-field visible.",
    )
    recurrent: bool = flag(
        record=field_recorded_if_changed(False),
        only=WORDLESS,
        help="Fit a recurrent temporal RBM to sequences of rows, and keep the epoch that is best on validation rows.  Other defaults: 20 "
        "hidden units, 5 Gibbs sweeps, 5 sequences per batch, initial weights of scale .1, learning rate .2 for binary and spin units.",
    )
    sequence: str | None = option(
        text_kind(),
        metavar="COLUMN",
        record=field_recorded_if_given(),
        only=RECURRENT,
        help="With --recurrent: column that identifies the sequence of each row.  [default: sequence]",
    )
    links: str = option(
        choice_kind("both", "hidden", "none"),
        default="both",
        record=field_recorded_if_changed("both"),
        only=RECURRENT,
        help="With --recurrent: layers whose biases depend on the previous row; none: an ordinary RBM, for comparison.",
    )
    window: int | None = option(
        integer_kind(2),
        metavar="N",
        record=field_recorded_if_given(),
        only=RECURRENT,
        help="With --recurrent: cut longer sequences into pieces of at most N rows for training.  [default: 100]",
    )
    units: str | None = unit_options.units_option(only=(NEW, LOWEST))
    visible_units: str | None = unit_options.visible_units_option(only=(NEW, LOWEST), from_data=True)
    hidden_units: str | None = unit_options.hidden_units_option(only=NEW)
    standardize: bool = flag(only=NEW, help="Scale gaussian columns to mean 0 and variance 1.")
    bias_rate: float | None = option(
        number_kind(0, open_low=True), group=LEARNING, help="Initial learning rate of the biases.  [default: --learning-rate]"
    )
    l1_decay: float = option(number_kind(0), default=0.0, group=LEARNING, help="L1 penalty on the weights.")
    initial_scale: float = option(number_kind(0), default=0.01, group=LEARNING, help="Standard deviation of the random initial weights.")
    mean_field: str = option(
        choice_kind("none", "visible", "both"),
        default="none",
        group=LEARNING,
        only=OneOf("algorithm", "cd"),
        help="With cd: use means in place of samples in the Gibbs chain, for the visible units or for both layers.",
    )
    centering: bool | None = flag(
        default=None,
        negative="--no-centering",
        group=LEARNING,
        help="Subtract the units' means in the gradient (centred RBM).  [default: yes if all units are binary or spin]",
    )
    non_negative: bool = flag(group=LEARNING, help="Set negative weights to 0 after each update.")
    sparsity_target: float | None = option(
        number_kind(0, 1, open_low=True, open_high=True),
        group=LEARNING,
        help="Mean that each hidden unit should have, as a fraction of its range, such as 0.05 for sparse features.  [default: none]",
    )
    sparsity_cost: float = option(
        number_kind(0), default=0.1, group=LEARNING, only=SPARSE, help="Strength with which --sparsity-target is enforced."
    )
    fast_rate: float | None = option(
        number_kind(0, open_low=True),
        group=LEARNING,
        only=OneOf("algorithm", "fpcd"),
        help="With fpcd: learning rate of the fast weights, which speed up the chains' mixing.  [default: --learning-rate]",
    )
    fast_decay: float = option(
        number_kind(0, 1, open_high=True),
        default=0.95,
        group=LEARNING,
        only=OneOf("algorithm", "fpcd"),
        help="With fpcd: factor that the fast weights are multiplied by at each update.",
    )
    replicas: int | None = option(
        integer_kind(2),
        record=field_recorded_if_given(),
        only=OneOf("algorithm", "pt"),
        help="With pt: number of temperatures per chain; for word counts, number of further chains, with fewer words than any row.  "
        "[default: 10]",
    )
    learn_variances: bool | None = flag(
        default=None,
        record=field_recorded_if_given(),
        only=SINGLE,
        help="Learn the standard deviation of each gaussian column; implies --standardize.  [default: fixed]",
    )
    generative_share: float | None = option(
        number_kind(0),
        record=field_recorded_if_given(),
        only=HYBRID,
        help="With --labels hybrid: weight of the joint log-likelihood log p(v, y) next to log p(y | v).  [default: 0.01]",
    )
    labels: str | None = option(
        choice_kind("generative", "discriminative", "hybrid"),
        record=field_recorded_if_given(),
        only=(NEW, SINGLE),
        help="Fit one classifier: the label y of a row v is a visible unit.  generative maximises log p(v, y), discriminative "
        "log p(y | v), hybrid log p(y | v) plus --generative-share times log p(v, y).",
    )
    final_steps: int | None = option(
        integer_kind(1),
        metavar="N",
        record=field_recorded_if_given(),
        only=CHAINS,
        help="Gibbs sweeps per update at the end of training; the number changes evenly from --gibbs-steps to N.  [default: --gibbs-steps]",
    )
    optimizer: str | None = option(
        choice_kind("momentum", "adam", "natural"),
        record=field_recorded_if_given(),
        only=When(PAIRS, OPTIMIZER_OF_PAIRS),
        help="Update rule: gradient steps with momentum, Adam, or natural (centred gradient divided by the diagonal of the Fisher "
        "matrix).  [default: momentum]",
    )
    plots: tuple[tuple[str, str], ...] = repeated_option(
        shared_options.PLOT,
        "--plot",
        metavar="NAME FILE",
        group=OUTPUT,
        record=output_file_field(),
        only=ANIMATED,
        help="filters: draw the weights of hidden units while they are learned into FILE.gif.",
    )
    validate_every: int | None = option(
        integer_kind(1),
        metavar="N",
        record=field_recorded_if_given(),
        help="Compute the likelihood and free energy of the validation rows every N epochs.  [default: 1 with --patience, else never]",
    )
    patience: int | None = option(
        integer_kind(1),
        metavar="N",
        group=LEARNING,
        record=field_recorded_if_given(),
        only=Excludes("average", hint="use --patience for the best model, or --average for the mean of the last ones"),
        help="Stop after N validations without improvement, and keep the best model.",
    )
    average: int | None = option(
        integer_kind(1),
        metavar="N",
        group=LEARNING,
        record=field_recorded_if_given(),
        help="Average the parameters over the last N updates.",
    )
    model: str | None = option(
        text_kind(),
        "--continue",
        metavar="MODEL",
        record=input_file_field(),
        help="Train this RBM for --epochs more, with its own units and, unless you give others, its own settings.",
    )
    keep_state: bool | None = flag(
        default=None,
        record=field_recorded_if_given(),
        only=Excludes("patience", "average", hint="leave out {other}: momentum and chains belong to the last update"),
        help="Store momentum and chains in the output, so that --continue resumes training exactly.",
    )
    draw_missing: bool | None = flag(
        default=None,
        record=field_recorded_if_given(),
        only=(
            Excludes("folds", "average_scores", "learn_variances", "model", "on_disk", hint="use --missing drop or mean"),
            LIKELY,
        ),
        help="Learn from rows with missing values: sample these given the known values in every update.",
    )
    track_likelihood: bool | None = flag(
        default=None,
        record=field_recorded_if_given(),
        help="Estimate the log-likelihood during training (log Z by trajectory annealing), which takes about twice the time.  "
        "herd eval --plot tracked shows it.",
    )
    on_disk: bool | None = flag(
        default=None,
        group=INPUT,
        record=field_recorded_if_given(),
        only=Excludes(*IN_MEMORY, hint="use {option} with a single rbm"),
        help="Leave the rows on disk, and read them in shuffled blocks.  [default: if they would take more than --max-memory]",
    )
    split: str | None = shared_options.split_option()
    threshold: float | None = shared_options.threshold_option()
    value_range: tuple[float, float] | None = shared_options.value_range_option()
    label: str | None = shared_options.label_option()
    seed: int = shared_options.seed_option()
    exact: bool = shared_options.exact_option(only=shared_options.excludes_exact("recurrent", "pairs", "layers", "below"))
    typed: tuple[str, ...] | None = field_recorded_if_given(
        lambda value: _is_list_of_options(value)
    )  # with --continue: the options in place of the model's own settings
    suited: bool = derived_field(False)  # whether the algorithm is auto's choice

    @property
    def roles_recognised_by_name(self) -> frozenset[str]:
        """The column roles that are recognised by their usual names."""
        from herdcli.artifacts.tables.column_roles import ROLES

        return ROLES if self.per_class or self.labels or self.pairs else frozenset()

    @property
    def uses_levels_of_all_rows(self) -> bool:
        """Whether the levels of text columns are those of all rows: the states of softmax units, of which held-out rows need theirs too."""
        return (self.visible_units or "").partition(":")[0] == "softmax"

    def resolve_options(self, typed_options: frozenset[str]) -> Request:
        """Return the request as it is run: layers and sequences become their own requests; epochs 0 of pairs are chosen from the data."""
        refuse_contradicting_typed_options(self, typed_options)
        if self.algorithm == "auto":
            return replace(self, algorithm=self._default_algorithm(), suited=True).resolve_options(typed_options)
        if self.recurrent:
            return SequencesRequest(**vars(self)).resolve_sequence_options(typed_options)
        if self.pairs:
            units = self.units if "units" in typed_options else None
            return replace(
                self.with_chosen_settings(self.resolve_pairs(typed_options)),
                units=units,
                epochs=self.epochs if "epochs" in typed_options else 0,
            )
        if self.layers or self.below:
            return LayersRequest(**vars(self))
        return self if self.model is None else replace(self, typed=tuple(sorted(typed_options & vars(self).keys())))

    @staticmethod
    def unset_options(parameters: Mapping[str, object]) -> Collection[str]:
        """Return the options whose recorded 0 or null means that they are not set.

        Only the settings of pairs, of sequences and of a continued model are recorded with such values.
        """
        typed = parameters.get("typed")
        settled = parameters.get("pairs") is True or parameters.get("recurrent") is True or isinstance(typed, list)
        return [name for name in NOT_ASKED if not (isinstance(typed, list) and name in typed)] if settled else ()

    def _default_algorithm(self) -> str:
        """Return the default algorithm: rpcd, pt for words or exact for few units and their variances, where it is best, else cd."""
        from herdcli.rbm.units import unit_family

        other = (self.recurrent, self.pairs, self.labels not in (None, "generative"), self.mean_field != "none")
        units = [self.hidden_units or self.units or "binary"]
        units += [] if self.below else [self.visible_units or self.units or "binary"]
        if "words" in units:
            return "cd" if self.mean_field != "none" else "pt"
        if self.learn_variances and not any(other):
            few = isinstance(self.hidden, int) and self.hidden <= ENUMERATED and unit_family(units[0]).two_state
            return "exact" if few and not self.layers else "rpcd"
        return "rpcd" if not any(other) and all(unit_family(name).two_state for name in units) else "cd"

    def resolve_for_columns(self, columns: int, visible: str) -> Request:
        """Return the request for rows with this number of columns of a unit family; auto chooses rpcd only for small models.

        With more than FEW hidden units it chooses cd, because the chains of rpcd, most of which restart at rows, can miss spurious states.
        With many weights it chooses cd because an update can then cost only as much as the units that are on.
        """
        from herdcli.rbm.learning.hidden_size_search import LADDER
        from herdcli.rbm.learning.learning_problem import WIDE
        from herdcli.rbm.units import unit_family

        most = LADDER[-1] if self.hidden == "auto" else max(self.layers or (self.hidden,))
        if self.algorithm in ("pt", "exact") or self.learn_variances:
            return self
        other = most > FEW or columns * most >= WIDE or not unit_family(visible).two_state
        return replace(self, algorithm="cd") if self.suited and other else self

    @property
    def is_new(self) -> bool:
        """Whether a new model is learned, not an earlier one continued."""
        return self.model is None

    @property
    def is_lowest_layer(self) -> bool:
        """Whether the layer to learn is the lowest."""
        return self.below is None

    @property
    def has_one_layer(self) -> bool:
        """Whether --hidden sets the number of hidden units."""
        return self.layers is None

    @property
    def is_hybrid(self) -> bool:
        """Whether labels are learned by both the generative and the discriminative likelihood."""
        return self.labels == "hybrid"

    @property
    def is_sparse(self) -> bool:
        """Whether the mean of the hidden units has a target."""
        return self.sparsity_target is not None

    @property
    def has_no_word_counts(self) -> bool:
        """Whether the visible units are not word counts."""
        return "words" not in (self.visible_units, self.units)

    def in_memory_option(self) -> str | None:
        """Return the option that needs all rows in memory, or None."""
        return next((name for name in IN_MEMORY if getattr(self, name)), None)

    def settings(self) -> Settings:
        """Return the settings of the learning, with the defaults of Settings for rate, centring and weight decay if they are not given."""
        from herdcli.rbm.learning.hidden_size_search import LADDER
        from herdcli.rbm.settings import Settings

        layers: dict[str, object] = {name: getattr(self, name) or self.units for name in ("visible_units", "hidden_units")}
        if self.hidden == "auto":
            layers["hidden"] = LADDER[-1]  # the largest size that the search may try
        return settings_from_request(Settings, self, **layers, average_scores=(self.average_scores or 0) if self.per_class else 0)

    def settings_to_continue(self, model: RBM) -> Settings:
        """Return the settings of a continued model, with the given options in place of its own; --epochs are added to its epochs."""
        from herdcli.rbm.settings import Settings

        shaping = {name for name, declaration in declarations(Request) if NEW in declaration.only}
        own = {each.name: getattr(model, each.name) for each in fields(Settings) if each.name not in ("hidden", "average_scores")}
        typed = {n: getattr(self, n) for n in (*own, "average_scores") if n in (self.typed or ()) and n not in shaping}
        watched = {name: getattr(self, name) or 0 for name in ("validate_every", "patience", "average")}
        watched |= {"track_likelihood": bool(self.track_likelihood)}
        before = 0 if model.kept is None else model.epochs
        return Settings(**own | typed | watched | {"hidden": model.W.shape[2], "epochs": before + self.epochs})

    def settings_for_row_count(self, chosen: Settings, rows: int, moment: Callable[[], float] | None = None) -> Settings:
        """Return the settings with a rate, centring and weight decay suited to this number of rows, where they are not given.

        moment  returns the largest moment of the rows.
        """
        from herdcli.rbm.settings import fill_defaults

        lacking = {"rate": self.learning_rate is None, "centering": self.centering is None, "decay": self.weight_decay is None}
        return fill_defaults(chosen, rows, **lacking, largest_eigenvalue=moment)

    def resolve_pairs(self, typed_options: Collection[str]) -> Settings:
        """Return the given options, and for the others the default settings for pairs."""
        from herdcli.rbm.pairs import DEFAULTS

        typed = {one.name: getattr(self, one.name) for one in fields(DEFAULTS) if one.name in typed_options}
        if "units" in typed_options:
            typed = {"visible_units": self.units, "hidden_units": self.units} | typed
        return replace(DEFAULTS, **typed)

    def pair_settings(self) -> Settings:
        """Return the settings for learning pairs, from the options as left by `resolve_options`."""
        from herdcli.rbm.pairs import DEFAULTS

        own = {each.name for each in fields(self)}
        asked = {each.name: value for each in fields(DEFAULTS) if each.name in own and (value := getattr(self, each.name)) is not None}
        return replace(DEFAULTS, **asked | {"epochs": self.epochs or DEFAULTS.epochs})

    def with_chosen_settings(self, chosen: Settings) -> Request:
        """Return the request with the chosen settings, for the record."""
        own = {each.name for each in fields(self)}
        return replace(self, **{each.name: getattr(chosen, each.name) for each in fields(chosen) if each.name in own})


@dataclass(frozen=True, kw_only=True)
class LayersRequest(Request):
    """A request for layers, whose record has the model of --below among its inputs and not among its options."""

    below: str | None = input_file_field()


@dataclass(frozen=True, kw_only=True)
class SequencesRequest(Request):
    """A request for a model of sequences; options for independent rows are refused and not recorded."""

    per_class: bool = unrecorded_field()
    folds: int | None = unrecorded_field()
    average_scores: int | None = unrecorded_field()
    layers: tuple[int, ...] | None = unrecorded_field()
    below: str | None = input_file_field()
    pairs: bool = unrecorded_field()
    chains: int | None = unrecorded_field()
    bias_rate: float | None = unrecorded_field()
    l1_decay: float = unrecorded_field()
    mean_field: str = unrecorded_field()
    centering: bool | None = unrecorded_field()
    non_negative: bool = unrecorded_field()
    sparsity_target: float | None = unrecorded_field()
    sparsity_cost: float = unrecorded_field()
    fast_rate: float | None = unrecorded_field()
    fast_decay: float = unrecorded_field()
    final_steps: int | None = unrecorded_field()
    replicas: int | None = unrecorded_field()
    optimizer: str | None = unrecorded_field()
    labels: str | None = unrecorded_field()
    generative_share: float | None = unrecorded_field()
    learn_variances: bool | None = unrecorded_field()
    average: int | None = unrecorded_field()
    keep_state: bool | None = unrecorded_field()
    draw_missing: bool | None = unrecorded_field()
    track_likelihood: bool | None = unrecorded_field()
    model: str | None = input_file_field()

    def resolve_sequence_options(self, typed_options: Collection[str]) -> SequencesRequest:
        """Return the request with the default settings for sequences.  Raises BadUsage for options of other models."""
        from herdcli.rbm.recurrent.settings import ALGORITHMS, RecurrentSettings, fill_defaults

        for name in (name for name in vars(SequencesRequest)["__annotations__"] if name in typed_options):
            raise BadUsage(f"--recurrent and {_option_as_typed(name)} exclude each other", hint="leave one of them out")
        if self.algorithm not in ALGORITHMS:
            raise BadUsage(f"--recurrent works with --algorithm {' or '.join(ALGORITHMS)}, not {self.algorithm}", hint="use --algorithm cd")
        if self.algorithm == "exact" and "steps" in typed_options:
            raise BadUsage("--gibbs-steps does not work with --algorithm exact, which draws no samples", hint="leave out --gibbs-steps")
        typed = {each.name: getattr(self, each.name) for each in fields(RecurrentSettings) if each.name in typed_options}
        layers = {name: units for name in ("visible_units", "hidden_units") if (units := getattr(self, name) or self.units)}
        settings = fill_defaults(RecurrentSettings(**typed | layers | {"seed": self.seed}), typed_options)
        return replace(self, **vars(settings))

    def recurrent_settings(self) -> RecurrentSettings:
        """Return the settings of the learning."""
        from herdcli.rbm.recurrent.settings import RecurrentSettings

        return settings_from_request(RecurrentSettings, self)
