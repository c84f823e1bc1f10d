#include "supervisor/study/study_dir.h"

#include "common/ckpt/atomic_file.h"
#include "common/config/yaml_tree.h"
#include "common/io/beneath.h"
#include "common/io/tree.h"
#include "common/mem/xmalloc.h"
#include "common/wire/cursor.h"
#include "supervisor/metrics/progress.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/rundir/run_record.h"
#include "supervisor/rundir/run_remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct study_dir {
    char *path;
    int lock;
    int is_held; /* beneath_hold_same was called for path */
};

static char *path_in(const char *dir, const char *name)
{
    return xasprintf("%s/%s", dir, name);
}

static int exists_in(const char *dir, const char *name)
{
    char *path = path_in(dir, name);
    const int ret = tree_exists(path);

    free(path);
    return ret;
}

int study_dir_is_one(const char *path)
{
    return exists_in(path, "study.yaml") && exists_in(path, "base.yaml");
}

/* Whether a sweep has begun the study. A removal may have been killed that left one file. */
static int has_begun(const char *path)
{
    return exists_in(path, "study.lock") &&
           (exists_in(path, "study.yaml") || exists_in(path, "base.yaml"));
}

char *study_dir_find(const char *runs_dir, const char *name)
{
    char *path = path_in(runs_dir, name);

    if (!study_dir_is_one(path) && !has_begun(path) && !exists_in(path, "config.yaml")) {
        free(path);
        path = xstrdup(name);
    }
    if (!study_dir_is_one(path) && !has_begun(path)) {
        free(path);
        return NULL;
    }
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = '\0';
    return path;
}

/* ---- its files ---- */

/* The base that study.yaml names is base.yaml in the same folder (write_study). */
int study_dir_read(struct study *ret, const char *path, struct err *err)
{
    char *file;
    int rc = beneath_hold(path, err);

    if (rc < 0)
        return rc;
    file = path_in(path, "study.yaml");
    rc = study_read(ret, file, NULL, 0, err);
    if (rc == 0 && (rc = study_dir_look(ret, path, err)) < 0)
        study_done(ret);
    beneath_release(path);
    free(file);
    return rc;
}

int study_dir_look(struct study *s, const char *path, struct err *err)
{
    rungs_done(&s->passed);
    return s->method == STUDY_ASHA ? rungs_read(&s->passed, path, err) : 0;
}

static int write_text(const char *dir, const char *name, const char *text, size_t len,
                      struct err *err)
{
    char *path = path_in(dir, name);
    const int rc = atomic_file_write(path, text, len, 1, err);

    free(path);
    return rc;
}

/* Writes study.yaml: the study's file, with base.yaml as its base. */
static int write_study(const char *dir, const struct study *s, struct err *err)
{
    struct arena arena = ARENA_ZERO;
    struct wbuf text = {0};
    struct yaml_node *root = NULL;
    int rc = wbuf_read_file(&text, s->file, YAML_MAX_BYTES, err);

    if (rc == 0)
        rc = yaml_tree_parse(&root, &arena, (const char *)text.data, text.len, s->file, 1,
                             err);
    if (rc == 0)
        rc = yaml_tree_set(root, &arena, "", "base=base.yaml", err);
    if (rc == 0) {
        const char *out = arena_printf(&arena, "%s\n", yaml_tree_text(root, &arena));

        rc = write_text(dir, "study.yaml", out, strlen(out), err);
    }
    wbuf_done(&text);
    arena_done(&arena);
    return rc;
}

/* Takes a lock that a child does not inherit: if this process is killed, no child that
 * has not executed its program yet still holds the lock. */
static int take_lock(struct study_dir *d, struct err *err)
{
    char *path = path_in(d->path, "study.lock");
    struct flock whole_file = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int rc = 0;

    d->lock = beneath_open(path, O_RDWR | O_CREAT, 0666);
    if (d->lock < 0)
        rc = err_errno(err, "%s", path);
    else if (fcntl(d->lock, F_SETLK, &whole_file) < 0)
        rc = errno == EAGAIN || errno == EACCES
                 ? err_set(err, ERR_STATE, "another `brood sweep` works on %s", d->path)
                 : err_errno(err, "%s", path);
    free(path);
    return rc;
}

int study_dir_is_locked(const char *path)
{
    const int fd = beneath_open_in(path, "study.lock", O_RDONLY);
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    const int ret = fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;

    if (fd >= 0)
        (void)close(fd);
    return ret;
}

static int check_began(const struct study_dir *d, const struct study *s, struct err *err)
{
    struct study was;
    int rc = study_dir_read(&was, d->path, err);

    if (rc < 0)
        return rc;
    rc = study_check_same(&was, s, err);
    study_done(&was);
    return rc;
}

