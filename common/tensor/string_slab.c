#include "common/tensor/string_slab.h"

#include "common/mem/xmalloc.h"

#include <string.h>

static size_t room_of(size_t n)
{
    return STRING_SLAB_BYTES + n * STRING_SLAB_EACH;
}

int block_value_bytes(enum dtype dtype, int64_t n, size_t *ret)
{
    if (dtype != DT_STRING)
        return n >= 0 && mem_mul((size_t)n, dtype_size(dtype), ret);
    return n >= 0 && mem_mul((size_t)n, sizeof(uint32_t) + STRING_SLAB_EACH, ret) &&
           mem_add(*ret, STRING_SLAB_BYTES, ret);
}

int string_slab_put(void *slab, const struct tensor *strings, struct err *err)
{
    const size_t n = (size_t)tensor_elements(strings), room = room_of(n);
    const struct tensor_string *s = strings->data;
    char *lengths = slab, *at = lengths + n * sizeof(uint32_t);
    size_t total = 0;

    for (size_t i = 0; i < n; i++)
        if (__builtin_add_overflow(total, s[i].len_bytes, &total) || total > room)
            return err_set(err, ERR_LIMIT,
                           "its strings are too long: a variable of %zu has room for %zu "
                           "bytes",
                           n, room);
    memset(at, 0, room);
    for (size_t i = 0; i < n; i++) {
        const uint32_t len = (uint32_t)s[i].len_bytes;

        memcpy(lengths + i * sizeof(len), &len, sizeof(len));
        if (len > 0)
            memcpy(at, s[i].bytes, len);
        at += len;
    }
    return 0;
}

int string_slab_get(const void *slab, const struct shape *shape, struct tensor *ret,
                    struct err *err)
{
    const size_t n = (size_t)shape_elements(shape);
    const char *lengths = slab, *at = lengths + n * sizeof(uint32_t);
    size_t left = room_of(n);
    struct tensor_string *s;
    int rc = tensor_alloc(ret, DT_STRING, *shape, err);

    if (rc != 0)
        return rc;
    s = ret->data;
    for (size_t i = 0; i < n; i++) {
        uint32_t len;

        memcpy(&len, lengths + i * sizeof(len), sizeof(len));
        if (len > left) {
            tensor_free(ret);
            return err_set(err, ERR_FORMAT, "its strings are damaged");
        }
        if (len > 0)
            s[i] = (struct tensor_string){memcpy(xmalloc(len), at, len), len};
        at += len;
        left -= len;
    }
    return 0;
}
