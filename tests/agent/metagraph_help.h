/* metagraph_help.h - helpers of the tests of `.meta` files. */
#ifndef TESTS_AGENT_METAGRAPH_HELP_H
#define TESTS_AGENT_METAGRAPH_HELP_H

#include "agent/graph/ops.h"
#include "agent/nn/nn.h"
#include "agent/saver/metagraph_export.h"
#include "common/mem/xmalloc.h"
#include "tests/support/checkpoints.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static inline char *meta_of(const char *index)
{
    return xasprintf("%.*s.meta", (int)strlen(index) - 6, index);
}

static inline void for_each_meta(void (*check)(const char *prefix, const void *data,
                                               size_t n))
{
    struct test_paths found;

    if (!test_has_real_checkpoints())
        return;
    found = test_real_indexes();
    for (size_t i = 0; i < found.n; i++) {
        char *path = meta_of(found.path[i]);
        char *prefix = xstrndup(path, strlen(path) - 5);
        size_t n;
        unsigned char *data = test_read_file(path, &n);

        check(prefix, data, n);
        free(data);
        free(prefix);
        free(path);
    }
    test_paths_free(&found);
}

static inline struct wbuf export_of(struct graph *g, const struct saver_def *saver)
{
    struct wbuf b = {0};

    metagraph_export(&b, g, saver, NULL);
    return b;
}

/* A regression with noise in its loss: placeholders x and y, train op Adam. */
static inline void build_regression(struct graph *g)
{
    struct output x = placeholder(g, DT_FLOAT, &SHAPE(-1, 3), "x");
    struct output y = placeholder(g, DT_FLOAT, &SHAPE(-1, 2), "y");
    struct output h = fully_connected(g, x, 8, ACTIVATION_RELU, NULL, NULL);
    struct output out = fully_connected(g, h, 2, ACTIVATION_LINEAR, NULL, NULL);
    struct output noise = random_normal_of(g, "RandomStandardNormal", DT_FLOAT,
                                           &SHAPE(4, 2), 0.0, 0.1, "noise");
    struct output loss =
        reduce(g, "Mean",
               unary(g, "Square",
                     binary(g, "Add", binary(g, "Sub", out, y, NULL), noise, NULL), NULL),
               NULL, 0, 0, "loss");
    const struct optimizer_config adam = {OPT_ADAM, .learning_rate = {0.1}, .beta1 = 0.9,
                                          .beta2 = 0.999, .epsilon = 1e-8};
    const struct collection_item *items;
    size_t n = collection_get(g, TRAINABLE_VARIABLES, NULL, &items);
    struct output xs[8], grads[8];
    struct gradient pairs[8];

    ck_assert_uint_eq(n, 4);
    for (size_t i = 0; i < n; i++)
        xs[i] = items[i].variable->read;
    ck_assert_int_eq(graph_gradients(g, &loss, 1, xs, n, NULL, NULL, 0, grads, NULL), 0);
    for (size_t i = 0; i < n; i++)
        pairs[i] = (struct gradient){grads[i], items[i].variable};
    ck_assert_ptr_nonnull(apply_gradients(g, &adam, pairs, n, NULL, NULL, NULL));
    ck_assert_ptr_nonnull(global_variables_initializer(g, NULL));
}

#endif
