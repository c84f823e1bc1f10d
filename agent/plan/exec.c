#include "agent/plan/plan.h"

#include <string.h>

static void *step_scratch(const struct plan *p, const struct step *s)
{
    return s->loop->scratch < 0 ? NULL : p->values[s->loop->scratch].tensor.data;
}

static int holds(const struct plan *p, int guard)
{
    const struct guard *g = &p->guards[guard];

    for (int i = 0; i < g->n; i++) {
        const struct condition *c = &g->conditions[i];

        if (c->value < 0)
            return 0;
        if ((*(const uint8_t *)p->values[c->value].tensor.data != 0) != c->branch)
            return 0;
    }
    return 1;
}

const struct operation *plan_handed(const struct plan *p, size_t i)
{
    for (const struct handed *h = p->handed[i]; h != NULL; h = h->next)
        if (holds(p, h->guard))
            return h->variable;
    return NULL;
}

int plan_fail_dead(struct output x, size_t i, struct err *err)
{
    return err_set(err, ERR_ARG,
                   "Retval[%zu] does not have value: Tensor %s:%d is on a branch that "
                   "was not taken",
                   i, operation_name(x.op), x.index);
}

static int is_dead(const struct plan *p, size_t fetch)
{
    return p->fetch_values[fetch] < 0 || !holds(p, p->fetch_guards[fetch]);
}

static int run_call(struct step *s, struct var_store *vars, uint64_t counter,
                    struct err *err)
{
    s->args.counter = counter;
    s->args.err = err;
    if (s->reads_flag >= 0)
        s->args.initialized = var_store_initialized(vars, s->reads_flag);
    int rc = s->call(&s->args);
    if (rc == 0 && s->sets_flag >= 0)
        *var_store_flags(vars, s->sets_flag) = s->call != kern_destroy;
    return rc;
}

/* ---- stretches: their steps run for one chunk of rows after the other ---- */

static void set_view(struct tensor *view, const struct value *v, int64_t rows,
                     int64_t first, int64_t n)
{
    *view = v->tensor;
    if (v->tensor.shape.rank == 0 || v->tensor.shape.dim[0] != rows)
        return; /* an operand that does not have the batch's rows, such as an axis */
    view->shape.dim[0] = n;
    if (v->local_rows == 0) {
        const int64_t row =
            v->row_stride != 0 ? v->row_stride : shape_elements(&view->shape) / n;

        view->data =
            (char *)v->tensor.data + (size_t)(first * row) * dtype_size(v->tensor.dtype);
    }
}

static int call_rows(struct plan *p, struct step *s, int64_t rows, int64_t first,
                     int64_t n, struct err *err)
{
    for (int i = 0; i < s->n_in; i++)
        set_view(&s->view[i], &p->values[s->in[i]], rows, first, n);
    for (int i = 0; i < s->n_out; i++)
        set_view(&s->view[s->n_in + i], &p->values[s->out[i]], rows, first, n);
    s->args.err = err;
    return s->call(&s->args);
}

/* The function that a long run calls between its steps. */
struct progress {
    void (*fn)(void *ctx); /* NULL: none */
    void *ctx;
};

static void show(const struct progress *life)
{
    if (life->fn != NULL)
        life->fn(life->ctx);
}

static int play_stretch(struct plan *p, const struct stretch *t,
                        const struct progress *life, struct err *err)
{
    struct step *steps = p->steps + t->first;
    int rc = 0;

    for (int i = 0; i < t->n; i++)
        if (steps[i].loop != NULL)
            loop_open(steps[i].loop, p->values, step_scratch(p, &steps[i]));
    for (int64_t row = 0; rc == 0 && row < t->rows; row += DENSE_BLOCK) {
        const int64_t n = t->rows - row < DENSE_BLOCK ? t->rows - row : DENSE_BLOCK;

        for (int i = 0; rc == 0 && i < t->n; i++) {
            if (steps[i].loop != NULL)
                loop_rows(steps[i].loop, row, n);
            else
                rc = call_rows(p, &steps[i], t->rows, row, n, err);
        }
        show(life);
    }
    for (int i = 0; rc == 0 && i < t->n; i++)
        if (steps[i].loop != NULL)
            loop_close(steps[i].loop);
    return rc;
}

int plan_execute(struct plan *p, struct var_store *vars, const struct run_args *args,
                 void (*progress)(void *ctx), void *progress_ctx, unsigned char *ret_dead,
                 struct err *err)
{
    const struct progress life = {progress, progress_ctx};
    const struct stretch *next = p->stretches;
    const struct stretch *end = p->stretches + p->n_stretches;
    int rc = 0;

    for (int i = 0; i < p->n_checked; i++)
        if (!var_store_initialized(vars, p->checked[i]))
            return err_set(err, ERR_UNINITIALIZED,
                           "Attempting to use uninitialized value %s",
                           var_store_name(vars, p->checked[i]));
    if (!p->has_key || memcmp(&p->key, &args->key, sizeof(p->key)) != 0) {
        char name[1024];

        for (int k = 0; k < p->n_steps; k++)
            if (p->steps[k].draws)
                p->steps[k].args.key = rng_key_derive(
                    args->key, operation_draw_name(p->steps[k].op, name, sizeof(name)));
        p->key = args->key;
        p->has_key = 1;
    }
    for (int i = 0; i < p->n_fed; i++) {
        struct value *v = &p->values[p->fed[i]];

        v->tensor.data = (char *)args->feeds[v->index].value.data + v->offset;
    }
    for (int i = 0; rc == 0 && i < p->n_steps; i++) {
        struct step *s = &p->steps[i];

        if (s->guard != 0 && !holds(p, s->guard))
            continue;
        if (next < end && next->first == i) {
            rc = play_stretch(p, next, &life, err);
            i += next++->n - 1;
        } else if (s->loop != NULL) {
            loop_run(s->loop, p->values, step_scratch(p, s));
        } else {
            rc = run_call(s, vars, args->counter, err);
        }
        show(&life);
    }
    if (rc == 0 && ret_dead != NULL) {
        for (size_t i = 0; i < p->n_fetches; i++)
            ret_dead[i] = (unsigned char)is_dead(p, i);
        for (size_t i = 0; i < p->n_targets; i++)
            ret_dead[p->n_fetches + i] = !holds(p, p->target_guards[i]);
    } else if (rc == 0 && p->n_guards > 1) {
        for (size_t i = 0; rc == 0 && i < p->n_fetches; i++)
            if (is_dead(p, i))
                rc = plan_fail_dead(p->fetches[i], i, err);
    }
    return rc;
}

size_t plan_gemms(const struct plan *p, struct dense *ret, size_t max)
{
    size_t n = 0;

    for (int i = 0; i < p->n_steps; i++) {
        if (p->steps[i].loop == NULL || !p->steps[i].loop->has_gemm)
            continue;
        if (n < max)
            ret[n] = p->steps[i].loop->state.gemm;
        n++;
    }
    return n;
}
