#include "agent/algo/kit.h"

#include "agent/algo/reads.h"
#include "agent/algo/rows.h"
#include "agent/graph/ops.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct kit *kit_of(struct algo *a)
{
    return (struct kit *)(void *)a;
}

/* ---- stages ---- */

static struct stage *add_stage(struct kit *k, struct stage stage)
{
    CHECK(k->n_played < KIT_MAX_STAGES);
    stage.repeat_from = (int)k->n_played;
    k->stages[k->n_played] = stage;
    return &k->stages[k->n_played++];
}

static void add_reads(struct stage *s, const char *const reads[KIT_MAX_READS])
{
    size_t n = 0;

    while (s->reads[n] != NULL)
        n++;
    for (size_t i = 0; i < KIT_MAX_READS && reads[i] != NULL; i++)
        s->reads[n++] = reads[i];
}

static void list_declared(struct kit *k)
{
    for (size_t i = 0; i < k->plan->n_stages; i++) {
        const struct stage_of *row = &k->plan->stages[i];
        struct stage *s;

        if (row->is_needed != NULL && !row->is_needed(k->settings))
            continue;
        k->row_of[k->n_played] = row;
        s = add_stage(k, (struct stage){.name = row->name,
                                        .runner = row->runner,
                                        .writes = row->writes});
        add_reads(s, row->reads);
        if (row->repeats_from > 0) {
            s->repeat_from -= row->repeats_from;
            s->repeat = (int)k->repeats;
        }
    }
}

void kit_init(struct kit *k, const struct algo_args *args, const struct kit_plan *plan,
              int64_t repeats)
{
    *k = (struct kit){.graph = args->graph,
                      .config = args->config,
                      .settings = args->settings,
                      .agents = args->agents,
                      .self = args->central ? NULL : &args->agents[args->self],
                      .scope = args->central ? "central" : args->agents[args->self].name,
                      .n_agents = args->n_agents,
                      .index = args->self,
                      .share = args->share,
                      .plan = plan,
                      .repeats = repeats,
                      .matrices = {.agents = args->agents, .self = args->self}};
    list_declared(k);
    if (k->share == NULL) {
        for (size_t i = 0; i < plan->n_updates; i++) {
            const struct update *u = &plan->updates[i];

            if (i == 0 || strcmp(u->stage, plan->updates[i - 1].stage) != 0)
                (void)add_stage(k, (struct stage){.name = u->stage, .writes = 1});
            k->played_in[i] = k->n_played - 1;
            add_reads(&k->stages[k->n_played - 1], u->reads);
        }
    } else if (plan->n_updates > 0) {
        const size_t first = k->n_played;

        for (size_t i = 0; i < SHARE_N_STAGES; i++)
            (void)add_stage(k, share_stages[i]);
        for (size_t i = 0; i < plan->n_updates; i++)
            add_reads(&k->stages[first], plan->updates[i].reads);
        if (plan->n_updates > 1) {
            k->stages[k->n_played - 1].repeat_from = (int)first;
            k->stages[k->n_played - 1].repeat = (int)plan->n_updates;
        }
    }
    if (args->central)
        return;
    k->reward = matrix_new(&k->matrices, 0);
    k->terminated = matrix_new(&k->matrices, 0);
    k->alive = matrix_new(&k->matrices, 0);
    matrix_add_column(k->reward, k->index, "reward");
    matrix_add_column(k->terminated, k->index, "terminated");
    matrix_add_column(k->alive, k->index, "alive");
    k->weight = matrix_new(&k->matrices, 1);
    k->target = matrix_new(&k->matrices, 1);
}

void kit_done(struct kit *k)
{
    for (size_t i = 0; i < k->n_steps; i++) {
        accept_reject_free(k->step[i].trials);
        free(k->step[i].path);
    }
    free(k->step);
    for (size_t i = 0; i < k->n_scales; i++) {
        reward_scale_done(k->scales[i]);
        free(k->scales[i]);
    }
    free(k->scales);
    matrices_done(&k->matrices);
    free(k->order);
    free(k->order_place);
    free(k->feeds.list);
}

