"""Clique marginals, scaled to given marginals and propagated over separators: the twin of _junction.pyx.

Cliques are joined by scopes (clusters with a given marginal, separators).  `links` is a tuple of arrays:

    clique_offset (C+1) int64     position of each clique's table in `tables`
    link_clique (K) int32         link k maps the cells of this clique …
    link_scope (K) int32          … to those of this scope
    cell_offset (K+1) int64, cell (…) int32       cell of the scope for each cell of the clique
    scope_offset (S+1) int64      position of each scope's cells in `values` and `target`

For a separator, `values` holds its marginal; for a cluster, the product of its scalings, which is its factor in the model.
With P(x_s) the normalised marginal of the clique of a link:

    scaling      ratio = (target / P(x_s))^a        value <- value · ratio, table <- table · ratio
    propagation  ratio = (P(x_s) / value)^a         value <- value · ratio, table of the next clique <- table · ratio

(Teh 2003, 6.18 and 6.24; the exponent a is 1 minus the geometric damping).  0/0 is 0.  Sums run over cells in order.
"""

from __future__ import annotations

import math

import numpy as np

from herdcli.schema import Array

Links = tuple[Array, ...]


def clique_updates(
    program: Array, tables: Array, values: Array, target: Array, links: Links, exponent: float, scratch: Array
) -> tuple[float, float, int]:
    """Run `program` (T, 2) int32: (k, −1) scales at link k, (k, l) propagates from the clique of link k to that of link l.

    scratch (2 largest scope).  Returns the largest |P − target| before a scaling, the largest |P − value| before a propagation, and the
    first row of `program` that needs probability where there is none, or −1.
    """
    furthest = change = 0.0
    for t, (k, other) in enumerate(program.tolist()):
        marginal, at = _marginal_at_link(k, tables, links)
        value = values[at]
        if other < 0:
            found, bad = _powered_ratio(target[at], marginal, exponent)
            if bad:
                return furthest, change, t
            furthest = max(furthest, _distance(marginal, target[at]))
            value *= found
            _multiply_clique_by_ratio(k, found, tables, links)
        else:
            found, _ = _powered_ratio(marginal, value, exponent)
            change = max(change, _distance(marginal, value))
            if exponent == 1.0:
                value[:] = marginal
            else:
                value *= found
            _multiply_clique_by_ratio(other, found, tables, links)
    return furthest, change, -1


def settle_and_scale(
    scalings: Array, sends: Array, out_offset: Array, out: Array, tables: Array, values: Array, target: Array, links: Links,
    exponents: tuple[float, float], tolerance: float, most: int, pending: Array, counts: Array, scratch: Array,
) -> tuple[float, int]:  # fmt: skip
    """For each link of `scalings` (T,) int32, propagate until nothing changes by more than `tolerance`, then scale there.

    sends (E, 2) int32  all directed propagations, in the order of a sweep; e ^ 1 is the reverse of e.  A sweep skips those whose
    `pending` (E,), the changes of their clique since they were last sent, is at most the tolerance.
    out_offset (C+1), out  the sends that leave each clique.  exponents  of scaling, of propagation.  most  maximum number of sweeps per
    scaling.  counts (2,) int64  is increased by the numbers of scalings and of propagations.  A last link of −1 only propagates.
    Returns the largest |P − target| before a scaling, and the first impossible scaling, or −1.
    """
    furthest = 0.0
    clique_of, heard = links[1], sends[:, 1]
    for t, k in enumerate(scalings.tolist()):
        for _ in range(most):
            busy = False
            for e in range(len(sends)):
                if not pending[e] > tolerance:
                    continue
                busy = True
                pending[e] = 0.0
                counts[1] += 1
                _, change, _ = clique_updates(sends[e : e + 1], tables, values, target, links, exponents[1], scratch)
                c = int(clique_of[heard[e]])
                for d in out[out_offset[c] : out_offset[c + 1]].tolist():
                    if d != e ^ 1 or exponents[1] != 1.0:
                        # A clique's marginals have moved by `change`, so what it last sent is out of date by at most
                        # that, except for the neighbour that sent the change, which agrees after an undamped propagation.
                        pending[d] += change
                if exponents[1] != 1.0:
                    pending[e] += change * (1.0 - exponents[1])
            if not busy:
                break
        if k < 0:
            continue
        counts[0] += 1
        program = np.array([[k, -1]], dtype=np.int32)
        change, _, bad = clique_updates(program, tables, values, target, links, exponents[0], scratch)
        if bad >= 0:
            return furthest, t
        furthest = max(furthest, change)
        c = int(clique_of[k])
        pending[out[out_offset[c] : out_offset[c + 1]]] += change
    return furthest, -1


