"""Bayesian networks in the Interchange Format (BIF): `variable` and `probability` blocks, with keywords in any case.

Source: Cozman (1998), The Interchange Format for Bayesian Networks, version 0.15.
"""

from __future__ import annotations

import itertools
import math
import re

import numpy as np

from herdcli.errors import DataError
from herdcli.markov.formats.conditional_tables import AUXILIARY_MARK, extract_conditional_tables, state_names_or_numbers
from herdcli.markov.formats.network_assembly import NetworkAssembly
from herdcli.markov.formats.tokens import ROUNDED, TOO_SMALL, TokenStream, find_first_underflow
from herdcli.markov.model.network import Network
from herdcli.schema import Array

_TOKEN = re.compile(r'[^\s{}()\[\],;|"]+|[{}()\[\];|]|"[^"]*"')  # a comma separates like a blank
_COMMENT = re.compile(r'("[^"]*")|/\*.*?\*/|//[^\n]*', re.DOTALL)  # text in quotes, as in "http://…", contains no comment
_NO_COMMENT = re.compile(r"(?!)")


class _BIFTokens(TokenStream):
    """A stream of BIF tokens; quotes around words are removed."""

    def __init__(self, text: str) -> None:
        super().__init__(text, _TOKEN, _COMMENT if "/" in text else _NO_COMMENT)

    def next(self, description: str) -> str:
        """Return the next token without its quotes."""
        return super().next(description).strip('"')

    def next_keyword(self, description: str) -> str:
        """Return the next token in lower case; a closing bracket in quotes does not count as one."""
        raw = self.peek()
        found = self.next(description).lower()
        return f'"{found}"' if raw.startswith('"') else found

    def names(self, end: str) -> list[str]:
        """Return the words before a closing token, with or without commas between them."""
        found = self.read_tokens_until(end)
        return [word.strip('"') for word in found] if any('"' in word for word in found) else found

    def read_numbers(self) -> Array:
        """Return the numbers before a semicolon; NA is NaN."""
        words = self.names(";")
        try:
            values = np.array(list(map(float, words)))
        except ValueError:
            words = ["nan" if word == "NA" else word for word in words]
            try:
                values = np.array(list(map(float, words)))
            except ValueError:
                raise self.make_error(f"'{' '.join(words)[:40]}' are not numbers") from None
        if not (plain := "".join(words)).isascii() or "_" in plain:
            raise self.make_error(f"'{' '.join(words)[:40]}' are not numbers")
        if (lost := find_first_underflow(words, values)) is not None:
            raise self.make_error(TOO_SMALL.format(words[lost][:40]))
        return values

    def skip_property(self) -> None:
        """Skip everything up to a semicolon."""
        self.read_tokens_until(";")


def read_bif(text: str, notes: list[str] | None = None) -> Network:
    """Read variables with named states and their conditional probabilities; scopes are the parents, then the child.

    Names with blanks, which BIF requires in quotes, are also read without them, as pgmpy writes them.  Rows of NaN are not changed.
    """
    try:
        return _parse_blocks(text)
    except DataError as error:
        if (quoted := _quote_blanks(text)) == text:
            raise
        try:
            return _parse_blocks(quoted)
        except DataError:
            raise error from None


_NAME_LISTS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r'(\bvariable\s+)([^{}"]+)(\{)',
        r'(\bdiscrete\s*\[\s*\d+\s*\]\s*\{)([^{}"]*,[^{}"]*)(\})',
        r'(\bprobability\s*\()([^(){}"]*)(\))',
        r'([;{]\s*\()([^(){}"|]*)(\))',
    )
)


def _quote_blanks(text: str) -> str:
    """Return the text with quotes around names of variables and states that contain blanks; commas and bars separate names."""

    def quoted(found: re.Match[str]) -> str:
        parts = re.split(r"([,|])", found[2])
        return found[1] + "".join(f' "{part.strip()}" ' if re.search(r"\S\s+\S", part) else part for part in parts) + found[3]

    for pattern in _NAME_LISTS:
        text = pattern.sub(quoted, text)
    return text


def _parse_blocks(text: str) -> Network:
    reader, made = _BIFTokens(text), NetworkAssembly()
    while reader.peek():
        block = reader.next_keyword("a block")
        if block == "network":
            reader.read_tokens_until("{")
            reader.read_tokens_until("}")
        elif block == "variable":
            name = reader.next("a name")
            with reader.add_line_to_errors():
                made.declare_variable(name, _read_variable(reader, name, made.auxiliary))
        elif block == "probability":
            with reader.add_line_to_errors():
                _read_probability(reader, made)
        else:
            raise reader.make_error(f"'{block[:40]}' is neither network, variable nor probability")
    return made.assemble_network("probability block")


