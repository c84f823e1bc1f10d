#include "supervisor/node/cluster.h"

#include "common/config/cluster_config.h"
#include "common/err/check.h"
#include "common/io/beneath.h"
#include "common/io/monotonic.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "common/numerics/cpu_kernels.h"
#include "common/numerics/numerics.h"
#include "supervisor/net/listener.h"
#include "supervisor/node/node.h"
#include "supervisor/node/node_launch.h"
#include "supervisor/node/placement.h"
#include "supervisor/node/reach.h"
#include "supervisor/node/slurm.h"
#include "supervisor/proc/capture.h"
#include "supervisor/proc/restart_policy.h"
#include "supervisor/proc/signals.h"
#include "supervisor/proc/sweep.h"
#include "supervisor/proc/worker_local.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    TICK_MS = 20,
    FREE_TRIES = 2000, /* one per millisecond */
    READ_BYTES = 512,  /* of what a launched program wrote last */
    QUOTE_BYTES = 320, /* of it in an error, behind the node's name: the end says most */
    REACH_MS = 5000,   /* to find out how nodes reach this machine */
    KEEPER_MS = 1000,  /* to sweep what a node has left */
    AGAIN_MS = 100,    /* until it is seen again whether a place can be given up */
    QUEUED_MS =
        1000, /* from the launch until the log says that Slurm's queue is waited for */
    SLURM_END_MS = 10000, /* for Slurm's answers at the end of a run */
};

/* Instead of a node of all environment processes. */
enum { ENV_HERE = -2, ENV_IN_BLOCKS = -1 };

enum place_state {
    PLACE_EMPTY,    /* nothing was started yet */
    PLACE_STARTING, /* launched; its hello is awaited */
    PLACE_FILLING,  /* connected, but without all that its processes need */
    PLACE_UP,
    PLACE_ENDING,  /* lost; what was launched is being killed */
    PLACE_WAITING, /* for its next start, or for another place, until due_ms */
    PLACE_GONE,    /* it is not started again */
    PLACE_STATE_COUNT,
};

struct key_id {
    uint8_t id[CHANNEL_ID_BYTES];
};

struct place {
    struct cluster *cluster;
    size_t index;
    char name[32];              /* "node-2" */
    char host[NODE_TEXT_BYTES]; /* as the node calls itself; "": not known yet */
    const char *address;        /* where it connects to */
    pid_t pid;                  /* of the connected node */
    uint64_t generation;        /* number of the newest start, from 1 */
    struct key_id *keys;        /* [generation] of all starts, the first one first */
    enum place_state state;
    struct remote_site *site;
    struct channel *channel, *ended; /* ended: to be closed from the loop */
    struct channel_secret secret;
    int has_secret; /* of the present start; not used yet */
    struct program program;
    struct slurm_fence fence; /* of what Slurm has started */
    int is_queued;            /* and the run's log says so */
    int log_fd;               /* of what it writes; -1: none */
    off_t log_from;
    unsigned n_starts; /* since it was up */
    int was_up;
    uint64_t up_ms;    /* since when this node is up; 0: it is not */
    uint64_t since_ms; /* in this state */
    uint64_t due_ms;
    struct restart_history restarts;
    struct err why;    /* of the last loss or failed start */
    struct err reason; /* to give it up, once another place can take over; 0: none */
};

struct cluster {
    struct cluster_args args;
    const struct cluster_config *config;
    char *logs;
    struct arena arena;
    char run[NODE_TEXT_BYTES]; /* node_identity.run */
    struct door {
        char at[REACH_BYTES]; /* the address, without its port */
        struct listener *listener;
        const char *address; /* for the nodes */
    } * doors; /* one for each address under which nodes reach this machine */
    size_t n_doors;
    struct remote_roster roster;
    struct place *places;
    size_t n;
    int64_t env_task; /* of env.device */
    uv_timer_t tick;
    uv_check_t check;
    uv_idle_t idle;
    int open_handles;
    int has_orphans;
    int is_starting; /* from cluster_start to on_up or on_failed */
    int is_stopping, is_closed;
    struct err failure; /* of the first start of a node; code 0: none */
};

static void enter(struct place *p, enum place_state state)
{
    p->state = state;
    p->since_ms = (uint64_t)monotonic_ms();
}

/* Whether a node has this place: its processes can be there. */
static int has_node(const struct place *p)
{
    return p->state == PLACE_FILLING || p->state == PLACE_UP;
}

/* "node 2", or "node 2 (host)". */
static const char *name_of(const struct place *p, char ret[320])
{
    const char *host = placement_host(p->cluster->config, p->index);

    (void)snprintf(ret, 320, "node %zu%s%.255s%s", p->index, *host != '\0' ? " (" : "",
                   host, *host != '\0' ? ")" : "");
    return ret;
}

