#include "agent/session/memory.h"

#include "agent/session/session_internal.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

/* Values are restored in pieces of half the first-level cache. */
enum { PIECE_BYTES = 24 << 10, PAGE_BYTES = 4096 };

/* Variables first .. last, which are contiguous in one block. */
struct range {
    int first, last;
    size_t bytes; /* with the padding between them */
};

struct memory {
    struct var_store *vars;
    int n_ranges;
    struct range *ranges;
    int n; /* number of variables */
    size_t bytes;
    void *place;          /* what was allocated; `values` points into it */
    char *values;         /* copies of all ranges, in order */
    unsigned char *flags; /* whether each variable is initialised */
    int stored;
};

static size_t range_bytes(struct var_store *s, const struct range *r)
{
    struct tensor last = var_store_value(s, r->last);

    return var_store_offset(s, r->last) + tensor_bytes(&last) -
           var_store_offset(s, r->first);
}

static int compare_ints(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Merges adjacent variables, with the padding between them, into one range. */
static void make_ranges(struct memory *m, int *index)
{
    struct range *r = NULL;

    qsort(index, (size_t)m->n, sizeof(*index), compare_ints);
    m->ranges = xcalloc((size_t)m->n + 1, sizeof(*m->ranges));
    for (int i = 0; i < m->n; i++) {
        if (r != NULL && index[i] == r->last)
            continue;
        if (r == NULL || index[i] != r->last + 1 ||
            !var_store_adjacent(m->vars, r->last)) {
            r = &m->ranges[m->n_ranges++];
            r->first = index[i];
        }
        r->last = index[i];
    }
    for (int k = 0; k < m->n_ranges; k++) {
        m->ranges[k].bytes = range_bytes(m->vars, &m->ranges[k]);
        m->bytes += m->ranges[k].bytes;
    }
}

/* Aligns the copy like the original modulo the page size: otherwise loads would wait for
 * stores to addresses with the same low bits. */
static int make_place(struct memory *m, struct err *err)
{
    const char *first =
        m->n_ranges > 0 ? var_store_value(m->vars, m->ranges[0].first).data : NULL;
    size_t phase = (uintptr_t)first % PAGE_BYTES;

    m->place = mem_aligned(m->bytes + 2 * (size_t)PAGE_BYTES);
    if (m->place == NULL)
        return err_set(err, ERR_NOMEM, "no memory for %zu bytes of variables", m->bytes);
    size_t begin = (uintptr_t)m->place % PAGE_BYTES;
    m->values = (char *)m->place + (phase + PAGE_BYTES - begin) % PAGE_BYTES;
    return 0;
}

int memory_new(struct memory **ret, struct session *s, struct variable *const *vars,
               size_t n, struct err *err)
{
    struct graph *g = session_graph(s);
    int rc = session_fix_layout(s, err);

    if (rc < 0)
        return rc;
    if (vars == NULL)
        n = (size_t)graph_n_variables(g);
    int *index = xcalloc(n + 1, sizeof(*index));
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const struct variable *v = vars != NULL ? vars[i] : graph_variable_at(g, (int)i);

        if (operation_graph(v->ref.op) == g)
            index[i] = var_store_find(session_variables(s), v->ref.op);
        else
            rc = err_set(err, ERR_ARG, "Tensor %s:0 is not an element of this graph.",
                         v->name);
    }
    if (rc == 0) {
        struct memory *m = xcalloc(1, sizeof(*m));

        m->vars = session_variables(s);
        m->n = (int)n;
        make_ranges(m, index);
        m->flags = xcalloc(n + 1, 1);
        rc = make_place(m, err);
        if (rc < 0)
            memory_free(m);
        else
            *ret = m;
    }
    free(index);
    return rc;
}

void memory_free(struct memory *m)
{
    if (m == NULL)
        return;
    free(m->ranges);
    free(m->place);
    free(m->flags);
    free(m);
}

size_t memory_bytes(const struct memory *m)
{
    return m->bytes;
}

/* Copies from the end to the beginning: what was stored last is still in the cache. */
static void copy_back(char *dst, const char *src, size_t bytes)
{
    while (bytes > 0) {
        size_t n = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;

        bytes -= n;
        memcpy(dst + bytes, src + bytes, n);
    }
}

/* Copies values and flags of all ranges from the block to the memory or back. */
static void copy_ranges(struct memory *m, int back)
{
    char *values = m->values;
    unsigned char *flags = m->flags;

    for (int k = 0; k < m->n_ranges; k++) {
        const struct range *r = &m->ranges[k];
        char *here = var_store_value(m->vars, r->first).data;
        unsigned char *set = var_store_flags(m->vars, r->first);
        size_t n = (size_t)(r->last - r->first + 1);

        if (back) {
            copy_back(here, values, r->bytes);
            memcpy(set, flags, n);
        } else {
            memcpy(values, here, r->bytes);
            memcpy(flags, set, n);
        }
        values += r->bytes;
        flags += n;
    }
}

void memory_store(struct memory *m)
{
    copy_ranges(m, 0);
    m->stored = 1;
}

int memory_restore(struct memory *m, struct err *err)
{
    if (!m->stored)
        return err_set(err, ERR_STATE, "no values are stored");
    copy_ranges(m, 1);
    return 0;
}
