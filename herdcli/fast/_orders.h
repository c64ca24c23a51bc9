/* Graphs from which variables are eliminated: the loops of _orders.pyx. */

#ifndef HERD_ORDERS_H
#define HERD_ORDERS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Of each variable its neighbours, ascending, in `room` places. */
typedef struct {
    ptrdiff_t count;
    int64_t **near;
    int64_t *degree, *room, *mark;
    int64_t stamp;
} herd_graph;

static void herd_graph_free(herd_graph *g)
{
    if (g->near)
        for (ptrdiff_t i = 0; i < g->count; i++)
            free(g->near[i]);
    free(g->near);
    free(g->degree);
    free(g->room);
    free(g->mark);
}

static int herd_graph_make(herd_graph *g, const int64_t *offset, const int64_t *flat, ptrdiff_t count)
{
    const size_t some = count > 0 ? (size_t)count : 1;
    g->count = count;
    g->stamp = 0;
    g->near = calloc(some, sizeof *g->near);
    g->degree = calloc(some, sizeof *g->degree);
    g->room = calloc(some, sizeof *g->room);
    g->mark = calloc(some, sizeof *g->mark);
    if (!g->near || !g->degree || !g->room || !g->mark)
        return -1;
    for (ptrdiff_t i = 0; i < count; i++) {
        const int64_t degree = offset[i + 1] - offset[i], room = degree + 4;
        if (!(g->near[i] = malloc((size_t)room * sizeof **g->near)))
            return -1;
        if (degree) /* of no edge at all there is no list */
            memcpy(g->near[i], flat + offset[i], (size_t)degree * sizeof **g->near);
        g->degree[i] = degree;
        g->room[i] = room;
    }
    return 0;
}

