/* Our builder against a graph that TensorFlow 1.13 built: openai/maddpg's trainer
 * (maddpg/trainer/maddpg.py, common/tf_util.py and common/distributions.py of that
 * repository), written with our functions, gives the file beside the checkpoint, node for
 * node. Also checks in which nodes our agent's graph differs. */
#include "agent/graph/ops.h"
#include "agent/nn/nn.h"
#include "agent/saver/message.h"
#include "agent/saver/metagraph_export.h"
#include "agent/saver/saver.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "tests/support/checkpoints.h"
#include "tests/support/team.h"
#include "tests/support/test_main.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

/* ---- the trainer ---- */

#define N_AGENTS  2
#define N_OBS     8
#define N_ACTIONS 9
#define N_UNITS   32

static const struct optimizer_config adam = {
    OPT_ADAM, .learning_rate = {0.01}, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};

struct trainer {
    struct graph *g;
    struct output obs[N_AGENTS], action[N_AGENTS];
    int self;
    char scope[16];
};

/* mlp_model: two layers of ReLUs and a linear one. */
static struct output network(struct trainer *t, struct output x, int64_t n_outputs,
                             const char *scope, enum reuse reuse)
{
    variable_scope_enter(t->g, scope, NULL, reuse);
    for (int i = 0; i < 2; i++)
        x = fully_connected(t->g, x, N_UNITS, ACTIVATION_RELU, NULL, NULL);
    x = fully_connected(t->g, x, n_outputs, ACTIVATION_LINEAR, NULL, NULL);
    variable_scope_leave(t->g);
    return x;
}

/* x[:,0] */
static struct output first_column(struct graph *g, struct output x)
{
    static const int32_t begin[] = {0, 0}, end[] = {0, 1}, strides[] = {1, 1};
    struct output at[3];
    struct op_builder *b;

    name_scope_enter(g, "strided_slice");
    at[0] = constant_i32s(g, begin, 2, "stack");
    at[1] = constant_i32s(g, end, 2, "stack_1");
    at[2] = constant_i32s(g, strides, 2, "stack_2");
    b = op_begin(g, "StridedSlice", graph_name_scope(g));
    op_input(b, x);
    for (int i = 0; i < 3; i++)
        op_input(b, at[i]);
    op_attr_int(b, "begin_mask", 1);
    op_attr_int(b, "end_mask", 1);
    op_attr_int(b, "shrink_axis_mask", 2);
    x = (struct output){op_finish(b), 0};
    name_scope_leave(g);
    return x;
}

static struct output mean(struct graph *g, struct output x)
{
    return reduce(g, "Mean", x, NULL, 0, 0, NULL);
}

/* Python's number * tensor, and tensor * number. */
static struct output number_times(struct graph *g, double a, struct output x)
{
    struct output y;

    name_scope_enter(g, "mul");
    y = constant_f32(g, (float)a, "x");
    y = binary(g, "Mul", y, x, graph_name_scope(g));
    name_scope_leave(g);
    return y;
}

static struct output times_number(struct graph *g, struct output x, double a)
{
    struct output y;

    name_scope_enter(g, "mul");
    y = constant_f32(g, (float)a, "y");
    y = binary(g, "Mul", x, y, graph_name_scope(g));
    name_scope_leave(g);
    return y;
}

/* U.function: a group of its updates; an empty group if it has none. */
static void function(struct trainer *t, struct operation *update)
{
    (void)group(t->g, &update, update != NULL, NULL);
}

/* U.scope_vars */
static size_t variables_of(struct trainer *t, const char *network_scope,
                           struct variable *ret[8])
{
    char *prefix = xasprintf("%s/%s/", t->scope, network_scope);
    const struct collection_item *items;
    size_t n = collection_get(t->g, TRAINABLE_VARIABLES, prefix, &items);

    ck_assert_uint_le(n, 8);
    for (size_t i = 0; i < n; i++)
        ret[i] = items[i].variable;
    free(prefix);
    return n;
}

/* U.minimize_and_clip */
static struct operation *minimize(struct trainer *t, struct output loss,
                                  const char *network_scope)
{
    struct variable *vars[8];
    struct gradient grads[8];
    size_t n = variables_of(t, network_scope, vars);
    struct err err = {0};

    ck_assert_msg(compute_gradients(t->g, loss, vars, n, grads, &err) == 0, "%s",
                  err.msg);
    for (size_t i = 0; i < n; i++)
        grads[i].grad = clip_by_norm_number(t->g, grads[i].grad, 0.5, NULL);
    return apply_gradients(t->g, &adam, grads, n, NULL, NULL, NULL);
}

