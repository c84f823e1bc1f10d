/* The table of workers with a second set of link operations: the workers are functions of
 * this test, which look like processes to the table. */
#include "common/io/signal_process.h"
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "common/msg/protocol.h"
#include "common/numerics/numerics.h"
#include "supervisor/proc/worker_link.h"
#include "tests/support/test_main.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <uv.h>

#define MAX_WORKERS 2
#define MAX_QUEUED  8
#define WORDS       16 /* of a block */
#define ROUNDS      6  /* learn and act in each */
#define FIRST_PID   1000

/* ---- workers in memory ---- */

enum mishap {
    MISHAP_NONE,
    MISHAP_CRASH,
    MISHAP_KILLED,
    MISHAP_BROKEN,
    MISHAP_LOST, /* with its machine and its block */
    MISHAP_SILENT
};

struct queued { /* an event that the table will get */
    enum {
        HEAR_MESSAGE,
        HEAR_BROKEN,
        HEAR_EXIT,
        HEAR_STARTED,
        HEAR_FAILED,
        HEAR_COPY
    } kind;
    uint8_t *data;
    size_t len;
};

struct memory_link {
    struct worker_link base; /* must be first */
    const struct agent_spec *spec;
    struct queued queue[MAX_QUEUED];
    size_t n_queued;
    uint64_t block[WORDS];
    size_t block_bytes; /* 0: unknown */
    uint64_t copy[WORDS];
    int has_copy; /* which the table has not got yet */
    struct msg_out out;
    int n_handled;  /* number of requests that this process has handled */
    uint64_t state; /* of an environment: a sum of all steps since the reset */
};

static struct memory_site {
    struct worker_site base;
    uv_timer_t timer; /* delivers events */
    struct memory_link *links[MAX_WORKERS];
    size_t n;
    int n_starts, n_open, n_snapshots, n_puts, n_clears, n_pauses;
    /* COPIES_HELD: all but the first one are held back until release_copies */
    enum { COPIES_NOW, COPIES_LATER, COPIES_HELD } copies;
    int starts_later; /* the process has its pid later */
    int n_learns;
    /* loses_what_waits: 1: the second process has the mishap, too; its block is lost
     * while the next start is delayed */
    int loses_what_waits;
    int refuses_to_start; /* number of the first start that is refused; 0: none */
    int n_refused;        /* so many in a row; 0: one */
    int refused_with;     /* 0: ERR_LIMIT */
    enum mishap mishap;   /* of the first process, at its request number `at` */
    int at;
    int64_t memory;
} site;

static void on_timer(uv_timer_t *t);

static struct memory_link *memory_of(struct worker_link *l)
{
    return (struct memory_link *)l;
}

static void push(struct memory_link *l, struct queued q)
{
    ck_assert_uint_lt(l->n_queued, MAX_QUEUED);
    l->queue[l->n_queued++] = q;
    (void)uv_timer_start(&site.timer, on_timer, 0, 0);
}

static void push_out(struct memory_link *l)
{
    struct queued q = {.kind = HEAR_MESSAGE};
    const uint8_t *frame;

    msg_end(&l->out, &frame, &q.len);
    q.len -= FRAME_HEADER_BYTES;
    q.data = xmalloc(q.len);
    memcpy(q.data, frame + FRAME_HEADER_BYTES, q.len);
    push(l, q);
}

static void drop_queue(struct memory_link *l)
{
    for (size_t i = 0; i < l->n_queued; i++)
        free(l->queue[i].data);
    l->n_queued = 0;
}

/* Messages that the process sent before its end are still delivered. */
static void die(struct memory_link *l, int code, int signum)
{
    if (!l->base.is_running)
        return;
    l->base.is_running = 0;
    l->has_copy = 0;
    l->base.exit_code = code;
    l->base.signal = signum;
    push(l, (struct queued){.kind = HEAR_EXIT});
}

static void begin(struct memory_link *l)
{
    l->base.pid = FIRST_PID + site.n_starts;
    l->base.cb->on_started(l->base.worker);
}

/* One that was dropped meanwhile does not come. */
static void deliver_copy(struct memory_link *l)
{
    uint64_t bytes[WORDS];

    if (!l->has_copy)
        return;
    l->has_copy = 0;
    memcpy(bytes, l->copy, sizeof(bytes));
    l->base.cb->on_copied(l->base.worker, bytes, sizeof(bytes));
}

static void release_copies(void)
{
    for (size_t i = 0; i < site.n; i++)
        push(site.links[i], (struct queued){.kind = HEAR_COPY});
}

static int refuse(struct err *err)
{
    return err_set(err, site.refused_with != 0 ? site.refused_with : ERR_LIMIT,
                   "no worker fits in here");
}

