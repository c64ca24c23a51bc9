"""The types of option values of `herd eval` that have their own syntax."""

from __future__ import annotations

import click

from herdcli.cli.frame.options.declaration import FILE_PATH, ValueKind, parsed_kind


def _parse_dimensions(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if len(parts) != 4 or not all(part.isdecimal() and int(part) for part in parts):
        raise ValueError("is not four numbers EIGEN,FISHER,WITHIN,BETWEEN from 1 upwards")
    return tuple(map(int, parts))


DIMENSIONS = parsed_kind("eigen,fisher,within,between", _parse_dimensions, lambda sizes: ",".join(map(str, sizes)))
PLOT = ValueKind[tuple[str, str]](click.Tuple([str, FILE_PATH]))  # the name of a plot, and its file
