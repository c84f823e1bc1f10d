#include "common/ckpt/atomic_file.h"
#include "common/ckpt/bundle.h"
#include "common/ckpt/bundle_proto.h"
#include "common/ckpt/table.h"
#include "common/ckpt/table_format.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/wire/crc32c.h"

#include <stdlib.h>
#include <string.h>

/* One entry of the future index. */
struct item {
    struct wbuf key;
    struct bundle_entry entry;   /* entry.slices points to the array below */
    struct bundle_slice *slices; /* the array, which is reallocated */
};

struct bundle_writer {
    char *prefix;
    int durable;
    struct atomic_file **data; /* [n_shards] */
    uint32_t n_shards, shard;  /* number of shards; index of the one being written */
    uint64_t data_len;         /* bytes written to the current shard so far */
    struct item *items;
    size_t n_items;
    struct wbuf scratch;
};

int bundle_writer_new_sharded(struct bundle_writer **ret, const char *prefix,
                              uint32_t n_shards, int durable, struct err *err)
{
    struct bundle_writer *w = xcalloc(1, sizeof(*w));
    int rc = 0;

    CHECK(n_shards >= 1 && n_shards <= BUNDLE_MAX_SHARDS);
    w->prefix = xstrdup(prefix);
    w->durable = durable;
    w->data = xcalloc(n_shards, sizeof(struct atomic_file *));
    w->n_shards = n_shards;
    for (uint32_t i = 0; rc == 0 && i < n_shards; i++) {
        char *path = xasprintf("%s.data-%05u-of-%05u", prefix, i, n_shards);

        rc = atomic_file_new(&w->data[i], path, durable, err);
        free(path);
    }
    if (rc != 0) {
        bundle_writer_free(w);
        return rc;
    }
    *ret = w;
    return 0;
}

int bundle_writer_new(struct bundle_writer **ret, const char *prefix, int durable,
                      struct err *err)
{
    return bundle_writer_new_sharded(ret, prefix, 1, durable, err);
}

void bundle_writer_next_shard(struct bundle_writer *w)
{
    CHECK(w->shard + 1 < w->n_shards);
    w->shard++;
    w->data_len = 0;
}

void bundle_writer_free(struct bundle_writer *w)
{
    if (w == NULL)
        return;
    for (size_t i = 0; i < w->n_items; i++) {
        wbuf_done(&w->items[i].key);
        free(w->items[i].slices);
    }
    free(w->items);
    wbuf_done(&w->scratch);
    for (uint32_t i = 0; i < w->n_shards; i++)
        atomic_file_free(w->data[i]);
    free(w->data);
    free(w->prefix);
    free(w);
}

/* Adds an item; the caller fills in the key. */
static struct item *add_item(struct bundle_writer *w, enum dtype dtype,
                             const struct shape *shape)
{
    struct item *item;

    w->items = xreallocarray(w->items, w->n_items + 1, sizeof(*w->items));
    item = &w->items[w->n_items++];
    *item = (struct item){.entry = {.dtype = dtype, .shape = *shape}};
    return item;
}

static int append(struct bundle_writer *w, const void *data, size_t n, uint32_t *crc,
                  struct err *err)
{
    *crc = crc32c_extend(*crc, data, n);
    w->data_len += n;
    return atomic_file_append(w->data[w->shard], data, n, err);
}

/* Appends all lengths as varints, the masked checksum of the lengths, and all bytes. */
static int append_strings(struct bundle_writer *w, const struct tensor *t, uint32_t *crc,
                          struct err *err)
{
    const struct tensor_string *s = t->data;
    size_t n = (size_t)tensor_elements(t);
    uint32_t lengths_crc = 0, ignored = 0;
    int rc;

    wbuf_clear(&w->scratch);
    for (size_t i = 0; i < n; i++) {
        wbuf_varint(&w->scratch, s[i].len_bytes);
        lengths_crc = bundle_crc_of_length(lengths_crc, s[i].len_bytes);
    }
    rc = append(w, w->scratch.data, w->scratch.len, &ignored, err);
    wbuf_clear(&w->scratch);
    wbuf_u32(&w->scratch, crc32c_mask(lengths_crc));
    *crc = lengths_crc;
    if (rc == 0)
        rc = append(w, w->scratch.data, w->scratch.len, crc, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = append(w, s[i].bytes, s[i].len_bytes, crc, err);
    return rc;
}

static int append_tensor(struct bundle_writer *w, const struct tensor *t,
                         struct bundle_entry *entry, struct err *err)
{
    uint64_t start = w->data_len;
    uint32_t crc = 0;
    int rc = t->dtype == DT_STRING ? append_strings(w, t, &crc, err)
                                   : append(w, t->data, tensor_bytes(t), &crc, err);

