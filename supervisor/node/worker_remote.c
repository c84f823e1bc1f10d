#include "supervisor/node/worker_remote.h"

#include "common/err/check.h"
#include "common/io/tree.h"
#include "common/io/write_all.h"
#include "common/mem/xmalloc.h"
#include "common/msg/protocol.h"
#include "supervisor/node/node_feed.h"
#include "supervisor/node/node_programs.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

/* Of what a node sent and nobody has taken yet: an honest one has an answer of each worker and
 * some notifications under way. */
#define MAX_RECEIVED_BYTES ((size_t)512 << 20)

struct remote_link {
    struct worker_link base; /* first: the table has a pointer to it, cast */
    struct remote_site *site;
    const struct agent_spec *spec;
    uint32_t number;
    uint32_t group, member; /* NODE_NO_GROUP: it shares no memory */
    uint8_t *reads;         /* the log's columns that it reads; NULL: none, or unknown */
    int is_open;            /* the node knows it */
    int has_process;        /* from start to on_exit */
    int is_start_held;      /* its start is among remote_site.held */
    int is_lost;            /* its process was lost with the node: on_exit is due */
    struct {                /* of the block, on its way here in pieces */
        uint8_t *bytes;     /* NULL: none */
        size_t len, have;
        int is_awaited; /* its next piece */
        size_t n_void;  /* pieces of dropped copies, which come before that */
    } copy;
    struct node_sample sample;
    int has_sample, has_news; /* the sample was not reported yet */
};

/* A message that waits to be delivered; or to be sent, behind rows and what was put. */
struct parcel {
    STAILQ_ENTRY(parcel) entry;
    enum node_message_kind kind;
    uint32_t worker;
    uint64_t number;
    size_t len;
    uint8_t data[];
};
STAILQ_HEAD(parcels, parcel);

struct remote_site {
    struct worker_site base; /* first: links have a pointer to it, cast */
    struct remote_site_args args;
    struct channel *channel; /* NULL: there is no node */
    char host[NODE_TEXT_BYTES];
    int same_clock;
    uint64_t generation;
    struct err why_lost;
    struct err why_gone; /* no node will come again; code 0: one may */
    struct node_feed feed;
    struct parcels received, held;
    size_t received_bytes;
    uint64_t passed;       /* the newest of roster.passes that came here */
    const char **programs; /* that the node has: agent_spec.kept, borrowed */
    size_t n_programs;
};

static struct remote_link *remote_of(const struct worker_link *l)
{
    return (struct remote_link *)(uintptr_t)l;
}

/* The link with that number, if it is one of the site's; otherwise NULL. */
static struct remote_link *link_at(const struct remote_site *s, size_t number)
{
    struct remote_link *l =
        number < s->args.roster->n ? s->args.roster->links[number] : NULL;

    return l != NULL && l->site == s ? l : NULL;
}

/* ---- parcels ---- */

static void push(struct parcels *list, enum node_message_kind kind, uint32_t worker,
                 uint64_t number, const void *data, size_t len)
{
    struct parcel *p = xmalloc(sizeof(*p) + len);

    p->kind = kind;
    p->worker = worker;
    p->number = number;
    p->len = len;
    if (len > 0)
        memcpy(p->data, data, len);
    STAILQ_INSERT_TAIL(list, p, entry);
}

static struct parcel *pop(struct parcels *list)
{
    struct parcel *p = STAILQ_FIRST(list);

    if (p != NULL)
        STAILQ_REMOVE_HEAD(list, entry);
    return p;
}

static void drop(struct parcels *list)
{
    struct parcel *p;

    while ((p = pop(list)) != NULL)
        free(p);
}

/* Those of one worker. */
static void drop_of(struct parcels *list, uint32_t worker)
{
    struct parcels all = *list;
    struct parcel *p;

    if (STAILQ_EMPTY(list))
        return;
    STAILQ_INIT(list);
    while ((p = pop(&all)) != NULL) {
        if (p->worker == worker)
            free(p);
        else
            STAILQ_INSERT_TAIL(list, p, entry);
    }
}