/* ---- building ---- */

struct live *kit_add_live(struct kit *k, struct live live)
{
    CHECK(k->n_lives < KIT_MAX_LIVES);
    k->live[k->n_lives] = live;
    return &k->live[k->n_lives++];
}

void kit_make_critic_rate(struct kit *k, struct live *rate)
{
    const struct output constant = rate->constant;

    *rate = live_critic_rate(k->graph, k->config);
    live_bind(k->graph, rate, constant);
}

void kit_add_clip_norm(struct kit *k)
{
    k->clip_norm = kit_add_live(k, live_fed(k->graph, "clip_norm", k->config->clip_norm,
                                            LIVE_NO_CLIP_NORM, "clip_norm"));
}

void kit_add_polyak(struct kit *k)
{
    k->polyak =
        kit_add_live(k, live_fed(k->graph, "polyak", k->config->polyak, 0, "polyak"));
}

void kit_add_usual_lives(struct kit *k, struct live **ret_actor, struct live **ret_critic)
{
    if (kit_makes_steps(k)) {
        *ret_actor = kit_add_live(k, (struct live){0});
        *ret_critic = kit_add_live(k, (struct live){0});
        live_rates(k->graph, k->config, *ret_actor, *ret_critic);
        kit_add_clip_norm(k);
    }
    if (!kit_learns(k))
        return;
    kit_add_polyak(k);
    k->discount = kit_add_live(k, live_new(k->graph, "discount", k->config->discount));
}

struct output kit_keep(struct kit *k)
{
    return binary(k->graph, "Sub", constant_f32(k->graph, 1.0f, NULL),
                  k->polyak->constant, "keep");
}

struct output kit_placeholder(struct kit *k, int64_t width, const char *name)
{
    return placeholder(k->graph, DT_FLOAT, &SHAPE(-1, width), name);
}

void kit_reopen_scope(struct kit *k)
{
    variable_scope_leave(k->graph);
    variable_scope_enter(k->graph, k->scope, NULL, REUSE_INHERIT);
}

struct variable *kit_add_local(struct kit *k, const char *name, enum dtype dtype,
                               struct shape shape)
{
    const struct initializer zeros = zeros_initializer();

    return get_variable(k->graph, name, dtype, &shape, &zeros,
                        VARIABLE_LOCAL | VARIABLE_NOT_TRAINABLE);
}

static struct share_part part_of(const struct kit *k, const struct step *s)
{
    return (struct share_part){
        .step = {.scope = s->path,
                 .optimizer = s->optimizer,
                 .clip_norm = k->clip_norm != NULL ? k->clip_norm->constant : OUTPUT_NONE,
                 .clip_by = s->clip_by},
        .loss = s->loss};
}

/* Takes what was set when the step was built. */
static void take_part(struct kit *k, struct step *s, const struct share_part *part)
{
    s->norm = part->step.norm;
    if (kit_makes_steps(k))
        live_bind(k->graph, s->rate, part->step.learning_rate);
}

size_t kit_add_step(struct kit *k, struct step step)
{
    struct step *s;
    struct share_part part;

    CHECK(k->share == NULL || k->n_steps < SHARE_MAX_PARTS);
    k->step = xreallocarray(k->step, k->n_steps + 1, sizeof(*k->step));
    s = &k->step[k->n_steps];
    *s = step;
    s->path = xasprintf("%s/%s/", k->scope, step.scope);
    part = part_of(k, s);
    if (k->share == NULL && s->optimizer->type != OPT_ACCEPT_REJECT) {
        s->train = minimize_clipped(k->graph, s->loss, &part.step, &k->failure);
        take_part(k, s, &part);
        if (s->train == NULL && k->failure.code == 0)
            (void)err_set(&k->failure, ERR_ARG, "no step for %s", s->path);
    }
    return k->n_steps++;
}

