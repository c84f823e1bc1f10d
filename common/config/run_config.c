#include "common/config/run_config.h"

#include "common/config/algorithms.h"
#include "common/config/run_schema.h"
#include "common/config/schema_internal.h"
#include "common/config/yaml_tree.h"
#include "common/err/check.h"
#include "common/io/beneath.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_ENV_STEPS 625000
#define WINDOW_STEPS      25 /* of a copy between updates, where episodes have no limit */

struct loader {
    struct run_config *c;
    const struct yaml_node *root;
    const struct config_options *options;
    int steps_given; /* checkpoint.every_env_steps is no default */
    int is_new;      /* read from a file, not values over an existing configuration */
    struct err *err;
};

static int without_env(const struct run_config *c)
{
    return strcmp(c->env.id, "none") == 0;
}

/* The value of a key of a section, or NULL if the file does not have it. */
static const struct yaml_node *given(const struct yaml_node *map, const char *section,
                                     const char *key)
{
    return yaml_find(yaml_find(map, section), key);
}

/* ---- an agent's section ---- */

struct optimizer_default {
    const char *key;
    size_t offset;
    double by_type[OPT_ACCEPT_REJECT + 1];
};

static const struct optimizer_default optimizer_defaults[] = {
    {"beta1", offsetof(struct optimizer_config, beta1), {[OPT_ADAM] = 0.9}},
    {"beta2", offsetof(struct optimizer_config, beta2), {[OPT_ADAM] = 0.999}},
    {"epsilon",
     offsetof(struct optimizer_config, epsilon),
     {[OPT_ADAM] = 1e-8, [OPT_RMSPROP] = 1e-10}},
    {"momentum",
     offsetof(struct optimizer_config, momentum),
     {[OPT_MOMENTUM] = 0.9, [OPT_RMSPROP] = 0.0}},
    {"decay", offsetof(struct optimizer_config, decay), {[OPT_RMSPROP] = 0.9}},
};

enum {
    N_OPTIMIZER_DEFAULTS = sizeof(optimizer_defaults) / sizeof(optimizer_defaults[0])
};

static void resolve_tries(struct optimizer_config *o, const struct optimizer_config *base)
{
    if (o->type != OPT_ACCEPT_REJECT)
        o->tries = 0;
    else if (o->tries == 0)
        o->tries = base->type == o->type && base->tries > 0 ? base->tries : 1;
}

/* What was not given comes from `base` (a network's optimizer: from the agent's) where
 * that is of the same type, else from the type. What the type does not have is 0. */
static void resolve_optimizer(struct optimizer_config *o,
                              const struct optimizer_config *base)
{
    if ((int)o->type == FIELD_UNSET_ENUM)
        o->type = base->type;
    if (field_is_unset(o->learning_rate.from))
        o->learning_rate = base->learning_rate;
    for (int i = 0; i < N_OPTIMIZER_DEFAULTS; i++) {
        const struct optimizer_default *d = &optimizer_defaults[i];
        double *v = (double *)(void *)((char *)o + d->offset);

        if (!optimizer_has(o->type, d->key))
            *v = 0.0;
        else if (field_is_unset(*v) && base != o && base->type == o->type)
            *v = *(const double *)(const void *)((const char *)base + d->offset);
        else if (field_is_unset(*v))
            *v = d->by_type[o->type];
    }
    resolve_tries(o, base);
}

static void resolve_network(struct network_config *n, const struct optimizer_config *base)
{
    if (n->has_optimizer)
        resolve_optimizer(&n->optimizer, base);
    else
        n->optimizer = (struct optimizer_config){0};
}

/* From here on nothing is "unset". */
static void resolve_agent(struct agent_config *a)
{
    const int own_critic = algorithm_find(a->algorithm)->own_critic;

    resolve_optimizer(&a->optimizer, &a->optimizer);
    resolve_network(&a->actor, &a->optimizer);
    resolve_network(&a->critic, &a->optimizer);
    if (own_critic)
        a->critic.input = CRITIC_OWN;
    else if ((int)a->critic.input == FIELD_UNSET_ENUM)
        a->critic.input = CRITIC_ALL;
}

static int check_algorithm(const struct yaml_node *at, const char *path,
                           const struct agent_config *a, struct err *err)
{
    const char *names[64];
    size_t n = 0;

    if (algorithm_find(a->algorithm) != NULL)
        return 0;
    for (; algorithm_at(n) != NULL; n++) {
        CHECK(n < sizeof(names) / sizeof(names[0]));
        names[n] = algorithm_at(n)->name;
    }
    return schema_fail_choice(at, path, a->algorithm, names, n, err);
}

