/* sets.c - elements that are equal: Unique and its kin, ListDiff; rows sorted into partitions.
 *
 * Two elements are equal as TensorFlow's maps compare them: -0.0 equals 0.0, and NaN equals
 * nothing. Gradients after python/ops/data_flow_grad.py of TensorFlow 1.13. */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- equal slices ---- */

/* The n slices of a tensor along one of its axes; slice i has the elements
 * (o * n + i) * inner + k for all o < outer, k < inner. */
struct slices {
    const struct tensor *x;
    int64_t outer, n, inner;
};

static struct slices slices_along(const struct tensor *x, int axis)
{
    return (struct slices){x, span(&x->shape, 0, axis), x->shape.dim[axis],
                           span(&x->shape, axis + 1, x->shape.rank)};
}

/* The elements of a vector. */
static struct slices slices_of(const struct tensor *x)
{
    return (struct slices){x, 1, tensor_elements(x), 1};
}

/* The words of an element: only complex128 has two. */
static size_t words_of(const struct tensor *x)
{
    return dtype_size(x->dtype) > sizeof(uint64_t) ? 2 : 1;
}

/* Bits that are the same for equal elements. *ret_same 0: it does not equal itself. */
static uint64_t element_bits(const struct tensor *x, int64_t i, size_t word,
                             int *ret_same)
{
    const size_t bytes = dtype_size(x->dtype) / words_of(x);
    uint64_t bits = 0;

    if (x->dtype == DT_FLOAT || x->dtype == DT_DOUBLE) {
        const double v = x->dtype == DT_FLOAT ? (double)((const float *)x->data)[i]
                                              : ((const double *)x->data)[i];

        *ret_same &= !isnan(v);
        if (v != 0)
            memcpy(&bits, &v, sizeof(v));
        return bits;
    }
    memcpy(&bits, (const char *)x->data + ((size_t)i * words_of(x) + word) * bytes,
           bytes);
    return bits;
}

