/* protocol.h - the messages between supervisor and agent.
 *
 * Frames of msgpack-rpc (frame.h, msg.h). params and results are maps with the string
 * keys below; an optional key is marked ?. Tensors are [dtype, [dims], bin],
 * little-endian and row-major. Letters: E copies, O observation width, U action width, H
 * carry width, X width of a named column, G groups, B batch rows, L consecutive steps.
 *
 * A method is *writing* or *pure*. Only writing ones may change a byte of the variable
 * block; the supervisor keeps them, in order, since the newest snapshot, and plays them
 * again to a respawned agent.
 *
 * agent -> supervisor, first of all (configure may be on its way already)
 *   hello (notification)  protocol u, pid u, build_id str, fingerprint str (hex),
 *                         numerics u (NUMERICS_VERSION)
 *
 * supervisor -> agent
 *   configure   role str ("learner" | "central" | "ps"), name str, seed u,
 *               config map (this agent's section, resolved, as values: config_msg.h),
 *               agents [agent...] in the environment's order:
 *                 {name str, team str, obs u, action space,
 *                 uint8? bool (its observations are bytes, in `act` and in the log),
 *                 image? [height, width, channels] (its observation is an image)}
 *                 space: {kind "discrete" | "box", particle bool, heads [u...],
 *                         width u, low? f, high? f,
 *                         masked? bool (its `act` has allowed, its rows of the log have
 *                         allowed and next_allowed)},
 *                 symmetric? bool (its settings ask for the environment's symmetry),
 *                 other? bool (it is in another group of learners, or does not learn)
 *               restored bool (the block already holds this agent's state)
 *               numerics? str ("portable" | "native"; common/numerics/numerics.h)
 *               env? str (env.id), rules? str ("mpe2" | "openai"),
 *               max_steps? u (of an episode; 0: unlimited), window? u (rows of a window:
 *               experience.update_every),
 *               draws? str: the group's name in the keys of symmetries ("experience"),
 *               share? {ps str, members [str...]}: shares parameters; its ps process,
 *               and the group's agents in the environment's order (for role "ps", too),
 *               metagraph? bin, prefix? str: the policy of a frozen agent, a MetaGraphDef
 *               and the checkpoint with its first values
 *               The experience log describes itself (store/layout.h); the agent maps it
 *               at the first stage that names rows.
 *            -> variables [[name str, dtype u, [dims], offset u, collection str]...]
 *               (creation order; collection "variables": saved; others are not),
 *               block_bytes u,
 *               stages [{name str, runner "learners" | "turns" | "central" | "ps", reads [str...],
 *                        writes bool, repeat_from? u, repeat? u}...],
 *               shared? {elements u, layout u}: of the vectors in the group's memory, the
 *               same in all its processes (agent/algo/share.h),
 *               carry u (H), columns [{name str, elements u}...] (f32, it adds to a row),
 *               reads [str...]: the log's columns that its stages will read, by their names
 *               there, each once,
 *               rows? {kind str ("transitions" | "episodes" | "window"), length u (L)}
 *               (what its stages get: supervisor/rollout/row_source.h; missing:
 *               transitions, 1),
 *               proposes? bool: it answers `propose` though it may declare no such stage,
 *               portable bool, because? str: its graph has no operation whose last bits
 *               are those of this kind of machine, or which one: "op Pow (layer/Pow)"
 *   metagraph -> metagraph bin: the graph as TensorFlow's MetaGraphDef, with a Saver for
 *               what checkpoints hold, and SETTING_CONSTANTS; a function of configure alone
 *   import      in place of configure, for a graph from a file: name str, seed u,
 *               metagraph bin (a MetaGraphDef), prefix? str (a checkpoint, restored by
 *               the graph's own Saver), restored bool
 *            -> variables, block_bytes as above, producer u, tensorflow str ("": unsaid),
 *               nodes [[name str, op str, device str, [input str...],
 *                       [[dtype u, [dim i (-1: unknown)...] or nil]...] of the outputs,
 *                       runs bool (the op is known)]...] in order of creation,
 *               collections [[name str, [item str...]]...],
 *               uninitialized [variable name...],
 *               no_values str (why the checkpoint's are not there; "": they are); or
 *               block_bytes 0, refused {code i, message str}
 *   act         mode u (enum act_mode), step u (joint step of copy 0; copy e is step+e),
 *               obs tensor (E,O) f32 or u8, first? bin E, carry? tensor (E,H),
 *               allowed? bin (E,U) u8 (where there are masks: which entries of a one-hot
 *               action may be chosen; a head that has none may choose any),
 *               seed? u, episode? bin of u64 E, time? bin of u64 E (mode sample and
 *               greedy of an evaluation: keyed by episode and time, whatever the copies)
 *            -> actions tensor (E,U) f32, columns? {name: tensor (E,X)} (not in an
 *               evaluation), carry? (E,H)
 *   <stage>     step u, update u, repeat u, rows tensor (G,B,L) u64 (absolute joint
 *               steps; ROW_NONE where an episode ends early), slot? u (of the group's
 *               memory), group? str (the stage is `propose`, of a group of learners that
 *               the agent is not in: its first member; part of the draws' key),
 *               weights? tensor (G,B) f32, inputs {"agent/name": tensor}
 *            -> outputs {name: tensor}, scalars {name: f}, priorities? tensor (G,B) f32
 *               An input of the central process's is named "central/name". In a stage of
 *               runner "turns", which the learners play one after another in an order drawn
 *               anew for each update, reads "prev:<stage>/name" of that stage itself are the
 *               output of the learner before, named "prev:/name"; the first one's are ones
 *               (G,B,L) f32.
 *               act and stages also: fetches? [tensor name...], origins? bool
 *            -> fetched [{name str, run u (of the graph, counted in this request), value
 *               tensor (none: too large)}...], of each run that computes or feeds them;
 *               names that the graph lacks are ignored. origins [{name, op, inputs
 *               [str...], run, shape [i...], count i, places [i...] (in row-major
 *               order: the first of each row)}...]: tensors that are not finite, computed
 *               from finite ones, in the first run that has any. With fetches a stage whose
 *               result is not finite is answered, with ends str, where it otherwise fails.
 *               The rest of the answer is the same.
 *   find        fetches [tensor name...]
 *            -> missing [str...]: why the graph has no such tensor, "" if it has
 *   run         feeds? {tensor name: tensor}, fetches? [tensor name...],
 *               targets? [operation name...], counter? u
 *            -> fetched [tensor...] as they were asked for, or
 *               refused {code i, message str}: unknown names (with the nearest), values
 *               that do not fit, no value yet, a failed kernel. The agent lives on.
 *               Feeds are as in session.h: any tensor, dtype and shape must fit. Fetches
 *               are the values after the run's reads and before its writes, unless the
 *               graph says otherwise.
 *               Writing if it has targets, otherwise pure: then a fetch that needs an
 *               operation that writes is refused. A writing run that fails half-way
 *               keeps what it wrote, and does so again when it is replayed.
 *               Draws of random operations have the key (seed, name, "run", operation
 *               name) and `counter`, or else the request's id.
 *   set         changes {key: value} of the live settings          (writing)
 *               a schedule's are its key, "<key>.to" and "<key>.over"
 *               The central process has the settings of the first agent whose algorithm
 *               needs it, a ps those of its first member: both get their changes
 *   snapshot -> block bin
 *   restore     block? bin, values? {variable name: tensor}        (writing)
 *   ping     -> {}                 shutdown -> {} and the agent exits with 0
 *
 * Notifications agent -> supervisor: progress {} (alive inside a long request),
 *   log {level u, text str}, span {id u, method str, began u, ended u} (when it had
 *   read the request and made the answer, in ns of CLOCK_MONOTONIC; after each answer,
 *   while traced).
 * Notification supervisor -> agent, outside of any replay: trace {on bool}.
 */
