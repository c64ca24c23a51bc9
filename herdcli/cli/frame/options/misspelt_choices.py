"""The nearest choice for a misspelt value of an option."""

from __future__ import annotations

import re

import click

from herdcli.errors import nearest_name

_MISSPELT = re.compile(r"'([^']*)' is (?:not one|none) of (.*)", re.DOTALL)


def nearest_choice(error: click.ClickException) -> tuple[click.Option, str] | None:
    """Return the option of an invalid value and the choice nearest to it; None for other errors, or if no choice is near.

    Near are a choice with few other letters, and the only choice that begins with the value.
    """
    if not isinstance(error, click.BadParameter) or not isinstance(error.param, click.Option):
        return None
    match = _MISSPELT.match(error.message)
    if match is None:
        return None
    kind = error.param.type
    choices = list(kind.choices) if isinstance(kind, click.Choice) else [re.split(r"[:(]", each)[0].strip() for each in match[2].split(",")]
    typed = match[1].lower()
    begun = [each for each in choices if typed and each.lower().startswith(typed)]
    close = begun[0] if len(begun) == 1 else nearest_name(typed, choices)
    return None if close is None else (error.param, close)
