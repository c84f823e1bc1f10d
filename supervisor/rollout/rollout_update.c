/* The driver's UPDATE state: requests of stages, and what comes back.
 *
 * The machine (rollout_fsm.h) stands at the first stage that somebody has yet to finish. A
 * runner does not wait for that: it is sent its next stage as soon as the outputs that this
 * one reads are there. So the two cores of a small machine have six halves of three
 * learners' work to do, which they do in three turns, instead of three wholes in two.
 * Nobody goes past the end of a run of stages that is repeated: outputs of one repetition
 * are kept until everybody has read them.
 *
 * No more runners compute at a time than there are cores; the furthest behind goes first,
 * then the first in the table. And where there are more runners than cores, each is told
 * on which it begins. For Linux, left alone, lets one wait behind another for as long as a
 * whole stage takes, while the next core has nothing to do: whoever is woken when no core
 * is idle (the supervisor that wakes it is on one) goes back to where it ran before, and
 * a core that gets idle for a fraction of a millisecond does not look at the others.
 * None of this changes a byte: a stage is a function of its request.
 */
#include "supervisor/rollout/rollout_internal.h"

#include "common/mem/xmalloc.h"

#include <math.h>
#include <sched.h>

/* Config and algorithm say which agent's non-finite numbers are an end. */
static int nonfinite_ends(const struct rollout *r, size_t runner)
{
    return runner == r->n_agents || r->config->agents[runner].stop_on_nonfinite;
}

static int number_of(const msgpack_object *o, double *ret)
{
    switch (o->type) {
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        *ret = o->via.f64;
        return 1;
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        *ret = (double)o->via.u64;
        return 1;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        *ret = (double)o->via.i64;
        return 1;
    default:
        return 0;
    }
}

static int take_scalar(struct rollout *r, size_t runner, const msgpack_object_kv *kv,
                       struct err *err)
{
    const msgpack_object_str *name = &kv->key.via.str;
    double value;

    if (kv->key.type != MSGPACK_OBJECT_STR || name->size >= STAGE_OUTPUT_MAX)
        return err_set(err, ERR_PROTOCOL, "scalars: a name is no short string");
    if (!number_of(&kv->val, &value))
        return err_set(err, ERR_PROTOCOL, "scalars: '%.*s' is no number", (int)name->size,
                       name->ptr);
    if (!isfinite(value) && nonfinite_ends(r, runner))
        return err_set(err, ERR_NONFINITE, "%.*s is %g", (int)name->size, name->ptr,
                       value);
    metrics_add_scalar(r->args.metrics, runner, name->ptr, name->size, value);
    return 0;
}

static int take_scalars(struct rollout *r, size_t runner, const msgpack_object *body,
                        struct err *err)
{
    const msgpack_object *scalars = NULL;
    int rc = msg_get_map(body, "scalars", &scalars, err);

    if (rc < 0 || scalars == NULL)
        return rc;
    for (uint32_t i = 0; i < scalars->via.map.size; i++)
        if ((rc = take_scalar(r, runner, &scalars->via.map.ptr[i], err)) < 0)
            return rc;
    return 0;
}

static int take_stage_answer(struct rollout *r, size_t runner, const msgpack_object *body,
                             struct err *err)
{
    const msgpack_object *outputs = NULL;
    int rc;

    if (body->type != MSGPACK_OBJECT_MAP)
        return err_set(err, ERR_PROTOCOL, "not a map");
    if ((rc = msg_get_map(body, "outputs", &outputs, err)) < 0 ||
        (rc = take_scalars(r, runner, body, err)) < 0)
        return rc;
    return exchange_put(r->exchange, r->runners[runner].stage, runner, outputs,
                        nonfinite_ends(r, runner), err);
}

/* ---- who may play what ---- */

static size_t n_runners(const struct rollout *r)
{
    return r->n_agents + 1;
}

static int is_player(const struct rollout *r, int stage, size_t runner)
{
    if (r->stages->stage[stage].central)
        return runner == r->n_agents;
    return runner < r->n_agents && r->plays[(size_t)stage * r->n_agents + runner];
}

static int has_finished(const struct rollout *r, int stage, size_t runner)
{
    return !is_player(r, stage, runner) || r->runners[runner].stage > stage;
}

static int all_finished(const struct rollout *r, int stage)
{
    for (size_t i = 0; i < n_runners(r); i++)
        if (!has_finished(r, stage, i))
            return 0;
    return 1;
}

/* The runner's own outputs are there: it plays one stage after the other. */
static int inputs_are_there(const struct rollout *r, int stage)
{
    const struct stage_decl *s = &r->stages->stage[stage];

    for (int i = 0; i < s->n_reads; i++) {
        const struct stage_read *read = &s->reads[i];

        if (read->stage >= r->fsm.stage && !read->own && !all_finished(r, read->stage))
            return 0;
    }
    return 1;
}

/* The last stage before a repetition may begin. */
static int end_of_pass(const struct rollout *r)
{
    int i = r->fsm.stage;

    while (i + 1 < r->stages->n && r->stages->stage[i].repeat <= 1)
        i++;
    return i;
}

/* The first stage that the runner has not finished and plays; past the end: none. */
static int next_stage(const struct rollout *r, size_t runner, int end)
{
    int i = r->runners[runner].stage;

    while (i <= end && !is_player(r, i, runner))
        i++;
    return i;
}

/* ---- requests ---- */

