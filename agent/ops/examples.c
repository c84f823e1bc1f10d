/* examples.c - records of examples: tf.train.Example messages to tensors, bytes to numbers, and lists
 * of elements to the tensors that have them.
 *
 *     Example {1: Features {1: map name -> Feature}}
 *     Feature {1: {1: bytes...} | 2: {1: float...} | 3: {1: int64...}}
 *
 * The records are strings, which a plan knows, and so are the sizes of what they hold.
 *
 * Source   example_proto_fast_parsing.cc, decode_raw_op.cc and sparse_to_dense_op.cc of TensorFlow
 *          1.13; python/ops/sparse_grad.py. */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"
#include "common/ckpt/protowire.h"
#include "common/mem/copy_short.h"

#include <string.h>

/* ---- messages ---- */

enum {
    EXAMPLE_FEATURES = 1,
    FEATURES_ENTRY = 1,
    MAP_KEY = 1,
    MAP_VALUE = 2,
    LIST_VALUE = 1
};
/* the fields of a Feature */
enum feature_kind { FEATURE_NONE, FEATURE_BYTES, FEATURE_FLOAT, FEATURE_INT64 };

struct feature {
    enum feature_kind kind;
    struct cursor list;
};

static enum feature_kind kind_of(enum dtype dtype)
{
    return dtype == DT_STRING  ? FEATURE_BYTES
           : dtype == DT_FLOAT ? FEATURE_FLOAT
           : dtype == DT_INT64 ? FEATURE_INT64
                               : FEATURE_NONE;
}

static void read_feature(struct cursor c, struct feature *ret)
{
    struct pw_field f;

    *ret = (struct feature){0};
    while (pw_next(&c, &f))
        if (f.type == PW_LEN && f.number >= FEATURE_BYTES && f.number <= FEATURE_INT64)
            *ret = (struct feature){(enum feature_kind)f.number, f.bytes};
}

/* Finds the last feature of a name. Returns -1: the message is malformed. */
static int find_feature(const struct tensor_string *example,
                        const struct tensor_string *key, struct feature *ret)
{
    struct cursor c = cursor_of(example->bytes, example->len_bytes);
    struct pw_field features, entry, f;

    *ret = (struct feature){0};
    while (pw_next(&c, &features)) {
        while (features.number == EXAMPLE_FEATURES && features.type == PW_LEN &&
               pw_next(&features.bytes, &entry)) {
            struct cursor value = cursor_of(NULL, 0);
            int is_it = key->len_bytes == 0; /* a key that is left out is empty */

            while (entry.number == FEATURES_ENTRY && entry.type == PW_LEN &&
                   pw_next(&entry.bytes, &f))
                if (f.number == MAP_KEY && f.type == PW_LEN)
                    is_it = cursor_left(&f.bytes) == key->len_bytes &&
                            memcmp(f.bytes.p, key->bytes, key->len_bytes) == 0;
                else if (f.number == MAP_VALUE && f.type == PW_LEN)
                    value = f.bytes;
            if (entry.type == PW_LEN && entry.bytes.failed)
                return -1;
            if (is_it)
                read_feature(value, ret);
        }
        if (features.type == PW_LEN && features.bytes.failed)
            return -1;
    }
    return c.failed ? -1 : 0;
}

/* Where the elements of a list go to; NULL: they are only counted. */
static void keep(void *to, enum feature_kind kind, int64_t i, uint64_t bits,
                 struct cursor bytes)
{
    if (to == NULL)
        return;
    if (kind == FEATURE_FLOAT)
        ((uint32_t *)to)[i] = (uint32_t)bits;
    else if (kind == FEATURE_INT64)
        ((uint64_t *)to)[i] = bits;
    else
        ((struct tensor_string *)to)[i] =
            (struct tensor_string){(char *)(uintptr_t)bytes.p, cursor_left(&bytes)};
}

/* Reads the elements of a feature, of which numbers may be packed. Returns how many there are;
 * -1: malformed. Strings stay those of the message. */
