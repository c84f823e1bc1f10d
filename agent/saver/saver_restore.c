#include "agent/saver/saver_internal.h"

#include "common/ckpt/bundle.h"
#include "common/mem/xmalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "[3,4]", as TensorFlow's kernels print shapes. */
static const char *brackets(const struct shape *shape, char *buf, size_t size)
{
    size_t n = 0;

    for (int i = 0; i < shape->rank && n < size; i++)
        n += (size_t)snprintf(buf + n, size - n, "%s%lld", i > 0 ? "," : "[",
                              (long long)shape->dim[i]);
    if (n < size)
        (void)snprintf(buf + n, size - n, shape->rank > 0 ? "]" : "[]");
    return buf;
}

static int check_entry(const struct saver *s, const struct bundle_reader *r,
                       const struct saver_item *item, struct err *err)
{
    const struct bundle_entry *e = bundle_reader_find(r, item->name);
    const struct variable *v = item->variable;
    struct shape expected = v->shape;
    struct bundle_slice slice;
    int fits, rc;

    if (e == NULL)
        return bundle_reader_missing(r, item->name, err);
    if (e->dtype != v->dtype)
        return err_set(err, ERR_DTYPE,
                       "tensor_name = %s; expected dtype %s does not equal original "
                       "dtype %s",
                       item->name, dtype_name(v->dtype), dtype_name(e->dtype));
    if (item->slice != NULL &&
        (rc = bundle_slice_from_text(item->slice, &expected, &slice, err)) != 0)
        return rc;
    fits = s->options.reshape && item->slice == NULL
               ? shape_elements(&e->shape) == shape_elements(&expected)
               : shape_equal(&e->shape, &expected);
    if (!fits)
        return err_set(err, ERR_SHAPE,
                       "Assign requires shapes of both tensors to match. lhs shape= %s "
                       "rhs shape= %s (%s)",
                       brackets(&expected, (char[SHAPE_TEXT]){0}, SHAPE_TEXT),
                       brackets(&e->shape, (char[SHAPE_TEXT]){0}, SHAPE_TEXT),
                       item->name);
    return 0;
}

static int read_item(struct bundle_reader *r, const struct saver_item *item,
                     struct tensor *ret, struct err *err)
{
    const struct bundle_entry *e = bundle_reader_find(r, item->name);
    struct bundle_slice slice;
    struct shape whole;
    int rc;

    if (item->slice == NULL)
        return bundle_reader_read(r, e, ret, err);
    rc = bundle_slice_from_text(item->slice, &whole, &slice, err);
    return rc == 0 ? bundle_reader_read_part(r, e, &slice, ret, err) : rc;
}

static int restore_item(struct session *session, struct bundle_reader *r,
                        const struct saver_item *item, struct err *err)
{
    struct tensor value = TENSOR_NONE;
    int rc = read_item(r, item, &value, err);

    if (rc == 0) {
        value.shape = item->variable->shape;
        rc = session_variable_set(session, item->variable, &value, err);
    }
    tensor_free(&value);
    return rc;
}

int saver_restore(struct saver *s, struct session *session, const char *prefix,
                  struct err *err)
{
    struct bundle_reader *r;
    int rc;

    if (!s->built)
        return err_set(err, ERR_STATE,
                       "`build()` should be called before restore if defer_build==True");
    if (s->n_items == 0)
        return 0;
    if (prefix == NULL)
        return err_set(err, ERR_ARG, "Can't load save_path when it is None.");
    if (!checkpoint_exists(prefix))
        return err_set(err, ERR_NOT_FOUND,
                       "The passed save_path is not a valid checkpoint: %s", prefix);
    rc = bundle_reader_new(&r, prefix, err);
    if (rc != 0)
        return rc;
    for (size_t i = 0; rc == 0 && i < s->n_items; i++)
        rc = check_entry(s, r, &s->items[i], err);
    for (size_t i = 0; rc == 0 && i < s->n_items; i++)
        rc = restore_item(session, r, &s->items[i], err);
    bundle_reader_free(r);
    return rc;
}

/* ---- variables without a value ---- */

static size_t add_uninitialized(struct graph *g, struct session *session, const char *key,
                                const char **ret, size_t max, size_t n)
{
    const struct collection_item *items;
    size_t n_items = collection_get(g, key, NULL, &items);

    for (size_t i = 0; i < n_items; i++) {
        if (items[i].kind != ITEM_VARIABLE ||
            session_variable_initialized(session, items[i].variable))
            continue;
        if (n < max)
            ret[n] = items[i].variable->name;
        n++;
    }
    return n;
}

size_t report_uninitialized_variables(struct graph *g, struct session *session,
                                      const char **ret, size_t max)
{
    size_t n = add_uninitialized(g, session, GLOBAL_VARIABLES, ret, max, 0);

    return add_uninitialized(g, session, LOCAL_VARIABLES, ret, max, n);
}
