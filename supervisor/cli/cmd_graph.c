/* `brood graph`: lists a MetaGraph and runs it, in an agent process. */
#include "common/ckpt/ckpt_find.h"
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
    const char *path;
    int nodes, collections, json;
    long long seed;
    struct cli_texts feeds; /* "NAME=VALUE" or "NAME=@FILE" */
    struct cli_texts fetches, targets;
};

/* ---- running ---- */

/* "x" is the first output of operation x. */
static char *tensor_name(const char *text, size_t len)
{
    return memchr(text, ':', len) != NULL ? xstrndup(text, len)
                                          : xasprintf("%.*s:0", (int)len, text);
}

static int read_feed(const struct graph_view *v, const char *text,
                     struct graph_agent_feed *ret, struct err *err)
{
    const char *value = strchr(text, '=') + 1;
    char *name = tensor_name(text, (size_t)(value - 1 - text));
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

static int fetch(struct graph_agent *g, const struct request *q,
                 const struct graph_agent_feed *feeds, struct err *err)
{
    const size_t n = q->fetches.n;
    struct graph_agent_run run = {.feeds = feeds, .n_feeds = q->feeds.n, .n_fetches = n};
    struct tensor *values = xcalloc(n, sizeof(*values));
    char **names = xcalloc(n, sizeof(*names));
    int rc;

    for (size_t i = 0; i < n; i++)
        names[i] = tensor_name(q->fetches.text[i], strlen(q->fetches.text[i]));
    run.fetches = (const char *const *)names;
    rc = graph_agent_run(g, &run, values, err);
    for (size_t i = 0; i < n; i++) {
        if (rc == 0 && q->json)
            tensor_print_json(names[i], values[i].dtype, &values[i].shape, &values[i]);
        else if (rc == 0)
            tensor_print_value(names[i], &values[i]);
        tensor_free(&values[i]);
        free(names[i]);
    }
    free(names);
    free(values);
    return rc;
}

static int feed_and_run(struct graph_agent *g, const struct graph_view *v,
                        const struct request *q, struct err *err)
{
    struct graph_agent_feed *feeds;
    int rc = 0;

    if (v->no_values == v->why) /* there are values, but they are damaged */
        return err_set(err, ERR_CORRUPT, "%s", v->why);
    feeds = xcalloc(q->feeds.n, sizeof(*feeds));
    for (size_t i = 0; i < q->feeds.n && rc == 0; i++)
        rc = read_feed(v, q->feeds.text[i], &feeds[i], err);
    /* Each target is a session run of its own, in their order, so that a target sees what
     * earlier ones wrote. */
    for (size_t i = 0; rc == 0 && i < q->targets.n; i++)
        rc = graph_agent_run(g,
                             &(struct graph_agent_run){.feeds = feeds,
                                                       .n_feeds = q->feeds.n,
                                                       .targets = &q->targets.text[i],
                                                       .n_targets = 1},
                             NULL, err);
    if (rc == 0 && q->fetches.n > 0)
        rc = fetch(g, q, feeds, err);
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
    if (q->fetches.n > 0 || q->targets.n > 0)
        return feed_and_run(g, v, q, err);
    if (!q->nodes && !q->collections)
        graph_print_summary(v, q->json);
    return 0;
}

/* ---- files ---- */

static int read_metagraph(struct wbuf *b, const char *prefix, struct err *err)
{
    char *path = xasprintf("%s.meta", prefix);
    const int rc =
        access(path, F_OK) == 0
            ? wbuf_read_file(b, path, FRAME_MAX_BYTES, err)
            : err_set(err, ERR_NOT_FOUND, "there is no %s: no graph to show", path);

    free(path);
    return rc;
}

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
    char *absolute = absolute_prefix(prefix);
    char *no_values = ckpt_kind_of(prefix) != CKPT_NONE
                          ? NULL
                          : xasprintf("there is no %s.index", prefix);
    int rc = read_metagraph(&metagraph, prefix, err);

    args.metagraph = metagraph.data;
    args.metagraph_bytes = metagraph.len;
    args.prefix = no_values == NULL ? absolute : NULL;
    if (rc == 0) {
        rc = graph_agent_open(&g, &args, err);
        if (rc < 0)
            (void)err_wrap(err, "%s.meta", prefix);
    }
    if (rc == 0)
        rc = graph_view_init(&v, graph_agent_description(g), err);
    v.prefix = prefix;
    v.no_values = no_values != NULL ? no_values : v.why[0] != '\0' ? v.why : NULL;
    if (rc == 0)
        rc = show(g, &v, q, err);
    graph_agent_close(g);
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

static int run_graph(struct cli *cli, int argc, char **argv)
{
    struct request q = {0};
    const struct cli_option own[] = {{"nodes", .flag = &q.nodes},
                                     {"collections", .flag = &q.collections},
                                     {"feed", .texts = &q.feeds},
                                     {"fetch", .texts = &q.fetches},
                                     {"target", .texts = &q.targets},
                                     {"seed", .number = &q.seed, 0, INT64_MAX},
                                     {0}};
    struct err err = {0};
    int code;

    if (!cli_parse(cli, argc, argv, own, &code))
        return code;
    for (size_t i = 0; i < q.feeds.n; i++)
        if (strchr(q.feeds.text[i], '=') == NULL)
            return cli_usage(cli, "--feed %s: expected NAME=VALUE or NAME=@FILE",
                             q.feeds.text[i]);
    if (optind + 1 != argc)
        return cli_usage(cli, "expected one checkpoint");
    q.path = argv[optind];
    q.json = cli->json;
    return graph(&q, &err) == 0 ? CLI_DONE : cli_fail(cli, CLI_FAILED, &err);
}

const struct command cmd_graph = {
    .name = "graph",
    .arguments = "PREFIX [options]",
    .summary = "List a TensorFlow MetaGraph's nodes and collections, or run it",
    .help =
        "  --nodes          list the nodes: name, op, device, inputs\n"
        "  --collections    list the collections with their items\n"
        "  --feed NAME=VALUE|@FILE  a tensor's value: 0.5, \"[[1, 2], [3, 4]]\", or\n"
        "                   a file: .npy, or text\n"
        "  --fetch NAME     compute and print a tensor\n"
        "  --target NAME    run an operation; several run one after another, in order,\n"
        "                   before tensors are fetched\n"
        "  --seed N         the seed of random operations (0)\n"
        "\nPREFIX names PREFIX.meta and, if it exists, PREFIX.index with the values; "
        "one\n"
        "of these files stands for it, and a directory for its newest checkpoint. "
        "--feed, --fetch and --target are\n"
        "repeatable. An agent process runs the graph.\n"
        "\nexample: brood graph model.ckpt --feed \"x:0=[[1, 2]]\" --fetch y:0\n",
    .run = run_graph,
};
