"""FastICA of scikit-learn and Picard of python-picard, if the extra `ica` is installed.

Both get whitened rows and an initial matrix from herd, so that a run depends on the seed alone.  Neither reports the density of an
output: it is sech or the bimodal one by `experts.choose_density_signs`, and Picard's filters are scaled to it.
Source: Hyvärinen & Oja (1997); Ablin, Cardoso & Gramfort (2018).
"""

from __future__ import annotations

import warnings
from importlib.util import find_spec

import numpy as np

from herdcli.algorithm import RunProgress
from herdcli.ica.experts import EXPERTS, choose_density_signs, density_names, fit_output_scale
from herdcli.ica.model import ICATrace
from herdcli.ica.results import ICAFit
from herdcli.records import dataclass
from herdcli.rng import Stream, generator
from herdcli.schema import Array, array

SUPER = "laplace-smooth"
PACKAGES = {"fastica": "sklearn", "picard": "picard"}


def is_library_installed(algorithm: str) -> bool:
    """Return whether the library of this algorithm is installed."""
    return find_spec(PACKAGES[algorithm]) is not None


@dataclass
class LibraryState:
    """The filters: random and orthogonal before the only step, those of the library after it."""

    step: int
    iterations: int
    converged: bool
    J: Array = array("D D", "filters", kind="f", finite=True)
    experts: list[str] | None = None  # the density of each output, at the end


def run_fastica(Z: Array, initial_filters: Array, *, tolerance: float, iterations: int) -> tuple[Array, int, bool]:
    """Return (J (D, D), iterations, converged) for whitened rows Z (n, D), by the parallel form with the contrast log cosh."""
    from sklearn.decomposition import FastICA
    from sklearn.exceptions import ConvergenceWarning

    model = FastICA(whiten=False, fun="logcosh", tol=tolerance, max_iter=iterations, w_init=initial_filters, random_state=0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(Z)
    converged = not any(issubclass(warning.category, ConvergenceWarning) for warning in told)
    return np.asarray(model.components_), int(model.n_iter_), converged


def run_picard(Z: Array, initial_filters: Array, *, tolerance: float, iterations: int, extended: bool = True) -> tuple[Array, int, bool]:
    """Return (J (D, D), iterations, converged) for whitened rows Z (n, D), by maximum likelihood without orthogonality constraint.

    extended  ψ = u ± tanh u by the sign of each output, as in extended infomax; else ψ = tanh u for all, the density sech.
    """
    from picard import picard as run

    free = {"ortho": False, "extended": extended, "whiten": False, "centering": False}
    columns = np.ascontiguousarray(Z.T)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, J, _, count = run(columns, w_init=initial_filters, tol=tolerance, max_iter=iterations, return_n_iter=True, **free)
    return np.asarray(J), int(count), int(count) < iterations


@dataclass(frozen=True)
class LibraryRun:
    """FastICA or Picard on whitened rows Z (n, D), as an algorithm of one step."""

    algorithm: str
    Z: Array
    tolerance: float
    iterations: int = 500
    seed: int = 0

    @property
    def state(self) -> type[LibraryState]:
        return LibraryState

    def init(self) -> LibraryState:
        """Return a random rotation."""
        drawn = generator(self.seed, Stream.INITIAL).standard_normal((self.Z.shape[1],) * 2)
        return LibraryState(0, 0, False, np.linalg.qr(drawn)[0])

    def step(self, state: LibraryState) -> LibraryState:
        """Run the library to its end, from the state's filters."""
        run = run_fastica if self.algorithm == "fastica" else run_picard
        J, count, converged = run(self.Z, state.J, tolerance=self.tolerance, iterations=self.iterations)
        columns = self.Z.T
        names = density_names(choose_density_signs(J @ columns), SUPER)
        if self.algorithm == "picard":
            J = J * np.array([fit_output_scale(EXPERTS[name], row @ columns) for name, row in zip(names, J, strict=True)])[:, np.newaxis]
        return LibraryState(1, count, converged, J, names)

    def done(self, state: LibraryState) -> bool:
        """Return whether the library has run."""
        return state.step >= 1

    def memory(self) -> int:
        """Return the bytes of three arrays of the rows' size: a copy, outputs and their slopes."""
        return 3 * self.Z.nbytes

    def progress(self, state: LibraryState) -> RunProgress:
        """Return the step; the library reports nothing while it runs."""
        return RunProgress(state.step, 1)

    def result(self, state: LibraryState) -> ICAFit:
        """Return the library's filters, marked as unconverged if it reports so."""
        trace, why = (
            ICATrace(np.array([state.iterations]), np.array([np.nan])),
            "" if state.converged else ("its own tolerance was not reached"),
        )
        more = {"experts": state.experts}
        return ICAFit(state.J, np.ones(len(state.J)), trace, state.iterations, "none", more, chosen=True, unconverged=why)
