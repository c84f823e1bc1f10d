/* Runs parts of a graph, for tests/fuzz/references.py:
 *
 *     run_cases FILE.meta
 *
 * Each line of stdin is one run of the same session: the names of targets, "|", the names of
 * fetches. Each line of stdout is its answer: the values of each fetch as numbers with 9
 * digits, and ";" after each fetch; or "!" and the error. */
#include "agent/saver/metagraph_import.h"
#include "agent/session/session.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 4096, MAX_LINE = 1 << 20 };

struct parsed {
    struct output fetches[MAX_NAMES];
    struct operation *targets[MAX_NAMES];
    struct run_args args;
};

static void parse(const struct graph *g, char *line, struct parsed *p)
{
    struct err err = {0};
    int after_bar = 0;
    char *rest = NULL;

    p->args = (struct run_args){.fetches = p->fetches,
                                .targets = p->targets,
                                .key = rng_key_make(5, "test", "run")};
    for (char *name = strtok_r(line, " \n", &rest); name != NULL;
         name = strtok_r(NULL, " \n", &rest)) {
        if (strcmp(name, "|") == 0) {
            after_bar = 1;
        } else if (after_bar) {
            CHECK(p->args.n_fetches < MAX_NAMES);
            CHECK(graph_tensor(g, name, &p->fetches[p->args.n_fetches++], &err) == 0,
                  "%s", err.msg);
        } else {
            CHECK(p->args.n_targets < MAX_NAMES);
            p->targets[p->args.n_targets] = graph_operation(g, name);
            CHECK(p->targets[p->args.n_targets++] != NULL, "there is no %s", name);
        }
    }
}

static void print_tensor(const struct tensor *t)
{
    for (int64_t i = 0; i < tensor_elements(t); i++)
        if (t->dtype == DT_FLOAT)
            printf("%.9g ", (double)((const float *)t->data)[i] + 0);
        else if (t->dtype == DT_BOOL)
            printf("%d ", ((const uint8_t *)t->data)[i]);
        else
            CHECK(0, "a fetch is float32 or bool");
    printf(";");
}

static void run(struct session *s, struct parsed *p)
{
    struct tensor *ret = xcalloc(p->args.n_fetches + 1, sizeof(*ret));
    struct err err = {0};

    if (session_run(s, &p->args, ret, &err) != 0) {
        printf("! %s", err.msg);
    } else {
        for (size_t i = 0; i < p->args.n_fetches; i++) {
            print_tensor(&ret[i]);
            tensor_free(&ret[i]);
        }
    }
    printf("\n");
    free(ret);
}

int main(int argc, char **argv)
{
    struct graph *g = graph_new();
    struct parsed *p = xcalloc(1, sizeof(*p));
    char *line = xmalloc(MAX_LINE);
    struct saver *saver = NULL;
    struct session *s;
    struct err err = {0};

    CHECK(argc == 2, "run_cases FILE.meta");
    CHECK(import_meta_graph(&saver, g, argv[1], NULL, &err) == 0, "%s", err.msg);
    CHECK(session_new(&s, g, NULL, &err) == 0, "%s", err.msg);
    while (fgets(line, MAX_LINE, stdin) != NULL) {
        parse(g, line, p);
        run(s, p);
    }
    session_free(s);
    saver_free(saver);
    graph_free(g);
    free(line);
    free(p);
    return 0;
}
