"""Option values of `herd ups-infer` that need their own parsers, with their formats."""

from __future__ import annotations

import math

from herdcli.cli.frame.options.declaration import custom_syntax_kind, format_number
from herdcli.markov.query.query_parsing import parse_query


def _parse_shares(text: str) -> tuple[float, ...]:
    try:
        shares = tuple(float(word) for word in text.split(","))
    except ValueError:
        shares = ()
    if not shares or not all(0 <= share < 1 for share in shares):
        raise ValueError("is not a list of shares from 0 to below 1, such as 0,0.5,0.9")
    return shares


def _parse_seconds(text: str) -> float:
    number, unit = (text[:-1], text[-1]) if text[-1:] in ("s", "m") else (text, "s")
    try:
        seconds = float(number) * (60 if unit == "m" else 1)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise ValueError("is not a time, such as 20s or 5m")
    return seconds


def _parse_slices(text: str) -> str:
    from herdcli.markov.model.slice_tasks import parse_task

    parse_task(text)
    return text


def _parse_query(text: str) -> str:
    parse_query(text)
    return text


SHARES = custom_syntax_kind("shares", _parse_shares, lambda shares: ",".join(map(format_number, shares)))
SECONDS = custom_syntax_kind("seconds", _parse_seconds, lambda seconds: f"{format_number(seconds)}s")
SLICES = custom_syntax_kind("task", _parse_slices)
QUERY = custom_syntax_kind("query", _parse_query)
