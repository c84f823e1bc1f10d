/* fake_agents.h - implements agent_table.h without processes: this process answers.
 *
 * Requests and responses are real messages, packed and parsed. fake_agents_run stands in
 * for the loop; it delivers the response to the newest request first.
 */
#ifndef TESTS_SUPERVISOR_FAKE_AGENTS_H
#define TESTS_SUPERVISOR_FAKE_AGENTS_H

#include "supervisor/proc/agent_table.h"

/* Packs the result of a request as one object. */
typedef void (*fake_answer_fn)(void *ctx, size_t agent, const struct msg *request,
                               struct msg_out *o);

/* Calls `answer` with the method "configure" for each agent's description. */
struct agent_table *fake_agents_new(const char *const *names, size_t n,
                                    fake_answer_fn answer, void *ctx);
/* Delivers responses until no request is outstanding, or `max` of them. Returns their
 * number. */
size_t fake_agents_run(struct agent_table *t, size_t max);
/* watch is called before (1) and after (0) the delivery of each response. In between,
 * only the code under test runs, and this double only packs requests. */
void fake_agents_watch(struct agent_table *t, void (*watch)(int inside));
void fake_agents_free(struct agent_table *t);

#endif
