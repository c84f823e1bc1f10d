#include "common/config/algorithms.h"
#include "common/config/yaml_tree.h"
#include "common/msg/symmetry_msg.h"
#include "supervisor/env/env_class.h"
#include "supervisor/env/foraging.h"
#include "supervisor/env/matrix_game.h"
#include "supervisor/env/overcooked.h"
#include "supervisor/env/particle_world.h"
#include "supervisor/env/rware.h"
#include "supervisor/env/toy.h"

#include <stdio.h>
#include <string.h>

static const struct env_class classes[] = {
    {{"simple", "one agent goes to a landmark", &particle_params},
     &particle_ops,
     &particle_simple},
    {{"simple_adversary",
      "agents cover the goal without showing an adversary which it is",
      &simple_adversary_params},
     &particle_ops,
     &particle_simple_adversary},
    {{"simple_crypto", "alice tells bob a secret that eve overhears", &particle_params},
     &particle_ops,
     &particle_simple_crypto},
    {{"simple_formation", "N agents form a circle around a landmark",
      &particle_places_params},
     &particle_ops,
     &particle_simple_formation},
    {{"simple_line", "N agents form a line between two landmarks",
      &particle_places_params},
     &particle_ops,
     &particle_simple_line},
    {{"simple_push", "an adversary keeps an agent off its goal", &particle_params},
     &particle_ops,
     &particle_simple_push},
    {{"simple_reference", "two agents tell each other where to go",
      &simple_reference_params},
     &particle_ops,
     &particle_simple_reference},
    {{"simple_speaker_listener", "one knows the goal, the other can go there",
      &particle_params},
     &particle_ops,
     &particle_simple_speaker_listener},
    {{"simple_spread", "N agents cover N landmarks without colliding",
      &simple_spread_params},
     &particle_ops,
     &particle_simple_spread},
    {{"simple_tag", "a pack chases faster agents among obstacles", &simple_tag_params},
     &particle_ops,
     &particle_simple_tag},
    {{"simple_world_comm",
      "a led pack hunts agents that look for food and hide in forests",
      &simple_world_comm_params},
     &particle_ops,
     &particle_simple_world_comm},
    {{"collect_treasure", "collectors carry treasures to the deposit of their kind",
      &collect_treasure_params},
     &particle_ops,
     &particle_collect_treasure},
    {{"climbing", "the best joint action is next to the worst", &matrix_game_params},
     &matrix_game_ops,
     &matrix_game_climbing},
    {{"penalty", "two optima, and k for missing each other", &matrix_game_penalty_params},
     &matrix_game_ops,
     &matrix_game_penalty},
    {{"prisoners_dilemma", "two agents cooperate or defect", &matrix_game_params},
     &matrix_game_ops,
     &matrix_game_prisoners_dilemma},
    {{"stag_hunt", "two agents hunt a stag together or a hare alone",
      &matrix_game_params},
     &matrix_game_ops,
     &matrix_game_stag_hunt},
    {{"matrix_game", "any table of payoffs", &matrix_game_any_params},
     &matrix_game_ops,
     &matrix_game_any},
    {{"foraging", "players on a grid collect food that may take several",
      &foraging_params},
     &foraging_ops,
     NULL},
    {{"overcooked", "two cooks make soups and serve them", &overcooked_params},
     &overcooked_ops,
     NULL},
    {{"rware", "robots bring requested shelves of a warehouse to a goal", &rware_params},
     &rware_ops,
     NULL},
    {{"constant_reward", "for checks: reward 1 each step, for ever", &toy_params},
     &toy_ops,
     &toy_constant_reward},
    {{"one_step", "for checks: reward 1, then the task is over", &toy_params},
     &toy_ops,
     &toy_one_step},
    {{"two_step", "for checks: two steps; the first observation never recurs",
      &toy_params},
     &toy_ops,
     &toy_two_step},
};

enum { N_CLASSES = sizeof(classes) / sizeof(classes[0]) };

/* Not listed, because it is no environment. */
static const struct env_class none = {
    {"none", "no environment: clients drive the agents", &none_params}, &none_ops, NULL};
/* Not listed either: their parameters are unknown here. */
static const struct env_class external[] = {
    {{"command", "an external program", NULL}, &external_ops, NULL},
    {{"plugin", "an external shared object", NULL}, &external_ops, NULL},
};

