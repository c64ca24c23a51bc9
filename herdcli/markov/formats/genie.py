"""Bayesian networks of GeNIe and SMILE: .xdsl (XML), and .dsl, the older format in text.

Source: SMILE programmer's manual, "XDSL format" and "Multidimensional arrays".  Tables run with the states of the child fastest, then
those of the last parent; the first parent is the slowest.  pyAgrum (3.3.1) writes and reads .xdsl with the parents the other way round.
Files that name it as their program are read as it means them; no table of several parents is right for both, so files are written as
SMILE has them.
A noisy-max has the rows of each parent one after the other, then the leak; its states go from the strongest to the weakest, and
`strengths` are the parents' states from the strongest on.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

import numpy as np

from herdcli.errors import DataError
from herdcli.markov.formats import markup
from herdcli.markov.formats.assembly import Assembly
from herdcli.markov.formats.conditional import conditional_tables, identifiers, state_names
from herdcli.markov.formats.text import Tokens, numbers
from herdcli.markov.model.network import Network
from herdcli.markov.model.noisy_max import NoisyMax
from herdcli.records import dataclass
from herdcli.schema import Array

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}()=;,]|[^\s{}()=;,"]+')
COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
TITLE, STATE_TITLE = "herd_name", "herd_state_"


@dataclass(frozen=True)
class Node:
    """One node of either format; kind is that of .xdsl."""

    kind: str
    name: str
    states: list[str]
    parents: list[str]
    values: list[str]
    strengths: list[str]


def read_xdsl(text: str, notes: list[str] | None = None) -> Network:
    """Variables with named states and their conditional probabilities."""
    root = markup.parse(text)
    if root.tag != "smile" or (nodes := root.first("nodes")) is None:
        raise DataError(f"is no network of GeNIe: its root is <{root.tag}>, not <smile> with <nodes>")
    made = Assembly()
    elements = list(_elements(nodes))
    for element in elements:
        if element.first("dynamic") is not None:
            raise DataError(f"node {element.attributes.get('id', '')} belongs to a dynamic network of GeNIe, which herd does not read")
        for each in element.all("property"):
            key = each.attributes.get("id", "")
            if key == TITLE:
                made.titles[element.attributes.get("id", "")] = each.text
            elif key.startswith(STATE_TITLE):
                made.state_titles.setdefault(element.attributes.get("id", ""), []).append(each.text)
    _assemble(made, [_xdsl_node(element) for element in elements], turned=_is_of_agrum(root))
    return _finished(made, notes)


def _is_of_agrum(root: markup.Element) -> bool:
    extensions = root.first("extensions")
    return any("agrum" in each.attributes.get("app", "").lower() for each in (extensions.all("genie") if extensions else ()))


def _elements(nodes: markup.Element) -> Iterator[markup.Element]:
    for element in nodes.children:
        if element.tag == "submodel":
            yield from _elements(element)
        else:
            yield element


def _xdsl_node(element: markup.Element) -> Node:
    def words(tag: str) -> list[str]:
        found = element.first(tag)
        return [] if found is None else found.text.split()

    tags = {"noisymax": "parameters", "deterministic": "resultingstates"}
    states = [state.attributes.get("id", "") for state in element.all("state")]
    values = words(tags.get(element.tag, "probabilities"))
    return Node(element.tag, element.attributes.get("id", ""), states, words("parents"), values, words("strengths"))


def _assemble(made: Assembly, nodes: Sequence[Node], *, turned: bool) -> None:
    """Declare all variables, then add their tables.  turned  the first parent runs faster than the last."""
    for node in nodes:
        if node.kind not in ("cpt", "noisymax", "deterministic"):
            raise DataError(f"node {node.name} is of the type {node.kind}, and herd reads cpt, deterministic and noisymax alone")
        made.declare(node.name, node.states)
    for node in nodes:
        what = f"the table of {node.name}"
        if node.kind == "noisymax":
            made.add_noisy_max(node.name, node.parents, _noisy_max(made, node))
            continue
        if node.kind == "deterministic":
            place = {state: k for k, state in enumerate(node.states)}
            if strange := [state for state in node.values if state not in place]:
                raise DataError(f"{what} has the result '{strange[0]}', which is none of its states")
            values = np.eye(len(node.states))[[place[state] for state in node.values]].ravel() if node.values else np.empty(0)
        else:
            values = numbers(node.values, what)
        parents = node.parents[::-1] if turned else node.parents
        made.add_table(node.name, parents, values)


def _noisy_max(made: Assembly, node: Node) -> NoisyMax:
    """The causes, with a row for each state of each parent, and the leak."""
    shape, what = made.shape(node.name, node.parents), f"the noisy-max of {node.name}"
    rows, states = sum(shape[:-1]), shape[-1]
    values = numbers(node.values, what)
    if values.size != (rows + 1) * states:
        raise DataError(
            f"{what} has {values.size} values, expected {(rows + 1) * states}: a row for each state of each parent, and the leak"
        )
    parts = np.split(values.reshape(rows + 1, states), list(itertools.accumulate(shape[:-1])))
    strengths = node.strengths or [str(state) for count in shape[:-1] for state in range(count)]
    orders = [strengths[end - count : end] for count, end in zip(shape[:-1], itertools.accumulate(shape[:-1]), strict=True)]
    if len(strengths) != rows or any(sorted(order) != sorted(map(str, range(len(order)))) for order in orders):
        raise DataError(f"the strengths of {node.name} are no orders of its parents' states")
    return NoisyMax([_by_state(part, list(map(int, order))) for part, order in zip(parts, orders, strict=False)], parts[-1][0])


def _by_state(rows: Array, strengths: list[int]) -> Array:
    """Rows in the order of the states.  The weakest state, which has no effect, says whether they are in that order already."""
    idle = np.append(np.zeros(rows.shape[1] - 1), 1.0)
    if np.array_equal(rows[-1], idle) or not np.array_equal(rows[strengths[-1]], idle):
        return rows[np.argsort(strengths)]
    return rows


def read_dsl(text: str, notes: list[str] | None = None) -> Network:
    """The same of the older format."""
    tokens, made = Tokens(text, TOKEN, COMMENT), Assembly()
    tokens.expect("net")
    tokens.next("a name")
    _, blocks = _block(tokens)
    nodes = []
    for name, block in blocks:
        kind, definition = _words(block, "TYPE"), _inner(block, "DEFINITION")
        kinds = {"CPT": "cpt", "NOISY_MAX": "noisymax", "TRUTHTABLE": "deterministic"}
        values = {"noisymax": "PROBABILITIES", "deterministic": "RESULTING_STATES"}
        known = kinds.get(kind[0], kind[0]) if kind else "unknown"
        nodes.append(
            Node(known, name, _words(definition, "NAMESTATES"), _words(block, "PARENTS"),
                 _words(definition, values.get(known, "PROBABILITIES")), _words(definition, "STRENGTHS"))
        )  # fmt: skip
    _assemble(made, nodes, turned=False)
    return _finished(made, notes)


def _finished(made: Assembly, notes: list[str] | None) -> Network:
    network = made.network()
    if notes is not None:
        notes.extend(made.notes)
    return network


Fields = dict[str, "list[str] | Fields"]


def _block(tokens: Tokens, depth: int = 0) -> tuple[Fields, list[tuple[str, Fields]]]:
    """{ KEY = value; … node NAME { … }; … }: the values, and the nodes with those of submodels."""
    if depth > 32:
        raise tokens.error("has more than 32 blocks inside one another")
    tokens.expect("{")
    fields: Fields = {}
    nodes: list[tuple[str, Fields]] = []
    while (key := tokens.next("'}'")) != "}":
        if key in ("node", "submodel"):
            name = tokens.bare(tokens.next("a name"))
            inner, below = _block(tokens, depth + 1)
            nodes += [(name, inner)] if key == "node" else below
        elif key != ";":
            tokens.expect("=")
            fields[key] = _block(tokens, depth + 1)[0] if tokens.peek() == "{" else [tokens.bare(token) for token in tokens.up_to(";")]
    if tokens.peek() == ";":
        tokens.next("';'")
    return fields, nodes


def _words(fields: Fields, key: str) -> list[str]:
    found = fields.get(key, [])
    return [word for word in found if word not in ("(", ")", ",")] if isinstance(found, list) else []


def _inner(fields: Fields, key: str) -> Fields:
    found = fields.get(key, {})
    return found if isinstance(found, dict) else {}


def write_xdsl(network: Network) -> str:
    """A network of conditional distributions, parents before children.  Raises DataError for any other.

    Names that are no identifiers are kept beside the identifiers, as properties that herd reads.
    """
    tables = conditional_tables(network, "XDSL")
    titles = [network.name(i) for i in range(network.count)]
    names = identifiers(titles, "x")
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<smile version="1.0" id="network" numsamples="1000">', "  <nodes>"]
    states = state_names(network)
    for i in _from_parents([parents for parents, _ in tables]):
        parents, table = tables[i]
        own = identifiers(states[i], "s")
        lines.append(f'    <cpt id="{names[i]}">')
        lines += [f'      <state id="{state}" />' for state in own]
        lines += [f"      <parents>{' '.join(names[j] for j in parents)}</parents>"] if parents else []
        lines.append(f"      <probabilities>{' '.join(map(repr, table.ravel().tolist()))}</probabilities>")
        lines += [_property(TITLE, titles[i])] if names[i] != titles[i] else []
        lines += [_property(f"{STATE_TITLE}{k}", state) for k, state in enumerate(states[i])] if own != states[i] else []
        lines.append("    </cpt>")
    lines += ["  </nodes>", "  <extensions>", '    <genie version="1.0" app="herd" name="network">']
    lines += [f'      <node id="{name}"><name>{markup.escape(title)}</name></node>' for name, title in zip(names, titles, strict=True)]
    return "\n".join([*lines, "    </genie>", "  </extensions>", "</smile>"]) + "\n"


def _property(key: str, value: str) -> str:
    return f'      <property id="{key}">{markup.escape(value)}</property>'


def write_dsl(network: Network) -> str:
    """The same in the older format, which keeps the names of variables for the reader's eye alone."""
    tables = conditional_tables(network, "DSL")
    titles = [network.name(i) for i in range(network.count)]
    names, states = identifiers(titles, "x"), state_names(network)
    lines = ["net network", "{"]
    for i in _from_parents([parents for parents, _ in tables]):
        parents, table = tables[i]
        title = titles[i].replace("\\", "\\\\").replace('"', '\\"')
        lines += [f" node {names[i]}", "  {", "   TYPE = CPT;", f'   HEADER = {{ ID = {names[i]}; NAME = "{title}"; }};']
        lines += [f"   PARENTS = ({', '.join(names[j] for j in parents)});", "   DEFINITION =", "    {"]
        lines += [f"     NAMESTATES = ({', '.join(identifiers(states[i], 's'))});"]
        lines += [f"     PROBABILITIES = ({', '.join(map(repr, table.ravel().tolist()))});", "    };", "  };"]
    return "\n".join([*lines, "};"]) + "\n"


def _from_parents(parents: Sequence[Sequence[int]]) -> list[int]:
    """The variables, each after its parents."""
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
