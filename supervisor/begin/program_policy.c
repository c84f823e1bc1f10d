#include "supervisor/begin/program_policy.h"

#include "common/config/algorithms.h"
#include "common/config/run_schema.h"
#include "common/mem/xmalloc.h"
#include "supervisor/ask/describe.h"
#include "supervisor/begin/policy_source.h"
#include "supervisor/rundir/run_dir.h"

#include <stdlib.h>
#include <string.h>

/* NULL: the configuration has no agent of the prefix's name. */
static const struct agent_config *agent_of(const struct run_config *c, const char *prefix)
{
    char *name = policy_agent_of(prefix);
    const struct agent_config *found = NULL;

    for (size_t i = 0; i < c->n_agents && found == NULL; i++)
        if (strcmp(c->agents[i].name, name) == 0)
            found = &c->agents[i];
    free(name);
    return found;
}

/* What the agent computes is the program's; how its process is kept is this run's. */
static void take_section(struct agent_config *a, const struct agent_config *from,
                         const char *prefix, int samples, struct arena *arena)
{
    const struct agent_config own = *a;

    *a = *from;
    a->share = NULL;
    a->device = NULL;
    a->policy = (struct policy_config){.from = prefix, .samples = samples};
    schema_copy_texts(&agent_schema, a, arena);
    a->name = own.name;
    a->memory_limit_bytes = own.memory_limit_bytes;
    a->respond_within_s = own.respond_within_s;
    a->stop_on_nonfinite = own.stop_on_nonfinite;
    a->restart = own.restart;
    a->share = own.share;
    a->device = own.device;
    a->experience = own.experience;
    a->from_at = own.from_at;
}

static int check_trust(const char *config_yaml, struct err *err)
{
    char *run = xstrndup(config_yaml, (size_t)(strrchr(config_yaml, '/') - config_yaml));
    struct err why = {0};
    const int rc = run_dir_check_trust(run, &why);

    free(run);
    if (rc == 0)
        return 0;
    return err_set(err, ERR_CONFIG,
                   "the agent is a program, in a run that others may have written "
                   "(%.200s): `brood fork --trust` copies it",
                   why.msg);
}

int program_policy_take(void *ctx, struct agent_config *a, struct arena *arena,
                        struct err *err)
{
    const struct policy_search *search = ctx;
    const struct agent_config *from = NULL;
    struct run_config source = {0};
    char *prefix = NULL, *file = NULL;
    int rc = 0;

    if (policy_find_prefix(&prefix, a, ctx, NULL) == 0)
        file = policy_config_beside(prefix);
    if (file != NULL && run_config_read(&source, file, NULL, NULL) == 0)
        from = agent_of(&source, prefix);
    if (from != NULL && from->command != NULL) {
        const int samples = agent_setting(a, "choose") > 0;
        const struct algorithm_info *info = from->settings.of;

        rc = check_trust(file, err);
        if (rc == 0)
            take_section(a, from, prefix, samples, arena);
        if (rc == 0 && !search->no_start)
            rc = describe_program(NULL, a, arena, &info, err);
        if (rc == 0)
            agent_section_take_as(a, info->as_policy, arena);
    }
    run_config_done(&source);
    free(file);
    free(prefix);
    return rc;
}
