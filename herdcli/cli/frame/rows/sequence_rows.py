"""Functions for sequence models that `herd apply` and `herd sample` share: new rows as sequences, results per row, and samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from herdcli.artifacts.dataset import Dataset
from herdcli.cli.frame.rows import sequences
from herdcli.cli.frame.rows.column_order import align_dataset
from herdcli.errors import BadUsage, DataError
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.artifacts.tables.column_alignment import Names
    from herdcli.cli.frame.run.session import Session
    from herdcli.em.sequence.sequences import Sequences
    from herdcli.schema import Array

STEPS = 100  # length of a sampled sequence, if no number is given
EFFECTIVE = "effective_particles"


class SamplingRequest(Protocol):
    """The options of a request for sampling sequences."""

    @property
    def count(self) -> int:
        """The number of sequences."""

    @property
    def steps(self) -> int | None:
        """The length of the sequences."""


@dataclass(frozen=True)
class SequenceRows:
    """New rows in a model's columns, as sequences, and the values (n,) of the column that groups them."""

    data: Dataset
    found: Sequences
    key: Array | None
    column: str

    @property
    def grouping_column(self) -> dict[str, Array] | None:
        """The column that groups the rows, to be written with the results."""
        return None if self.key is None else {self.column: self.key}

    def results_in_row_order(self, results: Array, names: list[str] | None) -> Dataset:
        """Return results (n, M) for the sequences' rows as a data set in the original row order.

        It has the rows' labels, splits, weights and group column.
        """
        back = np.empty_like(results)
        back[self.found.chosen] = results
        data = self.data
        labelled = data.y is not None and not ((data.y < 0).any() and data.class_names)
        return Dataset(
            back,
            y=data.y if labelled else None,
            split=data.split,
            weight=data.weight,
            feature_names=names,
            class_names=data.class_names if labelled else None,
            columns=self.grouping_column,
        )


def load_sequences(
    session: Session, request: sequences.SequenceRequest, keep: tuple[str, ...] = (), *, missing: bool = True
) -> tuple[Artifact, Array | None]:
    """Return the data set of a request and the values that group its rows.

    keep     further columns that the caller uses.
    missing  as in `load_sequences`.
    """
    named = {"input_format": request.input_format, "label": request.label, "column": request.sequence}
    return sequences.load_sequences(session, request.source, **named, keep=keep, missing=missing)


def arrange_sequences(session: Session, data: Artifact, key: Array | None, names: Names, columns: int, column: str | None) -> SequenceRows:
    """Return rows in a model's columns, as sequences.

    names   of the model's columns; None if it has none.
    column  the requested group column.
    """
    from herdcli.em.sequence.sequences import group_rows_into_sequences

    data = align_dataset(session, data, names, columns)
    value: Dataset = data.value
    if value.X.shape[1] != columns:
        raise DataError(f"/X has {value.X.shape[1]} columns, but the model has {columns}", where=data.name)
    found, column = group_rows_into_sequences(value.X, key), column or sequences.COLUMN
    sequences.report_sequences(session, found, column, grouped=key is not None, cut=False)
    return SequenceRows(value, found, key, column)


def parse_want_option(want: str, kind: str, known: tuple[str, ...], counted: str, example: int) -> tuple[str, int]:
    """Split --want into the name of the result and the number of a `counted` one, as in paths:100; other results have the number 0.

    Raises BadUsage for a result that the kind does not have.
    """
    name, _, count = want.partition(":")
    if name == counted and count.isdecimal() and int(count):
        return name, int(count)
    if want not in known:
        raise BadUsage(f"--want {want} is not available for kind {kind}", hint=f"use --want {', '.join(known)} or {counted}:{example}")
    return want, 0


def check_particles(session: Session, sequences: SequenceRows, want: str, states: int, count: int) -> None:
    """Raise an error if --particles has no meaning here or would exceed --max-memory."""
    from herdcli.em.sequence.particle_filter import particle_filter_bytes

    if want not in ("filtered", "smoothed"):
        raise BadUsage(f"--particles does not work with --want {want}", hint="use --want filtered or smoothed")
    longest = int(sequences.found.lengths.max())
    session.require_memory(particle_filter_bytes(longest, count, states), f"{longest} steps × {count} particles")


def sequence_length(session: Session, request: SamplingRequest, kind: str, columns: int, used: tuple[str, ...] = ()) -> int:
    """Return the number of steps of each sampled sequence; all sequences start at the beginning.

    used  the options of `sample` that the kind supports.
    """
    for name in ("burn_in", "chains", "thin", "means", "given", "mask"):
        if name in used:
            continue
        session.warn_of_ignored_option(name, f"with an {kind}, whose sequences are drawn from their beginning")
    steps = request.steps or STEPS
    session.require_memory(16 * request.count * steps * columns, f"{request.count} sequences of {steps} steps")
    return steps


def dataset_of_sequences(X: Array, names: list[str] | None, request: SamplingRequest, steps: int) -> tuple[Dataset, str]:
    """Return sampled sequences (n, D), one after another, as a data set with named columns, and a summary."""
    made = Dataset(X, feature_names=names, columns={sequences.COLUMN: np.repeat(np.arange(request.count), steps)})
    return made, f"{request.count} sequence{'s' * (request.count != 1)} of {steps} steps × {X.shape[1]} columns"
