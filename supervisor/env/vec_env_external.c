/* A vec_env whose world is in other processes: its calls send requests, and the results
 * arrive later. */
#include "common/err/check.h"
#include "common/msg/frame.h"
#include "supervisor/env/vec_env_internal.h"

#include <string.h>

/* ---- the step ---- */

/* Updates an agent's results. An agent that is absent after the step has left (terminated
 * or cut off). An agent that was absent before it, or whose copy made no step, gets no
 * reward. */
static void end_agent(struct vec_env *v, size_t agent, size_t c)
{
    uint8_t *left = &v->left[agent][c], *over = &v->terminated[agent][c];
    const uint8_t alive = !*left & !v->waiting[c] & !v->discarded[c];
    const size_t obs = env_obs_bytes(&v->spec.agents[agent]);
    const size_t width = (size_t)v->spec.agents[agent].space.width;

    v->alive[agent][c] = alive;
    if (alive) {
        v->total_return[agent][c] += v->own[agent][c];
        *left = v->present[agent][c] ? LEFT_NOT : *over ? LEFT_AT_END : LEFT_CUT;
        return;
    }
    v->own[agent][c] = 0.0;
    *over = *left == LEFT_AT_END;
    if (v->present[agent][c]) { /* it joined in this step */
        *left = LEFT_NOT;
        return;
    }
    /* an absent agent keeps its last observation and mask */
    memcpy((char *)v->next_obs[agent] + c * obs, (char *)v->obs[agent] + c * obs, obs);
    if (v->allowed != NULL)
        memcpy(v->next_allowed[agent] + c * width, v->allowed[agent] + c * width, width);
}

static void finish_step(struct vec_env *v)
{
    for (size_t c = 0; c < v->n_copies; c++) {
        v->discarded[c] = !v->waiting[c] & !external_world_runs(v->world, c);
        v->skipped[c] = v->discarded[c] && external_world_has_failed(v->world, c);
    }
    memset(v->ended, 1, v->n_copies);
    memset(v->truncated, 0, v->n_copies);
    for (size_t a = 0; a < v->spec.n_agents; a++) {
        for (size_t c = 0; c < v->n_copies; c++) {
            end_agent(v, a, c);
            v->ended[c] &= v->left[a][c] != LEFT_NOT;
            v->truncated[c] |= v->left[a][c] == LEFT_CUT;
        }
        memcpy(v->episode_return[a], v->total_return[a], v->n_copies * sizeof(double));
    }
    vec_env_end_copies(v);
    vec_env_conclude(v, v->result);
}

static void report_ready(struct vec_env *v, int rc, const struct err *err)
{
    if (rc < 0)
        env_host_on_failed(v->host, err);
    else if (rc == 0)
        v->on_ready(v->ready_ctx);
}

/* In training, a copy whose episode is lost begins the next one. In an evaluation the
 * loss shows in the next step (`discarded`), and the evaluation plays the episode again, or
 * does without it. Returns the number of copies that begin one. */
static size_t begin_lost(struct vec_env *v)
{
    size_t n = 0;

    for (size_t c = 0; v->draws == ENV_DRAWS_TRAINING && c < v->n_copies; c++) {
        if (!external_world_is_lost(v->world, c))
            continue;
        vec_env_begin_episode(v, c, v->episode[c] + 1);
        n++;
    }
    return n;
}

static int make_ready(struct vec_env *v, struct err *err)
{
    while (external_world_skip_known(v->world) > 0 && begin_lost(v) > 0)
        ;
    return external_world_make_ready(v->world, err);
}

static void on_stepped(void *ctx)
{
    struct vec_env *v = ctx;
    struct err err = {0};

    finish_step(v);
    report_ready(v, make_ready(v, &err), &err);
}

/* ---- taking a round back ---- */

