/* Saves the state of a vec_env as a flat block, and loads it. */
#include "common/text/scan.h"
#include "common/wire/crc32c.h"
#include "supervisor/env/vec_env_internal.h"

#include <string.h>

/* Header; metrics: their number M and a checksum of their names, u64, then sums and counts
 * (M, E) f64 of the running episodes; episode, time (E) u64; returns (A, E) f64; waiting (E),
 * left (A, E) u8; stack: env.stack and the bytes of what follows, u64, then for each agent its
 * earlier observations (E, env.stack - 1); then the world's own state. Without env.metrics, or
 * env.stack, nothing is there for them. The version says which of them there are. */

enum {
    STATE_MAGIC = 0x42524556,
    STATE_VERSION = 1, /* of neither; more if it has: */
    WITH_METRICS = 1,
    WITH_STACK = 2,
    NEWEST_VERSION = STATE_VERSION + WITH_METRICS + WITH_STACK
};

struct state_header {
    uint32_t magic, version;
    uint64_t len_bytes; /* of the whole block, including this header */
    uint64_t copies, agents;
    char id[64];
};

struct state_metrics {
    uint64_t n, names;
};

struct state_stack {
    uint64_t stack, bytes;
};

static int has(uint32_t version, uint32_t part)
{
    return ((version - STATE_VERSION) & part) != 0;
}

static struct state_stack stack_of(const struct vec_env *v)
{
    struct state_stack s = {.stack = env_stack(&v->spec)};

    for (size_t a = 0; v->past != NULL && a < v->spec.n_agents; a++)
        s.bytes += vec_env_past_bytes(v, a);
    return s;
}

static size_t stack_bytes(const struct vec_env *v)
{
    return v->past != NULL ? sizeof(struct state_stack) + (size_t)stack_of(v).bytes : 0;
}

/* The size of the part of n metrics. */
static size_t metrics_bytes(const struct vec_env *v, uint64_t n)
{
    return n > 0 ? sizeof(struct state_metrics) +
                       2 * (size_t)n * v->n_copies * sizeof(double)
                 : 0;
}

/* The size of the block without the metrics and the world's own part. */
static size_t shared_bytes(const struct vec_env *v)
{
    size_t n = v->n_copies, n_agents = v->spec.n_agents;

    return sizeof(struct state_header) + n * 2 * sizeof(uint64_t) +
           n_agents * n * sizeof(double) + n * (1 + n_agents) + stack_bytes(v);
}

static uint64_t sum_of_names(const struct vec_env *v)
{
    uint32_t sum = 0;

    for (size_t m = 0; m < v->spec.n_metrics; m++)
        sum = crc32c_extend(sum, v->spec.metrics[m], strlen(v->spec.metrics[m]) + 1);
    return sum;
}

size_t vec_env_state_bytes(const struct vec_env *v)
{
    return shared_bytes(v) + metrics_bytes(v, v->spec.n_metrics) +
           v->class->ops->state_bytes(v->world);
}

static struct state_header expected_header(const struct vec_env *v)
{
    struct state_header h = {.magic = STATE_MAGIC,
                             .version = STATE_VERSION +
                                        (v->spec.n_metrics > 0 ? WITH_METRICS : 0) +
                                        (v->past != NULL ? WITH_STACK : 0),
                             .len_bytes = vec_env_state_bytes(v),
                             .copies = v->n_copies,
                             .agents = v->spec.n_agents};

    memcpy(h.id, v->spec.id, sizeof(h.id));
    return h;
}

static char *vec_env_state_put(char *to, const void *from, size_t n)
{
    memcpy(to, from, n);
    return to + n;
}

void vec_env_state_save(const struct vec_env *v, void *dst)
{
    struct state_header h = expected_header(v);
    size_t n = v->n_copies, n_agents = v->spec.n_agents;
    char *p = vec_env_state_put(dst, &h, sizeof(h));

    if (v->spec.n_metrics > 0) {
        const struct state_metrics head = {v->spec.n_metrics, sum_of_names(v)};

        p = vec_env_state_put(p, &head, sizeof(head));
        for (size_t m = 0; m < v->spec.n_metrics; m++)
            p = vec_env_state_put(p, v->metric_sum[m], n * sizeof(double));
        for (size_t m = 0; m < v->spec.n_metrics; m++)
            p = vec_env_state_put(p, v->metric_count[m], n * sizeof(double));
    }

    p = vec_env_state_put(p, v->episode, n * sizeof(uint64_t));
    p = vec_env_state_put(p, v->time, n * sizeof(uint64_t));
    for (size_t a = 0; a < n_agents; a++)
        p = vec_env_state_put(p, v->total_return[a], n * sizeof(double));
    p = vec_env_state_put(p, v->waiting, n);
    for (size_t a = 0; a < n_agents; a++)
        p = vec_env_state_put(p, v->left[a], n);
    if (v->past != NULL) {
        const struct state_stack s = stack_of(v);

        p = vec_env_state_put(p, &s, sizeof(s));
        for (size_t a = 0; a < n_agents; a++)
            p = vec_env_state_put(p, v->past[a], vec_env_past_bytes(v, a));
    }
    v->class->ops->save(v->world, p);
}

static const char *get(void *to, const char *from, size_t n)
{
    memcpy(to, from, n);
    return from + n;
}

/* Numbers of at most `most`. */
static const char *get_small(uint8_t *to, const char *from, size_t n, uint8_t most)
{
    const char *end = from + n;

    for (; from < end; from++, to++)
        *to = (uint8_t)*from < most ? (uint8_t)*from : most;
    return end;
}

