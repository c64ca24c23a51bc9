"""Option values of `herd fit-rbm` that need their own parsers."""

from __future__ import annotations

from typing import Literal

import click

from herdcli.cli.frame.options.declaration import ValueKind, custom_syntax_kind


def _parse_batch_size(text: str) -> int:
    """Parse a number of rows, or `all`, which is 0."""
    if text == "all":
        return 0
    if not text.isdecimal() or int(text) == 0:
        raise ValueError("is neither a number of rows nor 'all'")
    return int(text)


class _HiddenUnits(click.ParamType):  # type: ignore[type-arg]
    """A number of units, or `auto`."""

    name = "n|auto"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
        if value == "auto":
            return value
        try:
            number = int(str(value))
        except ValueError:
            raise click.BadParameter(f"'{value}' is neither a number of units nor 'auto'", ctx, param) from None
        return click.IntRange(1).convert(number, param, ctx)


HIDDEN: ValueKind[int | Literal["auto"]] = ValueKind(_HiddenUnits())
BATCH_SIZE = custom_syntax_kind("n|all", _parse_batch_size, lambda rows: str(rows or "all"))
