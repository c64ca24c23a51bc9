"""Messages of `herd em` about constant and copied columns, and about variances that were raised to their floors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.artifacts.recoding import one_hot_column_names

if TYPE_CHECKING:
    from herdcli.artifacts.recoding import Recoding
    from herdcli.cli.frame.run.console import Console
    from herdcli.schema import Array

LISTED = 3  # maximum number of names in a message


def warn_of_constant_columns(
    console: Console, variance: Array, names: list[str] | None, assumed_variance: float, *, bayes: bool = False
) -> int:
    """Print a message about constant columns and return how many there are.  assumed_variance  the variance that is assumed for them."""
    flat = [names[d] if names else str(d) for d, value in enumerate(variance.tolist()) if value == 0]
    if flat:
        listed = ", ".join(f"'{name}'" for name in flat[:LISTED]) + (", …" if len(flat) > LISTED else "")
        few = f"column {listed} is constant" if len(flat) == 1 else f"{len(flat)} columns are constant ({listed})"
        its, it = ("its variance is", "it") if len(flat) == 1 else ("their variances are", "them")
        if bayes:
            console.warn(f"{few}, but --bayes still spends parameters on {it} in every component; leave {it} out")
        else:
            console.note(f"{few} and not used by the fit; {its} set to {assumed_variance:.3g}")
    return len(flat)


def warn_of_copied_columns(console: Console, pairs: list[tuple[int, int]], names: list[str] | None) -> None:
    """Warn about pairs of columns, by their numbers, that are copies of each other in other units."""
    if pairs:
        listed = ", ".join(" and ".join(f"'{names[d]}'" if names else str(d) for d in pair) for pair in pairs[:LISTED])
        more, last = (", …" if len(pairs) > LISTED else ""), pairs[0][1]
        leave = f"leave one out: --drop {names[last]}" if names else "leave one out"
        console.warn(f"columns {listed}{more} are copies of each other, so likelihoods count them twice; {leave}")


def explain_variance_floors(recoding: Recoding | None, names: list[str] | None, columns: list[int], part: str, remedy: str) -> str:
    """Return why variances are at their floors, and what to do.

    columns  those in the directions at the floor, the most important first.
    part     a component or a state; "" if there is only one; "factors" for the noise beside factors.
    """
    there = {names[d] for d in columns} if names and columns else set(names or ())
    texts = [name for name in recoding.levels if there.intersection(one_hot_column_names(name, recoding))] if recoding else []
    if texts:
        listed = ", ".join(f"'{name}'" for name in texts[:LISTED]) + (", …" if len(texts) > LISTED else "")
        what = f"hardly vary within a {part}" if part and part != "factors" else "depend on each other"
        return f"the one-hot columns of {listed} {what}; leave text columns out: --categorical none"
    many = len(columns) != 1
    if part == "factors":
        return f"the factors explain {list_columns(columns, names) + ' completely' if columns else 'all variance'}; {remedy}"
    if not part:
        return f"{list_columns(columns, names) if len(columns) > 1 else 'columns'} depend on each other"
    what = list_columns(columns, names) if columns else "some directions"
    how = "hardly vary, or depend on each other," if len(columns) > 1 else "hardly vary" if many else "hardly varies"
    return f"{what} {how} within a {part}; {remedy}"


def list_columns(columns: list[int], names: list[str] | None) -> str:
    """Return some columns as text, by name or number: all, or the first ones and how many there are."""
    shown = [f"'{names[d]}'" if names else str(d) for d in columns]
    if len(shown) == 1:
        return f"column {shown[0]}"
    if len(shown) > LISTED:
        return f"columns {', '.join(shown[:LISTED])}, … ({len(shown)} columns)"
    return f"columns {', '.join(shown[:-1])} and {shown[-1]}"


def warn_of_variance_floors(console: Console, count: int, what: str, floor: float | None, why: str) -> None:
    """Warn about variances that were raised.  floor  the floor of all columns; None: each column has its own."""
    columns = "its column" if count == 1 else "their columns"
    which = columns if floor is None else f"{floor:.3g}"
    console.warn(f"{count} {what}{' was' if count == 1 else 's were'} raised to the floor of {which}: {why}")