/* ---- copies of blocks ---- */

static void forget_copy(struct remote_link *l)
{
    l->copy.n_void += (size_t)l->copy.is_awaited;
    l->copy.is_awaited = 0;
    free(l->copy.bytes);
    l->copy.bytes = NULL;
}

/* ---- the node's end ---- */

void remote_site_lose(struct remote_site *s, const struct err *why)
{
    if (s->channel == NULL)
        return;
    s->channel = NULL;
    s->why_lost = *why;
    drop(&s->received);
    s->received_bytes = 0;
    drop(&s->held);
    node_feed_done(&s->feed);
    s->n_programs = 0;
    for (size_t i = 0; i < s->args.roster->n; i++) {
        struct remote_link *l = link_at(s, i);

        if (l == NULL)
            continue;
        l->is_open = 0;
        l->is_start_held = 0;
        l->has_sample = 0;
        forget_copy(l);
        l->copy.n_void = 0;
        l->base.is_block_lost = l->spec->command == NULL;
        if (!l->has_process)
            continue;
        l->is_lost = l->base.was_lost = 1;
        l->base.is_running = 0;
        l->base.exit_code = -1;
        l->base.signal = SIGKILL;
    }
    s->args.on_news(s->args.ctx);
}

const struct err *remote_site_why_lost(const struct remote_site *s)
{
    return &s->why_lost;
}

/* ---- sending ---- */

static int post(struct remote_site *s, enum node_message_kind kind, uint32_t worker,
                uint64_t number, const void *data, size_t len)
{
    struct err err = {0};

    if (s->channel == NULL)
        return ERR_STATE;
    if (node_send(s->channel, kind, worker, number, data, len, &err) == 0)
        return 0;
    remote_site_lose(s, &err);
    return ERR_STATE;
}

static void feed(struct remote_site *s)
{
    struct err err = {0};

    if (s->channel != NULL && node_feed_send(&s->feed, s->channel, &err) < 0)
        remote_site_lose(s, &err);
}

/* Sends what was held back, as far as it may be sent now. */
static void send_held(struct remote_site *s)
{
    struct parcel *p;

    while (s->channel != NULL && (p = STAILQ_FIRST(&s->held)) != NULL &&
           node_feed_is_level(&s->feed) &&
           (p->kind != NODE_PUT || node_feed_has_room(&s->feed))) {
        (void)pop(&s->held);
        if (p->kind == NODE_PUT)
            node_feed_sent(&s->feed, p->len);
        if (p->kind == NODE_START && s->args.roster->links[p->worker] != NULL)
            s->args.roster->links[p->worker]->is_start_held = 0;
        (void)post(s, p->kind, p->worker, p->number, p->data, p->len);
        free(p);
    }
}

/* Sends what a running process must get at once; but not before its start. */
static int post_now(struct remote_link *l, enum node_message_kind kind, uint64_t number)
{
    if (!l->is_start_held)
        return post(l->site, kind, l->number, number, NULL, 0);
    push(&l->site->held, kind, l->number, number, NULL, 0);
    return 0;
}

void remote_site_feed(struct remote_site *s)
{
    feed(s);
    send_held(s);
}

/* Sends a message behind all that is held back. */
static void post_in_order(struct remote_link *l, enum node_message_kind kind,
                          uint64_t number, const void *data, size_t len)
{
    if (l->site->channel == NULL)
        return;
    push(&l->site->held, kind, l->number, number, data, len);
    remote_site_feed(l->site);
}

void remote_site_part(struct remote_site *s)
{
    (void)post(s, NODE_NOTHING, NODE_NO_WORKER, NODE_PARTING, NULL, 0);
}

