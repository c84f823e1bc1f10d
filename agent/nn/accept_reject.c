#include "agent/nn/accept_reject.h"

#include "agent/session/memory.h"
#include "common/mem/xmalloc.h"

#include <math.h>
#include <stdlib.h>

/* Drawing a normal number for each parameter would take longer than computing the loss.
 * So they are drawn once, into a table, and block b of a variable uses those from a place
 * in it that depends on the iteration (Salimans et al. 2017, section 2.1: a shared
 * table). */
enum { TABLE_SIZE = 1 << 18, NOISE_BLOCK = 4096 };

struct accept_reject {
    struct session *session;
    float *table; /* TABLE_SIZE + NOISE_BLOCK normal numbers */
    struct variable **vars;
    struct rng_key *keys; /* by variable */
    size_t n;
    struct memory *best;
    float best_loss;
    struct run_args run; /* arguments of every evaluation */
    uint64_t step;       /* since accept_reject_begin */
};

static int take_variables(struct accept_reject *a, const char *scope, struct rng_key key,
                          struct err *err)
{
    const struct collection_item *items;

    a->n = collection_get(session_graph(a->session), TRAINABLE_VARIABLES, scope, &items);
    if (a->n == 0)
        return err_set(err, ERR_ARG, "No variables to optimize.");
    a->vars = xcalloc(a->n, sizeof(struct variable *));
    a->keys = xcalloc(a->n, sizeof(*a->keys));
    for (size_t i = 0; i < a->n; i++) {
        a->vars[i] = items[i].variable;
        a->keys[i] = rng_key_derive(key, a->vars[i]->name);
        if (a->vars[i]->dtype != DT_FLOAT)
            return err_set(err, ERR_DTYPE, "variable %s is %s, not float32",
                           a->vars[i]->name, dtype_name(a->vars[i]->dtype));
    }
    return 0;
}

int accept_reject_new(struct accept_reject **ret, struct session *s, const char *scope,
                      struct rng_key key, struct err *err)
{
    struct accept_reject *a = xcalloc(1, sizeof(*a));
    int rc;

    a->session = s;
    a->table = xcalloc(TABLE_SIZE + NOISE_BLOCK, sizeof(*a->table));
    rng_normal_f32(rng_key_derive(key, "table"), 0, 0, a->table,
                   TABLE_SIZE + NOISE_BLOCK);
    rc = take_variables(a, scope, key, err);
    if (rc == 0)
        rc = memory_new(&a->best, s, a->vars, a->n, err);
    if (rc != 0) {
        accept_reject_free(a);
        return rc;
    }
    *ret = a;
    return 0;
}

void accept_reject_free(struct accept_reject *a)
{
    if (a == NULL)
        return;
    memory_free(a->best);
    free(a->table);
    free(a->vars);
    free(a->keys);
    free(a);
}

/* A loss that is NaN is worse than any other. */
static float orderly(float loss)
{
    return isnan(loss) ? INFINITY : loss;
}

int accept_reject_begin(struct accept_reject *a, const struct run_args *run,
                        struct tensor *ret, struct err *err)
{
    int rc = session_run(a->session, run, ret, err);

    if (rc != 0)
        return rc;
    a->best_loss = orderly(*tensor_f32(&ret[0]));
    a->run = *run;
    a->run.n_fetches = 1;
    a->step = 0;
    memory_store(a->best);
    return 0;
}

static void add_noise(const struct accept_reject *a, struct rng_key key, float stddev,
                      float *x, size_t size)
{
    uint64_t draw = a->step * ((size + NOISE_BLOCK - 1) / NOISE_BLOCK);

    for (size_t first = 0; first < size; first += NOISE_BLOCK) {
        size_t n = size - first < NOISE_BLOCK ? size - first : NOISE_BLOCK;
        const float *noise;
        uint64_t at;

        rng_below(key, a->run.counter, draw++, TABLE_SIZE, &at, 1);
        noise = a->table + at;
        for (size_t i = 0; i < n; i++)
            x[first + i] += stddev * noise[i];
    }
}

static int perturb(struct accept_reject *a, float stddev, struct err *err)
{
    for (size_t k = 0; k < a->n; k++) {
        struct tensor t;
        int rc = session_variable(a->session, a->vars[k], &t, err);

        if (rc != 0)
            return rc;
        add_noise(a, a->keys[k], stddev, t.data, (size_t)tensor_elements(&t));
    }
    a->step++;
    return 0;
}

int accept_reject_step(struct accept_reject *a, float stddev, float *ret_loss,
                       struct err *err)
{
    float loss;
    struct tensor place = tensor_view(DT_FLOAT, SHAPE_SCALAR, &loss);
    int rc = perturb(a, stddev, err), kept;

    if (rc == 0)
        rc = session_run(a->session, &a->run, &place, err);
    kept = rc == 0 && orderly(loss) < a->best_loss;
    if (kept) {
        a->best_loss = loss;
        memory_store(a->best);
    } else {
        (void)memory_restore(a->best, NULL);
    }
    *ret_loss = a->best_loss;
    return rc == 0 ? kept : rc;
}
