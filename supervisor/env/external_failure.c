/* Episodes in which the environment fails, for env.on_failure: skip_episode.
 *
 * A request that several processes in a row do not survive is made again for one copy at a
 * time (the answers are the same, env_protocol.h): the copy with which the next process dies is the
 * one that fails. Its episode is skipped: it is lost, as one that could not be replayed. The
 * remaining copies are then asked together again.
 */
#include "supervisor/env/external_internal.h"

#include "common/wire/crc32c.h"

#include <string.h>

/* Episodes in a row that may fail, of which none came to its end: that many, and as many per
 * copy. More: the environment is broken, and every one fails. Those that are known to fail are not
 * tried, and say nothing of how it is now. */
enum { MAX_FAILED = 10, MAX_FAILED_PER_COPY = 3 };

void external_fail(struct external_world *w, const struct err *why)
{
    w->failed = 1;
    env_host_on_failed(w->host, why);
}

/* ---- the point at which an episode fails ---- */

static uint32_t sum_actions(const struct external_world *w, size_t copy, uint32_t sum)
{
    for (size_t a = 0; a < w->spec->n_agents; a++) {
        const size_t width = (size_t)w->spec->agents[a].space.width;

        sum = crc32c_extend(sum, w->actions[a] + copy * width, width * sizeof(float));
    }
    return sum;
}

static struct env_failure point_of(const struct external_world *w,
                                   const struct external_process *p, size_t copy)
{
    const struct external_episode *e = &w->episodes[copy];

    if (p->kind == EXTERNAL_RESET)
        return (struct env_failure){.seed = e->seed};
    return (struct env_failure){.seed = e->seed,
                                .step = e->n_steps + 1,
                                .sum = sum_actions(w, copy, e->sums[e->n_steps])};
}

/* ---- skipping ---- */

static int may_skip(const struct external_world *w)
{
    return !w->failed && !w->external->is_trial &&
           env_host_skips(w->host, w->external->on_failure);
}

static void skip_at(struct external_world *w, struct external_process *p, size_t copy,
                    const struct env_failure *at, const char *why)
{
    struct external_episode *e = &w->episodes[copy];

    e->lost = e->failed = 1;
    e->wanted = 0;
    w->listener.on_failed(w->listener.ctx, p->name, copy, at, why);
}

/* Skips the episode of a copy that the process is asked about: it failed. */
static void skip_episode(struct external_world *w, struct external_process *p,
                         size_t copy, const struct err *why)
{
    const struct env_failure at = point_of(w, p, copy);
    struct err err;

    if (p->kind == EXTERNAL_STEP)
        external_write_idle(w, copy);
    skip_at(w, p, copy, &at, why->msg);
    if (++w->n_failed <= MAX_FAILED + MAX_FAILED_PER_COPY * w->n_copies)
        return;
    (void)err_set(
        &err, ERR_AGENT,
        "process %s: %zu episodes in a row failed, and none ended, the last one: "
        "%.200s",
        p->name, w->n_failed, why->msg);
    external_fail(w, &err);
}

int external_skip_known(struct external_world *w, struct external_process *p, size_t copy)
{
    struct env_failure at;

    if (w->failed || w->episodes[copy].too_long || !env_host_has_failures(w->host))
        return 0;
    at = point_of(w, p, copy);
    if (!env_host_is_known(w->host, &at))
        return 0;
    skip_at(w, p, copy, &at, "it failed there before");
    return 1;
}

size_t external_world_skip_known(struct external_world *w)
{
    size_t n = 0;

    for (size_t i = 0; i < w->n_processes; i++) {
        struct external_process *p = &w->processes[i];

        p->kind = EXTERNAL_RESET;
        for (size_t c = p->first; c < p->first + p->n && !w->failed; c++)
            n += w->episodes[c].wanted && external_skip_known(w, p, c);
    }
    return n;
}

int external_skip_nonfinite(struct external_world *w, struct external_process *p,
                            const struct external_answer *x)
{
    struct err why;
    int n = 0;

    for (size_t i = 0; may_skip(w) && i < x->n; i++)
        if (external_check_copy(w, p, x, i, &why) < 0) {
            skip_episode(w, p, p->asked.copies[i], &why);
            n++;
        }
    return n > 0;
}

/* ---- which copy fails ---- */

size_t external_take_rest(struct external_world *w, struct external_process *p)
{
    size_t n = 0;

    p->asked.n = 0;
    while (n < p->rest.n && (p->asked.n == 0 || !p->is_apart)) {
        const size_t copy = p->rest.copies[n++];

        if (w->episodes[copy].lost)
            external_write_idle(w, copy);
        else
            p->asked.copies[p->asked.n++] = copy;
    }
    p->rest.n -= n;
    memmove(p->rest.copies, p->rest.copies + n, p->rest.n * sizeof(*p->rest.copies));
    if (p->rest.n == 0 && p->asked.n == 0)
        p->is_apart = 0;
    return p->asked.n;
}

/* A request without copies, if none is left, so that the process answers. */
int external_pardon(void *ctx, size_t process, int is_last, const struct err *why)
{
    struct external_world *w = ctx;
    struct external_process *p = &w->processes[process];

    if (!may_skip(w) || p->asked.n == 0 || (!is_last && !p->is_apart))
        return 0;
    p->has_changed = 1;
    if (p->asked.n > 1) {
        /* asks for the first copy alone, from now on */
        p->is_apart = 1;
        p->rest.n = p->asked.n - 1;
        memcpy(p->rest.copies, p->asked.copies + 1, p->rest.n * sizeof(*p->rest.copies));
        p->asked.n = 1;
        return 1;
    }
    skip_episode(w, p, p->asked.copies[0], why);
    p->is_apart = 0;
    (void)external_take_rest(w, p);
    return 1;
}
