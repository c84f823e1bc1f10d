/* The operations on lists and optionals. */
#include "agent/flow/lists_internal.h"

#include "agent/graph/op_def.h"
#include "agent/ops/kernel.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- inputs ---- */

static int scalar_at(struct list_call *q, int i, int64_t *ret)
{
    return contained_scalar(q->op, q->in, i, ret, q->err);
}

/* Input i as the shape of elements: a vector, or the scalar -1 if nothing is known. */
static int shape_at(struct list_call *q, int i, struct shape *ret)
{
    const struct tensor *t = &q->in[i].tensor;
    const int64_t n = tensor_elements(t);

    *ret = SHAPE_UNKNOWN;
    if (t->shape.rank == 0 && tensor_int(t, 0) == -1)
        return 0;
    if (t->shape.rank != 1 || n > SHAPE_MAX_RANK)
        return lists_fail(q, ERR_SHAPE, "an element_shape of shape %s",
                          shape_text(&t->shape));
    ret->rank = (int)n;
    for (int k = 0; k < ret->rank; k++) {
        ret->dim[k] = tensor_int(t, k);
        if (ret->dim[k] < -1)
            return lists_fail(q, ERR_ARG, "an element_shape with a size of %lld",
                              (long long)ret->dim[k]);
    }
    return 0;
}

static int check_dtype(struct list_call *q, const struct list *x)
{
    const enum dtype dtype = (enum dtype)operation_attr(q->op, "element_dtype")->i;

    return dtype == x->dtype && !x->is_optional
               ? 0
               : lists_fail(q, ERR_DTYPE,
                            "Invalid data types; list elements %s but tried to use %s",
                            dtype_name(x->dtype), dtype_name(dtype));
}

static int check_value(struct list_call *q, const struct list *x, const struct tensor *t)
{
    if (dtype_size(x->dtype) == 0)
        return lists_fail(q, ERR_UNSUPPORTED, "lists of %s", dtype_name(x->dtype));
    if (t->dtype != x->dtype)
        return lists_fail(q, ERR_DTYPE,
                          "Invalid data types; list elements %s but tried to append %s",
                          dtype_name(x->dtype), dtype_name(t->dtype));
    if (!shape_compatible(&x->shape, &t->shape))
        return lists_fail(
            q, ERR_SHAPE,
            "Tried to append a tensor with incompatible shape to a list. Op element "
            "shape: %s list shape: %s",
            shape_text(&t->shape), shape_text(&x->shape));
    return 0;
}

/* What the list, input i (-1: none) and the list's elements say of the shape of an element. */
static int element_shape(struct list_call *q, int i, struct shape *ret)
{
    struct shape more = SHAPE_UNKNOWN;
    int rc = i >= 0 ? shape_at(q, i, &more) : 0;

    if (rc != 0)
        return rc;
    if (shape_merge(&q->x->shape, &more, ret) != 0)
        return lists_fail(q, ERR_SHAPE, "elements of shape %s, not %s",
                          shape_text(&q->x->shape), shape_text(&more));
    for (int64_t k = 0; k < q->x->n && !shape_known(ret); k++)
        if (q->x->items->at[k] != NULL &&
            shape_merge(ret, &q->x->items->at[k]->value.shape, ret) != 0)
            return lists_fail(q, ERR_SHAPE, "elements of shape %s and of shape %s",
                              shape_text(ret),
                              shape_text(&q->x->items->at[k]->value.shape));
    return 0;
}

/* ---- results ---- */

static int give(struct list_call *q, int i, enum dtype dtype, struct shape shape)
{
    return tensor_alloc(&q->ret[i].tensor, dtype, shape, q->err);
}

/* Makes output i a copy of element k, or zeros if it was never set; input `says` has the shape
 * that it has then. */
