#include "supervisor/proc/agent_table.h"

#include "common/err/check.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/proc/agent.h"
#include "supervisor/proc/worker_local.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

/* Limits of the interval between checks of the watchdog. */
#define WATCH_MIN_MS 20
#define WATCH_MAX_MS 250

enum table_phase { TABLE_NEW, TABLE_RUNNING, TABLE_STOPPING, TABLE_STOPPED };

struct agent_table {
    struct agent_host host; /* first: agents have a pointer to it, cast to the table */
    struct agent_callbacks cb;
    enum table_phase phase;
    struct agent *agents;
    size_t n;
    size_t n_gone;
    int is_ready; /* on_ready was called */
    int is_failed;
    struct local_site *local; /* NULL: no worker is local */

    uv_timer_t stop_timer, due_timer, watch_timer;
    uint64_t watched_at_ns; /* the last look of the watchdog */
    int open_parts;         /* of the timers and the local site */
    uint64_t deadline_ms;   /* in the loop's time */
    LIST_ENTRY(agent_table) entry;
};

static LIST_HEAD(, agent_table) running = LIST_HEAD_INITIALIZER(running);

const char *agent_state_name(enum agent_state s)
{
    static const char *const names[AGENT_STATE_COUNT] = {
        [AGENT_STARTING] = "starting",   [AGENT_CONFIGURING] = "configuring",
        [AGENT_REPLAYING] = "replaying", [AGENT_IDLE] = "idle",
        [AGENT_BUSY] = "busy",           [AGENT_STOPPING] = "stopping",
        [AGENT_GONE] = "gone",           [AGENT_WAITING] = "waiting",
    };

    CHECK((unsigned)s < AGENT_STATE_COUNT);
    return names[s];
}

static struct agent_table *table_of(const struct agent *a)
{
    return (struct agent_table *)a->host;
}

static struct agent *agent_at(const struct agent_table *t, size_t i)
{
    CHECK(i < t->n, "agent %zu of %zu", i, t->n);
    return &t->agents[i];
}

/* Delayed starts, and responses for absent agents and to requests that have failed */

static void on_due_timer(uv_timer_t *timer);

static void host_on_due(struct agent_host *h)
{
    struct agent_table *t = (struct agent_table *)h;
    const uint64_t now_ns = uv_hrtime();
    uint64_t due_ns = UINT64_MAX, wait_ms;

    for (size_t i = 0; i < t->n; i++)
        if (agent_due_ns(&t->agents[i]) < due_ns)
            due_ns = agent_due_ns(&t->agents[i]);
    if (t->phase != TABLE_RUNNING || due_ns == UINT64_MAX)
        return;
    uv_update_time(h->loop);
    wait_ms = due_ns > now_ns ? (due_ns - now_ns + 999999) / 1000000 : 0;
    (void)uv_timer_start(&t->due_timer, on_due_timer, wait_ms, 0);
}

static void on_due_timer(uv_timer_t *timer)
{
    struct agent_table *t = timer->data;

    for (size_t i = 0; i < t->n && t->phase == TABLE_RUNNING; i++)
        agent_run_timers(&t->agents[i], uv_hrtime());
    host_on_due(&t->host);
}

/* The watchdog */

/* Often enough to detect an overdue agent within a quarter of its time limit. */
static uint64_t watch_interval_ms(const struct agent_table *t)
{
    uint64_t ms = WATCH_MAX_MS;

    for (size_t i = 0; i < t->n; i++) {
        const double own_ms = t->agents[i].limits.respond_within_s * 1000 / 8;

        if (own_ms > 0 && own_ms < (double)ms)
            ms = (uint64_t)own_ms;
    }
    return ms < WATCH_MIN_MS ? WATCH_MIN_MS : ms;
}

/* If the check itself is late, the machine or the supervisor was stopped. */
static void on_watch_timer(uv_timer_t *timer)
{
    struct agent_table *t = timer->data;
    const uint64_t interval_ms = watch_interval_ms(t), now_ns = uv_hrtime();
    const uint64_t late_ns = now_ns - t->watched_at_ns;
    const int stood_still = late_ns > 2 * interval_ms * 1000000;

    t->watched_at_ns = now_ns;
    for (size_t i = 0; i < t->n && t->phase == TABLE_RUNNING; i++) {
        if (stood_still)
            agent_extend_deadline(&t->agents[i], late_ns);
        else
            agent_watch(&t->agents[i], now_ns);
    }
    (void)uv_timer_start(timer, on_watch_timer, interval_ms, 0);
}

