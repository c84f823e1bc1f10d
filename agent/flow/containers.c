#include "agent/flow/containers.h"

#include "agent/graph/op_def.h"
#include "agent/ops/kernel.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

struct element {
    struct contained value;
    int is_written;     /* a value was written, though a read may have taken it */
    int is_cleared;     /* a read took the value (clear_after_read) */
    struct shape shape; /* of the value that was written */
};

struct container {
    int is_stack;
    enum dtype dtype;
    int64_t n, cap; /* elements */
    struct element *elements;
    /* of a stack: */
    int64_t max; /* -1: any number */
    /* of a tensor array: */
    struct shape shape; /* of each element; unknown sizes are -1 */
    int is_dynamic, clears, adds, is_closed;
    int is_even; /* all elements have one shape: that of the first that is written */
    /* index of the array whose gradients this one holds; -1: none */
    int of;
    /* name of these gradients; one array can have several sets of gradients */
    const char *source;
};

/* ---- memory ---- */

static int charge(struct containers *c, const struct operation *op, size_t bytes,
                  struct err *err)
{
    if (bytes > CONTAINERS_MAX_BYTES - c->bytes)
        return err_set(
            err, ERR_LIMIT,
            "%s: the tensor arrays and stacks of this run would hold more than "
            "%zu MiB",
            operation_name(op), CONTAINERS_MAX_BYTES >> 20);
    c->bytes += bytes;
    return 0;
}

static void drop(struct containers *c, struct element *e)
{
    c->bytes -= tensor_bytes(&e->value.tensor);
    tensor_free(&e->value.tensor);
    e->value = (struct contained){.handle = -1};
}

static int keep(struct containers *c, const struct operation *op, struct element *e,
                const struct contained *value, struct err *err)
{
    int rc = charge(c, op, tensor_bytes(&value->tensor), err);

    if (rc != 0)
        return rc;
    e->value = (struct contained){.handle = value->handle};
    if (value->tensor.dtype != DT_RESOURCE)
        rc = tensor_copy(&e->value.tensor, &value->tensor, err);
    if (rc != 0)
        c->bytes -= tensor_bytes(&value->tensor);
    return rc;
}

/* Makes room for `n` elements. */
static int resize(struct containers *c, const struct operation *op, struct container *x,
                  int64_t n, struct err *err)
{
    int64_t cap = x->cap > 0 ? x->cap : 4;
    struct element *more;
    int rc;

    if (n <= x->cap)
        return 0;
    cap = n > 2 * cap ? n : 2 * cap;
    rc = charge(c, op, (size_t)(cap - x->cap) * sizeof(struct element), err);
    if (rc != 0)
        return rc;
    more = realloc(x->elements, (size_t)cap * sizeof(struct element));
    if (more == NULL)
        return err_set(err, ERR_NOMEM, "%s: no memory for %lld elements",
                       operation_name(op), (long long)cap);
    memset(more + x->cap, 0, (size_t)(cap - x->cap) * sizeof(struct element));
    x->elements = more;
    x->cap = cap;
    return 0;
}

static void clear(struct containers *c, struct container *x)
{
    for (int64_t i = 0; i < x->cap; i++)
        drop(c, &x->elements[i]);
    c->bytes -= (size_t)x->cap * sizeof(struct element);
    free(x->elements);
    x->elements = NULL;
    x->n = x->cap = 0;
}

void containers_done(struct containers *c)
{
    for (int i = 0; i < c->n; i++) {
        clear(c, c->items[i]);
        free(c->items[i]);
    }
    free(c->items);
    *c = (struct containers){0};
}

static int containers_add(struct containers *c, const struct operation *op,
                          struct container x, int64_t n, int *ret, struct err *err)
{
    int rc = charge(c, op, sizeof(x), err);

    if (rc == 0 && n < 0)
        rc = err_set(err, ERR_ARG, "%s: a tensor array of %lld elements",
                     operation_name(op), (long long)n);
    if (rc == 0)
        rc = resize(c, op, &x, n, err);
    if (rc != 0)
        return rc;
    x.n = n;
    ARRAY_GROW(c->items, c->n, c->cap);
    c->items[c->n] = xmalloc(sizeof(x));
    *c->items[c->n] = x;
    *ret = c->n++;
    return 0;
}

