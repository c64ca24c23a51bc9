"""Directed graphs of Bayesian networks, as the parents of each variable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

K = TypeVar("K", str, int)


def cycle(parents: Mapping[K, Sequence[K]]) -> list[K]:
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