/* Delivers one event of each worker in every turn of the loop. */
static void on_timer(uv_timer_t *t)
{
    const struct err why = {.code = ERR_PROTOCOL, .msg = "it sent nonsense"};
    struct err full;

    (void)refuse(&full);
    for (size_t i = 0; i < site.n; i++) {
        struct memory_link *l = site.links[i];
        const struct queued first = l->queue[0];

        if (l->n_queued == 0)
            continue;
        memmove(l->queue, l->queue + 1, --l->n_queued * sizeof(l->queue[0]));
        if (first.kind == HEAR_MESSAGE)
            l->base.cb->on_message(l->base.worker, first.data, first.len);
        else if (first.kind == HEAR_BROKEN)
            l->base.cb->on_broken(l->base.worker, &why);
        else if (first.kind == HEAR_STARTED)
            begin(l);
        else if (first.kind == HEAR_FAILED)
            l->base.cb->on_failed(l->base.worker, &full);
        else if (first.kind == HEAR_COPY)
            deliver_copy(l);
        else
            l->base.cb->on_exit(l->base.worker);
        free(first.data);
    }
    for (size_t i = 0; i < site.n; i++)
        if (site.links[i]->n_queued > 0)
            (void)uv_timer_start(t, on_timer, 0, 0);
}

static int link_open(struct worker_site *s, const struct agent_spec *spec,
                     const struct worker_link_callbacks *cb, void *worker,
                     struct worker_link **ret, struct err *err)
{
    struct memory_link *l = xcalloc(1, sizeof(*l));

    l->base = (struct worker_link){
        .ops = s->ops, .cb = cb, .worker = worker, .capture.log_fd = -1};
    l->spec = spec;
    capture_append(&l->base.capture, "last words of ", strlen("last words of "));
    capture_append(&l->base.capture, spec->name, strlen(spec->name));
    msg_out_init(&l->out);
    site.links[site.n++] = l;
    site.n_open++;
    *ret = &l->base;
    return 0;
}

static void link_close(struct worker_link *base)
{
    struct memory_link *l = memory_of(base);

    ck_assert_int_eq(base->is_running, 0);
    drop_queue(l);
    msg_out_done(&l->out);
    site.n_open--;
    free(l);
}

static int is_refused(int start)
{
    const int n = site.n_refused > 0 ? site.n_refused : 1;

    return start >= site.refuses_to_start && start < site.refuses_to_start + n &&
           site.refuses_to_start > 0;
}

static int link_start(struct worker_link *base, struct err *err)
{
    struct memory_link *l = memory_of(base);

    ck_assert_int_eq(base->is_running, 0);
    ck_assert_int_eq(base->is_block_lost, 0);
    base->exit_code = -1;
    base->signal = 0;
    l->n_handled = 0;
    l->state = 0;
    base->pid = 0;
    if (is_refused(++site.n_starts)) {
        if (site.starts_later)
            push(l, (struct queued){.kind = HEAR_FAILED});
        push(l, (struct queued){.kind = HEAR_EXIT});
        return site.starts_later ? 0 : refuse(err);
    }
    base->is_running = 1;
    if (site.starts_later)
        push(l, (struct queued){.kind = HEAR_STARTED});
    else
        base->pid = FIRST_PID + site.n_starts;
    msg_begin_notification(&l->out, "hello");
    msg_map(&l->out, 5);
    msg_put_u64(&l->out, "numerics", NUMERICS_VERSION);
    msg_put_u64(&l->out, "protocol", PROTOCOL_VERSION);
    msg_put_u64(&l->out, "pid", FIRST_PID + (uint64_t)site.n_starts);
    msg_put_str(&l->out, "build_id", "build-1");
    msg_put_str(&l->out, "fingerprint", "beef");
    push_out(l);
    return 0;
}

static uint64_t block_sum(const uint64_t *block)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < WORDS; i++)
        sum = sum * 31 + block[i];
    return sum;
}

static void configure(struct memory_link *l, const struct msg *m)
{
    int restored = 0;

    if (l->spec->command != NULL) { /* an environment has no block */
        msg_map(&l->out, 0);
        return;
    }
    ck_assert_int_eq(msg_get_bool(&m->body, "restored", &restored, NULL), 0);
    for (size_t i = 0; i < WORDS && !restored; i++) {
        ck_assert_uint_eq(l->block[i], 0);
        l->block[i] = i;
    }
    msg_map(&l->out, 1);
    msg_put_u64(&l->out, "block_bytes", sizeof(l->block));
}

static void answer(struct memory_link *l, const struct msg *m)
{
    uint64_t value = 0;

    ck_assert_int_eq(msg_get_u64(&m->body, "value", UINT64_MAX, &value, NULL), 0);
    if (strcmp(m->method, "reset") == 0)
        l->state = 0;
    l->state = l->state * 31 + value;
    site.n_learns += strcmp(m->method, "learn") == 0;
    for (size_t i = 0; i < WORDS && strcmp(m->method, "learn") == 0; i++)
        l->block[i] = l->block[i] * 6364136223846793005u + value + i;
    msg_map(&l->out, 1);
    msg_put_u64(&l->out, "sum",
                l->spec->command != NULL ? l->state : block_sum(l->block));
}

