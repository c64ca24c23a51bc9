"""One model per class: which rows each model learns from, and the energies that classify new rows.

With folds, every class also gets F models that each leave one fold of its training rows out; a
training row is then scored by models that did not see it, so that a calibration may use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from herdcli.errors import DataError
from herdcli.numerics.logistic import folds as assign_folds
from herdcli.numerics.neighbours import nearest, nearest_euclidean
from herdcli.numerics.scores import Scores, align
from herdcli.rbm import transform
from herdcli.rbm.learning import Selected, Settings, State
from herdcli.rbm.model import RBM, Harmonium, Rows, Trace
from herdcli.schema import Array
from herdcli.splits import TEST, TRAIN, VALID


@dataclass(frozen=True)
class Groups:
    """Rows X (n, D) in unit values, class y (n,) in 0…C−1, split (n,), and the fold (n,) of training rows, −1 elsewhere."""

    X: Array
    y: Array
    split: Array
    fold: Array
    names: list[str]
    folds: int

    def training_rows(self) -> list[Selected]:
        """The rows of each model: C class models, then for each fold the C models that leave it out."""
        training = self.split == TRAIN
        inside = [training, *(training & (self.fold != fold) for fold in range(self.folds))]
        chosen = [np.flatnonzero(part & (self.y == label)) for part in inside for label in range(len(self.names))]
        return [Selected(self.X, rows.astype(np.int32) if len(self.X) <= 2**31 else rows) for rows in chosen]

    @property
    def held(self) -> Array:
        """Indices of the validation and test rows."""
        return np.flatnonzero(np.isin(self.split, (VALID, TEST)))


def group(X: Array, y: Array, split: Array, names: list[str], *, folds: int, seed: int) -> Groups:
    """Assign training rows to folds, every class evenly.  Raises DataError for a class with too few training rows."""
    training = np.flatnonzero(split == TRAIN)
    for name, count in zip(names, np.bincount(y[training], minlength=len(names)), strict=True):
        if count < max(1, folds):
            need = "no training rows" if count == 0 else f"{count} training rows, fewer than {folds} folds"
            owner = f"class '{name}'" if len(names) > 1 else "the split"
            raise DataError(f"{owner} has {need}", hint="--split sets how many rows of each class train")
    fold = np.full(len(y), -1, dtype=np.int64)
    if folds:
        fold[training] = assign_folds(y[training], folds, seed)
    return Groups(X, y, split, fold, names, folds)


def assemble(groups: Groups, state: State, settings: Settings, *, scored: bool, map: Callable[..., Any] = map) -> RBM:
    """The artifact of a finished fit: the models of all training rows, the held-out rows, and with `scored` their energies.

    state  of the models in the order of `Groups.training_rows`; those of the folds serve the scores and are dropped.
    """
    count, held = len(groups.names), groups.held
    chosen = asdict(settings)
    del chosen["hidden"]
    every = RBM(W=state.W, b=state.b, c=state.c, **chosen)
    return replace(
        every,
        W=state.W[:count],
        b=state.b[:count],
        c=state.c[:count],
        trace=Trace(state.trace[:, :count]),
        holdout=Rows(groups.X[held], groups.split[held], groups.y[held] if scored else None),
        scores=_scores(groups, every, state, map) if scored else None,
        classes=groups.names if scored else None,
        training_energy=_training_energy(groups, every.harmoniums()[:count], map),
    )


def _training_energy(groups: Groups, models: Sequence[Harmonium], map: Callable[..., Any]) -> Array:
    """Mean free energy of each model's own training rows, (C,)."""
    chosen = groups.training_rows()[: len(models)]
    means = [transform.energies([h], rows, map).mean() for h, rows in zip(models, chosen, strict=True)]
    return np.array(means, dtype=np.float64)


def judged_on(model: RBM, X: Array, split: Array, y: Array | None, map: Callable[..., Any] = map) -> RBM:
    """The model with other rows X (n, D) to be judged by; y (n,) their classes if there are several models.

    Figures that need the rows it was learned from go: scores, and without training rows the energy of those.
    """
    held, training = np.isin(split, (VALID, TEST)), split == TRAIN
    energy = None
    if training.any():
        models = model.harmoniums()
        owners = np.zeros(len(X), dtype=np.int64) if y is None else y
        own = [X[training & (owners == m)] for m in range(len(models))]
        if all(len(rows) for rows in own):
            energy = np.array([transform.energies([h], rows, map).mean() for h, rows in zip(models, own, strict=True)])
    rows = Rows(X[held], split[held], None if y is None else y[held])
    return replace(model, holdout=rows, scores=None, training_energy=energy)


def _scores(groups: Groups, every: RBM, state: State, map: Callable[..., Any]) -> Scores:
    """Energies averaged while learning where the state has them, else those of the finished models."""
    found = scores(groups, every.harmoniums(), map)
    return found if state.energy is None else replace(found, energy=state.energy / every.average_scores)


def scores(groups: Groups, models: Sequence[Harmonium], map: Callable[..., Any] = map) -> Scores:
    """Free energies of held-out rows (and, with folds, of training rows) under every class's model.

    models  in the order of `Groups.training_rows`.  A fold's energies are moved to the scale of the final models by
    the validation rows; a row's nearest training row is searched among those that its models learned from.
    """
    count, training = len(groups.names), groups.split == TRAIN
    final = list(models[:count])

    def energies(rows: Array, scored_by: Sequence[Harmonium]) -> Array:
        return transform.energies(scored_by, Selected(groups.X, rows), map)

    held, valid = groups.held, np.flatnonzero(groups.split == VALID)
    parts = [(held, np.flatnonzero(training), energies(held, final))]
    reference = energies(valid, final)
    for fold in range(groups.folds):
        inside, own = np.flatnonzero(groups.fold == fold), models[count * (fold + 1) : count * (fold + 2)]
        found = energies(inside, own)
        if len(valid):
            found = align(found, energies(valid, own), reference)
        parts.append((inside, np.flatnonzero(training & (groups.fold != fold)), found))
    order = np.concatenate([rows for rows, _, _ in parts])
    near = nearest if groups.X.dtype.kind in "iub" else nearest_euclidean
    neighbours = [groups.y[seen[near(groups.X[rows], groups.X[seen])]] for rows, seen, _ in parts]
    return Scores(
        energy=np.concatenate([energy for _, _, energy in parts]),
        y=groups.y[order],
        split=groups.split[order],
        nearest=np.concatenate(neighbours),
        majority=int(np.bincount(groups.y[training], minlength=count).argmax()),
    )
