#include "supervisor/proc/agent.h"

#include "common/err/check.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "supervisor/trace/trace.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The limits of a configuration that does not set any. */
static const struct agent_limits default_limits = {
    .restart = {.policy = RESTART_PERMANENT,
                .max_restarts = 5,
                .within_s = 60,
                .delay_s = 0.1,
                .max_delay_s = 10,
                .on_give_up = GIVE_UP_STOP},
    .respond_within_s = 30,
};

static const struct worker_link_callbacks link_callbacks;

int agent_init(struct agent *a, struct agent_host *host, struct worker_site *site,
               size_t index, const struct agent_spec *spec, struct err *err)
{
    *a = (struct agent){.index = index,
                        .kind = spec->command != NULL ? &worker_is_environment
                                                      : &worker_is_agent,
                        .spec = *spec,
                        .host = host,
                        .requested_end = RESTART_EV_STARTED,
                        .limits = spec->limits != NULL ? *spec->limits : default_limits,
                        .next_id = AGENT_CONFIGURE_ID + 1};
    if (spec->is_trial)
        a->limits.restart.policy = RESTART_TEMPORARY;
    (void)snprintf(a->name, sizeof(a->name), "%s", spec->name);
    a->spec.name = a->name;
    msg_out_init(&a->out[0]);
    msg_out_init(&a->out[1]);
    msg_out_init(&a->control);
    return site->ops->open(site, &a->spec, &link_callbacks, a, &a->link, err);
}

void agent_done(struct agent *a)
{
    if (a->host == NULL)
        return;
    msg_out_done(&a->out[0]);
    msg_out_done(&a->out[1]);
    msg_out_done(&a->control);
    msg_done(&a->in);
    msg_done(&a->description);
    wbuf_done(&a->answer);
    free(a->description_data);
    replay_done(&a->replay);
    restart_history_done(&a->restarts);
    agent_free_mode_changes(a);
    if (a->link != NULL)
        a->link->ops->close(a->link);
}

enum agent_state agent_public_state(const struct agent *a)
{
    static const enum agent_state states[PROC_STATE_COUNT] = {
        [PROC_DOWN] = AGENT_WAITING,
        [PROC_STARTING] = AGENT_STARTING,
        [PROC_CONFIGURING] = AGENT_CONFIGURING,
        [PROC_DESCRIBING] = AGENT_CONFIGURING,
        [PROC_REPLAYING] = AGENT_REPLAYING,
        [PROC_IDLE] = AGENT_IDLE,
        [PROC_BUSY] = AGENT_BUSY,
        [PROC_COMMITTING] = AGENT_BUSY,
        [PROC_DYING] = AGENT_STARTING,
        [PROC_ENDING] = AGENT_STOPPING,
        [PROC_STOPPING] = AGENT_STOPPING,
        [PROC_GONE] = AGENT_GONE,
    };

    return states[a->state];
}

/* Events */

void agent_feed_bad(struct agent *a, const struct err *why)
{
    if (proc_state_is_serving(a->state)) /* else the reason of its end is known */
        a->cause = *why;
    agent_feed(a, PROC_EV_BAD);
}

void agent_feed_fatal(struct agent *a, const struct err *why)
{
    a->failure = *why;
    agent_feed(a, PROC_EV_FATAL);
}

static const char *event_text(const struct agent *a, enum agent_event_kind kind)
{
    if (kind == AGENT_EVENT_EXIT && a->cause.code != 0)
        return a->cause.msg;
    if (kind == AGENT_EVENT_EXIT && a->failure.code != 0)
        return a->failure.msg;
    return kind == AGENT_EVENT_GIVE_UP ? a->failure.msg : NULL;
}

/* The key of the limit for which the process was killed. */
static const char *broken_limit(const struct agent *a)
{
    if (a->is_over_memory)
        return "memory_limit";
    return a->cause.code == ERR_TIMEOUT ? "respond_within" : NULL;
}

void agent_emit(struct agent *a, enum agent_event_kind kind)
{
    agent_emit_mode_change(a, kind, NULL);
}

