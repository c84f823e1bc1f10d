#include "common/ckpt/v1_writer.h"

#include "common/ckpt/atomic_file.h"
#include "common/ckpt/bundle_proto.h"
#include "common/ckpt/protowire.h"
#include "common/ckpt/table.h"
#include "common/ckpt/table_format.h"
#include "common/ckpt/v1_format.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

/* of the format; VersionDef {1: producer} */
enum { VERSION = 1, VERSION_PRODUCER = 1 };

/* An entry of the table: a slice with its values. */
struct item {
    struct wbuf key, value;
};

/* What the list of tensors says of one. */
struct listed {
    char *name;
    enum dtype dtype;
    struct shape shape;
    struct wbuf slices; /* fields TENSOR_SLICE */
};

struct v1_writer {
    char *path;
    int durable;
    struct item *items;
    struct listed *tensors; /* in the order in which they were added */
    size_t n_items, cap_items, n_tensors, cap_tensors;
};

struct v1_writer *v1_writer_new(const char *path, int durable)
{
    struct v1_writer *w = xcalloc(1, sizeof(*w));

    w->path = xstrdup(path);
    w->durable = durable;
    return w;
}

void v1_writer_free(struct v1_writer *w)
{
    if (w == NULL)
        return;
    for (size_t i = 0; i < w->n_items; i++) {
        wbuf_done(&w->items[i].key);
        wbuf_done(&w->items[i].value);
    }
    for (size_t i = 0; i < w->n_tensors; i++) {
        free(w->tensors[i].name);
        wbuf_done(&w->tensors[i].slices);
    }
    free(w->items);
    free(w->tensors);
    free(w->path);
    free(w);
}

/* ---- values ---- */

/* The bits of element i as a varint has them: signed integers are extended to 64 bits. */
static uint64_t bits_of(const struct tensor *t, int64_t i)
{
    switch (t->dtype) {
    case DT_INT64:
        return ((const uint64_t *)t->data)[i];
    case DT_INT32:
        return (uint64_t)(int64_t)((const int32_t *)t->data)[i];
    case DT_INT16:
        return (uint64_t)(int64_t)((const int16_t *)t->data)[i];
    case DT_INT8:
        return (uint64_t)(int64_t)((const int8_t *)t->data)[i];
    case DT_BOOL:
        return ((const uint8_t *)t->data)[i] != 0;
    case DT_UINT8:
        return ((const uint8_t *)t->data)[i];
    default: /* uint16, half */
        return ((const uint16_t *)t->data)[i];
    }
}

/* Puts a TensorProto with the values alone as field DATA_VALUES. */
static void put_values(struct wbuf *b, const struct tensor *t)
{
    const struct v1_field field = v1_field_of(t->dtype);
    const int64_t n = tensor_elements(t);
    const size_t proto = pw_begin(b, DATA_VALUES);

    if (t->dtype == DT_STRING) {
        const struct tensor_string *s = t->data;

        for (int64_t i = 0; i < n; i++)
            pw_put_bytes(b, field.number, s[i].bytes, s[i].len_bytes);
    } else if (field.fixed > 0 && n > 0) {
        pw_put_bytes(b, field.number, t->data, tensor_bytes(t));
    } else if (n > 0) {
        const size_t packed = pw_begin(b, field.number);

        for (int64_t i = 0; i < n; i++)
            wbuf_varint(b, bits_of(t, i));
        pw_end(b, packed);
    }
    pw_end(b, proto);
}

/* ---- adding ---- */

static int is_stored(enum dtype dtype)
{
    return v1_field_of(dtype).number != 0 && dtype != DT_BFLOAT16 && dtype != DT_UINT32 &&
           dtype != DT_UINT64;
}

/* Finds or adds the tensor in the list. ERR_ARG: it is there with another shape or type. */
static int list_tensor(struct v1_writer *w, const char *name, enum dtype dtype,
                       const struct shape *shape, struct listed **ret, struct err *err)
{
    struct listed *t = NULL;

    for (size_t i = w->n_tensors; i > 0 && t == NULL; i--)
        if (strcmp(w->tensors[i - 1].name, name) == 0)
            t = &w->tensors[i - 1];
    if (t == NULL) {
        ARRAY_GROW(w->tensors, w->n_tensors, w->cap_tensors);
        t = &w->tensors[w->n_tensors++];
        *t = (struct listed){.name = xstrdup(name), .dtype = dtype, .shape = *shape};
    }
    *ret = t;
    return t->dtype == dtype && shape_equal(&t->shape, shape)
               ? 0
               : err_set(err, ERR_ARG, "%s: its slices contradict", name);
}

