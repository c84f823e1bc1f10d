#include "agent/graph/ops.h"
#include "agent/nn/nn.h"
#include "agent/ops/op_table.h"
#include "agent/saver/message.h"
#include "agent/saver/metagraph_export.h"
#include "agent/saver/metagraph_import.h"
#include "agent/saver/op_list.h"
#include "common/ckpt/bundle.h"
#include "common/mem/xmalloc.h"
#include "tests/agent/metagraph_help.h"
#include "tests/agent/session_help.h"
#include "tests/support/checkpoints.h"
#include "tests/support/team.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_main.h"

#include <string.h>

/* ---- TensorFlow's own files ---- */

static void check_same_bytes(const char *prefix, const void *data, size_t n)
{
    struct arena a = {0};
    struct wbuf b = {0};
    Tf__MetaGraphDef *m = MESSAGE_UNPACK(&a, meta_graph_def, data, n);

    ck_assert_msg(m != NULL, "%s", prefix);
    message_pack(&b, m);
    ck_assert_msg(b.len == n && memcmp(b.data, data, n) == 0, "%s", prefix);
    wbuf_done(&b);
    arena_done(&a);
}

START_TEST(messages_keep_every_byte)
{
    for_each_meta(check_same_bytes);
}
END_TEST

static void check_import(const char *prefix, const void *data, size_t n)
{
    struct graph *g = graph_new();
    struct metagraph_info info;
    struct err err = {0};
    struct arena a = {0};
    const Tf__MetaGraphDef *m = MESSAGE_UNPACK(&a, meta_graph_def, data, n);

    ck_assert_msg(metagraph_import(g, data, n, NULL, &info, &err) == 0, "%s: %s", prefix,
                  err.msg);
    ck_assert_int_eq(graph_n_operations(g), (int)m->graph_def->n_node);
    ck_assert_int_eq(info.producer, m->graph_def->versions->producer);
    ck_assert_int_eq(graph_n_collections(g), (int)m->n_collection_def);
    for (size_t i = 0; i < m->graph_def->n_node; i++) {
        const Tf__NodeDef *node = m->graph_def->node[i];
        const struct operation *op = graph_operation(g, node->name);
        int n_in = operation_n_inputs(op);

        ck_assert_str_eq(operation_type(op), node->op);
        ck_assert_str_eq(operation_device(op), node->device);
        ck_assert_int_eq(n_in + operation_n_control_inputs(op), (int)node->n_input);
        ck_assert_int_ge(operation_n_attrs(op), (int)node->n_attr);
    }
    arena_done(&a);
    metagraph_info_done(&info);
    graph_free(g);
}

START_TEST(real_graphs_are_imported_whole)
{
    for_each_meta(check_import);
}
END_TEST

static void check_restore(const char *prefix, const void *data, size_t n)
{
    struct graph *g = graph_new();
    struct saver *saver;
    struct session *s;
    struct bundle_reader *r;
    struct err err = {0};
    char *meta = xasprintf("%s.meta", prefix);

    (void)data;
    (void)n;
    ck_assert_msg(import_meta_graph(&saver, g, meta, NULL, &err) == 0, "%s", err.msg);
    ck_assert_msg(session_new(&s, g, NULL, &err) == 0, "%s: %s", prefix, err.msg);
    ck_assert_msg(saver_restore(saver, s, prefix, &err) == 0, "%s: %s", prefix, err.msg);
    ck_assert_int_eq(bundle_reader_new(&r, prefix, &err), 0);
    ck_assert_uint_eq(saver_n_items(saver), bundle_reader_count(r));
    for (size_t i = 0; i < saver_n_items(saver); i++) {
        const struct saver_item *item = saver_item_at(saver, i);
        struct tensor want, is;

        ck_assert_int_eq(bundle_reader_read(r, bundle_reader_entry(r, i), &want, &err),
                         0);
        ck_assert_int_eq(session_variable(s, item->variable, &is, &err), 0);
        ck_assert_msg(tensor_equal(&want, &is), "%s", item->name);
        tensor_free(&want);
    }
    bundle_reader_free(r);
    session_free(s);
    saver_free(saver);
    graph_free(g);
    free(meta);
}

START_TEST(real_variables_are_restored)
{
    for_each_meta(check_restore);
}
END_TEST

/* report_uninitialized_variables as TensorFlow 0.12 and 1.8 built it into their graphs,
 * before and after a restore. */
START_TEST(real_graphs_report_uninitialized_variables)
{
    static const struct {
        const char *prefix, *fetch, *first;
        int n;
    } files[] = {
        {"20-Shanky007-regressionModel/ckpt/model.ckpt",
         "report_uninitialized_variables/boolean_mask/Gather:0",
         "deep_regression/fc1/weights", 6},
        {"21-codlife-tensorflow-example/tf_tutorial/tmp/model.ckpt-237",
         "report_uninitialized_variables_1/boolean_mask/GatherV2:0", "dense/kernel", 5},
    };

    for (size_t i = 0; test_has_real_checkpoints() && i < 2; i++) {
        char *prefix =
            xasprintf("%s/data/tf-checkpoints/%s", test_shared_dir(), files[i].prefix);
        char *meta = xasprintf("%s.meta", prefix);
        struct saver *saver;
        struct bed b;
        struct output names;
        struct tensor t;
        const struct tensor_string *first;

        bed_init(&b);
        ck_assert_int_eq(import_meta_graph(&saver, b.g, meta, NULL, &b.err), 0);
        ck_assert_int_eq(graph_tensor(b.g, files[i].fetch, &names, &b.err), 0);
        t = bed_fetch(&b, names);
        ck_assert_int_eq(tensor_elements(&t), files[i].n);
        first = t.data;
        ck_assert_uint_eq(first->len_bytes, strlen(files[i].first));
        ck_assert_mem_eq(first->bytes, files[i].first, first->len_bytes);
        tensor_free(&t);
        ck_assert_int_eq(saver_restore(saver, b.s, prefix, &b.err), 0);
        t = bed_fetch(&b, names);
        ck_assert_int_eq(tensor_elements(&t), 0);
        tensor_free(&t);
        saver_free(saver);
        bed_done(&b);
        free(meta);
        free(prefix);
    }
}
END_TEST

