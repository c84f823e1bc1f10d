/* The driver's section of run.state. */
#include "supervisor/rollout/rollout_internal.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/wire/cursor.h"

#include <stdlib.h>
#include <string.h>

enum { STATE_VERSION = 3 };

static void save_block(struct wbuf *b, const void *data, size_t len)
{
    wbuf_u64(b, len);
    wbuf_bytes(b, data, len);
}

void rollout_keep(struct rollout *r)
{
    agent_table_keep(r->args.agents);
    metrics_mark(r->args.metrics);
}

enum rollout_hold rollout_hold(const struct rollout *r)
{
    struct due left;

    if (!rollout_fsm_left(&r->fsm, &left))
        return ROLLOUT_HOLDS_NOTHING;
    return r->serving != NULL ? ROLLOUT_HOLDS_NEWEST : ROLLOUT_HOLDS_KEPT;
}

void rollout_take_back(struct rollout *r)
{
    if (r->serving != NULL || !rollout_fsm_is_stepping(&r->fsm) ||
        store_head(r->args.store) != r->env_steps || !vec_env_undo(r->args.env))
        return;
    rollout_fsm_take_back(&r->fsm);
    acting_undo(r->acting);
}

void rollout_state_save(const struct rollout *r, uint8_t **ret, size_t *ret_len)
{
    const int kept = rollout_hold(r) == ROLLOUT_HOLDS_KEPT;
    struct agent_resume_point s;
    size_t env_bytes = vec_env_state_bytes(r->args.env), metrics_bytes;
    uint8_t *env = xmalloc(env_bytes), *metrics;
    struct due left;
    struct wbuf b = {0};

    CHECK(rollout_fsm_left(&r->fsm, &left));
    vec_env_state_save(r->args.env, env);
    metrics_state_save(r->args.metrics, left.updates > 0, &metrics, &metrics_bytes);
    wbuf_u32(&b, STATE_VERSION);
    /* Without an environment, rounds are counted for pauses and clients' checkpoints, too. */
    wbuf_u64(&b, r->serving != NULL ? 0 : r->round);
    wbuf_u64(&b, r->env_steps);
    wbuf_u64(&b, r->episodes);
    wbuf_u64(&b, r->updates);
    wbuf_u64(&b, left.updates);
    wbuf_u8(&b, left.evaluate != 0);
    wbuf_u8(&b, left.log != 0);
    wbuf_u8(&b, left.checkpoint != 0);
    wbuf_u64(&b, store_head(r->args.store));
    save_block(&b, env, env_bytes);
    save_block(&b, metrics, metrics_bytes);
    for (size_t a = 0; a < r->n_agents; a++)
        save_block(&b, acting_carry(r->acting, a),
                   r->copies * r->descriptions[a].carry * sizeof(float));
    for (size_t a = 0; a < agent_table_count(r->args.agents); a++) {
        agent_table_get_resume_point(r->args.agents, a, kept, &s);
        wbuf_u8(&b, (uint8_t)s.mode);
        wbuf_u64(&b, s.position);
    }
    exchange_state_save(r->exchange, &b);
    rollout_serve_save(r, &b);
    rollout_save_learners(r, &left, &b);
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

static int load_resume_points(struct agent_table *agents, struct cursor *c,
                              void (*fn)(struct agent_table *t, size_t agent,
                                         const struct agent_resume_point *s))
{
    for (size_t a = 0; a < agent_table_count(agents); a++) {
        const uint8_t mode = cursor_u8(c);
        const struct agent_resume_point s = {(enum agent_mode)mode, cursor_u64(c)};

        if (c->failed || mode > AGENT_NOOP)
            return 0;
        fn(agents, a, &s);
    }
    return 1;
}

static int load_carry(struct rollout *r, const struct due *left, struct cursor *c)
{
    for (size_t a = 0; a < r->n_agents; a++) {
        size_t want = r->copies * r->descriptions[a].carry * sizeof(float), len;
        const uint8_t *data = load_block(c, &len);
        if (c->failed || len != want)
            return 0;
        if (len > 0)
            memcpy(acting_carry(r->acting, a), data, len);
    }
    if (!load_resume_points(r->args.agents, c, agent_table_resume_at) ||
        exchange_state_load(r->exchange, c, NULL) < 0)
        return 0;
    rollout_serve_load(r, c);
    return rollout_load_learners(r, left, c);
}

/* Reads the first part of the section: version, counters, work left. */
static int load_progress(struct rollout_progress *ret, struct due *left, struct cursor *c,
                         struct err *err)
{
    if (cursor_u32(c) != STATE_VERSION)
        return err_set(err, ERR_FORMAT, "driver state has another version");
    ret->round = cursor_u64(c);
    ret->env_steps = cursor_u64(c);
    ret->episodes = cursor_u64(c);
    ret->updates = cursor_u64(c);
    left->updates = cursor_u64(c);
    left->evaluate = cursor_u8(c) != 0;
    left->log = cursor_u8(c) != 0;
    left->checkpoint = cursor_u8(c) != 0;
    ret->is_midway = due_is_any(left);
    return c->failed ? err_set(err, ERR_FORMAT, "driver state: wrong length") : 0;
}

int rollout_state_progress(struct rollout_progress *ret, const uint8_t *data, size_t len,
                           struct err *err)
{
    struct cursor c = cursor_of(data, len);
    struct due left = {0};

    *ret = (struct rollout_progress){.state = rollout_state_name(ROLLOUT_CHECKPOINT)};
    return load_progress(ret, &left, &c, err);
}

int rollout_state_positions(struct agent_table *agents, size_t learners,
                            const uint8_t *data, size_t len, struct err *err)
{
    struct cursor c = cursor_of(data, len);
    struct rollout_progress at;
    struct due left;
    int rc = load_progress(&at, &left, &c, err);
    size_t block_bytes;

    if (rc < 0)
        return rc;
    (void)cursor_u64(&c);                     /* the head of the log */
    for (size_t i = 0; i < 2 + learners; i++) /* environment, metrics, carries */
        (void)load_block(&c, &block_bytes);
    return load_resume_points(agents, &c, agent_table_set_position)
               ? 0
               : err_set(err, ERR_FORMAT, "driver state: wrong length");
}

int rollout_state_load(struct rollout *r, const uint8_t *data, size_t len,
                       struct err *err)
{
    struct cursor c = cursor_of(data, len);
    struct rollout_progress at = {0};
    struct due left = {0};
    const uint8_t *env, *metrics;
    size_t env_len, metrics_len;
    uint64_t head;
    int rc;

    CHECK(r->fsm.state == ROLLOUT_IDLE);
    rc = load_progress(&at, &left, &c, err);
    if (rc < 0)
        return rc;
    r->round = at.round;
    r->env_steps = at.env_steps;
    r->episodes = at.episodes;
    r->updates = at.updates;
    head = cursor_u64(&c);
    env = load_block(&c, &env_len);
    metrics = load_block(&c, &metrics_len);
    if (c.failed || !load_carry(r, &left, &c))
        return err_set(err, ERR_FORMAT, "driver state: wrong length");
    if (head != store_head(r->args.store))
        return err_set(err, ERR_STATE, "driver state is at row %llu, the log is at %llu",
                       (unsigned long long)head,
                       (unsigned long long)store_head(r->args.store));
    if (at.is_midway) {
        const struct due_at now = {
            .before = r->env_steps, .steps = r->env_steps, .episodes = r->episodes};

        /* `end` is not saved: it follows from the intervals */
        left.end = rollout_due(r, &now).end;
        rollout_fsm_resume_midway(&r->fsm, &left);
    } else {
        r->fsm.saved = 1; /* the state comes from this boundary's checkpoint */
    }
    if ((rc = vec_env_state_load(r->args.env, env, env_len, err)) < 0)
        return rc;
    if (r->episode_rows != NULL) {
        /* a copy at time 0 has ended an episode in its newest row */
        for (size_t e = 0; e < r->copies; e++)
            r->ended[e] = vec_env_time(r->args.env, e) == 0;
        rc = episodes_read(r->episode_rows, r->args.store, r->ended, err);
        if (rc < 0)
            return rc;
    }
    rollout_begin_priorities(r);
    return metrics_state_load(r->args.metrics, metrics, metrics_len, err);
}
