#include "supervisor/rollout/rollout_internal.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "supervisor/trace/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

uint64_t rollout_now_ns(const struct rollout *r)
{
    return r->args.now_ns != NULL ? r->args.now_ns() : uv_hrtime();
}

void rollout_fail(struct rollout *r, const struct err *err)
{
    if (r->over)
        return;
    r->over = 1;
    (void)rollout_fsm_step(&r->fsm, ROLLOUT_FAIL);
    rollout_serve_end(r, err);
    r->args.callbacks.on_failed(r->args.callbacks.ctx, err);
}

void rollout_progress(const struct rollout *r, struct rollout_progress *ret)
{
    struct due left;

    *ret = (struct rollout_progress){
        .is_midway = rollout_fsm_left(&r->fsm, &left) && due_is_any(&left),
        .round = r->round,
        .env_steps = r->env_steps,
        .episodes = r->episodes,
        .updates = r->updates,
        .state = rollout_state_name(r->fsm.state),
    };
}

static void report_round(struct rollout *r)
{
    struct rollout_progress at;

    if (r->round == 0 || r->args.callbacks.on_round == NULL)
        return;
    rollout_progress(r, &at);
    r->args.callbacks.on_round(r->args.callbacks.ctx, &at);
}

/* ---- states: one function performs each when it is entered ---- */

static int begin_acting(struct rollout *r, struct err *err)
{
    struct acting_call call = {
        .mode = ACT_EXPLORE, .step = r->env_steps, .env = r->args.env};
    int rc;

    for (size_t a = 0; a < r->n_agents; a++)
        agent_table_begin_round(r->args.agents, a);
    if (probe_is_round(r->args.probe, r->env_steps, r->copies))
        call.probe = r->args.probe;
    rollout_keep(r);
    r->round_began_ns = rollout_now_ns(r);
    rc = acting_begin(r->acting, &call, err);
    return rc < 0 ? rc : WAITS;
}

void rollout_begin_acting(struct rollout *r)
{
    struct err err = {0};

    if (begin_acting(r, &err) < 0)
        rollout_fail(r, &err);
}

static int enter_act(struct rollout *r, struct err *err)
{
    report_round(r);
    if (r->serving != NULL)
        return rollout_serve(r);
    return rollout_look(r) ? WAITS : begin_acting(r, err);
}

/* If rc means a full disk and there is an on_full, calls it and waits. */
static int wait_for_space(struct rollout *r, int rc, const struct err *err)
{
    const struct rollout_callbacks *cb = &r->args.callbacks;

    r->full = (rc == -ENOSPC || rc == -EDQUOT || rc == -EFBIG) && cb->on_full != NULL;
    if (r->full)
        cb->on_full(cb->ctx, err);
    return r->full ? WAITS : rc;
}

/* Whether the run has reached the step at which it is to stop. */
static int is_until(const struct rollout *r)
{
    return r->args.until > 0 && r->env_steps >= r->args.until;
}

static void note_due(struct rollout *r)
{
    struct due_at now = {.before = r->env_steps};
    struct due due;
    uint64_t ended_ns = rollout_now_ns(r);

    metrics_add_round(r->args.metrics, ended_ns - r->round_began_ns);
    r->round++;
    r->env_steps += r->copies;
    now.steps = r->env_steps;
    now.episodes = r->episodes;
    now.since_checkpoint_ns = ended_ns - r->checkpoint_ns;
    due = rollout_due(r, &now);
    due.updates = rollout_find_due(r, &now);
    due.stop = is_until(r);
    rollout_fsm_set_due(&r->fsm, &due);
    rollout_note_change(r);
}

