#include "common/config/run_config.h"

#include "common/config/algorithms.h"
#include "common/config/change_plan.h"
#include "common/config/cluster_config.h"
#include "common/config/evaluation_rules.h"
#include "common/config/loader.h"
#include "common/config/run_schema.h"
#include "common/config/schema_internal.h"
#include "common/config/yaml_tree.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_ENV_STEPS 625000
/* steps of each copy between two updates, if episodes have no limit */
#define WINDOW_STEPS      25

static int without_env(const struct run_config *c)
{
    return strcmp(c->env.id, "none") == 0;
}

/* ---- the run ---- */

/* Fails because two keys that exclude each other were both given. */
static int fail_both(const struct loader *l, const char *section, const char *a,
                     const char *b)
{
    const struct yaml_node *at = yaml_newer(l->root, loader_given(l->root, section, b),
                                            loader_given(l->root, section, a));

    return yaml_fail(at != NULL ? at : l->root, section, l->err,
                     "%s and %s are both given, expected one", a, b);
}

int loader_resolve_lengths(const struct loader *l)
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

enum { PATH_BYTES = AGENT_NAME_MAX + ERR_NAME_BYTES + 64 };

/* Returns the node that gives a key of an agent ("settings.policy"; "": its section), in its own
 * section or under `defaults`; agent NULL: of the run. path: of that key; if neither gives it
 * (NULL), of the agent's. */
static const struct yaml_node *find_given(const struct yaml_node *root, const char *agent,
                                          const char *key, char path[PATH_BYTES])
{
    const struct yaml_node *at;

    (void)snprintf(path, PATH_BYTES, "%s", key);
    if (agent == NULL)
        return yaml_find_path(root, key);
    at = yaml_find_path(yaml_find(yaml_find(root, "agents"), agent), key);
    (void)snprintf(path, PATH_BYTES, "agents.%s%s%s", agent, *key != '\0' ? "." : "",
                   key);
    if (at != NULL || *key == '\0')
        return at;
    at = yaml_find_path(yaml_find(root, "defaults"), key);
    if (at != NULL)
        (void)snprintf(path, PATH_BYTES, "defaults.%s", key);
    return at;
}

/* Fails where the agent's key is given or, without an agent, that of the run; if it is not, at the
 * root. */