/* Where j stands in the neighbours of i, or would. */
static int64_t herd_graph_place(const herd_graph *g, int64_t i, int64_t j)
{
    int64_t low = 0, high = g->degree[i];
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (g->near[i][middle] < j)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int herd_graph_add(herd_graph *g, int64_t i, int64_t j)
{
    const int64_t at = herd_graph_place(g, i, j);
    if (g->degree[i] == g->room[i]) {
        const int64_t room = 2 * g->room[i];
        int64_t *made = realloc(g->near[i], (size_t)room * sizeof *made);
        if (!made)
            return -1;
        g->near[i] = made;
        g->room[i] = room;
    }
    memmove(g->near[i] + at + 1, g->near[i] + at, (size_t)(g->degree[i] - at) * sizeof **g->near);
    g->near[i][at] = j;
    g->degree[i]++;
    return 0;
}

static void herd_graph_drop(herd_graph *g, int64_t i, int64_t j)
{
    const int64_t at = herd_graph_place(g, i, j);
    g->degree[i]--;
    memmove(g->near[i] + at, g->near[i] + at + 1, (size_t)(g->degree[i] - at) * sizeof **g->near);
}

/* Join the neighbours of i and take it away.  touched, unless NULL, gets them and those that are neighbours of both ends of a new edge. */
static int64_t herd_graph_leave(herd_graph *g, int64_t i, int64_t *touched, int64_t *seen, int64_t turn)
{
    const int64_t degree = g->degree[i], *near = g->near[i];
    int64_t count = 0;
    for (int64_t a = 0; a < degree; a++) {
        herd_graph_drop(g, near[a], i);
        if (touched) {
            seen[near[a]] = turn;
            touched[count++] = near[a];
        }
    }
    for (int64_t a = 0; a < degree; a++) {
        const int64_t j = near[a];
        const int64_t stamp = ++g->stamp;
        for (int64_t b = 0; b < g->degree[j]; b++)
            g->mark[g->near[j][b]] = stamp;
        for (int64_t b = a + 1; b < degree; b++) {
            const int64_t k = near[b];
            if (g->mark[k] == stamp)
                continue;
            if (touched)
                for (int64_t c = 0; c < g->degree[k]; c++) {
                    const int64_t both = g->near[k][c];
                    if (g->mark[both] == stamp && seen[both] != turn) {
                        seen[both] = turn;
                        touched[count++] = both;
                    }
                }
            if (herd_graph_add(g, j, k) || herd_graph_add(g, k, j))
                return -1;
            g->mark[k] = stamp;
        }
    }
    g->degree[i] = 0;
    return count;
}

enum { HERD_FILL, HERD_WEIGHT, HERD_WEIGHTED };

/* What eliminating i costs. */
static double herd_graph_price(herd_graph *g, int64_t i, int kind, const double *each)
{
    const int64_t degree = g->degree[i], *near = g->near[i];
    if (kind == HERD_WEIGHT) {
        double sum = 0;
        for (int64_t a = 0; a < degree; a++)
            sum += each[near[a]];
        return sum;
    }
    if (kind == HERD_FILL) {
        const int64_t stamp = ++g->stamp;
        int64_t sum = degree * (degree - 1);
        for (int64_t a = 0; a < degree; a++)
            g->mark[near[a]] = stamp;
        for (int64_t a = 0; a < degree; a++) {
            const int64_t *other = g->near[near[a]], count = g->degree[near[a]];
            for (int64_t b = 0; b < count; b++)
                sum -= g->mark[other[b]] == stamp;
        }
        return (double)sum / 2;
    }
    double sum = 0;
    for (int64_t a = 0; a < degree; a++) {
        const int64_t j = near[a], *other = g->near[j], count = g->degree[j];
        double lacking = 0;
        for (int64_t b = 0, c = 0; b < degree; b++) {
            while (c < count && other[c] < near[b])
                c++;
            if (c == count || other[c] != near[b])
                lacking += each[near[b]];
        }
        sum += each[j] * (lacking - each[j]);
    }
    return sum / 2;
}

typedef struct {
    double price, tie;
    int64_t i;
} herd_entry;

typedef struct {
    herd_entry *entries;
    ptrdiff_t count, room;
} herd_heap;

static int herd_before(herd_entry a, herd_entry b)
{
    if (a.price != b.price)
        return a.price < b.price;
    return a.tie != b.tie ? a.tie < b.tie : a.i < b.i;
}

static int herd_push(herd_heap *heap, herd_entry entry)
{
    if (heap->count == heap->room) {
        const ptrdiff_t room = 2 * heap->room + 16;
        herd_entry *made = realloc(heap->entries, (size_t)room * sizeof *made);
        if (!made)
            return -1;
        heap->entries = made;
        heap->room = room;
    }
    ptrdiff_t at = heap->count++;
    for (; at && herd_before(entry, heap->entries[(at - 1) / 2]); at = (at - 1) / 2)
        heap->entries[at] = heap->entries[(at - 1) / 2];
    heap->entries[at] = entry;
    return 0;
}

static herd_entry herd_pop(herd_heap *heap)
{
    const herd_entry top = heap->entries[0], last = heap->entries[--heap->count];
    ptrdiff_t at = 0;
    for (;;) {
        ptrdiff_t child = 2 * at + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && herd_before(heap->entries[child + 1], heap->entries[child]))
            child++;
        if (!herd_before(heap->entries[child], last))
            break;
        heap->entries[at] = heap->entries[child];
        at = child;
    }
    heap->entries[at] = last;
    return top;
}

/* told: cells, largest, width, messages.  Returns how many have left, −1 without memory. */
static ptrdiff_t herd_greedy(herd_graph *g, const double *states, const double *weight, const double *each, int kind, const double *ties,
                             const double *noise, const double *limits, double base, int64_t *order, double *told)
{
    const ptrdiff_t count = g->count;
    double *now = malloc((size_t)(count + 1) * sizeof *now), cells = 0, largest = 0, messages = 0, looked = limits[2];
    int64_t *touched = malloc((size_t)(count + 1) * sizeof *touched), *seen = calloc((size_t)(count + 1), sizeof *seen), width = 0;
    char *gone = calloc((size_t)(count + 1), 1);
    herd_heap heap = {0};
    ptrdiff_t left = -1;
    if (!now || !touched || !seen || !gone)
        goto end;
    for (ptrdiff_t i = 0; i < count; i++) {
        const double plain = herd_graph_price(g, i, kind, each);
        now[i] = noise[i] == 1 ? plain : (plain + 0.5) * noise[i];
        if (herd_push(&heap, (herd_entry){now[i], ties[i], i}))
            goto end;
    }
    left = 0;
    while (heap.count) {
        const herd_entry top = herd_pop(&heap);
        const int64_t i = top.i;
        if (gone[i] || top.price != now[i])
            continue;
        const int64_t degree = g->degree[i], *near = g->near[i];
        double logs = 0;
        for (int64_t a = 0; a < degree; a++)
            logs += weight[near[a]];
        logs += weight[i];
        const double size = pow(base, logs < 1000 ? logs : 1000);
        cells += size;
        largest = size > largest ? size : largest;
        width = degree > width ? degree : width;
        messages += size / states[i];
        if (cells + messages > limits[0] || (double)width >= limits[1] || (looked > limits[3] && cells > limits[4]))
            break;
        order[left++] = i;
        gone[i] = 1;
        int64_t many = herd_graph_leave(g, i, touched, seen, left);
        if (many < 0) {
            left = -1;
            goto end;
        }
        if (kind == HERD_WEIGHT)
            many = degree;  /* the neighbours come first */
        for (int64_t a = 0; a < many; a++) {
            const int64_t j = touched[a];
            const double plain = herd_graph_price(g, j, kind, each), changed = noise[j] == 1 ? plain : (plain + 0.5) * noise[j];
            looked += (double)g->degree[j];
            if (changed != now[j]) {
                now[j] = changed;
                if (herd_push(&heap, (herd_entry){changed, ties[j], j})) {
                    left = -1;
                    goto end;
                }
            }
        }
    }
    told[0] = cells;
    told[1] = largest;
    told[2] = (double)width;
    told[3] = messages;
end:
    free(now);
    free(touched);
    free(seen);
    free(gone);
    free(heap.entries);
    return left;
}