struct step kit_critic_step(const struct kit *k, const char *scope, struct live *rate,
                            struct output loss)
{
    return (struct step){.scope = scope,
                         .optimizer = network_optimizer(k->config, &k->config->critic),
                         .rate = rate,
                         .clip_by = k->settings->clip_by,
                         .norm_name = "critic_grad_norm",
                         .rate_name = "critic_learning_rate",
                         .loss = loss};
}

struct step kit_actor_step(const struct kit *k, const char *scope, struct live *rate,
                           struct output loss)
{
    return (struct step){.scope = scope,
                         .optimizer = network_optimizer(k->config, &k->config->actor),
                         .rate = rate,
                         .clip_by = k->settings->clip_by,
                         .norm_name = "actor_grad_norm",
                         .rate_name = "actor_learning_rate",
                         .loss = loss};
}

void kit_share_steps(struct kit *k)
{
    struct share_part parts[SHARE_MAX_PARTS];

    if (k->share == NULL)
        return;
    for (size_t i = 0; i < k->n_steps; i++)
        parts[i] = part_of(k, &k->step[i]);
    (void)share_build(k->share, k->graph, parts, k->n_steps, &k->failure);
    for (size_t i = 0; i < k->n_steps; i++)
        take_part(k, &k->step[i], &parts[i]);
}

struct reward_scale *kit_add_scale(struct kit *k, const size_t *agents, size_t n)
{
    struct reward_scale *r = xcalloc(1, sizeof(*r));

    reward_scale_init(r, k->graph, k->settings->reward_scale, k->agents, agents, n);
    k->scales = xreallocarray(k->scales, k->n_scales + 1, sizeof(struct reward_scale *));
    k->scales[k->n_scales++] = r;
    return r;
}

void kit_scale_rewards(struct kit *k)
{
    const struct share_group *group = k->share != NULL ? share_group(k->share) : NULL;

    if (kit_learns(k))
        k->scale = group != NULL ? kit_add_scale(k, group->members, group->n)
                                 : kit_add_scale(k, &k->index, 1);
}

void kit_follow(struct kit *k, const struct following *f, size_t n, struct output keep,
                const char *update, const char *copy)
{
    follow_variables(k->graph, k->scope, f, n, keep, k->polyak->constant, update, copy,
                     &k->update_targets, &k->init_targets);
}

int kit_finish(struct kit *k, struct err *err)
{
    const int rc = finish_graph(k->graph, 0, &k->init_variables, err);

    return rc == 0 && k->failure.code < 0 ? err_pass(err, &k->failure) : rc;
}

/* ---- the interface ---- */

const struct stage *kit_stages(const struct algo *a, size_t *ret_n)
{
    const struct kit *k = (const struct kit *)(const void *)a;

    *ret_n = k->n_played;
    return k->stages;
}

void kit_reads(struct algo *a, struct reads *r)
{
    struct kit *k = kit_of(a);

    matrices_reads(&k->matrices, r);
    for (size_t i = 0; i < k->n_scales; i++)
        reward_scale_reads(k->scales[i], r);
}

const struct live *kit_lives(const struct algo *a, size_t *ret_n)
{
    const struct kit *k = (const struct kit *)(const void *)a;

    *ret_n = k->n_lives;
    return k->live;
}

int kit_init_values(struct algo *a, struct session *s, struct rng_key key,
                    struct err *err)
{
    struct operation *const ops[] = {kit_of(a)->init_variables, kit_of(a)->init_targets};

    return algo_run_each(s, ops, 2, key, err);
}

/* ---- a batch ---- */

static void begin_runs(struct batch *b)
{
    feeds_begin(&b->kit->feeds);
    b->fetched = (struct fetches){0};
}

struct batch batch_to_act(struct kit *k, struct session *s, const struct act_args *args,
                          struct err *err)
{
    struct batch b = {.kit = k, .session = s, .n = (int64_t)args->n_copies, .err = err};