static int fail_at(const struct loader *l, const struct agent_config *a, const char *key,
                   const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static int fail_at(const struct loader *l, const struct agent_config *a, const char *key,
                   const char *fmt, ...)
{
    char path[PATH_BYTES];
    const struct yaml_node *at =
        find_given(l->root, a != NULL ? a->name : NULL, key, path);
    va_list ap;

    va_start(ap, fmt);
    (void)yaml_vfail(at != NULL ? at : l->root, path, l->err, fmt, ap);
    va_end(ap);
    return ERR_CONFIG;
}

/* The same for a setting of the agent. */
#define FAIL_AT_SETTING(l, a, field, ...)                                                \
    fail_at((l), (a), loader_path((l), "settings.%s", (field)->key), __VA_ARGS__)

static int check_run(struct loader *l)
{
    struct run_config *c = l->c;
    int rc;

    if ((rc = env_config_complete(c, l->root, l->err)) < 0 ||
        (rc = hooks_config_complete(c, l->root, l->err)) < 0 ||
        (rc = cluster_config_complete(c, l->root, l->err)) < 0 ||
        (rc = evaluation_rules_check(c, l->root, l->err)) < 0)
        return rc;
    if (c->run.name == NULL)
        c->run.name = c->env.id;
    l->steps_given = loader_given(l->root, "checkpoint", "every_env_steps") != NULL;
    return loader_resolve_lengths(l);
}

/* ---- what updates learn from ---- */

/* Fills in what the section `priority` leaves out. */
static void resolve_priority(struct run_config *c)
{
    struct priority_config *p = &c->experience.priority;

    if (!c->experience.has_priority) {
        *p = (struct priority_config){0};
        return;
    }
    /* of the run as it begins: a later change of its length must change no weights */
    if (field_is_unset(p->over) && field_is_unset(p->over_episodes)) {
        p->over = (double)c->run.env_steps;
        p->over_episodes = c->run.env_steps > 0 ? 0 : (double)c->run.episodes;
    } else if (field_is_unset(p->over)) {
        p->over = 0;
    } else if (field_is_unset(p->over_episodes)) {
        p->over_episodes = 0;
    }
}

/* Whether algorithms that learn from the newest rows of every copy use a key of
 * `experience`. They use all rows since the last update: they draw no batch and have no
 * warm-up. */
static int is_for_windows(const void *ctx, const char *key)
{
    return strcmp(key, "batch_size") != 0 && strcmp(key, "warmup") != 0 &&
           strcmp(key, "priority") != 0;
}

static int is_no_interval(const void *ctx, const char *key)
{
    return strcmp(key, "update_every") != 0;
}

/* Drops or refuses the keys of a section `experience` that such an algorithm does not use; returns
 * their number. If update_every is no multiple of the number of copies, it is dropped together with
 * batch_size and warmup: it was meant for an algorithm that uses them. */
static int drop_drawn(const struct loader *l, struct yaml_node *experience,
                      const char *path, int64_t update_every, const char *algorithm)
{
    const struct schema *schema = schema_find(&run_schema, "experience")->schema;
    const struct yaml_node *interval = yaml_find(experience, "update_every");
    const int drops_interval = interval != NULL && loader_may_drop(l, interval) &&
                               update_every % l->c->env.copies != 0 &&
                               (yaml_find(experience, "batch_size") != NULL ||
                                yaml_find(experience, "warmup") != NULL);
    char why[256];
    int n, more;

    (void)snprintf(why, sizeof(why),
                   "not used by %s, which learns from the newest rows of every copy",
                   algorithm);
    n = loader_drop(l, experience, path, schema, is_for_windows, NULL, why);
    if (n < 0 || !drops_interval)
        return n;
    (void)snprintf(why, sizeof(why),
                   "found %lld, but %s needs a multiple of env.copies, %lld; its default "
                   "takes its place",
                   (long long)update_every, algorithm, (long long)l->c->env.copies);
    more = loader_drop(l, experience, path, schema, is_no_interval, NULL, why);
    return more < 0 ? more : n + more;
}

/* Returns the rows of one episode of every copy; if they are more than any capacity, the
 * largest multiple of the copies. */
static int64_t window_rows(const struct run_config *c)
{
    const int64_t steps = c->env.max_steps > 0 ? c->env.max_steps : WINDOW_STEPS;
    int64_t n;

    return __builtin_mul_overflow((int64_t)c->env.copies, steps, &n)
               ? INT64_MAX / c->env.copies * c->env.copies
               : n;
}

/* a: whose value it is; NULL: the run's. */
static int check_at_most_capacity(const struct loader *l, const struct agent_config *a,
                                  const char *key, int64_t value)
{
    const struct yaml_node *capacity = loader_given(l->root, "experience", "capacity");
    const struct yaml_node *at;
    char path[PATH_BYTES];

    if (value <= l->c->experience.capacity)
        return 0;
    at = find_given(l->root, a != NULL ? a->name : NULL,
                    loader_path(l, "experience.%s", key), path);
    if (at != NULL ||
        a == NULL) /* its default may be more than the capacity, given or not */
        at = yaml_newer(l->root, at, capacity);
    return yaml_fail(at != NULL ? at : l->root, path, l->err,
                     "found %lld, expected at most experience.capacity, %lld",
                     (long long)value, (long long)l->c->experience.capacity);
}

/* Checks the rows of a window. */
static int check_window(const struct loader *l, const struct agent_config *a,
                        int64_t update_every, const char *algorithm)
{
    const struct run_config *c = l->c;

    if (update_every % c->env.copies != 0)
        return fail_at(l, a, "experience.update_every",
                       "found %lld, expected a multiple of env.copies, %lld, because %s "
                       "learns from the newest rows of every copy (default: %lld)",
                       (long long)update_every, (long long)c->env.copies, algorithm,
                       (long long)window_rows(c));
    return check_at_most_capacity(l, a, "update_every", update_every);
}

/* Checks `experience` where all agents learn from windows. */
static int check_run_window(const struct loader *l)
{
    struct run_config *c = l->c;
    const char *algorithm = c->agents[0].algorithm;
    const int rc = drop_drawn(l, yaml_find(l->root, "experience"), "experience",
                              c->experience.update_every, algorithm);

    if (rc < 0)
        return rc;
    if (rc > 0) {
        c->experience.has_priority = 0;
        resolve_priority(c);
    }
    if (loader_given(l->root, "experience", "update_every") == NULL && l->is_new)
        c->experience.update_every = window_rows(c);
    return check_window(l, NULL, c->experience.update_every, algorithm);
}

struct experience_config run_config_experience(const struct run_config *c, size_t agent)
{
    struct experience_config x = c->agents[agent].experience;

    x.batch_size = x.batch_size > 0 ? x.batch_size : c->experience.batch_size;
    x.warmup = x.warmup > 0 ? x.warmup : c->experience.warmup;
    x.update_every = x.update_every > 0 ? x.update_every : c->experience.update_every;
    return x;
}

int run_config_check_live(const struct run_config *c, struct err *err)
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
    for (size_t i = 0; i < c->n_agents; i++) {
        const int64_t rows = run_config_experience(c, i).update_every;

        if (algorithm_rows(&c->agents[i]) == ROWS_WINDOW && rows % c->env.copies != 0)
            return err_set(err, ERR_CONFIG,
                           "experience.update_every: found %" PRId64
                           ", expected a multiple of env.copies, %" PRId64
                           ", because %s learns from the newest rows of every copy",
                           rows, c->env.copies, c->agents[i].algorithm);
    }
    return 0;
}

