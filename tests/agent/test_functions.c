/* Nodes that call functions of a file's library are replaced by the functions' nodes. What
 * TensorFlow writes is compared with its values in tests/tensorflow/cases_calls.py; here, the
 * names, and files that nobody would write. */
#include "agent/saver/message.h"
#include "agent/saver/metagraph_export.h"
#include "agent/saver/metagraph_import.h"
#include "agent/session/session.h"
#include "common/mem/xmalloc.h"
#include "tests/support/test_main.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_NODES = 64, MAX_FUNCTIONS = 128 };

struct file {
    struct arena a;
    Tf__MetaGraphDef *m;
    Tf__FunctionDef *functions[MAX_FUNCTIONS];
    int n_functions;
    Tf__NodeDef **nodes; /* of the graph or of the newest function */
    size_t *n_nodes;
};

static void file_init(struct file *f)
{
    *f = (struct file){0};
    f->m = MESSAGE_NEW(&f->a, MetaGraphDef, meta_graph_def);
    f->m->graph_def = MESSAGE_NEW(&f->a, GraphDef, graph_def);
    f->m->graph_def->versions = MESSAGE_NEW(&f->a, VersionDef, version_def);
    f->m->graph_def->versions->producer = 27;
    f->nodes = f->m->graph_def->node = ARENA_ARRAY(&f->a, Tf__NodeDef *, MAX_NODES);
    f->n_nodes = &f->m->graph_def->n_node;
}

/* Adds a node to what is being written; the inputs end with NULL. */
static Tf__NodeDef *node(struct file *f, const char *op, const char *name, ...)
{
    Tf__NodeDef *n = MESSAGE_NEW(&f->a, NodeDef, node_def);
    const char *input;
    va_list ap;

    ck_assert(*f->n_nodes < MAX_NODES);
    n->op = arena_strdup(&f->a, op);
    n->name = arena_strdup(&f->a, name);
    n->input = ARENA_ARRAY(&f->a, char *, 8);
    n->attr = ARENA_ARRAY(&f->a, Tf__NodeDef__AttrEntry *, 8);
    va_start(ap, name);
    while ((input = va_arg(ap, const char *)) != NULL)
        n->input[n->n_input++] = arena_strdup(&f->a, input);
    va_end(ap);
    f->nodes[(*f->n_nodes)++] = n;
    return n;
}

static Tf__AttrValue *attr(struct file *f, Tf__NodeDef *n, const char *name, int kind)
{
    Tf__NodeDef__AttrEntry *e =
        MESSAGE_NEW(&f->a, NodeDef__AttrEntry, node_def__attr_entry);

    e->key = arena_strdup(&f->a, name);
    e->value = MESSAGE_NEW(&f->a, AttrValue, attr_value);
    e->value->value_case = (Tf__AttrValue__ValueCase)kind;
    n->attr[n->n_attr++] = e;
    return e->value;
}

static void type(struct file *f, Tf__NodeDef *n, const char *name)
{
    attr(f, n, name, TF__ATTR_VALUE__VALUE_TYPE)->type = DT_FLOAT;
}

static void types(struct file *f, Tf__NodeDef *n, const char *name, int count)
{
    Tf__AttrValue *v = attr(f, n, name, TF__ATTR_VALUE__VALUE_LIST);

    v->list = MESSAGE_NEW(&f->a, AttrValue__ListValue, attr_value__list_value);
    v->list->type = ARENA_ARRAY(&f->a, int32_t, count);
    for (int i = 0; i < count; i++)
        v->list->type[i] = DT_FLOAT;
    v->list->n_type = (size_t)count;
}

/* The attribute names a function, for which its attribute T is a float. */
static void function_attr(struct file *f, Tf__NodeDef *n, const char *name,
                          const char *function)
{
    Tf__NameAttrList *list = MESSAGE_NEW(&f->a, NameAttrList, name_attr_list);
    Tf__NameAttrList__AttrEntry *e =
        MESSAGE_NEW(&f->a, NameAttrList__AttrEntry, name_attr_list__attr_entry);

    e->key = arena_strdup(&f->a, "T");
    e->value = MESSAGE_NEW(&f->a, AttrValue, attr_value);
    e->value->value_case = TF__ATTR_VALUE__VALUE_TYPE;
    e->value->type = DT_FLOAT;
    list->name = arena_strdup(&f->a, function);
    list->attr = arena_memdup(&f->a, &e, sizeof(e));
    list->n_attr = 1;
    attr(f, n, name, TF__ATTR_VALUE__VALUE_FUNC)->func = message_packed(&f->a, list);
}

