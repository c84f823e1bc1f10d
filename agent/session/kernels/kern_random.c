/* Random numbers: pure functions of the operation's key, the run's counter and the
 * element. */
#include "agent/session/kernels/kernel.h"

#include <math.h>
#include <stdio.h>

int kern_random_uniform(const struct kernel_args *a)
{
    size_t n = (size_t)tensor_elements(a->out[0]);

    if (a->out[0]->dtype == DT_FLOAT)
        rng_uniform_f32(a->key, a->counter, 0, a->out[0]->data, n);
    else
        rng_uniform_f64(a->key, a->counter, 0, a->out[0]->data, n);
    return 0;
}

int kern_random_normal(const struct kernel_args *a)
{
    size_t n = (size_t)tensor_elements(a->out[0]);

    if (a->out[0]->dtype == DT_FLOAT)
        rng_normal_f32(a->key, a->counter, 0, a->out[0]->data, n);
    else
        rng_normal_f64(a->key, a->counter, 0, a->out[0]->data, n);
    return 0;
}

/* Normal numbers within two standard deviations. An element outside is drawn again; each
 * try has its own key, derived from the operation's. */
int kern_truncated_normal(const struct kernel_args *a)
{
    int64_t n = tensor_elements(a->out[0]);
    int single = a->out[0]->dtype == DT_FLOAT;
    int rc = kern_random_normal(a);
    char label[32];

    for (int64_t i = 0; rc == 0 && i < n; i++) {
        float *f = tensor_f32(a->out[0]) + i;
        double *d = (double *)a->out[0]->data + i;
        for (unsigned try = 1; fabs(single ? (double)*f : *d) > 2.0; try++) {
            (void)snprintf(label, sizeof(label), "try %u", try);
            struct rng_key key = rng_key_derive(a->key, label);
            if (single)
                rng_normal_f32(key, a->counter, (uint64_t)i, f, 1);
            else
                rng_normal_f64(key, a->counter, (uint64_t)i, d, 1);
        }
    }
    return rc;
}

int kern_random_uniform_int(const struct kernel_args *a)
{
    int64_t low = tensor_int(a->in[1], 0), high = tensor_int(a->in[2], 0);

    if (low >= high)
        return err_set(a->err, ERR_ARG, "%s: no integers in [%lld, %lld)",
                       operation_name(a->op), (long long)low, (long long)high);
    int64_t n = tensor_elements(a->out[0]);
    for (int64_t i = 0; i < n; i++) {
        uint64_t v;
        rng_below(a->key, a->counter, (uint64_t)i, (uint64_t)high - (uint64_t)low, &v, 1);
        tensor_set_int(a->out[0], i, (int64_t)((uint64_t)low + v));
    }
    return 0;
}

int kernel_draws(kernel_fn fn)
{
    return fn == kern_random_uniform || fn == kern_random_normal ||
           fn == kern_truncated_normal || fn == kern_random_uniform_int;
}