static int check_settings(const struct yaml_node *settings, const char *path,
                          const struct agent_config *a, struct err *err)
{
    const struct algorithm_info *info = algorithm_find(a->algorithm);

    for (size_t i = 0; settings != NULL && i < settings->n; i++) {
        const struct yaml_node *n = settings->child[i];

        if (!algorithm_accepts(info, n->key))
            return yaml_fail(n, path, err, "%s is no setting of %s", n->key, info->name);
    }
    return 0;
}

static int check_optimizer(const struct yaml_node *optimizer, const char *path,
                           enum optimizer_type type, struct err *err)
{
    for (size_t i = 0; optimizer != NULL && i < optimizer->n; i++) {
        const struct yaml_node *n = optimizer->child[i];

        if (!optimizer_has(type, n->key))
            return yaml_fail(n, path, err, "%s is no setting of the optimizer %s", n->key,
                             optimizer_names[type]);
    }
    return 0;
}

static int check_network(const struct yaml_node *section, const char *name,
                         const char *path, const struct network_config *n,
                         const struct agent_config *a, struct err *err)
{
    char where[128];
    enum optimizer_type type = n->optimizer.type;

    if (!n->has_optimizer || (int)type == FIELD_UNSET_ENUM)
        type = a->optimizer.type;
    (void)snprintf(where, sizeof(where), "%s%s.optimizer", path, name);
    return check_optimizer(given(section, name, "optimizer"), where, type, err);
}

/* What the tables cannot say of one section, given what it amounts to together with the
 * defaults. `path` is empty or ends with a dot. */
static int check_section(const struct yaml_node *section, const char *path,
                         const struct agent_config *a, struct err *err)
{
    const struct yaml_node *algorithm = yaml_find(section, "algorithm");
    const struct yaml_node *input = given(section, "critic", "input");
    char where[128];
    int rc;

    (void)snprintf(where, sizeof(where), "%salgorithm", path);
    rc = check_algorithm(algorithm != NULL ? algorithm : section, where, a, err);
    if (rc < 0)
        return rc;
    (void)snprintf(where, sizeof(where), "%scritic.input", path);
    if (input != NULL && a->critic.input != CRITIC_OWN &&
        algorithm_find(a->algorithm)->own_critic)
        return yaml_fail(input, where, err, "found 'all', expected own with %s",
                         a->algorithm);
    (void)snprintf(where, sizeof(where), "%ssettings", path);
    rc = check_settings(yaml_find(section, "settings"), where, a, err);
    (void)snprintf(where, sizeof(where), "%soptimizer", path);
    if (rc == 0)
        rc = check_optimizer(yaml_find(section, "optimizer"), where, a->optimizer.type,
                             err);
    if (rc == 0)
        rc = check_network(section, "actor", path, &a->actor, a, err);
    return rc < 0 ? rc : check_network(section, "critic", path, &a->critic, a, err);
}

static int read_section(const struct yaml_node *section, const char *path,
                        struct agent_config *a, struct arena *arena, struct err *err)
{
    char prefix[AGENT_NAME_MAX + 16];
    int rc = schema_read(&agent_schema, section, path, a, arena, err);

    (void)snprintf(prefix, sizeof(prefix), "%s%s", path, *path != '\0' ? "." : "");
    return rc < 0 ? rc : check_section(section, prefix, a, err);
}

/* ---- the run ---- */

/* Of two keys that say the same thing, one may be given. */
static int fail_both(const struct loader *l, const char *section, const char *a,
                     const char *b)
{
    const struct yaml_node *at = given(l->root, section, b);

    if (at == NULL)
        at = given(l->root, section, a);
    return yaml_fail(at != NULL ? at : l->root, section, l->err,
                     "%s and %s are both given, expected one", a, b);
}

static int settle_lengths(const struct loader *l)
{
    struct run_config *c = l->c;

    if (c->run.env_steps > 0 && c->run.episodes > 0)
        return fail_both(l, "run", "env_steps", "episodes");
    if (c->run.env_steps == 0 && c->run.episodes == 0 && !without_env(c))
        c->run.env_steps = DEFAULT_ENV_STEPS;
    if (c->checkpoint.every_seconds > 0.0) {
        if (c->checkpoint.every_env_steps > 0 && l->steps_given)
            return fail_both(l, "checkpoint", "every_env_steps", "every_seconds");
        c->checkpoint.every_env_steps = 0;
    }
    return 0;
}

int run_config_check_lengths(const struct run_config *c, struct err *err)
{
    if (c->run.env_steps > 0 && c->run.episodes > 0)
        return err_set(err, ERR_CONFIG,
                       "run: env_steps and episodes are both given, expected one");
    if (c->run.env_steps == 0 && c->run.episodes == 0 && !without_env(c))
        return err_set(err, ERR_CONFIG,
                       "run: neither env_steps nor episodes is given, expected one");
    if (c->checkpoint.every_seconds > 0.0 && c->checkpoint.every_env_steps > 0)
        return err_set(err, ERR_CONFIG,
                       "checkpoint: every_env_steps and every_seconds are both given, "
                       "expected one");
    return 0;
}

