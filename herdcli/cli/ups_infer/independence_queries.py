"""`herd ups-infer --query dsep:A,B|C` and `independent:A|C`: independence that follows from the graph alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.ups_infer import result_tables
from herdcli.errors import BadUsage
from herdcli.markov.query.query_parsing import parse_query

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.cli.frame.run.session import Session
    from herdcli.cli.ups_infer.request import Request
    from herdcli.markov.model.network import Network


def answer_separation(
    session: Session, loaded: Artifact, network_and_evidence: tuple[Network, dict[int, int]], request: Request, form: str
) -> None:
    """Write one row per queried variable: whether it is separated from A, and if not an active trail.  Evidence counts as given."""
    from herdcli.markov.formats.evidence import find_variable
    from herdcli.markov.query.graph_description import dependent_variables, network_parents_or_none

    network: Network = loaded.value
    asked = parse_query(request.query)
    first, *second = (find_variable(network, name) for name in asked.names)
    known = list(dict.fromkeys([*(find_variable(network, name) for name in asked.given), *network_and_evidence[1]]))
    if twice := [i for i in (first, *second) if i in known or second == [first]]:
        raise BadUsage(f"--query {asked.kind} names {network.name(twice[0])} twice, or it is in the evidence")
    trails = dependent_variables(network, first, known)
    others = second or [i for i in range(network.listed_count) if i != first and i not in known]
    names = [network.name(i) for i in others]
    apart = np.array([float(i not in trails) for i in others])
    words = {
        "variable": [network.name(first)] * len(others),
        "other": names,
        "given": [", ".join(map(network.name, known))] * len(others),
        "trail": [" – ".join(map(network.name, trails.get(i, []))) for i in others],
    }
    how = "d-separated" if network_parents_or_none(network) is not None else "separated"
    where = f" given {', '.join(map(network.name, known))}" if known else ""
    if second:
        summary = f"{network.name(first)} and {names[0]} are {'' if apart[0] else 'not '}{how}{where}"
    else:
        summary = (
            f"{int(apart.sum())} of {len(others)} variables {'is' if apart.sum() == 1 else 'are'} {how} from {network.name(first)}{where}"
        )
    result_tables.save_table(
        session,
        result_tables.dataset_from_columns({"separated": apart}, words),
        summary,
        form,
        loaded,
        ["variable", "other", "given", "trail"],
    )
