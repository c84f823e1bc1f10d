/* Messages between supervisor and node: packed messages are read back, and no message of
 * a peer is read beyond its end. */
#include "common/config/cluster_config.h"
#include "supervisor/node/node_protocol.h"
#include "supervisor/node/placement.h"
#include "supervisor/proc/proc.h"
#include "tests/support/test_main.h"

#include <stdlib.h>
#include <string.h>

static const struct node_hello hello = {.protocol = NODE_PROTOCOL_VERSION,
                                        .numerics = 1,
                                        .pid = 4711,
                                        .cores = 64,
                                        .memory_bytes = UINT64_C(1) << 40,
                                        .build_id = "0123abcd",
                                        .version = "1",
                                        .host = "b.example",
                                        .boot = "x",
                                        .identity = {"study/3:0f", 2, 5}};
static const struct node_open opening = {
    .name = "agent_0", .role = "learner", .group = 3, .member = 1, .members = 2};
static const char command[] = "/envs\0python3\0hallway.py";
static const struct node_open environment = {.name = "environment_0",
                                             .role = "environment",
                                             .group = NODE_NO_GROUP,
                                             .mode = "plugin",
                                             .n_words = 2,
                                             .command = command,
                                             .command_bytes = sizeof(command)};
static const struct node_exit ending = {.exit_code = -1, .signal = 9, .had_process = 1};
static const struct err failure = {.code = ERR_LIMIT, .msg = "too much"};
static const struct node_sample sample = {.memory_bytes = -1,
                                          .has_activity = 1,
                                          .state = 'S',
                                          .ticks = 5,
                                          .resident_bytes = 6,
                                          .space_limit_bytes = 7};

/* The head of a message; the caller appends its body. */
static struct wbuf message(enum node_message_kind kind, uint32_t worker, uint64_t number)
{
    uint8_t head[NODE_HEAD_BYTES];
    struct wbuf b = {0};

    node_head_pack(head, kind, worker, number);
    wbuf_bytes(&b, head, sizeof(head));
    return b;
}

static struct wbuf message_of(enum node_message_kind kind)
{
    struct wbuf b = message(kind, 2, 3);

    switch (kind) {
    case NODE_HELLO:
        node_hello_pack(&b, &hello);
        break;
    case NODE_OPEN:
        node_open_pack(&b, &opening);
        break;
    case NODE_EXIT:
        node_exit_pack(&b, &ending);
        break;
    case NODE_SAMPLE:
        node_sample_pack(&b, &sample);
        break;
    default:
        node_error_pack(&b, &failure);
        break;
    }
    return b;
}

static int parse_body(const struct node_message *m)
{
    struct node_hello h;
    struct node_open o;
    struct node_exit e;
    struct node_sample s;
    struct err told, err = {0};
    int rc;

    switch (m->kind) {
    case NODE_HELLO:
        return node_hello_parse(&h, m, &err);
    case NODE_OPEN:
        return node_open_parse(&o, m, &err);
    case NODE_EXIT:
        return node_exit_parse(&e, m, &err);
    case NODE_SAMPLE:
        return node_sample_parse(&s, m, &err);
    default:
        rc = node_error_parse(&told, m, &err);
        if (rc == 0)
            ck_assert_int_lt(told.code, 0);
        return rc;
    }
}

static const enum node_message_kind kinds[] = {NODE_HELLO, NODE_OPEN, NODE_EXIT,
                                               NODE_SAMPLE, NODE_FAILED};
enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* Parses in memory that ends where the message does, so that a sanitizer notices reads
 * beyond it. */
static int parse_copy(const uint8_t *data, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    struct node_message m;
    struct err err = {0};
    int rc;

    memcpy(copy, data, len);
    rc = node_message_parse(&m, copy, len, &err);
    if (rc == 0)
        rc = parse_body(&m);
    ck_assert(rc == 0 || rc == ERR_PROTOCOL);
    free(copy);
    return rc;
}

