/* init_copy.h - holds the checkpoint with which all runs of a series begin (`run --seeds --jobs
 * --init-from`): they begin at different times, and the run that it is of, which may be live,
 * may remove it meanwhile.
 *
 * The copy is a hidden folder of the runs directory, RUNS/.init-<random>, by reference where the
 * disk can. The programs of the series find its name in their environment. It is removed when
 * the series is over; what a kill has left is removed by the next series: whoever uses a copy
 * holds a lock of it.
 */
#ifndef SUPERVISOR_CLI_INIT_COPY_H
#define SUPERVISOR_CLI_INIT_COPY_H

#include "common/err/err.h"

#include <stdint.h>

#define INIT_COPY_VARIABLE "BROOD_INIT_COPY"

struct init_copy {
    char *path; /* NULL: there is none */
    int fd;     /* holds the lock */
};

/* checkpoints: the folder of that run. -ESTALE: the checkpoint was removed meanwhile. */
int init_copy_make(struct init_copy *ret, const char *runs_dir, const char *checkpoints,
                   uint64_t step, struct err *err);
/* All-zero is fine. */
void init_copy_done(struct init_copy *c);
/* In a program of the series: the folder that holds the checkpoint; NULL: there is none, or no
 * more. */
const char *init_copy_given(void);

#endif
