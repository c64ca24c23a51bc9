"""Networks as text and back, and what is said about texts that are none."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.errors import DataError
from herdcli.markov.formats import evidence, results
from herdcli.markov.formats import network_formats as formats
from herdcli.markov.model import network, random_networks

UAI = "MARKOV\n2\n2 3\n2\n1 0\n2 0 1\n2\n .4 .6\n6\n1 2 3 4 5 6\n"
FG = "# two\n2\n\n1\n3\n2\n2\n0 .4\n1 .6\n\n2\n7 3\n3 2\n5\n0 1\n1 2\n2 3\n4 5\n5 6\n"
BIF = """network unknown { property "made by hand"; }
variable rain { type discrete [ 2 ] { yes, no }; }  // a comment
variable sky { type discrete [ 3 ] { <5, "5 to 12", Asy/Patch }; property x = 1 ; }
probability ( rain ) { table 0.2, 0.8; }
probability ( sky | rain ) { (no) 0.1, 0.2, 0.7; (yes) 0.5, 0.25, 0.25; }
"""


def test_uai_runs_with_the_last_variable_fastest():
    (_, unit), (scope, pair) = formats.read_network(UAI, "uai").factors()
    assert scope == (0, 1)
    assert unit.tolist() == [0.4, 0.6]
    assert pair.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_fg_runs_with_the_first_variable_fastest_and_leaves_zeros_and_labels_out():
    read = formats.read_network(FG, "fg")
    assert read.names == ["x3", "x7"]
    assert read.cardinality.tolist() == [2, 3]
    (_, pair) = list(read.factors())[1]
    assert pair.tolist() == [[1, 0], [2, 5], [3, 6]]


def test_bif_has_rows_by_the_states_of_the_parents():
    read = formats.read_network(BIF, "bif")
    assert read.names == ["rain", "sky"]
    assert read.states == ["yes", "no", "<5", "5 to 12", "Asy/Patch"]
    scope, table = list(read.factors())[1]
    assert scope == (0, 1)
    assert table.tolist() == [[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]]


def test_a_whole_bif_table_has_the_child_slowest():
    whole = BIF.replace("(no) 0.1, 0.2, 0.7; (yes) 0.5, 0.25, 0.25;", "table 0.5 0.1 0.25 0.2 0.25 0.7;")
    assert np.array_equal(formats.read_network(whole, "bif").table, formats.read_network(BIF, "bif").table)
    default = BIF.replace("(yes) 0.5", "default 0.5")
    assert np.array_equal(formats.read_network(default, "bif").table, formats.read_network(BIF, "bif").table)


def test_variables_may_have_one_state():
    bif = "network one {}\nvariable sun { type discrete [ 1 ] { up }; }\nprobability ( sun ) { default 1.0; }\n"
    for text, form in ((bif, "bif"), ("1\n\n1\n4\n1\n1\n0 1.0\n", "fg")):
        read = formats.read_network(text, form)
        assert (read.cardinality.tolist(), read.table.tolist()) == ([1], [1.0])


@pytest.mark.parametrize("form", ["uai", "fg", "bif"])
def test_written_networks_read_back_the_same(form):
    random = np.random.default_rng(3)
    factors = [((1, 0, 2), random.random((3, 2, 2))), ((2,), random.random(2)), ((), np.array(0.7)), ((3,), np.array([0.0, 1.0]))]
    given = network.build_network([2, 3, 2, 2, 2], factors) if form != "bif" else formats.read_network(BIF, "bif")
    if form == "fg":
        given = network.build_network([2, 3, 2, 2, 2], [*factors, ((4,), np.ones(2))])
    read = formats.read_network(formats.write_network(given, form), form)
    for name in ("cardinality", "scope", "scope_offset", "table", "table_offset"):
        assert np.array_equal(getattr(read, name), getattr(given, name)), name
    assert read.states == given.states


def test_bif_holds_no_markov_network():
    with pytest.raises(DataError, match="is not a Bayesian network"):
        formats.write_network(formats.read_network(UAI, "uai"), "bif")


@pytest.mark.parametrize(
    ("form", "text", "message"),
    [
        ("uai", "MARCOV\n", "line 1, token 1: a UAI network begins with MARKOV or BAYES, not with 'MARCOV'"),
        (
            "uai",
            UAI.replace("2 0 1\n", "2 0 2\n"),
            "line 6, token 3: factor 1 contains variable 2, but the 2 variables are numbered 0 to 1",
        ),
        ("uai", UAI.replace("\n6\n", "\n5\n"), "line 9, token 1: factor 1 has 5 values, but its variables have 6 joint states (2 × 3)"),
        ("uai", UAI[:-4], "the file ends at line 10, token 4, where a value of factor 1 is expected"),
        ("uai", UAI.replace("3 4", "3 x"), "line 10, token 4: a value of factor 1 must be a number, not 'x'"),
        ("uai", UAI.replace("3 4", "3 -4"), "factor 1: value 3 is -4, but must be finite and not negative"),
        ("uai", UAI.replace("3 4", "3 nan"), "factor 1: value 3 is nan, but must be finite and not negative"),
        ("uai", UAI.replace(".4 .6", "0 0"), "factor 0 is zero everywhere, so every state has probability 0"),
        ("uai", UAI.replace("2 3", "2 0"), "line 3, token 2: a cardinality is 0, but must be 1 or more"),
        (
            "uai",
            UAI.replace("2 0 1\n", "2 1 1\n").replace("\n6\n", "\n9\n").replace("5 6", "5 6 7 8 9"),
            "factor 1 contains variable 1 twice",
        ),
        ("uai", UAI + "7\n", "line 11, token 1: the network is complete, but the file continues with '7'"),
        ("fg", FG.replace("3 2\n5", "3 3\n5"), "line 13, token 2: variable 3 has 3 states in factor 1, but 2 in an earlier factor"),
        (
            "fg",
            FG.replace("5 6", "6 6"),
            "line 19, token 1: entry 6 is outside the table of factor 1, which has 6 entries, one for each joint state of its variables",
        ),
        ("bif", BIF.replace("rain )", "snow )"), "line 4: variable snow is not declared"),
        ("bif", BIF.replace("(no)", "(maybe)"), "line 5: variable rain has no state 'maybe'"),
        ("bif", BIF.replace("(no) 0.1, 0.2, 0.7;", ""), "line 5: the table of sky has no row for 1 states of its parents"),
        ("bif", BIF.replace("[ 3 ]", "[ 4 ]"), "line 3: variable sky declares 4 states and names 3"),
        ("bif", BIF[:-4], "the file ends at line 5, where ';' is expected"),
    ],
)
def test_bad_texts_are_told_where(form, text, message):
    with pytest.raises(DataError) as caught:
        formats.read_network(text, form)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 1 0\r\n", {1: 0}), ("1\n1 0\n", {1: 0}), ("0", {}), ("0\n\n", {}), ("0\n2 0\n\n", {}), ("1 1 1 2", {1: 2}),
        ("", {}), ("1\n0\n", {}), ("2 0 1 1 2", {0: 1, 1: 2}),
        ("1\n2 0 1 1 2", {0: 1, 1: 2}), ("0 1\n1 2\n", {0: 1, 1: 2}), ("1 0\n", {1: 0}), ("2\n0 1\n1 2\n", {0: 1, 1: 2}),
        ("x0=1\n", {0: 1}),
    ],
)  # fmt: skip
def test_evidence_comes_in_three_layouts(text, expected):
    assert evidence.read_evidence(text, formats.read_network(UAI, "uai")) == expected


def test_evidence_may_use_names():
    assert evidence.read_evidence("rain=no\nsky Asy/Patch\n", formats.read_network(BIF, "bif")) == {0: 1, 1: 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2 0", "there is no variable 2: the network has 2, numbered 0 to 1"),
        ("1 1 3", "the evidence gives x1 the state 3, but its states are 0 to 2"),
        ("2 1 1 1 2", "the evidence gives variable x1 two different states, 1 and 2"),
        ("3 1 1", "is not an evidence file: no pairs of variable and state can be read from it"),
        ("0\n2 1\n\n", "the file says that it has 0 pairs of evidence, but continues with '2'"),
        ("0\n1 1 2", "the file says that it has 0 pairs of evidence, but continues with '1'"),
        ("2\n1 0 1\n2 0 0 1 2", "has 2 cases of evidence, but --evidence reads only one"),
        ("3\n1 0 1\n2 0 0 1 2", "is not an evidence file: no pairs of variable and state can be read from it"),
        ("snow=1", "there is no variable 'snow'"),
    ],
)
def test_bad_evidence(text, message):
    with pytest.raises(DataError) as caught:
        evidence.read_evidence(text, formats.read_network(UAI, "uai"))
    assert str(caught.value) == message


def test_marginals_read_back():
    given = [np.array([0.25, 0.75]), np.array([0.1, 0.2, 0.7])]
    for text in (results.write_mar(given), results.write_mar(given).replace("MAR\n", "MAR\n1\n")):
        assert all(np.array_equal(a, b) for a, b in zip(results.read_mar(text), given, strict=True))
    assert results.write_pr(np.log(10) * 2.5) == "PR\n2.5\n"


def test_generated_weights_have_the_thesis_distributions():
    made = random_networks.generate_random_network(
        "grid", rows=40, columns=40, sigma_w=2.0, sigma_b=0.5, observe="border", sigma_alpha=3.0, seed=4
    )
    units = np.array([np.log(table[1]) for scope, table in made.factors() if len(scope) == 1])
    pairs = [(scope, np.log(table[1, 1])) for scope, table in made.factors() if len(scope) == 2]
    incoming = np.zeros(1600)
    for scope, w in pairs:
        incoming[list(scope)] += w
    W = np.array([w for _, w in pairs])
    assert len(W) == 2 * 40 * 39
    assert abs(W.std() / 2 - 1) < 0.05
    assert abs((units + incoming / 2).std() / 0.5 - 1) < 0.06
    observed = made.stored_marginals()
    assert len(observed) == 4 * 39
    alpha = np.array([np.log(p[0] / p[1]) for p in observed.values()])
    assert abs(alpha.std() / 3 - 1) < 0.2


def test_trees_are_trees_and_leaves_are_their_ends():
    made = random_networks.generate_random_network("tree", nodes=30, observe="leaves", seed=1)
    edges = [scope for scope, _ in made.factors() if len(scope) == 2]
    assert len(edges) == 29
    joined = {0}
    for i, j in sorted(edges, key=lambda edge: edge[1]):
        assert i in joined
        joined.add(j)
    degree = np.bincount(np.ravel(edges), minlength=30)
    assert set(made.stored_marginals()) == set(np.flatnonzero(degree == 1).tolist())


def test_bif_has_no_sign_for_quotes():
    given = network.build_network([2], [((0,), np.array([0.5, 0.5]))], names=['5" pipe'], directed=True)
    with pytest.raises(DataError, match='the name 5" pipe contains quotes, which BIF cannot write'):
        formats.write_network(given, "bif")


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("0.3 0.7 1 0", None),
        ("0.3 0.702 1 0", None),  # rounded
        ("0.3 0.6 1 0", "a row of factor 1 sums to 0.9, not to 1"),
        ("0.3 0.7 0 0", "a row of factor 1 sums to 0, not to 1"),
    ],
)
def test_rows_that_are_no_distributions_are_found(rows, told):
    text = f"BAYES\n2\n2 2\n2\n1 0\n2 0 1\n\n2\n.5 .5\n4\n{rows}\n"
    assert formats.find_conditional_violation(formats.read_network(text, "uai")) == told
    assert formats.find_conditional_violation(formats.read_network(text.replace("BAYES", "MARKOV"), "uai")) is None


def test_factors_of_one_variable_twice_are_no_bayesian_network():
    text = "BAYES\n2\n2 2\n2\n1 0\n1 0\n\n2\n.5 .5\n2\n.5 .5\n"
    assert formats.find_conditional_violation(formats.read_network(text, "uai")) == "factors 0 and 1 are both tables of x0"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("MARKOV\n2\n2 99999999999\n1\n1 0\n2\n1 1\n", "the variables have 1e+11 states in total, but herd handles at most 2147483647"),
        (
            "MARKOV\n1\n9999999999999999999\n0\n",
            "line 3, token 1: a cardinality is 9999999999999999999, but must be at most 9223372036854775807",
        ),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1 1_0\n", "line 7, token 2: a value of factor 0 must be a number, not '1_0'"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1 ١\n", "line 7, token 2: a value of factor 0 must be a number, not '١'"),
        ("MARKOV\n1\n1_0\n0\n", "line 3, token 1: a cardinality must be an integer, not '1_0'"),
        ("MARKOV\n1\n2\n1\n1 0\n2\n1 1e400\n", "factor 0: value 1 is inf, but must be finite and not negative"),
    ],
)
def test_numbers_that_an_artifact_does_not_hold_are_refused_in_text(text, told):
    with pytest.raises(DataError) as caught:
        formats.read_network(text, "uai")
    assert str(caught.value) == told
