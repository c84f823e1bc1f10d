/* scalars.h - rows of what algorithms report, for their descriptions (struct algo_about): each
 *             lists those that its stages report.
 *
 * A scalar of SCALAR_BY_STEP comes from whoever makes the optimiser's steps: in a group that
 * shares parameters, the ps.
 */
#ifndef AGENT_ALGO_SCALARS_H
#define AGENT_ALGO_SCALARS_H

#include "common/config/algorithms.h"

#define SCALAR(name, meaning, unit)                                                      \
    {                                                                                    \
        (name), (meaning), (unit), SCALAR_BY_AGENT                                       \
    }
#define SCALAR_OF_STEP(name, meaning, unit)                                              \
    {                                                                                    \
        (name), (meaning), (unit), SCALAR_BY_STEP                                        \
    }

#define SCALARS_OF_CRITIC                                                                \
    SCALAR("critic_loss", "the critic's loss on the batch, before the step", ""),        \
        SCALAR("q_mean", "mean value of the actions taken", "reward"),                   \
        SCALAR("target_q_mean", "mean of the critic's targets", "reward"),               \
        SCALAR("target_q_std", "deviation of the critic's targets", "reward"),           \
        SCALAR("td_error", "mean distance of the values from their targets", "reward"),  \
        SCALAR_OF_STEP("critic_grad_norm",                                               \
                       "norm of the critic's gradients, before clipping", ""),           \
        SCALAR_OF_STEP("critic_learning_rate", "the critic's learning rate in force",    \
                       "")
#define SCALARS_OF_ACTOR                                                                 \
    SCALAR("actor_loss", "the policy's loss on the batch, before the step", ""),         \
        SCALAR_OF_STEP("actor_grad_norm",                                                \
                       "norm of the policy's gradients, before clipping", ""),           \
        SCALAR_OF_STEP("actor_learning_rate", "the policy's learning rate in force", "")
/* Of Q-networks; what comes from the central process of a mixer, too. */
#define SCALARS_OF_Q_NETWORK(by)                                                         \
    {"critic_loss", "the networks' loss on the batch, before the step", "", (by)},       \
        {"q_mean", "mean value of the actions taken", "reward", (by)},                   \
        {"target_q_mean", "mean of the targets", "reward", (by)},                        \
        {"target_q_std", "deviation of the targets", "reward", (by)},                    \
        {"td_error", "mean distance of the values from their targets", "reward", (by)},  \
        SCALAR("epsilon", "how often a random action is chosen", ""),                    \
        SCALAR_OF_STEP("critic_grad_norm", "norm of the gradients, before clipping",     \
                       ""),                                                              \
        SCALAR_OF_STEP("learning_rate", "the learning rate in force", "")

#endif
