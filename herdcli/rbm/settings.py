"""The settings of a fit of harmoniums."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypedDict

from herdcli.errors import BadUsage
from herdcli.rbm.normalizability import require_normalisable_families
from herdcli.rbm.units import unit_family
from herdcli.records import dataclass

ALGORITHMS = ("cd", "pcd", "rpcd", "fpcd", "pt", "tap", "pseudo-likelihood", "exact")
SAMPLED = ("cd", "pcd", "rpcd", "fpcd", "pt")  # algorithms whose second phase uses sampled states
MEAN_FIELDS = ("none", "visible", "both")
DECAYS = ("linear", "cosine", "inverse", "none")
OPTIMIZERS = ("momentum", "adam", "natural")
JOINTS = ("none", "generative", "discriminative", "hybrid")
REPLICAS = 10
RENEWED = 100  # chains of rpcd, one of which restarts at each update


WORDS_RATE = 0.0001  # the largest learning rate for word counts, since a row has many words
TEMPERED_RATE = 0.2  # largest learning rate of pt
LONG, MANY = 10.0, 16  # largest value of rate × hidden units × mean squared number of words; fewer than MANY hidden units count as MANY
ADAM_RATE = 0.01  # learning rate of adam for batches of 20 rows
RATE, UPDATES = 0.05, 2000  # the learning rate of binary units at momentum .9 in a fit with this number of updates of 20 rows
VARIANCES_RATE = 0.005  # learning rate of sampled algorithms while variances are learned
RENEWED_RATE, CURVED, TINY = 0.12, 0.6, 1e-9  # RATE of rpcd; the largest rate × largest eigenvalue of the covariance; its least value
COUNTS = tuple((name, 0) for name in ("average_scores", "validate_every", "patience", "average", "final_steps", "replicas"))
DECAY_ROWS, LARGEST_DECAY = 2.0, 5e-4  # for two-state units: weight decay × number of rows, and the largest weight decay
LARGEST_BATCH = 6.25  # the rate increases with the batch up to batches of this times 20 rows


class DataDependentSettings(TypedDict):
    """The settings whose defaults depend on the rows."""

    learning_rate: float
    centering: bool
    weight_decay: float


@dataclass(frozen=True)
class Settings:
    """The settings of one fit.  A rate of 0 stands for the learning rate."""

    hidden: int = 100
    algorithm: str = "cd"
    steps: int = 1  # k, Gibbs sweeps per update, or iterations of tap
    final_steps: int = 0  # k of the last updates; k changes evenly from `steps` to this.  0: constant k
    chains: int = 0  # persistent chains of pcd, rpcd, fpcd, pt and tap; 0: the batch size, for rpcd at least RENEWED
    replicas: int = 0  # pt: temperatures of each chain; 0: REPLICAS
    epochs: int = 100
    batch_size: int = 20  # 0: all rows
    learning_rate: float = 0.05  # the rate at the start of the run
    bias_rate: float = 0.0
    rate_decay: str = "linear"  # decrease to 0 over the run, linearly or along a cosine, as 1/(1 + 9 t/T), or "none"
    optimizer: str = "momentum"
    momentum: float = 0.9
    weight_decay: float = 1e-4  # λ of the penalty λ/2 |W|²
    l1_decay: float = 0.0  # λ of the penalty λ Σ |W|
    initial_scale: float = 0.01  # standard deviation of the first weights; Hinton (2010), sec. 8.1
    mean_field: str = "none"  # cd: the layers of the chain that hold means instead of states
    centering: bool = False
    non_negative: bool = False
    sparsity_target: float = 0.0  # target mean of a hidden unit as a share of its range; 0: none
    sparsity_cost: float = 0.1
    fast_rate: float = 0.0  # fpcd: learning rate of the fast weights
    fast_decay: float = 0.95  # fpcd: share of the fast weights that is kept
    visible_units: str = "binary"
    hidden_units: str = "binary"
    joint: str = "none"  # objective of a model of rows with labels, which are the last visible unit
    generative_share: float = 0.01  # hybrid: weight of the gradient of log p(v, y), added to that of log p(y | v)
    learn_variances: bool = False  # learn the variances of Gaussian visible units
    average_scores: int = 0  # number of last updates of each model over which the energies of scored rows are averaged
    validate_every: int = 0  # epochs between evaluations on validation rows; 0: none
    patience: int = 0  # evaluations without improvement after which learning stops, and the best model is kept; 0: off
    track_likelihood: bool = False  # track log Z along the updates
    average: int = 0  # number of final updates over which the parameters are averaged; 0: the parameters after the last update are used
    seed: int = 0

    def __post_init__(self) -> None:
        for name, known in (
            ("algorithm", ALGORITHMS),
            ("rate_decay", DECAYS),
            ("mean_field", MEAN_FIELDS),
            ("optimizer", OPTIMIZERS),
            ("joint", JOINTS),
        ):
            if getattr(self, name) not in known:
                raise BadUsage(f"unknown {name} '{getattr(self, name)}', expected {', '.join(known[:-1])} or {known[-1]}")
        for name, least in (("hidden", 1), ("steps", 1), ("chains", 0), ("epochs", 1), ("batch_size", 0), *COUNTS):
            if getattr(self, name) < least:
                raise BadUsage(f"{name} must be at least {least}, not {getattr(self, name)}")
        if not (self.learning_rate > 0 and 0 <= self.momentum < 1 and self.weight_decay >= 0):
            raise BadUsage("learning_rate must be above 0, momentum in [0, 1) and weight_decay at least 0")
        for name in ("bias_rate", "l1_decay", "initial_scale", "sparsity_target", "sparsity_cost", "fast_rate", "generative_share"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise BadUsage(f"{name} must be at least 0, not {getattr(self, name):g}")
        if self.patience and self.average:
            raise BadUsage(
                "--patience and --average exclude each other",
                hint="use --patience for the best model, or --average for the mean of the last ones",
            )
        if not 0 <= self.fast_decay < 1:
            raise BadUsage(f"fast_decay must be from 0 to below 1, not {self.fast_decay:g}")
        visible, hidden = unit_family(self.visible_units), unit_family(self.hidden_units)
        require_normalisable_families(visible, hidden)
        if self.sparsity_target and hidden.range is None:
            raise BadUsage(f"a sparsity target needs hidden units with a bounded range, but these are {hidden.name}")
        if self.sparsity_target >= 1:
            raise BadUsage(f"sparsity_target must be below 1, not {self.sparsity_target:g}")
        self._require_algorithm_settings()
        if self.track_likelihood:
            self._require_trackable()
        if self.algorithm == "pseudo-likelihood" and not visible.has_finite_values:
            raise BadUsage(f"pseudo-likelihood needs visible units with finitely many values, but these are {visible.name}")

    def data_dependent_settings(self) -> DataDependentSettings:
        """Return the settings that `fill_defaults` chooses."""
        return {"learning_rate": self.learning_rate, "centering": self.centering, "weight_decay": self.weight_decay}

    def _require_algorithm_settings(self) -> None:
        """Raise BadUsage for settings that cannot be combined with the algorithm."""
        visible = unit_family(self.visible_units)
        if (self.joint != "none") != (visible.labels is not None):
            raise BadUsage(
                "a model of rows and labels needs visible units that include the label",
                hint="use --labels to learn a model of rows and labels",
            )
        if self.joint != "none" and self.algorithm in ("tap", "pseudo-likelihood"):
            raise BadUsage(f"--labels and --algorithm {self.algorithm} exclude each other", hint="use --algorithm cd")
        if self.joint in ("discriminative", "hybrid") and self.optimizer == "natural":
            raise BadUsage(f"--optimizer natural needs sampled states, but --labels {self.joint} samples none", hint="use --optimizer adam")
        if unit_family(self.hidden_units).multinomial:
            raise BadUsage("words units are possible only in the visible layer", hint="use --hidden-units binary")
        if visible.multinomial and unit_family(self.hidden_units).range is None:
            raise BadUsage(
                f"--visible-units words needs hidden units with a bounded range, but these are {self.hidden_units}",
                hint="use --hidden-units binary",
            )
        if visible.multinomial and (self.algorithm not in ("cd", "pt") or self.centering or self.epochs_per_evaluation):
            raise BadUsage(
                "--visible-units words works only with --algorithm cd or pt, without --centering and without validation during learning",
                hint="use --algorithm pt",
            )
        columns = visible.columns
        if self.learn_variances and not columns.standard_normal:
            raise BadUsage(
                f"--learn-variances needs gaussian visible units, but these are {columns.name}", hint="use --visible-units gaussian"
            )
        if self.learn_variances and self.joint in ("discriminative", "hybrid"):
            raise BadUsage(
                f"--learn-variances does not work with --labels {self.joint}, because it needs the likelihood of rows",
                hint="use --labels generative",
            )
        if self.learn_variances and (self.patience or self.average or self.validate_every or self.average_scores):
            raise BadUsage(
                "--learn-variances does not work with --patience, --average, --average-scores or --validate-every",
                hint="leave these out: the scale of the rows changes with the variances",
            )
        if self.replicas == 1:
            raise BadUsage("--replicas must be at least 2, not 1", hint="use 2 or more, or --algorithm pcd, which has one temperature")
        if self.optimizer == "natural" and self.tempers_lengths:
            raise BadUsage("--optimizer natural does not work with words units and --algorithm pt", hint="use --optimizer adam")
        if self.optimizer == "natural" and self.algorithm not in SAMPLED:
            raise BadUsage(
                f"--optimizer natural needs sampled states, but --algorithm {self.algorithm} samples none", hint="use --algorithm pcd"
            )
        if self.optimizer != "momentum" and (self.non_negative or self.l1_decay):
            raise BadUsage(f"--optimizer {self.optimizer} does not work with --l1-decay or --non-negative", hint="leave out --optimizer")
        if self.algorithm == "tap" and any(unit_family(name).group > 1 for name in (self.visible_units, self.hidden_units)):
            raise BadUsage("--algorithm tap needs units with one column, but softmax units have several", hint="use --algorithm pcd")

    def require_missing_values_support(self) -> None:
        """Raise BadUsage for settings that cannot be combined with missing entries."""
        visible = unit_family(self.visible_units)
        units = visible.columns
        if units.group > 1 or units.multinomial:
            raise BadUsage(
                f"missing values can be sampled only for units with one column, not for {units.name} units",
                hint="use --missing drop or mean",
            )
        if self.algorithm == "pseudo-likelihood" or self.learn_variances or self.average_scores:
            raise BadUsage(
                "missing values cannot be sampled with --algorithm pseudo-likelihood, --learn-variances or --average-scores",
                hint="use --missing drop or mean",
            )

        if self.joint != "none" and (self.joint != "generative" or self.algorithm not in SAMPLED):
            message = (
                "missing values of rows with labels can be sampled only with --labels generative and an algorithm that samples, such as cd"
            )
            raise BadUsage(message, hint="use --algorithm cd, or --missing drop or mean")

    def _require_trackable(self) -> None:
        """Raise BadUsage for models without a single log Z to track, or to which particles cannot be carried."""
        visible, hidden = unit_family(self.visible_units), unit_family(self.hidden_units)
        if visible.multinomial:
            raise BadUsage(
                "--track-likelihood does not work with words units, because rows of each length have their own log Z",
                hint="use herd eval, which computes all of them",
            )
        columns = visible.columns
        if columns.range is None and hidden.range is None:
            raise BadUsage(
                f"--track-likelihood needs a layer with a bounded range: log Z of {columns.name} and {hidden.name} units can diverge while "
                "they are learned",
                hint="use herd eval, which computes log Z of the finished model",
            )
        if self.joint == "discriminative":
            raise BadUsage(
                "--track-likelihood does not work with --labels discriminative, which does not learn the likelihood of rows",
                hint="use --labels hybrid",
            )

    def batches(self, rows: int) -> int:
        """Return the number of minibatches in an epoch of this number of rows."""
        return -(-rows // (self.batch_size or rows))

    def updates(self, rows: int) -> int:
        """Return the total number of minibatches."""
        return self.epochs * self.batches(rows)

    @property
    def evaluation_count(self) -> int:
        """The number of evaluations on validation rows: at regular intervals, and after the last epoch."""
        return -(-self.epochs // self.epochs_per_evaluation) if self.epochs_per_evaluation else 0

    @property
    def epochs_per_evaluation(self) -> int:
        """The number of epochs between two evaluations on validation rows; with patience alone 1.  0: there are none."""
        return self.validate_every or int(self.patience > 0)

    @property
    def has_persistent_chains(self) -> bool:
        """Whether chains continue from step to step."""
        return self.algorithm in ("pcd", "rpcd", "fpcd", "pt", "tap")

    @property
    def temperatures(self) -> int:
        """The number of states of each chain: with pt one for every temperature."""
        return (self.replicas or REPLICAS) if self.algorithm == "pt" and not self.tempers_lengths else 1

    @property
    def tempers_lengths(self) -> bool:
        """Whether the lengths of rows serve as temperatures of the chains."""
        return self.algorithm == "pt" and unit_family(self.visible_units).multinomial

    def sweeps(self, completed_fraction: float) -> int:
        """Return k for an update after the share `completed_fraction` of all updates; each k has the same number of updates."""
        if not self.final_steps:
            return self.steps
        step = 1 if self.final_steps >= self.steps else -1
        return self.steps + step * int(completed_fraction * (abs(self.final_steps - self.steps) + 1))

    def learning_rate_factor(self, completed_fraction: float) -> float:
        """Return the factor of the learning rate after the share `completed_fraction` of all updates.

        inverse  1/(1 + 9 t/T), a tenth in the end: the sum of rates diverges and that of their squares
        converges (Robbins & Monro 1951).
        """
        if self.rate_decay == "linear":
            return 1.0 - completed_fraction
        if self.rate_decay == "cosine":
            return 0.5 * (1.0 + math.cos(math.pi * completed_fraction))
        return 1.0 / (1.0 + 9.0 * completed_fraction) if self.rate_decay == "inverse" else 1.0


def fill_defaults(
    settings: Settings,
    rows: int,
    *,
    rate: bool,
    centering: bool,
    decay: bool = False,
    largest_eigenvalue: Callable[[], float] | None = None,
) -> Settings:
    """Fill in the learning rate, centring and weight decay that suit models of this number of rows, each if it is requested.

    Two-state units are centred.  A sum of past gradients multiplies the effective rate by 1/(1 − μ), so that the rate is proportional to
    1 − μ.  Noise falls with √batch, and its accumulated effect grows with the number T of updates: the rate falls as 1/√T.  For values
    that are g apart, weights W of {0, 1} units become W / (g_v g_h) and their gradient g_v g_h times as large, so that the
    centred learner takes the same path at ε / (g_v g_h)².  A penalty that counts as much as a prior of fixed width is proportional to one
    over the rows; few rows and many weights need it.  See scripts/bench/rbm/defaults.py.  Other families keep the defaults of Settings.

    largest_eigenvalue  returns a number that bounds the rate; what it measures depends on the algorithm and on the units, see below.

    Chains of rpcd restart at rows and cannot lag behind for long, so that rates may be higher for any batch size, as long as this number of
    chains keeps up.  The exception is rows that vary mainly along one direction, where `curvature_bound.largest_covariance_eigenvalue` of
    the rows, in unit values, bounds the rate.  For rows of N words each hidden input is a sum over N words, and all hidden units affect the
    same words, so that the mean of N² times the number of hidden units bounds the rate of cd; `largest_eigenvalue` computes the mean of N².
    Chains of pt exchange their lengths and keep up; there `curvature_bound.estimate_hidden_input_shift` bounds the rate.  While
    variances are learned, rates are low: chains of cd never leave narrow clusters, so that variances shrink without end, and persistent
    chains lag behind variances that change fast.
    """
    visible = unit_family(settings.visible_units)
    layers = visible.columns, unit_family(settings.hidden_units)
    batch = min(settings.batch_size or rows, rows)
    updates = settings.epochs * -(-rows // batch)
    if visible.multinomial and rate:
        if settings.optimizer != "momentum" or largest_eigenvalue is None:
            return replace(settings, learning_rate=WORDS_RATE)
        found = max(largest_eigenvalue(), TINY)
        bound = (
            min(TEMPERED_RATE, 1.0 / found) if settings.tempers_lengths else min(WORDS_RATE, LONG / (found * max(settings.hidden, MANY)))
        )
        first = bound * min(1.0, math.sqrt(UPDATES / updates))
        return replace(settings, learning_rate=float(f"{first * min((1.0 - settings.momentum) / 0.1, 2.5):.2g}"))
    if settings.learn_variances and settings.algorithm in SAMPLED and rate:
        return replace(settings, learning_rate=VARIANCES_RATE)
    if not all(units.two_state for units in layers):
        return settings
    gaps = math.prod(units.range[1] - units.range[0] for units in layers if units.range is not None)
    larger = min(max(batch / 20, 1.0), LARGEST_BATCH)
    first, share = RATE, larger * min(1.0, UPDATES / updates)
    if settings.algorithm == "rpcd":
        low, high = layers[0].range or (0.0, 1.0)
        curvature = largest_eigenvalue() / (high - low) ** 2 if rate and largest_eigenvalue is not None else 0.0
        first, share = min(RENEWED_RATE, CURVED / max(curvature, TINY)), min(1.0, UPDATES / updates)
    found = float(f"{min(first * (1.0 - settings.momentum) / 0.1 * math.sqrt(share), first * 2.5) / gaps**2:.2g}")
    if settings.optimizer == "adam":  # the size of its steps does not depend on the gradient's size
        found = float(f"{ADAM_RATE * math.sqrt(larger * min(1.0, UPDATES / updates)) / gaps:.2g}")
    penalty = float(f"{min(max(DECAY_ROWS / rows, settings.weight_decay), LARGEST_DECAY):.2g}")
    return replace(
        settings,
        learning_rate=found if rate else settings.learning_rate,
        centering=centering or settings.centering,
        weight_decay=penalty if decay else settings.weight_decay,
    )
