# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Messages on pairwise Markov networks, compiled: the twin of numpy_markov.py, which documents it."""

from libc.math cimport INFINITY, fabs, ldexp, pow
from libc.stdint cimport int32_t, int64_t, uint8_t

from herdcli.fast.checked_indices import once

cdef int SHIFT = 500
cdef double SMALL = ldexp(1.0, -SHIFT), LARGE = ldexp(1.0, SHIFT)

cdef struct Net:
    const int32_t *tail
    const int32_t *head
    const int32_t *cardinality
    const int64_t *node_offset
    const double *potential
    const int64_t *table_offset
    const double *table
    const int64_t *offset
    const int64_t *in_offset
    const int32_t *in_edge
    const uint8_t *fixed
    const double *target
    double *weight
    double *made
    int64_t *power
    Py_ssize_t edges


cdef class _Held:
    """The arrays of a network, kept alive and checked, and their addresses."""
    cdef const int32_t[::1] tail, head, cardinality, in_edge
    cdef const int64_t[::1] node_offset, table_offset, offset, in_offset
    cdef const double[::1] potential, table, target
    cdef const uint8_t[::1] fixed
    cdef double[::1] scratch
    cdef int64_t[::1] power
    cdef Net net

    def __cinit__(self, tuple network, fixed, target, double[::1] scratch):
        (self.tail, self.head, self.cardinality, self.node_offset, self.potential, self.table_offset, self.table, self.offset,
         self.in_offset, self.in_edge) = network
        self.fixed, self.target, self.scratch = fixed, target, scratch
        cdef Py_ssize_t nodes = self.cardinality.shape[0], edges = self.tail.shape[0], largest = scratch.shape[0] // 4, i
        _checked(network)
        _check(self.fixed.shape[0], nodes)
        _check(self.target.shape[0], self.node_offset[nodes])
        for i in range(nodes):
            if self.cardinality[i] > largest:
                raise ValueError("too little scratch")
        self.power = _as_int64(scratch, 2 * largest, largest)
        self.net.edges = edges
        if edges == 0:
            return
        self.net.tail, self.net.head, self.net.cardinality = &self.tail[0], &self.head[0], &self.cardinality[0]
        self.net.node_offset, self.net.potential = &self.node_offset[0], &self.potential[0]
        self.net.table_offset, self.net.table, self.net.offset = &self.table_offset[0], &self.table[0], &self.offset[0]
        self.net.in_offset, self.net.in_edge = &self.in_offset[0], &self.in_edge[0]
        self.net.fixed, self.net.target = &self.fixed[0], &self.target[0]
        self.net.weight, self.net.made, self.net.power = &scratch[0], &scratch[largest], &self.power[0]


def update_messages(
    const int32_t[::1] order, double[::1] source, double[::1] out, tuple network, fixed, target, double damping, bint geometric,
    double[::1] scratch,
):
    """Update the directed edges of `order`, reading `source` and writing `out`; largest change and a bad edge or −1."""
    cdef _Held held = _Held(network, fixed, target, scratch)
    cdef double largest = 0
    cdef Py_ssize_t bad = -1
    _check(source.shape[0], held.offset[held.net.edges])
    _check(out.shape[0], source.shape[0])
    _check_order(order, held.net.edges)
    if order.shape[0]:
        with nogil:
            bad = sweep(&order[0], order.shape[0], &source[0], &out[0], &held.net, damping, geometric, &largest)
    return largest, bad


def settle(
    const int32_t[::1] order, const int64_t[::1] segments, double[::1] messages, tuple network, fixed, target, double tolerance,
    Py_ssize_t most, int64_t[::1] sweeps, double[::1] scratch,
):
    """Repeat each segment until its largest change is ≤ tolerance; the largest last change and a bad edge or −1."""
    cdef _Held held = _Held(network, fixed, target, scratch)
    cdef double largest, worst = 0
    cdef Py_ssize_t bad = -1, s, count, parts = segments.shape[0] - 1
    _check(messages.shape[0], held.offset[held.net.edges])
    _check(sweeps.shape[0], parts)
    _check_order(order, held.net.edges)
    for s in range(parts):
        if not 0 <= segments[s] <= segments[s + 1] <= order.shape[0]:
            raise ValueError("segments do not divide the order")
    if order.shape[0]:
        with nogil:
            for s in range(parts):
                largest, count = INFINITY, 0
                while count < most and not largest <= tolerance:
                    largest = 0
                    bad = sweep(
                        &order[segments[s]], segments[s + 1] - segments[s], &messages[0], &messages[0], &held.net, 0, False, &largest
                    )
                    count += 1
                    if bad >= 0:
                        break
                if bad >= 0:
                    worst = largest
                    break
                sweeps[s] = count
                if largest > worst:
                    worst = largest
    return worst, bad


