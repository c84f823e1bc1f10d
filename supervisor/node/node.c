#include "supervisor/node/node.h"

#include "common/err/check.h"
#include "common/io/monotonic.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "common/numerics/numerics.h"
#include "common/text/scan.h"
#include "supervisor/chan/event_loop.h"
#include "supervisor/net/listener.h"
#include "supervisor/node/node_files.h"
#include "supervisor/node/node_programs.h"
#include "supervisor/node/node_worker.h"
#include "supervisor/node/slurm.h"
#include "supervisor/proc/binaries.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    SAMPLE_MS = 100,
    REPORT_BYTES = 1 << 20, /* far below NODE_FEED_AHEAD_BYTES */
    EXPECTED_WORKERS = 64,  /* for the limit on open files */
    TRY_FOR_MS = 60000,     /* to get through a crowd at the supervisor's door */
    AGAIN_MS = 50,          /* until the second try; each time twice as long */
    AGAIN_MAX_MS = 2000,
    SECRET_BYTES = CHANNEL_ID_BYTES + CHANNEL_KEY_BYTES,
};

struct node {
    const struct node_args *args;
    uv_loop_t loop;
    struct binaries binaries;
    int exe_fd;
    struct node_files files;
    struct node_programs programs;
    struct node_workers workers;
    const struct channel_secret *secret;
    struct addrinfo *addresses, *at; /* of the supervisor; the one that is being tried */
    struct channel *channel;
    uv_timer_t sample, deadline;
    uv_timer_t again; /* until the next try to connect */
    uint64_t first_try_ms;
    unsigned n_tries;
    uv_signal_t signals[3];
    uv_poll_t keeper;      /* data NULL: there is none */
    uint64_t stored_bytes; /* not reported yet */
    int is_ready;          /* the supervisor has the key, too */
    int is_parting;        /* the run ends */
    int is_ending, is_closing;
    struct err why; /* code 0: an orderly end */
};

/* ---- the key ---- */

static int decode_hex(const char *text, uint8_t ret[SECRET_BYTES])
{
    for (size_t i = 0; i < SECRET_BYTES; i++) {
        const int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return -1;
        ret[i] = (uint8_t)(high << 4 | low);
    }
    return 0;
}

int node_read_secret(int fd, struct channel_secret *ret,
                     struct node_identity *ret_identity, struct err *err)
{
    char text[2 * SECRET_BYTES + NODE_IDENTITY_BYTES + 2];
    uint8_t raw[SECRET_BYTES];
    const char *rest = text + (size_t)2 * SECRET_BYTES;
    size_t len = 0;
    ssize_t n = 1;
    int rc = 0;

    while (n > 0 && len < sizeof(text) - 1 && memchr(text, '\n', len) == NULL) {
        n = read(fd, text + len, sizeof(text) - 1 - len);
        if (n < 0 && errno == EINTR)
            n = 1;
        else if (n < 0)
            return err_errno(err, "reading the key from standard input");
        else
            len += (size_t)n;
    }
    text[len] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (strlen(text) < (size_t)2 * SECRET_BYTES || decode_hex(text, raw) < 0)
        return err_set(err, ERR_FORMAT,
                       "no key on standard input: this command is started by a launcher "
                       "(see cluster.launcher)");
    memcpy(ret->id, raw, CHANNEL_ID_BYTES);
    memcpy(ret->key, raw + CHANNEL_ID_BYTES, CHANNEL_KEY_BYTES);
    *ret_identity = (struct node_identity){0};
    if (rest[0] == ' ')
        rc = node_identity_parse(ret_identity, rest + 1, err);
    else if (rest[0] != '\0')
        rc = err_set(err, ERR_FORMAT, "more than a key on standard input");
    explicit_bzero(raw, sizeof(raw));
    explicit_bzero(text, sizeof(text));
    return rc;
}

/* ---- the end ---- */

/* If the srun of a job was killed, the job would last until its time limit. */
static void cancel_job(const struct node *n)
{
    if (n->args->cancels_job && !n->is_parting)
        slurm_cancel_own_job(n->why.code < 0 ? n->why.msg : "the connection has ended");
}

