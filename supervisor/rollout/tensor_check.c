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

static float float_at(const struct tensor *t, int64_t i)
{
    float v;

    memcpy(&v, (const char *)t->data + (size_t)i * sizeof(v), sizeof(v));
    return v;
}

int tensor_expect_finite(const struct tensor *t, const char *what, struct err *err)
{
    int64_t n = tensor_elements(t);

    if (t->dtype != DT_FLOAT)
        return 0;
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(float_at(t, i)))
            return err_set(err, ERR_NONFINITE, "%s: %g at element %lld", what,
                           (double)float_at(t, i), (long long)i);
    return 0;
}
