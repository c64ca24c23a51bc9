# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Online learning and its text, compiled: the twin of `numpy_online.py`.  The loops are in _online.h and online_text.h."""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from herdcli.fast import numpy_online as _twin

include "simd.pxi"


cdef extern from "_online.h" nogil:
    ctypedef struct online_step:
        double alpha, gamma, shrink, curvature
    ctypedef struct online_rule:
        int rule, form, loss, always
        double C, phi
    online_step online_solve(const online_rule *rule, double m, double v, double C)
    double online_scores(const double *table, ptrdiff_t classes, const int32_t *index, const double *x, ptrdiff_t count, double *score,
                         double *variance)
    int64_t online_binary(double *table, const int64_t *pointer, const int32_t *index, const double *value, const int32_t *label,
                          const double *weight, const double *target, ptrdiff_t rows, const online_rule *rule, double *running, int fetch,
                          double *margin, double *variance, double *scratch)
    int64_t online_multiclass(double *table, ptrdiff_t classes, const int64_t *pointer, const int32_t *index, const double *value,
                              const int32_t *label, const double *weight, ptrdiff_t rows, const online_rule *rule, int top,
                              double *running, double *score, double *variance, double *scratch)
    void online_normal_cdf(const double *x, ptrdiff_t count, double *out)
    void online_with_bias(const int64_t *pointer, const int32_t *index, const double *x, ptrdiff_t rows, int64_t *out_pointer, int32_t *out_index,
                          double *out)
    void online_rescale(double *sizes, const int32_t *index, const double *x, const uint8_t *frozen, int64_t count, double *out)

cdef extern from "online_text.h" nogil:
    ctypedef struct online_output:
        double *label
        double *weight
        double *value
        int32_t *index
        int64_t *pointer
        uint32_t mask
        int first, loose
        int32_t *slots
        int64_t slot_mask, cleared
    ctypedef struct online_report:
        int64_t used, lines, code, column, token, length, rows, entries
    uint32_t online_murmur(const char *text, size_t length, uint32_t seed)
    void online_parse(const char *text, int64_t size, int vw, online_output *out, online_report *report)

cdef extern from "document_words.h" nogil:
    ctypedef struct online_words:
        uint8_t *known
        int32_t *column
        int64_t *start
        int64_t *length
        int64_t count
    void online_count_words(const char *text, const int64_t *ends, int64_t documents, online_output *out, online_words *words)

cdef extern from "online_pairs.h" nogil:
    ctypedef struct online_side:
        const int64_t *left_pointer
        const int64_t *right_pointer
        const int32_t *left_index
        const int32_t *right_index
        const double *left_value
        const double *right_value
        int64_t own
    ctypedef struct online_entry:
        double value
        int64_t index
    int64_t online_products(const int64_t *pointer, const int32_t *index, const double *value, const online_side *sides, int64_t count,
                            uint32_t mask, int64_t first, int64_t last, int64_t most, online_entry *room, int64_t *out_pointer,
                            int32_t *out_index, double *out_value)

cdef ptrdiff_t CACHED = 1 << 18  # bytes of a table that stay in the cache while text is read between its uses


cdef online_rule _rule(tuple rule):
    cdef online_rule made
    made.rule, made.form, made.loss, made.always, made.C, made.phi = rule
    return made


def solve_step(tuple rule, double m, double v, double C):
    """Return the step (α, γ, shrink, curvature) for an example of margin m = y μ·x and variance v = x'Σx.  See the twin."""
    cdef online_rule made = _rule(rule)
    cdef online_step step = online_solve(&made, m, v, C)
    return step.alpha, step.gamma, step.shrink, step.curvature