static int give_element(struct list_call *q, int i, int64_t k, int says)
{
    const struct item *e = q->x->items->at[k];
    struct shape shape;
    int rc;

    if (e != NULL)
        return tensor_copy(&q->ret[i].tensor, &e->value, q->err);
    rc = element_shape(q, says, &shape);
    if (rc == 0 && !shape_known(&shape))
        rc = lists_fail(
            q, ERR_STATE,
            "Trying to read an uninitialized tensor but element_shape is not fully "
            "defined: %s",
            shape_text(&shape));
    if (rc == 0 && q->x->dtype == DT_VARIANT)
        rc = lists_fail(q, ERR_STATE, "element %lld was never set", (long long)k);
    return rc == 0 ? give(q, i, q->x->dtype, shape) : rc;
}

/* ---- lists ---- */

static struct list new_list(struct list_call *q)
{
    return (struct list){.dtype = (enum dtype)operation_attr(q->op, "element_dtype")->i,
                         .shape = SHAPE_UNKNOWN,
                         .max = -1};
}

static int list_empty(struct list_call *q)
{
    struct list x = new_list(q);
    int rc = shape_at(q, 0, &x.shape);

    if (rc == 0)
        rc = scalar_at(q, 1, &x.max);
    if (rc == 0)
        x.items = lists_own_items(q, NULL, 0);
    return rc == 0 ? lists_give(q, 0, x) : rc;
}

static int list_reserve(struct list_call *q)
{
    struct list x = new_list(q);
    int rc = shape_at(q, 0, &x.shape);

    if (rc == 0)
        rc = scalar_at(q, 1, &x.n);
    if (rc == 0 && (x.n < 0 || x.n > INT32_MAX))
        rc = lists_fail(q, ERR_ARG,
                        "The num_elements to reserve must be a non negative number, "
                        "but got %lld",
                        (long long)x.n);
    if (rc == 0)
        x.items = lists_own_items(q, NULL, x.n);
    return rc == 0 ? lists_give(q, 0, x) : rc;
}

static int list_push(struct list_call *q)
{
    struct list x = *q->x;
    struct item *e;
    int rc = check_dtype(q, &x);

    if (rc == 0)
        rc = check_value(q, &x, &q->in[1].tensor);
    if (rc == 0 && x.max >= 0 && x.n >= x.max)
        rc = lists_fail(
            q, ERR_ARG,
            "Tried to push item into a full list list size: %lld max_num_elements: %lld",
            (long long)x.n, (long long)x.max);
    if (rc != 0)
        return rc;
    e = lists_copy_item(q, &q->in[1].tensor);
    if (e == NULL)
        return ERR_LIMIT;
    if (x.n == x.items->n)
        x.items->refs++;
    else
        x.items = lists_own_items(q, q->x, x.n);
    if (x.items == NULL || lists_grow(q, x.items, x.n + 1) != 0) {
        lists_drop_item(q->l, e);
        lists_drop_items(q->l, x.items);
        return ERR_LIMIT;
    }
    x.items->at[x.n++] = e;
    return lists_give(q, 0, x);
}

static int list_pop(struct list_call *q)
{
    struct list x = *q->x;
    int rc = check_dtype(q, &x);

    if (rc == 0 && x.n == 0)
        rc = lists_fail(q, ERR_STATE, "Trying to pop from an empty list.");
    if (rc == 0)
        rc = give_element(q, 1, x.n - 1, 1);
    if (rc != 0)
        return rc;
    x.n--;
    x.items->refs++;
    return lists_give(q, 0, x);
}

static int list_length(struct list_call *q)
{
    int rc = give(q, 0, DT_INT32, SHAPE_SCALAR);

    if (rc == 0)
        *(int32_t *)q->ret[0].tensor.data = (int32_t)q->x->n;
    return rc;
}

