#include "agent/algo/propose.h"

#include "agent/algo/reads.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

static void forget_rows(struct proposals *p)
{
    free(p->obs);
    free(p->actions);
    free(p->carry);
    free(p->allowed);
    free(p->first);
    free(p->alive);
    free(p->terminated);
    free(p->counter);
    free(p->draw_first);
    p->rows = 0;
}

void proposals_done(struct proposals *p)
{
    forget_rows(p);
    *p = (struct proposals){0};
}

static void reserve(struct proposals *p, const struct proposer *who, size_t rows)
{
    const size_t width = (size_t)who->self->width, carry = (size_t)who->carry;

    if (rows <= p->rows)
        return;
    forget_rows(p);
    p->obs = xcalloc(rows * (size_t)who->self->obs, sizeof(*p->obs));
    p->actions = xcalloc(rows * width, sizeof(*p->actions));
    p->carry = carry > 0 ? xcalloc(2 * rows * carry, sizeof(*p->carry)) : NULL;
    p->allowed = who->self->masked ? xcalloc(rows * width, 1) : NULL;
    p->alive = xcalloc(rows, sizeof(*p->alive));
    p->terminated = xcalloc(rows, sizeof(*p->terminated));
    p->first = xcalloc(rows, 1);
    p->counter = xcalloc(rows, sizeof(*p->counter));
    p->draw_first = xcalloc(rows, sizeof(*p->draw_first));
    memset(p->first, 1, rows);
    for (size_t i = 0; i < rows; i++)
        p->draw_first[i] = i * width;
    p->rows = rows;
}

void proposals_reads(struct proposals *p, const struct space *self, struct reads *r)
{
    reads_add(r, self->name, "next_obs", self->obs, &p->next_obs_column);
    reads_add(r, self->name, "alive", 1, &p->life.alive);
    reads_add(r, self->name, "terminated", 1, &p->life.terminated);
    if (self->masked)
        reads_add_mask(r, self, "next_allowed", &p->next_allowed_column);
}

int proposals_make(struct proposals *p, const struct proposer *who, struct session *s,
                   const struct stage_args *args, struct stage_result *ret,
                   struct err *err)
{
    const size_t rows = (size_t)(args->groups * args->batch * args->length);
    const struct space *self = who->self;
    struct stage_args single = *args; /* with each row as a batch element of one step */
    struct act_args act = {
        .mode = ACT_SAMPLE, .step = args->step, .n_copies = rows, .key = args->key};
    struct act_result result = {0};
    int r;

    single.batch *= single.length;
    single.length = 1;
    r = rows_check(&single, who->n_agents, err);
    if (r < 0)
        return r;
    reserve(p, who, rows);
    for (size_t i = 0; i < rows; i++)
        p->counter[i] = args->counter;
    store_view_gather(args->store, p->next_obs_column, args->rows, rows, p->obs,
                      (size_t)self->obs);
    if (self->masked)
        store_view_gather_bytes(args->store, p->next_allowed_column, args->rows, rows,
                                p->allowed);
    act.obs = p->obs;
    act.allowed = p->allowed;
    act.first = p->first;
    act.carry = p->carry;
    act.counter = p->counter;
    act.draw_first = p->draw_first;
    result.actions = p->actions;
    result.carry = who->carry > 0 ? p->carry + p->rows * (size_t)who->carry : NULL;
    r = who->act(who->algo, s, &act, &result, err);
    if (r < 0)
        return r;
    rows_leave_out_absent(args->store, &p->life, args->rows, rows, p->alive,
                          p->terminated, self->width, p->actions);
    stage_output(ret, "action",
                 tensor_view(DT_FLOAT, SHAPE(args->groups, single.batch, self->width),
                             p->actions));
    return 0;
}
