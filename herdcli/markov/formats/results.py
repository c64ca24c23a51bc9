"""Results as text, .MAR, .PR and .MPE, and the clamp sets of ups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from herdcli.errors import DataError
from herdcli.markov.formats.evidence import find_variable
from herdcli.markov.formats.tokens import WordStream
from herdcli.markov.model.network import Network
from herdcli.schema import Array


def read_clamp_sets(text: str, network: Network) -> list[list[int]]:
    """Read the variables of each line, by name or number; `-` is an empty set, empty lines and comments after # are skipped."""
    lines = [line.partition("#")[0].split() for line in text.splitlines()]
    found = [[find_variable(network, name) for name in line if line != ["-"]] for line in lines if line]
    if not found:
        raise DataError("has no clamp set", hint="write one set of variables in each line, such as: x1 x3 x5")
    return found


def write_mar(marginals: Sequence[Array]) -> str:
    """Write MAR, then the number of variables, and for each the number of states and their probabilities."""
    cells = [f"{len(p)} {' '.join(map(repr, p.tolist()))}" for p in marginals]
    return f"MAR\n{len(marginals)} {' '.join(cells)}\n"


def write_pr(log_z: float) -> str:
    """Write PR, then log10 of the partition function."""
    return f"PR\n{float(log_z) / math.log(10)!r}\n"


def write_states(states: Mapping[int, int], all_variables: bool) -> str:
    """Write MPE, the number of variables and their states; for some variables MMAP, their number, and variable and state of each."""
    if all_variables:
        return f"MPE\n{len(states)} {' '.join(str(states[i]) for i in range(len(states)))}\n"
    return f"MMAP\n{len(states)} {' '.join(f'{i} {x}' for i, x in states.items())}\n"


def read_mar(text: str) -> list[Array]:
    """Read the marginals of a .MAR file; a line with the number of cases (1) may precede them."""
    words = WordStream(text)
    if words.next("MAR") != "MAR":
        raise DataError("line 1: a UAI result file with marginals begins with MAR, but this file does not")
    lines = [line.split() for line in text.splitlines() if line.split()]
    if len(lines) > 2 and lines[1] == ["1"]:
        words.next("the number of cases")
    found = [words.read_numbers(words.read_integer(f"the states of variable {i}", 1), f"a probability of variable {i}")
             for i in range(words.read_integer("the number of variables", 1))]  # fmt: skip
    words.require_end()
    for i, p in enumerate(found):
        if not np.isfinite(p).all() or (p < 0).any() or abs(p.sum() - 1) > 1e-3:
            raise DataError(f"the marginal of variable {i} is not a distribution: values must be at least 0 and sum to 1")
    return found
