/* first_weights.h - whether the weights with which a new run would begin (--init-from) fit its
 * agents: every agent that learns must be in the checkpoint, with no variables of other names,
 * types or shapes.
 *
 * The trial of the configuration has asked the agents for their variables (trial.h). Where the
 * weights fit those, no process is started; otherwise the agent's process is asked to restore
 * them, as the run does, and says what does not fit. Processes that the trial has not asked
 * (central ones, those that hold shared parameters) are asked in any case.
 */
#ifndef SUPERVISOR_BEGIN_FIRST_WEIGHTS_H
#define SUPERVISOR_BEGIN_FIRST_WEIGHTS_H

#include "common/config/run_config.h"
#include "common/mem/arena.h"
#include "common/msg/msg.h"
#include "common/tensor/dtype.h"
#include "common/tensor/shape.h"
#include "supervisor/begin/policies.h"
#include "supervisor/begin/weights.h"

struct first_variable {
    const char *name;
    enum dtype dtype;
    struct shape shape;
};

struct first_variables { /* all-zero: empty */
    struct first_table {
        const char *owner; /* the agent that was asked: it is in its variables' names */
        const struct first_variable *list;
        size_t n; /* 0: not known */
    } * tables;   /* [n] */
    size_t n;
    struct arena arena;
};

void first_variables_begin(struct first_variables *v, size_t n_agents);
void first_variables_done(struct first_variables *v);
/* Reads the answer to `configure` of the agent of that name; a malformed one is not known. */
void first_variables_take(struct first_variables *v, size_t agent, const char *name,
                          const msgpack_object *answer);
/* The agent's are those of the one before it, but for the name. */
void first_variables_repeat(struct first_variables *v, size_t agent);

/* ERR_CONFIG names the agent. */
int first_weights_check(const struct run_config *c, const struct policies *policies,
                        const struct weights *weights,
                        const struct first_variables *variables, struct err *err);
/* first_weights_check for the values of frozen agents that are programs (policies_values). */
int first_policies_check(const struct run_config *c, const struct policies *policies,
                         struct err *err);

#endif
