"""Bayesian networks as XML: XMLBIF 0.3, which pyAgrum calls BIFXML.

Source: Cozman (1998), XMLBIF 0.3.  In tables the states of the child vary fastest, then those of the last parent.
"""

from __future__ import annotations

import re

from herdcli.errors import DataError
from herdcli.markov.formats import safe_xml
from herdcli.markov.formats.conditional_tables import AUXILIARY_MARK, extract_conditional_tables, state_names_or_numbers
from herdcli.markov.formats.network_assembly import NetworkAssembly
from herdcli.markov.formats.tokens import parse_numbers
from herdcli.markov.model.network import Network

_FAST = re.compile(r"fast\s*=\s*.*?(?:\{(?P<labels>[^{}]*)\}|\[(?P<range>[^\[\]]*)\])\s*$", re.DOTALL)


def read_xmlbif(text: str, notes: list[str] | None = None) -> Network:
    """Read variables with named states and their conditional probabilities."""
    root = safe_xml.parse_xml(text)
    networks = [root] if root.tag == "network" else list(root.find_children("network"))
    if len(networks) != 1:
        raise DataError(
            f"holds {len(networks)} networks, but herd reads only one" if networks else f"is not XMLBIF: its root is <{root.tag}>"
        )
    made = NetworkAssembly()
    for variable in networks[0].find_children("variable"):
        kind = variable.attributes.get("type", "nature")
        name = _child_text(variable, "name")
        if kind != "nature":
            raise DataError(f"variable {name} is a {kind} node, but herd reads only chance nodes")
        made.declare_variable(name, [state.text for state in variable.find_children("outcome", "value")] or _parse_fast_states(variable))
        if any(each.text == AUXILIARY_MARK for each in variable.find_children("property")):
            made.auxiliary.add(name)
    for definition in networks[0].find_children("definition", "probability"):
        child = _child_text(definition, "for")
        if len(list(definition.find_children("for"))) > 1:
            raise DataError(f"the table of {child} is a joint table of several variables, which herd does not read")
        table = definition.find_first_child("table")
        values = parse_numbers([] if table is None else table.text.split(), f"the table of {child}")
        made.add_table(child, [given.text for given in definition.find_children("given")], values)
    return made.assemble_network()


def _child_text(element: safe_xml.XMLElement, tag: str) -> str:
    found = element.find_first_child(tag)
    if found is None or not found.text:
        raise DataError(f"an element <{element.tag}> has no <{tag}> inside")
    return found.text


def _parse_fast_states(variable: safe_xml.XMLElement) -> list[str]:
    """Return the states of a property `fast = name{yes|no}` or `name[3]`, which pyAgrum writes."""
    for each in variable.find_children("property"):
        if (found := _FAST.match(each.text)) is None:
            continue
        if found["labels"] is not None:
            return [label.strip() for label in found["labels"].split("|")]
        ends = [int(end) for end in found["range"].split(",") if end.strip().lstrip("-").isdecimal()]
        if len(ends) == 1:
            return list(map(str, range(ends[0])))
        if len(ends) == 2 and ends[1] - ends[0] < 1 << 16:
            return list(map(str, range(ends[0], ends[1] + 1)))
    return []


def write_xmlbif(network: Network) -> str:
    """Write a network of conditional distributions, one per variable.  Raises DataError for other networks."""
    tables = extract_conditional_tables(network, "XMLBIF")
    states = state_names_or_numbers(network)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<BIF VERSION="0.3">', "<NETWORK>", "<NAME>unknown</NAME>"]
    for i in range(network.count):
        outcomes = "".join(f"<OUTCOME>{safe_xml.escape(state)}</OUTCOME>" for state in states[i])
        mark = f"<PROPERTY>{AUXILIARY_MARK}</PROPERTY>" if i >= network.listed_count else ""
        lines.append(f'<VARIABLE TYPE="nature"><NAME>{safe_xml.escape(network.name(i))}</NAME>{outcomes}{mark}</VARIABLE>')
    for i, (parents, table) in enumerate(tables):
        given = "".join(f"<GIVEN>{safe_xml.escape(network.name(j))}</GIVEN>" for j in parents)
        rows = "\n".join(" ".join(map(repr, row)) for row in table.reshape(-1, table.shape[-1]).tolist())
        lines += [f"<DEFINITION><FOR>{safe_xml.escape(network.name(i))}</FOR>{given}<TABLE>", rows, "</TABLE></DEFINITION>"]
    return "\n".join([*lines, "</NETWORK>", "</BIF>"]) + "\n"
