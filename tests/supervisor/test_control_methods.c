/* The methods of a run's control interface, over another transport than a socket: a real
 * run, and clients in the same process. */
#include "common/log/log.h"
#include "supervisor/control/control_methods.h"
#include "supervisor/env/env.h"
#include "tests/support/rpc_client.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <stdio.h>

static const char text[] = "run: {name: driven, env_steps: 1000000000}\n"
                           "env: {id: simple_spread, copies: 2}\n"
                           "experience: {capacity: 4096, warmup: 4096}\n"
                           "checkpoint: {every_env_steps: 0}\n"
                           "evaluation: {every_env_steps: 0}\n"
                           "log: {every_env_steps: 1000}\n";

/* Requests in order, each with the expected response. */
static const struct step {
    const char *method, *key; /* key of the only param; NULL: no params */
    const char *text;         /* value, or element of the list; NULL: number */
    uint64_t number;
    int in_list;
    const char *result; /* a key of the result; "": the result is empty */
    int code;           /* of the expected error */
    const char *error;  /* beginning of its message */
} steps[] = {
    {"status", .result = "env_steps"},
    {"nonsense", .code = ERR_NOT_FOUND, .error = "there is no method 'nonsense'"},
    {"kill", .code = ERR_PROTOCOL, .error = "agent is missing"},
    {"kill", "agent", "agent_9", .code = ERR_NOT_FOUND, .error = "there is no agent"},
    {"respawn", "agent", .number = 7, .code = ERR_PROTOCOL,
     .error = "agent: expected a string"},
    {"trace", "rounds", .number = 0, .code = ERR_PROTOCOL,
     .error = "rounds: expected at least 1"},
    {"set", "changes", "nothing", .in_list = 1, .code = ERR_CONFIG},
    {"set", "changes", .number = 3, .in_list = 1, .code = ERR_PROTOCOL,
     .error = "changes: expected at most"},
    {"run", "agent", "agent_9", .code = ERR_NOT_FOUND, .error = "there is no agent"},
    {"logs", "bytes", .number = 1u << 30, .code = ERR_PROTOCOL, .error = "bytes: "},
    {"logs", "agent", "agent_1", .result = "text"},
    {"logs", "bytes", .number = 100, .result = "text"},
    {"pause", .result = "env_steps"},
    {"checkpoint", .result = "env_steps"},
    {"continue", .result = "was_paused"},
    {"set", "changes", "log.every_env_steps=500", .in_list = 1, .result = "waits"},
    {"respawn", "agent", "agent_2", .result = "env_steps"},
    {"trace", "rounds", .number = 3, .result = "shares"},
    {"kill", "agent", "agent_0", .result = "env_steps"},
    {"subscribe", .result = ""},
    {"stop", .result = "env_steps"},
};

enum { N_STEPS = sizeof(steps) / sizeof(steps[0]) };

static struct driven {
    struct control_run run;
    struct rpc *rpc;
    struct rpc_client client, hasty; /* hasty sends a request and disconnects */
    /* sends the next request, because none may be sent from within a reply */
    uv_timer_t next;
    struct msg_out out;
    size_t at; /* of steps: the current one */
} d;

static void pack_value(const struct step *s)
{
    if (s->text != NULL)
        msg_str(&d.out, s->text);
    else
        msg_u64(&d.out, s->number);
}

static void send_step(uv_timer_t *timer)
{
    const struct step *s = &steps[d.at];
    struct err err = {0};

    msg_begin_request(&d.out, (uint32_t)d.at, s->method);
    msg_map(&d.out, s->key != NULL);
    if (s->key != NULL) {
        msg_key(&d.out, s->key);
        if (s->in_list)
            msg_array(&d.out, 1);
        pack_value(s);
    }
    ck_assert_msg(rpc_client_send(&d.client, &d.out, &err) == 0, "%s", err.msg);
}

static void on_reply(struct rpc_client *c)
{
    const struct step *s = &steps[d.at];
    const struct msg *m = &c->last;

    ck_assert_int_eq(m->type, MSG_RESPONSE);
    ck_assert_uint_eq(m->id, d.at);
    ck_assert_msg(m->error.code == s->code, "%s: %d, %s", s->method, m->error.code,
                  m->error.msg);
    if (s->error != NULL)
        ck_assert_msg(strncmp(m->error.msg, s->error, strlen(s->error)) == 0, "%s",
                      m->error.msg);
    if (s->result != NULL && *s->result == '\0')
        ck_assert_uint_eq(m->body.via.map.size, 0);
    else if (s->result != NULL)
        ck_assert_msg(msg_get(&m->body, s->result) != NULL, "%s", s->method);
    if (++d.at < N_STEPS)
        ck_assert_int_eq(uv_timer_start(&d.next, send_step, 0, 0), 0);
}

