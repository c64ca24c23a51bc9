# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Scaling and propagation of clique marginals, compiled: the twin of numpy_junction.py, which documents it."""

from libc.math cimport exp, fabs, log, pow
from libc.stdint cimport int32_t, int64_t

from herdcli.fast.checked_indices import once


cdef extern from "_junction.h" nogil:
    void herd_project(const double *table, const int32_t *cell, Py_ssize_t cells, double *out, Py_ssize_t n) noexcept
    void herd_spread(double *table, const int32_t *cell, Py_ssize_t cells, const double *ratio) noexcept


cdef struct Links:
    const int64_t *clique_offset
    const int32_t *clique
    const int32_t *scope
    const int64_t *cell_offset
    const int32_t *cell
    const int64_t *scope_offset
    double *tables
    double *values
    const double *target
    double *marginal
    double *ratio


cdef Links _links(tuple links, double[::1] tables, double[::1] values, const double[::1] target, double[::1] scratch) except *:
    cdef const int64_t[::1] clique_offset = links[0]
    cdef const int32_t[::1] link_clique = links[1]
    cdef const int32_t[::1] link_scope = links[2]
    cdef const int64_t[::1] cell_offset = links[3]
    cdef const int32_t[::1] cell = links[4]
    cdef const int64_t[::1] scope_offset = links[5]
    cdef Links here
    cdef Py_ssize_t k, half = scratch.shape[0] // 2
    _checked(links)
    if clique_offset[clique_offset.shape[0] - 1] != tables.shape[0] or scope_offset[scope_offset.shape[0] - 1] != values.shape[0]:
        raise ValueError("arrays of different shapes")
    if values.shape[0] != target.shape[0]:
        raise ValueError("arrays of different shapes")
    for k in range(scope_offset.shape[0] - 1):
        if scope_offset[k + 1] - scope_offset[k] > half:
            raise ValueError("scratch is too small")
    here.clique_offset = &clique_offset[0]
    here.clique = &link_clique[0] if link_clique.shape[0] else NULL
    here.scope = &link_scope[0] if link_scope.shape[0] else NULL
    here.cell_offset = &cell_offset[0]
    here.cell = &cell[0] if cell.shape[0] else NULL
    here.scope_offset = &scope_offset[0]
    here.tables = &tables[0] if tables.shape[0] else NULL
    here.values = &values[0] if values.shape[0] else NULL
    here.target = &target[0] if target.shape[0] else NULL
    here.marginal = &scratch[0] if half else NULL
    here.ratio = &scratch[half] if half else NULL
    return here


def _check_links(
    const int64_t[::1] clique_offset, const int32_t[::1] link_clique, const int32_t[::1] link_scope, const int64_t[::1] cell_offset,
    const int32_t[::1] cell, const int64_t[::1] scope_offset,
):
    """Raise ValueError where a loop would be sent outside of the arrays it is given."""
    cdef Py_ssize_t cliques = clique_offset.shape[0] - 1, scopes = scope_offset.shape[0] - 1, links = link_clique.shape[0], k, i, c, s, n
    if cliques < 0 or scopes < 0 or link_scope.shape[0] != links or cell_offset.shape[0] != links + 1:
        raise ValueError("arrays of different shapes")
    _check_rising(clique_offset, "cliques")
    _check_rising(scope_offset, "scopes")
    _check_rising(cell_offset, "links")
    if cell_offset[links] > cell.shape[0]:
        raise ValueError("arrays of different shapes")
    for k in range(links):
        c, s = link_clique[k], link_scope[k]
        if not 0 <= c < cliques or not 0 <= s < scopes or cell_offset[k + 1] - cell_offset[k] != clique_offset[c + 1] - clique_offset[c]:
            raise ValueError(f"link {k} does not join a clique and a scope")
        n = scope_offset[s + 1] - scope_offset[s]
        for i in range(cell_offset[k], cell_offset[k + 1]):
            if not 0 <= cell[i] < n:
                raise ValueError(f"link {k} leads outside of its scope")


_checked = once(_check_links)


cdef int _check_rising(const int64_t[::1] offset, str of) except -1:
    cdef Py_ssize_t k
    if offset[0] != 0:
        raise ValueError(f"the offsets of {of} do not begin at 0")
    for k in range(offset.shape[0] - 1):
        if offset[k + 1] < offset[k]:
            raise ValueError(f"the offsets of {of} fall")
    return 0


cdef int _check_place(Py_ssize_t place, Py_ssize_t low, Py_ssize_t count) except -1:
    if not low <= place < count:
        raise ValueError(f"there is no {place} among {count}")
    return 0


cdef bint _ratios(const double *above, const double *below, double exponent, Py_ssize_t n, double *ratio) noexcept nogil:
    """(above/below)^exponent, 0/0 = 0; was something positive divided by 0?"""
    cdef Py_ssize_t j
    cdef bint bad = False
    for j in range(n):
        if below[j] > 0:
            ratio[j] = above[j] / below[j]
        else:
            ratio[j] = 0
            if above[j] > 0 and below[j] == 0:
                bad = True
        if exponent != 1.0:
            ratio[j] = pow(ratio[j], exponent)
    return bad


