/* Acts uniformly at random over the possible choices of each head, or the points of a
 * box; in a box without bounds, with standard normal draws. */
#include "agent/algo/choices.h"
#include "agent/algo/fixed.h"

#include <math.h>

/* Draws a uniform number per choice; each head takes the choice with the largest. */
static int random_decide(void *policy, const struct space *self, struct session *s,
                         const struct act_args *args, float *actions, struct err *err)
{
    const size_t width = (size_t)self->width;
    const float low = (float)self->low, span = (float)(self->high - self->low);

    if (self->box && !isfinite(span)) {
        rng_normal_rows_f32(args->key, args->counter, args->draw_first, actions,
                            args->n_copies, width);
        clip_to_box(actions, args->n_copies, self);
        return 0;
    }
    rng_uniform_rows_f32(args->key, args->counter, args->draw_first, actions,
                         args->n_copies, width);
    if (!self->box) {
        choices_harden(self, actions, args->allowed, args->n_copies);
        return 0;
    }
    for (size_t i = 0; i < args->n_copies * width; i++)
        actions[i] = low + span * actions[i];
    return 0;
}

const struct fixed_policy random_policy = {.decide = random_decide};
