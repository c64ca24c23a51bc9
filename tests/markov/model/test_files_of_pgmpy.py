"""Files as pgmpy and pyAgrum write them where these differ from the formats' descriptions."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli.markov.formats import network_formats as formats
from herdcli.markov.query.exact_queries import compute_all_marginals

NOTE = "the tables are read in the order of pgmpy: the first variable of a table varies fastest, so that rows sum to 1"
UAI = """BAYES
3
2 2 3
3
1 0
3 2 0 1
1 2

2
0.2 0.8
12
0.1 0.2 0.3 0.4 0.5 0.6 0.9 0.8 0.7 0.6 0.5 0.4
3
0.2 0.5 0.3"""
P_B = 0.2 * (0.2 * 0.1 + 0.5 * 0.2 + 0.3 * 0.3) + 0.8 * (0.2 * 0.4 + 0.5 * 0.5 + 0.3 * 0.6)


def test_bayesian_networks_of_pgmpy_in_uai_have_their_first_variable_fastest():
    notes: list[str] = []
    read = formats.read_network(UAI, "uai", notes=notes)
    assert notes == [NOTE]
    assert formats.find_conditional_violation(read) is None
    np.testing.assert_allclose(compute_all_marginals(read, 4, 0)[1], [P_B, 1 - P_B], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0.1 0.2 0.3 0.4 0.5 0.6 0.9 0.8 0.7 0.6 0.5 0.4", "0.1 0.9 0.2 0.8 0.3 0.7 0.4 0.6 0.5 0.5 0.6 0.4"),  # the usual order
        ("0.2 0.5 0.3", "0.2 0.5 0.4"),  # neither order
        ("BAYES", "MARKOV"),
    ],
)
def test_other_tables_are_read_in_the_order_of_the_format(old, new):
    notes: list[str] = []
    read = formats.read_network(UAI.replace(old, new), "uai", notes=notes)
    assert notes == []
    written = [float(word) for word in UAI.replace(old, new).splitlines()[11].split()]
    assert dict(read.factors())[2, 0, 1].ravel().tolist() == written


NET = """net {
}
node rain today{
    states = ("yes it does"  "no");
}
node rain{
    states = ("on"  "off");
}
node wet grass{
    states = ("wet"  "dry");
}
potential (rain today |){
 data = (0.2 0.8);
}
potential (rain |){
 data = (0.4 0.6);
}
potential (wet grass | rain today rain){
 data = (((0.9  0.1 )
  (0.8  0.2 ))

 ((0.7  0.3 )
  (0.05 0.95)));
}
"""


def test_names_with_blanks_and_without_quotes_in_net():
    read = formats.read_network(NET, "net")
    assert read.names == ["rain today", "rain", "wet grass"]
    assert read.states_of(0) == ["yes it does", "no"]
    assert dict(read.factors())[0, 1, 2].tolist() == [[[0.9, 0.1], [0.8, 0.2]], [[0.7, 0.3], [0.05, 0.95]]]


def test_intervals_as_states_in_net():
    text = 'net {\n}\nnode size {\n   states = ([0;1.5[ [1.5;2.5[ (2.5;10) );\n   label = "size";\n}\n'
    text += "potential ( size ) {\n data = ( .2 .3 .5);\n}\n"
    read = formats.read_network(text, "net")
    assert read.states_of(0) == ["[0;1.5[", "[1.5;2.5[", "(2.5;10)"]
    assert read.table.tolist() == [0.2, 0.3, 0.5]
