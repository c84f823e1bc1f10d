#include "supervisor/save/weights.h"

#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

struct weights {
    struct block_table *tables; /* [agents] which own the names */
    struct event_tensor *list;
    size_t n, cap;
};

/* Whether the name is that of another variable, which may follow the names of scopes, and one
 * more part. */
static int is_slot(const struct block_table *t, const char *name)
{
    const char *last = strrchr(name, '/');

    if (last == NULL)
        return 0;
    for (size_t i = 0; i < t->n; i++) {
        const size_t len = strlen(t->variables[i].name);
        const size_t before = (size_t)(last - name);

        if (len <= before && memcmp(last - len, t->variables[i].name, len) == 0 &&
            (len == before || last[-1 - (ptrdiff_t)len] == '/'))
            return 1;
    }
    return 0;
}

static int gather(struct weights *w, const struct checkpoint_agent *a,
                  struct block_table *t, struct err *err)
{
    int rc = block_table_parse(t, a->description, a->block_bytes, err);

    for (size_t i = 0; i < t->n; i++) {
        const struct block_variable *v = &t->variables[i];
        const char *data = (const char *)a->block + v->offset;

        if (!v->in_bundle || v->dtype != DT_FLOAT || v->shape.rank == 0 ||
            is_slot(t, v->name))
            continue;
        ARRAY_GROW(w->list, w->n, w->cap);
        w->list[w->n++] = (struct event_tensor){.tag = v->name,
                                                .data = (const float *)(const void *)data,
                                                .n = (size_t)shape_elements(&v->shape)};
    }
    return rc;
}

int weights_write(struct event_folder *to, const struct checkpoint_agent *agents,
                  size_t n_agents, uint64_t step, double wall_time, struct err *err)
{
    struct weights w = {.tables = xcalloc(n_agents, sizeof(*w.tables))};
    struct event_sink *sink = NULL;
    int rc = 0;

    for (size_t i = 0; i < n_agents && rc == 0; i++)
        rc = gather(&w, &agents[i], &w.tables[i], err);
    if (rc == 0)
        rc = event_folder_begin(to, step, wall_time, &sink, err);
    if (rc == 0 && sink != NULL)
        rc = event_sink_write_histograms(sink, step, w.list, w.n, wall_time, err);
    for (size_t i = 0; i < n_agents; i++)
        block_table_done(&w.tables[i]);
    free(w.tables);
    free(w.list);
    return rc;
}
