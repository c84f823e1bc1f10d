#include "agent/algo/share.h"
#include "agent/graph/ops.h"
#include "agent/nn/nn.h"
#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"
#include "tests/support/team.h"
#include "tests/support/test_main.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- a linear model: y = x w, shared by three members ---- */

enum { MEMBERS = 3, ROWS = 5, INPUTS = 4, MEMORY = 1 << 20 };

static const struct optimizer_config sgd = {.type = OPT_SGD, .learning_rate = {1}};

struct process {
    struct graph *graph;
    struct session *session;
    struct share *share;
    struct output x, y, loss, norm;
    struct variable *w, *own; /* own: a variable of the ps alone */
};

struct linear {
    void *memory;
    size_t members[MEMBERS];
    struct process process[MEMBERS + 1]; /* the last is the ps */
};

static struct share *make_share(struct linear *l, size_t self)
{
    const struct share_group group = {
        .ps = "ps", .members = l->members, .n = MEMBERS, .self = self};

    return share_new(&group);
}

static void make_loss(struct process *p)
{
    struct output product, error;

    p->x = placeholder(p->graph, DT_FLOAT, &SHAPE(-1, INPUTS), "x");
    p->y = placeholder(p->graph, DT_FLOAT, &SHAPE(-1, 1), "y");
    product = matmul(p->graph, p->x, p->w->read, 0, 0, "product");
    error = binary(p->graph, "Sub", product, p->y, "error");
    p->loss = reduce(p->graph, "Mean", unary(p->graph, "Square", error, NULL), NULL, 0, 0,
                     "loss");
}

/* The ps's own variable has a gradient of (0.5, 0.5). */
static int make_process(struct linear *l, size_t i, float clip_norm, struct err *err)
{
    const struct initializer ones = ones_initializer();
    struct process *p = &l->process[i];
    const int is_ps = i == MEMBERS;
    struct share_part part = {
        .step = {.scope = is_ps ? "ps/" : "member/", .optimizer = &sgd}};
    const float half[2] = {0.5f, 0.5f};
    const struct tensor halves = tensor_const_view(DT_FLOAT, SHAPE(2), half);
    const struct session_options options = {0};
    struct operation *init;
    struct run_args run = {.n_targets = 1};
    struct gradient own;
    int r;

    p->graph = graph_new();
    p->share = make_share(l, i);
    variable_scope_enter(p->graph, is_ps ? "ps" : "member", NULL, REUSE_INHERIT);
    p->w = get_variable(p->graph, "w", DT_FLOAT, &SHAPE(INPUTS, 1), &ones, 0);
    variable_scope_leave(p->graph);
    if (is_ps) {
        p->own = get_variable(p->graph, "mixer", DT_FLOAT, &SHAPE(2), &ones, 0);
        own = (struct gradient){constant(p->graph, &halves, "half"), p->own};
        part.step.clip_norm = constant_f32(p->graph, clip_norm, "clip");
        part.step.clip_by = CLIP_BY_GLOBAL;
        part.own = &own;
        part.n_own = 1;
    } else {
        make_loss(p);
        part.loss = p->loss;
    }
    r = share_build(p->share, p->graph, &part, 1, err);
    if (r == 0)
        r = share_set_memory(p->share, l->memory, MEMORY, err);
    if (r < 0)
        return r;
    p->norm = part.step.norm;
    init = global_variables_initializer(p->graph, "init");
    run.targets = &init;
    ck_assert_int_eq(session_new(&p->session, p->graph, &options, err), 0);
    ck_assert_int_eq(session_run(p->session, &run, NULL, err), 0);
    return 0;
}

static struct linear *linear_new(float clip_norm)
{
    struct linear *l = xcalloc(1, sizeof(*l));
    struct err err;

    l->memory = mem_aligned(MEMORY);
    memset(l->memory, 0, MEMORY);
    for (size_t i = 0; i < MEMBERS; i++)
        l->members[i] = i;
    for (size_t i = 0; i <= MEMBERS; i++)
        ck_assert_msg(make_process(l, i, clip_norm, &err) == 0, "%s", err.msg);
    return l;
}

static void linear_free(struct linear *l)
{
    for (size_t i = 0; i <= MEMBERS; i++) {
        share_free(l->process[i].share);
        session_free(l->process[i].session);
        graph_free(l->process[i].graph);
    }
    free(l->memory);
    free(l);
}

