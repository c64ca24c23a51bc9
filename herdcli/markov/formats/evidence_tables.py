"""Evidence in JSON and CSV: an object from names of variables to states, and a table with the columns `variable` and `state`."""

from __future__ import annotations

import csv
import json

from herdcli.errors import DataError

VARIABLE, STATE, STATE_NAME = "variable", "state", "state_name"


def parse_json_or_csv_pairs(text: str, lines: list[str]) -> list[tuple[str, str]] | None:
    """Return the variables and states of evidence in JSON or CSV as they are written; None for text in another layout.

    A column `state_name`, which tables of most probable states have, comes before `state`.  Raises DataError for damaged JSON, for states
    that are neither words nor numbers, and for rows without a variable or state.

    lines  those of the text that are neither empty nor comments.
    """
    if text.lstrip().startswith("{"):
        return _parse_json_pairs(text)
    try:
        head = [name.strip().lower() for name in next(csv.reader(lines[:1]), [])]
        return _parse_csv_pairs(lines, head) if VARIABLE in head and STATE in head else None
    except csv.Error as error:
        raise DataError(f"the table of evidence cannot be read ({error})", hint="close every quote") from None


def _parse_json_pairs(text: str) -> list[tuple[str, str]]:
    try:
        found = json.loads(text, object_pairs_hook=list, parse_int=str, parse_float=str)
    except (RecursionError, ValueError) as error:
        raise DataError(f"is not valid JSON: {error}", hint='write {"NAME": "STATE", …}') from None
    for name, state in found:
        if not isinstance(state, str | bool):
            raise DataError(f"the state of variable '{name[:40]}' is neither text nor a number", hint='write {"NAME": "STATE", …}')
    return [(name, str(state)) for name, state in found]


def _parse_csv_pairs(lines: list[str], head: list[str]) -> list[tuple[str, str]]:
    variable, state = head.index(VARIABLE), head.index(STATE_NAME if STATE_NAME in head else STATE)
    pairs = []
    for number, row in enumerate(csv.reader(lines[1:], strict=True), 1):
        if len(row) != len(head) or not row[variable].strip() or not row[state].strip():
            raise DataError(
                f"row {number} does not have a variable and a state", hint=f"write {len(head)} cells into each row: {','.join(head)}"
            )
        pairs.append((row[variable].strip(), row[state].strip()))
    return pairs
