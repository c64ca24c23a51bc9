"""Evidence as text: the layouts of UAI files, one pair of names per line, JSON, CSV, and pairs on the command line.

Names of variables and states may contain any characters that a network file allows; quotes around them are removed.  In a file of numbers
only, variables and states count from 0, as in UAI.  Elsewhere a name has precedence over a number, and an ambiguous number is reported.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from herdcli.errors import DataError
from herdcli.markov.formats.evidence_tables import parse_json_or_csv_pairs
from herdcli.markov.model.network import Network, require_state
from herdcli.markov.model.variable_names import QUOTED, VariableNaming, find_unquoted, numbers_match_indices, strip_quotes, suggest_name
from herdcli.schema import boolean_level_index

EMPTY = ["0", "2", "0"]  # content of merlin's files without evidence
EXPECTED = "write the number of pairs, then variable and state of each; or one pair per line"
_WORD = re.compile(r'"(?:[^"\\]|\\.)*"|\S+')
Pair = tuple[int, int]


def read_evidence(text: str, network: Network, notes: list[str] | None = None) -> dict[int, int]:
    """Read an evidence file; return variable -> state.

    Layouts: `k v s v s …`; the number of cases (0 or 1), then `k v s …`; one pair `v s` or `v=s` per line; a JSON object; CSV with the
    columns `variable` and `state`.  A single 0 and an empty file are no evidence; lines that begin with # are comments, unless the # begins
    the name of a variable.  Raises DataError for other layouts, and for several cases.

    notes  receives the interpretation of numbers that could also be names.
    """
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not _is_comment(line, network)]
    naming, told = VariableNaming(network.listed_names), notes if notes is not None else []
    if (written := parse_json_or_csv_pairs(text, lines)) is not None:
        return _merge_pairs(network, [_pair_by_name(network, v, s, told, naming) for v, s in written])
    if any("=" in QUOTED.sub("", line) for line in lines):
        try:
            return _merge_pairs(network, [_parse_pair(line, network, told, naming) for line in lines])
        except DataError:
            words = _split_words([QUOTED.sub(lambda found: found[0], line).replace("=", " ") for line in lines])
            if not _is_pair_count(words[0], len(words) - 1):
                raise
            lines = [" ".join(words)]
    plain = [re.sub(r"\s#.*", "", line) for line in lines]
    words = _split_words(plain)
    if not words or words in (["0"], EMPTY):
        return {}
    pairs = _parse_pairs([_split_words([line]) for line in plain], words)
    if all(word.isdecimal() and word.isascii() for word in words):
        if pairs is None:
            raise DataError("is not an evidence file: no pairs of variable and state can be read from it", hint=EXPECTED)
        return _merge_pairs(network, [_pair_by_index(network, int(v), int(s), told) for v, s in pairs])
    if pairs is None:
        return _merge_pairs(network, [_parse_spaced_pair(line, network, told, naming) for line in lines])
    return _merge_pairs(network, [_pair_by_name(network, v, s, told, naming) for v, s in pairs])


def _is_comment(line: str, network: Network) -> bool:
    """Return whether a line begins with #, but not with the name of a variable."""
    marked = [name for name in network.listed_names or () if name.startswith("#")] if line.startswith("#") else []
    return line.startswith("#") and not any(re.match(r"\s*[=,\s]", line[len(name) :]) for name in marked if line.startswith(name))


def parse_assignment(text: str, network: Network, notes: list[str], naming: VariableNaming | None = None) -> Pair:
    """Parse NAME=STATE; if it can be divided at several places, use the one where both names are known.

    Raises DataError if there is no such place, or more than one.
    """
    naming = naming or VariableNaming(network.listed_names)
    tries = [text, cut] if (cut := re.sub(r"\s#.*", "", text)) != text else [text]
    for each in tries:
        parts = [(each[:at].strip(), each[at + 1 :].strip()) for at in find_unquoted(each, "=")]
        if (found := _unique_split(network, parts, text, naming)) is not None:
            return _pair_with_note(network, *found, notes)
    name, _, state = text.partition("=")
    if not find_unquoted(text, "="):
        raise DataError(f"'{text[:60]}' is not evidence of the form NAME=STATE")
    return _pair_by_name(network, name.strip(), state.strip(), notes, naming)  # reports which of the two names is unknown


def _parse_pair(line: str, network: Network, notes: list[str], naming: VariableNaming) -> Pair:
    """Parse the variable and the state of a line, with or without an equals sign between them."""
    return (parse_assignment if find_unquoted(line, "=") else _parse_spaced_pair)(line, network, notes, naming)


def _parse_spaced_pair(line: str, network: Network, notes: list[str], naming: VariableNaming) -> Pair:
    """Parse the variable and the state of a line whose names may contain blanks without quotes."""
    parts = [(line[: blank.start()].strip(), line[blank.end() :].strip()) for blank in re.finditer(r"\s+", line)]
    if (found := _unique_split(network, parts, line, naming)) is None:
        raise DataError(
            "is not an evidence file: no pairs of variable and state can be read from it", hint=f"{EXPECTED}, such as NAME=STATE"
        )
    return _pair_with_note(network, *found, notes)


def _unique_split(network: Network, parts: Sequence[tuple[str, str]], text: str, naming: VariableNaming) -> tuple[int, str] | None:
    """Return the variable and the written state of the only division that fits.  Raises DataError if several fit."""
    fitting = {}
    for name, state in parts:
        i = naming.find_index(strip_quotes(name))
        if 0 <= i < network.listed_count and _state_index(network, i, strip_quotes(state)) is not None:
            fitting[name, state] = (i, strip_quotes(state))
    if len(fitting) > 1:
        raise DataError(f"'{text[:60]}' can be read in several ways", hint='put names into quotes: "NAME"="STATE"')
    return next(iter(fitting.values()), None)


