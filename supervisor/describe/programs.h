/* programs.h - what programs said of themselves, noted as long as the process lives.
 *
 * A description is the frame of an answer to `describe` with one algorithm (protocol.h). A run
 * keeps it in programs/<hash>, so that whatever reads the run's configuration knows the
 * program's settings without starting it (algorithm_load).
 */
#ifndef SUPERVISOR_DESCRIBE_PROGRAMS_H
#define SUPERVISOR_DESCRIBE_PROGRAMS_H

#include "common/config/algorithms.h"
#include "common/err/err.h"

#include <stddef.h>

enum { PROGRAM_MAX_BYTES = 1 << 20 };

/* Notes the description, unless one with that hash is known. ERR_PROTOCOL, ERR_LIMIT,
 * ERR_FORMAT. */
int program_note(const struct algorithm_info **ret, const char *hash, const void *frame,
                 size_t len, struct err *err);
/* The frame of a description that was noted; NULL: it was not. */
const void *program_frame(const char *hash, size_t *ret_len);

#endif
