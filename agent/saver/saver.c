#include "agent/saver/saver_internal.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- the variables to save ---- */

static int compare_items(const void *a, const void *b)
{
    const struct saver_item *x = a, *y = b;
    const int order = strcmp(x->name, y->name);

    if (order != 0 || x->slice == NULL || y->slice == NULL)
        return order;
    return strcmp(x->slice, y->slice);
}

static void take_all_variables(struct saver *s)
{
    const struct collection_item *items;
    size_t n = collection_get(s->graph, GLOBAL_VARIABLES, NULL, &items);

    s->items = ARENA_ARRAY(&s->arena, struct saver_item, n);
    for (size_t i = 0; i < n; i++)
        if (items[i].kind == ITEM_VARIABLE)
            s->items[s->n_items++] =
                (struct saver_item){items[i].variable->name, items[i].variable};
}

static int take_variables(struct saver *s, const struct saver_item *vars, size_t n,
                          struct err *err)
{
    s->items = ARENA_ARRAY(&s->arena, struct saver_item, n);
    for (size_t i = 0; i < n; i++) {
        const struct variable *v = vars[i].variable;

        if (v == NULL || operation_graph(v->ref.op) != s->graph)
            return err_set(err, ERR_ARG, "Tensor %s:0 is not an element of this graph.",
                           v != NULL ? v->name : "None");
        s->items[s->n_items++] = (struct saver_item){
            arena_strdup(&s->arena, vars[i].name != NULL ? vars[i].name : v->name),
            vars[i].variable};
    }
    return 0;
}

static int sort_items(struct saver *s, struct err *err)
{
    qsort(s->items, s->n_items, sizeof(*s->items), compare_items);
    for (size_t i = 1; i < s->n_items; i++)
        if (compare_items(&s->items[i - 1], &s->items[i]) == 0)
            return err_set(err, ERR_ARG, "At least two variables have the same name: %s",
                           s->items[i].name);
    return 0;
}

static const char *item_device(const struct saver_item *item)
{
    return operation_device(item->variable->ref.op);
}

static int compare_devices(const void *a, const void *b)
{
    const struct saver_shard *x = a, *y = b;

    return strcmp(x->device, y->device);
}

/* One shard per device; a single one unless the Saver is sharded. */
static void make_shards(struct saver *s)
{
    s->shards = ARENA_ARRAY(&s->arena, struct saver_shard, s->n_items);
    for (size_t i = 0; i < s->n_items; i++) {
        const char *device = s->options.sharded ? item_device(&s->items[i]) : "";
        struct saver_item *items;
        size_t k = 0;

        while (k < s->n_shards && strcmp(s->shards[k].device, device) != 0)
            k++;
        if (k < s->n_shards)
            continue;
        items = ARENA_ARRAY(&s->arena, struct saver_item, s->n_items);
        s->shards[k] = (struct saver_shard){.device = device, .items = items};
        s->n_shards++;
        for (size_t j = i; j < s->n_items; j++)
            if (!s->options.sharded || strcmp(item_device(&s->items[j]), device) == 0)
                items[s->shards[k].n++] = s->items[j];
    }
    if (s->n_shards > 0)
        qsort(s->shards, s->n_shards, sizeof(*s->shards), compare_devices);
}

/* ---- building ---- */