/* Events from the agents */

static void host_on_event(struct agent_host *h, const struct agent_event *e)
{
    struct agent_table *t = (struct agent_table *)h;

    if (t->cb.on_event != NULL)
        t->cb.on_event(t->cb.ctx, e);
}

static void host_on_ready(struct agent *a)
{
    struct agent_table *t = table_of(a);

    if (t->phase != TABLE_RUNNING || t->is_ready)
        return;
    for (size_t i = 0; i < t->n; i++)
        if (t->agents[i].description_data == NULL)
            return;
    t->is_ready = 1;
    t->cb.on_ready(t->cb.ctx);
}

static void host_on_failed(struct agent *a, const struct err *report)
{
    struct agent_table *t = table_of(a);

    if (t->is_failed)
        return;
    t->is_failed = 1;
    t->cb.on_failed(t->cb.ctx, a->index, report);
}

static void on_part_closed(void *table)
{
    struct agent_table *t = table;

    if (--t->open_parts > 0)
        return;
    LIST_REMOVE(t, entry);
    t->phase = TABLE_STOPPED;
    t->cb.on_stopped(t->cb.ctx);
}

static void on_timer_closed(uv_handle_t *h)
{
    on_part_closed(h->data);
}

static void table_close_if_gone(struct agent_table *t)
{
    if (t->phase != TABLE_STOPPING || t->n_gone < t->n ||
        uv_is_closing((uv_handle_t *)&t->stop_timer))
        return;
    if (t->local != NULL)
        local_site_close(t->local, on_part_closed, t);
    uv_close((uv_handle_t *)&t->stop_timer, on_timer_closed);
    uv_close((uv_handle_t *)&t->due_timer, on_timer_closed);
    uv_close((uv_handle_t *)&t->watch_timer, on_timer_closed);
}

static void host_on_gone(struct agent *a)
{
    struct agent_table *t = table_of(a);

    t->n_gone++;
    table_close_if_gone(t);
}

/* Creating, starting, stopping */

/* For tests of long replays. 0: snapshots are due by their cost. */
static size_t snapshots_due_after(void)
{
    const char *wish = getenv(SNAPSHOT_VARIABLE);
    uint64_t n;

    if (wish == NULL || *wish == '\0')
        return 0;
    if (text_u64(wish, &n) && n > 0 && n <= SIZE_MAX)
        return (size_t)n;
    log_warn(SNAPSHOT_VARIABLE
             "=%s: a number of requests expected, at least 1; snapshots are "
             "taken by their cost",
             wish);
    return 0;
}

static int table_init(struct agent_table *t, int agent_exe_fd, int log_fd,
                      const struct agent_spec *specs, struct err *err)
{
    const size_t due_after = snapshots_due_after();
    size_t n_local = 0;
    int rc = 0;

    for (size_t i = 0; i < t->n; i++)
        n_local += specs[i].site == NULL;
    if (n_local > 0)
        rc = local_site_new(&t->local, t->host.loop, agent_exe_fd, log_fd, n_local, err);
    for (size_t i = 0; rc == 0 && i < t->n; i++) {
        struct worker_site *site =
            specs[i].site != NULL ? specs[i].site : local_site_base(t->local);

        rc = agent_init(&t->agents[i], &t->host, site, i, &specs[i], err);
        t->agents[i].replay.due_after = due_after;
    }
    return rc;
}

