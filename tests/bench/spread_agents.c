#include "tests/bench/spread_agents.h"

#include "common/err/check.h"
#include "common/msg/protocol.h"
#include "supervisor/rollout/rollout.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char config_text[] =
    "env: {id: simple_spread, copies: %zu, params: {agents: 3}}\n"
    "defaults: {actor: {hidden: [64, 64]}, critic: {hidden: [64, 64]},\n"
    "           restart: {max_restarts: 1000000, delay: 0s}}\n";

static void on_ready(void *ctx)
{
    struct spread_agents *s = ctx;

    s->is_ready = 1;
}

static void on_failed(void *ctx, size_t agent, const struct err *report)
{
    CHECK(0, "%s", report->msg);
}

static void on_stopped(void *ctx)
{
    struct spread_agents *s = ctx;

    s->is_stopped = 1;
}

static void pack_configure(void *ctx, size_t agent, int restored, struct msg_out *o)
{
    struct spread_agents *s = ctx;

    rollout_pack_configure(&s->config, vec_env_spec(s->env), agent, restored, NULL, o);
}

static void make_world(struct spread_agents *s)
{
    const struct config_options options = {.env_names = env_agent_names};
    char text[512];

    (void)snprintf(text, sizeof(text), config_text, s->copies);
    CHECK(run_config_parse(&s->config, text, strlen(text), "bench", &options, NULL) == 0);
    CHECK(vec_env_new(&s->env, &s->config.env, 1, ENV_DRAWS_TRAINING, 0, NULL) == 0);
    vec_env_reset(s->env);
}

int spread_agent_exe(void)
{
    char exe[512];
    int fd, high;

    (void)snprintf(exe, sizeof(exe), "%s/agent/brood-agent", getenv("BROOD_BUILD_DIR"));
    fd = open(exe, O_RDONLY | O_CLOEXEC);
    high = fcntl(fd, F_DUPFD_CLOEXEC, AGENT_FD_COUNT);
    CHECK(fd >= 0 && high >= 0, "%s", exe);
    (void)close(fd);
    return high;
}

void spread_agents_start(struct spread_agents *s, size_t copies)
{
    const struct agent_callbacks cb = {
        .on_ready = on_ready, .on_failed = on_failed, .on_stopped = on_stopped, .ctx = s};
    const int fd = spread_agent_exe();

    *s = (struct spread_agents){.copies = copies};
    CHECK(uv_loop_init(&s->loop) == 0);
    make_world(s);
    CHECK(agent_specs_init(&s->specs, &s->config, vec_env_spec(s->env), 0, 0, NULL,
                           pack_configure, NULL) == 0);
    CHECK(agent_table_new(&s->table, &s->loop, fd, -1, s->specs.spec, s->specs.n, &cb,
                          NULL) == 0);
    (void)close(fd);
    CHECK(agent_table_start(s->table, NULL) == 0);
    while (!s->is_ready)
        (void)uv_run(&s->loop, UV_RUN_ONCE);
}

void spread_agents_stop(struct spread_agents *s)
{
    agent_table_stop(s->table, 5000);
    (void)uv_run(&s->loop, UV_RUN_DEFAULT);
    CHECK(s->is_stopped);
    agent_table_free(s->table);
    agent_specs_done(&s->specs);
    vec_env_free(s->env);
    run_config_done(&s->config);
    CHECK(uv_loop_close(&s->loop) == 0);
}

void spread_pack_act(const struct spread_agents *s, struct msg_out *o, size_t agent,
                     uint64_t step)
{
    struct tensor obs = tensor_const_view(DT_FLOAT, SHAPE((int64_t)s->copies, SPREAD_OBS),
                                          vec_env_obs(s->env, agent));

    msg_map(o, 3);
    msg_put_u64(o, "mode", ACT_EXPLORE);
    msg_put_u64(o, "step", step);
    msg_key(o, "obs");
    msg_tensor(o, &obs);
}