struct rows {
    float x[MEMBERS * ROWS * INPUTS], y[MEMBERS * ROWS];
};

static struct rows make_rows(void)
{
    const struct rng_key key = rng_key_make(3, "test", "share");
    struct rows rows;

    rng_uniform_f32(key, 0, 0, rows.x, MEMBERS * ROWS * INPUTS);
    rng_uniform_f32(key, 1, 0, rows.y, MEMBERS * ROWS);
    return rows;
}

static struct stage_args at_update(int stage, uint64_t update, uint64_t slot)
{
    return (struct stage_args){
        .stage = &share_stages[stage], .update = update, .slot = slot};
}

static int gradients(struct linear *l, size_t i, const struct stage_args *args,
                     struct rows *rows, size_t first, int64_t n, float weight,
                     struct err *err)
{
    struct process *p = &l->process[i];
    const struct feed feeds[] = {
        {p->x, tensor_view(DT_FLOAT, SHAPE(n, INPUTS), rows->x + first * INPUTS)},
        {p->y, tensor_view(DT_FLOAT, SHAPE(n, 1), rows->y + first)}};
    const struct run_args run = {
        .feeds = feeds, .n_feeds = 2, .fetches = &p->loss, .n_fetches = 1};
    float loss = -1;
    struct tensor value = tensor_scalar_f32(&loss);
    const int r =
        share_gradients(p->share, SHARE_ALL, p->session, &run, &value, args, weight, err);

    ck_assert(r < 0 || loss >= 0);
    return r;
}

static int apply(struct linear *l, const struct stage_args *args, float *ret_norm,
                 struct err *err)
{
    struct process *ps = &l->process[MEMBERS];
    const struct run_args run = {.fetches = &ps->norm, .n_fetches = 1};
    struct tensor value = tensor_scalar_f32(ret_norm);

    return share_apply(ps->share, SHARE_ALL, ps->session, &run, &value, args, err);
}

static const float *value_of(struct process *p, const struct variable *v)
{
    struct tensor t;
    struct err err;

    ck_assert_int_eq(session_variable(p->session, v, &t, &err), 0);
    return tensor_f32(&t);
}

/* d mean (x w - y)^2 / d w with w = 1, over n rows. */
static void gradient_of(const struct rows *rows, size_t n, double *ret)
{
    memset(ret, 0, INPUTS * sizeof(*ret));
    for (size_t i = 0; i < n; i++) {
        double error = -(double)rows->y[i];

        for (int k = 0; k < INPUTS; k++)
            error += (double)rows->x[i * INPUTS + (size_t)k];
        for (int k = 0; k < INPUTS; k++)
            ret[k] += 2 * error * (double)rows->x[i * INPUTS + (size_t)k] / (double)n;
    }
}

/* One step of the whole group. split[i]: the number of rows of member i, which is also
 * its weight; members take their rows in order. */
static void step(struct linear *l, struct rows *rows, const int64_t *split, float *norm)
{
    const struct stage_args g = at_update(0, 4, 1), a = at_update(1, 4, 1),
                            v = at_update(2, 4, 1);
    size_t first = 0;
    struct err err;

    for (size_t i = 0; i < MEMBERS; i++) {
        ck_assert_int_eq(
            gradients(l, i, &g, rows, first, split[i], (float)split[i], &err), 0);
        first += (size_t)split[i];
    }
    ck_assert_msg(apply(l, &a, norm, &err) == 0, "%s", err.msg);
    for (size_t i = 0; i < MEMBERS; i++)
        ck_assert_int_eq(
            share_assign(l->process[i].share, SHARE_ALL, l->process[i].session, &v, &err),
            0);
}

/* The step is that of one process with all rows, even if members have different numbers
 * of them. */
START_TEST(test_mean_is_gradient_of_all_rows)
{
    static const int64_t splits[][MEMBERS] = {{ROWS, ROWS, ROWS}, {1, 10, 4}};
    struct rows rows = make_rows();
    double want[INPUTS];

    gradient_of(&rows, MEMBERS * ROWS, want);
    for (size_t s = 0; s < 2; s++) {
        struct linear *l = linear_new(0x1p64f);
        struct process *ps = &l->process[MEMBERS];
        float norm;

        step(l, &rows, splits[s], &norm);
        for (int k = 0; k < INPUTS; k++)
            ck_assert_double_eq_tol((double)value_of(ps, ps->w)[k], 1 - want[k], 1e-5);
        for (size_t i = 0; i < MEMBERS; i++)
            ck_assert_mem_eq(value_of(&l->process[i], l->process[i].w),
                             value_of(ps, ps->w), INPUTS * sizeof(float));
        linear_free(l);
    }
}
END_TEST

