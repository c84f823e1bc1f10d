/* estimate.h - about how much memory and disk a run takes, from its configuration alone.
 *
 * Memory   weights    four times the agents' blocks: in their processes, in two snapshots, and
 *                     in a checkpoint that is being written;
 *          batches    of every agent that learns: the rows of an update, and the values of
 *                     its networks for CHUNK_ROWS rows at a time;
 *          messages   the rows of a round, in the supervisor and at each agent, and the
 *                     index of the rows that are drawn;
 *          processes  the programs themselves, but not those of an external environment.
 * Disk     log          the rows in the window of the oldest checkpoint that is kept, and all
 *                       later ones, until the run's end;
 *          checkpoints  the agents' blocks, once for each checkpoint that is kept, and
 *                       once for the one that is being written.
 * Later    of the values that the configuration has for later steps (`{at: ...}`), those count
 *          that take most: the length that the run will have, the most frequent checkpoints.
 * Agents   what one agent's process takes at least, which a memory_limit must leave it: half
 *          of its batches, one block, and a small program. Measured in 9 configurations: the
 *          process held 1.3 to 3.2 times as much.
 * Exact    only the size of the log of a run whose length is known; all else is meant to
 *          be right within a factor of two.
 */
#ifndef SUPERVISOR_BEGIN_ESTIMATE_H
#define SUPERVISOR_BEGIN_ESTIMATE_H

#include "common/config/run_config.h"
#include "common/err/err.h"
#include "common/mem/size_text.h"
#include "supervisor/env/env.h"
#include "supervisor/rollout/description.h"

#include <stddef.h>
#include <stdint.h>

struct estimate {
    double weights, batches, messages, processes; /* bytes of memory */
    double log, checkpoints;                      /* bytes of disk */
    double rows;                                  /* most in the log at any time */
    uint64_t row_bytes;
    size_t largest;    /* the agent with the largest block */
    struct {           /* of the agent whose memory_limit is too small */
        int64_t bytes; /* the limit; 0: there is none */
        double least;  /* what its process takes at least */
        size_t agent;
    } limit;
};

/* descriptions, block_bytes: [A] as the agents answered `configure`; 0: unknown. Fails if the
 * rows have too many columns. */
int estimate_make(struct estimate *ret, const struct run_config *c,
                  const struct env_spec *spec, const struct description *descriptions,
                  const uint64_t *block_bytes, struct err *err);
double estimate_memory(const struct estimate *e);
double estimate_disk(const struct estimate *e);
/* The number of bytes for people; of more than 1e18, of which a configuration may ask, it
 * shows that many. */
const char *estimate_text(double bytes, char buf[SIZE_TEXT_BYTES]);

/* ERR_CONFIG if an agent's memory_limit is less than its process takes, if the machine has less
 * memory than the run takes, or if the disk of `dir` (or of the first folder above that
 * exists) is smaller than the window that agents learn from.
 * err->key: a key of the configuration, of agent *ret_agent if that is less than
 * c->n_agents. */
int estimate_check(const struct estimate *e, const struct run_config *c, const char *dir,
                   size_t *ret_agent, struct err *err);
/* Returns "KEY: ...", which the caller frees, if the disk of `dir` has less free space
 * now than the run takes until its end; otherwise NULL. */
char *estimate_shortage(const struct estimate *e, const struct run_config *c,
                        const char *dir);

#endif
