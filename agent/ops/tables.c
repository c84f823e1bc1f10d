/* tables.c - look-up tables that are filled once, from constants: static hash tables.
 *
 * Such a table has no state of its own. Whatever its initialiser (InitializeTableV2, or
 * LookupTableImportV2) fills it with is in the graph, and planning hands it to each kernel
 * (agent/plan/lower_table.c), so that there is nothing to keep in a snapshot. The table has
 * its values whether or not the initialiser has run, which TensorFlow refuses.
 *
 * Source   lookup_table_op.cc, initializable_lookup_table.cc of TensorFlow. */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"
#include "common/mem/xmalloc.h"

#include <string.h>

static uint64_t hash_bytes(const void *data, size_t n)
{
    const unsigned char *c = data;
    uint64_t h = 14695981039346656037u; /* FNV-1a */

    for (size_t i = 0; i < n; i++)
        h = (h ^ c[i]) * 1099511628211u;
    return h ^ h >> 32;
}

/* The bytes of element i. */
static const void *bytes_of(const struct tensor *t, int64_t i, size_t *ret_n)
{
    const struct tensor_string *s = (const struct tensor_string *)t->data + i;

    *ret_n = t->dtype == DT_STRING ? s->len_bytes : dtype_size(t->dtype);
    return t->dtype == DT_STRING ? s->bytes : (const char *)t->data + (size_t)i * *ret_n;
}

static int same_element(const struct tensor *a, int64_t i, const struct tensor *b,
                        int64_t k)
{
    size_t n, m;
    const void *x = bytes_of(a, i, &n), *y = bytes_of(b, k, &m);

    return n == m && (n == 0 || memcmp(x, y, n) == 0);
}

/* The slot of the key, which may be empty. */
static int32_t *slot_of(const struct tensor *index, const struct tensor *keys,
                        const struct tensor *from, int64_t i)
{
    int32_t *slots = index->data;
    const uint64_t mask = (uint64_t)tensor_elements(index) - 1;
    size_t n;
    const void *key = bytes_of(from, i, &n);
    uint64_t at = hash_bytes(key, n) & mask;

    while (slots[at] != 0 && !same_element(keys, slots[at] - 1, from, i))
        at = (at + 1) & mask;
    return &slots[at];
}

int64_t table_slots(int64_t n)
{
    int64_t ret = 2;

    while (ret < 2 * n)
        ret *= 2;
    return ret;
}

int table_index(const struct operation *op, const struct tensor *keys,
                const struct tensor *values, struct tensor *index, struct err *err)
{
    memset(index->data, 0, tensor_bytes(index));
    for (int64_t i = 0; i < tensor_elements(keys); i++) {
        int32_t *slot = slot_of(index, keys, keys, i);

        if (*slot != 0 && !same_element(values, *slot - 1, values, i))
            return err_set(err, ERR_ARG,
                           "%s: keys %lld and %lld of the table are the same, "
                           "with other values",
                           operation_name(op), (long long)*slot - 1, (long long)i);
        if (*slot == 0)
            *slot = (int32_t)(i + 1);
    }
    return 0;
}

/* in: index, keys, values, what is looked up, the value of other keys */
static int kern_table_find(const struct kernel_args *a)
{
    const size_t elem = elem_size(a->in[2]);
    const char *values = a->in[2]->data;

    for (int64_t i = 0; i < tensor_elements(a->in[3]); i++) {
        const int32_t slot = *slot_of(a->in[0], a->in[1], a->in[3], i);
        const void *from =
            slot != 0 ? values + (size_t)(slot - 1) * elem : (const char *)a->in[4]->data;
        struct tensor_string s;

        if (a->out[0]->dtype != DT_STRING) {
            memcpy((char *)a->out[0]->data + (size_t)i * elem, from, elem);
            continue;
        }
        memcpy(&s, from, sizeof(s));
        s.bytes = s.len_bytes > 0 /* any bytes, zeros, too */
                      ? memcpy(xmalloc(s.len_bytes), s.bytes, s.len_bytes)
                      : NULL;
        set_string(a->out[0], i, s);
    }
    return 0;
}

/* in: index, keys, values */
static int kern_table_size(const struct kernel_args *a)
{
    int64_t n = 0;

    for (int64_t i = 0; i < tensor_elements(a->in[0]); i++)
        n += ((const int32_t *)a->in[0]->data)[i] != 0;
    *(int64_t *)a->out[0]->data = n;
    return 0;
}

/* Planning has looked at the keys and values. */
static int kern_table_fill(const struct kernel_args *a)
{
    (void)a;
    return 0;
}

/* ---- rows ---- */

static int find_shape(const struct shape_args *args)
{
    args->out[0] = args->in[1];
    return 0;
}

#define FILL(type, key, value)                                                           \
    {                                                                                    \
        type, OP_STATEFUL | OP_NO_GRADIENT | OP_TABLE, shape_none, NULL,                 \
            CALL(kern_table_fill),                                                       \
            "table_handle:resource, keys:" key ", values:" value " ->; " key             \
            ":type, " value ":type"                                                      \
    }

static const struct op_def rows[] = {
    {"HashTableV2", OP_STATEFUL | OP_NO_GRADIENT, shape_scalar, NULL, PLANNED,
     "-> table_handle:resource; container:string=, shared_name:string=, "
     "use_node_name_sharing:bool=false, key_dtype:type, value_dtype:type"},
    FILL("InitializeTableV2", "Tkey", "Tval"),
    FILL("LookupTableImportV2", "Tin", "Tout"),
    {"LookupTableFindV2", OP_NO_GRADIENT | OP_TABLE | OP_MAKES_STRINGS, find_shape, NULL,
     CALL(kern_table_find),
     "table_handle:resource, keys:Tin, default_value:Tout -> values:Tout; Tin:type, "
     "Tout:type",
     .ranks = "??0"},
    {"LookupTableSizeV2", OP_NO_GRADIENT | OP_TABLE, shape_scalar, NULL,
     CALL(kern_table_size), "table_handle:resource -> size:int64"},
};

const struct op_family ops_of_tables = OP_FAMILY(rows);
