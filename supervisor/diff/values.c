#include "supervisor/diff/values.h"

#include "common/wire/crc32c.h"

#include <math.h>
#include <string.h>

/* "<process>/hyperparameters/<key>" */
static int is_setting(const char *name)
{
    static const char folder[] = "/hyperparameters/";
    const char *slash = strchr(name, '/');

    return slash != NULL && strncmp(slash, folder, sizeof(folder) - 1) == 0;
}

static size_t bytes_of(const struct block_variable *v)
{
    return (size_t)shape_elements(&v->shape) * dtype_size(v->dtype);
}

uint32_t values_sum(const struct block_table *t, const void *block)
{
    uint32_t crc = crc32c(NULL, 0);

    for (size_t i = 0; i < t->n; i++) {
        const struct block_variable *v = &t->variables[i];

        if (!is_setting(v->name))
            crc = crc32c_extend(crc, (const uint8_t *)block + v->offset, bytes_of(v));
    }
    return crc;
}

/* NaN: the type has no number that a double can hold. */
static double number(enum dtype dtype, const uint8_t *at)
{
    union {
        float f32;
        double f64;
        int32_t i32;
        int64_t i64;
        uint32_t u32;
        uint64_t u64;
        uint8_t u8;
    } x;

    memcpy(&x, at, dtype_size(dtype) <= sizeof(x) ? dtype_size(dtype) : sizeof(x));
    switch (dtype) {
    case DT_FLOAT:
        return (double)x.f32;
    case DT_DOUBLE:
        return x.f64;
    case DT_INT32:
        return x.i32;
    case DT_INT64:
        return (double)x.i64;
    case DT_UINT32:
        return x.u32;
    case DT_UINT64:
        return (double)x.u64;
    case DT_UINT8:
    case DT_BOOL:
        return x.u8;
    default:
        return NAN;
    }
}

static void find_element(struct values_part *ret, const struct block_variable *v,
                         const uint8_t *here, const uint8_t *there)
{
    const size_t size = dtype_size(v->dtype), n = bytes_of(v) / size;
    int is_found = 0;

    ret->largest = NAN;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *a = here + i * size, *b = there + i * size;

        if (memcmp(a, b, size) == 0)
            continue;
        ret->largest =
            fmax(ret->largest, fabs(number(v->dtype, a) - number(v->dtype, b)));
        if (is_found)
            continue;
        is_found = 1;
        ret->element = i;
        ret->here = number(v->dtype, a);
        ret->there = number(v->dtype, b);
    }
}

int values_compare(struct values_part *ret, const struct block_table *t, const void *here,
                   const void *there)
{
    *ret = (struct values_part){0};
    for (size_t i = 0; i < t->n; i++) {
        const struct block_variable *v = &t->variables[i];
        const uint8_t *a = (const uint8_t *)here + v->offset,
                      *b = (const uint8_t *)there + v->offset;

        if (is_setting(v->name) || memcmp(a, b, bytes_of(v)) == 0)
            continue;
        if (ret->n++ == 0) {
            ret->variable = i;
            find_element(ret, v, a, b);
        }
    }
    return ret->n > 0;
}
