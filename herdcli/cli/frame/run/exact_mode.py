"""Refusal of the options that --exact does not support, because other libraries decide the arithmetic or it was never made exact."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.cli.frame.options.shared_options import WITHOUT_EXACT
from herdcli.errors import BadUsage
from herdcli.kinds import KINDS, kinds_with

if TYPE_CHECKING:
    from herdcli.cli.frame.run.session import Session


def refuse_exact(session: Session, what: str, hint: str | None = None) -> None:
    """Raise BadUsage if --exact is used."""
    if session.exact:
        raise BadUsage(f"--exact does not work with {what}", hint=hint or WITHOUT_EXACT)


def refuse_units_when_exact(session: Session, *families: str) -> None:
    """Raise BadUsage with --exact for units that the C library samples or whose densities it computes."""
    from herdcli.rbm.units import TABLE

    able = {name: entry.option_name(name) for name, entry in TABLE.items() if entry.exact}
    for name in families:
        if name.partition(":")[0] not in able:
            refuse_exact(session, f"{name} units", hint=f"units: {', '.join(able.values())}")


def refuse_kind_when_exact(session: Session, kind: str, where: str) -> None:
    """Raise BadUsage with --exact for artifacts of kinds whose results depend on the C library."""
    if session.exact and not KINDS[kind].exact:
        raise BadUsage(f"--exact works with models of kind {' or '.join(kinds_with('exact'))}, not {kind}", where=where)
