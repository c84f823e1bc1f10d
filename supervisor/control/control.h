/* control.h - the run's control socket: how others look at a live run and steer it.
 *
 * Socket   control.sock in the run's directory, mode 0600, and only for processes of the
 *          same user (SO_PEERCRED). It is there from the first agent's start to the last
 *          one's end.
 * Speaks   bare msgpack-rpc, several clients at once, several requests on their way each;
 *          answers come when what was asked for has happened, in any order. Params are a
 *          map, alone or as the one element of an array; an error is {"code", "message"}.
 *
 *     status      {}                        a map as `brood status --json` prints it
 *     kill        {agent}                   {}
 *     respawn     {agent}                   {env_steps}, the new one is in place
 *     pause       {}                        {env_steps}, it stands still
 *     continue    {}                        {}
 *     checkpoint  {}                        {env_steps}, it is on the disk
 *     stop        {}                        {env_steps}, all is over
 *     set         {changes: ["KEY=VALUE", ...], at?}   {at, changes, waits}
 *                 {cancel: ["KEY", ...]}    {cancelled: [{key, value, at_step?, agent?}]}:
 *                                           changes that were not yet in force; [] cancels
 *                                           all of them
 *     run         {agent, feeds, fetches, targets}      as an agent's `run` (protocol.h)
 *     logs        {agent?, bytes?}          {text}: the newest lines, as bytes, of the
 *                                           journal, or of what the agent ("supervisor":
 *                                           the supervisor) wrote; at most 64 KiB, or as
 *                                           many bytes as asked for, up to 1 MiB
 *     trace       {rounds}                  {path, rounds, seconds, waiting_seconds,
 *                                           left_out, shares: [{process, work, count,
 *                                           seconds}...]}: the next rounds are recorded
 *                                           (training.h)
 *     subscribe   {}                        {}, then notifications: message {text,
 *                                           error: bool}, journal {line}, row {env_steps, episodes,
 *                                           name: number, ...}
 *
 * Bounds   CONTROL_MAX_CLIENTS; a message of CONTROL_MAX_BYTES. Whoever exceeds one, or
 *          sends what is no request, is told so and cut off. Of a client that does not
 *          take its answers no more is read until it does; CONTROL_TURN requests of one
 *          are answered before the run has its turn again, and all together take no more
 *          than a quarter of the supervisor's time (but for `run` without an environment:
 *          that is its work); those who ask for more wait in turn. Where unfinished messages and
 *          unread answers of all clients exceed CONTROL_MAX_HELD, who holds most is cut
 *          off.
 * Threads  loop thread only.
 */
#ifndef SUPERVISOR_CONTROL_CONTROL_H
#define SUPERVISOR_CONTROL_CONTROL_H

#include "supervisor/run/training.h"

#define CONTROL_SOCKET      "control.sock"
#define CONTROL_MAX_CLIENTS 64
#define CONTROL_TURN        64
#define CONTROL_MAX_BYTES   ((size_t)32 << 20) /* of a message */
#define CONTROL_MAX_UNREAD  ((size_t)64 << 20) /* of answers to one client */
#define CONTROL_MAX_HELD    ((size_t)128 << 20)

struct control; /* opaque */

/* For one run; dir is borrowed. */
struct control *control_new(struct run_dir *dir);
void control_free(struct control *c); /* after training_run */
/* To be handed to training_run. */
struct training_observer control_observer(struct control *c);

#endif
