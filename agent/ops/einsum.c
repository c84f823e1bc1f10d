/* einsum.c - Einsum of one or two operands: "abc,cd->abd", "...ij->...ji", "ii->i".
 *
 * The labels of two operands are of five kinds: in both and in the result (a batch), in both
 * and not in the result (summed by a product), in one and in the result, and in one only (summed
 * first). So the work is a batch of matrix products (batch, of x, summed) (batch, summed, of
 * y), of operands that are copied into that order unless they have it.
 *
 * Gradients after python/ops/linalg_grad.py of TensorFlow 2. */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- equations ---- */

/* A label is a letter, or one of the dimensions that "..." stands for, counted from the last
 * one. */
enum { FIRST_BROADCAST = 128, N_LABELS = FIRST_BROADCAST + SHAPE_MAX_RANK };

struct term {
    const char *text;
    int len;
    int has_dots;
    int n; /* labels; dimensions, once the dots are counted */
    unsigned char label[SHAPE_MAX_RANK];
};

struct equation {
    int n_in;
    struct term in[2], out;
};

static int refuse(const struct shape_args *args, const char *why)
{
    const struct attr *a = operation_attr(args->op, "equation");

    return err_set(args->err, ERR_SHAPE, "equation %s: %s", a->s, why);
}

/* Cuts the text into terms. 0, or -1 if it is not an equation of n_in operands. */
static int cut_equation(const char *text, int n_in, struct equation *ret)
{
    const char *arrow = strstr(text, "->"), *comma;

    if (arrow == NULL || n_in < 1 || n_in > 2)
        return -1;
    comma = memchr(text, ',', (size_t)(arrow - text));
    if ((comma != NULL) != (n_in == 2))
        return -1;
    *ret = (struct equation){.n_in = n_in};
    ret->in[0].text = text;
    ret->in[0].len = (int)((comma != NULL ? comma : arrow) - text);
    ret->in[1].text = comma != NULL ? comma + 1 : NULL;
    ret->in[1].len = comma != NULL ? (int)(arrow - comma - 1) : 0;
    ret->out.text = arrow + 2;
    ret->out.len = (int)strlen(arrow + 2);
    return 0;
}

/* Reads the labels; "..." has n_dots of them. 0, or -1: malformed, or too many. */
static int read_labels(struct term *t, int n_dots)
{
    t->n = 0;
    t->has_dots = 0;
    for (int i = 0; i < t->len; i++) {
        if (t->text[i] == '.') {
            if (t->has_dots || t->len - i < 3 || strncmp(t->text + i, "...", 3) != 0 ||
                t->n + n_dots > SHAPE_MAX_RANK)
                return -1;
            t->has_dots = 1;
            for (int k = n_dots; k > 0; k--)
                t->label[t->n++] = (unsigned char)(FIRST_BROADCAST + k - 1);
            i += 2;
        } else if (!isalpha((unsigned char)t->text[i]) || t->n == SHAPE_MAX_RANK) {
            return -1;
        } else {
            t->label[t->n++] = (unsigned char)t->text[i];
        }
    }
    return 0;
}

static int has_label(const struct term *t, int label)
{
    return memchr(t->label, label, (size_t)t->n) != NULL;
}

/* ---- shapes ---- */

/* Sizes of the labels: -1 not known, 0 and more. */
struct sizes {
    int64_t of[N_LABELS];
    unsigned char is_set[N_LABELS];
};

/* Adds what the operand's shape says. A dimension of the dots may be 1 in one operand. */
static int add_sizes(const struct shape_args *args, const struct term *t,
                     const struct shape *s, struct sizes *sizes)
{
    for (int d = 0; d < t->n; d++) {
        const int label = t->label[d], broadcasts = label >= FIRST_BROADCAST;
        int64_t *have = &sizes->of[label], n = s->dim[d];

        if (!sizes->is_set[label])
            *have = n;
        else if (broadcasts && (n == 1 || *have == 1))
            *have = n == 1 ? *have : n;
        else if (n >= 0 && *have >= 0 && n != *have)
            return refuse(args, "sizes of a label differ");
        else if (*have < 0 || (broadcasts && n < 0 && *have == 1))
            *have = n;
        sizes->is_set[label] = 1;
    }
    return 0;
}

