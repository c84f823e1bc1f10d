#include "supervisor/node/lookup.h"

#include "common/mem/xmalloc.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum { MOST_THREADS = 16 };

struct name {
    char *text;
    int is_done, result; /* of getaddrinfo */
    struct addrinfo *list;
};

/* What the caller and its threads share; the last of them frees it. */
struct job {
    pthread_mutex_t lock;
    pthread_cond_t progress;
    size_t n, next, n_done;
    unsigned n_users;
    int is_given_up; /* the caller does not wait any more */
    struct name names[];
};

static struct job *job_new(const struct lookup *l, size_t n)
{
    struct job *j = xcalloc(1, sizeof(*j) + n * sizeof(j->names[0]));
    pthread_condattr_t attr;

    j->n = n;
    j->n_users = 1;
    for (size_t i = 0; i < n; i++)
        j->names[i].text = xstrdup(l[i].name);
    (void)pthread_mutex_init(&j->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&j->progress, &attr);
    (void)pthread_condattr_destroy(&attr);
    return j;
}

/* Unlocks. */
static void leave(struct job *j)
{
    const int is_last = --j->n_users == 0;

    (void)pthread_mutex_unlock(&j->lock);
    if (!is_last)
        return;
    for (size_t i = 0; i < j->n; i++) {
        free(j->names[i].text);
        if (j->names[i].list != NULL)
            freeaddrinfo(j->names[i].list);
    }
    (void)pthread_cond_destroy(&j->progress);
    (void)pthread_mutex_destroy(&j->lock);
    free(j);
}

static void *look_up(void *ctx)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM};
    struct job *j = ctx;

    (void)pthread_mutex_lock(&j->lock);
    while (!j->is_given_up && j->next < j->n) {
        struct name *name = &j->names[j->next++];
        struct addrinfo *list = NULL;
        int result;

        (void)pthread_mutex_unlock(&j->lock);
        result = getaddrinfo(name->text, "9", &hints, &list);
        (void)pthread_mutex_lock(&j->lock);
        *name = (struct name){name->text, 1, result, result == 0 ? list : NULL};
        j->n_done++;
        (void)pthread_cond_signal(&j->progress);
    }
    leave(j);
    return NULL;
}

/* Called with the lock held. Returns an errno if not even one could be started, or 0. */
static int start_threads(struct job *j)
{
    pthread_attr_t attr;
    sigset_t all, before;
    pthread_t thread;
    int rc = 0;

    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)sigfillset(&all); /* they take none of the process's signals */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    while (rc == 0 && j->n_users <= j->n && j->n_users <= MOST_THREADS)
        if ((rc = pthread_create(&thread, &attr, look_up, j)) == 0)
            j->n_users++;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    return j->n_users > 1 ? 0 : rc;
}

static void await(struct job *j, int timeout_ms)
{
    struct timespec until;
    int rc = 0;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    while (rc == 0 && j->n_done < j->n)
        rc = pthread_cond_timedwait(&j->progress, &j->lock, &until);
}

void lookup_all(struct lookup *l, size_t n, int timeout_ms)
{
    struct job *j;
    int rc;

    if (n == 0)
        return;
    j = job_new(l, n);
    (void)pthread_mutex_lock(&j->lock);
    rc = start_threads(j);
    if (rc == 0)
        await(j, timeout_ms);
    j->is_given_up = 1;
    for (size_t i = 0; i < n; i++) {
        struct name *from = &j->names[i];

        l[i].list = from->list;
        from->list = NULL;
        if (rc != 0)
            (void)err_set(&l[i].err, -rc, "%s: starting a thread: %s", l[i].name,
                          err_text(-rc));
        else if (!from->is_done)
            (void)err_set(&l[i].err, ERR_TIMEOUT,
                          "%s: no name server has answered in time", l[i].name);
        else if (from->result != 0)
            (void)err_set(&l[i].err, ERR_NOT_FOUND, "%s: %s", l[i].name,
                          gai_strerror(from->result));
    }
    leave(j);
}

void lookup_done(struct lookup *l, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (l[i].list != NULL)
            freeaddrinfo(l[i].list);
}
