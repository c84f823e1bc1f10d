/* run_length.h - how long a run is.
 *
 * Length   a number of steps or of episodes. The length in force at a boundary is that of the
 *          configuration with all changes that are due there: those for the boundary's step
 *          and for steps within the round before it.
 * End      the first boundary whose length in force is reached.
 * Later    a length for a later step is accepted only if the run certainly gets there. So the
 *          run ends at the last length that was accepted, the one in config.yaml.
 */
#ifndef COMMON_CONFIG_RUN_LENGTH_H
#define COMMON_CONFIG_RUN_LENGTH_H

#include "common/config/changes.h"
#include "common/config/run_config.h"

#include <stdint.h>

struct run_length {
    int64_t env_steps, episodes; /* one of them is 0; both: the run is endless */
};

struct run_length run_length_of(const struct run_config *c);
void run_length_set(struct run_config *c, struct run_length length);
/* The length at the end of a new run, whose file may have lengths for later steps. */
struct run_length run_length_last(const struct run_config *c);
int run_length_is_same(struct run_length a, struct run_length b);
int run_length_is_reached(struct run_length length, uint64_t env_steps,
                          uint64_t episodes);
/* Whether the path is a key of the length, or a section that has it. */
int run_length_is_key(const char *path);
/* run_length_is_key of the key of "KEY=VALUE". */
int run_length_is_assigned(const char *assignment);
/* Makes the change, if it is one of the length. */
void run_length_change(struct run_length *length, const struct config_setting *s);

/* Whether the length `was`, in force before step `at`, can become `is` there. next: the first
 * boundary at which a change can take effect; episodes: how many there are. ERR_CONFIG: the run
 * may have ended by then, or `is` is past. */
int run_length_check(const struct run_config *c, struct run_length was,
                     struct run_length is, uint64_t at, uint64_t next, uint64_t episodes,
                     struct err *err);

#endif
