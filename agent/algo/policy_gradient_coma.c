/* What sets coma apart from the other policy gradients: proposed actions, counterfactual
 * advantages and the targets of its critic (policy_gradient.h). */
#include "agent/algo/policy_gradient.h"

#include "agent/algo/choices.h"
#include "agent/algo/rows.h"
#include "agent/algo/targets.h"
#include "common/rng/rng.h"

#include <string.h>

/* Lists the rows for which a critic, whichever agent's it is, may look up proposals: those
 * where the episode, the window or an agent's presence ends. Sets order (places in the window)
 * and batch_row; returns their number. */
static int64_t list_ends(struct algo *a, const struct stage_args *args, int64_t n)
{
    const struct pg_columns *c = &a->columns;
    struct pg_window *w = &a->window;

    store_view_gather(args->store, c->first, args->rows, (size_t)n, w->first, 1);
    store_view_gather(args->store, c->truncated, args->rows, (size_t)n, w->cut, 1);
    memset(w->terminated, 0, (size_t)n * sizeof(*w->terminated));
    for (size_t j = 0; j < a->n_agents; j++) {
        store_view_gather(args->store, c->alive_of[j], args->rows, (size_t)n, w->alive,
                          1);
        pg_find_cuts(w, args->batch, args->length);
    }
    return pg_list_cuts(w, args->rows, n);
}

/* Moves the first rows of x, one for each end, to the ends' places among n rows, and sets the
 * others to 0. */
static void spread(const struct pg_window *w, int64_t ends, int64_t n, float *x,
                   int64_t width)
{
    int64_t behind = n; /* rows from here on are done */

    for (int64_t k = ends; k-- > 0; behind = w->order[k]) {
        float *row = x + w->order[k] * width;

        memmove(row, x + k * width, (size_t)width * sizeof(*x));
        memset(row + width, 0, (size_t)((behind - w->order[k] - 1) * width) * sizeof(*x));
    }
    memset(x, 0, (size_t)(behind * width) * sizeof(*x));
}

int pg_propose(struct algo *a, struct session *s, const struct stage_args *args,
               struct stage_result *ret, struct err *err)
{
    const int64_t n = args->batch * args->length, width = pg_self(a)->width;
    const int64_t ends = list_ends(a, args, n);
    struct pg_window *w = &a->window;
    struct tensor scores = tensor_view(DT_FLOAT, SHAPE(ends, width), w->action);
    int rc;

    feeds_begin(&a->feeds);
    pg_feed_policy(a, args, 1, w->batch_row, ends);
    rc = feeds_fetch(&a->feeds, s, &a->scores, &scores, 1, err);
    if (rc < 0)
        return rc;
    for (int64_t k = 0; k < ends; k++)
        rng_uniform_f32(args->key, args->counter, (uint64_t)(w->order[k] * width),
                        w->draw + k * width, (size_t)width);
    pg_add_noise(w->action, w->draw, (size_t)(ends * width));
    pg_choose(a, w->draw, a->masked ? w->mask : NULL, w->action, (size_t)ends, NULL);
    rows_leave_out_absent(
        args->store, &(struct life_columns){a->columns.alive, a->columns.terminated},
        w->batch_row, (size_t)ends, w->alive, w->terminated, width, w->action);
    spread(w, ends, n, w->action, width);
    stage_output(ret, "action", tensor_view(DT_FLOAT, SHAPE(1, n, width), w->action));
    return 0;
}

void pg_put_choices(struct algo *a, int64_t n)
{
    choices_one_hot(pg_self(a), a->window.action, n, a->choices, a->window.choice);
}

/* Copies an agent's proposals for n rows of the window, given by their places, to rows of
 * dst that are `stride` floats apart. */
static int put_proposal(const struct algo *a, const struct stage_args *args, size_t agent,
                        const uint32_t *place, int64_t n, float *dst, int64_t stride,
                        struct err *err)
{
    const struct space *space = &a->agents[agent];
    const size_t row_bytes = (size_t)space->width * sizeof(*dst);
    const int64_t rows = args->batch * args->length;
    const struct tensor *t = args->input(args->input_ctx, space->name, "action");

