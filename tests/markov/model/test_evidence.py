"""Evidence by any name, in files and in pairs, and what numbers are taken for."""

from __future__ import annotations

import pytest

from herdcli.errors import DataError
from herdcli.markov.formats import network_formats as formats
from herdcli.markov.formats.evidence import EXPECTED, find_variable, parse_assignment, read_evidence
from herdcli.markov.formats.evidence_tables import parse_json_or_csv_pairs
from herdcli.markov.model.variable_names import split_names

NAMES = """network n {}
variable "light on" { type discrete [ 2 ] { "true" "false" }; }
variable "dose.mg/kg" { type discrete [ 3 ] { "<5", "5-10", "> 10, high" }; }
variable "O'Neil" { type discrete [ 2 ] { 1, yes }; }
variable "a=b" { type discrete [ 2 ] { "=", "x=y" }; }
variable light { type discrete [ 2 ] { on, "on true" }; }
probability ( "light on" ) { table .5 .5; } probability ( "dose.mg/kg" ) { table .2 .3 .5; } probability ( "O'Neil" ) { table .5 .5; }
probability ( "a=b" ) { table .5 .5; } probability ( light ) { table .5 .5; }
"""
CODES = """network n {}
variable b { type discrete [ 2 ] { 1, 0 }; }
variable 0 { type discrete [ 3 ] { 2, 1, 0 }; }
probability ( b ) { table 0.3 , 0.7 ; } probability ( 0 ) { table .2 .3 .5; }
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("light on=true\n", {0: 0}),
        ("  light on =  false # a comment\n", {0: 1}),
        ("# nothing\n\n", {}),
        ("dose.mg/kg=> 10, high\n", {1: 2}),
        ('"dose.mg/kg" = "> 10, high"\n"O\'Neil" yes\n', {1: 2, 2: 1}),
        ("O'Neil=1\n", {2: 0}),
        ("a=b=x=y\n", {3: 1}),
        ('"a=b"="="\n', {3: 0}),
        ("a=b==\nlight on true", None),
        ("dose.mg/kg <5\nlight on\n", {1: 0, 4: 0}),
        ('2 "light on" true "dose.mg/kg" "<5"', {0: 0, 1: 0}),
        ("2\n0 1\n1 2\n", {0: 1, 1: 2}),
        ("light on=true\ndose.mg/kg=<5\n", {0: 0, 1: 0}),
        ('{"light on": "false", "O\'Neil": 1}', {0: 1, 2: 0}),
        ('{"light on": true}\n', {0: 0}),
        ("{}", {}),
        ('variable,state\n"dose.mg/kg","> 10, high"\nlight on,false\n', {1: 2, 0: 1}),
        ('# most probable states\nvariable,state,state_name\n"O\'Neil",1,"yes"\n\nlight,0,on\n', {2: 1, 4: 0}),
        ("variable,state\n", {}),
    ],
)
def test_names_with_blanks_signs_and_quotes(text, expected):
    network = formats.read_network(NAMES, "bif")
    if expected is None:
        with pytest.raises(DataError) as caught:
            read_evidence(text, network)
        assert str(caught.value) == "'light on true' can be read in several ways"
        assert caught.value.hint == 'put names into quotes: "NAME"="STATE"'
    else:
        assert read_evidence(text, network) == expected


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("lihgt on=true", "there is no variable 'lihgt on'", "did you mean 'light on'?"),
        ("LIGHT ON=true", "there is no variable 'LIGHT ON'", "did you mean 'light on'?"),
        ("light on=tru", "light on has no state 'tru'", "did you mean 'true'?"),
        ("zebra=1", "there is no variable 'zebra'", "its variables are light on, dose.mg/kg, O'Neil, a=b, light"),
        ("O'Neil=7", "O'Neil has no state '7'", "its states are 1, yes"),
        ("light on=true\nlight on=false", "the evidence gives variable light on two different states, true and false", None),
        ("nothing of it", "is not an evidence file: no pairs of variable and state can be read from it", f"{EXPECTED}, such as NAME=STATE"),
    ],
)  # fmt: skip
def test_what_nearly_fits_is_suggested(text, message, hint):
    with pytest.raises(DataError) as caught:
        read_evidence(text, formats.read_network(NAMES, "bif"))
    assert str(caught.value) == message
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("text", "expected", "notes"),
    [
        ("b=1", {0: 0}, ["b=1 is read as the state named 1, not as state number 1, which is 0"]),
        ("1 0 1", {0: 1}, [
            "an evidence file of numbers counts variables from 0: 0 is b, not the variable with the name 0",
            "a file of numbers counts states from 0: 1 of b is its state 0, not the state named 1",
        ]),
        ("1 1 1", {1: 1}, []),
        ("0=2", {1: 0}, ["0=2 is read as the state named 2, not as state number 2, which is 0"]),
    ],
)  # fmt: skip
def test_numbers_that_could_be_names_are_noted(text, expected, notes):
    told: list[str] = []
    assert read_evidence(text, formats.read_network(CODES, "bif"), told) == expected
    assert told == notes


def test_pairs_of_the_command_line():
    network = formats.read_network(NAMES, "bif")
    assert parse_assignment("light on=true", network, []) == (0, 0)
    assert parse_assignment('"a=b"=x=y', network, []) == (3, 1)
    with pytest.raises(DataError, match="'light' is not evidence of the form NAME=STATE"):
        parse_assignment("light", network, [])


def test_lists_of_names_may_have_quotes():
    assert split_names('a, "b, c" ,d') == ["a", "b, c", "d"]
    assert split_names("") == []
    assert find_variable(formats.read_network(NAMES, "bif"), "light") == 4


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ('{"light on": ', "is not valid JSON: Expecting value: line 1 column 14 (char 13)", 'write {"NAME": "STATE", …}'),
        ('{"light on": ["true"]}', "the state of variable 'light on' is neither text nor a number", 'write {"NAME": "STATE", …}'),
        ('{"light on": null}', "the state of variable 'light on' is neither text nor a number", 'write {"NAME": "STATE", …}'),
        ('{"light on": "true", "light on": "false"}', "the evidence gives variable light on two different states, true and false", None),
        ('{"light on": "maybe"}', "light on has no state 'maybe'", "its states are true, false"),
        ("variable,state\nlight on\n", "row 1 does not have a variable and a state", "write 2 cells into each row: variable,state"),
        (
            "variable,state\nlight on,true\nlight,\n",
            "row 2 does not have a variable and a state",
            "write 2 cells into each row: variable,state",
        ),
    ],
)
def test_tables_and_objects_that_are_not_evidence(text, message, hint):
    with pytest.raises(DataError) as caught:
        read_evidence(text, formats.read_network(NAMES, "bif"))
    assert (str(caught.value), caught.value.hint) == (message, hint)


BLANKS = """network of rain today {
}
variable rain today { type discrete [ 3 ] { none, light rain, very heavy }; }
variable wet { type discrete [ 2 ] { yes, no }; }
probability ( rain today ) { table 0.2, 0.3, 0.5 ; }
probability ( wet | rain today ) {
    ( none ) 0.1, 0.9;
    ( light rain ) 0.4, 0.6;
    ( very heavy ) 0.75, 0.25;
}
"""


def test_names_with_blanks_without_quotes_as_pgmpy_writes_them():
    plain, quoted = formats.read_network(BLANKS, "bif"), BLANKS
    for name in ("rain today", "light rain", "very heavy"):
        quoted = quoted.replace(name, f'"{name}"').replace(f'of "{name}"', "n")
    assert (plain.names, plain.states) == (["rain today", "wet"], ["none", "light rain", "very heavy", "yes", "no"])
    for (scope, table), (scope_quoted, table_quoted) in zip(plain.factors(), formats.read_network(quoted, "bif").factors(), strict=True):
        assert scope == scope_quoted
        assert (table == table_quoted).all()
    assert read_evidence("rain today=very heavy", plain) == {0: 2}


def test_first_error_of_a_file_with_blanks_in_names():
    with pytest.raises(DataError, match=r"^line 3: '2' where '\{' is expected$"):
        formats.read_network("network n {}\n\nvariable y 2 { type discrete [ 2 ] { a, b }; }\nprobability ( y 2 ) { table 0.3; }\n", "bif")


@pytest.mark.parametrize("text", ['variable,state\n"a,1\n', 'variable,state\n"a"b,1\n'])
def test_a_damaged_table_of_evidence_is_refused(text):
    with pytest.raises(DataError, match=r"^the table of evidence cannot be read \("):
        parse_json_or_csv_pairs(text, text.splitlines())
