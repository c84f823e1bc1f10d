/* The driver's UPDATE state: sends the requests of stages and handles the answers.
 *
 * The state machine (rollout_fsm.h) is at the first stage that some runner has not
 * finished. Other runners do not wait for that one: each is sent its next stage as soon
 * as the outputs that the stage reads exist. With three learners, two stages and two
 * cores, the six pieces of work then take three time slots instead of four. No runner
 * goes past the end of a range of repeated stages, because the outputs of one repetition
 * are kept until every reader has them. The stages of the groups of learners follow each
 * other (update_plan.h); those of a group that does not take part are skipped.
 *
 * At most n_cores runners compute at a time; those furthest behind go first, then those
 * first in the table. If there are more runners than cores, each request names the core
 * on which the agent begins. Without that, Linux lets one agent wait behind another for a
 * whole stage while another core is idle: a process woken while no core is idle (the
 * supervisor that wakes it occupies one) returns to its previous core, and a core that is
 * idle for a fraction of a millisecond does not steal work from the others. An agent woken
 * on the supervisor's core may preempt it, so its request is sent last. The order
 * does not affect results: the outcome of a stage depends only on its request.
 */
#include "supervisor/rollout/rollout_internal.h"

#include "common/mem/xmalloc.h"
#include "common/store/share_ring.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

/* Whether a non-finite number from this runner ends the run (the configuration and the
 * algorithm decide). */
static int nonfinite_ends(const struct rollout *r, size_t runner)
{
    if (runner > r->n_agents)
        runner = r->sharing.groups[runner - r->n_agents - 1].first;
    return runner == r->n_agents || r->config->agents[runner].stop_on_nonfinite;
}

/* A runner's place in the table of agents, which may have no central process, and back. */
static size_t place_of(const struct rollout *r, size_t runner)
{
    return runner <= r->n_agents ? runner : r->first_ps + runner - r->n_agents - 1;
}

static const char *runner_name(const struct rollout *r, size_t runner)
{
    if (runner > r->n_agents)
        return r->sharing.groups[runner - r->n_agents - 1].ps;
    return runner < r->n_agents ? r->names[runner] : "central";
}

/* Whether a replay probes this update. */
static int is_probed(const struct rollout *r)
{
    const struct probe *p = r->args.probe;

    return probe_is_round(p, r->env_steps - r->copies, r->copies) &&
           (p->update == PROBE_ALL_UPDATES || p->update == r->updates);
}

static struct probe_place probe_place_of(const struct rollout *r, size_t runner)
{
    const int stage = r->runners[runner].stage;
    const struct learners *l = &r->learners[r->plan.stage[stage].group];

    return (struct probe_place){.agent = runner_name(r, runner),
                                .stage = r->plan.stage[stage].name,
                                .step = r->env_steps,
                                .update = l->updates,
                                .pass = r->fsm.repeat,
                                .rows = l->source.rows,
                                .groups = l->source.groups,
                                .batch = l->source.batch,
                                .length = l->source.length};
}

/* Handles a value that is not finite and ends the run; if a replay probes the update,
 * only reports the value. Returns err's code, or 0. */
static int end_by_nonfinite(const struct rollout *r, size_t runner, const struct err *why,
                            struct err *err)
{
    const struct probe_place at = probe_place_of(r, runner);

    if (!is_probed(r))
        return err_pass(err, why);
    r->args.probe->on_ends(r->args.probe->ctx, &at, why->msg);
    return 0;
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

/* bad: set for the first value that is not finite, if such a value ends the run. */
static int take_scalar(struct rollout *r, size_t runner, const msgpack_object_kv *kv,
                       struct err *bad, struct err *err)
{
    const msgpack_object_str *name = &kv->key.via.str;
    double value;

