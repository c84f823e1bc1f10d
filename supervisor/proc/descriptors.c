#include "supervisor/proc/descriptors.h"

#include <errno.h>
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
        return err_set(
            err, -EMFILE,
            "at most %llu open files are allowed here, and a run may need %llu: "
            "%d for each of %zu process%s, %d for itself; raise the hard limit "
            "(ulimit -Hn)",
            (unsigned long long)limit.rlim_max, (unsigned long long)wanted,
            DESCRIPTORS_PER_AGENT, n_agents, n_agents == 1 ? "" : "es",
            DESCRIPTORS_OTHERS);
    descriptors_raise();
    return 0;
}