static int64_t read_list(const struct feature *x, void *to)
{
    struct cursor c = x->list;
    struct pw_field f;
    int64_t n = 0;

    while (pw_next(&c, &f)) {
        if (f.number != LIST_VALUE)
            continue;
        if (f.type != PW_LEN || x->kind == FEATURE_BYTES) {
            keep(to, x->kind, n++, f.value, f.bytes);
            continue;
        }
        while (cursor_left(&f.bytes) > 0 && !f.bytes.failed) {
            const uint64_t bits = x->kind == FEATURE_FLOAT ? cursor_u32(&f.bytes)
                                                           : cursor_varint64(&f.bytes);

            if (!f.bytes.failed)
                keep(to, x->kind, n++, bits, f.bytes);
        }
        if (f.bytes.failed)
            return -1;
    }
    return c.failed ? -1 : n;
}

/* ---- what an operation parses ---- */

struct parse {
    const struct operation *op;
    const struct tensor *const *in; /* NULL: its value is not known */
    const struct tensor *examples;
    int64_t n; /* examples */
    int is_batch;
    int n_sparse, n_dense;
    int first_default; /* among the inputs */
    struct err *err;
};

/* The number of defaults is that of dense features. */
static void describe(struct parse *p, const struct operation *op,
                     const struct tensor *const *in, int is_batch, struct err *err)
{
    const int is_first = operation_is(op, "ParseExample");
    const char *n_sparse = is_first ? "Nsparse" : "num_sparse";

    *p = (struct parse){.op = op, .in = in, .is_batch = is_batch, .err = err};
    p->n_sparse = (int)attr_int(op, n_sparse);
    p->n_dense = (int)operation_attr(op, "Tdense")->n;
    p->first_default = is_first ? 2 + p->n_sparse + p->n_dense
                       : operation_is(op, "ParseSingleExample") ? 1
                                                                : 5;
    p->examples = in[0];
    p->n = in[0] != NULL ? tensor_elements(in[0]) : -1;
}

/* The key of sparse feature i, or dense feature i. NULL: not known, or there is none. */
static const struct tensor_string *key_of(const struct parse *p, int is_dense, int i)
{
    const struct tensor *keys;

    if (operation_is(p->op, "ParseSingleExample")) {
        const struct attr *a =
            operation_attr(p->op, is_dense ? "dense_keys" : "sparse_keys");

        return (size_t)i < a->n ? &a->list_s[i] : NULL;
    }
    if (operation_is(p->op, "ParseExample")) {
        keys = p->in[2 + (is_dense ? p->n_sparse : 0) + i];
        return keys != NULL ? keys->data : NULL;
    }
    keys = p->in[is_dense ? 3 : 2];
    return keys != NULL && i < tensor_elements(keys)
               ? (const struct tensor_string *)keys->data + i
               : NULL;
}

static enum dtype type_of(const struct parse *p, int is_dense, int i)
{
    return (enum dtype)operation_attr(p->op, is_dense ? "Tdense" : "sparse_types")
        ->list_i[i];
}

/* Whether all is known that the sizes depend on. */
static int is_known(const struct parse *p)
{
    for (int i = 0; p->examples != NULL && i < p->n_sparse; i++)
        if (key_of(p, 0, i) == NULL)
            return 0;
    for (int i = 0; p->examples != NULL && i < p->n_dense; i++)
        if (key_of(p, 1, i) == NULL)
            return 0;
    return p->examples != NULL;
}

/* Finds a feature in an example and counts its elements; 0: it is not there, or empty. */
static int count(const struct parse *p, int64_t example, int is_dense, int i,
                 struct feature *ret, int64_t *ret_n)
{
    const struct tensor_string *key = key_of(p, is_dense, i);
    const struct tensor_string *s =
        (const struct tensor_string *)p->examples->data + example;

    if (find_feature(s, key, ret) < 0)
        return err_set(p->err, ERR_ARG, "%s: Could not parse example input, number %lld",
                       operation_name(p->op), (long long)example);
    *ret_n = 0;
    if (ret->kind == FEATURE_NONE)
        return 0;
    if (ret->kind != kind_of(type_of(p, is_dense, i)))
        return err_set(p->err, ERR_ARG,
                       "%s: Feature: %.*s. Data types don't match: %s is expected",
                       operation_name(p->op), (int)key->len_bytes, key->bytes,
                       dtype_name(type_of(p, is_dense, i)));
    *ret_n = read_list(ret, NULL);
    return *ret_n >= 0 ? 0
                       : err_set(p->err, ERR_ARG, "%s: Feature: %.*s is malformed",
                                 operation_name(p->op), (int)key->len_bytes, key->bytes);
}

