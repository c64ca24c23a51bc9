"""Noisy-or and noisy-max as GeNIe and Hugin write them, beside their definition."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from herdcli.errors import DataError
from herdcli.markov.formats import network_formats as formats
from herdcli.markov.model.noisy_max import NoisyMax, divorce_parents, noisy_max_table
from herdcli.markov.query.exact_queries import compute_all_marginals


def drawn(sizes: list[int], states: int, seed: int) -> NoisyMax:
    random = np.random.default_rng(seed)
    return NoisyMax([random.dirichlet(np.ones(states), size) for size in sizes], random.dirichlet(np.ones(states)))


def by_definition(model: NoisyMax, at: tuple[int, ...]) -> np.ndarray:
    """The distribution of the least of independent indices, by enumeration of all of them."""
    rows = [model.leak, *(cause[state] for cause, state in zip(model.causes, at, strict=True))]
    found = np.zeros(len(model.leak))
    for states in itertools.product(range(len(model.leak)), repeat=len(rows)):
        found[min(states)] += math.prod(row[k] for row, k in zip(rows, states, strict=True))
    return found


@pytest.mark.parametrize("rising", [False, True])
def test_the_table_is_that_of_the_definition(rising):
    falling = drawn([2, 3, 2], 3, 0)
    model = NoisyMax([cause[:, ::-1] for cause in falling.causes], falling.leak[::-1], rising=True) if rising else falling
    table = noisy_max_table(model)
    for at in itertools.product(range(2), range(3), range(2)):
        expected = by_definition(falling, at)
        np.testing.assert_allclose(table[at], expected[::-1] if rising else expected, rtol=0, atol=1e-15)
    first, second = divorce_parents(model)
    np.testing.assert_allclose(np.einsum("abm,mcx->abcx", first, second), table, rtol=0, atol=1e-15)


def xdsl(parents: int, strengths: str = "0 1", rows: str = "{p} {q} 0 1") -> str:
    nodes = "".join(f'<cpt id="A{k}"><state id="on"/><state id="off"/><probabilities>.1 .9</probabilities></cpt>' for k in range(parents))
    values = " ".join(rows.format(p=0.5 / (k + 1), q=1 - 0.5 / (k + 1)) for k in range(parents))
    return (
        f'<smile version="1.0" id="n"><nodes>{nodes}<noisymax id="X"><state id="on"/><state id="off"/>'
        f"<parents>{' '.join(f'A{k}' for k in range(parents))}</parents><strengths>{' '.join([strengths] * parents)}</strengths>"
        f"<parameters>{values} .01 .99</parameters></noisymax></nodes></smile>"
    )


def off(parents: int) -> float:
    """P(X = off) of `xdsl`."""
    return 0.99 * math.prod(0.9 + 0.1 * (1 - 0.5 / (k + 1)) for k in range(parents))


@pytest.mark.parametrize("parents", [2, 4, 30, 200])
def test_many_parents_of_genie(parents):
    notes: list[str] = []
    read = formats.read_network(xdsl(parents), "xdsl", notes=notes)
    found = compute_all_marginals(read, 8, 0)[read.names.index("X")]
    np.testing.assert_allclose(found[1], off(parents), rtol=1e-12)
    assert max(table.size for _, table in read.factors()) <= 4096
    assert (notes == []) == (parents <= 4)
    if parents == 30:
        assert notes == ["X is a noisy-max of 30 parents, so its table is divided into smaller ones"]
        assert (read.listed_count, read.auxiliary, read.listed_names[-1]) == (31, 28, "X")


def test_the_weakest_state_of_a_parent_may_come_first():
    by_strength = formats.read_network(xdsl(3, "1 0"), "xdsl")  # rows from the strongest state on: `off` has the effect
    expected = 0.99 * math.prod(0.1 + 0.9 * (1 - 0.5 / (k + 1)) for k in range(3))
    np.testing.assert_allclose(compute_all_marginals(by_strength, 8, 0)[3][1], expected, rtol=1e-12)
    by_state = formats.read_network(xdsl(3, "1 0", "0 1 {p} {q}"), "xdsl")  # the same, in the order of the states
    np.testing.assert_allclose(by_state.table, by_strength.table, rtol=0, atol=1e-15)


DSL = """net n { node A { TYPE = CPT; PARENTS = (); DEFINITION = { NAMESTATES = (True, False); PROBABILITIES = (.2, .8); }; };
 node B { TYPE = CPT; PARENTS = (); DEFINITION = { NAMESTATES = (True, False); PROBABILITIES = (.3, .7); }; };
 node X { TYPE = NOISY_MAX; PARENTS = (A, B); DEFINITION = { NAMESTATES = (True, False); STRENGTHS = (0, 1, 0, 1);
  PROBABILITIES = (.6, .4, 0, 1, .5, .5, 0, 1, .1, .9); }; }; };"""
NET = """net {} node A { states = ("false" "true"); subtype = boolean; } node B { states = ("true" "false"); }
node X { states = ("false" "true"); subtype = boolean; }
potential (A) { data = (.8 .2); } potential (B) { data = (.3 .7); }
potential (X | A B) { model_nodes = (); model_data = ( NoisyOR (A, 0.4, B, 0.5, true, 0.9) ); }"""


@pytest.mark.parametrize(("form", "text", "place"), [("dsl", DSL, 0), ("net", NET, 1)])
def test_noisy_or_of_other_formats(form, text, place):
    read = formats.read_network(text, form)
    expected = 1 - 0.9 * (0.8 + 0.2 * 0.4) * (0.7 + 0.3 * 0.5)
    np.testing.assert_allclose(compute_all_marginals(read, 8, 0)[2][place], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("form", "text", "message"),
    [
        (
            "dsl",
            DSL.replace(", .1, .9", ""),
            "the noisy-max of X has 8 values, but needs 10: a row for each state of each parent, and one for the leak",
        ),
        ("dsl", DSL.replace("(0, 1, 0, 1)", "(0, 0, 0, 1)"), "the <strengths> of node X must list every state of each parent once"),
        ("dsl", DSL.replace(".6, .4", ".6, .1"), "a row of the noisy-max of X sums to 0.7, not to 1"),
        (
            "net",
            NET.replace("B, 0.5", "C, 0.5"),
            "line 4: the NoisyOR of X must have an inhibitor for each parent and for no other variable; B is only in one of the two lists",
        ),
        ("net", NET.replace(", 0.4", ", x"), "line 4: the NoisyOR of X has 'x', which is not a number"),
    ],
)
def test_bad_noisy_tables(form, text, message):
    with pytest.raises(DataError) as caught:
        formats.read_network(text, form)
    assert str(caught.value) == message
