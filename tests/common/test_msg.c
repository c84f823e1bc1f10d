#include "common/msg/frame.h"
#include "common/msg/msg.h"
#include "common/msg/obs_msg.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <string.h>

static struct err err;
static struct msg_out out;
static struct msg msg;

static void setup(void)
{
    msg_out_init(&out);
    msg = (struct msg){0};
    err = (struct err){0};
}

static void teardown(void)
{
    msg_done(&msg);
    msg_out_done(&out);
}

/* Ends the message and parses it as a peer would. */
static int round_trip(void)
{
    const uint8_t *p;
    size_t len;

    msg_end(&out, &p, &len);
    ck_assert_uint_eq(p[0] | p[1] << 8 | p[2] << 16, len - FRAME_HEADER_BYTES);
    return msg_parse(&msg, p + FRAME_HEADER_BYTES, len - FRAME_HEADER_BYTES, &err);
}

START_TEST(a_request_arrives_whole)
{
    const uint64_t big = UINT64_C(0xfedcba9876543210);
    uint64_t u = 0;
    double f = 0;
    int b = 0;
    char s[8] = "";
    const void *bin = NULL;
    size_t n = 0;
    const msgpack_object *o = NULL;

    msg_begin_request(&out, 0xfffffff0, "act");
    msg_map(&out, 8);
    msg_key(&out, "u"), msg_u64(&out, big);
    msg_key(&out, "f"), msg_f64(&out, -0.1);
    msg_key(&out, "i"), msg_i64(&out, -7);
    msg_key(&out, "b"), msg_bool(&out, 1);
    msg_key(&out, "s"), msg_str(&out, "seven77");
    msg_key(&out, "bin"), msg_bin(&out, "\0\1\2", 3);
    msg_key(&out, "list"), msg_array(&out, 2), msg_u64(&out, 1), msg_nil(&out);
    msg_key(&out, "map"), msg_map(&out, 0);
    ck_assert_int_eq(round_trip(), 0);
    ck_assert_int_eq(msg.type, MSG_REQUEST);
    ck_assert_uint_eq(msg.id, 0xfffffff0);
    ck_assert_str_eq(msg.method, "act");
    ck_assert_int_eq(msg_get_u64(&msg.body, "u", UINT64_MAX, &u, &err), 0);
    ck_assert(u == big);
    ck_assert_int_eq(msg_get_f64(&msg.body, "f", &f, &err), 0);
    ck_assert(f == -0.1);
    ck_assert_int_eq(msg_get_f64(&msg.body, "i", &f, &err), 0);
    ck_assert(f == -7.0);
    ck_assert_int_eq(msg_get_bool(&msg.body, "b", &b, &err), 0);
    ck_assert_int_eq(b, 1);
    ck_assert_int_eq(msg_get_str(&msg.body, "s", s, sizeof(s), &err), 0);
    ck_assert_str_eq(s, "seven77");
    ck_assert_int_eq(msg_get_bin(&msg.body, "bin", &bin, &n, &err), 0);
    ck_assert_uint_eq(n, 3);
    ck_assert_mem_eq(bin, "\0\1\2", 3);
    ck_assert_int_eq(msg_get_array(&msg.body, "list", &o, &err), 0);
    ck_assert_uint_eq(o->via.array.size, 2);
    ck_assert_int_eq(msg_get_map(&msg.body, "map", &o, &err), 0);
    ck_assert_uint_eq(o->via.map.size, 0);
    ck_assert_int_eq(msg_require(&msg.body, "map", &err), 0);
}
END_TEST

START_TEST(responses_and_notifications_arrive)
{
    msg_begin_response(&out, 7);
    msg_nil(&out);
    ck_assert_int_eq(round_trip(), 0);
    ck_assert_int_eq(msg.type, MSG_RESPONSE);
    ck_assert_uint_eq(msg.id, 7);
    ck_assert_int_eq(msg.error.code, 0);
    ck_assert_int_eq(msg.body.type, MSGPACK_OBJECT_NIL);
    msg_done(&msg);

    msg_begin_notification(&out, "hello");
    msg_map(&out, 0);
    ck_assert_int_eq(round_trip(), 0);
    ck_assert_int_eq(msg.type, MSG_NOTIFICATION);
    ck_assert_str_eq(msg.method, "hello");
}
END_TEST