static int list_shape(struct list_call *q)
{
    const enum dtype dtype = (enum dtype)operation_attr(q->op, "shape_type")->i;
    const struct shape s = q->x->shape;
    int rc = give(q, 0, dtype, s.rank < 0 ? SHAPE_SCALAR : SHAPE(s.rank));

    if (rc == 0 && s.rank < 0)
        tensor_set_int(&q->ret[0].tensor, 0, -1);
    for (int i = 0; rc == 0 && i < s.rank; i++)
        tensor_set_int(&q->ret[0].tensor, i, s.dim[i]);
    return rc;
}

static int list_get(struct list_call *q)
{
    int64_t at = 0;
    int rc = check_dtype(q, q->x);

    if (rc == 0)
        rc = scalar_at(q, 1, &at);
    if (rc == 0 && (at < 0 || at >= q->x->n))
        rc = lists_fail(q, ERR_ARG,
                        "Trying to access element %lld in a list with %lld elements.",
                        (long long)at, (long long)q->x->n);
    return rc == 0 ? give_element(q, 0, at, 2) : rc;
}

static int list_set(struct list_call *q)
{
    struct list x = *q->x;
    int64_t at = 0;
    int rc = check_dtype(q, &x);

    if (rc == 0)
        rc = scalar_at(q, 1, &at);
    if (rc == 0 &&
        (at < 0 || at >= INT32_MAX ||
         (at >= x.n && !operation_attr(q->op, "resize_if_index_out_of_bounds")->i)))
        rc = lists_fail(q, ERR_ARG,
                        "Trying to modify element %lld in a list with %lld elements.",
                        (long long)at, (long long)x.n);
    if (rc == 0)
        rc = check_value(q, &x, &q->in[2].tensor);
    if (rc != 0)
        return rc;
    x.n = at >= x.n ? at + 1 : x.n;
    x.items = lists_own_items(q, q->x, x.n);
    if (x.items == NULL)
        return ERR_LIMIT;
    lists_drop_item(q->l, x.items->at[at]);
    x.items->at[at] = lists_copy_item(q, &q->in[2].tensor);
    if (x.items->at[at] == NULL) {
        lists_drop_items(q->l, x.items);
        return ERR_LIMIT;
    }
    return lists_give(q, 0, x);
}

static int list_resize(struct list_call *q)
{
    struct list x = *q->x;
    int rc = scalar_at(q, 1, &x.n);

    if (rc == 0 && (x.n < 0 || x.n > INT32_MAX))
        rc = lists_fail(q, ERR_ARG, "TensorListResize: size %lld", (long long)x.n);
    if (rc != 0)
        return rc;
    x.items = lists_own_items(q, q->x, x.n);
    return lists_give(q, 0, x);
}

/* ---- several elements ---- */

/* Joins n elements, at[i] or all in order (NULL): as rows of a new dimension 0, or along their
 * own dimension 0, whose sizes are then written to lengths (unset ones have lengths[i]). */
static int join(struct list_call *q, const struct tensor *at, int64_t n,
                struct shape shape, int64_t *lengths)
{
    struct shape all = shape;
    int64_t rows = 0;
    size_t place = 0;
    int rc = 0;

    if (!shape_known(&shape) || dtype_size(q->x->dtype) == 0 || q->x->dtype == DT_VARIANT)
        return lists_fail(
            q, ERR_SHAPE,
            "Tried to stack elements of %s list with non-fully-defined element_shape: "
            "%s",
            n == 0 ? "an empty" : "a", shape_text(&shape));
    if (lengths == NULL ? shape.rank == SHAPE_MAX_RANK : shape.rank == 0)
        return lists_fail(q, ERR_SHAPE, "elements of %d dimensions", shape.rank);
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = at != NULL ? tensor_int(at, i) : i;
        const struct item *e;
        struct shape part = shape;

