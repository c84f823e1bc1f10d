#include "supervisor/rollout/tensor_check.h"

#include <math.h>

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
