/* The section `on`, and what it shares with env.command: checking commands and the
 * directory in which they start. */
#include "common/config/run_schema.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_WORDS = 60 }; /* in one command */

int command_check_words(const struct yaml_node *command, const char *path,
                        struct err *err)
{
    if (command->n <= MAX_WORDS)
        return 0;
    return yaml_fail(command, path, err, "found %zu words, expected at most %d",
                     command->n, MAX_WORDS);
}

int command_complete_directory(const char **directory, struct arena *arena,
                               const struct yaml_node *given, const char *path,
                               struct err *err)
{
    char *here;

    if (*directory != NULL && **directory != '/')
        return yaml_fail(given, path, err,
                         "found '%.100s', expected a path that begins with /",
                         *directory);
    if (*directory != NULL)
        return 0;
    here = getcwd(NULL, 0);
    if (here == NULL)
        return err_errno(err, "the working directory");
    *directory = arena_strdup(arena, here);
    free(here);
    return 0;
}

const struct yaml_node *hooks_config_command(const struct hooks_config *c,
                                             const struct field *f)
{
    const struct yaml_node *command = NULL;

    if (f->type == FIELD_WORDS)
        memcpy(&command, (const char *)c + f->offset, sizeof(command));
    return command;
}

/* Calls fn with each command of the section and the path of its key. */
static int each_command(const struct run_config *c,
                        int (*fn)(const struct run_config *c,
                                  const struct yaml_node *command, const char *path,
                                  struct err *err),
                        struct err *err)
{
    int rc = 0;

    for (size_t i = 0; c->has_hooks && i < hooks_schema.n && rc == 0; i++) {
        const struct field *f = &hooks_schema.fields[i];
        const struct yaml_node *command = hooks_config_command(&c->hooks, f);
        char path[64];

        if (command == NULL)
            continue;
        (void)snprintf(path, sizeof(path), "on.%.48s", f->key);
        rc = fn(c, command, path, err);
    }
    return rc;
}

static int check_words(const struct run_config *c, const struct yaml_node *command,
                       const char *path, struct err *err)
{
    return command_check_words(command, path, err);
}

int hooks_config_complete(struct run_config *c, const struct yaml_node *root,
                          struct err *err)
{
    const struct yaml_node *on = yaml_find(root, "on");
    int rc;

    if (!c->has_hooks)
        return 0;
    rc = command_complete_directory(&c->hooks.directory, &c->arena,
                                    yaml_find(on, "directory"), "on.directory", err);
    return rc < 0 ? rc : each_command(c, check_words, err);
}

/* Whether folder/name is an executable file; a relative folder is below `directory`. */
static int is_program(const char *directory, const char *folder, size_t folder_len,
                      const char *name)
{
    const int is_absolute = folder_len > 0 ? *folder == '/' : *name == '/';
    char path[2 * PATH_MAX];
    struct stat st;

    (void)snprintf(path, sizeof(path), "%s%s%.*s%s%s", is_absolute ? "" : directory,
                   is_absolute ? "" : "/", (int)folder_len, folder,
                   folder_len > 0 ? "/" : "", name);
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

int command_is_on_path(const char *directory, const char *name)
{
    const char *path = getenv("PATH");
    size_t n;

    for (path = path != NULL ? path : "/bin:/usr/bin"; *path != '\0'; path += n) {
        path += *path == ':';
        n = strcspn(path, ":");
        if (is_program(directory, path, n, name))
            return 1;
    }
    return 0;
}

static int find_program(const struct run_config *c, const struct yaml_node *command,
                        const char *path, struct err *err)
{
    const char *name = command->child[0]->text, *directory = c->hooks.directory;

    if (strchr(name, '/') == NULL && !command_is_on_path(directory, name))
        return yaml_fail(command, path, err,
                         "found '%.100s', expected a program: PATH has none of that name",
                         name);
    if (strchr(name, '/') != NULL && !is_program(directory, "", 0, name))
        return yaml_fail(command, path, err,
                         "found '%.100s', expected a program: there is no executable "
                         "file of that name in %s",
                         name, *name == '/' ? "that place" : directory);
    return 0;
}

int hooks_config_find(const struct run_config *c, struct err *err)
{
    return each_command(c, find_program, err);
}