/* ---- inputs of the operations ---- */

struct call {
    struct containers *c;
    const struct operation *op;
    const struct contained *in;
    struct contained *ret;
    struct container *x; /* the container of the handle in input 0 */
    struct err *err;
};

#define fail(q, code, ...) contained_refuse((q)->op, (q)->err, (code), __VA_ARGS__)

int contained_refuse(const struct operation *op, struct err *err, int code,
                     const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)err_vset(err, code, fmt, ap);
    va_end(ap);
    return err_wrap(err, "%s", operation_name(op));
}

static int find_container(struct call *q, int is_stack)
{
    const int k = q->in[0].handle;

    if (k < 0 || k >= q->c->n || q->c->items[k]->is_stack != is_stack)
        return fail(q, ERR_ARG, "its handle is not that of a %s",
                    is_stack ? "stack" : "tensor array");
    q->x = q->c->items[k];
    if (q->x->is_closed)
        return fail(q, ERR_STATE, "TensorArray has already been closed.");
    return 0;
}

int contained_scalar(const struct operation *op, const struct contained *in, int i,
                     int64_t *ret, struct err *err)
{
    const struct tensor *t = &in[i].tensor;

    if (tensor_elements(t) != 1)
        return contained_refuse(op, err, ERR_SHAPE, "input %d is %s, not a scalar", i,
                                shape_text(&t->shape));
    *ret = tensor_int(t, 0);
    return 0;
}

static int scalar_at(struct call *q, int i, int64_t *ret)
{
    return contained_scalar(q->op, q->in, i, ret, q->err);
}

static int give(struct call *q, int i, enum dtype dtype, struct shape shape)
{
    return tensor_alloc(&q->ret[i].tensor, dtype, shape, q->err);
}

/* Returns the scalar that orders operations ("flow"). */
static int give_flow(struct call *q, int i)
{
    return give(q, i, DT_FLOAT, SHAPE_SCALAR);
}

/* ---- elements of a tensor array ---- */

static int accumulate(struct call *q, struct element *e, const struct tensor *t)
{
    const int64_t n = tensor_elements(t);

    if (!shape_equal(&e->value.tensor.shape, &t->shape))
        return fail(q, ERR_SHAPE, "a gradient of shape %s is added to one of shape %s",
                    shape_text(&t->shape), shape_text(&e->value.tensor.shape));
    for (int64_t i = 0; i < n; i++) {
        if (t->dtype == DT_FLOAT)
            ((float *)e->value.tensor.data)[i] += ((const float *)t->data)[i];
        else if (t->dtype == DT_DOUBLE)
            ((double *)e->value.tensor.data)[i] += ((const double *)t->data)[i];
        else
            return fail(q, ERR_UNSUPPORTED, "gradients of type %s are not added",
                        dtype_name(t->dtype));
    }
    return 0;
}

static int write_element(struct call *q, int64_t at, const struct contained *value)
{
    struct container *x = q->x;
    const struct shape shape = value->tensor.shape;
    struct element *e;
    int rc;

    if (at < 0 || (at >= x->n && !x->is_dynamic))
        return fail(
            q, ERR_ARG,
            "Tried to write to index %lld but array is not resizeable and size is: "
            "%lld",
            (long long)at, (long long)x->n);
    if (value->tensor.dtype != x->dtype && x->dtype != DT_RESOURCE)
        return fail(q, ERR_DTYPE,
                    "TensorArray dtype is %s but Op is trying to write dtype %s.",
                    dtype_name(x->dtype), dtype_name(value->tensor.dtype));
    if (!shape_compatible(&x->shape, &shape))
        return fail(
            q, ERR_SHAPE,
            "Could not write to TensorArray index %lld because the value shape is "
            "%s which is incompatible with the TensorArray's inferred element "
            "shape: %s",
            (long long)at, shape_text(&shape), shape_text(&x->shape));
    if (at >= INT32_MAX)
        return fail(q, ERR_LIMIT, "index %lld", (long long)at);
    if (x->is_even)
        x->shape = shape;
    rc = resize(q->c, q->op, x, at + 1, q->err);
    if (rc != 0)
        return rc;
    x->n = at + 1 > x->n ? at + 1 : x->n;
    e = &x->elements[at];
    if (x->adds && e->value.tensor.data != NULL)
        return accumulate(q, e, &value->tensor);
    if (e->is_cleared || (e->is_written && !x->adds))
        return fail(
            q, ERR_STATE,
            "Could not write to TensorArray index %lld because it has already been "
            "%s.",
            (long long)at, e->is_cleared ? "read" : "written to");
    drop(q->c, e);
    e->is_written = 1;
    e->shape = shape;
    return keep(q->c, q->op, e, value, q->err);
}

