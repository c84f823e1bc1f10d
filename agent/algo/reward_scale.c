#include "agent/algo/reward_scale.h"

#include "agent/algo/reads.h"
#include "agent/nn/nn.h"
#include "common/mem/xmalloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_VARIANCE 1e-8

enum { ROWS, NUMBER, SUM, SQUARES, N_STATISTICS };
enum { ROWS_AT_ONCE = 256 };

void reward_scale_init(struct reward_scale *r, struct graph *g,
                       enum reward_scale_kind kind, const struct space *agents,
                       const size_t *counted, size_t n)
{
    const struct initializer zeros = zeros_initializer();

    *r = (struct reward_scale){.kind = kind, .agents = agents, .n = n};
    if (kind == REWARD_SCALE_NONE)
        return;
    variable_scope_enter(g, "reward_scale", NULL, REUSE_INHERIT);
    r->statistics = get_variable(g, "statistics", DT_DOUBLE, &SHAPE(N_STATISTICS), &zeros,
                                 VARIABLE_LOCAL | VARIABLE_NOT_TRAINABLE);
    variable_scope_leave(g);
    r->counted = xcalloc(n, sizeof(*r->counted));
    r->reward = xcalloc(n, sizeof(*r->reward));
    r->alive = xcalloc(n, sizeof(*r->alive));
    memcpy(r->counted, counted, n * sizeof(*counted));
}

void reward_scale_done(struct reward_scale *r)
{
    free(r->counted);
    free(r->reward);
    free(r->alive);
    *r = (struct reward_scale){0};
}

void reward_scale_reads(struct reward_scale *r, struct reads *reads)
{
    for (size_t i = 0; r->statistics != NULL && i < r->n; i++) {
        const char *name = r->agents[r->counted[i]].name;

        reads_add(reads, name, "reward", 1, &r->reward[i]);
        reads_add(reads, name, "alive", 1, &r->alive[i]);
    }
}

/* Counts n rows from `first` on. */
static int count_rows(struct reward_scale *r, struct store_view *store, uint64_t first,
                      size_t n, double x[N_STATISTICS], struct err *err)
{
    uint64_t rows[ROWS_AT_ONCE];
    float reward[ROWS_AT_ONCE], alive[ROWS_AT_ONCE];
    int rc;

    for (size_t i = 0; i < n; i++)
        rows[i] = first + i;
    if ((rc = store_view_check(store, rows, n, err)) < 0)
        return rc;
    for (size_t k = 0; k < r->n; k++) {
        store_view_gather(store, r->reward[k], rows, n, reward, 1);
        store_view_gather(store, r->alive[k], rows, n, alive, 1);
        for (size_t i = 0; i < n; i++) {
            const double y = (double)reward[i];

            if (alive[i] == 0)
                continue;
            x[NUMBER]++;
            x[SUM] += y;
            x[SQUARES] += y * y;
        }
    }
    x[ROWS] += (double)n;
    return 0;
}

static struct reward_scaling scaling_of(enum reward_scale_kind kind,
                                        const double x[N_STATISTICS])
{
    const double mean = x[SUM] / fmax(x[NUMBER], 1);
    const double variance = x[SQUARES] / fmax(x[NUMBER], 1) - mean * mean;

    if (variance < SMALL_VARIANCE)
        return (struct reward_scaling){0, 1};
    return (struct reward_scaling){kind == REWARD_SCALE_STANDARD ? (float)mean : 0,
                                   (float)(1 / sqrt(variance + SMALL_VARIANCE))};
}

int reward_scale_read(struct reward_scale *r, struct session *s,
                      const struct stage_args *args, struct reward_scaling *ret,
                      struct err *err)
{
    double x[N_STATISTICS];
    struct tensor kept;
    int rc;

    if (ret != NULL)
        *ret = (struct reward_scaling){0, 1};
    if (r == NULL || r->statistics == NULL)
        return 0;
    rc = session_variable(s, r->statistics, &kept, err);
    if (rc < 0)
        return rc;
    memcpy(x, kept.data, sizeof(x));
    while (x[ROWS] < (double)args->step) {
        const uint64_t first = (uint64_t)x[ROWS], left = args->step - first;

        rc = count_rows(r, args->store, first,
                        left < ROWS_AT_ONCE ? (size_t)left : ROWS_AT_ONCE, x, err);
        if (rc < 0)
            return rc;
    }
    if (args->stage->writes)
        memcpy(kept.data, x, sizeof(x));
    if (ret != NULL)
        *ret = scaling_of(r->kind, x);
    return 0;
}

void reward_scale_apply(const struct reward_scaling *by, float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = (x[i] - by->mean) * by->factor;
}