static void on_site_closed(void *ctx)
{
    struct node *n = ctx;

    uv_close((uv_handle_t *)&n->sample, NULL);
    uv_close((uv_handle_t *)&n->deadline, NULL);
    uv_close((uv_handle_t *)&n->again, NULL);
    if (n->keeper.data != NULL)
        uv_close((uv_handle_t *)&n->keeper, NULL);
    for (size_t i = 0; i < sizeof(n->signals) / sizeof(n->signals[0]); i++)
        uv_close((uv_handle_t *)&n->signals[i], NULL);
}

/* What comes now is read and dropped: bytes that nobody reads would reset the connection, and
 * with it the last message. */
static void close_if_none(void *ctx)
{
    struct node *n = ctx;

    if (!n->is_ending || n->is_closing || n->workers.n_running > 0 || n->channel != NULL)
        return;
    n->is_closing = 1;
    local_site_close(n->workers.site, on_site_closed, n);
}

/* Processes that do not end in time are those that the kernel cannot end; their parent-death
 * signal is set. */
static void on_deadline(uv_timer_t *timer)
{
    struct node *n = timer->data;

    local_site_end();
    cancel_job(n);
    _exit(n->why.code < 0);
}

static void post(struct node *n, enum node_message_kind kind, uint64_t number,
                 const void *data, size_t len)
{
    (void)node_send(n->channel, kind, NODE_NO_WORKER, number, data, len, NULL);
}

static void close_channel(struct node *n)
{
    channel_close(n->channel);
    n->channel = NULL;
}

/* An error of the node's own is sent; then the supervisor ends the connection, or the deadline
 * does. */
static void end(struct node *n, const struct err *why)
{
    if (n->is_ending)
        return;
    n->is_ending = 1;
    n->why = *why;
    n->workers.channel = NULL;
    if (why->code < 0 && n->is_ready && n->channel != NULL) {
        struct wbuf b = {0};

        node_error_pack(&b, &n->why);
        post(n, NODE_LAST, 0, b.data, b.len);
        wbuf_done(&b);
    } else
        close_channel(n);
    (void)uv_timer_stop(&n->sample);
    (void)uv_timer_stop(&n->again);
    (void)uv_timer_start(&n->deadline, on_deadline, NODE_END_MS, 0);
    node_workers_kill(&n->workers);
    close_if_none(n);
}

static void on_signal(uv_signal_t *handle, int signum)
{
    const struct err none = {0};

    log_info("signal %d: the node ends", signum);
    end(handle->data, &none);
}

static void on_keeper(uv_poll_t *poll, int status, int events)
{
    struct node *n = poll->data;
    struct err err;

    (void)uv_poll_stop(poll);
    (void)err_set(&err, ERR_STATE, "its keeper has died");
    end(n, &err);
}

/* ---- messages ---- */

static void on_ready(void *ctx, struct channel *c)
{
    struct node *n = ctx;
    struct node_hello hello = {.protocol = NODE_PROTOCOL_VERSION,
                               .numerics = NUMERICS_VERSION,
                               .pid = (uint32_t)getpid(),
                               .cores = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN),
                               .memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) *
                                               (uint64_t)sysconf(_SC_PAGESIZE),
                               .identity = n->args->identity};
    struct wbuf b = {0};

    n->is_ready = 1;
    (void)snprintf(hello.build_id, sizeof(hello.build_id), "%s", n->binaries.build_id);
    (void)snprintf(hello.version, sizeof(hello.version), "%s", n->args->version);
    (void)gethostname(hello.host, sizeof(hello.host) - 1);
    node_boot_id(hello.boot);
    node_hello_pack(&b, &hello);
    post(n, NODE_HELLO, 0, b.data, b.len);
    wbuf_done(&b);
}

/* So much of what the supervisor sends ahead has been taken. */
static void note_stored(struct node *n, size_t bytes)
{
    n->stored_bytes += bytes;
    if (n->stored_bytes < REPORT_BYTES)
        return;
    post(n, NODE_STORED, n->stored_bytes, NULL, 0);
    n->stored_bytes = 0;
}

