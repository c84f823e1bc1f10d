/* Graphs in TensorFlow's format: the request `import` takes the graph of a MetaGraphDef
 * instead of building an algorithm's, `metagraph` exports the graph. */
#include "agent/loop/service_internal.h"

#include "agent/graph/import.h"
#include "agent/graph/op_def.h"
#include "agent/saver/metagraph_export.h"
#include "agent/saver/metagraph_import.h"
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "common/msg/unpack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_PREFIX = 4096,
    MAX_OTHER_OBJECTS = 64,
    ENVELOPE_BYTES = 1024,
    MAX_PASSES = 64
};

struct import_request {
    int restored;
    const void *metagraph;
    size_t metagraph_bytes;
    char prefix[MAX_PREFIX]; /* "": none */
};

static int read_request(struct service *s, const msgpack_object *body,
                        struct import_request *q, struct err *err)
{
    int rc;

    if ((rc = msg_require(body, "metagraph", err)) < 0 ||
        (rc = msg_get_str(body, "name", s->name, sizeof(s->name), err)) < 0 ||
        (rc = msg_get_u64(body, "seed", UINT64_MAX, &s->seed, err)) < 0 ||
        (rc = msg_get_bin(body, "metagraph", &q->metagraph, &q->metagraph_bytes, err)) <
            0 ||
        (rc = msg_get_str(body, "prefix", q->prefix, sizeof(q->prefix), err)) < 0)
        return rc;
    return msg_get_bool(body, "restored", &q->restored, err);
}

/* Why an imported graph lacks values; codes 0: it does not. */
struct lacks {
    struct err restoring, main_op;
};

/* Opens a session, restores its variables and runs the graph's main op. A block that was
 * restored from a dead process has their values already. A graph without values can still
 * be inspected. */
static int open(struct service *s, const struct import_request *q,
                const struct metagraph_info *info, struct lacks *why, struct err *err)
{
    const struct rng_key key = rng_key_make(s->seed, s->name, PURPOSE_INIT);
    struct saver *saver = NULL;
    int rc = metagraph_saver(&saver, s->graph, info, &why->restoring);
    int r = service_open_session(s, q->restored, err);

    if (r == 0 && rc == 0 && !q->restored && q->prefix[0] != '\0' && saver != NULL)
        rc = saver_restore(saver, s->session, q->prefix, &why->restoring);
    if (r == 0 && rc == 0 && !q->restored)
        (void)metagraph_run_main_op(s->graph, s->session, info, key, &why->main_op);
    saver_free(saver);
    return r;
}

/* ---- the answer ---- */

static void pack_output(struct output x, struct msg_out *out)
{
    const struct shape shape = output_shape(x);

    msg_array(out, 2);
    msg_u64(out, output_dtype(x));
    if (shape.rank < 0) {
        msg_nil(out);
        return;
    }
    msg_array(out, (size_t)shape.rank);
    for (int i = 0; i < shape.rank; i++)
        msg_i64(out, shape.dim[i]);
}

static void pack_node(struct operation *op, struct msg_out *out)
{
    const int n = operation_n_inputs(op), n_control = operation_n_control_inputs(op);
    char name[1280];

    msg_array(out, 6);
    msg_str(out, operation_name(op));
    msg_str(out, operation_type(op));
    msg_str(out, operation_device(op));
    msg_array(out, (size_t)(n + n_control));
    for (int i = 0; i < n; i++) {
        const struct output x = operation_input(op, i);

        msg_str(out,
                x.index == 0 ? operation_name(x.op) : output_name(x, name, sizeof(name)));
    }
    for (int i = 0; i < n_control; i++) {
        (void)snprintf(name, sizeof(name), "^%s",
                       operation_name(operation_control_input(op, i)));
        msg_str(out, name);
    }
    msg_array(out, (size_t)operation_n_outputs(op));
    for (int i = 0; i < operation_n_outputs(op); i++)
        pack_output((struct output){op, i}, out);
    msg_bool(out, (operation_def(op)->flags & OP_FOREIGN) == 0);
}

static void pack_item(const struct collection_item *item, struct msg_out *out)
{
    char text[1280] = "";

    switch (item->kind) {
    case ITEM_VARIABLE:
        msg_str(out, item->variable->name);
        return;
    case ITEM_OUTPUT:
        (void)output_name(item->output, text, sizeof(text));
        break;
    case ITEM_OPERATION:
        msg_str(out, operation_name(item->op));
        return;
    case ITEM_INT:
        (void)snprintf(text, sizeof(text), "%lld", (long long)item->i);
        break;
    case ITEM_FLOAT:
        (void)snprintf(text, sizeof(text), "%.9g", item->f);
        break;
    case ITEM_STRING:
        (void)snprintf(text, sizeof(text), "%s", item->s);
        break;
    case ITEM_BYTES:
        (void)snprintf(text, sizeof(text), "<%zu bytes>", item->n_bytes);
        break;
    }
    msg_str(out, text);
}

