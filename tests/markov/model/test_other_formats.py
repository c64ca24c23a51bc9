"""Networks as XMLBIF, Hugin NET and GeNIe XDSL and DSL, their names, and what is refused of them."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.errors import DataError
from herdcli.markov.formats import names_file as beside
from herdcli.markov.formats import network_formats as formats
from herdcli.markov.model import network as model

SIZES = {"a": 3, "b": 4, "c": 2}


def drawn(seed: int = 0, names: tuple[str, str, str] = ("a", "b", "c"), states: list[str] | None = None) -> model.Network:
    """a → c ← b, of 3, 4 and 2 states."""
    random = np.random.default_rng(seed)
    tables = [random.dirichlet(np.ones(3)), random.dirichlet(np.ones(4)), random.dirichlet(np.ones(2), (3, 4))]
    states = states or ["x", "y", "z", "p", "q", "r", "s", "u", "v"]
    factors = zip([(0,), (1,), (0, 1, 2)], tables, strict=True)
    return model.build_network([3, 4, 2], factors, names=list(names), states=states, directed=True)


def tables(read: model.Network) -> dict[tuple[str, ...], np.ndarray]:
    """The tables by the names of their scopes."""
    return {tuple(read.name(i) for i in scope): table for scope, table in read.factors()}


@pytest.mark.parametrize("form", ["bif", "xmlbif", "net", "xdsl", "dsl"])
def test_a_network_comes_back_the_same(form):
    given = drawn()
    read = formats.read_network(formats.write_network(given, form), form)
    assert read.directed
    assert sorted(read.names) == ["a", "b", "c"]
    assert {name: read.states_of(i) for i, name in enumerate(read.names)} == {name: given.states_of(i) for i, name in enumerate("abc")}
    for scope, table in tables(given).items():
        assert np.array_equal(tables(read)[scope], table)


AWKWARD = ("light on", 'dose "mg/kg"', "Größe & <Co>")
STATES = ["<5", "5-10", "> 10, high", "1", "0", "a=b", "ja", "true", "fal\\se"]


@pytest.mark.parametrize("form", ["xmlbif", "net", "xdsl"])
def test_any_name_comes_back(form):
    read = formats.read_network(formats.write_network(drawn(names=AWKWARD, states=STATES), form), form)
    assert tuple(read.names) == AWKWARD
    assert read.states == STATES


@pytest.mark.parametrize("form", ["uai", "fg", "dsl"])
def test_names_that_a_format_cannot_hold_are_kept_beside_it(form):
    given, labels = drawn(names=AWKWARD, states=STATES), formats.FORMATS[form].labels
    assert beside.would_lose_names(given, labels)
    read = beside.read_names(beside.write_names(given, labels), formats.read_network(formats.write_network(given, form), form))
    assert sorted(read.names) == sorted(AWKWARD)
    for scope, table in tables(given).items():
        assert np.array_equal(tables(read)[scope], table)
    assert {name: read.states_of(read.names.index(name)) for name in AWKWARD} == {
        name: given.states_of(i) for i, name in enumerate(AWKWARD)
    }


def test_identifiers_lose_no_names_in_dsl():
    assert not beside.would_lose_names(drawn(), "identifiers")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "does not hold the names of a network"),
        ('{"variables": [{"name": "a"}]}', "has names for 1 variables, but the network has 3 variables"),
        ('{"variables": [{"name": "a"}, {"name": "a"}, {"name": "b"}]}', "gives two variables the name a"),
        (
            '{"variables": [{"name": "a", "states": ["x"]}, {"name": "b"}, {"name": "c"}]}',
            "has 1 state names for variable a, but the network has 3 different states",
        ),
    ],
)
def test_names_of_another_network_are_refused(text, message):
    with pytest.raises(DataError) as caught:
        beside.read_names(text, formats.read_network(formats.write_network(drawn(), "uai"), "uai"))
    assert str(caught.value) == message


# pyAgrum 3.3.1 of a{x|y}->c{u|v}<-b{p|q|r}: P(c=u | a, b) is .1 .2 .3 for a=x, .4 .5 .6 for a=y
EXPECTED = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
AGRUM_UAI = (
    "bayes\n3\n2 2 3 \n3\n1 0   # a\n3 0 2 1   # c\n1 2   # b\n\n2\n  .3 .7 \n\n12\n .1 .9\n .4 .6\n .2 .8\n .5 .5\n .3 .7\n .6 .4\n"
    "\n3\n .2 .3 .5\n"
)
AGRUM_XDSL = """<?xml version="1.0" ?>
<!-- This network was created by pyAgrum 3.3.1 for any purpose you want -->
<smile version="1.0" id="unknown"><nodes>
<cpt id="b"><state id="p" /><state id="q" /><state id="r" /><probabilities>0.2 0.3 0.5</probabilities></cpt>
<cpt id="a"><state id="x" /><state id="y" /><probabilities>0.3 0.7</probabilities></cpt>
<cpt id="c"><state id="u" /><state id="v" /><parents>a b</parents>
<probabilities>.1 .9 .4 .6 .2 .8 .5 .5 .3 .7 .6 .4</probabilities></cpt>
</nodes><extensions><genie version="1.0" app="aGrUM 3.3.1" name="unknown"></genie></extensions></smile>
"""
AGRUM_DSL = """net unknown
{
// property softwar aGrUM 3.3.1
 node b { TYPE = CPT; HEADER = { ID = b; NAME = "b"; };
  PARENTS = (); DEFINITION = { NAMESTATES = (p, q, r); PROBABILITIES = (.2, .3, .5); }; };
 node a { TYPE = CPT; HEADER = { ID = a; NAME = "a"; };
  PARENTS = (); DEFINITION = { NAMESTATES = (x, y); PROBABILITIES = (.3, .7); }; };
 node c { TYPE = CPT; PARENTS = (b, a);
  DEFINITION = { NAMESTATES = (u, v); PROBABILITIES = (.1, .9, .4, .6, .2, .8, .5, .5, .3, .7, .6, .4); }; };
};"""
AGRUM_NET = """