/* make_update_exp: variables by name, biases before weights. */
static struct operation *follow(struct trainer *t, const char *source, const char *target)
{
    const double polyak = 1.0 - 1e-2;
    struct variable *from[8], *to[8];
    struct operation *ops[8];
    size_t n = variables_of(t, source, from);

    ck_assert_uint_eq(variables_of(t, target, to), n);
    for (size_t i = 0; i < n; i++) {
        struct output kept = number_times(t->g, polyak, to[i ^ 1]->read);
        struct output taken = number_times(t->g, 1.0 - polyak, from[i ^ 1]->read);
        struct output sum = binary(t->g, "Add", kept, taken, "add");

        ops[i] = variable_assign(to[i ^ 1], sum, NULL).op;
    }
    return group(t->g, ops, n, NULL);
}

static void action_placeholders(struct trainer *t)
{
    char name[16];

    for (int i = 0; i < N_AGENTS; i++) {
        (void)snprintf(name, sizeof(name), "action%d", i);
        t->action[i] = placeholder(t->g, DT_FLOAT, &SHAPE(-1, N_ACTIONS), name);
    }
}

static struct output critic_input(struct trainer *t)
{
    struct output all[2 * N_AGENTS];

    for (int i = 0; i < N_AGENTS; i++) {
        all[i] = t->obs[i];
        all[N_AGENTS + i] = t->action[i];
    }
    return concat(t->g, all, 2 * N_AGENTS, 1, NULL);
}

static void q_train(struct trainer *t)
{
    struct graph *g = t->g;
    struct output target, input, q, loss;

    variable_scope_enter(g, t->scope, NULL, REUSE_INHERIT);
    action_placeholders(t);
    target = placeholder(g, DT_FLOAT, &SHAPE(-1), "target");
    input = critic_input(t);
    q = first_column(g, network(t, input, 1, "q_func", REUSE_INHERIT));
    loss = mean(g, unary(g, "Square", binary(g, "Sub", q, target, "sub"), NULL));
    (void)mean(g, unary(g, "Square", q, NULL));
    function(t, minimize(t, loss, "q_func"));
    function(t, NULL);
    (void)first_column(g, network(t, input, 1, "target_q_func", REUSE_INHERIT));
    function(t, follow(t, "q_func", "target_q_func"));
    function(t, NULL);
    variable_scope_leave(g);
}

/* SoftCategoricalPd.sample */
static struct output sample(struct graph *g, struct output logits)
{
    struct output u = random_uniform(g, shape_of(g, logits, NULL), 0, 1, NULL);

    u = unary(g, "Log", unary(g, "Neg", unary(g, "Log", u, NULL), NULL), NULL);
    return softmax(g, binary(g, "Sub", logits, u, "sub"), NULL);
}

static void p_train(struct trainer *t)
{
    struct graph *g = t->g;
    struct output p, penalty, q, loss;

    variable_scope_enter(g, t->scope, NULL, REUSE_INHERIT);
    action_placeholders(t);
    p = network(t, t->obs[t->self], N_ACTIONS, "p_func", REUSE_INHERIT);
    (void)sample(g, p);
    penalty = mean(g, unary(g, "Square", p, NULL));
    t->action[t->self] = sample(g, p);
    q = first_column(g, network(t, critic_input(t), 1, "q_func", REUSE_TRUE));
    loss = unary(g, "Neg", mean(g, q), NULL);
    loss = binary(g, "Add", loss, times_number(g, penalty, 1e-3), "add");
    function(t, minimize(t, loss, "p_func"));
    function(t, NULL);
    function(t, NULL);
    p = network(t, t->obs[t->self], N_ACTIONS, "target_p_func", REUSE_INHERIT);
    function(t, follow(t, "p_func", "target_p_func"));
    (void)sample(g, p);
    function(t, NULL);
    variable_scope_leave(g);
}

/* MADDPGAgentTrainer of every agent, U.initialize, tf.train.Saver. */
static void build(struct graph *g, struct saver **ret)
{
    struct err err = {0};

    for (int self = 0; self < N_AGENTS; self++) {
        struct trainer t = {.g = g, .self = self};

        (void)snprintf(t.scope, sizeof(t.scope), "agent_%d", self);
        for (int i = 0; i < N_AGENTS; i++) {
            char name[32];

            (void)snprintf(name, sizeof(name), "observation%d", i);
            t.obs[i] = placeholder(g, DT_FLOAT, &SHAPE(-1, N_OBS), name);
        }
        q_train(&t);
        p_train(&t);
    }
    (void)global_variables_initializer(g, NULL);
    ck_assert_msg(graph_error(g) == NULL, "%s", graph_error(g)->msg);
    ck_assert_msg(saver_new(ret, g, NULL, &err) == 0, "%s", err.msg);
}