def _split_words(lines: Sequence[str]) -> list[str]:
    return [strip_quotes(word) for line in lines for word in _WORD.findall(line)]


def _parse_pairs(lines: Sequence[list[str]], words: list[str]) -> list[tuple[str, str]] | None:
    """Return variables and states as written; None if no layout fits.  Raises DataError for several cases."""
    lines = [line for line in lines if line]
    if lines[0] == ["0"]:
        raise DataError(
            f"the file says that it has 0 pairs of evidence, but continues with '{words[1][:40]}'", hint="write the number of pairs first"
        )
    if _is_pair_count(words[0], len(words) - 1):
        found = words[1:]
    elif lines[0] == ["1"] and len(words) > 1 and _is_pair_count(words[1], len(words) - 2):
        found = words[2:]
    elif all(len(line) == 2 for line in lines):
        found = words
    elif words[0] == "1" and len(words) > 1 and _is_pair_count(words[1], len(words) - 2):
        found = words[2:]
    elif _are_cases(words):
        raise DataError(
            f"has {words[0]} cases of evidence, but --evidence reads only one",
            hint="use --evidence-rows with a table that has a row for each case",
        )
    else:
        return None
    return list(zip(found[::2], found[1::2], strict=True))


def _is_pair_count(word: str, remaining: int) -> bool:
    return word.isdecimal() and word.isascii() and len(word) < 20 and 2 * int(word) == remaining


def _are_cases(words: Sequence[str]) -> bool:
    """Return True if the words are the number of cases, followed by that many cases, each with its number of pairs."""
    at, cases = 1, 0
    while at < len(words) and words[at].isdecimal():
        at += 1 + 2 * int(words[at])
        cases += 1
    return at == len(words) and words[0] == str(cases)


def _merge_pairs(network: Network, pairs: Sequence[Pair]) -> dict[int, int]:
    found: dict[int, int] = {}
    for i, state in pairs:
        if found.setdefault(i, state) != state:
            first, second = (network.state_name(i, k) for k in (found[i], state))
            raise DataError(f"the evidence gives variable {network.name(i)} two different states, {first} and {second}")
    return found


def _pair_by_index(network: Network, i: int, state: int, notes: list[str]) -> Pair:
    """Return a pair of a file that contains only numbers."""
    if i >= network.listed_count:
        raise DataError(f"there is no variable {i}: the network has {network.listed_count}, numbered 0 to {network.listed_count - 1}")
    if (
        i < network.listed_count
        and all(re.fullmatch(r"x\d+", name) for name in network.listed_names or ("",))
        and VariableNaming(network.listed_names).has_misleading_numbers
    ):
        find_variable(network, str(i))  # raises DataError: labels of a factor graph that skip numbers
    require_state(network, i, state)
    named = VariableNaming(network.listed_names).index_by_name.get(str(i), i)
    own = network.states_of(i)
    if named != i:
        notes.append(f"an evidence file of numbers counts variables from 0: {i} is {network.name(i)}, not the variable with the name {i}")
    if str(state) in own and own.index(str(state)) != state:
        notes.append(
            f"a file of numbers counts states from 0: {state} of {network.name(i)} is its state {own[state]}, not the state named {state}"
        )
    return i, state


def _pair_by_name(network: Network, name: str, state: str, notes: list[str], naming: VariableNaming) -> Pair:
    i = find_variable(network, strip_quotes(name), naming)
    find_state(network, i, strip_quotes(state))
    return _pair_with_note(network, i, strip_quotes(state), notes)


def _pair_with_note(network: Network, i: int, state: str, notes: list[str]) -> Pair:
    """Return a variable and the number of its state; add a note if the state's name is the number of another state."""
    place, own = find_state(network, i, state), network.states_of(i)
    if state in own and state.isdecimal() and int(state) != place and int(state) < len(own):
        notes.append(
            f"{network.name(i)}={state} is read as the state named {state}, not as state number {state}, which is {own[int(state)]}"
        )
    return i, place


def find_variable(network: Network, name: str, naming: VariableNaming | None = None) -> int:
    """Return the number of a variable given by name, number or x and number.  Raises DataError if the network has no such variable.

    naming  the network's naming, for repeated calls.
    """
    naming = naming or VariableNaming(network.listed_names)
    found = naming.find_index(name)
    if found < 0:
        raise DataError(f"there is no variable '{name}'", hint=suggest_name(name, network.listed_names or (), "variables"))
    if found >= network.listed_count:
        raise DataError(f"there is no variable {found}: the network has {network.listed_count}, numbered 0 to {network.listed_count - 1}")
    return found


def find_state(network: Network, i: int, name: str) -> int:
    """Return the number of a state given by name, or by number if no name is the number of another state."""
    if (place := _state_index(network, i, name)) is not None:
        return place
    own = network.states_of(i)
    if name.isdecimal() and numbers_match_indices(own):
        require_state(network, i, int(name))
    raise DataError(f"{network.name(i)} has no state '{name}'", hint=suggest_name(name, own, "states") if own else None)


def _state_index(network: Network, i: int, name: str) -> int | None:
    own = network.states_of(i)
    if name in own:
        return own.index(name)
    if (truth := boolean_level_index(name, own)) is not None:
        return truth
    fits = name.isdecimal() and numbers_match_indices(own) and int(name) < int(network.cardinality[i])
    return int(name) if fits else None
