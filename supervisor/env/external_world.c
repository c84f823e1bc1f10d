#include "supervisor/env/external_world.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "supervisor/env/external_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- creating and freeing ---- */

static size_t *sum_sizes(const struct env_spec *spec, int of_actions)
{
    size_t *before = xcalloc(spec->n_agents + 1, sizeof(*before));

    for (size_t a = 0; a < spec->n_agents; a++)
        before[a + 1] = before[a] + (of_actions ? (size_t)spec->agents[a].space.width
                                                : env_obs_bytes(&spec->agents[a]));
    return before;
}

struct external_world *external_world_new(const struct external *external,
                                          const struct env_spec *spec, size_t copies,
                                          const struct external_views *views,
                                          const struct external_listener *listener)
{
    struct external_world *w = xcalloc(1, sizeof(*w));

    w->external = external;
    w->spec = spec;
    w->views = *views;
    w->listener = *listener;
    w->n_copies = copies;
    w->n_processes = external->processes < copies ? external->processes : copies;
    w->obs_before = sum_sizes(spec, 0);
    w->action_before = sum_sizes(spec, 1);
    w->episodes = xcalloc(copies, sizeof(*w->episodes));
    w->before = xcalloc(copies, sizeof(*w->before));
    w->processes = xcalloc(w->n_processes, sizeof(*w->processes));
    for (size_t i = 0; i < w->n_processes; i++) {
        struct external_process *p = &w->processes[i];

        p->first = i * w->n_copies / w->n_processes;
        p->n = (i + 1) * w->n_copies / w->n_processes - p->first;
        p->asked.copies = xcalloc(p->n, sizeof(*p->asked.copies));
        p->rest.copies = xcalloc(p->n, sizeof(*p->rest.copies));
        p->replayed.copies = xcalloc(p->n, sizeof(*p->replayed.copies));
    }
    return w;
}

void external_world_free(struct external_world *w)
{
    if (w == NULL)
        return;
    agent_table_free(w->table);
    for (size_t c = 0; c < w->n_copies; c++)
        external_episode_done(&w->episodes[c]);
    for (size_t i = 0; i < w->n_processes; i++) {
        free(w->processes[i].asked.copies);
        free(w->processes[i].rest.copies);
        free(w->processes[i].replayed.copies);
        free(w->processes[i].log_path);
    }
    free(w->processes);
    free(w->episodes);
    free(w->before);
    free(w->obs_before);
    free(w->action_before);
    free(w->specs);
    free(w->pixels);
    free(w);
}

/* ---- processes ---- */

static void on_event(void *ctx, const struct agent_event *e)
{
    const struct external_world *w = ctx;
    const struct env_host_args *host = env_host_args(w->host);

    host->on_event(host->ctx, e, w->processes[e->agent].name);
}

/* Every process describes itself; all descriptions must be equal. */
static void on_ready(void *ctx)
{
    struct external_world *w = ctx;
    struct arena arena = ARENA_ZERO;
    struct env_spec spec;
    struct err err = {0};
    int rc = 0;

    for (size_t i = 0; i < w->n_processes && rc == 0; i++) {
        rc = external_parse(&spec, &agent_table_description(w->table, i)->body, &arena,
                            &err);
        if (rc == 0 && !external_same_spec(&spec, w->spec))
            rc =
                err_set(&err, ERR_PROTOCOL, "its agents differ from those it had before");
        if (rc < 0)
            (void)err_wrap(&err, "%s: answer to configure", w->processes[i].name);
    }
    arena_done(&arena);
    if (rc < 0)
        external_fail(w, &err);
}

static void on_failed(void *ctx, size_t process, const struct err *report)
{
    external_fail(ctx, report);
}

static void on_stopped(void *ctx)
{
    struct external_world *w = ctx;

    env_host_on_stopped(w->host);
}

static void pack_configure(void *ctx, size_t process, int restored, struct msg_out *o)
{
    const struct external_world *w = ctx;

    external_pack_configure(w->external, w->processes[process].n,
                            w->processes[process].first, o);
}

static void make_specs(struct external_world *w, const struct env_host_args *host,
                       const char *name)
{
    w->specs = xcalloc(w->n_processes, sizeof(*w->specs));
    for (size_t i = 0; i < w->n_processes; i++) {
        struct external_process *p = &w->processes[i];

        (void)snprintf(p->name, sizeof(p->name), "%s_%zu", name, i);
        if (host->logs != NULL)
            p->log_path = xasprintf("%s/%s.log", host->logs, p->name);
        w->specs[i] = (struct agent_spec){.name = p->name,
                                          .role = "environment",
                                          .log_path = p->log_path,
                                          .pack_configure = pack_configure,
                                          .limits = &w->external->limits,
                                          .command = w->external->command,
                                          .mode = w->external->mode,
                                          .directory = w->external->directory,
                                          .revival = &external_revival,
                                          .is_trial = w->external->is_trial};
        if (host->site != NULL)
            w->specs[i].site = host->site(host->ctx, i, w->n_processes);
    }
}

