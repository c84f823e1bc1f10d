/* Writes checkpoints of all shapes, to be read by external programs:
 *
 *     write_bundles DIR
 *
 * DIR/many (an index of several blocks), DIR/kinds (every element type, strings, scalars,
 * empty tensors), DIR/parts (tensors in slices), DIR/shards (several data files),
 * DIR/device (a Saver's, by device).
 */
#include "agent/graph/ops.h"
#include "agent/saver/saver.h"
#include "common/ckpt/bundle.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct err err;

static struct bundle_writer *writer(const char *dir, const char *name, uint32_t n_shards)
{
    char *prefix = xasprintf("%s/%s", dir, name);
    struct bundle_writer *w;

    CHECK(bundle_writer_new_sharded(&w, prefix, n_shards, 0, &err) == 0, "%s", err.msg);
    free(prefix);
    return w;
}

static void finish(struct bundle_writer *w)
{
    CHECK(bundle_writer_finish(w, &err) == 0, "%s", err.msg);
    bundle_writer_free(w);
}

static void add(struct bundle_writer *w, const char *name, const struct tensor *t)
{
    CHECK(bundle_writer_add(w, name, t, &err) == 0, "%s", err.msg);
}

static void write_many(const char *dir)
{
    struct bundle_writer *w = writer(dir, "many", 1);

    for (int i = 0; i < 12000; i++) {
        const float value = (float)i;
        const struct tensor t = tensor_scalar_f32(&value);
        char name[64];

        (void)snprintf(name, sizeof(name), "agent_%d/layer_%d/weights", i % 7, i);
        add(w, name, &t);
    }
    finish(w);
}

static void write_kinds(const char *dir)
{
    static const enum dtype dtypes[] = {DT_FLOAT, DT_DOUBLE, DT_INT32,
                                        DT_INT64, DT_UINT8,  DT_BOOL};
    static char hi[] = "hi", long_text[300] = "x";
    struct tensor_string strings[] = {{hi, 2}, {long_text, 300}, {hi, 0}};
    struct tensor t = tensor_view(DT_STRING, SHAPE(3), strings);
    struct bundle_writer *w = writer(dir, "kinds", 1);
    _Alignas(8) unsigned char bytes[48] = {1, 0, 1};

    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++) {
        const struct shape shapes[] = {SHAPE_SCALAR, SHAPE(2, 3), SHAPE(4, 0)};

        for (size_t k = 0; k < sizeof(shapes) / sizeof(shapes[0]); k++) {
            const struct tensor x = tensor_view(dtypes[i], shapes[k], bytes);
            char name[64];

            (void)snprintf(name, sizeof(name), "%s/%zu", dtype_name(dtypes[i]), k);
            add(w, name, &x);
        }
    }
    add(w, "strings", &t);
    t.shape = SHAPE(0);
    add(w, "strings/none", &t);
    finish(w);
}

static void write_parts(const char *dir)
{
    struct bundle_writer *w = writer(dir, "parts", 1);
    float values[300] = {1, 2, 3};

    for (int64_t i = 0; i < 20; i++) {
        const struct bundle_slice slice = {{10 * i, 0}, {10, -1}};
        const struct tensor part = tensor_view(DT_FLOAT, SHAPE(10, 3), values);

        CHECK(bundle_writer_add_slice(w, "table", &SHAPE(200, 3), &slice, &part, &err) ==
                  0,
              "%s", err.msg);
    }
    finish(w);
}

static void write_shards(const char *dir)
{
    struct bundle_writer *w = writer(dir, "shards", 3);
    float values[5] = {1, 2, 3, 4, 5};
    const struct tensor t = tensor_view(DT_FLOAT, SHAPE(5), values);

    for (int i = 0; i < 9; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "v%d", i);
        if (i == 3 || i == 6)
            bundle_writer_next_shard(w);
        add(w, name, &t);
    }
    finish(w);
}

static void write_by_device(const char *dir)
{
    struct saver_options o = SAVER_DEFAULTS;
    char *prefix = xasprintf("%s/device", dir);
    struct graph *g = graph_new();
    struct saver *saver;
    struct session *s;

    replica_device_enter(g, 2, NULL);
    for (int i = 0; i < 5; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "v%d", i);
        (void)get_variable(g, name, DT_FLOAT, &SHAPE(3, i + 1), NULL, 0);
    }
    device_leave(g);
    struct operation *init = global_variables_initializer(g, NULL);
    struct run_args args = {
        .targets = &init, .n_targets = 1, .key = rng_key_make(1, "test", "init")};

    o.sharded = 1;
    CHECK(saver_new(&saver, g, &o, &err) == 0, "%s", err.msg);
    CHECK(session_new(&s, g, NULL, &err) == 0, "%s", err.msg);
    CHECK(session_run(s, &args, NULL, &err) == 0, "%s", err.msg);
    CHECK(saver_save(saver, s, prefix, NULL, NULL, &err) == 0, "%s", err.msg);
    session_free(s);
    saver_free(saver);
    graph_free(g);
    free(prefix);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2, "write_bundles DIR");
    write_many(argv[1]);
    write_kinds(argv[1]);
    write_parts(argv[1]);
    write_shards(argv[1]);
    write_by_device(argv[1]);
    return 0;
}
