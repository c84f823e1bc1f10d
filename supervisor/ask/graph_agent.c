#include "supervisor/ask/graph_agent.h"

#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "supervisor/ask/ask.h"

#include <stdlib.h>
#include <unistd.h>

enum { MESSAGE_ROOM_BYTES = 1 << 16 };

struct graph_agent {
    const struct graph_agent_args *args;
    struct ask *ask;
    /* fetched by the current graph_agent_run */
    struct tensor *values;
    size_t n_values;
    int has_values; /* all of them */
    struct err refusal;
};

/* ---- opening and closing ---- */

static void pack_import(void *ctx, size_t agent, int restored, struct msg_out *o)
{
    const struct graph_agent_args *args = ((struct graph_agent *)ctx)->args;

    msg_map(o, args->prefix != NULL ? 5 : 4);
    msg_put_str(o, "name", "graph");
    msg_put_u64(o, "seed", args->seed);
    msg_key(o, "metagraph");
    msg_bin(o, args->metagraph, args->metagraph_bytes);
    msg_put_bool(o, "restored", restored);
    if (args->prefix != NULL)
        msg_put_str(o, "prefix", args->prefix);
}

static int start(struct graph_agent *g, struct err *err)
{
    static const struct agent_spec spec = {.name = "graph",
                                           .role = "learner",
                                           .method = "import",
                                           .pack_configure = pack_import};
    struct ask_args args = {.specs = &spec, .n = 1, .ctx = g};
    int rc;

    args.agent_exe_fd = binaries_open_agent(g->args->binaries, err);
    if (args.agent_exe_fd < 0)
        return args.agent_exe_fd;
    rc = ask_open(&g->ask, &args, err);
    (void)close(args.agent_exe_fd);
    return rc < 0 ? rc : msg_refused(graph_agent_description(g), err);
}

int graph_agent_open(struct graph_agent **ret, const struct graph_agent_args *args,
                     struct err *err)
{
    struct graph_agent *g;
    int rc;

    if (args->metagraph_bytes > FRAME_MAX_BYTES - MESSAGE_ROOM_BYTES)
        return err_set(err, ERR_LIMIT, "a graph of %zu bytes; at most %u can be sent",
                       args->metagraph_bytes, FRAME_MAX_BYTES - MESSAGE_ROOM_BYTES);
    g = xcalloc(1, sizeof(*g));
    g->args = args;
    rc = start(g, err);
    if (rc < 0)
        graph_agent_close(g);
    else
        *ret = g;
    return rc;
}

void graph_agent_close(struct graph_agent *g)
{
    if (g != NULL)
        ask_close(g->ask);
    free(g);
}

const msgpack_object *graph_agent_description(const struct graph_agent *g)
{
    return ask_answer(g->ask, 0);
}

/* ---- running ---- */

static int take_fetched(struct graph_agent *g, const msgpack_object *body,
                        struct err *err)
{
    const msgpack_object *list = NULL;
    struct tensor t;
    int rc = msg_refused(body, err);

    if (rc < 0 || (rc = msg_get_array(body, "fetched", &list, err)) < 0)
        return rc;
    if (list == NULL || list->via.array.size != g->n_values)
        return err_set(err, ERR_PROTOCOL, "fetched: %zu tensors expected", g->n_values);
    for (size_t i = 0; i < g->n_values; i++) {
        rc = msg_to_any_tensor(&list->via.array.ptr[i], "fetched", &t, err);
        if (rc == 0 && t.owned)
            g->values[i] = t;
        else if (rc == 0)
            rc = tensor_copy(&g->values[i], &t, err);
        if (rc < 0) {
            while (i-- > 0)
                tensor_free(&g->values[i]);
            return rc;
        }
    }
    g->has_values = 1;
    return 0;
}

static void on_run(void *ctx, size_t agent, const struct msg *response)
{
    struct graph_agent *g = ctx;

    (void)take_fetched(g, &response->body, &g->refusal);
    ask_done(g->ask);
}

static void pack_names(struct msg_out *o, const char *key, const char *const *names,
                       size_t n)
{
    msg_key(o, key);
    msg_array(o, n);
    for (size_t i = 0; i < n; i++)
        msg_str(o, names[i]);
}

int graph_agent_run(struct graph_agent *g, const struct graph_agent_run *run,
                    struct tensor *ret, struct err *err)
{
    struct msg_out *o;
    uint64_t bytes = 0;
    int rc;

    for (size_t i = 0; i < run->n_feeds; i++)
        bytes += tensor_bytes(&run->feeds[i].value);
    if (bytes > FRAME_MAX_BYTES - MESSAGE_ROOM_BYTES)
        return err_set(err, ERR_LIMIT, "feeds of %llu bytes; at most %u can be sent",
                       (unsigned long long)bytes, FRAME_MAX_BYTES - MESSAGE_ROOM_BYTES);
    g->values = ret;
    g->n_values = run->n_fetches;
    g->has_values = 0;
    g->refusal = (struct err){0};
    o = agent_request_begin(ask_agents(g->ask), 0, "run", run->n_targets > 0);
    msg_map(o, 3);
    msg_key(o, "feeds");
    msg_map(o, run->n_feeds);
    for (size_t i = 0; i < run->n_feeds; i++) {
        msg_key(o, run->feeds[i].name);
        msg_tensor(o, &run->feeds[i].value);
    }
    pack_names(o, "fetches", run->fetches, run->n_fetches);
    pack_names(o, "targets", run->targets, run->n_targets);
    rc = agent_request_send(ask_agents(g->ask), 0, on_run, g, err);
    if (rc == 0)
        rc = ask_wait(g->ask, err);
    if (rc == 0 && g->refusal.code < 0)
        rc = err_pass(err, &g->refusal);
    /* an interrupt may have come together with the response */
    for (size_t i = 0; rc < 0 && g->has_values && i < g->n_values; i++)
        tensor_free(&ret[i]);
    return rc;
}
