#include "supervisor/run/checkpoint.h"

#include "common/ckpt/atomic_file.h"
#include "common/ckpt/bundle.h"
#include "common/ckpt/ckpt_state.h"
#include "common/mem/xmalloc.h"
#include "supervisor/run/block_table.h"
#include "supervisor/run/run_state.h"
#include "supervisor/run/tree.h"

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
    rc = atomic_file_write(path, text.data, text.len, 1, err);
    wbuf_done(&text);
    free(newest);
    free(path);
    return rc;
}

static int add_variables(struct bundle_writer *w, const struct checkpoint_agent *a,
                         struct err *err)
{
    struct block_table table;
    int rc = block_table_parse(&table, a->description, a->block_bytes, err);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < table.n && rc == 0; i++) {
        const struct block_variable *v = &table.variables[i];
        struct tensor t;

        if (!v->saved)
            continue;
        t = tensor_const_view(v->dtype, v->shape, (const char *)a->block + v->offset);
        rc = bundle_writer_add(w, v->name, &t, err);
    }
    block_table_done(&table);
    return rc;
}

static int write_bundle(const struct checkpoint_agent *a, const char *folder,
                        uint64_t step, struct err *err)
{
    char *prefix = xasprintf("%s/model.ckpt-%" PRIu64, folder, step);
    struct bundle_writer *w = NULL;
    int rc = bundle_writer_new(&w, prefix, 1, err);

    if (rc == 0)
        rc = add_variables(w, a, err);
    if (rc == 0)
        rc = bundle_writer_finish(w, err);
    bundle_writer_free(w);
    free(prefix);
    return rc;
}

static int write_agent(const struct checkpoint_agent *a, const char *temp, uint64_t step,
                       struct err *err)
{
    char *folder = xasprintf("%s/%s", temp, a->name);
    int rc = tree_make(folder, err);

    if (rc == 0)
        rc = write_bundle(a, folder, step, err);
    if (rc == 0)
        rc = write_state_text(folder, step, err);
    free(folder);
    if (rc < 0)
        (void)err_wrap(err, "%s", a->name);
    return rc;
}

/* Every file is durable by itself; the folders' names in temp are so by the last one. */
static int write_all(const struct checkpoint_args *args, const char *temp,
                     struct err *err)
{
    char *state = xasprintf("%s/run.state", temp);
    int rc = tree_remove(temp, err);

    if (rc == 0)
        rc = tree_make(temp, err);
    for (size_t i = 0; i < args->n_agents && rc == 0; i++)
        rc = write_agent(&args->agents[i], temp, args->step, err);
    if (rc == 0)
        rc = run_state_write(state, args->sections, args->n_sections, err);
    free(state);
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
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, flags) < 0
               ? err_errno(err, "%s: rename to %s", from, to)
               : 0;
}

/* A damaged one steps aside, to be looked at; a whole one changes places with the new
 * one, so that at no moment there is none. */
static int make_way_and_rename(const char *temp, const char *final, const char *bad,
                               struct err *err)
{
    int rc = 0;

    if (!tree_exists(final))
        return rename_over(temp, final, 0, err);
    if (!is_damaged(final)) {
        rc = rename_over(temp, final, RENAME_EXCHANGE, err);
        return rc < 0 ? rc : tree_remove(temp, err);
    }
    rc = tree_remove(bad, err);
    if (rc == 0)
        rc = rename_over(final, bad, 0, err);
    return rc < 0 ? rc : rename_over(temp, final, 0, err);
}

