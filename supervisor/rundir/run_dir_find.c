#include "supervisor/rundir/run_dir_internal.h"

#include "common/config/yaml_tree.h"
#include "common/io/beneath.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/save/resume.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Returns 0 if the file exists, -ENOENT, or -EACCES if we have no permission to look. */
static int look_for(const char *path, const char *sub)
{
    char *file = xasprintf("%s/%s", path, sub);
    struct stat st;
    const int rc = lstat(file, &st) == 0      ? 0
                   : run_dir_is_denial(errno) ? -EACCES
                                              : -ENOENT;

    free(file);
    return rc;
}

int run_dir_look(const char *path)
{
    const int rc = look_for(path, "lock");

    return rc == -ENOENT ? look_for(path, "config.yaml") : rc;
}

/* Returns 0, -EACCES, or ERR_NOT_FOUND; for the latter, the caller sets the message. */
static int find_run(const char *path, struct err *err)
{
    const int rc = run_dir_look(path);

    return rc == -EACCES ? run_dir_deny(path, err) : rc < 0 ? ERR_NOT_FOUND : 0;
}

/* ---- all runs ---- */

/* When the run's last supervisor started, which is when it wrote the lock file: others that
 * take the lock put its time back (run_dir_free). */
static struct timespec started(const char *path)
{
    char *lock = xasprintf("%s/lock", path);
    struct stat st = {0};

    if (lstat(lock, &st) < 0)
        st.st_mtim = (struct timespec){0};
    free(lock);
    return st.st_mtim;
}

