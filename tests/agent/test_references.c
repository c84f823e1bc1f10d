/* Reference variables are memory (session/uses.h): what runs after a write sees the new value,
 * whatever passes the bytes on. The expected values are computed by hand. */
#include "tests/agent/session_help.h"
#include "tests/support/test_main.h"

#include "agent/graph/import.h"

static const struct shape scalar = {0};

/* w = 1, which a step makes 2, and t = -1. */
struct case_ {
    struct bed bed;
    struct graph *g;
    struct variable *w, *t;
    struct operation *step;
};

static void case_init(struct case_ *c)
{
    bed_init(&c->bed);
    c->g = c->bed.g;
    c->w = bed_variable(&c->bed, 1, "w");
    c->t = bed_variable(&c->bed, -1, "t");
    c->step =
        ternary(c->g, "ApplyGradientDescent", c->w->ref, constant_f32(c->g, 0.5f, NULL),
                constant_f32(c->g, -2, NULL), "step")
            .op;
}

static float value_of(struct bed *b, struct variable *v)
{
    struct tensor t;

    ck_assert_int_eq(session_variable(b->s, v, &t, &b->err), 0);
    return tensor_f32(&t)[0];
}

/* Runs the targets once, from new variables. */
static void play(struct case_ *c, struct operation *const *targets, size_t n)
{
    struct run_args args = bed_args(&c->bed);

    bed_init_variables(&c->bed);
    args.targets = targets;
    args.n_targets = n;
    ck_assert_msg(session_run(c->bed.s, &args, NULL, &c->bed.err) == 0, "%s",
                  c->bed.err.msg);
}

/* t = x, after the step; x may have been built before. */
static void check_copy(struct case_ *c, struct output x, float want)
{
    struct operation *copy;

    control_dependencies_enter(c->g, &c->step, 1);
    copy = variable_assign(c->t, x, NULL).op;
    control_dependencies_leave(c->g);
    play(c, &copy, 1);
    ck_assert_float_eq(value_of(&c->bed, c->w), 2);
    ck_assert_float_eq(value_of(&c->bed, c->t), want);
    bed_done(&c->bed);
}

/* ---- what passes the bytes on ---- */

static struct output pass(struct case_ *c, int way)
{
    const int32_t none = 0;
    struct graph *g = c->g;
    const struct output w = c->w->read;
    struct output x, yes;

    switch (way) {
    case 0:
        return w;
    case 1:
        return unary(g, "StopGradient", unary(g, "Identity", w, NULL), NULL);
    case 2:
        x = constant_i32s(g, (const int32_t[]){1}, 1, NULL);
        x = binary(g, "Reshape", w, x, NULL);
        return binary(g, "Reshape", x, constant_i32s(g, &none, 0, NULL), NULL);
    case 3:
        return unary(g, "Squeeze",
                     binary(g, "ExpandDims", w, constant_i32(g, 0, NULL), NULL), NULL);
    case 4: /* the output of a write, with another write after it */
        x = variable_assign_add(c->w, constant_f32(g, 0, NULL), NULL);
        (void)operation_add_control_input(c->step, x.op);
        return x;
    case 5: /* through a branch that a feed decides about */
        yes = placeholder(g, DT_BOOL, &SHAPE_SCALAR, "yes");
        x = binary(g, "Switch", w, yes, NULL);
        x.index = 1;
        x = unary(g, "Identity", x, NULL);
        yes = binary(g, "Switch", constant_f32(g, 7, NULL), yes, NULL);
        return binary(g, "Merge", unary(g, "Neg", yes, NULL), x, NULL);
    default: /* the reference itself */
        return c->w->ref;
    }
}

START_TEST(what_passes_bytes_on_is_the_memory)
{
    static const uint8_t yes = 1;
    struct case_ c;
    struct output x;

    case_init(&c);
    x = pass(&c, _i);
    if (_i == 5)
        c.bed.feeds[c.bed.n_feeds++] =
            (struct feed){.output = {graph_operation(c.g, "yes"), 0},
                          .value = tensor_const_view(DT_BOOL, SHAPE_SCALAR, &yes)};
    check_copy(&c, x, 2);
}
END_TEST
#define N_WAYS 7

