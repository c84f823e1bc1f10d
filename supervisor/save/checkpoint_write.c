#include "supervisor/save/checkpoint_write.h"

#include "common/ckpt/atomic_file.h"
#include "common/ckpt/bundle.h"
#include "common/ckpt/ckpt_state.h"
#include "common/io/beneath.h"
#include "common/io/tree.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "common/wire/crc32c.h"
#include "supervisor/save/block_image.h"
#include "supervisor/save/checkpoint_format.h"
#include "supervisor/save/graph_settings.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- writing ---- */

/* "checkpoint", as TensorFlow's Saver writes it beside a first checkpoint. */
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

static int add_variables(struct bundle_writer *w, const struct block_table *table,
                         const void *block, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < table->n && rc == 0; i++) {
        const struct block_variable *v = &table->variables[i];
        struct tensor t;

        if (!v->saved)
            continue;
        t = tensor_const_view(v->dtype, v->shape, (const char *)block + v->offset);
        rc = bundle_writer_add(w, v->name, &t, err);
    }
    return rc;
}

static int write_bundle(const struct block_table *table, const void *block,
                        const char *folder, uint64_t step, struct err *err)
{
    char *prefix = xasprintf("%s/model.ckpt-%" PRIu64, folder, step);
    struct bundle_writer *w = NULL;
    int rc = bundle_writer_new(&w, prefix, 0, err);

    if (rc == 0)
        rc = add_variables(w, table, block, err);
    if (rc == 0)
        rc = bundle_writer_finish(w, err);
    bundle_writer_free(w);
    free(prefix);
    return rc;
}

/* What run.state keeps of an agent. */
struct kept {
    struct wbuf image;
    struct wbuf graph_sum; /* empty: it has no .meta */
};

/* The graph as it is run at this step. */
static int write_metagraph(const struct checkpoint_agent *a,
                           const struct block_table *table, const char *folder,
                           uint64_t step, struct wbuf *sum, struct err *err)
{
    struct wbuf graph = {0};
    char *path;
    int rc;

    if (a->metagraph == NULL)
        return 0;
    wbuf_bytes(&graph, a->metagraph, a->metagraph_bytes);
    path = xasprintf("%s/model.ckpt-%" PRIu64 ".meta", folder, step);
    rc = graph_settings_write(graph.data, graph.len, table, a->block, err);
    if (rc == 0)
        rc = atomic_file_write(path, graph.data, graph.len, 0, err);
    wbuf_u64(sum, graph.len);
    wbuf_u32(sum, crc32c_mask(crc32c(graph.data, graph.len)));
    wbuf_done(&graph);
    free(path);
    return rc;
}

/* The TensorFlow files, and into kept what they lack. */
static int write_agent(const struct checkpoint_agent *a, const char *temp, uint64_t step,
                       struct kept *kept, struct err *err)
{
    char *folder = xasprintf("%s/%s", temp, a->name);
    struct block_table table = {0};
    int rc = block_table_parse(&table, a->description, a->block_bytes, err);

    if (rc == 0)
        rc = block_image_put(&kept->image, &table, a->block, a->block_bytes, err);
    if (rc == 0)
        rc = tree_make(folder, err);
    if (rc == 0)
        rc = write_bundle(&table, a->block, folder, step, err);
    if (rc == 0)
        rc = write_state_text(folder, step, err);
    if (rc == 0)
        rc = write_metagraph(a, &table, folder, step, &kept->graph_sum, err);
    block_table_done(&table);
    free(folder);
    if (rc < 0)
        (void)err_wrap(err, "%s", a->name);
    return rc;
}

static int write_agents(const struct checkpoint_args *args, const char *temp,
                        struct kept *kept, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < args->n_agents && rc == 0; i++)
        rc = write_agent(&args->agents[i], temp, args->step, &kept[i], err);
    return rc;
}