static int check_at_most_capacity(struct loader *l, const char *key, int64_t value)
{
    const struct yaml_node *at = given(l->root, "experience", key);
    char path[64];

    if (value <= l->c->experience.capacity)
        return 0;
    if (at == NULL) /* then it was the capacity that was given */
        at = given(l->root, "experience", "capacity");
    (void)snprintf(path, sizeof(path), "experience.%s", key);
    return yaml_fail(at, path, l->err,
                     "found %lld, expected at most experience.capacity, %lld",
                     (long long)value, (long long)l->c->experience.capacity);
}

static int check_run(struct loader *l)
{
    struct run_config *c = l->c;
    int rc;

    if ((rc = env_config_settle(c, l->root, l->err)) < 0)
        return rc;
    if (c->run.name == NULL)
        c->run.name = c->env.id;
    l->steps_given = given(l->root, "checkpoint", "every_env_steps") != NULL;
    return settle_lengths(l);
}

/* ---- what updates learn from ---- */

/* Updates from the newest rows of every copy take all that were stored since the last: no
 * batch is drawn, and none has to wait. */
static int check_window(struct loader *l)
{
    const struct run_config *c = l->c;
    static const char *const unused[] = {"batch_size", "warmup"};
    const struct yaml_node *at = given(l->root, "experience", "update_every");

    for (size_t i = 0; i < 2; i++) {
        const struct yaml_node *other = given(l->root, "experience", unused[i]);
        char path[64];

        (void)snprintf(path, sizeof(path), "experience.%s", unused[i]);
        if (other != NULL)
            return yaml_fail(other, path, l->err,
                             "not used by %s, which learns from all rows of "
                             "experience.update_every; expected no such key",
                             c->agents[0].algorithm);
    }
    if (at == NULL)
        at = l->root;
    if (c->experience.update_every % c->env.copies != 0)
        return yaml_fail(at, "experience.update_every", l->err,
                         "found %lld, expected a multiple of env.copies, %lld, because "
                         "%s learns from the newest rows of every copy",
                         (long long)c->experience.update_every, (long long)c->env.copies,
                         c->agents[0].algorithm);
    return check_at_most_capacity(l, "update_every", c->experience.update_every);
}

static int check_experience(struct loader *l)
{
    struct run_config *c = l->c;
    int rc;

    if (run_config_rows(c) == ROWS_WINDOW) {
        if (l->is_new && given(l->root, "experience", "update_every") == NULL)
            c->experience.update_every =
                c->env.copies * (c->env.max_steps > 0 ? c->env.max_steps : WINDOW_STEPS);
        return check_window(l);
    }
    rc = check_at_most_capacity(l, "batch_size", c->experience.batch_size);
    return rc < 0 ? rc : check_at_most_capacity(l, "warmup", c->experience.warmup);
}

/* ---- its agents ---- */

static int check_agent_keys(struct loader *l, const struct yaml_node *agents,
                            const char *const *names, size_t n)
{
    for (size_t i = 0; i < agents->n; i++) {
        const struct yaml_node *a = agents->child[i];
        size_t k = 0;

        while (k < n && strcmp(names[k], a->key) != 0)
            k++;
        if (k == n)
            return schema_fail_choice(a, "agents", a->key, names, n, l->err);
    }
    return 0;
}

/* Without an environment to ask, the agents are those that the file names. */
static int names_from_file(struct loader *l, const struct yaml_node *agents,
                           const char *const **ret, size_t *ret_n)
{
    const char **names = ARENA_ARRAY(&l->c->arena, const char *, agents->n);

    for (size_t i = 0; i < agents->n; i++) {
        const struct yaml_node *a = agents->child[i];

        if (!schema_is_name(a->key))
            return yaml_fail(a, "agents", l->err, "found '%.60s', expected %s", a->key,
                             SCHEMA_NAME_EXPECTED);
        names[i] = a->key;
    }
    *ret = names;
    *ret_n = agents->n;
    return 0;
}

static int names_from_env(struct loader *l, const struct yaml_node *agents,
                          const char *const **ret, size_t *ret_n)
{
    const struct env_config *env = &l->c->env;
    const struct yaml_node *at;
    struct err why = {0};
    int n = l->options->env_names(l->options->env_ctx, env, ret, &why);
    char key[ERR_NAME_BYTES];

    if (n >= 0) {
        *ret_n = (size_t)n;
        return check_agent_keys(l, agents, *ret, *ret_n);
    }
    if (why.code == ERR_INTERRUPTED)
        return err_pass(l->err, &why);
    (void)snprintf(key, sizeof(key), "%s", why.key);
    if (env_config_is_foreign(env))
        (void)snprintf(key, sizeof(key), "env.%.64s", env->id);
    else if (*why.file != '\0' || *key == '\0')
        return err_pass(l->err, &why);
    at = yaml_find_path(l->root, key);
    return yaml_fail(at != NULL ? at : l->root, key, l->err, "%s",
                     env_config_is_foreign(env) ? why.msg : err_cause(&why));
}

