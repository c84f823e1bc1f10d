#include "supervisor/node/cluster.h"

#include "common/err/check.h"
#include "common/io/beneath.h"
#include "common/io/monotonic.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "common/numerics/cpu_kernels.h"
#include "common/numerics/numerics.h"
#include "supervisor/net/listener.h"
#include "supervisor/node/node_launch.h"
#include "supervisor/node/placement.h"
#include "supervisor/proc/capture.h"
#include "supervisor/proc/signals.h"
#include "supervisor/proc/sweep.h"
#include "supervisor/proc/worker_local.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    TICK_MS = 20,
    FREE_TRIES = 2000, /* one per millisecond */
    QUOTE_BYTES = 512, /* of what a launched program wrote last */
};

enum place_state {
    PLACE_EMPTY,    /* nothing runs; to be started */
    PLACE_STARTING, /* launched; its hello is awaited */
    PLACE_FILLING,  /* connected, but without all that its processes need */
    PLACE_UP,
    PLACE_ENDING, /* lost; what was launched is being killed */
    PLACE_GONE,   /* it could not be started again */
};

struct place {
    struct cluster *cluster;
    size_t index;
    enum place_state state;
    struct remote_site *site;
    struct channel *channel, *ended; /* ended: to be closed from the loop */
    struct channel_secret secret;
    int has_secret; /* of the present start; not used yet */
    struct program program;
    int log_fd; /* of what it writes; -1: none */
    off_t log_from;
    unsigned n_starts; /* since it was up */
    uint64_t since_ms; /* in this state */
    struct err why;    /* of the last loss or failed start */
};

struct cluster {
    struct cluster_args args;
    const struct cluster_config *config;
    char *logs;
    struct arena arena;
    struct listener *listener;
    const char *address; /* for the nodes */
    struct remote_roster roster;
    struct place *places;
    size_t n;
    uv_timer_t tick;
    uv_check_t check;
    uv_idle_t idle;
    int open_handles;
    int has_orphans;
    int is_opening, is_stopping, is_closed;
    uint64_t greeted_ms;
};

static void enter(struct place *p, enum place_state state)
{
    p->state = state;
    p->since_ms = (uint64_t)monotonic_ms();
}

