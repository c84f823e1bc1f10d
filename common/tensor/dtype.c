#include "common/tensor/dtype.h"

#include <stdio.h>
#include <string.h>

struct dtype_row {
    enum dtype dtype;
    const char *name;
    const char *symbol;
    size_t size;
};

static const struct dtype_row ROWS[] = {
#define DTYPE_ROW(symbol, number, name, bytes) {symbol, name, #symbol, bytes},
    DTYPE_MAP(DTYPE_ROW)
#undef DTYPE_ROW
};

enum { N_ROWS = sizeof(ROWS) / sizeof(ROWS[0]) };

static const struct dtype_row *dtype_find(int number)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        if ((int)ROWS[i].dtype == number)
            return &ROWS[i];
    }
    return NULL;
}

int dtype_valid(int number)
{
    return dtype_find(number) != NULL;
}

const char *dtype_name(enum dtype dtype)
{
    const struct dtype_row *row = dtype_find((int)dtype);

    return row != NULL ? row->name : "invalid";
}

const char *dtype_symbol(enum dtype dtype)
{
    const struct dtype_row *row = dtype_find((int)dtype);

    return row != NULL ? row->symbol : "DT_INVALID";
}

const char *dtype_label(enum dtype dtype, char ret[DTYPE_LABEL_BYTES])
{
    if (dtype_valid((int)dtype))
        return dtype_name(dtype);
    (void)snprintf(ret, DTYPE_LABEL_BYTES, "type %d", (int)dtype);
    return ret;
}

size_t dtype_size(enum dtype dtype)
{
    const struct dtype_row *row = dtype_find((int)dtype);

    return row != NULL ? row->size : 0;
}

enum dtype dtype_from_name(const char *name)
{
    for (size_t i = 0; i < N_ROWS; i++) {
        if (strcmp(ROWS[i].name, name) == 0)
            return ROWS[i].dtype;
    }
    return DT_INVALID;
}

int dtype_is_floating(enum dtype dtype)
{
    return dtype == DT_FLOAT || dtype == DT_DOUBLE || dtype == DT_HALF ||
           dtype == DT_BFLOAT16;
}

int dtype_is_integer(enum dtype dtype)
{
    switch (dtype) {
    case DT_INT8:
    case DT_INT16:
    case DT_INT32:
    case DT_INT64:
    case DT_UINT8:
    case DT_UINT16:
    case DT_UINT32:
    case DT_UINT64:
        return 1;
    default:
        return 0;
    }
}
