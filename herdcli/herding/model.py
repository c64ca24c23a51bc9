"""The `herding` artifact: final integer weights, running moments, rates, pseudo-samples, traces, class energies."""

from __future__ import annotations

import numpy as np

from herdcli.errors import DataError
from herdcli.herding.binary_features import EXACT, to_unit_values
from herdcli.numerics.scores import Scores
from herdcli.records import dataclass, former_class_getattr
from herdcli.schema import Array, array, require_image_shape, require_valid_indices

FEATURES = ("xz", "x", "x,xx", "rows")
ROUNDING = 1e-9  # relative rounding error of rates that are sums of real moments
GROWTH = 1.5  # ratio of ‖w‖ at T to ‖w‖ at T/2 above which the weights count as growing without bound


@dataclass(frozen=True)
class MomentSums:
    """Sums of the pseudo-samples' features over the iterations; divided by the number of iterations they are averages."""

    visible: Array = array("C D", "Σ_t x_t, or of the features of real rows", kind="if", finite=True)
    pair: Array | None = array("C D K", "Σ_t x_t z_t', with hidden units", kind="i", optional=True)
    hidden: Array | None = array("C K", "Σ_t z_t", kind="i", optional=True)
    visible_pair: Array | None = array("C P", "Σ_t x_i x_j for i < j, without hidden units", kind="i", optional=True, finite=True)


@dataclass(frozen=True)
class DrivingRates:
    """The terms that drove the weights, summed over iterations and rows: value / scale is the rate.

    Source: Welling (2009), eq. 22 (without its stray Σ w).
    """

    visible: Array = array("C D", "Σ_t Σ_n x_n", kind="if", finite=True)
    scale: Array = array("C", "iterations times rows", kind="if", finite=True, low=1)
    pair: Array | None = array("C D K", "Σ_t Σ_n x_n z_n'", kind="i", optional=True)
    hidden: Array | None = array("C K", "Σ_t Σ_n z_n", kind="i", optional=True)
    visible_pair: Array | None = array("C P", "Σ_t Σ_n x_i x_j for i < j", kind="if", optional=True, finite=True)


@dataclass(frozen=True)
class MomentGaps:
    """The gap of Prop. 1, |⟨g(s_t)⟩ − ⟨mean of g over the data⟩|, of the features of each run; it is |w_T − w_0| / T for step size 1."""

    largest_visible: Array = array("C", "largest over visible features", kind="f")
    largest_pair: Array | None = array("C", "largest over pair features", kind="f", optional=True)
    largest_hidden: Array | None = array("C", "largest over hidden features", kind="f", optional=True)