static void lose_block(struct memory_link *l)
{
    memset(l->block, 0xee, sizeof(l->block));
    l->base.is_block_lost = 1;
}

/* Returns 1 if the request is not answered. */
static int have_mishap(struct memory_link *l)
{
    const int number = site.n_starts;

    if (site.mishap == MISHAP_NONE || number > 1 + site.loses_what_waits ||
        l->n_handled++ != (number == 1 ? site.at : 0))
        return 0;
    if (site.mishap == MISHAP_CRASH || site.mishap == MISHAP_BROKEN)
        l->block[WORDS / 2] = 13; /* dies in the middle of its work */
    if (site.mishap == MISHAP_LOST)
        lose_block(l);
    if (site.mishap == MISHAP_CRASH)
        die(l, 3, 0);
    else if (site.mishap == MISHAP_KILLED || site.mishap == MISHAP_LOST)
        die(l, -1, SIGKILL);
    else if (site.mishap == MISHAP_BROKEN)
        push(l, (struct queued){.kind = HEAR_BROKEN});
    return 1;
}

static int link_send(struct worker_link *base, const uint8_t *frame, size_t len, int core,
                     struct err *err)
{
    struct memory_link *l = memory_of(base);
    struct msg m = {0};

    if (!base->is_running)
        return UV_EPIPE;
    ck_assert_int_eq(
        msg_parse(&m, frame + FRAME_HEADER_BYTES, len - FRAME_HEADER_BYTES, NULL), 0);
    ck_assert_int_eq(m.type, MSG_REQUEST);
    if (strcmp(m.method, "shutdown") == 0) {
        die(l, 0, 0);
    } else if (!have_mishap(l)) {
        msg_begin_response(&l->out, m.id);
        if (strcmp(m.method, "configure") == 0)
            configure(l, &m);
        else
            answer(l, &m);
        push_out(l);
    }
    msg_done(&m);
    return 0;
}

static int link_signal(struct worker_link *base, int signum)
{
    if (!base->is_running)
        return UV_ESRCH;
    if (signum == SIGTERM || signum == SIGKILL)
        die(memory_of(base), -1, signum);
    return 0;
}

static void link_kill(struct worker_link *base)
{
    die(memory_of(base), -1, SIGKILL);
}

static void link_pause(struct worker_link *base, int on)
{
    site.n_pauses += on ? 1 : 10;
}

static int link_hold(struct worker_link *base, uint64_t len_bytes, struct err *err)
{
    struct memory_link *l = memory_of(base);

    ck_assert_uint_eq(l->block_bytes, 0);
    ck_assert_uint_eq(len_bytes, sizeof(l->block));
    l->block_bytes = (size_t)len_bytes;
    return 0;
}

static int link_snapshot(struct worker_link *base, void *dst, size_t len_bytes,
                         struct err *err)
{
    struct memory_link *l = memory_of(base);

    ck_assert_uint_eq(len_bytes, l->block_bytes);
    l->has_copy = 0;
    if (base->is_block_lost)
        return err_set(err, UV_EAGAIN, "its values are lost");
    if (site.copies == COPIES_NOW ||
        (site.copies == COPIES_HELD && site.n_snapshots == 0)) {
        site.n_snapshots++;
        memcpy(dst, l->block, len_bytes);
        return 0;
    }
    memcpy(l->copy, l->block, sizeof(l->copy));
    l->has_copy = 1;
    if (site.copies == COPIES_LATER)
        push(l, (struct queued){.kind = HEAR_COPY});
    return err_set(err, UV_EAGAIN, "its values are far away");
}

static int link_put(struct worker_link *base, const void *src, size_t len_bytes,
                    struct err *err)
{
    struct memory_link *l = memory_of(base);

    ck_assert_uint_eq(len_bytes, sizeof(l->block));
    l->block_bytes = len_bytes;
    memcpy(l->block, src, len_bytes);
    base->is_block_lost = 0;
    l->has_copy = 0;
    site.n_puts++;
    return 0;
}

static int link_clear(struct worker_link *base, struct err *err)
{
    struct memory_link *l = memory_of(base);

    memset(l->block, 0, sizeof(l->block));
    l->block_bytes = 0;
    base->is_block_lost = 0;
    l->has_copy = 0;
    site.n_clears++;
    return 0;
}

static int64_t link_memory(struct worker_link *base)
{
    return site.memory;
}

static void link_limit_memory(struct worker_link *base, int64_t limit_bytes)
{
}

static int link_activity(struct worker_link *base, struct worker_activity *ret)
{
    *ret = (struct worker_activity){.state = 'S', .space_limit_bytes = 1 << 20};
    return 0;
}