static int later(struct timespec a, struct timespec b)
{
    return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

struct found {
    char *path;
    struct timespec started;
};

static int compare_found(const void *a, const void *b)
{
    const struct found *x = a, *y = b;

    if (later(x->started, y->started) || later(y->started, x->started))
        return later(x->started, y->started) ? -1 : 1;
    return strcmp(x->path, y->path);
}

/* Whether the path is a link that must not be followed (beneath_hold). */
static int is_planted(const char *path)
{
    struct stat st;
    int rc;

    if (lstat(path, &st) < 0 || !S_ISLNK(st.st_mode))
        return 0;
    rc = beneath_hold(path, NULL);
    if (rc == 0)
        beneath_release(path);
    return rc == -EXDEV;
}

/* Reads what the folder has into *all. 0, -errno. */
static int find_all(DIR *dir, const char *runs_dir, struct found **all, size_t *ret_n)
{
    struct dirent *e;
    size_t n = 0;

    while ((e = beneath_readdir(dir)) != NULL) {
        char *path;

        if (e->d_name[0] == '.')
            continue;
        path = xasprintf("%s/%s", runs_dir, e->d_name);
        if (run_dir_look(path) == -ENOENT || is_planted(path)) {
            free(path);
            continue;
        }
        *all = xreallocarray(*all, n + 1, sizeof(**all));
        (*all)[n++] = (struct found){path, started(path)};
    }
    *ret_n = n;
    return -errno;
}

int run_dir_list(const char *runs_dir, char ***ret, size_t *ret_n, struct err *err)
{
    DIR *dir = opendir(runs_dir);
    struct found *all = NULL;
    size_t n = 0;
    int rc = dir != NULL ? find_all(dir, runs_dir, &all, &n) : -errno;

    if (dir != NULL)
        (void)closedir(dir);
    if (n > 0)
        qsort(all, n, sizeof(*all), compare_found);
    *ret = xcalloc(n + 1, sizeof(**ret));
    *ret_n = n;
    for (size_t i = 0; i < n; i++)
        (*ret)[i] = all[i].path;
    free(all);
    return rc == 0 || rc == -ENOENT ? 0
                                    : err_set(err, rc, "%s: %s", runs_dir, err_text(rc));
}

void run_dir_list_free(char **paths, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(paths[i]);
    free(paths);
}

/* ---- the runs that a pattern means ---- */

int run_dir_is_pattern(const char *text)
{
    return strpbrk(text, "*?[") != NULL;
}

/* Takes the paths whose last part matches, and frees the others and the list. */
static void take_matching(char **paths, size_t n, const char *pattern, char ***ret,
                          size_t *ret_n)
{
    for (size_t i = 0; i < n; i++) {
        if (fnmatch(pattern, text_base_name(paths[i]), FNM_PERIOD) != 0) {
            free(paths[i]);
            continue;
        }
        *ret = xreallocarray(*ret, *ret_n + 1, sizeof(**ret));
        (*ret)[(*ret_n)++] = paths[i];
    }
    free(paths);
}

/* Takes the runs of a folder that is a study, if its name matches the pattern up to the slash. */
static int match_in_study(const char *runs_dir, const char *name, const char *pattern,
                          char ***ret, size_t *ret_n, struct err *err)
{
    const char *slash = strchr(pattern, '/');
    char *study = xstrndup(pattern, (size_t)(slash - pattern)), **paths;
    char *path = xasprintf("%s/%s", runs_dir, name);
    size_t n;
    int rc = 0;

    if (fnmatch(study, name, FNM_PERIOD) == 0 && look_for(path, "study.yaml") == 0) {
        rc = run_dir_list(path, &paths, &n, err);
        take_matching(paths, n, slash + 1, ret, ret_n);
    }
    free(path);
    free(study);
    return rc;
}

int run_dir_match(const char *runs_dir, const char *pattern, char ***ret, size_t *ret_n,
                  struct err *err)
{
    DIR *dir = strchr(pattern, '/') != NULL ? opendir(runs_dir) : NULL;
    const struct dirent *e;
    char **paths;
    size_t n;
    int rc = 0;

    *ret = NULL;
    *ret_n = 0;
    while (dir != NULL && rc == 0 && (e = beneath_readdir(dir)) != NULL)
        rc = match_in_study(runs_dir, e->d_name, pattern, ret, ret_n, err);
    if (dir != NULL)
        (void)closedir(dir);
    if (strchr(pattern, '/') == NULL) {
        rc = run_dir_list(runs_dir, &paths, &n, err);
        take_matching(paths, n, pattern, ret, ret_n);
    }
    if (rc == 0 && *ret_n == 0)
        rc = err_set(err, ERR_NOT_FOUND, "no run in %s matches '%s'", runs_dir, pattern);
    if (rc < 0) {
        run_dir_list_free(*ret, *ret_n);
        *ret = NULL;
        *ret_n = 0;
    }
    return rc;
}

/* ---- the run that a name means ---- */

/* Whether the name is <base>-<number>, as run_dir_create chooses them. */
static int is_numbered(const char *name, const char *base)
{
    const char *dash = text_after(name, base);

    return dash != NULL && *dash == '-' && text_is_digits(dash + 1);
}

/* The newest run <base>-<number>, or (base NULL) of any name; those that the caller may not
 * read come last. ERR_NOT_FOUND, for which the caller sets the message; -errno. */
static int find_newest(const char *runs_dir, const char *base, char **ret,
                       struct err *err)
{
    size_t n, at = 0;
    char **paths;
    int rc = run_dir_list(runs_dir, &paths, &n, err);

    while (at < n && base != NULL && !is_numbered(strrchr(paths[at], '/') + 1, base))
        at++;
    if (rc == 0 && at < n)
        *ret = xstrdup(paths[at]);
    else if (rc == 0)
        rc = ERR_NOT_FOUND;
    run_dir_list_free(paths, n);
    return rc;
}

/* The only run "<folder>/<trial>-s<seed>" of a trial of a study, "<folder>/<trial>"; free(). NULL:
 * there is none, or more than one. */
static char *find_only_seed(const char *trial)
{
    const char *number = strrchr(trial, '/') + 1;
    char *folder = xstrndup(trial, (size_t)(number - trial)), *only = NULL;
    char *prefix = xasprintf("%s-s", number);
    DIR *dir = text_is_digits(number) ? opendir(folder) : NULL;
    const struct dirent *e;
    size_t n = 0;

    while (dir != NULL && (e = readdir(dir)) != NULL) {
        const char *seed = text_after(e->d_name, prefix);

        if (seed == NULL || !text_is_digits(seed) || n++ > 0)
            continue;
        only = xasprintf("%s%s", folder, e->d_name);
    }
    if (dir != NULL)
        (void)closedir(dir);
    free(prefix);
    free(folder);
    if (n > 1) {
        free(only);
        return NULL;
    }
    return only;
}

/* Whether two names differ in their numbers alone: small-2 is no slip of the pen for small-1. */
static int is_other_number(const char *a, const char *b)
{
    static const char digits[] = "0123456789";

    for (;; a++, b++) {
        a += strspn(a, digits);
        b += strspn(b, digits);
        if (*a != *b || *a == '\0')
            return *a == *b;
    }
}

/* Adds the runs and studies in a folder that the name of no run may mean: if it has a slash, the
 * runs in studies. prefix: what stands before the folder's names, a study and a slash, or "". */
static void collect_names(const char *folder, const char *prefix, const char *run,
                          char ***names, size_t *n)
{
    DIR *dir = opendir(folder);
    const struct dirent *e;

    while (dir != NULL && (e = beneath_readdir(dir)) != NULL) {
        char *path = xasprintf("%s/%s", folder, e->d_name);
        char *name = xasprintf("%s%s", prefix, e->d_name), *below;
        const int is_study = *prefix == '\0' && look_for(path, "study.yaml") == 0;

        if (e->d_name[0] != '.' && is_study && strchr(run, '/') != NULL) {
            below = xasprintf("%s/", name);
            collect_names(path, below, run, names, n);
            free(below);
        } else if (e->d_name[0] != '.' && (is_study || run_dir_look(path) == 0) &&
                   !is_other_number(name, run)) {
            *names = xreallocarray(*names, *n + 1, sizeof(**names));
            (*names)[(*n)++] = name;
            name = NULL;
        }
        free(name);
        free(path);
    }
    if (dir != NULL)
        (void)closedir(dir);
}

static int fail_no_run(const char *runs_dir, const char *run, struct err *err)
{
    char *path = xasprintf("%s/%s", runs_dir, run), **names = NULL;
    size_t n = 0;

    if (strchr(run, '/') == NULL && look_for(path, "study.yaml") == 0) {
        (void)err_set(err, ERR_NOT_FOUND,
                      "%s in %s is a study: expected one of its runs, %s/RUN", run,
                      runs_dir, run);
    } else {
        (void)err_set(err, ERR_NOT_FOUND, "there is no run %s in %s", run, runs_dir);
        collect_names(runs_dir, "", run, &names, &n);
        (void)yaml_add_nearest(err, run, (const char *const *)names, n);
        run_dir_list_free(names, n);
    }
    free(path);
    return ERR_NOT_FOUND;
}

/* Replaces *path, and looks there. */
static int find_at(char **path, char *next, struct err *err)
{
    free(*path);
    *path = next;
    return find_run(next, err);
}

/* Looks for <runs_dir>/<study>/<run>. -EXDEV: the study is a link that must not be followed. */
static int find_in_study(const char *runs_dir, const char *run, char **path,
                         struct err *err)
{
    char *study = xasprintf("%s/%.*s", runs_dir, (int)strcspn(run, "/"), run);
    int rc = is_planted(study) ? beneath_hold(study, err) : 0;

    free(study);
    return rc < 0 ? rc : find_at(path, xasprintf("%s/%s", runs_dir, run), err);
}

/* A name takes precedence over a path, both over a path below runs_dir, and all over the
 * newest run of a numbered name. A study's trial with one seed is found without it, too. */
static int find_named(const char *runs_dir, const char *run, char **ret, struct err *err)
{
    const int has_slash = strchr(run, '/') != NULL;
    char *numbered = NULL, *only;
    int rc = ERR_NOT_FOUND;

    if (!has_slash)
        rc = find_at(ret, xasprintf("%s/%s", runs_dir, run), err);
    if (rc == ERR_NOT_FOUND)
        rc = find_at(ret, xstrdup(run), err);
    if (rc == ERR_NOT_FOUND && has_slash) /* of a study, lr/1-s1 */
        rc = find_in_study(runs_dir, run, ret, err);
    if (rc == ERR_NOT_FOUND && has_slash && (only = find_only_seed(*ret)) != NULL)
        rc = find_at(ret, only, err);
    if (rc == ERR_NOT_FOUND)
        rc = find_newest(runs_dir, run, &numbered, err);
    if (numbered != NULL)
        rc = find_at(ret, numbered, err);
    return rc == ERR_NOT_FOUND ? fail_no_run(runs_dir, run, err) : rc;
}

int run_dir_find(const char *runs_dir, const char *run, char **ret, struct err *err)
{
    char *path = NULL;
    int rc;

    if (run != NULL)
        rc = find_named(runs_dir, run, &path, err);
    else if ((rc = find_newest(runs_dir, NULL, &path, err)) == ERR_NOT_FOUND)
        (void)err_set(err, rc, "there is no run in %s", runs_dir);
    else if (rc == 0)
        rc = find_run(path, err);
    if (rc == 0)
        rc = beneath_hold(path, err); /* until the process exits */
    if (rc < 0)
        free(path);
    else
        *ret = path;
    return rc;
}

int run_dir_find_own_name(const char *runs_dir, const char *run, char **ret,
                          struct err *err)
{
    char *path = NULL, *given, *found;
    int rc = run_dir_find(runs_dir, run, &path, err);

    if (rc < 0)
        return rc;
    given = run_dir_name_of(run);
    found = run_dir_name_of(path);
    if (strcmp(given, found) != 0)
        rc = err_set(err, ERR_NOT_FOUND,
                     "there is no run %s; the newest of that name is %s", run, found);
    free(given);
    free(found);
    if (rc < 0)
        free(path);
    else
        *ret = path;
    return rc;
}

char *run_dir_split(const char *text, const char **ret_step)
{
    const char *slash = strrchr(text, '/'),
               *at = strrchr(slash != NULL ? slash : text, '@');

    *ret_step = at != NULL ? at + 1 : NULL;
    return at != NULL ? xstrndup(text, (size_t)(at - text)) : xstrdup(text);
}

int run_dir_find_checkpoint(const char *runs_dir, const char *text, char **ret_dir,
                            uint64_t *ret_step,
                            void (*on_skipped)(void *ctx, const char *line), void *ctx,
                            struct err *err)
{
    const char *step;
    char *run = run_dir_split(text, &step), *path = NULL;
    int rc = run_dir_find(runs_dir, run, &path, err);

    free(run);
    if (rc < 0)
        return rc;
    *ret_dir = xasprintf("%s/checkpoints", path);
    free(path);
    rc = resume_choose(ret_step, *ret_dir, step, on_skipped, ctx, err);
    if (rc < 0) {
        free(*ret_dir);
        *ret_dir = NULL;
    }
    return rc;
}
