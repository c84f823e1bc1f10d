/* summaries.c - summaries for TensorBoard, as serialised messages: numbers, histograms, tensors.
 *
 * Source   summary_op.cc and summary_tensor_op.cc of TensorFlow. */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"
#include "common/ckpt/bundle_proto.h"
#include "common/ckpt/histogram.h"
#include "common/ckpt/protowire.h"
#include "common/mem/xmalloc.h"

#include <math.h>

/* ---- summaries: serialised Summary messages {1: value {1: tag, 2: number}} ---- */

/* Makes the bytes of b the string's value. A string of this length, as the plan owns it if it
 * knows the length (make_text), keeps its memory; any other takes that of b. */
static void set_bytes(struct tensor *t, struct wbuf *b)
{
    struct tensor_string *s = t->data;

    if (s->bytes == NULL || s->len_bytes != b->len) {
        set_string(t, 0, (struct tensor_string){(char *)b->data, b->len});
        return;
    }
    if (b->len > 0)
        memcpy((char *)(uintptr_t)s->bytes, b->data, b->len);
    wbuf_done(b);
}

static float number_at(const struct tensor *t, int64_t i)
{
    if (t->dtype == DT_FLOAT)
        return tensor_f32(t)[i];
    if (t->dtype == DT_DOUBLE)
        return (float)((const double *)t->data)[i];
    return (float)tensor_int(t, i);
}

static int has_numbers(const struct tensor *t)
{
    return t->dtype == DT_FLOAT || t->dtype == DT_DOUBLE || t->dtype == DT_INT32 ||
           t->dtype == DT_INT64;
}

/* Appends a value for each element; there is one tag for all of them, or one for each.
 * Without numbers, the values are zeros, which take as many bytes. */
static void put_scalars(struct wbuf *b, const struct tensor *tags,
                        const struct tensor *values, int with_numbers)
{
    const struct tensor_string *tag = tags->data;

    for (int64_t i = 0; i < tensor_elements(values); i++) {
        const size_t value = pw_begin(b, 1);

        pw_put_bytes(b, 1, tag->bytes, tag->len_bytes);
        pw_put_float(b, 2, with_numbers ? number_at(values, i) : 0.0f);
        pw_end(b, value);
        tag += tags->shape.rank > 0;
    }
}

/* The memory of `values` is not read. */
static size_t summary_bytes(const struct kernel_args *a)
{
    const int is_merge = operation_is(a->op, "MergeSummary");
    struct wbuf b = {0};
    size_t n = 0;

    for (int i = 0; is_merge && i < a->n_in; i++)
        n += ((const struct tensor_string *)a->in[i]->data)->len_bytes;
    if (!is_merge)
        put_scalars(&b, a->in[0], a->in[1], 0);
    n += b.len;
    wbuf_done(&b);
    return n;
}

/* in: tags, values */
static int kern_scalar_summary(const struct kernel_args *a)
{
    struct wbuf b = {0};

    if (!has_numbers(a->in[1]))
        return err_set(a->err, ERR_UNSUPPORTED, "%s: no summaries of %s",
                       operation_name(a->op), dtype_name(a->in[1]->dtype));
    put_scalars(&b, a->in[0], a->in[1], 1);
    set_bytes(a->out[0], &b);
    return 0;
}

/* Returns the tag of a Summary's value; empty if it has none. */
static struct tensor_string tag_of(struct cursor value)
{
    struct tensor_string tag = {0};
    struct pw_field f;

    while (pw_next(&value, &f))
        if (f.number == 1 && f.type == PW_LEN)
            tag = (struct tensor_string){(char *)(uintptr_t)f.bytes.p,
                                         (size_t)(f.bytes.end - f.bytes.p)};
    return tag;
}

/* Whether the Summary in the first `len` bytes of b has a value with this tag. */
static int has_tag(const struct wbuf *b, size_t len, const struct tensor_string *tag)
{
    struct cursor c = cursor_of(b->data, len);
    struct pw_field f;

    while (pw_next(&c, &f)) {
        const struct tensor_string other = f.number == 1 && f.type == PW_LEN
                                               ? tag_of(f.bytes)
                                               : (struct tensor_string){0};

        if (other.len_bytes == tag->len_bytes &&
            memcmp(other.bytes, tag->bytes, tag->len_bytes) == 0)
            return 1;
    }
    return 0;
}

/* Appends the values of a Summary to b. ERR_ARG: one of its tags is there already. */
static int add_summary(const struct kernel_args *a, struct wbuf *b,
                       const struct tensor_string *s)
{
    struct cursor c = cursor_of(s->bytes, s->len_bytes);
    struct pw_field f;

    while (pw_next(&c, &f)) {
        struct tensor_string tag;

        if (f.number != 1 || f.type != PW_LEN)
            continue;
        tag = tag_of(f.bytes);
        if (tag.len_bytes > 0 && has_tag(b, b->len, &tag))
            return err_set(a->err, ERR_ARG,
                           "%s: Duplicate tag %.*s found in summary inputs",
                           operation_name(a->op), (int)tag.len_bytes, tag.bytes);
    }
    wbuf_bytes(b, s->bytes, s->len_bytes);
    return c.failed ? err_set(a->err, ERR_ARG, "%s: an input is no Summary",
                              operation_name(a->op))
                    : 0;
}

