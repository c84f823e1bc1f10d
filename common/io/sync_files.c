#include "common/io/sync_files.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { N_THREADS = 32, N_QUEUED = 64, STACK_BYTES = 256 << 10 };

struct sync_files {
    pthread_mutex_t lock; /* of all that follows, once there are threads */
    pthread_cond_t added, synced;
    int fd[N_QUEUED];
    int n_queued, n_busy;
    int is_ending;
    int failure; /* -errno; 0: none */
    pthread_t thread[N_THREADS];
    int n_threads;
};

struct sync_files *sync_files_new(void)
{
    struct sync_files *s = xcalloc(1, sizeof(*s));

    CHECK(pthread_mutex_init(&s->lock, NULL) == 0);
    CHECK(pthread_cond_init(&s->added, NULL) == 0);
    CHECK(pthread_cond_init(&s->synced, NULL) == 0);
    return s;
}

/* Returns 0 or -errno. */
static int sync_and_close(int fd)
{
    const int rc = fsync(fd) == 0 || errno == EINVAL ? 0 : -errno;

    (void)close(fd);
    return rc;
}

static void note_result(struct sync_files *s, int rc)
{
    if (s->failure == 0)
        s->failure = rc;
}

static void *sync_queued(void *ctx)
{
    struct sync_files *s = ctx;

    (void)pthread_mutex_lock(&s->lock);
    while (1) {
        int fd, rc;

        while (s->n_queued == 0 && !s->is_ending)
            (void)pthread_cond_wait(&s->added, &s->lock);
        if (s->n_queued == 0)
            break;
        fd = s->fd[--s->n_queued];
        s->n_busy++;
        (void)pthread_mutex_unlock(&s->lock);
        rc = sync_and_close(fd);
        (void)pthread_mutex_lock(&s->lock);
        note_result(s, rc);
        s->n_busy--;
        (void)pthread_cond_broadcast(&s->synced);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Starts as many threads as can be started. */
static void start_threads(struct sync_files *s)
{
    pthread_attr_t attr;

    CHECK(pthread_attr_init(&attr) == 0);
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    while (s->n_threads < N_THREADS &&
           pthread_create(&s->thread[s->n_threads], &attr, sync_queued, s) == 0)
        s->n_threads++;
    (void)pthread_attr_destroy(&attr);
}

void sync_files_add(struct sync_files *s, int fd)
{
    if (s->n_queued == N_QUEUED && s->n_threads == 0)
        start_threads(s);
    if (s->n_queued == N_QUEUED && s->n_threads == 0) {
        note_result(s, sync_and_close(fd));
        return;
    }
    (void)pthread_mutex_lock(&s->lock);
    while (s->n_queued == N_QUEUED)
        (void)pthread_cond_wait(&s->synced, &s->lock);
    s->fd[s->n_queued++] = fd;
    (void)pthread_cond_signal(&s->added);
    (void)pthread_mutex_unlock(&s->lock);
}

int sync_files_wait(struct sync_files *s)
{
    int rc;

    for (int i = 0; i < s->n_queued && s->n_threads == 0; i++)
        note_result(s, sync_and_close(s->fd[i]));
    if (s->n_threads == 0)
        s->n_queued = 0;
    (void)pthread_mutex_lock(&s->lock);
    while (s->n_queued + s->n_busy > 0)
        (void)pthread_cond_wait(&s->synced, &s->lock);
    rc = s->failure;
    (void)pthread_mutex_unlock(&s->lock);
    return rc;
}

void sync_files_free(struct sync_files *s)
{
    if (s == NULL)
        return;
    (void)sync_files_wait(s);
    (void)pthread_mutex_lock(&s->lock);
    s->is_ending = 1;
    (void)pthread_cond_broadcast(&s->added);
    (void)pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < s->n_threads; i++)
        CHECK(pthread_join(s->thread[i], NULL) == 0);
    (void)pthread_cond_destroy(&s->synced);
    (void)pthread_cond_destroy(&s->added);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}
