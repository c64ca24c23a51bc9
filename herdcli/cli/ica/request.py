"""The options of `herd ica`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.cli.frame.history.request import (
    field_recorded_as_file,
    field_recorded_if_changed,
    field_recorded_if_given,
    input_file_field,
    settings_from_request,
)
from herdcli.cli.frame.options import common_options, shared_options
from herdcli.cli.frame.options.declaration import (
    INPUT,
    LEARNING,
    Condition,
    Excludes,
    Needs,
    OneOf,
    When,
    choice_kind,
    flag,
    integer_kind,
    number_kind,
    option,
    text_kind,
)
from herdcli.cli.ica.values import ALGORITHMS, COMPONENTS, GRID, INITIAL_SCALE, MIX, RATES
from herdcli.ica.expert_table import SEPARATING, TABLE
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.ica.problem import LearningSettings
    from herdcli.ica.whitening import Method

CONVERGING = ("ml", "fastica", "picard", "sobi")
SPARSE_CODING = OneOf("algorithm", "sparse-coding")
BY_EM = OneOf("posterior", "gaussian", default="map")
ITERATED = (OneOf("algorithm", *CONVERGING, "sparse-coding"), When(SPARSE_CODING, BY_EM))
MINIBATCH = (
    OneOf("algorithm", "infomax", "ebm", "equil", "sparse-coding"),
    When(SPARSE_CODING, OneOf("posterior", "map", "laplace", "variational", default="map")),
)
POSTERIOR = (
    SPARSE_CODING,
    Needs(
        When(SPARSE_CODING, When(BY_EM, OneOf("expert", "laplace", default="laplace"))),
        "--posterior gaussian works only with --expert laplace, not {expert}",
        hint="use --posterior variational",
    ),
)
ONE_PASS = (
    Needs(
        OneOf("algorithm", *(name for name in ALGORITHMS if name != "sobi")),
        "--algorithm sobi needs consecutive rows, but --one-pass keeps rows that are far apart",
        hint="use --algorithm ml",
    ),
    Needs(Excludes("mix"), "--one-pass and --mix exclude each other", hint="leave one of them out"),
)
THREADED = OneOf("algorithm", "ml", "ebm", "sparse-coding")
IN_BLOCKS = Condition(
    "one_pass",
    refusal=f"{{option}}: {common_options.ITERATED}",
    hint=f"{common_options.WORKERS}; --shard works with --one-pass",
)
SHARED = Condition(
    "can_share_work",
    refusal="{option} works only with --algorithm ml, not with {algorithm}",
    hint="use --algorithm ml, or leave out --cluster",
)


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd ica`; names and meanings are those of its --help."""

    source: str = input_file_field()
    algorithm: str = option(choice_kind(*ALGORITHMS), default="ml", group=LEARNING, help="Algorithm that fits the filters: see above.")
    filters: int | None = option(integer_kind(1), help="Number of filters (infomax, ebm, sparse-coding).  [default: one per dimension]")
    whiten: Method | None = option(
        choice_kind("zca", "pca", "fa", "centre"),
        help="Whitening of the rows: zca (stays close to the rows), pca (principal components), fa (factor analysis with --components N, "
        "for noisy columns), or centring alone.  [default: zca; with --components: pca]",
    )
    components: int | float | None = option(
        COMPONENTS, help="Principal components to keep: N, or as many as have P% of the variance.  [default: all]"
    )
    log: bool = flag(help="Replace each value x by log(1 + x), for intensities; herd apply --want rows undoes it.")
    mix: tuple[str, float] | None = option(
        MIX,
        help="For experiments: INPUT's columns are sources; mix them by a random matrix or by Teh's (instamix) first.",
    )
    mixing: str | None = option(
        text_kind(),
        metavar="FILE",
        group=INPUT,
        record=field_recorded_as_file(),
        only=Excludes("mix", refusal="--mix creates a mixing matrix, --mixing names an existing one", hint="leave one of them out"),
        help="Data set with the known mixing matrix of INPUT's columns, to report the Amari distance from it.",
    )
    density: str | None = option(
        choice_kind("auto", *TABLE),
        only=OneOf("algorithm", "infomax", "ml", "ebm"),
        help="Density of the outputs (infomax, ml, ebm --expert infomax); auto: choose for each output by its tails.  [default: auto; "
        "logistic for ebm and for more filters than dimensions]",
    )
    gradient: str = option(
        choice_kind("natural", "exact"),
        default="natural",
        only=OneOf("algorithm", "infomax"),
        help="Gradient of infomax; natural does not depend on the mixing.",
    )
    expert: str | None = option(
        choice_kind("auto", *SEPARATING, "infomax"),
        only=OneOf("algorithm", "ebm", "equil", "sparse-coding"),
        help="Energy of an output, the negative log of its density (ebm, equil), or prior of a source (sparse-coding).  [default: student; "
        "equil: auto; sparse-coding: laplace]",
    )
    gamma: float | None = option(
        number_kind(0, open_low=True),
        only=OneOf("algorithm", "ml", "infomax", "ebm", "equil", "sparse-coding"),
        help="Initial weight γ of each expert's energy.  [default: 1]",
    )
    gamma_rate: float | None = option(
        number_kind(0),
        group=LEARNING,
        only=OneOf("algorithm", "ebm", "equil"),
        help="Learning rate of the weights γ, relative to that of the filters; 0: keep them fixed.  [default: 0]",
    )
    on_nonconvergence: str = option(
        choice_kind("warn", "error"),
        default="warn",
        group=LEARNING,
        only=ITERATED,
        help="What to do if the fit does not converge (ml, fastica, picard, sobi).",
    )
    split: str | None = option(
        text_kind(),
        metavar="TRAIN,VALID,TEST",
        group=INPUT,
        help="Training, validation and test rows, as counts or fractions.  [default: the data's own split, else .6,.2,.2; sobi: all rows]",
    )
    one_pass: bool = flag(
        record=field_recorded_if_changed(False),
        only=ONE_PASS,
        help="Read large files once: whiten by all rows, learn from 65,536 of them, evenly spread.  --shard divides the rows.",
    )
    label: str | None = shared_options.label_option()
    rates: tuple[tuple[float, int], ...] | None = option(
        RATES,
        "--rate-schedule",
        metavar="RxN,…",
        group=LEARNING,
        only=MINIBATCH,
        help="Learning rates, such as 0.05x2000,0.01x500: 0.05 for 2000 updates, then 0.01 for 500.",
    )
    batch_size: int | None = option(
        integer_kind(1),
        group=LEARNING,
        only=MINIBATCH,
        help="Rows per update.  [default: 100; infomax with one filter per dimension: 900, or 4 per dimension if that is more]",
    )
    momentum: float = option(
        number_kind(0, 1, open_high=True),
        default=0.9,
        group=LEARNING,
        only=MINIBATCH,
        help="Share of each update that carries over to the next.",
    )
    weight_decay: float = option(number_kind(0), default=0.0, group=LEARNING, only=MINIBATCH, help="L2 penalty on the filters.")
    initial_scale: float = option(
        INITIAL_SCALE,
        default=0.1,
        group=LEARNING,
        only=MINIBATCH,
        help="Initial filters: the standard deviation of their entries, or unit for filters of length 1.",
    )
    average: int | None = option(
        integer_kind(0),
        group=LEARNING,
        only=MINIBATCH,
        help="Average the filters over the last N updates, against noise.  [default: 0; infomax with one filter per dimension and no "
        "--rate-schedule: 900]",
    )
    steps: int = option(
        integer_kind(1),
        "--proposals",
        default=1,
        group=LEARNING,
        only=OneOf("algorithm", "ebm"),
        help="Hybrid Monte Carlo proposals per update: the n of contrastive divergence (CD-n).",
    )
    leapfrog: int = option(integer_kind(1), default=30, group=LEARNING, only=OneOf("algorithm", "ebm"), help="Leapfrog steps per proposal.")
    acceptance: float = option(
        number_kind(0, 1, open_low=True, open_high=True),
        default=0.9,
        group=LEARNING,
        only=OneOf("algorithm", "ebm"),
        help="Share of accepted proposals that the step size is adapted to.",
    )
    step_size: float = option(
        number_kind(0, open_low=True), default=0.1, group=LEARNING, only=OneOf("algorithm", "ebm"), help="Initial leapfrog step size."
    )
    topography: tuple[int, int] | None = option(
        GRID, metavar="HxW", only=OneOf("algorithm", "ebm"), help="Fit a topographic map of H × W filters, in which neighbours are pooled."
    )
    neighbourhood: int = option(
        integer_kind(1), default=3, only=OneOf("algorithm", "ebm"), help="Side of the pooled squares (an odd number)."
    )
    posterior: str | None = option(
        choice_kind("map", "laplace", "variational", "gaussian"),
        only=POSTERIOR,
        help="Posterior of the sources given a row: its mode (map), an approximation around the mode (laplace), a variational bound, or "
        "gaussian, by EM over all rows, with a covariance for each row (slow).  [default: map]",
    )
    e_step: str | None = option(
        choice_kind("exact", "book"),
        record=field_recorded_if_given(),
        only=(SPARSE_CODING, BY_EM),
        help="E step of --posterior gaussian: exact never lowers the bound; book, the one of Makin's book, can.  [default: exact]",
    )
    noise: float | None = option(
        number_kind(0), only=SPARSE_CODING, help="Standard deviation of the noise in sparse-coding; 0: basis pursuit.  [default: 0.1]"
    )
    tolerance: float | None = option(
        number_kind(0, open_low=True),
        group=LEARNING,
        only=ITERATED,
        help="Convergence tolerance of ml, fastica, picard, sobi.  [default: 1e-7; fastica: 1e-4; --posterior gaussian: 1e-6]",
    )
    lags: int = option(
        integer_kind(1), default=100, only=OneOf("algorithm", "sobi"), help="Largest lag of the autocorrelations that sobi uses."
    )
    iterations: int | None = option(
        integer_kind(1),
        group=LEARNING,
        only=ITERATED,
        help="Maximum number of iterations of ml, fastica, picard, sobi.  [default: 1000; --posterior gaussian: 100]",
    )
    input_format: str | None = shared_options.input_format_option()
    seed: int = shared_options.seed_option()

    uses_validation_rows = False

    @property
    def roles_recognised_by_name(self) -> frozenset[str]:
        """The column roles that are recognised by their usual names."""
        return frozenset()

    @property
    def variance_fraction(self) -> float | None:
        """The fraction of the variance that --components P% asks for, else None."""
        return self.components if isinstance(self.components, float) else None

    @property
    def component_count(self) -> int | None:
        """The number of components that --components N asks for, else None."""
        return self.components if isinstance(self.components, int) else None

    def learning_settings(self, dimensions: int) -> LearningSettings:
        """Return the settings of minibatch learning for rows of this number of dimensions."""
        from herdcli.ica import defaults
        from herdcli.ica.problem import LearningSettings

        more = defaults.default_learning_options(self.algorithm, dimensions, (self.filters or dimensions) == dimensions, vars(self))
        if self.topography is not None:
            height, width = self.topography
            more |= {"grid": self.topography, "filters": self.filters or height * width}
        algorithm = "infomax" if self.algorithm == "sparse-coding" else self.algorithm
        return settings_from_request(
            LearningSettings, self, **more, algorithm=algorithm, natural=self.gradient == "natural", proposals=self.steps
        )

    @property
    def can_share_work(self) -> bool:
        """Whether other processes can share the work: with the rows of ml, or with blocks of rows that are read once."""
        return self.algorithm == "ml" or self.one_pass