    begin_runs(&b);
    return b;
}

void batch_fail(struct batch *b, int rc)
{
    if (b->rc == 0)
        b->rc = rc;
    b->n = 0;
}

void *batch_variable(struct batch *b, const struct variable *v)
{
    struct tensor t;
    const int rc = b->rc == 0 ? session_variable(b->session, v, &t, b->err) : b->rc;

    if (rc < 0)
        batch_fail(b, rc);
    return rc < 0 ? NULL : t.data;
}

static struct gathering gathering_of(const struct batch *b)
{
    return (struct gathering){.args = b->args,
                              .symmetry = b->symmetry,
                              .draw = b->draw,
                              .rows = b->rows,
                              .n = (size_t)b->n,
                              .place = b->place,
                              .group = b->group,
                              .sequences = (size_t)b->sequences,
                              .in_time = b->in_time};
}

/* Shows the batch's rows, or sequences, numbered from `first` on, under symmetries of their own. */
static void begin_rows(struct batch *b, int turned, uint64_t draw, uint64_t first)
{
    struct gathering g;
    int rc;

    b->symmetry = turned ? b->args->symmetry : NULL;
    b->draw = draw;
    g = gathering_of(b);
    matrices_begin(&b->kit->matrices, &g);
    rc = symmetry_draw(b->symmetry, draw, first,
                       (size_t)(b->sequences > 0 ? b->sequences : b->n), b->err);
    if (rc < 0)
        batch_fail(b, rc);
}

static void select_rows(struct batch *b, const uint32_t *place, uint64_t *rows, int64_t n,
                        int turned, uint64_t draw)
{
    if (b->rc < 0)
        return;
    for (int64_t i = 0; place != NULL && i < n; i++)
        rows[i] = place[i] == ROW_NOT_REQUESTED ? ROW_NONE : b->args->rows[place[i]];
    b->place = place;
    b->rows = place != NULL ? rows : b->args->rows;
    b->n = n;
    begin_rows(b, turned, draw, 0);
}

void batch_select(struct batch *b, const uint32_t *place, uint64_t *rows, int64_t n,
                  int turned, uint64_t draw)
{
    b->sequences = 0;
    b->in_time = 0;
    select_rows(b, place, rows, n, turned, draw);
}

void batch_select_sequences(struct batch *b, const uint32_t *place, uint64_t *rows,
                            int64_t n, int64_t sequences, uint64_t draw)
{
    b->sequences = sequences;
    b->in_time = 1;
    select_rows(b, place, rows, n, 1, draw);
}

void batch_leave_sequence(struct batch *b, int64_t r)
{
    if (b->rc == 0)
        symmetry_leave(b->symmetry, (size_t)r);
}

static void order_by_time(struct batch *b, int64_t length)
{
    const uint64_t *rows = b->rows;
    struct kit *k = b->kit;

    for (int64_t e = 0; e < b->sequences; e++) {
        int64_t t = 0;

        for (; t < length && rows[e * length + t] != ROW_NONE; t++) {
            k->order[t * b->sequences + e] = rows[e * length + t];
            k->order_place[t * b->sequences + e] = (uint32_t)(e * length + t);
        }
        for (; t <= length; t++) {
            k->order[t * b->sequences + e] = ROW_NONE;
            k->order_place[t * b->sequences + e] = ROW_NOT_REQUESTED;
        }
    }
}

void batch_in_time(struct batch *b)
{
    const int64_t n = b->n + b->sequences;
    struct kit *k = b->kit;

    if (b->rc < 0 || b->in_time)
        return;
    CHECK(b->sequences > 0);
    if ((size_t)n > k->order_room) {
        k->order = xreallocarray(k->order, (size_t)n, sizeof(*k->order));
        k->order_place =
            xreallocarray(k->order_place, (size_t)n, sizeof(*k->order_place));
        k->order_room = (size_t)n;
    }
    order_by_time(b, b->n / b->sequences);
    b->rows = k->order;
    b->place = k->order_place;
    b->n = n;
    b->in_time = 1;
    begin_rows(b, 1, b->draw, b->first);
}

