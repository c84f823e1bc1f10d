#include "supervisor/save/checkpoint_write.h"

#include "common/ckpt/atomic_file.h"
#include "common/ckpt/bundle.h"
#include "common/ckpt/ckpt_state.h"
#include "common/io/beneath.h"
#include "common/io/tree.h"
#include "common/mem/xmalloc.h"
#include "common/tensor/string_slab.h"
#include "supervisor/save/checkpoint_read.h"
#include "supervisor/save/graphs.h"
#include "supervisor/save/retention.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- an agent's files ---- */

static int write_bundle(const struct block_table *table, const void *block,
                        const char *prefix, struct err *err)
{
    struct bundle_writer *w = NULL;
    int rc = bundle_writer_new(&w, prefix, 0, err);

    for (size_t i = 0; i < table->n && rc == 0; i++) {
        const struct block_variable *v = &table->variables[i];
        struct tensor t;

        if (!v->in_bundle)
            continue;
        t = tensor_const_view(v->dtype, v->shape, (const char *)block + v->offset);
        if (v->dtype == DT_STRING)
            rc = string_slab_get((const char *)block + v->offset, &v->shape, &t, err);
        if (rc == 0)
            rc = bundle_writer_add(w, v->name, &t, err);
        tensor_free(&t);
    }
    if (rc == 0)
        rc = bundle_writer_finish(w, err);
    bundle_writer_free(w);
    return rc;
}

/* Writes the text file "checkpoint" as TensorFlow's Saver writes it after its first
 * save. */
static int write_state_text(const char *folder, uint64_t step, struct err *err)
{
    char *path = xasprintf("%s/checkpoint", folder);
    char *newest = xasprintf("model.ckpt-%" PRIu64, step);
    const struct ckpt_state state = {.newest = newest, .all = &newest, .n_all = 1};
    struct wbuf text = {0};
    int rc;

    ckpt_state_put(&text, &state);
    rc = atomic_file_write(path, text.data, text.len, 0, err);
    wbuf_done(&text);
    free(newest);
    free(path);
    return rc;
}

static int write_metagraph(const struct checkpoint_agent *a,
                           const struct block_table *table, const char *prefix,
                           uint64_t step, struct wbuf *section, struct err *err)
{
    char *path = xasprintf("%s.meta", prefix);
    struct wbuf graph = {0};
    int rc;

    wbuf_bytes(&graph, a->metagraph, a->metagraph_bytes);
    rc = graphs_write_settings(graph.data, graph.len, table, a->block, step, err);
    if (rc == 0)
        rc = atomic_file_write(path, graph.data, graph.len, 0, err);
    graph_section_put(section, graph.data, graph.len);
    wbuf_done(&graph);
    free(path);
    return rc;
}

/* What run.state stores about an agent. */
struct agent_sections {
    struct wbuf agent;
    struct wbuf graph; /* empty if the agent has no .meta */
};

static int write_agent(const struct checkpoint_agent *a, const char *temp, uint64_t step,
                       struct agent_sections *sections, struct err *err)
{
    char *folder = xasprintf("%s/%s", temp, a->name);
    char *prefix = checkpoint_bundle_prefix(temp, step, a->name);
    struct block_table table = {0};
    int rc = block_table_parse(&table, a->description, a->block_bytes, err);

    if (rc == 0)
        rc = agent_section_put(&sections->agent, &table, a->block, a->block_bytes, err);
    if (rc == 0)
        rc = tree_make(folder, err);
    if (rc == 0)
        rc = write_bundle(&table, a->block, prefix, err);
    if (rc == 0)
        rc = write_state_text(folder, step, err);
    if (rc == 0 && a->metagraph != NULL)
        rc = write_metagraph(a, &table, prefix, step, &sections->graph, err);
    block_table_done(&table);
    free(prefix);
    free(folder);
    if (rc < 0)
        (void)err_wrap(err, "%s", a->name);
    return rc;
}

/* ---- the folder ---- */

static struct checkpoint_section name_section(const char *prefix, const char *agent,
                                              const struct wbuf *data)
{
    return (struct checkpoint_section){xasprintf("%s%s", prefix, agent), data->data,
                                       data->len};
}