/* A window is cut into at most as many parts as it has rows. */
static int check_parts(const struct loader *l)
{
    for (size_t i = 0; i < l->c->n_agents; i++) {
        const struct agent_config *a = &l->c->agents[i];
        const struct field *f = algorithm_setting(a->settings.of, FIELD_PARTS);
        const int64_t parts = (int64_t)agent_setting_marked(a, FIELD_PARTS);
        const int64_t rows = run_config_experience(l->c, i).update_every;

        if (algorithm_rows(a) == ROWS_WINDOW && parts > rows)
            return FAIL_AT_SETTING(l, a, f,
                                   "%" PRId64 " are more than the %" PRId64
                                   " rows of an update (experience.update_every)",
                                   parts, rows);
    }
    return 0;
}

/* Checks `experience` of an agent that learns from windows. Keys under `defaults` that
 * it cannot use are for other agents, and are no error. */
static int check_own_window(const struct loader *l, struct agent_config *a)
{
    const struct experience_config *all = &l->c->defaults.experience;
    const struct yaml_node *own = yaml_find(yaml_find(l->root, "agents"), a->name);
    const int rc = drop_drawn(l, yaml_find(own, "experience"),
                              loader_path(l, "agents.%s.experience", a->name),
                              a->experience.update_every, a->algorithm);

    if (rc < 0)
        return rc;
    if (rc > 0) {
        a->experience.batch_size = all->batch_size;
        a->experience.warmup = all->warmup;
        if (loader_given(own, "experience", "update_every") == NULL)
            a->experience.update_every = all->update_every;
    }
    if (l->is_new && a->experience.update_every == 0 &&
        run_config_rows(l->c) != ROWS_WINDOW)
        a->experience.update_every = window_rows(l->c);
    return check_window(l, a, a->experience.update_every, a->algorithm);
}

/* Checks what is drawn for an update. a: NULL: the run's. */
static int check_drawn(const struct loader *l, const struct agent_config *a,
                       int64_t batch_size, int64_t warmup)
{
    const int rc = check_at_most_capacity(l, a, "batch_size", batch_size);

    return rc < 0 ? rc : check_at_most_capacity(l, a, "warmup", warmup);
}

int loader_check_experience(const struct loader *l)
{
    struct run_config *c = l->c;
    int rc = 0;

    resolve_priority(c);
    for (size_t i = 0; i < c->n_agents && rc == 0; i++) {
        struct agent_config *a = &c->agents[i];

        if (algorithm_learns(algorithm_of(a)))
            rc = algorithm_rows(a) == ROWS_WINDOW
                     ? check_own_window(l, a)
                     : check_drawn(l, a, a->experience.batch_size, a->experience.warmup);
    }
    if (rc == 0 && run_config_rows(c) == ROWS_WINDOW) {
        rc = check_run_window(l);
    } else if (rc == 0) {
        loader_shorten_warmup(l);
        rc = check_drawn(l, NULL, c->experience.batch_size, c->experience.warmup);
    }
    return rc < 0 ? rc : check_parts(l);
}

