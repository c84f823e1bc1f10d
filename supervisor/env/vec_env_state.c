/* Saves the state of a vec_env as a flat block, and loads it. */
#include "supervisor/env/vec_env_internal.h"

#include <string.h>

/* Header; episode, time (E) u64; returns (A, E) f64; waiting (E), left (A, E) u8; then
 * the world's own state. */

enum { STATE_MAGIC = 0x42524556, STATE_VERSION = 1 };

struct state_header {
    uint32_t magic, version;
    uint64_t len_bytes; /* of the whole block, including this header */
    uint64_t copies, agents;
    char id[64];
};

/* The size of the block without the world's own part. */
static size_t shared_bytes(const struct vec_env *v)
{
    size_t n = v->n_copies, n_agents = v->spec.n_agents;

    return sizeof(struct state_header) + n * 2 * sizeof(uint64_t) +
           n_agents * n * sizeof(double) + n * (1 + n_agents);
}

size_t vec_env_state_bytes(const struct vec_env *v)
{
    return shared_bytes(v) + (v->external_world != NULL
                                  ? external_world_state_bytes(v->external_world)
                                  : v->class->ops->state_bytes(v->world));
}

static struct state_header expected_header(const struct vec_env *v)
{
    struct state_header h = {.magic = STATE_MAGIC,
                             .version = STATE_VERSION,
                             .len_bytes = vec_env_state_bytes(v),
                             .copies = v->n_copies,
                             .agents = v->spec.n_agents};

    memcpy(h.id, v->spec.id, sizeof(h.id));
    return h;
}

static char *put(char *to, const void *from, size_t n)
{
    memcpy(to, from, n);
    return to + n;
}

void vec_env_state_save(const struct vec_env *v, void *dst)
{
    struct state_header h = expected_header(v);
    size_t n = v->n_copies, n_agents = v->spec.n_agents;
    char *p = put(dst, &h, sizeof(h));

    p = put(p, v->episode, n * sizeof(uint64_t));
    p = put(p, v->time, n * sizeof(uint64_t));
    for (size_t a = 0; a < n_agents; a++)
        p = put(p, v->total_return[a], n * sizeof(double));
    p = put(p, v->waiting, n);
    for (size_t a = 0; a < n_agents; a++)
        p = put(p, v->left[a], n);
    if (v->external_world != NULL)
        external_world_save(v->external_world, p);
    else
        v->class->ops->save(v->world, p);
}

static const char *get(void *to, const char *from, size_t n)
{
    memcpy(to, from, n);
    return from + n;
}

static const char *get_flags(uint8_t *to, const char *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = from[i] != 0;
    return from + n;
}

static const char *base_of(const char *id)
{
    const char *slash = strrchr(id, '/');

    return slash != NULL ? slash + 1 : id;
}

/* An external environment may be called by the path of its file, and have moved; its episodes
 * are replayed and compared in any case. */
static int is_same_id(const struct vec_env *v, const struct state_header *h,
                      const struct state_header *want)
{
    if (memcmp(h->id, want->id, sizeof(h->id)) == 0)
        return 1;
    return v->external_world != NULL && memchr(h->id, '\0', sizeof(h->id)) != NULL &&
           strcmp(base_of(h->id), base_of(want->id)) == 0;
}

static int check_header(const struct vec_env *v, const void *src, size_t len,
                        struct err *err)
{
    struct state_header want = expected_header(v), h;

    if (len < sizeof(h))
        return err_set(err, ERR_CORRUPT, "environment state: only %zu bytes", len);
    memcpy(&h, src, sizeof(h));
    if (h.magic != want.magic)
        return err_set(err, ERR_CORRUPT, "environment state: wrong magic number");
    if (h.version != want.version)
        return err_set(err, ERR_UNSUPPORTED,
                       "environment state: version %u, this build reads %u", h.version,
                       want.version);
    if (!is_same_id(v, &h, &want) || h.copies != want.copies || h.agents != want.agents)
        return err_set(err, ERR_SHAPE,
                       "environment state: %llu copies of %.63s with %llu agents, "
                       "expected %zu of %s with %zu",
                       (unsigned long long)h.copies, h.id, (unsigned long long)h.agents,
                       v->n_copies, v->spec.id, v->spec.n_agents);
    if (v->external_world != NULL && h.len_bytes == len && len >= shared_bytes(v))
        return 0;
    if (v->external_world != NULL || h.len_bytes != want.len_bytes ||
        len != want.len_bytes)
        return err_set(err, ERR_CORRUPT, "environment state: %zu bytes, expected %zu",
                       len, (size_t)h.len_bytes);
    return 0;
}

/* Begins a new episode in each copy whose episode is lost (external_world.h). */
static void begin_lost(struct vec_env *v)
{
    for (size_t c = 0; c < v->n_copies; c++)
        if (!v->waiting[c] && !external_world_runs(v->external_world, c)) {
            vec_env_mark_inexact(
                v, "an episode cannot be replayed after the resume: another "
                   "one begins, and this run is not exact");
            vec_env_begin_episode(v, c, v->episode[c] + 1);
        }
}

int vec_env_state_load(struct vec_env *v, const void *src, size_t len, struct err *err)
{
    size_t n = v->n_copies, n_agents = v->spec.n_agents;
    const char *p = (const char *)src + sizeof(struct state_header);
    const char *own = (const char *)src + shared_bytes(v);
    int rc = check_header(v, src, len, err);

    if (rc == 0)
        rc = v->external_world != NULL
                 ? external_world_load(v->external_world, own, len - shared_bytes(v), err)
                 : v->class->ops->load(v->world, own, err);
    if (rc < 0)
        return rc;
    p = get(v->episode, p, n * sizeof(uint64_t));
    p = get(v->time, p, n * sizeof(uint64_t));
    for (size_t a = 0; a < n_agents; a++)
        p = get(v->total_return[a], p, n * sizeof(double));
    p = get_flags(v->waiting, p, n);
    for (size_t a = 0; a < n_agents; a++)
        p = v->external_world != NULL ? get(v->left[a], p, n)
                                      : get_flags(v->left[a], p, n);
    if (v->external_world != NULL)
        begin_lost(v);
    else {
        vec_env_split_obs(v);
        v->class->ops->observe(v->world, 0, n, v->obs);
    }
    return 0;
}
