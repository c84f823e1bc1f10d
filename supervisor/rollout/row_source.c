#include "supervisor/rollout/row_source.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/msg/protocol.h"
#include "common/store/store_view.h"

#include <stdlib.h>
#include <string.h>

static int shape_of(struct row_source *s, const struct row_source_args *a,
                    struct err *err)
{
    s->groups = a->groups;
    s->batch = a->batch;
    s->length = a->length;
    if (a->kind == ROWS_WINDOW) {
        if (a->update_every % a->copies != 0)
            return err_set(err, ERR_CONFIG,
                           "experience.update_every: found %zu, expected a multiple of "
                           "env.copies, %zu, because updates take the newest rows of "
                           "every copy",
                           a->update_every, a->copies);
        s->groups = 1;
        s->batch = a->copies;
        s->length = a->update_every / a->copies;
    } else if (a->kind == ROWS_EPISODES && a->length == 0) {
        if (a->max_steps == 0)
            return err_set(err, ERR_CONFIG,
                           "env.max_steps: found 0, expected the length of the longest "
                           "episode, because updates take whole episodes");
        s->length = (size_t)a->max_steps;
    }
    return 0;
}

int row_source_init(struct row_source *s, const struct row_source_args *args,
                    struct err *err)
{
    struct row_source fresh = {.kind = args->kind};
    int rc = shape_of(&fresh, args, err);

    if (rc < 0)
        return rc;
    CHECK(fresh.groups > 0 && fresh.batch > 0 && fresh.length > 0);
    row_source_done(s);
    *s = fresh;
    s->keys = xcalloc(s->groups, sizeof(*s->keys));
    for (size_t g = 0; g < s->groups; g++)
        s->keys[g] = rng_key_make(args->seed, args->names[g], PURPOSE_ROWS);
    s->rows = xcalloc(s->groups * s->batch * s->length, sizeof(*s->rows));
    return 0;
}

void row_source_done(struct row_source *s)
{
    free(s->keys);
    free(s->rows);
    *s = (struct row_source){0};
}

int row_source_needs_episodes(const struct row_source *s)
{
    return s->kind == ROWS_EPISODES || (s->kind == ROWS_TRANSITIONS && s->length > 1);
}

int row_source_is_ready(const struct row_source *s, const struct store *store,
                        const struct episodes *episodes)
{
    if (s->kind == ROWS_WINDOW)
        return store_window_rows(store) >= s->batch * s->length;
    if (s->kind == ROWS_EPISODES)
        return episodes_complete(episodes) > 0;
    return store_window_rows(store) > 0;
}

static void take_window(struct row_source *s, const struct store *store)
{
    const uint64_t oldest = store_head(store) - s->batch * s->length;

    for (size_t e = 0; e < s->batch; e++)
        for (size_t t = 0; t < s->length; t++)
            s->rows[e * s->length + t] = oldest + t * s->batch + e;
}

/* Draws into the first B places of the group and spreads them from the last one on: place
 * b of L numbers begins at b * L, so that none is overwritten before it is read. */
static void draw_episodes(const struct row_source *s, const struct episodes *episodes,
                          struct rng_key key, uint64_t update, uint64_t *rows)
{
    rng_below(key, update, 0, episodes_complete(episodes), rows, s->batch);
    for (size_t b = s->batch; b-- > 0;)
        episodes_rows(episodes, rows[b], rows + b * s->length, s->length);
}

static void draw_transitions(const struct row_source *s, const struct store *store,
                             const struct episodes *episodes, struct rng_key key,
                             uint64_t update, uint64_t *rows)
{
    store_draw(store, key, update, rows, s->batch);
    for (size_t b = s->batch; b-- > 0 && s->length > 1;)
        episodes_behind(episodes, rows[b], rows + b * s->length, s->length);
}

void row_source_draw(struct row_source *s, const struct store *store,
                     const struct episodes *episodes, uint64_t update)
{
    CHECK(row_source_is_ready(s, store, episodes));
    if (s->kind == ROWS_WINDOW) {
        take_window(s, store);
        return;
    }
    for (size_t g = 0; g < s->groups; g++) {
        uint64_t *rows = s->rows + g * s->batch * s->length;

        if (s->kind == ROWS_EPISODES)
            draw_episodes(s, episodes, s->keys[g], update, rows);
        else
            draw_transitions(s, store, episodes, s->keys[g], update, rows);
    }
}