/* ---- its agents ---- */

/* Takes the agents' names from the file, because there is no environment. */
static int names_from_file(const struct loader *l, const struct yaml_node *agents,
                           const char *const **ret, size_t *ret_n)
{
    const char **names = ARENA_ARRAY(&l->c->arena, const char *, agents->n);

    for (size_t i = 0; i < agents->n; i++) {
        const struct yaml_node *a = agents->child[i];

        if (!schema_is_name(a->key))
            return yaml_fail(a, "agents", l->err, "found '%.60s', expected %s", a->key,
                             SCHEMA_NAME_EXPECTED);
        if (schema_is_reserved(a->key))
            return yaml_fail(a, "agents", l->err,
                             "found '%s', expected another name: the run has a process "
                             "or a file that is called so",
                             a->key);
        names[i] = a->key;
    }
    *ret = names;
    *ret_n = agents->n;
    return 0;
}

static int names_from_env(const struct loader *l, struct yaml_node *agents,
                          const char *const **ret, size_t *ret_n)
{
    const struct env_config *env = &l->c->env;
    const struct yaml_node *at;
    struct err why = {0};
    int n = l->options->env_names(l->options->env_ctx, env, ret, &why);
    char key[ERR_NAME_BYTES];

    if (n >= 0) {
        *ret_n = (size_t)n;
        if (l->options->resized)
            loader_resize_teams(l, agents, *ret, *ret_n);
        return loader_expand_teams(l, agents, *ret, *ret_n);
    }
    if (why.code == ERR_INTERRUPTED)
        return err_pass(l->err, &why);
    (void)snprintf(key, sizeof(key), "%s", why.key);
    if (env_config_is_external(env))
        (void)snprintf(key, sizeof(key), "env.%.64s", env->id);
    else if (*why.file != '\0' || *key == '\0')
        return err_pass(l->err, &why);
    at = yaml_find_path(l->root, key);
    (void)yaml_fail(at != NULL ? at : l->root, key, l->err, "%s",
                    env_config_is_external(env) ? why.msg : err_cause(&why));
    if (!err_is_failure(why.code))
        return ERR_CONFIG;
    if (l->err != NULL)
        l->err->code = why.code;
    return why.code;
}

static int check_reward(const struct loader *l, const struct yaml_node *section,
                        struct agent_config *a)
{
    if (!algorithm_of(a)->team_reward || without_env(l->c) ||
        l->c->env.reward != ENV_REWARD_OWN)
        return 0;
    return fail_at(l, NULL, "env.reward",
                   "found 'own', expected team_mean (or team_sum): %s learns one value "
                   "for the whole team",
                   a->algorithm);
}

int loader_check_actions(const struct loader *l, const struct agent_config *a)
{
    const struct field *f = algorithm_setting(a->settings.of, FIELD_BOX_ONLY);
    const int choice = (int)agent_setting_marked(a, FIELD_BOX_ONLY);

    if (choice == 0 || without_env(l->c) || l->c->env.actions != ENV_ACTIONS_DISCRETE)
        return 0;
    return FAIL_AT_SETTING(l, a, f,
                           "found '%s', expected %s with env.actions: discrete (%s needs "
                           "env.actions: continuous)",
                           f->names[choice], f->names[0], f->names[choice]);
}

static int check_actions(const struct loader *l, const struct yaml_node *section,
                         struct agent_config *a)
{
    return loader_check_actions(l, a);
}

static int check_sizes(const struct loader *l, const struct yaml_node *section,
                       struct agent_config *a)
{
    if (without_env(l->c) && !algorithm_brings_graph(a) &&
        (a->observation == 0 || a->action == 0))
        return fail_at(l, a, "",
                       "without an environment (env.id: none) expected {observation: "
                       "WIDTH, action: WIDTH}");
    if (!without_env(l->c) && (a->observation != 0 || a->action != 0))
        return fail_at(l, a, "",
                       "observation and action are given by the environment, expected "
                       "neither");
    return 0;
}

