"""`herd fit-rbm --labels`: rows with their labels as an additional visible unit; the learning is in herdcli.rbm.classification_rbm."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from herdcli.cli.frame.rows.dataset_rows import PreparedRows
    from herdcli.rbm.settings import Settings


def append_labels(
    generative_share: float | None, labels: str | None, rows: PreparedRows, where: str, settings: Settings
) -> tuple[PreparedRows, list[str], Settings]:
    """Return the rows with their labels as an additional visible unit, the names of the labels, and the settings of their model."""
    import numpy as np

    from herdcli.errors import BadUsage, DataError
    from herdcli.rbm.classification_rbm import append_one_hot_labels
    from herdcli.rbm.units import unit_family
    from herdcli.splits import TRAIN

    visible = unit_family(settings.visible_units)
    if visible.multinomial:
        message = "--labels does not work with words: next to many words, the label would count as one word"
        raise BadUsage(message, hint="use --per-class, or --visible-units poisson")
    if visible.group > 1 or visible.proportions:
        hint = (
            "use --visible-units binary, with a unit for each level of a text column, or --per-class"
            if visible.group > 1
            else "use --visible-units binary"
        )
        raise BadUsage(
            f"--labels works with binary, spin, gaussian and poisson visible units, not with {settings.visible_units}", hint=hint
        )
    y, names = rows.labels_and_class_names(where, "--labels")
    if len(names) < 2:
        raise DataError(f"has only one label, {names[0]}, but classes need at least two", where=where)
    unseen = np.setdiff1d(y, y[rows.split == TRAIN])
    if len(unseen) and (rows.split == TRAIN).any():
        hint = "put more rows into the training part: --split .8,.1,.1"
        raise DataError(f"class '{names[unseen[0]]}' has no training rows", where=where, hint=hint)
    joined = replace(rows, X=append_one_hot_labels(rows.X, y, len(names)))
    units = f"{settings.visible_units}+softmax:{len(names)}"
    share = settings.generative_share if generative_share is None else generative_share
    return joined, names, replace(settings, visible_units=units, joint=str(labels), generative_share=share)


def column_scaling_with_labels(facts: dict[str, object], labels: list[str] | None) -> dict[str, object]:
    """Return the column means and scales extended by the columns of the label, which were not standardised: 0 and 1."""
    import numpy as np

    if labels is None:
        return facts
    beside = {"column_mean": np.zeros(len(labels), dtype=np.float32), "column_scale": np.ones(len(labels), dtype=np.float32)}
    longer = {name: np.concatenate([own, part]) for name, part in beside.items() if isinstance(own := facts[name], np.ndarray)}
    return {**facts, **longer, "label_names": labels}
