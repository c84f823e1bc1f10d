#include "supervisor/env/pcg64.h"

/* NumPy's SeedSequence: hashes the words of the seed into a pool, and the pool into the
 * words of the state. */

enum { POOL = 4, OUT = 8 };

static uint32_t mix(uint32_t x, uint32_t y)
{
    uint32_t r = 0xca01f9ddu * x - 0x4973f715u * y;

    return r ^ r >> 16;
}

static uint32_t hash(uint32_t v, uint32_t *h, uint32_t multiplier)
{
    v ^= *h;
    *h *= multiplier;
    v *= *h;
    return v ^ v >> 16;
}

static void fill_pool(uint32_t pool[POOL], uint64_t seed)
{
    uint32_t h = 0x43b0d7e5u;

    for (int i = 0; i < POOL; i++) {
        uint32_t word = i == 0 ? (uint32_t)seed : i == 1 ? (uint32_t)(seed >> 32) : 0;

        pool[i] = hash(word, &h, 0x931e8875u);
    }
    for (int src = 0; src < POOL; src++) {
        for (int dst = 0; dst < POOL; dst++) {
            if (dst != src)
                pool[dst] = mix(pool[dst], hash(pool[src], &h, 0x931e8875u));
        }
    }
}

static unsigned __int128 wide(uint64_t high, uint64_t low)
{
    return (unsigned __int128)high << 64 | low;
}

static void advance(struct pcg64 *g)
{
    g->state = g->state * wide(0x2360ed051fc65da4u, 0x4385df649fccf645u) + g->increment;
}

void pcg64_init(struct pcg64 *g, uint64_t seed)
{
    uint32_t pool[POOL];
    uint64_t words[OUT / 2];
    uint32_t h = 0x8b51f9ddu;

    fill_pool(pool, seed);
    for (int i = 0; i < OUT; i++) {
        uint64_t word = hash(pool[i % POOL], &h, 0x58f38dedu);

        words[i / 2] = i % 2 == 0 ? word : words[i / 2] | word << 32;
    }
    *g = (struct pcg64){.increment = wide(words[2], words[3]) << 1 | 1};
    advance(g);
    g->state += wide(words[0], words[1]);
    advance(g);
}

static uint64_t next64(struct pcg64 *g)
{
    uint64_t high, x;
    unsigned turn;

    advance(g);
    high = (uint64_t)(g->state >> 64);
    x = high ^ (uint64_t)g->state;
    turn = (unsigned)(high >> 58);
    return x >> turn | x << (-turn & 63);
}

static uint32_t next32(struct pcg64 *g)
{
    uint64_t x;

    if (g->has_half) {
        g->has_half = 0;
        return (uint32_t)g->half;
    }
    x = next64(g);
    g->half = x >> 32;
    g->has_half = 1;
    return (uint32_t)x;
}

double pcg64_uniform(struct pcg64 *g)
{
    return (double)(next64(g) >> 11) * (1.0 / 9007199254740992.0);
}

/* Lemire 2019, Fast random integer generation in an interval. */
uint32_t pcg64_integer(struct pcg64 *g, uint32_t n)
{
    uint32_t threshold = -n % n;
    uint64_t m;

    if (n == 1)
        return 0; /* and draws nothing, as NumPy */
    m = (uint64_t)next32(g) * n;
    while ((uint32_t)m < threshold)
        m = (uint64_t)next32(g) * n;
    return (uint32_t)(m >> 32);
}

static void exchange(uint32_t *x, uint32_t i, uint32_t j)
{
    const uint32_t was = x[i];

    x[i] = x[j];
    x[j] = was;
}

static int is_among(uint32_t x, const uint32_t *drawn, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (drawn[i] == x)
            return 1;
    }
    return 0;
}

/* Bentley & Floyd 1987, A sample of brilliance; then Fisher's and Yates's shuffle. */
void pcg64_choose(struct pcg64 *g, uint32_t n, uint32_t k, uint32_t *ret)
{
    for (uint32_t i = 0; i < k; i++) {
        const uint32_t last = n - k + i, x = pcg64_integer(g, last + 1);

        ret[i] = is_among(x, ret, i) ? last : x;
    }
    for (uint32_t i = k; i-- > 1;)
        exchange(ret, i, pcg64_integer(g, i + 1));
}

/* Uniform in 0 .. most, of which NumPy takes the lowest bits until they fit. */
static uint32_t integer_by_bits(struct pcg64 *g, uint32_t most)
{
    uint32_t mask = most, x;

    for (int shift = 1; shift < 32; shift *= 2)
        mask |= mask >> shift;
    do
        x = next32(g) & mask;
    while (x > most);
    return x;
}

void pcg64_permutation(struct pcg64 *g, uint32_t n, uint32_t *ret)
{
    for (uint32_t i = 0; i < n; i++)
        ret[i] = i;
    for (uint32_t i = n; i-- > 1;)
        exchange(ret, i, integer_by_bits(g, i));
}