static const struct worker_link_ops memory_ops = {.open = link_open,
                                                  .close = link_close,
                                                  .start = link_start,
                                                  .send = link_send,
                                                  .signal = link_signal,
                                                  .kill = link_kill,
                                                  .pause = link_pause,
                                                  .hold = link_hold,
                                                  .snapshot = link_snapshot,
                                                  .put = link_put,
                                                  .clear = link_clear,
                                                  .memory = link_memory,
                                                  .limit_memory = link_limit_memory,
                                                  .activity = link_activity};

/* ---- the table ---- */

static struct rig {
    uv_loop_t loop;
    uv_timer_t deadline;
    uint64_t give_up_ms;
    struct agent_table *table;
    struct agent_spec specs[MAX_WORKERS];
    struct agent_limits limits;
    size_t n;
    int ready, failed, stopped, timed_out;
    struct err report;
    char events[256], why[256], lines[64];
    uint64_t replayed;
    int answered[MAX_WORKERS];
    uint64_t sum[MAX_WORKERS];
    uint64_t steps[ROUNDS]; /* responses of an environment */
    size_t n_steps;
} rig;

#define RUN_UNTIL(condition)                                                             \
    do {                                                                                 \
        while (!(condition)) {                                                           \
            ck_assert_msg(!rig.timed_out, "waited in vain for " #condition);             \
            (void)uv_run(&rig.loop, UV_RUN_ONCE);                                        \
        }                                                                                \
    } while (0)

/* The timer repeats: after a turn of the loop that runs only a timer, the loop waits for
 * the next event. */
static void on_deadline(uv_timer_t *t)
{
    rig.timed_out = uv_now(&rig.loop) > rig.give_up_ms;
}

static void on_event(void *ctx, const struct agent_event *e)
{
    static const char letters[] = {
        [AGENT_EVENT_SPAWN] = 's',       [AGENT_EVENT_HELLO] = 'h',
        [AGENT_EVENT_READY] = 'r',       [AGENT_EVENT_EXIT] = 'x',
        [AGENT_EVENT_RESPAWN] = 'S',     [AGENT_EVENT_WAIT] = 'w',
        [AGENT_EVENT_GIVE_UP] = 'g',     [AGENT_EVENT_REINSTATE] = 'b',
        [AGENT_EVENT_MODE_CHANGED] = 't'};
    const size_t n = strlen(rig.events);

    if (e->kind == AGENT_EVENT_COPYABLE)
        return;
    if (e->kind == AGENT_EVENT_WAIT && site.loses_what_waits)
        lose_block(site.links[0]);
    ck_assert_uint_lt(n + 1, sizeof(rig.events));
    rig.events[n] = letters[e->kind];
    if (e->kind == AGENT_EVENT_READY)
        rig.replayed += e->replayed;
    if (e->kind == AGENT_EVENT_EXIT) {
        (void)snprintf(rig.lines, sizeof(rig.lines), "%s", e->lines);
        if (e->text != NULL)
            (void)snprintf(rig.why, sizeof(rig.why), "%s", e->text);
    }
}

static void on_ready(void *ctx)
{
    rig.ready++;
}

static void on_failed(void *ctx, size_t agent, const struct err *report)
{
    rig.failed = 1;
    rig.report = *report;
}

static void on_stopped(void *ctx)
{
    rig.stopped++;
}

static void pack_configure(void *ctx, size_t agent, int restored, struct msg_out *o)
{
    msg_map(o, 1);
    msg_put_bool(o, "restored", restored);
}

static void add_worker(const char *name)
{
    rig.specs[rig.n++] = (struct agent_spec){.site = &site.base,
                                             .name = name,
                                             .role = "learner",
                                             .limits = &rig.limits,
                                             .pack_configure = pack_configure};
}

/* exe_fd: for workers that are processes; -1: there are none. */
static void make_table(int exe_fd)
{
    const struct agent_callbacks cb = {.on_event = on_event,
                                       .on_ready = on_ready,
                                       .on_failed = on_failed,
                                       .on_stopped = on_stopped,
                                       .ctx = &rig};
    struct err err = {0};

    rig.stopped = rig.ready = rig.failed = 0;
    ck_assert_msg(agent_table_new(&rig.table, &rig.loop, exe_fd, -1, rig.specs, rig.n,
                                  &cb, &err) == 0,
                  "%s", err.msg);
}

static void start_table(int exe_fd)
{
    make_table(exe_fd);
    ck_assert_int_eq(agent_table_start(rig.table, NULL), 0);
}

static void stop_table(void)
{
    agent_table_stop(rig.table, 5000);
    RUN_UNTIL(rig.stopped);
    agent_table_free(rig.table);
    rig.table = NULL;
    ck_assert_int_eq(site.n_open, 0);
    site.n = 0;
}

static void start_ready(void)
{
    start_table(-1);
    RUN_UNTIL(rig.ready || rig.failed);
    ck_assert_msg(rig.ready, "%s", rig.report.msg);
}

static void on_response(void *ctx, size_t agent, const struct msg *response)
{
    ck_assert_int_eq(rig.answered[agent], 0);
    rig.answered[agent] = 1;
    ck_assert_int_eq(
        msg_get_u64(&response->body, "sum", UINT64_MAX, &rig.sum[agent], NULL), 0);
}

static void send_request(size_t agent, const char *method, uint64_t value)
{
    struct msg_out *o =
        agent_request_begin(rig.table, agent, method, strcmp(method, "learn") == 0);

    msg_map(o, 1);
    msg_put_u64(o, "value", value);
    rig.answered[agent] = 0;
    ck_assert_int_eq(agent_request_send(rig.table, agent, on_response, NULL, NULL), 0);
}

static uint64_t ask(size_t agent, const char *method, uint64_t value)
{
    send_request(agent, method, value);
    RUN_UNTIL(rig.answered[agent] || rig.failed);
    ck_assert_msg(rig.answered[agent], "%s", rig.report.msg);
    return rig.sum[agent];
}

static void setup(void)
{
    memset(&rig, 0, sizeof(rig));
    memset(&site, 0, sizeof(site));
    site.base.ops = &memory_ops;
    rig.limits.restart =
        (struct restart_config){.max_restarts = 5, .within_s = 60, .max_delay_s = 10};
    ck_assert_int_eq(uv_loop_init(&rig.loop), 0);
    ck_assert_int_eq(uv_timer_init(&rig.loop, &site.timer), 0);
    ck_assert_int_eq(uv_timer_init(&rig.loop, &rig.deadline), 0);
    ck_assert_int_eq(uv_timer_start(&rig.deadline, on_deadline, 1, 1), 0);
    rig.give_up_ms = uv_now(&rig.loop) + 60000;
}

static void teardown(void)
{
    if (rig.table != NULL)
        stop_table();
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
    uv_close((uv_handle_t *)&site.timer, NULL);
    uv_close((uv_handle_t *)&rig.deadline, NULL);
    (void)uv_run(&rig.loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&rig.loop), 0);
}

