"""Whether the first line of a table of texts names the columns or is a row."""

from __future__ import annotations

import pytest

from herdcli.artifacts.text.csv_header import parse_header

ROWS = "y,high,b\nn,low,a\ny,low,b\nn,high,a\n"


@pytest.mark.parametrize(
    "text",
    [
        ROWS,
        ROWS.replace(",", "\t"),
        "yes,no,yes\nno,no,yes\nyes,yes,no\n",  # the same text in several columns
        "true,True\nfalse,True\ntrue,False\n",
        "yes\nno\nyes\nyes\nno\nyes\n",
        '"yes","no"\n"no","no"\n"yes","yes"\n',
        "A,A\nB,B\nA,A\nA,A\nA,A\nB,B\n",
    ],
)
def test_texts_that_occur_below_in_the_same_columns_are_a_row(text):
    assert not parse_header(text.encode()).named


@pytest.mark.parametrize(
    "text",
    [
        "q," + ROWS[2:],  # one text does not occur below
        "b,high,y\n" + ROWS,  # they occur in other columns
        "f,m\nf,x\nm,y\n",
        "a,b\nx,y\na,b\nz,y\n",  # tables that were put together
        'y,high,b\n"n","low","a"\n"y","low","b"\n"n","high","a"\n"y","high","b"\n',  # only values are quoted
        "a,\na,b\nc,b\n",
        "y\nx\n",
        "y,x\n",
    ],
)
def test_other_texts_are_names(text):
    assert parse_header(text.encode()).named


def test_names_of_a_model_are_names():
    assert parse_header(ROWS.encode(), ["y", "high", "b"]).named
