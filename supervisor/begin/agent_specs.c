#include "supervisor/begin/agent_specs.h"

#include "common/config/algorithms.h"
#include "common/mem/xmalloc.h"
#include "common/msg/config_msg.h"
#include "supervisor/describe/programs.h"
#include "supervisor/rollout/rollout.h"

/* "no": agents of programs are executed, none is forked. */
#define PREPARED_VARIABLE "BROOD_PREPARED"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *log_path(struct run_dir *dir, const char *name)
{
    char sub[AGENT_NAME_MAX + 16];

    if (dir == NULL)
        return NULL;
    (void)snprintf(sub, sizeof(sub), "logs/%s.log", name);
    return run_dir_file(dir, sub);
}

struct agent_limits agent_specs_limits_at(const struct agent_specs *s,
                                          const struct run_config *config, size_t i)
{
    const struct agent_config *c =
        i < config->n_agents ? &config->agents[i] : &config->defaults;
    struct agent_limits limits = {.restart = c->restart,
                                  .memory_limit_bytes = c->memory_limit_bytes,
                                  .respond_within_s = c->respond_within_s,
                                  .may_differ = c->is_inexact};

    if (strcmp(s->spec[i].role, "ps") == 0)
        limits.restart.on_give_up = GIVE_UP_STOP;
    return limits;
}

/* What agents need to be forked by one prepared process: to be started alike. */
static void prepare_program(const struct agent_config *a, struct agent_program *ret)
{
    const struct program_place place = program_place(a->program);
    const struct algorithm_info *info = algorithm_of(a);
    const char *wish = getenv(PREPARED_VARIABLE);
    struct msg_out out;
    const uint8_t *frame;

    if (a->command == NULL || info == NULL || !info->prepares ||
        (wish != NULL && strcmp(wish, "no") == 0))
        return;
    msg_out_init(&out);
    msg_begin_request(&out, 0, "prepare");
    msg_map(&out, 1);
    msg_key(&out, "program");
    msg_program(&out, a, &place);
    msg_end(&out, &frame, &ret->len);
    ret->frame = xmalloc(ret->len);
    memcpy(ret->frame, frame, ret->len);
    msg_out_done(&out);
}

int agent_specs_init(struct agent_specs *ret, const struct run_config *config,
                     const struct env_spec *env, int central, int ps, struct run_dir *dir,
                     void (*pack)(void *ctx, size_t agent, int restored,
                                  struct msg_out *o),
                     struct err *err)
{
    const size_t n = env->n_agents + (central ? 1 : 0);
    int rc = sharing_init(&ret->sharing, config, env, NULL, err);

    if (rc < 0)
        return rc;
    ret->n = n + (ps ? ret->sharing.n_groups : 0);
    ret->spec = xcalloc(ret->n, sizeof(*ret->spec));
    ret->limits = xcalloc(ret->n, sizeof(*ret->limits));
    ret->programs = xcalloc(ret->n, sizeof(*ret->programs));
    if (ps) { /* each group's memory, as large as a variable block may be; it is sparse */
        ret->shared = xcalloc(ret->sharing.n_groups + 1, sizeof(*ret->shared));
        for (size_t g = 0; g < ret->sharing.n_groups; g++)
            ret->shared[g] = BLOCK_NONE;
        for (size_t g = 0; g < ret->sharing.n_groups && rc == 0; g++)
            rc = block_init(&ret->shared[g], ret->sharing.groups[g].ps, err);
        if (rc < 0)
            return rc;
    }
    for (size_t i = 0; i < ret->n; i++) {
        const int learner = i < env->n_agents;
        const char *name = learner ? env->agents[i].name
                           : i < n ? "central"
                                   : ret->sharing.groups[i - n].ps;
        size_t group = learner ? ret->sharing.group_of[i] : SHARING_NONE;

        if (i >= n)
            group = i - n;
        ret->spec[i] = (struct agent_spec){
            .name = name,
            .role = learner ? "learner"
                    : i < n ? "central"
                            : "ps",
            .shared_fd = ps && group != SHARING_NONE ? ret->shared[group].fd : 0,
            .log_path = log_path(dir, name),
            .pack_configure = pack,
            .limits = &ret->limits[i]};
        ret->limits[i] = agent_specs_limits_at(ret, config, i);
        if (learner)
            prepare_program(&config->agents[i], &ret->programs[i]);
        if (learner && dir != NULL)
            ret->spec[i].kept = program_place(config->agents[i].program).kept;
        if (ret->programs[i].frame != NULL)
            ret->spec[i].prepared = &ret->programs[i];
    }
    return 0;
}

void agent_specs_done(struct agent_specs *s)
{
    for (size_t g = 0; s->shared != NULL && g < s->sharing.n_groups; g++)
        block_done(&s->shared[g]);
    free(s->shared);
    sharing_done(&s->sharing);
    for (size_t i = 0; s->programs != NULL && i < s->n; i++)
        free(s->programs[i].frame);
    free(s->programs);
    free(s->spec);
    free(s->limits);
    *s = (struct agent_specs){0};
}
