"""Choice of the pairs that a model joins: the most probable tree, random pairs close to each other on it, lattices, greedy induction.

Mutual informations are those of the rows, in nats.  Of equal pairs the first is chosen.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from herdcli.errors import BadUsage, DataError
from herdcli.markov.model.random_networks import grid_edges
from herdcli.markov.model.variable_names import QUOTED, VariableNaming, find_unquoted, strip_quotes
from herdcli.rng import Stream, generator
from herdcli.schema import Array

Pair = tuple[int, int]
NAMES = ("chow-liu", "chow-liu+random:P,R", "grid", "full", "independent", "hill-climb", "l1[:PENALTY]", "stability[:HALVES]")

HEADERS = (("from", "to"), ("parent", "child"))  # titles of the columns of a table of edges


def parse_structure(text: str) -> tuple[str, float, int]:
    """Return a structure's name, and the probability and reach of chow-liu+random.  Raises ValueError for an invalid text."""
    if text in ("chow-liu", "grid", "full", "independent", "hill-climb"):
        return text, 0.0, 0
    if (sparse := re.fullmatch(r"l1(?::([0-9.eE+-]+))?", text)) is not None:
        return "l1", _parse_penalty(sparse[1] or "0"), 0
    if (stable := re.fullmatch(r"stability(?::(\d+))?", text)) is not None and stable[1] != "0":
        return "stability", 0.0, int(stable[1] or 50)
    match = re.fullmatch(r"chow-liu\+random:([0-9.eE+-]+),(\d+)", text)
    try:
        probability = float(match[1]) if match else -1.0
    except ValueError:
        probability = -1.0
    if match is None or not 0 <= probability <= 1 or int(match[2]) < 2:
        raise ValueError(f"is none of {', '.join(NAMES)} (P from 0 to 1, R from 2 steps, as chow-liu+random:0.05,6)")
    return "chow-liu+random", probability, int(match[2])