static int check_needs(const struct loader *l, const struct yaml_node *section,
                       struct agent_config *a)
{
    const struct algorithm_info *info = algorithm_of(a);
    char path[PATH_BYTES], list[LIST_MAX_BYTES];
    const struct yaml_node *at = find_given(l->root, a->name, "algorithm", path);

    if (info->without_env ? without_env(l->c) : algorithm_plays_in(info, l->c->env.id))
        return 0;
    if (at == NULL) {
        at = l->root;
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

/* Finds a schedule among the section's values and sets `ret` to its path. Returns 0 if
 * all values are constants. */
static int find_schedule(const struct schema *s, const char *path, const void *root,
                         const void *base, char ret[PATH_MAX_BYTES])
{
    for (size_t i = 0; i < s->n; i++) {
        const struct field *f = &s->fields[i];
        const void *value = (const char *)base + f->offset;
        char child[PATH_MAX_BYTES];

        const struct schema *below = schema_below(f, root);

        if (!schema_is_given(s, root, base, f))
            continue;
        schema_join_path(child, path, f->key);
        if (below != NULL && find_schedule(below, child, root, value, ret))
            return 1;
        if (f->type == FIELD_SCHEDULE && ((const struct schedule *)value)->over > 0) {
            memcpy(ret, child, PATH_MAX_BYTES);
            return 1;
        }
    }
    return 0;
}

static int check_schedules(const struct loader *l, const struct yaml_node *section,
                           struct agent_config *a)
{
    char path[PATH_MAX_BYTES];

    if (!without_env(l->c) ||
        !find_schedule(&agent_schema, loader_path(l, "agents.%s", a->name), a, a, path))
        return 0;
    return yaml_fail(section != NULL ? section : l->root, path, l->err,
                     "found a schedule, expected a number: without an environment "
                     "(env.id: none) there are no steps to follow");
}

/* Checks what the table cannot express about a network of an agent. */
static int check_network(const struct loader *l, const struct agent_config *a,
                         const char *name, const struct network_config *n)
{
    const struct entity_layers *e = &n->entities;
    const int sees = l->c->env.observe == ENV_OBSERVE_ENTITIES;
    const int64_t last = e->units.n > 0 ? e->units.size[e->units.n - 1] : 0;
    const char *key =
        loader_path(l, "%s.%s", name, sees && n->conv.n > 0 ? "conv" : "entities");

    if (!n->has_entities)
        return 0;
    if (!sees)
        return fail_at(l, a, key,
                       "%s observes no entities, expected env.observe: entities",
                       a->name);
    if (n->conv.n > 0)
        return fail_at(
            l, a, key,
            "convolutions see images, expected none with env.observe: entities");
    if (e->pool != POOL_ATTENTION && e->heads != 1)
        return fail_at(l, a, key, "heads are for pool: attention");
    if (last % e->heads == 0)
        return 0;
    return fail_at(l, a, key, "%lld heads cannot share the last %lld units evenly",
                   (long long)e->heads, (long long)last);
}

static int check_networks(const struct loader *l, const struct yaml_node *section,
                          struct agent_config *a)
{
    const int rc = check_network(l, a, "actor", &a->actor);

    return rc < 0 ? rc : check_network(l, a, "critic", &a->critic);
}

/* An algorithm that gets its graph from a checkpoint needs to be told which. */
static int check_source(const struct loader *l, const struct yaml_node *section,
                        struct agent_config *a)
{
    const struct field *f = algorithm_setting(a->settings.of, FIELD_CHECKPOINT);
    const struct yaml_node *from;
    char path[PATH_BYTES];

    if (f == NULL)
        return 0;
    if (agent_setting_text(a, FIELD_CHECKPOINT) == NULL)
        return yaml_fail(section != NULL ? section : l->root,
                         loader_path(l, "agents.%s.settings", a->name), l->err,
                         "%s %s, expected %s: RUN, RUN@STEP, or a checkpoint's prefix "
                         "or folder",
                         a->algorithm,
                         a->settings.of->without_env ? "hosts a checkpoint's graph"
                                                     : "acts as a checkpoint does",
                         f->key);
    from = find_given(l->root, a->name, loader_path(l, "settings.%s", f->key), path);
    if (from != NULL)
        a->from_at = yaml_tree_copy(from, &l->c->arena);
    return 0;
}

/* A frozen agent may have been a program. */
static int take_policy(const struct loader *l, const struct yaml_node *section,
                       struct agent_config *a)
{
    const struct config_options *o = l->options;
    struct err why = {0};

    if (o == NULL || o->take_policy == NULL || !algorithm_of(a)->fixed ||
        !algorithm_brings_graph(a) || a->from_at == NULL ||
        o->take_policy(o->policy_ctx, a, &l->c->arena, &why) == 0)
        return 0;
    if (err_is_failure(why.code))
        return err_pass(l->err, &why);
    return yaml_fail_since(
        a->from_at,
        loader_path(l, "agents.%s.settings.%s", a->name,
                    algorithm_setting(a->settings.of, FIELD_CHECKPOINT)->key),
        l->err, &why);
}

static int check_device(const struct loader *l, const struct yaml_node *section,
                        struct agent_config *a)
{
    const int64_t nodes = cluster_config_is_active(l->c) ? l->c->cluster.nodes : 0;
    const struct yaml_node *at = yaml_find(section, "device");
    char why[DEVICE_WHY_BYTES];
    int64_t task;

    if (a->device == NULL)
        return 0;
    if (device_gpu(a->device) >= 0 && a->command == NULL)
        (void)snprintf(
            why, sizeof(why),
            "found '%.60s', but %s computes on the CPU: GPUs are for agents that "
            "are programs",
            a->device, a->algorithm);
    else if (device_task(a->device, nodes, &task, why) == 0)
        return 0;
    if (at == NULL)
        at = loader_given(l->root, "defaults", "device");
    return yaml_fail(at != NULL ? at : l->root,
                     loader_path(l, "agents.%s.device", a->name), l->err, "%s", why);
}

static int read_agent(const struct loader *l, const struct yaml_node *section,
                      const char *name, struct agent_config *a)
{
    static int (*const checks[])(const struct loader *l, const struct yaml_node *section,
                                 struct agent_config *a) = {
        check_needs,     check_networks, check_device,  check_source, take_policy,
        check_schedules, check_reward,   check_actions, check_sizes};
    int rc = 0;

    *a = l->c->defaults;
    a->name = arena_strdup(&l->c->arena, name);
    if (section != NULL)
        rc = agent_section_read(l, section, loader_path(l, "agents.%s", name), a);
    if (rc < 0)
        return rc;
    agent_section_default_values(section, yaml_find(l->root, "defaults"), a,
                                 &l->c->arena);
    agent_config_resolve(a);
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]) && rc == 0; i++)
        rc = checks[i](l, section, a);
    return rc;
}

