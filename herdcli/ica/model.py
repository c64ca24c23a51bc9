"""The `ica` artifact: filters of whitened rows, the energy of their outputs, and the trace of the fit."""

from __future__ import annotations

from herdcli.errors import DataError
from herdcli.ica.experts import EXPERTS
from herdcli.ica.whitening import Whitening
from herdcli.numerics import symmetric_matrices
from herdcli.records import dataclass, former_class_getattr
from herdcli.schema import Array, array, require_image_shape

ALGORITHMS = ("infomax", "ml", "fastica", "picard", "sobi", "ebm", "equil", "sparse-coding")


@dataclass(frozen=True)
class ICATrace:
    """The course of the fit.  Entry t summarises the updates up to `iteration[t]`."""

    iteration: Array = array("T", "updates done", kind="i")
    objective: Array = array("T", "mean per row, in nats: see `objective` of the model", kind="f")
    acceptance: Array | None = array("T", "share of the hybrid Monte Carlo proposals that were accepted", kind="f", optional=True)
    step_size: Array | None = array("T", "leapfrog step size", kind="f", optional=True)
    amari: Array | None = array("T", "Amari distance (Teh's, 2N) to the known mixing", kind="f", optional=True)


@dataclass(frozen=True, kw_only=True)
class ICAFilters:
    """The fields that all versions of the `ica` artifact have.

    M filters of D whitened dimensions.  Outputs u = J z with z = whitening.apply(x); p(z) ∝ e^{−E(z)}, E = Σ_i E_i(u_i).

    Filters are in order of descending power (see `filter_convention`), each with the sign that makes its largest entry on raw rows
    positive.  With a topography they keep their positions on its grid.
    """

    algorithm: str
    objective: str  # meaning of trace.objective: "log_likelihood", "entropy", "contrast", "bound" or "negentropy"
    J: Array = array("M D", "filters, acting on whitened rows", kind="f", finite=True)
    gamma: Array = array("M", "weight γ_i of each expert's energy; 1 where nothing is learned", kind="f", low=0, high=1e100)
    power: Array = array("M", "variance that an output puts into the raw rows", kind="f", finite=True)
    kurtosis: Array = array("M", "excess kurtosis of each output over the training rows", kind="f", finite=True)
    whitening: Whitening
    trace: ICATrace
    rows: int  # number of training rows
    iterations: int  # number of updates
    seed: int
    dictionary: Array | None = array("D M", "sparse coding: z ≈ dictionary @ s", kind="f", optional=True, finite=True)
    noise: float = 0.0  # sparse coding: standard deviation of z given s
    posterior: str | None = None  # sparse coding: map, laplace, variational or gaussian
    density: str | None = None  # for infomax: the density whose distribution function squashes the outputs
    topography: Array | None = array(
        "M M", "pooling weights: E = Σ_k γ_k log(1 + Σ_i P_ki u_i²)", kind="f", optional=True, low=0, high=1e100
    )
    grid: Array | None = array("2", "height and width of the topographic map", kind="iu", optional=True, low=1)
    mixing: Array | None = array(
        "C S", "known mixing x = A s of C raw columns, for the Amari distance", kind="f", optional=True, finite=True
    )
    holdout: Array | None = array("h D", "whitened rows of split 2", kind="f", optional=True, finite=True)
    image_shape: Array | None = array("2", "height and width of a raw row seen as a picture", kind="iu", optional=True, low=1)
    feature_names: list[str] | None = None  # names of the raw columns, by which other rows are matched

    def validate(self) -> None:
        """Raise DataError unless parameters are finite and consistent."""
        require_image_shape(self.image_shape, self.whitening.mean.size)
        if self.algorithm not in ALGORITHMS:
            raise DataError(f"algorithm is '{self.algorithm}', expected one of {', '.join(ALGORITHMS)}")
        if self.J.shape[1] != len(self.whitening.forward):
            raise DataError(f"/J has {self.J.shape[1]} columns, but the whitening keeps {len(self.whitening.forward)} components")
        if self.mixing is not None and not self.mixing.size:
            raise DataError("/mixing has no columns, so it describes no sources")
        if self.mixing is not None and len(self.mixing) != self.whitening.mean.size:
            raise DataError(f"/mixing has {len(self.mixing)} rows, but the whitening was fitted to {self.whitening.mean.size} columns")

    @property
    def unmixing_matrix(self) -> Array:
        """The matrix (M, C) from centred raw rows to outputs."""
        result: Array = self.J @ self.whitening.forward
        return result

    @property
    def basis(self) -> Array:
        """The raw pattern of each output (C, M): `dictionary`, or else J⁺, in raw units."""
        patterns = symmetric_matrices.pseudoinverse(self.J) if self.dictionary is None else self.dictionary
        result: Array = self.whitening.backward @ patterns
        return result

    def features(self, rows: Array) -> Array:
        """Return the outputs u (n, M) of raw rows (n, C)."""
        result: Array = self.whitening.apply(rows) @ self.J.T
        return result

    def reconstruct_rows(self, features: Array) -> Array:
        """Return raw rows (n, C) from outputs (n, M), by least squares where M > D, with the preprocessing undone."""
        patterns = symmetric_matrices.pseudoinverse(self.J) if self.dictionary is None else self.dictionary
        return self.whitening.undo(features @ patterns.T)


@dataclass(frozen=True, kw_only=True)
class ICA1(ICAFilters):
    """Version 1 of the `ica` artifact, with one expert for all outputs."""

    expert: str

    def upgrade(self) -> ICA:
        """Return the same model in the current version."""
        fields = dict(vars(self))
        return ICA(experts=[fields.pop("expert")] * len(self.J), **fields)


@dataclass(frozen=True, kw_only=True)
class ICA(ICAFilters):
    """The `ica` artifact: filters, and an expert for each of their outputs."""

    experts: list[str]  # expert of each output: a name of `experts.EXPERTS`, or "infomax" for all: E of eq. 4.27

    def validate(self) -> None:
        """Raise DataError unless parameters are finite and consistent, and every output has an expert."""
        super().validate()
        if len(self.experts) != len(self.J):
            raise DataError(f"there are {len(self.experts)} experts for {len(self.J)} filters")
        for name in dict.fromkeys(self.experts):
            if name not in (*EXPERTS, "infomax"):
                raise DataError(f"expert is '{name}', expected one of {', '.join((*EXPERTS, 'infomax'))}")
        if "infomax" in self.experts and len(set(self.experts)) > 1:
            raise DataError("the expert infomax must apply to all outputs or to none")

    @property
    def expert(self) -> str:
        """The expert of all outputs, or "mixed" if they differ."""
        return self.experts[0] if len(set(self.experts)) == 1 else "mixed"


__getattr__ = former_class_getattr(__name__, Trace="ICATrace")  # names in pickles of version 0.1