/* The caller's sections, then each agent's image, then what tells its .meta is whole. */
static int write_run_state(const struct checkpoint_args *args, const char *temp,
                           const struct kept *kept, struct err *err)
{
    size_t n = args->n_sections;
    struct checkpoint_section *sections =
        xcalloc(n + 2 * args->n_agents, sizeof(*sections));
    char *path = xasprintf("%s/run.state", temp);
    int rc;

    for (size_t i = 0; i < args->n_sections; i++)
        sections[i] = args->sections[i];
    for (size_t i = 0; i < args->n_agents; i++)
        sections[n++] = (struct checkpoint_section){
            .name = xasprintf(AGENT_SECTION "%s", args->agents[i].name),
            .data = kept[i].image.data,
            .len = kept[i].image.len};
    for (size_t i = 0; i < args->n_agents; i++)
        if (kept[i].graph_sum.len > 0)
            sections[n++] = (struct checkpoint_section){
                .name = xasprintf(GRAPH_SECTION "%s", args->agents[i].name),
                .data = kept[i].graph_sum.data,
                .len = kept[i].graph_sum.len};
    rc = run_state_write(path, sections, n, err);
    for (size_t i = args->n_sections; i < n; i++)
        free((char *)(uintptr_t)sections[i].name);
    free(sections);
    free(path);
    return rc;
}

/* All is written before anything is waited for: the disk has less to do then. */
static int write_all(const struct checkpoint_args *args, const char *temp,
                     struct err *err)
{
    struct kept *kept = xcalloc(args->n_agents, sizeof(*kept));
    int rc = tree_make(temp, err);

    if (rc == 0) /* of one that was never committed */
        rc = tree_empty(temp, NULL, err);
    if (rc == 0)
        rc = write_agents(args, temp, kept, err);
    if (rc == 0)
        rc = write_run_state(args, temp, kept, err);
    if (rc == 0)
        rc = tree_sync_all(temp, err);
    for (size_t i = 0; i < args->n_agents; i++) {
        wbuf_done(&kept[i].image);
        wbuf_done(&kept[i].graph_sum);
    }
    free(kept);
    return rc;
}

/* ---- committing ---- */

static char *step_path(const char *dir, const char *prefix, uint64_t step)
{
    return xasprintf("%s/%s%" PRIu64, dir, prefix, step);
}

static int is_damaged(const char *path)
{
    char *file = xasprintf("%s/run.state", path);
    struct checkpoint_state state;
    int rc = run_state_read(&state, file, NULL);

    if (rc == 0)
        checkpoint_state_done(&state);
    free(file);
    return rc < 0;
}

static int rename_over(const char *from, const char *to, unsigned flags, struct err *err)
{
    return beneath_rename(from, to, flags) < 0
               ? err_errno(err, "%s: rename to %s", from, to)
               : 0;
}

/* A damaged one, to be looked at. */
static int set_aside(const char *dir, uint64_t step, struct err *err)
{
    char *from = step_path(dir, "", step), *to = step_path(dir, ".bad-", step);
    int rc = tree_remove(to, err);

    if (rc == 0)
        rc = rename_over(from, to, 0, err);
    free(from);
    free(to);
    return rc;
}

/* Where a file system cannot exchange names: the old one goes first. */
static int replace(const struct checkpoint_args *args, const char *temp,
                   const char *final, struct err *err)
{
    char *old = step_path(args->dir, ".del-", args->step);
    int rc = tree_remove(old, err);

    if (rc == 0)
        rc = rename_over(final, old, 0, err);
    if (rc == 0)
        rc = rename_over(temp, final, 0, err);
    if (rc == 0)
        rc = tree_remove(old, err);
    free(old);
    return rc;
}

/* A damaged one steps aside; a whole one changes places with the new one, so that at no
 * moment there is none. */
static int make_way_and_rename(const struct checkpoint_args *args, const char *temp,
                               const char *final, struct err *err)
{
    int rc;

    if (!tree_exists(final))
        return rename_over(temp, final, 0, err);
    if (!is_damaged(final)) {
        rc = rename_over(temp, final, RENAME_EXCHANGE, err);
        if (rc == -EINVAL)
            return replace(args, temp, final, err);
        return rc < 0 ? rc : tree_remove(temp, err);
    }
    rc = set_aside(args->dir, args->step, err);
    return rc < 0 ? rc : rename_over(temp, final, 0, err);
}

