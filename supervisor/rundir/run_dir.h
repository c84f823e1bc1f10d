/* run_dir.h - the directory of a run: its name, its lock, and files that are written once.
 *
 *     runs/<name>/  config.yaml  provenance  journal  experience  lock
 *                   logs/  metrics/  checkpoints/
 *
 * A process that creates, opens or finds a run with these functions holds the directory
 * open (beneath.h): files are opened through its descriptor and never through links. If
 * another directory gets its name, the process goes on with the one that it holds.
 * The lock on the file `lock` (F_OFD_SETLK: of the open file, not of the process) keeps a
 * second supervisor out; the file holds the pid of the supervisor that has the lock. Only
 * the owner may open `lock`, whatever the directory's mode.
 * Owns     the lock's descriptor and the paths that it returns.
 */
#ifndef SUPERVISOR_RUNDIR_RUN_DIR_H
#define SUPERVISOR_RUNDIR_RUN_DIR_H

#include "common/config/run_config.h"
#include "common/err/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct atomic_file;
struct run_dir; /* opaque */

enum { RUN_DIR_NAME_MAX = 100 }; /* the longest name of a run */

/* ERR_ARG if `path` lies in the run of that name, which would lose it if it was replaced.
 * name, path: NULL is fine. */
int run_dir_refuse_within(const char *runs_dir, const char *name, const char *path,
                          struct err *err);
/* Creates runs_dir (and its parents) and a new run in it, locked. name NULL:
 * <base>-<number>, the first that neither a run nor a submitted job has. A name that exists
 * already is ERR_EXISTS; with force, such a run is emptied and used if the caller owns it and
 * no supervisor holds it.
 * mode: the directory's exact mode, whatever the umask; that of its files follows from it
 * (beneath.h). After an error, no new directory is left in runs_dir. */
int run_dir_create(struct run_dir **ret, const char *runs_dir, const char *name,
                   const char *base, int force, mode_t mode, struct err *err);
/* A run that appears when it is whole: run_dir_make creates a folder RUN_DIR_MAKING... in runs_dir,
 * locked, and run_dir_appear syncs it and renames it to what run_dir_create would have created;
 * the paths of its files change. A run that it replaces is removed then, when the rename is on
 * the disk. Errors are those of run_dir_create; after one of run_dir_appear, the other run has
 * its name. ERR_EXISTS from run_dir_appear: somebody else has taken the name. Without a name,
 * run_dir_next_name then chooses the next number. What a maker leaves that is killed
 * is removed by run_remove_leftovers. */
#define RUN_DIR_MAKING ".new-"
int run_dir_make(struct run_dir **ret, const char *runs_dir, const char *name,
                 const char *base, int force, mode_t mode, struct err *err);
int run_dir_next_name(struct run_dir *d, struct err *err);
int run_dir_appear(struct run_dir *d, struct err *err);
/* The path that it will have. */
const char *run_dir_final_path(const struct run_dir *d);
/* The inode of its folder; 0: not known. */
uint64_t run_dir_inode(const struct run_dir *d);
/* Whether a run may have that name: ERR_ARG. */
int run_dir_check_name(const char *name, struct err *err);
/* Whether run_dir_create could make a run of that name now: ERR_EXISTS; with force, ERR_STATE
 * if the run of that name is live. */
int run_dir_check_new(const char *runs_dir, const char *name, int force, struct err *err);
/* Opens an existing run; lock: also takes its lock (ERR_STATE names the holder's pid).
 * ERR_NOT_FOUND; -EACCES: another user's, and not readable. */
int run_dir_open(struct run_dir **ret, const char *path, int lock, struct err *err);
/* Notes that a supervisor begins to train in the run, which makes it the newest one. Whoever
 * takes the lock for something else, or fails before, leaves the order of runs as it was. */
void run_dir_begin(struct run_dir *d);
void run_dir_free(struct run_dir *d); /* releases the lock */
/* Removes the directory of a run that could not begin, if it is held, as far as possible, and
 * frees d. */
void run_dir_discard(struct run_dir *d);
/* Renames the directory in its folder, durably. ERR_STATE: its name is another directory's by
 * now, which keeps it. After any error it has the name that it had, too. */
int run_dir_rename(struct run_dir *d, const char *name, struct err *err);
/* Removes the directory that is held, whatever its name leads to by now. The mark and the lock
 * go last. */
int run_dir_remove(struct run_dir *d, struct err *err);
/* A run that is being made or removed has a name by which no command finds it, and a mark, the
 * link `unwanted`, that says which. If its process dies, run_remove_leftovers removes what
 * this user has marked, and has the name of its mark: anybody who may write the folder of runs
 * can give a run such a name, but not the mark. A mark takes no block of a disk that may be
 * full; without it, only leftovers stay. */
void run_dir_mark(const struct run_dir *d, const char *name);
void run_dir_unmark(const struct run_dir *d);
/* path: held. */
int run_dir_is_marked(const char *path, const char *name);

/* 1 if the directory or its file `lock` was deleted, so that no command can find the run.
 * d must be locked. */
