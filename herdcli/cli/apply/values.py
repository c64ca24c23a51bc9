"""The values of `herd apply --want`."""

from __future__ import annotations

import click

from herdcli.cli.frame.options.declaration import ValueKind

EM = ("mixture", "kmeans", "factors")
OF_EM = ("clusters", "responsibilities", "scores")
IN_TIME = ("hmm", "lds", "rtrbm")
OF_TIME = ("filtered", "smoothed", "viterbi", "predicted", "paths", "forecast")
WANTS = [
    "features",
    "states",
    "energies",
    "classes",
    "rows",
    *OF_EM,
    "completed",
    "sets",
    "means",
    "forecasts",
    *OF_TIME[:-2],
    "paths:N",
    "forecast:N",
]


class _WantChoice(click.Choice):  # type: ignore[type-arg,unused-ignore]
    """A choice of WANTS, with a number in place of N."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
        name, _, count = str(value).partition(":")
        if count and f"{name}:N" in self.choices and count.isdecimal() and int(count):
            return value
        if count == "N":
            self.fail(f"'{value}' needs a number, as in {name}:100", param, ctx)
        return super().convert(value, param, ctx)


WANT = ValueKind[str](_WantChoice(WANTS))
