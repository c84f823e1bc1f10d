#include "common/err/check.h"
#include "supervisor/cli/cli.h"
#include "supervisor/env/env.h"
#include "supervisor/metrics/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The agents of first's kind that follow each other, itself included. */
static size_t count_alike(const struct env_spec *spec, size_t first)
{
    size_t n = 1;

    while (first + n < spec->n_agents &&
           strcmp(spec->agents[first + n].team, spec->agents[first].team) == 0)
        n++;
    return n;
}

static void print_agents(const struct env_spec *spec)
{
    for (size_t a = 0; a < spec->n_agents;) {
        const struct env_agent *agent = &spec->agents[a];
        size_t n = count_alike(spec, a);

        (void)printf("  %-6s  %zu %s: observation %d, action %d\n",
                     a == 0 ? "agents" : "", n, agent->team, (int)agent->obs_width,
                     (int)agent->space.width);
        a += n;
    }
}

static void print_text(const struct env_info *info, const struct env_spec *spec)
{
    (void)printf("%-24s %s\n", info->id, info->summary);
    for (size_t i = 0; i < info->params->n; i++)
        (void)printf("%s%s: %s", i == 0 ? "  params  " : ", ",
                     info->params->fields[i].key, info->params->fields[i].default_text);
    (void)printf("%s", info->params->n > 0 ? "\n" : "");
    print_agents(spec);
}

static void put_agent(struct json *j, const struct env_agent *agent)
{
    json_object(j);
    json_key(j, "name");
    json_str(j, agent->name);
    json_key(j, "observation");
    json_i64(j, agent->obs_width);
    json_key(j, "action");
    json_i64(j, agent->space.width);
    json_close(j);
}

static void put_default(struct json *j, const struct field *f)
{
    if (f->type == FIELD_I64 || f->type == FIELD_F64)
        json_f64(j, strtod(f->default_text, NULL));
    else if (f->type == FIELD_BOOL)
        json_bool(j, strcmp(f->default_text, "true") == 0);
    else
        json_str(j, f->default_text);
}

static void print_json(const struct env_info *info, const struct env_spec *spec)
{
    struct json j = {0};
    const char *line;
    size_t len;

    json_begin(&j);
    json_object(&j);
    json_key(&j, "id");
    json_str(&j, info->id);
    json_key(&j, "summary");
    json_str(&j, info->summary);
    json_key(&j, "params");
    json_object(&j);
    for (size_t i = 0; i < info->params->n; i++) {
        json_key(&j, info->params->fields[i].key);
        put_default(&j, &info->params->fields[i]);
    }
    json_close(&j);
    json_key(&j, "agents");
    json_array(&j);
    for (size_t a = 0; a < spec->n_agents; a++)
        put_agent(&j, &spec->agents[a]);
    json_close(&j);
    json_close(&j);
    line = json_line(&j, &len);
    (void)fwrite(line, 1, len, stdout);
    json_done(&j);
}

/* That of a configuration: ours, or one of others', which is asked. */
static int print_own(const struct cli *cli, const char *path)
{
    static const struct schema no_params = {.n = 0};
    const struct config_options options = {.env_names = env_agent_names};
    struct env_info info = {.summary = "an environment of others'", .params = &no_params};
    struct run_config config;
    struct vec_env *v = NULL;
    struct err err = {0};

    if (run_config_read(&config, path, &options, &err) < 0)
        return cli_fail(cli, CLI_USAGE, &err);
    if (vec_env_new(&v, &config.env, 0, ENV_DRAWS_TRAINING, 1, &err) < 0) {
        run_config_done(&config);
        return cli_fail(cli, CLI_USAGE, &err);
    }
    if (env_info_find(config.env.id) != NULL)
        info = *env_info_find(config.env.id);
    info.id = vec_env_spec(v)->id;
    if (cli->json)
        print_json(&info, vec_env_spec(v));
    else
        print_text(&info, vec_env_spec(v));
    vec_env_free(v);
    run_config_done(&config);
    return CLI_DONE;
}

static int run_envs(struct cli *cli, int argc, char **argv)
{
    const struct env_info *info;
    int code;

    if (cli_option(cli, argc, argv, NULL, &code) == CLI_OPTION_EXIT)
        return code;
    if (argc - optind > 1)
        return cli_usage(cli, "one configuration is wanted, %d are given", argc - optind);
    if (optind < argc)
        return print_own(cli, argv[optind]);
    for (size_t i = 0; (info = env_info_at(i)) != NULL; i++) {
        struct env_config config = {.id = info->id, .max_steps = 1};
        struct vec_env *v;
        int rc = vec_env_new(&v, &config, 0, ENV_DRAWS_TRAINING, 1, NULL);

        CHECK(rc == 0, "the defaults of %s make no world", info->id);
        if (cli->json)
            print_json(info, vec_env_spec(v));
        else
            print_text(info, vec_env_spec(v));
        vec_env_free(v);
    }
    if (!cli->json)
        (void)printf("%-24s %s\n%-24s %s\n", "env.command", "a program of others'",
                     "env.plugin", "a shared object of others'");
    return CLI_DONE;
}

const struct command cmd_envs = {
    .name = "envs",
    .arguments = "[CONFIG] [options]",
    .summary = "The environments of this build, their parameters and agents",
    .help =
        "  CONFIG           the one of a configuration, also an environment of others'\n"
        "\nexample: brood envs configs/hallway.yaml\n",
    .run = run_envs,
};
