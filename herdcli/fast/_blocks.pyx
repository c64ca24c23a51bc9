# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""A block of variables drawn at once, eight chains side by side, compiled: the twin of numpy_blocks.py, which documents it."""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free, malloc

include "simd.pxi"


cdef extern from * nogil:
    r"""
/* A block of variables drawn at once, eight chains side by side: the loops of _blocks.pyx. */
#include "simd.h"

#define HERD_CHAINS 8
enum { STEP_VARIABLE, STEP_STATES, STEP_REST, STEP_NEAR, STEP_PARTS, STEP_CHILDREN, STEP_MESSAGE, STEP_OWN, STEP_OWN_AT, STEP_PLACE, STEP_SHARE, STEP_SIZE };

typedef struct {
    const int64_t *steps, *near, *parts, *held, *children;
    const int32_t *inside, *place;
    const double *tables;
    ptrdiff_t count;
} herd_block;

typedef struct {
    const double *from;
    const int32_t *place;
} herd_operand;

/* message[r] <- the sum over v of the product of the operands at v * rest + r. */
HERD_INLINE void herd_block_sums(const herd_operand *ops, const ptrdiff_t count, ptrdiff_t states, ptrdiff_t rest, double *restrict message)
{
    for (ptrdiff_t r = 0; r < rest; r++) {
        double total[HERD_CHAINS] = {0};
        for (ptrdiff_t v = 0; v < states; v++) {
            double value[HERD_CHAINS];
            const ptrdiff_t cell = v * rest + r;
            const double *first = ops[0].from + HERD_CHAINS * (ptrdiff_t)ops[0].place[cell];
            for (int c = 0; c < HERD_CHAINS; c++)
                value[c] = first[c];
            for (ptrdiff_t o = 1; o < count; o++) {
                const double *next = ops[o].from + HERD_CHAINS * (ptrdiff_t)ops[o].place[cell];
                for (int c = 0; c < HERD_CHAINS; c++)
                    value[c] *= next[c];
            }
            for (int c = 0; c < HERD_CHAINS; c++)
                total[c] += value[c];
        }
        for (int c = 0; c < HERD_CHAINS; c++)
            message[HERD_CHAINS * r + c] = total[c];
    }
}

/* The product of the own factors of a step, given what is held. */
HERD_INLINE void herd_block_own(const herd_block *b, const int64_t *step, const int64_t *x, double *restrict own)
{
    const int64_t cells = step[STEP_OWN];
    for (int64_t p = step[STEP_PARTS]; p < step[STEP_SIZE + STEP_PARTS]; p++) {
        const int64_t *part = b->parts + 3 * p;
        const int32_t *inside = b->inside + part[2];
        int64_t at[HERD_CHAINS];
        for (int c = 0; c < HERD_CHAINS; c++)
            at[c] = part[0];
        for (int64_t h = part[1]; h < part[4]; h++)
            for (int c = 0; c < HERD_CHAINS; c++)
                at[c] += b->held[2 * h + 1] * x[HERD_CHAINS * b->held[2 * h] + c];
        for (int64_t s = 0; s < cells; s++)
            for (int c = 0; c < HERD_CHAINS; c++) {
                const double value = b->tables[at[c] + inside[s]];
                own[HERD_CHAINS * s + c] = p == step[STEP_PARTS] ? value : own[HERD_CHAINS * s + c] * value;
            }
    }
}

/* The operands of a step: its own factors, then what its children sent.  Returns how many. */
HERD_INLINE ptrdiff_t herd_block_operands(const herd_block *b, const int64_t *step, const double *messages, const double *own, herd_operand *ops)
{
    ptrdiff_t count = 0;
    if (step[STEP_OWN])
        ops[count++] = (herd_operand){own + HERD_CHAINS * step[STEP_OWN_AT], b->place + step[STEP_PLACE]};
    for (int64_t j = step[STEP_CHILDREN]; j < step[STEP_SIZE + STEP_CHILDREN]; j++)
        ops[count++] = (herd_operand){messages + HERD_CHAINS * b->children[2 * j], b->place + b->children[2 * j + 1]};
    return count;
}

HERD_LOOP(void, herd_block_collect, (const herd_block *b, const int64_t *x, double *messages, double *own, herd_operand *ops), (b, x, messages, own, ops))
{
    for (ptrdiff_t k = 0; k < b->count; k++) {
        const int64_t *step = b->steps + STEP_SIZE * k;
        const int64_t rest = step[STEP_REST];
        double *restrict message = messages + HERD_CHAINS * step[STEP_MESSAGE];
        herd_block_own(b, step, x, own + HERD_CHAINS * step[STEP_OWN_AT]);
        const ptrdiff_t count = herd_block_operands(b, step, messages, own, ops);
        if (count == 0)
            for (ptrdiff_t c = 0; c < HERD_CHAINS * rest; c++)
                message[c] = (double)step[STEP_STATES];
        else if (count == 1)
            herd_block_sums(ops, 1, step[STEP_STATES], rest, message);
        else if (count == 2)
            herd_block_sums(ops, 2, step[STEP_STATES], rest, message);
        else if (count == 3)
            herd_block_sums(ops, 3, step[STEP_STATES], rest, message);
        else
            herd_block_sums(ops, count, step[STEP_STATES], rest, message);
        double top[HERD_CHAINS] = {0};
        for (int64_t r = 0; r < rest; r++)
            for (int c = 0; c < HERD_CHAINS; c++)
                top[c] = message[HERD_CHAINS * r + c] > top[c] ? message[HERD_CHAINS * r + c] : top[c];
        int scaled = 0;
        for (int c = 0; c < HERD_CHAINS; c++) {
            const int out = top[c] > 0 && (top[c] < 1e-30 || top[c] > 1e30);
            top[c] = out ? 1 / top[c] : 1.0;
            scaled |= out;
        }
        if (scaled)
            for (int64_t r = 0; r < rest; r++)
                for (int c = 0; c < HERD_CHAINS; c++)
                    message[HERD_CHAINS * r + c] *= top[c];
    }
}

/* Draws on the way back; returns how many totals were too small for a float64. */
static ptrdiff_t herd_block_draw(const herd_block *b, int64_t *x, const double *uniform, const double *messages, const double *own,
                                 double *shares, herd_operand *ops)
{
    ptrdiff_t lost = 0;
    for (ptrdiff_t k = b->count - 1; k >= 0; k--) {
        const int64_t *step = b->steps + STEP_SIZE * k;
        const int64_t rest = step[STEP_REST], states = step[STEP_STATES];
        double *share = shares + HERD_CHAINS * step[STEP_SHARE];
        const ptrdiff_t count = herd_block_operands(b, step, messages, own, ops);
        for (int c = 0; c < HERD_CHAINS; c++) {
            int64_t r = 0, drawn = 0;
            double total = 0;
            for (int64_t i = step[STEP_NEAR]; i < step[STEP_SIZE + STEP_NEAR]; i++)
                r += b->near[2 * i + 1] * x[HERD_CHAINS * b->near[2 * i] + c];
            for (int64_t v = 0; v < states; v++) {
                double value = 1.0;
                for (ptrdiff_t o = 0; o < count; o++) {
                    const double next = ops[o].from[HERD_CHAINS * (ptrdiff_t)ops[o].place[v * rest + r] + c];
                    value = o ? value * next : next;
                }
                share[HERD_CHAINS * v + c] = value;
                total += value;
            }
            if (!(total > 1e-250)) {
                lost++;
                total = 1.0;
            }
            const double threshold = uniform[HERD_CHAINS * k + c] * total;
            double below = 0;
            for (int64_t v = 0; v < states; v++) {
                below += share[HERD_CHAINS * v + c];
                drawn += v < states - 1 && below < threshold;
                share[HERD_CHAINS * v + c] /= total;
            }
            x[HERD_CHAINS * step[STEP_VARIABLE] + c] = drawn;
        }
    }
    return lost;
}

/* The marginal of a step's clique, from the product of its operands and what is above it, summed for its variable and for its children. */
HERD_INLINE void herd_block_spread(const herd_block *b, const herd_operand *ops, const ptrdiff_t count, const int64_t *step, const double *here,
                                   double *down, double *share)
{
    const int64_t rest = step[STEP_REST], states = step[STEP_STATES];
    const int64_t children = step[STEP_CHILDREN], last = step[STEP_SIZE + STEP_CHILDREN];
    for (int64_t v = 0; v < states; v++) {
        double chance[HERD_CHAINS] = {0};
        for (int64_t r = 0; r < rest; r++) {
            double value[HERD_CHAINS];
            const int64_t cell = v * rest + r;
            for (int c = 0; c < HERD_CHAINS; c++)
                value[c] = here[HERD_CHAINS * r + c];
            for (ptrdiff_t o = 0; o < count; o++) {
                const double *next = ops[o].from + HERD_CHAINS * (ptrdiff_t)ops[o].place[cell];
                for (int c = 0; c < HERD_CHAINS; c++)
                    value[c] *= next[c];
            }
            for (int64_t j = children; j < last; j++) {
                double *below = down + HERD_CHAINS * (b->children[2 * j] + (ptrdiff_t)b->place[b->children[2 * j + 1] + cell]);
                for (int c = 0; c < HERD_CHAINS; c++)
                    below[c] += value[c];
            }
            for (int c = 0; c < HERD_CHAINS; c++)
                chance[c] += value[c];
        }
        for (int c = 0; c < HERD_CHAINS; c++)
            share[HERD_CHAINS * v + c] = chance[c];
    }
}

/* The chances of all states of a block's variables given what is held, from what its steps have sent, on the way back.  down: scratch, a cell
   a message. */
HERD_LOOP(void, herd_block_marginals, (const herd_block *b, const double *messages, const double *own, double *down, double *shares, herd_operand *ops),
          (b, messages, own, down, shares, ops))
{
    memset(down, 0, sizeof(double) * HERD_CHAINS * (size_t)b->steps[STEP_SIZE * b->count + STEP_MESSAGE]);
    for (ptrdiff_t k = b->count - 1; k >= 0; k--) {
        const int64_t *step = b->steps + STEP_SIZE * k;
        const int64_t rest = step[STEP_REST], states = step[STEP_STATES];
        double *restrict here = down + HERD_CHAINS * step[STEP_MESSAGE];
        const double *sent = messages + HERD_CHAINS * step[STEP_MESSAGE];
        double *share = shares + HERD_CHAINS * step[STEP_SHARE];
        const ptrdiff_t count = herd_block_operands(b, step, messages, own, ops);
        double whole[HERD_CHAINS] = {0};
        for (int64_t r = 0; r < rest; r++)
            for (int c = 0; c < HERD_CHAINS; c++)
                whole[c] += here[HERD_CHAINS * r + c];
        for (int64_t r = 0; r < rest; r++)
            for (int c = 0; c < HERD_CHAINS; c++) {
                const double above = whole[c] > 0 ? here[HERD_CHAINS * r + c] / whole[c] : 1.0;
                here[HERD_CHAINS * r + c] = sent[HERD_CHAINS * r + c] > 0 ? above / sent[HERD_CHAINS * r + c] : 0.0;
            }
        if (count == 1)
            herd_block_spread(b, ops, 1, step, here, down, share);
        else if (count == 2)
            herd_block_spread(b, ops, 2, step, here, down, share);
        else if (count == 3)
            herd_block_spread(b, ops, 3, step, here, down, share);
        else
            herd_block_spread(b, ops, count, step, here, down, share);
        double total[HERD_CHAINS] = {0};
        for (int64_t v = 0; v < states; v++)
            for (int c = 0; c < HERD_CHAINS; c++)
                total[c] += share[HERD_CHAINS * v + c];
        for (int64_t v = 0; v < states; v++)
            for (int c = 0; c < HERD_CHAINS; c++)
                share[HERD_CHAINS * v + c] /= total[c];
    }
}

/* Where two chains differ, connected variables are exchanged between them, each component by the coin of its first variable. */
static void herd_exchange(const int64_t *first, const int64_t *near, ptrdiff_t count, int64_t *x, ptrdiff_t chains, ptrdiff_t a, ptrdiff_t b,
                          const double *coins, int64_t *stack, unsigned char *seen)
{
    memset(seen, 0, (size_t)count);
    for (ptrdiff_t i = 0; i < count; i++) {
        if (seen[i] || x[chains * i + a] == x[chains * i + b])
            continue;
        ptrdiff_t waiting = 0;
        stack[waiting++] = i;
        seen[i] = 1;
        while (waiting) {
            const int64_t j = stack[--waiting];
            for (int64_t e = first[j]; e < first[j + 1]; e++) {
                const int64_t k = near[e];
                if (!seen[k] && x[chains * k + a] != x[chains * k + b]) {
                    seen[k] = 1;
                    stack[waiting++] = k;
                }
            }
            if (coins[i] < 0.5) {
                const int64_t kept = x[chains * j + a];
                x[chains * j + a] = x[chains * j + b];
                x[chains * j + b] = kept;
            }
        }
    }
}
    """
    ctypedef struct herd_block:
        const int64_t *steps
        const int64_t *near
        const int64_t *parts
        const int64_t *held
        const int64_t *children
        const int32_t *inside
        const int32_t *place
        const double *tables
        Py_ssize_t count

    ctypedef struct herd_operand:
        const double *from_ "from"
        const int32_t *place

    void herd_block_collect(const herd_block *b, const int64_t *x, double *messages, double *own, herd_operand *ops) noexcept
    Py_ssize_t herd_block_draw(
        const herd_block *b, int64_t *x, const double *uniform, const double *messages, const double *own, double *shares,
        herd_operand *ops,
    ) noexcept
    void herd_block_marginals(
        const herd_block *b, const double *messages, const double *own, double *down, double *shares, herd_operand *ops,
    ) noexcept
    void herd_exchange(
        const int64_t *first, const int64_t *near, Py_ssize_t count, int64_t *x, Py_ssize_t chains, Py_ssize_t a, Py_ssize_t b,
        const double *coins, int64_t *stack, unsigned char *seen,
    ) noexcept