/* The elements of a feature in all examples, and the most in one. */
static int count_all(const struct parse *p, int is_dense, int i, int64_t *ret_sum,
                     int64_t *ret_most)
{
    *ret_sum = *ret_most = 0;
    for (int64_t e = 0; e < p->n; e++) {
        struct feature f;
        int64_t n;
        int rc = count(p, e, is_dense, i, &f, &n);

        if (rc < 0)
            return rc;
        *ret_sum += n;
        *ret_most = n > *ret_most ? n : *ret_most;
    }
    return 0;
}

/* The shape that the operation gives for one example; its first dimension may be unknown. */
static const struct shape *dense_shape(const struct parse *p, int i)
{
    static const struct shape unknown = {.rank = -1};
    const struct attr *a = operation_attr(p->op, "dense_shapes");

    return (size_t)i < a->n ? &a->list_shape[i] : &unknown;
}

/* Elements of one row of a feature of variable length; of another, all. */
static int64_t row_size(const struct shape *s)
{
    const int is_variable = s->rank > 0 && s->dim[0] < 0;
    int64_t n = 1;

    for (int d = is_variable; d < s->rank; d++)
        if (s->dim[d] < 0 || __builtin_mul_overflow(n, s->dim[d], &n))
            return -1;
    return s->rank < 0 ? -1 : n;
}

/* ---- shapes ---- */

static int sparse_shape(const struct parse *p, int i, struct shape *out)
{
    const int64_t rank = 1 + p->is_batch;
    int64_t sum = -1, most;

    if (is_known(p) && count_all(p, 0, i, &sum, &most) < 0)
        return ERR_ARG;
    out[i] = SHAPE(sum, rank);
    out[p->n_sparse + i] = SHAPE(sum);
    out[2 * p->n_sparse + i] = SHAPE(rank);
    return 0;
}

static int dense_shape_of(const struct parse *p, int i, struct shape *ret)
{
    const struct shape *s = dense_shape(p, i);
    const int is_variable = s->rank > 0 && s->dim[0] < 0;
    const int64_t row = row_size(s);
    int64_t sum, most;

    *ret = *s;
    if (row < 0 || (is_variable && (!p->is_batch || row == 0)) ||
        s->rank + p->is_batch > SHAPE_MAX_RANK)
        return err_set(p->err, ERR_SHAPE, "%s: a dense feature of shape %s",
                       operation_name(p->op), shape_text(s));
    if (is_variable && is_known(p)) {
        if (count_all(p, 1, i, &sum, &most) < 0)
            return ERR_ARG;
        ret->dim[0] = (most + row - 1) / row;
    }
    if (p->is_batch)
        shape_insert(ret, 0, p->n);
    return 0;
}

static int parse_shape(const struct shape_args *args)
{
    const int is_single = operation_is(args->op, "ParseSingleExample");
    const int is_v2 = operation_is(args->op, "ParseExampleV2");
    struct parse p;
    int rc = 0;

    if (args->in[0].rank < 0)
        return 0;
    if (args->in[0].rank > (is_single ? 0 : 1) ||
        (args->in[0].rank == 0 && !is_single && !is_v2))
        return err_set(args->err, ERR_SHAPE, "examples of shape %s",
                       shape_text(&args->in[0]));
    describe(&p, args->op, args->value, args->in[0].rank == 1, args->err);
    if (is_v2 && operation_attr(args->op, "ragged_value_types")->n > 0)
        return err_set(args->err, ERR_UNSUPPORTED, "%s: ragged features",
                       operation_name(args->op));
    if (!args->is_planning)
        p.examples = NULL;
    if (p.examples == NULL)
        p.n = args->in[0].rank == 1 ? args->in[0].dim[0] : 1;
    for (int i = 0; rc == 0 && i < p.n_sparse; i++)
        rc = sparse_shape(&p, i, args->out);
    for (int i = 0; rc == 0 && i < p.n_dense; i++)
        rc = dense_shape_of(&p, i, &args->out[3 * p.n_sparse + i]);
    return rc;
}

