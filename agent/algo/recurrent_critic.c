#include "agent/algo/recurrent_critic.h"

#include <string.h>

int recurrent_critic_init(struct recurrent_critic *c, struct kit *k,
                          const struct algo_args *args, struct err *err)
{
    struct matrices *all = &k->matrices;

    *c = (struct recurrent_critic){.kit = k,
                                   .units = k->settings->recurrent_critic,
                                   .cell = k->settings->cell == RECURRENT_LSTM ? CELL_LSTM
                                                                               : CELL_GRU,
                                   .chunk = 1,
                                   .copies = args->copies};
    if (c->units == 0)
        return 0;
    if (c->copies < 1)
        return err_set(err, ERR_ARG, "the number of copies is not known");
    c->chunk = (int)k->settings->chunk;
    c->width = cell_carry_width(c->cell, c->units);
    c->firsts = matrix_new(all, 0);
    matrix_add_column(c->firsts, MATRIX_ALL, "first");
    c->carries = matrix_new(all, c->width);
    c->starts = matrix_new(all, c->width);
    c->step_value = matrix_new(all, 1);
    c->step_carry = matrix_new(all, c->width);
    return 0;
}

/* ---- the graph ---- */

void recurrent_critic_make(struct recurrent_critic *c)
{
    if (c->units == 0)
        return;
    c->carry = kit_placeholder(c->kit, c->width, "critic_carry");
    c->first = kit_placeholder(c->kit, 1, "critic_first");
}

static struct variable *make_local(struct recurrent_critic *c, const char *name,
                                   enum dtype dtype, struct shape shape)
{
    struct variable *ret;

    variable_scope_enter(c->kit->graph, "critic_carry", NULL, REUSE_INHERIT);
    ret = kit_add_local(c->kit, name, dtype, shape);
    variable_scope_leave(c->kit->graph);
    return ret;
}

void recurrent_critic_make_state(struct recurrent_critic *c, int64_t keep_rows)
{
    if (c->units == 0)
        return;
    c->next_row = make_local(c, "next_row", DT_DOUBLE, SHAPE(1));
    if (keep_rows > 0)
        c->kept = make_local(c, "window", DT_FLOAT, SHAPE(keep_rows, c->width));
}

struct variable *recurrent_critic_add(struct recurrent_critic *c, const char *net)
{
    return make_local(c, net, DT_FLOAT, SHAPE(c->copies, c->width));
}

/* ---- a window ---- */

float *recurrent_critic_carries(struct recurrent_critic *c, struct batch *b)
{
    if (c->units == 0)
        return NULL;
    return c->kept != NULL ? batch_variable(b, c->kept) : batch_room(b, c->carries);
}

/* Runs a step of all copies, whose rows are b's; carry becomes that after it. */
static void run_step(struct recurrent_critic *c, struct batch *b,
                     const struct critic_step *net, struct output state,
                     struct matrix *now, float *carry)
{
    batch_feed(b, state, now);
    batch_feed_data(b, c->carry, carry, c->width);
    batch_fetch(b, net->value, c->step_value);
    batch_fetch(b, net->next_carry, c->step_carry);
    batch_run(b);
    if (b->rc == 0)
        memcpy(carry, batch_take(b, c->step_carry),
               (size_t)(b->n * c->width) * sizeof(*carry));
}

void recurrent_critic_unroll(struct recurrent_critic *c, struct batch *b,
                             const struct critic_step *net, struct output state,
                             struct matrix *now, const float *first, uint32_t *place,
                             uint64_t *rows, struct unrolled ret)
{
    const int64_t copies = c->copies, steps = b->args->length, width = c->width;
    const size_t bytes = (size_t)width * sizeof(float);
    float *carry = batch_variable(b, net->carry);
    const double *next_row = batch_variable(b, c->next_row);

    if (b->rc == 0 && b->args->batch != copies)
        batch_fail(b, err_set(b->err, ERR_ARG, "rows of %lld copies, expected %lld",
                              (long long)b->args->batch, (long long)copies));
    if (b->rc == 0 && *next_row != (double)b->args->rows[0])
        memset(carry, 0, (size_t)copies * bytes);
    for (int64_t t = 0; b->rc == 0 && t < steps; t++) {
        const float *value;

        for (int64_t e = 0; e < copies; e++) {
            const int64_t i = e * steps + t;

            place[e] = (uint32_t)i;
            if (first[i] != 0)
                memset(carry + e * width, 0, bytes);
            if (ret.carry != NULL)
                memcpy(ret.carry + i * width, carry + e * width, bytes);
        }
        batch_select(b, place, rows, copies, 0, b->args->update);
        run_step(c, b, net, state, now, carry);
        value = batch_take(b, c->step_value);
        for (int64_t e = 0; e < b->n; e++) {
            const int64_t i = e * steps + t;

            ret.value[i] = value[e];
            if (ret.after != NULL)
                memcpy(ret.after + i * width, carry + e * width, bytes);
        }
    }
}

void recurrent_critic_end(struct recurrent_critic *c, struct batch *b)
{
    double *next_row = c->units > 0 ? batch_variable(b, c->next_row) : NULL;

    if (next_row != NULL)
        *next_row = (double)(b->args->rows[b->args->length - 1] + (uint64_t)c->copies);
}

void recurrent_critic_feed(struct recurrent_critic *c, struct batch *b,
                           const float *carries, const uint32_t *place)
{
    const int64_t chunks = b->n / c->chunk;
    float *starts;

    if (c->units == 0)
        return;
    starts = batch_room(b, c->starts);
    for (int64_t r = 0; b->rc == 0 && r < chunks; r++)
        memcpy(starts + r * c->width, carries + place[r] * c->width,
               (size_t)c->width * sizeof(*starts));
    batch_feed_first(b, c->carry, c->starts, chunks);
    batch_feed(b, c->first, c->firsts);
}
