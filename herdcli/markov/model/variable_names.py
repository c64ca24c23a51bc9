"""Lookup of variables and states by name or by number.

Numbers count from 0, and are accepted only if no name is the number of another variable.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from functools import cached_property

QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
MOST_COMPARED = 5000  # names are compared letter by letter only up to this number of names


class VariableNaming:
    """A lookup of variables by name, by number, or by x and number.

    names  the names of all variables, or None.
    """

    def __init__(self, names: Sequence[str] | None) -> None:
        self.names = names

    @cached_property
    def index_by_name(self) -> dict[str, int]:
        """The index of each name."""
        return {name: i for i, name in reversed(list(enumerate(self.names or ())))}

    @cached_property
    def has_misleading_numbers(self) -> bool:
        """Return True if a name is the number of another variable, as in X1, X2, … or 1, 2, …, where x1 could be either."""
        return not numbers_match_indices([name.lower().removeprefix("x") for name in self.names or ()])

    def find_index(self, word: str) -> int:
        """Return the index of a variable, −1 if it is not found.  A number is not checked against the number of variables."""
        if word in self.index_by_name:
            return self.index_by_name[word]
        number = word.removeprefix("x")
        return int(number) if number.isdecimal() and not self.has_misleading_numbers else -1


def numbers_match_indices(names: Sequence[str]) -> bool:
    """Return True if all names that are numbers equal their own index, counted from 0."""
    return all(int(name) == place for place, name in enumerate(names) if name.isdecimal())


def suggest_name(name: str, known_names: Sequence[str], description: str) -> str | None:
    """Return a hint for an unknown name: similar names, or else the first few known names.

    description  the named things, in the plural.
    """
    if not known_names:
        return None
    folded = [each for each in known_names if each.casefold() == name.casefold()]
    near = folded or (_similar_names(name, known_names) if len(known_names) <= MOST_COMPARED else [])
    if near:
        return f"did you mean {' or '.join(repr(each) for each in near[:3])}?"
    return f"its {description} are {', '.join(known_names[:5])}{' …' if len(known_names) > 5 else ''}"


def _similar_names(name: str, known_names: Sequence[str]) -> list[str]:
    from difflib import get_close_matches

    return get_close_matches(name, known_names, n=3, cutoff=0.7)


def strip_quotes(name: str) -> str:
    """Return a name without the quotes around it."""
    return re.sub(r"\\(.)", r"\1", name[1:-1]) if len(name) > 1 and QUOTED.fullmatch(name) else name


def split_names(text: str, separator: str = ",") -> list[str]:
    """Split a list of names, and remove blanks and quotes around them; a separator in quotes is part of a name."""
    cuts = [-1, *find_unquoted(text, separator), len(text)]
    parts = [text[low + 1 : high].strip() for low, high in itertools.pairwise(cuts)]
    return [strip_quotes(part) for part in parts if part]


def find_unquoted(text: str, character: str) -> list[int]:
    """Return the positions of a character outside of quotes."""
    inside = [False] * len(text)
    for found in QUOTED.finditer(text):
        inside[found.start() : found.end()] = [True] * (found.end() - found.start())
    return [at for at, each in enumerate(text) if each == character and not inside[at]]
