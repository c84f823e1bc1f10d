#include "agent/nn/accept_reject.h"

#include "agent/session/memory.h"
#include "common/mem/xmalloc.h"

#include <math.h>
#include <stdlib.h>

/* Drawing a normal number for each parameter would cost more than the loss. So they are
 * drawn once, into a table, and block b of a variable takes as many from a place in it
 * that depends on the iteration (Salimans et al. 2017, section 2.1: a shared table). */
enum { TABLE_SIZE = 1 << 18, NOISE_BLOCK = 4096 };

struct accept_reject {
    struct session *session;
    struct output loss;
    float *table; /* TABLE_SIZE + NOISE_BLOCK normal numbers, times the deviation */
    struct variable **vars;
    struct rng_key *keys; /* by variable */
    size_t n;
    struct memory *best;
    float best_loss;
    int has_best;
    struct rng_key key;
    uint64_t iteration;
};

static int take_variables(struct accept_reject *a, struct graph *g, struct err *err)
{
    const struct collection_item *items;

    a->n = collection_get(g, TRAINABLE_VARIABLES, NULL, &items);
    if (a->n == 0)
        return err_set(err, ERR_ARG, "No variables to optimize.");
    a->vars = xcalloc(a->n, sizeof(struct variable *));
    a->keys = xcalloc(a->n, sizeof(*a->keys));
    for (size_t i = 0; i < a->n; i++) {
        a->vars[i] = items[i].variable;
        a->keys[i] = rng_key_derive(a->key, a->vars[i]->name);
        if (a->vars[i]->dtype != DT_FLOAT)
            return err_set(err, ERR_DTYPE, "variable %s is %s, not float32",
                           a->vars[i]->name, dtype_name(a->vars[i]->dtype));
    }
    return 0;
}

static void make_table(struct accept_reject *a, double stddev)
{
    size_t n = TABLE_SIZE + NOISE_BLOCK;

    a->table = xcalloc(n, sizeof(*a->table));
    rng_normal_f32(rng_key_derive(a->key, "table"), 0, 0, a->table, n);
    for (size_t i = 0; i < n; i++)
        a->table[i] *= (float)stddev;
}

int accept_reject_new(struct accept_reject **ret, struct session *s, struct output loss,
                      double stddev, struct rng_key key, struct err *err)
{
    struct accept_reject *a = xcalloc(1, sizeof(*a));
    int rc;

    a->session = s;
    a->loss = loss;
    a->key = key;
    make_table(a, stddev);
    rc = take_variables(a, session_graph(s), err);
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

void accept_reject_reset(struct accept_reject *a)
{
    a->has_best = 0;
}

static int evaluate(struct accept_reject *a, const struct feed *feeds, size_t n_feeds,
                    float *ret, struct err *err)
{
    struct tensor place = tensor_view(DT_FLOAT, SHAPE_SCALAR, ret);
    const struct run_args args = {.feeds = feeds,
                                  .n_feeds = n_feeds,
                                  .fetches = &a->loss,
                                  .n_fetches = 1,
                                  .key = a->key,
                                  .counter = a->iteration};

    return session_run(a->session, &args, &place, err);
}

static void add_noise(const struct accept_reject *a, struct rng_key key, float *x,
                      size_t size)
{
    for (size_t first = 0; first < size; first += NOISE_BLOCK) {
        size_t n = size - first < NOISE_BLOCK ? size - first : NOISE_BLOCK;
        const float *noise;
        uint64_t at;

        rng_below(key, a->iteration, first / NOISE_BLOCK, TABLE_SIZE, &at, 1);
        noise = a->table + at;
        for (size_t i = 0; i < n; i++)
            x[first + i] += noise[i];
    }
}

static int perturb(struct accept_reject *a, struct err *err)
{
    for (size_t k = 0; k < a->n; k++) {
        struct tensor t;
        int rc = session_variable(a->session, a->vars[k], &t, err);

        if (rc != 0)
            return rc;
        add_noise(a, a->keys[k], t.data, (size_t)tensor_elements(&t));
    }
    return 0;
}

/* The loss before the first change; the values to go back to. */
static int begin(struct accept_reject *a, const struct feed *feeds, size_t n_feeds,
                 struct err *err)
{
    int rc = evaluate(a, feeds, n_feeds, &a->best_loss, err);

    if (rc != 0)
        return rc;
    if (isnan(a->best_loss))
        a->best_loss = INFINITY;
    memory_store(a->best);
    a->has_best = 1;
    return 0;
}

int accept_reject_step(struct accept_reject *a, const struct feed *feeds, size_t n_feeds,
                       float *ret_loss, struct err *err)
{
    float loss = INFINITY;
    int rc = a->has_best ? 0 : begin(a, feeds, n_feeds, err), kept;

    if (rc != 0)
        return rc;
    rc = perturb(a, err);
    if (rc == 0)
        rc = evaluate(a, feeds, n_feeds, &loss, err);
    a->iteration++;
    kept = rc == 0 && loss < a->best_loss;
    if (kept) {
        a->best_loss = loss;
        memory_store(a->best);
    } else {
        (void)memory_restore(a->best, NULL);
    }
    *ret_loss = a->best_loss;
    return rc == 0 ? kept : rc;
}
