#include "agent/algo/episodes.h"

#include "agent/algo/targets.h"

#include <math.h>
#include <string.h>

void episodes_init(struct episodes *e, struct kit *k, const size_t *members, size_t n)
{
    *e = (struct episodes){.rewards = matrix_new(&k->matrices, 0),
                           .ends = matrix_new(&k->matrices, 0),
                           .alives = matrix_new(&k->matrices, 0),
                           .room = matrix_new(&k->matrices, 7),
                           .priorities = matrix_new(&k->matrices, 1)};
    for (size_t i = 0; i < n; i++) {
        matrix_add_column(e->rewards, members[i], "reward");
        matrix_add_column(e->ends, members[i], "terminated");
        matrix_add_column(e->alives, members[i], "alive");
    }
}

/* ---- rows ---- */

static struct row_layout layout_of(const struct batch *b)
{
    return row_layout_of(b->n, b->sequences, b->in_time);
}

/* The rows' members: reward, end and presence of the team. */
static void join_members(struct episodes *e, const struct batch *b, const float *rewards,
                         const float *ends, const float *alives)
{
    const int64_t members = matrix_width(e->rewards);
    const struct row_layout l = layout_of(b);

    for (int64_t i = 0; i < b->n; i++) {
        e->mask[i] = b->rows[i] != ROW_NONE;
        e->reward[i] = e->weight[i] = 0;
        e->terminated[i] = 1;
        for (int64_t k = i * members; k < (i + 1) * members; k++) {
            if (alives[k] == 0)
                continue;
            e->weight[i] = 1;
            e->reward[i] = rewards[k];
            e->terminated[i] *= ends[k];
        }
    }
    for (int64_t k = 0; b->weights != NULL && k < l.batch; k++)
        for (int64_t t = 0; t < l.length; t++)
            e->weight[k * l.of_sequence + t * l.of_step] *= b->weights[k];
}

static float share_of(const struct episodes *e, const struct batch *b)
{
    double sum = 0;

    if (b->sequences == 0)
        return 1 / (float)b->n;
    for (int64_t i = 0; i < b->n; i++)
        sum += (double)e->weight[i];
    return (float)(1 / (sum > 1 ? sum : 1));
}

void episodes_take(struct episodes *e, struct batch *b, struct reward_scale *scale)
{
    const float *rewards = batch_take(b, e->rewards), *ends = batch_take(b, e->ends);
    const float *alives = batch_take(b, e->alives);
    float *room = batch_room(b, e->room);

    if (b->rc < 0)
        return;
    e->reward = room;
    e->terminated = room + b->n;
    e->truncated = room + 2 * b->n;
    e->mask = room + 3 * b->n;
    e->weight = room + 4 * b->n;
    e->target = room + 5 * b->n;
    e->divided = room + 6 * b->n;
    join_members(e, b, rewards, ends, alives);
    /* members were there, their task was not over, and in the next row none is there
     * any more */
    const struct row_layout l = layout_of(b);
    for (int64_t k = 0; k < l.batch; k++)
        for (int64_t t = 0; t < l.length; t++) {
            const int64_t i = k * l.of_sequence + t * l.of_step, next = i + l.of_step;

            e->truncated[i] = t + 1 < l.length && e->mask[next] != 0 &&
                              e->weight[i] != 0 && e->weight[next] == 0 &&
                              e->terminated[i] == 0;
        }
    batch_scale(b, scale, e->reward);
    e->share = share_of(e, b);
    for (int64_t i = 0; i < b->n; i++)
        e->divided[i] = e->share * e->weight[i];
}

void episodes_find_targets(struct episodes *e, struct batch *b, const float *next,
                           float lambda)
{
    const struct row_layout l = layout_of(b);
    const struct target_rows rows = {.batch = l.batch,
                                     .length = l.length,
                                     .in_time = b->in_time,
                                     .reward = e->reward,
                                     .terminated = e->terminated,
                                     .truncated = e->truncated,
                                     .mask = e->mask,
                                     .value = next,
                                     .discount = b->kit->discount->value};

    if (b->rc == 0)
        targets_find(&rows, lambda, b->kit->settings->n_step, e->target);
}

void episodes_feed(struct episodes *e, struct batch *b, struct output target,
                   struct output weight)
{
    batch_feed_data(b, target, e->target, 1);
    batch_feed_data(b, weight, b->sequences > 0 ? e->divided : e->weight, 1);
}

/* ---- what is reported ---- */

void episodes_measure(const struct episodes *e, const struct batch *b, const float *q,
                      float hysteresis, double ret[EPISODES_MEASURED])
{
    double loss = 0, q_mean = 0, mean = 0, squares = 0, distance = 0, rows = 0;

    for (int64_t i = 0; i < b->n; i++) {
        const double w = (double)e->share * (double)e->weight[i];
        const double y = (double)e->target[i], d = (double)(e->target[i] - q[i]);

        if (e->weight[i] == 0)
            continue;
        loss += w * d * d * (d < 0 ? (double)hysteresis : 1);
        q_mean += w * (double)q[i];
        mean += w * y;
        squares += w * y * y;
        distance += fabs(d);
        rows++;
    }
    ret[0] = loss;
    ret[1] = q_mean;
    ret[2] = mean;
    ret[3] = sqrt(fmax(squares - mean * mean, 0));
    ret[4] = distance / fmax(rows, 1);
}

void episodes_report(struct batch *b, const double measured[EPISODES_MEASURED])
{
    if (b->rc < 0)
        return;
    stage_scalar(b->ret, "critic_loss", measured[0]);
    stage_scalar(b->ret, "q_mean", measured[1]);
    stage_scalar(b->ret, "target_q_mean", measured[2]);
    stage_scalar(b->ret, "target_q_std", measured[3]);
    stage_shown(b->ret, "td_error", measured[4]);
}

void episodes_find_priorities(const struct episodes *e, const struct batch *b,
                              const float *q, float *ret)
{
    const struct row_layout l = layout_of(b);

    for (int64_t k = 0; k < l.batch; k++) {
        float most = 0;
        double sum = 0;
        int64_t n = 0;

        for (int64_t t = 0; t < l.length; t++) {
            const int64_t i = k * l.of_sequence + t * l.of_step;
            const float error = fabsf(e->target[i] - q[i]);

            if (e->weight[i] == 0)
                continue;
            most = fmaxf(most, error);
            sum += (double)error;
            n++;
        }
        ret[k] = n == 0              ? 0
                 : b->sequences == 0 ? most
                                     : 0.9f * most + 0.1f * (float)(sum / (double)n);
    }
}

void episodes_answer_priorities(struct episodes *e, struct batch *b, const float *q)
{
    float *x = b->weights != NULL ? batch_room(b, e->priorities) : NULL;

    if (b->rc < 0 || x == NULL)
        return;
    episodes_find_priorities(e, b, q, x);
    b->ret->priorities = tensor_view(DT_FLOAT, SHAPE(1, b->args->batch), x);
}
