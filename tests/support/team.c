#include "tests/support/team.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"
#include "tests/support/agent_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define OK(call, err) CHECK((call) >= 0, "%s", (err).msg)

struct team_args team_spread(const char *config, uint64_t n_rows)
{
    return (struct team_args){
        .n = 3,
        .obs = 18,
        .space = {.width = 5, .particle = 1, .n_heads = 1, .heads = {5}, .high = 1},
        .config = config,
        .seed = 7,
        .n_rows = n_rows};
}

/* ---- the log ---- */

static void add_column(struct team *t, const char *agent, const char *name,
                       enum dtype dtype, int64_t n)
{
    char full[STORE_COLUMN_NAME_MAX];
    struct err err;

    (void)snprintf(full, sizeof(full), "%s/%s", agent, name);
    OK(store_layout_add(&t->layout, full, dtype, (uint32_t)n, &err), err);
}

/* In the order of common/store/layout.h. */
static void make_layout(struct team *t)
{
    static const char *const names[] = {"obs",    "action",     "next_obs",
                                        "reward", "terminated", "alive"};
    static const char *const masks[] = {"allowed", "next_allowed"};
    struct err err;

    for (size_t c = 0; c < sizeof(names) / sizeof(names[0]); c++) {
        for (size_t i = 0; i < t->args.n; i++) {
            const struct space *s = &t->spaces[i];

            add_column(t, s->name, names[c], DT_FLOAT,
                       c == 0 || c == 2 ? s->obs
                       : c == 1         ? s->width
                                        : 1);
        }
    }
    for (size_t c = 0; t->args.space.masked && c < 2; c++)
        for (size_t i = 0; i < t->args.n; i++)
            add_column(t, t->spaces[i].name, masks[c], DT_UINT8, t->spaces[i].width);
    OK(store_layout_add(&t->layout, "truncated", DT_FLOAT, 1, &err), err);
    OK(store_layout_add(&t->layout, "first", DT_FLOAT, 1, &err), err);
    for (size_t c = 0; c < t->n_columns; c++)
        for (size_t i = 0; i < t->args.n; i++)
            add_column(t, t->spaces[i].name, t->columns[c].name, DT_FLOAT,
                       t->columns[c].elements);
}

static void write_at(struct team *t, const void *p, size_t n, uint64_t offset)
{
    CHECK(pwrite(t->log_fd, p, n, (off_t)offset) == (ssize_t)n);
}

static void write_column(struct team *t, uint64_t row, size_t agent, const char *column,
                         enum dtype dtype, const void *values)
{
    const int found = store_layout_find(&t->layout, t->spaces[agent].name, column);
    const struct store_column *c = &t->layout.columns[found];

    CHECK(found >= 0 && c->dtype == dtype, "%s", column);
    write_at(t, values, c->elements * dtype_size(dtype),
             STORE_HEADER_BYTES + row * t->layout.row_bytes + c->offset);
}

int team_is_gone(const struct team *t, uint64_t row, size_t agent)
{
    float alive, terminated;

    store_view_gather(t->store,
                      store_layout_find(&t->layout, t->spaces[agent].name, "alive"), &row,
                      1, &alive, 1);
    store_view_gather(t->store,
                      store_layout_find(&t->layout, t->spaces[agent].name, "terminated"),
                      &row, 1, &terminated, 1);
    return alive == 0 || terminated == 1;
}

void team_write(struct team *t, uint64_t row, size_t agent, const char *column,
                const float *values)
{
    write_column(t, row, agent, column, DT_FLOAT, values);
}

void team_write_joint(struct team *t, uint64_t row, const char *column, float value)
{
    const int found = store_layout_find(&t->layout, NULL, column);

    CHECK(found >= 0, "%s", column);
    write_at(t, &value, sizeof(value),
             STORE_HEADER_BYTES + row * t->layout.row_bytes +
                 t->layout.columns[found].offset);
}

void team_write_mask(struct team *t, uint64_t row, size_t agent, const char *column,
                     const uint8_t *values)
{
    write_column(t, row, agent, column, DT_UINT8, values);
}

/* Masks that allow everything. */
static void open_masks(struct team *t, uint64_t row, size_t agent)
{
    uint8_t all[512];

    CHECK((size_t)t->spaces[agent].width <= sizeof(all));
    memset(all, 1, sizeof(all));
    team_write_mask(t, row, agent, "allowed", all);
    team_write_mask(t, row, agent, "next_allowed", all);
}

