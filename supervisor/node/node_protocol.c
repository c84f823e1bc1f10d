#include "supervisor/node/node_protocol.h"

#include "supervisor/proc/proc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[NODE_KIND_COUNT] = {
    [NODE_OPEN] = "open",         [NODE_START] = "start",     [NODE_HOLD] = "hold",
    [NODE_SNAPSHOT] = "snapshot", [NODE_PUT] = "put",         [NODE_CLEAR] = "clear",
    [NODE_FRAME] = "frame",       [NODE_SIGNAL] = "signal",   [NODE_KILL] = "kill",
    [NODE_PAUSE] = "pause",       [NODE_LIMIT] = "limit",     [NODE_HEADER] = "header",
    [NODE_ROWS] = "rows",         [NODE_FORGET] = "forget",   [NODE_SHARED] = "shared",
    [NODE_COLUMNS] = "columns",   [NODE_NOTHING] = "nothing", [NODE_HELLO] = "hello",
    [NODE_STARTED] = "started",   [NODE_COPY] = "copy",       [NODE_FAILED] = "failed",
    [NODE_EXIT] = "exit",         [NODE_BROKEN] = "broken",   [NODE_OUTPUT] = "output",
    [NODE_SAMPLE] = "sample",     [NODE_STORED] = "stored",   [NODE_LAST] = "last",
    [NODE_PROGRAM] = "program",
};

const char *node_kind_name(enum node_message_kind kind)
{
    const char *name = (unsigned)kind < NODE_KIND_COUNT ? kind_names[kind] : NULL;

    return name != NULL ? name : "unknown";
}

static void put_u32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

void node_head_pack(uint8_t ret[NODE_HEAD_BYTES], enum node_message_kind kind,
                    uint32_t worker, uint64_t number)
{
    put_u32(ret, (uint32_t)kind);
    put_u32(ret + 4, worker);
    put_u32(ret + 8, (uint32_t)number);
    put_u32(ret + 12, (uint32_t)(number >> 32));
}

int node_send(struct channel *c, enum node_message_kind kind, uint32_t worker,
              uint64_t number, const void *body, size_t len, struct err *err)
{
    uint8_t head[NODE_HEAD_BYTES];

    node_head_pack(head, kind, worker, number);
    return channel_send2(c, head, sizeof(head), body, len, err);
}

int node_message_parse(struct node_message *ret, const void *data, size_t len,
                       struct err *err)
{
    struct cursor c = cursor_of(data, len);
    const uint32_t kind = cursor_u32(&c);

    *ret = (struct node_message){.kind = (enum node_message_kind)kind};
    ret->worker = cursor_u32(&c);
    ret->number = cursor_u64(&c);
    if (c.failed)
        return err_set(err, ERR_PROTOCOL, "a message of %zu bytes, too short for any",
                       len);
    if (kind == 0 || kind >= NODE_KIND_COUNT)
        return err_set(err, ERR_PROTOCOL, "a message of the unknown kind %u", kind);
    if (ret->worker != NODE_NO_WORKER && ret->worker >= NODE_MAX_WORKERS)
        return err_set(err, ERR_PROTOCOL, "a message about worker %u", ret->worker);
    ret->body = c.p;
    ret->len = cursor_left(&c);
    return 0;
}

/* ---- bodies ---- */

static void node_protocol_put_text(struct wbuf *b, const char *text)
{
    const size_t n = strlen(text);

    wbuf_u32(b, (uint32_t)n);
    wbuf_bytes(b, text, n);
}

/* A text that is too long for `size`, or has a NUL, fails the cursor. */
static void take_text(struct cursor *c, char *ret, size_t size)
{
    const uint32_t n = cursor_u32(c);
    const uint8_t *p = n < size ? cursor_bytes(c, n) : NULL;

    if (p == NULL || memchr(p, '\0', n) != NULL) {
        c->failed = 1;
        ret[0] = '\0';
        return;
    }
    memcpy(ret, p, n);
    ret[n] = '\0';
}

