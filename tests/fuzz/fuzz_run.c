/* Arbitrary bytes as a MetaGraphDef that is run: feeds everything that can be fed and
 * fetches every tensor, which gives a value or an error. Operations that write files are
 * skipped. */
#include "agent/saver/metagraph_import.h"
#include "agent/session/session.h"
#include "common/err/check.h"
#include "tests/fuzz/fuzz.h"

#include <sys/resource.h>

enum { MAX_OPERATIONS = 40, MAX_ELEMENTS = 64 };

/* Limits memory, so that huge sizes in the input cannot be allocated. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:max_allocation_size_mb=256";
}

#ifndef __SANITIZE_ADDRESS__
__attribute__((constructor)) static void limit_memory(void)
{
    const struct rlimit limit = {(rlim_t)1 << 30, (rlim_t)1 << 30};

    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}
#endif

static const struct metagraph_import_options bounded = {.max_constant_bytes = 1 << 16};

/* -1, 0, 1, ... */
static void fill(struct tensor *t)
{
    for (int64_t i = 0; i < tensor_elements(t); i++)
        switch (t->dtype) {
        case DT_FLOAT:
            tensor_f32(t)[i] = (float)i - 1;
            break;
        case DT_INT32:
            ((int32_t *)t->data)[i] = (int32_t)i - 1;
            break;
        case DT_INT64:
            ((int64_t *)t->data)[i] = i - 1;
            break;
        default:
            break;
        }
}

/* Unknown dimensions have two elements. */
static int make_value(struct operation *op, struct feed *ret)
{
    struct shape shape = output_shape((struct output){op, 0});
    int64_t n;

    if (shape.rank < 0)
        shape = SHAPE(2);
    for (int i = 0; i < shape.rank; i++)
        if (shape.dim[i] < 0)
            shape.dim[i] = 2;
    n = shape_elements(&shape);
    ret->output = (struct output){op, 0};
    if (n < 0 || n > MAX_ELEMENTS ||
        tensor_alloc(&ret->value, output_dtype(ret->output), shape, NULL) != 0)
        return 0;
    fill(&ret->value);
    return 1;
}

static void run(struct graph *g, struct session *s)
{
    struct feed feeds[MAX_OPERATIONS] = {0};
    struct run_args args = {.feeds = feeds};
    int n = graph_n_operations(g);

    for (int i = 0; i < n; i++)
        if (operation_is(graph_operation_at(g, i), "Placeholder"))
            args.n_feeds +=
                (size_t)make_value(graph_operation_at(g, i), &feeds[args.n_feeds]);
    for (int i = 0; i < n; i++) {
        struct operation *op = graph_operation_at(g, i);

        for (int k = 0; k < operation_n_outputs(op) && k < 4; k++) {
            struct output x = {op, k};
            struct tensor value = TENSOR_NONE;

            args.fetches = &x;
            args.n_fetches = 1;
            (void)session_run(s, &args, &value, NULL);
            tensor_free(&value);
        }
    }
    for (size_t i = 0; i < args.n_feeds; i++)
        tensor_free(&feeds[i].value);
}

static int writes_files(const struct graph *g)
{
    for (int i = 0; i < graph_n_operations(g); i++)
        if (operation_is(graph_operation_at(g, i), "SaveV2") ||
            operation_is(graph_operation_at(g, i), "MergeV2Checkpoints"))
            return 1;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct graph *g = graph_new();
    struct session *s;

    if (metagraph_import(g, data, size, &bounded, NULL, NULL) == 0 &&
        graph_n_operations(g) <= MAX_OPERATIONS && !writes_files(g) &&
        session_new(&s, g, NULL, NULL) == 0) {
        run(g, s);
        session_free(s);
    }
    graph_free(g);
    return 0;
}
