#include "supervisor/proc/worker_local.h"

#include "common/err/check.h"
#include "common/io/signal_process.h"
#include "common/mem/xmalloc.h"
#include "common/msg/protocol.h"
#include "supervisor/proc/block.h"
#include "supervisor/proc/descriptors.h"
#include "supervisor/proc/pid_file.h"
#include "supervisor/proc/prepared.h"
#include "supervisor/proc/proc.h"
#include "supervisor/proc/program.h"
#include "supervisor/proc/resident.h"
#include "supervisor/proc/sweep.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Interval between searches for orphans, as long as the last one found some. */
#define SWEEP_INTERVAL_MS 2
#define END_TRIES         1000 /* one per millisecond */
/* OpenBLAS reserves address space that it never touches. */
#define MEMORY_MARGIN     ((rlim_t)256 << 20)

#ifdef __SANITIZE_ADDRESS__
enum { LIMIT_BY_KERNEL = 0 }; /* it reserves more than any limit */
#else
enum { LIMIT_BY_KERNEL = 1 };
#endif

#define INHERITED_EVERY_NS UINT64_C(5000000000)

struct local_link {
    struct worker_link
        base; /* first: the table has a pointer to it, cast to local_link */
    struct local_site *site;
    const struct agent_spec *spec;
    struct proc proc;
    struct block block;
    struct prepared_wait wait; /* for a process of a prepared one */
    int is_awaited;            /* 1: it has been asked for, and has not come */
    int is_killed;             /* 1: it is killed as soon as it comes */
    int64_t memory_limit_bytes;
    /* Of a process that a prepared one forked: what it had when it was born in RLIMIT_DATA, and
     * what it shares with that one, as measured at inherited_at_ns. */
    int is_forked;
    int64_t data_bytes, inherited_bytes;
    uint64_t inherited_at_ns; /* 0: never */
    int is_closed;            /* 1: the exit is reported once no orphan is left */
    TAILQ_ENTRY(local_link) entry;
};

struct local_site {
    struct worker_site base; /* first: links have a pointer to it, cast to local_site */
    uv_loop_t *loop;
    int exe_fd, log_fd;
    cpu_set_t all_cores; /* the cores that this process may use; empty: unknown */
    TAILQ_HEAD(, local_link) links;
    struct prepared **prepared; /* [n_prepared] */
    size_t n_prepared, n_prepared_open;
    uv_timer_t sweep_timer;
    void (*on_closed)(void *ctx);
    void *closed_ctx;
};

static struct local_link *local_of(struct worker_link *l)
{
    return (struct local_link *)l;
}

/* ---- the exit of a process ---- */

static int is_known(void *ctx, pid_t pid)
{
    return proc_is_known(pid) || program_is_known(pid);
}

size_t local_site_sweep(void)
{
    return sweep_adopted(is_known, NULL);
}

static void on_sweep_timer(uv_timer_t *timer)
{
    struct local_site *s = timer->data;
    struct local_link *l;

    if (local_site_sweep() > 0) {
        (void)uv_timer_start(timer, on_sweep_timer, SWEEP_INTERVAL_MS, 0);
        return;
    }
    TAILQ_FOREACH(l, &s->links, entry)
    {
        if (!l->is_closed)
            continue;
        l->is_closed = 0;
        l->base.cb->on_exit(l->base.worker);
    }
}

/* One search serves all processes that exit in this iteration of the loop. */
static void sweep_soon(struct local_site *s)
{
    if (!uv_is_active((uv_handle_t *)&s->sweep_timer))
        (void)uv_timer_start(&s->sweep_timer, on_sweep_timer, 0, 0);
}

static void on_message(struct proc *p, const uint8_t *data, size_t len)
{
    struct local_link *l = p->owner;

    l->base.cb->on_message(l->base.worker, data, len);
}

static void on_broken(struct proc *p, const struct err *why)
{
    struct local_link *l = p->owner;

    l->base.cb->on_broken(l->base.worker, why);
}

static void on_exited(struct proc *p)
{
    struct local_link *l = p->owner;

    l->base.is_running = 0;
    l->base.exit_code = p->exit_code;
    l->base.signal = p->signal;
    sweep_soon(l->site);
}

static void on_proc_closed(struct proc *p)
{
    struct local_link *l = p->owner;

    l->is_closed = 1;
    sweep_soon(l->site);
}

static const struct proc_callbacks proc_callbacks = {.on_message = on_message,
                                                     .on_broken = on_broken,
                                                     .on_exited = on_exited,
                                                     .on_closed = on_proc_closed};

