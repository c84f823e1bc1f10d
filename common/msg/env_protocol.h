/* env_protocol.h - the messages between the supervisor and an environment process.
 *
 * An environment process steps copies of an environment that brood does not know: an
 * external program, or brood's own around a plugin. Frames and messages are those of
 * protocol.h, on the same descriptors AGENT_FD_IN and AGENT_FD_OUT, and so are the exit
 * codes; it has no block and no log. What it writes to stdout or stderr goes to its log.
 *
 * Letters  n copies that a message names, A agents in the environment's order, O and U
 *          their observation and action widths.
 * Arrays   are bin, little-endian, agent by agent, each (n, width) row-major: obs f32 or
 *          u8 (A)(n, O), actions f32 (A)(n, U), reward f64 (A)(n), terminated and present u8
 *          (A)(n), allowed u8 (A)(n, U). copies u32 (n), seed u64 (n).
 * Actions  a discrete space's are a one-hot vector per head, side by side: the largest
 *          entry counts, the first on a tie. Those of a copy's absent agents mean nothing.
 *
 * process -> supervisor
 *   hello (notification, first of all)  protocol u
 *   progress, log                       as an agent's
 *
 * supervisor -> process
 *   configure   copies u, first u (the number that the first of them has among all of the
 *               run, for messages), params {name: value} (env.params, as YAML says; those
 *               of a plugin are texts, as they are written), draw? bool (answers have
 *               pictures)
 *            -> name str, masks bool, max_steps? u (its own limit of an episode's length; it
 *               applies unless env.max_steps is given),
 *               agents [{name str, obs u, uint8? bool (its observations are bytes),
 *                        image? [height, width, channels] (its observation is an image,
 *                        row by row, the channels of a point side by side),
 *                        action {kind "discrete" | "box", heads [u...],
 *                        width u, low? f, high? f}}...]
 *   reset       copies, seed: each begins an episode that is a function of its seed
 *            -> obs, present, allowed? (where there are masks), picture?
 *   step        copies, actions
 *            -> obs, reward, terminated, present, allowed?, picture?
 *   shutdown -> {}, and the process exits with 0
 *
 * present     the agent takes part in the copy's next step. The episode is over when
 *             no agent does; then the copy is not stepped until its next reset.
 * terminated  the agent's task ended with this step; gone without it: a limit cut it off.
 * obs         after the step, also of an agent whose last one it was; of an agent that is
 *             not there, anything finite: it stays as it was last seen.
 * allowed     as obs: not 0 where a choice is possible after the step. A head of which
 *             nothing is allowed is played as if all of it were.
 * picture     {width u, height u, rgb bin (height, width, 3)}: the last of the copies, as the
 *             environment shows it to people. Not a part of what Again promises.
 * Again       the same seed and the same actions give the same answers, whatever other
 *             copies do meanwhile and whichever process is asked: so a new process comes
 *             to stand where a dead one did.
 * An error response with code ERR_AGENT to reset or step means that the environment failed:
 * its process is ended and restarted, as after a crash (env.restart). Any other one ends the
 * run with its message; one to shutdown is only logged.
 */
#ifndef COMMON_MSG_ENV_PROTOCOL_H
#define COMMON_MSG_ENV_PROTOCOL_H

#define ENV_PROTOCOL_VERSION 1u

#endif
