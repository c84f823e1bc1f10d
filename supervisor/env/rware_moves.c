#include "supervisor/env/rware_moves.h"

#include "supervisor/env/pair_set.h"

#include <string.h>

enum { MAX_CELLS = 2 * RWARE_MAX_AGENTS };
_Static_assert(RWARE_MAX_AGENTS + 1 <= PAIR_SET_MAX, "a component's cells");

/* The graph of wishes: cell i < n is robot i's, the others are wanted and free. */
struct graph {
    size_t n, n_cells;
    int32_t x[MAX_CELLS], y[MAX_CELLS];
    int32_t next[MAX_CELLS]; /* the cell that the robot of this one wants; -1: no robot */
    int32_t
        order[MAX_CELLS]; /* the cells as they were added, each robot's before its wish */
    int32_t depth[MAX_CELLS]; /* of the tree behind it: edges of the longest path */
};

/* The free cell (x, y), which is added if it is new. */
static int32_t free_cell(struct graph *g, int32_t x, int32_t y)
{
    for (size_t c = g->n; c < g->n_cells; c++) {
        if (g->x[c] == x && g->y[c] == y)
            return (int32_t)c;
    }
    g->x[g->n_cells] = x;
    g->y[g->n_cells] = y;
    g->next[g->n_cells] = -1;
    return (int32_t)g->n_cells++;
}

static void build_graph(struct graph *g, const struct rware_wish *wish, size_t n)
{
    uint8_t added[MAX_CELLS] = {0};
    size_t n_added = 0;

    g->n = g->n_cells = n;
    for (size_t i = 0; i < n; i++) {
        g->x[i] = wish[i].x;
        g->y[i] = wish[i].y;
        g->next[i] = wish[i].blocker;
        if (wish[i].blocker < 0)
            g->next[i] = free_cell(g, wish[i].to_x, wish[i].to_y);
    }
    for (size_t i = 0; i < n; i++) {
        const int32_t pair[2] = {(int32_t)i, g->next[i]};

        for (int k = 0; k < 2; k++) {
            if (!added[pair[k]])
                g->order[n_added++] = pair[k];
            added[pair[k]] = 1;
        }
    }
    memset(g->depth, 0, sizeof(g->depth));
}

/* Follows the wishes from robot i. Returns the free cell at the end; -1: they end in a circle,
 * whose length is then in *ret_circle if robot i belongs to it, else 0. */
static int32_t follow(const struct graph *g, size_t i, size_t *ret_circle)
{
    int32_t c = g->next[i];

    *ret_circle = 0;
    for (size_t step = 1; step <= g->n; step++) {
        if (g->next[c] < 0)
            return c;
        if (c == (int32_t)i) {
            *ret_circle = step;
            return -1;
        }
        c = g->next[c];
    }
    return -1;
}

static void set_depths(struct graph *g, size_t leaf)
{
    int32_t depth = 0;

    for (int32_t c = (int32_t)leaf; g->next[c] >= 0; c = g->next[c]) {
        if (g->depth[g->next[c]] > depth)
            return; /* and so in all cells further on */
        g->depth[g->next[c]] = ++depth;
    }
}

/* Lists the cells of the tree around cell `first`, as a search by breadth finds them: from each
 * cell to the wanted one, then to those that want it. Returns how many. */
static size_t list_tree(const struct graph *g, int32_t first, int16_t *ret)
{
    uint8_t seen[MAX_CELLS] = {0};
    size_t n = 1;

    ret[0] = (int16_t)first;
    seen[first] = 1;
    for (size_t at = 0; at < n; at++) {
        const int32_t c = ret[at];

        if (g->next[c] >= 0 && !seen[g->next[c]]) {
            seen[g->next[c]] = 1;
            ret[n++] = (int16_t)g->next[c];
        }
        for (size_t i = 0; i < g->n; i++) {
            if (g->next[i] == c && !seen[i]) {
                seen[i] = 1;
                ret[n++] = (int16_t)i;
            }
        }
    }
    return n;
}

static void put_in_set(const struct graph *g, const int16_t *cells, size_t n,
                       struct pair_set *ret)
{
    pair_set_init(ret);
    for (size_t i = 0; i < n; i++)
        pair_set_add(ret, g->x[cells[i]], g->y[cells[i]], cells[i]);
}

/* Sets the rank of each cell of the tree that ends in `root`: its place in the order of the
 * tree's own graph. */
static void rank_tree(const struct graph *g, int32_t root, int32_t *ret)
{
    int16_t cells[PAIR_SET_MAX];
    struct pair_set found, shown;
    uint8_t in_tree[MAX_CELLS] = {0};
    size_t n = list_tree(g, root, cells), first = 0;

    for (size_t i = 0; i < n; i++)
        in_tree[cells[i]] = 1;
    for (size_t i = 0; i < g->n_cells; i++)
        ret[g->order[i]] = (int32_t)i;
    if (2 * n >= g->n_cells)
        return;
    while (!in_tree[g->order[first]])
        first++;
    n = list_tree(g, g->order[first], cells);
    put_in_set(g, cells, n, &found); /* the component, which the view of it copies */
    n = pair_set_list(&found, cells);
    put_in_set(g, cells, n, &shown);
    n = pair_set_list(&shown, cells);
    for (size_t i = 0; i < n; i++)
        ret[cells[i]] = (int32_t)i;
}

/* The robot of the longest path that moves into cell c; *ranked says whether `rank` is set. */
static int32_t choose_next(const struct graph *g, int32_t c, int32_t root, int32_t *rank,
                           int *ranked)
{
    int32_t best = -1;

    for (size_t i = 0; i < g->n; i++) {
        if (g->next[i] != c || g->depth[i] != g->depth[c] - 1)
            continue;
        if (best >= 0 && !*ranked) {
            rank_tree(g, root, rank);
            *ranked = 1;
        }
        if (best < 0 || rank[i] < rank[best])
            best = (int32_t)i;
    }
    return best;
}

void rware_resolve(const struct rware_wish *wish, size_t n, uint8_t *ret)
{
    struct graph g;
    int32_t rank[MAX_CELLS] = {0};

    build_graph(&g, wish, n);
    for (size_t i = 0; i < n; i++) {
        size_t circle;
        if (follow(&g, i, &circle) >= 0)
            set_depths(&g, i);
        ret[i] = circle == 1 || circle > 2;
    }
    for (size_t root = n; root < g.n_cells; root++) {
        int ranked = 0;

        for (int32_t c = (int32_t)root; g.depth[c] > 0;) {
            c = choose_next(&g, c, (int32_t)root, rank, &ranked);
            ret[c] = 1;
        }
    }
}
