/* The two kinds of worker: agents, and environment processes (and other external programs
 * that speak their protocol). */
#include "supervisor/proc/agent.h"

#include <inttypes.h>
#include <string.h>

/* ---- agents ---- */

static int check_identity(struct agent *a, struct err *err)
{
    struct agent_identity *first = &a->host->identity, own = {.known = 1};
    const msgpack_object *m = &a->in.body;
    uint64_t version = 0;
    int rc;

    if ((rc = msg_get_u64(m, "numerics", UINT64_MAX, &version, err)) < 0)
        return rc;
    if (version != NUMERICS_VERSION)
        return err_set(err, ERR_AGENT,
                       "it is of numerics version %" PRIu64 ", the supervisor of %d",
                       version, NUMERICS_VERSION);
    if ((rc = msg_require(m, "build_id", err)) < 0 ||
        (rc = msg_require(m, "fingerprint", err)) < 0 ||
        (rc = msg_get_str(m, "build_id", own.build_id, sizeof(own.build_id), err)) < 0 ||
        (rc = msg_get_str(m, "fingerprint", own.fingerprint, sizeof(own.fingerprint),
                          err)) < 0)
        return rc;
    if (!first->known)
        *first = own;
    if (a->host->numerics == NUMERICS_PORTABLE)
        return 0;
    if (strcmp(own.build_id, first->build_id) != 0)
        return err_set(err, ERR_AGENT,
                       "it is build %s, but the first process of the run was build %s",
                       own.build_id, first->build_id);
    if (strcmp(own.fingerprint, first->fingerprint) != 0)
        return err_set(err, ERR_AGENT,
                       "its numeric fingerprint is %s, but that of the first process of "
                       "the run was %s",
                       own.fingerprint, first->fingerprint);
    return 0;
}

static int check_agent_hello(struct agent *a, struct err *err)
{
    uint64_t pid = 0;
    const int rc = msg_get_u64(&a->in.body, "pid", UINT64_MAX, &pid, err);

    if (rc < 0)
        return rc;
    if (pid != (uint64_t)a->link->pid)
        return err_set(err, ERR_PROTOCOL, "it reports pid %" PRIu64, pid);
    return check_identity(a, err);
}

/* Reads the length of the block; a process that only describes itself has none. A preloaded
 * block already has its length and snapshot. */
static int take_block(struct agent *a, struct err *err)
{
    const msgpack_object *m = &a->in.body;
    struct replay_block block = agent_block(a);
    uint64_t bytes = 0;
    int rc;

    if (a->spec.method != NULL && strcmp(a->spec.method, "describe") == 0)
        return 0;
    if ((rc = msg_require(m, "block_bytes", err)) < 0 ||
        (rc = msg_get_u64(m, "block_bytes", BLOCK_CAPACITY_BYTES, &bytes, err)) < 0)
        return rc;
    if (!a->replay.has_snapshot) {
        block.len_bytes = (size_t)bytes;
        rc = a->link->ops->hold(a->link, bytes, err);
        return rc < 0 ? rc : replay_snapshot(&a->replay, &block, err);
    }
    if (bytes != a->replay.snapshot_bytes)
        return err_set(err, ERR_AGENT,
                       "its variables take %" PRIu64 " bytes, those to restore %zu",
                       bytes, a->replay.snapshot_bytes);
    return 0;
}

/* Packs the next writing request since the snapshot; 0: all are replayed. */
static int next_write(struct agent *a, struct agent_replayed *ret)
{
    if (a->is_block_whole || a->n_replayed == a->replay.n_requests)
        return 0;
    ret->id = replay_request_at(&a->replay, a->n_replayed)->id;
    ret->frame = replay_frame_at(&a->replay, a->n_replayed, &ret->frame_len);
    return 1;
}

static int compare_answers(struct agent *a, struct err *err)
{
    const struct replay_request *q = replay_request_at(&a->replay, a->n_replayed);
    char name[96];

    if (a->limits.may_differ ||
        replay_digest_equal(replay_digest(a->in_data, a->in_len), q->response))
        return 0;
    agent_name_awaited(a, name, sizeof(name));
    return err_set(err, ERR_AGENT,
                   "not reproducible: asked again after a restart, it answered %s "
                   "differently",
                   name);
}

const struct worker_kind worker_is_agent = {.noun = "agent",
                                            .has_block = 1,
                                            .check_hello = check_agent_hello,
                                            .take_description = take_block,
                                            .next_replay = next_write,
                                            .check_replay = compare_answers};

/* ---- environment processes ---- */

/* Accepts any pid: the program's interpreter may be a child of the process. */
static int check_environment_hello(struct agent *a, struct err *err)
{
    uint64_t pid = 0;

    return msg_get_u64(&a->in.body, "pid", UINT64_MAX, &pid, err);
}

static int take_no_description(struct agent *a, struct err *err)
{
    return 0;
}

/* Packs the next request of agent_revival; 0: all are replayed. */
static int next_revival(struct agent *a, struct agent_replayed *ret)
{
    const struct agent_revival *r = a->spec.revival;

    if (r == NULL ||
        !r->pack(a->host->ctx, a->index, a->n_replayed, a->next_id, &a->control))
        return 0;
    ret->id = agent_take_id(a);
    msg_end(&a->control, &ret->frame, &ret->frame_len);
    return 1;
}

static int check_revival(struct agent *a, struct err *err)
{
    return a->spec.revival->check(a->host->ctx, a->index, a->n_replayed, &a->in, err);
}

const struct worker_kind worker_is_environment = {.noun = "process",
                                                  .section = "env",
                                                  .check_hello = check_environment_hello,
                                                  .take_description = take_no_description,
                                                  .next_replay = next_revival,
                                                  .check_replay = check_revival};
