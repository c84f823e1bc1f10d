/* log_reads.h - the columns of the experience log that a process reads, as its answer to
 * `configure` names them.
 *
 * The answer comes from another process: a name that the log does not have, or one that comes
 * twice, is ERR_PROTOCOL. A process whose answer has no key `reads` reads none.
 */
#ifndef SUPERVISOR_ROLLOUT_LOG_READS_H
#define SUPERVISOR_ROLLOUT_LOG_READS_H

#include "common/err/err.h"
#include "common/msg/msg.h"
#include "common/store/layout.h"

#include <stdint.h>

/* ret: [n_columns], 1 for a column that is read, otherwise 0. agent: for messages. */
int log_reads_parse(uint8_t *ret, const struct store_layout *l,
                    const msgpack_object *body, const char *agent, struct err *err);

#endif
