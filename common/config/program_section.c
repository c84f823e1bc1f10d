/* The keys of an agent that is a program, and what the program says of itself. */
#include "common/config/algorithms.h"
#include "common/config/loader.h"
#include "common/config/run_schema.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The folder of the file that names the program, absolute. */
static int find_directory(const struct yaml_node *command, struct arena *arena,
                          const char **ret, struct err *err)
{
    const char *file = command->line > 0 ? command->place : ""; /* an option: here */
    const char *slash = strrchr(file, '/');
    char *folder = arena_strndup(arena, file, slash != NULL ? slash - file : 0);
    char whole[PATH_MAX];

    if (realpath(*folder != '\0' ? folder : ".", whole) == NULL)
        return err_errno(err, "the folder of %s", file);
    *ret = arena_strdup(arena, whole);
    return 0;
}

struct placing {
    struct arena *arena;
    struct err *err;
};

/* Adds the directory to a section that names a program without one. */
static int place_program(void *ctx, struct yaml_node *section, const char *path)
{
    const struct placing *p = ctx;
    const struct yaml_node *command = yaml_find(section, "command");
    struct yaml_node directory = {.kind = YAML_SCALAR, .quoted = 1};
    int rc;

    if (command == NULL || yaml_find(section, "directory") != NULL)
        return 0;
    rc = find_directory(command, p->arena, &directory.text, p->err);
    if (rc < 0)
        return rc;
    directory.place = command->place;
    directory.line = command->line;
    yaml_add(section, yaml_as(&directory, "directory", p->arena), p->arena);
    return 0;
}

int loader_place_programs(struct yaml_node *root, struct arena *arena, struct err *err)
{
    return loader_each_section(root, arena, place_program, &(struct placing){arena, err});
}

/* Reads the keys that say what the program is. Returns 1 if any is given. */
static int read_program(const struct loader *l, const struct yaml_node *section,
                        const char *path, struct agent_config *a)
{
    struct yaml_node own = {.kind = YAML_MAP};
    int rc;

    own.child = ARENA_ARRAY(&l->c->arena, struct yaml_node *, section->n);
    for (size_t i = 0; section->kind == YAML_MAP && i < section->n; i++) {
        const struct field *f = schema_find(&agent_schema, section->child[i]->key);

        if (f != NULL && f->flags & FIELD_PROGRAM)
            own.child[own.n++] = section->child[i];
    }
    rc = schema_read(&agent_schema, &own, path, a, &l->c->arena, l->err);
    return rc < 0 ? rc : own.n > 0;
}

/* The key that only a program has; NULL: the section says no more than that it is none, as the
 * file of a run does where the defaults are those of a program. */
static const char *key_of_programs(const struct agent_config *a)
{
    const struct confine_config *may = &a->confine;

    return a->command != NULL                                           ? "command"
           : a->environment != NULL                                     ? "environment"
           : a->sources != NULL                                         ? "sources"
           : a->threads != 0                                            ? "threads"
           : a->is_inexact                                              ? "exact"
           : may->threads || may->files != NULL || may->devices != NULL ? "confine"
                                                                        : NULL;
}

int program_section_drop(const struct loader *l, const struct yaml_node *section,
                         const char *path, struct agent_config *a)
{
    struct agent_config given = {0};
    const int rc = read_program(l, section, path, &given);
    const char *key = key_of_programs(&given);

    if (rc < 0)
        return rc;
    if (key != NULL)
        return yaml_fail(yaml_find(section, key), loader_path(l, "%s.%s", path, key),
                         l->err, "%s has no %s, expected algorithm: %s",
                         a->algorithm != NULL ? a->algorithm : algorithm_default()->name,
                         key, ALGORITHM_PROGRAM);
    a->command = a->environment = a->sources = NULL;
    a->directory = a->program = NULL;
    a->threads = a->is_inexact = 0;
    a->confine = (struct confine_config){0};
    a->policy = (struct policy_config){0};
    return 0;
}

