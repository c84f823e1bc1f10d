/* program_files.h - the files that a program, an agent that users write, consists of, and the
 * copy of them from which a run starts it, so that editing them changes no run that has begun.
 *
 *   KEPT/description   the answer to `describe` (programs.h)
 *   KEPT/files/...     the program's own files, placed to each other as they were
 *   KEPT/package/...   what its language's package for brood consists of
 *
 * KEPT is RUN/programs/<hash>. The program's own files are those that it names in its answer,
 * those that are words of its command, and those of `sources`, which are taken where they are
 * below its directory. A folder named by `sources` stands for all in it, except for runs,
 * virtual environments, hidden files, and links that lead out of the directory.
 */
#ifndef SUPERVISOR_DESCRIBE_PROGRAM_FILES_H
#define SUPERVISOR_DESCRIBE_PROGRAM_FILES_H

#include "common/config/run_config.h"
#include "common/mem/arena.h"
#include "common/msg/config_msg.h"

#include <msgpack.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PROGRAM_MAX_FILES = 4096,
    PROGRAM_MAX_FILES_BYTES = 64 << 20, /* of all together */
    PROGRAM_DIGEST_BYTES = 16,          /* BLAKE2b */
};

struct program_files {
    struct arena arena; /* of all texts */
    struct program_file {
        const char *path; /* absolute */
        const char *name; /* in KEPT */
        int is_named;     /* by the program, whose identity has its digest, too */
        char digest[2 * PROGRAM_DIGEST_BYTES + 1]; /* hexadecimal */
    } * file;
    size_t n;
    /* The directory of the program below KEPT/files: "" unless a file lies outside it. */
    const char *within;
};

/* answer: that of `describe`, which the program gave in place->kept or, if that is NULL, in its
 * own directory. Of a copy all files count, so that none can be added to it either.
 * ERR_CONFIG: a file of `sources` is not there, or they are too large; ERR_PROTOCOL; -errno. */
int program_files_find(struct program_files *ret, const msgpack_object *answer,
                       const struct agent_config *a, const struct program_place *place,
                       struct err *err);
void program_files_done(struct program_files *f);

/* Copies them into a folder that exists. ERR_STATE: one was changed since it was found. */
int program_files_copy(const struct program_files *f, const char *to, struct err *err);

#endif
