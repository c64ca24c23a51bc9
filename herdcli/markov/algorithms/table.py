"""The table of inference algorithms.

A new algorithm needs one file, with a class that has the methods of `InferenceMethod`, and one line here.
"""

from __future__ import annotations

from typing import Literal

from herdcli.records import dataclass


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the table.

    path      the class, an InferenceMethod; it is called with a network and settings.
    general   the class for networks that are not Boltzmann machines, "" if it is the same.
    reads     options of ups-infer that it reads and some other algorithms do not.
    observed  its use of observed marginals.
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
    hint: str = "--algorithm ups, whose free energy falls in every iteration"


def _reads(*names: str) -> frozenset[str]:
    return frozenset(names)


OPTIONS = (  # options that some algorithms do not read, in the order of warnings
    *("orders", "message_passing", "schedule", "damping", "damping_kind", "damping_schedule", "clamp", "restarts", "linear_response"),
    *("regions", "sweeps", "chains", "burn_in", "annealing", "effort", "time", "tolerance", "iterations", "on_nonconvergence"),
)
ITERATED = _reads("tolerance", "iterations", "on_nonconvergence")
MESSAGES = ITERATED | _reads("schedule", "damping", "damping_kind", "damping_schedule", "linear_response")
CHAINS = _reads("sweeps", "chains", "burn_in", "on_nonconvergence")
ITERATE = "raise --iterations"
DAMP = "--damping 0.5, or raise --iterations"
TABLE: dict[str, Entry] = {  # in the order of --help
    "junction-tree": Entry(
        path="herdcli.markov.exact.exact_algorithms.JunctionTree",
        reads=ITERATED | _reads("orders", "message_passing"),
        observed="used",
        exact=True,
        hint=ITERATE,
    ),
    "frontier": Entry(path="herdcli.markov.exact.frontier.Frontier", reads=ITERATED, exact=True),
    "enumerate": Entry(path="herdcli.markov.exact.exact_algorithms.Enumeration", reads=ITERATED, observed="used", exact=True),
    "bp": Entry(path="herdcli.markov.bethe.loopy_propagation.BeliefPropagation", reads=MESSAGES | _reads("restarts")),
    "ups": Entry(
        path="herdcli.markov.bethe.ups.UPS",
        reads=ITERATED | _reads("clamp", "restarts", "linear_response"),
        observed="used",
        hint=ITERATE,
    ),
    "ups-t": Entry(path="herdcli.markov.bethe.ups.UPS", reads=ITERATED | _reads("linear_response"), observed="used"),
    "double-loop": Entry(path="herdcli.markov.bethe.double_loop.DoubleLoop", reads=ITERATED | _reads("restarts", "regions"), hint=ITERATE),
    "gbp": Entry(
        path="herdcli.markov.bethe.double_loop.DoubleLoop",
        reads=ITERATED | _reads("damping", "regions"),
        hint="--damping 0.5, or --algorithm double-loop, which converges",
    ),
    "loopy-is": Entry(path="herdcli.markov.bethe.loopy_propagation.BeliefPropagation", reads=MESSAGES, observed="needed"),
    "is-bp": Entry(path="herdcli.markov.bethe.scaling_by_propagation.ScalingByPropagation", reads=ITERATED, observed="needed"),
    "gis-bp": Entry(path="herdcli.markov.bethe.scaling_by_propagation.ScalingByPropagation", reads=ITERATED, observed="needed"),
    "mean-field": Entry(
        path="herdcli.markov.mean.mean_field.MeanField",
        general="herdcli.markov.mean.multistate_mean_field.MultistateMeanField",
        reads=ITERATED | _reads("damping", "restarts", "linear_response"),
        observed="used",
    ),
    "structured-mean-field": Entry(
        path="herdcli.markov.mean.structured_mean_field.StructuredMeanField", reads=ITERATED | _reads("restarts")
    ),
    "tap": Entry(
        path="herdcli.markov.mean.mean_field.MeanField",
        reads=ITERATED | _reads("damping", "restarts", "linear_response"),
        observed="used",
    ),
    "belief-optimization": Entry(
        path="herdcli.markov.bethe.belief_optimization.BeliefOptimization", reads=ITERATED | _reads("restarts", "linear_response")
    ),
    "tree-reweighted": Entry(path="herdcli.markov.query.tree_reweighted.TreeReweighted", reads=ITERATED),
    "tree-ep": Entry(path="herdcli.markov.query.tree_ep.TreeEP", reads=ITERATED | _reads("damping"), hint=DAMP),
    "loop-corrected": Entry(
        path="herdcli.markov.bethe.loop_corrected.LoopCorrected", reads=ITERATED | _reads("damping"), log_z=False, hint=DAMP
    ),
    "gibbs": Entry(
        path="herdcli.markov.mean.gibbs.BinaryGibbs",
        general="herdcli.markov.query.chains.blocked_gibbs.BlockedGibbs",
        reads=CHAINS | _reads("annealing"),
        log_z=False,
        sampled=True,
        hint="raise --sweeps, or --algorithm tempered-gibbs",
    ),
    "tempered-gibbs": Entry(
        path="herdcli.markov.query.chains.tempered_gibbs.TemperedGibbs",
        reads=CHAINS,
        log_z=False,
        sampled=True,
        hint="raise --sweeps, or --effort under auto",
    ),
}


NO_LOG_Z = frozenset(name for name, entry in TABLE.items() if not entry.log_z)
EXACT = frozenset(name for name, entry in TABLE.items() if entry.exact)
SAMPLED = frozenset(name for name, entry in TABLE.items() if entry.sampled)


def reading(option: str) -> tuple[str, ...]:
    """Return the algorithms that read an option."""
    return tuple(name for name, entry in TABLE.items() if option in entry.reads)


def able(what: str) -> list[str]:
    """Return the algorithms with this use of observed marginals ("used", "needed"), sorted."""
    return sorted(name for name, entry in TABLE.items() if entry.observed == what)