/* Clients that know only positional arguments send params in an array. */
START_TEST(params_may_be_in_an_array)
{
    uint64_t u = 0;

    msg_begin_request(&out, 7, "kill");
    msg_array(&out, 1);
    msg_map(&out, 1);
    msg_key(&out, "u"), msg_u64(&out, 5);
    ck_assert_int_eq(round_trip(), 0);
    ck_assert_int_eq(msg_get_u64(&msg.body, "u", 10, &u, &err), 0);
    ck_assert(u == 5);
    msg_done(&msg);

    msg_begin_request(&out, 7, "kill");
    msg_array(&out, 0);
    ck_assert_int_eq(round_trip(), 0);
    ck_assert_int_eq(msg.body.type, MSGPACK_OBJECT_NIL);
    msg_done(&msg);

    msg_begin_request(&out, 7, "kill");
    msg_array(&out, 2);
    msg_map(&out, 0);
    msg_map(&out, 0);
    ck_assert_int_eq(round_trip(), ERR_PROTOCOL);
}
END_TEST

START_TEST(errors_travel)
{
    const struct err sent = {.code = ERR_SHAPE, .msg = "3 is not 4"};

    msg_error_response(&out, 9, &sent);
    ck_assert_int_eq(round_trip(), 0);
    ck_assert_uint_eq(msg.id, 9);
    ck_assert_int_eq(msg.error.code, ERR_SHAPE);
    ck_assert_str_eq(msg.error.msg, "3 is not 4");
    ck_assert_int_eq(msg.body.type, MSGPACK_OBJECT_NIL);
}
END_TEST

/* The place and the cause of an error survive the transport, even if it was wrapped
 * before. */
START_TEST(errors_travel_with_their_place)
{
    struct err sent = {0};
    const uint8_t *p;
    size_t len;

    (void)err_set_at(&sent, ERR_CONFIG,
                     ERR_AT(.file = "f.yaml", .line = 3, .key = "env.id",
                            .agent = "agent_0", .tensor = "w:0"),
                     "no such world");
    (void)err_wrap(&sent, "trial");
    msg_error_response(&out, 9, &sent);
    ck_assert_int_eq(round_trip(), 0);
    ck_assert_int_eq(msg.error.code, ERR_CONFIG);
    ck_assert_int_eq(msg.error.from_peer, 1);
    ck_assert_str_eq(msg.error.msg, "trial: f.yaml:3: env.id: no such world");
    ck_assert_str_eq(err_cause(&msg.error), "no such world");
    ck_assert_str_eq(msg.error.file, "f.yaml");
    ck_assert_int_eq(msg.error.line, 3);
    ck_assert_str_eq(msg.error.key, "env.id");
    ck_assert_str_eq(msg.error.agent, "agent_0");
    ck_assert_str_eq(msg.error.tensor, "w:0");

    msg_begin_response(&out, 10); /* nothing of the error remains in the next message */
    msg_map(&out, 0);
    msg_end(&out, &p, &len);
    ck_assert_int_eq(
        msg_reparse(&msg, p + FRAME_HEADER_BYTES, len - FRAME_HEADER_BYTES, &err), 0);
    ck_assert_int_eq(msg.error.code, 0);
    ck_assert_str_eq(msg.error.key, "");
}
END_TEST