int external_world_start(struct external_world *w, struct env_host *host,
                         const char *name, struct err *err)
{
    const struct env_host_args *args = env_host_args(host);
    const struct agent_callbacks cb = {.on_event = on_event,
                                       .on_ready = on_ready,
                                       .on_failed = on_failed,
                                       .on_stopped = on_stopped,
                                       .ctx = w};
    int rc;

    CHECK(w->table == NULL);
    w->host = host;
    make_specs(w, args, name);
    rc = agent_table_new(&w->table, args->loop, args->agent_exe_fd, -1, w->specs,
                         w->n_processes, &cb, err);
    if (rc == 0)
        rc = env_host_add(host, w->table, err);
    if (rc < 0)
        return rc;
    if (w->inexact)
        env_host_on_inexact(host, w->why_inexact != NULL
                                      ? w->why_inexact
                                      : "earlier episodes are not reproducible: "
                                        "this run is not exact");
    return agent_table_start(w->table, err);
}

/* ---- requests ---- */

static void on_reset(void *ctx, size_t process, const struct msg *response);
static void on_step(void *ctx, size_t process, const struct msg *response);

/* Sends the request about p->asked. */
static int external_world_ask(struct external_world *w, struct external_process *p,
                              enum external_kind kind, struct err *err)
{
    const size_t i = (size_t)(p - w->processes);
    const int resets = kind == EXTERNAL_RESET;
    int rc;

    p->kind = kind;
    p->has_changed = 0;
    external_pack(w, p, agent_request_begin(w->table, i, resets ? "reset" : "step", 0));
    rc = agent_request_send(w->table, i, resets ? on_reset : on_step, w, err);
    if (rc == 0)
        w->outstanding++;
    return rc;
}

/* Checks an answer. Returns 1 if it is valid. */
static int receive(struct external_world *w, size_t process, const struct msg *response,
                   struct external_answer *ret)
{
    struct external_process *p = &w->processes[process];
    struct err err = {0};
    int rc;

    w->outstanding--;
    p->is_known = 1;
    if (w->failed)
        return 0;
    rc = external_parse_answer(w, p, &p->asked, p->kind, &response->body, ret, &err);
    if (rc == 0 && (rc = external_check_finite(w, p, ret, &err)) < 0 &&
        external_skip_nonfinite(w, p, ret))
        rc = 0;
    if (rc == 0)
        rc = external_check_presence(w, p, ret, &err);
    if (rc == 0)
        rc = external_take_picture(w, p, &response->body, &err);
    if (rc == 0)
        rc = external_take_warnings(w, p, &response->body, &err);
    if (rc < 0)
        external_fail(w, &err);
    return !w->failed;
}

/* Asks for the copies that an answer leaves over. Returns 0 if there are none, and no other
 * process owes an answer. */
static int is_incomplete(struct external_world *w, size_t process)
{
    struct external_process *p = &w->processes[process];
    struct err err = {0};

    if (external_take_rest(w, p) > 0 && external_world_ask(w, p, p->kind, &err) < 0)
        external_fail(w, &err);
    return w->outstanding > 0 || w->failed;
}

static void on_reset(void *ctx, size_t process, const struct msg *response)
{
    struct external_world *w = ctx;
    const struct external_batch *asked = &w->processes[process].asked;
    struct external_answer x;

    if (!receive(w, process, response, &x))
        return;
    for (size_t i = 0; i < x.n; i++) {
        struct external_episode *e = &w->episodes[asked->copies[i]];

        if (e->lost)
            continue;
        external_write_now(w, EXTERNAL_RESET, &x, i, asked->copies[i]);
        external_record_reset(e, external_sum(w, EXTERNAL_RESET, &x, i, 0));
        e->wanted = 0;
    }
    if (!is_incomplete(w, process))
        w->listener.on_ready(w->listener.ctx);
}

static void on_step(void *ctx, size_t process, const struct msg *response)
{
    struct external_world *w = ctx;
    const struct external_batch *asked = &w->processes[process].asked;
    struct external_answer x;

    if (!receive(w, process, response, &x))
        return;
    for (size_t i = 0; i < x.n; i++) {
        const size_t copy = asked->copies[i];
        const struct external_episode *e = &w->episodes[copy];

        if (e->lost)
            continue;
        external_write_step(w, &x, i, copy);
        external_record_step(w, copy,
                             external_sum(w, EXTERNAL_STEP, &x, i, e->sums[e->n_steps]));
    }
    if (!is_incomplete(w, process))
        w->listener.on_stepped(w->listener.ctx);
}