/* What computes is done when it has run, even if it leaves the bytes as they are. */
START_TEST(what_was_computed_stays)
{
    static const int32_t zero = 0;
    struct case_ c;
    struct output x;

    case_init(&c);
    x = _i == 0   ? unary(c.g, "Neg", c.w->read, NULL)
        : _i == 1 ? reduce(c.g, "Sum", c.w->read, &zero, 0, 0, NULL)
        : _i == 2 ? binary(c.g, "AddV2", c.w->read, constant_f32(c.g, 0, NULL), NULL)
                  : cast(c.g, cast(c.g, c.w->read, DT_DOUBLE, NULL), DT_FLOAT, NULL);
    check_copy(&c, x, _i == 0 ? -1 : 1);
}
END_TEST

/* ---- after a training step ---- */

/* t = 0.5 t + 0.5 w, the way of target networks; also where one step computes it all. */
START_TEST(a_target_follows_the_new_weights)
{
    struct case_ c;
    struct output half, sum;
    struct operation *follow;

    case_init(&c);
    half = constant_f32(c.g, 0.5f, NULL);
    control_dependencies_enter(c.g, &c.step, 1);
    sum = binary(c.g, "Add", binary(c.g, "Mul", half, c.t->read, NULL),
                 binary(c.g, "Mul", half, c.w->read, NULL), NULL);
    follow = variable_assign(c.t, sum, NULL).op;
    control_dependencies_leave(c.g);
    play(&c, &follow, 1);
    ck_assert_float_eq(value_of(&c.bed, c.t), 0.5f);
    bed_done(&c.bed);
}
END_TEST

/* ExponentialMovingAverage.apply with num_updates: the decay is min(0.9, (1 + n) / (10 + n)),
 * where n is the counter that the step has raised to 1. */
START_TEST(an_average_is_of_the_new_weights)
{
    struct case_ c;
    struct variable *n;
    struct output one, decay, less;
    struct operation *steps[2], *apply;

    case_init(&c);
    n = bed_variable(&c.bed, 0, "n");
    one = constant_f32(c.g, 1, NULL);
    steps[0] = c.step;
    steps[1] = variable_assign_add(n, one, NULL).op;
    control_dependencies_enter(c.g, steps, 2);
    decay = binary(c.g, "RealDiv", binary(c.g, "Add", n->read, one, NULL),
                   binary(c.g, "Add", n->read, constant_f32(c.g, 10, NULL), NULL), NULL);
    decay = binary(c.g, "Minimum", decay, constant_f32(c.g, 0.9f, NULL), NULL);
    less = binary(c.g, "Mul", binary(c.g, "Sub", c.t->read, c.w->read, NULL),
                  binary(c.g, "Sub", one, decay, NULL), NULL);
    apply = variable_assign_sub(c.t, less, NULL).op;
    control_dependencies_leave(c.g);
    play(&c, &apply, 1);
    /* -1 - (-1 - 2) (1 - 2/11) */
    ck_assert_float_eq_tol(value_of(&c.bed, c.t), -1 + 3 * 9.0f / 11, 1e-6f);
    bed_done(&c.bed);
}
END_TEST

/* A counter that the step raises, read by a Cast after it. */
START_TEST(a_counter_is_read_after_it_is_raised)
{
    struct case_ c;
    struct variable *n;
    struct operation *raise, *copy;

    case_init(&c);
    n = variable_new(c.g, constant_i32(c.g, 4, NULL), "n", 0);
    raise = variable_assign_add(n, constant_i32(c.g, 1, NULL), NULL).op;
    control_dependencies_enter(c.g, &raise, 1);
    copy = variable_assign(c.t, cast(c.g, n->read, DT_FLOAT, NULL), NULL).op;
    control_dependencies_leave(c.g);
    play(&c, &copy, 1);
    ck_assert_float_eq(value_of(&c.bed, c.t), 5);
    bed_done(&c.bed);
}
END_TEST

/* tf.cond(yes, t = w, nothing) after the step, as a target copy every n steps. */
START_TEST(a_copy_in_a_branch_is_of_the_new_weights)
{
    static const uint8_t yes[] = {0, 1};
    struct case_ c;
    struct output pred, on, w;
    struct operation *copy;
    struct op_builder *b;

    case_init(&c);
    pred = placeholder(c.g, DT_BOOL, &SHAPE_SCALAR, NULL);
    w = binary(c.g, "Switch", c.w->read, pred, NULL);
    w.index = 1;
    b = op_begin(c.g, "RefSwitch", NULL);
    op_input(b, c.t->ref);
    op_input(b, pred);
    on = (struct output){op_finish(b), 1};
    b = op_begin(c.g, "Assign", NULL);
    op_input(b, on);
    op_input(b, w);
    op_control_input(b, c.step);
    copy = op_finish(b);
    for (int i = 0; i < 2; i++) {
        c.bed.feeds[0] = (struct feed){
            .output = pred, .value = tensor_const_view(DT_BOOL, SHAPE_SCALAR, &yes[i])};
        c.bed.n_feeds = 1;
        play(&c, &copy, 1);
        ck_assert_float_eq(value_of(&c.bed, c.t), i ? 2 : -1);
    }
    bed_done(&c.bed);
}
END_TEST

