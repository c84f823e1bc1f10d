#include "tests/agent/kernel_cases.h"

#include "agent/graph/import.h"
#include "agent/graph/ops.h"

#include <check.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define TABLE(name) name##_cases,
static const struct kernel_case *const tables[] = {CASE_TABLES(TABLE)};
#undef TABLE
enum { N_TABLES = sizeof(tables) / sizeof(tables[0]) };

const struct kernel_case *kernel_case_at(int i)
{
    for (size_t t = 0; t < N_TABLES; t++)
        for (const struct kernel_case *c = tables[t]; c->op != NULL; c++)
            if (i-- == 0)
                return c;
    return NULL;
}

int kernel_cases_have(const char *op)
{
    for (size_t t = 0; t < N_TABLES; t++)
        for (const struct kernel_case *c = tables[t]; c->op != NULL; c++)
            if (strcmp(c->op, op) == 0)
                return 1;
    return 0;
}

/* ---- sizes of any value ---- */

#define MEMORY_LIMIT_MB 1024

const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=64";
}

void limit_memory(void)
{
#ifndef __SANITIZE_ADDRESS__
    const struct rlimit limit = {(rlim_t)MEMORY_LIMIT_MB << 20,
                                 (rlim_t)MEMORY_LIMIT_MB << 20};

    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
#endif
}

/* ---- elements ---- */

static const struct {
    char letter;
    enum dtype dtype;
} letters[] = {{'f', DT_FLOAT}, {'d', DT_DOUBLE}, {'i', DT_INT32},
               {'l', DT_INT64}, {'s', DT_INT16},  {'c', DT_INT8},
               {'u', DT_UINT8}, {'w', DT_UINT16}, {'b', DT_BOOL}};
enum { N_LETTERS = sizeof(letters) / sizeof(letters[0]) };

enum dtype case_dtype(char letter)
{
    for (int i = 0; i < N_LETTERS; i++)
        if (letters[i].letter == tolower(letter))
            return letters[i].dtype;
    return DT_INVALID;
}

int case_readable(enum dtype dtype)
{
    for (int i = 0; i < N_LETTERS; i++)
        if (letters[i].dtype == dtype)
            return 1;
    return 0;
}

double element_get(const struct tensor *t, int64_t i)
{
    const char *at = (const char *)t->data + (size_t)i * dtype_size(t->dtype);

    switch (t->dtype) {
    case DT_FLOAT:
        return *(const float *)at;
    case DT_DOUBLE:
        return *(const double *)at;
    case DT_INT32:
        return *(const int32_t *)at;
    case DT_INT64:
        return (double)*(const int64_t *)at;
    case DT_INT16:
        return *(const int16_t *)at;
    case DT_UINT16:
        return *(const uint16_t *)at;
    case DT_INT8:
        return *(const int8_t *)at;
    case DT_UINT8:
    case DT_BOOL:
        return *(const uint8_t *)at;
    default:
        return 0;
    }
}

void element_set(const struct tensor *t, int64_t i, double v)
{
    char *at = (char *)t->data + (size_t)i * dtype_size(t->dtype);

    switch (t->dtype) {
    case DT_FLOAT:
        *(float *)at = (float)v;
        break;
    case DT_DOUBLE:
        *(double *)at = v;
        break;
    case DT_INT32:
        *(int32_t *)at = (int32_t)(int64_t)v;
        break;
    case DT_INT64:
        *(int64_t *)at = (int64_t)v;
        break;
    case DT_INT16:
    case DT_UINT16:
        *(int16_t *)at = (int16_t)(int64_t)v;
        break;
    case DT_INT8:
    case DT_UINT8:
        *(int8_t *)at = (int8_t)(int64_t)v;
        break;
    case DT_BOOL:
        *(uint8_t *)at = v != 0;
        break;
    default:
        break;
    }
}

void unravel(const struct shape *s, int64_t i, int64_t *ret)
{
    for (int d = s->rank - 1; d >= 0; d--) {
        ret[d] = i % s->dim[d];
        i /= s->dim[d];
    }
}

int64_t ravel(const struct shape *s, const int64_t *index, int rank)
{
    int64_t at = 0;

    for (int d = 0; d < s->rank; d++)
        at = at * s->dim[d] + (s->dim[d] == 1 ? 0 : index[d + rank - s->rank]);
    return at;
}

/* ---- reading the text ---- */

