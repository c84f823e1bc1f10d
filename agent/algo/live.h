/* live.h - settings that can be changed during a run.
 *
 * Each is a local variable `<agent>/hyperparameters/<key>` (dots of the key as slashes)
 * in collection hyperparameters: in the block and its snapshots, so that a respawned
 * agent has it, but not in checkpoints. Every run feeds it into the constant of the graph
 * that it stands for (`Adam/learning_rate:0`), so that an exported graph is TensorFlow's
 * own. A number that may follow the step (common/config/schedule.h) has two more variables,
 * `<key>/to` and `<key>/over`.
 *
 * Export   a checkpoint's .meta holds the values of its step: in the constants, and as the
 *          variables' first values. Collection SETTING_CONSTANTS (msg/protocol.h) lists
 *          those constants; the supervisor, which writes .meta files without asking the
 *          agent, inserts the values (supervisor/save/graphs.h).
 */
#ifndef AGENT_ALGO_LIVE_H
#define AGENT_ALGO_LIVE_H

#include "agent/session/session.h"
#include "common/config/run_config.h"
#include "common/config/schedule.h"

struct live {
    struct variable *variable;
    struct variable *to, *over; /* of a schedule; NULL: it is always a constant */
    struct output constant; /* what it is fed into; OUTPUT_NONE: read by the algorithm */
    float instead_of_zero;  /* fed when the setting is 0, which means "none" */
    float value;            /* to feed in the request under way: lives_read */
};

/* "No clipping" is a norm that no gradient reaches; a power of two, so that multiplying
 * by it and dividing again changes no bit. It is what exported graphs hold, too: with
 * infinity, clip_by_norm's x clip / max(norm, clip) would be infinity / infinity. */
#define LIVE_NO_CLIP_NORM 0x1p64f

/* Creates the variable. Call it inside the agent's variable scope. */
struct live live_new(struct graph *g, const char *key, double value);
/* live_new for a FIELD_SCHEDULE. */
struct live live_schedule(struct graph *g, const char *key, const struct schedule *value);
/* The learning rate of the critic: its own optimiser's, or the agent's. */
struct live live_critic_rate(struct graph *g, const struct agent_config *c);
/* Those of actor and critic, where both have networks. */
void live_rates(struct graph *g, const struct agent_config *c, struct live *ret_actor,
                struct live *ret_critic);
/* Makes the constant that the setting is fed into, under `name` in the current scope:
 * value, or where that is 0, instead_of_zero. */
void live_constant(struct graph *g, struct live *l, double value, float instead_of_zero,
                   const char *name);
/* Both at once, for a setting that is a number. */
struct live live_fed(struct graph *g, const char *key, double value,
                     float instead_of_zero, const char *name);
/* Feeds the setting into an existing constant, which may be another setting's `constant`.
 * OUTPUT_NONE: nothing happens. */
void live_bind(struct graph *g, struct live *l, struct output constant);
/* The variable of a key ("optimizer.learning_rate"), or NULL: not a live setting. */
struct variable *live_find(struct graph *g, const char *agent, const char *key);
/* The number to feed in a request of that step. ERR_UNINITIALIZED before the variables
 * have their first values. */
int live_value(const struct live *l, struct session *s, uint64_t step, float *ret,
               struct err *err);
/* Sets the values of n settings; those without a variable stay as they are. */
int lives_read(struct live *l, size_t n, struct session *s, uint64_t step,
               struct err *err);
/* The schedule itself, for copies at different steps: see schedule_at. */
int live_schedule_read(const struct live *l, struct session *s, struct schedule *ret,
                       struct err *err);

#endif