int agent_table_new(struct agent_table **ret, uv_loop_t *loop, int agent_exe_fd,
                    int log_fd, const struct agent_spec *specs, size_t n,
                    const struct agent_callbacks *cb, struct err *err)
{
    struct agent_table *t = xcalloc(1, sizeof(*t));
    int rc;

    CHECK(n > 0 && n <= AGENT_MAX_COUNT, "%zu agents", n);
    t->cb = *cb;
    t->n = n;
    t->agents = xcalloc(n, sizeof(*t->agents));
    t->host = (struct agent_host){
        .loop = loop,
        .ctx = cb->ctx,
        .on_event = host_on_event,
        .on_ready = host_on_ready,
        .on_failed = host_on_failed,
        .on_gone = host_on_gone,
        .on_due = host_on_due,
    };
    rc = table_init(t, agent_exe_fd, log_fd, specs, err);
    if (rc < 0)
        agent_table_free(t);
    else
        *ret = t;
    return rc;
}

void agent_table_free(struct agent_table *t)
{
    if (t == NULL)
        return;
    CHECK(t->phase == TABLE_NEW || t->phase == TABLE_STOPPED);
    for (size_t i = 0; i < t->n; i++)
        agent_done(&t->agents[i]);
    local_site_free(t->local);
    free(t->agents);
    free(t);
}

void agent_table_set_numerics(struct agent_table *t, enum numerics numerics)
{
    t->host.numerics = numerics;
}

int agent_table_preload(struct agent_table *t, size_t agent, const void *block,
                        size_t block_bytes, struct err *err)
{
    struct agent *a = agent_at(t, agent);
    const struct replay_block values = replay_block_at(block, block_bytes);

    CHECK(t->phase == TABLE_NEW && !a->replay.has_snapshot);
    return agent_put(a, &values, err);
}

static void table_open_timer(struct agent_table *t, uv_timer_t *timer)
{
    (void)uv_timer_init(t->host.loop, timer);
    timer->data = t;
    t->open_parts++;
}

void agent_table_limit_replay(struct agent_table *t, size_t agent, size_t max_requests)
{
    CHECK(max_requests > 0);
    agent_at(t, agent)->replay.max_requests = max_requests;
}

int agent_table_start(struct agent_table *t, struct err *err)
{
    if (t->phase != TABLE_NEW)
        return err_set(err, ERR_STATE, "the agents were started already");
    t->phase = TABLE_RUNNING;
    LIST_INSERT_HEAD(&running, t, entry);
    if (t->local != NULL) {
        local_site_open(t->local);
        t->open_parts++;
    }
    table_open_timer(t, &t->stop_timer);
    table_open_timer(t, &t->due_timer);
    table_open_timer(t, &t->watch_timer);
    t->watched_at_ns = uv_hrtime();
    (void)uv_timer_start(&t->watch_timer, on_watch_timer, watch_interval_ms(t), 0);
    for (size_t i = 0; i < t->n; i++)
        agent_begin(&t->agents[i]);
    return 0;
}

static void feed_all(struct agent_table *t, enum proc_event event)
{
    for (size_t i = 0; i < t->n; i++)
        agent_feed(&t->agents[i], event);
}

static void on_stop_timer(uv_timer_t *timer)
{
    struct agent_table *t = timer->data;
    uint64_t now = uv_now(t->host.loop);

    if (now >= t->deadline_ms) {
        feed_all(t, PROC_EV_DEADLINE);
        return;
    }
    feed_all(t, PROC_EV_OVERDUE);
    (void)uv_timer_start(timer, on_stop_timer, t->deadline_ms - now, 0);
}

void agent_table_stop(struct agent_table *t, uint64_t deadline_ms)
{
    uint64_t deadline;

    if (t->phase == TABLE_NEW) {
        t->phase = TABLE_STOPPED;
        t->cb.on_stopped(t->cb.ctx);
        return;
    }
    uv_update_time(t->host.loop);
    deadline = uv_now(t->host.loop) + deadline_ms;
    if (t->phase == TABLE_STOPPED ||
        (t->phase == TABLE_STOPPING && deadline >= t->deadline_ms))
        return;
    t->deadline_ms = deadline;
    if (t->phase == TABLE_RUNNING) {
        t->phase = TABLE_STOPPING;
        feed_all(t, PROC_EV_STOP);
    }
    if (deadline_ms == 0)
        feed_all(t, PROC_EV_DEADLINE);
    table_close_if_gone(t);
    if (!uv_is_closing((uv_handle_t *)&t->stop_timer))
        (void)uv_timer_start(&t->stop_timer, on_stop_timer, (deadline_ms + 1) / 2, 0);
}

