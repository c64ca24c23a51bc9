"""What a user asks of `herd convert`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.cli.frame.request import as_recorded, input_file, unrecorded, where_given
from herdcli.records import dataclass

if TYPE_CHECKING:
    from herdcli.artifacts.condition_holdout import ConditionHoldout


def _recorded_mask(text: str | None) -> str | None:
    """An ellipse is recorded as it was typed, the content of a file is among the inputs."""
    return text if text is None or is_ellipse(text) else "file"


def is_ellipse(text: str) -> bool:
    """Whether --mask asks for an ellipse, and not for a file."""
    return text.partition(":")[0] == "ellipse"


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of `herd convert`; names and meanings are those of its --help."""

    source: str = input_file()
    input_format: str | None = unrecorded()
    format: str | None = unrecorded()
    label: str | None
    to: str
    units: str
    visible_units: str | None
    hidden_units: str | None
    threshold: float | None
    value_range: tuple[float, float] | None
    subsample: int | None
    mask: str | None = as_recorded(_recorded_mask)
    equalize: bool
    transpose: bool
    patches: int | None
    segments: int | None
    count: int | None
    log: bool
    binarize: str | None = where_given()
    keep: tuple[str, ...]
    hold_outs: tuple[ConditionHoldout, ...]
    split: str | None
    seed: int

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that must be read: those to keep, and those that hold out."""
        return tuple(dict.fromkeys([*self.keep, *(one.column for one in self.hold_outs)]))