/* Observations in [-1, 1), one-hot actions, rewards in [-1, 0), one end in ten. */
static void fill_rows(struct team *t)
{
    float x[512];

    for (uint64_t row = 0; row < t->args.n_rows; row++) {
        for (size_t i = 0; i < t->args.n; i++) {
            const struct space *s = &t->spaces[i];
            const struct rng_key key = rng_key_make(t->args.seed, s->name, "test rows");
            const size_t obs = (size_t)s->obs, width = (size_t)s->width;
            float one = 1, reward, end;
            uint64_t move;

            CHECK(2 * obs + 2 < sizeof(x) / sizeof(x[0]));
            rng_uniform_f32(key, row, 0, x, 2 * obs + 2);
            for (size_t k = 0; k < 2 * obs; k++)
                x[k] = 2 * x[k] - 1;
            team_write(t, row, i, "obs", x);
            team_write(t, row, i, "next_obs", x + obs);
            reward = -x[2 * obs];
            end = x[2 * obs + 1] < 0.1f;
            team_write(t, row, i, "reward", &reward);
            team_write(t, row, i, "terminated", &end);
            team_write(t, row, i, "alive", &one);
            rng_below(key, row, 4096, width, &move, 1);
            memset(x, 0, width * sizeof(float));
            x[move] = 1;
            team_write(t, row, i, "action", x);
            if (s->masked)
                open_masks(t, row, i);
        }
    }
}

static void make_log(struct team *t)
{
    static uint8_t header[STORE_HEADER_BYTES];
    struct err err;

    make_layout(t);
    t->log_fd = memfd_create("test log", MFD_CLOEXEC);
    CHECK(t->log_fd >= 0);
    store_layout_encode(&t->layout, header);
    write_at(t, header, sizeof(header), 0);
    CHECK(ftruncate(t->log_fd, (off_t)(STORE_HEADER_BYTES +
                                       t->args.n_rows * t->layout.row_bytes)) == 0);
    fill_rows(t);
    OK(store_view_open(&t->store, t->log_fd, &err), err);
}

void team_find_reads(const struct team *t, struct member *m)
{
    struct err err;

    if (m->ops == NULL)
        return;
    if (m->ops->reads != NULL && (m->share == NULL || !share_is_ps(m->share)))
        m->ops->reads(m->algo, &m->reads);
    OK(reads_find(&m->reads, &t->layout, &err), err);
}

int team_run_stage(struct team *t, struct member *m, const struct stage_args *args,
                   struct stage_result *ret, struct err *err)
{
    int rc;

    reads_restrict(&m->reads, t->store);
    rc = m->ops->stage(m->algo, m->session, args, ret, err);
    store_view_show_all(t->store);
    return rc;
}

/* ---- members ---- */

/* Joins the sharing group, as agent/loop/configure.c does. */
static struct share *join_group(struct team *t, size_t i)
{
    const struct share_group group = {
        .ps = t->spaces[t->args.n].name, .members = t->places, .n = t->args.n, .self = i};
    char scope[AGENT_NAME_MAX + 1], ps_scope[AGENT_NAME_MAX + 1];

    (void)snprintf(scope, sizeof(scope), "%s/", t->spaces[i].name);
    (void)snprintf(ps_scope, sizeof(ps_scope), "%s/", group.ps);
    graph_alias_draws(t->members[i].graph, scope, ps_scope);
    t->members[i].share = share_new(&group);
    return t->members[i].share;
}

