"""The softmax units of text columns: one unit for each column, with a state for each of its levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.artifacts.recoding import MOST_LEVELS, column_names, one_hot_column_names
from herdcli.errors import DataError

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.run.session import Session

FROM_DATA = "softmax"  # the units whose numbers of states follow from the text columns


def resolve_text_units(session: Session, units: str, data: Artifact) -> str:
    """Return the name of a unit family for a data set, with the numbers of levels of its text columns if the name leaves them open.

    Raises DataError if columns and softmax units do not match.
    """
    if units.partition(":")[0] != FROM_DATA:
        return units
    if units != FROM_DATA:
        _require_levels(session, units, data.name)
        return units
    recoding = session.recoding
    levels = {} if recoding is None or recoding.codes else recoding.levels
    texts = {column: name for name in levels for column in one_hot_column_names(name, recoding)} if recoding is not None else {}
    numbers = [name for name in column_names(data.value) if name not in texts]
    if numbers and not texts:
        message = f"has no text column with 2 to {MOST_LEVELS} levels, but softmax units without a number are for text columns"
        hint = "use softmax:K for K columns of 0 and 1 as one unit, or herd fit-mrf for whole numbers as states"
        raise DataError(message, where=data.name, hint=hint)
    if numbers:
        listed = ", ".join(f"'{name}'" for name in numbers[:5]) + (" …" if len(numbers) > 5 else "")
        noun = "column" if len(numbers) == 1 else "columns"
        raise DataError(
            f"{noun} {listed} {'holds' if len(numbers) == 1 else 'hold'} numbers, but softmax units are for text columns",
            where=data.name,
            hint=f"leave out numbers: --drop {','.join(numbers[:5])}; or use herd fit-mrf, which takes whole numbers as states",
        )
    sizes = [len(known) for known in levels.values()]
    return f"{FROM_DATA}:{sizes[0] if len(set(sizes)) == 1 else ','.join(map(str, sizes))}"


def _require_levels(session: Session, units: str, where: str) -> None:
    """Raise DataError if a text column does not have as many levels as its softmax unit has states."""
    recoding, numbers = session.recoding, units.partition(":")[2].split(",")
    if recoding is None or recoding.codes:
        return
    for index, (name, levels) in enumerate(recoding.levels.items()):
        states = numbers[0] if len(numbers) == 1 else numbers[min(index, len(numbers) - 1)]
        if len(levels) != int(states):
            raise DataError(
                f"column '{name}' has {len(levels)} levels, but the {units} unit of this column has {states} states",
                where=where,
                hint="use --visible-units softmax, which gives each text column a unit with as many states as it has levels",
            )