static Tf__NodeDef *call(struct file *f, const char *name, const char *function,
                         const char *input)
{
    Tf__NodeDef *n = node(f, "PartitionedCall", name, input, NULL);

    function_attr(f, n, "f", function);
    types(f, n, "Tin", 1);
    types(f, n, "Tout", 1);
    return n;
}

static void placeholder_x(struct file *f)
{
    type(f, node(f, "Placeholder", "x", NULL), "dtype");
}

static Tf__OpDef__ArgDef *arg(struct file *f, const char *name, const char *type_attr)
{
    Tf__OpDef__ArgDef *p = MESSAGE_NEW(&f->a, OpDef__ArgDef, op_def__arg_def);

    p->name = arena_strdup(&f->a, name);
    if (type_attr != NULL)
        p->type_attr = arena_strdup(&f->a, type_attr);
    else
        p->type = DT_FLOAT;
    return p;
}

/* Begins a function of `a` that returns `result`, of type T or (type_attr NULL) of floats. */
static Tf__FunctionDef *function(struct file *f, const char *name, const char *result,
                                 const char *type_attr)
{
    Tf__FunctionDef *def = MESSAGE_NEW(&f->a, FunctionDef, function_def);
    Tf__FunctionDef__RetEntry *ret =
        MESSAGE_NEW(&f->a, FunctionDef__RetEntry, function_def__ret_entry);

    def->signature = MESSAGE_NEW(&f->a, OpDef, op_def);
    def->signature->name = arena_strdup(&f->a, name);
    def->signature->input_arg = ARENA_ARRAY(&f->a, Tf__OpDef__ArgDef *, 1);
    def->signature->output_arg = ARENA_ARRAY(&f->a, Tf__OpDef__ArgDef *, 1);
    def->signature->input_arg[def->signature->n_input_arg++] = arg(f, "a", type_attr);
    def->signature->output_arg[def->signature->n_output_arg++] = arg(f, "out", type_attr);
    ret->key = arena_strdup(&f->a, "out");
    ret->value = arena_strdup(&f->a, result);
    def->ret = arena_memdup(&f->a, &ret, sizeof(ret));
    def->n_ret = 1;
    f->nodes = def->node_def = ARENA_ARRAY(&f->a, Tf__NodeDef *, MAX_NODES);
    f->n_nodes = &def->n_node_def;
    ck_assert_int_lt(f->n_functions, MAX_FUNCTIONS);
    return f->functions[f->n_functions++] = def;
}

static int import(struct file *f, struct graph *g, struct err *err)
{
    Tf__FunctionDefLibrary *all =
        MESSAGE_NEW(&f->a, FunctionDefLibrary, function_def_library);
    struct wbuf b = {0};
    int rc;

    all->function = ARENA_ARRAY(&f->a, ProtobufCBinaryData, f->n_functions + 1);
    for (int i = 0; i < f->n_functions; i++)
        all->function[all->n_function++] = message_packed(&f->a, f->functions[i]);
    f->m->graph_def->library = message_packed(&f->a, all);
    message_pack(&b, f->m);
    rc = metagraph_import(g, b.data, b.len, NULL, NULL, err);
    wbuf_done(&b);
    return rc;
}

static int run(struct graph *g, const char *name, float x, float *ret, struct err *err)
{
    struct feed feed = {.value = tensor_scalar_f32(&x)};
    struct run_args args = {.feeds = &feed, .n_feeds = 1, .n_fetches = 1};
    struct output fetch;
    struct tensor t = TENSOR_NONE;
    struct session *s;
    int rc;

    ck_assert_int_eq(graph_tensor(g, "x:0", &feed.output, err), 0);
    ck_assert_msg(graph_tensor(g, name, &fetch, err) == 0, "%s", err->msg);
    args.fetches = &fetch;
    ck_assert_int_eq(session_new(&s, g, NULL, err), 0);
    rc = session_run(s, &args, &t, err);
    if (rc == 0)
        *ret = *tensor_f32(&t);
    tensor_free(&t);
    session_free(s);
    return rc;
}

