/* An external environment in C: on a ring, two hunters have to catch a runner.
 *
 *     cc -shared -fPIC -O2 -I agent/plugin -o pursuit.so tests/examples/pursuit.c
 *     brood run pursuit.yaml        with env: {plugin: ./pursuit.so}
 *
 * Every agent steps one place to the left or right, or stays. A runner that is caught
 * leaves (terminated); after `limit` steps the episode is cut off for all.
 */
#include "brood_env.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AGENTS = 3, RUNNER = 2, MOVES = 3 };

struct world {
    int size, limit, time;
    int at[AGENTS];
};

static int param(const struct brood_env_param *params, size_t n, const char *name,
                 int otherwise)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(params[i].name, name) == 0)
            return atoi(params[i].value);
    return otherwise;
}

static int agents(const struct brood_env_param *params, size_t n_params,
                  struct brood_env_agent *ret, size_t max, char *why, size_t why_size)
{
    static const char *const names[AGENTS] = {"hunter_0", "hunter_1", "runner_0"};

    if (param(params, n_params, "size", 12) < 4) {
        (void)snprintf(why, why_size, "size: a ring of at least 4 places is needed");
        return -1;
    }
    for (int a = 0; a < AGENTS; a++) {
        ret[a] = (struct brood_env_agent){.obs_width = AGENTS,
                                          .kind = BROOD_ENV_DISCRETE,
                                          .n_heads = 1,
                                          .heads = {MOVES}};
        (void)snprintf(ret[a].name, sizeof(ret[a].name), "%s", names[a]);
    }
    return AGENTS;
}

static void *open_world(const struct brood_env_param *params, size_t n_params, char *why,
                        size_t why_size)
{
    struct world *w = calloc(1, sizeof(*w));

    if (w == NULL) {
        (void)snprintf(why, why_size, "no memory");
        return NULL;
    }
    w->size = param(params, n_params, "size", 12);
    w->limit = param(params, n_params, "limit", 25);
    return w;
}

static void close_world(void *world)
{
    free(world);
}

/* Each agent observes the others' relative positions, in [-1, 1), and the time. */
static void look(const struct world *w, const struct brood_env_view *out)
{
    for (int a = 0; a < AGENTS; a++) {
        int k = 0;

        for (int b = 0; b < AGENTS; b++)
            if (b != a) {
                int d = ((w->at[b] - w->at[a]) % w->size + w->size) % w->size;

                d = 2 * d >= w->size ? d - w->size : d;
                out->obs[a][k++] = 2.0f * (float)d / (float)w->size;
            }
        out->obs[a][k] = (float)w->time / (float)w->limit;
    }
}

static void reset(void *world, uint64_t seed, const struct brood_env_view *out)
{
    struct world *w = world;

    w->time = 0;
    w->at[0] = 0;
    w->at[1] = 1;
    w->at[RUNNER] = 2 + (int)(seed % (uint64_t)(w->size - 2));
    look(w, out);
    memset(out->present, 1, AGENTS);
}

static void step(void *world, const float *const *actions,
                 const struct brood_env_view *out)
{
    struct world *w = world;
    int caught = 0;

    w->time++;
    for (int a = 0; a < AGENTS; a++)
        w->at[a] =
            (w->at[a] + brood_env_choice(actions[a], MOVES) - 1 + w->size) % w->size;
    for (int a = 0; a < RUNNER; a++)
        caught |= w->at[a] == w->at[RUNNER];
    look(w, out);
    for (int a = 0; a < AGENTS; a++) {
        out->reward[a] = a == RUNNER ? 0.1 - 5.0 * caught : 5.0 * caught - 0.1;
        out->terminated[a] = (uint8_t)caught;
        out->present[a] = !caught && w->time < w->limit;
    }
}

/* For env.metrics: [caught]; nothing learns from it. */
static double metric(void *world, const char *name)
{
    const struct world *w = world;

    if (strcmp(name, "caught") != 0)
        return (double)NAN;
    return w->at[0] == w->at[RUNNER] || w->at[1] == w->at[RUNNER];
}

const struct brood_env *brood_env_plugin(void)
{
    static const struct brood_env env = {.abi = BROOD_ENV_ABI,
                                         .name = "pursuit",
                                         .agents = agents,
                                         .open = open_world,
                                         .close = close_world,
                                         .reset = reset,
                                         .step = step,
                                         .metric = metric};

    return &env;
}
