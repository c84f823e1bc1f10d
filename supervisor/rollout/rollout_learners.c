/* The groups of agents that learn together: when their updates are due, and their rows. */
#include "supervisor/rollout/rollout_internal.h"

#include "common/config/algorithms.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- rows ---- */

/* Each member whose settings ask for it (FIELD_OWN_ROWS) has a key of its own for drawing
 * rows; the others share one. */
static size_t name_draws(const struct run_config *c, const struct learning_groups *groups,
                         size_t group, const char **ret)
{
    size_t n = 1;

    ret[0] = groups->group[group].draws;
    for (size_t a = 0; a < c->n_agents; a++) {
        const int own = groups->group_of[a] == group &&
                        agent_setting_marked(&c->agents[a], FIELD_OWN_ROWS) > 0;

        ret[a] = own ? c->agents[a].name : groups->group[group].draws;
        n = own ? c->n_agents : n;
    }
    return n;
}

static int is_prioritised(const struct run_config *c, const struct description *d)
{
    return c->experience.has_priority && d->rows != ROWS_WINDOW;
}

static int make_source(struct row_source *ret, const struct run_config *c,
                       const struct env_spec *spec, size_t copies,
                       const struct learning_groups *groups, size_t group,
                       const struct description *d, struct err *err)
{
    const size_t first = groups->group[group].first;
    const struct experience_config x = run_config_experience(c, first);
    const char **names = xcalloc(c->n_agents + 1, sizeof(*names));
    struct row_source_args args = {
        .kind = d->rows,
        .length = d->length,
        .batch = (size_t)x.batch_size,
        .copies = copies > 0 ? copies : 1,
        .update_every = (size_t)x.update_every,
        .max_steps = (uint64_t)spec->max_steps,
        .seed = c->run.seed,
        .names = names,
        .is_prioritised = is_prioritised(c, d),
    };
    int rc;

    args.groups = name_draws(c, groups, group, names);
    rc = row_source_init(ret, &args, err);
    free(names);
    return rc;
}

int rollout_make_sources(struct rollout *r, struct err *err)
{
    int rc = 0;

    for (size_t g = 0; g < r->groups.n && rc == 0; g++) {
        const struct experience_config x =
            run_config_experience(r->config, r->groups.group[g].first);
        const struct description *d = r->plan.of[g];
        struct learners *l = &r->learners[g];

        if (d == NULL)
            continue;
        rc =
            make_source(&l->source, r->config, r->spec, r->copies, &r->groups, g, d, err);
        l->interval = (struct update_interval){
            .warmup = d->rows == ROWS_WINDOW ? 0 : (uint64_t)x.warmup,
            .every = (uint64_t)x.update_every};
    }
    return rc;
}

/* The exponent of the weights, which goes from beta to beta_to. */
static double beta_now(const struct rollout *r)
{
    const struct priority_config *p = &r->config->experience.priority;
    double done = p->over > 0            ? (double)r->env_steps / p->over
                  : p->over_episodes > 0 ? (double)r->episodes / p->over_episodes
                                         : 0.0;

    done = done < 1.0 ? done : 1.0;
    return p->beta + (p->beta_to - p->beta) * done;
}

/* What the group's source needs to find rows. */
static struct row_index index_of(const struct rollout *r, const struct learners *l)
{
    return (struct row_index){.store = r->args.store,
                              .episodes = r->episode_rows,
                              .priorities = l->priorities,
                              .beta = beta_now(r)};
}

/* ---- life ---- */