/* Allocates the value of an element that was never written: zeros. ERR_STATE if its
 * shape is not known. */
static int zeros_for(struct call *q, int64_t at, struct tensor *ret)
{
    struct container *x = q->x;
    const struct container *of = x->of >= 0 ? q->c->items[x->of] : NULL;
    struct shape shape = x->shape;

    if (of != NULL && at < of->n && of->elements[at].is_written)
        shape = of->elements[at].shape;
    if (!shape_known(&shape))
        return fail(
            q, ERR_STATE,
            "Could not read from TensorArray index %lld. Furthermore, the element "
            "shape is not fully defined: %s.",
            (long long)at, shape_text(&shape));
    return tensor_alloc(ret, x->dtype, shape, q->err);
}

/* Moves the element's value to *ret, or copies it if the array keeps values that were
 * read. */
static int read_element(struct call *q, int64_t at, struct contained *ret)
{
    struct container *x = q->x;
    struct element *e;
    int rc;

    if (at < 0 || at >= x->n)
        return fail(q, ERR_ARG, "Tried to read from index %lld but array size is: %lld",
                    (long long)at, (long long)x->n);
    e = &x->elements[at];
    if (e->is_cleared)
        return fail(q, ERR_STATE,
                    "Could not read index %lld twice because it was cleared after a "
                    "previous read (perhaps try setting clear_after_read = false?)",
                    (long long)at);
    if (!e->is_written)
        return zeros_for(q, at, &ret->tensor);
    ret->handle = e->value.handle;
    if (!x->clears && x->dtype != DT_RESOURCE)
        return tensor_copy(&ret->tensor, &e->value.tensor, q->err);
    if (!x->clears)
        return 0;
    rc = 0;
    q->c->bytes -= tensor_bytes(&e->value.tensor);
    ret->tensor = e->value.tensor;
    e->value = (struct contained){.handle = -1};
    e->is_cleared = 1;
    return rc;
}

/* ---- several elements ---- */

/* Reads n elements and concatenates them: as rows of a new dimension 0, or (joined)
 * along their own dimension 0. lengths: of each along its dimension 0. */
static int join_elements(struct call *q, const int64_t *at, int64_t n, int joined,
                         int64_t *lengths)
{
    struct contained *parts = xcalloc((size_t)n + 1, sizeof(*parts));
    struct shape shape = q->x->shape;
    int64_t rows = 0;
    size_t place = 0;
    int rc = 0;

    for (int64_t i = 0; rc == 0 && i < n; i++) {
        rc = read_element(q, at[i], &parts[i]);
        if (rc == 0 && i == 0)
            shape = parts[0].tensor.shape;
        if (rc == 0 && joined && parts[i].tensor.shape.rank == 0)
            rc = fail(q, ERR_SHAPE, "element %lld is a scalar", (long long)at[i]);
        if (rc != 0)
            break;
        struct shape part = parts[i].tensor.shape;
        lengths[i] = joined ? part.dim[0] : 1;
        rows += lengths[i];
        if (joined)
            part.dim[0] = shape.dim[0];
        if (!shape_equal(&part, &shape))
            rc = fail(
                q, ERR_SHAPE,
                "TensorArray has inconsistent shapes: index 0 has shape %s but index "
                "%lld has shape %s",
                shape_text(&shape), (long long)i, shape_text(&part));
    }
    if (rc == 0 && n == 0 && joined && shape.rank > 0)
        shape.dim[0] = 0;
    if (rc == 0 && (!shape_known(&shape) || (joined && shape.rank == 0)))
        rc = fail(q, ERR_SHAPE,
                  "TensorArray has size zero, but element shape %s is not fully defined.",
                  shape_text(&shape));
    if (rc == 0 && !joined && shape.rank == SHAPE_MAX_RANK)
        rc = fail(q, ERR_LIMIT, "elements of %d dimensions", shape.rank);
    if (rc == 0) {
        if (joined)
            shape.dim[0] = rows;
        else
            shape_insert(&shape, 0, rows);
        rc = dtype_size(q->x->dtype) == 0
                 ? fail(q, ERR_UNSUPPORTED, "elements of type %s are not joined",
                        dtype_name(q->x->dtype))
                 : give(q, 0, q->x->dtype, shape);
    }
    for (int64_t i = 0; i < n; i++) {
        const size_t bytes = tensor_bytes(&parts[i].tensor);

        if (rc == 0 && bytes > 0)
            memcpy((char *)q->ret[0].tensor.data + place, parts[i].tensor.data, bytes);
        place += bytes;
        tensor_free(&parts[i].tensor);
    }
    free(parts);
    return rc;
}

