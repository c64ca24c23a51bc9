"""The learning state of M harmoniums."""

from __future__ import annotations

from herdcli.records import dataclass
from herdcli.schema import Array, array


@dataclass
class BestModels:
    """The best evaluated models, and the figures of all evaluations."""

    W: Array = array("M D K", "pair weights", kind="f", finite=True)
    b: Array = array("M D", "visible biases", kind="f", finite=True)
    c: Array = array("M K", "hidden biases", kind="f", finite=True)
    figures: Array = array("V M 3", "validation.FIGURES of each look, NaN where there was none", kind="f")
    epoch: Array = array("M", "epochs behind the best; 0: none was looked at yet", kind="i")
    stopped: Array = array("M", "epochs behind a model that has stopped; 0: it has not", kind="i")
    error: Array | None = array(
        "V M", "models of rows with labels: share of validation rows with a wrong predicted label", kind="f", optional=True
    )
    densities: Array | None = array("V M n", "log p of the rows that models of classes tell apart, at each look", kind="f", optional=True)


@dataclass
class ParameterMeans:
    """The means of the parameters over the last updates."""

    W: Array = array("M D K", "pair weights", kind="f", finite=True)
    b: Array = array("M D", "visible biases", kind="f", finite=True)
    c: Array = array("M K", "hidden biases", kind="f", finite=True)


@dataclass
class TrackingParticles:
    """Particles that track log Z, in populations of n rows, and the parameters that they have reached."""

    values: Array = array("M P n D", "visible units, float32", kind="f")
    log_weights: Array = array("M P n", "log weight since the last resampling", kind="f")
    log_means: Array = array("M P", "log of the mean weights until then, and of Z where they began", kind="f")
    lost: Array = array("M", "nats that steps too long to be relied on add to the error", kind="f", finite=True)
    W: Array = array("M D K", "pair weights", kind="f", finite=True)
    b: Array = array("M D", "visible biases", kind="f", finite=True)
    c: Array = array("M K", "hidden biases", kind="f", finite=True)
    figures: Array = array("E M 4", "trajectory.FIGURES of each epoch, NaN where there was none", kind="f")


@dataclass
class LaggedWeights:
    """Bookkeeping of weights that are not up to date: the last update of each row of W, and the pending changes (see `sparse_updates`)."""

    rows: Array = array("M D", "place in the tables that a visible unit's weights are up to date at", kind="i")
    now: Array = array("M", "the place of the last update", kind="i")
    P: Array = array("M T 4", "what weights and last changes are of what they were at each place", kind="f", finite=True)
    Q: Array = array("M T 2 K", "what a visible unit's mean times it is taken from them", kind="f", finite=True)
    extents: Array = array(
        "M 3 D", "lengths of weights and last changes, and the largest w·h of any h, as they were", kind="f", finite=True
    )
    tries: Array = array(
        "M", "words that were tried for each that was drawn, at the last update of the epoch; inf before its first", kind="f"
    )


@dataclass
class LearningState:
    """M models and everything that their further learning depends on.  Float32 except for the trace."""

    step: int
    W: Array = array("M D K", "pair weights", kind="f", finite=True)
    b: Array = array("M D", "visible biases", kind="f", finite=True)
    c: Array = array("M K", "hidden biases", kind="f", finite=True)
    W_velocity: Array = array("M D K", "last update of W", kind="f", finite=True)
    b_velocity: Array = array("M D", "last update of b", kind="f", finite=True)
    c_velocity: Array = array("M K", "last update of c", kind="f", finite=True)
    trace: Array = array("E M", "mean squared error of one-sweep reconstruction means, per visible unit", kind="f")
    chain: Array | None = array("M C K", "hidden states of the persistent chains; of pt R for each", kind="f", optional=True, finite=True)
    W_fast: Array | None = array("M D K", "what fast weights add to W in the chains", kind="f", optional=True)
    b_fast: Array | None = array("M D", "the same of b", kind="f", optional=True)
    c_fast: Array | None = array("M K", "the same of c", kind="f", optional=True)
    hidden_mean: Array | None = array("M K", "running mean of the hidden means of rows", kind="f", optional=True)
    W_square: Array | None = array("M D K", "adam: mean square gradient; natural: diagonal of the Fisher matrix", kind="f", optional=True)
    b_square: Array | None = array("M D", "the same of b", kind="f", optional=True)
    c_square: Array | None = array("M K", "the same of c", kind="f", optional=True)
    betas: Array | None = array("M R", "pt: inverse temperatures from 1 to 0", kind="f", optional=True, low=0, high=1)
    rejected: Array | None = array("M r", "pt: running share of refused exchanges of neighbours", kind="f", optional=True, low=0, high=1)
    log_scale: Array | None = array("M D", "logarithms of the deviations of Gaussian units", kind="f", optional=True, finite=True)
    best: BestModels | None = None
    mean: ParameterMeans | None = None
    track: TrackingParticles | None = None
    lag: LaggedWeights | None = None
    energy: Array | None = array("n M", "sum of the standardised energies of the rows to score", kind="f", optional=True)

    def parameters_with_momentum(self, m: int, name: str, units: slice) -> tuple[Array, Array, Array | None]:
        """Return some of the parameters W, b or c of model m with its momentum, and its mean squares if any."""
        square = getattr(self, f"{name}_square")
        return getattr(self, name)[m][units], getattr(self, f"{name}_velocity")[m][units], None if square is None else square[m][units]
