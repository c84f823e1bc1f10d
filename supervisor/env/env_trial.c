#include "supervisor/env/env_trial.h"

#include "common/mem/xmalloc.h"
#include "supervisor/ask/ask.h"
#include "supervisor/env/vec_env_internal.h"
#include "supervisor/proc/binaries.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A round has up to STEPS steps; with a slow environment it ends after ROUND_MS, but not
 * before FEW_STEPS steps. */
enum { FEW_STEPS = 8, STEPS = 128, ROUND_MS = 500, MAX_PLAYERS = 2 };

/* Copy c is played by process c, and its history has a checksum of each answer. */
struct trial {
    struct ask *ask;
    struct env_host *host;
    const struct env_trial_listener *listener;
    struct vec_env *env;
    size_t n_players; /* copies; with two, there are two rounds */
    struct rng_key key;
    float **actions;
    struct env_step result;
    int was_killed; /* the last process that ended, by a signal that we did not send */
    size_t round, step;
    uint64_t began_ns; /* start of the round */
    uint8_t over[MAX_PLAYERS];
    struct played {
        size_t n_steps;
        uint32_t sums[STEPS + 1];
    } played[MAX_PLAYERS][MAX_PLAYERS]; /* [round][copy] */
};

/* In the second round, the two copies play each other's episodes. */
static uint64_t episode_of(const struct trial *t, size_t copy)
{
    return copy ^ t->round;
}

/* ---- random actions ---- */

/* Chooses among the allowed entries of a head, or among all if none is. */
static void env_trial_choose(float *head, const uint8_t *allowed, int32_t n, double draw)
{
    int32_t n_allowed = 0, chosen;

    for (int32_t i = 0; i < n; i++)
        n_allowed += allowed == NULL || allowed[i];
    chosen = (int32_t)(draw * (n_allowed > 0 ? n_allowed : n));
    for (int32_t i = 0; i < n; i++) {
        const int counts = n_allowed == 0 || allowed == NULL || allowed[i];

        head[i] = counts && chosen == 0;
        chosen -= counts;
    }
}

static void draw_action(const struct action_space *s, const uint8_t *allowed,
                        const double *draws, float *row)
{
    const double low = isfinite(s->low) ? s->low : -1,
                 high = isfinite(s->high) ? s->high : 1;
    int32_t at = 0;

    for (int32_t i = space_first_number(s); i < s->width; i++)
        row[i] = (float)(low + (high - low) * draws[i]);
    for (int h = 0; s->kind != SPACE_BOX && h < s->n_heads; at += s->heads[h++])
        env_trial_choose(row + at, allowed != NULL ? allowed + at : NULL, s->heads[h],
                         draws[h]);
}

static void draw_actions(struct trial *t)
{
    const struct env_spec *spec = vec_env_spec(t->env);

    for (size_t a = 0; a < spec->n_agents; a++) {
        const struct action_space *s = &spec->agents[a].space;
        const size_t width = (size_t)s->width;
        const uint8_t *allowed = vec_env_allowed(t->env, a);
        double *draws = xcalloc(width, sizeof(*draws));

        for (size_t c = 0; c < t->n_players; c++) {
            rng_uniform_f64(t->key, episode_of(t, c) * STEPS + t->step, a << 32, draws,
                            width);
            draw_action(s, allowed != NULL ? allowed + c * width : NULL, draws,
                        t->actions[a] + c * width);
        }
        free(draws);
    }
}

/* ---- playing ---- */

static void reset(struct trial *t)
{
    t->step = 0;
    t->began_ns = uv_hrtime();
    memset(t->over, 0, sizeof(t->over));
    for (size_t c = 0; c < t->n_players; c++)
        vec_env_reset_copy(t->env, c, episode_of(t, c));
}

static int is_round_over(const struct trial *t)
{
    const int is_slow = uv_hrtime() - t->began_ns > (uint64_t)ROUND_MS * 1000000;

    return t->step == STEPS || (t->step >= FEW_STEPS && is_slow) ||
           memchr(t->over, 0, t->n_players) == NULL;
}

/* Plays until it has to wait for the processes. */
static int go_on(struct trial *t, struct err *err)
{
    int rc = 0;

    while (rc == 0) {
        if (!is_round_over(t)) {
            draw_actions(t);
            t->step++;
            rc = vec_env_step(t->env, (const float *const *)t->actions, &t->result, err);
            continue;
        }
        for (size_t c = 0; c < t->n_players; c++) {
            struct played *p = &t->played[t->round][c];

            p->n_steps = external_world_sums(t->env->world, c, p->sums, STEPS + 1) - 1;
        }
        if (++t->round == t->n_players) {
            ask_done(t->ask);
            return 0;
        }
        reset(t);
        rc = vec_env_make_ready(t->env, err);
    }
    return rc < 0 ? rc : 0;
}