def residual_updates(
    Py_ssize_t count, double[::1] messages, double[::1] pending, double[::1] tree, tuple network, fixed, target, double[::1] scratch,
):
    """`count` updates, each of the edge whose update would change it most; the largest change left and a bad edge or −1."""
    cdef _Held held = _Held(network, fixed, target, scratch)
    cdef Py_ssize_t leaves = tree.shape[0] // 2, at, bad = -1, n, d, j, k, x
    cdef int32_t e
    cdef double change
    cdef Net *net = &held.net
    _check(messages.shape[0], held.offset[net.edges])
    _check(pending.shape[0], messages.shape[0])
    if leaves < net.edges or leaves < 1 or leaves & (leaves - 1):
        raise ValueError("too small a tree")
    with nogil:
        for n in range(count):
            if not tree[1] > 0:
                break
            at = 1
            while at < leaves:
                at = 2 * at if tree[2 * at] >= tree[2 * at + 1] else 2 * at + 1
            d = at - leaves
            if d >= net.edges:
                break
            for x in range(net.offset[d], net.offset[d + 1]):
                messages[x] = pending[x]
            set_leaf(tree, at, 0)
            j = net.head[d]
            for k in range(net.in_offset[j], net.in_offset[j + 1]):
                e = net.in_edge[k] ^ 1
                # What j sends back along d leaves d out (5.25), unless j bounces it (5.26).
                if (e ^ 1) == d and not net.fixed[net.tail[e]]:
                    continue
                change = 0
                bad = sweep(&e, 1, &messages[0], &pending[0], net, 0, False, &change)
                if bad >= 0:
                    break
                set_leaf(tree, leaves + e, change)
            if bad >= 0:
                break
    return (change if bad >= 0 else tree[1]), bad


cdef void set_leaf(double[::1] tree, Py_ssize_t at, double value) noexcept nogil:
    """Give a leaf its value, and the nodes above it the larger of their children, up to the first that has it already."""
    cdef double larger
    tree[at] = value
    at = at // 2
    while at:
        larger = tree[2 * at] if tree[2 * at] >= tree[2 * at + 1] else tree[2 * at + 1]
        if tree[at] == larger:
            break
        tree[at] = larger
        at = at // 2


cdef Py_ssize_t sweep(
    const int32_t *order, Py_ssize_t count, const double *old, double *new, const Net *net, double damping, bint geometric, double *largest,
) noexcept nogil:
    cdef Py_ssize_t n, d, i, rows, columns, x, y, at
    cdef const double *table
    cdef double total, top, value, before, bigger, change
    cdef double *weight = net.weight
    cdef double *made = net.made
    for n in range(count):
        d = order[n]
        i = net.tail[d]
        rows, columns = net.cardinality[i], net.cardinality[net.head[d]]
        weights(d, i, rows, old, net)
        table = net.table + net.table_offset[d >> 1]
        top = 0
        for y in range(columns):
            total = 0
            # ψ is stored once, rows the tail of the even direction: the odd one reads it by columns.
            if d & 1:
                for x in range(rows):
                    total += weight[x] * table[y * rows + x]
            else:
                for x in range(rows):
                    total += weight[x] * table[x * columns + y]
            made[y] = total
            if not total <= top:
                top = total
        # Zero everywhere, or target/M with M = 0: no message has such a marginal.
        if not 0 < top < INFINITY:
            return d
        for y in range(columns):
            made[y] /= top
        at = net.offset[d]
        if damping > 0:
            damp(made, old + at, columns, damping, geometric)
        for y in range(columns):
            before, value = old[at + y], made[y]
            bigger = value if value > before else before
            if bigger > 0:
                change = fabs(value - before) / bigger
                if change > largest[0]:
                    largest[0] = change
            new[at + y] = value
    return -1


