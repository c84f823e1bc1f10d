/* run_dir.h - the directory of a run: names, lock, files that are written once.
 *
 *     runs/<name>/  config.yaml  provenance  journal  experience  lock
 *                   logs/  metrics/  checkpoints/
 *
 * Whoever creates, opens or finds a run by these functions holds its directory (beneath.h):
 * its files are reached through the directory's descriptor and never through links.
 * The lock on `lock` (of the open file: F_OFD_SETLK) keeps a second supervisor out; the
 * file names the holder's pid. It is its owner's alone, whatever the directory's mode.
 * Owns     the lock's descriptor and the paths handed out.
 */
#ifndef SUPERVISOR_RUN_RUN_DIR_H
#define SUPERVISOR_RUN_RUN_DIR_H

#include "common/config/run_config.h"
#include "common/err/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct atomic_file;
struct run_dir; /* opaque */

enum { RUN_DIR_USER_BYTES = 64 };

/* Creates runs_dir (and its parents) and a new run in it, locked. name NULL:
 * <base>-<number>, the first that is free; a given name that is there is ERR_EXISTS,
 * unless force is set, no supervisor holds it, and it is the caller's: then it is emptied
 * first. mode: of the directory, exactly; its files follow (beneath.h). */
int run_dir_create(struct run_dir **ret, const char *runs_dir, const char *name,
                   const char *base, int force, mode_t mode, struct err *err);
/* Opens an existing run; lock: also takes its lock (ERR_STATE names the holder's pid).
 * ERR_NOT_FOUND; -EACCES: somebody else's, and not to be read. */
int run_dir_open(struct run_dir **ret, const char *path, int lock, struct err *err);
void run_dir_free(struct run_dir *d); /* releases the lock */

/* It was deleted, or what is left of it has no lock any more: nobody can find this run
 * again. It must be locked. */
int run_dir_is_gone(const struct run_dir *d);

/* A run's name, by the path of its directory; free(). */
char *run_dir_name_of(const char *path);
const char *run_dir_name(const struct run_dir *d);
const char *run_dir_path(const struct run_dir *d);
/* "<run>/<sub>", kept until run_dir_free. */
const char *run_dir_file(struct run_dir *d, const char *sub);

/* Writes a file of the run whole (temporary name, fsync, rename). */
int run_dir_write(struct run_dir *d, const char *sub, const void *data, size_t len,
                  struct err *err);
/* `config.yaml`, the configuration as it is really run. */
int run_dir_write_config(struct run_dir *d, const struct run_config *config,
                         struct err *err);
/* The same, but for the rename: atomic_file_commit and atomic_file_free *ret. */
int run_dir_prepare_config(struct run_dir *d, const struct run_config *config,
                           struct atomic_file **ret, struct err *err);
/* `provenance`: command line, build id, numerics, versions, CPU, as "key: value" lines.
 */
int run_dir_write_provenance(struct run_dir *d, int argc, char *const *argv,
                             const char *build_id, enum numerics numerics,
                             struct err *err);

/* RUN of the command line: a name under runs_dir, a path to a run's directory, or NULL
 * for the newest run that may be looked into. ret: path, free(); its directory is held
 * from then on. ERR_NOT_FOUND; -EACCES: "no permission: run NAME belongs to USER". */
int run_dir_find(const char *runs_dir, const char *run, char **ret, struct err *err);
/* RUN or RUN@STEP of the command line: *ret_dir is the run's checkpoints/ (free()), the step
 * is chosen by resume_choose. */
int run_dir_find_checkpoint(const char *runs_dir, const char *text, char **ret_dir,
                            uint64_t *ret_step,
                            void (*on_skipped)(void *ctx, const char *line), void *ctx,
                            struct err *err);
/* The user's name, or "user 1234". Returns ret. */
const char *run_dir_user_name(uid_t uid, char ret[RUN_DIR_USER_BYTES]);
/* -EACCES, with the message of run_dir_find: whether the run lives cannot be told, for its
 * lock is not ours to read. 0: it can. */
int run_dir_denied(const char *path, struct err *err);
/* Whether what the run's configuration names may be executed: -EPERM if somebody else than
 * the caller owns the directory or config.yaml, or everybody may write that. */
int run_dir_check_trust(const char *path, struct err *err);
/* Pid of the supervisor that holds the run's lock; 0: nobody does, or run_dir_denied; -1:
 * not known. */
pid_t run_dir_holder(const char *path);
/* Whether one does, with its pid and its keeper's; or those of the last that did. 0:
 * there is none, or run_dir_denied. */
int run_dir_pids(const char *path, pid_t *ret_pid, pid_t *ret_keeper);
/* The paths of all runs under runs_dir, the newest first (by the beginning of their last
 * supervisors): *ret_n of them, free() each and the list. No such folder: none. */
char **run_dir_list(const char *runs_dir, size_t *ret_n);

#endif