START_TEST(a_false_place_does_no_harm)
{
    static const char long_text[] =
        "............................................................................"
        "............................................................................";
    struct err refused = {0};

    msg_begin_response(&out, 1);
    msg_map(&out, 1);
    msg_key(&out, "refused");
    msg_map(&out, 5);
    msg_put_i64(&out, "code", ERR_STATE);
    msg_put_str(&out, "message", "no");
    msg_put_str(&out, "cause", "longer than the message");
    msg_put_u64(&out, "line", UINT64_MAX);
    msg_put_str(&out, "key", long_text);
    ck_assert_int_eq(round_trip(), 0);
    ck_assert_int_eq(msg_refused(&msg.body, &refused), ERR_STATE);
    ck_assert_str_eq(err_cause(&refused), "no");
    ck_assert_int_eq(refused.line, 0);
    ck_assert_uint_eq(strlen(refused.key), ERR_NAME_BYTES - 1);
    ck_assert_str_eq(refused.file, "");
}
END_TEST

/* Other msgpack-rpc peers put any object in the error place. */
START_TEST(foreign_errors_are_errors)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *text;
    } cases[] = {
        {"\x94\1\5\xa3"
         "bad\xc0",
         8, "bad"},
        {"\x94\1\5\xc3\xc0", 5, "unnamed error"},
        {"\x94\1\5\x81\xa4"
         "code\7\xc0",
         11, "unnamed error"},
        {"\x94\1\5\x81\xa4"
         "code\xd3\x80\0\0\0\0\0\0\0\xc0",
         19, "unnamed error"},
    };

    ck_assert_int_eq(msg_parse(&msg, cases[_i].bytes, cases[_i].len, &err), 0);
    ck_assert_int_eq(msg.error.code, ERR_AGENT);
    ck_assert_str_eq(msg.error.msg, cases[_i].text);
}
END_TEST

START_TEST(a_long_error_text_is_cut)
{
    struct err sent = {.code = ERR_IO};

    memset(sent.msg, 'x', sizeof(sent.msg) - 1);
    msg_error_response(&out, 1, &sent);
    ck_assert_int_eq(round_trip(), 0);
    ck_assert_uint_eq(strlen(msg.error.msg), sizeof(msg.error.msg) - 1);
}
END_TEST

START_TEST(accessors_refuse_with_the_key)
{
    uint64_t u = 5;
    double f = 5;
    int b = 5;
    char s[4] = "old";
    const void *bin = NULL;
    size_t n = 5;
    const msgpack_object *o = NULL;
    struct tensor t = TENSOR_NONE;

    msg_begin_request(&out, 1, "m");
    msg_map(&out, 5);
    msg_key(&out, "str"), msg_str(&out, "four");
    msg_key(&out, "num"), msg_u64(&out, 11);
    msg_key(&out, "neg"), msg_i64(&out, -1);
    msg_key(&out, "nil"), msg_nil(&out);
    msg_key(&out, "nul"), (void)msgpack_pack_str_with_body(&out.pk, "a\0b", 3);
    ck_assert_int_eq(round_trip(), 0);

#define REFUSED(call, key)                                                               \
    do {                                                                                 \
        err = (struct err){0};                                                           \
        ck_assert_int_eq(call, ERR_PROTOCOL);                                            \
        ck_assert_ptr_nonnull(strstr(err.msg, key));                                     \
    } while (0)
    REFUSED(msg_get_u64(&msg.body, "str", 99, &u, &err), "str");
    REFUSED(msg_get_u64(&msg.body, "neg", 99, &u, &err), "neg");
    REFUSED(msg_get_u64(&msg.body, "num", 10, &u, &err), "num");
    REFUSED(msg_get_f64(&msg.body, "str", &f, &err), "str");
    REFUSED(msg_get_bool(&msg.body, "num", &b, &err), "num");
    REFUSED(msg_get_str(&msg.body, "num", s, sizeof(s), &err), "num");
    REFUSED(msg_get_str(&msg.body, "str", s, sizeof(s), &err), "str");
    REFUSED(msg_get_str(&msg.body, "nul", s, sizeof(s), &err), "nul");
    REFUSED(msg_get_bin(&msg.body, "str", &bin, &n, &err), "str");
    REFUSED(msg_get_map(&msg.body, "str", &o, &err), "str");
    REFUSED(msg_get_array(&msg.body, "str", &o, &err), "str");
    REFUSED(msg_get_tensor(&msg.body, "str", &t, &err), "str");
    REFUSED(msg_require(&msg.body, "nil", &err), "nil");
    REFUSED(msg_require(&msg.body, "gone", &err), "gone");
#undef REFUSED
    /* absent or nil: the result is unchanged */
    ck_assert_int_eq(msg_get_u64(&msg.body, "gone", 99, &u, &err), 0);
    ck_assert_int_eq(msg_get_f64(&msg.body, "nil", &f, &err), 0);
    ck_assert_int_eq(msg_get_bool(&msg.body, "nil", &b, &err), 0);
    ck_assert_int_eq(msg_get_str(&msg.body, "gone", s, sizeof(s), &err), 0);
    ck_assert_int_eq(msg_get_bin(&msg.body, "gone", &bin, &n, &err), 0);
    ck_assert_int_eq(msg_get_map(&msg.body, "gone", &o, &err), 0);
    ck_assert_int_eq(msg_get_array(&msg.body, "gone", &o, &err), 0);
    ck_assert_int_eq(msg_get_tensor(&msg.body, "gone", &t, &err), 0);
    ck_assert(u == 5 && f == 5 && b == 5 && n == 5 && bin == NULL && o == NULL);
    ck_assert_str_eq(s, "old");
    ck_assert_ptr_null(msg_get(NULL, "x"));
}
END_TEST

