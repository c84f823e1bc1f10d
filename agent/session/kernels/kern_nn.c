#include "agent/session/kernels/kernel.h"
#include "agent/session/kernels/loops.h"

#include <math.h>

/* Divides a tensor into rows along its last axis, which the functions below normalise. */
static void rows_of(const struct tensor *t, int64_t *ret_rows, int64_t *ret_n)
{
    *ret_n = t->shape.rank > 0 ? t->shape.dim[t->shape.rank - 1] : 1;
    *ret_rows = *ret_n > 0 ? tensor_elements(t) / *ret_n : 0;
}

static double log_sum_exp(const double *x, int64_t n, double *ret_top)
{
    double top = x[0], sum = 0;

    for (int64_t i = 1; i < n; i++)
        top = x[i] > top ? x[i] : top;
    for (int64_t i = 0; i < n; i++)
        sum += exp(x[i] - top);
    *ret_top = top;
    return top + log(sum);
}

static int softmax(const struct kernel_args *a, int logarithm)
{
    const struct kern_loops *loops = kern_loops();
    int64_t rows, n;

    rows_of(a->in[0], &rows, &n);
    if (rows == 0)
        return 0;
    if (a->in[0]->dtype == DT_FLOAT) {
        (logarithm ? loops->log_softmax : loops->softmax)(a->out[0]->data, a->in[0]->data,
                                                          (size_t)rows, (size_t)n);
        return 0;
    }
    const double *x = a->in[0]->data;
    double *y = a->out[0]->data, top;
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        double norm = log_sum_exp(x, n, &top);

        for (int64_t i = 0; i < n; i++)
            y[i] = logarithm ? x[i] - norm : exp(x[i] - norm);
    }
    return 0;
}

int kern_softmax(const struct kernel_args *a)
{
    return softmax(a, 0);
}

int kern_log_softmax(const struct kernel_args *a)
{
    return softmax(a, 1);
}

/* Per row: loss = -sum(labels log softmax(logits)), and its gradient with respect to the
 * logits, softmax(logits) - labels. in: logits, labels (rows, n); out: loss (rows),
 * backprop (rows, n). */
int kern_softmax_xent(const struct kernel_args *a)
{
    int64_t rows, n;

    rows_of(a->in[0], &rows, &n);
    if (a->in[0]->dtype == DT_FLOAT) {
        const float *labels = a->in[1]->data;
        float *loss = a->out[0]->data, *back = a->out[1]->data;

        kern_loops()->log_softmax(back, a->in[0]->data, (size_t)rows, (size_t)n);
        for (int64_t r = 0; r < rows; r++) {
            loss[r] = 0;
            for (int64_t i = r * n; i < (r + 1) * n; i++)
                loss[r] -= labels[i] == 0 ? 0 : labels[i] * back[i];
        }
        kern_loop_find("Exp", DT_FLOAT)
            ->fn(back, back, NULL, NULL, (size_t)(rows * n), 0);
        for (int64_t i = 0; i < rows * n; i++)
            back[i] -= labels[i];
        return 0;
    }
    const double *x = a->in[0]->data, *labels = a->in[1]->data;
    double *loss = a->out[0]->data, *back = a->out[1]->data, top;
    for (int64_t r = 0; r < rows; r++) {
        double norm = log_sum_exp(x + r * n, n, &top);

        loss[r] = 0;
        for (int64_t i = r * n; i < (r + 1) * n; i++) {
            loss[r] -= labels[i] == 0 ? 0 : labels[i] * (x[i] - norm);
            back[i] = exp(x[i] - norm) - labels[i];
        }
    }
    return 0;
}

/* Like kern_softmax_xent, with a class index for each row instead of labels. */
int kern_sparse_softmax_xent(const struct kernel_args *a)
{
    int64_t rows, n;

    rows_of(a->in[0], &rows, &n);
    /* backprop holds log softmax(logits) until it is complete */
    struct kernel_args logs = *a;
    logs.out = a->out + 1;
    (void)softmax(&logs, 1);
    for (int64_t r = 0; r < rows; r++) {
        int64_t label = tensor_int(a->in[1], r);

        if (label < 0 || label >= n)
            return err_set(a->err, ERR_ARG, "%s: label %lld is not in [0, %lld)",
                           operation_name(a->op), (long long)label, (long long)n);
        if (a->in[0]->dtype == DT_FLOAT) {
            float *back = tensor_f32(a->out[1]) + r * n;

            tensor_f32(a->out[0])[r] = -back[label];
            kern_loop_find("Exp", DT_FLOAT)->fn(back, back, NULL, NULL, (size_t)n, 0);
            back[label] -= 1.0f;
        } else {
            double *back = (double *)a->out[1]->data + r * n;

            ((double *)a->out[0]->data)[r] = -back[label];
            for (int64_t i = 0; i < n; i++)
                back[i] = exp(back[i]) - (i == label);
        }
    }
    return 0;
}