/* Imports the bytes of `first`, exports the graph and compares. */
static void check_round_trip(const char *what, const struct wbuf *first)
{
    struct graph *g = graph_new();
    struct metagraph_info info;
    struct err err = {0};
    struct wbuf second;

    ck_assert_msg(metagraph_import(g, first->data, first->len, NULL, &info, &err) == 0,
                  "%s: %s", what, err.msg);
    second = export_of(g, info.has_saver ? &info.saver : NULL);
    ck_assert_msg(first->len == second.len &&
                      memcmp(first->data, second.data, first->len) == 0,
                  "%s: %zu bytes, then %zu", what, first->len, second.len);
    wbuf_done(&second);
    metagraph_info_done(&info);
    graph_free(g);
}

static void check_real_round_trip(const char *prefix, const void *data, size_t n)
{
    struct graph *g = graph_new();
    struct metagraph_info info;
    struct err err = {0};
    struct wbuf b;

    ck_assert_int_eq(metagraph_import(g, data, n, NULL, &info, &err), 0);
    b = export_of(g, info.has_saver ? &info.saver : NULL);
    check_round_trip(prefix, &b);
    wbuf_done(&b);
    metagraph_info_done(&info);
    graph_free(g);
}

START_TEST(real_graphs_are_exported_and_imported_again)
{
    for_each_meta(check_real_round_trip);
}
END_TEST

/* ---- our files ---- */

