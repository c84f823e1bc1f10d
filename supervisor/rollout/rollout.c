#include "supervisor/rollout/rollout.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"
#include "common/wire/cursor.h"
#include "supervisor/rollout/acting.h"
#include "supervisor/rollout/description.h"
#include "supervisor/rollout/exchange.h"
#include "supervisor/rollout/rollout_fsm.h"
#include "supervisor/rollout/row_writer.h"
#include "supervisor/rollout/schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STATE_VERSION = 1 };

/* What performing a state can come to, besides an error. */
enum { DONE_AT_ONCE = 0, WAITS = 1 };

struct rollout {
    struct rollout_args args;
    const struct env_spec *spec;
    size_t n_agents, copies;          /* A, E */
    const char **names;               /* [A] */
    struct description *descriptions; /* [A] */
    const struct stage_list *stages;  /* the first one's; all are equal */

    struct schedule schedule;
    struct rollout_fsm fsm;
    int over; /* nothing is reported any more */

    struct acting *acting;
    struct row_writer *writer;
    struct exchange *exchange;
    struct evaluation *evaluation; /* NULL: there are none */
    double *returns;               /* [A] scratch */

    size_t groups, batch;     /* G, B */
    struct rng_key *rows_key; /* [G] */
    uint64_t *rows;           /* (G, B, 1) of the current update */
    size_t outstanding;       /* responses of the current stage */

    uint64_t round, env_steps, episodes, updates;
    uint64_t round_began_ns, update_began_ns, checkpoint_ns;
};

static uint64_t now_ns(const struct rollout *r)
{
    return r->args.now_ns != NULL ? r->args.now_ns() : uv_hrtime();
}

static void fail(struct rollout *r, const struct err *err)
{
    if (r->over)
        return;
    r->over = 1;
    (void)rollout_fsm_step(&r->fsm, ROLLOUT_FAIL);
    r->args.callbacks.on_failed(r->args.callbacks.ctx, err);
}