static int check_soft(struct loader *l, const struct yaml_node *section,
                      const struct agent_config *a)
{
    const struct yaml_node *at = given(section, "settings", "execute");
    char path[AGENT_NAME_MAX + 32];

    if (a->settings.execute != EXECUTE_SOFT || without_env(l->c) ||
        l->c->env.actions != ENV_ACTIONS_DISCRETE)
        return 0;
    (void)snprintf(path, sizeof(path), "agents.%s.settings.execute", a->name);
    if (at == NULL) {
        at = given(yaml_find(l->root, "defaults"), "settings", "execute");
        (void)snprintf(path, sizeof(path), "defaults.settings.execute");
    }
    return yaml_fail(at != NULL ? at : l->root, path, l->err,
                     "found 'soft', expected hard with env.actions: discrete (soft "
                     "vectors need env.actions: continuous)");
}

static int check_sizes(struct loader *l, const struct yaml_node *section,
                       const struct agent_config *a)
{
    const struct yaml_node *at = section != NULL ? section : l->root;
    char path[AGENT_NAME_MAX + 16];

    (void)snprintf(path, sizeof(path), "agents.%s", a->name);
    if (without_env(l->c) && (a->observation == 0 || a->action == 0))
        return yaml_fail(at, path, l->err,
                         "without an environment (env.id: none) expected {observation: "
                         "WIDTH, action: WIDTH}");
    if (!without_env(l->c) && (a->observation != 0 || a->action != 0))
        return yaml_fail(at, path, l->err,
                         "observation and action are given by the environment, expected "
                         "neither");
    return 0;
}

static int check_needs(struct loader *l, const struct yaml_node *section,
                       const struct agent_config *a)
{
    const struct algorithm_info *info = algorithm_find(a->algorithm);
    const struct yaml_node *at = yaml_find(section, "algorithm");
    char path[AGENT_NAME_MAX + 32], list[LIST_MAX_BYTES];

    if (info->without_env ? without_env(l->c) : algorithm_plays_in(info, l->c->env.id))
        return 0;
    (void)snprintf(path, sizeof(path), "agents.%s.algorithm", a->name);
    if (at == NULL) {
        at = given(l->root, "defaults", "algorithm");
        (void)snprintf(path, sizeof(path), "defaults.algorithm");
    }
    if (info->without_env)
        return yaml_fail(at, path, l->err,
                         "%s has no policy, expected env.id: none or another algorithm",
                         a->algorithm);
    schema_join_choices(list, sizeof(list), info->envs, schema_count_names(info->envs));
    return yaml_fail(at, path, l->err, "%s has no rules for %s, expected env.id: %s",
                     a->algorithm, l->c->env.id, list);
}

/* The path of a schedule among the section's values; 0: all of them are constants. */
static int find_schedule(const struct schema *s, const char *path, const void *root,
                         const void *base, char ret[PATH_MAX_BYTES])
{
    for (size_t i = 0; i < s->n; i++) {
        const struct field *f = &s->fields[i];
        const void *value = (const char *)base + f->offset;
        char child[PATH_MAX_BYTES];

        if (!schema_is_given(s, root, base, f))
            continue;
        schema_join_path(child, path, f->key);
        if (f->schema != NULL && find_schedule(f->schema, child, root, value, ret))
            return 1;
        if (f->type == FIELD_SCHEDULE && ((const struct ramp *)value)->over > 0) {
            memcpy(ret, child, PATH_MAX_BYTES);
            return 1;
        }
    }
    return 0;
}

static int check_schedules(struct loader *l, const struct yaml_node *section,
                           const struct agent_config *a)
{
    char prefix[AGENT_NAME_MAX + 16], path[PATH_MAX_BYTES];

    (void)snprintf(prefix, sizeof(prefix), "agents.%s", a->name);
    if (!without_env(l->c) || !find_schedule(&agent_schema, prefix, a, a, path))
        return 0;
    return yaml_fail(section != NULL ? section : l->root, path, l->err,
                     "found a schedule, expected a number: without an environment "
                     "(env.id: none) there are no steps to follow");
}

static int check_source(struct loader *l, const struct yaml_node *section,
                        struct agent_config *a)
{
    const struct yaml_node *at = section != NULL ? section : l->root;
    const struct yaml_node *from = given(section, "settings", "from");
    char path[AGENT_NAME_MAX + 32];

