/* algorithm_msg.h - the description of an algorithm as a map of a message.
 *
 *   name, summary, stages, use, source   texts (common/config/algorithms.h)
 *   method       [text, ...]     an update as the paper has it, if it says so
 *   settings     [{key, type, doc, default?, flags?, min?, max?, names?, change?}, ...]
 *                type: whole, real, real_or_none, schedule, flag, name, text, choice;
 *                names: of a choice, the first is 0; change: what a change needs in a live
 *                run: live, setting, respawn (none: a new run); flags: field_flag_names
 *   defaults     {path: text}    that differ from those of all agents
 *   envs         [id, ...]       if it works in these only
 *   rows         transitions, episodes or window
 *   episodes_if  {key: number}   it learns from whole episodes if a setting is above
 *   scalars      [{name, meaning, unit?, by?}, ...]    what its stages report; by: a list of
 *                agent, step, central (enum scalar_by; none: agent)
 *   identity      [text, ...]     what its bits depend on, if it says so
 *   within        text            of a program that a run keeps: where it starts, below its files
 *   is            [default, own_critic, without_env, fixed, central, team_reward, shares,
 *                 keeps_window, prepares, hybrid]  those that are true
 *
 * What is read may come from a stranger: every text and number is bounded and checked, and
 * every default fits its row.
 */
#ifndef COMMON_MSG_ALGORITHM_MSG_H
#define COMMON_MSG_ALGORITHM_MSG_H

#include "common/config/algorithms.h"
#include "common/msg/msg.h"

void msg_algorithm(struct msg_out *o, const struct algorithm_info *a);

/* *ret lives in the arena. ERR_PROTOCOL, ERR_LIMIT. */
int msg_to_algorithm(const msgpack_object *map, struct algorithm_info *ret,
                     struct arena *arena, struct err *err);

#endif
