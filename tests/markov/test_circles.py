"""No file of herdcli.markov imports itself through others, imports within functions and for types counted, and no arrow runs up."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter

import pytest
from test_architecture import MODULES, imports, module_name

ABOVE = {"model": 0, "method": 1, "formats": 1, "exact": 2, "bethe": 2, "query": 3, "learning": 3, "mean": 4, "algorithms": 5}


def _graph() -> dict[str, set[str]]:
    """Each module of herdcli.markov and those of it that it imports."""
    known = {module_name(path).removesuffix(".__init__"): path for path in MODULES if path.is_relative_to(MODULES[0].parent / "markov")}
    found = {}
    for name, path in known.items():
        named = {other for _, other in imports(ast.parse(path.read_text()), name)}
        found[name] = {known_as for other in named for known_as in (other, other.rpartition(".")[0]) if known_as in known} - {name}
        found[name].discard("herdcli.markov")
    return found


def test_no_circle():
    graph = _graph()
    assert len(graph) > 40
    order = list(TopologicalSorter(graph).static_order())
    assert order.index("herdcli.markov.model.network") < order.index("herdcli.markov.algorithms")
    graph["herdcli.markov.method"].add("herdcli.markov.exact.frontier")
    with pytest.raises(CycleError):
        list(TopologicalSorter(graph).static_order())


def test_no_arrow_up_among_the_sub_packages():
    arrows = {(a.split(".")[2], b.split(".")[2]) for a, names in _graph().items() for b in names if a.count(".") > 1}
    arrows = {(a, b) for a, b in arrows if a != b}
    assert {arrow for arrow in arrows if ABOVE[arrow[0]] <= ABOVE[arrow[1]]} == set()
    assert 10 < len(arrows) <= 20
