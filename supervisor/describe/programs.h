/* programs.h - what programs said of themselves, noted as long as the process lives.
 *
 * A description is the frame of an answer to `describe` with one algorithm (protocol.h). A run
 * keeps it, and the files of the program, in programs/<hash> (program_files.h): whatever reads
 * the run's configuration knows the program's settings without starting it (algorithm_load),
 * and what starts it starts the copy.
 *
 * Threads  any.
 */
#ifndef SUPERVISOR_DESCRIBE_PROGRAMS_H
#define SUPERVISOR_DESCRIBE_PROGRAMS_H

#include "common/config/algorithms.h"
#include "common/err/err.h"
#include "common/msg/config_msg.h"
#include "supervisor/describe/program_files.h"

#include <stddef.h>

enum { PROGRAM_MAX_BYTES = 1 << 20 };

/* Notes the description, unless one with that hash is known. ERR_PROTOCOL, ERR_LIMIT,
 * ERR_FORMAT. */
int program_note(const struct algorithm_info **ret, const char *hash, const void *frame,
                 size_t len, struct err *err);
/* The files of a program that was noted, of which nothing else is known yet. Takes over what
 * they hold. */
void program_note_files(const char *hash, struct program_files *files);

/* Makes RUN/programs/<hash>, unless it is there or the program was not noted. ERR_STATE: a file
 * was changed meanwhile. */
int program_keep(const char *hash, const char *run, struct err *err);
/* The program is the other one, which a run keeps, with other versions of packages: it is started
 * from the same files. */
void program_start_as(const char *hash, const char *other);
/* From here on the program is started from RUN/programs/<hash>, if that has its files. */
void program_start_from(const char *hash, const char *run);
/* What a process that is started from now on must be, a line each, as in
 * algorithm_info.identity; they live as long as the process. NULL: whatever it is. */
void program_expect(const char *hash, const char *const *identity);
/* For msg_program. */
struct program_place program_place(const char *hash);

#endif