/* ---- two parts: the gradient of a v is a, of both variables v ---- */

struct two_parts {
    struct graph *graph;
    struct session *session;
    struct share *share;
    struct output a, loss[2];
    struct variable *v[2];
};

static void two_parts_init(struct two_parts *p, struct linear *l, size_t i)
{
    static const char *const names[] = {"first", "second"};
    const struct initializer ones = ones_initializer();
    const int is_ps = i == MEMBERS;
    struct share_part part[2] = {
        {.step = {.scope = is_ps ? "ps/first/" : "member/first/", .optimizer = &sgd}},
        {.step = {.scope = is_ps ? "ps/second/" : "member/second/", .optimizer = &sgd}}};
    const struct session_options options = {0};
    struct operation *init;
    struct run_args run = {.targets = &init, .n_targets = 1};
    struct err err;

    p->graph = graph_new();
    p->share = make_share(l, i);
    p->a = placeholder(p->graph, DT_FLOAT, &SHAPE_SCALAR, "a");
    for (int k = 0; k < 2; k++) {
        variable_scope_enter(p->graph, is_ps ? "ps" : "member", NULL, REUSE_INHERIT);
        variable_scope_enter(p->graph, names[k], NULL, REUSE_INHERIT);
        p->v[k] = get_variable(p->graph, "v", DT_FLOAT, &SHAPE_SCALAR, &ones, 0);
        variable_scope_leave(p->graph);
        variable_scope_leave(p->graph);
        p->loss[k] = part[k].loss = binary(p->graph, "Mul", p->a, p->v[k]->read, NULL);
        part[k].step.clip_norm = constant_f32(p->graph, 0x1p64f, NULL);
    }
    ck_assert_msg(share_build(p->share, p->graph, part, 2, &err) == 0, "%s", err.msg);
    ck_assert_int_eq(share_set_memory(p->share, l->memory, MEMORY, &err), 0);
    init = global_variables_initializer(p->graph, "init");
    ck_assert_int_eq(session_new(&p->session, p->graph, &options, &err), 0);
    ck_assert_int_eq(session_run(p->session, &run, NULL, &err), 0);
}

/* Members may compute the parts of a step from different rows, in stages of their own. */
START_TEST(parts_have_weights_of_their_own)
{
    static const float a[MEMBERS] = {1, 3, 5},
                       weight[2][MEMBERS] = {{1, 3, 0}, {3, 1, 0}};
    const struct stage_args g = at_update(0, 4, 1), apply_args = at_update(1, 4, 1);
    struct linear *l = linear_new(1);
    struct two_parts p[MEMBERS + 1];
    const struct run_args none = {0};
    struct tensor v;
    struct err err;

    for (size_t i = 0; i <= MEMBERS; i++)
        two_parts_init(&p[i], l, i);
    for (size_t i = 0; i < MEMBERS; i++)
        for (size_t k = 0; k < 2; k++) {
            const struct feed feed = {p[i].a, tensor_scalar_f32(&a[i])};
            const struct run_args run = {.feeds = &feed, .n_feeds = 1};

            ck_assert_int_eq(share_gradients(p[i].share, (struct share_range){k, 1},
                                             p[i].session, &run, NULL, &g, weight[k][i],
                                             &err),
                             0);
        }
    ck_assert_msg(share_apply(p[MEMBERS].share, SHARE_ALL, p[MEMBERS].session, &none,
                              NULL, &apply_args, &err) == 0,
                  "%s", err.msg);
    for (size_t k = 0; k < 2; k++) {
        ck_assert_int_eq(session_variable(p[MEMBERS].session, p[MEMBERS].v[k], &v, &err),
                         0);
        ck_assert_float_eq(*tensor_f32(&v), 1 - (k == 0 ? 2.5f : 1.5f));
    }
    for (size_t i = 0; i <= MEMBERS; i++) {
        share_free(p[i].share);
        session_free(p[i].session);
        graph_free(p[i].graph);
    }
    linear_free(l);
}
END_TEST