const struct env_class *env_class_find(const char *id)
{
    if (strcmp(id, none.info.id) == 0)
        return &none;
    for (size_t i = 0; i < sizeof(external) / sizeof(external[0]); i++) {
        if (strcmp(external[i].info.id, id) == 0)
            return &external[i];
    }
    for (size_t i = 0; i < N_CLASSES; i++) {
        if (strcmp(classes[i].info.id, id) == 0)
            return &classes[i];
    }
    return NULL;
}

const struct env_info *env_info_at(size_t i)
{
    return i < N_CLASSES ? &classes[i].info : NULL;
}

const struct env_info *env_info_find(const char *id)
{
    const struct env_class *class = env_class_find(id);

    return class != NULL && class != &none && class->info.params != NULL ? &class->info
                                                                         : NULL;
}

int env_info_add_nearest(const char *id, struct err *err)
{
    const char *ids[N_CLASSES];

    for (size_t i = 0; i < N_CLASSES; i++)
        ids[i] = classes[i].info.id;
    return yaml_add_nearest(err, id, ids, N_CLASSES);
}

int env_params_read(const struct env_config *env, struct arena *arena,
                    const void **ret_params, struct err *err)
{
    const struct schema *schema = env_class_find(env->id)->info.params;
    void *params = schema != NULL ? arena_alloc(arena, schema->bytes) : NULL;

    *ret_params = params;
    if (schema == NULL)
        return 0;
    schema_defaults(schema, params, arena);
    return env->params == NULL
               ? 0
               : schema_read(schema, env->params, "env.params", params, arena, err);
}

void env_symmetry(const struct env_config *env, struct arena *arena,
                  struct symmetry_group *ret)
{
    const struct env_class *class = env_class_find(env->id);
    const void *params;

    *ret = (struct symmetry_group){0};
    if (class->ops->symmetry == NULL || env_params_read(env, arena, &params, NULL) < 0)
        return;
    class->ops->symmetry(class, env, params, arena, ret);
}

void env_symmetry_stack(const struct env_spec *spec, struct arena *arena,
                        struct symmetry_group *g)
{
    for (size_t f = 0; f < g->n_factors; f++) {
        const size_t n = g->factors[f].n_runs;
        struct symmetry_run *runs = ARENA_ARRAY(arena, struct symmetry_run, n);

        for (size_t i = 0; i < n; i++)
            runs[i] = g->factors[f].runs[i];
        for (uint32_t k = 1; k < env_stack(spec); k++)
            for (size_t i = 0; i < n; i++) {
                struct symmetry_run run = runs[i];

                run.first += k * (uint32_t)spec->agents[run.agent].obs_width;
                if (run.part == SYMMETRY_OBS)
                    symmetry_add_run(g, arena, f, &run);
            }
    }
}

/* Only the particle worlds have a choice of rules and of actions. */
static int check_rules(const struct env_class *class, const struct env_config *config,
                       struct err *err)
{
    const char *key = config->rules != ENV_RULES_MPE2           ? "env.rules"
                      : config->actions != ENV_ACTIONS_DISCRETE ? "env.actions"
                                                                : NULL;

    if (class->ops == &particle_ops || key == NULL)
        return 0;
    (void)err_set(err, ERR_UNSUPPORTED, "applies only to the particle worlds, not to %s",
                  class->info.id);
    (void)err_note(err, ERR_AT(.key = key));
    return ERR_UNSUPPORTED;
}

/* Checks that every agent observes entities, if env.observe asks for them. */
static int check_observe(const struct env_class *class, const struct env_config *config,
                         const struct env_spec *spec, struct err *err)
{
    for (size_t a = 0; config->observe == ENV_OBSERVE_ENTITIES && a < spec->n_agents; a++)
        if (spec->agents[a].entities[0] == 0)
            return err_set_at(
                err, ERR_UNSUPPORTED, ERR_AT(.key = "env.observe"),
                "%s does not show entities to %s; simple_spread, simple_tag, "
                "foraging and programs that say so do",
                class->info.id, spec->agents[a].name);
    return 0;
}

static const struct env_metric *metrics_of(const struct env_class *class)
{
    return class->ops->metrics != NULL ? class->ops->metrics(class) : NULL;
}

const struct env_metric *env_metrics(const char *id)
{
    const struct env_class *class = env_class_find(id);

    return class != NULL ? metrics_of(class) : NULL;
}

