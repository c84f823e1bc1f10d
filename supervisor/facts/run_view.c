#include "supervisor/facts/run_view.h"

void run_view_put(const struct run_view *v, struct json *j)
{
    json_object(j);
    json_put_str(j, "push", "run");
    json_put_str(j, "run", v->name);
    json_put_bool(j, "live", v->is_live);
    json_put_bool(j, "denied", v->is_denied);
    json_put_u64(j, "rows", v->stamps.rows);
    json_put_u64(j, "journal", v->stamps.journal);
    json_put_u64(j, "config", v->stamps.config);
    json_put_u64(j, "checkpoints", v->stamps.checkpoints);
    json_put_object(j, "status");
    run_status_json(j, v->status);
    run_tags_json(v->tags, j);
    json_close(j);
    json_close(j);
}

static void put_agents(const struct run_status *s, struct json *j)
{
    uint64_t restarts = 0, given_up = 0;

    for (size_t i = 0; i < s->n_agents; i++) {
        restarts += s->agents[i].restarts;
        given_up += s->agents[i].given_up != NULL;
    }
    json_put_u64(j, "agents", s->n_agents);
    json_put_u64(j, "restarts", restarts);
    json_put_u64(j, "given_up", given_up);
}

void run_summary_put(const struct run_view *v, const char *study, const char *began,
                     struct json *j)
{
    static const char *const keys[] = {
        "state",    "exit_code",      "env_steps",       "total_steps",
        "episodes", "total_episodes", "checkpoint_step", "team_return_mean"};

    json_put_str(j, "run", v->name);
    json_put_str(j, "study", study);
    run_status_json_some(j, v->status, keys, sizeof(keys) / sizeof(keys[0]));
    json_put_bool(j, "live", v->is_live);
    json_put_str(j, "began", *began != '\0' ? began : NULL);
    put_agents(v->status, j);
}
