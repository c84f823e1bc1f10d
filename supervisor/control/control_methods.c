/* What clients may ask of a run: one row per method. */
#include "common/mem/xmalloc.h"
#include "supervisor/control/control_internal.h"
#include "supervisor/control/status_pack.h"
#include "supervisor/run/log_tail.h"
#include "supervisor/trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SET = 64, SET_MAX_BYTES = 4096 };
enum { MAX_TRACED_ROUNDS = 100000 };
enum { LOGS_BYTES = 1 << 16, LOGS_MAX_BYTES = 1 << 20 };

/* ---- status ---- */

static void do_status(struct call *c, const msgpack_object *params)
{
    struct run_status s;

    (void)params;
    training_status(c->control->training, &s);
    status_pack(call_begin_answer(c), &s);
    call_end_answer(c);
}

/* ---- steering ---- */

static void on_happened(void *ctx, uint64_t step, const struct err *why)
{
    if (why != NULL)
        call_fail(ctx, why);
    else
        call_answer_step(ctx, step);
}

static void do_pause(struct call *c, const msgpack_object *params)
{
    struct err err = {0};

    (void)params;
    if (training_pause(c->control->training, on_happened, c, &err) < 0)
        call_fail(c, &err);
}

static void do_continue(struct call *c, const msgpack_object *params)
{
    struct err err = {0};

    (void)params;
    if (training_continue(c->control->training, &err) < 0)
        call_fail(c, &err);
    else
        call_answer_nothing(c);
}

static void do_checkpoint(struct call *c, const msgpack_object *params)
{
    struct err err = {0};

    (void)params;
    if (training_checkpoint(c->control->training, on_happened, c, &err) < 0)
        call_fail(c, &err);
}

static void do_stop(struct call *c, const msgpack_object *params)
{
    (void)params;
    training_stop(c->control->training, on_happened, c);
}

/* ---- agents ---- */

static int find_agent(const struct call *c, const msgpack_object *params, size_t *ret,
                      struct err *err)
{
    char name[AGENT_NAME_MAX] = "";
    int rc = msg_require(params, "agent", err);

    if (rc == 0)
        rc = msg_get_str(params, "agent", name, sizeof(name), err);
    return rc < 0 ? rc : training_find_agent(c->control->training, name, ret, err);
}

static void do_kill(struct call *c, const msgpack_object *params)
{
    struct err err = {0};
    size_t agent;
    int rc = find_agent(c, params, &agent, &err);

    if (rc == 0)
        rc = training_kill(c->control->training, agent, &err);
    if (rc < 0)
        call_fail(c, &err);
    else
        call_answer_nothing(c);
}

static void do_respawn(struct call *c, const msgpack_object *params)
{
    struct err err = {0};
    size_t agent;
    int rc = find_agent(c, params, &agent, &err);

    if (rc == 0)
        rc = training_respawn(c->control->training, agent, on_happened, c, &err);
    if (rc < 0)
        call_fail(c, &err);
}

static void on_run(void *ctx, const msgpack_object *result, const struct err *why)
{
    struct call *c = ctx;

    if (why != NULL) {
        call_fail(c, why);
        return;
    }
    (void)msgpack_pack_object(&call_begin_answer(c)->pk, *result);
    call_end_answer(c);
}

static void do_run(struct call *c, const msgpack_object *params)
{
    struct err err = {0};
    size_t agent;
    int rc = find_agent(c, params, &agent, &err);

    if (rc == 0)
        rc = training_drive(c->control->training, agent, params, on_run, c, &err);
    if (rc < 0)
        call_fail(c, &err);
}

/* ---- changes ---- */

/* The texts of a list: KEY=VALUE each of "changes", KEY of "cancel". */
static int take_set(const msgpack_object *params, const char *name, char **ret,
                    size_t *ret_n, struct err *err)
{
    const msgpack_object *list = NULL;
    int rc = msg_require(params, name, err);

    if (rc == 0)
        rc = msg_get_array(params, name, &list, err);
    for (uint32_t i = 0; rc == 0 && i < list->via.array.size; i++) {
        const msgpack_object *o = &list->via.array.ptr[i];

        if (*ret_n == MAX_SET || o->type != MSGPACK_OBJECT_STR ||
            o->via.str.size > SET_MAX_BYTES ||
            memchr(o->via.str.ptr, '\0', o->via.str.size) != NULL)
            return err_set(err, ERR_PROTOCOL, "%s: expected at most %d %s", name, MAX_SET,
                           strcmp(name, "cancel") == 0 ? "KEY" : "KEY=VALUE");
        ret[(*ret_n)++] = xstrndup(o->via.str.ptr, o->via.str.size);
    }
    return rc;
}

static void answer_set(struct call *c, const struct training_set_result *r)
{
    struct msg_out *o = call_begin_answer(c);

    msg_map(o, 3);
    msg_key(o, "at");
    msg_u64(o, r->at);
    msg_key(o, "changes");
    msg_str(o, r->changes);
    msg_key(o, "waits");
    msg_str(o, r->waits);
    call_end_answer(c);
}

static void cancel(struct call *c, const msgpack_object *params)
{
    const struct run_pending *cancelled;
    char *keys[MAX_SET];
    size_t n = 0, n_cancelled;
    struct msg_out *o;
    struct err err = {0};
    int rc = take_set(params, "cancel", keys, &n, &err);

    if (rc == 0 && msg_get(params, "changes") != NULL)
        rc = err_set(&err, ERR_PROTOCOL, "changes and cancel are both given");
    if (rc == 0)
        rc = training_cancel(c->control->training, (const char *const *)keys, n,
                             &cancelled, &n_cancelled, &err);
    if (rc < 0) {
        call_fail(c, &err);
    } else {
        o = call_begin_answer(c);
        msg_map(o, 1);
        msg_key(o, "cancelled");
        status_pack_pending(o, cancelled, n_cancelled);
        call_end_answer(c);
    }
    for (size_t i = 0; i < n; i++)
        free(keys[i]);
}