void remote_site_forget(struct remote_site *s, uint64_t row)
{
    const struct store_layout *l = store_layout(s->args.store);

    (void)post(s, NODE_FORGET, NODE_NO_WORKER, STORE_HEADER_BYTES + row * l->row_bytes,
               NULL, 0);
}

/* ---- what a node sends ---- */

static int is_in_group(const struct remote_link *l, uint32_t group)
{
    return l != NULL && l->group == group;
}

/* To the other nodes that have processes of the group, once to each, before any frame that
 * follows. */
static void pass_shared_on(const struct remote_site *from, const struct node_message *m)
{
    struct remote_roster *r = from->args.roster;
    struct err err = {0};

    r->passes++;
    for (size_t i = m->worker; i < r->n; i++) { /* the number of its first link */
        struct remote_site *s =
            is_in_group(r->links[i], m->worker) ? r->links[i]->site : NULL;

        if (s == NULL || s == from || s->channel == NULL || s->passed == r->passes)
            continue;
        s->passed = r->passes;
        if (node_feed_pass_on(&s->feed, s->channel, m->worker, m->number, m->body, m->len,
                              &err) < 0)
            remote_site_lose(s, &err);
    }
}

/* A link of the group at this node. */
static const struct remote_link *member_at(const struct remote_site *s, uint32_t group)
{
    for (size_t i = group; i < s->args.roster->n; i++)
        if (is_in_group(link_at(s, i), group))
            return link_at(s, i);
    return NULL;
}

/* The bytes that one of a group's processes wrote, kept for the case that a node is lost. */
static int take_shared(struct remote_site *s, const struct node_message *m,
                       struct err *err)
{
    const struct remote_link *l = member_at(s, m->worker);

    if (l == NULL || m->worker == NODE_NO_GROUP || m->number > BLOCK_CAPACITY_BYTES ||
        m->len > BLOCK_CAPACITY_BYTES - m->number)
        return err_set(err, ERR_PROTOCOL, "it sent bytes of a memory that is not there");
    if (pwrite_all(l->spec->shared_fd, m->body, m->len, m->number) < 0)
        return err_errno(err, "keeping the memory of a group");
    pass_shared_on(s, m);
    return 0;
}

/* A piece of a copy; if it is the last one, the copy is delivered in its turn. */
static int take_copy(struct remote_link *l, const struct node_message *m, struct err *err)
{
    const size_t left = l->copy.len - l->copy.have;
    const size_t n = left < NODE_CHUNK_BYTES ? left : NODE_CHUNK_BYTES;

    if (l->copy.n_void > 0) {
        l->copy.n_void--;
        return 0;
    }
    if (!l->copy.is_awaited || m->number != l->copy.have || m->len != n)
        return err_set(err, ERR_PROTOCOL, "it sent a copy that nobody asked for");
    memcpy(l->copy.bytes + l->copy.have, m->body, n);
    l->copy.have += n;
    l->copy.is_awaited = l->copy.have < l->copy.len;
    if (l->copy.is_awaited)
        return post(l->site, NODE_SNAPSHOT, l->number, l->copy.have, NULL, 0) < 0
                   ? err_pass(err, &l->site->why_lost)
                   : 0;
    push(&l->site->received, NODE_COPY, l->number, 0, NULL, 0);
    l->site->received_bytes += sizeof(struct parcel);
    l->site->args.on_news(l->site->args.ctx);
    return 0;
}