    if (kv->key.type != MSGPACK_OBJECT_STR || name->size >= STAGE_OUTPUT_MAX)
        return err_set(err, ERR_PROTOCOL, "scalars: a name is not a short string");
    if (!number_of(&kv->val, &value))
        return err_set(err, ERR_PROTOCOL, "scalars: '%.*s' is not a number",
                       (int)name->size, name->ptr);
    if (!isfinite(value) && bad->code == 0 && nonfinite_ends(r, runner))
        (void)err_set(bad, ERR_NONFINITE, "%.*s is %g", (int)name->size, name->ptr,
                      value);
    if (is_probed(r)) {
        const struct probe_place at = probe_place_of(r, runner);
        char text[STAGE_OUTPUT_MAX + 1];

        (void)snprintf(text, sizeof(text), "%.*s", (int)name->size, name->ptr);
        r->args.probe->on_scalar(r->args.probe->ctx, &at, text, value);
    }
    metrics_add_scalar(r->args.metrics, place_of(r, runner), name->ptr, name->size,
                       value);
    return 0;
}

static int take_scalars(struct rollout *r, size_t runner, const msgpack_object *body,
                        struct err *err)
{
    const msgpack_object *scalars = NULL;
    struct err bad = {0};
    int rc = msg_get_map(body, "scalars", &scalars, err);

    if (rc < 0 || scalars == NULL)
        return rc;
    for (uint32_t i = 0; i < scalars->via.map.size; i++)
        if ((rc = take_scalar(r, runner, &scalars->via.map.ptr[i], &bad, err)) < 0)
            return rc;
    return bad.code != 0 ? end_by_nonfinite(r, runner, &bad, err) : 0;
}

/* Reads what only an answer in a replay has: tensors, and a result that ends the run. */
static int take_probed(struct rollout *r, size_t runner, const msgpack_object *body,
                       struct err *err)
{
    const struct probe_place at = probe_place_of(r, runner);
    char ends[sizeof(err->msg)] = "";
    struct err why = {0};
    int rc = probe_take(r->args.probe, &at, body, err);

    if (rc == 0)
        rc = msg_get_str(body, "ends", ends, sizeof(ends), err);
    if (rc < 0 || *ends == '\0')
        return rc;
    (void)err_set(&why, ERR_NONFINITE, "%s", ends);
    return end_by_nonfinite(r, runner, &why, err);
}

/* The group of learners that the stage belongs to. */
static struct learners *learners_of(const struct rollout *r, int stage)
{
    return &r->learners[r->plan.stage[stage].group];
}

/* The number of learners whose turn comes before the runner's. */
static size_t turns_before(const struct learners *l, size_t runner)
{
    size_t n = 0;

    while (l->order[n] != runner)
        n++;
    return n;
}

/* Reads priorities (G, B), or (1, B) for the batch that the agent learns from. */
static int take_priorities(struct rollout *r, size_t runner, const msgpack_object *body,
                           struct err *err)
{
    struct learners *l = learners_of(r, r->runners[runner].stage);
    const struct row_source *s = &l->source;
    struct tensor t = TENSOR_NONE;
    const size_t group = s->groups > 1 ? runner : 0;
    int rc = msg_get_tensor(body, "priorities", &t, err);

    if (rc < 0 || t.dtype == DT_INVALID)
        return rc;
    if (t.dtype != DT_FLOAT || t.shape.rank != 2 || runner >= r->n_agents ||
        t.shape.dim[1] != (int64_t)s->batch ||
        (t.shape.dim[0] != 1 && t.shape.dim[0] != (int64_t)s->groups))
        return err_set(err, ERR_PROTOCOL, "priorities: %s %s, f32 (%zu,%zu) expected",
                       dtype_name(t.dtype), shape_text(&t.shape), s->groups, s->batch);
    if (l->priorities == NULL)
        return 0;
    memcpy(l->answered + runner * s->batch,
           (const float *)t.data + (t.shape.dim[0] > 1 ? group * s->batch : 0),
           s->batch * sizeof(float));
    l->has_answered[runner] = 1;
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
        (rc = take_scalars(r, runner, body, err)) < 0 ||
        (r->args.probe != NULL && (rc = take_probed(r, runner, body, err)) < 0) ||
        (rc = take_priorities(r, runner, body, err)) < 0)
        return rc;
    return exchange_put(r->exchange, r->runners[runner].stage, runner, outputs,
                        nonfinite_ends(r, runner) && !is_probed(r), err);
}

/* The first of the stages that are repeated with this one; itself: it is not repeated. */
static int begin_of_passes(const struct rollout *r, int stage)
{
    int i = stage;

    while (i + 1 < r->plan.n && r->plan.stage[i].repeat <= 1)
        i++;
    return r->plan.stage[i].repeat > 1 && r->plan.stage[i].repeat_from < stage
               ? r->plan.stage[i].repeat_from
               : stage;
}