static int take_file(struct node *n, const struct node_message *m, struct err *err)
{
    int rc;

    switch (m->kind) {
    case NODE_HEADER:
        rc = node_files_header(&n->files, m->body, m->len, err);
        break;
    case NODE_ROWS:
        rc = node_files_rows(&n->files, m, err);
        break;
    default:
        rc = node_files_shared(&n->files, m->worker, m->number, m->body, m->len, err);
        break;
    }
    if (rc == 0)
        note_stored(n, m->len);
    return rc;
}

static int node_take(struct node *n, const uint8_t *data, size_t len, struct err *err)
{
    struct node_message m;
    int rc = node_message_parse(&m, data, len, err);

    if (rc < 0)
        return rc;
    switch (m.kind) {
    case NODE_HEADER:
    case NODE_ROWS:
    case NODE_SHARED:
        return take_file(n, &m, err);
    case NODE_COLUMNS:
        return node_files_columns(&n->files, &m, err);
    case NODE_PROGRAM:
        return node_programs_take(&n->programs, &m, err);
    case NODE_FORGET:
        return node_files_forget(&n->files, m.number, err);
    case NODE_NOTHING:
        n->is_parting |= m.number == NODE_PARTING;
        return 0;
    default:
        rc = node_workers_take(&n->workers, &m, err);
        if (rc == 0 && m.kind == NODE_PUT)
            note_stored(n, m.len);
        return rc;
    }
}

static void on_message(void *ctx, struct channel *c, const uint8_t *data, size_t len)
{
    struct node *n = ctx;
    struct err err = {0};

    if (!n->is_ending && node_take(n, data, len, &err) < 0)
        end(n, &err);
}

/* ---- connecting ---- */

static void on_again(uv_timer_t *timer);

/* The supervisor has many connections to choose from, and has dropped this one. The pause has a
 * random length, so that nodes which were dropped together do not come again together. */
static int may_try_again(struct node *n)
{
    const uint64_t gone_ms = (uint64_t)monotonic_ms() - n->first_try_ms;
    uint32_t pause_ms = AGAIN_MAX_MS, random = 0;

    if (n->is_ready || n->is_ending || gone_ms > TRY_FOR_MS)
        return 0;
    if (n->n_tries < 8 && (AGAIN_MS << n->n_tries) < AGAIN_MAX_MS)
        pause_ms = (uint32_t)AGAIN_MS << n->n_tries;
    (void)getrandom(&random, sizeof(random), 0);
    n->n_tries++;
    (void)uv_timer_start(&n->again, on_again, pause_ms / 2 + random % (pause_ms / 2 + 1),
                         0);
    return 1;
}

/* Whether the end of a handshake says nothing about the key: neither side has refused it. */
static int was_dropped(const struct err *why)
{
    return why->code == 0 || why->code == UV_ECONNRESET || why->code == UV_EPIPE ||
           why->code == UV_ETIMEDOUT;
}

static void try_to_connect(struct node *n);

/* This try was in vain: tries again, or the next address, or ends the node. */
static void take_failure(struct node *n, const struct err *why)
{
    /* Somebody listens there. */
    const int is_open = was_dropped(why) && why->code != UV_ETIMEDOUT;
    const char *address = n->args->address;
    struct err text;

    if (!is_open && why->code != ERR_NOT_FOUND && n->at->ai_next != NULL) {
        n->at = n->at->ai_next;
        try_to_connect(n);
        return;
    }
    if (was_dropped(why) && may_try_again(n)) {
        n->at = is_open ? n->at : n->addresses;
        return;
    }
    text = *why; /* why there is no connection, for people */
    if (why->code == ERR_NOT_FOUND)
        (void)err_set(&text, ERR_STATE, "the supervisor at %s refused the key", address);
    else if (is_open)
        (void)err_set(&text, ERR_STATE,
                      "the supervisor at %s ended the connection before it was ready",
                      address);
    else
        (void)err_wrap(&text, "connecting to %s", address);
    end(n, &text);
}

static void on_end(void *ctx, struct channel *c, const struct err *why)
{
    struct node *n = ctx;

    close_channel(n);
    n->workers.channel = NULL;
    if (!n->is_ready && !n->is_ending)
        take_failure(n, why);
    else
        end(n, why);
    close_if_none(n);
}