static const char *host_of(const struct place *p)
{
    const char *host =
        *p->host != '\0' ? p->host : placement_host(p->cluster->config, p->index);

    return *host != '\0' ? host : NULL;
}

/* e: with the fields of its kind. */
static void emit(const struct place *p, struct cluster_event e)
{
    char name[320];

    e.node = p->name;
    e.host = host_of(p);
    e.shown = name_of(p, name);
    e.generation = p->generation;
    p->cluster->args.on_event(p->cluster->args.ctx, &e);
}

/* ---- launching ---- */

static int open_log(struct place *p)
{
    char path[PATH_MAX];

    if (p->log_fd >= 0) {
        p->log_from = lseek(p->log_fd, 0, SEEK_END);
        return 0;
    }
    (void)snprintf(path, sizeof(path), "%s/%s.log",
                   p->cluster->logs != NULL ? p->cluster->logs : "", p->name);
    p->log_fd = p->cluster->logs != NULL
                    ? beneath_open(path, O_RDWR | O_CREAT | O_APPEND, 0666)
                    : memfd_create("node.log", MFD_CLOEXEC);
    p->log_from = p->log_fd >= 0 ? lseek(p->log_fd, 0, SEEK_END) : 0;
    return p->log_fd;
}

/* What the launched program wrote last, "; its last lines: ..." or "". */
static void quote_log(const struct place *p, char *ret, size_t size)
{
    char text[READ_BYTES], lines[QUOTE_BYTES];
    struct capture c;
    off_t end = p->log_fd >= 0 ? lseek(p->log_fd, 0, SEEK_END) : 0, from;
    ssize_t n;

    ret[0] = '\0';
    from =
        end - (off_t)sizeof(text) > p->log_from ? end - (off_t)sizeof(text) : p->log_from;
    if (end <= from || (n = pread(p->log_fd, text, sizeof(text), from)) <= 0)
        return;
    memset(&c, 0, sizeof(c));
    (void)capture_init(&c, NULL, NULL);
    capture_append(&c, text, (size_t)n);
    capture_last_lines(&c, lines, sizeof(lines));
    (void)snprintf(ret, size, "; its last lines: %s", lines);
}

static int launch(struct place *p, struct err *err)
{
    /* variables that a node needs to do as this process does */
    static const char *const passed[] = {CPU_KERNELS_VARIABLE "=",
                                         LOG_LEVEL_VARIABLE "=",
                                         "BROOD_CHECK_PURE=",
                                         "BROOD_FAULT=",
                                         "TMPDIR=",
                                         "SSH_AUTH_SOCK=",
                                         "USER=",
                                         "SLURM_CONF="};
    struct cluster *c = p->cluster;
    struct node_identity identity = {.node = (uint32_t)p->index,
                                     .generation = p->generation};
    char name[SLURM_NAME_BYTES];
    struct words command;
    struct program_spec spec = {.agent_exe_fd = c->args.agent_exe_fd, .directory = "."};
    int rc;

    slurm_make_name(name, c->args.name, p->index, p->secret.id);
    rc = node_command_make(&command, c->config, p->index, c->args.binaries->supervisor,
                           p->address, name, &c->arena, err);
    if (rc < 0)
        return rc;
    if (open_log(p) < 0)
        return err_errno(err, "the log of node %zu", p->index);
    if (c->config->launcher == LAUNCHER_SLURM) {
        slurm_fence_set(&p->fence, name);
        spec.has_grace = 1; /* srun, and through it the node: see slurm.h */
    }
    spec.words = command.list;
    spec.n_words = command.n;
    spec.output_fd = p->log_fd;
    memcpy(identity.run, c->run, sizeof(identity.run));
    spec.input = node_command_key(&p->secret, &identity, &c->arena);
    program_spec_pass(&spec, passed, sizeof(passed) / sizeof(passed[0]));
    return program_start(&p->program, &spec, err);
}

/* why: of the loss that it follows at once; NULL: of none. */
static void start_place(struct place *p, const char *why)
{
    struct err err = {0};

    (void)restart_history_feed(&p->restarts, &p->cluster->config->restart,
                               RESTART_EV_STARTED, uv_hrtime(), 0);
    p->n_starts++;
    p->generation++;
    channel_secret_make(&p->secret);
    p->has_secret = 1;
    p->keys = xreallocarray(p->keys, p->generation, sizeof(*p->keys));
    memcpy(p->keys[p->generation - 1].id, p->secret.id, CHANNEL_ID_BYTES);
    p->is_queued = 0;
    enter(p, PLACE_STARTING);
    if (launch(p, &err) < 0) {
        p->why = err;
        p->has_secret = 0;
        enter(p, PLACE_ENDING);
        emit(p, (struct cluster_event){.kind = CLUSTER_EVENT_LOST, .why = p->why.msg});
        return;
    }
    emit(p, (struct cluster_event){
                .kind = CLUSTER_EVENT_START, .pid = p->program.pid, .why = why});
}