/* Two uses of one v/read, before and after the write. */
/* Both branches of tf.cond write w, and return the reference. */
START_TEST(branches_that_write_return_the_memory)
{
    struct case_ c;
    struct output yes, w, x, add, set, merged;
    struct tensor t;

    case_init(&c);
    yes = placeholder(c.g, DT_BOOL, &SHAPE_SCALAR, "yes");
    w = binary(c.g, "RefSwitch", c.w->ref, yes, NULL);
    x = binary(c.g, "Switch", constant_f32(c.g, 5, NULL), yes, NULL);
    add = binary(c.g, "AssignAdd", (struct output){w.op, 1}, (struct output){x.op, 1},
                 NULL);
    set = binary(c.g, "Assign", w, x, NULL);
    merged = unary(c.g, "RefIdentity", binary(c.g, "RefMerge", set, add, NULL), NULL);
    ck_assert(output_is_ref(merged));
    x = unary(c.g, "Neg", merged, NULL);
    for (uint8_t k = 0; k < 2; k++) {
        c.bed.n_feeds = 0;
        bed_init_variables(&c.bed);
        c.bed.feeds[c.bed.n_feeds++] =
            (struct feed){yes, tensor_view(DT_BOOL, SHAPE_SCALAR, &k)};
        t = bed_fetch(&c.bed, x);
        ck_assert_float_eq(*tensor_f32(&t), k ? -6 : -5);
        tensor_free(&t);
    }
    x = binary(c.g, "Assign", merged, constant_f32(c.g, 1, NULL), "late");
    struct run_args args = bed_args(&c.bed);
    args.targets = &x.op;
    args.n_targets = 1;
    ck_assert_int_eq(session_run(c.bed.s, &args, NULL, &c.bed.err), ERR_UNSUPPORTED);
    ck_assert_msg(strstr(c.bed.err.msg,
                         "late writes the variable that RefIdentity chooses") != NULL,
                  "%s", c.bed.err.msg);
    bed_done(&c.bed);
}
END_TEST

START_TEST(uses_have_times_of_their_own)
{
    struct case_ c;
    struct output early, late, fetches[3];
    float y[3];
    struct tensor ret[3];
    struct run_args args;

    case_init(&c);
    early = unary(c.g, "Square", c.w->read, NULL);
    control_dependencies_enter(c.g, &c.step, 1);
    late = unary(c.g, "Square", c.w->read, NULL);
    control_dependencies_leave(c.g);
    fetches[0] = binary(c.g, "Sub", late, early, NULL);
    fetches[1] = c.w->read; /* the end of the run */
    fetches[2] = c.w->ref;
    for (int i = 0; i < 3; i++)
        ret[i] = tensor_view(DT_FLOAT, scalar, &y[i]);
    args = (struct run_args){.fetches = fetches, .n_fetches = 3};
    bed_init_variables(&c.bed);
    ck_assert_int_eq(session_run(c.bed.s, &args, ret, &c.bed.err), 0);
    ck_assert_float_eq(y[0], 4 - 1);
    ck_assert_float_eq(y[1], 2);
    ck_assert_float_eq(y[2], 2);
    bed_done(&c.bed);
}
END_TEST

/* A Merge of memory and a value is read right before each use, also through an alias. */
START_TEST(a_choice_is_read_when_it_is_used)
{
    static const uint8_t yes[] = {0, 1};
    struct case_ c;
    struct output pred, sides[2], x, early, late, fetch;
    float y;
    struct tensor ret = tensor_view(DT_FLOAT, scalar, &y);
    struct run_args args;

    case_init(&c);
    pred = placeholder(c.g, DT_BOOL, &SHAPE_SCALAR, NULL);
    sides[0] = binary(c.g, "Switch", constant_f32(c.g, 7, NULL), pred, NULL);
    sides[1] = binary(c.g, "Switch", c.w->read, pred, NULL);
    sides[1].index = 1;
    x = binary(c.g, "Merge", unary(c.g, "Neg", sides[0], NULL), sides[1], NULL);
    x = unary(c.g, "Identity", x, NULL);
    early = unary(c.g, "Neg", x, NULL);
    control_dependencies_enter(c.g, &c.step, 1);
    late = unary(c.g, "Neg", x, NULL);
    control_dependencies_leave(c.g);
    fetch =
        binary(c.g, "Sub", binary(c.g, "Mul", late, constant_f32(c.g, 10, NULL), NULL),
               early, NULL);
    bed_init_variables(&c.bed);
    for (int i = 1; i >= 0; i--) {
        struct feed feed = {.output = pred,
                            .value = tensor_const_view(DT_BOOL, SHAPE_SCALAR, &yes[i])};

        args = (struct run_args){
            .feeds = &feed, .n_feeds = 1, .fetches = &fetch, .n_fetches = 1};
        ck_assert_int_eq(session_run(c.bed.s, &args, &ret, &c.bed.err), 0);
        ck_assert_float_eq(y, i ? -20 + 1 : 70 - 7);
    }
    bed_done(&c.bed);
}
END_TEST