static void run_named(struct graph *g, struct session *s, const char *target,
                      uint64_t counter)
{
    static const float x[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    static const float y[8] = {1, 0, 2, 0, 3, 0, 4, 0};
    struct feed feeds[2] = {
        {.value = tensor_const_view(DT_FLOAT, SHAPE(4, 3), x)},
        {.value = tensor_const_view(DT_FLOAT, SHAPE(4, 2), y)},
    };
    struct operation *op = graph_operation(g, target);
    struct run_args args = {.feeds = feeds,
                            .n_feeds = 2,
                            .targets = &op,
                            .n_targets = 1,
                            .key = rng_key_make(5, "test", "regression"),
                            .counter = counter};
    struct err err = {0};

    ck_assert_int_eq(graph_tensor(g, "x:0", &feeds[0].output, &err), 0);
    ck_assert_int_eq(graph_tensor(g, "y:0", &feeds[1].output, &err), 0);
    ck_assert_msg(session_run(s, &args, NULL, &err) == 0, "%s", err.msg);
}

/* The file alone is enough to go on training, with the same bytes as the graph that it
 * was written from. */
START_TEST(an_imported_graph_trains_on)
{
    struct graph *g = graph_new(), *again = graph_new();
    struct session *s, *t;
    struct saver *saver, *imported;
    struct temp_dir dir;
    struct err err = {0};
    char *prefix, *meta;

    temp_dir_init(&dir);
    build_regression(g);
    ck_assert_int_eq(saver_new(&saver, g, NULL, &err), 0);
    ck_assert_int_eq(session_new(&s, g, NULL, &err), 0);
    run_named(g, s, "init", 0);
    for (uint64_t i = 1; i <= 10; i++)
        run_named(g, s, "Adam", i);
    prefix = xasprintf("%s/m-10", dir.path);
    meta = xasprintf("%s.meta", prefix);
    ck_assert_int_eq(saver_save(saver, s, prefix, NULL, NULL, &err), 0);
    ck_assert_msg(import_meta_graph(&imported, again, meta, NULL, &err) == 0, "%s",
                  err.msg);
    ck_assert_int_eq(session_new(&t, again, NULL, &err), 0);
    ck_assert_msg(saver_restore(imported, t, prefix, &err) == 0, "%s", err.msg);
    for (uint64_t i = 11; i <= 20; i++) {
        run_named(g, s, "Adam", i);
        run_named(again, t, "Adam", i);
    }
    ck_assert_uint_eq(session_block_bytes(s), session_block_bytes(t));
    ck_assert_mem_eq(session_block(s), session_block(t), session_block_bytes(s));
    session_free(s);
    session_free(t);
    saver_free(saver);
    saver_free(imported);
    graph_free(g);
    graph_free(again);
    free(prefix);
    free(meta);
    temp_dir_done(&dir);
}
END_TEST

START_TEST(our_graphs_come_back_as_they_were)
{
    struct team_args args = team_spread("{}", 1);
    struct team *t = team_new(&args);
    struct graph *g = graph_new();
    struct saver *saver;
    struct wbuf b, twice;

    b = export_of(t->members[0].graph, NULL);
    check_round_trip("maddpg", &b);
    twice = export_of(t->members[0].graph, NULL);
    ck_assert(b.len == twice.len && memcmp(b.data, twice.data, b.len) == 0);
    wbuf_done(&b);
    wbuf_done(&twice);
    team_free(t);
    build_regression(g);
    collection_add(g, "numbers", (struct collection_item){.kind = ITEM_INT, .i = -7});
    collection_add(g, "floats", (struct collection_item){.kind = ITEM_FLOAT, .f = 0.5});
    collection_add(g, "texts", (struct collection_item){.kind = ITEM_STRING, .s = "a"});
    ck_assert_int_eq(saver_new(&saver, g, NULL, NULL), 0);
    b = export_of(g, saver_as_def(saver));
    check_round_trip("regression", &b);
    wbuf_done(&b);
    saver_free(saver);
    graph_free(g);
}
END_TEST

static void import_ours(struct graph *g, struct graph *from,
                        const struct metagraph_import_options *o)
{
    struct wbuf b = export_of(from, NULL);
    struct err err = {0};

    ck_assert_msg(metagraph_import(g, b.data, b.len, o, NULL, &err) == 0, "%s", err.msg);
    wbuf_done(&b);
}

static void check_class(const struct attr *class, const char *want)
{
    ck_assert_msg(class != NULL && class->n == 1, "%s", want);
    ck_assert_uint_eq(class->list_s[0].len_bytes, strlen(want));
    ck_assert_mem_eq(class->list_s[0].bytes, want, strlen(want));
}

START_TEST(under_a_scope)
{
    struct graph *from = graph_new(), *g = graph_new();
    struct metagraph_import_options o = {.import_scope = "s", .clear_devices = 1};
    const struct attr *class;
    const struct collection_item *items;

    device_enter(from, "/job:ps/task:3");
    build_regression(from);
    device_leave(from);
    import_ours(g, from, &o);
    import_ours(g, from, &o);
    ck_assert_ptr_nonnull(graph_operation(g, "s/Adam"));
    ck_assert_ptr_nonnull(graph_operation(g, "s_1/Adam"));
    ck_assert_int_eq(graph_n_operations(g), 2 * graph_n_operations(from));
    class =
        operation_attr(graph_operation(g, "s/fully_connected/weights/read"), "_class");
    check_class(class, "loc:@s/fully_connected/weights");
    ck_assert_uint_eq(collection_get(g, GLOBAL_VARIABLES, "s/", NULL), 14);
    ck_assert_uint_eq(collection_get(g, GLOBAL_VARIABLES, NULL, &items), 28);
    ck_assert_str_eq(items[14].variable->name, "s_1/fully_connected/weights");
    for (int i = 0; i < graph_n_operations(g); i++)
        ck_assert_str_eq(operation_device(graph_operation_at(g, i)), "");
    graph_free(from);
    graph_free(g);
}
END_TEST

/* Each import has its own variables and its own Saver; it restores by the names in the
 * file. */
START_TEST(a_second_import_has_names_of_its_own)
{
    struct temp_dir dir;
    struct graph *from = graph_new(), *g = graph_new();
    struct saver *saver, *of[2];
    struct session *s;
    struct wbuf b;
    struct err err = {0};
    const struct attr *class;
    const struct collection_item *items;
    struct variable *w[2];
    struct tensor value[2];
    struct operation *init;
    struct run_args run = {.targets = &init, .n_targets = 1};
    char *prefix;

    temp_dir_init(&dir);
    build_regression(from);
    ck_assert_int_eq(saver_new(&saver, from, NULL, &err), 0);
    b = export_of(from, saver_as_def(saver));
    for (int i = 0; i < 2; i++)
        ck_assert_msg(
            import_meta_graph_bytes(&of[i], g, b.data, b.len, NULL, NULL, &err) == 0,
            "%s", err.msg);
    ck_assert_int_eq(graph_n_operations(g), 2 * graph_n_operations(from));
    ck_assert_ptr_nonnull(graph_operation(g, "Adam_1"));
    ck_assert_uint_eq(collection_get(g, GLOBAL_VARIABLES, NULL, &items), 28);
    w[0] = items[0].variable;
    w[1] = items[14].variable;
    ck_assert_str_eq(w[0]->name, "fully_connected/weights");
    ck_assert_str_eq(w[1]->name, "fully_connected/weights_1");
    ck_assert_str_eq(operation_name(w[1]->initializer),
                     "fully_connected/weights/Assign_1");
    class = operation_attr(w[1]->read.op, "_class");
    check_class(class, "loc:@fully_connected/weights_1");
    ck_assert_int_eq(session_new(&s, g, NULL, &err), 0);
    init = graph_operation(g, "init");
    ck_assert_msg(session_run(s, &run, NULL, &err) == 0, "%s", err.msg);
    prefix = xasprintf("%s/m", dir.path);
    ck_assert_msg(saver_save(of[0], s, prefix, NULL, NULL, &err) == 0, "%s", err.msg);
    ck_assert(!session_variable_initialized(s, w[1]));
    ck_assert_msg(saver_restore(of[1], s, prefix, &err) == 0, "%s", err.msg);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(session_variable(s, w[i], &value[i], &err), 0);
    ck_assert_mem_eq(value[0].data, value[1].data, tensor_bytes(&value[0]));
    ck_assert_ptr_ne(value[0].data, value[1].data);
    free(prefix);
    session_free(s);
    for (int i = 0; i < 2; i++)
        saver_free(of[i]);
    saver_free(saver);
    wbuf_done(&b);
    graph_free(g);
    graph_free(from);
    temp_dir_done(&dir);
}
END_TEST

static void check_tensor(struct graph *g, const char *name)
{
    struct output x;

    ck_assert_msg(strncmp(name, "s/", 2) == 0, "%s", name);
    ck_assert_msg(graph_tensor(g, name, &x, NULL) == 0, "%s", name);
}

/* Contexts of a tf.cond and Savers contain names of nodes, which get the import scope. */
START_TEST(messages_of_collections_are_scoped)
{
    struct metagraph_import_options o = {.import_scope = "s"};
    const struct collection_item *items;
    struct graph *g;
    struct saver *saver;
    struct arena a = {0};
    struct err err = {0};
    char *meta;
    size_t n;

    if (!test_has_real_checkpoints())
        return;
    g = graph_new();
    meta = xasprintf("%s/data/tf-checkpoints/21-codlife-tensorflow-example/tf_tutorial/"
                     "tmp/model.ckpt-237.meta",
                     test_shared_dir());
    ck_assert_msg(import_meta_graph(&saver, g, meta, &o, &err) == 0, "%s", err.msg);
    n = collection_get(g, "cond_context", NULL, &items);
    ck_assert_uint_eq(n, 2);
    for (size_t i = 0; i < n; i++) {
        const Tf__CondContextDef *c =
            MESSAGE_UNPACK(&a, cond_context_def, items[i].s, items[i].n_bytes);

        ck_assert_int_eq(strncmp(c->context_name, "s/", 2), 0);
        check_tensor(g, c->pred_name);
        check_tensor(g, c->pivot_name);
        ck_assert_uint_ge(c->values_def->n_values, 1);
        for (size_t k = 0; k < c->values_def->n_values; k++)
            check_tensor(g, c->values_def->values[k]);
        for (size_t k = 0; k < c->values_def->n_external_values; k++) {
            check_tensor(g, c->values_def->external_values[k]->key);
            check_tensor(g, c->values_def->external_values[k]->value);
        }
    }
    ck_assert_uint_eq(collection_get(g, "savers", NULL, &items), 1);
    check_tensor(
        g, ((Tf__SaverDef *)MESSAGE_UNPACK(&a, saver_def, items[0].s, items[0].n_bytes))
               ->filename_tensor_name);
    arena_done(&a);
    saver_free(saver);
    graph_free(g);
    free(meta);
}
END_TEST

/* A loop in a branch: nested contexts. */
START_TEST(nested_contexts_are_scoped)
{
    struct metagraph_import_options o = {.import_scope = "s"};
    struct arena a = {0};
    Tf__WhileContextDef *inner = MESSAGE_NEW(&a, WhileContextDef, while_context_def);
    Tf__ControlFlowContextDef *flow =
        MESSAGE_NEW(&a, ControlFlowContextDef, control_flow_context_def);
    Tf__CondContextDef *outer = MESSAGE_NEW(&a, CondContextDef, cond_context_def);
    struct graph *g = graph_new(), *from = graph_new();
    const struct collection_item *item;
    struct wbuf b = {0};

    inner->pivot_name = arena_strdup(&a, "while/pivot:0");
    message_pack(&b, inner);
    flow->ctxt_case = TF__CONTROL_FLOW_CONTEXT_DEF__CTXT_WHILE_CTXT;
    flow->while_ctxt = message_bytes(&a, b.data, b.len);
    b.len = 0;
    message_pack(&b, flow);
    outer->nested_contexts = ARENA_ARRAY(&a, ProtobufCBinaryData, 1);
    outer->nested_contexts[0] = message_bytes(&a, b.data, b.len);
    outer->n_nested_contexts = 1;
    b.len = 0;
    message_pack(&b, outer);
    (void)no_op(from, "op");
    collection_add(from, "cond_context",
                   (struct collection_item){
                       .kind = ITEM_BYTES, .s = (const char *)b.data, .n_bytes = b.len});
    import_ours(g, from, &o);
    ck_assert_uint_eq(collection_get(g, "cond_context", NULL, &item), 1);
    outer = MESSAGE_UNPACK(&a, cond_context_def, item->s, item->n_bytes);
    flow = MESSAGE_UNPACK(&a, control_flow_context_def, outer->nested_contexts[0].data,
                          outer->nested_contexts[0].len);
    inner = MESSAGE_UNPACK(&a, while_context_def, flow->while_ctxt.data,
                           flow->while_ctxt.len);
    ck_assert_str_eq(inner->pivot_name, "s/while/pivot:0");
    ck_assert_str_eq(inner->context_name, "");
    wbuf_done(&b);
    arena_done(&a);
    graph_free(g);
    graph_free(from);
}
END_TEST

/* ---- files of other programs ---- */

/* A MetaGraphDef of a few nodes, written by hand. */
struct hand {
    struct arena a;
    Tf__MetaGraphDef *m;
};

static void hand_init(struct hand *h, int producer)
{
    *h = (struct hand){0};
    h->m = MESSAGE_NEW(&h->a, MetaGraphDef, meta_graph_def);
    h->m->graph_def = MESSAGE_NEW(&h->a, GraphDef, graph_def);
    h->m->graph_def->node = ARENA_ARRAY(&h->a, Tf__NodeDef *, 16);
    h->m->graph_def->versions = MESSAGE_NEW(&h->a, VersionDef, version_def);
    h->m->graph_def->versions->producer = producer;
}

static Tf__NodeDef *hand_node(struct hand *h, const char *op, const char *name)
{
    Tf__NodeDef *n = MESSAGE_NEW(&h->a, NodeDef, node_def);

    n->op = arena_strdup(&h->a, op);
    n->name = arena_strdup(&h->a, name);
    n->input = ARENA_ARRAY(&h->a, char *, 4);
    n->attr = ARENA_ARRAY(&h->a, Tf__NodeDef__AttrEntry *, 8);
    h->m->graph_def->node[h->m->graph_def->n_node++] = n;
    return n;
}

static void hand_input(struct hand *h, Tf__NodeDef *n, const char *input)
{
    n->input[n->n_input++] = arena_strdup(&h->a, input);
}

static Tf__AttrValue *hand_attr(struct hand *h, Tf__NodeDef *n, const char *name)
{
    Tf__NodeDef__AttrEntry *e =
        MESSAGE_NEW(&h->a, NodeDef__AttrEntry, node_def__attr_entry);

    e->key = arena_strdup(&h->a, name);
    e->value = MESSAGE_NEW(&h->a, AttrValue, attr_value);
    n->attr[n->n_attr++] = e;
    return e->value;
}

static void hand_type(struct hand *h, Tf__NodeDef *n, const char *name)
{
    Tf__AttrValue *v = hand_attr(h, n, name);

    v->value_case = TF__ATTR_VALUE__VALUE_TYPE;
    v->type = DT_FLOAT;
}

static Tf__NodeDef *hand_placeholder(struct hand *h, const char *name)
{
    Tf__NodeDef *n = hand_node(h, "Placeholder", name);
    Tf__AttrValue *v = hand_attr(h, n, "shape");

    v->value_case = TF__ATTR_VALUE__VALUE_SHAPE;
    v->shape = MESSAGE_NEW(&h->a, TensorShapeProto, tensor_shape_proto);
    hand_type(h, n, "dtype");
    return n;
}

static Tf__NodeDef *hand_neg(struct hand *h, const char *name, const char *input)
{
    Tf__NodeDef *n = hand_node(h, "Neg", name);

    hand_input(h, n, input);
    hand_type(h, n, "T");
    return n;
}

static int hand_import(struct hand *h, struct graph *g, struct err *err)
{
    struct wbuf b = {0};
    int rc;

    message_pack(&b, h->m);
    rc = metagraph_import(g, b.data, b.len, NULL, NULL, err);
    wbuf_done(&b);
    arena_done(&h->a);
    return rc;
}

START_TEST(an_old_placeholder_s_shape_is_unknown)
{
    for (int producer = 21; producer <= 22; producer++) {
        struct graph *g = graph_new();
        struct hand h;
        struct output x;
        struct shape shape;

        hand_init(&h, producer);
        hand_placeholder(&h, "x");
        ck_assert_int_eq(hand_import(&h, g, NULL), 0);
        ck_assert_int_eq(graph_tensor(g, "x:0", &x, NULL), 0);
        shape = output_shape(x);
        ck_assert_int_eq(shape.rank, producer == 21 ? -1 : 0);
        graph_free(g);
    }
}
END_TEST

/* Nodes in any order, one with an unknown op: "y" can run; "z" can run only if the output
 * of the unknown op is fed. */
START_TEST(unknown_ops_are_kept)
{
    struct bed b;
    struct hand h;
    struct output y, z, strange;
    Tf__NodeDef *n;
    float three = 3.0f;
    struct wbuf exported;

    bed_init(&b);
    hand_init(&h, 27);
    hand_neg(&h, "z", "strange:1");
    hand_neg(&h, "y", "x");
    n = hand_node(&h, "Frobnicate", "strange");
    hand_input(&h, n, "x");
    hand_input(&h, n, "^y");
    hand_type(&h, n, "T");
    hand_placeholder(&h, "x");
    ck_assert_msg(hand_import(&h, b.g, &b.err) == 0, "%s", b.err.msg);
    ck_assert_int_eq(graph_tensor(b.g, "y:0", &y, &b.err), 0);
    ck_assert_int_eq(graph_tensor(b.g, "z:0", &z, &b.err), 0);
    ck_assert_int_eq(graph_tensor(b.g, "strange:1", &strange, &b.err), 0);
    ck_assert_str_eq(operation_type(strange.op), "Frobnicate");
    ck_assert_ptr_eq(operation_control_input(strange.op, 0), y.op);
    b.feeds[0] = (struct feed){operation_input(y.op, 0), tensor_scalar_f32(&three)};
    b.n_feeds = 1;
    ck_assert_float_eq(bed_scalar(&b, y), -3.0f);
    ck_assert_int_eq(bed_try(&b, z), ERR_UNSUPPORTED);
    ck_assert_str_eq(b.err.msg, "strange: operations of type Frobnicate cannot be run");
    b.feeds[0].output = strange;
    ck_assert_float_eq(bed_scalar(&b, z), -3.0f);
    exported = export_of(b.g, NULL);
    check_round_trip("unknown op", &exported);
    wbuf_done(&exported);
    bed_done(&b);
}
END_TEST

/* The function library, signatures and asset files, which nothing here uses, are written
 * back; those of a second import join them, but signatures not under other names. */
START_TEST(functions_and_signatures_are_kept)
{
    unsigned char library[] = {0x0a, 0x02, 0x08, 0x01}, signature[] = {1, 2, 3},
                  asset[] = {4, 5};
    const ProtobufCBinaryData signatures[] = {{sizeof(signature), signature}};
    const ProtobufCBinaryData assets[] = {{sizeof(asset), asset}};
    struct bed b;
    struct arena arena = ARENA_ZERO;
    struct wbuf exported;
    Tf__MetaGraphDef *m;

    bed_init(&b);
    for (int time = 0; time < 2; time++) {
        const struct metagraph_import_options again = {.import_scope = "again"};
        struct wbuf bytes = {0};
        struct hand h;

        hand_init(&h, 27);
        hand_placeholder(&h, "x");
        h.m->graph_def->library = (ProtobufCBinaryData){sizeof(library), library};
        h.m->signature_def = (ProtobufCBinaryData *)(uintptr_t)signatures;
        h.m->asset_file_def = (ProtobufCBinaryData *)(uintptr_t)assets;
        h.m->n_signature_def = h.m->n_asset_file_def = 1;
        message_pack(&bytes, h.m);
        ck_assert_msg(metagraph_import(b.g, bytes.data, bytes.len,
                                       time == 0 ? NULL : &again, NULL, &b.err) == 0,
                      "%s", b.err.msg);
        wbuf_done(&bytes);
        arena_done(&h.a);
    }
    exported = export_of(b.g, NULL);
    m = MESSAGE_UNPACK(&arena, meta_graph_def, exported.data, exported.len);
    ck_assert_ptr_nonnull(m);
    ck_assert_uint_eq(m->graph_def->library.len, 2 * sizeof(library));
    ck_assert_mem_eq(m->graph_def->library.data + sizeof(library), library,
                     sizeof(library));
    ck_assert_uint_eq(m->n_signature_def, 1);
    ck_assert_mem_eq(m->signature_def[0].data, signature, sizeof(signature));
    ck_assert_uint_eq(m->n_asset_file_def, 1);
    ck_assert_mem_eq(m->asset_file_def[0].data, asset, sizeof(asset));
    arena_done(&arena);
    wbuf_done(&exported);
    bed_done(&b);
}
END_TEST

/* Newer versions of TensorFlow have more attributes. The op runs if one only describes, or has
 * the default of the file's own definition, which an export keeps; otherwise it counts as unknown,
 * because of that attribute. */
START_TEST(attributes_that_we_lack)
{
    static const struct {
        const char *name;
        int is_default, runs;
    } attrs[] = {
        {"brand_new", 0, 0}, {"brand_new", 1, 1}, {"grad_a", 0, 1}, {"debug_name", 1, 1}};

    for (size_t i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++) {
        const char *name = attrs[i].name;
        struct wbuf exported;
        struct bed b;
        struct hand h;
        Tf__NodeDef *n;
        Tf__OpDef *def;
        Tf__AttrValue *v;
        struct output y;
        float three = 3.0f;

        bed_init(&b);
        hand_init(&h, 1205);
        hand_placeholder(&h, "x");
        n = hand_neg(&h, "y", "x");
        v = hand_attr(&h, n, name);
        v->value_case = TF__ATTR_VALUE__VALUE_B;
        v->b = !attrs[i].is_default;
        h.m->meta_info_def =
            MESSAGE_NEW(&h.a, MetaGraphDef__MetaInfoDef, meta_graph_def__meta_info_def);
        h.m->meta_info_def->stripped_op_list = MESSAGE_NEW(&h.a, OpList, op_list);
        h.m->meta_info_def->stripped_op_list->n_op = 1;
        h.m->meta_info_def->stripped_op_list->op = ARENA_ARRAY(&h.a, Tf__OpDef *, 1);
        h.m->meta_info_def->stripped_op_list->op[0] = def =
            op_def_to_proto(&h.a, op_def_find(&op_table, "Neg"));
        def->attr = ARENA_ARRAY(&h.a, Tf__OpDef__AttrDef *, 2);
        def->n_attr = 2;
        def->attr[0] = MESSAGE_NEW(&h.a, OpDef__AttrDef, op_def__attr_def);
        def->attr[0]->name = arena_strdup(&h.a, "T");
        def->attr[0]->type = arena_strdup(&h.a, "type");
        def->attr[1] = MESSAGE_NEW(&h.a, OpDef__AttrDef, op_def__attr_def);
        def->attr[1]->name = arena_strdup(&h.a, name);
        def->attr[1]->type = arena_strdup(&h.a, "bool");
        def->attr[1]->default_value = MESSAGE_NEW(&h.a, AttrValue, attr_value);
        def->attr[1]->default_value->value_case = TF__ATTR_VALUE__VALUE_B;
        ck_assert_msg(hand_import(&h, b.g, &b.err) == 0, "%s", b.err.msg);
        ck_assert_int_eq(graph_tensor(b.g, "y:0", &y, &b.err), 0);
        b.feeds[0] = (struct feed){operation_input(y.op, 0), tensor_scalar_f32(&three)};
        b.n_feeds = 1;
        if (attrs[i].runs) {
            ck_assert_float_eq(bed_scalar(&b, y), -3.0f);
        } else {
            ck_assert_int_eq(bed_try(&b, y), ERR_UNSUPPORTED);
            ck_assert_str_eq(b.err.msg,
                             "y: operations of type Neg cannot be run with its "
                             "value of the attribute 'brand_new'");
        }
        ck_assert_int_eq(operation_attr(y.op, name)->i, !attrs[i].is_default);
        (void)unary(b.g, "Neg", y, "z"); /* of the table's row */
        exported = export_of(b.g, NULL);
        check_round_trip(name, &exported);
        wbuf_done(&exported);
        bed_done(&b);
    }
}
END_TEST

/* Some say what to use instead; others of similar names do not. */
START_TEST(unknown_ops_that_say_more)
{
    static const struct {
        const char *op, *says;
    } nodes[] = {
        {"CudnnRNN", "CudnnCompatibleLSTMCell"},
        {"CudnnRNNV3", "CudnnCompatibleLSTMCell"},
        {"CudnnRNNParamsToCanonical", "CudnnCompatibleLSTMCell"},
        {"Svd", "SelfAdjointEigV2"},
        {"BatchSvd", "SelfAdjointEigV2"},
        {"Cudnn", "operations of type Cudnn cannot be run"},
    };
    struct bed b;
    struct hand h;

    bed_init(&b);
    hand_init(&h, 27);
    for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++)
        hand_type(&h, hand_node(&h, nodes[i].op, nodes[i].op), "T");
    ck_assert_msg(hand_import(&h, b.g, &b.err) == 0, "%s", b.err.msg);
    for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
        struct operation *op = graph_operation(b.g, nodes[i].op);
        struct run_args args = bed_args(&b);

        args.targets = &op;
        args.n_targets = 1;
        ck_assert_int_eq(session_run(b.s, &args, NULL, &b.err), ERR_UNSUPPORTED);
        ck_assert_msg(strstr(b.err.msg, nodes[i].says) != NULL, "%s", b.err.msg);
    }
    bed_done(&b);
}
END_TEST

