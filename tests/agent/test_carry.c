/* The carry of a recurrent policy is sent with its actions and comes back with the next
 * `act`, in messages of a real process. Every answer has the same bits as the policy run
 * here. */
#include "agent/session/session.h"
#include "common/msg/protocol.h"
#include "tests/agent/loop_help.h"
#include "tests/support/carrier.h"
#include "tests/support/test_main.h"

#include <string.h>

enum { COPIES = 3, OBS = 18, ACTIONS = 5, ROUNDS = 6, SEED = 7 };

static const struct space space = {
    .name = "agent_0", .obs = OBS, .width = ACTIONS, .n_heads = 1, .heads = {ACTIONS}};

/* The policy in this process, built as in the agent. */
struct twin {
    struct graph *g;
    struct session *s;
    struct algo *a;
};

static void twin_init(struct twin *t)
{
    const struct algo_args args = {.ops = &carrier_ops,
                                   .graph = t->g = graph_new(),
                                   .agents = &space,
                                   .n_agents = 1};
    const struct rng_key key = rng_key_make(SEED, space.name, PURPOSE_INIT);
    struct err err = {0};

    ck_assert_int_eq(algo_new(&t->a, &args, &err), 0);
    ck_assert_int_eq(session_new(&t->s, t->g, NULL, &err), 0);
    ck_assert_msg(carrier_ops.init(t->a, t->s, key, &err) == 0, "%s", err.msg);
}

static void twin_done(struct twin *t)
{
    algo_free(&carrier_ops, t->a);
    session_free(t->s);
    graph_free(t->g);
}

struct step {
    float obs[COPIES * OBS], carry[COPIES * CARRIER_UNITS];
    uint8_t first[COPIES];
    float actions[COPIES * ACTIONS], next[COPIES * CARRIER_UNITS];
};

static void twin_act(struct twin *t, struct step *s)
{
    const struct act_args args = {
        .n_copies = COPIES, .obs = s->obs, .first = s->first, .carry = s->carry};
    struct act_result ret = {.actions = s->actions, .carry = s->next};
    struct err err = {0};

    ck_assert_msg(carrier_ops.act(t->a, t->s, &args, &ret, &err) == 0, "%s", err.msg);
}

/* ---- the process ---- */

static void start(struct agent_process *p, const char *numerics)
{
    uint64_t width = 0;

    agent_process_start_program(p, "tests/support/carrier_agent", "agent_0", -1, -1);
    check_hello(p);
    agent_process_pack_configure(agent_process_request(p, "configure"), "{}", 1, 0, 0,
                                 numerics);
    ck_assert_msg(agent_process_call(p) == 0, "%s", p->reply.error.msg);
    ck_assert_int_eq(msg_get_u64(&p->reply.body, "carry", 1000, &width, NULL), 0);
    ck_assert_uint_eq(width, CARRIER_UNITS);
}

/* An evaluation sends the episode and the time of each copy. */
static int ask(struct agent_process *p, const struct step *s, size_t from, size_t n,
               int64_t carry_width, int evaluates)
{
    static const uint64_t zeros[COPIES];
    const struct tensor obs =
        tensor_const_view(DT_FLOAT, SHAPE((int64_t)n, OBS), s->obs + from * OBS);
    const struct tensor carry = tensor_const_view(
        DT_FLOAT, SHAPE((int64_t)n, carry_width), s->carry + from * (size_t)carry_width);
    struct msg_out *o = agent_process_request(p, "act");

    msg_map(o, 4u + (evaluates ? 2 : 0));
    msg_put_u64(o, "mode", ACT_GREEDY);
    msg_key(o, "obs");
    msg_tensor(o, &obs);
    msg_key(o, "first");
    msg_bin(o, s->first + from, n);
    msg_key(o, "carry");
    msg_tensor(o, &carry);
    if (evaluates) {
        msg_key(o, "episode");
        msg_bin(o, zeros, n * sizeof(*zeros));
        msg_key(o, "time");
        msg_bin(o, zeros, n * sizeof(*zeros));
    }
    return agent_process_call(p);
}