static int herd_along(herd_graph *g, const double *states, const int64_t *order, ptrdiff_t count, double *told)
{
    double cells = 0, largest = 0, messages = 0;
    int64_t width = 0;
    for (ptrdiff_t k = 0; k < count; k++) {
        const int64_t i = order[k];
        double size = states[i];
        for (int64_t a = 0; a < g->degree[i]; a++)
            size *= states[g->near[i][a]];
        cells += size;
        largest = size > largest ? size : largest;
        width = g->degree[i] > width ? g->degree[i] : width;
        messages += size / states[i];
        if (herd_graph_leave(g, i, NULL, NULL, 0) < 0)
            return -1;
    }
    told[0] = cells;
    told[1] = largest;
    told[2] = (double)width;
    told[3] = messages;
    return 0;
}

/* What is reached from `first` in breadth, into `found`; seen below `turn` is not reached yet. */
static ptrdiff_t herd_breadth(const int64_t *offset, const int64_t *near, int64_t first, int64_t *seen, int64_t turn, int64_t *found)
{
    ptrdiff_t count = 1;
    found[0] = first;
    seen[first] = turn;
    for (ptrdiff_t k = 0; k < count; k++)
        for (int64_t a = offset[found[k]]; a < offset[found[k] + 1]; a++)
            if (seen[near[a]] < turn) {
                seen[near[a]] = turn;
                found[count++] = near[a];
            }
    return count;
}

static double herd_change(const int64_t *offset, const int64_t *near, const double *weight, const int64_t *outside, const char *entered, int64_t i)
{
    double less = 0;
    for (int64_t a = offset[i]; a < offset[i + 1]; a++)
        if (entered[near[a]] && outside[near[a]] == 1)
            less += weight[near[a]];
    return (outside[i] ? weight[i] : 0) - less;
}