/* Requests */

const struct msg *agent_table_description(const struct agent_table *t, size_t agent)
{
    const struct agent *a = agent_at(t, agent);

    return a->description_data != NULL ? &a->description : NULL;
}

const char *agent_table_fingerprint(const struct agent_table *t)
{
    return t->host.identity.fingerprint;
}

struct msg_out *agent_request_begin(struct agent_table *t, size_t agent,
                                    const char *method, int writes)
{
    struct agent *a = agent_at(t, agent);
    struct msg_out *o = &a->out[a->pending.active];

    a->writes = writes;
    a->uncounted = 0;
    a->may_fail = 0;
    a->core = -1;
    msg_begin_request(o, a->next_id, method);
    return o;
}

void agent_request_wake_on(struct agent_table *t, size_t agent, int core)
{
    agent_at(t, agent)->core = core;
}

void agent_request_uncounted(struct agent_table *t, size_t agent)
{
    CHECK(!agent_at(t, agent)->writes);
    agent_at(t, agent)->uncounted = 1;
}

void agent_request_may_fail(struct agent_table *t, size_t agent)
{
    CHECK(!agent_at(t, agent)->writes);
    agent_at(t, agent)->may_fail = 1;
}

int agent_request_send(struct agent_table *t, size_t agent, agent_response_fn fn,
                       void *ctx, struct err *err)
{
    struct agent *a = agent_at(t, agent);

    if (a->pending.active)
        return err_set(err, ERR_STATE, "agent %s has not answered its last request yet",
                       a->name);
    if (a->state == PROC_ENDING || a->state == PROC_STOPPING || a->state == PROC_GONE)
        return err_set(err, ERR_STATE, "agent %s is %s", a->name,
                       proc_state_name(a->state));
    agent_apply_mode_changes(a);
    a->pending = (struct agent_pending){.active = 1,
                                        .writes = a->writes,
                                        .uncounted = a->uncounted,
                                        .may_fail = a->may_fail,
                                        .core = a->core,
                                        .id = a->next_id,
                                        .fn = fn,
                                        .ctx = ctx};
    (void)agent_take_id(a);
    msg_end(&a->out[0], &a->pending.frame, &a->pending.frame_len);
    if (agent_is_absent_for(a, a->writes))
        host_on_due(&t->host);
    else
        agent_send_pending(a);
    return 0;
}

int agent_table_block(struct agent_table *t, size_t agent, const void **ret,
                      size_t *ret_len, struct err *err)
{
    struct agent *a = agent_at(t, agent);
    int rc = 0;

    if (!a->replay.has_snapshot)
        return err_set(err, ERR_STATE, "agent %s has not been configured yet", a->name);
    if (a->pending.active && a->pending.writes && a->failure.code == 0)
        return err_set(err, ERR_STATE, "agent %s is changing its variables", a->name);
    if (a->replay.n_requests > 0 && a->state != PROC_IDLE && a->state != PROC_BUSY)
        return err_set(err, UV_EAGAIN, "agent %s is being restarted", a->name);
    if (a->replay.n_requests > 0)
        rc = agent_snapshot(a, err);
    if (rc < 0)
        return rc;
    *ret = a->replay.snapshot;
    *ret_len = a->replay.snapshot_bytes;
    return 0;
}

void agent_table_keep(struct agent_table *t)
{
    for (size_t i = 0; i < t->n; i++) {
        struct agent *a = &t->agents[i];
        const int is_known = a->state == PROC_IDLE || a->state == PROC_BUSY;
        const struct replay_block block = agent_block(a);
        const size_t n = a->replay.n_requests;
        const uint32_t newest = n > 0 ? a->replay.requests[n - 1].id : 0;

        CHECK(!a->pending.active || !a->pending.writes, "%s", a->name);
        replay_keep(&a->replay, is_known ? &block : NULL);
        if (a->replay.n_requests < n)
            agent_log_snapshot(a, newest);
        agent_table_get_resume_point(t, i, 0, &a->kept);
    }
}