/* Only what takes a stack's handle is changed with it; tests/tensorflow runs such stacks. */
START_TEST(old_stacks_become_new_ones)
{
    struct graph *g = graph_new();
    struct err err;
    struct hand h;
    Tf__NodeDef *n;

    hand_init(&h, 10);
    hand_placeholder(&h,
                     "Stack/max_size");   /* the name that the stack's size would have */
    n = hand_node(&h, "StackPop", "pop"); /* before what it pops from */
    hand_input(&h, n, "passed");
    hand_type(&h, n, "elem_type");
    n = hand_node(&h, "RefIdentity", "passed");
    hand_input(&h, n, "s");
    hand_type(&h, n, "T");
    n = hand_node(&h, "Stack", "s");
    hand_type(&h, n, "elem_type");
    n = hand_node(&h, "StackPop", "other");
    hand_input(&h, n, "Stack/max_size");
    hand_type(&h, n, "elem_type");
    ck_assert_msg(hand_import(&h, g, &err) == 0, "%s", err.msg);
    ck_assert_str_eq(operation_type(graph_operation(g, "s")), "StackV2");
    ck_assert_str_eq(operation_name(operation_input(graph_operation(g, "s"), 0).op),
                     "Stack/max_size_1");
    ck_assert_str_eq(operation_type(graph_operation(g, "passed")), "Identity");
    ck_assert_str_eq(operation_type(graph_operation(g, "pop")), "StackPopV2");
    ck_assert_str_eq(operation_type(graph_operation(g, "other")), "StackPop");
    graph_free(g);
}
END_TEST