void agent_emit_mode_change(struct agent *a, enum agent_event_kind kind,
                            const struct agent_mode_change *change)
{
    struct agent_event e = {.kind = kind,
                            .agent = a->index,
                            .pid = a->link->pid,
                            .exit_code = -1,
                            .state = (int)agent_public_state(a),
                            .change = change,
                            .limit = broken_limit(a),
                            .text = event_text(a, kind)};
    char lines[AGENT_LAST_LINES_BYTES] = "";

    if (kind == AGENT_EVENT_READY)
        e.replayed = a->n_replayed;
    if (kind == AGENT_EVENT_EXIT) {
        e.exit_code = a->link->exit_code;
        e.signal = a->link->signal;
        e.state = (int)a->death.in;
        e.failed = a->failure.code != 0;
        capture_last_lines(&a->link->capture, lines, sizeof(lines));
        e.lines = lines;
    }
    if (kind == AGENT_EVENT_SLOW ||
        (kind == AGENT_EVENT_EXIT && a->death.in == AGENT_BUSY))
        e.busy_ns = uv_hrtime() - a->sent_at_ns;
    if (kind == AGENT_EVENT_WAIT)
        e.delay_ms = a->start_delay_ns / 1000000;
    a->host->on_event(a->host, &e);
}

static void on_message(void *worker, const uint8_t *data, size_t len)
{
    agent_handle_message(worker, data, len);
}

static void on_broken(void *worker, const struct err *why)
{
    agent_feed_bad(worker, why);
}

static void on_exit_of(void *worker)
{
    struct agent *a = worker;

    a->copy.is_under_way = 0;
    if (a->state != PROC_DYING && a->state != PROC_ENDING)
        agent_note_death(a);
    if (a->link->pid != 0)
        agent_emit(a, AGENT_EVENT_EXIT);
    agent_feed(a, PROC_EV_EXIT);
}

static void on_started(void *worker)
{
    struct agent *a = worker;

    agent_note_sign_of_life(a);
    agent_emit(a, a->n_restarts == 0 ? AGENT_EVENT_SPAWN : AGENT_EVENT_RESPAWN);
}

/* What a machine may lack now and have again in a moment. */
static int is_shortage(int code)
{
    return code == UV_EAGAIN || code == UV_ENOMEM || code == UV_EMFILE ||
           code == UV_ENFILE;
}

/* A worker that has run, and whose next process the machine cannot hold now, is tried again as
 * its restart policy allows. */
static int is_tried_again(const struct agent *a, const struct err *why)
{
    return a->n_restarts > 0 && a->state == PROC_STARTING && is_shortage(why->code);
}

static void try_again(struct agent *a, const struct err *why)
{
    log_warn("%s %s: %s", a->kind->noun, a->name, why->msg);
    a->was_refused = 1;
    a->n_restarts--;
    agent_feed_bad(a, why);
}

static void on_failed(void *worker, const struct err *why)
{
    struct agent *a = worker;

    if (is_tried_again(a, why))
        try_again(a, why);
    else if (a->failure.code == 0 && a->state != PROC_GONE)
        agent_feed_fatal(a, why);
}

static void take_copy(struct agent *a, const void *bytes, size_t len_bytes);

static void on_copied(void *worker, const void *bytes, size_t len_bytes)
{
    struct agent *a = worker;

    if (!a->copy.is_under_way) /* of a former process, or of values that were replaced */
        return;
    a->copy.is_under_way = 0;
    take_copy(a, bytes, len_bytes);
    agent_emit(a, AGENT_EVENT_COPYABLE);
}

static const struct worker_link_callbacks link_callbacks = {.on_started = on_started,
                                                            .on_message = on_message,
                                                            .on_broken = on_broken,
                                                            .on_failed = on_failed,
                                                            .on_exit = on_exit_of,
                                                            .on_copied = on_copied};

/* Actions */

static void do_kill(struct agent *a)
{
    a->link->ops->kill(a->link);
}

static void do_gone(struct agent *a)
{
    a->host->on_gone(a);
}

/* A write that fails because the process is exiting is ignored: its exit follows. */
static void agent_write(struct agent *a, const uint8_t *frame, size_t len, int core)
{
    struct err err;
    int rc;

    agent_note_sign_of_life(a); /* its time to answer starts now */
    if (log_get_level() >= LOG_LEVEL_DEBUG) {
        struct msg m = {0};

        if (msg_parse(&m, frame + FRAME_HEADER_BYTES, len - FRAME_HEADER_BYTES, NULL) ==
            0)
            log_debug("to %s: %s, request %" PRIu32 ", %zu bytes", a->name, m.method,
                      m.id, len - FRAME_HEADER_BYTES);
        msg_done(&m);
    }
    rc = a->link->ops->send(a->link, frame, len, core, &err);
    if (rc < 0 && rc != ERR_STATE && rc != UV_EPIPE && rc != UV_ECONNRESET)
        agent_feed_bad(a, &err);
}