double saver_now(const struct saver *s)
{
    struct timespec t;

    if (s->options.now != NULL)
        return s->options.now(s->options.now_ctx);
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int build_nodes(struct saver *s, struct err *err)
{
    int rc = sort_items(s, err);

    if (rc == 0 && s->n_items == 0 && !s->options.allow_empty)
        rc = err_set(err, ERR_ARG, "No variables to save");
    if (rc != 0 || s->n_items == 0)
        return rc;
    make_shards(s);
    return saver_nodes_build(s->graph, &s->arena, &s->options, s->shards, s->n_shards,
                             &s->def, err);
}

/* For a Saver with a saver_def, the name is the scope under which it was imported. */
static int find_nodes(struct saver *s, const struct saver_def *def, struct err *err)
{
    const char *scope = s->options.name;
    const char *prefix = scope != NULL ? arena_printf(&s->arena, "%s/", scope) : "";
    int rc;

    s->def = *def;
    s->def.filename_tensor =
        arena_printf(&s->arena, "%s%s", prefix, def->filename_tensor);
    s->def.save_tensor = arena_printf(&s->arena, "%s%s", prefix, def->save_tensor);
    s->def.restore_op = arena_printf(&s->arena, "%s%s", prefix, def->restore_op);
    s->options.max_to_keep = def->max_to_keep;
    s->options.sharded = def->sharded;
    s->options.keep_every_n_hours = (double)def->keep_every_n_hours;
    rc = saver_nodes_find(s->graph, &s->arena, &s->def, &s->items, &s->n_items, err);
    if (rc == 0)
        rc = sort_items(s, err);
    if (rc == 0)
        make_shards(s);
    return rc;
}

static void mark_built(struct saver *s)
{
    s->built = 1;
    s->next_keep = saver_now(s) + s->options.keep_every_n_hours * 3600.0;
}

int saver_build(struct saver *s, struct err *err)
{
    int rc;

    if (s->built)
        return err_set(err, ERR_STATE, "the Saver is built already");
    take_all_variables(s);
    rc = build_nodes(s, err);
    if (rc == 0)
        mark_built(s);
    return rc;
}

static int check_options(const struct saver_options *o, struct err *err)
{
    if (o->builder != NULL)
        return err_set(err, ERR_UNSUPPORTED,
                       "builder: a Saver builds its own nodes, no other builder is "
                       "supported");
    if (o->write_version == SAVER_V1)
        return err_set(err, ERR_UNSUPPORTED,
                       "write_version: V1 checkpoints are not supported, only V2");
    if (o->write_version != SAVER_V2)
        return err_set(err, ERR_ARG, "write_version %d, not V2 (%d)", o->write_version,
                       SAVER_V2);
    if (o->max_to_keep < 0)
        return err_set(err, ERR_ARG, "max_to_keep is %d", o->max_to_keep);
    if (o->defer_build && o->vars != NULL)
        return err_set(err, ERR_ARG,
                       "If `var_list` is provided then build cannot be deferred. Either "
                       "set defer_build=False or var_list=None.");
    return 0;
}

int saver_new(struct saver **ret, struct graph *g, const struct saver_options *o,
              struct err *err)
{
    struct saver *s = xcalloc(1, sizeof(*s));
    int rc;

    s->graph = g;
    s->options = o != NULL ? *o : SAVER_DEFAULTS;
    s->options.name = arena_strdup(&s->arena, s->options.name);
    s->options.filename = arena_strdup(&s->arena, s->options.filename);
    rc = check_options(&s->options, err);
    if (rc == 0 && s->options.saver_def != NULL) {
        rc = find_nodes(s, s->options.saver_def, err);
    } else if (rc == 0 && !s->options.defer_build) {
        if (s->options.vars != NULL)
            rc = take_variables(s, s->options.vars, s->options.n_vars, err);
        else
            take_all_variables(s);
        if (rc == 0)
            rc = build_nodes(s, err);
    }
    if (rc != 0) {
        saver_free(s);
        return rc;
    }
    if (!s->options.defer_build || s->options.saver_def != NULL)
        mark_built(s);
    *ret = s;
    return 0;
}

void saver_free(struct saver *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->n_last; i++)
        free(s->last[i].prefix);
    free(s->last);
    arena_done(&s->arena);
    free(s);
}

const struct saver_def *saver_as_def(const struct saver *s)
{
    return s->built && s->n_items > 0 ? &s->def : NULL;
}

size_t saver_n_items(const struct saver *s)
{
    return s->n_items;
}

const struct saver_item *saver_item_at(const struct saver *s, size_t i)
{
    CHECK(i < s->n_items);
    return &s->items[i];
}