/* ---- the tests ---- */

/* The sum in the last response of the rounds, which is also that of the block. */
static uint64_t expected_sum(size_t rounds)
{
    uint64_t block[WORDS];

    for (size_t i = 0; i < WORDS; i++)
        block[i] = i;
    for (size_t k = 0; k < rounds; k++)
        for (size_t i = 0; i < WORDS; i++)
            block[i] = block[i] * 6364136223846793005u + k + i;
    return block_sum(block);
}

static void play_rounds(void)
{
    for (size_t k = 0; k < ROUNDS; k++) {
        ck_assert_uint_eq(ask(0, "act", k), expected_sum(k));
        ck_assert_uint_eq(ask(0, "learn", k), expected_sum(k + 1));
    }
}

static void assert_block(void)
{
    const void *block;
    size_t len;

    RUN_UNTIL(agent_table_block(rig.table, 0, &block, &len, NULL) == 0);
    ck_assert_uint_eq(len, WORDS * sizeof(uint64_t));
    ck_assert_uint_eq(block_sum(block), expected_sum(ROUNDS));
}

START_TEST(a_life_without_mishap)
{
    struct agent_info info;

    add_worker("memory");
    site.memory = 4711;
    start_ready();
    agent_table_info(rig.table, 0, &info);
    ck_assert_int_eq(info.pid, FIRST_PID + 1);
    ck_assert_int_eq(info.state, AGENT_IDLE);
    ck_assert_int_eq(info.rss_bytes, 4711);
    play_rounds();
    assert_block();
    agent_tables_pause(1);
    agent_tables_pause(0);
    ck_assert_int_eq(site.n_pauses, 11);
    stop_table();
    ck_assert_str_eq(rig.events, "shrx");
    ck_assert_str_eq(rig.lines, "last words of memory");
    ck_assert_int_eq(site.n_starts, 1);
    ck_assert_int_eq(site.n_puts + site.n_clears, 0);
    ck_assert_int_gt(site.n_snapshots, 0);
}
END_TEST

static const enum mishap mishaps[] = {MISHAP_CRASH, MISHAP_KILLED, MISHAP_BROKEN,
                                      MISHAP_LOST};
enum { N_MISHAPS = 4, N_REQUESTS = 1 + 2 * ROUNDS };

/* The process ends at each of its requests, with snapshots of every moment, at once or later,
 * or with only the first: the answers stay the same. */
static void die_once(int i, int copies)
{
    add_worker("memory");
    site.mishap = mishaps[i % N_MISHAPS];
    site.at = i / N_MISHAPS;
    site.copies = copies;
    site.starts_later = copies == COPIES_LATER;
    start_ready();
    play_rounds();
    if (copies != COPIES_HELD)
        assert_block();
    ck_assert_int_eq(site.n_starts, 2);
    stop_table();
    ck_assert_str_eq(rig.events, site.at == 0 ? "shxShrx" : "shrxShrx");
}

