/* Requests, replies and notifications, with the test's own methods and clients in
 * memory. */
#include "supervisor/control/rpc.h"
#include "tests/support/rpc_client.h"
#include "tests/support/test_main.h"

#include <uv.h>

struct table {
    struct rpc_reply *kept[4]; /* replies of `later` that are not given yet */
    int n_kept;
    int n_calls;
};

static int do_double(void *ctx, const msgpack_object *params, struct rpc_reply *reply,
                     struct err *err)
{
    struct table *t = ctx;
    struct msg_out *o;
    uint64_t v = 0;

    t->n_calls++;
    ck_assert_int_eq(msg_get_u64(params, "v", UINT64_MAX, &v, err), 0);
    o = rpc_reply_begin(reply);
    msg_map(o, 1);
    msg_put_u64(o, "v", 2 * v);
    rpc_reply_end(reply);
    return 0;
}

static int do_refuse(void *ctx, const msgpack_object *params, struct rpc_reply *reply,
                     struct err *err)
{
    return err_set(err, ERR_STATE, "not now");
}

static int do_later(void *ctx, const msgpack_object *params, struct rpc_reply *reply,
                    struct err *err)
{
    struct table *t = ctx;

    t->kept[t->n_kept++] = reply;
    return 0;
}

static int do_subscribe(void *ctx, const msgpack_object *params, struct rpc_reply *reply,
                        struct err *err)
{
    rpc_subscribe(reply, 1);
    rpc_reply_empty(reply);
    return 0;
}

static const struct rpc_method methods[] = {
    {"double",
     do_double,
     {{"v", RPC_NUMBER, 1, 2, 9},
      {"name", RPC_TEXT, 0, 0, 3},
      {"all", RPC_LIST, 0, 0, 0}}},
    {"refuse", do_refuse, {{0}}},
    {"later", do_later, {{0}}},
    {"subscribe", do_subscribe, {{0}}},
};

static struct table table;
static struct rpc *rpc;
static struct rpc_client one, two;
static struct msg_out out;

static void set_up(void)
{
    table = (struct table){0};
    rpc = rpc_new(methods, sizeof(methods) / sizeof(methods[0]), &table);
    rpc_client_open(&one, rpc);
    rpc_client_open(&two, rpc);
    msg_out_init(&out);
}

static void tear_down(void)
{
    rpc_client_close(&one);
    rpc_client_close(&two);
    rpc_free(rpc);
    msg_out_done(&out);
}

static void ask(struct rpc_client *c, uint32_t id, const char *method)
{
    struct err err = {0};

    msg_begin_request(&out, id, method);
    msg_map(&out, 0);
    ck_assert_msg(rpc_client_send(c, &out, &err) == 0, "%s", err.msg);
}

static int result_of(const struct rpc_client *c)
{
    struct err err = {0};
    uint64_t v = 0;

    ck_assert_int_eq(c->last.type, MSG_RESPONSE);
    ck_assert_int_eq(c->last.error.code, 0);
    ck_assert_int_eq(msg_get_u64(&c->last.body, "v", UINT64_MAX, &v, &err), 0);
    return (int)v;
}

START_TEST(a_method_answers_its_request)
{
    struct err err = {0};

    msg_begin_request(&out, 77, "double");
    msg_map(&out, 1);
    msg_put_u64(&out, "v", 9);
    ck_assert_int_eq(rpc_client_send(&one, &out, &err), 0);
    ck_assert_int_eq(one.n, 1);
    ck_assert_uint_eq(one.last.id, 77);
    ck_assert_int_eq(result_of(&one), 18);
    ck_assert_int_eq(two.n, 0);
}
END_TEST

static void pack_nothing(void)
{
    msg_map(&out, 0);
}

static void pack_text_for_number(void)
{
    msg_map(&out, 1);
    msg_put_str(&out, "v", "3");
}

static void pack_small(void)
{
    msg_map(&out, 1);
    msg_put_u64(&out, "v", 1);
}

static void pack_large(void)
{
    msg_map(&out, 1);
    msg_put_u64(&out, "v", 10);
}

static void pack_long_name(void)
{
    msg_map(&out, 2);
    msg_put_u64(&out, "v", 3);
    msg_put_str(&out, "name", "four");
}

static void pack_no_list(void)
{
    msg_map(&out, 2);
    msg_put_u64(&out, "v", 3);
    msg_put_u64(&out, "all", 3);
}

static const struct {
    void (*pack)(void);
    const char *text, *key;
} bad[] = {
    {pack_nothing, "v is missing", "v"},
    {pack_text_for_number, "v: expected a whole number", "v"},
    {pack_small, "v: expected at least 2", "v"},
    {pack_large, "v: 10 is more than 9", "v"},
    {pack_long_name, "name: a string of 4 bytes, at most 3 fit", "name"},
    {pack_no_list, "all: expected an array", "all"},
};

START_TEST(params_are_checked_before_the_method)
{
    struct err err = {0};

    msg_begin_request(&out, 5, "double");
    bad[_i].pack();
    ck_assert_int_eq(rpc_client_send(&one, &out, &err), 0);
    ck_assert_int_eq(one.last.error.code, ERR_PROTOCOL);
    ck_assert_str_eq(one.last.error.msg, bad[_i].text);
    ck_assert_str_eq(one.last.error.key, bad[_i].key);
    ck_assert_uint_eq(one.last.id, 5);
    ck_assert_int_eq(table.n_calls, 0);
}
END_TEST

