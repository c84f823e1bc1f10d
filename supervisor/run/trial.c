#include "supervisor/run/trial.h"

#include "common/err/check.h"

#include <string.h>

enum { STOP_DEADLINE_MS = 1000 };

struct trial {
    const struct agent_spec *spec;
    void *ctx; /* of its pack_configure */
    uv_loop_t loop;
    struct agent_table *agents; /* of one */
    int is_ready, is_stopped;
    struct err failure; /* code 0: none */
};

static void on_ready(void *ctx)
{
    ((struct trial *)ctx)->is_ready = 1;
}

static void on_failed(void *ctx, size_t agent, const struct err *report)
{
    (void)agent;
    ((struct trial *)ctx)->failure = *report;
}

static void on_stopped(void *ctx)
{
    ((struct trial *)ctx)->is_stopped = 1;
}

static void pack_configure(void *ctx, size_t agent, int restored, struct msg_out *o)
{
    const struct trial *t = ctx;

    t->spec->pack_configure(t->ctx, agent, restored, o);
}

static int start(struct trial *t, int agent_exe_fd, struct err *err)
{
    const struct agent_limits limits = {.respond_within_s = TRIAL_WITHIN_S};
    const struct agent_spec spec = {.name = t->spec->name,
                                    .role = t->spec->role,
                                    .pack_configure = pack_configure,
                                    .limits = &limits,
                                    .is_trial = 1};
    const struct agent_callbacks cb = {
        .on_ready = on_ready, .on_failed = on_failed, .on_stopped = on_stopped, .ctx = t};
    int rc = agent_table_new(&t->agents, &t->loop, agent_exe_fd, -1, &spec, 1, &cb, err);

    return rc < 0 ? rc : agent_table_start(t->agents, err);
}

static void stop(struct trial *t)
{
    if (t->agents != NULL)
        agent_table_stop(t->agents, STOP_DEADLINE_MS);
    while (t->agents != NULL && !t->is_stopped)
        (void)uv_run(&t->loop, UV_RUN_ONCE);
    agent_table_free(t->agents);
    (void)uv_run(&t->loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&t->loop) == 0, "a handle was left open");
}

/* "agent agent_0 (pid 4711): configure: why": why. */
static int refuse(const struct trial *t, struct err *err)
{
    static const char mark[] = "configure: ";
    const char *why = strstr(t->failure.msg, mark);

    return err_set(err, ERR_CONFIG, "%s: %s", t->spec->name,
                   why != NULL ? why + sizeof(mark) - 1 : t->failure.msg);
}

static int judge(const struct trial *t, const struct msg *now, struct err *err)
{
    if (t->failure.code != 0)
        return refuse(t, err);
    if (!msgpack_object_equal(agent_table_description(t->agents, 0)->body, now->body))
        return err_set(err, ERR_CONFIG,
                       "%s would have other variables or stages than it has",
                       t->spec->name);
    return 0;
}

int trial_configure(int agent_exe_fd, const struct agent_spec *spec, void *ctx,
                    const struct msg *now, struct err *err)
{
    struct trial t = {.spec = spec, .ctx = ctx};
    int rc;

    CHECK(uv_loop_init(&t.loop) == 0);
    rc = start(&t, agent_exe_fd, err);
    while (rc == 0 && !t.is_ready && t.failure.code == 0)
        (void)uv_run(&t.loop, UV_RUN_ONCE);
    if (rc == 0)
        rc = judge(&t, now, err);
    stop(&t);
    return rc;
}
