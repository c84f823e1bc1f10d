#include "supervisor/begin/first_weights.h"

#include "common/config/algorithms.h"
#include "common/config/yaml_tree.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/ask/ask.h"
#include "supervisor/begin/agent_specs.h"
#include "supervisor/begin/restore.h"
#include "supervisor/env/env.h"
#include "supervisor/proc/binaries.h"
#include "supervisor/rollout/rollout.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the agents' variables ---- */

void first_variables_begin(struct first_variables *v, size_t n_agents)
{
    first_variables_done(v);
    v->tables = ARENA_ARRAY(&v->arena, struct first_table, n_agents);
    memset(v->tables, 0, n_agents * sizeof(*v->tables));
    v->n = n_agents;
}

void first_variables_done(struct first_variables *v)
{
    arena_done(&v->arena);
    *v = (struct first_variables){0};
}

/* [name, dtype, [dims], offset, collection] */
static int read_variable(struct first_variable *ret, const msgpack_object *o,
                         struct arena *arena)
{
    const msgpack_object *item = o->via.array.ptr, *dims;

    if (o->type != MSGPACK_OBJECT_ARRAY || o->via.array.size < 3 ||
        item[0].type != MSGPACK_OBJECT_STR ||
        item[1].type != MSGPACK_OBJECT_POSITIVE_INTEGER ||
        item[2].type != MSGPACK_OBJECT_ARRAY || item[2].via.array.size > SHAPE_MAX_RANK)
        return 0;
    dims = item[2].via.array.ptr;
    *ret = (struct first_variable){
        .name =
            arena_printf(arena, "%.*s", (int)item[0].via.str.size, item[0].via.str.ptr),
        .dtype = (enum dtype)item[1].via.u64,
        .shape = {.rank = (int)item[2].via.array.size}};
    for (int d = 0; d < ret->shape.rank; d++) {
        if (dims[d].type != MSGPACK_OBJECT_POSITIVE_INTEGER ||
            dims[d].via.u64 > INT64_MAX)
            return 0;
        ret->shape.dim[d] = dims[d].via.i64;
    }
    return 1;
}

void first_variables_take(struct first_variables *v, size_t agent, const char *name,
                          const msgpack_object *answer)
{
    const msgpack_object *list = NULL;
    struct first_variable *own;
    size_t n = 0;

    if (msg_get_array(answer, "variables", &list, NULL) < 0 || list == NULL)
        return;
    own = ARENA_ARRAY(&v->arena, struct first_variable, list->via.array.size + 1);
    while (n < list->via.array.size &&
           read_variable(&own[n], &list->via.array.ptr[n], &v->arena))
        n++;
    if (n == list->via.array.size)
        v->tables[agent] = (struct first_table){arena_strdup(&v->arena, name), own, n};
}

void first_variables_repeat(struct first_variables *v, size_t agent)
{
    v->tables[agent] = v->tables[agent - 1];
}

/* ---- whether they have these values ---- */

/* What follows an agent's name, if it is a whole part of a variable's name but for a number,
 * agent_0/ or agent_0_1/; NULL: it is something else. */
static const char *after_agent(const char *name, const char *agent)
{
    const char *after = text_after(name, agent), *end = after;

    if (after != NULL && *after == '_')
        end += 1 + strspn(after + 1, "0123456789");
    return after != NULL && *end == '/' ? after : NULL;
}

/* Whether two names differ only in the agents whose they are, which may stand in any place:
 * agent_0/agent_0/p_func/weights/Adam. */
static int is_same_name(const char *a, const char *agent_a, const char *b,
                        const char *agent_b)
{
    int begins = 1; /* a part of the name */

    for (;; a++, b++) {
        const char *after_a = begins ? after_agent(a, agent_a) : NULL;
        const char *after_b = begins ? after_agent(b, agent_b) : NULL;

        if (after_a != NULL && after_b != NULL) {
            a = after_a;
            b = after_b;
        }
        if (*a != *b || *a == '\0')
            return *a == *b;
        begins = *a == '/';
    }
}

static int has_variable(const struct first_table *t, const char *agent, const char *name,
                        const struct tensor *value)
{
    for (size_t i = 0; i < t->n; i++)
        if (is_same_name(t->list[i].name, t->owner, name, agent))
            return t->list[i].dtype == value->dtype &&
                   shape_equal(&t->list[i].shape, &value->shape);
    return 0;
}

static int fits(const struct first_variables *v, size_t agent, const char *name,
                const struct weights *weights)
{
    const struct checkpoint_values *values = NULL;

    if (v == NULL || agent >= v->n || v->tables[agent].n == 0 ||
        weights_of(weights, name, &values, NULL) < 0)
        return 0;
    for (size_t i = 0; i < values->n; i++)
        if (!has_variable(&v->tables[agent], name, values->names[i], &values->tensors[i]))
            return 0;
    return 1;
}

/* ---- processes ---- */

struct first {
    const struct run_config *config;
    const struct weights *weights; /* NULL: the values of frozen agents */
    const struct policies *policies;
    const struct env_spec *spec;
    size_t *of; /* [n] the run's process that each of those started here is */
    size_t n;
    struct ask *ask;
};

