"""The roles of the columns of a table: labels, splits and weights, and the choice of the other columns to read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Protocol

from herdcli.errors import BadUsage, missing_column_error, nearest_name
from herdcli.records import HistoryRecord, dataclass

LABELS = ("y", "label", "class", "target")
ROLES = frozenset({"y", "split", "weight"})
NONE = "none"
USES = {"y": "labels", "split": "split", "weight": "weights"}  # names of the roles in messages
ATOM_FIGURES = ("row", "weight", "mmd")  # the columns before the coordinates in a table of atoms; `group` may precede them
OPTIONS = {"y": "--label", "split": "--split-column", "weight": "--weights"}
_NUMBERED = re.compile(r"\bcolumn (\d+)\b")
_SEVERAL = re.compile(r"\bcolumns (\d+) to (\d+)\b")
_PLACES = re.compile(r"([1-9]\d*)(?::([1-9]\d*))?")


@dataclass(frozen=True)
class ColumnUse:
    """The use of the columns of a table.

    roles     role -> column, for labels, splits and weights.
    features  option -> feature column: columns with the usual name of a role, and the option that would give them this role.
    by_name   whether recognising all roles by their usual names would have given the same roles.
    """

    roles: Mapping[str, str]
    features: Mapping[str, str]
    by_name: bool

    @property
    def for_unlabelled_rows(self) -> ColumnUse:
        """Return the use of the columns of rows whose labels are not needed."""
        return replace(self, roles={role: name for role, name in self.roles.items() if role != "y"})


class HasHistory(Protocol):
    """A value with a history of commands."""

    @property
    def history(self) -> list[HistoryRecord]: ...


def model_target_column(model: HasHistory) -> str | None:
    """Return the column that a model predicts, or that held the labels of its training data, from its history; None if none was named."""
    for stage in reversed(model.history):
        parameters = stage.get("parameters", {})
        named = parameters.get("target" if stage.get("command") == "regress" else "label") or parameters.get("label_column")
        if isinstance(named, str) and named != NONE:
            return named
    return None


def with_column_names(message: str, names: Sequence[str]) -> str:
    """Return a message with the names of the columns that it numbers from 0."""
    message = _SEVERAL.sub(
        lambda found: f"columns '{names[int(found[1])]}' to '{names[int(found[2])]}'" if int(found[2]) < len(names) else found[0], message
    )
    return _NUMBERED.sub(lambda found: f"column '{names[int(found[1])]}'" if int(found[1]) < len(names) else found[0], message)


def atom_figures(names: Sequence[str]) -> list[str]:
    """Return the columns of a table of atoms, as kernel-herd writes it, that are not coordinates; an empty list for other tables."""
    first = 1 if names[:1] == ["group"] else 0
    end = first + len(ATOM_FIGURES)
    return list(names[:end]) if len(names) > end and tuple(names[first:end]) == ATOM_FIGURES else []


def prediction_column_name(target: str) -> str:
    """Return the name of the column with predictions of a target."""
    return f"predicted_{target}"


def describe_column_use(use: ColumnUse | None) -> str:
    """Return the roles of columns as text for the end of a closing line; an empty text if no column has a role."""
    if use is None or not use.roles:
        return ""
    return "".join(f", {USES[role]} from column '{name}'" for role, name in sorted(use.roles.items()))


def role_warning(use: ColumnUse) -> str | None:
    """Return a warning about features that have the usual names of roles; None if there are none."""
    if not use.features:
        return None
    names = [f"'{name}'" for name in use.features]
    columns = f"column {names[0]} is a feature" if len(names) == 1 else f"columns {', '.join(names[:-1])} and {names[-1]} are features"
    return f"{columns} (else: {', '.join(f'{option} {name}' for name, option in use.features.items())})"


def ignore_report(use: ColumnUse) -> None:
    """Ignore a report."""


@dataclass(frozen=True)
class ColumnRoles:
    """The rules that assign roles to the columns of a table.

    by_name   roles of `ROLES` that are recognised by the usual names of their columns.
    split, weight  the columns with splits and weights, whatever their names; `none`: there is none.
    features  columns that are features, whatever their names: those of a model.
    target    the column that a model predicts; it has the labels if it exists and no other column is named.
    response  the target of a command for targets of any type: `usual`, the column with the usual name of labels, which is read as a further
              column y of numbers or text; `named`, another column, so that no column has labels by its name; "": labels.
    columns, drop  the columns to read and not to read: names, patterns such as x*, ranges such as a:f, and positions such as 3 or 3:7,
              counted from 1.
    report    called with the use of the columns.
    """

    by_name: frozenset[str] = ROLES
    split: str | None = None
    weight: str | None = None
    features: frozenset[str] = frozenset()
    target: str | None = None
    response: str = ""
    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    report: Callable[[ColumnUse], None] = ignore_report

    @property
    def reports_use(self) -> bool:
        """Whether the use of the columns of training rows is reported."""
        return self.report is not ignore_report and not self.features

    @property
    def selects_columns(self) -> bool:
        """Whether some columns are left out."""
        return bool(self.columns or self.drop)

    def assign_roles(self, names: Sequence[str], label: str | None, where: str) -> dict[str, str]:
        """Return a dict from role to column, for the roles that are present.  Raises BadUsage for a column that does not exist."""
        chosen = {"y": label, "split": self.split, "weight": self.weight}
        found: dict[str, str] = {}
        for role, name in chosen.items():
            if name is not None and not (name == NONE and NONE not in names):
                found[role] = require_column(names, name, role, where)
        if label is None and self.target in names and self.target not in self.features:
            found["y"] = str(self.target)
        usual = _guess_roles_from_names([name for name in names if name not in self.features and name not in found.values()])
        by_name = {
            role: usual[role]
            for role in (self.by_name | {"weight"} if atom_figures(names) else self.by_name)
            if role in usual and chosen[role] is None and role not in found
        }
        if self.response == "named":
            by_name.pop("y", None)
        return {role: (found | by_name)[role] for role in ("split", "weight", "y") if role in found or role in by_name}

    def split_candidate(self, names: Sequence[str], roles: Mapping[str, str]) -> str | None:
        """Return a column called split that has no role, and is the split if its texts are names of splits; None if there is none."""
        if self.split is not None or "split" in roles:
            return None
        return _guess_roles_from_names([name for name in names if name not in self.features and name not in roles.values()]).get("split")

    def describe_use(
        self, names: Sequence[str], left_out: Sequence[str], label: str | None, roles: Mapping[str, str], where: str
    ) -> ColumnUse:
        """Return the use of columns with these roles, for a report.  left_out  the columns that are not read."""
        gone = {*self.features, *left_out}
        usual = _guess_roles_from_names([name for name in names if name not in gone])
        features = {
            usual[role]: OPTIONS[role] for role in usual if usual[role] not in roles.values() and not (self.response and role == "y")
        }
        return ColumnUse(roles, features, BY_NAME_ROLES.assign_roles(names, label, where) == dict(roles))

    def excluded_columns(self, names: Sequence[str], exempt: Sequence[str], where: str) -> list[str]:
        """Return the columns that --columns and --drop leave out, and without --columns the figures of a table of atoms.

        exempt  columns with another role.  Raises BadUsage for unmatched names.
        """
        kept = (
            {name for text in self.columns for name in find_matching_columns(names, text, "--columns", where)}
            if self.columns
            else set(names)
        )
        kept -= set() if self.columns else {name for name in atom_figures(names) if name not in self.features}
        kept -= {name for text in self.drop for name in find_matching_columns(names, text, "--drop", where)}
        return [name for name in names if name not in kept and name not in exempt]


BY_NAME_ROLES = ColumnRoles()  # all roles are recognised by the usual names


def trust_sealed_column_names(roles: ColumnRoles) -> ColumnRoles:
    """Return the roles of a table that herd wrote, where the names of the columns are reliable."""
    return ColumnRoles(columns=roles.columns, drop=roles.drop)


def require_column(names: Sequence[str], name: str, role: str, where: str) -> str:
    """Return the name of a required column.  Raises BadUsage if it does not exist."""
    wanted = name.removeprefix("/")
    if wanted in names:
        return wanted
    if name in names:
        return name
    what = "for the labels" if role == "y" else f"for {OPTIONS[role]}"
    close = nearest_name(wanted, names)
    hint = f"did you mean {close}?" if close else f"it has {', '.join(sorted(names))}"
    raise BadUsage(f"has no column or array '{wanted}' {what}", where=where, hint=hint)


def _guess_roles_from_names(names: list[str]) -> dict[str, str]:
    """Return a dict from role to column, by the usual names in upper or lower case."""
    folded = {name.lower(): name for name in reversed(names)} | {name: name for name in names}
    found = {role: folded[role] for role in ("split", "weight") if role in folded}
    labels = next((folded[name] for name in LABELS if name in folded), None)
    return found | ({"y": labels} if labels is not None else {})


def find_matching_columns(names: Sequence[str], text: str, option: str, where: str) -> list[str]:
    """Return the columns that a name, a pattern, a range of names FIRST:LAST, or positions N and N:M (counted from 1) match.

    Raises BadUsage if there are none.
    """
    if text in names:
        return [text]
    first, colon, last = text.partition(":")
    if colon and first in names and last in names:
        start, stop = names.index(first), names.index(last)
        return list(names[min(start, stop) : max(start, stop) + 1])
    if places := _PLACES.fullmatch(text):
        start, stop = int(places[1]), int(places[2] or places[1])
        if start <= stop <= len(names):
            return list(names[start - 1 : stop])
    if found := [name for name in names if fnmatchcase(name, text)]:
        return found
    raise missing_column_error(option, text, names, where)
