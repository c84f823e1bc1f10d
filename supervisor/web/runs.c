#include "supervisor/web/runs.h"

#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/facts/files.h"
#include "supervisor/facts/run_view.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/rundir/run_record.h"
#include "supervisor/study/study_dir.h"
#include "supervisor/web/stamps.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAX_JOBS = 2,
    NAME_BYTES = 256,
    PAUSE_TIMES = 20, /* pause before a run is read again / time that reading took */
    SHOW_EVERY = 16,  /* during the first walk, the list is sent after this many runs */
};

struct run {
    char *name, *path, *study; /* study: "" outside of any */
    struct stamps stamps;
    char *summary; /* JSON; NULL: not read yet */
    uint64_t revision;
    int is_seen, is_own, is_stale, is_being_read;
    uint64_t next_ms; /* earliest time of the next reading (PAUSE_TIMES) */
};

/* What a walk has found. */
struct found {
    char *path, *study;
    int is_own; /* its directory is this user's */
    struct stamps stamps;
};

struct runs {
    struct readings *readings;
    const char *dir;
    void (*on_change)(void *ctx);
    void *ctx;
    struct run **run; /* newest first */
    size_t n, cap;
    char **study;
    size_t n_studies;
    uint64_t revision, names_revision;
    size_t found; /* where the search for the next name begins: the order is the same */
    unsigned jobs;
    uint64_t n_walks, n_walked; /* begun, ended */
    int is_walking, walks_again;
    int has_walked, is_complete, is_closing;
};

/* The summary of one run. */
struct job {
    struct reading reading;
    struct runs *runs;
    char *name, *path, *study;
    uint64_t took_ms;
    struct json json;
};

struct walk {
    struct reading reading;
    struct runs *runs;
    struct found *found;
    size_t n, cap;
    char **study;
    size_t n_studies;
};

struct runs *runs_new(struct readings *readings, const char *dir,
                      void (*on_change)(void *ctx), void *ctx)
{
    struct runs *r = xcalloc(1, sizeof(*r));

    *r = (struct runs){.readings = readings,
                       .dir = dir,
                       .on_change = on_change,
                       .ctx = ctx,
                       .revision = 1,
                       .names_revision = 1};
    return r;
}

static void free_run(struct run *one)
{
    free(one->name);
    free(one->path);
    free(one->study);
    free(one->summary);
    free(one);
}