/* ---- comparing ---- */

/* The file that TensorFlow 1.13 wrote beside the checkpoint; NULL, after a message, if it
 * is not here.
 */
static Tf__MetaGraphDef *real_file(struct arena *a)
{
    Tf__MetaGraphDef *m;
    unsigned char *data;
    size_t n;
    char *path;

    if (!test_has_real_checkpoints())
        return NULL;
    path = xasprintf("%s/data/tf-checkpoints/01-mbeliaev1-maddpg/policy/h10s5/5/.meta",
                     test_shared_dir());
    data = test_read_file(path, &n);
    m = MESSAGE_UNPACK(a, meta_graph_def, data, n);
    ck_assert_ptr_nonnull(m);
    free(data);
    free(path);
    return m;
}

static Tf__MetaGraphDef *export(struct arena *a, struct graph *g, struct saver *saver)
{
    struct wbuf b = {0};
    Tf__MetaGraphDef *m;

    metagraph_export(&b, g, saver != NULL ? saver_as_def(saver) : NULL, NULL);
    m = MESSAGE_UNPACK(a, meta_graph_def, b.data, b.len);
    ck_assert_ptr_nonnull(m);
    wbuf_done(&b);
    return m;
}

static int same_message(const void *x, const void *y)
{
    struct wbuf a = {0}, b = {0};
    int same;

    message_pack(&a, x);
    message_pack(&b, y);
    same = a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
    wbuf_done(&a);
    wbuf_done(&b);
    return same;
}

static const Tf__AttrValue *attr_of(const Tf__NodeDef *node, const char *name)
{
    for (size_t i = 0; i < node->n_attr; i++)
        if (strcmp(node->attr[i]->key, name) == 0)
            return node->attr[i]->value;
    return NULL;
}

/* Describes the first difference; NULL: none. `_output_shapes` helps readers that cannot
 * infer shapes; our graphs lack it. */
static const char *difference(struct arena *a, const Tf__NodeDef *is,
                              const Tf__NodeDef *want)
{
    size_t n_attr = 0;

    if (strcmp(is->op, want->op) != 0)
        return arena_printf(a, "is a %s, not a %s", is->op, want->op);
    if (strcmp(is->device, want->device) != 0)
        return arena_printf(a, "is on '%s', not '%s'", is->device, want->device);
    if (is->n_input != want->n_input)
        return arena_printf(a, "has %zu inputs, not %zu", is->n_input, want->n_input);
    for (size_t i = 0; i < is->n_input; i++)
        if (strcmp(is->input[i], want->input[i]) != 0)
            return arena_printf(a, "input %zu is %s, not %s", i, is->input[i],
                                want->input[i]);
    for (size_t i = 0; i < want->n_attr; i++) {
        const char *name = want->attr[i]->key;
        const Tf__AttrValue *v = attr_of(is, name);

        if (strcmp(name, "_output_shapes") == 0)
            continue;
        if (v == NULL || !same_message(v, want->attr[i]->value))
            return arena_printf(a, "attribute %s is another", name);
        n_attr++;
    }
    return is->n_attr == n_attr ? NULL : "has more attributes";
}

static void check_collections(const Tf__MetaGraphDef *is, const Tf__MetaGraphDef *want)
{
    ck_assert_uint_eq(is->n_collection_def, want->n_collection_def);
    for (size_t i = 0; i < is->n_collection_def; i++)
        for (size_t k = 0; k < want->n_collection_def; k++)
            if (strcmp(is->collection_def[i]->key, want->collection_def[k]->key) == 0)
                ck_assert_msg(same_message(is->collection_def[i]->value,
                                           want->collection_def[k]->value),
                              "%s", is->collection_def[i]->key);
}

START_TEST(the_trainer_s_graph_is_that_of_the_real_file)
{
    struct arena a = {0};
    const Tf__MetaGraphDef *want = real_file(&a), *is;
    struct graph *g = graph_new();
    struct saver *saver;

    if (want == NULL) {
        graph_free(g);
        return;
    }
    build(g, &saver);
    is = export(&a, g, saver);
    for (size_t i = 0; i < want->graph_def->n_node && i < is->graph_def->n_node; i++) {
        const Tf__NodeDef *x = is->graph_def->node[i], *y = want->graph_def->node[i];
        const char *what;

        ck_assert_msg(strcmp(x->name, y->name) == 0, "node %zu is %s, not %s", i, x->name,
                      y->name);
        what = difference(&a, x, y);
        ck_assert_msg(what == NULL, "%s: %s", x->name, what);
    }
    ck_assert_uint_eq(is->graph_def->n_node, 1962);
    ck_assert_uint_eq(want->graph_def->n_node, 1962);
    check_collections(is, want);
    ck_assert(same_message(is->saver_def, want->saver_def));
    saver_free(saver);
    graph_free(g);
    arena_done(&a);
}
END_TEST

