/* unhurried.c - loaded into `brood` (LD_PRELOAD) by tests of a run that goes on until they have
 * looked at it: such a run waits a moment wherever it waits for events anyway, and leaves the
 * processors to the others. What it computes is the same.
 *
 * BROOD_UNHURRIED: the microseconds of each of these waits. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>

static void *after_pause(const char *name)
{
    const char *text = getenv("BROOD_UNHURRIED");
    long us = text ? strtol(text, NULL, 10) : 0;
    if (us > 0)
        nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
    return dlsym(RTLD_NEXT, name);
}

int epoll_wait(int fd, struct epoll_event *events, int n, int timeout_ms)
{
    int (*next)(int, struct epoll_event *, int, int);
    *(void **)&next = after_pause("epoll_wait");
    return next(fd, events, n, timeout_ms);
}

int epoll_pwait(int fd, struct epoll_event *events, int n, int timeout_ms,
                const sigset_t *mask)
{
    int (*next)(int, struct epoll_event *, int, int, const sigset_t *);
    *(void **)&next = after_pause("epoll_pwait");
    return next(fd, events, n, timeout_ms, mask);
}
