#include "supervisor/cli/tensor_export.h"

#include "common/ckpt/atomic_file.h"
#include "common/mem/xmalloc.h"
#include "common/wire/cursor.h"
#include "supervisor/cli/npy.h"
#include "supervisor/metrics/json.h"

#include <string.h>

#define RESERVED_NAME "__metadata__"

enum { HEADER_ALIGN = 8 };

static const char *dtype_text(enum dtype dtype)
{
    static const struct {
        enum dtype dtype;
        const char *text;
    } texts[] = {
        {DT_FLOAT, "F32"},     {DT_DOUBLE, "F64"}, {DT_HALF, "F16"},   {DT_INT8, "I8"},
        {DT_INT16, "I16"},     {DT_INT32, "I32"},  {DT_INT64, "I64"},  {DT_UINT8, "U8"},
        {DT_UINT16, "U16"},    {DT_UINT32, "U32"}, {DT_UINT64, "U64"}, {DT_BOOL, "BOOL"},
        {DT_BFLOAT16, "BF16"},
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (texts[i].dtype == dtype)
            return texts[i].text;
    return NULL;
}

static int check_entry(const struct bundle_entry *e, struct err *err)
{
    char label[DTYPE_LABEL_BYTES];

    if (dtype_text(e->dtype) == NULL)
        return err_set(err, ERR_UNSUPPORTED,
                       "%s is %s, which safetensors has no type for", e->name,
                       dtype_label(e->dtype, label));
    if (strcmp(e->name, RESERVED_NAME) == 0)
        return err_set(err, ERR_UNSUPPORTED, "%s: safetensors keeps that name for itself",
                       e->name);
    return 0;
}

static uint64_t bytes_of(const struct bundle_entry *e)
{
    return (uint64_t)shape_elements(&e->shape) * dtype_size(e->dtype);
}

static void put_entry(struct json *j, const struct bundle_entry *e, uint64_t begin)
{
    json_put_object(j, e->name);
    json_put_str(j, "dtype", dtype_text(e->dtype));
    json_put_array(j, "shape");
    for (int i = 0; i < e->shape.rank; i++)
        json_i64(j, e->shape.dim[i]);
    json_close(j);
    json_put_array(j, "data_offsets");
    json_u64(j, begin);
    json_u64(j, begin + bytes_of(e));
    json_close(j);
    json_close(j);
}

static void put_header(struct wbuf *b, const struct tensor_export *x)
{
    struct json j = {0};
    const char *text;
    size_t len, padded;
    uint64_t at = 0;

    json_object(&j);
    for (size_t i = 0; i < x->n; i++) {
        put_entry(&j, x->entries[i], at);
        at += bytes_of(x->entries[i]);
    }
    json_close(&j);
    text = json_line(&j, &len);
    len--; /* the end of the line */
    padded = (len + HEADER_ALIGN - 1) / HEADER_ALIGN * HEADER_ALIGN;
    wbuf_u64(b, padded);
    wbuf_bytes(b, text, len);
    while (len++ < padded)
        wbuf_u8(b, ' ');
    json_done(&j);
}

static int append_data(struct atomic_file *f, const struct tensor_export *x, size_t i,
                       struct err *err)
{
    struct tensor t = TENSOR_NONE;
    int rc = bundle_reader_read(x->from, x->entries[i], &t, err);

    if (rc == 0)
        rc = atomic_file_append(f, t.data, tensor_bytes(&t), err);
    tensor_free(&t);
    return rc;
}

int tensor_export_safetensors(const struct tensor_export *x, struct err *err)
{
    struct atomic_file *f = NULL;
    struct wbuf header = {0};
    int rc = 0;

    for (size_t i = 0; i < x->n && rc == 0; i++)
        rc = check_entry(x->entries[i], err);
    if (rc == 0)
        rc = atomic_file_new(&f, x->path, 0, err);
    if (rc < 0)
        return rc;
    put_header(&header, x);
    rc = atomic_file_append(f, header.data, header.len, err);
    for (size_t i = 0; i < x->n && rc == 0; i++)
        rc = append_data(f, x, i, err);
    if (rc == 0)
        rc = atomic_file_commit(f, err);
    atomic_file_free(f);
    wbuf_done(&header);
    return rc;
}

int tensor_export_npz(const struct tensor_export *x, struct err *err)
{
    struct npz *z;
    int rc = npz_begin(&z, x->path, err);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < x->n && rc == 0; i++) {
        struct tensor t = TENSOR_NONE;

        rc = bundle_reader_read(x->from, x->entries[i], &t, err);
        if (rc == 0)
            rc = npz_add(z, x->entries[i]->name, &t, err);
        tensor_free(&t);
    }
    return npz_end(z, rc, err);
}