START_TEST(errors_are_responses)
{
    ask(&one, 1, "refuse");
    ck_assert_int_eq(one.last.error.code, ERR_STATE);
    ck_assert_str_eq(one.last.error.msg, "not now");
    ask(&one, 2, "nonsense");
    ck_assert_int_eq(one.last.error.code, ERR_NOT_FOUND);
    ck_assert_str_eq(one.last.error.msg, "there is no method 'nonsense'");
    ck_assert_uint_eq(one.last.id, 2);
}
END_TEST

START_TEST(only_requests_are_taken)
{
    struct err err = {0};

    msg_begin_notification(&out, "double");
    msg_map(&out, 0);
    ck_assert_int_eq(rpc_client_send(&one, &out, &err), ERR_PROTOCOL);
    ck_assert_int_eq(rpc_take(&one.peer, (const uint8_t *)"\xc1", 1, &err), ERR_FORMAT);
    ck_assert_int_eq(one.n, 0);
}
END_TEST

START_TEST(a_reply_comes_later_and_outlives_its_client)
{
    struct err why = {0};

    ask(&one, 10, "later");
    ask(&two, 20, "later");
    ask(&one, 11, "later");
    ask(&one, 12, "later"); /* never replied to */
    ck_assert_int_eq(one.n + two.n, 0);
    rpc_reply_empty(table.kept[2]);
    ck_assert_int_eq(one.n, 1);
    ck_assert_uint_eq(one.last.id, 11);
    rpc_client_close(&two);
    rpc_reply_empty(table.kept[1]);
    ck_assert_int_eq(two.n, 0);
    (void)err_set(&why, ERR_TIMEOUT, "too late");
    rpc_reply_fail(table.kept[0], &why);
    ck_assert_int_eq(one.n, 2);
    ck_assert_uint_eq(one.last.id, 10);
    ck_assert_int_eq(one.last.error.code, ERR_TIMEOUT);
    rpc_client_open(&two, rpc);
}
END_TEST

static void notify(void)
{
    struct msg_out *o = rpc_notify_begin(rpc, 1, "news");

    ck_assert_ptr_nonnull(o);
    msg_map(o, 0);
    rpc_notify_end(rpc);
}

static void leave_both(struct rpc_client *self)
{
    if (strcmp(self->last.method, "news") != 0)
        return;
    rpc_detach(&one.peer);
    rpc_detach(&two.peer);
}

START_TEST(subscribers_get_notifications)
{
    ck_assert_ptr_null(rpc_notify_begin(rpc, 1, "news"));
    ask(&two, 1, "subscribe");
    ask(&two, 2, "subscribe");
    notify();
    ck_assert_int_eq(one.n, 0);
    ck_assert_int_eq(two.n, 3);
    ck_assert_int_eq(two.last.type, MSG_NOTIFICATION);
    rpc_client_close(&two);
    ck_assert_ptr_null(rpc_notify_begin(rpc, 1, "news"));
    rpc_client_open(&two, rpc);
    ck_assert_ptr_null(rpc_notify_begin(rpc, 1, "news"));
}
END_TEST

START_TEST(subscribers_may_leave_while_they_are_notified)
{
    ask(&one, 1, "subscribe");
    ask(&two, 2, "subscribe");
    one.on_message = two.on_message = leave_both;
    notify();
    ck_assert_int_eq(one.n + two.n, 3); /* the first one notified detached both */
    rpc_attach(rpc, &one.peer);
    rpc_attach(rpc, &two.peer);
}
END_TEST

START_TEST(time_is_limited_and_paid_back)
{
    ck_assert_int_eq(rpc_may_take(rpc), 1); /* without a limit */
    rpc_charge(rpc, uv_hrtime() - 1000000000);
    ck_assert_uint_eq(rpc_may_take_in_ms(rpc), 0);
    rpc_limit_time(rpc, 1000);
    ck_assert_int_eq(rpc_may_take(rpc), 1);
    rpc_charge(rpc, uv_hrtime() - 7000000);           /* (7 ms - 5 ms of credit) * 1000 */
    ck_assert_uint_ge(rpc_may_take_in_ms(rpc), 1000); /* some of it may have passed */
    ck_assert_int_eq(rpc_may_take(rpc), 0);
    /* as if the machine had stood still for a minute */
    rpc_charge(rpc, uv_hrtime() - 60000000000);
    ck_assert_uint_ge(rpc_may_take_in_ms(rpc), 4000);
    ck_assert_uint_le(rpc_may_take_in_ms(rpc), 5001);
    rpc_limit_time(rpc, 0);
    ck_assert_int_eq(rpc_may_take(rpc), 1);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("rpc");
    TCase *tc = tcase_create("rpc");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, a_method_answers_its_request);
    tcase_add_loop_test(tc, params_are_checked_before_the_method, 0,
                        sizeof(bad) / sizeof(bad[0]));
    tcase_add_test(tc, errors_are_responses);
    tcase_add_test(tc, only_requests_are_taken);
    tcase_add_test(tc, a_reply_comes_later_and_outlives_its_client);
    tcase_add_test(tc, subscribers_get_notifications);
    tcase_add_test(tc, subscribers_may_leave_while_they_are_notified);
    tcase_add_test(tc, time_is_limited_and_paid_back);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
