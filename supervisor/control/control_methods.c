#include "supervisor/control/control_methods.h"

#include "common/io/beneath.h"
#include "common/io/write_all.h"
#include "common/mem/xmalloc.h"
#include "supervisor/trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SET = 64, SET_MAX_BYTES = 4096 };
enum { MAX_TRACED_ROUNDS = 100000 };
enum { LOGS_BYTES = 1 << 16, LOGS_MAX_BYTES = 1 << 20 };

/* ---- status ---- */

static int do_status(void *ctx, const msgpack_object *params, struct rpc_reply *reply,
                     struct err *err)
{
    const struct control_run *run = ctx;
    struct run_status s;

    training_status(run->training, &s);
    run_status_pack(rpc_reply_begin(reply), &s);
    rpc_reply_end(reply);
    return 0;
}

/* ---- steering ---- */

static void on_happened(void *ctx, uint64_t step, const struct err *why)
{
    struct msg_out *o;

    if (why != NULL) {
        rpc_reply_fail(ctx, why);
        return;
    }
    o = rpc_reply_begin(ctx);
    msg_map(o, 1);
    msg_put_u64(o, "env_steps", step);
    rpc_reply_end(ctx);
}

static int do_pause(void *ctx, const msgpack_object *params, struct rpc_reply *reply,
                    struct err *err)
{
    const struct control_run *run = ctx;

    return training_pause(run->training, on_happened, reply, err);
}

static int do_continue(void *ctx, const msgpack_object *params, struct rpc_reply *reply,
                       struct err *err)
{
    const struct control_run *run = ctx;
    struct run_status s;
    struct msg_out *o;
    int rc, was_paused;

    training_status(run->training, &s);
    was_paused = strcmp(s.state, "paused") == 0;
    rc = training_continue(run->training, err);
    if (rc < 0)
        return rc;
    o = rpc_reply_begin(reply);
    msg_map(o, 2);
    msg_put_u64(o, "env_steps", s.env_steps);
    msg_put_bool(o, "was_paused", was_paused);
    rpc_reply_end(reply);
    return 0;
}

static int do_checkpoint(void *ctx, const msgpack_object *params, struct rpc_reply *reply,
                         struct err *err)
{
    const struct control_run *run = ctx;

    return training_checkpoint(run->training, on_happened, reply, err);
}

static int do_stop(void *ctx, const msgpack_object *params, struct rpc_reply *reply,
                   struct err *err)
{
    const struct control_run *run = ctx;

    training_stop(run->training, on_happened, reply);
    return 0;
}

/* ---- agents ---- */

static int find_agent(const struct control_run *run, const msgpack_object *params,
                      size_t *ret, struct err *err)
{
    char name[AGENT_NAME_MAX] = "";

    (void)msg_get_str(params, "agent", name, sizeof(name), NULL);
    return training_find_agent(run->training, name, ret, err);
}

static int do_kill(void *ctx, const msgpack_object *params, struct rpc_reply *reply,
                   struct err *err)
{
    const struct control_run *run = ctx;
    struct run_status s;
    size_t agent;
    int rc = find_agent(run, params, &agent, err);

    if (rc == 0)
        rc = training_kill(run->training, agent, err);
    if (rc < 0)
        return rc;
    training_status(run->training, &s);
    on_happened(reply, s.env_steps, NULL);
    return 0;
}

static int do_respawn(void *ctx, const msgpack_object *params, struct rpc_reply *reply,
                      struct err *err)
{
    const struct control_run *run = ctx;
    size_t agent;
    int rc = find_agent(run, params, &agent, err);

    return rc < 0 ? rc : training_respawn(run->training, agent, on_happened, reply, err);
}

static void on_run(void *ctx, const msgpack_object *result, const struct err *why)
{
    if (why != NULL) {
        rpc_reply_fail(ctx, why);
        return;
    }
    (void)msgpack_pack_object(&rpc_reply_begin(ctx)->pk, *result);
    rpc_reply_end(ctx);
}

static int do_run(void *ctx, const msgpack_object *params, struct rpc_reply *reply,
                  struct err *err)
{
    const struct control_run *run = ctx;
    size_t agent;
    int rc = find_agent(run, params, &agent, err);

    return rc < 0 ? rc : training_drive(run->training, agent, params, on_run, reply, err);
}

/* ---- changes ---- */

