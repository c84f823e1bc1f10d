/* `brood graph`: lists a MetaGraph and runs it, in an agent process. What the agent answers is
 * checked before it is printed. */
#include "common/ckpt/ckpt_find.h"
#include "common/ckpt/saved_model.h"
#include "common/config/yaml_tree.h"
#include "common/err/err.h"
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "common/msg/msg.h"
#include "common/tensor/tensor.h"
#include "common/text/plain_text.h"
#include "common/wire/cursor.h"
#include "supervisor/ask/graph_agent.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/tensor_text.h"
#include "supervisor/metrics/json.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The checked answer to `import` (protocol.h); pointers are borrowed from the message. */
struct graph_view {
    const char *prefix;    /* as given on the command line */
    const char *no_values; /* why no values were restored; NULL: they were restored */
    char why[512];         /* the agent's reason; "": it gave none */
    uint64_t producer;
    char tensorflow[64];
    char main_op[512]; /* why the graph's main op failed; "": it has none, or it ran */
    struct signatures signatures; /* of the graph's file */
    /* nodes with outputs; those of them that can run */
    uint64_t fetchable, runnable;
    const msgpack_object_array *nodes, *collections, *uninitialized, *variables;
    /* for each node that is unknown: how many need it, and why it cannot run */
    const msgpack_object_array *kept, *reasons;
};

/* Places in a node: [name, op, device, inputs, outputs, runs]. */
enum { NODE_NAME, NODE_OP, NODE_DEVICE, NODE_INPUTS, NODE_OUTPUTS, NODE_RUNS, NODE_N };
/* [dtype, dims or nil] */
enum { OUTPUT_DTYPE, OUTPUT_DIMS, OUTPUT_N };
/* [name, items] */
enum { COLLECTION_NAME, COLLECTION_ITEMS, COLLECTION_N };

/* ---- checking the agent's answer ---- */

typedef int (*check_fn)(const msgpack_object *o);

static int is_text(const msgpack_object *o)
{
    return o->type == MSGPACK_OBJECT_STR;
}

static int is_array(const msgpack_object *o, uint32_t n)
{
    return o->type == MSGPACK_OBJECT_ARRAY && (n == 0 || o->via.array.size == n);
}

static int is_array_of(const msgpack_object *o, check_fn is)
{
    if (!is_array(o, 0))
        return 0;
    for (uint32_t i = 0; i < o->via.array.size; i++)
        if (!is(&o->via.array.ptr[i]))
            return 0;
    return 1;
}

static int is_integer(const msgpack_object *o)
{
    return o->type == MSGPACK_OBJECT_POSITIVE_INTEGER ||
           o->type == MSGPACK_OBJECT_NEGATIVE_INTEGER;
}

static int is_output(const msgpack_object *o)
{
    const msgpack_object *e;

    if (!is_array(o, OUTPUT_N))
        return 0;
    e = o->via.array.ptr;
    return e[OUTPUT_DTYPE].type == MSGPACK_OBJECT_POSITIVE_INTEGER &&
           e[OUTPUT_DTYPE].via.u64 < 256 &&
           (e[OUTPUT_DIMS].type == MSGPACK_OBJECT_NIL ||
            is_array_of(&e[OUTPUT_DIMS], is_integer));
}

static int is_node(const msgpack_object *o)
{
    const msgpack_object *e;

    if (!is_array(o, NODE_N))
        return 0;
    e = o->via.array.ptr;
    return is_text(&e[NODE_NAME]) && is_text(&e[NODE_OP]) && is_text(&e[NODE_DEVICE]) &&
           is_array_of(&e[NODE_INPUTS], is_text) &&
           is_array_of(&e[NODE_OUTPUTS], is_output) &&
           e[NODE_RUNS].type == MSGPACK_OBJECT_BOOLEAN;
}

