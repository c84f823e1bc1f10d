#include "supervisor/rollout/row_writer.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct agent_places { /* byte offsets in a row */
    size_t obs, action, reward, next_obs, terminated, alive;
    size_t allowed, next_allowed; /* where it is masked */
    size_t columns[DESCRIPTION_COLUMNS];
};

struct row_writer {
    const struct env_spec *spec;
    const struct description *descriptions;
    size_t copies, row_bytes;
    size_t truncated, first;
    struct agent_places *places; /* [A] */
};

int row_writer_layout(struct store_layout *ret, const struct env_spec *spec,
                      const struct description *descriptions, struct err *err)
{
    struct store_extra *extra =
        xcalloc(spec->n_agents * DESCRIPTION_COLUMNS, sizeof(*extra));
    struct env_spec none = {0};
    size_t n = 0;
    int rc;

    if (strcmp(spec->id, "none") == 0)
        spec = &none; /* no row is ever written, so no agent has columns */
    for (size_t a = 0; a < spec->n_agents; a++)
        for (int c = 0; c < descriptions[a].n_columns; c++)
            extra[n++] = (struct store_extra){spec->agents[a].name,
                                              descriptions[a].columns[c].name,
                                              descriptions[a].columns[c].elements};
    rc = store_layout_make(ret, spec, extra, n, err);
    free(extra);
    return rc;
}

static size_t place(const struct store_layout *l, const char *agent, const char *name)
{
    int column = store_layout_find(l, agent, name);

    CHECK(column >= 0, "no column %s", name);
    return l->columns[column].offset;
}

struct row_writer *row_writer_new(const struct store_layout *layout,
                                  const struct env_spec *spec,
                                  const struct description *descriptions, size_t copies)
{
    struct row_writer *w = xcalloc(1, sizeof(*w));

    w->spec = spec;
    w->descriptions = descriptions;
    w->copies = copies;
    w->row_bytes = layout->row_bytes;
    w->truncated = place(layout, NULL, "truncated");
    w->first = place(layout, NULL, "first");
    w->places = xcalloc(spec->n_agents, sizeof(*w->places));
    for (size_t a = 0; a < spec->n_agents; a++) {
        const char *name = spec->agents[a].name;
        struct agent_places *p = &w->places[a];

        p->obs = place(layout, name, "obs");
        p->action = place(layout, name, "action");
        p->reward = place(layout, name, "reward");
        p->next_obs = place(layout, name, "next_obs");
        p->terminated = place(layout, name, "terminated");
        p->alive = place(layout, name, "alive");
        if (env_is_masked(spec, a)) {
            p->allowed = place(layout, name, "allowed");
            p->next_allowed = place(layout, name, "next_allowed");
        }
        for (int c = 0; c < descriptions[a].n_columns; c++)
            p->columns[c] = place(layout, name, descriptions[a].columns[c].name);
    }
    return w;
}

void row_writer_free(struct row_writer *w)
{
    if (w == NULL)
        return;
    free(w->places);
    free(w);
}

/* Copies src (E), of `bytes` bytes each, into the rows, at byte `at` of each. */
static void put_bytes(const struct row_writer *w, uint8_t *rows, size_t at,
                      const void *src, size_t bytes)
{
    for (size_t e = 0; e < w->copies; e++)
        memcpy(rows + e * w->row_bytes + at, (const uint8_t *)src + e * bytes, bytes);
}

/* Learners see clipped rewards; the episode's return has been counted without. */
static void put_rewards(const struct row_writer *w, uint8_t *rows, size_t at,
                        const double *src)
{
    const double most = w->spec->clip_rewards > 0 ? w->spec->clip_rewards : HUGE_VAL;

    for (size_t e = 0; e < w->copies; e++) {
        float v = (float)fmin(fmax(src[e], -most), most);
        memcpy(rows + e * w->row_bytes + at, &v, sizeof(v));
    }
}

static void put_flags(const struct row_writer *w, uint8_t *rows, size_t at,
                      const uint8_t *src)
{
    for (size_t e = 0; e < w->copies; e++) {
        float v = src[e] ? 1.0f : 0.0f;
        memcpy(rows + e * w->row_bytes + at, &v, sizeof(v));
    }
}

void row_writer_before(const struct row_writer *w, const struct vec_env *env,
                       uint8_t *rows)
{
    for (size_t a = 0; a < w->spec->n_agents; a++) {
        put_bytes(w, rows, w->places[a].obs, vec_env_obs(env, a),
                  env_obs_bytes(&w->spec->agents[a]));
        if (env_is_masked(w->spec, a))
            put_bytes(w, rows, w->places[a].allowed, vec_env_allowed(env, a),
                      (size_t)w->spec->agents[a].space.width);
    }
}

void row_writer_after(const struct row_writer *w, const struct env_step *step,
                      const struct acting *acting, uint8_t *rows)
{
    for (size_t a = 0; a < w->spec->n_agents; a++) {
        const struct agent_places *p = &w->places[a];
        size_t action = (size_t)w->spec->agents[a].space.width;

        put_bytes(w, rows, p->action, acting_actions(acting)[a], action * sizeof(float));
        /* an agent that has left executed nothing, whatever it answered */
        for (size_t e = 0; e < w->copies; e++)
            if (!step->alive[a][e])
                memset(rows + e * w->row_bytes + p->action, 0, action * sizeof(float));
        put_rewards(w, rows, p->reward, step->reward[a]);
        put_bytes(w, rows, p->next_obs, step->next_obs[a],
                  env_obs_bytes(&w->spec->agents[a]));
        put_flags(w, rows, p->terminated, step->terminated[a]);
        put_flags(w, rows, p->alive, step->alive[a]);
        if (env_is_masked(w->spec, a))
            put_bytes(w, rows, p->next_allowed, step->next_allowed[a], action);
        for (int c = 0; c < w->descriptions[a].n_columns; c++)
            put_bytes(w, rows, p->columns[c], acting_column(acting, a, c),
                      w->descriptions[a].columns[c].elements * sizeof(float));
    }
    put_flags(w, rows, w->truncated, step->truncated);
    put_flags(w, rows, w->first, step->first);
}