static const char *skip_spaces(const char *p)
{
    while (p != NULL && *p == ' ')
        p++;
    return p;
}

/* "(2,3)"; anything else is a scalar. */
static const char *read_shape(const char *p, struct shape *ret)
{
    *ret = SHAPE_SCALAR;
    if (*p != '(')
        return p;
    while (*p != ')') {
        char *end;

        ret->dim[ret->rank++] = strtoll(p + 1, &end, 10);
        p = end;
    }
    return p + 1;
}

static void array_init(struct array *a, enum dtype dtype, struct shape shape)
{
    struct err err;

    *a = (struct array){0};
    ck_assert_msg(tensor_alloc(&a->tensor, dtype, shape, &err) == 0, "%s", err.msg);
    a->n = tensor_elements(&a->tensor);
    a->v = calloc((size_t)a->n + 1, sizeof(double));
}

static void array_done(struct array *a)
{
    tensor_free(&a->tensor);
    free(a->v);
}

/* Writes the element through the tensor, so that v has the value that a kernel sees. */
static void array_put(struct array *a, int64_t i, double v)
{
    element_set(&a->tensor, i, v);
    a->v[i] = element_get(&a->tensor, i);
}

static void draw_values(struct array *a, const struct kernel_case *c, int operand)
{
    int is_unsigned = a->tensor.dtype == DT_UINT8 || a->tensor.dtype == DT_UINT16;

    for (int64_t i = 0; i < a->n; i++) {
        double u;

        rng_uniform_f64(rng_key_make(1, c->op, "case"), (uint64_t)operand, (uint64_t)i,
                        &u, 1);
        u = c->low + u * (c->high - c->low);
        if (a->tensor.dtype == DT_BOOL)
            u = u > (c->low + c->high) / 2;
        array_put(a, i, is_unsigned && u < 0 ? -u : u);
    }
}

/* Reads "=1,2,3", without rounding. */
static const char *read_values(const char *p, struct array *a)
{
    for (int64_t i = 0; *p == '=' || *p == ','; i++) {
        char *end;

        ck_assert_msg(i < a->n, "too many values: %s", p);
        a->v[i] = strtod(p + 1, &end);
        p = end;
    }
    return p;
}

static void read_inputs(struct stage *s, enum dtype x)
{
    const char *p = skip_spaces(s->c->inputs);

    while (*p != '\0') {
        struct array *a = &s->in[s->n_in];
        char letter = *p++;
        struct shape shape;

        p = read_shape(p, &shape);
        array_init(a, tolower(letter) == 'x' ? x : case_dtype(letter), shape);
        a->letter = letter;
        if (*p != '=')
            draw_values(a, s->c, s->n_in);
        p = skip_spaces(read_values(p, a));
        for (int64_t i = 0; i < a->n; i++)
            array_put(a, i, a->v[i]);
        s->n_in++;
    }
}

static void set_attr(struct op_builder *b, const char *name, const char *value,
                     enum dtype x)
{
    int64_t list[SHAPE_MAX_RANK];
    struct shape shape;
    size_t n = 0;
    char *end;

    if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0) {
        op_attr_bool(b, name, value[0] == 't');
    } else if (value[0] == '@') {
        op_attr_type(b, name, value[1] == 'x' ? x : case_dtype(value[1]));
    } else if (value[0] == '(') {
        (void)read_shape(value, &shape);
        op_attr_shape(b, name, &shape);
    } else if (value[0] == '[' && strchr(value, '.') != NULL) {
        float reals[SHAPE_MAX_RANK];

        for (const char *p = value; *p != ']'; p = end)
            reals[n++] = strtof(p + 1, &end);
        op_attr(b, &(struct attr){
                       .name = name, .kind = ATTR_LIST_FLOAT, .list_f = reals, .n = n});
    } else if (value[0] == '[') {
        for (const char *p = value; *p != ']'; p = end)
            list[n++] = strtoll(p + 1, &end, 10);
        op_attr_ints(b, name, list, n);
    } else if (!isdigit(value[0]) && value[0] != '-') {
        op_attr_string(b, name, value);
    } else if (strchr(value, '.') != NULL) {
        op_attr_float(b, name, strtof(value, NULL));
    } else {
        op_attr_int(b, name, strtoll(value, NULL, 10));
    }
}

