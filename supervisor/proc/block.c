#include "supervisor/proc/block.h"

#include "common/err/check.h"
#include "common/msg/protocol.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

int block_init(struct block *b, const char *name, struct err *err)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    struct rlimit limit;
    char label[128];
    int rc;

    *b = BLOCK_NONE;
    (void)snprintf(label, sizeof(label), "brood-%s", name);
    b->fd = memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (b->fd < 0)
        return err_errno(err, "creating the variable block of %s", name);
    b->capacity_bytes = BLOCK_CAPACITY_BYTES;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < BLOCK_CAPACITY_BYTES)
        b->capacity_bytes =
            limit.rlim_cur - limit.rlim_cur % (uint64_t)sysconf(_SC_PAGESIZE);
    if (ftruncate(b->fd, (off_t)b->capacity_bytes) < 0 ||
        fcntl(b->fd, F_ADD_SEALS, seals) < 0) {
        rc = err_errno(err, "sealing the variable block of %s", name);
        block_done(b);
        return rc;
    }
    return 0;
}

static void block_unmap(struct block *b)
{
    if (b->map != NULL)
        (void)munmap(b->map, b->len_bytes);
    b->map = NULL;
    b->len_bytes = 0;
}

void block_done(struct block *b)
{
    block_unmap(b);
    if (b->fd >= 0)
        (void)close(b->fd);
    b->fd = -1;
}

static uint64_t max_bytes(const struct block *b)
{
    uint64_t half =
        (uint64_t)sysconf(_SC_PHYS_PAGES) / 2 * (uint64_t)sysconf(_SC_PAGESIZE);

    return half < b->capacity_bytes ? half : b->capacity_bytes;
}

int block_map(struct block *b, uint64_t len_bytes, struct err *err)
{
    void *map;

    CHECK(b->map == NULL);
    if (len_bytes == 0)
        return 0;
    if (len_bytes > max_bytes(b))
        return err_set(err, ERR_LIMIT,
                       "a variable block of %" PRIu64
                       " bytes was requested, at most %" PRIu64 " are possible here",
                       len_bytes, max_bytes(b));
    map = mmap(NULL, (size_t)len_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, 0);
    if (map == MAP_FAILED)
        return err_errno(err, "mapping a variable block of %" PRIu64 " bytes", len_bytes);
    b->map = map;
    b->len_bytes = (size_t)len_bytes;
    return 0;
}

int block_clear(struct block *b, struct err *err)
{
    block_unmap(b);
    if (fallocate(b->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                  (off_t)b->capacity_bytes) < 0)
        return err_errno(err, "clearing a variable block");
    return 0;
}
