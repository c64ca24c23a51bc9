"""`herd ups-infer --query dsep:A,B|C` and `independent:A|C`: what the graph alone says of independence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.ups_infer import tables
from herdcli.errors import BadUsage
from herdcli.markov.query.asked import parse

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.session import Session
    from herdcli.cli.ups_infer.request import Request
    from herdcli.markov.model.network import Network


def answer(session: Session, loaded: Artifact, given: tuple[Network, dict[int, int]], request: Request, form: str) -> None:
    """A row for each variable that was asked about: is it separated from A, and else an active trail.  Evidence is given, too."""
    from herdcli.markov.formats.evidence import variable
    from herdcli.markov.query.description import dependent, directions

    network: Network = loaded.value
    asked = parse(request.query)
    first, *second = (variable(network, name) for name in asked.names)
    known = list(dict.fromkeys([*(variable(network, name) for name in asked.given), *given[1]]))
    if twice := [i for i in (first, *second) if i in known or second == [first]]:
        raise BadUsage(f"--query {asked.kind} names {network.name(twice[0])} twice, or evidence holds it")
    trails = dependent(network, first, known)
    others = second or [i for i in range(network.count) if i != first and i not in known]
    names = [network.name(i) for i in others]
    apart = np.array([float(i not in trails) for i in others])
    words = {
        "variable": [network.name(first)] * len(others),
        "other": names,
        "given": [", ".join(map(network.name, known))] * len(others),
        "trail": [" – ".join(map(network.name, trails.get(i, []))) for i in others],
    }
    how = "d-separated" if directions(network) is not None else "separated"
    where = f" given {', '.join(map(network.name, known))}" if known else ""
    if second:
        summary = f"{network.name(first)} and {names[0]} are {'' if apart[0] else 'not '}{how}{where}"
    else:
        summary = f"{int(apart.sum())} of {len(others)} variables are {how} from {network.name(first)}{where}"
    tables.save(session, tables.table({"separated": apart}, words), summary, form, loaded, ["variable", "other", "given", "trail"])