/* Elements can be read in place at any offset in the message. */
START_TEST(tensors_arrive_aligned_at_any_offset)
{
    static const double values[6] = {1, -2, 3e300, 0.1, -0.0, 6};
    static const char pad[] = "01234567";
    const struct tensor sent = tensor_const_view(DT_DOUBLE, SHAPE(2, 3), values);
    struct tensor got = TENSOR_NONE;

    msg_begin_response(&out, 1);
    msg_map(&out, 2);
    msg_key(&out, "pad"), msg_bin(&out, pad, (size_t)_i);
    msg_key(&out, "t"), msg_tensor(&out, &sent);
    ck_assert_int_eq(round_trip(), 0);
    ck_assert_int_eq(msg_get_tensor(&msg.body, "t", &got, &err), 0);
    ck_assert_uint_eq((uintptr_t)got.data % sizeof(double), 0);
    ck_assert_int_eq(got.owned, 0);
    ck_assert(tensor_equal(&sent, &got));
}
END_TEST

START_TEST(tensors_may_be_packed_in_pieces_or_empty)
{
    static const float v[4] = {1, 2, 3, 4};
    const struct shape shape = SHAPE(2, 2), none = SHAPE(0, 5);
    struct tensor t = TENSOR_NONE;

    msg_begin_response(&out, 1);
    msg_map(&out, 3);
    msg_key(&out, "t"), msg_tensor_begin(&out, DT_FLOAT, &shape);
    msg_bin_body(&out, v, 4);
    msg_bin_body(&out, v + 1, 12);
    msg_key(&out, "e"), msg_tensor(&out, &(struct tensor){DT_FLOAT, none, NULL, 0});
    msg_key(&out, "s");
    t = tensor_scalar_f32(&v[2]);
    msg_tensor(&out, &t);
    ck_assert_int_eq(round_trip(), 0);
    ck_assert_int_eq(msg_get_tensor(&msg.body, "t", &t, &err), 0);
    ck_assert_mem_eq(t.data, v, sizeof(v));
    ck_assert_int_eq(msg_get_tensor(&msg.body, "e", &t, &err), 0);
    ck_assert_int_eq(tensor_elements(&t), 0);
    ck_assert_int_eq(msg_get_tensor(&msg.body, "s", &t, &err), 0);
    ck_assert(t.shape.rank == 0 && *tensor_f32(&t) == 3.0f);
}
END_TEST