    entry->shard = w->shard;
    entry->offset = start;
    entry->size_bytes = w->data_len - start;
    entry->masked_crc = crc32c_mask(crc);
    return rc;
}

static int check_tensor(const char *name, const struct tensor *t, struct err *err)
{
    if (name[0] == '\0')
        return err_set(err, ERR_ARG, "a tensor without a name");
    if (t->dtype != DT_STRING && bundle_element_bytes(t->dtype) == 0)
        return err_set(err, ERR_DTYPE, "%s: a %s cannot be stored", name,
                       dtype_name(t->dtype));
    return 0;
}

int bundle_writer_add(struct bundle_writer *w, const char *name, const struct tensor *t,
                      struct err *err)
{
    struct item *item;
    int rc = check_tensor(name, t, err);

    if (rc != 0)
        return rc;
    item = add_item(w, t->dtype, &t->shape);
    wbuf_bytes(&item->key, name, strlen(name));
    return append_tensor(w, t, &item->entry, err);
}

/* Finds the whole tensor's item, which precedes those of its slices. */
static struct item *find_whole(struct bundle_writer *w, const char *name)
{
    for (size_t i = w->n_items; i > 0; i--) {
        const struct wbuf *key = &w->items[i - 1].key;

        if (key->len == strlen(name) && memcmp(key->data, name, key->len) == 0)
            return &w->items[i - 1];
    }
    return NULL;
}

static int note_slice(struct bundle_writer *w, const char *name,
                      const struct shape *whole, const struct bundle_slice *slice,
                      enum dtype dtype, struct err *err)
{
    struct item *item = find_whole(w, name);
    struct bundle_entry *e;

    if (item == NULL) {
        item = add_item(w, dtype, whole);
        wbuf_bytes(&item->key, name, strlen(name));
    }
    e = &item->entry;
    if (e->dtype != dtype || !shape_equal(&e->shape, whole) ||
        e->n_slices == BUNDLE_MAX_SLICES)
        return err_set(err, ERR_ARG, "%s: its slices contradict, or are too many", name);
    item->slices = xreallocarray(item->slices, e->n_slices + 1, sizeof(*item->slices));
    item->slices[e->n_slices++] = *slice;
    return 0;
}

int bundle_writer_add_slice(struct bundle_writer *w, const char *name,
                            const struct shape *whole, const struct bundle_slice *slice,
                            const struct tensor *part, struct err *err)
{
    struct shape shape;
    struct item *item;
    int rc = check_tensor(name, part, err);

    if (rc != 0)
        return rc;
    if (bundle_slice_shape(whole, slice, &shape) != 0 ||
        !shape_equal(&shape, &part->shape))
        return err_set(err, ERR_SHAPE, "%s: a slice of shape %s does not fit into %s",
                       name, shape_text(&part->shape), shape_text(whole));
    rc = note_slice(w, name, whole, slice, part->dtype, err);
    if (rc != 0)
        return rc;
    item = add_item(w, part->dtype, &part->shape);
    bundle_put_slice_key(&item->key, name, whole->rank, slice);
    return append_tensor(w, part, &item->entry, err);
}

static int compare_items(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    return table_compare(x->key.data, x->key.len, y->key.data, y->key.len);
}

static int build_index(struct bundle_writer *w, struct table_writer *table,
                       struct err *err)
{
    int rc;

    wbuf_clear(&w->scratch);
    bundle_put_header(&w->scratch, w->n_shards);
    rc = table_writer_add(table, "", 0, w->scratch.data, w->scratch.len, err);
    for (size_t i = 0; rc == 0 && i < w->n_items; i++) {
        struct item *item = &w->items[i];

        item->entry.slices = item->slices;
        wbuf_clear(&w->scratch);
        bundle_put_entry(&w->scratch, &item->entry);
        rc = table_writer_add(table, item->key.data, item->key.len, w->scratch.data,
                              w->scratch.len, err);
    }
    return rc;
}

int bundle_writer_finish(struct bundle_writer *w, struct err *err)
{
    struct table_writer *table = table_writer_new();
    char *path = xasprintf("%s.index", w->prefix);
    const void *index;
    size_t len;
    int rc = 0;

    if (w->n_items > 0)
        qsort(w->items, w->n_items, sizeof(*w->items), compare_items);
    for (size_t i = 1; rc == 0 && i < w->n_items; i++)
        if (compare_items(&w->items[i - 1], &w->items[i]) == 0)
            rc = err_set(err, ERR_EXISTS, "two tensors of the name %.*s",
                         (int)w->items[i].key.len, (const char *)w->items[i].key.data);
    if (rc == 0)
        rc = build_index(w, table, err);
    for (uint32_t i = 0; rc == 0 && i < w->n_shards; i++)
        rc = atomic_file_commit(w->data[i], err);
    if (rc == 0) {
        index = table_writer_finish(table, &len);
        rc = atomic_file_write(path, index, len, w->durable, err);
    }
    table_writer_free(table);
    free(path);
    return rc;
}