static void write_control(struct agent *a)
{
    const uint8_t *frame;
    size_t len;

    msg_end(&a->control, &frame, &len);
    agent_write(a, frame, len, -1);
}

uint32_t agent_take_id(struct agent *a)
{
    const uint32_t id = a->next_id;

    a->next_id = id == UINT32_MAX ? AGENT_CONFIGURE_ID + 1 : id + 1;
    return id;
}

static void do_shutdown(struct agent *a)
{
    a->shutdown_id = agent_take_id(a);
    msg_begin_request(&a->control, a->shutdown_id, "shutdown");
    msg_map(&a->control, 0);
    /* It may be stopped. Sent first, since LeakSanitizer in an agent that already ends would
     * wait for ever for a stop that SIGCONT has taken back. */
    (void)a->link->ops->signal(a->link, SIGCONT);
    write_control(a);
}

static void do_terminate(struct agent *a)
{
    (void)a->link->ops->signal(a->link, SIGTERM);
    (void)a->link->ops->signal(a->link, SIGCONT);
}

static void do_spawn(struct agent *a)
{
    struct err why;

    a->n_replayed = 0;
    a->asked = (struct agent_replayed){0};
    a->ready_at_ns = 0;
    a->is_blameless = 0;
    a->is_over_memory = 0;
    a->was_refused = 0;
    a->cause = (struct err){0};
    (void)restart_history_feed(&a->restarts, &a->limits.restart, RESTART_EV_STARTED,
                               uv_hrtime(), 0);
    if (a->link->ops->start(a->link, &why) < 0) {
        if (is_tried_again(a, &why)) {
            try_again(a, &why);
        } else {
            a->failure = why;
            agent_feed(a, PROC_EV_SPAWN_FAILED);
        }
        return;
    }
    agent_note_sign_of_life(a);
    a->link->ops->limit_memory(a->link, a->limits.memory_limit_bytes);
    if (a->link->pid != 0) /* else on_started follows, or its exit */
        on_started(a);
}

static void do_configure(struct agent *a)
{
    msg_begin_request(&a->control, AGENT_CONFIGURE_ID,
                      a->spec.method != NULL ? a->spec.method : "configure");
    a->spec.pack_configure(a->host->ctx, a->index, a->replay.has_snapshot, &a->control);
    write_control(a);
    if (trace_is_on())
        agent_trace(a, 1);
}

static int describe_first(struct agent *a, struct replay_digest digest, struct err *err)
{
    const int rc = a->kind->take_description(a, err);

    if (rc < 0)
        return rc;
    a->description_data = xmalloc(a->in_len);
    memcpy(a->description_data, a->in_data, a->in_len);
    a->description_digest = digest;
    return msg_parse(&a->description, a->description_data, a->in_len, err);
}

/* The answer waits for a copy of the block; if the process is lost, for its exit. */
static void keep_answer(struct agent *a)
{
    if (a->in_data == a->answer.data)
        return;
    wbuf_clear(&a->answer);
    wbuf_bytes(&a->answer, a->in_data, a->in_len);
}

static void do_describe(struct agent *a)
{
    struct replay_digest digest = replay_digest(a->in_data, a->in_len);
    struct err err;
    int rc = 0;

    if (a->description_data == NULL)
        rc = describe_first(a, digest, &err);
    else if (!replay_digest_equal(digest, a->description_digest))
        rc = err_set(&err, ERR_AGENT,
                     "not reproducible: its response to configure differs from the one "
                     "of its first process");
    if (rc == UV_EAGAIN) {
        keep_answer(a);
    } else if (rc < 0) {
        if (a->description_data == NULL)
            (void)err_wrap(&err, "its response to configure");
        agent_feed_fatal(a, &err);
    } else {
        agent_feed(a, PROC_EV_COPIED);
    }
}