        if (k < 0 || k >= q->x->n)
            return lists_fail(
                q, ERR_ARG, "Trying to gather element %lld in a list with %lld elements.",
                (long long)k, (long long)q->x->n);
        e = q->x->items->at[k];
        if (e != NULL)
            part = e->value.shape;
        else if (lengths != NULL)
            part.dim[0] = lengths[i];
        if (lengths != NULL && part.rank > 0)
            lengths[i] = part.dim[0];
        rows += lengths != NULL && part.rank > 0 ? part.dim[0] : 1;
        if (lengths != NULL && part.rank > 0)
            part.dim[0] = shape.dim[0];
        if (!shape_equal(&part, &shape))
            return lists_fail(
                q, ERR_SHAPE,
                "Tried to stack list which contains different-sized elements: %s and "
                "%s",
                shape_text(&part), shape_text(&shape));
    }
    if (lengths != NULL)
        all.dim[0] = rows;
    else
        shape_insert(&all, 0, rows);
    rc = give(q, 0, q->x->dtype, all);
    for (int64_t i = 0; rc == 0 && i < n; i++) {
        const int64_t k = at != NULL ? tensor_int(at, i) : i;
        const struct item *e = q->x->items->at[k];
        struct shape part = shape;
        size_t bytes;

        if (lengths != NULL)
            part.dim[0] = lengths[i];
        bytes = (size_t)shape_elements(&part) * dtype_size(q->x->dtype);
        if (e != NULL && bytes > 0)
            memcpy((char *)q->ret[0].tensor.data + place, e->value.data, bytes);
        place += bytes;
    }
    return rc;
}

static int list_stack(struct list_call *q)
{
    const int64_t wanted = operation_attr(q->op, "num_elements")->i;
    struct shape shape;
    int rc = check_dtype(q, q->x);

    if (rc == 0 && wanted != -1 && wanted != q->x->n)
        rc = lists_fail(
            q, ERR_ARG,
            "Operation expected a list with %lld elements but got a list with %lld "
            "elements.",
            (long long)wanted, (long long)q->x->n);
    if (rc == 0)
        rc = element_shape(q, 1, &shape);
    return rc == 0 ? join(q, NULL, q->x->n, shape, NULL) : rc;
}

static int list_gather(struct list_call *q)
{
    struct shape shape;
    int rc = check_dtype(q, q->x);

    if (rc == 0)
        rc = element_shape(q, 2, &shape);
    return rc == 0
               ? join(q, &q->in[1].tensor, tensor_elements(&q->in[1].tensor), shape, NULL)
               : rc;
}

/* The elements have equal shapes but for dimension 0. Those never set have the rows that input
 * 2, leading_dims, says. */
static int list_concat(struct list_call *q)
{
    const struct tensor *leading = &q->in[2].tensor;
    const int64_t n = q->x->n;
    int64_t *lengths;
    struct shape shape = q->x->shape, more;
    int rc = check_dtype(q, q->x);

    if (rc == 0)
        rc = shape_at(q, 1, &more);
    if (rc == 0 && shape_merge(&shape, &more, &shape) != 0)
        rc = lists_fail(q, ERR_SHAPE, "elements of shape %s, not %s", shape_text(&shape),
                        shape_text(&more));
    for (int64_t i = 0; rc == 0 && i < n; i++) {
        if (q->x->items->at[i] == NULL)
            continue;
        more = q->x->items->at[i]->value.shape;
        if (more.rank > 0 && shape.rank > 0)
            more.dim[0] = shape.dim[0];
        if (shape_merge(&shape, &more, &shape) != 0)
            rc = lists_fail(q, ERR_SHAPE, "elements of shape %s and of shape %s",
                            shape_text(&shape), shape_text(&more));
    }
    if (rc != 0)
        return rc;
    if (shape.rank > 0 && shape.dim[0] < 0)
        shape.dim[0] = 0; /* join takes the sizes of the elements */
    lengths = xcalloc((size_t)n + 1, sizeof(*lengths));
    for (int64_t i = 0; rc == 0 && i < n; i++) {
        lengths[i] = i < tensor_elements(leading) ? tensor_int(leading, i) : -1;
        if (q->x->items->at[i] == NULL && (lengths[i] < 0 || lengths[i] > INT32_MAX))
            rc = lists_fail(
                q, ERR_STATE,
                "Concatenating lists with uninitialized tensors is not supported "
                "without leading_dims: element %lld",
                (long long)i);
    }
    if (rc == 0)
        rc = join(q, NULL, n, shape, lengths);
    if (rc == 0)
        rc = give(q, 1, DT_INT64, SHAPE(n));
    if (rc == 0 && n > 0)
        memcpy(q->ret[1].tensor.data, lengths, sizeof(*lengths) * (size_t)n);
    free(lengths);
    return rc;
}