def region_updates(
    program: Array, first_link: Array, weight: Array, tables: Array, multiplier: Array, multiplier_offset: Array, values: Array,
    old: Array, target: Array, links: Links, scratch: Array,
) -> tuple[float, float, int]:  # fmt: skip
    """Run one sweep of the inner loop of double-loop entropy maximisation.

    In `program` (T,) int32, k ≥ 0 scales at link k, and −1 − r makes the parents of region r agree about it.
    Region r is scope S − R + r; its links first_link[r] … first_link[r+1] − 1 go to its parents.  weight (R,) is its counting
    number c.  multiplier  λ of each link, from multiplier_offset[link] on.  With ν = P(x_r)/λ for each of the n parents,
    Q ∝ (Π ν · old^|c|)^(1/n) for c < 0 and (Π ν)^(1/(n+c)) for c > 0; then λ and the parent are multiplied by Q/P(x_r).
    `values` of a region becomes Q.  scratch ((n + 1) cells of a region).
    Returns the largest |P − target| before a scaling, the largest |P − Q|, and the first impossible row or −1.
    """
    furthest = apart = 0.0
    regions = len(weight)
    for t, k in enumerate(program.tolist()):
        if k >= 0:
            far, _, bad = clique_updates(np.array([[k, -1]], dtype=np.int32), tables, values, target, links, 1.0, scratch)
            if bad >= 0:
                return furthest, apart, t
            furthest = max(furthest, far)
            continue
        r = -1 - k
        scope = len(links[5]) - 1 - regions + r
        at = slice(int(links[5][scope]), int(links[5][scope + 1]))
        own = range(int(first_link[r]), int(first_link[r + 1]))
        cells, c = at.stop - at.start, float(weight[r])
        shares = [multiplier[multiplier_offset[q] : multiplier_offset[q] + cells] for q in own]
        marginals = [_marginal_at_link(q, tables, links)[0] for q in own]
        agreed = np.array(_agreed_marginal(marginals, shares, old[at].tolist(), c))
        total = float(np.add.accumulate(agreed)[-1])
        agreed = agreed / total if total > 0 else agreed
        for q, share, marginal in zip(own, shares, marginals, strict=True):
            ratio, _ = _powered_ratio(agreed, marginal, 1.0)
            apart = max(apart, _distance(marginal, agreed))
            share *= ratio
            _multiply_clique_by_ratio(q, ratio, tables, links)
        values[at] = agreed
    return furthest, apart, -1


def _agreed_marginal(marginals: list[Array], shares: list[Array], old: list[float], c: float) -> list[float]:
    """Return Q before it is normalised; the sum of logarithms runs over the parents in order."""
    made = []
    # P_R ∝ (its factors) Π λ, so ν = P(x_r)/λ is the marginal without r's multiplier, and new ones make ν λ' = Q for each parent: n
    # log Q = Σ log ν + Σ log λ'. Slope 0 in P_r: Σ log λ' = −c log Q for c > 0, and −c log old under the tangent of c H(P_r), c < 0.
    power = len(marginals) + (c if c > 0 else 0.0)
    for j in range(len(old)):
        total, possible = 0.0, True
        for marginal, share in zip(marginals, shares, strict=True):
            possible = possible and marginal[j] > 0 and share[j] > 0
            total += math.log(marginal[j]) - math.log(share[j]) if possible else 0.0
        if c < 0:
            possible = possible and old[j] > 0
            total += -c * math.log(old[j]) if possible else 0.0
        made.append(math.exp(total / power) if possible else 0.0)
    return made


def _marginal_at_link(k: int, tables: Array, links: Links) -> tuple[Array, slice]:
    """Return the normalised marginal at link k, and the slice of the scope's cells."""
    clique_offset, link_clique, link_scope, cell_offset, cell, scope_offset = links
    c, s = link_clique[k], link_scope[k]
    at = slice(int(scope_offset[s]), int(scope_offset[s + 1]))
    table = tables[clique_offset[c] : clique_offset[c + 1]]
    found = np.bincount(cell[cell_offset[k] : cell_offset[k + 1]], table, at.stop - at.start)
    total = np.add.accumulate(found)[-1]
    return (found / total if total > 0 else found), at


def _multiply_clique_by_ratio(k: int, ratio: Array, tables: Array, links: Links) -> None:
    clique_offset, link_clique, _, cell_offset, cell, _ = links
    c = link_clique[k]
    tables[clique_offset[c] : clique_offset[c + 1]] *= ratio[cell[cell_offset[k] : cell_offset[k + 1]]]


def _powered_ratio(above: Array, below: Array, exponent: float) -> tuple[Array, bool]:
    """Return (above/below)^exponent with 0/0 = 0, and whether a positive number was divided by 0, where the result is 0 too."""
    bad = bool(((below == 0) & (above > 0)).any())
    ratio = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    if exponent != 1.0:
        ratio = np.array([math.pow(value, exponent) for value in ratio.tolist()])
    return ratio, bad


def _distance(first: Array, second: Array) -> float:
    return float(np.abs(first - second).max(initial=0.0))