/* Types and dilations that no kernel has: only a run that needs such a node fails. */
START_TEST(types_that_we_lack)
{
    static const struct {
        const char *op;
        int type, n_inputs;
    } nodes[] = {
        {"Mul", DT_COMPLEX64, 2},
        {"Add", DT_STRING, 2},
        {"ArgMax", DT_BOOL, 1},
        {"Identity", 13, 0},
    };
    struct bed b;
    struct hand h;
    struct output y;
    Tf__NodeDef *n;
    float three = 3.0f;

    bed_init(&b);
    hand_init(&h, 27);
    hand_placeholder(&h, "x");
    hand_neg(&h, "y", "x");
    for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
        n = hand_node(&h, nodes[i].op, nodes[i].op);
        for (int k = 0; k < nodes[i].n_inputs; k++)
            hand_input(&h, n, "x");
        hand_type(&h, n, "T");
        n->attr[0]->value->type = nodes[i].type;
    }
    ck_assert_msg(hand_import(&h, b.g, &b.err) == 0, "%s", b.err.msg);
    ck_assert_int_eq(graph_tensor(b.g, "y:0", &y, &b.err), 0);
    b.feeds[0] = (struct feed){operation_input(y.op, 0), tensor_scalar_f32(&three)};
    b.n_feeds = 1;
    ck_assert_float_eq(bed_scalar(&b, y), -3.0f);
    for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
        struct operation *op = graph_operation(b.g, nodes[i].op);
        struct run_args args = bed_args(&b);
        char says[128];

        args.targets = &op;
        args.n_targets = 1;
        ck_assert_int_eq(session_run(b.s, &args, NULL, &b.err), ERR_UNSUPPORTED);
        (void)snprintf(says, sizeof(says),
                       "%s: operations of type %s cannot be run with its value of the "
                       "attribute 'T'",
                       nodes[i].op, nodes[i].op);
        ck_assert_str_eq(b.err.msg, says);
    }
    bed_done(&b);
}
END_TEST

