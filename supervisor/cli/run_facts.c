#include "supervisor/cli/run_facts.h"

#include "common/io/patience.h"
#include "common/mem/xmalloc.h"
#include "supervisor/metrics/json.h"
#include "supervisor/proc/stall.h"
#include "supervisor/rundir/run_dir.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int ask(struct run_facts *f, const char *path, int timeout_ms)
{
    struct control_client *client = NULL;
    const struct msg *answer;
    struct err err = {0};
    int rc = control_client_open(&client, path, timeout_ms, &err);

    if (rc == 0) {
        msg_map(control_client_begin(client, "status"), 0);
        rc = control_client_call(client, &answer, &err);
    }
    if (rc == 0)
        run_status_unpack(&f->status, &answer->body, &f->arena);
    control_client_close(client);
    return rc;
}

/* Whether the error says that a live run is silent: not that its socket is closed, out of reach
 * or that this process could not ask. */
static int is_silence(int rc)
{
    return rc != ERR_NOT_FOUND && rc != -EACCES && rc != -EPERM && !err_is_failure(rc);
}

void run_facts_get(struct run_facts *ret, const char *path, int timeout_ms)
{
    int rc, left_ms, wait_ms = 0; /* no limit */
    struct run_record r;
    pid_t holder;

    *ret = (struct run_facts){0};
    patience_enter(path);
    (void)run_tags_read(&ret->tags, path, NULL);
    holder = run_dir_holder(path);
    left_ms = patience_left_ms();
    if (timeout_ms > 0 && timeout_ms < left_ms)
        wait_ms = timeout_ms;
    else if (left_ms < INT_MAX)
        wait_ms = left_ms;
    if (holder == 0)
        rc = ERR_NOT_FOUND;
    else if (left_ms == 0 || (holder > 0 && stall_is_stopped(holder)))
        rc = ERR_TIMEOUT; /* one that is stopped would not answer */
    else
        rc = ask(ret, path, wait_ms);
    ret->is_live = 1;
    if (rc < 0) {
        run_record_read(&r, path);
        ret->is_live = r.is_live;
        ret->is_denied = r.is_denied;
        if (r.is_live && is_silence(rc))
            run_record_note_silence(&r);
        run_status_copy(&ret->status, &r.status, &ret->arena);
        run_record_done(&r);
    }
    patience_leave();
}

struct progress *run_facts_progress(const char *path)
{
    char *file = xasprintf("%s/metrics/progress.csv", path);
    struct progress *ret = NULL;

    patience_enter(path);
    if (progress_read_end(&ret, file, NULL) < 0)
        ret = NULL;
    patience_leave();
    free(file);
    return ret;
}

void run_facts_done(struct run_facts *f)
{
    arena_done(&f->arena);
    run_tags_done(&f->tags);
    *f = (struct run_facts){0};
}

void run_facts_print_json(const struct run_facts *f)
{
    const struct progress *p = f->progress;
    struct json j = {0};

    json_object(&j);
    run_status_json(&j, &f->status);
    json_put_object(&j, "metrics");
    for (size_t c = 0; p != NULL && c < progress_n_columns(p); c++) {
        const double v = progress_newest(p, c);

        if (!isnan(v))
            json_put_f64(&j, progress_name(p, c), v);
    }
    json_close(&j);
    run_tags_json(&f->tags, &j);
    if (f->job != NULL)
        submitted_json(f->job, &j);
    json_print(&j, stdout);
}

const char *run_agent_names(const char *path, char *ret, size_t size)
{
    struct run_record r;

    *ret = '\0';
    run_record_read(&r, path);
    for (size_t i = 0; i < r.status.n_agents; i++) {
        const char *name = r.status.agents[i].name;

        if (strlen(ret) + strlen(name) + 3 < size)
            (void)strcat(strcat(ret, *ret != '\0' ? ", " : ""), name);
    }
    run_record_done(&r);
    return ret;
}
