/* Somebody else has the experience log open for writing: what they leave is looked at as
 * soon as they close it, and not only before the next checkpoint. */
#include "supervisor/run/training_internal.h"

#include "common/err/check.h"
#include "common/log/log.h"

#include <errno.h>
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

/* Where the system has no watch to spare, the checkpoints look all the same. */
void training_watch_log(struct training *t)
{
    const int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

    t->log_watch_fd = fd;
    if (fd >= 0 && inotify_add_watch(fd, run_dir_file(t->args->dir, "experience"),
                                     IN_CLOSE_WRITE | IN_DONT_FOLLOW) < 0) {
        (void)close(fd);
        t->log_watch_fd = -1;
    }
    if (t->log_watch_fd < 0) {
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