    (void)snprintf(path, sizeof(path), "agents.%s.settings", a->name);
    if (!algorithm_accepts(algorithm_find(a->algorithm), "from"))
        return 0;
    if (a->settings.from == NULL)
        return yaml_fail(at, path, l->err,
                         "%s acts as a checkpoint does, expected from: RUN, RUN@STEP, or "
                         "a checkpoint's prefix or folder",
                         a->algorithm);
    if ((a->settings.observation == NULL) != (a->settings.action == NULL))
        return yaml_fail(at, path, l->err,
                         "observation and action name two tensors of one graph, expected "
                         "both or neither");
    if (from == NULL)
        from = given(yaml_find(l->root, "defaults"), "settings", "from");
    if (from != NULL)
        a->settings.from_at = yaml_tree_copy(from, &l->c->arena);
    return 0;
}

/* The algorithm's own defaults, where neither section has the key. */
static void default_values(const struct yaml_node *section,
                           const struct yaml_node *defaults, struct agent_config *a)
{
    const struct algorithm_default *d = algorithm_find(a->algorithm)->defaults;

    for (; d != NULL && d->path != NULL; d++) {
        struct schema_place at;
        struct err err;

        if (yaml_find_path(section, d->path) != NULL ||
            yaml_find_path(defaults, d->path) != NULL)
            continue;
        CHECK(schema_locate(&agent_schema, d->path, a, &at) == 0, "%s", d->path);
        CHECK(schema_read_text(at.field, d->text, d->path, at.value, &err) == 0, "%s",
              err.msg);
    }
}

/* An algorithm's own network, where neither section says another. */
static void default_critic(const struct yaml_node *section,
                           const struct yaml_node *defaults, struct agent_config *a)
{
    const struct network_config *own = algorithm_find(a->algorithm)->critic;
    const struct yaml_node *said[] = {yaml_find(section, "critic"),
                                      yaml_find(defaults, "critic")};
    struct network_config n = a->critic;

    if (own == NULL)
        return;
    n.hidden = own->hidden;
    n.activation = own->activation;
    n.after_action = own->after_action;
    n.output_init = own->output_init;
    for (int i = 0; i < 2; i++) {
        if (yaml_find(said[i], "hidden") != NULL)
            n.hidden = a->critic.hidden;
        if (yaml_find(said[i], "activation") != NULL)
            n.activation = a->critic.activation;
        if (yaml_find(said[i], "after_action") != NULL)
            n.after_action = a->critic.after_action;
        if (yaml_find(said[i], "output_init") != NULL)
            n.output_init = a->critic.output_init;
    }
    a->critic = n;
}

static int read_agent(struct loader *l, const struct yaml_node *section, const char *name,
                      struct agent_config *a)
{
    char path[AGENT_NAME_MAX + 16];
    int rc = 0;

    *a = l->c->defaults;
    a->name = arena_strdup(&l->c->arena, name);
    (void)snprintf(path, sizeof(path), "agents.%s", name);
    if (section != NULL)
        rc = read_section(section, path, a, &l->c->arena, l->err);
    if (rc < 0)
        return rc;
    default_values(section, yaml_find(l->root, "defaults"), a);
    default_critic(section, yaml_find(l->root, "defaults"), a);
    resolve_agent(a);
    rc = check_needs(l, section, a);
    if (rc == 0)
        rc = check_source(l, section, a);
    if (rc == 0)
        rc = check_schedules(l, section, a);
    if (rc == 0)
        rc = check_soft(l, section, a);
    return rc < 0 ? rc : check_sizes(l, section, a);
}

static int read_agents(struct loader *l)
{
    static const struct yaml_node nobody = {.kind = YAML_MAP};
    const struct yaml_node *agents = yaml_find(l->root, "agents");
    const char *const *names = NULL;
    size_t n = 0;
    int rc;

    if (agents == NULL || yaml_is_null(agents))
        agents = &nobody;
    if (agents->kind != YAML_MAP)
        return yaml_fail(agents, "agents", l->err, "expected a map of agents by name");
    if (!without_env(l->c) && l->options != NULL && l->options->env_names != NULL)
        rc = names_from_env(l, agents, &names, &n);
    else
        rc = names_from_file(l, agents, &names, &n);
    if (rc < 0)
        return rc;
    if ((n == 0 && without_env(l->c)) || n > AGENT_MAX_COUNT)
        return yaml_fail(agents != &nobody ? agents : l->root, "agents", l->err,
                         "found %zu agents, expected 1 to %d", n, AGENT_MAX_COUNT);
    l->c->agents = ARENA_ARRAY(&l->c->arena, struct agent_config, n);
    for (size_t i = 0; i < n; i++) {
        rc = read_agent(l, yaml_find(agents, names[i]), names[i], &l->c->agents[i]);
        if (rc < 0)
            return rc;
    }
    l->c->n_agents = n;
    if (without_env(l->c)) {
        l->c->env.agents = l->c->agents;
        l->c->env.n_agents = n;
    }
    return 0;
}