/* A step or the resets are complete. */
static void on_ready(void *ctx)
{
    struct trial *t = ctx;
    struct err err = {0};

    for (size_t c = 0; t->step > 0 && c < t->n_players; c++)
        t->over[c] |= t->result.ended[c];
    if (go_on(t, &err) < 0)
        ask_fail(t->ask, &err);
}

/* A process's last exit is reported before its failure; text: why it was ended by us. */
static void on_event(void *ctx, const struct agent_event *e, const char *process)
{
    struct trial *t = ctx;

    if (e->kind == AGENT_EVENT_EXIT)
        t->was_killed = e->signal != 0 && e->text == NULL;
}

static void on_inexact(void *ctx, const char *line)
{
}

static void on_warning(void *ctx, const char *process, const char *line)
{
    const struct trial *t = ctx;

    if (t->listener != NULL)
        t->listener->on_warning(t->listener->ctx, line);
}

static void on_failed(void *ctx, const struct err *why)
{
    struct trial *t = ctx;
    struct err own = *why;

    if (own.code == ERR_AGENT && !t->was_killed)
        own.code = ERR_CONFIG;
    ask_fail(t->ask, &own);
}

static void on_stopped(void *ctx)
{
    /* ask_close runs the loop until it has no handles */
}

static int play(struct trial *t, struct err *err)
{
    int rc;

    reset(t);
    rc = vec_env_start(t->env, t->host, "trial", err);
    vec_env_on_ready(t->env, on_ready, t);
    if (rc == 0)
        rc = vec_env_make_ready(t->env, err);
    return rc < 0 ? rc : ask_wait(t->ask, err);
}

/* Compares the two plays of each episode by their checksums. These cover which agents are
 * present and which are terminated, so that an episode that ends earlier differs, too. */
static void compare(const struct trial *t, struct env_verdict *ret)
{
    for (size_t c = 0; t->n_players > 1 && c < t->n_players; c++) {
        const struct played *a = &t->played[0][c], *b = &t->played[1][1 - c];
        size_t i = 0;

        while (i <= a->n_steps && i <= b->n_steps && a->sums[i] == b->sums[i])
            i++;
        if (i > a->n_steps || i > b->n_steps)
            continue;
        ret->step = !ret->differs || i < ret->step ? i : ret->step;
        ret->differs = 1;
    }
}

/* ---- the whole ---- */

static int open_trial(struct trial *t, const struct env_config *config, uint64_t seed,
                      int agent_exe_fd, struct err *err)
{
    const struct ask_args none = {.n = 0};
    const struct env_host_args args = {.agent_exe_fd = agent_exe_fd,
                                       .on_event = on_event,
                                       .on_inexact = on_inexact,
                                       .on_failed = on_failed,
                                       .on_warning = on_warning,
                                       .on_stopped = on_stopped,
                                       .ctx = t};
    struct env_host_args own = args;
    const struct env_spec *spec;
    int rc = vec_env_new(&t->env, config, seed, ENV_DRAWS_EVALUATION, t->n_players, err);

    if (rc == 0)
        rc = ask_open(&t->ask, &none, err);
    if (rc < 0)
        return rc;
    t->env->external.is_trial = 1;
    own.loop = ask_loop(t->ask);
    t->host = env_host_new(&own);
    spec = vec_env_spec(t->env);
    t->actions = ARENA_ARRAY(&t->env->arena, float *, spec->n_agents);
    for (size_t a = 0; a < spec->n_agents; a++)
        t->actions[a] = ARENA_ARRAY(&t->env->arena, float,
                                    t->n_players *(size_t)spec->agents[a].space.width);
    return 0;
}

int env_trial(const struct env_config *config, uint64_t seed,
              const struct env_trial_listener *listener, struct env_verdict *ret,
              struct err *err)
{
    struct env_config own = *config;
    struct trial t = {.listener = listener, .n_players = config->verify ? 2 : 1};
    struct binaries bin;
    int fd, rc;

    *ret = (struct env_verdict){0};
    if (!env_config_is_external(config))
        return 0;
    own.processes = (int64_t)t.n_players;
    t.key = rng_key_make(seed, "trial", "actions");
    rc = binaries_find(&bin, err);
    fd = rc < 0 ? rc : binaries_open_agent(&bin, err);
    if (fd < 0)
        return fd;
    rc = open_trial(&t, &own, seed, fd, err);
    if (rc == 0)
        rc = play(&t, err);
    if (rc == 0)
        compare(&t, ret);
    if (t.host != NULL)
        env_host_stop(t.host, ASK_END_WITHIN_MS);
    ask_close(t.ask);
    vec_env_free(t.env);
    env_host_free(t.host);
    (void)close(fd);
    return rc;
}

const char *env_verdict_text(const struct env_verdict *v, char *ret, size_t size)
{
    char when[48] = "at the reset";

    if (v->step > 0)
        (void)snprintf(when, sizeof(when), "in step %zu", v->step);
    (void)snprintf(
        ret, size,
        "this environment is not reproducible: two processes answered the same "
        "seed and actions differently %s",
        when);
    return ret;
}