/* The response is ready when its client has disconnected. */
static void ask_and_leave(void)
{
    struct err err = {0};

    rpc_client_open(&d.hasty, d.rpc);
    msg_begin_request(&d.out, 1, "checkpoint");
    msg_map(&d.out, 0);
    ck_assert_msg(rpc_client_send(&d.hasty, &d.out, &err) == 0, "%s", err.msg);
    rpc_client_close(&d.hasty);
}

static int on_open(void *ctx, struct training *t, uv_loop_t *loop, struct err *err)
{
    d.run.training = t;
    ck_assert_int_eq(uv_timer_init(loop, &d.next), 0);
    rpc_client_open(&d.client, d.rpc);
    d.client.on_message = on_reply;
    return 0;
}

static void on_event(void *ctx, const struct run_event *e)
{
    if (e->kind != RUN_EVENT_UNDER_WAY)
        return;
    ask_and_leave();
    ck_assert_int_eq(uv_timer_start(&d.next, send_step, 0, 0), 0);
}

static void on_close(void *ctx)
{
    uv_close((uv_handle_t *)&d.next, NULL);
}

START_TEST(a_run_is_driven_without_a_socket)
{
    const struct config_options options = {.env_names = env_agent_names};
    const struct training_observer observer = {
        .on_open = on_open, .on_event = on_event, .on_close = on_close};
    struct binaries binaries = {.build_id = "test"};
    struct run_config config;
    struct training_args args = {.config = &config,
                                 .binaries = &binaries,
                                 .observers = &observer,
                                 .n_observers = 1};
    struct training_result result;
    struct temp_dir dir;
    struct err err = {0};
    size_t n;
    const struct rpc_method *methods = control_methods(&n);

    temp_dir_init(&dir);
    log_init("test", LOG_LEVEL_ERROR, STDERR_FILENO);
    (void)snprintf(binaries.agent, sizeof(binaries.agent), "%s/agent/brood-agent",
                   getenv("BROOD_BUILD_DIR"));
    ck_assert_msg(run_config_parse(&config, text, strlen(text), "test", &options, &err) ==
                      0,
                  "%s", err.msg);
    ck_assert_msg(
        run_dir_create(&d.run.dir, dir.path, "driven", "driven", 0, 0700, &err) == 0,
        "%s", err.msg);
    args.dir = d.run.dir;
    d.rpc = rpc_new(methods, n, &d.run);
    msg_out_init(&d.out);
    ck_assert_msg(training_run(&args, &result, &err) == 0, "%s", err.msg);

    ck_assert_uint_eq(d.at, N_STEPS);
    ck_assert_int_eq(result.end, TRAINING_STOPPED);
    ck_assert_int_ge(result.checkpoint_step, 0);
    ck_assert_int_eq(d.hasty.n, 0);
    rpc_client_close(&d.client);
    rpc_free(d.rpc);
    msg_out_done(&d.out);
    run_dir_free(d.run.dir);
    run_config_done(&config);
    temp_dir_done(&dir);
}
END_TEST

/* README.md has a row for each method, with the names of its params. */
START_TEST(the_readme_lists_the_methods)
{
    size_t n;
    const struct rpc_method *methods = control_methods(&n);
    char path[4096], row[128], key[64];
    char *readme, *line;

    (void)snprintf(path, sizeof(path), "%s/supervisor/control/README.md",
                   getenv("BROOD_SOURCE_DIR"));
    readme = temp_dir_read(path, NULL);
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(row, sizeof(row), "\n| `%s` |", methods[i].name);
        line = strstr(readme, row);
        ck_assert_msg(line != NULL, "README.md has no row '%s'", row + 1);
        line = strndup(line, strcspn(line + 1, "\n") + 1);
        for (size_t p = 0; p < RPC_MAX_PARAMS && methods[i].params[p].key != NULL; p++) {
            (void)snprintf(key, sizeof(key), "`%s`%s", methods[i].params[p].key,
                           methods[i].params[p].required ? "" : "?");
            ck_assert_msg(strstr(line, key) != NULL, "README.md: %s has no %s",
                          methods[i].name, key);
        }
        free(line);
    }
    free(readme);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("control_methods");
    TCase *tc = tcase_create("control_methods");

    tcase_set_timeout(tc, 100);
    tcase_add_test(tc, a_run_is_driven_without_a_socket);
    tcase_add_test(tc, the_readme_lists_the_methods);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