/* Cuts the value into n pieces of lengths[i] rows, and writes each as an element. whole:
 * the pieces lose dimension 0. */
static int write_pieces(struct call *q, const struct tensor *value, const int64_t *at,
                        const int64_t *lengths, int64_t n, int whole)
{
    struct shape shape = value->shape;
    size_t row = 0, place = 0;
    int64_t total = 0;
    int rc = 0;

    for (int64_t i = 0; i < n; i++) {
        if (lengths[i] < 0 || lengths[i] > INT32_MAX)
            return fail(q, ERR_ARG, "a piece of %lld rows", (long long)lengths[i]);
        total += lengths[i];
    }
    if (shape.rank < 1 || shape.dim[0] != total || dtype_size(value->dtype) == 0)
        return fail(q, ERR_SHAPE, "a value of %s %s is no %lld rows",
                    dtype_name(value->dtype), shape_text(&shape), (long long)total);
    if (total > 0)
        row = tensor_bytes(value) / (size_t)total;
    for (int64_t i = 0; rc == 0 && i < n; i++) {
        struct contained part = {.handle = -1};
        struct shape of = shape;

        of.dim[0] = lengths[i];
        if (whole)
            shape_remove(&of, 0);
        part.tensor = tensor_view(value->dtype, of, (char *)value->data + place);
        rc = write_element(q, at[i], &part);
        place += row * (size_t)lengths[i];
    }
    return rc;
}

static int64_t *indices(int64_t n)
{
    int64_t *ret = xcalloc((size_t)n + 1, sizeof(*ret));

    for (int64_t i = 0; i < n; i++)
        ret[i] = i;
    return ret;
}

static int64_t *integers(const struct tensor *t)
{
    const int64_t n = tensor_elements(t);
    int64_t *ret = xcalloc((size_t)n + 1, sizeof(*ret));

    for (int64_t i = 0; i < n; i++)
        ret[i] = tensor_int(t, i);
    return ret;
}

/* ---- the operations ---- */

static int array_new(struct call *q)
{
    const struct operation *op = q->op;
    struct container x = {.of = -1};
    int64_t n = 0;
    int rc = scalar_at(q, 0, &n);

    x.dtype = (enum dtype)operation_attr(op, "dtype")->i;
    x.shape = operation_attr(op, "element_shape")->shape;
    x.is_dynamic = (int)operation_attr(op, "dynamic_size")->i;
    x.clears = (int)operation_attr(op, "clear_after_read")->i;
    x.is_even = (int)operation_attr(op, "identical_element_shapes")->i;
    if (rc == 0)
        rc = containers_add(q->c, op, x, n, &q->ret[0].handle, q->err);
    return rc == 0 ? give_flow(q, 1) : rc;
}