/* ---- values ---- */

static int put_sparse(const struct parse *p, const struct kernel_args *a, int i)
{
    int64_t *at = a->out[i]->data, *shape = a->out[2 * p->n_sparse + i]->data;
    const struct tensor *values = a->out[p->n_sparse + i];
    char *to = values->data;
    int64_t most = 0;

    for (int64_t e = 0; e < p->n; e++) {
        struct feature f;
        int64_t n;
        int rc = count(p, e, 0, i, &f, &n);

        if (rc < 0)
            return rc;
        (void)read_list(&f, to);
        to += (size_t)n * elem_size(values);
        for (int64_t k = 0; k < n; k++) {
            if (p->is_batch)
                *at++ = e;
            *at++ = k;
        }
        most = n > most ? n : most;
    }
    if (p->is_batch)
        *shape++ = p->n;
    *shape = most;
    return 0;
}

/* Fills what an example lacks: the default has all elements, or one that is repeated. */
static void examples_fill(char *to, int64_t n, const struct tensor *value)
{
    const size_t size = elem_size(value);
    const int64_t given = tensor_elements(value);

    for (int64_t k = 0; k < n; k++)
        memcpy(to + (size_t)k * size,
               (const char *)value->data + (given == n ? (size_t)k * size : 0), size);
}

static int put_dense(const struct parse *p, const struct kernel_args *a, int i)
{
    const struct tensor *out = a->out[3 * p->n_sparse + i];
    const struct tensor *value = a->in[p->first_default + i];
    const struct tensor_string *key = key_of(p, 1, i);
    const int64_t each = p->n > 0 ? tensor_elements(out) / p->n : 0;
    const int is_variable = dense_shape(p, i)->rank > 0 && dense_shape(p, i)->dim[0] < 0;
    const int64_t row = row_size(dense_shape(p, i));

    for (int64_t e = 0; e < p->n; e++) {
        char *to = (char *)out->data + (size_t)(e * each) * elem_size(out);
        struct feature f;
        int64_t n;
        int rc = count(p, e, 1, i, &f, &n);

        if (rc < 0)
            return rc;
        if (f.kind == FEATURE_NONE && tensor_elements(value) == 0 && !is_variable)
            return err_set(
                p->err, ERR_ARG,
                "%s: Feature: %.*s (data type: %s) is required but could not be "
                "found.",
                operation_name(p->op), (int)key->len_bytes, key->bytes,
                dtype_name(out->dtype));
        if (f.kind != FEATURE_NONE && (is_variable ? n % row != 0 : n != each))
            return err_set(
                p->err, ERR_ARG,
                "%s: Key: %.*s.  Number of %s values != expected.  Values size: "
                "%lld but output shape: %s",
                operation_name(p->op), (int)key->len_bytes, key->bytes,
                dtype_name(out->dtype), (long long)n, shape_text(dense_shape(p, i)));
        (void)read_list(&f, to);
        if (n < each && tensor_elements(value) > 0)
            examples_fill(to + (size_t)n * elem_size(out), each - n, value);
        else if (n < each) /* without a default: zeros, or empty strings */
            memset(to + (size_t)n * elem_size(out), 0,
                   (size_t)(each - n) * elem_size(out));
    }
    return 0;
}

static int kern_parse(const struct kernel_args *a)
{
    struct parse p;
    int rc = 0;

    describe(&p, a->op, (const struct tensor *const *)a->in, a->in[0]->shape.rank == 1,
             a->err);
    for (int i = 0; rc == 0 && i < p.n_sparse; i++)
        rc = put_sparse(&p, a, i);
    for (int i = 0; rc == 0 && i < p.n_dense; i++)
        rc = put_dense(&p, a, i);
    return rc;
}

/* ---- bytes as numbers ---- */

