/* A team's rows of the log: rewards, ends, weights and targets. */
#include "agent/algo/q_learner.h"

#include "agent/algo/reads.h"
#include "agent/algo/rows.h"
#include "common/mem/xmalloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the team ---- */

/* Whether agent i is the first one of its team among those that learn together. */
static int is_first(const struct space *agents, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (!agents[k].other && strcmp(agents[k].team, agents[i].team) == 0)
            return 0;
    return !agents[i].other;
}

struct q_mixed q_mixed_of(const struct space *agents, size_t n_agents, size_t self)
{
    struct q_mixed m = {0};

    for (size_t i = 0; i < n_agents; i++) {
        if (i == self)
            m.agent = m.agents;
        if (self < n_agents && is_first(agents, i) &&
            strcmp(agents[i].team, agents[self].team) == 0)
            m.team = m.teams;
        m.agents += !agents[i].other;
        m.teams += (size_t)is_first(agents, i);
    }
    return m;
}

void q_team_init(struct q_team *t, const struct space *agents, size_t n_agents,
                 const char *name)
{
    t->member = xcalloc(n_agents, sizeof(*t->member));
    t->columns = xcalloc(n_agents, sizeof(*t->columns));
    for (size_t i = 0; i < n_agents; i++)
        if (strcmp(agents[i].team, name) == 0 && !agents[i].other)
            t->member[t->n++] = i;
    for (size_t k = 0; k < t->n; k++)
        t->columns[k] = (struct q_columns){-1, -1, -1, -1, -1};
}

void q_team_done(struct q_team *t)
{
    free(t->member);
    free(t->columns);
}

void q_member_reads(struct q_team *t, size_t k, const struct space *agents, int with_obs,
                    struct reads *r)
{
    const struct space *s = &agents[t->member[k]];
    struct q_columns *c = &t->columns[k];

    if (with_obs) {
        reads_add(r, s->name, "obs", s->obs, &c->obs);
        reads_add(r, s->name, "next_obs", s->obs, &c->next_obs);
    }
    reads_add(r, s->name, "reward", 1, &c->reward);
    reads_add(r, s->name, "terminated", 1, &c->terminated);
    reads_add(r, s->name, "alive", 1, &c->alive);
}

/* ---- rows ---- */

static size_t lay_out(struct q_rows *r, float *base, size_t n)
{
    size_t used = 0;

    r->reward = rows_take(base, &used, n);
    r->terminated = rows_take(base, &used, n);
    r->truncated = rows_take(base, &used, n);
    r->mask = rows_take(base, &used, n);
    r->weight = rows_take(base, &used, n);
    r->alive = rows_take(base, &used, n);
    r->ended = rows_take(base, &used, n);
    r->own_reward = rows_take(base, &used, n);
    return used;
}

static int reserve(struct q_rows *r, int64_t n, struct err *err)
{
    if (n <= r->n)
        return 0;
    if (rows_reserve(&r->memory, &r->n, n, lay_out(r, NULL, (size_t)n), err) < 0)
        return ERR_NOMEM;
    (void)lay_out(r, r->memory, (size_t)n);
    return 0;
}

void q_rows_done(struct q_rows *r)
{
    free(r->memory);
}

/* truncated[i]: members were there, their task was not over, and in the next row of the
 * sequence none is there any more. */
static void find_truncations(struct q_rows *r, int64_t n, int64_t length)
{
    for (int64_t i = 0; i < n; i++)
        r->truncated[i] = (i + 1) % length != 0 && r->mask[i + 1] != 0 &&
                          r->weight[i] != 0 && r->weight[i + 1] == 0 &&
                          r->terminated[i] == 0;
}

/* A row is terminated if it is for every member that was there. */
int q_rows_gather(struct q_rows *r, const struct q_team *t, size_t only,
                  const struct stage_args *args, const uint64_t *rows,
                  const float *weights, const struct reward_scaling *scale,
                  struct err *err)
{
    const int64_t n = args->batch * args->length;
    int rc = reserve(r, n, err);

