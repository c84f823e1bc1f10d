/* The agents to start from are scripts/python/starts: programs whose class is named Starting. */
#include "supervisor/cli/new_agent.h"

#include "common/config/run_config.h"
#include "common/config/run_schema.h"
#include "common/config/yaml_tree.h"
#include "common/io/python_folder.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "common/wire/cursor.h"
#include "supervisor/cli/cli.h"
#include "supervisor/env/env.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COMMENT_AT = 40, MAX_BYTES = 1 << 20 };
/* Steps between updates: with actions that are numbers, they are the rows of a window. */
enum { BETWEEN = 256, WINDOW = 1600 };

static const char class_name[] = "Starting", file_name[] = "starting";

/* ---- the configuration ---- */

/* The values that it has; their comments are those of `brood check --help`. */
static char *first_values(const struct new_agent *a, int is_box)
{
    const char *slash = strrchr(a->file, '/');

    return xasprintf(
        "env:\n  id: %s\n  copies: 32\n"
        "run:\n  env_steps: 300000\n"
        "experience:\n  batch_size: 128\n  warmup: 5000\n  update_every: %d\n"
        "evaluation:\n  every_env_steps: 50000\n  episodes: 50\n"
        "defaults:\n  algorithm: program\n  command: [python3, \"%s\"]\n"
        "  settings: {%s}\n  discount: 0.95\n  actor: {hidden: [64]}\n"
        "  optimizer: {learning_rate: 0.003}\n",
        a->env, is_box ? WINDOW : BETWEEN, slash != NULL ? slash + 1 : a->file,
        is_box ? "deviation: 0.5" : "epsilon: 1 to 0.05 over 100000");
}

/* The values with those of --set. */
static int make_tree(const struct new_agent *a, int is_box, struct arena *arena,
                     struct yaml_node **ret, struct err *err)
{
    char *text = first_values(a, is_box);
    int rc = yaml_tree_parse(ret, arena, arena_strdup(arena, text), strlen(text), "new",
                             0, err);

    free(text);
    for (size_t i = 0; i < a->n_set && rc == 0; i++)
        rc = yaml_tree_set(*ret, arena, "--set ", a->set[i], err);
    return rc;
}

static void write_value(const struct schema *s, const struct yaml_node *n, FILE *f)
{
    const struct field *field = s != NULL ? schema_find(s, n->key) : NULL;
    struct xstream text;
    char *line;

    (void)fprintf(xstream_begin(&text), "  %s: ", n->key);
    yaml_tree_write(n, text.f);
    line = xstream_end(&text);
    schema_print_commented(line, field, COMMENT_AT, f);
    free(line);
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
        for (size_t k = 0; k < section->n; k++)
            write_value(field != NULL ? field->schema : NULL, section->child[k], f);
    }
}

/* Whether the environment, with the values of --set, has actions that are numbers. */
static int look_at_env(const struct new_agent *a, int *ret_is_box, struct err *err)
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

/* ---- the agent ---- */

/* "my_agent.py" -> "MyAgent". free(). */
static char *class_of(const char *file)
{
    const char *slash = strrchr(file, '/'), *p = slash != NULL ? slash + 1 : file;
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

static int read_start(const struct new_agent *a, int is_box, struct wbuf *ret,
                      struct err *err)
{
    char *folder = python_folder();
    char *path = xasprintf("%s/starts/%s%s.py", folder,
                           is_box ? "continuous" : "discrete", a->torch ? "_torch" : "");
    const int rc = wbuf_read_file(ret, path, MAX_BYTES, err);

    free(path);
    free(folder);
    return rc;
}

static int refuse_existing(const struct new_agent *a, const char *path, struct err *err)
{
    if (!a->force && access(path, F_OK) == 0)
        return err_set(err, ERR_EXISTS, "%s exists already; --force replaces it", path);
    return 0;
}

static int write_agent(const struct new_agent *a, const char *stem, int is_box,
                       struct err *err)
{
    const char *slash = strrchr(stem, '/');
    struct wbuf start = {0};
    struct xstream text;
    int rc = read_start(a, is_box, &start, err);

    if (rc == 0) {
        char *name = class_of(a->file), *whole;

        wbuf_reserve(&start, 1);
        start.data[start.len] = '\0';
        write_renamed((const char *)start.data, name, slash != NULL ? slash + 1 : stem,
                      xstream_begin(&text));
        whole = xstream_end(&text);
        rc = cli_write_file(a->file, whole, strlen(whole), err);
        free(whole);
        free(name);
    }
    wbuf_done(&start);
    return rc;
}

static int write_config(const struct new_agent *a, const char *path, int is_box,
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
                      a->env, env_info_find(a->env)->summary, a->file);
        write_tree(root, text.f);
        whole = xstream_end(&text);
        rc = cli_write_file(path, whole, strlen(whole), err);
        free(whole);
    }
    arena_done(&arena);
    return rc;
}

int new_agent_write(const struct new_agent *a, char **ret_config, struct err *err)
{
    const size_t n = strlen(a->file);
    char *stem, *config, *name = class_of(a->file);
    int is_box = 0, rc = 0;

    *ret_config = NULL;
    if (!text_ends_with(a->file, ".py") || !isalpha((unsigned char)*name))
        rc = err_set(err, ERR_CONFIG, "--agent %s: a name such as my_agent.py expected",
                     a->file);
    free(name);
    if (rc < 0)
        return rc;
    stem = xasprintf("%.*s", (int)(n - 3), a->file);
    config = xasprintf("%s.yaml", stem);
    rc = look_at_env(a, &is_box, err);
    if (rc == 0)
        rc = refuse_existing(a, a->file, err);
    if (rc == 0)
        rc = refuse_existing(a, config, err);
    if (rc == 0)
        rc = write_agent(a, stem, is_box, err);
    if (rc == 0)
        rc = write_config(a, config, is_box, err);
    free(stem);
    if (rc < 0)
        free(config);
    else
        *ret_config = config;
    return rc;
}