static int send_ready(struct rollout *r, struct err *err);

static void on_stage_response(void *ctx, size_t agent, const struct msg *response)
{
    struct rollout *r = ctx;
    struct runner *x = &r->runners[agent];
    struct err err = {0};

    r->outstanding--;
    x->is_at_work = 0;
    if (r->over)
        return;
    if (agent_response_is_absent(response)) {
        exchange_put_nothing(r->exchange, x->stage, agent);
    } else if (take_stage_answer(r, agent, &response->body, &err) < 0) {
        const char *name = agent < r->n_agents ? r->names[agent] : "central";

        (void)err_wrap(&err, "%s: answer to stage '%s'", name,
                       r->stages->stage[x->stage].name);
        (void)err_note(&err, ERR_AT(.agent = name));
        rollout_fail(r, &err);
        return;
    }
    x->stage++;
    if (all_finished(r, r->fsm.stage))
        rollout_resume(r);
    else if (send_ready(r, &err) < 0)
        rollout_fail(r, &err);
}

static int is_taken(const struct rollout *r, size_t core)
{
    for (size_t i = 0; i < n_runners(r); i++)
        if (r->runners[i].is_at_work && r->runners[i].core == core)
            return 1;
    return 0;
}

/* One that nobody is at work on: the one it knows, if it can. */
static size_t choose_core(const struct rollout *r, size_t runner)
{
    size_t core = r->runners[runner].core;

    for (size_t i = 0; i < r->n_cores && is_taken(r, core); i++)
        core = i;
    return core;
}

static int send_stage(struct rollout *r, size_t runner, int stage, struct err *err)
{
    const size_t core = choose_core(r, runner);
    const struct stage_decl *s = &r->stages->stage[stage];
    struct shape shape = SHAPE((int64_t)r->groups, (int64_t)r->batch, 1);
    struct tensor rows = tensor_view(DT_UINT64, shape, r->rows);
    struct msg_out *o = agent_request_begin(r->args.agents, runner, s->name, s->writes);
    int rc;

    msg_map(o, 5);
    msg_key(o, "step");
    msg_u64(o, r->env_steps);
    msg_key(o, "update");
    msg_u64(o, r->updates);
    msg_key(o, "repeat");
    msg_u64(o, r->fsm.repeat);
    msg_key(o, "rows");
    msg_tensor(o, &rows);
    msg_key(o, "inputs");
    if (agent_table_count(r->args.agents) > r->n_cores)
        agent_request_on(r->args.agents, runner, r->cores[core]);
    rc = exchange_pack(r->exchange, stage, runner, o, err);
    if (rc == 0)
        rc = agent_request_send(r->args.agents, runner, on_stage_response, r, err);
    if (rc == 0) {
        r->runners[runner] =
            (struct runner){.stage = stage, .is_at_work = 1, .core = core};
        r->outstanding++;
    }
    return rc;
}

/* Whom the next free core is for; n_runners: nobody. */
static size_t find_ready(const struct rollout *r, int *ret_stage)
{
    const int end = end_of_pass(r);

    for (int stage = r->fsm.stage; stage <= end; stage++) {
        if (!inputs_are_there(r, stage))
            continue;
        *ret_stage = stage;
        for (size_t i = 0; i < n_runners(r); i++)
            if (!r->runners[i].is_at_work && next_stage(r, i, end) == stage)
                return i;
    }
    return n_runners(r);
}

static int send_ready(struct rollout *r, struct err *err)
{
    size_t runner;
    int stage = 0, rc = 0;

    while (rc == 0 && r->outstanding < r->n_cores &&
           (runner = find_ready(r, &stage)) < n_runners(r))
        rc = send_stage(r, runner, stage, err);
    return rc;
}

/* All begin at the machine's stage. */
static void begin_pass(struct rollout *r)
{
    for (size_t i = 0; i < n_runners(r); i++)
        r->runners[i].stage = r->fsm.stage;
}

void rollout_find_cores(struct rollout *r)
{
    size_t n = 0;
    cpu_set_t all;
    int known[CPU_SETSIZE];

    if (sched_getaffinity(0, sizeof(all), &all) == 0)
        for (int i = 0; i < CPU_SETSIZE; i++)
            if (CPU_ISSET(i, &all))
                known[n++] = i;
    r->n_cores = r->args.cores > 0 ? r->args.cores : uv_available_parallelism();
    r->cores = xcalloc(r->n_cores, sizeof(*r->cores));
    for (size_t i = 0; i < r->n_cores; i++)
        r->cores[i] = n > 0 ? known[i % n] : -1;
}

static void begin_update(struct rollout *r)
{
    rollout_keep(r);
    r->update_began_ns = rollout_now_ns(r);
    for (size_t g = 0; g < r->groups; g++)
        store_draw(r->args.store, r->rows_key[g], r->updates, r->rows + g * r->batch,
                   r->batch);
}

int rollout_enter_update(struct rollout *r, struct err *err)
{
    int rc;

    if (r->fsm.stage == 0 && r->fsm.repeat == 0)
        begin_update(r);
    if (r->fsm.stage == 0 || r->fsm.stage <= r->stage_before)
        begin_pass(r);
    r->stage_before = r->fsm.stage;
    rc = send_ready(r, err);
    if (rc < 0)
        return rc;
    return all_finished(r, r->fsm.stage) ? DONE_AT_ONCE : WAITS;
}