/* After the step of all copies: appends the rows and finds what is due. */
static int end_step(struct rollout *r, struct err *err)
{
    const struct env_step *step = &r->step;
    int rc;

    if (!r->full)
        row_writer_after(r->writer, step, r->acting,
                         store_rows(r->args.store, r->copies));
    rc = store_append(r->args.store, r->copies, err);
    if ((rc = wait_for_space(r, rc, err)) != DONE_AT_ONCE)
        return rc;
    for (size_t e = 0; e < r->copies; e++) {
        if (!step->ended[e])
            continue;
        for (size_t a = 0; a < r->n_agents; a++)
            r->returns[a] = step->episode_return[a][e];
        for (size_t m = 0; m < r->spec->n_metrics; m++)
            r->env_metrics[m] = step->episode_metric[m][e];
        metrics_add_episode(r->args.metrics, r->returns, step->episode_length[e],
                            r->env_metrics);
        r->episodes++;
    }
    if (r->episode_rows != NULL) {
        /* a discarded episode ends, too: with a row in which no agent is alive */
        for (size_t e = 0; e < r->copies; e++)
            r->ended[e] = step->ended[e] | step->discarded[e];
        episodes_add(r->episode_rows, store_head(r->args.store) - r->copies, step->first,
                     r->ended, store_window_first(r->args.store));
    }
    rollout_add_to_priorities(r);
    note_due(r);
    return DONE_AT_ONCE;
}

static int enter_step(struct rollout *r, struct err *err)
{
    int rc = 0;

    if (r->serving != NULL) {
        rollout_serve_boundary(r);
        return DONE_AT_ONCE;
    }
    if (!r->full) {
        row_writer_before(r->writer, r->args.env, store_rows(r->args.store, r->copies));
        rc = vec_env_step(r->args.env, acting_actions(r->acting), &r->step, err);
    }
    if (rc == ENV_LATER)
        return WAITS;
    return rc < 0 ? rc : end_step(r, err);
}

static int enter_evaluate(struct rollout *r, struct err *err)
{
    int rc;

    rollout_keep(r);
    rc = evaluation_start(r->evaluation, r->env_steps, err);
    return rc < 0 ? rc : WAITS;
}

static int enter_log(struct rollout *r, struct err *err)
{
    int rc;

    /* a stop right after a resume: the newest row was closed at this step */
    if (!r->full && r->env_steps > 0 &&
        metrics_row_began(r->args.metrics) == r->env_steps)
        return DONE_AT_ONCE;
    if (!r->full)
        metrics_take_row(r->args.metrics, r->env_steps, r->episodes, rollout_now_ns(r),
                         &r->row);
    rc = r->args.callbacks.on_row(r->args.callbacks.ctx, &r->row, err);
    return wait_for_space(r, rc, err);
}

static int enter_checkpoint(struct rollout *r, struct err *err)
{
    struct rollout_progress at;
    int rc;

    rollout_keep(r);
    rollout_progress(r, &at);
    r->checkpoint_ns = rollout_now_ns(r);
    rc = r->args.callbacks.on_checkpoint(r->args.callbacks.ctx, &at, err);
    return rc == ROLLOUT_CHECKPOINT_WAITS ? WAITS : rc;
}

void rollout_checkpoint_taken(struct rollout *r)
{
    CHECK(r->over || r->fsm.state == ROLLOUT_CHECKPOINT);
    rollout_resume(r);
}

void rollout_checkpoint_failed(struct rollout *r, uint64_t step)
{
    verdict_keep_failed(&r->verdict, step);
    if (step != r->env_steps)
        return;
    r->fsm.saved = 0;
    rollout_serve_unsaved(r);
}

static int enter_paused(struct rollout *r, struct err *err)
{
    struct rollout_progress at;

    report_round(r);
    rollout_keep(r);
    rollout_progress(r, &at);
    if (r->args.callbacks.on_paused != NULL)
        r->args.callbacks.on_paused(r->args.callbacks.ctx, &at);
    if (r->looking != NULL && !r->over && r->fsm.state == ROLLOUT_PAUSED)
        (void)rollout_look(r); /* requests that came in the round */
    return WAITS;
}