/* Sets n elements of the items: pieces of lengths[i] rows of the value, or (NULL) its rows. */
static int set_pieces(struct list_call *q, struct list *x, const struct tensor *value,
                      int64_t n, const struct tensor *at, const struct tensor *lengths)
{
    struct shape part = value->shape;
    const int64_t rows = part.rank > 0 ? part.dim[0] : 0;
    const size_t row = rows > 0 ? tensor_bytes(value) / (size_t)rows : 0;
    int64_t first = 0;
    int rc = 0;

    if (part.rank == 0)
        return lists_fail(q, ERR_SHAPE,
                          "Tensor must be at least a vector, but saw shape: []");
    if (lengths == NULL && rows != n)
        return lists_fail(q, ERR_SHAPE, "%lld indices for %lld rows", (long long)n,
                          (long long)rows);
    for (int64_t i = 0; rc == 0 && i < n; i++) {
        const int64_t k = at != NULL ? tensor_int(at, i) : i;
        const int64_t size = lengths != NULL ? tensor_int(lengths, i) : 1;
        struct tensor piece;

        if (size < 0 || size > rows - first)
            return lists_fail(q, ERR_ARG, "pieces of more than the %lld rows",
                              (long long)rows);
        if (k < 0 || k >= x->n)
            return lists_fail(q, ERR_ARG, "Trying to scatter to element %lld of %lld",
                              (long long)k, (long long)x->n);
        part = value->shape;
        if (lengths != NULL)
            part.dim[0] = size;
        else
            shape_remove(&part, 0);
        piece =
            tensor_view(value->dtype, part, (char *)value->data + row * (size_t)first);
        rc = check_value(q, x, &piece);
        if (rc != 0)
            return rc;
        lists_drop_item(q->l, x->items->at[k]);
        x->items->at[k] = lists_copy_item(q, &piece);
        if (x->items->at[k] == NULL)
            return ERR_LIMIT;
        first += size;
    }
    if (lengths != NULL && first != rows)
        return lists_fail(q, ERR_ARG, "pieces of %lld rows, not of %lld",
                          (long long)first, (long long)rows);
    return 0;
}

/* A list of n elements, which are cut from input 0. shape: the input with their shape. */
static int cut_list(struct list_call *q, int shape, int64_t n, const struct tensor *at,
                    int64_t n_at, const struct tensor *lengths)
{
    struct list x = new_list(q);
    int rc = shape_at(q, shape, &x.shape);

    if (rc != 0)
        return rc;
    x.n = n;
    x.items = lists_own_items(q, NULL, n);
    if (x.items == NULL)
        return ERR_LIMIT;
    rc = set_pieces(q, &x, &q->in[0].tensor, n_at, at, lengths);
    if (rc == 0)
        return lists_give(q, 0, x);
    lists_drop_items(q->l, x.items);
    return rc;
}

static int list_from_tensor(struct list_call *q)
{
    const struct shape *s = &q->in[0].tensor.shape;
    const int64_t n = s->rank > 0 ? s->dim[0] : 0;

    return cut_list(q, 1, n, NULL, n, NULL);
}

static int list_split(struct list_call *q)
{
    const int64_t n = tensor_elements(&q->in[2].tensor);

    return cut_list(q, 1, n, NULL, n, &q->in[2].tensor);
}