static int take_of_worker(struct remote_site *s, struct remote_link *l,
                          const struct node_message *m, struct err *err)
{
    int rc;

    if (l == NULL)
        return err_set(err, ERR_PROTOCOL, "it sent \"%s\" of a worker that is not there",
                       node_kind_name(m->kind));
    switch (m->kind) {
    case NODE_OUTPUT:
        capture_append(&l->base.capture, (const char *)m->body, m->len);
        return 0;
    case NODE_SAMPLE:
        rc = node_sample_parse(&l->sample, m, err);
        l->has_sample = l->has_news = rc == 0;
        return rc;
    case NODE_COPY:
        return take_copy(l, m, err);
    case NODE_STARTED:
    case NODE_FRAME:
    case NODE_FAILED:
    case NODE_BROKEN:
    case NODE_EXIT:
        s->received_bytes += sizeof(struct parcel) + m->len;
        if (s->received_bytes > MAX_RECEIVED_BYTES)
            return err_set(err, ERR_LIMIT, "it sent more than anybody asked for");
        push(&s->received, m->kind, m->worker, m->number, m->body, m->len);
        s->args.on_news(s->args.ctx);
        return 0;
    default:
        return err_set(err, ERR_PROTOCOL, "it sent \"%s\"", node_kind_name(m->kind));
    }
}

static int worker_remote_take(struct remote_site *s, const uint8_t *data, size_t len,
                              struct err *err)
{
    struct node_message m;
    struct err why;
    int rc = node_message_parse(&m, data, len, err);

    if (rc < 0)
        return rc;
    switch (m.kind) {
    case NODE_SHARED:
        return take_shared(s, &m, err);
    case NODE_LAST:
        rc = node_error_parse(&why, &m, err); /* its own error is why it is lost */
        return rc < 0 ? ERR_PROTOCOL : err_pass(err, &why);
    case NODE_STORED:
        rc = node_feed_stored(&s->feed, m.number, err);
        if (rc == 0) {
            remote_site_feed(s);
            s->args.on_news(s->args.ctx);
        }
        return rc;
    default:
        return take_of_worker(s, link_at(s, m.worker), &m, err);
    }
}

void remote_site_take(struct remote_site *s, const uint8_t *data, size_t len)
{
    struct err err = {0};

    if (s->channel != NULL && worker_remote_take(s, data, len, &err) < 0)
        remote_site_lose(s, &err);
}

/* ---- delivering ---- */

/* "span": an interval of the sender's clock. */
static int is_span(const struct parcel *p)
{
    static const uint8_t span[] = {0x93, 0x02, 0xa4, 's', 'p', 'a', 'n'};

    return p->len > sizeof(span) && memcmp(p->data, span, sizeof(span)) == 0;
}

static void deliver_exit(struct remote_site *s, struct remote_link *l,
                         const struct node_exit *e)
{
    if (!l->has_process)
        return;
    drop_of(&s->held, l->number);
    forget_copy(l);
    l->has_process = l->has_sample = 0;
    l->base.is_running = 0;
    l->base.exit_code = e->exit_code;
    l->base.signal = e->signal;
    l->base.cb->on_exit(l->base.worker);
}

/* One that was dropped after it had come is not delivered. */
static void deliver_copy(struct remote_link *l)
{
    uint8_t *bytes = l->copy.bytes;

    if (bytes == NULL || l->copy.is_awaited)
        return;
    l->copy.bytes = NULL;
    l->base.cb->on_copied(l->base.worker, bytes, l->copy.len);
    free(bytes);
}

static int deliver(struct remote_site *s, const struct parcel *p, struct err *err)
{
    const struct node_message m = {.kind = p->kind, .body = p->data, .len = p->len};
    struct remote_link *l = link_at(s, p->worker);
    struct node_exit exit;
    struct err why;

    if (l == NULL) /* an earlier message made the table close it */
        return 0;
    switch (p->kind) {
    case NODE_STARTED:
        if (!l->has_process || l->base.pid != 0 || p->number == 0 ||
            p->number > INT32_MAX)
            return err_set(err, ERR_PROTOCOL,
                           "it started a process that nobody asked for");
        l->base.pid = (pid_t)p->number;
        l->base.cb->on_started(l->base.worker);
        return 0;
    case NODE_COPY:
        deliver_copy(l);
        return 0;
    case NODE_FRAME:
        if (l->has_process && p->len > 0 && (s->same_clock || !is_span(p)))
            l->base.cb->on_message(l->base.worker, p->data, p->len);
        return 0;
    case NODE_EXIT:
        if (node_exit_parse(&exit, &m, err) < 0)
            return ERR_PROTOCOL;
        deliver_exit(s, l, &exit);
        return 0;
    default:
        if (node_error_parse(&why, &m, err) < 0)
            return ERR_PROTOCOL;
        if (p->kind == NODE_FAILED)
            l->base.cb->on_failed(l->base.worker, &why);
        else if (l->has_process)
            l->base.cb->on_broken(l->base.worker, &why);
        return 0;
    }
}