/* The first n of its rows. */
static float *kit_take(struct batch *b, struct matrix *m, int64_t n)
{
    struct gathering g = gathering_of(b);
    float *ret = NULL;
    int rc;

    if (b->rc < 0)
        return NULL;
    g.n = (size_t)n;
    rc = matrix_take(m, &g, &ret, b->err);
    if (rc < 0)
        batch_fail(b, rc);
    return rc < 0 ? NULL : ret;
}

float *batch_take(struct batch *b, struct matrix *m)
{
    return kit_take(b, m, b->n);
}

float *batch_room(struct batch *b, struct matrix *m)
{
    float *ret = b->rc == 0 ? matrix_room(m, (size_t)b->n, b->err) : NULL;

    if (ret == NULL)
        batch_fail(b, ERR_NOMEM);
    return ret;
}

const uint8_t *batch_masks(const struct batch *b, const struct matrix *m)
{
    return b->rc == 0 && m != NULL ? matrix_masks(m) : NULL;
}

void batch_put_masks(struct batch *b, struct matrix *m, const uint8_t *allowed)
{
    if (b->rc == 0 && matrix_put_masks(m, allowed, (size_t)b->n, b->err) == NULL)
        batch_fail(b, ERR_NOMEM);
}

void batch_feed_part(struct batch *b, struct output x, struct matrix *m, int64_t first,
                     int64_t width)
{
    const float *data = batch_take(b, m);

    if (data != NULL)
        feeds_columns(&b->kit->feeds, x, data + first, b->n, width, matrix_width(m));
}

void batch_feed_first(struct batch *b, struct output x, struct matrix *m, int64_t rows)
{
    const float *data = kit_take(b, m, rows);

    if (data != NULL)
        feeds_add(&b->kit->feeds, x, data, rows, matrix_width(m));
}

void batch_feed(struct batch *b, struct output x, struct matrix *m)
{
    batch_feed_part(b, x, m, 0, matrix_width(m));
}

void batch_feed_data(struct batch *b, struct output x, const float *data, int64_t width)
{
    feeds_add(&b->kit->feeds, x, data, b->n, width);
}

void batch_feed_acting(struct batch *b, struct output x, const struct agent_id *id,
                       const struct act_args *args, struct matrix *room)
{
    float *with_id = id->width > 0 ? batch_room(b, room) : NULL;

    if (b->rc == 0)
        batch_feed_data(b, x, agent_id_behind(id, args, b->kit->self->obs, with_id),
                        b->kit->self->obs + id->width);
}

void batch_feed_live(struct batch *b, const struct live *l)
{
    feeds_live(&b->kit->feeds, l);
}

void batch_fetch_data(struct batch *b, struct output x, float *data, int64_t width)
{
    if (b->rc == 0)
        fetch_into(&b->fetched, x, tensor_view(DT_FLOAT, SHAPE(b->n, width), data));
}

void batch_fetch(struct batch *b, struct output x, struct matrix *m)
{
    batch_fetch_data(b, x, batch_room(b, m), matrix_width(m));
}

void batch_scalar(struct batch *b, const char *name, struct output x)
{
    if (b->rc == 0)
        fetch_scalar(&b->fetched, name, x);
}

static struct run_args collected(struct batch *b)
{
    static const struct stage_args acting;

    return collected_run(&b->kit->feeds, &b->fetched, b->args != NULL ? b->args : &acting,
                         NULL, 0);
}

void batch_run(struct batch *b)
{
    const struct run_args run = collected(b);
    int rc;

    if (b->rc == 0 && (rc = session_run(b->session, &run, b->fetched.value, b->err)) < 0)
        batch_fail(b, rc);
    begin_runs(b);
}

/* ---- steps ---- */

