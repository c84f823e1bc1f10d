#include "supervisor/study/forks.h"

#include "common/io/tree.h"
#include "common/mem/xmalloc.h"
#include "supervisor/rundir/run_remove.h"
#include "supervisor/study/study_dir.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- making ---- */

/* Makes a member's run for one seed: a fork of the better member's run for that seed. */
static int make_fork(const struct lineage *l, const char *dir, size_t member, size_t seed,
                     const struct fork_args *with, struct err *err)
{
    const size_t from = lineage_from(l, l->n - 1, member);
    const struct study_run_id id = {member, seed, l->n};
    const struct study_run_id source = {from, seed, lineage_birth(l, l->n - 1, from)};
    char *path = study_run_path(l->study, dir, &id), *unfinished;
    struct fork_args args = *with;
    struct arena arena = ARENA_ZERO;
    const char *sets[STUDY_MAX_SETS];
    struct run_dir *made = NULL;
    struct study_run run;
    int rc;

    study_run_look(&run, l->study, dir, &source, lineage_step(l->study, l->n - 1));
    if (run.state != STUDY_RUN_REACHED || run.reached == 0) {
        rc =
            err_set(err, ERR_STATE,
                    run.state == STUDY_RUN_LIVE
                        ? "%s is live again, so that %s cannot become its fork: stop it"
                        : "%s has no row of its round any more, so that %s cannot become "
                          "its fork",
                    run.path, path);
        study_run_done(&run);
        free(path);
        return rc;
    }
    args.from = run.path;
    args.step = arena_printf(&arena, "%" PRIu64, run.reached);
    args.runs_dir = arena_printf(&arena, "%s/.forks", dir);
    args.name = strrchr(path, '/') + 1;
    args.set = sets;
    args.n_set = study_sets_of(l->study, lineage_settings(l, l->n, member), sets, &arena);
    rc = fork_run(&made, &args, err);
    run_dir_free(made);
    unfinished = arena_printf(&arena, "%s/%s", args.runs_dir, args.name);
    if (rc == 0)
        rc = tree_rename(unfinished, path, 0, err);
    if (rc == 0)
        rc = tree_sync(dir, err);
    if (rc < 0)
        (void)err_wrap(err, "%s, a fork of %s", path, run.path);
    study_run_done(&run);
    free(path);
    arena_done(&arena);
    return rc;
}

static int make_all(const struct lineage *l, const char *dir,
                    const struct fork_args *with, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < l->study->trials * l->study->n_seeds; i++) {
        const struct study_run_id id = {i / l->study->n_seeds, i % l->study->n_seeds,
                                        l->n};
        char *path = study_run_path(l->study, dir, &id);

        if (lineage_from(l, l->n - 1, id.trial) != id.trial) {
            rc = tree_look(path, err);
            if (rc == 0)
                rc = make_fork(l, dir, id.trial, id.seed, with, err);
            else if (rc == 1)
                rc = 0;
        }
        free(path);
    }
    return rc;
}

/* ---- removing ---- */

/* Removes the runs that a member had until it became a fork after that round. */
static int remove_replaced(const struct lineage *l, const char *dir, size_t round,
                           size_t member, struct err *err)
{
    int rc = 0;

    for (size_t k = 0; rc == 0 && k < l->study->n_seeds; k++) {
        const struct study_run_id id = {member, k, lineage_birth(l, round, member)};
        char *path = study_run_path(l->study, dir, &id);

        rc = tree_look(path, err);
        if (rc == 1)
            rc = run_remove(path, err);
        free(path);
    }
    return rc;
}

int study_forks_make(const struct lineage *l, const char *dir,
                     const struct fork_args *with, struct err *err)
{
    char *unfinished = xasprintf("%s/.forks", dir);
    int rc = tree_remove(unfinished, err);

    if (rc == 0 && l->n > 0)
        rc = make_all(l, dir, with, err);
    if (rc == 0)
        rc = tree_remove(unfinished, err);
    if (rc == 0)
        rc = run_remove_leftovers(dir, err);
    for (size_t r = 0; rc == 0 && r < l->n && !l->study->pbt.keep; r++)
        for (size_t i = 0; rc == 0 && i < l->study->trials; i++)
            if (lineage_from(l, r, i) != i)
                rc = remove_replaced(l, dir, r, i, err);
    free(unfinished);
    return rc;
}