void remote_site_deliver(struct remote_site *s)
{
    struct parcel *p;
    struct err err = {0};

    while ((p = pop(&s->received)) != NULL) {
        s->received_bytes -= sizeof(*p) + p->len;
        if (deliver(s, p, &err) < 0)
            remote_site_lose(s, &err);
        free(p);
    }
}

void remote_site_release(struct remote_site *s)
{
    for (size_t i = 0; i < s->args.roster->n; i++) {
        struct remote_link *l = link_at(s, i);

        if (l == NULL || !l->is_lost)
            continue;
        l->is_lost = l->has_process = 0;
        l->base.cb->on_exit(l->base.worker);
    }
}

/* ---- the process ---- */

static void remote_close(struct worker_link *base)
{
    struct remote_link *l = remote_of(base);

    l->site->args.roster->links[l->number] = NULL;
    capture_done(&l->base.capture);
    forget_copy(l);
    free(l->reads);
    free(l);
}

/* All but the ps process, which is the last one. */
static uint32_t count_members(const struct remote_link *l)
{
    const struct remote_roster *r = l->site->args.roster;
    uint32_t n = 0;

    for (size_t i = 0; l->group != NODE_NO_GROUP && i < r->n; i++)
        n += r->links[i] != NULL && r->links[i]->group == l->group;
    return n > 0 ? n - 1 : 0;
}

static int remote_open(struct worker_site *site, const struct agent_spec *spec,
                       const struct worker_link_callbacks *cb, void *worker,
                       struct worker_link **ret, struct err *err)
{
    struct remote_site *s = (struct remote_site *)site;
    struct remote_roster *r = s->args.roster;
    struct remote_link *l;
    int rc;

    if (spec->method != NULL || r->n >= NODE_MAX_WORKERS)
        return err_set(err, ERR_UNSUPPORTED, "it cannot run on a node");
    l = xcalloc(1, sizeof(*l));
    l->base = (struct worker_link){.ops = site->ops,
                                   .cb = cb,
                                   .worker = worker,
                                   .exit_code = -1,
                                   .host = s->host,
                                   .capture.log_fd = -1};
    l->site = s;
    l->spec = spec;
    l->number = (uint32_t)r->n;
    r->links = xreallocarray(r->links, r->n + 1, sizeof(struct remote_link *));
    r->links[r->n++] = l;
    /* the group has the number of the first of its links */
    l->group = NODE_NO_GROUP;
    for (size_t i = 0; l->spec->shared_fd > 0 && i < r->n; i++) {
        if (r->links[i] == NULL || r->links[i]->spec->shared_fd != l->spec->shared_fd)
            continue;
        if (l->group == NODE_NO_GROUP)
            l->group = (uint32_t)i;
        if (r->links[i] != l)
            l->member++;
    }
    rc = capture_init(&l->base.capture, spec->log_path, err);
    if (rc < 0) {
        remote_close(&l->base);
        return rc;
    }
    if (l->group != NODE_NO_GROUP)
        node_feed_add_group(&s->feed, l->group, spec->shared_fd);
    *ret = &l->base;
    return 0;
}

/* The files of the agent's program, unless the node has them. Fails if the run has lost them; a
 * channel that fails loses the node. */
