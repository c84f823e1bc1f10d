/* The driver's CHANGE state: settings that change in a live run. */
#include "supervisor/rollout/rollout_internal.h"

#include "common/config/algorithms.h"
#include "common/config/changes.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

/* ---- when ---- */

/* STEP counts, too: it takes several iterations of the loop if environments are
 * processes, or the disk is full. */
static int round_has_begun(const struct rollout *r)
{
    const enum rollout_state s = r->fsm.state;

    if (r->serving != NULL)
        return 0; /* it serves clients: a boundary can be made at any time */
    return s == ROLLOUT_CHANGE || s == ROLLOUT_ACT || s == ROLLOUT_STEP;
}

uint64_t rollout_next_change_step(const struct rollout *r)
{
    if (r->serving != NULL)
        return r->env_steps + rollout_serve_writing(r);
    return r->env_steps + (round_has_begun(r) ? r->copies : 0);
}

struct due rollout_due(struct rollout *r, const struct due_at *now)
{
    const struct rollout_callbacks *cb = &r->args.callbacks;

    if (cb->length != NULL)
        r->intervals.length = cb->length(cb->ctx, now->steps);
    return due_find(&r->intervals, now);
}

int rollout_is_at_end(const struct rollout *r)
{
    return r->fsm.due.end && !r->fsm.stopped;
}

void rollout_note_change(struct rollout *r)
{
    if (r->env_steps >= r->change_at)
        (void)rollout_fsm_step(&r->fsm, ROLLOUT_CHANGE_REQUEST);
}

void rollout_plan_change(struct rollout *r, uint64_t step)
{
    r->change_at = step;
    if (r->over || round_has_begun(r))
        return;
    rollout_note_change(r);
    rollout_tick(r);
}

int rollout_enter_change(struct rollout *r, struct err *err)
{
    struct rollout_progress at;

    rollout_progress(r, &at);
    return r->args.callbacks.on_change(r->args.callbacks.ctx, &at, err);
}

void rollout_change_made(struct rollout *r)
{
    CHECK(r->over || r->fsm.state == ROLLOUT_CHANGE);
    rollout_resume(r);
}

/* ---- what ---- */

struct setting {
    size_t agent;
    char *key;
    double value;
};

/* The processes whose settings are collected. The central process and a ps have the
 * settings of one of their agents (rollout_pack_configure). */
enum processes { AGENTS, CENTRAL, PS };

struct settings {
    const struct rollout *r;
    enum processes of;
    struct setting *list; /* in the order of the table of agents */
    size_t n, cap;
};

/* Whether the graph of that process has the variable "<name>/hyperparameters/<key>". */
static int has_setting(const struct rollout *r, size_t agent, const char *process,
                       const char *key)
{
    const msgpack_object *body = &agent_table_description(r->args.agents, agent)->body;
    const msgpack_object *variables = NULL;
    char *name = xasprintf("%s/hyperparameters/%s", process, key);
    int found = 0;

    for (char *p = strchr(name + strlen(process), '.'); p != NULL; p = strchr(p, '.'))
        *p = '/';
    if (msg_get_array(body, "variables", &variables, NULL) < 0 || variables == NULL) {
        free(name);
        return 0;
    }
    for (uint32_t i = 0; i < variables->via.array.size && !found; i++) {
        const msgpack_object *v = &variables->via.array.ptr[i];

        found = v->type == MSGPACK_OBJECT_ARRAY && v->via.array.size > 0 &&
                msg_str_is(&v->via.array.ptr[0], name);
    }
    free(name);
    return found;
}

/* Returns the name and the place of the process of kind s->of that has this agent's
 * settings; NULL: there is none. */
static const char *receiver(const struct settings *s, size_t agent, size_t *ret_place)
{
    const struct rollout *r = s->r;
    const size_t group = r->sharing.group_of[agent];

    switch (s->of) {
    case AGENTS:
        *ret_place = agent;
        return r->names[agent];
    case CENTRAL:
        *ret_place = r->n_agents;
        return rollout_central_settings(r->config) == agent ? "central" : NULL;
    case PS:
        if (group == SHARING_NONE || r->sharing.groups[group].first != agent)
            return NULL;
        *ret_place = r->first_ps + group;
        return r->sharing.groups[group].ps;
    }
    return NULL;
}

/* part: "", or of a schedule ".to" and ".over". */
static void rollout_change_add(struct settings *s, const struct config_change *c,
                               const char *part, double value)
{
    char *key = xasprintf("%s%s", c->key, part);
    size_t agent;
    const char *name = receiver(s, c->agent, &agent);

    if (name == NULL || !has_setting(s->r, agent, name, key)) {
        free(key);
        return;
    }
    ARRAY_GROW(s->list, s->n, s->cap);
    s->list[s->n++] = (struct setting){agent, key, value};
}

/* An imported graph may have its teacher's settings, which nobody reads. */
static void collect(struct settings *s, const struct config_change *c)
{
    struct schedule v;

    if (c->kind != CHANGE_SETTING || c->agent == s->r->n_agents ||
        algorithm_brings_graph(&s->r->config->agents[c->agent]))
        return;
    rollout_change_add(s, c, "", c->number);
    if (c->field->type != FIELD_SCHEDULE || c->is == NULL)
        return;
    memcpy(&v, c->is, sizeof(v));
    rollout_change_add(s, c, ".to", v.to);
    rollout_change_add(s, c, ".over", v.over);
}

static void on_set(void *ctx, size_t agent, const struct msg *response)
{
    struct rollout *r = ctx;

    if (--r->outstanding == 0)
        rollout_resume(r);
}

static int send_all(struct rollout *r, const struct settings *s, struct err *err)
{
    for (size_t i = 0, end; i < s->n; i = end) {
        const size_t agent = s->list[i].agent;
        struct msg_out *o;
        int rc;

        for (end = i + 1; end < s->n && s->list[end].agent == agent;)
            end++;
        o = agent_request_begin(r->args.agents, agent, "set", 1);
        msg_map(o, 1);
        msg_key(o, "changes");
        msg_map(o, end - i);
        for (size_t k = i; k < end; k++)
            msg_put_f64(o, s->list[k].key, s->list[k].value);
        rc = agent_request_send(r->args.agents, agent, on_set, r, err);
        if (rc < 0)
            return rc;
        r->outstanding++;
    }
    return r->outstanding > 0 ? WAITS : DONE_AT_ONCE;
}

int rollout_change(struct rollout *r, const struct run_config *from,
                   const struct run_config *to, struct err *err)
{
    struct settings s = {.r = r};
    struct config_diff d;
    int rc;

    CHECK(r->fsm.state == ROLLOUT_CHANGE && r->outstanding == 0);
    r->config = to;
    intervals_init(&r->intervals, to);
    if ((rc = rollout_make_sources(r, err)) < 0 ||
        (rc = rollout_make_evaluation(r, err)) < 0)
        return rc;
    run_config_diff(&d, from, to, 0);
    for (s.of = AGENTS; s.of <= PS; s.of++)
        for (size_t i = 0; i < d.n; i++)
            collect(&s, &d.list[i]);
    config_diff_done(&d);
    rc = send_all(r, &s, err);
    for (size_t i = 0; i < s.n; i++)
        free(s.list[i].key);
    free(s.list);
    return rc;
}
