/* Does nothing: takes each head's first choice, which in the particle worlds is to stay;
 * in a box the point nearest to zero. */
#include "agent/algo/choices.h"
#include "agent/algo/fixed.h"

#include <string.h>

static int noop_decide(void *policy, const struct space *self, struct session *s,
                       const struct decision *d, float *actions, struct err *err)
{
    memset(actions, 0, d->rows * (size_t)self->width * sizeof(*actions));
    if (self->box)
        clip_to_box(actions, d->rows, self);
    else
        choices_harden(self, actions, d->allowed, d->rows);
    return 0;
}

const struct fixed_policy noop_policy = {.decide = noop_decide};