/* The clipped norm is that of the group's gradients and the ps's own together. */
START_TEST(test_joint_clip)
{
    struct linear *l = linear_new(0.25f);
    struct process *ps = &l->process[MEMBERS];
    static const int64_t split[MEMBERS] = {ROWS, ROWS, ROWS};
    struct rows rows = make_rows();
    double want[INPUTS], square = 0.5;
    float norm;

    gradient_of(&rows, MEMBERS * ROWS, want);
    for (int k = 0; k < INPUTS; k++)
        square += want[k] * want[k];
    step(l, &rows, split, &norm);
    ck_assert_double_eq_tol((double)norm, sqrt(square), 1e-5);
    for (int k = 0; k < INPUTS; k++)
        ck_assert_double_eq_tol((double)value_of(ps, ps->w)[k],
                                1 - want[k] * 0.25 / sqrt(square), 1e-5);
    ck_assert_double_eq_tol((double)value_of(ps, ps->own)[1],
                            1 - 0.5 * 0.25 / sqrt(square), 1e-5);
    linear_free(l);
}
END_TEST

/* A measured number is averaged over the rows of all, whatever their gradients weigh; writing
 * other gradients of the step leaves it. The next step in that slot begins without. */
START_TEST(measure_is_a_mean_over_all_rows)
{
    static const double rows_of[MEMBERS] = {1, 10, 4}, sum_of[MEMBERS] = {2, -5, 6};
    struct linear *l = linear_new(0x1p64f);
    struct rows rows = make_rows();
    double mean = 0;
    struct err err;

    for (uint64_t update = 4; update < 6; update++) {
        const struct stage_args g = at_update(0, update, 1), a = at_update(1, update, 1),
                                v = at_update(2, update, 1);
        float norm;

        for (size_t i = 0; i < MEMBERS; i++) {
            ck_assert_int_eq(gradients(l, i, &g, &rows, 0, ROWS, 1, &err), 0);
            if (update == 4)
                ck_assert_int_eq(
                    share_measure(l->process[i].share, &g, sum_of[i], rows_of[i], &err),
                    0);
            ck_assert_int_eq(gradients(l, i, &g, &rows, 0, ROWS, 7, &err), 0);
        }
        ck_assert_int_eq(apply(l, &a, &norm, &err), 0);
        for (size_t i = MEMBERS + 1; i-- > 0;) {
            ck_assert_int_eq(
                share_measured(l->process[i].share, i == MEMBERS ? &a : &v, &mean, &err),
                0);
            ck_assert_double_eq(mean, update == 4 ? 3.0 / 15 : 0);
        }
    }
    linear_free(l);
}
END_TEST

/* Values that another process may have written into the shared memory. */
START_TEST(test_foreign_memory)
{
    struct linear *l = linear_new(0x1p64f);
    const struct stage_args g = at_update(0, 4, 1), a = at_update(1, 4, 1),
                            later = at_update(1, 5, 1), none = at_update(1, 4, SLOT_NONE),
                            v = at_update(2, 4, 1);
    struct process *m = &l->process[0];
    struct rows rows = make_rows();
    struct share_ring ring;
    struct share_header *h;
    float norm;
    struct err err;

    ck_assert_int_eq(apply(l, &a, &norm, &err), ERR_STATE); /* no gradients yet */
    ck_assert_ptr_nonnull(strstr(err.msg, "apply of update 4: slot 1"));
    ck_assert_int_eq(share_assign(m->share, SHARE_ALL, m->session, &v, &err), ERR_STATE);
    for (size_t i = 0; i < MEMBERS; i++)
        ck_assert_int_eq(gradients(l, i, &g, &rows, i * ROWS, ROWS, 1, &err), 0);
    ck_assert_int_eq(apply(l, &later, &norm, &err), ERR_STATE);
    ck_assert_int_eq(apply(l, &none, &norm, &err), ERR_PROTOCOL);
    ck_assert_int_eq(share_ring_init(&ring, MEMBERS, share_elements(m->share), &err), 0);
    h = (void *)((char *)l->memory + share_ring_offset(&ring, 1, 2));
    h->weight[0] = -1;
    ck_assert_int_eq(apply(l, &a, &norm, &err), ERR_STATE);
    h->weight[0] = 1;
    h->elements = UINT64_MAX;
    ck_assert_int_eq(apply(l, &a, &norm, &err), ERR_STATE);
    h->elements = ring.elements;
    ck_assert_int_eq(apply(l, &a, &norm, &err), 0);
    linear_free(l);
}
END_TEST

