"""Bayesian networks in Hugin's NET language: `node` and `potential` blocks.

Source: Hugin API reference manual, chapter "The NET language".  In data the states of the child vary fastest, then those of the last
parent; rows may have any sum.  `model_data` with NoisyOR (cause, inhibitor, …) is a noisy-or: P(no | causes) = Π inhibitors.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import numpy as np

from herdcli.errors import DataError
from herdcli.markov.formats.conditional_tables import AUXILIARY, extract_conditional_tables, make_unique_identifiers, state_names_or_numbers
from herdcli.markov.formats.network_assembly import NetworkAssembly
from herdcli.markov.formats.tokens import TokenStream, parse_numbers
from herdcli.markov.model.network import Network
from herdcli.markov.model.noisy_max import NoisyMax
from herdcli.schema import Array

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}()=;,|]|[^\s{}()=;,|"%]+')
COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|%[^\n]*')
OTHERS = ("decision", "utility", "continuous", "function", "instance")
_STATES = re.compile(r"(?m)^(\s*states\s*=\s*\()(.*)(\)\s*;\s*)$")
TRUE, FALSE = ("true", "yes", "t", "y"), ("false", "no", "f", "n")


def read_net(text: str, notes: list[str] | None = None) -> Network:
    """Read variables with named states and their conditional probabilities."""
    tokens, made = TokenStream(_STATES.sub(_quote_intervals, text), TOKEN, COMMENT), NetworkAssembly()
    while tokens.peek():
        word = tokens.next("a block")
        if word in ("net", "class"):
            if tokens.peek() != "{":
                tokens.next("a name")
            if word == "net":
                _read_fields(tokens)
            else:
                tokens.expect_token("{")
        elif word in ("discrete", "node"):
            if word == "discrete":
                tokens.expect_token("node")
            _read_node(tokens, made)
        elif word == "potential":
            with tokens.add_line_to_errors():
                _read_potential(tokens, made)
        elif word in OTHERS:
            raise tokens.make_error(f"a {word} node, but herd reads only discrete chance nodes")
        elif word != "}":
            raise tokens.make_error(f"'{word[:40]}' is neither net, node nor potential")
    network = made.assemble_network()
    (notes if notes is not None else []).extend(made.notes)
    return network


def _quote_intervals(match: re.Match[str]) -> str:
    """Return a list of states with quotes around intervals such as [0;1.5[, which pyAgrum writes without them."""
    if '"' in match[2] or ";" not in match[2]:
        return match[0]
    return match[1] + " ".join(f'"{word}"' for word in match[2].split()) + match[3]


def _join_words_to_names(words: list[str], known_names: Collection[str]) -> list[str]:
    """Join words to names of variables, which pgmpy writes with blanks and without quotes; the longest known name is taken."""
    found, at = [], 0
    while at < len(words):
        end = next((end for end in range(len(words), at + 1, -1) if " ".join(words[at:end]) in known_names), at + 1)
        found.append(" ".join(words[at:end]))
        at = end
    return found


def _read_fields(tokens: TokenStream) -> dict[str, list[str]]:
    """Parse `{ name = value; … }`; return the tokens of each value."""
    tokens.expect_token("{")
    found: dict[str, list[str]] = {}
    while (name := tokens.next("'}'")) != "}":
        tokens.expect_token("=")
        found[name] = tokens.read_tokens_until(";")
    return found


def _read_node(tokens: TokenStream, assembly: NetworkAssembly) -> None:
    name = tokens.next("a name")
    while tokens.peek() not in ("{", ""):
        name += " " + tokens.next("'{'")
    fields = _read_fields(tokens)
    with tokens.add_line_to_errors():
        states = [tokens.without_quotes(token) for token in fields.get("states", []) if token not in "(),"]
        if not states and (fields.get("subtype") == ["boolean"]):
            states = ["false", "true"]
        assembly.declare_variable(name, states)
    if "herd_name" in fields:
        assembly.titles[name] = tokens.without_quotes(fields["herd_name"][0])
    if AUXILIARY in fields:
        assembly.auxiliary.add(name)


def _read_potential(tokens: TokenStream, assembly: NetworkAssembly) -> None:
    tokens.expect_token("(")
    scope = tokens.read_tokens_until(")")
    cut = scope.index("|") if "|" in scope else len(scope)
    child, parents = (
        _join_words_to_names([word for word in words if word != ","], assembly.states.keys()) for words in (scope[:cut], scope[cut + 1 :])
    )
    if len(child) != 1:
        raise DataError(
            f"a potential is a joint table of {len(child)} variables, but herd reads only tables of one variable given its parents"
        )
    fields = _read_fields(tokens)
    model = fields.get("model_data", [])
    if any(word.lower() == "noisyor" for word in model) and not fields.get("model_nodes", ["(", ")"])[1:-1]:
        assembly.add_noisy_max(child[0], parents, _read_noisy_or(child[0], parents, model, assembly))
        return
    data = [word for word in fields.get("data", []) if word not in "(),"]
    if model and not data:
        raise DataError(f"the table of {child[0]} is given by the expression {' '.join(model)[:60]}, which herd does not read",
                        hint="compile the network in Hugin and save it with its tables")  # fmt: skip
    assembly.add_table(child[0], parents, parse_numbers(data, f"the table of {child[0]}"), normalise=True)


def _read_noisy_or(child: str, parents: list[str], model: list[str], assembly: NetworkAssembly) -> NoisyMax:
    """Parse the causes and the leak of NoisyOR (A, q, B, q, …); `true` as a cause is the leak."""
    words = [word for word in model if word not in "(),"][1:]
    assembly.table_shape(child, parents)
    if len(words) % 2 or any(len(assembly.states[name]) != 2 for name in (child, *parents)):
        raise DataError(f"the NoisyOR of {child} needs two-state variables, and one inhibitor for each cause")
    inhibitors = dict(zip(words[::2], parse_numbers(words[1::2], f"the NoisyOR of {child}").tolist(), strict=True))
    leak = float(np.prod([inhibitors.pop(word) for word in list(inhibitors) if word.lower() in ("true", "1")]))
    if strange := sorted(set(inhibitors) ^ set(parents)):
        raise DataError(
            f"the NoisyOR of {child} must have an inhibitor for each parent and for no other variable; {strange[0]} is only in one of "
            "the two lists"
        )
    on = _true_state_index(assembly.states[child])

    def distribution(inhibitor: float) -> Array:
        return np.array([1 - inhibitor, inhibitor] if on == 0 else [inhibitor, 1 - inhibitor])

    causes = []
    for name in parents:
        rows = [distribution(1.0), distribution(1.0)]
        rows[_true_state_index(assembly.states[name])] = distribution(inhibitors[name])
        causes.append(np.array(rows))
    return NoisyMax(causes, distribution(leak), rising=on == 1)


def _true_state_index(states: list[str]) -> int:
    """Return which of two states is true: by its name, otherwise the second, as in Hugin's Boolean nodes."""
    low = [state.lower() for state in states]
    return 0 if low[0] in TRUE or low[1] in FALSE else 1


def write_net(network: Network) -> str:
    """Write a network of conditional distributions, one per variable.  Raises DataError for other networks.

    Names that are not identifiers are stored in addition to the identifiers, in a field that herd reads.
    """
    tables = extract_conditional_tables(network, "NET")
    titles = [network.name(i) for i in range(network.count)]
    names = make_unique_identifiers(titles, "x")
    lines = ["net", "{", "}"]
    for i, (name, title, states) in enumerate(zip(names, titles, state_names_or_numbers(network), strict=True)):
        lines += [f"node {name}", "{", f"    states = ({' '.join(map(_quote_text, states))});", f"    label = {_quote_text(title)};"]
        lines += [f"    herd_name = {_quote_text(title)};"] if name != title else []
        lines += [f'    {AUXILIARY} = "true";'] if i >= network.listed_count else []
        lines.append("}")
    for i, (parents, table) in enumerate(tables):
        given = f" | {' '.join(names[j] for j in parents)}" if parents else ""
        lines += [f"potential ({names[i]}{given})", "{", f"    data = {_format_nested_table(table)};", "}"]
    return "\n".join(lines) + "\n"


def _format_nested_table(table: Array) -> str:
    if table.ndim == 1:
        return f"({' '.join(map(repr, table.tolist()))})"
    return f"({chr(10).join(_format_nested_table(part) for part in table)})"


def _quote_text(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
