#include "supervisor/proc/descriptors.h"

#include <sys/resource.h>

enum { ENOUGH = 65536 };

void descriptors_raise(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= ENOUGH)
        return;
    limit.rlim_cur = limit.rlim_max < ENOUGH ? limit.rlim_max : ENOUGH;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

int descriptors_reserve(size_t n_agents, struct err *err)
{
    const rlim_t wanted = n_agents * DESCRIPTORS_PER_AGENT + DESCRIPTORS_OTHERS;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return err_errno(err, "getrlimit");
    if (limit.rlim_max < wanted)
        return err_set(err, ERR_LIMIT,
                       "%zu agents take up to %llu open files, at most %llu are allowed "
                       "here: raise the limit (ulimit -Hn)",
                       n_agents, (unsigned long long)wanted,
                       (unsigned long long)limit.rlim_max);
    descriptors_raise();
    return 0;
}