/* Reads the equation for operands of known ranks. */
static int read_equation(const struct shape_args *args, struct equation *e)
{
    const char *text = operation_attr(args->op, "equation")->s;
    int most = 0;

    if (cut_equation(text, args->n_in, e) != 0)
        return refuse(args, "expected one term for each operand, and ->");
    for (int i = 0; i < e->n_in; i++) {
        int dots;

        if (read_labels(&e->in[i], 0) != 0)
            return refuse(args, "a term is letters and one ..., at most 8 dimensions");
        dots = args->in[i].rank - e->in[i].n;
        if (dots < 0 || (dots > 0 && !e->in[i].has_dots) ||
            read_labels(&e->in[i], dots) != 0)
            return refuse(args, "an operand has another number of dimensions");
        most = e->in[i].has_dots && dots > most ? dots : most;
    }
    if (read_labels(&e->out, most) != 0)
        return refuse(args, "the result is letters and one ..., at most 8 dimensions");
    if (most > 0 && !e->out.has_dots)
        return refuse(args, "the result lacks the ...");
    return 0;
}

static int einsum_shape(const struct shape_args *args)
{
    struct equation e;
    struct sizes sizes = {0};
    struct shape out = {0};

    if (args->n_in > 2)
        return err_set(args->err, ERR_UNSUPPORTED, "%d operands, at most 2 are possible",
                       args->n_in);
    for (int i = 0; i < args->n_in; i++)
        if (args->in[i].rank < 0)
            return 0;
    if (read_equation(args, &e) != 0)
        return ERR_SHAPE;
    for (int i = 0; i < e.n_in; i++)
        if (add_sizes(args, &e.in[i], &args->in[i], &sizes) != 0)
            return ERR_SHAPE;
    for (int d = 0; d < e.out.n; d++) {
        if (!sizes.is_set[e.out.label[d]])
            return refuse(args, "the result has a label that no operand has");
        out.dim[out.rank++] = sizes.of[e.out.label[d]];
    }
    args->out[0] = out;
    return 0;
}

/* ---- layouts ---- */

/* Labels in order, with their sizes and their strides in one tensor, in elements. */
struct axes {
    int n;
    int64_t size[SHAPE_MAX_RANK], stride[SHAPE_MAX_RANK];
    int64_t elements;
};

/* The sum of the strides of a label's dimensions; 0 for those that broadcast. */
static int64_t stride_of(const struct term *t, const struct shape *s, int label,
                         int64_t size)
{
    int64_t stride = 1, sum = 0;

    for (int d = t->n - 1; d >= 0; d--) {
        if (t->label[d] == label && (s->dim[d] == size || s->dim[d] > 1))
            sum += stride;
        stride *= s->dim[d];
    }
    return sum;
}

static void add_axis(struct axes *a, const struct term *t, const struct shape *s,
                     int label, int64_t size)
{
    a->size[a->n] = size;
    a->stride[a->n++] = stride_of(t, s, label, size);
    a->elements *= size;
}

static void append(struct axes *a, const struct axes *more)
{
    for (int d = 0; d < more->n; d++) {
        a->size[a->n] = more->size[d];
        a->stride[a->n++] = more->stride[d];
    }
    a->elements *= more->elements;
}

/* Whether the tensor has its elements in the order of the axes, each once. */
static int is_dense(const struct axes *a)
{
    int64_t step = 1;

    for (int d = a->n - 1; d >= 0; d--) {
        if (a->size[d] != 1 && a->stride[d] != step)
            return 0;
        step *= a->size[d];
    }
    return 1;
}

/* One operand: its axes by what becomes of them. */
struct operand {
    struct axes batch, own, summed, lost;
    struct axes order, turned; /* (batch, own, summed); (batch, summed, own) */
    int is_turned, is_packed;  /* it is used in the second order; it is copied first */
};

