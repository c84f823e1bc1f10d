/* Imports a MetaGraph and performs the runs that stdin describes (run_meta.py):
 *
 *     run_meta [--native] PREFIX [SAVE_AS]       restores the variables first if it has values
 *     run_meta [--native] FILE.meta [SAVE_AS]    no variable has a value
 *
 * --native: OpenBLAS computes large products. PREFIX: as `brood graph` takes it, also a SavedModel
 * or a frozen graph. SAVE_AS: where to save a checkpoint of the variables after the last run. Each
 * line of stdin adds to the next run, or starts it:
 *
 *     feed NAME TENSOR
 *     fetch NAME
 *     target NAME
 *     of NAME FED        a y of graph_gradients; the fed tensor FED is its gradient
 *     by NAME            an x: the gradient of all y by it is fetched after the fetches
 *     run COUNTER
 *
 * A run is answered by a line "tensor TENSOR" for each fetch and each `by`, "none" where y does
 * not depend on x, then by "done"; or by "error" and the message. A TENSOR is its dtype, its
 * dims with commas ("-": a scalar) and, after an "x", its bytes in hexadecimal; of strings,
 * those of each, with commas. */
#include "agent/saver/metagraph_import.h"
#include "agent/session/session.h"
#include "common/ckpt/ckpt_find.h"
#include "common/ckpt/saved_model.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct names {
    char **at;
    size_t n, cap;
};

enum part { FEED, FETCH, TARGET, OF, BY, N_PARTS };
static const char *const part_words[N_PARTS] = {"feed", "fetch", "target", "of", "by"};

/* What the next run is made of, as written. */
struct wanted {
    struct names names[N_PARTS],
        values; /* values: of feeds; then the gradients of each `of` */
    struct names grads;
};

struct runner {
    struct graph *g;
    struct session *s;
    struct wanted wanted;
};

static void add(struct names *to, const char *name)
{
    ARRAY_GROW(to->at, to->n, to->cap);
    to->at[to->n++] = xstrdup(name);
}

static void clear(struct names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->at[i]);
    free(names->at);
    *names = (struct names){0};
}

/* ---- tensors as text ---- */

static void unhex(const char *text, size_t n, char *to)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (char)(hex_digit(text[2 * i]) * 16 + hex_digit(text[2 * i + 1]));
}

static void hex(const void *data, size_t n)
{
    for (size_t i = 0; i < n; i++)
        printf("%02x", ((const uint8_t *)data)[i]);
}

static struct shape read_dims(char *text)
{
    struct shape ret = SHAPE_SCALAR;
    char *rest = NULL;

    if (strcmp(text, "-") == 0)
        return ret;
    for (char *d = strtok_r(text, ",", &rest); d != NULL;
         d = strtok_r(NULL, ",", &rest)) {
        CHECK(ret.rank < SHAPE_MAX_RANK, "a tensor of rank 9");
        ret.dim[ret.rank++] = strtoll(d, NULL, 10);
    }
    return ret;
}

static void read_strings(const struct tensor *t, const char *text)
{
    struct tensor_string *to = t->data;

    for (int64_t i = 0; i < tensor_elements(t); i++, text += strcspn(text, ",") + 1) {
        to[i].len_bytes = strcspn(text, ",") / 2;
        to[i].bytes = xmalloc(to[i].len_bytes + 1);
        unhex(text, to[i].len_bytes, to[i].bytes);
    }
}

static int read_tensor(struct tensor *ret, char *text, struct err *err)
{
    char *rest = NULL, *dtype = strtok_r(text, " ", &rest),
         *dims = strtok_r(NULL, " ", &rest), *bytes = strtok_r(NULL, " ", &rest);
    int rc;

    CHECK(bytes != NULL && bytes[0] == 'x', "feed NAME DTYPE DIMS xBYTES");
    rc = tensor_alloc(ret, dtype_from_name(dtype), read_dims(dims), err);
    if (rc != 0)
        return rc;
    if (ret->dtype == DT_STRING) {
        read_strings(ret, bytes + 1);
    } else {
        CHECK(strlen(bytes + 1) == 2 * tensor_bytes(ret), "a feed has the wrong length");
        unhex(bytes + 1, tensor_bytes(ret), ret->data);
    }
    return 0;
}

