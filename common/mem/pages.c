#include "common/mem/pages.h"

#include <sys/mman.h>

void *pages_map(size_t len_bytes)
{
    void *p =
        mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    (void)madvise(p, len_bytes, MADV_DONTFORK);
    return p;
}

void pages_unmap(void *p, size_t len_bytes)
{
    if (p != NULL)
        (void)munmap(p, len_bytes);
}