struct layout {
    struct operand in[2];
    struct axes out; /* (batch, of x, of y), with the strides of the result */
    int is_packed;   /* the result is computed in that order, then copied */
    int64_t m, n, k, batches;
};

static struct axes no_axes(void)
{
    return (struct axes){.elements = 1};
}

static void lay_operand(struct operand *o, const struct equation *e, int i,
                        const struct shape *s, const struct sizes *sizes)
{
    const struct term *t = &e->in[i], *other = e->n_in > 1 ? &e->in[!i] : NULL;

    o->batch = o->own = o->summed = o->lost = no_axes();
    for (int d = 0; d < e->out.n; d++) { /* in the order of the result */
        const int label = e->out.label[d];
        struct axes *to = other != NULL && has_label(other, label) ? &o->batch : &o->own;

        if (has_label(t, label) &&
            memchr(e->out.label, label, (size_t)e->out.n) == &e->out.label[d])
            add_axis(to, t, s, label, sizes->of[label]);
    }
    /* labels that are summed, in the order of the first operand that has them */
    for (int k = 0; k < e->n_in; k++)
        for (int d = 0; d < e->in[k].n; d++) {
            const int label = e->in[k].label[d];
            const int is_first =
                memchr(e->in[k].label, label, (size_t)e->in[k].n) == &e->in[k].label[d];

            if (!is_first || (k == 1 && has_label(&e->in[0], label)) ||
                has_label(&e->out, label) || !has_label(t, label))
                continue;
            add_axis(other != NULL && has_label(other, label) ? &o->summed : &o->lost, t,
                     s, label, sizes->of[label]);
        }
    o->order = o->turned = o->batch;
    append(&o->order, &o->own);
    append(&o->order, &o->summed);
    append(&o->turned, &o->summed);
    append(&o->turned, &o->own);
    /* the second operand is (batch, summed, own) where the first is (batch, own, summed) */
    const int first = i == 0 ? is_dense(&o->order) : is_dense(&o->turned);
    const int second = i == 0 ? is_dense(&o->turned) : is_dense(&o->order);

    o->is_packed = o->lost.n > 0 || (!first && !second);
    o->is_turned = !o->is_packed && !first;
}

/* All shapes are known and fit. */
static void lay_out(const struct shape_args *args, struct layout *l)
{
    struct equation e;
    struct sizes sizes = {0};
    const struct shape *out = &args->out[0];

    (void)read_equation(args, &e);
    for (int i = 0; i < e.n_in; i++)
        (void)add_sizes(args, &e.in[i], &args->in[i], &sizes);
    *l = (struct layout){.out = no_axes()};
    for (int i = 0; i < e.n_in; i++)
        lay_operand(&l->in[i], &e, i, &args->in[i], &sizes);
    for (int pass = 0; pass < 3; pass++)
        for (int d = 0; d < e.out.n; d++) {
            const int label = e.out.label[d];
            const int in_x = has_label(&e.in[0], label);
            const int in_y = e.n_in > 1 && has_label(&e.in[1], label);

            if (memchr(e.out.label, label, (size_t)e.out.n) == &e.out.label[d] &&
                pass == (in_x && in_y ? 0
                         : in_x       ? 1
                                      : 2))
                add_axis(&l->out, &e.out, out, label, sizes.of[label]);
        }
    /* a label that is there twice leaves elements of the result zero */
    l->is_packed = !is_dense(&l->out) || l->out.elements != shape_elements(out);
    l->batches = l->in[0].batch.elements;
    l->m = l->in[0].own.elements;
    l->k = l->in[0].summed.elements;
    l->n = e.n_in > 1 ? l->in[1].own.elements : 1;
}

/* ---- the kernel ---- */

static int64_t einsum_scratch(const struct shape_args *args)
{
    const size_t elem = element_bytes(args->op);
    struct layout l;
    int64_t n = 0;

    lay_out(args, &l);
    for (int i = 0; i < args->n_in; i++)
        n += l.in[i].is_packed ? l.in[i].order.elements : 0;
    n += l.is_packed ? l.out.elements : 0;
    return (n * (int64_t)elem + 3) / 4;
}