static void check_answer(struct agent_process *p, const struct step *s, size_t from,
                         size_t n)
{
    struct tensor actions = TENSOR_NONE, carry = TENSOR_NONE;

    ck_assert_int_eq(msg_get_tensor(&p->reply.body, "actions", &actions, NULL), 0);
    ck_assert_int_eq(msg_get_tensor(&p->reply.body, "carry", &carry, NULL), 0);
    ck_assert(shape_equal(&actions.shape, &SHAPE((int64_t)n, ACTIONS)));
    ck_assert(shape_equal(&carry.shape, &SHAPE((int64_t)n, CARRIER_UNITS)));
    ck_assert_mem_eq(actions.data, s->actions + from * ACTIONS,
                     n * ACTIONS * sizeof(float));
    ck_assert_mem_eq(carry.data, s->next + from * CARRIER_UNITS,
                     n * CARRIER_UNITS * sizeof(float));
}

static void fill(struct step *s, int round)
{
    for (int i = 0; i < COPIES * OBS; i++)
        s->obs[i] = (float)((unsigned)(i + 91 * round) * 7919u % 2003u) / 1001 - 1;
    for (int e = 0; e < COPIES; e++)
        s->first[e] = round == 0 || (round == 3 && e == 1);
}

/* Episodes of three copies; copy 1 begins a new one in between. All copies in one
 * request, one copy per request, and as an evaluation, which under native numerics acts
 * for one copy after the other. */
START_TEST(carry_travels)
{
    struct agent_process p;
    struct step s = {0};
    struct twin t;
    float before[CARRIER_UNITS] = {0};

    twin_init(&t);
    start(&p, _i == 2 ? "native" : "portable");
    for (int i = 0; i < COPIES * CARRIER_UNITS; i++)
        s.carry[i] = 5; /* from an earlier episode: `first` resets it */
    for (int round = 0; round < ROUNDS; round++) {
        fill(&s, round);
        twin_act(&t, &s);
        for (size_t e = 0; e < COPIES; e += _i == 1 ? 1 : COPIES) {
            const size_t n = _i == 1 ? 1 : COPIES;

            ck_assert_int_eq(ask(&p, &s, e, n, CARRIER_UNITS, _i == 2), 0);
            check_answer(&p, &s, e, n);
        }
        ck_assert_mem_ne(s.next, before, sizeof(before)); /* the carry changes */
        memcpy(before, s.next, sizeof(before));
        memcpy(s.carry, s.next, sizeof(s.carry));
    }
    check_exited(agent_process_end(&p), AGENT_EXIT_DONE);
    twin_done(&t);
}
END_TEST

/* At the beginning of an episode the carry that is sent has no effect. */
START_TEST(first_forgets)
{
    struct agent_process p;
    struct step s = {0}, other = {0};
    struct twin t;

    twin_init(&t);
    start(&p, "portable");
    fill(&s, 0);
    twin_act(&t, &s);
    other = s;
    for (int i = 0; i < COPIES * CARRIER_UNITS; i++)
        other.carry[i] = (float)i;
    ck_assert_int_eq(ask(&p, &other, 0, COPIES, CARRIER_UNITS, 0), 0);
    check_answer(&p, &s, 0, COPIES);
    other.first[2] = 0;
    ck_assert_int_eq(ask(&p, &other, 0, COPIES, CARRIER_UNITS, 0), 0);
    twin_act(&t, &other);
    check_answer(&p, &other, 0, COPIES);
    ck_assert_mem_eq(other.next, s.next, 2 * CARRIER_UNITS * sizeof(float));
    ck_assert_mem_ne(other.next + 2 * CARRIER_UNITS, s.next + 2 * CARRIER_UNITS,
                     CARRIER_UNITS * sizeof(float));
    check_exited(agent_process_end(&p), AGENT_EXIT_DONE);
    twin_done(&t);
}
END_TEST

START_TEST(a_wrong_carry_is_refused)
{
    struct agent_process p;
    struct step s = {0};

    start(&p, "portable");
    ck_assert_int_eq(ask(&p, &s, 0, COPIES, CARRIER_UNITS - 1, 0), ERR_SHAPE);
    ck_assert_str_eq(p.reply.error.msg, "carry: float32 (3, 6) expected");
    ck_assert_int_eq(ask(&p, &s, 0, COPIES, CARRIER_UNITS, 0), 0);
    check_exited(agent_process_end(&p), AGENT_EXIT_DONE);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("carry");
    TCase *tc = tcase_create("carry");

    tcase_add_loop_test(tc, carry_travels, 0, 3);
    tcase_add_test(tc, first_forgets);
    tcase_add_test(tc, a_wrong_carry_is_refused);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
