"""`herd network describe`: the graph of a network as JSON, or as a table with one row per variable."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame.output import outputs

if TYPE_CHECKING:
    from herdcli.artifacts import Artifact
    from herdcli.artifacts.dataset import Dataset
    from herdcli.cli.frame.run.session import Session
    from herdcli.markov.model.network import Network
    from herdcli.markov.query.graph_description import GraphDescription

ORDERS = 8


def write_description(session: Session, loaded: Artifact, form: str, seed: int) -> None:
    """Write the description of a network."""
    from herdcli.markov.query import graph_description

    network: Network = loaded.value
    found = graph_description.describe_graph(network, ORDERS, seed)
    moral = sum(map(len, found.near)) // 2
    edges = f"{sum(map(len, found.parents))} edges, moral graph of {moral}" if found.parents is not None else f"{moral} edges"
    width = f"treewidth {found.least}" if found.least == found.most else f"treewidth {found.least} to {found.most}"
    width = width if found.most >= 0 else f"treewidth at least {found.least}"
    summary = f"{network.listed_count} variables, {edges}, {width}"
    if form == "json":
        outputs.write_text_result(
            session, json.dumps(_description_json(network, found), ensure_ascii=False, indent=1) + "\n", summary, form
        )
    else:
        leading = ["variable", *_related_variables(network, found, 0)]
        outputs.write_artifact(session, _description_table(network, found), summary, history=loaded, format=form, leading=leading)


def _related_variables(network: Network, description: GraphDescription, i: int) -> dict[str, list[str]]:
    """Return the names of the variables that are related to a variable, by relation."""

    def named(variables: list[int]) -> list[str]:
        return [network.name(j) for j in variables]

    if description.parents is None:
        return {"neighbours": named(sorted(description.near[i]))}
    return {
        "parents": named(list(description.parents[i])),
        "children": named(description.children[i]),
        "markov_blanket": named(description.find_markov_blanket(i)),
        "ancestors": named(description.ancestors(i)),
        "descendants": named(description.descendants(i)),
        "moral_neighbours": named(sorted(description.near[i])),
    }


def _description_json(network: Network, description: GraphDescription) -> dict[str, object]:
    moral = [[network.name(i), network.name(j)] for i in range(network.listed_count) for j in sorted(description.near[i]) if i < j]
    edges = {} if description.parents is None else {
        "edges": [[network.name(j), network.name(i)] for i, above in enumerate(description.parents) for j in above]
    }  # fmt: skip
    variables = [
        {"name": network.name(i), "states": network.states_of(i) or int(network.cardinality[i])}
        | _related_variables(network, description, i)
        for i in range(network.listed_count)
    ]
    return {
        "directed": description.parents is not None,
        "variables": network.listed_count,
        "factors": network.factor_count - network.auxiliary,
        "treewidth": {"at_least": description.least, "at_most": None if description.most < 0 else description.most},
        "junction_tree_cells": None if description.cells != description.cells else round(description.cells),
        **edges,
        "moral_edges": moral,
        "nodes": variables,
    }


def _description_table(network: Network, description: GraphDescription) -> Dataset:
    from herdcli.artifacts.dataset import Dataset

    rows = [_related_variables(network, description, i) for i in range(network.listed_count)]
    words = {"variable": [network.name(i) for i in range(network.listed_count)]} | {
        key: [", ".join(row[key]) for row in rows] for key in rows[0]
    }
    texts = {name: np.array(column, dtype=str) for name, column in words.items()}
    return Dataset(network.cardinality[: network.listed_count].astype(np.float64)[:, None], feature_names=["states"], columns=texts)