/* TensorListScatter makes a list up to the largest index; V2 has the number, if it is not
 * -1. */
static int list_scatter(struct list_call *q)
{
    const struct tensor *at = &q->in[1].tensor;
    const int64_t n_at = tensor_elements(at);
    int64_t n = -1, largest = -1;
    int rc = operation_n_inputs(q->op) > 3 ? scalar_at(q, 3, &n) : 0;

    for (int64_t i = 0; i < n_at; i++)
        largest = tensor_int(at, i) > largest ? tensor_int(at, i) : largest;
    if (n < 0)
        n = largest + 1;
    return rc == 0 ? cut_list(q, 2, n, at, n_at, NULL) : rc;
}

static int list_scatter_into(struct list_call *q)
{
    const struct tensor *at = &q->in[2].tensor;
    const int64_t n_at = tensor_elements(at);
    struct list x = *q->x;
    int rc = check_dtype(q, &x);

    for (int64_t i = 0; i < n_at; i++)
        if (tensor_int(at, i) >= x.n && tensor_int(at, i) < INT32_MAX)
            x.n = tensor_int(at, i) + 1;
    if (rc != 0)
        return rc;
    x.items = lists_own_items(q, q->x, x.n);
    if (x.items == NULL)
        return ERR_LIMIT;
    rc = set_pieces(q, &x, &q->in[1].tensor, n_at, at, NULL);
    if (rc == 0)
        return lists_give(q, 0, x);
    lists_drop_items(q->l, x.items);
    return rc;
}

/* ---- arithmetic: gradients of lists ---- */

static int add_values(struct list_call *q, const struct tensor *a, const struct tensor *b,
                      struct tensor *ret, int depth);

/* Makes a list of what `fn` gives for each pair of elements; `b` NULL: for each element. */
static int map_list(struct list_call *q, const struct list *a, const struct list *b,
                    struct contained *ret, int depth,
                    int (*fn)(struct list_call *q, const struct tensor *a,
                              const struct tensor *b, struct tensor *ret, int depth))
{
    struct list x = *a;
    struct list_call inner = *q;

    if (depth > LISTS_MAX_DEPTH)
        return lists_fail(q, ERR_LIMIT, "lists in lists, more than %d deep",
                          LISTS_MAX_DEPTH);
    if (b != NULL &&
        (a->n != b->n || a->dtype != b->dtype || a->is_optional != b->is_optional))
        return lists_fail(q, ERR_ARG,
                          "Trying to add two lists of tensors with different lengths or "
                          "types: %lld %s and %lld %s",
                          (long long)a->n, dtype_name(a->dtype), (long long)b->n,
                          dtype_name(b->dtype));
    if (b != NULL && shape_merge(&a->shape, &b->shape, &x.shape) != 0)
        return lists_fail(q, ERR_SHAPE, "lists of elements of shape %s and %s are added",
                          shape_text(&a->shape), shape_text(&b->shape));
    x.items = lists_own_items(q, NULL, a->n);
    for (int64_t i = 0; x.items != NULL && i < a->n; i++) {
        struct item *e = a->items->at[i], *f = b != NULL ? b->items->at[i] : NULL;
        struct tensor t = {0};

        if (e != NULL && (b == NULL || f != NULL)) {
            const int rc = fn(q, &e->value, b != NULL ? &f->value : NULL, &t, depth);

            x.items->at[i] = rc == 0 ? lists_new_item(q, t) : NULL;
            if (x.items->at[i] == NULL) {
                lists_drop_items(q->l, x.items);
                return rc != 0 ? rc : ERR_LIMIT;
            }
        } else {
            x.items->at[i] = e != NULL ? e : f;
            if (x.items->at[i] != NULL)
                x.items->at[i]->refs++;
        }
    }
    inner.ret = ret;
    return lists_give(&inner, 0, x);
}