static void print_tensor(const struct tensor *t)
{
    printf("tensor %s ", dtype_name(t->dtype));
    for (int i = 0; i < t->shape.rank; i++)
        printf("%s%" PRId64, i > 0 ? "," : "", t->shape.dim[i]);
    printf("%s x", t->shape.rank == 0 ? "-" : "");
    if (t->dtype != DT_STRING)
        hex(t->data, tensor_bytes(t));
    for (int64_t i = 0; t->dtype == DT_STRING && i < tensor_elements(t); i++) {
        const struct tensor_string *s = (const struct tensor_string *)t->data + i;

        printf("%s", i > 0 ? "," : "");
        hex(s->bytes, s->len_bytes);
    }
    printf("\n");
}

/* ---- runs ---- */

static int find_tensors(const struct graph *g, const struct names *names,
                        struct output *ret, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < names->n && rc == 0; i++)
        rc = graph_tensor(g, names->at[i], &ret[i], err);
    return rc;
}

/* ret_grads[by.n]: new nodes */
static int add_gradients(struct runner *r, struct output *ret_grads, struct err *err)
{
    const struct names *of = &r->wanted.names[OF], *by = &r->wanted.names[BY];
    struct output *ys = xcalloc(of->n + 1, sizeof(*ys));
    struct output *fed = xcalloc(of->n + 1, sizeof(*fed));
    struct output *xs = xcalloc(by->n + 1, sizeof(*xs));
    int rc;

    if ((rc = find_tensors(r->g, of, ys, err)) == 0 &&
        (rc = find_tensors(r->g, &r->wanted.grads, fed, err)) == 0 &&
        (rc = find_tensors(r->g, by, xs, err)) == 0)
        rc = graph_gradients(r->g, ys, of->n, xs, by->n, fed, NULL, 0, ret_grads, err);
    graph_clear_error(r->g);
    free(ys);
    free(fed);
    free(xs);
    return rc;
}

static int prepare(struct runner *r, struct run_args *args, struct feed *feeds,
                   struct operation **targets, struct output *fetches,
                   struct output *grads, struct err *err)
{
    const struct names *names = r->wanted.names;
    int rc;

    for (size_t i = 0; i < names[FEED].n; i++)
        if ((rc = graph_tensor(r->g, names[FEED].at[i], &feeds[i].output, err)) != 0 ||
            (rc = read_tensor(&feeds[i].value, r->wanted.values.at[i], err)) != 0)
            return rc;
    for (size_t i = 0; i < names[TARGET].n; i++)
        if ((rc = lookup_operation(r->g, names[TARGET].at[i], &targets[i], err)) != 0)
            return rc;
    if ((rc = find_tensors(r->g, &names[FETCH], fetches, err)) != 0 ||
        (names[BY].n > 0 && (rc = add_gradients(r, grads, err)) != 0))
        return rc;
    args->n_fetches = names[FETCH].n;
    for (size_t i = 0; i < names[BY].n; i++)
        if (output_valid(grads[i]))
            fetches[args->n_fetches++] = grads[i];
    return 0;
}