static void do_compare(struct agent *a)
{
    struct err err;

    if (a->kind->check_replay(a, &err) < 0)
        agent_feed_fatal(a, &err);
    else
        a->n_replayed++;
}

static void do_replay(struct agent *a)
{
    if (!a->kind->next_replay(a, &a->asked)) {
        agent_feed(a, PROC_EV_REPLAYED);
        return;
    }
    log_verbose("agent %s: replaying request %zu", a->name, a->n_replayed + 1);
    agent_write(a, a->asked.frame, a->asked.frame_len, -1);
}

void agent_send_pending(struct agent *a)
{
    if (a->pending.active && !a->holds_back && !agent_answers_itself(a))
        agent_feed(a, PROC_EV_REQUEST);
}

static void do_ready(struct agent *a)
{
    a->ready_at_ns = uv_hrtime();
    agent_apply_mode_changes(a);
    agent_emit(a, AGENT_EVENT_READY);
    a->host->on_ready(a);
    if (a->state == PROC_IDLE)
        agent_send_pending(a);
}

static void repack(struct agent *a)
{
    const struct agent_revival *r = a->spec.revival;
    struct agent_pending *p = &a->pending;

    if (r != NULL && r->repack(a->host->ctx, a->index, p->id, &a->out[0]))
        msg_end(&a->out[0], &p->frame, &p->frame_len);
}

static void do_send(struct agent *a)
{
    repack(a);
    a->sent_at_ns = uv_hrtime();
    agent_write(a, a->pending.frame, a->pending.frame_len, a->pending.core);
}

/* Records the exchange that changed the agent's variables for replays, or makes a
 * snapshot of the result. */
static int commit(struct agent *a, const struct replay_exchange *x, struct err *err)
{
    const struct trace_mark mark = trace_begin();
    const size_t n_requests = a->replay.n_requests;
    const struct replay_block block = agent_block(a);
    const int rc = replay_commit(&a->replay, &block, x, agent_must_copy(a), err);

    if (rc == 0 && a->replay.n_requests <= n_requests) {
        agent_log_snapshot(a, x->id);
        trace_end(mark, "snapshot");
    }
    return rc;
}

static void commit_answer(struct agent *a)
{
    const struct replay_exchange x = {.id = a->pending.id,
                                      .frame = a->pending.frame,
                                      .frame_len = a->pending.frame_len,
                                      .response = a->in_data,
                                      .response_len = a->in_len};
    struct err err;
    const int rc = a->pending.writes ? commit(a, &x, &err) : 0;

    if (rc == UV_EAGAIN)
        keep_answer(a);
    else if (rc < 0)
        agent_feed_fatal(a, &err);
    else
        agent_feed(a, PROC_EV_COPIED);
}

static void do_commit(struct agent *a)
{
    if (trace_is_on())
        agent_trace_answer(a);
    commit_answer(a);
}

static int was_slow(const struct agent *a)
{
    const double within_s = a->limits.respond_within_s;

    return within_s > 0 && (double)(uv_hrtime() - a->sent_at_ns) * 1e-9 > within_s / 2;
}

static void do_deliver(struct agent *a)
{
    const struct agent_pending p = a->pending;

    if (was_slow(a))
        agent_emit(a, AGENT_EVENT_SLOW);
    agent_advance(a, 0);
    if (p.writes || !a->kind->has_block)
        (void)restart_history_feed(&a->restarts, &a->limits.restart, RESTART_EV_PROGRESS,
                                   uv_hrtime(), 0);
    p.fn(p.ctx, a->index, &a->in);
}

#define BIT(action) __builtin_ctz(action)

static void (*const actions[])(struct agent *) = {
    [BIT(PROC_DO_KILL)] = do_kill,
    [BIT(PROC_DO_REPORT)] = agent_report,
    [BIT(PROC_DO_GONE)] = do_gone,
    [BIT(PROC_DO_SHUTDOWN)] = do_shutdown,
    [BIT(PROC_DO_TERMINATE)] = do_terminate,
    [BIT(PROC_DO_SPAWN)] = do_spawn,
    [BIT(PROC_DO_CONFIGURE)] = do_configure,
    [BIT(PROC_DO_DESCRIBE)] = do_describe,
    [BIT(PROC_DO_COMPARE)] = do_compare,
    [BIT(PROC_DO_REPLAY)] = do_replay,
    [BIT(PROC_DO_READY)] = do_ready,
    [BIT(PROC_DO_SEND)] = do_send,
    [BIT(PROC_DO_COMMIT)] = do_commit,
    [BIT(PROC_DO_DELIVER)] = do_deliver,
    [BIT(PROC_DO_JUDGE)] = agent_decide_restart,
};