START_TEST(death_changes_nothing)
{
    die_once(_i, COPIES_NOW);
    ck_assert_int_eq(site.n_clears, site.at == 0);
}
END_TEST

START_TEST(death_changes_nothing_where_all_comes_later)
{
    die_once(_i, COPIES_LATER);
    ck_assert_int_eq(site.n_snapshots, 0);
}
END_TEST

/* Every writing request that was answered is replayed from the first snapshot; none if the
 * process was killed from outside while it changed nothing, because its block is whole. */
START_TEST(replay_brings_it_back)
{
    const int is_whole =
        mishaps[_i % N_MISHAPS] == MISHAP_KILLED && _i / N_MISHAPS % 2 == 1;

    die_once(_i, COPIES_HELD);
    ck_assert_uint_eq(rig.replayed, site.at == 0 || is_whole ? 0 : (site.at - 1) / 2);
    ck_assert_int_eq(site.n_puts, site.at == 0 || is_whole ? 0 : 1);
    ck_assert_int_eq(site.n_snapshots, 1);
}
END_TEST

/* It is lost while its answer waits for a copy because no more requests may be kept: the next
 * process, which gets only those that were kept, repeats the request. */
START_TEST(no_more_is_replayed_than_allowed)
{
    add_worker("memory");
    site.copies = COPIES_HELD;
    start_ready();
    agent_table_limit_replay(rig.table, 0, 3);
    for (size_t k = 0; k < 3; k++)
        ck_assert_uint_eq(ask(0, "learn", k), expected_sum(k + 1));
    send_request(0, "learn", 3);
    RUN_UNTIL(site.n_learns == 4 && site.links[0]->n_queued == 0);
    ck_assert_int_eq(rig.answered[0], 0);
    lose_block(site.links[0]);
    die(site.links[0], -1, SIGKILL);
    site.copies = COPIES_NOW;
    RUN_UNTIL(rig.answered[0]);
    ck_assert_uint_eq(rig.sum[0], expected_sum(4));
    for (size_t k = 4; k < ROUNDS; k++)
        ck_assert_uint_eq(ask(0, "learn", k), expected_sum(k + 1));
    assert_block();
    ck_assert_uint_eq(rig.replayed, 3);
    ck_assert_int_eq(site.n_learns, ROUNDS + 3 + 1);
    stop_table();
    ck_assert_str_eq(rig.events, "shrxShrx");
}
END_TEST

/* Sends `learn` until the table has asked for a copy, which depends on the time: a copy may
 * take 1 % of it. Returns the number of requests. */
static size_t learn_until_copying(void)
{
    size_t n = 0;

    while (!site.links[0]->has_copy) {
        ck_assert_uint_eq(ask(0, "learn", n), expected_sum(n + 1));
        n++;
    }
    return n;
}

/* The answer to a request that may not be kept waits for the copy; a newer request is replayed
 * although the copy came after it. */
START_TEST(an_answer_waits_for_its_copy)
{
    const int is_copied_before = _i;
    size_t n;

    add_worker("memory");
    site.copies = COPIES_HELD;
    start_ready();
    n = learn_until_copying();
    if (is_copied_before)
        agent_table_limit_replay(rig.table, 0, n);
    send_request(0, "learn", n);
    RUN_UNTIL(site.n_learns == n + 1 && site.links[0]->n_queued == 0);
    ck_assert_int_eq(rig.answered[0], !is_copied_before);
    release_copies();
    RUN_UNTIL(rig.answered[0] && site.links[0]->n_queued == 0);
    ck_assert_uint_eq(rig.sum[0], expected_sum(n + 1));
    site.mishap = MISHAP_CRASH;
    site.at = 0;
    site.copies = COPIES_NOW;
    ck_assert_uint_eq(ask(0, "learn", n + 1), expected_sum(n + 2));
    ck_assert_uint_eq(rig.replayed, 1);
    stop_table();
    ck_assert_str_eq(rig.events, "shrxShrx");
}
END_TEST

/* The block is intact when a process has died, but lost when the next one starts. (The
 * first start after progress is not delayed.) */
START_TEST(a_block_is_put_again_that_was_lost_meanwhile)
{
    add_worker("memory");
    site.mishap = MISHAP_KILLED;
    site.at = _i;
    site.loses_what_waits = 1;
    rig.limits.restart.delay_s = 0.001;
    start_ready();
    play_rounds();
    assert_block();
    ck_assert_int_eq(site.n_starts, 3);
    ck_assert_ptr_nonnull(strchr(rig.events, 'w'));
}
END_TEST