/* ---- connections ---- */

static const struct channel_secret *find_secret(void *find_ctx,
                                                const uint8_t id[CHANNEL_ID_BYTES],
                                                void **ret_ctx, struct err *why)
{
    struct cluster *c = find_ctx;
    char name[320];

    for (size_t i = 0; i < c->n; i++) {
        struct place *p = &c->places[i];

        if (!p->has_secret || p->state != PLACE_STARTING ||
            memcmp(p->secret.id, id, CHANNEL_ID_BYTES) != 0)
            continue;
        *ret_ctx = p;
        return &p->secret;
    }
    for (size_t i = 0; i < c->n; i++) /* used before, or of a start that is over */
        for (uint64_t k = 0; k < c->places[i].generation; k++)
            if (memcmp(c->places[i].keys[k].id, id, CHANNEL_ID_BYTES) == 0)
                (void)err_set(why, ERR_STATE,
                              "it has the key of generation %" PRIu64
                              " of %s, which is over or connected",
                              k + 1, name_of(&c->places[i], name));
    return NULL;
}

static void on_refused(void *ctx, const char *peer, const struct err *why, size_t n)
{
    struct cluster *c = ctx;
    char line[ERR_MSG_BYTES + LISTENER_ADDRESS_BYTES + 64];

    if (n > 1)
        (void)snprintf(line, sizeof(line),
                       "%zu connections were refused, the last one from %s: %s", n, peer,
                       why->msg);
    else
        (void)snprintf(line, sizeof(line), "a connection from %s was refused: %s", peer,
                       why->msg);
    if (!c->is_closed)
        c->args.on_line(c->args.ctx, line);
}

/* Whoever has the key has the place. */
static void on_ready(void *ctx, struct channel *channel)
{
    struct place *p = ctx;

    if (p->channel != NULL || p->state != PLACE_STARTING || p->cluster->is_closed) {
        channel_close(channel);
        return;
    }
    p->channel = channel;
    p->has_secret = 0;
}

/* Its being active keeps the loop from waiting. */
static void on_idle(uv_idle_t *idle)
{
}

static void on_news(void *ctx)
{
    struct cluster *c = ctx;

    if (!c->is_closed && !uv_is_active((uv_handle_t *)&c->idle))
        (void)uv_idle_start(&c->idle, on_idle);
}

/* Ends the connection; the rest follows from the loop. */
static void lose(struct place *p, const struct err *why)
{
    CHECK(p->state == PLACE_STARTING || has_node(p));
    p->why = *why;
    p->pid = 0;
    if (why->code == 0)
        (void)err_set(&p->why, UV_EOF, "its connection has ended");
    p->has_secret = 0;
    if (p->channel != NULL) {
        CHECK(p->ended == NULL);
        p->ended = p->channel;
        p->channel = NULL;
    }
    enter(p, PLACE_ENDING);
    emit(p, (struct cluster_event){.kind = CLUSTER_EVENT_LOST, .why = p->why.msg});
    remote_site_lose(p->site, &p->why);
    on_news(p->cluster);
}

static void on_end(void *ctx, struct channel *channel, const struct err *why)
{
    struct place *p = ctx;

    if (p->channel == channel)
        lose(p, why);
}

static int is_expected(const struct place *p, const struct node_identity *v)
{
    return strcmp(v->run, p->cluster->run) == 0 && v->node == p->index &&
           v->generation == p->generation;
}

static int check_hello(const struct place *p, const struct node_hello *h, struct err *err)
{
    const struct cluster *c = p->cluster;
    char name[NODE_IDENTITY_BYTES];

    if (h->protocol != NODE_PROTOCOL_VERSION)
        return err_set(err, ERR_PROTOCOL,
                       "%s speaks node protocol version %u, this supervisor %u", h->host,
                       h->protocol, NODE_PROTOCOL_VERSION);
    if (!is_expected(p, &h->identity))
        return err_set(err, ERR_PROTOCOL, "%s says that it is %s", h->host,
                       node_identity_text(&h->identity, name));
    if (h->numerics != NUMERICS_VERSION)
        return err_set(err, ERR_AGENT,
                       "%s is of numerics version %u, this supervisor of %d", h->host,
                       h->numerics, NUMERICS_VERSION);
    if (c->args.config->run.numerics == NUMERICS_NATIVE &&
        strcmp(h->build_id, c->args.binaries->build_id) != 0)
        return err_set(err, ERR_AGENT,
                       "numerics: native needs one build everywhere: %s has build %s, "
                       "this machine %s",
                       h->host, h->build_id, c->args.binaries->build_id);
    return 0;
}

static int has_our_clock(const struct node_hello *h)
{
    char own[NODE_TEXT_BYTES];

    node_boot_id(own);
    return own[0] != '\0' && strcmp(own, h->boot) == 0;
}