/* whole: nothing may follow what was read. */
static int node_protocol_check(const struct cursor *c, const struct node_message *m,
                               int whole, struct err *err)
{
    if (!c->failed && (!whole || cursor_left(c) == 0))
        return 0;
    return err_set(err, ERR_PROTOCOL, "a malformed message \"%s\" of %zu bytes",
                   node_kind_name(m->kind), m->len);
}

void node_boot_id(char ret[NODE_TEXT_BYTES])
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

    ret[0] = '\0';
    if (f != NULL && fgets(ret, NODE_TEXT_BYTES, f) != NULL)
        ret[strcspn(ret, "\n")] = '\0';
    if (f != NULL)
        (void)fclose(f);
}

const char *node_identity_text(const struct node_identity *v,
                               char ret[NODE_IDENTITY_BYTES])
{
    (void)snprintf(ret, NODE_IDENTITY_BYTES, "%s/%" PRIu32 "/%" PRIu64, v->run, v->node,
                   v->generation);
    return ret;
}

/* The number behind the last '/' of the first *len bytes, which is cut off. */
static int take_last(const char *text, size_t *len, uint64_t max, uint64_t *ret)
{
    size_t at = *len, n = 0;

    while (at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9' && n < 19) {
        at--;
        n++;
    }
    if (n == 0 || at == 0 || text[at - 1] != '/')
        return -1;
    *ret = strtoull(text + at, NULL, 10);
    *len = at - 1;
    return *ret <= max ? 0 : -1;
}

int node_identity_parse(struct node_identity *ret, const char *text, struct err *err)
{
    size_t len = strlen(text);
    uint64_t node = 0;

    if (take_last(text, &len, UINT64_MAX, &ret->generation) < 0 ||
        take_last(text, &len, UINT32_MAX, &node) < 0 || len == 0 ||
        len >= sizeof(ret->run))
        return err_set(err, ERR_FORMAT, "found '%.60s', expected RUN/NODE/GENERATION",
                       text);
    ret->node = (uint32_t)node;
    memcpy(ret->run, text, len);
    ret->run[len] = '\0';
    return 0;
}

void node_hello_pack(struct wbuf *b, const struct node_hello *v)
{
    wbuf_u32(b, v->protocol);
    wbuf_u32(b, v->numerics);
    wbuf_u32(b, v->pid);
    wbuf_u32(b, v->cores);
    wbuf_u64(b, v->memory_bytes);
    node_protocol_put_text(b, v->build_id);
    node_protocol_put_text(b, v->version);
    node_protocol_put_text(b, v->host);
    node_protocol_put_text(b, v->boot);
    node_protocol_put_text(b, v->identity.run);
    wbuf_u32(b, v->identity.node);
    wbuf_u64(b, v->identity.generation);
}

/* It is shown in terminals. */
static int is_host(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text <= ' ' || *text > '~')
            return 0;
    return 1;
}

int node_hello_parse(struct node_hello *ret, const struct node_message *m,
                     struct err *err)
{
    struct cursor c = cursor_of(m->body, m->len);

    ret->protocol = cursor_u32(&c);
    ret->numerics = cursor_u32(&c);
    ret->pid = cursor_u32(&c);
    ret->cores = cursor_u32(&c);
    ret->memory_bytes = cursor_u64(&c);
    take_text(&c, ret->build_id, sizeof(ret->build_id));
    take_text(&c, ret->version, sizeof(ret->version));
    take_text(&c, ret->host, sizeof(ret->host));
    take_text(&c, ret->boot, sizeof(ret->boot));
    take_text(&c, ret->identity.run, sizeof(ret->identity.run));
    ret->identity.node = cursor_u32(&c);
    ret->identity.generation = cursor_u64(&c);
    c.failed |= !is_host(ret->host) || !is_host(ret->version);
    return node_protocol_check(&c, m, ret->protocol == NODE_PROTOCOL_VERSION, err);
}

void node_open_pack(struct wbuf *b, const struct node_open *v)
{
    node_protocol_put_text(b, v->name);
    node_protocol_put_text(b, v->role);
    wbuf_u32(b, v->group);
    wbuf_u32(b, v->member);
    wbuf_u32(b, v->members);
    node_protocol_put_text(b, v->mode);
    wbuf_u32(b, v->n_words);
    wbuf_bytes(b, v->command, v->command_bytes);
}

