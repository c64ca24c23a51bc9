"""The settings of a fit of a recurrent temporal RBM."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

from herdcli.errors import BadUsage
from herdcli.rbm.normalizability import require_normalisable_families
from herdcli.rbm.recurrent.model import require_bounded_hidden
from herdcli.rbm.units import unit_family
from herdcli.records import dataclass

RATE, RATE_OF_OTHERS = 0.2, 0.05  # learning rate if both layers have two-state units, and if a layer is of another family
LOOKS = 20  # number of evaluations on held-out sequences in a run
ALGORITHMS = ("cd", "exact")
LINKS = ("both", "hidden", "none")
LEAST = (("hidden", 1), ("steps", 1), ("epochs", 1), ("batch_size", 0), ("window", 2), ("validate_every", 0), ("patience", 0))


@dataclass(frozen=True)
class RecurrentSettings:
    """The settings of one fit.

    links   the biases that depend on the previous step: of both layers; of hidden units alone, as in Sutskever et al.; or none, which
            makes an RBM of single rows, for comparison.
    window  longest piece of a sequence in one gradient: the gradient stops at the ends of pieces, but states continue.
    batch_size  pieces per update; 0: all.
    """

    hidden: int = 20
    algorithm: str = "cd"
    steps: int = 5  # k, Gibbs sweeps per update
    epochs: int = 100
    batch_size: int = 5
    window: int = 100
    links: str = "both"
    learning_rate: float = 0.05
    rate_decay: str = "linear"
    momentum: float = 0.9
    weight_decay: float = 1e-4
    initial_scale: float = 0.1
    visible_units: str = "binary"
    hidden_units: str = "binary"
    validate_every: int = 1  # epochs between two evaluations on held-out sequences
    patience: int = 0  # evaluations without improvement after which learning stops; 0: no early stopping
    seed: int = 0

    def __post_init__(self) -> None:
        for name, known in (("algorithm", ALGORITHMS), ("rate_decay", ("linear", "none")), ("links", LINKS)):
            if getattr(self, name) not in known:
                raise BadUsage(f"unknown {name} '{getattr(self, name)}', expected {', '.join(known[:-1])} or {known[-1]}")
        for name, least in LEAST:
            if getattr(self, name) < least:
                raise BadUsage(f"{name} must be at least {least}, not {getattr(self, name)}")
        if not (0 < self.learning_rate < math.inf and 0 <= self.momentum < 1 and 0 <= self.weight_decay < math.inf):
            raise BadUsage("learning_rate must be above 0, momentum in [0, 1) and weight_decay at least 0")
        if not 0 <= self.initial_scale < math.inf:
            raise BadUsage(f"initial_scale must be at least 0, not {self.initial_scale:g}")
        visible, hidden = unit_family(self.visible_units), unit_family(self.hidden_units)
        require_normalisable_families(visible, hidden)
        require_bounded_hidden(hidden)
        if self.hidden % hidden.group:
            raise BadUsage(f"--hidden {self.hidden} must be a multiple of {hidden.group}, the number of columns of one {hidden.name} unit")


def fill_defaults(settings: RecurrentSettings, typed_options: Collection[str]) -> RecurrentSettings:
    """Fill in the rate that suits the units and LOOKS evaluations, each unless it is among the names `typed_options`.

    For values g apart, the weights of {0, 1} units become W/(g_v g_h) and their gradient g_v g_h times as large (see `rbm.settings`).
    """
    layers = unit_family(settings.visible_units), unit_family(settings.hidden_units)
    two_state = all(units.two_state for units in layers)
    gaps = math.prod(units.range[1] - units.range[0] for units in layers if units.range is not None) if two_state else 1.0
    rate = (RATE if two_state else RATE_OF_OTHERS) / gaps**2
    every = 1 if settings.patience else -(-settings.epochs // LOOKS)
    return replace(
        settings,
        learning_rate=settings.learning_rate if "learning_rate" in typed_options else rate,
        validate_every=settings.validate_every if "validate_every" in typed_options else every,
    )