static int send_program(struct remote_site *s, const char *kept, struct err *ret)
{
    struct err err = {0};

    for (size_t i = 0; i < s->n_programs; i++)
        if (strcmp(s->programs[i], kept) == 0)
            return 0;
    if (!tree_exists(kept))
        return err_set(ret, ERR_NOT_FOUND, "%s: what the run kept of the program is gone",
                       kept);
    s->programs = xreallocarray(s->programs, s->n_programs + 1, sizeof(*s->programs));
    s->programs[s->n_programs++] = kept;
    if (node_program_send(s->channel, kept, &err) < 0)
        remote_site_lose(s, &err);
    return 0;
}

/* Tells the node of the agent, unless it knows it. */
static int open_there(struct remote_link *l, struct err *err)
{
    struct node_open open = {
        .group = l->group, .member = l->member, .members = count_members(l)};
    struct wbuf b = {0}, command = {0};
    int rc = 0;

    if (l->is_open || l->site->channel == NULL)
        return 0;
    if (l->spec->kept != NULL)
        rc = send_program(l->site, l->spec->kept, err);
    if (rc < 0 || l->site->channel == NULL)
        return rc;
    if (l->spec->command != NULL) {
        wbuf_bytes(&command, l->spec->directory, strlen(l->spec->directory) + 1);
        for (const char *const *word = l->spec->command; *word != NULL; word++) {
            wbuf_bytes(&command, *word, strlen(*word) + 1);
            open.n_words++;
        }
        open.command = (const char *)command.data;
        open.command_bytes = command.len;
        if (l->spec->mode != NULL)
            (void)snprintf(open.mode, sizeof(open.mode), "%s", l->spec->mode);
    }
    (void)snprintf(open.name, sizeof(open.name), "%s", l->spec->name);
    (void)snprintf(open.role, sizeof(open.role), "%s", l->spec->role);
    node_open_pack(&b, &open);
    (void)post(l->site, NODE_OPEN, l->number, 0, b.data, b.len);
    wbuf_done(&b);
    wbuf_done(&command);
    l->is_open = 1;
    return 0;
}

static int remote_start(struct worker_link *base, struct err *err)
{
    struct remote_link *l = remote_of(base);
    const int rc = open_there(l, err);

    if (rc < 0)
        return rc;
    base->pid = 0;
    base->is_running = 0;
    base->was_lost = 0;
    base->exit_code = -1;
    base->signal = 0;
    base->host = l->site->host;
    base->generation = l->site->generation;
    capture_begin(&l->base.capture);
    l->has_process = 1;
    l->has_sample = 0;
    if (l->site->channel == NULL) { /* it is lost before it began */
        l->is_lost = base->was_lost = 1;
        base->signal = SIGKILL;
        l->site->args.on_news(l->site->args.ctx);
        return l->site->why_gone.code < 0 ? err_pass(err, &l->site->why_gone) : 0;
    }
    base->is_running = 1;
    l->is_start_held = 1;
    post_in_order(l, NODE_START, 0, NULL, 0);
    return 0;
}

static int remote_send(struct worker_link *base, const uint8_t *frame, size_t len,
                       int core, struct err *err)
{
    struct remote_link *l = remote_of(base);
    struct remote_site *s = l->site;
    struct channel *const c = s->channel;
    int rc = 0;

    if (!base->is_running || c == NULL)
        return err_set(err, ERR_STATE, "the process is exiting");
    channel_hold(c); /* rows and frame in one write, which wakes the node once */
    feed(s);
    if (s->channel != NULL && (!STAILQ_EMPTY(&s->held) || !node_feed_is_level(&s->feed)))
        push(&s->held, NODE_FRAME, l->number, 0, frame, len);
    else
        rc = post(s, NODE_FRAME, l->number, 0, frame, len);
    channel_release(c);
    return rc < 0 ? err_set(err, ERR_STATE, "the node is lost") : 0;
}