/* One more dimension: of as many numbers as each string has. */
static int decode_raw_shape(const struct shape_args *args)
{
    const struct tensor *x = args->is_planning ? args->value[0] : NULL;
    const size_t size = dtype_size((enum dtype)attr_int(args->op, "out_type"));
    int64_t width = -1;

    if (size == 0)
        return err_set(args->err, ERR_DTYPE, "bytes are no %s",
                       dtype_name((enum dtype)attr_int(args->op, "out_type")));
    for (int64_t i = 0; x != NULL && i < tensor_elements(x); i++) {
        const size_t len = ((const struct tensor_string *)x->data)[i].len_bytes;

        if (len % size != 0)
            return err_set(args->err, ERR_ARG,
                           "Input to DecodeRaw has length %zu that is not a multiple of "
                           "%zu, the size of %s",
                           len, size,
                           dtype_name((enum dtype)attr_int(args->op, "out_type")));
        if (width >= 0 && width != (int64_t)(len / size))
            return err_set(
                args->err, ERR_ARG,
                "DecodeRaw requires input strings to all be the same size, but "
                "element %lld has size %zu",
                (long long)i, len);
        width = (int64_t)(len / size);
    }
    if (x != NULL && width < 0)
        width = 0;
    if (args->in[0].rank < 0)
        return 0;
    if (args->in[0].rank == SHAPE_MAX_RANK)
        return err_set(args->err, ERR_SHAPE, "strings of shape %s",
                       shape_text(&args->in[0]));
    args->out[0] = args->in[0];
    args->out[0].dim[args->out[0].rank++] = width;
    return 0;
}

static int kern_decode_raw(const struct kernel_args *a)
{
    const struct tensor_string *s = a->in[0]->data;
    const enum dtype dtype = a->out[0]->dtype;
    const size_t all = dtype_size(dtype);
    /* the two parts of a complex number are swapped one by one */
    const size_t size = dtype == DT_COMPLEX64 || dtype == DT_COMPLEX128 ? all / 2 : all;
    char *to = a->out[0]->data;

    for (int64_t i = 0; i < tensor_elements(a->in[0]); i++) {
        if (s[i].len_bytes > 0)
            memcpy(to, s[i].bytes, s[i].len_bytes);
        for (size_t k = 0; !attr_int(a->op, "little_endian") && k < s[i].len_bytes;
             k += size)
            for (size_t b = 0; b < size / 2; b++) {
                const char swapped = to[k + b];

                to[k + b] = to[k + size - 1 - b];
                to[k + size - 1 - b] = swapped;
            }
        to += s[i].len_bytes;
    }
    return 0;
}

/* ---- the rows ---- */

static const struct op_def rows[] = {
    {"ParseExample", OP_NO_GRADIENT, parse_shape, NULL, CALL(kern_parse),
     "serialized:string, names:string, sparse_keys:Nsparse*string, "
     "dense_keys:Ndense*string, dense_defaults:Tdense -> sparse_indices:Nsparse*int64, "
     "sparse_values:sparse_types, sparse_shapes:Nsparse*int64, dense_values:Tdense; "
     "Nsparse:int, Ndense:int, sparse_types:list(type), Tdense:list(type), "
     "dense_shapes:list(shape)"},
    {"ParseExampleV2", OP_NO_GRADIENT, parse_shape, NULL, CALL(kern_parse),
     "serialized:string, names:string, sparse_keys:string, dense_keys:string, "
     "ragged_keys:string, dense_defaults:Tdense -> sparse_indices:num_sparse*int64, "
     "sparse_values:sparse_types, sparse_shapes:num_sparse*int64, dense_values:Tdense, "
     "ragged_values:ragged_value_types, ragged_row_splits:ragged_split_types; "
     "Tdense:list(type), num_sparse:int, sparse_types:list(type), "
     "ragged_value_types:list(type), ragged_split_types:list(type), "
     "dense_shapes:list(shape)"},
    {"ParseSingleExample", OP_NO_GRADIENT, parse_shape, NULL, CALL(kern_parse),
     "serialized:string, dense_defaults:Tdense -> sparse_indices:num_sparse*int64, "
     "sparse_values:sparse_types, sparse_shapes:num_sparse*int64, dense_values:Tdense; "
     "num_sparse:int, sparse_keys:list(string), dense_keys:list(string), "
     "sparse_types:list(type), Tdense:list(type), dense_shapes:list(shape)"},
    {"DecodeRaw", OP_NO_GRADIENT, decode_raw_shape, NULL, CALL(kern_decode_raw),
     "bytes:string -> output:out_type; out_type:type, little_endian:bool=true"},
};

const struct op_family ops_of_examples = OP_FAMILY(rows);