/* ---- the process ---- */

static void local_close(struct worker_link *base)
{
    struct local_link *l = local_of(base);

    TAILQ_REMOVE(&l->site->links, l, entry);
    capture_done(&l->base.capture);
    block_done(&l->block);
    free(l);
}

static int local_open(struct worker_site *site, const struct agent_spec *spec,
                      const struct worker_link_callbacks *cb, void *worker,
                      struct worker_link **ret, struct err *err)
{
    struct local_link *l = xcalloc(1, sizeof(*l));
    int rc;

    l->base = (struct worker_link){.ops = site->ops,
                                   .cb = cb,
                                   .worker = worker,
                                   .exit_code = -1,
                                   .capture.log_fd = -1};
    l->site = (struct local_site *)site;
    l->spec = spec;
    l->proc = (struct proc){.pidfd = -1, .exited = 1};
    l->block = BLOCK_NONE;
    TAILQ_INSERT_TAIL(&l->site->links, l, entry);
    rc = capture_init(&l->base.capture, spec->log_path, err);
    l->base.capture.on_output = spec->on_output;
    l->base.capture.output_ctx = spec->output_ctx;
    if (rc == 0 && spec->command == NULL)
        rc = block_init(&l->block, spec->name, err);
    if (rc < 0)
        local_close(&l->base);
    else
        *ret = &l->base;
    return rc;
}

static struct proc_spec spec_of(const struct local_link *l)
{
    return (struct proc_spec){.name = l->spec->name,
                              .exe_fd = l->site->exe_fd,
                              .block_fd = l->block.fd,
                              .log_fd = l->site->log_fd,
                              .shared_fd =
                                  l->spec->shared_fd > 0 ? l->spec->shared_fd : -1,
                              .command = l->spec->command,
                              .mode = l->spec->mode,
                              .directory = l->spec->directory};
}

static int is_same(const struct agent_program *a, const struct agent_program *b)
{
    return a->len == b->len && memcmp(a->frame, b->frame, a->len) == 0;
}

/* The prepared process of the link's program; NULL: it has none. */
static struct prepared *prepared_of(struct local_link *l)
{
    struct local_site *s = l->site;
    const struct agent_program *program = l->spec->prepared;
    size_t i = 0;

    if (program == NULL)
        return NULL;
    while (i < s->n_prepared && !is_same(prepared_program(s->prepared[i]), program))
        i++;
    if (i == s->n_prepared) {
        s->prepared = xreallocarray(s->prepared, i + 1, sizeof(*s->prepared));
        s->prepared[s->n_prepared++] =
            prepared_new(s->loop, s->exe_fd, program, local_site_sweep);
    }
    return prepared_is_usable(s->prepared[i]) ? s->prepared[i] : NULL;
}

static void note_process(struct local_link *l)
{
    l->base.pid = l->proc.pid;
    l->base.is_running = !l->proc.exited;
}

/* The process that the link was waiting for exists, or its start has failed. */
static void end_waiting(struct local_link *l, int rc, const struct err *why)
{
    l->is_awaited = 0;
    note_process(l);
    if (rc < 0) {
        l->base.cb->on_failed(l->base.worker, why);
        proc_forget(&l->proc);
        return;
    }
    l->base.ops->limit_memory(&l->base, l->memory_limit_bytes);
    l->base.cb->on_started(l->base.worker);
    if (l->is_killed)
        proc_kill(&l->proc);
}

static void on_born(struct prepared_wait *w, pid_t pid)
{
    struct local_link *l = w->owner;
    const int64_t data = resident_data_bytes(pid);
    struct err why = {0};

    l->is_forked = 1;
    l->data_bytes = data > 0 ? data : 0;
    l->inherited_at_ns = 0;
    end_waiting(l, proc_adopt(&l->proc, l->site->loop, pid, &why), &why);
}

static void on_none(struct prepared_wait *w)
{
    struct local_link *l = w->owner;
    const struct proc_spec spec = spec_of(l);
    struct err why = {0};

    end_waiting(l, proc_spawn_expected(&l->proc, l->site->loop, &spec, &why), &why);
}

