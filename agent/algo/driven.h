/* driven.h - what algorithms have in common whose graph is run by clients (`run` on the
 * control socket, env.id: none): no stages and no policy. Members of struct algo_ops. */
#ifndef AGENT_ALGO_DRIVEN_H
#define AGENT_ALGO_DRIVEN_H

#include "agent/algo/algo.h"

const struct stage *driven_stages(const struct algo *a, size_t *ret_n); /* none */
int driven_act(struct algo *a, struct session *s, const struct act_args *args,
               struct act_result *ret, struct err *err); /* ERR_UNSUPPORTED */
int driven_stage(struct algo *a, struct session *s, const struct stage_args *args,
                 struct stage_result *ret, struct err *err); /* ERR_UNSUPPORTED */

#endif