/* Creates the optimiser's table on first use; it depends on the stage's key alone, so a
 * respawned agent creates the same one. */
static int try_changes(struct batch *b, struct step *s, const struct run_args *run)
{
    float loss;
    int rc = 0;

    if (s->trials == NULL)
        rc = accept_reject_new(&s->trials, b->session, s->path,
                               rng_key_derive(b->args->key, "accept_reject"), b->err);
    if (rc == 0)
        rc = accept_reject_begin(s->trials, run, b->fetched.value, b->err);
    for (int64_t i = 0; i < s->optimizer->tries && rc >= 0; i++)
        rc = accept_reject_step(s->trials, s->rate->value, &loss, b->err);
    return rc < 0 ? rc : 0;
}

static int is_tried(const struct kit *k, size_t first)
{
    return k->share == NULL && k->step[first].train == NULL;
}

void batch_step_quietly(struct batch *b, size_t first, size_t n)
{
    struct kit *k = b->kit;
    struct step *s = &k->step[first];
    struct operation *train[KIT_MAX_STEPS];
    const int tries = is_tried(k, first);
    struct run_args run;
    int rc;

    if (b->rc < 0)
        return;
    if (!tries && kit_makes_steps(k)) {
        /* what only who makes the steps feeds and reports */
        batch_feed_live(b, b->kit->clip_norm);
        for (size_t i = 0; i < n; i++) {
            batch_feed_live(b, s[i].rate);
            if (s[i].norm_name != NULL)
                batch_scalar(b, s[i].norm_name, s[i].norm);
        }
    }
    for (size_t i = 0; i < n; i++)
        train[i] = s[i].train;
    run = collected(b);
    run.targets = train;
    run.n_targets = tries ? 0 : n;
    rc = tries ? try_changes(b, s, &run)
               : share_step(k->share, (struct share_range){first, n}, b->session, &run,
                            b->fetched.value, b->args, k->divisor, b->err);
    if (rc < 0)
        batch_fail(b, rc);
}

void batch_forget(struct batch *b)
{
    begin_runs(b);
}

void batch_report_rates(struct batch *b, size_t first, size_t n)
{
    const struct step *s = &b->kit->step[first];
    const int reports = is_tried(b->kit, first) || kit_makes_steps(b->kit);

    for (size_t i = 0; b->rc == 0 && reports && i < n; i++)
        if (s[i].rate_name != NULL)
            stage_scalar(b->ret, s[i].rate_name, (double)s[i].rate->value);
}

void batch_step(struct batch *b, size_t first, size_t n)
{
    batch_step_quietly(b, first, n);
    if (b->rc == 0)
        fetches_report(&b->fetched, b->ret);
    batch_report_rates(b, first, n);
    begin_runs(b);
}

void batch_assign(struct batch *b, size_t first, size_t n)
{
    const int rc = share_assign(b->kit->share, (struct share_range){first, n}, b->session,
                                b->args, b->err);

    if (rc < 0)
        batch_fail(b, rc);
}

void batch_show(struct batch *b, const char *name, double value)
{
    if (b->rc == 0)
        stage_scalar(b->ret, name, value);
}

static void run_operation(struct batch *b, struct operation *op)
{
    const int rc = b->rc == 0 ? feeds_run(&b->kit->feeds, b->session, op, b->err) : b->rc;

    if (rc < 0)
        batch_fail(b, rc);
    begin_runs(b);
}

void batch_move_targets(struct batch *b)
{
    const uint64_t every = (uint64_t)b->kit->settings->target_every;

    if (every == 0) {
        batch_feed_live(b, b->kit->polyak);
        run_operation(b, b->kit->update_targets);
    } else if ((b->args->update + 1) % every == 0) {
        run_operation(b, b->kit->init_targets);
    }
}

void kit_move_targets(struct algo *a, struct batch *b)
{
    batch_move_targets(b);
}

/* ---- what is computed from the rows ---- */

