#include "common/io/tree.h"
#include "common/mem/xmalloc.h"
#include "supervisor/metrics/sinks.h"

#include <stdlib.h>

struct event_folder {
    char *dir, *host;
    struct event_sink *sink; /* NULL: nothing was written yet */
    int64_t newest;          /* the newest step that is written; -1: none */
};

struct event_folder *event_folder_new(const char *dir, const char *host)
{
    struct event_folder *f = xcalloc(1, sizeof(*f));

    f->dir = xstrdup(dir);
    f->host = xstrdup(host);
    f->newest = -1;
    return f;
}

int event_folder_resume(struct event_folder *f, uint64_t step, double wall_time,
                        struct err *err)
{
    int rc = tree_look(f->dir, err);

    if (rc != 1)
        return rc;
    rc = event_sink_resume(&f->sink, f->dir, step, wall_time, f->host, err);
    if (rc == 0)
        f->newest = (int64_t)step;
    return rc;
}

int event_folder_begin(struct event_folder *f, uint64_t step, double wall_time,
                       struct event_sink **ret, struct err *err)
{
    int rc = 0;

    *ret = NULL;
    if ((int64_t)step <= f->newest)
        return 0;
    if (f->sink == NULL) {
        rc = tree_make(f->dir, err);
        if (rc == 0)
            rc = event_sink_open(&f->sink, f->dir, wall_time, f->host, err);
    }
    if (rc < 0)
        return rc;
    f->newest = (int64_t)step;
    *ret = f->sink;
    return 0;
}

void event_folder_free(struct event_folder *f)
{
    if (f == NULL)
        return;
    event_sink_close(f->sink);
    free(f->dir);
    free(f->host);
    free(f);
}
