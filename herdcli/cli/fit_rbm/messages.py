"""Messages of `herd fit-rbm` about unusual rows, settings and models."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdcli.cli.frame.run.session import Session
    from herdcli.rbm.learning.learning_problem import LearningProblem
    from herdcli.rbm.model import RBM
    from herdcli.schema import Array


def warn_of_training_rows(session: Session, problem: LearningProblem, names: Sequence[str] | None = None) -> None:
    """Warn about constant and equal columns, and about a batch size larger than the number of rows.  names  of the columns."""
    constant = max(int(problem.constant_columns(m).sum()) for m in range(len(problem.rows)))
    if constant:
        where = "all training rows" + (" of a class" if len(problem.rows) > 1 else "")
        session.console.warn(f"{constant} of {problem.rows[0].shape[1]} columns are constant in {where}: their weights stay 0")
    _warn_of_equal_columns(session, problem, names)
    _warn_of_large_batch(session, problem.settings.batch_size, min(map(len, problem.rows)), "training rows")


def _warn_of_equal_columns(session: Session, problem: LearningProblem, names: Sequence[str] | None) -> None:
    """Warn about a pair of equal columns of a single model: independent columns are then a bad baseline."""
    from herdcli.rbm.learning.learning_problem import find_equal_columns

    pairs = find_equal_columns(problem.rows[0]) if len(problem.rows) == 1 else []
    if pairs:
        first, second = (names[j] if names else str(j + 1) for j in pairs[0])
        more = f", and so are {len(pairs) - 1} more" if len(pairs) > 1 else ""
        session.console.warn(
            f"columns {first} and {second} are equal in all training rows{more}: the gain over independent columns may come from "
            f"this copy alone; --drop {second} leaves the copy out"
        )


def warn_of_image_pairs(session: Session, hidden: int, batch_size: int, varies: Array, pairs: int) -> None:
    """Warn about constant pixels, too many hidden units and too large a batch.  varies  (D,) pixels that are not constant."""
    used = int(varies.sum())
    if used < len(varies):
        session.console.warn(f"{len(varies) - used} of {len(varies)} pixels are constant in all training images: their weights stay 0")
    if hidden > 2 * used:
        session.console.warn(f"there are {hidden} hidden units, but only {2 * used} pixels of a pair vary: try a smaller --hidden")
    _warn_of_large_batch(session, batch_size, pairs, "pairs")


def _warn_of_large_batch(session: Session, batch_size: int, rows: int, what: str) -> None:
    if "batch_size" in session.given and rows < batch_size:
        session.console.warn(f"there are {rows} {what}, fewer than the {batch_size} of --batch-size")


def note_best_epoch(session: Session, model: RBM) -> None:
    """Print the epoch whose model was kept, if learning could stop early."""
    if model.best_epoch is None or model.trace is None or model.trace.log_likelihood is None or model.trace.validated is None:
        return
    import numpy as np

    for m, best in enumerate(model.best_epoch):
        name = "the model" if model.classes is None else f"the model of class '{model.classes[m]}'"
        look = int(np.searchsorted(model.trace.validated, best))
        ended = int(np.isfinite(model.trace.reconstruction[:, m]).sum())
        figure = model.trace.log_likelihood[look, m]
        session.console.note(f"{name} of epoch {best} of {ended} is kept: {figure:.2f} nats per validation row")


def note_omitted_heldout_rows(session: Session, model: RBM) -> None:
    """Print a note if the held-out rows are not stored in the artifact."""
    from herdcli.artifacts.message_numbers import group_digits

    if model.elsewhere is not None:
        held = group_digits(model.elsewhere.valid + model.elsewhere.test)
        session.console.note(f"the file stores only a hash of its {held} held-out rows: evaluate it with herd eval --data FILE")


def warn_of_nearly_improper(session: Session, model: RBM) -> None:
    """Warn if weights between Gaussian layers were limited because the model is close to having no normalising constant."""
    from herdcli.rbm.normalizability import is_barely_normalisable

    if any(is_barely_normalisable(h) for h in model.harmoniums()):
        session.console.warn(
            "the weights were capped at the largest singular value that gaussian layers allow; use --standardize or a lower --learning-rate"
        )
