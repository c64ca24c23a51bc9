"""Bayesian networks in the Interchange Format (BIF): `variable` and `probability` blocks.

Source: Cozman (1998), The Interchange Format for Bayesian Networks, version 0.15.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from herdcli.errors import DataError
from herdcli.markov.formats.text import ROUNDED, TOO_SMALL, vanished
from herdcli.markov.model.network import Factor, Network, build
from herdcli.schema import Array

K = TypeVar("K", str, int)
_TOKEN = re.compile(r'[^\s{}()\[\],;|"]+|[{}()\[\];|]|"[^"]*"')  # a comma separates as a blank does
_COMMENT = re.compile(r'("[^"]*")|/\*.*?\*/|//[^\n]*', re.DOTALL)  # in quotes, as in "http://…", there is none


class _Reader:
    """Tokens; where they are is looked up when somebody has to be told."""

    def __init__(self, text: str) -> None:
        self.text = _COMMENT.sub(lambda found: found[1] or re.sub(r"[^\n]", " ", found[0]), text) if "/" in text else text
        self.tokens: list[str] = _TOKEN.findall(self.text)
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self, what: str) -> str:
        if self.at == len(self.tokens):
            raise self.short(what)
        self.at += 1
        return self.tokens[self.at - 1].strip('"')

    def short(self, what: str) -> DataError:
        """DataError about a text that ends too soon."""
        lines = self.text.rstrip().count("\n") + 1
        return DataError(f"ends at line {lines} where {what} is expected", hint="is the file cut short?")

    def expect(self, token: str) -> None:
        found = self.next(f"'{token}'")
        if found != token:
            raise self.error(f"'{found[:40]}' where '{token}' is expected")

    def error(self, message: str) -> DataError:
        """DataError about the last token."""
        found = next(itertools.islice(_TOKEN.finditer(self.text), self.at - 1, None))
        line = self.text.count("\n", 0, found.start()) + 1
        return DataError(f"line {line}: {message}")

    def names(self, end: str) -> list[str]:
        """Words up to a closing token, with or without commas between them."""
        try:
            closing = self.tokens.index(end, self.at)
        except ValueError:
            self.at = len(self.tokens)
            raise self.short(f"'{end}'") from None
        found = self.tokens[self.at : closing]
        self.at = closing + 1
        return [word.strip('"') for word in found] if any('"' in word for word in found) else found

    def numbers(self) -> Array:
        words = self.names(";")
        try:
            values = np.array(list(map(float, words)))
        except ValueError:
            raise self.error(f"'{' '.join(words)[:40]}' are not numbers") from None
        if (lost := vanished(words, values)) is not None:
            raise self.error(TOO_SMALL.format(words[lost][:40]))
        return values

    def skip_property(self) -> None:
        while self.next("';'") != ";":
            pass


def read_bif(text: str) -> Network:
    """Variables with named states and their conditional probabilities; scopes are the parents, then the child."""
    reader = _Reader(text)
    states: dict[str, list[str]] = {}
    found: list[tuple[list[str], Array]] = []
    given: set[str] = set()
    while reader.peek():
        block = reader.next("a block")
        if block == "network":
            reader.next("a name")
            reader.expect("{")
            while reader.next("'}'") != "}":
                pass
        elif block == "variable":
            name = reader.next("a name")
            if name in states:
                raise reader.error(f"variable {name} is declared twice")
            states[name] = _variable(reader, name)
        elif block == "probability":
            found.append(_probability(reader, states))
            if (child := found[-1][0][-1]) in given:
                raise reader.error(f"variable {child} has a second probability block")
            given.add(child)
        else:
            raise reader.error(f"'{block[:40]}' is neither network, variable nor probability")
    names = list(states)
    if missing := [name for name in names if name not in given]:
        raise DataError(f"variable {missing[0]} has no probability block")
    if circle := _circle({scope[-1]: scope[:-1] for scope, _ in found}):
        raise DataError(f"the parents go round in a circle: {' ← '.join(circle)}", hint="a Bayesian network has none")
    index = {name: i for i, name in enumerate(names)}
    factors: list[Factor] = [(tuple(index[name] for name in scope), table) for scope, table in found]
    every = [state for name in names for state in states[name]]
    return build([len(states[name]) for name in names], factors, names=names, states=every, directed=True)


def _circle(parents: Mapping[K, Sequence[K]]) -> list[K]:
    """Variables each of which has the next as a parent, the last being the first again; none where no walk up comes back."""
    left = {child: set(above) for child, above in parents.items()}
    children: dict[K, list[K]] = {}
    for child, above in left.items():
        for parent in above:
            children.setdefault(parent, []).append(child)
    done = [child for child, above in left.items() if not above]
    for parent in done:  # grows as it goes (Kahn 1962)
        del left[parent]
        for child in children.get(parent, ()):
            left[child].discard(parent)
            if not left[child]:
                done.append(child)
    walk = list(left)[:1]
    while walk and walk[-1] not in walk[:-1]:
        walk.append(min(left[walk[-1]], key=str))
    return walk[walk.index(walk[-1]) :] if walk else []


def _variable(reader: _Reader, name: str) -> list[str]:
    """type discrete [ n ] { a, b };  and properties, which are skipped."""
    reader.expect("{")
    found: list[str] = []
    while (token := reader.next("'}'")) != "}":
        if token == "type":
            if reader.next("discrete") != "discrete":
                raise reader.error(f"variable {name} is not discrete")
            reader.expect("[")
            count = reader.next("the number of states")
            reader.expect("]")
            reader.expect("{")
            found = reader.names("}")
            reader.expect(";")
            if not count.isdigit() or int(count) != len(found) or not found:
                raise reader.error(f"variable {name} declares {count} states and names {len(found)}")
            if len(set(found)) < len(found):
                raise reader.error(f"variable {name} has two states '{next(state for state in found if found.count(state) > 1)}'")
        else:
            reader.skip_property()
    if not found:
        raise reader.error(f"variable {name} has no type")
    return found


def _probability(reader: _Reader, states: dict[str, list[str]]) -> tuple[list[str], Array]:
    """( child | parents ) with one row a configuration of the parents, or a whole table."""
    reader.expect("(")
    names = reader.names(")")
    child, parents = names[0] if names else "", [name for name in names[1:] if name != "|"]
    for name in [child, *parents]:
        if name not in states:
            raise reader.error(f"variable {name} is not declared")
    shape = [len(states[name]) for name in parents] + [len(states[child])]
    table = np.full(shape, np.nan)
    reader.expect("{")
    place = [{state: k for k, state in enumerate(states[name])} for name in parents]
    seen: set[tuple[int, ...]] = set()
    while (token := reader.next("'}'")) != "}":
        if token == "table":
            values = reader.numbers()
            if len(values) != math.prod(shape):
                raise reader.error(f"the table of {child} has {len(values)} values, expected {math.prod(shape)}")
            table = np.moveaxis(values.reshape(shape[-1], *shape[:-1]), 0, -1)  # the child's states run slowest
        elif token in ("(", "default"):
            rows = _row_index(reader, child, parents, place) if token == "(" else np.isnan(table[..., 0])
            if isinstance(rows, tuple) and rows in seen:
                raise reader.error(f"a row of {child} is given twice")
            seen |= {rows} if isinstance(rows, tuple) else set()
            values = reader.numbers()
            if len(values) != shape[-1]:
                raise reader.error(f"a row of {child} has {len(values)} values, the variable has {shape[-1]} states")
            table[rows] = values
        else:
            reader.skip_property()
    if np.isnan(table).any():
        raise reader.error(f"the table of {child} has no row for {int(np.isnan(table[..., 0]).sum())} states of its parents")
    if (wrong := np.abs((sums := table.sum(axis=-1)) - 1) > ROUNDED).any():
        raise reader.error(f"a row of {child} sums to {float(sums[wrong][0]):.6g}, not to 1")
    return [*parents, child], table


def _row_index(reader: _Reader, child: str, parents: list[str], place: list[dict[str, int]]) -> tuple[int, ...]:
    given = reader.names(")")
    if len(given) != len(parents):
        raise reader.error(f"a row of {child} names {len(given)} states, the variable has {len(parents)} parents")
    try:
        return tuple([numbers[state] for numbers, state in zip(place, given, strict=True)])
    except KeyError:
        name, state = next((name, state) for name, numbers, state in zip(parents, place, given, strict=True) if state not in numbers)
        raise reader.error(f"variable {name} has no state '{state}'") from None


def write_bif(network: Network) -> str:
    """A network of conditional distributions, one a variable.  Raises DataError for any other."""
    factors = {scope[-1]: (scope, table) for scope, table in network.factors() if scope}
    proper = all(np.allclose(table.sum(axis=-1), 1, rtol=0, atol=1e-4) for _, table in factors.values())
    if len(factors) != network.count or network.factor_count != network.count or not proper:
        raise DataError("is not a Bayesian network, the only kind that BIF can hold", hint="write UAI or HDF5: -o FILE.uai")
    if _circle({scope[-1]: scope[:-1] for scope, _ in factors.values()}):
        raise DataError("is not a Bayesian network, the only kind that BIF can hold: its factors go round in a circle",
                        hint="write UAI or HDF5: -o FILE.uai")  # fmt: skip
    names = [_quoted(network.name(i)) for i in range(network.count)]
    states = _state_names(network)
    lines = ["network unknown {", "}"]
    for i, name in enumerate(names):
        lines += [f"variable {name} {{", f"  type discrete [ {len(states[i])} ] {{ {', '.join(states[i])} }};", "}"]
    for i, (scope, table) in sorted(factors.items()):
        parents = ", ".join(names[j] for j in scope[:-1])
        lines.append(f"probability ( {names[i]}{f' | {parents}' if parents else ''} ) {{")
        for at in itertools.product(*(range(int(network.cardinality[j])) for j in scope[:-1])):
            head = f"({', '.join(states[j][k] for j, k in zip(scope[:-1], at, strict=True))})" if at else "table"
            lines.append(f"  {head} {', '.join(map(repr, table[at].tolist()))};")
        lines.append("}")
    return "\n".join(lines) + "\n"


def _state_names(network: Network) -> list[list[str]]:
    counts = network.cardinality.tolist()
    if network.states is None:
        return [[f"s{k}" for k in range(count)] for count in counts]
    ends = list(itertools.accumulate(counts, initial=0))
    return [[_quoted(state) for state in network.states[low:high]] for low, high in itertools.pairwise(ends)]


def _quoted(name: str) -> str:
    """A name as a word, else in quotes.  Raises DataError for one with quotes in it, which BIF cannot write."""
    if '"' in name:
        raise DataError(f"the name {name[:40]} has quotes in it, for which BIF has no sign", hint="write HDF5: -o FILE.h5")
    return name if re.fullmatch(r'[^\s{}()\[\],;|"]+', name) and "//" not in name and "/*" not in name else f'"{name}"'
