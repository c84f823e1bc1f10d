/* bins.c - numbers sorted into bins. */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <string.h>

/* Counts the values in bins of equal width; those outside of the range go to the bins at its
 * ends. */
static int kern_histogram(const struct kernel_args *a)
{
    const struct tensor *x = a->in[0], *counts = a->out[0];
    const int64_t bins = tensor_elements(counts);
    const double low = tensor_number(a->in[1], 0), high = tensor_number(a->in[1], 1);
    const double width = (high - low) / (double)bins;

    if (!(low < high))
        return err_set(a->err, ERR_ARG, "%s: a range of [%g, %g]", operation_name(a->op),
                       low, high);
    clear(counts);
    for (int64_t i = 0; i < tensor_elements(x); i++) {
        const double at = (tensor_number(x, i) - low) / width;
        const int64_t bin = at >= (double)bins ? bins - 1 : at > 0 ? (int64_t)at : 0;

        tensor_set_int(counts, bin, tensor_int(counts, bin) + 1);
    }
    return 0;
}

/* How many boundaries, which are in ascending order, are not above each value. */
static int kern_bucketize(const struct kernel_args *a)
{
    const struct attr *limits = operation_attr(a->op, "boundaries");

    for (int64_t i = 0; i < tensor_elements(a->in[0]); i++) {
        const double x = tensor_number(a->in[0], i);
        size_t low = 0, high = limits->n;

        while (low < high) {
            const size_t middle = low + (high - low) / 2;

            if (x < (double)limits->list_f[middle])
                high = middle;
            else
                low = middle + 1;
        }
        ((int32_t *)a->out[0]->data)[i] = (int32_t)low;
    }
    return 0;
}

static int histogram_shape(const struct shape_args *args)
{
    const int64_t n = dim_of(&args->in[1], 0);
    int64_t bins = -1;

    if (n >= 0 && n != 2)
        return err_set(args->err, ERR_SHAPE, "a range of %lld numbers", (long long)n);
    if (value_ints(args, 2, &bins, 1) == 1 && bins < 1)
        return err_set(args->err, ERR_ARG, "%lld bins, expected 1 or more",
                       (long long)bins);
    args->out[0] = SHAPE(bins);
    return 0;
}

static int bucketize_shape(const struct shape_args *args)
{
    const struct attr *limits = operation_attr(args->op, "boundaries");

    for (size_t i = 1; i < limits->n; i++)
        if (limits->list_f[i] < limits->list_f[i - 1])
            return err_set(args->err, ERR_ARG, "boundaries must be in ascending order");
    args->out[0] = args->in[0];
    return 0;
}

static const struct op_def rows[] = {
    {"HistogramFixedWidth", OP_NO_GRADIENT, histogram_shape, NULL, CALL(kern_histogram),
     "values:T, value_range:T, nbins:int32 -> out:dtype; T:number_type, "
     "dtype:index_type=int32",
     .ranks = "?10"},
    {"Bucketize", OP_NO_GRADIENT, bucketize_shape, NULL, CALL(kern_bucketize),
     "input:T -> output:int32; T:number_type, boundaries:list(float)"},
};

const struct op_family ops_of_bins = OP_FAMILY(rows);