static int zero_value(struct list_call *q, const struct tensor *a, const struct tensor *b,
                      struct tensor *ret, int depth)
{
    const struct list *x = lists_find(q->l, a);
    struct contained list = {.handle = -1};
    int rc;

    if (a->dtype != DT_VARIANT)
        return tensor_alloc(ret, a->dtype, a->shape, q->err);
    if (x == NULL)
        return lists_fail(q, ERR_ARG, "its input is no tensor list");
    rc = map_list(q, x, NULL, &list, depth + 1, zero_value);
    *ret = list.tensor;
    return rc;
}

#define ADD(T)                                                                           \
    for (int64_t i = 0; i < n; i++)                                                      \
        ((T *)ret->data)[i] = (T)(((const T *)a->data)[i] + ((const T *)b->data)[i]);    \
    break;

static int add_values(struct list_call *q, const struct tensor *a, const struct tensor *b,
                      struct tensor *ret, int depth)
{
    const int64_t n = tensor_elements(a);
    const struct list *x = lists_find(q->l, a), *y = lists_find(q->l, b);
    struct contained list = {.handle = -1};
    int rc;

    if (a->dtype == DT_VARIANT && b->dtype == DT_VARIANT) {
        if (x == NULL || y == NULL)
            return lists_fail(q, ERR_ARG, "an input is no tensor list");
        rc = map_list(q, x, y, &list, depth + 1, add_values);
        *ret = list.tensor;
        return rc;
    }
    if (a->dtype != b->dtype || !shape_equal(&a->shape, &b->shape))
        return lists_fail(q, ERR_SHAPE, "%s %s and %s %s are added", dtype_name(a->dtype),
                          shape_text(&a->shape), dtype_name(b->dtype),
                          shape_text(&b->shape));
    rc = tensor_alloc(ret, a->dtype, a->shape, q->err);
    if (rc != 0)
        return rc;
    switch (a->dtype) {
    case DT_FLOAT:
        ADD(float)
    case DT_DOUBLE:
        ADD(double)
    case DT_INT32:
        ADD(uint32_t)
    case DT_INT64:
        ADD(uint64_t)
    default:
        tensor_free(ret);
        return lists_fail(q, ERR_UNSUPPORTED, "elements of type %s are not added",
                          dtype_name(a->dtype));
    }
    return 0;
}

static int list_zeros(struct list_call *q)
{
    return map_list(q, q->x, NULL, &q->ret[0], 0, zero_value);
}

/* Sums from the first to the last, as TensorFlow does. */
static int list_sum(struct list_call *q)
{
    struct contained sum = {.handle = -1};
    int rc = tensor_copy(&sum.tensor, &q->in[0].tensor, q->err);

    for (int i = 1; rc == 0 && i < operation_n_inputs(q->op); i++) {
        struct tensor next = {0};

        rc = add_values(q, &sum.tensor, &q->in[i].tensor, &next, 0);
        tensor_free(&sum.tensor);
        sum.tensor = next;
    }
    if (rc == 0)
        q->ret[0].tensor = sum.tensor;
    else
        tensor_free(&sum.tensor);
    return rc;
}

/* ---- optionals ---- */

/* OptionalFromValue, and OptionalNone, which has no inputs. An optional without a value has
 * max 0. */
static int optional_new(struct list_call *q)
{
    const int n = operation_n_inputs(q->op);
    struct list x = {.shape = SHAPE_UNKNOWN, .n = n, .max = n > 0, .is_optional = 1};

    x.items = lists_own_items(q, NULL, n);
    for (int i = 0; x.items != NULL && i < n; i++) {
        x.items->at[i] = dtype_size(q->in[i].tensor.dtype) > 0
                             ? lists_copy_item(q, &q->in[i].tensor)
                             : (lists_fail(q, ERR_UNSUPPORTED, "an optional of type %s",
                                           dtype_name(q->in[i].tensor.dtype)),
                                NULL);
        if (x.items->at[i] == NULL) {
            lists_drop_items(q->l, x.items);
            return ERR_UNSUPPORTED;
        }
    }
    return lists_give(q, 0, x);
}