int rollout_make_learners(struct rollout *r, struct err *err)
{
    int needs_episodes = 0, rc;

    r->learners = xcalloc(r->groups.n + 1, sizeof(*r->learners));
    rc = rollout_make_sources(r, err);
    if (rc < 0)
        return rc;
    for (size_t g = 0; g < r->groups.n; g++)
        needs_episodes |=
            r->plan.of[g] != NULL && row_source_needs_episodes(&r->learners[g].source);
    if (r->serving == NULL && needs_episodes) {
        /* a resumed run reads its episodes from the log (rollout_state_load) */
        r->episode_rows = episodes_new(r->copies);
        r->ended = xcalloc(r->copies, 1);
    }
    for (size_t g = 0; g < r->groups.n; g++) {
        struct learners *l = &r->learners[g];

        l->order = xcalloc(r->n_agents, sizeof(*l->order));
        if (r->plan.of[g] == NULL || !is_prioritised(r->config, r->plan.of[g]) ||
            r->serving != NULL)
            continue;
        l->priorities = priorities_new((uint64_t)r->config->experience.capacity,
                                       r->config->experience.priority.alpha);
        l->answered = xcalloc(r->n_agents * l->source.batch, sizeof(*l->answered));
        l->has_answered = xcalloc(r->n_agents, 1);
    }
    return 0;
}

void rollout_free_learners(struct rollout *r)
{
    for (size_t g = 0; r->learners != NULL && g < r->groups.n; g++) {
        struct learners *l = &r->learners[g];

        row_source_done(&l->source);
        priorities_free(l->priorities);
        free(l->answered);
        free(l->has_answered);
        free(l->order);
    }
    free(r->learners);
}

/* ---- updates ---- */

uint64_t rollout_find_due(struct rollout *r, const struct due_at *now)
{
    uint64_t most = 0;

    for (size_t g = 0; g < r->groups.n; g++) {
        struct learners *l = &r->learners[g];
        const struct row_index index = index_of(r, l);

        l->due = r->plan.of[g] != NULL ? due_updates(&l->interval, now) : 0;
        if (l->due > 0 && !row_source_is_ready(&l->source, &index))
            l->due = 0;
        most = l->due > most ? l->due : most;
    }
    return most;
}

static void draw_turns(const struct rollout *r, size_t group)
{
    const struct rng_key key = rng_key_make(
        r->config->run.seed, r->groups.group[group].draws, PURPOSE_PERMUTATION);
    const struct learners *l = &r->learners[group];

    for (int i = 0; i < r->plan.n; i++)
        if (r->plan.stage[i].group == group && r->plan.stage[i].turns) {
            rng_permutation(key, l->updates, l->order, r->n_agents);
            return;
        }
}

void rollout_draw(struct rollout *r)
{
    for (size_t g = 0; g < r->groups.n; g++) {
        struct learners *l = &r->learners[g];
        const struct row_index index = index_of(r, l);

        l->takes_part = l->due > r->fsm.due.updates;
        if (!l->takes_part)
            continue;
        draw_turns(r, g);
        row_source_draw(&l->source, &index, l->updates);
        if (l->priorities != NULL)
            memset(l->has_answered, 0, r->n_agents);
    }
}

void rollout_count_update(struct rollout *r)
{
    for (size_t g = 0; g < r->groups.n; g++) {
        struct learners *l = &r->learners[g];

        if (!l->takes_part)
            continue;
        if (l->priorities != NULL)
            row_source_prioritise(&l->source, l->priorities, l->answered, l->has_answered,
                                  r->n_agents);
        l->updates++;
    }
    r->updates++;
}

/* ---- candidates of draws by priority ---- */

void rollout_add_to_priorities(struct rollout *r)
{
    const uint64_t row = store_head(r->args.store) - r->copies;

    for (size_t g = 0; g < r->groups.n; g++) {
        struct learners *l = &r->learners[g];

        if (l->priorities == NULL)
            continue;
        priorities_append(l->priorities, row, r->copies);
        for (size_t e = 0; e < r->copies; e++) {
            uint64_t first = row + e;

            if (l->source.kind == ROWS_TRANSITIONS ||
                episodes_newest(r->episode_rows, e, &first))
                priorities_add(l->priorities, first);
        }
    }
}