START_TEST(strings_arrive_in_memory_of_their_own)
{
    struct tensor_string strings[] = {{(char[]){"a\0b"}, 3}, {NULL, 0}};
    const struct tensor sent = tensor_view(DT_STRING, SHAPE(2, 1), strings);
    struct tensor got = TENSOR_NONE;
    const msgpack_object *o;

    msg_begin_response(&out, 1);
    msg_map(&out, 4);
    msg_key(&out, "t"), msg_tensor(&out, &sent);
    msg_key(&out, "few"), msg_array(&out, 3), msg_u64(&out, DT_STRING);
    msg_array(&out, 1), msg_u64(&out, 2), msg_array(&out, 1), msg_bin(&out, "x", 1);
    msg_key(&out, "odd"), msg_array(&out, 3), msg_u64(&out, DT_STRING);
    msg_array(&out, 0), msg_array(&out, 1), msg_u64(&out, 7);
    msg_key(&out, "f");
    msg_tensor(&out, &(struct tensor){DT_FLOAT, SHAPE(0), NULL, 0});
    ck_assert_int_eq(round_trip(), 0);
    o = msg_get(&msg.body, "t");
    ck_assert_int_eq(msg_to_any_tensor(o, "t", &got, &err), 0);
    ck_assert(got.owned && tensor_equal(&sent, &got));
    tensor_free(&got);
    ck_assert_int_eq(msg_to_tensor(o, "t", &got, &err), ERR_PROTOCOL);
    ck_assert_int_eq(msg_to_any_tensor(msg_get(&msg.body, "few"), "few", &got, &err),
                     ERR_PROTOCOL);
    ck_assert_int_eq(msg_to_any_tensor(msg_get(&msg.body, "odd"), "odd", &got, &err),
                     ERR_PROTOCOL);
    ck_assert_int_eq(msg_to_any_tensor(msg_get(&msg.body, "f"), "f", &got, &err), 0);
    ck_assert_int_eq(got.owned, 0);
}
END_TEST

static void pack_tensor(uint64_t dtype, size_t rank, const uint64_t *dims, size_t bytes)
{
    static const char zeros[64];

    msg_begin_response(&out, 1);
    msg_map(&out, 1);
    msg_key(&out, "t");
    msg_array(&out, 3);
    msg_u64(&out, dtype);
    msg_array(&out, rank);
    for (size_t i = 0; i < rank; i++)
        msg_u64(&out, dims[i]);
    msg_bin(&out, zeros, bytes);
}

/* ---- parts of an observation ---- */

/* Of 2 observations of 20 numbers: alone, and behind 3 numbers. */
START_TEST(images_arrive)
{
    static const struct image_part sent[] = {{{4, 5, 1}, 0, 1}, {{2, 2, 3}, 3, 1}};
    const int is_whole = _i == 0;
    struct image_part is;

    msg_begin_request(&out, 1, "configure");
    msg_map(&out, 1);
    msg_put_image(&out, &sent[_i], 20, 2);
    ck_assert_int_eq(round_trip(), 0);
    ck_assert_int_eq(msg_get_image(&msg.body, 40, 2, is_whole, &is, &err), 0);
    ck_assert_int_eq(is.shape[2], is_whole ? 2 : 3); /* channels of both: of each */
    is.shape[2] = sent[_i].shape[2];
    ck_assert(image_is_same(&is, &sent[_i]));
}
END_TEST