START_TEST(test_ring)
{
    struct share_ring r;
    struct err err;

    ck_assert_int_eq(share_ring_init(&r, 3, 17, &err), 0);
    ck_assert_uint_eq(r.vector_bytes, 192);
    ck_assert_uint_eq(r.slots, SHARE_RING_MAX_SLOTS);
    ck_assert_uint_eq(share_ring_offset(&r, 2, 3), 2 * 4 * 192 + 3 * 192);
    ck_assert_int_eq(share_ring_init(&r, 3, 100000, &err), 0);
    ck_assert_uint_eq(r.slots, 5);
    ck_assert_int_eq(share_ring_init(&r, 3, 100000000, &err), 0);
    ck_assert_uint_eq(r.slots, SHARE_RING_MIN_SLOTS);
    ck_assert_int_eq(share_ring_init(&r, 100, 100000000, &err), ERR_LIMIT);
    ck_assert_int_eq(share_ring_init(&r, 3, UINT64_MAX / 4, &err), ERR_LIMIT);
    ck_assert_int_eq(share_ring_init(&r, 0, 1, &err), ERR_LIMIT);
    ck_assert_int_eq(share_ring_init(&r, 1, 0, &err), ERR_LIMIT);
}
END_TEST

/* Refused: memory that is too small, and a loss without one of the variables. */
START_TEST(test_refused)
{
    struct linear *l = linear_new(0x1p64f);
    struct process *p = &l->process[0];
    struct share_part part = {.step.scope = "member/", .loss = p->loss};
    struct share *s = make_share(l, 0);
    const struct stage_args v = at_update(2, 4, 1);
    struct err err;

    ck_assert_int_eq(share_set_memory(p->share, l->memory, 1024, &err), ERR_LIMIT);
    ck_assert_int_eq(share_build(s, p->graph, &part, 1, &err), 0);
    ck_assert_int_eq(share_assign(s, SHARE_ALL, p->session, &v, &err), ERR_STATE);
    share_free(s);
    s = make_share(l, 0);
    part.loss = reduce(p->graph, "Mean", p->y, NULL, 0, 0, "elsewhere");
    ck_assert_int_eq(share_build(s, p->graph, &part, 1, &err), ERR_ARG);
    ck_assert_ptr_nonnull(strstr(err.msg, "member/w"));
    share_free(s);
    s = make_share(l, 0);
    part.step.scope = "nowhere/";
    ck_assert_int_eq(share_build(s, p->graph, &part, 1, &err), ERR_ARG);
    share_free(s);
    linear_free(l);
}
END_TEST

/* ---- iql ---- */

#define UPDATES 6
#define BATCH   16

static struct team *iql_team(const char *config, int share)
{
    struct team_args args = team_spread(config, 64);

    args.share = share;
    return team_new(&args);
}

static void draw_rows(uint64_t update, uint64_t *rows)
{
    rng_below(rng_key_make(5, "test", "rows"), update, 0, 64, rows, BATCH);
}

static void run_stage(struct team *t, size_t i, const char *name, uint64_t update)
{
    uint64_t rows[BATCH];
    struct stage_result res;
    struct err err;

    draw_rows(update, rows);
    t->slot = update % 4;
    ck_assert_msg(team_stage(t, i, name, update, rows, 1, BATCH, NULL, &res, &err) == 0,
                  "%s", err.msg);
}

static const size_t orders[][MEMBERS] = {{0, 1, 2}, {2, 0, 1}};

static void shared_update(struct team *t, uint64_t update, const size_t *order)
{
    for (size_t i = 0; i < MEMBERS; i++)
        run_stage(t, order[i], "gradients", update);
    run_stage(t, MEMBERS, "apply", update);
    for (size_t i = 0; i < MEMBERS; i++)
        run_stage(t, order[i], "assign", update);
}

static void assert_same_blocks(struct team *a, struct team *b)
{
    for (size_t i = 0; i <= MEMBERS; i++) {
        struct session *x = a->members[i].session, *y = b->members[i].session;

        ck_assert_uint_eq(session_block_bytes(x), session_block_bytes(y));
        ck_assert_mem_eq(session_block(x), session_block(y), session_block_bytes(x));
    }
}