static int open_or_begin(struct study_dir *d, const struct study *s, struct err *err)
{
    int rc = 0;

    if (exists_in(d->path, "config.yaml"))
        return err_set(err, ERR_EXISTS,
                       "%s is a run; --name gives the study another name", d->path);
    rc = tree_make(d->path, err);
    if (rc == 0)
        rc = beneath_hold_same(d->path, err);
    d->is_held = rc == 0;
    if (rc == 0)
        rc = take_lock(d, err);
    if (rc == 0)
        atomic_file_tidy_folder(d->path, NULL);
    if (rc == 0 && study_dir_is_one(d->path))
        rc = check_began(d, s, err);
    else if (rc == 0)
        rc = write_text(d->path, "base.yaml", s->base_text, strlen(s->base_text), err);
    return rc < 0 ? rc : write_study(d->path, s, err);
}

int study_dir_open(struct study_dir **ret, const char *runs_dir, const char *name,
                   const struct study *s, struct err *err)
{
    struct study_dir *d = xcalloc(1, sizeof(*d));
    int rc;

    d->lock = -1;
    d->path = path_in(runs_dir, name);
    rc = open_or_begin(d, s, err);
    if (rc < 0)
        study_dir_close(d);
    else
        *ret = d;
    return rc;
}

void study_dir_close(struct study_dir *d)
{
    if (d == NULL)
        return;
    if (d->lock >= 0)
        (void)close(d->lock);
    if (d->is_held)
        beneath_release(d->path);
    free(d->path);
    free(d);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void study_dir_list(const char *runs_dir, char ***ret, size_t *ret_n)
{
    DIR *dir = opendir(runs_dir);
    const struct dirent *e;
    char **paths = NULL;
    size_t n = 0, cap = 0;

    while (dir != NULL && (e = beneath_readdir(dir)) != NULL) {
        char *path = path_in(runs_dir, e->d_name);

        if (e->d_name[0] == '.' || !study_dir_is_one(path)) {
            free(path);
            continue;
        }
        ARRAY_GROW(paths, n, cap);
        paths[n++] = path;
    }
    if (dir != NULL)
        (void)closedir(dir);
    if (n > 1)
        qsort(paths, n, sizeof(*paths), by_path);
    *ret = paths;
    *ret_n = n;
}

/* ERR_ARG: one of the runs is a link; ERR_STATE: one is live. */
static int check_runs(char *const *runs, size_t n, struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (run_remove_check(runs[i], err) < 0)
            return err->code;
        if (run_dir_holder(runs[i]) != 0)
            return err_set(err, ERR_STATE, "%s is running; `brood stop %s` stops it",
                           runs[i], runs[i]);
    }
    return 0;
}