/* An episode that came to its end shows that not all of them fail. */
static void end_episode(struct external_world *w, size_t copy)
{
    if (external_world_runs(w, copy))
        w->n_failed = 0;
    w->episodes[copy].runs = w->episodes[copy].lost = w->episodes[copy].failed = 0;
}

void external_world_reset(struct external_world *w, size_t copy, uint64_t seed)
{
    struct external_episode *e = &w->episodes[copy];

    end_episode(w, copy);
    e->wanted = 1;
    e->seed = seed;
}

void external_world_end_episode(struct external_world *w, size_t copy)
{
    end_episode(w, copy);
}

/* A world that has failed is never ready. */
static int is_waiting(const struct external_world *w)
{
    return w->outstanding > 0 || w->failed ? ENV_LATER : 0;
}

int external_world_make_ready(struct external_world *w, struct err *err)
{
    CHECK(w->table != NULL && w->outstanding == 0);
    for (size_t i = 0; i < w->n_processes && !w->failed; i++) {
        struct external_process *p = &w->processes[i];
        int rc;

        p->asked.n = 0;
        for (size_t c = p->first; c < p->first + p->n; c++)
            if (w->episodes[c].wanted)
                p->asked.copies[p->asked.n++] = c;
        if (p->asked.n == 0 && p->is_known)
            continue;
        rc = external_world_ask(w, p, EXTERNAL_RESET, err);
        if (rc < 0)
            return rc;
    }
    return is_waiting(w);
}

static int step_process(struct external_world *w, struct external_process *p,
                        const uint8_t *idle, struct err *err)
{
    p->kind = EXTERNAL_STEP;
    p->asked.n = 0;
    for (size_t c = p->first; c < p->first + p->n; c++) {
        if (!idle[c] && external_world_runs(w, c) && !external_skip_known(w, p, c))
            p->asked.copies[p->asked.n++] = c;
        else
            external_write_idle(w, c);
    }
    return p->asked.n > 0 ? external_world_ask(w, p, EXTERNAL_STEP, err) : 0;
}

/* A step adds one to a copy's history, and the reset after it replaces the checksum of the former
 * reset: nothing else of the former history is overwritten. */
void external_world_undo(struct external_world *w)
{
    for (size_t c = 0; c < w->n_copies; c++) {
        struct external_episode *e = &w->episodes[c];
        const struct external_before *b = &w->before[c];

        e->seed = b->seed;
        e->n_steps = b->n_steps;
        if (b->runs)
            e->sums[0] = b->first_sum;
        e->runs = b->runs;
        e->lost = b->lost;
        e->failed = b->failed;
        e->too_long = b->too_long;
        e->wanted = 0;
    }
}

int external_world_step(struct external_world *w, const float *const *actions,
                        const uint8_t *idle, struct err *err)
{
    CHECK(w->table != NULL && w->outstanding == 0);
    w->actions = actions;
    for (size_t c = 0; c < w->n_copies; c++) {
        const struct external_episode *e = &w->episodes[c];

        w->before[c] = (struct external_before){.seed = e->seed,
                                                .n_steps = e->n_steps,
                                                .first_sum = e->runs ? e->sums[0] : 0,
                                                .runs = e->runs,
                                                .lost = e->lost,
                                                .failed = e->failed,
                                                .too_long = e->too_long};
    }
    for (size_t i = 0; i < w->n_processes && !w->failed; i++) {
        int rc = step_process(w, &w->processes[i], idle, err);

        if (rc < 0)
            return rc;
    }
    return is_waiting(w);
}

int external_world_has_failed(const struct external_world *w, size_t copy)
{
    return w->episodes[copy].failed;
}

int external_world_is_lost(const struct external_world *w, size_t copy)
{
    return w->episodes[copy].lost;
}

int external_world_runs(const struct external_world *w, size_t copy)
{
    return w->episodes[copy].runs && !w->episodes[copy].lost;
}

void external_world_draw(const struct external_world *w, struct scene *ret)
{
    enum { FRAME_MS = 100 };

    ret->frame_ms = FRAME_MS;
    ret->picture = w->picture;
}

size_t external_world_sums(const struct external_world *w, size_t copy, uint32_t *ret,
                           size_t max)
{
    const struct external_episode *e = &w->episodes[copy];
    const size_t n = e->n_steps + 1 < max ? e->n_steps + 1 : max;

    memcpy(ret, e->sums, n * sizeof(*ret));
    return n;
}

void external_world_mark_inexact(struct external_world *w, const char *line)
{
    w->inexact = 1;
    w->why_inexact = line;
}