static uint64_t mix(uint64_t h, uint64_t bits)
{
    h = (h ^ bits) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static uint64_t hash_element(const struct tensor *x, int64_t i, uint64_t h, int *ret_same)
{
    const struct tensor_string *s = x->data;

    if (x->dtype != DT_STRING) {
        for (size_t w = 0; w < words_of(x); w++)
            h = mix(h, element_bits(x, i, w, ret_same));
        return h;
    }
    h = mix(h, s[i].len_bytes);
    for (size_t k = 0; k < s[i].len_bytes; k++)
        h = mix(h, (unsigned char)s[i].bytes[k]);
    return h;
}

static uint64_t hash_slice(const struct slices *s, int64_t i, int *ret_same)
{
    uint64_t h = 0;

    for (int64_t o = 0; o < s->outer; o++)
        for (int64_t k = 0; k < s->inner; k++)
            h = hash_element(s->x, (o * s->n + i) * s->inner + k, h, ret_same);
    return h;
}

static int same_element(const struct tensor *x, int64_t i, const struct tensor *y,
                        int64_t j)
{
    const struct tensor_string *s = x->data, *t = y->data;
    int same = 1;

    if (x->dtype != DT_STRING) {
        for (size_t w = 0; w < words_of(x); w++)
            same &= element_bits(x, i, w, &same) == element_bits(y, j, w, &same);
        return same;
    }
    return s[i].len_bytes == t[j].len_bytes &&
           (s[i].len_bytes == 0 || memcmp(s[i].bytes, t[j].bytes, s[i].len_bytes) == 0);
}

static int same_slice(const struct slices *a, int64_t i, const struct slices *b,
                      int64_t j)
{
    for (int64_t o = 0; o < a->outer; o++)
        for (int64_t k = 0; k < a->inner; k++)
            if (!same_element(a->x, (o * a->n + i) * a->inner + k, b->x,
                              (o * b->n + j) * b->inner + k))
                return 0;
    return 1;
}

/* ---- a set of slices ---- */

struct set {
    struct slices of;
    uint64_t mask; /* number of places - 1 */
    int64_t *at;   /* [places] number of a slice + 1; 0: free */
};

/* 0, or ERR_NOMEM. set_done(). */
static int set_init(struct set *s, struct slices of, struct err *err)
{
    uint64_t places = 16;

    while (places < 2 * (uint64_t)of.n)
        places *= 2;
    *s = (struct set){of, places - 1, calloc(places, sizeof(*s->at))};
    return s->at != NULL ? 0
                         : err_set(err, ERR_NOMEM, "no memory to compare %lld elements",
                                   (long long)of.n);
}

static void set_done(struct set *s)
{
    free(s->at);
}

/* Returns the number of the slice of the set that equals slice i of x; -1: none. Adds i if
 * x is what the set is of. */
static int64_t set_find(struct set *s, const struct slices *x, int64_t i, int adds)
{
    int same = 1;
    uint64_t place = hash_slice(x, i, &same) & s->mask;

    if (!same)
        return -1;
    for (; s->at[place] != 0; place = (place + 1) & s->mask)
        if (same_slice(x, i, &s->of, s->at[place] - 1))
            return s->at[place] - 1;
    if (adds)
        s->at[place] = i + 1;
    return -1;
}

/* ---- Unique ---- */

/* The axis of input 1 (none: a vector's elements). Returns 0 if it is not known, or after an
 * error (*ret_rc). */
static int unique_axis(const struct shape_args *args, int *ret, int *ret_rc)
{
    const int rank = args->in[0].rank;
    int64_t axis = 0;
    int n;

    *ret_rc = 0;
    if (args->n_in == 1) {
        *ret = 0;
        return 1;
    }
    n = value_ints(args, 1, &axis, 1);
    if (args->value[1] != NULL && n < 0)
        *ret_rc = err_set(args->err, ERR_SHAPE, "more than one axis");
    else if (n == 0 && rank >= 0 && rank != 1)
        *ret_rc = err_set(args->err, ERR_SHAPE, "%s has no axis to compare along",
                          shape_text(&args->in[0]));
    else if (n >= 0 && rank >= 0)
        *ret_rc = wrap_axis(args, rank, &axis);
    *ret = (int)axis;
    return n >= 0 && rank >= 0 && *ret_rc == 0;
}

static int count_unique(const struct tensor *x, int axis, int64_t *ret, struct err *err)
{
    const struct slices all = slices_along(x, axis);
    struct set set;

    if (set_init(&set, all, err) != 0)
        return ERR_NOMEM;
    *ret = 0;
    for (int64_t i = 0; i < all.n; i++)
        *ret += set_find(&set, &all, i, 1) < 0;
    set_done(&set);
    return 0;
}

/* y: the different slices of x along the axis; idx: for each slice of x, which of them it
 * equals; count: how often each is there */
static int unique_shape(const struct shape_args *args)
{
    const struct tensor *x = args->is_planning ? args->value[0] : NULL;
    int64_t n = -1;
    int axis, rc;

    args->out[0] =
        args->in[0].rank >= 0 ? shape_of_rank(args->in[0].rank) : SHAPE_UNKNOWN;
    args->out[1] = SHAPE(-1);
    for (int i = 2; i < operation_n_outputs(args->op); i++)
        args->out[i] = SHAPE(-1);
    if (!unique_axis(args, &axis, &rc))
        return rc;
    args->out[1] = SHAPE(dim_of(&args->in[0], axis));
    if (args->in[0].rank < 0)
        return 0;
    args->out[0] = args->in[0];
    if (x != NULL && count_unique(x, axis, &n, args->err) != 0)
        return ERR_NOMEM;
    args->out[0].dim[axis] = n;
    for (int i = 2; i < operation_n_outputs(args->op); i++)
        args->out[i] = SHAPE(n);
    return 0;
}

static void copy_slice(const struct slices *from, int64_t i, const struct tensor *y,
                       int64_t to, int64_t n)
{
    const size_t bytes = (size_t)from->inner * elem_size(y);

    for (int64_t o = 0; o < from->outer && bytes > 0; o++)
        memcpy((char *)y->data + (size_t)(o * n + to) * bytes,
               (const char *)from->x->data + (size_t)(o * from->n + i) * bytes, bytes);
}

/* in: x, perhaps axis; out: y, idx, perhaps count */
static int kern_unique(const struct kernel_args *a)
{
    int axis = a->n_in > 1 && tensor_elements(a->in[1]) > 0
                   ? positive_axis(tensor_int(a->in[1], 0), a->in[0]->shape.rank)
                   : 0;
    const struct slices all = slices_along(a->in[0], axis);
    const int64_t n = a->out[0]->shape.dim[axis];
    int64_t next = 0;
    struct set set;

    if (set_init(&set, all, a->err) != 0)
        return ERR_NOMEM;
    for (int k = 2; k < a->n_out; k++)
        clear(a->out[k]);
    for (int64_t i = 0; i < all.n; i++) {
        const int64_t found = set_find(&set, &all, i, 1);
        const int64_t number = found >= 0 ? tensor_int(a->out[1], found) : next++;

        if (found < 0)
            copy_slice(&all, i, a->out[0], number, n);
        tensor_set_int(a->out[1], i, number);
        for (int k = 2; k < a->n_out; k++)
            tensor_set_int(a->out[k], number, tensor_int(a->out[k], number) + 1);
    }
    set_done(&set);
    return 0;
}

/* ---- ListDiff ---- */

/* Returns the number of elements of x that are not in y, or -1: no memory. a: writes them, and
 * where they are in x, to its outputs; NULL: counts only. */
static int64_t walk_difference(const struct tensor *x, const struct tensor *y,
                               const struct kernel_args *a, struct err *err)
{
    const struct slices left = slices_of(x), right = slices_of(y);
    int64_t n = 0;
    struct set set;

    if (set_init(&set, right, err) != 0)
        return -1;
    for (int64_t i = 0; i < right.n; i++)
        (void)set_find(&set, &right, i, 1);
    for (int64_t i = 0; i < left.n; i++) {
        if (set_find(&set, &left, i, 0) >= 0)
            continue;
        if (a != NULL) {
            copy_slice(&left, i, a->out[0], n, 0);
            tensor_set_int(a->out[1], n, i);
        }
        n++;
    }
    set_done(&set);
    return n;
}

static int kern_list_diff(const struct kernel_args *a)
{
    return walk_difference(a->in[0], a->in[1], a, a->err) < 0 ? ERR_NOMEM : 0;
}

/* out: the elements of x that are not in y; idx: where they are in x */
static int list_diff_shape(const struct shape_args *args)
{
    const int knows =
        args->is_planning && args->value[0] != NULL && args->value[1] != NULL;
    int64_t n = -1;

    if (knows) {
        n = walk_difference(args->value[0], args->value[1], NULL, args->err);
        if (n < 0)
            return ERR_NOMEM;
    }
    args->out[0] = args->out[1] = SHAPE(n);
    return 0;
}

/* ---- partitions ---- */

/* Counts the rows of each partition. */
static int count_rows(const struct shape_args *args, int64_t *counts, int64_t n)
{
    const struct tensor *to = args->value[1];

    for (int64_t i = 0; i < tensor_elements(to); i++) {
        const int64_t p = tensor_int(to, i);

        if (p < 0 || p >= n)
            return err_set(args->err, ERR_ARG,
                           "partitions[%lld] = %lld is not in [0, %lld)", (long long)i,
                           (long long)p, (long long)n);
        counts[p]++;
    }
    return 0;
}

/* outputs[p]: the rows of data whose element of partitions is p */
static int partition_shape(const struct shape_args *args)
{
    const struct shape *data = &args->in[0], *to = &args->in[1];
    const int64_t n = operation_n_outputs(args->op);
    struct shape out = {.rank = 1}, begin = *data;
    int64_t *counts;
    int rc = 0;

    if (data->rank < 0 || to->rank < 0)
        return 0;
    begin.rank = to->rank;
    if (data->rank < to->rank || !shape_compatible(&begin, to))
        return err_set(args->err, ERR_SHAPE, "data %s does not begin with partitions %s",
                       shape_text(data), shape_text(to));
    if (1 + data->rank - to->rank > SHAPE_MAX_RANK)
        return err_set(args->err, ERR_SHAPE, "more than %d dimensions", SHAPE_MAX_RANK);
    for (int d = to->rank; d < data->rank; d++)
        out.dim[out.rank++] = data->dim[d];
    counts = calloc((size_t)n + 1, sizeof(*counts));
    if (counts == NULL)
        return err_set(args->err, ERR_NOMEM, "no memory for %lld partitions",
                       (long long)n);
    if (args->is_planning && args->value[1] != NULL)
        rc = count_rows(args, counts, n);
    for (int64_t p = 0; p < n; p++) {
        args->out[p] = out;
        args->out[p].dim[0] =
            args->is_planning && args->value[1] != NULL ? counts[p] : -1;
    }
    free(counts);
    return rc;
}

static int kern_partition(const struct kernel_args *a)
{
    const struct tensor *data = a->in[0], *to = a->in[1];
    const int64_t n = tensor_elements(to);
    const size_t bytes =
        (size_t)span(&data->shape, to->shape.rank, data->shape.rank) * elem_size(data);
    char **next = calloc((size_t)a->n_out + 1, sizeof(*next));

    if (next == NULL)
        return err_set(a->err, ERR_NOMEM, "%s: no memory for %d partitions",
                       operation_name(a->op), a->n_out);
    for (int p = 0; p < a->n_out; p++)
        next[p] = a->out[p]->data;
    for (int64_t i = 0; i < n && bytes > 0; i++) {
        char **at = &next[tensor_int(to, i)];

        memcpy(*at, (const char *)data->data + (size_t)i * bytes, bytes);
        *at += bytes;
    }
    free(next);
    return 0;
}

/* The numbers of the rows, partitioned in the same way, say where each gradient belongs. */
GRAD(partition_grad)
{
    struct output data = input_of(op, 0), to = input_of(op, 1);
    struct output shape = shape_of(g, to, NULL), count, rows, stitched;
    const int n = operation_n_outputs(op);
    struct op_builder *b;

    count = reduce(g, "Prod", shape, (const int32_t[]){0}, 1, 0, NULL);
    rows = binary(g, "Reshape", range_to(g, count), shape, NULL);
    b = op_begin(g, "DynamicPartition", NULL);
    op_input(b, rows);
    op_input(b, to);
    op_attr_int(b, "num_partitions", n);
    rows.op = op_finish(b);
    if (rows.op == NULL)
        return -1;
    b = op_begin(g, "ParallelDynamicStitch", NULL);
    for (int i = 0; i < n; i++)
        op_input(b, output_of(rows.op, i));
    for (int i = 0; i < n; i++)
        op_input(b, output_valid(grad_out[i]) ? grad_out[i]
                                              : zeros_like(g, output_of(op, i), NULL));
    stitched = (struct output){op_finish(b), 0};
    grad_in[0] = binary(g, "Reshape", stitched, shape_of(g, data, NULL), NULL);
    return grad_done(grad_in, 1);
}

/* ---- the rows ---- */

static const struct op_def rows[] = {
    {"Unique", OP_NO_GRADIENT, unique_shape, NULL, CALL(kern_unique),
     "x:T -> y:T, idx:out_idx; T:type, out_idx:index_type=int32", .ranks = "1",
     .sized_by = "x"},
    {"UniqueV2", OP_NO_GRADIENT, unique_shape, NULL, CALL(kern_unique),
     "x:T, axis:Taxis -> y:T, idx:out_idx; T:type, Taxis:index_type=int64, "
     "out_idx:index_type=int32",
     .ranks = "?1", .sized_by = "x axis"},
    {"UniqueWithCounts", OP_NO_GRADIENT, unique_shape, NULL, CALL(kern_unique),
     "x:T -> y:T, idx:out_idx, count:out_idx; T:type, out_idx:index_type=int32",
     .ranks = "1", .sized_by = "x"},
    {"UniqueWithCountsV2", OP_NO_GRADIENT, unique_shape, NULL, CALL(kern_unique),
     "x:T, axis:Taxis -> y:T, idx:out_idx, count:out_idx; T:type, "
     "Taxis:index_type=int64, out_idx:index_type=int32",
     .ranks = "?1", .sized_by = "x axis"},
    {"ListDiff", OP_NO_GRADIENT, list_diff_shape, NULL, CALL(kern_list_diff),
     "x:T, y:T -> out:T, idx:out_idx; T:type, out_idx:index_type=int32", .ranks = "11",
     .sized_by = "x y"},
    {"DynamicPartition", 0, partition_shape, partition_grad, CALL(kern_partition),
     "data:T, partitions:int32 -> outputs:num_partitions*T; num_partitions:int, T:type",
     .sized_by = "partitions"},
};

const struct op_family ops_of_sets = OP_FAMILY(rows);