cdef Py_ssize_t _block(
    herd_block *b, const int64_t[:, ::1] steps, const int64_t[:, ::1] near, const int64_t[:, ::1] parts, const int64_t[:, ::1] held,
    const int64_t[:, ::1] children, const int32_t[::1] inside, const int32_t[::1] place, double[:, ::1] messages, double[:, ::1] own,
) except -1:
    """The program as the loops see it; how many steps it has."""
    cdef Py_ssize_t count = steps.shape[0] - 1
    if steps.shape[1] != 11 or near.shape[1] != 2 or parts.shape[1] != 3 or held.shape[1] != 2 or children.shape[1] != 2:
        raise ValueError("no program of a block")
    if count < 1:
        return 0
    if messages.shape[0] < steps[count, 6] or own.shape[0] < steps[count, 8]:
        raise ValueError("arrays of different shapes")
    if near.shape[0] < steps[count, 3] or parts.shape[0] <= steps[count, 4] or children.shape[0] < steps[count, 5]:
        raise ValueError("no program of a block")
    b.steps, b.count, b.parts = &steps[0, 0], count, &parts[0, 0]
    b.near = &near[0, 0] if near.shape[0] else NULL
    b.held = &held[0, 0] if held.shape[0] else NULL
    b.children = &children[0, 0] if children.shape[0] else NULL
    b.inside = &inside[0] if inside.shape[0] else NULL
    b.place = &place[0] if place.shape[0] else NULL
    b.tables = NULL
    return count


