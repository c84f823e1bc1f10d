#include "common/mem/room.h"

#include "common/mem/size_text.h"

#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* Returns 0 if there is no limit. */
static uint64_t limit_of(__rlimit_resource_t which)
{
    struct rlimit r;

    return getrlimit(which, &r) < 0 || r.rlim_cur == RLIM_INFINITY ? 0 : r.rlim_cur;
}

int room_fail(uint64_t bytes, const char *what, struct err *err)
{
    const uint64_t space = limit_of(RLIMIT_AS), data = limit_of(RLIMIT_DATA);
    char wanted[SIZE_TEXT_BYTES], limit[SIZE_TEXT_BYTES];

    (void)size_text(bytes, wanted);
    if (space > 0)
        return err_set(err, ERR_NOMEM,
                       "no memory: %s takes %s of address space, which is limited to %s "
                       "here (ulimit -v)",
                       what, wanted, size_text(space, limit));
    if (data > 0 && data < bytes)
        return err_set(err, ERR_NOMEM,
                       "no memory: %s takes %s, which is limited to %s here (ulimit -d, "
                       "memory_limit)",
                       what, size_text_limit(bytes, wanted),
                       size_text_limit(data, limit));
    return err_set(err, ERR_NOMEM, "no memory: %s takes %s", what, wanted);
}

int room_check(uint64_t bytes, const char *what, struct err *err)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED)
        return room_fail(bytes, what, err);
    (void)munmap(p, bytes);
    return 0;
}