static int is_collection(const msgpack_object *o)
{
    return is_array(o, COLLECTION_N) && is_text(&o->via.array.ptr[COLLECTION_NAME]) &&
           is_array_of(&o->via.array.ptr[COLLECTION_ITEMS], is_text);
}

/* [name, dtype, dims, offset, collection] */
static int is_variable(const msgpack_object *o)
{
    return is_array(o, 5) && is_text(&o->via.array.ptr[0]) &&
           is_array_of(&o->via.array.ptr[2], is_integer);
}

static int take_list(const msgpack_object *answer, const char *key, check_fn is,
                     const msgpack_object_array **ret, struct err *err)
{
    const msgpack_object *o = msg_get(answer, key);

    if (o == NULL || !is_array_of(o, is))
        return err_set(err, ERR_PROTOCOL, "the agent's answer: %s cannot be read", key);
    *ret = &o->via.array;
    return 0;
}

/* ERR_PROTOCOL: an element is missing or has the wrong type. */
static int graph_view_init(struct graph_view *ret, const msgpack_object *answer,
                           struct err *err)
{
    struct graph_view v = {0};
    int rc;

    if ((rc = msg_get_u64(answer, "producer", UINT32_MAX, &v.producer, err)) < 0 ||
        (rc = msg_get_str(answer, "tensorflow", v.tensorflow, sizeof(v.tensorflow),
                          err)) < 0 ||
        (rc = msg_get_str(answer, "no_values", v.why, sizeof(v.why), err)) < 0 ||
        (rc = msg_get_str(answer, "main_op", v.main_op, sizeof(v.main_op), err)) < 0 ||
        (rc = msg_get_u64(answer, "fetchable", UINT32_MAX, &v.fetchable, err)) < 0 ||
        (rc = msg_get_u64(answer, "runnable", UINT32_MAX, &v.runnable, err)) < 0 ||
        (rc = take_list(answer, "kept", is_integer, &v.kept, err)) < 0 ||
        (rc = take_list(answer, "reasons", is_text, &v.reasons, err)) < 0 ||
        (rc = take_list(answer, "nodes", is_node, &v.nodes, err)) < 0 ||
        (rc = take_list(answer, "collections", is_collection, &v.collections, err)) < 0 ||
        (rc = take_list(answer, "uninitialized", is_text, &v.uninitialized, err)) < 0 ||
        (rc = take_list(answer, "variables", is_variable, &v.variables, err)) < 0)
        return rc;
    *ret = v;
    return 0;
}

/* ---- access to nodes ---- */

static const msgpack_object *node_at(const struct graph_view *v, uint32_t i)
{
    return v->nodes->ptr[i].via.array.ptr;
}

static int text_is(const msgpack_object *o, const char *s, size_t len)
{
    return o->via.str.size == len && memcmp(o->via.str.ptr, s, len) == 0;
}

/* Finds tensor "x:0" and stores its dtype if that is known. Returns 0 if there is no such
 * tensor. */
static int graph_view_tensor(const struct graph_view *v, const char *name,
                             enum dtype *ret_dtype)
{
    const char *colon = strrchr(name, ':');
    const size_t len = colon != NULL ? (size_t)(colon - name) : strlen(name);
    const unsigned long index = colon != NULL ? strtoul(colon + 1, NULL, 10) : 0;

    for (uint32_t i = 0; i < v->nodes->size; i++) {
        const msgpack_object *node = node_at(v, i);
        const msgpack_object_array *outputs = &node[NODE_OUTPUTS].via.array;

        if (!text_is(&node[NODE_NAME], name, len))
            continue;
        if (index >= outputs->size)
            return 0;
        *ret_dtype = (enum dtype)outputs->ptr[index].via.array.ptr[OUTPUT_DTYPE].via.u64;
        return 1;
    }
    return 0;
}

/* ---- printing ---- */