int v1_writer_add_slice(struct v1_writer *w, const char *name, const struct shape *whole,
                        const struct bundle_slice *slice, const struct tensor *part,
                        struct err *err)
{
    struct shape shape;
    struct listed *listed;
    struct item *item;
    size_t data;
    int rc;

    if (name[0] == '\0')
        return err_set(err, ERR_ARG, "a tensor without a name");
    if (!is_stored(part->dtype))
        return err_set(err, ERR_DTYPE, "%s: a V1 checkpoint cannot hold a %s", name,
                       dtype_name(part->dtype));
    if (bundle_slice_shape(whole, slice, &shape) != 0 ||
        !shape_equal(&shape, &part->shape))
        return err_set(err, ERR_SHAPE, "%s: a slice of shape %s does not fit into %s",
                       name, shape_text(&part->shape), shape_text(whole));
    rc = list_tensor(w, name, part->dtype, whole, &listed, err);
    if (rc != 0)
        return rc;
    bundle_put_slice(&listed->slices, TENSOR_SLICE, whole->rank, slice);
    ARRAY_GROW(w->items, w->n_items, w->cap_items);
    item = &w->items[w->n_items++];
    *item = (struct item){0};
    bundle_put_slice_key(&item->key, name, whole->rank, slice);
    data = pw_begin(&item->value, SLICES_DATA);
    pw_put_text(&item->value, DATA_NAME, name);
    bundle_put_slice(&item->value, DATA_SLICE, whole->rank, slice);
    put_values(&item->value, part);
    pw_end(&item->value, data);
    return 0;
}

int v1_writer_add(struct v1_writer *w, const char *name, const struct tensor *t,
                  struct err *err)
{
    struct bundle_slice all = {0};

    for (int i = 0; i < t->shape.rank; i++)
        all.length[i] = -1;
    return v1_writer_add_slice(w, name, &t->shape, &all, t, err);
}

/* ---- the file ---- */

static int compare_items(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    return table_compare(x->key.data, x->key.len, y->key.data, y->key.len);
}

/* The first entry: the list of tensors. */
static int put_list(const struct v1_writer *w, struct table_writer *table,
                    struct err *err)
{
    struct wbuf b = {0};
    const size_t meta = pw_begin(&b, SLICES_META);
    size_t version;
    int rc;

    for (size_t i = 0; i < w->n_tensors; i++) {
        const struct listed *t = &w->tensors[i];
        const size_t tensor = pw_begin(&b, META_TENSOR);

        pw_put_text(&b, TENSOR_NAME, t->name);
        bundle_put_shape(&b, TENSOR_SHAPE, &t->shape);
        pw_put_varint(&b, TENSOR_DTYPE, (uint64_t)t->dtype);
        wbuf_bytes(&b, t->slices.data, t->slices.len);
        pw_end(&b, tensor);
    }
    version = pw_begin(&b, META_VERSION);
    pw_put_varint(&b, VERSION_PRODUCER, VERSION);
    pw_end(&b, version);
    pw_end(&b, meta);
    rc = table_writer_add(table, "", 0, b.data, b.len, err);
    wbuf_done(&b);
    return rc;
}

int v1_writer_finish(struct v1_writer *w, struct err *err)
{
    struct table_writer *table = table_writer_new();
    const void *bytes;
    size_t len;
    int rc = put_list(w, table, err);

    if (w->n_items > 0)
        qsort(w->items, w->n_items, sizeof(*w->items), compare_items);
    for (size_t i = 0; rc == 0 && i < w->n_items; i++) {
        struct item *item = &w->items[i];

        if (i > 0 && compare_items(item - 1, item) == 0)
            rc = err_set(err, ERR_EXISTS, "two tensors of the name %s",
                         (const char *)item->key.data + 1);
        else
            rc = table_writer_add(table, item->key.data, item->key.len, item->value.data,
                                  item->value.len, err);
        wbuf_done(&item->value);
    }

    if (rc == 0) {
        bytes = table_writer_finish(table, &len);
        rc = atomic_file_write(w->path, bytes, len, w->durable, err);
    }
    table_writer_free(table);
    return rc;
}