static int remote_signal(struct worker_link *base, int signum)
{
    struct remote_link *l = remote_of(base);

    if (!base->is_running || post_now(l, NODE_SIGNAL, (uint64_t)signum) < 0)
        return UV_ESRCH;
    return 0;
}

static void remote_kill(struct worker_link *base)
{
    struct remote_link *l = remote_of(base);

    if (l->has_process && !l->is_lost)
        (void)post_now(l, NODE_KILL, 0);
}

static void remote_pause(struct worker_link *base, int on)
{
    struct remote_link *l = remote_of(base);

    if (base->is_running)
        (void)post_now(l, NODE_PAUSE, (uint64_t)on);
}

/* ---- the block ---- */

static int is_lost(const struct remote_link *l, struct err *err)
{
    if (!l->base.is_block_lost && l->site->channel != NULL)
        return 0;
    return err_set(err, UV_EAGAIN, "the node is lost");
}

static int remote_hold(struct worker_link *base, uint64_t len_bytes, struct err *err)
{
    struct remote_link *l = remote_of(base);

    if (is_lost(l, err) < 0)
        return UV_EAGAIN;
    (void)post(l->site, NODE_HOLD, l->number, len_bytes, NULL, 0);
    return 0;
}

static int remote_snapshot(struct worker_link *base, void *dst, size_t len_bytes,
                           struct err *err)
{
    struct remote_link *l = remote_of(base);

    forget_copy(l);
    if (is_lost(l, err) < 0)
        return UV_EAGAIN;
    l->copy.bytes = xmalloc(len_bytes + 1);
    l->copy.len = len_bytes;
    l->copy.have = 0;
    l->copy.is_awaited = 1;
    (void)post(l->site, NODE_SNAPSHOT, l->number, 0, NULL, 0);
    return err_set(err, UV_EAGAIN, "its values are on their way");
}

/* In pieces, of which the node has only so much ahead of it. */
static int remote_put(struct worker_link *base, const void *src, size_t len_bytes,
                      struct err *err)
{
    struct remote_link *l = remote_of(base);
    struct wbuf piece = {0};
    size_t at = 0;
    const int rc = open_there(l, err);

    if (rc < 0)
        return rc;
    forget_copy(l);
    base->is_block_lost = l->site->channel == NULL;
    do {
        const size_t left = len_bytes - at;
        const size_t n = left < NODE_CHUNK_BYTES ? left : NODE_CHUNK_BYTES;

        wbuf_clear(&piece);
        wbuf_u64(&piece, len_bytes);
        wbuf_bytes(&piece, (const uint8_t *)src + at, n);
        post_in_order(l, NODE_PUT, at, piece.data, piece.len);
        at += n;
    } while (!base->is_block_lost && at < len_bytes);
    wbuf_done(&piece);
    return 0;
}

static int remote_clear(struct worker_link *base, struct err *err)
{
    struct remote_link *l = remote_of(base);

    forget_copy(l);
    base->is_block_lost = 0; /* another node's is zero, too */
    if (l->is_open)
        post_in_order(l, NODE_CLEAR, 0, NULL, 0);
    return 0;
}

/* ---- watching ---- */

static int64_t remote_memory(struct worker_link *base)
{
    const struct remote_link *l = remote_of(base);

    return base->is_running && l->has_sample ? l->sample.memory_bytes : -1;
}

static void remote_limit_memory(struct worker_link *base, int64_t limit_bytes)
{
    struct remote_link *l = remote_of(base);

    if (base->is_running)
        (void)post_now(l, NODE_LIMIT, (uint64_t)limit_bytes);
}

/* Each sample is reported once: two equal ones must not look like a process that stands. Nor
 * must one whose frame waits here, behind rows. */