static void free_names(char **names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

void runs_free(struct runs *r)
{
    for (size_t i = 0; i < r->n; i++)
        free_run(r->run[i]);
    free(r->run);
    free_names(r->study, r->n_studies);
    free(r);
}

void runs_close(struct runs *r)
{
    r->is_closing = 1;
}

static struct run *find_from(const struct runs *r, const char *name, size_t *at)
{
    for (size_t i = 0; name != NULL && i < r->n; i++) {
        const size_t k = (*at + i) % r->n;

        if (strcmp(r->run[k]->name, name) == 0) {
            *at = k + 1;
            return r->run[k];
        }
    }
    return NULL;
}

static struct run *find(const struct runs *r, const char *name)
{
    size_t from = 0;

    return find_from(r, name, &from);
}

/* ---- reading one run, on a thread of the pool ---- */

/* What a summary is made of. */
struct read_run {
    struct run_record record;
    struct run_tags tags;
    const struct run_config *config; /* NULL: it cannot be read */
    struct progress *course;         /* NULL: there is none */
};

static void put_summary(const struct job *job, struct json *j, const struct read_run *r)
{
    const struct run_view view = {.name = job->name,
                                  .status = &r->record.status,
                                  .tags = &r->tags,
                                  .is_live = r->record.is_live};

    json_begin(j);
    json_object(j);
    run_summary_put(&view, *job->study != '\0' ? job->study : NULL, r->config, r->course,
                    j);
    json_close(j);
}

static void read_summary(struct reading *reading)
{
    struct job *job = READING_OF(struct job, reading);
    const uint64_t began_ns = uv_hrtime();
    char *file = xasprintf("%s/metrics/progress.csv", job->path);
    struct run_config config;
    struct read_run r = {0};

    run_record_read(&r.record, job->path);
    (void)run_tags_read(&r.tags, job->path, NULL);
    if (files_read_config(&config, job->path, NULL) == 0)
        r.config = &config;
    (void)progress_read_course(&r.course, file, RUN_SPARK, NULL);
    put_summary(job, &job->json, &r);
    progress_free(r.course);
    if (r.config != NULL)
        run_config_done(&config);
    run_tags_done(&r.tags);
    run_record_done(&r.record);
    free(file);
    job->took_ms = (uv_hrtime() - began_ns) / 1000000;
}

static void start_jobs(struct runs *r);

struct run_status runs_unreadable(void)
{
    struct run_status ret = run_status_unknown();

    ret.state = "unreadable";
    return ret;
}

static void take_summary(struct runs *r, struct run *one, struct json *j)
{
    size_t len;
    const char *text = json_line(j, &len);

    if (one->summary != NULL && strcmp(one->summary, text) == 0)
        return;
    free(one->summary);
    one->summary = xstrdup(text);
    one->revision = ++r->revision;
}

/* A run that is gone is dropped by the next walk, which may also find another in its place. All
 * others are tried again, but not before the thread of a late reading has come back. */
static void take_unread(struct runs *r, struct run *one, const struct job *job,
                        const struct err *why)
{
    const struct read_run unknown = {.record.status = runs_unreadable()};
    const uint64_t times = why->code == ERR_TIMEOUT ? PAUSE_TIMES : 1;
    struct json j = {0};

    if (why->code == -ENOENT)
        return;
    put_summary(job, &j, &unknown);
    take_summary(r, one, &j);
    json_done(&j);
    one->is_stale = 1;
    one->next_ms = readings_now(r->readings) + times * READING_WITHIN_MS;
}

static void on_read(struct reading *reading, const struct err *why)
{
    struct job *job = READING_OF(struct job, reading);
    struct runs *r = job->runs;
    struct run *one = find(r, job->name);

    r->jobs--;
    if (one != NULL && why != NULL) {
        take_unread(r, one, job, why);
    } else if (one != NULL) {
        one->next_ms = readings_now(r->readings) + PAUSE_TIMES * job->took_ms;
        take_summary(r, one, &job->json);
    }
    if (why != NULL)
        start_jobs(r);
}

static void after_read(struct reading *reading)
{
    struct job *job = READING_OF(struct job, reading);
    struct runs *r = job->runs;
    struct run *one = find(r, job->name);

    if (one != NULL)
        one->is_being_read = 0;
    json_done(&job->json);
    free(job->name);
    free(job->path);
    free(job->study);
    free(job);
    if (r->is_closing)
        return;
    start_jobs(r);
    if (r->jobs == 0 || r->revision % SHOW_EVERY == 0)
        r->on_change(r->ctx);
}

static void start_job(struct runs *r, struct run *one)
{
    struct job *job = xcalloc(1, sizeof(*job));

    one->is_stale = 0;
    one->is_being_read = 1;
    job->runs = r;
    job->name = xstrdup(one->name);
    job->path = xstrdup(one->path);
    job->study = xstrdup(one->study);
    r->jobs++;
    job->reading =
        (struct reading){READING_LIST, job->path, read_summary, on_read, after_read};
    reading_add(r->readings, &job->reading);
}

/* Reads the newest runs first: they are on the screen. Those of other users come last, because each
 * may take as long as reading.h allows. */
static void start_jobs(struct runs *r)
{
    const uint64_t now = readings_now(r->readings);

    for (int are_own = 1; are_own >= 0; are_own--)
        for (size_t i = 0; i < r->n && r->jobs < MAX_JOBS && !r->is_closing; i++) {
            struct run *one = r->run[i];

            if (one->is_own == are_own && one->is_stale && !one->is_being_read &&
                one->next_ms <= now)
                start_job(r, one);
        }
    if (r->has_walked && r->jobs == 0 && !r->is_complete) {
        r->is_complete = 1;
        r->revision++; /* who has the list is told */
    }
}

/* ---- walking, on a thread ---- */

static void walk_folder(struct walk *w, const char *study, const char *folder)
{
    size_t n;
    char **paths;

    (void)run_dir_list(folder, &paths, &n, NULL);
    for (size_t i = 0; i < n; i++) {
        struct found *f;
        struct stat st;

        ARRAY_GROW(w->found, w->n, w->cap);
        f = &w->found[w->n++];
        *f = (struct found){.path = paths[i], .study = xstrdup(study)};
        f->is_own = stat(f->path, &st) == 0 && st.st_uid == geteuid();
        stamps_look(&f->stamps, f->path);
    }
    free(paths);
}

static void walk(struct reading *reading)
{
    struct walk *w = READING_OF(struct walk, reading);
    const char *folder = w->runs->dir;
    char **paths;

    walk_folder(w, "", folder);
    study_dir_list(folder, &paths, &w->n_studies);
    w->study = xcalloc(w->n_studies + 1, sizeof(*w->study));
    for (size_t i = 0; i < w->n_studies; i++) {
        w->study[i] = xstrdup(text_base_name(paths[i]));
        walk_folder(w, w->study[i], paths[i]);
    }
    run_dir_list_free(paths, w->n_studies);
}

/* ---- what a walk has found ---- */

static void take_run(struct runs *r, const struct found *f)
{
    const char *last = strrchr(f->path, '/') + 1, *study = f->study;
    char name[2 * NAME_BYTES];
    struct run *one;

    if (strlen(last) >= NAME_BYTES)
        return;
    (void)snprintf(name, sizeof(name), "%s%s%s", study, *study != '\0' ? "/" : "", last);
    one = find_from(r, name, &r->found);
    if (one == NULL) {
        ARRAY_GROW(r->run, r->n, r->cap);
        one = r->run[r->n++] = xcalloc(1, sizeof(*one));
        one->name = xstrdup(name);
        one->path = xstrdup(f->path);
        one->study = xstrdup(study);
        r->names_revision = ++r->revision;
    }
    one->is_seen = 1;
    one->is_own = f->is_own;
    one->is_stale |= stamps_renew(&one->stamps, &f->stamps);
}

static int compare(const void *a, const void *b)
{
    const struct run *x = *(struct run *const *)a, *y = *(struct run *const *)b;

    const struct timespec *a_began = stamps_began(&x->stamps),
                          *b_began = stamps_began(&y->stamps);

    if (a_began->tv_sec != b_began->tv_sec)
        return a_began->tv_sec > b_began->tv_sec ? -1 : 1;
    if (a_began->tv_nsec != b_began->tv_nsec)
        return a_began->tv_nsec > b_began->tv_nsec ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* A folder that cannot be held has no runs. */
static void on_walked(struct reading *reading, const struct err *why)
{
    struct walk *w = READING_OF(struct walk, reading);
    struct runs *r = w->runs;
    size_t kept = 0;

    r->n_walked = r->n_walks;
    if (why != NULL && why->code == ERR_TIMEOUT) { /* the list stays as it is */
        r->on_change(r->ctx);
        return;
    }
    for (size_t i = 0; i < r->n; i++)
        r->run[i]->is_seen = 0;
    r->found = 0;
    for (size_t i = 0; i < w->n; i++)
        take_run(r, &w->found[i]);
    for (size_t i = 0; i < r->n; i++) {
        if (r->run[i]->is_seen) {
            r->run[kept++] = r->run[i];
            continue;
        }
        free_run(r->run[i]);
        r->names_revision = ++r->revision;
    }
    r->n = kept;
    if (r->n > 0)
        qsort(r->run, r->n, sizeof(struct run *), compare);
    free_names(r->study, r->n_studies);
    r->study = w->study;
    r->n_studies = w->n_studies;
    w->study = NULL;
    w->n_studies = 0;
    r->has_walked = 1;
    start_jobs(r);
    r->on_change(r->ctx); /* who has asked for the list waits for the walk */
}

static void after_walk(struct reading *reading)
{
    struct walk *w = READING_OF(struct walk, reading);
    struct runs *r = w->runs;

    r->is_walking = 0;
    for (size_t i = 0; i < w->n; i++) {
        free(w->found[i].path);
        free(w->found[i].study);
    }
    free(w->found);
    free_names(w->study, w->n_studies);
    free(w);
    if (r->walks_again)
        (void)runs_walk(r);
}

uint64_t runs_walk(struct runs *r)
{
    struct walk *w;

    /* The last one was too late, and its thread has not come back. */
    if (r->is_walking && r->n_walked == r->n_walks)
        return r->n_walked;
    r->walks_again = r->is_walking;
    if (r->is_walking || r->is_closing)
        return r->n_walks + 1;
    r->is_walking = 1;
    r->n_walks++;
    w = xcalloc(1, sizeof(*w));
    w->runs = r;
    w->reading = (struct reading){READING_LIST, r->dir, walk, on_walked, after_walk};
    reading_add(r->readings, &w->reading);
    return r->n_walks;
}

uint64_t runs_walked(const struct runs *r)
{
    return r->n_walked;
}

int runs_is_complete(const struct runs *r)
{
    return r->is_complete;
}

/* ---- asking ---- */

const char *runs_path(const struct runs *r, const char *name)
{
    const struct run *one = find(r, name);

    return one != NULL ? one->path : NULL;
}

const char *runs_study_path(const struct runs *r, const char *name)
{
    static char path[PATH_MAX];

    for (size_t i = 0; name != NULL && i < r->n_studies; i++) {
        if (strcmp(r->study[i], name) == 0) {
            (void)snprintf(path, sizeof(path), "%s/%s", r->dir, name);
            return path;
        }
    }
    return NULL;
}

uint64_t runs_revision(const struct runs *r)
{
    return r->revision;
}

void runs_put(const struct runs *r, uint64_t since, struct json *j)
{
    json_put_array(j, "runs");
    for (size_t i = 0; i < r->n; i++)
        if (r->run[i]->revision > since && r->run[i]->summary != NULL)
            json_raw(j, r->run[i]->summary, strlen(r->run[i]->summary));
    json_close(j);
    if (r->names_revision <= since)
        return;
    json_put_array(j, "names");
    for (size_t i = 0; i < r->n; i++)
        json_str(j, r->run[i]->name);
    json_close(j);
    json_put_array(j, "studies");
    for (size_t i = 0; i < r->n_studies; i++)
        json_str(j, r->study[i]);
    json_close(j);
}
