#include "supervisor/rollout/tensor_check.h"

#include <math.h>
#include <string.h>

int tensor_expect(const struct tensor *t, const char *what, enum dtype dtype,
                  const struct shape *shape, struct err *err)
{
    if (t->dtype == dtype && shape_equal(&t->shape, shape))
        return 0;
    return err_set(err, ERR_PROTOCOL, "%s: %s %s expected, got %s %s", what,
                   dtype_name(dtype), shape_text(shape), dtype_name(t->dtype),
                   shape_text(&t->shape));
}

static float float_at(const struct tensor *t, size_t i)
{
    float v;

    memcpy(&v, (const char *)t->data + i * sizeof(v), sizeof(v));
    return v;
}

/* The exponent of a number that is not finite is all ones; without a way out, so that the
 * compiler may vectorise. */
static int all_finite(const struct tensor *t, size_t n)
{
    uint32_t bad = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, (const char *)t->data + i * sizeof(bits), sizeof(bits));
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return bad == 0;
}

int tensor_expect_finite(const struct tensor *t, const char *what, struct err *err)
{
    const size_t n = (size_t)tensor_elements(t);
    size_t i = 0;

    if (t->dtype != DT_FLOAT || all_finite(t, n))
        return 0;
    while (isfinite(float_at(t, i)))
        i++;
    return err_set(err, ERR_NONFINITE, "%s: %g at element %zu", what,
                   (double)float_at(t, i), i);
}
