#include "supervisor/node/node_worker.h"

#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "common/msg/msg.h"
#include "common/msg/protocol.h"
#include "common/store/share_ring.h"
#include "supervisor/proc/capture.h"
#include "supervisor/proc/proc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a process may write to its log through the network; then only its last lines count. */
#define OUTPUT_MAX_BYTES CAPTURE_FILE_MAX_BYTES

enum {
    SHARED_PIECE_BYTES = 1 << 20,
    SHARED_QUEUED_BYTES = 64 << 20, /* far below CHANNEL_MAX_QUEUED_BYTES */
};

struct node_worker {
    struct node_workers *all;
    uint32_t number;
    struct node_open open; /* without its command */
    char *command;         /* the bytes of that */
    const char *words[PROC_MAX_COMMAND + 1];
    struct agent_spec spec;
    struct worker_link *link;
    int has_process;
    int has_length; /* of the block */
    uint64_t block_bytes, sent_bytes;
    struct wbuf piece; /* a block that comes, or goes, in several pieces */
    uint64_t elements; /* of its group's vectors; 0: not known yet */
    uint64_t slot;     /* of the pending request */
    int has_slot;
    struct wbuf sent; /* the vector that was sent last, of sent_slot; empty: none */
    uint64_t sent_slot;
    struct msg in;
};

/* If it cannot be sent, the channel has ended, or ends by that: then nothing that follows is
 * sent, either. */
static void post(struct node_workers *all, enum node_message_kind kind, uint32_t number,
                 uint64_t value, const void *data, size_t len)
{
    if (all->channel != NULL)
        (void)node_send(all->channel, kind, number, value, data, len, NULL);
}

static void post_buf(struct node_worker *w, enum node_message_kind kind, uint64_t value,
                     struct wbuf *b)
{
    post(w->all, kind, w->number, value, b->data, b->len);
    wbuf_done(b);
}

static void post_error(struct node_worker *w, enum node_message_kind kind,
                       const struct err *why)
{
    struct wbuf b = {0};

    node_error_pack(&b, why);
    post_buf(w, kind, 0, &b);
}

/* ---- the memory of a group ---- */

static void note_request(struct node_worker *w, const uint8_t *frame, size_t len)
{
    w->has_slot = 0;
    if (w->open.group == NODE_NO_GROUP || len < FRAME_HEADER_BYTES ||
        msg_reparse(&w->in, frame + FRAME_HEADER_BYTES, len - FRAME_HEADER_BYTES, NULL) <
            0 ||
        w->in.type != MSG_REQUEST || msg_get(&w->in.body, "slot") == NULL)
        return;
    w->has_slot = msg_get_u64(&w->in.body, "slot", UINT64_MAX, &w->slot, NULL) == 0;
}

static void note_elements(struct node_worker *w, const uint8_t *data, size_t len)
{
    const msgpack_object *shared;

    if (msg_reparse(&w->in, data, len, NULL) < 0 || w->in.type != MSG_RESPONSE ||
        w->in.error.code != 0 || (shared = msg_get(&w->in.body, "shared")) == NULL)
        return;
    (void)msg_get_u64(shared, "elements", UINT64_MAX, &w->elements, NULL);
}

/* A step may write a vector in several parts, under one header: the pieces that differ from those
 * that were sent. */
static void send_vector(struct node_worker *w, size_t offset, size_t len)
{
    const int is_new = w->sent.len != len || w->sent_slot != w->slot;
    struct wbuf *piece = &w->all->piece;

    wbuf_clear(piece);
    wbuf_reserve(piece, SHARED_PIECE_BYTES);
    if (w->sent.len != len) {
        wbuf_clear(&w->sent);
        wbuf_reserve(&w->sent, len);
        w->sent.len = len;
    }
    w->sent_slot = w->slot;
    for (size_t at = 0; at < len; at += SHARED_PIECE_BYTES) {
        const size_t n = len - at < SHARED_PIECE_BYTES ? len - at : SHARED_PIECE_BYTES;

        /* Vectors may be longer than the channel's queue. What the supervisor sends meanwhile is
         * handled: nothing to the worker whose answer it awaits, but for a signal. */
        if (w->all->channel != NULL)
            (void)channel_drain(w->all->channel, SHARED_QUEUED_BYTES);
        if (pread(w->spec.shared_fd, piece->data, n, (off_t)(offset + at)) != (ssize_t)n)
            break;
        if (!is_new && memcmp(w->sent.data + at, piece->data, n) == 0)
            continue;
        memcpy(w->sent.data + at, piece->data, n);
        post(w->all, NODE_SHARED, w->open.group, offset + at, piece->data, n);
    }
}

