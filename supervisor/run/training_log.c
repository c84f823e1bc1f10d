/* Somebody else has the experience log open for writing: what they leave is looked at as
 * soon as they close it, and not only before the next checkpoint. */
#include "supervisor/run/training_internal.h"

#include "common/err/check.h"
#include "common/io/beneath.h"
#include "common/log/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

/* The supervisor has the log open for writing all the time, the agents never. */
static void on_closed_by_others(uv_poll_t *poll, int status, int events)
{
    struct training *t = poll->data;
    char event[4096];

    (void)status;
    (void)events;
    while (read(t->log_watch_fd, event, sizeof(event)) > 0)
        ;
    if (t->stopping)
        return;
    log_warn("somebody had %s open for writing",
             run_dir_file(t->args->dir, "experience"));
    checkpointer_look(t->checkpointer);
}

/* A descriptor that tells when others close the log after writing, or -1. */
static int open_watch(struct training *t)
{
    const int log = beneath_open(run_dir_file(t->args->dir, "experience"), O_RDONLY, 0);
    const int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    char path[64];
    int failed;

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", log);
    failed = log < 0 || fd < 0 || inotify_add_watch(fd, path, IN_CLOSE_WRITE) < 0;
    if (log >= 0)
        (void)close(log);
    if (failed && fd >= 0)
        (void)close(fd);
    return failed ? -1 : fd;
}

/* Where the system has no watch to spare, the checkpoints look all the same. */
void training_watch_log(struct training *t)
{
    const int fd = open_watch(t);

    t->log_watch_fd = fd;
    if (fd < 0) {
        log_debug("the experience log is not watched: %m");
        return;
    }
    CHECK(uv_poll_init(&t->loop, &t->log_watch, fd) == 0);
    t->log_watch.data = t;
    CHECK(uv_poll_start(&t->log_watch, UV_READABLE, on_closed_by_others) == 0);
}

static void on_unwatched(uv_handle_t *handle)
{
    struct training *t = handle->data;

    (void)close(t->log_watch_fd);
}

void training_unwatch_log(struct training *t)
{
    if (t->log_watch_fd >= 0)
        uv_close((uv_handle_t *)&t->log_watch, on_unwatched);
}