/* Adds the elements of x that differ in the lost axes only. */
#define ADD_LOST(symbol, T, U)                                                           \
    case symbol: {                                                                       \
        U sum = 0;                                                                       \
                                                                                         \
        for (int64_t i = 0; i < lost->elements; i++)                                     \
            sum += (U)((const T *)x)[from + offset_of(lost, i)];                         \
        ((T *)y)[to] = (T)sum;                                                           \
        break;                                                                           \
    }

/* The place of element i of the axes in the tensor. */
static int64_t offset_of(const struct axes *a, int64_t i)
{
    int64_t at = 0;

    for (int d = a->n - 1; d >= 0; d--) {
        at += i % a->size[d] * a->stride[d];
        i /= a->size[d];
    }
    return at;
}

static void sum_lost(void *y, int64_t to, const void *x, int64_t from,
                     const struct axes *lost, enum dtype dtype)
{
    switch (dtype) {
        ADD_LOST(DT_FLOAT, float, float)
        ADD_LOST(DT_DOUBLE, double, double)
        ADD_LOST(DT_INT32, int32_t, uint32_t)
        ADD_LOST(DT_INT64, int64_t, uint64_t)
    default:
        break;
    }
}

/* Copies between a tensor and dense memory in the order of the axes. */
static void copy_axes(void *tensor, void *dense, const struct axes *a, size_t elem,
                      int into_tensor)
{
    struct copy_plan c = {.rank = a->n};
    int64_t step = (int64_t)elem;

    for (int d = a->n - 1; d >= 0; d--) {
        c.dim[d] = a->size[d];
        (into_tensor ? c.dst_stride : c.src_stride)[d] = a->stride[d] * (int64_t)elem;
        (into_tensor ? c.src_stride : c.dst_stride)[d] = step;
        step *= a->size[d];
    }
    if (a->elements > 0)
        copy_strided(into_tensor ? tensor : dense, into_tensor ? dense : tensor, &c,
                     elem);
}

/* The operand in the order that the product needs; *next: free scratch memory. */
static const void *ready(const struct tensor *x, const struct operand *o, int i,
                         char **next)
{
    const struct axes *order = i == 0 ? &o->order : &o->turned;
    const size_t elem = dtype_size(x->dtype);
    void *y = *next;

    if (!o->is_packed)
        return x->data;
    *next += (size_t)order->elements * elem;
    if (o->lost.n == 0)
        copy_axes(x->data, y, order, elem, 0);
    for (int64_t k = 0; o->lost.n > 0 && k < order->elements; k++)
        sum_lost(y, k, x->data, offset_of(order, k), &o->lost, x->dtype);
    return y;
}

static int kern_einsum(const struct kernel_args *a)
{
    const int n_in = operation_n_inputs(a->op);
    const struct tensor *z = a->out[0];
    const size_t elem = dtype_size(z->dtype);
    struct shape in[2];
    struct layout l;
    char *next = a->n_out > 1 ? a->out[1]->data : NULL, *result;
    const char *x, *y;
    int rc = 0;

    for (int i = 0; i < n_in; i++)
        in[i] = a->in[i]->shape;
    const struct shape_args args = {
        .op = a->op, .n_in = n_in, .in = in, .out = &a->out[0]->shape, .is_planning = 1};

    lay_out(&args, &l);
    x = ready(a->in[0], &l.in[0], 0, &next);
    y = n_in > 1 ? ready(a->in[1], &l.in[1], 1, &next) : NULL;
    result = l.is_packed ? next : z->data;
    if (l.is_packed)
        clear(z);
    if (l.k == 0)
        clear(z);
    if (l.k == 0 || l.out.elements == 0)
        return 0;
    if (y == NULL) {
        memcpy(result, x, (size_t)l.m * elem);
    } else {
        const struct matrix_product p = {l.in[0].is_turned, l.in[1].is_turned, l.m, l.n,
                                         l.k};

        for (int64_t b = 0; rc == 0 && b < l.batches; b++)
            rc = matrix_multiply(&p, z->dtype, x + (size_t)(b * l.m * l.k) * elem,
                                 y + (size_t)(b * l.k * l.n) * elem,
                                 result + (size_t)(b * l.m * l.n) * elem);
    }
    if (l.is_packed)
        copy_axes(z->data, result, &l.out, elem, 1);
    return rc;
}

