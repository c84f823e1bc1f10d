#include "supervisor/web/folders.h"

#include "common/io/tree.h"
#include "common/mem/xmalloc.h"

#include <dirent.h>
#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- labels ---- */

/* The user whose the folder is; free(). NULL: that is unknown. */
static char *owner_of(const char *path)
{
    struct stat st;
    const struct passwd *user = stat(path, &st) == 0 ? getpwuid(st.st_uid) : NULL;

    return user != NULL ? xstrdup(user->pw_name) : NULL;
}

/* The last n parts of a path; all of one that has fewer. */
static const char *end_of(const char *path, size_t n)
{
    const char *p = path + strlen(path);

    while (p > path && n > 0)
        n -= *--p == '/';
    return n == 0 ? p + 1 : path;
}

static int is_among(const struct folder *f, size_t n, const char *label)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(f[i].label, label) == 0)
            return 1;
    return 0;
}

/* Takes a label for the i-th folder. Returns 0, and takes none, if one before has it. */
static int take_label(struct folders *f, size_t i, const char *label)
{
    if (label == NULL || is_among(f->folder, i, label))
        return 0;
    free(f->folder[i].label);
    f->folder[i].label = xstrdup(label);
    return 1;
}

static int label_by_owner(struct folders *f)
{
    int rc = 1;

    for (size_t i = 0; i < f->n && rc; i++) {
        char *owner = owner_of(f->folder[i].path);

        rc = take_label(f, i, owner);
        free(owner);
    }
    return rc;
}

static int label_by_end(struct folders *f, char *const *whole, size_t parts)
{
    int rc = 1;

    for (size_t i = 0; i < f->n && rc; i++)
        rc = take_label(f, i, end_of(whole[i], parts));
    return rc;
}

/* Cuts off the last part of all paths. Returns 0, and cuts nothing, if it is not the same. */
static int cut_common_end(char **whole, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (end_of(whole[i], 1) - whole[i] < 2 ||
            strcmp(end_of(whole[i], 1), end_of(whole[0], 1)) != 0)
            return 0;
    for (size_t i = 0; i < n; i++)
        *strrchr(whole[i], '/') = '\0';
    return 1;
}

/* whole: the folders' paths, which all differ, and are shortened. */
static void label(struct folders *f, char **whole)
{
    size_t parts = 1;

    if (label_by_owner(f))
        return;
    while (cut_common_end(whole, f->n))
        continue;
    while (!label_by_end(f, whole, parts))
        parts++;
}

/* ---- what is given ---- */

static int check_readable(const char *path, struct err *err)
{
    DIR *dir = opendir(path);

    if (dir == NULL && errno == ENOENT)
        return err_set(err, ERR_NOT_FOUND,
                       "there is no folder %s: name that of your runs", path);
    if (dir == NULL)
        return err_errno(err, "%s", path);
    (void)closedir(dir);
    return 0;
}

static int check_no_run(const char *path, struct err *err)
{
    char *config = xasprintf("%s/config.yaml", path);
    const int is_run = tree_exists(config);

    free(config);
    return is_run
               ? err_set(err, ERR_ARG, "%s is a run: name the folder that it is in", path)
               : 0;
}

/* The path without links, or as it is if nothing is there; free(). */
static char *whole_path(const char *path)
{
    char *real = realpath(path, NULL);
    size_t len = strlen(path);

    while (len > 1 && path[len - 1] == '/')
        len--;
    return real != NULL ? real : xstrndup(path, len);
}

static int check_apart(char *const *paths, char *const *whole, size_t n, struct err *err)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(whole[k], whole[i]) == 0)
                return err_set(err, ERR_ARG, "%s and %s are the same folder", paths[k],
                               paths[i]);
    return 0;
}

static int check(char *const *paths, size_t n, struct err *err)
{
    struct err first = {0}, ignored = {0};
    size_t n_readable = 0;
    int rc = 0;

    for (size_t i = 0; i < n && rc == 0; i++) {
        n_readable += check_readable(paths[i], i == 0 ? &first : &ignored) == 0;
        rc = check_no_run(paths[i], err);
    }
    return rc == 0 && n_readable == 0 ? err_pass(err, &first) : rc;
}

int folders_open(struct folders *ret, char *const *paths, size_t n, struct err *err)
{
    char **whole = xcalloc(n, sizeof(*whole));
    int rc;

    *ret = (struct folders){.n = n, .folder = xcalloc(n, sizeof(*ret->folder))};
    for (size_t i = 0; i < n; i++) {
        ret->folder[i] = (struct folder){.path = paths[i], .label = xstrdup("")};
        whole[i] = whole_path(paths[i]);
    }
    rc = check(paths, n, err);
    if (rc == 0)
        rc = check_apart(paths, whole, n, err);
    if (rc == 0 && n > 1)
        label(ret, whole);
    for (size_t i = 0; i < n; i++)
        free(whole[i]);
    free(whole);
    return rc;
}

void folders_close(struct folders *f)
{
    for (size_t i = 0; i < f->n; i++)
        free(f->folder[i].label);
    free(f->folder);
    *f = (struct folders){0};
}