def learn_binary(double[:, :, ::1] table, const int64_t[::1] pointer, const int32_t[::1] index, const double[::1] value,
                 const int32_t[::1] label, weight, tuple rule, double[::1] running, double[::1] margin, double[::1] variance, target=None):
    """Learn CSR rows of two classes (C = 1) one after the other, and return the number of updates.  See the twin."""
    cdef online_rule made = _rule(rule)
    cdef const double[::1] weights, targets
    cdef const double *weight_at = NULL
    cdef const double *target_at = NULL
    cdef ptrdiff_t rows = label.shape[0]
    cdef int fetch = table.shape[0] * 16 > CACHED
    cdef int64_t updates
    cdef double[::1] scratch
    _twin.check_examples(np.asarray(table), pointer, index, value, label, weight, margin, variance, target)
    if rows == 0 or value.shape[0] == 0:
        return _twin.learn_binary(np.asarray(table), np.asarray(pointer), np.asarray(index), np.asarray(value), np.asarray(label), weight, rule,
                                  np.asarray(running), np.asarray(margin), np.asarray(variance), target)
    if weight is not None:
        weights = weight
        weight_at = &weights[0]
    if target is not None:
        targets = target
        target_at = &targets[0]
    scratch = np.empty(int(np.diff(pointer).max()) + 1)
    with nogil:
        updates = online_binary(&table[0, 0, 0], &pointer[0], &index[0], &value[0], &label[0], weight_at, target_at, rows, &made, &running[0],
                                fetch, &margin[0], &variance[0], &scratch[0])
    return updates


def learn_multiclass(double[:, :, ::1] table, const int64_t[::1] pointer, const int32_t[::1] index, const double[::1] value,
                     const int32_t[::1] label, weight, tuple rule, bint top, double[::1] running, double[:, ::1] score,
                     double[:, ::1] variance):
    """Learn CSR rows of C classes: by the difference to the best other class (`top`), or each class against the rest.  See the twin."""
    cdef online_rule made = _rule(rule)
    cdef const double[::1] weights
    cdef const double *weight_at = NULL
    cdef ptrdiff_t rows = label.shape[0]
    cdef int64_t updates
    cdef double[::1] scratch
    _twin.check_examples(np.asarray(table), pointer, index, value, label, weight, score, variance)
    if rows == 0 or value.shape[0] == 0:
        return _twin.learn_multiclass(np.asarray(table), np.asarray(pointer), np.asarray(index), np.asarray(value), np.asarray(label), weight,
                                      rule, top, np.asarray(running), np.asarray(score), np.asarray(variance))
    if weight is not None:
        weights = weight
        weight_at = &weights[0]
    scratch = np.empty(int(np.diff(pointer).max()) + 1 + 2 * table.shape[2])
    with nogil:
        updates = online_multiclass(&table[0, 0, 0], table.shape[2], &pointer[0], &index[0], &value[0], &label[0], weight_at, rows, &made,
                                    top, &running[0], &score[0, 0], &variance[0, 0], &scratch[0])
    return updates


def rescale(double[:, ::1] sizes, const int32_t[::1] index, const double[::1] value, double[::1] out, frozen=None):
    """Divide the entries of examples, one after the other, by the mean size of their feature's values so far, into `out` (nnz,).

    See the twin.
    """
    cdef int64_t count = value.shape[0]
    cdef const uint8_t[::1] still
    cdef const uint8_t *still_at = NULL
    _twin.check_entries(sizes.shape[0], index, value)
    if sizes.shape[1] != 2 or out.shape[0] != count or (frozen is not None and len(frozen) != count):
        raise ValueError("the arrays of an example do not fit each other")
    if count:
        if frozen is not None:
            still = frozen
            still_at = &still[0]
        with nogil:
            online_rescale(&sizes[0, 0], &index[0], &value[0], still_at, count, &out[0])


