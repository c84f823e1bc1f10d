#include "supervisor/node/row_parts.h"

#include "common/mem/xmalloc.h"
#include "common/tensor/dtype.h"

#include <stdlib.h>
#include <string.h>

/* Columns that lie beside each other are one part, with the padding between them. */
void row_parts_of(struct row_parts *ret, const struct store_layout *l,
                  const uint8_t *is_read)
{
    *ret = (struct row_parts){.row_bytes = l->row_bytes,
                              .parts = xcalloc(l->n_columns, sizeof(*ret->parts))};
    for (uint32_t c = 0; c < l->n_columns; c++) {
        const struct store_column *column = &l->columns[c];
        const uint32_t offset = (uint32_t)column->offset;
        const uint32_t end =
            offset + column->elements * (uint32_t)dtype_size((enum dtype)column->dtype);
        struct row_part *last = ret->n > 0 ? &ret->parts[ret->n - 1] : NULL;

        if (!is_read[c])
            continue;
        if (last != NULL && is_read[c - 1])
            last->bytes = end - last->offset;
        else
            ret->parts[ret->n++] = (struct row_part){offset, end - offset};
    }
    for (size_t i = 0; i < ret->n; i++)
        ret->packed_bytes += ret->parts[i].bytes;
}

void row_parts_done(struct row_parts *p)
{
    free(p->parts);
    *p = (struct row_parts){0};
}

void row_parts_pack(struct wbuf *b, const struct row_parts *p)
{
    wbuf_u64(b, p->row_bytes);
    wbuf_u32(b, (uint32_t)p->n);
    for (size_t i = 0; i < p->n; i++) {
        wbuf_u32(b, p->parts[i].offset);
        wbuf_u32(b, p->parts[i].bytes);
    }
}

int row_parts_parse(struct row_parts *ret, const struct node_message *m, struct err *err)
{
    struct cursor c = cursor_of(m->body, m->len);
    struct row_parts p = {.row_bytes = cursor_u64(&c)};
    const uint32_t n = cursor_u32(&c);
    uint64_t end = 0;
    int is_good = !c.failed && p.row_bytes > 0 && p.row_bytes <= STORE_MAX_ROW_BYTES &&
                  cursor_left(&c) == (size_t)n * 8;

    p.parts = is_good ? xcalloc((size_t)n + 1, sizeof(*p.parts)) : NULL;
    for (p.n = 0; is_good && p.n < n; p.n++) {
        struct row_part *part = &p.parts[p.n];

        part->offset = cursor_u32(&c);
        part->bytes = cursor_u32(&c);
        is_good = part->bytes > 0 && part->offset >= end &&
                  (uint64_t)part->offset + part->bytes <= p.row_bytes;
        end = (uint64_t)part->offset + part->bytes;
        p.packed_bytes += part->bytes;
    }
    if (!is_good) {
        row_parts_done(&p);
        return err_set(err, ERR_PROTOCOL, "a malformed message \"%s\" of %zu bytes",
                       node_kind_name(m->kind), m->len);
    }
    *ret = p;
    return 0;
}

void row_parts_gather(const struct row_parts *p, const uint8_t *rows, size_t n,
                      uint8_t *ret_packed)
{
    for (size_t row = 0; row < n; row++, rows += p->row_bytes)
        for (size_t i = 0; i < p->n; i++) {
            memcpy(ret_packed, rows + p->parts[i].offset, p->parts[i].bytes);
            ret_packed += p->parts[i].bytes;
        }
}

void row_parts_scatter(const struct row_parts *p, const uint8_t *packed, size_t n,
                       uint8_t *rows)
{
    for (size_t row = 0; row < n; row++, rows += p->row_bytes)
        for (size_t i = 0; i < p->n; i++) {
            memcpy(rows + p->parts[i].offset, packed, p->parts[i].bytes);
            packed += p->parts[i].bytes;
        }
}
