/* The history of all copies as a flat block:
 *   u8 inexact; then for each copy u8 runs, u64 seed, u64 n_steps, u32 sums (n_steps + 1),
 *   f32 actions (n_steps, all agents' U); a copy that does not run has only its u8. */
#include "supervisor/env/external_internal.h"

#include "common/mem/xmalloc.h"
#include "common/wire/cursor.h"

#include <stdlib.h>
#include <string.h>

static size_t row_bytes(const struct external_world *w)
{
    return w->action_before[w->spec->n_agents] * sizeof(float);
}

/* Whether the copy's history is stored: an episode that cannot be replayed is not. */
static int is_kept(const struct external_world *w, size_t copy)
{
    const struct external_episode *e = &w->episodes[copy];

    return external_world_runs(w, copy) && !e->too_long;
}

size_t external_world_state_bytes(const struct external_world *w)
{
    size_t bytes = 1 + w->n_copies;

    for (size_t c = 0; c < w->n_copies; c++) {
        const size_t n = w->episodes[c].n_steps;

        if (is_kept(w, c))
            bytes += 2 * sizeof(uint64_t) + (n + 1) * sizeof(uint32_t) + n * row_bytes(w);
    }
    return bytes;
}

static char *external_state_put(char *to, const void *from, size_t n)
{
    if (n > 0)
        memcpy(to, from, n);
    return to + n;
}

static char *put_u64(char *to, uint64_t v)
{
    return external_state_put(to, &v, sizeof(v));
}

void external_world_save(const struct external_world *w, void *dst)
{
    char *p = dst;

    *p++ = w->inexact != 0;
    for (size_t c = 0; c < w->n_copies; c++) {
        const struct external_episode *e = &w->episodes[c];

        *p++ = is_kept(w, c) != 0;
        if (!is_kept(w, c))
            continue;
        p = put_u64(p, e->seed);
        p = put_u64(p, e->n_steps);
        p = external_state_put(p, e->sums, (e->n_steps + 1) * sizeof(*e->sums));
        p = external_state_put(p, e->actions, e->n_steps * row_bytes(w));
    }
}

/* Returns 0 if the bytes cannot be a copy's history. */
static int load_copy(const struct external_world *w, struct external_episode *e,
                     struct cursor *c)
{
    const size_t each = row_bytes(w) + sizeof(*e->sums);
    const uint8_t *sums, *actions;
    uint64_t n;

    e->runs = cursor_u8(c) != 0;
    if (!e->runs)
        return !c->failed;
    e->seed = cursor_u64(c);
    n = cursor_u64(c);
    if (c->failed || n > cursor_left(c) / each)
        return 0;
    e->n_steps = e->cap = (size_t)n;
    sums = cursor_bytes(c, (e->n_steps + 1) * sizeof(*e->sums));
    actions = cursor_bytes(c, e->n_steps * row_bytes(w));
    if (c->failed)
        return 0;
    e->sums = xmalloc((e->n_steps + 1) * sizeof(*e->sums));
    memcpy(e->sums, sums, (e->n_steps + 1) * sizeof(*e->sums));
    if (e->n_steps == 0)
        return 1;
    e->actions = xmalloc(e->n_steps * row_bytes(w));
    memcpy(e->actions, actions, e->n_steps * row_bytes(w));
    return 1;
}

static void free_episodes(struct external_episode *e, size_t n)
{
    for (size_t c = 0; c < n; c++)
        external_episode_done(&e[c]);
    free(e);
}

int external_world_load(struct external_world *w, const void *src, size_t len,
                        struct err *err)
{
    struct external_episode *episodes = xcalloc(w->n_copies, sizeof(*episodes));
    struct cursor cursor = cursor_of(src, len);
    const int inexact = cursor_u8(&cursor);
    int ok = !cursor.failed;

    for (size_t c = 0; c < w->n_copies && ok; c++)
        ok = load_copy(w, &episodes[c], &cursor);
    if (!ok || cursor_left(&cursor) != 0) {
        free_episodes(episodes, w->n_copies);
        return err_set(err, ERR_CORRUPT, "environment state: malformed history");
    }
    free_episodes(w->episodes, w->n_copies);
    w->episodes = episodes;
    w->inexact = inexact != 0;
    return 0;
}