static int write_run_state(const struct checkpoint_args *args, const char *temp,
                           const struct agent_sections *of_agents, struct err *err)
{
    size_t n = args->n_sections;
    struct checkpoint_section *sections =
        xcalloc(n + 2 * args->n_agents, sizeof(*sections));
    char *path = xasprintf("%s/run.state", temp);
    struct wbuf b = {0};
    int rc;

    for (size_t i = 0; i < args->n_sections; i++)
        sections[i] = args->sections[i];
    for (size_t i = 0; i < args->n_agents; i++)
        sections[n++] =
            name_section(SECTION_AGENT, args->agents[i].name, &of_agents[i].agent);
    for (size_t i = 0; i < args->n_agents; i++)
        if (of_agents[i].graph.len > 0)
            sections[n++] =
                name_section(SECTION_GRAPH, args->agents[i].name, &of_agents[i].graph);
    checkpoint_state_put(&b, sections, n);
    rc = atomic_file_write(path, b.data, b.len, 0, err);
    wbuf_done(&b);
    for (size_t i = args->n_sections; i < n; i++)
        free((char *)(uintptr_t)sections[i].name);
    free(sections);
    free(path);
    return rc;
}

/* Writes every file before syncing any: the disk can then merge the writes. */
static int write_all(const struct checkpoint_args *args, const char *temp,
                     struct err *err)
{
    struct agent_sections *of_agents = xcalloc(args->n_agents, sizeof(*of_agents));
    int rc = tree_make(temp, err);

    if (rc == 0) /* an interrupted write may have left files there */
        rc = tree_empty(temp, NULL, err);
    for (size_t i = 0; i < args->n_agents && rc == 0; i++)
        rc = write_agent(&args->agents[i], temp, args->step, &of_agents[i], err);
    if (rc == 0)
        rc = write_run_state(args, temp, of_agents, err);
    if (rc == 0)
        rc = tree_sync_all(temp, NULL, err);
    for (size_t i = 0; i < args->n_agents; i++) {
        wbuf_done(&of_agents[i].agent);
        wbuf_done(&of_agents[i].graph);
    }
    free(of_agents);
    return rc;
}

/* ---- the commit ---- */

/* Renames, and syncs the folder; if that fails, takes the rename back. */
static int rename_synced(const char *dir, const char *from, const char *to,
                         unsigned flags, struct err *err)
{
    int rc = tree_rename(from, to, flags, err);

    if (rc < 0)
        return rc;
    rc = tree_sync(dir, err);
    if (rc < 0)
        (void)tree_rename(to, from, flags, NULL);
    return rc;
}

/* Replaces a complete checkpoint of the same step, on a file system that cannot exchange two
 * folders. */
static int replace_in_steps(const struct checkpoint_args *args, const char *temp,
                            const char *final, struct err *err)
{
    char *old = checkpoint_path(args->dir, ".del-", args->step);
    int rc = tree_remove(old, err);

    if (rc == 0)
        rc = tree_rename(final, old, 0, err);
    if (rc == 0) {
        rc = rename_synced(args->dir, temp, final, 0, err);
        if (rc < 0)
            (void)tree_rename(old, final, 0, NULL);
    }
    if (rc == 0)
        rc = tree_remove(old, err);
    free(old);
    return rc;
}

static int commit(const struct checkpoint_args *args, const char *temp, struct err *err)
{
    char *final = checkpoint_path(args->dir, "", args->step);
    int rc = tree_look(final, err);

    if (rc == 1 && !checkpoint_is_damaged(args->dir, args->step)) {
        /* swaps the two folders, so that a complete checkpoint exists at any time; the old one is
         * removed when the new one is in its place on the disk */
        rc = rename_synced(args->dir, temp, final, RENAME_EXCHANGE, err);
        if (rc == -EINVAL)
            rc = replace_in_steps(args, temp, final, err);
        else if (rc == 0)
            rc = tree_remove(temp, err);
    } else {
        if (rc == 1)
            rc = retention_set_aside(args->dir, args->step, err);
        if (rc == 0)
            rc = rename_synced(args->dir, temp, final, 0, err);
    }
    free(final);
    return rc;
}

void checkpoint_announce(const char *dir, uint64_t step)
{
    char *temp = checkpoint_path(dir, ".tmp-", step);

    (void)tree_make(temp, NULL);
    free(temp);
}

int checkpoint_write(const struct checkpoint_args *args, struct err *err)
{
    char *temp = checkpoint_path(args->dir, ".tmp-", args->step);
    int rc = write_all(args, temp, err);

    if (rc == 0 && args->log_sums_bytes > 0)
        rc = store_check(args->log, args->log_sums, args->log_sums_bytes, err);
    if (rc == 0 && args->log != NULL)
        rc = store_sync(args->log, err);
    if (rc == 0)
        rc = commit(args, temp, err);
    if (rc < 0)
        (void)tree_remove(temp, NULL);
    free(temp);
    return rc;
}
