#include "supervisor/cli/submitted.h"

#include "common/ckpt/atomic_file.h"
#include "common/io/beneath.h"
#include "common/io/tree.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"
#include "supervisor/node/slurm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *submitted_jobs(const char *runs_dir)
{
    return xasprintf("%s/.jobs", runs_dir);
}

char *submitted_folder(const char *runs_dir, const char *run)
{
    return xasprintf("%s/.jobs/%s", runs_dir, run);
}

int submitted_remove(const char *folder, struct err *err)
{
    char *jobs = xstrndup(folder, (size_t)(strrchr(folder, '/') - folder));
    int rc = 0;

    if (tree_exists(jobs)) {
        rc = beneath_hold(jobs, err);
        if (rc == 0) {
            rc = tree_remove(folder, err);
            beneath_release(jobs);
        }
    }
    free(jobs);
    return rc;
}

/* Splits "<runs_dir>/<run>": returns the first part, free(); *ret_run points to the
 * second part, in the same memory. NULL: there is no such directory. */
static char *part(const char *path, const char **ret_run)
{
    char *runs_dir = realpath(path, NULL);
    char *slash = runs_dir != NULL ? strrchr(runs_dir, '/') : NULL;

    if (slash == NULL)
        return NULL;
    *slash = '\0';
    *ret_run = slash + 1;
    return runs_dir;
}

char *submitted_folder_of(const char *path)
{
    const char *run;
    char *runs_dir = part(path, &run);
    char *folder = runs_dir != NULL ? submitted_folder(runs_dir, run) : NULL;

    free(runs_dir);
    return folder;
}

int submitted_find(struct submitted *ret, const char *runs_dir, const char *run)
{
    char *jobs = submitted_jobs(runs_dir), *path = xasprintf("%s/%s/job", jobs, run);
    const int is_held = beneath_hold(jobs, NULL) == 0;
    FILE *f = is_held ? beneath_fopen(path, "re") : NULL;

    *ret = (struct submitted){0};
    if (f != NULL && fgets(ret->id, sizeof(ret->id), f) == NULL)
        ret->id[0] = '\0';
    if (f != NULL)
        (void)fclose(f);
    if (is_held)
        beneath_release(jobs);
    free(path);
    free(jobs);
    ret->id[strspn(ret->id, "0123456789_")] = '\0';
    if (ret->id[0] == '\0')
        return 0;
    slurm_look(ret->id, ret->state, ret->reason);
    return 1;
}

int submitted_find_of(struct submitted *ret, const char *path)
{
    const char *run;
    char *runs_dir = part(path, &run);
    const int found = runs_dir != NULL && submitted_find(ret, runs_dir, run);

    free(runs_dir);
    return found;
}

void submitted_json(const struct submitted *s, struct json *j)
{
    json_put_object(j, "job");
    json_put_str(j, "id", s->id);
    json_put_str(j, "state", s->state);
    json_put_str(j, "reason", *s->reason != '\0' ? s->reason : NULL);
    json_close(j);
}

int submitted_is_live(const struct submitted *s)
{
    static const char *const live[] = {"PENDING",      "RUNNING",   "COMPLETING",
                                       "CONFIGURING",  "SUSPENDED", "REQUEUED",
                                       "REQUEUE_HOLD", "STOPPED",   NULL};

    return text_find(live, s->state) >= 0;
}

int submitted_is_unknown(const struct submitted *s)
{
    return strcmp(s->state, "unknown") == 0;
}

int submitted_write(const char *runs_dir, const char *run, const char *id,
                    struct err *err)
{
    char *folder = submitted_folder(runs_dir, run);
    char *path = xasprintf("%s/job", folder), *text = xasprintf("%s\n", id);
    int rc = tree_make(folder, err);

    if (rc == 0)
        rc = atomic_file_write(path, text, strlen(text), 1, err);
    free(text);
    free(path);
    free(folder);
    return rc;
}
