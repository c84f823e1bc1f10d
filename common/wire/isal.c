#include "common/wire/isal.h"

#include "common/log/log.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#define LIBRARY "libisal.so.2"

static struct isal loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A program without shared libraries has ISA-L in itself. */
#ifdef BROOD_STATIC
static void load(void)
{
    loaded = (struct isal){crc32_iscsi, crc32_gzip_refl};
}
#else
static void *isal_find(void *library, const char *name)
{
    void *function = library != NULL ? dlsym(library, name) : NULL;

    if (function == NULL) {
        log_error("%s: install Debian's libisal2", dlerror());
        exit(EXIT_FAILURE);
    }
    return function;
}

static void load(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

    loaded.crc32_iscsi =
        (__typeof__(loaded.crc32_iscsi))(uintptr_t)isal_find(library, "crc32_iscsi");
    loaded.crc32_gzip_refl = (__typeof__(loaded.crc32_gzip_refl))(uintptr_t)isal_find(
        library, "crc32_gzip_refl");
}
#endif

const struct isal *isal(void)
{
    (void)pthread_once(&once, load);
    return &loaded;
}
