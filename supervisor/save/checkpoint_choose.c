#include "supervisor/save/checkpoint_choose.h"

#include "common/text/scan.h"
#include "supervisor/save/checkpoint_read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_TRIES =
        20, /* it is looked up again because a live run has a better one meanwhile */
    MAX_EVALUATIONS = 1 << 20, /* bytes of what a checkpoint says of them */
};

/* Returns 1, or 0: the run keeps no best one. */
static int read_kept(struct best_value *ret, const char *dir, uint64_t step,
                     struct err *err)
{
    const struct checkpoint_section *s;
    struct checkpoint_state state;
    int rc = checkpoint_section_read(&state, dir, step, SECTION_EVALUATIONS,
                                     MAX_EVALUATIONS, err);

    if (rc < 0)
        return rc;
    s = checkpoint_state_find(&state, SECTION_EVALUATIONS);
    if (s != NULL)
        rc = verdict_load_kept(ret, s->data, s->len, err);
    checkpoint_state_done(&state);
    return rc;
}

/* Reads the newest checkpoint that can be read. */
static int read_newest(struct best_value *ret, const char *dir, struct err *err)
{
    uint64_t *steps = NULL;
    size_t n = 0;
    int rc = checkpoint_list(dir, &steps, &n, err);

    if (rc == 0 && n == 0)
        rc = err_set(err, ERR_NOT_FOUND, "%s holds no checkpoint", dir);
    else if (rc == 0)
        do
            rc = read_kept(ret, dir, steps[--n], err);
        while (rc < 0 && n > 0);
    free(steps);
    return rc;
}

int checkpoint_find_best(const char *dir, struct best_value *ret, struct err *err)
{
    const char *slash = strrchr(dir, '/');
    const int run = slash != NULL ? (int)(slash - dir) : 0;
    uint64_t missing = 0; /* none: there is no evaluation at step 0 */
    int rc = -ESTALE;

    for (int i = 0; i < MAX_TRIES && rc == -ESTALE; i++) {
        rc = read_newest(ret, dir, err);
        if (rc != 1 || !ret->is_known || checkpoint_is_there(dir, ret->step))
            continue;
        rc = -ESTALE;
        if (ret->step == missing)
            break;
        missing = ret->step;
    }
    if (rc == -ESTALE)
        return err_set(err, ERR_NOT_FOUND,
                       "%.*s has no best checkpoint: that of step %" PRIu64
                       " is not there",
                       run, dir, ret->step);
    if (rc == 0)
        return err_set(err, ERR_NOT_FOUND,
                       "%.*s has no best checkpoint: its checkpoint.keep_best is none",
                       run, dir);
    if (rc == 1 && !ret->is_known)
        return err_set(err, ERR_NOT_FOUND,
                       "%.*s has no best checkpoint yet: no checkpoint was made after an "
                       "evaluation with a value",
                       run, dir);
    return rc < 0 ? rc : 0;
}

int checkpoint_choose(const char *dir, const char *text, uint64_t *ret, struct err *err)
{
    struct best_value best;
    uint64_t *steps, wanted = 0;
    size_t n, i = 0;
    int rc;

    if (strcmp(text, CHECKPOINT_BEST) == 0) {
        if ((rc = checkpoint_find_best(dir, &best, err)) == 0)
            *ret = best.step;
        return rc;
    }
    rc = checkpoint_list(dir, &steps, &n, err);
    if (rc < 0)
        return rc;
    if (!text_u64(text, &wanted))
        i = n;
    while (i < n && steps[i] != wanted)
        i++;
    if (i < n)
        *ret = steps[i];
    else if (n == 0)
        rc = err_set(err, ERR_NOT_FOUND, "%s holds no checkpoint", dir);
    else
        rc = err_set(err, ERR_NOT_FOUND,
                     "%s holds no checkpoint of step %s; there are %zu, from %" PRIu64
                     " to %" PRIu64,
                     dir, text, n, steps[0], steps[n - 1]);
    free(steps);
    return rc;
}