static void set_attrs(struct op_builder *b, const char *attrs, enum dtype x)
{
    const char *p = skip_spaces(attrs);

    while (p != NULL && *p != '\0') {
        char word[64], *equals;
        size_t len = strcspn(p, " ");

        ck_assert_uint_lt(len, sizeof(word));
        memcpy(word, p, len);
        word[len] = '\0';
        equals = strchr(word, '=');
        *equals = '\0';
        set_attr(b, word, equals + 1, x);
        p = skip_spaces(p + len);
    }
}

/* ---- building ---- */

static struct output feed_or_constant(struct stage *s, struct array *a,
                                      enum feeding feeding)
{
    struct shape shape = a->tensor.shape;
    struct output x;

    if (feeding == FEED_CONSTANT || (isupper(a->letter) && feeding != FEED_ALL))
        return constant(s->g, &a->tensor, NULL);
    for (int d = 0; feeding != FEED_KNOWN && d < shape.rank; d++)
        shape.dim[d] = -1;
    x = placeholder(s->g, a->tensor.dtype, &shape, NULL);
    s->feeds[s->n_feeds++] = (struct feed){x, a->tensor};
    return x;
}

void stage_init(struct stage *s, const struct kernel_case *c, enum dtype x,
                enum feeding feeding)
{
    struct op_builder *b;
    struct err err;

    *s = (struct stage){.c = c, .g = graph_new()};
    ck_assert_msg(session_new(&s->s, s->g, NULL, &err) == 0, "%s", err.msg);
    read_inputs(s, x);
    for (int i = 0; i < s->n_in; i++)
        s->input[i] = feed_or_constant(s, &s->in[i], feeding);
    b = op_begin(s->g, c->op, "tested");
    for (int i = 0; i < s->n_in; i++)
        op_input(b, s->input[i]);
    set_attrs(b, c->attrs, x);
    s->op = op_finish(b);
}

void stage_done(struct stage *s)
{
    for (int i = 0; i < s->n_in; i++)
        array_done(&s->in[i]);
    for (int i = 0; i < s->n_want; i++)
        array_done(&s->want[i]);
    session_free(s->s);
    graph_free(s->g);
}

/* ---- expected results ---- */

static void broadcast_output(struct stage *s)
{
    struct shape all = s->in[0].tensor.shape;

    for (int i = 1; i < s->n_in; i++)
        ck_assert_int_eq(shape_broadcast(&all, &s->in[i].tensor.shape, &all), 0);
    array_init(&s->want[s->n_want++], output_dtype((struct output){s->op, 0}), all);
}

static void read_outputs(struct stage *s)
{
    const char *p = skip_spaces(s->c->outputs);

    while (*p != '\0') {
        struct array *a = &s->want[s->n_want];
        struct shape shape;

        p = *p == '.' ? p + 1 : read_shape(p, &shape);
        if (p[-1] == '.')
            shape = SHAPE_SCALAR;
        array_init(a, output_dtype((struct output){s->op, s->n_want++}), shape);
        p = skip_spaces(read_values(p, a));
    }
    ck_assert_int_eq(s->n_want, operation_n_outputs(s->op));
}

static void refer_elements(struct stage *s)
{
    struct array *y = &s->want[0];

    for (int64_t i = 0; i < y->n; i++) {
        int64_t index[SHAPE_MAX_RANK];
        double x[MAX_OPERANDS] = {0};

        unravel(&y->tensor.shape, i, index);
        for (int k = 0; k < s->n_in; k++)
            x[k] = s->in[k].v[ravel(&s->in[k].tensor.shape, index, y->tensor.shape.rank)];
        y->v[i] = s->c->element(x, s->op);
    }
}

void stage_refer(struct stage *s)
{
    struct reference r = {s->op, s->in, s->want, s->n_in, 0};

    if (s->c->outputs != NULL)
        read_outputs(s);
    else
        broadcast_output(s);
    r.n_out = s->n_want;
    if (s->c->element != NULL)
        refer_elements(s);
    else if (s->c->want != NULL)
        s->c->want(&r);
}

int stage_run(struct stage *s, struct tensor *ret, struct err *err)
{
    struct output fetches[MAX_OPERANDS];
    struct run_args args = {.feeds = s->feeds, .n_feeds = s->n_feeds, .fetches = fetches};

    args.n_fetches = (size_t)operation_n_outputs(s->op);
    for (size_t i = 0; i < args.n_fetches; i++)
        fetches[i] = (struct output){s->op, (int)i};
    return session_run(s->s, &args, ret, err);
}