@dataclass(frozen=True, kw_only=True)
class Herding:
    """The `herding` artifact: C runs (one, or one per class).  Weights of run c are M[c]/n[c], b[c]/n[c], c[c]/n[c]."""

    n: Array = array("C", "unit of the weights: they are the stored numbers over n", kind="i", low=1)
    b: Array = array("C D", "visible weights times n", kind="if", finite=True)
    x: Array = array("C D", "last pseudo-sample (for real rows the row's features)", kind="if", finite=True)
    weight_norm: Array = array("T C", "‖w‖ after each iteration", kind="f")
    states: Array = array(
        "C S B", "kept pseudo-samples, oldest first: bits of x, then of z, each padded to bytes; or the row's index", kind="u"
    )
    moments: MomentSums
    rates: DrivingRates
    gap: MomentGaps
    model: str  # "rbm", "mrf" or "rows"
    features: str  # "xz", "x", "x,xx" or "rows"
    representation: str  # "spin" or "binary" for two-state units; "real" if the model is "rows"
    variant: str  # "local", "safe" or the maximiser
    flip: bool
    hidden_bias: str
    sweeps: int
    iterations: int
    burn_in: int
    energy_every: int
    seed: int
    M: Array | None = array("C D K", "pair weights times n", kind="i", optional=True)
    c: Array | None = array("C K", "hidden weights times n", kind="i", optional=True)
    z: Array | None = array("C K", "hidden units of the last pseudo-sample", kind="i", optional=True, low=-1, high=1)
    J: Array | None = array("C P", "weights of x_i x_j, i < j, times n", kind="if", optional=True, finite=True)
    visible_norm: Array | None = array("T C", "‖b‖ after each iteration", kind="f", optional=True)
    wide_from: Array | None = array(
        "C",
        "iteration from which partial sums passed 2^24, the bound of exact float32, and a wider type was used; 0: never",
        kind="i",
        optional=True,
    )
    ascent_sweeps: Array | None = array("C", "sweeps of block ascent per iteration", kind="f", optional=True)
    units: Array | None = array("D", "indices of the units kept; constant ones are pruned", kind="i", optional=True, low=0)
    all_units: int = 0  # units before pruning
    decoupled: bool = False  # driven by rates, without data
    step_sizes: list[int] | None = None  # step sizes of pair, visible and hidden features
    scores: Scores | None = None
    classes: list[str] | None = None
    image_shape: Array | None = array("2", "height and width of a row seen as a picture", kind="iu", optional=True, low=1)
    threshold: float | None = None
    value_range: Array | None = array("2", "lowest and highest value of the data before the threshold", kind="fiu", optional=True)
    feature_names: list[str] | None = None  # names of all columns, before pruning

    def validate(self) -> None:
        """Raise DataError unless features, kept states, moments, rates, units and scores belong to these runs."""
        D, K = self.b.shape[1], 0 if self.z is None else self.z.shape[1]
        if self.features not in FEATURES or not self.b.size:
            raise DataError(f"features are '{self.features}' of {D} units, but must be one of {', '.join(FEATURES)}, of 1 unit or more")
        if self.M is not None and self.b.dtype.kind != "i":
            raise DataError(f"/b has the type {self.b.dtype}, but must have whole numbers")
        if self.iterations < 1 or self.burn_in < 0:
            raise DataError(f"/iterations is {self.iterations} and /burn_in {self.burn_in}, but must be at least 1 and 0")
        if (self.features == "xz") != all(part is not None for part in (self.M, self.c, self.z)):
            raise DataError(f"features are '{self.features}', but hidden units are {'there' if K else 'missing'}")
        if self.representation not in ("spin", "binary", "real"):
            raise DataError(f"representation is '{self.representation}', but must be spin, binary or real")
        if self.features != "rows" and (self.x.min() < -1 or self.x.max() > 1):
            raise DataError("/x has values outside -1 to 1")
        width = 4 if self.features == "rows" else -(-D // 8) - (-K // 8)
        if self.states.shape[2] != width or self.states.dtype != np.uint8:
            raise DataError(
                f"/states has {self.states.shape[2]} bytes of type {self.states.dtype} for each sample, but must have {width} of type uint8"
            )
        for name, part in (("moments", self.moments), ("rates", self.rates)):
            self._require_same_shape(f"/{name}/visible", part.visible, self.b)
            self._require_same_shape(f"/{name}/pair", part.pair, self.M)
            self._require_same_shape(f"/{name}/hidden", part.hidden, self.c)
        self._require_bounded()
        if len(self.gap.largest_visible) != self.count:
            raise DataError(f"/gap is for {len(self.gap.largest_visible)} runs, but there are {self.count}")
        if self.units is not None:
            require_valid_indices("/units", self.units, self.all_units, "a unit")
        require_image_shape(self.image_shape, self.all_units if self.units is not None else D)
        if self.classes is not None and self.count not in (1, len(self.classes)):  # a shard's part is one run with all names
            raise DataError(f"/classes has {len(self.classes)} names, but there are {self.count} runs")
        if self.scores is not None and self.classes is not None:
            self.scores.require_classes(len(self.classes), runs=self.count)

    def _require_same_shape(self, name: str, part: Array | None, weights: Array | None) -> None:
        if part is not None and (weights is None or part.shape != weights.shape):
            raise DataError(f"{name} has the shape {part.shape}, but its weights have {None if weights is None else weights.shape}")

    def _require_bounded(self) -> None:
        """Raise DataError for weights and rates that no run can have: integers would wrap round, and the ascent might never end."""
        for name, part in (("M", self.M), ("b", self.b), ("c", self.c), ("J", self.J), ("n", self.n), ("rates/scale", self.rates.scale)):
            if part is not None and part.size and part.dtype.kind == "i" and not -EXACT < part.min() <= part.max() < EXACT:
                raise DataError(f"/{name} has integers above 2^53 in size, for which sums are not exact")
        if self.features == "rows":
            return
        for name in ("visible", "pair", "hidden", "visible_pair"):
            part = getattr(self.rates, name)
            for scale, own in zip(self.rates.scale.tolist(), () if part is None else part, strict=part is not None):
                if own.size and not -scale <= (1 - ROUNDING) * own.min() <= (1 - ROUNDING) * own.max() <= scale:
                    raise DataError(f"/rates/{name} has values larger than /rates/scale, but the features are from -1 to 1")

    @property
    def count(self) -> int:
        """The number of runs, C."""
        return len(self.n)

    @property
    def growth(self) -> float:
        """The largest ratio over runs of ‖w‖ at T to ‖w‖ at T/2: about √2 or less unless the weights grow without bound."""
        return late_norm_growth(self.weight_norm)

    @property
    def visible_growth(self) -> float:
        """The same ratio for the visible weights alone: they grow first if a run settles in the mirror image of the data."""
        return 0.0 if self.visible_norm is None else late_norm_growth(self.visible_norm)

    def kept_samples(self, run: int) -> tuple[Array, Array | None]:
        """Return (x (S, D), z (S, K) or None) int8 of the kept pseudo-samples of one run; for real rows (indices (S, 1), None)."""
        if self.features == "rows":
            return self.states[run].view(np.uint32).astype(np.int64), None
        D = self.b.shape[1]
        cut = -(-D // 8)
        parts = [_unpack_states(self.states[run][:, :cut], D, self.representation)]
        if self.z is None:
            return parts[0], None
        return parts[0], _unpack_states(self.states[run][:, cut:], self.z.shape[1], self.representation)


def _unpack_states(octets: Array, units: int, representation: str) -> Array:
    return to_unit_values(np.unpackbits(octets, axis=1, count=units, bitorder="little") == 1, representation)


def late_norm_growth(norm: Array) -> float:
    """Compute max over columns of norm[T−1] / norm[T/2−1]; 1.0 if the earlier norm is 0 and for fewer than 4 iterations."""
    if len(norm) < 4:
        return 1.0
    before, after = norm[len(norm) // 2 - 1], norm[-1]
    return float(np.divide(after, before, out=np.ones_like(after), where=before > 0.0).max())


__getattr__ = former_class_getattr(
    __name__, Moments="MomentSums", Rates="DrivingRates", Gap="MomentGaps"
)  # names in pickles of version 0.1