/* Whether the bytes are that many texts, each with its NUL. */
static int are_texts(const char *data, size_t len, uint64_t n)
{
    for (; n > 0; n--) {
        const size_t end = strnlen(data, len);

        if (end == len)
            return 0;
        data += end + 1;
        len -= end + 1;
    }
    return len == 0;
}

int node_open_parse(struct node_open *ret, const struct node_message *m, struct err *err)
{
    struct cursor c = cursor_of(m->body, m->len);

    take_text(&c, ret->name, sizeof(ret->name));
    take_text(&c, ret->role, sizeof(ret->role));
    ret->group = cursor_u32(&c);
    ret->member = cursor_u32(&c);
    ret->members = cursor_u32(&c);
    take_text(&c, ret->mode, sizeof(ret->mode));
    ret->n_words = cursor_u32(&c);
    ret->command_bytes = cursor_left(&c);
    ret->command = (const char *)cursor_bytes(&c, ret->command_bytes);
    if (c.failed || ret->n_words > PROC_MAX_COMMAND ||
        ret->command_bytes > NODE_MAX_COMMAND_BYTES ||
        !are_texts(ret->command, ret->command_bytes,
                   ret->n_words > 0 ? (uint64_t)ret->n_words + 1 : 0))
        c.failed = 1;
    if (ret->name[0] == '\0' ||
        (ret->group != NODE_NO_GROUP && ret->group >= NODE_MAX_WORKERS) ||
        ret->member > ret->members || ret->members > NODE_MAX_WORKERS ||
        (ret->n_words > 0 && ret->group != NODE_NO_GROUP))
        c.failed = 1;
    return node_protocol_check(&c, m, 1, err);
}

void node_exit_pack(struct wbuf *b, const struct node_exit *v)
{
    wbuf_u32(b, (uint32_t)v->exit_code);
    wbuf_u32(b, (uint32_t)v->signal);
    wbuf_u32(b, v->had_process);
}

int node_exit_parse(struct node_exit *ret, const struct node_message *m, struct err *err)
{
    struct cursor c = cursor_of(m->body, m->len);

    ret->exit_code = (int32_t)cursor_u32(&c);
    ret->signal = (int32_t)cursor_u32(&c);
    ret->had_process = cursor_u32(&c);
    if (ret->exit_code < -1 || ret->exit_code > 255 || ret->signal < 0 ||
        ret->signal > 64)
        c.failed = 1;
    return node_protocol_check(&c, m, 1, err);
}

void node_sample_pack(struct wbuf *b, const struct node_sample *v)
{
    wbuf_u64(b, (uint64_t)v->memory_bytes);
    wbuf_u8(b, v->has_activity);
    wbuf_u8(b, (uint8_t)v->state);
    wbuf_u64(b, v->ticks);
    wbuf_u64(b, v->resident_bytes);
    wbuf_u64(b, v->space_limit_bytes);
}

int node_sample_parse(struct node_sample *ret, const struct node_message *m,
                      struct err *err)
{
    struct cursor c = cursor_of(m->body, m->len);

    ret->memory_bytes = (int64_t)cursor_u64(&c);
    ret->has_activity = cursor_u8(&c);
    ret->state = (char)cursor_u8(&c);
    ret->ticks = cursor_u64(&c);
    ret->resident_bytes = cursor_u64(&c);
    ret->space_limit_bytes = cursor_u64(&c);
    return node_protocol_check(&c, m, 1, err);
}

void node_error_pack(struct wbuf *b, const struct err *e)
{
    wbuf_u32(b, (uint32_t)e->code);
    node_protocol_put_text(b, e->msg);
}

int node_error_parse(struct err *ret, const struct node_message *m, struct err *err)
{
    struct cursor c = cursor_of(m->body, m->len);
    const int32_t code = (int32_t)cursor_u32(&c);
    char text[ERR_MSG_BYTES];

    take_text(&c, text, sizeof(text));
    if (code >= 0)
        c.failed = 1;
    if (node_protocol_check(&c, m, 1, err) < 0)
        return ERR_PROTOCOL;
    (void)err_set(ret, code, "%s", text);
    return 0;
}
