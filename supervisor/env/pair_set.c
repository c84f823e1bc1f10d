#include "supervisor/env/pair_set.h"

enum { FIRST_SLOTS = 8, NEIGHBOURS = 9, SHIFT = 5 };

void pair_set_init(struct pair_set *s)
{
    s->mask = FIRST_SLOTS - 1;
    s->n = 0;
    for (size_t i = 0; i <= s->mask; i++)
        s->slot[i] = -1;
}

static uint64_t pair_hash(int32_t x, int32_t y)
{
    const uint64_t prime1 = 11400714785074694791u, prime2 = 14029467366897019727u,
                   prime5 = 2870177450012600261u;
    const uint64_t lane[2] = {(uint64_t)x, (uint64_t)y};
    uint64_t h = prime5;

    for (int i = 0; i < 2; i++) {
        h += lane[i] * prime2;
        h = h << 31 | h >> 33;
        h *= prime1;
    }
    h += 2 ^ prime5 ^ 3527539u;
    return h == UINT64_MAX ? 1546275796 : h;
}

/* The first free slot of those where a pair with this hash may be. */
static size_t find_free(const struct pair_set *s, uint64_t hash)
{
    uint64_t perturb = hash;
    size_t i = hash & s->mask;

    for (;;) {
        const size_t last = i + NEIGHBOURS <= s->mask ? i + NEIGHBOURS : i;

        for (size_t k = i; k <= last; k++) {
            if (s->slot[k] < 0)
                return k;
        }
        perturb >>= SHIFT;
        i = (i * 5 + 1 + perturb) & s->mask;
    }
}

/* Moves all pairs to a table of more than 4 n slots, in the order of the old one. */
static void grow(struct pair_set *s)
{
    const struct pair_set old = *s;
    size_t slots = FIRST_SLOTS;

    while (slots <= 4 * s->n)
        slots *= 2;
    s->mask = slots - 1;
    for (size_t i = 0; i < slots; i++)
        s->slot[i] = -1;
    for (size_t i = 0; i <= old.mask; i++) {
        if (old.slot[i] >= 0) {
            const size_t at = find_free(s, old.hash[i]);

            s->slot[at] = old.slot[i];
            s->hash[at] = old.hash[i];
        }
    }
}

void pair_set_add(struct pair_set *s, int32_t x, int32_t y, int16_t number)
{
    const uint64_t hash = pair_hash(x, y);
    const size_t at = find_free(s, hash);

    s->slot[at] = number;
    s->hash[at] = hash;
    s->n++;
    if (s->n * 5 >= s->mask * 3)
        grow(s);
}

size_t pair_set_list(const struct pair_set *s, int16_t ret[PAIR_SET_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i <= s->mask; i++) {
        if (s->slot[i] >= 0)
            ret[n++] = s->slot[i];
    }
    return n;
}