static void put_text(const msgpack_object *o)
{
    const size_t size = (size_t)o->via.str.size * PLAIN_TEXT_GROWTH + 1;
    char *shown = xmalloc(size);

    (void)fwrite(shown, 1, plain_line(shown, size, o->via.str.ptr, o->via.str.size),
                 stdout);
    free(shown);
}

static void json_object_text(struct json *j, const msgpack_object *o)
{
    json_strn(j, o->via.str.ptr, o->via.str.size);
}

static void json_texts(struct json *j, const char *key, const msgpack_object_array *list)
{
    json_put_array(j, key);
    for (uint32_t i = 0; i < list->size; i++)
        json_object_text(j, &list->ptr[i]);
    json_close(j);
}

/* "add (Add) on /device:CPU:0 <- a, b:1, ^c" */
static void print_node(const msgpack_object *node)
{
    const msgpack_object_array *inputs = &node[NODE_INPUTS].via.array;

    put_text(&node[NODE_NAME]);
    (void)fputs(" (", stdout);
    put_text(&node[NODE_OP]);
    (void)putchar(')');
    if (node[NODE_DEVICE].via.str.size > 0) {
        (void)fputs(" on ", stdout);
        put_text(&node[NODE_DEVICE]);
    }
    for (uint32_t i = 0; i < inputs->size; i++) {
        (void)fputs(i == 0 ? " <- " : ", ", stdout);
        put_text(&inputs->ptr[i]);
    }
    (void)putchar('\n');
}

/* Print one line, or one JSON object, per node or collection. */
static void graph_print_nodes(const struct graph_view *v, int json)
{
    for (uint32_t i = 0; i < v->nodes->size; i++) {
        const msgpack_object *node = node_at(v, i);
        struct json j = {0};

        if (!json) {
            print_node(node);
            continue;
        }
        json_object(&j);
        json_key(&j, "name");
        json_object_text(&j, &node[NODE_NAME]);
        json_key(&j, "op");
        json_object_text(&j, &node[NODE_OP]);
        json_key(&j, "device");
        json_object_text(&j, &node[NODE_DEVICE]);
        json_texts(&j, "inputs", &node[NODE_INPUTS].via.array);
        json_print(&j, stdout);
    }
}

static void graph_print_collections(const struct graph_view *v, int json)
{
    for (uint32_t i = 0; i < v->collections->size; i++) {
        const msgpack_object *c = v->collections->ptr[i].via.array.ptr;
        const msgpack_object_array *items = &c[COLLECTION_ITEMS].via.array;
        struct json j = {0};

        if (json) {
            json_object(&j);
            json_key(&j, "collection");
            json_object_text(&j, &c[COLLECTION_NAME]);
            json_texts(&j, "items", items);
            json_print(&j, stdout);
            continue;
        }
        put_text(&c[COLLECTION_NAME]);
        (void)printf(" (%u)\n", items->size);
        for (uint32_t k = 0; k < items->size; k++) {
            (void)fputs("  ", stdout);
            put_text(&items->ptr[k]);
            (void)putchar('\n');
        }
    }
}

/* ---- summary ---- */

static uint64_t n_parameters(const struct graph_view *v)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < v->variables->size; i++) {
        const msgpack_object_array *dims =
            &v->variables->ptr[i].via.array.ptr[2].via.array;
        uint64_t n = 1;

        for (uint32_t d = 0; d < dims->size; d++)
            n *= dims->ptr[d].via.u64;
        total += n;
    }
    return total;
}

static int is_placeholder(const msgpack_object *node)
{
    return text_is(&node[NODE_OP], "Placeholder", strlen("Placeholder"));
}

static void shape_of(const msgpack_object *dims, struct shape *ret)
{
    *ret = SHAPE_UNKNOWN;
    if (dims->type != MSGPACK_OBJECT_ARRAY || dims->via.array.size > SHAPE_MAX_RANK)
        return;
    ret->rank = (int)dims->via.array.size;
    for (int i = 0; i < ret->rank; i++)
        ret->dim[i] = dims->via.array.ptr[i].via.i64;
}