/* Copies the texts of a list parameter: KEY=VALUE in "changes", KEY in "cancel". */
static int take_set(const msgpack_object *params, const char *name, char **ret,
                    size_t *ret_n, struct err *err)
{
    const msgpack_object *list = msg_get(params, name);

    for (uint32_t i = 0; i < list->via.array.size; i++) {
        const msgpack_object *o = &list->via.array.ptr[i];

        if (*ret_n == MAX_SET || o->type != MSGPACK_OBJECT_STR ||
            o->via.str.size > SET_MAX_BYTES ||
            memchr(o->via.str.ptr, '\0', o->via.str.size) != NULL)
            return err_set(err, ERR_PROTOCOL, "%s: expected at most %d %s", name, MAX_SET,
                           strcmp(name, "cancel") == 0 ? "KEY" : "KEY=VALUE");
        ret[(*ret_n)++] = xstrndup(o->via.str.ptr, o->via.str.size);
    }
    return 0;
}

static void on_set(void *ctx, const struct training_set_result *r, const struct err *why)
{
    struct msg_out *o;

    if (why != NULL) {
        rpc_reply_fail(ctx, why);
        return;
    }
    o = rpc_reply_begin(ctx);
    msg_map(o, 3);
    msg_put_u64(o, "at", r->at);
    msg_put_str(o, "changes", r->changes);
    msg_put_str(o, "waits", r->waits);
    rpc_reply_end(ctx);
}

static void on_cancelled(void *ctx, const struct training_set_result *r,
                         const struct err *why)
{
    struct msg_out *o;

    if (why != NULL) {
        rpc_reply_fail(ctx, why);
        return;
    }
    o = rpc_reply_begin(ctx);
    msg_map(o, 1);
    msg_key(o, "cancelled");
    run_status_pack_pending(o, r->cancelled, r->n_cancelled);
    rpc_reply_end(ctx);
}

static int do_set(void *ctx, const msgpack_object *params, struct rpc_reply *reply,
                  struct err *err)
{
    const struct control_run *run = ctx;
    const int cancels = msg_get(params, "cancel") != NULL;
    char *words[MAX_SET];
    size_t n = 0;
    uint64_t at = TRAINING_SOON;
    int rc;

    if (cancels && msg_get(params, "changes") != NULL)
        return err_set(err, ERR_PROTOCOL, "changes and cancel are both given");
    if (!cancels && (rc = msg_require(params, "changes", err)) < 0)
        return rc;
    rc = take_set(params, cancels ? "cancel" : "changes", words, &n, err);
    (void)msg_get_u64(params, "at", TRAINING_SOON, &at, NULL);
    if (rc == 0 && cancels)
        training_cancel(run->training, (const char *const *)words, n, on_cancelled,
                        reply);
    else if (rc == 0)
        training_set(run->training, (const char *const *)words, n, at, on_set, reply);
    for (size_t i = 0; i < n; i++)
        free(words[i]);
    return rc;
}

/* ---- tracing ---- */

enum { MAX_SHARES = 1024 };

static void on_traced(void *ctx, const struct training_trace_result *result,
                      const struct err *why)
{
    struct trace_share shares[MAX_SHARES];
    struct msg_out *o;
    size_t n;

    if (why != NULL) {
        rpc_reply_fail(ctx, why);
        return;
    }
    n = trace_shares(shares, MAX_SHARES);
    o = rpc_reply_begin(ctx);
    msg_map(o, 6);
    msg_put_str(o, "path", result->path);
    msg_put_u64(o, "rounds", result->rounds);
    msg_put_f64(o, "seconds", result->seconds);
    msg_put_f64(o, "waiting_seconds", result->waiting_seconds);
    msg_put_u64(o, "left_out", result->left_out);
    msg_key(o, "shares");
    msg_array(o, n);
    for (size_t i = 0; i < n; i++) {
        const struct trace_share *s = &shares[i];

        msg_map(o, 4);
        msg_put_str(o, "process", s->process);
        msg_put_str(o, "work", s->work);
        msg_put_u64(o, "count", s->count);
        msg_put_f64(o, "seconds", (double)s->ns / 1e9);
    }
    rpc_reply_end(ctx);
}

static int is_awaited(void *ctx)
{
    return rpc_reply_is_awaited(ctx);
}

static int do_trace(void *ctx, const msgpack_object *params, struct rpc_reply *reply,
                    struct err *err)
{
    const struct control_run *run = ctx;
    uint64_t rounds = 0;

    (void)msg_get_u64(params, "rounds", MAX_TRACED_ROUNDS, &rounds, NULL);
    return training_trace(run->training, rounds, NULL, on_traced, is_awaited, reply, err);
}

/* ---- watching ---- */

/* Returns the log's path; NULL, with err set, if there is no such agent. */
static const char *find_log(const struct control_run *run, const msgpack_object *params,
                            struct err *err)
{
    char name[AGENT_NAME_MAX] = "", sub[AGENT_NAME_MAX + 16];
    size_t agent;

