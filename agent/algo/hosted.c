/* A graph that somebody else built, driven from outside: `algorithm: graph`.
 *
 * The MetaGraph that settings.from names is imported under its own names. A client runs it:
 * it feeds, fetches, and runs the graph's own train ops as targets. Its variables are the
 * agent's, in its block, so that they are snapshotted, restored and saved as any agent's.
 *
 * First values: those of the checkpoint, if it has any, then what the main op of a SavedModel
 * sets; every other variable's initializer is run once, with the agent's own draws. A variable
 * whose initializer cannot run here stays without a value, and is reported in the agent's log.
 */
#include "agent/algo/algo.h"
#include "agent/saver/metagraph_import.h"
#include "common/log/log.h"

struct algo {
    struct graph *graph;
    struct saver *saver; /* NULL: the graph has no variables */
    const char *prefix;  /* of a checkpoint, until init is over; NULL: none */
    struct metagraph_info info;
    int has_info;
};

static void hosted_done(struct algo *a)
{
    saver_free(a->saver);
    if (a->has_info)
        metagraph_info_done(&a->info);
}

static int hosted_build(struct algo *a, const struct algo_args *args, struct err *err)
{
    struct err why;
    int r;

    if (args->metagraph == NULL)
        return err_set(err, ERR_PROTOCOL, "metagraph is missing");
    a->graph = args->graph;
    a->prefix = args->prefix;
    r = import_meta_graph_bytes(&a->saver, a->graph, args->metagraph,
                                args->metagraph_bytes, NULL, &a->info, &why);
    a->has_info = r == 0;
    /* a checkpoint of brood lists some: here the client feeds these constants itself */
    collection_clear(a->graph, SETTING_CONSTANTS);
    return r == 0 ? 0
                  : err_set_at(err, ERR_CONFIG, ERR_AT(.key = "settings.from"),
                               "its MetaGraph: %s", why.msg);
}

/* Runs the initializers of variables without a value; returns how many got one. The first
 * that failed is named in `why`. */
static int initialize_some(struct algo *a, struct session *s, struct rng_key key,
                           struct err *why)
{
    int n = 0;

    *why = (struct err){0};
    for (int i = 0; i < graph_n_variables(a->graph); i++) {
        const struct variable *v = graph_variable_at(a->graph, i);
        struct err err = {0};

        if (session_variable_initialized(s, v))
            continue;
        if (algo_run_each(s, &v->initializer, 1, key, &err) == 0 &&
            !session_variable_initialized(s, v))
            (void)err_set(&err, ERR_UNINITIALIZED, "its initializer sets none");
        if (err.code == 0)
            n++;
        else if (why->code == 0)
            (void)err_set(why, err.code, "variable %s has no value: %s", v->name,
                          err.msg);
    }
    return n;
}

/* Runs the initializers again as long as more variables get a value: an initializer may
 * read variables created later. */
static int init(struct algo *a, struct session *s, struct rng_key key, struct err *err)
{
    struct err why;
    int rc = a->prefix != NULL && a->saver != NULL
                 ? saver_restore(a->saver, s, a->prefix, err)
                 : 0;

    if (rc < 0)
        return rc;
    if (metagraph_run_main_op(a->graph, s, &a->info, key, &why) < 0)
        log_warn("the graph's main op: %s", why.msg);
    while (initialize_some(a, s, key, &why) > 0 && why.code < 0)
        continue;
    if (why.code < 0)
        log_warn("%s", why.msg);
    return 0;
}

static const char *const settings[] = {"from", "agent", NULL};

static const struct algo_about about = {
    .info = {.summary = "a graph built elsewhere, trained by a client with the graph's "
                        "own train ops",
             .use = "models that exist as a MetaGraph of TensorFlow 1: a program feeds, "
                    "fetches and trains them through `brood run` and its socket",
             .stages = "",
             .source = "a MetaGraph of TensorFlow 1 or of brood, with or without a "
                       "checkpoint",
             .own_critic = 1,
             .without_env = 1},
    .settings = settings};

const struct algo_ops hosted_ops = {
    .name = "graph",
    .about = &about,
    .size = sizeof(struct algo),
    .build = hosted_build,
    .done = hosted_done,
    .init = init,
};