int agent_table_kept(struct agent_table *t, size_t agent, const void **ret,
                     size_t *ret_len, struct err *err)
{
    const struct agent *a = agent_at(t, agent);

    if (!a->replay.has_kept)
        return err_set(err, ERR_STATE, "the former values of agent %s are not known",
                       a->name);
    *ret = a->replay.kept;
    *ret_len = a->replay.snapshot_bytes;
    return 0;
}

int agent_table_signal(struct agent_table *t, size_t agent, int signum)
{
    const struct agent *a = agent_at(t, agent);

    return a->link->ops->signal(a->link, signum);
}

void agent_table_end(struct agent_table *t)
{
    for (size_t i = 0; i < t->n; i++)
        t->agents[i].link->ops->kill(t->agents[i].link);
    if (t->local != NULL)
        local_site_end();
}

void agent_tables_pause(int on)
{
    struct agent_table *t;

    LIST_FOREACH(t, &running, entry)
    for (size_t i = 0; i < t->n; i++)
        t->agents[i].link->ops->pause(t->agents[i].link, on);
}

void agent_table_trace(struct agent_table *t, int on)
{
    for (size_t i = 0; i < t->n; i++)
        agent_trace(&t->agents[i], on);
}

int agent_table_kill(struct agent_table *t, size_t agent, struct err *err)
{
    return agent_kill(agent_at(t, agent), RESTART_EV_KILLED, err);
}

int agent_table_respawn(struct agent_table *t, size_t agent, struct err *err)
{
    return agent_kill(agent_at(t, agent), RESTART_EV_REPLACED, err);
}

void agent_table_set_limits(struct agent_table *t, size_t agent,
                            const struct agent_limits *limits)
{
    struct agent *a = agent_at(t, agent);

    a->limits = *limits;
    a->link->ops->limit_memory(a->link, limits->memory_limit_bytes);
}

/* Modes */

const char *agent_mode_name(enum agent_mode m)
{
    static const char *const names[] = {
        [AGENT_LEARNS] = "learns", [AGENT_FROZEN] = "frozen", [AGENT_NOOP] = "noop"};

    return names[m];
}

void agent_table_get_resume_point(const struct agent_table *t, size_t agent, int kept,
                                  struct agent_resume_point *ret)
{
    const struct agent *a = agent_at(t, agent);

    *ret = kept ? a->kept : (struct agent_resume_point){a->mode, a->position};
}

void agent_table_uncount(struct agent_table *t)
{
    for (size_t i = 0; i < t->n; i++)
        t->agents[i].position = t->agents[i].kept.position;
}

void agent_table_set_position(struct agent_table *t, size_t agent,
                              const struct agent_resume_point *s)
{
    agent_at(t, agent)->position = s->position;
}

void agent_table_resume_at(struct agent_table *t, size_t agent,
                           const struct agent_resume_point *s)
{
    agent_resume_at(agent_at(t, agent), s);
}

void agent_table_plan_mode_change(struct agent_table *t, size_t agent,
                                  const struct agent_mode_change *change)
{
    agent_plan_mode_change(agent_at(t, agent), change);
}

void agent_table_reinstate(struct agent_table *t, size_t agent)
{
    agent_reinstate(agent_at(t, agent));
}

void agent_table_begin_round(struct agent_table *t, size_t agent)
{
    struct agent *a = agent_at(t, agent);

    a->round_position = a->position;
    agent_apply_mode_changes(a);
}

/* Information */

void agent_table_info(const struct agent_table *t, size_t agent, struct agent_info *ret)
{
    const struct agent *a = agent_at(t, agent);

    *ret = (struct agent_info){
        .name = a->name,
        .state = agent_public_state(a),
        .mode = a->mode,
        .pid = a->link->is_running ? a->link->pid : 0,
        .restarts = a->n_restarts,
        .rss_bytes = a->link->is_running ? a->link->ops->memory(a->link) : -1,
        .host = a->link->host,
    };
}

size_t agent_table_count(const struct agent_table *t)
{
    return t->n;
}

size_t agent_table_find(const struct agent_table *t, const char *name)
{
    size_t i;

    for (i = 0; i < t->n && strcmp(t->agents[i].name, name) != 0; i++)
        ;
    return i;
}