/* Finds the program's description: the run keeps it, or the program is asked. */
static int describe(const struct loader *l, const struct yaml_node *section,
                    const char *path, struct agent_config *a)
{
    const struct yaml_node *command = yaml_find(section, "command");
    const struct algorithm_info *info = NULL;
    struct err why = {0};
    char *kept = NULL;
    const char *slash = l->name != NULL ? strrchr(l->name, '/') : NULL;
    const char *folder = slash != NULL ? l->name : ".";
    int rc = ERR_NOT_FOUND;

    if (a->program != NULL) {
        if (l->name != NULL)
            kept =
                xasprintf("%.*s/programs/%s", slash != NULL ? (int)(slash - folder) : 1,
                          folder, a->program);
        rc = algorithm_load(&info, a->program, kept, &why);
        free(kept);
    }
    if (rc < 0 && l->options != NULL && l->options->no_start) {
        info = algorithm_unknown();
        rc = 0;
    } else if (rc < 0 && l->options != NULL && l->options->describe != NULL) {
        why = (struct err){0};
        rc = l->options->describe(l->options->describe_ctx, a, &l->c->arena, &info, &why);
    } else if (rc == ERR_NOT_FOUND) {
        (void)err_set(&why, rc, "what the program is, is not known here");
    }
    if (rc == 0) {
        agent_section_take_as(a, a->policy.from != NULL ? info->as_policy : info,
                              &l->c->arena);
        return 0;
    }
    if (err_is_failure(rc))
        return err_pass(l->err, &why);
    return yaml_fail(command != NULL ? command : section,
                     loader_path(l, "%s.command", path), l->err, "%s", err_cause(&why));
}

int program_section_take(const struct loader *l, const struct yaml_node *section,
                         const char *path, struct agent_config *a)
{
    const int is_known =
        a->settings.of != NULL && a->program != NULL && a->command != NULL;
    const struct yaml_node *command = yaml_find(section, "command");
    const char *where = loader_path(l, "%s.command", path);
    const struct yaml_node *env, *files;
    int rc = read_program(l, section, path, a);

    if (rc < 0 || (rc == 0 && is_known))
        return rc;
    env = a->environment;
    files = a->sources;
    if (a->command == NULL)
        return yaml_fail(section, where, l->err,
                         "not given, expected the words that start the program, such as "
                         "[python3, my_agent.py]");
    if (command_check_words(a->command, where, l->err) < 0)
        return ERR_CONFIG;
    for (size_t i = 0; env != NULL && i < env->n; i++)
        if (env->child[i]->kind != YAML_SCALAR || strchr(env->child[i]->key, '=') != NULL)
            return yaml_fail(
                env->child[i],
                loader_path(l, "%s.environment.%.40s", path, env->child[i]->key), l->err,
                "expected a text");
    for (size_t i = 0; files != NULL && i < files->n; i++)
        if (*files->child[i]->text == '/' || strstr(files->child[i]->text, "..") != NULL)
            return yaml_fail(files->child[i], loader_path(l, "%s.sources", path), l->err,
                             "found '%.100s', expected files of the program's folder",
                             files->child[i]->text);
    if (command != NULL && yaml_find(section, "directory") == NULL)
        rc = find_directory(command, &l->c->arena, &a->directory, l->err);
    else if (a->directory == NULL || *a->directory != '/')
        rc = yaml_fail(yaml_find(section, "directory"), where, l->err,
                       "found '%.100s', expected a path that begins with /",
                       a->directory != NULL ? a->directory : "");
    /* It may be another program. The file of a run has no hash where the defaults' one holds. */
    if (rc >= 0 && l->options != NULL && l->options->describe != NULL &&
        yaml_find(section, "program") == NULL)
        a->program = NULL;
    return rc < 0 ? rc : describe(l, section, path, a);
}