static void print_placeholders(const struct graph_view *v)
{
    for (uint32_t i = 0; i < v->nodes->size; i++) {
        const msgpack_object *node = node_at(v, i);
        const msgpack_object *out;
        struct shape shape;

        if (!is_placeholder(node) || node[NODE_OUTPUTS].via.array.size != 1)
            continue;
        out = node[NODE_OUTPUTS].via.array.ptr[0].via.array.ptr;
        shape_of(&out[OUTPUT_DIMS], &shape);
        (void)fputs("placeholder  ", stdout);
        put_text(&node[NODE_NAME]);
        (void)printf(":0 (%s) %s\n", dtype_name((enum dtype)out[OUTPUT_DTYPE].via.u64),
                     shape_text(&shape));
    }
}

static void print_keys(const char *what, const struct signature_tensor *t, size_t n)
{
    for (size_t i = 0; i < n; i++)
        (void)printf("%s%s=%s", i == 0 ? what : ", ", PLAIN_NAME(t[i].key),
                     PLAIN_NAME(t[i].tensor));
}

static void json_keys(struct json *j, const char *key, const struct signature_tensor *t,
                      size_t n)
{
    json_put_object(j, key);
    for (size_t i = 0; i < n; i++)
        json_put_str(j, t[i].key, t[i].tensor);
    json_close(j);
}

enum { MAX_UNKNOWN = 20 }; /* in the summary for people */

/* How many nodes can be fetched, and the first ones that keep others from running, and why. */
static void print_unknown(const struct graph_view *v)
{
    uint32_t n = 0;

    if (v->runnable < v->fetchable)
        (void)printf("runs         %" PRIu64 " of %" PRIu64
                     " nodes that can be fetched\n",
                     v->runnable, v->fetchable);
    for (uint32_t i = 0; i < v->nodes->size; i++) {
        const msgpack_object *node = node_at(v, i);
        uint64_t kept;

        if (node[NODE_RUNS].via.boolean || n++ >= MAX_UNKNOWN)
            continue;
        kept = n <= v->kept->size ? v->kept->ptr[n - 1].via.u64 : 0;
        (void)fputs("cannot run   ", stdout);
        put_text(&node[NODE_NAME]);
        (void)fputs(" (", stdout);
        put_text(&node[NODE_OP]);
        (void)putchar(')');
        if (kept > 0)
            (void)printf(", and %" PRIu64 " that need%s it", kept, kept == 1 ? "s" : "");
        if (n <= v->reasons->size) {
            (void)fputs(": ", stdout);
            put_text(&v->reasons->ptr[n - 1]);
        }
        (void)putchar('\n');
    }
    if (n > MAX_UNKNOWN)
        (void)printf("cannot run   %u more (--json lists all)\n", n - MAX_UNKNOWN);
}

static void print_text_summary(const struct graph_view *v)
{
    const struct signatures *s = &v->signatures;
    (void)printf("graph        %u nodes, of TensorFlow %s (producer %" PRIu64 ")\n",
                 v->nodes->size, v->tensorflow[0] != '\0' ? v->tensorflow : "?",
                 v->producer);
    (void)printf("variables    %u, %" PRIu64 " parameters\n", v->variables->size,
                 n_parameters(v));
    for (uint32_t i = 0; i < v->collections->size; i++) {
        const msgpack_object *c = v->collections->ptr[i].via.array.ptr;

        (void)fputs("collection   ", stdout);
        put_text(&c[COLLECTION_NAME]);
        (void)printf(" (%u)\n", c[COLLECTION_ITEMS].via.array.size);
    }
    print_placeholders(v);
    for (size_t i = 0; i < s->n; i++) { /* "serve: x=x:0 -> y=dense/BiasAdd:0" */
        (void)printf("signature    %s:", PLAIN_NAME(s->at[i].name));
        print_keys(" ", s->at[i].inputs, s->at[i].n_inputs);
        print_keys(" -> ", s->at[i].outputs, s->at[i].n_outputs);
        (void)putchar('\n');
    }
    print_unknown(v);
    if (v->no_values == NULL)
        (void)printf("values       from %s\n", v->prefix);
    else
        (void)printf("values       none: %s\n", v->no_values);
    if (v->main_op[0] != '\0')
        (void)printf("main op      failed: %s\n", v->main_op);
    for (uint32_t i = 0; i < v->uninitialized->size; i++) {
        (void)fputs("no value     ", stdout);
        put_text(&v->uninitialized->ptr[i]);
        (void)putchar('\n');
    }
}

