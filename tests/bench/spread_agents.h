/* spread_agents.h - three agents as shipped (simple_spread, networks 64-64) behind an
 * agent_table, on a loop of its own: the real processes, without a driver.
 *
 * Every error ends the program.
 */
#ifndef TESTS_BENCH_SPREAD_AGENTS_H
#define TESTS_BENCH_SPREAD_AGENTS_H

#include "supervisor/begin/agent_specs.h"
#include "supervisor/env/env.h"
#include "supervisor/proc/agent_table.h"

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

enum { SPREAD_AGENTS = 3, SPREAD_MOVES = 5, SPREAD_OBS = 18 };

struct spread_agents {
    size_t copies;
    uv_loop_t loop;
    struct run_config config;
    struct vec_env *env;
    struct agent_specs specs;
    struct agent_table *table;
    int is_ready, is_stopped;
};

/* The executable of this build, as a descriptor whose number is not among those that
 * children use; the caller closes it.
 */
int spread_agent_exe(void);
/* Starts the agents and waits until they are ready. The struct must not move. */
void spread_agents_start(struct spread_agents *s, size_t copies);
void spread_agents_stop(struct spread_agents *s);
/* The params of an `act` request, as the driver packs them. */
void spread_pack_act(const struct spread_agents *s, struct msg_out *o, size_t agent,
                     uint64_t step);

#endif
