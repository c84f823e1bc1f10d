/* Arbitrary bytes as a configuration, with their first line also as a --set: either
 * refused with a one-line error, or the configuration can be written, read, and written
 * again with the same bytes. */
#include "common/config/changes.h"
#include "common/err/check.h"
#include "common/msg/config_msg.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static int two_agents(void *ctx, const struct env_config *env,
                      const char *const **ret_names, struct err *err)
{
    static const char *const names[] = {"agent_0", "agent_1"};

    if (strcmp(env->id, "simple_spread") != 0)
        return err_set_at(err, ERR_NOT_FOUND, ERR_AT(.key = "env.id"),
                          "unknown environment");
    *ret_names = names;
    return 2;
}

static void check_error(int code, const struct err *err)
{
    CHECK(code < 0 && err->code == code && err->msg[0] != '\0', "%d", code);
    CHECK(strchr(err->msg, '\n') == NULL, "%s", err->msg);
}

static void check_agents(const struct run_config *c)
{
    for (size_t i = 0; i < c->n_agents; i++) {
        struct arena arena = ARENA_ZERO;
        struct agent_config a;
        struct msg_out o;
        msgpack_unpacked m;
        struct err err = {0};

        msg_out_init(&o);
        msg_agent_config(&o, &c->agents[i]);
        msgpack_unpacked_init(&m);
        CHECK(msgpack_unpack_next(&m, o.buf.data, o.buf.size, NULL) ==
              MSGPACK_UNPACK_SUCCESS);
        CHECK(msg_to_agent_config(&m.data, &a, &arena, &err) == 0, "%s", err.msg);
        CHECK(agent_config_is_same(&c->agents[i], &a));
        msgpack_unpacked_destroy(&m);
        msg_out_done(&o);
        arena_done(&arena);
    }
}

static void check_round_trip(const struct run_config *c)
{
    const struct config_options options = {.env_names = two_agents};
    struct run_config back;
    struct err err = {0};
    char *text = run_config_to_yaml(c), *again;

    CHECK(run_config_parse(&back, text, strlen(text), "resolved", &options, &err) == 0,
          "%s\n%s", err.msg, text);
    again = run_config_to_yaml(&back);
    CHECK(strcmp(text, again) == 0, "%s\n%s", text, again);
    check_agents(&back);
    run_config_done(&back);
    free(again);
    free(text);
}

static void try_parse(const char *text, size_t size, const struct config_options *options)
{
    struct run_config c;
    struct err err = {0};
    int rc = run_config_parse(&c, text, size, "fuzz.yaml", options, &err);

    if (rc < 0) {
        check_error(rc, &err);
        return;
    }
    check_round_trip(&c);
    run_config_done(&c);
}

/* If the first line contains "=", passes it as a --set option for the configuration in
 * the remaining text. */
static void try_set(const char *text, size_t size)
{
    const char *end = memchr(text, '\n', size);
    char *set;

    if (end == NULL || memchr(text, '=', (size_t)(end - text)) == NULL)
        return;
    set = strndup(text, (size_t)(end - text));
    CHECK(set != NULL);
    try_parse(end + 1, size - (size_t)(end + 1 - text),
              &(struct config_options){
                  .set = (const char *const *)&set, .n_set = 1, .env_names = two_agents});
    free(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;

    try_parse(text, size, &(struct config_options){.env_names = two_agents});
    if (size > 0)
        try_set(text, size);
    return 0;
}