static void copy_row(struct vec_env *v, struct vec_env_counts *to,
                     const struct vec_env_counts *from)
{
    const size_t n = v->n_copies;

    memcpy(to->episode, from->episode, n * sizeof(*to->episode));
    memcpy(to->time, from->time, n * sizeof(*to->time));
    memcpy(to->waiting, from->waiting, n);
    for (size_t a = 0; a < v->spec.n_agents; a++) {
        memcpy(to->left[a], from->left[a], n);
        memcpy(to->total_return[a], from->total_return[a], n * sizeof(double));
        if (v->past != NULL)
            memcpy(to->past[a], from->past[a], vec_env_past_bytes(v, a));
    }
    for (size_t m = 0; m < v->spec.n_metrics; m++) {
        memcpy(to->metric_sum[m], from->metric_sum[m], n * sizeof(double));
        memcpy(to->metric_count[m], from->metric_count[m], n * sizeof(double));
    }
}

static struct vec_env_counts counts_of(const struct vec_env *v)
{
    return (struct vec_env_counts){.episode = v->episode,
                                   .time = v->time,
                                   .waiting = v->waiting,
                                   .left = v->left,
                                   .total_return = v->total_return,
                                   .metric_sum = v->metric_sum,
                                   .metric_count = v->metric_count,
                                   .past = v->past};
}

int vec_env_undo(struct vec_env *v)
{
    struct vec_env_counts now = counts_of(v);

    if (!v->can_undo)
        return 0;
    copy_row(v, &now, &v->before);
    external_world_undo(v->world);
    return 1;
}

static int step(struct vec_env *v, const float *const *actions, struct env_step *ret,
                struct err *err)
{
    const struct vec_env_counts now = counts_of(v);
    int rc;

    /* the state before a step, for vec_env_undo */
    copy_row(v, &v->before, &now);
    v->can_undo = 1;
    vec_env_keep_past(v);
    v->result = ret;
    rc = external_world_step(v->world, actions, v->waiting, err);
    if (rc != 0)
        return rc;
    finish_step(v);
    return make_ready(v, err);
}

/* ---- resets ---- */

static void on_ready(void *ctx)
{
    struct vec_env *v = ctx;
    struct err err = {0};

    for (size_t c = 0; c < v->n_copies; c++)
        for (size_t a = 0; !v->waiting[c] && v->time[c] == 0 && a < v->spec.n_agents; a++)
            v->left[a][c] = v->present[a][c] ? LEFT_NOT : LEFT_CUT;
    (void)begin_lost(v);
    report_ready(v, make_ready(v, &err), &err);
}

static void on_failed(void *ctx, const char *process, size_t copy,
                      const struct env_failure *at, const char *why)
{
    const struct vec_env *v = ctx;

    env_host_on_skipped(
        v->host, &(struct env_skip){.process = process,
                                    .copy = copy,
                                    .episode = v->episode[copy],
                                    .is_evaluation = v->draws == ENV_DRAWS_EVALUATION,
                                    .at = *at,
                                    .why = why});
}

static void end_episode(struct vec_env *v, size_t copy)
{
    external_world_end_episode(v->world, copy);
}

static void go_on(struct vec_env *v)
{
    vec_env_keep_obs(v, 0, v->n_copies);
    for (size_t a = 0; v->allowed != NULL && a < v->spec.n_agents; a++)
        memcpy(v->allowed[a], v->next_allowed[a],
               v->n_copies * (size_t)v->spec.agents[a].space.width);
    vec_env_begin_ended(v);
}

/* ---- opening and starting ---- */

/* Checks the size of a step's request to the process with the most copies, and of its
 * answer. */