def _parse_penalty(text: str) -> float:
    """Return a penalty; 0 means that it is to be selected.  Raises ValueError unless the text is a number from 0 upwards."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < np.inf:
        raise ValueError("has a penalty that is not a number from 0 upwards, such as l1:0.05")
    return value


def chow_liu_edges(information: Array) -> list[Pair]:
    """Return the spanning tree with the largest total mutual information, as (N−1) pairs i < j.  Source: Chow & Liu (1968)."""
    n = len(information)
    best, parent = np.full(n, -np.inf), np.zeros(n, dtype=np.int64)
    outside = np.ones(n, dtype=bool)
    edges: list[Pair] = []
    i = 0
    for _ in range(n - 1):
        outside[i] = False
        # Prim's algorithm.  The best mean log-likelihood of a tree is Σ_(ij) I(i, j) − Σ_i H(i), and only the first sum depends on the tree
        # (Chow & Liu 1968).
        better = outside & (information[i] > best)
        best[better], parent[better] = information[i][better], i
        i = int(np.argmax(np.where(outside, best, -np.inf)))
        edges.append((min(i, int(parent[i])), max(i, int(parent[i]))))
    return sorted(edges)


def graph_distances(nodes: int, edges: Sequence[Pair], max_distance: int) -> Array:
    """Return the distances (N, N) between nodes of a graph, in steps; `max_distance` + 1 for nodes that are further apart."""
    joined = np.zeros((nodes, nodes), dtype=bool)
    for i, j in edges:
        joined[i, j] = joined[j, i] = True
    found = np.full((nodes, nodes), max_distance + 1)
    np.fill_diagonal(found, 0)
    now = np.eye(nodes, dtype=bool)
    for step in range(1, max_distance + 1):
        now = (now.astype(np.float32) @ joined.astype(np.float32)) > 0
        found[now & (found > step)] = step
    return found


def add_random_near_pairs(nodes: int, tree: Sequence[Pair], probability: float, max_distance: int, seed: int) -> list[Pair]:
    """Add random pairs to a tree: each pair at most `max_distance` steps apart on it, with a probability.  Source: Teh (2003), sec. 6.6."""
    apart = graph_distances(nodes, tree, max_distance)
    i, j = np.nonzero(np.triu((apart > 1) & (apart <= max_distance)))
    chosen = generator(seed, Stream.STRUCTURE).random(len(i)) < probability
    return sorted([*tree, *zip(i[chosen].tolist(), j[chosen].tolist(), strict=True)])


def structure_pairs(
    kind: str, probability: float, max_distance: int, nodes: int, information: Array | None, shape: Array | None, seed: int
) -> list[Pair]:
    """Return the pairs of a structure.  Raises BadUsage if the data are not suitable for it."""
    if kind == "independent":
        return []
    if kind == "full":
        return list(combinations(range(nodes), 2))
    if kind == "grid":
        if shape is None or int(np.prod(shape)) != nodes:
            raise BadUsage("--structure grid needs images, that is rows with an image_shape", hint="list the pairs in a file: --edges FILE")
        return [(int(i), int(j)) for i, j in grid_edges(int(shape[0]), int(shape[1]))]
    if information is None:
        raise BadUsage(f"--structure {kind} needs rows, but --moments has none")
    tree = chow_liu_edges(information)
    return tree if kind == "chow-liu" else add_random_near_pairs(nodes, tree, probability, max_distance, seed)


def read_scopes(text: str, names: Sequence[str] | None, nodes: int, size: int | None = None) -> list[tuple[int, ...]]:
    """Read one cluster of variables per line, by name, by number, or by x and number; # begins a comment.

    size  required number of variables per line.

    Commas, blanks and arrows separate variables.  Blanks do not if names contain some and commas, tabs or arrows separate the names.
    Names may be quoted.  Of pairs the first line may be a header (`from,to` or `parent,child`), unless variables have these names.
    """
    naming = VariableNaming(names)
    found: list[tuple[int, ...]] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = _split_scope(line, naming, size)
        if not words or (size == 2 and not found and _is_header(words, naming)):
            continue
        if size is not None and len(words) != size:
            raise DataError(
                f"line {number} has {len(words)} variables, but an edge has {size}", hint='put names with blanks into quotes: "a b"'
            )
        scope = []
        for word in words:
            i = naming.find_index(word)
            if i < 0:
                raise DataError(f"line {number}: there is no variable '{word}'")
            if i >= nodes:
                raise DataError(f"line {number}: there is no variable {i}: the {nodes} variables are numbered 0 to {nodes - 1}")
            scope.append(i)
        if len(set(scope)) != len(scope):
            raise DataError(f"line {number} contains a variable twice")
        found.append(tuple(scope))
    if not found:
        raise DataError("has no variables", hint="write one cluster into each line, such as: 0 1")
    return found


def _is_header(words: Sequence[str], naming: VariableNaming) -> bool:
    """Return True for the column titles that bnlearn and tables of edges have, if no variable has such a name."""
    titles = tuple(word.lower() for word in words)
    return titles in HEADERS and all(naming.find_index(word) < 0 for word in words)


def _split_scope(line: str, naming: VariableNaming, size: int | None) -> list[str]:
    """Return the words of a line before its comment."""
    line = line[: next(iter(find_unquoted(line, "#")), len(line))]
    whole = _split_unquoted(line, r"->|→|[,\t]")
    if all(naming.find_index(word) >= 0 for word in whole) and size in (None, len(whole)):
        return whole
    return _split_unquoted(line, r"->|→|[,\s]")


def _split_unquoted(line: str, separator: str) -> list[str]:
    """Split a line at separators outside quotes, and remove the quotes of the parts."""
    ends = [found.span() for found in re.finditer(f"{QUOTED.pattern}|(?P<cut>{separator})", line) if found["cut"] is not None]
    cuts = [0, *(at for span in ends for at in span), len(line)]
    parts = [line[low:high].strip() for low, high in zip(cuts[::2], cuts[1::2], strict=True)]
    return [strip_quotes(part) for part in parts if part]


def grow_cliques(
    start: Sequence[Sequence[int]], junction_tree_cliques: Sequence[Sequence[int]], information: Array, max_size: int
) -> list[tuple[int, ...]]:
    """Return cliques of at most `max_size` variables, grown from `start` one variable at a time inside the cliques of a junction tree.

    In each stage k = 3 … largest every clique below k may grow.  The next variable is the one that adds most mutual information
    between pairs that shared no clique before, then the one with most information inside its clique.  Cliques inside others are removed.
    If `max_size` is enough for the junction tree, the result is its cliques.  Source: Teh (2003), sec. 6.6.
    """
    nodes = len(information)
    if max_size >= max(len(clique) for clique in junction_tree_cliques):
        return [tuple(clique) for clique in junction_tree_cliques]
    whole = np.zeros((len(junction_tree_cliques), nodes), dtype=bool)
    for row, clique in zip(whole, junction_tree_cliques, strict=True):
        row[list(clique)] = True
    member = np.zeros((len(start), nodes), dtype=bool)
    for row, clique in zip(member, start, strict=True):
        row[list(clique)] = True
    fresh = np.ones((nodes, nodes), dtype=bool)
    for row in member:
        fresh[np.ix_(row, row)] = False
    for size in range(2, max_size + 1):
        while True:
            member = _drop_contained_cliques(member)
            allowed = _allowed_variables(member, whole, size)
            if not allowed.any():
                break
            # Row c of `member` times I sums the information between a variable and all variables of clique c.  This is the gain in total
            # information of pairs in cliques, if the pair is new to all of them.
            gain = np.where(allowed, member @ np.where(fresh, information, 0.0), -1.0)
            inside = np.where(allowed & (gain >= gain.max() - 1e-15), member @ information, -1.0)
            c, i = np.unravel_index(int(np.argmax(inside)), inside.shape)
            member[c, i] = True
            fresh[i, member[c]] = fresh[member[c], i] = False
    return [tuple(np.flatnonzero(row).tolist()) for row in member]


def _drop_contained_cliques(member: Array) -> Array:
    """Return the cliques that are not inside another one, the first of equal ones."""
    counts = member.sum(axis=1)
    shared = member.astype(np.float32) @ member.T.astype(np.float32)
    at = np.arange(len(member))
    inside = (shared == counts[:, None]) & (
        (counts[None] > counts[:, None]) | ((counts[None] == counts[:, None]) & (at[None] < at[:, None]))
    )
    kept: Array = member[~inside.any(axis=1)]
    return kept


def _allowed_variables(member: Array, whole: Array, size: int) -> Array:
    """Return the variables (cliques, N) that a clique below `size` can add and remain inside a clique of the junction tree."""
    counts = member.sum(axis=1)
    fits = (member.astype(np.float32) @ whole.T.astype(np.float32)) == counts[:, None]
    room = fits.astype(np.float32) @ whole.astype(np.float32) > 0
    allowed: Array = room & ~member & (counts < size)[:, None]
    return allowed