/* ---- what cannot run ---- */

/* The first blocker of the operation's inputs; -1: none. A Merge needs one of its inputs. */
static int blocker_of_inputs(const struct operation *op, const int *blockers)
{
    const int n = operation_n_inputs(op), is_merge = operation_is(op, "Merge");
    int found = -1, n_blocked = 0;

    for (int i = 0; i < n; i++) {
        const int b = blockers[operation_id(operation_input(op, i).op)];

        n_blocked += b >= 0;
        found = found < 0 ? b : found;
    }
    if (is_merge && n_blocked < n)
        found = -1;
    for (int i = 0; i < operation_n_control_inputs(op); i++) {
        const int b = blockers[operation_id(operation_control_input(op, i))];

        found = found < 0 ? b : found;
    }
    return found;
}

/* Returns, for each operation that cannot run, the id of one that is unknown here and that
 * it needs, or is itself; -1 for all others: free(). */
static int *find_blockers(struct graph *g)
{
    const int n = graph_n_operations(g);
    int *ret = xcalloc((size_t)n + 1, sizeof(*ret)), changed = 1;

    for (int i = 0; i < n; i++)
        ret[i] = (operation_def(graph_operation_at(g, i))->flags & OP_FOREIGN) ? i : -1;
    /* more than once only for loops, and control inputs made later */
    for (int pass = 0; changed && pass < MAX_PASSES; pass++) {
        changed = 0;
        for (int i = 0; i < n; i++) {
            if (ret[i] >= 0)
                continue;
            ret[i] = blocker_of_inputs(graph_operation_at(g, i), ret);
            changed |= ret[i] >= 0;
        }
    }
    return ret;
}

static const char *reason_of(const struct operation *op)
{
    return operation_reason(op) != NULL ? operation_reason(op)
                                        : "operations of this type cannot be run";
}

/* How many operations with outputs there are, and how many of them can run; how many others
 * each unknown operation keeps from running, and why it cannot run. */
static void pack_runnable(struct graph *g, struct msg_out *out)
{
    const int n = graph_n_operations(g);
    int *blockers = find_blockers(g);
    size_t *kept = xcalloc((size_t)n + 1, sizeof(*kept)), n_unknown = 0;
    uint64_t fetchable = 0, runnable = 0;

    for (int i = 0; i < n; i++) {
        const int has_outputs = operation_n_outputs(graph_operation_at(g, i)) > 0;

        fetchable += has_outputs;
        runnable += has_outputs && blockers[i] < 0;
        if (blockers[i] == i)
            n_unknown++;
        else if (blockers[i] >= 0)
            kept[blockers[i]]++;
    }
    msg_put_u64(out, "fetchable", fetchable);
    msg_put_u64(out, "runnable", runnable);
    msg_key(out, "kept");
    msg_array(out, n_unknown);
    for (int i = 0; i < n; i++)
        if (blockers[i] == i)
            msg_u64(out, kept[i]);
    msg_key(out, "reasons");
    msg_array(out, n_unknown);
    for (int i = 0; i < n; i++)
        if (blockers[i] == i)
            msg_str(out, reason_of(graph_operation_at(g, i)));
    free(kept);
    free(blockers);
}

/* The number of msgpack objects in the answer that depends on the graph's size: see the
 * pack_ functions above. */
static size_t count_objects(struct graph *g)
{
    const int n = graph_n_operations(g);
    size_t objects = 0;

    for (int i = 0; i < n; i++) {
        struct operation *op = graph_operation_at(g, i);

        objects +=
            8 + (size_t)operation_n_inputs(op) + (size_t)operation_n_control_inputs(op);
        for (int k = 0; k < operation_n_outputs(op); k++) {
            const struct shape shape = output_shape((struct output){op, k});

            objects += 3 + (size_t)(shape.rank > 0 ? shape.rank : 0);
        }
    }
    for (int i = 0; i < graph_n_collections(g); i++)
        objects += 3 + collection_get(g, graph_collection_name(g, i), NULL, NULL);
    for (int i = 0; i < graph_n_variables(g); i++)
        objects += 7 + (size_t)graph_variable_at(g, i)->shape.rank;
    return objects;
}