static int read_agents(const struct loader *l)
{
    struct yaml_node nobody = {.kind = YAML_MAP};
    struct yaml_node *agents = yaml_find(l->root, "agents");
    const char *const *names = NULL;
    size_t n = 0;
    int rc;

    if (agents == NULL || yaml_is_null(agents))
        agents = &nobody;
    if (agents->kind != YAML_MAP)
        return yaml_fail(agents, "agents", l->err, "expected a map of agents by name");
    if (!without_env(l->c) && l->options != NULL && l->options->env_names != NULL &&
        !(l->options->no_start && env_config_is_external(&l->c->env)))
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

/* Adds the place to an agent's error; why->key is a key of the agent's section. */
static int place(const struct yaml_node *root, const char *agent, const struct err *why,
                 struct err *err)
{
    const struct yaml_node *own = yaml_find(yaml_find(root, "agents"), agent);
    const struct yaml_node *defaults = yaml_find(root, "defaults"), *at;
    char path[PATH_BYTES];

    at = find_given(root, agent, why->key, path);
    if (at == NULL)
        at = own != NULL ? own : defaults != NULL ? defaults : root;
    (void)yaml_fail(at, path, err, "%s (agent %s)", err_cause(why), agent);
    (void)err_note(err, ERR_AT(.agent = agent));
    return ERR_CONFIG;
}

/* The last check: whether the agents can be built. */
static int try_agents(const struct loader *l)
{
    const struct config_options *options = l->options;
    const struct run_config *c = l->c;
    struct err why = {0};
    size_t agent = 0;
    int rc;

    if (options == NULL || options->try_agents == NULL)
        return 0;
    rc = options->try_agents(options->try_ctx, c, &agent, &why);
    if (rc == ERR_CONFIG && agent == c->n_agents) /* about the whole configuration */
        return fail_at(l, NULL, why.key, "%s", err_cause(&why));
    if (rc == ERR_CONFIG)
        return place(l->root, c->agents[agent].name, &why, l->err);
    return rc < 0 ? err_pass(l->err, &why) : 0;
}

static int load(struct loader *l)
{
    const struct yaml_node *defaults = yaml_find(l->root, "defaults");
    struct run_config *c = l->c;
    int rc;

    schema_defaults(&run_schema, c, &c->arena);
    schema_defaults(&agent_schema, &c->defaults, &c->arena);
    agent_section_take(&c->defaults, &c->arena);
    rc = schema_read(&run_schema, l->root, "", c, &c->arena, l->err);
    if (rc == 0)
        rc = check_run(l);
    if (rc == 0 && defaults != NULL)
        rc = agent_section_read(l, defaults, "defaults", &c->defaults);
    /* networks see entities, with or without a section that says how */
    if (c->env.observe == ENV_OBSERVE_ENTITIES)
        c->defaults.actor.has_entities = c->defaults.critic.has_entities = 1;
    if (rc == 0)
        rc = read_agents(l);
    if (rc == 0)
        rc = loader_check_experience(l);
    if (rc == 0) {
        agent_section_default_values(NULL, defaults, &c->defaults, &c->arena);
        agent_config_resolve(&c->defaults);
    }
    if (rc == 0 && l->steps->n > 0)
        rc = loader_plan_steps(l);
    if (rc == 0 && l->options != NULL && l->options->try_agents != NULL)
        rc = hooks_config_find(c, l->err);
    return rc < 0 ? rc : try_agents(l);
}

static int parse(struct run_config *c, struct arena *tree, const char *text, size_t len,
                 const char *name, const struct config_options *options, struct err *err)
{
    struct config_steps steps = {0};
    struct yaml_node *root;
    int rc = yaml_tree_parse(&root, tree, text, len, name, 1, err);

    if (rc == 0 && options != NULL && options->extends)
        rc = loader_extend(name, &root, tree, err);
    else if (rc == 0)
        loader_add_units(root, tree);
    for (size_t i = 0; rc == 0 && options != NULL && i < options->n_set; i++) {
        evaluation_rules_expand(root, tree); /* for checkpoint.keep_best.mode */
        rc = yaml_tree_set(root, tree, options->set_is_bare ? "" : "--set ",
                           options->set[i], err);
    }
    if (rc == 0)
        rc = loader_refuse_extends(root, err);
    if (rc == 0)
        rc = loader_expand_shorthands(root, tree, err);
    if (rc == 0)
        loader_resolve_agent_ids(root, tree);
    if (rc == 0 && options != NULL && options->extends)
        rc = loader_take_steps(root, tree, &steps, err);
    if (rc == 0)
        rc = load(&(struct loader){.c = c,
                                   .root = root,
                                   .name = name,
                                   .options = options,
                                   .steps = &steps,
                                   .tree = tree,
                                   .is_new = 1,
                                   .err = err});
    free(steps.list);
    return rc;
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

void run_config_done(struct run_config *c)
{
    if (c->plan != NULL)
        change_plan_done(c->plan);
    free(c->plan);
    arena_done(&c->arena);
    *c = (struct run_config){0};
}

/* ---- writing ---- */

char *run_config_to_yaml(const struct run_config *c)
{
    struct xstream text;
    FILE *f = xstream_begin(&text);

    (void)schema_write(&run_schema, c, NULL, 0, f);
    (void)schema_write_map("defaults", &agent_schema, &c->defaults, NULL, 0, f);
    if (c->n_agents > 0)
        (void)fputs("agents:\n", f);
    for (size_t i = 0; i < c->n_agents;
         i++) { /* the values that the defaults do not have */
        const struct agent_config *a = &c->agents[i];

        if (!schema_write_map(a->name, &agent_schema, a, &c->defaults, 2, f))
            (void)fprintf(f, "  %s: {}\n", a->name);
    }
    (void)xstream_end(&text);
    log_debug("yaml: wrote a configuration of %zu bytes", text.len);
    return text.text;
}

void run_config_print_keys(FILE *f)
{
    schema_print(&run_schema, "", f);
}
