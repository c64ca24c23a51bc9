# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Counts and scores of families of a Bayesian network, compiled: the twin of numpy_families.py, which documents them."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset


cdef extern from "_families.h" nogil:
    void herd_count_one(const int32_t *code, int64_t shared, const uint8_t *packed, Py_ssize_t rows, uint32_t *hist)
    void herd_count_two(const int32_t *code, int64_t shared, const uint8_t *one, const uint8_t *two, Py_ssize_t rows, uint32_t *left,
                        uint32_t *right)
    void herd_weigh_one(const int32_t *code, int64_t shared, const uint8_t *packed, const double *weight, Py_ssize_t rows, double *hist)
    void herd_share_counts(const uint32_t *hist, int64_t shared, const int64_t *states, const int64_t *start, Py_ssize_t members, double *out)
    void herd_share_weights(const double *hist, int64_t shared, const int64_t *states, const int64_t *start, Py_ssize_t members, double *out)
    Py_ssize_t herd_gather(const double *tables, const int64_t *rows, Py_ssize_t count, Py_ssize_t states, const double *alpha, double *out)
    void herd_sum_terms(const double *tables, const int64_t *rows, Py_ssize_t count, Py_ssize_t states, const double *values,
                        const double *cell_base, const double *row_base, double *out)
    ctypedef struct herd_graph_changes:
        Py_ssize_t count
        const uint8_t *edge
        const uint8_t *below
        const uint8_t *allowed
        const uint8_t *required
        const double *add
        const double *away
        uint8_t *tabu
        uint8_t *full
        double needed
    Py_ssize_t herd_best_change(const herd_graph_changes *g, double equal, double *gain)


cdef int64_t SMALL = 1 << 14


def count_added_variables(
    const int32_t[::1] code, int64_t shared, const uint8_t[:, ::1] packed, const int64_t[::1] first, const int64_t[::1] states,
    const int64_t[::1] start, const double[::1] weight, double[::1] out,
):
    """Add to `out` the number of rows in each state of one variable and of the shared variables together, for many variables.

    See the twin.
    """
    cdef Py_ssize_t rows = code.shape[0], groups = packed.shape[0], members = states.shape[0], g, m, r, last = -1
    cdef int64_t cells, most = 0
    cdef void *scratch
    cdef uint32_t *left
    cdef uint32_t *right
    if packed.shape[1] != rows or first.shape[0] != groups + 1 or start.shape[0] != members or weight.shape[0] not in (0, rows):
        raise ValueError("arrays are not of one length")
    if groups == 0 or rows == 0:
        return
    if first[0] != 0 or first[groups] != members or shared < 1:
        raise ValueError("the groups do not divide the variables")
    for g in range(groups):
        if not first[g] < first[g + 1] <= members:
            raise ValueError("the groups do not divide the variables")
        cells = shared
        for m in range(first[g], first[g + 1]):
            if states[m] < 1 or start[m] < -1 or (start[m] >= 0 and start[m] + states[m] * shared > out.shape[0]):
                raise ValueError("a table does not fit")
            cells *= states[m]
            if cells > 1 << 28:
                raise ValueError("a table does not fit")
        most = max(most, cells)
        if shared > SMALL:
            for r in range(rows):
                if packed[g, r] * shared >= cells:
                    raise ValueError("a joint state is out of range")
    if shared <= SMALL:
        most = 256 * shared  # room for every byte, which need not be checked then
    for r in range(rows):
        if not 0 <= code[r] < shared:
            raise ValueError("a joint state is out of range")
    scratch = malloc(2 * most * sizeof(double))
    if scratch == NULL:
        raise MemoryError
    left = <uint32_t *>scratch
    right = left + most
    with nogil:
        for g in range(groups):
            for m in range(first[g], first[g + 1]):
                if start[m] >= 0:
                    break
            else:
                continue
            if weight.shape[0]:
                memset(scratch, 0, most * sizeof(double))
                herd_weigh_one(&code[0], shared, &packed[g, 0], &weight[0], rows, <double *>scratch)
                herd_share_weights(<double *>scratch, shared, &states[first[g]], &start[first[g]], first[g + 1] - first[g], &out[0])
            elif last < 0:
                last = g
            else:  # two groups in one pass over the rows
                memset(scratch, 0, 2 * most * sizeof(uint32_t))
                herd_count_two(&code[0], shared, &packed[last, 0], &packed[g, 0], rows, left, right)
                herd_share_counts(left, shared, &states[first[last]], &start[first[last]], first[last + 1] - first[last], &out[0])
                herd_share_counts(right, shared, &states[first[g]], &start[first[g]], first[g + 1] - first[g], &out[0])
                last = -1
        if last >= 0:
            memset(scratch, 0, most * sizeof(uint32_t))
            herd_count_one(&code[0], shared, &packed[last, 0], rows, left)
            herd_share_counts(left, shared, &states[first[last]], &start[first[last]], first[last + 1] - first[last], &out[0])
        free(scratch)


