/* Configuration files, and the files that they extend. */
#include "common/config/loader.h"
#include "common/io/beneath.h"
#include "common/io/own_file.h"
#include "common/mem/xmalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILES = 8 }; /* in a chain of files that extend each other */

/* A file that is being read, and the file that extends it. */
struct chain {
    const struct chain *above;
    const char *path;
    struct stat is;
};

/* The path of a configuration that exists and may have been meant: that with .yaml, in configs/,
 * or one that is installed with brood; free(). NULL: there is none. */
static char *find_meant(const char *path)
{
    char *at[] = {xasprintf("%s.yaml", path), xasprintf("configs/%s", path),
                  xasprintf("configs/%s.yaml", path)};
    const size_t n = sizeof(at) / sizeof(at[0]);
    char *ret = NULL;

    for (size_t i = 0; i < n; i++)
        if (ret == NULL && access(at[i], R_OK) == 0)
            ret = xstrdup(at[i]);
    for (size_t i = 1; i < n; i++)
        if (ret == NULL)
            ret = own_share(at[i]);
    for (size_t i = 0; i < n; i++)
        free(at[i]);
    return ret;
}

static int fail_open(const char *path, struct err *err)
{
    char *meant = errno == ENOENT ? find_meant(path) : NULL;
    int rc;

    if (meant == NULL)
        return err_errno(err, "%.160s", path);
    rc = err_set(err, -ENOENT, "there is no file %.160s; did you mean %.200s?", path,
                 meant);
    free(meant);
    return rc;
}

/* Reads the file; *ret_text: malloc'd. */
static int read_text(struct chain *file, char **ret_text, size_t *ret_len,
                     struct err *err)
{
    FILE *f = beneath_fopen(file->path, "rbe");
    /* one byte more, so that a file that is too long is detected */
    const size_t cap = YAML_MAX_BYTES + 1;
    int rc = 0;

    *ret_text = NULL;
    if (f == NULL)
        return fail_open(file->path, err);
    if (fstat(fileno(f), &file->is) < 0)
        rc = err_errno(err, "%.160s", file->path);
    else if ((*ret_text = malloc(cap)) == NULL)
        rc = err_set(err, ERR_NOMEM, "%.160s: no memory", file->path);
    if (rc == 0) {
        *ret_len = fread(*ret_text, 1, cap, f);
        if (ferror(f))
            rc = err_errno(err, "%.160s", file->path);
    }
    (void)fclose(f);
    if (rc < 0) {
        free(*ret_text);
        *ret_text = NULL;
    }
    return rc;
}

static int check_chain(const struct chain *file, const struct yaml_node *at,
                       struct err *err)
{
    int n = 1;

    for (const struct chain *c = file->above; c != NULL; c = c->above, n++)
        if (c->is.st_dev == file->is.st_dev && c->is.st_ino == file->is.st_ino)
            return yaml_fail(at, "extends", err, "%s would extend itself", c->path);
    if (n > MAX_FILES)
        return yaml_fail(at, "extends", err, "more than %d files extend each other",
                         MAX_FILES);
    return 0;
}

static int resolve(const struct chain *file, struct yaml_node **root, struct arena *arena,
                   struct err *err);

/* Reads the file that `at` names, and those that it extends. */
static int read_base(struct chain *file, const struct yaml_node *at,
                     struct yaml_node **ret, struct arena *arena, struct err *err)
{
    struct err why = {0};
    char *text;
    size_t len = 0;
    int rc = read_text(file, &text, &len, &why);

    if (rc < 0)
        return yaml_fail_since(at, "extends", err, &why);
    rc = check_chain(file, at, err);
    if (rc == 0)
        rc = yaml_tree_parse(ret, arena, text, len, file->path, 1, err);
    free(text);
    if (rc == 0 && (*ret)->kind != YAML_MAP && !yaml_is_null(*ret))
        rc = yaml_fail(*ret, "", err, "expected a map of keys");
    return rc < 0 ? rc : resolve(file, ret, arena, err);
}

static int resolve(const struct chain *file, struct yaml_node **root, struct arena *arena,
                   struct err *err)
{
    struct yaml_node *at = yaml_find(*root, "extends"), *base = NULL;
    const char *slash = strrchr(file->path, '/');
    struct chain next = {.above = file};
    int rc = loader_expand_shorthands(*root, arena, err);

    if (rc < 0 || at == NULL)
        return rc;
    if (at->kind != YAML_SCALAR || at->text[0] == '\0')
        return yaml_fail(at, "extends", err, "expected the path of a file");
    next.path = at->text; /* relative to the folder of this file */
    if (at->text[0] != '/' && slash != NULL)
        next.path = arena_printf(arena, "%.*s/%s", (int)(slash - file->path), file->path,
                                 at->text);
    rc = read_base(&next, at, &base, arena, err);
    if (rc < 0)
        return rc;
    yaml_remove(*root, at);
    *root = yaml_merge(arena, base, *root);
    return 0;
}

int loader_extend(const char *path, struct yaml_node **root, struct arena *arena,
                  struct err *err)
{
    struct chain file = {.path = path};

    if (stat(path, &file.is) < 0)
        file.is = (struct stat){0}; /* the configuration did not come from a file */
    return resolve(&file, root, arena, err);
}

int loader_refuse_extends(const struct yaml_node *root, struct err *err)
{
    const struct yaml_node *at = yaml_find(root, "extends");

    return at == NULL ? 0
                      : yaml_fail(at, "extends", err,
                                  "not read here, expected a whole configuration");
}

int run_config_merged(const char *path, const char *const *set, size_t n_set,
                      const char **ret, struct arena *arena, struct err *err)
{
    struct chain file = {.path = path};
    struct arena tree = ARENA_ZERO;
    struct yaml_node *root;
    char *text;
    size_t len = 0;
    int rc = read_text(&file, &text, &len, err);

    if (rc == 0)
        rc = yaml_tree_parse(&root, &tree, text, len, path, 1, err);
    free(text);
    if (rc == 0)
        rc = resolve(&file, &root, &tree, err);
    if (rc == 0)
        rc = loader_place_programs(root, &tree, err);
    for (size_t i = 0; rc == 0 && i < n_set; i++)
        rc = yaml_tree_set(root, &tree, "--set ", set[i], err);
    if (rc == 0)
        *ret = arena_printf(arena, "%s\n", yaml_tree_text(root, &tree));
    arena_done(&tree);
    return rc;
}

int run_config_read(struct run_config *ret, const char *path,
                    const struct config_options *options, struct err *err)
{
    struct chain file = {.path = path};
    char *text;
    size_t len = 0;
    int rc = read_text(&file, &text, &len, err);

    *ret = (struct run_config){0};
    if (rc == 0)
        rc = run_config_parse(ret, text, len, path, options, err);
    free(text);
    return rc;
}
