"""`herd fit-mrf --structure hill-climb`: the search for parents, required and forbidden edges, and bootstrap support of edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli.cli.frame.output import outputs
from herdcli.cli.frame.rows.network_files import load_parsed_text

if TYPE_CHECKING:
    from pathlib import Path

    from herdcli.cli.fit_mrf.request import Request
    from herdcli.cli.frame.run.session import Session
    from herdcli.markov.learning.bayesian_networks import WeightedCases
    from herdcli.markov.learning.hill_climbing import HillClimbing
    from herdcli.markov.model.graphs.dag import Parents
    from herdcli.schema import Array


def search_parents(session: Session, cases: WeightedCases, names: list[str] | None, request: Request) -> Parents:
    """Return the best structure found; with --bootstrap, the support of each edge is written to --support or reported in a note."""
    from herdcli.markov.learning.hill_climbing import draw_bootstrap_weights

    required, forbidden = (_read_edges(session, path, role, names, len(cases.cardinality)) for path, role in (
        (request.required_edges, "required_edges"), (request.forbidden_edges, "forbidden_edges")))  # fmt: skip
    made = session.run_preparation(
        _make_hill_climbing(cases, request.score, request.equivalent_rows, request.max_parents, request.tabu, required, forbidden),
        label="hill-climb",
    )
    session.console.note(f"hill-climb: {sum(map(len, made))} edges chosen by --score {request.score}")
    if request.bootstrap:
        count = np.zeros((len(made), len(made)))
        for unit in range(request.bootstrap):
            sample = draw_bootstrap_weights(cases, request.seed, unit)
            for j, of in enumerate(
                session.run_preparation(
                    _make_hill_climbing(
                        sample, request.score, request.equivalent_rows, request.max_parents, request.tabu, required, forbidden
                    ),
                    label=f"bootstrap {unit + 1}",
                )
            ):
                count[list(of), j] += 1
        _report_support(session, made, count / request.bootstrap, names, request)
    return made


def _make_hill_climbing(
    cases: WeightedCases,
    score: str,
    equivalent_rows: float,
    max_parents: int,
    tabu: int,
    required: list[tuple[int, int]],
    forbidden: list[tuple[int, int]],
) -> HillClimbing:
    from herdcli.markov.learning.family_scores import FamilyScore
    from herdcli.markov.learning.hill_climbing import HillClimbing

    family_score = FamilyScore(score, equivalent_rows)
    start = ((),) * len(cases.cardinality)
    return HillClimbing(cases, start, max_parents, score=family_score, tabu=tabu, required=required, forbidden=forbidden)


def _read_edges(session: Session, path: str | None, role: str, names: list[str] | None, nodes: int) -> list[tuple[int, int]]:
    """Read the edges of a file with one parent and child per line, with or without an arrow between them."""
    from herdcli.markov.model.graphs import structure_selection

    if path is None:
        return []
    found = load_parsed_text(session, path, role, lambda text: structure_selection.read_scopes(text, names, nodes, 2))
    return [(i, j) for i, j in found]


def _report_support(session: Session, parents: Parents, support: Array, names: list[str] | None, request: Request) -> None:
    """Report the share of bootstrap samples with each edge, and the share with its variables joined in either direction."""
    titles = names or [f"x{i}" for i in range(len(parents))]
    weak = [(i, j) for j, of in enumerate(parents) for i in of if support[i, j] + support[j, i] < 0.5]
    few = ", ".join(f"{titles[i]} → {titles[j]}" for i, j in weak[:5]) + (" …" if len(weak) > 5 else "")
    told = (
        f"; {len(weak)} of the edges are in fewer than half of the samples: {few}"
        if weak
        else "; every edge is in at least half of the samples"
    )
    session.console.note(f"{request.bootstrap} bootstrap samples{told}")
    if request.support is None:
        return
    edges = sorted(zip(*np.nonzero(support), strict=True), key=lambda edge: (-support[edge], edge))
    either = support + support.T
    rows = [
        f"{_quote_name(titles[i])},{_quote_name(titles[j])},{support[i, j]:.17g},{either[i, j]:.17g},{int(i in parents[j])}"
        for i, j in edges
    ]
    content = "\n".join(["parent,child,support,either_direction,in_network", *rows]) + "\n"

    def write(target: Path) -> None:
        outputs.write_text(target, content)

    outputs.write_side_file(session, request.support, write, binary=False)


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