static void note(struct cluster *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void note(struct cluster *c, const char *fmt, ...)
{
    char line[ERR_MSG_BYTES + 256];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    c->args.on_line(c->args.ctx, line);
}

/* "node 2", or "node 2 (host)". */
static const char *name_of(const struct place *p, char ret[320])
{
    const char *host = node_command_host(p->cluster->config, p->index);

    (void)snprintf(ret, 320, "node %zu%s%.255s%s", p->index, *host != '\0' ? " (" : "",
                   host, *host != '\0' ? ")" : "");
    return ret;
}

/* ---- launching ---- */

static int open_log(struct place *p)
{
    char path[PATH_MAX];

    if (p->log_fd >= 0) {
        p->log_from = lseek(p->log_fd, 0, SEEK_END);
        return 0;
    }
    (void)snprintf(path, sizeof(path), "%s/node-%zu.log",
                   p->cluster->logs != NULL ? p->cluster->logs : "", p->index);
    p->log_fd = p->cluster->logs != NULL
                    ? beneath_open(path, O_RDWR | O_CREAT | O_APPEND, 0666)
                    : memfd_create("node.log", MFD_CLOEXEC);
    p->log_from = p->log_fd >= 0 ? lseek(p->log_fd, 0, SEEK_END) : 0;
    return p->log_fd;
}

/* What the launched program wrote last, "; its last lines: ..." or "". */
static void quote_log(const struct place *p, char *ret, size_t size)
{
    char text[QUOTE_BYTES], lines[QUOTE_BYTES];
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

/* Variables that a node needs to do as this process does. */
static void pass_variables(struct program_spec *spec)
{
    static const char *const passed[] = {CPU_KERNELS_VARIABLE "=",
                                         LOG_LEVEL_VARIABLE "=",
                                         "BROOD_CHECK_PURE=",
                                         "BROOD_FAULT=",
                                         "TMPDIR=",
                                         "SSH_AUTH_SOCK=",
                                         "USER=",
                                         "SLURM_CONF="};

    for (char **v = environ; *v != NULL; v++)
        for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
            if (strncmp(*v, passed[i], strlen(passed[i])) == 0 &&
                spec->n_variables < PROGRAM_MAX_VARIABLES)
                spec->variables[spec->n_variables++] = *v;
}

static int launch(struct place *p, struct err *err)
{
    struct cluster *c = p->cluster;
    struct node_command command;
    struct program_spec spec = {.agent_exe_fd = c->args.agent_exe_fd, .directory = "."};
    int rc = node_command_make(&command, c->config, p->index,
                               c->args.binaries->supervisor, c->address, &c->arena, err);

    if (rc < 0)
        return rc;
    if (open_log(p) < 0)
        return err_errno(err, "the log of node %zu", p->index);
    channel_secret_make(&p->secret);
    p->has_secret = 1;
    spec.words = command.words;
    spec.n_words = command.n;
    spec.output_fd = p->log_fd;
    spec.input_fd = rc = node_command_key(&p->secret, err);
    if (rc < 0)
        return rc;
    pass_variables(&spec);
    rc = program_start(&p->program, &spec, err);
    (void)close(spec.input_fd);
    return rc;
}

static void start_place(struct place *p)
{
    struct err err = {0};

    p->n_starts++;
    enter(p, PLACE_STARTING);
    if (launch(p, &err) < 0) {
        p->why = err;
        p->has_secret = 0;
        enter(p, PLACE_ENDING);
    }
}

/* ---- connections ---- */

static const struct channel_secret *
find_secret(void *find_ctx, const uint8_t id[CHANNEL_ID_BYTES], void **ret_ctx)
{
    struct cluster *c = find_ctx;

    for (size_t i = 0; i < c->n; i++) {
        struct place *p = &c->places[i];

        if (!p->has_secret || p->state != PLACE_STARTING ||
            memcmp(p->secret.id, id, CHANNEL_ID_BYTES) != 0)
            continue;
        *ret_ctx = p;
        return &p->secret;
    }
    return NULL;
}

static void on_refused(void *ctx, const char *peer, const struct err *why)
{
    struct cluster *c = ctx;

    if (!c->is_closed)
        note(c, "a connection from %s was refused: %s", peer, why->msg);
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
    (void)idle;
}

static void news(struct cluster *c)
{
    if (!c->is_closed && !uv_is_active((uv_handle_t *)&c->idle))
        (void)uv_idle_start(&c->idle, on_idle);
}

static void on_news(void *ctx)
{
    news(ctx);
}

/* Ends the connection; the rest follows from the loop. */
static void lose(struct place *p, const struct err *why)
{
    if (p->channel == NULL && p->state != PLACE_STARTING)
        return;
    p->why = *why;
    if (why->code == 0)
        (void)err_set(&p->why, UV_EOF, "its connection has ended");
    p->has_secret = 0;
    if (p->channel != NULL) {
        CHECK(p->ended == NULL);
        p->ended = p->channel;
        p->channel = NULL;
    }
    enter(p, PLACE_ENDING);
    remote_site_lose(p->site, &p->why);
    news(p->cluster);
}

static void on_end(void *ctx, struct channel *channel, const struct err *why)
{
    struct place *p = ctx;

    if (p->channel == channel)
        lose(p, why);
}

static int check_hello(const struct cluster *c, const struct node_hello *h,
                       struct err *err)
{
    if (h->protocol != NODE_PROTOCOL_VERSION)
        return err_set(err, ERR_PROTOCOL,
                       "%s speaks node protocol version %u, this supervisor %u", h->host,
                       h->protocol, NODE_PROTOCOL_VERSION);
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

static int take_hello(struct place *p, const uint8_t *data, size_t len, struct err *err)
{
    struct node_hello h;
    struct node_message m;
    int rc = node_message_parse(&m, data, len, err);

    if (rc == 0 && m.kind != NODE_HELLO)
        rc = err_set(err, ERR_PROTOCOL, "it began with \"%s\"", node_kind_name(m.kind));
    if (rc == 0)
        rc = node_hello_parse(&h, &m, err);
    if (rc == 0)
        rc = check_hello(p->cluster, &h, err);
    if (rc < 0)
        return rc;
    log_info("node %zu: %s, pid %u, %u cores, brood %s", p->index, h.host, h.pid, h.cores,
             h.version);
    enter(p, PLACE_FILLING);
    remote_site_join(p->site, p->channel, h.host, has_our_clock(&h));
    news(p->cluster);
    return 0;
}

static void on_message(void *ctx, struct channel *channel, const uint8_t *data,
                       size_t len)
{
    struct place *p = ctx;
    struct err err = {0};

    if (p->channel != channel)
        return;
    if (p->state != PLACE_STARTING)
        remote_site_take(p->site, data, len);
    else if (take_hello(p, data, len, &err) < 0)
        lose(p, &err);
}

/* A call of one node waits: the others must not think that the supervisor is dead. */
static void on_waiting(void *ctx)
{
    struct cluster *c = ctx;
    const uint64_t every_ms = (uint64_t)(c->config->silence_s * 1000 / 4);
    const int greets = (uint64_t)monotonic_ms() - c->greeted_ms >= every_ms;

    for (size_t i = 0; i < c->n; i++) {
        struct place *p = &c->places[i];

        if (p->channel == NULL || p->state == PLACE_STARTING)
            continue;
        if (greets)
            remote_site_greet(p->site);
    }
    if (greets)
        c->greeted_ms = (uint64_t)monotonic_ms();
}

/* ---- what follows, from the loop ---- */

/* The other place that has the fewest workers; NULL: none is up. */
static struct place *another(const struct place *p)
{
    struct cluster *c = p->cluster;
    struct place *best = NULL;

    for (size_t i = 0; i < c->n; i++) {
        struct place *q = &c->places[i];

        if (q != p && (q->state == PLACE_UP || q->state == PLACE_FILLING) &&
            (best == NULL || remote_site_count(q->site) < remote_site_count(best->site)))
            best = q;
    }
    return best;
}

static void give_up(struct place *p)
{
    struct place *to = another(p);
    char name[320], other[320];
    struct err why;

    enter(p, PLACE_GONE);
    if (to != NULL) {
        note(p->cluster, "%s cannot be started again: %s; %s takes its processes",
             name_of(p, name), p->why.msg, name_of(to, other));
        remote_site_move(p->site, to->site, NULL);
        enter(to, PLACE_FILLING);
        return;
    }
    (void)err_set(&why, ERR_AGENT, "no node is left: %s: %s", name_of(p, name),
                  p->why.msg);
    remote_site_move(p->site, NULL, &why);
    remote_site_release(p->site);
}

/* What was launched has ended: the place can be filled again. */
static void after_end(struct place *p)
{
    struct cluster *c = p->cluster;
    char name[320];

    if (c->is_stopping || c->is_opening)
        enter(p, PLACE_GONE);
    else if (p->n_starts >= CLUSTER_MAX_STARTS || c->args.is_in_haste(c->args.ctx)) {
        give_up(p);
    } else {
        note(c, "%s is lost: %s; it is started again", name_of(p, name), p->why.msg);
        start_place(p);
    }
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
    if (p->state != PLACE_STARTING || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        return; /* a launcher may leave the node behind */
    if (WIFSIGNALED(status))
        (void)snprintf(text, sizeof(text), "it was ended by %s",
                       signal_name(WTERMSIG(status), signal));
    else
        (void)snprintf(text, sizeof(text), "it exited with code %d", WEXITSTATUS(status));
    fail_start(p, text);
}

static void look_at(struct place *p)
{
    const uint64_t in_ms = (uint64_t)monotonic_ms() - p->since_ms;

    if (p->ended != NULL)
        channel_close(p->ended);
    p->ended = NULL;
    look_at_program(p);
    switch (p->state) {
    case PLACE_STARTING:
        if (in_ms > CLUSTER_START_MS)
            fail_start(p, "it did not connect in time");
        break;
    case PLACE_FILLING:
        if (!remote_site_is_level(p->site))
            break;
        enter(p, PLACE_UP);
        p->n_starts = 0;
        remote_site_release(p->site);
        break;
    case PLACE_ENDING:
        if (p->program.pid != 0)
            program_kill(&p->program);
        else
            after_end(p);
        break;
    default:
        break;
    }
    /* No other node will come for them. */
    if ((p->state == PLACE_GONE || p->cluster->is_stopping) &&
        remote_site_count_lost(p->site) > 0)
        remote_site_release(p->site);
}

static void turn(struct cluster *c)
{
    for (size_t i = 0; i < c->n; i++) {
        struct place *p = &c->places[i];

        remote_site_deliver(p->site);
        /* The site itself may have given up its node. */
        if (p->channel != NULL && (p->state == PLACE_UP || p->state == PLACE_FILLING) &&
            !remote_site_is_up(p->site))
            lose(p, remote_site_why_lost(p->site));
        look_at(p);
    }
    if (c->has_orphans)
        c->has_orphans = local_site_sweep() > 0;
}

static void on_check(uv_check_t *check)
{
    struct cluster *c = check->data;

    if (!uv_is_active((uv_handle_t *)&c->idle))
        return;
    (void)uv_idle_stop(&c->idle);
    turn(c);
}

static void on_tick(uv_timer_t *timer)
{
    turn(timer->data);
}

/* ---- opening and closing ---- */

static int open_listener(struct cluster *c, struct err *err)
{
    const char *given = c->config->listen;
    const int is_auto = given == NULL || strcmp(given, "auto") == 0;
    const struct listener_options o = {
        .address = !is_auto                                ? given
                   : c->config->launcher == LAUNCHER_LOCAL ? "127.0.0.1"
                                                           : "0.0.0.0",
        .channel = {.encrypt = c->config->encrypt,
                    .silence_ms = (uint64_t)(c->config->silence_s * 1000),
                    .max_bytes = NODE_MAX_MESSAGE_BYTES},
        .find = find_secret,
        .find_ctx = c,
        .callbacks = {.on_ready = on_ready, .on_message = on_message, .on_end = on_end},
        .on_refused = on_refused,
        .refused_ctx = c};
    const int rc = listener_open(&c->listener, c->args.loop, &o, err);

    if (rc < 0)
        return err_wrap(err, "cluster.listen");
    c->address = node_command_address(listener_address(c->listener), &c->arena);
    return 0;
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

/* The first place that could not be started; NULL: none. *ret_is_up: all are. */
static struct place *find_failed(struct cluster *c, int *ret_is_up)
{
    *ret_is_up = 1;
    for (size_t i = 0; i < c->n; i++) {
        if (c->places[i].state == PLACE_ENDING || c->places[i].state == PLACE_GONE)
            return &c->places[i];
        *ret_is_up &= c->places[i].state == PLACE_UP;
    }
    return NULL;
}

static int wait_for_all(struct cluster *c, struct err *err)
{
    struct place *failed = NULL;
    int is_up = 0;
    char name[320];

    while (!is_up) {
        (void)uv_run(c->args.loop, UV_RUN_ONCE);
        failed = find_failed(c, &is_up);
        if (failed != NULL)
            return err_set(err, failed->why.code, "%s: %s", name_of(failed, name),
                           failed->why.msg);
        if (c->args.is_in_haste(c->args.ctx))
            return err_set(err, ERR_INTERRUPTED, "interrupted while the nodes start");
    }
    return 0;
}

static void place_all(struct cluster *c, struct agent_spec *specs, const size_t *node_of,
                      size_t n)
{
    for (size_t i = 0; i < n; i++)
        specs[i].site = remote_site_base(c->places[node_of[i]].site);
}

static void make_places(struct cluster *c)
{
    const struct remote_site_args args = {.roster = &c->roster,
                                          .store = c->args.store,
                                          .silence_ms =
                                              (uint64_t)(c->config->silence_s * 1000),
                                          .on_news = on_news,
                                          .on_waiting = on_waiting,
                                          .ctx = c};

    c->places = xcalloc(c->n, sizeof(*c->places));
    for (size_t i = 0; i < c->n; i++) {
        c->places[i] = (struct place){.cluster = c, .index = i, .log_fd = -1};
        c->places[i].site = remote_site_new(&args);
    }
}

int cluster_open(struct cluster **ret, const struct cluster_args *args,
                 struct agent_spec *specs, size_t n, struct err *err)
{
    struct cluster *c = xcalloc(1, sizeof(*c));
    size_t *node_of = xcalloc(n, sizeof(*node_of));
    int rc;

    *ret = c;
    c->args = *args;
    c->config = &args->config->cluster;
    c->logs = args->logs != NULL ? xstrdup(args->logs) : NULL;
    c->n = (size_t)c->config->nodes;
    (void)signal(SIGPIPE, SIG_IGN);
    make_places(c);
    open_handles(c);
    c->is_opening = 1;
    rc = sweep_enable(err);
    if (rc == 0)
        rc = placement_make(args->config, specs, n, node_of, err);
    if (rc == 0)
        rc = open_listener(c, err);
    for (size_t i = 0; rc == 0 && i < c->n; i++)
        start_place(&c->places[i]);
    if (rc == 0)
        rc = wait_for_all(c, err);
    if (rc == 0)
        place_all(c, specs, node_of, n);
    c->is_opening = 0;
    free(node_of);
    return rc;
}

void cluster_reads(struct cluster *c, const char *agent, const uint8_t *columns,
                   size_t n_columns)
{
    remote_roster_reads(&c->roster, agent, columns, n_columns);
}

void cluster_forget(struct cluster *c, uint64_t row)
{
    for (size_t i = 0; i < c->n; i++)
        remote_site_forget(c->places[i].site, row);
}

void cluster_stop(struct cluster *c)
{
    c->is_stopping = 1;
    news(c);
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
    listener_close(c->listener);
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
                program_kill(&p->program);
            look_at_program(p);
            n_running += p->program.pid != 0;
        }
        if (c->has_orphans)
            c->has_orphans = local_site_sweep() > 0;
        if (n_running > 0 || c->has_orphans)
            (void)poll(NULL, 0, 1);
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
        if (c->places[i].log_fd >= 0)
            (void)close(c->places[i].log_fd);
    }
    free(c->places);
    free(c->roster.links);
    free(c->logs);
    arena_done(&c->arena);
    free(c);
}
