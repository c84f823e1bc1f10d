/* `brood new`: writes a configuration with all keys that apply, at their defaults, each with
 * the comment that `brood check --help` has for it. */
#include "common/config/algorithms.h"
#include "common/config/run_config.h"
#include "common/config/run_schema.h"
#include "common/config/yaml_tree.h"
#include "common/err/check.h"
#include "common/err/err.h"
#include "common/io/python_folder.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "common/wire/cursor.h"
#include "supervisor/ask/describe.h"
#include "supervisor/begin/trial.h"
#include "supervisor/cli/cli.h"
#include "supervisor/env/env.h"
#include "supervisor/metrics/json.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COMMENT_AT = 36 };

struct request {
    const char *env, *algorithm, *out;
    const char
        *agent; /* the file of an agent of the user's own, to be written; or NULL */
    struct cli_texts sets;
    int force, torch;
};

/* ---- writing ---- */

/* Writes a line "key: value" with the field's comment after it. is_off: the key is
 * commented out. */
static void write_key(FILE *f, const struct field *field, const char *value, int indent,
                      int is_off)
{
    char *line = xasprintf("%*s%s%s:%s%s", indent, "", is_off ? "# " : "", field->key,
                           *value != '\0' ? " " : "", value);

    schema_print_commented(line, field, COMMENT_AT, f);
    free(line);
}

/* Whether the value was derived from other keys, or from the run's length; it is commented
 * out, so that it follows when they are edited. */
static int is_derived(const struct schema *s, const struct field *field)
{
    return s == schema_find(&run_schema, "experience")->schema &&
           (strcmp(field->key, "warmup") == 0 || strcmp(field->key, "update_every") == 0);
}

/* Whether only runs without an environment have the key. */
static int is_of_no_env(const struct schema *s, const struct field *field)
{
    return s == &agent_schema &&
           (strcmp(field->key, "observation") == 0 || strcmp(field->key, "action") == 0);
}

static void write_params(FILE *f, const struct run_config *c)
{
    const struct env_info *info = env_info_find(c->env.id);
    struct arena arena = ARENA_ZERO;
    const void *params;
    struct err err = {0};

    CHECK(env_params_read(&c->env, &arena, &params, &err) == 0, "%s", err.msg);
    if (info->params->n > 0)
        (void)fputs("  params:\n", f);
    for (size_t i = 0; i < info->params->n; i++) {
        const struct field *field = &info->params->fields[i];
        const int is_given = schema_is_given(info->params, params, params, field);
        char *value = is_given
                          ? schema_text_of(field, (const char *)params + field->offset)
                          : xstrdup("");

        write_key(f, field, value, 4, !is_given);
        free(value);
    }
    arena_done(&arena);
}

static void write_section(FILE *f, const struct run_config *c, const struct schema *s,
                          const void *root, const void *base, int indent)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct field *field = &s->fields[i];
        const struct schema *below = schema_below(field, root);
        const void *place = (const char *)base + field->offset;
        const int is_given = schema_is_given(s, root, base, field);
        const int is_off = !is_given || is_derived(s, field);
        const char *fallback = field->default_text != NULL ? field->default_text : "";

        if (field->type == FIELD_RAW || is_of_no_env(s, field) ||
            (s->applies != NULL && !s->applies(root, base, field)))
            continue;
        if (s == schema_find(&run_schema, "env")->schema &&
            strcmp(field->key, "params") == 0) {
            write_params(f, c);
        } else if (below != NULL && is_given) {
            (void)fprintf(f, "%s%*s%s:\n", indent == 0 ? "\n" : "", indent, "",
                          field->key);
            write_section(f, c, below, root, place, indent + 2);
        } else {
            char *value = is_given ? schema_text_of(field, place) : xstrdup(fallback);

            write_key(f, field, value, indent, is_off);
            free(value);
        }
    }
}