static int enter_done(struct rollout *r, struct err *err)
{
    report_round(r);
    r->over = 1;
    rollout_serve_end(r, NULL);
    r->args.callbacks.on_done(r->args.callbacks.ctx, r->fsm.stopped);
    return WAITS;
}

/* ---- the machine ---- */

static int (*const enter[ROLLOUT_STATE_COUNT])(struct rollout *r, struct err *err) = {
    [ROLLOUT_ACT] = enter_act,
    [ROLLOUT_STEP] = enter_step,
    [ROLLOUT_UPDATE] = rollout_enter_update,
    [ROLLOUT_EVALUATE] = enter_evaluate,
    [ROLLOUT_LOG] = enter_log,
    [ROLLOUT_CHECKPOINT] = enter_checkpoint,
    [ROLLOUT_CHANGE] = rollout_enter_change,
    [ROLLOUT_PAUSED] = enter_paused,
    [ROLLOUT_DONE] = enter_done,
};

/* The work of the current state is done: moves to the next state. */
static void leave_state(struct rollout *r)
{
    const int was_update = r->fsm.state == ROLLOUT_UPDATE;

    CHECK(rollout_fsm_step(&r->fsm, ROLLOUT_FINISHED) == ROLLOUT_ENTERED);
    if (was_update && rollout_fsm_update_over(&r->fsm)) {
        rollout_count_update(r);
        metrics_add_update(r->args.metrics, rollout_now_ns(r) - r->update_began_ns);
    }
}

static int enter_state(struct rollout *r, struct err *err)
{
    const struct trace_mark mark = trace_begin();
    const enum rollout_state state = r->fsm.state;
    const int rc = enter[state](r, err);

    trace_end(mark, rollout_state_name(state));
    return rc;
}

/* Performs the entered state and those after it, until one has to wait. */
static int play(struct rollout *r, struct err *err)
{
    int rc;

    while ((rc = enter_state(r, err)) == DONE_AT_ONCE && !r->over)
        leave_state(r);
    return rc < 0 ? rc : 0;
}

static int finish_state(struct rollout *r, struct err *err)
{
    leave_state(r);
    return play(r, err);
}

void rollout_resume(struct rollout *r)
{
    struct err err = {0};

    if (!r->over && finish_state(r, &err) < 0)
        rollout_fail(r, &err);
}

void rollout_try_again(struct rollout *r)
{
    struct err err = {0};

    CHECK(r->over || r->full);
    if (!r->over && play(r, &err) < 0)
        rollout_fail(r, &err);
}

static void on_acted(void *ctx)
{
    rollout_resume(ctx);
}

static int rollout_begin(struct rollout *r, struct err *err)
{
    r->checkpoint_ns = rollout_now_ns(r);
    if (is_until(r))
        rollout_fsm_plan_stop(&r->fsm);
    CHECK(rollout_fsm_step(&r->fsm, ROLLOUT_START) == ROLLOUT_ENTERED);
    return play(r, err);
}

/* The environment processes have answered: after a step, or before the first round. */
static void on_env_ready(void *ctx)
{
    struct rollout *r = ctx;
    struct err err = {0};
    int rc;

    if (r->over)
        return;
    if (r->fsm.state == ROLLOUT_IDLE)
        rc = rollout_begin(r, &err);
    else if ((rc = end_step(r, &err)) == DONE_AT_ONCE)
        rc = finish_state(r, &err);
    if (rc < 0)
        rollout_fail(r, &err);
}

const struct verdict *rollout_verdict(const struct rollout *r)
{
    return &r->verdict;
}

void rollout_set_verdict(struct rollout *r, const struct verdict *v)
{
    r->verdict = *v;
}

/* The evaluation may end the run: as by its length, with a row of metrics and a checkpoint. A
 * new best one needs a checkpoint of its weights, which are those of this boundary. */