void agent_feed(struct agent *a, enum proc_event event)
{
    const struct proc_step step = proc_fsm_step(a->state, event);

    CHECK((step.actions & PROC_DO_BUG) == 0, "agent %s is %s: %s", a->name,
          proc_state_name(a->state), proc_event_name(event));
    log_verbose("agent %s: %s, %s -> %s", a->name, proc_event_name(event),
                proc_state_name(a->state), proc_state_name(step.next));
    if ((step.actions & PROC_DO_KILL) != 0) {
        agent_note_death(a);
        if (event != PROC_EV_BAD && step.next == PROC_DYING)
            (void)err_set(&a->cause, ERR_PROTOCOL, "it sent an unexpected %s",
                          proc_event_name(event));
    }
    a->state = step.next;
    for (unsigned left = step.actions; left != 0 && a->state == step.next;
         left &= left - 1)
        actions[BIT(left)](a);
}

/* ---- the block ---- */

static int copy_block(void *ctx, void *dst, size_t len_bytes, struct err *err)
{
    struct agent *a = ctx;
    int rc;

    if (a->copy.is_under_way)
        return err_set(err, UV_EAGAIN, "its values are on their way");
    a->copy.asked_ns = uv_hrtime();
    rc = a->link->ops->snapshot(a->link, dst, len_bytes, err);
    a->copy.is_under_way = rc == UV_EAGAIN && !a->link->is_block_lost;
    a->copy.n_covered = a->replay.n_requests + (a->state == PROC_COMMITTING);
    return rc;
}

struct replay_block agent_block(struct agent *a)
{
    return (struct replay_block){.copy = copy_block,
                                 .ctx = a,
                                 .len_bytes = a->replay.snapshot_bytes,
                                 .is_far = a->link->host != NULL};
}

int agent_snapshot(struct agent *a, struct err *err)
{
    const struct replay_block block = agent_block(a);

    return replay_snapshot(&a->replay, &block, err);
}

void agent_log_snapshot(const struct agent *a, uint32_t request)
{
    log_verbose("agent %s: a snapshot of %zu bytes after request %" PRIu32, a->name,
                a->replay.snapshot_bytes, request);
}

int agent_put(struct agent *a, const struct replay_block *values, struct err *err)
{
    const int rc = a->link->ops->put(a->link, values->ctx, values->len_bytes, err);

    a->copy.is_under_way = 0;
    return rc < 0 || values->ctx == a->replay.snapshot
               ? rc
               : replay_snapshot(&a->replay, values, err);
}

/* The answer that waited for the copy. is_covered: the copy has its effect. */
static void take_answer(struct agent *a, int is_covered)
{
    struct err err;

    a->in_data = a->answer.data;
    a->in_len = a->answer.len;
    CHECK(msg_reparse(&a->in, a->in_data, a->in_len, &err) == 0, "%s", err.msg);
    if (a->state == PROC_DESCRIBING)
        do_describe(a);
    else if (is_covered)
        agent_feed(a, PROC_EV_COPIED);
    else
        commit_answer(a);
}

static void take_copy(struct agent *a, const void *bytes, size_t len_bytes)
{
    struct replay_block values = replay_block_at(bytes, len_bytes);
    const size_t n = a->replay.n_requests, n_covered = a->copy.n_covered;
    struct err err;

    values.is_far = 1;
    values.asked_ns = a->copy.asked_ns;
    if (replay_snapshot_of(&a->replay, &values, n_covered < n ? n_covered : n, &err) <
        0) {
        agent_feed_fatal(a, &err);
        return;
    }
    log_verbose("agent %s: a snapshot of %zu bytes has come", a->name, len_bytes);
    if (a->state == PROC_DESCRIBING || a->state == PROC_COMMITTING)
        take_answer(a, n_covered > n);
    else if (a->holds_back && a->state == PROC_IDLE) {
        agent_apply_mode_changes(a);
        if (a->state == PROC_IDLE)
            agent_send_pending(a);
    }
}