static void write_config(FILE *f, const struct run_config *c, const struct request *r)
{
    const struct field *agents = schema_find(&run_schema, "agents");

    (void)fprintf(f, "# %s: %s.\n# %s: %s.\n", r->env, env_info_find(r->env)->summary,
                  c->defaults.algorithm, algorithm_of(&c->defaults)->summary);
    (void)fputs(
        "#\n# All keys that apply, with their defaults. Those behind a # are not "
        "given, or follow from\n# others. `brood check FILE` checks the file, `brood "
        "run FILE` trains.\n",
        f);
    write_section(f, c, &run_schema, c, c, 0);
    (void)fputs("\ndefaults:\n", f);
    write_section(f, c, &agent_schema, &c->defaults, &c->defaults, 2);
    (void)fputc('\n', f);
    write_key(f, agents, "", 0, 0);
    for (size_t i = 0; i < c->n_agents; i++) {
        const struct agent_config *a = &c->agents[i];

        if (!schema_write_map(a->name, &agent_schema, a, &c->defaults, 2, f))
            (void)fprintf(f, "  %s: {}\n", a->name);
    }
}

/* ---- the configuration ---- */

/* Makes the configuration as `brood check` does. An error names the key, not the line of
 * a text that no user sees. */
static int make_config(const struct cli *cli, const struct request *r,
                       struct run_config *ret, struct err *err)
{
    const struct algorithm_info *a = algorithm_find(r->algorithm);
    struct trial trial = {.runs_dir = cli->runs_dir};
    const struct config_options options = {.set = r->sets.text,
                                           .n_set = r->sets.n,
                                           .env_names = env_agent_names,
                                           .describe = describe_program,
                                           .try_agents = trial_agents,
                                           .try_ctx = &trial};
    char *text =
        xasprintf("env:\n  id: %s\n  reward: %s\ndefaults:\n  algorithm: %s\n", r->env,
                  a != NULL && a->team_reward ? "team_mean" : "own", r->algorithm);
    struct err why = {0};
    int rc = run_config_parse(ret, text, strlen(text), "new", &options, &why);

    free(text);
    if (rc < 0)
        return err_set(err, why.code, "%s%s%s", why.key, *why.key != '\0' ? ": " : "",
                       err_cause(&why));
    return 0;
}

static int write_file(const struct request *r, const char *text, struct err *err)
{
    FILE *f;
    int failed;

    if (r->force)
        return cli_write_file(r->out, text, strlen(text), err);
    f = fopen(r->out, "wxe");
    if (f == NULL && errno == EEXIST)
        return err_set(err, ERR_EXISTS, "%s exists already; --force replaces it", r->out);
    if (f == NULL)
        return err_errno(err, "%s", r->out);
    failed = fputs(text, f) < 0;
    failed |= fclose(f) != 0;
    if (!failed)
        return 0;
    (void)err_errno(err, "%s", r->out);
    (void)unlink(r->out);
    return err->code;
}

static void print_json(const struct request *r, const char *text)
{
    struct json j = {0};

    json_object(&j);
    json_put_str(&j, "env", r->env);
    json_put_str(&j, "algorithm", r->algorithm);
    json_put_str(&j, "file", r->out);
    if (r->out == NULL)
        json_put_str(&j, "text", text);
    json_print(&j, stdout);
}

/* ---- an agent of one's own to start from, and its configuration ----
 *
 * The files to start from are scripts/python/starts: programs whose class is named Starting. */

enum { AGENT_COMMENT_AT = 40, MAX_BYTES = 1 << 20 };
/* Steps between updates: with actions that are numbers, they are the rows of a window. */
enum { BETWEEN = 256, WINDOW = 1600 };

static const char class_name[] = "Starting", file_name[] = "starting";

/* The values that the configuration has, with those of --set. Their comments are those of `brood
 * check --help`. */
