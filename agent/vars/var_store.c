#include "agent/vars/var_store.h"

#include "agent/graph/op_def.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/tensor/string_slab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN 64u

struct place {
    const struct operation *op; /* VariableV2 or VarHandleOp */
    int id;                     /* of the operation; ascending */
    enum dtype dtype;
    struct shape shape;
    struct block *block;
    int flag; /* index of its flag in the block */
    size_t offset;
};

struct block {
    const char *device; /* of its variables; NULL: it holds all other variables */
    char *memory;
    size_t bytes, capacity; /* bytes 0: not laid out yet */
    int n;                  /* variables */
    int borrowed;           /* the caller owns the memory */
    int holds_state;        /* keep its contents, which are not checked yet */
};

struct var_store {
    struct graph *graph;
    int n_seen; /* operations of the graph that were examined so far */
    struct place *places;
    int n, cap;
    struct block blocks[1 + VAR_STORE_MAX_DEVICES]; /* the first is the store's own */
    size_t n_blocks;
    unsigned moves;
};

static size_t round_up(size_t n)
{
    return (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

static int add_block(struct var_store *s, const struct device_memory *m, struct err *err)
{
    if ((uintptr_t)m->block % ALIGN != 0)
        return err_set(err, ERR_ARG, "the variables' block is not 64-byte aligned");
    s->blocks[s->n_blocks++] = (struct block){
        .device = m->device,
        .memory = m->block,
        .capacity = m->block != NULL ? m->capacity : 0,
        .borrowed = m->block != NULL,
        .holds_state = m->block != NULL && m->holds_state,
    };
    return 0;
}

int var_store_new(struct var_store **ret, struct graph *g,
                  const struct device_memory *own, const struct device_memory *devices,
                  size_t n_devices, struct err *err)
{
    if (n_devices > VAR_STORE_MAX_DEVICES)
        return err_set(err, ERR_LIMIT, "memory of %zu devices is given, %d is the most",
                       n_devices, VAR_STORE_MAX_DEVICES);
    struct var_store *s = xcalloc(1, sizeof(*s));
    s->graph = g;
    int rc = add_block(s, own, err);
    for (size_t i = 0; rc == 0 && i < n_devices; i++)
        rc = add_block(s, &devices[i], err);
    if (rc == 0)
        rc = var_store_place(s, err);
    if (rc < 0) {
        var_store_free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void var_store_free(struct var_store *s)
{
    if (!s)
        return;
    if (!s->blocks[0].borrowed)
        free(s->blocks[0].memory);
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

static uint64_t layout_hash(const struct var_store *s, const struct block *b)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (int i = 0; i < s->n; i++) {
        const struct place *p = &s->places[i];
        const char *name = operation_name(p->op);
        int64_t words[2] = {p->dtype, p->shape.rank};
        if (p->block != b)
            continue;
        h = hash_bytes(h, name, strlen(name) + 1);
        h = hash_bytes(h, words, sizeof(words));
        h = hash_bytes(h, p->shape.dim, sizeof(int64_t) * (size_t)p->shape.rank);
    }
    return h;
}

/* The block of "/job:ps/task:1" also holds what is placed on
 * "/job:ps/task:1/device:CPU:0". */
static struct block *block_of(struct var_store *s, const struct operation *op)
{
    const char *device = operation_device(op);

    for (size_t i = 1; i < s->n_blocks; i++) {
        size_t n = strlen(s->blocks[i].device);

        if (strncmp(device, s->blocks[i].device, n) == 0 &&
            (device[n] == '\0' || device[n] == '/'))
            return &s->blocks[i];
    }
    return &s->blocks[0];
}

/* Finds the graph's new variables; their offsets are not set yet. */
static int find_places(struct var_store *s, struct err *err)
{
    for (; s->n_seen < graph_n_operations(s->graph); s->n_seen++) {
        const struct operation *op = graph_operation_at(s->graph, s->n_seen);
        if (!operation_is_variable(op))
            continue;
        struct place p = {.op = op,
                          .id = operation_id(op),
                          .dtype = (enum dtype)operation_attr(op, "dtype")->i,
                          .shape = operation_attr(op, "shape")->shape,
                          .block = block_of(s, op)};
        if (dtype_size(p.dtype) == 0 && p.dtype != DT_STRING)
            return err_set(err, ERR_UNSUPPORTED, "variable %s: values of dtype %s",
                           operation_name(op), dtype_name(p.dtype));
        if (shape_known(&p.shape) && shape_elements(&p.shape) < 0)
            return err_set(err, ERR_LIMIT, "variable %s: %s has 2^63 elements or more",
                           operation_name(op), shape_text(&p.shape));
        if (!shape_known(&p.shape))
            return err_set(err, ERR_SHAPE, "variable %s: its shape %s is not known",
                           operation_name(op), shape_text(&p.shape));
        if (p.block->device != NULL && p.block->bytes > 0)
            return err_set(err, ERR_STATE,
                           "variable %s: the memory of %s was laid out without it; build "
                           "the graph before its session",
                           operation_name(op), p.block->device);
        ARRAY_GROW(s->places, s->n, s->cap);
        p.flag = p.block->n++;
        s->places[s->n++] = p;
    }
    return 0;
}

/* After layout_bytes found that the sum of all does not overflow. */
static size_t value_bytes(const struct place *p)
{
    size_t n = 0;

    (void)block_value_bytes(p->dtype, shape_elements(&p->shape), &n);
    return n;
}

static size_t values_begin(const struct block *b)
{
    return round_up(sizeof(struct var_header) + (size_t)b->n);
}

/* The size of a block for all its variables; 0 if it overflows. */
static size_t layout_bytes(const struct var_store *s, const struct block *b)
{
    size_t at = values_begin(b);
    for (int i = 0; i < s->n; i++) {
        size_t n;
        if (s->places[i].block != b)
            continue;
        if (!block_value_bytes(s->places[i].dtype, shape_elements(&s->places[i].shape),
                               &n) ||
            !mem_add(n, ALIGN, &n) || !mem_add(at, n, &n))
            return 0;
        at = round_up(at + value_bytes(&s->places[i]));
    }
    return at;
}

static void assign_offsets(struct var_store *s, const struct block *b)
{
    size_t at = values_begin(b);
    for (int i = 0; i < s->n; i++) {
        if (s->places[i].block != b)
            continue;
        s->places[i].offset = at;
        at = round_up(at + value_bytes(&s->places[i]));
    }
}

/* Makes a block for all variables; those before n_old keep flag and value. */
static int relayout(struct var_store *s, struct block *b, int n_old, size_t bytes,
                    struct err *err)
{
    char *fresh = mem_aligned(bytes);
    if (!fresh)
        return err_set(err, ERR_NOMEM, "no memory for %zu bytes of variables", bytes);
    memset(fresh, 0, bytes);
    struct place *old = NULL;
    if (n_old > 0) {
        old = xreallocarray(NULL, (size_t)n_old, sizeof(*old));
        memcpy(old, s->places, sizeof(*old) * (size_t)n_old);
    }
    assign_offsets(s, b);
    for (int i = 0; i < n_old; i++) {
        const size_t flag = sizeof(struct var_header) + (size_t)old[i].flag;
        if (old[i].block != b)
            continue;
        fresh[flag] = b->memory[flag];
        memcpy(fresh + s->places[i].offset, b->memory + old[i].offset,
               value_bytes(&old[i]));
    }
    free(old);
    if (b->borrowed) {
        memcpy(b->memory, fresh, bytes);
        free(fresh);
    } else {
        free(b->memory);
        b->memory = fresh;
    }
    b->bytes = bytes;
    *(struct var_header *)(void *)b->memory = (struct var_header){
        .magic = VAR_MAGIC,
        .version = VAR_VERSION,
        .layout_hash = layout_hash(s, b),
        .n_variables = (uint64_t)b->n,
        .size_bytes = b->bytes,
    };
    return 0;
}

/* Formats a 128-bit number, for which printf has no format, in decimal. */
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
static int too_large(const struct var_store *s, const struct block *b, struct err *err)
{
    unsigned __int128 sum = values_begin(b), most = 0;
    const struct place *largest = NULL;
    char all[40], one[40], room[64];

    for (int i = 0; i < s->n; i++) {
        const struct place *p = &s->places[i];
        const unsigned __int128 bytes =
            (unsigned __int128)shape_elements(&p->shape) *
            (p->dtype == DT_STRING ? STRING_SLAB_EACH : dtype_size(p->dtype));

        if (p->block != b)
            continue;
        sum = (sum + bytes + ALIGN - 1) / ALIGN * ALIGN;
        largest = largest == NULL || bytes > most ? p : largest;
        most = bytes > most ? bytes : most;
    }
    (void)snprintf(room, sizeof(room), "their block has %zu", b->capacity);
    return err_set(err, ERR_LIMIT, "%d variables need %s bytes (%s, %s, alone %s); %s",
                   b->n, decimal(sum, all),
                   largest != NULL ? operation_name(largest->op) : "",
                   largest != NULL ? shape_text(&largest->shape) : "", decimal(most, one),
                   b->borrowed ? room : "that is more than can be addressed");
}

/* A session may be opened before its graph has variables; then the given state is kept
 * until it has some. Memory of a device is laid out once, with the first variables. */
static int waits_for_variables(const struct block *b)
{
    const struct var_header *h = (const void *)b->memory;

    return b->n == 0 && (b->device != NULL || (b->holds_state && (h->magic != VAR_MAGIC ||
                                                                  h->n_variables > 0)));
}

/* Whether variables n_old, n_old + 1, ... have to be placed in the block. */
static int has_new(const struct var_store *s, const struct block *b, int n_old)
{
    for (int i = n_old; i < s->n; i++)
        if (s->places[i].block == b)
            return 1;
    return b->bytes == 0 && !waits_for_variables(b);
}

/* ERR_STATE: the given block does not hold the state of these variables. */
static int check_room(const struct var_store *s, const struct block *b, struct err *err)
{
    const struct var_header *h = (const void *)b->memory;
    const size_t bytes = layout_bytes(s, b);

    if (bytes == 0 || (b->borrowed && bytes > b->capacity))
        return too_large(s, b, err);
    if (b->holds_state && (h->magic != VAR_MAGIC || h->version != VAR_VERSION ||
                           h->layout_hash != layout_hash(s, b) || h->size_bytes != bytes))
        return err_set(err, ERR_STATE,
                       "the %s%sblock holds the variables of another graph",
                       b->device != NULL ? b->device : "", b->device != NULL ? " " : "");
    return 0;
}

/* Makes room for the variables from n_old on. */
static int make_room(struct var_store *s, struct block *b, int n_old, struct err *err)
{
    const size_t bytes = layout_bytes(s, b);

    s->moves++;
    if (!b->holds_state)
        return relayout(s, b, n_old, bytes, err);
    b->holds_state = 0;
    b->bytes = bytes;
    assign_offsets(s, b);
    return 0;
}

int var_store_place(struct var_store *s, struct err *err)
{
    int n_old = s->n, seen = s->n_seen, rc = 0;
    if (s->blocks[0].bytes > 0 && s->n_seen == graph_n_operations(s->graph))
        return 0;
    rc = find_places(s, err);
    for (size_t i = 0; rc == 0 && i < s->n_blocks; i++)
        if (has_new(s, &s->blocks[i], n_old))
            rc = check_room(s, &s->blocks[i], err);
    for (size_t i = 0; rc == 0 && i < s->n_blocks; i++)
        if (has_new(s, &s->blocks[i], n_old))
            rc = make_room(s, &s->blocks[i], n_old, err);
    if (rc < 0) {
        while (s->n > n_old)
            s->places[--s->n].block->n--;
        s->n_seen = seen;
    }
    return rc;
}

unsigned var_store_moves(const struct var_store *s)
{
    return s->moves;
}

void *var_store_block(struct var_store *s)
{
    return s->blocks[0].memory;
}

size_t var_store_bytes(const struct var_store *s)
{
    return s->blocks[0].bytes;
}

int var_store_count(const struct var_store *s)
{
    return s->n;
}

int var_store_find(const struct var_store *s, const struct operation *op)
{
    const int id = operation_id(op);
    int low = 0, high = s->n;

    while (low < high) {
        int mid = (low + high) / 2;
        if (s->places[mid].id < id)
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
    return tensor_view(p->dtype, p->shape, p->block->memory + p->offset);
}

size_t var_store_offset(const struct var_store *s, int i)
{
    return s->places[i].offset;
}

unsigned char *var_store_flags(struct var_store *s, int i)
{
    CHECK(i >= 0 && i < s->n);
    return (unsigned char *)s->places[i].block->memory + sizeof(struct var_header) +
           s->places[i].flag;
}

int var_store_initialized(struct var_store *s, int i)
{
    return *var_store_flags(s, i) != 0;
}

void var_store_set_initialized(struct var_store *s, int i)
{
    *var_store_flags(s, i) = 1;
}

int var_store_adjacent(const struct var_store *s, int i)
{
    return s->places[i].block == s->places[i + 1].block;
}
