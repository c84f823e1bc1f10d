#include "tests/supervisor/fake_agents.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"

#include <stdlib.h>
#include <string.h>

struct fake {
    char *name;
    struct msg description;
    uint8_t *description_bytes;
    struct msg_out request, response;
    int writes;
    agent_response_fn fn; /* not NULL: a request is outstanding */
    void *ctx;
    uint64_t asked; /* position of the request among those of all agents */
};

struct agent_table {
    size_t n;
    struct fake *fakes;
    fake_answer_fn answer;
    void *ctx;
    uint64_t clock;
    void (*watch)(int inside);
};

/* Makes the response to a request; its bytes are copied into *ret_bytes. */
static void answer(struct agent_table *t, size_t agent, struct msg *ret,
                   uint8_t **ret_bytes)
{
    struct fake *f = &t->fakes[agent];
    struct msg request = {0};
    const uint8_t *frame;
    size_t len;
    struct err err = {0};

    msg_end(&f->request, &frame, &len);
    CHECK(msg_parse(&request, frame + FRAME_HEADER_BYTES, len - FRAME_HEADER_BYTES,
                    &err) == 0,
          "%s", err.msg);
    msg_begin_response(&f->response, request.id);
    t->answer(t->ctx, agent, &request, &f->response);
    msg_end(&f->response, &frame, &len);
    *ret_bytes = xmalloc(len);
    memcpy(*ret_bytes, frame + FRAME_HEADER_BYTES, len - FRAME_HEADER_BYTES);
    CHECK(msg_parse(ret, *ret_bytes, len - FRAME_HEADER_BYTES, &err) == 0, "%s", err.msg);
    msg_done(&request);
}

struct agent_table *fake_agents_new(const char *const *names, size_t n, fake_answer_fn fn,
                                    void *ctx)
{
    struct agent_table *t = xcalloc(1, sizeof(*t));

    t->n = n;
    t->answer = fn;
    t->ctx = ctx;
    t->fakes = xcalloc(n, sizeof(*t->fakes));
    for (size_t i = 0; i < n; i++) {
        struct fake *f = &t->fakes[i];

        f->name = xstrdup(names[i]);
        msg_out_init(&f->request);
        msg_out_init(&f->response);
        msg_map(agent_request_begin(t, i, "configure", 0), 0);
        answer(t, i, &f->description, &f->description_bytes);
    }
    return t;
}

void fake_agents_free(struct agent_table *t)
{
    for (size_t i = 0; i < t->n; i++) {
        struct fake *f = &t->fakes[i];

        msg_done(&f->description);
        free(f->description_bytes);
        msg_out_done(&f->request);
        msg_out_done(&f->response);
        free(f->name);
    }
    free(t->fakes);
    free(t);
}

void fake_agents_watch(struct agent_table *t, void (*watch)(int inside))
{
    t->watch = watch;
}

static struct fake *newest(struct agent_table *t)
{
    struct fake *best = NULL;

    for (size_t i = 0; i < t->n; i++)
        if (t->fakes[i].fn != NULL && (best == NULL || t->fakes[i].asked > best->asked))
            best = &t->fakes[i];
    return best;
}

size_t fake_agents_run(struct agent_table *t, size_t max)
{
    struct fake *f;
    size_t n = 0;

    while (n < max && (f = newest(t)) != NULL) {
        agent_response_fn fn = f->fn;
        struct msg response = {0};
        uint8_t *bytes;

        answer(t, (size_t)(f - t->fakes), &response, &bytes);
        f->fn = NULL;
        if (t->watch != NULL)
            t->watch(1);
        fn(f->ctx, (size_t)(f - t->fakes), &response);
        if (t->watch != NULL)
            t->watch(0);
        msg_done(&response);
        free(bytes);
        n++;
    }
    return n;
}

const struct msg *agent_table_description(const struct agent_table *t, size_t agent)
{
    return &t->fakes[agent].description;
}

void agent_table_limit_replay(struct agent_table *t, size_t agent, size_t max_requests)
{
}

void agent_table_keep(struct agent_table *t)
{
    for (size_t i = 0; i < t->n; i++)
        CHECK(t->fakes[i].fn == NULL || !t->fakes[i].writes, "%s", t->fakes[i].name);
}

int agent_table_block(struct agent_table *t, size_t agent, const void **ret,
                      size_t *ret_len, struct err *err)
{
    return err_set(err, ERR_UNSUPPORTED, "fake agents have no blocks");
}

void agent_table_uncount(struct agent_table *t)
{
}

void agent_request_uncounted(struct agent_table *t, size_t agent)
{
}

void agent_table_begin_round(struct agent_table *t, size_t agent)
{
    CHECK(agent < t->n);
}

void agent_table_get_resume_point(const struct agent_table *t, size_t agent, int kept,
                                  struct agent_resume_point *ret)
{
    *ret = (struct agent_resume_point){AGENT_LEARNS, agent};
}

void agent_table_resume_at(struct agent_table *t, size_t agent,
                           const struct agent_resume_point *s)
{
    CHECK(s->mode == AGENT_LEARNS && s->position == agent);
}

void agent_table_set_position(struct agent_table *t, size_t agent,
                              const struct agent_resume_point *s)
{
    agent_table_resume_at(t, agent, s);
}

size_t agent_table_count(const struct agent_table *t)
{
    return t->n;
}

struct msg_out *agent_request_begin(struct agent_table *t, size_t agent,
                                    const char *method, int writes)
{
    struct fake *f = &t->fakes[agent];

    f->writes = writes;
    msg_begin_request(&f->request, (uint32_t)++t->clock, method);
    return &f->request;
}

void agent_request_wake_on(struct agent_table *t, size_t agent, int core)
{
}

int agent_request_send(struct agent_table *t, size_t agent, agent_response_fn fn,
                       void *ctx, struct err *err)
{
    struct fake *f = &t->fakes[agent];

    if (f->fn != NULL)
        return err_set(err, ERR_STATE, "%s owes an answer", f->name);
    f->fn = fn;
    f->ctx = ctx;
    f->asked = ++t->clock;
    return 0;
}

/* Functions of environment processes that the linker needs; these tests have none. */

int agent_table_new(struct agent_table **ret, uv_loop_t *loop, int agent_exe_fd,
                    int log_fd, const struct agent_spec *specs, size_t n,
                    const struct agent_callbacks *cb, struct err *err)
{
    return err_set(err, ERR_UNSUPPORTED, "fake agents have no processes");
}

int agent_table_start(struct agent_table *t, struct err *err)
{
    return err_set(err, ERR_UNSUPPORTED, "fake agents have no processes");
}

int agent_table_kill(struct agent_table *t, size_t agent, struct err *err)
{
    return err_set(err, ERR_UNSUPPORTED, "fake agents have no processes");
}

int agent_table_respawn(struct agent_table *t, size_t agent, struct err *err)
{
    return err_set(err, ERR_UNSUPPORTED, "fake agents have no processes");
}

void agent_table_stop(struct agent_table *t, uint64_t deadline_ms)
{
    CHECK(0, "fake agents have no processes");
}

void agent_table_free(struct agent_table *t)
{
    CHECK(t == NULL, "fake agents have no processes");
}

void agent_table_set_limits(struct agent_table *t, size_t agent,
                            const struct agent_limits *limits)
{
    CHECK(0, "fake agents have no processes");
}

void agent_table_info(const struct agent_table *t, size_t agent, struct agent_info *ret)
{
    CHECK(0, "fake agents have no processes");
}