def with_bias(const int64_t[::1] pointer, const int32_t[::1] index, const double[::1] value):
    """Return the CSR rows with a constant feature in front of each: table row 0, value 1.  See the twin."""
    cdef ptrdiff_t rows = pointer.shape[0] - 1
    _twin.check_rows(np.asarray(pointer), np.asarray(index), np.asarray(value))
    made = np.empty(rows + 1, dtype=np.int64), np.empty(pointer[rows] - pointer[0] + rows, dtype=np.int32), np.empty(pointer[rows] - pointer[0] + rows)
    cdef int64_t[::1] out_pointer = made[0]
    cdef int32_t[::1] out_index = made[1]
    cdef double[::1] out = made[2]
    if rows == 0:
        out_pointer[0] = 0
        return made
    with nogil:
        online_with_bias(&pointer[0], _indices(index), _values(value), rows, &out_pointer[0], &out_index[0], &out[0])
    return made


def normal_cdf(const double[::1] x, double[::1] out):
    """Compute Φ(x) = ½ erfc(−x/√2) of x (n,) into `out` (n,).  See the twin."""
    cdef ptrdiff_t count = x.shape[0]
    if out.shape[0] != count:
        raise ValueError("the arrays do not fit each other")
    if count:
        with nogil:
            online_normal_cdf(&x[0], count, &out[0])


def linear_scores(const double[:, :, ::1] table, const int64_t[::1] pointer, const int32_t[::1] index, const double[::1] value,
                  double[:, ::1] score, double[:, ::1] variance):
    """Write the scores μ_z·x and variances x'Σ_z x of CSR rows into `score` and `variance`, (n, C) each.  See the twin."""
    cdef ptrdiff_t row, rows = score.shape[0], classes = table.shape[2]
    cdef int64_t begin
    _twin.check_examples(np.asarray(table), pointer, index, value, None, None, score, variance)
    if value.shape[0] == 0:
        score[:, :] = 0.0
        variance[:, :] = 0.0
        return
    with nogil:
        for row in range(rows):
            begin = pointer[row]
            online_scores(&table[0, 0, 0], classes, &index[0] + begin, &value[0] + begin, pointer[row + 1] - begin, &score[row, 0],
                          &variance[row, 0])


def murmur3(bytes text, uint32_t seed):
    """Return the 32-bit MurmurHash3 of a text.  See the twin."""
    cdef const char *start = text
    return online_murmur(start, len(text), seed)


def parse_text(text, bint vw, uint32_t mask, int first, double[::1] label, double[::1] weight, int64_t[::1] pointer, int32_t[::1] index,
               double[::1] value, names, bint loose=False):
    """Parse whole lines into rows, up to the end of the text or the first line with an error.  See the twin."""
    cdef online_output out
    cdef online_report report
    cdef const unsigned char[::1] view = text
    cdef int32_t[::1] slots
    cdef int64_t size = view.shape[0]
    if names is not None:
        return _twin.parse_text(text, vw, mask, first, np.asarray(label), np.asarray(weight), np.asarray(pointer), np.asarray(index),
                                np.asarray(value), names, loose)
    slots = np.empty(1 << max(4, int(size).bit_length()) if mask else 1, dtype=np.int32)
    out.label, out.weight, out.pointer, out.index, out.value = &label[0], &weight[0], &pointer[0], &index[0], &value[0]
    out.mask, out.first, out.loose, out.slots, out.slot_mask, out.cleared = mask, first, loose, &slots[0], 0, 0
    report.used = report.lines = report.code = report.column = report.token = report.length = report.rows = report.entries = 0
    with nogil:
        online_parse(<const char *>&view[0], size, vw, &out, &report)
    return report.rows, report.used, report.lines, report.code, report.column, report.token, report.length