/* Returns how many are left, −1 past the limit, −2 without memory. */
static ptrdiff_t herd_line(const int64_t *offset, const int64_t *near, ptrdiff_t count, const double *weight, const int64_t *by_tie,
                           double limit, double base, int64_t *left)
{
    const size_t some = (size_t)count + 1;
    int64_t *rank = malloc(some * sizeof *rank), *beginnings = malloc(some * sizeof *rank), *seen = calloc(some, sizeof *rank);
    int64_t *found = malloc(some * sizeof *rank), *outside = malloc(some * sizeof *rank), *candidates = malloc(some * sizeof *rank);
    char *entered = calloc(some, 1), *inside = calloc(some, 1);
    ptrdiff_t many = 0, begun = 0, waiting = 0, reached = 0;
    double cells = 0, frontier = 0;
    if (!rank || !beginnings || !seen || !found || !outside || !candidates || !entered || !inside) {
        many = -2;
        goto end;
    }
    for (ptrdiff_t k = 0; k < count; k++)
        if (!seen[by_tie[k]]) {
            ptrdiff_t part = herd_breadth(offset, near, by_tie[k], seen, 1, found);
            part = herd_breadth(offset, near, found[part - 1], seen, 2, found);
            for (ptrdiff_t a = 0; a < part; a++) {
                beginnings[reached] = found[a];
                rank[found[a]] = reached++;
            }
        }
    for (ptrdiff_t i = 0; i < count; i++)
        outside[i] = offset[i + 1] - offset[i];
    for (ptrdiff_t k = 0; k < count; k++) {
        if (!waiting) {
            while (entered[beginnings[begun]])
                begun++;
            candidates[waiting++] = beginnings[begun];
            inside[beginnings[begun]] = 1;
        }
        ptrdiff_t best = 0;
        double least = herd_change(offset, near, weight, outside, entered, candidates[0]);
        for (ptrdiff_t c = 1; c < waiting; c++) {
            const double change = herd_change(offset, near, weight, outside, entered, candidates[c]);
            if (change < least || (change == least && rank[candidates[c]] < rank[candidates[best]])) {
                best = c;
                least = change;
            }
        }
        const int64_t i = candidates[best];
        candidates[best] = candidates[--waiting];
        const double logs = frontier + weight[i];
        cells += pow(base, logs < 1000 ? logs : 1000);
        if (cells > limit) {
            many = -1;
            goto end;
        }
        frontier += least;
        entered[i] = 1;
        for (int64_t a = offset[i]; a < offset[i + 1]; a++) {
            const int64_t j = near[a];
            outside[j]--;
            if (!entered[j]) {
                if (!inside[j]) {
                    inside[j] = 1;
                    candidates[waiting++] = j;
                }
            } else if (!outside[j])
                left[many++] = j;
        }
        if (!outside[i])
            left[many++] = i;
    }
end:
    free(rank);
    free(beginnings);
    free(seen);
    free(found);
    free(outside);
    free(candidates);
    free(entered);
    free(inside);
    return many;
}

/* Take i away, and its edges with it. */
static void herd_graph_hold(herd_graph *g, int64_t i)
{
    for (int64_t a = 0; a < g->degree[i]; a++)
        herd_graph_drop(g, g->near[i][a], i);
    g->degree[i] = 0;
}

static ptrdiff_t herd_reached(herd_graph *g, const double *states, double cells, const uint8_t *wanted, const uint8_t *held, int64_t *order)
{
    const ptrdiff_t count = g->count;
    char *left = calloc((size_t)count + 1, 1);
    int64_t *around = malloc(((size_t)count + 1) * sizeof *around);
    herd_heap heap = {0};
    ptrdiff_t made = -1;
    if (!left || !around)
        goto end;
    for (ptrdiff_t i = 0; i < count; i++)
        if (held[i])
            herd_graph_hold(g, i);
    for (ptrdiff_t i = 0; i < count; i++) {
        left[i] = states[i] > 1 && !held[i];
        if (left[i] && herd_push(&heap, (herd_entry){(double)g->degree[i], !wanted[i], i}))
            goto end;
    }
    made = 0;
    while (heap.count) {
        const herd_entry top = herd_pop(&heap);
        int64_t i = top.i, many = g->degree[i];
        if (!left[i] || top.price != (double)many)
            continue;
        double size = states[i];
        for (int64_t a = 0; a < many; a++)
            size *= states[around[a] = g->near[i][a]];
        if (size <= cells || !many) {
            order[made++] = i;
            if (herd_graph_leave(g, i, NULL, NULL, 0) < 0) {
                made = -1;
                goto end;
            }
        } else {
            const int64_t stamp = ++g->stamp, first = i;
            g->mark[first] = stamp;
            for (int64_t a = 0; a < many; a++) {
                const int64_t j = around[a];
                g->mark[j] = stamp;
                if (!wanted[j] != !wanted[i] ? !wanted[j] : g->degree[j] != g->degree[i] ? g->degree[j] > g->degree[i] : j > i)
                    i = j;
            }
            around[many++] = first;
            for (int64_t a = 0; a < g->degree[i]; a++)
                if (g->mark[g->near[i][a]] != stamp)
                    around[many++] = g->near[i][a];
            herd_graph_hold(g, i);
        }
        left[i] = 0;
        for (int64_t a = 0; a < many; a++) {
            const int64_t j = around[a];
            if (left[j] && herd_push(&heap, (herd_entry){(double)g->degree[j], !wanted[j], j})) {
                made = -1;
                goto end;
            }
        }
    }
end:
    free(left);
    free(around);
    free(heap.entries);
    return made;
}

#endif