static int optional_has(struct list_call *q)
{
    int rc = give(q, 0, DT_BOOL, SHAPE_SCALAR);

    if (rc == 0)
        *(uint8_t *)q->ret[0].tensor.data = q->x->is_optional && q->x->max > 0;
    return rc;
}

static int optional_get(struct list_call *q)
{
    const int n = operation_n_outputs(q->op);
    int rc = 0;

    if (!q->x->is_optional || q->x->max == 0)
        return lists_fail(q, ERR_ARG, "The given optional does not have a value.");
    if (q->x->n != n)
        return lists_fail(q, ERR_ARG,
                          "The given optional has %lld components, expected %d.",
                          (long long)q->x->n, n);
    for (int i = 0; rc == 0 && i < n; i++) {
        const struct tensor *t = &q->x->items->at[i]->value;

        if (t->dtype !=
            output_dtype((struct output){
                graph_operation_at(operation_graph(q->op), operation_id(q->op)), i}))
            rc = lists_fail(q, ERR_DTYPE, "component %d of the optional is %s", i,
                            dtype_name(t->dtype));
        else
            rc = tensor_copy(&q->ret[i].tensor, t, q->err);
    }
    return rc;
}

/* ---- the table ---- */

static const struct row {
    const char *type;
    int takes_list; /* in input 0 */
    int (*run)(struct list_call *q);
} rows[] = {
    {"EmptyTensorList", 0, list_empty},
    {"TensorListReserve", 0, list_reserve},
    {"TensorListPushBack", 1, list_push},
    {"TensorListPopBack", 1, list_pop},
    {"TensorListLength", 1, list_length},
    {"TensorListElementShape", 1, list_shape},
    {"TensorListGetItem", 1, list_get},
    {"TensorListSetItem", 1, list_set},
    {"TensorListResize", 1, list_resize},
    {"TensorListStack", 1, list_stack},
    {"TensorListGather", 1, list_gather},
    {"TensorListConcatV2", 1, list_concat},
    {"TensorListFromTensor", 0, list_from_tensor},
    {"TensorListSplit", 0, list_split},
    {"TensorListScatter", 0, list_scatter},
    {"TensorListScatterV2", 0, list_scatter},
    {"TensorListScatterIntoExistingList", 1, list_scatter_into},
    {"ZerosLike", 1, list_zeros},
    {"AddN", 1, list_sum},
    {"OptionalFromValue", 0, optional_new},
    {"OptionalNone", 0, optional_new},
    {"OptionalHasValue", 1, optional_has},
    {"OptionalGetValue", 1, optional_get},
};

static const struct row *row_of(const struct operation *op)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (operation_is(op, rows[i].type))
            return &rows[i];
    return NULL;
}

int lists_has(const struct operation *op)
{
    return row_of(op) != NULL;
}

int lists_run(struct lists *l, const struct operation *op, const struct contained *in,
              struct contained *ret, struct err *err)
{
    const struct row *row = row_of(op);
    struct list_call q = {.l = l, .op = op, .in = in, .ret = ret, .err = err};
    int rc = 0;

    CHECK(row != NULL, "%s", operation_name(op));
    for (int i = 0; i < operation_n_outputs(op); i++)
        ret[i] = (struct contained){.handle = -1};
    if (row->takes_list) {
        q.x = lists_find(l, &in[0].tensor);
        rc = q.x != NULL ? 0 : lists_fail(&q, ERR_ARG, "input 0 is no tensor list");
    }
    if (rc == 0)
        rc = row->run(&q);
    for (int k = 0; rc != 0 && k < operation_n_outputs(op); k++)
        tensor_free(&ret[k].tensor);
    return rc;
}
