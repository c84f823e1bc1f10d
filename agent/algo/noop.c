/* Does nothing: takes each head's first choice, which in the particle worlds is to stay;
 * in a box the point nearest to zero. */
#include "agent/algo/choices.h"
#include "agent/algo/fixed.h"

#include <string.h>

static int noop_decide(void *policy, const struct space *self, struct session *s,
                       const struct act_args *args, float *actions, struct err *err)
{
    memset(actions, 0, args->n_copies * (size_t)self->width * sizeof(*actions));
    if (self->box)
        clip_to_box(actions, args->n_copies, self);
    else
        choices_harden(self, actions, args->allowed, args->n_copies);
    return 0;
}

const struct fixed_policy noop_policy = {.decide = noop_decide};