/* ---- gradients ---- */

/* Texts of terms: at most 8 letters and "..." each. */
enum { TERM_MAX = 32, EQUATION_MAX = 3 * TERM_MAX };

static struct output einsum(struct graph *g, const struct output *in, int n,
                            const char *equation)
{
    struct op_builder *b = op_begin(g, "Einsum", NULL);

    for (int i = 0; i < n; i++)
        op_input(b, in[i]);
    op_attr_string(b, "equation", equation);
    return (struct output){op_finish(b), 0};
}

/* The axis of the first place of a letter: from the left, or after the dots, as a negative
 * number, from the right. */
static int axis_of(const char *term, char letter)
{
    const char *dots = strstr(term, "..."), *at = strchr(term, letter);

    return dots == NULL || at < dots ? (int)(at - term)
                                     : (int)(at - term) - (int)strlen(term);
}

/* The letters of `term` that are (is_in 1) or are not in `of`, each as often as it is there;
 * `once`: only the first time. Dots are kept with is_in 1. */
static void pick_letters(const char *term, const char *of, int is_in, int once, char *ret)
{
    int n = 0;

    for (const char *p = term; *p != '\0'; p++) {
        if (*p == '.' ? !is_in : (strchr(of, *p) != NULL) != is_in)
            continue;
        if (once && memchr(ret, *p, (size_t)n) != NULL && *p != '.')
            continue;
        ret[n++] = *p;
    }
    ret[n] = '\0';
}

static int repeats_a_letter(const char *term)
{
    for (const char *p = term; *p != '\0'; p++)
        if (*p != '.' && strchr(p + 1, *p) != NULL)
            return 1;
    return 0;
}

/* Inserts a dimension of size 1 for each of the letters where they are in `term`, which has
 * them once: those after the dots from the right, so that each axis is that of the result. */
static struct output insert_axes(struct graph *g, struct output x, const char *term,
                                 const char *letters)
{
    const int n = (int)strlen(term);

    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < n; i++) {
            const char c = term[pass == 0 ? i : n - 1 - i];
            struct output axis;

            if (c == '.' || strchr(letters, c) == NULL || (axis_of(term, c) < 0) != pass)
                continue;
            axis = constant_i32(g, axis_of(term, c), "ExpandDims/dim");
            x = binary(g, "ExpandDims", x, axis, NULL);
        }
    return x;
}

/* The gradient of "in->out", which sums over the letters `lost`. */
static struct output spread(struct graph *g, struct output d, const char *out,
                            const char *in, struct output in_shape, const char *lost)
{
    char left[TERM_MAX], equation[EQUATION_MAX];
    struct output parts[SHAPE_MAX_RANK + 1], dims;
    int n = 0;

    pick_letters(in, out, 1, 0, left);
    if (!repeats_a_letter(in) && !repeats_a_letter(out) && strcmp(left, out) == 0)
        return binary(g, "BroadcastTo", insert_axes(g, d, in, lost), in_shape, NULL);
    for (const char *p = lost; *p != '\0'; p++) {
        const int axis = axis_of(in, *p);

        parts[n++] = vector_slice(g, in_shape, axis, axis + 1, "shrink_axis_mask");
    }
    parts[0] = stacked(g, parts, (size_t)n, "stack");
    parts[1] = shape_of(g, d, NULL);
    dims = concat(g, parts, 2, 0, NULL);
    d = binary(g, "BroadcastTo", d, dims, NULL);
    (void)snprintf(equation, sizeof(equation), "%s%s->%s", lost, out, in);
    return einsum(g, &d, 1, equation);
}