def gather_arguments(const double[::1] tables, const int64_t[::1] rows, Py_ssize_t states, const double[::1] alpha, double[::1] out):
    """Write n + α of each cell with n > 0 to `out`, after N + r α of each row with N > 0; return the number of arguments.  See the twin."""
    cdef Py_ssize_t cells = _check_tables(tables, rows, states), found
    if alpha.shape[0] != rows.shape[0] or out.shape[0] < cells + cells // states:
        raise ValueError("arrays are not of one length")
    if cells == 0:
        return 0
    with nogil:
        found = herd_gather(&tables[0], &rows[0], rows.shape[0], states, &alpha[0], &out[0])
    return found


def sum_terms(
    const double[::1] tables, const int64_t[::1] rows, Py_ssize_t states, const double[::1] values, const double[::1] cell_base,
    const double[::1] row_base, double[::1] out,
):
    """Set out (K,) to Σ (f(N) base − f(N + r α)) over the rows plus Σ (f(n + α) − f(n) base) over the cells of each table.

    See the twin.
    """
    cdef Py_ssize_t cells = _check_tables(tables, rows, states), used = 0, at, row
    cdef double total
    if not rows.shape[0] == cell_base.shape[0] == row_base.shape[0] == out.shape[0]:
        raise ValueError("arrays are not of one length")
    if cells == 0:
        return
    for row in range(cells // states):
        total = 0
        for at in range(row * states, (row + 1) * states):
            used += tables[at] > 0
            total += tables[at]
        used += total > 0
    if used != values.shape[0]:
        raise ValueError("arrays are not of one length")
    with nogil:
        herd_sum_terms(&tables[0], &rows[0], rows.shape[0], states, &values[0] if used else NULL, &cell_base[0], &row_base[0], &out[0])


def best_change(
    edge, const double[:, ::1] add, const double[:, ::1] away, below, allowed, required, const int64_t[:, ::1] recent, Py_ssize_t most,
    double needed, double equal,
):
    """Return the best change of a graph and its gain: 0, 1 or 2 (i → j is added, removed or reversed), i and j.  See the twin."""
    cdef const uint8_t[:, ::1] edges = edge.view("u1"), under = below.view("u1"), may = allowed.view("u1"), must = required.view("u1")
    cdef Py_ssize_t n = edges.shape[0], i, j, k, parents, at
    cdef double gain
    cdef herd_graph_changes graph
    cdef uint8_t *scratch
    for array in (edge, below, allowed, required, add, away):
        if array.shape[0] != n or array.shape[1] != n:
            raise ValueError("arrays are not of one shape")
    if n == 0 or (recent.shape[0] and recent.shape[1] != 2):
        raise ValueError("arrays are not of one shape")
    for k in range(recent.shape[0]):
        if not (0 <= recent[k, 0] < n and 0 <= recent[k, 1] < n):
            raise ValueError("no such variable")
    scratch = <uint8_t *>malloc(n * n + n)
    if scratch == NULL:
        raise MemoryError
    graph.count, graph.needed, graph.tabu, graph.full = n, needed, scratch, scratch + n * n
    graph.edge, graph.below, graph.allowed, graph.required = &edges[0, 0], &under[0, 0], &may[0, 0], &must[0, 0]
    graph.add, graph.away = &add[0, 0], &away[0, 0]
    with nogil:
        memset(scratch, 0, n * n)
        for k in range(recent.shape[0]):
            scratch[recent[k, 0] * n + recent[k, 1]] = scratch[recent[k, 1] * n + recent[k, 0]] = 1
        for j in range(n):
            parents = 0
            for i in range(n):
                parents += edges[i, j]
            graph.full[j] = parents >= most
        at = herd_best_change(&graph, equal, &gain)
        free(scratch)
    return at // (n * n), at // n % n, at % n, gain


cdef Py_ssize_t _check_tables(const double[::1] tables, const int64_t[::1] rows, Py_ssize_t states) except -1:
    """Return the number of cells of all tables."""
    cdef Py_ssize_t total = 0, k
    if states < 1:
        raise ValueError("tables without cells")
    for k in range(rows.shape[0]):
        if rows[k] < 1 or rows[k] > tables.shape[0] // states - total:
            raise ValueError("a table does not fit")
        total += rows[k]
    return total * states