/* A variable decides about a branch before it is written, and about another one after. */
START_TEST(a_predicate_is_read_by_each_switch)
{
    struct case_ c;
    struct variable *flag;
    struct output yes, sides[2], n;
    struct operation *clear, *adds[2];
    static const uint8_t set = 1;
    const struct tensor one = tensor_const_view(DT_BOOL, SHAPE_SCALAR, &set);

    case_init(&c);
    flag = variable_new_constant(c.g, &one, "flag", 0);
    n = constant_f32(c.g, 10, NULL);
    yes = unary(c.g, "Identity", flag->read, NULL);
    sides[0] = binary(c.g, "Switch", n, yes, NULL);
    sides[0].index = 1; /* taken: the flag is set */
    adds[0] = variable_assign_add(c.t, sides[0], NULL).op;
    clear = variable_assign(flag, unary(c.g, "LogicalNot", flag->read, NULL), NULL).op;
    control_dependencies_enter(c.g, &clear, 1);
    sides[1] = binary(c.g, "Switch", n, yes, NULL);
    control_dependencies_leave(c.g);
    adds[1] = variable_assign_add(c.w, sides[1], NULL).op; /* not set: taken, too */
    play(&c, adds, 2);
    ck_assert_float_eq(value_of(&c.bed, c.t), 9);
    ck_assert_float_eq(value_of(&c.bed, c.w), 11);
    bed_done(&c.bed);
}
END_TEST

/* The value that ReadVariableOp found stays; a second one finds the new value. */
START_TEST(a_resource_is_used_by_its_read)
{
    struct bed b;
    struct variable *v;
    struct output late, again, fetch;
    struct operation *write;
    struct op_builder *o;

    bed_init(&b);
    v = variable_new(b.g, constant_f32(b.g, 1, NULL), "v", VARIABLE_RESOURCE);
    write = variable_assign_add(v, constant_f32(b.g, 1, NULL), NULL).op;
    control_dependencies_enter(b.g, &write, 1);
    late = unary(b.g, "Neg", v->read, NULL);
    o = op_begin(b.g, "ReadVariableOp", NULL);
    op_input(o, v->ref);
    op_attr_type(o, "dtype", DT_FLOAT);
    again = (struct output){op_finish(o), 0};
    control_dependencies_leave(b.g);
    fetch = binary(b.g, "Add", late,
                   binary(b.g, "Mul", again, constant_f32(b.g, 10, NULL), NULL), NULL);
    bed_init_variables(&b);
    ck_assert_float_eq(bed_scalar(&b, fetch), 20 - 1);
    bed_done(&b);
}
END_TEST

/* ---- loops ---- */

static struct output enter(struct graph *g, struct output x, int is_constant)
{
    struct op_builder *b = op_begin(g, output_is_ref(x) ? "RefEnter" : "Enter", NULL);

    op_input(b, x);
    op_attr_string(b, "frame_name", "while");
    op_attr_bool(b, "is_constant", is_constant);
    return (struct output){op_finish(b), 0};
}

/* A loop of two iterations whose body is one operation; x: a loop variable. */
struct loop {
    struct output counter, x, left[2], now[2];
};

static void loop_begin(struct graph *g, struct loop *l, struct output x)
{
    const struct output first = enter(g, constant_i32(g, 0, NULL), 0),
                        in = enter(g, x, 0);
    struct output cond, limit;

    l->counter = binary(g, "Merge", first, first, NULL);
    l->x = binary(g, "Merge", in, in, NULL);
    limit = enter(g, constant_i32(g, 2, NULL), 1);
    cond = unary(g, "LoopCond", binary(g, "Less", l->counter, limit, NULL), NULL);
    for (int i = 0; i < 2; i++) {
        l->left[i] = binary(g, "Switch", i == 0 ? l->counter : l->x, cond, NULL);
        l->now[i] = unary(g, "Identity", (struct output){l->left[i].op, 1}, NULL);
    }
}