static void json_names(struct json *j, const char *key, const struct graph_view *v,
                       int (*wanted)(const msgpack_object *node))
{
    json_put_array(j, key);
    for (uint32_t i = 0; i < v->nodes->size; i++)
        if (wanted(node_at(v, i)))
            json_object_text(j, &node_at(v, i)[NODE_NAME]);
    json_close(j);
}

static int cannot_run(const msgpack_object *node)
{
    return !node[NODE_RUNS].via.boolean;
}

static void print_json_summary(const struct graph_view *v)
{
    const struct signatures *s = &v->signatures;
    struct json j = {0};

    json_object(&j);
    json_put_str(&j, "prefix", v->prefix);
    json_put_str(&j, "tensorflow", v->tensorflow);
    json_put_u64(&j, "producer", v->producer);
    json_put_u64(&j, "nodes", v->nodes->size);
    json_put_u64(&j, "variables", v->variables->size);
    json_put_u64(&j, "parameters", n_parameters(v));
    json_put_object(&j, "collections");
    for (uint32_t i = 0; i < v->collections->size; i++) {
        const msgpack_object *c = v->collections->ptr[i].via.array.ptr;
        char name[256];

        (void)snprintf(name, sizeof(name), "%.*s", (int)c[COLLECTION_NAME].via.str.size,
                       c[COLLECTION_NAME].via.str.ptr);
        json_put_u64(&j, name, c[COLLECTION_ITEMS].via.array.size);
    }
    json_close(&j);
    json_names(&j, "placeholders", v, is_placeholder);
    json_names(&j, "cannot_run", v, cannot_run);
    json_texts(&j, "reasons", v->reasons);
    json_put_u64(&j, "fetchable", v->fetchable);
    json_put_u64(&j, "runnable", v->runnable);
    json_put_object(&j, "signatures");
    for (size_t i = 0; i < s->n; i++) {
        json_put_object(&j, s->at[i].name);
        json_keys(&j, "inputs", s->at[i].inputs, s->at[i].n_inputs);
        json_keys(&j, "outputs", s->at[i].outputs, s->at[i].n_outputs);
        json_put_str(&j, "method", s->at[i].method);
        json_close(&j);
    }
    json_close(&j);
    json_put_str(&j, "main_op", v->main_op[0] != '\0' ? v->main_op : NULL);
    json_put_bool(&j, "restored", v->no_values == NULL);
    json_put_str(&j, "no_values", v->no_values);
    json_texts(&j, "uninitialized", v->uninitialized);
    json_print(&j, stdout);
}

struct request {
    const char *path, *tags;
    const char *signature; /* NULL: none */
    int nodes, collections, json;
    long long seed;
    struct cli_texts feeds; /* "NAME=VALUE" or "NAME=@FILE" */
    struct cli_texts fetches, targets;
};

/* ---- running ---- */

/* The tensors that a request names by keys of a signature; all-zero without one. */
struct keys {
    const struct signature_tensor *at;
    size_t n;
};