cdef herd_operand *_operands(const herd_block *b) except NULL:
    """Room for those of the step that has most."""
    cdef Py_ssize_t most = 0, k
    cdef herd_operand *ops
    for k in range(b.count):
        most = max(most, b.steps[11 * (k + 1) + 5] - b.steps[11 * k + 5] + 1)
    ops = <herd_operand *> malloc(most * sizeof(herd_operand))
    if ops == NULL:
        raise MemoryError()
    return ops


def draw_block(
    const int64_t[:, ::1] steps, const int64_t[:, ::1] near, const int64_t[:, ::1] parts, const int64_t[:, ::1] held,
    const int64_t[:, ::1] children, const int32_t[::1] inside, const int32_t[::1] place, const double[::1] tables,
    int64_t[:, ::1] x, const double[:, ::1] uniform, double[:, ::1] messages, double[:, ::1] own, double[:, ::1] shares,
):
    """Sample the variables of a block in x (N, 8), and write into `shares` (Σ card, 8) the probabilities they were sampled with.

    See the twin.
    """
    cdef herd_block b
    cdef Py_ssize_t lost
    cdef herd_operand *ops
    if not x.shape[1] == uniform.shape[1] == messages.shape[1] == own.shape[1] == shares.shape[1] == 8:
        raise ValueError("blocks are drawn for eight chains")
    if _block(&b, steps, near, parts, held, children, inside, place, messages, own) < 1:
        return 0
    if uniform.shape[0] < b.count:
        raise ValueError("arrays of different shapes")
    b.tables = &tables[0] if tables.shape[0] else NULL
    ops = _operands(&b)
    with nogil:
        herd_block_collect(&b, &x[0, 0], &messages[0, 0], &own[0, 0] if own.shape[0] else NULL, ops)
        lost = herd_block_draw(&b, &x[0, 0], &uniform[0, 0], &messages[0, 0], &own[0, 0] if own.shape[0] else NULL, &shares[0, 0], ops)
    free(ops)
    return lost