static int load(struct loader *l)
{
    const struct yaml_node *defaults = yaml_find(l->root, "defaults");
    struct run_config *c = l->c;
    int rc;

    schema_defaults(&run_schema, c, &c->arena);
    schema_defaults(&agent_schema, &c->defaults, &c->arena);
    rc = schema_read(&run_schema, l->root, "", c, &c->arena, l->err);
    if (rc == 0)
        rc = check_run(l);
    if (rc == 0 && defaults != NULL)
        rc = read_section(defaults, "defaults", &c->defaults, &c->arena, l->err);
    if (rc == 0)
        rc = read_agents(l);
    if (rc == 0)
        rc = check_experience(l);
    if (rc == 0) {
        default_values(NULL, defaults, &c->defaults);
        default_critic(NULL, defaults, &c->defaults);
        resolve_agent(&c->defaults);
    }
    return rc < 0 ? rc : run_config_try(c, l->root, l->options, l->err);
}

static int parse(struct run_config *c, struct arena *tree, const char *text, size_t len,
                 const char *name, const struct config_options *options, struct err *err)
{
    struct yaml_node *root;
    int rc = yaml_tree_parse(&root, tree, text, len, name, 1, err);

    for (size_t i = 0; rc == 0 && options != NULL && i < options->n_set; i++)
        rc = yaml_tree_set(root, tree, options->set_is_bare ? "" : "--set ",
                           options->set[i], err);
    if (rc < 0)
        return rc;
    return load(&(struct loader){
        .c = c, .root = root, .options = options, .is_new = 1, .err = err});
}

int run_config_parse(struct run_config *ret, const char *text, size_t len,
                     const char *name, const struct config_options *options,
                     struct err *err)
{
    struct arena tree = ARENA_ZERO;
    int rc;

    *ret = (struct run_config){0};
    rc = parse(ret, &tree, text, len, name, options, err);
    arena_done(&tree);
    if (rc < 0)
        run_config_done(ret);
    return rc;
}

int run_config_read(struct run_config *ret, const char *path,
                    const struct config_options *options, struct err *err)
{
    FILE *f = beneath_fopen(path, "rbe");
    size_t cap = YAML_MAX_BYTES + 1; /* one more, so that too much is seen */
    char *text;
    size_t len;
    int rc;

    *ret = (struct run_config){0};
    if (f == NULL)
        return err_errno(err, "%.160s", path);
    text = malloc(cap);
    if (text == NULL) {
        (void)fclose(f);
        return err_set(err, ERR_NOMEM, "%.160s: no memory", path);
    }
    len = fread(text, 1, cap, f);
    if (ferror(f))
        rc = err_errno(err, "%.160s", path);
    else
        rc = run_config_parse(ret, text, len, path, options, err);
    (void)fclose(f);
    free(text);
    return rc;
}

void run_config_done(struct run_config *c)
{
    arena_done(&c->arena);
    *c = (struct run_config){0};
}

/* ---- some values over a configuration that is whole ---- */

static void copy_texts(struct agent_config *a, struct arena *arena)
{
    a->name = arena_strdup(arena, a->name);
    schema_copy_texts(&agent_schema, a, arena);
    if (a->settings.from_at != NULL)
        a->settings.from_at = yaml_tree_copy(a->settings.from_at, arena);
}

void run_config_copy(struct run_config *ret, const struct run_config *from)
{
    *ret = *from;
    ret->arena = ARENA_ZERO;
    schema_copy_texts(&run_schema, ret, &ret->arena);
    copy_texts(&ret->defaults, &ret->arena);
    ret->agents = ARENA_ARRAY(&ret->arena, struct agent_config, from->n_agents);
    for (size_t i = 0; i < from->n_agents; i++) {
        ret->agents[i] = from->agents[i];
        copy_texts(&ret->agents[i], &ret->arena);
    }
    if (from->env.agents != NULL)
        ret->env.agents = ret->agents;
}

const char *config_path_within(const char *path, const char *prefix)
{
    const size_t n = strlen(prefix);

    if (strncmp(path, prefix, n) != 0)
        return NULL;
    return path[n] == '.' ? path + n + 1 : path[n] == '\0' ? path + n : NULL;
}

/* The agent's part of a path: "" is the whole section. NULL: it is of no concern. */
static const char *within_agent(const char *path, const char *name)
{
    char prefix[AGENT_NAME_MAX + 16];

    if (strcmp(path, "agents") == 0)
        return "";
    (void)snprintf(prefix, sizeof(prefix), "agents.%s", name);
    return config_path_within(path, prefix);
}

/* What is given anew is no more as it was; of part of a list or tree the rest stays. */
static void forget(const struct schema *s, const char *path, void *base, void *from,
                   struct arena *arena)
{
    struct schema_place at, there;

    if (*path == '\0')
        schema_reset(s, base, from, from, arena);
    else if (schema_locate(s, path, base, &at) == 0 && *at.rest == '\0' &&
             at.field->type != FIELD_RAW)
        schema_reset_place(
            &at, from,
            from != NULL && schema_locate(s, path, from, &there) == 0 ? &there : NULL,
            arena);
}