static void check_refused(struct hand *h, int code, const char *text)
{
    struct graph *g = graph_new();
    struct err err = {0};

    ck_assert_int_eq(hand_import(h, g, &err), code);
    ck_assert_msg(strstr(err.msg, text) != NULL, "'%s' is not in '%s'", text, err.msg);
    graph_free(g);
}

static void hand_strange(struct hand *h, Tf__NodeDef *n)
{
    hand_attr(h, n, "colour")->value_case = TF__ATTR_VALUE__VALUE_I;
}

/* An op with a known name and unknown attributes is an unknown op: neither a variable nor
 * a Saver's node. */
START_TEST(a_name_alone_makes_no_op_of_ours)
{
    static const char *const ops[] = {"VariableV2", "VarHandleOp", "Placeholder",
                                      "Const",      "SaveV2",      "Shape"};
    struct bed b;
    struct hand h;
    struct saver *saver = NULL;
    struct metagraph_info info;
    struct wbuf bytes = {0};
    struct run_args args;

    bed_init(&b);
    hand_init(&h, 27);
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        hand_strange(&h, hand_node(&h, ops[i], ops[i]));
    hand_placeholder(&h, "x");
    hand_input(&h, hand_node(&h, "NoOp", "all"), "^SaveV2");
    h.m->saver_def = MESSAGE_NEW(&h.a, SaverDef, saver_def);
    h.m->saver_def->filename_tensor_name = arena_strdup(&h.a, "x:0");
    h.m->saver_def->save_tensor_name = arena_strdup(&h.a, "x:0");
    h.m->saver_def->restore_op_name = arena_strdup(&h.a, "all");
    message_pack(&bytes, h.m);
    ck_assert_msg(metagraph_import(b.g, bytes.data, bytes.len, NULL, &info, &b.err) == 0,
                  "%s", b.err.msg);
    ck_assert_int_eq(metagraph_saver(&saver, b.g, &info, &b.err), ERR_NOT_FOUND);
    ck_assert_int_eq(session_fix_layout(b.s, &b.err), 0);
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        struct operation *op = graph_operation(b.g, ops[i]);

        ck_assert_str_eq(operation_type(op), ops[i]);
        ck_assert(!operation_is(op, ops[i]) && !operation_is_variable(op));
        args = bed_args(&b);
        args.targets = &op;
        args.n_targets = 1;
        ck_assert_int_eq(session_run(b.s, &args, NULL, &b.err), ERR_UNSUPPORTED);
        ck_assert_ptr_nonnull(strstr(b.err.msg, ops[i]));
    }
    metagraph_info_done(&info);
    wbuf_done(&bytes);
    arena_done(&h.a);
    bed_done(&b);
}
END_TEST