/* Its vector of the request's slot. */
static void send_shared(struct node_worker *w)
{
    struct share_ring ring;

    if (!w->has_slot || w->elements == 0 || w->open.members == 0 ||
        share_ring_init(&ring, w->open.members, w->elements, NULL) < 0 ||
        w->slot >= ring.slots)
        return;
    send_vector(w, share_ring_offset(&ring, w->slot, w->open.member), ring.vector_bytes);
}

/* ---- callbacks of the link ---- */

static void on_message(void *worker, const uint8_t *data, size_t len)
{
    struct node_worker *w = worker;

    if (w->open.group != NODE_NO_GROUP && w->elements == 0)
        note_elements(w, data, len);
    send_shared(w);
    /* before the answer is sent: what a supervisor has taken is in the log of some node */
    if (log_get_level() >= LOG_LEVEL_DEBUG && msg_reparse(&w->in, data, len, NULL) >= 0 &&
        w->in.type == MSG_RESPONSE)
        log_debug("from %s: the answer, request %" PRIu32 ", generation %" PRIu64,
                  w->open.name, w->in.id, w->all->generation);
    post(w->all, NODE_FRAME, w->number, 0, data, len);
}

static void on_broken(void *worker, const struct err *why)
{
    struct node_worker *w = worker;
    post_error(w, NODE_BROKEN, why);
}

/* If it has written so much that its output is not sent any more. */
static void send_last_lines(struct node_worker *w)
{
    char lines[AGENT_LAST_LINES_BYTES + 1] = "";

    if (w->sent_bytes < OUTPUT_MAX_BYTES)
        return;
    capture_last_lines(&w->link->capture, lines, AGENT_LAST_LINES_BYTES);
    if (lines[0] == '\0')
        return;
    strcat(lines, "\n");
    post(w->all, NODE_OUTPUT, w->number, 0, lines, strlen(lines));
}

static void on_exit_of(void *worker)
{
    struct node_worker *w = worker;
    const struct node_exit e = {.exit_code = w->link->exit_code,
                                .signal = w->link->signal,
                                .had_process = w->link->pid != 0};
    struct wbuf b = {0};

    w->has_process = 0;
    w->has_slot = 0;
    w->all->n_running--;
    send_last_lines(w);
    node_exit_pack(&b, &e);
    post_buf(w, NODE_EXIT, 0, &b);
    if (w->all->n_running == 0)
        w->all->on_none(w->all->ctx);
}

static const struct worker_link_callbacks callbacks = {
    .on_message = on_message, .on_broken = on_broken, .on_exit = on_exit_of};

static void on_output(void *ctx, const char *text, size_t len)
{
    struct node_worker *w = ctx;

    if (w->sent_bytes < OUTPUT_MAX_BYTES)
        post(w->all, NODE_OUTPUT, w->number, 0, text, len);
    w->sent_bytes += len;
}

/* ---- what the supervisor asks ---- */

static void free_worker(struct node_worker *w)
{
    msg_done(&w->in);
    wbuf_done(&w->piece);
    wbuf_done(&w->sent);
    free(w->command);
    free(w);
}

static int open_worker(struct node_workers *all, const struct node_message *m,
                       struct err *err)
{
    struct worker_site *site = local_site_base(all->site);
    struct node_worker *w;
    struct node_open open;
    int rc = node_open_parse(&open, m, err);

