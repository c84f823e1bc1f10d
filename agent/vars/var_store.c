#include "agent/vars/var_store.h"

#include "agent/graph/op_table.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN 64u

struct place {
    const struct operation *op; /* VariableV2 or VarHandleOp */
    enum dtype dtype;
    struct shape shape;
    size_t offset;
};

struct var_store {
    struct graph *graph;
    int n_seen; /* operations of the graph that were examined so far */
    struct place *places;
    int n, cap;
    char *block;
    size_t bytes, capacity;
    int borrowed;    /* the caller owns the block */
    int holds_state; /* the block's contents must still be checked */
    unsigned moves;
};

static size_t round_up(size_t n)
{
    return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

int var_store_new(struct var_store **ret, struct graph *g, void *block, size_t capacity,
                  int holds_state, struct err *err)
{
    if ((uintptr_t)block % ALIGN != 0)
        return err_set(err, ERR_ARG, "the variables' block is not 64-byte aligned");
    struct var_store *s = xcalloc(1, sizeof(*s));
    s->graph = g;
    s->block = block;
    s->capacity = block ? capacity : 0;
    s->borrowed = block != NULL;
    s->holds_state = block != NULL && holds_state;
    int r = var_store_place(s, err);
    if (r < 0) {
        var_store_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

void var_store_free(struct var_store *s)
{
    if (!s)
        return;
    if (!s->borrowed)
        free(s->block);
    free(s->places);
    free(s);
}

static uint64_t hash_bytes(uint64_t h, const void *p, size_t n)
{
    const unsigned char *b = p; /* FNV-1a */
    for (size_t i = 0; i < n; i++)
        h = (h ^ b[i]) * 0x100000001b3u;
    return h;
}

static uint64_t layout_hash(const struct var_store *s)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (int i = 0; i < s->n; i++) {
        const struct place *p = &s->places[i];
        const char *name = operation_name(p->op);
        int64_t words[2] = {p->dtype, p->shape.rank};
        h = hash_bytes(h, name, strlen(name) + 1);
        h = hash_bytes(h, words, sizeof(words));
        h = hash_bytes(h, p->shape.dim, sizeof(int64_t) * (size_t)p->shape.rank);
    }
    return h;
}

/* Finds the graph's new variables; their offsets are not set yet. */
static int find_places(struct var_store *s, struct err *err)
{
    for (; s->n_seen < graph_n_operations(s->graph); s->n_seen++) {
        const struct operation *op = graph_operation_at(s->graph, s->n_seen);
        if (!operation_is_variable(op))
            continue;
        struct place p = {op, (enum dtype)operation_attr(op, "dtype")->i,
                          operation_attr(op, "shape")->shape, 0};
        if (dtype_size(p.dtype) == 0)
            return err_set(err, ERR_UNSUPPORTED, "variable %s: values of dtype %s",
                           operation_name(op), dtype_name(p.dtype));
        if (shape_known(&p.shape) && shape_elements(&p.shape) < 0)
            return err_set(err, ERR_LIMIT, "variable %s: %s has 2^63 elements or more",
                           operation_name(op), shape_text(&p.shape));
        if (!shape_known(&p.shape))
            return err_set(err, ERR_SHAPE, "variable %s: its shape %s is not known",
                           operation_name(op), shape_text(&p.shape));
        if (s->n == s->cap) {
            s->cap = s->cap ? 2 * s->cap : 16;
            s->places = xreallocarray(s->places, (size_t)s->cap, sizeof(*s->places));
        }
        s->places[s->n++] = p;
    }
    return 0;
}

static size_t value_bytes(const struct place *p)
{
    return (size_t)shape_elements(&p->shape) * dtype_size(p->dtype);
}

/* The size of a block for all variables; 0 if it overflows. */
static size_t layout_bytes(const struct var_store *s)
{
    size_t at = round_up(sizeof(struct var_header) + (size_t)s->n);
    for (int i = 0; i < s->n; i++) {
        size_t n;
        if (!mem_mul((size_t)shape_elements(&s->places[i].shape),
                     dtype_size(s->places[i].dtype), &n) ||
            !mem_add(n, ALIGN, &n) || !mem_add(at, n, &n))
            return 0;
        at = round_up(at + value_bytes(&s->places[i]));
    }
    return at;
}

static void write_header(struct var_store *s)
{
    *(struct var_header *)(void *)s->block = (struct var_header){
        .magic = VAR_MAGIC,
        .version = VAR_VERSION,
        .layout_hash = layout_hash(s),
        .n_variables = (uint64_t)s->n,
        .size_bytes = s->bytes,
    };
}

static void assign_offsets(struct var_store *s)
{
    size_t at = round_up(sizeof(struct var_header) + (size_t)s->n);
    for (int i = 0; i < s->n; i++) {
        s->places[i].offset = at;
        at = round_up(at + value_bytes(&s->places[i]));
    }
}

/* Checks and keeps the state that the given block holds. */
static int adopt_state(struct var_store *s, size_t bytes, struct err *err)
{
    const struct var_header *h = (const void *)s->block;
    if (h->magic != VAR_MAGIC || h->version != VAR_VERSION ||
        h->layout_hash != layout_hash(s) || h->size_bytes != bytes)
        return err_set(err, ERR_STATE, "the block holds the variables of another graph");
    s->holds_state = 0;
    s->bytes = bytes;
    assign_offsets(s);
    return 0;
}

/* Makes a block for all variables; the first n_old keep flag and value. */
static int relayout(struct var_store *s, int n_old, size_t bytes, struct err *err)
{
    char *fresh = mem_aligned(bytes);
    if (!fresh)
        return err_set(err, ERR_NOMEM, "no memory for %zu bytes of variables", bytes);
    memset(fresh, 0, bytes);
    struct place *old = NULL;
    if (n_old > 0) {
        old = xreallocarray(NULL, (size_t)n_old, sizeof(*old));
        memcpy(old, s->places, sizeof(*old) * (size_t)n_old);
        memcpy(fresh + sizeof(struct var_header), s->block + sizeof(struct var_header),
               (size_t)n_old);
    }
    assign_offsets(s);
    for (int i = 0; i < n_old; i++)
        memcpy(fresh + s->places[i].offset, s->block + old[i].offset,
               value_bytes(&old[i]));
    free(old);
    if (s->borrowed) {
        memcpy(s->block, fresh, bytes);
        free(fresh);
    } else {
        free(s->block);
        s->block = fresh;
    }
    s->bytes = bytes;
    write_header(s);
    return 0;
}

/* As decimal digits: printf has no format for 128-bit numbers. */
static const char *decimal(unsigned __int128 n, char text[40])
{
    char *p = text + 39;

    *p = '\0';
    do
        *--p = (char)('0' + (int)(n % 10));
    while ((n /= 10) != 0);
    return p;
}

/* The number of elements of every shape fits in 63 bits, but the bytes of all variables
 * may not fit in 64. */
static int too_large(const struct var_store *s, struct err *err)
{
    unsigned __int128 sum = round_up(sizeof(struct var_header) + (size_t)s->n), most = 0;
    const struct place *largest = NULL;
    char all[40], one[40], room[64];

    for (int i = 0; i < s->n; i++) {
        const struct place *p = &s->places[i];
        const unsigned __int128 bytes =
            (unsigned __int128)shape_elements(&p->shape) * dtype_size(p->dtype);

        sum = (sum + bytes + ALIGN - 1) / ALIGN * ALIGN;
        largest = largest == NULL || bytes > most ? p : largest;
        most = bytes > most ? bytes : most;
    }
    (void)snprintf(room, sizeof(room), "their block has %zu", s->capacity);
    return err_set(err, ERR_LIMIT, "%d variables need %s bytes (%s, %s, alone %s); %s",
                   s->n, decimal(sum, all),
                   largest != NULL ? operation_name(largest->op) : "",
                   largest != NULL ? shape_text(&largest->shape) : "", decimal(most, one),
                   s->borrowed ? room : "that is more than can be addressed");
}

/* Makes room for the variables from n_old on. */
static int make_room(struct var_store *s, int n_old, struct err *err)
{
    size_t bytes = layout_bytes(s);
    if (bytes == 0 || (s->borrowed && bytes > s->capacity))
        return too_large(s, err);
    s->moves++;
    return s->holds_state ? adopt_state(s, bytes, err) : relayout(s, n_old, bytes, err);
}

/* A session may be opened before its graph has variables; then the given state is kept
 * until it has some. */
static int waits_for_variables(const struct var_store *s)
{
    const struct var_header *h = (const void *)s->block;

    return s->holds_state && (h->magic != VAR_MAGIC || h->n_variables > 0);
}

int var_store_place(struct var_store *s, struct err *err)
{
    int n_old = s->n, seen = s->n_seen;
    if (s->bytes && s->n_seen == graph_n_operations(s->graph))
        return 0;
    int r = find_places(s, err);
    if (r == 0 && (s->n > n_old || (s->bytes == 0 && !waits_for_variables(s))))
        r = make_room(s, n_old, err);
    if (r < 0) { /* forget the variables that were not placed */
        s->n = n_old;
        s->n_seen = seen;
    }
    return r;
}

unsigned var_store_moves(const struct var_store *s)
{
    return s->moves;
}

void *var_store_block(struct var_store *s)
{
    return s->block;
}

size_t var_store_bytes(const struct var_store *s)
{
    return s->bytes;
}

int var_store_find(const struct var_store *s, const struct operation *op)
{
    int low = 0, high = s->n;
    while (low < high) {
        int mid = (low + high) / 2;
        if (operation_id(s->places[mid].op) < operation_id(op))
            low = mid + 1;
        else
            high = mid;
    }
    return low < s->n && s->places[low].op == op ? low : -1;
}

const char *var_store_name(const struct var_store *s, int i)
{
    return operation_name(s->places[i].op);
}

struct tensor var_store_value(struct var_store *s, int i)
{
    const struct place *p = &s->places[i];
    return tensor_view(p->dtype, p->shape, s->block + p->offset);
}

size_t var_store_offset(const struct var_store *s, int i)
{
    return s->places[i].offset;
}

static unsigned char *flag(const struct var_store *s, int i)
{
    CHECK(i >= 0 && i < s->n);
    return (unsigned char *)s->block + sizeof(struct var_header) + i;
}

int var_store_initialized(const struct var_store *s, int i)
{
    return *flag(s, i) != 0;
}

void var_store_set_initialized(struct var_store *s, int i)
{
    *flag(s, i) = 1;
}

unsigned char *var_store_flags(struct var_store *s, int i)
{
    return flag(s, i);
}