/* The table may send at once: the pipes exist before the process. */
static int wait_for(struct local_link *l, struct prepared *p, struct err *err)
{
    const int rc =
        proc_expect(&l->proc, l->site->loop, &l->base.capture, &proc_callbacks, l, err);

    if (rc < 0)
        return rc;
    l->wait = (struct prepared_wait){.owner = l,
                                     .fds = {[PREPARED_FD_TEXT] = l->proc.ends[2],
                                             [PREPARED_FD_IN] = l->proc.ends[0],
                                             [PREPARED_FD_OUT] = l->proc.ends[1],
                                             [PREPARED_FD_BLOCK] = l->block.fd,
                                             [PREPARED_FD_LOG] = l->site->log_fd},
                                     .on_born = on_born,
                                     .on_none = on_none};
    l->is_awaited = 1;
    l->is_killed = 0;
    prepared_ask(p, &l->wait);
    return 0;
}

static int local_start(struct worker_link *base, struct err *err)
{
    struct local_link *l = local_of(base);
    struct prepared *prepared = prepared_of(l);
    const struct proc_spec spec = spec_of(l);
    int rc;

    l->is_forked = 0; /* until it is born */
    l->data_bytes = 0;
    rc = prepared != NULL ? wait_for(l, prepared, err)
                          : proc_spawn(&l->proc, l->site->loop, &spec, &l->base.capture,
                                       &proc_callbacks, l, err);
    note_process(l);
    base->exit_code = -1;
    base->signal = 0;
    return rc;
}

/* A sleeping process wakes up on the core it is bound to; afterwards it gets back the
 * cores of this process. */
static int local_send(struct worker_link *base, const uint8_t *frame, size_t len,
                      int core, struct err *err)
{
    struct local_link *l = local_of(base);
    const cpu_set_t *all = &l->site->all_cores;
    cpu_set_t one;
    int rc;

    if (core < 0 || CPU_COUNT(all) == 0)
        return chan_send(&l->proc.chan, frame, len, err);
    CPU_ZERO(&one);
    CPU_SET((size_t)core, &one);
    (void)sched_setaffinity(base->pid, sizeof(one), &one);
    rc = chan_send(&l->proc.chan, frame, len, err);
    (void)sched_setaffinity(base->pid, sizeof(*all), all);
    return rc;
}

static int local_signal(struct worker_link *base, int signum)
{
    return proc_signal(&local_of(base)->proc, signum);
}

static void local_kill(struct worker_link *base)
{
    struct local_link *l = local_of(base);

    if (!l->is_awaited) {
        proc_kill(&l->proc);
    } else if (prepared_cancel(&l->wait)) {
        l->is_awaited = 0;
        base->signal = SIGKILL;
        proc_forget(&l->proc);
    } else {
        l->is_killed = 1;
    }
}

static void local_pause(struct worker_link *base, int on)
{
    if (base->is_running)
        (void)signal_group(base->pid, on ? SIGSTOP : SIGCONT);
}

/* ---- the block ---- */

static int local_hold(struct worker_link *base, uint64_t len_bytes, struct err *err)
{
    return block_map(&local_of(base)->block, len_bytes, err);
}

static int local_snapshot(struct worker_link *base, void *dst, size_t len_bytes,
                          struct err *err)
{
    const struct block *b = &local_of(base)->block;

    CHECK(len_bytes == b->len_bytes);
    if (len_bytes > 0)
        memcpy(dst, b->map, len_bytes);
    return 0;
}

static int local_put(struct worker_link *base, const void *src, size_t len_bytes,
                     struct err *err)
{
    struct block *b = &local_of(base)->block;
    const int rc = b->map == NULL ? block_map(b, len_bytes, err) : 0;

    if (rc < 0)
        return rc;
    CHECK(len_bytes == b->len_bytes);
    if (len_bytes > 0)
        memcpy(b->map, src, len_bytes);
    return 0;
}

static int local_clear(struct worker_link *base, struct err *err)
{
    return block_clear(&local_of(base)->block, err);
}

/* ---- watching ---- */

/* What a process shares with the one that forked it only becomes less, and slowly: it is
 * measured now and then. */
static int64_t local_memory(struct worker_link *base)
{
    struct local_link *l = local_of(base);
    const int64_t all = base->is_running ? resident_bytes(base->pid) : -1;

    if (all < 0 || !l->is_forked)
        return all;
    if (l->inherited_at_ns == 0 ||
        uv_hrtime() - l->inherited_at_ns >= INHERITED_EVERY_NS) {
        l->inherited_bytes = resident_inherited_bytes(base->pid);
        l->inherited_at_ns = uv_hrtime();
    }
    return all > l->inherited_bytes ? all - l->inherited_bytes : 0;
}

/* The watchdog could miss a sudden allocation that exhausts the machine's memory, so the
 * kernel refuses more than twice the limit (RLIMIT_DATA counts address space). */