START_TEST(wrong_images_are_refused)
{
    static const struct {
        uint64_t shape[4], at;
        size_t n;
        int is_part;
    } wrong[] = {
        {{4, 5}, 0, 2, 0},
        {{4, 5, 1, 1}, 0, 4, 0},
        {{4, 5, 2}, 0, 3, 0},
        {{4, 4, 1}, 0, 3, 0},
        {{0, 5, 1}, 0, 3, 1},
        {{4, 5, 1}, 1, 3, 1},
        {{1, 1, 1}, 20, 3, 1},
        {{1, 1, 1}, UINT64_MAX, 3, 1},
        {{UINT64_C(1) << 32, UINT64_C(1) << 32, 1}, 0, 3, 1},
        {{0}, 0, 0, 1},
    };
    struct image_part is;

    msg_begin_request(&out, 1, "configure");
    msg_map(&out, 1);
    if (wrong[_i].is_part) {
        msg_key(&out, "image_part");
        msg_map(&out, wrong[_i].n > 0 ? 2 : 1);
        msg_put_u64(&out, "at", wrong[_i].at);
    }
    if (wrong[_i].n > 0) {
        msg_key(&out, wrong[_i].is_part ? "shape" : "image");
        msg_array(&out, wrong[_i].n);
        for (size_t i = 0; i < wrong[_i].n; i++)
            msg_u64(&out, wrong[_i].shape[i]);
    }
    ck_assert_int_eq(round_trip(), 0);
    ck_assert_int_eq(msg_get_image(&msg.body, 20, 1, 0, &is, &err), ERR_PROTOCOL);
}
END_TEST

START_TEST(wrong_tensors_are_refused)
{
    static const struct {
        uint64_t dtype;
        size_t rank;
        uint64_t dims[9];
        size_t bytes;
    } cases[] = {
        {DT_FLOAT, 1, {3}, 16},
        {DT_FLOAT, 1, {3}, 8},
        {DT_FLOAT, 1, {UINT64_MAX}, 8},
        {DT_FLOAT, 2, {UINT64_C(1) << 62, 4}, 0},
        {DT_FLOAT, 2, {UINT64_C(1) << 31, UINT64_C(1) << 31}, 0},
        {DT_FLOAT, 9, {1, 1, 1, 1, 1, 1, 1, 1, 1}, 4},
        {DT_STRING, 1, {1}, 4},
        {0, 1, {1}, 4},
        {UINT64_MAX, 1, {1}, 4},
        {99, 1, {1}, 4},
    };
    struct tensor t = TENSOR_NONE;

    pack_tensor(cases[_i].dtype, cases[_i].rank, cases[_i].dims, cases[_i].bytes);
    ck_assert_int_eq(round_trip(), 0);
    ck_assert_int_eq(msg_get_tensor(&msg.body, "t", &t, &err), ERR_PROTOCOL);
    ck_assert_ptr_eq(strstr(err.msg, "t: "), err.msg);
    ck_assert_ptr_null(t.data);
}
END_TEST

#define BYTES(s) (s), sizeof(s) - 1