/* The gradient of one of two operands, as if nothing were broadcast. */
static struct output of_operand(struct graph *g, struct output d, struct output other,
                                struct output shape, const char *in, const char *of_other,
                                const char *out)
{
    char lost[TERM_MAX], left[TERM_MAX], all[EQUATION_MAX], equation[EQUATION_MAX];
    struct output both[2] = {d, other};

    (void)snprintf(all, sizeof(all), "%s%s", out, of_other);
    pick_letters(in, all, 0, 1, lost);
    pick_letters(in, all, 1, 0, left);
    (void)snprintf(equation, sizeof(equation), "%s,%s->%s", out, of_other, left);
    d = einsum(g, both, 2, equation);
    return lost[0] != '\0' ? spread(g, d, left, in, shape, lost) : d;
}

/* The dimensions of x that the dots of its term stand for, and where they begin. */
static struct output dots_of(struct graph *g, const char *term, struct output shape,
                             int *ret_begin)
{
    const char *dots = strstr(term, "...");
    const int after = (int)strlen(dots + 3);

    *ret_begin = (int)(dots - term);
    return vector_slice(g, shape, *ret_begin, -after,
                        after == 0        ? "end_mask"
                        : *ret_begin == 0 ? "begin_mask"
                                          : NULL);
}

static void copy_term(const struct term *t, char *ret)
{
    (void)snprintf(ret, TERM_MAX, "%.*s", t->len < TERM_MAX ? t->len : TERM_MAX - 4,
                   t->text);
}

GRAD(einsum_grad)
{
    const int n = operation_n_inputs(op);
    char in[2][TERM_MAX], out[TERM_MAX], lost[TERM_MAX], equation[EQUATION_MAX];
    struct output x = input_of(op, 0), shape[2], dots[2], axes;
    struct equation e;
    int begin[2];

    if (cut_equation(operation_attr(op, "equation")->s, n, &e) != 0)
        return graph_fail(g, ERR_ARG, "%s: equation %s", operation_name(op),
                          operation_attr(op, "equation")->s);
    copy_term(&e.out, out);
    for (int i = 0; i < n; i++) {
        copy_term(&e.in[i], in[i]);
        if (n == 2 && strstr(out, "...") != NULL && strstr(in[i], "...") == NULL)
            (void)strcat(in[i], "...");
    }
    shape[0] = shape_of(g, x, NULL);
    if (n == 1) {
        pick_letters(in[0], out, 0, 1, lost);
        (void)snprintf(equation, sizeof(equation), "%s->%s", out, in[0]);
        grad_in[0] = lost[0] == '\0' ? einsum(g, grad_out, 1, equation)
                                     : spread(g, grad_out[0], out, in[0], shape[0], lost);
        return grad_done(grad_in, 1);
    }
    shape[1] = shape_of(g, input_of(op, 1), NULL);
    for (int i = 0; i < 2; i++)
        grad_in[i] =
            of_operand(g, grad_out[0], input_of(op, !i), shape[i], in[i], in[!i], out);
    if (strstr(out, "...") == NULL)
        return grad_done(grad_in, 2);
    for (int i = 0; i < 2; i++)
        dots[i] = dots_of(g, in[i], shape[i], &begin[i]);
    axes = binary(g, "BroadcastGradientArgs", dots[0], dots[1], NULL);
    for (int i = 0; i < 2; i++) {
        const struct output at =
            with_scalar(g, "Add", (struct output){axes.op, i}, begin[i], "add");

        grad_in[i] =
            binary(g, "Reshape", binary(g, "Sum", grad_in[i], at, NULL), shape[i], NULL);
    }
    return grad_done(grad_in, 2);
}

/* ---- the rows ---- */

static const struct op_def rows[] = {
    {"Einsum", 0, einsum_shape, einsum_grad, CALL(kern_einsum),
     "inputs:N*T -> output:T; equation:string, N:int, T:number_type",
     .scratch = einsum_scratch},
};

const struct op_family ops_of_einsum = OP_FAMILY(rows);
