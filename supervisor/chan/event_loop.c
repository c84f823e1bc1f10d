#include "supervisor/chan/event_loop.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    PIPES = 4,   /* a process's first loop takes two, and some other descriptors */
    THREADS = 4, /* of libuv's pool, if nobody asks for others */
    MOST_THREADS = 1024,
};

int event_loop_open(uv_loop_t *loop, struct err *err)
{
    int fd[PIPES][2], n = 0, rc = 0;

    /* libuv aborts if its first pipes cannot be had */
    while (n < PIPES && pipe2(fd[n], O_CLOEXEC) == 0)
        n++;
    if (n < PIPES)
        rc = -errno;
    while (n-- > 0) {
        (void)close(fd[n][0]);
        (void)close(fd[n][1]);
    }
    if (rc == 0)
        rc = uv_loop_init(loop);
    return rc < 0 ? err_set(err, rc, "starting the event loop: %s%s", uv_strerror(rc),
                            rc == UV_EMFILE ? " (ulimit -n)" : "")
                  : 0;
}

static size_t pool_size(void)
{
    const char *text = getenv("UV_THREADPOOL_SIZE");
    const int n = text != NULL ? atoi(text) : THREADS;

    return n < 1 ? 1 : n < MOST_THREADS ? (size_t)n : MOST_THREADS;
}

static void *wait_for(void *mutex)
{
    (void)pthread_mutex_lock(mutex);
    (void)pthread_mutex_unlock(mutex);
    return NULL;
}

/* Whether so many threads can be there at once. Returns an errno, or 0. */
static int try_threads(size_t n)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread[MOST_THREADS];
    size_t n_there = 0;
    int rc = 0;

    (void)pthread_mutex_lock(&mutex);
    while (n_there < n &&
           (rc = pthread_create(&thread[n_there], NULL, wait_for, &mutex)) == 0)
        n_there++;
    (void)pthread_mutex_unlock(&mutex);
    for (size_t i = 0; i < n_there; i++)
        (void)pthread_join(thread[i], NULL);
    return rc;
}

static void work(uv_work_t *request)
{
    (void)request;
}

int event_loop_start_threads(uv_loop_t *loop, struct err *err)
{
    const int rc = try_threads(pool_size());
    uv_work_t request;

    if (rc != 0)
        return err_set(err, -rc, "starting %zu threads: %s (ulimit -u)", pool_size(),
                       uv_strerror(-rc));
    (void)uv_queue_work(loop, &request, work, NULL);
    (void)uv_run(loop, UV_RUN_DEFAULT);
    return 0;
}
