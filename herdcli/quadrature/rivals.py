"""The rules that are no conditional gradients: how long each takes, its problem in a space, and the atoms that come of it."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from herdcli.numerics import real
from herdcli.quadrature import cholesky, embedding, facility, support, thinning
from herdcli.quadrature.blocks import Columns
from herdcli.quadrature.rules import Settings
from herdcli.quadrature.rules import State as Sequence
from herdcli.quadrature.space import Space, prefix_distances
from herdcli.quadrature.targets import Rows, Target
from herdcli.schema import Array

RULES = (*thinning.RULES, *cholesky.RULES, *support.RULES, *facility.RULES)
EQUAL = (*thinning.RULES, *support.RULES, *facility.RULES)  # whose weights are equal, and whose candidates are the rows

State: TypeAlias = thinning.State | cholesky.State | support.State | facility.State
Problem: TypeAlias = thinning.Problem | cholesky.Problem | support.Problem | facility.Problem


def total_steps(rule: str, n: int, count: int) -> int:
    """Steps of `count` atoms of n candidates at most."""
    if rule in thinning.RULES:
        return thinning.total_steps(rule, n, count)
    return support.ITERATIONS if rule in support.RULES else count


def passes(rule: str, refine: int) -> int:
    """Swap passes that follow: of thinning at least the one that is its own."""
    return max(refine, 1) if rule in thinning.RULES else refine


def values(rule: str, n: int, count: int) -> int:
    """Kernel values of all steps, about."""
    if rule in thinning.RULES:
        return thinning.values(rule, n, count)
    if rule in support.RULES:
        return 2 * support.ITERATIONS * n * count
    return n * (n + 16 * count) if rule in facility.RULES else n * count


def bytes_of(rule: str, n: int, d: int, count: int) -> int:
    """Working memory beside that of the embedding: factors, packed rows of a node, blocks of values."""
    if rule in cholesky.RULES:
        return 8 * n * count + 8 * count**2
    if rule in thinning.RULES:
        total = thinning.rounds_of(rule, n, count)[1]
        return 8 * total * (2 * d + 8) + 8 * halves(total)
    if rule in support.RULES:
        return 8 * (4 * support.BLOCK + 4 * count * d + count**2 + 2 * n * d)
    return 8 * (3 * facility.BLOCK + 4 * n)


def halves(total: int) -> int:
    """Numbers of the tiles and blocks of a halving of `total` rows."""
    return int(2 * embedding.ROWS * min(total, embedding.COLUMNS) + 4 * embedding.ROWS**2 + thinning.CHOICE * 8)


def problem(space: Space, target: Target, settings: Settings, count: int, map: embedding.Map) -> Problem:
    """The problem of a rule of RULES; settings.unit is the group's number."""
    n, rule = len(space.candidates), settings.rule
    own = isinstance(target, Rows) and target.X is space.candidates
    weights = target.weights / target.weights.sum() if own and isinstance(target, Rows) else np.full(n, 1.0 / n)
    if rule in thinning.RULES:
        return thinning.Problem(space, weights, rule, count, settings.seed, settings.unit, map)
    if rule in cholesky.RULES:
        return cholesky.Problem(space, weights, count, settings.seed, settings.unit)
    if rule in support.RULES:
        return support.Problem(space.candidates, weights, count, settings.seed, settings.unit)
    return facility.Problem(Columns(space.kernel, space.candidates, space.points), weights, count)


def step(problem: Problem, state: State | None) -> State:
    """One step, the first from where the rule begins."""
    if isinstance(problem, thinning.Problem):
        return thinning.step(problem, state if isinstance(state, thinning.State) else thinning.init(problem))
    if isinstance(problem, cholesky.Problem):
        return cholesky.step(problem, state if isinstance(state, cholesky.State) else cholesky.init(problem))
    if isinstance(problem, support.Problem):
        return support.step(problem, state if isinstance(state, support.State) else support.init(problem))
    return facility.step(problem, state if isinstance(state, facility.State) else facility.init(problem))


def sequence(space: Space, index: Array) -> Sequence:
    """Candidates (m,) as atoms of equal weight, as a rule that adds one after the other would leave them."""
    m, atoms, z = len(index), space.candidates[index], space.embedding[index]
    running = space.points.combine(atoms, np.ones(m))
    return Sequence(
        step=m,
        quadratic=float(running[index].sum()),
        linear=float(real.product(z, np.ones(m))),
        best=-1,
        index=index.copy(),
        atoms=atoms,
        embedding=z,
        rate=1.0 / np.arange(1, m + 1),
        mmd=prefix_distances(space, atoms, z),
        gap=np.full(m, np.nan),
        running=running,
    )