static void begin_priorities(const struct rollout *r, struct learners *l)
{
    const uint64_t head = store_head(r->args.store);
    uint64_t row = store_window_first(r->args.store), n;

    if (l->priorities == NULL || head == 0 || priorities_count(l->priorities) > 0)
        return;
    priorities_begin(l->priorities, head);
    if (l->source.kind == ROWS_TRANSITIONS) {
        for (; row < head; row++)
            priorities_add(l->priorities, row);
        return;
    }
    n = episodes_complete(r->episode_rows);
    for (uint64_t k = 0; k < n; k++) {
        episodes_rows(r->episode_rows, k, &row, 1);
        priorities_add(l->priorities, row);
    }
}

void rollout_begin_priorities(struct rollout *r)
{
    for (size_t g = 0; g < r->groups.n; g++)
        begin_priorities(r, &r->learners[g]);
}

/* ---- run.state ---- */

/* A single group's counters are not saved: they equal the driver's. */
void rollout_save_learners(const struct rollout *r, const struct due *left,
                           struct wbuf *b)
{
    for (size_t g = 0; r->groups.n > 1 && g < r->groups.n; g++) {
        wbuf_u64(b, r->learners[g].updates);
        wbuf_u64(b, left->updates > 0 ? r->learners[g].due : 0);
    }
    for (size_t g = 0; g < r->groups.n; g++)
        if (r->learners[g].priorities != NULL)
            priorities_save(r->learners[g].priorities, b);
}

int rollout_load_learners(struct rollout *r, const struct due *left, struct cursor *c)
{
    int has_priorities = 0;

    for (size_t g = 0; g < r->groups.n; g++) {
        struct learners *l = &r->learners[g];

        l->updates = r->groups.n > 1 ? cursor_u64(c) : r->updates;
        l->due = r->groups.n > 1 ? cursor_u64(c) : left->updates;
    }
    /* a run that drew evenly until now has saved no priorities */
    for (size_t g = 0; g < r->groups.n && cursor_left(c) > 0; g++) {
        struct priorities *p = r->learners[g].priorities;

        has_priorities |= p != NULL;
        if (p != NULL && !priorities_load(p, store_head(r->args.store), c))
            return 0;
    }
    return !c->failed && (cursor_left(c) == 0 || !has_priorities);
}

/* ---- before a run ---- */

static int check_sources(const struct run_config *c, const struct env_spec *spec,
                         const struct learning_groups *groups,
                         const struct update_plan *plan, struct err *err)
{
    int rc = 0;

    for (size_t g = 0; g < groups->n && rc == 0; g++) {
        struct row_source source = {0};

        if (plan->of[g] == NULL)
            continue;
        rc = make_source(&source, c, spec, (size_t)c->env.copies, groups, g, plan->of[g],
                         err);
        if (rc < 0)
            (void)err_note(err, ERR_AT(.agent = c->agents[groups->group[g].first].name));
        row_source_done(&source);
    }
    return rc;
}

int rollout_check(const struct run_config *config, const struct env_spec *spec,
                  const struct sharing *sharing, const struct description *descriptions,
                  struct err *err)
{
    const char **names = xcalloc(spec->n_agents + 1, sizeof(*names));
    struct store_layout layout = {0};
    struct learning_groups groups;
    struct update_plan plan;
    int rc;

    for (size_t a = 0; a < spec->n_agents; a++)
        names[a] = spec->agents[a].name;
    learning_groups_init(&groups, config, sharing);
    rc = update_plan_init(&plan, &groups, descriptions, names, spec->n_agents, err);
    if (rc == 0)
        rc = check_sources(config, spec, &groups, &plan, err);
    if (rc == 0 && (rc = row_writer_layout(&layout, spec, descriptions, err)) == 0)
        store_layout_done(&layout);
    update_plan_done(&plan);
    learning_groups_done(&groups);
    free(names);
    return rc;
}
