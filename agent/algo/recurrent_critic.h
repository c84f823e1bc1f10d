/* recurrent_critic.h - a critic of a window that has a memory (setting recurrent_critic): a GRU or
 * LSTM behind its hidden layers, of which no agent needs to know to act.
 *
 * Unrolled  the update's first stage runs the critic over the whole window, step by step in the
 *           order of time, all copies side by side, from the carry that the window before has
 *           left; it is 0 where an episode begins. From this come the values of all rows, the
 *           carry into each, `carries`, and the carry behind the rows whose next observation is
 *           not the next row's (on_policy.h: cuts), for its value. Rows in which the agent is
 *           absent are seen as the log has them.
 * State     local variable `<scope>/critic_carry/<net>` (E, H): the carry at the end of the newest
 *           window. The same stage writes it, with the weights that the window was played with, as
 *           if the critic had been run beside the policy while it acted (so does the code of Yu et
 *           al. 2022): nothing is computed twice, and the epochs after it do not move it. A target
 *           critic carries its own. `next_row` (1): the row of copy 0 that must come next; if
 *           another one does, rows were left out, and all carries are 0.
 * Learning  minibatches are of whole chunks of L = `chunk` steps, each from the carry of its first
 *           row in `carries`, which has no gradient. As the chunks of a recurrent policy
 *           (sampled_policy.h), and the same ones where that is recurrent, too.
 * Shapes    E copies, T steps, n = E T rows of a window; R chunks; H the carry.
 */
#ifndef AGENT_ALGO_RECURRENT_CRITIC_H
#define AGENT_ALGO_RECURRENT_CRITIC_H

#include "agent/algo/kit.h"
#include "agent/nn/recurrent.h"

struct recurrent_critic {
    struct kit *kit;
    int64_t units; /* 0: the critic has no memory, and nothing below is used */
    enum cell_type cell;
    int64_t width; /* H */
    int chunk;     /* L; 1 without a memory */
    int64_t copies;
    struct output carry, first; /* placeholders (R, H), (B, 1) */
    struct variable *next_row;
    struct variable *kept; /* (n, H) `carries`, where several stages make an update */
    struct matrix *firsts; /* (B, 1) of the log */
    struct matrix *carries, *starts, *step_value, *step_carry;
};

/* One of its networks, which sees a single step. */
struct critic_step {
    struct output value, next_carry; /* (R, 1), (R, H) */
    struct variable *carry;          /* (E, H) */
};

/* ERR_ARG: the number of copies is not known. */
int recurrent_critic_init(struct recurrent_critic *c, struct kit *k,
                          const struct algo_args *args, struct err *err);
/* In the current scopes. keep_rows: the n of `kept`; 0: it is not needed. */
void recurrent_critic_make(struct recurrent_critic *c);
void recurrent_critic_make_state(struct recurrent_critic *c, int64_t keep_rows);
struct variable *recurrent_critic_add(struct recurrent_critic *c, const char *net);

/* (n, H), of the window's rows; NULL: there is no memory, or the batch has failed. */
float *recurrent_critic_carries(struct recurrent_critic *c, struct batch *b);

/* What is found on the way; each NULL or (n, .), in the order of the window. */
struct unrolled {
    float *value, *carry; /* (n), (n, H): at each row, and into it */
    float *after;         /* (n, H): behind it */
};
/* first: (n). place, rows: room for E. The batch then has the rows of the last step. */
void recurrent_critic_unroll(struct recurrent_critic *c, struct batch *b,
                             const struct critic_step *net, struct output state,
                             struct matrix *now, const float *first, uint32_t *place,
                             uint64_t *rows, struct unrolled ret);
/* The window has been unrolled: another one may follow it. */
void recurrent_critic_end(struct recurrent_critic *c, struct batch *b);
/* Feeds the chunks that the batch's rows are; place as they were selected by. */
void recurrent_critic_feed(struct recurrent_critic *c, struct batch *b,
                           const float *carries, const uint32_t *place);

#endif