void rollout_progress(const struct rollout *r, struct rollout_progress *ret)
{
    *ret = (struct rollout_progress){
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

/* ---- states: each is performed when it is entered ---- */

static int enter_act(struct rollout *r, struct err *err)
{
    struct acting_call call = {
        .mode = ACT_EXPLORE, .step = r->env_steps, .env = r->args.env};
    int rc;

    report_round(r);
    r->round_began_ns = now_ns(r);
    rc = acting_begin(r->acting, &call, err);
    return rc < 0 ? rc : WAITS;
}

static void count_episodes(struct rollout *r, const struct env_step *step)
{
    for (size_t e = 0; e < r->copies; e++) {
        if (!step->ended[e])
            continue;
        for (size_t a = 0; a < r->n_agents; a++)
            r->returns[a] = step->episode_return[a][e];
        metrics_add_episode(r->args.metrics, r->returns, step->episode_length[e]);
        r->episodes++;
    }
}

static int make_step(struct rollout *r, struct err *err)
{
    uint8_t *rows = store_rows(r->args.store, r->copies);
    struct env_step step;
    int rc;

    row_writer_before(r->writer, r->args.env, rows);
    rc = vec_env_step(r->args.env, acting_actions(r->acting), &step, err);
    if (rc < 0)
        return rc;
    row_writer_after(r->writer, &step, r->acting, rows);
    rc = store_append(r->args.store, r->copies, err);
    if (rc == 0)
        count_episodes(r, &step);
    return rc;
}

static int enter_step(struct rollout *r, struct err *err)
{
    struct schedule_now now = {.before = r->env_steps};
    struct schedule_due due;
    uint64_t ended_ns;
    int rc = make_step(r, err);

    if (rc < 0)
        return rc;
    ended_ns = now_ns(r);
    metrics_add_round(r->args.metrics, ended_ns - r->round_began_ns);
    r->round++;
    r->env_steps += r->copies;
    now.steps = r->env_steps;
    now.episodes = r->episodes;
    now.since_checkpoint_ns = ended_ns - r->checkpoint_ns;
    due = schedule_due(&r->schedule, &now);
    rollout_fsm_set_due(&r->fsm, &due);
    return DONE_AT_ONCE;
}

static int enter_evaluate(struct rollout *r, struct err *err)
{
    int rc = evaluation_start(r->evaluation, err);

    return rc < 0 ? rc : WAITS;
}

static int enter_log(struct rollout *r, struct err *err)
{
    struct metrics_row row;

    metrics_take_row(r->args.metrics, r->env_steps, r->episodes, now_ns(r), &row);
    return r->args.callbacks.on_row(r->args.callbacks.ctx, &row, err);
}

static int enter_checkpoint(struct rollout *r, struct err *err)
{
    struct rollout_progress at;

    rollout_progress(r, &at);
    r->checkpoint_ns = now_ns(r);
    return r->args.callbacks.on_checkpoint(r->args.callbacks.ctx, &at, err);
}

static int enter_paused(struct rollout *r, struct err *err)
{
    (void)err;
    report_round(r);
    return WAITS;
}

static int enter_done(struct rollout *r, struct err *err)
{
    (void)err;
    report_round(r);
    r->over = 1;
    r->args.callbacks.on_done(r->args.callbacks.ctx, r->fsm.stopped);
    return WAITS;
}

/* ---- stages of an update ---- */

static int finish_state(struct rollout *r, struct err *err);

static void resume(struct rollout *r)
{
    struct err err = {0};

    if (!r->over && finish_state(r, &err) < 0)
        fail(r, &err);
}

/* Config and algorithm say which agent's non-finite numbers are an end. */
static int nonfinite_ends(const struct rollout *r, size_t runner)
{
    return runner == r->n_agents || r->args.config->agents[runner].stop_on_nonfinite;
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

    if (body->type != MSGPACK_OBJECT_MAP && body->type != MSGPACK_OBJECT_NIL)
        return err_set(err, ERR_PROTOCOL, "not a map");
    if (body->type == MSGPACK_OBJECT_MAP &&
        ((rc = msg_get_map(body, "outputs", &outputs, err)) < 0 ||
         (rc = take_scalars(r, runner, body, err)) < 0))
        return rc;
    return exchange_put(r->exchange, r->fsm.stage, runner, outputs,
                        nonfinite_ends(r, runner), err);
}

static void on_stage_response(void *ctx, size_t agent, const struct msg *response)
{
    struct rollout *r = ctx;
    struct err err = {0};

    r->outstanding--;
    if (r->over)
        return;
    if (take_stage_answer(r, agent, &response->body, &err) < 0) {
        (void)err_wrap(&err, "%s: answer to stage '%s'",
                       agent < r->n_agents ? r->names[agent] : "central",
                       r->stages->stage[r->fsm.stage].name);
        fail(r, &err);
    } else if (r->outstanding == 0) {
        resume(r);
    }
}

static int send_stage(struct rollout *r, size_t runner, struct err *err)
{
    const struct stage_decl *s = &r->stages->stage[r->fsm.stage];
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
    rc = exchange_pack(r->exchange, r->fsm.stage, runner, o, err);
    if (rc == 0)
        rc = agent_request_send(r->args.agents, runner, on_stage_response, r, err);
    if (rc == 0)
        r->outstanding++;
    return rc;
}

static void begin_update(struct rollout *r)
{
    r->update_began_ns = now_ns(r);
    for (size_t g = 0; g < r->groups; g++)
        store_draw(r->args.store, r->rows_key[g], r->updates, r->rows + g * r->batch,
                   r->batch);
}

static int enter_update(struct rollout *r, struct err *err)
{
    size_t from = 0, to = r->n_agents;

    if (r->fsm.stage == 0 && r->fsm.repeat == 0)
        begin_update(r);
    if (r->stages->stage[r->fsm.stage].central) {
        from = r->n_agents;
        to = r->n_agents + 1;
    }
    for (size_t runner = from; runner < to; runner++) {
        int rc = send_stage(r, runner, err);
        if (rc < 0)
            return rc;
    }
    return WAITS;
}

/* ---- the machine ---- */

static int (*const enter[ROLLOUT_STATE_COUNT])(struct rollout *r, struct err *err) = {
    [ROLLOUT_ACT] = enter_act,       [ROLLOUT_STEP] = enter_step,
    [ROLLOUT_UPDATE] = enter_update, [ROLLOUT_EVALUATE] = enter_evaluate,
    [ROLLOUT_LOG] = enter_log,       [ROLLOUT_CHECKPOINT] = enter_checkpoint,
    [ROLLOUT_PAUSED] = enter_paused, [ROLLOUT_DONE] = enter_done,
};

/* Performs the state that was entered, and those after it, until one has to wait. */
static int play(struct rollout *r, struct err *err)
{
    int rc;

    while ((rc = enter[r->fsm.state](r, err)) == DONE_AT_ONCE && !r->over)
        CHECK(rollout_fsm_step(&r->fsm, ROLLOUT_FINISHED) == ROLLOUT_ENTERED);
    return rc < 0 ? rc : 0;
}

static int finish_state(struct rollout *r, struct err *err)
{
    int was_update = r->fsm.state == ROLLOUT_UPDATE;

    CHECK(rollout_fsm_step(&r->fsm, ROLLOUT_FINISHED) == ROLLOUT_ENTERED);
    if (was_update && rollout_fsm_update_over(&r->fsm)) {
        r->updates++;
        metrics_add_update(r->args.metrics, now_ns(r) - r->update_began_ns);
    }
    return play(r, err);
}

static void on_acted(void *ctx)
{
    resume(ctx);
}

static void on_evaluated(void *ctx, const struct evaluation_result *result)
{
    struct rollout *r = ctx;

    if (r->over)
        return;
    metrics_add_evaluation(r->args.metrics, result->return_mean, result->length_mean);
    if (r->args.callbacks.on_evaluation != NULL)
        r->args.callbacks.on_evaluation(r->args.callbacks.ctx, result);
    resume(r);
}

static void on_part_failed(void *ctx, const struct err *err)
{
    fail(ctx, err);
}

int rollout_start(struct rollout *r, struct err *err)
{
    int rc;

    r->checkpoint_ns = now_ns(r);
    r->fsm.saved = r->env_steps > 0; /* resumed: that checkpoint is there */
    CHECK(rollout_fsm_step(&r->fsm, ROLLOUT_START) == ROLLOUT_ENTERED);
    rc = play(r, err);
    if (rc < 0) {
        r->over = 1;
        (void)rollout_fsm_step(&r->fsm, ROLLOUT_FAIL);
    }
    return rc;
}

static void request(struct rollout *r, enum rollout_event event)
{
    struct err err = {0};

    if (r->over || rollout_fsm_step(&r->fsm, event) != ROLLOUT_ENTERED)
        return;
    if (play(r, &err) < 0)
        fail(r, &err);
}

void rollout_request_stop(struct rollout *r)
{
    request(r, ROLLOUT_STOP_REQUEST);
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
}

/* ---- life ---- */

static int describe(struct rollout *r, struct err *err)
{
    size_t n = agent_table_count(r->args.agents);

    CHECK(n == r->n_agents || n == r->n_agents + 1);
    for (size_t a = 0; a < r->n_agents; a++) {
        int rc = description_parse(&r->descriptions[a],
                                   &agent_table_description(r->args.agents, a)->body,
                                   r->names[a], err);
        if (rc < 0)
            return rc;
        if (!stage_list_equal(&r->descriptions[0].stages, &r->descriptions[a].stages))
            return err_set(err, ERR_PROTOCOL, "%s and %s declare different stages",
                           r->names[0], r->names[a]);
    }
    r->stages = &r->descriptions[0].stages;
    if (stage_list_has_central(r->stages) && n == r->n_agents)
        return err_set(err, ERR_PROTOCOL,
                       "%s declares a central stage, but there is no "
                       "central process",
                       r->names[0]);
    return 0;
}

/* Agents that want batches of their own have their own draws; the others of such a group
 * share one. */
static void make_row_keys(struct rollout *r)
{
    const struct run_config *c = r->args.config;

    r->groups = 1;
    for (size_t a = 0; a < r->n_agents; a++)
        if (c->agents[a].settings.own_batches)
            r->groups = r->n_agents;
    r->batch = (size_t)c->experience.batch_size;
    r->rows_key = xcalloc(r->groups, sizeof(*r->rows_key));
    for (size_t g = 0; g < r->groups; g++)
        r->rows_key[g] = rng_key_make(
            c->run.seed, c->agents[g].settings.own_batches ? r->names[g] : "experience",
            PURPOSE_ROWS);
    r->rows = xcalloc(r->groups * r->batch, sizeof(*r->rows));
}

static int make_evaluation(struct rollout *r, struct err *err)
{
    const struct run_config *c = r->args.config;
    struct evaluation_args args = {
        .env = &c->env,
        .episodes = (uint64_t)c->evaluation.episodes,
        .seed = c->evaluation.seed,
        .mode = c->evaluation.greedy ? ACT_GREEDY : ACT_SAMPLE,
        .agents = r->args.agents,
        .on_done = on_evaluated,
        .on_failed = on_part_failed,
        .ctx = r,
    };

    return c->evaluation.every_env_steps > 0 ? evaluation_new(&r->evaluation, &args, err)
                                             : 0;
}

static int make_log(struct rollout *r, struct err *err)
{
    struct store_layout layout;
    int rc = row_writer_layout(&layout, r->spec, r->descriptions, err);

    if (rc < 0)
        return rc;
    rc = store_describe(r->args.store, &layout, err);
    store_layout_done(&layout);
    if (rc == 0)
        r->writer = row_writer_new(store_layout(r->args.store), r->spec, r->descriptions,
                                   r->copies);
    return rc;
}

static void make_parts(struct rollout *r)
{
    struct acting_args acting = {.agents = r->args.agents,
                                 .spec = r->spec,
                                 .descriptions = r->descriptions,
                                 .copies = r->copies,
                                 .with_columns = 1,
                                 .on_done = on_acted,
                                 .on_failed = on_part_failed,
                                 .ctx = r};

    r->acting = acting_new(&acting);
    r->exchange = exchange_new(r->stages, r->names, r->n_agents);
    schedule_init(&r->schedule, r->args.config);
    rollout_fsm_init(&r->fsm, r->stages);
    make_row_keys(r);
}

int rollout_new(struct rollout **ret, const struct rollout_args *args, struct err *err)
{
    struct rollout *r = xcalloc(1, sizeof(*r));
    int rc;

    r->args = *args;
    r->spec = vec_env_spec(args->env);
    r->n_agents = r->spec->n_agents;
    r->copies = vec_env_copies(args->env);
    r->names = xcalloc(r->n_agents, sizeof(*r->names));
    r->returns = xcalloc(r->n_agents, sizeof(*r->returns));
    r->descriptions = xcalloc(r->n_agents, sizeof(*r->descriptions));
    for (size_t a = 0; a < r->n_agents; a++)
        r->names[a] = r->spec->agents[a].name;
    if ((rc = describe(r, err)) < 0 || (rc = make_evaluation(r, err)) < 0 ||
        (rc = make_log(r, err)) < 0) {
        rollout_free(r);
        return rc;
    }
    make_parts(r);
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
    free(r->descriptions);
    free(r->names);
    free(r->returns);
    free(r->rows_key);
    free(r->rows);
    free(r);
}

/* ---- run.state ---- */

static void save_block(struct wbuf *b, const void *data, size_t len)
{
    wbuf_u64(b, len);
    wbuf_bytes(b, data, len);
}

void rollout_state_save(const struct rollout *r, uint8_t **ret, size_t *ret_len)
{
    size_t env_bytes = vec_env_state_bytes(r->args.env), metrics_bytes;
    uint8_t *env = xmalloc(env_bytes), *metrics;
    struct wbuf b = {0};

    vec_env_state_save(r->args.env, env);
    metrics_state_save(r->args.metrics, &metrics, &metrics_bytes);
    wbuf_u32(&b, STATE_VERSION);
    wbuf_u64(&b, r->round);
    wbuf_u64(&b, r->env_steps);
    wbuf_u64(&b, r->episodes);
    wbuf_u64(&b, r->updates);
    wbuf_u64(&b, store_head(r->args.store));
    save_block(&b, env, env_bytes);
    save_block(&b, metrics, metrics_bytes);
    for (size_t a = 0; a < r->n_agents; a++)
        save_block(&b, acting_carry(r->acting, a),
                   r->copies * r->descriptions[a].carry * sizeof(float));
    free(env);
    free(metrics);
    *ret = b.data;
    *ret_len = b.len;
}

static const uint8_t *load_block(struct cursor *c, size_t *ret_len)
{
    uint64_t len = cursor_u64(c);

    *ret_len = len <= cursor_left(c) ? (size_t)len : cursor_left(c) + 1;
    return cursor_bytes(c, *ret_len);
}

static int load_carry(struct rollout *r, struct cursor *c)
{
    for (size_t a = 0; a < r->n_agents; a++) {
        size_t want = r->copies * r->descriptions[a].carry * sizeof(float), len;
        const uint8_t *data = load_block(c, &len);
        if (c->failed || len != want)
            return 0;
        if (len > 0)
            memcpy(acting_carry(r->acting, a), data, len);
    }
    return cursor_left(c) == 0;
}

int rollout_state_load(struct rollout *r, const uint8_t *data, size_t len,
                       struct err *err)
{
    struct cursor c = cursor_of(data, len);
    const uint8_t *env, *metrics;
    size_t env_len, metrics_len;
    uint64_t head;
    int rc;

    CHECK(r->fsm.state == ROLLOUT_IDLE);
    if (cursor_u32(&c) != STATE_VERSION)
        return err_set(err, ERR_FORMAT, "driver state of another version");
    r->round = cursor_u64(&c);
    r->env_steps = cursor_u64(&c);
    r->episodes = cursor_u64(&c);
    r->updates = cursor_u64(&c);
    head = cursor_u64(&c);
    env = load_block(&c, &env_len);
    metrics = load_block(&c, &metrics_len);
    if (c.failed || !load_carry(r, &c))
        return err_set(err, ERR_FORMAT, "driver state: wrong length");
    if (head != store_head(r->args.store))
        return err_set(err, ERR_STATE, "driver state of row %llu, the log is at %llu",
                       (unsigned long long)head,
                       (unsigned long long)store_head(r->args.store));
    rc = vec_env_state_load(r->args.env, env, env_len, err);
    return rc < 0 ? rc : metrics_state_load(r->args.metrics, metrics, metrics_len, err);
}