def count_hashed_words(bytes text, const int64_t[::1] ends, uint32_t mask, known=None):
    """Count the words of n documents by column: the MurmurHash3 of a word, modulo the number of columns.  See the twin."""
    cdef online_output out
    cdef online_words words
    cdef int64_t documents = ends.shape[0], size = len(text), most
    cdef const char *start = text
    _twin.check_ends(np.asarray(ends), size, mask, known)
    most = (size + documents) // 2 + 1  # a word takes a byte, and a blank or the end of its document
    cdef int64_t[::1] pointer = np.zeros(documents + 1, dtype=np.int64)
    cdef int32_t[::1] index = np.empty(most, dtype=np.int32)
    cdef double[::1] value = np.empty(most)
    cdef int32_t[::1] slots = np.empty(1 << max(4, int(size).bit_length()), dtype=np.int32)
    cdef uint8_t[::1] met
    cdef int64_t room = 1 if known is None else min(most, <int64_t>mask + 1)
    cdef int32_t[::1] column = np.empty(room, dtype=np.int32)
    cdef int64_t[::1] first = np.empty(room, dtype=np.int64)
    cdef int64_t[::1] length = np.empty(room, dtype=np.int64)
    out.pointer, out.index, out.value = &pointer[0], &index[0], &value[0]
    out.mask, out.slots, out.slot_mask, out.cleared = mask, &slots[0], 0, 0
    words.known, words.column, words.start, words.length, words.count = NULL, &column[0], &first[0], &length[0], 0
    if known is not None:
        met = known
        words.known = &met[0]
    if documents:
        with nogil:
            online_count_words(start, &ends[0], documents, &out, &words)
    used, count = pointer[documents], words.count
    rows = np.asarray(pointer), np.asarray(index)[:used] - np.int32(1), np.asarray(value)[:used].copy()
    return *rows, np.asarray(column)[:count], np.asarray(first)[:count], np.asarray(length)[:count]


cdef const int64_t *_places(const int64_t[::1] array) noexcept nogil:
    return &array[0]


cdef const int32_t *_indices(const int32_t[::1] array) noexcept nogil:
    return &array[0] if array.shape[0] else NULL


cdef const double *_values(const double[::1] array) noexcept nogil:
    return &array[0] if array.shape[0] else NULL


def with_products(tuple rows, sides, uint32_t mask, int64_t first, int64_t last):
    """Return rows first to last − 1 with the products of `sides`, columns in ascending order; entries of a column are added in order.

    See the twin.
    """
    cdef int64_t k, count = len(sides), made, most
    cdef char[::1] kept = np.zeros(max(1, count * <int64_t>sizeof(online_side)), dtype=np.int8)
    cdef online_side *listed = <online_side *>&kept[0]
    cdef char[::1] room
    cdef int64_t[::1] out_pointer
    cdef int32_t[::1] out_index
    cdef double[::1] out_value
    _twin.check_sides(rows, sides, first, last)
    lengths = np.diff(rows[0][first : last + 1])
    for k, (left, right, own) in enumerate(sides):
        one, two = np.diff(left[0][first : last + 1]), np.diff(right[0][first : last + 1])
        lengths = lengths + (one * (one + 1) // 2 if own else one * two)
        listed[k].left_pointer, listed[k].left_index, listed[k].left_value = _places(left[0]), _indices(left[1]), _values(left[2])
        listed[k].right_pointer, listed[k].right_index, listed[k].right_value = _places(right[0]), _indices(right[1]), _values(right[2])
        listed[k].own = own
    most = int(lengths.max(initial=0)) + 1
    room = np.empty(2 * most * sizeof(online_entry), dtype=np.int8)
    index, value = np.empty(int(lengths.sum()) + 1, dtype=np.int32), np.empty(int(lengths.sum()) + 1)
    pointer = np.empty(last - first + 1, dtype=np.int64)
    out_pointer, out_index, out_value = pointer, index, value
    cdef const int64_t *pointers = _places(rows[0])
    cdef const int32_t *indices = _indices(rows[1])
    cdef const double *values = _values(rows[2])
    with nogil:
        made = online_products(pointers, indices, values, listed, count, mask, first, last, most, <online_entry *>&room[0], &out_pointer[0],
                               &out_index[0], &out_value[0])
    return pointer, index[:made], value[:made]