/* The tensor of a key, or the tensor of that name: "x" is the first output of operation x. */
static char *tensor_name(struct keys keys, const char *text, size_t len)
{
    for (size_t i = 0; i < keys.n; i++)
        if (strlen(keys.at[i].key) == len && memcmp(keys.at[i].key, text, len) == 0)
            return xstrdup(keys.at[i].tensor);
    return memchr(text, ':', len) != NULL ? xstrndup(text, len)
                                          : xasprintf("%.*s:0", (int)len, text);
}

static int read_feed(const struct graph_view *v, struct keys keys, const char *text,
                     struct graph_agent_feed *ret, struct err *err)
{
    const char *value = strchr(text, '=') + 1;
    char *name = tensor_name(keys, text, (size_t)(value - 1 - text));
    enum dtype dtype = DT_FLOAT; /* if unknown: the agent refuses the tensor by name */
    int rc;

    (void)graph_view_tensor(v, name, &dtype);
    if (!tensor_text_has(dtype))
        rc = err_set(err, ERR_UNSUPPORTED, "values of %s cannot be fed",
                     dtype_name(dtype));
    else if (value[0] == '@')
        rc = tensor_file_read(&ret->value, value + 1, dtype, err);
    else
        rc = tensor_text_read(&ret->value, value, strlen(value), dtype, err);
    ret->name = name;
    if (rc < 0)
        (void)err_wrap(err, "--feed %s", name);
    return rc;
}

/* Fetches tensors and prints each under the name in `shown`, or its own if that is NULL. */
static int fetch(struct graph_agent *g, const struct graph_agent_run *run,
                 const char *const *shown, int json, struct err *err)
{
    const size_t n = run->n_fetches;
    struct tensor *values = xcalloc(n, sizeof(*values));
    int rc = graph_agent_run(g, run, values, err);

    for (size_t i = 0; i < n; i++) {
        const char *name = shown[i] != NULL ? shown[i] : run->fetches[i];

        if (rc == 0 && json)
            tensor_print_json(name, values[i].dtype, &values[i].shape, &values[i]);
        else if (rc == 0)
            tensor_print_value(name, &values[i]);
        tensor_free(&values[i]);
    }
    free(values);
    return rc;
}

/* Fetches what the request names; with a signature, if it names nothing, all outputs. */
static int fetch_wanted(struct graph_agent *g, const struct request *q, struct keys keys,
                        const struct graph_agent_feed *feeds, struct err *err)
{
    const int is_all = q->fetches.n == 0;
    const size_t n = is_all ? keys.n : q->fetches.n;
    struct graph_agent_run run = {.feeds = feeds, .n_feeds = q->feeds.n, .n_fetches = n};
    char **names = xcalloc(n + 1, sizeof(*names));
    const char **shown = xcalloc(n + 1, sizeof(*shown));
    int rc;

    for (size_t i = 0; i < n; i++) {
        const char *text = is_all ? keys.at[i].key : q->fetches.text[i];

        names[i] = tensor_name(keys, text, strlen(text));
        shown[i] = keys.n > 0 ? text : NULL;
    }
    run.fetches = (const char *const *)names;
    rc = fetch(g, &run, shown, q->json, err);
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(shown);
    free(names);
    return rc;
}

static int find_signature(const struct graph_view *v, const char *name,
                          struct signature *ret, struct err *err)
{
    const struct signature *found =
        name != NULL ? signatures_find(&v->signatures, name) : NULL;
    const char **names;
    int rc;

    *ret = found != NULL ? *found : (struct signature){0};
    if (name == NULL || found != NULL)
        return 0;
    names = xcalloc(v->signatures.n + 1, sizeof(*names));
    for (size_t i = 0; i < v->signatures.n; i++)
        names[i] = v->signatures.at[i].name;
    rc = err_set(err, ERR_NOT_FOUND, "the graph has no signature %s%s", name,
                 v->signatures.n == 0 ? ", and no other" : "");
    (void)yaml_add_nearest(err, name, names, v->signatures.n);
    free(names);
    return rc;
}