cdef double _distance(const double *first, const double *second, Py_ssize_t n) noexcept nogil:
    cdef double largest = 0, change
    cdef Py_ssize_t j
    for j in range(n):
        change = fabs(first[j] - second[j])
        if change > largest or change != change:
            largest = change
    return largest


cdef bint _update(Links here, int32_t k, int32_t other, double exponent, double *furthest, double *change) noexcept nogil:
    """One scaling or propagation; is it impossible?"""
    cdef Py_ssize_t c = here.clique[k], s = here.scope[k], first = here.scope_offset[s], n = here.scope_offset[s + 1] - first, j
    cdef Py_ssize_t cells = here.clique_offset[c + 1] - here.clique_offset[c]
    cdef double *value = here.values + first
    cdef double far
    herd_project(here.tables + here.clique_offset[c], here.cell + here.cell_offset[k], cells, here.marginal, n)
    if other < 0:
        if _ratios(here.target + first, here.marginal, exponent, n, here.ratio):
            return True
        far = _distance(here.marginal, here.target + first, n)
        if far > furthest[0] or far != far:
            furthest[0] = far
        for j in range(n):
            value[j] *= here.ratio[j]
        herd_spread(here.tables + here.clique_offset[c], here.cell + here.cell_offset[k], cells, here.ratio)
        return False
    _ratios(here.marginal, value, exponent, n, here.ratio)
    far = _distance(here.marginal, value, n)
    if far > change[0] or far != far:
        change[0] = far
    for j in range(n):
        value[j] = here.marginal[j] if exponent == 1.0 else value[j] * here.ratio[j]
    c = here.clique[other]
    cells = here.clique_offset[c + 1] - here.clique_offset[c]
    herd_spread(here.tables + here.clique_offset[c], here.cell + here.cell_offset[other], cells, here.ratio)
    return False


def clique_updates(const int32_t[:, ::1] program, double[::1] tables, double[::1] values, const double[::1] target, tuple links,
                   double exponent, double[::1] scratch):
    """Run a program of scalings and propagations; see the twin."""
    cdef Links here = _links(links, tables, values, target, scratch)
    cdef double furthest = 0, change = 0
    cdef Py_ssize_t t, count = links[1].shape[0]
    if program.shape[1] != 2:
        raise ValueError("arrays of different shapes")
    for t in range(program.shape[0]):
        _check_place(program[t, 0], 0, count)
        _check_place(program[t, 1], -1, count)
    with nogil:
        for t in range(program.shape[0]):
            if _update(here, program[t, 0], program[t, 1], exponent, &furthest, &change):
                break
        else:
            t = -1
    return furthest, change, t


def settle_and_scale(const int32_t[::1] scalings, const int32_t[:, ::1] sends, const int64_t[::1] out_offset, const int32_t[::1] out,
                     double[::1] tables, double[::1] values, const double[::1] target, tuple links, tuple exponents, double tolerance,
                     Py_ssize_t most, double[::1] pending, int64_t[::1] counts, double[::1] scratch):
    """Propagate until nothing changes, then scale, for each of some links; see the twin."""
    cdef Links here = _links(links, tables, values, target, scratch)
    cdef double furthest = 0, change, unused = 0, scaling = exponents[0], sending = exponents[1]
    cdef Py_ssize_t t, e, j, sweep, c, bad = -1
    cdef bint busy
    if pending.shape[0] != sends.shape[0] or out.shape[0] != sends.shape[0] or sends.shape[1] != 2 or counts.shape[0] < 2:
        raise ValueError("arrays of different shapes")
    if out_offset.shape[0] != links[0].shape[0] or out_offset[out_offset.shape[0] - 1] != out.shape[0]:
        raise ValueError("arrays of different shapes")
    _check_rising(out_offset, "sends")
    for t in range(sends.shape[0]):
        _check_place(sends[t, 0], 0, links[1].shape[0])
        _check_place(sends[t, 1], 0, links[1].shape[0])
        _check_place(out[t], 0, sends.shape[0])
    for t in range(scalings.shape[0]):
        _check_place(scalings[t], -1, links[1].shape[0])
    with nogil:
        for t in range(scalings.shape[0]):
            for sweep in range(most):
                busy = False
                for e in range(sends.shape[0]):
                    if not pending[e] > tolerance:
                        continue
                    busy = True
                    pending[e] = 0
                    counts[1] += 1
                    change = 0
                    _update(here, sends[e, 0], sends[e, 1], sending, &unused, &change)
                    c = here.clique[sends[e, 1]]
                    for j in range(out_offset[c], out_offset[c + 1]):
                        # An undamped propagation makes both ends agree, so the way back has nothing to tell.
                        if out[j] != (e ^ 1) or sending != 1.0:
                            pending[out[j]] += change
                    if sending != 1.0:
                        pending[e] += change * (1.0 - sending)
                if not busy:
                    break
            if scalings[t] < 0:
                continue
            counts[0] += 1
            change = 0
            if _update(here, scalings[t], -1, scaling, &change, &unused):
                bad = t
                break
            if change > furthest or change != change:
                furthest = change
            c = here.clique[scalings[t]]
            for j in range(out_offset[c], out_offset[c + 1]):
                pending[out[j]] += change
    return furthest, bad