int run_dir_is_deleted(const struct run_dir *d);

/* When the run first began, in seconds since 1970: when its provenance was written. Now, if it
 * has none. */
double run_dir_began_unix(struct run_dir *d);

/* The name of the run whose directory is `path`; free(). */
char *run_dir_name_of(const char *path);
const char *run_dir_name(const struct run_dir *d);
const char *run_dir_path(const struct run_dir *d);
/* "<run>/<sub>", kept until run_dir_free. */
const char *run_dir_file(struct run_dir *d, const char *sub);

/* Writes a file of the run whole (temporary name, fsync, rename). */
int run_dir_write(struct run_dir *d, const char *sub, const void *data, size_t len,
                  struct err *err);
/* Writes `config.yaml`: the configuration with all defaults filled in. */
/* Makes the programs of the agents start from the copies that the run keeps. */
void run_dir_place_programs(const struct run_dir *d, const struct run_config *config);
int run_dir_write_config(struct run_dir *d, const struct run_config *config,
                         struct err *err);
/* As run_dir_write_config, but without the rename: atomic_file_commit and atomic_file_free
 * *ret. */
int run_dir_prepare_config(struct run_dir *d, const struct run_config *config,
                           struct atomic_file **ret, struct err *err);
/* Writes `provenance`: command line, build id, numerics, versions of libraries and CPU, as
 * "key: value" lines. */
int run_dir_write_provenance(struct run_dir *d, int argc, char *const *argv,
                             const char *build_id, enum numerics numerics,
                             struct err *err);

/* Calls fn for each of its lines, of the run in that directory; never, if it cannot be read. */
typedef void (*run_dir_provenance_fn)(void *ctx, const char *key, const char *value);
void run_dir_each_provenance(const char *path, run_dir_provenance_fn fn, void *ctx);

/* Resolves RUN of the command line: a name under runs_dir, a path to a run's directory, such
 * a path below runs_dir, a trial STUDY/<number> that has one seed, the name of a configuration
 * for the newest run <name>-<number>, or NULL for the newest run that the caller may read.
 * ret: its path, free(); the process holds the directory open from then on. ERR_NOT_FOUND;
 * -EACCES: "no permission: run NAME belongs to USER". */
int run_dir_find(const char *runs_dir, const char *run, char **ret, struct err *err);
/* run_dir_find for commands that delete: the name of a configuration is ERR_NOT_FOUND, whose
 * message names the run that it would have meant. */
int run_dir_find_own_name(const char *runs_dir, const char *run, char **ret,
                          struct err *err);
/* The run in RUN or RUN@STEP; free(). *ret_step is within text; NULL: there is none. An @ of a
 * folder's name belongs to the run. */
char *run_dir_split(const char *text, const char **ret_step);
/* Resolves RUN or RUN@STEP of the command line: *ret_dir is the run's checkpoints/
 * (free()), *ret_step is chosen by resume_choose. */
int run_dir_find_checkpoint(const char *runs_dir, const char *text, char **ret_dir,
                            uint64_t *ret_step,
                            void (*on_skipped)(void *ctx, const char *line), void *ctx,
                            struct err *err);
/* Returns -EACCES, with the message of run_dir_find, if the caller may not read the run's
 * lock, so that it cannot know whether the run is live; otherwise 0. */
int run_dir_denied(const char *path, struct err *err);
/* Returns 0 if programs that the run's configuration names may be executed; -EPERM if
 * another user owns the directory, config.yaml or a file in programs/, or everybody may write
 * one of these files. */
int run_dir_check_trust(const char *path, struct err *err);
/* Pid of the supervisor that holds the run's lock; 0: no process holds it, or
 * run_dir_denied; -1: a process holds it, but its pid is not known. */
pid_t run_dir_holder(const char *path);
/* Returns 1 if a supervisor holds the lock. The pids are that supervisor's and its
 * keeper's, or those of the last supervisor. Returns 0 if none does, or run_dir_denied. */
int run_dir_pids(const char *path, pid_t *ret_pid, pid_t *ret_keeper);
/* Makes those of the run's folders that are missing. -errno. */
int run_dir_make_folders(struct run_dir *d, struct err *err);
/* The paths of all runs under runs_dir, without links that others have planted (beneath.h),
 * those whose last supervisor began latest first: *ret_n of them, run_dir_list_free(). If
 * the folder is missing, there are none. -errno: the folder cannot be read; the list then has
 * those that were found. */
int run_dir_list(const char *runs_dir, char ***ret, size_t *ret_n, struct err *err);
/* run_dir_list of the runs whose names the pattern of fnmatch matches, "mappo-*", or of those in
 * studies, "lr/3-*": * and ? stand for no slash. ERR_NOT_FOUND: there is none. After
 * an error the list is empty. */
int run_dir_match(const char *runs_dir, const char *pattern, char ***ret, size_t *ret_n,
                  struct err *err);
/* Whether it is such a pattern: no name of a run has its characters. */
int run_dir_is_pattern(const char *text);
void run_dir_list_free(char **paths, size_t n);

#endif