static void run(struct runner *r, uint64_t counter)
{
    const struct names *names = r->wanted.names;
    const size_t n = names[FETCH].n + names[BY].n;
    struct feed *feeds = xcalloc(names[FEED].n + 1, sizeof(*feeds));
    struct operation **targets = xcalloc(names[TARGET].n + 1, sizeof(*targets));
    struct output *fetches = xcalloc(n + 1, sizeof(*fetches));
    struct output *grads = xcalloc(n + 1, sizeof(*grads));
    struct tensor *ret = xcalloc(n + 1, sizeof(*ret));
    struct run_args args = {.feeds = feeds,
                            .n_feeds = names[FEED].n,
                            .fetches = fetches,
                            .targets = targets,
                            .n_targets = names[TARGET].n,
                            .key = rng_key_make(5, "test", "run"),
                            .counter = counter};
    struct err err = {0};
    size_t at = 0;
    int rc = prepare(r, &args, feeds, targets, fetches, grads, &err);

    if (rc == 0)
        rc = session_run(r->s, &args, ret, &err);
    for (size_t i = 0; i < n && rc == 0; i++)
        if (i < names[FETCH].n || output_valid(grads[i - names[FETCH].n]))
            print_tensor(&ret[at++]);
        else
            printf("none\n");
    printf(rc == 0 ? "done\n" : "error %s\n", err.msg);
    for (size_t i = 0; i < n; i++)
        tensor_free(&ret[i]);
    for (size_t i = 0; i < names[FEED].n; i++)
        tensor_free(&feeds[i].value);
    free(feeds);
    free(targets);
    free(fetches);
    free(grads);
    free(ret);
}

static void take_line(struct runner *r, char *line)
{
    struct wanted *w = &r->wanted;
    char *rest = NULL;
    const char *word = strtok_r(line, " ", &rest), *name = strtok_r(NULL, " ", &rest);

    CHECK(word != NULL && name != NULL, "a word and a name");
    if (strcmp(word, "run") == 0) {
        run(r, strtoull(name, NULL, 10));
        for (int i = 0; i < N_PARTS; i++)
            clear(&w->names[i]);
        clear(&w->values);
        clear(&w->grads);
        return;
    }
    for (int i = 0; i < N_PARTS; i++)
        if (strcmp(word, part_words[i]) == 0) {
            add(&w->names[i], name);
            if (i == FEED || i == OF)
                add(i == FEED ? &w->values : &w->grads, rest);
            return;
        }
    CHECK(0, "%s is no part of a run", word);
}

static void must(int rc, const struct err *err)
{
    if (rc == 0)
        return;
    (void)fprintf(stderr, "%s\n", err->msg);
    exit(1);
}

/* Imports the graph of a prefix, or of a file that ends in ".meta", whose variables have no values. */
static void import(struct runner *r, struct saver **ret_saver, const char *path,
                   const struct session_options *o)
{
    const size_t len = strlen(path);
    const int no_values = len >= 5 && strcmp(path + len - 5, ".meta") == 0;
    struct metagraph_info info;
    struct wbuf b = {0};
    struct err err = {0};
    char *prefix;

    must(ckpt_find_prefix(&prefix, path, &err), &err);
    must(ckpt_read_graph(&b, prefix, NULL, SIZE_MAX, &err), &err);
    must(import_meta_graph_bytes(ret_saver, r->g, b.data, b.len, NULL, &info, &err),
         &err);
    must(session_new(&r->s, r->g, o, &err), &err);
    if (!no_values && *ret_saver != NULL && ckpt_kind_of(prefix) != CKPT_NONE) {
        must(saver_restore(*ret_saver, r->s, prefix, &err), &err);
        /* a warning, as of `brood graph` */
        if (metagraph_run_main_op(r->g, r->s, &info, rng_key_make(5, "test", "main"),
                                  &err) != 0)
            (void)fprintf(stderr, "main op: %s\n", err.msg);
    }
    metagraph_info_done(&info);
    wbuf_done(&b);
    free(prefix);
}

int main(int argc, char **argv)
{
    struct runner r = {.g = graph_new()};
    struct session_options o = {0};
    struct saver *saver;
    struct err err = {0};
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;

    if (argc > 1 && strcmp(argv[1], "--native") == 0) {
        o.numerics = NUMERICS_NATIVE;
        argc--;
        argv++;
    }
    CHECK(argc == 2 || argc == 3, "run_meta [--native] PREFIX|FILE.meta [SAVE_AS]");
    import(&r, &saver, argv[1], &o);
    while ((n = getline(&line, &cap, stdin)) > 0) {
        line[n - 1] = '\0';
        take_line(&r, line);
    }
    if (argc == 3)
        must(saver_save(saver, r.s, argv[2], NULL, NULL, &err), &err);
    session_free(r.s);
    saver_free(saver);
    graph_free(r.g);
    free(line);
    return 0;
}
