#include "supervisor/rollout/tensor_check.h"

#include <math.h>

int tensor_expect(const struct tensor *t, const char *what, enum dtype dtype,
                  const struct shape *shape, struct err *err)
{
    if (t->dtype == dtype && shape_equal(&t->shape, shape))
        return 0;
    return err_set(err, ERR_PROTOCOL, "%s: %s %s expected, got %s %s", what,
                   dtype_name(dtype), shape_text(shape), dtype_name(t->dtype),
                   shape_text(&t->shape));
}

int tensor_expect_finite(const struct tensor *t, const char *what, struct err *err)
{
    const size_t n = (size_t)tensor_elements(t);
    const float *x = tensor_f32(t);
    size_t i = 0;

    if (t->dtype != DT_FLOAT || tensor_finite_f32(x, n))
        return 0;
    while (isfinite(x[i]))
        i++;
    return err_set(err, ERR_NONFINITE, "%s: %g at element %zu", what, (double)x[i], i);
}