    if (rc < 0)
        return rc;
    if (m->worker == NODE_NO_WORKER || (m->worker < all->n && all->list[m->worker]))
        return err_set(err, ERR_PROTOCOL, "worker %u is open already", m->worker);
    if (m->worker >= all->n) {
        all->list = xreallocarray(all->list, m->worker + (size_t)1, sizeof(*all->list));
        while (all->n <= m->worker)
            all->list[all->n++] = NULL;
    }
    w = xcalloc(1, sizeof(*w));
    w->all = all;
    w->number = m->worker;
    w->open = open;
    w->spec = (struct agent_spec){.name = w->open.name,
                                  .role = w->open.role,
                                  .on_output = on_output,
                                  .output_ctx = w};
    if (open.n_words > 0) {
        const char *at = w->command = xmalloc(w->open.command_bytes);

        /* of an environment process */
        memcpy(w->command, w->open.command, w->open.command_bytes);
        w->spec.directory = at;
        for (uint32_t i = 0; i < w->open.n_words; i++)
            w->words[i] = at += strlen(at) + 1;
        w->spec.command = w->words;
        w->spec.mode = w->open.mode[0] != '\0' ? w->open.mode : NULL;
    }
    w->open.command = NULL;
    if (open.group != NODE_NO_GROUP) {
        rc = node_files_group(all->files, open.group, err);
        w->spec.shared_fd = rc;
    }
    if (rc >= 0)
        rc = site->ops->open(site, &w->spec, &callbacks, w, &w->link, err);
    if (rc < 0) {
        free_worker(w);
        return rc;
    }
    all->list[m->worker] = w;
    return 0;
}

static int do_start(struct node_worker *w, struct err *err)
{
    int rc;

    if (w->has_process)
        return err_set(err, ERR_STATE, "its process runs already");
    w->has_process = 1;
    w->all->n_running++;
    wbuf_clear(&w->sent);
    rc = w->link->ops->start(w->link, err);
    if (rc == 0)
        post(w->all, NODE_STARTED, w->number, (uint64_t)w->link->pid, NULL, 0);
    return rc;
}

static int do_hold(struct node_worker *w, const struct node_message *m, struct err *err)
{
    int rc;

    if (w->has_length)
        return err_set(err, ERR_STATE, "its block has a length already");
    rc = w->link->ops->hold(w->link, m->number, err);
    if (rc == 0) {
        w->has_length = 1;
        w->block_bytes = m->number;
    }
    return rc;
}

/* At offset 0 a new copy is made; it is kept until its last piece was sent. */
static int do_snapshot(struct node_worker *w, const struct node_message *m,
                       struct err *err)
{
    const uint64_t at = m->number;
    size_t n;
    int rc = 0;

    if (!w->has_length || at > w->block_bytes || (at > 0 && w->piece.len == 0))
        return err_set(err, ERR_STATE, "there is no such part of a snapshot");
    if (at == 0) {
        wbuf_clear(&w->piece);
        wbuf_reserve(&w->piece, (size_t)w->block_bytes);
        rc = w->link->ops->snapshot(w->link, w->piece.data, (size_t)w->block_bytes, err);
        w->piece.len = (size_t)w->block_bytes;
    }
    if (rc < 0)
        return rc;
    n = w->piece.len - (size_t)at;
    n = n < NODE_CHUNK_BYTES ? n : NODE_CHUNK_BYTES;
    post(w->all, NODE_COPY, w->number, at, w->piece.data + at, n);
    if (at + n == w->piece.len)
        wbuf_clear(&w->piece);
    return 0;
}

static int do_put(struct node_worker *w, const struct node_message *m, struct err *err)
{
    struct cursor c = cursor_of(m->body, m->len);
    const uint64_t whole = cursor_u64(&c);
    int rc;

    if (m->number == 0)
        wbuf_clear(&w->piece);
    if (c.failed || m->number != w->piece.len || whole > BLOCK_CAPACITY_BYTES ||
        cursor_left(&c) > whole - w->piece.len ||
        (w->has_length && whole != w->block_bytes))
        return err_set(err, ERR_STATE, "there is no such part of its block");
    wbuf_bytes(&w->piece, c.p, cursor_left(&c));
    if (w->piece.len < whole)
        return 0;
    rc = w->link->ops->put(w->link, w->piece.data, w->piece.len, err);
    wbuf_clear(&w->piece);
    w->has_length = 1;
    w->block_bytes = whole;
    return rc;
}