START_TEST(what_is_no_message_is_refused)
{
    static const struct {
        const char *bytes;
        size_t len;
        int code;
    } cases[] = {
        {BYTES(""), ERR_FORMAT},
        {BYTES("\xdd\xff\0\0\0"), ERR_FORMAT},
        {BYTES("\xdf\xff\xff\xff\xff\1"), ERR_FORMAT},
        {BYTES("\xc6\xff\xff\xff\xff\1"), ERR_FORMAT},
        {BYTES("\xc1"), ERR_FORMAT},
        {BYTES("\x93\2\xa1"), ERR_FORMAT},
        {BYTES("\x93\2\xa1x\x80\xc0"), ERR_FORMAT},        /* one byte too many */
        {BYTES("\x92\xdc\0\3\xdc\0\3\1\1\1"), ERR_FORMAT}, /* 6 promised, 5 left */
        {BYTES("\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\1"),
         ERR_LIMIT},
        {BYTES("\5"), ERR_PROTOCOL},
        {BYTES("\x90"), ERR_PROTOCOL},
        {BYTES("\x80"), ERR_PROTOCOL},
        {BYTES("\x93\3\xa1x\x80"), ERR_PROTOCOL},     /* type 3 */
        {BYTES("\x93\xff\xa1x\x80"), ERR_PROTOCOL},   /* type -1 */
        {BYTES("\x93\0\1\xa1x"), ERR_PROTOCOL},       /* a request of 3 */
        {BYTES("\x94\2\1\xa1x\x80"), ERR_PROTOCOL},   /* a notification of 4 */
        {BYTES("\x94\0\xff\xa1x\x80"), ERR_PROTOCOL}, /* id -1 */
        {BYTES("\x94\0\xcf\0\0\0\1\0\0\0\0\xa1x\x80"), ERR_PROTOCOL}, /* id 2^32 */
        {BYTES("\x93\2\xa0\x80"), ERR_PROTOCOL},                      /* method "" */
        {BYTES("\x93\2\xa2x\0\x80"), ERR_PROTOCOL},                   /* method "x\0" */
        {BYTES("\x93\2\1\x80"), ERR_PROTOCOL},                        /* method 1 */
        {BYTES("\x93\2\xa1x\x90"), ERR_PROTOCOL},                     /* params [] */
        {BYTES("\x94\0\1\xa1x\x91\1"), ERR_PROTOCOL},                 /* params [1] */
        {BYTES("\x94\1\1\xc0\1"), ERR_PROTOCOL},                      /* result 1 */
    };

    ck_assert_int_eq(msg_parse(&msg, cases[_i].bytes, cases[_i].len, &err),
                     cases[_i].code);
    ck_assert_int_eq(msg.has_zone, 0);
    ck_assert_str_ne(err.msg, "");
}
END_TEST

START_TEST(a_method_has_a_longest_name)
{
    char name[sizeof(msg.method) + 1];

    memset(name, 'm', sizeof(name));
    name[sizeof(msg.method) - 1] = '\0';
    msg_begin_notification(&out, name);
    msg_nil(&out);
    ck_assert_int_eq(round_trip(), 0);
    ck_assert_str_eq(msg.method, name);
    msg_done(&msg);
    name[sizeof(msg.method) - 1] = 'm';
    name[sizeof(msg.method)] = '\0';
    msg_begin_notification(&out, name);
    msg_nil(&out);
    ck_assert_int_eq(round_trip(), ERR_PROTOCOL);
}
END_TEST

START_TEST(objects_are_counted)
{
    for (size_t extra = 0; extra < 2; extra++) {
        /* the objects around the values: outer array, type, method, map, key, array */
        size_t n = MSG_MAX_OBJECTS - 6 + extra;

        msg_begin_notification(&out, "m");
        msg_map(&out, 1);
        msg_key(&out, "k");
        msg_array(&out, n);
        for (size_t i = 0; i < n; i++)
            msg_u64(&out, 1);
        ck_assert_int_eq(round_trip(), extra ? ERR_LIMIT : 0);
        msg_done(&msg);
    }
}
END_TEST