static int check_message(const struct vec_env *v, struct err *err)
{
    const size_t processes = v->external.processes;
    const size_t copies = (v->n_copies + processes - 1) / processes;
    size_t bytes = 4096 + copies * v->spec.n_metrics * sizeof(double),
           asked = 4096 + copies * sizeof(uint32_t);

    for (size_t a = 0; a < v->spec.n_agents; a++) {
        const size_t width = (size_t)v->spec.agents[a].space.width;

        bytes += copies * (env_obs_bytes(&v->spec.agents[a]) + width + 16);
        asked += copies * width * sizeof(float);
    }
    bytes = bytes > asked ? bytes : asked;
    if (bytes > FRAME_MAX_BYTES)
        return err_set(
            err, ERR_LIMIT,
            "observations or actions of %zu copies take %zu MiB in one message, more "
            "than %u MiB; raise env.processes",
            copies, bytes >> 20, FRAME_MAX_BYTES >> 20);
    return 0;
}

static int open_world(struct vec_env *v, const struct env_config *config,
                      const void *params, struct err *err)
{
    const struct external_listener listener = {on_stepped, on_ready, on_failed, v};
    struct external_views views;
    int rc;

    external_init(&v->external, config, &v->arena);
    rc = check_message(v, err);
    if (rc < 0)
        return rc;
    v->present = ARENA_ARRAY(&v->arena, uint8_t *, v->spec.n_agents);
    for (size_t a = 0; a < v->spec.n_agents; a++)
        v->present[a] = ARENA_ARRAY(&v->arena, uint8_t, v->n_copies);
    v->before =
        (struct vec_env_counts){.episode = ARENA_ARRAY(&v->arena, uint64_t, v->n_copies),
                                .time = ARENA_ARRAY(&v->arena, uint64_t, v->n_copies),
                                .waiting = ARENA_ARRAY(&v->arena, uint8_t, v->n_copies),
                                .left = vec_env_bytes(v, v->n_copies),
                                .total_return = vec_env_doubles(v, v->n_copies),
                                .metric_sum = vec_env_metric_rows(v),
                                .metric_count = vec_env_metric_rows(v),
                                .past = v->past != NULL ? vec_env_past_rows(v) : NULL};
    views = (struct external_views){.obs = v->obs,
                                    .allowed = v->allowed,
                                    .next_obs = v->next_obs,
                                    .next_allowed = v->next_allowed,
                                    .reward = v->own,
                                    .terminated = v->terminated,
                                    .present = v->present,
                                    .metric = v->metric};
    v->world = external_world_new(&v->external, &v->spec, v->n_copies, &views, &listener);
    return 0;
}

static void close_world(struct vec_env *v)
{
    external_world_free(v->world);
}

static int start(struct vec_env *v, struct env_host *host, const char *name,
                 struct err *err)
{
    CHECK(v->host == NULL, "vec_env_start was called twice");
    v->host = host;
    return external_world_start(v->world, host, name, err);
}

void vec_env_mark_inexact(struct vec_env *v, const char *line)
{
    external_world_mark_inexact(v->world, arena_strdup(&v->arena, line));
}

void vec_env_on_ready(struct vec_env *v, void (*fn)(void *ctx), void *ctx)
{
    v->on_ready = fn;
    v->ready_ctx = ctx;
}

/* ---- the state ---- */

static int load(struct vec_env *v, const void *src, size_t len, struct err *err)
{
    return external_world_load(v->world, src, len, err);
}

/* Begins a new episode in each copy whose episode is lost (external_world.h). */
static void begin_after_load(struct vec_env *v)
{
    for (size_t c = 0; c < v->n_copies; c++)
        if (!v->waiting[c] && !external_world_runs(v->world, c)) {
            vec_env_mark_inexact(
                v, "an episode cannot be replayed after the resume: another "
                   "one begins, and this run is not exact");
            vec_env_begin_episode(v, c, v->episode[c] + 1);
        }
}

const struct world_driver external_driver = {
    .open = open_world,
    .close = close_world,
    .start = start,
    .make_ready = make_ready,
    .step = step,
    .end_episode = end_episode,
    .go_on = go_on,
    .load = load,
    .loaded = begin_after_load,
};
