"""What a user asks of `herd ica`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.cli.frame.request import as_file, input_file, settings, unrecorded, where_changed, where_given
from herdcli.errors import BadUsage
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.cli.frame.session import Session
    from herdcli.ica.problem import Settings
    from herdcli.ica.whitening import Method

MINIBATCH = ("rates", "batch_size", "momentum", "weight_decay", "initial_scale", "average")
HYBRID = ("steps", "leapfrog", "acceptance", "step_size", "topography", "neighbourhood", "gamma_rate")
CONVERGING = ("ml", "fastica", "picard", "sobi")
OF = {  # option -> the algorithms that it means something to
    **dict.fromkeys(MINIBATCH, ("infomax", "ebm", "equil", "sparse-coding")),
    **dict.fromkeys(HYBRID, ("ebm",)),
    **dict.fromkeys(("tolerance", "iterations", "on_nonconvergence"), (*CONVERGING, "sparse-coding")),
    **dict.fromkeys(("posterior", "noise", "e_step"), ("sparse-coding",)),
    "gradient": ("infomax",),
    "lags": ("sobi",),
    "density": ("infomax", "ml", "ebm"),
    "expert": ("ebm", "equil", "sparse-coding"),
    "gamma": ("ml", "infomax", "ebm", "equil", "sparse-coding"),
    "gamma_rate": ("ebm", "equil"),
    "threads": ("ml", "ebm", "sparse-coding"),
}


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd ica`; names and meanings are those of its --help."""

    source: str = input_file()
    input_format: str | None = unrecorded()
    algorithm: str
    filters: int | None
    whiten: Method | None
    components: int | float | None
    log: bool
    mix: tuple[str, float] | None
    mixing: str | None = as_file()
    density: str | None
    gradient: str
    expert: str | None
    gamma: float | None
    gamma_rate: float | None
    on_nonconvergence: str
    split: str | None
    label: str | None
    rates: tuple[tuple[float, int], ...] | None
    batch_size: int | None
    momentum: float
    weight_decay: float
    initial_scale: float
    average: int | None
    steps: int
    leapfrog: int
    acceptance: float
    step_size: float
    topography: tuple[int, int] | None
    neighbourhood: int
    posterior: str | None
    noise: float | None
    tolerance: float | None
    lags: int
    iterations: int | None
    seed: int
    e_step: str | None = where_given()
    one_pass: bool = where_changed(False)

    @property
    def default_roles(self) -> frozenset[str]:
        """The roles of columns that are recognised by their usual names."""
        return frozenset()

    @property
    def share(self) -> float | None:
        """The share of the variance that --components asks for, as P %."""
        return self.components if isinstance(self.components, float) else None

    @property
    def count(self) -> int | None:
        """The number of components that it asks for, as N."""
        return self.components if isinstance(self.components, int) else None

    def learning(self, dimensions: int) -> Settings:
        """The settings of minibatch learning, of rows of so many dimensions."""
        from herdcli.ica import defaults
        from herdcli.ica.problem import Settings

        more = defaults.missing(self.algorithm, dimensions, (self.filters or dimensions) == dimensions, vars(self))
        if self.topography is not None:
            height, width = self.topography
            more |= {"grid": self.topography, "filters": self.filters or height * width}
        algorithm = "infomax" if self.algorithm == "sparse-coding" else self.algorithm
        return settings(Settings, self, **more, algorithm=algorithm, natural=self.gradient == "natural", proposals=self.steps)

    def warn_of_ignored(self, session: Session) -> None:
        """Options that mean nothing to the algorithm.  Raises BadUsage for workers that it has nothing for."""
        if session.cluster is not None and self.algorithm != "ml" and not self.one_pass:
            hint = "--algorithm ml, or leave out --cluster"
            raise BadUsage(f"--cluster has workers for the rows of --algorithm ml, not {self.algorithm}", hint=hint)
        for option, algorithms in OF.items():
            if self.algorithm not in algorithms:
                session.ignored(option, f"with --algorithm {self.algorithm}")
        if self.algorithm == "sparse-coding":
            gaussian = self.posterior == "gaussian"
            for option in MINIBATCH if gaussian else ("tolerance", "iterations", "on_nonconvergence", "e_step"):
                session.ignored(option, f"with --posterior {self.posterior or 'map'}")