START_TEST(what_is_packed_is_read_back)
{
    struct node_message m;
    struct node_hello h;
    struct node_open o;
    struct err told;
    struct wbuf b = message_of(NODE_HELLO);

    ck_assert_int_eq(node_message_parse(&m, b.data, b.len, NULL), 0);
    ck_assert_uint_eq(m.worker, 2);
    ck_assert_uint_eq(m.number, 3);
    ck_assert_int_eq(node_hello_parse(&h, &m, NULL), 0);
    ck_assert_str_eq(h.host, hello.host);
    ck_assert_uint_eq(h.memory_bytes, hello.memory_bytes);
    ck_assert_str_eq(h.identity.run, hello.identity.run);
    ck_assert_uint_eq(h.identity.node, 2);
    ck_assert_uint_eq(h.identity.generation, 5);
    wbuf_done(&b);
    b = message_of(NODE_OPEN);
    ck_assert_int_eq(node_message_parse(&m, b.data, b.len, NULL), 0);
    ck_assert_int_eq(node_open_parse(&o, &m, NULL), 0);
    ck_assert_str_eq(o.name, "agent_0");
    ck_assert_uint_eq(o.member, 1);
    ck_assert_uint_eq(o.n_words, 0);
    wbuf_done(&b);
    b = message(NODE_OPEN, 0, 0);
    node_open_pack(&b, &environment);
    ck_assert_int_eq(node_message_parse(&m, b.data, b.len, NULL), 0);
    ck_assert_int_eq(node_open_parse(&o, &m, NULL), 0);
    ck_assert_str_eq(o.mode, "plugin");
    ck_assert_uint_eq(o.n_words, 2);
    ck_assert_mem_eq(o.command, command, sizeof(command));
    wbuf_done(&b);
    b = message_of(NODE_FAILED);
    ck_assert_int_eq(node_message_parse(&m, b.data, b.len, NULL), 0);
    ck_assert_int_eq(node_error_parse(&told, &m, NULL), 0);
    ck_assert_int_eq(told.code, ERR_LIMIT);
    ck_assert_str_eq(told.msg, "too much");
    wbuf_done(&b);
}
END_TEST

START_TEST(no_prefix_and_no_damage_is_read_beyond_its_end)
{
    for (size_t k = 0; k < N_KINDS; k++) {
        struct wbuf b = message_of(kinds[k]);

        ck_assert_int_eq(parse_copy(b.data, b.len), 0);
        for (size_t len = 0; len < b.len; len++)
            (void)parse_copy(b.data, len);
        for (size_t i = 0; i < b.len; i++) {
            const uint8_t was = b.data[i];

            for (int v = 0; v < 256; v += 5) {
                b.data[i] = (uint8_t)v;
                (void)parse_copy(b.data, b.len);
            }
            b.data[i] = 0xff;
            (void)parse_copy(b.data, b.len);
            b.data[i] = was;
        }
        wbuf_done(&b);
    }
}
END_TEST

static void refuse(struct wbuf b)
{
    ck_assert_int_eq(parse_copy(b.data, b.len), ERR_PROTOCOL);
    wbuf_done(&b);
}

START_TEST(hostile_values_are_refused)
{
    struct node_exit bad_exit = ending;
    struct node_open bad_open = opening;
    struct node_hello bad_hello = hello;
    struct wbuf b;

    refuse(message(0, 0, 0));
    refuse(message(NODE_KIND_COUNT, 0, 0));
    refuse(message(NODE_HELLO, NODE_MAX_WORKERS, 0));
    b = message(NODE_HELLO, 0, 0); /* an escape sequence for terminals */
    (void)strcpy(bad_hello.host, "\x1b[2J");
    node_hello_pack(&b, &bad_hello);
    refuse(b);
    b = message(NODE_EXIT, 0, 0);
    bad_exit.signal = 65;
    node_exit_pack(&b, &bad_exit);
    refuse(b);
    b = message(NODE_OPEN, 0, 0);
    bad_open.members = UINT32_MAX;
    node_open_pack(&b, &bad_open);
    refuse(b);
    for (uint32_t n = 0; n < 5; n++) { /* wrong numbers of words, or a group */
        bad_open = environment;
        bad_open.n_words = n == 4 ? PROC_MAX_COMMAND + 1 : n;
        bad_open.group = n == 2 ? 0 : NODE_NO_GROUP;
        b = message(NODE_OPEN, 0, 0);
        node_open_pack(&b, &bad_open);
        refuse(b);
    }
    bad_open = environment; /* a word without its NUL */
    bad_open.command_bytes--;
    b = message(NODE_OPEN, 0, 0);
    node_open_pack(&b, &bad_open);
    refuse(b);
    b = message(NODE_OPEN, 0, 0); /* a name of 4 GB */
    wbuf_u32(&b, UINT32_MAX);
    refuse(b);
    b = message(NODE_FAILED, 0, 0); /* no error */
    wbuf_u32(&b, 0);
    wbuf_u32(&b, 0);
    refuse(b);
    b = message(NODE_FAILED, 0, 0); /* a text with a NUL */
    wbuf_u32(&b, (uint32_t)ERR_LIMIT);
    wbuf_u32(&b, 2);
    wbuf_bytes(&b, "a\0", 2);
    refuse(b);
    b = message_of(NODE_SAMPLE); /* bytes after the end */
    wbuf_u8(&b, 0);
    refuse(b);
}
END_TEST

/* ---- devices, and the placement of agents on nodes ---- */