static void do_set(struct call *c, const msgpack_object *params)
{
    struct training_set_result result = {0};
    char *set[MAX_SET];
    size_t n = 0;
    uint64_t at = TRAINING_SOON;
    struct err err = {0};
    int rc;

    if (msg_get(params, "cancel") != NULL) {
        cancel(c, params);
        return;
    }
    rc = take_set(params, "changes", set, &n, &err);
    if (rc == 0)
        rc = msg_get_u64(params, "at", TRAINING_SOON, &at, &err);
    if (rc == 0)
        rc = training_set(c->control->training, (const char *const *)set, n, at, &result,
                          &err);
    if (rc < 0)
        call_fail(c, &err);
    else
        answer_set(c, &result);
    if (rc == 0)
        training_set_result_done(&result);
    for (size_t i = 0; i < n; i++)
        free(set[i]);
}

/* ---- tracing ---- */

enum { MAX_SHARES = 1024 };

static void put_share(struct msg_out *o, const struct trace_share *s)
{
    msg_map(o, 4);
    msg_key(o, "process");
    msg_str(o, s->process);
    msg_key(o, "work");
    msg_str(o, s->work);
    msg_key(o, "count");
    msg_u64(o, s->count);
    msg_key(o, "seconds");
    msg_f64(o, (double)s->ns / 1e9);
}

static void on_traced(void *ctx, const struct training_trace_result *result,
                      const struct err *why)
{
    struct trace_share shares[MAX_SHARES];
    struct call *c = ctx;
    struct msg_out *o;
    size_t n;

    if (why != NULL) {
        call_fail(c, why);
        return;
    }
    n = trace_shares(shares, MAX_SHARES);
    o = call_begin_answer(c);
    msg_map(o, 6);
    msg_key(o, "path");
    msg_str(o, result->path);
    msg_key(o, "rounds");
    msg_u64(o, result->rounds);
    msg_key(o, "seconds");
    msg_f64(o, result->seconds);
    msg_key(o, "waiting_seconds");
    msg_f64(o, result->waiting_seconds);
    msg_key(o, "left_out");
    msg_u64(o, result->left_out);
    msg_key(o, "shares");
    msg_array(o, n);
    for (size_t i = 0; i < n; i++)
        put_share(o, &shares[i]);
    call_end_answer(c);
}

static void do_trace(struct call *c, const msgpack_object *params)
{
    uint64_t rounds = 0;
    struct err err = {0};
    int rc = msg_require(params, "rounds", &err);

    if (rc == 0)
        rc = msg_get_u64(params, "rounds", MAX_TRACED_ROUNDS, &rounds, &err);
    if (rc == 0 && rounds == 0)
        rc = err_set(&err, ERR_PROTOCOL, "rounds: expected at least 1");
    if (rc == 0)
        rc = training_trace(c->control->training, rounds, on_traced, c, &err);
    if (rc < 0)
        call_fail(c, &err);
}

/* ---- watching ---- */

/* NULL: err says why. */
static const char *find_log(const struct call *c, const msgpack_object *params,
                            struct err *err)
{
    char name[AGENT_NAME_MAX] = "", sub[AGENT_NAME_MAX + 16];
    size_t agent;

    if (msg_get_str(params, "agent", name, sizeof(name), err) < 0)
        return NULL;
    if (*name == '\0')
        return run_dir_file(c->control->dir, "journal");
    if (strcmp(name, "supervisor") != 0 &&
        training_find_agent(c->control->training, name, &agent, err) < 0)
        return NULL;
    (void)snprintf(sub, sizeof(sub), "logs/%s.log", name);
    return run_dir_file(c->control->dir, sub);
}

static void do_logs(struct call *c, const msgpack_object *params)
{
    uint64_t bytes = LOGS_BYTES;
    struct wbuf text = {0};
    struct err err = {0};
    struct msg_out *o;
    const char *path = find_log(c, params, &err);

    if (path == NULL || msg_get_u64(params, "bytes", LOGS_MAX_BYTES, &bytes, &err) < 0 ||
        log_tail(&text, path, (size_t)bytes, &err) < 0) {
        call_fail(c, &err);
    } else {
        o = call_begin_answer(c);
        msg_map(o, 1);
        msg_key(o, "text");
        msg_bin(o, text.data, text.len);
        call_end_answer(c);
    }
    wbuf_done(&text);
}

static void do_subscribe(struct call *c, const msgpack_object *params)
{
    (void)params;
    client_subscribe(c->client);
    call_answer_nothing(c);
}

static const struct method {
    const char *name;
    void (*fn)(struct call *c, const msgpack_object *params);
} methods[] = {
    {"status", do_status}, {"kill", do_kill},         {"respawn", do_respawn},
    {"pause", do_pause},   {"continue", do_continue}, {"checkpoint", do_checkpoint},
    {"stop", do_stop},     {"set", do_set},           {"run", do_run},
    {"logs", do_logs},     {"trace", do_trace},       {"subscribe", do_subscribe},
};

void control_dispatch(struct call *c, const char *method, const msgpack_object *params)
{
    struct err err = {0};

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (strcmp(methods[i].name, method) == 0) {
            methods[i].fn(c, params);
            return;
        }
    }
    (void)err_set(&err, ERR_NOT_FOUND, "there is no method '%s'", method);
    call_fail(c, &err);
}
