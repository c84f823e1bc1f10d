/* Sets what is found. */
#include "supervisor/diff/parting_internal.h"

#include "common/mem/xmalloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void parting_done(struct parting *p)
{
    free(p->agent);
    free(p->stage);
    free(p->name);
    p->agent = p->stage = p->name = NULL;
}

void parting_found(struct parting *p, enum parting_kind kind, uint64_t step,
                   const char *agent, const char *name)
{
    parting_done(p);
    p->kind = kind;
    p->step = step;
    p->agent = agent != NULL ? xstrdup(agent) : NULL;
    p->name = name != NULL ? xstrdup(name) : NULL;
    p->element = 0;
    p->here = p->there = p->largest = NAN;
    p->n_differing = 0;
    p->incomparable = (struct err){0};
}

void parting_found_values(struct parting *p, const struct block_table *t,
                          const struct values_part *v)
{
    p->name = xstrdup(t->variables[v->variable].name);
    p->element = v->element;
    p->here = v->here;
    p->there = v->there;
    p->largest = v->largest;
    p->n_differing = v->n;
}

/* A column "agent_0/obs" is of agent_0. */
void parting_found_row(struct parting *p, uint64_t copies,
                       const struct store_difference *d)
{
    const char *slash = strchr(d->column, '/');
    char *agent = slash != NULL ? xstrndup(d->column, (size_t)(slash - d->column)) : NULL;

    parting_found(p, PARTING_ROW, d->row - d->row % copies, agent,
                  slash != NULL ? slash + 1 : d->column);
    p->row = d->row;
    p->element = d->element;
    p->here = d->here;
    p->there = d->there;
    free(agent);
}
