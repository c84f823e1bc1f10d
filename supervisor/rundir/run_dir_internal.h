/* run_dir_internal.h - shared by the files of run_dir.h:
 *
 *     run_dir.c        a run that is held: its paths and its files
 *     run_dir_lock.c   who may open a run, and who holds its lock
 *     run_dir_place.c  renames and removes the held directory, and no other one; its mark
 *     run_dir_make.c   makes a run, in its place or beside it
 *     run_dir_find.c   which run a name on the command line means; all runs
 */
#ifndef SUPERVISOR_RUNDIR_RUN_DIR_INTERNAL_H
#define SUPERVISOR_RUNDIR_RUN_DIR_INTERNAL_H

#include "supervisor/rundir/run_dir.h"

#include <time.h>

enum { RUN_DIR_USER_BYTES = 64 };

struct run_dir {
    char *path;
    char *name;
    char *moved;      /* what its name in its folder was changed to; NULL: as in path */
    int lock;         /* -1: not locked */
    int is_held;      /* beneath_hold was called for path */
    int counts_names; /* the file system sets st_nlink to 0 when a file is deleted */
    int keeps_time;   /* no supervisor began, so far, in a run that was there */
    struct timespec started; /* the lock file's time before this process took the lock */
    char **files;
    size_t n_files;

    /* Of a run that is made under another name (run_dir_make). */
    char *final; /* the path that it will have; NULL: as path */
    char *base;  /* NULL: it was given a name */
    int force;   /* it may replace a run of that name that is over */
};

/* ---- run_dir.c ---- */

/* A run of that name, of which nothing is opened. */
struct run_dir *run_dir_new(const char *runs_dir, const char *name);
/* Other commands of this process may hold the directory already: what they decided is about
 * the directory that they hold. */
int run_dir_hold(struct run_dir *d, struct err *err);
/* Frees the paths that run_dir_file has returned. */
void run_dir_forget_files(struct run_dir *d);

/* ---- run_dir_lock.c ---- */

/* The user's name, or "user 1234". Returns ret. */
const char *run_dir_user_name(uid_t uid, char ret[RUN_DIR_USER_BYTES]);
/* Sets the error "no permission", with the name of the run's owner. */
int run_dir_deny(const char *path, struct err *err);
/* Whether errno says that the permission is missing. */
int run_dir_is_denial(int error);
/* Takes the lock of the held directory. ERR_STATE: another process has it. */
int run_dir_lock(struct run_dir *d, struct err *err);
/* ERR_STATE: the run is live. keeper: 0: not known. */
int run_dir_fail_live(const struct run_dir *d, pid_t holder, pid_t keeper,
                      struct err *err);

/* ---- run_dir_place.c ---- */

/* As run_dir_rename. other: NULL: the new name must be free (-EEXIST, -ENOTEMPTY). Otherwise
 * it is the held directory `other` that has it, and gets the name of d. After an error, both
 * have the names that they had. */
int run_dir_move(struct run_dir *d, const char *name, struct run_dir *other,
                 struct err *err);
/* ERR_STATE: the held directory is not the one that its path leads to, or not empty as it must
 * be. reason: the errno with which that could not be found out; 0: it could. */
int run_dir_fail_replaced(const struct run_dir *d, int reason, struct err *err);

/* ---- run_dir_find.c ---- */

/* Whether the path is a run's: 0, -EACCES (not known), -ENOENT. */
int run_dir_look(const char *path);

#endif