def block_marginals(
    const int64_t[:, ::1] steps, const int64_t[:, ::1] near, const int64_t[:, ::1] parts, const int64_t[:, ::1] held,
    const int64_t[:, ::1] children, const int32_t[::1] inside, const int32_t[::1] place, double[:, ::1] messages, double[:, ::1] own,
    double[:, ::1] down, double[:, ::1] shares,
):
    """Write the marginals of a block's variables given those held into `shares` (Σ card, 8), using the results of `draw_block`.

    See the twin.
    """
    cdef herd_block b
    cdef herd_operand *ops
    if not messages.shape[1] == own.shape[1] == down.shape[1] == shares.shape[1] == 8:
        raise ValueError("blocks are drawn for eight chains")
    if _block(&b, steps, near, parts, held, children, inside, place, messages, own) < 1:
        return
    if down.shape[0] < steps[b.count, 6]:
        raise ValueError("arrays of different shapes")
    ops = _operands(&b)
    with nogil:
        herd_block_marginals(&b, &messages[0, 0], &own[0, 0] if own.shape[0] else NULL, &down[0, 0], &shares[0, 0], ops)
    free(ops)


def exchange(const int64_t[::1] first, const int64_t[::1] near, int64_t[:, ::1] x, Py_ssize_t a, Py_ssize_t b, const double[::1] coins):
    """Exchange the differing variables of chains a and b of x (N, chains): each connected part with probability ½.  See the twin."""
    cdef Py_ssize_t count = x.shape[0], chains = x.shape[1]
    cdef int64_t *stack
    if first.shape[0] != count + 1 or coins.shape[0] != count or not (0 <= a < chains and 0 <= b < chains):
        raise ValueError("arrays of different shapes")
    if count < 1:
        return
    stack = <int64_t *> malloc(count * (sizeof(int64_t) + 1))
    if stack == NULL:
        raise MemoryError()
    with nogil:
        herd_exchange(&first[0], &near[0] if near.shape[0] else NULL, count, &x[0, 0], chains, a, b, &coins[0], stack,
                      <unsigned char *> (stack + count))
    free(stack)
