"""Which columns of a table hold labels, splits and weights, and which of the others are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Protocol

from herdcli.errors import BadUsage
from herdcli.records import dataclass

LABELS = ("y", "label", "class", "target")
ROLES = frozenset({"y", "split", "weight"})
NONE = "none"
USES = {"y": "labels", "split": "split", "weight": "weights"}  # what the columns of a role are called in messages
OPTIONS = {"y": "--label", "split": "--split-column", "weight": "--weights"}
_NUMBERED = re.compile(r"\bcolumn (\d+)\b")
_SEVERAL = re.compile(r"\bcolumns (\d+) to (\d+)\b")
_PLACES = re.compile(r"([1-9]\d*)(?::([1-9]\d*))?")


@dataclass(frozen=True)
class ColumnUse:
    """What became of the columns of a table.

    roles     role -> column, of those that hold labels, splits and weights.
    features  columns with the usual name of a role that are features, by the option that gives them the role.
    by_name   whether recognising all roles by their usual names would have given the same roles.
    """

    roles: Mapping[str, str]
    features: Mapping[str, str]
    by_name: bool

    @property
    def for_unlabelled_rows(self) -> ColumnUse:
        """Of rows whose labels nobody asks for."""
        return replace(self, roles={role: name for role, name in self.roles.items() if role != "y"})


class HasHistory(Protocol):
    """What has been made by commands."""

    @property
    def history(self) -> list[dict[str, Any]]: ...


def model_target(model: HasHistory) -> str | None:
    """The column that a model predicts, or whose labels it was learned beside, by its history; None where none was named."""
    for stage in reversed(model.history):
        parameters = stage.get("parameters", {})
        named = parameters.get("target" if stage.get("command") == "regress" else "label") or parameters.get("label_column")
        if isinstance(named, str) and named != NONE:
            return named
    return None


def with_column_names(message: str, names: Sequence[str]) -> str:
    """A message whose columns are numbered from 0, as topics have them, with their names."""
    message = _SEVERAL.sub(
        lambda found: f"columns '{names[int(found[1])]}' to '{names[int(found[2])]}'" if int(found[2]) < len(names) else found[0], message
    )
    return _NUMBERED.sub(lambda found: f"column '{names[int(found[1])]}'" if int(found[1]) < len(names) else found[0], message)


def prediction_name(target: str) -> str:
    """The name of the column with what is predicted of a target."""
    return f"predicted_{target}"


def describe_use(use: ColumnUse | None) -> str:
    """What columns were used as, to be put behind a closing line; nothing where none had a role."""
    if use is None or not use.roles:
        return ""
    return "".join(f", {USES[role]} from column '{name}'" for role, name in sorted(use.roles.items()))


def role_warning(use: ColumnUse) -> str | None:
    """A line on columns that are features under the usual names of roles; None where there are none."""
    if not use.features:
        return None
    names = [f"'{name}'" for name in use.features]
    columns = f"column {names[0]} is a feature" if len(names) == 1 else f"columns {', '.join(names[:-1])} and {names[-1]} are features"
    return f"{columns} (else: {', '.join(f'{option} {name}' for name, option in use.features.items())})"


def ignore_report(use: ColumnUse) -> None:
    """A report that nobody reads."""


@dataclass(frozen=True)
class ColumnRoles:
    """How the columns of a table are told apart.

    by_name   roles of `ROLES` that are recognised by the usual names of their columns.
    split, weight  columns that hold them, whatever they are called; `none`: there is none.
    features  columns that are features, whatever they are called: those of a model.
    target    the column that a model predicts, which holds the labels where it is there and no other is named.
    response  what a command for targets of any kind predicts: `usual`, the column with the usual name of labels, which comes along as a
              further column y, be it numbers or text; `named`, another column, beside which none has labels by its name; "": labels.
    columns, drop  names, patterns such as x*, ranges such as a:f, and places such as 3 or 3:7, counted from 1, of the columns to read, and
              not to read.
    report    is called with what became of the columns.
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
    def reports(self) -> bool:
        """Whether somebody reads what becomes of the columns of rows to learn from."""
        return self.report is not ignore_report and not self.features

    @property
    def selects(self) -> bool:
        """Whether some columns are left out."""
        return bool(self.columns or self.drop)

    def assign_roles(self, names: Sequence[str], label: str | None, where: str) -> dict[str, str]:
        """Role -> column, for the roles that are present.  Raises BadUsage for a column that is not there."""
        chosen = {"y": label, "split": self.split, "weight": self.weight}
        found: dict[str, str] = {}
        for role, name in chosen.items():
            if name is not None and not (name == NONE and NONE not in names):
                found[role] = require_column(names, name, role, where)
        if label is None and self.target in names and self.target not in self.features:
            found["y"] = str(self.target)
        usual = _usual_roles([name for name in names if name not in self.features and name not in found.values()])
        by_name = {role: usual[role] for role in self.by_name if role in usual and chosen[role] is None and role not in found}
        if self.response == "named":
            by_name.pop("y", None)
        return {role: (found | by_name)[role] for role in ("split", "weight", "y") if role in found or role in by_name}

    def use(self, names: Sequence[str], left_out: Sequence[str], label: str | None, roles: Mapping[str, str], where: str) -> ColumnUse:
        """What is reported of columns whose roles are these.  left_out  those that are not read."""
        gone = {*self.features, *left_out}
        usual = _usual_roles([name for name in names if name not in gone])
        features = {
            usual[role]: OPTIONS[role] for role in usual if usual[role] not in roles.values() and not (self.response and role == "y")
        }
        return ColumnUse(roles, features, BY_NAME_ROLES.assign_roles(names, label, where) == dict(roles))

    def left_out(self, names: Sequence[str], spared: Sequence[str], where: str) -> list[str]:
        """Columns that --columns and --drop leave out.  spared  those that have another role.  Raises BadUsage for what no name matches."""
        kept = {name for text in self.columns for name in match_columns(names, text, "--columns", where)} if self.columns else set(names)
        kept -= {name for text in self.drop for name in match_columns(names, text, "--drop", where)}
        return [name for name in names if name not in kept and name not in spared]


