#include "tests/bench/yardstick.h"

#include "common/err/check.h"

#include <stdlib.h>
#include <string.h>

static int64_t floats_of_a(const struct dense *d)
{
    return d->lda * (d->turned_a ? d->k : d->m);
}

static int64_t floats_of_b(const struct dense *d)
{
    return d->ldb * (d->turned_b ? d->n : d->k);
}

/* The one of `floats` floats, made when it is first asked for: operands of one size share
 * their memory, so that they are in the cache if they ever are. */
static float *shared(size_t floats)
{
    static struct {
        size_t floats;
        float *at;
    } made[64];
    size_t i = 0;

    while (made[i].at != NULL && made[i].floats != floats)
        CHECK(++i < sizeof(made) / sizeof(made[0]));
    if (made[i].at == NULL) {
        made[i].floats = floats;
        made[i].at = aligned_alloc(64, (floats * sizeof(float) + 63) / 64 * 64);
        CHECK(made[i].at != NULL);
        for (size_t k = 0; k < floats; k++)
            made[i].at[k] = (float)(k * 7919 % 2001) / 1000.0f - 1.0f;
    }
    return made[i].at;
}

void yardstick_prepare(struct dense *products, size_t n)
{
    static float *out;
    int64_t most = 0;

    for (size_t i = 0; i < n; i++)
        most = products[i].ldc * products[i].m > most ? products[i].ldc * products[i].m
                                                      : most;
    free(out);
    out = aligned_alloc(64, ((size_t)most * sizeof(float) + 63) / 64 * 64);
    CHECK(out != NULL);
    memset(out, 0, (size_t)most * sizeof(float));
    for (size_t i = 0; i < n; i++) {
        products[i].a = shared((size_t)floats_of_a(&products[i]));
        products[i].b = shared((size_t)floats_of_b(&products[i]));
        products[i].c = out;
    }
}

static void by_chunks(struct dense d)
{
    int64_t *side = d.turned_a ? &d.k : &d.m;
    const int64_t all = *side;

    for (int64_t row = 0; row < all; row += DENSE_BLOCK) {
        *side = all - row < DENSE_BLOCK ? all - row : DENSE_BLOCK;
        d.add = d.turned_a && row > 0;
        blas_product(&d);
        d.a += DENSE_BLOCK * d.lda;
        if (d.turned_a)
            d.b += DENSE_BLOCK * d.ldb;
        else
            d.c += DENSE_BLOCK * d.ldc;
    }
}

void yardstick_run(const struct dense *products, size_t n)
{
    for (size_t i = 0; i < n; i++)
        by_chunks(products[i]);
}