cdef inline void weights(Py_ssize_t d, Py_ssize_t i, Py_ssize_t rows, const double *old, const Net *net) noexcept nogil:
    cdef Py_ssize_t x, k, e, at, first = net.node_offset[i]
    cdef double *weight = net.weight
    cdef int64_t *power = net.power
    cdef int64_t top
    cdef bint shifted = False, any = False
    if net.fixed[i]:
        at = net.offset[d ^ 1]
        for x in range(rows):
            if net.target[first + x] == 0:
                weight[x] = 0
            else:
                weight[x] = net.target[first + x] / old[at + x] if old[at + x] > 0 else INFINITY
        return
    for x in range(rows):
        weight[x] = net.potential[first + x]
        power[x] = 0
    for k in range(net.in_offset[i], net.in_offset[i + 1]):
        e = net.in_edge[k]
        if e == d ^ 1:
            continue
        at = net.offset[e]
        for x in range(rows):
            weight[x] *= old[at + x]
            # 2^500 is taken out of a small product, state by state; at the end only differences between states are put back.
            if 0 < weight[x] < SMALL:
                weight[x] *= LARGE
                power[x] -= SHIFT
                shifted = True
    if not shifted:
        return
    top = 0
    for x in range(rows):
        if weight[x] > 0 and (not any or power[x] > top):
            top = power[x]
            any = True
    for x in range(rows):
        if power[x] != top:
            weight[x] = ldexp(weight[x], <int>(power[x] - top))


cdef void damp(double *made, const double *before, Py_ssize_t count, double damping, bint geometric) noexcept nogil:
    cdef Py_ssize_t y
    cdef double top = 0, mixed
    for y in range(count):
        mixed = pow(made[y], 1 - damping) * pow(before[y], damping) if geometric else (1 - damping) * made[y] + damping * before[y]
        if mixed > top:
            top = mixed
    if not top > 0:
        return
    for y in range(count):
        mixed = pow(made[y], 1 - damping) * pow(before[y], damping) if geometric else (1 - damping) * made[y] + damping * before[y]
        made[y] = mixed / top


cdef _as_int64(double[::1] scratch, Py_ssize_t first, Py_ssize_t count):
    import numpy as np

    return np.asarray(scratch).view(np.int64)[first : first + count]


def _check_network(
    const int32_t[::1] tail, const int32_t[::1] head, const int32_t[::1] cardinality, const int64_t[::1] node_offset,
    const double[::1] potential, const int64_t[::1] table_offset, const double[::1] table, const int64_t[::1] offset,
    const int64_t[::1] in_offset, const int32_t[::1] in_edge,
):
    """Raise ValueError where a loop would be sent outside of the arrays of a network."""
    cdef Py_ssize_t nodes = cardinality.shape[0], edges = tail.shape[0], i, d, k
    _check(edges % 2, 0)
    _check(head.shape[0], edges)
    _check(in_edge.shape[0], edges)
    _check(offset.shape[0], edges + 1)
    _check(table_offset.shape[0], edges // 2 + 1)
    _check(node_offset.shape[0], nodes + 1)
    _check(in_offset.shape[0], nodes + 1)
    for first in (node_offset[0], table_offset[0], offset[0], in_offset[0]):
        _check(first, 0)
    for i in range(nodes):
        if cardinality[i] < 1 or node_offset[i + 1] - node_offset[i] != cardinality[i] or in_offset[i + 1] < in_offset[i]:
            raise ValueError(f"node {i} does not have the states that its offsets say")
    _check(potential.shape[0], node_offset[nodes])
    _check(in_offset[nodes], edges)
    for d in range(edges):
        if not 0 <= tail[d] < nodes or head[d ^ 1] != tail[d]:
            raise ValueError(f"directed edge {d} does not join two nodes")
    for d in range(edges):
        if offset[d + 1] - offset[d] != cardinality[head[d]]:
            raise ValueError(f"the message of directed edge {d} does not have the states of its head")
        if d % 2 == 0 and table_offset[d // 2 + 1] - table_offset[d // 2] != <int64_t>cardinality[tail[d]] * cardinality[head[d]]:
            raise ValueError(f"the table of edge {d // 2} does not have the states of its nodes")
    _check(table.shape[0], table_offset[edges // 2])
    for i in range(nodes):
        for k in range(in_offset[i], in_offset[i + 1]):
            if not 0 <= in_edge[k] < edges or head[in_edge[k]] != i:
                raise ValueError(f"an edge that enters node {i} does not lead there")


_checked = once(_check_network)


cdef int _check(Py_ssize_t length, Py_ssize_t expected) except -1:
    if length != expected:
        raise ValueError(f"an array has length {length} where {expected} is expected")
    return 0


cdef int _check_order(const int32_t[::1] order, Py_ssize_t edges) except -1:
    cdef Py_ssize_t n
    for n in range(order.shape[0]):
        if not 0 <= order[n] < edges:
            raise ValueError(f"there is no directed edge {order[n]}")
    return 0