START_TEST(every_kind_of_object_is_walked)
{
    static const char *const kinds[] = {
        "00",
        "7f",
        "80",
        "8101c0",
        "90",
        "9101",
        "a0",
        "a161",
        "c0",
        "c2",
        "c3",
        "c40101",
        "c5000101",
        "c60000000101",
        "c7010501",
        "c800010501",
        "c9000000010501",
        "ca00000000",
        "cb0000000000000000",
        "cc01",
        "cd0001",
        "ce00000001",
        "cf0000000000000001",
        "d001",
        "d10001",
        "d200000001",
        "d30000000000000001",
        "d40501",
        "d5050101",
        "d60501010101",
        "d7050101010101010101",
        "d80501010101010101010101010101010101",
        "d90161",
        "da000161",
        "db0000000161",
        "dc000101",
        "dd0000000101",
        "de00010101",
        "df000000010101",
        "e0",
        "ff",
        /* signs, the last bit, halves */
        "ccff",
        "cfffffffffffffffff",
        "d0ff",
        "d18000",
        "d2fffffffe",
        "d38000000000000000",
        "ca3fc00000",
        "cbbff8000000000000",
        "d5ff0102",
    };
    msgpack_object ours, theirs;
    msgpack_zone zone;
    uint8_t b[32];

    ck_assert(msgpack_zone_init(&zone, MSGPACK_ZONE_CHUNK_SIZE));
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        size_t n = strlen(kinds[i]) / 2;

        for (size_t j = 0; j < n; j++) {
            unsigned v;

            ck_assert_int_eq(sscanf(kinds[i] + 2 * j, "%2x", &v), 1);
            b[j] = (uint8_t)v;
        }
        for (size_t cut = 0; cut < n; cut++)
            ck_assert_int_eq(msg_unpack(b, cut, &zone, &ours, &err), ERR_FORMAT);
        ck_assert_int_eq(msg_unpack(b, n + 1, &zone, &ours, &err), ERR_FORMAT);
        ck_assert_int_eq(msg_unpack(b, n, &zone, &ours, &err), 0);
        ck_assert_int_eq(msgpack_unpack((const char *)b, n, NULL, &zone, &theirs),
                         MSGPACK_UNPACK_SUCCESS);
        ck_assert_int_eq(ours.type, theirs.type);
        ck_assert(msgpack_object_equal(ours, theirs));
    }
    msgpack_zone_destroy(&zone);
}
END_TEST

START_TEST(a_loop_reuses_its_memory)
{
    static const float v[64] = {1};
    const struct tensor t = tensor_const_view(DT_FLOAT, SHAPE(64), v);
    const void *chunk = NULL;

    for (int i = 0; i < 100; i++) {
        const uint8_t *p;
        size_t len;

        msg_begin_request(&out, (uint32_t)i, "act");
        msg_map(&out, 1);
        msg_key(&out, "obs"), msg_tensor(&out, &t);
        msg_end(&out, &p, &len);
        ck_assert_int_eq(
            msg_reparse(&msg, p + FRAME_HEADER_BYTES, len - FRAME_HEADER_BYTES, &err), 0);
        ck_assert_uint_eq(msg.id, (uint32_t)i);
        if (i > 0)
            ck_assert_ptr_eq(msg.body.via.map.ptr, chunk);
        chunk = msg.body.via.map.ptr;
    }
    /* a refused message leaves nothing of the previous one */
    ck_assert_int_lt(msg_reparse(&msg, "\xc1", 1, &err), 0);
    ck_assert_int_eq(msg.body.type, MSGPACK_OBJECT_NIL);
    ck_assert_str_eq(msg.method, "");
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("msg");
    TCase *tc = tcase_create("msg");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_request_arrives_whole);
    tcase_add_test(tc, responses_and_notifications_arrive);
    tcase_add_test(tc, params_may_be_in_an_array);
    tcase_add_test(tc, errors_travel);
    tcase_add_loop_test(tc, foreign_errors_are_errors, 0, 4);
    tcase_add_test(tc, errors_travel_with_their_place);
    tcase_add_test(tc, a_false_place_does_no_harm);
    tcase_add_test(tc, a_long_error_text_is_cut);
    tcase_add_test(tc, accessors_refuse_with_the_key);
    tcase_add_loop_test(tc, tensors_arrive_aligned_at_any_offset, 0, 9);
    tcase_add_test(tc, tensors_may_be_packed_in_pieces_or_empty);
    tcase_add_test(tc, strings_arrive_in_memory_of_their_own);
    tcase_add_loop_test(tc, images_arrive, 0, 2);
    tcase_add_loop_test(tc, wrong_images_are_refused, 0, 10);
    tcase_add_loop_test(tc, wrong_tensors_are_refused, 0, 10);
    tcase_add_loop_test(tc, what_is_no_message_is_refused, 0, 23);
    tcase_add_test(tc, a_method_has_a_longest_name);
    tcase_add_test(tc, objects_are_counted);
    tcase_add_test(tc, every_kind_of_object_is_walked);
    tcase_add_test(tc, a_loop_reuses_its_memory);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