static void take_hello(struct place *p, const uint8_t *data, size_t len)
{
    struct node_hello h;
    struct node_message m;
    struct err err = {0};
    int rc = node_message_parse(&m, data, len, &err);

    if (rc == 0 && m.kind != NODE_HELLO)
        rc = err_set(&err, ERR_PROTOCOL, "it began with \"%s\"", node_kind_name(m.kind));
    if (rc == 0)
        rc = node_hello_parse(&h, &m, &err);
    if (rc == 0)
        rc = check_hello(p, &h, &err);
    if (rc < 0) {
        lose(p, &err);
        return;
    }
    log_info("node %zu: %s, pid %u, %u cores, brood %s", p->index, h.host, h.pid, h.cores,
             h.version);
    (void)snprintf(p->host, sizeof(p->host), "%s", h.host);
    p->pid = (pid_t)h.pid;
    emit(p, (struct cluster_event){.kind = CLUSTER_EVENT_CONNECT, .pid = p->pid});
    enter(p, PLACE_FILLING);
    remote_site_join(p->site, p->channel, h.host, has_our_clock(&h), p->generation);
    on_news(p->cluster);
}

static void take_message(struct place *p, const uint8_t *data, size_t len)
{
    remote_site_take(p->site, data, len);
}

/* ---- what follows, from the loop ---- */

/* The other place that has the fewest workers; NULL: none is up. */
static struct place *another(const struct place *p)
{
    struct cluster *c = p->cluster;
    struct place *best = NULL;

    for (size_t i = 0; i < c->n; i++) {
        struct place *q = &c->places[i];

        if (q != p && has_node(q) &&
            (best == NULL || remote_site_count(q->site) < remote_site_count(best->site)))
            best = q;
    }
    return best;
}

static void give_up(struct place *p, const struct err *reason)
{
    struct place *to = another(p);
    char name[320], other[320];
    struct err why;

    enter(p, PLACE_GONE);
    emit(p, (struct cluster_event){.kind = CLUSTER_EVENT_GIVE_UP,
                                   .why = reason->msg,
                                   .to = to != NULL ? to->name : NULL,
                                   .to_shown = to != NULL ? name_of(to, other) : NULL});
    if (to != NULL) {
        remote_site_move(p->site, to->site, NULL);
        enter(to, PLACE_FILLING);
        return;
    }
    (void)err_set(&why, ERR_AGENT, "no node is left: %s: %s", name_of(p, name),
                  reason->msg);
    if (p->cluster->is_starting)
        p->cluster->failure = why;
    remote_site_move(p->site, NULL, &why);
    remote_site_release(p->site);
}

/* Whether the node that died had been up long enough. */
static int was_healthy(const struct place *p)
{
    return p->up_ms != 0 && (double)((uint64_t)monotonic_ms() - p->up_ms) >=
                                p->cluster->config->restart.within_s * 1000;
}

/* Another node on that machine would need the same space. */
static int lacks_space(const struct place *p)
{
    return p->why.code == -ENOSPC || p->why.code == -EDQUOT;
}

/* Whether another place may be up later, and is not itself to be given up. */
static int others_may_come(const struct place *p)
{
    const struct cluster *c = p->cluster;

    for (size_t i = 0; i < c->n; i++) {
        const struct place *q = &c->places[i];

        if (q != p && q->state != PLACE_EMPTY && q->state != PLACE_GONE &&
            q->reason.code == 0)
            return 1;
    }
    return 0;
}

/* Gives the place up; not yet if all others are only being started. */
static void try_to_give_up(struct place *p, const struct err *reason)
{
    if (another(p) != NULL || !others_may_come(p)) {
        give_up(p, reason);
        return;
    }
    if (reason != &p->reason)
        p->reason = *reason;
    enter(p, PLACE_WAITING);
    p->due_ms = (uint64_t)monotonic_ms() + AGAIN_MS;
}

/* Starts the place again, at once or later, or gives it up. */
static void judge(struct place *p)
{
    const struct restart_config *config = &p->cluster->config->restart;
    struct restart_verdict v;
    struct err why;

    if (was_healthy(p))
        (void)restart_history_feed(&p->restarts, config, RESTART_EV_PROGRESS, uv_hrtime(),
                                   0);
    p->up_ms = 0;
    v = restart_history_feed(&p->restarts, config, RESTART_EV_CRASHED, uv_hrtime(), 0);
    if (lacks_space(p) && another(p) != NULL) {
        (void)err_set(&why, p->why.code, "its disk is full: %s", p->why.msg);
        try_to_give_up(p, &why);
    } else if (p->n_starts >= CLUSTER_MAX_STARTS) {
        (void)err_set(&why, ERR_AGENT, "it cannot be started again: %s", p->why.msg);
        try_to_give_up(p, &why);
    } else if (v.action == RESTART_DO_GIVE_UP) {
        (void)err_set(&why, ERR_AGENT,
                      "it was lost %zu times within %g s, the last time: %s",
                      p->restarts.n_deaths, config->within_s, p->why.msg);
        try_to_give_up(p, &why);
    } else if (v.action == RESTART_DO_WAIT) {
        enter(p, PLACE_WAITING);
        p->due_ms = (uint64_t)monotonic_ms() + v.delay_ns / 1000000;
        emit(p, (struct cluster_event){.kind = CLUSTER_EVENT_WAIT,
                                       .delay_ms = v.delay_ns / 1000000,
                                       .why = p->why.msg});
    } else {
        start_place(p, p->why.msg);
    }
}