def region_updates(const int32_t[::1] program, const int64_t[::1] first_link, const double[::1] weight, double[::1] tables,
                   double[::1] multiplier, const int64_t[::1] multiplier_offset, double[::1] values, const double[::1] old,
                   const double[::1] target, tuple links, double[::1] scratch):
    """One sweep of the inner loop of double-loop entropy maximisation; see the twin."""
    cdef Links here = _links(links, tables, values, target, scratch)
    cdef double furthest = 0, apart = 0, unused = 0, c, far
    cdef Py_ssize_t t, r, s, q, j, n, first, regions = weight.shape[0], scopes, parents, bad = -1
    cdef double *agreed = here.marginal
    cdef double *marginal
    scopes = links[5].shape[0] - 1
    if old.shape[0] != values.shape[0] or first_link.shape[0] != regions + 1 or regions > scopes:
        raise ValueError("arrays of different shapes")
    _check_rising(multiplier_offset, "multipliers")
    if multiplier_offset.shape[0] <= links[1].shape[0] or multiplier_offset[multiplier_offset.shape[0] - 1] > multiplier.shape[0]:
        raise ValueError("arrays of different shapes")
    for t in range(program.shape[0]):
        _check_place(program[t], -regions, links[1].shape[0])
    for r in range(regions):
        s = scopes - regions + r
        n = here.scope_offset[s + 1] - here.scope_offset[s]
        if not 0 <= first_link[r] <= first_link[r + 1] <= links[1].shape[0]:
            raise ValueError("the links of a region are not there")
        for q in range(first_link[r], first_link[r + 1]):
            if here.scope[q] != s or multiplier_offset[q + 1] - multiplier_offset[q] != n:
                raise ValueError(f"link {q} is not of region {r}")
        if (first_link[r + 1] - first_link[r] + 1) * n > scratch.shape[0]:
            raise ValueError("scratch is too small")
    with nogil:
        for t in range(program.shape[0]):
            if program[t] >= 0:
                if _update(here, program[t], -1, 1.0, &furthest, &unused):
                    bad = t
                    break
                continue
            r = -1 - program[t]
            s = scopes - regions + r
            first = here.scope_offset[s]
            n = here.scope_offset[s + 1] - first
            parents = first_link[r + 1] - first_link[r]
            c = weight[r]
            for q in range(parents):
                _project(here, first_link[r] + q, agreed + (q + 1) * n, n)
            _agree(agreed, &multiplier[0], &multiplier_offset[first_link[r]], &old[first], parents, n, c)
            for q in range(parents):
                marginal = agreed + (q + 1) * n
                far = _distance(marginal, agreed, n)
                if far > apart or far != far:
                    apart = far
                _ratios(agreed, marginal, 1.0, n, marginal)
                for j in range(n):
                    multiplier[multiplier_offset[first_link[r] + q] + j] *= marginal[j]
                _spread(here, first_link[r] + q, marginal)
            for j in range(n):
                here.values[first + j] = agreed[j]
    return furthest, apart, bad


cdef void _project(Links here, Py_ssize_t k, double *out, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t c = here.clique[k]
    herd_project(here.tables + here.clique_offset[c], here.cell + here.cell_offset[k], here.clique_offset[c + 1] - here.clique_offset[c], out, n)


cdef void _spread(Links here, Py_ssize_t k, const double *ratio) noexcept nogil:
    cdef Py_ssize_t c = here.clique[k]
    herd_spread(here.tables + here.clique_offset[c], here.cell + here.cell_offset[k], here.clique_offset[c + 1] - here.clique_offset[c], ratio)


cdef void _agree(double *agreed, const double *multiplier, const int64_t *offset, const double *old, Py_ssize_t parents, Py_ssize_t n,
                 double c) noexcept nogil:
    """Q, normalised; the marginals of the parents stand behind it."""
    cdef Py_ssize_t j, q
    cdef double total, power = parents + (c if c > 0 else 0.0), share, marginal
    cdef bint possible
    for j in range(n):
        total = 0
        possible = True
        for q in range(parents):
            marginal = agreed[(q + 1) * n + j]
            share = multiplier[offset[q] + j]
            possible = possible and marginal > 0 and share > 0
            total += log(marginal) - log(share) if possible else 0.0
        if c < 0:
            possible = possible and old[j] > 0
            total += -c * log(old[j]) if possible else 0.0
        agreed[j] = exp(total / power) if possible else 0.0
    total = 0
    for j in range(n):
        total = total + agreed[j] if j else agreed[j]
    if total > 0:
        for j in range(n):
            agreed[j] /= total