static void hand_names(struct hand *h, size_t at, const char *key,
                       const char *const *names, size_t n)
{
    Tf__MetaGraphDef__CollectionDefEntry *e = MESSAGE_NEW(
        &h->a, MetaGraphDef__CollectionDefEntry, meta_graph_def__collection_def_entry);

    e->key = arena_strdup(&h->a, key);
    e->value = MESSAGE_NEW(&h->a, CollectionDef, collection_def);
    e->value->kind_case = TF__COLLECTION_DEF__KIND_NODE_LIST;
    e->value->node_list =
        MESSAGE_NEW(&h->a, CollectionDef__NodeList, collection_def__node_list);
    e->value->node_list->value = ARENA_ARRAY(&h->a, char *, n);
    for (size_t i = 0; i < n; i++)
        e->value->node_list->value[e->value->node_list->n_value++] =
            arena_strdup(&h->a, names[i]);
    h->m->collection_def[at] = e;
    h->m->n_collection_def = at + 1;
}

/* As in a graph from which nodes were removed: the rest of the collection is imported. */
START_TEST(collections_may_name_what_is_not_there)
{
    static const char *const tensors[] = {"gone:0", "x:0", "x:7"};
    static const char *const operations[] = {"gone", "x"};
    const struct collection_item *items;
    struct graph *g = graph_new();
    struct err err = {0};
    struct hand h;

    hand_init(&h, 27);
    hand_placeholder(&h, "x");
    h.m->collection_def = ARENA_ARRAY(&h.a, Tf__MetaGraphDef__CollectionDefEntry *, 2);
    hand_names(&h, 0, "losses", tensors, 3);
    hand_names(&h, 1, "train_op", operations, 2);
    ck_assert_msg(hand_import(&h, g, &err) == 0, "%s", err.msg);
    ck_assert_uint_eq(collection_get(g, "losses", NULL, &items), 1);
    ck_assert_str_eq(operation_name(items[0].output.op), "x");
    ck_assert_uint_eq(collection_get(g, "train_op", NULL, &items), 1);
    ck_assert_str_eq(operation_name(items[0].op), "x");
    graph_free(g);
}
END_TEST

/* The field variable_name of a VariableDef is 1. */
START_TEST(a_variable_must_be_one)
{
    Tf__MetaGraphDef__CollectionDefEntry *e;
    struct hand h;
    uint8_t definition[] = "\x0a\x03x:0";

    hand_init(&h, 27);
    hand_placeholder(&h, "x");
    h.m->collection_def = ARENA_ARRAY(&h.a, Tf__MetaGraphDef__CollectionDefEntry *, 1);
    hand_names(&h, 0, "variables", NULL, 0);
    e = h.m->collection_def[0];
    e->value->kind_case = TF__COLLECTION_DEF__KIND_BYTES_LIST;
    e->value->bytes_list =
        MESSAGE_NEW(&h.a, CollectionDef__BytesList, collection_def__bytes_list);
    e->value->bytes_list->value = ARENA_ARRAY(&h.a, ProtobufCBinaryData, 1);
    e->value->bytes_list->value[0] = (ProtobufCBinaryData){
        .len = sizeof(definition) - 1, .data = arena_memdup(&h.a, definition, 5)};
    e->value->bytes_list->n_value = 1;
    check_refused(&h, ERR_UNSUPPORTED,
                  "collection 'variables': x:0 is no variable but a Placeholder");
}
END_TEST

START_TEST(what_is_no_graph_is_refused)
{
    struct graph *g = graph_new();
    struct err err = {0};
    struct hand h;
    Tf__NodeDef *n;
    Tf__AttrValue *v;

    ck_assert_int_eq(metagraph_import(g, "\xff\xff", 2, NULL, NULL, &err), ERR_FORMAT);
    ck_assert_int_eq(metagraph_import(g, "", 0, NULL, NULL, &err), ERR_FORMAT);
    graph_free(g);

    hand_init(&h, 27);
    hand_placeholder(&h, "x");
    hand_placeholder(&h, "x");
    check_refused(&h, ERR_EXISTS, "node 'x' is there twice");

    hand_init(&h, 27);
    n = hand_node(&h, "Neg", "y");
    hand_input(&h, n, "x");
    check_refused(&h, ERR_NOT_FOUND, "node 'y': its input 'x' does not exist");

    hand_init(&h, 27);
    n = hand_node(&h, "Neg", "y");
    hand_input(&h, n, "z");
    n = hand_node(&h, "Neg", "z");
    hand_input(&h, n, "y");
    check_refused(&h, ERR_FORMAT, "is an input of itself");

    hand_init(&h, 27);
    n = hand_node(&h, "Const", "huge");
    hand_type(&h, n, "dtype");
    v = hand_attr(&h, n, "value");
    v->value_case = TF__ATTR_VALUE__VALUE_TENSOR;
    v->tensor = MESSAGE_NEW(&h.a, TensorProto, tensor_proto);
    v->tensor->dtype = DT_FLOAT;
    v->tensor->tensor_shape = MESSAGE_NEW(&h.a, TensorShapeProto, tensor_shape_proto);
    v->tensor->tensor_shape->dim = ARENA_ARRAY(&h.a, Tf__TensorShapeProto__Dim *, 1);
    v->tensor->tensor_shape->n_dim = 1;
    v->tensor->tensor_shape->dim[0] =
        MESSAGE_NEW(&h.a, TensorShapeProto__Dim, tensor_shape_proto__dim);
    v->tensor->tensor_shape->dim[0]->size = (int64_t)1 << 40;
    check_refused(&h, ERR_LIMIT, "node 'huge': a constant of shape");
}
END_TEST