static char *key_of(struct arena *arena, const char *assignment)
{
    return arena_strndup(arena, assignment, strcspn(assignment, "="));
}

/* Is a value within path[0..len) among these already? */
static int is_begun(const char *const *set, size_t n, const char *path, size_t len)
{
    while (n > 0 && (strncmp(set[n - 1], path, len) != 0 ||
                     (set[n - 1][len] != '.' && set[n - 1][len] != '=')))
        n--;
    return n > 0;
}

/* set[i], whose key is `path`: if it leads into a list or tree it changes part of that,
 * and the root gets it whole first. */
static int put_whole(const struct run_config *c, struct yaml_node *root,
                     struct arena *arena, const char *const *set, size_t i,
                     const char *path, struct err *err)
{
    struct run_config *base = (struct run_config *)(uintptr_t)c; /* only looked at */
    const char *rest = config_path_within(path, "defaults");
    struct schema_place at = {.rest = ""};
    int rc = rest != NULL ? schema_locate(&agent_schema, rest, &base->defaults, &at)
                          : schema_locate(&run_schema, path, base, &at);
    char *text;
    size_t len;

    for (size_t k = 0; k < c->n_agents; k++) {
        rest = within_agent(path, c->agents[k].name);
        if (rest != NULL)
            rc = schema_locate(&agent_schema, rest, &base->agents[k], &at);
    }
    if (rc < 0 || *at.rest == '\0' || at.field->type == FIELD_RAW ||
        schema_is_number(at.field) ||
        !schema_is_given(at.schema, c, at.section, at.field))
        return 0;
    len = (size_t)(at.rest - path) - 1;
    if (is_begun(set, i, path, len))
        return 0;
    text = schema_text_of(at.field, at.value);
    rc = yaml_tree_set(root, arena, "",
                       arena_printf(arena, "%.*s=%s", (int)len, path, text), err);
    free(text);
    return rc;
}

/* The values that are given, as a tree of their own; every agent has a map there, so that
 * a name with dots is found. */
static int collect_given(const struct run_config *from, const char *const *set, size_t n,
                         struct arena *arena, struct yaml_node *root, struct err *err)
{
    struct yaml_node *agents = ARENA_NEW(arena, struct yaml_node);
    int rc = 0;

    *root = (struct yaml_node){.kind = YAML_MAP, .place = "config.yaml"};
    *agents = (struct yaml_node){
        .kind = YAML_MAP, .place = root->place, .key = "agents", .n = from->n_agents};
    root->child = ARENA_ARRAY(arena, struct yaml_node *, 1);
    root->child[root->n++] = agents;
    agents->child = ARENA_ARRAY(arena, struct yaml_node *, from->n_agents);
    for (size_t i = 0; i < from->n_agents; i++) {
        agents->child[i] = ARENA_NEW(arena, struct yaml_node);
        *agents->child[i] = (struct yaml_node){
            .kind = YAML_MAP, .place = root->place, .key = from->agents[i].name};
    }
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = put_whole(from, root, arena, set, i, key_of(arena, set[i]), err);
        if (rc == 0)
            rc = yaml_tree_set(root, arena, "", set[i], err);
    }
    return rc;
}

/* The run's own values and the defaults. */
static int read_run_over(struct loader *l, const struct run_config *from)
{
    const struct yaml_node *defaults = yaml_find(l->root, "defaults");
    const struct yaml_node *env = yaml_find(l->root, "env");
    struct run_config *c = l->c;
    int rc = schema_read(&run_schema, l->root, "", c, &c->arena, l->err);

    if (rc == 0 && c->env.id == NULL)
        rc = yaml_fail(l->root, "env.id", l->err,
                       "not given, expected an environment's name or none");
    if (rc == 0 && env != NULL && env->kind == YAML_MAP &&
        env_config_is_foreign(&c->env) == env_config_is_foreign(&from->env))
        rc = env_config_check(c, env, l->err);
    if (rc == 0 && c->run.name == NULL)
        c->run.name = c->env.id;
    if (rc == 0)
        rc = settle_lengths(l);
    if (rc == 0 && defaults != NULL)
        rc = read_section(defaults, "defaults", &c->defaults, &c->arena, l->err);
    return rc;
}

