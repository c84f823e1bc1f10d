#include "supervisor/web/runs.h"

#include "common/io/beneath.h"
#include "common/mem/xmalloc.h"
#include "supervisor/run/run_dir.h"
#include "supervisor/run/run_record.h"
#include "supervisor/study/study_dir.h"
#include "supervisor/web/curves.h"
#include "supervisor/web/stamps.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_JOBS = 2,
    NAME_BYTES = 256,
    SPARK_POINTS = 48,
    PAUSE_TIMES = 20, /* pause before a run is read again / time that reading took */
    SHOW_EVERY = 16,  /* during the first walk, the list is sent after this many runs */
};

struct run {
    char *name, *path, *study; /* study: "" outside of any */
    struct stamps stamps;
    char *summary; /* JSON; NULL: not read yet */
    uint64_t revision;
    int is_seen, is_stale, is_being_read;
    uint64_t next_ms; /* earliest time of the next reading (PAUSE_TIMES) */
};

struct runs {
    uv_loop_t *loop;
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
    int has_walked, is_complete, is_closing;
};

struct job {
    uv_work_t work;
    struct runs *runs;
    char *name, *path, *study;
    uint64_t took_ms;
    struct json json;
};

struct runs *runs_new(uv_loop_t *loop, const char *dir, void (*on_change)(void *ctx),
                      void *ctx)
{
    struct runs *r = xcalloc(1, sizeof(*r));

    *r = (struct runs){.loop = loop,
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

static void drop_studies(struct runs *r)
{
    for (size_t i = 0; i < r->n_studies; i++)
        free(r->study[i]);
    free(r->study);
    r->study = NULL;
    r->n_studies = 0;
}

void runs_free(struct runs *r)
{
    for (size_t i = 0; i < r->n; i++)
        free_run(r->run[i]);
    free(r->run);
    drop_studies(r);
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

static void put_agents(const struct run_status *s, struct json *j)
{
    uint64_t restarts = 0, given_up = 0;

    for (size_t i = 0; i < s->n_agents; i++) {
        restarts += s->agents[i].restarts;
        given_up += s->agents[i].given_up != NULL;
    }
    json_put_u64(j, "agents", s->n_agents);
    json_put_u64(j, "restarts", restarts);
    json_put_u64(j, "given_up", given_up);
}

static void read_summary(uv_work_t *work)
{
    static const char *const keys[] = {
        "state",    "exit_code",      "env_steps",       "total_steps",
        "episodes", "total_episodes", "checkpoint_step", "team_return_mean"};
    struct job *job = work->data;
    struct json *j = &job->json;
    const int is_held = beneath_hold(job->path, NULL) == 0;
    const uint64_t began_ns = uv_hrtime();
    struct run_record record;
    char began[32];

    run_record_began(job->path, began);
    run_record_read(&record, job->path);
    json_begin(j);
    json_object(j);
    json_put_str(j, "run", job->name);
    json_put_str(j, "study", *job->study != '\0' ? job->study : NULL);
    run_status_json_some(j, &record.status, keys, sizeof(keys) / sizeof(keys[0]));
    json_put_bool(j, "live", record.is_live);
    json_put_str(j, "began", *began != '\0' ? began : NULL);
    put_agents(&record.status, j);
    json_key(j, "spark");
    curves_put_spark(job->path, SPARK_POINTS, j);
    json_close(j);
    run_record_done(&record);
    if (is_held)
        beneath_release(job->path);
    job->took_ms = (uv_hrtime() - began_ns) / 1000000;
}

static void start_jobs(struct runs *r);

static void on_read(uv_work_t *work, int status)
{
    struct job *job = work->data;
    struct runs *r = job->runs;
    struct run *one = find(r, job->name);
    size_t len;

    r->jobs--;
    if (one != NULL && status == 0) {
        const char *text = json_line(&job->json, &len);

        one->is_being_read = 0;
        one->next_ms = uv_now(r->loop) + PAUSE_TIMES * job->took_ms;
        if (one->summary == NULL || strcmp(one->summary, text) != 0) {
            free(one->summary);
            one->summary = xstrdup(text);
            one->revision = ++r->revision;
        }
    }
    json_done(&job->json);
    free(job->name);
    free(job->path);
    free(job->study);
    free(job);
    if (status == 0)
        start_jobs(r);
    if (status == 0 && (r->jobs == 0 || r->revision % SHOW_EVERY == 0))
        r->on_change(r->ctx);
}

/* Reads the newest runs first: they are on the screen. */
static void start_jobs(struct runs *r)
{
    for (size_t i = 0; i < r->n && r->jobs < MAX_JOBS && !r->is_closing; i++) {
        struct run *one = r->run[i];
        struct job *job;

        if (!one->is_stale || one->is_being_read || one->next_ms > uv_now(r->loop))
            continue;
        one->is_stale = 0;
        one->is_being_read = 1;
        job = xcalloc(1, sizeof(*job));
        job->work.data = job;
        job->runs = r;
        job->name = xstrdup(one->name);
        job->path = xstrdup(one->path);
        job->study = xstrdup(one->study);
        r->jobs++;
        if (uv_queue_work(r->loop, &job->work, read_summary, on_read) < 0)
            abort(); /* fails only without a function to call */
    }
    if (r->has_walked && r->jobs == 0)
        r->is_complete = 1;
}

/* ---- walking ---- */

static void take_run(struct runs *r, const char *study, const char *path)
{
    const char *last = strrchr(path, '/') + 1;
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
        one->path = xstrdup(path);
        one->study = xstrdup(study);
        r->names_revision = ++r->revision;
    }
    one->is_seen = 1;
    one->is_stale |= stamps_look(&one->stamps, one->path);
}

static void walk_folder(struct runs *r, const char *study, const char *folder)
{
    size_t n;
    char **paths = run_dir_list(folder, &n);

    for (size_t i = 0; i < n; i++) {
        take_run(r, study, paths[i]);
        free(paths[i]);
    }
    free(paths);
}

static void walk_studies(struct runs *r)
{
    DIR *dir = opendir(r->dir);
    struct dirent *e;

    drop_studies(r);
    while (dir != NULL && (e = readdir(dir)) != NULL) {
        char *path;

        if (e->d_name[0] == '.' || (e->d_type != DT_DIR && e->d_type != DT_UNKNOWN))
            continue;
        path = xasprintf("%s/%s", r->dir, e->d_name);
        if (study_dir_is_one(path)) {
            r->study = xreallocarray(r->study, r->n_studies + 1, sizeof(*r->study));
            r->study[r->n_studies++] = xstrdup(e->d_name);
            walk_folder(r, e->d_name, path);
        }
        free(path);
    }
    if (dir != NULL)
        (void)closedir(dir);
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

static void drop_unseen(struct runs *r)
{
    size_t kept = 0;

    for (size_t i = 0; i < r->n; i++) {
        if (r->run[i]->is_seen) {
            r->run[kept++] = r->run[i];
            continue;
        }
        free_run(r->run[i]);
        r->names_revision = ++r->revision;
    }
    r->n = kept;
}

void runs_walk(struct runs *r)
{
    const uint64_t before = r->revision;

    if (r->jobs > 0)
        return;
    for (size_t i = 0; i < r->n; i++)
        r->run[i]->is_seen = 0;
    r->found = 0;
    walk_folder(r, "", r->dir);
    walk_studies(r);
    drop_unseen(r);
    if (r->n > 0)
        qsort(r->run, r->n, sizeof(struct run *), compare);
    r->has_walked = 1;
    start_jobs(r);
    if (r->revision != before)
        r->on_change(r->ctx);
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
