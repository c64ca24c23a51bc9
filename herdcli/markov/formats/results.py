"""Evidence files and results as text: UAI evidence in its three layouts, .MAR and .PR."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from herdcli.errors import DataError
from herdcli.markov.formats.text import Words
from herdcli.markov.model.naming import Naming, only_places
from herdcli.markov.model.network import Network, check_state
from herdcli.schema import Array

EMPTY = ["0", "2", "0"]  # what files of merlin that have no evidence hold


def read_evidence(text: str, network: Network) -> dict[int, int]:
    """Variable -> state of a UAI evidence file.

    Layouts: `k v s v s …`; the number of cases (0 or 1), then `k v s …`; one pair `v s` a line.  A lone 0 and an empty file are no
    evidence.  Names of variables and states stand for their numbers.  Raises DataError for what is none of these, or several cases.
    """
    lines = [line.replace("=", " ").split() for line in Words(text).text.splitlines()]
    lines = [line for line in lines if line]
    words = [word for line in lines for word in line]
    if not words or words in (["0"], EMPTY):
        return {}
    if lines[0] == ["0"]:
        raise DataError(f"says that there is no evidence (0), and goes on with '{words[1][:40]}'", hint="begin with the number of pairs")
    if _is_count(words[0], len(words) - 1):
        pairs = words[1:]
    elif lines[0] == ["1"] and len(words) > 1 and _is_count(words[1], len(words) - 2):
        pairs = words[2:]
    elif all(len(line) == 2 for line in lines):
        pairs = words
    elif words[0] == "1" and _is_count(words[1], len(words) - 2):
        pairs = words[2:]
    elif _are_cases(words):
        raise DataError(f"holds {words[0]} cases of evidence, one is read", hint="--evidence-rows takes a table, a row a case")
    else:
        raise DataError(
            "is not an evidence file", hint="expected: the number of pairs, then variable and state of each; or one pair per line"
        )
    found: dict[int, int] = {}
    naming = Naming(network.names)
    for name, state in zip(pairs[::2], pairs[1::2], strict=True):
        i = variable(network, name, naming)
        value = state_of(network, i, state)
        if found.setdefault(i, value) != value:
            raise DataError(f"the evidence gives {network.name(i)} two states, {found[i]} and {value}")
    return found


def _is_count(word: str, rest: int) -> bool:
    return word.isdecimal() and 2 * int(word) == rest


def _are_cases(words: Sequence[str]) -> bool:
    """The number of cases, and of each as many pairs as it says?"""
    at, cases = 1, 0
    while at < len(words) and words[at].isdecimal():
        at += 1 + 2 * int(words[at])
        cases += 1
    return at == len(words) and words[0] == str(cases)


def read_clamp_sets(text: str, network: Network) -> list[list[int]]:
    """Variables of each line, by name or number; `-` is a set without any, empty lines and what follows a # are skipped."""
    lines = [line.partition("#")[0].split() for line in text.splitlines()]
    found = [[variable(network, name) for name in line if line != ["-"]] for line in lines if line]
    if not found:
        raise DataError("holds no clamp set", hint="one set of variables per line, as x1 x3 x5")
    return found


def variable(network: Network, name: str, naming: Naming | None = None) -> int:
    """The number of a variable given by name, number or x and number.  Raises DataError for none of the network.

    naming  that of the network, where many are asked for.
    """
    naming = naming or Naming(network.names)
    found = naming.find(name)
    if found < 0:
        raise DataError(f"there is no variable '{name}'", hint=f"its variables are {_few(network.names)}" if naming.misleading else None)
    if found >= network.count:
        raise DataError(f"there is no variable {found}, there are {network.count} (0 to {network.count - 1})")
    return found


def state_of(network: Network, i: int, name: str) -> int:
    """The number of a state given by name, or by number where the names are no other numbers."""
    own: list[str] = []
    if network.states:
        first = int(network.cardinality[:i].sum())
        own = network.states[first : first + int(network.cardinality[i])]
    if name in own:
        return own.index(name)
    if not name.isdecimal() or not only_places(own):
        raise DataError(f"{network.name(i)} has no state '{name}'", hint=f"its states are {_few(own)}" if own else None)
    check_state(network, i, int(name))
    return int(name)


def _few(names: Sequence[str] | None) -> str:
    return ", ".join((names or [])[:5]) + (" …" if len(names or []) > 5 else "")


def write_mar(marginals: Sequence[Array]) -> str:
    """MAR, then the number of variables, and of each the number of states and their probabilities."""
    cells = [f"{len(p)} {' '.join(map(repr, p.tolist()))}" for p in marginals]
    return f"MAR\n{len(marginals)} {' '.join(cells)}\n"


def write_pr(log_z: float) -> str:
    """PR, then log10 of the partition function."""
    return f"PR\n{float(log_z) / math.log(10)!r}\n"


def write_states(states: Mapping[int, int], whole: bool) -> str:
    """MPE, the number of variables and their states; of some variables MMAP, how many, and variable and state of each."""
    if whole:
        return f"MPE\n{len(states)} {' '.join(str(states[i]) for i in range(len(states)))}\n"
    return f"MMAP\n{len(states)} {' '.join(f'{i} {x}' for i, x in states.items())}\n"


def read_mar(text: str) -> list[Array]:
    """The marginals of a .MAR file; a line with the number of cases (1) may stand before them."""
    words = Words(text)
    if words.next("MAR") != "MAR":
        raise DataError("line 1: a result file of marginals begins with MAR")
    lines = [line.split() for line in text.splitlines() if line.split()]
    if len(lines) > 2 and lines[1] == ["1"]:
        words.next("the number of cases")
    found = [words.numbers(words.integer(f"the states of variable {i}", 1), f"a probability of variable {i}")
             for i in range(words.integer("the number of variables", 1))]  # fmt: skip
    words.finish()
    for i, p in enumerate(found):
        if not np.isfinite(p).all() or (p < 0).any() or abs(p.sum() - 1) > 1e-3:
            raise DataError(f"the marginal of variable {i} is not a distribution")
    return found