static int make_tree(const struct request *a, int is_box, struct arena *arena,
                     struct yaml_node **ret, struct err *err)
{
    char *text =
        xasprintf("env:\n  id: %s\n  copies: 32\n"
                  "run:\n  env_steps: 300000\n"
                  "experience:\n  batch_size: 128\n  warmup: 5000\n  update_every: %d\n"
                  "evaluation:\n  every_env_steps: 50000\n  episodes: 50\n"
                  "defaults:\n  algorithm: program\n  command: [python3, \"%s\"]\n"
                  "  settings: {%s}\n  discount: 0.95\n  actor: {hidden: [64]}\n"
                  "  optimizer: {learning_rate: 0.003}\n",
                  a->env, is_box ? WINDOW : BETWEEN, text_base_name(a->agent),
                  is_box ? "deviation: 0.5" : "epsilon: 1 to 0.05 over 100000");
    int rc = yaml_tree_parse(ret, arena, arena_strdup(arena, text), strlen(text), "new",
                             0, err);

    free(text);
    for (size_t i = 0; i < a->sets.n && rc == 0; i++)
        rc = yaml_tree_set(*ret, arena, "--set ", a->sets.text[i], err);
    return rc;
}

static void write_tree(const struct yaml_node *root, FILE *f)
{
    for (size_t i = 0; i < root->n; i++) {
        const struct yaml_node *section = root->child[i];
        const struct field *field = schema_find(&run_schema, section->key);

        if (section->kind != YAML_MAP) {
            (void)fprintf(f, "%s: ", section->key);
            yaml_tree_write(section, f);
            (void)fputc('\n', f);
            continue;
        }
        (void)fprintf(f, "\n%s:\n", section->key);
        for (size_t k = 0; k < section->n; k++) {
            const struct yaml_node *n = section->child[k];
            struct xstream text;
            char *line;

            (void)fprintf(xstream_begin(&text), "  %s: ", n->key);
            yaml_tree_write(n, text.f);
            line = xstream_end(&text);
            schema_print_commented(
                line, field != NULL ? schema_find(field->schema, n->key) : NULL,
                AGENT_COMMENT_AT, f);
            free(line);
        }
    }
}

/* Whether the environment, with the values of --set, has actions that are numbers. */
static int look_at_env(const struct request *a, int *ret_is_box, struct err *err)
{
    const struct config_options options = {.env_names = env_agent_names};
    struct arena arena = ARENA_ZERO;
    struct yaml_node *root, *env;
    struct run_config c = {0};
    struct vec_env *v = NULL;
    struct xstream text;
    char *yaml = NULL;
    int rc = make_tree(a, 0, &arena, &root, err);

    if (rc == 0 && (env = yaml_find(root, "env")) != NULL) {
        (void)fputs("defaults: {algorithm: random}\nenv: ", xstream_begin(&text));
        yaml_tree_write(env, text.f);
        yaml = xstream_end(&text);
        rc = run_config_parse(&c, yaml, strlen(yaml), "new", &options, err);
    }
    if (rc == 0)
        rc = vec_env_new(&v, &c.env, 0, ENV_DRAWS_TRAINING, 1, err);
    if (rc == 0)
        *ret_is_box = vec_env_spec(v)->agents[0].space.kind == SPACE_BOX;
    vec_env_free(v);
    run_config_done(&c);
    free(yaml);
    arena_done(&arena);
    return rc;
}

/* "my_agent.py" -> "MyAgent". free(). */
static char *class_of(const char *file)
{
    const char *p = text_base_name(file);
    char *ret = xstrdup(p);
    size_t n = 0;
    int is_first = 1;

    for (; *p != '\0' && *p != '.'; p++) {
        if (isalnum((unsigned char)*p))
            ret[n++] = is_first ? (char)toupper((unsigned char)*p) : *p;
        is_first = !isalnum((unsigned char)*p);
    }
    ret[n] = '\0';
    return ret;
}

