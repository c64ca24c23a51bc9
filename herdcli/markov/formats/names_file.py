"""A JSON file with names of variables and states, for formats that cannot contain them.

    {"variables": [{"identifier": "light_on", "name": "light on", "states": ["true", "false"]}, …]}

`identifier` is the name in the network file, if it has one; without identifiers, variables are matched by position.  The auxiliary
variables of noisy-max tables come last and have `"auxiliary": true`.
"""

from __future__ import annotations

import json
from dataclasses import replace

from herdcli.errors import DataError
from herdcli.markov.formats.conditional_tables import make_unique_identifiers
from herdcli.markov.model.network import Network

UNREADABLE = "does not hold the names of a network"


def would_lose_names(network: Network, labels: str) -> bool:
    """Return True if a format with such labels (see `network_formats.NetworkFormat`) loses names of this network."""
    if labels == "all" or (network.names is None and network.states is None):
        return False
    names = [network.name(i) for i in range(network.count)]
    if labels == "none":
        return True
    states = [network.states_of(i) for i in range(network.count)]
    return make_unique_identifiers(names, "x") != names or any(make_unique_identifiers(own, "s") != own for own in states)


def write_names(network: Network, labels: str) -> str:
    """Return the JSON text of the names, in the order of the variables."""
    names = [network.name(i) for i in range(network.count)]
    own = make_unique_identifiers(names, "x") if labels == "identifiers" else [None] * network.count
    found = []
    for i, (name, identifier) in enumerate(zip(names, own, strict=True)):
        known: dict[str, object] = {} if identifier is None else {"identifier": identifier}
        known |= {"name": name} | ({} if network.states is None else {"states": network.states_of(i)})
        found.append(known | ({"auxiliary": True} if i >= network.listed_count else {}))
    lines = ",\n".join("  " + json.dumps(each, ensure_ascii=False) for each in found)
    return f'{{"variables": [\n{lines}\n]}}\n'


def is_names_file(text: str) -> bool:
    """Return True if a text is a file of names, of whatever network."""
    try:
        return all("name" in each for each in json.loads(text)["variables"])
    except (LookupError, RecursionError, TypeError, ValueError):
        return False


def read_names(text: str, network: Network) -> Network:
    """Return the network with these names.  Raises DataError if they do not match its variables."""
    try:
        found = [
            (str(each.get("identifier", "")), str(each["name"]), [str(state) for state in each.get("states", ())])
            for each in json.loads(text)["variables"]
        ]
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        raise DataError(UNREADABLE) from None
    hint = "if this file belongs to another network, move it to another folder"
    if len(found) != network.count:
        raise DataError(f"has names for {len(found)} variables, but the network has {network.count} variables", hint=hint)
    if network.names is not None and all(identifier for identifier, _, _ in found):
        by_name = {identifier: (identifier, name, states) for identifier, name, states in found}
        if strange := [name for name in network.names if name not in by_name]:
            raise DataError(f"has no name for variable {strange[0]} of the network", hint=hint)
        found = [by_name[name] for name in network.names]
    names, states = [name for _, name, _ in found], [own for _, _, own in found]
    if len(set(names)) < len(names):
        raise DataError(f"gives two variables the name {next(name for name in names if names.count(name) > 1)}", hint=hint)
    for name, own, count in zip(names, states, network.cardinality.tolist(), strict=True):
        if own and (len(own) != count or len(set(own)) < count):
            raise DataError(f"has {len(own)} state names for variable {name}, but the network has {count} different states", hint=hint)
    whole = [state for own in states for state in own] if all(states) else None
    marks = [bool(each.get("auxiliary")) for each in json.loads(text)["variables"]]
    auxiliary = max(network.auxiliary, marks[::-1].index(False) if False in marks else 0)
    return replace(network, names=names, states=whole, auxiliary=auxiliary)
