#include "common/config/run_schema.h"
#include "common/config/yaml_tree.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "supervisor/ask/describe.h"
#include "supervisor/cli/cli.h"
#include "supervisor/env/env.h"
#include "supervisor/metrics/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An environment to print. */
struct description {
    const char *id, *summary;
    const struct schema *table; /* of its parameters; NULL: an external environment */
    const void *params;         /* the struct that the table describes */
    const struct run_config *config;
    const struct env_spec *spec;
};

/* ---- parameters ---- */

struct parameter {
    const char *section;
    const struct field *field;
    char *value;
};
typedef void (*parameter_fn)(void *ctx, const struct parameter *p);

static void visit_parameter(const char *section, const struct field *f, const void *base,
                            parameter_fn fn, void *ctx)
{
    struct parameter p = {section, f, schema_text_of(f, (const char *)base + f->offset)};

    fn(ctx, &p);
    free(p.value);
}

static void each_param(const struct description *d, parameter_fn fn, void *ctx)
{
    for (size_t i = 0; d->table != NULL && i < d->table->n; i++)
        visit_parameter("env.params", &d->table->fields[i], d->params, fn, ctx);
}

/* Visits env.params and, for particle worlds, env.rules and env.actions. */
static void each_parameter(const struct description *d, parameter_fn fn, void *ctx)
{
    const struct schema *env = schema_find(&run_schema, "env")->schema;

    if (d->spec->agents[0].space.particle) {
        visit_parameter("env", schema_find(env, "rules"), d->config, fn, ctx);
        visit_parameter("env", schema_find(env, "actions"), d->config, fn, ctx);
    }
    each_param(d, fn, ctx);
}

static const char *const kind_names[] = {
    [SPACE_DISCRETE] = "discrete", [SPACE_BOX] = "continuous", [SPACE_HYBRID] = "hybrid"};

/* ---- for people ---- */

static void print_agents(const struct env_spec *spec)
{
    for (size_t a = 0; a < spec->n_agents;) {
        const struct env_agent *agent = &spec->agents[a];
        const struct action_space *s = &agent->space;
        size_t n = 1; /* agents in a row that are of its team */

        while (a + n < spec->n_agents && strcmp(agent[n].team, agent->team) == 0)
            n++;
        (void)printf("  %-6s  %zu %s: observation %d, action ", a == 0 ? "agents" : "", n,
                     agent->team, (int)agent->obs_width);
        for (int h = 0; h < s->n_heads && s->kind != SPACE_BOX; h++)
            (void)printf("%d%s", (int)s->heads[h], h + 1 < s->n_heads ? "+" : "");
        if (s->kind == SPACE_HYBRID)
            (void)printf(" beside ");
        if (s->kind != SPACE_DISCRETE)
            (void)printf("%d", (int)(s->width - space_first_number(s)));
        (void)printf(", %s\n", kind_names[s->kind]);
        a += n;
    }
}

static void print_metrics(const struct description *d, int is_whole)
{
    const struct env_metric *m = d->table != NULL ? env_metrics(d->id) : NULL;

    if (m == NULL)
        return;
    if (!is_whole)
        (void)printf("  metrics ");
    for (int n = 0; m->name != NULL; m++, n++) {
        if (is_whole)
            (void)printf("  %s %-25s %s (%s)\n", n == 0 ? "metrics" : "       ", m->name,
                         m->doc,
                         m->at_end ? "at the end of an episode" : "mean of its steps");
        else
            (void)printf("%s%s", n > 0 ? ", " : "", m->name);
    }
    if (!is_whole)
        (void)putchar('\n');
}

static void print_short(void *ctx, const struct parameter *p)
{
    int *n = ctx;

    (void)printf("%s%s: %s", (*n)++ == 0 ? "  params  " : ", ", p->field->key, p->value);
}

static void print_long(void *ctx, const struct parameter *p)
{
    const char *standard = p->field->default_text;
    const int is_other = strcmp(p->value, standard) != 0;
    char *key = xasprintf("%s.%s", p->section, p->field->key);
    char *bounds = schema_bounds_text(p->field);

    (void)printf("  %-26s %-10s %s", key, p->value, p->field->doc);
    if (*bounds != '\0' || is_other)
        (void)printf(" (%s%s%s%s)", bounds, *bounds != '\0' && is_other ? "; " : "",
                     is_other ? "default " : "", is_other ? standard : "");
    (void)putchar('\n');
    free(bounds);
    free(key);
}

static void print_text(const struct description *d, int is_whole)
{
    int n = 0;

    (void)printf("%-24s %s\n", d->id, d->summary);
    if (!is_whole)
        each_param(d, print_short, &n);
    (void)printf("%s", n > 0 ? "\n" : "");
    print_agents(d->spec);
    if (is_whole && d->table == NULL && d->config->env.params != NULL) {
        (void)printf("  params  "); /* passed to an external environment */
        yaml_tree_write(d->config->env.params, stdout);
        (void)putchar('\n');
    }
    print_metrics(d, is_whole);
    if (is_whole)
        each_parameter(d, print_long, NULL);
}

/* ---- for programs ---- */

static void put_text(struct json *j, const struct field *f, const char *text)
{
    if (f->type == FIELD_I64 || f->type == FIELD_F64)
        json_f64(j, strtod(text, NULL));
    else if (f->type == FIELD_BOOL)
        json_bool(j, strcmp(text, "true") == 0);
    else
        json_str(j, text);
}

static void put_value(void *ctx, const struct parameter *p)
{
    json_key(ctx, p->field->key);
    put_text(ctx, p->field, p->value);
}