static void judge(struct rollout *r)
{
    const struct run_config *c = r->config;
    const struct stop_when_config *stop = &c->run.stop_when;
    const struct keep_best_config *keep = &c->checkpoint.keep_best;
    const struct metrics *m = r->args.metrics;
    struct due due = {0};

    if (c->run.has_stop_when) {
        verdict_take(&r->verdict, stop, metrics_evaluated(m, stop->metric), r->env_steps);
        due.end = due.log = due.checkpoint = verdict_ends(&r->verdict, stop);
    }
    if (c->checkpoint.has_keep_best)
        due.checkpoint |= verdict_keep(&r->verdict, keep,
                                       metrics_evaluated(m, keep->metric), r->env_steps);
    rollout_fsm_add_due(&r->fsm, &due);
}

static void on_evaluated(void *ctx, const struct evaluation_result *result)
{
    struct rollout *r = ctx;

    if (r->over)
        return;
    metrics_add_evaluation(r->args.metrics, result->return_mean, result->length_mean,
                           result->metric_mean);
    judge(r);
    if (r->args.callbacks.on_evaluation != NULL)
        r->args.callbacks.on_evaluation(r->args.callbacks.ctx, result);
    rollout_resume(r);
}

static void on_evaluation_begin(void *ctx, const struct vec_env *env, size_t copy)
{
    const struct rollout_callbacks *to = &((struct rollout *)ctx)->args.callbacks;

    if (to->on_evaluation_begin != NULL)
        to->on_evaluation_begin(to->ctx, env, copy);
}

static void on_evaluation_step(void *ctx, const struct vec_env *env,
                               const struct env_step *step)
{
    const struct rollout_callbacks *to = &((struct rollout *)ctx)->args.callbacks;

    if (to->on_evaluation_step != NULL)
        to->on_evaluation_step(to->ctx, env, step);
}

/* The evaluation was cancelled for a stop; a resume plays it again from its beginning. */
static void on_evaluation_cancelled(void *ctx)
{
    struct rollout *r = ctx;
    struct err err = {0};

    if (r->over)
        return;
    agent_table_uncount(r->args.agents);
    CHECK(rollout_fsm_step(&r->fsm, ROLLOUT_CANCELLED) == ROLLOUT_ENTERED);
    if (play(r, &err) < 0)
        rollout_fail(r, &err);
}

static void on_part_failed(void *ctx, const struct err *err)
{
    rollout_fail(ctx, err);
}

int rollout_start(struct rollout *r, struct err *err)
{
    int rc = vec_env_start(r->args.env, r->args.env_host, "env", err);

    vec_env_on_ready(r->args.env, on_env_ready, r);
    if (rc == 0)
        rc = vec_env_make_ready(r->args.env, err);
    if (rc == 0)
        rc = rollout_begin(r, err);
    if (rc < 0) {
        r->over = 1;
        (void)rollout_fsm_step(&r->fsm, ROLLOUT_FAIL);
    }
    return rc < 0 ? rc : 0;
}

static void request(struct rollout *r, enum rollout_event event)
{
    struct err err = {0};

    if (r->over || rollout_look_defers(r, event))
        return;
    if (rollout_fsm_step(&r->fsm, event) != ROLLOUT_ENTERED)
        rollout_tick(r);
    else if (play(r, &err) < 0)
        rollout_fail(r, &err);
}

/* A checkpoint ends in another pause, which a stop or a continue would no longer expect: it
 * comes last. */
void rollout_request_events(struct rollout *r, const struct rollout_events *events)
{
    for (int last = 0; last < 2; last++)
        for (int i = 0; i < events->n; i++)
            if ((events->list[i] == ROLLOUT_CHECKPOINT_REQUEST) == last)
                request(r, (enum rollout_event)events->list[i]);
}

void rollout_request_stop(struct rollout *r)
{
    request(r, ROLLOUT_STOP_REQUEST);
    if (!r->over && r->fsm.state == ROLLOUT_EVALUATE)
        evaluation_cancel(r->evaluation);
}

