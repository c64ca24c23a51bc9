"""What `herd apply` and `herd sample` share for the models in time: new rows as sequences, values beside them, and sequences drawn."""

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

STEPS = 100  # of a sequence drawn, where no number is given
EFFECTIVE = "effective_particles"


class SamplingRequest(Protocol):
    """What a request says of sequences to draw."""

    @property
    def count(self) -> int:
        """How many."""

    @property
    def steps(self) -> int | None:
        """How long they are."""


@dataclass(frozen=True)
class SequenceRows:
    """New rows in a model's columns, as sequences, and what groups them (n,): the values of a column."""

    data: Dataset
    found: Sequences
    key: Array | None
    column: str

    @property
    def grouping_column(self) -> dict[str, Array] | None:
        """The column that groups them, beside what is made of them."""
        return None if self.key is None else {self.column: self.key}

    def beside(self, made: Array, names: list[str] | None) -> Dataset:
        """Values (n, M) of the sequences' rows, in the order that the rows came in, with what stood beside those."""
        back = np.empty_like(made)
        back[self.found.chosen] = made
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
    """The data set of a request and what groups its rows.  keep: further columns that the caller takes from it; missing: as of rows."""
    named = {"input_format": request.input_format, "label": request.label, "column": request.sequence}
    return sequences.load_sequences(session, request.source, **named, keep=keep, missing=missing)


def arrange_sequences(session: Session, data: Artifact, key: Array | None, names: Names, columns: int, column: str | None) -> SequenceRows:
    """Its rows in a model's columns, as sequences.  names: of those, None where the model knows none; column: that was to group them."""
    from herdcli.em.sequence.sequences import group_rows

    data = align_dataset(session, data, names, columns)
    value: Dataset = data.value
    if value.X.shape[1] != columns:
        raise DataError(f"/X has {value.X.shape[1]} columns, the model has {columns}", where=data.name)
    found, column = group_rows(value.X, key), column or sequences.COLUMN
    sequences.report_sequences(session, found, column, grouped=key is not None, cut=False)
    return SequenceRows(value, found, key, column)


def parse_wanted(want: str, kind: str, known: tuple[str, ...], counted: str, example: int) -> tuple[str, int]:
    """What is wanted, and the number of what is `counted` (paths:100); 0 for all else."""
    name, _, count = want.partition(":")
    if name == counted and count.isdigit() and int(count):
        return name, int(count)
    if want not in known:
        raise BadUsage(f"--want {want} is not available for kind {kind}", hint=f"--want {', '.join(known)} or {counted}:{example}")
    return want, 0


def check_particles(session: Session, sequences: SequenceRows, want: str, states: int, count: int) -> None:
    """Refuse --particles where they say nothing, or would take more than --max-memory."""
    from herdcli.em.sequence.particle_filter import memory_needed

    if want not in ("filtered", "smoothed"):
        raise BadUsage(f"--particles has no meaning with --want {want}", hint="--want filtered or smoothed")
    longest = int(sequences.found.lengths.max())
    session.require_memory(memory_needed(longest, count, states), f"{longest} steps × {count} particles")


def sequence_length(session: Session, request: SamplingRequest, kind: str, columns: int, used: tuple[str, ...] = ()) -> int:
    """Steps of each sequence to draw, which all begin at the beginning.  used: options of `sample` that the kind has."""
    for name in ("burn_in", "chains", "thin", "means", "given", "mask"):
        if name in used:
            continue
        session.ignored(name, f"with an {kind}, whose sequences are drawn from their beginning")
    steps = request.steps or STEPS
    session.require_memory(16 * request.count * steps * columns, f"{request.count} sequences of {steps} steps")
    return steps


def sampled_dataset(X: Array, names: list[str] | None, request: SamplingRequest, steps: int) -> tuple[Dataset, str]:
    """Sequences that were drawn (n, D), one after another, in columns of these names."""
    made = Dataset(X, feature_names=names, columns={sequences.COLUMN: np.repeat(np.arange(request.count), steps)})
    return made, f"{request.count} sequence{'s' * (request.count != 1)} of {steps} steps × {X.shape[1]} columns"