void batch_draw_normal(struct batch *b, struct matrix *m, const char *label)
{
    float *x = batch_room(b, m);

    rng_normal_f32(rng_key_derive(b->args->key, label), b->args->counter, 0, x,
                   (size_t)(b->n * matrix_width(m)));
}

void batch_draw_uniform(struct batch *b, struct matrix *m, const char *label)
{
    float *x = batch_room(b, m);

    rng_uniform_f32(rng_key_derive(b->args->key, label), b->args->counter, 0, x,
                    (size_t)(b->n * matrix_width(m)));
}

void batch_leave_out_absent(struct batch *b, struct matrix *actions)
{
    const float *alive = batch_take(b, b->kit->alive);
    const float *terminated = batch_take(b, b->kit->terminated);
    const int64_t width = matrix_width(actions);
    float *x = batch_take(b, actions);

    for (int64_t i = 0; i < b->n; i++)
        if (alive[i] == 0 || terminated[i] == 1)
            memset(x + i * width, 0, (size_t)width * sizeof(*x));
}

void batch_output(struct batch *b, const char *name, struct matrix *m)
{
    float *x = batch_take(b, m);

    if (x != NULL)
        stage_output(b->ret, name,
                     tensor_view(DT_FLOAT,
                                 SHAPE(b->args->groups, b->args->batch * b->args->length,
                                       matrix_width(m)),
                                 x));
}

const void *batch_input(struct batch *b, const char *agent, const char *name,
                        enum dtype dtype, int64_t elements)
{
    const struct tensor *t =
        b->rc == 0 ? b->args->input(b->args->input_ctx, agent, name) : NULL;

    if (t != NULL && t->dtype == dtype && tensor_elements(t) == elements)
        return t->data;
    if (b->rc == 0)
        batch_fail(b, err_set(b->err, ERR_PROTOCOL, "input %s/%s: %lld %s expected",
                              agent, name, (long long)elements, dtype_name(dtype)));
    return NULL;
}

void batch_scale(struct batch *b, struct reward_scale *scale, float *reward)
{
    struct reward_scaling by;
    int rc = b->rc;

    if (rc == 0)
        rc = reward_scale_read(scale, b->session, b->args, &by, b->err);
    if (rc < 0)
        batch_fail(b, rc);
    else
        reward_scale_apply(&by, reward, b->n);
}

void batch_targets(struct batch *b, struct matrix *next)
{
    struct kit *k = b->kit;
    const float *value = batch_take(b, next);
    const float *terminated = batch_take(b, k->terminated);
    float *reward = batch_take(b, k->reward), *target = batch_room(b, k->target);

    batch_scale(b, k->scale, reward);
    if (b->rc < 0)
        return;
    matrix_spoil(k->reward);
    rows_targets(target, reward, terminated, value, k->discount->value, b->n, b->ret);
}

/* Divides the weights by their mean over the rows; a sum below 1 counts as 1. Returns the
 * sum, or 0 if all weights are 0. */
static float divide_by_mean(float *weight, int64_t n)
{
    double sum = 0;
    float scale;

    for (int64_t i = 0; i < n; i++)
        sum += (double)weight[i];
    scale = (float)((double)n / fmax(sum, 1));
    for (int64_t i = 0; i < n; i++)
        weight[i] *= scale;
    return sum > 0 ? (float)fmax(sum, 1) : 0;
}

void batch_weigh(struct batch *b, enum weighing by)
{
    const float *alive = batch_take(b, b->kit->alive);
    float *weight = batch_room(b, b->kit->weight);

    if (b->rc < 0)
        return;
    rows_weights(weight, b->weights, alive, b->n);
    b->kit->divisor = by == WEIGH_MEAN     ? divide_by_mean(weight, b->n)
                      : by == WEIGH_SHARES ? rows_mean(weight, b->n)
                                           : 1;
}

