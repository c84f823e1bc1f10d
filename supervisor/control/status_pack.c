#include "supervisor/control/status_pack.h"

#include <math.h>

static void put_text(struct msg_out *o, const char *key, const char *text)
{
    msg_key(o, key);
    if (text != NULL)
        msg_str(o, text);
    else
        msg_nil(o);
}

static void put_u64(struct msg_out *o, const char *key, uint64_t v)
{
    msg_key(o, key);
    if (v != RUN_UNKNOWN)
        msg_u64(o, v);
    else
        msg_nil(o);
}

static void put_i64(struct msg_out *o, const char *key, int64_t v)
{
    msg_key(o, key);
    msg_i64(o, v);
}

static void put_f64(struct msg_out *o, const char *key, double v)
{
    msg_key(o, key);
    if (isnan(v))
        msg_nil(o);
    else
        msg_f64(o, v);
}

static void put_agent(struct msg_out *o, const struct run_agent_status *a)
{
    msg_map(o, 8);
    put_text(o, "name", a->name);
    put_i64(o, "pid", a->pid);
    put_text(o, "state", a->state);
    put_text(o, "given_up", a->given_up);
    put_u64(o, "restarts", a->restarts);
    put_i64(o, "rss_bytes", a->rss_bytes);
    put_u64(o, "update", a->update);
    put_text(o, "last_exit", a->last_exit);
}

void status_pack_pending(struct msg_out *o, const struct run_pending *list, size_t n)
{
    msg_array(o, n);
    for (size_t i = 0; i < n; i++) {
        msg_map(o, 4);
        put_text(o, "key", list[i].key);
        put_text(o, "value", list[i].value);
        put_u64(o, "at_step", list[i].at);
        put_text(o, "agent", list[i].agent);
    }
}

void status_pack(struct msg_out *o, const struct run_status *s)
{
    msg_map(o, 20);
    put_text(o, "run", s->run);
    put_text(o, "state", s->state);
    put_u64(o, "exit_code", s->exit_code < 0 ? RUN_UNKNOWN : (uint64_t)s->exit_code);
    put_i64(o, "pid", s->pid);
    put_i64(o, "keeper_pid", s->keeper_pid);
    put_u64(o, "round", s->round);
    put_u64(o, "env_steps", s->env_steps);
    put_u64(o, "episodes", s->episodes);
    put_u64(o, "total_steps", s->total_steps);
    put_u64(o, "total_episodes", s->total_episodes);
    put_f64(o, "steps_per_second", s->steps_per_second);
    put_f64(o, "elapsed_seconds", s->elapsed_s);
    put_i64(o, "checkpoint_step", s->checkpoint_step);
    put_f64(o, "team_return_mean", s->team_return_mean);
    msg_key(o, "exact");
    msg_bool(o, s->exact);
    put_text(o, "numerics", s->numerics);
    put_text(o, "not_portable", s->not_portable);
    msg_key(o, "agents");
    msg_array(o, s->n_agents);
    for (size_t i = 0; i < s->n_agents; i++)
        put_agent(o, &s->agents[i]);
    msg_key(o, "environments");
    msg_array(o, s->n_environments);
    for (size_t i = 0; i < s->n_environments; i++)
        put_agent(o, &s->environments[i]);
    msg_key(o, "pending");
    status_pack_pending(o, s->pending, s->n_pending);
}
