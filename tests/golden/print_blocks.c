/* Prints a hash of every learner's variables after some updates, for the machines of
 * tests/integration/test_machines.py: all must print the same.
 *
 *     print_blocks
 */
#include "common/rng/rng.h"
#include "tests/support/team.h"

#include "agent/session/session.h"

#include <inttypes.h>
#include <stdio.h>

enum { N_ROWS = 1000, MAX_BATCH = 300, UPDATES = 3 };

static uint64_t hash_bytes(const uint8_t *bytes, size_t n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

    for (size_t i = 0; i < n; i++)
        h = (h ^ bytes[i]) * UINT64_C(0x100000001b3);
    return h;
}

static void print_team(const char *config, int64_t batch)
{
    const struct team_args args = team_spread(config, N_ROWS);
    struct team *t = team_new(&args);
    uint64_t rows[MAX_BATCH];

    for (uint64_t update = 0; update < UPDATES; update++) {
        rng_below(rng_key_make(1, "golden", "rows"), update, 0, N_ROWS, rows,
                  (size_t)batch);
        team_update(t, update, rows, 1, batch, NULL);
    }
    for (size_t i = 0; i < args.n; i++)
        (void)printf("%016" PRIx64 "  agent_%zu, batch %" PRId64 ", %s\n",
                     hash_bytes(session_block(t->members[i].session),
                                session_block_bytes(t->members[i].session)),
                     i, batch, config);
    team_free(t);
}

int main(void)
{
    static const char *const configs[] = {
        "{}",
        "{algorithm: ddpg, optimizer: {type: rmsprop}}",
        "{actor: {hidden: [33, 7], activation: tanh}, optimizer: {type: momentum}}",
    };

    for (size_t i = 0; i < sizeof(configs) / sizeof(configs[0]); i++) {
        print_team(configs[i], 20);
        print_team(configs[i], MAX_BATCH);
    }
    return 0;
}