def _read_variable(reader: _BIFTokens, name: str, auxiliary: set[str]) -> list[str]:
    """Parse `type discrete [ n ] { a, b };` and properties; all but the mark of auxiliary variables are skipped."""
    reader.expect_token("{")
    found: list[str] = []
    while (token := reader.next_keyword("'}'")) != "}":
        if token == "type":
            if reader.next_keyword("discrete") != "discrete":
                raise reader.make_error(f"variable {name} is not discrete")
            reader.expect_token("[")
            count = reader.next("the number of states")
            reader.expect_token("]")
            reader.expect_token("{")
            found = reader.names("}")
            reader.expect_token(";")
            if not count.isdecimal() or int(count) != len(found) or not found:
                raise reader.make_error(f"variable {name} declares {count} states and names {len(found)}")
        elif reader.read_tokens_until(";") == AUXILIARY_MARK.split():
            auxiliary.add(name)
    if not found:
        raise reader.make_error(f"variable {name} has no type")
    return found


def _read_probability(reader: _BIFTokens, assembly: NetworkAssembly) -> None:
    """Parse `( child | parents )` with one row per configuration of the parents, or a whole table."""
    reader.expect_token("(")
    names = [word.strip('"') for k, word in enumerate(reader.read_tokens_until(")")) if not (k == 1 and word == "|")]
    if not names:
        raise reader.make_error("a probability block names no variable")
    child, parents = names[0], names[1:]
    shape = assembly.table_shape(child, parents)
    if child in assembly.tables:
        raise reader.make_error(f"variable {child} has a second probability block")
    table, given = np.zeros(shape), np.zeros(shape[:-1], dtype=bool)
    reader.expect_token("{")
    place = [{state: k for k, state in enumerate(assembly.states[name])} for name in parents]
    seen: set[tuple[int, ...]] = set()
    while (token := reader.next_keyword("'}'")) != "}":
        if token == "table":
            values = reader.read_numbers()
            if len(values) != math.prod(shape):
                raise reader.make_error(f"the table of {child} has {len(values)} values, expected {math.prod(shape)}")
            table = np.moveaxis(values.reshape(shape[-1], *shape[:-1]), 0, -1)  # the child's states vary slowest
            given[...] = True
        elif token in ("(", "default"):
            rows = _read_row_index(reader, child, parents, place) if token == "(" else ~given
            if isinstance(rows, tuple) and rows in seen:
                raise reader.make_error(f"a row of {child} is given twice")
            seen |= {rows} if isinstance(rows, tuple) else set()
            values = reader.read_numbers()
            if len(values) != shape[-1]:
                raise reader.make_error(f"a row of {child} has {len(values)} values, the variable has {shape[-1]} states")
            table[rows], given[rows] = values, True
        else:
            reader.skip_property()
    if not given.any():
        raise reader.make_error(f"the table of {child} is empty")
    if not given.all():
        raise reader.make_error(f"the table of {child} has no row for {int((~given).sum())} states of its parents")
    if (wrong := np.abs((sums := table.sum(axis=-1)) - 1) > ROUNDED).any():
        raise reader.make_error(f"a row of the table of {child} sums to {float(sums[wrong][0]):.6g}, not to 1")
    assembly.add_table(child, parents, table)


def _read_row_index(reader: _BIFTokens, child: str, parents: list[str], state_positions: list[dict[str, int]]) -> tuple[int, ...]:
    given = reader.names(")")
    if len(given) != len(parents):
        raise reader.make_error(f"a row of {child} names {len(given)} states, the variable has {len(parents)} parents")
    try:
        return tuple([numbers[state] for numbers, state in zip(state_positions, given, strict=True)])
    except KeyError:
        name, state = next(
            (name, state) for name, numbers, state in zip(parents, state_positions, given, strict=True) if state not in numbers
        )
        raise reader.make_error(f"variable {name} has no state '{state}'") from None


def write_bif(network: Network) -> str:
    """Write a network of conditional distributions, one per variable.  Raises DataError for other networks."""
    tables = extract_conditional_tables(network, "BIF")
    names = [_quote_name(network.name(i)) for i in range(network.count)]
    states = [[_quote_name(state) for state in own] for own in state_names_or_numbers(network)]
    lines = ["network unknown {", "}"]
    for i, name in enumerate(names):
        lines += [f"variable {name} {{", f"  type discrete [ {len(states[i])} ] {{ {', '.join(states[i])} }};"]
        lines += [*([f"  property {AUXILIARY_MARK};"] if i >= network.listed_count else []), "}"]
    for i, (parents, table) in enumerate(tables):
        given = ", ".join(names[j] for j in parents)
        lines.append(f"probability ( {names[i]}{f' | {given}' if given else ''} ) {{")
        for at in itertools.product(*(range(int(network.cardinality[j])) for j in parents)):
            head = f"({', '.join(states[j][k] for j, k in zip(parents, at, strict=True))})" if at else "table"
            lines.append(f"  {head} {', '.join(map(repr, table[at].tolist()))};")
        lines.append("}")
    return "\n".join(lines) + "\n"


def _quote_name(name: str) -> str:
    """Return a name as a word, or in quotes if necessary.  Raises DataError for a name that contains quotes, which BIF cannot write."""
    if '"' in name:
        raise DataError(f"the name {name[:40]} contains quotes, which BIF cannot write", hint="write HDF5: -o FILE.h5")
    return name if re.fullmatch(r'[^\s{}()\[\],;|"]+', name) and "//" not in name and "/*" not in name else f'"{name}"'