static int array_grad(struct call *q)
{
    const char *source = operation_attr(q->op, "source")->s;
    const int of = q->in[0].handle;
    struct container x = {.adds = 1, .of = of, .source = source, .clears = q->x->clears};

    for (int i = 0; i < q->c->n; i++)
        if (!q->c->items[i]->is_stack && q->c->items[i]->of == of &&
            strcmp(q->c->items[i]->source, source) == 0) {
            q->ret[0].handle = i;
            return give_flow(q, 1);
        }
    if (q->x->adds)
        return fail(q, ERR_UNSUPPORTED, "gradients of a TensorArray of gradients");
    x.dtype = q->x->dtype;
    x.shape = q->x->shape;
    q->x->is_dynamic = 0;
    int rc = containers_add(q->c, q->op, x, q->x->n, &q->ret[0].handle, q->err);
    return rc == 0 ? give_flow(q, 1) : rc;
}

static int array_write(struct call *q)
{
    int64_t at = 0;
    int rc = scalar_at(q, 1, &at);

    if (rc == 0)
        rc = write_element(q, at, &q->in[2]);
    return rc == 0 ? give_flow(q, 0) : rc;
}

static int check_dtype(struct call *q, const char *attr)
{
    const enum dtype dtype = (enum dtype)operation_attr(q->op, attr)->i;

    return dtype == q->x->dtype
               ? 0
               : fail(q, ERR_DTYPE, "TensorArray dtype is %s but Op requested dtype %s.",
                      dtype_name(q->x->dtype), dtype_name(dtype));
}

static int array_read(struct call *q)
{
    int64_t at = 0;
    int rc = scalar_at(q, 1, &at);

    if (rc == 0)
        rc = check_dtype(q, "dtype");
    return rc == 0 ? read_element(q, at, &q->ret[0]) : rc;
}

/* Merges the shape in attribute `attr` into the known shape of the elements. */
static int refine(struct call *q, const char *attr, int skip_first)
{
    struct shape more = operation_attr(q->op, attr)->shape, merged;

    if (skip_first && more.rank >= 0 && more.rank < SHAPE_MAX_RANK)
        shape_insert(&more, 0, -1);
    if (shape_merge(&q->x->shape, &more, &merged) != 0)
        return fail(q, ERR_SHAPE, "elements of shape %s, not %s",
                    shape_text(&q->x->shape), shape_text(&more));
    q->x->shape = merged;
    return 0;
}

static int array_gather(struct call *q)
{
    const int64_t n = tensor_elements(&q->in[1].tensor);
    int64_t *at = integers(&q->in[1].tensor), *lengths = indices(n);
    int rc = check_dtype(q, "dtype");

    if (rc == 0)
        rc = refine(q, "element_shape", 0);
    if (rc == 0)
        rc = join_elements(q, at, n, 0, lengths);
    free(at);
    free(lengths);
    return rc;
}

static int array_concat(struct call *q)
{
    const int64_t n = q->x->n;
    int64_t *at = indices(n), *lengths = indices(n);
    int rc = check_dtype(q, "dtype");

    if (rc == 0)
        rc = refine(q, "element_shape_except0", 1);
    if (rc == 0)
        rc = join_elements(q, at, n, 1, lengths);
    if (rc == 0)
        rc = give(q, 1, DT_INT64, SHAPE(n));
    if (rc == 0 && n > 0)
        memcpy(q->ret[1].tensor.data, lengths, sizeof(*lengths) * (size_t)n);
    free(at);
    free(lengths);
    return rc;
}

static int array_scatter(struct call *q)
{
    const int64_t n = tensor_elements(&q->in[1].tensor);
    int64_t *at = integers(&q->in[1].tensor), *lengths = indices(n);
    int rc;

    for (int64_t i = 0; i < n; i++)
        lengths[i] = 1;
    rc = write_pieces(q, &q->in[2].tensor, at, lengths, n, 1);
    free(at);
    free(lengths);
    return rc == 0 ? give_flow(q, 0) : rc;
}

static int array_split(struct call *q)
{
    const int64_t n = tensor_elements(&q->in[2].tensor);
    int64_t *at = indices(n), *lengths = integers(&q->in[2].tensor);
    int rc = 0;

    if (n != q->x->n && !q->x->is_dynamic)
        rc = fail(
            q, ERR_ARG,
            "TensorArray's size is not equal to the size of lengths (%lld vs. %lld), "
            "and the TensorArray is not marked as dynamically resizeable",
            (long long)q->x->n, (long long)n);
    if (rc == 0)
        rc = write_pieces(q, &q->in[1].tensor, at, lengths, n, 0);
    free(at);
    free(lengths);
    return rc == 0 ? give_flow(q, 0) : rc;
}

