/* loop_help.h - helpers of the tests of an agent's message loop. */
#ifndef TESTS_AGENT_LOOP_HELP_H
#define TESTS_AGENT_LOOP_HELP_H

#include "tests/support/agent_process.h"

#include <check.h>
#include <sys/wait.h>

static inline void check_exited(int status, int code)
{
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == code, "status %x", status);
}

static inline void check_hello(struct agent_process *p)
{
    ck_assert_int_eq(agent_process_read(p), 1);
    ck_assert_int_eq(p->reply.type, MSG_NOTIFICATION);
    ck_assert_str_eq(p->reply.method, "hello");
}

static inline int call_empty(struct agent_process *p, const char *method)
{
    msg_map(agent_process_request(p, method), 0);
    return agent_process_call(p);
}

static inline float fetch_variable(struct agent_process *p, const char *name)
{
    struct msg_out *o = agent_process_request(p, "run");
    const msgpack_object *list = NULL;
    struct tensor t;
    struct err err;

    msg_map(o, 1);
    msg_key(o, "fetches");
    msg_array(o, 1);
    msg_str(o, name);
    ck_assert_msg(agent_process_call(p) == 0, "%s", p->reply.error.msg);
    ck_assert_int_eq(msg_get_array(&p->reply.body, "fetched", &list, &err), 0);
    ck_assert_int_eq(msg_to_tensor(&list->via.array.ptr[0], name, &t, &err), 0);
    return *tensor_f32(&t);
}

/* Sends a `run` with one name under one key. Returns the code of the refusal, or 0. */
static inline int run_one(struct agent_process *p, const char *key, const char *name,
                          struct err *why)
{
    struct msg_out *o = agent_process_request(p, "run");

    msg_map(o, 1);
    msg_key(o, key);
    msg_array(o, 1);
    msg_str(o, name);
    ck_assert_msg(agent_process_call(p) == 0, "%s", p->reply.error.msg);
    *why = (struct err){0};
    return msg_refused(&p->reply.body, why);
}

#endif