/* The graph is exported, imported and exported again to the same bytes. */
static void check_exported(struct graph *g)
{
    struct wbuf first = {0}, second = {0};
    struct graph *again = graph_new();
    struct err err;

    metagraph_export(&first, g, NULL, NULL);
    ck_assert_msg(metagraph_import(again, first.data, first.len, NULL, NULL, &err) == 0,
                  "%s", err.msg);
    metagraph_export(&second, again, NULL, NULL);
    ck_assert_uint_eq(first.len, second.len);
    ck_assert_mem_eq(first.data, second.data, first.len);
    wbuf_done(&first);
    wbuf_done(&second);
    graph_free(again);
}

/* A function of any type, in a function, twice; a node already has the name of one of its
 * nodes. */
START_TEST(functions_are_inlined)
{
    static const char *const names[] = {"twice", "twice/call/first",
                                        "twice/call/first/call/negated",
                                        "twice/call/second/call/negated_1", "by_name"};
    struct graph *g = graph_new();
    struct file f;
    struct err err;
    float y = 0;
    Tf__NodeDef *n;

    file_init(&f);
    placeholder_x(&f);
    type(&f, node(&f, "Identity", "twice/call/second/call/negated", "x", NULL), "T");
    call(&f, "twice", "both", "x");
    type(&f, node(&f, "Neg", "after", "twice:0", NULL), "T");
    type(&f, node(&f, "negate", "by_name", "after", NULL), "T");
    function(&f, "both", "second:output:0", NULL);
    call(&f, "first", "negate", "a");
    call(&f, "second", "negate", "first:output:0");
    function(&f, "negate", "negated:y:0", "T");
    n = node(&f, "Neg", "negated", "a", NULL);
    attr(&f, n, "T", TF__ATTR_VALUE__VALUE_PLACEHOLDER)->placeholder =
        arena_strdup(&f.a, "T");
    ck_assert_msg(import(&f, g, &err) == 0, "%s", err.msg);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        ck_assert_msg(graph_operation(g, names[i]) != NULL, "%s", names[i]);
    ck_assert_msg(run(g, "by_name:0", 3, &y, &err) == 0, "%s", err.msg);
    ck_assert_float_eq(y, 3);
    /* others use the function's node, not the call */
    ck_assert_str_eq(operation_name(operation_input(graph_operation(g, "after"), 0).op),
                     "twice/call/second/call/negated_1");
    check_exported(g);
    graph_free(g);
    arena_done(&f.a);
}
END_TEST

/* ---- calls that stay ---- */

enum {
    ITSELF,
    EACH_OTHER,
    MISSING,
    NO_FUNCTION,
    COUNTS,
    UNKNOWN_OP,
    NO_NODE,
    NO_OUTPUT,
    TWICE,
    LISTS,
    TOO_DEEP,
    GRADIENT,
    N_REFUSED
};

static const char *const refused[N_REFUSED] = {
    [ITSELF] = "y: this PartitionedCall cannot be run: its function 'f' calls itself",
    [EACH_OTHER] = "y: this PartitionedCall cannot be run: its function 'f' calls itself",
    [MISSING] = "its function 'g' is not in the file",
    [NO_FUNCTION] = "it names no function",
    [COUNTS] = "its function 'f' has 1 inputs and 1 results, not 1 and 2",
    [UNKNOWN_OP] =
        "its function 'f' uses 'n:y:0', which op Frobnicate is not known to have",
    [NO_NODE] = "its function 'f' has no 'lost:y:0'",
    [NO_OUTPUT] = "its function 'f' uses 'n:z:0', which op Neg is not known to have",
    [TWICE] = "its function 'f' has 'a' twice",
    [LISTS] = "its function 'f' takes lists of tensors",
    [TOO_DEEP] = "its function 'f35' calls functions that call others, more than 64 deep",
    [GRADIENT] = "SymbolicGradient cannot be run: the gradient of a function is only",
};

