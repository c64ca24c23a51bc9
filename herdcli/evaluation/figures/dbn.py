"""The metrics of `herd eval` for a `dbn`: a lower bound of the log-likelihood of the test rows, and that of its first layer."""

from __future__ import annotations

import numpy as np

from herdcli.algorithm import Map, ProgressCallback
from herdcli.errors import DataError
from herdcli.evaluation.evaluation_settings import EvaluationSettings
from herdcli.evaluation.figures.rbm import independent_log_likelihood
from herdcli.evaluation.metrics.partition_functions import log_partitions
from herdcli.evaluation.plots import plot_list, rbm_plots
from herdcli.evaluation.plots.plot_list import Figure
from herdcli.numerics.row_selection import as_dense
from herdcli.rbm.layers import DBN
from herdcli.rbm.learning.layerwise_learning import reconstruct_rows, sample_likelihood_bounds, sample_top_hidden_states
from herdcli.rbm.likelihood.log_z_estimates import LogZEstimate
from herdcli.rbm.likelihood.row_likelihood import row_log_likelihood
from herdcli.rbm.model import Harmonium
from herdcli.schema import Array
from herdcli.splits import TEST, VALID

SAMPLES = 20  # hidden states of each row whose mean is the bound


def metrics(
    value: DBN, settings: EvaluationSettings, *, map: Map = map, progress: ProgressCallback | None = None
) -> dict[str, float | None]:
    """Return means over test rows, in nats; None if the artifact has none.

    log_likelihood_bound     lower bound, Σ over layers; its standard error is that of the last log Z and of sampled hidden states.
    log_likelihood_bound_reverse  the same with log Z from reverse annealing, if requested.
    log_likelihood_first     the log-likelihood of the first layer alone, with the standard error of its log Z.
    independent              that of independent columns with the means of the training rows.
    reconstruction           the error after a pass up to the last layer and down again by means.
    """
    columns = (
        "log_likelihood_bound",
        "log_likelihood_bound_se",
        "log_likelihood_first",
        "log_likelihood_first_se",
        "independent",
        "reconstruction",
    )
    result: dict[str, float | None] = dict.fromkeys(columns)
    first, models = value.layers[0], value.harmoniums()
    if first.holdout is None or not (first.holdout.split == TEST).any():
        return result
    rows = np.asarray(as_dense(first.holdout.X[first.holdout.split == TEST]), dtype=np.float64)
    values = models[0].visible.round_to_states(rows)
    valid = as_dense(first.holdout.X[first.holdout.split == VALID])

    def estimates(h: Harmonium, known: Array) -> dict[str, LogZEstimate]:
        base = h.visible.base_rate_parameters(known) if len(known) else h.b
        ways = log_partitions({0: h}, {0: base}, {0: known} if len(known) else {}, settings, map, progress)
        return {way: found[0] for way, found in ways.items()}

    tops = estimates(models[-1], sample_top_hidden_states(models[:-1], valid, settings.seed))
    last, lowest = tops[""], (tops if len(models) == 1 else estimates(models[0], valid))[""]
    drawn = sample_likelihood_bounds(models, values, last.log_partition, samples=SAMPLES, seed=settings.seed)
    spread = drawn.mean(axis=1).std(ddof=1) / np.sqrt(len(drawn))
    for way, found in tops.items():
        # The bound contains the last layer's −log Z once for all samples, so another estimate moves the bound by the difference.
        result[f"log_likelihood_bound{way}"] = float(drawn.mean()) + last.log_partition - found.log_partition
        result[f"log_likelihood_bound{way}_se"] = float(np.hypot(found.standard_error, spread))
    result["log_likelihood_first"] = float(row_log_likelihood(models[0], values, lowest.log_partition, map=map).mean())
    result["log_likelihood_first_se"] = lowest.standard_error
    result["independent"] = independent_log_likelihood(first, {0: rows}, standardised=True)
    limits = models[0].visible.range or (0.0, 1.0)
    result["reconstruction"] = float(np.square((rows - reconstruct_rows(models, rows, map)) / (limits[1] - limits[0])).mean())
    return result


def filters(value: DBN, settings: EvaluationSettings, *, map: Map = map) -> Figure:
    """The weights of the first layer's hidden units."""
    return rbm_plots.filters(value.layers[0], settings, map=map)


def samples(value: DBN, settings: EvaluationSettings, *, map: Map = map) -> Figure:
    """Gibbs samples of the last layer carried down to the means of the first."""
    models = value.harmoniums()
    below = tuple(reversed(models[:-1]))
    return rbm_plots.draw_samples(models[-1:], below, rbm_plots.SAMPLES, value.layers[0], settings, map)


def reconstructions(value: DBN, settings: EvaluationSettings, *, map: Map = map) -> Figure:
    """Test rows beside what they become up to the last layer and down again by means."""
    models = value.harmoniums()
    return rbm_plots.draw_reconstructions(value.layers[0], lambda rows, _: reconstruct_rows(models, rows, map))


def trace(value: DBN, settings: EvaluationSettings, *, map: Map = map) -> Figure:
    """Reconstruction error of every epoch, one curve for each layer."""
    errors = {f"layer {depth + 1}": part.trace.reconstruction[:, 0] for depth, part in enumerate(value.layers) if part.trace is not None}
    if not errors:
        raise DataError("there is no trace, because the model was not fitted by herd fit-rbm")
    lines = {name: (np.arange(1, len(error) + 1), error) for name, error in errors.items()}
    return plot_list.curve_plot(lines, x="epoch", y="mean squared reconstruction error", title="reconstruction error of each layer")