/* A Merge and a NextIteration that wait for each other are imported and exported; outside
 * of the loop their values cannot be fetched. */
START_TEST(loops_are_kept)
{
    struct bed bed;
    struct graph *g;
    struct hand h;
    struct output merged;
    struct wbuf b;
    Tf__NodeDef *n;
    float three = 3.0f;

    bed_init(&bed);
    g = bed.g;

    hand_init(&h, 27);
    hand_placeholder(&h, "x");
    n = hand_node(&h, "Merge", "merge");
    hand_input(&h, n, "x");
    hand_input(&h, n, "next");
    hand_type(&h, n, "T");
    hand_attr(&h, n, "N")->value_case = TF__ATTR_VALUE__VALUE_I;
    n->attr[1]->value->i = 2;
    n = hand_node(&h, "NextIteration", "next");
    hand_input(&h, n, "merge");
    hand_type(&h, n, "T");
    ck_assert_msg(hand_import(&h, g, &bed.err) == 0, "%s", bed.err.msg);
    ck_assert_str_eq(operation_name(operation_input(graph_operation(g, "merge"), 1).op),
                     "next");
    ck_assert_int_eq(graph_tensor(g, "x:0", &bed.feeds[0].output, &bed.err), 0);
    bed.feeds[0].value = tensor_scalar_f32(&three);
    bed.n_feeds = 1;
    ck_assert_int_eq(graph_tensor(g, "merge:0", &merged, &bed.err), 0);
    ck_assert_msg(bed_try(&bed, merged) == ERR_FORMAT, "%s", bed.err.msg);
    ck_assert_str_eq(bed.err.msg,
                     "merge is inside of a loop: only what leaves it through an "
                     "Exit can be used outside");
    b = export_of(g, NULL);
    check_round_trip("loop", &b);
    wbuf_done(&b);
    bed_done(&bed);
}
END_TEST

/* The graph is imported, and the Saver refused by name. */
START_TEST(savers_that_save_nothing_are_refused)
{
    struct graph *g = graph_new();
    struct hand h;
    struct saver *saver = NULL;
    struct metagraph_info info;
    struct err err = {0};
    struct wbuf b = {0};
    Tf__NodeDef *n;

    hand_init(&h, 9);
    hand_placeholder(&h, "save/Const");
    hand_node(&h, "NoOp", "save/save");
    n = hand_node(&h, "Identity", "save/control_dependency");
    hand_input(&h, n, "save/Const");
    hand_input(&h, n, "^save/save");
    hand_type(&h, n, "T");
    hand_node(&h, "NoOp", "save/restore_all");
    h.m->saver_def = MESSAGE_NEW(&h.a, SaverDef, saver_def);
    h.m->saver_def->filename_tensor_name = arena_strdup(&h.a, "save/Const:0");
    h.m->saver_def->save_tensor_name = arena_strdup(&h.a, "save/control_dependency:0");
    h.m->saver_def->restore_op_name = arena_strdup(&h.a, "save/restore_all");
    message_pack(&b, h.m);
    ck_assert_msg(metagraph_import(g, b.data, b.len, NULL, &info, &err) == 0, "%s",
                  err.msg);
    ck_assert_int_eq(metagraph_saver(&saver, g, &info, &err), ERR_NOT_FOUND);
    ck_assert_str_eq(err.msg,
                     "save/control_dependency:0: no operation before it saves variables");
    ck_assert_ptr_null(saver);
    metagraph_info_done(&info);
    wbuf_done(&b);
    arena_done(&h.a);
    graph_free(g);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("metagraph");
    TCase *real = tcase_create("real"), *ours = tcase_create("ours");
    TCase *others = tcase_create("others");

    tcase_set_timeout(real, 60);
    tcase_add_test(real, messages_keep_every_byte);
    tcase_add_test(real, real_graphs_are_imported_whole);
    tcase_add_test(real, real_variables_are_restored);
    tcase_add_test(real, real_graphs_are_exported_and_imported_again);
    tcase_add_test(real, real_graphs_report_uninitialized_variables);
    tcase_add_test(ours, an_imported_graph_trains_on);
    tcase_add_test(ours, our_graphs_come_back_as_they_were);
    tcase_add_test(ours, under_a_scope);
    tcase_add_test(ours, messages_of_collections_are_scoped);
    tcase_add_test(ours, nested_contexts_are_scoped);
    tcase_add_test(others, an_old_placeholder_s_shape_is_unknown);
    tcase_add_test(others, unknown_ops_are_kept);
    tcase_add_test(others, functions_and_signatures_are_kept);
    tcase_add_test(others, attributes_that_we_lack);
    tcase_add_test(others, unknown_ops_that_say_more);
    tcase_add_test(others, old_stacks_become_new_ones);
    tcase_add_test(others, types_that_we_lack);
    tcase_add_test(others, a_name_alone_makes_no_op_of_ours);
    tcase_add_test(others, collections_may_name_what_is_not_there);
    tcase_add_test(others, a_second_import_has_names_of_its_own);
    tcase_add_test(others, a_variable_must_be_one);
    tcase_add_test(others, what_is_no_graph_is_refused);
    tcase_add_test(others, loops_are_kept);
    tcase_add_test(others, savers_that_save_nothing_are_refused);
    suite_add_tcase(s, real);
    suite_add_tcase(s, ours);
    suite_add_tcase(s, others);
    return s;
}

TEST_MAIN(make_suite)
