"""Cliques for loopy scaling and the cluster variation method, and multiplication of a base into them."""

from __future__ import annotations

from herdcli.errors import BadUsage
from herdcli.markov.exact import cliques, junction_tree
from herdcli.markov.exact.cliques import ScalingLayout
from herdcli.markov.model.constraints import LearningProblem, compute_pair_tables
from herdcli.markov.model.graphs import structure_selection
from herdcli.schema import Array


def choose_cliques(
    problem: LearningProblem, regions: tuple[tuple[int, ...], ...], max_clique: int, seed: int, orders: int
) -> list[tuple[int, ...]]:
    """Return the requested regions, or else the clusters (and scopes of the base), grown to `max_clique` variables on request."""
    scopes = [*(cluster.scope for cluster in problem.clusters), *(scope for scope, _ in problem.base_factors)]
    if regions:
        inside = [frozenset(region) for region in regions]
        for a, scope in enumerate(scopes):
            if not any(region.issuperset(scope) for region in inside):
                raise BadUsage(f"no region of --regions contains all variables of cluster {a} ({', '.join(map(str, scope))})")
        return list(regions)
    if not max_clique:
        return scopes
    widest = max(len(scope) for scope in scopes)
    if max_clique < widest:
        raise BadUsage(f"--max-clique {max_clique} is too small: the largest cluster has {widest} variables")
    if problem.rows is None:
        raise BadUsage(
            "--max-clique needs rows, to compute the mutual information of columns, but --moments has none", hint="leave out --max-clique"
        )
    found = cliques.search_elimination_orders(problem.structure_network(), seed, orders)
    if not found.complete:
        raise BadUsage(
            "--max-clique does not work here: every elimination order needs tables that are too large", hint="leave out --max-clique"
        )
    within = cliques.junction_tree_from_order(
        junction_tree.build_clique_tree(problem.structure_network(), found.order, keep_single_states=True)
    )[0].cliques
    information = compute_pair_tables(problem.rows, problem.cardinality).mutual_informations()
    return structure_selection.grow_cliques(scopes, within, information, max_clique)


def multiply_base_into_cliques(layout: ScalingLayout, tables: Array, problem: LearningProblem) -> None:
    """Multiply each factor of the base into one clique; every clique remains normalised."""
    states = problem.cardinality.tolist()
    base = problem.base_factors
    for c, (scope, factor) in zip(cliques.smallest_containing_cliques(layout.cliques, [scope for scope, _ in base]), base, strict=True):
        at = layout.clique_cells(c)
        tables[at] *= factor.ravel()[cliques.map_cells_to_scope(layout.cliques[c], scope, states)]
        tables[at] /= tables[at].sum()