static int commit(const struct checkpoint_args *args, const char *temp, struct err *err)
{
    char *final = step_path(args->dir, "", args->step);
    int rc = make_way_and_rename(args, temp, final, err);

    if (rc == 0)
        rc = tree_sync(args->dir, err);
    free(final);
    return rc;
}

/* ---- dropping old ones ---- */

static int drop(const char *dir, uint64_t step, struct err *err)
{
    char *from = step_path(dir, "", step), *to = step_path(dir, ".del-", step);
    int rc = tree_remove(to, err);

    if (rc == 0)
        rc = rename_over(from, to, 0, err);
    if (rc == 0)
        rc = tree_remove(to, err);
    free(from);
    free(to);
    return rc;
}

/* What an interrupted commit or removal has left. */
static int drop_leftovers(const char *dir, struct err *err)
{
    DIR *d = beneath_opendir(dir);
    struct dirent *e;
    int rc = 0;

    if (d == NULL)
        return err_errno(err, "%s", dir);
    while (rc == 0 && (e = readdir(d)) != NULL) {
        char *path;

        if (strncmp(e->d_name, ".tmp-", 5) != 0 && strncmp(e->d_name, ".del-", 5) != 0)
            continue;
        path = xasprintf("%s/%s", dir, e->d_name);
        rc = tree_remove(path, err);
        free(path);
    }
    (void)closedir(d);
    return rc;
}

/* When it was written; 0: not known. */
static double written_at(const char *dir, uint64_t step)
{
    char *path = xasprintf("%s/%" PRIu64 "/run.state", dir, step);
    struct stat st;
    double t = beneath_stat(path, &st) < 0
                   ? 0
                   : (double)st.st_mtim.tv_sec + (double)st.st_mtim.tv_nsec * 1e-9;

    free(path);
    return t;
}

/* Those that no longer belong to the newest max_to_keep: as TensorFlow's Saver does, one
 * is kept for good when its time has come, and then the next time is one interval on. */
static int drop_old(const struct checkpoint_args *args, struct err *err)
{
    const struct checkpoint_retention *keep = &args->keep;
    double next = keep->began_unix + keep->every_s;
    uint64_t *steps = NULL;
    size_t n = 0;
    int rc = drop_leftovers(args->dir, err);

    if (rc == 0)
        rc = checkpoint_list(args->dir, &steps, &n, err);
    for (size_t i = 0; rc == 0 && keep->max > 0 && i + keep->max < n; i++) {
        if (keep->every_s > 0 && written_at(args->dir, steps[i]) > next)
            next += keep->every_s;
        else
            rc = drop(args->dir, steps[i], err);
    }
    free(steps);
    return rc;
}

void checkpoint_announce(const char *dir, uint64_t step)
{
    char *temp = step_path(dir, ".tmp-", step);

    (void)tree_make(temp, NULL);
    free(temp);
}

int checkpoint_commit(const struct checkpoint_args *args, struct err *err)
{
    char *temp = step_path(args->dir, ".tmp-", args->step);
    struct err why = {0};
    int rc = write_all(args, temp, err);

    if (rc == 0 && args->log_sums_bytes > 0)
        rc = store_check(args->log, args->log_sums, args->log_sums_bytes, err);
    if (rc == 0 && args->log != NULL)
        rc = store_sync(args->log, err);
    if (rc == 0)
        rc = commit(args, temp, err);
    if (rc < 0)
        (void)tree_remove(temp, NULL);
    else if (drop_old(args, &why) < 0)
        log_warn("older checkpoints stay for now: %s", why.msg);
    free(temp);
    return rc;
}

int checkpoint_drop_newer(const char *dir, uint64_t step, struct err *err)
{
    uint64_t *steps = NULL;
    size_t n = 0;
    int rc = checkpoint_list(dir, &steps, &n, err);

    while (rc == 0 && n > 0 && steps[n - 1] > step) {
        char *path = step_path(dir, "", steps[n - 1]);

        rc = is_damaged(path) ? set_aside(dir, steps[n - 1], err)
                              : drop(dir, steps[n - 1], err);
        free(path);
        n--;
    }
    free(steps);
    return rc == 0 ? tree_sync(dir, err) : rc;
}
