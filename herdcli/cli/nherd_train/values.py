"""Option values of `herd nherd-train` that need their own parsers."""

from __future__ import annotations

from typing import Literal

import click

from herdcli.cli.frame.options.declaration import ValueKind, custom_syntax_kind, format_number


def _parse_c(text: str) -> float | Literal["auto", "running"]:
    """Parse a number above 0, or `auto` or `running`."""
    if text == "auto":
        return "auto"
    if text == "running":
        return "running"
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"'{text}' is neither a number nor 'auto' or 'running'") from None
    if not 0 < number < float("inf"):
        raise ValueError(f"{text} is not above 0")
    return number


def _parse_half_life(text: str) -> float | Literal["auto"]:
    """Parse a number of examples of 1 or more, `auto`, or `none`, which is 0."""
    if text == "auto":
        return "auto"
    if text in ("none", "0"):
        return 0.0
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"'{text}' is neither a number of examples nor 'auto' or 'none'") from None
    if not 1 <= number < float("inf"):
        raise ValueError(f"{text} is not 1 or more")
    return number


class _FractionType(click.types.FloatParamType):
    """A number between 0 and 1."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        share = float(super().convert(value, param, ctx))  # type: ignore[arg-type]
        if not 0 < share < 1:
            raise click.BadParameter(f"{share:g} is not between 0 and 1", ctx, param)
        return share


def _parse_pairs(text: str) -> str:
    """Parse pairs of namespaces, and return them in the form of a record."""
    from herdcli.online.text.quadratic_features import parse_namespace_pairs

    try:
        return ",".join(parse_namespace_pairs(text))
    except ValueError as error:
        raise ValueError(f"'{error}' is not a pair: the first letters of two namespaces, as ab, or :: for all pairs") from None


def _format_number_or_word(value: float | str) -> str:
    return value if isinstance(value, str) else format_number(value)


C = custom_syntax_kind("X|auto|running", _parse_c, _format_number_or_word, quoted=False)
HALF_LIFE = custom_syntax_kind("N|auto|none", _parse_half_life, _format_number_or_word, quoted=False)
SHARE: ValueKind[float] = ValueKind(_FractionType(), format_number)
PAIRS = custom_syntax_kind("pairs", _parse_pairs, quoted=False)
