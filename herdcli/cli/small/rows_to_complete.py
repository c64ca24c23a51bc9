"""The rows of `herd sample --given`, whose missing entries are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame.rows.dataset_rows import rows_and_known_mask
from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session
    from herdcli.rbm.model import RBM
    from herdcli.schema import Array


def load_rows_to_complete(session: Session, model: RBM, given: str, mask: str | None, *, count: int, is_single_model: bool) -> Array:
    """Return the rows of the file `given` in unit values, with NaN for entries to draw; each row is repeated `count` times."""
    if model.labels is not None:
        raise BadUsage(
            "--given does not work with a model that was learned with --labels", hint="predict the labels: herd apply --want classes"
        )
    if not is_single_model or model.count > 1:
        what = f"{model.count} models, one for each class" if is_single_model else "a dbn"
        raise BadUsage(f"--given needs a single rbm; this is {what}", hint="fit one: herd fit-rbm without --per-class and --layers")
    session.warn_of_ignored_option("chains", "with --given: one for each row and draw")
    data = session.load(given, "given", kinds={"dataset"}, missing=True)
    entries = None if mask is None else session.load(mask, "mask", kinds={"dataset"})
    rows, known = rows_and_known_mask(session, model, data, {}, entries)
    return np.repeat(np.where(known, rows.X, np.nan).astype(np.float32), count, axis=0)
