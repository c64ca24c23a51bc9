"""`herd apply` and `herd sample` with a hidden Markov model: what its states are at each row, and new sequences."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from herdcli.artifacts.dataset import Dataset
from herdcli.cli.em import sequences
from herdcli.cli.frame.columns import by_name
from herdcli.errors import BadUsage, DataError, HerdError

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.apply.request import Request
    from herdcli.cli.frame.session import Session
    from herdcli.cli.small.sample import Request as Sampled
    from herdcli.em.hmm_artifacts import MarkovChain
    from herdcli.em.sequences import Sequences
    from herdcli.schema import Array

WANTS = ("viterbi", "smoothed", "filtered", "predicted")
STEPS = 100  # of a sequence drawn, where no number is given


class Rows(NamedTuple):
    """New rows, as sequences, and what groups them."""

    data: Dataset
    found: Sequences
    key: Array | None


def rows(session: Session, model: MarkovChain, request: Request) -> tuple[Dataset, Sequences, Array | None]:
    """New rows in the model's columns, as sequences, and what groups them."""
    from herdcli.em.sequences import grouped

    data, key = sequences.load(session, request.source, input_format=request.input_format, label=request.label, column=request.sequence)
    names = model.known.feature_names if model.known is not None else None
    data = by_name(session, data, names, model.columns)
    value: Dataset = data.value
    if value.X.shape[1] != model.columns:
        raise DataError(f"/X has {value.X.shape[1]} columns, the model has {model.columns}", where=data.name)
    found = grouped(value.X, key)
    sequences.told(session, found, request.sequence or sequences.COLUMN, grouped=key is not None, cut=False)
    return value, found, key


def applied(session: Session, fitted: Artifact, request: Request) -> tuple[Dataset, str]:
    """States or their probabilities for every row, in the order of the rows."""
    model: MarkovChain = fitted.value
    want, count = _wanted(request.want or WANTS[0])
    value, found, key = rows(session, model, request)
    if request.particles is not None:
        return _by_particles(session, model, Rows(value, found, key), want, request)
    try:
        made = model.paths(found, count, request.seed, session.map) if count else model.told(found, want, session.map)
    except HerdError as error:
        error.where = error.where or "DATA"
        raise
    back = np.empty_like(made)
    back[found.chosen] = made
    labels = value.y is not None and not ((value.y < 0).any() and value.class_names)
    columns = None if key is None else {request.sequence or sequences.COLUMN: key}
    beside = replace(value, y=value.y if labels else None, class_names=value.class_names if labels else None, columns=columns)
    if want == "viterbi":
        states = replace(beside, y=back, class_names=_names(model))
        return states, f"{len(back)} rows × {value.X.shape[1]} columns with the states of the likeliest paths"
    names = [f"path{n + 1}" for n in range(count)] if count else _names(model) or [f"state{k + 1}" for k in range(model.states)]
    made_of = Dataset(back, beside.y, value.split, value.weight, names, beside.class_names, columns=columns)
    return made_of, f"{len(back)} rows × {back.shape[1]} {'paths' if count else want}"


def _by_particles(session: Session, model: MarkovChain, given: Rows, want: str, request: Request) -> tuple[Dataset, str]:
    """Probabilities of the states by a particle filter, with the effective sample size of every row."""
    from herdcli.em.particles import Discrete, shares

    count, found = int(request.particles or 0), given.found
    if want not in ("filtered", "smoothed"):
        raise BadUsage(f"--particles with --want {want} says nothing", hint="--want filtered or smoothed")
    session.require_memory(24 * int(found.lengths.max()) * count + 16 * count * count, f"{found.lengths.max()} steps × {count} particles")
    states, ready = model.states_of(found), model.ready()
    back = np.empty((len(found.chosen), model.states + 1))
    for s in range(found.count):
        block = found.take(s, s + 1)
        system = Discrete(states.initial, states.transition, ready.logs(block.X))
        told, cloud = shares(system, count, request.seed, unit=s, smooth=want == "smoothed")
        back[block.chosen] = np.column_stack([told, cloud.effective])
    names = [*(_names(model) or [f"state{k + 1}" for k in range(model.states)]), "effective_particles"]
    columns = None if given.key is None else {request.sequence or sequences.COLUMN: given.key}
    made = Dataset(back, split=given.data.split, weight=given.data.weight, feature_names=names, columns=columns)
    return made, f"{len(back)} rows × {model.states} {want} by {count} particles, effective sample size from {back[:, -1].min():.3g}"


def _wanted(want: str) -> tuple[str, int]:
    """What is wanted, and how many paths."""
    name, _, count = want.partition(":")
    if name == "paths" and count.isdigit() and int(count):
        return name, int(count)
    if want not in WANTS:
        raise BadUsage(f"--want {want} is not of kind hmm", hint=f"--want {', '.join(WANTS)} or paths:100")
    return want, 0


def _names(model: MarkovChain) -> list[str] | None:
    """Names of the states of a model that has one for each class."""
    return model.known.class_names if model.known is not None and model.known.supervised else None


def drawn(session: Session, fitted: Artifact, request: Sampled) -> tuple[Dataset, str]:
    """New sequences, with the states that emitted their rows as y."""
    model: MarkovChain = fitted.value
    for name in ("burn_in", "chains", "thin", "means", "given", "mask"):
        session.ignored(name, "with an hmm, whose sequences are drawn from their beginning")
    steps = request.steps or STEPS
    session.require_memory(16 * request.count * steps * model.columns, f"{request.count} sequences of {steps} steps")
    X, path = model.drawn(np.full(request.count, steps), request.seed)
    whole = model.emission in ("categorical", "poisson", "bernoulli")
    key = np.repeat(np.arange(request.count), steps)
    made = Dataset(X.astype(np.int64) if whole else X, y=path, class_names=_names(model), columns={sequences.COLUMN: key})
    if model.known is not None:
        made = replace(made, feature_names=model.known.feature_names)
    return made, f"{request.count} sequence{'s' * (request.count != 1)} of {steps} steps × {model.columns} columns"
