/* env_protocol.h - the messages between the supervisor and an environment process.
 *
 * An environment process steps copies of an external environment. It is a program that
 * the configuration names, or brood's own, which loads a plugin. Frames, descriptors
 * (AGENT_FD_IN and AGENT_FD_OUT) and exit codes are those of protocol.h. There is no
 * block and no experience log. What the process writes to stdout or stderr goes to its
 * text log.
 *
 * Letters  n copies that a message names, A agents in the environment's order, O and U
 *          their observation and action widths.
 * Arrays   are bin, little-endian, agent by agent, each (n, width) row-major: obs f32 or
 *          u8 (A)(n, O), actions f32 (A)(n, U), reward f64 (A)(n), terminated and present u8
 *          (A)(n), allowed u8 (A)(n, U). copies u32 (n), seed u64 (n).
 * Actions  of a discrete space: a one-hot vector per head, side by side. The largest
 *          entry is the choice, on a tie the first. Of a box: numbers within its bounds. Of a
 *          hybrid space, which has heads that are less wide than U: a one-hot vector per head,
 *          and behind them numbers within the bounds. Actions of absent agents have no
 *          meaning.
 *
 * process -> supervisor
 *   hello (notification, the first message)  protocol u
 *   progress, log                       as an agent's
 *
 * supervisor -> process
 *   configure   copies u, first u (number of the first of them among all copies of the
 *               run, for messages), params {name: value} (env.params with the types of
 *               YAML's core schema; for a plugin, texts as written in the file),
 *               draw? bool (answers shall have pictures), metrics? [name...] (of
 *               env.metrics: numbers that the answers to step shall have)
 *            -> name str, masks bool, max_steps? u (limit of an episode's length; applies
 *               unless env.max_steps is given),
 *               agents [{name str, obs u, uint8? bool (its observations are bytes),
 *                        image? [height, width, channels] (its observation is an image:
 *                        rows of points, each point with all of its channels), or
 *                        image_part? {shape, at u, uint8? bool} (a part of it is one:
 *                        obs_msg.h), entities? [k, w] (it ends with them; env.observe),
 *                        action {kind "discrete" | "box" | "hybrid", heads [u...],
 *                        width u, low? f, high? f}}...]
 *   reset       copies, seed: each copy begins the episode that its seed determines
 *            -> obs, present, allowed? (where there are masks), picture?, warnings?
 *   step        copies, actions
 *            -> obs, reward, terminated, present, allowed?, picture?, metrics?, warnings?
 *   shutdown -> {}, and the process exits with 0
 *
 * present     the agent takes part in the copy's next step. The episode is over when
 *             no agent does; then the copy is not stepped until its next reset.
 * terminated  the agent's task ended with this step. An agent that is absent after a step
 *             without being terminated was truncated by a limit.
 * obs         after the step, also of an agent for which the step was the last. For an
 *             agent absent before and after the step, any finite values: the supervisor
 *             ignores them and keeps the agent's last observation.
 * allowed     as obs: not 0 where a choice is possible after the step. If a head allows
 *             no choice, all of its choices are allowed. Entries for numbers are ignored.
 * metrics     f64 (M)(n), M the names that `configure` gave: the copy's value in this step, for
 *             people; NaN where it has none. Left out: none has any, as of a program that
 *             knows no metrics.
 * picture     {width u, height u, rgb bin (height, width, 3)}: the last of the copies,
 *             drawn for people. It need not be reproducible.
 * warnings    [{what str, where str}...]: what the environment does that is allowed, but hardly
 *             meant (its agent and its kind), and an instance of it (copy, step, value), each of
 *             up to ENV_WARNING_BYTES. People are told the first of each `what`, and of up to 32
 *             of them. Those of answers to repeated requests are not shown.
 * Again       the same seed and the same actions must give the same answers, whatever
 *             other copies do and whichever process answers, so that a new process can
 *             replace a dead one.
 * Errors      an error response with code ERR_AGENT to reset or step means that the
 *             environment failed: its process is ended and restarted, as after a crash
 *             (env.restart); the request may come again for some of its copies alone
 *             (env.on_failure). Any other error response ends the run with its message; an
 *             error response to shutdown is only logged.
 */
#ifndef COMMON_MSG_ENV_PROTOCOL_H
#define COMMON_MSG_ENV_PROTOCOL_H

#define ENV_PROTOCOL_VERSION 1u
/* Of a text of a warning, with its NUL; the rest of a longer one is cut. */
#define ENV_WARNING_BYTES    160

#endif
