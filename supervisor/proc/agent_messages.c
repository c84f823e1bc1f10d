#include "supervisor/proc/agent.h"

#include "common/log/log.h"
#include "supervisor/trace/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void handle_hello(struct agent *a)
{
    uint64_t version = 0;
    struct err err;
    int rc;

    if (msg_get_u64(&a->in.body, "protocol", UINT64_MAX, &version, &err) < 0) {
        agent_feed_bad(a, &err);
        return;
    }
    if (version != PROTOCOL_VERSION) {
        (void)err_set(&err, ERR_PROTOCOL,
                      "it speaks protocol version %" PRIu64 ", the supervisor %u",
                      version, PROTOCOL_VERSION);
        agent_feed_fatal(a, &err);
        return;
    }
    rc = a->kind->check_hello(a, &err);
    if (rc == 0 && a->state == PROC_STARTING)
        agent_emit(a, AGENT_EVENT_HELLO);
    if (rc == 0)
        agent_feed(a, PROC_EV_HELLO);
    else if (rc == ERR_AGENT)
        agent_feed_fatal(a, &err);
    else
        agent_feed_bad(a, &err);
}

static void handle_log(struct agent *a)
{
    char text[1024] = "";

    if (msg_get_str(&a->in.body, "text", text, sizeof(text) - 1, NULL) == 0) {
        strcat(text, "\n");
        capture_append(&a->link->capture, text, strlen(text));
    }
}

/* The request whose response is awaited. */
static uint32_t awaited_id(const struct agent *a)
{
    if (a->state == PROC_BUSY)
        return a->pending.id;
    return a->state == PROC_REPLAYING ? a->asked.id : AGENT_CONFIGURE_ID;
}

/* "method" or "method of update 17", for messages. */
static void name_frame(const uint8_t *frame, size_t len, char *ret, size_t size)
{
    struct msg request = {0};

    if (msg_parse(&request, frame + FRAME_HEADER_BYTES, len - FRAME_HEADER_BYTES, NULL) ==
        0) {
        uint64_t update = 0;

        if (msg_get(&request.body, "update") != NULL &&
            msg_get_u64(&request.body, "update", UINT64_MAX, &update, NULL) == 0)
            (void)snprintf(ret, size, "%s of update %" PRIu64, request.method, update);
        else
            (void)snprintf(ret, size, "%s", request.method);
    }
    msg_done(&request);
}

void agent_name_awaited(const struct agent *a, char *ret, size_t size)
{
    (void)snprintf(ret, size, "%s",
                   a->spec.method != NULL ? a->spec.method : "configure");
    if (a->state == PROC_BUSY || a->state == PROC_COMMITTING)
        name_frame(a->pending.frame, a->pending.frame_len, ret, size);
    else if (a->state == PROC_REPLAYING && a->asked.frame != NULL)
        name_frame(a->asked.frame, a->asked.frame_len, ret, size);
}

/* Whether the error is one that another process may not have: an environment's exception, or
 * lack of memory. */
static int is_temporary_error(const struct agent *a)
{
    const int has_played = a->state == PROC_BUSY || a->state == PROC_REPLAYING;

    return a->in.error.code == ERR_NOMEM ||
           (a->in.error.code == ERR_AGENT && !a->kind->has_block && has_played &&
            !a->spec.is_trial);
}

static void handle_response(struct agent *a)
{
    const int is_awaited = proc_state_is_asked(a->state);
    const int may_fail = a->state == PROC_BUSY && a->pending.may_fail;
    const int is_error = is_awaited && a->in.error.code != 0;
    char name[96];
    struct err err;

    if (is_awaited && a->in.id != awaited_id(a)) {
        (void)err_set(&err, ERR_PROTOCOL,
                      "it answered request %" PRIu32 " instead of %" PRIu32, a->in.id,
                      awaited_id(a));
        agent_feed_bad(a, &err);
    } else if (is_error && (!may_fail || is_temporary_error(a))) {
        agent_name_awaited(a, name, sizeof(name));
        err = a->in.error;
        (void)err_wrap(&err, "%s", name);
        if (is_temporary_error(a))
            agent_feed_bad(a, &err);
        else
            agent_feed_fatal(a, &err);
    } else if (is_awaited && !is_error && a->in.body.type == MSGPACK_OBJECT_NIL) {
        (void)err_set(&err, ERR_PROTOCOL, "its response is empty");
        agent_feed_bad(a, &err);
    } else {
        agent_feed(a, PROC_EV_RESPONSE);
    }
}

void agent_handle_message(struct agent *a, const uint8_t *data, size_t len)
{
    struct err err;

    if (!proc_state_is_serving(a->state)) {
        /* the answer to `shutdown` says why; all else of a stopping process is ignored */
        if (a->state == PROC_STOPPING && msg_reparse(&a->in, data, len, NULL) == 0 &&
            a->in.type == MSG_RESPONSE && a->in.id == a->shutdown_id &&
            a->in.error.code != 0) {
            a->cause = a->in.error;
            (void)err_wrap(&a->cause, "shutdown");
        }
        return;
    }
    agent_note_sign_of_life(a);
    a->in_data = data;
    a->in_len = len;
    if (msg_reparse(&a->in, data, len, &err) < 0) {
        agent_feed_bad(a, &err);
        return;
    }
    log_debug("from %s: %s%s, request %" PRIu32 ", generation %" PRIu64 ", %zu bytes",
              a->name, a->in.type == MSG_RESPONSE ? "the answer" : "notification ",
              a->in.type == MSG_RESPONSE ? "" : a->in.method, a->in.id,
              a->link->generation, len);
    if (a->in.type == MSG_RESPONSE) {
        const struct trace_mark mark = trace_begin();

        handle_response(a);
        trace_end(mark, "answers");
    } else if (a->in.type == MSG_NOTIFICATION) {
        if (strcmp(a->in.method, "hello") == 0)
            handle_hello(a);
        else if (strcmp(a->in.method, "log") == 0)
            handle_log(a);
        else if (strcmp(a->in.method, "span") == 0)
            agent_trace_span(a);
    } else {
        (void)err_set(&err, ERR_PROTOCOL, "it sent a request");
        agent_feed_bad(a, &err);
    }
}