static int kern_merge_summary(const struct kernel_args *a)
{
    struct wbuf b = {0};
    int rc = 0;

    for (int i = 0; rc == 0 && i < a->n_in; i++)
        rc = add_summary(a, &b, a->in[i]->data);
    if (rc == 0)
        set_bytes(a->out[0], &b);
    else
        wbuf_done(&b);
    return rc;
}

/* ---- histograms: value {1: tag, 5: HistogramProto} ---- */

/* in: tag, values */
static int kern_histogram_summary(const struct kernel_args *a)
{
    const struct tensor *x = a->in[1];
    const struct tensor_string *tag = a->in[0]->data;
    const int64_t n = tensor_elements(x);
    struct histogram h = histogram_empty();
    struct wbuf b = {0};
    size_t value, histogram;

    if (!has_numbers(x))
        return err_set(a->err, ERR_UNSUPPORTED, "%s: no summaries of %s",
                       operation_name(a->op), dtype_name(x->dtype));
    for (int64_t i = 0; i < n; i++) {
        const double v = x->dtype == DT_DOUBLE  ? ((const double *)x->data)[i]
                         : x->dtype == DT_FLOAT ? (double)tensor_f32(x)[i]
                                                : (double)tensor_int(x, i);

        if (!isfinite(v))
            return err_set(a->err, ERR_NONFINITE, "%s: %s in summary histogram",
                           operation_name(a->op), isnan(v) ? "Nan" : "Infinity");
        histogram_add(&h, v);
    }
    value = pw_begin(&b, 1);
    pw_put_bytes(&b, 1, tag->bytes, tag->len_bytes);
    histogram = pw_begin(&b, 5);
    histogram_put(&b, &h);
    pw_end(&b, histogram);
    pw_end(&b, value);
    set_bytes(a->out[0], &b);
    return 0;
}

/* ---- tensors: value {1: tag, 7: node, 8: TensorProto, 9: metadata} ---- */

/* in: tag, tensor, metadata (V2), or the tensor alone */
static int kern_tensor_summary(const struct kernel_args *a)
{
    const int is_v2 = a->n_in == 3;
    const struct tensor_string *tag = a->in[0]->data,
                               *metadata = is_v2 ? a->in[2]->data : NULL;
    struct wbuf b = {0};
    const size_t value = pw_begin(&b, 1);

    if (is_v2)
        pw_put_bytes(&b, 1, tag->bytes, tag->len_bytes);
    else
        pw_put_text(&b, 7, operation_name(a->op));
    /* TensorProto {1: dtype, 2: shape, 4: bytes, 8: strings} */
    const struct tensor *t = a->in[is_v2];
    const struct tensor_string *s = t->data;
    const size_t proto = pw_begin(&b, 8);
    pw_put_varint(&b, 1, (uint64_t)t->dtype);
    bundle_put_shape(&b, 2, &t->shape);
    for (int64_t i = 0; t->dtype == DT_STRING && i < tensor_elements(t); i++)
        pw_put_bytes(&b, 8, s[i].bytes, s[i].len_bytes);
    if (t->dtype != DT_STRING && tensor_bytes(t) > 0)
        pw_put_bytes(&b, 4, t->data, tensor_bytes(t));
    pw_end(&b, proto);
    if (is_v2)
        pw_put_bytes(&b, 9, metadata->bytes, metadata->len_bytes);
    pw_end(&b, value);
    set_bytes(a->out[0], &b);
    return 0;
}

/* ---- shapes and rows ---- */

/* tags and values of one shape, or one tag for all */
static int scalar_summary_shape(const struct shape_args *args)
{
    if (args->in[0].rank != 0 && !shape_compatible(&args->in[0], &args->in[1]))
        return err_set(args->err, ERR_SHAPE, "tags %s and values %s are not the same",
                       shape_text(&args->in[0]), shape_text(&args->in[1]));
    return shape_scalar(args);
}

static const struct op_def rows[] = {
    {"ScalarSummary", OP_NO_GRADIENT | OP_MAKES_STRINGS, scalar_summary_shape, NULL,
     CALL(kern_scalar_summary), "tags:string, values:T -> summary:string; T:type",
     .text_bytes = summary_bytes},
    {"MergeSummary", OP_NO_GRADIENT | OP_MAKES_STRINGS, shape_scalars, NULL,
     CALL(kern_merge_summary), "inputs:N*string -> summary:string; N:int",
     .text_bytes = summary_bytes},
    {"HistogramSummary", OP_NO_GRADIENT | OP_MAKES_STRINGS, shape_scalar, NULL,
     CALL(kern_histogram_summary),
     "tag:string, values:T -> summary:string; T:type=float32", .ranks = "0?"},
    {"TensorSummary", OP_NO_GRADIENT | OP_MAKES_STRINGS, shape_scalar, NULL,
     CALL(kern_tensor_summary),
     "tensor:T -> summary:string; T:type, description:string=, labels:list(string)=[], "
     "display_name:string="},
    {"TensorSummaryV2", OP_NO_GRADIENT | OP_MAKES_STRINGS, shape_scalar, NULL,
     CALL(kern_tensor_summary),
     "tag:string, tensor:T, serialized_summary_metadata:string -> summary:string; T:type",
     .ranks = "0?0"},
};

const struct op_family ops_of_summaries = OP_FAMILY(rows);
