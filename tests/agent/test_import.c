#include "agent/graph/ops.h"
#include "agent/saver/metagraph_export.h"
#include "common/msg/protocol.h"
#include "tests/agent/loop_help.h"
#include "tests/support/metagraph_check.h"
#include "tests/support/test_main.h"

#include <unistd.h>

/* v = 2; `inc` adds 1 to it, `stir` a draw. */
static void export_counter(struct wbuf *b)
{
    struct graph *g = graph_new();
    const float two = 2, one = 1;
    const struct tensor first = tensor_scalar_f32(&two), step = tensor_scalar_f32(&one);
    struct variable *v = variable_new_constant(g, &first, "v", 0);

    (void)variable_assign_add(v, constant(g, &step, "one"), "inc");
    (void)variable_assign_add(
        v, random_uniform_of(g, DT_FLOAT, &SHAPE_SCALAR, 0, 1, "draw"), "stir");
    (void)global_variables_initializer(g, "init");
    ck_assert_ptr_null(graph_error(g));
    metagraph_export(b, g, NULL, NULL);
    graph_free(g);
}

static void import_counter(struct agent_process *p, int block_fd, int restored)
{
    struct wbuf b = {0};
    struct msg_out *o;

    export_counter(&b);
    agent_process_start(p, "graph", block_fd, -1);
    check_hello(p);
    o = agent_process_request(p, "import");
    msg_map(o, 4);
    msg_put_str(o, "name", "graph");
    msg_put_u64(o, "seed", 3);
    msg_put_bool(o, "restored", restored);
    msg_key(o, "metagraph");
    msg_bin(o, b.data, b.len);
    ck_assert_msg(agent_process_call(p) == 0, "%s", p->reply.error.msg);
    wbuf_done(&b);
}

static void run_target(struct agent_process *p, const char *name, uint64_t counter)
{
    struct msg_out *o = agent_process_request(p, "run");
    struct err why;

    msg_map(o, 2);
    msg_key(o, "targets");
    msg_array(o, 1);
    msg_str(o, name);
    msg_put_u64(o, "counter", counter);
    ck_assert_msg(agent_process_call(p) == 0, "%s", p->reply.error.msg);
    ck_assert_msg(msg_refused(&p->reply.body, &why) == 0, "%s", why.msg);
}

/* What a request wrote is in the block; repeating the requests gives the same bits. */
START_TEST(test_import_and_respawn)
{
    const int block = agent_process_block();
    const msgpack_object *list = NULL;
    struct agent_process p;
    struct err err;
    float before, after;

    import_counter(&p, block, 0);
    ck_assert_int_eq(msg_get_array(&p.reply.body, "uninitialized", &list, &err), 0);
    ck_assert(list->via.array.size == 1 && msg_str_is(&list->via.array.ptr[0], "v"));
    ck_assert_int_eq(run_one(&p, "fetches", "v/read:0", &err), ERR_UNINITIALIZED);
    run_target(&p, "init", 4);
    run_target(&p, "inc", 5);
    ck_assert_float_eq(fetch_variable(&p, "v/read:0"), 3);
    run_target(&p, "stir", 6);
    before = fetch_variable(&p, "v/read:0");
    ck_assert_float_gt(before, 3);
    check_exited(agent_process_end(&p), AGENT_EXIT_DONE);

    import_counter(&p, block, 1);
    ck_assert_float_eq(fetch_variable(&p, "v/read:0"), before);
    run_target(&p, "stir", 7);
    after = fetch_variable(&p, "v/read:0");
    check_exited(agent_process_end(&p), AGENT_EXIT_DONE);

    import_counter(&p, -1, 0);
    run_target(&p, "init", 4);
    run_target(&p, "inc", 5);
    run_target(&p, "stir", 6);
    run_target(&p, "stir", 7);
    ck_assert_float_eq(fetch_variable(&p, "v/read:0"), after);
    check_exited(agent_process_end(&p), AGENT_EXIT_DONE);
    (void)close(block);
}
END_TEST

START_TEST(test_import_refuses_what_is_no_graph)
{
    struct agent_process p;
    struct msg_out *o;
    struct err why;

    agent_process_start(&p, "graph", -1, -1);
    check_hello(&p);
    o = agent_process_request(&p, "import");
    msg_map(o, 1);
    msg_key(o, "metagraph");
    msg_bin(o, "no graph", 8);
    ck_assert_int_eq(agent_process_call(&p), 0);
    ck_assert_int_eq(msg_refused(&p.reply.body, &why), ERR_FORMAT);
    ck_assert_int_eq(call_empty(&p, "import"), ERR_PROTOCOL);
    ck_assert_int_eq(call_empty(&p, "run"), ERR_STATE);
    check_exited(agent_process_end(&p), AGENT_EXIT_DONE);
}
END_TEST

/* Every process exports the same graph, in a form that TensorFlow accepts. */
START_TEST(test_an_agent_tells_its_graph)
{
    struct wbuf first = {0};
    struct err err;

    for (int i = 0; i < 2; i++) {
        struct agent_process p;
        const void *data = NULL;
        size_t len = 0;

        agent_process_start(&p, "agent_0", -1, -1);
        check_hello(&p);
        ck_assert_int_eq(agent_process_configure(&p, "{}", 2, 0, 0), 0);
        for (int k = 0; k < 2; k++) {
            ck_assert_int_eq(call_empty(&p, "metagraph"), 0);
            ck_assert_int_eq(msg_get_bin(&p.reply.body, "metagraph", &data, &len, &err),
                             0);
            ck_assert_msg(metagraph_check(data, len, NULL, 0, &err) == 0, "%s", err.msg);
            if (first.len == 0)
                wbuf_bytes(&first, data, len);
            ck_assert_uint_eq(len, first.len);
            ck_assert_mem_eq(data, first.data, len);
        }
        check_exited(agent_process_end(&p), AGENT_EXIT_DONE);
    }
    wbuf_done(&first);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("import");
    TCase *tc = tcase_create("import");

    tcase_add_test(tc, test_import_and_respawn);
    tcase_add_test(tc, test_import_refuses_what_is_no_graph);
    tcase_add_test(tc, test_an_agent_tells_its_graph);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