/* Writes the text with `name` and `stem` in place of the names in the file to start from. */
static void write_renamed(const char *text, const char *name, const char *stem, FILE *f)
{
    const size_t n = sizeof(class_name) - 1;

    while (*text != '\0') {
        if (strncmp(text, class_name, n) == 0) {
            (void)fputs(name, f);
            text += n;
        } else if (strncmp(text, file_name, n) == 0) {
            (void)fputs(stem, f);
            text += n;
        } else {
            (void)fputc(*text++, f);
        }
    }
}

static int refuse_existing(const struct request *a, const char *path, struct err *err)
{
    if (!a->force && access(path, F_OK) == 0)
        return err_set(err, ERR_EXISTS, "%s exists already; --force replaces it", path);
    return 0;
}

static int write_agent(const struct request *a, const char *stem, int is_box,
                       struct err *err)
{
    char *folder = python_folder();
    char *path = xasprintf("%s/starts/%s%s.py", folder,
                           is_box ? "continuous" : "discrete", a->torch ? "_torch" : "");
    struct wbuf start = {0};
    struct xstream text;
    int rc = wbuf_read_file(&start, path, MAX_BYTES, err);

    if (rc == 0) {
        char *name = class_of(a->agent), *whole;

        wbuf_reserve(&start, 1);
        start.data[start.len] = '\0';
        write_renamed((const char *)start.data, name, text_base_name(stem),
                      xstream_begin(&text));
        whole = xstream_end(&text);
        rc = cli_write_file(a->agent, whole, strlen(whole), err);
        free(whole);
        free(name);
    }
    wbuf_done(&start);
    free(path);
    free(folder);
    return rc;
}

static int write_agent_config(const struct request *a, const char *path, int is_box,
                              struct err *err)
{
    struct arena arena = ARENA_ZERO;
    struct yaml_node *root;
    struct xstream text;
    char *whole;
    int rc = make_tree(a, is_box, &arena, &root, err);

    if (rc == 0) {
        (void)fprintf(xstream_begin(&text),
                      "# %s: %s.\n# Its agents are %s, which `brood agent-check` tries. "
                      "`brood check --help` lists all keys.\n",
                      a->env, env_info_find(a->env)->summary, a->agent);
        write_tree(root, text.f);
        whole = xstream_end(&text);
        rc = cli_write_file(path, whole, strlen(whole), err);
        free(whole);
    }
    arena_done(&arena);
    return rc;
}

/* Writes the file, for the kind of actions that the environment has with these values, and beside it
 * the configuration: *ret_config, free(). ERR_CONFIG; ERR_EXISTS: neither is written. */
static int write_both(const struct request *a, char **ret_config, struct err *err)
{
    const size_t n = strlen(a->agent);
    char *stem, *config, *name = class_of(a->agent);
    int is_box = 0, rc = 0;

    *ret_config = NULL;
    if (!text_ends_with(a->agent, ".py") || !isalpha((unsigned char)*name))
        rc = err_set(err, ERR_CONFIG, "--agent %s: a name such as my_agent.py expected",
                     a->agent);
    free(name);
    if (rc < 0)
        return rc;
    stem = xasprintf("%.*s", (int)(n - 3), a->agent);
    config = xasprintf("%s.yaml", stem);
    rc = look_at_env(a, &is_box, err);
    if (rc == 0)
        rc = refuse_existing(a, a->agent, err);
    if (rc == 0)
        rc = refuse_existing(a, config, err);
    if (rc == 0)
        rc = write_agent(a, stem, is_box, err);
    if (rc == 0)
        rc = write_agent_config(a, config, is_box, err);
    free(stem);
    if (rc < 0)
        free(config);
    else
        *ret_config = config;
    return rc;
}

