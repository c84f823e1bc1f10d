/* Arbitrary bytes as a MetaGraphDef: importing succeeds or fails, in bounded memory. An
 * imported graph can be exported, imported and exported again to the same bytes. The same bytes
 * as a SavedModel: its graphs are inside of them, and their signatures are read or not. */
#include "agent/saver/metagraph_export.h"
#include "agent/saver/metagraph_import.h"
#include "common/ckpt/saved_model.h"
#include "common/err/check.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/metagraph_check.h"

#include <string.h>

static const struct metagraph_import_options bounded = {.max_constant_bytes = 1 << 20};

/* Imports data and exports the graph to ret. Returns 0 if the import fails. */
static int pass(const void *data, size_t size, struct wbuf *ret)
{
    struct graph *g = graph_new();
    struct metagraph_info info;
    struct saver *saver;
    struct saver_options o = SAVER_DEFAULTS;
    int ok = metagraph_import(g, data, size, &bounded, &info, NULL) == 0;

    if (ok) {
        o.saver_def = &info.saver;
        if (info.has_saver && saver_new(&saver, g, &o, NULL) == 0)
            saver_free(saver);
        metagraph_export(ret, g, info.has_saver ? &info.saver : NULL, NULL);
        metagraph_info_done(&info);
    }
    graph_free(g);
    return ok;
}

static void read_saved_model(const void *data, size_t size)
{
    static const char *const tags[] = {NULL, "", "serve", "a,b"};
    const struct cursor all = cursor_of(data, size);
    struct cursor graph;

    for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
        struct arena arena = ARENA_ZERO;
        struct signatures s;

        if (saved_model_find(all, tags[i], &graph, NULL) != 0)
            graph = all;
        CHECK(graph.p >= all.p && graph.end <= all.end);
        if (signatures_read(&s, &arena, graph.p, cursor_left(&graph), NULL) == 0)
            for (size_t k = 0; k < s.n; k++)
                CHECK(s.at[k].n_inputs + s.at[k].n_outputs <= size);
        arena_done(&arena);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wbuf first = {0}, second = {0};

    read_saved_model(data, size);
    (void)metagraph_check(data, size, NULL, 0, NULL);
    (void)metagraph_check(data, size, data, size, NULL);
    if (pass(data, size, &first) && pass(first.data, first.len, &second))
        CHECK(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
    wbuf_done(&first);
    wbuf_done(&second);
    return 0;
}