#ifndef COMMON_MSG_PROTOCOL_H
#define COMMON_MSG_PROTOCOL_H

#include "common/config/limits.h" /* AGENT_MAX_COUNT, AGENT_NAME_MAX */

#define PROTOCOL_VERSION 1u

/* Descriptors an agent inherits; 0 is /dev/null, 1 and 2 are its captured stderr. */
enum agent_fd {
    AGENT_FD_IN = 3,     /* requests: read end of a pipe */
    AGENT_FD_OUT = 4,    /* responses: write end of a pipe */
    AGENT_FD_BLOCK = 5,  /* variable block: sealed memfd, mapped shared */
    AGENT_FD_LOG = 6,    /* experience log, read-only; may be absent */
    AGENT_FD_SHARED = 7, /* memory of a group that shares parameters (store/share_ring.h):
                          * sealed memfd, mapped shared; may be absent */
    AGENT_FD_COUNT = 8,
};

/* Exit codes of an agent, after s6: whether starting it again can help. */
enum agent_exit {
    AGENT_EXIT_DONE = 0,
    AGENT_EXIT_NO_RESPAWN = 100, /* configuration, protocol version, fingerprint */
    AGENT_EXIT_TRY_LATER = 111,  /* no memory, no descriptor */
};

enum act_mode { ACT_EXPLORE = 0, ACT_SAMPLE = 1, ACT_GREEDY = 2 };

/* The block's memfd is sealed at this size and sparse; an agent that needs more is
 * refused. Only pages that are written take memory. */
#define BLOCK_CAPACITY_BYTES ((uint64_t)16 << 30)

#define STAGE_NAME_MAX 32

/* The stage that all agents can be asked for: what they would do at the rows' next
 * observations, output "action" (G,B,U). */
#define STAGE_PROPOSE "propose"

/* In place of an agent's name: the input from the learner before, in a stage of turns. */
#define INPUT_PREVIOUS "prev:"

/* Collection of an agent's MetaGraphDef: its constants that stand for settings which change
 * while the run goes on. A string each, "NODE VARIABLE INSTEAD": a float32 Const node, the
 * local variable that has the value, and (printf's %a) what the constant holds where that
 * is 0. A setting that may be a schedule has two words more, " TO OVER": the variables with
 * its other two numbers (common/config/ramp.h); the constant holds its value at the step of
 * the checkpoint. */
#define SETTING_CONSTANTS "hyperparameters/constants"

/* Purposes of keyed draws (rng.h). A stage draws under "stage <name>". */
#define PURPOSE_INIT         "init"        /* counter 0 */
#define PURPOSE_ACT          "act"         /* joint step */
#define PURPOSE_EVALUATE     "evaluate"    /* episode; index: time * width + column */
#define PURPOSE_ROWS         "rows"        /* update */
#define PURPOSE_SYMMETRY     "symmetry"    /* update, or minibatch */
#define PURPOSE_STAGE_PREFIX "stage "      /* update * repeats + repeat */
#define PURPOSE_RESET        "reset"       /* episode of that copy */
#define PURPOSE_PERMUTATION  "permutation" /* update; of rows: update * epochs + epoch */
#define PURPOSE_RUN          "run"         /* request number */

#endif