void batch_report_errors(struct batch *b, struct matrix *error)
{
    const float *weight = batch_take(b, b->kit->weight);
    float *x = batch_take(b, error);

    if (b->rc < 0)
        return;
    rows_td_error(x, weight, b->n, b->ret);
    if (b->weights != NULL)
        rows_priorities(x, weight, b->n, b->ret);
}

/* ---- the stages ---- */

static size_t steps_of(const struct kit *k, const struct update *u)
{
    return u->n > 0 ? u->n : k->n_steps - u->first;
}

/* A stage of the updates: the one that it makes; or what a ps or a member does after it. */
static void run_update(struct algo *a, struct batch *b, const struct update *u)
{
    struct kit *k = b->kit;

    if (u->is_due != NULL && !u->is_due(a, b->args->update))
        return;
    k->divisor = 1;
    if (k->share == NULL || !b->args->stage->writes) {
        u->run(a, b);
    } else if (share_is_ps(k->share)) {
        batch_step(b, u->first, steps_of(k, u));
    } else {
        /* A member takes over the values that the ps has found. */
        int rc = 0;

        batch_assign(b, u->first, steps_of(b->kit, u));
        /* `gradients` could not store what it counted */
        if (b->rc == 0 && u->scales_rewards)
            rc = reward_scale_read(b->kit->scale, b->session, b->args, NULL, b->err);
        if (rc < 0)
            batch_fail(b, rc);
        if (b->rc == 0 && u->after != NULL)
            u->after(a, b);
    }
    if (k->share == NULL && u->after != NULL)
        u->after(a, b);
}

static int check_rows(const struct batch *b)
{
    const struct kit *k = b->kit;
    const struct kit_plan *plan = k->plan;
    int rc;

    if (plan->rows == ROWS_WINDOW)
        return rows_check_window(b->args, k->settings->minibatches, b->err);
    rc = plan->rows == ROWS_EPISODES ? rows_check_episodes(b->args, k->n_agents, b->err)
                                     : rows_check(b->args, k->n_agents, b->err);
    if (rc == 0 && plan->one_batch && b->args->groups != 1)
        rc = err_set(b->err, ERR_ARG, "%s: a team learns from one batch",
                     k->config->algorithm);
    return rc;
}

/* The rows of the request, or those of the agent's group. */
static int take_rows(struct batch *b, int of_all_groups)
{
    const struct stage_args *args = b->args;
    struct kit *k = b->kit;
    int rc = check_rows(b);

    if (rc < 0)
        return rc;
    b->group = of_all_groups ? 0 : rows_group(args, k->index);
    b->n = args->batch * args->length * (of_all_groups ? args->groups : 1);
    b->sequences = k->plan->rows == ROWS_EPISODES ? args->batch : 0;
    b->first = (uint64_t)(b->group * args->batch);
    b->rows = args->rows + b->group * args->batch * args->length;
    b->weights = args->weights != NULL ? args->weights + b->first : NULL;
    begin_rows(b, k->plan->rows != ROWS_WINDOW, args->update, b->first);
    return b->rc;
}

int kit_stage(struct algo *a, struct session *s, const struct stage_args *args,
              struct stage_result *ret, struct err *err)
{
    struct kit *k = kit_of(a);
    const size_t i = (size_t)(args->stage - k->stages);
    const struct stage_of *row = k->row_of[i];
    const int without_rows =
        row != NULL ? row->without_rows : k->share != NULL && args->stage->writes;
    struct batch b = {.kit = k, .session = s, .args = args, .ret = ret, .err = err};
    int rc = lives_read(k->live, k->n_lives, s, args->step, err);

    begin_runs(&b);
    if (rc == 0 && !without_rows)
        rc = take_rows(&b, row != NULL && row->of_all_groups);
    if (rc < 0)
        return rc;
    if (row != NULL)
        row->run(a, &b);
    for (size_t u = 0; row == NULL && u < k->plan->n_updates; u++)
        if (k->share != NULL ? u == args->repeat : k->played_in[u] == i)
            run_update(a, &b, &k->plan->updates[u]);
    return b.rc;
}