START_TEST(values_out_of_reach_are_no_error)
{
    const void *block;
    size_t len;
    struct err err;

    add_worker("memory");
    site.copies = COPIES_HELD;
    start_ready();
    (void)ask(0, "learn", 0);
    ck_assert_int_eq(agent_table_block(rig.table, 0, &block, &len, &err), UV_EAGAIN);
    agent_table_keep(rig.table);
    ck_assert_int_eq(agent_table_kept(rig.table, 0, &block, &len, &err), ERR_STATE);
    release_copies();
    RUN_UNTIL(agent_table_block(rig.table, 0, &block, &len, &err) == 0);
    ck_assert_uint_eq(block_sum(block), expected_sum(1));
    agent_table_keep(rig.table);
    ck_assert_int_eq(agent_table_kept(rig.table, 0, &block, &len, &err), 0);
    ck_assert_uint_eq(block_sum(block), expected_sum(1));
}
END_TEST

START_TEST(preloaded_values_are_put)
{
    uint64_t block[WORDS];

    for (size_t i = 0; i < WORDS; i++)
        block[i] = 5 * i;
    add_worker("memory");
    make_table(-1);
    ck_assert_int_eq(agent_table_preload(rig.table, 0, block, sizeof(block), NULL), 0);
    ck_assert_int_eq(agent_table_start(rig.table, NULL), 0);
    RUN_UNTIL(rig.ready);
    ck_assert_uint_eq(ask(0, "act", 1), block_sum(block));
}
END_TEST

START_TEST(a_start_that_fails_is_reported)
{
    add_worker("memory");
    site.refuses_to_start = 1;
    site.starts_later = _i;
    start_table(-1);
    RUN_UNTIL(rig.failed);
    ck_assert_msg(strstr(rig.report.msg, "agent memory") != NULL &&
                      strstr(rig.report.msg, "no worker fits in here") != NULL,
                  "%s", rig.report.msg);
    stop_table();
    ck_assert_str_eq(rig.events, "");
}
END_TEST

/* Refuses the starts after a kill; _i: whether they are refused at once or later. */
static void refuse_respawns(int n, int with, int later)
{
    add_worker("memory");
    site.refuses_to_start = 2;
    site.n_refused = n;
    site.refused_with = with;
    site.starts_later = later;
    rig.limits.restart.delay_s = 0.001;
    start_ready();
    ck_assert_int_eq(agent_table_kill(rig.table, 0, NULL), 0);
}

START_TEST(a_respawn_that_finds_no_room_is_tried_again)
{
    static const int codes[] = {UV_EAGAIN, UV_ENOMEM, UV_EMFILE, UV_ENFILE};
    struct agent_info info;

    refuse_respawns(3, codes[_i / 2], _i % 2);
    play_rounds();
    ck_assert_int_eq(site.n_starts, 5);
    agent_table_info(rig.table, 0, &info);
    ck_assert_uint_eq(info.restarts, 1);
    stop_table();
    ck_assert_str_eq(rig.events, "shrxwwwShrx");
}
END_TEST

START_TEST(a_respawn_that_never_finds_room_is_a_give_up)
{
    refuse_respawns(100, UV_EAGAIN, _i);
    RUN_UNTIL(rig.failed);
    ck_assert_msg(strstr(rig.report.msg, "died 6 times within 60 s") != NULL &&
                      strstr(rig.report.msg, "the last time no worker fits in here") !=
                          NULL,
                  "%s", rig.report.msg);
    stop_table();
}
END_TEST

START_TEST(silence_is_judged_by_its_activity)
{
    add_worker("memory");
    rig.limits.respond_within_s = 0.05;
    site.mishap = MISHAP_SILENT;
    site.at = 2;
    start_ready();
    play_rounds();
    ck_assert_msg(strstr(rig.why, "act") == NULL && strstr(rig.why, "learn") != NULL &&
                      strstr(rig.why, "waits for something that does not come") != NULL &&
                      strstr(rig.why, "limited to 1") != NULL,
                  "%s", rig.why);
    ck_assert_int_eq(site.n_starts, 2);
}
END_TEST

START_TEST(memory_is_asked_of_the_link)
{
    add_worker("memory");
    rig.limits.memory_limit_bytes = 1 << 20;
    start_ready();
    site.memory = 2 << 20;
    RUN_UNTIL(site.n_starts == 2);
    site.memory = 0;
    ck_assert_msg(strstr(rig.why, "memory_limit") != NULL, "%s", rig.why);
    play_rounds();
    assert_block();
}
END_TEST

/* ---- processes of an environment ---- */

static int pack_revival(void *ctx, size_t agent, size_t i, uint32_t id, struct msg_out *o)
{
    if (i >= rig.n_steps)
        return 0;
    msg_begin_request(o, id, i == 0 ? "reset" : "step");
    msg_map(o, 1);
    msg_put_u64(o, "value", i);
    return 1;
}

static int judge_revival(void *ctx, size_t agent, size_t i, const struct msg *response,
                         struct err *err)
{
    uint64_t sum = 0;