static int remote_activity(struct worker_link *base, struct worker_activity *ret)
{
    struct remote_link *l = remote_of(base);

    if (!base->is_running || !l->has_news || !l->sample.has_activity ||
        !STAILQ_EMPTY(&l->site->held))
        return -1;
    l->has_news = 0;
    *ret = (struct worker_activity){.state = l->sample.state,
                                    .ticks = (unsigned long)l->sample.ticks,
                                    .resident_bytes = l->sample.resident_bytes,
                                    .space_limit_bytes = l->sample.space_limit_bytes};
    return 0;
}

static const struct worker_link_ops remote_ops = {.open = remote_open,
                                                  .close = remote_close,
                                                  .start = remote_start,
                                                  .send = remote_send,
                                                  .signal = remote_signal,
                                                  .kill = remote_kill,
                                                  .pause = remote_pause,
                                                  .hold = remote_hold,
                                                  .snapshot = remote_snapshot,
                                                  .put = remote_put,
                                                  .clear = remote_clear,
                                                  .memory = remote_memory,
                                                  .limit_memory = remote_limit_memory,
                                                  .activity = remote_activity};

/* ---- the site ---- */

struct remote_site *remote_site_new(const struct remote_site_args *args)
{
    struct remote_site *s = xcalloc(1, sizeof(*s));

    s->base.ops = &remote_ops;
    s->args = *args;
    STAILQ_INIT(&s->received);
    STAILQ_INIT(&s->held);
    return s;
}

void remote_site_free(struct remote_site *s)
{
    if (s == NULL)
        return;
    CHECK(remote_site_count(s) == 0);
    drop(&s->received);
    drop(&s->held);
    node_feed_done(&s->feed);
    free(s->programs);
    free(s);
}

struct worker_site *remote_site_base(struct remote_site *s)
{
    return &s->base;
}

/* What the node needs for this worker. */
static void add_needs(struct remote_site *s, const struct remote_link *l)
{
    if (l->group != NODE_NO_GROUP)
        node_feed_add_group(&s->feed, l->group, l->spec->shared_fd);
    node_feed_want(&s->feed, l->reads);
}

void remote_roster_reads(struct remote_roster *r, const char *name,
                         const uint8_t *columns, size_t n_columns)
{
    for (size_t i = 0; i < r->n; i++) {
        struct remote_link *l = r->links[i];

        if (l == NULL || strcmp(l->spec->name, name) != 0)
            continue;
        free(l->reads);
        l->reads = xmalloc(n_columns + 1);
        memcpy(l->reads, columns, n_columns);
        add_needs(l->site, l);
        feed(l->site);
    }
}

void remote_site_join(struct remote_site *s, struct channel *c, const char *host,
                      int same_clock, uint64_t generation)
{
    CHECK(s->channel == NULL);
    s->channel = c;
    (void)snprintf(s->host, sizeof(s->host), "%s", host);
    s->same_clock = same_clock;
    s->generation = generation;
    node_feed_init(&s->feed, s->args.store);
    for (size_t i = 0; i < s->args.roster->n; i++) {
        const struct remote_link *l = link_at(s, i);

        if (l != NULL)
            add_needs(s, l);
    }
    feed(s);
}

int remote_site_is_level(const struct remote_site *s)
{
    return s->channel != NULL && node_feed_is_level(&s->feed);
}

int remote_site_is_up(const struct remote_site *s)
{
    return s->channel != NULL;
}

size_t remote_site_count(const struct remote_site *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->args.roster->n; i++)
        n += link_at(s, i) != NULL;
    return n;
}

size_t remote_site_count_lost(const struct remote_site *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->args.roster->n; i++) {
        const struct remote_link *l = link_at(s, i);

        n += l != NULL && l->is_lost;
    }
    return n;
}

void remote_site_move(struct remote_site *s, struct remote_site *to,
                      const struct err *why)
{
    if (to == NULL) {
        s->why_gone = *why;
        return;
    }
    for (size_t i = 0; i < s->args.roster->n; i++) {
        struct remote_link *l = link_at(s, i);

        if (l == NULL)
            continue;
        l->site = to;
        add_needs(to, l);
    }
    feed(to);
}