static void assert_same_network(struct team *t)
{
    static const char *const names[] = {"q_func/fully_connected/weights",
                                        "q_func/fully_connected_1/biases"};

    for (int k = 0; k < 2; k++) {
        const struct tensor ps = team_variable(t, MEMBERS, names[k]);

        for (size_t i = 0; i < MEMBERS; i++) {
            const struct tensor own = team_variable(t, i, names[k]);

            ck_assert_mem_eq(own.data, ps.data, tensor_bytes(&ps));
        }
    }
}

#define SMALL "{algorithm: iql, critic: {hidden: [16, 16]}}"

/* The order in which members' gradients arrive does not change the bits. Members have the
 * ps's values from the beginning. */
START_TEST(test_order_of_arrival)
{
    struct team *a = iql_team(SMALL, 1), *b = iql_team(SMALL, 1);

    assert_same_network(a);
    for (uint64_t u = 0; u < UPDATES; u++) {
        shared_update(a, u, orders[0]);
        shared_update(b, u, orders[1]);
    }
    assert_same_blocks(a, b);
    assert_same_network(a);
    team_free(a);
    team_free(b);
}
END_TEST

/* A ps that died is restored: a block from some updates ago, then every later apply once
 * more. */
START_TEST(test_apply_again)
{
    struct team *t = iql_team(SMALL, 1);
    struct session *s = t->members[MEMBERS].session;
    const size_t n = session_block_bytes(s);
    char *before = xmalloc(n), *after = xmalloc(n);

    shared_update(t, 0, orders[0]);
    session_snapshot(s, before);
    for (uint64_t u = 1; u < 4; u++)
        shared_update(t, u, orders[0]);
    session_snapshot(s, after);
    session_restore(s, before);
    for (uint64_t u = 1; u < 4; u++)
        run_stage(t, MEMBERS, "apply", u);
    ck_assert_mem_eq(session_block(s), after, n);
    free(before);
    free(after);
    team_free(t);
}
END_TEST

#define PLAIN                                                                            \
    "{algorithm: iql, clip_norm: none, optimizer: {type: sgd, learning_rate: 0.1}, "     \
    "critic: {hidden: [16, 16]}}"

static void copy_values(struct team *to, struct team *from)
{
    for (size_t i = 0; i < MEMBERS; i++)
        for (int k = 0; k < graph_n_variables(to->members[i].graph); k++) {
            struct variable *v = graph_variable_at(to->members[i].graph, k);
            struct variable *w = variable_find(from->members[i].graph, v->name);
            struct tensor value;
            struct err err;

            if (w == NULL)
                continue;
            ck_assert_int_eq(session_variable(from->members[i].session, w, &value, &err),
                             0);
            ck_assert_int_eq(
                session_variable_set(to->members[i].session, v, &value, &err), 0);
        }
}

/* With SGD the shared step is the mean of the steps that the agents would make alone. */
START_TEST(test_mean_of_steps)
{
    struct team *shared = iql_team(PLAIN, 1), *alone = iql_team(PLAIN, 0);
    static const char *const name = "q_func/fully_connected_1/weights";
    struct tensor got;
    uint64_t rows[BATCH];

    copy_values(alone, shared);
    draw_rows(0, rows);
    shared_update(shared, 0, orders[0]);
    team_update(alone, 0, rows, 1, BATCH, NULL);
    got = team_variable(shared, 0, name);
    for (int64_t k = 0; k < tensor_elements(&got); k++) {
        double mean = 0;

        for (size_t i = 0; i < MEMBERS; i++) {
            const struct tensor t = team_variable(alone, i, name);

            mean += (double)tensor_f32(&t)[k] / MEMBERS;
        }
        ck_assert_double_eq_tol((double)tensor_f32(&got)[k], mean, 1e-5);
    }
    team_free(shared);
    team_free(alone);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("share");
    TCase *tc = tcase_create("share");

    tcase_add_test(tc, test_mean_is_gradient_of_all_rows);
    tcase_add_test(tc, parts_have_weights_of_their_own);
    tcase_add_test(tc, test_joint_clip);
    tcase_add_test(tc, measure_is_a_mean_over_all_rows);
    tcase_add_test(tc, test_foreign_memory);
    tcase_add_test(tc, test_ring);
    tcase_add_test(tc, test_refused);
    tcase_add_test(tc, test_order_of_arrival);
    tcase_add_test(tc, test_apply_again);
    tcase_add_test(tc, test_mean_of_steps);
    suite_add_tcase(suite, tc);
    return suite;
}

TEST_MAIN(make_suite)