static void put_parameter(void *ctx, const struct parameter *p)
{
    const struct field *f = p->field;
    char *key = xasprintf("%s.%s", p->section, f->key);

    json_object(ctx);
    json_put_str(ctx, "key", key);
    json_key(ctx, "value"), put_text(ctx, f, p->value);
    json_key(ctx, "default"), put_text(ctx, f, f->default_text);
    if (f->type == FIELD_I64 || f->type == FIELD_F64) {
        json_put_f64(ctx, "min", f->min);
        json_put_f64(ctx, "max", f->max); /* null: none */
    }
    if (f->type == FIELD_ENUM) {
        json_put_array(ctx, "choices");
        for (size_t i = 0; f->names[i] != NULL; i++)
            json_str(ctx, f->names[i]);
        json_close(ctx);
    }
    json_put_str(ctx, "doc", f->doc);
    json_close(ctx);
    free(key);
}

static void print_json(const struct description *d)
{
    const struct env_metric *m = d->table != NULL ? env_metrics(d->id) : NULL;
    struct json j = {0};

    json_object(&j);
    json_put_str(&j, "id", d->id);
    json_put_str(&j, "summary", d->summary);
    json_put_object(&j, "params");
    each_param(d, put_value, &j);
    json_close(&j);
    json_put_array(&j, "parameters");
    each_parameter(d, put_parameter, &j);
    json_close(&j);
    json_put_array(&j, "agents");
    for (size_t a = 0; a < d->spec->n_agents; a++) {
        const struct env_agent *agent = &d->spec->agents[a];
        const struct action_space *s = &agent->space;

        json_object(&j);
        json_put_str(&j, "name", agent->name);
        json_put_i64(&j, "observation", agent->obs_width);
        json_put_i64(&j, "action", s->width);
        json_put_str(&j, "kind", kind_names[s->kind]);
        json_put_array(&j, "heads");
        for (int h = 0; h < s->n_heads && s->kind != SPACE_BOX; h++)
            json_i64(&j, s->heads[h]);
        json_close(&j);
        json_close(&j);
    }
    json_close(&j);
    json_put_array(&j, "metrics");
    for (; m != NULL && m->name != NULL; m++) {
        json_object(&j);
        json_put_str(&j, "name", m->name);
        json_put_str(&j, "doc", m->doc);
        json_put_bool(&j, "at_end", m->at_end);
        json_close(&j);
    }
    json_close(&j);
    json_print(&j, stdout);
}

/* ---- the command ---- */

/* Prints the environment of a configuration. An external one is started and asked for its
 * description. */
static int print_env(const struct cli *cli, const struct run_config *config, int is_whole)
{
    const struct env_info *info = env_info_find(config->env.id);
    struct description d = {.summary = "an external environment", .config = config};
    struct arena arena = ARENA_ZERO;
    struct vec_env *v = NULL;
    struct err err = {0};
    int rc = vec_env_new(&v, &config->env, 0, ENV_DRAWS_TRAINING, 1, &err);

    if (rc == 0 && info != NULL) {
        d.summary = info->summary;
        d.table = info->params;
        rc = env_params_read(&config->env, &arena, &d.params, &err);
    }
    if (rc == 0) {
        d.spec = vec_env_spec(v);
        d.id = d.spec->id;
        if (cli->json)
            print_json(&d);
        else
            print_text(&d, is_whole);
    }
    vec_env_free(v);
    arena_done(&arena);
    return rc < 0 ? cli_fail(cli, CLI_USAGE, &err) : CLI_DONE;
}

static int print_id(const struct cli *cli, const char *id, int is_whole)
{
    const struct run_config config = {.env = {.id = id, .max_steps = 1}};

    return print_env(cli, &config, is_whole);
}

static int print_file(const struct cli *cli, const char *path)
{
    const struct config_options options = {.env_names = env_agent_names,
                                           .describe = describe_program,
                                           .dropped = cli_dropped,
                                           .dropped_ctx = (void *)(uintptr_t)cli,
                                           .extends = 1};
    struct run_config config;
    struct err err = {0};
    int code;

    if (run_config_read(&config, path, &options, &err) < 0)
        return cli_fail(cli, CLI_USAGE, &err);
    code = print_env(cli, &config, 1);
    run_config_done(&config);
    return code;
}

static int run_envs(struct cli *cli, void *values, int argc, char **argv)
{
    const struct env_info *info;

    if (argc > 0) {
        const char *word = argv[0]; /* an environment's id, or a configuration file */
        struct err err = {0};

        if (env_info_find(word) != NULL)
            return print_id(cli, word, 1);
        if (access(word, F_OK) == 0)
            return print_file(cli, word);
        (void)err_set(&err, ERR_NOT_FOUND,
                      "there is no environment and no configuration '%.100s'", word);
        (void)env_info_add_nearest(word, &err);
        return cli_usage(cli, "%s", err.msg);
    }
    for (size_t i = 0; (info = env_info_at(i)) != NULL; i++)
        CHECK(print_id(cli, info->id, 0) == CLI_DONE,
              "the default parameters of %s are invalid", info->id);
    if (!cli->json)
        (void)printf("%-24s %s\n%-24s %s\n", "env.command", "an external program",
                     "env.plugin", "an external shared object");
    return CLI_DONE;
}

const struct command cmd_envs = {
    .name = "envs",
    .arguments = "[ID | CONFIG] [options]",
    .one = "environment or configuration",
    .summary = "The environments of this build, their parameters and agents",
    .help =
        "  ID               one environment: its agents, and what each parameter is for\n"
        "                   and may be\n"
        "  CONFIG           the same for the environment of a configuration, which may "
        "be\n"
        "                   an external one, with its values\n"
        "\nexample: brood envs simple_tag\n",
    .run = run_envs,
};
