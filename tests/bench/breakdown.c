#include "tests/bench/breakdown.h"

#include "agent/plan/plan.h"
#include "tests/bench/median.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define ROUNDS 1000 /* the medians are of at most this number of rounds */

enum kind {
    OUTSIDE, /* outside of runs: gathering rows, storing results */
    CHOOSE,  /* choosing a plan, placing feeds and fetches */
    STEPS,   /* steps in order; calls that have no line of their own */
    LOOPS,   /* element-wise loops, and laying out their inputs */
    SUMS,
    PRODUCTS,
    TURN,
    SOFTMAX,
    SETTLE,
    ADAM,
    ASSIGN, /* and the operation that makes the value, if both are one step */
    COPIES, /* Concat and Slice */
    KINDS,
};

static const char *const names[] = {
    [OUTSIDE] = "outside of runs",
    [CHOOSE] = "choose a plan",
    [STEPS] = "other steps",
    [LOOPS] = "loops",
    [SUMS] = "sums",
    [PRODUCTS] = "products",
    [TURN] = "transposes",
    [SOFTMAX] = "softmax",
    [SETTLE] = "NaNs",
    [ADAM] = "Adam",
    [ASSIGN] = "assign",
    [COPIES] = "concat, slice",
};

static struct {
    int on;
    enum kind now;
    double since, us[KINDS]; /* of this round */
    long calls[KINDS];
    size_t rounds;
    double kept[KINDS][ROUNDS]; /* of earlier rounds */
} counted;