/* An external environment may be called by the path of its file, and have moved; its episodes
 * are replayed and compared in any case. */
static int is_same_id(const struct state_header *h, const struct state_header *want)
{
    return memchr(h->id, '\0', sizeof(h->id)) != NULL &&
           strcmp(text_base_name(h->id), text_base_name(want->id)) == 0;
}

/* The size of the metrics' part of a block; 0: it has none. */
static size_t find_metrics(const struct vec_env *v, const void *src, size_t len,
                           struct state_metrics *ret)
{
    const size_t at = sizeof(struct state_header);
    struct state_header h;

    *ret = (struct state_metrics){0};
    if (len < at + sizeof(*ret))
        return 0;
    memcpy(&h, src, sizeof(h));
    if (!has(h.version, WITH_METRICS))
        return 0;
    memcpy(ret, (const char *)src + at, sizeof(*ret));
    return ret->n <= ENV_MAX_METRICS ? metrics_bytes(v, ret->n) : 0;
}

/* A run that is resumed with --anyway may ask for other metrics. The episodes under way then count from
 * here on. */
static void get_metrics(struct vec_env *v, const char *from,
                        const struct state_metrics *is)
{
    const int same = is->n == v->spec.n_metrics && is->names == sum_of_names(v);

    for (size_t m = 0; m < v->spec.n_metrics; m++) {
        const size_t row = v->n_copies * sizeof(double);

        memset(v->metric_sum[m], 0, row);
        memset(v->metric_count[m], 0, row);
        if (!same)
            continue;
        memcpy(v->metric_sum[m], from + m * row, row);
        memcpy(v->metric_count[m], from + (is->n + m) * row, row);
    }
}

/* Whether the block's earlier observations are as many as are needed here. They stand at the
 * end of the part that comes before the world's own. */
static int check_stack(const struct vec_env *v, const void *src, size_t len,
                       uint32_t version, size_t before, struct err *err)
{
    const struct state_stack want = stack_of(v);
    struct state_stack is = {.stack = 1};

    if (has(version, WITH_STACK) && v->past != NULL && len >= before)
        memcpy(&is, (const char *)src + before - stack_bytes(v), sizeof(is));
    if (has(version, WITH_STACK) == (v->past != NULL) && is.stack == want.stack &&
        is.bytes == want.bytes)
        return 0;
    return err_set(err, ERR_SHAPE,
                   "environment state: it was saved with another env.stack than %llu",
                   (unsigned long long)want.stack);
}

/* metrics: the size of their part. */
static int check_header(const struct vec_env *v, const void *src, size_t len,
                        size_t metrics, struct err *err)
{
    struct state_header want = expected_header(v), h;
    int rc;

    if (len < sizeof(h))
        return err_set(err, ERR_CORRUPT, "environment state: only %zu bytes", len);
    memcpy(&h, src, sizeof(h));
    if (h.magic != want.magic)
        return err_set(err, ERR_CORRUPT, "environment state: wrong magic number");
    if (h.version < STATE_VERSION || h.version > NEWEST_VERSION ||
        has(h.version, WITH_METRICS) != (metrics > 0))
        return err_set(err, ERR_UNSUPPORTED,
                       "environment state: version %u, this build reads %u", h.version,
                       NEWEST_VERSION);
    if (!is_same_id(&h, &want) || h.copies != want.copies || h.agents != want.agents)
        return err_set(err, ERR_SHAPE,
                       "environment state: %llu copies of %.63s with %llu agents, "
                       "expected %zu of %s with %zu",
                       (unsigned long long)h.copies, h.id, (unsigned long long)h.agents,
                       v->n_copies, v->spec.id, v->spec.n_agents);
    if ((rc = check_stack(v, src, len, h.version, shared_bytes(v) + metrics, err)) < 0)
        return rc;
    if (h.len_bytes != len || len < shared_bytes(v) + metrics)
        return err_set(err, ERR_CORRUPT, "environment state: %zu bytes, expected %zu",
                       len, (size_t)h.len_bytes);
    return 0;
}

int vec_env_state_load(struct vec_env *v, const void *src, size_t len, struct err *err)
{
    size_t n = v->n_copies, n_agents = v->spec.n_agents;
    struct state_metrics is;
    const size_t metrics = find_metrics(v, src, len, &is);
    const size_t before = shared_bytes(v) + metrics;
    const char *p = (const char *)src + sizeof(struct state_header);
    const char *own = (const char *)src + before;
    int rc = check_header(v, src, len, metrics, err);

    if (rc == 0)
        rc = v->driver->load(v, own, len - before, err);
    if (rc < 0)
        return rc;
    get_metrics(v, p + sizeof(is), &is);
    p += metrics;
    p = get(v->episode, p, n * sizeof(uint64_t));
    p = get(v->time, p, n * sizeof(uint64_t));
    for (size_t a = 0; a < n_agents; a++)
        p = get(v->total_return[a], p, n * sizeof(double));
    p = get_small(v->waiting, p, n, 1);
    for (size_t a = 0; a < n_agents; a++)
        p = get_small(v->left[a], p, n, LEFT_CUT);
    if (v->past != NULL)
        p += sizeof(struct state_stack);
    for (size_t a = 0; v->past != NULL && a < n_agents; a++)
        p = get(v->past[a], p, vec_env_past_bytes(v, a));
    v->driver->loaded(v);
    return 0;
}