/* ---- the algorithm's graph ---- */

/* An agent of `maddpg` has the trainer's networks, optimisers and names. The nodes that
 * differ, and the reasons: */
static const struct {
    const char *nodes, *why;
} different[] = {
    {"agent_0*/*q_func/fully_connected/MatMul",
     "observations are fed side by side, so they join the actions in two concats"},
    {"agent_0*/gradients/*/q_func/fully_connected/MatMul_grad/MatMul_1",
     "its input is that concat"},
    {"agent_0/gradients/*/q_func/fully_connected_2/BiasAdd_grad/*",
     "what follows the critic: its value is (B, 1) and rows have weights"},
    {"agent_0_1/gradients/*/q_func/fully_connected_2/BiasAdd_grad/*",
     "what follows the critic: its value is (B, 1)"},
    {"agent_0*/clip_by_norm*/mul_1", "the norm is a live setting: agent_0/clip_norm"},
    {"agent_0*/clip_by_norm*/mul_1/y", "the same"},
    {"agent_0*/clip_by_norm*/Maximum", "the same"},
    {"agent_0*/clip_by_norm*/Maximum/y", "the same"},
};
#define N_DIFFERENT (sizeof(different) / sizeof(different[0]))

/* 1 for the nodes that the algorithm has in common with the trainer: not its losses,
 * placeholders and groups. */
static int is_shared(const char *name)
{
    static const char *const parts[] = {
        "agent_0*/p_func/*",        "agent_0*/q_func/*",      "agent_0*/target_p_func/*",
        "agent_0*/target_q_func/*", "agent_0*/clip_by_norm*", "agent_0*/Adam",
        "agent_0*/Adam/*",          "agent_0*/beta1_power*",  "agent_0*/beta2_power*",
    };

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (fnmatch(parts[i], name, 0) == 0)
            return 1;
    return 0;
}

static int known_difference(const char *name, int *used)
{
    for (size_t i = 0; i < N_DIFFERENT; i++)
        if (fnmatch(different[i].nodes, name, 0) == 0)
            return used[i] = 1;
    return 0;
}

static const Tf__NodeDef *node_of(const Tf__MetaGraphDef *m, const char *name)
{
    for (size_t i = 0; i < m->graph_def->n_node; i++)
        if (strcmp(m->graph_def->node[i]->name, name) == 0)
            return m->graph_def->node[i];
    return NULL;
}

/* Agent 0 of a team with the sizes of the real file. */
static struct team *real_team(void)
{
    struct team_args args =
        team_spread("{actor: {hidden: [32, 32]}, critic: {hidden: [32, 32]}, "
                    "optimizer: {learning_rate: 0.01}}",
                    1);

    args.n = N_AGENTS;
    args.obs = N_OBS;
    args.space.width = args.space.heads[0] = N_ACTIONS;
    return team_new(&args);
}

START_TEST(an_agent_s_networks_are_those_of_the_real_file)
{
    struct arena a = {0};
    const Tf__MetaGraphDef *want = real_file(&a), *is;
    int n_same = 0, n_different = 0, used[N_DIFFERENT] = {0};
    struct team *t;

    if (want == NULL)
        return;
    t = real_team();
    is = export(&a, t->members[0].graph, NULL);
    for (size_t i = 0; i < want->graph_def->n_node; i++) {
        const Tf__NodeDef *y = want->graph_def->node[i], *x = node_of(is, y->name);
        const char *what = x != NULL ? difference(&a, x, y) : "is missing";

        if (!is_shared(y->name))
            continue;
        n_same += what == NULL;
        n_different += what != NULL;
        ck_assert_msg(what == NULL || known_difference(y->name, used), "%s: %s", y->name,
                      what);
    }
    ck_assert_int_eq(n_same, 594);
    ck_assert_int_eq(n_different, 59);
    for (size_t i = 0; i < N_DIFFERENT; i++)
        ck_assert_msg(used[i], "%s are the same now", different[i].nodes);
    team_free(t);
    arena_done(&a);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("real_graph");
    TCase *tc = tcase_create("real_graph");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, the_trainer_s_graph_is_that_of_the_real_file);
    tcase_add_test(tc, an_agent_s_networks_are_those_of_the_real_file);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
