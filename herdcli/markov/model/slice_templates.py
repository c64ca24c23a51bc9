"""Two-slice templates (dynamic Bayesian networks): a network of the first slice, and of the transition from each slice to the next.

Variables of the first slice, and of the slice before in the transition, are called X_0.  Those of the present slice are called X_t, or
X_1 as in pgmpy; pyAgrum writes X0 and Xt.  A factor over X_0 alone belongs to the first slice, every other one to each transition.
Source: Murphy (2002), ch. 2, two-slice temporal Bayesian networks.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from herdcli.errors import DataError
from herdcli.markov.model.network import Factor, Network, build_network, reorder_variables
from herdcli.records import dataclass
from herdcli.schema import Array

ENDINGS = (("_0", "_t"), ("_0", "_1"), ("0", "t"))  # endings of names in the first and in the present slice
HINT = "end the names of variables of the first slice in _0 and those of the next slice in _t, such as X_0 and X_t"


@dataclass(frozen=True)
class SliceTemplate:
    """A template with variables 0 … n−1 in each slice.

    first       factors of the first slice.
    transition  factors over 0 … n−1, the slice before, and n … 2n−1, the present slice.
    states      the names of all states, variable by variable, or None.
    auxiliary   how many of the last variables of each slice are auxiliary, see `Network`.
    """

    names: list[str]
    cardinality: Array
    states: list[str] | None
    first: list[Factor]
    transition: list[Factor]
    directed: bool
    auxiliary: int = 0

    @property
    def count(self) -> int:
        """The number of variables of a slice."""
        return len(self.names)

    def interface_variables(self) -> list[int]:
        """Return the variables of a slice that the next one depends on."""
        return sorted({i for scope, _ in self.transition for i in scope if i < self.count})

    def slice_network(self) -> Network:
        """Return a network over the variables of one slice with uniform factors."""
        return build_network(
            self.cardinality,
            [((i,), np.ones(k)) for i, k in enumerate(self.cardinality.tolist())],
            names=self.names,
            states=self.states,
            auxiliary=self.auxiliary,
        )


def parse_two_slice_network(network: Network) -> SliceTemplate:
    """Convert a network of two slices to a template.  Raises DataError if its names or factors do not form one."""
    network, slots = _pair_auxiliary_variables(network)
    bases, first, present = _pair_variables(network)
    for base, i, j in zip(bases, first, present, strict=True):
        _require_same_states(network, base, i, j)
    place = np.empty(network.count, dtype=np.int64)
    place[first], place[present] = np.arange(len(bases)), len(bases) + np.arange(len(bases))
    made: tuple[list[Factor], list[Factor]] = ([], [])
    for scope, table in network.factors():
        placed = tuple(place[list(scope)].tolist())
        in_present = any(i >= len(bases) for i in placed)
        if network.directed and in_present and placed[-1] < len(bases):
            parents = ", ".join(network.name(i) for i, at in zip(scope, placed, strict=True) if at >= len(bases))
            raise DataError(
                f"variable {network.name(scope[-1])} of the first slice depends on {parents} of the next slice, but edges must go "
                "forward in time",
                hint=HINT,
            )
        made[in_present].append((placed, table))
    ends = np.concatenate(([0], np.cumsum(network.cardinality)))
    states = None if network.states is None else [name for i in first for name in network.states[ends[i] : ends[i + 1]]]
    return SliceTemplate(bases, network.cardinality[first], states, *made, network.directed, slots)


def _pair_auxiliary_variables(network: Network) -> tuple[Network, int]:
    """Return a network in which every auxiliary variable is in both slices, at the end, and how many of them a slice has.

    An auxiliary variable is in the slice of the noisy-max that it divides; in the other one it gets a uniform distribution.
    """
    if not network.auxiliary:
        return network, 0
    n, factors = network.listed_count, list(network.factors())
    child = {i: scope[-1] for scope, _ in factors for i in scope[:-1] if i >= n}
    names, states, cardinality = list(network.names or ()), list(network.states or ()), network.cardinality.tolist()
    order = [*range(n)]
    for number, i in enumerate(range(n, network.count)):
        effect = i
        while effect >= n:
            effect = child[effect]
        endings = next((pair for pair in ENDINGS if names[effect].endswith(pair)), ENDINGS[0])
        zero = names[effect].endswith(endings[0])
        names[i] = f"~{number}{endings[0] if zero else endings[1]}"
        names.append(f"~{number}{endings[1] if zero else endings[0]}")
        factors.append(((len(cardinality),), np.full(cardinality[i], 1 / cardinality[i])))
        order += [i, len(cardinality)]
        cardinality.append(cardinality[i])
        states += network.states_of(i)
    made = build_network(cardinality, factors, names=names, states=states or None, directed=network.directed)
    return reorder_variables(made, order), network.auxiliary


def _pair_variables(network: Network) -> tuple[list[str], list[int], list[int]]:
    """Return the names without their endings, and the variables of the first and of the present slice in that order."""
    if network.names is None:
        raise DataError("a template of two time slices needs named variables, but this network has no names", hint=HINT)
    for zero, now in ENDINGS:
        slices = {end: {name[: -len(end)]: i for i, name in enumerate(network.names) if name.endswith(end)} for end in (zero, now)}
        if slices[zero] and slices[zero].keys() == slices[now].keys() and 2 * len(slices[zero]) == network.count:
            bases = list(slices[zero])
            return bases, [slices[zero][base] for base in bases], [slices[now][base] for base in bases]
    alone = [name for name in network.names if not name.endswith(("0", "t", "_1"))]
    what = f"{alone[0]} belongs to no slice" if alone else "not every variable is in both slices"
    raise DataError(f"is not a template of two time slices: {what}", hint=HINT)


def _require_same_states(network: Network, base: str, i: int, j: int) -> None:
    """Raise DataError unless a variable has the same states in both slices."""
    ends = np.concatenate(([0], np.cumsum(network.cardinality)))
    counts = [int(network.cardinality[k]) for k in (i, j)]
    if counts[0] != counts[1]:
        raise DataError(f"variable {base} has {counts[0]} states in the first slice, but {counts[1]} in the next one")
    if network.states is not None and network.states[ends[i] : ends[i + 1]] != network.states[ends[j] : ends[j + 1]]:
        raise DataError(f"the states of variable {base} have different names in the first slice and in the next one")


def unrolled_bytes(template: SliceTemplate, steps: int) -> int:
    """Return the bytes that `unroll_template` needs: three copies of every table, a Python object for each factor, name and state."""
    per_slice = sum(24 * table.size + 60 * len(scope) + 300 for scope, table in template.transition)
    return steps * (per_slice + 250 * template.count + 8 * len(template.states or ()))


def unroll_template(template: SliceTemplate, steps: int) -> Network:
    """Return the network of `steps` slices: variable i of slice t has the number t·n + i and the name NAME_t.

    Auxiliary variables come last.
    """
    n = template.count
    factors = list(template.first)
    for t in range(1, steps):
        factors += [(tuple((t - 1) * n + i for i in scope), table) for scope, table in template.transition]
    names = [f"{name}_{t}" for t in range(steps) for name in template.names]
    states = None if template.states is None else template.states * steps
    made = build_network(np.tile(template.cardinality, steps), factors, names=names, states=states, directed=template.directed)
    if not template.auxiliary:
        return made
    order = sorted(range(n * steps), key=lambda i: i % n >= n - template.auxiliary)
    return replace(reorder_variables(made, order), auxiliary=template.auxiliary * steps)
