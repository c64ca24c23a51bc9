"""Tables about networks and beliefs: variables and states by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdcli.evaluation.summaries.summary_table import Levels, SummaryTable, column_names, limit_rows, state_names
from herdcli.evaluation.table import Row
from herdcli.markov.query.graph_description import network_parents_or_none

if TYPE_CHECKING:
    from herdcli.markov.model.beliefs import Beliefs
    from herdcli.markov.model.network import Network

MOST_VARIABLES = 100
MOST_CELLS = 12  # most states of a variable in a line


def belief_tables(value: Beliefs, levels: Levels) -> list[SummaryTable]:
    """Return the run in a line, and the probability of each state of each variable."""
    run: Row = {
        "algorithm": value.algorithm,
        "log_z": value.log_z,
        "converged": "yes" if value.converged else "no",
        "iterations": value.iterations,
        "residual": value.residual,
        "estimated_error": value.estimated_error,
    }
    marginals = value.marginals()
    names = column_names(value.names, len(marginals))
    likeliest = value.assignment
    rows: list[Row] = []
    for i, (name, p) in enumerate(zip(names, marginals, strict=True)):
        first = int(value.node_offset[i])
        states = value.states[first : first + len(p)] if value.states else state_names(levels, name, len(p))
        own: Row = {"variable": name}
        if likeliest is not None:
            own["likeliest"] = states[int(likeliest[i])] if likeliest[i] >= 0 else None
        named = [f"{state} {float(each):.4f}" for state, each in zip(states[:MOST_CELLS], p[:MOST_CELLS].tolist(), strict=True)]
        rows.append(own | {"probabilities": "   ".join(named) + ("   …" if len(p) > MOST_CELLS else "")})
    return [SummaryTable("run", [run]), limit_rows("marginals", rows, MOST_VARIABLES)]


def network_tables(value: Network, levels: Levels) -> list[SummaryTable]:
    """Return the variables, their states and, in directed networks, their parents."""
    parents: dict[int, list[str]] = {}
    if value.directed:
        for a in range(value.factor_count):
            *above, child = value.factor_scope(a)
            parents[child] = [value.name(i) for i in above]
        if value.auxiliary and (listed := network_parents_or_none(value)) is not None:
            parents = {child: [value.name(i) for i in above] for child, above in enumerate(listed)}
    factors = [0] * value.count
    for i in value.scope.tolist():
        factors[i] += 1
    rows: list[Row] = []
    for i in range(value.listed_count):
        states = value.states_of(i) or state_names(levels, value.name(i), int(value.cardinality[i]))
        own: Row = {"variable": value.name(i), "states": ", ".join(states[:MOST_CELLS]) + (", …" if len(states) > MOST_CELLS else "")}
        rows.append(own | ({"parents": ", ".join(parents.get(i, []))} if value.directed else {"factors": factors[i]}))
    what = "Bayesian network" if value.directed else "Markov network"
    return [limit_rows(f"{what} of {value.listed_count} variables, {value.factor_count - value.auxiliary} factors", rows, MOST_VARIABLES)]
