#include "supervisor/begin/policy_source.h"

#include "common/ckpt/ckpt_find.h"
#include "common/config/algorithms.h"
#include "common/mem/xmalloc.h"
#include "supervisor/rundir/run_dir.h"
#include "supervisor/save/checkpoint_format.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The runs of a study are in its folder: for them, a run of the folder around it is beside
 * them, too. */
static int find_around(char **ret, const char *from, uint64_t *ret_step,
                       const struct policy_search *q)
{
    char *study = xasprintf("%s/study.yaml", q->runs_dir);
    char *around = xasprintf("%s/..", q->runs_dir);
    const int rc = access(study, F_OK) == 0
                       ? run_dir_find_checkpoint(around, from, ret, ret_step,
                                                 q->on_skipped, q->ctx, NULL)
                       : ERR_NOT_FOUND;

    free(study);
    free(around);
    return rc;
}

/* Sets *ret to the prefix of one agent's files. */
static int find_in_run(char **ret, const char *from, const char *agent,
                       const struct policy_search *q, struct err *err)
{
    char *checkpoints = NULL, *folder;
    uint64_t step;
    int rc = run_dir_find_checkpoint(q->runs_dir, from, &checkpoints, &step,
                                     q->on_skipped, q->ctx, err);

    if (rc == ERR_NOT_FOUND && find_around(&checkpoints, from, &step, q) == 0)
        rc = 0;
    if (rc < 0)
        return rc;
    folder = checkpoint_path(checkpoints, "", step);
    *ret = checkpoint_bundle_prefix(folder, step, agent);
    free(folder);
    free(checkpoints);
    return 0;
}

/* Makes the path absolute, because agents may have another working directory. */
static int make_absolute(char **path, struct err *err)
{
    char here[PATH_MAX], *whole;

    if (**path == '/')
        return 0;
    if (getcwd(here, sizeof(here)) == NULL)
        return err_errno(err, "the current directory");
    whole = xasprintf("%s/%s", here, *path);
    free(*path);
    *path = whole;
    return 0;
}

int policy_find_prefix(char **ret, const struct agent_config *a,
                       const struct policy_search *q, struct err *err)
{
    const char *from = agent_setting_text(a, FIELD_CHECKPOINT);
    const char *agent = agent_setting_text(a, FIELD_CHECKPOINT_AGENT);
    char *prefix = NULL;
    int rc = ckpt_is_there(from, err);

    if (rc < 0)
        return rc;
    if (rc > 0)
        rc = ckpt_find_prefix(&prefix, from, err);
    else
        rc = find_in_run(&prefix, from, agent != NULL ? agent : a->name, q, err);
    if (rc == 0)
        rc = make_absolute(&prefix, err);
    if (rc < 0)
        free(prefix);
    else
        *ret = prefix;
    return rc;
}

char *policy_config_beside(const char *prefix)
{
    char *dir = xstrndup(prefix, (size_t)(strrchr(prefix, '/') - prefix));
    char *real = realpath(dir, NULL), *slash, *file = NULL;

    free(dir);
    for (int up = 0; up < 2 && real != NULL; up++)
        if ((slash = strrchr(real, '/')) != NULL)
            *slash = '\0';
    slash = real != NULL ? strrchr(real, '/') : NULL;
    if (slash != NULL && strcmp(slash, "/checkpoints") == 0)
        file = xasprintf("%.*s/config.yaml", (int)(slash - real), real);
    free(real);
    if (file != NULL && access(file, F_OK) < 0) {
        free(file);
        file = NULL;
    }
    return file;
}

char *policy_agent_of(const char *prefix)
{
    const char *end = strrchr(prefix, '/'), *begin = end;

    while (begin > prefix && begin[-1] != '/')
        begin--;
    return xstrndup(begin, (size_t)(end - begin));
}