/* Shows a replay what a stage made of the variables. */
static int show_written(const struct rollout *r, size_t runner, struct err *err)
{
    const int stage = r->runners[runner].stage;
    const struct stage_decl *s = &r->plan.stage[stage];
    const struct probe *p = r->args.probe;
    const void *block;
    size_t bytes;
    int rc;

    if (p == NULL || p->on_written == NULL || !s->writes)
        return 0;
    rc = agent_table_block(r->args.agents, place_of(r, runner), &block, &bytes, err);
    if (rc == 0) {
        const struct probe_place at = probe_place_of(r, runner);
        const struct probe_turn turn = {
            .update = r->updates,
            .group = s->group,
            .from = (uint64_t)begin_of_passes(r, stage),
            .pass = r->fsm.repeat,
            .stage = (uint64_t)stage,
            .turn = s->turns ? turns_before(learners_of(r, stage), runner) : 0};

        p->on_written(p->ctx, &at, &turn, block, bytes);
    }
    return rc;
}

/* ---- which runner can run which stage ---- */

static size_t n_runners(const struct rollout *r)
{
    return r->n_agents + 1 + r->sharing.n_groups;
}

/* The group that the runner belongs to; SHARING_NONE: it shares nothing. */
static size_t group_of(const struct rollout *r, size_t runner)
{
    if (runner < r->n_agents)
        return r->sharing.group_of[runner];
    return runner > r->n_agents ? runner - r->n_agents - 1 : SHARING_NONE;
}

