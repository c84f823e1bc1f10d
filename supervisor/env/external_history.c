/* Recording the history of episodes, and replaying it. */
#include "supervisor/env/external_internal.h"

#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CAP = 64 }; /* steps */

/* ---- recording ---- */

/* The limit depends on the length alone, not on the room that there happens to be, which is
 * another one after a resume. */
static int reserve(const struct external_world *w, struct external_episode *e)
{
    const size_t row = w->action_before[w->spec->n_agents] * sizeof(float);
    const size_t most = EXTERNAL_MAX_HISTORY / (row + sizeof(*e->sums));
    size_t cap = e->cap > 0 ? 2 * e->cap : FIRST_CAP;

    if (e->n_steps >= most)
        return 0;
    if (e->n_steps < e->cap)
        return 1;
    cap = cap < most ? cap : most;
    e->actions = xrealloc(e->actions, cap * row);
    e->sums = xrealloc(e->sums, (cap + 1) * sizeof(*e->sums));
    e->cap = cap;
    return 1;
}

void external_record_reset(struct external_episode *e, uint32_t sum)
{
    if (e->cap == 0)
        e->sums = xrealloc(e->sums, sizeof(*e->sums));
    e->sums[0] = sum;
    e->n_steps = 0;
    e->runs = 1;
    e->lost = e->failed = e->too_long = 0;
}

void external_record_step(const struct external_world *w, size_t copy, uint32_t sum)
{
    const size_t all = w->action_before[w->spec->n_agents];
    struct external_episode *e = &w->episodes[copy];
    float *row;

    e->too_long |= !reserve(w, e);
    if (e->too_long)
        return;
    row = e->actions + e->n_steps * all;
    for (size_t a = 0; a < w->spec->n_agents; a++) {
        const size_t width = (size_t)w->spec->agents[a].space.width;

        memcpy(row + w->action_before[a], w->actions[a] + copy * width,
               width * sizeof(float));
    }
    e->sums[++e->n_steps] = sum;
}

void external_episode_done(struct external_episode *e)
{
    free(e->actions);
    free(e->sums);
}

/* ---- replaying ----
 *
 * Request 0 resets every copy whose episode runs, with its seed; request k makes step k
 * of the copies that have one. A lost copy is left out of all requests until its next
 * reset, also of a pending request that is packed again.
 */

static void lose(struct external_world *w, struct external_process *p, size_t copy,
                 size_t step)
{
    w->episodes[copy].lost = 1;
    w->inexact = 1;
    if (p->n_lost++ == 0) {
        p->lost_copy = copy;
        p->lost_step = step;
    }
}

/* Whether the episode includes that step; step 0 is the reset. */
static int made_step(const struct external_episode *e, size_t step)
{
    return e->runs && !e->lost && e->n_steps >= step;
}

static size_t external_history_choose(struct external_world *w,
                                      struct external_process *p, size_t step)
{
    p->replayed.n = 0;
    for (size_t c = p->first; c < p->first + p->n; c++)
        if (made_step(&w->episodes[c], step))
            p->replayed.copies[p->replayed.n++] = c;
    return p->replayed.n;
}

static int begin_revival(struct external_world *w, struct external_process *p,
                         uint32_t id, struct msg_out *o)
{
    p->revived = 0;
    for (size_t c = p->first; c < p->first + p->n; c++)
        if (made_step(&w->episodes[c], 0) && w->episodes[c].too_long)
            lose(w, p, c, w->episodes[c].n_steps);
    if (external_history_choose(w, p, 0) == 0)
        return 0;
    msg_begin_request(o, id, "reset");
    external_pack_reset(w, p, &p->replayed, o);
    return 1;
}

/* Reports all lost copies in one line. */
static void report_losses(struct external_world *w, struct external_process *p)
{
    const struct external_episode *e = &w->episodes[p->lost_copy];
    char line[320], others[48] = "";

    if (p->n_lost > 1)
        (void)snprintf(others, sizeof(others), " (and %zu others)", p->n_lost - 1);
    if (e->too_long)
        (void)snprintf(line, sizeof(line),
                       "%s: the episode of copy %zu%s is too long to be replayed "
                       "after %zu steps; it is discarded",
                       p->name, p->lost_copy, others, e->n_steps);
    else
        (void)snprintf(line, sizeof(line),
                       "%s: this environment is not reproducible: replayed from its "
                       "seed, copy %zu%s answered differently in step %zu; its episode "
                       "is discarded",
                       p->name, p->lost_copy, others, p->lost_step);
    p->n_lost = 0;
    env_host_on_inexact(w->host, line);
}

static int pack(void *ctx, size_t process, size_t i, uint32_t id, struct msg_out *o)
{
    struct external_world *w = ctx;
    struct external_process *p = &w->processes[process];

    if (i == 0 && begin_revival(w, p, id, o))
        return 1;
    if (i > 0 && external_history_choose(w, p, p->revived + 1) > 0) {
        msg_begin_request(o, id, "step");
        external_pack_step(w, p, &p->replayed, NULL, p->revived, o);
        p->revived++;
        return 1;
    }
    if (p->n_lost > 0)
        report_losses(w, p);
    return 0;
}

/* Compares the i-th copy of an answer with the history, whose values were checked; step 0 is
 * the reset. After a respawn the views already hold the present observations. In a resumed
 * run every step is written to them, because an agent that has left keeps its last
 * observation. */
static void compare(struct external_world *w, struct external_process *p,
                    enum external_kind kind, const struct external_answer *x, size_t i)
{
    const size_t copy = p->replayed.copies[i], step = p->revived;
    const struct external_episode *e = &w->episodes[copy];
    uint32_t sum;

    if (e->lost)
        return;
    sum = external_sum(w, kind, x, i, step > 0 ? e->sums[step - 1] : 0);
    if (sum != e->sums[step])
        lose(w, p, copy, step);
    else if (!p->is_known)
        external_write_now(w, kind, x, i, copy);
}

static int external_history_check(void *ctx, size_t process, size_t i,
                                  const struct msg *response, struct err *err)
{
    struct external_world *w = ctx;
    struct external_process *p = &w->processes[process];
    const enum external_kind kind = i == 0 ? EXTERNAL_RESET : EXTERNAL_STEP;
    struct external_answer x;
    int rc = external_parse_answer(w, p, &p->replayed, kind, &response->body, &x, err);

    if (rc < 0)
        return rc;
    for (size_t k = 0; k < x.n; k++)
        compare(w, p, kind, &x, k);
    return 0;
}

/* Packs vec_env's pending request again, if copies were lost meanwhile (then it is a step: the
 * episodes of a reset have not begun yet), or if it has changed (external_pardon). */
static int repack(void *ctx, size_t process, uint32_t id, struct msg_out *o)
{
    struct external_world *w = ctx;
    struct external_process *p = &w->processes[process];
    size_t n = 0;

    for (size_t i = 0; p->kind == EXTERNAL_STEP && i < p->asked.n; i++) {
        const size_t copy = p->asked.copies[i];

        if (w->episodes[copy].lost)
            external_write_idle(w, copy);
        else
            p->asked.copies[n++] = copy;
    }
    if (!p->has_changed && (p->kind == EXTERNAL_RESET || n == p->asked.n))
        return 0;
    if (p->kind == EXTERNAL_STEP)
        p->asked.n = n;
    p->has_changed = 0;
    msg_begin_request(o, id, p->kind == EXTERNAL_RESET ? "reset" : "step");
    external_pack(w, p, o);
    return 1;
}

const struct agent_revival external_revival = {.pack = pack,
                                               .check = external_history_check,
                                               .repack = repack,
                                               .pardon = external_pardon};
