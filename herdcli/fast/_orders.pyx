# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Greedy elimination of a graph, elimination in a given order, and arrangements along a line, compiled: the twin of numpy_orders.py, which
documents them."""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

import numpy as np


cdef extern from "_orders.h" nogil:
    ctypedef struct herd_graph:
        Py_ssize_t count
        int64_t **near
        int64_t *degree
    void herd_graph_free(herd_graph *g)
    int herd_graph_make(herd_graph *g, const int64_t *offset, const int64_t *flat, Py_ssize_t count)
    Py_ssize_t herd_greedy(herd_graph *g, const double *states, const double *weight, const double *each, int kind, const double *ties,
                           const double *noise, const double *limits, double base, int64_t *order, double *told)
    int herd_along(herd_graph *g, const double *states, const int64_t *order, Py_ssize_t count, double *told)
    Py_ssize_t herd_line(const int64_t *offset, const int64_t *near, Py_ssize_t count, const double *weight, const int64_t *by_tie,
                         double limit, double base, int64_t *left)
    Py_ssize_t herd_reached(herd_graph *g, const double *states, double cells, const uint8_t *wanted, const uint8_t *held, int64_t *order)


cdef double TWO = 2.0  # of a variable, as a compiler may put exp2 in place of pow where the base is a number
KINDS = {"fill": 0, "weight": 1, "cells": 2, "logs": 2}


def greedy_elimination(
    const int64_t[::1] offset,
    const int64_t[::1] near,
    const double[::1] states,
    const double[::1] weight,
    str kind,
    const double[::1] ties,
    const double[::1] noise,
    const double[::1] limits,
    int64_t[::1] order,
):
    """One greedy elimination."""
    cdef Py_ssize_t count = _check_graph(offset, near), left = -1
    cdef int which = KINDS[kind]
    cdef herd_graph graph
    cdef double told[4]
    cdef const double[::1] each = states if kind == "cells" else weight
    if not count == states.shape[0] == weight.shape[0] == ties.shape[0] == noise.shape[0] == order.shape[0] or limits.shape[0] != 5:
        raise ValueError("arrays are not of one length")
    if count == 0:
        return 0, 0.0, 0.0, 0, 0.0
    with nogil:
        if herd_graph_make(&graph, &offset[0], &near[0] if near.shape[0] else NULL, count) == 0:
            left = herd_greedy(&graph, &states[0], &weight[0], &each[0], which, &ties[0], &noise[0], &limits[0], TWO, &order[0], told)
        herd_graph_free(&graph)
    if left < 0:
        raise MemoryError
    return left, told[0], told[1], int(told[2]), told[3]


def elimination_along(const int64_t[::1] offset, const int64_t[::1] near, const double[::1] states, const int64_t[::1] order):
    """Elimination in a given order."""
    cdef Py_ssize_t count = _check_graph(offset, near), i
    cdef int failed = -1
    cdef herd_graph graph
    cdef double told[4]
    cdef int64_t[::1] left, rest
    if count != states.shape[0]:
        raise ValueError("arrays are not of one length")
    for i in range(order.shape[0]):
        if not 0 <= order[i] < count:
            raise ValueError("no such variable")
    made = np.zeros(count + 1, dtype=np.int64)
    if count == 0 or order.shape[0] == 0:
        return 0.0, 0.0, 0, 0.0, np.array(offset), np.array(near)
    left = made
    with nogil:
        if herd_graph_make(&graph, &offset[0], &near[0] if near.shape[0] else NULL, count) == 0:
            failed = herd_along(&graph, &states[0], &order[0], order.shape[0], told)
            if not failed:
                for i in range(count):
                    left[i + 1] = left[i] + graph.degree[i]
    if failed:
        herd_graph_free(&graph)
        raise MemoryError
    try:
        flat = np.empty(left[count], dtype=np.int64)
        rest = flat
        for i in range(count):
            if graph.degree[i]:
                memcpy(&rest[left[i]], graph.near[i], graph.degree[i] * sizeof(int64_t))
    finally:
        herd_graph_free(&graph)
    return told[0], told[1], int(told[2]), told[3], made, flat


def elimination_line(
    const int64_t[::1] offset, const int64_t[::1] near, const double[::1] weight, const int64_t[::1] by_tie, double limit, int64_t[::1] order
):
    """An arrangement along a line."""
    cdef Py_ssize_t count = _check_graph(offset, near), left = -2, i
    if not count == weight.shape[0] == by_tie.shape[0] == order.shape[0]:
        raise ValueError("arrays are not of one length")
    for i in range(count):
        if not 0 <= by_tie[i] < count:
            raise ValueError("no such variable")
    if count == 0:
        return True
    with nogil:
        left = herd_line(&offset[0], &near[0] if near.shape[0] else NULL, count, &weight[0], &by_tie[0], limit, TWO, &order[0])
    if left == -2:
        raise MemoryError
    return left == count


def elimination_reached(
    const int64_t[::1] offset,
    const int64_t[::1] near,
    const double[::1] states,
    double cells,
    const uint8_t[::1] wanted,
    const uint8_t[::1] held,
    int64_t[::1] order,
):
    """What a greedy elimination reaches with small tables."""
    cdef Py_ssize_t count = _check_graph(offset, near), made = -1
    cdef herd_graph graph
    if not count == states.shape[0] == wanted.shape[0] == held.shape[0] == order.shape[0]:
        raise ValueError("arrays are not of one length")
    if count == 0:
        return 0
    with nogil:
        if herd_graph_make(&graph, &offset[0], &near[0] if near.shape[0] else NULL, count) == 0:
            made = herd_reached(&graph, &states[0], cells, &wanted[0], &held[0], &order[0])
        herd_graph_free(&graph)
    if made < 0:
        raise MemoryError
    return made


cdef Py_ssize_t _check_graph(const int64_t[::1] offset, const int64_t[::1] near) except -1:
    """The number of variables.  Raises ValueError unless neighbours are variables that there are, ascending: what the loops rely on."""
    cdef Py_ssize_t count = offset.shape[0] - 1, i
    cdef int64_t a
    if count < 0 or offset[0] != 0 or offset[count] != near.shape[0]:
        raise ValueError("no graph")
    for i in range(count):
        if not 0 <= offset[i] <= offset[i + 1] <= near.shape[0]:
            raise ValueError("no graph")
        for a in range(offset[i], offset[i + 1]):
            if not 0 <= near[a] < count or near[a] == i or (a > offset[i] and near[a - 1] >= near[a]):
                raise ValueError("no graph")
    return count