    ck_assert_int_eq(msg_get_u64(&response->body, "sum", UINT64_MAX, &sum, NULL), 0);
    ck_assert_uint_eq(sum, rig.steps[i]);
    return 0;
}

static int repack(void *ctx, size_t agent, uint32_t id, struct msg_out *o)
{
    return 0;
}

START_TEST(an_environment_is_revived_by_its_caller)
{
    static const char *const command[] = {"environment", NULL};
    static const struct agent_revival revival = {pack_revival, judge_revival, repack};
    uint64_t state = 0;

    add_worker("env_0");
    rig.specs[0].command = command;
    rig.specs[0].revival = &revival;
    rig.specs[0].role = "environment";
    site.mishap = MISHAP_CRASH;
    site.at = _i;
    start_ready();
    for (; rig.n_steps < ROUNDS; rig.n_steps++) {
        state = state * 31 + rig.n_steps;
        rig.steps[rig.n_steps] = ask(0, rig.n_steps == 0 ? "reset" : "step", rig.n_steps);
        ck_assert_uint_eq(rig.steps[rig.n_steps], state);
    }
    ck_assert_uint_eq(rig.replayed, _i == 0 ? 0 : (uint64_t)_i - 1);
    ck_assert_int_eq(site.n_starts, 2);
    ck_assert_int_eq(site.n_snapshots + site.n_puts + site.n_clears, 0);
}
END_TEST

/* ---- both kinds of links in one table ---- */

static uint64_t learn_of_both(uint64_t value)
{
    send_request(0, "learn", value);
    send_request(1, "learn", value);
    RUN_UNTIL(rig.answered[0] && rig.answered[1]);
    return rig.sum[1];
}

START_TEST(one_table_links_by_two_sets)
{
    char exe[512], dir[] = "/tmp/test_worker_link.XXXXXX", cwd[512];
    struct agent_info here, there;
    int fd;

    ck_assert_ptr_nonnull(getcwd(cwd, sizeof(cwd)));
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_int_eq(chdir(dir), 0);
    (void)snprintf(exe, sizeof(exe), "%s/tests/supervisor/fake_agent",
                   getenv("BROOD_BUILD_DIR"));
    fd = open(exe, O_RDONLY | O_CLOEXEC);
    ck_assert_msg(fd >= 0, "%s", exe);
    add_worker("good");
    rig.specs[0].site = NULL;
    add_worker("memory");
    start_table(fd);
    (void)close(fd);
    RUN_UNTIL(rig.ready || rig.failed);
    ck_assert_msg(rig.ready, "%s", rig.report.msg);
    ck_assert_uint_eq(learn_of_both(0), expected_sum(1));
    ck_assert_int_eq(agent_table_kill(rig.table, 0, NULL), 0);
    ck_assert_int_eq(agent_table_kill(rig.table, 1, NULL), 0);
    ck_assert_uint_eq(learn_of_both(1), expected_sum(2));
    agent_table_info(rig.table, 0, &here);
    agent_table_info(rig.table, 1, &there);
    ck_assert_uint_eq(here.restarts, 1);
    ck_assert_uint_eq(there.restarts, 1);
    ck_assert(process_exists(here.pid));
    ck_assert_int_eq(there.pid, FIRST_PID + 2);
    stop_table();
    (void)unlink("good.runs");
    ck_assert_int_eq(chdir(cwd), 0);
    ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("worker_link");
    TCase *tc = tcase_create("worker_link");

    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_life_without_mishap);
    tcase_add_loop_test(tc, death_changes_nothing, 0, N_MISHAPS * N_REQUESTS);
    tcase_add_loop_test(tc, death_changes_nothing_where_all_comes_later, 0,
                        N_MISHAPS * N_REQUESTS);
    tcase_add_loop_test(tc, an_answer_waits_for_its_copy, 0, 2);
    tcase_add_loop_test(tc, replay_brings_it_back, 0, N_MISHAPS * N_REQUESTS);
    tcase_add_test(tc, no_more_is_replayed_than_allowed);
    tcase_add_loop_test(tc, a_block_is_put_again_that_was_lost_meanwhile, 0, 3);
    tcase_add_test(tc, values_out_of_reach_are_no_error);
    tcase_add_test(tc, preloaded_values_are_put);
    tcase_add_loop_test(tc, a_start_that_fails_is_reported, 0, 2);
    tcase_add_loop_test(tc, a_respawn_that_finds_no_room_is_tried_again, 0, 8);
    tcase_add_loop_test(tc, a_respawn_that_never_finds_room_is_a_give_up, 0, 2);
    tcase_add_test(tc, silence_is_judged_by_its_activity);
    tcase_add_test(tc, memory_is_asked_of_the_link);
    tcase_add_loop_test(tc, an_environment_is_revived_by_its_caller, 0, ROUNDS + 1);
    tcase_add_test(tc, one_table_links_by_two_sets);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