/* Adds how many there were to *ret. */
static int remove_runs(const char *path, size_t *ret, struct err *err)
{
    char **runs;
    size_t n;
    int rc = run_dir_list(path, &runs, &n, err);

    if (rc == 0)
        rc = check_runs(runs, n, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = run_remove(runs[i], err);
    run_dir_list_free(runs, n);
    *ret += n;
    return rc;
}

/* d: locked. The lock goes last: until then no sweep begins. A run that somebody else begins
 * meanwhile is found when the folder is listed until it has none. */
static int remove_all(const struct study_dir *d, size_t *ret_runs, struct err *err)
{
    static const char *const last[] = {"base.yaml", "study.yaml", "study.lock", NULL};
    size_t before;
    int rc;

    *ret_runs = 0;
    do {
        before = *ret_runs;
        rc = remove_runs(d->path, ret_runs, err);
    } while (rc == 0 && *ret_runs > before);
    if (rc == 0)
        rc = tree_empty(d->path, last, err);
    return rc == 0 && rmdir(d->path) < 0 ? err_errno(err, "%s: cannot remove", d->path)
                                         : rc;
}

int study_dir_remove(const char *path, size_t *ret_runs, struct err *err)
{
    struct study_dir *d = xcalloc(1, sizeof(*d));
    int rc = run_remove_check(path, err);

    d->lock = -1;
    d->path = xstrdup(path);
    if (rc == 0 && !has_begun(path))
        rc = err_set(err, ERR_ARG,
                     "%s has no study.lock: no sweep has begun it, and it is not removed",
                     path);
    if (rc == 0)
        rc = beneath_hold_same(path, err);
    d->is_held = rc == 0;
    if (rc == 0)
        rc = take_lock(d, err);
    if (rc == 0)
        rc = remove_all(d, ret_runs, err);
    study_dir_close(d);
    return rc;
}

const char *study_dir_path(const struct study_dir *d)
{
    return d->path;
}

/* ---- its runs ---- */

char *study_run_path(const struct study *s, const char *dir,
                     const struct study_run_id *id)
{
    const uint64_t seed = s->seeds[id->seed];

    return id->birth > 0
               ? xasprintf("%s/%zu-r%zu-s%" PRIu64, dir, id->trial + 1, id->birth, seed)
               : xasprintf("%s/%zu-s%" PRIu64, dir, id->trial + 1, seed);
}

/* The number of rows up to and with the first one at or after that step; 0: all rows. */
static size_t rows_until(const struct progress *p, uint64_t until)
{
    size_t n = 0;

    while (n < progress_n_rows(p) &&
           (until == 0 || n == 0 || progress_steps(p, n - 1) < (double)until))
        n++;
    return n;
}

static size_t column_of(const struct progress *p, const struct study *s, size_t rows)
{
    return s->column != NULL ? progress_find(p, s->column)
                             : progress_find_return(p, rows);
}

/* The mean of the last values in these rows, of which *ret_n are there, up to s->last. NaN: there is
 * none, or it is not finite: a run whose returns overflow is no better than a failed one. */
static double value_at(const struct progress *p, const struct study *s, size_t rows,
                       size_t *ret_n)
{
    const size_t column = column_of(p, s, rows);
    double sum = 0;
    size_t n = 0;

    *ret_n = 0;
    if (column == progress_n_columns(p))
        return (double)NAN;
    for (size_t r = rows; r > 0 && n < s->last; r--) {
        const double v = progress_value(p, r - 1, column);

        if (isnan(v))
            continue;
        sum += v;
        n++;
    }
    *ret_n = n;
    return n > 0 && isfinite(sum) ? sum / (double)n : (double)NAN;
}

/* Whether these rows, the newest ones, give the value at that step as all rows would. */
static int is_enough(const struct progress *p, const struct study *s, uint64_t until)
{
    const size_t rows = rows_until(p, until), column = column_of(p, s, rows);
    size_t n;

    (void)value_at(p, s, rows, &n);
    return progress_is_whole(p) ||
           ((until == 0 || rows > 1) && n == s->last &&
            (s->column != NULL || progress_is_first_return(p, column)));
}

/* Whether the run has a checkpoint and a row of metrics at or after that step. One that
 * was killed, or stopped during an evaluation, may lack the row: a resume writes it. */
static int has_come_to(const struct run_status *s, const struct progress *p,
                       uint64_t until)
{
    const size_t n = p != NULL ? progress_n_rows(p) : 0;

    return until > 0 && s->checkpoint_step >= 0 &&
           (uint64_t)s->checkpoint_step >= until && n > 0 &&
           progress_steps(p, n - 1) >= (double)until;
}

static enum study_run_state state_of(const struct run_record *r, const struct progress *p,
                                     uint64_t until)
{
    const struct run_status *s = &r->status;

    if (r->is_live || r->is_denied)
        return STUDY_RUN_LIVE;
    if (strcmp(s->state, "done") == 0 || has_come_to(s, p, until))
        return STUDY_RUN_REACHED;
    if (strcmp(s->state, "failed") == 0)
        return STUDY_RUN_FAILED;
    return s->checkpoint_step >= 0 ? STUDY_RUN_PARTIAL : STUDY_RUN_NEW;
}

/* Leaves out the ids of processes: they are gone. */
static char *describe_failure(const char *path, const struct run_record *r)
{
    char *ret = xasprintf("%s at step %" PRIu64 ": %s", strrchr(path, '/') + 1,
                          r->status.env_steps,
                          r->status.failure != NULL ? r->status.failure : "see its logs");

    for (char *at = ret; (at = strstr(at, " (pid ")) != NULL;) {
        char *end = at + strlen(" (pid ");

        end += strspn(end, "0123456789");
        if (*end == ')')
            memmove(at, end + 1, strlen(end + 1) + 1);
        else
            at = end;
    }
    return ret;
}

/* Sets the state, and of a run that has come to `until` the value. Mostly the newest rows say both:
 * of hundreds of runs, nobody waits for all. */
static void look_at_metrics(struct study_run *ret, const struct study *s,
                            const struct run_record *record, uint64_t until)
{
    char *file = path_in(ret->path, "metrics/progress.csv");
    struct progress *progress = NULL;
    size_t rows, n;

    (void)progress_read_end(&progress, file, NULL);
    ret->state = state_of(record, progress, until);
    if (ret->state == STUDY_RUN_REACHED && progress != NULL &&
        !is_enough(progress, s, until)) {
        progress_free(progress);
        progress = NULL;
        (void)progress_read(&progress, file, NULL);
    }
    if (ret->state == STUDY_RUN_REACHED && progress != NULL) {
        rows = rows_until(progress, until);
        ret->value = value_at(progress, s, rows, &n);
        ret->reached = rows > 0 ? (uint64_t)progress_steps(progress, rows - 1) : 0;
    }
    progress_free(progress);
    free(file);
}

void study_run_look(struct study_run *ret, const struct study *s, const char *dir,
                    const struct study_run_id *id, uint64_t until)
{
    const double passed =
        id->birth == 0 ? rungs_find(&s->passed, until, id->trial, s->seeds[id->seed])
                       : (double)NAN;
    struct run_record record;

    *ret = (struct study_run){.path = study_run_path(s, dir, id), .value = (double)NAN};
    if (!exists_in(ret->path, "config.yaml"))
        return;
    run_record_read(&record, ret->path);
    ret->steps = record.status.env_steps;
    ret->has_checkpoint = record.status.checkpoint_step >= 0;
    if (!isnan(passed)) {
        ret->state = STUDY_RUN_REACHED;
        ret->value = passed;
        ret->reached = until;
    } else {
        look_at_metrics(ret, s, &record, until);
    }
    if (ret->state == STUDY_RUN_FAILED)
        ret->failure = describe_failure(ret->path, &record);
    run_record_done(&record);
}

void study_run_done(struct study_run *run)
{
    free(run->path);
    free(run->failure);
    *run = (struct study_run){0};
}
