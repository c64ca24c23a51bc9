"""Networks as text: the table of all formats, and UAI models and libDAI factor graphs; the readers take text and open no files.

In UAI tables the last variable varies fastest, in .fg tables the first; .fg contains only nonzero values.
pyAgrum (3.3.1) writes and reads UAI in another order.  In its Bayesian networks the child varies fastest and then the first parent; files
with its comments are read in its order.  Its Markov networks list the variables of a table in another order than the table has.
In Bayesian networks of pgmpy (1.0) the first variable varies fastest; files whose rows sum to one only in this order are read in it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal

import numpy as np

from herdcli.errors import DataError
from herdcli.markov.formats.conditional_tables import fill_missing_rows
from herdcli.markov.formats.tokens import ROUNDED, WordStream
from herdcli.markov.model.network import Factor, Network, build_network, format_product, validate_network
from herdcli.records import dataclass
from herdcli.schema import Array

LARGEST_TABLE = 1 << 28
AGRUM_SCOPE = re.compile(r"(?m)^\d[\d ]*\d {3}# .+$")  # "3 1 7 0   # name": pyAgrum writes the name of the child beside each scope
AGRUM_COUNT = re.compile(r"(?m)^\d+ # nbr Factors")
AGRUM_NOTE = "the tables are read in the order of pyAgrum: the child varies fastest, then the first parent"
PGMPY_NOTE = "the tables are read in the order of pgmpy: the first variable of a table varies fastest, so that rows sum to 1"
AGRUM_MARKOV = "pyAgrum wrote this file and its tables may be in another order than their scopes, so the answers may be wrong"


def read_network(text: str, form: str, *, missing_rows: str | None = None, notes: list[str] | None = None) -> Network:
    """Read a network in one of `FORMATS`.  Raises DataError with line and token.

    missing_rows  "uniform": rows of NaN become uniform distributions.
    notes         receives sentences about changes that the reader made.
    """
    told = notes if notes is not None else []
    return validate_network(fill_missing_rows(FORMATS[form].read(text, told), missing_rows, told))


def write_network(network: Network, form: str) -> str:
    """Return the text of a network in one of `FORMATS`.

    Raises DataError unless every factor is a conditional distribution, except for `uai` and `fg`.
    """
    return FORMATS[form].write(network)


def read_uai(text: str, notes: list[str] | None = None) -> Network:
    """Read MARKOV or BAYES, cardinalities, scopes, tables.  Source: UAI 2014 inference competition, file format."""
    words = WordStream(text)
    written = words.next("MARKOV or BAYES")
    if (preamble := written.upper()) not in ("MARKOV", "BAYES"):
        raise DataError(f"{words.describe_position(0)}: a UAI network begins with MARKOV or BAYES, not with '{written[:40]}'")
    cardinality = words.read_integers(words.read_integer("the number of variables", 1), "a cardinality", 1)
    scopes = []
    for a in range(words.read_integer("the number of factors")):
        scopes.append(words.read_integers(words.read_integer(f"the size of scope {a}"), f"a variable of factor {a}"))
        if scopes[-1] and max(scopes[-1]) >= len(cardinality):
            at, n = words.at - len(scopes[-1]) + int(np.argmax(scopes[-1])), len(cardinality)
            raise DataError(
                f"{words.describe_position(at)}: factor {a} contains variable {max(scopes[-1])}, but the {n} variables are numbered 0 to "
                f"{n - 1}"
            )
    factors: list[Factor] = []
    for a, scope in enumerate(scopes):
        count, size = words.read_integer(f"the number of values of factor {a}"), math.prod(cardinality[i] for i in scope)
        if count != size:
            shape = format_product([cardinality[i] for i in scope])
            raise DataError(
                f"{words.describe_position(words.at - 1)}: factor {a} has {count} values, but its variables have {size} joint states "
                f"({shape})"
            )
        factors.append((tuple(scope), words.read_numbers(count, f"a value of factor {a}")))
    words.require_end()
    factors = _transpose_agrum_tables(factors, cardinality, text, notes)
    if preamble == "BAYES":
        factors = _transpose_pgmpy_tables(factors, cardinality, notes)
    return build_network(cardinality, factors, directed=preamble == "BAYES")


def _transpose_agrum_tables(factors: list[Factor], cardinality: list[int], text: str, notes: list[str] | None) -> list[Factor]:
    """Return the factors of a file; tables of several parents in a Bayesian network of pyAgrum are transposed."""
    told = notes if notes is not None else []
    if AGRUM_COUNT.search(text) and any(len(scope) > 1 for scope, _ in factors):
        told.append(AGRUM_MARKOV)
    children = [scope[-1] if scope else -1 for scope, _ in factors]
    if children != list(range(len(cardinality))) or len(AGRUM_SCOPE.findall(text)) != len(factors):
        return factors
    if all(len(scope) < 3 for scope, _ in factors):
        return factors
    told.append(AGRUM_NOTE)
    made: list[Factor] = []
    for scope, values in factors:
        axes = [*range(len(scope) - 2, -1, -1), len(scope) - 1]
        made.append((scope, values.reshape([cardinality[scope[k]] for k in axes]).transpose(np.argsort(axes))))
    return made


def _transpose_pgmpy_tables(factors: list[Factor], cardinality: list[int], notes: list[str] | None) -> list[Factor]:
    """Return the factors of a Bayesian network; they are transposed if all rows sum to one only if the first variable varies fastest."""
    shapes = [[cardinality[i] for i in scope] for scope, _ in factors]

    def are_conditional(order: Literal["C", "F"]) -> bool:
        tables = (np.ravel(values).reshape(shape, order=order) for shape, (_, values) in zip(shapes, factors, strict=True))
        return all(table.ndim > 0 and bool((np.abs(table.sum(axis=-1) - 1) <= ROUNDED).all()) for table in tables)

    if are_conditional("C") or not are_conditional("F"):
        return factors
    if notes is not None:
        notes.append(PGMPY_NOTE)
    return [(scope, np.ravel(values).reshape(shape, order="F")) for shape, (scope, values) in zip(shapes, factors, strict=True)]


def find_conditional_violation(network: Network) -> str | None:
    """Return the reason why a factor of a directed network is not P(last of its scope | the others); None if there is none."""
    owner: dict[int, int] = {}
    for a, (scope, table) in enumerate(network.factors() if network.directed else ()):
        sums = table.sum(axis=-1) if scope else table
        if (wrong := np.abs(sums - 1) > ROUNDED).any():
            return f"a row of factor {a} sums to {float(sums[wrong][0]):.6g}, not to 1"
        if scope and (first := owner.setdefault(scope[-1], a)) != a:
            return f"factors {first} and {a} are both tables of {network.name(scope[-1])}"
    return None


def write_uai(network: Network) -> str:
    """Write a network in UAI format, the inverse of `read_uai`; numbers are read back as the same float64."""
    lines = [
        "BAYES" if network.directed else "MARKOV",
        str(network.count),
        _format_number_line(network.cardinality),
        str(network.factor_count),
    ]
    factors = list(network.factors())
    lines += [f"{len(scope)} {_format_number_line(scope)}".strip() for scope, _ in factors]
    for _, table in factors:
        lines += ["", str(table.size), _format_number_line(table.ravel())]
    return "\n".join(lines) + "\n"


def read_fg(text: str, notes: list[str] | None = None) -> Network:
    """Read a libDAI factor graph.  Labels may skip numbers; the variables are then those that occur, in order of label."""
    words = WordStream(text)
    cardinality: dict[int, int] = {}
    blocks: list[tuple[list[int], Array]] = []
    for a in range(words.read_integer("the number of factors")):
        blocks.append(_read_factor(words, a, cardinality))
    words.require_end()
    labels = sorted(cardinality)
    index = {label: i for i, label in enumerate(labels)}
    names = None if labels == list(range(len(labels))) else [f"x{label}" for label in labels]
    factors = [(tuple(index[label] for label in scope), table) for scope, table in blocks]
    return build_network([cardinality[label] for label in labels], factors, names=names)


def _read_factor(words: WordStream, a: int, cardinality: dict[int, int]) -> tuple[list[int], Array]:
    """Parse one factor: labels, states, the number of entries, then pairs of index and value; the first variable varies fastest."""
    scope = words.read_integers(words.read_integer(f"the number of variables of factor {a}"), f"a variable of factor {a}")
    states = words.read_integers(len(scope), f"a cardinality of factor {a}", 1)
    for label, count in zip(scope, states, strict=True):
        if cardinality.setdefault(label, count) != count:
            place = words.describe_position(words.at - 1)
            raise DataError(f"{place}: variable {label} has {count} states in factor {a}, but {cardinality[label]} in an earlier factor")
    size = math.prod(states)
    if size > LARGEST_TABLE:
        raise DataError(f"{words.describe_position(words.at - 1)}: factor {a} has {size} values, but herd reads at most {LARGEST_TABLE}")
    table = np.zeros(size)
    entries = words.read_integer(f"the number of entries of factor {a}")
    for _ in range(entries):
        at = words.read_integer(f"an index into factor {a}")
        if at >= size:
            what = f"the table of factor {a}, which has {size} entries, one for each joint state of its variables"
            raise DataError(f"{words.describe_position(words.at - 1)}: entry {at} is outside {what}")
        table[at] = words.read_numbers(1, f"a value of factor {a}")[0]
    return scope, table.reshape(states, order="F").ravel()


def write_fg(network: Network) -> str:
    """Write a libDAI factor graph, the inverse of `read_fg`; a variable in no factor gets a factor of ones, or it would be lost."""
    factors = list(network.factors())
    missing = sorted(set(range(network.count)) - {i for scope, _ in factors for i in scope})
    factors += [((i,), np.ones(network.cardinality[i])) for i in missing]
    lines = [str(len(factors))]
    for scope, table in factors:
        flat = table.ravel(order="F")
        entries = np.flatnonzero(flat)
        lines += ["", str(len(scope)), _format_number_line(scope), _format_number_line(table.shape), str(len(entries))]
        lines += [f"{at} {float(flat[at])!r}" for at in entries.tolist()]
    return "\n".join(lines) + "\n"


def _format_number_line(values: Array | tuple[int, ...]) -> str:
    return " ".join(map(repr, np.asarray(values).tolist()))


@dataclass(frozen=True)
class NetworkFormat:
    """A format, with `read_NAME` and `write_NAME` in a module that is imported when they are called.

    labels  "all": the text contains all names; "identifiers": only those that are identifiers; "none".
    """

    name: str
    module: str
    labels: str

    def read(self, text: str, notes: list[str]) -> Network:
        """Return the network of a text.

        notes  receives sentences about changes that the reader made.
        """
        reader: Callable[[str, list[str]], Network] = self._import_function("read")
        return reader(text, notes)

    def write(self, network: Network) -> str:
        """Return the text of a network."""
        writer: Callable[[Network], str] = self._import_function("write")
        return writer(network)

    def _import_function(self, verb: str) -> Any:
        return getattr(import_module(f"herdcli.markov.formats.{self.module}"), f"{verb}_{self.name}")


FORMATS = {
    found.name: found
    for found in (
        NetworkFormat("uai", "network_formats", "none"),
        NetworkFormat("fg", "network_formats", "none"),
        NetworkFormat("bif", "bif", "all"),
        NetworkFormat("xmlbif", "xmlbif", "all"),
        NetworkFormat("net", "hugin", "all"),
        NetworkFormat("xdsl", "genie", "all"),
        NetworkFormat("dsl", "genie", "identifiers"),
    )
}