static int refuse_metric(const struct env_class *class, const char *name, struct err *err)
{
    const struct env_metric *known = metrics_of(class);
    const char *names[ENV_MAX_METRICS];
    char list[256] = "";
    size_t n = 0;

    for (; known != NULL && known[n].name != NULL && n < ENV_MAX_METRICS; n++) {
        names[n] = known[n].name;
        (void)snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
                       n > 0 ? ", " : "", names[n]);
    }
    if (n == 0)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "env.metrics"),
                          "found '%.60s', but %s has no metrics", name, class->info.id);
    (void)err_set_at(err, ERR_CONFIG, ERR_AT(.key = "env.metrics"),
                     "found '%.60s', expected some of %s", name, list);
    return yaml_add_nearest(err, name, names, n);
}

static int check_metric(const struct env_class *class, const char *name,
                        const char *const *before, size_t n, struct err *err)
{
    const struct env_metric *known = metrics_of(class);
    size_t i = 0;

    if (strlen(name) > ALGORITHM_SCALAR_NAME)
        return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "env.metrics"),
                          "found '%.60s...', expected a name of at most %d characters",
                          name, ALGORITHM_SCALAR_NAME);
    for (size_t k = 0; k < n; k++)
        if (strcmp(before[k], name) == 0)
            return err_set_at(err, ERR_CONFIG, ERR_AT(.key = "env.metrics"),
                              "%s is there twice", name);
    while (known != NULL && known[i].name != NULL && strcmp(known[i].name, name) != 0)
        i++;
    if (class->ops != &external_ops && (known == NULL || known[i].name == NULL))
        return refuse_metric(class, name, err);
    return 0;
}

/* Fills in the names of env.metrics. */
static int describe_metrics(const struct env_class *class,
                            const struct env_config *config, struct arena *arena,
                            struct env_spec *ret, struct err *err)
{
    char *rest = config->metrics != NULL ? arena_strdup(arena, config->metrics) : NULL;
    const char **names;

    ret->n_metrics = 0;
    if (rest == NULL)
        return 0;
    names = ARENA_ARRAY(arena, const char *, ENV_MAX_METRICS);
    for (char *name; (name = strsep(&rest, " ")) != NULL;) {
        int rc = ret->n_metrics < ENV_MAX_METRICS
                     ? check_metric(class, name, names, ret->n_metrics, err)
                     : err_set_at(err, ERR_CONFIG, ERR_AT(.key = "env.metrics"),
                                  "more than %d", ENV_MAX_METRICS);

        if (rc < 0)
            return rc;
        names[ret->n_metrics++] = name;
    }
    ret->metrics = names;
    return 0;
}

int env_class_describe(const struct env_class *class, const struct env_config *config,
                       struct arena *arena, const void **ret_params, struct env_spec *ret,
                       struct err *err)
{
    int rc = check_rules(class, config, err);

    *ret_params = NULL;
    if (rc == 0)
        rc = env_params_read(config, arena, ret_params, err);
    if (rc == 0)
        rc = class->ops->describe(class, config, *ret_params, arena, ret, err);
    if (rc == 0)
        rc = check_observe(class, config, ret, err);
    if (rc == 0 && config->teams == ENV_TEAMS_ALL)
        for (size_t a = 0; a < ret->n_agents; a++)
            memcpy(ret->agents[a].team, "team", sizeof("team"));
    return rc == 0 ? describe_metrics(class, config, arena, ret, err) : rc;
}

int env_check_drawable(const struct env_config *config, struct err *err)
{
    const struct env_class *class = env_class_find(config->id);

    if (config->plugin != NULL || class == NULL || class->ops->draw == NULL)
        return err_set(err, ERR_UNSUPPORTED,
                       "%.200s cannot be drawn: only the particle worlds, matrix games, "
                       "foraging, rware, overcooked, and env.command can",
                       config->plugin != NULL ? config->plugin : config->id);
    return 0;
}

int env_agent_names(void *ctx, const struct env_config *env, const char *const **ret,
                    struct err *err)
{
    /* The contract of config_env_names_fn: valid until the next call. */
    static struct arena arena;
    const struct env_class *class = env_class_find(env->id);
    struct env_spec spec = {0};
    const void *params;
    const char **names;
    int rc;

    if (class == NULL) {
        (void)err_set(err, ERR_NOT_FOUND, "there is no environment '%s'", env->id);
        (void)env_info_add_nearest(env->id, err);
        (void)err_note(err, ERR_AT(.key = "env.id"));
        return ERR_NOT_FOUND;
    }
    arena_reset(&arena);
    rc = env_class_describe(class, env, &arena, &params, &spec, err);
    if (rc < 0)
        return rc;
    names = ARENA_ARRAY(&arena, const char *, spec.n_agents);
    for (size_t a = 0; a < spec.n_agents; a++)
        names[a] = spec.agents[a].name;
    *ret = names;
    return (int)spec.n_agents;
}
