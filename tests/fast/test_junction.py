"""The loops over cliques: the compiled ones give the bits of the NumPy ones."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.fast import numpy_junction as twin
from herdcli.markov.exact import cliques

compiled = pytest.importorskip("herdcli.fast._junction", reason="the compiled loops are not built")

CARDINALITY = np.array([2, 3, 2, 2, 4, 2])
OUTER = [(0, 1, 2), (1, 2, 3), (2, 3, 4), (0, 4), (4, 5), (0, 5)]
SCOPES = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (4, 5), (0, 5)]


def made(seed: int, zeros: bool = False):
    random = np.random.default_rng(seed)
    joint = random.random(CARDINALITY) * ((random.random(CARDINALITY) < 0.3) if zeros else 1.0)
    joint /= joint.sum()
    targets = [joint.sum(axis=tuple(i for i in range(6) if i not in scope)) for scope in SCOPES]
    graph = cliques.build_junction_graph(OUTER)
    assert not graph.is_tree
    return graph, cliques.build_scaling_layout(graph.cliques, graph.inner(), CARDINALITY, SCOPES, targets)


@pytest.mark.parametrize("exponent", [1.0, 0.6])
@pytest.mark.parametrize("zeros", [False, True])
def test_updates_give_the_same_bits(exponent, zeros):
    graph, layout = made(0, zeros)
    rows = [row for a in range(len(SCOPES)) for row in [(a, -1), *map(layout.message_program_row, range(2 * len(graph.separators)))]]
    program = np.array(rows, dtype=np.int32)
    results = []
    for side in (compiled, twin):
        tables, values, told = layout.uniform_tables(), layout.uniform_values(), []
        for _ in range(4):
            told.append(side.clique_updates(program, tables, values, layout.target, layout.links, exponent, layout.scratch))
        results.append((tables, values, told))
    assert np.array_equal(results[0][0], results[1][0])
    assert np.array_equal(results[0][1], results[1][1])
    assert results[0][2] == results[1][2]
    assert results[0][2][0][0] > 0


@pytest.mark.parametrize("damping", [0.0, 0.4])
def test_settling_gives_the_same_bits(damping):
    graph, layout = made(1)
    sends = np.array([layout.message_program_row(e) for e in range(2 * len(graph.separators))], dtype=np.int32)
    leaving = [[e for _, e in near] for near in graph.neighbours()]
    offset = np.concatenate(([0], np.cumsum([len(part) for part in leaving]))).astype(np.int64)
    out = np.array([e for part in leaving for e in part], dtype=np.int32)
    results = []
    for side in (compiled, twin):
        tables, values, pending = layout.uniform_tables(), layout.uniform_values(), np.zeros(len(sends))
        counts, told = np.zeros(2, dtype=np.int64), []
        for _ in range(3):
            order = np.array([*range(len(SCOPES)), -1], dtype=np.int32)
            told.append(
                side.settle_and_scale(
                    order, sends, offset, out, tables, values, layout.target, layout.links, (1 - damping, 1 - damping), 1e-6, 30,
                    pending, counts, layout.scratch,
                )
            )  # fmt: skip
        results.append((tables, values, pending, counts, told))
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(results[0][:4], results[1][:4], strict=True))
    assert results[0][4] == results[1][4]
    assert results[0][3][1] > len(sends)


@pytest.mark.parametrize("zeros", [False, True])
def test_regions_give_the_same_bits(zeros):
    graph, layout = made(2, zeros)
    inner = len(graph.separators)
    weight = np.where(np.arange(inner) % 3 == 0, 1.0, -1.0)
    first = layout.clusters + 2 * np.arange(inner + 1)
    sizes = np.diff(layout.links[5])[layout.links[2][layout.clusters :]]
    offset = np.concatenate((np.zeros(layout.clusters), [0], np.cumsum(sizes))).astype(np.int64)
    program = np.array([*(-1 - r for r in range(inner)), *range(layout.clusters)], dtype=np.int32)
    scratch = np.empty(3 * int(np.diff(layout.links[5]).max()))
    results = []
    for side in (compiled, twin):
        tables, values, multiplier = layout.uniform_tables(), layout.uniform_values(), np.ones(int(offset[-1]))
        old, told = values.copy(), []
        for _ in range(5):
            told.append(
                side.region_updates(program, first, weight, tables, multiplier, offset, values, old, layout.target, layout.links, scratch)
            )
            old = values.copy()
        results.append((tables, values, multiplier, told))
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip(results[0][:3], results[1][:3], strict=True))
    assert results[0][3] == results[1][3]


def test_what_would_be_written_outside_is_refused():
    _, layout = made(3)
    program = np.array([[0, -1]], dtype=np.int32)
    tables, values = layout.uniform_tables(), layout.uniform_values()
    with pytest.raises(ValueError, match="scratch is too small"):
        compiled.clique_updates(program, tables, values, layout.target, layout.links, 1.0, np.empty(2))
    with pytest.raises(ValueError, match="arrays of different shapes"):
        compiled.clique_updates(program, tables[:-1].copy(), values, layout.target, layout.links, 1.0, layout.scratch)


@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize("change", ["short", "high", "low"])
def test_links_that_lead_outside_are_refused(at, change):
    _, layout = made(3)
    links, program = list(layout.links), np.array([[0, -1]], dtype=np.int32)
    tables, values = layout.uniform_tables(), layout.uniform_values()
    compiled.clique_updates(program, tables, values, layout.target, tuple(links), 1.0, layout.scratch)
    if change == "short":
        links[at] = links[at][: len(links[at]) // 2].copy()
    else:
        links[at] = links[at].copy()
        links[at][len(links[at]) // 2] = 10**6 if change == "high" else -7
    with pytest.raises(ValueError, match=r"different shapes|link \d+|offsets|scratch"):
        compiled.clique_updates(program, tables, values, layout.target, tuple(links), 1.0, layout.scratch)


@pytest.mark.parametrize("row", [[99, -1], [-1, -1], [0, 99], [0, -2]])
def test_a_program_of_links_that_are_not_there_is_refused(row):
    _, layout = made(3)
    program = np.array([row], dtype=np.int32)
    with pytest.raises(ValueError, match="there is no"):
        compiled.clique_updates(program, layout.uniform_tables(), layout.uniform_values(), layout.target, layout.links, 1.0, layout.scratch)