static int read_agents_over(struct loader *l)
{
    const struct yaml_node *agents = yaml_find(l->root, "agents");
    struct run_config *c = l->c;
    const char **names = xcalloc(c->n_agents + 1, sizeof(*names));
    int rc = 0;

    for (size_t i = 0; i < c->n_agents; i++)
        names[i] = c->agents[i].name;
    if (agents != NULL && agents->kind != YAML_MAP)
        rc = yaml_fail(agents, "agents", l->err, "expected a map of agents by name");
    else if (agents != NULL)
        rc = check_agent_keys(l, agents, names, c->n_agents);
    for (size_t i = 0; i < c->n_agents && rc == 0; i++) {
        const struct yaml_node *section = yaml_find(agents, names[i]);
        char path[AGENT_NAME_MAX + 16];

        (void)snprintf(path, sizeof(path), "agents.%s", names[i]);
        if (section != NULL)
            rc = read_section(section, path, &c->agents[i], &c->arena, l->err);
        if (rc == 0) {
            resolve_agent(&c->agents[i]);
            rc = check_soft(l, section, &c->agents[i]);
        }
    }
    free(names);
    return rc;
}

/* First the run's own values and the defaults, then agents follow the defaults, then
 * their own values. */
static int assign(struct loader *l, const struct run_config *from, const char *const *set,
                  size_t n, struct arena *arena)
{
    struct run_config *c = l->c;
    int rc;

    l->steps_given = from->checkpoint.every_env_steps > 0;
    for (size_t i = 0; i < n; i++) {
        const char *path = key_of(arena, set[i]);
        const char *rest = config_path_within(path, "defaults");

        if (config_path_within("checkpoint.every_env_steps", path) != NULL)
            l->steps_given = given(l->root, "checkpoint", "every_env_steps") != NULL;
        if (rest != NULL)
            forget(&agent_schema, rest, &c->defaults, NULL, &c->arena);
        else
            forget(&run_schema, path, c, NULL, &c->arena);
    }
    rc = read_run_over(l, from);
    if (rc < 0)
        return rc;
    resolve_agent(&c->defaults);
    for (size_t k = 0; k < c->n_agents; k++) {
        struct agent_config *a = &c->agents[k];

        schema_follow(&agent_schema, &from->defaults, &c->defaults, a);
        for (size_t i = 0; i < n; i++) {
            const char *rest = within_agent(key_of(arena, set[i]), a->name);

            if (rest != NULL)
                forget(&agent_schema, rest, a, &c->defaults, &c->arena);
        }
    }
    rc = read_agents_over(l);
    return rc < 0 ? rc : check_experience(l);
}

int run_config_assign(struct run_config *ret, const struct run_config *from,
                      const char *const *set, size_t n_set, struct err *err)
{
    struct arena tree = ARENA_ZERO;
    struct yaml_node root;
    int rc = collect_given(from, set, n_set, &tree, &root, err);

    run_config_copy(ret, from);
    if (rc == 0)
        rc = assign(&(struct loader){.c = ret, .root = &root, .err = err}, from, set,
                    n_set, &tree);
    arena_done(&tree);
    if (rc < 0)
        run_config_done(ret);
    return rc;
}

/* ---- and back ---- */

/* Agents say only where they differ from the defaults. */
static void write_agents(const struct run_config *c, FILE *f)
{
    (void)fputs("agents:\n", f);
    for (size_t i = 0; i < c->n_agents; i++) {
        const struct agent_config *a = &c->agents[i];

        if (!schema_write_map(a->name, &agent_schema, a, a, &c->defaults, &c->defaults, 2,
                              f))
            (void)fprintf(f, "  %s: {}\n", a->name);
    }
}

char *run_config_to_yaml(const struct run_config *c)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    CHECK(f != NULL, "no memory");
    (void)schema_write(&run_schema, c, c, NULL, NULL, 0, f);
    (void)schema_write_map("defaults", &agent_schema, &c->defaults, &c->defaults, NULL,
                           NULL, 0, f);
    if (c->n_agents > 0)
        write_agents(c, f);
    CHECK(fclose(f) == 0, "no memory");
    log_debug("yaml: wrote a configuration of %zu bytes", len);
    return text;
}

void run_config_print_keys(FILE *f)
{
    schema_print(&run_schema, "", f);
}

int agent_config_resolve(struct agent_config *a, struct err *err)
{
    if (a->algorithm == NULL || algorithm_find(a->algorithm) == NULL)
        return err_set(err, ERR_CONFIG, "algorithm '%s' is not in this build",
                       a->algorithm != NULL ? a->algorithm : "");
    resolve_agent(a);
    return 0;
}

int agent_config_parse(struct agent_config *ret, struct arena *arena, const char *text,
                       size_t len, struct err *err)
{
    struct arena tree = ARENA_ZERO;
    struct yaml_node *root;
    struct agent_config a = {0};
    int rc = yaml_tree_parse(&root, &tree, text, len, "agent", 1, err);

    if (rc == 0) {
        schema_defaults(&agent_schema, &a, arena);
        rc = read_section(root, "", &a, arena, err);
        if (rc == 0)
            default_values(root, NULL, &a);
    }
    arena_done(&tree);
    if (rc < 0)
        return rc;
    resolve_agent(&a);
    *ret = a;
    return 0;
}