static int array_size(struct call *q)
{
    int rc = give(q, 0, DT_INT32, SHAPE_SCALAR);

    if (rc == 0)
        *(int32_t *)q->ret[0].tensor.data = (int32_t)q->x->n;
    return rc;
}

static int array_close(struct call *q)
{
    clear(q->c, q->x);
    q->x->is_closed = 1;
    return 0;
}

static int stack_new(struct call *q)
{
    struct container x = {.is_stack = 1, .of = -1};
    int rc = scalar_at(q, 0, &x.max);

    x.dtype = (enum dtype)operation_attr(q->op, "elem_type")->i;
    return rc == 0 ? containers_add(q->c, q->op, x, 0, &q->ret[0].handle, q->err) : rc;
}

static int stack_push(struct call *q)
{
    struct container *x = q->x;
    int rc;

    if (q->in[1].tensor.dtype != x->dtype && x->dtype != DT_RESOURCE)
        return fail(q, ERR_DTYPE, "Must have type %s but got %s", dtype_name(x->dtype),
                    dtype_name(q->in[1].tensor.dtype));
    if (x->max >= 0 && x->n >= x->max)
        return fail(q, ERR_LIMIT, "Stack overflowed its max_size (%lld)",
                    (long long)x->max);
    rc = resize(q->c, q->op, x, x->n + 1, q->err);
    if (rc == 0)
        rc = keep(q->c, q->op, &x->elements[x->n], &q->in[1], q->err);
    if (rc != 0)
        return rc;
    x->n++;
    q->ret[0].handle = q->in[1].handle;
    return x->dtype == DT_RESOURCE
               ? 0
               : tensor_copy(&q->ret[0].tensor, &q->in[1].tensor, q->err);
}

static int stack_pop(struct call *q)
{
    struct container *x = q->x;
    int rc = check_dtype(q, "elem_type");

    if (rc != 0)
        return rc;
    if (x->n == 0)
        return fail(q, ERR_STATE, "Stack is empty when calling Pop().");
    struct element *e = &x->elements[--x->n];
    q->c->bytes -= tensor_bytes(&e->value.tensor);
    q->ret[0] = e->value;
    e->value = (struct contained){.handle = -1};
    return 0;
}

/* ---- the table ---- */

static const struct {
    const char *type;
    enum { NEW, ARRAY, STACK } takes;
    int (*run)(struct call *q);
} rows[] = {
    {"TensorArrayV3", NEW, array_new},
    {"TensorArrayGradV3", ARRAY, array_grad},
    {"TensorArrayWriteV3", ARRAY, array_write},
    {"TensorArrayReadV3", ARRAY, array_read},
    {"TensorArrayGatherV3", ARRAY, array_gather},
    {"TensorArrayScatterV3", ARRAY, array_scatter},
    {"TensorArrayConcatV3", ARRAY, array_concat},
    {"TensorArraySplitV3", ARRAY, array_split},
    {"TensorArraySizeV3", ARRAY, array_size},
    {"TensorArrayCloseV3", ARRAY, array_close},
    {"StackV2", NEW, stack_new},
    {"StackPushV2", STACK, stack_push},
    {"StackPopV2", STACK, stack_pop},
    {"StackCloseV2", STACK, array_close},
};

int containers_run(struct containers *c, const struct operation *op,
                   const struct contained *in, struct contained *ret, struct err *err)
{
    struct call q = {.c = c, .op = op, .in = in, .ret = ret, .err = err};
    int rc = 0;

    for (int i = 0; i < operation_n_outputs(op); i++)
        ret[i] = (struct contained){.handle = -1};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!operation_is(op, rows[i].type))
            continue;
        if (rows[i].takes != NEW)
            rc = find_container(&q, rows[i].takes == STACK);
        if (rc == 0)
            rc = rows[i].run(&q);
        for (int k = 0; rc != 0 && k < operation_n_outputs(op); k++)
            tensor_free(&ret[k].tensor);
        return rc;
    }
    return err_set(err, ERR_UNSUPPORTED, "%s: operations of type %s cannot be run",
                   operation_name(op), operation_type(op));
}