static int do_clear(struct node_worker *w, struct err *err)
{
    if (w->has_process)
        return err_set(err, ERR_STATE, "its process runs");
    w->has_length = 0;
    return w->link->ops->clear(w->link, err);
}

/* A process that is exiting takes no more frames; its exit follows. */
static void pass_frame(struct node_worker *w, const struct node_message *m)
{
    struct err err = {0};
    int rc;

    if (!w->has_process)
        return;
    note_request(w, m->body, m->len);
    rc = w->link->ops->send(w->link, m->body, m->len, -1, &err);
    if (rc < 0 && rc != ERR_STATE && rc != UV_EPIPE && rc != UV_ECONNRESET)
        on_broken(w, &err);
}

int node_workers_take(struct node_workers *all, const struct node_message *m,
                      struct err *err)
{
    struct node_worker *w;
    struct err why = {0};
    int rc = 0;

    if (m->kind == NODE_OPEN)
        return open_worker(all, m, err);
    w = m->worker < all->n ? all->list[m->worker] : NULL;
    if (w == NULL)
        return err_set(err, ERR_PROTOCOL, "\"%s\" of worker %u, which is not open",
                       node_kind_name(m->kind), m->worker);
    switch (m->kind) {
    case NODE_START:
        rc = do_start(w, &why);
        break;
    case NODE_HOLD:
        rc = do_hold(w, m, &why);
        break;
    case NODE_SNAPSHOT:
        rc = do_snapshot(w, m, &why);
        break;
    case NODE_PUT:
        rc = do_put(w, m, &why);
        break;
    case NODE_CLEAR:
        rc = do_clear(w, &why);
        break;
    case NODE_FRAME:
        pass_frame(w, m);
        break;
    case NODE_SIGNAL:
        if (w->has_process && m->number <= 64)
            (void)w->link->ops->signal(w->link, (int)m->number);
        break;
    case NODE_KILL:
        if (w->has_process)
            w->link->ops->kill(w->link);
        break;
    case NODE_PAUSE:
        if (w->has_process)
            w->link->ops->pause(w->link, m->number != 0);
        break;
    case NODE_LIMIT:
        if (m->number <= INT64_MAX / 4)
            w->link->ops->limit_memory(w->link, (int64_t)m->number);
        break;
    default:
        return err_set(err, ERR_PROTOCOL, "\"%s\"", node_kind_name(m->kind));
    }
    if (rc < 0)
        post_error(w, NODE_FAILED, &why);
    return 0;
}

void node_workers_sample(struct node_workers *all)
{
    for (size_t i = 0; i < all->n; i++) {
        struct node_worker *w = all->list[i];
        struct worker_activity now = {0};
        struct node_sample s;
        struct wbuf b = {0};

        if (w == NULL || !w->has_process || !w->link->is_running)
            continue;
        s = (struct node_sample){.memory_bytes = w->link->ops->memory(w->link)};
        s.has_activity = w->link->ops->activity(w->link, &now) == 0;
        s.state = now.state;
        s.ticks = now.ticks;
        s.resident_bytes = now.resident_bytes;
        s.space_limit_bytes = now.space_limit_bytes;
        node_sample_pack(&b, &s);
        post_buf(w, NODE_SAMPLE, 0, &b);
    }
}

void node_workers_kill(struct node_workers *all)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->list[i] != NULL && all->list[i]->has_process)
            all->list[i]->link->ops->kill(all->list[i]->link);
}

void node_workers_done(struct node_workers *all)
{
    for (size_t i = 0; i < all->n; i++) {
        struct node_worker *w = all->list[i];

        if (w == NULL)
            continue;
        w->link->ops->close(w->link);
        free_worker(w);
    }
    free(all->list);
    wbuf_done(&all->piece);
    all->list = NULL;
    all->n = 0;
}
