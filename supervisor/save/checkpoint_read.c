/* Which checkpoints there are, and what is in them. */
#include "common/io/beneath.h"
#include "supervisor/save/checkpoint_write.h"

#include "common/ckpt/bundle.h"
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "common/wire/crc32c.h"
#include "supervisor/save/checkpoint_format.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
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
    DIR *d = beneath_opendir(dir);
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
    if (!is_step(text, &wanted))
        i = n;
    while (i < n && steps[i] != wanted)
        i++;
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

/* ---- graphs ---- */

static int read_whole(struct wbuf *ret, const char *path, uint64_t bytes, struct err *err)
{
    FILE *f = beneath_fopen(path, "rbe");
    int rc = 0;

    if (f == NULL)
        return err_errno(err, "%s", path);
    wbuf_reserve(ret, (size_t)bytes + 1);
    ret->len = fread(ret->data, 1, (size_t)bytes + 1, f);
    if (ferror(f))
        rc = err_errno(err, "%s: read", path);
    else if (ret->len != bytes)
        rc = err_set(err, ERR_CORRUPT, "%s: not %" PRIu64 " bytes", path, bytes);
    (void)fclose(f);
    return rc;
}

int checkpoint_metagraph_load(struct wbuf *ret, const char *dir, uint64_t step,
                              const struct checkpoint_state *state, const char *agent,
                              struct err *err)
{
    char *name = xasprintf(GRAPH_SECTION "%s", agent);
    const struct checkpoint_section *s = checkpoint_state_find(state, name);
    char *prefix = bundle_prefix(dir, step, agent);
    char *path = xasprintf("%s.meta", prefix);
    struct cursor c = s != NULL ? cursor_of(s->data, s->len) : (struct cursor){0};
    const uint64_t bytes = cursor_u64(&c);
    const uint32_t crc = cursor_u32(&c);
    int rc = 0;

    if (s != NULL && (c.failed || bytes > FRAME_MAX_BYTES))
        rc = err_set(err, ERR_FORMAT, "run.state: section '%s'", name);
    else if (s != NULL)
        rc = read_whole(ret, path, bytes, err);
    if (s != NULL && rc == 0 && crc32c_mask(crc32c(ret->data, ret->len)) != crc)
        rc = err_set(err, ERR_CORRUPT, "%s: checksum mismatch", path);
    free(path);
    free(prefix);
    free(name);
    return rc;
}
