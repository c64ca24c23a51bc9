"""What `herd eval` says of hidden Markov models: likelihoods beside two baselines, criteria, the ledger, and known labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from herdcli.em.hmm_artifacts import Held, MarkovChain
from herdcli.em.hmm_fitting import chain_criteria
from herdcli.evaluation.em import matched
from herdcli.evaluation.settings import EvaluationSettings
from herdcli.evaluation.verdicts import NO_ROWS, OK, of_loss

FIGURES = tuple("log_likelihood" + part for part in ("", "_mixture", "_baseline", "_valid", "_train"))
LEDGER = ("iterations", "rise", "floors")
LABELLED = ("adjusted_rand", "mutual_information", "error")


def metrics(
    value: MarkovChain, settings: EvaluationSettings, *, map: Callable[..., Any] = map, progress: Callable[[int, int], None] | None = None
) -> dict[str, float | str | None]:
    """The columns of the kind; None where there are no rows or labels for one.

    log_likelihood       nats a row of the sequences of split 2; of split 1 (_valid) and 0 (_train).
    _mixture, _baseline  of split 2 by the same states without their order (rows drawn by their occupancy), and by one state.
    bic, aic             of the rows learned from; the smaller, the better.
    rise                 largest rise of the free energy in one half-step of the run, nats a row.
    floors               variances, probabilities or rates that the last M step raised.
    adjusted_rand, mutual_information   states of the likeliest paths beside the labels of split 2.
    error                of the states of --per-class.
    verdict              `ok`, or `variance at floor` (columns that do not vary at all not counted), or `worse than baseline` or
                         `learned nothing` beside the better baseline.
    """
    ledger = value.ledger
    result: dict[str, float | str | None] = dict.fromkeys(("states", *FIGURES, "bic", "aic", *LEDGER, *LABELLED, "verdict"))
    result |= {
        "states": value.states,
        "log_likelihood_train": float(ledger.log_likelihood[-1]),
        "iterations": int(value.restarts.iterations[value.restarts.best]),
        "rise": ledger.rise,
        "floors": int(ledger.floors[-2:].max(initial=0)),
        **chain_criteria(value),
        "verdict": "variance at floor" if value.at_floor else NO_ROWS,
    }
    if value.known is not None:
        result["log_likelihood_valid"] = value.known.valid
    if value.held is None:
        return result
    held = value.held.sequences
    own = value.log_likelihood(held, map)
    result["log_likelihood"] = own
    if value.known is not None:
        mixture, base = value.mixture_log_likelihood(held, map), value.base_log_likelihood(held, map)
        judged = of_loss(own, max(mixture, base), worse="worse than baseline", scale=1.0) or OK
        result |= {"log_likelihood_mixture": mixture, "log_likelihood_baseline": base}
        result["verdict"] = "variance at floor" if value.at_floor else judged
    return result | _labelled(value, value.held, map)


def _labelled(value: MarkovChain, held: Held, map: Callable[..., Any]) -> dict[str, float | str | None]:
    """Likeliest paths beside known labels."""
    if held.y is None or not (held.y >= 0).any():
        return {}
    there = held.y >= 0
    found, labels = value.told(held.sequences, "viterbi", map)[there], held.y[there]
    return matched(found, labels, supervised=value.known is not None and value.known.supervised)