/* What was launched has ended: the place can be filled again. */
static void after_end(struct place *p)
{
    struct cluster *c = p->cluster;
    char name[320];

    if (c->is_stopping) {
        enter(p, PLACE_GONE);
        return;
    }
    emit(p, (struct cluster_event){.kind = CLUSTER_EVENT_FENCE});
    if (!c->is_starting || p->was_up) {
        judge(p);
        return;
    }
    enter(p, PLACE_GONE); /* a command that starts no node is worth no second try */
    if (c->failure.code == 0)
        (void)err_set(&c->failure, p->why.code, "%s: %s", name_of(p, name), p->why.msg);
}

static void fail_start(struct place *p, const char *what)
{
    char quote[QUOTE_BYTES + 32];
    struct err err;

    quote_log(p, quote, sizeof(quote));
    (void)err_set(&err, ERR_AGENT, "%s%s", what, quote);
    lose(p, &err);
}

static void look_at_program(struct place *p)
{
    int status;
    char text[64], signal[SIGNAL_NAME_BYTES];

    if (p->program.pid == 0 || !program_ended(&p->program, &status))
        return;
    p->cluster->has_orphans = 1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        slurm_fence_clear(&p->fence);
    if (p->state != PLACE_STARTING || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        return; /* a launcher may leave the node behind */
    if (WIFSIGNALED(status))
        (void)snprintf(text, sizeof(text), "it was ended by %s",
                       signal_name(WTERMSIG(status), signal));
    else
        (void)snprintf(text, sizeof(text), "it exited with code %d", WEXITSTATUS(status));
    fail_start(p, text);
}

/* Whether the job of a node waits in Slurm's queue. That is no failure of its start, unless
 * another node, which is up, could take its processes. */
static int is_queued(struct place *p)
{
    struct cluster *c = p->cluster;
    char quote[QUOTE_BYTES + 32], name[320], line[sizeof(quote) + sizeof(name) + 64];

    if (c->config->launcher != LAUNCHER_SLURM || (!c->is_starting && another(p) != NULL))
        return 0;
    quote_log(p, quote, sizeof(quote));
    if (!slurm_says_waiting(quote))
        return 0;
    if (!p->is_queued) {
        (void)snprintf(line, sizeof(line), "%s waits in Slurm's queue%s",
                       name_of(p, name), quote);
        c->args.on_line(c->args.ctx, line);
    }
    p->is_queued = 1;
    p->since_ms = (uint64_t)monotonic_ms();
    return 1;
}

static void check_start(struct place *p)
{
    const struct cluster *c = p->cluster;
    const uint64_t in_ms = (uint64_t)monotonic_ms() - p->since_ms;
    char text[PATH_MAX + 128];

    if ((in_ms > QUEUED_MS && is_queued(p)) ||
        (double)in_ms <= c->config->start_within_s * 1000)
        return;
    (void)snprintf(text, sizeof(text),
                   "it did not connect within %g s (its log is %s/%s.log)",
                   c->config->start_within_s, c->logs != NULL ? c->logs : "", p->name);
    fail_start(p, text);
}

/* A node whose connection has ended ends all that it has started, or its keeper does: that
 * takes a moment, in which the keeper should not be killed. */
static int may_be_killed(const struct place *p)
{
    const int has_ended = p->why.code == UV_EOF || p->why.code == UV_ECONNRESET;

    return !has_ended || p->cluster->is_stopping ||
           (uint64_t)monotonic_ms() - p->since_ms > NODE_END_MS + KEEPER_MS;
}

/* Kills what was launched, and what Slurm has started for it. Returns 1 when it has ended. */
static int end_place(struct place *p, uint64_t within_ms)
{
    if (p->program.pid == 0)
        return slurm_fence_end(&p->fence, within_ms);
    if (p->cluster->config->launcher == LAUNCHER_SLURM)
        slurm_end_srun(&p->fence, &p->program);
    else if (may_be_killed(p))
        program_kill(&p->program);
    return 0;
}

static void look_whether_full(struct place *p)
{
    remote_site_feed(p->site); /* rows that came since, if nobody sends anything */
    if (!remote_site_is_level(p->site))
        return;
    enter(p, PLACE_UP);
    p->n_starts = 0;
    p->was_up = 1;
    p->up_ms = (uint64_t)monotonic_ms();
    emit(p, (struct cluster_event){.kind = CLUSTER_EVENT_UP});
    remote_site_release(p->site);
}

static void look_whether_due(struct place *p)
{
    if (p->cluster->is_stopping)
        enter(p, PLACE_GONE);
    else if ((uint64_t)monotonic_ms() < p->due_ms)
        return;
    else if (p->reason.code < 0)
        try_to_give_up(p, &p->reason);
    else
        start_place(p, NULL);
}

static void look_whether_ended(struct place *p)
{
    const double silence_ms = p->cluster->config->silence_s * 1000;

    if (end_place(p, (uint64_t)silence_ms + NODE_END_MS) && !p->cluster->has_orphans)
        after_end(p);
}

static void look_away(struct place *p)
{
}

/* What follows in each state from a turn of the loop, and from a message of the node; NULL: it
 * cannot come. A lost node ends the states that have one (lose). */
static const struct {
    const char *name; /* of cluster_info */
    void (*look)(struct place *p);
    void (*take)(struct place *p, const uint8_t *data, size_t len);
} states[PLACE_STATE_COUNT] = {
    [PLACE_EMPTY] = {"starting", look_away, NULL},
    [PLACE_STARTING] = {"starting", check_start, take_hello},
    [PLACE_FILLING] = {"filling", look_whether_full, take_message},
    [PLACE_UP] = {"up", look_away, take_message},
    [PLACE_ENDING] = {"ending", look_whether_ended, NULL},
    [PLACE_WAITING] = {"waiting", look_whether_due, NULL},
    [PLACE_GONE] = {"gone", look_away, NULL},
};

static void on_message(void *ctx, struct channel *channel, const uint8_t *data,
                       size_t len)
{
    struct place *p = ctx;

    if (p->channel != channel)
        return;
    CHECK(states[p->state].take != NULL, "%s is %s", p->name, states[p->state].name);
    states[p->state].take(p, data, len);
}

/* Reports the end of the start, as the last thing of a turn: the call may close the cluster. */
static void report_start(struct cluster *c)
{
    size_t n_up = 0, n_gone = 0;

    for (size_t i = 0; i < c->n; i++) {
        n_up += c->places[i].state == PLACE_UP;
        n_gone += c->places[i].state == PLACE_GONE;
    }
    if (!c->is_starting || c->is_stopping)
        return;
    if (c->failure.code == 0 && (n_up == 0 || n_up + n_gone < c->n))
        return;
    c->is_starting = 0;
    if (c->failure.code != 0)
        c->args.on_failed(c->args.ctx, &c->failure);
    else
        c->args.on_up(c->args.ctx);
}

/* After each answer of a node, and at ticks. A launcher whose node is up may have ended as it
 * likes: it is enough to reap it at a tick, not after each answer of each node. */
static void turn(struct cluster *c, int is_tick)
{
    for (size_t i = 0; i < c->n; i++) {
        struct place *p = &c->places[i];

        remote_site_deliver(p->site);
        /* The site itself may have given up its node. */
        if (has_node(p) && !remote_site_is_up(p->site))
            lose(p, remote_site_why_lost(p->site));
        if (is_tick || p->state != PLACE_UP)
            look_at_program(p);
        if (p->ended != NULL)
            channel_close(p->ended);
        p->ended = NULL;
        states[p->state].look(p);
        /* No other node will come for them. */
        if ((p->state == PLACE_GONE || p->cluster->is_stopping) &&
            remote_site_count_lost(p->site) > 0)
            remote_site_release(p->site);
    }
    if (c->has_orphans)
        c->has_orphans = local_site_sweep() > 0;
    report_start(c);
}

static void on_check(uv_check_t *check)
{
    struct cluster *c = check->data;

    if (!uv_is_active((uv_handle_t *)&c->idle))
        return;
    (void)uv_idle_stop(&c->idle);
    turn(c, 0);
}

static void on_tick(uv_timer_t *timer)
{
    turn(timer->data, 1);
}

/* ---- opening and closing ---- */

static int open_door(struct cluster *c, const char *address, struct err *err)
{
    const struct listener_options o = {
        .address = address,
        .channel = {.encrypt = c->config->encrypt,
                    .silence_ms = (uint64_t)(c->config->silence_s * 1000),
                    .max_bytes = NODE_MAX_MESSAGE_BYTES},
        .expected = (unsigned)c->n,
        .find = find_secret,
        .find_ctx = c,
        .callbacks = {.on_ready = on_ready, .on_message = on_message, .on_end = on_end},
        .on_refused = on_refused,
        .refused_ctx = c};
    struct door *d;
    int rc;

    c->doors = xreallocarray(c->doors, c->n_doors + 1, sizeof(*c->doors));
    d = &c->doors[c->n_doors];
    *d = (struct door){0};
    (void)snprintf(d->at, sizeof(d->at), "%s", address);
    rc = listener_open(&d->listener, c->args.loop, &o, err);
    if (rc < 0)
        return err_wrap(err, "cluster.listen");
    d->address = node_command_address(listener_address(d->listener), &c->arena);
    c->n_doors++;
    return 0;
}

/* The door at that address, which is opened if there is none; NULL: it cannot be. */
static const struct door *door_at(struct cluster *c, const char *address, struct err *err)
{
    for (size_t i = 0; i < c->n_doors; i++)
        if (strcmp(c->doors[i].at, address) == 0)
            return &c->doors[i];
    return open_door(c, address, err) < 0 ? NULL : &c->doors[c->n_doors - 1];
}

static int open_doors(struct cluster *c, struct err *err)
{
    const char *given = c->config->listen;
    struct reach *at;
    int rc = 0;

    if (given != NULL && strcmp(given, "auto") != 0) {
        rc = open_door(c, given, err);
        for (size_t i = 0; i < c->n && rc == 0; i++)
            c->places[i].address = c->doors[0].address;
        return rc;
    }
    at = xcalloc(c->n, sizeof(*at));
    reach_all(c->config, c->n, REACH_MS, at);
    for (size_t i = 0; i < c->n; i++)
        if (at[i].why.code != 0)
            log_warn(
                "cluster.listen: %s, since it is not known how node %zu reaches this "
                "machine: %s",
                at[i].address, i, at[i].why.msg);
    for (size_t i = 0; i < c->n && rc == 0; i++) {
        const struct door *d = door_at(c, at[i].address, err);

        if (d != NULL)
            c->places[i].address = d->address;
        else
            rc = err != NULL ? err->code : ERR_IO;
    }
    free(at);
    return rc;
}

static void open_handles(struct cluster *c)
{
    (void)uv_timer_init(c->args.loop, &c->tick);
    (void)uv_check_init(c->args.loop, &c->check);
    (void)uv_idle_init(c->args.loop, &c->idle);
    c->tick.data = c->check.data = c->idle.data = c;
    c->open_handles = 3;
    (void)uv_timer_start(&c->tick, on_tick, TICK_MS, TICK_MS);
    (void)uv_check_start(&c->check, on_check);
}

int cluster_open(struct cluster **ret, const struct cluster_args *args,
                 struct agent_spec *specs, size_t n, struct err *err)
{
    struct cluster *c = xcalloc(1, sizeof(*c));
    size_t *node_of = xcalloc(n, sizeof(*node_of));
    const struct remote_site_args site = {
        .roster = &c->roster, .store = args->store, .on_news = on_news, .ctx = c};
    const char *device = args->config->env.device;
    char why[DEVICE_WHY_BYTES];
    uint64_t random = 0;
    int rc;

    *ret = c;
    c->args = *args;
    c->config = &args->config->cluster;
    c->logs = args->logs != NULL ? xstrdup(args->logs) : NULL;
    c->n = c->config->launcher == LAUNCHER_SLURM ? slurm_nodes(c->config)
                                                 : (size_t)c->config->nodes;
    /* a name unlike that of any other supervisor, also of the same run */
    (void)getrandom(&random, sizeof(random), 0);
    (void)snprintf(c->run, sizeof(c->run), "%.200s:%016" PRIx64, c->args.name, random);
    (void)signal(SIGPIPE, SIG_IGN);
    c->places = xcalloc(c->n, sizeof(*c->places));
    for (size_t i = 0; i < c->n; i++) {
        c->places[i] = (struct place){.cluster = c, .index = i, .log_fd = -1};
        (void)snprintf(c->places[i].name, sizeof(c->places[i].name), "node-%zu", i);
        c->places[i].site = remote_site_new(&site);
    }
    open_handles(c);
    rc = sweep_enable(err);
    if (rc == 0 && c->config->launcher == LAUNCHER_SLURM)
        rc = slurm_check(c->config, err);
    if (rc == 0)
        rc = placement_make(args->config, c->n, specs, n, node_of, err);
    c->env_task = ENV_HERE;
    /* Slurm's nodes are counted only now; device_task's -1, no task, is ENV_IN_BLOCKS */
    if (rc == 0 && device != NULL &&
        device_task(device, (int64_t)c->n, &c->env_task, why) != 0)
        rc = err_set_at(err, ERR_CONFIG, ERR_AT(.key = "env.device"), "%s", why);
    if (rc == 0)
        rc = open_doors(c, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        specs[i].site = remote_site_base(c->places[node_of[i]].site);
    free(node_of);
    return rc;
}

void cluster_start(struct cluster *c)
{
    c->is_starting = 1;
    for (size_t i = 0; i < c->n; i++)
        start_place(&c->places[i], NULL);
}

void cluster_info(const struct cluster *c, size_t node, struct cluster_info *ret)
{
    const struct place *p = &c->places[node];

    *ret = (struct cluster_info){.name = p->name,
                                 .host = host_of(p),
                                 .state = states[p->state].name,
                                 .agents = remote_site_count(p->site),
                                 .restarts = p->generation > 0 ? p->generation - 1 : 0,
                                 .pid = p->pid,
                                 .why = p->why.code < 0 ? p->why.msg : NULL};
}

size_t cluster_count(const struct cluster *c)
{
    return c != NULL ? c->n : 0;
}

void cluster_reads(struct cluster *c, const char *agent, const uint8_t *columns,
                   size_t n_columns)
{
    remote_roster_reads(&c->roster, agent, columns, n_columns);
}

struct worker_site *cluster_environment_site(struct cluster *c, size_t process, size_t n)
{
    size_t first;

    if (c->env_task == ENV_HERE)
        return NULL;
    first = c->env_task >= 0 ? (size_t)c->env_task : process * c->n / n;
    for (size_t i = 0; i < c->n; i++) { /* processes for evaluations begin late */
        const struct place *p = &c->places[(first + i) % c->n];

        if (p->state != PLACE_GONE)
            return remote_site_base(p->site);
    }
    return remote_site_base(c->places[first].site);
}

void cluster_forget(struct cluster *c, uint64_t row)
{
    for (size_t i = 0; i < c->n; i++)
        remote_site_forget(c->places[i].site, row);
}

void cluster_stop(struct cluster *c)
{
    c->is_stopping = 1;
    for (size_t i = 0; i < c->n; i++)
        if (has_node(&c->places[i]))
            remote_site_part(c->places[i].site);
    on_news(c);
}

static void on_handle_closed(uv_handle_t *h)
{
    struct cluster *c = h->data;

    c->open_handles--;
}

void cluster_close(struct cluster *c)
{
    const struct err over = {.code = UV_ECANCELED};

    if (c->is_closed)
        return;
    c->is_stopping = 1;
    for (size_t i = 0; i < c->n; i++) {
        struct place *p = &c->places[i];

        if (p->channel != NULL)
            log_info("node %zu: %llu bytes were sent to it, %llu came", i,
                     (unsigned long long)channel_bytes_sent(p->channel),
                     (unsigned long long)channel_bytes_received(p->channel));
        remote_site_lose(p->site, &over);
        channel_close(p->channel);
        channel_close(p->ended);
        p->channel = p->ended = NULL;
        p->has_secret = 0;
    }
    c->is_closed = 1;
    for (size_t i = 0; i < c->n_doors; i++)
        listener_close(c->doors[i].listener);
    uv_close((uv_handle_t *)&c->tick, on_handle_closed);
    uv_close((uv_handle_t *)&c->check, on_handle_closed);
    uv_close((uv_handle_t *)&c->idle, on_handle_closed);
}

/* Nodes end by themselves when their connections end. */
static void end_programs(struct cluster *c)
{
    size_t n_running = 1;

    for (int try = 0; try < FREE_TRIES && (n_running > 0 || c->has_orphans); try++) {
        n_running = 0;
        for (size_t i = 0; i < c->n; i++) {
            struct place *p = &c->places[i];

            if (p->program.pid != 0 && try >= FREE_TRIES / 2)
                (void)end_place(p, 0);
            look_at_program(p);
            n_running += p->program.pid != 0;
        }
        if (c->has_orphans)
            c->has_orphans = local_site_sweep() > 0;
        if (n_running > 0 || c->has_orphans)
            (void)poll(NULL, 0, 1);
    }
    for (size_t i = 0; i < c->n; i++) { /* what an srun that had to be killed has left */
        struct place *p = &c->places[i];
        const int64_t until = monotonic_ms() + SLURM_END_MS;

        while (p->fence.state != SLURM_FENCE_NONE && monotonic_ms() < until &&
               !end_place(p, SLURM_END_MS)) {
            look_at_program(p);
            (void)poll(NULL, 0, 1);
        }
        slurm_fence_done(&p->fence);
    }
}

void cluster_free(struct cluster *c)
{
    if (c == NULL)
        return;
    cluster_close(c);
    while (c->open_handles > 0) /* the run failed before its loop ran */
        (void)uv_run(c->args.loop, UV_RUN_ONCE);
    end_programs(c);
    for (size_t i = 0; i < c->n; i++) {
        remote_site_free(c->places[i].site);
        restart_history_done(&c->places[i].restarts);
        free(c->places[i].keys);
        if (c->places[i].log_fd >= 0)
            (void)close(c->places[i].log_fd);
    }
    free(c->places);
    free(c->doors);
    free(c->roster.links);
    free(c->logs);
    arena_done(&c->arena);
    free(c);
}