    (void)msg_get_str(params, "agent", name, sizeof(name), NULL);
    if (*name == '\0')
        return run_dir_file(run->dir, "journal");
    if (strcmp(name, "supervisor") != 0 &&
        training_find_agent(run->training, name, &agent, err) < 0)
        return NULL;
    (void)snprintf(sub, sizeof(sub), "logs/%s.log", name);
    return run_dir_file(run->dir, sub);
}

/* Appends the last `max` bytes of the file or fewer, from the beginning of a line on. A
 * missing file is empty. -errno. */
static int read_tail(struct wbuf *ret, const char *path, size_t max, struct err *err)
{
    const int fd = beneath_open(path, O_RDONLY | O_NONBLOCK, 0);
    const off_t end = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    /* One byte more: if it is a newline, the first line is whole. */
    const off_t from = end > (off_t)max ? end - (off_t)max - 1 : 0;
    const size_t begin = ret->len;
    ssize_t n = -1;
    int rc = 0;

    if (fd < 0)
        return errno == ENOENT ? 0 : err_errno(err, "%s", path);
    if (end >= 0) {
        wbuf_reserve(ret, (size_t)(end - from));
        /* fewer bytes if the file has become shorter meanwhile */
        n = pread_all(fd, ret->data + ret->len, (size_t)(end - from), (uint64_t)from);
    }
    if (n < 0)
        rc = err_errno(err, "%s", path);
    else
        ret->len += (size_t)n;
    (void)close(fd);
    if (n > 0 && end > (off_t)max) { /* the beginning of the first line is missing */
        const uint8_t *first = ret->data + begin;
        const uint8_t *newline = memchr(first, '\n', ret->len - begin);
        const size_t cut =
            newline != NULL ? (size_t)(newline + 1 - first) : ret->len - begin;

        memmove(ret->data + begin, first + cut, ret->len - begin - cut);
        ret->len -= cut;
    }
    return rc;
}

static int do_logs(void *ctx, const msgpack_object *params, struct rpc_reply *reply,
                   struct err *err)
{
    const char *path = find_log(ctx, params, err);
    uint64_t bytes = LOGS_BYTES;
    struct wbuf text = {0};
    struct msg_out *o;
    int rc;

    if (path == NULL)
        return ERR_NOT_FOUND;
    (void)msg_get_u64(params, "bytes", LOGS_MAX_BYTES, &bytes, NULL);
    rc = read_tail(&text, path, (size_t)bytes, err);
    if (rc == 0) {
        o = rpc_reply_begin(reply);
        msg_map(o, 1);
        msg_key(o, "text");
        msg_bin(o, text.data, text.len);
        rpc_reply_end(reply);
    }
    wbuf_done(&text);
    return rc;
}

static int do_subscribe(void *ctx, const msgpack_object *params, struct rpc_reply *reply,
                        struct err *err)
{
    int events = 0;

    (void)msg_get_bool(params, "events", &events, NULL);
    rpc_subscribe(reply, events ? CONTROL_EVENTS : CONTROL_LINES);
    rpc_reply_empty(reply);
    return 0;
}

/* ---- the table ---- */

#define AGENT "agent", RPC_TEXT, 1, 0, AGENT_NAME_MAX - 1

/* name, function, and each parameter's {key, type, required, min, max} */
static const struct rpc_method methods[] = {
    {"status", do_status, {{0}}},
    {"kill", do_kill, {{AGENT}}},
    {"respawn", do_respawn, {{AGENT}}},
    {"pause", do_pause, {{0}}},
    {"continue", do_continue, {{0}}},
    {"checkpoint", do_checkpoint, {{0}}},
    {"stop", do_stop, {{0}}},
    {"set",
     do_set,
     {{"changes", RPC_LIST, 0, 0, 0},
      {"at", RPC_NUMBER, 0, 0, TRAINING_SOON},
      {"cancel", RPC_LIST, 0, 0, 0}}},
    {"run", do_run, {{AGENT}}},
    {"logs",
     do_logs,
     {{"agent", RPC_TEXT, 0, 0, AGENT_NAME_MAX - 1},
      {"bytes", RPC_NUMBER, 0, 0, LOGS_MAX_BYTES}}},
    {"trace", do_trace, {{"rounds", RPC_NUMBER, 1, 1, MAX_TRACED_ROUNDS}}},
    {"subscribe", do_subscribe, {{"events", RPC_BOOL, 0, 0, 0}}},
};

const struct rpc_method *control_methods(size_t *ret_n)
{
    *ret_n = sizeof(methods) / sizeof(methods[0]);
    return methods;
}