static double now_us(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Counts the time up to now for the part that was under way, and returns that part. */
static enum kind change(enum kind to)
{
    const enum kind was = counted.now;
    double t;

    if (!counted.on)
        return was;
    t = now_us();
    counted.us[was] += t - counted.since;
    counted.since = t;
    counted.now = to;
    return was;
}

static enum kind enter(enum kind to)
{
    counted.calls[to] += counted.on;
    return change(to);
}

void breakdown_begin(void)
{
    counted.on = 1;
    counted.now = OUTSIDE;
    counted.since = now_us();
}

void breakdown_round(void)
{
    (void)change(OUTSIDE);
    for (int k = 0; k < KINDS; k++) {
        if (counted.rounds < ROUNDS)
            counted.kept[k][counted.rounds] = counted.us[k];
        counted.us[k] = 0;
    }
    counted.rounds++;
    counted.on = 0;
}

void breakdown_end(void)
{
    const size_t n = counted.rounds < ROUNDS ? counted.rounds : ROUNDS;

    for (int k = 0; k < KINDS; k++)
        if (k == OUTSIDE || counted.calls[k] > 0)
            (void)printf("    %-16s %8.2f us, %6.1f calls\n", names[k],
                         median(counted.kept[k], n),
                         (double)counted.calls[k] / (double)counted.rounds);
    memset(&counted, 0, sizeof(counted));
}

/* ---- between the parts ---- */

#define WRAPPED(type, name, parameters, arguments, part)                                 \
    type __real_##name parameters;                                                       \
    type __wrap_##name parameters;                                                       \
    type __wrap_##name parameters                                                        \
    {                                                                                    \
        const enum kind was = enter(part);                                               \
        const type r = __real_##name arguments;                                          \
                                                                                         \
        (void)change(was);                                                               \
        return r;                                                                        \
    }
#define WRAPPED_VOID(name, parameters, arguments, part)                                  \
    void __real_##name parameters;                                                       \
    void __wrap_##name parameters;                                                       \
    void __wrap_##name parameters                                                        \
    {                                                                                    \
        const enum kind was = enter(part);                                               \
                                                                                         \
        __real_##name arguments;                                                         \
        (void)change(was);                                                               \
    }

/* ---- kernels: the steps of a plan call them by pointer ---- */

#define TIMED_KERNEL(name, kernel, part)                                                 \
    static int name(const struct kernel_args *args)                                      \
    {                                                                                    \
        const enum kind was = enter(part);                                               \
        const int rc = kernel(args);                                                     \
                                                                                         \
        (void)change(was);                                                               \
        return rc;                                                                       \
    }
TIMED_KERNEL(adam, operation_def(args->op)->kernel.call, ADAM)
TIMED_KERNEL(assign, kern_assign, ASSIGN)
TIMED_KERNEL(follow, kern_follow, ASSIGN)
TIMED_KERNEL(concatenate, kern_concat, COPIES)
TIMED_KERNEL(slice, kern_slice, COPIES)

static kernel_fn timed_call(const struct step *s)
{
    if (s->call == NULL)
        return NULL;
    if (s->call == operation_def(s->op)->kernel.call &&
        (operation_is(s->op, "ApplyAdam") || operation_is(s->op, "ResourceApplyAdam")))
        return adam;
    return s->call == kern_assign   ? assign
           : s->call == kern_follow ? follow
           : s->call == kern_concat ? concatenate
           : s->call == kern_slice  ? slice
                                    : s->call;
}

int __real_plan_execute(struct plan *p, struct var_store *vars,
                        const struct run_args *args, void (*progress)(void *ctx),
                        void *ctx, struct err *err);
int __wrap_plan_execute(struct plan *p, struct var_store *vars,
                        const struct run_args *args, void (*progress)(void *ctx),
                        void *ctx, struct err *err);
int __wrap_plan_execute(struct plan *p, struct var_store *vars,
                        const struct run_args *args, void (*progress)(void *ctx),
                        void *ctx, struct err *err)
{
    const enum kind was = enter(STEPS);
    int rc;

    for (int i = 0; counted.on && i < p->n_steps; i++)
        p->steps[i].call = timed_call(&p->steps[i]);
    rc = __real_plan_execute(p, vars, args, progress, ctx, err);
    (void)change(was);
    return rc;
}

/* ---- functions of the session ---- */

WRAPPED(int, plan_fits,
        (const struct plan *p, const struct run_args *args, uint64_t hash),
        (p, args, hash), CHOOSE)
WRAPPED(uint64_t, plan_key_hash, (const struct run_args *args), (args), CHOOSE)
WRAPPED_VOID(loop_run, (struct loop_program * l, struct value *values, void *scratch),
             (l, values, scratch), LOOPS)
WRAPPED_VOID(loop_open, (struct loop_program * l, struct value *values, void *scratch),
             (l, values, scratch), LOOPS)
WRAPPED_VOID(loop_rows, (struct loop_program * l, int64_t first, int64_t rows),
             (l, first, rows), LOOPS)
WRAPPED_VOID(loop_close, (struct loop_program * l), (l), LOOPS)

/* ---- the table of inner loops ---- */

const struct kern_loops *__real_kern_loops(void);
const struct kern_loops *__wrap_kern_loops(void);

#define TIMED(member, parameters, arguments, part)                                       \
    static void member parameters                                                        \
    {                                                                                    \
        const enum kind was = enter(part);                                               \
                                                                                         \
        __real_kern_loops()->member arguments;                                           \
        (void)change(was);                                                               \
    }

TIMED(dense, (const struct dense *d), (d), PRODUCTS)
TIMED(transpose, (float *dst, const float *src, int64_t n, int64_t k, int64_t ld),
      (dst, src, n, k, ld), TURN)
TIMED(sum_lanes, (struct lane_sums * sums, const float *x, size_t start, size_t n),
      (sums, x, start, n), SUMS)
TIMED(sum_columns, (float *acc, const float *x, size_t start, size_t n, size_t period),
      (acc, x, start, n, period), SUMS)
TIMED(sum_rows, (float *dst, const float *x, size_t rows, size_t n), (dst, x, rows, n),
      SUMS)
TIMED(softmax, (float *dst, const float *x, size_t rows, size_t n), (dst, x, rows, n),
      SOFTMAX)
TIMED(log_softmax, (float *dst, const float *x, size_t rows, size_t n), (dst, x, rows, n),
      SOFTMAX)
TIMED(canonical_nan, (float *dst, const float *x, size_t n), (dst, x, n), SETTLE)

const struct kern_loops *__wrap_kern_loops(void)
{
    static struct kern_loops timed;

    if (!counted.on)
        return __real_kern_loops();
    if (timed.isa == NULL) {
        timed = *__real_kern_loops();
        timed.dense = dense;
        timed.transpose = transpose;
        timed.sum_lanes = sum_lanes;
        timed.sum_columns = sum_columns;
        timed.sum_rows = sum_rows;
        timed.softmax = softmax;
        timed.log_softmax = log_softmax;
        timed.canonical_nan = canonical_nan;
    }
    return &timed;
}