static int is_player(const struct rollout *r, int stage, size_t runner)
{
    const struct stage_decl *s = &r->plan.stage[stage];

    if (!r->learners[s->group].takes_part)
        return 0;
    if (s->central)
        return runner == r->n_agents;
    if (s->ps)
        return runner > r->n_agents &&
               r->groups.group_of[r->sharing.groups[group_of(r, runner)].first] ==
                   s->group;
    return runner < r->n_agents && update_plan_plays(&r->plan, stage, runner);
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

/* Whether everyone before the runner has had its turn. */
static int is_its_turn(const struct rollout *r, int stage, size_t runner)
{
    const struct learners *l = learners_of(r, stage);

    if (!r->plan.stage[stage].turns)
        return 1;
    for (size_t i = turns_before(l, runner); i > 0; i--)
        if (!has_finished(r, stage, l->order[i - 1]))
            return 0;
    return 1;
}

/* Whether the group lets the runner go on. In a group that shares, a ps stage comes
 * after everything that its members do before it, and the members go on when it is
 * finished. */
static int group_is_ready(const struct rollout *r, int stage, size_t runner)
{
    const size_t group = group_of(r, runner);
    const int is_ps = runner > r->n_agents;

    for (size_t i = 0; group != SHARING_NONE && i < n_runners(r); i++) {
        if (group_of(r, i) != group || (i > r->n_agents) == is_ps)
            continue;
        for (int before = r->fsm.stage; before < stage; before++)
            if (!has_finished(r, before, i))
                return 0;
    }
    return 1;
}

/* Whether the outputs that the stage reads exist. The runner's own always do, because it
 * runs one stage after the other. */
static int inputs_are_there(const struct rollout *r, int stage)
{
    const struct stage_decl *s = &r->plan.stage[stage];

    for (int i = 0; i < s->n_reads; i++) {
        const struct stage_read *read = &s->reads[i];

        if (read->stage >= r->fsm.stage && !read->own && !read->previous &&
            !all_finished(r, read->stage))
            return 0;
    }
    return 1;
}

/* The first stage from here on that ends a repetition, or the last stage. */
static int end_of_pass(const struct rollout *r)
{
    int i = r->fsm.stage;

    while (i + 1 < r->plan.n && r->plan.stage[i].repeat <= 1)
        i++;
    return i;
}

/* The runner's next stage; past `end`: none. */
static int next_stage(const struct rollout *r, size_t runner, int end)
{
    int i = r->runners[runner].stage;

    while (i <= end && !is_player(r, i, runner))
        i++;
    return i;
}

/* ---- requests ---- */

static int send_ready(struct rollout *r, struct err *err);

static void on_stage_response(void *ctx, size_t place, const struct msg *response)
{
    struct rollout *r = ctx;
    const size_t agent =
        place < r->first_ps ? place : place - r->first_ps + r->n_agents + 1;
    struct runner *x = &r->runners[agent];
    struct err err = {0};

    r->outstanding--;
    x->is_at_work = 0;
    if (r->over)
        return;
    if (agent_response_is_absent(response)) {
        exchange_put_nothing(r->exchange, x->stage, agent);
    } else if (take_stage_answer(r, agent, &response->body, &err) < 0 ||
               show_written(r, agent, &err) < 0) {
        const char *name = runner_name(r, agent);

        (void)err_wrap(&err, "%s: answer to stage '%s'", name,
                       r->plan.stage[x->stage].name);
        (void)err_note(&err, ERR_AT(.agent = name));
        rollout_fail(r, &err);
        return;
    }
    x->stage++;
    if (agent > r->n_agents)
        r->sharing_groups[group_of(r, agent)].has_stepped = 1;
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

/* Whether the request must name the stage's group: the agent is no member of it, and its
 * draws for that group must differ from its draws for others. Agents that do not learn
 * get no name for updates of the first group. */
static int asks_guest(const struct rollout *r, int stage, size_t runner)
{
    const size_t asks = r->plan.stage[stage].group;
    const size_t own = runner < r->n_agents ? r->groups.group_of[runner] : asks;

    return own != asks && (own != LEARNING_NONE || asks > 0);
}

static int names_cores(const struct rollout *r)
{
    return r->n_cores > 1 && agent_table_count(r->args.agents) > r->n_cores;
}

/* Sends the stage that the runner was assigned. */
static int send_stage(struct rollout *r, size_t runner, struct err *err)
{
    const size_t core = r->runners[runner].core;
    const int stage = r->runners[runner].stage;
    const struct stage_decl *s = &r->plan.stage[stage];
    const struct learners *l = learners_of(r, stage);
    const struct row_source *source = &l->source;
    const int is_guest = asks_guest(r, stage, runner);
    struct shape shape =
        SHAPE((int64_t)source->groups, (int64_t)source->batch, (int64_t)source->length);
    struct tensor rows = tensor_view(DT_UINT64, shape, source->rows);
    const size_t place = place_of(r, runner), group = group_of(r, runner);
    struct exchange_turn turn;
    struct msg_out *o = agent_request_begin(r->args.agents, place, s->name, s->writes);
    int rc;

    msg_map(o, 5u + (group != SHARING_NONE) + (source->weights != NULL) +
                   (is_guest != 0) + (r->args.probe != NULL ? PROBE_PAIRS : 0));
    msg_put_u64(o, "step", r->env_steps);
    msg_put_u64(o, "update", l->updates);
    msg_put_u64(o, "repeat", r->fsm.repeat);
    if (is_guest)
        msg_put_str(o, "group", r->names[r->groups.group[s->group].first]);
    if (group != SHARING_NONE) {
        const struct group *g = &r->sharing_groups[group];

        msg_put_u64(o, "slot", g->step % g->slots);
    }
    msg_key(o, "rows");
    msg_tensor(o, &rows);
    if (source->weights != NULL) {
        struct tensor weights =
            tensor_view(DT_FLOAT, SHAPE((int64_t)source->groups, (int64_t)source->batch),
                        source->weights);

        msg_key(o, "weights");
        msg_tensor(o, &weights);
    }
    if (r->args.probe != NULL)
        probe_pack(r->args.probe, is_probed(r), runner_name(r, runner), o);
    msg_key(o, "inputs");
    if (names_cores(r))
        agent_request_wake_on(r->args.agents, place, r->cores[core]);
    if (s->turns)
        turn = (struct exchange_turn){l->order, turns_before(l, runner)};
    rc = exchange_pack(r->exchange, stage, runner, s->turns ? &turn : NULL, &shape, o,
                       err);
    if (rc == 0 && is_probed(r)) {
        const struct probe_place at = probe_place_of(r, runner);

        r->args.probe->on_request(r->args.probe->ctx, &at, o->buf.data, o->buf.size);
    }
    return rc < 0 ? rc
                  : agent_request_send(r->args.agents, place, on_stage_response, r, err);
}

/* The runner that gets the next free core; n_runners: none is ready. */
static size_t find_ready(const struct rollout *r, int *ret_stage)
{
    const int end = end_of_pass(r);

    for (int stage = r->fsm.stage; stage <= end; stage++) {
        if (!inputs_are_there(r, stage))
            continue;
        *ret_stage = stage;
        for (size_t i = 0; i < n_runners(r); i++)
            if (!r->runners[i].is_at_work && next_stage(r, i, end) == stage &&
                is_its_turn(r, stage, i) && group_is_ready(r, stage, i))
                return i;
    }
    return n_runners(r);
}

static int is_on_this_core(const struct rollout *r, size_t runner)
{
    return names_cores(r) && r->cores[r->runners[runner].core] == sched_getcpu();
}

static int send_ready(struct rollout *r, struct err *err)
{
    const size_t none = n_runners(r);
    size_t runner, last = none;
    int stage = 0, rc = 0;

    while (rc == 0 && r->outstanding < r->n_cores &&
           (runner = find_ready(r, &stage)) < none) {
        size_t core = r->runners[runner].core; /* the previous one if that is free */

        for (size_t i = 0; i < r->n_cores && is_taken(r, core); i++)
            core = i;
        r->runners[runner] =
            (struct runner){.stage = stage, .is_at_work = 1, .core = core};
        r->outstanding++;
        if (last == none && is_on_this_core(r, runner))
            last = runner;
        else
            rc = send_stage(r, runner, err);
    }
    return rc == 0 && last < none ? send_stage(r, last, err) : rc;
}

/* ---- groups that share parameters ---- */

static int check_vectors(const struct rollout *r, size_t group, struct err *err)
{
    const struct description *ps = &r->sharing_groups[group].description;

    for (size_t a = 0; a < r->n_agents; a++) {
        const struct description *d = &r->descriptions[a];

        if (r->sharing.group_of[a] == group &&
            (d->shared == 0 || d->shared != ps->shared ||
             d->shared_layout != ps->shared_layout ||
             !stage_list_equal(&d->stages, &ps->stages)))
            return err_set(err, ERR_PROTOCOL,
                           "%s and %s describe different shared parameters or stages",
                           r->names[a], r->sharing.groups[group].ps);
    }
    return 0;
}

/* Limits the replay of each process of the group to fewer requests than there are slots,
 * so that a snapshot is taken before a slot that the replay needs is overwritten. */
static int find_group(struct rollout *r, size_t group, struct err *err)
{
    const struct sharing_group *g = &r->sharing.groups[group];
    struct group *to = &r->sharing_groups[group];
    const size_t place = r->first_ps + group;
    struct share_ring ring;
    int rc = description_parse(&to->description,
                               &agent_table_description(r->args.agents, place)->body,
                               g->ps, err);

    if (rc < 0 || (rc = check_vectors(r, group, err)) < 0 ||
        (rc = share_ring_init(&ring, g->n, to->description.shared, err)) < 0)
        return rc;
    to->slots = ring.slots;
    agent_table_limit_replay(r->args.agents, place, (size_t)ring.slots - 1);
    for (size_t a = 0; a < r->n_agents; a++)
        if (r->sharing.group_of[a] == group)
            agent_table_limit_replay(r->args.agents, a, (size_t)ring.slots - 1);
    return 0;
}

int rollout_find_groups(struct rollout *r, struct err *err)
{
    int rc = 0;

    for (size_t g = 0; g < r->sharing.n_groups && rc == 0; g++)
        rc = find_group(r, g, err);
    return rc;
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

int rollout_enter_update(struct rollout *r, struct err *err)
{
    int rc;

    if (r->fsm.stage == 0 && r->fsm.repeat == 0) {
        rollout_keep(r);
        r->update_began_ns = rollout_now_ns(r);
        rollout_draw(r);
    }
    if (r->fsm.stage == 0 || r->fsm.stage <= r->stage_before ||
        r->plan.stage[r->stage_before].repeat > 1) {
        for (size_t i = 0; i < n_runners(r); i++)
            r->runners[i].stage = r->fsm.stage;
        for (size_t g = 0; g < r->sharing.n_groups; g++) {
            r->sharing_groups[g].step += (uint64_t)r->sharing_groups[g].has_stepped;
            r->sharing_groups[g].has_stepped = 0;
        }
    }
    r->stage_before = r->fsm.stage;
    rc = send_ready(r, err);
    if (rc < 0)
        return rc;
    return all_finished(r, r->fsm.stage) ? DONE_AT_ONCE : WAITS;
}
