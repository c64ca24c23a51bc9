"""The table of inference algorithms.

A new algorithm needs one file, with a class that has the methods of `InferenceMethod`, and one line here.
"""

from __future__ import annotations

from typing import Literal

from herdcli.records import dataclass


@dataclass(frozen=True, kw_only=True)
class AlgorithmEntry:
    """One line of the table.

    path      the class, an InferenceMethod; it is called with a network and settings.
    general   the class for networks that are not Boltzmann machines, "" if it is the same.
    reads     options of ups-infer that it reads and some other algorithms do not.
    observed  how the algorithm uses observed marginals.
    log_z     whether it computes log Z.
    exact     whether its answers need no check.
    sampled   whether its answers come from chains, so that R̂ shows convergence.
    hint      advice to the user if it did not converge.
    """

    path: str
    general: str = ""
    reads: frozenset[str]
    observed: Literal["refused", "used", "needed"] = "refused"
    log_z: bool = True
    exact: bool = False
    sampled: bool = False
    hint: str = "use --algorithm ups, whose free energy falls in every iteration"


def _option_set(*names: str) -> frozenset[str]:
    return frozenset(names)


OPTIONS = (  # options that some algorithms do not read, in the order of warnings
    *("orders", "message_passing", "schedule", "damping", "damping_kind", "damping_schedule", "clamp", "restarts", "linear_response"),
    *("regions", "sweeps", "chains", "burn_in", "annealing", "effort", "time", "tolerance", "iterations", "on_nonconvergence"),
)
ITERATED = _option_set("tolerance", "iterations", "on_nonconvergence")
MESSAGES = ITERATED | _option_set("schedule", "damping", "damping_kind", "damping_schedule", "linear_response")
CHAINS = _option_set("sweeps", "chains", "burn_in", "on_nonconvergence")
ITERATE = "raise --iterations"
DAMP = "use --damping 0.5, or raise --iterations"
TABLE: dict[str, AlgorithmEntry] = {  # in the order of --help
    "junction-tree": AlgorithmEntry(
        path="herdcli.markov.exact.exact_algorithms.JunctionTree",
        reads=ITERATED | _option_set("orders", "message_passing"),
        observed="used",
        exact=True,
        hint=ITERATE,
    ),
    "frontier": AlgorithmEntry(path="herdcli.markov.exact.frontier.Frontier", reads=ITERATED, exact=True),
    "enumerate": AlgorithmEntry(path="herdcli.markov.exact.exact_algorithms.Enumeration", reads=ITERATED, observed="used", exact=True),
    "bp": AlgorithmEntry(path="herdcli.markov.bethe.loopy_propagation.BeliefPropagation", reads=MESSAGES | _option_set("restarts")),
    "ups": AlgorithmEntry(
        path="herdcli.markov.bethe.ups.UPS",
        reads=ITERATED | _option_set("clamp", "restarts", "linear_response"),
        observed="used",
        hint=ITERATE,
    ),
    "ups-t": AlgorithmEntry(path="herdcli.markov.bethe.ups.UPS", reads=ITERATED | _option_set("linear_response"), observed="used"),
    "double-loop": AlgorithmEntry(
        path="herdcli.markov.bethe.double_loop.DoubleLoop", reads=ITERATED | _option_set("restarts", "regions"), hint=ITERATE
    ),
    "gbp": AlgorithmEntry(
        path="herdcli.markov.bethe.double_loop.DoubleLoop",
        reads=ITERATED | _option_set("damping", "regions"),
        hint="use --damping 0.5, or --algorithm double-loop, which always converges",
    ),
    "loopy-is": AlgorithmEntry(path="herdcli.markov.bethe.loopy_propagation.BeliefPropagation", reads=MESSAGES, observed="needed"),
    "is-bp": AlgorithmEntry(path="herdcli.markov.bethe.scaling_by_propagation.ScalingByPropagation", reads=ITERATED, observed="needed"),
    "gis-bp": AlgorithmEntry(path="herdcli.markov.bethe.scaling_by_propagation.ScalingByPropagation", reads=ITERATED, observed="needed"),
    "mean-field": AlgorithmEntry(
        path="herdcli.markov.mean.mean_field.MeanField",
        general="herdcli.markov.mean.multistate_mean_field.MultistateMeanField",
        reads=ITERATED | _option_set("damping", "restarts", "linear_response"),
        observed="used",
    ),
    "structured-mean-field": AlgorithmEntry(
        path="herdcli.markov.mean.structured_mean_field.StructuredMeanField", reads=ITERATED | _option_set("restarts")
    ),
    "tap": AlgorithmEntry(
        path="herdcli.markov.mean.mean_field.MeanField",
        reads=ITERATED | _option_set("damping", "restarts", "linear_response"),
        observed="used",
    ),
    "belief-optimization": AlgorithmEntry(
        path="herdcli.markov.bethe.belief_optimization.BeliefOptimization", reads=ITERATED | _option_set("restarts", "linear_response")
    ),
    "tree-reweighted": AlgorithmEntry(path="herdcli.markov.query.tree_reweighted.TreeReweighted", reads=ITERATED),
    "tree-ep": AlgorithmEntry(path="herdcli.markov.query.tree_ep.TreeEP", reads=ITERATED | _option_set("damping"), hint=DAMP),
    "loop-corrected": AlgorithmEntry(
        path="herdcli.markov.bethe.loop_corrected.LoopCorrected", reads=ITERATED | _option_set("damping"), log_z=False, hint=DAMP
    ),
    "gibbs": AlgorithmEntry(
        path="herdcli.markov.mean.gibbs.BinaryGibbs",
        general="herdcli.markov.query.chains.blocked_gibbs.BlockedGibbs",
        reads=CHAINS | _option_set("annealing"),
        log_z=False,
        sampled=True,
        hint="raise --sweeps, or use --algorithm tempered-gibbs",
    ),
    "tempered-gibbs": AlgorithmEntry(
        path="herdcli.markov.query.chains.tempered_gibbs.TemperedGibbs",
        reads=CHAINS,
        log_z=False,
        sampled=True,
        hint="raise --sweeps, or --effort with --algorithm auto",
    ),
}


NO_LOG_Z = frozenset(name for name, entry in TABLE.items() if not entry.log_z)
EXACT = frozenset(name for name, entry in TABLE.items() if entry.exact)
SAMPLED = frozenset(name for name, entry in TABLE.items() if entry.sampled)


def algorithms_reading_option(option: str) -> tuple[str, ...]:
    """Return the algorithms that read an option."""
    return tuple(name for name, entry in TABLE.items() if option in entry.reads)


def algorithms_using_marginals(use: str) -> list[str]:
    """Return the algorithms with this use of observed marginals ("used", "needed"), sorted."""
    return sorted(name for name, entry in TABLE.items() if entry.observed == use)
