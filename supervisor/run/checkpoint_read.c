/* Which checkpoints there are, and what is in them. */
#include "supervisor/run/checkpoint.h"

#include "common/ckpt/bundle.h"
#include "common/mem/xmalloc.h"
#include "supervisor/run/run_state.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

int checkpoint_forget_rows(const char *dir, uint64_t step, struct store *store,
                           struct err *err)
{
    uint64_t *steps = NULL, oldest = step;
    size_t n = 0, i = 0;
    int rc = checkpoint_list(dir, &steps, &n, err);

    if (rc < 0)
        return rc;
    while (i < n && steps[i] == 0) /* it needs no rows */
        i++;
    if (i < n && steps[i] < oldest)
        oldest = steps[i];
    free(steps);
    return store_forget(store, store_window_first_at(store, oldest), err);
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

static char *bundle_prefix(const char *dir, uint64_t step, const char *agent)
{
    return xasprintf("%s/%" PRIu64 "/%s/model.ckpt-%" PRIu64, dir, step, agent, step);
}

int checkpoint_load(struct checkpoint_values *ret, const char *dir, uint64_t step,
                    const char *agent, struct err *err)
{
    char *prefix = bundle_prefix(dir, step, agent);
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

/* ---- whole blocks ---- */

static int read_variables(const struct block_image *image, struct bundle_reader *r,
                          uint8_t *block, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < image->table.n && rc == 0; i++) {
        const struct block_variable *v = &image->table.variables[i];
        const struct bundle_entry *e = bundle_reader_find(r, v->name);
        struct tensor dst;

        if (!v->saved)
            continue;
        if (e == NULL)
            return err_set(err, ERR_CORRUPT, "%s is missing", v->name);
        dst = tensor_view(v->dtype, v->shape, block + v->offset);
        rc = bundle_reader_read_into(r, e, &dst, err);
    }
    return rc;
}

static int read_block(struct checkpoint_block *b, const char *prefix, struct err *err)
{
    struct bundle_reader *r = NULL;
    int rc = bundle_reader_new(&r, prefix, err);

    if (rc < 0)
        return rc;
    b->bytes = mem_aligned(b->image.block_bytes);
    if (b->bytes == NULL && b->image.block_bytes > 0)
        rc = err_set(err, ERR_NOMEM, "a block of %zu bytes", b->image.block_bytes);
    if (rc == 0)
        rc = read_variables(&b->image, r, b->bytes, err);
    if (rc == 0)
        block_image_fill(&b->image, b->bytes);
    bundle_reader_free(r);
    return rc;
}

int checkpoint_block_load(struct checkpoint_block *ret, const char *dir, uint64_t step,
                          const struct checkpoint_section *section, struct err *err)
{
    struct checkpoint_block b = {.agent = section->name + strlen(AGENT_SECTION)};
    char *prefix = bundle_prefix(dir, step, b.agent);
    int rc = block_image_parse(&b.image, section->data, section->len, err);

    if (rc == 0)
        rc = read_block(&b, prefix, err);
    free(prefix);
    if (rc < 0) {
        (void)err_wrap(err, "%s", b.agent);
        checkpoint_block_done(&b);
        return rc;
    }
    *ret = b;
    return 0;
}

void checkpoint_block_done(struct checkpoint_block *b)
{
    block_image_done(&b->image);
    free(b->bytes);
    *b = (struct checkpoint_block){0};
}