void rollout_request_pause(struct rollout *r)
{
    request(r, ROLLOUT_PAUSE_REQUEST);
}

void rollout_request_continue(struct rollout *r)
{
    request(r, ROLLOUT_CONTINUE_REQUEST);
}

void rollout_request_checkpoint(struct rollout *r)
{
    request(r, ROLLOUT_CHECKPOINT_REQUEST);
}

void rollout_abort(struct rollout *r)
{
    r->over = 1;
    (void)rollout_fsm_step(&r->fsm, ROLLOUT_FAIL);
    rollout_serve_end(r, NULL);
}

/* ---- life ---- */

static int describe(struct rollout *r, struct err *err)
{
    const size_t n = agent_table_count(r->args.agents);
    int rc = 0;

    r->first_ps = n - r->sharing.n_groups;
    CHECK(r->first_ps == r->n_agents || r->first_ps == r->n_agents + 1);
    for (size_t a = 0; a < r->n_agents && rc == 0; a++)
        rc = description_parse(&r->descriptions[a],
                               &agent_table_description(r->args.agents, a)->body,
                               r->names[a], err);
    if (rc < 0 ||
        (rc = update_plan_init(&r->plan, &r->groups, r->descriptions, r->names,
                               r->n_agents, err)) < 0 ||
        (rc = rollout_find_groups(r, err)) < 0)
        return rc;
    if (update_plan_has_central(&r->plan) && r->first_ps == r->n_agents)
        return err_set(err, ERR_PROTOCOL,
                       "an agent declares a central stage, but there is no central "
                       "process");
    return 0;
}

int rollout_make_evaluation(struct rollout *r, struct err *err)
{
    const struct run_config *c = r->config;
    struct evaluation_args args = {
        .config = r->args.config,
        .env = &r->evaluation_env,
        .episodes = (uint64_t)c->evaluation.episodes,
        .max_steps = (uint64_t)c->evaluation.max_steps,
        .seed = c->evaluation.seed,
        .mode = c->evaluation.greedy ? ACT_GREEDY : ACT_SAMPLE,
        .agents = r->args.agents,
        .env_host = r->args.env_host,
        .on_done = on_evaluated,
        .on_cancelled = on_evaluation_cancelled,
        .on_failed = on_part_failed,
        .on_begin = on_evaluation_begin,
        .on_step = on_evaluation_step,
        .ctx = r,
    };

    if (c->evaluation.every_env_steps == 0 || r->evaluation != NULL || r->serving != NULL)
        return 0;
    r->evaluation_env = r->args.config->env;
    if (r->args.draws && env_config_is_external(&r->evaluation_env)) {
        r->evaluation_env.draws = 1;
        r->evaluation_env.processes = 1;
    }
    return evaluation_new(&r->evaluation, &args, err);
}

static int make_log(struct rollout *r, struct err *err)
{
    struct store_layout layout;
    int rc;

    /* Without an environment no row is written, whatever columns an earlier build gave the
     * log that a run is resumed with. */
    if (r->serving != NULL && store_layout(r->args.store)->n_columns > 0)
        return 0;
    rc = row_writer_layout(&layout, r->spec, r->descriptions, err);
    if (rc < 0)
        return rc;
    rc = store_describe(r->args.store, &layout, err);
    store_layout_done(&layout);
    if (rc == 0 && r->serving == NULL)
        r->writer = row_writer_new(store_layout(r->args.store), r->spec, r->descriptions,
                                   r->copies);
    return rc;
}

static const char *name_of_process(const struct rollout *r, size_t place)
{
    if (place < r->n_agents)
        return r->names[place];
    return place < r->first_ps ? "central" : r->sharing.groups[place - r->first_ps].ps;
}