static void on_sample(uv_timer_t *timer)
{
    struct node *n = timer->data;

    node_workers_sample(&n->workers);
}

/* ---- beginning ---- */

static int prepare(struct node *n, struct err *err)
{
    char generation[32];
    int rc;

    (void)snprintf(generation, sizeof(generation), "%" PRIu64,
                   n->args->identity.generation);
    (void)setenv(NODE_GENERATION_VARIABLE, generation, 1);
    n->workers.generation = n->args->identity.generation;

    if ((rc = binaries_find(&n->binaries, err)) < 0 ||
        (rc = n->exe_fd = binaries_open_agent(&n->binaries, err)) < 0 ||
        (rc = node_files_init(&n->files, err)) < 0)
        return rc;
    return local_site_new(&n->workers.site, &n->loop, n->exe_fd, n->files.log_read_fd,
                          EXPECTED_WORKERS, err);
}

static void try_to_connect(struct node *n)
{
    const struct channel_options options = {.encrypt = n->args->encrypt,
                                            .silence_ms = n->args->silence_ms,
                                            .max_bytes = NODE_MAX_MESSAGE_BYTES};
    const struct channel_callbacks cb = {
        .on_ready = on_ready, .on_message = on_message, .on_end = on_end, .ctx = n};
    struct err err = {0};
    const int fd = net_connect(n->at, &err);

    if (fd < 0 ||
        channel_open(&n->channel, &n->loop, fd, n->secret, &options, &cb, &err) < 0)
        take_failure(n, &err);
    else
        n->workers.channel = n->channel;
}

static void on_again(uv_timer_t *timer)
{
    try_to_connect(timer->data);
}

static void open_handles(struct node *n)
{
    static const int ends[] = {SIGTERM, SIGINT, SIGHUP};

    local_site_open(n->workers.site);
    (void)uv_timer_init(&n->loop, &n->sample);
    (void)uv_timer_init(&n->loop, &n->deadline);
    (void)uv_timer_init(&n->loop, &n->again);
    n->sample.data = n->deadline.data = n->again.data = n;
    (void)uv_timer_start(&n->sample, on_sample, SAMPLE_MS, SAMPLE_MS);
    if (n->args->keeper_fd >= 0) {
        (void)uv_poll_init(&n->loop, &n->keeper, n->args->keeper_fd);
        n->keeper.data = n;
        (void)uv_poll_start(&n->keeper, UV_READABLE | UV_DISCONNECT, on_keeper);
    }
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        (void)uv_signal_init(&n->loop, &n->signals[i]);
        n->signals[i].data = n;
        (void)uv_signal_start(&n->signals[i], on_signal, ends[i]);
    }
}

int node_run(const struct node_args *args, const struct channel_secret *secret,
             struct err *err)
{
    struct node *n = xcalloc(1, sizeof(*n));
    int rc = event_loop_open(&n->loop, err);

    if (rc < 0) {
        free(n);
        return rc;
    }
    n->args = args;
    n->secret = secret;
    n->first_try_ms = (uint64_t)monotonic_ms();
    n->exe_fd = -1;
    n->files = NODE_FILES_NONE;
    n->programs = NODE_PROGRAMS_NONE;
    n->workers = (struct node_workers){
        .loop = &n->loop, .files = &n->files, .on_none = close_if_none, .ctx = n};
    rc = net_resolve(args->address, 0, &n->addresses, err);
    n->at = n->addresses;
    if (rc == 0)
        rc = prepare(n, err);
    if (rc == 0) {
        open_handles(n);
        try_to_connect(n);
        (void)uv_run(&n->loop, UV_RUN_DEFAULT);
        rc = n->why.code;
        if (rc < 0)
            (void)err_pass(err, &n->why);
    }
    local_site_end();
    if (n->is_ready)
        cancel_job(n);
    node_workers_done(&n->workers);
    local_site_free(n->workers.site);
    node_files_done(&n->files);
    node_programs_done(&n->programs);
    if (n->addresses != NULL)
        freeaddrinfo(n->addresses);
    if (n->exe_fd >= 0)
        (void)close(n->exe_fd);
    (void)uv_loop_close(&n->loop);
    free(n);
    return rc;
}
