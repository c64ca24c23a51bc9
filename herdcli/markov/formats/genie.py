"""Bayesian networks of GeNIe and SMILE: .xdsl (XML), and .dsl, the older text format.

Source: SMILE programmer's manual, "XDSL format" and "Multidimensional arrays".  In tables the states of the child vary fastest, then
those of the last parent; the first parent varies slowest.  pyAgrum (3.3.1) writes and reads .xdsl with the parents in reverse order.
Files that name it as their program are read in its order.  No table of several parents is correct for both programs, so files are written
as in SMILE.
A noisy-max has the rows of each parent one after the other, then the leak.  Its states are ordered from the strongest to the weakest, and
`strengths` lists the parents' states from the strongest to the weakest.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

import numpy as np

from herdcli.errors import DataError
from herdcli.markov.formats import safe_xml
from herdcli.markov.formats.conditional_tables import AUXILIARY, extract_conditional_tables, make_unique_identifiers, state_names_or_numbers
from herdcli.markov.formats.network_assembly import NetworkAssembly
from herdcli.markov.formats.tokens import TokenStream, parse_numbers
from herdcli.markov.model.network import Network
from herdcli.markov.model.noisy_max import NoisyMax
from herdcli.records import dataclass
from herdcli.schema import Array

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}()=;,]|[^\s{}()=;,"]+')
COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
TITLE, STATE_TITLE = "herd_name", "herd_state_"


@dataclass(frozen=True)
class GenieNode:
    """One node of either format; `kind` is its type in .xdsl."""

    kind: str
    name: str
    states: list[str]
    parents: list[str]
    values: list[str]
    strengths: list[str]


def read_xdsl(text: str, notes: list[str] | None = None) -> Network:
    """Read variables with named states and their conditional probabilities."""
    root = safe_xml.parse_xml(text)
    if root.tag != "smile" or (nodes := root.find_first_child("nodes")) is None:
        raise DataError(f"is not a GeNIe network: its root element is <{root.tag}>, but must be <smile> with <nodes> inside")
    made = NetworkAssembly()
    elements = list(_node_elements(nodes))
    for element in elements:
        if element.find_first_child("dynamic") is not None:
            raise DataError(f"node {element.attributes.get('id', '')} belongs to a dynamic GeNIe network, which herd does not read")
        for each in element.find_children("property"):
            key = each.attributes.get("id", "")
            if key == TITLE:
                made.titles[element.attributes.get("id", "")] = each.text
            elif key.startswith(STATE_TITLE):
                made.state_titles.setdefault(element.attributes.get("id", ""), []).append(each.text)
            elif key == AUXILIARY:
                made.auxiliary.add(element.attributes.get("id", ""))
    _add_nodes(made, [_parse_xdsl_node(element) for element in elements], first_parent_fastest=_is_written_by_agrum(root))
    return _finish_network(made, notes)


def _is_written_by_agrum(root: safe_xml.XMLElement) -> bool:
    extensions = root.find_first_child("extensions")
    return any("agrum" in each.attributes.get("app", "").lower() for each in (extensions.find_children("genie") if extensions else ()))


def _node_elements(nodes: safe_xml.XMLElement) -> Iterator[safe_xml.XMLElement]:
    for element in nodes.children:
        if element.tag == "submodel":
            yield from _node_elements(element)
        else:
            yield element


def _parse_xdsl_node(element: safe_xml.XMLElement) -> GenieNode:
    def words(tag: str) -> list[str]:
        found = element.find_first_child(tag)
        return [] if found is None else found.text.split()

    tags = {"noisymax": "parameters", "deterministic": "resultingstates"}
    states = [state.attributes.get("id", "") for state in element.find_children("state")]
    values = words(tags.get(element.tag, "probabilities"))
    return GenieNode(element.tag, element.attributes.get("id", ""), states, words("parents"), values, words("strengths"))


def _add_nodes(assembly: NetworkAssembly, nodes: Sequence[GenieNode], *, first_parent_fastest: bool) -> None:
    """Declare all variables, then add their tables.

    first_parent_fastest  True if the first parent varies faster than the last.
    """
    for node in nodes:
        if node.kind not in ("cpt", "noisymax", "deterministic"):
            raise DataError(f"node {node.name} has the type {node.kind}, but herd reads only cpt, deterministic and noisymax")
        assembly.declare_variable(node.name, node.states)
    for node in nodes:
        what = f"the table of {node.name}"
        if node.kind == "noisymax":
            assembly.add_noisy_max(node.name, node.parents, _parse_noisy_max(assembly, node))
            continue
        if node.kind == "deterministic":
            place = {state: k for k, state in enumerate(node.states)}
            if strange := [state for state in node.values if state not in place]:
                raise DataError(f"{what} has the value '{strange[0]}', which is not one of its states")
            values = np.eye(len(node.states))[[place[state] for state in node.values]].ravel() if node.values else np.empty(0)
        else:
            values = parse_numbers(node.values, what)
        parents = node.parents[::-1] if first_parent_fastest else node.parents
        assembly.add_table(node.name, parents, values)


def _parse_noisy_max(assembly: NetworkAssembly, node: GenieNode) -> NoisyMax:
    """Parse the causes, with a row for each state of each parent, and the leak."""
    shape, what = assembly.table_shape(node.name, node.parents), f"the noisy-max of {node.name}"
    rows, states = sum(shape[:-1]), shape[-1]
    values = parse_numbers(node.values, what)
    if values.size != (rows + 1) * states:
        raise DataError(
            f"{what} has {values.size} values, but needs {(rows + 1) * states}: a row for each state of each parent, and one for the leak"
        )
    parts = np.split(values.reshape(rows + 1, states), list(itertools.accumulate(shape[:-1])))
    strengths = node.strengths or [str(state) for count in shape[:-1] for state in range(count)]
    orders = [strengths[end - count : end] for count, end in zip(shape[:-1], itertools.accumulate(shape[:-1]), strict=True)]
    if len(strengths) != rows or any(sorted(order) != sorted(map(str, range(len(order)))) for order in orders):
        raise DataError(f"the <strengths> of node {node.name} must list every state of each parent once")
    return NoisyMax([_sort_rows_by_state(part, list(map(int, order))) for part, order in zip(parts, orders, strict=False)], parts[-1][0])


def _sort_rows_by_state(rows: Array, strengths: list[int]) -> Array:
    """Sort rows by state.  The weakest state, which has no effect, shows whether they are already in that order."""
    idle = np.append(np.zeros(rows.shape[1] - 1), 1.0)
    if np.array_equal(rows[-1], idle) or not np.array_equal(rows[strengths[-1]], idle):
        return rows[np.argsort(strengths)]
    return rows


def read_dsl(text: str, notes: list[str] | None = None) -> Network:
    """Read a network in the older format."""
    tokens, made = TokenStream(text, TOKEN, COMMENT), NetworkAssembly()
    tokens.expect_token("net")
    tokens.next("a name")
    _, blocks = _parse_block(tokens)
    nodes = []
    for name, block in blocks:
        kind, definition = _string_field(block, "TYPE"), _nested_fields(block, "DEFINITION")
        if AUXILIARY in _nested_fields(block, "USER_PROPERTIES"):
            made.auxiliary.add(name)
        kinds = {"CPT": "cpt", "NOISY_MAX": "noisymax", "TRUTHTABLE": "deterministic"}
        values = {"noisymax": "PROBABILITIES", "deterministic": "RESULTING_STATES"}
        known = kinds.get(kind[0], kind[0]) if kind else "unknown"
        nodes.append(
            GenieNode(known, name, _string_field(definition, "NAMESTATES"), _string_field(block, "PARENTS"),
                 _string_field(definition, values.get(known, "PROBABILITIES")), _string_field(definition, "STRENGTHS"))
        )  # fmt: skip
    _add_nodes(made, nodes, first_parent_fastest=False)
    return _finish_network(made, notes)


def _finish_network(assembly: NetworkAssembly, notes: list[str] | None) -> Network:
    network = assembly.assemble_network()
    if notes is not None:
        notes.extend(assembly.notes)
    return network


Fields = dict[str, "list[str] | Fields"]


def _parse_block(tokens: TokenStream, depth: int = 0) -> tuple[Fields, list[tuple[str, Fields]]]:
    """Parse `{ KEY = value; … node NAME { … }; … }`; return the values, and the nodes including those of submodels."""
    if depth > 32:
        raise tokens.make_error("has more than 32 blocks inside one another")
    tokens.expect_token("{")
    fields: Fields = {}
    nodes: list[tuple[str, Fields]] = []
    while (key := tokens.next("'}'")) != "}":
        if key in ("node", "submodel"):
            name = tokens.without_quotes(tokens.next("a name"))
            inner, below = _parse_block(tokens, depth + 1)
            nodes += [(name, inner)] if key == "node" else below
        elif key != ";":
            tokens.expect_token("=")
            fields[key] = (
                _parse_block(tokens, depth + 1)[0]
                if tokens.peek() == "{"
                else [tokens.without_quotes(token) for token in tokens.read_tokens_until(";")]
            )
    if tokens.peek() == ";":
        tokens.next("';'")
    return fields, nodes


def _string_field(fields: Fields, key: str) -> list[str]:
    found = fields.get(key, [])
    return [word for word in found if word not in ("(", ")", ",")] if isinstance(found, list) else []


def _nested_fields(fields: Fields, key: str) -> Fields:
    found = fields.get(key, {})
    return found if isinstance(found, dict) else {}


def write_xdsl(network: Network) -> str:
    """Write a network of conditional distributions, parents before children.  Raises DataError for other networks.

    Names that are not identifiers are stored in addition to the identifiers, as properties that herd reads.
    """
    tables = extract_conditional_tables(network, "XDSL")
    titles = [network.name(i) for i in range(network.count)]
    names = make_unique_identifiers(titles, "x")
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<smile version="1.0" id="network" numsamples="1000">', "  <nodes>"]
    states = state_names_or_numbers(network)
    for i in _topological_order([parents for parents, _ in tables]):
        parents, table = tables[i]
        own = make_unique_identifiers(states[i], "s")
        lines.append(f'    <cpt id="{names[i]}">')
        lines += [f'      <state id="{state}" />' for state in own]
        lines += [f"      <parents>{' '.join(names[j] for j in parents)}</parents>"] if parents else []
        lines.append(f"      <probabilities>{' '.join(map(repr, table.ravel().tolist()))}</probabilities>")
        lines += [_write_property(AUXILIARY, "true")] if i >= network.listed_count else []
        lines += [_write_property(TITLE, titles[i])] if names[i] != titles[i] else []
        lines += [_write_property(f"{STATE_TITLE}{k}", state) for k, state in enumerate(states[i])] if own != states[i] else []
        lines.append("    </cpt>")
    lines += ["  </nodes>", "  <extensions>", '    <genie version="1.0" app="herd" name="network">']
    lines += [f'      <node id="{name}"><name>{safe_xml.escape(title)}</name></node>' for name, title in zip(names, titles, strict=True)]
    return "\n".join([*lines, "    </genie>", "  </extensions>", "</smile>"]) + "\n"


def _write_property(key: str, value: str) -> str:
    return f'      <property id="{key}">{safe_xml.escape(value)}</property>'


def write_dsl(network: Network) -> str:
    """Write a network in the older format, which keeps the names of variables only as descriptions."""
    tables = extract_conditional_tables(network, "DSL")
    titles = [network.name(i) for i in range(network.count)]
    names, states = make_unique_identifiers(titles, "x"), state_names_or_numbers(network)
    lines = ["net network", "{"]
    for i in _topological_order([parents for parents, _ in tables]):
        parents, table = tables[i]
        title = titles[i].replace("\\", "\\\\").replace('"', '\\"')
        lines += [f" node {names[i]}", "  {", "   TYPE = CPT;", f'   HEADER = {{ ID = {names[i]}; NAME = "{title}"; }};']
        lines += [f'   USER_PROPERTIES = {{ {AUXILIARY} = "true"; }};'] if i >= network.listed_count else []
        lines += [f"   PARENTS = ({', '.join(names[j] for j in parents)});", "   DEFINITION =", "    {"]
        lines += [f"     NAMESTATES = ({', '.join(make_unique_identifiers(states[i], 's'))});"]
        lines += [f"     PROBABILITIES = ({', '.join(map(repr, table.ravel().tolist()))});", "    };", "  };"]
    return "\n".join([*lines, "};"]) + "\n"


def _topological_order(parents: Sequence[Sequence[int]]) -> list[int]:
    """Return the variables in an order in which each comes after its parents."""
    order: list[int] = []
    seen: set[int] = set()
    for start in range(len(parents)):
        stack = [start]
        while stack:
            i = stack[-1]
            ahead = [j for j in parents[i] if j not in seen]
            if ahead and i not in seen:
                stack += ahead
                continue
            stack.pop()
            if i not in seen:
                seen.add(i)
                order.append(i)
    return order
