#include "supervisor/run/agent_specs.h"

#include "common/config/algorithms.h"
#include "common/mem/xmalloc.h"

#include <stdio.h>
#include <stdlib.h>

int agent_specs_need_central(const struct run_config *config)
{
    for (size_t i = 0; i < config->n_agents; i++) {
        const struct algorithm_info *a = algorithm_find(config->agents[i].algorithm);

        if (a != NULL && a->central)
            return 1;
    }
    return 0;
}

static const char *log_path(struct run_dir *dir, const char *name)
{
    char sub[AGENT_NAME_MAX + 16];

    if (dir == NULL)
        return NULL;
    (void)snprintf(sub, sizeof(sub), "logs/%s.log", name);
    return run_dir_file(dir, sub);
}

struct agent_limits agent_specs_limits(const struct agent_config *agent)
{
    return (struct agent_limits){.restart = agent->restart,
                                 .memory_limit_bytes = agent->memory_limit_bytes,
                                 .respond_within_s = agent->respond_within_s};
}

void agent_specs_init(struct agent_specs *ret, const struct run_config *config,
                      const struct env_spec *env, int central, struct run_dir *dir,
                      void (*pack)(void *ctx, size_t agent, int restored,
                                   struct msg_out *o))
{
    ret->n = env->n_agents + (central ? 1 : 0);
    ret->spec = xcalloc(ret->n, sizeof(*ret->spec));
    ret->limits = xcalloc(ret->n, sizeof(*ret->limits));
    for (size_t i = 0; i < ret->n; i++) {
        const int learner = i < env->n_agents;
        const char *name = learner ? env->agents[i].name : "central";

        ret->limits[i] =
            agent_specs_limits(learner ? &config->agents[i] : &config->defaults);
        ret->spec[i] = (struct agent_spec){.name = name,
                                           .role = learner ? "learner" : "central",
                                           .log_path = log_path(dir, name),
                                           .pack_configure = pack,
                                           .limits = &ret->limits[i]};
    }
}

void agent_specs_done(struct agent_specs *s)
{
    free(s->spec);
    free(s->limits);
    *s = (struct agent_specs){0};
}