static void pack_first(void *ctx, size_t process, int restored, struct msg_out *o)
{
    const struct first *x = ctx;
    const size_t agent = x->of[process];

    rollout_pack_configure(x->config, x->spec, agent, restored,
                           policies_of(x->policies, agent), o);
}

static void on_restored(void *ctx)
{
    ask_done(((struct first *)ctx)->ask);
}

static int values_of(void *ctx, size_t process, const char *name,
                     const struct checkpoint_values **ret, struct err *err)
{
    const struct first *x = ctx;

    if (x->weights != NULL)
        return weights_of(x->weights, name, ret, err);
    *ret = policies_values(x->policies, x->of[process]);
    return 0;
}

/* err->from_peer: the processes answer that the values do not fit. */
static int try_weights(struct first *x, const struct agent_spec *specs, int fd,
                       struct err *err)
{
    const struct ask_args args = {
        .agent_exe_fd = fd, .specs = specs, .n = x->n, .ctx = x};
    struct restore *restore = NULL;
    int rc = ask_open(&x->ask, &args, err);

    if (rc == 0)
        rc = restore_start(&restore, ask_agents(x->ask), values_of, 0, on_restored, x,
                           err);
    if (rc == 0)
        rc = ask_wait(x->ask, err);
    ask_close(x->ask);
    restore_free(restore);
    return rc;
}

/* Those whose weights are not known to fit. The central process and the ps, which have no
 * agent_config, learn. */
static int is_to_ask(const struct first *x, size_t i, const char *name,
                     const struct first_variables *variables)
{
    const struct run_config *c = x->config;

    if (x->weights == NULL)
        return policies_values(x->policies, i) != NULL;
    return i >= c->n_agents ||
           (!algorithm_of(&c->agents[i])->fixed && !fits(variables, i, name, x->weights));
}

static int ask_chosen(struct first *x, const struct agent_spec *specs, struct err *err)
{
    struct binaries bin;
    int fd, rc = binaries_find(&bin, err);

    if (rc < 0 || (rc = fd = binaries_open_agent(&bin, err)) < 0)
        return rc;
    rc = try_weights(x, specs, fd, err);
    (void)close(fd);
    return rc;
}

static int check(struct first *x, const struct first_variables *variables,
                 struct err *err)
{
    const struct run_config *c = x->config;
    struct agent_specs specs = {0};
    struct agent_spec *chosen = NULL;
    struct vec_env *env = NULL;
    int rc = vec_env_new(&env, &c->env, c->run.seed, ENV_DRAWS_TRAINING, 1, err);

    if (rc < 0)
        return rc;
    x->spec = vec_env_spec(env);
    rc = agent_specs_init(&specs, c, x->spec, rollout_needs_central(c), 1, NULL,
                          pack_first, err);
    if (rc == 0) {
        chosen = xcalloc(specs.n + 1, sizeof(*chosen));
        x->of = xcalloc(specs.n + 1, sizeof(*x->of));
        for (size_t i = 0; i < specs.n; i++)
            if (is_to_ask(x, i, specs.spec[i].name, variables)) {
                chosen[x->n] = specs.spec[i];
                x->of[x->n++] = i;
            }
        rc = x->n > 0 ? ask_chosen(x, chosen, err) : 0;
    }
    free(chosen);
    free(x->of);
    agent_specs_done(&specs);
    vec_env_free(env);
    return rc;
}

int first_weights_check(const struct run_config *c, const struct policies *policies,
                        const struct weights *weights,
                        const struct first_variables *variables, struct err *err)
{
    struct first x = {.config = c, .policies = policies, .weights = weights};
    struct err why = {0};
    const int rc = check(&x, variables, &why);

    if (rc < 0 && (why.from_peer || rc == ERR_NOT_FOUND))
        return err_set(err, ERR_CONFIG,
                       "the weights of %s/%" PRIu64 " do not fit this run: %s",
                       weights_dir(weights), weights_step(weights), why.msg);
    return rc < 0 ? err_pass(err, &why) : 0;
}

static int has_values(const struct run_config *c, const struct policies *policies)
{
    for (size_t i = 0; i < c->n_agents; i++)
        if (policies_values(policies, i) != NULL)
            return 1;
    return 0;
}

int first_policies_check(const struct run_config *c, const struct policies *policies,
                         struct err *err)
{
    struct first x = {.config = c, .policies = policies};
    struct err why = {0};
    const int rc = has_values(c, policies) ? check(&x, NULL, &why) : 0;

    if (rc == 0)
        return 0;
    if (!why.from_peer)
        return err_pass(err, &why);
    for (size_t i = 0; i < c->n_agents; i++) {
        char path[AGENT_NAME_MAX + 32];

        if (c->agents[i].from_at == NULL || strcmp(c->agents[i].name, why.agent) != 0)
            continue;
        (void)snprintf(path, sizeof(path), "agents.%s.settings.from", c->agents[i].name);
        return yaml_fail(c->agents[i].from_at, path, err,
                         "the weights do not fit this run: %s", err_cause(&why));
    }
    return err_set(err, ERR_CONFIG, "a frozen agent's weights do not fit this run: %s",
                   why.msg);
}