static int feed_and_run(struct graph_agent *g, const struct graph_view *v,
                        const struct request *q, struct err *err)
{
    struct graph_agent_feed *feeds;
    struct signature signature;
    struct keys inputs, outputs;
    int rc = find_signature(v, q->signature, &signature, err);

    if (rc < 0)
        return rc;
    inputs = (struct keys){signature.inputs, signature.n_inputs};
    outputs = (struct keys){signature.outputs, signature.n_outputs};
    if (v->no_values == v->why) /* there are values, but they are damaged */
        return err_set(err, ERR_CORRUPT, "%s", v->why);
    feeds = xcalloc(q->feeds.n, sizeof(*feeds));
    for (size_t i = 0; i < q->feeds.n && rc == 0; i++)
        rc = read_feed(v, inputs, q->feeds.text[i], &feeds[i], err);
    /* Each target is a session run of its own, in their order, so that a target sees what
     * earlier ones wrote. */
    for (size_t i = 0; rc == 0 && i < q->targets.n; i++)
        rc = graph_agent_run(g,
                             &(struct graph_agent_run){.feeds = feeds,
                                                       .n_feeds = q->feeds.n,
                                                       .targets = &q->targets.text[i],
                                                       .n_targets = 1},
                             NULL, err);
    if (rc == 0 && (q->fetches.n > 0 || (q->targets.n == 0 && outputs.n > 0)))
        rc = fetch_wanted(g, q, outputs, feeds, err);
    if (rc == ERR_UNINITIALIZED && v->no_values != NULL)
        (void)err_wrap(err, "%s", v->no_values);
    for (size_t i = 0; i < q->feeds.n; i++) {
        tensor_free(&feeds[i].value);
        free((char *)(uintptr_t)feeds[i].name);
    }
    free(feeds);
    return rc;
}

static int show(struct graph_agent *g, const struct graph_view *v,
                const struct request *q, struct err *err)
{
    if (q->nodes)
        graph_print_nodes(v, q->json);
    if (q->collections)
        graph_print_collections(v, q->json);
    if (q->fetches.n > 0 || q->targets.n > 0 || q->signature != NULL)
        return feed_and_run(g, v, q, err);
    if (!q->nodes && !q->collections && q->json)
        print_json_summary(v);
    else if (!q->nodes && !q->collections)
        print_text_summary(v);
    return 0;
}

/* ---- files ---- */

/* An absolute prefix, because the agent may have another working directory. */
static char *absolute_prefix(const char *prefix)
{
    char *cwd = prefix[0] != '/' ? getcwd(NULL, 0) : NULL;
    char *ret = cwd != NULL ? xasprintf("%s/%s", cwd, prefix) : xstrdup(prefix);

    free(cwd);
    return ret;
}

static int open_and_show(const char *prefix, const struct binaries *binaries,
                         const struct request *q, struct err *err)
{
    struct graph_agent_args args = {.binaries = binaries, .seed = (uint64_t)q->seed};
    struct graph_agent *g = NULL;
    struct graph_view v = {0};
    struct wbuf metagraph = {0};
    struct arena arena = ARENA_ZERO;
    char *absolute = absolute_prefix(prefix);
    char *no_values = ckpt_kind_of(prefix) != CKPT_NONE ? NULL
                      : ckpt_is_graph_def(prefix)
                          ? xasprintf("%s is a graph alone", prefix)
                          : xasprintf("there is no %s.index", prefix);
    int rc = ckpt_read_graph(&metagraph, prefix, q->tags, FRAME_MAX_BYTES, err);

    args.metagraph = metagraph.data;
    args.metagraph_bytes = metagraph.len;
    args.prefix = no_values == NULL ? absolute : NULL;
    if (rc == 0) {
        rc = graph_agent_open(&g, &args, err);
        if (rc < 0) {
            char *path = ckpt_graph_path(prefix);

            (void)err_wrap(err, "%s", path);
            free(path);
        }
    }
    if (rc == 0)
        rc = graph_view_init(&v, graph_agent_description(g), err);
    if (rc == 0)
        rc = signatures_read(&v.signatures, &arena, metagraph.data, metagraph.len, err);
    v.prefix = prefix;
    v.no_values = no_values != NULL ? no_values : v.why[0] != '\0' ? v.why : NULL;
    if (rc == 0)
        rc = show(g, &v, q, err);
    graph_agent_close(g);
    arena_done(&arena);
    wbuf_done(&metagraph);
    free(absolute);
    free(no_values);
    return rc;
}