static int parse_reads(struct rollout *r, struct err *err)
{
    const struct store_layout *l = store_layout(r->args.store);
    const size_t n = agent_table_count(r->args.agents);
    int rc = 0;

    r->reads = xcalloc(n, l->n_columns);
    for (size_t i = 0; r->serving == NULL && rc == 0 && i < n; i++)
        rc = log_reads_parse(r->reads + i * l->n_columns, l,
                             &agent_table_description(r->args.agents, i)->body,
                             name_of_process(r, i), err);
    return rc;
}

const uint8_t *rollout_reads(const struct rollout *r, size_t place)
{
    return r->reads + place * store_layout(r->args.store)->n_columns;
}

static int make_parts(struct rollout *r, struct err *err)
{
    struct acting_args acting = {.agents = r->args.agents,
                                 .spec = r->spec,
                                 .descriptions = r->descriptions,
                                 .config = r->args.config,
                                 .copies = r->copies,
                                 .with_columns = 1,
                                 .on_done = on_acted,
                                 .on_failed = on_part_failed,
                                 .ctx = r};

    r->acting = acting_new(&acting);
    r->exchange = exchange_new(&r->plan, r->names, r->spec, &r->sharing);
    intervals_init(&r->intervals, r->args.config);
    rollout_fsm_init(&r->fsm, r->plan.stage, r->plan.n);
    return rollout_make_learners(r, err);
}

int rollout_new(struct rollout **ret, const struct rollout_args *args, struct err *err)
{
    struct rollout *r = xcalloc(1, sizeof(*r));
    int rc;

    r->args = *args;
    r->config = args->config;
    r->change_at = UINT64_MAX;
    r->spec = vec_env_spec(args->env);
    r->n_agents = r->spec->n_agents;
    r->copies = vec_env_copies(args->env);
    if (strcmp(r->config->env.id, "none") == 0)
        rollout_serve_init(r);
    else
        rollout_look_init(r);
    rollout_find_cores(r);
    rc = sharing_init(&r->sharing, r->config, r->spec, NULL, err);
    if (rc < 0) {
        rollout_free(r);
        return rc;
    }
    learning_groups_init(&r->groups, r->config, &r->sharing);
    r->runners = xcalloc(r->n_agents + 1 + r->sharing.n_groups, sizeof(*r->runners));
    r->sharing_groups = xcalloc(r->sharing.n_groups + 1, sizeof(*r->sharing_groups));
    r->names = xcalloc(r->n_agents, sizeof(*r->names));
    r->returns = xcalloc(r->n_agents, sizeof(*r->returns));
    r->env_metrics = xcalloc(r->spec->n_metrics + 1, sizeof(*r->env_metrics));
    r->descriptions = xcalloc(r->n_agents, sizeof(*r->descriptions));
    for (size_t a = 0; a < r->n_agents; a++)
        r->names[a] = r->spec->agents[a].name;
    if ((rc = describe(r, err)) < 0 || (rc = rollout_make_evaluation(r, err)) < 0 ||
        (rc = make_log(r, err)) < 0 || (rc = parse_reads(r, err)) < 0 ||
        (rc = make_parts(r, err)) < 0) {
        rollout_free(r);
        return rc;
    }
    *ret = r;
    return 0;
}

void rollout_free(struct rollout *r)
{
    if (r == NULL)
        return;
    acting_free(r->acting);
    row_writer_free(r->writer);
    exchange_free(r->exchange);
    evaluation_free(r->evaluation);
    rollout_serve_free(r);
    free(r->descriptions);
    free(r->reads);
    rollout_free_learners(r);
    update_plan_done(&r->plan);
    learning_groups_done(&r->groups);
    free(r->runners);
    free(r->sharing_groups);
    sharing_done(&r->sharing);
    free(r->cores);
    free(r->names);
    free(r->returns);
    free(r->env_metrics);
    episodes_free(r->episode_rows);
    free(r->ended);
    free(r);
}