static void local_limit_memory(struct worker_link *base, int64_t limit_bytes)
{
    struct rlimit r = {RLIM_INFINITY, RLIM_INFINITY};

    local_of(base)->memory_limit_bytes = limit_bytes;
    if (!LIMIT_BY_KERNEL || !base->is_running)
        return;
    if (limit_bytes > 0)
        r.rlim_cur =
            2 * (rlim_t)limit_bytes + MEMORY_MARGIN + (rlim_t)local_of(base)->data_bytes;
    (void)prlimit(base->pid, RLIMIT_DATA, &r, NULL);
}

static int local_activity(struct worker_link *base, struct worker_activity *ret)
{
    struct rlimit space;
    struct pid_stat stat;

    if (!base->is_running || pid_stat_read(base->pid, &stat) < 0)
        return -1;
    *ret = (struct worker_activity){
        .state = stat.state, .ticks = stat.ticks, .resident_bytes = stat.resident_bytes};
    if (prlimit(base->pid, RLIMIT_AS, NULL, &space) == 0 &&
        space.rlim_cur != RLIM_INFINITY)
        ret->space_limit_bytes = space.rlim_cur;
    return 0;
}

static const struct worker_link_ops local_ops = {.open = local_open,
                                                 .close = local_close,
                                                 .start = local_start,
                                                 .send = local_send,
                                                 .signal = local_signal,
                                                 .kill = local_kill,
                                                 .pause = local_pause,
                                                 .hold = local_hold,
                                                 .snapshot = local_snapshot,
                                                 .put = local_put,
                                                 .clear = local_clear,
                                                 .memory = local_memory,
                                                 .limit_memory = local_limit_memory,
                                                 .activity = local_activity};

/* ---- the site ---- */

int local_site_new(struct local_site **ret, uv_loop_t *loop, int agent_exe_fd, int log_fd,
                   size_t n, struct err *err)
{
    struct local_site *s;
    int fd, rc = descriptors_reserve(n, err);

    if (rc < 0)
        return rc;
    (void)signal(SIGPIPE, SIG_IGN);
    /* The child uses the low numbers for its pipes before it execs. */
    fd = fcntl(agent_exe_fd, F_DUPFD_CLOEXEC, AGENT_FD_COUNT);
    if (fd < 0)
        return err_errno(err, "keeping the agent executable open");
    s = xcalloc(1, sizeof(*s));
    *s = (struct local_site){
        .base.ops = &local_ops, .loop = loop, .exe_fd = fd, .log_fd = log_fd};
    TAILQ_INIT(&s->links);
    CPU_ZERO(&s->all_cores);
    (void)sched_getaffinity(0, sizeof(s->all_cores), &s->all_cores);
    rc = sweep_enable(err);
    if (rc < 0)
        local_site_free(s);
    else
        *ret = s;
    return rc;
}

struct worker_site *local_site_base(struct local_site *s)
{
    return &s->base;
}

void local_site_open(struct local_site *s)
{
    (void)uv_timer_init(s->loop, &s->sweep_timer);
    s->sweep_timer.data = s;
}

static void on_timer_closed(uv_handle_t *h)
{
    struct local_site *s = h->data;

    s->on_closed(s->closed_ctx);
}

static void close_timer(struct local_site *s)
{
    uv_close((uv_handle_t *)&s->sweep_timer, on_timer_closed);
}

static void on_prepared_closed(void *ctx)
{
    struct local_site *s = ctx;

    if (--s->n_prepared_open == 0)
        close_timer(s);
}

void local_site_close(struct local_site *s, void (*on_closed)(void *ctx), void *ctx)
{
    s->on_closed = on_closed;
    s->closed_ctx = ctx;
    s->n_prepared_open = s->n_prepared;
    for (size_t i = 0; i < s->n_prepared; i++)
        prepared_close(s->prepared[i], on_prepared_closed, s);
    if (s->n_prepared == 0)
        close_timer(s);
}

void local_site_free(struct local_site *s)
{
    if (s == NULL)
        return;
    CHECK(TAILQ_EMPTY(&s->links));
    for (size_t i = 0; i < s->n_prepared; i++)
        prepared_free(s->prepared[i]);
    free(s->prepared);
    (void)close(s->exe_fd);
    free(s);
}

static int is_program(void *ctx, pid_t pid)
{
    return program_is_known(pid);
}

void local_site_end(void)
{
    for (int i = 0; i < END_TRIES && sweep_adopted(is_program, NULL) > 0; i++)
        (void)poll(NULL, 0, 1);
}