static int write_own(const struct cli *cli, const struct request *r)
{
    struct err err = {0};
    struct json j = {0};
    char *config;
    const int rc = write_both(r, &config, &err);

    if (rc < 0)
        return cli_fail(cli, rc == ERR_EXISTS ? CLI_USAGE : cli_code(CLI_USAGE, &err),
                        &err);
    if (cli->json) {
        json_object(&j);
        json_put_str(&j, "env", r->env);
        json_put_str(&j, "algorithm", "program");
        json_put_str(&j, "file", config);
        json_put_str(&j, "agent", r->agent);
        json_print(&j, stdout);
    } else if (!cli->quiet) {
        (void)printf("%s and %s were written; next: brood agent-check %s, brood run %s\n",
                     r->agent, config, r->agent, config);
    }
    free(config);
    return CLI_DONE;
}

static int run_new(struct cli *cli, void *values, int argc, char **argv)
{
    struct request *r = values;
    struct run_config c = {0};
    struct err err = {0};
    struct xstream stream;
    char *text;
    int code = CLI_DONE, rc;

    if (argc != 1)
        return cli_usage(cli, "expected the name of one environment");
    r->env = argv[0];
    if (!schema_is_name(r->env) || env_info_find(r->env) == NULL) {
        (void)err_set(&err, ERR_CONFIG, "there is no environment '%.100s'", r->env);
        (void)env_info_add_nearest(r->env, &err);
        return cli_fail(cli, CLI_USAGE, &err);
    }
    if (r->agent != NULL && (r->algorithm != NULL || r->out != NULL))
        return cli_usage(cli, "--agent: expected neither --algorithm nor --out with it");
    if (r->torch && r->agent == NULL)
        return cli_usage(cli, "--torch: expected --agent FILE.py with it");
    if (r->agent != NULL)
        return write_own(cli, r);
    if (r->algorithm == NULL)
        r->algorithm = algorithm_default()->name;
    if (!schema_is_name(r->algorithm))
        return cli_usage(cli, "--algorithm: expected " SCHEMA_NAME_EXPECTED);
    if (make_config(cli, r, &c, &err) < 0)
        return cli_fail(cli, CLI_USAGE, &err);
    write_config(xstream_begin(&stream), &c, r);
    text = xstream_end(&stream);
    rc = r->out != NULL ? write_file(r, text, &err) : 0;
    if (rc < 0)
        code = cli_fail(cli, rc == ERR_EXISTS ? CLI_USAGE : CLI_FAILED, &err);
    else if (cli->json)
        print_json(r, text);
    else if (r->out == NULL)
        (void)fputs(text, stdout);
    else if (!cli->quiet)
        (void)printf("%s was written\n", r->out);
    free(text);
    run_config_done(&c);
    return code;
}

static const struct cli_option options[] = {
    {"algorithm", "A", "that all agents learn with (see brood algorithms)",
     CLI_TEXT(struct request, algorithm)},
    {"agent", "FILE.py",
     "write an agent to start from, which learns with the environment's\n"
     "kind of actions, and beside it FILE.yaml",
     CLI_TEXT(struct request, agent)},
    {"torch", NULL, "with PyTorch, not NumPy", CLI_FLAG(struct request, torch)},
    {"out", "FILE", "write it there, not to stdout", CLI_TEXT(struct request, out)},
    {"force", NULL, "replace FILE if it exists", CLI_FLAG(struct request, force)},
    {"set", "KEY=VALUE", "with this value (repeatable)", CLI_TEXTS(struct request, sets)},
    {0}};

const struct command cmd_new = {
    .name = "new",
    .arguments = "ENV [options]",
    .summary =
        "Write a commented configuration for an environment, or an agent to start from",
    .options = options,
    CLI_INTO(struct request, 0),
    .help =
        "\n`brood envs` lists the environments, `brood algorithms` the algorithms. The\n"
        "configuration has every key that applies, with its default.\n"
        "\nexample: brood new simple_spread --algorithm mappo --out spread.yaml\n"
        "         brood new simple_spread --agent my_agent.py\n",
    .run = run_new,
};
