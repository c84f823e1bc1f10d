#include "supervisor/begin/players.h"

#include "common/mem/xmalloc.h"
#include "supervisor/begin/agent_specs.h"
#include "supervisor/begin/restore.h"
#include "supervisor/rollout/rollout.h"

#include <stdlib.h>

struct players {
    struct players_args args;
    struct vec_env *world; /* only for its env_spec */
    struct agent_specs specs;
    struct ask *ask;
    struct restore *restore;
};

static void pack_configure(void *ctx, size_t agent, int restored, struct msg_out *o)
{
    const struct players *p = ctx;

    rollout_pack_configure(p->args.config, vec_env_spec(p->world), agent, restored,
                           policies_of(p->args.policies, agent), o);
}

static void on_restored(void *ctx)
{
    ask_done(((struct players *)ctx)->ask);
}

static int values_of(void *ctx, size_t agent, const char *name,
                     const struct checkpoint_values **ret, struct err *err)
{
    return weights_of(((struct players *)ctx)->args.weights, name, ret, err);
}

static int start_agents(struct players *p, struct err *err)
{
    struct ask_args args = {.agent_exe_fd = p->args.agent_exe_fd, .ctx = p};
    int rc = agent_specs_init(&p->specs, p->args.config, vec_env_spec(p->world), 0, 0,
                              NULL, pack_configure, err);

    if (rc < 0)
        return rc;
    args.specs = p->specs.spec;
    args.n = p->specs.n;
    rc = ask_open(&p->ask, &args, err);
    if (rc == 0)
        rc = restore_start(&p->restore, ask_agents(p->ask), values_of, p->args.resized,
                           on_restored, p, err);
    return rc < 0 ? rc : ask_wait(p->ask, err);
}

int players_open(struct players **ret, const struct players_args *args, struct err *err)
{
    struct players *p = *ret = xcalloc(1, sizeof(*p));
    int rc;

    p->args = *args;
    rc = vec_env_new(&p->world, &args->config->env, args->seed, ENV_DRAWS_EVALUATION, 1,
                     err);
    return rc < 0 ? rc : start_agents(p, err);
}

void players_close(struct players *p)
{
    if (p == NULL)
        return;
    ask_close(p->ask);
    restore_free(p->restore);
    agent_specs_done(&p->specs);
    vec_env_free(p->world);
    free(p);
}

const struct env_spec *players_spec(const struct players *p)
{
    return vec_env_spec(p->world);
}

struct ask *players_ask(const struct players *p)
{
    return p->ask;
}
