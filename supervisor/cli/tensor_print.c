#include "supervisor/cli/tensor_print.h"

#include "common/config/yaml_tree.h"
#include "common/mem/xmalloc.h"
#include "common/text/plain_text.h"
#include "common/wire/cursor.h"
#include "supervisor/cli/array_text.h"
#include "supervisor/metrics/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* "[2, 3]" or, tight, "[2,3]" */
static void print_shape(const struct shape *s, const char *separator)
{
    (void)putchar('[');
    for (int i = 0; i < s->rank; i++)
        (void)printf("%s%" PRId64, i > 0 ? separator : "", s->dim[i]);
    (void)putchar(']');
}

void tensor_print_line(const char *name, enum dtype dtype, const struct shape *shape)
{
    char label[DTYPE_LABEL_BYTES];

    (void)printf("%s (%s) ", PLAIN_NAME(name),
                 dtype_valid((int)dtype) ? dtype_symbol(dtype)
                                         : dtype_label(dtype, label));
    print_shape(shape, ",");
    (void)putchar('\n');
}

void tensor_print_value(const char *name, const struct tensor *value)
{
    struct wbuf b = {0};

    (void)printf("tensor: %s (%s) ", PLAIN_NAME(name), dtype_name(value->dtype));
    print_shape(&value->shape, ", ");
    array_text_put(&b, value);
    (void)putchar('\n');
    (void)fwrite(b.data, 1, b.len, stdout);
    (void)putchar('\n');
    wbuf_done(&b);
}

/* [real, imaginary] */
static void put_complex(struct json *j, const struct tensor *t, int64_t i)
{
    const void *at = (const char *)t->data + (size_t)i * dtype_size(t->dtype);

    json_array(j);
    for (int k = 0; k < 2; k++)
        json_f64(j, t->dtype == DT_COMPLEX64 ? (double)((const float *)at)[k]
                                             : ((const double *)at)[k]);
    json_close(j);
}

static void put_element(struct json *j, const struct tensor *t, int64_t i)
{
    if (t->dtype == DT_STRING) {
        const struct tensor_string *s = (const struct tensor_string *)t->data + i;

        json_strn(j, s->bytes, s->len_bytes);
    } else if (dtype_is_floating(t->dtype)) {
        json_f64(j, array_f64(t, i));
    } else if (array_is_signed(t->dtype)) {
        json_i64(j, array_i64(t, i));
    } else if (t->dtype == DT_BOOL) {
        json_bool(j, array_u64(t, i) != 0);
    } else if (dtype_is_integer(t->dtype)) {
        json_u64(j, array_u64(t, i));
    } else if (t->dtype == DT_COMPLEX64 || t->dtype == DT_COMPLEX128) {
        put_complex(j, t, i);
    } else {
        json_null(j);
    }
}

void tensor_put_json(struct json *j, const char *name, enum dtype dtype,
                     const struct shape *shape, const struct tensor *value)
{
    char label[DTYPE_LABEL_BYTES];

    if (name != NULL)
        json_put_str(j, "name", name);
    json_put_str(j, "dtype", dtype_label(dtype, label));
    json_put_array(j, "shape");
    for (int i = 0; i < shape->rank; i++)
        json_i64(j, shape->dim[i]);
    json_close(j);
    if (value == NULL)
        return;
    json_put_array(j, "values");
    for (int64_t i = 0; i < tensor_elements(value); i++)
        put_element(j, value, i);
    json_close(j);
}

void tensor_print_json(const char *name, enum dtype dtype, const struct shape *shape,
                       const struct tensor *value)
{
    struct json j = {0};

    json_object(&j);
    tensor_put_json(&j, name, dtype, shape, value);
    json_print(&j, stdout);
}

int checkpoint_find_tensor(struct bundle_reader *r, const char *name,
                           const struct bundle_entry **ret, struct err *err)
{
    const size_t n = bundle_reader_count(r);
    const char **names;

    *ret = bundle_reader_find(r, name);
    if (*ret != NULL)
        return 0;
    names = xcalloc(n + 1, sizeof(*names));
    for (size_t i = 0; i < n; i++)
        names[i] = bundle_reader_entry(r, i)->name;
    (void)err_set(err, ERR_NOT_FOUND, "Tensor %s not found in checkpoint", name);
    (void)yaml_add_nearest(err, name, names, n);
    free(names);
    (void)err_note(err, ERR_AT(.tensor = name));
    return ERR_NOT_FOUND;
}