static void pack_answer(struct service *s, const struct metagraph_info *info,
                        const struct lacks *why, struct msg_out *out)
{
    const int n = graph_n_operations(s->graph);

    msg_map(out, 13);
    msg_key(out, "variables");
    service_pack_variables(s, out);
    msg_put_u64(out, "block_bytes", session_block_bytes(s->session));
    msg_put_u64(out, "producer", info->producer > 0 ? (uint64_t)info->producer : 0);
    msg_put_str(out, "tensorflow", info->tensorflow_version);
    msg_key(out, "nodes");
    msg_array(out, (size_t)n);
    for (int i = 0; i < n; i++)
        pack_node(graph_operation_at(s->graph, i), out);
    msg_key(out, "collections");
    msg_array(out, (size_t)graph_n_collections(s->graph));
    for (int i = 0; i < graph_n_collections(s->graph); i++) {
        const char *name = graph_collection_name(s->graph, i);
        const struct collection_item *items;
        const size_t n_items = collection_get(s->graph, name, NULL, &items);

        msg_array(out, 2);
        msg_str(out, name);
        msg_array(out, n_items);
        for (size_t k = 0; k < n_items; k++)
            pack_item(&items[k], out);
    }
    msg_key(out, "uninitialized");
    const size_t max = (size_t)graph_n_variables(s->graph);
    const char **names = xcalloc(max + 1, sizeof(*names));
    size_t n_names = report_uninitialized_variables(s->graph, s->session, names, max);
    n_names = n_names < max ? n_names : max;
    msg_array(out, n_names);
    for (size_t i = 0; i < n_names; i++)
        msg_str(out, names[i]);
    free(names);
    msg_put_str(out, "no_values", why->restoring.msg);
    msg_put_str(out, "main_op", why->main_op.msg);
    pack_runnable(s->graph, out);
}

static int import(struct service *s, const struct import_request *q, uint32_t id,
                  struct msg_out *out, struct err *err)
{
    const size_t most = MSG_MAX_OBJECTS - MAX_OTHER_OBJECTS;
    struct metagraph_info info;
    struct lacks why = {0};
    size_t objects;
    int rc;

    s->graph = graph_new();
    rc = metagraph_import(s->graph, q->metagraph, q->metagraph_bytes, NULL, &info, err);
    if (rc < 0)
        return rc;
    objects = count_objects(s->graph);
    if (objects > most)
        rc = err_set(
            err, ERR_LIMIT,
            "a graph of %d nodes, with %zu names, numbers and lists to tell of; a "
            "message has at most %zu",
            graph_n_operations(s->graph), objects, most);
    if (rc == 0)
        rc = open(s, q, &info, &why, err);
    if (rc == 0) {
        msg_begin_response(out, id);
        pack_answer(s, &info, &why, out);
        if (out->buf.size > FRAME_MAX_BYTES)
            rc = err_set(
                err, ERR_LIMIT,
                "a graph of %d nodes takes %zu bytes to tell of; a message has at "
                "most %u",
                graph_n_operations(s->graph), out->buf.size, FRAME_MAX_BYTES);
    }
    metagraph_info_done(&info);
    return rc;
}

/* A faulty file is reported in the answer, not as a failed request: the client decides
 * what to do. */
int handle_import(struct service *s, const struct msg *m, struct msg_out *out,
                  struct err *err)
{
    struct import_request q = {0};
    struct err why = {0};
    int rc = read_request(s, &m->body, &q, err);

    if (rc < 0)
        return rc;
    if (import(s, &q, m->id, out, &why) == 0) {
        s->state = SERVICE_IMPORTED;
        return 0;
    }
    service_unconfigure(s);
    msg_begin_response(out, m->id);
    msg_map(out, 2);
    msg_put_u64(out, "block_bytes", 0);
    msg_refusal(out, &why);
    return 0;
}

/* ---- export ---- */

int handle_metagraph(struct service *s, const struct msg *m, struct msg_out *out,
                     struct err *err)
{
    /* with the nodes of a Saver for the variables that checkpoints hold; once, since they are
     * added to the graph */
    if (s->metagraph.len == 0) {
        struct saver_options options = SAVER_DEFAULTS;
        struct saver *saver = NULL;
        int rc;

        options.allow_empty = 1;
        rc = saver_new(&saver, s->graph, &options, err);
        if (rc < 0)
            return rc;
        metagraph_export(&s->metagraph, s->graph, saver_as_def(saver), NULL);
        saver_free(saver);
    }
    if (s->metagraph.len > FRAME_MAX_BYTES - ENVELOPE_BYTES)
        return err_set(err, ERR_LIMIT, "a graph of %zu bytes fits no message",
                       s->metagraph.len);
    msg_begin_response(out, m->id);
    msg_map(out, 1);
    msg_key(out, "metagraph");
    msg_bin(out, s->metagraph.data, s->metagraph.len);
    return 0;
}