static int graph(const struct request *q, struct err *err)
{
    struct binaries binaries;
    char *prefix;
    int rc = binaries_find(&binaries, err);

    if (rc == 0)
        rc = ckpt_find_prefix(&prefix, q->path, err);
    if (rc < 0)
        return rc;
    rc = open_and_show(prefix, &binaries, q, err);
    free(prefix);
    return rc;
}

/* ---- the command ---- */

static int run_graph(struct cli *cli, void *values, int argc, char **argv)
{
    struct request *q = values;
    struct err err = {0};
    char *path;
    int rc;

    for (size_t i = 0; i < q->feeds.n; i++)
        if (strchr(q->feeds.text[i], '=') == NULL)
            return cli_usage(cli, "--feed %s: expected NAME=VALUE or NAME=@FILE",
                             q->feeds.text[i]);
    rc = cli_checkpoint(cli, argc, argv, &path);
    if (rc != 0)
        return rc;
    q->path = path;
    q->json = cli->json;
    rc = graph(q, &err);
    free(path);
    return rc == 0 ? CLI_DONE : cli_fail(cli, CLI_FAILED, &err);
}

static const struct cli_option options[] = {
    {"nodes", NULL, "list the nodes: name, op, device, inputs",
     CLI_FLAG(struct request, nodes)},
    {"collections", NULL, "list the collections with their items",
     CLI_FLAG(struct request, collections)},
    {"feed", "NAME=VALUE|@FILE",
     "a tensor's value: 0.5, \"[[1, 2], [3, 4]]\", or\n"
     "a file: .npy, or text; strings: text, [\"a\", \"b\"], or a file",
     CLI_TEXTS(struct request, feeds)},
    {"fetch", "NAME", "compute and print a tensor", CLI_TEXTS(struct request, fetches)},
    {"target", "NAME",
     "run an operation; several run one after another, in order,\n"
     "before tensors are fetched",
     CLI_TEXTS(struct request, targets)},
    {"signature", "NAME",
     "name tensors by the keys of a signature; without --fetch, all of\n"
     "its outputs are printed",
     CLI_TEXT(struct request, signature)},
    {"tags", "TAG,...", "of several graphs in a SavedModel, the one to take (serve)",
     CLI_TEXT(struct request, tags)},
    {"seed", "N", "the seed of random operations (0)",
     CLI_NUMBER(struct request, seed, 0, INT64_MAX)},
    {0}};

const struct command cmd_graph = {
    .name = "graph",
    .arguments = "PREFIX | RUN[@STEP] AGENT [options]",
    .summary = "List a TensorFlow MetaGraph's nodes and collections, or run it",
    .options = options,
    CLI_INTO(struct request, 0),
    .help =
        "\nPREFIX names PREFIX.meta and, if it exists, PREFIX.index with the values;\n"
        "one of these files stands for it, and a directory for its newest\n"
        "checkpoint, or for its SavedModel. Of a run's agent, the newest checkpoint\n"
        "is taken, or that of a step. A GraphDef, such as frozen.pb, is a graph\n"
        "without values. --feed, --fetch and --target are repeatable. An agent\n"
        "process runs the graph.\n"
        "\nexample: brood graph model.ckpt --feed \"x:0=[[1, 2]]\" --fetch y:0\n",
    .run = run_graph,
};
