/* `brood graph`: lists a MetaGraph and runs it, in an agent process. */
#include "common/ckpt/ckpt_find.h"
#include "common/ckpt/saved_model.h"
#include "common/config/yaml_tree.h"
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "common/wire/cursor.h"
#include "supervisor/ask/graph_agent.h"
#include "supervisor/cli/array_file.h"
#include "supervisor/cli/array_parse.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/graph_print.h"
#include "supervisor/cli/tensor_print.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    if (!array_parse_has(dtype))
        rc = err_set(err, ERR_UNSUPPORTED, "values of %s cannot be fed",
                     dtype_name(dtype));
    else if (value[0] == '@')
        rc = array_file_read(&ret->value, value + 1, dtype, err);
    else
        rc = array_parse(&ret->value, value, strlen(value), dtype, err);
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
    if (!q->nodes && !q->collections)
        graph_print_summary(v, q->json);
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

    for (size_t i = 0; i < q->feeds.n; i++)
        if (strchr(q->feeds.text[i], '=') == NULL)
            return cli_usage(cli, "--feed %s: expected NAME=VALUE or NAME=@FILE",
                             q->feeds.text[i]);
    if (argc != 1)
        return cli_usage(cli, "expected one checkpoint");
    q->path = argv[0];
    q->json = cli->json;
    return graph(q, &err) == 0 ? CLI_DONE : cli_fail(cli, CLI_FAILED, &err);
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
    .arguments = "PREFIX [options]",
    .summary = "List a TensorFlow MetaGraph's nodes and collections, or run it",
    .options = options,
    CLI_INTO(struct request, 0),
    .help = "\nPREFIX names PREFIX.meta and, if it exists, PREFIX.index with the values; "
            "one\n"
            "of these files stands for it, and a directory for its newest checkpoint, or "
            "for\n"
            "its SavedModel. A GraphDef, such as frozen.pb, is a graph without values. "
            "--feed,\n"
            "--fetch and --target are repeatable. An agent process runs the graph.\n"
            "\nexample: brood graph model.ckpt --feed \"x:0=[[1, 2]]\" --fetch y:0\n",
    .run = run_graph,
};