/* Returns x after the loop. */
static struct output loop_end(struct graph *g, struct loop *l, struct output next,
                              struct operation *last)
{
    struct output one, up;

    control_dependencies_enter(g, &l->now[0].op, 1);
    one = constant_i32(g, 1, NULL);
    control_dependencies_leave(g);
    control_dependencies_enter(g, &last, 1);
    up = unary(g, "Identity", binary(g, "Add", l->now[0], one, NULL), NULL);
    next = unary(g, "Identity", next, NULL);
    control_dependencies_leave(g);
    operation_replace_input(l->counter.op, 1, unary(g, "NextIteration", up, NULL));
    operation_replace_input(l->x.op, 1, unary(g, "NextIteration", next, NULL));
    return unary(g, "Exit", l->left[1], NULL);
}

static struct operation *add_to(struct graph *g, struct output ref, struct output x,
                                struct operation *after)
{
    struct op_builder *b = op_begin(g, "AssignAdd", NULL);

    op_input(b, ref);
    op_input(b, x);
    op_control_input(b, after);
    return op_finish(b);
}

/* The body adds w/read, which entered the loop as a constant, to w: 1, 2, 4. What leaves the
 * loop is still w's memory, which a use after the next write sees. */
START_TEST(memory_enters_and_leaves_a_loop)
{
    struct case_ c;
    struct loop l;
    struct output w, left, late;
    struct operation *doubles, *write;

    case_init(&c);
    loop_begin(c.g, &l, c.w->read);
    w = enter(c.g, c.w->read, 1);
    doubles = add_to(c.g, enter(c.g, c.w->ref, 1), _i ? w : l.now[1], l.now[0].op);
    left = loop_end(c.g, &l, w, doubles);
    write = add_to(c.g, c.w->ref, constant_f32(c.g, 10, NULL), left.op);
    control_dependencies_enter(c.g, &write, 1);
    late = unary(c.g, "Neg", left, NULL);
    control_dependencies_leave(c.g);
    bed_init_variables(&c.bed);
    ck_assert_float_eq(bed_scalar(&c.bed, late), -14);
    bed_done(&c.bed);
}
END_TEST

/* What nothing orders against a loop that writes comes before it, and a loop waits once for
 * what its Enters wait for. */
START_TEST(uses_come_before_a_loop_that_writes)
{
    struct case_ c;
    struct loop l;
    struct output early, left, ref, fetch;
    struct operation *adds;

    case_init(&c);
    loop_begin(c.g, &l, constant_f32(c.g, 5, NULL));
    control_dependencies_enter(c.g, &c.step, 1); /* w = 2 */
    ref = enter(c.g, c.w->ref, 1);
    control_dependencies_leave(c.g);
    adds = add_to(c.g, ref, l.now[1], l.now[0].op); /* twice: 12 */
    left = loop_end(c.g, &l, l.now[1], adds);
    early = unary(c.g, "Neg", c.w->read, NULL);
    fetch = binary(c.g, "Add", left, early, NULL);
    bed_init_variables(&c.bed);
    ck_assert_float_eq(bed_scalar(&c.bed, fetch), 5 - 1);
    ck_assert_float_eq(value_of(&c.bed, c.w), 12);
    bed_done(&c.bed);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("references");
    TCase *tc = tcase_create("references");

    tcase_add_loop_test(tc, what_passes_bytes_on_is_the_memory, 0, N_WAYS);
    tcase_add_loop_test(tc, what_was_computed_stays, 0, 4);
    tcase_add_test(tc, a_target_follows_the_new_weights);
    tcase_add_test(tc, an_average_is_of_the_new_weights);
    tcase_add_test(tc, a_counter_is_read_after_it_is_raised);
    tcase_add_test(tc, a_copy_in_a_branch_is_of_the_new_weights);
    tcase_add_test(tc, branches_that_write_return_the_memory);
    tcase_add_test(tc, uses_have_times_of_their_own);
    tcase_add_test(tc, a_choice_is_read_when_it_is_used);
    tcase_add_test(tc, a_predicate_is_read_by_each_switch);
    tcase_add_test(tc, a_resource_is_used_by_its_read);
    tcase_add_loop_test(tc, memory_enters_and_leaves_a_loop, 0, 2);
    tcase_add_test(tc, uses_come_before_a_loop_that_writes);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