static void build_refused(struct file *f, int kind)
{
    char name[16], next[16];
    Tf__NodeDef *n;

    file_init(f);
    placeholder_x(f);
    n = call(f, "y", kind == MISSING ? "g" : kind == TOO_DEEP ? "f0" : "f", "x");
    type(f, node(f, "Identity", "used", "y", NULL), "T");
    if (kind == NO_FUNCTION)
        n->attr[0]->key = arena_strdup(&f->a, "of");
    if (kind == COUNTS)
        n->n_attr--, types(f, n, "Tout", 2);
    if (kind == GRADIENT)
        n->op = arena_strdup(&f->a, "SymbolicGradient");
    for (int i = 0; kind == TOO_DEEP && i < 99; i++) {
        (void)snprintf(name, sizeof(name), "f%d", i);
        (void)snprintf(next, sizeof(next), "f%d", i + 1);
        function(f, name, "n:output:0", NULL);
        call(f, "n", next, "a");
    }
    if (kind == EACH_OTHER) {
        function(f, "g", "inner:output:0", NULL);
        call(f, "inner", "f", "a");
    }
    Tf__FunctionDef *def = function(f, kind == TOO_DEEP ? "f99" : "f",
                                    kind == NO_OUTPUT ? "n:z:0"
                                    : kind == NO_NODE ? "lost:y:0"
                                                      : "n:y:0",
                                    NULL);
    if (kind == ITSELF || kind == EACH_OTHER) {
        call(f, "n", kind == ITSELF ? "f" : "g", "a");
        def->ret[0]->value = arena_strdup(&f->a, "n:output:0");
    } else {
        type(f,
             node(f, kind == UNKNOWN_OP ? "Frobnicate" : "Neg", kind == TWICE ? "a" : "n",
                  "a", NULL),
             "T");
    }
    if (kind == LISTS)
        def->signature->input_arg[0]->number_attr = arena_strdup(&f->a, "N");
}

/* The file is imported, and can be exported; only a run that needs the call fails. */
START_TEST(calls_that_stay_are_refused_by_a_run)
{
    struct graph *g = graph_new();
    struct file f;
    struct err err = {0};
    float y;

    build_refused(&f, _i);
    ck_assert_msg(import(&f, g, &err) == 0, "%s", err.msg);
    ck_assert_int_eq(run(g, "used:0", 1, &y, &err), ERR_UNSUPPORTED);
    ck_assert_msg(strstr(err.msg, refused[_i]) != NULL, "%s", err.msg);
    ck_assert_msg(run(g, "x:0", 5, &y, &err) == 0, "%s", err.msg);
    check_exported(g);
    graph_free(g);
    arena_done(&f.a);
}
END_TEST

/* Each function calls the next one four times: 4^20 nodes. */
START_TEST(functions_have_a_limit)
{
    struct graph *g = graph_new();
    struct file f;
    struct err err = {0};

    file_init(&f);
    placeholder_x(&f);
    call(&f, "y", "f0", "x");
    for (int i = 0; i < 20; i++) {
        char name[16], next[16];

        (void)snprintf(name, sizeof(name), "f%d", i);
        (void)snprintf(next, sizeof(next), "f%d", i + 1);
        function(&f, name, "n3:output:0", NULL);
        call(&f, "n0", next, "a");
        call(&f, "n1", next, "n0:output:0");
        call(&f, "n2", next, "n1:output:0");
        call(&f, "n3", next, "n2:output:0");
    }
    function(&f, "f20", "n:y:0", NULL);
    type(&f, node(&f, "Neg", "n", "a", NULL), "T");
    ck_assert_int_eq(import(&f, g, &err), ERR_LIMIT);
    ck_assert_msg(strstr(err.msg, "its functions, where they are called, ") != NULL, "%s",
                  err.msg);
    graph_free(g);
    arena_done(&f.a);
}
END_TEST

/* A call whose function returns its input, which is the call. */
START_TEST(a_call_of_its_own_result_is_refused)
{
    struct graph *g = graph_new();
    struct file f;
    struct err err = {0};

    file_init(&f);
    placeholder_x(&f);
    call(&f, "y", "f", "z:0");
    call(&f, "z", "f", "y:0");
    function(&f, "f", "a", NULL);
    ck_assert_int_eq(import(&f, g, &err), ERR_FORMAT);
    ck_assert_msg(strstr(err.msg, "is an input of itself") != NULL, "%s", err.msg);
    graph_free(g);
    arena_done(&f.a);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("functions");
    TCase *tc = tcase_create("functions");

    tcase_add_test(tc, functions_are_inlined);
    tcase_add_loop_test(tc, calls_that_stay_are_refused_by_a_run, 0, N_REFUSED);
    tcase_add_test(tc, functions_have_a_limit);
    tcase_add_test(tc, a_call_of_its_own_result_is_refused);
    suite_add_tcase(s, tc);
    return s;
}

TEST_MAIN(make_suite)