START_TEST(parts_of_a_device_that_are_missing_match_all)
{
    static const struct {
        const char *device;
        int64_t task; /* -2: refused */
        int64_t gpu;
    } all[] = {
        {"", -1, -1},
        {"/job:worker", -1, -1},
        {"/job:worker/task:2", 2, -1},
        {"/task:0", 0, -1},
        {"/job:worker/replica:0/task:1/device:CPU:0", 1, -1},
        {"/job:worker/task:1/device:GPU:3", 1, 3},
        {"/device:GPU:0", -1, 0},
        {"/gpu:1", -1, 1},
        {"cuda:2", -1, 2},
        {"/job:ps/task:0", -2, -1},
        {"/task:3", -2, -1},
        {"/task:", -2, -1},
        {"/task:1x", -2, -1},
        {"/device:GPU:", -2, -1},
        {"cuda:", -2, -1},
        {"cuda:0/task:1", -2, 0},
        {"worker", -2, -1},
        {"/job:workers", -2, -1},
    };
    char why[DEVICE_WHY_BYTES];
    int64_t task;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        const int rc = device_task(all[i].device, 3, &task, why);

        ck_assert_msg(all[i].task == -2 ? rc == ERR_ARG : rc == 0 && task == all[i].task,
                      "%s: %d, %d", all[i].device, rc, (int)task);
        ck_assert_int_eq(device_gpu(all[i].device), all[i].gpu);
    }
}
END_TEST

static void check_places(const char *const *devices, const int *shared, int64_t nodes,
                         const size_t *expected)
{
    enum { N_AGENTS = 4, N = 6 };
    struct agent_config agents[N_AGENTS] = {0};
    struct run_config c = {.agents = agents, .n_agents = N_AGENTS};
    struct agent_spec specs[N] = {0};
    size_t place[N];
    struct err err = {0};
    int rc;

    c.cluster.nodes = nodes;
    for (size_t i = 0; i < N; i++) {
        static const char *const names[] = {"a", "b", "c", "d", "central", "a_ps"};

        specs[i].name = names[i];
        specs[i].shared_fd = shared[i];
        if (i < N_AGENTS) {
            agents[i].name = names[i];
            agents[i].device = devices[i];
        }
    }
    rc = placement_make(&c, (size_t)nodes, specs, N, place, &err);
    if (expected == NULL) {
        ck_assert_int_eq(rc, ERR_CONFIG);
        ck_assert_str_eq(err.key, "agents.c.device");
        return;
    }
    ck_assert_msg(rc == 0, "%s", err.msg);
    for (size_t i = 0; i < N; i++)
        ck_assert_uint_eq(place[i], expected[i]);
}

START_TEST(agents_stand_in_blocks_and_groups_together)
{
    static const char *const none[4] = {0};
    static const char *const some[4] = {NULL, "/task:2", "/task:0", NULL};
    static const int alone[6] = {0}, group[6] = {7, 0, 7, 0, 0, 7};
    static const char *const apart[4] = {"/task:0", NULL, "/task:1", NULL};
    static const char *const last[4] = {NULL, NULL, "/task:2", NULL};
    static const char *const none_there[4] = {NULL, NULL, "/task:4", NULL};

    check_places(none, alone, 2, (const size_t[]){0, 0, 1, 1, 0, 0});
    check_places(none, alone, 8, (const size_t[]){0, 2, 4, 6, 0, 0});
    check_places(some, alone, 3, (const size_t[]){0, 2, 0, 2, 0, 0});
    check_places(none, group, 4, (const size_t[]){0, 1, 0, 3, 0, 0});
    check_places(apart, group, 4, (const size_t[]){0, 1, 1, 3, 0, 0});
    check_places(last, group, 4, (const size_t[]){2, 1, 2, 3, 2, 2});
    check_places(none_there, group, 4, NULL);
}
END_TEST

START_TEST(an_identity_is_read_back)
{
    static const char *const bad[] = {"",      "a",       "a/1",           "/1/2",
                                      "a//2",  "a/1/",    "a/1/2x",        "a/-1/2",
                                      "a/1/ ", "a/1/2/x", "a/5000000000/1"};
    struct node_identity back;
    char text[NODE_IDENTITY_BYTES];

    (void)node_identity_text(&hello.identity, text);
    ck_assert_str_eq(text, "study/3:0f/2/5");
    ck_assert_int_eq(node_identity_parse(&back, text, NULL), 0);
    ck_assert_str_eq(back.run, "study/3:0f");
    ck_assert(back.node == 2 && back.generation == 5);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ck_assert_int_eq(node_identity_parse(&back, bad[i], NULL), ERR_FORMAT);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("node_protocol");
    TCase *t = tcase_create("messages");

    tcase_add_test(t, what_is_packed_is_read_back);
    tcase_add_test(t, no_prefix_and_no_damage_is_read_beyond_its_end);
    tcase_add_test(t, hostile_values_are_refused);
    tcase_add_test(t, an_identity_is_read_back);
    suite_add_tcase(s, t);
    t = tcase_create("places");
    tcase_add_test(t, parts_of_a_device_that_are_missing_match_all);
    tcase_add_test(t, agents_stand_in_blocks_and_groups_together);
    suite_add_tcase(s, t);
    return s;
}
TEST_MAIN(make_suite)
