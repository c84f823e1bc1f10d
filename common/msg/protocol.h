/* protocol.h - the messages between supervisor and agent.
 *
 * Frames of msgpack-rpc (frame.h, msg.h). params and results are maps with the string
 * keys below; an optional key is marked ?. Tensors are [dtype, [dims], bin],
 * little-endian and row-major. Letters: E copies, O observation width, U action width, H
 * carry width, X width of a named column, G groups, B batch rows, L consecutive steps.
 *
 * A method is *writing* or *pure*. Only writing requests may change a byte of the
 * variable block. The supervisor keeps those since the newest snapshot, in order, and
 * replays them to a respawned agent.
 *
 * agent -> supervisor, as its first message (`configure` may be on its way already)
 *   hello (notification)  protocol u, pid u, build_id str, fingerprint str (hex),
 *                         numerics u (NUMERICS_VERSION)
 *
 * supervisor -> agent
 *   describe    program? map, as in configure
 *            -> protocol u, algorithms [map...]: what each of the program's algorithms says
 *               about itself (algorithm_msg.h); it depends on nothing else. The build asks
 *               brood-agent (`brood-agent describe`),
 *               files? [str...]: absolute paths of the program's own files,
 *               package? {folder str, files [str...]}: of what they import to speak this
 *               protocol; a run keeps copies of both (supervisor/describe/program_files.h)
 *   prepare     program map, as in configure
 *            -> {}: the program has imported what it needs, and nothing else. From now on it
 *               reads messages from AGENT_FD_SHARED (prepared_msg.h), and forks
 *   configure   role str ("learner" | "central" | "ps"), name str, seed u,
 *               config map (this agent's section, resolved, as values: config_msg.h),
 *               agents [agent...] in the environment's order:
 *                 {name str, team str, obs u, action space,
 *                 uint8? bool (its observations are bytes, in `act` and in the log),
 *                 image? [height, width, channels] (its observation is an image), or
 *                 image_part? {shape, at u, uint8? bool} (a part of it is: obs_msg.h),
 *                 entities? [k, w] (it ends with k entities of w numbers each; an entity's
 *                 last number is 1, or 0: it is not there)}
 *                 space: {kind "discrete" | "box" | "hybrid" (heads, and numbers behind
 *                         them), particle bool, heads [u...], width u, low? f, high? f,
 *                         masked? bool (requests of `act` have allowed, rows of the log
 *                         have allowed and next_allowed)},
 *                 symmetric? bool (its settings ask for the environment's symmetry),
 *                 other? bool (it is in another group of learners, or does not learn)
 *               restored bool (the block already holds this agent's state)
 *               numerics? str ("portable" | "native"; common/numerics/numerics.h)
 *               env? str (env.id), rules? str ("mpe2" | "openai"),
 *               max_steps? u (of an episode; 0: unlimited), window? u (rows of a window:
 *               experience.update_every), copies? u (E, in training),
 *               symmetry? [factor...]: the environment's symmetries (symmetry_msg.h),
 *               draws? str: the name of the group of learners in the keys of symmetry
 *               draws (absent: "experience"),
 *               share? {ps str, members [str...]}: the group that it shares parameters
 *               with: its ps process, and its agents in the environment's order (also
 *               sent for role "ps"),
 *               program? {command [str...], directory str, environment {str: str},
 *               threads? u (of its libraries), starts_threads? bool, files? [str...],
 *               devices? [str...] (what it may do besides, the key `confine`),
 *               inexact? bool (it need not repeat its bits), device? str ("cuda:0", on
 *               which it computes),
 *               kept? str, within? str (the run's copy of its files: the folder, and
 *               where the program starts below its `files`), identity? [str...] (what it
 *               must be, as in its answer to `describe`; it refuses to be another)}: the
 *               agent is this program, which brood-agent executes and which answers this
 *               request (agent/program.h),
 *               metagraph? bin, prefix? str: the policy of a frozen agent, a MetaGraphDef
 *               and the checkpoint with its first values
 *               The experience log describes itself (store/layout.h); the agent maps it
 *               at the first stage that names rows.
 *            -> variables [[name str, dtype u, [dims], offset u, collection str]...]
 *               (in order of creation; a checkpoint's bundle has only those of collection
 *               "variables"),
 *               block_bytes u,
 *               stages [{name str, runner "learners" | "turns" | "central" | "ps",
 *                        reads [str...] ("<stage>/name": that output of all agents,
 *                        "own:<stage>/name": only its own),
 *                        writes bool, repeat_from? u, repeat? u}...],
 *               shared? {elements u, layout u}: length and a checksum of the layout of
 *               the vectors in the group's memory, equal in all processes of the group
 *               (agent/algo/share.h),
 *               carry u (H),
 *               columns [{name str, elements u}...]: f32, which it adds to each row,
 *               reads [str...]: the columns of the log that its stages will read, by
 *               their names in the log, each once,
 *               rows? {kind str ("transitions" | "episodes" | "window"), length u (L)}
 *               (what its stages get: supervisor/rollout/row_source.h; absent:
 *               transitions, 1),
 *               proposes? bool: it answers `propose`, even if it declares no such stage,
 *               portable bool: no operation of its graph calls libm, whose bits differ
 *               between machines; because? str: the first that does, "op Pow (layer/Pow)"
 *   metagraph -> metagraph bin: the graph as TensorFlow's MetaGraphDef, with a Saver for
 *               the variables that bundles hold, and SETTING_CONSTANTS; it depends
 *               only on `configure`
 *   import      instead of configure, for a graph from a file: name str, seed u,
 *               metagraph bin (a MetaGraphDef), prefix? str (a checkpoint, restored by
 *               the graph's own Saver), restored bool
 *            -> variables, block_bytes as above, producer u, tensorflow str (its version;
 *               "": the file does not give it),
 *               nodes [[name str, op str, device str, [input str...],
 *                       [[dtype u, [dim i (-1: unknown)...] or nil]...] of the outputs,
 *                       runs bool (the op is known)]...] in order of creation,
 *               collections [[name str, [item str...]]...],
 *               uninitialized [variable name...],
 *               no_values str (why the checkpoint's values were not restored; "": no
 *               error), main_op str (why the main op of a SavedModel failed; "": it did
 *               not), fetchable u (nodes with outputs), runnable u (those of them that need
 *               only known ops), kept [u...] (for each node of an unknown op, in order: how
 *               many others cannot run without it, each counted once), reasons [str...]
 *               (why each of them cannot run); or block_bytes 0,
 *               refused {code i, message str}
 *   act         mode u (enum act_mode), step u (joint step of copy 0; copy e is step+e),
 *               obs tensor (E,O) f32 or u8, first? bin E, carry? tensor (E,H),
 *               allowed? bin (E,U) u8 (with masks: which entries of a one-hot action may
 *               be chosen; if a head has none, all of its entries may),
 *               seed? u, episode? bin of u64 E, time? bin of u64 E (in an evaluation,
 *               mode sample or greedy: draws are keyed by episode and time, so that they
 *               do not depend on the number of copies)
 *            -> actions tensor (E,U) f32, columns? {name: tensor (E,X)} (not in an
 *               evaluation), carry? (E,H)
 *   <stage>     step u, update u, repeat u, rows tensor (G,B,L) u64 (absolute joint
 *               steps; ROW_NONE where an episode ends early), slot? u (of the group's
 *               memory), group? str (`propose` for a group of learners that the agent is
 *               not in: name of the group's first member; part of the draws' key),
 *               weights? tensor (G,B) f32, inputs {"agent/name": tensor}
 *            -> outputs {name: tensor}, scalars {name: f}, priorities? tensor (G,B) f32
 *               An output of the central process is the input "central/name". The
 *               learners run a stage of runner "turns" one after another, in an order
 *               drawn anew for each update. If it reads "prev:<stage>/name" of itself,
 *               the input "prev:/name" is that output of the previous learner; the first
 *               learner gets ones (G,B,L) f32.
 *               act and stages also: fetches? [tensor name...], origins? bool (only with
 *               fetches)
 *            -> fetched [{name str, run u (number of the graph's run in this request),
 *               value? tensor (absent: too large)}...], from each run that computes the
 *               tensor or is fed it; names that the graph lacks are ignored.
 *               origins [{name, op, inputs [str...], run, shape [i...], count i, places
 *               [i...] (the first in each row, counted in row-major order)}...]: tensors
 *               that are not finite, computed from finite ones, in the first run that has
 *               any.
 *               With fetches, a stage whose result is not finite is answered, with ends
 *               str (the reason), instead of failing. The rest of the answer is the same.
 *   find        fetches [tensor name...]
 *            -> missing [str...]: why the graph has no such tensor; "" if it has one
 *   run         feeds? {tensor name: tensor}, fetches? [tensor name...],
 *               targets? [operation name...], counter? u
 *            -> fetched [tensor...] in the order of the request, or
 *               refused {code i, message str}: unknown names (with the nearest), values
 *               that do not fit, no value yet, a failed kernel. The agent continues.
 *               Feeds are as in session.h: any tensor; dtype and shape must fit. Fetched
 *               values are those after the run's reads and before its writes, unless the
 *               graph requires otherwise.
 *               A run with targets is writing. One without is pure: a fetch that needs an
 *               operation that writes is refused. A writing run that fails half-way keeps
 *               what it wrote, and does so again when it is replayed.
 *               Random operations draw with the key (seed, name, "run", operation name),
 *               at `counter` or, without it, at the request's id.
 *   set         changes {key: value} of the live settings          (writing)
 *               A schedule has the keys "<key>", "<key>.to" and "<key>.over". The
 *               central process has the settings of the first agent whose algorithm needs
 *               it, a ps those of its first member: each also gets that agent's changes.
 *   snapshot -> block bin
 *   restore     block? bin, values? {variable name: tensor}, resized? bool (they are of a run
 *               with other numbers of agents: those that have no place, by name or shape, are
 *               left out, unless the policy depends on them)       (writing)
 *   ping     -> {}                 shutdown -> {} and the agent exits with 0
 *
 * Notifications agent -> supervisor: progress {} (a sign of life in a long request),
 *   log {level u, text str}, span {id u, method str, began u, ended u} (sent after each
 *   answer while tracing is on: when the request had been read and when the answer was
 *   ready, in ns of CLOCK_MONOTONIC).
 * Notification supervisor -> agent, never replayed: trace {on bool}.
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
    /* Of a program: its first requests, which brood-agent has read; a memfd at offset 0. */
    AGENT_FD_REQUEST = 8,
};

/* Exit codes of an agent, as in s6: whether starting it again can help. */
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

/* A stage that agents answer even if they do not declare it (`proposes`): the actions
 * that they would choose at the rows' next observations, as output "action" (G,B,U). */
#define STAGE_PROPOSE "propose"

/* In a stage of runner "turns": takes the place of the agent's name in the name of an
 * input from the previous learner. */
#define INPUT_PREVIOUS "prev:"

/* Collection of an agent's MetaGraphDef: the constants that hold live settings. Each item
 * is a string, "NODE VARIABLE INSTEAD": a float32 Const node, the local variable with the
 * setting's value, and (in printf's %a) the number that the constant holds if that value
 * is 0. A setting that can be a schedule has two more words, " TO OVER": the variables
 * with the schedule's other two numbers (common/config/schedule.h); the constant then holds
 * the schedule's value at the step of the checkpoint. */
#define SETTING_CONSTANTS "hyperparameters/constants"

/* Purposes of keyed draws (rng.h), with the counter of each. */
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
