#include "supervisor/rollout/row_source.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "common/msg/protocol.h"

#include <stdlib.h>
#include <string.h>

/* of an update: a message has their numbers and their weights */
#define MAX_ROWS (FRAME_MAX_BYTES / 2 / (sizeof(uint64_t) + sizeof(float)))

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
        if (a->is_prioritised)
            return err_set(err, ERR_CONFIG,
                           "experience.priority: updates take the newest rows of every "
                           "copy, expected no priorities");
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
    if (fresh.length > MAX_ROWS / fresh.groups / fresh.batch)
        return err_set(
            err, ERR_CONFIG,
            "experience: an update of %zu x %zu x %zu rows does not fit into a "
            "message, which has room for %zu; lower batch_size, update_every or "
            "env.max_steps",
            fresh.groups, fresh.batch, fresh.length, (size_t)MAX_ROWS);
    row_source_done(s);
    *s = fresh;
    s->keys = xcalloc(s->groups, sizeof(*s->keys));
    for (size_t g = 0; g < s->groups; g++)
        s->keys[g] = rng_key_make(args->seed, args->names[g], PURPOSE_ROWS);
    s->rows = xcalloc(s->groups * s->batch * s->length, sizeof(*s->rows));
    if (args->is_prioritised) {
        s->weights = xcalloc(s->groups * s->batch, sizeof(*s->weights));
        s->beginnings = xcalloc(s->batch, sizeof(*s->beginnings));
    }
    return 0;
}

void row_source_done(struct row_source *s)
{
    free(s->keys);
    free(s->rows);
    free(s->weights);
    free(s->beginnings);
    *s = (struct row_source){0};
}

int row_source_needs_episodes(const struct row_source *s)
{
    return s->kind == ROWS_EPISODES || (s->kind == ROWS_TRANSITIONS && s->length > 1);
}

int row_source_is_ready(const struct row_source *s, const struct row_index *index)
{
    if (s->kind == ROWS_WINDOW)
        return store_window_rows(index->store) >= s->batch * s->length;
    if (s->kind == ROWS_EPISODES)
        return episodes_complete(index->episodes) > 0;
    return store_window_rows(index->store) > 0;
}

/* Draws the first rows, then fills in the sequences from the last one to the first.
 * Sequence b begins at b * L, so that no first row is overwritten before it is read. */
static void draw_group(const struct row_source *s, const struct row_index *index,
                       size_t group, uint64_t update)
{
    const struct rng_key key = s->keys[group];
    uint64_t *rows = s->rows + group * s->batch * s->length;

    if (index->priorities != NULL)
        priorities_draw(index->priorities, key, update, index->beta, rows,
                        s->weights + group * s->batch, s->batch);
    else if (s->kind == ROWS_EPISODES)
        rng_below(key, update, 0, episodes_complete(index->episodes), rows, s->batch);
    else
        store_draw(index->store, key, update, rows, s->batch);
    if (s->kind == ROWS_TRANSITIONS && s->length == 1)
        return;
    for (size_t b = s->batch; b-- > 0;) {
        uint64_t *to = rows + b * s->length;

        if (s->kind == ROWS_EPISODES && index->priorities == NULL)
            episodes_rows(index->episodes, rows[b], to, s->length);
        else
            episodes_behind(index->episodes, rows[b], to, s->length);
    }
}

void row_source_draw(struct row_source *s, const struct row_index *index, uint64_t update)
{
    CHECK(row_source_is_ready(s, index));
    if (s->kind == ROWS_WINDOW) { /* the newest rows of every copy */
        const uint64_t oldest = store_head(index->store) - s->batch * s->length;

        for (size_t e = 0; e < s->batch; e++)
            for (size_t t = 0; t < s->length; t++)
                s->rows[e * s->length + t] = oldest + t * s->batch + e;
        return;
    }
    for (size_t g = 0; g < s->groups; g++)
        draw_group(s, index, g, update);
}

void row_source_prioritise(const struct row_source *s, struct priorities *priorities,
                           float *answers, const uint8_t *has, size_t n_agents)
{
    uint64_t *beginnings = s->beginnings;
    float *most = NULL;

    for (size_t a = 0; a < n_agents; a++) {
        float *own = answers + a * s->batch;
        const uint64_t *rows = s->rows + (s->groups > 1 ? a : 0) * s->batch * s->length;

        if (!has[a])
            continue;
        for (size_t b = 0; b < s->batch; b++) {
            beginnings[b] = rows[b * s->length];
            if (s->groups == 1 && most != NULL && !(own[b] <= most[b]))
                most[b] = own[b];
        }
        if (s->groups > 1)
            priorities_set(priorities, beginnings, own, s->batch);
        else if (most == NULL)
            most = own;
    }
    if (most != NULL)
        priorities_set(priorities, beginnings, most, s->batch);
}