net {
  name = unknown;
  software = "aGrUM 3.3.1 % no comment";
  node_size = (50 50);
}
node a { states = (x y ); label = "a"; ID = "a"; }
node c { states = (u v ); label = "c"; ID = "c"; }
discrete node b { states = ("p" "q" "r"); }
potential (a) { data = ( 3 7); }   % any sum
potential ( c | a   b   ) {
   data =
   (((    .1    .9)   % b=p   a=x
   (    .2    .8)   % b=q   a=x
   (    .3    .7))
   ((    .4 .6) (.5 .5) (.6 .4)));
}
potential (b |) { data = (.2 .3 .5); }
"""
AGRUM_XML = """<?xml version="1.0" ?>
<!DOCTYPE BIF [ <!ELEMENT BIF (NETWORK)*> <!ELEMENT TABLE (#PCDATA)> <!ATTLIST BIF VERSION CDATA #REQUIRED> ]>
<BIF VERSION="0.3"><NETWORK><NAME>unknown</NAME>
<!-- Variables -->
<VARIABLE TYPE="nature"><NAME>a</NAME><PROPERTY>description = </PROPERTY><PROPERTY>fast = a{x|y}</PROPERTY></VARIABLE>
<VARIABLE TYPE="nature"><NAME>c</NAME><OUTCOME>u</OUTCOME><OUTCOME>v</OUTCOME></VARIABLE>
<VARIABLE TYPE="nature"><NAME>b</NAME><VALUE>p</VALUE><VALUE>q</VALUE><VALUE>r</VALUE></VARIABLE>
<DEFINITION><FOR>a</FOR><TABLE>0.3 <!-- a comment --> 0.7</TABLE></DEFINITION>
<DEFINITION><FOR>c</FOR><GIVEN>a</GIVEN><GIVEN>b</GIVEN><TABLE>.1 .9
 .2 .8 .3 .7 .4 .6 .5 .5 .6 .4</TABLE></DEFINITION>
<DEFINITION><FOR>b</FOR><TABLE>.2 .3 .5</TABLE></DEFINITION>
</NETWORK></BIF>
"""
UPPER_BIF = """NETWORK "n" { PROPERTY x ; }
VARIABLE a { TYPE DISCRETE [ 2 ] { x, y }; }
VARIABLE b { TYPE DISCRETE[3] { p q r }; }
VARIABLE c { TYPE DISCRETE [ 2 ] { u, v }; }
PROBABILITY ( a ) { TABLE .3 .7 ; }
PROBABILITY ( b ) { TABLE .2 .3 .5 ; }
PROBABILITY ( c | a, b ) { (x, p) .1, .9; (x, q) .2 .8; (x, r) .3 .7; (y, p) .4 .6; (y, q) .5 .5; DEFAULT .6 .4; }
"""


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("xdsl", AGRUM_XDSL), ("dsl", AGRUM_DSL), ("net", AGRUM_NET), ("xmlbif", AGRUM_XML), ("bif", UPPER_BIF), ("uai", AGRUM_UAI),
        ("xdsl", AGRUM_XDSL.replace("aGrUM 3.3.1", "GeNIe 5.0").replace("<parents>a b<", "<parents>b a<")),
    ],
)  # fmt: skip
def test_files_of_other_programs(form, text):
    read = formats.read_network(text, form)
    if form == "uai":
        read = beside.read_names('{"variables": [{"name": "a"}, {"name": "c"}, {"name": "b"}]}', read)
    scope, table = next((scope, table) for scope, table in tables(read).items() if scope[-1] == "c")
    made = np.moveaxis(table[..., 0], [scope.index("a"), scope.index("b")], [0, 1])
    np.testing.assert_allclose(made, EXPECTED, rtol=0, atol=1e-15)
    np.testing.assert_allclose(tables(read)["a",], [0.3, 0.7], rtol=0, atol=1e-15)
    if form != "uai":
        assert {name: read.states_of(i) for i, name in enumerate(read.names)} == {"a": ["x", "y"], "b": ["p", "q", "r"], "c": ["u", "v"]}


def test_uai_in_the_order_of_pyagrum():
    """Bayesian networks with its comments are read in its order, which a note says; without them the last parent varies fastest."""
    notes: list[str] = []
    formats.read_network(AGRUM_UAI, "uai", notes=notes)
    assert notes == ["the tables are read in the order of pyAgrum: the child varies fastest, then the first parent"]
    for other in (AGRUM_UAI.replace("#", "//"), AGRUM_UAI.replace("   # b", ""), AGRUM_UAI.replace("3 0 2 1 ", "3 2 0 1 ")):
        notes = []
        plain = formats.read_network(other, "uai", notes=notes)
        table = next(table for scope, table in plain.factors() if len(scope) == 3)
        if "3 2 0 1" in other:  # first b, which varies faster
            assert len(notes) == 1
            np.testing.assert_allclose(table[..., 0], [[0.1, 0.5], [0.4, 0.3], [0.2, 0.6]], atol=1e-15)
        else:
            assert notes == []
            np.testing.assert_allclose(table[..., 0], [[0.1, 0.4, 0.2], [0.5, 0.3, 0.6]], atol=1e-15)
    notes = []
    pairs = "MARKOV\n2 # nbr Nodes\n2 3 \n1 # nbr Factors \n2 1 0 \n\n6 # {0, 1}\n  1 4 \n  2 5 \n  3 6 \n"
    formats.read_network(pairs, "uai", notes=notes)
    assert notes == ["pyAgrum wrote this file and its tables may be in another order than their scopes, so the answers may be wrong"]
    notes = []
    formats.read_network(pairs.replace(" # nbr Factors ", ""), "uai", notes=notes)
    assert notes == []


LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE BIF [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">]>'
    "<BIF><NETWORK><NAME>&c;</NAME></NETWORK></BIF>"
)


@pytest.mark.parametrize(
    ("form", "text", "message"),
    [
        ("xmlbif", LAUGHS, "line 1: declares an XML entity, which herd does not read"),
        ("xmlbif", '<!DOCTYPE BIF [<!ENTITY x SYSTEM "file:///etc/passwd">]><BIF>&x;</BIF>',
         "line 1: declares an XML entity, which herd does not read"),
        ("xmlbif", '<!DOCTYPE BIF SYSTEM "http://x/y.dtd"><BIF>&x;</BIF>', "line 1: refers to an XML entity that the file does not define"),
        ("xmlbif", "<BIF>\n<NETWORK></BIF>", "line 2: is not well-formed XML: mismatched tag"),
        ("xmlbif", "<BIF>" + "<x>" * 100, "line 1: elements are nested more than 64 deep, or there are more than 20000000 of them"),
        ("xmlbif", "<BIF></BIF>", "is not XMLBIF: its root is <bif>"),
        ("xmlbif", "<BIF><NETWORK/></BIF>", "the network has no variables"),
        ("xmlbif", AGRUM_XML.replace('TYPE="nature"><NAME>b', 'TYPE="utility"><NAME>b'),
         "variable b is a utility node, but herd reads only chance nodes"),
        ("xmlbif", AGRUM_XML.replace(".2 .3 .5", ".2 .3 x"), "the table of b has 'x', which is not a number"),
        ("xmlbif", AGRUM_XML.replace(".2 .3 .5", ".2 .8"), "the table of b has 2 values, but its states and those of its parents need 3"),
        ("xmlbif", AGRUM_XML.replace(".2 .3 .5", ".2 .3 .1"), "a row of the table of b sums to 0.6, not to 1"),
        ("xmlbif", AGRUM_XML.replace("<DEFINITION><FOR>b</FOR><TABLE>.2 .3 .5</TABLE></DEFINITION>", ""), "variable b has no table"),
        ("xmlbif", AGRUM_XML.replace("<FOR>a</FOR>", "<FOR>a</FOR><GIVEN>c</GIVEN>").replace("0.3 <!-- a comment --> 0.7", ".3 .7 .3 .7"),
         "the parents form a cycle: a ← c ← a"),
        ("net", AGRUM_NET.replace("discrete node b", "utility b"), "line 10: a utility node, but herd reads only discrete chance nodes"),
        ("net", AGRUM_NET.replace("data = (.2 .3 .5)", "model_data = (Normal (0, 1))"),
         "line 19: the table of b is given by the expression ( Normal ( 0 , 1 ) ), which herd does not read"),
        ("net", AGRUM_NET[:-30], "the file ends at line 19, where '(' is expected"),
        ("xdsl", AGRUM_XDSL.replace("cpt", "decision"),
         "node b has the type decision, but herd reads only cpt, deterministic and noisymax"),
        ("xdsl", "<smile/>", "is not a GeNIe network: its root element is <smile>, but must be <smile> with <nodes> inside"),
        ("dsl", AGRUM_DSL.replace("CPT", "EQUATION"),
         "node b has the type EQUATION, but herd reads only cpt, deterministic and noisymax"),
        ("bif", UPPER_BIF.replace("TABLE .2 .3 .5 ;", ""), "line 6: the table of b is empty"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_with_the_reason(form, text, message):
    with pytest.raises(DataError) as caught:
        formats.read_network(text, form)
    assert str(caught.value) == message


NAN_BIF = UPPER_BIF.replace("(y, q) .5 .5", "(y, q) NaN NaN").replace("(x, q) .2 .8", "(x, q) NA NA")


def test_rows_of_nan_are_refused_as_that_or_made_uniform():
    with pytest.raises(DataError) as caught:
        formats.read_network(NAN_BIF, "bif")
    assert str(caught.value) == "the table of c has NaN in 2 of its 6 rows, the first for a=x, b=q"
    assert caught.value.hint == "use --missing-rows uniform: bnlearn writes NaN for states of the parents that its data lack"
    notes: list[str] = []
    read = formats.read_network(NAN_BIF, "bif", missing_rows="uniform", notes=notes)
    assert notes == ["2 rows of NaN in 1 table replaced by uniform distributions"]
    assert tables(read)["a", "b", "c"][..., 0].tolist() == [[0.1, 0.5, 0.3], [0.4, 0.5, 0.6]]
    with pytest.raises(DataError, match="a row of the table of c mixes NaN and numbers"):
        formats.read_network(NAN_BIF.replace("NaN NaN", "NaN .5"), "bif", missing_rows="uniform")
    with pytest.raises(DataError, match="the table of a has NaN in its only row"):
        formats.read_network(UPPER_BIF.replace("TABLE .3 .7", "TABLE NaN NaN"), "bif")
