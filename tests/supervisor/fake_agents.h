/* fake_agents.h - agent_table.h without processes: requests are answered in this one.
 *
 * Requests and answers are real messages, packed and parsed. Answers are delivered by
 * fake_agents_run, the loop's stand-in, in an order of its own: last asked, first told.
 */
#ifndef TESTS_SUPERVISOR_FAKE_AGENTS_H
#define TESTS_SUPERVISOR_FAKE_AGENTS_H

#include "supervisor/proc/agent_table.h"

/* Packs the result of a request as one object. */
typedef void (*fake_answer_fn)(void *ctx, size_t agent, const struct msg *request,
                               struct msg_out *o);

/* answer is asked for each agent's description first, as "configure". */
struct agent_table *fake_agents_new(const char *const *names, size_t n,
                                    fake_answer_fn answer, void *ctx);
/* Delivers until nobody owes an answer, or max answers are out. Returns how many. */
size_t fake_agents_run(struct agent_table *t, size_t max);
/* Called before (1) and after (0) each answer is delivered: in between runs the code
 * under test, and nothing of this double but the packing of requests. */
void fake_agents_watch(struct agent_table *t, void (*watch)(int inside));
void fake_agents_free(struct agent_table *t);

#endif