    if (rc < 0)
        return rc;
    memset(r->weight, 0, (size_t)n * sizeof(float));
    memset(r->reward, 0, (size_t)n * sizeof(float));
    for (int64_t i = 0; i < n; i++) {
        r->mask[i] = rows[i] != ROW_NONE;
        r->terminated[i] = 1;
    }
    for (size_t k = 0; k < t->n; k++) {
        const struct q_columns *c = &t->columns[k];

        if (only < t->n && k != only)
            continue;
        store_view_gather(args->store, c->alive, rows, (size_t)n, r->alive, 1);
        store_view_gather(args->store, c->terminated, rows, (size_t)n, r->ended, 1);
        store_view_gather(args->store, c->reward, rows, (size_t)n, r->own_reward, 1);
        for (int64_t i = 0; i < n; i++) {
            if (r->alive[i] == 0)
                continue;
            r->weight[i] = weights != NULL ? weights[i / args->length] : 1;
            r->reward[i] = r->own_reward[i]; /* the same for all members that are there */
            r->terminated[i] *= r->ended[i];
        }
    }
    find_truncations(r, n, args->length);
    reward_scale_apply(scale, r->reward, n);
    return 0;
}

float q_rows_share(const struct q_rows *r, int64_t n)
{
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)r->weight[i];
    return (float)(1 / (sum > 1 ? sum : 1));
}

void q_targets(const struct q_rows *r, const struct algorithm_settings *set,
               const float *value, float discount, float lambda, int64_t batch,
               int64_t length, float *y)
{
    const struct target_rows rows = {.batch = batch,
                                     .length = length,
                                     .reward = r->reward,
                                     .terminated = r->terminated,
                                     .truncated = r->truncated,
                                     .mask = r->mask,
                                     .value = value,
                                     .discount = discount};

    if (lambda > 0)
        targets_lambda(&rows, lambda, y);
    else
        targets_n_step(&rows, set->n_step > 1 ? set->n_step : 1, y);
}

int q_team_output(const struct q_team *t, size_t k, const struct space *agents,
                  const struct stage_args *args, const char *name, const float **ret,
                  struct err *err)
{
    const char *agent = agents[t->member[k]].name;
    const struct tensor *x = args->input(args->input_ctx, agent, name);

    *ret = NULL;
    if (x == NULL)
        return 0;
    if (x->dtype != DT_FLOAT || tensor_elements(x) != args->batch * args->length)
        return err_set(err, ERR_PROTOCOL, "input %s/%s: float32 (1, %lld, %lld) expected",
                       agent, name, (long long)args->batch, (long long)args->length);
    *ret = tensor_f32(x);
    return 0;
}

void q_priorities(const struct q_rows *r, const float *q, const float *y, int64_t batch,
                  int64_t length, float *ret)
{
    for (int64_t b = 0; b < batch; b++) {
        float most = 0;
        double sum = 0;
        int64_t n = 0;

        for (int64_t i = b * length; i < (b + 1) * length; i++) {
            const float error = fabsf(y[i] - q[i]);

            if (r->weight[i] == 0)
                continue;
            most = fmaxf(most, error);
            sum += (double)error;
            n++;
        }
        ret[b] = n > 0 ? 0.9f * most + 0.1f * (float)(sum / (double)n) : 0;
    }
}

void q_measure(const struct q_rows *r, const float *q, const float *y, float hysteresis,
               int64_t n, double x[Q_REPORTED])
{
    const double share = (double)q_rows_share(r, n);
    double loss = 0, q_mean = 0, y_mean = 0, distance = 0, rows = 0;

    for (int64_t i = 0; i < n; i++) {
        const double w = share * (double)r->weight[i], d = (double)(y[i] - q[i]);

        loss += w * d * d * (d < 0 ? (double)hysteresis : 1);
        q_mean += w * (double)q[i];
        y_mean += w * (double)y[i];
        if (r->weight[i] == 0)
            continue;
        distance += fabs(d);
        rows++;
    }
    x[0] = loss;
    x[1] = q_mean;
    x[2] = y_mean;
    x[3] = distance / fmax(rows, 1);
}

void q_report(const double x[Q_REPORTED], struct stage_result *ret)
{
    stage_scalar(ret, "critic_loss", x[0]);
    stage_scalar(ret, "q_mean", x[1]);
    stage_scalar(ret, "target_q_mean", x[2]);
    stage_shown(ret, "td_error", x[3]);
}