static void make_group(struct team *t)
{
    const size_t n = t->args.n;

    for (size_t i = 0; i < n; i++)
        t->places[i] = i;
    t->spaces[n] = t->spaces[0];
    (void)snprintf(t->spaces[n].name, AGENT_NAME_MAX, "agent_ps");
    t->shared = mmap(NULL, TEAM_SHARED_BYTES, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(t->shared != MAP_FAILED);
}

static void make_member(struct team *t, size_t i)
{
    const struct algo_ops *ops = algo_find(t->config.algorithm);
    const struct session_options options = {0};
    struct member *m = &t->members[i];
    struct err err;
    struct algo_args args = {.graph = m->graph = graph_new(),
                             .config = &t->config,
                             .settings = &t->settings,
                             .agents = t->spaces,
                             .n_agents = t->args.n,
                             .window_rows = t->args.window_rows,
                             .copies = t->args.copies,
                             .self = i,
                             .max_steps = t->args.max_steps};
    const char *drawn_as = t->spaces[t->args.share ? t->args.n : i].name;

    CHECK(ops != NULL, "%s", t->config.algorithm);
    m->ops = ops;
    if (t->args.share)
        args.share = join_group(t, i);
    args.ops = ops;
    OK(algo_new(&m->algo, &args, &err), err);
    if (t->args.share)
        OK(share_set_memory(m->share, t->shared, TEAM_SHARED_BYTES, &err), err);
    OK(session_new(&m->session, m->graph, &options, &err), err);
    OK(session_fix_layout(m->session, &err), err);
    OK(ops->init(m->algo, m->session, rng_key_make(t->args.seed, drawn_as, PURPOSE_INIT),
                 &err),
       err);
}

struct team *team_new(const struct team_args *args)
{
    struct team *t = xcalloc(1, sizeof(*t));
    struct err err;

    CHECK(args->n <= TEAM_MAX);
    t->args = *args;
    OK(agent_config_from_text(&t->read, args->config, &err), err);
    t->config = t->read.defaults;
    algorithm_settings_read(&t->settings, &t->config);
    for (size_t i = 0; i < args->n; i++) {
        t->spaces[i] = args->space;
        t->spaces[i].obs = args->obs;
        (void)snprintf(t->spaces[i].name, AGENT_NAME_MAX, "agent_%zu", i);
        (void)snprintf(t->spaces[i].team, AGENT_NAME_MAX, "%s",
                       args->apart ? t->spaces[i].name : "agent");
        t->spaces[i].symmetric = args->symmetry != NULL;
        t->spaces[i].other = args->others >> i & 1;
    }
    if (args->symmetry != NULL)
        OK(symmetry_new(&t->symmetry, args->symmetry, t->spaces, args->n,
                        rng_key_make(args->seed, "experience", PURPOSE_SYMMETRY), &err),
           err);
    t->slot = SLOT_NONE;
    if (args->share)
        make_group(t);
    for (size_t i = 0; i < args->n + (args->share != 0); i++)
        if (!t->spaces[i].other)
            make_member(t, i);
    for (size_t i = 0; i < args->n && t->n_columns == 0; i++)
        if (t->members[i].ops != NULL && t->members[i].ops->columns != NULL)
            t->n_columns = t->members[i].ops->columns(t->members[i].algo, t->columns);
    make_log(t);
    for (size_t i = 0; i < args->n + (args->share != 0); i++)
        team_find_reads(t, &t->members[i]);
    return t;
}

void team_free(struct team *t)
{
    for (size_t i = 0; i < t->args.n + (t->args.share != 0); i++) {
        struct member *m = &t->members[i];

        tensor_free(&m->proposal);
        tensor_free(&m->log_prob);
        tensor_free(&m->priorities);
        reads_done(&m->reads);
        algo_free(m->ops, m->algo);
        share_free(m->share);
        session_free(m->session);
        graph_free(m->graph);
    }
    if (t->shared != NULL)
        (void)munmap(t->shared, TEAM_SHARED_BYTES);
    symmetry_free(t->symmetry);
    store_view_close(t->store);
    store_layout_done(&t->layout);
    (void)close(t->log_fd);
    run_config_done(&t->read);
    free(t);
}

/* ---- stages ---- */

static const struct tensor *find_proposal(void *ctx, const char *agent, const char *name)
{
    const struct team *t = ctx;

    for (size_t i = 0; i < t->args.n; i++) {
        const struct member *m = &t->members[i];
        const struct tensor *x = strcmp(name, "action") == 0     ? &m->proposal
                                 : strcmp(name, "log_prob") == 0 ? &m->log_prob
                                                                 : NULL;

        if (x != NULL && strcmp(t->spaces[i].name, agent) == 0)
            return x->data != NULL ? x : NULL;
    }
    return NULL;
}

struct rng_key team_stage_key(const struct team *t, size_t member, const char *stage)
{
    char purpose[64];

    (void)snprintf(purpose, sizeof(purpose), PURPOSE_STAGE_PREFIX "%s", stage);
    return rng_key_make(t->args.seed, t->spaces[member].name, purpose);
}

static const struct stage *find_stage(const struct member *m, const char *name)
{
    size_t n;
    const struct stage *s = m->ops->stages(m->algo, &n);

    for (size_t i = 0; i < n; i++)
        if (strcmp(s[i].name, name) == 0)
            return &s[i];
    return NULL;
}

/* The repetitions of the range of stages that this stage belongs to. */
static uint64_t repeats_of(const struct member *m, const struct stage *stage)
{
    size_t n;
    const struct stage *s = m->ops->stages(m->algo, &n);
    const int self = (int)(stage - s);

    for (size_t i = (size_t)self; i < n; i++)
        if (s[i].repeat > 1 && s[i].repeat_from <= self)
            return (uint64_t)s[i].repeat;
    return 1;
}

int team_stage(struct team *t, size_t member, const char *stage, uint64_t update,
               const uint64_t *rows, int64_t groups, int64_t batch, const float *weights,
               struct stage_result *ret, struct err *err)
{
    struct member *m = &t->members[member];
    const struct stage *found = find_stage(m, stage);
    const struct stage_args args = {
        .stage = found,
        .step = update,
        .update = update,
        .repeat = t->repeat,
        .slot = t->slot,
        .groups = groups,
        .batch = batch,
        .length = 1,
        .rows = rows,
        .weights = weights,
        .store = t->store,
        .key = team_stage_key(t, member, stage),
        .permutation =
            rng_key_make(t->args.seed, t->spaces[member].name, PURPOSE_PERMUTATION),
        .counter = found != NULL ? update * repeats_of(m, found) + t->repeat : 0,
        .symmetry = t->symmetry,
        .input = find_proposal,
        .input_ctx = t};

    CHECK(args.stage != NULL, "%s", stage);
    *ret = (struct stage_result){0};
    return team_run_stage(t, m, &args, ret, err);
}

static void add_scalars(struct stage_result *to, const struct stage_result *from)
{
    for (int i = 0; i < from->n_scalars; i++)
        to->scalar[to->n_scalars++] = from->scalar[i];
}

static void keep(struct tensor *place, const struct tensor *value)
{
    struct err err;

    tensor_free(place);
    OK(tensor_copy(place, value, &err), err);
}

/* Runs all stages that write, in their order. */
static void team_learn(struct team *t, size_t member, uint64_t update,
                       const uint64_t *rows, int64_t groups, int64_t batch,
                       const float *weights)
{
    struct member *m = &t->members[member];
    struct stage_result res;
    struct err err;
    size_t n;
    const struct stage *s = m->ops->stages(m->algo, &n);

    m->learned = (struct stage_result){0};
    for (size_t i = 0; i < n; i++) {
        if (!s[i].writes)
            continue;
        OK(team_stage(t, member, s[i].name, update, rows, groups, batch, weights, &res,
                      &err),
           err);
        add_scalars(&m->learned, &res);
        if (res.priorities.data != NULL)
            keep(&m->priorities, &res.priorities);
    }
}

static void keep_outputs(struct member *m, const struct stage_result *res)
{
    add_scalars(&m->learned, res);
    if (res->priorities.data != NULL)
        keep(&m->priorities, &res->priorities);
    if (res->n_outputs > 0)
        keep(&m->proposal, &res->output[0].value);
    if (res->n_outputs > 1)
        keep(&m->log_prob, &res->output[1].value);
}

/* Runs stage by stage, with the repetitions that the list names. */
static void update_group(struct team *t, uint64_t update, const uint64_t *rows,
                         int64_t groups, int64_t batch, const float *weights)
{
    size_t n;
    const struct stage *s = t->members[0].ops->stages(t->members[0].algo, &n);
    struct stage_result res;
    struct err err;

    for (size_t i = 0; i <= t->args.n; i++)
        t->members[i].learned = (struct stage_result){0};
    t->repeat = 0;
    for (size_t k = 0; k < n; k++) {
        const int is_ps = s[k].runner == STAGE_PS;

        t->slot = (update * repeats_of(&t->members[0], &s[k]) + t->repeat) %
                  SHARE_RING_MIN_SLOTS;
        for (size_t i = is_ps ? t->args.n : 0; i < t->args.n + is_ps; i++) {
            OK(team_stage(t, i, s[k].name, update, rows, groups, batch, weights, &res,
                          &err),
               err);
            keep_outputs(&t->members[i], &res);
        }
        if (t->repeat + 1 < (uint64_t)s[k].repeat) {
            t->repeat++;
            k = (size_t)s[k].repeat_from - 1; /* back to the range's first stage */
        }
    }
    t->repeat = 0;
}

void team_update(struct team *t, uint64_t update, const uint64_t *rows, int64_t groups,
                 int64_t batch, const float *weights)
{
    struct err err;

    if (t->args.share) {
        update_group(t, update, rows, groups, batch, weights);
        return;
    }
    for (size_t i = 0; i < t->args.n; i++) {
        struct member *m = &t->members[i];
        struct stage_result res;

        if (find_stage(m, "propose") == NULL)
            continue;
        OK(team_stage(t, i, "propose", update, rows, groups, batch, weights, &res, &err),
           err);
        keep(&m->proposal, &res.output[0].value);
        if (res.n_outputs > 1)
            keep(&m->log_prob, &res.output[1].value);
    }
    for (size_t i = 0; i < t->args.n; i++)
        team_learn(t, i, update, rows, groups, batch, weights);
}

double team_scalar(const struct member *m, const char *name)
{
    for (int i = 0; i < m->learned.n_scalars; i++)
        if (strcmp(m->learned.scalar[i].name, name) == 0)
            return m->learned.scalar[i].value;
    CHECK(0, "no scalar %s", name);
    return 0;
}

struct tensor team_variable(struct team *t, size_t member, const char *name)
{
    struct member *m = &t->members[member];
    struct tensor ret;
    struct variable *v;
    struct err err;
    char full[256];

    (void)snprintf(full, sizeof(full), "%s/%s", t->spaces[member].name, name);
    v = variable_find(m->graph, full);
    CHECK(v != NULL, "%s", full);
    OK(session_variable(m->session, v, &ret, &err), err);
    return ret;
}
