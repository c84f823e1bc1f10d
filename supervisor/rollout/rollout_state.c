/* The driver's section of run.state. */
#include "supervisor/rollout/rollout_internal.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/wire/cursor.h"

#include <stdlib.h>
#include <string.h>

enum { STATE_VERSION = 1 };

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
    rollout_serve_save(r, &b);
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
    rollout_serve_load(r, c);
    return !c->failed && cursor_left(c) == 0;
}

/* The counters, which come first. */
static int load_progress(struct rollout_progress *ret, struct cursor *c, struct err *err)
{
    if (cursor_u32(c) != STATE_VERSION)
        return err_set(err, ERR_FORMAT, "driver state of another version");
    ret->round = cursor_u64(c);
    ret->env_steps = cursor_u64(c);
    ret->episodes = cursor_u64(c);
    ret->updates = cursor_u64(c);
    return c->failed ? err_set(err, ERR_FORMAT, "driver state: wrong length") : 0;
}

int rollout_state_progress(struct rollout_progress *ret, const uint8_t *data, size_t len,
                           struct err *err)
{
    struct cursor c = cursor_of(data, len);

    *ret = (struct rollout_progress){.state = rollout_state_name(ROLLOUT_CHECKPOINT)};
    return load_progress(ret, &c, err);
}

int rollout_state_load(struct rollout *r, const uint8_t *data, size_t len,
                       struct err *err)
{
    struct cursor c = cursor_of(data, len);
    struct rollout_progress at = {0};
    const uint8_t *env, *metrics;
    size_t env_len, metrics_len;
    uint64_t head;
    int rc;

    CHECK(r->fsm.state == ROLLOUT_IDLE);
    rc = load_progress(&at, &c, err);
    if (rc < 0)
        return rc;
    r->round = at.round;
    r->env_steps = at.env_steps;
    r->episodes = at.episodes;
    r->updates = at.updates;
    head = cursor_u64(&c);
    env = load_block(&c, &env_len);
    metrics = load_block(&c, &metrics_len);
    if (c.failed || !load_carry(r, &c))
        return err_set(err, ERR_FORMAT, "driver state: wrong length");
    if (head != store_head(r->args.store))
        return err_set(err, ERR_STATE, "driver state of row %llu, the log is at %llu",
                       (unsigned long long)head,
                       (unsigned long long)store_head(r->args.store));
    r->fsm.saved = 1; /* it was read from there */
    rc = vec_env_state_load(r->args.env, env, env_len, err);
    return rc < 0 ? rc : metrics_state_load(r->args.metrics, metrics, metrics_len, err);
}
