/* Records when a worker worked, and how long request and response were in transit, while
 * `brood trace` runs. An agent reports its work (notification "span"); for an
 * environment process, only the times seen by the supervisor are known. */
#include "supervisor/proc/agent.h"

#include "supervisor/trace/trace.h"

#include <string.h>

void agent_trace(struct agent *a, int on)
{
    struct msg_out o;
    const uint8_t *frame;
    size_t len;

    if (!a->kind->has_block || !proc_state_is_serving(a->state))
        return;
    msg_out_init(&o);
    msg_begin_notification(&o, "trace");
    msg_map(&o, 1);
    msg_put_bool(&o, "on", on);
    msg_end(&o, &frame, &len);
    /* A failed write is handled where the exit is reported. */
    (void)a->link->ops->send(a->link, frame, len, -1, NULL);
    msg_out_done(&o);
}

static void add_span(const struct agent *a, const char *work, uint64_t begin_ns,
                     uint64_t end_ns)
{
    const struct trace_span span = {.process = a->name,
                                    .pid = a->link->pid,
                                    .work = work,
                                    .begin_ns = begin_ns,
                                    .end_ns = end_ns,
                                    .id = a->traced.id,
                                    .bytes = a->traced.bytes};

    trace_add(&span);
}

void agent_trace_answer(struct agent *a)
{
    char work[96] = "request";

    a->traced.id = a->pending.id;
    a->traced.sent_ns = a->sent_at_ns;
    a->traced.answered_ns = uv_hrtime();
    a->traced.bytes = a->pending.frame_len + a->in_len;
    if (a->kind->has_block)
        return;
    agent_name_awaited(a, work, sizeof(work));
    add_span(a, work, a->traced.sent_ns, a->traced.answered_ns);
}

void agent_trace_span(struct agent *a)
{
    uint64_t id = 0, began_ns = 0, ended_ns = 0;
    char method[STAGE_NAME_MAX] = "";
    const msgpack_object *m = &a->in.body;
    int is_newest;

    if (!trace_is_on() || msg_get_u64(m, "id", UINT32_MAX, &id, NULL) < 0 ||
        msg_get_u64(m, "began", INT64_MAX, &began_ns, NULL) < 0 ||
        msg_get_u64(m, "ended", uv_hrtime(), &ended_ns, NULL) < 0 ||
        msg_get_str(m, "method", method, sizeof(method), NULL) < 0)
        return;
    is_newest = id == a->traced.id && a->traced.sent_ns <= began_ns;
    if (is_newest)
        add_span(a, "request on its way", a->traced.sent_ns, began_ns);
    add_span(a, method, began_ns, ended_ns);
    if (is_newest)
        add_span(a, "answer on its way", ended_ns, a->traced.answered_ns);
}