    if (t == NULL)
        return err_set(err, ERR_PROTOCOL, "input %s/action is missing", space->name);
    if (t->dtype != DT_FLOAT || tensor_elements(t) != rows * space->width)
        return err_set(err, ERR_PROTOCOL, "input %s/action is %s, (1,%lld,%lld) expected",
                       space->name, shape_text(&t->shape), (long long)rows,
                       (long long)space->width);
    for (int64_t i = 0; i < n; i++)
        memcpy(dst + i * stride, (const char *)t->data + place[i] * row_bytes, row_bytes);
    return 0;
}

int pg_put_proposals(struct algo *a, const struct stage_args *args, const uint32_t *place,
                     int64_t n, struct err *err)
{
    struct pg_window *w = &a->window;
    float *block = w->state;
    int rc = put_proposal(a, args, a->self, place, n, w->action, pg_self(a)->width, err);

    for (size_t j = 0; j < a->seen_n; j++)
        block += a->agents[a->seen[j]].obs;
    for (size_t j = 1; rc == 0 && j < a->seen_n; j++) {
        rc = put_proposal(a, args, a->seen[j], place, n, block, a->state_width, err);
        block += a->agents[a->seen[j]].width;
    }
    if (rc == 0)
        pg_put_choices(a, n);
    return rc;
}

/* The probability of a combination of choices, from those of each head's choices. */
static double probability(const struct space *space, const float *p, int64_t choice)
{
    const int last = space->n_heads - 1;
    double product = 1;

    for (int h = 0; h < last; h++) {
        product *= (double)p[choice % space->heads[h]];
        choice /= space->heads[h];
        p += space->heads[h];
    }
    return product * (double)p[choice];
}

int pg_counterfactual(struct algo *a, struct session *s, const struct stage_args *args,
                      const struct pg_kept *kept, struct err *err)
{
    const struct space *self = pg_self(a);
    const int64_t n = args->batch * args->length, width = self->width;
    struct pg_window *w = &a->window;
    const struct output fetches[] = {a->values, a->probabilities, a->target_value};
    struct tensor found[] = {tensor_view(DT_FLOAT, SHAPE(n, a->choices), w->values),
                             tensor_view(DT_FLOAT, SHAPE(n, width), w->draw),
                             tensor_view(DT_FLOAT, SHAPE(n, 1), w->target_value)};
    int rc;

    feeds_begin(&a->feeds);
    pg_feed_policy(a, args, 0, args->rows, n);
    pg_put_choices(a, n);
    feeds_add(&a->feeds, a->state, w->state, n, a->state_width);
    feeds_add(&a->feeds, a->choice, w->choice, n, a->choices);
    rc = feeds_fetch(&a->feeds, s, fetches, found, 3, err);
    if (rc < 0)
        return rc;
    for (int64_t i = 0; i < n; i++) {
        const float *values = w->values + i * a->choices;
        double baseline = 0;

        for (int64_t k = 0; k < a->choices; k++)
            baseline += probability(self, w->draw + i * width, k) * (double)values[k];
        kept->value[i] = values[choice_of_action(self, w->action + i * width)];
        kept->advantage[i] = (float)((double)kept->value[i] - baseline);
    }
    return 0;
}

void pg_lambda_returns(const struct algo *a, const struct stage_args *args,
                       const struct pg_kept *kept)
{
    const struct pg_window *w = &a->window;
    const struct target_rows rows = {.batch = args->batch,
                                     .length = args->length,
                                     .reward = w->reward,
                                     .terminated = w->terminated,
                                     .truncated = w->cut,
                                     .value = w->next_value,
                                     .discount = a->live[PG_DISCOUNT].value};
    const int64_t n_step = a->settings->n_step;

    if (a->live[PG_LAMBDA].value > 0)
        targets_lambda(&rows, a->live[PG_LAMBDA].value, kept->returns);
    else
        targets_n_step(&rows, n_step > 0 ? n_step : 1, kept->returns);
}
