#include "supervisor/begin/run_metrics.h"

#include "common/config/algorithms.h"
#include "common/config/evaluation_rules.h"
#include "common/config/run_length.h"
#include "common/config/yaml_tree.h"
#include "common/mem/xmalloc.h"
#include "supervisor/rollout/rollout.h"
#include "supervisor/rollout/sharing.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Declares what each process reports, as its algorithm says. */
static void declare_scalars(struct metrics *m, const struct run_config *c,
                            const struct env_spec *spec, const struct sharing *sharing,
                            int central)
{
    const size_t n = spec->n_agents;

    for (size_t a = 0; a < n; a++)
        metrics_declare(m, a, algorithm_of(&c->agents[a])->scalars,
                        sharing->group_of[a] == SHARING_NONE
                            ? SCALAR_BY_AGENT | SCALAR_BY_STEP
                            : SCALAR_BY_AGENT);
    for (size_t a = 0; central && a < n; a++)
        if (algorithm_of(&c->agents[a])->central) {
            metrics_declare(m, n, algorithm_of(&c->agents[a])->scalars,
                            SCALAR_BY_CENTRAL);
            break;
        }
    for (size_t g = 0; g < sharing->n_groups; g++) {
        const struct agent_config *first = &c->agents[sharing->groups[g].first];

        metrics_declare(m, n + (size_t)(central != 0) + g, algorithm_of(first)->scalars,
                        SCALAR_BY_STEP);
    }
}

int run_metrics_new(struct metrics **ret, const struct run_config *c,
                    const struct env_spec *spec, struct err *err)
{
    const int central = rollout_needs_central(c);
    const char **names, **teams;
    struct sharing sharing;
    const int rc = sharing_init(&sharing, c, spec, NULL, err);

    if (rc < 0)
        return rc;
    names = xcalloc(spec->n_agents, sizeof(*names));
    teams = xcalloc(spec->n_agents, sizeof(*teams));
    for (size_t i = 0; i < spec->n_agents; i++) {
        names[i] = spec->agents[i].name;
        teams[i] = spec->agents[i].team;
    }
    *ret = metrics_new(names, teams, spec->n_agents, central, uv_hrtime());
    for (size_t g = 0; g < sharing.n_groups; g++)
        metrics_add_process(*ret, sharing.groups[g].ps);
    metrics_declare_env(*ret, spec->metrics, spec->n_metrics);
    declare_scalars(*ret, c, spec, &sharing, central);
    sharing_done(&sharing);
    free(names);
    free(teams);
    return 0;
}

int run_metrics_check_column(const struct metrics *m, const char *column,
                             const struct err_place *at, struct err *err)
{
    const size_t n = metrics_fixed_count(m);
    const char **columns = xcalloc(n + 1, sizeof(*columns));
    size_t i = 0;
    int rc = 0;

    for (size_t k = 0; k < n; k++)
        columns[k] = metrics_name(m, k);
    while (i < n && strcmp(columns[i], column) != 0)
        i++;
    if (i == n) {
        rc = err_set_at(err, ERR_CONFIG, at, "progress.csv will have no column '%s'",
                        column);
        (void)yaml_add_nearest(err, column, columns, n);
    }
    free(columns);
    return rc;
}

static int check_evaluated(const struct run_config *c, const struct err_place *at,
                           struct err *err)
{
    const int64_t every = c->evaluation.every_env_steps;
    const int64_t length = run_length_last(c).env_steps;

    if (strcmp(c->env.id, "none") == 0)
        return err_set_at(
            err, ERR_CONFIG, at,
            "without an environment (env.id: none) there are no evaluations");
    if (every == 0)
        return err_set_at(err, ERR_CONFIG, at,
                          "the run is never evaluated: evaluation.every_env_steps is 0");
    if (length > 0 && every > length)
        return err_set_at(err, ERR_CONFIG, at,
                          "the run ends at step %" PRId64
                          ", before its first evaluation: evaluation.every_env_steps is "
                          "%" PRId64,
                          length, every);
    return 0;
}

struct checking {
    const struct metrics *metrics;
    const struct run_config *config;
    int is_new;
};

static int check_rule(void *ctx, const char *metric, const char *path, struct err *err)
{
    const struct checking *x = ctx;
    const struct err_place at = {.key = path};
    const int rc = x->is_new ? check_evaluated(x->config, &at, err) : 0;

    return rc < 0 ? rc : run_metrics_check_column(x->metrics, metric, &at, err);
}

int run_metrics_check_rules(const struct metrics *m, const struct run_config *config,
                            int is_new, struct err *err)
{
    struct checking x = {m, config, is_new};

    return evaluation_rules_each(config, check_rule, &x, err);
}
