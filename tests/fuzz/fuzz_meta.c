/* Arbitrary bytes as a MetaGraphDef: importing succeeds or fails, in bounded memory. An
 * imported graph can be exported, imported and exported again to the same bytes. */
#include "agent/saver/metagraph_export.h"
#include "agent/saver/metagraph_import.h"
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wbuf first = {0}, second = {0};

    (void)metagraph_check(data, size, NULL, 0, NULL);
    (void)metagraph_check(data, size, data, size, NULL);
    if (pass(data, size, &first) && pass(first.data, first.len, &second))
        CHECK(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
    wbuf_done(&first);
    wbuf_done(&second);
    return 0;
}