static int commit(const struct checkpoint_args *args, const char *temp, struct err *err)
{
    char *final = step_path(args->dir, "", args->step);
    char *bad = step_path(args->dir, ".bad-", args->step);
    int rc = make_way_and_rename(temp, final, bad, err);

    if (rc == 0)
        rc = tree_sync(args->dir, err);
    free(final);
    free(bad);
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
    DIR *d = opendir(dir);
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

static int drop_old(const struct checkpoint_args *args, struct err *err)
{
    uint64_t *steps = NULL;
    size_t n = 0;
    int rc = drop_leftovers(args->dir, err);

    if (rc == 0)
        rc = checkpoint_list(args->dir, &steps, &n, err);
    for (size_t i = 0; rc == 0 && args->max_to_keep > 0 && i + args->max_to_keep < n; i++)
        rc = drop(args->dir, steps[i], err);
    free(steps);
    return rc;
}

int checkpoint_commit(const struct checkpoint_args *args, struct err *err)
{
    char *temp = step_path(args->dir, ".tmp-", args->step);
    int rc = write_all(args, temp, err);

    if (rc == 0)
        rc = commit(args, temp, err);
    if (rc < 0)
        (void)tree_remove(temp, NULL);
    else
        rc = drop_old(args, err);
    free(temp);
    return rc;
}

/* ---- reading ---- */

static int is_step(const char *name, uint64_t *ret)
{
    char *end;

    if (name[0] == '\0' || name[strspn(name, "0123456789")] != '\0')
        return 0;
    errno = 0;
    *ret = strtoull(name, &end, 10);
    return errno == 0;
}

static int by_step(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

int checkpoint_list(const char *dir, uint64_t **ret, size_t *ret_n, struct err *err)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    uint64_t *steps = NULL, step;
    size_t n = 0;

    if (d == NULL)
        return err_errno(err, "%s", dir);
    while ((e = readdir(d)) != NULL) {
        if (!is_step(e->d_name, &step))
            continue;
        steps = xreallocarray(steps, n + 1, sizeof(*steps));
        steps[n++] = step;
    }
    (void)closedir(d);
    if (n > 1)
        qsort(steps, n, sizeof(*steps), by_step);
    *ret = steps;
    *ret_n = n;
    return 0;
}

static int no_such_step(const char *dir, const char *text, const uint64_t *steps,
                        size_t n, struct err *err)
{
    if (n == 0)
        return err_set(err, ERR_NOT_FOUND, "%s holds no checkpoint", dir);
    return err_set(err, ERR_NOT_FOUND,
                   "%s holds no checkpoint of step %s; there are %zu, from %" PRIu64
                   " to %" PRIu64,
                   dir, text, n, steps[0], steps[n - 1]);
}

int checkpoint_choose(const char *dir, const char *text, uint64_t *ret, struct err *err)
{
    uint64_t *steps, wanted = 0;
    size_t n, i = 0;
    int rc = checkpoint_list(dir, &steps, &n, err);

    if (rc < 0)
        return rc;
    if (text == NULL)
        i = n > 0 ? n - 1 : 0;
    else if (is_step(text, &wanted))
        while (i < n && steps[i] != wanted)
            i++;
    else
        i = n;
    if (i < n)
        *ret = steps[i];
    else
        rc = no_such_step(dir, text, steps, n, err);
    free(steps);
    return rc;
}

int checkpoint_forget_rows(const char *dir, struct store *store, struct err *err)
{
    uint64_t *steps = NULL, row = store_window_first(store), oldest;
    size_t n = 0, i = 0;
    int rc = checkpoint_list(dir, &steps, &n, err);

    if (rc < 0)
        return rc;
    while (i < n && steps[i] == 0) /* it needs no rows */
        i++;
    oldest = i < n ? store_window_first_at(store, steps[i]) : row;
    free(steps);
    return store_forget(store, oldest < row ? oldest : row, err);
}

int checkpoint_state_read(struct checkpoint_state *ret, const char *dir, uint64_t step,
                          struct err *err)
{
    char *path = xasprintf("%s/%" PRIu64 "/run.state", dir, step);
    int rc = run_state_read(ret, path, err);

    free(path);
    return rc;
}

static int read_values(struct checkpoint_values *ret, struct bundle_reader *r,
                       struct err *err)
{
    size_t n = bundle_reader_count(r);

    ret->names = xcalloc(n, sizeof(*ret->names));
    ret->tensors = xcalloc(n, sizeof(*ret->tensors));
    for (; ret->n < n; ret->n++) {
        const struct bundle_entry *e = bundle_reader_entry(r, ret->n);
        int rc = bundle_reader_read(r, e, &ret->tensors[ret->n], err);

        if (rc < 0)
            return rc;
        ret->names[ret->n] = xstrdup(e->name);
    }
    return 0;
}

int checkpoint_load(struct checkpoint_values *ret, const char *dir, uint64_t step,
                    const char *agent, struct err *err)
{
    char *prefix =
        xasprintf("%s/%" PRIu64 "/%s/model.ckpt-%" PRIu64, dir, step, agent, step);
    struct checkpoint_values values = {0};
    struct bundle_reader *r = NULL;
    int rc = bundle_reader_new(&r, prefix, err);

    if (rc == 0)
        rc = read_values(&values, r, err);
    bundle_reader_free(r);
    free(prefix);
    if (rc < 0) {
        checkpoint_values_done(&values);
        return rc;
    }
    *ret = values;
    return 0;
}

void checkpoint_values_done(struct checkpoint_values *v)
{
    for (size_t i = 0; i < v->n; i++) {
        free(v->names[i]);
        tensor_free(&v->tensors[i]);
    }
    free(v->names);
    free(v->tensors);
    *v = (struct checkpoint_values){0};
}