BY_NAME_ROLES = ColumnRoles()  # all roles by the usual names


def roles_of_sealed_table(roles: ColumnRoles) -> ColumnRoles:
    """Of a table that herd has written, whose columns are what their names say."""
    return ColumnRoles(columns=roles.columns, drop=roles.drop)


def require_column(names: Sequence[str], name: str, role: str, where: str) -> str:
    """The name of a column that has to be there.  Raises BadUsage."""
    wanted = name.removeprefix("/")
    if wanted in names:
        return wanted
    if name in names:
        return name
    what = "for the labels" if role == "y" else f"for {OPTIONS[role]}"
    raise BadUsage(f"has nothing named '{wanted}' {what}", where=where, hint=f"it has {', '.join(sorted(names))}")


def _usual_roles(names: list[str]) -> dict[str, str]:
    """Role -> column, by the usual names of columns, of any case."""
    folded = {name.lower(): name for name in reversed(names)} | {name: name for name in names}
    found = {role: folded[role] for role in ("split", "weight") if role in folded}
    labels = next((folded[name] for name in LABELS if name in folded), None)
    return found | ({"y": labels} if labels is not None else {})


def match_columns(names: Sequence[str], text: str, option: str, where: str) -> list[str]:
    """The columns that a name, a pattern, a range of names FIRST:LAST, or places N and N:M, counted from 1, stand for.

    Raises BadUsage where there are none.
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
    shown = ", ".join(names[:12]) + (" …" if len(names) > 12 else "")
    raise BadUsage(f"{option} {text}: there is no such column", where=where, hint=f"columns: {shown or 'none named'}")
